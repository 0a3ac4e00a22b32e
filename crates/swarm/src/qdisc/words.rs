//! Random words for tc: every kind with any of its options, within and outside their ranges, and commands that add,
//! change, replace and delete qdiscs anywhere in a tree.

use iproute::tc::{parse_class, parse_qdisc};

use crate::draw::Draw;

/// What follows an option.
#[derive(Clone, Copy)]
enum Value {
    /// Nothing.
    Flag,
    /// A number of packets, flows or the like.
    Count,
    /// A size.
    Bytes,
    /// A small signed number, for overheads.
    Signed,
    /// A rate.
    Rate,
    /// A time.
    Time,
    /// A percentage.
    Percent,
    /// One of these.
    OneOf(&'static [&'static str]),
    /// These, one after the other; from the second on each may be missing.
    Several(&'static [Value]),
    /// A probability.
    Probability,
    /// A byte and a mask.
    Selector,
    /// A power of two.
    PowerOfTwo,
    /// Sixteen bands.
    PrioMap,
}

use Value::{
    Bytes, Count, Flag, OneOf, Percent, PowerOfTwo, PrioMap, Probability, Rate, Selector, Several,
    Signed, Time,
};

type Options = &'static [(&'static str, Value)];

const FIFO: Options = &[("limit", Count)];
const BFIFO: Options = &[("limit", Bytes)];
const TBF: Options = &[
    ("mtu", Bytes),
    ("peakrate", Rate),
    ("overhead", Signed),
    ("mpu", Bytes),
    ("linklayer", OneOf(&["ethernet", "atm", "adsl"])),
];
const NETEM: Options = &[
    ("limit", Count),
    ("delay", Several(&[Time, Time, Percent])),
    ("delay", Several(&[Time, Time, Percent])),
    ("distribution", OneOf(&["uniform", "normal", "pareto", "paretonormal"])),
    ("loss", Several(&[Percent, Percent])),
    ("loss random", Percent),
    ("loss state", Several(&[Percent, Percent, Percent, Percent, Percent])),
    ("loss gemodel", Several(&[Percent, Percent, Percent, Percent])),
    ("ecn", Flag),
    ("duplicate", Several(&[Percent, Percent])),
    ("corrupt", Several(&[Percent, Percent])),
    ("reorder", Several(&[Percent, Percent])),
    ("gap", Count),
    ("rate", Several(&[Rate, Signed, Count, Signed])),
    ("slot", Several(&[Time, Time])),
    ("slot 1ms 5ms packets", Count),
    ("slot 100us bytes", Bytes),
];
const RED: Options = &[
    ("min", Bytes),
    ("max", Bytes),
    ("burst", Count),
    ("probability", Probability),
    ("bandwidth", Rate),
    ("ecn", Flag),
    ("harddrop", Flag),
    ("ecn nodrop", Flag),
    ("adaptive", Flag),
];
const CODEL: Options = &[
    ("limit", Count),
    ("target", Time),
    ("interval", Time),
    ("ecn", Flag),
    ("noecn", Flag),
    ("ce_threshold", Time),
];
const FQ_CODEL: Options = &[
    ("limit", Count),
    ("target", Time),
    ("interval", Time),
    ("ecn", Flag),
    ("noecn", Flag),
    ("ce_threshold", Time),
    ("ce_threshold_selector", Selector),
    ("flows", Count),
    ("quantum", Bytes),
    ("memory_limit", Bytes),
    ("drop_batch", Count),
];
const DUALPI2: Options = &[
    ("limit", Count),
    ("memlimit", Count),
    ("target", Time),
    ("tupdate", Time),
    ("alpha", Probability),
    ("beta", Count),
    ("step_thresh", Time),
    ("step_thresh", OneOf(&["1p", "5pkts", "40packets", "0p"])),
    ("min_qlen_step", Count),
    ("coupling_factor", OneOf(&["1", "2", "3", "255", "0"])),
    ("drop_on_overload", Flag),
    ("overflow", Flag),
    ("drop_enqueue", Flag),
    ("drop_dequeue", Flag),
    ("classic_protection", Percent),
    ("max_rtt", Time),
    ("typical_rtt", Time),
    ("split_gso", Flag),
    ("no_split_gso", Flag),
    ("l4s_ect", Flag),
    ("any_ect", Flag),
];
const PIE: Options = &[
    ("limit", Count),
    ("target", Time),
    ("tupdate", Time),
    ("alpha", OneOf(&["0", "1", "2", "32", "33"])),
    ("beta", OneOf(&["0", "1", "20", "32", "33"])),
    ("ecn", Flag),
    ("noecn", Flag),
    ("bytemode", Flag),
    ("nobytemode", Flag),
    ("dq_rate_estimator", Flag),
    ("no_dq_rate_estimator", Flag),
];
const FQ: Options = &[
    ("limit", Count),
    ("flow_limit", Count),
    ("buckets", PowerOfTwo),
    ("orphan_mask", Count),
    ("quantum", Count),
    ("initial_quantum", Count),
    ("maxrate", Rate),
    ("low_rate_threshold", Rate),
    ("pacing", Flag),
    ("nopacing", Flag),
    ("refill_delay", Time),
    ("timer_slack", Count),
    ("ce_threshold", Time),
    ("horizon", Time),
    ("horizon_cap", Flag),
    ("horizon_drop", Flag),
];
const PRIO: Options = &[
    ("bands", OneOf(&["2", "3", "4", "5", "16", "1", "17"])),
    ("bands 2 priomap", OneOf(&["0 0 0 0 0 0 0 0 1 1 1 1 1 1 1 1", "1 0 1 0 1 0 1 0", "0"])),
    ("priomap", PrioMap),
];
const HTB: Options =
    &[("default", OneOf(&["1", "2", "3", "9", "0"])), ("r2q", Count), ("direct_qlen", Count)];
const HTB_CLASS: Options = &[
    ("ceil", Rate),
    ("burst", Bytes),
    ("cburst", Bytes),
    ("prio", OneOf(&["0", "1", "2", "7", "8"])),
    ("quantum", Bytes),
    ("mtu", Count),
    ("mpu", Count),
    ("overhead", Signed),
    ("linklayer", OneOf(&["ethernet", "atm", "adsl"])),
];
const CAKE: Options = &[
    ("bandwidth", Rate),
    ("bandwidth", Rate),
    ("unlimited", Flag),
    ("autorate-ingress", Flag),
    ("rtt", Time),
    (
        "",
        OneOf(&[
            "datacentre",
            "lan",
            "metro",
            "regional",
            "internet",
            "oceanic",
            "satellite",
            "interplanetary",
        ]),
    ),
    ("", OneOf(&["besteffort", "precedence", "diffserv8", "diffserv4", "diffserv3"])),
    (
        "",
        OneOf(&[
            "flowblind",
            "srchost",
            "dsthost",
            "hosts",
            "flows",
            "dual-srchost",
            "dual-dsthost",
            "triple-isolate",
        ]),
    ),
    ("", OneOf(&["nat", "nonat", "wash", "nowash", "ingress", "egress"])),
    ("", OneOf(&["split-gso", "no-split-gso"])),
    (
        "",
        OneOf(&[
            "ack-filter",
            "ack-filter-aggressive",
            "ack-filter-v8",
            "ack-filter-v8-aggressive",
            "ack-filter-naive",
            "no-ack-filter",
        ]),
    ),
    ("memlimit", Bytes),
    ("fwmark", OneOf(&["0x7", "0xff00", "1", "0"])),
    ("overhead", Signed),
    ("mpu", Signed),
    ("", OneOf(&["raw", "conservative", "ethernet", "ether-vlan", "docsis", "pppoe-ptm", "atm"])),
];

/// Each kind, how often it is drawn, what it cannot do without, and its options.
const KINDS: &[(u32, (&str, Options))] = &[
    (2, ("pfifo", FIFO)),
    (2, ("bfifo", BFIFO)),
    (1, ("pfifo_head_drop", FIFO)),
    (1, ("pfifo_fast", &[])),
    (1, ("noqueue", &[])),
    (4, ("prio", PRIO)),
    (2, ("htb", HTB)),
    (5, ("tbf", TBF)),
    (5, ("netem", NETEM)),
    (3, ("red", RED)),
    (2, ("codel", CODEL)),
    (3, ("fq", FQ)),
    (3, ("fq_codel", FQ_CODEL)),
    (3, ("dualpi2", DUALPI2)),
    (3, ("pie", PIE)),
    (6, ("cake", CAKE)),
];

/// What no range allows, and numbers at the edge of one.
const WILD: &[&str] = &[
    "0",
    "1",
    "-1",
    "2147483647",
    "2147483648",
    "4294967295",
    "4294967296",
    "18446744073709551615",
    "99999999999999999999999",
    "1e9",
    "0x10",
    "5x",
    "ab",
    "1gbit",
    "4000000000s",
    "0us",
    "100%",
];

/// A kind with options, of the same kind as the qdisc with this handle more often than not.
fn spec_like(tree: &[String], handle: u64, draw: &mut Draw) -> String {
    let there = tree.iter().find(|command| command.contains(&format!("handle {handle}: ")));
    let words = there.and_then(|command| command.split(": ").nth(1));
    let kind = words.and_then(|words| words.split(' ').next());
    let known = KINDS.iter().find(|(_, (name, _))| Some(*name) == kind);
    match known {
        Some((_, (kind, options))) if draw.percent(75) => spec(kind, options, draw),
        _ => any_spec(draw),
    }
}

/// A kind with options.
fn any_spec(draw: &mut Draw) -> String {
    let (kind, options) = *draw.weighted(KINDS);
    spec(kind, options, draw)
}

/// A kind that has classes, with options.
fn classful_spec(draw: &mut Draw) -> String {
    let classful: [(u32, (&str, Options)); 4] =
        [(2, ("prio", PRIO)), (3, ("tbf", TBF)), (2, ("netem", NETEM)), (1, ("red", RED))];
    let (kind, options) = *draw.weighted(&classful);
    spec(kind, options, draw)
}

fn spec(kind: &str, options: Options, draw: &mut Draw) -> String {
    let mut words = vec![kind.to_owned()];
    match kind {
        "tbf" => words.push(tbf_basics(draw)),
        "red" => words.push(red_basics(draw)),
        _ => {}
    }
    if !options.is_empty() {
        let most = if draw.percent(20) { 8 } else { 3 };
        for _ in 0..draw.range(0..=most) {
            let (name, value) = *draw.one_of(options);
            if kind == "tbf" {
                // It takes no option twice.
                words.retain(|said| said.split(' ').next() != Some(name));
            }
            words.push(format!("{name} {}", any_value(value, draw)));
        }
    }
    words.join(" ").split_whitespace().collect::<Vec<_>>().join(" ")
}

fn tbf_basics(draw: &mut Draw) -> String {
    let burst = match draw.range(0..=9) {
        0..=6 => draw.log_range(1_600..=200_000).to_string(),
        7..=8 => draw.range(1..=3_000).to_string(),
        _ => any_value(Bytes, draw),
    };
    let room = if draw.percent(50) {
        format!("limit {}", draw.log_range(1_000..=1_000_000))
    } else {
        format!("latency {}", any_value(Time, draw))
    };
    format!("rate {} burst {burst} {room}", any_value(Rate, draw))
}

fn red_basics(draw: &mut Draw) -> String {
    if draw.percent(10) {
        return format!("limit {} avpkt {}", any_value(Bytes, draw), any_value(Bytes, draw));
    }
    let min = draw.log_range(2_000..=30_000);
    let burst = min / 1_000 + draw.range(1..=20);
    let (max, limit) = (3 * min, 6 * min + draw.log_range(0..=100_000));
    format!("limit {limit} min {min} max {max} avpkt 1000 burst {burst}")
}

fn any_value(value: Value, draw: &mut Draw) -> String {
    if !matches!(value, Flag | OneOf(_) | Several(_) | PrioMap) && draw.percent(3) {
        return (*draw.one_of(WILD)).to_owned();
    }
    match value {
        Flag => String::new(),
        Count => draw.log_range(1..=2_000).to_string(),
        Bytes => draw.log_range(1_000..=400_000).to_string(),
        Signed => format!("{}", draw.range(0..=80) as i64 - 20),
        Rate => {
            let unit = draw.one_of(&["kbit", "mbit", "kbps"]);
            format!("{}{unit}", draw.log_range(50..=5_000))
        }
        Time => {
            let unit = *draw.weighted(&[(6, "us"), (6, "ms"), (1, "s")]);
            let most = if unit == "s" { 20 } else { 900 };
            format!("{}{unit}", draw.log_range(1..=most))
        }
        Percent => format!("{}%", draw.one_of(&["0", "0.1", "1", "10", "25", "50", "90", "100"])),
        OneOf(choices) => (*draw.one_of(choices)).to_owned(),
        Several(values) => {
            let count = draw.range(1..=values.len() as u64) as usize;
            let words = values[..count].iter().map(|value| any_value(*value, draw));
            words.collect::<Vec<_>>().join(" ")
        }
        Probability => (*draw.one_of(&["0.02", "0.1", "0.5", "1", "1e-5"])).to_owned(),
        Selector => (*draw.one_of(&["0x01/0x03", "0/0", "0x4/0xfc"])).to_owned(),
        PowerOfTwo => (1u64 << draw.range(0..=12)).to_string(),
        PrioMap => {
            let bands: Vec<String> = (0..16).map(|_| draw.range(0..=2).to_string()).collect();
            bands.join(" ")
        }
    }
}

/// The commands that build a tree on a device called `d`, from the root on; its qdiscs are 1: to 4:. With
/// some of the values out of range: see [`sane_tree`].
pub fn build(draw: &mut Draw) -> Vec<String> {
    match draw.range(0..=19) {
        0..=1 => return with_filters(bands(draw), draw),
        2 => return with_filters(classes(draw), draw),
        3..=4 => return sharing(draw),
        _ => {}
    }
    let depth = *draw.weighted(&[(4, 1), (4, 2), (3, 3), (1, 4)]);
    let mut commands = Vec::new();
    for handle in 1..=depth {
        let place = match handle {
            1 => "root".to_owned(),
            _ => format!("parent {}:{}", draw.range(1..=handle - 1), draw.range(1..=3)),
        };
        let spec = if handle < depth { classful_spec(draw) } else { any_spec(draw) };
        commands.push(format!("qdisc add dev d {place} handle {handle}: {spec}"));
    }
    commands
}

/// Commands that build a tree on a device called `d`, each of which tc takes.
pub fn sane_tree(draw: &mut Draw) -> Vec<String> {
    let mut commands = build(draw);
    for command in &mut commands {
        if command.starts_with("filter") {
            continue;
        }
        if command.starts_with("class") {
            if parse_class(command).is_err() {
                let place = command.split(" htb").next().unwrap_or_default();
                *command = format!("{place} htb rate 1mbit");
            }
        } else if parse_qdisc(command).is_err() {
            let place = command.split(": ").next().unwrap_or_default();
            *command = format!("{place}: pfifo limit {}", draw.log_range(1..=2_000));
        }
    }
    commands
}

/// A prio, and in each of its bands a qdisc that keeps packets waiting.
fn bands(draw: &mut Draw) -> Vec<String> {
    let mut commands = vec!["qdisc add dev d root handle 1: prio".to_owned()];
    for band in 1..=3 {
        let time = any_value(Time, draw);
        let spec = match draw.range(0..=4) {
            0 => spec("tbf", TBF, draw),
            1 => format!("cake bandwidth {}", any_value(Rate, draw)),
            2..=3 => format!("netem delay {time}"),
            _ => any_spec(draw),
        };
        commands.push(format!("qdisc add dev d parent 1:{band} handle {}: {spec}", band + 1));
    }
    commands
}

/// An htb with some classes, some of them below others, and in some of them queues of their own.
fn classes(draw: &mut Draw) -> Vec<String> {
    let htb = spec("htb", HTB, draw);
    let mut commands = vec![format!("qdisc add dev d root handle 1: {htb}")];
    for class in 1..=draw.range(1..=4) {
        let parent = draw.range(0..=class - 1);
        let class = format!("parent 1:{parent} classid 1:{class}");
        commands.push(format!("class add dev d {class} {}", class_spec(draw)));
    }
    for handle in 2..=draw.range(1..=3) {
        let place = format!("parent 1:{} handle {handle}:", draw.range(1..=4));
        commands.push(format!("qdisc add dev d {place} {}", any_spec(draw)));
    }
    commands
}

/// The tree with some filters of its root.
fn with_filters(mut commands: Vec<String>, draw: &mut Draw) -> Vec<String> {
    let count = *draw.weighted(&[(1, 0), (1, 2), (1, 5)]);
    commands.extend((0..count).map(|_| any_filter(1, draw)));
    commands
}

/// Classes that live by what they borrow from one above them, chosen by marks.
fn sharing(draw: &mut Draw) -> Vec<String> {
    let mut commands = vec![
        "qdisc add dev d root handle 1: htb default 4".to_owned(),
        format!("class add dev d parent 1: classid 1:1 htb rate {}", any_value(Rate, draw)),
    ];
    let ceil = draw.log_range(500..=20_000);
    for class in 2..=4 {
        let prio = draw.weighted(&[(3, ""), (1, " prio 1")]);
        let quantum = draw.maybe(60, |draw| draw.log_range(600..=20_000));
        let quantum = quantum.map_or(String::new(), |bytes| format!(" quantum {bytes}"));
        let rate = draw.log_range(8..=200);
        commands.push(format!(
            "class add dev d parent 1:1 classid 1:{class} htb rate {rate}kbit ceil {ceil}kbit{prio}{quantum}"
        ));
    }
    for mark in 1..=2 {
        commands.push(format!(
            "filter add dev d parent 1: prio 1 handle {mark} fw flowid 1:{}",
            mark + 1
        ));
    }
    commands
}

/// What a class of htb is to be.
fn class_spec(draw: &mut Draw) -> String {
    let mut words = vec![format!("htb rate {}", any_value(Rate, draw))];
    for _ in 0..draw.range(0..=3) {
        let (name, value) = *draw.one_of(HTB_CLASS);
        words.push(format!("{name} {}", any_value(value, draw)));
    }
    words.join(" ")
}

/// A command about the classes of htb.
fn any_class_command(draw: &mut Draw) -> String {
    let class = format!("classid 1:{}", draw.range(0..=5));
    let verb = *draw.weighted(&[(3, "add"), (3, "change"), (1, "replace"), (3, "del")]);
    if verb == "del" {
        return format!("class del dev d {class}");
    }
    let parent = draw.range(0..=5);
    format!("class {verb} dev d parent 1:{parent} {class} {}", class_spec(draw))
}

/// Any command on a tree that these commands have built.
pub fn any_command(tree: &[String], draw: &mut Draw) -> String {
    if let Some(at) = tree.iter().position(|command| command.contains(": prio"))
        && draw.percent(20)
    {
        let place = if at == 0 { "root " } else { "" };
        let bands = draw.range(2..=4);
        let map = "priomap 0 1 1 1 0 1 0 0 1 1 1 1 1 1 1 1";
        return format!("qdisc change dev d {place}handle {}: prio bands {bands} {map}", at + 1);
    }
    if tree.iter().any(|command| command.contains(": htb")) && draw.percent(40) {
        return any_class_command(draw);
    }
    if draw.percent(10) {
        let parent = draw.range(1..=4);
        return any_filter(parent, draw);
    }
    let handle = draw.range(1..=tree.len() as u64 + 1);
    let class = format!("parent {}:{}", draw.range(1..=4), draw.range(0..=4));
    let place = match draw.range(0..=9) {
        0..=2 => format!("root handle {handle}:"),
        3..=4 => format!("handle {handle}:"),
        5..=7 => format!("{class} handle {handle}:"),
        8 => "root".to_owned(),
        _ => class.clone(),
    };
    let verb = *draw.weighted(&[(3, "replace"), (3, "change"), (2, "add"), (1, "del")]);
    if verb == "del" {
        let place = if draw.percent(30) { "root" } else { &class };
        return format!("qdisc del dev d {place}");
    }
    format!("qdisc {verb} dev d {place} {}", spec_like(tree, handle, draw))
}

/// What follows `police`.
pub fn police(draw: &mut Draw) -> String {
    let mtu = draw.one_of(&["mtu 2000", "mtu 70000", "mtu 600", ""]);
    let peak = draw.one_of(&["", "", "peakrate 100mbit mtu 2000"]);
    let action = draw.one_of(&["drop", "conform-exceed drop/pipe", "conform-exceed continue/ok"]);
    let burst = draw.log_range(100..=100_000);
    match draw.range(0..=9) {
        0 => format!("mtu {} {action}", draw.range(60..=3_000)),
        _ => format!("rate {} burst {burst} {mtu} {peak} {action}", any_value(Rate, draw)),
    }
}

fn any_filter(parent: u64, draw: &mut Draw) -> String {
    let matches = match draw.range(0..=3) {
        0 => "matchall".to_owned(),
        1 => format!("handle {}{} fw", draw.range(1..=2), draw.one_of(&["", "/0x3", "/0"])),
        _ => {
            let count = *draw.weighted(&[(3, 1), (1, 2)]);
            let all: Vec<String> = (0..count).map(|_| selector(draw)).collect();
            format!("u32 {}", all.join(" "))
        }
    };
    let class = format!("{parent}:{}", draw.range(0..=4));
    let of_class = if draw.percent(15) { "1" } else { "" };
    format!(
        "filter add dev d parent {parent}:{of_class} prio {} {matches} flowid {class}",
        draw.range(1..=3)
    )
}

/// What u32 looks at.
fn selector(draw: &mut Draw) -> String {
    match draw.range(0..=3) {
        0 => format!("match ip dsfield {:#x} 0xfc", draw.one_of(&[0, 0xb8, 0x20])),
        1 => format!("match ip sport {} 0xffff", draw.range(1..=20)),
        2 => format!("match ip dport {} 0xffff", draw.one_of(&[53, 80])),
        _ => format!("match ip protocol {} 0xff", draw.one_of(&[1, 6, 17, 41])),
    }
}
