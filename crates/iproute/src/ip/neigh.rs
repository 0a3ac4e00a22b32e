//! `ip neigh`: its words and its output.

use super::json::{Object, list};
use super::names::{self, Devices, invalid};
use super::{IpError, IpResult, verb};
use crate::words::{Result, Word, Words};
use core::fmt::Write as _;
use core::net::IpAddr;
use datapath::fib::Prefix;
use datapath::neighbour::{Entry, Key, ManualState, Neighbours, State};
use datapath::packet::MacAddr;
use datapath::units::Instant;

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NeighCommand {
    /// `ip neigh show [[to] PREFIX] [dev NAME] [nud STATE]…`.
    Show(Filter),
    /// `ip neigh get ADDRESS dev NAME`.
    Get(Key),
    /// `ip neigh add|replace|change ADDRESS [lladdr MAC] dev NAME [nud STATE]`.
    Set {
        /// Which of the three.
        verb: SetVerb,
        /// Who.
        key: Key,
        /// Its hardware address; where it is not said, the one that is known.
        mac: Option<MacAddr>,
        /// `permanent` where nothing is said.
        state: ManualState,
    },
    /// `ip neigh del ADDRESS dev NAME`.
    Delete(Key),
    /// `ip neigh flush [to] PREFIX|dev NAME|nud STATE`: what is permanent stays unless `nud` says so.
    Flush(Filter),
}

/// Whether a neighbour has to be there before it is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetVerb {
    /// It must not.
    Add,
    /// It may.
    Replace,
    /// It must.
    Change,
}

/// Which neighbours are meant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// Only this port's.
    port: Option<u16>,
    /// Only these addresses.
    to: Option<Prefix>,
    /// Only of these states; where none was said, all but those that were never asked.
    states: Vec<State>,
    /// Only of one family: is it IPv6?
    family: Option<bool>,
}

/// How neighbours are shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShowOptions {
    /// `-j`.
    pub json: bool,
    /// `-s`: with times and questions.
    pub statistics: bool,
}

const STATES: [State; 8] = [
    State::Permanent,
    State::Reachable,
    State::Stale,
    State::None,
    State::Incomplete,
    State::Delay,
    State::Probe,
    State::Failed,
];

impl Filter {
    fn matches(&self, key: Key, state: State) -> bool {
        self.port.is_none_or(|port| port == key.0)
            && self.to.is_none_or(|prefix| prefix.contains(key.1))
            && self.family.is_none_or(|v6| v6 == key.1.is_ipv6())
            && if self.states.is_empty() {
                state != State::None
            } else {
                self.states.contains(&state)
            }
    }

    /// Whether `ip neigh flush` is to forget this one.
    pub fn is_flushed(&self, key: Key, state: State) -> bool {
        self.matches(key, state) && (state != State::Permanent || !self.states.is_empty())
    }
}

/// Reads the words behind `ip [-4|-6] neigh`; `family`: is it IPv6?
///
/// # Errors
/// The words make no sense, and where.
pub fn parse(
    words: &mut Words<'_>,
    devices: &Devices,
    family: Option<bool>,
) -> IpResult<NeighCommand> {
    let verbs = ["add", "change", "chg", "replace", "del", "delete", "get", "show", "flush"];
    let verb = verb(words, "neigh", &verbs)?;
    Ok(match verb {
        "show" => NeighCommand::Show(read_filter(words, devices, family)?),
        "flush" if words.peek().is_none() => {
            return Err(IpError::Answer("Flush requires arguments."));
        }
        "flush" => NeighCommand::Flush(read_filter(words, devices, family)?),
        _ => read_one(words, devices, family, verb)?,
    })
}

fn read_filter(words: &mut Words<'_>, devices: &Devices, family: Option<bool>) -> Result<Filter> {
    let mut filter = Filter { family, ..Filter::default() };
    while let Some(word) = words.next() {
        match word.text {
            "dev" => filter.port = Some(devices.read(words.value(word)?)?),
            "nud" => {
                let value = words.value(word)?;
                match value.text {
                    "all" => filter.states.extend(STATES),
                    _ => filter.states.push(read_state(value)?),
                }
            }
            text => {
                let value = if text == "to" { words.value(word)? } else { word };
                let (address, len) = names::loose_prefix(value, family)?;
                filter.to = Prefix::containing(address, len).filter(|_| len > 0);
            }
        }
    }
    Ok(filter)
}

/// The words of commands that mean one neighbour.
fn read_one(
    words: &mut Words<'_>,
    devices: &Devices,
    family: Option<bool>,
    verb: &str,
) -> IpResult<NeighCommand> {
    let (mut address, mut mac, mut port, mut state) = (None, None, None, ManualState::Permanent);
    while let Some(word) = words.next() {
        match word.text {
            "dev" => port = Some(devices.read(words.value(word)?)?),
            "lladdr" => {
                let value = words.value(word)?;
                mac = Some(parse_mac(value.text).ok_or_else(|| {
                    invalid(value, "an Ethernet address like 02:00:00:00:00:01 is expected", None)
                })?);
            }
            "nud" => state = read_manual_state(words.value(word)?)?,
            text => {
                let value = if text == "to" { words.value(word)? } else { word };
                if address.is_some() {
                    let message =
                        format!("either \"to\" is duplicate, or \"{}\" is a garbage.", value.text);
                    return Err(value.error(message, None).into());
                }
                address = Some(names::address(value, family)?);
            }
        }
    }
    let (Some(address), Some(port)) = (address, port) else {
        return Err(words.unexpected_end("Device and destination are required arguments.").into());
    };
    let key = (port, address);
    let set = |verb| NeighCommand::Set { verb, key, mac, state };
    Ok(match verb {
        "add" => set(SetVerb::Add),
        "replace" => set(SetVerb::Replace),
        "change" | "chg" => set(SetVerb::Change),
        "get" => NeighCommand::Get(key),
        _ => NeighCommand::Delete(key),
    })
}

fn read_state(word: Word<'_>) -> Result<State> {
    let found = STATES.into_iter().find(|state| state.name().eq_ignore_ascii_case(word.text));
    found.ok_or_else(|| invalid(word, "nud state is bad", None))
}

fn read_manual_state(word: Word<'_>) -> Result<ManualState> {
    match read_state(word)? {
        State::Permanent => Ok(ManualState::Permanent),
        State::Reachable => Ok(ManualState::Reachable),
        State::Stale => Ok(ManualState::Stale),
        _ => Err(invalid(word, "only permanent, reachable and stale can be set", None)),
    }
}

/// Does what a command says to the table.
///
/// # Errors
/// What the kernel answers where it refuses.
pub fn change(table: &mut Neighbours, now: Instant, command: &NeighCommand) -> IpResult<()> {
    const MISSING: IpError = IpError::Answer("RTNETLINK answers: No such file or directory");
    match *command {
        NeighCommand::Show(_) | NeighCommand::Get(_) => Ok(()),
        NeighCommand::Set { verb, key, mac, state } => {
            let is_there = table.entries().any(|(other, _)| *other == key);
            match (verb, is_there) {
                (SetVerb::Add, true) => {
                    return Err(IpError::Answer("RTNETLINK answers: File exists"));
                }
                (SetVerb::Change, false) => return Err(MISSING),
                _ => {}
            }
            let no_address = IpError::Answer("Error: No link layer address given.");
            table.set(now, key, mac, state).then_some(()).ok_or(no_address)
        }
        NeighCommand::Delete(key) => table.delete(key).then_some(()).ok_or(MISSING),
        NeighCommand::Flush(ref filter) => {
            table.remove_all(|key, state| filter.is_flushed(*key, state));
            Ok(())
        }
    }
}

/// What `ip [-s] [-j] neigh show` and `get` print; nothing for other commands. Entries that have failed are
/// shown, as Linux does.
///
/// # Errors
/// There is no such neighbour to get.
pub fn show(
    table: &Neighbours,
    now: Instant,
    devices: &Devices,
    command: &NeighCommand,
    manner: ShowOptions,
) -> IpResult<String> {
    let mut shown: Vec<(&Key, &Entry)> = table.entries().collect();
    let says_port = match command {
        NeighCommand::Show(filter) => {
            shown.retain(|(key, entry)| filter.matches(**key, entry.state()));
            filter.port.is_none()
        }
        NeighCommand::Get(wanted) => {
            shown.retain(|(key, _)| *key == wanted);
            if shown.is_empty() {
                return Err(IpError::Answer("Error: Neighbour entry not found."));
            }
            true
        }
        _ => return Ok(String::new()),
    };
    let port = |key: &Key| says_port.then(|| devices.name(key.0));
    if manner.json {
        let each = |(key, entry): (&Key, &Entry)| json_of(key.1, port(key), entry, now, manner);
        return Ok(list(&shown.into_iter().map(each).collect::<Vec<_>>()) + "\n");
    }
    let mut out = String::new();
    for (key, entry) in shown {
        let _ = write!(out, "{} ", key.1);
        if let Some(name) = port(key) {
            let _ = write!(out, "dev {name} ");
        }
        if let Some(mac) = entry.mac().filter(|_| entry.state().is_valid()) {
            let _ = write!(out, "lladdr {} ", show_mac(mac));
        }
        if entry.is_router() {
            out += "router ";
        }
        if manner.statistics {
            let [used, confirmed, updated] = ages(entry, now);
            // One blank more and one less are as ip(8) prints it.
            let _ = write!(out, " used {used}/{confirmed}/{updated}probes {} ", entry.probes());
        }
        let _ = match entry.state() {
            State::None => writeln!(out),
            state => writeln!(out, "{} ", state.name()),
        };
    }
    Ok(out)
}

/// Seconds since an entry was used, confirmed and changed.
fn ages(entry: &Entry, now: Instant) -> [u64; 3] {
    let (used, confirmed, updated) = entry.times();
    let age = |at: Instant| now.saturating_since(at).as_nanos() / 1_000_000_000;
    [age(used), age(confirmed.unwrap_or(updated)), age(updated)]
}

fn json_of(
    address: IpAddr,
    port: Option<&str>,
    entry: &Entry,
    now: Instant,
    manner: ShowOptions,
) -> String {
    let mut object = Object::default().text("dst", &address.to_string());
    if let Some(name) = port {
        object = object.text("dev", name);
    }
    if let Some(mac) = entry.mac().filter(|_| entry.state().is_valid()) {
        object = object.text("lladdr", &show_mac(mac));
    }
    if entry.is_router() {
        object = object.flag("router");
    }
    if manner.statistics {
        let [used, confirmed, updated] = ages(entry, now);
        object = object.number("used", used).number("confirmed", confirmed);
        object = object.number("updated", updated).number("probes", entry.probes());
    }
    match entry.state() {
        State::None => object.finish(),
        state => object.words("state", &[state.name()]).finish(),
    }
}

/// `02:00:00:00:00:01`.
pub fn show_mac(MacAddr(octets): MacAddr) -> String {
    octets.map(|octet| format!("{octet:02x}")).join(":")
}

/// The reverse of [`show_mac`].
pub fn parse_mac(text: &str) -> Option<MacAddr> {
    let mut octets = [0; 6];
    let mut parts = text.split(':');
    for octet in &mut octets {
        *octet = u8::from_str_radix(parts.next().filter(|part| part.len() <= 2)?, 16).ok()?;
    }
    parts.next().is_none().then_some(MacAddr(octets))
}

#[cfg(test)]
mod tests {
    use super::*;
    use datapath::neighbour::{Link, Settings};
    use datapath::rng::Rng;

    fn devices() -> Devices {
        let mut devices = Devices::new();
        devices.add("a");
        devices.add("b");
        devices
    }

    /// A table, and what ip(8) would print for each command.
    struct Kernel(Neighbours);

    impl Kernel {
        fn new() -> Self {
            let mut table = Neighbours::new(Settings::default(), Rng::stream(1, 1));
            for port in 0..2 {
                table.set_link(port, Some(Link { mac: MacAddr([2; 6]), addresses: Vec::new() }));
            }
            Self(table)
        }

        fn run(&mut self, text: &str) -> String {
            let mut words = Words::new(text);
            let mut family = None;
            let mut manner = ShowOptions::default();
            while let Some(word) = words.peek().filter(|word| word.text.starts_with('-')) {
                match word.text {
                    "-6" => family = Some(true),
                    "-4" => family = Some(false),
                    "-s" => manner.statistics = true,
                    _ => manner.json = true,
                }
                words.next();
            }
            let done = parse(&mut words, &devices(), family).and_then(|command| {
                change(&mut self.0, Instant::ZERO, &command)?;
                show(&self.0, Instant::ZERO, &devices(), &command, manner)
            });
            done.unwrap_or_else(|error| error.to_string())
        }
    }

    /// A table of commands and what Linux 6.18 with iproute2 6.1 was seen to answer.
    #[test]
    fn commands_are_answered_as_by_ip() {
        let mut kernel = Kernel::new();
        for (command, answer) in [
            ("add 10.0.0.2 lladdr 02:00:00:00:00:01 dev a", ""),
            ("add 10.0.0.2 lladdr 02:00:00:00:00:02 dev a", "RTNETLINK answers: File exists"),
            (
                "change 10.0.0.3 lladdr 02:00:00:00:00:02 dev a",
                "RTNETLINK answers: No such file or directory",
            ),
            ("replace 10.0.0.3 lladdr 2:0:0:0:0:3 dev a nud reachable", ""),
            ("change 10.0.0.3 dev a nud stale", ""),
            ("add 10.0.0.4 dev a", "Error: No link layer address given."),
            (
                "",
                "10.0.0.2 dev a lladdr 02:00:00:00:00:01 PERMANENT \n\
                 10.0.0.3 dev a lladdr 02:00:00:00:00:03 STALE \n",
            ),
            ("show 10.0.0.2", "10.0.0.2 dev a lladdr 02:00:00:00:00:01 PERMANENT \n"),
            ("show to 10.0.0.2/32 dev a", "10.0.0.2 lladdr 02:00:00:00:00:01 PERMANENT \n"),
            ("show nud stale nud failed", "10.0.0.3 dev a lladdr 02:00:00:00:00:03 STALE \n"),
            ("s dev b", ""),
            ("get 10.0.0.3 dev a", "10.0.0.3 dev a lladdr 02:00:00:00:00:03 STALE \n"),
            ("get 10.0.0.99 dev a", "Error: Neighbour entry not found."),
            ("del 10.0.0.99 dev a", "RTNETLINK answers: No such file or directory"),
            (
                "-s show nud permanent",
                "10.0.0.2 dev a lladdr 02:00:00:00:00:01  used 0/0/0probes 0 PERMANENT \n",
            ),
            ("change 10.0.0.2 dev a nud reachable", ""),
            ("chg 10.0.0.3 dev a", ""),
            ("flush", "Flush requires arguments."),
            ("flush dev a", ""),
            ("show", "10.0.0.3 dev a lladdr 02:00:00:00:00:03 PERMANENT \n"),
            ("flush 10.0.0.0/24 nud permanent", ""),
            ("show all", ""),
            ("add fe80::1 dev b lladdr 02:00:00:00:00:01", ""),
            ("-4 show", ""),
            (
                "-j show",
                "[{\"dst\":\"fe80::1\",\"dev\":\"b\",\"lladdr\":\"02:00:00:00:00:01\",\
                 \"state\":[\"PERMANENT\"]}]\n",
            ),
            (
                "-j show dev b",
                "[{\"dst\":\"fe80::1\",\"lladdr\":\"02:00:00:00:00:01\",\
                 \"state\":[\"PERMANENT\"]}]\n",
            ),
            ("d fe80::1 dev b", ""),
            ("-j show", "[]\n"),
        ] {
            assert_eq!(kernel.run(command), answer, "{command}");
        }
    }

    #[test]
    fn faulty_commands_are_reported_with_their_position() {
        for (family, wrong, column, says) in [
            (None, "shwo", 0, "unknown"),
            (None, "show dev c", 9, "c"),
            (None, "show rubbish", 5, "any valid prefix is expected"),
            (None, "show nud strange", 9, "nud state is bad"),
            (None, "add 10.0.0.2 dev a lladdr 1:2:3", 26, "Ethernet address"),
            (None, "add 10.0.0.2 lladdr 2:0:0:0:0:1 dev a nud probe", 42, "can be set"),
            (None, "add 10.0.0.2 dev a lladdr 2:0:0:0:0:1 10.0.0.3", 38, "is a garbage"),
            (None, "add 300.0.0.66 dev a", 4, "any valid address is expected"),
            (Some(true), "add 10.0.0.2 dev a", 4, "inet6 address is expected"),
            (None, "del 10.0.0.3", 12, "Device and destination are required"),
        ] {
            let error = parse(&mut Words::new(wrong), &devices(), family).expect_err(wrong);
            let IpError::Grammar(error) = error else { panic!("{wrong}: {error}") };
            assert_eq!(error.column, column, "{wrong}: {error}");
            assert!(error.message.contains(says), "{wrong}: {error}");
        }
    }
}
