//! The congestion window, and how it grows by the rules that modules share.

use crate::packet::seq::Seq;
use crate::trace::CaState;

/// `TCP_INFINITE_SSTHRESH`.
pub const INFINITE_SSTHRESH: u32 = 0x7fff_ffff;

/// There is a bubble in the pipe until at least the first ACK: whatever is delivered ends it.
const BUBBLE: u32 = u32::MAX;

/// The congestion window and what belongs to it; the part of `tcp_sock` that modules change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Sending congestion window, segments.
    pub snd_cwnd: u32,
    /// Linear increase counter, segments.
    pub snd_cwnd_cnt: u32,
    /// Upper bound of the window, segments.
    pub snd_cwnd_clamp: u32,
    /// Slow start threshold, segments.
    pub snd_ssthresh: u32,
    /// Window before the latest reduction (`prior_cwnd`), segments.
    pub prior_cwnd: u32,
    /// The latest flight filled the window.
    pub is_cwnd_limited: bool,
    /// Most packets in flight in the current window, when not cwnd-limited.
    pub max_packets_out: u32,
    /// `snd_nxt` when the two above were last set.
    pub cwnd_usage_seq: Seq,
    /// Most packets in flight while the application was the limit.
    pub snd_cwnd_used: u32,
    /// When the window was last validated, jiffies.
    pub snd_cwnd_stamp: u32,
    /// Pacing rate, byte/s; `u64::MAX` = unlimited (`sk_pacing_rate`). A module with a
    /// [`cong_control`](super::CongestionControl::cong_control) sets it; for others TCP does.
    pub pacing_rate: u64,
    /// The module wants to be paced even where neither `fq` nor `SO_MAX_PACING_RATE` asks for it
    /// (`SK_PACING_NEEDED`).
    pub needs_pacing: bool,
    /// The module asks for a reduction with this ACK, as if the network had marked something
    /// (`tcp_enter_cwr`). TCP takes it back when it has begun.
    pub wants_reduction: bool,
    /// HyStart has ended slow start with this ACK, at a window of `snd_ssthresh`. TCP counts it.
    pub hystart: Hystart,
    /// A round trip is over: which share of its packets was marked, in 1/256, for protective load
    /// balancing (`tcp_plb_update_state`). TCP takes it.
    pub marked_round: Option<u16>,
    /// The application is the limit until more than so many packets are delivered (`app_limited`);
    /// `None`: it is not. A module may set it, so that samples of a flight that it has kept small
    /// itself do not count.
    pub app_limited: Option<u32>,
    /// State of the congestion machine.
    pub ca_state: CaState,
}

/// By what HyStart has seen that slow start is over (`LINUX_MIB_TCPHYSTART…`); by both at once, perhaps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Hystart {
    /// A train of ACKs was as long as the path.
    pub train: bool,
    /// The round trip had become longer.
    pub delay: bool,
}

impl Window {
    /// A new connection's window of `init_cwnd` segments.
    pub fn new(init_cwnd: u32) -> Self {
        Self {
            snd_cwnd: init_cwnd,
            snd_cwnd_cnt: 0,
            snd_cwnd_clamp: u32::MAX,
            snd_ssthresh: INFINITE_SSTHRESH,
            prior_cwnd: 0,
            is_cwnd_limited: false,
            max_packets_out: 0,
            cwnd_usage_seq: Seq(0),
            snd_cwnd_used: 0,
            snd_cwnd_stamp: 0,
            pacing_rate: u64::MAX,
            needs_pacing: false,
            wants_reduction: false,
            hystart: Hystart::default(),
            marked_round: None,
            app_limited: Some(BUBBLE),
            ca_state: CaState::Open,
        }
    }

    /// `tcp_in_slow_start`.
    pub fn in_slow_start(&self) -> bool {
        self.snd_cwnd < self.snd_ssthresh
    }

    /// `tcp_in_cwnd_reduction`.
    pub fn in_cwnd_reduction(&self) -> bool {
        matches!(self.ca_state, CaState::Cwr | CaState::Recovery)
    }

    /// The flow uses the window it has, so that the window may grow (`tcp_is_cwnd_limited`).
    pub fn cwnd_limited(&self) -> bool {
        if self.is_cwnd_limited {
            return true;
        }
        self.in_slow_start() && self.snd_cwnd < 2 * self.max_packets_out
    }

    /// Slow start: one segment per segment acknowledged, up to the threshold. Returns what is
    /// left of `acked` for congestion avoidance (`tcp_slow_start`).
    pub fn slow_start(&mut self, acked: u32) -> u32 {
        let cwnd = (self.snd_cwnd.saturating_add(acked)).min(self.snd_ssthresh);
        let left = acked - (cwnd - self.snd_cwnd);
        self.snd_cwnd = cwnd.min(self.snd_cwnd_clamp);
        left
    }

    /// Congestion avoidance: one segment more for every `per_increase` acknowledged
    /// (`tcp_cong_avoid_ai`).
    pub fn additive_increase(&mut self, per_increase: u32, acked: u32) {
        if self.snd_cwnd_cnt >= per_increase {
            self.snd_cwnd_cnt = 0;
            self.snd_cwnd += 1;
        }
        self.snd_cwnd_cnt += acked;
        if self.snd_cwnd_cnt >= per_increase {
            let delta = self.snd_cwnd_cnt / per_increase;
            self.snd_cwnd_cnt -= delta * per_increase;
            self.snd_cwnd += delta;
        }
        self.snd_cwnd = self.snd_cwnd.min(self.snd_cwnd_clamp);
    }
}
