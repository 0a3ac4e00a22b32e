//! Settings that are only kept: those without a meaning here, and those that have only the value that
//! the kernel begins with.

/// Whether a setting may have a value without anything being different here.
pub fn may_be(name: &str, value: &str) -> bool {
    let parameter = name.strip_prefix("/sys/module/tcp_cubic/parameters/");
    if let Some(parameter) = parameter {
        return CUBIC.contains(&(parameter, value));
    }
    if let Some((_, least)) = AT_LEAST.iter().find(|(known, _)| *known == name) {
        return value.trim().parse().is_ok_and(|value: u64| value >= *least);
    }
    match default(name) {
        Some(default) => value.split_whitespace().eq(default.split_whitespace()),
        None => ANY.contains(&name) || TREES.iter().any(|tree| name.starts_with(tree)),
    }
}

/// The only value that a setting has here; `None` if it may have others, or is none of these.
pub fn default(name: &str) -> Option<&'static str> {
    AS_BUILT.iter().find(|(known, _)| *known == name).map(|(_, value)| *value)
}

/// Module parameters of CUBIC with the fixed values that they have here.
const CUBIC: [(&str, &str); 7] = [
    ("hystart", "1"),
    ("hystart_detect", "3"),
    ("hystart_low_window", "16"),
    ("hystart_ack_delta_us", "2000"),
    ("fast_convergence", "1"),
    ("tcp_friendliness", "1"),
    ("beta", "717"),
];

/// Settings whose other values would be different, with the values that Linux 7 begins with.
const AS_BUILT: [(&str, &str); 20] = [
    ("net.core.high_order_alloc_disable", "0"),
    ("net.core.max_skb_frags", "17"),
    ("net.core.rmem_max", "4194304"),
    ("net.core.somaxconn", "4096"),
    ("net.core.wmem_max", "4194304"),
    ("net.ipv4.fwmark_reflect", "0"),
    ("net.ipv4.icmp_echo_ignore_all", "0"),
    ("net.ipv4.icmp_errors_use_inbound_ifaddr", "0"),
    ("net.ipv4.ip_default_ttl", "64"),
    ("net.ipv4.ip_no_pmtu_disc", "0"),
    ("net.ipv4.route.min_adv_mss", "256"),
    ("net.ipv4.route.min_pmtu", "552"),
    ("net.ipv4.route.mtu_expires", "600"),
    (
        "net.ipv4.tcp_available_congestion_control",
        "reno cubic dctcp bbr bbr3 bic highspeed scalable vegas veno cdg htcp hybla illinois lp nv westwood yeah",
    ),
    ("net.ipv4.tcp_fwmark_accept", "0"),
    ("net.ipv4.tcp_l3mdev_accept", "0"),
    ("net.ipv4.tcp_pingpong_thresh", "1"),
    ("net.ipv4.tcp_workaround_signed_windows", "0"),
    ("net.ipv6.bindv6only", "0"),
    ("net.ipv6.flowlabel_consistency", "1"),
];

/// Limits that are not there: so large, a script does not come to them.
const AT_LEAST: [(&str, u64); 2] =
    [("net.ipv4.tcp_max_orphans", 1_024), ("net.ipv4.tcp_max_tw_buckets", 1_024)];

/// Settings about what is not here: memory of the machine, other hosts, other protocols.
const ANY: [&str; 25] = [
    "net.core.default_qdisc",
    "net.core.gro_normal_batch",
    "net.core.tstamp_allow_data",
    "net.core.warnings",
    "net.ipv4.icmp_echo_ignore_broadcasts",
    "net.ipv4.icmp_ignore_bogus_error_responses",
    "net.ipv4.icmp_msgs_burst",
    "net.ipv4.icmp_msgs_per_sec",
    "net.ipv4.icmp_ratelimit",
    "net.ipv4.icmp_ratemask",
    "net.ipv4.ip_autobind_reuse",
    "net.ipv4.ip_dynaddr",
    "net.ipv4.ip_early_demux",
    "net.ipv4.ip_local_port_range",
    "net.ipv4.ip_local_reserved_ports",
    "net.ipv4.ip_unprivileged_port_start",
    "net.ipv4.ping_group_range",
    "net.ipv4.route.flush",
    "net.ipv4.tcp_allowed_congestion_control",
    "net.ipv4.tcp_child_ehash_entries",
    "net.ipv4.tcp_early_demux",
    "net.ipv4.tcp_fack",
    "net.ipv4.tcp_low_latency",
    "net.ipv4.tcp_mem",
    "net.ipv4.tcp_migrate_req",
];

/// … by what their names begin with.
const TREES: [&str; 29] = [
    "fs.",
    "kernel.",
    "vm.",
    "net.core.bpf_",
    "net.core.busy_",
    "net.core.dev_weight",
    "net.core.flow_limit_",
    "net.core.message_",
    "net.core.netdev_",
    "net.core.optmem_",
    "net.core.rmem_",
    "net.core.rps_",
    "net.core.skb_defer",
    "net.core.wmem_",
    "net.core.xfrm_",
    "net.ipv4.conf.",
    "net.ipv4.fib_",
    "net.ipv4.igmp_",
    "net.ipv4.inet_peer_",
    "net.ipv4.ip_forward",
    "net.ipv4.ipfrag_",
    "net.ipv4.neigh.",
    "net.ipv4.route.error_",
    "net.ipv4.route.gc_",
    "net.ipv4.route.redirect_",
    "net.ipv4.udp_",
    "net.ipv6.conf.",
    "net.ipv6.fib_",
    "net.ipv6.neigh.",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_that_change_nothing() {
        for (name, value, fine) in [
            ("net.core.rmem_max", "1", false),
            ("net.core.rmem_max", "4194304", true),
            ("net.core.somaxconn", "1", false),
            ("net.core.optmem_max", "1", true),
            ("net.ipv4.tcp_max_tw_buckets", "0", false),
            ("net.ipv4.tcp_max_tw_buckets", "65536", true),
            ("net.ipv4.tcp_max_orphans", "many", false),
            ("net.ipv4.conf.all.rp_filter", "0", true),
            ("net.ipv4.ip_default_ttl", " 64", true),
            ("net.ipv4.ip_default_ttl", "65", false),
            ("net.mptcp.enabled", "1", false),
            ("/sys/module/tcp_cubic/parameters/hystart", "1", true),
            ("/sys/module/tcp_cubic/parameters/hystart", "0", false),
        ] {
            assert_eq!(may_be(name, value), fine, "{name} {value}");
        }
    }
}
