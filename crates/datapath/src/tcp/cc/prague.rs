//! Prague (draft-briscoe-iccrg-prague-congestion-control-04): DCTCP made fit for the Internet, where queues of RFC 9332 and
//! others that mark early (L4S, RFC 9330) keep delay below a millisecond.
//!
//! | what | where |
//! |---|---|
//! | feedback of each mark (Accurate ECN), packets with ECT(1); without, Reno (RFC 9331 sections 4.1 to 4.3) | `Connection::cc_needs_accecn`, [`AnyCongestionControl::fall_back`](super::AnyCongestionControl::fall_back) |
//! | the share of marks, as a moving average | [`Prague::observe`] |
//! | less of the window by half of that share, at most once a virtual round trip (the draft's section 2.4.2) | [`Prague::react_to_marks`] |
//! | a loss halves; what marks took just before counts towards it | [`Prague::react_to_loss`] |
//! | growth by what comes unmarked, also while marks are reacted to | [`Prague::grow`] |
//! | short round trips grow no faster than one of 25 ms (section 2.4.4) | [`Prague::increase`] |
//! | pacing at the rate of the window | [`Prague::pace`] |
//!
//! docs/prague.md says where the rules are known from.

use super::{Ack, CongestionControl, CwndEvent, RateSample, Window};
use crate::trace::CaState;

/// Binary places of the share of marks and of the window's fraction.
const PLACES: u32 = 20;
/// All of them; one segment.
const ONE: u64 = 1 << PLACES;
/// The gain of the moving average is 1/2^4.
const GAIN_SHIFT: u32 = 4;
/// The least virtual round trip, µs.
const RTT_VIRT_MIN_US: u64 = 25_000;
/// Round trips after slow start before the growth depends less on the round trip.
const RTT_TRANSITION_ROUNDS: u32 = 500;
/// The smallest window, segments.
const MIN_CWND: u32 = 2;

/// Prague's state on one connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Prague {
    /// Estimated share of marked packets; none before the first mark.
    alpha: Option<u64>,
    /// Part of a segment that the window is larger than `snd_cwnd`.
    fraction: u64,
    /// `delivered` and `delivered_ce` at the latest ACK.
    seen: Delivered,
    /// The same when the present observation began.
    begun: Delivered,
    /// When that was, µs.
    begun_us: u64,
    /// When marks or a loss last took something of the window, µs.
    reduced_us: Option<u64>,
    /// What marks took then, in 2^-20 segments.
    taken: u64,
    /// The window before the latest loss, segments.
    loss_cwnd: u32,
    /// What recovery still owes of packets to send, in parts of the window before it.
    owed: u64,
    /// Round trips since slow start ended.
    rounds: u32,
    /// The round trip ends when so much is delivered.
    round_end: u32,
}

/// What had been delivered at some time, packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
struct Delivered {
    all: u32,
    marked: u32,
}

impl Delivered {
    fn by(ack: &Ack) -> Self {
        Self { all: ack.delivered, marked: ack.delivered_ce }
    }

    /// What has been delivered since.
    fn since(self, before: Self) -> Self {
        Self {
            all: self.all.wrapping_sub(before.all),
            marked: self.marked.wrapping_sub(before.marked),
        }
    }
}

/// The smoothed round trip, µs; a millisecond before the first sample.
fn srtt_us(ack: &Ack) -> u64 {
    ack.srtt_us_8.map_or(1_000, |srtt| u64::from(srtt.get() >> 3)).max(1)
}

/// The round trip that a flow of 25 ms or more has; shorter ones pretend (section 2.4.4).
fn rtt_virt_us(ack: &Ack) -> u64 {
    srtt_us(ack).max(RTT_VIRT_MIN_US)
}

impl Prague {
    /// Once a virtual round trip, the average moves by 1/16 towards the share of marks. It
    /// begins with the first mark, at 1, so that the first reduction is like one of a loss.
    fn observe(&mut self, ack: &Ack) {
        let now = Delivered::by(ack);
        let Some(alpha) = self.alpha else {
            if now.since(self.seen).marked > 0 {
                self.alpha = Some(ONE);
                (self.begun, self.begun_us) = (self.seen, ack.now_us);
            }
            return;
        };
        let Delivered { all, marked } = now.since(self.begun);
        if all == 0 || ack.now_us.saturating_sub(self.begun_us) < rtt_virt_us(ack) {
            return;
        }
        let share = (u64::from(marked.min(all)) << PLACES) / u64::from(all);
        self.alpha = Some(alpha - (alpha >> GAIN_SHIFT) + (share >> GAIN_SHIFT));
        (self.begun, self.begun_us) = (now, ack.now_us);
    }

    /// Whether the window was reduced within the latest virtual round trip.
    fn has_just_reduced(&self, ack: &Ack) -> bool {
        self.reduced_us.is_some_and(|at| ack.now_us.saturating_sub(at) < rtt_virt_us(ack))
    }

    /// The window with its fraction.
    fn exact(&self, window: &Window) -> u64 {
        u64::from(window.snd_cwnd) << PLACES | self.fraction
    }

    fn set_exact(&mut self, window: &mut Window, exact: u64) {
        let most = u64::from(window.snd_cwnd_clamp.max(1)) << PLACES;
        let exact = exact.max(u64::from(MIN_CWND) << PLACES).min(most);
        window.snd_cwnd = (exact >> PLACES) as u32;
        self.fraction = exact & (ONE - 1);
    }

    /// Section 2.4.2: alpha/2 of the window goes.
    fn react_to_marks(&mut self, window: &mut Window, ack: &Ack) {
        let before = self.exact(window);
        let alpha = self.alpha.unwrap_or(ONE);
        let cut = (u128::from(before) * u128::from(alpha)) >> (PLACES + 1);
        self.set_exact(window, before - cut as u64);
        window.snd_ssthresh = window.snd_cwnd.max(MIN_CWND);
        self.taken = before.saturating_sub(self.exact(window));
        self.reduced_us = Some(ack.now_us);
    }

    /// A loss halves the window, that which it was before marks took of it in the same
    /// round trip.
    fn react_to_loss(&mut self, window: &mut Window, ack: &Ack) {
        let recent = if self.has_just_reduced(ack) { self.taken } else { 0 };
        self.loss_cwnd = window.snd_cwnd;
        let before = self.exact(window) + recent;
        window.snd_ssthresh =
            ((before >> (PLACES + 1)) as u32).clamp(MIN_CWND, window.snd_cwnd.max(MIN_CWND));
        self.reduced_us = Some(ack.now_us);
        self.taken = 0;
        self.owed = u64::from(self.loss_cwnd);
    }

    /// What a window of unmarked packets adds (section 2.4.4): one segment, and from the 500th round
    /// trip on less of it by the square of what the round trip is short of the virtual one.
    fn increase(&self, ack: &Ack) -> u64 {
        if self.rounds < RTT_TRANSITION_ROUNDS {
            return ONE;
        }
        let (rtt, virt) = (u128::from(srtt_us(ack)), u128::from(rtt_virt_us(ack)));
        ((u128::from(ONE) * rtt * rtt) / (virt * virt)) as u64
    }

    /// What came unmarked makes the window larger, whether or not marks have made it smaller;
    /// slow start ends with the first of them.
    fn grow(&mut self, window: &mut Window, ack: &Ack, unmarked: u32) {
        if !window.cwnd_limited() || unmarked == 0 {
            return;
        }
        let mut left = unmarked;
        if window.in_slow_start() {
            left = window.slow_start(unmarked);
            self.fraction = 0;
        }
        let gain = (u128::from(self.increase(ack)) * u128::from(left)) << PLACES;
        let exact = self.exact(window).max(1);
        self.set_exact(window, exact + (gain / u128::from(exact)) as u64);
    }

    fn count_rounds(&mut self, window: &Window, ack: &Ack) {
        if window.in_slow_start() {
            (self.rounds, self.round_end) = (0, ack.delivered);
        } else if ack.delivered.wrapping_sub(self.round_end) as i32 >= 0 {
            self.rounds = self.rounds.saturating_add(1);
            self.round_end = ack.delivered.wrapping_add(window.snd_cwnd);
        }
    }

    /// In recovery as many packets leave as make what is in flight shrink to the threshold in a round
    /// trip, and the first at once (RFC 6937 section 3).
    fn recover(&mut self, window: &mut Window, ack: &Ack, sample: &RateSample) {
        let (pipe, target) = (ack.packets_in_flight, window.snd_ssthresh);
        let allowed = if pipe > target {
            let before = u64::from(self.loss_cwnd.max(1));
            self.owed += u64::from(sample.acked_sacked) * u64::from(target);
            let allowed = self.owed / before;
            self.owed %= before;
            allowed.min(u64::from(sample.acked_sacked) + 1) as u32
        } else {
            (target - pipe).min(sample.acked_sacked.max(1).saturating_add(sample.losses))
        };
        let cwnd = pipe.saturating_add(allowed);
        window.snd_cwnd = cwnd.clamp(1, window.snd_cwnd_clamp.max(1));
        self.fraction = 0;
    }

    /// The rate of a window a round trip; twice in slow start, as the kernel's for others.
    fn pace(window: &mut Window, ack: &Ack) {
        let ratio = if window.in_slow_start() { 2 } else { 1 };
        let bytes = u64::from(window.snd_cwnd) * u64::from(ack.mss) * ratio;
        let rate = u128::from(bytes) * 1_000_000 / u128::from(srtt_us(ack));
        window.pacing_rate = u64::try_from(rate).unwrap_or(u64::MAX).min(ack.max_pacing_rate);
    }
}

impl CongestionControl for Prague {
    fn init(&mut self, window: &mut Window, ack: &Ack) {
        let now = Delivered::by(ack);
        *self = Self {
            seen: now,
            begun: now,
            begun_us: ack.now_us,
            round_end: now.all,
            ..Self::default()
        };
        window.needs_pacing = true;
        Self::pace(window, ack);
    }

    /// Marks are reacted to with each ACK, losses where the state changes.
    fn ssthresh(&mut self, window: &Window, _ack: &Ack) -> u32 {
        window.snd_ssthresh.max(MIN_CWND)
    }

    fn cong_avoid(&mut self, _window: &mut Window, _ack: &Ack, _acked: u32) {
        unreachable!("Prague has a cong_control");
    }

    fn has_cong_control(&self) -> bool {
        true
    }

    fn cong_control(&mut self, window: &mut Window, ack: &Ack, sample: &RateSample) {
        self.observe(ack);
        let Delivered { all, marked } = Delivered::by(ack).since(self.seen);
        self.seen = Delivered::by(ack);
        if window.ca_state == CaState::Recovery {
            self.recover(window, ack, sample);
        } else {
            if marked > 0 && !self.has_just_reduced(ack) {
                self.react_to_marks(window, ack);
            }
            self.grow(window, ack, all.saturating_sub(marked));
        }
        self.count_rounds(window, ack);
        Self::pace(window, ack);
    }

    fn set_state(&mut self, window: &mut Window, ack: &Ack, new: CaState) {
        if new == CaState::Recovery && window.ca_state != CaState::Recovery {
            self.react_to_loss(window, ack);
        } else if window.ca_state == CaState::Recovery && new < CaState::Recovery {
            self.set_exact(window, u64::from(window.snd_ssthresh) << PLACES);
        }
    }

    fn cwnd_event(&mut self, window: &mut Window, ack: &Ack, event: CwndEvent) {
        if event == CwndEvent::Loss {
            self.react_to_loss(window, ack);
            self.fraction = 0;
        }
    }

    fn undo_cwnd(&mut self, window: &Window, _ack: &Ack) -> u32 {
        window.snd_cwnd.max(self.loss_cwnd)
    }

    fn needs_accecn(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests_support::ack_at;
    use super::*;
    use core::num::NonZeroU32;

    const MSS: u32 = 1_448;

    /// A flow of `rtt_ms` with a window of `cwnd` segments, past slow start.
    struct Flow {
        module: Prague,
        window: Window,
        ack: Ack,
    }

    impl Flow {
        fn new(rtt_ms: u32, cwnd: u32) -> Self {
            let ack = Ack { srtt_us_8: NonZeroU32::new(rtt_ms * 8_000), ..ack_at(1_000) };
            let mut window =
                Window { snd_ssthresh: cwnd, is_cwnd_limited: true, ..Window::new(cwnd) };
            let mut module = Prague::default();
            module.init(&mut window, &ack);
            Self { module, window, ack }
        }

        /// An ACK for `all` packets, `marked` of them with CE, so many µs later.
        fn acks(&mut self, after_us: u64, all: u32, marked: u32) {
            self.ack.now_us += after_us;
            self.ack.delivered += all;
            self.ack.delivered_ce += marked;
            self.ack.packets_in_flight = self.window.snd_cwnd;
            let sample = RateSample { acked_sacked: all, ..RateSample::default() };
            self.module.cong_control(&mut self.window, &self.ack, &sample);
        }

        fn share(&self) -> Option<f64> {
            self.module.alpha.map(|alpha| alpha as f64 / ONE as f64)
        }
    }

    /// The first mark halves, as nothing is known yet of how many there will be.
    #[test]
    fn the_first_mark_halves() {
        let mut flow = Flow::new(40, 100);
        flow.acks(1_000, 10, 1);
        assert_eq!((flow.window.snd_cwnd, flow.window.snd_ssthresh), (50, 50));
        assert_eq!(flow.share(), Some(1.0));
    }

    #[test]
    fn marks_of_the_same_round_trip_take_nothing_more() {
        let mut flow = Flow::new(40, 100);
        flow.acks(1_000, 1, 1);
        for _ in 0..30 {
            flow.acks(1_000, 1, 1);
        }
        assert_eq!(flow.window.snd_cwnd, 50);
        flow.acks(10_000, 1, 1);
        assert!(flow.window.snd_cwnd < 50, "the next round trip: {}", flow.window.snd_cwnd);
    }

    /// A path of 1 ms waits for 25 ms.
    #[test]
    fn a_short_path_reacts_by_the_virtual_round_trip() {
        let mut flow = Flow::new(1, 100);
        flow.acks(1_000, 1, 1);
        for _ in 0..23 {
            flow.acks(1_000, 10, 10);
        }
        assert_eq!(flow.window.snd_cwnd, 50);
        flow.acks(2_000, 1, 1);
        assert!(flow.window.snd_cwnd <= 26, "{}", flow.window.snd_cwnd);
    }

    /// alpha := alpha + (share - alpha)/16, once a virtual round trip.
    #[test]
    fn the_average_moves_by_a_sixteenth() {
        let mut flow = Flow::new(40, 100);
        flow.acks(1_000, 1, 1);
        let mut expected = 1.0;
        for (all, marked) in [(100, 0), (100, 50), (40, 40), (10, 1)] {
            flow.acks(40_000, all, marked);
            expected += (f64::from(marked) / f64::from(all) - expected) / 16.0;
            // The first packet belongs to the first observation.
            let off = (flow.share().expect("there was a mark") - expected).abs();
            assert!(off < 0.001 || all == 100 && off < 0.002, "{marked} of {all}: off by {off}");
        }
    }

    /// A window in which nothing is marked adds a segment; what is marked adds nothing.
    #[test]
    fn growth_is_a_segment_a_round_trip_of_unmarked_packets() {
        let mut flow = Flow::new(40, 100);
        for _ in 0..100 {
            flow.acks(400, 1, 0);
        }
        assert_eq!(flow.window.snd_cwnd, 100, "a hundredth short of it, by rounding");
        flow.acks(400, 2, 0);
        assert_eq!(flow.window.snd_cwnd, 101);
    }

    /// From the 500th round trip on, 5 ms instead of 25 make a twenty-fifth.
    #[test]
    fn short_paths_grow_slower_in_the_long_run() {
        let flow = Flow::new(5, 100);
        assert_eq!(flow.module.increase(&flow.ack), ONE);
        let old = Prague { rounds: RTT_TRANSITION_ROUNDS, ..flow.module };
        assert_eq!(old.increase(&flow.ack), ONE / 25);
        let long = Flow::new(100, 100);
        assert_eq!(Prague { rounds: 10_000, ..long.module }.increase(&long.ack), ONE);
    }

    #[test]
    fn rounds_are_counted_from_the_end_of_slow_start() {
        let mut flow = Flow::new(40, 10);
        flow.window.snd_ssthresh = 20;
        for _ in 0..10 {
            flow.acks(1_000, 1, 0);
        }
        assert_eq!(
            (flow.window.snd_cwnd, flow.module.rounds),
            (20, 1),
            "slow start ends with the tenth"
        );
        for _ in 0..60 {
            flow.acks(1_000, 1, 0);
        }
        assert_eq!(flow.module.rounds, 3);
    }

    /// A loss right after marks halves what the window was before both.
    #[test]
    fn a_loss_and_marks_of_one_round_trip_count_once() {
        let mut flow = Flow::new(40, 100);
        flow.module.alpha = Some(ONE / 2);
        flow.acks(1_000, 1, 1);
        assert_eq!(flow.window.snd_cwnd, 75);
        let Flow { module, window, ack } = &mut flow;
        module.set_state(window, ack, CaState::Recovery);
        assert_eq!(window.snd_ssthresh, 50);
        ack.now_us += 100_000;
        let mut later = Flow::new(40, 100);
        later.module.set_state(&mut later.window, &later.ack, CaState::Recovery);
        assert_eq!(
            (later.window.snd_ssthresh, later.module.undo_cwnd(&later.window, &later.ack)),
            (50, 100)
        );
    }

    /// A recovery takes the flight to the threshold, and leaves the window there.
    #[test]
    fn recovery_ends_at_the_threshold() {
        let mut flow = Flow::new(40, 100);
        flow.module.set_state(&mut flow.window, &flow.ack, CaState::Recovery);
        flow.window.ca_state = CaState::Recovery;
        let mut pipe = 99;
        for _ in 0..98 {
            flow.ack.now_us += 400;
            flow.ack.delivered += 1;
            flow.ack.packets_in_flight = pipe - 1;
            let sample = RateSample { acked_sacked: 1, ..RateSample::default() };
            flow.module.cong_control(&mut flow.window, &flow.ack, &sample);
            pipe = flow.window.snd_cwnd.max(pipe - 1);
        }
        assert!((50..=51).contains(&pipe), "{pipe}");
        flow.module.set_state(&mut flow.window, &flow.ack, CaState::Open);
        assert_eq!(flow.window.snd_cwnd, 50);
    }

    /// 100 segments in 40 ms are 3.62 MB/s.
    #[test]
    fn it_is_paced_at_the_rate_of_the_window() {
        let flow = Flow::new(40, 100);
        assert!(flow.window.needs_pacing);
        assert_eq!(flow.window.pacing_rate, u64::from(100 * MSS) * 25);
    }
}
