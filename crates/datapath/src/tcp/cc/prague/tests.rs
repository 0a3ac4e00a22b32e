//! The rules of Prague, one test each.

use super::*;
use crate::tcp::cc::tests_support::ack_at;
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
        let mut window = Window { snd_ssthresh: cwnd, is_cwnd_limited: true, ..Window::new(cwnd) };
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

/// Section 3.3: where round trips swing by many milliseconds, a mark takes half, however few there were.
#[test]
fn a_mark_of_a_classic_queue_halves() {
    let cut = |swing_us: u32| {
        let mut flow = Flow::new(40, 100);
        flow.ack.min_rtt_us = 40_000;
        flow.acks(1_000, 1, 1);
        for round in 0..400 {
            let step = round % 10;
            flow.window.snd_cwnd = 100;
            for _ in 0..10 {
                flow.module.queue.sample(40_000 + swing_us * step / 10);
            }
            flow.acks(40_000, 100, 0);
        }
        let before = flow.window.snd_cwnd;
        flow.acks(40_000, 1, 1);
        f64::from(before - flow.window.snd_cwnd) / f64::from(before)
    };
    assert!(cut(1_000) < 0.1, "for L4S: {}", cut(1_000));
    assert!((0.45..0.55).contains(&cut(10_000)), "classic: {}", cut(10_000));
}

/// Section 2.5.2: 250 µs of 3.62 MB/s are less than a segment, of 145 MB/s they are 25.
#[test]
fn a_burst_lasts_a_quarter_of_a_millisecond() {
    for (rtt_ms, cwnd, segs) in [(40, 100, 1), (10, 1_000, 25)] {
        let flow = Flow::new(rtt_ms, cwnd);
        let said = flow.module.max_tso_segs(&flow.window, MSS);
        assert_eq!((said, flow.module.min_tso_segs(&flow.window)), (Some(segs), Some(1)));
    }
}

/// Section 3.5: one packet may be in flight, and the next one waits for its time.
#[test]
fn a_window_below_a_segment_is_paced() {
    let mut flow = Flow::new(40, 2);
    let mut seen = Vec::new();
    for _ in 0..3 {
        flow.acks(40_000, 1, 1);
        seen.push((flow.window.snd_cwnd, flow.window.pacing_rate));
    }
    let segment = u64::from(MSS) * 25;
    assert_eq!(seen, [(1, segment), (1, segment / 2), (1, segment / 4)]);
    for _ in 0..20 {
        flow.acks(40_000, 1, 1);
    }
    assert_eq!(flow.window.snd_cwnd, 1);
    assert_eq!(flow.window.pacing_rate, segment / 64, "not less than a packet in 64 round trips");
}

/// Below a segment an unmarked packet adds a multiple of the window, larger for smaller ones.
#[test]
fn small_windows_grow_by_logarithms() {
    let flow = Flow::new(40, 2);
    let times = |part: u64| flow.module.gain(&flow.ack, ONE / part) as f64 / (ONE / part) as f64;
    assert_eq!(flow.module.gain(&flow.ack, ONE), ONE, "as above");
    assert!((1.0..1.6).contains(&times(2)), "{}", times(2));
    assert!((2.9..3.2).contains(&times(7)), "{}", times(7));
    let mut flow = flow;
    for _ in 0..2 {
        flow.acks(40_000, 1, 1);
    }
    flow.acks(40_000, 1, 0);
    assert_eq!(flow.window.snd_cwnd, 2, "from a half to 1.25");
    assert!(!flow.window.in_slow_start());
}
