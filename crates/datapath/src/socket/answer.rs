//! What system calls return, and what they write to the caller's memory besides payload.

use super::argument::{Control, EpollEvent};
use super::call::Fd;
use super::errno::Errno;
use super::option::OptionValue;
use crate::tcp::cc;
use crate::tcp::info::TcpInfo;
use core::net::SocketAddr;

/// What a call returned.
#[derive(Clone, Debug, PartialEq)]
pub struct Return {
    /// The return value.
    pub value: i64,
    /// What it wrote to the caller's memory.
    pub data: Data,
}

/// What a call writes to the caller's memory.
#[derive(Clone, Debug, PartialEq, Default)]
pub enum Data {
    /// Nothing.
    #[default]
    None,
    /// An address: `accept`, `getsockname`, `getpeername`.
    Address(SocketAddr),
    /// `recv`, `recvfrom`, `recvmsg`.
    Message(Received),
    /// `getsockopt`.
    Option(OptionValue),
    /// `poll`: `revents` of each entry.
    Polled(Vec<i32>),
    /// `select`: those that are ready.
    Selected {
        /// Readable.
        read: Vec<Fd>,
        /// Writable.
        write: Vec<Fd>,
        /// With urgent data.
        except: Vec<Fd>,
    },
    /// `epoll_wait`.
    Events(Vec<EpollEvent>),
    /// `pipe`: reading end, writing end.
    Pipe(Fd, Fd),
    /// `ioctl`.
    Number(i64),
    /// `sendfile`: where in the file it stopped.
    Offset(u64),
}

/// What was received.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Received {
    /// From whom (`msg_name`).
    pub from: Option<SocketAddr>,
    /// `msg_flags`.
    pub flags: i32,
    /// `msg_control`.
    pub control: Vec<Control>,
    /// The payload, for who asked for it by [`Iov::Fetch`](super::Iov::Fetch). What was sent as a
    /// length is zeroes.
    pub bytes: Vec<u8>,
}

/// `TCP_CC_INFO`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CcInfo {
    /// Of CUBIC and Reno: nothing there.
    None,
    /// `struct tcp_dctcp_info`.
    Dctcp {
        /// `dctcp_enabled`.
        enabled: u16,
        /// `dctcp_ce_state`.
        ce_state: u16,
        /// `dctcp_alpha`.
        alpha: u32,
        /// `dctcp_ab_ecn`.
        ab_ecn: u32,
        /// `dctcp_ab_tot`.
        ab_tot: u32,
    },
    /// `struct tcp_bbr_info`.
    Bbr {
        /// `bbr_bw_lo` and `bbr_bw_hi`, byte/s.
        bw: u64,
        /// `bbr_min_rtt`, µs.
        min_rtt: u32,
        /// `bbr_pacing_gain`, in 1/256.
        pacing_gain: u32,
        /// `bbr_cwnd_gain`, in 1/256.
        cwnd_gain: u32,
    },
    /// `struct tcpvegas_info`.
    Vegas {
        /// `tcpv_enabled`.
        enabled: u32,
        /// `tcpv_rttcnt`.
        rttcnt: u32,
        /// `tcpv_rtt`, µs.
        rtt: u32,
        /// `tcpv_minrtt`, µs.
        minrtt: u32,
    },
}

impl From<cc::CcInfo> for CcInfo {
    fn from(info: cc::CcInfo) -> Self {
        match info {
            cc::CcInfo::Dctcp(info) => Self::Dctcp {
                enabled: info.enabled.into(),
                ce_state: info.ce_state.into(),
                alpha: info.alpha,
                ab_ecn: info.ab_ecn,
                ab_tot: info.ab_tot,
            },
            cc::CcInfo::Bbr(info) => Self::Bbr {
                bw: info.bw,
                min_rtt: info.min_rtt_us,
                pacing_gain: info.pacing_gain,
                cwnd_gain: info.cwnd_gain,
            },
            cc::CcInfo::Vegas(info) => Self::Vegas {
                enabled: info.enabled.into(),
                rttcnt: info.rtt_count,
                rtt: info.rtt,
                minrtt: info.min_rtt,
            },
        }
    }
}

impl Return {
    /// A value and nothing else.
    pub const fn value(value: i64) -> Self {
        Self { value, data: Data::None }
    }

    /// 0 and what was written.
    pub const fn zero_with(data: Data) -> Self {
        Self { value: 0, data }
    }

    /// The number that `getsockopt` gave, if it gave one.
    pub fn option_number(&self) -> Option<i64> {
        match &self.data {
            Data::Option(OptionValue::Number(number)) => Some(*number),
            _ => None,
        }
    }

    /// The `TCP_INFO` that `getsockopt` gave.
    pub fn tcp_info(&self) -> Option<&TcpInfo> {
        match &self.data {
            Data::Option(OptionValue::TcpInfo(info)) => Some(info),
            _ => None,
        }
    }
}

/// What a call comes to at once, when it does not have to wait.
pub(super) type SyscallResult = Result<Return, Errno>;
