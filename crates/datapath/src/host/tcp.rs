//! TCP at a host: sockets, demultiplexing, listeners; the seam between a host and its
//! connections (`tcp_v4_rcv`, `inet_csk_accept`, …).

mod arrive;
mod calls;
mod ends;
mod learnt;
mod lend;
mod metrics;
mod reuse;
mod sysctl;
mod table;
mod wakes;

use super::listener::Listener;
use super::{Host, Socket, SocketError, SocketId};
use crate::packet::{Meta, Packet};
use crate::prefetch::prefetch;
use crate::reason::{Enqueue, Reason};
pub use crate::tcp::TcpRead;
use crate::tcp::config::TcpConfig;
use crate::tcp::info::TcpInfo;
use crate::tcp::mib::Mib;
use crate::tcp::shared::Shared;
use crate::tcp::state::State;
use crate::tcp::{Connection, Cx, Egress, Ends, PathMtu, XmitResult};
use crate::units::Instant;
use core::net::{IpAddr, SocketAddr};
use learnt::{HostCache, Traced};
use std::sync::Arc;
use table::{ConnectionTable, Listeners};
pub use wakes::WakeCounts;

/// One TCP socket: listener or connection.
pub enum TcpSocket {
    /// Waits for connections.
    Listener(Box<Listener>),
    /// Is one.
    Connection(Box<ConnectionSocket>),
}

/// A connection and where it came from.
// What stands before the connection is needed with each of its parts: `prefetch_route`.
#[repr(C)]
pub struct ConnectionSocket {
    /// The listener that waits for it to be established; [`NO_LISTENER`] if none does.
    listener: u32,
    /// It stands in the accept queue although the handshake is not over (Fast Open).
    pub(super) queued: bool,
    /// The application has it (`sk_socket`): it has accepted or connected it.
    pub(super) accepted: bool,
    /// Segments find it (`inet_hash`).
    hashed: bool,
    /// Which state of the routes it knows.
    pub(super) routes_seen: u32,
    /// How often its waiters were woken.
    pub(super) wakes: WakeCounts,
    pub(super) connection: Connection,
}

const NO_LISTENER: u32 = u32::MAX;

impl ConnectionSocket {
    /// The listener that waits for it to be established.
    pub(super) fn listener(&self) -> Option<u32> {
        Some(self.listener).filter(|&listener| listener != NO_LISTENER)
    }

    /// No listener waits for it any more; gives the one that did.
    pub(super) fn take_listener(&mut self) -> Option<u32> {
        let before = self.listener();
        self.listener = NO_LISTENER;
        before
    }
}

/// What new sockets of a host begin with. Most hosts leave it as it is, and there may be many hosts.
#[derive(Debug)]
pub(super) struct Defaults(Arc<TcpConfig>);

impl Default for Defaults {
    fn default() -> Self {
        Self(TcpConfig::default().shared())
    }
}

impl core::ops::Deref for Defaults {
    type Target = TcpConfig;

    fn deref(&self) -> &TcpConfig {
        &self.0
    }
}

impl core::ops::DerefMut for Defaults {
    fn deref_mut(&mut self) -> &mut TcpConfig {
        Arc::make_mut(&mut self.0)
    }
}

/// What all connections of a host share.
#[derive(Debug, Default)]
pub(super) struct TcpStack {
    pub(super) mib: Mib,
    pub(super) shared: Shared,
    /// What new sockets begin with.
    pub(super) defaults: Defaults,
    /// Counts changes of the defaults.
    sysctl_version: u32,
    connections: ConnectionTable,
    /// What keys are mixed with: zero where a run must repeat.
    pub(super) secret: [u64; 2],
    pub(super) listeners: Listeners,
    /// What is told of connections, while somebody listens.
    traced: Option<Box<Traced>>,
    /// What few hosts know; made at first use.
    learnt: Option<Box<HostCache>>,
}

// Allocators have four sizes to a doubling, and there may be many hosts.
const _: () = assert!(size_of::<TcpStack>() <= 768);

impl TcpStack {
    /// The connection between these ends.
    pub(super) fn connection_between(&self, ends: &Ends) -> Option<u32> {
        self.connections.get(ends)
    }

    /// Prefetches what every segment needs.
    #[inline]
    pub(super) fn prefetch(&self) {
        prefetch(&self.mib.in_segs);
        prefetch(&self.mib.hp_acks);
        prefetch(&self.mib.delivered);
        prefetch(&self.connections);
        prefetch(&self.sysctl_version);
    }
}

impl core::fmt::Debug for TcpSocket {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Listener(listener) => write!(f, "Listener({})", listener.local),
            Self::Connection(socket) => {
                let connection = &socket.connection;
                write!(f, "Connection({} {})", connection.local(), connection.remote())
            }
        }
    }
}

impl Egress for Host {
    #[inline(never)]
    fn transmit(&mut self, now: Instant, packet: &mut Packet) -> XmitResult {
        self.orphaned = false;
        self.paced = false;
        let Meta { owner, truesize, .. } = packet.meta;
        let known = self.out.dropped.len();
        let verdict = self.ip_output_within(now, u32::MAX, packet);
        let mut no_route = false;
        if verdict != Enqueue::Queued {
            self.free_at_once(verdict, known, (owner, truesize));
            no_route =
                self.out.dropped.last().is_some_and(|(reason, _)| *reason == Reason::NoRoute);
        }
        let cut_extra = self.take_cut_extra();
        XmitResult { verdict, orphaned: self.orphaned, cut_extra, no_route, paced: self.paced }
    }

    fn learn_path_mtu(&mut self, now: Instant, remote: IpAddr, path: PathMtu) {
        self.learnt_mtu = Some(Box::new((remote, path, now)));
    }
}

impl Host {
    /// A packet that was dropped while it was handed down is not charged to its owner: its memory
    /// was freed before the call returned (`kfree_skb`). `known`: how many drops there were before.
    #[cold]
    fn free_at_once(&mut self, verdict: Enqueue, known: usize, (owner, truesize): (u32, u32)) {
        if let Some((reason, dropped)) = self.out.dropped.iter_mut().skip(known).next_back()
            && (verdict == Enqueue::Dropped || *reason == Reason::LinkDown)
            && (dropped.meta.owner, dropped.meta.truesize) == (owner, truesize)
        {
            dropped.meta.owner = Meta::NO_OWNER;
            self.orphaned = true;
        }
    }

    /// Lends a connection out for one call.
    ///
    /// # Errors
    /// It is not an open connection.
    pub fn with_tcp<R>(
        &mut self,
        now: Instant,
        id: SocketId,
        act: impl FnOnce(&mut Connection, &mut Cx<'_>) -> R,
    ) -> Result<R, SocketError> {
        let slot = self.sockets.slot(id)?;
        self.with_connection(now, slot, act).ok_or(SocketError::WrongKind)
    }

    /// How often the waiters of a TCP socket have been woken.
    ///
    /// # Errors
    /// It is not an open TCP socket.
    pub fn tcp_wakes(&self, id: SocketId) -> Result<WakeCounts, SocketError> {
        match self.sockets.get(self.sockets.slot(id)?) {
            Some(Socket::Tcp(TcpSocket::Connection(socket))) => Ok(socket.wakes),
            Some(Socket::Tcp(TcpSocket::Listener(listener))) => Ok(listener.wakes),
            _ => Err(SocketError::WrongKind),
        }
    }

    /// Packet sockets have been read: they have no share in received segments any more.
    pub fn packet_sockets_read(&mut self) {
        for socket in self.sockets.iter_mut() {
            if let Socket::Tcp(TcpSocket::Connection(socket)) = socket {
                socket.connection.unshare_received();
            }
        }
    }

    /// Every TCP socket: its ends and its state (`/proc/net/tcp`). The remote end of a listener is
    /// unspecified.
    pub fn tcp_sockets(&self) -> impl Iterator<Item = (SocketAddr, SocketAddr, State)> {
        self.sockets.iter().filter_map(|socket| match socket {
            Socket::Tcp(TcpSocket::Connection(socket)) => {
                let tcp = &socket.connection;
                Some((tcp.local(), tcp.remote(), tcp.state()))
            }
            Socket::Tcp(TcpSocket::Listener(listener)) => {
                let any = SocketAddr::new(unspecified_like(listener.local.ip()), 0);
                Some((listener.local, any, State::Listen))
            }
            _ => None,
        })
    }

    /// `getsockopt(TCP_INFO)`; `None` if it is not an open connection.
    pub fn tcp_info(&self, now: Instant, id: SocketId) -> Option<TcpInfo> {
        self.tcp_connection(id).map(|tcp| tcp.info(now))
    }

    /// A connection, to look at; `None` if it is not an open one.
    pub fn tcp_connection(&self, id: SocketId) -> Option<&Connection> {
        self.connection_at(self.sockets.slot(id).ok()?)
    }

    pub(super) fn connection_at(&self, id: u32) -> Option<&Connection> {
        match self.sockets.get(id)? {
            Socket::Tcp(TcpSocket::Connection(socket)) => Some(&socket.connection),
            _ => None,
        }
    }

    /// Every connection, in the order of their numbers.
    pub fn tcp_connections(&self) -> impl Iterator<Item = &Connection> {
        (0..self.sockets.numbers()).filter_map(|id| self.connection_at(id))
    }

    /// The sockets of these.
    pub fn tcp_connection_ids(&self) -> impl Iterator<Item = SocketId> {
        let slots = 0..self.sockets.numbers();
        slots.filter(|id| self.connection_at(*id).is_some()).map(|id| self.sockets.id(id))
    }

    /// Counters of all connections that this host has had (`nstat`).
    pub fn tcp_mib(&self) -> Mib {
        self.tcp.as_ref().map(|stack| stack.mib.clone()).unwrap_or_default()
    }

    /// The same, to look at; `None` without any TCP so far.
    pub fn tcp_mib_seen(&self) -> Option<&Mib> {
        self.tcp.as_ref().map(|stack| &stack.mib)
    }

    /// Turns the event stream on or off.
    pub fn set_tracing(&mut self, on: bool) {
        let traced = &mut self.tcp_stack().traced;
        if on != traced.is_some() {
            *traced = on.then(Box::default);
        }
    }

    /// Whether the event stream is on.
    #[inline]
    fn is_traced(&self) -> bool {
        self.tcp.as_ref().is_some_and(|stack| stack.traced.is_some())
    }

    pub(super) fn tcp_timer(&mut self, now: Instant, id: u32) {
        self.with_connection(now, id, Connection::timers_fire);
    }

    pub(super) fn tcp_wfree(&mut self, now: Instant, id: u32, truesize: u32) {
        if let Some(TcpSocket::Connection(socket)) = self.tcp_socket_mut(id)
            && socket.connection.transmit_done(truesize)
        {
            self.with_connection(now, id, Connection::resume_output);
        }
    }

    pub(super) fn tcp_stack(&mut self) -> &mut TcpStack {
        self.tcp.get_or_insert_default()
    }

    pub(super) fn tcp_socket_mut(&mut self, id: u32) -> Option<&mut TcpSocket> {
        match self.sockets.get_mut(id)? {
            Socket::Tcp(socket) => Some(socket),
            _ => None,
        }
    }

    /// A number for a connection that is about to be made.
    pub(super) fn reserve_socket(&mut self, now: Instant, config: &TcpConfig) -> u32 {
        self.begin_syscall(now);
        let id = self.sockets.reserve();
        self.socket_timers.forget(id);
        self.lent_last = id;
        if config.socket.dont_route {
            self.set_local_route(id, true);
        }
        id
    }

    pub(super) fn install_connection(
        &mut self,
        id: u32,
        connection: Connection,
        listener: Option<u32>,
    ) {
        let ends = connection.ends();
        if let Some(at) = connection.wake_at() {
            self.socket_timers.arm(id, at);
        }
        let queued = connection.is_passive_fast_open();
        let hashed = connection.state() != State::Close;
        let socket = TcpSocket::Connection(Box::new(ConnectionSocket {
            connection,
            listener: listener.unwrap_or(NO_LISTENER),
            queued,
            accepted: listener.is_none(),
            hashed,
            routes_seen: self.routes_version,
            wakes: WakeCounts::default(),
        }));
        self.sockets.take_back(id, Socket::Tcp(socket));
        if hashed {
            self.tcp_stack().connections.insert(ends, id);
        }
    }

    pub(super) fn forget_connection(&mut self, id: u32) {
        let Some(connection) = self.connection_at(id) else { return };
        let ends = connection.ends();
        self.unhash(id, ends);
        self.sockets.remove(id);
        self.socket_timers.forget(id);
    }
}

/// The address that stands for all of the family of `ip`.
pub(super) fn unspecified_like(ip: IpAddr) -> IpAddr {
    match ip {
        IpAddr::V4(_) => core::net::Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => core::net::Ipv6Addr::UNSPECIFIED.into(),
    }
}
