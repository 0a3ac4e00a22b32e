//! What was published and what a real kernel does: `experiments/published.toml`.

use crate::plan::doc::{Document, Key, Kind, Node};
use crate::plan::read::{Faults, Reader};
use crate::plan::{Diagnostics, Experiment};

/// The shipped experiment files, by name.
pub const SHIPPED: [(&str, &str); 2] = [
    ("lost-retransmit", include_str!("../../../experiments/lost-retransmit.toml")),
    ("policer", include_str!("../../../experiments/policer.toml")),
];

const PUBLISHED: &str = include_str!("../../../experiments/published.toml");

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
    /// Plain words with the statistic: `goodput mean`.
    pub metric: String,
    /// Unit.
    pub unit: String,
    /// As published, if it was.
    pub published: Option<f64>,
    /// The real kernel's, if it is known.
    pub kernel: Option<f64>,
}

/// Something that must come out.
#[derive(Clone, Debug, PartialEq)]
pub struct Expectation {
    /// The case.
    pub case: String,
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
/// When the built-in data file is faulty, which a test excludes.
pub fn publications() -> Result<Vec<Publication>, Diagnostics> {
    let document = Document::parse("experiments/published.toml", PUBLISHED)?;
    let faults = Faults::new(&document);
    let list = match &document.root.kind {
        Kind::Table(entries) => {
            entries.iter().filter_map(|(key, node)| publication(key, node, &faults)).collect()
        }
        _ => Vec::new(),
    };
    let problems = faults.into_sorted();
    if problems.is_empty() { Ok(list) } else { Err(Diagnostics(problems)) }
}

/// The experiment behind a publication.
///
/// # Errors
/// When its built-in file is faulty, which a test excludes.
pub fn experiment(name: &str) -> Result<Option<Experiment>, Diagnostics> {
    match SHIPPED.iter().find(|(known, _)| *known == name) {
        Some((_, text)) => {
            let file = format!("experiments/{name}.toml");
            Experiment::parse(&file, text, &[]).map(Some)
        }
        None => Ok(None),
    }
}

fn publication(key: &Key, node: &Node, faults: &Faults<'_>) -> Option<Publication> {
    let mut table = Reader::new(node, faults)?;
    let text = |table: &mut Reader<'_, '_>, key| table.required(key).map(|(t, _)| t.to_string());
    let publication = Publication {
        name: key.name.clone(),
        title: text(&mut table, "title")?,
        source: text(&mut table, "source")?,
        case_axis: text(&mut table, "case_axis")?,
        headline: table
            .tables("headline")
            .iter()
            .map(|(key, value)| (key.name.clone(), value.plain()))
            .collect(),
        rows: list(&mut table, "rows").iter().filter_map(|node| row(node, faults)).collect(),
        expect: list(&mut table, "expect")
            .iter()
            .filter_map(|node| expectation(node, faults))
            .collect(),
    };
    table.finish();
    Some(publication)
}

fn list<'a>(table: &mut Reader<'a, '_>, key: &'static str) -> &'a [Node] {
    match table.node(key).map(|node| &node.kind) {
        Some(Kind::List(items)) => items,
        _ => &[],
    }
}

fn row(node: &Node, faults: &Faults<'_>) -> Option<Row> {
    let mut table = Reader::new(node, faults)?;
    let row = Row {
        case: table.required("case")?.0.to_string(),
        metric: table.required("metric")?.0.to_string(),
        unit: table.text("unit").unwrap_or("").to_string(),
        published: figure(&mut table, "published"),
        kernel: figure(&mut table, "kernel"),
    };
    table.finish();
    Some(row)
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
