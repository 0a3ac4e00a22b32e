//! COBALT: CoDel and BLUE side by side, one state for each flow.
//!
//! CoDel (RFC 8289) marks or drops when a queue has stood for longer than an interval; BLUE drops
//! at random, with a probability that rises when the memory limit is hit and falls when the queue
//! runs empty: it handles flows that do not respond to marks. Unlike RFC 8289, the control state
//! decays gradually after the queue has recovered, and there is no separate "first above time".

use crate::units::Duration;

/// What COBALT needs to know about its tin (`struct cobalt_params`), in ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Params {
    /// Time within which a flow is expected to respond.
    pub interval: u64,
    /// Acceptable standing delay.
    pub target: u64,
    /// How long an MTU takes at the tin's rate.
    pub mtu_time: u64,
    /// Where 1/√count comes from.
    pub roots: Roots,
}

/// The source of 1/√count for counts below 16; for larger ones it is a Newton step from the previous value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Hash)]
pub enum Roots {
    /// From four steps of Newton's method for each, taken at boot (Linux 6.1).
    Newton,
    /// From a table of rounded values (Linux 7.x).
    #[default]
    Rounded,
}

/// The state of one flow (`struct cobalt_vars`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Cobalt {
    /// Signals given since the queue began to stand.
    pub count: u32,
    /// 1/√count in units of 2⁻³².
    inverse_sqrt: u32,
    /// When the next signal is due, in ns.
    pub drop_next: u64,
    /// When BLUE's probability last changed, in ns; 0 before it ever has.
    pub blue_timer: u64,
    /// BLUE's drop probability in units of 2⁻³².
    pub p_drop: u32,
    /// In the state of signalling.
    pub dropping: bool,
}

/// The decision about a packet that leaves its queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Send it as it is.
    Pass,
    /// A signal is due: mark it, or drop it if it can't be marked.
    Signal,
}

impl Params {
    /// The parameters of a tin where an MTU takes `mtu_time` ns, from the configured interval and
    /// target (`cake_set_rate`): a slow link needs time for more than one packet.
    pub fn scaled(interval: Duration, target: Duration, mtu_time: u64) -> Self {
        let (interval, configured) = (interval.as_nanos(), target.as_nanos());
        let target = (mtu_time.saturating_mul(3) / 2).max(configured);
        let interval = (interval + target - configured).max(target.saturating_mul(2));
        Self { interval, target, mtu_time, roots: Roots::default() }
    }
}

impl Cobalt {
    /// CoDel's decision about a packet that leaves the queue after `sojourn` ns. `bulk_flows` is the
    /// number of bulk flows of the tin in ingress mode, else 0.
    ///
    /// The caller marks or drops, draws for BLUE, and then calls [`Self::settle`].
    pub fn judge(
        &mut self,
        params: &Params,
        now: u64,
        sojourn: u64,
        bulk_flows: u64,
    ) -> CobaltVerdict {
        let standing = sojourn > params.target
            && sojourn > params.mtu_time.saturating_mul(4)
            && sojourn > params.mtu_time.saturating_mul(2 * bulk_flows);
        let due = self.due(now);
        let mut late = now > self.drop_next;
        self.enter_or_leave(params, now, standing);
        let decision = if due && self.dropping {
            self.count = self.count.saturating_add(1);
            self.schedule_next(params);
            late = now > self.drop_next;
            Decision::Signal
        } else {
            while self.due(now) && !self.dropping {
                self.count -= 1;
                self.schedule_next(params);
                late = now > self.drop_next;
            }
            Decision::Pass
        };
        CobaltVerdict { decision, late }
    }

    /// Completes the decision: `drop_next` is also used as an activity timeout.
    pub fn settle(&mut self, params: &Params, now: u64, late: bool, dropped: bool) {
        if self.count == 0 {
            self.drop_next = now + params.interval;
        } else if late && !dropped {
            self.drop_next = now;
        }
    }

    /// BLUE's part: whether a packet is dropped, given 32 random bits. ECN does not prevent that.
    pub const fn blue_drops(&self, random: u32) -> bool {
        random < self.p_drop
    }

    /// The memory limit hit this flow (`cobalt_queue_full`). True if BLUE has just begun.
    pub fn queue_full(&mut self, params: &Params, now: u64) -> bool {
        let mut begun = false;
        if self.blue_may_change(params, now) {
            begun = self.p_drop == 0;
            self.p_drop = self.p_drop.saturating_add(BLUE_UP);
            self.blue_timer = now;
        }
        self.dropping = true;
        self.drop_next = now;
        self.count = self.count.max(1);
        begun
    }

    /// The queue ran empty (`cobalt_queue_empty`). True if BLUE has just ended.
    pub fn queue_empty(&mut self, params: &Params, now: u64) -> bool {
        let mut ended = false;
        if self.p_drop != 0 && self.blue_may_change(params, now) {
            self.p_drop = self.p_drop.saturating_sub(BLUE_DOWN);
            self.blue_timer = now;
            ended = self.p_drop == 0;
        }
        self.dropping = false;
        if self.due(now) {
            self.count -= 1;
            self.schedule_next(params);
        }
        ended
    }

    /// True once the state is back to its initial values: the flow may be removed.
    pub const fn at_rest(&self, now: u64) -> bool {
        self.p_drop == 0 && self.count == 0 && now >= self.drop_next
    }

    /// BLUE changes its probability at most once per target time, and not within the first target time
    /// after boot.
    const fn blue_may_change(&self, params: &Params, now: u64) -> bool {
        now.saturating_sub(self.blue_timer) > params.target
    }

    const fn due(&self, now: u64) -> bool {
        self.count != 0 && now >= self.drop_next
    }

    fn enter_or_leave(&mut self, params: &Params, now: u64, standing: bool) {
        if standing && !self.dropping {
            self.drop_next = now + control(params.interval, self.inverse_sqrt);
            self.count = self.count.max(1);
        }
        self.dropping = standing;
    }

    /// Brings 1/√count up to date and moves `drop_next` on by interval/√count.
    fn schedule_next(&mut self, params: &Params) {
        let known = match params.roots {
            Roots::Newton => &NEWTONS_ROOTS,
            Roots::Rounded => &ROUNDED_ROOTS,
        };
        self.inverse_sqrt = match known.get(self.count as usize) {
            Some(&known) => known,
            None => newton_step(self.inverse_sqrt, self.count),
        };
        self.drop_next += control(params.interval, self.inverse_sqrt);
    }
}

/// The outcome of [`Cobalt::judge`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CobaltVerdict {
    /// What CoDel wants.
    pub decision: Decision,
    /// Whether the next signal is overdue, for [`Cobalt::settle`].
    pub late: bool,
}

/// `interval`/√count (`cobalt_control`). The kernel uses only 32 bits of the interval: 5 s,
/// as in a tin of 4 kbit/s, become 0.7 s.
const fn control(interval: u64, inverse_sqrt: u32) -> u64 {
    (interval as u32 as u64 * inverse_sqrt as u64) >> 32
}

/// One Newton step towards 1/√count: x · (3 − count · x²) / 2, in units of 2⁻³².
const fn newton_step(estimate: u32, count: u32) -> u32 {
    let x = estimate as u64;
    let square = (x * x) >> 32;
    let bracket = (3u64 << 32).wrapping_sub((count as u64).wrapping_mul(square)) >> 2;
    (bracket.wrapping_mul(x) >> 31) as u32
}

/// 1/√count for small counts, where one step would not do: four steps each, from the one before.
const NEWTONS_ROOTS: [u32; 16] = {
    let mut table = [u32::MAX; 16];
    let mut count = 1;
    while count < 16 {
        let mut estimate = table[count - 1];
        let mut step = 0;
        while step < 4 {
            estimate = newton_step(estimate, count as u32);
            step += 1;
        }
        table[count] = estimate;
        count += 1;
    }
    table
};

/// The same, rounded; the last bit of some is not the nearest.
const ROUNDED_ROOTS: [u32; 16] = {
    let mut table = [u32::MAX; 16];
    let mut count = 2;
    while count < 16 {
        // In half units, so that the last bit rounds.
        let root = ((1u128 << 66) / count as u128).isqrt() as u64;
        let nearest = root.div_ceil(2) as u32;
        table[count] = match count {
            4 => nearest - 1,
            10 | 12 | 15 => nearest + 1,
            _ => nearest,
        };
        count += 1;
    }
    table
};

/// BLUE's step up on overflow: 1/256.
const BLUE_UP: u32 = 1 << 24;
/// BLUE's step down when the queue is empty: 1/4096.
const BLUE_DOWN: u32 = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;
    const INTERNET: Params =
        Params { interval: 100 * MS, target: 5 * MS, mtu_time: MS, roots: Roots::Rounded };

    /// Judges packets that all stood for 50 ms, one every 10 ms: when signals came, in ms.
    fn signals(cobalt: &mut Cobalt, packets: u64) -> Vec<u64> {
        let start = 1000 * MS;
        let times = (0..packets).map(|packet| start + packet * 10 * MS);
        let signalled = times.filter(|&now| {
            let verdict = cobalt.judge(&INTERNET, now, 50 * MS, 0);
            cobalt.settle(&INTERNET, now, verdict.late, false);
            verdict.decision == Decision::Signal
        });
        signalled.map(|now| (now - start) / MS).collect()
    }

    #[test]
    fn a_fresh_queue_is_signalled_at_its_second_late_packet_then_ever_faster() {
        let mut cobalt = Cobalt::default();
        assert_eq!(signals(&mut cobalt, 40), [10, 80, 130, 180, 230, 270, 310, 340, 380]);
        assert_eq!(cobalt.count, 10);
    }

    /// With an RTT of 1000 s the target is 50 s.
    #[test]
    fn blue_waits_for_a_target_time_after_the_boot() {
        let mut cobalt = Cobalt::default();
        assert!(!cobalt.queue_full(&INTERNET, 5 * MS), "up for 5 ms");
        assert_eq!((cobalt.p_drop, cobalt.dropping), (0, true));
        assert!(cobalt.queue_full(&INTERNET, 6 * MS));
    }

    /// A tin of 8 kbit/s has an interval of 4.542 s, of which 32 bits hold 0.247 s.
    #[test]
    fn long_intervals_are_cut_to_32_bits() {
        let slow = Params { interval: 4_542 * MS, ..INTERNET };
        let mut cobalt = Cobalt { count: 1, drop_next: 1, dropping: true, ..Cobalt::default() };
        cobalt.judge(&slow, 1000 * MS, 5000 * MS, 0);
        assert_eq!((cobalt.count, cobalt.drop_next), (2, 1 + 174_678_500));
    }

    /// A second signal after a second's √2nd, in units of 2⁻³²: 10⁹ · 3,037,000,500 / 2³², and what Newton's method
    /// makes of it.
    #[test]
    fn roots_are_rounded_or_newtons() {
        for (roots, count, after) in [
            (Roots::Rounded, 2, 707_106_781),
            (Roots::Rounded, 3, 577_350_269),
            (Roots::Rounded, 4, 499_999_999),
            (Roots::Rounded, 9, 333_333_333),
            (Roots::Newton, 2, 706_708_468),
        ] {
            let params = Params { interval: 1_000 * MS, roots, ..INTERNET };
            let mut cobalt = Cobalt { count: count - 1, dropping: true, ..Cobalt::default() };
            cobalt.judge(&params, 0, 5_000 * MS, 0);
            assert_eq!((cobalt.count, cobalt.drop_next), (count, after), "{roots:?}");
        }
    }

    #[test]
    fn the_count_decays_while_the_queue_is_short() {
        let mut cobalt = Cobalt::default();
        signals(&mut cobalt, 40);
        let now = 10_000 * MS;
        let verdict = cobalt.judge(&INTERNET, now, MS, 0);
        cobalt.settle(&INTERNET, now, verdict.late, false);
        assert_eq!((cobalt.count, cobalt.dropping), (0, false));
        assert_eq!(cobalt.drop_next, now + INTERNET.interval, "then it is an activity timeout");
    }

    #[test]
    fn a_standing_queue_of_less_than_four_packets_is_none() {
        let slow = Params { mtu_time: 121 * MS, ..INTERNET };
        let signal = |sojourn| {
            let mut cobalt = Cobalt::default();
            (0..10u64).any(|packet| {
                let now = (1000 + 100 * packet) * MS;
                let verdict = cobalt.judge(&slow, now, sojourn * MS, 0);
                cobalt.settle(&slow, now, verdict.late, false);
                verdict.decision == Decision::Signal
            })
        };
        assert!(!signal(484));
        assert!(signal(485));
    }

    #[test]
    fn slow_links_have_a_longer_target_and_interval() {
        let scaled = |mtu_time: u64| {
            let interval = Duration::from_millis(100);
            let params = Params::scaled(interval, Duration::from_millis(5), mtu_time);
            (params.target / 1000, params.interval / 1000)
        };
        assert_eq!(scaled(1_000_000), (5_000, 100_000));
        assert_eq!(scaled(19_379_200), (29_068, 124_068));
        assert_eq!(scaled(193_804_403), (290_706, 581_413));
    }

    #[test]
    fn blue_rises_with_overflow_and_falls_with_emptiness() {
        let mut cobalt = Cobalt::default();
        assert!(cobalt.queue_full(&INTERNET, 1000 * MS), "begins");
        assert!(!cobalt.queue_full(&INTERNET, 1001 * MS), "at most once a target time");
        assert_eq!((cobalt.p_drop, cobalt.count), (1 << 24, 1));
        assert!(cobalt.blue_drops((1 << 24) - 1) && !cobalt.blue_drops(1 << 24));
        let ended = (0..16).filter(|step| cobalt.queue_empty(&INTERNET, (1010 + 10 * step) * MS));
        assert_eq!(ended.count(), 1);
        assert_eq!(cobalt.p_drop, 0);
    }
}
