//! The draft's "BBR Example Test Cases" that need no path, and its bounds.

use super::*;
use crate::tcp::cc::tests_support::ack_at;

/// One ACK a round trip of 40 ms.
struct Path {
    module: Bbr3,
    window: Window,
    now_ms: u32,
    delivered: u32,
    in_flight: u32,
    app_limited: bool,
}

impl Path {
    fn new() -> Self {
        let mut path = Self {
            module: Bbr3::default(),
            window: Window::new(10),
            now_ms: 1_000,
            delivered: 0,
            in_flight: 0,
            app_limited: false,
        };
        path.module.init(&mut path.window, &ack_at(1_000));
        path
    }

    fn ack(&self) -> Ack {
        Ack {
            delivered: self.delivered,
            delivered_us: u64::from(self.now_ms) * 1_000,
            packets_in_flight: self.in_flight,
            ..ack_at(self.now_ms)
        }
    }

    fn round(&mut self, delivered: u32) -> State {
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
            tx_in_flight: delivered,
            is_app_limited: self.app_limited,
            ..RateSample::default()
        };
        let ack = self.ack();
        self.module.cong_control(&mut self.window, &ack, &sample);
        self.module.state
    }

    fn lose(&mut self, tx_in_flight: u32, lost: u32) {
        let packet = LostPacket {
            seq: Seq(1),
            end_seq: Seq(2),
            segments: 1,
            tx_in_flight,
            lost,
            is_app_limited: self.app_limited,
        };
        let ack = self.ack();
        self.module.skb_marked_lost(&mut self.window, &ack, &packet);
    }

    /// Until `state`, with 40 packets a round trip.
    fn until(mut self, state: State) -> Self {
        for packets in [10, 20, 40] {
            self.round(packets);
        }
        for _ in 0..400 {
            if self.round(40) == state {
                return self;
            }
        }
        panic!("{state:?} does not come: {:?}", self.module);
    }
}

/// "Exiting STARTUP on Bandwidth Plateau"
#[test]
fn startup_ends_at_a_plateau() {
    let mut path = Path::new();
    path.in_flight = 200;
    for packets in [10, 20, 40, 40, 40] {
        assert_eq!(path.round(packets), State::Startup);
    }
    assert_eq!(path.round(40), State::Drain);
    assert!(path.module.full_bw_now && path.module.full_bw_reached);
    assert_eq!(u64::from(path.module.max_bw()), 40 * super::super::bbr::BW_UNIT / 40_000);
}

/// "Exiting DRAIN Based on Inflight", "Exiting DRAIN Based on Time"
#[test]
fn drain_ends_when_the_queue_is_gone_or_after_three_rounds() {
    assert_eq!(State::Drain.gains(), (128, 512));
    let mut path = Path::new();
    path.in_flight = 200;
    for packets in [10, 20, 40, 40, 40, 40] {
        path.round(packets);
    }
    for _ in 0..3 {
        assert_eq!(path.round(40), State::Drain);
    }
    assert_eq!(path.round(40), State::ProbeBwDown);
}

/// "Never Exiting PROBE_UP (or STARTUP) When Application-Limited With No Loss"
#[test]
fn an_application_that_is_the_limit_does_not_end_startup() {
    let mut path = Path::new();
    path.app_limited = true;
    assert!((0..50).all(|_| path.round(10) == State::Startup));
}

/// "Exiting STARTUP on Loss": a round of recovery, 2 %, six places; and back, if it was spurious.
#[test]
fn startup_ends_at_heavy_loss_and_resumes_if_it_was_spurious() {
    let mut path = Path::new();
    path.in_flight = 200;
    for packets in [10, 20, 40] {
        path.round(packets);
    }
    path.window.ca_state = CaState::Recovery;
    for range in 0..6 {
        let (seq, end_seq) = (Seq(range * 10), Seq(range * 10 + 1));
        let packet = LostPacket {
            seq,
            end_seq,
            segments: 1,
            tx_in_flight: 80,
            lost: range + 1,
            is_app_limited: false,
        };
        let ack = path.ack();
        path.module.skb_marked_lost(&mut path.window, &ack, &packet);
    }
    let (prior_delivered, delivered) = (path.delivered, 80);
    path.delivered += delivered;
    path.now_ms += 40;
    let sample = RateSample {
        prior_us: Some(1),
        prior_delivered,
        delivered: Some(delivered),
        interval_us: 40_000,
        rtt_us: Some(40_000),
        acked_sacked: delivered,
        tx_in_flight: 80,
        lost: 6,
        ..RateSample::default()
    };
    let ack = path.ack();
    path.module.cong_control(&mut path.window, &ack, &sample);
    assert_eq!(path.module.state, State::Drain);
    assert_eq!(path.module.inflight_longterm, 80, "what was delivered in a round trip");
    path.module.undo_cwnd(&path.window, &ack);
    assert_eq!((path.module.state, path.module.full_bw_reached), (State::Startup, false));
    assert_eq!(path.module.inflight_longterm, INFINITY);
}

/// "Handling Loss During PROBE_UP After inflight_longterm is Set"
#[test]
fn loss_above_two_percent_ends_a_probe_and_bounds_the_flight() {
    let mut path = Path::new().until(State::ProbeBwUp);
    path.lose(100, 2);
    assert_eq!(path.module.state, State::ProbeBwUp, "two percent are tolerated");
    path.lose(100, 3);
    assert_eq!(path.module.state, State::ProbeBwDown);
    assert_eq!(path.module.inflight_longterm, 99, "where two percent were crossed");
    assert!(path.module.prev_probe_too_high);
    path.lose(50, 30);
    assert_eq!(path.module.inflight_longterm, 99, "one reaction a probe");
    // "Handling Spurious Fast Recovery"
    let ack = path.ack();
    path.module.undo_cwnd(&path.window, &ack);
    assert_eq!(path.module.state, State::ProbeBwRefill);
    assert_eq!(path.module.inflight_longterm, INFINITY);
}

/// "BBR.Beta": no bound falls below 0.7 of what the flow wants in flight.
#[test]
fn a_bound_is_at_least_seven_tenths_of_the_target() {
    let mut path = Path::new().until(State::ProbeBwUp);
    let target = path.module.target_inflight(&path.window);
    path.lose(10, 5);
    assert_eq!(path.module.inflight_longterm, target * 7 / 10);
}

/// "Precautionary Bandwidth Probing"
#[test]
fn the_probe_after_one_that_was_too_high_is_brief() {
    let mut path = Path::new().until(State::ProbeBwUp);
    path.lose(60, 10);
    path.in_flight = 0;
    let bound = path.module.inflight_longterm;
    for _ in 0..200 {
        if path.round(30) == State::ProbeBwUp {
            break;
        }
    }
    assert_eq!(path.module.state, State::ProbeBwUp);
    path.in_flight = bound.max(path.module.inflight_longterm);
    assert_eq!(path.round(30), State::ProbeBwDown);
    assert!(path.module.prev_probe_precautionary && !path.module.prev_probe_too_high);
    path.in_flight = 0;
    // "Acceleration": nothing was lost, so the next probe comes at once.
    assert_eq!(path.round(30), State::ProbeBwRefill);
}

/// "When not Probing for Bandwidth": once a round trip, down to 0.7 at most, until the next probe.
#[test]
fn losses_between_probes_lower_rate_and_flight_for_the_cycle() {
    let mut path = Path::new().until(State::ProbeBwCruise);
    let (max_bw, cwnd) = (path.module.max_bw(), path.window.snd_cwnd);
    // The first of two round trips still has what was delivered before the loss.
    for _ in 0..2 {
        path.lose(40, 1);
        path.round(20);
    }
    assert_eq!(path.module.max_bw(), max_bw, "the long-term model stays");
    let seven_tenths = |value: u32| (u64::from(value) * 7 / 10) as u32;
    assert!(path.module.bw_shortterm >= seven_tenths(max_bw) && path.module.bw_shortterm < max_bw);
    assert!(path.module.inflight_shortterm >= seven_tenths(cwnd).min(20));
    assert!(path.window.snd_cwnd <= path.module.inflight_shortterm.max(MIN_PIPE_CWND));
    while path.round(20) != State::ProbeBwRefill {}
    assert_eq!((path.module.bw_shortterm, path.module.inflight_shortterm), (INFINITY, INFINITY));
}

/// "A Dual-Time-Scale Approach for Coexistence": 2 to 3 s, or as many round trips as Reno needs.
#[test]
fn probes_are_as_rare_as_reno_loses() {
    let mut path = Path::new().until(State::ProbeBwRefill);
    let began = path.now_ms;
    while path.round(40) != State::ProbeBwDown {}
    while path.round(40) != State::ProbeBwRefill {}
    let span_ms = path.now_ms - began;
    assert!((1_500..=3_500).contains(&span_ms), "{span_ms}");
}

/// "Entering and Exiting PROBE_RTT", "Entering and Exiting PROBE_RTT During STARTUP"
#[test]
fn the_pipe_is_half_emptied_every_five_seconds() {
    let mut path = Path::new().until(State::ProbeRtt);
    assert!((6_000..6_200).contains(&path.now_ms), "{}", path.now_ms);
    assert_eq!(path.module.state.gains(), (BBR_UNIT, BBR_UNIT / 2));
    assert_eq!(path.window.snd_cwnd, 20, "half of 40");
    let entered = path.now_ms;
    while path.round(20) == State::ProbeRtt {}
    assert_eq!(path.module.state, State::ProbeBwCruise);
    assert!(path.now_ms - entered >= 200);

    let mut path = Path::new();
    path.app_limited = true;
    while path.round(10) != State::ProbeRtt {}
    while path.round(10) == State::ProbeRtt {}
    assert_eq!(path.module.state, State::Startup);
}

/// "Skipping PROBE_RTT Due to Application-Limited Sending"
#[test]
fn idleness_is_a_probe_of_the_rtt_too() {
    let mut path = Path::new().until(State::ProbeBwCruise);
    path.now_ms += 6_000;
    path.window.app_limited = Some(1);
    let ack = path.ack();
    path.module.cwnd_event(&mut path.window, &ack, CwndEvent::TxStart);
    assert!(path.module.idle_restart);
    assert_ne!(path.round(40), State::ProbeRtt);
    assert!(!path.module.idle_restart);
}

/// "Correctly Managing Sub-Packet BDPs"
#[test]
fn four_packets_are_the_floor() {
    let mut path = Path::new();
    for _ in 0..40 {
        path.round(1);
        assert!(path.window.snd_cwnd >= MIN_PIPE_CWND);
    }
}

/// "ECN": marks are congestion, and are judged as losses are.
#[test]
fn marks_count_as_losses() {
    let ack = ack_at(0);
    assert!(!Bbr3::is_inflight_too_high(&ack, 100, 1, 1));
    assert!(Bbr3::is_inflight_too_high(&ack, 100, 1, 2));
    assert!(Bbr3::is_inflight_too_high(&ack, 100, 0, 3));
    let without_sack = Ack { has_sack: false, ..ack };
    assert!(Bbr3::is_inflight_too_high(&without_sack, 100, 1, 0));
}

/// "ProbeBW_DOWN": room for others.
#[test]
fn fifteen_percent_are_left_to_others() {
    for (bound, expected) in [(INFINITY, INFINITY), (100, 85), (5, 4), (4, 4), (1, 4)] {
        let module = Bbr3 { inflight_longterm: bound, ..Bbr3::default() };
        assert_eq!(module.inflight_with_headroom(), expected, "{bound}");
    }
}
