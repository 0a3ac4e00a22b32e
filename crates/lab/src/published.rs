//! What was published and what a real kernel does: `experiments/published/NAME.toml`.

use crate::multipath;
use crate::plan::doc::{Document, Kind, Node};
use crate::plan::read::{Faults, Reader};
use crate::plan::{Diagnostics, Experiment};
use crate::results::PointResult;
use crate::sweep::Value;

/// An experiment that comes with the program.
pub struct Shipped {
    /// Its name.
    pub name: &'static str,
    /// `experiments/NAME.toml`.
    pub experiment: &'static str,
    /// `experiments/published/NAME.toml`.
    pub published: &'static str,
}

macro_rules! shipped {
    ($($name:literal,)+) => {
        &[$(Shipped {
            name: $name,
            experiment: include_str!(concat!("../experiments/", $name, ".toml")),
            published: include_str!(concat!("../experiments/published/", $name, ".toml")),
        }),+]
    };
}

/// The experiments that can be reproduced. One name a line, in alphabetical order.
pub const SHIPPED: &[Shipped] = shipped! {
    "cake-ack-filter",
    "cake-ack-filter-100k",
    "cake-ack-filter-symmetric",
    "cake-ack-loss",
    "dctcp-convergence",
    "dctcp-incast",
    "dctcp-incast-100m",
    "dctcp-query",
    "dctcp-queue",
    "dctcp-scaled",
    "dctcp-syn-ect",
    "dctcp-threshold",
    "ecmp-failure",
    "fct-load",
    "incast-rto",
    "lost-retransmit",
    "multipath",
    "plb",
    "policer",
    "protective-reroute",
    "rrul",
    "rrul_be",
    "tcp_nup",
};

/// One published experiment.
#[derive(Clone, Debug)]
pub struct Publication {
    /// Its name, and that of its file.
    pub name: String,
    /// What it is about.
    pub title: String,
    /// Where it was published.
    pub source: String,
    /// The axis whose labels are the cases.
    pub case_axis: String,
    /// The labels of the other axes that make the headline.
    pub headline: Vec<(String, String)>,
    /// What `--quick` sets, at every point; without it only the headline runs.
    pub quick: Vec<Value>,
    /// What `--live` sets, in the simulated runs beside it as well: rates that a machine carries.
    pub live: Vec<Value>,
    /// The metrics that get a bar chart; all of them if none is named.
    pub charts: Vec<String>,
    /// The case that gains (`goodput gain`) and rises (`latency added`) are over.
    pub baseline: Option<String>,
    /// The figures.
    pub rows: Vec<Row>,
    /// What must come out.
    pub expect: Vec<Expectation>,
}

/// One figure.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// The case.
    pub case: String,
    /// Labels of other axes, where they are not the headline's.
    pub at: Vec<(String, String)>,
    /// Plain words with the statistic: `goodput mean`, `goodput gain`, `latency added`.
    pub metric: String,
    /// The metric it is made of as `SCOPE METRIC`, if the words do not say it.
    pub from: Option<String>,
    /// The median over the repetitions in place of the mean.
    pub median: bool,
    /// Unit.
    pub unit: String,
    /// As published, if it was.
    pub published: Option<f64>,
    /// The real kernel's, if it is known.
    pub kernel: Option<f64>,
    /// Ours agrees with the kernel's if it is no further away than this, in the row's unit.
    pub tolerance: Option<f64>,
}

/// Something that must come out.
#[derive(Clone, Debug, PartialEq)]
pub struct Expectation {
    /// The case.
    pub case: String,
    /// Labels of other axes, where they are not the headline's.
    pub at: Vec<(String, String)>,
    /// The metric.
    pub metric: String,
    /// At least (or at most) so much,
    pub bound: Bound,
    /// times this case's figure, if given.
    pub of: Option<String>,
}

/// A bound.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Bound {
    /// No less than.
    AtLeast(f64),
    /// No more than.
    AtMost(f64),
}

/// Every publication that this program can rebuild.
///
/// # Errors
/// When a built-in data file is faulty, which a test excludes.
pub fn publications() -> Result<Vec<Publication>, Diagnostics> {
    SHIPPED.iter().map(|shipped| parse(shipped.name, shipped.published)).collect()
}

/// The experiment behind a publication.
///
/// # Errors
/// When its built-in file is faulty, which a test excludes.
pub fn experiment(name: &str) -> Result<Option<Experiment>, Diagnostics> {
    match SHIPPED.iter().find(|shipped| shipped.name == name) {
        Some(shipped) => {
            let file = format!("experiments/{name}.toml");
            Experiment::parse(&file, shipped.experiment, &[]).map(Some)
        }
        None => Ok(None),
    }
}

/// What a publication compares besides the points of its experiment; some of it is measured in
/// cycles of this machine.
pub fn further_points(name: &str) -> Vec<PointResult> {
    match name {
        "multipath" => multipath::points(),
        _ => Vec::new(),
    }
}

/// Reads the figures of the publication called `name`.
///
/// # Errors
/// When the text is not as described in docs/experiments.md.
pub fn parse(name: &str, text: &str) -> Result<Publication, Diagnostics> {
    let document = Document::parse(&format!("experiments/published/{name}.toml"), text)?;
    let faults = Faults::new(&document);
    let publication = publication(name, &document.root, &faults);
    let problems = faults.into_sorted();
    match publication {
        Some(publication) if problems.is_empty() => Ok(publication),
        _ => Err(Diagnostics(problems)),
    }
}

fn publication(name: &str, node: &Node, faults: &Faults<'_>) -> Option<Publication> {
    let mut table = Reader::new(node, faults)?;
    let text = |table: &mut Reader<'_, '_>, key| table.required(key).map(|(t, _)| t.to_string());
    let publication = Publication {
        name: name.into(),
        title: text(&mut table, "title")?,
        source: text(&mut table, "source")?,
        case_axis: text(&mut table, "case_axis")?,
        headline: labels(&mut table, "headline"),
        quick: table
            .tables("quick")
            .iter()
            .map(|(key, node)| Value { path: key.name.clone(), node: node.clone() })
            .collect(),
        live: table
            .tables("live")
            .iter()
            .map(|(key, node)| Value { path: key.name.clone(), node: node.clone() })
            .collect(),
        charts: table.texts("charts").iter().map(|(name, _)| (*name).to_string()).collect(),
        baseline: table.text("baseline").map(String::from),
        rows: list(&mut table, "rows").iter().filter_map(|node| row(node, faults)).collect(),
        expect: list(&mut table, "expect")
            .iter()
            .filter_map(|node| expectation(node, faults))
            .collect(),
    };
    table.finish();
    Some(publication)
}

/// `{ axis = "label", … }`.
fn labels(table: &mut Reader<'_, '_>, key: &'static str) -> Vec<(String, String)> {
    let entries = table.tables(key).iter();
    entries.map(|(key, value)| (key.name.clone(), value.plain())).collect()
}

fn list<'a>(table: &mut Reader<'a, '_>, key: &'static str) -> &'a [Node] {
    match table.node(key).map(|node| &node.kind) {
        Some(Kind::List(items)) => items,
        _ => &[],
    }
}

fn row(node: &Node, faults: &Faults<'_>) -> Option<Row> {
    let mut table = Reader::new(node, faults)?;
    let kernel = figure(&mut table, "kernel");
    let row = Row {
        case: table.required("case")?.0.to_string(),
        at: labels(&mut table, "at"),
        metric: table.required("metric")?.0.to_string(),
        from: table.text("from").map(String::from),
        median: table.word("statistic", &[("mean", false), ("median", true)]).unwrap_or(false),
        unit: table.text("unit").unwrap_or("").to_string(),
        published: figure(&mut table, "published"),
        kernel,
        tolerance: tolerance(&mut table, kernel),
    };
    table.finish();
    Some(row)
}

/// The widest of `within_share` (of the kernel's figure), `within` (in the row's unit), and two
/// standard deviations of the kernel's own runs (`kernel_sd`).
fn tolerance(table: &mut Reader<'_, '_>, kernel: Option<f64>) -> Option<f64> {
    let share = figure(table, "within_share").zip(kernel).map(|(share, kernel)| share * kernel);
    let absolute = figure(table, "within");
    let spread = figure(table, "kernel_sd").map(|sd| 2.0 * sd);
    [share, absolute, spread].into_iter().flatten().reduce(f64::max)
}

fn expectation(node: &Node, faults: &Faults<'_>) -> Option<Expectation> {
    let mut table = Reader::new(node, faults)?;
    let bound = match (figure(&mut table, "at_least"), figure(&mut table, "at_most")) {
        (Some(least), None) => Bound::AtLeast(least),
        (None, Some(most)) => Bound::AtMost(most),
        _ => {
            faults.add(&node.at, "give either \"at_least\" or \"at_most\"", None);
            return None;
        }
    };
    let expectation = Expectation {
        case: table.required("case")?.0.to_string(),
        at: labels(&mut table, "at"),
        metric: table.required("metric")?.0.to_string(),
        bound,
        of: table.text("of").map(String::from),
    };
    table.finish();
    Some(expectation)
}

fn figure(table: &mut Reader<'_, '_>, key: &'static str) -> Option<f64> {
    match table.node(key)?.kind {
        Kind::Int(number) => Some(number as f64),
        Kind::Float(number) => Some(number),
        _ => None,
    }
}
