//! Tokens into a [`Script`].
//!
//! A script is read in two steps, because its flags decide how the rest is read: which words are
//! replaced, and whether ICMP names mean ICMP or ICMPv6.

mod call;
mod options;
mod packet;

use crate::ast::{Action, Code, Command, Event, Flag, Script, Time};
use crate::code;
use crate::fault::{Fault, Pos};
use crate::lex::{Defines, Kind, Token, tokens};

/// The family of the packets on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Family {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

/// A parser that stands somewhere in a script.
#[derive(Debug)]
pub struct Parser {
    tokens: Vec<Token>,
    at: usize,
    family: Family,
}

type Parsed<T> = Result<T, Fault>;

impl Parser {
    /// A parser at the beginning of `text`, behind the byte-order mark that some editors begin a file with.
    pub fn new(text: &str) -> Parsed<Self> {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        Ok(Self { tokens: tokens(text)?, at: 0, family: Family::V4 })
    }

    /// The `--flag` lines at the beginning.
    pub fn flags(&mut self) -> Parsed<Vec<Flag>> {
        let mut flags = Vec::new();
        while let Kind::Flag(name) = &self.peek().kind {
            let name = name.clone();
            let pos = self.next().pos;
            let value = if self.eat('=') { Some(self.flag_value()?) } else { None };
            flags.push(Flag { pos, name, value });
        }
        Ok(flags)
    }

    /// A value as the text that one would write on a command line.
    fn flag_value(&mut self) -> Parsed<String> {
        let token = self.next();
        let word = matches!(token.kind, Kind::Word(_));
        let text = match token.kind {
            Kind::Word(_)
            | Kind::Int(_)
            | Kind::Hex(_)
            | Kind::Micros(_)
            | Kind::Ipv4(_)
            | Kind::Ipv6(_) => token.text,
            Kind::Str(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
            _ => return Err(Self::expected_at(&token, "a value")),
        };
        if self.eat('/') {
            return Ok(format!("{text}/{}", self.next().text));
        }
        if word && self.eat('=') {
            return Ok(format!("{text}={}", self.next().text));
        }
        Ok(text)
    }

    /// Everything behind the flags.
    pub fn script(mut self, flags: Vec<Flag>, family: Family, defines: &Defines) -> Parsed<Script> {
        self.family = family;
        for token in &mut self.tokens[self.at..] {
            replace(token, defines);
        }
        let init = self.command();
        let mut events = Vec::new();
        while !matches!(self.peek().kind, Kind::End | Kind::Command(_)) {
            events.push(self.event()?);
        }
        let cleanup = self.command();
        if self.peek().kind != Kind::End {
            return Err(self.expected("the end of the script after its last command"));
        }
        if events.is_empty() {
            return Err(self.expected("an event (`+0 …`)"));
        }
        Ok(Script { flags, init, events, cleanup })
    }

    fn command(&mut self) -> Option<Command> {
        let Kind::Command(text) = &self.peek().kind else { return None };
        let text = text.clone();
        Some(Command { pos: self.next().pos, text })
    }

    fn event(&mut self) -> Parsed<Event> {
        let pos = self.peek().pos;
        let at = self.time()?;
        let action = match &self.peek().kind {
            Kind::Char('<' | '>') => Action::Packet(Box::new(self.packet()?)),
            Kind::Word(_) | Kind::Ellipsis => Action::Call(Box::new(self.call()?)),
            Kind::Command(text) => {
                let text = text.clone();
                Action::Command(Command { pos: self.next().pos, text })
            }
            Kind::Code(text) => {
                let text = text.clone();
                let pos = self.next().pos;
                Action::Code(Code { pos, block: code::parse(&text, pos)? })
            }
            _ => return Err(self.expected("a packet, a system call, `command` or %{ code }%")),
        };
        let outbound = matches!(&action, Action::Packet(packet)
            if packet.direction == crate::ast::Direction::Outbound);
        let what = match at {
            Time::Any => Some("`*`"),
            Time::AbsoluteRange(..) | Time::RelativeRange(..) => Some("a range of times"),
            Time::Absolute(_) | Time::Relative(_) => None,
        };
        match what {
            Some(what) if !outbound => {
                let what = format!("{what} in front of something other than an outbound packet");
                Err(Fault::new(pos, what, "give one time"))
            }
            _ => Ok(Event { pos, at, action }),
        }
    }

    fn time(&mut self) -> Parsed<Time> {
        let pos = self.peek().pos;
        if self.eat('*') {
            return Ok(Time::Any);
        }
        let relative = self.eat('+');
        let begin = self.moment()?;
        if !self.eat('~') {
            return Ok(if relative { Time::Relative(begin) } else { Time::Absolute(begin) });
        }
        if relative {
            self.expect('+')?;
        }
        let end = self.moment()?;
        if end < begin {
            return Err(Fault::new(pos, "the range of times is backwards", "exchange its ends"));
        }
        Ok(if relative { Time::RelativeRange(begin, end) } else { Time::AbsoluteRange(begin, end) })
    }

    /// A time in seconds; it comes out in microseconds.
    fn moment(&mut self) -> Parsed<i64> {
        let token = self.next();
        let micros = match token.kind {
            Kind::Micros(micros) => Some(micros),
            Kind::Int(seconds) => seconds.checked_mul(1_000_000),
            _ => return Err(Self::expected_at(&token, "a time in seconds")),
        };
        match micros {
            Some(0..=MAX_TIME) => Ok(micros.expect("just seen")),
            Some(i64::MIN..0) => Err(Fault::new(token.pos, "a negative time", "")),
            _ => Err(Fault::new(token.pos, "a time of more than ten days", "")),
        }
    }

    // Tools of all parts.

    fn peek(&self) -> &Token {
        &self.tokens[self.at]
    }

    fn peek_at(&self, ahead: usize) -> &Kind {
        &self.tokens[(self.at + ahead).min(self.tokens.len() - 1)].kind
    }

    fn next(&mut self) -> Token {
        let token = self.tokens[self.at].clone();
        self.at = (self.at + 1).min(self.tokens.len() - 1);
        token
    }

    fn eat(&mut self, c: char) -> bool {
        let found = self.peek().kind == Kind::Char(c);
        if found {
            self.next();
        }
        found
    }

    fn expect(&mut self, c: char) -> Parsed<()> {
        if self.eat(c) { Ok(()) } else { Err(self.expected(&format!("`{c}`"))) }
    }

    fn eat_word(&mut self, word: &str) -> bool {
        let found = self.is_word(word);
        if found {
            self.next();
        }
        found
    }

    fn is_word(&self, word: &str) -> bool {
        matches!(&self.peek().kind, Kind::Word(it) if it == word)
    }

    fn expect_word(&mut self, word: &str) -> Parsed<()> {
        if self.eat_word(word) { Ok(()) } else { Err(self.expected(&format!("`{word}`"))) }
    }

    fn any_word(&mut self, what: &str) -> Parsed<(Pos, String)> {
        match self.next() {
            Token { pos, kind: Kind::Word(word), .. } => Ok((pos, word)),
            token => Err(Self::expected_at(&token, what)),
        }
    }

    /// A whole number from 0 to `max`.
    fn number(&mut self, what: &str, max: u32) -> Parsed<u32> {
        let token = self.next();
        match token.kind {
            Kind::Int(number) | Kind::Hex(number) => {
                u32::try_from(number).ok().filter(|number| *number <= max).ok_or_else(|| {
                    let fault = format!("{what} {number} is out of range");
                    Fault::new(token.pos, fault, format!("it goes from 0 to {max}"))
                })
            }
            _ => Err(Self::expected_at(&token, what)),
        }
    }

    fn expected(&self, what: &str) -> Fault {
        Self::expected_at(self.peek(), what)
    }

    fn expected_at(token: &Token, what: &str) -> Fault {
        let found = if token.kind == Kind::End {
            "the script ends here".to_owned()
        } else {
            let line = token.text.lines().next().unwrap_or_default();
            format!("unexpected `{}`", line.chars().take(40).collect::<String>())
        };
        Fault::new(token.pos, found, format!("expected {what}"))
    }
}

/// Puts the value of a defined word in its place.
fn replace(token: &mut Token, defines: &Defines) {
    let Kind::Word(word) = &token.kind else { return };
    if KEYWORDS.contains(&word.as_str()) {
        return;
    }
    let Some(value) = defines.get(word) else { return };
    let inner = |quote: char| value.strip_prefix(quote).map(|it| it.trim_end_matches(quote));
    if let Some(text) = inner('"') {
        token.kind = Kind::Str(text.as_bytes().to_vec());
    } else if let Some(text) = inner('`') {
        token.kind = Kind::Command(text.to_owned());
    } else if let Some(number) = c_number(value) {
        token.kind = Kind::Int(number);
    } else {
        token.kind = Kind::Word(value.clone());
    }
    token.text.clone_from(value);
}

/// A number as C writes it: decimal, `0x…` or octal with a leading zero.
fn c_number(text: &str) -> Option<i64> {
    let (negative, digits) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let magnitude = if let Some(hex) = digits.strip_prefix("0x") {
        i64::from_str_radix(hex, 16).ok()?
    } else if digits.len() > 1 && digits.starts_with('0') {
        i64::from_str_radix(digits, 8).ok()?
    } else {
        digits.parse().ok()?
    };
    Some(if negative { -magnitude } else { magnitude })
}

/// Words of the language itself, which cannot be defined.
const KEYWORDS: [&str; 46] = [
    "sa_family",
    "sin_port",
    "sin_addr",
    "msg_name",
    "msg_iov",
    "msg_flags",
    "msg_control",
    "cmsg_data",
    "cmsg_level",
    "cmsg_type",
    "fd",
    "events",
    "revents",
    "onoff",
    "linger",
    "htons",
    "ipv4",
    "ipv6",
    "icmp",
    "udp",
    "gre",
    "raw",
    "mpls",
    "inet_addr",
    "inet6_addr",
    "ack",
    "eol",
    "ecr",
    "mss",
    "mtu",
    "nop",
    "sack",
    "sackOK",
    "md5",
    "TS",
    "FO",
    "FOEXP",
    "ECN",
    "tos",
    "val",
    "win",
    "urg",
    "wscale",
    "ce",
    "id",
    "ttl",
];

/// No script lasts longer: ten days, in microseconds.
const MAX_TIME: i64 = 864_000_000_000;

#[cfg(test)]
mod tests;
