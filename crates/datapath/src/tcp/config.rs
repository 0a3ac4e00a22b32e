//! What a connection is configured with: the `net.ipv4.tcp_*` sysctls, the socket options that
//! must be known at creation, and the kernel profile.

use super::cc::{Algorithm, bbr, cdg, dctcp, nv};
use super::copy_on_write::CopyOnWrite;
use super::fastopen::Keys;
use super::sysctl::{BYTE, INT, INT_MAX, LONG, POSITIVE, SECONDS, SWITCH, UNSIGNED};
use crate::packet::tos_to_priority;
use crate::profile::Profile;
use core::cell::RefCell;
use core::num::{NonZeroU8, NonZeroU16, NonZeroU32};
use core::ops::RangeInclusive;
use std::sync::{Arc, LazyLock, Weak};

/// Everything that shapes a connection and does not change while it lives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TcpConfig {
    /// Which kernel to be.
    pub profile: Profile,
    /// The sysctls.
    pub sysctl: CopyOnWrite<Sysctl>,
    /// Congestion control (`TCP_CONGESTION`).
    pub congestion_control: Algorithm,
    /// Threshold that slow start ends at, segments, until the first loss sets another one: what a kernel
    /// remembers of the connections before (`TCP_METRIC_SSTHRESH`; of 2.6.22 in the route), or CUBIC's and
    /// BIC's module parameter of that name.
    pub initial_ssthresh: Option<NonZeroU32>,
    /// Parameters of the DCTCP module.
    pub dctcp: dctcp::Params,
    /// Parameters of the BBR module.
    pub bbr: bbr::Params,
    /// Parameters of the CDG module.
    pub cdg: cdg::Params,
    /// Parameters of the NV module.
    pub nv: nv::Params,
    /// DCTCP's SYNs are ECT, as RFC 8257 section 3.6 wants them. Off, they are what they were
    /// before DCTCP's first version measured what that costs.
    pub dctcp_syn_ect: bool,
    /// `SO_SNDBUF` as given by the application, before the kernel doubles it; else autotuned.
    pub send_buffer: Option<NonZeroU32>,
    /// `SO_RCVBUF` as given by the application, before the kernel doubles it; else autotuned.
    pub receive_buffer: Option<NonZeroU32>,
    /// `TCP_NODELAY`.
    pub nodelay: bool,
    /// `SO_MAX_PACING_RATE` in byte/s; `u64::MAX` = no limit. Setting it turns internal pacing on.
    pub max_pacing_rate: u64,
    /// `SO_KEEPALIVE`.
    pub keepalive: bool,
    /// `TCP_USER_TIMEOUT` in ms; else by `tcp_retries2`.
    pub user_timeout_ms: Option<NonZeroU32>,
    /// `TCP_MAXSEG`; else by the MTU.
    pub max_segment: Option<NonZeroU16>,
    /// DSCP for all packets, in the upper six bits (`IP_TOS`).
    pub tos: u8,
    /// `SO_PRIORITY`.
    pub priority: u32,
    /// `SO_MARK`.
    pub mark: u32,
    /// The segmentation work is handed to the device (`NETIF_F_TSO`): limits `gso_max_size`.
    /// The stack builds super-packets either way, as Linux does since 4.17.
    pub gso_max_segs: u16,
    /// `jiffies` at the driver's time zero: the timer wheel is aligned on absolute jiffies.
    pub jiffies_at_zero: u64,
    /// Options that few sockets set.
    pub socket: CopyOnWrite<SocketOptions>,
}

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
    /// `SO_TXREHASH`; else `net.core.txrehash`.
    pub txrehash: Option<bool>,
    /// `TCP_FASTOPEN_NO_COOKIE`.
    pub fastopen_no_cookie: bool,
    /// `TCP_FASTOPEN_KEY`: one key, or a new and an old one.
    pub fastopen_key: Option<Keys>,
    /// `TCP_SAVE_SYN`: 1 from the network header on, 2 from the link header on.
    pub save_syn: u8,
    /// `TCP_MD5SIG`: keys by peer.
    pub md5: Vec<super::md5::Key>,
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
    /// What an `AF_INET6` socket keeps for what goes over IPv6; without it that goes by the options of IPv4.
    pub ipv6: Option<Ipv6Options>,
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

macro_rules! sysctls {
    ($($(#[$doc:meta])* $name:ident = $default:expr, $range:expr;)*) => {
        /// The `net.ipv4` sysctls that TCP reads, under their own names. Values as in the files
        /// under `/proc/sys/net/ipv4`; those below zero as the same 32 bits.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct Sysctl {
            $($(#[$doc])* pub $name: u32,)*
            /// Receive buffer: minimum, default, maximum, in bytes.
            pub tcp_rmem: [u32; 3],
            /// Send buffer: minimum, default, maximum, in bytes.
            pub tcp_wmem: [u32; 3],
            /// Keys of Fast Open cookies.
            pub tcp_fastopen_key: Keys,
        }

        impl Default for Sysctl {
            fn default() -> Self {
                Self {
                    $($name: $default,)*
                    tcp_rmem: [4_096, 131_072, 6_291_456],
                    tcp_wmem: [4_096, 16_384, 4_194_304],
                    tcp_fastopen_key: Keys::default(),
                }
            }
        }

        impl Sysctl {
            /// Every scalar sysctl's name, for error messages.
            pub const NAMES: &'static [&'static str] = &[$(stringify!($name)),*];

            /// The place of the scalar sysctl called `name` (without `net.ipv4.`).
            pub fn scalar_mut(&mut self, name: &str) -> Option<&mut u32> {
                match name {
                    $(stringify!($name) => Some(&mut self.$name),)*
                    _ => None,
                }
            }

            /// What Linux takes as the value of the scalar sysctl called `name`.
            pub fn range(name: &str) -> Option<RangeInclusive<i64>> {
                match name {
                    $(stringify!($name) => Some($range),)*
                    _ => None,
                }
            }
        }
    };
}

sysctls! {
    /// ACK of out-of-order data: how long compression may hold it, in ns.
    tcp_comp_sack_delay_ns = 1_000_000, LONG;
    /// How many such ACKs may be held back.
    tcp_comp_sack_nr = 44, BYTE;
    /// They are held back for this share of the RTT at most, in percent (6.18 and later; 5 before).
    tcp_comp_sack_rtt_percent = 33, 1..=1_000;
    /// Slack of that timer, in ns.
    tcp_comp_sack_slack_ns = 100_000, LONG;
    /// Duplicate SACK (RFC 2883).
    tcp_dsack = 1, BYTE;
    /// Tail loss probe: 0 off, 3 and 4 on.
    tcp_early_retrans = 3, 0..=4;
    /// ECN, incoming and outgoing: 0 off, off; 1 RFC 3168, RFC 3168; 2 RFC 3168, off; 3 AccECN,
    /// AccECN; 4 AccECN, RFC 3168; 5 AccECN, off.
    tcp_ecn = 2, 0..=5;
    /// Retransmitted SYNs go without ECN; an AccECN handshake that shows mangling ends ECT.
    tcp_ecn_fallback = 1, SWITCH;
    /// AccECN option: 0 never, 1 where demanded, 2 wherever it fits, 3 even if it seems to get ACKs
    /// lost.
    tcp_ecn_option = 2, 0..=3;
    /// With `tcp_ecn_option` 1: how often it is sent in a round trip at least.
    tcp_ecn_option_beacon = 3, 0..=3;
    /// FIN-WAIT-2 timeout, in s.
    tcp_fin_timeout = 60, SECONDS;
    /// F-RTO: 0 off, 2 on.
    tcp_frto = 2, BYTE;
    /// Out-of-window ACKs are answered at most this often, in ms.
    tcp_invalid_ratelimit = 500, POSITIVE;
    /// Keepalive: distance of probes, in s.
    tcp_keepalive_intvl = 75, SECONDS;
    /// Keepalive: probes before giving up.
    tcp_keepalive_probes = 9, BYTE;
    /// Keepalive: idle time before the first probe, in s.
    tcp_keepalive_time = 7_200, SECONDS;
    /// TCP Small Queues: bytes below the socket.
    tcp_limit_output_bytes = 1_048_576, INT;
    /// Highest reordering degree that adaptation reaches, in segments.
    tcp_max_reordering = 300, 1..=INT_MAX;
    /// Window of the minimum-RTT filter, in s.
    tcp_min_rtt_wlen = 300, 0..=86_400;
    /// Fewest segments of a super-packet.
    tcp_min_tso_segs = 2, 1..=255;
    /// Receive buffer autotuning.
    tcp_moderate_rcvbuf = 1, BYTE;
    /// Unsent bytes above which a socket is not writable.
    tcp_notsent_lowat = u32::MAX, UNSIGNED;
    /// Pacing rate in congestion avoidance, percent of cwnd/srtt.
    tcp_pacing_ca_ratio = 120, 0..=1_000;
    /// Pacing rate in slow start, percent of cwnd/srtt.
    tcp_pacing_ss_ratio = 200, 0..=1_000;
    /// Bits: 1 RACK, 2 static reordering window, 4 no duplicate-ACK threshold.
    tcp_recovery = 1, BYTE;
    /// Initial reordering degree, in segments.
    tcp_reordering = 3, 1..=INT_MAX;
    /// Neighbouring retransmissions are merged.
    tcp_retrans_collapse = 1, BYTE;
    /// Retransmissions before the route is doubted.
    tcp_retries1 = 3, BYTE;
    /// Retransmissions before the connection is given up.
    tcp_retries2 = 15, BYTE;
    /// Highest retransmission timeout, in ms.
    tcp_rto_max_ms = 120_000, 1_000..=120_000;
    /// Lowest variance term of the retransmission timeout, in µs.
    tcp_rto_min_us = 200_000, 1..=INT_MAX;
    /// Selective acknowledgments (RFC 2018).
    tcp_sack = 1, BYTE;
    /// Below this RTT the receive buffer grows by less, in µs.
    tcp_rcvbuf_low_rtt = 1_000, POSITIVE;
    /// The window may shrink.
    tcp_shrink_window = 0, SWITCH;
    /// Slow start after idle (RFC 5681 section 4.1).
    tcp_slow_start_after_idle = 1, BYTE;
    /// SYN retransmissions.
    tcp_syn_retries = 6, 1..=127;
    /// SYN-ACK retransmissions.
    tcp_synack_retries = 5, BYTE;
    /// Timestamps (RFC 7323).
    tcp_timestamps = 1, BYTE;
    /// Super-packets grow when the RTT is short: shift of min_rtt.
    tcp_tso_rtt_log = 9, BYTE;
    /// Fraction of the window that one super-packet may wait for.
    tcp_tso_win_divisor = 3, BYTE;
    /// Window scaling (RFC 7323).
    tcp_window_scaling = 1, BYTE;
    /// Small writes wait for more while packets are in the device.
    tcp_autocorking = 1, SWITCH;
    /// Share of the receive space that is not offered, by shift (until Linux 6.5).
    tcp_adv_win_scale = 1, -31..=31;
    /// Application buffer share of the receive window, by shift.
    tcp_app_win = 31, 0..=31;
    /// TIME-WAIT sockets are reused for new outgoing connections (0, 1, 2 = loopback only).
    tcp_tw_reuse = 2, 0..=2;
    /// RFC 1337: RSTs do not end TIME-WAIT.
    tcp_rfc1337 = 0, BYTE;
    /// An overflowing accept queue resets instead of ignoring the ACK.
    tcp_abort_on_overflow = 0, BYTE;
    /// First segment size that path MTU probing begins with, in bytes.
    tcp_base_mss = 1_024, INT;
    /// Challenge ACKs per second and host (RFC 5961).
    tcp_challenge_ack_limit = i32::MAX as u32, INT;
    /// Fast Open, bits: 1 client, 2 server, 4 client needs no cookie, 0x200 server wants no
    /// cookie, 0x400 every listener.
    tcp_fastopen = 1, INT;
    /// Active Fast Open rests that long after a black hole was seen, in s; 0 = never.
    tcp_fastopen_blackhole_timeout_sec = 0, POSITIVE;
    /// Half-open connections above which SYNs are dropped when cookies are off.
    tcp_max_syn_backlog = 2_048, INT;
    /// Lowest segment size that a path may impose, in bytes.
    tcp_min_snd_mss = 48, 48..=65_535;
    /// Lowest segment size that probing falls back to, in bytes.
    tcp_mtu_probe_floor = 48, 48..=65_535;
    /// Path MTU probing (RFC 4821): 0 off, 1 when a black hole is seen, 2 always.
    tcp_mtu_probing = 0, BYTE;
    /// Distance of probes for a larger path MTU, in s.
    tcp_probe_interval = 600, 0..=0xffff_ffff / 1_000;
    /// Probing stops when the range is smaller than this, in bytes.
    tcp_probe_threshold = 8, INT;
    /// Timeouts before a closed socket is given up; 0 = 8.
    tcp_orphan_retries = 0, BYTE;
    /// The TOS of a SYN is the TOS of the answer and of the connection.
    tcp_reflect_tos = 0, SWITCH;
    /// Reads in the backlog of a busy socket acknowledge once.
    tcp_backlog_ack_defer = 1, SWITCH;
    /// Lowest path MTU that an ICMP message may ask for, in bytes (`ip_rt_min_pmtu`).
    min_pmtu = 552, 68..=INT_MAX;
    /// How long a path MTU is believed, in s (`ip_rt_mtu_expires`).
    mtu_expires = 600, SECONDS;
    /// The urgent pointer points at the last byte (RFC 1122) instead of just behind it.
    tcp_stdurg = 0, BYTE;
    /// SYN cookies: 0 off, 1 when the backlog is full, 2 always.
    tcp_syncookies = 1, BYTE;
    /// Thin streams back off linearly.
    tcp_thin_linear_timeouts = 0, BYTE;
    /// What is learnt about a peer is forgotten at the end of a connection.
    tcp_no_metrics_save = 0, BYTE;
    /// Path MTU is discovered (`ip_no_pmtu_disc` reversed): 0 yes, 1 no.
    ip_no_pmtu_disc = 0, BYTE;
    /// A connection may bind an address that is not the host's.
    ip_nonlocal_bind = 0, BYTE;
    /// SYN retransmissions at constant distance before backing off.
    tcp_syn_linear_timeouts = 4, 0..=127;
    /// Protective load balancing: DCTCP leaves a path that marks round after round.
    tcp_plb_enabled = 0, SWITCH;
    /// Congested round trips after which a flow that falls idle leaves; 0 = it does not.
    tcp_plb_idle_rehash_rounds = 3, 0..=31;
    /// Congested round trips after which any flow leaves.
    tcp_plb_rehash_rounds = 12, 0..=31;
    /// After a timeout no path is left for this long to twice as long, in s.
    tcp_plb_suspend_rto_sec = 60, BYTE;
    /// Share of marked packets from which on a round trip is congested, in 1/256.
    tcp_plb_cong_thresh = 128, 0..=256;
    /// `net.core.txrehash`: a socket whose path seems to have failed draws another hash.
    txrehash = 1, SWITCH;
    /// `net.ipv6.auto_flowlabels`: sockets label their packets by their hash; 0 and 2 do not unless asked, 1 and 3 do.
    auto_flowlabels = 1, 0..=3;
    /// `net.ipv6.flowlabel_state_ranges`: such labels have their highest bit set.
    flowlabel_state_ranges = 0, BYTE;
}

/// Why a sysctl could not be set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SysctlError {
    /// No such sysctl.
    Unknown,
    /// Not a number, or the wrong count of numbers.
    Value(String),
}

/// `SOCK_MIN_SNDBUF`: room for two small segments.
pub(crate) const MIN_SNDBUF: u32 = 4_608;
/// `SOCK_MIN_RCVBUF`: room for one.
pub(crate) const MIN_RCVBUF: u32 = 2_304;

/// `SO_SNDBUF` and `SO_RCVBUF` are doubled.
fn doubled(given: Option<NonZeroU32>, least: u32) -> Option<u32> {
    given.map(|given| given.get().saturating_mul(2).max(least))
}

impl TcpConfig {
    /// `IP_TOS`: the DSCP, and the priority that goes with it (`__ip_sock_set_tos`).
    pub fn set_tos(&mut self, tos: u8) {
        (self.tos, self.priority) = (tos, tos_to_priority(tos));
    }

    /// The traffic class of what goes over IPv6 (`IPV6_TCLASS`).
    pub(crate) fn traffic_class(&self) -> u8 {
        self.socket.ipv6.map_or(self.tos, |own| own.traffic_class)
    }

    /// What to do about the path MTU, by the family that is spoken.
    pub(crate) fn pmtu_discovery(&self, ipv6: bool) -> PmtuDiscovery {
        let own = self.socket.ipv6.filter(|_| ipv6);
        own.map_or(self.socket.pmtu_discovery, |own| own.pmtu_discovery)
    }

    /// ICMP errors are told at once, by the family that is spoken.
    pub(crate) fn recverr(&self, ipv6: bool) -> bool {
        self.socket.ipv6.filter(|_| ipv6).map_or(self.socket.recverr, |own| own.recverr)
    }

    /// What `IPV6_AUTOFLOWLABEL` reads as: what was set, else what the sysctl says (`ip6_autoflowlabel`).
    pub(crate) fn auto_flow_label(&self) -> bool {
        let own = self.socket.ipv6.and_then(|own| own.auto_flow_label);
        own.unwrap_or(self.sysctl.auto_flowlabels & 1 != 0)
    }

    /// Changes what an `AF_INET6` socket keeps for IPv6.
    pub(crate) fn change_ipv6(&mut self, change: impl FnOnce(&mut Ipv6Options)) {
        change(self.socket.ipv6.get_or_insert_default());
    }

    /// Another hash is drawn where a path seems to fail (`sk_txrehash`).
    pub(crate) fn rehashes(&self) -> bool {
        self.socket.txrehash.unwrap_or(self.sysctl.txrehash != 0)
    }

    /// Segments that one packet may have. A signature is of one segment (`sk_gso_disable` in
    /// `tcp_md5_do_add`).
    pub(crate) fn gso_segs_limit(&self) -> u32 {
        if self.socket.md5.is_empty() { self.gso_max_segs.into() } else { 1 }
    }

    /// Reads the sysctls anew. What a socket has copied of them when it was made stays (`tcp_init_sock`).
    pub(crate) fn read_sysctl(&mut self, sysctl: &CopyOnWrite<Sysctl>) {
        let before = core::mem::replace(&mut self.sysctl, sysctl.clone());
        if before.tcp_rto_min_us != sysctl.tcp_rto_min_us && self.socket.rto_min_us.is_none() {
            self.socket.rto_min_us = NonZeroU32::new(before.tcp_rto_min_us);
        }
        if before.tcp_rto_max_ms != sysctl.tcp_rto_max_ms && self.socket.rto_max_ms.is_none() {
            self.socket.rto_max_ms = NonZeroU32::new(before.tcp_rto_max_ms);
        }
    }

    /// The size that a send buffer begins with (`sk_sndbuf`), bytes.
    pub(crate) fn sndbuf(&self) -> u32 {
        doubled(self.send_buffer, MIN_SNDBUF).unwrap_or(self.sysctl.tcp_wmem[1])
    }

    /// The same of a receive buffer (`sk_rcvbuf`). If nobody has given one, what `SO_RCVLOWAT` says has to find room in
    /// it (`tcp_set_rcvlowat`).
    pub(crate) fn rcvbuf(&self) -> u32 {
        let usual = || self.sysctl.tcp_rmem[1].max(self.socket.rcvlowat.saturating_mul(2));
        doubled(self.receive_buffer, MIN_RCVBUF).unwrap_or_else(usual)
    }

    /// A configuration for `profile` with that kernel's defaults.
    pub fn for_profile(profile: Profile) -> Self {
        let mut sysctl = Sysctl::default();
        if !profile.frto {
            sysctl.tcp_frto = 0;
        }
        if profile.compresses_longer {
            sysctl.tcp_comp_sack_slack_ns = 10_000;
        }
        sysctl.tcp_syn_linear_timeouts = profile.syn_linear_timeouts;
        Self {
            profile,
            sysctl: CopyOnWrite::new(sysctl),
            congestion_control: Algorithm::Cubic,
            initial_ssthresh: None,
            dctcp: dctcp::Params::default(),
            bbr: bbr::Params::default(),
            cdg: cdg::Params::default(),
            nv: nv::Params::default(),
            dctcp_syn_ect: true,
            send_buffer: None,
            receive_buffer: None,
            nodelay: false,
            max_pacing_rate: u64::MAX,
            keepalive: false,
            user_timeout_ms: None,
            max_segment: None,
            tos: 0,
            priority: 0,
            mark: 0,
            gso_max_segs: u16::MAX,
            jiffies_at_zero: INITIAL_JIFFIES,
            socket: CopyOnWrite::new(SocketOptions::default()),
        }
    }
}

thread_local! {
    /// What was shared last.
    static SHARED_LAST: RefCell<Weak<TcpConfig>> = const { RefCell::new(Weak::new()) };
}

impl TcpConfig {
    /// The same, to be kept: those who ask for equal ones in a row share it, until one of them writes to it
    /// ([`Arc::make_mut`]). There may be very many sockets, and few ways in which they are configured.
    ///
    /// ```
    /// use datapath::tcp::config::TcpConfig;
    /// use std::sync::Arc;
    ///
    /// let prompt = || TcpConfig { nodelay: true, ..TcpConfig::default() }.shared();
    /// let (one, other) = (prompt(), prompt());
    /// assert!(Arc::ptr_eq(&one, &other));
    /// assert!(!TcpConfig::default().shared().nodelay && one.nodelay);
    /// ```
    pub fn shared(self) -> Arc<Self> {
        SHARED_LAST.with_borrow_mut(|last| match last.upgrade() {
            Some(there) if *there == self => there,
            _ => {
                let new = Arc::new(self);
                *last = Arc::downgrade(&new);
                new
            }
        })
    }
}

impl Default for TcpConfig {
    /// That of the default profile. There may be very many of these, which share what they do not
    /// change.
    fn default() -> Self {
        static DEFAULT: LazyLock<TcpConfig> =
            LazyLock::new(|| TcpConfig::for_profile(Profile::default()));
        DEFAULT.clone()
    }
}

/// `INITIAL_JIFFIES` at HZ = 1000: five minutes before the 32-bit wrap.
pub(super) const INITIAL_JIFFIES: u64 = 4_294_667_296;
