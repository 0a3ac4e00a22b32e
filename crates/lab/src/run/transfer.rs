//! What a flow has transferred within a time.

use apps::AppReport;
use datapath::units::Instant;

use super::apps::FlowEnds;
use crate::plan::{App, FlowPlan, Plan};

/// Payload that arrived within a time.
#[derive(Clone, Copy, Debug)]
pub struct Transfer {
    /// When the time begins.
    pub from: Instant,
    /// When it ends: no sooner.
    pub to: Instant,
    /// What arrived in it.
    pub bytes: u64,
}

impl Transfer {
    /// What arrived in a time; `None` if that is none.
    pub fn within(from: Instant, to: Instant, bytes: u64) -> Option<Self> {
        (to > from).then_some(Self { from, to, bytes })
    }

    /// Mbit/s; 0 if nothing arrived.
    pub fn rate(&self) -> f64 {
        let time = self.to.saturating_since(self.from).as_nanos() as f64 / 1e9;
        if time > 0.0 { self.bytes as f64 * 8.0 / time / 1e6 } else { 0.0 }
    }

    /// All bytes over the time from the first beginning to the last end. Rates that were never there
    /// at the same time make no sum.
    pub fn together(transfers: impl Iterator<Item = Self>) -> Option<Self> {
        transfers.reduce(|all, one| Self {
            from: all.from.min(one.from),
            to: all.to.max(one.to),
            bytes: all.bytes + one.bytes,
        })
    }
}

/// Transfers by flow: after the warm-up, and in the flows' early parts.
pub struct Transfers {
    /// After the warm-up.
    pub all: Vec<Option<Transfer>>,
    /// In their early parts.
    pub early: Vec<Option<Transfer>>,
}

impl Transfers {
    /// Nothing yet.
    pub fn new(flows: usize) -> Self {
        Self { all: vec![None; flows], early: vec![None; flows] }
    }
}

/// Payload bytes that arrived after the warm-up, and the time from its end (or the flow's start) to
/// the last byte of a finite or stopped flow, or to the end. `None` if the flow was over by then, or did not begin: it
/// has no rate.
pub fn after_warmup(
    plan: &Plan,
    flow: &FlowPlan,
    place: &FlowEnds,
    reports: (&AppReport, &AppReport),
    arrived_at_warmup: u64,
    end: Instant,
) -> Option<Transfer> {
    let (_, receiver) = reports;
    let from = place.start.max(Instant::ZERO + plan.warmup);
    let stop = flow.stop.map_or(end, |stop| (Instant::ZERO + stop).min(end));
    let bytes = receiver.received_bytes.saturating_sub(arrived_at_warmup);
    let is_over = end_of(flow, place, reports, end).is_some_and(|over| over <= from);
    match receiver.last_received {
        // It waits for the rest, which does not come.
        Some(last) if place.finite && last <= from && !is_over => {
            Some(Transfer { from, to: from, bytes })
        }
        Some(last) if place.finite => Transfer::within(from, last, bytes),
        // What the sender's buffer and queues held when the flow stopped comes after that.
        Some(last) => Transfer::within(from, stop.max(last), bytes),
        None => Transfer::within(from, stop, bytes),
    }
}

/// When a flow was over, if it was by now: when all that it sends had arrived, or what it had sent when it stopped.
pub fn end_of(
    flow: &FlowPlan,
    place: &FlowEnds,
    (sender, receiver): (&AppReport, &AppReport),
    now: Instant,
) -> Option<Instant> {
    let last = receiver.last_received;
    let is_whole = match size(&flow.app) {
        Some(bytes) => receiver.received_bytes >= bytes,
        None => place.finite && sender.finished.is_some(),
    };
    let stop = flow.stop.map(|stop| Instant::ZERO + stop).filter(|stop| *stop <= now);
    match stop {
        _ if is_whole => last.or(sender.finished),
        Some(stop) => last.max(Some(stop)),
        None => sender.finished.filter(|_| place.finite),
    }
}

/// What arrived in a flow's early part, which begins at `start` and lasts until `until`: all of it, in the time that it
/// took, if the `whole` flow was over by then, and otherwise what the last sample in it had seen.
pub fn early(
    start: Instant,
    until: Instant,
    whole: Option<(Instant, u64)>,
    sampled: Option<u64>,
) -> Option<Transfer> {
    match whole {
        Some((over, bytes)) if over <= until => Transfer::within(start, over, bytes),
        _ => Transfer::within(start, until, sampled?),
    }
}

/// All that an application sends, if that is known beforehand.
pub fn size(app: &App) -> Option<u64> {
    match app {
        App::Fixed { bytes } => Some(*bytes),
        App::Chunk { bytes, .. } => *bytes,
        _ => None,
    }
}
