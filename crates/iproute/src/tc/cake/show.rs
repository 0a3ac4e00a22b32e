//! CAKE's options and statistics as `tc` of iproute2 6.1 shows them.

use crate::units::{show_rate, show_size, show_time};
use datapath::qdisc::cake::{
    AckFilter, Cake, CakeStats, FlowMode, FlowStats, Framing, Sizes, TinMode, TinStats,
};
use datapath::qdisc::{Handle, Qdisc, Stats};
use datapath::units::{Duration, Rate};
use serde_json::{Map, Value, json};
use std::fmt::Write as _;

/// The options, as in the first line of `tc qdisc show`.
pub fn options_text(cake: &Cake) -> String {
    let config = cake.config();
    let rate = cake.cake_stats().rate;
    let mut words = vec![match rate {
        0 => "bandwidth unlimited".to_owned(),
        rate => format!("bandwidth {}", show_rate(Rate::from_bytes_per_sec(rate))),
    }];
    let mut word = |text: &str| words.push(text.to_owned());
    if config.autorate_ingress {
        word("autorate-ingress");
    }
    word(tins_name(config.tins));
    word(flows_name(config.flows));
    word(if config.nat { "nat" } else { "nonat" });
    word(if config.wash { "wash" } else { "nowash" });
    if config.ingress {
        word("ingress");
    }
    word(ack_filter_name(config.ack_filter));
    word(if config.split_gso { "split-gso" } else { "no-split-gso" });
    word(&format!("rtt {}", show_time(config.interval)));
    if !config.compensate {
        word("raw");
    }
    if let Some(framing) = framing_name(config.framing, config.compensate) {
        word(framing);
    }
    word(&format!("overhead {}", config.overhead));
    if config.mpu != 0 {
        word(&format!("mpu {}", config.mpu));
    }
    if config.memlimit != 0 {
        word(&format!("memlimit {}", show_size(config.memlimit)));
    }
    if config.fwmark_mask != 0 {
        word(&format!("fwmark {:#x}", config.fwmark_mask));
    }
    words.join(" ")
}

/// The word that chooses a filter.
pub const fn ack_filter_name(filter: AckFilter) -> &'static str {
    match filter {
        AckFilter::Off => "no-ack-filter",
        AckFilter::Conservative => "ack-filter",
        AckFilter::Aggressive => "ack-filter-aggressive",
        AckFilter::V8Conservative => "ack-filter-v8",
        AckFilter::V8Aggressive => "ack-filter-v8-aggressive",
        AckFilter::Naive => "ack-filter-naive",
    }
}

/// The object of `tc -s -j qdisc show dev DEVICE` for this qdisc at the root.
pub fn qdisc_json(cake: &Cake, handle: Handle) -> Value {
    let Stats { bytes, packets, drops, overlimits, requeues } = cake.stats();
    let backlog = cake.backlog();
    let mut qdisc = json!({
        "kind": "cake",
        "handle": handle.to_string(),
        "root": true,
        "refcnt": 2,
        "options": options_json(cake),
        "bytes": bytes,
        "packets": packets,
        "drops": drops,
        "overlimits": overlimits,
        "requeues": requeues,
        "backlog": backlog.bytes,
        "qlen": backlog.packets,
    });
    if let Value::Object(object) = &mut qdisc {
        object.extend(stats_json(&cake.cake_stats()));
    }
    qdisc
}

/// The `options` object of `tc -j qdisc show`.
pub fn options_json(cake: &Cake) -> Value {
    let config = cake.config();
    let mut options = Map::new();
    let mut put = |key: &str, value: Value| options.insert(key.to_owned(), value);
    put(
        "bandwidth",
        match cake.cake_stats().rate {
            0 => json!("unlimited"),
            rate => json!(rate),
        },
    );
    if config.autorate_ingress {
        put("autorate", json!("autorate-ingress"));
    }
    put("diffserv", json!(tins_name(config.tins)));
    put("flowmode", json!(flows_name(config.flows)));
    put("nat", json!(config.nat));
    put("wash", json!(config.wash));
    put("ingress", json!(config.ingress));
    put(
        "ack-filter",
        json!(match config.ack_filter {
            AckFilter::Off => "disabled",
            AckFilter::Conservative => "enabled",
            AckFilter::Aggressive => "aggressive",
            AckFilter::V8Conservative => "v8",
            AckFilter::V8Aggressive => "v8-aggressive",
            AckFilter::Naive => "naive",
        }),
    );
    put("split_gso", json!(config.split_gso));
    put("rtt", json!(config.interval.as_micros()));
    put("raw", json!(!config.compensate));
    if let Some(framing) = framing_name(config.framing, config.compensate) {
        put("atm", json!(framing));
    }
    put("overhead", json!(config.overhead));
    if config.mpu != 0 {
        put("mpu", json!(config.mpu));
    }
    if config.memlimit != 0 {
        put("memlimit", json!(config.memlimit));
    }
    let mask = config.fwmark_mask;
    put("fwmark", json!(if mask == 0 { "0".to_owned() } else { format!("{mask:#x}") }));
    Value::Object(options)
}

/// CAKE's own statistics, as `tc -s -j qdisc show` adds them to the object of the qdisc.
pub fn stats_json(stats: &CakeStats) -> Map<String, Value> {
    let CakeStats { rate: _, memory_used, memory_limit, capacity_estimate, sizes, tins } = stats;
    let mut object = Map::new();
    let mut put = |key: &str, value: Value| object.insert(key.to_owned(), value);
    put("memory_used", json!(memory_used));
    put("memory_limit", json!(u32::try_from(*memory_limit).unwrap_or(u32::MAX)));
    put("capacity_estimate", json!(capacity_estimate));
    put("min_network_size", json!(sizes.min_network));
    put("max_network_size", json!(sizes.max_network));
    put("min_adj_size", json!(sizes.min_adjusted));
    put("max_adj_size", json!(sizes.max_adjusted));
    put("avg_hdr_offset", json!(sizes.header_offset()));
    put("tins", tins.iter().map(tin_json).collect());
    object
}

fn tin_json(tin: &TinStats) -> Value {
    json!({
        "threshold_rate": tin.threshold_rate,
        "sent_bytes": tin.sent_bytes,
        "backlog_bytes": tin.backlog_bytes,
        "target_us": tin.target_us,
        "interval_us": tin.interval_us,
        "peak_delay_us": tin.peak_delay_us,
        "avg_delay_us": tin.average_delay_us,
        "base_delay_us": tin.base_delay_us,
        "sent_packets": tin.sent_packets,
        "way_indirect_hits": tin.way_indirect_hits,
        "way_misses": tin.way_misses,
        "way_collisions": tin.way_collisions,
        "drops": tin.drops,
        "ecn_mark": tin.ecn_mark,
        "ack_drops": tin.ack_drops,
        "sparse_flows": tin.sparse_flows,
        "bulk_flows": tin.bulk_flows,
        "unresponsive_flows": tin.unresponsive_flows,
        "max_pkt_len": tin.max_pkt_len,
        "flow_quantum": tin.flow_quantum,
    })
}

/// CAKE's own statistics, as `tc -s qdisc show` prints them below the common ones.
pub fn stats_text(stats: &CakeStats) -> String {
    let CakeStats { rate: _, memory_used, memory_limit, capacity_estimate, sizes, tins } = stats;
    let mut text = String::new();
    let bytes = |bytes: u64| show_size(u32::try_from(bytes).unwrap_or(u32::MAX));
    let mut line = |content: String| writeln!(text, "{content}").expect("a string takes any text");
    line(format!(" memory used: {} of {}", bytes(*memory_used), bytes(*memory_limit)));
    line(format!(
        " capacity estimate: {}",
        show_rate(Rate::from_bytes_per_sec(*capacity_estimate))
    ));
    let Sizes { min_network, max_network, min_adjusted, max_adjusted, .. } = sizes;
    line(format!(" min/max network layer size: {min_network:>12} /{max_network:>8}"));
    line(format!(" min/max overhead-adjusted size: {min_adjusted:>8} /{max_adjusted:>8}"));
    line(format!(" average network hdr offset: {:>12}", sizes.header_offset()));
    line(String::new());
    line(heading(tins));
    for (name, value) in ROWS {
        line(row(&format!("  {name:<8}"), tins.iter().map(value)));
    }
    text
}

/// The line with the tins' names.
fn heading(tins: &[TinStats]) -> String {
    row(&" ".repeat(10), tins.iter().map(|tin| tin.name.to_owned()))
}

/// One line of the tin table.
fn row(name: &str, cells: impl Iterator<Item = String>) -> String {
    cells.fold(name.to_owned(), |line, cell| format!("{line} {cell:>12}"))
}

/// What a row of the tin table shows of a tin.
type Cell = fn(&TinStats) -> String;

/// The rows of the tin table, in their order.
const ROWS: [(&str, Cell); 20] = [
    ("thresh", |tin| show_rate(Rate::from_bytes_per_sec(tin.threshold_rate))),
    ("target", |tin| show_micros(tin.target_us)),
    ("interval", |tin| show_micros(tin.interval_us)),
    ("pk_delay", |tin| show_micros(tin.peak_delay_us)),
    ("av_delay", |tin| show_micros(tin.average_delay_us)),
    ("sp_delay", |tin| show_micros(tin.base_delay_us)),
    ("backlog", |tin| show_size(tin.backlog_bytes)),
    ("pkts", |tin| tin.sent_packets.to_string()),
    ("bytes", |tin| tin.sent_bytes.to_string()),
    ("way_inds", |tin| tin.way_indirect_hits.to_string()),
    ("way_miss", |tin| tin.way_misses.to_string()),
    ("way_cols", |tin| tin.way_collisions.to_string()),
    ("drops", |tin| tin.drops.to_string()),
    ("marks", |tin| tin.ecn_mark.to_string()),
    ("ack_drop", |tin| tin.ack_drops.to_string()),
    ("sp_flows", |tin| tin.sparse_flows.to_string()),
    ("bk_flows", |tin| tin.bulk_flows.to_string()),
    ("un_flows", |tin| tin.unresponsive_flows.to_string()),
    ("max_len", |tin| tin.max_pkt_len.to_string()),
    ("quantum", |tin| tin.flow_quantum.to_string()),
];

/// The classes of the qdisc with major number `major`, as `tc -s class show` prints them.
pub fn classes_text(major: u16, flows: &[FlowStats]) -> String {
    let mut text = String::new();
    for flow in flows {
        let FlowStats { minor, dropped, backlog, qlen, .. } = flow;
        write!(
            text,
            "class cake {major:x}:{minor:x} parent {major:x}: \n \
             Sent 0 bytes 0 pkt (dropped {dropped}, overlimits 0 requeues 0) \n \
             backlog {} {qlen}p requeues 0\n  {}\n",
            show_size(*backlog),
            flow_text(flow)
        )
        .expect("a string takes any text");
    }
    text
}

/// The state of a queue's AQM.
pub fn flow_text(flow: &FlowStats) -> String {
    let FlowStats { deficit, count, drop_next_us, blue_prob, blue_timer_us, .. } = flow;
    let dropping = drop_next_us.map(|at| format!(" dropping drop_next {}", signed_time(at)));
    let timer = blue_timer_us.map(|at| format!(" blue_timer {}", signed_time(at)));
    let (dropping, timer) = (dropping.unwrap_or_default(), timer.unwrap_or_default());
    format!("deficit {deficit} count {count}{dropping} blue_prob {blue_prob}{timer}")
}

fn signed_time(micros: i32) -> String {
    let sign = if micros < 0 { "-" } else { "" };
    format!("{sign}{}", show_micros(u64::from(micros.unsigned_abs())))
}

const fn tins_name(tins: TinMode) -> &'static str {
    match tins {
        TinMode::Besteffort => "besteffort",
        TinMode::Precedence => "precedence",
        TinMode::Diffserv8 => "diffserv8",
        TinMode::Diffserv4 => "diffserv4",
        TinMode::Diffserv3 => "diffserv3",
    }
}

const fn flows_name(flows: FlowMode) -> &'static str {
    match flows {
        FlowMode::Flowblind => "flowblind",
        FlowMode::Srchost => "srchost",
        FlowMode::Dsthost => "dsthost",
        FlowMode::Hosts => "hosts",
        FlowMode::Flows => "flows",
        FlowMode::DualSrchost => "dual-srchost",
        FlowMode::DualDsthost => "dual-dsthost",
        FlowMode::TripleIsolate => "triple-isolate",
    }
}

/// `noatm` is only said where lengths are compensated.
const fn framing_name(framing: Framing, compensate: bool) -> Option<&'static str> {
    match framing {
        Framing::Atm => Some("atm"),
        Framing::Ptm => Some("ptm"),
        Framing::None if compensate => Some("noatm"),
        Framing::None => None,
    }
}

fn show_micros(micros: u64) -> String {
    show_time(Duration::from_micros(micros))
}
