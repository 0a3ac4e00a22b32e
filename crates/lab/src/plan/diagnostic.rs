//! What is wrong with a plan: where, what, and the word that was probably meant.

use std::fmt;

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
        write!(f, ": {}", self.message)?;
        if let Some(help) = &self.help {
            write!(f, "; {help}")?;
        }
        if let (Some(text), Some((line, column))) = (&self.line_text, self.position) {
            let gutter = line.to_string();
            let before: String =
                text.chars().take(column - 1).map(|c| if c == '\t' { '\t' } else { ' ' }).collect();
            write!(f, "\n {gutter} | {text}\n {} | {before}^", " ".repeat(gutter.len()))?;
        }
        Ok(())
    }
}

impl fmt::Display for Diagnostics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, one) in self.0.iter().enumerate() {
            if i > 0 {
                writeln!(f)?;
            }
            write!(f, "{one}")?;
        }
        Ok(())
    }
}

/// The valid word nearest to `word` (Damerau-Levenshtein), if one is near enough to be meant.
pub fn nearest<'a>(word: &str, valid: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
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
