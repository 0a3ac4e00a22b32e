//! What the arguments of system calls point at: addresses, memory, messages, entries of `poll`.

use super::call::Fd;
use super::errno::Errno;
use super::number::{SO_EE_ORIGIN_ICMP, SO_EE_ORIGIN_ICMP6};
use crate::tcp::{IcmpError, Payload};
use crate::units::Instant;
use core::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

/// A `struct sockaddr` argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Address {
    /// A null pointer.
    #[default]
    Null,
    /// `AF_UNSPEC`: `connect` dissolves the connection.
    Unspecified,
    /// `sockaddr_in` or `sockaddr_in6`.
    Inet(SocketAddr),
    /// Another family, or a length that does not fit one.
    Other {
        /// `sa_family`.
        family: i32,
        /// Length given, in bytes.
        len: u32,
    },
}

/// One `struct iovec`. In simulation only the length of the memory counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Buffer {
    len: u64,
    valid: bool,
}

/// The memory of a call: one buffer or a vector of them, of which only the length counts; or bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Iov {
    /// One.
    One(Buffer),
    /// Several (`writev`, `sendmsg`, …).
    Many(Vec<Buffer>),
    /// Valid memory with these bytes, to be sent.
    Bytes(Arc<[u8]>),
    /// Valid memory of so many bytes, to be read into: the caller wants to see what comes
    /// ([`Received::bytes`](super::Received::bytes)).
    Fetch(u64),
}

/// What `sendmsg` takes (`struct msghdr`).
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Message {
    /// Where to (`msg_name`).
    pub address: Address,
    /// What (`msg_iov`).
    pub iov: Iov,
    /// Control messages (`msg_control`).
    pub control: Vec<Control>,
}

/// A control message (`cmsg(3)`), sent or received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Control {
    /// `SOL_TCP` `TCP_CM_INQ`: bytes left to read; one more at the end of the stream.
    TcpInq(i32),
    /// `SOL_SOCKET` `SCM_TIMESTAMPING`: the software time stamp (`ts[0]`).
    Timestamping(Instant),
    /// `SOL_SOCKET` `SO_TIMESTAMPING`: which time stamps this one message wants.
    TimestampingFlags(i32),
    /// `SOL_IP` `IP_RECVERR` or `SOL_IPV6` `IPV6_RECVERR`: why this is in the error queue.
    ExtendedError(ExtendedError),
    /// `SOL_IP` `IP_TOS`.
    IpTos(u8),
    /// `SOL_IP` `IP_TTL`.
    IpTtl(i32),
    /// `SOL_IPV6` `IPV6_TCLASS`.
    Ipv6TrafficClass(i32),
    /// `SOL_IPV6` `IPV6_HOPLIMIT`.
    Ipv6HopLimit(i32),
    /// `SOL_IP` `IP_PKTINFO` (`struct in_pktinfo`).
    IpPktInfo {
        /// `ipi_ifindex`.
        interface: u32,
        /// `ipi_spec_dst`: what an answer comes from; of what is sent its source.
        spec_dst: Ipv4Addr,
        /// `ipi_addr`: the destination in the header.
        addr: Ipv4Addr,
    },
    /// `SOL_IPV6` `IPV6_PKTINFO` (`struct in6_pktinfo`).
    Ipv6PktInfo {
        /// `ipi6_addr`: the destination; of what is sent its source.
        addr: Ipv6Addr,
        /// `ipi6_ifindex`.
        interface: u32,
    },
    /// `SOL_IP` `IP_ORIGDSTADDR`.
    IpOrigDstAddr(SocketAddr),
    /// `SOL_IPV6` `IPV6_ORIGDSTADDR`.
    Ipv6OrigDstAddr(SocketAddr),
    /// `SOL_UDP` `UDP_SEGMENT`: bytes of each datagram that this one is cut into.
    UdpSegment(u16),
    /// `SOL_UDP` `UDP_GRO`: bytes of each of the datagrams that came together.
    UdpGro(i32),
    /// Any other: level, type, and its value as a number.
    Other {
        /// `cmsg_level`.
        level: i32,
        /// `cmsg_type`.
        kind: i32,
        /// The first four bytes of its data.
        value: i32,
    },
}

/// `struct sock_extended_err`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct ExtendedError {
    /// `ee_errno`.
    pub errno: i32,
    /// `ee_origin`: `SO_EE_ORIGIN_*`.
    pub origin: u8,
    /// `ee_type`: of the ICMP message.
    pub kind: u8,
    /// `ee_code`: of the ICMP message.
    pub code: u8,
    /// `ee_info`: MTU, or `SCM_TSTAMP_*`.
    pub info: u32,
    /// `ee_data`: number of the byte that a time stamp is about.
    pub data: u32,
    /// It came over IPv6 (`IPV6_RECVERR`).
    pub ipv6: bool,
}

impl ExtendedError {
    /// An ICMP message, and the error that it is.
    pub(super) fn of_icmp(icmp: IcmpError, error: Errno) -> Self {
        let origin = if icmp.ipv6 { SO_EE_ORIGIN_ICMP6 } else { SO_EE_ORIGIN_ICMP } as u8;
        let IcmpError { kind, code, ipv6, .. } = icmp;
        Self { errno: error.number(), origin, kind, code, info: 0, data: 0, ipv6 }
    }
}

/// One entry of `poll`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PollFd {
    /// Which; negative ones are skipped.
    pub fd: Fd,
    /// What is asked for (`POLL*`).
    pub events: i32,
}

/// One event of `epoll_ctl` and `epoll_wait`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct EpollEvent {
    /// `EPOLL*`.
    pub events: u32,
    /// The caller's own (`epoll_data`).
    pub data: u64,
}

impl Buffer {
    /// `len` bytes of valid memory.
    pub const fn of(len: u64) -> Self {
        Self { len, valid: true }
    }

    /// A bad pointer with a length: `EFAULT` if a byte of it is touched.
    pub const fn faulty(len: u64) -> Self {
        Self { len, valid: false }
    }

    /// Bytes.
    pub const fn len(self) -> u64 {
        self.len
    }

    /// No bytes.
    pub const fn is_empty(self) -> bool {
        self.len == 0
    }
}

impl Iov {
    /// Bytes in all.
    pub fn len(&self) -> u64 {
        match self {
            Self::One(buffer) => buffer.len,
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::Fetch(len) => *len,
            Self::Many(buffers) => {
                buffers.iter().fold(0, |sum, buffer| sum.saturating_add(buffer.len))
            }
        }
    }

    /// What is to be sent, without its first `skipped` bytes and not beyond `limit`.
    pub(super) fn payload(&self, skipped: u64, limit: u64) -> Payload<'_> {
        match self {
            Self::Bytes(bytes) => bytes[skipped as usize..limit as usize].into(),
            _ => (limit - skipped).into(),
        }
    }

    /// Bytes of each buffer, if there are several of one length; else 0.
    pub(super) fn piece(&self) -> u32 {
        match self {
            Self::Many(buffers) if buffers.windows(2).all(|two| two[0].len == two[1].len) => {
                buffers.first().map_or(0, |first| u32::try_from(first.len).unwrap_or(0))
            }
            _ => 0,
        }
    }

    /// The caller wants to see what comes.
    pub(super) const fn fetches(&self) -> bool {
        matches!(self, Self::Fetch(_))
    }

    /// No bytes at all.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes before the first that cannot be touched; `None`: all of them can.
    pub(super) fn valid_len(&self) -> Option<u64> {
        let buffers = match self {
            Self::One(buffer) => core::slice::from_ref(buffer),
            Self::Many(buffers) => buffers.as_slice(),
            Self::Bytes(_) | Self::Fetch(_) => return None,
        };
        let bad = buffers.iter().position(|buffer| !buffer.valid && buffer.len > 0)?;
        Some(buffers[..bad].iter().fold(0, |sum, buffer| sum.saturating_add(buffer.len)))
    }
}

impl Default for Iov {
    fn default() -> Self {
        Self::One(Buffer::of(0))
    }
}

impl From<u64> for Iov {
    /// One valid buffer of that many bytes.
    fn from(len: u64) -> Self {
        Self::One(Buffer::of(len))
    }
}

impl From<&[u8]> for Iov {
    /// One valid buffer with these bytes.
    fn from(bytes: &[u8]) -> Self {
        Self::Bytes(bytes.into())
    }
}

impl From<SocketAddr> for Address {
    fn from(address: SocketAddr) -> Self {
        Self::Inet(address)
    }
}
