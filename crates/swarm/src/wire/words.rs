//! Sysctls and socket options that are drawn, and their values.

use datapath::socket::number;

use super::calls::Call;
use crate::draw::Draw;

/// A sysctl with a value that the kernel takes.
pub(super) fn sysctl(draw: &mut Draw) -> String {
    let (name, values): &(&str, &[&str]) = draw.one_of(&SYSCTLS);
    format!("net.ipv4.{name}={}", draw.one_of(values))
}

/// Values that the kernel takes, beside its defaults.
const SYSCTLS: [(&str, &[&str]); 47] = [
    ("tcp_sack", &["0", "1"]),
    ("tcp_dsack", &["0"]),
    ("tcp_timestamps", &["0", "2"]),
    ("tcp_window_scaling", &["0"]),
    ("tcp_recovery", &["0", "1", "2", "4", "7"]),
    ("tcp_early_retrans", &["0", "3", "4"]),
    ("tcp_frto", &["0", "2"]),
    ("tcp_reordering", &["1", "3", "20", "300"]),
    ("tcp_max_reordering", &["3", "300"]),
    ("tcp_shrink_window", &["1"]),
    ("tcp_mtu_probing", &["1", "2"]),
    ("tcp_base_mss", &["48", "512", "1024"]),
    ("tcp_min_snd_mss", &["48", "100", "250"]),
    ("tcp_probe_interval", &["1", "600"]),
    ("tcp_probe_threshold", &["0", "8", "200"]),
    ("tcp_retrans_collapse", &["0", "1"]),
    ("tcp_slow_start_after_idle", &["0"]),
    ("tcp_moderate_rcvbuf", &["0"]),
    ("tcp_rmem", &["4096 4096 4096", "4096 131072 6291456", "4096 16384 32768"]),
    ("tcp_wmem", &["4096 4096 4096", "4096 16384 4194304", "4096 8192 16384"]),
    ("tcp_adv_win_scale", &["-2", "1", "2", "31"]),
    ("tcp_app_win", &["0", "31", "8"]),
    ("tcp_rto_min_us", &["1", "20000", "200000"]),
    ("tcp_rto_max_ms", &["1000", "120000"]),
    ("tcp_syncookies", &["0", "1", "2"]),
    ("tcp_max_syn_backlog", &["1", "16"]),
    ("tcp_abort_on_overflow", &["1"]),
    ("tcp_stdurg", &["1"]),
    ("tcp_rfc1337", &["1"]),
    ("tcp_tw_reuse", &["0", "1", "2"]),
    ("tcp_tw_reuse_delay", &["1", "1000", "60000"]),
    ("tcp_no_metrics_save", &["0"]),
    ("tcp_no_ssthresh_metrics_save", &["0"]),
    ("tcp_autocorking", &["0"]),
    ("tcp_comp_sack_nr", &["0", "1", "255"]),
    ("tcp_comp_sack_delay_ns", &["0", "100000000"]),
    ("tcp_limit_output_bytes", &["1000", "65536"]),
    ("tcp_notsent_lowat", &["1", "16384"]),
    ("tcp_thin_linear_timeouts", &["1"]),
    ("tcp_challenge_ack_limit", &["1", "1000"]),
    ("tcp_invalid_ratelimit", &["0", "500", "2000"]),
    ("tcp_orphan_retries", &["0", "1", "3"]),
    ("tcp_retries2", &["1", "5", "15"]),
    ("tcp_reflect_tos", &["1"]),
    ("tcp_min_tso_segs", &["1", "8"]),
    ("tcp_ecn_option", &["0", "1", "2", "3"]),
    ("tcp_fin_timeout", &["1", "60"]),
];

/// A socket option.
pub(super) fn option(draw: &mut Draw) -> Call {
    use number as n;
    let slot = *draw.weighted(&[(8, 0), (1, 1)]);
    let (level, name, value) = *draw.one_of(&[
        (n::SOL_TCP, n::TCP_NODELAY, 1),
        (n::SOL_TCP, n::TCP_NODELAY, 0),
        (n::SOL_TCP, n::TCP_CORK, 1),
        (n::SOL_TCP, n::TCP_CORK, 0),
        (n::SOL_TCP, n::TCP_MAXSEG, 100),
        (n::SOL_TCP, n::TCP_MAXSEG, 536),
        (n::SOL_TCP, n::TCP_QUICKACK, 1),
        (n::SOL_TCP, n::TCP_QUICKACK, 0),
        (n::SOL_TCP, n::TCP_DEFER_ACCEPT, 5),
        (n::SOL_TCP, n::TCP_FASTOPEN, 5),
        (n::SOL_TCP, n::TCP_FASTOPEN_CONNECT, 1),
        (n::SOL_TCP, n::TCP_USER_TIMEOUT, 3_000),
        (n::SOL_TCP, n::TCP_WINDOW_CLAMP, 1_000),
        (n::SOL_TCP, n::TCP_NOTSENT_LOWAT, 1_000),
        (n::SOL_TCP, n::TCP_LINGER2, -1),
        (n::SOL_TCP, n::TCP_LINGER2, 5),
        (n::SOL_TCP, n::TCP_SYNCNT, 2),
        (n::SOL_TCP, n::TCP_KEEPIDLE, 1),
        (n::SOL_TCP, n::TCP_KEEPINTVL, 1),
        (n::SOL_TCP, n::TCP_KEEPCNT, 3),
        (n::SOL_TCP, n::TCP_THIN_LINEAR_TIMEOUTS, 1),
        (n::SOL_TCP, n::TCP_SAVE_SYN, 1),
        (n::SOL_TCP, n::TCP_INQ, 1),
        (n::SOL_SOCKET, n::SO_KEEPALIVE, 1),
        (n::SOL_SOCKET, n::SO_SNDBUF, 1),
        (n::SOL_SOCKET, n::SO_SNDBUF, 20_000),
        (n::SOL_SOCKET, n::SO_SNDBUF, 200_000),
        (n::SOL_SOCKET, n::SO_RCVBUF, 1),
        (n::SOL_SOCKET, n::SO_RCVBUF, 4_096),
        (n::SOL_SOCKET, n::SO_RCVBUF, 100_000),
        (n::SOL_SOCKET, n::SO_RCVLOWAT, 3_000),
        (n::SOL_SOCKET, n::SO_MAX_PACING_RATE, 10_000),
        (n::SOL_SOCKET, n::SO_MAX_PACING_RATE, 1_000_000),
        (n::SOL_SOCKET, n::SO_OOBINLINE, 1),
        (n::SOL_SOCKET, n::SO_ZEROCOPY, 1),
        (n::SOL_SOCKET, n::SO_REUSEADDR, 1),
        (n::SOL_SOCKET, n::SO_TIMESTAMPING, 0x3f0),
        (n::SOL_IP, n::IP_MTU_DISCOVER, 0),
        (n::SOL_IP, n::IP_MTU_DISCOVER, 3),
        (n::SOL_IP, n::IP_RECVERR, 1),
        (n::SOL_IPV6, n::IPV6_RECVERR, 1),
        (n::SOL_IP, n::IP_TOS, 0x20),
    ]);
    Call::Set(slot, level, name, value)
}
