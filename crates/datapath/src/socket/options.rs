//! `getsockopt(2)`, `setsockopt(2)`, `ioctl(2)`: which option is whose.

mod get;
mod set;
mod set_structured;
mod set_tcp;

use super::Sockets;
use super::answer::{Data, Return, SyscallResult};
use super::call::Fd;
use super::errno::Errno;
#[allow(clippy::wildcard_imports, reason = "a hundred names, each of them plain")]
use super::number::*;
use super::option::OptionValue;
use super::stream::Phase;
use super::table::File;
use crate::host::Host;
use crate::tcp::Connection;
use crate::tcp::config::TcpConfig;
use crate::tcp::state::State;
use crate::units::{Duration, Instant};
use get::{ip_value, ipv6_value, socket_value, tcp_value};
pub(super) use get::{pmtu_number, reported_linger};
use set::Setter;
pub(super) use set::{IPV6_MIN_MTU, path_mtu_discovery};
pub(super) use set_structured::LINGER_LEN;

/// Options that only the socket knows, not the connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct StreamOptions {
    /// `SO_REUSEADDR`.
    pub reuse_address: bool,
    /// `SO_REUSEPORT`.
    pub reuse_port: bool,
    /// `SO_LINGER`, s.
    pub linger: Option<u32>,
    /// The time last given with it, which stays when it is off.
    pub linger_time: u32,
    /// `SO_RCVTIMEO`; else for ever.
    pub receive_timeout: Option<Duration>,
    /// `SO_SNDTIMEO`; else for ever.
    pub send_timeout: Option<Duration>,
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
    /// Segments that the connection had sent when its route was forgotten: none is known until it sends more
    /// (`sk_dst_reset`).
    pub route_forgotten_at: Option<u32>,
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
            linger_time: 0,
            receive_timeout: None,
            send_timeout: None,
            rcvlowat: 1,
            inq: false,
            fast_open_connect: false,
            fast_open_limit: 0,
            v6_only: false,
            freebind: false,
            zerocopy: false,
            route_forgotten_at: None,
            kept: std::collections::BTreeMap::new(),
        }
    }

    /// `SO_DONTROUTE`.
    pub fn dont_route(&self) -> bool {
        self.kept.get(&(SOL_SOCKET, SO_DONTROUTE)).is_some_and(|on| *on != 0)
    }
}

/// What is kept of an option's value, and which are taken.
#[derive(Clone, Copy)]
pub(super) enum StoredValue {
    Number,
    /// Whether it is on.
    Switch,
    /// 0 or 1.
    Bit,
    /// 0 to 255.
    Byte,
    /// 0 to 255, or -1 for 1.
    Hops,
    /// 0 and more.
    Positive,
}

impl StoredValue {
    /// What is kept of a value.
    pub fn of(self, value: i64) -> Result<i64, Errno> {
        let taken = match self {
            Self::Number => true,
            Self::Switch => return Ok((value != 0).into()),
            Self::Hops if value == -1 => return Ok(1),
            Self::Bit => (0..=1).contains(&value),
            Self::Byte | Self::Hops => (0..=255).contains(&value),
            Self::Positive => value >= 0,
        };
        if taken { Ok(value) } else { Err(Errno::EINVAL) }
    }
}

/// Options of streams that can be set and read back, and but for `SO_DONTROUTE` change nothing in this world.
const KEPT_OF_STREAMS: [((i32, i32), StoredValue); 17] = [
    ((SOL_SOCKET, SO_DEBUG), StoredValue::Switch),
    ((SOL_SOCKET, SO_DONTROUTE), StoredValue::Switch),
    ((SOL_SOCKET, SO_BROADCAST), StoredValue::Switch),
    ((SOL_SOCKET, SO_RXQ_OVFL), StoredValue::Switch),
    ((SOL_SOCKET, SO_TIMESTAMP), StoredValue::Switch),
    ((SOL_SOCKET, SO_TIMESTAMPNS), StoredValue::Switch),
    ((SOL_SOCKET, SO_BUSY_POLL), StoredValue::Number),
    ((SOL_SOCKET, SO_INCOMING_CPU), StoredValue::Number),
    ((SOL_IP, IP_RECVTTL), StoredValue::Switch),
    ((SOL_IP, IP_RECVTOS), StoredValue::Switch),
    ((SOL_IP, IP_RECVOPTS), StoredValue::Switch),
    ((SOL_IP, IP_PKTINFO), StoredValue::Switch),
    ((SOL_IP, IP_BIND_ADDRESS_NO_PORT), StoredValue::Switch),
    ((SOL_IP, IP_LOCAL_PORT_RANGE), StoredValue::Number),
    ((SOL_IPV6, IPV6_RECVTCLASS), StoredValue::Switch),
    ((SOL_IPV6, IPV6_FLOWINFO_SEND), StoredValue::Switch),
    ((SOL_SOCKET, SO_NO_CHECK), StoredValue::Switch),
];

/// What is kept of an option that means nothing here; `None` if it is not one.
fn stored(level: i32, name: i32) -> Option<StoredValue> {
    KEPT_OF_STREAMS.iter().find(|(option, _)| *option == (level, name)).map(|(_, kept)| *kept)
}

/// What `getsockopt` writes of a value into room for so many bytes: of an `int` the lower ones, at
/// `SOL_IP` a single one if that is enough.
pub(super) fn shortened(value: Return, level: i32, name: i32, len: u32) -> SyscallResult {
    if (level, name) == (SOL_SOCKET, SO_COOKIE) && len < 8 {
        return Err(Errno::EINVAL);
    }
    let Some(number) = value.option_number() else { return Ok(value) };
    let written = match len {
        0 => return Ok(Return::value(0)),
        1..=3 if level == SOL_IP && (0..=255).contains(&number) => number,
        1..=3 => number & ((1 << (8 * len)) - 1),
        _ => return Ok(value),
    };
    Ok(Return::zero_with(Data::Option(OptionValue::Number(written))))
}

/// What `setsockopt` reads of a number that so many bytes are given of: of less than an `int` at `SOL_IP` one byte, and
/// nothing as 0 (`do_ip_setsockopt`).
pub(super) fn number_of_length(level: i32, number: i64, len: u32) -> Result<i64, Errno> {
    match len {
        0 if level == SOL_IP => Ok(0),
        1..=3 if level == SOL_IP => Ok(number & 0xff),
        0..=3 => Err(Errno::EINVAL),
        _ => Ok(number),
    }
}

/// The state of the socket of a connection, or of one that is over. What is in TIME-WAIT is another socket; this one
/// is closed (`tcp_time_wait`).
fn state_of(connection: Option<&Connection>) -> State {
    match connection.map_or(State::Close, Connection::state) {
        State::TimeWait => State::Close,
        state => state,
    }
}

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
    ) -> SyscallResult {
        let stream = self.stream_mut(fd)?;
        match value {
            OptionValue::Fault => return Err(Errno::EFAULT),
            OptionValue::Number(number) => {
                let number = number_of_length(level, *number, len)?;
                let mut set = Setter { now, host, stream };
                match level {
                    SOL_SOCKET => set.socket(name, number),
                    SOL_TCP => set.tcp(name, number),
                    SOL_IP => set.ip(name, number),
                    SOL_IPV6 if set.stream.ipv6 => set.ipv6(name, number),
                    _ => Err(Errno::ENOPROTOOPT),
                }
            }
            _ => Setter { now, host, stream }.structured(level, name, value, len),
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
    ) -> SyscallResult {
        let stream = self.stream_mut(fd)?;
        if (level, name) == (SOL_SOCKET, SO_ERROR)
            && let Some(error) = stream.leftover.take()
        {
            let number = OptionValue::Number(error.number().into());
            return Ok(Return::zero_with(Data::Option(number)));
        }
        let value = match level {
            SOL_SOCKET => socket_value(host, stream, name)?,
            SOL_TCP => tcp_value(now, host, stream, name)?,
            SOL_IP => ip_value(now, host, stream, name)?,
            SOL_IPV6 if stream.ipv6 => ipv6_value(now, host, stream, name)?,
            _ if stream.ipv6 => return Err(Errno::ENOPROTOOPT),
            _ => return Err(Errno::EOPNOTSUPP),
        };
        Ok(Return::zero_with(Data::Option(value)))
    }

    /// `ioctl(2)`.
    pub(super) fn ioctl(
        &mut self,
        host: &Host,
        fd: Fd,
        request: i32,
        argument: i32,
    ) -> SyscallResult {
        let disk = &self.disk;
        let file = self.files.get_mut(fd as usize).and_then(Option::as_mut);
        let stream = match file.ok_or(Errno::EBADF)? {
            File::Stream(stream) => stream,
            File::Disk(file) if request == FIONREAD => {
                let unread = Data::Number(file.unread(disk));
                return Ok(Return::zero_with(unread));
            }
            File::Disk(file) if request == FIONBIO => {
                file.set_nonblocking(argument != 0);
                return Ok(Return::value(0));
            }
            File::Standard | File::Epoll(_) if request == FIONBIO => return Ok(Return::value(0)),
            &mut File::Pipe(pipe, _) if request == FIONREAD => {
                let bytes = self.pipes[pipe].bytes();
                return Ok(Return::zero_with(Data::Number(bytes as i64)));
            }
            &mut File::Pipe(pipe, end) if request == FIONBIO => {
                self.pipes[pipe].set_nonblocking(end, argument != 0);
                return Ok(Return::value(0));
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
