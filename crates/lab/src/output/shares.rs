//! Distributions, and what CAKE's tins and ACK filter did.

use serde_json::Value as Json;

use crate::plot::{BarChart, Group, Line, LineChart};
use crate::results::{Distribution, PointResult};

use super::over_time::MOST_LINES;

/// Title, axis, and what a value is called, of each distribution.
fn words(what: &str) -> (&'static str, &'static str) {
    match what {
        "fct" => ("Flow completion time", "completion time [ms]"),
        "slowdown" => ("Slowdown", "slowdown over the empty network"),
        "latency" => ("Latency", "round trip [ms]"),
        _ => ("Queue delay", "queue delay [ms]"),
    }
}

fn line(label: String, one: &Distribution) -> Line {
    let parts = (one.quantiles.len() - 1).max(1) as f64;
    let points = one.quantiles.iter().enumerate();
    let points = points.map(|(place, value)| (*value, place as f64 / parts)).collect();
    Line { label, points, ..Line::default() }
}

/// Distributions of one run, by flow, group, workload or port.
pub fn of_run(
    what: &str,
    title: &str,
    subtitle: &str,
    all: &[Distribution],
    shows: &dyn Fn(&str) -> bool,
) -> Option<LineChart> {
    let found = || all.iter().filter(|one| one.what == what);
    let shown: Vec<&Distribution> = found().filter(|one| shows(&one.scope)).collect();
    let lines: Vec<Line> =
        shown.iter().take(MOST_LINES).map(|one| line(one.scope.clone(), one)).collect();
    let mut subtitle = subtitle.to_owned();
    if found().count() > lines.len() {
        subtitle = format!("{subtitle}; {} of {}", lines.len(), found().count());
    } else if let [one] = shown.as_slice() {
        subtitle = format!("{subtitle}; {}", one.scope);
    }
    chart(what, title, subtitle, lines)
}

/// The same distribution of each point's first run.
pub fn of_points(
    what: &str,
    title: &str,
    points: &[PointResult],
    shows: &dyn Fn(&str) -> bool,
) -> Option<LineChart> {
    let all = |point: &PointResult| -> Vec<Distribution> {
        let run = point.runs.first();
        run.map_or(Vec::new(), |run| run.distributions.clone())
    };
    let fits = |one: &Distribution| one.what == what && shows(&one.scope);
    let scope = points.iter().find_map(|point| all(point).into_iter().find(fits))?.scope;
    let lines: Vec<Line> = points
        .iter()
        .filter_map(|point| {
            let own = all(point).into_iter().find(|one| one.what == what && one.scope == scope)?;
            Some(line(point.title(""), &own))
        })
        .collect();
    let mut subtitle = format!("{scope}, first run of each");
    if lines.len() > MOST_LINES {
        subtitle = format!("{subtitle}; the first {MOST_LINES} of {} points", lines.len());
    }
    let lines: Vec<Line> = lines.into_iter().take(MOST_LINES).collect();
    if lines.len() < 2 { None } else { chart(what, title, subtitle, lines) }
}

fn chart(what: &str, title: &str, subtitle: String, lines: Vec<Line>) -> Option<LineChart> {
    let (name, x_label) = words(what);
    (!lines.is_empty()).then(|| LineChart {
        title: format!("{name}: {title}"),
        subtitle,
        x_label: x_label.into(),
        y_label: "share of at most so much".into(),
        lines,
        ..LineChart::default()
    })
}

/// What CAKE sent from each of its tins, and which ACKs its filter dropped, point by point: the first
/// run of each, the first port that has a CAKE.
pub fn of_cake(title: &str, points: &[PointResult]) -> Vec<(&'static str, BarChart)> {
    let mut charts = Vec::new();
    for (file, name, key, y_label, divisor) in [
        ("cake-tins", "CAKE's tins", "sent_bytes", "sent [MB]", 1e6),
        ("cake-acks", "ACKs that CAKE filtered", "ack_drops", "ACKs dropped", 1.0),
    ] {
        let (mut groups, mut most, mut port) = (Vec::new(), 0, String::new());
        for point in points {
            let Some(run) = point.runs.first() else { continue };
            let found = run.tc.iter().find_map(|tc| Some((tc, cake(&tc.json)?)));
            let Some((tc, tins)) = found else { continue };
            port.clone_from(&tc.port);
            let value = |tin: &Json| Some((tin[key].as_f64()? / divisor, None));
            let values: Vec<_> = tins.iter().map(value).collect();
            most = most.max(values.len());
            groups.push(Group { label: point.title("CAKE"), values });
        }
        let sum: f64 = groups.iter().flat_map(|group| &group.values).flatten().map(|it| it.0).sum();
        if sum == 0.0 || (key == "sent_bytes" && most < 2) {
            continue;
        }
        let names: Vec<String> = match most {
            1 => vec!["all".into()],
            3 => ["Bulk", "Best Effort", "Voice"].map(String::from).to_vec(),
            4 => ["Bulk", "Best Effort", "Video", "Voice"].map(String::from).to_vec(),
            many => (0..many).map(|tin| format!("tin {tin}")).collect(),
        };
        charts.push((
            file,
            BarChart {
                title: format!("{name}: {title}"),
                subtitle: format!("{port}, first run of each"),
                y_label: y_label.into(),
                stacked: true,
                series: names,
                groups,
                size: [0.0; 2],
            },
        ));
    }
    charts
}

/// The tins of a CAKE in what `tc -s -j qdisc show` says.
fn cake(json: &Json) -> Option<&Vec<Json>> {
    let qdiscs = json.as_array()?;
    qdiscs.iter().find(|qdisc| qdisc["kind"] == "cake")?["tins"].as_array()
}
