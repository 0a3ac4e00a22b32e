//! Prefetches what a host will need for a packet that is about to arrive.
//!
//! Prefetching goes in steps, each of which reads only what the step before has prefetched. Memory has
//! time to respond while other packets are processed in between. Results do not depend on this.

use super::route_cache::{CachedRoute, RouteResult};
use super::tcp::{ConnectionSocket, TcpSocket};
use super::{Host, Socket, Sockets};
use crate::node::Port;
use crate::packet::{Network, Packet};
use crate::prefetch_part;
use crate::tcp::Connection;
use core::mem::offset_of;
use core::ops::Range;

/// The parts of a host (not a router) that are about to be needed, in the order of the steps.
#[derive(Clone, Copy, Debug)]
pub enum PrefetchStep<'a> {
    /// The host itself.
    Host,
    /// The port of the arrival, by which the answer usually leaves; the state shared by all connections.
    Port(Port),
    /// The parts of the connection that this packet needs.
    Connection(&'a Packet),
    /// What the connection points to, and the place for the answer.
    Rest(&'a Packet),
    /// What those point to.
    Records,
}

impl Host {
    /// Prefetches one step of what an arrival will need. Each step has a function of its own, so
    /// that there is no branch where the step is known at compile time.
    #[inline]
    pub fn prefetch(&self, ahead: PrefetchStep<'_>) {
        match ahead {
            PrefetchStep::Host => self.prefetch_host(),
            PrefetchStep::Port(port) => self.prefetch_shared(port),
            PrefetchStep::Connection(packet) => self.prefetch_connection(packet),
            PrefetchStep::Rest(packet) => self.prefetch_rest(packet),
            PrefetchStep::Records => self.prefetch_records(),
        }
    }

    /// Prefetches for an arrival at a router, which itself is in the caches as it is used often: the port, and the
    /// cached route.
    #[inline]
    pub fn prefetch_arrival(&self, at: Port, packet: &Packet) {
        if let Some(port) = self.ports.get(usize::from(at.0)) {
            port.prefetch();
        }
        if let Network::Ipv4(ip) = &packet.network {
            self.route_cache.prefetch(ip.dst);
        }
    }

    /// Prefetches the port by which a router passes it on, some packets later, and gives it, if it is known: its link
    /// will be needed, too.
    #[inline]
    pub fn prefetch_departure(&self, packet: &Packet) -> Option<Port> {
        let Network::Ipv4(ip) = &packet.network else { return None };
        match self.route_cache.recall(ip.dst)? {
            CachedRoute::Route(RouteResult::Out(out)) => {
                let port = self.ports.get(usize::from(out))?;
                port.prefetch();
                port.prefetch_queue();
                Some(Port(out))
            }
            _ => None,
        }
    }

    #[inline(never)]
    fn prefetch_host(&self) {
        let rest = offset_of!(Self, sockets) + Sockets::OFTEN_USED;
        prefetch_part!(self, Self, routes_version, 0..rest);
    }

    #[inline(never)]
    fn prefetch_shared(&self, at: Port) {
        if let Some(port) = self.ports.get(usize::from(at.0)) {
            port.prefetch();
            port.prefetch_queue();
        }
        if let Some(stack) = &self.tcp {
            stack.prefetch();
            self.sockets.prefetch(self.lent_last);
        }
    }

    #[inline(never)]
    fn prefetch_connection(&self, packet: &Packet) {
        if let Some(socket) = self.likely_connection() {
            let front = offset_of!(ConnectionSocket, connection);
            let Range { start, end } = Connection::often_used(packet.body.len > 0);
            prefetch_part!(socket, ConnectionSocket, routes_seen, 0..front);
            prefetch_part!(socket, ConnectionSocket, routes_seen, front + start..front + end);
        }
    }

    #[inline(never)]
    fn prefetch_rest(&self, packet: &Packet) {
        self.out.prefetch(packet.body.len > 0);
        if let Some(socket) = self.likely_connection() {
            socket.connection.prefetch();
            self.socket_timers.prefetch(self.lent_last);
        }
    }

    #[inline(never)]
    fn prefetch_records(&self) {
        if let Some(socket) = self.likely_connection() {
            socket.connection.prefetch_records();
        }
    }

    /// The [index](super::SocketId::index) of the socket that the next packet is for, as a rule.
    #[inline]
    pub fn likely_socket(&self) -> usize {
        self.lent_last as usize
    }

    #[inline]
    fn likely_connection(&self) -> Option<&ConnectionSocket> {
        match self.sockets.get(self.lent_last) {
            Some(Socket::Tcp(TcpSocket::Connection(socket))) => Some(socket),
            _ => None,
        }
    }
}
