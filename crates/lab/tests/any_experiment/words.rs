//! What experiments are drawn from: keys, how often of a hundred each is there, and values.
//!
//! Most values are ordinary, or nothing would become valid; each list has some at a limit and beyond. Times are short and
//! rates low, so that a run takes milliseconds.

/// A key (in another table, if there is a space in it), how often it is there, and its values.
pub type Key = (&'static str, usize, &'static [&'static str]);

/// A key as it stands in a file.
pub fn key(text: &str) -> String {
    let bare = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if !text.is_empty() && text.chars().all(bare) { text.to_owned() } else { quoted(text) }
}

/// A value as it stands in a file: numbers, truth values, lists and tables as they are, all else as text.
pub fn value(text: &str) -> String {
    let is_raw = text.parse::<f64>().is_ok() || matches!(text, "true" | "false");
    if is_raw || text.starts_with(['[', '{']) { text.to_owned() } else { quoted(text) }
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n"))
}

pub const DURATIONS: &[&str] = &[
    "100ms", "200ms", "200ms", "200ms", "200ms", "300ms", "300ms", "1s", "1ms", "1us", "1ns", "0s",
];
pub const RATES: &[&str] = &[
    "64kbit",
    "1mbit",
    "1mbit",
    "10mbit",
    "10mbit",
    "20mbit",
    "50mbit",
    "100kbps",
    "1gbit",
    "8kbit",
    "1bit",
    "0bit",
    "18446744073709551615bit",
    "-1mbit",
];
const TIMES: &[&str] = &[
    "0s",
    "1ms",
    "1ms",
    "10ms",
    "10ms",
    "20ms",
    "50ms",
    "100ms",
    "200ms",
    "0.5ms",
    "250us",
    "1us",
    "1ns",
    "3s",
    "1000000000s",
    "1000000001s",
    "0.1ns",
    "-1s",
    "5",
];
const COUNTS: &[&str] = &[
    "1",
    "1",
    "2",
    "2",
    "3",
    "10",
    "0",
    "255",
    "256",
    "65535",
    "65536",
    "2147483648",
    "4294967296",
    "-1",
];
const SIZES: &[&str] = &[
    "1", "100", "1460", "1kb", "1kb", "16kb", "16kb", "64kb", "100kb", "1mb", "0", "4gb", "-1",
    "1.5kb",
];
const SHARES: &[&str] =
    &["0.1%", "1%", "1%", "5%", "30%", "50%", "0%", "100%", "0.0001%", "99.9999%", "100.1%", "-1%"];
const ON: &[&str] = &["true", "false"];
const CONTROLS: &[&str] = &["cubic", "reno", "dctcp", "bbr", "bbr3", "prague", "vegas", "nope"];

pub const TOP: &[Key] = &[
    ("title", 10, &["T", "", "\u{202e}<&>\" 日本", "a\nb"]),
    ("description", 5, &["", "x"]),
    ("warmup", 25, &["0s", "50ms", "100ms", "199999999ns", "200ms", "1ns"]),
    ("repetitions", 15, &["1", "2", "0", "4294967296"]),
    ("seed", 20, &["0", "7", "9223372036854775806", "9223372036854775807", "-1"]),
    ("bytes", 25, ON),
    ("parameters p", 10, &["1ms", "${p}", "${q}", "fq"]),
];
pub const NODE: &[Key] = &[
    ("profile", 50, &["linux-2.6.22", "linux-6.1", "linux-6.18", "linux-7.x", "linux-5"]),
    ("lost_retransmit", 20, &["linux-2.6.22", "highest-sack", "skip-reported", "both", "rack"]),
    ("sack_fast_path", 10, ON),
    ("forward_retransmits", 10, ON),
    ("initial_ssthresh", 15, COUNTS),
    ("offload", 40, &["off", "gso", "tso", "nic"]),
    ("gro", 30, &["on", "off"]),
    ("rx_usecs", 20, &["0", "1", "50", "1000", "1000000", "1000001"]),
    ("dctcp_ack", 10, &["a0496ef2c2", "b0c05d0e99"]),
    ("dctcp_shift_g", 10, &["0", "1", "4", "10", "11"]),
    ("dctcp_alpha_on_init", 10, &["0", "512", "1024", "1025"]),
    ("dctcp_syn_ect", 10, ON),
    ("buffer", 15, &["4mb", "64kb", "1kb", "1", "0", "4gb"]),
    ("buffer_alpha", 10, &["1/4", "1", "8", "0", "1/0", "4294967295", "1/4294967295"]),
    ("mp_algo", 15, &["linux", "l3", "l4", "per-packet", "modulo", "credit"]),
];
/// Commands of ip(8); the names of links are those of a network of hosts around a router.
pub const COMMANDS: &[Key] = &[
    (
        "ip",
        20,
        &[
            "[\"route add default dev l0\"]",
            "[\"route add default dev l1 mtu 600\"]",
            "[\"link set l0 mtu 576\"]",
            "[\"link set l0 mtu 67\"]",
            "[\"link set l1 down\"]",
            "[\"address add 10.77.0.1/24 dev l0\"]",
            "[\"rule add from all lookup 5\"]",
            "[\"route add blackhole 10.0.0.0/8\"]",
            "[\"nexthop add id 1 dev l0\", \"route add default nhid 1\"]",
            "[\"nexthop add id 4294967295 blackhole\"]",
        ],
    ),
    (
        "ip_at",
        20,
        &[
            "[\"50ms link set l0 down\", \"100ms link set l0 up\"]",
            "[\"0s link set l1 down\"]",
            "[\"1ns link set l0 mtu 68\"]",
            "[\"100ms route del default\"]",
            "[\"1000000000s link set l0 up\"]",
        ],
    ),
];
pub const SYSCTLS: &[Key] = &[
    ("net.ipv4.tcp_sack", 8, &["0", "1", "2"]),
    ("net.ipv4.tcp_ecn", 12, &["0", "1", "2", "3", "4", "5", "6"]),
    ("net.ipv4.tcp_congestion_control", 12, CONTROLS),
    ("net.ipv4.tcp_rmem", 8, &["4096 131072 6291456", "1 1 1", "4096 4096 4096", "4096 1"]),
    ("net.ipv4.tcp_wmem", 8, &["4096 16384 4194304", "1 1 1", "4096 4096 4096", "0 0 0"]),
    ("net.ipv4.tcp_reordering", 6, COUNTS),
    ("net.ipv4.tcp_early_retrans", 6, &["0", "3", "4", "5"]),
    ("net.ipv4.tcp_recovery", 6, &["0", "1", "2", "4", "7", "255"]),
    ("net.ipv4.tcp_timestamps", 6, &["0", "1", "2", "3"]),
    ("net.ipv4.tcp_window_scaling", 6, &["0", "1"]),
    ("net.ipv4.tcp_adv_win_scale", 5, &["-31", "1", "31", "32"]),
    ("net.ipv4.tcp_mtu_probing", 5, &["0", "1", "2", "3"]),
    ("net.ipv4.tcp_base_mss", 5, COUNTS),
    ("net.ipv4.tcp_min_snd_mss", 5, &["48", "536", "65535", "47"]),
    ("net.ipv4.tcp_retries2", 5, &["0", "1", "15", "255"]),
    ("net.ipv4.tcp_syn_retries", 5, &["1", "6", "127", "0"]),
    ("net.ipv4.tcp_notsent_lowat", 5, &["0", "1", "16384", "4294967295"]),
    ("net.ipv4.tcp_limit_output_bytes", 5, &["0", "1", "1500", "1048576"]),
    ("net.ipv4.tcp_min_tso_segs", 5, &["1", "2", "255", "0"]),
    ("net.ipv4.tcp_pacing_ss_ratio", 5, &["0", "1", "200", "1000", "1001"]),
    ("net.ipv4.tcp_fastopen", 5, &["0", "1", "3", "1027"]),
    ("net.ipv4.tcp_max_syn_backlog", 5, COUNTS),
    ("net.core.somaxconn", 5, COUNTS),
    ("net.ipv4.ip_local_port_range", 5, &["1024 1024", "60000 60001", "5 3", "1 65535"]),
    ("net.ipv4.ipfrag_high_thresh", 5, &["262144", "4194304", "1", "0"]),
    ("net.ipv4.ipfrag_time", 5, &["0", "1", "30", "2147483647"]),
    ("net.ipv4.fib_multipath_hash_policy", 5, &["0", "1", "2", "3", "4"]),
    ("net.ipv4.tcp_ecn_option", 5, &["0", "1", "2", "3", "4"]),
    ("net.ipv4.tcp_rto_min_us", 5, &["1", "5000", "200000", "0"]),
    ("net.ipv4.tcp_syncookies", 5, &["0", "1", "2"]),
    ("net.ipv4.tcp_shrink_window", 5, &["0", "1"]),
    ("net.ipv4.tcp_comp_sack_nr", 5, &["0", "44", "255"]),
    ("net.ipv4.route.min_pmtu", 5, &["68", "552", "67"]),
];
pub const TOPOLOGIES: &[(&str, &[Key], &[&str])] = &[
    ("dumbbell", &[HOSTS], &["left-1", "right-1", "left-*", "right-*"]),
    ("parking-lot", &[HOSTS, ("hops", 100, COUNTS)], &["host-1-1", "host-2-1", "host-*"]),
    ("star", &[HOSTS], &["host-1", "host-2", "host-*"]),
    (
        "leaf-spine",
        &[
            HOSTS,
            ("leaves", 100, COUNTS),
            ("spines", 100, COUNTS),
            ("oversubscription", 20, SHARES_OF_RATES),
        ],
        &["host-1-1", "host-2-1", "host-*"],
    ),
    (
        "fat-tree",
        &[
            ("k", 100, &["2", "2", "4", "0", "3", "65536"]),
            ("oversubscription", 20, SHARES_OF_RATES),
        ],
        &["host-1-1-1", "host-2-1-1", "host-*"],
    ),
    (
        "random-regular",
        &[
            ("hosts", 100, &["1", "2", "0"]),
            ("switches", 100, &["4", "6", "3", "1"]),
            ("degree", 100, &["2", "3", "0"]),
            ("seed", 30, COUNTS),
        ],
        &["host-1-1", "host-2-1", "host-*"],
    ),
];
const HOSTS: Key = ("hosts", 95, COUNTS);
const SHARES_OF_RATES: &[&str] = &["1", "2", "0.5", "3", "1e9", "1e-9", "0", "-1"];
pub const TOPOLOGY: &[Key] = &[
    ("delay", 25, TIMES),
    ("fabric_rate", 10, RATES),
    ("fabric_delay", 10, TIMES),
    ("bottleneck_rate", 10, RATES),
    ("bottleneck_delay", 10, TIMES),
    ("mtu", 15, MTUS),
    ("ip_version", 30, &["4", "6", "6", "5"]),
    ("hash_policy", 15, &["l3", "l4", "inner"]),
    ("weights", 15, &["equal", "rate"]),
    ("converge", 20, TIMES),
];
const MTUS: &[&str] = &["1500", "9000", "1280", "576", "65535", "68", "65536", "67"];
pub const LINK: &[Key] = &[
    ("rate", 95, RATES),
    ("delay", 50, TIMES),
    ("rtt", 15, TIMES),
    ("mtu", 15, MTUS),
    ("veth", 10, ON),
    (
        "addresses",
        8,
        &[
            "[\"10.5.1.2/24\", \"10.5.1.1/24\"]",
            "[\"fd00:5::1/64\", \"fd00:5::2/64\"]",
            "[\"10.5.1.1/31\", \"10.5.1.0/31\"]",
            "[\"127.0.0.1/8\", \"127.0.0.2/8\"]",
            "[\"10.5.1.3/30\", \"10.5.1.0/30\"]",
        ],
    ),
    (
        "events",
        12,
        &[
            "[\"50ms down\", \"100ms up\"]",
            "[\"0s down\"]",
            "[\"50ms up\"]",
            "[\"100ms up\", \"100ms down\"]",
            "[\"1000000000s down\"]",
        ],
    ),
    (
        "schedule",
        12,
        &[
            "[{ at = \"50ms\", rate = \"1mbit\" }, { at = \"100ms\", delay = \"1ms\" }]",
            "[{ at = \"0s\", rate = \"0bit\" }]",
            "[{ at = \"1ns\", delay = \"0s\", rate = \"1gbit\" }]",
        ],
    ),
    ("schedule_repeat", 8, &["150ms", "100ms", "1ns", "1000000000s"]),
];
pub const IMPAIRMENTS: &[Key] = &[
    (
        "loss",
        15,
        &[
            "0.1%",
            "1%",
            "random 1% 25%",
            "random 1% 100%",
            "1% burst 4",
            "100% burst 1",
            "99% burst 1000000",
            "gemodel 1% 10%",
            "gemodel 100% 100% 100% 100%",
            "gemodel 0% 0%",
            "100%",
            "1% burst 0",
        ],
    ),
    ("corrupt", 8, SHARES),
    ("duplicate", 8, SHARES),
    ("reorder", 8, SHARES),
    ("reorder_by", 8, TIMES),
    ("jitter", 8, &["1ms", "5ms 25%", "5ms 100%", "1000s", "0s 10%", "1ms 101%"]),
    (
        "rules",
        10,
        &[
            "[\"f data 3 drop\", \"r ack 2 drop\", \"f every 5 1 drop\"]",
            "[\"f time 0 50000000 hold\"]",
            "[\"f data 2 delay 5000000\", \"f data 3 dup 1000\", \"f every 1 1 ce\"]",
            "[\"r syn 1 drop\", \"f off 1000 1 drop\"]",
            "[\"f off 18446744073709551615 1 drop\"]",
            "[\"f data 1 delay 18446744073709551615\"]",
            "[\"f data 1 dup 9000000000000000000\"]",
            "[\"f time 0 18446744073709551615 hold\"]",
            "[\"f every 0 1 drop\"]",
        ],
    ),
];
pub const ROUTES: &[Key] = &[
    ("r0 h0", 80, &["x", "[\"x\", \"y\"]", "x features ecn", "x mtu 600", "x initcwnd 100"]),
    ("r1 default", 80, &["x", "[\"x\", \"y\"]", "x ssthresh 4294967295", "x rto_min 1ns"]),
];
pub const PORTS: &[&str] =
    &["*.*", "r0.*", "h*.*", "r0.l0", "h0.l0", "switch.*", "router-*.*", "*.host-*", ".", "h0"];
pub const QDISCS: &[&str] = &[
    "pfifo",
    "pfifo limit 1",
    "pfifo limit 0",
    "bfifo limit 3000",
    "fq_codel",
    "fq_codel limit 10",
    "fq_codel flows 1 target 1us interval 1us",
    "fq",
    "fq maxrate 1mbit",
    "fq flow_limit 1",
    "cake bandwidth 5mbit",
    "cake unlimited",
    "cake bandwidth 1bit",
    "cake bandwidth 20mbit ack-filter",
    "codel",
    "codel ce_threshold 1us",
    "red limit 100000 min 10000 max 30000 avpkt 1000",
    "red limit 1 min 1 max 2 avpkt 1",
    "tbf rate 1mbit burst 5000 latency 50ms",
    "tbf rate 1bit burst 10 limit 1",
    "tbf rate 5mbit burst 3000 limit 100000 peakrate 6mbit mtu 1540",
    "netem delay 10ms loss 1%",
    "netem delay 10ms 5ms 25% distribution normal",
    "netem limit 1 duplicate 50%",
    "netem rate 1mbit",
    "netem slot 1ms 5ms",
    "netem delay 3000s",
    "prio",
    "pfifo_fast",
    "dualpi2",
    "noqueue",
    "sfq",
    "nothing",
    "",
    "[\"root handle 1: prio\", \"parent 1:1 fq_codel\", \"filter parent 1: protocol ip prio 1 u32 match ip dsfield 0x04 0xfc flowid 1:1\"]",
    "[\"root handle 1: prio\", \"parent 1:2 handle 2: tbf rate 1mbit burst 2000 limit 3000\", \"parent 2:1 netem delay 1ms\"]",
    "[\"root handle 1: netem delay 5ms\", \"parent 1:1 handle 2: fq\"]",
    "[\"root fq_codel\", \"root fq_codel\"]",
    "[]",
    "[\"parent 1:1 fq\"]",
];
pub const POLICERS: &[&str] = &[
    "rate 5mbit burst 10kb conform-exceed drop",
    "rate 1bit burst 1",
    "rate 1mbit burst 3000 peakrate 2mbit mtu 1500",
    "rate 5mbit",
];
pub const APPS: &[(&str, &[Key])] = &[
    ("bulk", &[]),
    ("bulk", &[]),
    ("fixed", &[("bytes", 100, SIZES)]),
    ("chunk", &[("chunk", 100, SIZES), ("gap", 70, TIMES), ("bytes", 30, SIZES)]),
    (
        "request",
        &[
            ("request", 100, SIZES),
            ("response", 100, SIZES),
            ("think", 50, TIMES),
            ("requests", 40, COUNTS),
        ],
    ),
    (
        "query",
        &[
            ("request", 50, SIZES),
            ("response", 100, SIZES),
            ("think", 50, TIMES),
            ("queries", 40, COUNTS),
        ],
    ),
    ("connect", &[("interval", 90, INTERVALS), ("attempts", 40, COUNTS)]),
    ("on-off", &[("on", 100, TIMES), ("off", 100, TIMES)]),
    ("cbr", &[("rate", 100, RATES), ("size", 50, PAYLOADS)]),
    ("ping", &[("interval", 60, INTERVALS), ("size", 50, PAYLOADS)]),
    ("probe", &[("interval", 60, INTERVALS), ("size", 50, PAYLOADS)]),
    ("rrul", &[("marking", 40, ON)]),
];
const INTERVALS: &[&str] = &["1ms", "5ms", "20ms", "50ms", "200ms", "3s", "1000000000s", "0s"];
const PAYLOADS: &[&str] = &["1", "8", "56", "1200", "1472", "9000", "65507", "65508", "0"];
pub const FLOW: &[Key] = &[
    ("start", 20, TIMES),
    ("stop", 15, TIMES),
    ("spread", 10, TIMES),
    ("count", 15, &["1", "2", "5", "0", "35001"]),
    ("pair", 8, &["product", "one-to-one"]),
    ("group", 10, &["g", "total", "f0"]),
    ("congestion_control", 25, CONTROLS),
    ("tos", 10, &["0", "1", "3", "8", "184", "255", "256"]),
    ("reply_tos", 10, &["0", "1", "3", "16", "255", "-1"]),
    (
        "address",
        4,
        &["10.0.0.2", "1.2.3.4", "::1", "224.0.0.1", "255.255.255.255", "127.0.0.1", "0.0.0.0"],
    ),
];
pub const SIZES_OF_FLOWS: &[&str] = &[
    "web-search",
    "data-mining",
    "facebook-web",
    "facebook-cache",
    "facebook-hadoop",
    "fixed 64kb",
    "fixed 20kb",
    "fixed 1",
    "fixed 0",
    "exponential 10kb",
    "exponential 1",
    "pareto 10kb 1.1",
    "pareto 1 1",
    "pareto 10kb 0.1",
    "pareto 1gb 1.01",
];
pub const ARRIVALS: &[(&str, &[Key])] = &[
    ("poisson", &[LOAD]),
    ("on-off", &[LOAD, ("on", 100, TIMES), ("off", 100, TIMES)]),
    (
        "closed",
        &[
            ("concurrency", 50, COUNTS),
            ("think", 50, TIMES),
            ("requests", 20, COUNTS),
            ("request", 20, SIZES),
        ],
    ),
];
const LOAD: Key = ("load", 100, &["0.1", "0.2", "0.5", "1", "0.001", "1e-9", "0", "1.1"]);
pub const WORKLOAD: &[Key] = &[
    (
        "matrix",
        50,
        &[
            "all-to-all",
            "permutation",
            "stride 1",
            "stride 0",
            "incast 1",
            "incast 2",
            "incast 100",
            "rack-local 0.5",
            "rack-local 1",
            "rack-local 0",
        ],
    ),
    ("of", 15, &["access", "bisection"]),
    ("start", 15, TIMES),
    ("stop", 15, TIMES),
    ("congestion_control", 15, CONTROLS),
    ("tos", 10, &["0", "3", "255"]),
];
pub const MEASURE: &[Key] = &[
    ("sample", 40, &["1ms", "10ms", "100ms", "1s", "1000000000s", "0s"]),
    ("queues", 30, &["[\"*.*\"]", "[\"r0.*\"]", "[]", "[\"h0.l0\", \"h0.l0\"]"]),
    ("utilisation", 30, &["[\"*.*\"]", "[\"r0.*\"]", "[]"]),
    ("pcap", 30, &["[\"*.*\"]", "[\"r0.l0\"]", "[]"]),
    ("snaplen", 20, &["1", "14", "54", "128", "65535", "0"]),
    ("steps", 20, &["10ms", "100ms", "15ms", "10s", "1ns"]),
    ("early", 20, TIMES),
    (
        "table",
        20,
        &[
            "[\"total goodput\"]",
            "[\"f0 goodput\", \"total rto\"]",
            "[\"w fct 99 %\"]",
            "[]",
            "[\"x\"]",
        ],
    ),
];
pub const DRAWS: &[Key] = &[
    (
        "links.l0.delay",
        25,
        &[
            "{ uniform = [\"1ms\", \"20ms\"] }",
            "{ normal = [\"10ms\", \"5ms\"] }",
            "{ exponential = \"10ms\", most = \"5ms\" }",
        ],
    ),
    (
        "links.l1.rate",
        25,
        &[
            "{ uniform = [\"1mbit\", \"20mbit\"] }",
            "{ pareto = [\"1mbit\", 1.2] }",
            "{ normal = [\"1mbit\", \"1mbit\"] }",
        ],
    ),
    (
        "initial_ssthresh",
        15,
        &["{ uniform = [0, 100] }", "{ exponential = 10 }", "{ normal = [0, 0] }"],
    ),
    ("links.l0.mtu", 15, &["{ choice = [1500, 576] }", "{ uniform = [68, 9000] }"]),
    ("warmup", 15, &["{ uniform = [\"0s\", \"50ms\"] }", "{ uniform = [\"0s\", \"200ms\"] }"]),
    ("measure.sample", 15, &["{ uniform = [\"1ms\", \"20ms\"] }", "{ pareto = [\"1ms\", 1.2] }"]),
    ("flows.f0.start", 15, &["{ uniform = [\"0s\", \"50ms\"] }", "{ normal = [\"0s\", \"1s\"] }"]),
];
pub const SWEEPS: &[Key] = &[
    ("duration", 25, &["[\"50ms\", \"100ms\"]", "[\"1ns\", \"0s\"]"]),
    ("profile", 25, &["[\"linux-6.1\", \"linux-7.x\"]"]),
    ("links.l0.rate", 25, &["[\"1mbit\", \"2mbit\"]"]),
    ("initial_ssthresh", 25, &["[0, 5, 10]"]),
    ("p", 15, &["[\"a\", \"b\"]", "[]"]),
];
pub const PLOT: &[Key] = &[
    (
        "what",
        100,
        &[
            "throughput",
            "cwnd",
            "rtt",
            "latency",
            "queue-delay",
            "queue-length",
            "utilisation",
            "fct cdf",
            "slowdown cdf",
            "latency cdf",
            "queue-delay cdf",
            "queue-length cdf",
            "total goodput",
        ],
    ),
    ("scopes", 20, &["[\"*\"]", "[\"f0\"]", "[\"f*\", \"w\"]", "[]"]),
    ("style", 30, &["lines", "bands"]),
    ("bins", 15, &["10", "330", "10000", "9"]),
    ("size", 15, &["[760, 400]", "[200, 100]", "[1, 1]", "[100000, 100000]"]),
    ("format", 30, &["[\"svg\"]", "[\"pdf\"]", "[\"svg\", \"png\", \"pdf\"]", "[]"]),
    ("name", 15, &["a", "b/c", "..", "ä", ""]),
    ("title", 15, &["", "日本語", "<&>\"", "a\nb"]),
];
