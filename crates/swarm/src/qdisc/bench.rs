//! The tree under test, a device, and the laws.

use std::collections::BTreeSet;

use datapath::packet::Packet;
use datapath::qdisc::fifo::{FifoKind, PfifoFast};
use datapath::qdisc::{AnyQdisc, Backlog, Cx, Handle, Qdisc as _, Sched, Stats};
use datapath::reason::Reason;
use datapath::rng::Rng;
use datapath::units::{Duration, Instant};
use iproute::tc::{Device, parse_filter, parse_qdisc, show_classes, show_json, show_text};

use super::ledger::{Ledger, Licence, Tally};
use super::pace::Pace;
use super::traffic::Arrival;
use super::{Case, Step};
use crate::case::{Digest, Violation};

type Verdict = Result<(), Violation>;

/// The tree under test.
pub struct Bench<'a> {
    case: &'a Case,
    /// Flows whose packets all leave when their turn comes.
    unpaced: BTreeSet<u8>,
    step: String,
    now: Instant,
    root: Sched,
    device: Device,
    /// What the qdiscs had no room for, as they hand it over.
    dropped: Vec<(Reason, Packet)>,
    ledger: Ledger,
    packets: u32,
    epoch: u32,
    licence: Licence,
    /// What netems have copied that are no longer there.
    past_copies: Tally,
    /// What the present root has sent and dropped, as seen from outside.
    seen: Stats,
    /// The root's drops are known to be counted otherwise.
    drops_differ: bool,
    /// CAKE tells flows here: in frames with a tag inside it reads other bytes than it means to, as the
    /// kernel does, and may take packets of one flow for several.
    mixes_tagged: bool,
    words: String,
    pace: Pace,
    digest: Digest,
}

/// A device that follows the watchdog so often without a packet follows it in vain.
const VAIN: u32 = 2_000;
/// Where time ends for a case: some thirty years.
const END: Instant = Instant::from_nanos(1_000_000_000_000_000_000);

impl<'a> Bench<'a> {
    /// A device with its default queue.
    pub fn new(case: &'a Case) -> Self {
        let device = Device { tx_queue_len: case.tx_queue_len, ..Device::default() };
        let paced = case.steps.iter().filter_map(|step| match step {
            Step::Enqueue(arrival) if arrival.departs_in_micros > 0 => {
                Some(flow_of(case, *arrival))
            }
            _ => None,
        });
        let paced: BTreeSet<u8> = paced.collect();
        Self {
            case,
            unpaced: (0..case.flows.len() as u8).filter(|flow| !paced.contains(flow)).collect(),
            step: String::new(),
            now: Instant::from_nanos(1_000_000_000),
            root: Sched::new(Handle::NONE, PfifoFast::new(device.tx_queue_len)),
            device,
            dropped: Vec::new(),
            ledger: Ledger::default(),
            packets: 0,
            epoch: 0,
            licence: Licence { in_order: true, ..Licence::default() },
            past_copies: Tally::default(),
            seen: Stats::default(),
            drops_differ: false,
            mixes_tagged: false,
            words: String::new(),
            pace: Pace::Unknown,
            digest: Digest::default(),
        }
    }

    /// A hash of all that was seen.
    pub fn digest(&self) -> u64 {
        self.digest.value()
    }

    /// Does one step, and holds the tree against every law that can be told by then.
    pub fn step(&mut self, number: usize, step: &Step) -> Verdict {
        self.step = format!("step {number}");
        match step {
            Step::Tc(words) if words.starts_with("filter") => self.filter(words),
            Step::Tc(words) => self.change(number, words)?,
            Step::Enqueue(arrival) => {
                for _ in 0..arrival.times {
                    self.enqueue(*arrival)?;
                }
            }
            Step::Dequeue(most) => {
                let taken = self.dequeue_at_most(*most)?;
                if taken < *most {
                    self.check_wake()?;
                }
            }
            Step::Peek => self.peek()?,
            Step::Wait(nanos) => self.now += Duration::from_nanos(*nanos),
            Step::Follow(times) => drop(self.follow(*times)?),
        }
        self.check()
    }

    /// The device follows the watchdog until nothing waits; what cannot leave is purged.
    pub fn finish(&mut self) -> Verdict {
        "the end".clone_into(&mut self.step);
        self.check_levels()?;
        let emptied = self.follow(u32::MAX)?;
        let ends = self.root.wake_at().is_none_or(|at| at < END);
        if !emptied && ends && !self.can_never_send() {
            let waiting: Vec<u32> = self.ledger.waiting().map(|(number, ..)| number).collect();
            return self.broken(
                "progress",
                format!("the watchdog was followed {VAIN} times in vain; {waiting:?} wait"),
            );
        }
        self.check()?;
        self.root.purge(&mut Cx { now: self.now, dropped: &mut self.dropped });
        self.take_drops()?;
        self.check_books()?;
        match self.ledger.missing() {
            0 => Ok(()),
            missing => self.broken("conservation", format!("{missing} packets have vanished")),
        }
    }

    fn broken<T>(
        &self,
        oracle: &'static str,
        what: impl core::fmt::Display,
    ) -> Result<T, Violation> {
        Err(Violation::new(oracle, &self.step, what))
    }

    // What is done.

    fn filter(&mut self, words: &str) {
        if let Ok(command) = parse_filter(words) {
            command.apply(&mut self.root);
            self.epoch += 1;
        }
    }

    fn change(&mut self, number: usize, words: &str) -> Verdict {
        let Ok(command) = parse_qdisc(words) else { return Ok(()) };
        self.check_levels()?;
        let (copies, shown) = (self.copies(), self.shown());
        let (waited, known) = (self.root.backlog(), self.dropped.len());
        let rng = Rng::stream(self.case.seed, number as u64);
        let mut cx = Cx { now: self.now, dropped: &mut self.dropped };
        let outcome = command.apply(&mut self.root, self.device, rng, &mut cx);
        let Ok(replaced) = outcome else {
            if shown != self.shown() || waited != self.root.backlog() || known != self.dropped.len()
            {
                return self
                    .broken("refusal", format!("\"{words}\" was refused, and did something"));
            }
            return Ok(());
        };
        self.digest.add_text(words);
        self.epoch += 1;
        let (packets, bytes) = self.copies();
        self.past_copies.packets += copies.0 - packets;
        self.past_copies.bytes += copies.1 - bytes;
        if command.parent == Handle::ROOT && replaced.is_some() {
            self.check_purged(waited)?;
            self.take_drops()?;
            self.seen = Stats::default();
            self.drops_differ = false;
            words.clone_into(&mut self.words);
        } else {
            self.forget_discarded(replaced.is_none());
            self.take_drops()?;
            self.words.push(' ');
            self.words.push_str(words);
        }
        self.read_licence();
        self.pace = Pace::of(&self.root, &self.words, self.now);
        self.check_levels()
    }

    /// What a root discards for a change of its own settings counts as sent, because it is dequeued for
    /// that (`fq_change`, `fq_codel_change`), or not at all (`cake_clear_tin`); everywhere else what is
    /// discarded counts as dropped in all above.
    fn forget_discarded(&mut self, changed: bool) {
        let purged = self.dropped.iter().filter(|(reason, _)| *reason == Reason::QueuePurge);
        match self.root.qdisc() {
            AnyQdisc::Fq(_) | AnyQdisc::FqCodel(_) if changed => {
                for (_, packet) in purged {
                    self.seen.drops = self.seen.drops.wrapping_sub(1);
                    self.seen.packets += u64::from(packet.segments());
                    self.seen.bytes += u64::from(packet.wire_len());
                }
            }
            AnyQdisc::Cake(_) if changed => {
                self.seen.drops = self.seen.drops.wrapping_sub(purged.count() as u64);
            }
            _ => {}
        }
    }

    /// A root that was replaced gave up all that waited in it.
    fn check_purged(&self, waited: Backlog) -> Verdict {
        let purged = backlog_of(self.dropped.iter().map(|(_, packet)| packet));
        if purged == waited {
            return Ok(());
        }
        self.broken("backlog", format!("{waited:?} waited, and {purged:?} were purged"))
    }

    fn enqueue(&mut self, arrival: Arrival) -> Verdict {
        let number = flow_of(self.case, arrival);
        let Some(flow) = self.case.flows.get(usize::from(number)) else { return Ok(()) };
        let packet = flow.packet(arrival, self.packets);
        self.packets += 1;
        let is_told_apart = self.mixes_tagged && flow.vlan.is_some();
        let in_order = self.licence.in_order && self.unpaced.contains(&number) && !is_told_apart;
        let before = self.root.backlog();
        let not_before = self.not_before(&packet);
        self.ledger.enter(&packet, in_order.then_some(number), self.epoch, not_before);
        self.pace.arrive(self.now, before.packets == 0);
        let mut cx = Cx { now: self.now, dropped: &mut self.dropped };
        let verdict = self.root.enqueue(packet, &mut cx);
        self.digest.add(verdict as u64);
        self.take_drops()?;
        self.check_limit(before)
    }

    fn dequeue(&mut self) -> Result<Option<Packet>, Violation> {
        let packet = self.root.dequeue(&mut Cx { now: self.now, dropped: &mut self.dropped });
        self.take_drops()?;
        let Some(packet) = packet else { return Ok(None) };
        self.seen.packets += u64::from(packet.segments());
        self.seen.bytes += u64::from(packet.wire_len());
        for part in [self.now.as_nanos(), packet.body.store.into(), packet.body.offset.into()] {
            self.digest.add(part);
        }
        if let Err(what) = self.ledger.leave(&packet, self.now, self.licence) {
            return self.broken("packets", what);
        }
        if let Err(what) = self.pace.leave(packet.wire_len(), self.now) {
            return self.broken("rate", what);
        }
        Ok(Some(packet))
    }

    fn dequeue_at_most(&mut self, most: u32) -> Result<u32, Violation> {
        // A super-packet may be cut on its way; nothing else makes packets on the way out.
        let possible = self.root.backlog().packets * 45;
        for taken in 0..most {
            if self.dequeue()?.is_none() {
                return Ok(taken);
            }
            if taken > possible {
                return self.broken("work", "more packets came out than waited");
            }
        }
        Ok(most)
    }

    fn peek(&mut self) -> Verdict {
        let mut cx = Cx { now: self.now, dropped: &mut self.dropped };
        let seen = self.root.peek(&mut cx).map(|packet| packet.body);
        self.take_drops()?;
        let taken = self.dequeue()?.map(|packet| packet.body);
        if seen == taken {
            return Ok(());
        }
        self.broken("peek", format!("{seen:?} was to be next, and {taken:?} was"))
    }

    /// Follows the watchdog, at most so many times; true if nothing waits any more.
    fn follow(&mut self, times: u32) -> Result<bool, Violation> {
        let mut vain = 0;
        for _ in 0..=times {
            let waited = self.root.backlog();
            let taken = self.dequeue_at_most(u32::MAX)?;
            self.check_wake()?;
            self.check_due()?;
            let waits = self.root.backlog();
            if waits.packets == 0 {
                return Ok(true);
            }
            vain = if taken > 0 || waits != waited { 0 } else { vain + 1 };
            match self.root.wake_at() {
                Some(at) if vain < VAIN && at < END => self.now = at,
                _ => return Ok(false),
            }
        }
        Ok(false)
    }

    fn take_drops(&mut self) -> Verdict {
        for (reason, packet) in core::mem::take(&mut self.dropped) {
            self.seen.drops = self.seen.drops.wrapping_add(1);
            self.digest.add_text(reason.name());
            self.digest.add(packet.body.store.into());
            if let Err(what) = self.ledger.drop(&packet, self.licence) {
                return self.broken("packets", format!("{}: {what}", reason.name()));
            }
        }
        Ok(())
    }

    // The laws.

    fn check(&self) -> Verdict {
        self.check_books()?;
        let stats = self.root.stats();
        let sent = (stats.packets, stats.bytes);
        if sent != (self.seen.packets, self.seen.bytes) {
            let seen = (self.seen.packets, self.seen.bytes);
            return self
                .broken("sent", format!("packets and bytes {seen:?} left, {sent:?} are counted"));
        }
        if !self.drops_differ && stats.drops != self.seen.drops {
            let what = format!("{} were dropped, {} are counted", self.seen.drops, stats.drops);
            return self.broken("drops", what);
        }
        Ok(())
    }

    /// Whatever went in, or was made by netem, came out, was dropped, or waits.
    fn check_books(&self) -> Verdict {
        let Ledger { entered, left, dropped, .. } = &self.ledger;
        let (copies, copied) = self.copies();
        let inside = entered.packets + self.past_copies.packets + copies;
        let inside_bytes = entered.bytes + self.past_copies.bytes + copied;
        let (out, out_bytes) = (left.packets + dropped.packets, left.bytes + dropped.bytes);
        let waiting = self.root.backlog();
        let bytes_agree = inside_bytes.checked_sub(out_bytes) == Some(waiting.bytes.into());
        // A super-packet waits as one.
        let packets = inside.checked_sub(out);
        let packets_agree = packets.is_some_and(|packets| {
            let waiting = u64::from(waiting.packets);
            waiting <= packets && waiting * 45 >= packets
        });
        if bytes_agree && packets_agree {
            return Ok(());
        }
        let copies = (copies + self.past_copies.packets, copied + self.past_copies.bytes);
        self.broken(
            "conservation",
            format!(
                "in {entered:?}, copied {copies:?}, out {left:?}, dropped {dropped:?}, {waiting:?}"
            ),
        )
    }

    /// After a `dequeue` that gave nothing: whoever has packets says when to come again, and not
    /// now.
    fn check_wake(&self) -> Verdict {
        let wake = self.root.wake_at();
        let waiting = self.root.backlog();
        match wake {
            Some(at) if at <= self.now => {
                self.broken("wake", format!("asked at {:?} to come again at {at:?}", self.now))
            }
            None if waiting.packets > 0 => {
                self.broken("wake", format!("{waiting:?} and nobody to wake it"))
            }
            _ => Ok(()),
        }
    }

    /// A netem without anything but a delay keeps no packet beyond it.
    fn check_due(&self) -> Verdict {
        let AnyQdisc::Netem(netem) = self.root.qdisc() else { return Ok(()) };
        let config = netem.config();
        let plain = config.jitter == 0
            && config.reorder.0 == 0
            && config.rate.is_none()
            && config.slot.is_none();
        if !plain || netem.child().is_some() || self.epoch > 1 {
            return Ok(());
        }
        match self.ledger.waiting().find(|(.., due)| *due <= self.now) {
            None => Ok(()),
            Some((number, _, due)) => {
                self.broken("delay", format!("packet {number} was due at {due:?} and still waits"))
            }
        }
    }

    /// No queue grows beyond its limit.
    fn check_limit(&self, before: Backlog) -> Verdict {
        let (packets, bytes) = match self.root.qdisc() {
            AnyQdisc::Fifo(fifo) => match fifo.kind() {
                FifoKind::Packets(limit) | FifoKind::HeadDrop(limit) => (limit, u32::MAX),
                FifoKind::Bytes(limit) => (u32::MAX, limit),
                FifoKind::NoQueue => return Ok(()),
            },
            AnyQdisc::PfifoFast(_) => (self.device.tx_queue_len.saturating_mul(3), u32::MAX),
            AnyQdisc::Codel(codel) => (codel.config().limit, u32::MAX),
            AnyQdisc::Fq(fq) => (fq.config().limit, u32::MAX),
            AnyQdisc::FqCodel(fq_codel) => (fq_codel.config().limit, u32::MAX),
            // Its segments may enter one by one, and its limit is looked at before each.
            AnyQdisc::Netem(netem) => (netem.config().limit, u32::MAX),
            _ => return Ok(()),
        };
        let waiting = self.root.backlog();
        if waiting.packets <= packets.max(before.packets)
            && waiting.bytes <= bytes.max(before.bytes)
        {
            return Ok(());
        }
        self.broken("limit", format!("{waiting:?} wait where {packets} packets, {bytes} bytes may"))
    }

    /// Every level of the tree gives up as many packets and bytes as it says it holds.
    fn check_levels(&self) -> Verdict {
        for (parent, sched) in self.root.tree() {
            let says = sched.backlog();
            let mut copy = sched.clone();
            let mut dropped = Vec::new();
            copy.purge(&mut Cx { now: self.now, dropped: &mut dropped });
            let holds = backlog_of(dropped.iter().map(|(_, packet)| packet));
            if says != holds || copy.backlog() != Backlog::default() {
                let kind = sched.qdisc().kind();
                let what = format!("{kind} at {parent:?} says {says:?} and holds {holds:?}");
                return self.broken("backlog", what);
            }
        }
        Ok(())
    }

    // What the tree is.

    fn shown(&self) -> String {
        let json = show_json(&self.root, None, self.now);
        format!(
            "{}{}{json}",
            show_text(&self.root, None, self.now),
            show_classes(&self.root, self.now)
        )
    }

    /// Packets and bytes that the netems of the tree have made.
    fn copies(&self) -> (u64, u64) {
        let mut sum = (0, 0);
        for (_, sched) in self.root.tree() {
            if let AnyQdisc::Netem(netem) = sched.qdisc() {
                let (packets, bytes) = netem.copies();
                sum = (sum.0 + packets, sum.1 + bytes);
            }
        }
        sum
    }

    /// What the qdiscs that are there now may do, and what those that were there may have done.
    fn read_licence(&mut self) {
        self.licence.in_order = true;
        self.mixes_tagged = false;
        for (_, sched) in self.root.tree() {
            match sched.qdisc() {
                AnyQdisc::Netem(netem) => {
                    let config = netem.config();
                    let doubles = config.duplicate.0 > 0;
                    let mixes = config.jitter > 0 || config.reorder.0 > 0 || doubles;
                    self.licence.copies |= doubles;
                    self.licence.damage |= config.corrupt.0 > 0;
                    self.licence.in_order &= !mixes;
                    // A mark in place of a loss counts as a drop.
                    self.drops_differ |= config.ecn;
                }
                AnyQdisc::Cake(cake) => {
                    self.licence.wash |= cake.config().wash;
                    self.mixes_tagged = true;
                }
                _ => {}
            }
        }
    }

    /// The earliest time at which a packet that comes now may leave: after netem's delay, and not before
    /// the time that its sender has set for fq.
    fn not_before(&self, packet: &Packet) -> Instant {
        let wait = match self.root.qdisc() {
            AnyQdisc::Netem(netem) => {
                let config = netem.config();
                let any = config.reorder.0 > 0 || config.distribution.is_some();
                let least = (config.delay - config.jitter).max(0) as u64;
                Duration::from_nanos(if any { 0 } else { least })
            }
            // Packets of control priority pass all others.
            AnyQdisc::Fq(_) if packet.meta.priority & 15 == 7 => Duration::ZERO,
            AnyQdisc::Fq(fq) => {
                Duration::from_nanos(packet.meta.departs_in_ns.into()).min(fq.config().horizon)
            }
            _ => Duration::ZERO,
        };
        self.now + wait
    }

    /// A token bucket was made smaller than a packet that waits for it.
    fn can_never_send(&self) -> bool {
        let longest = self.ledger.waiting().map(|(_, packet, _)| packet.wire_len()).max();
        let small = |sched: &Sched| match sched.qdisc() {
            AnyQdisc::Tbf(tbf) => {
                let config = tbf.config();
                let burst = config.peak.map_or(config.burst, |(_, burst)| burst.min(config.burst));
                Some(burst) < longest
            }
            _ => false,
        };
        self.root.tree().into_iter().any(|(_, sched)| small(sched))
    }
}

/// The flow that a packet is of.
fn flow_of(case: &Case, arrival: Arrival) -> u8 {
    arrival.flow % (case.flows.len() as u8).max(1)
}

fn backlog_of<'a>(packets: impl Iterator<Item = &'a Packet>) -> Backlog {
    packets.fold(Backlog::default(), |sum, packet| sum + Backlog::of(packet))
}
