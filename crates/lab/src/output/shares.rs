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
        "queue-length" => ("Queue length", "queue [packets]"),
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

/// What CAKE sent from each of its tins, and of which tins were the ACKs that its filter dropped: in the first
/// run of each point at the first port that has a CAKE, or of a single point at all such ports.
pub fn of_cake(title: &str, points: &[PointResult]) -> Vec<(&'static str, BarChart)> {
    let mut charts = Vec::new();
    for (file, name, key, y_label, divisor) in [
        ("cake-tins", "CAKE's tins", "sent_bytes", "sent [MB]", 1e6),
        ("cake-acks", "ACKs that CAKE filtered", "ack_drops", "ACKs dropped", 1.0),
    ] {
        let (subtitle, found) = cakes_of(points);
        let value = |tin: &Json| Some((tin[key].as_f64()? / divisor, None));
        let groups: Vec<Group> = found
            .into_iter()
            .map(|(label, tins)| Group { label, values: tins.iter().map(value).collect() })
            .collect();
        let most = groups.iter().map(|group| group.values.len()).max().unwrap_or(0);
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
                subtitle,
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

/// What is shown of all CAKEs that there are, in words; and the tins of each, with a name.
fn cakes_of(points: &[PointResult]) -> (String, Vec<(String, &Vec<Json>)>) {
    if let [point] = points {
        let subtitle = point.runs.first().map_or(String::new(), |run| format!("seed {}", run.seed));
        return (subtitle, cakes_at(point));
    }
    let mut subtitle = String::new();
    let mut found = Vec::new();
    for point in points {
        let all = cakes_at(point);
        let of = all.len();
        let Some((port, tins)) = all.into_iter().next() else { continue };
        subtitle = format!("{port}, first run of each");
        if of > 1 {
            subtitle = format!("{subtitle}; the first of {of} ports with a CAKE");
        }
        found.push((point.title("CAKE"), tins));
    }
    (subtitle, found)
}

/// The tins of each CAKE in the first run of a point, with its port.
fn cakes_at(point: &PointResult) -> Vec<(String, &Vec<Json>)> {
    let ports = point.runs.first().map_or(&[][..], |run| run.tc.as_slice());
    ports.iter().filter_map(|tc| Some((tc.port.clone(), cake(&tc.json)?))).collect()
}

/// The tins of a CAKE in what `tc -s -j qdisc show` says.
fn cake(json: &Json) -> Option<&Vec<Json>> {
    let qdiscs = json.as_array()?;
    qdiscs.iter().find(|qdisc| qdisc["kind"] == "cake")?["tins"].as_array()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::{RunResult, TcState};

    fn run(ports: &[&str]) -> RunResult {
        let tc = ports.iter().map(|port| TcState {
            port: (*port).into(),
            json: serde_json::json!([{"kind": "cake", "tins": [
                {"sent_bytes": 1_000_000, "ack_drops": 0}, {"sent_bytes": 2_000_000, "ack_drops": 7},
                {"sent_bytes": 0, "ack_drops": 0},
            ]}]),
            ..TcState::default()
        });
        RunResult { tc: tc.collect(), seed: 4, ..RunResult::default() }
    }

    #[test]
    fn no_cake_is_left_out_unsaid() {
        let ports = ["r.up", "r.down"];
        let point = |label: &str| PointResult {
            labels: vec![("case".into(), label.into())],
            runs: vec![run(&ports)],
        };
        let [(_, tins), (_, acks)] = &of_cake("t", &[point("a")])[..] else { panic!("two charts") };
        let labels = |chart: &BarChart| -> Vec<String> {
            chart.groups.iter().map(|group| group.label.clone()).collect()
        };
        assert_eq!(
            (labels(tins), tins.subtitle.as_str()),
            (ports.map(String::from).to_vec(), "seed 4")
        );
        assert_eq!(tins.groups[1].values[1], Some((2.0, None)));
        assert_eq!(acks.groups[0].values[1], Some((7.0, None)));
        let charts = of_cake("t", &[point("a"), point("b")]);
        assert_eq!(labels(&charts[0].1), ["a", "b"]);
        assert_eq!(
            charts[0].1.subtitle,
            "r.up, first run of each; the first of 2 ports with a CAKE"
        );
    }
}
