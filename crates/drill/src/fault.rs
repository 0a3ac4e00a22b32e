//! What is wrong with a script, and where.

use core::fmt;

/// A place in a script: line and column, both from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default, Hash)]
pub struct Pos {
    /// Line, from 1.
    pub line: u32,
    /// Column in characters, from 1.
    pub column: u32,
}

impl fmt::Display for Pos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

/// A script that cannot be run: what is wrong, where, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Where.
    pub pos: Pos,
    /// What is wrong.
    pub what: String,
    /// What would be right; empty if that is clear from `what`.
    pub fix: String,
    /// The script is right, but asks for what has no meaning without a kernel: it is skipped.
    pub no_meaning: bool,
}

impl Fault {
    /// A fault at `pos`.
    pub fn new(pos: Pos, what: impl Into<String>, fix: impl Into<String>) -> Self {
        let what = shortened(what.into());
        Self { pos, what, fix: fix.into(), no_meaning: false }
    }

    /// Something that has no meaning without a kernel: the script is skipped, because `why`.
    pub fn no_meaning(pos: Pos, why: impl Into<String>) -> Self {
        Self { pos, what: shortened(why.into()), fix: String::new(), no_meaning: true }
    }

    /// A fault about a word that is none of `known`; names the nearest one.
    pub fn unknown(pos: Pos, kind: &str, word: &str, known: &[&str]) -> Self {
        let near = if word.len() > TOLD_MAX { None } else { nearest(word, known) };
        let fix = match near {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("known are: {}", list(known)),
        };
        Self::new(pos, format!("unknown {kind} `{word}`"), fix)
    }
}

/// Longest quotation of a script in a message: its words may be of any length.
const TOLD_MAX: usize = 400;

fn shortened(text: String) -> String {
    match text.char_indices().nth(TOLD_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.what)?;
        if !self.fix.is_empty() {
            write!(f, "; {}", self.fix)?;
        }
        Ok(())
    }
}

/// The word of `known` that is nearest to `word`, if any is near.
pub fn nearest<'a>(word: &str, known: &[&'a str]) -> Option<&'a str> {
    let distance = |it: &str| strsim::damerau_levenshtein(word, it);
    let best = known.iter().copied().min_by_key(|it| distance(it))?;
    (distance(best) <= 1 + word.len() / 4).then_some(best)
}

fn list(known: &[&str]) -> String {
    const MOST: usize = 12;
    let mut text = known.iter().take(MOST).copied().collect::<Vec<_>>().join(", ");
    if known.len() > MOST {
        text.push_str(", …");
    }
    text
}
