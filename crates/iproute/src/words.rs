//! A command line as words that know where they stand, and errors that point at one.

use core::fmt;

/// What is wrong with a command, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrammarError {
    /// Byte offset of the offending word in the text, from 0; the end of the text if a word is
    /// missing.
    pub column: usize,
    /// The offending word; empty if one is missing.
    pub word: String,
    /// What is wrong, in tc's manner.
    pub message: String,
    /// The valid word that is most like it.
    pub nearest: Option<String>,
}

/// The result of reading words.
pub type Result<T> = core::result::Result<T, GrammarError>;

/// One word and its byte offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Word<'a> {
    /// The word itself.
    pub text: &'a str,
    /// Where it begins in the whole text.
    pub column: usize,
}

/// The words that are still to be read.
#[derive(Clone, Debug)]
pub struct Words<'a> {
    text: &'a str,
    at: usize,
}

impl fmt::Display for GrammarError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "column {}: {}", self.column, self.message)?;
        match &self.nearest {
            Some(nearest) => write!(f, " (did you mean \"{nearest}\"?)"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for GrammarError {}

impl<'a> Words<'a> {
    /// The words of `text`, separated by white space.
    pub fn new(text: &'a str) -> Self {
        Self { text, at: 0 }
    }

    /// What is still to be read, without taking it.
    pub fn rest(&self) -> &'a str {
        self.text[self.at..].trim()
    }

    /// The next word without taking it.
    pub fn peek(&self) -> Option<Word<'a>> {
        self.clone().next()
    }

    /// Takes the next word if it is `expected`.
    pub fn accept(&mut self, expected: &str) -> bool {
        let found = self.peek().is_some_and(|word| word.text == expected);
        if found {
            self.next();
        }
        found
    }

    /// Takes the next word if `convert` makes something of it: for optional values.
    pub fn accept_as<T>(&mut self, convert: impl FnOnce(Word<'a>) -> Result<T>) -> Option<T> {
        let value = convert(self.peek()?).ok()?;
        self.next();
        Some(value)
    }

    /// The next word, which must be there because `keyword` needs it.
    ///
    /// # Errors
    /// The text ends here.
    pub fn value(&mut self, keyword: Word<'_>) -> Result<Word<'a>> {
        self.next()
            .ok_or_else(|| self.unexpected_end(&format!("\"{}\" needs a value", keyword.text)))
    }

    /// The error that the text ends too early.
    pub fn unexpected_end(&self, message: &str) -> GrammarError {
        GrammarError {
            column: self.text.trim_end().len(),
            word: String::new(),
            message: message.to_owned(),
            nearest: None,
        }
    }

    /// The error that something necessary was never said.
    pub fn missing(&self, kind: &str, what: &str) -> GrammarError {
        self.unexpected_end(&format!("{kind}: the \"{what}\" parameter is mandatory"))
    }
}

impl<'a> Iterator for Words<'a> {
    type Item = Word<'a>;

    fn next(&mut self) -> Option<Word<'a>> {
        let rest = &self.text[self.at..];
        let column = self.at + rest.find(|c: char| !c.is_whitespace())?;
        let word = &self.text[column..];
        let word = &word[..word.find(char::is_whitespace).unwrap_or(word.len())];
        self.at = column + word.len();
        Some(Word { text: word, column })
    }
}

impl Word<'_> {
    /// The first of `known` that begins with this word: words that iproute2 lets be cut short.
    pub fn cut_short<'k>(&self, known: &[&'k str]) -> Option<&'k str> {
        known.iter().find(|known| !self.text.is_empty() && known.starts_with(self.text)).copied()
    }

    /// The error that this word is not a valid value of `what`.
    pub fn illegal(&self, what: &str) -> GrammarError {
        self.error(format!("illegal value for \"{what}\": \"{}\"", self.text), None)
    }

    /// The error that `subject` knows no such word, with the nearest of those it knows.
    pub fn unknown(&self, subject: &str, known: &[&str]) -> GrammarError {
        let message = format!("{subject}: unknown parameter \"{}\"", self.text);
        self.error(message, nearest(self.text, known))
    }

    /// An error at this word.
    pub fn error(&self, message: String, nearest: Option<String>) -> GrammarError {
        GrammarError { column: self.column, word: self.text.to_owned(), message, nearest }
    }
}

/// The word of `known` with the fewest edits to `word`, the first of equals, if that leaves half
/// of it as it is.
fn nearest(word: &str, known: &[&str]) -> Option<String> {
    if word.len() > LONGEST_TYPO {
        return None;
    }
    let best = known.iter().min_by_key(|candidate| edits(word, candidate))?;
    (2 * edits(word, best) <= word.len().max(best.len())).then(|| (*best).to_owned())
}

/// Longer words are no typing mistakes, and would take long to compare.
const LONGEST_TYPO: usize = 64;

/// Insertions, deletions, changes and swaps of neighbours that turn `from` into `to`.
fn edits(from: &str, to: &str) -> usize {
    let (from, to): (Vec<char>, Vec<char>) = (from.chars().collect(), to.chars().collect());
    let mut rows = vec![(0..=to.len()).collect::<Vec<usize>>()];
    for i in 1..=from.len() {
        let mut row = vec![i];
        for j in 1..=to.len() {
            let differs = usize::from(from[i - 1] != to[j - 1]);
            let mut best =
                (rows[i - 1][j - 1] + differs).min(rows[i - 1][j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && from[i - 1] == to[j - 2] && from[i - 2] == to[j - 1] {
                best = best.min(rows[i - 2][j - 2] + 1);
            }
            row.push(best);
        }
        rows.push(row);
    }
    rows[from.len()][to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_know_their_columns() {
        let words: Vec<_> = Words::new("  tc qdisc\tadd ").map(|w| (w.column, w.text)).collect();
        assert_eq!(words, [(2, "tc"), (5, "qdisc"), (11, "add")]);
    }

    #[test]
    fn the_nearest_word_is_suggested() {
        let known = ["limit", "delay", "loss", "rate"];
        for (typed, expected) in [
            ("delya", Some("delay")),
            ("limits", Some("limit")),
            ("los", Some("loss")),
            ("xyzzyx", None),
        ] {
            assert_eq!(nearest(typed, &known).as_deref(), expected, "{typed}");
        }
    }

    #[test]
    fn errors_point_at_the_word() {
        let mut words = Words::new("netem delya 10ms");
        words.next();
        let word = words.next().expect("a word");
        let error = word.unknown("netem", &["delay"]);
        assert_eq!(
            error.to_string(),
            "column 6: netem: unknown parameter \"delya\" (did you mean \"delay\"?)"
        );
        let ended = Words::new("a b  ").unexpected_end("more");
        assert_eq!(ended.column, 3);
    }
}
