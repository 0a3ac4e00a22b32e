//! TCP Fast Open (RFC 7413): cookies, data on SYN from both sides, and what to do when the path or
//! the peer will have none of it (`tcp_fastopen.c`).

mod client;
mod cookie;
mod server;

pub use cookie::{Cookie, Keys};

use super::Connection;
use crate::packet::Packet;
use crate::packet::options::{RawOptions, TcpOption};

/// Bits of `net.ipv4.tcp_fastopen`.
pub mod switch {
    /// `TFO_CLIENT_ENABLE`.
    pub const CLIENT: u32 = 1;
    /// `TFO_SERVER_ENABLE`.
    pub const SERVER: u32 = 2;
    /// `TFO_CLIENT_NO_COOKIE`: data goes without a cookie.
    pub const CLIENT_NO_COOKIE: u32 = 4;
    /// `TFO_SERVER_COOKIE_NOT_REQD`: data is taken without a cookie.
    pub const SERVER_NO_COOKIE: u32 = 0x200;
    /// `TFO_SERVER_WO_SOCKOPT1`: every listener takes part.
    pub const EVERY_LISTENER: u32 = 0x400;
}

/// Which form of the option to try when there is no cookie (`try_exp`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum TryExperimental {
    /// Not found out yet.
    #[default]
    Unknown,
    /// Option 34 was not answered: try 254.
    Yes,
    /// Neither was 254: back to 34.
    No,
}

/// The decision of a listener about a SYN that asks for Fast Open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// It does not take part, or too many are waiting.
    No,
    /// It does.
    Yes(Keys),
}

/// Fast Open of one connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(super) struct FastOpen {
    /// The option to send with the next SYN or SYN-ACK.
    pub option: Option<Cookie>,
    /// Our SYN carried the option (`syn_fastopen`).
    pub asked: bool,
    /// It was the experimental one (`syn_fastopen_exp`).
    pub asked_experimental: bool,
    /// Our SYN carried data (`syn_data`).
    pub syn_data: bool,
    /// The data of the SYN was acknowledged, ours or theirs (`syn_data_acked`).
    pub syn_data_acked: bool,
    /// A success would show that a black hole is gone (`syn_fastopen_ch`).
    pub probes_black_hole: bool,
    /// The SYN of the peer opened the connection at once (`syn_fastopen_child`).
    pub child: bool,
    /// Bytes of data that went with the SYN.
    pub copied: u32,
    /// Passive: the SYN-ACK that is not acknowledged yet (`fastopen_rsk`).
    pub request: Option<Request>,
}

/// A SYN-ACK that waits for its acknowledgment while the connection is open already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Request {
    /// Timeouts so far (`num_timeout`).
    pub timeouts: u8,
    /// When it was sent first, µs.
    pub sent_us: u64,
}

/// The Fast Open option of a segment.
pub(super) fn option_of(packet: &Packet) -> Option<Cookie> {
    // Only a header that our own form cannot hold carries one.
    packet.extra.as_ref()?;
    let mut scratch = [0; crate::packet::options::MAX_OPTION_SPACE];
    let options = packet.tcp_option_bytes(&mut scratch)?;
    RawOptions::new(options).find_map(|option| match option.decode() {
        TcpOption::FastOpen { cookie, experimental } => Cookie::new(cookie, experimental),
        _ => None,
    })
}

impl Connection {
    /// A passive Fast Open connection is waiting for the ACK of its SYN-ACK
    /// (`tcp_passive_fastopen`).
    #[inline]
    pub fn is_passive_fast_open(&self) -> bool {
        self.rare.as_ref().is_some_and(|rare| rare.fast_open.request.is_some())
    }

    /// Writes the option of a SYN or SYN-ACK, if it is to have one; gives its length.
    pub(super) fn fast_open_option(&self, out: &mut [u8; 20]) -> usize {
        let option = self.rare.as_ref().and_then(|rare| rare.fast_open.option);
        option.map_or(0, |cookie| cookie.write(out))
    }
}
