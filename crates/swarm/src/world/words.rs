//! Random values of sysctls, and the qdiscs that a repaired port may have.

use crate::draw::Draw;

/// A qdisc that a healed port may keep: it drops only what it has no room for.
pub fn sane(draw: &mut Draw) -> String {
    let words = [
        "pfifo limit 1000",
        "pfifo_fast",
        "fq",
        "fq_codel",
        "dualpi2",
        "pie",
        "codel",
        "cake bandwidth 20mbit",
        "cake unlimited diffserv4 nat",
        "prio",
        "bfifo limit 256kb",
        "tbf rate 10mbit burst 64kb limit 256kb",
        "htb",
    ];
    (*draw.one_of(&words)).to_owned()
}

/// A sysctl with a value of the kernel's range, and now and then one beyond what is drawn else.
pub fn sysctl(draw: &mut Draw) -> String {
    let (name, least, most) = *draw.one_of(SYSCTLS);
    let value = match draw.range(0..=99) {
        0..=14 => least,
        15..=24 => most,
        // With a low-water mark of 0 no write is ever possible.
        25..=29 if name != "tcp_notsent_lowat" => return beyond(draw, name, least, most),
        _ => draw.log_range(least..=most),
    };
    match name {
        "tcp_rmem" | "tcp_wmem" => {
            let middle = draw.log_range(value..=most);
            format!("{name}={value} {middle} {}", draw.log_range(middle..=most))
        }
        _ => format!("{name}={value}"),
    }
}

/// What a kernel may refuse; a value of the other end of the range is taken.
fn beyond(draw: &mut Draw, name: &str, least: u64, most: u64) -> String {
    let value = match draw.range(0..=5) {
        0 => (most + 1).to_string(),
        1 => least.saturating_sub(1).to_string(),
        2 => "-1".to_owned(),
        3 => u64::MAX.to_string(),
        4 => String::new(),
        _ => format!("{least} {most}"),
    };
    format!("{name}={value}")
}

/// Names with the least and the greatest value that is drawn: those of the kernel, but for spans of
/// time that would outlast the run.
const SYSCTLS: &[(&str, u64, u64)] = &[
    ("tcp_abort_on_overflow", 0, 1),
    ("tcp_adv_win_scale", 0, 31),
    ("tcp_app_win", 0, 31),
    ("tcp_autocorking", 0, 1),
    ("tcp_base_mss", 48, 9_000),
    ("tcp_challenge_ack_limit", 0, 1_000),
    ("tcp_comp_sack_delay_ns", 0, 100_000_000),
    ("tcp_comp_sack_nr", 0, 255),
    ("tcp_comp_sack_rtt_percent", 1, 1_000),
    ("tcp_comp_sack_slack_ns", 0, 1_000_000),
    ("tcp_dsack", 0, 1),
    ("tcp_early_retrans", 0, 4),
    ("tcp_ecn", 0, 5),
    ("tcp_ecn_fallback", 0, 1),
    ("tcp_ecn_option", 0, 3),
    ("tcp_ecn_option_beacon", 0, 3),
    ("tcp_fastopen", 0, 0x7ff),
    ("tcp_fin_timeout", 1, 120),
    ("tcp_frto", 0, 2),
    ("tcp_invalid_ratelimit", 0, 5_000),
    ("tcp_keepalive_intvl", 1, 100),
    ("tcp_keepalive_probes", 1, 127),
    ("tcp_keepalive_time", 1, 7_200),
    ("tcp_limit_output_bytes", 0, 2_000_000),
    ("tcp_max_reordering", 1, 300),
    ("tcp_min_rtt_wlen", 0, 300),
    ("tcp_min_snd_mss", 48, 1_400),
    ("tcp_min_tso_segs", 1, 255),
    ("tcp_moderate_rcvbuf", 0, 1),
    ("tcp_mtu_probe_floor", 48, 1_400),
    ("tcp_mtu_probing", 0, 2),
    ("tcp_no_metrics_save", 0, 1),
    ("tcp_no_ssthresh_metrics_save", 0, 1),
    ("tcp_notsent_lowat", 1, 4_294_967_295),
    ("tcp_orphan_retries", 0, 10),
    ("tcp_plb_cong_thresh", 0, 256),
    ("tcp_plb_enabled", 0, 1),
    ("tcp_plb_idle_rehash_rounds", 0, 31),
    ("tcp_plb_rehash_rounds", 0, 31),
    ("tcp_plb_suspend_rto_sec", 0, 255),
    ("net.core.txrehash", 0, 1),
    ("net.ipv6.auto_flowlabels", 0, 3),
    ("net.ipv6.flowlabel_reflect", 0, 7),
    ("net.ipv6.flowlabel_state_ranges", 0, 255),
    ("tcp_pacing_ca_ratio", 1, 1_000),
    ("tcp_pacing_ss_ratio", 1, 1_000),
    ("tcp_probe_interval", 1, 600),
    ("tcp_probe_threshold", 0, 100),
    ("tcp_recovery", 0, 7),
    ("tcp_reflect_tos", 0, 1),
    ("tcp_reordering", 1, 300),
    ("tcp_retrans_collapse", 0, 1),
    ("tcp_retries1", 1, 15),
    ("tcp_retries2", 3, 20),
    ("tcp_rfc1337", 0, 1),
    ("tcp_rmem", 4_096, 6_291_456),
    ("tcp_rto_max_ms", 1_000, 120_000),
    ("tcp_rto_min_us", 1, 1_000_000),
    ("tcp_sack", 0, 1),
    ("tcp_shrink_window", 0, 1),
    ("tcp_slow_start_after_idle", 0, 1),
    ("tcp_stdurg", 0, 1),
    ("tcp_syn_linear_timeouts", 0, 10),
    ("tcp_syn_retries", 1, 8),
    ("tcp_synack_retries", 0, 8),
    ("tcp_syncookies", 0, 2),
    ("tcp_max_syn_backlog", 1, 100),
    ("tcp_thin_linear_timeouts", 0, 1),
    ("tcp_timestamps", 0, 2),
    ("tcp_tso_rtt_log", 0, 20),
    ("tcp_tso_win_divisor", 0, 16),
    ("tcp_tw_reuse", 0, 2),
    ("tcp_tw_reuse_delay", 1, 2_000),
    ("tcp_window_scaling", 0, 1),
    ("tcp_wmem", 4_096, 4_194_304),
    ("ip_no_pmtu_disc", 0, 3),
    ("min_pmtu", 552, 1_500),
    ("mtu_expires", 1, 600),
];
