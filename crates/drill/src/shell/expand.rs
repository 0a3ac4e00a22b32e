//! Words into texts: variables, sums and outputs put in, and split at blanks.

use super::syntax::{Modifier, Text, Word};
use super::{Done, MAX_TEXT, Shell, glob};
use crate::fault::{Fault, Pos};
use crate::kernel::Kernel;

impl Shell {
    /// A word as one text.
    pub(super) fn expand(&mut self, word: &Word, pos: Pos, kernel: &mut Kernel) -> Done<String> {
        let mut out = String::new();
        for part in &word.parts {
            out.push_str(&self.text_of(&part.text, pos, kernel)?);
            too_long(&out, pos)?;
        }
        Ok(out)
    }

    /// A word as a pattern: what stood in quotes stands for itself.
    pub(super) fn expand_pattern(
        &mut self,
        word: &Word,
        pos: Pos,
        kernel: &mut Kernel,
    ) -> Done<String> {
        let mut out = String::new();
        for part in &word.parts {
            let text = self.text_of(&part.text, pos, kernel)?;
            for c in text.chars() {
                if part.quoted && matches!(c, '*' | '?' | '[' | '\\') {
                    out.push('\\');
                }
                out.push(c);
            }
        }
        Ok(out)
    }

    /// Words as the arguments that they come to.
    pub(super) fn expand_all(
        &mut self,
        words: &[Word],
        pos: Pos,
        kernel: &mut Kernel,
    ) -> Done<Vec<String>> {
        let mut list = Vec::new();
        let mut total = 0;
        for word in words {
            for text in self.fields(word, pos, kernel)? {
                total += text.len() + 1;
                if total > MAX_TEXT {
                    return Err(Fault::new(pos, "arguments of more than a megabyte", ""));
                }
                list.push(text);
            }
        }
        Ok(list)
    }

    fn fields(&mut self, word: &Word, pos: Pos, kernel: &mut Kernel) -> Done<Vec<String>> {
        let mut fields = Vec::new();
        // What has been put together of the next field; `None`: nothing of it yet.
        let mut field = word.quoted.then(String::new);
        for part in &word.parts {
            if let (Text::Variable(name, None), true) = (&part.text, part.quoted)
                && name == "@"
            {
                let mut arguments = self.arguments.iter().skip(1).cloned();
                field = arguments.next().map(|first| field.take().unwrap_or_default() + &first);
                for argument in arguments {
                    fields.extend(field.replace(argument));
                }
                continue;
            }
            let text = self.text_of(&part.text, pos, kernel)?;
            if part.quoted || matches!(part.text, Text::Literal(_)) {
                field.get_or_insert_default().push_str(&text);
                continue;
            }
            let mut pieces = text.split([' ', '\t', '\n']).peekable();
            while let Some(piece) = pieces.next() {
                if !piece.is_empty() {
                    field.get_or_insert_default().push_str(piece);
                }
                if pieces.peek().is_some() {
                    fields.extend(field.take().filter(|it| !it.is_empty()));
                }
            }
        }
        fields.extend(field);
        Ok(fields)
    }

    fn text_of(&mut self, text: &Text, pos: Pos, kernel: &mut Kernel) -> Done<String> {
        Ok(match text {
            Text::Literal(text) => text.clone(),
            Text::Variable(name, None) => self.variable(name),
            Text::Variable(name, Some((modifier, word))) => {
                let value = self.variable(name);
                match modifier {
                    Modifier::Length => value.chars().count().to_string(),
                    Modifier::Default if value.is_empty() => self.expand(word, pos, kernel)?,
                    Modifier::Assign if value.is_empty() => {
                        let value = self.expand(word, pos, kernel)?;
                        self.assign(name, value.clone(), pos)?;
                        value
                    }
                    Modifier::Default | Modifier::Assign => value,
                    Modifier::Alternative if value.is_empty() => value,
                    Modifier::Alternative => self.expand(word, pos, kernel)?,
                    Modifier::Prefix => {
                        let pattern = self.expand(word, pos, kernel)?;
                        glob::without_prefix(&value, &pattern).to_owned()
                    }
                    Modifier::Suffix => {
                        let pattern = self.expand(word, pos, kernel)?;
                        glob::without_suffix(&value, &pattern).to_owned()
                    }
                }
            }
            Text::Arithmetic(text) => self.arithmetic_or_fault(text, 0, pos)?.to_string(),
            Text::Output(list) => {
                self.depth += 1;
                if self.depth > super::command::MAX_DEPTH {
                    return Err(Fault::new(pos, "commands that call each other without end", ""));
                }
                let ran = self.apart(|shell| shell.list(list, &mut String::new(), kernel))?;
                self.depth -= 1;
                self.last = ran.status.0;
                self.outputs += 1;
                self.print(&ran.err);
                ran.out.trim_end_matches('\n').to_owned()
            }
        })
    }

    /// The value of a variable; empty if it has none.
    pub(super) fn variable(&self, name: &str) -> String {
        if let Ok(index) = name.parse::<usize>() {
            return self.arguments.get(index).cloned().unwrap_or_default();
        }
        match name {
            // The process of the runner: a suite names files of its own by it.
            "PPID" | "$" | "PACKETDRILL_PID" => "1".to_owned(),
            "?" => self.last.to_string(),
            "#" => self.arguments.len().saturating_sub(1).to_string(),
            "@" | "*" => self.arguments.get(1..).unwrap_or_default().join(" "),
            _ => self.variables.get(name).cloned().unwrap_or_default(),
        }
    }

    /// Gives a variable a value.
    pub(super) fn assign(&mut self, name: &str, value: String, pos: Pos) -> Done<()> {
        too_long(&value, pos)?;
        let new = !self.variables.contains_key(name);
        if new && self.variables.len() >= MAX_VARIABLES {
            return Err(Fault::new(pos, format!("more than {MAX_VARIABLES} variables"), ""));
        }
        self.variables.insert(name.to_owned(), value);
        Ok(())
    }
}

fn too_long(text: &str, pos: Pos) -> Done<()> {
    if text.len() > MAX_VALUE {
        return Err(Fault::new(pos, "a text of more than 64 KiB", "does a loop not end?"));
    }
    Ok(())
}

/// The longest value of a variable, bytes.
const MAX_VALUE: usize = 1 << 16;
const MAX_VARIABLES: usize = 1_000;
