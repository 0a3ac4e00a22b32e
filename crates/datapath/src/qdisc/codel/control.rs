//! The CoDel control law (RFC 8289; Linux `include/net/codel_impl.h`), shared by codel and
//! fq_codel.
//!
//! Time is the kernel's `codel_time_t`: 32 bits of 1024 ns, so a target of 5 ms is shown as
//! 4999 µs. The inverse square root has 16 bits and one Newton step per change of the count.

use crate::packet::Packet;
use crate::units::{Duration, Instant};

/// A point or span of time in units of 1024 ns, wrapping (`codel_time_t`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CodelTime(pub u32);

const SHIFT: u32 = 10;

impl CodelTime {
    /// No threshold at all (`CODEL_DISABLED_THRESHOLD`).
    pub const DISABLED: Self = Self(i32::MAX as u32);

    /// The kernel's reading of the clock at `now` (`codel_get_time`).
    pub const fn at(now: Instant) -> Self {
        Self((now.as_nanos() >> SHIFT) as u32)
    }

    /// `span` in whole units.
    pub const fn of(span: Duration) -> Self {
        Self((span.as_nanos() >> SHIFT) as u32)
    }

    /// Whole µs, as the kernel shows it (`codel_time_to_us`).
    pub const fn as_micros(self) -> u32 {
        (((self.0 as u64) << SHIFT) / 1000) as u32
    }

    const fn plus(self, span: Self) -> Self {
        Self(self.0.wrapping_add(span.0))
    }

    const fn since(self, earlier: Self) -> Self {
        Self(self.0.wrapping_sub(earlier.0))
    }

    /// `codel_time_after`.
    pub const fn after(self, other: Self) -> bool {
        self.0.wrapping_sub(other.0) as i32 > 0
    }

    /// How far this lies after `other` in µs; negative if before.
    pub const fn micros_after(self, other: Self) -> i32 {
        let distance = self.0.wrapping_sub(other.0) as i32;
        let micros = Self(distance.unsigned_abs()).as_micros() as i32;
        if distance < 0 { -micros } else { micros }
    }

    const fn before(self, other: Self) -> bool {
        other.after(self)
    }
}

/// What CoDel is configured with (`struct codel_params`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CodelParams {
    /// Acceptable standing sojourn time.
    pub target: CodelTime,
    /// How long it may be exceeded before the first drop or mark.
    pub interval: CodelTime,
    /// Sojourn time above which every packet is marked.
    pub ce_threshold: CodelTime,
    /// Which packets `ce_threshold` marks: those whose TOS byte under `mask` is `value`; all
    /// if the mask is zero.
    pub ce_selector: CeSelector,
    /// No drops while no more than this many bytes wait (`psched_mtu`).
    pub mtu: u32,
    /// Mark instead of dropping where the packet allows it.
    pub ecn: bool,
}

/// `ce_threshold_selector VALUE/MASK`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CeSelector {
    /// What the TOS byte must be.
    pub value: u8,
    /// In which of its bits.
    pub mask: u8,
}

impl CodelParams {
    /// The defaults: 5 ms and 100 ms, without ECN.
    pub fn new(mtu: u32) -> Self {
        Self {
            target: CodelTime::of(Duration::from_millis(5)),
            interval: CodelTime::of(Duration::from_millis(100)),
            ce_threshold: CodelTime::DISABLED,
            ce_selector: CeSelector::default(),
            mtu,
            ecn: false,
        }
    }
}

/// The state of one queue (`struct codel_vars`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CodelVars {
    /// Drops in this dropping state.
    pub count: u32,
    /// `count` when the last dropping state began.
    pub last_count: u32,
    /// In the dropping state.
    pub dropping: bool,
    /// 1/sqrt(count) as parts of 2¹⁶.
    rec_inv_sqrt: u16,
    /// When the sojourn time will have been above target for an interval; zero: it is not above.
    first_above: CodelTime,
    /// When to drop next.
    pub drop_next: CodelTime,
    /// Sojourn time of the last packet.
    pub ldelay: CodelTime,
}

/// What CoDel counts (`struct codel_stats`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CodelStats {
    /// The largest packet seen.
    pub max_packet: u32,
    /// Packets marked instead of dropped.
    pub ecn_mark: u32,
    /// Packets marked by `ce_threshold`.
    pub ce_mark: u32,
}

/// The queue that CoDel works on.
pub trait Source {
    /// Takes the oldest packet.
    fn pop(&mut self) -> Option<Packet>;
    /// Bytes that still wait.
    fn bytes(&self) -> u32;
    /// Drops a packet that was taken.
    fn discard(&mut self, packet: Packet);
}

/// One dequeue under control.
pub struct Control<'a, S> {
    /// The configuration.
    pub params: &'a CodelParams,
    /// The queue's state.
    pub vars: &'a mut CodelVars,
    /// The counters.
    pub stats: &'a mut CodelStats,
    /// The queue.
    pub source: S,
    /// Now.
    pub now: CodelTime,
}

impl CodelVars {
    /// One Newton step towards 1/sqrt(count) (`codel_Newton_step`):
    /// x ← x (3 - count x²) / 2, with x as parts of 2³².
    fn newton_step(&mut self) {
        let inverse = u64::from(self.rec_inv_sqrt) << 16;
        let square = (inverse * inverse) >> 32;
        let correction = (3u64 << 32).wrapping_sub(u64::from(self.count).wrapping_mul(square));
        // Two bits less keep the product within 64 bits; one of them is the halving.
        let next = ((correction >> 2).wrapping_mul(inverse)) >> (32 - 2 + 1);
        self.rec_inv_sqrt = (next >> 16) as u16;
    }

    /// interval / sqrt(count) after `from` (`codel_control_law`).
    fn next_drop(&self, from: CodelTime, interval: CodelTime) -> CodelTime {
        let inverse = u64::from(self.rec_inv_sqrt) << 16;
        from.plus(CodelTime(((u64::from(interval.0) * inverse) >> 32) as u32))
    }
}

impl<S: Source> Control<'_, S> {
    /// The next packet to send, after the drops and marks that are due (`codel_dequeue`).
    pub fn dequeue(mut self) -> Option<Packet> {
        let Some(packet) = self.source.pop() else {
            self.vars.dropping = false;
            return None;
        };
        let packet = match (self.is_over(Some(&packet)), self.vars.dropping) {
            (true, true) => self.go_on_dropping(packet),
            (true, false) => self.start_dropping(packet),
            (false, _) => {
                self.vars.dropping = false;
                Some(packet)
            }
        };
        packet.map(|packet| self.mark_by_threshold(packet))
    }

    /// `codel_should_drop`: the sojourn time has been above target for an interval, and more
    /// than one MTU still waits.
    fn is_over(&mut self, packet: Option<&Packet>) -> bool {
        let Some(packet) = packet else {
            self.vars.first_above = CodelTime(0);
            return false;
        };
        self.vars.ldelay = self.now.since(CodelTime::at(packet.meta.enqueued_at));
        self.stats.max_packet = self.stats.max_packet.max(packet.wire_len());
        let fine = self.vars.ldelay.before(self.params.target);
        if fine || self.source.bytes() <= self.params.mtu {
            self.vars.first_above = CodelTime(0);
            return false;
        }
        if self.vars.first_above == CodelTime(0) {
            self.vars.first_above = self.now.plus(self.params.interval);
            return false;
        }
        self.now.after(self.vars.first_above)
    }

    /// In the dropping state: a mark, or drops until the schedule is met.
    fn go_on_dropping(&mut self, packet: Packet) -> Option<Packet> {
        let mut next = Some(packet);
        while self.vars.dropping && !self.now.before(self.vars.drop_next) {
            self.vars.count = self.vars.count.wrapping_add(1);
            self.vars.newton_step();
            let mut packet = next?;
            if self.marks(&mut packet) {
                self.vars.drop_next = self.next_drop(self.vars.drop_next);
                return Some(packet);
            }
            self.source.discard(packet);
            next = self.source.pop();
            if self.is_over(next.as_ref()) {
                self.vars.drop_next = self.next_drop(self.vars.drop_next);
            } else {
                self.vars.dropping = false;
            }
        }
        next
    }

    /// Into the dropping state with one drop or mark. If the last one ended a short while ago
    /// the rate starts near where it was.
    fn start_dropping(&mut self, mut packet: Packet) -> Option<Packet> {
        let next = if self.marks(&mut packet) {
            Some(packet)
        } else {
            self.source.discard(packet);
            let next = self.source.pop();
            self.is_over(next.as_ref());
            next
        };
        let vars = &mut *self.vars;
        vars.dropping = true;
        let delta = vars.count.wrapping_sub(vars.last_count);
        let recently = CodelTime(self.params.interval.0.wrapping_mul(16));
        if delta > 1 && self.now.since(vars.drop_next).before(recently) {
            vars.count = delta;
            vars.newton_step();
        } else {
            vars.count = 1;
            vars.rec_inv_sqrt = u16::MAX;
        }
        vars.last_count = vars.count;
        vars.drop_next = vars.next_drop(self.now, self.params.interval);
        next
    }

    fn next_drop(&self, from: CodelTime) -> CodelTime {
        self.vars.next_drop(from, self.params.interval)
    }

    fn marks(&mut self, packet: &mut Packet) -> bool {
        let marked = self.params.ecn && packet.mark_ce();
        self.stats.ecn_mark += u32::from(marked);
        marked
    }

    fn mark_by_threshold(&mut self, mut packet: Packet) -> Packet {
        let CeSelector { value, mask } = self.params.ce_selector;
        let selected = mask == 0 || packet.network.tos() & mask == value;
        if self.vars.ldelay.after(self.params.ce_threshold) && selected && packet.mark_ce() {
            self.stats.ce_mark += 1;
        }
        packet
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_cut_to_1024_ns() {
        let target = CodelTime::of(Duration::from_millis(5));
        assert_eq!((target.0, target.as_micros()), (4882, 4999));
        assert_eq!(CodelTime::of(Duration::from_millis(100)).as_micros(), 99_999);
        assert!(CodelTime(3).after(CodelTime(u32::MAX)));
    }

    /// From 1.0 at count 1 the steps keep near 1/sqrt(count).
    #[test]
    fn newton_follows_the_count() {
        let mut vars = CodelVars { count: 1, rec_inv_sqrt: u16::MAX, ..CodelVars::default() };
        for count in 2..1000u32 {
            vars.count = count;
            vars.newton_step();
            let squared = u64::from(vars.rec_inv_sqrt).pow(2) * u64::from(count);
            let error = squared.abs_diff(1 << 32);
            let allowed = if count < 8 { 1 << 31 } else { 1 << 27 };
            assert!(error < allowed, "count {count}: {}", vars.rec_inv_sqrt);
        }
    }
}
