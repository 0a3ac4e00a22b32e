//! What a script says, as a tree whose parts know their places.

use crate::fault::Pos;
use core::net::{Ipv4Addr, Ipv6Addr};

/// A time in microseconds, of the script's own clock.
pub type Micros = i64;

/// A whole script.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Script {
    /// The `--flag` lines.
    pub flags: Vec<Flag>,
    /// The command before the first event.
    pub init: Option<Command>,
    /// What happens.
    pub events: Vec<Event>,
    /// The command after the last event.
    pub cleanup: Option<Command>,
}

/// `--name` or `--name=value`.
#[derive(Clone, Debug, PartialEq)]
pub struct Flag {
    /// Where it stands.
    pub pos: Pos,
    /// Its name without the dashes.
    pub name: String,
    /// What follows the equals sign.
    pub value: Option<String>,
}

/// Shell words in back-ticks.
#[derive(Clone, Debug, PartialEq)]
pub struct Command {
    /// Where the back-tick stands.
    pub pos: Pos,
    /// What stands between the back-ticks.
    pub text: String,
}

/// A code block.
#[derive(Clone, Debug, PartialEq)]
pub struct Code {
    /// Where the block begins.
    pub pos: Pos,
    /// What stands between `%{` and `}%`, checked by the parser of [`crate::code`].
    pub block: crate::code::Block,
}

/// Something that happens at a time.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// Where its time stands.
    pub pos: Pos,
    /// When.
    pub at: Time,
    /// What.
    pub action: Action,
}

/// When an event happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Time {
    /// Since the start of the script.
    Absolute(Micros),
    /// Since the event before.
    Relative(Micros),
    /// `*`: whenever it comes.
    Any,
    /// Between two times since the start.
    AbsoluteRange(Micros, Micros),
    /// Between two times since the event before.
    RelativeRange(Micros, Micros),
}

/// What happens.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// A packet comes in or goes out.
    Packet(Box<PacketSpec>),
    /// The application calls the system.
    Call(Box<CallSpec>),
    /// A shell command.
    Command(Command),
    /// A code block.
    Code(Code),
}

/// Which way a packet goes, seen from the host under test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// `<`: the script sends it to the host.
    Inbound,
    /// `>`: the host is to send it.
    Outbound,
}

/// A packet of the script.
#[derive(Clone, Debug, PartialEq)]
pub struct PacketSpec {
    /// Where `<` or `>` stands.
    pub pos: Pos,
    /// Which way it goes.
    pub direction: Direction,
    /// Headers around it, outermost first.
    pub outer: Vec<Outer>,
    /// What is said of its IP header.
    pub ip: IpInfo,
    /// The rest.
    pub transport: TransportSpec,
}

/// What is said of an IP header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct IpInfo {
    /// DSCP and ECN.
    pub tos: TosSpec,
    /// IPv6 flow label; 0 = not said.
    pub flow_label: u32,
    /// Time to live or hop limit; 0 = not said.
    pub ttl: u8,
}

/// What is said of the DSCP and ECN byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum TosSpec {
    /// Nothing: zero inbound, anything outbound.
    #[default]
    Any,
    /// The two ECN bits.
    Ecn(u8),
    /// `[ect01]`: either ECT codepoint.
    Ect01,
    /// The whole byte.
    Tos(u8),
}

/// A header around the packet proper.
#[derive(Clone, Debug, PartialEq)]
pub enum Outer {
    /// IPv4 encapsulation.
    Ipv4(IpInfo, Ipv4Addr, Ipv4Addr),
    /// IPv6 encapsulation.
    Ipv6(IpInfo, Ipv6Addr, Ipv6Addr),
    /// GRE.
    Gre(GreSpec),
    /// MPLS labels, outermost first.
    Mpls(Vec<MplsLabel>),
}

/// A GRE header (RFC 2784, RFC 2890).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct GreSpec {
    /// Flag bits: 0x8000 checksum, 0x2000 key, 0x1000 sequence.
    pub flags: u16,
    /// Checksum field.
    pub sum: u16,
    /// Offset field.
    pub offset: u16,
    /// Key.
    pub key: u32,
    /// Sequence number.
    pub sequence: u32,
}

/// One MPLS label stack entry (RFC 3032).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MplsLabel {
    /// Label, 20 bits.
    pub label: u32,
    /// Traffic class, 3 bits.
    pub class: u8,
    /// Bottom of stack.
    pub bottom: bool,
    /// Time to live.
    pub ttl: u8,
}

/// The transport header and what it carries.
#[derive(Clone, Debug, PartialEq)]
pub enum TransportSpec {
    /// TCP.
    Tcp(TcpSpec),
    /// UDP with so many bytes of payload.
    Udp(Ports, u32),
    /// ICMP or ICMPv6.
    Icmp(IcmpSpec),
}

/// Ports given by the script; 0 = as the connection has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Ports {
    /// Source.
    pub src: u16,
    /// Destination.
    pub dst: u16,
}

/// A TCP segment.
#[derive(Clone, Debug, PartialEq)]
pub struct TcpSpec {
    /// Ports, if said.
    pub ports: Ports,
    /// Flags, the AE bit included.
    pub flags: u16,
    /// The three bits of the ACE counter were given as a digit: they are named as one field.
    pub ace: bool,
    /// First sequence number, relative.
    pub seq: u32,
    /// Bytes of payload.
    pub len: u32,
    /// Acknowledgment number, relative.
    pub ack: u32,
    /// Window field as on the wire; `None` = not said.
    pub window: Option<u16>,
    /// Urgent pointer.
    pub urgent: u16,
    /// Options; `None` for `<...>`.
    pub options: Option<Vec<OptionSpec>>,
}

/// A TCP option.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OptionSpec {
    /// `nop`.
    Nop,
    /// `eol`.
    Eol,
    /// `mss 1460`.
    Mss(u16),
    /// `wscale 7`.
    WindowScale(u8),
    /// `sackOK`.
    SackOk,
    /// `sack 1:2 …`.
    Sack(Vec<(u32, u32)>),
    /// `md5 …`: the digest, or as much of it as the script gives.
    Md5(Vec<u8>),
    /// `TS val 1 ecr 2`.
    Timestamps(u32, u32),
    /// `FO cookie`, `FOEXP cookie`.
    FastOpen {
        /// The cookie; empty = a request.
        cookie: Vec<u8>,
        /// As experimental option 254.
        experimental: bool,
    },
    /// `ECN e0b 1 ceb 2 e1b 3` or `ECN e1b 1 …`: the counters in the order of the wire.
    AccEcn {
        /// ECT(0) comes first (kind 172), else ECT(1) (kind 174).
        e0_first: bool,
        /// One to three counters.
        counters: Vec<u32>,
    },
    /// What a host sent and scripts have no word for: kind and data.
    Other(u8, Vec<u8>),
}

/// An ICMP message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IcmpSpec {
    /// Type.
    pub kind: u8,
    /// Code.
    pub code: u8,
    /// `mtu 1400`.
    pub mtu: Option<u32>,
    /// `id 7`.
    pub echo_id: u16,
    /// The packet that is quoted.
    pub quoted: Quoted,
}

/// What an ICMP error quotes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quoted {
    /// `[1:1001(1000)]`: a TCP segment that begins there.
    Tcp {
        /// First sequence number, relative.
        seq: u32,
        /// Bytes of payload.
        len: u32,
    },
    /// `[udp (1000)]`.
    Udp(u32),
    /// `[raw (1000)]`: so many bytes follow the header.
    Raw(u32),
}

/// A system call.
#[derive(Clone, Debug, PartialEq)]
pub struct CallSpec {
    /// Where its name stands.
    pub pos: Pos,
    /// When it is to return, if it blocks.
    pub end: Option<Micros>,
    /// Its name.
    pub name: String,
    /// Its arguments.
    pub args: Vec<Expr>,
    /// What it is to return.
    pub result: Expr,
    /// The errno it is to give.
    pub errno: Option<(Pos, String)>,
}

/// An argument or a result.
#[derive(Clone, Debug, PartialEq)]
pub struct Expr {
    /// Where it begins.
    pub pos: Pos,
    /// What it is.
    pub kind: ExprKind,
}

/// What an argument is.
#[derive(Clone, Debug, PartialEq)]
pub enum ExprKind {
    /// `...`.
    Ellipsis,
    /// A number.
    Int(i64),
    /// A name.
    Word(String),
    /// A text.
    Str(Vec<u8>),
    /// `a | b | …`: two or more.
    Or(Vec<Expr>),
    /// `NAME = value`.
    Assign(String, Box<Expr>),
    /// `[a, b]`.
    List(Vec<Expr>),
    /// `{a, b}`.
    Braces(Vec<Expr>),
    /// `inet_addr("…")`.
    InAddr(Ipv4Addr),
    /// `inet6_addr("…")`.
    In6Addr(Ipv6Addr),
    /// `{sa_family = AF_INET, sin_port = htons(80), sin_addr = inet_addr("…")}`.
    SockAddr(core::net::SocketAddr),
    /// `{msg_name(...)=..., msg_iov(n)=[…], msg_flags=f, msg_control=[…]}`.
    MsgHdr(Box<MsgHdr>),
    /// `{..., n}`.
    Iovec(i64),
    /// `{fd=…, events=…, revents=…}`.
    PollFd(Box<PollFd>),
    /// `{onoff=…, linger=…}`.
    Linger(i32, i32),
    /// `{cmsg_level=…, cmsg_type=…, cmsg_data=…}`.
    Cmsg(Box<Cmsg>),
    /// `{scm_sec=…, scm_nsec=…}`.
    ScmTimestamping(i64, i64),
    /// `{ee_errno=…, …}`.
    ExtendedError(Box<ExtendedError>),
    /// `{events=…, fd=…}` and so on.
    EpollEvent(Box<EpollEvent>),
    /// `{(label 1, tc 2, [S], ttl 3)}`.
    Mpls(Vec<MplsLabel>),
    /// `{flags […], sum …}`.
    Gre(GreSpec),
}

/// `struct msghdr`.
#[derive(Clone, Debug, PartialEq)]
pub struct MsgHdr {
    /// How many pieces the script says there are.
    pub iov_len: i64,
    /// The pieces.
    pub iov: Vec<Expr>,
    /// `msg_flags`.
    pub flags: Expr,
    /// Control messages.
    pub control: Vec<Expr>,
}

/// `struct pollfd`.
#[derive(Clone, Debug, PartialEq)]
pub struct PollFd {
    /// The descriptor.
    pub fd: Expr,
    /// What is asked for.
    pub events: Expr,
    /// What is to come; 0 if not said.
    pub revents: Option<Expr>,
}

/// A control message.
#[derive(Clone, Debug, PartialEq)]
pub struct Cmsg {
    /// Level.
    pub level: Expr,
    /// Type.
    pub kind: Expr,
    /// Data.
    pub data: Expr,
}

/// `struct sock_extended_err`.
#[derive(Clone, Debug, PartialEq)]
pub struct ExtendedError {
    /// `ee_errno`, `ee_origin`, `ee_type`, `ee_code`, `ee_info`, `ee_data`.
    pub fields: [Expr; 6],
}

/// `struct epoll_event`.
#[derive(Clone, Debug, PartialEq)]
pub struct EpollEvent {
    /// What is asked for, or is to come.
    pub events: Expr,
    /// Which member of `epoll_data_t` is named.
    pub member: EpollMember,
    /// Its value.
    pub data: Expr,
}

/// A member of `epoll_data_t`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EpollMember {
    /// `fd`.
    Fd,
    /// `ptr`.
    Ptr,
    /// `u32`.
    U32,
    /// `u64`.
    U64,
}

impl Direction {
    /// The sign in scripts.
    pub const fn sign(self) -> char {
        match self {
            Self::Inbound => '<',
            Self::Outbound => '>',
        }
    }
}
