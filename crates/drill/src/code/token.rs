//! Characters of a code block into tokens; lines and their indentation count, as in Python.

use crate::fault::{Fault, Pos};

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Kind {
    Int(i128),
    Millionths(i128),
    Text(String),
    Name(String),
    /// An operator or a bracket.
    Op(&'static str),
    /// The end of a logical line.
    Newline,
    /// The line that follows is indented deeper.
    Indent,
    /// The line that follows is indented less.
    Dedent,
    End,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Token {
    pub pos: Pos,
    /// Offset of the token in the block.
    pub at: usize,
    pub kind: Kind,
}

/// Two-character operators before those of one.
const OPERATORS: [&str; 34] = [
    "**", "//", "<<", ">>", "<=", ">=", "==", "!=", "+=", "-=", "*=", "%=", "&=", "|=", "(", ")",
    "[", "]", ",", ":", ";", "+", "-", "*", "/", "%", "&", "|", "^", "~", "<", ">", "=", ".",
];

pub(super) fn tokens(text: &str, begin: Pos) -> Result<Vec<Token>, Fault> {
    let mut lexer = Lexer { text, at: 0, pos: begin, depth: 0, indents: vec![0], out: Vec::new() };
    lexer.run()?;
    Ok(lexer.out)
}

struct Lexer<'a> {
    text: &'a str,
    at: usize,
    pos: Pos,
    /// Open brackets: within them, lines do not end.
    depth: u32,
    indents: Vec<usize>,
    out: Vec<Token>,
}

impl Lexer<'_> {
    fn run(&mut self) -> Result<(), Fault> {
        // The characters before the first statement do not count as indentation.
        let blank = self.rest().len() - self.rest().trim_start().len();
        self.advance(blank);
        let mut line_begins = false;
        loop {
            if line_begins {
                line_begins = false;
                self.indentation();
            }
            self.skip_blanks();
            let Some(first) = self.rest().chars().next() else { break };
            if first == '\n' {
                if self.depth == 0 {
                    self.end_line();
                    line_begins = true;
                }
                self.advance(1);
            } else {
                self.token(first)?;
            }
        }
        self.end_line();
        while self.indents.len() > 1 {
            self.indents.pop();
            self.push(Kind::Dedent);
        }
        self.push(Kind::End);
        Ok(())
    }

    fn rest(&self) -> &str {
        &self.text[self.at..]
    }

    fn push(&mut self, kind: Kind) {
        self.out.push(Token { pos: self.pos, at: self.at, kind });
    }

    fn end_line(&mut self) {
        if !matches!(self.out.last().map(|token| &token.kind), None | Some(Kind::Newline)) {
            self.push(Kind::Newline);
        }
    }

    fn advance(&mut self, len: usize) {
        for c in self.text[self.at..self.at + len].chars() {
            if c == '\n' {
                self.pos.line += 1;
                self.pos.column = 1;
            } else {
                self.pos.column += 1;
            }
        }
        self.at += len;
    }

    fn skip_blanks(&mut self) {
        loop {
            let rest = self.rest();
            let blanks = rest.bytes().take_while(|c| matches!(c, b' ' | b'\t' | b'\r')).count();
            let len = match &rest[blanks..] {
                rest if rest.starts_with("\\\n") => blanks + 2,
                rest if rest.starts_with('#') => blanks + rest.find('\n').unwrap_or(rest.len()),
                _ => blanks,
            };
            self.advance(len);
            if len == blanks {
                return;
            }
        }
    }

    /// Compares the indentation of a line with that of those before.
    fn indentation(&mut self) {
        let line = self.rest();
        let width = line.bytes().take_while(|c| matches!(c, b' ' | b'\t' | b'\r')).count();
        let first = line[width..].chars().next();
        if matches!(first, None | Some('\n' | '#')) {
            return;
        }
        self.advance(width);
        // A block whose first statement stands on the line of `%{` fixes its margin by the next.
        let opens = self.opens_block();
        let current = *self.indents.last().expect("the margin is always there");
        if width > current && opens {
            self.indents.push(width);
            self.push(Kind::Indent);
        } else if width < current {
            while self.indents.len() > 1 && *self.indents.last().expect("not empty") > width {
                self.indents.pop();
                self.push(Kind::Dedent);
            }
        }
    }

    fn opens_block(&self) -> bool {
        let mut before = self.out.iter().rev().filter(|token| token.kind != Kind::Newline);
        before.next().is_some_and(|token| token.kind == Kind::Op(":"))
    }

    fn token(&mut self, first: char) -> Result<(), Fault> {
        let rest = self.rest();
        if let Some(quote @ ('f' | 'F' | 'r' | 'R' | 'b' | 'B' | 'u' | 'U')) = rest.chars().next()
            && matches!(rest.chars().nth(1), Some('"' | '\''))
        {
            let why =
                format!("strings with a prefix (`{quote}\"…\"`) of Python are not interpreted");
            return Err(Fault::no_meaning(self.pos, why));
        }
        if first.is_ascii_alphabetic() || first == '_' {
            let len = rest.bytes().take_while(|c| c.is_ascii_alphanumeric() || *c == b'_').count();
            let name = rest[..len].to_owned();
            self.push(Kind::Name(name));
            self.advance(len);
        } else if first.is_ascii_digit() {
            let (kind, len) = number(rest)
                .ok_or_else(|| Fault::new(self.pos, "a number that cannot be read", ""))?;
            self.push(kind);
            self.advance(len);
        } else if first == '\'' || first == '"' {
            let (text, len) = quoted(rest, first)
                .ok_or_else(|| Fault::new(self.pos, format!("no second {first} follows"), ""))?;
            self.push(Kind::Text(text));
            self.advance(len);
        } else if let Some(op) = OPERATORS.iter().find(|op| rest.starts_with(**op)) {
            match *op {
                "(" | "[" => self.depth += 1,
                ")" | "]" => self.depth = self.depth.saturating_sub(1),
                _ => {}
            }
            self.push(Kind::Op(op));
            self.advance(op.len());
        } else if matches!(first, '{' | '@') {
            let why = format!("`{first}` of Python is not interpreted");
            return Err(Fault::no_meaning(self.pos, why));
        } else {
            let what = format!("`{first}` has no meaning in a code block");
            return Err(Fault::new(self.pos, what, ""));
        }
        Ok(())
    }
}

fn number(text: &str) -> Option<(Kind, usize)> {
    if let Some(hex) = text.strip_prefix("0x") {
        let len = hex.bytes().take_while(u8::is_ascii_hexdigit).count();
        return Some((Kind::Int(i128::from_str_radix(&hex[..len], 16).ok()?), len + 2));
    }
    let whole = text.bytes().take_while(u8::is_ascii_digit).count();
    let fraction = text[whole..]
        .strip_prefix('.')
        .map_or(0, |rest| 1 + rest.bytes().take_while(u8::is_ascii_digit).count());
    let len = whole + fraction;
    let exponent = text[len..].strip_prefix(['e', 'E']).map(|rest| {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        (rest[..digits].parse::<u32>(), 1 + digits)
    });
    if let Some((exponent, more)) = exponent {
        let scale = 10_i128.checked_pow(exponent.ok().filter(|it| *it <= 18)?)?;
        let millionths = i128::from(crate::lex::micros(&text[..len])?);
        return Some((Kind::Millionths(millionths * scale), len + more));
    }
    if fraction > 0 {
        return Some((Kind::Millionths(i128::from(crate::lex::micros(&text[..len])?)), len));
    }
    Some((Kind::Int(text[..whole].parse().ok()?), whole))
}

fn quoted(text: &str, quote: char) -> Option<(String, usize)> {
    let mut out = String::new();
    let mut chars = text.char_indices().skip(1);
    while let Some((at, c)) = chars.next() {
        match c {
            _ if c == quote => return Some((out, at + 1)),
            '\n' => return None,
            '\\' => match chars.next()?.1 {
                'n' => out.push('\n'),
                't' => out.push('\t'),
                other => out.push(other),
            },
            _ => out.push(c),
        }
    }
    None
}
