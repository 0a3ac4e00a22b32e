//! `test`, `[ … ]`, `[[ … ]]`.

use super::glob;

/// A condition over words that have been expanded. Files are asked for by `exists`.
///
/// # Errors
/// What is wrong with it.
pub(super) fn evaluate(
    words: &[&str],
    exists: &dyn Fn(&str) -> Option<bool>,
) -> Result<bool, String> {
    let mut condition = Condition { words, at: 0, depth: 0, exists };
    let value = condition.either()?;
    match words.get(condition.at) {
        None => Ok(value),
        Some(word) => Err(format!("unexpected `{word}`")),
    }
}

struct Condition<'a> {
    words: &'a [&'a str],
    at: usize,
    depth: u32,
    /// `None`: there is no such file; `Some(true)`: there is something in it.
    exists: &'a dyn Fn(&str) -> Option<bool>,
}

impl Condition<'_> {
    fn eat(&mut self, signs: &[&str]) -> bool {
        let found = self.words.get(self.at).is_some_and(|word| signs.contains(word));
        self.at += usize::from(found);
        found
    }

    fn either(&mut self) -> Result<bool, String> {
        let mut value = self.both()?;
        while self.eat(&["-o", "||"]) {
            value |= self.both()?;
        }
        Ok(value)
    }

    fn both(&mut self) -> Result<bool, String> {
        let mut value = self.one()?;
        while self.eat(&["-a", "&&"]) {
            value &= self.one()?;
        }
        Ok(value)
    }

    fn one(&mut self) -> Result<bool, String> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err("a condition too deep".to_owned());
        }
        let left = self.words.len() - self.at;
        if let [_, operator, _, ..] = &self.words[self.at..]
            && BINARY.contains(operator)
        {
            return self.compare();
        }
        if left >= 2 && self.eat(&["!"]) {
            return self.one().map(|value| !value);
        }
        if left >= 2 && self.eat(&["(", "\\("]) {
            let value = self.either()?;
            return if self.eat(&[")", "\\)"]) { Ok(value) } else { Err("no `)`".to_owned()) };
        }
        if left >= 2
            && let Some(letter) = self.words[self.at].strip_prefix('-').filter(|it| it.len() == 1)
        {
            let operand = self.words[self.at + 1];
            self.at += 2;
            return match letter {
                "n" => Ok(!operand.is_empty()),
                "z" => Ok(operand.is_empty()),
                "e" | "f" | "r" | "w" | "x" | "d" => Ok((self.exists)(operand).is_some()),
                "s" => Ok((self.exists)(operand) == Some(true)),
                "t" => Ok(false),
                _ => Err(format!("unknown test `-{letter}`")),
            };
        }
        let Some(word) = self.words.get(self.at) else { return Ok(false) };
        self.at += 1;
        Ok(!word.is_empty())
    }

    fn compare(&mut self) -> Result<bool, String> {
        let [left, operator, right] = [0, 1, 2].map(|ahead| self.words[self.at + ahead]);
        self.at += 3;
        let number = |text: &str| {
            text.trim().parse::<i64>().map_err(|_| format!("`{text}` is not a whole number"))
        };
        Ok(match operator {
            "=" | "==" => glob::matches(right, left),
            "!=" => !glob::matches(right, left),
            "<" => left < right,
            ">" => left > right,
            "-eq" => number(left)? == number(right)?,
            "-ne" => number(left)? != number(right)?,
            "-lt" => number(left)? < number(right)?,
            "-le" => number(left)? <= number(right)?,
            "-gt" => number(left)? > number(right)?,
            _ => number(left)? >= number(right)?,
        })
    }
}

const BINARY: [&str; 11] = ["=", "==", "!=", "<", ">", "-eq", "-ne", "-lt", "-le", "-gt", "-ge"];

const MAX_DEPTH: u32 = 200;

#[cfg(test)]
mod tests {
    use super::evaluate;

    #[test]
    fn conditions() {
        let exists = |path: &str| match path {
            "/tmp/full" => Some(true),
            "/tmp/empty" => Some(false),
            _ => None,
        };
        for (text, value) in [
            ("a = a", true),
            ("a == b", false),
            ("a != b", true),
            ("3 -lt 12", true),
            ("3 -ge 12", false),
            ("! 3 -ge 12", true),
            ("-f /tmp/empty", true),
            ("-s /tmp/empty", false),
            ("-s /tmp/full", true),
            ("-e /tmp/none", false),
            ("-n x", true),
            ("-z x", false),
            ("x", true),
            ("", false),
            ("a = b -o a = a -a 1 -eq 1", true),
            ("( a = b || a = a ) && -n x", true),
            ("-n = -n", true),
            ("ipv6 == ipv*", true),
        ] {
            let words: Vec<&str> = text.split_whitespace().collect();
            assert_eq!(evaluate(&words, &exists), Ok(value), "{text}");
        }
        for text in ["a b", "1 -eq x", "( a", "-q x", "a = b c"] {
            let words: Vec<&str> = text.split_whitespace().collect();
            assert!(evaluate(&words, &exists).is_err(), "{text}");
        }
    }
}
