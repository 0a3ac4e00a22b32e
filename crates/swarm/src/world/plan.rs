//! What a world is made of, as plain data.

use serde::{Deserialize, Serialize};

/// One world, what happens in it, and how it is looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// The seed of the world's own random streams.
    pub seed: u64,
    /// When everything is repaired, µs. Applications are told to finish at that time.
    pub heal_us: u64,
    /// How the second, unobserved run is made.
    pub second: UnobservedRun,
    /// How late applications hear on nodes that are slow, µs.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub late_us: u64,
    /// When the first run stops to be looked at, µs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stops_us: Vec<u64>,
    /// Hosts and routers.
    pub nodes: Vec<Node>,
    /// What joins them.
    pub wires: Vec<Wire>,
    /// Who talks to whom.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub flows: Vec<Flow>,
    /// What changes while the world runs, in order of time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<Change>,
}

/// How the unobserved run is processed. The observed one differs from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum UnobservedRun {
    /// One event after the other.
    OneByOne,
    /// In epochs, with as many groups as the engine thinks useful.
    WhenUseful,
    /// In epochs, with as many groups as there can be.
    Finest,
}

/// A host or a router.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Node {
    /// It forwards.
    #[serde(default, skip_serializing_if = "is_default")]
    pub router: bool,
    /// Which kernel it is.
    pub profile: String,
    /// Segmentation offloads of its devices.
    #[serde(default, skip_serializing_if = "is_default")]
    pub offload: Offload,
    /// Arriving segments are merged.
    #[serde(default, skip_serializing_if = "is_default")]
    pub gro: bool,
    /// How long an interrupt waits for more packets, µs.
    #[serde(default, skip_serializing_if = "is_default")]
    pub rx_usecs: u32,
    /// Its applications run late.
    #[serde(default, skip_serializing_if = "is_default")]
    pub slow: bool,
    /// Packet memory that its ports share: bytes, and alpha's numerator and denominator.
    #[serde(default, skip_serializing_if = "is_default")]
    pub buffer: Option<[u32; 3]>,
    /// `fib_multipath_hash_policy` of both families.
    #[serde(default, skip_serializing_if = "is_default")]
    pub policy: u8,
    /// How its multipath routes choose, by its place in [`super::build::ALGORITHMS`].
    #[serde(default, skip_serializing_if = "is_default")]
    pub algorithm: u8,
    /// Sysctls from the beginning on, `NAME=VALUE`.
    #[serde(default, skip_serializing_if = "is_default")]
    pub sysctls: Vec<String>,
}

/// Who cuts super-packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Offload {
    /// The stack, by copying.
    #[default]
    Off,
    /// The stack, right above the device.
    Gso,
    /// Nobody: they cross whole, as between two veth.
    Tso,
    /// The device.
    Nic,
}

/// What joins two nodes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Wire {
    /// The nodes at its ends.
    pub ends: [usize; 2],
    /// Largest network-layer packet at both ends, bytes.
    pub mtu: u32,
    /// Both ends are in one kernel.
    #[serde(default, skip_serializing_if = "is_default")]
    pub veth: bool,
    /// From the first end to the second.
    pub there: Direction,
    /// And back.
    pub back: Direction,
}

/// One direction of a wire, and the port that sends on it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Direction {
    /// Serialisation rate; 0 takes no time.
    #[serde(default, skip_serializing_if = "is_default")]
    pub kbit: u64,
    /// Propagation delay, µs.
    pub delay_us: u64,
    /// Rate and delay in place of those, from certain times on: µs, kbit/s, µs; the first at 0.
    #[serde(default, skip_serializing_if = "is_default")]
    pub steps: Vec<[u64; 3]>,
    /// After so long the steps begin again, µs; 0: never.
    #[serde(default, skip_serializing_if = "is_default")]
    pub period_us: u64,
    /// Packets that the device holds besides its queue.
    pub ring: u32,
    /// What goes wrong.
    #[serde(default, skip_serializing_if = "is_default")]
    pub impairments: Impairments,
    /// `tc` commands for the port, in order.
    #[serde(default, skip_serializing_if = "is_default")]
    pub tc: Vec<String>,
    /// The policer of what arrives at the far end.
    #[serde(default, skip_serializing_if = "is_default")]
    pub police: Option<String>,
    /// The qdisc that the port gets when everything is healed; empty: it keeps what it has.
    #[serde(default, skip_serializing_if = "is_default")]
    pub healed: String,
}

/// What goes wrong on a link, in parts of a thousand and µs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Impairments {
    /// Packets that are lost.
    #[serde(default, skip_serializing_if = "is_default")]
    pub loss: u64,
    /// That arrive damaged.
    #[serde(default, skip_serializing_if = "is_default")]
    pub corruption: u64,
    /// That come twice.
    #[serde(default, skip_serializing_if = "is_default")]
    pub duplication: u64,
    /// That come later and are overtaken.
    #[serde(default, skip_serializing_if = "is_default")]
    pub reordering: u64,
    /// By how much.
    #[serde(default, skip_serializing_if = "is_default")]
    pub reorder_us: u64,
    /// All come later by a part of this.
    #[serde(default, skip_serializing_if = "is_default")]
    pub jitter_us: u64,
    /// And may overtake each other.
    #[serde(default, skip_serializing_if = "is_default")]
    pub jitter_reorders: bool,
    /// Rules in the words of [`sim::rules`].
    #[serde(default, skip_serializing_if = "is_default")]
    pub rules: Vec<String>,
}

impl Impairments {
    /// Whether it lets packets come twice.
    pub fn copies(&self) -> bool {
        self.duplication > 0 || self.rules.iter().any(|rule| rule.contains("dup"))
    }
}

/// Who talks to whom, and how.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Flow {
    /// The host that begins.
    pub from: usize,
    /// The host that answers.
    pub to: usize,
    /// Over IPv6.
    #[serde(default, skip_serializing_if = "is_default")]
    pub ipv6: bool,
    /// When it begins, µs.
    pub start_us: u64,
    /// When the first application is told to stop, µs; 0: when everything is repaired.
    #[serde(default, skip_serializing_if = "is_default")]
    pub stop_us: u64,
    /// What runs at both ends.
    pub app: App,
    /// Socket options of the host that begins.
    #[serde(default, skip_serializing_if = "is_default")]
    pub client: Options,
    /// Of the host that answers.
    #[serde(default, skip_serializing_if = "is_default")]
    pub server: Options,
}

impl Flow {
    /// Whether one of its applications runs on a node.
    pub fn involves(&self, node: usize) -> bool {
        let asked = matches!(&self.app, App::Query { more, .. } if more.contains(&node));
        self.from == node || self.to == node || asked
    }
}

/// What runs at both ends of a flow.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub enum App {
    /// [`crate::world::talk`]: two ends that do what they like.
    Talk {
        /// The end that connects.
        client: EndBehaviour,
        /// The end that accepts.
        server: EndBehaviour,
        /// How often it connects, one after the other.
        count: u32,
        /// The first data goes with the SYN.
        fast_open: bool,
        /// Room of the listener for connections that wait for accept.
        backlog: u32,
        /// When the server begins to listen, µs.
        listen_us: u64,
    },
    /// `TcpSend` to a `TcpSink`.
    Send {
        /// Bytes in all.
        bytes: u64,
        /// Bytes of a chunk.
        chunk: u64,
        /// Between the beginnings of chunks, µs.
        gap_us: u64,
        /// Writes and sleeps in turns, µs; zeroes: it never sleeps.
        on_off_us: [u64; 2],
        /// The sink reads nothing for a while: after so many bytes, for so many µs.
        pause: [u64; 2],
    },
    /// `RequestClient` and `ResponseServer`.
    Request {
        /// Bytes of a request.
        request: u64,
        /// Bytes of an answer.
        response: u64,
        /// Between an answer and the next request, µs.
        think_us: u64,
        /// How many.
        count: u64,
    },
    /// `QueryClient` with one server or more.
    Query {
        /// Bytes of a request.
        request: u64,
        /// Bytes of an answer.
        response: u64,
        /// Between an answer and the next query, µs.
        think_us: u64,
        /// How many.
        count: u64,
        /// Hosts that are asked as well.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        more: Vec<usize>,
    },
    /// `Connect` to a `TcpSink`.
    Connect {
        /// Between attempts, µs.
        every_us: u64,
        /// How many.
        count: u64,
    },
    /// `Cbr` to a `UdpSink`.
    Cbr {
        /// Payload of a datagram, bytes.
        size: u32,
        /// Between datagrams, µs.
        every_us: u64,
    },
    /// `Ping` by ICMP.
    Ping {
        /// Payload of a request, bytes.
        size: u32,
        /// Between requests, µs.
        every_us: u64,
    },
    /// `Ping` by UDP to a `UdpEcho`.
    Probe {
        /// Payload of a datagram, bytes.
        size: u32,
        /// Between datagrams, µs.
        every_us: u64,
    },
}

/// What one end of a connection does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EndBehaviour {
    /// Bytes that it writes.
    pub write: u64,
    /// Bytes of one write.
    pub chunk: u64,
    /// Between writes, µs; 0: as fast as the connection takes them.
    pub gap_us: u64,
    /// How it reads.
    pub reading: ReadMode,
    /// How it ends.
    pub ending: CloseMode,
}

/// How an application reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ReadMode {
    /// Everything at once.
    Eager,
    /// So many bytes, each so many µs.
    Slow(u64, u64),
    /// Nothing until everything is healed.
    Never,
    /// Nothing beyond so many bytes until everything is healed.
    UpTo(u64),
}

/// How an application ends a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum CloseMode {
    /// `shutdown(SHUT_WR)` after the last byte, `close` at the end of what the peer sends.
    Shutdown,
    /// `close` after the last byte, whatever the peer still sends.
    Close,
    /// `close` when the peer has closed and all is written; until then it waits.
    Wait,
    /// A reset after so many µs.
    Abort(u64),
    /// `close` after so many µs, written or not, read or not.
    CloseAfter(u64),
    /// Nothing until everything is healed.
    Never,
}

/// Socket options that differ from those of a new socket.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Options {
    /// `TCP_CONGESTION`.
    #[serde(default, skip_serializing_if = "is_default")]
    pub congestion: Option<String>,
    /// `TCP_NODELAY`.
    #[serde(default, skip_serializing_if = "is_default")]
    pub nodelay: bool,
    /// `SO_SNDBUF`.
    #[serde(default, skip_serializing_if = "is_default")]
    pub sndbuf: u32,
    /// `SO_RCVBUF`.
    #[serde(default, skip_serializing_if = "is_default")]
    pub rcvbuf: u32,
    /// `SO_MAX_PACING_RATE`, byte/s.
    #[serde(default, skip_serializing_if = "is_default")]
    pub pacing: u64,
    /// `SO_KEEPALIVE` with `TCP_KEEPIDLE`, s.
    #[serde(default, skip_serializing_if = "is_default")]
    pub keepalive_s: u32,
    /// `TCP_USER_TIMEOUT`, ms.
    #[serde(default, skip_serializing_if = "is_default")]
    pub user_timeout_ms: u32,
    /// `TCP_MAXSEG`.
    #[serde(default, skip_serializing_if = "is_default")]
    pub maxseg: u16,
    /// `IP_TOS`.
    #[serde(default, skip_serializing_if = "is_default")]
    pub tos: u8,
    /// `TCP_SYNCNT`.
    #[serde(default, skip_serializing_if = "is_default")]
    pub syncnt: u8,
    /// `TCP_DEFER_ACCEPT`, SYN-ACK retransmissions.
    #[serde(default, skip_serializing_if = "is_default")]
    pub defer_accept: u8,
    /// `TCP_WINDOW_CLAMP`.
    #[serde(default, skip_serializing_if = "is_default")]
    pub window_clamp: u32,
    /// `TCP_NOTSENT_LOWAT`.
    #[serde(default, skip_serializing_if = "is_default")]
    pub notsent_lowat: u32,
    /// `SO_RCVLOWAT`.
    #[serde(default, skip_serializing_if = "is_default")]
    pub rcvlowat: u32,
    /// `TCP_LINGER2`, s.
    #[serde(default, skip_serializing_if = "is_default")]
    pub linger2_s: i32,
    /// The secret of `TCP_MD5SIG` for the peer.
    #[serde(default, skip_serializing_if = "is_default")]
    pub md5: Option<String>,
    /// `IP_MTU_DISCOVER` by number, plus one; 0: that of a new socket.
    #[serde(default, skip_serializing_if = "is_default")]
    pub pmtu: u8,
    /// `TCP_FASTOPEN`: unfinished ones.
    #[serde(default, skip_serializing_if = "is_default")]
    pub fastopen: u32,
}

/// Something that happens while the world runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Change {
    /// When, µs.
    pub at_us: u64,
    /// What.
    pub what: ChangeKind,
}

/// A change of the world. A wire's end is 0 or 1: the direction that begins there, or its port.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub enum ChangeKind {
    /// One direction, or both, goes down or comes up.
    Link {
        /// The wire.
        wire: usize,
        /// The end; 2: both.
        end: usize,
        /// Up, or down.
        up: bool,
    },
    /// Another rate, kbit/s; 0 takes no time. A link that changes by steps keeps to them.
    Rate {
        /// The wire.
        wire: usize,
        /// The end.
        end: usize,
        /// The rate.
        kbit: u64,
    },
    /// Another MTU.
    Mtu {
        /// The wire.
        wire: usize,
        /// The end; 2: both.
        end: usize,
        /// The MTU.
        mtu: u32,
    },
    /// A `tc qdisc` or `tc filter` command. One that is refused changes nothing.
    Tc {
        /// The wire.
        wire: usize,
        /// The end.
        end: usize,
        /// The words.
        words: String,
    },
    /// A sysctl is written. A value that is refused changes nothing.
    Sysctl {
        /// The node.
        node: usize,
        /// `NAME=VALUE`.
        words: String,
    },
    /// A rule rejects packets to a host or sends them the wrong way, or is removed.
    Rule {
        /// The node that has the rule.
        node: usize,
        /// The host that they are for.
        to: usize,
        /// `blackhole`, `unreachable`, `prohibit`, or `lookup` of a table: routers have one for
        /// each port, 100 and its number, that leads everything there.
        kind: String,
        /// Begins, or ends.
        begins: bool,
    },
    /// What was learnt about peers is forgotten.
    FlushMetrics {
        /// The node.
        node: usize,
    },
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
fn is_zero(value: &u64) -> bool {
    *value == 0
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
