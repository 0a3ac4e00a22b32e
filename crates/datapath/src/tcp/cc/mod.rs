//! Congestion control, pluggable as the kernel's `tcp_congestion_ops` and with its names.
//!
//! A module gets a mutable [`Window`] and reads an [`Ack`]; it never holds the connection. There are two
//! kinds. With most modules TCP decides when the window shrinks and how packets are paced; the module decides how
//! far it shrinks ([`ssthresh`](CongestionControl::ssthresh)) and how it grows
//! ([`cong_avoid`](CongestionControl::cong_avoid)). A module that has a
//! [`cong_control`](CongestionControl::cong_control) sets window and pacing rate itself, with every
//! ACK, from a sample of the delivery rate ([`RateSample`]).

mod any;
pub mod bbr;
mod bbr3;
mod bic;
pub mod cdg;
mod cube_root;
mod cubic;
pub mod dctcp;
mod guest;
mod highspeed;
mod htcp;
mod hybla;
mod hystart;
mod illinois;
mod info;
pub mod laws;
mod lp;
pub mod nv;
mod prague;
#[cfg(test)]
pub(crate) mod rate_based;
mod reno;
mod scalable;
pub mod vegas;
mod veno;
mod westwood;
mod window;
mod yeah;

pub use super::rate::RateSample;
pub use any::{Algorithm, AnyCongestionControl};
pub use bbr::Bbr;
pub use bbr3::Bbr3;
pub use bic::Bic;
pub use cdg::Cdg;
pub use cubic::Cubic;
pub use dctcp::Dctcp;
pub use guest::{BoxedModule, Guest, GuestError};
pub use highspeed::HighSpeed;
pub use htcp::Htcp;
pub use hybla::Hybla;
pub use illinois::Illinois;
pub use info::CcInfo;
pub use lp::LowPriority;
pub use nv::Nv;
pub use prague::Prague;
pub use reno::Reno;
pub use scalable::Scalable;
pub use vegas::{Vegas, VegasInfo};
pub use veno::Veno;
pub use westwood::Westwood;
pub use window::{Hystart, INFINITE_SSTHRESH, Window};
pub use yeah::Yeah;

use crate::packet::seq::Seq;
use crate::trace::CaState;
use core::num::NonZeroU32;

/// Events for modules (`enum tcp_ca_event`).
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

/// What a module may read of the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ack {
    /// Now, µs (`tcp_mstamp`).
    pub now_us: u64,
    /// Now, ns (`tcp_clock_cache`).
    pub now_ns: u64,
    /// Now, jiffies (`tcp_jiffies32`).
    pub jiffies: u32,
    /// Our initial sequence number. It is unpredictable, so it may seed a module's random numbers
    /// (`get_random_u32`).
    pub iss: Seq,
    /// Oldest unacknowledged sequence number.
    pub snd_una: Seq,
    /// Next sequence number to send.
    pub snd_nxt: Seq,
    /// When the latest data segment was sent, jiffies.
    pub lsndtime: u32,
    /// When the next packet may leave, if the connection is paced, ns (`tcp_wstamp_ns`).
    pub wstamp_ns: u64,
    /// Our timestamps' clock, ms (`tcp_time_stamp_ts`).
    pub time_stamp: u32,
    /// The peer's latest timestamp, and the one of ours that it echoed (`rx_opt`); 0 without.
    pub rcv_tsval: u32,
    /// See [`rcv_tsval`](Self::rcv_tsval).
    pub rcv_tsecr: u32,
    /// Packets in flight (`tcp_packets_in_flight`).
    pub packets_in_flight: u32,
    /// Packets that the peer has reported with SACK (`sacked_out`).
    pub sacked_out: u32,
    /// Smoothed RTT in µs times 8, once there is a sample.
    pub srtt_us_8: Option<NonZeroU32>,
    /// Lowest RTT of the last minutes, µs; `u32::MAX` = no sample yet (`tcp_min_rtt`).
    pub min_rtt_us: u32,
    /// Packets delivered in all.
    pub delivered: u32,
    /// Of those, with CE.
    pub delivered_ce: u32,
    /// When the latest of them was delivered, µs (`delivered_mstamp`).
    pub delivered_us: u64,
    /// Packets marked lost in all (`lost`).
    pub lost: u32,
    /// The application's limit of the pacing rate, byte/s (`sk_max_pacing_rate`).
    pub max_pacing_rate: u64,
    /// The socket is paced, by `fq` or by TCP itself.
    pub is_paced: bool,
    /// Longest super-packet, bytes.
    pub gso_max_size: u32,
    /// Room for headers in front of it, bytes (`MAX_TCP_HEADER`).
    pub max_tcp_header: u32,
    /// Payload of a full segment, bytes (`mss_cache`).
    pub mss: u32,
    /// The latest data segment came with CE: DCTCP's receiving half.
    pub ce_state: bool,
    /// The connection uses SACK, so more than one loss per round trip can be detected.
    pub has_sack: bool,
}

/// A record that was marked lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LostPacket {
    /// Its first sequence number.
    pub seq: Seq,
    /// Just past its last one.
    pub end_seq: Seq,
    /// Segments in it.
    pub segments: u32,
    /// Packets in flight just after it was sent (up to 65,535).
    pub tx_in_flight: u32,
    /// Packets marked lost since it was sent, with its own.
    pub lost: u32,
    /// It was sent while the application was the limit.
    pub is_app_limited: bool,
}

/// What an ACK was like (`enum tcp_ca_ack_event_flags`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct AckEventFlags {
    /// It took the slow path: a duplicate, SACK blocks, another window (`CA_ACK_SLOWPATH`).
    pub slow_path: bool,
    /// It echoes congestion (`CA_ACK_ECE`).
    pub ece: bool,
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
/// A reduction and its undo belong together (kernel commit e97991832a), so both are required:
///
/// ```
/// use datapath::tcp::cc::{Ack, CongestionControl, Window};
/// struct Constant;
/// impl CongestionControl for Constant {
///     fn ssthresh(&mut self, window: &Window, _: &Ack) -> u32 { window.snd_cwnd }
///     fn cong_avoid(&mut self, _: &mut Window, _: &Ack, _: u32) {}
///     fn undo_cwnd(&mut self, window: &Window, _: &Ack) -> u32 { window.snd_cwnd }
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

    /// Grows the window for `acked` delivered packets. Not called while TCP reduces the window, nor
    /// if the module has a [`cong_control`](Self::cong_control).
    fn cong_avoid(&mut self, window: &mut Window, ack: &Ack, acked: u32);

    /// The module has a [`cong_control`](Self::cong_control): it alone sets window and pacing rate.
    /// TCP then neither reduces the window during recovery (PRR) nor sets it to the
    /// threshold afterwards, nor restarts it after idle times.
    fn has_cong_control(&self) -> bool {
        false
    }

    /// Sets window and pacing rate after an ACK, in every state of the congestion machine.
    fn cong_control(&mut self, _window: &mut Window, _ack: &Ack, _sample: &RateSample) {}

    /// Minimum number of segments of a super-packet, however low the pacing rate; `None`:
    /// `tcp_min_tso_segs`.
    fn min_tso_segs(&self, _window: &Window) -> Option<u32> {
        None
    }

    /// Maximum number of segments of a super-packet with segments of `mss` bytes; `None`: that of
    /// `tcp_tso_autosize`. Only called for modules that need pacing ([`Window::needs_pacing`]).
    fn max_tso_segs(&self, _window: &Window, _mss: u32) -> Option<u32> {
        None
    }

    /// Size of an automatically grown send buffer, in windows of data.
    fn sndbuf_expand(&self) -> u32 {
        2
    }

    /// Packets were acknowledged; for RTT-based modules.
    fn pkts_acked(&mut self, _window: &mut Window, _ack: &Ack, _sample: &AckSample) {}

    /// An ACK arrived and its data is counted as delivered, but the window is not yet updated (Linux
    /// since 6.15, and its stable series).
    fn in_ack_event(&mut self, _window: &mut Window, _ack: &Ack, _flags: AckEventFlags) {}

    /// A record was marked lost, while an ACK or a timeout is processed (`skb_marked_lost` of kernels
    /// with BBR version 3).
    fn skb_marked_lost(&mut self, _window: &mut Window, _ack: &Ack, _packet: &LostPacket) {}

    /// The congestion machine changes state; `window.ca_state` is still the old one.
    fn set_state(&mut self, _window: &mut Window, _ack: &Ack, _new: CaState) {}

    /// Something happened.
    fn cwnd_event(&mut self, _window: &mut Window, _ack: &Ack, _event: CwndEvent) {}

    /// The window to restore when a reduction turns out to be spurious. No default, as in
    /// Linux since 4.10: a module without an answer does not compile. The former default, twice
    /// the threshold, fitted Reno alone.
    fn undo_cwnd(&mut self, window: &Window, ack: &Ack) -> u32;

    /// The module needs ECN even if `tcp_ecn` does not request it (`TCP_CONG_NEEDS_ECN`).
    fn needs_ecn(&self) -> bool {
        false
    }

    /// The module needs feedback of each mark, and sends ECT(1): Accurate ECN is requested and accepted
    /// whatever `tcp_ecn` says (`TCP_CONG_NEEDS_ACCECN`, `TCP_CONG_ECT_1_NEGOTIATION`). The module is not used on
    /// connections that did not negotiate it.
    fn needs_accecn(&self) -> bool {
        false
    }

    /// What the module reports (`get_info`: `TCP_CC_INFO`, inet_diag).
    fn get_info(&self, _ack: &Ack) -> Option<CcInfo> {
        None
    }
}

#[cfg(test)]
mod tests_support {
    use super::*;

    /// An ACK `jiffies` ms after the start, with nothing special about it.
    pub fn ack_at(jiffies: u32) -> Ack {
        Ack {
            now_us: u64::from(jiffies) * 1_000,
            now_ns: u64::from(jiffies) * 1_000_000,
            jiffies,
            iss: Seq(0),
            snd_una: Seq(0),
            snd_nxt: Seq(0),
            lsndtime: 0,
            wstamp_ns: 0,
            time_stamp: jiffies,
            rcv_tsval: 0,
            rcv_tsecr: 0,
            packets_in_flight: 0,
            sacked_out: 0,
            srtt_us_8: None,
            min_rtt_us: u32::MAX,
            delivered: 0,
            delivered_ce: 0,
            delivered_us: 0,
            lost: 0,
            max_pacing_rate: u64::MAX,
            is_paced: false,
            gso_max_size: 65_536,
            max_tcp_header: 320,
            mss: 1_448,
            ce_state: false,
            has_sack: true,
        }
    }
}
