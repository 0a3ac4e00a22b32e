//! Nodes and links of a plan.

use std::net::IpAddr;
use std::num::NonZeroU32;
use std::sync::Arc;

use datapath::fib::Algorithm as RouteAlgorithm;
use datapath::fib::hash::Policy;
use datapath::host::SharedBuffer;
use datapath::profile::{DctcpAck, LostRetransmit, Profile};
use datapath::qdisc::netem::{Chance, Loss};
use datapath::tcp::cc::{Algorithm, dctcp};
use datapath::units::{Duration, Rate};
use iproute::tc::GuestKind;
use sim::loss::GuestLoss;
use sim::rules::Rule;
use sim::schedule::Schedule;

use super::names::matches;

/// What a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Has sockets, does not forward.
    Host,
    /// Forwards, decrements TTL.
    Router,
}

/// Whose TCP/IP a host runs on when an experiment is run live.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Stack {
    /// Ours.
    #[default]
    Ours,
    /// That of this machine's kernel.
    Kernel,
}

/// Segmentation offloads of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Offload {
    /// None: MTU-sized packets all the way.
    #[default]
    Off,
    /// The stack builds super-packets and cuts them at the device.
    Gso,
    /// Super-packets cross the link whole, as between two veth.
    Tso,
    /// The device takes super-packets whole and cuts them on the wire, as a network card does.
    Nic,
}

/// A host or a router.
#[derive(Clone, Debug, PartialEq)]
pub struct NodePlan {
    /// Name, unique in the plan.
    pub name: String,
    /// Host or router.
    pub role: Role,
    /// Whose stack it runs on when it is run live; a simulation has ours.
    pub stack: Stack,
    /// Kernel.
    pub profile: Profile,
    /// Detector of lost retransmissions, if not the profile's own.
    pub lost_retransmit: Option<LostRetransmit>,
    /// 2.6.22's fast path for SACK blocks.
    pub sack_fast_path: bool,
    /// 2.6.22's forward retransmissions.
    pub forward_retransmits: bool,
    /// Threshold that connections begin with, segments; else none.
    pub initial_ssthresh: Option<NonZeroU32>,
    /// When DCTCP's receiver acknowledges, if not as the profile does.
    pub dctcp_ack: Option<DctcpAck>,
    /// Parameters of the DCTCP module.
    pub dctcp: dctcp::Params,
    /// DCTCP's SYNs are ECT.
    pub dctcp_syn_ect: bool,
    /// Settings by sysctl name, in the order of the file.
    pub sysctls: Vec<SysctlSetting>,
    /// `net.ipv4.tcp_congestion_control`.
    pub congestion_control: Option<Algorithm>,
    /// Segmentation offloads.
    pub offload: Offload,
    /// Arriving segments are merged.
    pub gro: bool,
    /// How long an interrupt waits for more packets, in µs.
    pub rx_usecs: u32,
    /// The `ip` commands of the node that apply before it starts, `sysctl` lines first.
    pub ip: Vec<String>,
    /// Its commands that apply while it runs, in order of time.
    pub at: Vec<(Duration, String)>,
    /// Which of several links of `[routes]` takes a packet.
    pub mp_algo: RouteAlgorithm,
    /// Packet memory that all its ports share.
    pub buffer: Option<SharedBuffer>,
    /// What a switch of a `[topology]` hashes. It also passes by links without a carrier
    /// (`ignore_routes_with_linkdown`).
    pub hash_policy: Option<Policy>,
}

/// One sysctl as it would be written to its file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SysctlSetting {
    /// The name without `net.ipv4.`.
    pub name: String,
    /// The text.
    pub value: String,
}

/// The ports that `node.link` means, with a `*` in either part or none: link, and which of its ends.
pub(super) fn ports_called(
    name: &str,
    links: &[LinkPlan],
    nodes: &[NodePlan],
) -> Vec<(usize, usize)> {
    let (node, link) = name.split_once('.').unwrap_or((name, ""));
    let named = (0..links.len()).filter(|place| matches(link, &links[*place].name));
    let ends = named.flat_map(|place| [(place, 0), (place, 1)]);
    ends.filter(|&(place, end)| matches(node, &nodes[links[place].ends[end]].name)).collect()
}

/// A link between two nodes.
#[derive(Clone, Debug, PartialEq)]
pub struct LinkPlan {
    /// Name, unique in the plan.
    pub name: String,
    /// Indices of the nodes at its two ends.
    pub ends: [usize; 2],
    /// MTU in bytes, without the Ethernet header.
    pub mtu: u32,
    /// What a shortest path pays for it, in millionths; `COST` where nothing is said.
    pub cost: u64,
    /// Both ends are in one kernel, as with veth.
    pub veth: bool,
    /// Given addresses with prefix length of the two ends; automatic if `None`.
    pub addresses: Option<[(IpAddr, u8); 2]>,
    /// From end 0 to end 1 and back.
    pub directions: [Direction; 2],
    /// The ports at end 0 and end 1.
    pub ports: [PortPlan; 2],
    /// When the wire is cut (false) and mended (true), in order of time.
    pub events: Vec<(Duration, bool)>,
}

/// What a path pays for a link where nothing is said: one.
pub const COST: u64 = 1_000_000;

/// One direction of a link.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Direction {
    /// Rate of serialisation; `None` takes no time.
    pub rate: Option<Rate>,
    /// Propagation delay.
    pub delay: Duration,
    /// How both change; then these are those of the beginning, or the mean rate of a trace.
    pub schedule: Option<Arc<Schedule>>,
    /// Every packet comes later by a uniform part of this; the order stays.
    pub jitter: Duration,
    /// How much that of the packet before goes into it.
    pub jitter_correlation: Chance,
    /// Share of packets lost, in millionths.
    pub loss: u64,
    /// How packets get lost in bursts.
    pub loss_model: Loss,
    /// What is lost by a model of a library user.
    pub loss_guest: Option<GuestLoss>,
    /// Share of packets duplicated, in millionths.
    pub duplicate: u64,
    /// Share of packets that come later by `reorder_by` and are overtaken, in millionths.
    pub reorder: u64,
    /// How much later those come.
    pub reorder_by: Duration,
    /// Share of packets damaged, in millionths.
    pub corrupt: u64,
    /// Deterministic rules, asked before chance: `f data 100 drop`.
    pub rules: Vec<Rule>,
}

impl Direction {
    /// The shortest propagation delay that there will ever be.
    pub(crate) fn least_delay(&self) -> Duration {
        self.schedule.as_ref().and_then(|changes| changes.least_delay()).unwrap_or(self.delay)
    }

    /// The highest rate that there will ever be, but for a trace, of which it is the mean.
    pub(crate) fn highest_rate(&self) -> Option<Rate> {
        self.schedule.as_ref().and_then(|changes| changes.highest_rate()).or(self.rate)
    }
}

/// What sits at one end of a link.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct PortPlan {
    /// Egress qdiscs in `tc` grammar, outermost first, and their filters; none means the default
    /// queue.
    pub qdiscs: Vec<String>,
    /// Kinds of a library user that these words may name.
    pub guests: Vec<GuestKind>,
    /// Ingress policer in `tc police` words.
    pub police: Option<String>,
}

impl Default for NodePlan {
    /// A host with the newest kernel and no settings.
    fn default() -> Self {
        Self {
            name: String::new(),
            role: Role::Host,
            stack: Stack::Ours,
            profile: Profile::default(),
            lost_retransmit: None,
            sack_fast_path: false,
            forward_retransmits: false,
            initial_ssthresh: None,
            dctcp_ack: None,
            dctcp: dctcp::Params::default(),
            dctcp_syn_ect: true,
            sysctls: Vec::new(),
            congestion_control: None,
            offload: Offload::Off,
            gro: false,
            rx_usecs: 0,
            ip: Vec::new(),
            at: Vec::new(),
            mp_algo: RouteAlgorithm::System,
            buffer: None,
            hash_policy: None,
        }
    }
}

impl NodePlan {
    /// Whether it has any `ip` commands, before it starts or later.
    pub fn has_lines(&self) -> bool {
        !self.ip.is_empty() || !self.at.is_empty()
    }

    /// True if the words of `ip` tell the node's routes: then it finds none by itself.
    pub fn has_own_routes(&self) -> bool {
        let routes = |line: &String| {
            let words =
                line.split_whitespace().filter(|word| *word != "ip" && !word.starts_with('-'));
            words.take(1).any(|word| matches!(word, "route" | "ro" | "r"))
        };
        self.ip.iter().any(routes)
    }
}
