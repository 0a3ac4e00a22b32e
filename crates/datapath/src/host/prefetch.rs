//! Prefetches what a host will need for a packet that is about to arrive.
//!
//! In steps, each of which looks only at what the step before has asked for. The packets between two
//! steps give memory the time to answer. Nothing here changes what is computed.

use super::route_cache::{CachedRoute, RouteResult};
use super::tcp::{ConnectionSocket, TcpSocket};
use super::{Host, Socket, Sockets};
use crate::node::Port;
use crate::packet::{Network, Packet};
use crate::prefetch_part;
use crate::tcp::Connection;
use core::mem::offset_of;
use core::ops::Range;

/// What of a host that passes nothing on is about to be needed, in the order of the steps.
#[derive(Clone, Copy, Debug)]
pub enum PrefetchStep<'a> {
    /// The host itself.
    Host,
    /// The port where something arrives, and by which what answers it leaves as a rule; what all connections share.
    Port(Port),
    /// What this packet needs of the connection.
    Connection(&'a Packet),
    /// What lies behind the connection, and where what answers this packet will be put.
    Rest(&'a Packet),
    /// And behind that.
    Records,
}

impl Host {
    /// Prefetches one step of what an arrival will need. Each step has a function of its own, so
    /// that nothing is asked where it is known which one it is.
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

    /// Prefetches for what arrives at a router, which is near itself as its turn is often: the port, and what is
    /// remembered of where it goes.
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
