//! `tc filter`, from its words: which class the first one that matches has chosen.

use datapath::packet::{Network, Packet, Transport};

/// The filters of one qdisc, in order of evaluation.
#[derive(Clone, Debug, Default)]
pub struct Filters(Vec<Filter>);

#[derive(Clone, Debug)]
struct Filter {
    /// The minor of the class that asks it; 0: the qdisc does.
    asked_by: u16,
    preference: u32,
    /// Pairs of a field and a value under a mask. None: everything matches.
    matches: Vec<(Field, u32, u32)>,
    /// The minor of the class that it chooses.
    class: u16,
}

#[derive(Clone, Copy, Debug)]
enum Field {
    Tos,
    Mark,
    Protocol,
    From,
    To,
}

impl Filters {
    /// Takes a filter of the qdisc with this major number, if it is one.
    pub fn add(&mut self, major: u16, words: &str) {
        let Some(filter) = read(major, words) else { return };
        let place = self.0.partition_point(|other| other.preference <= filter.preference);
        self.0.insert(place, filter);
    }

    /// Only filters of classes that `exist` remain.
    pub fn keep(&mut self, exist: impl Fn(u16) -> bool) {
        self.0.retain(|filter| filter.asked_by == 0 || exist(filter.asked_by));
    }

    /// The minor of the class that the filters of a class (0: of the qdisc) choose.
    pub fn choice(&self, asked_by: u16, packet: &Packet) -> Option<u16> {
        let mut of_class = self.0.iter().filter(|filter| filter.asked_by == asked_by);
        of_class.find(|filter| filter.takes(packet)).map(|filter| filter.class)
    }
}

impl Filter {
    fn takes(&self, packet: &Packet) -> bool {
        self.matches.iter().all(|(field, value, mask)| {
            field.of(packet).is_some_and(|there| there & mask == value & mask)
        })
    }
}

impl Field {
    fn of(self, packet: &Packet) -> Option<u32> {
        let ports = match &packet.transport {
            Transport::Tcp(tcp) => Some((tcp.src_port, tcp.dst_port)),
            Transport::Udp(udp) => Some((udp.src_port, udp.dst_port)),
            _ => None,
        };
        match (self, &packet.network) {
            (Self::Mark, _) => Some(packet.meta.mark),
            (Self::From, _) => ports.map(|(from, _)| from.into()),
            (Self::To, _) => ports.map(|(_, to)| to.into()),
            (Self::Tos, Network::Ipv4(ip)) => Some(ip.tos.into()),
            (Self::Tos, Network::Ipv6(ip)) => Some(ip.traffic_class.into()),
            (Self::Tos, _) => Some(0),
            (Self::Protocol, Network::Ipv4(ip)) => Some(ip.protocol.into()),
            (Self::Protocol, Network::Ipv6(ip)) => Some(ip.next_header.into()),
            (Self::Protocol, _) => None,
        }
    }
}

/// Reads a command that tc has taken.
fn read(major: u16, words: &str) -> Option<Filter> {
    let words: Vec<&str> = words.split(' ').collect();
    let after =
        |word| words.iter().position(|it| *it == word).and_then(|at| words.get(at + 1)).copied();
    let (parent, minor) = after("parent")?.split_once(':')?;
    let (_, class) = after("flowid")?.split_once(':')?;
    let hex = |text: &str| u16::from_str_radix(text, 16).ok();
    let mut matches = Vec::new();
    if let Some((value, mask)) =
        words.contains(&"fw").then(|| under_mask(after("handle")?)).flatten()
    {
        matches.push((Field::Mark, value, mask));
    }
    for (at, _) in words.iter().enumerate().filter(|(_, word)| **word == "match") {
        let field = match *words.get(at + 2)? {
            "dsfield" => Field::Tos,
            "protocol" => Field::Protocol,
            "sport" => Field::From,
            "dport" => Field::To,
            _ => return None,
        };
        matches.push((field, number(words.get(at + 3)?)?, number(words.get(at + 4)?)?));
    }
    (hex(parent)? == major).then_some(Filter {
        asked_by: if minor.is_empty() { 0 } else { hex(minor)? },
        preference: after("prio")?.parse().ok()?,
        matches,
        class: hex(class)?,
    })
}

/// `VALUE` or `VALUE/MASK`.
fn under_mask(text: &str) -> Option<(u32, u32)> {
    match text.split_once('/') {
        Some((value, mask)) => Some((number(value)?, number(mask)?)),
        None => Some((number(text)?, u32::MAX)),
    }
}

fn number(text: &str) -> Option<u32> {
    match text.strip_prefix("0x") {
        Some(hex) => u32::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    }
}
