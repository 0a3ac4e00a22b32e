//! Listening sockets: half-open connections, the accept queue, Fast Open and SYN cookies
//! (`inet_csk_listen_start`, `tcp_conn_request`, `inet_csk_accept`).

mod syn;

use super::tcp::{ConnectionSocket, TcpSocket, WakeCounts, unspecified_like};
use super::{Host, Socket, SocketError, SocketId};
use crate::node::SocketReady;
use crate::tcp::config::TcpConfig;
use crate::tcp::fastopen::switch;
use crate::tcp::{Connection, Gate};
use crate::units::{Duration, Instant};
use core::net::SocketAddr;
use std::collections::VecDeque;
use std::sync::Arc;

/// `net.core.somaxconn`.
pub const SOMAXCONN: u32 = 4_096;
/// At hosts with more sockets a listener's books are not recomputed.
const MOST_CHECKED: u32 = 256;
/// How long a Fast Open that was reset after it had been accepted counts on.
const RESET_COUNTS: Duration = Duration::from_secs(60);

/// A listening socket.
#[derive(Debug)]
pub struct Listener {
    pub(super) local: SocketAddr,
    pub(super) config: Arc<TcpConfig>,
    /// Established, waiting for accept.
    queue: VecDeque<u32>,
    /// In the handshake (`reqsk_queue_len`).
    half_open: u32,
    /// Connections that may wait (`sk_max_ack_backlog`).
    backlog: u32,
    /// Fast Open (`struct fastopen_queue`).
    fast_open: FastOpenQueue,
    /// When SYN cookies were last sent.
    cookies_sent_at: Option<Instant>,
    pub(super) wakes: WakeCounts,
    /// IPv4 peers are not taken (`IPV6_V6ONLY`).
    v6_only: bool,
}

/// How many Fast Opens may be unfinished, and are.
#[derive(Debug, Default)]
struct FastOpenQueue {
    max: u32,
    unfinished: u32,
    /// Until when each of those that were reset counts as unfinished.
    resets: VecDeque<Instant>,
}

impl FastOpenQueue {
    /// Whether there is room for one more (`tcp_fastopen_queue_check`).
    fn has_room(&mut self, now: Instant) -> bool {
        if self.unfinished < self.max {
            return self.max > 0;
        }
        match self.resets.front() {
            Some(&until) if until <= now && self.max > 0 => {
                self.resets.pop_front();
                self.unfinished = self.unfinished.saturating_sub(1);
                true
            }
            _ => false,
        }
    }
}

impl Listener {
    /// No more connections may wait (`sk_acceptq_is_full`).
    fn queue_is_full(&self) -> bool {
        self.queue.len() as u64 > u64::from(self.backlog)
    }

    /// Its options.
    pub fn config(&self) -> &TcpConfig {
        &self.config
    }

    /// Where it listens.
    pub fn local(&self) -> SocketAddr {
        self.local
    }

    /// A connection waits to be accepted.
    pub fn is_ready(&self) -> bool {
        !self.queue.is_empty()
    }

    /// Connections that wait, and how many may.
    pub fn backlog(&self) -> (u32, u32) {
        (self.queue.len() as u32, self.backlog)
    }

    /// How many Fast Opens may be unfinished (`TCP_FASTOPEN`).
    pub fn fast_open_limit(&self) -> u32 {
        self.fast_open.max
    }
}

impl Host {
    /// Listens at `local` (`listen(2)`). An unspecified address listens at all.
    pub fn tcp_listen(&mut self, now: Instant, local: SocketAddr, config: &TcpConfig) -> SocketId {
        self.tcp_listen_with(now, local, config, SOMAXCONN, 0, false)
    }

    /// Listens with room for `backlog` connections that wait for accept, and for `fast_open`
    /// unfinished Fast Opens (`TCP_FASTOPEN`). `v6_only`: not for IPv4 peers.
    pub fn tcp_listen_with(
        &mut self,
        now: Instant,
        local: SocketAddr,
        config: &TcpConfig,
        backlog: u32,
        fast_open: u32,
        v6_only: bool,
    ) -> SocketId {
        self.begin_syscall(now);
        let listener = Listener {
            local,
            config: config.clone().shared(),
            queue: VecDeque::new(),
            half_open: 0,
            backlog: 0,
            fast_open: FastOpenQueue { max: fast_open, ..FastOpenQueue::default() },
            cookies_sent_at: None,
            wakes: WakeCounts::default(),
            v6_only,
        };
        let socket = TcpSocket::Listener(Box::new(listener));
        let id = self.sockets.insert(Socket::Tcp(socket));
        self.tcp_stack().listeners.insert((local.port(), local.ip()), id);
        self.set_backlog(id, backlog);
        self.sockets.id(id)
    }

    /// `listen(2)` again: another backlog. Fast Open begins by itself if the sysctl says so.
    ///
    /// # Errors
    /// It is not an open listener.
    pub fn tcp_set_backlog(&mut self, id: SocketId, backlog: u32) -> Result<(), SocketError> {
        let slot = self.sockets.slot(id)?;
        self.tcp_listener_mut(slot).ok_or(SocketError::WrongKind)?;
        self.set_backlog(slot, backlog);
        Ok(())
    }

    fn set_backlog(&mut self, id: u32, backlog: u32) {
        let Some(listener) = self.tcp_listener_mut(id) else { return };
        listener.backlog = backlog.min(SOMAXCONN);
        let everywhere = switch::SERVER | switch::EVERY_LISTENER;
        let on = listener.config.sysctl.tcp_fastopen & everywhere == everywhere;
        if on && listener.fast_open.max == 0 {
            listener.fast_open.max = listener.backlog;
        }
    }

    /// `setsockopt(TCP_FASTOPEN)` of a listener.
    ///
    /// # Errors
    /// It is not an open listener.
    pub fn tcp_set_fast_open(&mut self, id: SocketId, limit: u32) -> Result<(), SocketError> {
        let slot = self.sockets.slot(id)?;
        let listener = self.tcp_listener_mut(slot).ok_or(SocketError::WrongKind)?;
        listener.fast_open.max = limit.min(SOMAXCONN);
        Ok(())
    }

    /// A listener, to look at; `None` if it is not an open one.
    pub fn tcp_listener(&self, id: SocketId) -> Option<&Listener> {
        self.listener_at(self.sockets.slot(id).ok()?)
    }

    pub(super) fn listener_at(&self, id: u32) -> Option<&Listener> {
        match self.sockets.get(id)? {
            Socket::Tcp(TcpSocket::Listener(listener)) => Some(listener),
            _ => None,
        }
    }

    /// Changes the options of a listener: connections get them, also those that are in the handshake (`sk_clone` in
    /// `tcp_v4_syn_recv_sock`).
    ///
    /// # Errors
    /// It is not an open listener.
    pub fn tcp_configure_listener(
        &mut self,
        id: SocketId,
        change: impl Fn(&mut TcpConfig),
    ) -> Result<(), SocketError> {
        let slot = self.sockets.slot(id)?;
        let listener = self.tcp_listener_mut(slot).ok_or(SocketError::WrongKind)?;
        change(Arc::make_mut(&mut listener.config));
        for request in self.sockets.half_open_of(slot) {
            if let Some(TcpSocket::Connection(socket)) = self.tcp_socket_mut(request) {
                socket.connection.listener_changed(&change);
            }
        }
        Ok(())
    }

    fn tcp_listener_mut(&mut self, id: u32) -> Option<&mut Listener> {
        match self.tcp_socket_mut(id)? {
            TcpSocket::Listener(listener) => Some(listener),
            TcpSocket::Connection(_) => None,
        }
    }

    /// The next connection of a listener (`accept(2)`); `None` if there is none.
    ///
    /// # Errors
    /// It is not an open listener.
    pub fn tcp_accept(&mut self, listener: SocketId) -> Result<Option<SocketId>, SocketError> {
        let slot = self.sockets.slot(listener)?;
        let listener = self.tcp_listener_mut(slot).ok_or(SocketError::WrongKind)?;
        let Some(id) = listener.queue.pop_front() else { return Ok(None) };
        if let Some(TcpSocket::Connection(socket)) = self.tcp_socket_mut(id) {
            socket.accepted = true;
        }
        Ok(Some(self.sockets.id(id)))
    }

    /// Who listens for `local`: at the address, at all of its family, or at all of both
    /// (`__inet_lookup_listener`).
    pub(super) fn listener_for(&mut self, local: SocketAddr) -> Option<u32> {
        let listeners = &self.tcp_stack().listeners;
        let port = local.port();
        let of_family = listeners
            .get((port, local.ip()))
            .or_else(|| listeners.get((port, unspecified_like(local.ip()))));
        if of_family.is_some() || !local.is_ipv4() {
            return of_family;
        }
        let any = core::net::Ipv6Addr::UNSPECIFIED.into();
        let both = listeners.get((port, any))?;
        self.listener_at(both).filter(|listener| !listener.v6_only).map(|_| both)
    }

    /// The listener's decisions for one of its connections in the handshake.
    #[inline(never)]
    pub(super) fn gate_of(&self, listener: u32, socket: &ConnectionSocket) -> Gate {
        let Some(state) = self.listener_at(listener) else { return Gate::default() };
        Gate {
            full: state.queue_is_full(),
            abort: state.config.sysctl.tcp_abort_on_overflow != 0,
            unreachable: self.is_out_of_scope(&state.config, socket.connection.ends().remote.ip()),
            accepted: socket.accepted,
            request: !socket.queued,
            cookie: false,
        }
    }

    /// A half-open connection is established: it waits to be accepted (`inet_csk_complete_hashdance`).
    pub(super) fn request_finished(&mut self, id: u32, listener: u32) {
        let Some(state) = self.tcp_listener_mut(listener) else { return };
        state.half_open = state.half_open.saturating_sub(1);
        self.queue_connection(listener, id);
    }

    /// A half-open connection has come to nothing (`inet_csk_reqsk_queue_drop`).
    pub(super) fn request_failed(&mut self, id: u32, listener: u32) {
        let Some(state) = self.tcp_listener_mut(listener) else { return };
        state.half_open = state.half_open.saturating_sub(1);
        self.forget_connection(id);
    }

    /// The handshake of a Fast Open, which waits to be accepted or was, is over (`reqsk_fastopen_remove`).
    pub(super) fn fast_open_finished(&mut self, listener: u32) {
        let Some(state) = self.tcp_listener_mut(listener) else { return };
        state.fast_open.unfinished = state.fast_open.unfinished.saturating_sub(1);
    }

    /// It has failed. A connection that was already accepted keeps counting for a while: a simple defence against
    /// spoofed SYNs with stolen cookies.
    pub(super) fn fast_open_failed(&mut self, now: Instant, id: u32, listener: u32) {
        let accepted = match self.sockets.get(id) {
            Some(Socket::Tcp(TcpSocket::Connection(socket))) => socket.accepted,
            _ => false,
        };
        if !accepted {
            return self.fast_open_finished(listener);
        }
        if let Some(state) = self.tcp_listener_mut(listener) {
            state.fast_open.resets.push_back(now + RESET_COUNTS);
        }
    }

    fn queue_connection(&mut self, listener: u32, id: u32) {
        if let Some(TcpSocket::Connection(socket)) = self.tcp_socket_mut(id) {
            socket.connection.reset_priority();
        }
        let Some(state) = self.tcp_listener_mut(listener) else { return };
        state.queue.push_back(id);
        state.wakes.read += 1;
        self.notify(listener, SocketReady::READABLE);
    }

    /// Closes a listener: connections that wait are reset, half-open ones forgotten
    /// (`inet_csk_listen_stop`).
    pub(super) fn close_listener(&mut self, now: Instant, id: u32) {
        let Some(listener) = self.tcp_listener_mut(id) else { return };
        let key = (listener.local.port(), listener.local.ip());
        let waiting = core::mem::take(&mut listener.queue);
        let stack = self.tcp_stack();
        if stack.listeners.get(key) == Some(id) {
            stack.listeners.remove(key);
        }
        self.sockets.remove(id);
        for connection in waiting {
            self.with_connection(now, connection, Connection::abort);
        }
        for connection in self.sockets.half_open_of(id) {
            self.forget_connection(connection);
        }
        // Who was accepted before the end of the handshake goes on alone: the number may be
        // another listener's soon.
        for socket in self.sockets.iter_mut() {
            if let Socket::Tcp(TcpSocket::Connection(socket)) = socket
                && socket.listener() == Some(id)
            {
                socket.take_listener();
            }
        }
    }

    /// Checks a listener's counts against its connections: how many are in the handshake, and which wait to
    /// be accepted (`reqsk_queue_len`, `sk_ack_backlog`).
    pub(super) fn check_listener(&self, id: u32) {
        if !cfg!(debug_assertions) || self.sockets.numbers() > MOST_CHECKED {
            return;
        }
        let Some(listener) = self.listener_at(id) else { return };
        let of_it = |socket: &&Socket| match socket {
            Socket::Tcp(TcpSocket::Connection(socket)) => socket.listener() == Some(id),
            _ => false,
        };
        let is_queued = |socket: &Socket| match socket {
            Socket::Tcp(TcpSocket::Connection(socket)) => socket.queued,
            _ => false,
        };
        let (fast, half): (Vec<&Socket>, Vec<&Socket>) =
            self.sockets.iter().filter(of_it).partition(|socket| is_queued(socket));
        assert_eq!(listener.half_open as usize, half.len(), "half-open connections of {id}");
        let unfinished = fast.len() + listener.fast_open.resets.len();
        assert_eq!(listener.fast_open.unfinished as usize, unfinished, "Fast Opens of {id}");
        for &waiting in &listener.queue {
            let there = match self.sockets.get(waiting) {
                Some(Socket::Tcp(TcpSocket::Connection(socket))) => !socket.accepted,
                _ => false,
            };
            assert!(there, "{waiting} waits to be accepted at {id}, and is no new connection");
        }
    }
}
