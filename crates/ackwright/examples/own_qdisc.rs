//! A qdisc of one's own, in an experiment file beside those of the product.
//!
//! `strict` has two queues: small packets go first, whatever waits of the large ones. It passes the laws
//! that every qdisc obeys; then a file names it, with its options.

use std::collections::VecDeque;
use std::error::Error;
use std::sync::atomic::AtomicBool;

use ackwright::datapath::packet::Packet;
use ackwright::datapath::qdisc::{Backlog, Cx, Qdisc, Stats, laws};
use ackwright::datapath::reason::{Enqueue, Reason};
use ackwright::datapath::units::Instant;
use ackwright::iproute::words::{GrammarError, Words};
use ackwright::lab::Registry;
use ackwright::lab::run::{Options, run};

#[derive(Clone, Default)]
struct Strict {
    limit: usize,
    /// Small packets, then all others.
    bands: [VecDeque<Packet>; 2],
    stats: Stats,
}

/// `limit PACKETS`, 100 by default.
fn strict(words: &mut Words<'_>) -> Result<Strict, GrammarError> {
    let mut limit = 100;
    while let Some(word) = words.next() {
        match word.text {
            "limit" => {
                let value = words.value(word)?;
                limit = value.text.parse().map_err(|_| value.illegal("limit"))?;
            }
            _ => return Err(word.unknown("strict", &["limit"])),
        }
    }
    Ok(Strict { limit, ..Strict::default() })
}

impl Qdisc for Strict {
    fn enqueue(&mut self, packet: Packet, cx: &mut Cx<'_>) -> Enqueue {
        let band = &mut self.bands[usize::from(packet.wire_len() > 200)];
        if band.len() >= self.limit {
            self.stats.drops += 1;
            cx.drop(Reason::QdiscDrop, packet);
            return Enqueue::Dropped;
        }
        band.push_back(packet);
        Enqueue::Queued
    }

    fn dequeue(&mut self, _: &mut Cx<'_>) -> Option<Packet> {
        let packet = self.bands.iter_mut().find_map(VecDeque::pop_front)?;
        self.stats.count_sent(&packet);
        Some(packet)
    }

    fn purge(&mut self, cx: &mut Cx<'_>) {
        self.bands.iter_mut().flat_map(|band| band.drain(..)).for_each(|packet| {
            cx.drop(Reason::QueuePurge, packet);
        });
    }

    fn wake_at(&self) -> Option<Instant> {
        None
    }

    fn backlog(&self) -> Backlog {
        self.bands.iter().flatten().map(Backlog::of).sum()
    }

    fn stats(&self) -> Stats {
        self.stats
    }
}

const EXPERIMENT: &str = include_str!("own_qdisc.toml");

fn main() -> Result<(), Box<dyn Error>> {
    laws::check(|_| Strict { limit: 10, ..Strict::default() })?;

    let mut registry = Registry::new();
    registry.qdisc("strict", |words, _| strict(words))?;
    let experiment = registry.parse("own_qdisc.toml", EXPERIMENT, &[])?;
    let stop = AtomicBool::new(false);
    for point in run(&experiment, &Options::silent(&stop), &|_, _, _| Ok(()))? {
        let metrics = &point.runs[0].metrics;
        let latency = metrics.iter().find(|it| it.scope == "ping" && it.name == "latency mean");
        let latency = latency.ok_or("a latency is measured")?;
        println!("{}: {:.2} {}", point.labels[0].1, latency.value, latency.unit);
    }
    Ok(())
}
