//! `ip neigh`: its words and its output.

use super::json::{Object, list};
use super::names::{Devices, invalid};
use crate::words::{GrammarError, Words};
use core::fmt::Write as _;
use core::net::IpAddr;
use datapath::neighbour::{Entry, Key, Neighbours, State};
use datapath::packet::MacAddr;

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NeighCommand {
    /// `ip neigh show [dev NAME] [nud STATE]`, for one address family or both.
    Show {
        /// Only this port.
        port: Option<u16>,
        /// Only this state.
        state: Option<String>,
    },
    /// `ip neigh add|replace|change ADDRESS lladdr MAC dev NAME [nud permanent]`.
    Set(Key, MacAddr),
    /// `ip neigh del ADDRESS dev NAME`.
    Delete(Key),
    /// `ip neigh flush dev NAME`.
    Flush(u16),
}

/// Reads the words behind `ip [-j] neigh`.
///
/// # Errors
/// The words make no sense, and where.
pub fn parse(words: &mut Words<'_>, devices: &Devices) -> Result<NeighCommand, GrammarError> {
    let verb = words.next();
    let text = verb.map_or("show", |word| word.text);
    let (mut address, mut mac, mut port, mut state) = (None, None, None, None);
    if !matches!(
        text,
        "show" | "list" | "ls" | "add" | "replace" | "change" | "del" | "delete" | "flush"
    ) {
        let known = ["show", "add", "replace", "change", "del", "flush"];
        return Err(verb.map_or_else(
            || words.ended("a command is missing"),
            |word| word.unknown("neigh", &known),
        ));
    }
    while let Some(word) = words.next() {
        match word.text {
            "dev" => port = Some(devices.read(words.value(word)?)?),
            "lladdr" => {
                let value = words.value(word)?;
                mac = Some(parse_mac(value.text).ok_or_else(|| {
                    invalid(value, "an Ethernet address like 02:00:00:00:00:01 is expected", None)
                })?);
            }
            "nud" => state = Some(words.value(word)?),
            _ if address.is_none() && word.text.parse::<IpAddr>().is_ok() => {
                address = word.text.parse().ok();
            }
            _ => return Err(word.unknown("neigh", &["dev", "lladdr", "nud"])),
        }
    }
    let key = |what: &str| match (address, port) {
        (Some(address), Some(port)) => Ok((port, address)),
        _ => Err(words.ended(&format!("{what} needs an address and a device"))),
    };
    Ok(match text {
        "del" | "delete" => NeighCommand::Delete(key("del")?),
        "add" | "replace" | "change" => {
            if let Some(state) = state.filter(|state| state.text != "permanent") {
                return Err(invalid(state, "only permanent neighbours are set by hand", None));
            }
            let mac = mac.ok_or_else(|| words.ended("\"lladdr\" is missing"))?;
            NeighCommand::Set(key(text)?, mac)
        }
        "flush" => NeighCommand::Flush(port.ok_or_else(|| words.ended("\"dev\" is missing"))?),
        _ => NeighCommand::Show { port, state: state.map(|state| state.text.to_ascii_uppercase()) },
    })
}

/// `ip [-s] [-j] neigh show`: entries that have failed or were never asked are shown too, as with
/// `nud all`, but for `NONE`.
pub fn show(
    table: &Neighbours,
    devices: &Devices,
    command: &NeighCommand,
    family_v6: Option<bool>,
    json: bool,
) -> String {
    let NeighCommand::Show { port, state } = command else { return String::new() };
    let wanted = |(key, entry): &(&Key, &Entry)| {
        entry.state() != State::None
            && port.is_none_or(|port| port == key.0)
            && family_v6.is_none_or(|v6| v6 == key.1.is_ipv6())
            && state.as_ref().is_none_or(|state| state == "ALL" || state == entry.state().name())
    };
    let shown = table.entries().filter(wanted);
    if json {
        let items: Vec<String> = shown.map(|(key, entry)| json_of(key, entry, devices)).collect();
        return list(&items) + "\n";
    }
    let mut out = String::new();
    for (key, entry) in shown {
        let _ = write!(out, "{} dev {} ", key.1, devices.name(key.0));
        if let Some(mac) = entry.mac().filter(|_| entry.state().is_valid()) {
            let _ = write!(out, "lladdr {} ", show_mac(mac));
        }
        if entry.is_router() {
            out += "router ";
        }
        let _ = writeln!(out, "{} ", entry.state().name());
    }
    out
}

fn json_of(key: &Key, entry: &Entry, devices: &Devices) -> String {
    let mut object =
        Object::default().text("dst", &key.1.to_string()).text("dev", devices.name(key.0));
    if let Some(mac) = entry.mac().filter(|_| entry.state().is_valid()) {
        object = object.text("lladdr", &show_mac(mac));
    }
    if entry.is_router() {
        object = object.flag("router");
    }
    object.words("state", &[entry.state().name()]).finish()
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
    use datapath::units::Instant;

    fn run(text: &str) -> Result<NeighCommand, GrammarError> {
        let mut devices = Devices::new();
        devices.add("a");
        devices.add("b");
        parse(&mut Words::new(text), &devices)
    }

    #[test]
    fn words_are_those_of_ip() {
        assert_eq!(run(""), Ok(NeighCommand::Show { port: None, state: None }));
        assert_eq!(run("show dev b"), Ok(NeighCommand::Show { port: Some(1), state: None }));
        let key = (0, IpAddr::from([10, 0, 0, 2]));
        let set = run("replace 10.0.0.2 lladdr 2:0:0:0:0:1f dev a nud permanent");
        assert_eq!(set, Ok(NeighCommand::Set(key, MacAddr([2, 0, 0, 0, 0, 0x1f]))));
        assert_eq!(run("del 10.0.0.2 dev a"), Ok(NeighCommand::Delete(key)));
        assert_eq!(run("flush dev a"), Ok(NeighCommand::Flush(0)));
        for (wrong, column) in [
            ("shwo", 0),
            ("show dev c", 9),
            ("add 10.0.0.2 dev a lladdr 1:2:3", 26),
            ("add 10.0.0.2 lladdr 2:0:0:0:0:1 dev a nud stale", 42),
        ] {
            assert_eq!(run(wrong).expect_err("it is wrong").column, column, "{wrong}");
        }
    }

    #[test]
    fn output_is_that_of_ip() {
        let mut devices = Devices::new();
        devices.add("eth0");
        let mut table = Neighbours::new(Settings::default(), Rng::stream(1, 1));
        table.set_link(0, Some(Link { mac: MacAddr([2; 6]), addresses: Vec::new() }));
        let mac = parse_mac("02:00:00:00:00:1f").expect("an address");
        table.set_permanent(Instant::ZERO, (0, IpAddr::from([10, 0, 0, 2])), mac);
        let command = NeighCommand::Show { port: None, state: None };
        let text = show(&table, &devices, &command, None, false);
        assert_eq!(text, "10.0.0.2 dev eth0 lladdr 02:00:00:00:00:1f PERMANENT \n");
        let json = show(&table, &devices, &command, Some(false), true);
        let expected = r#"[{"dst":"10.0.0.2","dev":"eth0","lladdr":"02:00:00:00:00:1f","state":["PERMANENT"]}]"#;
        assert_eq!(json.trim_end(), expected);
        assert_eq!(show(&table, &devices, &command, Some(true), true), "[]\n");
    }
}
