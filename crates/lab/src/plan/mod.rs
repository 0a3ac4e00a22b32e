//! Experiments as files: TOML in, a checked [`Plan`] out.
//!
//! A file describes one experiment; its `[sweep]` makes a grid of points and its `[draw]` gives
//! every repetition its own values. [`Experiment::plan`] yields the plan of one repetition of one
//! point, through the same checks as the file itself.

mod app;
mod diagnostic;
pub(crate) mod doc;
mod draft;
pub(crate) mod flent;
mod flows;
mod habits;
mod ip;
mod limit_checks;
pub mod limits;
mod links;
mod measure;
pub mod metrics;
mod model;
pub(crate) mod names;
mod network;
mod nodes;
mod parameters;
mod parse;
pub mod plots;
pub mod quantity;
pub(crate) mod read;
mod routes;
mod shortest;
mod sysctl;
pub(crate) mod tc;
pub mod tc_session;
mod topology;
mod varying;
mod walk;
pub mod workload;

use std::path::Path;

pub use app::{App, FlowPlan};
pub use diagnostic::{Diagnostic, Diagnostics, clipped, excerpt, nearest, suggest};
pub use draft::{Draft, Edit, EditKind};
pub use ip::{interfaces, links_of_nodes};
pub use measure::{FlentTest, Measure};
pub use model::{Fabric, Plan, Weights};
pub use names::matches;
pub use network::{Direction, LinkPlan, NodePlan, Offload, PortPlan, Role, Stack, SysctlSetting};
pub use routes::ShortestPaths;

use crate::registry::Registry;
use crate::sweep::{Axis, Draw, Point, Value};
use doc::Document;

/// A file that has been read and whose every point is valid.
#[derive(Clone, Debug)]
pub struct Experiment {
    document: Document,
    /// The plan with neither sweep nor draws applied.
    pub base: Plan,
    axes: Vec<Axis>,
    draws: Vec<Draw>,
    /// The grid, first axis slowest.
    pub points: Vec<Point>,
}

/// What kind of name the file uses: of a metric, or of a scope.
#[derive(Clone, Copy)]
enum NameKind {
    Metric,
    Scope,
}

type NameReference<'a> = (NameKind, &'a str, &'a doc::Origin);

/// Why an experiment cannot be used.
#[derive(Debug)]
pub enum Error {
    /// The file could not be read.
    Io {
        /// The file.
        path: String,
        /// What the system said.
        problem: std::io::Error,
    },
    /// The file says something impossible.
    Invalid(Diagnostics),
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Io { path, problem } => write!(f, "{path}: {problem}"),
            Self::Invalid(faults) => write!(f, "{faults}"),
        }
    }
}

impl std::error::Error for Error {}

impl From<Diagnostics> for Error {
    fn from(faults: Diagnostics) -> Self {
        Self::Invalid(faults)
    }
}

/// A value that overrides the file's.
#[derive(Clone, Debug)]
struct SettingOverride {
    /// An axis, a parameter or the dotted path of a key.
    key: String,
    /// TOML, or a bare word.
    value: String,
    /// What messages call it.
    label: String,
}

impl SettingOverride {
    /// Reads the `KEY=VALUE` of `--set`.
    fn read(text: &str) -> Result<Self, Diagnostics> {
        let label = format!("--set {text}");
        let Some((key, value)) = text.split_once('=') else {
            return Err(Diagnostics(vec![Diagnostic {
                source: label,
                position: None,
                message: "expected KEY=VALUE".into(),
                help: None,
                line_text: None,
            }]));
        };
        Ok(Self { key: key.trim().into(), value: value.trim().into(), label })
    }
}

impl Experiment {
    /// Reads the file at `path` with the given `KEY=VALUE` settings.
    ///
    /// # Errors
    /// When the file cannot be read, or it or any of its points is invalid.
    pub fn load(path: &Path, settings: &[String]) -> Result<Self, Error> {
        Self::load_with(&Registry::default(), path, settings)
    }

    pub(crate) fn load_with(
        registry: &Registry,
        path: &Path,
        settings: &[String],
    ) -> Result<Self, Error> {
        let (name, text) = read_file(path)?;
        Ok(Self::parse_with(registry, &name, &text, settings)?)
    }

    /// Reads an experiment from `text`; `name` stands in messages.
    ///
    /// # Errors
    /// When the text or any of its points is invalid.
    pub fn parse(name: &str, text: &str, settings: &[String]) -> Result<Self, Diagnostics> {
        Self::parse_with(&Registry::default(), name, text, settings)
    }

    pub(crate) fn parse_with(
        registry: &Registry,
        name: &str,
        text: &str,
        settings: &[String],
    ) -> Result<Self, Diagnostics> {
        let mut document = Document::parse(name, text)?;
        document.registry = registry.clone();
        let settings: Vec<SettingOverride> =
            settings.iter().map(|text| SettingOverride::read(text)).collect::<Result<_, _>>()?;
        Self::of(document, &settings)
    }

    /// Reads a tree in which `settings` are made first.
    fn of(mut document: Document, settings: &[SettingOverride]) -> Result<Self, Diagnostics> {
        let mut axes = crate::sweep::read_axes(&document)?;
        let exclusions = crate::sweep::read_exclusions(&document, &axes)?;
        for SettingOverride { key, value, label } in settings {
            let at = doc::Origin::Override(label.clone());
            let fault = |message, help| Diagnostics(vec![document.fault(&at, 0, message, help)]);
            match axes.iter_mut().find(|axis| axis.is_set_by(key)) {
                Some(axis) => axis.pin(value, &at).map_err(|(text, help)| fault(text, help))?,
                None => document.set(key, value, label)?,
            }
        }
        let draws = crate::sweep::read_draws(&document)?;
        crate::sweep::check_grid(&axes, &document)?;
        let base = read_with(&document, &[])?;
        document.drop_swept_values();
        let points = crate::sweep::grid(&axes, &exclusions);
        if points.is_empty() {
            let at = document.root.get("sweep").map_or(&document.root.at, |sweep| &sweep.at);
            let message = "\"exclude\" excludes every point of the sweep".into();
            return Err(Diagnostics(vec![document.fault(at, 0, message, None)]));
        }
        let experiment = Self { document, base, axes, draws, points };
        experiment.check_runs()?;
        experiment.check_pictures()?;
        experiment.check_points()?;
        Ok(experiment)
    }

    /// What is right, but may not be what was meant: rates in bytes.
    pub fn notes(&self) -> Vec<Diagnostic> {
        habits::notes(&self.document)
    }

    /// Says what `table` in `[measure]` and `[[plot]]` ask for that no point has: metrics that nothing
    /// measures, and scopes that nothing is called.
    ///
    /// # Errors
    /// Each such name, at its place.
    pub fn check_names(&self) -> Result<(), Diagnostics> {
        let faults = read::Faults::new(&self.document);
        let mut unknown = self.referenced_names(&faults);
        let known = |(what, name, _): &NameReference<'_>, plan: &Plan| match what {
            NameKind::Metric => metrics::check_metric(name, plan),
            NameKind::Scope => metrics::check_scope(name, plan),
        };
        // What parameters make of it is another name at each point.
        unknown.retain(|asked| !asked.1.contains("${") && known(asked, &self.base).is_err());
        for point in &self.points {
            if unknown.is_empty() {
                break;
            }
            let mut settings = point.settings.clone();
            settings.extend(self.draws.iter().map(|draw| draw.corner(0)));
            let plan = read_with(&self.document, &settings)?;
            unknown.retain(|asked| known(asked, &plan).is_err());
        }
        for asked in &unknown {
            let verb = match asked.0 {
                NameKind::Metric => "no metric is called",
                NameKind::Scope => "no flow, group, workload or port is called",
            };
            let help = known(asked, &self.base).err().flatten();
            faults.add(asked.2, format!("{verb} \"{}\"", asked.1), help);
        }
        let list = faults.into_sorted();
        if list.is_empty() { Ok(()) } else { Err(Diagnostics(list)) }
    }

    /// Metrics and scopes that the file names, with their places.
    fn referenced_names<'a>(&'a self, faults: &read::Faults<'_>) -> Vec<NameReference<'a>> {
        let root = &self.document.root;
        let mut asked = Vec::new();
        let table = root.get("measure").and_then(|measure| measure.get("table"));
        for (name, at) in table.map_or(Vec::new(), |table| read::as_texts(table, faults)) {
            asked.push((NameKind::Metric, name, at));
        }
        let Some(doc::Node { kind: doc::Kind::List(plots), .. }) = root.get("plot") else {
            return asked;
        };
        for plot in plots {
            if let Some(node) = plot.get("what")
                && let Some(name) = read::as_text(node, faults)
                && plots::is_metric(name)
            {
                asked.push((NameKind::Metric, name, &node.at));
            }
            for (name, at) in plot.get("scopes").map_or(Vec::new(), |it| read::as_texts(it, faults))
            {
                asked.push((NameKind::Scope, name, at));
            }
        }
        asked
    }

    /// Sets these at every point, over what the points say.
    ///
    /// # Errors
    /// When a point becomes invalid by it.
    pub fn set_everywhere(&mut self, settings: &[Value]) -> Result<(), Diagnostics> {
        for point in &mut self.points {
            point.settings.extend(settings.iter().cloned());
        }
        self.check_points()
    }

    /// How often everything together is run, if that is not too often.
    fn check_runs(&self) -> Result<(), Diagnostics> {
        let fault = |message| {
            let at =
                self.document.root.get("repetitions").map_or(&self.document.root.at, |it| &it.at);
            Diagnostics(vec![self.document.fault(at, 0, message, None)])
        };
        limits::runs(self.points.len() as u64, self.base.repetitions).map(drop).map_err(fault)
    }

    /// Whether each picture has a file of its own.
    fn check_pictures(&self) -> Result<(), Diagnostics> {
        let slugs: Vec<&str> = self.points.iter().map(Point::slug).collect();
        let Some((index, file)) = plots::same_file(&self.base.plots, &slugs) else { return Ok(()) };
        let written = self.document.root.get("plot").map(|node| &node.kind);
        let at = match written {
            Some(doc::Kind::List(items)) => &items[index].at,
            _ => &self.document.root.at,
        };
        let message = format!("another plot also writes plots/{file}");
        let help = Some("give one of them another \"name\"".into());
        Err(Diagnostics(vec![self.document.fault(at, 0, message, help)]))
    }

    /// Every point at both ends of every draw, and with all that it chooses from: what can be drawn is valid too. Where nothing is
    /// swept nor drawn, that is the base, which has been read.
    fn check_points(&self) -> Result<(), Diagnostics> {
        // All that there is to choose from, unless that makes too many plans: then at the first point.
        let corners = self.draws.iter().map(Draw::corners).max().unwrap_or(1);
        let all = corners as u64 * self.points.len() as u64 <= limits::POINTS_MAX;
        for (number, point) in self.points.iter().enumerate() {
            if self.draws.is_empty() && point.settings.is_empty() {
                continue;
            }
            for corner in 0..if all || number == 0 { corners } else { corners.min(2) } {
                let mut settings = point.settings.clone();
                settings.extend(self.draws.iter().map(|draw| draw.corner(corner)));
                read_with(&self.document, &settings)?;
            }
        }
        Ok(())
    }

    /// The names of the sweep's axes.
    pub fn axis_names(&self) -> Vec<&str> {
        self.axes.iter().map(|axis| axis.name.as_str()).collect()
    }

    /// The plan of repetition `repetition` of `point`, and the values drawn for it. The draws
    /// depend on the seed and the repetition alone, so that all points meet the same conditions.
    ///
    /// # Errors
    /// Only for values that the checks at both ends of the draws could not prefetch.
    pub fn plan(
        &self,
        point: &Point,
        repetition: u32,
        seed: u64,
    ) -> Result<(Plan, Vec<Value>), Diagnostics> {
        let run_seed = seed.wrapping_add(u64::from(repetition));
        let mut settings = point.settings.clone();
        let drawn: Vec<Value> = self.draws.iter().map(|draw| draw.value(run_seed)).collect();
        settings.extend(drawn.iter().cloned());
        let mut plan = match settings.as_slice() {
            // What has been read need not be read again.
            [] => self.base.clone(),
            settings => read_with(&self.document, settings)?,
        };
        plan.seed = run_seed;
        Ok((plan, drawn))
    }
}

impl Registry {
    /// Reads the file at `path` with the given `KEY=VALUE` settings, as [`Experiment::load`].
    ///
    /// # Errors
    /// When the file cannot be read, or it or any of its points is invalid.
    pub fn load(&self, path: &Path, settings: &[String]) -> Result<Experiment, Error> {
        Experiment::load_with(self, path, settings)
    }

    /// Reads an experiment from `text`, as [`Experiment::parse`]; `name` stands in messages.
    ///
    /// # Errors
    /// When the text or any of its points is invalid.
    pub fn parse(
        &self,
        name: &str,
        text: &str,
        settings: &[String],
    ) -> Result<Experiment, Diagnostics> {
        Experiment::parse_with(self, name, text, settings)
    }
}

/// The name and the text of a file.
fn read_file(path: &Path) -> Result<(String, String), Error> {
    let name = path.display().to_string();
    let bytes = crate::input::read(path, limits::FILE_MAX)
        .map_err(|problem| Error::Io { path: name.clone(), problem })?;
    let text = String::from_utf8(bytes).map_err(|error| not_text(&name, &error))?;
    Ok((name, text))
}

/// Where a file stops being UTF-8.
fn not_text(name: &str, error: &std::string::FromUtf8Error) -> Diagnostics {
    let valid = &error.as_bytes()[..error.utf8_error().valid_up_to()];
    let valid = String::from_utf8_lossy(valid);
    let line = valid.rsplit('\n').next().unwrap_or_default();
    Diagnostics(vec![Diagnostic {
        source: name.into(),
        position: Some((valid.matches('\n').count() + 1, line.chars().count() + 1)),
        message: "this is not UTF-8 text from here on".into(),
        help: None,
        line_text: None,
    }])
}

/// Reads the document with some values replaced.
fn read_with(document: &Document, settings: &[Value]) -> Result<Plan, Diagnostics> {
    let mut document = document.clone();
    for setting in settings {
        document.set_node(&setting.path, setting.node.clone())?;
    }
    document.substitute()?;
    parse::plan(&document)
}

#[cfg(test)]
mod tests;
