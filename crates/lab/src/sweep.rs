//! Sweeps (the grid of points) and draws (what differs between repetitions).

mod draws;

use crate::plan::doc::{Document, Key, Kind, Node, Origin, unquoted};
use crate::plan::read::Faults;
use crate::plan::{Diagnostics, limits, suggest};
use crate::stems::distinct_stems;
pub use draws::Draw;
pub(crate) use draws::read_draws;

/// One value put at one place of the file.
#[derive(Clone, Debug, PartialEq)]
pub struct Value {
    /// A parameter's name or the dotted path of a key.
    pub path: String,
    /// What is put there.
    pub(crate) node: Node,
}

/// One axis of the grid.
#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    /// Its name, as the tables show it.
    pub name: String,
    /// Its steps: the label, and what it sets.
    pub steps: Vec<(String, Vec<Value>)>,
}

/// One point of the grid.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Point {
    /// (axis, label) in the order of the axes.
    pub labels: Vec<(String, String)>,
    /// What the point sets.
    pub settings: Vec<Value>,
    /// What its files are called.
    pub(crate) slug: String,
}

impl Value {
    /// The value as a person would write it.
    pub fn plain(&self) -> String {
        self.node.plain()
    }
}

impl Axis {
    /// Whether a setting of `key` is about it; both may be written with quotes around keys.
    pub(crate) fn is_set_by(&self, key: &str) -> bool {
        unquoted(&self.name) == unquoted(key)
    }

    /// Leaves one step: the one with that label or, on an axis of plain values, a new one.
    ///
    /// # Errors
    /// When an axis of named cases has no such case: what is wrong, and what would be right.
    pub(crate) fn pin(&mut self, label: &str, at: &Origin) -> Result<(), (String, Option<String>)> {
        let bare = label.trim_matches('"');
        if let Some(step) = self.steps.iter().find(|(known, _)| known == bare) {
            self.steps = vec![step.clone()];
            return Ok(());
        }
        let path = unquoted(&self.name);
        let plain = |(_, values): &(String, Vec<Value>)| matches!(values.as_slice(), [value] if value.path == path);
        if !self.steps.iter().all(plain) {
            let help = suggest(bare, self.steps.iter().map(|(label, _)| label.as_str()));
            return Err((format!("the axis \"{}\" has no case \"{bare}\"", self.name), help));
        }
        let kind = match bare.parse() {
            Ok(number) => Kind::Int(number),
            Err(_) => Kind::Text(bare.into()),
        };
        let value = Value { path, node: Node { kind, at: at.clone() } };
        self.steps = vec![(bare.into(), vec![value])];
        Ok(())
    }
}

impl Point {
    /// `label-label-…` for file names, no two of a sweep the same; empty if nothing is swept.
    pub fn slug(&self) -> &str {
        &self.slug
    }
}

/// Reads `[sweep]`: `key = [values]`, or `[sweep.AXIS]` with `LABEL = { key = value, … }`.
pub(crate) fn read_axes(document: &Document) -> Result<Vec<Axis>, Diagnostics> {
    let faults = Faults::new(document);
    let mut axes = Vec::new();
    if let Some(sweep) = document.root.get("sweep") {
        match &sweep.kind {
            Kind::Table(entries) => {
                let entries = entries.iter().filter(|(key, node)| !is_exclusion(key, node));
                axes.extend(entries.filter_map(|(key, node)| axis(key, node, &faults)));
            }
            _ => faults.add(&sweep.at, "[sweep] must be a table", None),
        }
    }
    let list = faults.into_sorted();
    if list.is_empty() { Ok(axes) } else { Err(Diagnostics(list)) }
}

/// `exclude = [{ AXIS = label, … }, …]`: points that are left out, each by (axis, label).
pub(crate) type Exclusion = Vec<(String, String)>;

fn is_exclusion(key: &Key, node: &Node) -> bool {
    let tables = |items: &Vec<Node>| items.iter().all(|item| matches!(item.kind, Kind::Table(_)));
    key.name == "exclude"
        && matches!(&node.kind, Kind::List(items) if !items.is_empty() && tables(items))
}

/// What `[sweep]` leaves out of the product of its axes.
pub(crate) fn read_exclusions(
    document: &Document,
    axes: &[Axis],
) -> Result<Vec<Exclusion>, Diagnostics> {
    let faults = Faults::new(document);
    let node = document.root.get("sweep").and_then(|sweep| sweep.get("exclude"));
    let items = match node.map(|node| &node.kind) {
        Some(Kind::List(items)) if axes.iter().all(|axis| axis.name != "exclude") => {
            items.as_slice()
        }
        _ => &[],
    };
    let mut exclusions = Vec::new();
    for item in items {
        let Kind::Table(entries) = &item.kind else { continue };
        let mut exclusion = Exclusion::new();
        for (key, node) in entries {
            let Some(axis) = axes.iter().find(|axis| axis.is_set_by(&key.name)) else {
                let help = suggest(&key.name, axes.iter().map(|axis| axis.name.as_str()));
                faults.add(&key.at, format!("no axis is called \"{}\"", key.name), help);
                continue;
            };
            let label = node.plain();
            if axis.steps.iter().all(|(known, _)| *known != label) {
                let help = suggest(&label, axis.steps.iter().map(|(known, _)| known.as_str()));
                faults.add(
                    &node.at,
                    format!("the axis \"{}\" has no \"{label}\"", axis.name),
                    help,
                );
            }
            exclusion.push((axis.name.clone(), label));
        }
        if exclusion.is_empty() {
            faults.add(&item.at, "this would leave out all points", None);
        }
        exclusions.push(exclusion);
    }
    let list = faults.into_sorted();
    if list.is_empty() { Ok(exclusions) } else { Err(Diagnostics(list)) }
}

fn axis(key: &Key, node: &Node, faults: &Faults<'_>) -> Option<Axis> {
    if !is_setting(key, "points", faults) {
        return None;
    }
    let steps: Vec<(String, Vec<Value>)> = match &node.kind {
        Kind::List(items) => items
            .iter()
            .map(|item| {
                let value = Value { path: unquoted(&key.name), node: item.clone() };
                (item.plain(), vec![value])
            })
            .collect(),
        Kind::Table(cases) => cases
            .iter()
            .map(|(label, settings)| (label.name.clone(), case(settings, faults)))
            .collect(),
        _ => {
            let message = "an axis is a list of values, or a table of named cases";
            faults.add(&node.at, message, None);
            return None;
        }
    };
    if steps.is_empty() {
        faults.add(&node.at, "the axis has no steps", None);
        return None;
    }
    Some(Axis { name: key.name.clone(), steps })
}

/// Whether points, or repetitions, may differ by a setting; if not, it is reported. They are what `[sweep]` and
/// `[draw]` make, so neither can be among the values.
fn is_setting(key: &Key, made: &str, faults: &Faults<'_>) -> bool {
    let path = &*unquoted(&key.name);
    let same = SAME_FOR_ALL.iter().find(|(name, _)| *name == path);
    if let Some((_, instead)) = same {
        let message = format!("\"{path}\" is the same for all {made}");
        faults.add(&key.at, message, Some((*instead).into()));
    }
    let first = path.split('.').next().unwrap_or("");
    let makes_them = ["sweep", "draw"].contains(&first);
    if makes_them {
        let help = format!("put what differs into [{first}] itself");
        faults.add(&key.at, format!("[{first}] is the same for all {made}"), Some(help));
    }
    same.is_none() && !makes_them
}

/// What can be neither swept nor drawn, and what to say instead.
const SAME_FOR_ALL: [(&str, &str); 2] = [
    ("seed", "repetitions = 3 runs each point with three seeds"),
    ("repetitions", "one number for all, e.g. repetitions = 10"),
];

fn case(settings: &Node, faults: &Faults<'_>) -> Vec<Value> {
    let Kind::Table(entries) = &settings.kind else {
        faults.add(&settings.at, "a case is a table of settings", None);
        return Vec::new();
    };
    entries
        .iter()
        .filter(|(key, _)| is_setting(key, "points", faults))
        .map(|(key, node)| Value { path: unquoted(&key.name), node: node.clone() })
        .collect()
}

/// Says that the product of the axes is too large, before it is made.
pub(crate) fn check_grid(axes: &[Axis], document: &Document) -> Result<(), Diagnostics> {
    let fault = |message: String, help: &str| {
        let at = document.root.get("sweep").map_or(&document.root.at, |sweep| &sweep.at);
        Err(Diagnostics(vec![document.fault(at, 0, message, Some(help.into()))]))
    };
    let steps = || axes.iter().map(|axis| axis.steps.len() as u64);
    let points = steps().fold(1, u64::saturating_mul);
    if points > limits::POINTS_MAX {
        let product: Vec<String> = steps().map(|steps| steps.to_string()).collect();
        let message = format!(
            "the axes make {} points; at most {} are possible",
            product.join(" x "),
            limits::POINTS_MAX
        );
        return fault(
            message,
            "use fewer axes or values, or leave one step of an axis: --set AXIS=LABEL",
        );
    }
    let bytes = axes.iter().fold(0, |sum: u64, axis| {
        let steps = axis.steps.iter().flat_map(|(_, values)| values);
        let each: u64 = steps.map(|value| value.node.size() as u64).sum();
        sum.saturating_add(each.saturating_mul(points / axis.steps.len() as u64))
    });
    if bytes > limits::SETTINGS_MAX {
        let message = format!(
            "the values that {points} points set take {bytes} bytes; at most {} are possible",
            limits::SETTINGS_MAX
        );
        return fault(message, "use shorter values, or fewer points");
    }
    Ok(())
}

/// The Cartesian product of the axes, first axis slowest; one empty point if there are none.
/// Without those that are excluded.
pub(crate) fn grid(axes: &[Axis], exclusions: &[Exclusion]) -> Vec<Point> {
    let mut points = vec![Point::default()];
    for axis in axes {
        points = points
            .iter()
            .flat_map(|point| {
                axis.steps.iter().map(move |(label, values)| {
                    let mut next = point.clone();
                    next.labels.push((axis.name.clone(), label.clone()));
                    next.settings.extend(values.iter().cloned());
                    next
                })
            })
            .collect();
    }
    let excluded = |point: &Point| {
        exclusions.iter().any(|exclusion| exclusion.iter().all(|pair| point.labels.contains(pair)))
    };
    points.retain(|point| !excluded(point));
    name(&mut points);
    points
}

/// Gives the points the names of their files. `compare` is that of the plots of all of them.
fn name(points: &mut [Point]) {
    let labels = |point: &Point| {
        let labels: Vec<&str> = point.labels.iter().map(|(_, label)| label.as_str()).collect();
        labels.join("-")
    };
    let texts: Vec<String> = points.iter().map(labels).collect();
    let texts = std::iter::once("compare").chain(texts.iter().map(String::as_str));
    let names = distinct_stems(texts).into_iter().skip(1);
    for (point, name) in points.iter_mut().zip(names) {
        point.slug = name;
    }
}
