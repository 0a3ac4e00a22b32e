//! What must hold for every tree.

use datapath::packet::Packet;
use datapath::qdisc::fifo::FifoKind;
use datapath::qdisc::netem::NetemConfig;
use datapath::qdisc::{AnyQdisc, Backlog, Cx, Handle, Qdisc as _, Sched};
use datapath::units::{Duration, Instant};
use iproute::tc::{show_classes, show_json, show_text};

use super::bench::{Bench, CheckResult, DropCounting, backlog_of};
use super::ledger::Ledger;

impl Bench<'_> {
    pub(super) fn check(&self) -> CheckResult {
        self.check_books()?;
        if let Some(what) =
            self.levels.difference(&self.root, self.drops_differ == DropCounting::Marks)
        {
            return self.broken("levels", what);
        }
        let stats = self.root.stats();
        let sent = (stats.packets, stats.bytes);
        if sent != (self.seen.packets, self.seen.bytes) {
            let seen = (self.seen.packets, self.seen.bytes);
            return self
                .broken("sent", format!("packets and bytes {seen:?} left, {sent:?} are counted"));
        }
        let agree = match self.drops_differ {
            DropCounting::Not => stats.drops == self.seen.drops,
            DropCounting::Fewer => stats.drops <= self.seen.drops,
            DropCounting::Marks => true,
        };
        if !agree {
            let what = format!("{} were dropped, {} are counted", self.seen.drops, stats.drops);
            return self.broken("drops", what);
        }
        Ok(())
    }

    /// Whatever went in, or was made by netem, came out, was dropped, or waits.
    pub(super) fn check_books(&self) -> CheckResult {
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
    pub(super) fn check_wake(&self) -> CheckResult {
        let wake = self.root.wake_at();
        let waiting = self.root.backlog();
        match wake {
            Some(at) if at <= self.now => {
                self.broken("wake", format!("asked at {:?} to come again at {at:?}", self.now))
            }
            None if waiting.packets > 0 => {
                self.broken("wake", format!("{waiting:?} queued and no wake-up set"))
            }
            _ => Ok(()),
        }
    }

    /// Who says when to ask again has nothing before that: a copy that is asked early gives nothing.
    pub(super) fn check_early(&self) -> CheckResult {
        // fq's timer may be late by its slack, and one that runs is left alone for a time that lies as much before its own.
        let slack = |sched: &Sched| {
            let slack = sched.fq().map_or(Duration::ZERO, |fq| fq.config().timer_slack);
            slack * 2
        };
        let slack = self.root.tree().into_iter().map(|(_, sched)| slack(sched)).max();
        let early = slack.unwrap_or_default() + Duration::from_nanos(1);
        let Some(wake) = self.root.wake_at() else { return Ok(()) };
        if wake.saturating_since(self.now) <= early {
            return Ok(());
        }
        let at = Instant::from_nanos(wake.as_nanos() - early.as_nanos());
        let mut dropped = Vec::new();
        let packet = self.root.clone().dequeue(&mut Cx { now: at, dropped: &mut dropped });
        match packet {
            None => Ok(()),
            Some(packet) => {
                let number = packet.body.number();
                self.broken("wake", format!("packet {number} could have left before {wake:?}"))
            }
        }
    }

    /// A netem without anything but a delay keeps no packet beyond it.
    pub(super) fn check_due(&self) -> CheckResult {
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
    pub(super) fn check_limit(&self, before: Backlog) -> CheckResult {
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
            AnyQdisc::DualPi2(dualpi2) => (dualpi2.config().limit, u32::MAX),
            AnyQdisc::Pie(pie) => (pie.config().limit, u32::MAX),
            // Segments that are cut enter one by one. The limit is looked at before each, and not between the double
            // of a packet and itself.
            AnyQdisc::Netem(netem) => {
                let NetemConfig { limit, duplicate: (chance, _), .. } = *netem.config();
                (limit.saturating_add(u32::from(chance > 0)), u32::MAX)
            }
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
    pub(super) fn check_levels(&self) -> CheckResult {
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

    pub(super) fn shown(&self) -> String {
        let json = show_json(&self.root, None, self.now);
        format!(
            "{}{}{json}",
            show_text(&self.root, None, self.now),
            show_classes(&self.root, self.now)
        )
    }

    /// Packets and bytes that the netems of the tree have made.
    pub(super) fn copies(&self) -> (u64, u64) {
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
    pub(super) fn read_licence(&mut self) {
        self.licence.in_order = true;
        self.has_cake = false;
        self.rests_for_times = false;
        for (parent, sched) in self.root.tree() {
            match sched.qdisc() {
                AnyQdisc::Netem(netem) => {
                    let config = netem.config();
                    let doubles = config.duplicate.0 > 0;
                    let mixes = config.jitter > 0 || config.reorder.0 > 0 || doubles;
                    self.licence.copies |= doubles;
                    self.licence.damage |= config.corrupt.0 > 0;
                    self.licence.in_order &= !mixes;
                    if config.ecn {
                        self.drops_differ = DropCounting::Marks;
                    } else if doubles || config.corrupt.0 > 0 {
                        self.drops_differ = self.drops_differ.max(DropCounting::Fewer);
                    }
                }
                AnyQdisc::Cake(cake) => {
                    self.licence.wash |= cake.config().wash;
                    self.has_cake = true;
                }
                AnyQdisc::Fq(_) => self.rests_for_times = true,
                // What a parent marks with CE overtakes the rest of its flow in the L-queue (RFC 9332, section 2.3).
                AnyQdisc::DualPi2(_) => self.licence.in_order &= parent == Handle::ROOT,
                _ => {}
            }
        }
    }

    /// The earliest time at which a packet that comes now may leave: after netem's delay, and not before
    /// the time that its sender has set for fq.
    pub(super) fn not_before(&self, packet: &Packet) -> Instant {
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
    pub(super) fn can_never_send(&self) -> bool {
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
