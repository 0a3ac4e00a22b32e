//! The tree: values, and where they were written.

use std::ops::Range;

/// Where a value came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A byte range of the file.
    File(Range<usize>),
    /// A `--set`, sweep or draw, as written by the user.
    Override(String),
}

/// A value and where it was written.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// The value.
    pub kind: Kind,
    /// Where it was written.
    pub at: Origin,
}

/// A key and where it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    /// The key.
    pub name: String,
    /// Where it was written.
    pub at: Origin,
}

/// A value.
#[derive(Clone, Debug, PartialEq)]
pub enum Kind {
    /// Text.
    Text(String),
    /// A whole number.
    Int(i64),
    /// A decimal number.
    Float(f64),
    /// A truth value.
    Bool(bool),
    /// A list.
    List(Vec<Node>),
    /// A table, in the order of the file.
    Table(Vec<(Key, Node)>),
}

impl Node {
    /// The value of `key`, if this is a table that has it.
    pub fn get(&self, key: &str) -> Option<&Self> {
        match &self.kind {
            Kind::Table(entries) => {
                entries.iter().find(|(name, _)| name.name == key).map(|(_, node)| node)
            }
            _ => None,
        }
    }

    /// What is at a dotted path below; at each table the longest key that exists wins.
    pub(super) fn find(&self, path: &str) -> Option<&Self> {
        if let Some(node) = self.get(path) {
            return Some(node);
        }
        let mut dots = path.rmatch_indices('.').map(|(dot, _)| dot);
        dots.find_map(|dot| self.get(&path[..dot])?.find(&path[dot + 1..]))
    }

    /// Takes away what is at a dotted path below; false if nothing is there.
    pub(super) fn remove(&mut self, path: &str) -> bool {
        let Kind::Table(entries) = &mut self.kind else { return false };
        if let Some(place) = entries.iter().position(|(key, _)| key.name == path) {
            entries.remove(place);
            return true;
        }
        let mut dots = path.rmatch_indices('.').map(|(dot, _)| dot);
        dots.any(|dot| {
            let child = entries.iter_mut().find(|(key, _)| key.name == path[..dot]);
            child.is_some_and(|(_, child)| child.remove(&path[dot + 1..]))
        })
    }

    /// What kind of value this is, for messages.
    pub fn type_name(&self) -> &'static str {
        match self.kind {
            Kind::Text(_) => "a text",
            Kind::Int(_) => "a whole number",
            Kind::Float(_) => "a decimal number",
            Kind::Bool(_) => "true or false",
            Kind::List(_) => "a list",
            Kind::Table(_) => "a table",
        }
    }

    /// The value as a person would write it on a command line.
    pub fn plain(&self) -> String {
        match &self.kind {
            Kind::Text(text) => text.clone(),
            Kind::Int(number) => number.to_string(),
            Kind::Float(number) => number.to_string(),
            Kind::Bool(truth) => truth.to_string(),
            Kind::List(items) => {
                format!("[{}]", items.iter().map(Self::plain).collect::<Vec<_>>().join(", "))
            }
            Kind::Table(_) => "{…}".into(),
        }
    }

    /// Roughly the bytes of memory that a copy takes.
    pub fn size(&self) -> usize {
        size_of::<Self>()
            + match &self.kind {
                Kind::Text(text) => text.len(),
                Kind::List(items) => items.iter().map(Self::size).sum(),
                Kind::Table(entries) => {
                    entries.iter().map(|(key, item)| key.name.len() + item.size()).sum()
                }
                _ => 0,
            }
    }

    pub(super) fn relabel(&mut self, origin: &Origin) {
        self.at = origin.clone();
        match &mut self.kind {
            Kind::List(items) => items.iter_mut().for_each(|item| item.relabel(origin)),
            Kind::Table(entries) => {
                for (key, item) in entries {
                    key.at = origin.clone();
                    item.relabel(origin);
                }
            }
            _ => {}
        }
    }
}

/// Puts `value` at `path` below `node`; on failure the segment that was not found and what there is.
pub(super) fn set_at_path(
    node: &mut Node,
    path: &str,
    value: Node,
) -> Result<(), (String, Vec<String>)> {
    let Kind::Table(entries) = &mut node.kind else {
        return Err((path.into(), Vec::new()));
    };
    if let Some((_, old)) = entries.iter_mut().find(|(key, _)| key.name == path) {
        *old = value;
        return Ok(());
    }
    let mut split = path.len();
    while let Some(dot) = path[..split].rfind('.') {
        let (head, tail) = (&path[..dot], &path[dot + 1..]);
        if let Some((_, child)) = entries.iter_mut().find(|(key, _)| key.name == head) {
            if matches!(child.kind, Kind::Table(_)) {
                return set_at_path(child, tail, value);
            }
            return Err((tail.into(), Vec::new()));
        }
        split = dot;
    }
    // A missing leaf is added; whether the key is allowed is the reader's business. A missing
    // table is added only where its name can be such (`sysctl`, `measure`), never a new node.
    let first = path.split('.').next().unwrap_or(path);
    if path.contains('.') && !path.starts_with("net.") && !OPTIONAL_TABLES.contains(&first) {
        let valid = entries.iter().map(|(key, _)| key.name.clone()).collect();
        return Err((first.into(), valid));
    }
    let at = value.at.clone();
    if OPTIONAL_TABLES.contains(&first) && path.contains('.') {
        let mut table = Node { kind: Kind::Table(Vec::new()), at: at.clone() };
        let placed = set_at_path(&mut table, &path[first.len() + 1..], value);
        entries.push((Key { name: first.into(), at }, table));
        return placed;
    }
    entries.push((Key { name: path.into(), at }, value));
    Ok(())
}

/// Tables that an override may bring into being.
const OPTIONAL_TABLES: [&str; 5] = ["measure", "sysctl", "qdisc", "police", "parameters"];
