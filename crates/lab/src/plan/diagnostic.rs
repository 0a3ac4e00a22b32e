//! What is wrong with a plan: where, what, and the word that was probably meant.

use std::borrow::Cow;
use std::fmt;

/// So many faults are noted.
pub const NOTED: usize = 1_000;

/// One fault in an experiment file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// The file, or the `--set` argument that brought the value in.
    pub source: String,
    /// Line and column, both from 1, of the first character at fault; `None` for a `--set` value.
    pub position: Option<(usize, usize)>,
    /// What is wrong, in one sentence without a full stop.
    pub message: String,
    /// What to do about it, e.g. the nearest valid word.
    pub help: Option<String>,
    /// The faulty line, for showing it with a caret.
    pub line_text: Option<String>,
}

/// Every fault found in one go, in the order of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostics(pub Vec<Diagnostic>);

impl std::error::Error for Diagnostics {}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.source)?;
        if let Some((line, column)) = self.position {
            write!(f, ":{line}:{column}")?;
        }
        write!(f, ": {}", clipped(&self.message, MESSAGE_MAX))?;
        if let Some(help) = &self.help {
            write!(f, "; {}", clipped(help, MESSAGE_MAX))?;
        }
        if let (Some(text), Some((line, column))) = (&self.line_text, self.position) {
            let gutter = line.to_string();
            let (text, column) = excerpt(text, column);
            let before: String =
                text.chars().take(column - 1).map(|c| if c == '\t' { '\t' } else { ' ' }).collect();
            write!(f, "\n {gutter} | {text}\n {} | {before}^", " ".repeat(gutter.len()))?;
        }
        Ok(())
    }
}

impl fmt::Display for Diagnostics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, one) in self.0.iter().take(SHOWN).enumerate() {
            if i > 0 {
                writeln!(f)?;
            }
            write!(f, "{one}")?;
        }
        match self.0.len().saturating_sub(SHOWN) {
            0 => Ok(()),
            more => write!(f, "\n… and {more} more faults"),
        }
    }
}

/// So many faults are shown; the others follow from them, or can wait.
const SHOWN: usize = 20;
/// Characters of a message. It holds words of the user's, which may be of any length.
const MESSAGE_MAX: usize = 400;
/// Characters of a line that are shown around the place at fault.
const LINE_MAX: usize = 160;

/// A text of at most `most` characters: of a longer one its beginning and its end.
pub fn clipped(text: &str, most: usize) -> Cow<'_, str> {
    let count = text.chars().count();
    if count <= most {
        return Cow::Borrowed(text);
    }
    let end = most / 4;
    let head: String = text.chars().take(most - end - 1).collect();
    let tail: String = text.chars().skip(count - end).collect();
    Cow::Owned(format!("{head}…{tail}"))
}

/// The part of a long line around `column` (from 1), and the column in it.
pub fn excerpt(line: &str, column: usize) -> (Cow<'_, str>, usize) {
    if line.chars().count() <= LINE_MAX {
        return (Cow::Borrowed(line), column);
    }
    let start = column.saturating_sub(1 + LINE_MAX / 2);
    let part: String = line.chars().skip(start).take(LINE_MAX).collect();
    let goes_on = line.chars().nth(start + LINE_MAX).is_some();
    let before = if start > 0 { "…" } else { "" };
    let after = if goes_on { "…" } else { "" };
    (Cow::Owned(format!("{before}{part}{after}")), column - start + before.chars().count())
}

/// The valid word nearest to `word` (Damerau-Levenshtein), if one is near enough to be meant.
pub fn nearest<'a>(word: &str, valid: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    if word.len() > MESSAGE_MAX {
        return None;
    }
    let lower = word.to_lowercase();
    let longest = |candidate: &str| candidate.chars().count().max(word.chars().count());
    valid
        .into_iter()
        .map(|candidate| (strsim::damerau_levenshtein(&lower, candidate), candidate))
        .filter(|(distance, candidate)| *distance * 5 <= longest(candidate) * 2)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// "did you mean …?" if a valid word is near, otherwise the list of valid words.
pub fn suggest<'a>(word: &str, valid: impl IntoIterator<Item = &'a str>) -> Option<String> {
    let valid: Vec<&str> = valid.into_iter().collect();
    match nearest(word, valid.iter().copied()) {
        Some(near) => Some(format!("did you mean \"{near}\"?")),
        None if valid.is_empty() => None,
        None if valid.len() > 12 => Some(format!("valid are {}, …", valid[..12].join(", "))),
        None => Some(format!("valid: {}", valid.join(", "))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_word_is_named_only_when_it_is_near() {
        let words = ["rate", "delay", "loss", "duplicate"];
        assert_eq!(nearest("rat", words), Some("rate"));
        assert_eq!(nearest("dealy", words), Some("delay"));
        assert_eq!(nearest("DELAY", words), Some("delay"));
        assert_eq!(nearest("colour", words), None);
        assert_eq!(suggest("zzz", ["a", "b"]).unwrap(), "valid: a, b");
    }

    #[test]
    fn of_a_long_line_the_part_around_the_fault_is_shown() {
        let line = format!("{}X{}", "a".repeat(1000), "b".repeat(1000));
        let (part, column) = excerpt(&line, 1001);
        assert_eq!(part.chars().count(), LINE_MAX + 2);
        assert_eq!(part.chars().nth(column - 1), Some('X'));
        assert_eq!(excerpt("short", 3), (Cow::Borrowed("short"), 3));
        let (part, column) = excerpt(&line, 1);
        assert!(part.ends_with('…') && column == 1, "{part}");
    }

    #[test]
    fn only_the_first_of_many_faults_are_shown() {
        let fault = Diagnostic {
            source: "x.toml".into(),
            position: None,
            message: "long ".repeat(1000),
            help: None,
            line_text: None,
        };
        let text = Diagnostics(vec![fault; 50]).to_string();
        assert!(text.ends_with("\n… and 30 more faults"), "{text}");
        assert!(text.len() < 20 * 500, "{}", text.len());
    }

    #[test]
    fn a_fault_shows_its_line_with_a_caret() {
        let fault = Diagnostic {
            source: "x.toml".into(),
            position: Some((12, 3)),
            message: "unknown key \"rat\"".into(),
            help: Some("did you mean \"rate\"?".into()),
            line_text: Some("  rat = 1".into()),
        };
        assert_eq!(
            fault.to_string(),
            "x.toml:12:3: unknown key \"rat\"; did you mean \"rate\"?\n 12 |   rat = 1\n    |   ^"
        );
    }
}
