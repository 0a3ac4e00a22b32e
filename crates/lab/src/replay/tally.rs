//! Counting what a qdisc did: in all, for each flow, and over time.

use std::collections::HashMap;

use datapath::packet::{FlowTuple, Packet};
use datapath::reason::Reason;
use datapath::units::Instant;

use super::EPOCH_NS;
use super::bins::Bins;
use super::delays::Delays;
use super::line::PacketOutcome;

/// Number of flows counted separately; the packets of all later ones are counted together.
pub const MOST_FLOWS: usize = 10_000;

/// What happened to the packets of one flow, or of all.
#[derive(Clone, Debug, Default)]
pub struct Account {
    /// Packets and bytes that came.
    pub came: (u64, u64),
    /// Packets and bytes that were sent.
    pub sent: (u64, u64),
    /// Packets dropped, filtered ACKs not included.
    pub drops: u64,
    /// ACKs filtered.
    pub acks: u64,
    /// Packets that left with CE and had come without.
    pub marks: u64,
    /// Delays of what was sent.
    delays: Delays,
    /// First and last arrival.
    span_in: Option<(Instant, Instant)>,
    /// First and last departure.
    span_out: Option<(Instant, Instant)>,
}

/// The whole count.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// All packets.
    pub all: Account,
    /// Drops by reason, in the order of their first.
    pub reasons: Vec<(Reason, u64)>,
    /// By flow, in the order of their first packet; `None` is what is not IP.
    pub flows: Vec<(Option<FlowTuple>, Account)>,
    /// Flows beyond `MOST_FLOWS`, together.
    pub others: Option<Account>,
    /// Over time.
    pub bins: Bins,
    index: HashMap<Option<FlowTuple>, usize>,
}

impl Tally {
    /// A packet comes.
    pub fn entered(&mut self, now: Instant, packet: &Packet) {
        let len = u64::from(packet.wire_len());
        self.bins.at(since_start(now)).in_bytes += len;
        self.account(packet).enter(now, len);
        self.all.enter(now, len);
    }

    /// A packet leaves.
    pub fn on_departure(&mut self, fate: &PacketOutcome<'_>) {
        let bin = self.bins.at(since_start(fate.at));
        match fate.reason {
            None => {
                bin.out_bytes += u64::from(fate.packet.wire_len());
                bin.sent += 1;
                bin.delay_ns += fate.at.saturating_since(fate.came).as_nanos();
                bin.marks += u64::from(fate.marked);
            }
            Some(Reason::AckFilter) => bin.acks += 1,
            Some(_) => bin.drops += 1,
        }
        if let Some(reason) = fate.reason {
            match self.reasons.iter_mut().find(|(known, _)| *known == reason) {
                Some((_, count)) => *count += 1,
                None => self.reasons.push((reason, 1)),
            }
        }
        self.account(fate.packet).leave(fate);
        self.all.leave(fate);
    }

    fn account(&mut self, packet: &Packet) -> &mut Account {
        let flow = packet.inner_flow().or_else(|| packet.flow());
        let known = self.index.get(&flow).copied();
        let place = known.or_else(|| {
            (self.flows.len() < MOST_FLOWS).then(|| {
                self.flows.push((flow, Account::default()));
                self.index.insert(flow, self.flows.len() - 1);
                self.flows.len() - 1
            })
        });
        match place {
            Some(place) => &mut self.flows[place].1,
            None => self.others.get_or_insert_default(),
        }
    }
}

impl Account {
    fn enter(&mut self, now: Instant, len: u64) {
        self.came = (self.came.0 + 1, self.came.1 + len);
        self.span_in = Some((self.span_in.map_or(now, |(first, _)| first), now));
    }

    fn leave(&mut self, fate: &PacketOutcome<'_>) {
        match fate.reason {
            None => {
                let (packets, bytes) = self.sent;
                self.sent = (packets + 1, bytes + u64::from(fate.packet.wire_len()));
                self.marks += u64::from(fate.marked);
                let delay = fate.at.saturating_since(fate.came).as_nanos();
                self.delays.record(delay);
                self.span_out = Some((self.span_out.map_or(fate.at, |(first, _)| first), fate.at));
            }
            Some(Reason::AckFilter) => self.acks += 1,
            Some(_) => self.drops += 1,
        }
    }

    /// Mbit/s from the first to the last arrival; `None` if that is one moment.
    pub fn rate_in(&self) -> Option<f64> {
        rate(self.came.1, self.span_in)
    }

    /// Mbit/s from the first to the last departure; `None` if that is one moment.
    pub fn rate_out(&self) -> Option<f64> {
        rate(self.sent.1, self.span_out)
    }

    /// Mean delay in ms.
    pub fn mean_ms(&self) -> Option<f64> {
        self.delays.mean().map(|ns| ns / 1e6)
    }

    /// The delay that this share of packets does not exceed, in ms: to three digits, and that of all exactly.
    pub fn quantile_ms(&self, share: f64) -> Option<f64> {
        self.delays.quantile(share).map(|ns| ns as f64 / 1e6)
    }
}

fn rate(bytes: u64, span: Option<(Instant, Instant)>) -> Option<f64> {
    let (first, last) = span?;
    let seconds = last.saturating_since(first).as_nanos() as f64 / 1e9;
    (seconds > 0.0).then(|| bytes as f64 * 8.0 / seconds / 1e6)
}

fn since_start(at: Instant) -> u64 {
    at.as_nanos().saturating_sub(EPOCH_NS)
}
