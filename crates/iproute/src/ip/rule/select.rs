//! Which rules `ip rule show` is to list.

use super::values::{port_of, read_mark, read_ports};
use crate::ip::names::{self, Devices};
use crate::ip::route::read_tos;
use crate::words::{Result, Word, Words};
use core::ops::RangeInclusive;
use datapath::fib::{Action, Prefix, Rule, TableId};

const WORDS: [&str; 15] = [
    "from",
    "to",
    "not",
    "preference",
    "priority",
    "order",
    "table",
    "lookup",
    "fwmark",
    "tos",
    "iif",
    "oif",
    "ipproto",
    "sport",
    "dport",
];

/// What a rule must have to be listed.
#[derive(Default)]
pub(super) struct Selector {
    inverted: bool,
    priority: Option<u32>,
    table: Option<TableId>,
    from: Option<Prefix>,
    to: Option<Prefix>,
    mark: u32,
    mask: u32,
    tos: u8,
    iif: Interface,
    oif: Interface,
    protocol: Option<u8>,
    src_ports: Option<RangeInclusive<u16>>,
    dst_ports: Option<RangeInclusive<u16>>,
}

/// The interface that a rule is to name, be it there or waited for.
#[derive(Clone, Copy, Default)]
enum Interface {
    #[default]
    Any,
    Absent,
    Port(u16),
}

impl Interface {
    fn read(word: Word<'_>, devices: &Devices) -> Self {
        devices.rule_port(word.text).map_or(Self::Absent, Self::Port)
    }

    fn matches(self, there: Option<u16>) -> bool {
        match self {
            Self::Any => true,
            Self::Absent => false,
            Self::Port(port) => there == Some(port),
        }
    }
}

impl Selector {
    /// Reads all words that follow `show`; one alone is what `to` would be followed by.
    pub(super) fn read(words: &mut Words<'_>, devices: &Devices, v6: bool) -> Result<Self> {
        let mut all = Self::default();
        while let Some(word) = words.next() {
            match word.text {
                "not" => all.inverted = true,
                "from" => all.from = prefix(words.value(word)?, v6)?,
                "to" | "dst" => all.to = prefix(words.value(word)?, v6)?,
                "preference" | "pref" | "order" | "priority" => {
                    let what = "preference value is invalid";
                    all.priority = Some(names::number(words.value(word)?, what)?);
                }
                "table" | "lookup" => all.table = Some(names::table(words.value(word)?)?),
                "fwmark" => {
                    let value = words.value(word)?;
                    let (mark, mask) = read_mark(value)?.unwrap_or_default();
                    all.mark = mark;
                    all.mask = if value.text.contains('/') { mask } else { 0 };
                }
                "tos" | "dsfield" => all.tos = read_tos(words.value(word)?)?,
                "iif" | "dev" => all.iif = Interface::read(words.value(word)?, devices),
                "oif" => all.oif = Interface::read(words.value(word)?, devices),
                "ipproto" => all.protocol = Some(names::ip_protocol(words.value(word)?)?),
                "sport" => all.src_ports = Some(read_ports(words.value(word)?, "sport")?),
                "dport" => all.dst_ports = Some(read_ports(words.value(word)?, "dport")?),
                // Rules here do not remember who made them.
                "proto" | "protocol" => drop(names::protocol(words.value(word)?)?),
                _ => {
                    let nearest = || word.unknown("rule show", &WORDS).nearest;
                    let to = prefix(word, v6);
                    all.to = to.map_err(|error| word.error(error.message, nearest()))?;
                }
            }
        }
        Ok(all)
    }

    /// `filter_nlmsg` of iproute2's `iprule.c`: prefixes are those within the one that is said.
    pub(super) fn matches(&self, rule: &Rule) -> bool {
        let (mark, mask) = rule.mark.unwrap_or_default();
        let table = |table: TableId| rule.action == Action::Table(table);
        (!self.inverted || rule.invert)
            && self.priority.is_none_or(|priority| priority == rule.priority)
            && self.table.is_none_or(table)
            && self.from.is_none_or(|from| is_within(rule.from, from))
            && self.to.is_none_or(|to| is_within(rule.to, to))
            && (self.mark == 0 || self.mark == mark)
            && (self.mask == 0 || self.mask == mask)
            && (self.tos == 0 || self.tos == rule.tos)
            && self.iif.matches(rule.iif.map(port_of))
            && self.oif.matches(rule.oif)
            && (self.protocol.is_none() || self.protocol == rule.protocol)
            && (self.src_ports.is_none() || self.src_ports == rule.src_ports)
            && (self.dst_ports.is_none() || self.dst_ports == rule.dst_ports)
    }
}

/// `all` is every one.
fn prefix(word: Word<'_>, v6: bool) -> Result<Option<Prefix>> {
    let (addr, len) = names::loose_prefix(word, Some(v6))?;
    Ok(Prefix::containing(addr, len).filter(|prefix| !prefix.is_empty()))
}

fn is_within(there: Option<Prefix>, said: Prefix) -> bool {
    there.is_some_and(|there| there.len() >= said.len() && said.contains(there.addr()))
}
