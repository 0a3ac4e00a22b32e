//! UDP sockets: binding, connecting, sending, receiving (`inet_dgram_ops`, `udp_sendmsg`,
//! `udp_recvmsg`, `__ip4_datagram_connect`).

mod control;
mod options;
mod received;
mod transfer;

use super::Sockets;
use super::answer::{Data, Return, SyscallResult};
use super::argument::{Address, Message};
use super::call::{Fd, Progress, Syscall};
use super::errno::Errno;
use super::family;
#[allow(clippy::wildcard_imports, reason = "many names, each of them plain")]
use super::number::*;
use super::options::shortened;
use super::poll::{WRITABLE, udp_poll};
use super::table::File;
use crate::host::scope::rt_scope;
use crate::host::{Host, IpcmCookie, SocketError, SocketId, UdpSocket, WakeCounts};
use crate::tcp::config::PmtuDiscovery;
use crate::units::Instant;
use core::net::SocketAddr;
use core::task::Poll;
use options::Settings;

/// A UDP socket of the process.
#[derive(Clone, Debug)]
pub(super) struct DatagramSocket {
    /// `AF_INET6`.
    pub ipv6: bool,
    /// `O_NONBLOCK`.
    pub nonblocking: bool,
    /// Its number at the host, once it has a port.
    pub id: Option<SocketId>,
    /// Where `bind` has put it; IPv4-mapped addresses as IPv4.
    bound: Option<SocketAddr>,
    /// `shutdown`: reading, writing.
    shut: (bool, bool),
    /// How often that was called: each time wakes whoever waits (`inet_shutdown`).
    shutdowns: u32,
    settings: Settings,
    /// The flow label of what goes to whom it is connected to.
    flow_label: u32,
    /// What `MSG_MORE` has gathered so far; an error throws it away (`udp_flush_pending_frames`).
    corked: Option<Corked>,
}

/// A datagram that is being gathered, and whom it is for.
#[derive(Clone, Debug)]
struct Corked {
    remote: SocketAddr,
    /// What the control messages of its first piece say.
    cookie: IpcmCookie,
    bytes: u64,
    /// The bytes, up to the last that were given; empty if there are only lengths.
    content: Vec<u8>,
}

/// The longest datagram that `udp_sendmsg` looks at.
const LONGEST: u64 = 0xffff;

impl DatagramSocket {
    /// A socket that has just been opened.
    pub fn new(ipv6: bool, nonblocking: bool, pmtu: PmtuDiscovery) -> Self {
        Self {
            ipv6,
            nonblocking,
            id: None,
            bound: None,
            shut: (false, false),
            shutdowns: 0,
            settings: Settings { pmtu, ..Settings::default() },
            flow_label: 0,
            corked: None,
        }
    }

    fn any(&self) -> SocketAddr {
        family::any(self.ipv6)
    }

    fn address(&self, address: Address) -> Result<SocketAddr, Errno> {
        family::of_argument(address, self.ipv6, self.settings.v6_only)
    }

    fn shown(&self, address: SocketAddr) -> SocketAddr {
        family::shown(address, self.ipv6)
    }

    /// The flow label of what goes to this address: it is told with it, if that is asked for (`IPV6_FLOWINFO_SEND`);
    /// without an address that of `connect`.
    fn label(&self, address: Address) -> u32 {
        match address {
            Address::Null => self.flow_label,
            Address::Inet(SocketAddr::V6(to)) if self.settings.sends_flowinfo() => to.flowinfo(),
            _ => 0,
        }
    }

    /// Gives the settings to the host's socket.
    fn apply(&self, host: &mut Host) {
        let Some(id) = self.id else { return };
        let Ok(socket) = host.udp_socket(id) else { return };
        let own = &self.settings;
        socket.receive_buffer = own.receive_buffer;
        socket.send_buffer = own.send_buffer;
        socket.tos = own.tos;
        socket.ttl = own.ttl;
        socket.hop_limit = own.hop_limit;
        socket.priority = own.priority;
        socket.pmtu_discovery = own.pmtu;
        socket.recverr = own.recverr;
        socket.ipv6 = self.ipv6.then_some(own.over_ipv6);
        socket.frag_size = own.frag_size;
        socket.mark = own.mark;
        socket.pacing_rate = own.pacing_rates.1;
        socket.v6_only = own.v6_only;
        socket.reuse_address = own.reuse_address;
        socket.reuse_port = own.reuse_port;
        let gro = own.gro();
        host.udp_set_gro(id, gro);
    }

    /// Gets a port, if it has none (`inet_autobind`).
    fn open_at(
        &mut self,
        now: Instant,
        host: &mut Host,
        local: SocketAddr,
    ) -> Result<SocketId, Errno> {
        if let Some(id) = self.id {
            if !self.has_port(host) {
                host.udp_bind_again(id, local, self.settings.sharing())?;
            }
            return Ok(id);
        }
        let sharing = self.settings.sharing();
        let id = host.udp_bind_with(now, local, sharing).map_err(|error| match error {
            SocketError::AddressNotAvailable => Errno::EAGAIN,
            other => other.into(),
        })?;
        self.id = Some(id);
        self.apply(host);
        Ok(id)
    }

    /// It has a port, which it may have given back (`udp_disconnect`).
    fn has_port(&self, host: &Host) -> bool {
        self.host_socket(host).is_some_and(|socket| socket.local.port() != 0)
    }

    /// Whom it is connected to.
    fn peer(&self, host: &Host) -> Option<SocketAddr> {
        host.udp_peer(self.id?).unwrap_or_default()
    }

    /// The error that waits to be told, once (`sock_error`).
    fn take_error(&self, host: &mut Host) -> Option<Errno> {
        host.udp_take_error(self.id?).unwrap_or_default().map(Errno::from)
    }

    fn host_socket<'a>(&self, host: &'a Host) -> Option<&'a UdpSocket> {
        host.udp(self.id?)
    }

    /// How often its waiters have been woken.
    pub fn wakes(&self, host: &Host) -> WakeCounts {
        let mut wakes =
            self.id.map(|id| host.udp_wakes(id).unwrap_or_default()).unwrap_or_default();
        wakes.state = wakes.state.wrapping_add(self.shutdowns);
        wakes
    }

    /// What it is ready for, as `EPOLL*` bits (`udp_poll`).
    pub fn readiness(&self, host: &Host) -> u32 {
        let socket = self.host_socket(host);
        let mut events = 0;
        if self.shut.0 {
            events |= EPOLLIN | EPOLLRDNORM | EPOLLRDHUP;
        }
        if self.shut == (true, true) {
            events |= EPOLLHUP;
        }
        events | socket.map_or(WRITABLE, udp_poll)
    }
}

impl Sockets {
    /// A call on a UDP socket; `None`: not one that differs from other files.
    pub(super) fn datagram_call(
        &mut self,
        now: Instant,
        host: &mut Host,
        fd: Fd,
        syscall: &Syscall,
        progress: &mut Progress,
    ) -> Option<Poll<SyscallResult>> {
        let done = match syscall {
            Syscall::Bind { address, .. } => self.bind_datagram(now, host, fd, *address),
            Syscall::Connect { address, .. } => self.connect_datagram(now, host, fd, *address),
            Syscall::Listen { .. } | Syscall::Accept { .. } => Err(Errno::EOPNOTSUPP),
            Syscall::Shutdown { how, .. } => self.shutdown_datagram(host, fd, *how),
            Syscall::LocalName { .. } => self.datagram(fd).map(|socket| {
                let local = socket.host_socket(host).map(|socket| socket.local);
                let local = local.or(socket.bound).unwrap_or(socket.any());
                let shown = if local.ip().is_unspecified() { local } else { socket.shown(local) };
                Return::zero_with(Data::Address(shown))
            }),
            Syscall::PeerName { .. } => self.datagram(fd).and_then(|socket| {
                let peer = socket.peer(host).ok_or(Errno::ENOTCONN)?;
                Ok(Return::zero_with(Data::Address(socket.shown(peer))))
            }),
            Syscall::Ioctl { request, argument, .. } => {
                self.datagram_ioctl(host, fd, *request, *argument)
            }
            Syscall::GetOption { level, name, len, .. } => self
                .datagram_option(now, host, fd, *level, *name)
                .and_then(|value| shortened(value, *level, *name, *len)),
            Syscall::SetOption { level, name, value, len, .. } => {
                self.set_datagram_option(now, host, fd, (*level, *name), value, *len)
            }
            // Nothing is asked for, so nothing is taken (`sock_read_iter`).
            Syscall::Read { iov, .. } if iov.is_empty() => {
                return Some(Poll::Ready(Ok(Return::value(0))));
            }
            Syscall::Read { iov, .. } => {
                return Some(self.receive_datagram(now, host, fd, iov, 0, progress));
            }
            Syscall::Receive { iov, flags, .. } => {
                return Some(self.receive_datagram(now, host, fd, iov, *flags, progress));
            }
            Syscall::Write { iov, .. } => {
                let message = Message { iov: iov.clone(), ..Message::default() };
                return Some(self.send_datagram(now, host, fd, &message, 0, progress));
            }
            Syscall::Send { message, flags, .. } => {
                return Some(self.send_datagram(now, host, fd, message, *flags, progress));
            }
            _ => return None,
        };
        Some(Poll::Ready(done))
    }

    fn datagram(&self, fd: Fd) -> Result<&DatagramSocket, Errno> {
        match self.file(fd)? {
            File::Datagram(socket) => Ok(socket),
            _ => Err(Errno::ENOTSOCK),
        }
    }

    fn datagram_mut(&mut self, fd: Fd) -> Result<&mut DatagramSocket, Errno> {
        match self.file_mut(fd)? {
            File::Datagram(socket) => Ok(socket),
            _ => Err(Errno::ENOTSOCK),
        }
    }

    fn bind_datagram(
        &mut self,
        now: Instant,
        host: &mut Host,
        fd: Fd,
        address: Address,
    ) -> SyscallResult {
        let socket = self.datagram_mut(fd)?;
        let local = match address {
            Address::Unspecified if !socket.ipv6 => socket.any(),
            other => family::to_bind(socket.address(other))?,
        };
        if socket.has_port(host) {
            return Err(Errno::EINVAL);
        }
        if !host.is_local_address(local.ip()) && !socket.settings.freebind() {
            return Err(Errno::EADDRNOTAVAIL);
        }
        let opened = socket.open_at(now, host, local);
        opened.map_err(|error| if error == Errno::EAGAIN { Errno::EADDRINUSE } else { error })?;
        socket.bound = Some(local);
        Ok(Return::value(0))
    }

    fn connect_datagram(
        &mut self,
        now: Instant,
        host: &mut Host,
        fd: Fd,
        address: Address,
    ) -> SyscallResult {
        let socket = self.datagram_mut(fd)?;
        if address == Address::Unspecified {
            if let Some(id) = socket.id {
                if let Some(bound) = socket.bound {
                    let port = host.udp(id).map_or(bound.port(), |it| it.local.port());
                    host.udp_disconnect(id, SocketAddr::new(bound.ip(), port))?;
                } else {
                    // A port that the socket has not asked for is given back; what waits to be read stays.
                    host.udp_unbind(id, socket.any())?;
                }
            }
            return Ok(Return::value(0));
        }
        let mut remote = socket.address(address)?;
        if remote.ip().is_unspecified() {
            remote.set_ip(host.loopback_like(remote.ip()));
        }
        let scope = rt_scope(socket.settings.dont_route());
        if host.source_within(remote.ip(), scope).is_none() {
            return Err(Errno::ENETUNREACH);
        }
        let any = socket.any();
        let id = socket.open_at(now, host, any)?;
        host.udp_connect(id, remote).map_err(Errno::from)?;
        socket.flow_label = socket.label(address);
        Ok(Return::value(0))
    }

    fn shutdown_datagram(&mut self, host: &Host, fd: Fd, how: i32) -> SyscallResult {
        let socket = self.datagram_mut(fd)?;
        let (read, write) = match how {
            SHUT_RD => (true, false),
            SHUT_WR => (false, true),
            SHUT_RDWR => (true, true),
            _ => return Err(Errno::EINVAL),
        };
        socket.shut = (socket.shut.0 || read, socket.shut.1 || write);
        socket.shutdowns = socket.shutdowns.wrapping_add(1);
        // Without a peer the call fails, and has its effect all the same.
        socket.peer(host).ok_or(Errno::ENOTCONN)?;
        Ok(Return::value(0))
    }

    fn datagram_ioctl(
        &mut self,
        host: &Host,
        fd: Fd,
        request: i32,
        argument: i32,
    ) -> SyscallResult {
        let socket = self.datagram_mut(fd)?;
        let there = socket.id.and_then(|id| host.udp(id));
        let number = match request {
            FIONBIO => {
                socket.nonblocking = argument != 0;
                return Ok(Return::value(0));
            }
            SIOCINQ => {
                there.and_then(UdpSocket::first).map_or(0, |datagram| datagram.body.len.into())
            }
            SIOCOUTQ => there.map_or(0, |socket| socket.unsent().into()),
            _ => return Err(Errno::ENOTTY),
        };
        Ok(Return::zero_with(Data::Number(number)))
    }
}
