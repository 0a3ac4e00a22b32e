//! Options of UDP sockets (`sk_setsockopt`, `do_ip_setsockopt`, `do_ipv6_setsockopt`).

use super::DatagramSocket;
use super::control::RequestedControls;
use crate::host::{Host, UDP_RECEIVE_BUFFER, UDP_SEND_BUFFER, UdpSharing};
use crate::packet::tos_to_priority;
use crate::socket::Sockets;
use crate::socket::answer::{Data, Return, SyscallResult};
use crate::socket::call::Fd;
use crate::socket::errno::Errno;
#[allow(clippy::wildcard_imports, reason = "many names, each of them plain")]
use crate::socket::number::*;
use crate::socket::option::OptionValue;
use crate::socket::options::{
    IPV6_MIN_MTU, LINGER_LEN, StoredValue, number_of_length, path_mtu_discovery, pmtu_number,
    reported_linger,
};
use crate::tcp::config::{Ipv6Options, MIN_RCVBUF, MIN_SNDBUF, PmtuDiscovery, lock};
use crate::units::{Duration, Instant};
use std::collections::BTreeMap;

/// Options of a UDP socket.
#[derive(Clone, Debug)]
pub(super) struct Settings {
    pub receive_buffer: u32,
    pub send_buffer: u32,
    /// `SO_BUF_LOCK`: nothing tunes buffers here, but it is read back.
    pub buf_lock: u8,
    pub receive_timeout: Option<Duration>,
    pub send_timeout: Option<Duration>,
    pub tos: u8,
    pub ttl: u8,
    pub hop_limit: u8,
    pub priority: u32,
    pub pmtu: PmtuDiscovery,
    pub recverr: bool,
    /// What goes over IPv6 goes by these, and not by those of IPv4.
    pub over_ipv6: Ipv6Options,
    /// `SO_MAX_PACING_RATE`, byte/s, and the least that it has been.
    pub pacing_rates: (u64, u64),
    /// `IPV6_MTU`.
    pub frag_size: Option<u32>,
    pub mark: u32,
    /// `UDP_CORK`.
    pub cork: bool,
    /// `UDP_SEGMENT`.
    pub gso_size: u16,
    /// `SO_PEEK_OFF`: from which byte on a peek reads; below 0: from the first of the first datagram, always.
    pub peek_off: i32,
    /// What is told of what is read.
    pub requested: RequestedControls,
    pub v6_only: bool,
    pub reuse_address: bool,
    pub reuse_port: bool,
    pub broadcast: bool,
    pub plain: Plain,
    /// Options that were set and are read back, by level and name.
    pub kept: BTreeMap<(i32, i32), i64>,
}

impl Settings {
    fn is_set(&self, level: i32, name: i32) -> bool {
        self.kept.get(&(level, name)).is_some_and(|value| *value != 0)
    }

    pub fn sharing(&self) -> UdpSharing {
        UdpSharing { v6_only: self.v6_only, address: self.reuse_address, port: self.reuse_port }
    }

    pub fn dont_route(&self) -> bool {
        self.is_set(SOL_SOCKET, SO_DONTROUTE)
    }

    pub fn dont_fragment(&self) -> bool {
        self.is_set(SOL_IPV6, IPV6_DONTFRAG)
    }

    /// A peek has moved on, or a read has taken bytes before the next peek (`sk_peek_offset_bwd`).
    pub fn move_peek_off(&mut self, by: i32) {
        if self.peek_off >= 0 {
            self.peek_off = self.peek_off.saturating_add(by).max(0);
        }
    }

    /// `IPV6_FLOWINFO_SEND`.
    pub fn sends_flowinfo(&self) -> bool {
        self.is_set(SOL_IPV6, IPV6_FLOWINFO_SEND)
    }

    /// `UDP_GRO`.
    pub fn gro(&self) -> bool {
        self.is_set(SOL_UDP, UDP_GRO)
    }

    /// It may be bound to an address that the host has not got.
    pub fn freebind(&self) -> bool {
        self.is_set(SOL_IP, IP_FREEBIND) || self.is_set(SOL_IP, IP_TRANSPARENT)
    }
}

/// Options of datagram sockets that can be set and read back, and what they are before. But for five of them (`SO_DONTROUTE`,
/// `IPV6_DONTFRAG`, `IPV6_FLOWINFO_SEND`, `IP_FREEBIND`, `UDP_GRO`) they change nothing in this world.
const KEPT_OF_DATAGRAMS: [((i32, i32), StoredValue, i64); 36] = [
    ((SOL_SOCKET, SO_DEBUG), StoredValue::Switch, 0),
    ((SOL_SOCKET, SO_DONTROUTE), StoredValue::Switch, 0),
    ((SOL_SOCKET, SO_NO_CHECK), StoredValue::Switch, 0),
    ((SOL_SOCKET, SO_RXQ_OVFL), StoredValue::Switch, 0),
    ((SOL_SOCKET, SO_BUSY_POLL), StoredValue::Positive, 0),
    ((SOL_SOCKET, SO_INCOMING_CPU), StoredValue::Number, -1),
    ((SOL_SOCKET, SO_ZEROCOPY), StoredValue::Bit, 0),
    ((SOL_SOCKET, SO_TIMESTAMP), StoredValue::Switch, 0),
    ((SOL_SOCKET, SO_TIMESTAMPNS), StoredValue::Switch, 0),
    ((SOL_IP, IP_RECVOPTS), StoredValue::Switch, 0),
    ((SOL_IP, IP_RETOPTS), StoredValue::Switch, 0),
    ((SOL_IP, IP_FREEBIND), StoredValue::Switch, 0),
    ((SOL_IP, IP_TRANSPARENT), StoredValue::Switch, 0),
    ((SOL_IP, IP_PASSSEC), StoredValue::Switch, 0),
    ((SOL_IP, IP_MINTTL), StoredValue::Byte, 0),
    ((SOL_IP, IP_CHECKSUM), StoredValue::Switch, 0),
    ((SOL_IP, IP_BIND_ADDRESS_NO_PORT), StoredValue::Switch, 0),
    ((SOL_IP, IP_RECVFRAGSIZE), StoredValue::Switch, 0),
    ((SOL_IP, IP_RECVERR_RFC4884), StoredValue::Bit, 0),
    ((SOL_IP, IP_MULTICAST_TTL), StoredValue::Hops, 1),
    ((SOL_IP, IP_MULTICAST_LOOP), StoredValue::Switch, 1),
    ((SOL_IP, IP_MULTICAST_ALL), StoredValue::Bit, 1),
    ((SOL_IPV6, IPV6_FLOWINFO), StoredValue::Switch, 0),
    ((SOL_IPV6, IPV6_MULTICAST_HOPS), StoredValue::Hops, 1),
    ((SOL_IPV6, IPV6_MULTICAST_LOOP), StoredValue::Bit, 1),
    ((SOL_IPV6, IPV6_MULTICAST_ALL), StoredValue::Switch, 1),
    ((SOL_IPV6, IPV6_RECVERR_RFC4884), StoredValue::Bit, 0),
    ((SOL_IPV6, IPV6_FLOWINFO_SEND), StoredValue::Switch, 0),
    ((SOL_IPV6, IPV6_RECVPATHMTU), StoredValue::Switch, 0),
    ((SOL_IPV6, IPV6_DONTFRAG), StoredValue::Switch, 0),
    ((SOL_IPV6, IPV6_MINHOPCOUNT), StoredValue::Byte, 0),
    ((SOL_IPV6, IPV6_RECVFRAGSIZE), StoredValue::Switch, 0),
    ((SOL_UDP, UDP_NO_CHECK6_TX), StoredValue::Switch, 0),
    ((SOL_UDP, UDP_NO_CHECK6_RX), StoredValue::Switch, 0),
    ((SOL_UDP, UDP_GRO), StoredValue::Switch, 0),
    ((SOL_IP, IP_LOCAL_PORT_RANGE), StoredValue::Number, 0),
];

/// A name of IPv6 that is another one's of IPv4: one option with two names.
fn one_name(level: i32, name: i32) -> (i32, i32) {
    match (level, name) {
        (SOL_IPV6, IPV6_FREEBIND) => (SOL_IP, IP_FREEBIND),
        (SOL_IPV6, IPV6_TRANSPARENT) => (SOL_IP, IP_TRANSPARENT),
        other => other,
    }
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
            buf_lock: 0,
            receive_timeout: None,
            send_timeout: None,
            tos: 0,
            ttl: TTL,
            hop_limit: TTL,
            priority: 0,
            pmtu: PmtuDiscovery::default(),
            recverr: false,
            over_ipv6: Ipv6Options::default(),
            frag_size: None,
            mark: 0,
            cork: false,
            gso_size: 0,
            peek_off: -1,
            requested: RequestedControls::default(),
            v6_only: false,
            reuse_address: false,
            reuse_port: false,
            broadcast: false,
            pacing_rates: (u64::MAX, u64::MAX),
            plain: Plain::default(),
            kept: BTreeMap::new(),
        }
    }
}

impl Sockets {
    pub(super) fn set_datagram_option(
        &mut self,
        now: Instant,
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
        match (level, name, value) {
            (SOL_UDP, UDP_CORK, OptionValue::Number(0)) => socket.push_pending(now, host),
            (SOL_IP, IP_RECVERR, OptionValue::Number(0))
            | (SOL_IPV6, IPV6_RECVERR, OptionValue::Number(0)) => {
                if let Some(id) = socket.id {
                    host.udp_purge_errors(id);
                }
            }
            _ => {}
        }
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
                let linger = OptionValue::Linger { on, seconds: reported_linger(seconds) };
                return Ok(Return::zero_with(Data::Option(linger)));
            }
            (SOL_SOCKET, SO_MEMINFO) => {
                let memory = OptionValue::MemInfo(socket.memory(host));
                return Ok(Return::zero_with(Data::Option(memory)));
            }
            (SOL_SOCKET, SO_PEEK_OFF) => own.peek_off.into(),
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
            (SOL_SOCKET, SO_BUF_LOCK) => own.buf_lock.into(),
            (SOL_SOCKET, SO_REUSEADDR) => own.reuse_address.into(),
            (SOL_SOCKET, SO_REUSEPORT) => own.reuse_port.into(),
            (SOL_SOCKET, SO_BROADCAST) => own.broadcast.into(),
            (SOL_SOCKET, SO_PRIORITY) => own.priority.into(),
            (SOL_IP, IP_TOS) => own.tos.into(),
            (SOL_IP, IP_TTL) => own.ttl.into(),
            (SOL_IP, IP_MTU_DISCOVER) => pmtu_number(own.pmtu),
            (SOL_IPV6, IPV6_MTU_DISCOVER) if socket.ipv6 => {
                pmtu_number(own.over_ipv6.pmtu_discovery)
            }
            (SOL_IP, IP_RECVERR) => own.recverr.into(),
            (SOL_IPV6, IPV6_RECVERR) if socket.ipv6 => own.over_ipv6.recverr.into(),
            (SOL_IPV6, IPV6_TCLASS) if socket.ipv6 => own.over_ipv6.traffic_class.into(),
            (SOL_IPV6, IPV6_UNICAST_HOPS) if socket.ipv6 => own.hop_limit.into(),
            (SOL_IPV6, IPV6_AUTOFLOWLABEL) if socket.ipv6 => {
                let by_itself = || host.tcp_defaults().sysctl.labels_unasked();
                own.over_ipv6.auto_flow_label.unwrap_or_else(by_itself).into()
            }
            (SOL_SOCKET, SO_MARK) => own.mark.into(),
            (SOL_SOCKET, SO_MAX_PACING_RATE) => match own.pacing_rates.0 {
                u64::MAX => -1,
                rate => rate as i64,
            },
            (SOL_UDP, UDP_CORK) => own.cork.into(),
            (SOL_UDP, UDP_SEGMENT) => own.gso_size.into(),
            (SOL_IPV6, IPV6_MTU) if !socket.ipv6 => return Err(Errno::EOPNOTSUPP),
            (SOL_IP, IP_MTU) | (SOL_IPV6, IPV6_MTU) => {
                let mtu = socket.id.and_then(|id| host.udp_path_mtu(now, id).unwrap_or_default());
                mtu.ok_or(Errno::ENOTCONN)?.into()
            }
            (SOL_IPV6, IPV6_V6ONLY) if socket.ipv6 => own.v6_only.into(),
            (SOL_IPV6 | SOL_TCP, _) if !socket.ipv6 => return Err(Errno::EOPNOTSUPP),
            _ => own.stored_value(level, name)?,
        };
        Ok(Return::zero_with(Data::Option(OptionValue::Number(number))))
    }
}

impl Settings {
    /// One of the options that are kept, or whether something is told of what is read.
    fn stored_value(&self, level: i32, name: i32) -> Result<i64, Errno> {
        let mut requested = self.requested;
        if let Some(switch) = requested.switch(level, name) {
            return Ok((*switch).into());
        }
        let option = one_name(level, name);
        let known = KEPT_OF_DATAGRAMS
            .iter()
            .find(|(known, ..)| *known == option)
            .ok_or(Errno::ENOPROTOOPT)?;
        Ok(self.kept.get(&option).copied().unwrap_or(known.2))
    }

    fn keep(&mut self, level: i32, name: i32, value: i64) -> Result<(), Errno> {
        if let Some(switch) = self.requested.switch(level, name) {
            *switch = value != 0;
            return Ok(());
        }
        let option = one_name(level, name);
        let known = KEPT_OF_DATAGRAMS
            .iter()
            .find(|(known, ..)| *known == option)
            .ok_or(Errno::ENOPROTOOPT)?;
        self.kept.insert(option, known.1.of(value)?);
        // One option with two units (`sock_set_timestamp`).
        if let (SOL_SOCKET, SO_TIMESTAMP | SO_TIMESTAMPNS) = option {
            self.kept.remove(&(SOL_SOCKET, SO_TIMESTAMP + SO_TIMESTAMPNS - name));
        }
        Ok(())
    }
}

impl DatagramSocket {
    /// `SO_MEMINFO` (`sk_get_meminfo`).
    fn memory(&self, host: &Host) -> [u32; 9] {
        let (receive, send) = (self.settings.receive_buffer, self.settings.send_buffer);
        let mut memory = [0, receive, 0, send, 0, 0, 0, 0, 0];
        if let Some(socket) = self.host_socket(host) {
            (memory[0], memory[4]) = socket.receive_memory();
            memory[2] = socket.unsent();
            memory[8] = socket.receive_drops as u32;
        }
        memory
    }

    fn set(&mut self, level: i32, name: i32, value: i64) -> Result<(), Errno> {
        let on = value != 0;
        let own = &mut self.settings;
        let doubled = |least: u32| ((value as u32).min(BUFFER_MAX) * 2).max(least);
        match (level, name) {
            (SOL_SOCKET, SO_SNDBUF) => {
                own.send_buffer = doubled(MIN_SNDBUF);
                own.buf_lock |= lock::SEND;
            }
            (SOL_SOCKET, SO_RCVBUF) => {
                own.receive_buffer = doubled(MIN_RCVBUF);
                own.buf_lock |= lock::RECEIVE;
            }
            (SOL_SOCKET, SO_BUF_LOCK) => own.buf_lock = lock::named(value).ok_or(Errno::EINVAL)?,
            (SOL_SOCKET, SO_RCVLOWAT) => {
                let value = if value < 0 { i32::MAX as u32 } else { (value as u32).max(1) };
                own.plain.receive_low_water = value;
            }
            (SOL_SOCKET, SO_PEEK_OFF) => own.peek_off = value as i32,
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
            (SOL_IP, IP_MTU_DISCOVER) => own.pmtu = path_mtu_discovery(value)?,
            (SOL_IP, IP_RECVERR) => own.recverr = on,
            (SOL_SOCKET, SO_MARK) => own.mark = value as u32,
            (SOL_SOCKET, SO_MAX_PACING_RATE) => {
                let unlimited = value < 0 || value == i64::from(u32::MAX);
                let rate = if unlimited { u64::MAX } else { value as u64 };
                own.pacing_rates = (rate, own.pacing_rates.1.min(rate));
            }
            (SOL_UDP, UDP_CORK) => own.cork = on,
            (SOL_UDP, UDP_SEGMENT) => {
                own.gso_size = u16::try_from(value).map_err(|_| Errno::EINVAL)?;
            }
            (SOL_IPV6, _) if !self.ipv6 => return Err(Errno::ENOPROTOOPT),
            (SOL_IPV6, IPV6_MTU_DISCOVER) => {
                own.over_ipv6.pmtu_discovery = path_mtu_discovery(value)?;
            }
            (SOL_IPV6, IPV6_RECVERR) => own.over_ipv6.recverr = on,
            (SOL_IPV6, IPV6_AUTOFLOWLABEL) => own.over_ipv6.auto_flow_label = Some(on),
            (SOL_IPV6, IPV6_MTU) => match value {
                0 => own.frag_size = None,
                IPV6_MIN_MTU.. => own.frag_size = Some(value as u32),
                _ => return Err(Errno::EINVAL),
            },
            (SOL_IPV6, IPV6_TCLASS) => match value {
                -1 => own.over_ipv6.traffic_class = 0,
                0..=255 => own.over_ipv6.traffic_class = value as u8,
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
            _ => own.keep(level, name, value)?,
        }
        Ok(())
    }
}
