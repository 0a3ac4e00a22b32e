//! Names that `ip` knows: tables, protocols, scopes, types, devices.

pub(super) use crate::units::parse_number;

use crate::words::{GrammarError, Result, Word};
use core::net::{IpAddr, Ipv4Addr};
use datapath::fib::source::Own;
use datapath::fib::{Algorithm, Prefix, Protocol, RouteType, Scope, TableId};
use std::collections::BTreeMap;

/// The port of `lo`.
pub const LOOPBACK: u16 = u16::MAX;

/// Interfaces by name, and their addresses.
#[derive(Clone, Debug, Default)]
pub struct Devices {
    ports: Vec<Device>,
    /// All ports, in the order of their names.
    by_name: Vec<u16>,
    /// The addresses of `lo`.
    loopback: Vec<(IpAddr, u8)>,
    /// Who has which address: the port with `lo` before all others, how often it has it (an IPv4 address may be
    /// there with several lengths).
    owners: BTreeMap<(IpAddr, u16), u32>,
    /// The first IPv4 address that each port has in a network.
    primaries: BTreeMap<(u16, Prefix), Ipv4Addr>,
    /// Names of interfaces that are not there and that rules wait for. The rules hold numbers that no port has:
    /// they count down from below that of `lo`.
    awaited: Vec<String>,
    /// No interface comes any more.
    complete: bool,
}

#[derive(Clone, Debug)]
struct Device {
    name: String,
    addresses: Vec<(IpAddr, u8)>,
}

impl Devices {
    /// No interface but `lo`.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an interface and returns its port; ports count from 0.
    pub fn add(&mut self, name: &str) -> u16 {
        let port = u16::try_from(self.ports.len()).expect("a host has fewer than 65536 ports");
        let behind = self.by_name.partition_point(|there| self.name(*there) <= name);
        self.by_name.insert(behind, port);
        self.ports.push(Device { name: name.to_owned(), addresses: Vec::new() });
        port
    }

    /// Says that no interface comes any more: a rule for one that is not there is a mistake then, where it
    /// would wait else.
    pub fn complete(&mut self) {
        self.complete = true;
    }

    /// The number by which rules name an interface that need not be there, if it is or some rule has waited
    /// for it.
    pub(super) fn rule_port(&self, name: &str) -> Option<u16> {
        let awaited = || self.awaited.iter().position(|there| there == name).map(awaited_port);
        self.port(name).or_else(awaited)
    }

    /// A number by which a rule may wait for an interface that is not there; `None` where none comes, or too many
    /// are waited for. Numbers that no rule has (`in_use`) are given anew.
    pub(super) fn wait_for(&mut self, name: &str, in_use: impl Fn(u16) -> bool) -> Option<u16> {
        if self.complete {
            return None;
        }
        let free = (0..self.awaited.len()).find(|&at| !in_use(awaited_port(at)));
        let at = free.unwrap_or(self.awaited.len());
        if at == self.awaited.len() {
            if at == AWAITED {
                return None;
            }
            self.awaited.push(String::new());
        }
        name.clone_into(&mut self.awaited[at]);
        Some(awaited_port(at))
    }

    /// True if that is the number of an interface that rules wait for.
    pub(super) fn is_awaited(&self, port: u16) -> bool {
        self.awaited(port).is_some()
    }

    /// The name of an interface that a rule waits for, by the number that the rule has.
    fn awaited(&self, port: u16) -> Option<&str> {
        let at = usize::from((LOOPBACK - 1).checked_sub(port)?);
        self.awaited.get(at).map(String::as_str)
    }

    /// Notes an address of a port.
    pub fn add_address(&mut self, port: u16, addr: IpAddr, len: u8) {
        let Some(addresses) = self.addresses_mut(port) else { return };
        addresses.push((addr, len));
        *self.owners.entry((addr, rank(port))).or_default() += 1;
        if let (IpAddr::V4(addr), Some(net)) = (addr, Prefix::containing(addr, len)) {
            self.primaries.entry((port, net)).or_insert(addr);
        }
    }

    /// Forgets an address of a port.
    pub fn remove_address(&mut self, own: Own) {
        let Some(addresses) = self.addresses_mut(own.port) else { return };
        let before = addresses.len();
        addresses.retain(|there| *there != (own.addr, own.len));
        let gone = (before - addresses.len()) as u32;
        let owner = (own.addr, rank(own.port));
        if let Some(times) = self.owners.get_mut(&owner) {
            *times -= gone;
            if *times == 0 {
                self.owners.remove(&owner);
            }
        }
        let IpAddr::V4(addr) = own.addr else { return };
        let Some(net) = Prefix::containing(own.addr, own.len) else { return };
        let place = (own.port, net);
        if self.primaries.get(&place) == Some(&addr) {
            let of_net = |&&(addr, len): &&(IpAddr, u8)| len == own.len && net.contains(addr);
            match self.addresses(own.port).iter().find(of_net) {
                Some(&(IpAddr::V4(next), _)) => drop(self.primaries.insert(place, next)),
                _ => drop(self.primaries.remove(&place)),
            }
        }
    }

    fn addresses_mut(&mut self, port: u16) -> Option<&mut Vec<(IpAddr, u8)>> {
        if port == LOOPBACK {
            return Some(&mut self.loopback);
        }
        self.ports.get_mut(usize::from(port)).map(|device| &mut device.addresses)
    }

    /// All ports but `lo`.
    pub fn ports(&self) -> impl Iterator<Item = u16> + Clone + use<> {
        0..self.ports.len() as u16
    }

    /// The addresses of a port with their prefix lengths.
    pub fn addresses(&self, port: u16) -> &[(IpAddr, u8)] {
        if port == LOOPBACK {
            return &self.loopback;
        }
        self.ports.get(usize::from(port)).map_or(&[], |device| &device.addresses)
    }

    /// The name of a port.
    pub fn name(&self, port: u16) -> &str {
        if port == LOOPBACK {
            return "lo";
        }
        let awaited = || self.awaited(port).unwrap_or("if?");
        self.ports.get(usize::from(port)).map_or_else(awaited, |device| &device.name)
    }

    /// The port with this name.
    pub fn port(&self, name: &str) -> Option<u16> {
        if name == "lo" {
            return Some(LOOPBACK);
        }
        let first = self.by_name.partition_point(|port| self.name(*port) < name);
        self.by_name.get(first).copied().filter(|port| self.name(*port) == name)
    }

    /// The addresses of all interfaces, those of `lo` first.
    pub fn own(&self) -> impl Iterator<Item = Own> + Clone {
        let ports = core::iter::once(LOOPBACK).chain(self.ports());
        ports.flat_map(|port| {
            self.addresses(port).iter().map(move |&(addr, len)| Own { port, addr, len })
        })
    }

    /// The ports that have an address, `lo` first.
    pub(super) fn owners(&self, addr: IpAddr) -> impl Iterator<Item = u16> {
        let owners = self.owners.range((addr, 0)..=(addr, u16::MAX));
        owners.map(|(&(_, rank), _)| rank.wrapping_sub(1))
    }

    /// The first IPv4 address that a port has in the network of this one, if that is another one: then this one is
    /// behind it (`IFA_F_SECONDARY`, `inet_ifa_byprefix`).
    pub(super) fn primary(&self, port: u16, addr: IpAddr, len: u8) -> Option<IpAddr> {
        let IpAddr::V4(addr) = addr else { return None };
        let net = Prefix::containing(addr.into(), len)?;
        let primary = self.primaries.get(&(port, net)).copied();
        primary.filter(|primary| *primary != addr).map(IpAddr::V4)
    }

    /// The port that a word names.
    pub(super) fn read(&self, word: Word<'_>) -> Result<u16> {
        self.port(word.text).ok_or_else(|| {
            let names: Vec<&str> = self.ports.iter().map(|device| device.name.as_str()).collect();
            let nearest = word.unknown("dev", &names).nearest;
            word.error(format!("Cannot find device \"{}\"", word.text), nearest)
        })
    }
}

/// So many interfaces may be waited for at a time.
const AWAITED: usize = 4_096;

/// The number that rules have of the awaited interface at this place.
fn awaited_port(at: usize) -> u16 {
    LOOPBACK - 1 - at as u16
}

/// The place of a port among all: `lo`, whose number is the last, is the first.
fn rank(port: u16) -> u16 {
    port.wrapping_add(1)
}

const TABLES: [(&str, u32); 4] = [("default", 253), ("main", 254), ("local", 255), ("unspec", 0)];

const PROTOCOLS: [(&str, u32); 17] = [
    ("unspec", 0),
    ("redirect", 1),
    ("kernel", 2),
    ("boot", 3),
    ("static", 4),
    ("gated", 8),
    ("ra", 9),
    ("mrt", 10),
    ("zebra", 11),
    ("bird", 12),
    ("dnrouted", 13),
    ("xorp", 14),
    ("ntk", 15),
    ("dhcp", 16),
    ("keepalived", 18),
    ("babel", 42),
    ("bgp", 186),
];

const SCOPES: [(&str, u32); 5] =
    [("global", 0), ("nowhere", 255), ("host", 254), ("link", 253), ("site", 200)];

const TYPES: [(&str, RouteType); 9] = [
    ("unicast", RouteType::Unicast),
    ("local", RouteType::Local),
    ("broadcast", RouteType::Broadcast),
    ("anycast", RouteType::Anycast),
    ("multicast", RouteType::Multicast),
    ("blackhole", RouteType::Blackhole),
    ("unreachable", RouteType::Unreachable),
    ("prohibit", RouteType::Prohibit),
    ("throw", RouteType::Throw),
];

const ALGORITHMS: [(&str, Algorithm); 5] = [
    ("l3", Algorithm::L3),
    ("per-packet", Algorithm::PerPacket),
    ("l4", Algorithm::L4),
    ("modulo", Algorithm::Modulo),
    ("credit", Algorithm::Credit),
];

const IP_PROTOCOLS: [(&str, u8); 4] = [("icmp", 1), ("tcp", 6), ("udp", 17), ("ipv6-icmp", 58)];

pub(super) fn table(word: Word<'_>) -> Result<TableId> {
    by_name_or_number(word, &TABLES, u32::MAX, "table").map(TableId)
}

pub(super) fn table_name(table: TableId) -> String {
    name_or_number(table.0, &TABLES)
}

pub(super) fn protocol(word: Word<'_>) -> Result<Protocol> {
    by_name_or_number(word, &PROTOCOLS, 255, "protocol").map(|number| Protocol(number as u8))
}

pub(super) fn protocol_name(protocol: Protocol) -> String {
    name_or_number(protocol.0.into(), &PROTOCOLS)
}

pub(super) fn scope(word: Word<'_>) -> Result<Scope> {
    by_name_or_number(word, &SCOPES, 255, "scope").map(|number| Scope(number as u8))
}

pub(super) fn scope_name(scope: Scope) -> String {
    name_or_number(scope.0.into(), &SCOPES)
}

/// The route type that a word names, if it does.
pub(super) fn route_type(text: &str) -> Option<RouteType> {
    TYPES.iter().find(|(name, _)| *name == text).map(|&(_, kind)| kind)
}

pub(super) fn type_name(kind: RouteType) -> &'static str {
    TYPES.iter().find(|(_, there)| *there == kind).map_or("unicast", |(name, _)| name)
}

/// `mp_algo` of the 2015 series, and two baselines of ours.
pub(super) fn algorithm(word: Word<'_>) -> Result<Algorithm> {
    if let Some(&(_, algorithm)) = ALGORITHMS.iter().find(|(name, _)| *name == word.text) {
        return Ok(algorithm);
    }
    if matches!(word.text, "drr" | "random" | "wrandom") {
        let message = format!("\"mp_algo\" {} is reserved and not supported", word.text);
        return Err(word.error(message, None));
    }
    let names: Vec<&str> = ALGORITHMS.iter().map(|(name, _)| *name).collect();
    let nearest = word.unknown("mp_algo", &names).nearest;
    Err(invalid(word, "\"mp_algo\" value is invalid", nearest))
}

pub(super) fn algorithm_name(algorithm: Algorithm) -> Option<&'static str> {
    ALGORITHMS.iter().find(|(_, there)| *there == algorithm).map(|(name, _)| *name)
}

pub(super) fn ip_protocol(word: Word<'_>) -> Result<u8> {
    if let Some(&(_, number)) = IP_PROTOCOLS.iter().find(|(name, _)| *name == word.text) {
        return Ok(number);
    }
    // As a listing gives the number, which ip itself would not read back.
    let number = word.text.strip_prefix("ipproto-").unwrap_or(word.text);
    number.parse().map_err(|_| {
        let names: Vec<&str> = IP_PROTOCOLS.iter().map(|(name, _)| *name).collect();
        let nearest = word.unknown("ipproto", &names).nearest;
        invalid(word, "Invalid \"ipproto\" value", nearest)
    })
}

pub(super) fn ip_protocol_name(number: u8) -> String {
    let named = IP_PROTOCOLS.iter().find(|(_, there)| *there == number);
    named.map_or_else(|| format!("ipproto-{number}"), |(name, _)| (*name).to_owned())
}

/// `argument "x" is wrong: …`, as `invarg()` says it.
pub(super) fn invalid(word: Word<'_>, what: &str, nearest: Option<String>) -> GrammarError {
    word.error(format!("argument \"{}\" is wrong: {what}", word.text), nearest)
}

/// A number (`get_u32`).
pub(super) fn number(word: Word<'_>, what: &str) -> Result<u32> {
    parse_number(word.text).ok_or_else(|| invalid(word, what, None))
}

/// The number of a group of interfaces; `group_a2n` knows one name, and takes no number of 32 bits.
pub(super) fn group(word: Word<'_>, what: &str) -> Result<u32> {
    let number = if word.text == "default" { Some(0) } else { parse_number(word.text) };
    number.filter(|group| i32::try_from(*group).is_ok()).ok_or_else(|| {
        let nearest = word.unknown("group", &["default"]).nearest;
        invalid(word, &format!("Invalid \"{what}\" value"), nearest)
    })
}

pub(super) fn group_name(group: u32) -> String {
    if group == 0 { "default".to_owned() } else { group.to_string() }
}

/// An address, of one family if `family` says which (is it IPv6?).
pub(super) fn address(word: Word<'_>, family: Option<bool>) -> Result<IpAddr> {
    let addr = parse_address(word.text).filter(|addr| is_of(*addr, family));
    addr.ok_or_else(|| {
        let family = family_name(family);
        let message = format!("{family} address is expected rather than \"{}\".", word.text);
        word.error(message, None)
    })
}

fn is_of(addr: IpAddr, family: Option<bool>) -> bool {
    family.is_none_or(|v6| v6 == addr.is_ipv6())
}

/// `family_name_verbose()`
fn family_name(family: Option<bool>) -> &'static str {
    match family {
        None => "any valid",
        Some(false) => "inet",
        Some(true) => "inet6",
    }
}

/// An address as `get_addr_1` reads it: what an IPv4 address lacks at its end is zero, and its parts are
/// numbers of any base.
fn parse_address(text: &str) -> Option<IpAddr> {
    if text.contains(':') {
        return text.parse().ok();
    }
    let mut octets = [0; 4];
    let mut places = octets.iter_mut();
    for part in text.split('.') {
        *places.next()? = u8::try_from(parse_number(part)?).ok()?;
    }
    Some(octets.into())
}

/// The length of a prefix: bits, or a netmask (`get_netmask`).
fn parse_length(text: &str) -> Option<u8> {
    if let Some(bits) = parse_number(text) {
        return bits.try_into().ok();
    }
    let IpAddr::V4(mask) = parse_address(text)? else { return None };
    let bits = mask.to_bits();
    let is_mask = bits.leading_ones() + bits.trailing_zeros() == u32::BITS;
    is_mask.then_some(bits.leading_ones() as u8)
}

/// A prefix whose host bits need not be zero, or `default`/`all`, which is IPv4's unless IPv6 is meant; of one
/// family if `family` says which (is it IPv6?).
pub(super) fn loose_prefix(word: Word<'_>, family: Option<bool>) -> Result<(IpAddr, u8)> {
    let wrong = || {
        let family = family_name(family);
        let message = format!("{family} prefix is expected rather than \"{}\".", word.text);
        word.error(message, None)
    };
    if matches!(word.text, "default" | "all" | "any") {
        let default = if family == Some(true) { Prefix::DEFAULT_V6 } else { Prefix::DEFAULT_V4 };
        return Ok((default.addr(), 0));
    }
    let (addr, len) = match word.text.split_once('/') {
        Some((addr, len)) => (addr, Some(len)),
        None => (word.text, None),
    };
    let addr = parse_address(addr).filter(|addr| is_of(*addr, family)).ok_or_else(wrong)?;
    let width = if addr.is_ipv4() { 32 } else { 128 };
    let len = match len {
        Some(len) => parse_length(len).ok_or_else(wrong)?,
        None => width,
    };
    if len > width { Err(wrong()) } else { Ok((addr, len)) }
}

fn by_name_or_number(word: Word<'_>, names: &[(&str, u32)], max: u32, what: &str) -> Result<u32> {
    if let Some(&(_, number)) = names.iter().find(|(name, _)| *name == word.text) {
        return Ok(number);
    }
    parse_number(word.text).filter(|&number| number <= max).ok_or_else(|| {
        let names: Vec<&str> = names.iter().map(|(name, _)| *name).collect();
        let nearest = word.unknown(what, &names).nearest;
        let message = match what {
            "scope" => "invalid \"scope\" value".to_owned(),
            _ => format!("\"{what}\" value is invalid"),
        };
        invalid(word, &message, nearest)
    })
}

fn name_or_number(number: u32, names: &[(&str, u32)]) -> String {
    let named = names.iter().find(|(_, there)| *there == number);
    named.map_or_else(|| number.to_string(), |(name, _)| (*name).to_owned())
}
