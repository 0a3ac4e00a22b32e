//! Which values sysctls accept, found by bisection on a 6.18 kernel in a network namespace of its own. That kernel had
//! HZ=250; ranges that are counted in ticks have been converted to HZ=1000. `tcp_ecn` and `tcp_ecn_option` are those of 7.x.

/// Name, smallest and largest value.
const RANGES: &[(&str, i64, i64)] = &[
    ("tcp_comp_sack_delay_ns", 0, i64::MAX),
    ("tcp_comp_sack_nr", 0, 255),
    ("tcp_comp_sack_slack_ns", 0, i64::MAX),
    ("tcp_dsack", 0, 255),
    ("tcp_early_retrans", 0, 4),
    ("tcp_ecn", 0, 5),
    ("tcp_ecn_fallback", 0, 1),
    ("tcp_ecn_option", 0, 3),
    ("tcp_ecn_option_beacon", 0, 3),
    ("tcp_fin_timeout", -2_147_483, 2_147_483),
    ("tcp_frto", 0, 255),
    ("tcp_invalid_ratelimit", 0, 2_147_483_647),
    ("tcp_keepalive_intvl", -2_147_483, 2_147_483),
    ("tcp_keepalive_probes", 0, 255),
    ("tcp_keepalive_time", -2_147_483, 2_147_483),
    ("tcp_limit_output_bytes", -2_147_483_648, 2_147_483_647),
    ("tcp_max_reordering", 1, 2_147_483_647),
    ("tcp_min_rtt_wlen", 0, 86_400),
    ("tcp_min_tso_segs", 1, 255),
    ("tcp_moderate_rcvbuf", 0, 255),
    ("tcp_notsent_lowat", 0, 4_294_967_295),
    ("tcp_pacing_ca_ratio", 0, 1_000),
    ("tcp_pacing_ss_ratio", 0, 1_000),
    ("tcp_recovery", 0, 255),
    ("tcp_retrans_collapse", 0, 255),
    ("tcp_retries1", 0, 255),
    ("tcp_retries2", 0, 255),
    ("tcp_rto_max_ms", 1_000, 120_000),
    ("tcp_rto_min_us", 1, 2_147_483_647),
    ("tcp_sack", 0, 255),
    ("tcp_shrink_window", 0, 1),
    ("tcp_slow_start_after_idle", 0, 255),
    ("tcp_syn_retries", 1, 127),
    ("tcp_synack_retries", 0, 255),
    ("tcp_timestamps", 0, 255),
    ("tcp_tso_rtt_log", 0, 255),
    ("tcp_tso_win_divisor", 0, 255),
    ("tcp_window_scaling", 0, 255),
    ("tcp_autocorking", 0, 1),
    ("tcp_adv_win_scale", -31, 31),
    ("tcp_app_win", 0, 31),
    ("tcp_tw_reuse", 0, 2),
    ("tcp_tw_reuse_delay", 1, 60_000),
    ("tcp_rfc1337", 0, 255),
    ("tcp_abort_on_overflow", 0, 255),
    ("tcp_base_mss", -2_147_483_648, 2_147_483_647),
    ("tcp_challenge_ack_limit", -2_147_483_648, 2_147_483_647),
    ("tcp_fastopen", -2_147_483_648, 2_147_483_647),
    ("tcp_fastopen_blackhole_timeout_sec", 0, 2_147_483_647),
    ("tcp_max_syn_backlog", -2_147_483_648, 2_147_483_647),
    ("tcp_min_snd_mss", 48, 65_535),
    ("tcp_mtu_probe_floor", 48, 65_535),
    ("tcp_mtu_probing", 0, 255),
    ("tcp_probe_interval", 0, 4_294_967),
    ("tcp_probe_threshold", -2_147_483_648, 2_147_483_647),
    ("tcp_orphan_retries", 0, 255),
    ("tcp_reflect_tos", 0, 1),
    ("tcp_backlog_ack_defer", 0, 1),
    ("min_pmtu", 68, 2_147_483_647),
    ("mtu_expires", -2_147_483, 2_147_483),
    ("tcp_stdurg", 0, 255),
    ("tcp_syncookies", 0, 255),
    ("tcp_thin_linear_timeouts", 0, 255),
    ("tcp_no_metrics_save", 0, 255),
    ("tcp_no_ssthresh_metrics_save", 0, 1),
    ("ip_no_pmtu_disc", 0, 255),
    ("ip_nonlocal_bind", 0, 255),
    ("tcp_syn_linear_timeouts", 0, 127),
    ("tcp_plb_enabled", 0, 1),
    ("tcp_plb_idle_rehash_rounds", 0, 31),
    ("tcp_plb_rehash_rounds", 0, 31),
    ("tcp_plb_cong_thresh", 0, 256),
    ("net.core.txrehash", 0, 1),
    ("net.ipv6.auto_flowlabels", 0, 3),
    ("net.ipv6.flowlabel_reflect", 0, 7),
    ("net.ipv4.ipfrag_max_dist", 0, 2_147_483_647),
    ("net.ipv4.ipfrag_time", -2_147_483, 2_147_483),
    ("net.ipv6.ip6frag_time", -2_147_483, 2_147_483),
];

/// The range of ephemeral ports.
pub const PORTS: &str = "net.ipv4.ip_local_port_range";
/// How many sysctls have a range.
pub const COUNT: u64 = RANGES.len() as u64;

/// Whether a kernel takes a decimal number; `None`: not known.
pub fn accepts(name: &str, value: &str) -> Option<bool> {
    if name == PORTS {
        return accepts_ports(value);
    }
    let (_, low, high) = RANGES.iter().find(|(known, ..)| *known == name)?;
    Some(value.parse().is_ok_and(|value: i64| (*low..=*high).contains(&value)))
}

/// `ipv4_local_port_range`: ports from 1024 on, the first before the last. `None`: it depends on what
/// was there.
fn accepts_ports(value: &str) -> Option<bool> {
    let numbers: Vec<Option<u16>> =
        value.split_whitespace().take(2).map(|word| word.parse().ok()).collect();
    match numbers[..] {
        [Some(first), Some(last)] => Some(first >= 1_024 && first <= last),
        [Some(first @ 1_024..)] if first > 0 => None,
        _ => Some(false),
    }
}

/// The name of the place-th one, counted round.
pub fn name(place: u64) -> &'static str {
    RANGES[place as usize % RANGES.len()].0
}
