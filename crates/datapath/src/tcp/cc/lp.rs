//! TCP-LP (A. Kuzmanovic, E. Knightly, "TCP-LP: A Distributed Algorithm for Low Priority Data Transfer",
//! INFOCOM 2003), as `tcp_lp.c`: uses only bandwidth that other flows
//! leave. The one-way delay, from the peer's timestamps, reveals cross traffic before any loss.

use super::{Ack, AckSample, CongestionControl, Reno, Window};

/// TCP-LP's state (`struct lp`); times are in ms, the unit of timestamps. Before [`init`](CongestionControl::init) all fields
/// are zero: the answer to a SYN, which arrives earlier, looks like cross traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct LowPriority {
    /// The peer's clock is known (`LP_VALID_RHZ`).
    knows_clock: bool,
    /// Another indication of cross traffic would fall into the same inference period (`LP_WITHIN_INF`).
    infers: bool,
    /// One-way delay: smoothed times 8, lowest, highest, and what the highest follows.
    delay_8: u32,
    min_delay: u32,
    max_delay: u32,
    reserve: u32,
    /// Ticks of the peer's clock in a second; the latest ACK's timestamp, and what it echoed.
    remote_hz: u32,
    remote_time: u32,
    local_time: u32,
    /// When cross traffic was last detected, and the inference period, in which another indication is not new.
    last_drop: u32,
    inference: u32,
}

/// Ticks of our timestamps in a second (`TCP_TS_HZ`).
const TS_HZ: u32 = 1_000;

impl LowPriority {
    /// How fast the peer's clock runs (`tcp_lp_remote_hz_estimator`): by what it added between two ACKs, over what
    /// ours had added between the segments that they echo. Until a second round trip is echoed, nothing is known.
    fn estimate_clock(&mut self, ack: &Ack) {
        let mut hz_64 = i64::from(self.remote_hz << 6);
        let both_known = self.remote_time != 0 && self.local_time != 0;
        if both_known && ack.rcv_tsval != self.remote_time && ack.rcv_tsecr != self.local_time {
            let remote = ack.rcv_tsval.wrapping_sub(self.remote_time);
            let local = ack.rcv_tsecr.wrapping_sub(self.local_time);
            let measured = i64::from(TS_HZ.wrapping_mul(remote) / local);
            hz_64 = if hz_64 > 0 { hz_64 + measured - (hz_64 >> 6) } else { measured << 6 };
        }
        self.remote_hz = (hz_64 >> 6) as u32;
        self.knows_clock = hz_64 >> 6 > 0;
        self.remote_time = ack.rcv_tsval;
        self.local_time = ack.rcv_tsecr;
    }

    /// The one-way delay, but for the offset of the clocks (`tcp_lp_owd_calculator`). All of it is of 32 bits: a
    /// peer's clock behind ours makes a delay of weeks.
    fn one_way_delay(&mut self, ack: &Ack) -> Option<u32> {
        self.estimate_clock(ack);
        if !self.knows_clock {
            return None;
        }
        // The kernel's integer division ignores a peer clock slightly faster than ours, and doubles the value for one half as fast.
        let there = ack.rcv_tsval.wrapping_mul(TS_HZ / self.remote_hz.max(1));
        Some(there.wrapping_sub(ack.rcv_tsecr)).filter(|&delay| delay > 0)
    }

    /// A sample of the delay (`tcp_lp_rtt_sample`).
    fn sample_delay(&mut self, ack: &Ack) {
        let Some(delay) = self.one_way_delay(ack) else { return };
        self.min_delay = self.min_delay.min(delay);
        // The maximum follows the second highest sample, so that a single late packet does not count.
        if delay > self.max_delay {
            if delay > self.reserve {
                self.max_delay = if self.reserve == 0 { delay } else { self.reserve };
                self.reserve = delay;
            } else {
                self.max_delay = delay;
            }
        }
        self.delay_8 = if self.delay_8 == 0 {
            delay << 3
        } else {
            self.delay_8.wrapping_add(delay.wrapping_sub(self.delay_8 >> 3))
        };
    }

    /// The delay is at or above 15 % of the range between its minimum and maximum; this holds for the first sample, too.
    fn detects_cross_traffic(&self) -> bool {
        let span = self.max_delay.wrapping_sub(self.min_delay);
        let threshold = self.min_delay.wrapping_add(15_u32.wrapping_mul(span) / 100);
        self.delay_8 >> 3 >= threshold
    }
}

impl CongestionControl for LowPriority {
    fn init(&mut self, _window: &mut Window, _ack: &Ack) {
        *self = Self { min_delay: u32::MAX, ..Self::default() };
    }

    fn ssthresh(&mut self, window: &Window, ack: &Ack) -> u32 {
        Reno.ssthresh(window, ack)
    }

    fn cong_avoid(&mut self, window: &mut Window, ack: &Ack, acked: u32) {
        if !self.infers {
            Reno.cong_avoid(window, ack, acked);
        }
    }

    fn pkts_acked(&mut self, window: &mut Window, ack: &Ack, sample: &AckSample) {
        if sample.rtt_us.is_some_and(|rtt_us| rtt_us > 0) {
            self.sample_delay(ack);
        }
        let now = ack.time_stamp;
        let round_trip = now.wrapping_sub(ack.rcv_tsecr);
        if round_trip as i32 > 0 {
            self.inference = round_trip.wrapping_mul(3);
        }
        let since = now.wrapping_sub(self.last_drop);
        self.infers = self.last_drop != 0 && since < self.inference;
        if !self.detects_cross_traffic() {
            return;
        }
        self.min_delay = self.delay_8 >> 3;
        self.max_delay = self.delay_8 >> 2;
        self.reserve = self.delay_8 >> 2;
        // The first indication halves the window, the second one reduces it to a segment.
        window.snd_cwnd = if self.infers { 1 } else { (window.snd_cwnd >> 1).max(1) };
        self.last_drop = now;
    }

    fn undo_cwnd(&mut self, window: &Window, _ack: &Ack) -> u32 {
        window.snd_cwnd.max(window.prior_cwnd)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests_support::ack_at;
    use super::*;

    fn hears(lp: &mut LowPriority, window: &mut Window, now: u32, delay: u32) {
        let ack = Ack { rcv_tsval: now, rcv_tsecr: now - delay, ..ack_at(now) };
        let sample = AckSample { pkts_acked: 1, rtt_us: Some(delay * 1_000), in_flight: 1 };
        lp.pkts_acked(window, &ack, &sample);
    }

    fn begun() -> LowPriority {
        let mut lp = LowPriority::default();
        lp.init(&mut Window::new(10), &ack_at(0));
        lp
    }

    /// The answer to a SYN arrives before `init`: the first pacing rate is that of five segments (observed on 7.3).
    #[test]
    fn the_answer_to_a_syn_halves_the_window() {
        let (mut lp, mut window) = (LowPriority::default(), Window::new(10));
        hears(&mut lp, &mut window, 1_000, 3);
        assert_eq!(window.snd_cwnd, 5);
        let mut window = Window::new(10);
        hears(&mut begun(), &mut window, 1_000, 3);
        assert_eq!(window.snd_cwnd, 10);
    }

    #[test]
    fn others_halve_the_window_and_then_leave_one_segment() {
        let mut lp = begun();
        let mut window = Window::new(40);
        // Without a queue 20 ms, 100 ms at worst.
        for (step, delay) in [20, 20, 100, 110, 20, 20, 20].into_iter().enumerate() {
            hears(&mut lp, &mut window, 1_000 + step as u32, delay);
        }
        let mut seen = vec![window.snd_cwnd];
        for now in 1_010..1_040 {
            hears(&mut lp, &mut window, now, 100);
            seen.push(window.snd_cwnd);
        }
        seen.dedup();
        assert_eq!(seen.last(), Some(&1), "{seen:?}");
        assert!(seen.windows(2).all(|pair| pair[1] == 1 || pair[1] == pair[0] / 2), "{seen:?}");
    }

    /// ACKs of one flight do not reveal the peer's clock rate, because all echo the same tick. The first known delay is
    /// both minimum and maximum, and therefore an indication of cross traffic (observed on 7.3).
    #[test]
    fn the_clock_is_known_when_a_second_flight_is_echoed() {
        let mut lp = begun();
        let mut window = Window::new(40);
        let sample = AckSample { pkts_acked: 1, rtt_us: Some(20_000), in_flight: 1 };
        for now in 1_020..1_030 {
            let ack = Ack { rcv_tsval: now, rcv_tsecr: 1_000, ..ack_at(now) };
            lp.pkts_acked(&mut window, &ack, &sample);
        }
        assert_eq!((lp.knows_clock, window.snd_cwnd), (false, 40));
        let ack = Ack { rcv_tsval: 1_040, rcv_tsecr: 1_020, ..ack_at(1_040) };
        lp.pkts_acked(&mut window, &ack, &sample);
        assert_eq!((lp.remote_hz, lp.delay_8 >> 3, window.snd_cwnd), (550, 20, 20));
    }

    #[test]
    fn the_peers_clock_may_run_at_another_speed() {
        let mut lp = begun();
        for second in 1..4 {
            let ack = Ack { rcv_tsval: second * 250, rcv_tsecr: second * 1_000, ..ack_at(0) };
            lp.estimate_clock(&ack);
        }
        assert_eq!(lp.remote_hz, 250);
    }
}
