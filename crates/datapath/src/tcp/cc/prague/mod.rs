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
//! | pacing at the rate of the window, bursts of 250 µs (sections 2.5.1 and 2.5.2) | [`Prague::pace`], `max_tso_segs` |
//! | a queue with classic ECN is found by its delay, and shared as Reno would (section 3.3) | [`classic`] |
//! | windows below two segments, by pacing (section 3.5) | [`Prague::set_exact`], [`Prague::gain`] |
//!
//! docs/prague.md lists the sources of these rules.

mod classic;

use super::{Ack, CongestionControl, CwndEvent, RateSample, Window};
use crate::trace::CaState;
use classic::{Detector, lg};

/// Binary places of the share of marks and of the exact window.
const PLACES: u32 = 20;
/// All of them; one segment.
const ONE: u64 = 1 << PLACES;
/// The gain of the moving average is 1/2^4.
const GAIN_SHIFT: u32 = 4;
/// Minimum virtual round trip, µs.
const RTT_VIRT_MIN_US: u64 = 25_000;
/// Round trips after slow start before the growth depends less on the round trip.
const RTT_TRANSITION_ROUNDS: u32 = 500;
/// The smallest threshold after a loss, segments.
const MIN_CWND: u32 = 2;
/// Below two segments the window is kept by pacing (section 3.5).
const SMALL: u64 = 2 * ONE;
/// The smallest window: a segment in 64 round trips.
const SMALLEST: u64 = ONE >> 6;
/// A burst keeps a bottleneck busy for 250 µs at most (`MAX_BURST_DELAY` of section 2.5.2).
const BURSTS_PER_SEC: u64 = 4_000;

/// Prague's state on one connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Prague {
    /// Estimated share of marked packets; none before the first mark.
    alpha: Option<u64>,
    /// The window with its fraction, 2^-20 segments; counts while `snd_cwnd` is what it makes.
    exact: u64,
    /// `delivered` and `delivered_ce` at the latest ACK.
    seen: Delivered,
    /// The same when the present observation began.
    begun: Delivered,
    /// When that was, µs.
    begun_us: u64,
    /// When marks or a loss last reduced the window, µs.
    reduced_us: Option<u64>,
    /// The reduction by marks then, in 2^-20 segments.
    taken: u64,
    /// The window before the latest loss, segments.
    loss_cwnd: u32,
    /// The window that recovery from it ends with.
    after_loss: u64,
    /// Packets that recovery may still send, as a fraction of the window before it.
    owed: u64,
    /// Round trips since slow start ended.
    rounds: u32,
    /// The round trip ends when so much is delivered.
    round_end: u32,
    /// Which kind of queue marks.
    queue: Detector,
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

/// The virtual round trip: at least 25 ms (section 2.4.4).
fn rtt_virt_us(ack: &Ack) -> u64 {
    srtt_us(ack).max(RTT_VIRT_MIN_US)
}

/// The flight that a window permits: its whole segments; below two segments a fraction counts as one.
fn packets(exact: u64) -> u32 {
    let whole = if exact < SMALL { exact.div_ceil(ONE) } else { exact >> PLACES };
    whole as u32
}

impl Prague {
    /// Once a virtual round trip, the average moves by 1/16 towards the share of marks. It
    /// begins with the first mark, at 1, so that the first reduction is like one of a loss.
    fn observe(&mut self, ack: &Ack, cwnd: u32) {
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
        self.queue.update_score(ack, cwnd);
    }

    /// Whether the window was reduced within the latest virtual round trip.
    fn has_just_reduced(&self, ack: &Ack) -> bool {
        self.reduced_us.is_some_and(|at| ack.now_us.saturating_sub(at) < rtt_virt_us(ack))
    }

    /// The window with its fraction; without one if TCP has set the window.
    fn exact(&self, window: &Window) -> u64 {
        if packets(self.exact) == window.snd_cwnd {
            self.exact
        } else {
            u64::from(window.snd_cwnd) << PLACES
        }
    }

    /// Section 3.5: down to [`SMALLEST`], where packets are sent by the clock of pacing.
    fn set_exact(&mut self, window: &mut Window, exact: u64) {
        let most = u64::from(window.snd_cwnd_clamp.max(1)) << PLACES;
        self.exact = exact.max(SMALLEST).min(most);
        window.snd_cwnd = packets(self.exact);
        if self.exact < SMALL {
            // From here on it grows by the rule for small windows, not by slow start.
            window.snd_ssthresh = window.snd_ssthresh.min(window.snd_cwnd);
        }
    }

    /// Section 2.4.2: alpha/2 of the window goes; half of it in a classic queue, as Reno's (section 3.3).
    fn react_to_marks(&mut self, window: &mut Window, ack: &Ack) {
        let before = self.exact(window);
        let alpha = self.alpha.unwrap_or(ONE).max(self.queue.certainty());
        let cut = (u128::from(before) * u128::from(alpha)) >> (PLACES + 1);
        self.set_exact(window, before - cut as u64);
        window.snd_ssthresh = window.snd_cwnd;
        self.taken = before.saturating_sub(self.exact(window));
        self.reduced_us = Some(ack.now_us);
    }

    /// A loss halves the window. Its base is the window before marks reduced it in the same
    /// round trip.
    fn react_to_loss(&mut self, window: &mut Window, ack: &Ack) {
        let recent = if self.has_just_reduced(ack) { self.taken } else { 0 };
        self.loss_cwnd = window.snd_cwnd;
        let before = self.exact(window) + recent;
        self.after_loss = (before / 2).min(self.exact(window));
        window.snd_ssthresh = ((self.after_loss >> PLACES) as u32).max(MIN_CWND);
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

    /// What one unmarked packet adds to a window of `exact`: its part of the increase. Below a segment a
    /// packet is more than a window, and would add many times what there is: there the increase is
    /// the window by the logarithm of its share (section 3.5), which leaves small windows growing faster than
    /// larger ones.
    fn gain(&self, ack: &Ack, exact: u64) -> u64 {
        let increase = u128::from(self.increase(ack));
        if exact >= ONE {
            return ((increase << PLACES) / u128::from(exact)) as u64;
        }
        let doublings = (lg(ONE + exact) - lg(exact)) as u128;
        ((increase * u128::from(exact) * doublings) >> PLACES >> classic::LG_PLACES) as u64
    }

    /// Unmarked packets grow the window, whether or not marks have reduced it; slow start ends with the first
    /// mark.
    fn grow(&mut self, window: &mut Window, ack: &Ack, unmarked: u32) {
        if !window.cwnd_limited() || unmarked == 0 {
            return;
        }
        let mut left = unmarked;
        if window.in_slow_start() {
            left = window.slow_start(unmarked);
        }
        let exact = self.exact(window).max(1);
        self.set_exact(window, exact + self.gain(ack, exact).saturating_mul(left.into()));
    }

    fn count_rounds(&mut self, window: &Window, ack: &Ack) {
        if window.in_slow_start() {
            (self.rounds, self.round_end) = (0, ack.delivered);
        } else if ack.delivered.wrapping_sub(self.round_end) as i32 >= 0 {
            self.rounds = self.rounds.saturating_add(1);
            self.round_end = ack.delivered.wrapping_add(window.snd_cwnd);
        }
    }

    /// In recovery the number of packets sent is such that the flight shrinks to the threshold within a round
    /// trip; the first one is sent at once (RFC 6937 section 3).
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
        self.exact = 0;
    }

    /// Section 2.5.1: one window per round trip; in slow start twice that, as the kernel paces other modules.
    fn pace(&self, window: &mut Window, ack: &Ack) {
        let ratio = if window.in_slow_start() { 2 } else { 1 };
        let bytes = u128::from(self.exact(window)) * u128::from(ack.mss) * ratio;
        let rate = ((bytes * 1_000_000 / u128::from(srtt_us(ack))) >> PLACES).max(1);
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
        self.pace(window, ack);
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
        if let Some(rtt_us) = sample.rtt_us
            && !sample.is_ack_delayed
        {
            self.queue.sample(rtt_us);
        }
        self.observe(ack, window.snd_cwnd);
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
        self.pace(window, ack);
    }

    fn set_state(&mut self, window: &mut Window, ack: &Ack, new: CaState) {
        if new == CaState::Recovery && window.ca_state != CaState::Recovery {
            self.react_to_loss(window, ack);
        } else if window.ca_state == CaState::Recovery && new < CaState::Recovery {
            self.set_exact(window, self.after_loss);
        }
    }

    fn cwnd_event(&mut self, window: &mut Window, ack: &Ack, event: CwndEvent) {
        if event == CwndEvent::Loss {
            self.react_to_loss(window, ack);
            self.exact = 0;
        }
    }

    fn undo_cwnd(&mut self, window: &Window, _ack: &Ack) -> u32 {
        window.snd_cwnd.max(self.loss_cwnd)
    }

    fn min_tso_segs(&self, _window: &Window) -> Option<u32> {
        Some(1)
    }

    fn max_tso_segs(&self, window: &Window, mss: u32) -> Option<u32> {
        // Section 2.5.2: `max_burst`.
        let segs = window.pacing_rate / BURSTS_PER_SEC / u64::from(mss);
        Some(u32::try_from(segs).unwrap_or(u32::MAX).max(1))
    }

    fn needs_accecn(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests;
