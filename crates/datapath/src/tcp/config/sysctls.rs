//! The `net.ipv4.tcp_*` sysctls and their kin: names, defaults, and what Linux takes as their values. How they are read and
//! written as text: [`crate::tcp::sysctl`].

use super::ranges::{BYTE, INT, INT_MAX, LONG, POSITIVE, SECONDS, SWITCH, UNSIGNED};
use crate::tcp::fastopen::Keys;
use core::ops::RangeInclusive;

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

        /// Bits of `flowlabel_reflect`.
pub(crate) mod reflects {
    /// `FLOWLABEL_REFLECT_ESTABLISHED`.
    pub const CONNECTIONS: u32 = 1;
    /// `FLOWLABEL_REFLECT_TCP_RESET`.
    pub const RESETS: u32 = 2;
    /// `FLOWLABEL_REFLECT_ICMPV6_ECHO_REPLIES`.
    pub const ECHO_REPLIES: u32 = 4;
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
    /// TIME-WAIT sockets are reused for new outgoing connections whose port nobody has chosen (0, 1, 2 = loopback
    /// only).
    tcp_tw_reuse = 2, 0..=2;
    /// How long TIME-WAIT lasts at least before it is reused by that, in ms.
    tcp_tw_reuse_delay = 1_000, 1..=60_000;
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
    /// What is learnt about a peer is forgotten at the end of a connection. The kernel's default is 0: connections of an
    /// experiment that follow each other are to be alike.
    tcp_no_metrics_save = 1, BYTE;
    /// The threshold that slow start ends at is neither kept nor used.
    tcp_no_ssthresh_metrics_save = 1, SWITCH;
    /// Path MTU is discovered (reversed): 0 yes; else new sockets have `IP_PMTUDISC_DONT`, and who asks for fragments is
    /// believed no MTU (1), not heard (2), or heard about TCP only (3).
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
    /// `net.ipv6.flowlabel_reflect`, bits: 1 connections of listeners that are made from now on have the flow label of
    /// their peer, 2 so do resets for no socket, 4 echo replies.
    flowlabel_reflect = 0, 0..=7;
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
