//! Text into commands: quotes, operators, redirections.

use crate::fault::{Fault, Pos};

/// A word before expansion.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub(super) struct Word {
    pub parts: Vec<Part>,
    /// Some of it stood in quotes: expansion does not split it.
    pub quoted: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Part {
    Literal(String),
    Variable(String),
    Arithmetic(String),
}

/// A command with its words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Simple {
    pub pos: Pos,
    pub words: Vec<Word>,
    pub redirects: Vec<Redirect>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Redirect {
    /// 1 output, 2 error, 0 input, 3 both.
    pub stream: u8,
    pub target: Target,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Target {
    Input(Word),
    Output {
        word: Word,
        append: bool,
    },
    /// `2>&1`.
    Duplicate,
}

/// Commands joined by `|`, and what follows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pipeline {
    pub commands: Vec<Simple>,
    pub join: Join,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Join {
    Next,
    And,
    Or,
}

/// Longest text that a command may hold or print, in bytes.
pub const MAX_TEXT: usize = 1 << 20;

pub(super) fn split(text: &str, pos: Pos) -> Result<Vec<Pipeline>, Fault> {
    if text.len() > MAX_TEXT {
        return Err(Fault::new(pos, "a command of more than a megabyte", ""));
    }
    let chars: Vec<char> = text.chars().collect();
    let at = Pos { line: pos.line, column: pos.column + 1 };
    let mut splitter = Splitter { chars, next: 0, pos: at };
    splitter.pipelines()
}

struct Splitter {
    chars: Vec<char>,
    next: usize,
    pos: Pos,
}

impl Splitter {
    fn peek(&self) -> Option<char> {
        self.chars.get(self.next).copied()
    }

    fn starts(&self, text: &str) -> bool {
        text.chars().enumerate().all(|(index, c)| self.chars.get(self.next + index) == Some(&c))
    }

    fn take(&mut self) -> Option<char> {
        let c = self.peek()?;
        self.next += 1;
        if c == '\n' {
            self.pos.line += 1;
            self.pos.column = 1;
        } else {
            self.pos.column += 1;
        }
        Some(c)
    }

    fn eat(&mut self, text: &str) -> bool {
        let found = self.starts(text);
        if found {
            for _ in text.chars() {
                self.take();
            }
        }
        found
    }

    fn blanks(&mut self) {
        loop {
            if self.eat("\\\n") {
                continue;
            }
            match self.peek() {
                Some(' ' | '\t' | '\r') => {
                    self.take();
                }
                Some('#') => {
                    while !matches!(self.peek(), None | Some('\n')) {
                        self.take();
                    }
                }
                _ => return,
            }
        }
    }

    fn pipelines(&mut self) -> Result<Vec<Pipeline>, Fault> {
        let mut list = Vec::new();
        loop {
            self.blanks();
            if self.eat("\n") || self.eat(";") {
                continue;
            }
            if self.peek().is_none() {
                return Ok(list);
            }
            let mut commands = vec![self.simple()?];
            while !self.starts("||") && self.eat("|") {
                self.lines();
                commands.push(self.simple()?);
            }
            let join = if self.eat("&&") {
                self.lines();
                Join::And
            } else if self.eat("||") {
                self.lines();
                Join::Or
            } else {
                if self.starts("&") {
                    return Err(Fault::new(
                        self.pos,
                        "a command in the background",
                        "drop the `&`",
                    ));
                }
                Join::Next
            };
            list.push(Pipeline { commands, join });
        }
    }

    fn lines(&mut self) {
        self.blanks();
        while self.eat("\n") {
            self.blanks();
        }
    }

    fn simple(&mut self) -> Result<Simple, Fault> {
        self.blanks();
        let mut simple = Simple { pos: self.pos, words: Vec::new(), redirects: Vec::new() };
        loop {
            self.blanks();
            if let Some(redirect) = self.redirect()? {
                simple.redirects.push(redirect);
                continue;
            }
            match self.peek() {
                None | Some('\n' | ';' | '|' | '&') => break,
                Some('(' | ')' | '`') => {
                    return Err(Fault::no_meaning(
                        self.pos,
                        "subshells and command substitution are not interpreted",
                    ));
                }
                _ => simple.words.push(self.word()?),
            }
        }
        if simple.words.is_empty() && simple.redirects.is_empty() {
            return Err(Fault::new(self.pos, "a command is missing", ""));
        }
        Ok(simple)
    }

    fn redirect(&mut self) -> Result<Option<Redirect>, Fault> {
        let table = [
            ("2>&1", 2, None),
            ("1>&2", 1, None),
            (">&2", 1, None),
            ("&>>", 3, Some(true)),
            ("&>", 3, Some(false)),
            ("2>>", 2, Some(true)),
            ("2>", 2, Some(false)),
            ("1>", 1, Some(false)),
            (">>", 1, Some(true)),
            (">", 1, Some(false)),
        ];
        for (sign, stream, kind) in table {
            if !self.eat(sign) {
                continue;
            }
            let target = match kind {
                None if stream == 2 => Target::Duplicate,
                // Output to standard error is output all the same.
                None => return Ok(None),
                Some(append) => {
                    self.blanks();
                    Target::Output { word: self.word()?, append }
                }
            };
            return Ok(Some(Redirect { stream, target }));
        }
        if self.starts("<") {
            self.take();
            self.blanks();
            return Ok(Some(Redirect { stream: 0, target: Target::Input(self.word()?) }));
        }
        Ok(None)
    }

    fn word(&mut self) -> Result<Word, Fault> {
        let begin = self.pos;
        let mut word = Word::default();
        let mut literal = String::new();
        loop {
            if self.eat("\\\n") {
                continue;
            }
            match self.peek() {
                None | Some(' ' | '\t' | '\r' | '\n' | ';' | '|' | '&' | '<' | '>' | ')') => break,
                Some('\'') => {
                    self.take();
                    word.quoted = true;
                    loop {
                        match self.take() {
                            Some('\'') => break,
                            Some(c) => literal.push(c),
                            None => return Err(Fault::new(begin, "no second ' follows", "")),
                        }
                    }
                }
                Some('"') => {
                    self.take();
                    word.quoted = true;
                    loop {
                        match self.peek() {
                            Some('"') => {
                                self.take();
                                break;
                            }
                            Some('\\') => {
                                self.take();
                                match self.take() {
                                    Some(c @ ('"' | '\\' | '$' | '`')) => literal.push(c),
                                    Some(c) => literal.extend(['\\', c]),
                                    None => {}
                                }
                            }
                            Some('$') => self.dollar(&mut word, &mut literal)?,
                            Some(c) => {
                                literal.push(c);
                                self.take();
                            }
                            None => return Err(Fault::new(begin, "no second \" follows", "")),
                        }
                    }
                }
                Some('\\') => {
                    self.take();
                    literal.extend(self.take());
                }
                Some('$') => self.dollar(&mut word, &mut literal)?,
                Some(c) => {
                    literal.push(c);
                    self.take();
                }
            }
        }
        if !literal.is_empty() {
            word.parts.push(Part::Literal(literal));
        }
        if word.parts.is_empty() && !word.quoted {
            return Err(Fault::new(begin, "a word is missing", ""));
        }
        Ok(word)
    }

    /// `$NAME`, `${NAME}`, `$((…))`.
    fn dollar(&mut self, word: &mut Word, literal: &mut String) -> Result<(), Fault> {
        let begin = self.pos;
        self.take();
        let part = if self.eat("((") {
            let mut inner = String::new();
            let mut depth = 0_u32;
            loop {
                if depth == 0 && self.eat("))") {
                    break;
                }
                match self.take() {
                    Some('(') => {
                        depth += 1;
                        inner.push('(');
                    }
                    Some(')') if depth > 0 => {
                        depth -= 1;
                        inner.push(')');
                    }
                    Some(c) => inner.push(c),
                    None => return Err(Fault::new(begin, "no `))` follows", "")),
                }
            }
            Part::Arithmetic(inner)
        } else if self.starts("(") {
            return Err(Fault::no_meaning(begin, "command substitution is not interpreted"));
        } else if self.eat("{") {
            let mut name = String::new();
            loop {
                match self.take() {
                    Some('}') => break,
                    Some(c) => name.push(c),
                    None => return Err(Fault::new(begin, "no `}` follows", "")),
                }
            }
            Part::Variable(name)
        } else {
            let mut name = String::new();
            while let Some(c) = self.peek()
                && (c.is_ascii_alphanumeric() || c == '_')
            {
                name.push(c);
                self.take();
            }
            if name.is_empty() {
                literal.push('$');
                return Ok(());
            }
            Part::Variable(name)
        };
        if !literal.is_empty() {
            word.parts.push(Part::Literal(core::mem::take(literal)));
        }
        word.parts.push(part);
        Ok(())
    }
}
