//! A module for tests. It sets window and pacing rate from the delivery rate, as BBR does, and records the calls it
//! gets, including parts of the interface that no built-in module uses yet.

use super::{
    Ack, AckSample, AnyCongestionControl, CongestionControl, CwndEvent, RateSample, Window,
};
use crate::packet::seq::Seq;
use crate::tcp::{Connection, Cx};
use crate::trace::CaState;

/// Paces at the highest delivery rate seen, at twice that until it grows no more, and keeps twice
/// the product of rate and lowest RTT in flight.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct RateBased {
    /// Highest delivery rate, byte/s.
    pub rate: u64,
    /// Keep the flight small, and ignore its samples.
    pub rest: bool,
    /// Largest window that it has set.
    pub largest_cwnd: u32,
    /// A seed for random numbers.
    pub iss: Option<Seq>,
    pub samples: Vec<RateSample>,
    pub states: Vec<CaState>,
    pub events: Vec<CwndEvent>,
    pub reductions: u32,
    pub undone: u32,
    /// A round trip ends when this much is delivered.
    round_ends: u32,
    /// The rate that has to be exceeded by a quarter, and rounds in which it was not.
    plateau: u64,
    flat_rounds: u32,
}

impl RateBased {
    fn update_model(&mut self, ack: &Ack, sample: &RateSample) {
        let Some(delivered) = sample.delivered else { return };
        let rate = u64::from(delivered) * u64::from(ack.mss) * 1_000_000 / sample.interval_us;
        if !sample.is_app_limited || rate > self.rate {
            self.rate = self.rate.max(rate);
        }
        if (sample.prior_delivered.wrapping_sub(self.round_ends) as i32) < 0 {
            return;
        }
        self.round_ends = ack.delivered;
        if self.rate * 4 >= self.plateau * 5 {
            self.plateau = self.rate;
            self.flat_rounds = 0;
        } else {
            self.flat_rounds += 1;
        }
    }

    /// No growth for three rounds.
    pub fn path_is_full(&self) -> bool {
        self.flat_rounds >= 3
    }
}

impl CongestionControl for RateBased {
    fn init(&mut self, window: &mut Window, ack: &Ack) {
        *self = Self { iss: Some(ack.iss), round_ends: ack.delivered, ..Self::default() };
        let first_us = u64::from(ack.srtt_us_8.map_or(0, |srtt| srtt.get() >> 3).max(1_000));
        window.pacing_rate = u64::from(window.snd_cwnd) * u64::from(ack.mss) * 2_000_000 / first_us;
    }

    fn ssthresh(&mut self, window: &Window, _ack: &Ack) -> u32 {
        self.reductions += 1;
        window.snd_ssthresh
    }

    fn cong_avoid(&mut self, _window: &mut Window, _ack: &Ack, _acked: u32) {
        unreachable!("it has a cong_control");
    }

    /// Asks for pacing late, in the midst of an ACK.
    fn pkts_acked(&mut self, window: &mut Window, _ack: &Ack, _sample: &AckSample) {
        window.needs_pacing = true;
    }

    fn has_cong_control(&self) -> bool {
        true
    }

    fn cong_control(&mut self, window: &mut Window, ack: &Ack, sample: &RateSample) {
        assert!(sample.delivered.is_none() || sample.interval_us > 0, "{sample:?}");
        assert!(sample.delivered.is_none_or(|delivered| delivered <= ack.delivered));
        assert!(ack.delivered_us <= ack.now_us && ack.now_us == ack.now_ns / 1_000);
        assert!(ack.is_paced, "it was asked for before");
        self.samples.push(*sample);
        self.update_model(ack, sample);
        if self.rate == 0 {
            return;
        }
        let gain = if self.path_is_full() { 1 } else { 2 };
        window.pacing_rate = (gain * self.rate).min(ack.max_pacing_rate);
        let bdp = self.rate * u64::from(ack.min_rtt_us) / 1_000_000 / u64::from(ack.mss);
        window.snd_cwnd = 2 * bdp as u32 + 6;
        if self.rest {
            window.snd_cwnd = 4;
            window.app_limited = Some(ack.delivered.wrapping_add(ack.packets_in_flight));
        }
        self.largest_cwnd = self.largest_cwnd.max(window.snd_cwnd);
    }

    fn min_tso_segs(&self, window: &Window) -> Option<u32> {
        Some(if window.pacing_rate < 150_000 { 1 } else { 2 })
    }

    fn sndbuf_expand(&self) -> u32 {
        3
    }

    fn set_state(&mut self, _window: &mut Window, _ack: &Ack, new: CaState) {
        self.states.push(new);
    }

    fn cwnd_event(&mut self, _window: &mut Window, ack: &Ack, event: CwndEvent) {
        assert!(event != CwndEvent::TxStart || ack.packets_in_flight == 0);
        self.events.push(event);
    }

    fn undo_cwnd(&mut self, window: &Window, _ack: &Ack) -> u32 {
        self.undone += 1;
        window.snd_cwnd
    }
}

impl Connection {
    /// Steers by a fresh module of this kind from here on.
    pub(crate) fn steer_by_rate(&mut self, cx: &mut Cx<'_>) {
        self.cc = AnyCongestionControl::Test(Box::default());
        let ack = self.ack_view(cx.now);
        self.cc.init(&mut self.window, &ack);
    }

    /// That module.
    pub(crate) fn rate_based(&mut self) -> &mut RateBased {
        match &mut self.cc {
            AnyCongestionControl::Test(module) => module,
            other => panic!("{} is at work", other.name()),
        }
    }

    /// Segments in flight.
    pub(crate) fn flight(&self) -> u32 {
        self.packets_in_flight()
    }

    /// The window, to look at.
    pub(crate) fn window(&self) -> Window {
        self.window
    }
}
