//! TCP sockets: opening, binding, listening, connecting, closing (`inet_stream_ops`).

mod connect;

use super::answer::{Data, Return, SyscallResult};
use super::argument::Address;
use super::call::{Fd, Progress};
use super::datagram::DatagramSocket;
use super::errno::Errno;
use super::options::StreamOptions;
use super::table::File;
use super::{Sockets, family, number};
use crate::host::{Host, SocketId, WakeCounts};
use crate::node::SocketReady;
use crate::tcp::config::{Ipv6Options, TcpConfig};
use crate::tcp::info::TcpInfo;
use crate::tcp::state::State;
use crate::tcp::{Connection, ErrorQueueEntry};
use crate::units::{Duration, Instant};
use core::net::SocketAddr;
use core::task::Poll;
use std::collections::VecDeque;

/// A TCP socket of the process.
#[derive(Clone, Debug)]
pub(super) struct Stream {
    /// `AF_INET6`.
    pub ipv6: bool,
    /// `O_NONBLOCK`.
    pub nonblocking: bool,
    /// Where it is bound; IPv4-mapped addresses as IPv4.
    pub bound: Option<SocketAddr>,
    /// Options that a connection or listener gets when there is one.
    pub config: TcpConfig,
    /// Options that only the socket knows.
    pub options: StreamOptions,
    /// What it has become.
    pub phase: Phase,
    /// `connect` has reported success (`SS_CONNECTED`).
    pub connected: bool,
    /// `shutdown` came before the connection, which is now lost (`SS_DISCONNECTING`).
    pub disconnecting: bool,
    /// What the next call is told of a connection that was given up.
    pub leftover: Option<Errno>,
    /// What the error queue held of connections that were given up (`sk_error_queue`).
    pub error_queue: VecDeque<ErrorQueueEntry>,
    /// What `TCP_INFO` tells of connections that were given up.
    pub remains: Option<Box<AfterDisconnect>>,
    /// How often it was disconnected: calls that waited then do not go on (`sk_disconnects`).
    pub disconnects: u32,
    /// What `bind` has fixed, and stays beyond a connection.
    pub fixed: Fixed,
    /// What its name was while it had another connection.
    former: Option<SocketAddr>,
    /// How often its waiters were woken while it had other numbers at the host.
    pub wakes_before: WakeCounts,
}

/// What `tcp_disconnect` leaves of a connection.
#[derive(Clone, Debug)]
pub(super) struct AfterDisconnect {
    /// What `TCP_INFO` tells of it.
    pub info: TcpInfo,
    /// The largest window that the peer offered, bytes.
    window: u32,
}

/// What `bind` has fixed (`SOCK_BINDADDR_LOCK`, `SOCK_BINDPORT_LOCK`).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Fixed {
    /// An address that is not that of all.
    pub address: bool,
    /// A port that was asked for.
    pub port: bool,
}

/// What has become of a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// Nothing yet.
    Fresh,
    /// `connect` has been called, but the SYN waits for data (`TCP_FASTOPEN_CONNECT`).
    Deferred(SocketAddr),
    /// A listener, by its number at the host.
    Listener(SocketId),
    /// A connection, by its number at the host.
    Connection(SocketId),
}

impl Stream {
    /// Its number at the host, once it has one.
    pub fn host_socket(&self) -> Option<SocketId> {
        match self.phase {
            Phase::Fresh | Phase::Deferred(_) => None,
            Phase::Listener(id) | Phase::Connection(id) => Some(id),
        }
    }

    /// How often its waiters have been woken.
    pub fn wakes(&self, host: &Host) -> WakeCounts {
        self.wakes_before
            + self
                .host_socket()
                .map(|id| host.tcp_wakes(id).unwrap_or_default())
                .unwrap_or_default()
    }

    /// It is as new, and has no number at the host any more, which wakes its waiters
    /// (`tcp_disconnect`, `inet_shutdown`). What `bind` has not fixed is given back
    /// (`inet_put_port`, `inet_bhash2_reset_saddr`).
    fn reinitialise(&mut self, now: Instant, host: &mut Host) {
        if let Some(id) = self.connection() {
            let left =
                host.with_tcp(now, id, |tcp, _| (tcp.take_notices(), tcp.info_of_remains(now)));
            if let Ok((told, (info, window))) = left {
                self.error_queue.extend(told);
                self.remains = Some(Box::new(AfterDisconnect { info, window }));
            }
        }
        if let Some(remains) = &mut self.remains {
            // Numbers go on beyond the largest window, each time (`tcp_disconnect`).
            let beyond = remains.window.wrapping_add(2);
            remains.info.notsent_bytes = remains.info.notsent_bytes.wrapping_add(beyond);
        }
        if let Some(mut local) = self.bound {
            if !self.fixed.address {
                local.set_ip(self.any().ip());
            }
            self.former = Some(local);
            if !self.fixed.port {
                local.set_port(0);
            }
            self.bound = Some(local).filter(|_| self.fixed.address || self.fixed.port);
        }
        let left = WakeCounts { state: 1, ..WakeCounts::default() };
        self.wakes_before = self.wakes(host) + left;
        self.phase = Phase::Fresh;
        let own = &self.config.socket;
        if own.shut_read || own.shut_write {
            let own = &mut self.config.socket;
            (own.shut_read, own.shut_write) = (false, false);
        }
    }

    /// A `TCP_QUICKACK` of 0 ends with what the socket has been so far (`inet_csk_delack_init`).
    pub fn clear_quickack(&mut self) {
        if self.config.socket.delays_acks {
            self.config.socket.delays_acks = false;
        }
    }

    /// Whether the socket was disconnected while this call waited (`sk_wait_event`).
    pub fn is_disconnected_under(&self, progress: &mut Progress) -> bool {
        *progress.disconnects.get_or_insert(self.disconnects) != self.disconnects
    }

    /// The connection, if it is one.
    pub fn connection(&self) -> Option<SocketId> {
        match self.phase {
            Phase::Connection(id) => Some(id),
            _ => None,
        }
    }

    /// The address of the family's `INADDR_ANY`.
    pub fn any(&self) -> SocketAddr {
        family::any(self.ipv6)
    }

    /// The address in an argument, of this socket's family; IPv4-mapped ones as IPv4.
    pub fn address(&self, address: Address) -> Result<SocketAddr, Errno> {
        if self.ipv6 && matches!(address, Address::Inet(SocketAddr::V4(_))) {
            return Err(Errno::EAFNOSUPPORT);
        }
        family::of_argument(address, self.ipv6, self.options.v6_only)
    }

    /// An address as the caller sees it: IPv4 as mapped, if the socket is IPv6.
    pub fn shown(&self, address: SocketAddr) -> SocketAddr {
        family::shown(address, self.ipv6)
    }
}

impl Sockets {
    /// `socket(2)`.
    pub(super) fn open_socket(
        &mut self,
        host: &Host,
        domain: i32,
        kind: i32,
        protocol: i32,
    ) -> SyscallResult {
        let ipv6 = match domain {
            number::AF_INET => false,
            number::AF_INET6 => true,
            _ => return Err(Errno::EAFNOSUPPORT),
        };
        let flags = number::SOCK_NONBLOCK | number::SOCK_CLOEXEC;
        let plain = kind & !flags;
        if plain & !0xf != 0 {
            return Err(Errno::EINVAL);
        }
        let nonblocking = kind & number::SOCK_NONBLOCK != 0;
        match (plain, protocol) {
            (number::SOCK_DGRAM, 0 | number::IPPROTO_UDP) => {
                let socket = DatagramSocket::new(ipv6, nonblocking, host.new_discovery());
                let fd = self.install(File::Datagram(Box::new(socket)));
                return Ok(Return::value(fd.into()));
            }
            (number::SOCK_STREAM, 0 | number::IPPROTO_TCP) => {}
            // Nobody is in the `ping_group_range` that a kernel begins with.
            (number::SOCK_DGRAM, number::IPPROTO_ICMP) if !ipv6 => return Err(Errno::EACCES),
            (number::SOCK_DGRAM, number::IPPROTO_ICMPV6) if ipv6 => return Err(Errno::EACCES),
            (number::SOCK_STREAM | number::SOCK_DGRAM, _) => return Err(Errno::EPROTONOSUPPORT),
            _ => return Err(Errno::ESOCKTNOSUPPORT),
        }
        let mut config = host.tcp_defaults();
        if ipv6 {
            config.socket.ipv6 = Some(Ipv6Options::default());
        }
        let stream = Stream {
            ipv6,
            nonblocking,
            bound: None,
            options: StreamOptions::new(&config),
            config,
            phase: Phase::Fresh,
            connected: false,
            disconnecting: false,
            leftover: None,
            error_queue: VecDeque::new(),
            remains: None,
            disconnects: 0,
            fixed: Fixed::default(),
            former: None,
            wakes_before: WakeCounts::default(),
        };
        let fd = self.install(File::Stream(Box::new(stream)));
        Ok(Return::value(fd.into()))
    }

    /// `accept4(2)`.
    pub(super) fn accept(
        &mut self,
        now: Instant,
        host: &mut Host,
        fd: Fd,
        flags: i32,
        progress: &mut Progress,
    ) -> Poll<SyscallResult> {
        self.file(fd)?;
        if flags & !(number::SOCK_NONBLOCK | number::SOCK_CLOEXEC) != 0 {
            return Poll::Ready(Err(Errno::EINVAL));
        }
        let stream = self.stream(fd)?;
        let Phase::Listener(listener) = stream.phase else {
            return Poll::Ready(Err(Errno::EINVAL));
        };
        let Some(id) = host.tcp_accept(listener).unwrap_or_default() else {
            let timeout = stream.options.receive_timeout;
            return wait(now, stream.nonblocking, timeout, Errno::EAGAIN, progress);
        };
        let peer = host.tcp_connection(id).map(|tcp| stream.shown(tcp.remote()));
        let config = host.tcp_connection(id).map(|tcp| {
            let mut config = tcp.config().clone();
            if tcp.has_ttl_of_route() {
                config.socket.ttl = stream.config.socket.ttl;
            }
            config
        });
        let accepted = Stream {
            nonblocking: flags & number::SOCK_NONBLOCK != 0,
            config: config.unwrap_or_else(|| stream.config.clone()),
            phase: Phase::Connection(id),
            connected: true,
            disconnecting: false,
            leftover: None,
            error_queue: VecDeque::new(),
            remains: None,
            disconnects: 0,
            ..stream.clone()
        };
        let fd = self.install(File::Stream(Box::new(accepted)));
        let data = peer.map_or(Data::None, Data::Address);
        Poll::Ready(Ok(Return { value: fd.into(), data }))
    }

    /// `shutdown(2)`.
    pub(super) fn shutdown(
        &mut self,
        now: Instant,
        host: &mut Host,
        fd: Fd,
        how: i32,
    ) -> SyscallResult {
        let stream = self.stream_mut(fd)?;
        let (read, write) = match how {
            number::SHUT_RD => (true, false),
            number::SHUT_WR => (false, true),
            number::SHUT_RDWR => (true, true),
            _ => return Err(Errno::EINVAL),
        };
        // Whoever waits is told each time, whatever has changed (`sk_state_change`).
        stream.wakes_before.state = stream.wakes_before.state.wrapping_add(1);
        match stream.phase {
            Phase::Fresh => {
                // It fails, and holds: for polls, reads, and what the socket becomes.
                let own = &mut stream.config.socket;
                (own.shut_read, own.shut_write) = (own.shut_read | read, own.shut_write | write);
                Err(Errno::ENOTCONN)
            }
            Phase::Deferred(_) => Err(Errno::ENOTCONN),
            Phase::Listener(id) => {
                if read {
                    stream.reinitialise(now, host);
                    host.tcp_close(now, id)?;
                }
                Ok(Return::value(0))
            }
            Phase::Connection(id) => {
                let state = host.tcp_connection(id).map_or(State::Close, Connection::state);
                if !stream.connected {
                    let early = matches!(state, State::SynSent | State::SynRecv | State::Close);
                    (stream.disconnecting, stream.connected) = (early, !early);
                }
                // What remains in TIME-WAIT is no socket any more: this one is closed (`tcp_time_wait`).
                if matches!(state, State::Close | State::TimeWait) {
                    return Err(Errno::ENOTCONN);
                }
                if state == State::SynSent {
                    stream.reinitialise(now, host);
                    host.with_tcp(now, id, Connection::disconnect)?;
                    stream.disconnecting = false;
                    stream.leftover = Some(Errno::ECONNRESET);
                    return Ok(Return::value(0));
                }
                host.with_tcp(now, id, |tcp, cx| {
                    if read {
                        tcp.shutdown_read(cx);
                    }
                    if write {
                        tcp.shutdown_write(cx);
                    }
                    cx.ready |= SocketReady::READABLE | SocketReady::WRITABLE | SocketReady::HANGUP;
                })?;
                Ok(Return::value(0))
            }
        }
    }

    /// A socket is closed: `SO_LINGER` of 0 s resets.
    pub(super) fn close_stream(now: Instant, host: &mut Host, stream: &Stream) {
        let Some(id) = stream.host_socket() else { return };
        if stream.options.linger == Some(0) && stream.connection().is_some() {
            let _ = host.with_tcp(now, id, Connection::close_hard);
        } else {
            let _ = host.tcp_close(now, id);
        }
    }

    /// `getsockname(2)`.
    pub(super) fn local_name(&self, host: &Host, fd: Fd) -> SyscallResult {
        let stream = self.stream(fd)?;
        let local = match stream.phase {
            Phase::Connection(id) => host.tcp_connection(id).map(Connection::local),
            _ => None,
        };
        let bound = stream.bound.filter(|bound| bound.port() != 0);
        let local = local.or(bound).or(stream.former).unwrap_or(stream.any());
        let shown = if local.ip().is_unspecified() { local } else { stream.shown(local) };
        Ok(Return::zero_with(Data::Address(shown)))
    }

    /// `getpeername(2)`.
    pub(super) fn peer_name(&self, host: &Host, fd: Fd) -> SyscallResult {
        let stream = self.stream(fd)?;
        let connection = stream.connection().and_then(|id| host.tcp_connection(id));
        let tcp = connection.ok_or(Errno::ENOTCONN)?;
        if matches!(tcp.state(), State::Close | State::SynSent) {
            return Err(Errno::ENOTCONN);
        }
        Ok(Return::zero_with(Data::Address(stream.shown(tcp.remote()))))
    }
}

/// A call has to wait: `error` if it must not, `EAGAIN` once its time is over. Whether and how long is
/// settled when it first has to: options that are set while it waits are for the calls to come
/// (`sock_sndtimeo`, `sock_rcvtimeo`).
pub(super) fn wait(
    now: Instant,
    nonblocking: bool,
    timeout: Option<Duration>,
    error: Errno,
    progress: &mut Progress,
) -> Poll<SyscallResult> {
    if nonblocking && progress.deadline.is_none() {
        return Poll::Ready(Err(error));
    }
    let deadline = timeout.map_or(Instant::FAR_FUTURE, |timeout| now + timeout);
    if *progress.deadline.get_or_insert(deadline) > now {
        return Poll::Pending;
    }
    let error = if error == Errno::EALREADY { Errno::EINPROGRESS } else { error };
    Poll::Ready(Err(error))
}

/// A write that has moved `bytes`, and moves no more: a zero-copy one is over, and tells of what it wrote once that
/// is gone.
pub(super) fn falls_short(
    now: Instant,
    host: &mut Host,
    id: SocketId,
    zerocopy: bool,
    bytes: u64,
) -> Poll<SyscallResult> {
    if zerocopy {
        let _ = host.with_tcp(now, id, Connection::end_zerocopy);
    }
    Poll::Ready(Ok(Return::value(bytes as i64)))
}

/// The error that ended a connection, once; a connection that the host has let go has none.
pub(super) fn take_error(host: &mut Host, id: SocketId) -> Option<Errno> {
    host.tcp_take_error(id).unwrap_or_default().map(Errno::from)
}
