//! A connection is lent out for one call, together with all that it needs; what the call has changed is heard when it
//! comes back.

use super::{ConnectionSocket, TcpSocket};
use crate::host::{Host, Socket};
use crate::tcp::state::State;
use crate::tcp::{Connection, Cx, Ends, Gate};
use crate::trace::{Event, EventKind};
use crate::units::Instant;

impl Host {
    /// Lends a connection out together with all that it needs, then hears what has changed.
    #[inline]
    pub(in crate::host) fn with_connection<R>(
        &mut self,
        now: Instant,
        id: u32,
        act: impl FnOnce(&mut Connection, &mut Cx<'_>) -> R,
    ) -> Option<R> {
        let mut socket = self.lend_connection(now, id)?;
        let gate = match socket.listener() {
            Some(listener) => self.gate_of(listener, &socket),
            None => Gate { accepted: socket.accepted, ..Gate::default() },
        };
        let in_handshake = socket.connection.state() == State::SynRecv;
        let mut ready = 0;
        let result = self.with_cx(now, gate, |cx| {
            let result = act(&mut socket.connection, cx);
            ready = cx.ready;
            result
        });
        self.take_connection_back(now, id, socket, in_handshake, ready);
        Some(result)
    }

    /// Takes a connection out of its place. Not in line, like its counterpart: the calls into TCP
    /// are many, and what all of them do should lie in the instruction cache once.
    #[inline(never)]
    fn lend_connection(&mut self, now: Instant, id: u32) -> Option<Box<ConnectionSocket>> {
        self.begin_syscall(now);
        self.lent_last = id;
        let mut socket = match self.sockets.lend(id)? {
            Socket::Tcp(TcpSocket::Connection(socket)) => socket,
            other => {
                self.sockets.take_back(id, other);
                return None;
            }
        };
        if socket.routes_seen != self.routes_version {
            self.on_interface_change(now, &mut socket);
        }
        Some(socket)
    }

    /// Puts a connection back and hears what a call has changed. `in_handshake`: it was in
    /// SYN-RECV before.
    #[inline(never)]
    fn take_connection_back(
        &mut self,
        now: Instant,
        id: u32,
        mut socket: Box<ConnectionSocket>,
        in_handshake: bool,
        ready: u8,
    ) {
        if socket.routes_seen != self.routes_version {
            socket.routes_seen = self.routes_version;
            self.route_again(now, &mut socket.connection);
        }
        let tcp = &socket.connection;
        tcp.check();
        if self.completes_at < Instant::FAR_FUTURE && tcp.waits_for_memory() {
            self.arm_completions();
        }
        if let Some(at) = tcp.wake_at() {
            self.socket_timers.arm(id, at);
        }
        let state = tcp.state();
        let changes = in_handshake || state == State::Close || tcp.is_dead();
        if ready != 0 {
            socket.wakes.count(ready);
            self.notify(id, ready);
        }
        if self.is_traced() {
            self.emit_probe(id, &socket.connection);
        }
        self.sockets.take_back(id, Socket::Tcp(TcpSocket::Connection(socket)));
        if changes {
            self.note_state_change(now, id, in_handshake);
        }
    }

    /// Tells the event stream where a connection stands, if it was not told so just before.
    #[cold]
    fn emit_probe(&mut self, id: u32, connection: &Connection) {
        let event = Event { socket: id, kind: EventKind::Probe(connection.probe()) };
        let Some(traced) = &mut self.tcp_stack().traced else { return };
        if traced.probed.as_ref() == Some(&event) {
            return;
        }
        traced.probed = Some(event);
        self.out.trace([event]);
    }

    /// A connection has left the handshake, or is closed, or has nothing left to do.
    #[cold]
    fn note_state_change(&mut self, now: Instant, id: u32, in_handshake: bool) {
        let Some(TcpSocket::Connection(socket)) = self.tcp_socket_mut(id) else { return };
        let tcp = &socket.connection;
        let ends = tcp.ends();
        let state = tcp.state();
        let (failed, is_dead) = (state == State::Close, tcp.is_dead());
        let queued = socket.queued;
        let left = in_handshake && state != State::SynRecv;
        let listener = if left { socket.take_listener() } else { None };
        let dead = is_dead || (failed && !queued && socket.listener().is_some());
        let unhash = failed && core::mem::take(&mut socket.hashed);
        if unhash {
            self.unhash(id, ends);
        }
        if let Some(listener) = listener {
            match (queued, failed) {
                (true, false) => self.fast_open_finished(listener),
                (true, true) => self.fast_open_failed(now, id, listener),
                (false, false) => self.request_finished(id, listener),
                (false, true) => self.request_failed(id, listener),
            }
        }
        if dead {
            self.forget_connection(id);
        }
        if let Some(listener) = listener {
            self.check_listener(listener);
        }
    }

    /// An interface has changed: the MTU of the way that a connection goes is always that of its interface
    /// (`ipv4_mtu`), so the call that begins knows it.
    #[cold]
    fn on_interface_change(&mut self, now: Instant, socket: &mut ConnectionSocket) {
        if self.ports_version.wrapping_sub(socket.routes_seen).cast_signed() > 0 {
            self.route_again(now, &mut socket.connection);
        }
    }

    /// The routes have changed: what they say about a connection's path (`__sk_dst_check`). The
    /// packets of the call that has just been made went by the old ones.
    #[cold]
    fn route_again(&mut self, now: Instant, connection: &mut Connection) {
        let ends = self.endpoints(now, connection.ends(), connection.config());
        connection.route_changed(&ends);
    }

    /// Segments do not find a closed connection any more (`inet_unhash`).
    #[cold]
    pub(super) fn unhash(&mut self, id: u32, ends: Ends) {
        let stack = self.tcp_stack();
        if stack.connections.get(&ends) == Some(id) {
            stack.connections.remove(&ends);
            if let Some(learnt) = &mut stack.learnt {
                learnt.ports_used_up = None;
            }
        }
    }

    #[inline]
    pub(in crate::host) fn with_cx<R>(
        &mut self,
        now: Instant,
        gate: Gate,
        act: impl FnOnce(&mut Cx<'_>) -> R,
    ) -> R {
        let mut stack = self.tcp.take().unwrap_or_default();
        let events = stack.traced.as_mut().map(|traced| &mut traced.events);
        let mut cx = Cx {
            now,
            egress: self,
            mib: &mut stack.mib,
            events,
            ready: 0,
            shared: &mut stack.shared,
            gate,
        };
        let result = act(&mut cx);
        if let Some(traced) = &mut stack.traced {
            self.out.trace(traced.events.drain(..));
        }
        self.tcp = Some(stack);
        if self.learnt_mtu.is_some() {
            self.keep_path_mtu();
        }
        result
    }
}
