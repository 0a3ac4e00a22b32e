//! Policy rules: which packets look in which table (`ip rule`).

use super::RouteKey;
use super::route::{Prefix, TableId};
use core::net::IpAddr;
use core::ops::RangeInclusive;

/// One rule. A packet must fit every condition that is given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Order; lower is first.
    pub priority: u32,
    /// `not`: the rule is for packets that do *not* fit.
    pub invert: bool,
    /// `from`.
    pub from: Option<Prefix>,
    /// `to`.
    pub to: Option<Prefix>,
    /// `tos`: 0 = any.
    pub tos: u8,
    /// `fwmark`: value and mask.
    pub mark: Option<(u32, u32)>,
    /// `iif`: the interface it came in by.
    pub iif: Option<InputPort>,
    /// `oif`: the interface that the socket demands.
    pub oif: Option<u16>,
    /// `ipproto`.
    pub protocol: Option<u8>,
    /// `sport`.
    pub src_ports: Option<RangeInclusive<u16>>,
    /// `dport`.
    pub dst_ports: Option<RangeInclusive<u16>>,
    /// `suppress_prefixlength`: ignore what was found if its prefix is this short.
    pub suppress_prefix_len: Option<u8>,
    /// `suppress_ifgroup`: ignore what was found if it goes by an interface of this group.
    pub suppress_group: Option<u32>,
    /// What to do.
    pub action: Action,
}

/// The interface that a rule's `iif` names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InputPort {
    /// `iif lo`: packets made here.
    Loopback,
    /// A port.
    Port(u16),
}

/// What a rule does (`FR_ACT_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Look in a table; go on if nothing is found there.
    Table(TableId),
    /// Go on at the first rule of at least this priority.
    Goto(u32),
    /// Nothing.
    Nop,
    /// Drop without a word.
    Blackhole,
    /// Drop and answer "network unreachable".
    Unreachable,
    /// Drop and answer "prohibited".
    Prohibit,
}

impl Rule {
    /// A rule for every packet.
    pub const fn all(priority: u32, action: Action) -> Self {
        Self {
            priority,
            invert: false,
            from: None,
            to: None,
            tos: 0,
            mark: None,
            iif: None,
            oif: None,
            protocol: None,
            src_ports: None,
            dst_ports: None,
            suppress_prefix_len: None,
            suppress_group: None,
            action,
        }
    }

    /// The rules that a namespace starts with; IPv6 has no table `default`.
    pub const fn defaults(v6: bool) -> &'static [Self] {
        const V4: &[Rule] = &[
            Rule::all(0, Action::Table(TableId::LOCAL)),
            Rule::all(32766, Action::Table(TableId::MAIN)),
            Rule::all(32767, Action::Table(TableId::DEFAULT)),
        ];
        if v6 { V4.split_at(2).0 } else { V4 }
    }

    /// True if something that is found may be ignored.
    pub const fn may_suppress(&self) -> bool {
        self.suppress_prefix_len.is_some() || self.suppress_group.is_some()
    }

    /// True if there is no condition. A group of interfaces is one: of several next hops of IPv6 it lets some
    /// through, and which is chosen is a matter of more than the destination.
    pub fn is_for_all(&self) -> bool {
        let suppress_prefix_len = self.suppress_prefix_len;
        *self == Self { suppress_prefix_len, ..Self::all(self.priority, self.action) }
    }

    /// True if the rule is for this packet (`fib_rule_match`).
    pub fn matches(&self, key: &RouteKey) -> bool {
        self.fits(key) != self.invert
    }

    fn fits(&self, key: &RouteKey) -> bool {
        let within =
            |prefix: &Option<Prefix>, addr: IpAddr| prefix.is_none_or(|p| p.contains(addr));
        let ports = |range: &Option<RangeInclusive<u16>>, port: u16| {
            range.as_ref().is_none_or(|range| range.contains(&port))
        };
        within(&self.from, key.src)
            && within(&self.to, key.dst)
            && (self.tos == 0 || self.tos == key.tos & super::TOS_MASK)
            && self.mark.is_none_or(|(mark, mask)| (key.mark ^ mark) & mask == 0)
            && self.iif.is_none_or(|iif| iif.matches(key.iif))
            && self.oif.is_none_or(|oif| key.oif == Some(oif))
            && self.protocol.is_none_or(|protocol| protocol == key.protocol)
            && ports(&self.src_ports, key.src_port)
            && ports(&self.dst_ports, key.dst_port)
    }
}

impl InputPort {
    fn matches(self, iif: Option<u16>) -> bool {
        match self {
            Self::Loopback => iif.is_none(),
            Self::Port(port) => iif == Some(port),
        }
    }
}
