//! What can be done to a forwarding table: random steps, and their wording for `ip`.

use core::fmt::Write as _;
use core::net::IpAddr;

use serde::{Deserialize, Serialize};

use super::values::{any_address, any_gateway, any_len, any_port, any_prefix, masked};
use super::words::{any_more, any_words};
use crate::draw::Draw;

/// One thing that is done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub enum Step {
    /// `ip route VERB …`.
    Route(Verb, RouteCase),
    /// `ip rule add` or `del`.
    Rule {
        /// Whether it is added.
        add: bool,
        /// Which.
        rule: RuleCase,
    },
    /// `ip nexthop add`, or `replace`.
    Object {
        /// Whether one that is there may give way.
        replace: bool,
        /// Its number.
        id: u32,
        /// What it is.
        config: ObjectCase,
    },
    /// `ip nexthop del`.
    DeleteObject(u32),
    /// `ip link set`: up, carrier, and whether a missing carrier takes routes out of service.
    Link {
        /// Which.
        port: u8,
        /// Administratively up.
        up: bool,
        /// With a carrier.
        carrier: bool,
        /// `ignore_routes_with_linkdown` of IPv4 and IPv6.
        ignore: [bool; 2],
    },
    /// A next router answers, or does not.
    Neighbour {
        /// The interface.
        port: u8,
        /// The router.
        gateway: IpAddr,
        /// Whether it answers.
        reachable: bool,
    },
    /// `ip address add`.
    Address {
        /// The interface.
        port: u8,
        /// The address.
        addr: IpAddr,
        /// Its prefix length.
        len: u8,
    },
    /// `fib_multipath_hash_policy` and `fib_multipath_use_neigh`.
    Sysctl {
        /// The policy.
        policy: u8,
        /// Whether unreachable next routers are passed over.
        use_neigh: bool,
    },
    /// Many routes are added, or taken away again: so many prefixes drawn from this seed.
    Many {
        /// Whether they are added.
        add: bool,
        /// What they are drawn from.
        seed: u64,
        /// How many.
        count: u32,
    },
    /// Packets, drawn from a seed, that are forwarded as they are read from their bytes.
    Frames(LookupBatch),
    /// Time passes, in ms.
    Wait(u32),
    /// Any words.
    Words(String),
    /// Packets ask the way.
    Ask(LookupBatch),
}

/// The verbs of `ip route`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Verb {
    /// `add`.
    Add,
    /// `append`.
    Append,
    /// `prepend`.
    Prepend,
    /// `replace`.
    Replace,
    /// `change`.
    Change,
    /// `del`.
    Del,
}

/// A route.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RouteCase {
    /// First address of its prefix.
    pub addr: IpAddr,
    /// Length of its prefix.
    pub len: u8,
    /// Table; 254 is main.
    pub table: u32,
    /// Type of service.
    pub tos: u8,
    /// Priority.
    pub metric: Option<u32>,
    /// What it is, if it leads nowhere: blackhole and so on.
    pub refusal: Option<String>,
    /// Next hops.
    pub hops: Vec<Hop>,
    /// Written as one of several, with its weight, though it is the only one.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub nexthop: bool,
    /// `nhid`.
    pub object: Option<u32>,
    /// `mp_algo`.
    pub algorithm: Option<String>,
    /// Further words.
    pub more: String,
}

/// A next hop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hop {
    /// The interface.
    pub port: u8,
    /// The next router.
    pub gateway: Option<IpAddr>,
    /// Share.
    pub weight: u16,
}

/// A next-hop object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ObjectCase {
    /// One next hop.
    Single(Hop),
    /// `blackhole`.
    Blackhole,
    /// A group of objects with their weights; with a number of buckets it is a resilient one.
    Group {
        /// Number and weight of each member.
        members: Vec<(u32, u16)>,
        /// Buckets, idle timer and unbalanced timer in seconds.
        resilient: Option<(u16, u16, u16)>,
    },
}

/// A rule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RuleCase {
    /// IPv6.
    pub v6: bool,
    /// Its priority.
    pub priority: u32,
    /// Whom it is for, in words.
    pub selector: String,
    /// What it does, in words.
    pub action: String,
}

/// Packets to be routed: so many, drawn from this seed, near the existing routes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LookupBatch {
    /// What they are drawn from.
    pub seed: u64,
    /// How many.
    pub count: u32,
}

impl Step {
    /// Any step, with so many interfaces; routes have these prefixes more often than others.
    pub fn draw(ports: u8, prefixes: &[(IpAddr, u8)], draw: &mut Draw) -> Self {
        match draw.range(0..=31) {
            0..=11 => {
                let verb = *draw.weighted(&[
                    (5, Verb::Add),
                    (3, Verb::Append),
                    (2, Verb::Prepend),
                    (3, Verb::Replace),
                    (1, Verb::Change),
                    (3, Verb::Del),
                ]);
                Self::Route(verb, RouteCase::draw(ports, prefixes, draw))
            }
            12..=13 => Self::Rule { add: draw.percent(70), rule: RuleCase::draw(ports, draw) },
            14..=16 => Self::Object {
                replace: draw.percent(40),
                id: draw.range(1..=8) as u32,
                config: ObjectCase::draw(ports, draw),
            },
            17 => Self::DeleteObject(draw.range(1..=8) as u32),
            18..=19 => Self::Link {
                port: any_port(ports, draw),
                up: draw.percent(70),
                carrier: draw.percent(60),
                ignore: [draw.percent(40), draw.percent(40)],
            },
            20 => Self::Neighbour {
                port: any_port(ports, draw),
                gateway: any_gateway(draw.percent(30), draw),
                reachable: draw.percent(40),
            },
            21 => {
                let addr = any_address(draw.percent(30), draw);
                let len = any_len(addr, draw).max(8);
                Self::Address { port: any_port(ports, draw), addr, len }
            }
            22 => Self::Sysctl { policy: draw.range(0..=3) as u8, use_neigh: draw.percent(50) },
            23 => Self::Wait(draw.log_range(1..=300_000) as u32),
            24 => Self::Words(any_words(draw)),
            30 => Self::Frames(LookupBatch { seed: draw.bits(), count: draw.range(1..=20) as u32 }),
            _ => Self::Ask(LookupBatch { seed: draw.bits(), count: draw.range(1..=40) as u32 }),
        }
    }

    /// The same with less to it.
    pub fn simpler(&self) -> Vec<Self> {
        match self {
            Self::Route(verb, route) => {
                route.simpler().into_iter().map(|route| Self::Route(*verb, route)).collect()
            }
            Self::Many { add, seed, count } if *count > 1 => {
                vec![Self::Many { add: *add, seed: *seed, count: count / 2 }]
            }
            Self::Frames(asked) if asked.count > 1 => {
                let count = asked.count / 2;
                let later = asked.seed.wrapping_add(1) & 0xff;
                [LookupBatch { count, ..*asked }, LookupBatch { count, seed: later }]
                    .map(Self::Frames)
                    .into()
            }
            Self::Ask(asked) if asked.count > 1 => {
                let count = asked.count / 2;
                let later = asked.seed.wrapping_add(1) & 0xff;
                vec![
                    Self::Ask(LookupBatch { count, ..*asked }),
                    Self::Ask(LookupBatch { count, seed: later }),
                ]
            }
            _ => Vec::new(),
        }
    }
}

impl RouteCase {
    fn draw(ports: u8, prefixes: &[(IpAddr, u8)], draw: &mut Draw) -> Self {
        let met = draw.percent(75);
        let (addr, len) = if met { *draw.one_of(prefixes) } else { any_prefix(draw) };
        let v6 = addr.is_ipv6();
        let refusals = ["blackhole", "unreachable", "prohibit", "throw"];
        let refusal = draw.maybe(12, |draw| (*draw.one_of(&refusals)).to_owned());
        let object = draw.maybe(15, |draw| draw.range(1..=8) as u32);
        let count = *draw.weighted(&[(5, 1), (3, 2), (2, 3), (1, 8)]);
        let hop = |draw: &mut Draw| match Hop::draw(v6, ports, draw) {
            // IPv6 takes several next hops only if all have gateways.
            hop if v6 && count > 1 && hop.gateway.is_none() && draw.percent(90) => {
                Hop { gateway: Some(any_gateway(v6, draw)), ..hop }
            }
            hop => hop,
        };
        let hops = (0..count).map(|_| hop(draw)).collect();
        let algorithms = ["l3", "l4", "per-packet", "modulo", "credit"];
        Self {
            addr,
            len,
            table: *draw.weighted(&[(6, 254), (1, 255), (2, 100), (1, 253)]),
            tos: if v6 && draw.percent(95) {
                0
            } else {
                *draw.weighted(&[(6, 0), (1, 0x10), (1, 0x08)])
            },
            metric: draw.maybe(40, |draw| *draw.one_of(&[0, 1, 5, 1024, u32::MAX])),
            nexthop: draw.percent(20),
            hops: if refusal.is_some() || object.is_some() { Vec::new() } else { hops },
            object: if refusal.is_some() { None } else { object },
            refusal,
            algorithm: draw.maybe(8, |draw| (*draw.one_of(&algorithms)).to_owned()),
            more: if draw.percent(20) { any_more(draw) } else { String::new() },
        }
    }

    fn simpler(&self) -> Vec<Self> {
        let mut simpler = vec![
            Self { tos: 0, ..self.clone() },
            Self { metric: None, ..self.clone() },
            Self { algorithm: None, ..self.clone() },
            Self { more: String::new(), ..self.clone() },
            Self { table: 254, ..self.clone() },
            Self { nexthop: false, ..self.clone() },
        ];
        for gone in 0..self.hops.len() {
            let mut hops = self.hops.clone();
            hops.remove(gone);
            simpler.push(Self { hops, ..self.clone() });
        }
        simpler.retain(|other| other != self);
        simpler
    }

    /// What follows the verb.
    pub fn words(&self) -> String {
        let mut out = String::new();
        if let Some(refusal) = &self.refusal {
            let _ = write!(out, "{refusal} ");
        }
        let _ = write!(out, "{}/{} table {}", self.addr, self.len, self.table);
        if self.tos != 0 {
            let _ = write!(out, " tos {:#x}", self.tos);
        }
        if let Some(metric) = self.metric {
            let _ = write!(out, " metric {metric}");
        }
        if let Some(algorithm) = &self.algorithm {
            let _ = write!(out, " mp_algo {algorithm}");
        }
        if !self.more.is_empty() {
            let _ = write!(out, " {}", self.more);
        }
        if let Some(id) = self.object {
            let _ = write!(out, " nhid {id}");
        }
        match &self.hops[..] {
            [] => {}
            [only] if !self.nexthop => out += &only.words(),
            several => {
                for hop in several {
                    let _ = write!(out, " nexthop{} weight {}", hop.words(), hop.weight);
                }
            }
        }
        out
    }
}

impl Hop {
    fn draw(v6: bool, ports: u8, draw: &mut Draw) -> Self {
        Self {
            port: any_port(ports, draw),
            gateway: draw.maybe(70, |draw| any_gateway(v6, draw)),
            weight: *draw.weighted(&[(5, 1), (2, 2), (1, 3), (1, 255), (1, 256)]),
        }
    }

    /// `via`, `dev`, `onlink`.
    pub fn words(&self) -> String {
        let via = self.gateway.map_or(String::new(), |gateway| format!(" via {gateway}"));
        let onlink = if self.gateway.is_some() { " onlink" } else { "" };
        format!("{via} dev a{}{onlink}", self.port)
    }
}

impl ObjectCase {
    fn draw(ports: u8, draw: &mut Draw) -> Self {
        match draw.range(0..=9) {
            0..=4 => Self::Single(Hop { weight: 1, ..Hop::draw(draw.percent(30), ports, draw) }),
            5 => Self::Blackhole,
            _ => {
                let count = draw.range(1..=4);
                let member = |draw: &mut Draw| {
                    (draw.range(1..=8) as u32, *draw.one_of(&[1, 1, 2, 10, 256, 65_535]))
                };
                let members = (0..count).map(|_| member(draw)).collect();
                let resilient = draw.maybe(40, |draw| {
                    let buckets = *draw.one_of(&[1, 2, 8, 31, 128]);
                    (buckets, draw.range(0..=60) as u16, draw.range(0..=60) as u16)
                });
                Self::Group { members, resilient }
            }
        }
    }

    /// What follows the number.
    pub fn words(&self) -> String {
        match self {
            Self::Single(hop) => hop.words().trim_start().to_owned(),
            Self::Blackhole => "blackhole".to_owned(),
            Self::Group { members, resilient } => {
                let members: Vec<String> =
                    members.iter().map(|(id, weight)| format!("{id},{weight}")).collect();
                let mut out = format!("group {}", members.join("/"));
                if let Some((buckets, idle, unbalanced)) = resilient {
                    let _ = write!(
                        out,
                        " type resilient buckets {buckets} idle_timer {idle} \
                         unbalanced_timer {unbalanced}"
                    );
                }
                out
            }
        }
    }
}

impl RuleCase {
    fn draw(ports: u8, draw: &mut Draw) -> Self {
        let v6 = draw.percent(30);
        let mut selector = Vec::new();
        for _ in 0..draw.range(0..=2) {
            let addr = any_address(v6, draw);
            let len = any_len(addr, draw);
            let addr = masked(addr, len);
            selector.push(match draw.range(0..=8) {
                0 => "not".to_owned(),
                1..=2 => format!("from {addr}/{len}"),
                3 => format!("to {addr}/{len}"),
                4 => format!("fwmark {}/{}", draw.range(0..=3), draw.one_of(&["0xff", "1"])),
                5 => format!("iif {}", draw.one_of(&["lo", "a0"])),
                6 => format!("oif a{}", any_port(ports, draw)),
                7 => format!("ipproto {}", draw.one_of(&["tcp", "udp", "icmp"])),
                _ => format!("dport {}-{}", draw.range(1..=90), draw.range(90..=200)),
            });
        }
        let action = match draw.range(0..=9) {
            0..=5 => format!("lookup {}", draw.one_of(&[254, 100, 253, 77])),
            6 => format!("lookup 100 suppress_prefixlength {}", draw.range(0..=24)),
            7 => format!("goto {}", draw.range(0..=40_000)),
            _ => (*draw.one_of(&["nop", "blackhole", "unreachable", "prohibit"])).to_owned(),
        };
        let selector = selector.join(" ");
        let priority = *draw.one_of(&[0, 1, 10, 100, 32_765, 32_766, 32_767, 40_000]);
        Self { v6, priority, selector, action }
    }

    /// What follows the verb.
    pub fn words(&self) -> String {
        format!("priority {} {} {}", self.priority, self.selector, self.action)
    }
}
