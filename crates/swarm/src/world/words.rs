//! Random words of `tc` and values of sysctls.

#![expect(clippy::format_push_string, reason = "option by option, as they are drawn")]

use crate::draw::Draw;

/// The commands that put a tree on an empty port called `d`.
pub fn tree(draw: &mut Draw) -> Vec<String> {
    let mut commands = Vec::new();
    let mut next = 1;
    grow(draw, "root", 0, &mut next, &mut commands);
    commands
}

/// One command on a port that has a tree already, perhaps a senseless one.
pub fn change(draw: &mut Draw) -> String {
    let verb = draw.weighted(&[(5, "replace"), (4, "change"), (1, "add"), (2, "delete")]);
    let major = draw.range(1..=4);
    let place = match draw.range(0..=9) {
        0..=5 => format!("root handle {major}:"),
        6..=7 => format!("parent {major}:{} handle {}:", draw.range(1..=3), major + 1),
        8 => "root".to_owned(),
        _ => format!("parent {major}:{}", draw.range(1..=16)),
    };
    if *verb == "delete" {
        return format!("qdisc delete dev d {place}");
    }
    format!("qdisc {verb} dev d {place} {}", any_qdisc(draw))
}

/// A qdisc that a healed port may keep: it drops only what it has no room for.
pub fn sane(draw: &mut Draw) -> String {
    let words = [
        "pfifo limit 1000",
        "pfifo_fast",
        "fq",
        "fq_codel",
        "codel",
        "cake bandwidth 20mbit",
        "cake unlimited diffserv4 nat",
        "prio",
        "bfifo limit 256kb",
        "tbf rate 10mbit burst 64kb limit 256kb",
    ];
    (*draw.one_of(&words)).to_owned()
}

/// What follows `police`.
pub fn police(draw: &mut Draw) -> String {
    let action = draw.one_of(&["drop", "conform-exceed drop/pipe", "conform-exceed continue/ok"]);
    let rate = draw.log_range(64..=100_000);
    let burst = draw.log_range(1_600..=1_000_000);
    match draw.range(0..=3) {
        0 => format!("mtu {} {action}", draw.range(200..=70_000)),
        1 => format!("rate {rate}kbit burst {burst} mtu {} {action}", draw.range(1_000..=70_000)),
        _ => format!("rate {rate}kbit burst {burst} mtu 70000 {action}"),
    }
}

/// A tree has about as many qdiscs at most.
const TREE_MOST: u32 = 8;

fn grow(draw: &mut Draw, parent: &str, depth: u32, next: &mut u32, commands: &mut Vec<String>) {
    let place = if parent == "root" { "root".to_owned() } else { format!("parent {parent}") };
    let major = *next;
    *next += 1;
    let nests = depth < 3 && major < TREE_MOST && draw.percent(40);
    if !nests {
        let words = leaf(draw);
        commands.push(format!("qdisc add dev d {place} handle {major:x}: {words}"));
        return;
    }
    let (words, classes) = inner(draw);
    commands.push(format!("qdisc add dev d {place} handle {major:x}: {words}"));
    if words.starts_with("prio") && draw.percent(40) {
        let to = draw.range(1..=classes);
        let what = draw.one_of(&[
            "matchall",
            "u32 match ip dport 5001 0xffff",
            "u32 match ip protocol 6 0xff",
        ]);
        commands.push(format!("filter add dev d parent {major:x}: {what} flowid {major:x}:{to:x}"));
    }
    for class in 1..=classes {
        if *next < TREE_MOST && (classes == 1 || draw.percent(30)) {
            grow(draw, &format!("{major:x}:{class:x}"), depth + 1, next, commands);
        }
    }
}

fn any_qdisc(draw: &mut Draw) -> String {
    if draw.percent(30) { inner(draw).0 } else { leaf(draw) }
}

/// A qdisc with classes, and how many.
fn inner(draw: &mut Draw) -> (String, u64) {
    match draw.range(0..=3) {
        0 => {
            let bands = draw.range(2..=16);
            (format!("prio bands {bands}{}", priomap(draw, bands)), bands)
        }
        1 => (tbf(draw), 1),
        2 => (netem(draw), 1),
        _ => (red(draw), 1),
    }
}

fn priomap(draw: &mut Draw, bands: u64) -> String {
    // The default map names bands up to the third.
    if bands >= 3 && draw.percent(50) {
        return String::new();
    }
    let map = (0..16).map(|_| format!(" {}", draw.range(0..=bands - 1)));
    format!(" priomap{}", map.collect::<String>())
}

fn leaf(draw: &mut Draw) -> String {
    match draw.range(0..=13) {
        0 => format!("pfifo limit {}", draw.log_range(1..=2_000)),
        1 => format!("bfifo limit {}", draw.log_range(60..=1_000_000)),
        2 => format!("pfifo_head_drop limit {}", draw.log_range(1..=1_000)),
        3 => (*draw.one_of(&["pfifo", "bfifo", "pfifo_fast", "noqueue"])).to_owned(),
        4 => tbf(draw),
        5 => netem(draw),
        6 => red(draw),
        7 => format!("codel{}", codel(draw)),
        8 | 9 => fq(draw),
        10 | 11 => fq_codel(draw),
        _ => cake(draw),
    }
}

fn tbf(draw: &mut Draw) -> String {
    let rate = draw.log_range(64..=1_000_000);
    let burst = draw.log_range(100..=200_000);
    let mut words = format!("tbf rate {rate}kbit burst {burst}");
    if draw.percent(50) {
        words += &format!(" limit {}", draw.log_range(1..=500_000));
    } else {
        words += &format!(" latency {}us", draw.log_range(1..=500_000));
    }
    if draw.percent(25) {
        let mtu = draw.log_range(1_500..=70_000);
        words += &format!(" peakrate {}kbit mtu {mtu}", rate + draw.log_range(1..=1_000_000));
    }
    if draw.percent(15) {
        words += &format!(" overhead {} mpu {}", draw.range(0..=100), draw.range(0..=200));
    }
    if draw.percent(10) {
        words += " linklayer atm";
    }
    words
}

fn netem(draw: &mut Draw) -> String {
    let mut words = "netem".to_owned();
    let percent = |draw: &mut Draw| draw.log_range(0..=50);
    if draw.percent(30) {
        words += &format!(" limit {}", draw.log_range(1..=2_000));
    }
    if draw.percent(80) {
        words += &format!(" delay {}us", draw.log_range(1..=300_000));
        if draw.percent(60) {
            words += &format!(" {}us", draw.log_range(1..=100_000));
            if draw.percent(40) {
                words += &format!(" {}%", draw.range(0..=100));
            }
            if draw.percent(40) {
                let tables = ["normal", "pareto", "paretonormal", "uniform"];
                words += &format!(" distribution {}", draw.one_of(&tables));
            }
        }
        if draw.percent(20) {
            words += &format!(" reorder {}% {}%", percent(draw) + 1, draw.range(0..=100));
            if draw.percent(50) {
                words += &format!(" gap {}", draw.range(1..=10));
            }
        }
    }
    match draw.range(0..=9) {
        0..=2 => words += &format!(" loss {}% {}%", percent(draw), draw.range(0..=80)),
        3 => {
            words += &format!(
                " loss gemodel {}% {}% {}% {}%",
                percent(draw) + 1,
                draw.range(10..=100),
                draw.range(50..=100),
                draw.range(0..=10)
            );
        }
        4 => {
            words += &format!(
                " loss state {}% {}% {}% {}%",
                percent(draw) + 1,
                draw.range(20..=100),
                percent(draw),
                draw.range(20..=100)
            );
        }
        _ => {}
    }
    if draw.percent(15) {
        words += &format!(" duplicate {}%", percent(draw));
    }
    if draw.percent(15) {
        words += &format!(" corrupt {}%", percent(draw) / 2);
    }
    if draw.percent(20) {
        words += &format!(" rate {}kbit", draw.log_range(100..=1_000_000));
        if draw.percent(40) {
            words +=
                &format!(" {} {} {}", draw.range(0..=40), draw.range(0..=60), draw.range(0..=10));
        }
    }
    if draw.percent(10) {
        let least = draw.log_range(1..=10_000);
        words += &format!(" slot {least}us {}us", least + draw.log_range(0..=10_000));
        if draw.percent(50) {
            words +=
                &format!(" packets {} bytes {}", draw.range(1..=50), draw.range(2_000..=80_000));
        }
    }
    if words == "netem" {
        words += " delay 1ms";
    }
    words
}

fn red(draw: &mut Draw) -> String {
    let avpkt = draw.range(100..=1_500);
    let min = avpkt * draw.log_range(2..=40);
    let max = min * draw.range(2..=4);
    let limit = max * draw.range(2..=6);
    let burst = (2 * min + max) / (3 * avpkt) + draw.range(1..=5);
    let mut words = format!("red limit {limit} min {min} max {max} avpkt {avpkt} burst {burst}");
    words += &format!(" bandwidth {}kbit", draw.log_range(100..=1_000_000));
    if draw.percent(50) {
        words += &format!(" probability 0.{:02}", draw.range(1..=50));
    }
    for flag in ["ecn", "harddrop", "adaptive"] {
        if draw.percent(25) {
            words += &format!(" {flag}");
        }
    }
    if words.contains("ecn") && draw.percent(25) {
        words += " nodrop";
    }
    words
}

fn codel(draw: &mut Draw) -> String {
    let mut words = String::new();
    if draw.percent(30) {
        words += &format!(" limit {}", draw.log_range(1..=5_000));
    }
    if draw.percent(40) {
        let target = draw.log_range(100..=50_000);
        words += &format!(" target {target}us interval {}us", target * draw.range(2..=30));
    }
    if draw.percent(20) {
        words += &format!(" ce_threshold {}us", draw.log_range(1..=20_000));
    }
    words += *draw.one_of(&["", " ecn", " noecn"]);
    words
}

fn fq_codel(draw: &mut Draw) -> String {
    let mut words = format!("fq_codel{}", codel(draw));
    if draw.percent(30) {
        words += &format!(" flows {}", draw.log_range(1..=1_024));
    }
    if draw.percent(30) {
        words += &format!(" quantum {}", draw.log_range(256..=9_000));
    }
    if draw.percent(25) {
        words += &format!(" memory_limit {}", draw.log_range(4_000..=4_000_000));
    }
    if draw.percent(25) {
        words += &format!(" drop_batch {}", draw.log_range(1..=64));
    }
    words
}

fn fq(draw: &mut Draw) -> String {
    let mut words = "fq".to_owned();
    if draw.percent(30) {
        words += &format!(" limit {}", draw.log_range(1..=10_000));
    }
    if draw.percent(30) {
        words += &format!(" flow_limit {}", draw.log_range(1..=200));
    }
    if draw.percent(25) {
        words += &format!(" quantum {}", draw.log_range(256..=9_000));
    }
    if draw.percent(25) {
        words += &format!(" initial_quantum {}", draw.log_range(256..=50_000));
    }
    if draw.percent(25) {
        words += &format!(" maxrate {}kbit", draw.log_range(200..=1_000_000));
    }
    if draw.percent(15) {
        words += &format!(" low_rate_threshold {}kbit", draw.log_range(1..=10_000));
    }
    if draw.percent(15) {
        words += &format!(" refill_delay {}ms", draw.range(1..=100));
    }
    if draw.percent(15) {
        words += &format!(" ce_threshold {}us", draw.log_range(1..=20_000));
    }
    if draw.percent(15) {
        words += &format!(" buckets {}", 1 << draw.range(0..=10));
    }
    if draw.percent(15) {
        let what = draw.one_of(&["horizon_cap", "horizon_drop"]);
        words += &format!(" horizon {}ms {what}", draw.log_range(1..=10_000));
    }
    words += *draw.one_of(&["", "", " nopacing"]);
    words
}

fn cake(draw: &mut Draw) -> String {
    let mut words = "cake".to_owned();
    if draw.percent(70) {
        words += &format!(" bandwidth {}kbit", draw.log_range(64..=1_000_000));
        if draw.percent(10) {
            words += " autorate-ingress";
        }
    } else {
        words += " unlimited";
    }
    let mut one = |draw: &mut Draw, chance: u64, choices: &[&str]| {
        if draw.percent(chance) {
            words += " ";
            words += *draw.one_of(choices);
        }
    };
    one(draw, 60, &["besteffort", "precedence", "diffserv8", "diffserv4", "diffserv3"]);
    let flows = [
        "flowblind",
        "srchost",
        "dsthost",
        "hosts",
        "flows",
        "dual-srchost",
        "dual-dsthost",
        "triple-isolate",
    ];
    one(draw, 60, &flows);
    one(draw, 40, &["ack-filter", "ack-filter-aggressive"]);
    one(draw, 40, &["rtt 100us", "lan", "metro", "satellite", "rtt 37ms"]);
    one(draw, 30, &["split-gso", "no-split-gso"]);
    one(
        draw,
        30,
        &["atm overhead 18", "ptm", "overhead -14 mpu 64", "docsis", "conservative", "raw"],
    );
    one(draw, 20, &["wash", "nat", "ingress"]);
    one(draw, 25, &["memlimit 20kb", "memlimit 200kb", "memlimit 4mb"]);
    words
}

/// A sysctl with a value of the kernel's range, and now and then one beyond what is drawn else.
pub fn sysctl(draw: &mut Draw) -> String {
    let (name, least, most) = *draw.one_of(SYSCTLS);
    let value = match draw.range(0..=99) {
        0..=14 => least,
        15..=24 => most,
        // With a low-water mark of 0 nobody may ever write.
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
    ("tcp_notsent_lowat", 1, 4_294_967_295),
    ("tcp_orphan_retries", 0, 10),
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
    ("tcp_window_scaling", 0, 1),
    ("tcp_wmem", 4_096, 4_194_304),
    ("ip_no_pmtu_disc", 0, 3),
    ("min_pmtu", 552, 1_500),
    ("mtu_expires", 1, 600),
];
