//! Text into words and redirections: quotes, `$`, `<`, `>`.

use super::syntax::{List, Modifier, Part, Redirect, Target, Text, Word};
use crate::fault::{Fault, Pos};

/// Longest text that a command may hold or print, in bytes.
pub const MAX_TEXT: usize = 1 << 20;

/// Brackets, quotes and words of the shell in each other, no deeper.
const MAX_NESTING: u32 = 40;

/// Reads a whole text.
pub(super) fn parse(text: &str, pos: Pos) -> Result<List, Fault> {
    if text.len() > MAX_TEXT {
        return Err(Fault::new(pos, "a command of more than a megabyte", ""));
    }
    let chars: Vec<char> = text.chars().collect();
    let at = Pos { line: pos.line, column: pos.column + 1 };
    let mut reader = Reader { chars, next: 0, pos: at, nesting: 0 };
    let list = reader.list()?;
    match reader.peek() {
        None => Ok(list),
        Some(c) => {
            let what = reader.word_ahead().unwrap_or_else(|| c.to_string());
            Err(Fault::new(reader.pos, format!("unexpected `{what}`"), ""))
        }
    }
}

/// A place in a text.
pub(super) struct Reader {
    chars: Vec<char>,
    next: usize,
    pub pos: Pos,
    nesting: u32,
}

impl Reader {
    pub fn peek(&self) -> Option<char> {
        self.chars.get(self.next).copied()
    }

    pub fn starts(&self, text: &str) -> bool {
        text.chars().enumerate().all(|(index, c)| self.chars.get(self.next + index) == Some(&c))
    }

    pub fn take(&mut self) -> Option<char> {
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

    pub fn eat(&mut self, text: &str) -> bool {
        let found = self.starts(text);
        if found {
            for _ in text.chars() {
                self.take();
            }
        }
        found
    }

    /// One level deeper.
    pub fn nest(&mut self) -> Result<(), Fault> {
        self.nesting += 1;
        if self.nesting > MAX_NESTING {
            return Err(Fault::new(self.pos, "commands too deep in each other", "40 are allowed"));
        }
        Ok(())
    }

    pub const fn unnest(&mut self) {
        self.nesting -= 1;
    }

    /// The plain word that comes next, if one does.
    pub fn word_ahead(&self) -> Option<String> {
        let word: String = self.chars[self.next..]
            .iter()
            .take_while(|c| {
                !matches!(c, ' ' | '\t' | '\r' | '\n' | ';' | '|' | '&' | '<' | '>' | '(' | ')')
            })
            .collect();
        (!word.is_empty()).then_some(word)
    }

    pub fn blanks(&mut self) {
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

    /// Blanks and ends of lines.
    pub fn lines(&mut self) {
        self.blanks();
        while self.eat("\n") {
            self.blanks();
        }
    }

    pub fn redirect(&mut self) -> Result<Option<Redirect>, Fault> {
        let table = [
            ("2>&1", 2, None),
            ("1>&2", 1, None),
            (">&2", 1, None),
            ("&>>", 3, Some(true)),
            ("&>", 3, Some(false)),
            (">&", 3, Some(false)),
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
                None => Target::Duplicate,
                Some(append) => {
                    self.blanks();
                    Target::Output { word: self.word()?, append }
                }
            };
            return Ok(Some(Redirect { stream, target }));
        }
        if self.eat("<<<") {
            self.blanks();
            let mut word = self.word()?;
            word.parts.push(literal("\n".to_owned(), true));
            return Ok(Some(Redirect { stream: 0, target: Target::Here(word) }));
        }
        if self.eat("<<") {
            let dash = self.eat("-");
            self.blanks();
            return self.here_document(dash).map(Some);
        }
        if self.eat("<") {
            self.blanks();
            return Ok(Some(Redirect { stream: 0, target: Target::Input(self.word()?) }));
        }
        Ok(None)
    }

    /// The lines up to the delimiter, taken out of the text behind this one.
    fn here_document(&mut self, dash: bool) -> Result<Redirect, Fault> {
        let pos = self.pos;
        let delimiter = self.word()?;
        let quoted = delimiter.quoted;
        let end: String = delimiter
            .parts
            .iter()
            .map(|part| match &part.text {
                Text::Literal(text) => text.as_str(),
                _ => "",
            })
            .collect();
        let behind = &self.chars[self.next..];
        let Some(begin) = behind.iter().position(|c| *c == '\n').map(|at| self.next + at + 1)
        else {
            return Err(Fault::new(pos, format!("no line `{end}` follows"), ""));
        };
        let (mut at, mut body) = (begin, String::new());
        loop {
            let line_end = self.chars[at..]
                .iter()
                .position(|c| *c == '\n')
                .map_or(self.chars.len(), |n| at + n);
            let line: String = self.chars[at..line_end].iter().collect();
            let line = if dash { line.trim_start_matches('\t') } else { line.as_str() };
            let last = line_end >= self.chars.len();
            if line == end {
                self.chars.drain(begin..(line_end + 1).min(self.chars.len()));
                break;
            }
            if last {
                return Err(Fault::new(pos, format!("no line `{end}` follows"), ""));
            }
            body.push_str(line);
            body.push('\n');
            at = line_end + 1;
        }
        let word = if quoted {
            Word { parts: vec![literal(body, true)], quoted: true }
        } else {
            let mut reader =
                Self { chars: body.chars().collect(), next: 0, pos, nesting: self.nesting };
            reader.in_quotes(None)?
        };
        Ok(Redirect { stream: 0, target: Target::Here(word) })
    }

    pub fn word(&mut self) -> Result<Word, Fault> {
        let begin = self.pos;
        let mut word = Word::default();
        loop {
            if self.eat("\\\n") {
                continue;
            }
            match self.peek() {
                None | Some(' ' | '\t' | '\r' | '\n' | ';' | '|' | '&' | '<' | '>' | '(' | ')') => {
                    break;
                }
                Some('`') => {
                    let what = "back-ticks within back-ticks";
                    return Err(Fault::new(self.pos, what, "write $(…)"));
                }
                Some('\'') => {
                    self.take();
                    word.quoted = true;
                    let mut text = String::new();
                    loop {
                        match self.take() {
                            Some('\'') => break,
                            Some(c) => text.push(c),
                            None => return Err(Fault::new(begin, "no second ' follows", "")),
                        }
                    }
                    word.parts.push(literal(text, true));
                }
                Some('"') => {
                    self.take();
                    let inner = self.in_quotes(Some(begin))?;
                    word.quoted = true;
                    word.parts.extend(inner.parts);
                }
                Some('\\') => {
                    self.take();
                    let text: String = self.take().into_iter().collect();
                    word.quoted = true;
                    word.parts.push(literal(text, true));
                }
                Some('$') => {
                    let text = self.dollar()?;
                    word.parts.push(Part { text, quoted: false });
                }
                Some(c) => {
                    self.take();
                    match word.parts.last_mut() {
                        Some(Part { text: Text::Literal(text), quoted: false }) => text.push(c),
                        _ => word.parts.push(literal(c.to_string(), false)),
                    }
                }
            }
        }
        if word.parts.is_empty() && !word.quoted {
            return Err(Fault::new(begin, "a word is missing", ""));
        }
        Ok(word)
    }

    /// What stands in double quotes, from behind the first to behind the second; `None`: up to the
    /// end of the text.
    fn in_quotes(&mut self, begin: Option<Pos>) -> Result<Word, Fault> {
        let mut word = Word { parts: Vec::new(), quoted: true };
        let mut text = String::new();
        loop {
            match self.peek() {
                Some('"') if begin.is_some() => {
                    self.take();
                    break;
                }
                Some('\\') => {
                    self.take();
                    match self.take() {
                        Some(c @ ('"' | '\\' | '$' | '`')) => text.push(c),
                        Some('\n') | None => {}
                        Some(c) => text.extend(['\\', c]),
                    }
                }
                Some('$') => {
                    let part = self.dollar()?;
                    if !text.is_empty() {
                        word.parts.push(literal(core::mem::take(&mut text), true));
                    }
                    word.parts.push(Part { text: part, quoted: true });
                }
                Some(c) => {
                    text.push(c);
                    self.take();
                }
                None => match begin {
                    Some(begin) => return Err(Fault::new(begin, "no second \" follows", "")),
                    None => break,
                },
            }
        }
        if !text.is_empty() {
            word.parts.push(literal(text, true));
        }
        Ok(word)
    }

    /// `$NAME`, `${…}`, `$((…))`, `$(…)`; a `$` alone is one.
    fn dollar(&mut self) -> Result<Text, Fault> {
        let begin = self.pos;
        self.take();
        if self.eat("((") {
            return Ok(Text::Arithmetic(self.arithmetic(begin)?));
        }
        if self.eat("(") {
            self.nest()?;
            let list = self.list()?;
            self.unnest();
            if !self.eat(")") {
                return Err(Fault::new(begin, "no `)` follows", ""));
            }
            return Ok(Text::Output(list));
        }
        if self.eat("{") {
            return self.braces(begin);
        }
        if let Some(c @ ('?' | '#' | '@' | '*' | '$' | '!' | '0'..='9')) = self.peek() {
            self.take();
            return Ok(Text::Variable(c.to_string(), None));
        }
        let name = self.name();
        Ok(if name.is_empty() { Text::Literal("$".to_owned()) } else { Text::Variable(name, None) })
    }

    pub fn name(&mut self) -> String {
        let mut name = String::new();
        while let Some(c) = self.peek()
            && (c.is_ascii_alphanumeric() || c == '_')
        {
            name.push(c);
            self.take();
        }
        name
    }

    /// `${…}` behind the brace.
    fn braces(&mut self, begin: Pos) -> Result<Text, Fault> {
        let closed = |reader: &mut Self| {
            if reader.eat("}") { Ok(()) } else { Err(Fault::new(begin, "no `}` follows", "")) }
        };
        if self.starts("#") && !self.starts("#}") {
            self.take();
            let name = self.name();
            closed(self)?;
            return Ok(Text::Variable(name, Some((Modifier::Length, Box::default()))));
        }
        let mut name = self.name();
        if name.is_empty()
            && let Some(c @ ('?' | '#' | '@' | '*' | '$')) = self.peek()
        {
            self.take();
            name.push(c);
        }
        if self.eat("}") {
            return Ok(Text::Variable(name, None));
        }
        let signs = [
            (":-", Modifier::Default),
            (":=", Modifier::Assign),
            (":+", Modifier::Alternative),
            ("-", Modifier::Default),
            ("=", Modifier::Assign),
            ("+", Modifier::Alternative),
            ("##", Modifier::Prefix),
            ("#", Modifier::Prefix),
            ("%%", Modifier::Suffix),
            ("%", Modifier::Suffix),
        ];
        let Some((_, modifier)) = signs.into_iter().find(|(sign, _)| self.eat(sign)) else {
            if self.peek().is_none() {
                return Err(Fault::new(begin, "no `}` follows", ""));
            }
            return Err(Fault::no_meaning(begin, "this form of `${…}` is not interpreted"));
        };
        let (mut inner, mut depth) = (String::new(), 0_u32);
        loop {
            match self.take() {
                Some('}') if depth == 0 => break,
                Some(c) => {
                    depth = match c {
                        '{' => depth + 1,
                        '}' => depth - 1,
                        _ => depth,
                    };
                    inner.push(c);
                }
                None => return Err(Fault::new(begin, "no `}` follows", "")),
            }
        }
        self.nest()?;
        let mut reader =
            Self { chars: inner.chars().collect(), next: 0, pos: begin, nesting: self.nesting };
        let word = reader.in_quotes(None)?;
        self.unnest();
        Ok(Text::Variable(name, Some((modifier, Box::new(word)))))
    }

    /// What stands between `((` and `))`, from behind the first to behind the second.
    pub fn arithmetic(&mut self, begin: Pos) -> Result<String, Fault> {
        let (mut inner, mut depth) = (String::new(), 0_u32);
        loop {
            if depth == 0 && self.eat("))") {
                return Ok(inner);
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
    }
}

/// A part that stands for itself.
pub(super) fn literal(text: String, quoted: bool) -> Part {
    Part { text: Text::Literal(text), quoted }
}
