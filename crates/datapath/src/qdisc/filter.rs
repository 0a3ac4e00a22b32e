//! Filters that choose a class for a packet (`tc filter`, `tcf_classify`).

use super::Handle;
use crate::packet::Packet;

/// What a filter looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Match {
    /// Every packet (`matchall`).
    All,
    /// The TOS byte or traffic class under a mask (`u32 match ip dsfield VALUE MASK`).
    Tos {
        /// What it must be.
        value: u8,
        /// In which bits.
        mask: u8,
    },
    /// `skb->mark` under a mask (`handle MARK[/MASK] fw`).
    Mark {
        /// What it must be.
        value: u32,
        /// In which bits.
        mask: u32,
    },
    /// The transport protocol (`u32 match ip protocol VALUE 0xff`).
    Protocol(u8),
    /// A destination port of TCP or UDP (`u32 match ip dport VALUE 0xffff`).
    DestinationPort(u16),
    /// A source port of TCP or UDP (`u32 match ip sport VALUE 0xffff`).
    SourcePort(u16),
}

/// A classifier: packets that match go to a class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filter {
    /// Lower ones are evaluated first; equal ones in the order in which they were added.
    pub preference: u32,
    /// All of these must match.
    pub matches: Vec<Match>,
    /// `flowid`: the class, of which the minor counts.
    pub class: Handle,
}

impl Match {
    /// True if `packet` matches.
    pub fn matches(self, packet: &Packet) -> bool {
        let ports = packet.transport.ports();
        match self {
            Self::All => true,
            Self::Tos { value, mask } => packet.network.tos() & mask == value & mask,
            Self::Mark { value, mask } => packet.meta.mark & mask == value & mask,
            Self::Protocol(protocol) => packet.network.protocol() == Some(protocol),
            Self::DestinationPort(port) => ports.is_some_and(|(_, to)| to == port),
            Self::SourcePort(port) => ports.is_some_and(|(from, _)| from == port),
        }
    }
}

impl Filter {
    /// True if `packet` is what it looks for.
    pub fn matches(&self, packet: &Packet) -> bool {
        self.matches.iter().all(|wanted| wanted.matches(packet))
    }
    /// The class that the first of them that matches has chosen for `packet`.
    pub(super) fn class_of(filters: &[Self], packet: &Packet) -> Option<Handle> {
        let first = filters.iter().find(|filter| filter.matches(packet));
        first.map(|filter| filter.class)
    }

    /// Puts it into a list, behind those of the same preference.
    pub(super) fn add_to(self, filters: &mut Vec<Self>) {
        let place = filters.partition_point(|other| other.preference <= self.preference);
        filters.insert(place, self);
    }
}
