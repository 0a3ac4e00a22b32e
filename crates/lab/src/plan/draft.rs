//! An experiment that is being edited: its values are set one by one, and read as a whole.

use std::path::Path;

use serde_json::Value as Json;

use super::doc::{Document, Kind, Node};
use super::{Diagnostics, Error, Experiment, SettingOverride};
use crate::registry::Registry;
use crate::sweep::read_axes;

/// The tree of an experiment file, and what is to be done with it before it is read.
///
/// ```
/// use lab::plan::Draft;
/// let text = r#"
///     schema = 1
///     name = "two"
///     duration = "1s"
///     [nodes]
///     a = {}
///     b = {}
///     [links.wire]
///     ends = ["a", "b"]
///     rate = "10mbit"
///     [flows.bulk]
///     app = "bulk"
///     from = "a"
///     to = "b"
/// "#;
/// let mut draft = Draft::parse("two.toml", text)?;
/// draft.set("links.wire.rate", "\"20mbit\"", "rate")?;
/// draft.sweep("links.wire.delay", "[\"1ms\", \"10ms\"]", "delays")?;
/// assert_eq!(draft.get("links.wire.rate"), Some("20mbit".into()));
/// assert_eq!(draft.finish()?.points.len(), 2);
/// # Ok::<(), lab::plan::Diagnostics>(())
/// ```
#[derive(Clone, Debug)]
pub struct Draft {
    document: Document,
    /// Axes that are pinned to one step.
    pins: Vec<SettingOverride>,
    /// What was done to the text so far.
    edits: Vec<Edit>,
}

/// One edit, in TOML: with the text, all that another process needs to have the same experiment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edit {
    /// Which one.
    pub kind: EditKind,
    /// The path or axis.
    pub path: String,
    /// The TOML of the value; empty where there is none.
    pub value: String,
    /// What messages call it.
    pub label: String,
}

/// What an edit does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EditKind {
    /// [`Draft::set`].
    Set,
    /// [`Draft::sweep`].
    Sweep,
    /// [`Draft::draw`].
    Draw,
    /// [`Draft::remove`].
    Remove,
}

impl Draft {
    /// Reads the file at `path`.
    ///
    /// # Errors
    /// When the file cannot be read, or is no TOML.
    pub fn load(path: &Path) -> Result<Self, Error> {
        let (name, text) = super::read_file(path)?;
        Ok(Self::parse(&name, &text)?)
    }

    /// Reads `text`; `name` stands in messages.
    ///
    /// # Errors
    /// When the text is no TOML. Whether it is an experiment is the business of
    /// [`finish`](Self::finish).
    pub fn parse(name: &str, text: &str) -> Result<Self, Diagnostics> {
        Ok(Self { document: Document::parse(name, text)?, pins: Vec::new(), edits: Vec::new() })
    }

    /// The same with what a registry knows besides the product's words.
    #[must_use]
    pub fn with(mut self, registry: &Registry) -> Self {
        self.document.registry = registry.clone();
        self
    }

    /// The name and the text that it began with.
    pub fn source(&self) -> (&str, &str) {
        (&self.document.name, self.document.text())
    }

    /// What was done to it since, in order: [`edit`](Self::edit) does the same to the same text.
    pub fn edits(&self) -> &[Edit] {
        &self.edits
    }

    /// Does what another draft has noted.
    ///
    /// # Errors
    /// As of the method that does it.
    pub fn edit(&mut self, edit: &Edit) -> Result<(), Diagnostics> {
        let Edit { kind, path, value, label } = edit;
        match kind {
            EditKind::Set => self.set(path, value, label),
            EditKind::Sweep => self.sweep(path, value, label),
            EditKind::Draw => self.draw(path, value, label),
            EditKind::Remove => {
                self.remove(path);
                Ok(())
            }
        }
    }

    fn note(&mut self, kind: EditKind, path: &str, value: &str, label: &str) {
        let [path, value, label] = [path, value, label].map(String::from);
        self.edits.push(Edit { kind, path, value, label });
    }

    /// Puts `value`, TOML or a bare word, at `path`, as `--set` does: an axis of the sweep becomes
    /// this one value. Messages call it `label`.
    ///
    /// # Errors
    /// When there is no such place.
    pub fn set(&mut self, path: &str, value: &str, label: &str) -> Result<(), Diagnostics> {
        if read_axes(&self.document)?.iter().any(|axis| axis.is_set_by(path)) {
            self.pins.retain(|pin| pin.key != path);
            self.pins.push(SettingOverride {
                key: path.into(),
                value: value.into(),
                label: label.into(),
            });
            self.note(EditKind::Set, path, value, label);
            return Ok(());
        }
        let mut document = self.document.clone();
        document.set(path, value, label)?;
        self.document = document;
        self.note(EditKind::Set, path, value, label);
        Ok(())
    }

    /// Sweeps over `axis`: the TOML of a list of values, or of a table of named cases.
    ///
    /// # Errors
    /// When it is neither.
    pub fn sweep(&mut self, axis: &str, steps: &str, label: &str) -> Result<(), Diagnostics> {
        let mut document = self.document.clone();
        document.set_in("sweep", axis, steps, label)?;
        read_axes(&document)?;
        self.document = document;
        self.pins.retain(|pin| pin.key != axis);
        self.note(EditKind::Sweep, axis, steps, label);
        Ok(())
    }

    /// Lets each repetition draw a value for `path`, by the TOML of an entry of `[draw]`.
    ///
    /// # Errors
    /// When it is no such entry.
    pub fn draw(&mut self, path: &str, from: &str, label: &str) -> Result<(), Diagnostics> {
        let mut document = self.document.clone();
        document.set_in("draw", path, from, label)?;
        crate::sweep::read_draws(&document)?;
        self.document = document;
        self.note(EditKind::Draw, path, from, label);
        Ok(())
    }

    /// The value at `path`, by the same rules as [`set`](Self::set), if there is one.
    pub fn get(&self, path: &str) -> Option<Json> {
        if let Some(pin) = self.pins.iter().find(|pin| pin.key == path) {
            return Some(pin.value.trim_matches('"').into());
        }
        self.document.find(path).map(json)
    }

    /// Takes away what is at `path`; false if nothing is there.
    pub fn remove(&mut self, path: &str) -> bool {
        let pins = self.pins.len();
        self.pins.retain(|pin| pin.key != path);
        let removed = self.document.remove(path) || self.pins.len() < pins;
        if removed {
            self.note(EditKind::Remove, path, "", "");
        }
        removed
    }

    /// The experiment, read and checked.
    ///
    /// # Errors
    /// When it or any of its points is invalid.
    pub fn finish(&self) -> Result<Experiment, Diagnostics> {
        Experiment::of(self.document.clone(), &self.pins)
    }
}

fn json(node: &Node) -> Json {
    match &node.kind {
        Kind::Text(text) => text.as_str().into(),
        Kind::Int(number) => (*number).into(),
        Kind::Float(number) => (*number).into(),
        Kind::Bool(truth) => (*truth).into(),
        Kind::List(items) => items.iter().map(json).collect(),
        Kind::Table(entries) => {
            Json::Object(entries.iter().map(|(key, item)| (key.name.clone(), json(item))).collect())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: &str = include_str!("../../../../experiments/first.toml");

    fn first() -> Draft {
        Draft::parse("first.toml", FIRST).unwrap()
    }

    #[test]
    fn an_axis_is_pinned_and_swept_again() {
        let mut draft = first();
        draft.set("queue", "fq_codel", "queue").unwrap();
        assert_eq!(draft.get("queue"), Some("fq_codel".into()));
        assert_eq!(draft.finish().unwrap().points.len(), 1);
        draft.sweep("queue", "[\"pfifo\", \"codel\", \"fq_codel\"]", "queue").unwrap();
        assert_eq!(draft.finish().unwrap().points.len(), 3);
        assert!(draft.remove("sweep"));
        assert_eq!(draft.finish().unwrap().points.len(), 1);
    }

    #[test]
    fn text_and_edits_make_the_same_experiment_elsewhere() {
        let mut draft = first();
        draft.set("links.dsl.forward.rate", "\"10mbit\"", "rate").unwrap();
        draft.sweep("queue", "[\"pfifo\", \"codel\"]", "queues").unwrap();
        draft.set("queue", "codel", "queue").unwrap();
        draft.draw("links.dsl.rtt", "{ uniform = [\"20ms\", \"40ms\"] }", "rtt").unwrap();
        assert!(draft.remove("flows.ping"));
        assert!(draft.set("links.wlan.rate", "\"1mbit\"", "no such link").is_err());
        let (name, text) = draft.source();
        let mut other = Draft::parse(name, text).unwrap();
        draft.edits().iter().for_each(|edit| other.edit(edit).unwrap());
        assert_eq!(other.edits(), draft.edits());
        let [one, other] = [draft, other].map(|draft| draft.finish().unwrap());
        assert_eq!(one.points, other.points);
        let plan = |it: &Experiment| it.plan(&it.points[0], 3, 7).unwrap().0;
        assert_eq!(format!("{:?}", plan(&one)), format!("{:?}", plan(&other)));
    }

    #[test]
    fn what_cannot_be_set_changes_nothing() {
        let mut draft = first();
        let before = draft.get("links");
        let fault = draft.set("links.wlan.rate", "\"1mbit\"", "links.wlan.rate").unwrap_err();
        assert!(fault.to_string().starts_with("links.wlan.rate: there is no"), "{fault}");
        assert!(draft.sweep("queue", "3", "queue").is_err());
        assert!(draft.draw("duration", "3", "duration").is_err());
        assert_eq!(draft.get("links"), before);
        assert_eq!(draft.get("flows.upload"), None);
        assert!(!draft.remove("flows.upload"));
        draft.finish().unwrap();
    }

    #[test]
    fn what_is_wrong_is_named_by_its_edit_and_the_rest_by_its_place() {
        let mut draft = first();
        draft.set("links.dsl.forward.rate", "\"fast\"", "my edit").unwrap();
        let fault = draft.finish().unwrap_err();
        assert_eq!((fault.0[0].source.as_str(), fault.0[0].position), ("my edit", None));
        let mut draft = Draft::parse("x.toml", &FIRST.replace("30s", "soon")).unwrap();
        draft.set("repetitions", "1", "repetitions").unwrap();
        let fault = draft.finish().unwrap_err();
        assert_eq!((fault.0[0].source.as_str(), fault.0[0].position), ("x.toml", Some((8, 12))));
    }
}
