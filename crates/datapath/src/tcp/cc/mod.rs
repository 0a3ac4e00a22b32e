//! Congestion control, pluggable as the kernel's `tcp_congestion_ops` and with its names.
//!
//! A module is lent the [`Window`] and reads an [`Ack`]; it never holds the connection.

mod cube_root;
mod cubic;
pub mod dctcp;
mod hystart;
mod info;
mod reno;

pub use cubic::Cubic;
pub use dctcp::Dctcp;
pub use info::CcInfo;
pub use reno::Reno;

use super::TcpConfig;
use crate::packet::seq::Seq;
use crate::trace::CaState;

/// `TCP_INFINITE_SSTHRESH`.
pub const INFINITE_SSTHRESH: u32 = 0x7fff_ffff;

/// Events that a module may care about (`enum tcp_ca_event`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CwndEvent {
    /// First transmission when nothing is in flight.
    TxStart,
    /// The window restarts after idle.
    CwndRestart,
    /// A CWR or Recovery episode has ended.
    CompleteCwr,
    /// Loss timeout.
    Loss,
}

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
    /// State of the congestion machine.
    pub ca_state: CaState,
}

/// What a module may read of the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ack {
    /// Now, µs.
    pub now_us: u64,
    /// Now, jiffies (`tcp_jiffies32`).
    pub jiffies: u32,
    /// Oldest unacknowledged sequence number.
    pub snd_una: Seq,
    /// Next sequence number to send.
    pub snd_nxt: Seq,
    /// When the latest data segment was sent, jiffies.
    pub lsndtime: u32,
    /// Smoothed RTT in µs times 8.
    pub srtt_us_8: u32,
    /// Packets delivered in all.
    pub delivered: u32,
    /// Of those, with CE.
    pub delivered_ce: u32,
    /// Pacing rate, byte/s.
    pub pacing_rate: u64,
    /// The socket is paced, by `fq` or by TCP itself.
    pub is_paced: bool,
    /// Longest super-packet, bytes.
    pub gso_max_size: u32,
    /// Payload of a full segment, bytes (`mss_cache`).
    pub mss: u32,
    /// The latest data segment came with CE: DCTCP's receiving half.
    pub ce_state: bool,
}

/// A RTT and delivery sample for `pkts_acked` (`struct ack_sample`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AckSample {
    /// Packets acknowledged by this ACK.
    pub pkts_acked: u32,
    /// RTT in µs, if there is a sample.
    pub rtt_us: Option<u32>,
    /// Packets in flight when the acknowledged one was sent.
    pub in_flight: u32,
}

/// A congestion control module (`struct tcp_congestion_ops`).
///
/// A threshold and the way back from it belong together (e97991832a), so both must be written:
///
/// ```
/// use datapath::tcp::cc::{Ack, CongestionControl, Window};
/// struct Constant;
/// impl CongestionControl for Constant {
///     fn ssthresh(&mut self, window: &Window, _: &Ack) -> u32 { window.snd_cwnd }
///     fn cong_avoid(&mut self, _: &mut Window, _: &Ack, _: u32) {}
///     fn undo_cwnd(&self, window: &Window) -> u32 { window.snd_cwnd }
/// }
/// ```
///
/// Without `undo_cwnd` it does not compile:
///
/// ```compile_fail,E0046
/// use datapath::tcp::cc::{Ack, CongestionControl, Window};
/// struct Constant;
/// impl CongestionControl for Constant {
///     fn ssthresh(&mut self, window: &Window, _: &Ack) -> u32 { window.snd_cwnd }
///     fn cong_avoid(&mut self, _: &mut Window, _: &Ack, _: u32) {}
/// }
/// ```
pub trait CongestionControl {
    /// The connection is established.
    fn init(&mut self, _window: &mut Window, _ack: &Ack) {}

    /// The slow start threshold after a loss or ECN echo.
    fn ssthresh(&mut self, window: &Window, ack: &Ack) -> u32;

    /// Grows the window for `acked` delivered packets.
    fn cong_avoid(&mut self, window: &mut Window, ack: &Ack, acked: u32);

    /// Packets were acknowledged; for RTT-based modules.
    fn pkts_acked(&mut self, _window: &mut Window, _ack: &Ack, _sample: &AckSample) {}

    /// An ACK arrived and its data is counted as delivered, but the window is as before (Linux
    /// since 6.15, and its stable series). `ece`: it echoes congestion.
    fn in_ack_event(&mut self, _window: &mut Window, _ack: &Ack, _ece: bool) {}

    /// The congestion machine changes state; `window.ca_state` is still the old one.
    fn set_state(&mut self, _window: &mut Window, _ack: &Ack, _new: CaState) {}

    /// Something happened.
    fn cwnd_event(&mut self, _window: &mut Window, _ack: &Ack, _event: CwndEvent) {}

    /// The window to return to when a reduction turns out to have been wrong. No default, as in
    /// Linux since 4.10: a module without an answer does not compile. The former default, twice
    /// the threshold, fitted Reno alone.
    fn undo_cwnd(&self, window: &Window) -> u32;

    /// The module needs ECN even where `tcp_ecn` does not ask for it (`TCP_CONG_NEEDS_ECN`).
    fn needs_ecn(&self) -> bool {
        false
    }

    /// What the module tells of itself (`get_info`: `TCP_CC_INFO`, inet_diag).
    fn get_info(&self, _ack: &Ack) -> Option<CcInfo> {
        None
    }
}

/// Which module to use (`TCP_CONGESTION`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Algorithm {
    /// RFC 5681 as Linux does it.
    Reno,
    /// RFC 9438 as Linux does it.
    #[default]
    Cubic,
    /// RFC 8257 as Linux does it.
    Dctcp,
}

impl Algorithm {
    /// Every algorithm.
    pub const ALL: [Self; 3] = [Self::Reno, Self::Cubic, Self::Dctcp];

    /// The kernel's name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Reno => "reno",
            Self::Cubic => "cubic",
            Self::Dctcp => "dctcp",
        }
    }

    /// It needs ECN (`TCP_CONG_NEEDS_ECN`).
    pub const fn needs_ecn(self) -> bool {
        matches!(self, Self::Dctcp)
    }

    /// The algorithm of that name.
    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|algorithm| algorithm.name() == name)
    }
}

/// The module of a connection, dispatched by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AnyCongestionControl {
    /// Reno.
    Reno(Reno),
    /// CUBIC.
    Cubic(Cubic),
    /// DCTCP.
    Dctcp(Dctcp),
    /// DCTCP on a connection without ECN: Reno by another name.
    DctcpReno(Reno),
}

macro_rules! dispatch {
    ($self:ident, $module:ident => $body:expr) => {
        match $self {
            Self::Reno($module) => $body,
            Self::Cubic($module) => $body,
            Self::Dctcp($module) => $body,
            Self::DctcpReno($module) => $body,
        }
    };
}

impl AnyCongestionControl {
    /// A fresh module for a connection of this configuration.
    pub fn new(config: &TcpConfig) -> Self {
        match config.congestion_control {
            Algorithm::Reno => Self::Reno(Reno),
            Algorithm::Cubic => {
                let profile = &config.profile;
                Self::Cubic(Cubic::new(profile.hystart, profile.cubic_beta))
            }
            Algorithm::Dctcp => Self::Dctcp(Dctcp::new(config.dctcp)),
        }
    }

    /// Which one was asked for.
    pub const fn algorithm(&self) -> Algorithm {
        match self {
            Self::Reno(_) => Algorithm::Reno,
            Self::Cubic(_) => Algorithm::Cubic,
            Self::Dctcp(_) | Self::DctcpReno(_) => Algorithm::Dctcp,
        }
    }

    /// The kernel's name of what is at work.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::DctcpReno(_) => "dctcp-reno",
            _ => self.algorithm().name(),
        }
    }

    /// The connection has no ECN: a module that cannot do without becomes Reno (`dctcp_init`).
    pub fn fall_back(&mut self) {
        if let Self::Dctcp(_) = self {
            *self = Self::DctcpReno(Reno);
        }
    }
}

impl CongestionControl for AnyCongestionControl {
    fn init(&mut self, window: &mut Window, ack: &Ack) {
        dispatch!(self, module => module.init(window, ack));
    }

    fn ssthresh(&mut self, window: &Window, ack: &Ack) -> u32 {
        dispatch!(self, module => module.ssthresh(window, ack))
    }

    fn cong_avoid(&mut self, window: &mut Window, ack: &Ack, acked: u32) {
        dispatch!(self, module => module.cong_avoid(window, ack, acked));
    }

    fn pkts_acked(&mut self, window: &mut Window, ack: &Ack, sample: &AckSample) {
        dispatch!(self, module => module.pkts_acked(window, ack, sample));
    }

    fn in_ack_event(&mut self, window: &mut Window, ack: &Ack, ece: bool) {
        dispatch!(self, module => module.in_ack_event(window, ack, ece));
    }

    fn set_state(&mut self, window: &mut Window, ack: &Ack, new: CaState) {
        dispatch!(self, module => module.set_state(window, ack, new));
    }

    fn cwnd_event(&mut self, window: &mut Window, ack: &Ack, event: CwndEvent) {
        dispatch!(self, module => module.cwnd_event(window, ack, event));
    }

    fn undo_cwnd(&self, window: &Window) -> u32 {
        dispatch!(self, module => module.undo_cwnd(window))
    }

    fn needs_ecn(&self) -> bool {
        dispatch!(self, module => module.needs_ecn())
    }

    fn get_info(&self, ack: &Ack) -> Option<CcInfo> {
        match self {
            // The structure is there, all zeroes.
            Self::DctcpReno(_) => Some(CcInfo::Dctcp(dctcp::DctcpInfo::default())),
            module => dispatch!(module, module => module.get_info(ack)),
        }
    }
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

#[cfg(test)]
mod tests_support {
    use super::*;

    /// An ACK `jiffies` ms after the start, with nothing special about it.
    pub fn ack_at(jiffies: u32) -> Ack {
        Ack {
            now_us: u64::from(jiffies) * 1_000,
            jiffies,
            snd_una: Seq(0),
            snd_nxt: Seq(0),
            lsndtime: 0,
            srtt_us_8: 0,
            delivered: 0,
            delivered_ce: 0,
            pacing_rate: 0,
            is_paced: false,
            gso_max_size: 65_536,
            mss: 1_448,
            ce_state: false,
        }
    }
}
