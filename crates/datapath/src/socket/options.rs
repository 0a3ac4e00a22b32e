//! `getsockopt(2)` and `setsockopt(2)` (`sk_setsockopt`, `do_tcp_setsockopt`,
//! `do_ip_setsockopt`, `do_ipv6_setsockopt`), `ioctl(2)`.

use super::Sockets;
use super::call::{CcInfo, Data, Fd, Outcome, Return};
use super::errno::Errno;
#[allow(clippy::wildcard_imports, reason = "a hundred names, each of them plain")]
use super::number::*;
use super::option::{Md5Signature, OptionValue};
use super::stream::{Phase, Stream};
use super::table::File;
use crate::host::Host;
use crate::tcp::Connection;
use crate::tcp::cc::Algorithm;
use crate::tcp::config::{PmtuDiscovery, TcpConfig};
use crate::tcp::fastopen::{Keys, switch};
use crate::tcp::info::TcpInfo;
use crate::tcp::md5;
use crate::tcp::state::State;
use crate::units::{Duration, Instant};

/// Options that only the socket knows, not the connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct StreamOptions {
    /// `SO_REUSEADDR`.
    pub reuse_address: bool,
    /// `SO_REUSEPORT`.
    pub reuse_port: bool,
    /// `SO_LINGER`, s.
    pub linger: Option<u32>,
    /// `SO_RCVTIMEO`; zero: for ever.
    pub receive_timeout: Duration,
    /// `SO_SNDTIMEO`; zero: for ever.
    pub send_timeout: Duration,
    /// `SO_RCVLOWAT`.
    pub rcvlowat: u32,
    /// `TCP_INQ`.
    pub inq: bool,
    /// `TCP_FASTOPEN_CONNECT`.
    pub fast_open_connect: bool,
    /// `TCP_FASTOPEN` of a listener to be.
    pub fast_open_limit: u32,
    /// `IPV6_V6ONLY`.
    pub v6_only: bool,
    /// `IP_FREEBIND`, `IPV6_FREEBIND`, `IP_TRANSPARENT`.
    pub freebind: bool,
    /// `SO_ZEROCOPY`.
    pub zerocopy: bool,
    /// Options that are kept and mean nothing here, by level and name.
    pub kept: std::collections::BTreeMap<(i32, i32), i64>,
}

impl StreamOptions {
    /// Those of a new socket.
    pub fn new(_config: &TcpConfig) -> Self {
        Self {
            reuse_address: false,
            reuse_port: false,
            linger: None,
            receive_timeout: Duration::ZERO,
            send_timeout: Duration::ZERO,
            rcvlowat: 1,
            inq: false,
            fast_open_connect: false,
            fast_open_limit: 0,
            v6_only: false,
            freebind: false,
            zerocopy: false,
            kept: std::collections::BTreeMap::new(),
        }
    }
}

/// `net.core.wmem_max`, `net.core.rmem_max`.
const BUFFER_MAX: i64 = 212_992;
/// `SOCK_MIN_SNDBUF`.
const MIN_SNDBUF: i64 = 4_608;
/// `SOCK_MIN_RCVBUF`.
const MIN_RCVBUF: i64 = 2_304;
/// `TCP_MSS_DEFAULT`.
const MSS_DEFAULT: i64 = 536;
/// `MAX_TCP_KEEPIDLE`, `MAX_TCP_KEEPINTVL`, `MAX_TCP_WINDOW`.
const LARGE: i64 = 32_767;
/// `MAX_TCP_KEEPCNT`, `MAX_TCP_SYNCNT`.
const COUNT_MAX: i64 = 127;

/// Options that can be set and read back, and change nothing in this world.
const KEPT: [(i32, i32); 22] = [
    (SOL_SOCKET, SO_DEBUG),
    (SOL_SOCKET, SO_DONTROUTE),
    (SOL_SOCKET, SO_BROADCAST),
    (SOL_SOCKET, SO_RXQ_OVFL),
    (SOL_SOCKET, SO_TIMESTAMP),
    (SOL_SOCKET, SO_TIMESTAMPNS),
    (SOL_SOCKET, SO_BUSY_POLL),
    (SOL_SOCKET, SO_TXREHASH),
    (SOL_SOCKET, SO_INCOMING_CPU),
    (SOL_TCP, TCP_THIN_LINEAR_TIMEOUTS),
    (SOL_TCP, TCP_THIN_DUPACK),
    (SOL_IP, IP_RECVTTL),
    (SOL_IP, IP_RECVTOS),
    (SOL_IP, IP_RECVOPTS),
    (SOL_IP, IP_PKTINFO),
    (SOL_IP, IP_BIND_ADDRESS_NO_PORT),
    (SOL_IP, IP_LOCAL_PORT_RANGE),
    (SOL_IPV6, IPV6_RECVTCLASS),
    (SOL_IPV6, IPV6_FLOWINFO_SEND),
    (SOL_IPV6, IPV6_AUTOFLOWLABEL),
    (SOL_SOCKET, SO_INCOMING_NAPI_ID),
    (SOL_SOCKET, SO_NO_CHECK),
];

impl Sockets {
    /// `setsockopt(2)`.
    #[expect(clippy::too_many_arguments, reason = "the call has that many")]
    pub(super) fn set_option(
        &mut self,
        now: Instant,
        host: &mut Host,
        fd: Fd,
        level: i32,
        name: i32,
        value: &OptionValue,
        len: u32,
    ) -> Outcome {
        let stream = self.stream_mut(fd)?;
        match value {
            OptionValue::Fault => return Err(Errno::EFAULT),
            OptionValue::Number(number) => {
                if len < 4 && !(level == SOL_IP && len > 0) {
                    return Err(Errno::EINVAL);
                }
                let mut set = Setter { now, host, stream };
                match level {
                    SOL_SOCKET => set.socket(name, *number),
                    SOL_TCP => set.tcp(name, *number),
                    SOL_IP => set.ip(name, *number),
                    SOL_IPV6 if set.stream.ipv6 => set.ipv6(name, *number),
                    _ => Err(Errno::ENOPROTOOPT),
                }
            }
            _ => Setter { now, host, stream }.structured(level, name, value),
        }?;
        Ok(Return::value(0))
    }

    /// `getsockopt(2)`.
    pub(super) fn get_option(
        &mut self,
        now: Instant,
        host: &mut Host,
        fd: Fd,
        level: i32,
        name: i32,
    ) -> Outcome {
        let stream = self.stream(fd)?;
        let value = match level {
            SOL_SOCKET => socket_value(host, stream, name)?,
            SOL_TCP => tcp_value(now, host, stream, name)?,
            SOL_IP => ip_value(host, stream, name)?,
            SOL_IPV6 if stream.ipv6 => ipv6_value(host, stream, name)?,
            _ => return Err(Errno::ENOPROTOOPT),
        };
        Ok(Return::zero_with(Data::Option(value)))
    }

    /// `ioctl(2)`.
    pub(super) fn ioctl(&mut self, host: &Host, fd: Fd, request: i32, argument: i32) -> Outcome {
        let stream = match self.file_mut(fd)? {
            File::Stream(stream) => stream,
            &mut File::Pipe(pipe, _) if request == FIONREAD => {
                let bytes = self.pipes[pipe].bytes;
                return Ok(Return::zero_with(Data::Number(bytes as i64)));
            }
            _ => return Err(Errno::ENOTTY),
        };
        if request == FIONBIO {
            stream.nonblocking = argument != 0;
            return Ok(Return::value(0));
        }
        let tcp = match stream.phase {
            Phase::Listener(_) => return Err(Errno::EINVAL),
            Phase::Connection(id) => host.tcp_connection(id),
            Phase::Fresh | Phase::Deferred(_) => None,
        };
        let number = match request {
            SIOCINQ => tcp.map_or(0, |tcp| tcp.inq().into()),
            SIOCOUTQ => tcp.map_or(0, |tcp| match tcp.state() {
                State::SynSent | State::SynRecv => 0,
                _ => i64::from(tcp.unacked_bytes()),
            }),
            SIOCOUTQNSD => tcp.map_or(0, |tcp| match tcp.state() {
                State::SynSent | State::SynRecv => 0,
                _ => tcp.unsent_bytes() as i64,
            }),
            SIOCATMARK => tcp.map_or(0, |tcp| tcp.at_urgent_mark().into()),
            _ => return Err(Errno::ENOTTY),
        };
        Ok(Return::zero_with(Data::Number(number)))
    }
}

/// One `setsockopt` under way.
struct Setter<'a> {
    now: Instant,
    host: &'a mut Host,
    stream: &'a mut Stream,
}

impl Setter<'_> {
    /// Changes the configuration of the socket and of what it has become.
    fn configure(&mut self, change: impl Fn(&mut TcpConfig)) {
        change(&mut self.stream.config);
        match self.stream.phase {
            Phase::Connection(id) => {
                self.host.with_tcp(self.now, id, |tcp, _| change(tcp.config_mut()));
            }
            Phase::Listener(id) => {
                if let Some(config) = self.host.tcp_listener_config_mut(id) {
                    change(config);
                }
            }
            Phase::Fresh | Phase::Deferred(_) => {}
        }
    }

    /// Does something to the connection, if there is one.
    fn with_tcp(&mut self, act: impl FnOnce(&mut Connection, &mut crate::tcp::Cx<'_>)) {
        if let Some(id) = self.stream.connection() {
            self.host.with_tcp(self.now, id, act);
        }
    }

    fn is_open(&self) -> bool {
        !matches!(self.stream.phase, Phase::Fresh | Phase::Listener(_))
    }

    fn keep(&mut self, level: i32, name: i32, value: i64) -> Result<(), Errno> {
        if !KEPT.contains(&(level, name)) {
            return Err(Errno::ENOPROTOOPT);
        }
        self.stream.options.kept.insert((level, name), value);
        Ok(())
    }

    fn socket(&mut self, name: i32, value: i64) -> Result<(), Errno> {
        let on = value != 0;
        match name {
            SO_REUSEADDR => self.stream.options.reuse_address = on,
            SO_REUSEPORT => self.stream.options.reuse_port = on,
            SO_SNDBUF => self.send_buffer(value.clamp(0, BUFFER_MAX)),
            SO_SNDBUFFORCE => self.send_buffer(value.clamp(0, i64::from(i32::MAX / 2))),
            SO_RCVBUF => self.receive_buffer(value.clamp(0, BUFFER_MAX)),
            SO_RCVBUFFORCE => self.receive_buffer(value.clamp(0, i64::from(i32::MAX / 2))),
            SO_KEEPALIVE => {
                self.configure(|config| config.keepalive = on);
                let now = self.now;
                self.with_tcp(|tcp, _| tcp.keepalive_changed(now));
            }
            SO_OOBINLINE => self.configure(|config| config.socket.oob_inline = on),
            SO_PRIORITY => self.configure(|config| config.priority = value as u32),
            SO_MARK => self.configure(|config| config.mark = value as u32),
            SO_RCVLOWAT => self.receive_low_water(value),
            SO_ZEROCOPY if matches!(value, 0 | 1) => self.stream.options.zerocopy = on,
            SO_ZEROCOPY => return Err(Errno::EINVAL),
            SO_TIMESTAMPING => {
                let flags = value as u32;
                if flags & !0x3_ffff != 0 {
                    return Err(Errno::EINVAL);
                }
                let opt_id = flags & SOF_TIMESTAMPING_OPT_ID as u32 != 0;
                let closed = self.stream.connection().is_none();
                if opt_id && closed {
                    return Err(Errno::EINVAL);
                }
                self.stream.config.socket.timestamping = flags;
                self.with_tcp(|tcp, _| tcp.set_timestamping(flags));
            }
            SO_MAX_PACING_RATE => {
                let unlimited = value < 0 || value == i64::from(u32::MAX);
                let rate = if unlimited { u64::MAX } else { value as u64 };
                self.configure(|config| config.max_pacing_rate = rate);
                self.with_tcp(|tcp, _| tcp.pacing_changed());
            }
            SO_TYPE | SO_PROTOCOL | SO_DOMAIN | SO_ERROR | SO_ACCEPTCONN | SO_SNDLOWAT => {
                return Err(Errno::ENOPROTOOPT);
            }
            _ => return self.keep(SOL_SOCKET, name, value),
        }
        Ok(())
    }

    /// `SO_SNDBUF`: doubled, and no longer tuned.
    fn send_buffer(&mut self, value: i64) {
        let doubled = (value * 2).max(MIN_SNDBUF) as u32;
        // Zero would mean "tuned".
        self.configure(|config| config.send_buffer = (value as u32).max(1));
        self.with_tcp(|tcp, cx| {
            tcp.set_sndbuf(doubled);
            tcp.lowat_changed(cx);
        });
    }

    fn receive_buffer(&mut self, value: i64) {
        let doubled = (value * 2).max(MIN_RCVBUF) as u32;
        self.configure(|config| config.receive_buffer = (value as u32).max(1));
        self.with_tcp(|tcp, _| tcp.set_rcvbuf(doubled));
    }

    fn receive_low_water(&mut self, value: i64) {
        let value = if value < 0 { i64::from(i32::MAX) } else { value.max(1) };
        let config = &self.stream.config;
        let cap = match config.receive_buffer {
            0 => config.sysctl.tcp_rmem[2] >> 1,
            own => own,
        };
        let lowat = value.min(cap.into()) as u32;
        self.stream.options.rcvlowat = lowat;
        self.configure(|config| config.socket.rcvlowat = lowat);
    }

    fn tcp(&mut self, name: i32, value: i64) -> Result<(), Errno> {
        let on = value != 0;
        let within = |low: i64, high: i64| {
            if (low..=high).contains(&value) { Ok(()) } else { Err(Errno::EINVAL) }
        };
        match name {
            TCP_NODELAY => {
                self.configure(|config| config.nodelay = on);
                self.with_tcp(|tcp, cx| tcp.set_nodelay(on, cx));
            }
            TCP_CORK => {
                self.stream.options.kept.insert((SOL_TCP, TCP_CORK), on.into());
                self.with_tcp(|tcp, cx| tcp.set_cork(on, cx));
            }
            TCP_MAXSEG => {
                if value != 0 {
                    within(88, LARGE)?;
                }
                self.configure(|config| config.max_segment = value as u16);
            }
            TCP_KEEPIDLE => {
                within(1, LARGE)?;
                self.configure(|config| config.socket.keepalive_time_s = value as u32);
                let now = self.now;
                self.with_tcp(|tcp, _| tcp.keepalive_changed(now));
            }
            TCP_KEEPINTVL => {
                within(1, LARGE)?;
                self.configure(|config| config.socket.keepalive_intvl_s = value as u32);
            }
            TCP_KEEPCNT => {
                within(1, COUNT_MAX)?;
                self.configure(|config| config.socket.keepalive_probes = value as u8);
            }
            TCP_SYNCNT => {
                within(1, COUNT_MAX)?;
                self.configure(|config| config.socket.syn_retries = value as u8);
            }
            TCP_LINGER2 => {
                let seconds = match value {
                    ..0 => -1,
                    121.. => 0,
                    seconds => seconds as i32,
                };
                self.configure(|config| config.socket.linger2_s = seconds);
            }
            TCP_DEFER_ACCEPT => {
                let retries = retransmissions_of(value);
                self.configure(|config| config.socket.defer_accept = retries);
            }
            TCP_WINDOW_CLAMP => self.window_clamp(value)?,
            TCP_QUICKACK => self.with_tcp(|tcp, cx| tcp.set_quickack(value, cx)),
            TCP_USER_TIMEOUT => {
                within(0, i64::from(i32::MAX))?;
                self.configure(|config| config.user_timeout_ms = value as u32);
            }
            TCP_NOTSENT_LOWAT => {
                self.configure(|config| config.socket.notsent_lowat = value as u32);
                self.with_tcp(Connection::lowat_changed);
            }
            TCP_FASTOPEN => {
                if value < 0 || self.is_open() {
                    return Err(Errno::EINVAL);
                }
                self.stream.options.fast_open_limit = value as u32;
                if let Phase::Listener(id) = self.stream.phase {
                    self.host.tcp_set_fast_open(id, value as u32);
                }
            }
            TCP_FASTOPEN_CONNECT => {
                within(0, 1)?;
                if self.stream.config.sysctl.tcp_fastopen & switch::CLIENT == 0 {
                    return Err(Errno::EOPNOTSUPP);
                }
                if self.stream.phase != Phase::Fresh {
                    return Err(Errno::EINVAL);
                }
                self.stream.options.fast_open_connect = on;
            }
            TCP_FASTOPEN_NO_COOKIE => {
                within(0, 1)?;
                if self.is_open() {
                    return Err(Errno::EINVAL);
                }
                self.configure(|config| config.socket.fastopen_no_cookie = on);
            }
            TCP_INQ => {
                within(0, 1)?;
                self.stream.options.inq = on;
            }
            TCP_TX_DELAY => {
                if value < 0 {
                    return Err(Errno::EINVAL);
                }
                self.configure(|config| config.socket.tx_delay_us = value as u32);
            }
            TCP_SAVE_SYN => {
                within(0, 2)?;
                self.configure(|config| config.socket.save_syn = value as u8);
            }
            TCP_RTO_MAX_MS => {
                within(1_000, 120_000)?;
                self.configure(|config| config.socket.rto_max_ms = value as u32);
            }
            TCP_RTO_MIN_US => {
                within(1, i64::from(i32::MAX))?;
                self.configure(|config| config.socket.rto_min_us = value as u32);
            }
            TCP_DELACK_MAX_US => {
                within(1, i64::from(i32::MAX))?;
                self.configure(|config| config.socket.delack_max_us = value as u32);
            }
            TCP_REPAIR | TCP_REPAIR_QUEUE | TCP_QUEUE_SEQ | TCP_REPAIR_OPTIONS
            | TCP_REPAIR_WINDOW | TCP_TIMESTAMP => return Err(Errno::EPERM),
            _ => return self.keep(SOL_TCP, name, value),
        }
        Ok(())
    }

    fn window_clamp(&mut self, value: i64) -> Result<(), Errno> {
        if value < 0 || (value == 0 && self.is_open()) {
            return Err(Errno::EINVAL);
        }
        let clamp = if value == 0 { 0 } else { value.max(MIN_RCVBUF / 2) as u32 };
        self.configure(|config| config.socket.window_clamp = clamp);
        self.with_tcp(|tcp, _| {
            tcp.set_window_clamp(clamp);
        });
        Ok(())
    }

    fn ip(&mut self, name: i32, value: i64) -> Result<(), Errno> {
        match name {
            IP_TOS => self.configure(|config| config.tos = value as u8 & !3),
            IP_TTL => {
                if value != -1 && !(1..=255).contains(&value) {
                    return Err(Errno::EINVAL);
                }
                let ttl = if value < 0 { 0 } else { value as u8 };
                self.configure(|config| config.socket.ttl = ttl);
            }
            IP_MTU_DISCOVER => self.path_mtu_discovery(value)?,
            IP_RECVERR => self.configure(|config| config.socket.recverr = value != 0),
            IP_FREEBIND | IP_TRANSPARENT => self.stream.options.freebind = value != 0,
            _ => return self.keep(SOL_IP, name, value),
        }
        Ok(())
    }

    fn ipv6(&mut self, name: i32, value: i64) -> Result<(), Errno> {
        match name {
            IPV6_V6ONLY => {
                if self.stream.bound.is_some() || self.stream.phase != Phase::Fresh {
                    return Err(Errno::EINVAL);
                }
                self.stream.options.v6_only = value != 0;
            }
            IPV6_TCLASS => {
                if !(-1..=0xff).contains(&value) {
                    return Err(Errno::EINVAL);
                }
                let class = if value < 0 { 0 } else { value as u8 };
                self.configure(|config| config.tos = class & !3);
            }
            IPV6_UNICAST_HOPS => {
                if !(-1..=255).contains(&value) {
                    return Err(Errno::EINVAL);
                }
                let hops = if value < 0 { 0 } else { value as u8 };
                self.configure(|config| config.socket.ttl = hops);
            }
            IPV6_MTU_DISCOVER => self.path_mtu_discovery(value)?,
            IPV6_RECVERR => self.configure(|config| config.socket.recverr = value != 0),
            IPV6_FREEBIND => self.stream.options.freebind = value != 0,
            _ => return self.keep(SOL_IPV6, name, value),
        }
        Ok(())
    }

    fn path_mtu_discovery(&mut self, value: i64) -> Result<(), Errno> {
        let how = usize::try_from(value).ok().and_then(|index| PMTU.get(index));
        let how = *how.ok_or(Errno::EINVAL)?;
        self.configure(|config| config.socket.pmtu_discovery = how);
        Ok(())
    }

    fn structured(&mut self, level: i32, name: i32, value: &OptionValue) -> Result<(), Errno> {
        match (level, name, value) {
            (SOL_SOCKET, SO_LINGER, OptionValue::Linger { on, seconds }) => {
                self.stream.options.linger = on.then_some(*seconds);
            }
            (SOL_SOCKET, SO_RCVTIMEO, OptionValue::Time(span)) => {
                self.stream.options.receive_timeout = *span;
            }
            (SOL_SOCKET, SO_SNDTIMEO, OptionValue::Time(span)) => {
                self.stream.options.send_timeout = *span;
            }
            (SOL_TCP, TCP_CONGESTION, OptionValue::Text(text)) => {
                let algorithm =
                    Algorithm::by_name(text.trim_end_matches('\0')).ok_or(Errno::ENOENT)?;
                self.configure(|config| config.congestion_control = algorithm);
                let now = self.now;
                self.with_tcp(|tcp, _| tcp.set_congestion_control(algorithm, now));
            }
            (SOL_TCP, TCP_FASTOPEN_KEY, OptionValue::Bytes(bytes)) => {
                let keys = Keys::from_bytes(bytes).ok_or(Errno::EINVAL)?;
                self.configure(|config| config.socket.fastopen_key = Some(keys));
            }
            (SOL_TCP, TCP_FASTOPEN_KEY, OptionValue::Text(text)) => {
                let bytes = text.as_bytes();
                let keys = Keys::parse(text).or_else(|| Keys::from_bytes(bytes));
                let keys = keys.ok_or(Errno::EINVAL)?;
                self.configure(|config| config.socket.fastopen_key = Some(keys));
            }
            (SOL_TCP, TCP_MD5SIG | TCP_MD5SIG_EXT, OptionValue::Md5(signature)) => {
                self.md5(name, signature)?;
            }
            (SOL_TCP, TCP_ULP, OptionValue::Text(_)) => return Err(Errno::ENOENT),
            (SOL_SOCKET | SOL_TCP | SOL_IP | SOL_IPV6, ..) => return Err(Errno::EINVAL),
            _ => return Err(Errno::ENOPROTOOPT),
        }
        Ok(())
    }

    fn md5(&mut self, name: i32, signature: &Md5Signature) -> Result<(), Errno> {
        if signature.key.len() > 80 {
            return Err(Errno::EINVAL);
        }
        let network = signature.address.ip().to_canonical();
        let all = if network.is_ipv4() { 32 } else { 128 };
        let prefix_len = match signature.prefix_len {
            Some(len) if name == TCP_MD5SIG_EXT && len <= all => len,
            Some(_) if name == TCP_MD5SIG_EXT => return Err(Errno::EINVAL),
            _ => all,
        };
        let known = self
            .stream
            .config
            .socket
            .md5
            .iter()
            .any(|key| key.network == network && key.prefix_len == prefix_len);
        if signature.key.is_empty() && !known {
            return Err(Errno::ENOENT);
        }
        let key = md5::Key { network, prefix_len, secret: signature.key.clone() };
        self.configure(|config| {
            let keys = &mut config.socket.md5;
            keys.retain(|old| old.network != key.network || old.prefix_len != key.prefix_len);
            if !key.secret.is_empty() {
                keys.push(key.clone());
                // A signature is of one segment.
                config.gso_max_segs = 1;
            }
        });
        Ok(())
    }
}

/// What the numbers of `IP_MTU_DISCOVER` mean.
const PMTU: [PmtuDiscovery; 6] = [
    PmtuDiscovery::Dont,
    PmtuDiscovery::Want,
    PmtuDiscovery::Do,
    PmtuDiscovery::Probe,
    PmtuDiscovery::Interface,
    PmtuDiscovery::Omit,
];

fn kept(stream: &Stream, level: i32, name: i32) -> Result<OptionValue, Errno> {
    if !KEPT.contains(&(level, name)) {
        return Err(Errno::ENOPROTOOPT);
    }
    Ok(OptionValue::Number(stream.options.kept.get(&(level, name)).copied().unwrap_or(0)))
}

fn tcp_of<'a>(host: &'a Host, stream: &Stream) -> Option<&'a Connection> {
    host.tcp_connection(stream.connection()?)
}

fn socket_value(host: &mut Host, stream: &Stream, name: i32) -> Result<OptionValue, Errno> {
    let options = &stream.options;
    let config = &stream.config;
    let number = match name {
        SO_ERROR => {
            let error = stream.connection().and_then(|id| host.tcp_take_error(id));
            error.map_or(0, |error| Errno::from(error).number().into())
        }
        SO_REUSEADDR => options.reuse_address.into(),
        SO_REUSEPORT => options.reuse_port.into(),
        SO_SNDBUF => tcp_of(host, stream).map_or_else(
            || buffer(config.send_buffer, config.sysctl.tcp_wmem[1], MIN_SNDBUF),
            |tcp| tcp.sndbuf().into(),
        ),
        SO_RCVBUF => tcp_of(host, stream).map_or_else(
            || buffer(config.receive_buffer, config.sysctl.tcp_rmem[1], MIN_RCVBUF),
            |tcp| tcp.rcvbuf().into(),
        ),
        SO_KEEPALIVE => config.keepalive.into(),
        SO_OOBINLINE => config.socket.oob_inline.into(),
        SO_PRIORITY => config.priority.into(),
        SO_MARK => config.mark.into(),
        SO_RCVLOWAT => options.rcvlowat.into(),
        SO_SNDLOWAT => 1,
        SO_ZEROCOPY => options.zerocopy.into(),
        SO_TIMESTAMPING => config.socket.timestamping.into(),
        SO_MAX_PACING_RATE => match config.max_pacing_rate {
            u64::MAX => -1,
            rate => rate as i64,
        },
        SO_TYPE => SOCK_STREAM.into(),
        SO_PROTOCOL => IPPROTO_TCP.into(),
        SO_DOMAIN => i64::from(if stream.ipv6 { AF_INET6 } else { AF_INET }),
        SO_ACCEPTCONN => matches!(stream.phase, Phase::Listener(_)).into(),
        SO_COOKIE => stream.host_socket().map_or(0, |id| i64::from(id) + 1),
        SO_LINGER => {
            return Ok(OptionValue::Linger {
                on: options.linger.is_some(),
                seconds: options.linger.unwrap_or(0),
            });
        }
        SO_RCVTIMEO => return Ok(OptionValue::Time(options.receive_timeout)),
        SO_SNDTIMEO => return Ok(OptionValue::Time(options.send_timeout)),
        SO_MEMINFO => return Ok(OptionValue::MemInfo(memory(host, stream))),
        _ => return kept(stream, SOL_SOCKET, name),
    };
    Ok(OptionValue::Number(number))
}

/// A buffer's size before there is a connection.
fn buffer(given: u32, default: u32, least: i64) -> i64 {
    if given == 0 { default.into() } else { (i64::from(given) * 2).max(least) }
}

/// `SO_MEMINFO` (`sk_get_meminfo`).
fn memory(host: &Host, stream: &Stream) -> [u32; 9] {
    let mut memory = [0; 9];
    let config = &stream.config;
    memory[1] = buffer(config.receive_buffer, config.sysctl.tcp_rmem[1], MIN_RCVBUF) as u32;
    memory[3] = buffer(config.send_buffer, config.sysctl.tcp_wmem[1], MIN_SNDBUF) as u32;
    if let Some(tcp) = tcp_of(host, stream) {
        memory[0] = tcp.rmem_alloc();
        memory[1] = tcp.rcvbuf();
        memory[2] = tcp.wmem_alloc();
        memory[3] = tcp.sndbuf();
        memory[5] = tcp.wmem_queued();
    }
    memory
}

fn tcp_value(
    now: Instant,
    host: &mut Host,
    stream: &Stream,
    name: i32,
) -> Result<OptionValue, Errno> {
    let config = &stream.config;
    let own = &config.socket;
    let sysctl = &config.sysctl;
    let tcp = tcp_of(host, stream);
    let or = |own: u32, default: u32| i64::from(if own == 0 { default } else { own });
    let number = match name {
        TCP_NODELAY => config.nodelay.into(),
        TCP_CORK => match tcp {
            Some(tcp) => tcp.is_corked().into(),
            None => stream.options.kept.get(&(SOL_TCP, TCP_CORK)).copied().unwrap_or(0),
        },
        TCP_MAXSEG => match (tcp, config.max_segment) {
            (Some(tcp), _) => tcp.mss().into(),
            (None, 0) => MSS_DEFAULT,
            (None, own) => own.into(),
        },
        TCP_KEEPIDLE => or(own.keepalive_time_s, sysctl.tcp_keepalive_time),
        TCP_KEEPINTVL => or(own.keepalive_intvl_s, sysctl.tcp_keepalive_intvl),
        TCP_KEEPCNT => or(own.keepalive_probes.into(), sysctl.tcp_keepalive_probes),
        TCP_SYNCNT => or(own.syn_retries.into(), sysctl.tcp_syn_retries),
        TCP_LINGER2 => match own.linger2_s {
            0 => sysctl.tcp_fin_timeout.into(),
            own => own.into(),
        },
        TCP_DEFER_ACCEPT => seconds_of(own.defer_accept),
        TCP_WINDOW_CLAMP => tcp.map_or(own.window_clamp, Connection::window_clamp).into(),
        TCP_QUICKACK => tcp.is_none_or(Connection::is_quick).into(),
        TCP_USER_TIMEOUT => config.user_timeout_ms.into(),
        TCP_NOTSENT_LOWAT => i64::from(own.notsent_lowat as i32),
        TCP_FASTOPEN => match stream.phase {
            Phase::Listener(id) => {
                host.tcp_listener(id).map_or(0, |listener| listener.fast_open_limit().into())
            }
            _ => stream.options.fast_open_limit.into(),
        },
        TCP_FASTOPEN_CONNECT => stream.options.fast_open_connect.into(),
        TCP_FASTOPEN_NO_COOKIE => own.fastopen_no_cookie.into(),
        TCP_FASTOPEN_KEY => {
            let keys = own.fastopen_key.unwrap_or(sysctl.tcp_fastopen_key);
            return Ok(OptionValue::Bytes(keys.to_bytes()));
        }
        TCP_INQ => stream.options.inq.into(),
        TCP_TX_DELAY => own.tx_delay_us.into(),
        TCP_SAVE_SYN => own.save_syn.into(),
        TCP_SAVED_SYN => {
            let id = stream.connection();
            let syn = id.and_then(|id| host.with_tcp(now, id, |tcp, _| tcp.take_saved_syn()));
            return Ok(OptionValue::Bytes(syn.unwrap_or_default()));
        }
        TCP_RTO_MAX_MS => or(own.rto_max_ms, sysctl.tcp_rto_max_ms),
        TCP_RTO_MIN_US => or(own.rto_min_us, sysctl.tcp_rto_min_us),
        TCP_DELACK_MAX_US => or(own.delack_max_us, 200_000),
        TCP_REPAIR => 0,
        TCP_TIMESTAMP => tcp.map_or(now.as_millis() as u32, |tcp| tcp.timestamp(now)).into(),
        TCP_CONGESTION => {
            return Ok(OptionValue::Text(config.congestion_control.name().to_owned()));
        }
        TCP_INFO => {
            let mut info = match tcp {
                Some(tcp) => tcp.info(now),
                None => TcpInfo::of_closed(config, now),
            };
            if let Phase::Listener(id) = stream.phase
                && let Some(listener) = host.tcp_listener(id)
            {
                info.state = State::Listen;
                (info.unacked, info.sacked) = listener.backlog();
            }
            return Ok(OptionValue::TcpInfo(Box::new(info)));
        }
        TCP_CC_INFO => {
            let info = tcp.and_then(|tcp| tcp.cc_info(now)).map_or(CcInfo::None, CcInfo::from);
            return Ok(OptionValue::CcInfo(info));
        }
        _ => return kept(stream, SOL_TCP, name),
    };
    Ok(OptionValue::Number(number))
}

fn ip_value(host: &Host, stream: &Stream, name: i32) -> Result<OptionValue, Errno> {
    let config = &stream.config;
    let number = match name {
        IP_TOS => i64::from(tcp_of(host, stream).map_or(config.tos, |tcp| tcp.config().tos)),
        IP_TTL => i64::from(if config.socket.ttl == 0 { 64 } else { config.socket.ttl }),
        IP_MTU_DISCOVER => pmtu_number(config.socket.pmtu_discovery),
        IP_RECVERR => config.socket.recverr.into(),
        IP_FREEBIND | IP_TRANSPARENT => stream.options.freebind.into(),
        IP_MTU => tcp_of(host, stream).ok_or(Errno::ENOTCONN)?.path_mtu().into(),
        _ => return kept(stream, SOL_IP, name),
    };
    Ok(OptionValue::Number(number))
}

fn ipv6_value(host: &Host, stream: &Stream, name: i32) -> Result<OptionValue, Errno> {
    let config = &stream.config;
    let number = match name {
        IPV6_V6ONLY => stream.options.v6_only.into(),
        IPV6_TCLASS => config.tos.into(),
        IPV6_UNICAST_HOPS => i64::from(if config.socket.ttl == 0 { 64 } else { config.socket.ttl }),
        IPV6_MTU_DISCOVER => pmtu_number(config.socket.pmtu_discovery),
        IPV6_RECVERR => config.socket.recverr.into(),
        IPV6_FREEBIND => stream.options.freebind.into(),
        IPV6_MTU => tcp_of(host, stream).ok_or(Errno::ENOTCONN)?.path_mtu().into(),
        _ => return kept(stream, SOL_IPV6, name),
    };
    Ok(OptionValue::Number(number))
}

fn pmtu_number(how: PmtuDiscovery) -> i64 {
    PMTU.iter().position(|known| *known == how).map_or(1, |index| index as i64)
}

/// `TCP_DEFER_ACCEPT` in s as SYN-ACK retransmissions (`secs_to_retrans`).
fn retransmissions_of(seconds: i64) -> u8 {
    if seconds <= 0 {
        return 0;
    }
    let (mut count, mut period, mut timeout) = (1, 1, 1);
    while seconds > period && count < 255 {
        count += 1;
        timeout = (timeout << 1).min(120);
        period += timeout;
    }
    count
}

/// And back (`retrans_to_secs`).
fn seconds_of(retransmissions: u8) -> i64 {
    let (mut period, mut timeout) = (0, 1);
    for _ in 0..retransmissions {
        period += timeout;
        timeout = (timeout << 1).min(120);
    }
    period
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deferring_is_counted_in_retransmissions() {
        for (seconds, count, back) in
            [(0, 0, 0), (1, 1, 1), (2, 2, 3), (3, 2, 3), (4, 3, 7), (60, 6, 63)]
        {
            assert_eq!(retransmissions_of(seconds), count, "{seconds} s");
            assert_eq!(seconds_of(count), back, "{seconds} s");
        }
    }
}
