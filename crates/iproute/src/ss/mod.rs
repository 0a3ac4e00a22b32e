//! `ss -ti`: what a connection tells of itself, as text, as JSON, and as the attributes of an
//! inet_diag answer.
//!
//! | file | what it holds |
//! |---|---|
//! | [`text`] | the two lines of `ss -tin`, with the words for options that `ss -tino` adds |
//! | [`json`] | the same as an object; `ss` itself has no JSON |
//! | [`diag`] | `INET_DIAG_INFO`, `INET_DIAG_CONG` and the congestion control's own attribute |

pub mod diag;
mod json;
mod text;

pub use json::json;
pub use text::{head, text};

use core::net::SocketAddr;
use datapath::tcp::Connection;
use datapath::tcp::cc::CcInfo;
use datapath::tcp::info::TcpInfo;
use datapath::units::Instant;

/// A connection as `ss` sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SocketView {
    /// Our end.
    pub local: SocketAddr,
    /// The peer's.
    pub peer: SocketAddr,
    /// Bytes received and not read (Recv-Q).
    pub recv_q: u32,
    /// Bytes written and not acknowledged (Send-Q).
    pub send_q: u32,
    /// `TCP_INFO`.
    pub info: TcpInfo,
    /// The congestion control at work.
    pub congestion: &'static str,
    /// What it tells of itself (`TCP_CC_INFO`).
    pub cc_info: Option<CcInfo>,
}

impl SocketView {
    /// A connection as it is `now`.
    pub fn of(connection: &Connection, now: Instant) -> Self {
        Self {
            local: connection.local(),
            peer: connection.remote(),
            recv_q: connection.unread_bytes(),
            send_q: connection.unacked_bytes(),
            info: connection.info(now),
            congestion: connection.cc_name(),
            cc_info: connection.cc_info(now),
        }
    }

    /// True if the connection has this option (`TCPI_OPT_*`).
    const fn has(&self, option: u8) -> bool {
        self.info.options & option != 0
    }

    /// What cwnd and RTT allow, bit/s, as `ss` computes it; `None` without an RTT.
    fn send_rate(&self) -> Option<f64> {
        let TcpInfo { snd_cwnd, snd_mss, rtt, .. } = self.info;
        let bits = f64::from(snd_cwnd) * f64::from(snd_mss) * 8.0;
        (bits > 0.0 && rtt > 0).then(|| bits * 1e6 / f64::from(rtt))
    }
}

/// Bits of `tcpi_options`.
mod option {
    pub const TIMESTAMPS: u8 = 1;
    pub const SACK: u8 = 2;
    pub const WSCALE: u8 = 4;
    pub const ECN: u8 = 8;
    pub const ECN_SEEN: u8 = 16;
    /// Data of our SYN was acknowledged.
    pub const SYN_DATA: u8 = 32;
}

/// `tcpi_rto` of a socket that has not measured anything (`ss` leaves it out).
const RTO_UNKNOWN_US: u32 = 3_000_000;
/// `ss` takes a threshold from here on for none.
const NO_SSTHRESH: u32 = 0xffff;

#[cfg(test)]
mod tests;
