//! The directory of an experiment's results: `summary.json`, `series/`, `pcap/`, `plots/`.

pub(crate) mod record;
mod tables;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::plan::{Experiment, Plan};
use crate::plot::{self, Line, LineChart, Scene};
use crate::results::{PointResult, RunResult, Series, summary_json};
use crate::run::{Error, run_name};
use crate::store::{self, Store};
use crate::sweep::Point;

/// Where an experiment's results go.
pub struct Output {
    store: Store,
}

impl Output {
    /// Takes a store for an experiment.
    pub fn new(store: Store) -> Self {
        Self { store }
    }

    /// The files.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// The results in `root` are to go on: of runs of this experiment that are finished there,
    /// everything stays. Returns how many runs that are and how many other files were removed.
    ///
    /// # Errors
    /// When there are files in the way which no earlier run has written; nothing is removed then.
    pub fn resume(
        root: &Path,
        program: &str,
        experiment: &Experiment,
        seed: u64,
        repetitions: u32,
    ) -> Result<(Self, usize, usize), store::Error> {
        let store = Store::create(root)?;
        let mut keep = BTreeSet::new();
        let mut runs = 0;
        // Another program may come to other results.
        if Store::program_of(root).is_some_and(|known| known == program) {
            for point in &experiment.points {
                for repetition in 0..repetitions {
                    let run = run_name(point.slug(), seed.wrapping_add(repetition.into()));
                    if let Some(record) = record::read(&store, &run) {
                        keep.extend(record::files(&record));
                        keep.insert(record::name(&run));
                        runs += 1;
                    }
                }
            }
        }
        let (store, removed) = Store::results_beside(root, program, keep)?;
        Ok((Self { store }, runs, removed))
    }

    /// The run of this plan, if the results have it; what they have of another plan by its name is
    /// removed.
    pub fn known(&self, point: &Point, repetition: u32, plan: &Plan) -> Option<RunResult> {
        let run = run_name(point.slug(), plan.seed);
        let record = record::read(&self.store, &run)?;
        if record["plan"] == record::identity(plan)
            && let Some(run) = record::to_run(&self.store, &record, repetition == 0)
        {
            return Some(run);
        }
        self.store.forget(record::files(&record).iter().chain([&record::name(&run)]));
        None
    }

    /// Stores a run as soon as it has ended. Its series are dropped from the result then, but
    /// for those of the first repetition, which the plots show.
    ///
    /// # Errors
    /// When a file cannot be written.
    pub fn keep(&self, point: &Point, repetition: u32, run: &mut RunResult) -> Result<(), Error> {
        let run_name = run_name(point.slug(), run.seed);
        for series in &run.series {
            let name = record::series_file(&run_name, &series.name);
            let labels = tables::labels(&point.labels, run.seed, series);
            self.store.write_series(&name, series, &labels)?;
            run.files.push(name);
        }
        if !run.flows.is_empty() {
            let (csv, parquet) =
                (format!("flows.csv/{run_name}.csv"), format!("flows.parquet/{run_name}.parquet"));
            self.store.write_table(&csv, &parquet, &tables::flows(&point.labels, run))?;
            run.flows = Vec::new();
            run.files.extend([csv, parquet]);
        }
        if let Some(file) = run.flent.take() {
            let name = format!("flent/{run_name}.flent.gz");
            self.store.write(&name, &file)?;
            run.files.push(name);
        }
        // Last: where it is, all else is.
        let record = format!("{:#}\n", record::of(run));
        self.store.write(&record::name(&run_name), record.as_bytes())?;
        if repetition > 0 {
            run.series.clear();
        }
        Ok(())
    }

    /// Writes the summary and the plots, of what is finished if some runs are not; returns the PNG
    /// files.
    ///
    /// # Errors
    /// When a file cannot be written.
    pub fn finish(
        &self,
        experiment: &Experiment,
        seed: u64,
        points: &[PointResult],
        unfinished: usize,
    ) -> Result<Vec<PathBuf>, store::Error> {
        let plan = &experiment.base;
        let summary = summary_json(&plan.name, &plan.title, seed, points, unfinished);
        self.store.write("summary.json", format!("{summary:#}\n").as_bytes())?;
        self.store.write_table("results.csv", "results.parquet", &tables::results(points))?;
        let mut pictures = Vec::new();
        for (point, result) in experiment.points.iter().zip(points) {
            let Some(run) = result.runs.first() else { continue };
            let subtitle = format!("{}, seed {}", result.title(&plan.name), run.seed);
            let prefix = match point.slug() {
                "" => String::new(),
                slug => format!("{slug}-"),
            };
            for kind in &KINDS {
                if let Some(chart) = chart(kind, &plan.title, &subtitle, &run.series) {
                    let name = format!("{prefix}{}", kind.file);
                    pictures.push(self.picture(&name, &chart.draw())?);
                }
            }
        }
        if let Some(chart) = queue_lengths(&plan.title, points) {
            pictures.push(self.picture("queue-lengths", &chart.draw())?);
        }
        for kind in &KINDS {
            if let Some(chart) = comparison(kind, &plan.title, points) {
                let name = format!("compare-{}", kind.file);
                pictures.push(self.picture(&name, &chart.draw())?);
            }
        }
        self.store.sort_list()?;
        Ok(pictures)
    }

    /// Writes a drawing as `plots/NAME.svg` and `.png`; returns the PNG's path.
    ///
    /// # Errors
    /// When a file cannot be written.
    pub fn picture(&self, name: &str, scene: &Scene) -> Result<PathBuf, store::Error> {
        self.store.write(&format!("plots/{name}.svg"), plot::svg(scene).as_bytes())?;
        let bytes = plot::png(scene).unwrap_or_default();
        self.store.write(&format!("plots/{name}.png"), &bytes)
    }
}

/// One kind of plot over time.
struct Kind {
    file: &'static str,
    title: &'static str,
    /// `flow-`, `latency-` or `port-`.
    of: &'static str,
    column: &'static str,
    y_label: &'static str,
    /// What a value of the column is divided by.
    divisor: f64,
    steps: bool,
}

const KINDS: [Kind; 6] = [
    Kind {
        file: "throughput",
        title: "Throughput",
        of: "flow-",
        column: "throughput_bits_per_sec",
        y_label: "throughput [Mbit/s]",
        divisor: 1e6,
        steps: false,
    },
    Kind {
        file: "cwnd",
        title: "Congestion window",
        of: "flow-",
        column: "cwnd_segments",
        y_label: "congestion window [segments]",
        divisor: 1.0,
        steps: true,
    },
    Kind {
        file: "rtt",
        title: "Smoothed round-trip time",
        of: "flow-",
        column: "srtt_us",
        y_label: "round-trip time [ms]",
        divisor: 1e3,
        steps: true,
    },
    Kind {
        file: "latency",
        title: "Latency",
        of: "latency-",
        column: "round_trip_us",
        y_label: "round trip [ms]",
        divisor: 1e3,
        steps: false,
    },
    Kind {
        file: "queue-delay",
        title: "Queue delay",
        of: "port-",
        column: "queue_delay_us",
        y_label: "queue delay [ms]",
        divisor: 1e3,
        steps: false,
    },
    Kind {
        file: "queue-length",
        title: "Queue length",
        of: "port-",
        column: "queue_packets",
        y_label: "queue [packets]",
        divisor: 1.0,
        steps: true,
    },
];

/// More lines than this are no longer told apart.
const MOST_LINES: usize = 8;

fn chart(kind: &Kind, title: &str, subtitle: &str, series: &[Series]) -> Option<LineChart> {
    let lines: Vec<Line> = series
        .iter()
        .filter_map(|series| {
            let label = series.name.strip_prefix(kind.of)?;
            line(series, label, kind.column, kind.divisor, kind.steps)
        })
        .take(MOST_LINES)
        .collect();
    let known = lines.iter().flat_map(|line| &line.points).any(|(_, y)| y.is_finite());
    known.then(|| LineChart {
        title: format!("{}: {title}", kind.title),
        subtitle: subtitle.into(),
        x_label: "time [s]".into(),
        y_label: kind.y_label.into(),
        lines,
    })
}

/// How long the first queue of every point's first run was how often: the cumulative distribution of
/// the samples of its second half.
fn queue_lengths(title: &str, points: &[PointResult]) -> Option<LineChart> {
    if points.is_empty() || points.len() > MOST_LINES {
        return None;
    }
    let lines: Vec<Line> = points
        .iter()
        .filter_map(|point| {
            let series = &point.runs.first()?.series;
            let port = series.iter().find(|series| series.name.starts_with("port-"))?;
            let values = &port.column("queue_packets")?.values;
            let mut lengths: Vec<i64> =
                values[values.len() / 2..].iter().flatten().copied().collect();
            lengths.sort_unstable();
            let share = |place: usize| (place + 1) as f64 / lengths.len() as f64;
            let steps = lengths.len().div_ceil(BINS).max(1);
            let points = lengths
                .iter()
                .enumerate()
                .filter(|(place, _)| place % steps == 0 || place + 1 == lengths.len())
                .map(|(place, length)| (*length as f64, share(place)))
                .collect();
            Some(Line { label: point.title("queue"), points, steps: true })
        })
        .collect();
    let any = lines.iter().flat_map(|line| &line.points).any(|(length, _)| *length > 0.0);
    any.then(|| LineChart {
        title: format!("Queue length: {title}"),
        subtitle: "share of the samples with at most so many packets, first run of each".into(),
        x_label: "queue [packets]".into(),
        y_label: "share".into(),
        lines,
    })
}

/// The first flow or port of every point's first run in one chart, if there are a few points.
fn comparison(kind: &Kind, title: &str, points: &[PointResult]) -> Option<LineChart> {
    if !(2..=MOST_LINES).contains(&points.len()) {
        return None;
    }
    let lines: Vec<Line> = points
        .iter()
        .filter_map(|point| {
            let series = &point.runs.first()?.series;
            let first = series.iter().find(|series| series.name.starts_with(kind.of))?;
            line(first, &point.title(""), kind.column, kind.divisor, kind.steps)
        })
        .collect();
    let known = lines.iter().flat_map(|line| &line.points).any(|(_, y)| y.is_finite());
    (known && lines.len() > 1).then(|| LineChart {
        title: format!("{}: {title}", kind.title),
        subtitle: "first run of each".into(),
        x_label: "time [s]".into(),
        y_label: kind.y_label.into(),
        lines,
    })
}

/// One column of a series as a line. Rates and delays are means over intervals: neighbours are
/// averaged until at most [`BINS`] are left.
pub fn line(series: &Series, label: &str, column: &str, divisor: f64, steps: bool) -> Option<Line> {
    let values = &series.column(column)?.values;
    let value = |v: Option<i64>| v.map_or(f64::NAN, |v| v as f64 / divisor);
    let seconds = |nanos: i64| nanos as f64 / 1e9;
    let together = if steps { 1 } else { values.len().div_ceil(BINS).max(1) };
    let points = series
        .time_ns
        .chunks(together)
        .zip(values.chunks(together))
        .map(|(times, values)| {
            let known: Vec<f64> =
                values.iter().map(|v| value(*v)).filter(|v| !v.is_nan()).collect();
            let mean = known.iter().sum::<f64>() / known.len() as f64;
            (seconds(times[times.len() - 1]), mean)
        })
        .collect();
    Some(Line { label: label.into(), points, steps })
}

/// Points of a line of means: about one per two pixels.
const BINS: usize = 330;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::Column;

    #[test]
    fn means_are_binned_and_gaps_stay() {
        let series = Series {
            name: "flow-a".into(),
            time_ns: (1..=1000).map(|i| i * 1_000_000).collect(),
            columns: vec![Column {
                name: "throughput_bits_per_sec".into(),
                values: (0..1000).map(|i| (i < 500).then_some(2_000_000)).collect(),
            }],
        };
        let line = line(&series, "a", "throughput_bits_per_sec", 1e6, false).unwrap();
        assert!(line.points.len() <= BINS + 1);
        assert!((line.points[0].1 - 2.0).abs() < 1e-9);
        assert!(line.points.last().unwrap().1.is_nan());
    }
}
