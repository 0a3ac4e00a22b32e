//! JSON as `ip -j` prints it: objects in the order of their making, no white space.

use core::fmt::Write as _;

/// An object being written.
#[derive(Clone, Debug, Default)]
pub(super) struct Object {
    body: String,
}

impl Object {
    /// A string member.
    pub(super) fn text(self, key: &str, value: &str) -> Self {
        let value = quoted(value);
        self.raw(key, &value)
    }

    /// A number member.
    pub(super) fn number(self, key: &str, value: impl Into<u64>) -> Self {
        let value = value.into().to_string();
        self.raw(key, &value)
    }

    /// A member that is only there or not (`null`).
    pub(super) fn flag(self, key: &str) -> Self {
        self.raw(key, "null")
    }

    /// A member that is JSON already.
    pub(super) fn raw(mut self, key: &str, json: &str) -> Self {
        if !self.body.is_empty() {
            self.body.push(',');
        }
        let key = quoted(key);
        let _ = write!(self.body, "{key}:{json}");
        self
    }

    /// A list of strings.
    pub(super) fn words(self, key: &str, words: &[&str]) -> Self {
        let words: Vec<String> = words.iter().map(|word| quoted(word)).collect();
        let list = list(&words);
        self.raw(key, &list)
    }

    /// The whole object.
    pub(super) fn finish(self) -> String {
        format!("{{{}}}", self.body)
    }
}

/// A list of JSON values.
pub(super) fn list(items: &[String]) -> String {
    format!("[{}]", items.join(","))
}

fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if c < ' ' => {
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}
