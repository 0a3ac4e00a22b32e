//! Values of socket options, typed.

use super::answer::CcInfo;
use crate::tcp::info::TcpInfo;
use crate::units::Duration;
use core::net::SocketAddr;

/// What `setsockopt` takes and `getsockopt` gives.
#[derive(Clone, Debug, PartialEq)]
pub enum OptionValue {
    /// An `int` (or `unsigned int`, or the 64 bits of `SO_MAX_PACING_RATE` and `SO_COOKIE`).
    Number(i64),
    /// `struct linger`.
    Linger {
        /// `l_onoff`.
        on: bool,
        /// `l_linger`, s.
        seconds: u32,
    },
    /// `struct timeval` of `SO_RCVTIMEO` and `SO_SNDTIMEO`; zero means for ever.
    Time(Duration),
    /// A string: `TCP_CONGESTION`, `TCP_ULP`, `SO_BINDTODEVICE`.
    Text(String),
    /// Raw bytes: `TCP_FASTOPEN_KEY`, `TCP_SAVED_SYN`.
    Bytes(Vec<u8>),
    /// `struct tcp_md5sig`.
    Md5(Md5Signature),
    /// `struct tcp_info`.
    TcpInfo(Box<TcpInfo>),
    /// `union tcp_cc_info`.
    CcInfo(CcInfo),
    /// `SO_MEMINFO`: the nine `SK_MEMINFO_*`, bytes.
    MemInfo([u32; 9]),
    /// A bad pointer.
    Fault,
}

/// A key for TCP MD5 signatures (RFC 2385; `TCP_MD5SIG`, `TCP_MD5SIG_EXT`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Md5Signature {
    /// The peers that it is for.
    pub address: SocketAddr,
    /// Bits of the address that must agree; `None`: all of them.
    pub prefix_len: Option<u8>,
    /// Up to 80 bytes; empty: forget the key.
    pub key: Vec<u8>,
}
