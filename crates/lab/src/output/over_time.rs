//! Plots over time, of one run or of the first run of each point.

use std::sync::Arc;

use crate::plan::plots::{BINS, LINES_MAX, PlotData, PlotPlan, Style};
use crate::plot::{Band, Line, LineChart};
use crate::results::{PointResult, Series};
use crate::stats::quantile;

/// One kind of plot over time.
#[derive(Clone, Copy)]
pub struct Kind {
    /// Its word, and its files.
    pub word: &'static str,
    title: &'static str,
    /// `flow-`, `latency-`, `port-` or `link-`.
    of: &'static str,
    /// What those are called, many of them.
    things: &'static str,
    column: &'static str,
    y_label: &'static str,
    /// What a value of the column is divided by.
    divisor: f64,
    steps: bool,
}

#[rustfmt::skip]
pub const KINDS: [Kind; 7] = [
    Kind { word: "throughput", title: "Throughput", of: "flow-", things: "flows", column: "throughput_bits_per_sec", y_label: "throughput [Mbit/s]", divisor: 1e6, steps: false },
    Kind { word: "cwnd", title: "Congestion window", of: "flow-", things: "flows", column: "cwnd_segments", y_label: "congestion window [segments]", divisor: 1.0, steps: true },
    Kind { word: "rtt", title: "Smoothed round-trip time", of: "flow-", things: "flows", column: "srtt_us", y_label: "round-trip time [ms]", divisor: 1e3, steps: true },
    Kind { word: "latency", title: "Latency", of: "latency-", things: "flows", column: "round_trip_us", y_label: "round trip [ms]", divisor: 1e3, steps: false },
    Kind { word: "queue-delay", title: "Queue delay", of: "port-", things: "ports", column: "queue_delay_us", y_label: "queue delay [ms]", divisor: 1e3, steps: false },
    Kind { word: "queue-length", title: "Queue length", of: "port-", things: "ports", column: "queue_packets", y_label: "queue [packets]", divisor: 1.0, steps: true },
    Kind { word: "utilisation", title: "Use of links", of: "link-", things: "links", column: "utilisation_ppm", y_label: "utilisation [%]", divisor: 1e4, steps: false },
];

/// More lines than this are no longer told apart.
pub const MOST_LINES: usize = 8;

/// What is drawn where nothing is said.
pub fn usual(kind: &Kind) -> PlotPlan {
    PlotPlan {
        name: kind.word.into(),
        what: PlotData::Time(kind.word),
        title: None,
        scopes: Vec::new(),
        style: Style::Auto,
        bins: None,
        size: [0.0; 2],
        formats: Vec::new(),
        against: None,
    }
}

/// The plot of one run; none if nothing is known of what it would show.
pub fn chart(
    kind: &Kind,
    plot: &PlotPlan,
    title: &str,
    subtitle: &str,
    series: &[Series],
) -> Option<LineChart> {
    let all = series.iter().filter_map(|one| Some((one.name.strip_prefix(kind.of)?, one)));
    let all: Vec<(&str, &Series)> = all.filter(|(_, one)| is_known(kind, one)).collect();
    let shown: Vec<(&str, &Series)> =
        all.iter().copied().filter(|(name, _)| plot.shows(name)).collect();
    if shown.is_empty() {
        return None;
    }
    let few =
        if plot.style == Style::Lines || !plot.scopes.is_empty() { LINES_MAX } else { MOST_LINES };
    let mut chart = LineChart {
        title: format!("{}: {title}", kind.title),
        x_label: "time [s]".into(),
        y_label: kind.y_label.into(),
        ..LineChart::default()
    };
    let mut note = Vec::new();
    if let [(name, _)] = shown.as_slice() {
        note.push(format!("{} {name}", kind.things.trim_end_matches('s')));
    }
    if shown.len() < all.len() {
        note.push(format!("{} of {} {}", shown.len(), all.len(), kind.things));
    }
    if plot.style == Style::Bands || (plot.style == Style::Auto && shown.len() > few) {
        note.push(format!("{} {} together", shown.len(), kind.things));
        let series: Vec<&Series> = shown.iter().map(|(_, series)| *series).collect();
        (chart.bands, chart.lines) = bands(kind, &series, plot.bins.unwrap_or(BINS));
    } else {
        if shown.len() > few {
            note.push(format!("the first {few} of {} {}", shown.len(), kind.things));
        }
        let lines = shown.iter().take(few);
        chart.lines = lines.filter_map(|(name, one)| of_kind(kind, one, name, plot.bins)).collect();
    }
    note.insert(0, subtitle.into());
    chart.subtitle = note.join("; ");
    Some(chart)
}

/// The flows, ports or links of which a run has what a word draws.
pub fn things<'a>(word: &str, series: &'a [Series]) -> Vec<&'a str> {
    let kind = KINDS.iter().find(|kind| kind.word == word);
    kind.map_or(Vec::new(), |kind| {
        let known = series.iter().filter(|one| is_known(kind, one));
        known.filter_map(|one| one.name.strip_prefix(kind.of)).collect()
    })
}

/// Something would be drawn: of a flow, of the time from its beginning to its end.
fn is_known(kind: &Kind, series: &Series) -> bool {
    let values = series.column(kind.column).map(|column| &column.values);
    // A column whose values cannot be known has none at all.
    let values = values.filter(|values| !values.is_empty());
    values.is_some_and(|values| values.range(series.life()).any(|value| value.is_some()))
}

/// The same flow, port or link of every point's first run in one chart.
pub fn comparison(
    kind: &Kind,
    plot: &PlotPlan,
    title: &str,
    points: &[PointResult],
) -> Option<LineChart> {
    let named = |series: &Series| {
        let name = series.name.strip_prefix(kind.of)?;
        (plot.shows(name) && is_known(kind, series)).then(|| name.to_owned())
    };
    let first = |point: &PointResult| point.runs.first()?.series.iter().find_map(named);
    let name = points.iter().find_map(first)?;
    let whole = format!("{}{name}", kind.of);
    let found: Vec<(&PointResult, &Series)> = points
        .iter()
        .filter_map(|point| {
            let series = &point.runs.first()?.series;
            Some((point, series.iter().find(|series| series.name == whole)?))
        })
        .collect();
    let lines = found.iter().take(MOST_LINES);
    let lines: Vec<Line> =
        lines.filter_map(|(point, one)| of_kind(kind, one, &point.title(""), plot.bins)).collect();
    let thing = kind.things.trim_end_matches('s');
    let mut subtitle = format!("{thing} {name}, first run of each");
    if found.len() > lines.len() {
        subtitle = format!("{subtitle}; the first {} of {} points", lines.len(), found.len());
    }
    let others = points.iter().filter_map(|point| Some(point.runs.first()?.series.iter()));
    let others = others.map(|series| series.filter(|one| named(one).is_some()).count()).max();
    if let Some(others) = others.filter(|others| *others > 1) {
        subtitle = format!("{subtitle}; one of {others} {}", kind.things);
    }
    (lines.len() > 1).then(|| LineChart {
        title: format!("{}: {title}", kind.title),
        subtitle,
        x_label: "time [s]".into(),
        y_label: kind.y_label.into(),
        lines,
        ..LineChart::default()
    })
}

/// What holds its value until it changes is drawn as it is, unless the plot says how finely.
fn of_kind(kind: &Kind, series: &Series, label: &str, bins: Option<usize>) -> Option<Line> {
    let bins = bins.unwrap_or(if kind.steps { usize::MAX } else { BINS });
    let mut line = line(series, label, kind.column, kind.divisor, kind.steps, bins)?;
    for (before, after) in silences(kind, series) {
        let [before, after] = [before, after].map(|nanos| nanos as f64 / 1e9);
        let place = line.points.partition_point(|(time, _)| *time < after);
        line.points.insert(place, (before, f64::NAN));
    }
    Some(line)
}

/// The times in which probes were not answered, each by the answers around it: a line across them would tell of
/// round trips that nobody saw. Between an answer and the next question that had one lies more than four
/// times what usually lies between two such questions; who waits for an answer with the next question has none.
fn silences(kind: &Kind, series: &Series) -> Vec<(i64, i64)> {
    let took = series.column(kind.column).filter(|_| kind.of == "latency-");
    let took = took.map_or(Vec::new(), |column| column.values.iter().collect());
    let ended = &series.time_ns;
    let asked: Vec<i64> =
        ended.iter().zip(took).map(|(ended, micros)| ended - 1000 * micros.unwrap_or(0)).collect();
    let mut gaps: Vec<f64> = asked.windows(2).map(|pair| (pair[1] - pair[0]) as f64).collect();
    let Some(usual) = quantile(&mut gaps, 0.5) else { return Vec::new() };
    let silent = |at: &usize| (asked[at + 1] - ended[*at]) as f64 > 4.0 * usual;
    (0..gaps.len()).filter(silent).map(|at| (ended[at], ended[at + 1])).collect()
}

/// One column of a series as a line, which begins and ends where a flow does. Rates and delays are means
/// over intervals: neighbours are averaged until at most so many are left as there are `bins`.
pub fn line(
    series: &Series,
    label: &str,
    column: &str,
    divisor: f64,
    steps: bool,
    bins: usize,
) -> Option<Line> {
    let values = &series.column(column)?.values;
    let value = |v: Option<i64>| v.map_or(f64::NAN, |v| v as f64 / divisor);
    let seconds = |nanos: i64| nanos as f64 / 1e9;
    let together = values.len().div_ceil(bins).max(1);
    let life = series.life();
    // The sample before the first shows from where it rises; and all flows are cut at the same times.
    let life = life.start.saturating_sub(1) / together * together..life.end;
    let values: Vec<_> = values.range(life.clone()).collect();
    let points = series.time_ns[life]
        .chunks(together)
        .zip(values.chunks(together))
        .map(|(times, values)| {
            let known: Vec<f64> =
                values.iter().map(|v| value(*v)).filter(|v| !v.is_nan()).collect();
            let mean = known.iter().sum::<f64>() / known.len() as f64;
            (seconds(times[times.len() - 1]), mean)
        })
        .collect();
    Some(Line { label: label.into(), points, steps, ..Line::default() })
}

/// Of many series: the median of those that have a value at a time, and what half of them and nine
/// tenths lie between.
fn bands(kind: &Kind, series: &[&Series], bins: usize) -> (Vec<Band>, Vec<Line>) {
    let last =
        series.iter().filter_map(|one| one.time_ns.last()).max().copied().unwrap_or(1).max(1);
    let bins = bins.min(series.iter().map(|one| one.time_ns.len()).max().unwrap_or(1)).max(1);
    let bin = |time: &i64| {
        let place = ((time - 1).max(0) as i128 * bins as i128 / i128::from(last)) as usize;
        place.min(bins - 1)
    };
    let mut values: Vec<Vec<f64>> = vec![Vec::new(); bins];
    // The series of a run have their times in common.
    let mut latest: Option<(&Arc<[i64]>, Vec<usize>)> = None;
    for one in series {
        let Some(column) = one.column(kind.column) else { continue };
        let known = latest.take().filter(|(times, _)| Arc::ptr_eq(times, &one.time_ns));
        let (_, places) = latest
            .insert(known.unwrap_or_else(|| (&one.time_ns, one.time_ns.iter().map(bin).collect())));
        let mut sums = vec![(0.0, 0u32); bins];
        let life = one.life();
        for (place, value) in places[life.clone()].iter().zip(column.values.range(life)) {
            let Some(value) = value else { continue };
            let sum = &mut sums[*place];
            *sum = (sum.0 + value as f64 / kind.divisor, sum.1 + 1);
        }
        for ((sum, count), values) in sums.into_iter().zip(&mut values) {
            if count > 0 {
                values.push(sum / f64::from(count));
            }
        }
    }
    let at = |place: usize| (place + 1) as f64 * last as f64 / bins as f64 / 1e9;
    let mut of = |share: f64| -> Vec<f64> {
        values.iter_mut().map(|values| quantile(values, share).unwrap_or(f64::NAN)).collect()
    };
    let [p5, p25, p50, p75, p95] = [0.05, 0.25, 0.5, 0.75, 0.95].map(&mut of);
    let band = |label: &str, low: &[f64], high: &[f64]| Band {
        label: label.into(),
        points: (0..bins).map(|place| (at(place), low[place], high[place])).collect(),
    };
    let points = (0..bins).map(|place| (at(place), p50[place])).collect();
    let median = Line { label: "median".into(), points, ..Line::default() };
    (vec![band("5 % to 95 %", &p5, &p95), band("25 % to 75 %", &p25, &p75)], vec![median])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::Column;

    fn flow(name: &str, values: Vec<Option<i64>>) -> Series {
        Series {
            name: format!("flow-{name}"),
            time_ns: (1..=values.len() as i64).map(|i| i * 1_000_000).collect(),
            columns: vec![Column { name: "throughput_bits_per_sec".into(), values: values.into() }],
        }
    }

    #[test]
    fn means_are_binned_and_a_flow_is_drawn_while_it_lasts() {
        let busy = |i| (200..500).contains(&i);
        let values = (0..1000).map(|i| Some(if busy(i) { 2_000_000 } else { 0 })).collect();
        let series = flow("a", values);
        let all = line(&series, "a", "throughput_bits_per_sec", 1e6, false, 1000).unwrap().points;
        assert_eq!((all[0], all[1]), ((0.2, 0.0), (0.201, 2.0)), "nothing before its beginning");
        assert_eq!((all.len(), *all.last().unwrap()), (301, (0.5, 2.0)), "nothing behind its end");
        let few = line(&series, "a", "throughput_bits_per_sec", 1e6, false, 100).unwrap().points;
        assert_eq!((few[0], few[1], few.len()), ((0.2, 0.0), (0.21, 2.0), 31));
    }

    #[test]
    fn flows_that_are_not_there_yet_count_for_nothing_among_many() {
        let late = |n: usize| {
            let values = (0..100).map(|i| Some(if i < n { 0 } else { 4_000_000 })).collect();
            flow(&format!("f-{n}"), values)
        };
        let flows: Vec<Series> = (0..20).map(|n| late(4 * n)).collect();
        let plot = PlotPlan { bins: Some(100), ..usual(&KINDS[0]) };
        let chart = chart(&KINDS[0], &plot, "t", "seed 1", &flows).unwrap();
        assert!(
            chart.lines[0].points.iter().all(|(_, y)| (*y - 4.0).abs() < 1e-9),
            "{:?}",
            chart.lines
        );
    }

    /// A frame without a point in it tells nothing.
    #[test]
    fn nothing_is_drawn_of_flows_that_never_lived() {
        let (idle, busy) = (flow("a", vec![Some(0); 10]), flow("b", vec![Some(1); 10]));
        let plot = usual(&KINDS[0]);
        let drawn = |series: &[Series]| chart(&KINDS[0], &plot, "t", "seed 1", series);
        assert_eq!(drawn(std::slice::from_ref(&idle)).map(|chart| chart.subtitle), None);
        assert!(things("throughput", std::slice::from_ref(&idle)).is_empty());
        let both = drawn(&[idle, busy]).map(|chart| chart.subtitle);
        assert_eq!(both.as_deref(), Some("seed 1; flow b"));
    }

    /// While a link is down nothing is answered, and no line goes across; a long answer leaves no gap.
    #[test]
    fn a_line_of_latencies_ends_where_nothing_is_answered() {
        let kind = KINDS.iter().find(|kind| kind.word == "latency").expect("a kind");
        let drawn = |answers: &[(i64, i64)]| {
            let series = Series {
                name: "latency-p".into(),
                time_ns: answers.iter().map(|(asked, took)| (asked + took) * 1_000_000).collect(),
                columns: vec![Column {
                    name: "round_trip_us".into(),
                    values: answers.iter().map(|(_, took)| Some(took * 1000)).collect(),
                }],
            };
            let points = of_kind(kind, &series, "p", None).unwrap().points;
            points.iter().map(|(time, value)| (time * 1e3) as i64 * value.signum() as i64).collect()
        };
        let every_50: Vec<(i64, i64)> = (0..10).map(|n| (50 * n, 20)).collect();
        let mut cut = every_50.clone();
        cut.extend((30..33).map(|n| (50 * n, 20)));
        let mut expected: Vec<i64> = (0..10).map(|n| 50 * n + 20).collect();
        assert_eq!(drawn(&every_50), expected);
        expected.extend([0, 1520, 1570, 1620]);
        assert_eq!(drawn(&cut), expected);
        let waits = [(0, 20), (30, 20), (60, 20), (90, 3000), (3100, 20), (3130, 20)];
        let times: Vec<i64> = drawn(&waits);
        assert!(!times.contains(&0), "{times:?}");
    }

    #[test]
    fn windows_are_drawn_as_finely_as_is_asked() {
        let series = flow("a", (0..1000).map(|i| Some(i + 1)).collect());
        let window = Kind { steps: true, divisor: 1.0, ..KINDS[0] };
        let points = |bins| of_kind(&window, &series, "a", bins).unwrap().points;
        assert_eq!(points(None).len(), 1000);
        assert_eq!(points(Some(10)).len(), 10);
        assert_eq!(points(Some(10))[0], (0.1, 50.5));
    }

    #[test]
    fn what_is_left_out_is_said() {
        let all: Vec<Series> =
            (0..20).map(|n| flow(&format!("f-{n}"), vec![Some(n + 1); 10])).collect();
        let plot = usual(&KINDS[0]);
        let many = chart(&KINDS[0], &plot, "t", "seed 1", &all).unwrap();
        assert_eq!((many.bands.len(), many.lines.len()), (2, 1));
        assert_eq!(many.subtitle, "seed 1; 20 flows together");
        let chosen = PlotPlan { scopes: vec!["f-1*".into()], ..plot.clone() };
        let some = chart(&KINDS[0], &chosen, "t", "seed 1", &all).unwrap();
        assert_eq!((some.bands.len(), some.lines.len()), (0, 11));
        assert_eq!(some.subtitle, "seed 1; 11 of 20 flows");
        let one = chart(&KINDS[0], &plot, "t", "seed 1", &all[..1]).unwrap();
        assert_eq!(one.subtitle, "seed 1; flow f-0");
        let chosen = PlotPlan { scopes: vec!["f-7".into()], ..plot.clone() };
        let one = chart(&KINDS[0], &chosen, "t", "seed 1", &all).unwrap();
        assert_eq!(one.subtitle, "seed 1; flow f-7; 1 of 20 flows");
    }
}
