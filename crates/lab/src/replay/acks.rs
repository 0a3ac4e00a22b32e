//! What CAKE's ACK filters would drop of a capture, and by which rule.
//!
//! One pass over the capture feeds an instance of CAKE for each filter, at the same rate.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use datapath::packet::Packet;
use datapath::qdisc::cake::{AckFilter, AckRule, Cake, Config, pure_ack};
use datapath::qdisc::{AnyQdisc, Handle, Sched};
use datapath::reason::Reason;
use datapath::rng::Rng;
use datapath::units::Instant;
use iproute::tc::Device;
use iproute::tc::cake::ack_filter_name;
use serde_json::{Value, json};

use super::line::{Frame, Line, PacketOutcome};
use super::source::{Counts, Source};
use super::{EPOCH_NS, Error, Options, build, report};
use crate::report::{Table, number};
use crate::run::Progress;

/// Every filter, in the order in which they are compared.
pub const FILTERS: [AckFilter; 5] = [
    AckFilter::Conservative,
    AckFilter::Aggressive,
    AckFilter::V8Conservative,
    AckFilter::V8Aggressive,
    AckFilter::Naive,
];

/// What became of one pure ACK under one filter.
#[derive(Clone, Debug, PartialEq)]
pub struct ReplayedAck {
    /// The filter.
    pub filter: AckFilter,
    /// Which record of the capture it is, from 1.
    pub record: u64,
    /// When it came, in ns after the first packet.
    pub came_ns: u64,
    /// How long it waited until it was sent or dropped, in ns.
    pub waited_ns: u64,
    /// Its flow.
    pub flow: String,
    /// Its acknowledgment number.
    pub ack: u32,
    /// Sent, filtered, or dropped by the AQM or for lack of memory.
    pub end: End,
    /// The rule that decided last, and the record of the packet that had come; `None` if no later
    /// ACK arrived while it was queued.
    pub decided: Option<(AckRule, u64)>,
}

/// How an ACK ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// It was sent.
    Sent,
    /// The filter dropped it.
    Filtered,
    /// Something else dropped it.
    Dropped(Reason),
}

/// The sum over all pure ACKs under one filter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sum {
    /// Pure ACKs that came.
    pub acks: u64,
    /// Of them filtered.
    pub filtered: u64,
    /// Their bytes.
    pub filtered_bytes: u64,
    /// Dropped otherwise.
    pub dropped: u64,
    /// By the rule that decided last.
    pub rules: BTreeMap<AckRule, u64>,
    /// Nothing came behind them while they waited.
    pub alone: u64,
}

/// The whole result.
#[derive(Clone, Debug)]
pub struct AckReport {
    /// The capture's name.
    pub capture: String,
    /// The words of the qdisc, without the filter.
    pub qdisc: String,
    /// What was read.
    pub counts: Counts,
    /// By filter.
    pub sums: Vec<(AckFilter, Sum)>,
}

/// One filter at work.
struct Bench {
    filter: AckFilter,
    line: Line,
    /// Of what waits: the rule that decided last, and for which record.
    decided: Vec<Option<(AckRule, u64)>>,
    sum: Sum,
}

/// Explains the filters. `on_ack` is called for every pure ACK once its fate is known.
///
/// # Errors
/// As [`super::replay`]; the qdisc must be a CAKE.
pub fn explain(
    capture: &Path,
    options: &Options,
    filters: &[AckFilter],
    on_ack: &mut dyn FnMut(&ReplayedAck),
    progress: &dyn Progress,
    stop: &AtomicBool,
) -> Result<AckReport, Error> {
    let tree = build(&options.qdiscs, options.seed)?;
    let AnyQdisc::Cake(cake) = tree.qdisc() else {
        let words = options.qdiscs.join(", ");
        return Err(Error::Words(format!("--qdisc \"{words}\": only cake has an ACK filter")));
    };
    let config = *cake.config();
    let mut benches: Vec<Bench> =
        filters.iter().map(|&filter| Bench::new(config, filter, options)).collect();
    let mut source = Source::open(capture, options, progress, stop)?;
    while let Some(arrival) = source.next_arrival()? {
        let now = Instant::from_nanos(EPOCH_NS + arrival.since_start_ns);
        for bench in &mut benches {
            bench.arrive(now, &arrival.packet, arrival.frame.number, on_ack);
        }
    }
    for bench in &mut benches {
        bench.end(on_ack);
    }
    Ok(AckReport {
        capture: capture.display().to_string(),
        qdisc: options.qdiscs.join(", "),
        counts: source.counts(),
        sums: benches.into_iter().map(|bench| (bench.filter, bench.sum)).collect(),
    })
}

/// A pure ACK that has left, before the log was read.
struct DepartedAck {
    slot: usize,
    fate: ReplayedAck,
    bytes: u64,
}

impl Bench {
    fn new(config: Config, filter: AckFilter, options: &Options) -> Self {
        let config = Config { ack_filter: filter, ..config };
        let rng = Rng::stream(options.seed, 0);
        let cake = Cake::new(config, Device::default().psched_mtu, rng).with_ack_log();
        let line = Line::new(Sched::new(Handle::new(1, 0), cake), options.rate);
        Self { filter, line, decided: Vec::new(), sum: Sum::default() }
    }

    fn arrive(
        &mut self,
        now: Instant,
        packet: &Packet,
        record: u64,
        on_ack: &mut dyn FnMut(&ReplayedAck),
    ) {
        let filter = self.filter;
        let mut gone = Vec::new();
        self.line.run_until(now, &mut |fate| gone.extend(departed_ack(filter, &fate)));
        self.report_departed(std::mem::take(&mut gone), on_ack);
        let frame = Frame { number: record, ..Frame::default() };
        self.line.arrive(now, packet.clone(), frame, &mut |fate| {
            gone.extend(departed_ack(filter, &fate));
        });
        if let AnyQdisc::Cake(cake) = self.line.root_mut().qdisc_mut() {
            for judgement in cake.ack_log() {
                let slot = judgement.owner as usize;
                if self.decided.len() <= slot {
                    self.decided.resize(slot + 1, None);
                }
                self.decided[slot] = Some((judgement.rule, record));
            }
        }
        self.report_departed(gone, on_ack);
    }

    fn end(&mut self, on_ack: &mut dyn FnMut(&ReplayedAck)) {
        let filter = self.filter;
        let mut gone = Vec::new();
        self.line.drain(&mut |fate| gone.extend(departed_ack(filter, &fate)));
        self.report_departed(gone, on_ack);
    }

    fn report_departed(&mut self, gone: Vec<DepartedAck>, on_ack: &mut dyn FnMut(&ReplayedAck)) {
        for DepartedAck { slot, mut fate, bytes } in gone {
            fate.decided = self.decided.get_mut(slot).and_then(Option::take);
            let sum = &mut self.sum;
            sum.acks += 1;
            match fate.end {
                End::Filtered => {
                    sum.filtered += 1;
                    sum.filtered_bytes += bytes;
                }
                End::Dropped(_) => sum.dropped += 1,
                End::Sent => {}
            }
            match fate.decided {
                Some((rule, _)) => *sum.rules.entry(rule).or_default() += 1,
                None => sum.alone += 1,
            }
            on_ack(&fate);
        }
    }
}

/// The end of a packet, if it is a pure ACK.
fn departed_ack(filter: AckFilter, fate: &PacketOutcome<'_>) -> Option<DepartedAck> {
    let ack = pure_ack(fate.packet)?;
    let end = match fate.reason {
        None => End::Sent,
        Some(Reason::AckFilter) => End::Filtered,
        Some(reason) => End::Dropped(reason),
    };
    let flow = fate.packet.inner_flow().or_else(|| fate.packet.flow());
    Some(DepartedAck {
        slot: fate.packet.meta.owner as usize,
        bytes: u64::from(fate.packet.wire_len()),
        fate: ReplayedAck {
            filter,
            record: fate.frame.number,
            came_ns: fate.came.as_nanos().saturating_sub(EPOCH_NS),
            waited_ns: fate.at.saturating_since(fate.came).as_nanos(),
            flow: report::name(flow.as_ref()),
            ack,
            end,
            decided: None,
        },
    })
}

impl End {
    /// A word.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sent => "sent",
            Self::Filtered => "filtered",
            Self::Dropped(reason) => reason.name(),
        }
    }
}

impl ReplayedAck {
    /// As one line of text.
    pub fn text(&self) -> String {
        let why = match self.decided {
            Some((rule, by)) => format!("{} (behind it: #{by})", rule.sentence()),
            None => "no later ACK arrived while it was queued".into(),
        };
        format!(
            "{:.6} #{} {} {} ack {}: {}, {why}",
            self.came_ns as f64 / 1e9,
            self.record,
            ack_filter_name(self.filter),
            self.flow,
            self.ack,
            self.end.name(),
        )
    }

    /// As JSON.
    pub fn to_json(&self) -> Value {
        json!({
            "filter": ack_filter_name(self.filter),
            "record": self.record,
            "time_s": self.came_ns as f64 / 1e9,
            "waited_ms": self.waited_ns as f64 / 1e6,
            "flow": self.flow,
            "ack": self.ack,
            "end": self.end.name(),
            "rule": self.decided.map(|(rule, _)| rule.name()),
            "behind_it": self.decided.map(|(_, record)| record),
        })
    }
}

impl AckReport {
    /// A line for each filter.
    pub fn table(&self) -> Table {
        let head = ["filter", "ACKs", "filtered", "%", "bytes saved", "AQM drops"];
        let rows = self
            .sums
            .iter()
            .map(|(filter, sum)| {
                let share = sum.filtered as f64 * 100.0 / sum.acks.max(1) as f64;
                vec![
                    ack_filter_name(*filter).into(),
                    sum.acks.to_string(),
                    sum.filtered.to_string(),
                    number(share),
                    sum.filtered_bytes.to_string(),
                    sum.dropped.to_string(),
                ]
            })
            .collect();
        let mut numeric = vec![true; head.len()];
        numeric[0] = false;
        Table { head: head.map(String::from).to_vec(), rows, numeric }
    }

    /// By which rule, filter by filter.
    pub fn rules_table(&self) -> Table {
        let mut head = vec!["decided last by".to_owned()];
        head.extend(self.sums.iter().map(|(filter, _)| ack_filter_name(*filter).to_owned()));
        let mut rules: Vec<AckRule> =
            self.sums.iter().flat_map(|(_, sum)| sum.rules.keys().copied()).collect();
        rules.sort();
        rules.dedup();
        let mut rows: Vec<Vec<String>> = rules
            .iter()
            .map(|rule| {
                let mut row = vec![rule.sentence().to_owned()];
                let count = |sum: &Sum| sum.rules.get(rule).copied().unwrap_or(0).to_string();
                row.extend(self.sums.iter().map(|(_, sum)| count(sum)));
                row
            })
            .collect();
        let mut alone = vec!["nothing: no later ACK arrived".to_owned()];
        alone.extend(self.sums.iter().map(|(_, sum)| sum.alone.to_string()));
        rows.push(alone);
        let mut numeric = vec![true; head.len()];
        numeric[0] = false;
        Table { head, rows, numeric }
    }

    /// As JSON.
    pub fn to_json(&self) -> Value {
        let filters: Vec<Value> = self
            .sums
            .iter()
            .map(|(filter, sum)| {
                let rules: serde_json::Map<String, Value> = sum
                    .rules
                    .iter()
                    .map(|(rule, count)| (rule.name().to_owned(), json!(count)))
                    .collect();
                json!({
                    "filter": ack_filter_name(*filter),
                    "acks": sum.acks, "filtered": sum.filtered,
                    "filtered_bytes": sum.filtered_bytes, "dropped": sum.dropped,
                    "rules": rules, "alone": sum.alone,
                })
            })
            .collect();
        json!({
            "schema": 1, "capture": self.capture, "qdisc": self.qdisc,
            "read": self.counts.to_json(), "filters": filters,
        })
    }
}
