//! The tree under test, its device, and the checks.

use std::collections::BTreeSet;

use datapath::packet::Packet;
use datapath::qdisc::fifo::PfifoFast;
use datapath::qdisc::{AnyQdisc, Backlog, Cx, Handle, Qdisc as _, Sched, Stats};
use datapath::reason::Reason;
use datapath::rng::Rng;
use datapath::units::{Duration, Instant};
use iproute::tc::{Device, Spec, parse_class, parse_filter, parse_qdisc};

use super::call::Call;
use super::law::Law;
use super::ledger::{AllowedChanges, Ledger, WireCount};
use super::levels::LevelCounters;
use super::pace::RateBound;
use super::police::PolicerBounds;
use super::traffic::{Arrival, Shape};
use super::{Case, Step};
use crate::case::{Digest, StepwiseCase, Violation};

pub(super) type CheckResult = Result<(), Violation>;

/// The tree under test.
pub struct Bench<'a> {
    pub(super) case: &'a Case,
    /// Flows whose packets all leave when their turn comes.
    pub(super) unpaced: BTreeSet<u8>,
    pub(super) step: String,
    pub(super) now: Instant,
    pub(super) root: Sched,
    pub(super) device: Device,
    /// What the qdiscs had no room for, as they hand it over.
    pub(super) dropped: Vec<(Reason, Packet)>,
    pub(super) ledger: Ledger,
    pub(super) packets: u32,
    pub(super) epoch: u32,
    pub(super) licence: AllowedChanges,
    /// What netems have copied that are no longer there.
    pub(super) past_copies: WireCount,
    /// What the present root has sent and dropped, as seen from outside.
    pub(super) seen: Stats,
    /// Whether the root's drops may be counted otherwise than they were seen.
    pub(super) drops_differ: DropCounting,
    /// Flows that may lie in one queue of fq with a flow of which a packet waits for its time. Until then that
    /// queue rests with all that is in it, and what finds the fast path free again passes it by
    /// (`fq_fastpath_check`, `fq_flow_set_throttled`).
    pub(super) beside_paced: BTreeSet<u8>,
    /// The tree contains fq, which distinguishes flows.
    pub(super) rests_for_times: bool,
    /// The tree contains CAKE, which distinguishes flows.
    pub(super) has_cake: bool,
    /// Some flows are so many that CAKE may let two share a queue and part them again.
    is_crowded: bool,
    pub(super) words: String,
    pub(super) pace: RateBound,
    pub(super) law: Law,
    pub(super) levels: LevelCounters,
    police: Option<PolicerBounds>,
    pub(super) digest: Digest,
}

/// A device that follows the watchdog so often without a packet follows it in vain.
const VAIN: u32 = 2_000;
/// Where time ends for a case: some thirty years.
const END: Instant = Instant::from_nanos(1_000_000_000_000_000_000);

impl StepwiseCase for Bench<'_> {
    type Step = Step;

    /// Carries out one step, and checks every law that can be decided by then.
    fn step(&mut self, number: usize, step: &Step) -> CheckResult {
        self.step = format!("step {number}");
        match step {
            Step::Tc(words) if words.starts_with("filter") => self.filter(words),
            Step::Tc(words) if words.starts_with("class") => self.class(words)?,
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
                    self.check_early()?;
                }
            }
            Step::Peek => self.peek()?,
            Step::Wait(nanos) => self.now += Duration::from_nanos(*nanos),
            Step::Follow(times) => {
                self.follow(*times)?;
                self.check_early()?;
            }
            Step::Busy { arrival, rounds, wait, take } => {
                for round in 0..*rounds {
                    self.enqueue(arrival.later(round))?;
                    self.now += Duration::from_nanos(*wait);
                    self.dequeue_at_most(u32::from(*take))?;
                }
            }
        }
        self.root.check();
        self.check()
    }

    /// The device follows the watchdog until nothing waits; what cannot leave is purged.
    fn finish(&mut self) -> CheckResult {
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
        self.record_drops()?;
        self.check_books()?;
        match self.ledger.missing() {
            0 => Ok(()),
            missing => self.broken("conservation", format!("{missing} packets have vanished")),
        }
    }

    fn digest(&self) -> u64 {
        self.digest.value()
    }
}

/// Which of the observed drops a root counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum DropCounting {
    /// All.
    Not,
    /// Not those of a double, and of a super-packet that netem has cut only one.
    Fewer,
    /// Marks in place of losses as well.
    Marks,
}

impl<'a> Bench<'a> {
    /// A device with its default queue.
    pub fn new(case: &'a Case) -> Self {
        let device = Device { tx_queue_len: case.tx_queue_len, ..Device::default() };
        let arrivals = case.steps.iter().flat_map(|step| match step {
            Step::Enqueue(arrival) => vec![*arrival],
            Step::Busy { arrival, rounds, .. } => {
                (0..*rounds).map(|round| arrival.later(round)).collect()
            }
            _ => Vec::new(),
        });
        let paced = arrivals.filter(|arrival| arrival.departs_in_micros > 0);
        let paced: BTreeSet<u8> = paced.map(|arrival| flow_of(case, arrival)).collect();
        let flows = 0..case.flows.len() as u8;
        // Whatever hash flows without a connection have, fq may put them together.
        let owner_of = |flow: u8| {
            let flow = case.flows.get(usize::from(flow))?;
            flow.owner.filter(|_| matches!(flow.shape, Shape::Tcp { .. }))
        };
        let paced_owners: BTreeSet<Option<u32>> = paced.iter().copied().map(owner_of).collect();
        Self {
            case,
            unpaced: flows.clone().filter(|flow| !paced.contains(flow)).collect(),
            beside_paced: flows.filter(|flow| paced_owners.contains(&owner_of(*flow))).collect(),
            rests_for_times: false,
            step: String::new(),
            now: Instant::from_nanos(1_000_000_000),
            root: Sched::new(Handle::NONE, PfifoFast::new(device.tx_queue_len)),
            device,
            dropped: Vec::new(),
            ledger: Ledger::default(),
            packets: 0,
            epoch: 0,
            licence: AllowedChanges { in_order: true, ..AllowedChanges::default() },
            past_copies: WireCount::default(),
            seen: Stats::default(),
            drops_differ: DropCounting::Not,
            has_cake: false,
            is_crowded: case.flows.iter().any(|flow| flow.crowd > 1),
            words: String::new(),
            pace: RateBound::Unknown,
            law: Law::None,
            levels: LevelCounters::default(),
            police: case.police.as_deref().and_then(PolicerBounds::of),
            digest: Digest::default(),
        }
    }

    pub(super) fn broken<T>(
        &self,
        oracle: &'static str,
        what: impl core::fmt::Display,
    ) -> Result<T, Violation> {
        Err(Violation::new(oracle, &self.step, what))
    }

    // What is done.

    fn filter(&mut self, words: &str) {
        if let Ok(command) = parse_filter(words) {
            if command.apply(&mut self.root) {
                self.law.filter(words);
            }
            self.begin_epoch();
        }
    }

    /// What comes from now on comes under other settings; so does what netem still holds for its child,
    /// which will choose its class then.
    fn begin_epoch(&mut self) {
        self.epoch += 1;
        let holds_for_a_child = |sched: &Sched| matches!(sched.qdisc(), AnyQdisc::Netem(netem) if netem.child().is_some());
        if self.root.tree().into_iter().any(|(_, sched)| holds_for_a_child(sched)) {
            self.ledger.allow_any_order();
        }
    }

    fn change(&mut self, number: usize, words: &str) -> CheckResult {
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
        self.begin_epoch();
        let (packets, bytes) = self.copies();
        self.past_copies.packets += copies.0 - packets;
        self.past_copies.bytes += copies.1 - bytes;
        if command.parent == Handle::ROOT && replaced.is_some() {
            self.check_purged(waited)?;
            self.record_drops()?;
            self.seen = Stats::default();
            self.drops_differ = DropCounting::Not;
            words.clone_into(&mut self.words);
            self.law = Law::of_new(&self.root, self.now);
        } else {
            let itself = command.parent == Handle::ROOT || command.handle == self.root.handle;
            self.law.changed(&self.root, self.now, itself);
            let is_cake = matches!(command.spec, Some(Spec::Cake(_)));
            self.forget_discarded(replaced.is_none(), is_cake);
            self.record_drops()?;
            self.words.push(' ');
            self.words.push_str(words);
        }
        self.read_licence();
        self.pace = RateBound::of(&self.root, &self.words);
        self.levels = LevelCounters::of(&self.root);
        self.check_levels()
    }

    /// A class comes, goes or is changed; what waits in a queue that is no more is dropped.
    fn class(&mut self, words: &str) -> CheckResult {
        let Ok(command) = parse_class(words) else { return Ok(()) };
        self.check_levels()?;
        let (shown, waited) = (self.shown(), self.root.backlog());
        let mut cx = Cx { now: self.now, dropped: &mut self.dropped };
        if command.apply(&mut self.root, &mut cx).is_err() {
            if shown != self.shown() || waited != self.root.backlog() || !self.dropped.is_empty() {
                return self
                    .broken("refusal", format!("\"{words}\" was refused, and did something"));
            }
            return Ok(());
        }
        self.digest.add_text(words);
        self.begin_epoch();
        self.law.changed(&self.root, self.now, false);
        self.record_drops()?;
        self.read_licence();
        self.pace = RateBound::of(&self.root, &self.words);
        self.levels = LevelCounters::of(&self.root);
        self.check_levels()
    }

    /// What a root discards for a change of its own settings counts as sent, because it is dequeued for
    /// that (`fq_change`, `fq_codel_change`); what CAKE discards so counts nowhere, wherever it is
    /// attached (`cake_clear_tin`); all else that is discarded counts as dropped in all above.
    fn forget_discarded(&mut self, changed: bool, is_cake: bool) {
        let purged = self.dropped.iter().filter(|(reason, _)| *reason == Reason::QueuePurge);
        match self.root.qdisc() {
            AnyQdisc::Fq(_) | AnyQdisc::FqCodel(_) if changed => {
                for (_, packet) in purged {
                    self.seen.drops = self.seen.drops.wrapping_sub(1);
                    self.seen.packets += u64::from(packet.segments());
                    self.seen.bytes += u64::from(packet.wire_len());
                }
            }
            _ if changed && is_cake => {
                self.seen.drops = self.seen.drops.wrapping_sub(purged.count() as u64);
            }
            _ => {}
        }
    }

    /// A root that was replaced gave up all that waited in it.
    fn check_purged(&self, waited: Backlog) -> CheckResult {
        let purged = backlog_of(self.dropped.iter().map(|(_, packet)| packet));
        if purged == waited {
            return Ok(());
        }
        self.broken("backlog", format!("{waited:?} waited, and {purged:?} were purged"))
    }

    fn enqueue(&mut self, arrival: Arrival) -> CheckResult {
        let number = flow_of(self.case, arrival);
        let Some(flow) = self.case.flows.get(usize::from(number)) else { return Ok(()) };
        let packet = flow.packet(arrival, self.packets);
        self.packets += 1;
        if let Some(police) = &mut self.police {
            match police.judge(&packet, self.now) {
                Ok(true) => {}
                Ok(false) => return Ok(()),
                Err(what) => return self.broken("police", what),
            }
        }
        let is_told_apart = self.has_cake && self.is_crowded;
        let rests = self.rests_for_times && self.beside_paced.contains(&number);
        let in_order =
            self.licence.in_order && self.unpaced.contains(&number) && !is_told_apart && !rests;
        let one_of = flow.one_of(self.packets - 1);
        let before = self.root.backlog();
        let not_before = self.not_before(&packet);
        let whose = u16::from(number) << 8 | u16::from(one_of);
        self.ledger.enter(&packet, in_order.then_some(whose), self.epoch, not_before);
        let came = packet.clone();
        self.pace.arrive(self.now, before.packets == 0);
        let mut cx = Cx { now: self.now, dropped: &mut self.dropped };
        let verdict = self.root.enqueue(packet, &mut cx);
        self.digest.add(verdict as u64);
        let (now, dropped) = (self.now, &self.dropped[..]);
        let call = Call { root: &self.root, now, before, dropped };
        if let Err((oracle, what)) = self.law.entered(&call, &came) {
            return self.broken(oracle, what);
        }
        self.record_drops()?;
        self.check_limit(before)
    }

    fn dequeue(&mut self) -> Result<Option<Packet>, Violation> {
        let before = self.root.backlog();
        let packet = self.root.dequeue(&mut Cx { now: self.now, dropped: &mut self.dropped });
        let (now, dropped) = (self.now, &self.dropped[..]);
        let call = Call { root: &self.root, now, before, dropped };
        if let Err((oracle, what)) = self.law.on_dequeue(&call, packet.as_ref()) {
            return self.broken(oracle, what);
        }
        self.record_drops()?;
        let Some(packet) = packet else { return Ok(None) };
        self.seen.packets += u64::from(packet.segments());
        self.seen.bytes += u64::from(packet.wire_len());
        for part in [self.now.as_nanos(), packet.body.number().into(), packet.body.offset.into()] {
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
        // A super-packet may be cut on its way, and each of at most four netems doubles what its parent gives.
        let possible = self.root.backlog().packets * 45 * 16;
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

    fn peek(&mut self) -> CheckResult {
        let mut cx = Cx { now: self.now, dropped: &mut self.dropped };
        // What is dropped to find it is of the same moment as the packet's leaving.
        let seen = self.root.peek(&mut cx).map(|packet| packet.body.clone());
        let taken = self.dequeue()?.map(|packet| packet.body.clone());
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

    fn record_drops(&mut self) -> CheckResult {
        for (reason, packet) in core::mem::take(&mut self.dropped) {
            self.seen.drops = self.seen.drops.wrapping_add(1);
            self.digest.add_text(reason.name());
            self.digest.add(packet.body.number().into());
            if let Err(what) = self.ledger.drop(&packet, self.licence) {
                return self.broken("packets", format!("{}: {what}", reason.name()));
            }
        }
        Ok(())
    }
}

/// The flow that a packet is of.
fn flow_of(case: &Case, arrival: Arrival) -> u8 {
    arrival.flow % (case.flows.len() as u8).max(1)
}

pub(super) fn backlog_of<'a>(packets: impl Iterator<Item = &'a Packet>) -> Backlog {
    packets.fold(Backlog::default(), |sum, packet| sum + Backlog::of(packet))
}
