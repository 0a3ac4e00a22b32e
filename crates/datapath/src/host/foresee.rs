//! What a host will need for a packet that is about to arrive: the caches are asked for it.
//!
//! In steps, each of which looks only at what the step before has asked for. The packets between two
//! steps give memory the time to answer. Nothing here changes what is computed.

use super::route_cache::Way;
use super::tcp::{ConnectionSocket, TcpSocket};
use super::{Host, Socket};
use crate::node::Port;
use crate::packet::{Network, Packet};
use crate::prefetch_whole;

impl Host {
    /// First step: the host itself. A router, whose turn it often is, is near anyway.
    #[inline]
    pub fn foresee(&self) {
        prefetch_whole!(self, Host, routes_version);
    }

    /// Second step: the port, the route, or what all connections share.
    #[inline]
    pub fn foresee_packet(&self, port: Port, packet: &Packet) {
        if let Some(port) = self.ports.get(usize::from(port.0)) {
            port.foresee();
        }
        if self.forwarding {
            if let Network::Ipv4(ip) = &packet.network {
                self.route_cache.foresee(ip.dst);
            }
        } else if let Some(stack) = &self.tcp {
            stack.foresee();
            self.sockets.foresee(self.lent_last);
        }
    }

    /// Third step: where the packet, or what answers it, will leave; or the connection.
    #[inline]
    pub fn foresee_way(&self, packet: &Packet) -> Port {
        let out = self.likely_way(packet);
        if self.forwarding {
            if let Some(port) = self.ports.get(usize::from(out.0)) {
                port.foresee();
            }
        } else if let Some(socket) = self.likely_connection() {
            prefetch_whole!(socket, ConnectionSocket, routes_seen);
        }
        out
    }

    /// Fourth step: what lies behind those.
    #[inline]
    pub fn foresee_rest(&self, packet: &Packet) {
        let out = self.likely_way(packet);
        if let Some(port) = self.ports.get(usize::from(out.0)) {
            port.foresee_queue();
        }
        if !self.forwarding
            && let Some(socket) = self.likely_connection()
        {
            socket.connection.foresee();
            self.socket_timers.foresee(self.lent_last);
        }
    }

    /// The socket that the next packet is for, as a rule.
    #[inline]
    pub fn likely_socket(&self) -> u32 {
        self.lent_last
    }

    /// A host that passes nothing on has one port as a rule.
    #[inline]
    fn likely_way(&self, packet: &Packet) -> Port {
        match &packet.network {
            Network::Ipv4(ip) if self.forwarding => match self.route_cache.recall(ip.dst) {
                Some(Way::Out(out)) => Port(out),
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
