//! `ip`: routes, rules and next-hop objects in its own words, and its output.
//!
//! [`Ip`] holds a FIB and the names of its interfaces and runs one command at a time, as the
//! kernel and `ip` together would: [`Ip::run`] takes `ip -j route show` and returns what `ip`
//! would print.

mod address;
mod check;
pub mod config;
mod get;
pub mod import;
mod json;
mod link;
mod metrics;
mod names;
pub mod neigh;
pub mod netlink;
mod nexthop;
mod route;
mod rule;
mod save;
mod show;
pub mod statistics;
mod sysctl;
mod why;

pub use link::read_shown;
pub use names::{Devices, LOOPBACK};

use crate::words::{GrammarError, Word, Words};
use core::fmt;
use datapath::fib::{Fib, FibError};
use datapath::units::Instant;

/// A FIB with names for its interfaces.
///
/// ```
/// let mut ip = iproute::ip::Ip::new();
/// ip.run_all("link add eth0\naddress add 10.0.0.1/24 dev eth0\nroute add default via 10.0.0.254")
///     .map_err(|(line, error)| format!("line {line}: {error}"))?;
/// let answer = ip.run("ip route get 192.0.2.1")?;
/// assert!(answer.starts_with("192.0.2.1 via 10.0.0.254 dev eth0 src 10.0.0.1"), "{answer}");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Default)]
pub struct Ip {
    /// Routes, rules, next hops, link states.
    pub fib: Fib,
    /// Names and addresses of the interfaces.
    pub devices: Devices,
    /// The time at which commands happen (resilient groups keep times).
    pub now: Instant,
    /// `ip route get` says how it came to its answer, as with `-d`.
    pub explain: bool,
}

/// Why a command was not carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IpError {
    /// The words make no sense, and where.
    Grammar(GrammarError),
    /// The tables refuse the change.
    Fib(FibError),
    /// What the kernel answers to a question or command that fails, in `ip`'s words.
    Answer(&'static str),
}

/// How to print, and which family is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
struct Options {
    /// `-4` was said.
    v4: bool,
    /// `-6` was said (`-4` and nothing: false).
    v6: bool,
    /// `-j`.
    json: bool,
    /// `-d`.
    details: bool,
    /// `-br`.
    brief: bool,
}

impl Options {
    /// The family that alone is meant, if one was said: is it IPv6?
    fn family(self) -> Option<bool> {
        (self.v4 || self.v6).then_some(self.v6)
    }
}

type IpResult<T> = Result<T, IpError>;

impl fmt::Display for IpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Grammar(error) => write!(f, "Error: {error}"),
            Self::Fib(error) => write!(f, "{error}"),
            Self::Answer(text) => write!(f, "{text}"),
        }
    }
}

impl std::error::Error for IpError {}

impl From<GrammarError> for IpError {
    fn from(error: GrammarError) -> Self {
        Self::Grammar(error)
    }
}

impl From<FibError> for IpError {
    fn from(error: FibError) -> Self {
        Self::Fib(error)
    }
}

/// What `ip help` prints.
const USAGE: &str = "\
Usage: ip [ -4 | -6 ] [ -j ] [ -d ] [ -br ] OBJECT { COMMAND | show }
where  OBJECT := { route | rule | nexthop | link | address | sysctl }
";

const OBJECTS: [&str; 6] = ["route", "rule", "nexthop", "link", "address", "sysctl"];

impl Ip {
    /// No routes, no interfaces but `lo`.
    pub fn new() -> Self {
        Self::default()
    }

    /// Runs one command, with or without a leading `ip`, and returns what it prints.
    ///
    /// # Errors
    /// The words make no sense, or the kernel would refuse.
    pub fn run(&mut self, command: &str) -> IpResult<String> {
        let mut words = Words::new(command);
        words.accept("ip");
        let options = read_options(&mut words)?;
        let Some(object) = words.next() else {
            return Err(words
                .unexpected_end("an object is missing: route, rule, nexthop, …")
                .into());
        };
        match object.text {
            "route" | "ro" | "r" => self.route(&mut words, options),
            "rule" | "ru" => self.rule(&mut words, options),
            "nexthop" | "nh" => self.nexthop(&mut words, options),
            "link" | "l" => self.link(&mut words, options),
            "address" | "addr" | "a" => self.address(&mut words, options),
            "sysctl" => self.sysctl(&mut words),
            "help" => Ok(USAGE.to_owned()),
            _ => Err(unknown_object(object).into()),
        }
    }

    /// Runs every command of a file, one a line; `#` begins a comment. Returns all output.
    ///
    /// # Errors
    /// The first command that fails, with its line from 1.
    pub fn run_all(&mut self, text: &str) -> Result<String, (usize, IpError)> {
        let mut output = String::new();
        for (index, line) in text.lines().enumerate() {
            let command = line.split('#').next().unwrap_or_default();
            if !command.trim().is_empty() {
                output += &self.run(command).map_err(|error| (index + 1, error))?;
            }
        }
        Ok(output)
    }
}

fn unknown_object(word: Word<'_>) -> GrammarError {
    let nearest = word.unknown("ip", &OBJECTS).nearest;
    word.error(format!("Object \"{}\" is unknown, try \"ip help\".", word.text), nearest)
}

fn read_options(words: &mut Words<'_>) -> IpResult<Options> {
    let mut options = Options::default();
    while let Some(word) = words.peek().filter(|word| word.text.starts_with('-')) {
        match word.text {
            "-4" => (options.v4, options.v6) = (true, false),
            "-6" => (options.v4, options.v6) = (false, true),
            "-j" | "-json" => options.json = true,
            "-d" | "-details" => options.details = true,
            "-br" | "-brief" => options.brief = true,
            // Statistics are those of cached routes, which kernels no longer have; there are no colours.
            "-s" | "-stats" | "-statistics" | "-c" | "-color" => {}
            _ => {
                let known = ["-4", "-6", "-json", "-details", "-brief"];
                let nearest = word.unknown("ip", &known).nearest;
                let message = format!("Option \"{}\" is unknown, try \"ip -help\".", word.text);
                return Err(word.error(message, nearest).into());
            }
        }
        words.next();
    }
    Ok(options)
}

/// What `ip OBJECT verb` begins with; abbreviations are those of `ip`.
fn verb(words: &mut Words<'_>, object: &str, verbs: &[&'static str]) -> IpResult<&'static str> {
    let Some(word) = words.peek() else { return Ok("show") };
    words.next();
    let text = match word.text {
        "list" | "ls" | "lst" => "show",
        "delete" => "del",
        text => text,
    };
    Word { text, ..word }.cut_short(verbs).ok_or_else(|| {
        let nearest = word.unknown(object, verbs).nearest;
        let message = format!("Command \"{}\" is unknown, try \"ip {object} help\".", word.text);
        word.error(message, nearest).into()
    })
}

#[cfg(test)]
mod tests;
