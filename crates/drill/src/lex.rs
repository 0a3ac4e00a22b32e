//! Characters into tokens.
//!
//! The longest token wins, as in the language's first implementation: `1.5` is a number, `P.` a
//! word and a dot, `S.5` a word and a number, `192.0.2.1` an address.

use crate::fault::{Fault, Pos};
use std::collections::BTreeMap;

/// One token and where it stands.
#[derive(Clone, Debug, PartialEq)]
pub struct Token {
    /// Where it begins.
    pub pos: Pos,
    /// What it is.
    pub kind: Kind,
    /// The characters of the script.
    pub text: String,
}

/// What a token is.
#[derive(Clone, Debug, PartialEq)]
pub enum Kind {
    /// Letters, digits, underscores.
    Word(String),
    /// A decimal whole number, perhaps with a minus sign.
    Int(i64),
    /// `0x…`.
    Hex(i64),
    /// A number with a fraction, in millionths; what is finer is cut off.
    Micros(i64),
    /// A text in double quotes, escapes resolved.
    Str(Vec<u8>),
    /// A command in back-ticks.
    Command(String),
    /// What stands between `%{` and `}%`.
    Code(String),
    /// An IPv4 address.
    Ipv4(core::net::Ipv4Addr),
    /// An IPv6 address.
    Ipv6(core::net::Ipv6Addr),
    /// `--name`.
    Flag(String),
    /// `...`.
    Ellipsis,
    /// Any other single character.
    Char(char),
    /// The end of the script.
    End,
}

/// Words that a script or the command line replaces (`-D`, `--define`).
pub type Defines = BTreeMap<String, String>;

/// A script is refused above this many bytes.
pub const MAX_SCRIPT_LEN: usize = 4 << 20;

/// All tokens of a script, [`Kind::End`] last.
pub fn tokens(text: &str) -> Result<Vec<Token>, Fault> {
    if text.len() > MAX_SCRIPT_LEN {
        let what = format!("the script has {} bytes", text.len());
        return Err(Fault::new(Pos { line: 1, column: 1 }, what, "at most 4 MiB are read"));
    }
    let mut lexer = Lexer { rest: text, pos: Pos { line: 1, column: 1 } };
    let mut tokens = Vec::new();
    loop {
        let token = lexer.next()?;
        let end = token.kind == Kind::End;
        tokens.push(token);
        if end {
            return Ok(tokens);
        }
    }
}

struct Lexer<'a> {
    rest: &'a str,
    pos: Pos,
}

impl Lexer<'_> {
    fn next(&mut self) -> Result<Token, Fault> {
        self.skip_blank()?;
        let pos = self.pos;
        let Some(first) = self.rest.chars().next() else {
            return Ok(Token { pos, kind: Kind::End, text: String::new() });
        };
        let (kind, len) = match first {
            '"' => self.quoted('"').map(|(inner, len)| (Kind::Str(unescape(inner)), len))?,
            '`' => self.quoted('`').map(|(inner, len)| (Kind::Command(inner.to_owned()), len))?,
            '%' if self.rest.starts_with("%{") => self.code()?,
            '-' if self.rest.starts_with("--") && word_len(&self.rest[2..]) > 0 => {
                let len = 2 + word_len(&self.rest[2..]);
                (Kind::Flag(self.rest[2..len].to_owned()), len)
            }
            _ => self.plain(first)?,
        };
        let text = self.rest[..len].to_owned();
        self.advance(len);
        Ok(Token { pos, kind, text })
    }

    fn advance(&mut self, len: usize) {
        let (eaten, rest) = self.rest.split_at(len);
        for c in eaten.chars() {
            if c == '\n' {
                self.pos.line += 1;
                self.pos.column = 1;
            } else {
                self.pos.column += 1;
            }
        }
        self.rest = rest;
    }

    /// Blanks, `// …` and `/* … */`.
    fn skip_blank(&mut self) -> Result<(), Fault> {
        loop {
            let blank = self.rest.len() - self.rest.trim_start().len();
            self.advance(blank);
            if self.rest.starts_with("//") {
                let len = self.rest.find('\n').unwrap_or(self.rest.len());
                self.advance(len);
            } else if self.rest.starts_with("/*") {
                let Some(end) = self.rest[2..].find("*/") else {
                    return Err(Fault::new(self.pos, "a comment does not end", "close it by `*/`"));
                };
                self.advance(end + 4);
            } else {
                return Ok(());
            }
        }
    }

    /// What stands between two `quote`s, and the length with them. A backslash takes the next
    /// character along.
    fn quoted(&self, quote: char) -> Result<(&str, usize), Fault> {
        let mut escaped = false;
        for (at, c) in self.rest.char_indices().skip(1) {
            match c {
                _ if escaped => escaped = false,
                '\\' => escaped = true,
                _ if c == quote => return Ok((&self.rest[1..at], at + 1)),
                _ => {}
            }
        }
        let fix = format!("close it by `{quote}`");
        Err(Fault::new(self.pos, format!("no second {quote} follows"), fix))
    }

    fn code(&self) -> Result<(Kind, usize), Fault> {
        let Some(end) = self.rest.find("}%") else {
            return Err(Fault::new(self.pos, "a code block does not end", "close it by `}%`"));
        };
        Ok((Kind::Code(self.rest[2..end].to_owned()), end + 2))
    }

    /// Numbers, addresses, words and single characters: the longest that fits.
    fn plain(&self, first: char) -> Result<(Kind, usize), Fault> {
        let rest = self.rest;
        if rest.starts_with("...") {
            return Ok((Kind::Ellipsis, 3));
        }
        let word = word_len(rest);
        let fraction = fraction_len(rest);
        let ipv4 = ipv4_len(rest);
        let ipv6 = ipv6_len(rest);
        let int = int_len(rest);
        let longest = word.max(fraction).max(ipv4).max(ipv6).max(int);
        let fault = |what: &str| Err(Fault::new(self.pos, what, ""));
        if longest == 0 {
            return Ok((Kind::Char(first), first.len_utf8()));
        }
        let text = &rest[..longest];
        if ipv6 == longest {
            return match text.parse() {
                Ok(address) => Ok((Kind::Ipv6(address), longest)),
                Err(_) => fault("not an IPv6 address"),
            };
        }
        if ipv4 == longest {
            return match text.parse() {
                Ok(address) => Ok((Kind::Ipv4(address), longest)),
                Err(_) => fault("not an IPv4 address"),
            };
        }
        if fraction == longest {
            return match micros(text) {
                Some(micros) => Ok((Kind::Micros(micros), longest)),
                None => fault("a number too large"),
            };
        }
        if int == longest {
            return match text.parse() {
                Ok(number) => Ok((Kind::Int(number), longest)),
                Err(_) => fault("a number too large"),
            };
        }
        let hex = text
            .strip_prefix("0x")
            .filter(|hex| !hex.is_empty() && hex.chars().all(|c| c.is_ascii_hexdigit()));
        if let Some(hex) = hex {
            return match u64::from_str_radix(hex, 16) {
                Ok(number) => Ok((Kind::Hex(number as i64), longest)),
                Err(_) => fault("a number too large"),
            };
        }
        Ok((Kind::Word(text.to_owned()), longest))
    }
}

fn word_len(text: &str) -> usize {
    text.bytes().take_while(|c| c.is_ascii_alphanumeric() || *c == b'_').count()
}

fn digits(text: &str) -> usize {
    text.bytes().take_while(u8::is_ascii_digit).count()
}

fn sign_len(text: &str) -> usize {
    usize::from(text.starts_with('-'))
}

fn int_len(text: &str) -> usize {
    let sign = sign_len(text);
    match digits(&text[sign..]) {
        0 => 0,
        digits => sign + digits,
    }
}

/// `1.5`, `.5`, `-1.5`.
fn fraction_len(text: &str) -> usize {
    let sign = sign_len(text);
    let whole = digits(&text[sign..]);
    let Some(fraction) = text[sign + whole..].strip_prefix('.') else { return 0 };
    match digits(fraction) {
        0 => 0,
        digits => sign + whole + 1 + digits,
    }
}

fn ipv4_len(text: &str) -> usize {
    let mut at = 0;
    for part in 0..4 {
        if part > 0 {
            if !text[at..].starts_with('.') {
                return 0;
            }
            at += 1;
        }
        match digits(&text[at..]) {
            0 => return 0,
            digits => at += digits,
        }
    }
    at
}

/// An IPv6 address has two colons side by side or seven of them: `1:1001` is none.
fn ipv6_len(text: &str) -> usize {
    let mut len =
        text.bytes().take_while(|c| c.is_ascii_hexdigit() || matches!(c, b':' | b'.')).count();
    while len > 0 && text[..len].ends_with('.') {
        len -= 1;
    }
    // A single colon after the address is punctuation (`ipv6 a > b: …`).
    if text[..len].ends_with(':') && !text[..len].ends_with("::") {
        len -= 1;
    }
    let candidate = &text[..len];
    let colons = candidate.matches(':').count();
    if (candidate.contains("::") || colons == 7) && candidate.parse::<core::net::Ipv6Addr>().is_ok()
    {
        len
    } else {
        0
    }
}

/// A decimal number in millionths, the rest cut off.
pub fn micros(text: &str) -> Option<i64> {
    let (negative, text) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let whole: i64 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    let mut millionths = 0_i64;
    for place in 0..6 {
        let digit = fraction.as_bytes().get(place).map_or(0, |c| c - b'0');
        millionths = millionths * 10 + i64::from(digit);
    }
    let value = whole.checked_mul(1_000_000)?.checked_add(millionths)?;
    Some(if negative { -value } else { value })
}

/// The escapes of C strings.
fn unescape(text: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes().peekable();
    while let Some(byte) = bytes.next() {
        if byte != b'\\' {
            out.push(byte);
            continue;
        }
        match bytes.next() {
            Some(b'n') => out.push(b'\n'),
            Some(b't') => out.push(b'\t'),
            Some(b'r') => out.push(b'\r'),
            Some(b'x') => {
                let mut value = 0_u32;
                while let Some(digit) = bytes.peek().and_then(|c| (*c as char).to_digit(16)) {
                    value = value.wrapping_mul(16) + digit;
                    bytes.next();
                }
                out.push(value as u8);
            }
            Some(first @ b'0'..=b'7') => {
                let mut value = u32::from(first - b'0');
                for _ in 0..2 {
                    let Some(digit) = bytes.peek().and_then(|c| (*c as char).to_digit(8)) else {
                        break;
                    };
                    value = value * 8 + digit;
                    bytes.next();
                }
                out.push(value as u8);
            }
            Some(other) => out.push(other),
            None => out.push(b'\\'),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(text: &str) -> Vec<Kind> {
        tokens(text).expect("lexes").into_iter().map(|token| token.kind).collect()
    }

    fn word(text: &str) -> Kind {
        Kind::Word(text.into())
    }

    #[test]
    fn the_longest_token_wins() {
        let c = Kind::Char;
        assert_eq!(
            kinds("+.5 P. S.5"),
            [
                c('+'),
                Kind::Micros(500_000),
                word("P"),
                c('.'),
                word("S"),
                Kind::Micros(500_000),
                Kind::End
            ]
        );
        assert_eq!(
            kinds("0...0.200"),
            [Kind::Int(0), Kind::Ellipsis, Kind::Micros(200_000), Kind::End]
        );
        assert_eq!(
            kinds(".2....4"),
            [Kind::Micros(200_000), Kind::Ellipsis, Kind::Micros(400_000), Kind::End]
        );
        assert_eq!(
            kinds("1:1001(1000)"),
            [Kind::Int(1), c(':'), Kind::Int(1001), c('('), Kind::Int(1000), c(')'), Kind::End]
        );
        assert_eq!(
            kinds("10 0x1F 3021b9d889017eeb -1"),
            [Kind::Int(10), Kind::Hex(31), word("3021b9d889017eeb"), Kind::Int(-1), Kind::End]
        );
    }

    #[test]
    fn addresses() {
        assert_eq!(
            kinds("ipv4 192.0.2.1 > 10.0.0.1: gre"),
            [
                word("ipv4"),
                Kind::Ipv4([192, 0, 2, 1].into()),
                Kind::Char('>'),
                Kind::Ipv4([10, 0, 0, 1].into()),
                Kind::Char(':'),
                word("gre"),
                Kind::End
            ]
        );
        assert_eq!(
            kinds("fd3d:0a0b:17d6::1: ::1"),
            [
                Kind::Ipv6("fd3d:a0b:17d6::1".parse().expect("address")),
                Kind::Char(':'),
                Kind::Ipv6("::1".parse().expect("address")),
                Kind::End
            ]
        );
    }

    #[test]
    fn comments_quotes_code_and_flags() {
        assert_eq!(
            kinds("// one\n/* two\n */ --mss=1000 `a\nb` %{ x }% \"\\x41\\n\""),
            [
                Kind::Flag("mss".into()),
                Kind::Char('='),
                Kind::Int(1000),
                Kind::Command("a\nb".into()),
                Kind::Code(" x ".into()),
                Kind::Str(b"A\n".to_vec()),
                Kind::End
            ]
        );
    }

    #[test]
    fn faults_name_line_and_column() {
        for (text, line, column) in
            [("\n  /* open", 2, 3), ("a\nb `c", 2, 3), ("%{ assert", 1, 1), ("  \"x", 1, 3)]
        {
            let fault = tokens(text).expect_err(text);
            assert_eq!(fault.pos, Pos { line, column }, "{text:?}");
        }
    }
}
