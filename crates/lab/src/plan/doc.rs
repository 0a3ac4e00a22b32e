//! The experiment file as a tree whose every value knows where it was written.
//!
//! `--set`, sweeps and draws are edits of this tree before it is read, so an overridden value goes
//! through the same checks as a written one and its errors name the override.

mod tree;

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use self::tree::set_at_path;
pub use self::tree::{Key, Kind, Node, Origin};
use super::diagnostic::{Diagnostic, Diagnostics, NOTED, suggest};
use crate::registry::Registry;

/// A parsed file: its text for error messages and its tree.
#[derive(Clone, Debug)]
pub struct Document {
    /// The file's name as the user gave it.
    pub name: String,
    /// Shared by all points of a sweep.
    text: Arc<str>,
    /// Where the lines of the text begin, once a fault is to be shown.
    lines: OnceLock<Box<[usize]>>,
    /// The tree; always a table.
    pub root: Node,
    /// What its words may name besides what the product has.
    pub registry: Registry,
}

impl Document {
    /// What it was parsed from.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Parses TOML; syntax errors come back with their positions, all of them.
    pub fn parse(name: &str, text: &str) -> Result<Self, Diagnostics> {
        let empty = Node { kind: Kind::Table(Vec::new()), at: Origin::File(0..0) };
        let registry = Registry::default();
        let lines = OnceLock::new();
        let mut document =
            Self { name: name.into(), text: text.into(), lines, root: empty, registry };
        let (table, errors) = DeTable::parse_recoverable(text);
        let mut faults: Vec<Diagnostic> = Vec::new();
        let mut deep = None;
        for error in errors.iter().take(NOTED) {
            let Some(span) = error.span() else {
                let at = Origin::File(deep.get_or_insert_with(|| too_deep(text)).clone());
                faults.push(document.fault(&at, 0, "the key has too many parts".into(), None));
                continue;
            };
            let help = (error.message() == "duplicate key")
                .then(|| "a name may appear only once in its table: rename one of the two".into());
            faults.push(document.fault(&Origin::File(span), 0, error.message().into(), help));
        }
        document.root = convert_table(table.span(), table.get_ref(), &document, &mut faults);
        faults.sort_by_key(|fault| fault.position);
        faults.dedup();
        if faults.is_empty() { Ok(document) } else { Err(Diagnostics(faults)) }
    }

    /// A fault at `at`, `offset` characters into the value (into the text of a quoted string).
    pub fn fault(
        &self,
        at: &Origin,
        offset: usize,
        message: String,
        help: Option<String>,
    ) -> Diagnostic {
        match at {
            Origin::Override(setting) => Diagnostic {
                source: setting.clone(),
                position: None,
                message,
                help,
                line_text: None,
            },
            Origin::File(span) => {
                let start = if offset == 0 { span.start } else { self.inside(span, offset) };
                let (line, column, text) = self.locate(start);
                Diagnostic {
                    source: self.name.clone(),
                    position: Some((line, column)),
                    message,
                    help,
                    line_text: Some(text),
                }
            }
        }
    }

    /// A fault at character `column` (from 0) of the text of the string at `at`.
    pub fn fault_in_text(
        &self,
        at: &Origin,
        column: usize,
        message: String,
        help: Option<String>,
    ) -> Diagnostic {
        let quote = match at {
            Origin::File(span) if self.text[span.clone()].starts_with("\"\"\"") => 3,
            Origin::File(span) if self.text[span.clone()].starts_with("'''") => 3,
            _ => 1,
        };
        self.fault(at, column + quote, message, help)
    }

    fn inside(&self, span: &Range<usize>, characters: usize) -> usize {
        let written = &self.text[span.clone()];
        let bytes = written.char_indices().nth(characters).map_or(written.len(), |(at, _)| at);
        span.start + bytes
    }

    /// Line and column (from 1) of a byte offset, and the text of the line.
    fn locate(&self, offset: usize) -> (usize, usize, String) {
        let mut offset = offset.min(self.text.len());
        while !self.text.is_char_boundary(offset) {
            offset -= 1;
        }
        let line = self.lines().partition_point(|start| *start <= offset);
        let line_start = self.lines()[line - 1];
        let column = self.text[line_start..offset].chars().count() + 1;
        let text = self.text[line_start..].lines().next().unwrap_or("");
        (line, column, text.to_string())
    }

    /// Where its lines begin: looked for once, however many faults there are.
    fn lines(&self) -> &[usize] {
        self.lines.get_or_init(|| {
            let ends = self.text.match_indices('\n').map(|(end, _)| end + 1);
            std::iter::once(0).chain(ends).collect()
        })
    }

    /// Forgets what is swept, but for the names of the axes: once it has been read, each point is read from a copy of
    /// the tree, and of many points that would be very many values.
    pub fn drop_swept_values(&mut self) {
        let Kind::Table(root) = &mut self.root.kind else { return };
        let sweep = root.iter_mut().find(|(key, _)| key.name == "sweep");
        let Some((_, Node { kind: Kind::Table(axes), .. })) = sweep else { return };
        for (_, steps) in axes {
            steps.kind = Kind::List(Vec::new());
        }
    }

    /// Applies `path = value`, where the value is TOML or, failing that, a bare word.
    ///
    /// A path is dotted; at each table the longest key that exists wins, so `qdisc.router.wire`
    /// finds `"router.wire"` inside `[qdisc]`, and so does `qdisc."router.wire"`, as it stands in a file. The name
    /// of a parameter is short for `parameters.NAME`.
    pub fn set(&mut self, path: &str, value: &str, label: &str) -> Result<(), Diagnostics> {
        let node = self.value(value, label)?;
        self.set_node(&unquoted(path), node)
    }

    /// Applies `KEY = value` in the table `table`, which is made if there is none; KEY is taken as
    /// it is, dots and all.
    pub fn set_in(
        &mut self,
        table: &str,
        key: &str,
        value: &str,
        label: &str,
    ) -> Result<(), Diagnostics> {
        let node = self.value(value, label)?;
        let at = Origin::Override(label.into());
        let fault = self.fault(&at, 0, format!("\"{table}\" is not a table"), None);
        let Kind::Table(root) = &mut self.root.kind else { return Err(Diagnostics(vec![fault])) };
        if root.iter().all(|(known, _)| known.name != table) {
            let empty = Node { kind: Kind::Table(Vec::new()), at: at.clone() };
            root.push((Key { name: table.into(), at: at.clone() }, empty));
        }
        let found = root.iter_mut().find(|(known, _)| known.name == table);
        let Some((_, Node { kind: Kind::Table(entries), .. })) = found else {
            return Err(Diagnostics(vec![fault]));
        };
        match entries.iter_mut().find(|(known, _)| known.name == key) {
            Some((_, old)) => *old = node,
            None => entries.push((Key { name: key.into(), at }, node)),
        }
        Ok(())
    }

    /// What is at `path`, by the rules of [`Document::set`].
    pub fn find(&self, path: &str) -> Option<&Node> {
        let parameter = self.root.get("parameters").and_then(|table| table.get(path));
        parameter.or_else(|| self.root.find(path))
    }

    /// Takes away what is at `path`; false if nothing is there.
    pub fn remove(&mut self, path: &str) -> bool {
        if let Kind::Table(root) = &mut self.root.kind
            && let Some((_, parameters)) = root.iter_mut().find(|(key, _)| key.name == "parameters")
            && parameters.remove(path)
        {
            return true;
        }
        self.root.remove(path)
    }

    /// The value that `text`, TOML or a bare word, stands for.
    fn value(&self, text: &str, label: &str) -> Result<Node, Diagnostics> {
        let origin = Origin::Override(label.into());
        let kind = match DeValue::parse(text) {
            Ok(parsed) => {
                let mut faults = Vec::new();
                let node = convert_value(&parsed, self, &mut faults);
                if faults.is_empty() { node.kind } else { return Err(Diagnostics(faults)) }
            }
            Err(_) => Kind::Text(text.into()),
        };
        let mut node = Node { kind, at: origin.clone() };
        node.relabel(&origin);
        Ok(node)
    }

    /// Puts `node` at `path`; see [`Document::set`].
    pub fn set_node(&mut self, path: &str, node: Node) -> Result<(), Diagnostics> {
        let at = node.at.clone();
        let full = match self.root.get("parameters").and_then(|table| table.get(path)) {
            Some(_) => format!("parameters.{path}"),
            None => path.to_string(),
        };
        if full.is_empty() {
            return Err(Diagnostics(vec![self.fault(&at, 0, "the key is empty".into(), None)]));
        }
        match set_at_path(&mut self.root, &full, node) {
            Ok(()) => Ok(()),
            Err((word, valid)) => {
                let help = suggest(&word, valid.iter().map(String::as_str));
                let message = format!("there is no \"{word}\" to set in \"{full}\"");
                Err(Diagnostics(vec![self.fault(&at, 0, message, help)]))
            }
        }
    }
}

/// Where the first key with more parts than the parser takes is written: of that fault alone it does not tell the place. It is known
/// once the last part that is one too many has been read, so the shortest text that has the fault ends in that key.
fn too_deep(text: &str) -> Range<usize> {
    let is_in = |end: usize| {
        let Some(text) = text.get(..end) else { return false };
        DeTable::parse_recoverable(text).1.iter().any(|error| error.span().is_none())
    };
    let ends: Vec<usize> = text.char_indices().map(|(at, char)| at + char.len_utf8()).collect();
    let end = ends.get(ends.partition_point(|end| !is_in(*end))).copied().unwrap_or(text.len());
    let before = &text[..end];
    let start = before.rfind(['\n', '[', '{', ',']).map_or(0, |at| at + 1);
    let blank = before[start..].len() - before[start..].trim_start().len();
    start + blank..end
}

/// A table, in the order of the file.
fn convert_table(
    span: Range<usize>,
    table: &DeTable<'_>,
    document: &Document,
    faults: &mut Vec<Diagnostic>,
) -> Node {
    let mut entries: Vec<(Key, Node)> = table
        .iter()
        .map(|(key, value)| {
            let name = Key { name: key.get_ref().to_string(), at: Origin::File(key.span()) };
            (name, convert_value(value, document, faults))
        })
        .collect();
    entries.sort_by_key(|(key, _)| match &key.at {
        Origin::File(span) => span.start,
        Origin::Override(_) => 0,
    });
    Node { kind: Kind::Table(entries), at: Origin::File(span) }
}

/// A value; what no experiment can have is a fault, and stands as a placeholder.
fn convert_value(
    value: &Spanned<DeValue<'_>>,
    document: &Document,
    faults: &mut Vec<Diagnostic>,
) -> Node {
    let at = Origin::File(value.span());
    let mut bad = |message: &str| {
        if faults.len() < NOTED {
            faults.push(document.fault(&at, 0, message.into(), None));
        }
        Kind::Bool(false)
    };
    let kind = match value.get_ref() {
        DeValue::String(text) => Kind::Text(text.to_string()),
        DeValue::Integer(number) => match i64::from_str_radix(number.as_str(), number.radix()) {
            Ok(number) => Kind::Int(number),
            Err(_) => bad("the number is too large"),
        },
        DeValue::Float(number) => match number.as_str().parse::<f64>() {
            Ok(number) if number.is_finite() => Kind::Float(number),
            _ => bad("the number is not finite"),
        },
        DeValue::Boolean(truth) => Kind::Bool(*truth),
        DeValue::Datetime(_) => bad("a date has no meaning in an experiment"),
        DeValue::Array(items) => {
            Kind::List(items.iter().map(|item| convert_value(item, document, faults)).collect())
        }
        DeValue::Table(table) => return convert_table(value.span(), table, document, faults),
    };
    Node { kind, at }
}

/// A dotted path without the quotes around its keys; they have to be around a whole key.
pub(crate) fn unquoted(path: &str) -> String {
    let mut keys = Vec::new();
    let mut rest = path;
    loop {
        let quote = rest.chars().next().filter(|first| matches!(first, '"' | '\''));
        let quoted = quote.and_then(|quote| rest[1..].split_once(quote));
        let (key, behind) = match quoted {
            Some((key, behind)) if behind.is_empty() || behind.starts_with('.') => (key, behind),
            _ => rest.split_at(rest.find('.').unwrap_or(rest.len())),
        };
        keys.push(key);
        match behind.strip_prefix('.') {
            Some(more) => rest = more,
            None => return keys.join("."),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "a = 1\n[parameters]\nburst = \"64kb\"\ncount = 3\n[qdisc]\n\
                        \"r.w\" = \"police burst ${burst} mtu 2kb\"\nn = \"${count}\"\n";

    #[test]
    fn texts_take_parameters_and_whole_references_keep_their_type() {
        let mut doc = Document::parse("t.toml", FILE).unwrap();
        doc.set("burst", "256kb", "--set burst=256kb").unwrap();
        doc.substitute().unwrap();
        let qdisc = doc.root.get("qdisc").unwrap();
        assert_eq!(qdisc.get("r.w").unwrap().plain(), "police burst 256kb mtu 2kb");
        assert_eq!(qdisc.get("n").unwrap().kind, Kind::Int(3));
    }

    #[test]
    fn dotted_keys_are_found_by_the_longest_match() {
        let mut doc = Document::parse("t.toml", FILE).unwrap();
        doc.set("qdisc.r.w", "\"fq\"", "--set").unwrap();
        assert_eq!(doc.root.get("qdisc").unwrap().get("r.w").unwrap().plain(), "fq");
        for quoted in ["qdisc.\"r.w\"", "qdisc.'r.w'", "\"qdisc\".r.w", "'qdisc'.\"r.w\""] {
            doc.set("qdisc.r.w", "\"fq\"", "--set").unwrap();
            doc.set(quoted, "fifo", "--set").unwrap();
            let qdisc = doc.root.get("qdisc").unwrap();
            assert_eq!(qdisc.get("r.w").unwrap().plain(), "fifo", "{quoted}");
        }
        for wrong in ["qdisc.\"r.w", "qdisc.\"r.w\"x", "\"\"", "."] {
            assert!(doc.set(wrong, "1", "--set").is_err(), "{wrong}");
        }
        let wrong = doc.set("qdics.r.w", "1", "--set qdics.r.w=1").unwrap_err();
        assert_eq!(
            wrong.to_string(),
            "--set qdics.r.w=1: there is no \"qdics\" to set in \"qdics.r.w\"; \
             did you mean \"qdisc\"?"
        );
    }

    #[test]
    fn every_syntax_error_has_a_position() {
        let faults = Document::parse("t.toml", "a = \nb = 2020-01-01\n").unwrap_err();
        assert_eq!(faults.0[0].position.unwrap().0, 1);
        assert!(faults.0.iter().any(|fault| fault.position == Some((2, 5))));
    }

    #[test]
    fn a_key_with_too_many_parts_is_told_where_it_is() {
        let key = vec!["a"; 90].join(".");
        let quoted = vec!["\"ä.b\""; 90].join(".");
        for (text, position) in [
            (format!("x = 1\n  {key} = 2\ny = {{ {key} = 3 }}\n"), (2, 3)),
            (format!("[t]\nx = 1\n[[ {key} ]]\n"), (3, 4)),
            (format!("x = [1, {{ b = \"ä\", {quoted} = 2 }}]\n"), (1, 20)),
        ] {
            let faults = Document::parse("t.toml", &text).unwrap_err();
            let [fault] = faults.0.as_slice() else { panic!("{faults}") };
            assert_eq!(fault.position, Some(position), "{text}");
        }
    }
}
