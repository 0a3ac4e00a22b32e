//! `[[plot]]`: which pictures are drawn of which flows and ports, and how.

use std::collections::BTreeSet;

use super::diagnostic::suggest;
use super::doc::{Kind, Node};
use super::names::matches;
use super::read::{Faults, Reader, as_word};
use crate::stems::{file_stem, metric_stem};

/// One `[[plot]]`.
#[derive(Clone, Debug, PartialEq)]
pub struct PlotPlan {
    /// The beginning of its files' names.
    pub name: String,
    /// What is drawn.
    pub what: PlotData,
    /// What stands above it: nothing if empty, as usual if not said.
    pub title: Option<String>,
    /// Of which flows, ports or workloads, by patterns; all if empty.
    pub scopes: Vec<String>,
    /// How many things are drawn.
    pub style: Style,
    /// Places along the axis of time, if the file says how many.
    pub bins: Option<usize>,
    /// Width and height; as usual if zero.
    pub size: [f32; 2],
    /// What it is written as; as usual if empty.
    pub formats: Vec<Format>,
    /// The axis of the sweep that a metric is drawn against, if not the first that suits.
    pub against: Option<String>,
}

/// The data of a plot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PlotData {
    /// Something over time, by its word.
    Time(&'static str),
    /// The distribution of something.
    Cdf(&'static str),
    /// A metric against what is swept: `SCOPE METRIC`.
    Metric(String),
}

/// How many things are drawn in one plot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Style {
    /// Lines of a few, bands of many.
    #[default]
    Auto,
    /// A line for each.
    Lines,
    /// The median, and between which bounds half of them and nine tenths lie.
    Bands,
}

/// What a picture is written as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Scalable, for the web.
    Svg,
    /// Pixels.
    Png,
    /// Scalable, for print.
    Pdf,
}

/// The words of formats.
pub const FORMATS: [(&str, Format); 3] =
    [("svg", Format::Svg), ("png", Format::Png), ("pdf", Format::Pdf)];

/// What can be drawn over time.
pub const OVER_TIME: [&str; 7] =
    ["throughput", "cwnd", "rtt", "latency", "queue-delay", "queue-length", "utilisation"];

/// What can be drawn as a distribution, with `cdf` behind it.
pub const DISTRIBUTIONS: [&str; 5] = ["fct", "slowdown", "latency", "queue-delay", "queue-length"];

/// More lines than this cannot be told apart, so no more are drawn even if asked for.
pub const LINES_MAX: usize = 32;

impl PlotPlan {
    /// Whether a flow, port or workload is to be drawn.
    pub fn shows(&self, scope: &str) -> bool {
        self.scopes.is_empty() || self.scopes.iter().any(|pattern| matches(pattern, scope))
    }
}

impl std::str::FromStr for Format {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = FORMATS.iter().find(|(word, _)| *word == text);
        known.map(|(_, format)| *format).ok_or_else(|| "svg, png or pdf".into())
    }
}

/// Reads `[[plot]]`.
pub(super) fn read(node: Option<&Node>, axes: &[&str], faults: &Faults<'_>) -> Vec<PlotPlan> {
    let Some(node) = node else { return Vec::new() };
    let Kind::List(items) = &node.kind else {
        faults.add(&node.at, "plots are written as [[plot]]", None);
        return Vec::new();
    };
    let mut plots: Vec<PlotPlan> = Vec::new();
    for item in items {
        let Some(plot) = read_one(item, axes, faults) else { continue };
        if plots.iter().any(|other| other.name.eq_ignore_ascii_case(&plot.name)) {
            let message = format!("another plot is called \"{}\"", plot.name);
            faults.add(&item.at, message, Some("give one of them a \"name\"".into()));
        }
        plots.push(plot);
    }
    plots
}

fn read_one(node: &Node, axes: &[&str], faults: &Faults<'_>) -> Option<PlotPlan> {
    let mut table = Reader::new(node, faults)?;
    let what = table.required("what").and_then(|(text, at)| {
        let known = what(text);
        if known.is_none() {
            let cdfs = DISTRIBUTIONS.map(|word| format!("{word} cdf"));
            let words = OVER_TIME.into_iter().chain(cdfs.iter().map(String::as_str));
            let help = suggest(text, words).map(|help| {
                if help.ends_with('?') {
                    help
                } else {
                    format!("{help}; or a metric, such as \"total goodput\"")
                }
            });
            faults.add(at, format!("\"{text}\" cannot be plotted"), help);
        }
        Some((known?, text))
    });
    let title = table.text_at("title").map(|(title, at)| {
        if title.chars().any(char::is_control) {
            faults.add(at, "a title must be one line, without control characters", None);
        }
        title.to_owned()
    });
    let scopes = table.texts("scopes").iter().map(|(text, _)| (*text).to_owned()).collect();
    let styles = [("lines", Style::Lines), ("bands", Style::Bands)];
    let style = table.word("style", &styles).unwrap_or_default();
    let bins = table.integer("bins", 10..=10_000).map(|bins| bins as usize);
    let name = table.text_at("name");
    if let Some((name, at)) = name
        && (file_stem(name) != *name || name.is_empty())
    {
        let message = "the name may contain only letters, digits, \"-\", \"_\" and, except at \
            the start, \".\"";
        faults.add(at, message, None);
    }
    let against = table.text_at("against").map(|(axis, at)| {
        if !axes.contains(&axis) {
            let help = suggest(axis, axes.iter().copied());
            faults.add(at, format!("no axis is called \"{axis}\""), help);
        }
        axis.to_owned()
    });
    let plot = what.map(|(what, text)| PlotPlan {
        name: name.map_or_else(|| metric_stem(text), |(name, _)| name.to_owned()),
        what,
        title,
        scopes,
        style,
        bins,
        size: size(&mut table),
        formats: formats(&mut table),
        against,
    });
    if let Some(plot) = &plot {
        refuse_misfits(&mut table, &plot.what);
    }
    table.finish();
    plot
}

/// A key that means nothing for what is drawn would be passed over in silence.
fn refuse_misfits(table: &mut Reader<'_, '_>, what: &PlotData) {
    let over_time = matches!(what, PlotData::Time(_));
    let metric = matches!(what, PlotData::Metric(_));
    for (key, fits, of) in [
        ("style", over_time, "over time"),
        ("bins", over_time, "over time"),
        ("scopes", !metric, "over time and of distributions; a metric has its scope in its name"),
        ("against", metric, "of a metric"),
    ] {
        if let (Some(node), false) = (table.node(key), fits) {
            table.faults.add(&node.at, format!("\"{key}\" applies only to plots {of}"), None);
        }
    }
}

/// The first plot that would write a file that another one writes as well, and which file that is: of
/// points with these names in their files.
pub fn same_file(plots: &[PlotPlan], slugs: &[&str]) -> Option<(usize, String)> {
    let mut taken = BTreeSet::new();
    for (index, plot) in plots.iter().enumerate() {
        let name = &plot.name;
        let of_points = slugs.iter().map(|slug| match *slug {
            "" => name.clone(),
            slug => format!("{slug}-{name}"),
        });
        let files: Vec<String> = match plot.what {
            PlotData::Metric(_) => vec![name.clone(), format!("{name}-map")],
            PlotData::Time(_) | PlotData::Cdf(_) => {
                of_points.chain([format!("compare-{name}")]).collect()
            }
        };
        let mut files = files.into_iter();
        if let Some(file) = files.find(|file| !taken.insert(file.to_lowercase())) {
            return Some((index, file));
        }
    }
    None
}

/// Places along the axis of time, if nothing else is said: about one for two pixels.
pub const BINS: usize = 330;

fn what(text: &str) -> Option<PlotData> {
    let find = |words: &[&'static str], word: &str| words.iter().copied().find(|it| *it == word);
    if let Some(word) = find(&OVER_TIME, text) {
        return Some(PlotData::Time(word));
    }
    if let Some(word) = text.strip_suffix(" cdf") {
        return find(&DISTRIBUTIONS, word).map(PlotData::Cdf);
    }
    text.contains(' ').then(|| PlotData::Metric(text.to_owned()))
}

/// Whether this word for what is drawn is a metric.
pub fn is_metric(text: &str) -> bool {
    matches!(what(text), Some(PlotData::Metric(_)))
}

fn formats(table: &mut Reader<'_, '_>) -> Vec<Format> {
    let Some(node) = table.node("format") else { return Vec::new() };
    let items = match &node.kind {
        Kind::List(items) => items.as_slice(),
        _ => std::slice::from_ref(node),
    };
    if items.is_empty() {
        table.faults.add(&node.at, "no format given: use svg, png or pdf", None);
    }
    items.iter().filter_map(|item| as_word(item, &FORMATS, "format", table.faults)).collect()
}

fn size(table: &mut Reader<'_, '_>) -> [f32; 2] {
    let Some(node) = table.node("size") else { return [0.0; 2] };
    let side = |node: &Node| match node.kind {
        Kind::Int(pixels) if (200..=4000).contains(&pixels) => Some(pixels as f32),
        _ => None,
    };
    if let Kind::List(items) = &node.kind
        && let [width, height] = items.as_slice()
        && let (Some(width), Some(height)) = (side(width), side(height))
    {
        return [width, height];
    }
    table.faults.add(&node.at, "a size is [width, height], each from 200 to 4000", None);
    [0.0; 2]
}
