//! CoDel by RFC 8289: no packet is marked or dropped before the queue has stood for an interval, and then one is.

use std::collections::VecDeque;

use datapath::packet::{Ecn, Packet};
use datapath::qdisc::codel::{CodelConfig, CodelParams};
use datapath::reason::Reason;
use datapath::units::Instant;

use super::call::Call;
use crate::case::BrokenLaw;

/// A queue under CoDel.
#[derive(Clone, Debug, Default)]
pub struct StandingQueue {
    /// Since when every packet that left had waited for longer than the target.
    since: Option<u32>,
    /// Somebody has been marked or dropped since.
    signalling: bool,
}

/// A waiting packet.
#[derive(Clone, Copy, Debug)]
pub struct WaitingPacket {
    /// The number that its body carries.
    pub number: u32,
    /// Bytes on the wire.
    pub len: u32,
    /// Memory.
    pub truesize: u32,
    /// When it came.
    came_at: Instant,
    ecn: Ecn,
    tos: u8,
}

/// What CoDel did with the packet at the head of its queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HeadOutcome {
    Passed,
    Signalled,
    /// It bears a mark that it may have come with, or that a threshold may have made.
    Unknown,
}

impl WaitingPacket {
    /// A packet that comes now.
    pub fn new(packet: &Packet, now: Instant) -> Self {
        let tos = packet.network.tos();
        Self {
            number: packet.body.number(),
            len: packet.wire_len(),
            truesize: packet.meta.truesize,
            came_at: now,
            ecn: Ecn::from_bits(tos),
            tos,
        }
    }

    /// Sojourn time in CoDel's units of 1024 ns.
    fn sojourn(&self, now: Instant) -> u32 {
        units(now).wrapping_sub(units(self.came_at))
    }

    fn fate(&self, params: &CodelParams, now: Instant, left: Option<&Packet>) -> HeadOutcome {
        let Some(left) = left else { return HeadOutcome::Signalled };
        let is_marked = Ecn::from_bits(left.network.tos()) == Ecn::Ce;
        let selector = params.ce_selector;
        let over = is_after(self.sojourn(now), params.ce_threshold.0)
            && self.tos & selector.mask == selector.value;
        match is_marked {
            false => HeadOutcome::Passed,
            true if self.ecn == Ecn::Ce || over => HeadOutcome::Unknown,
            true => HeadOutcome::Signalled,
        }
    }
}

/// CoDel's clock (`codel_get_time`).
fn units(time: Instant) -> u32 {
    (time.as_nanos() >> 10) as u32
}

/// Half of all numbers lie after each (`codel_time_after`): settings of more than half an hour are in the
/// past.
fn is_after(one: u32, other: u32) -> bool {
    one.wrapping_sub(other) as i32 > 0
}

impl StandingQueue {
    /// The queue was found empty, after a drop in the same turn or without one. Without, CoDel forgets
    /// that it was signalling, but not since when the queue has stood.
    pub fn found_empty(&mut self, after_drop: bool) {
        self.signalling = false;
        if after_drop {
            self.since = None;
        }
    }

    /// A packet was taken from the head and left, or was dropped (`None`), while `behind` bytes waited
    /// behind it (`codel_should_drop`, `codel_dequeue`).
    pub fn on_head_removed(
        &mut self,
        params: &CodelParams,
        waits: &WaitingPacket,
        now: Instant,
        behind: u32,
        left: Option<&Packet>,
    ) -> Result<(), BrokenLaw> {
        let sojourn = waits.sojourn(now);
        let time = units(now);
        let fine = is_after(params.target.0, sojourn) || behind <= params.mtu;
        let fate = waits.fate(params, now, left);
        let over = match self.since {
            _ if fine => {
                self.since = None;
                false
            }
            None => {
                self.since = Some(time);
                false
            }
            Some(since) => is_after(time, since.wrapping_add(params.interval.0)),
        };
        let tell = |what: &str| {
            let WaitingPacket { number, .. } = waits;
            let text = format!(
                "packet {number} {what}: it waited for {sojourn} units of 1024 ns, {behind} bytes \
                 behind it; above target since {:?}, now {time}",
                self.since
            );
            Err(("standing queue", text))
        };
        if left.is_none() && params.ecn && waits.ecn != Ecn::NotEct {
            return tell("could have been marked and was dropped");
        }
        if !params.ecn && fate == HeadOutcome::Signalled && left.is_some() {
            return tell("was marked without ecn");
        }
        match fate {
            HeadOutcome::Signalled if !over => return tell("was marked or dropped too soon"),
            HeadOutcome::Passed if over && !self.signalling => return tell("was let pass"),
            _ => {}
        }
        self.signalling = over;
        Ok(())
    }
}

/// codel: one queue.
#[derive(Clone, Debug)]
pub struct OneQueue {
    config: CodelConfig,
    queue: VecDeque<WaitingPacket>,
    standing: StandingQueue,
}

impl OneQueue {
    /// An empty one.
    pub fn new(config: &CodelConfig) -> Self {
        Self { config: *config, queue: VecDeque::new(), standing: StandingQueue::default() }
    }

    /// A packet came.
    pub fn entered(&mut self, call: &Call<'_>, came: &Packet) -> Result<(), BrokenLaw> {
        let full = self.queue.len() as u64 >= u64::from(self.config.limit);
        if full == call.dropped.is_empty() {
            let what =
                format!("{} wait, and {} were dropped", self.queue.len(), call.dropped.len());
            return Err(("limit", what));
        }
        if !full {
            self.queue.push_back(WaitingPacket::new(came, call.now));
        }
        Ok(())
    }

    /// The device asked.
    pub fn on_dequeue(
        &mut self,
        call: &Call<'_>,
        packet: Option<&Packet>,
    ) -> Result<(), BrokenLaw> {
        let dropped = call.dropped.iter().map(|(_, packet)| (packet, None));
        for (taken, left) in dropped.chain(packet.map(|packet| (packet, Some(packet)))) {
            let waits = self.queue.pop_front().filter(|waits| waits.number == taken.body.number());
            let Some(waits) = waits else {
                return Err(("packets", format!("{} is not the oldest", taken.body.number())));
            };
            let behind = self.queue.iter().map(|waits| waits.len).sum();
            self.standing.on_head_removed(&self.config.params, &waits, call.now, behind, left)?;
        }
        if packet.is_none() {
            self.standing.found_empty(!call.dropped.is_empty());
        }
        Ok(())
    }
}

/// Whether a drop is CoDel's, at the head of a queue that is served.
pub fn is_signal(dropped: &(Reason, Packet)) -> bool {
    dropped.0 == Reason::QdiscCongested
}
