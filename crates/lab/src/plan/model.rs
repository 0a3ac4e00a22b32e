//! A plan as the runner sees it: every name resolved, every quantity checked.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::num::NonZeroU32;
use std::sync::Arc;

use datapath::fib::hash::Policy;
use datapath::fib::{Algorithm as RouteAlgorithm, Features, Prefix};
use datapath::host::SharedBuffer;
use datapath::profile::{DctcpAck, LostRetransmit, Profile};
use datapath::qdisc::netem::{Chance, Loss};
use datapath::tcp::cc::{Algorithm, dctcp};
use datapath::units::{Duration, Rate};
use iproute::tc::GuestKind;
use sim::loss::GuestLoss;
use sim::rules::Rule;
use sim::schedule::Schedule;

use super::plots::PlotPlan;
use super::routes::ShortestPaths;
use super::workload::WorkloadPlan;
use crate::application::GuestApp;

/// One experiment at one point of its sweep and with one set of drawn values.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// Short name, used for files.
    pub name: String,
    /// Title of plots and tables.
    pub title: String,
    /// Seed of the first repetition; repetition k uses `seed + k`.
    pub seed: u64,
    /// How often each point is run.
    pub repetitions: u32,
    /// Latest end of a repetition in virtual time.
    pub duration: Duration,
    /// Measurements before this time are left out of means.
    pub warmup: Duration,
    /// Packets carry bytes, and what is read is held against what was written.
    pub bytes: bool,
    /// Hosts and routers.
    pub nodes: Vec<NodePlan>,
    /// Links, each with two directions.
    pub links: Vec<LinkPlan>,
    /// What the hosts do.
    pub flows: Vec<FlowPlan>,
    /// What they do by rule.
    pub workloads: Vec<WorkloadPlan>,
    /// What is recorded.
    pub measure: Measure,
    /// What is drawn; a choice of ours if empty.
    pub plots: Vec<PlotPlan>,
    /// The links that lead from each node to each other one.
    pub paths: ShortestPaths,
    /// What `[topology]` says of its routes.
    pub fabric: Option<Fabric>,
    /// Features of written routes by node and destination.
    pub route_features: BTreeMap<(usize, usize), Features>,
    /// Versions of a library user's own code, by name.
    pub versions: BTreeMap<String, String>,
}

/// How the switches of a `[topology]` find routes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fabric {
    /// By switch, where the addresses of its hosts lie.
    pub blocks: BTreeMap<usize, Prefix>,
    /// How much each of several ways gets.
    pub weights: Weights,
    /// How long after a link fails or comes back all switches have new routes. Without it only its
    /// own ends know.
    pub converge: Option<Duration>,
}

/// How much each of several ways gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weights {
    /// All the same.
    Equal,
    /// By the rate of the first link.
    Rate,
}

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

/// What a flow does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum App {
    /// Sends as much as it can.
    Bulk,
    /// Sends this many bytes, then closes.
    Fixed {
        /// Bytes.
        bytes: u64,
    },
    /// Writes a chunk, waits, writes the next.
    Chunk {
        /// Bytes per write.
        chunk: u64,
        /// Pause after each write.
        gap: Duration,
        /// Bytes in all; until the flow stops if `None`.
        bytes: Option<u64>,
    },
    /// Asks, waits for the answer, pauses, asks again.
    Request {
        /// Bytes of a request.
        request: u64,
        /// Bytes of its answer.
        response: u64,
        /// Pause between answer and next request.
        think: Duration,
        /// How many requests; until the flow stops if `None`.
        count: Option<u64>,
    },
    /// Asks several servers at once, waits for the last answer, asks again.
    Query {
        /// All servers; `to` is the first.
        servers: Vec<usize>,
        /// Bytes of a request to one server.
        request: u64,
        /// Bytes of all answers together, in equal parts.
        response: u64,
        /// Pause between the last answer and the next query.
        think: Duration,
        /// How many queries; until the flow stops if `None`.
        count: Option<u64>,
    },
    /// Opens a connection, closes it, opens the next.
    Connect {
        /// Time from one attempt to the next.
        interval: Duration,
        /// How many attempts; until the flow stops if `None`.
        count: Option<u64>,
    },
    /// Sends for a while, rests for a while.
    OnOff {
        /// Time of sending.
        on: Duration,
        /// Time of rest.
        off: Duration,
    },
    /// UDP at a constant rate.
    Cbr {
        /// Rate of the payload.
        rate: Rate,
        /// Payload of a datagram.
        size: u64,
    },
    /// ICMP echo requests.
    Ping {
        /// Time between requests.
        interval: Duration,
        /// Payload.
        size: u64,
    },
    /// A real program, in a run that is live.
    Program {
        /// It and its arguments; `{to}`, `{from}` and `{port}` stand for addresses and a port.
        program: Vec<String>,
        /// What runs at the other end meanwhile; nothing if it is empty.
        server: Vec<String>,
    },
    /// A UDP round-trip probe: one datagram, echoed.
    Probe {
        /// Time between datagrams.
        interval: Duration,
        /// Payload.
        size: u64,
    },
    /// What a library user has named.
    Guest(GuestApp),
}

/// A flow, or `count` equal ones.
#[derive(Clone, Debug, PartialEq)]
pub struct FlowPlan {
    /// Name, unique in the plan.
    pub name: String,
    /// The scope under which it is summed up with others; none if it stands alone.
    pub group: Option<String>,
    /// What it does.
    pub app: App,
    /// The sending or asking host.
    pub from: usize,
    /// The receiving or answering host.
    pub to: usize,
    /// Further hosts that receive or answer: an anycast service.
    pub anycast_hosts: Vec<usize>,
    /// The address that is sent to, if it is not the first of `to`.
    pub address: Option<IpAddr>,
    /// When it starts.
    pub start: Duration,
    /// The start is drawn from `start .. start + spread`.
    pub spread: Duration,
    /// When it stops, if before the end.
    pub stop: Option<Duration>,
    /// Congestion control, if not the sysctl's.
    pub congestion_control: Option<Algorithm>,
    /// IP TOS byte of what the sending or asking side sends (DSCP in the upper six bits).
    pub tos: u8,
    /// That of what comes back: an accepted socket does not take over its peer's.
    pub reply_tos: u8,
}

/// A test of flent, whose files have series by its names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlentTest {
    /// Four flows each way in four classes.
    Rrul,
    /// Four flows each way, best effort.
    RrulBe,
    /// Uploads.
    TcpNup,
}

/// What is recorded.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Measure {
    /// Time between samples.
    pub sample: Duration,
    /// Ports whose queue is sampled: (link, end).
    pub queues: Vec<(usize, usize)>,
    /// Ports the use of whose link is a metric: (link, end).
    pub utilisation: Vec<(usize, usize)>,
    /// Ports whose packets go into a pcapng: (link, end).
    pub pcap: Vec<(usize, usize)>,
    /// Bytes of each packet kept in a pcapng.
    pub snaplen: u32,
    /// The first part of each flow, whose goodput is a metric of its own.
    pub early: Option<Duration>,
    /// Throughput in steps of this length as metrics of their own.
    pub steps: Option<Duration>,
    /// The test whose name and series flent knows, if the results are written for it.
    pub flent: Option<FlentTest>,
    /// The metrics that a sweep's table shows, as `SCOPE METRIC`; a choice of ours if empty.
    pub table: Vec<String>,
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

impl App {
    /// What it is called in a file.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Bulk => "bulk",
            Self::Fixed { .. } => "fixed",
            Self::Chunk { .. } => "chunk",
            Self::Request { .. } => "request",
            Self::Query { .. } => "query",
            Self::Connect { .. } => "connect",
            Self::OnOff { .. } => "on-off",
            Self::Cbr { .. } => "cbr",
            Self::Ping { .. } => "ping",
            Self::Probe { .. } => "probe",
            Self::Program { .. } => "program",
            Self::Guest(guest) => guest.name(),
        }
    }

    /// True if it is one TCP stream, and not an exchange of messages.
    pub fn is_stream(&self) -> bool {
        let exchanges =
            matches!(self, Self::Request { .. } | Self::Query { .. } | Self::Connect { .. });
        self.is_tcp() && !exchanges
    }

    /// True if it runs over TCP.
    pub fn is_tcp(&self) -> bool {
        match self {
            Self::Guest(guest) => guest.value().is_tcp(),
            Self::Cbr { .. } | Self::Ping { .. } | Self::Probe { .. } | Self::Program { .. } => {
                false
            }
            _ => true,
        }
    }
}

impl Plan {
    /// `node.link`, as a plan names a port.
    pub fn port_name(&self, link: usize, end: usize) -> String {
        let link = &self.links[link];
        format!("{}.{}", self.nodes[link.ends[end]].name, link.name)
    }
}
