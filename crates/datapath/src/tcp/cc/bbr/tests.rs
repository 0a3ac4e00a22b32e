use super::*;
use crate::packet::seq::Seq;
use crate::tcp::cc::tests_support::ack_at;
use core::num::NonZeroU32;

/// A flow on a path of one packet a ms and 40 ms, one ACK a round trip.
struct Path {
    module: Bbr,
    window: Window,
    now_ms: u32,
    delivered: u32,
}

impl Path {
    fn new(cycle_draw: Option<u8>) -> Self {
        let mut path = Self {
            module: Bbr::new(Params { cycle_draw }),
            window: Window::new(10),
            now_ms: 1_000,
            delivered: 0,
        };
        path.module.init(&mut path.window, &ack_at(1_000));
        path
    }

    fn ack(&self) -> Ack {
        Ack {
            delivered: self.delivered,
            delivered_us: u64::from(self.now_ms) * 1_000,
            packets_in_flight: 0,
            srtt_us_8: NonZeroU32::new(8 * 40_000),
            iss: Seq(self.delivered),
            ..ack_at(self.now_ms)
        }
    }

    /// A round trip later `delivered` packets have arrived, and `losses` are marked lost.
    fn round(&mut self, delivered: u32, losses: u32, lost: u32) -> &Bbr {
        let prior_delivered = self.delivered;
        self.now_ms += 40;
        self.delivered += delivered;
        let sample = RateSample {
            prior_us: Some(1),
            prior_delivered,
            delivered: Some(delivered),
            interval_us: 40_000,
            rtt_us: Some(40_000),
            acked_sacked: delivered,
            losses,
            ..RateSample::default()
        };
        let ack = Ack { lost, ..self.ack() };
        self.module.cong_control(&mut self.window, &ack, &sample);
        &self.module
    }
}

#[test]
fn startup_ends_after_three_rounds_without_growth() {
    let mut path = Path::new(Some(0));
    let modes = [10, 20, 40, 40, 40].map(|packets| path.round(packets, 0, 0).mode);
    assert_eq!(modes, [Mode::Startup; 5]);
    // Nothing is in flight in this test, so DRAIN is over at once.
    assert_eq!(path.round(40, 0, 0).mode, Mode::ProbeBw);
    assert_eq!(path.window.snd_ssthresh, 40 + 3 * 2, "one BDP and room for three super-packets");
}

#[test]
fn the_cycle_begins_where_the_draw_says_and_never_at_the_slow_phase() {
    for (draw, phase) in [(0, 0), (1, 7), (5, 3), (6, 2)] {
        let mut path = Path::new(Some(draw));
        path.module.enter_probe_bw(&ack_at(1));
        assert_eq!(path.module.cycle_idx, phase, "draw {draw}");
    }
    let mut seen = [0; 8];
    for iss in 0..2_000 {
        let mut module = Bbr::new(Params::default());
        module.enter_probe_bw(&Ack { iss: Seq(iss), ..ack_at(1) });
        seen[usize::from(module.cycle_idx)] += 1;
    }
    assert_eq!(seen[1], 0);
    assert!(seen.iter().enumerate().all(|(phase, count)| phase == 1 || *count > 200), "{seen:?}");
}

/// Two intervals at the same rate, with a fifth of the packets lost: a policer.
#[test]
fn a_policer_is_kept_to_for_48_round_trips() {
    let mut path = Path::new(Some(0));
    for packets in [10, 20, 40, 40, 40, 40] {
        path.round(packets, 0, 0);
    }
    let mut lost = 0;
    let mut rounds = 0;
    while path.module.long_term.rate_in_use().is_none() {
        lost += 8;
        rounds += 1;
        path.round(32, 8, lost);
        assert!(rounds < 20, "the policer is not found");
    }
    // Two intervals of four round trips.
    assert_eq!(rounds, 8);
    let policed = path.module.long_term.rate_in_use().expect("in use");
    assert!(u64::from(policed).abs_diff(32 * BW_UNIT / 40_000) < 5);
    assert_eq!(path.round(32, 0, lost).pacing_gain, BBR_UNIT, "no phase is faster");
    for _ in 0..46 {
        path.round(32, 0, lost);
    }
    assert!(path.module.long_term.rate_in_use().is_some());
    assert!(path.round(32, 0, lost).long_term.rate_in_use().is_none(), "probed anew");
}

#[test]
fn the_lowest_rtt_is_looked_for_after_ten_seconds() {
    let mut path = Path::new(Some(0));
    for packets in [10, 20, 40, 40, 40, 40] {
        path.round(packets, 0, 0);
    }
    let before = path.window.snd_cwnd;
    // The RTT never falls below the first sample.
    while path.module.mode != Mode::ProbeRtt {
        path.round(40, 0, 0);
        assert!(path.now_ms < 12_000);
    }
    assert!(path.now_ms > 11_000, "{}", path.now_ms);
    assert_eq!((path.window.snd_cwnd, path.module.prior_cwnd), (4, before));
    assert!(path.window.app_limited.is_some(), "its samples do not count");
    let entered = path.now_ms;
    while path.module.mode == Mode::ProbeRtt {
        path.round(4, 0, 0);
    }
    assert_eq!(path.now_ms - entered, 240, "200 ms, and the jiffy after them");
    assert!(path.window.snd_cwnd >= before.min(84), "{}", path.window.snd_cwnd);
}

/// What is lost leaves the window; in the first round trip one packet is sent for each delivered;
/// afterwards the window is as before.
#[test]
fn recovery_conserves_packets_and_restores_the_window() {
    let mut path = Path::new(Some(0));
    for packets in [10, 20, 40, 40, 40, 40] {
        path.round(packets, 0, 0);
    }
    let before = path.window.snd_cwnd;
    let ssthresh = path.module.ssthresh(&path.window, &ack_at(1));
    assert_eq!(ssthresh, path.window.snd_ssthresh, "the threshold stays");
    path.window.ca_state = CaState::Recovery;
    path.module.next_rtt_delivered = path.delivered + 1_000;
    path.round(3, 2, 2);
    assert_eq!(path.window.snd_cwnd, 3, "nothing is in flight");
    path.window.ca_state = CaState::Open;
    path.round(40, 0, 2);
    assert!(path.window.snd_cwnd >= before, "{} {before}", path.window.snd_cwnd);
}

#[test]
fn below_1200_kbit_segments_leave_one_at_a_time() {
    for (rate, segs) in [(149_999, 1), (150_000, 2)] {
        let window = Window { pacing_rate: rate, ..Window::new(10) };
        assert_eq!(pacing::min_tso_segs(&window), segs);
        assert_eq!(tso_segs_goal(&window, &ack_at(1)), segs);
    }
    let window = Window { pacing_rate: 1 << 30, ..Window::new(10) };
    assert_eq!(tso_segs_goal(&window, &ack_at(1)), 45);
}

#[test]
fn the_information_has_its_size_and_layout() {
    let info = BbrInfo { bw: 5 << 32 | 7, min_rtt_us: 40_000, pacing_gain: 320, cwnd_gain: 512 };
    let mut expected = Vec::new();
    for word in [7_u32, 5, 40_000, 320, 512] {
        expected.extend(word.to_le_bytes());
    }
    assert_eq!(info.to_bytes().to_vec(), expected);
}

#[test]
fn the_highest_rate_is_forgotten_after_its_window() {
    let mut max = WindowedMax::default();
    for (at, value, expected) in
        [(0, 9, 9), (3, 5, 9), (6, 4, 9), (10, 3, 9), (11, 2, 5), (25, 1, 1)]
    {
        max.sample(10, at, value);
        assert_eq!(max.get(), expected, "at {at}");
    }
}

/// Idleness ends with the first ACK of data that is sent afterwards (`bbr_update_min_rtt`), though its rate be of no use.
#[test]
fn an_ack_too_early_for_a_rate_sample_ends_idleness() {
    for (sample, idle) in [
        (RateSample { is_too_short: true, ..RateSample::default() }, false),
        (RateSample { delivered: Some(1), interval_us: 1, ..RateSample::default() }, false),
        (RateSample::default(), true),
    ] {
        let mut path = Path::new(Some(0));
        path.window.app_limited = Some(1);
        let ack = path.ack();
        path.module.cwnd_event(&mut path.window, &ack, CwndEvent::TxStart);
        assert!(path.module.idle_restart);
        path.module.cong_control(&mut path.window, &ack, &sample);
        assert_eq!(path.module.idle_restart, idle, "{sample:?}");
    }
}
