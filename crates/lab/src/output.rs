//! The directory of an experiment's results: `summary.json`, `series/`, `pcap/`, `plots/`.

mod against;
mod chart;
mod over_time;
mod paper;
pub(crate) mod record;
mod shares;
pub mod tables;
mod undrawn;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::plan::plots::{DISTRIBUTIONS, Format, PlotData, PlotPlan};
use crate::plan::{Experiment, Plan};
use crate::plot;
use crate::results::{PointResult, RunResult, summary_json};
use crate::run::{Error, run_name};
use crate::stems::metric_stem;
use crate::store::{self, Store};
use crate::sweep::Point;
use crate::trace::TraceOutputs;

pub use chart::Chart;
pub use over_time::line;
use over_time::{KINDS, Kind, usual};
pub use undrawn::undrawn;

/// Where an experiment's results go.
pub struct Output {
    store: Store,
    choice: PlotOptions,
    /// Runs have what the viewer shows besides.
    viewed: bool,
}

/// The file that holds the record of a run, written last: where it is, all else of the run is.
pub fn record_name(run: &str) -> String {
    record::name(run)
}

/// The user's options for plots.
#[derive(Clone, Debug, Default)]
pub struct PlotOptions {
    /// Patterns of the flows that are drawn; all if empty.
    pub flows: Vec<String>,
    /// What pictures are written as; SVG and PNG if empty.
    pub formats: Vec<Format>,
    /// What stands above pictures for which the file says nothing: nothing if empty, as usual if not said.
    pub title: Option<String>,
}

impl Output {
    /// Takes a store for an experiment.
    pub fn new(store: Store) -> Self {
        Self { store, choice: PlotOptions::default(), viewed: false }
    }

    /// The same with plots as the user has chosen them.
    #[must_use]
    pub fn choosing(self, choice: PlotOptions) -> Self {
        Self { choice, ..self }
    }

    /// The same, where what `ackwright view` shows besides is recorded or not: a run that is known has it as
    /// well, or has not.
    #[must_use]
    pub fn viewing(self, viewed: bool) -> Self {
        Self { viewed, ..self }
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
        let (store, removed) = Store::results_keeping(root, program, keep)?;
        Ok((Self::new(store), runs, removed))
    }

    /// The run of this plan, if the results have it; what they have of another plan by its name is
    /// removed.
    pub fn known(&self, point: &Point, repetition: u32, plan: &Plan) -> Option<RunResult> {
        let run = run_name(point.slug(), plan.seed);
        let record = record::read(&self.store, &run)?;
        let first = repetition == 0;
        let view = self.viewed && first;
        let seen = TraceOutputs { view, ..TraceOutputs::default() };
        if record["plan"] == record::identity(plan, &seen)
            && record["first"] == first
            && let Some(run) = record::to_run(&self.store, &record, first)
        {
            return Some(run);
        }
        self.store.remove(record::files(&record).iter().chain([&record::name(&run)]));
        None
    }

    /// Runs that other processes are going to bring here: whatever becomes of this one, their files are
    /// known as results.
    ///
    /// # Errors
    /// When the list cannot be written.
    pub fn expect<'a>(
        &self,
        runs: impl IntoIterator<Item = (&'a Point, u64)>,
    ) -> Result<(), store::Error> {
        let names =
            runs.into_iter().map(|(point, seed)| record::name(&run_name(point.slug(), seed)));
        self.store.note(names)
    }

    /// The run of this plan that another process has brought here, if it is whole; from now on its
    /// files are listed.
    ///
    /// # Errors
    /// When the list cannot be written.
    pub fn adopt(
        &self,
        point: &Point,
        repetition: u32,
        plan: &Plan,
    ) -> Result<Option<RunResult>, store::Error> {
        let Some(run) = self.known(point, repetition, plan) else { return Ok(None) };
        self.store.note(run.files.iter().cloned().chain([record::name(&run.name)]))?;
        Ok(Some(run))
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
        if repetition > 0 {
            run.distributions.clear();
        }
        // Last: where it is, all else is.
        let record = format!("{:#}\n", record::of(&self.store, run, repetition == 0));
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
        self.write_paper(experiment, points)?;
        let mut pictures = Vec::new();
        let plots = self.plots(plan);
        for (point, result) in experiment.points.iter().zip(points) {
            for plot in &plots {
                pictures.extend(self.of_point(plot, plan, point, result)?);
            }
        }
        for plot in &plots {
            pictures.extend(self.of_sweep(plot, plan, points)?);
        }
        if plan.plots.is_empty() {
            for (file, chart) in shares::of_cake(&plan.title, points) {
                pictures.push(self.chart(file, &self.titled(chart), &[])?);
            }
            let usual = crate::report::headlines(points);
            let table = &plan.measure.table;
            for metric in if table.is_empty() { &usual } else { table } {
                pictures.extend(self.swept(plan, metric, None, points, None)?);
            }
        }
        self.store.sort_list()?;
        Ok(pictures)
    }

    /// Writes the table that the terminal shows, as CSV and as LaTeX.
    fn write_paper(
        &self,
        experiment: &Experiment,
        points: &[PointResult],
    ) -> Result<(), store::Error> {
        let (plan, axes) = (&experiment.base, experiment.axis_names());
        let wanted = &plan.measure.table;
        let latex = paper::latex(&plan.title, &axes, points, wanted);
        self.store.write("table.tex", latex.as_bytes())?;
        self.store.write_csv("table.csv", &paper::csv(&axes, points, wanted)).map(drop)
    }

    /// What is drawn: what the file says, or what is usual.
    fn plots(&self, plan: &Plan) -> Vec<PlotPlan> {
        let mut plots = if plan.plots.is_empty() { usual_plots() } else { plan.plots.clone() };
        for plot in &mut plots {
            plot.title = plot.title.take().or_else(|| self.choice.title.clone());
            if let PlotData::Time("throughput" | "cwnd" | "rtt" | "latency") = plot.what
                && plot.scopes.is_empty()
            {
                plot.scopes.clone_from(&self.choice.flows);
            }
        }
        plots
    }

    /// A plot of the first run of one point, if there is something to show.
    fn of_point(
        &self,
        plot: &PlotPlan,
        plan: &Plan,
        point: &Point,
        result: &PointResult,
    ) -> Result<Option<PathBuf>, store::Error> {
        let Some(run) = result.runs.first() else { return Ok(None) };
        let subtitle = format!("{}, seed {}", result.title(&plan.name), run.seed);
        let chart = match &plot.what {
            PlotData::Time(word) => kind(word)
                .and_then(|kind| over_time::chart(kind, plot, &plan.title, &subtitle, &run.series)),
            PlotData::Cdf(word) => {
                let shows = |scope: &str| plot.shows(scope);
                shares::of_run(word, &plan.title, &subtitle, &run.distributions, &shows)
            }
            PlotData::Metric(_) => None,
        };
        let prefix = match point.slug() {
            "" => String::new(),
            slug => format!("{slug}-"),
        };
        let name = format!("{prefix}{}", plot.name);
        let chart = chart.map(|chart| Chart::from(chart).of_plan(plot));
        chart.map(|chart| self.chart(&name, &chart, &plot.formats)).transpose()
    }

    /// A plot of all points, if there are several; a metric is drawn of one, too.
    fn of_sweep(
        &self,
        plot: &PlotPlan,
        plan: &Plan,
        points: &[PointResult],
    ) -> Result<Vec<PathBuf>, store::Error> {
        if points.len() < 2 && !matches!(plot.what, PlotData::Metric(_)) {
            return Ok(Vec::new());
        }
        let shows = |scope: &str| plot.shows(scope);
        let chart = match &plot.what {
            PlotData::Time(word) => {
                kind(word).and_then(|kind| over_time::comparison(kind, plot, &plan.title, points))
            }
            PlotData::Cdf(word) => shares::of_points(word, &plan.title, points, &shows),
            PlotData::Metric(metric) => {
                return self.swept(plan, metric, plot.against.as_deref(), points, Some(plot));
            }
        };
        let name = format!("compare-{}", plot.name);
        let chart = chart.map(|chart| Chart::from(chart).of_plan(plot));
        let shown = chart.map(|chart| self.chart(&name, &chart, &plot.formats));
        Ok(shown.transpose()?.into_iter().collect())
    }

    /// A metric over the sweep.
    fn swept(
        &self,
        plan: &Plan,
        metric: &str,
        axis: Option<&str>,
        points: &[PointResult],
        plot: Option<&PlotPlan>,
    ) -> Result<Vec<PathBuf>, store::Error> {
        let own = format!("sweep-{}", metric_stem(metric));
        let name = plot.map_or(own, |plot| plot.name.clone());
        let formats = plot.map_or(&[][..], |plot| &plot.formats);
        let as_asked = |chart: Chart| match plot {
            Some(plot) => chart.of_plan(plot),
            None => self.titled(chart),
        };
        let mut pictures = Vec::new();
        // Who asks for a picture gets one, of a single bar if need be.
        let alone = plot.is_some();
        if let Some(chart) = against::chart(&plan.title, metric, axis, points, alone) {
            pictures.push(self.chart(&name, &as_asked(chart.into()), formats)?);
        }
        if let Some(map) = against::heat_map(&plan.title, metric, points) {
            pictures.push(self.chart(&format!("{name}-map"), &as_asked(map.into()), formats)?);
        }
        Ok(pictures)
    }

    /// A chart below the title that the user has chosen, if so.
    pub(crate) fn titled(&self, chart: impl Into<Chart>) -> Chart {
        chart.into().titled(self.choice.title.as_deref())
    }

    /// Writes a chart as `plots/NAME` in these formats, or the usual ones, and its data as CSV beside
    /// it; returns the path of the PNG, or else of what was written first.
    ///
    /// # Errors
    /// When a file cannot be written.
    pub fn chart(
        &self,
        name: &str,
        chart: &Chart,
        formats: &[Format],
    ) -> Result<PathBuf, store::Error> {
        let csv = self.store.root().join(format!("plots/{name}.csv"));
        let data = chart.data().csv().map_err(|problem| store::Error { path: csv, problem })?;
        self.store.write(&format!("plots/{name}.csv"), &data)?;
        let scene = chart.draw();
        let usual: &[Format] = &[Format::Svg, Format::Png];
        let chosen = [formats, &self.choice.formats, usual];
        let formats = chosen.into_iter().find(|formats| !formats.is_empty()).unwrap_or(usual);
        let mut shown = None;
        for format in formats {
            let (end, bytes) = match format {
                Format::Svg => ("svg", plot::svg(&scene).into_bytes()),
                Format::Png => ("png", plot::png(&scene).unwrap_or_default()),
                Format::Pdf => ("pdf", plot::pdf(&scene)),
            };
            let path = self.store.write(&format!("plots/{name}.{end}"), &bytes)?;
            if shown.is_none() || *format == Format::Png {
                shown = Some(path);
            }
        }
        Ok(shown.unwrap_or_default())
    }
}

/// What is drawn where the file says nothing.
fn usual_plots() -> Vec<PlotPlan> {
    let cdf = |word: &&'static str| PlotPlan {
        name: format!("{word}-cdf"),
        what: PlotData::Cdf(word),
        ..usual(&KINDS[0])
    };
    KINDS.iter().map(usual).chain(DISTRIBUTIONS.iter().map(cdf)).collect()
}

fn kind(word: &str) -> Option<&'static Kind> {
    KINDS.iter().find(|kind| kind.word == word)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plot::{BarChart, HeatMap, LineChart};

    #[test]
    fn charts_of_every_form_have_the_size_that_a_plot_asks_for() {
        let bars = BarChart {
            title: String::new(),
            subtitle: String::new(),
            y_label: String::new(),
            stacked: false,
            series: Vec::new(),
            groups: Vec::new(),
            size: [0.0; 2],
        };
        for (asked, box_) in [([1100.0, 300.0], "0 0 1100 300"), ([0.0; 2], "0 0 760 400")] {
            let charts: [Chart; 3] =
                [LineChart::default().into(), bars.clone().into(), HeatMap::default().into()];
            for chart in charts {
                let drawn = plot::svg(&chart.sized(asked).draw());
                assert!(drawn.contains(&format!("viewBox=\"{box_}\"")), "{drawn}");
            }
        }
    }
}
