//! Prefetches what a host will need for a packet that is about to arrive.
//!
//! In steps, each of which looks only at what the step before has asked for. The packets between two
//! steps give memory the time to answer. Nothing here changes what is computed.

use super::route_cache::{Remembered, RouteResult};
use super::tcp::{ConnectionSocket, TcpSocket};
use super::{Host, Socket, Sockets};
use crate::node::Port;
use crate::packet::{Network, Packet};
use crate::prefetch_part;
use crate::tcp::Connection;
use core::mem::offset_of;
use core::ops::Range;

/// What of a host is about to be needed, in the order of the steps; before the last of them stands
/// [`prefetch_way`](Host::prefetch_way).
#[derive(Clone, Copy, Debug)]
pub enum PrefetchStep<'a> {
    /// The host itself. A router, whose turn it often is, is near anyway.
    Host,
    /// For this packet, which arrives on this port: the port, the route, or what all connections
    /// share.
    Packet(Port, &'a Packet),
    /// What lies behind the connection.
    Rest,
}

impl Host {
    /// Prefetches one step of what an arrival will need. Each step has a function of its own, so
    /// that nothing is asked where it is known which one it is.
    #[inline]
    pub fn prefetch(&self, ahead: PrefetchStep<'_>) {
        match ahead {
            PrefetchStep::Host => self.prefetch_host(),
            PrefetchStep::Packet(port, packet) => self.prefetch_shared(port, packet),
            PrefetchStep::Rest => self.prefetch_rest(),
        }
    }

    #[inline(never)]
    fn prefetch_host(&self) {
        let rest = offset_of!(Self, sockets) + Sockets::OFTEN_USED;
        prefetch_part!(self, Self, routes_version, 0..rest);
    }

    #[inline(never)]
    fn prefetch_shared(&self, at: Port, packet: &Packet) {
        let port = self.ports.get(usize::from(at.0));
        if let Some(port) = port {
            port.prefetch();
        }
        if self.forwarding {
            if let Network::Ipv4(ip) = &packet.network {
                self.route_cache.prefetch(ip.dst);
            }
            return;
        }
        // What answers it leaves where it came from, as a rule.
        if let Some(port) = port {
            port.prefetch_qdisc();
        }
        if let Some(stack) = &self.tcp {
            stack.prefetch();
            self.sockets.prefetch(self.lent_last);
        }
    }

    /// Prefetches where the packet, or what answers it, will leave, or the connection. Gives
    /// the port by which it will leave as a rule: its link will be needed, too.
    #[inline(never)]
    pub fn prefetch_way(&self, packet: &Packet) -> Port {
        let out = self.likely_port(packet);
        if self.forwarding {
            if let Some(port) = self.ports.get(usize::from(out.0)) {
                port.prefetch();
                port.prefetch_qdisc();
            }
        } else if let Some(socket) = self.likely_connection() {
            let front = offset_of!(ConnectionSocket, connection);
            let Range { start, end } = Connection::often_used(packet.body.len > 0);
            prefetch_part!(socket, ConnectionSocket, routes_seen, 0..front);
            prefetch_part!(socket, ConnectionSocket, routes_seen, front + start..front + end);
        }
        out
    }

    #[inline(never)]
    fn prefetch_rest(&self) {
        if let Some(socket) = self.likely_connection() {
            socket.connection.prefetch();
            self.socket_timers.prefetch(self.lent_last);
        }
    }

    /// The [index](super::SocketId::index) of the socket that the next packet is for, as a rule.
    #[inline]
    pub fn likely_socket(&self) -> usize {
        self.lent_last as usize
    }

    /// A host that passes nothing on has one port as a rule.
    #[inline]
    fn likely_port(&self, packet: &Packet) -> Port {
        match &packet.network {
            Network::Ipv4(ip) if self.forwarding => match self.route_cache.recall(ip.dst) {
                Some(Remembered::Way(RouteResult::Out(out))) => Port(out),
                _ => Port(0),
            },
            _ => Port(0),
        }
    }

    #[inline]
    fn likely_connection(&self) -> Option<&ConnectionSocket> {
        match self.sockets.get(self.lent_last) {
            Some(Socket::Tcp(TcpSocket::Connection(socket))) => Some(socket),
            _ => None,
        }
    }
}
