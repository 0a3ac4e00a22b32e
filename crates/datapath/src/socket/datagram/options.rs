//! Options of UDP sockets (`sk_setsockopt`, `do_ip_setsockopt`, `do_ipv6_setsockopt`).

use super::DatagramSocket;
use crate::host::{Host, UDP_RECEIVE_BUFFER, UDP_SEND_BUFFER};
use crate::packet::tos_to_priority;
use crate::socket::Sockets;
use crate::socket::answer::{Data, Return, SyscallResult};
use crate::socket::call::Fd;
use crate::socket::errno::Errno;
#[allow(clippy::wildcard_imports, reason = "many names, each of them plain")]
use crate::socket::number::*;
use crate::socket::option::OptionValue;
use crate::socket::options::{LINGER_LEN, number_of_length, told_linger};
use crate::tcp::config::{MIN_RCVBUF, MIN_SNDBUF, PmtuDiscovery};
use crate::units::{Duration, Instant};

/// Options of a UDP socket.
#[derive(Clone, Debug)]
pub(super) struct Settings {
    pub receive_buffer: u32,
    pub send_buffer: u32,
    pub receive_timeout: Option<Duration>,
    pub send_timeout: Option<Duration>,
    pub tos: u8,
    pub ttl: u8,
    pub hop_limit: u8,
    pub priority: u32,
    pub pmtu: PmtuDiscovery,
    pub recverr: bool,
    pub v6_only: bool,
    pub reuse_address: bool,
    pub reuse_port: bool,
    pub broadcast: bool,
    pub receive_tos: bool,
    pub receive_ttl: bool,
    pub plain: Plain,
}

/// Options of sockets of any kind that change nothing for datagrams (`sk_setsockopt`).
#[derive(Clone, Debug)]
pub(super) struct Plain {
    receive_low_water: u32,
    /// Whether, and how long, s.
    linger: (bool, u32),
    keepalive: bool,
    oob_inline: bool,
}

impl Default for Plain {
    fn default() -> Self {
        Self { receive_low_water: 1, linger: (false, 0), keepalive: false, oob_inline: false }
    }
}

/// `net.core.wmem_max`, `net.core.rmem_max`.
const BUFFER_MAX: u32 = 212_992;
/// `IP_DEFAULT_TTL`.
const TTL: u8 = 64;
impl Default for Settings {
    fn default() -> Self {
        Self {
            receive_buffer: UDP_RECEIVE_BUFFER,
            send_buffer: UDP_SEND_BUFFER,
            receive_timeout: None,
            send_timeout: None,
            tos: 0,
            ttl: TTL,
            hop_limit: TTL,
            priority: 0,
            pmtu: PmtuDiscovery::default(),
            recverr: false,
            v6_only: false,
            reuse_address: false,
            reuse_port: false,
            broadcast: false,
            receive_tos: false,
            receive_ttl: false,
            plain: Plain::default(),
        }
    }
}

impl Sockets {
    pub(super) fn set_datagram_option(
        &mut self,
        host: &mut Host,
        fd: Fd,
        (level, name): (i32, i32),
        value: &OptionValue,
        len: u32,
    ) -> SyscallResult {
        let socket = self.datagram_mut(fd)?;
        match (level, name, value) {
            (_, _, OptionValue::Fault) => return Err(Errno::EFAULT),
            (SOL_SOCKET, SO_RCVTIMEO, OptionValue::Time(time)) => {
                socket.settings.receive_timeout = time.nonzero();
            }
            (SOL_SOCKET, SO_SNDTIMEO, OptionValue::Time(time)) => {
                socket.settings.send_timeout = time.nonzero();
            }
            (SOL_SOCKET, SO_LINGER, OptionValue::Linger { .. }) if len < LINGER_LEN => {
                return Err(Errno::EINVAL);
            }
            (SOL_SOCKET, SO_LINGER, OptionValue::Linger { on, seconds }) => {
                let time = if *on { *seconds } else { socket.settings.plain.linger.1 };
                socket.settings.plain.linger = (*on, time);
            }
            (_, _, OptionValue::Number(number)) => {
                socket.set(level, name, number_of_length(level, *number, len)?)?;
            }
            _ => return Err(Errno::ENOPROTOOPT),
        }
        socket.apply(host);
        Ok(Return::value(0))
    }

    pub(super) fn datagram_option(
        &self,
        now: Instant,
        host: &mut Host,
        fd: Fd,
        level: i32,
        name: i32,
    ) -> SyscallResult {
        let socket = self.datagram(fd)?;
        let own = &socket.settings;
        let number: i64 = match (level, name) {
            (SOL_SOCKET, SO_ERROR) => {
                socket.take_error(host).map_or(0, |error| error.number().into())
            }
            (SOL_SOCKET, SO_RCVTIMEO) => {
                return Ok(Return::zero_with(Data::Option(OptionValue::Time(
                    own.receive_timeout.unwrap_or_default(),
                ))));
            }
            (SOL_SOCKET, SO_SNDTIMEO) => {
                return Ok(Return::zero_with(Data::Option(OptionValue::Time(
                    own.send_timeout.unwrap_or_default(),
                ))));
            }
            (SOL_SOCKET, SO_LINGER) => {
                let (on, seconds) = own.plain.linger;
                let linger = OptionValue::Linger { on, seconds: told_linger(seconds) };
                return Ok(Return::zero_with(Data::Option(linger)));
            }
            (SOL_SOCKET, SO_RCVLOWAT) => own.plain.receive_low_water.into(),
            (SOL_SOCKET, SO_KEEPALIVE) => own.plain.keepalive.into(),
            (SOL_SOCKET, SO_OOBINLINE) => own.plain.oob_inline.into(),
            (SOL_SOCKET, SO_SNDLOWAT) => 1,
            (SOL_SOCKET, SO_ACCEPTCONN) => 0,
            (SOL_SOCKET, SO_TYPE) => SOCK_DGRAM.into(),
            (SOL_SOCKET, SO_PROTOCOL) => IPPROTO_UDP.into(),
            (SOL_SOCKET, SO_DOMAIN) => (if socket.ipv6 { AF_INET6 } else { AF_INET }).into(),
            (SOL_SOCKET, SO_RCVBUF) => own.receive_buffer.into(),
            (SOL_SOCKET, SO_SNDBUF) => own.send_buffer.into(),
            (SOL_SOCKET, SO_REUSEADDR) => own.reuse_address.into(),
            (SOL_SOCKET, SO_REUSEPORT) => own.reuse_port.into(),
            (SOL_SOCKET, SO_BROADCAST) => own.broadcast.into(),
            (SOL_SOCKET, SO_PRIORITY) => own.priority.into(),
            (SOL_IP, IP_TOS) => own.tos.into(),
            (SOL_IP, IP_TTL) => own.ttl.into(),
            (SOL_IPV6, IPV6_UNICAST_HOPS) => own.hop_limit.into(),
            (SOL_IP, IP_MTU_DISCOVER) | (SOL_IPV6, IPV6_MTU_DISCOVER) => {
                PmtuDiscovery::ALL.iter().position(|it| *it == own.pmtu).expect("one of them")
                    as i64
            }
            (SOL_IP, IP_MTU) | (SOL_IPV6, IPV6_MTU) => {
                let mtu = socket.id.and_then(|id| host.udp_path_mtu(now, id).unwrap_or_default());
                mtu.ok_or(Errno::ENOTCONN)?.into()
            }
            (SOL_IP, IP_RECVERR) | (SOL_IPV6, IPV6_RECVERR) => own.recverr.into(),
            (SOL_IP, IP_RECVTOS) | (SOL_IPV6, IPV6_RECVTCLASS) => own.receive_tos.into(),
            (SOL_IP, IP_RECVTTL) => own.receive_ttl.into(),
            (SOL_IPV6, IPV6_TCLASS) if socket.ipv6 => own.tos.into(),
            (SOL_IPV6, IPV6_V6ONLY) if socket.ipv6 => own.v6_only.into(),
            (SOL_SOCKET | SOL_IP | SOL_UDP, _) => return Err(Errno::ENOPROTOOPT),
            _ if socket.ipv6 => return Err(Errno::ENOPROTOOPT),
            _ => return Err(Errno::EOPNOTSUPP),
        };
        Ok(Return::zero_with(Data::Option(OptionValue::Number(number))))
    }
}

impl DatagramSocket {
    fn set(&mut self, level: i32, name: i32, value: i64) -> Result<(), Errno> {
        let on = value != 0;
        let own = &mut self.settings;
        let doubled = |least: u32| ((value as u32).min(BUFFER_MAX) * 2).max(least);
        match (level, name) {
            (SOL_SOCKET, SO_SNDBUF) => own.send_buffer = doubled(MIN_SNDBUF),
            (SOL_SOCKET, SO_RCVBUF) => own.receive_buffer = doubled(MIN_RCVBUF),
            (SOL_SOCKET, SO_RCVLOWAT) => {
                let value = if value < 0 { i32::MAX as u32 } else { (value as u32).max(1) };
                own.plain.receive_low_water = value;
            }
            (SOL_SOCKET, SO_KEEPALIVE) => own.plain.keepalive = on,
            (SOL_SOCKET, SO_OOBINLINE) => own.plain.oob_inline = on,
            (SOL_SOCKET, SO_REUSEADDR) => own.reuse_address = on,
            (SOL_SOCKET, SO_REUSEPORT) => own.reuse_port = on,
            (SOL_SOCKET, SO_BROADCAST) => own.broadcast = on,
            (SOL_SOCKET, SO_PRIORITY) => own.priority = value as u32,
            (SOL_IP, IP_TOS) => {
                if own.tos != value as u8 {
                    own.priority = tos_to_priority(value as u8);
                }
                own.tos = value as u8;
            }
            (SOL_IP, IP_TTL) => match value {
                -1 => own.ttl = TTL,
                1..=255 => own.ttl = value as u8,
                _ => return Err(Errno::EINVAL),
            },
            (SOL_IP, IP_MTU_DISCOVER) | (SOL_IPV6, IPV6_MTU_DISCOVER) => {
                let index = usize::try_from(value).map_err(|_| Errno::EINVAL)?;
                own.pmtu = *PmtuDiscovery::ALL.get(index).ok_or(Errno::EINVAL)?;
            }
            (SOL_IP, IP_RECVERR) | (SOL_IPV6, IPV6_RECVERR) => own.recverr = on,
            (SOL_IP, IP_RECVTOS) | (SOL_IPV6, IPV6_RECVTCLASS) => own.receive_tos = on,
            (SOL_IP, IP_RECVTTL) => own.receive_ttl = on,
            (SOL_IPV6, IPV6_TCLASS) if self.ipv6 => match value {
                -1 => own.tos = 0,
                0..=255 => own.tos = value as u8,
                _ => return Err(Errno::EINVAL),
            },
            (SOL_IPV6, IPV6_UNICAST_HOPS) if self.ipv6 => match value {
                -1 => own.hop_limit = TTL,
                0..=255 => own.hop_limit = value as u8,
                _ => return Err(Errno::EINVAL),
            },
            (SOL_IPV6, IPV6_V6ONLY) if self.ipv6 => {
                if self.id.is_some() {
                    return Err(Errno::EINVAL);
                }
                own.v6_only = on;
            }
            _ => return Err(Errno::ENOPROTOOPT),
        }
        Ok(())
    }
}
