//! Reading typed values out of the tree, collecting every fault instead of stopping at the first.

use std::cell::RefCell;
use std::path::{Path, PathBuf};

use datapath::units::{Duration, Rate};

use super::diagnostic::{Diagnostic, NOTED};
use super::doc::{Document, Key, Kind, Node, Origin};
use super::habits::{suggest_key, suggest_value};
use super::limits::TIME_MAX;
use super::quantity;

/// Where faults go while a document is being read.
pub struct Faults<'a> {
    /// The document that is being read.
    pub document: &'a Document,
    list: RefCell<Vec<Diagnostic>>,
}

impl<'a> Faults<'a> {
    /// No faults yet.
    pub fn new(document: &'a Document) -> Self {
        Self { document, list: RefCell::new(Vec::new()) }
    }

    /// Notes a fault at `at`.
    pub fn add(&self, at: &Origin, message: impl Into<String>, help: Option<String>) {
        if self.accepts_more() {
            let fault = self.document.fault(at, 0, message.into(), help);
            self.list.borrow_mut().push(fault);
        }
    }

    /// Notes a fault at character `column` (from 0) of a text.
    pub fn add_in_text(&self, at: &Origin, column: usize, message: String, help: Option<String>) {
        if self.accepts_more() {
            let fault = self.document.fault_in_text(at, column, message, help);
            self.list.borrow_mut().push(fault);
        }
    }

    /// Whether another fault would be noted: beyond so many nobody reads on. Who has to look far for what could help
    /// asks first.
    pub fn accepts_more(&self) -> bool {
        self.list.borrow().len() < NOTED
    }

    /// True as long as nothing is wrong.
    pub fn is_empty(&self) -> bool {
        self.list.borrow().is_empty()
    }

    /// All faults in the order of the file.
    pub fn into_sorted(self) -> Vec<Diagnostic> {
        let mut list = self.list.into_inner();
        list.sort_by_key(|fault| fault.position);
        list.dedup();
        list
    }
}

/// A table being read: every key that is asked for is known, every other one is a fault.
pub struct Reader<'a, 'd> {
    entries: &'a [(Key, Node)],
    known: Vec<&'static str>,
    /// Where the table is.
    pub at: &'a Origin,
    /// Where faults go.
    pub faults: &'a Faults<'d>,
}

impl<'a, 'd> Reader<'a, 'd> {
    /// Starts to read `node`, which must be a table; `None` and a fault if it is not.
    pub fn new(node: &'a Node, faults: &'a Faults<'d>) -> Option<Self> {
        let Kind::Table(entries) = &node.kind else {
            faults.add(&node.at, format!("expected a table, found {}", node.type_name()), None);
            return None;
        };
        Some(Self { entries, known: Vec::new(), at: &node.at, faults })
    }

    /// The value of `key`, if it is there.
    pub fn node(&mut self, key: &'static str) -> Option<&'a Node> {
        if !self.known.contains(&key) {
            self.known.push(key);
        }
        self.entries.iter().find(|(name, _)| name.name == key).map(|(_, node)| node)
    }

    /// Where the value of `key` is, or else the table.
    pub fn origin_of(&self, key: &str) -> &'a Origin {
        let entry = self.entries.iter().find(|(name, _)| name.name == key);
        entry.map_or(self.at, |(_, node)| &node.at)
    }

    /// Every entry of the table of tables `key`.
    pub fn tables(&mut self, key: &'static str) -> &'a [(Key, Node)] {
        let Some(node) = self.node(key) else { return &[] };
        let Kind::Table(entries) = &node.kind else {
            let found = node.type_name();
            self.faults.add(&node.at, format!("expected a table, found {found}"), None);
            return &[];
        };
        entries
    }

    /// Every key that was not asked for is a fault that names the nearest known one.
    pub fn finish(self) {
        for (key, _) in self.entries {
            if !self.known.contains(&key.name.as_str()) {
                let help = suggest_key(&key.name, &self.known);
                self.faults.add(&key.at, format!("unknown key \"{}\"", key.name), help);
            }
        }
    }

    /// Notes that `key` is missing.
    pub fn missing(&self, key: &str) {
        self.faults.add(self.at, format!("\"{key}\" is missing"), None);
    }

    /// Notes a fault unless `key` is there.
    pub fn demand(&mut self, key: &'static str) {
        if self.node(key).is_none() {
            self.missing(key);
        }
    }

    /// Where a file lies that the experiment names: beside it.
    pub fn path_beside(&self, file: &str) -> PathBuf {
        Path::new(&self.faults.document.name).parent().unwrap_or(Path::new("")).join(file)
    }

    /// A text.
    pub fn text(&mut self, key: &'static str) -> Option<&'a str> {
        self.text_at(key).map(|(text, _)| text)
    }

    /// A text and where it is.
    pub fn text_at(&mut self, key: &'static str) -> Option<(&'a str, &'a Origin)> {
        let node = self.node(key)?;
        as_text(node, self.faults).map(|text| (text, &node.at))
    }

    /// A text that must be there.
    pub fn required(&mut self, key: &'static str) -> Option<(&'a str, &'a Origin)> {
        self.demand(key);
        self.text_at(key)
    }

    /// One of a fixed set of words.
    pub fn word<T: Copy>(&mut self, key: &'static str, words: &[(&'static str, T)]) -> Option<T> {
        let node = self.node(key)?;
        as_word(node, words, key, self.faults)
    }

    /// A whole number within `range`.
    pub fn integer(
        &mut self,
        key: &'static str,
        range: std::ops::RangeInclusive<i64>,
    ) -> Option<i64> {
        let node = self.node(key)?;
        let number = match &node.kind {
            Kind::Int(number) => Some(*number),
            Kind::Text(text) => text.trim().parse().ok(),
            _ => None,
        };
        match number {
            Some(number) if range.contains(&number) => Some(number),
            Some(number) => {
                let (low, high) = range.into_inner();
                let message = match (number < low, high) {
                    (true, _) => format!("\"{key}\" must be {low} or more, not {number}"),
                    (false, _) => format!("\"{key}\" must be {high} or less, not {number}"),
                };
                self.faults.add(&node.at, message, None);
                None
            }
            None => {
                let found = node.type_name();
                let message = format!("\"{key}\" must be a whole number, not {found}");
                self.faults.add(&node.at, message, None);
                None
            }
        }
    }

    /// A number from `least` to `most`, whole or decimal.
    pub fn number(&mut self, key: &'static str, least: f64, most: f64) -> Option<f64> {
        let node = self.node(key)?;
        let number = match &node.kind {
            Kind::Int(number) => Some(*number as f64),
            Kind::Float(number) => Some(*number),
            Kind::Text(text) => text.trim().parse().ok(),
            _ => None,
        };
        if let Some(number) = number.filter(|number| (least..=most).contains(number)) {
            return Some(number);
        }
        let range =
            if most < f64::MAX { format!(" from {least} to {most}") } else { String::new() };
        self.faults.add(&node.at, format!("\"{key}\" must be a number{range}"), None);
        None
    }

    /// True or false.
    pub fn boolean(&mut self, key: &'static str) -> Option<bool> {
        let node = self.node(key)?;
        if let Kind::Bool(truth) = node.kind {
            return Some(truth);
        }
        let message = format!("\"{key}\" must be true or false, not {}", node.type_name());
        self.faults.add(&node.at, message, None);
        None
    }

    /// `"on"`, `"off"`, or a truth.
    pub fn switch(&mut self, key: &'static str) -> Option<bool> {
        let node = self.node(key)?;
        match (&node.kind, node.plain().as_str()) {
            (Kind::Bool(truth), _) => Some(*truth),
            (_, "on") => Some(true),
            (_, "off") => Some(false),
            _ => {
                let message = format!("\"{key}\" must be \"on\" or \"off\"");
                self.faults.add(&node.at, message, None);
                None
            }
        }
    }

    /// A time such as `"20ms"`.
    pub fn time(&mut self, key: &'static str) -> Option<Duration> {
        let node = self.node(key)?;
        let time = quantity_of(node, self.faults, quantity::time)?;
        if time > TIME_MAX {
            let most = TIME_MAX.as_nanos() / 1_000_000_000;
            self.faults.add(&node.at, format!("a time may be at most {most}s"), None);
            return None;
        }
        Some(time)
    }

    /// A rate such as `"500mbit"`.
    pub fn rate(&mut self, key: &'static str) -> Option<Rate> {
        let node = self.node(key)?;
        quantity_of(node, self.faults, quantity::rate)
    }

    /// A size in bytes such as `"64kb"`, or a whole number.
    pub fn size(&mut self, key: &'static str) -> Option<u64> {
        let node = self.node(key)?;
        quantity_of(node, self.faults, quantity::size)
    }

    /// A share such as `"0.1%"`, in millionths.
    pub fn share(&mut self, key: &'static str) -> Option<u64> {
        let node = self.node(key)?;
        quantity_of(node, self.faults, quantity::share)
    }

    /// A list of texts, or one text.
    pub fn texts(&mut self, key: &'static str) -> Vec<(&'a str, &'a Origin)> {
        self.node(key).map_or(Vec::new(), |node| as_texts(node, self.faults))
    }
}

/// The text of `node`; a fault if it is something else.
pub fn as_text<'a>(node: &'a Node, faults: &Faults<'_>) -> Option<&'a str> {
    if let Kind::Text(text) = &node.kind {
        return Some(text);
    }
    faults.add(&node.at, format!("expected a string, found {}", node.type_name()), None);
    None
}

/// The texts of a list, or one text.
pub fn as_texts<'a>(node: &'a Node, faults: &Faults<'_>) -> Vec<(&'a str, &'a Origin)> {
    let items = match &node.kind {
        Kind::List(items) => items.as_slice(),
        _ => std::slice::from_ref(node),
    };
    items.iter().filter_map(|item| as_text(item, faults).map(|text| (text, &item.at))).collect()
}

/// `node` as one of `words`; a fault that names the nearest word if it is none.
pub fn as_word<T: Copy>(
    node: &Node,
    words: &[(&'static str, T)],
    what: &str,
    faults: &Faults<'_>,
) -> Option<T> {
    let text = as_text(node, faults)?;
    if let Some((_, value)) = words.iter().find(|(word, _)| *word == text) {
        return Some(*value);
    }
    let help = suggest_value(what, text, words.iter().map(|(word, _)| *word));
    faults.add(&node.at, format!("\"{text}\" is not a valid {what}"), help);
    None
}

/// A quantity written as a text, or as a plain number where its unit allows.
fn quantity_of<T>(
    node: &Node,
    faults: &Faults<'_>,
    parse: impl Fn(&str) -> Result<T, quantity::Fault>,
) -> Option<T> {
    let written = match &node.kind {
        Kind::Text(text) => text.clone(),
        Kind::Int(number) => number.to_string(),
        _ => {
            faults.add(&node.at, format!("expected a quantity, found {}", node.type_name()), None);
            return None;
        }
    };
    match parse(&written) {
        Ok(value) => Some(value),
        Err(message) => {
            faults.add(&node.at, message, None);
            None
        }
    }
}
