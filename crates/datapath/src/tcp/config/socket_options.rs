//! Socket options that few sockets set, and what some of them may be.

use crate::tcp::fastopen::Keys;
use crate::tcp::md5;
use core::num::{NonZeroU8, NonZeroU32};

/// Socket options that few sockets set; the default is that of a new socket.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct SocketOptions {
    /// What its timestamps are ahead by, ms: a kernel draws it with `tcp_timestamps=1` (`secure_tcp_ts_off`), here it is
    /// 0 unless set.
    pub timestamp_offset: u32,
    /// `TCP_SYNCNT`: SYN retransmissions; else by `tcp_syn_retries`.
    pub syn_retries: Option<NonZeroU8>,
    /// `TCP_KEEPIDLE` in s; else by `tcp_keepalive_time`.
    pub keepalive_time_s: Option<NonZeroU32>,
    /// `TCP_KEEPINTVL` in s; else by `tcp_keepalive_intvl`.
    pub keepalive_intvl_s: Option<NonZeroU32>,
    /// `TCP_KEEPCNT`; else by `tcp_keepalive_probes`.
    pub keepalive_probes: Option<NonZeroU8>,
    /// `TCP_LINGER2`: how long an orphan stays in FIN-WAIT-2.
    pub linger2: Linger2,
    /// `TCP_DEFER_ACCEPT` as SYN-ACK retransmissions; 0 = off.
    pub defer_accept: u8,
    /// `TCP_WINDOW_CLAMP` in bytes.
    pub window_clamp: Option<NonZeroU32>,
    /// `TCP_NOTSENT_LOWAT` in bytes; else by `tcp_notsent_lowat`.
    pub notsent_lowat: Option<NonZeroU32>,
    /// `IP_TTL` of what goes over IPv4; else 64.
    pub ttl: Option<NonZeroU8>,
    /// `IPV6_UNICAST_HOPS` of what goes over IPv6, which may be 0; else 64.
    pub hop_limit: Option<u8>,
    /// `TCP_RTO_MAX_MS`; else by `tcp_rto_max_ms`.
    pub rto_max_ms: Option<NonZeroU32>,
    /// `TCP_RTO_MIN_US`; else by `tcp_rto_min_us`. A route's comes before both.
    pub rto_min_us: Option<NonZeroU32>,
    /// `TCP_DELACK_MAX_US`; else 200 ms. Where it ends below the lowest retransmission timeout, less.
    pub delack_max_us: Option<NonZeroU32>,
    /// `SO_BUF_LOCK`: whose sizes are not tuned ([`lock`]); else those that were given.
    pub buf_lock: Option<u8>,
    /// `SO_TXREHASH`; else `net.core.txrehash`.
    pub txrehash: Option<bool>,
    /// `TCP_FASTOPEN_NO_COOKIE`.
    pub fastopen_no_cookie: bool,
    /// `TCP_FASTOPEN_KEY`: one key, or a new and an old one.
    pub fastopen_key: Option<Keys>,
    /// `TCP_SAVE_SYN`: 1 from the network header on, 2 from the link header on.
    pub save_syn: u8,
    /// `TCP_MD5SIG`: keys by peer.
    pub md5: Vec<md5::Key>,
    /// `SO_DONTROUTE`: over IPv4 nobody is answered who is behind a gateway.
    pub dont_route: bool,
    /// `SO_OOBINLINE`.
    pub oob_inline: bool,
    /// `SO_TIMESTAMPING`: `SOF_TIMESTAMPING_*`.
    pub timestamping: u32,
    /// `IP_MTU_DISCOVER`.
    pub pmtu_discovery: PmtuDiscovery,
    /// `SO_RCVLOWAT` in bytes; 0 and 1 are the same.
    pub rcvlowat: u32,
    /// `IP_RECVERR`: ICMP errors are told at once.
    pub recverr: bool,
    /// `TCP_THIN_LINEAR_TIMEOUTS`.
    pub thin_linear: bool,
    /// `TCP_CORK`.
    pub cork: bool,
    /// `TCP_QUICKACK` of 0, set before there was a connection: it begins with ACKs that wait for data.
    pub delays_acks: bool,
    /// `shutdown` of reading came before there was a connection, which begins with it (`sk_shutdown`).
    pub shut_read: bool,
    /// `shutdown` of writing came before there was a connection. A listener's connections send FIN after the handshake.
    pub shut_write: bool,
    /// `TCP_TX_DELAY` in µs: every packet is held back that long.
    pub tx_delay_us: u32,
    /// The connections of a listener over IPv6 have the flow label of their peer (`repflow`): `flowlabel_reflect` said so
    /// when the socket was made.
    pub reflects_flow_label: bool,
    /// What an `AF_INET6` socket keeps for what goes over IPv6; without it that goes by the options of IPv4.
    pub ipv6: Option<Ipv6Options>,
}

/// `SOCK_BUF_LOCK_MASK`: buffers whose size nothing changes but their option (`SO_BUF_LOCK`).
pub mod lock {
    /// `SOCK_SNDBUF_LOCK`: `SO_SNDBUF` sets it.
    pub const SEND: u8 = 1;
    /// `SOCK_RCVBUF_LOCK`: `SO_RCVBUF` sets it.
    pub const RECEIVE: u8 = 2;

    /// The locks that a value of `SO_BUF_LOCK` names; `None` if it names others.
    pub(crate) fn named(value: i64) -> Option<u8> {
        u8::try_from(value).ok().filter(|value| value & !(SEND | RECEIVE) == 0)
    }
}

/// Options of an `AF_INET6` socket that what goes over IPv6 goes by (`struct ipv6_pinfo`). What goes to IPv4-mapped
/// addresses goes by those of IPv4, which such a socket has as well.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Ipv6Options {
    /// `IPV6_TCLASS`.
    pub traffic_class: u8,
    /// `IPV6_MTU_DISCOVER`.
    pub pmtu_discovery: PmtuDiscovery,
    /// `IPV6_RECVERR`.
    pub recverr: bool,
    /// `IPV6_AUTOFLOWLABEL`: packets carry a flow label; else by `auto_flowlabels`, which may leave no choice.
    pub auto_flow_label: Option<bool>,
    /// The flow label of all that it sends, as the peer had it (`np->flow_label`); 0: its own.
    pub flow_label: u32,
}

/// How long an orphan waits for the peer's FIN (`tcp_fin_time`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Linger2 {
    /// As `tcp_fin_timeout` says.
    #[default]
    Sysctl,
    /// So many s.
    Seconds(NonZeroU32),
    /// Not at all.
    Never,
}

impl Linger2 {
    /// By the value of the socket option: 0 is the sysctl's, below 0 is never.
    pub fn from_option(value: i32) -> Self {
        match NonZeroU32::new(value.unsigned_abs()) {
            None => Self::Sysctl,
            Some(_) if value < 0 => Self::Never,
            Some(seconds) => Self::Seconds(seconds),
        }
    }
}

/// What `IP_MTU_DISCOVER` asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum PmtuDiscovery {
    /// `IP_PMTUDISC_DONT`: packets may be fragmented.
    Dont,
    /// `IP_PMTUDISC_WANT`: DF unless the route's MTU is locked.
    #[default]
    Want,
    /// `IP_PMTUDISC_DO`: DF always.
    Do,
    /// `IP_PMTUDISC_PROBE`: DF, and what the path says is not believed.
    Probe,
    /// `IP_PMTUDISC_INTERFACE`: no DF, and what the path says is not believed.
    Interface,
    /// `IP_PMTUDISC_OMIT`: as `Interface`, and larger packets are fragmented.
    Omit,
}

impl PmtuDiscovery {
    /// By the numbers of `IP_MTU_DISCOVER`.
    pub const ALL: [Self; 6] =
        [Self::Dont, Self::Want, Self::Do, Self::Probe, Self::Interface, Self::Omit];

    /// Packets that fit carry DF (`ip_dont_fragment`).
    pub const fn sets_df(self) -> bool {
        matches!(self, Self::Want | Self::Do | Self::Probe)
    }

    /// Datagrams go by what ICMP has told of the path (`ip_sk_use_pmtu`).
    pub(crate) const fn uses_path_mtu(self) -> bool {
        matches!(self, Self::Dont | Self::Want | Self::Do)
    }
}
