//! How far the ways of a socket may lead: with `SO_DONTROUTE` not by a gateway, over IPv4 (`ip_sock_rt_scope`). It is part
//! of the key of each look-up, so a route to the link counts also where a longer one leads to a gateway.

use super::{Host, Socket, SocketError, SocketId, own_addresses};
use crate::fib::{Decision, RouteKey, Scope};
use crate::packet::Packet;
use crate::tcp::config::TcpConfig;
use core::net::IpAddr;

/// The scope of what a socket sends (`ip_sock_rt_scope`). `dont_route`: it has `SO_DONTROUTE`.
pub(crate) const fn rt_scope(dont_route: bool) -> Scope {
    if dont_route { Scope::LINK } else { Scope::UNIVERSE }
}

impl Host {
    /// [`Host::route_to`] by routes that lead no further than `scope`.
    pub(crate) fn route_within(&self, dst: IpAddr, scope: Scope) -> Decision {
        self.fib.lookup(&RouteKey { scope, ..RouteKey::to(dst) })
    }

    /// [`Host::source_address`] by such routes; `None` without one.
    pub(crate) fn source_within(&self, remote: IpAddr, scope: Scope) -> Option<IpAddr> {
        let key = RouteKey { scope, ..RouteKey::to(remote) };
        self.fib.source(&key, own_addresses(&self.ports))
    }

    /// Whether segments of a socket with that configuration reach `remote` (`inet_csk_route_req`,
    /// `inet_csk_route_child_sock`). Nothing but the scope is looked at: without any route the segments themselves fail.
    pub(super) fn is_out_of_scope(&self, config: &TcpConfig, remote: IpAddr) -> bool {
        let scope = rt_scope(config.socket.dont_route);
        scope != Scope::UNIVERSE && self.route_within(remote, scope) == Decision::NoRoute
    }

    /// `SO_DONTROUTE` of a TCP socket: from now on what it sends goes to neighbours alone, over IPv4, or by gateways as well.
    /// With a listener go the SYN-ACKs of connections still in the handshake: in the kernel these are its own
    /// (`inet_csk_route_req`).
    ///
    /// # Errors
    /// It is not an open socket.
    pub fn tcp_set_dont_route(&mut self, id: SocketId, on: bool) -> Result<(), SocketError> {
        let slot = self.sockets.slot(id)?;
        self.set_local_route(slot, on);
        for request in self.sockets.half_open_of(slot) {
            self.set_local_route(request, on);
        }
        Ok(())
    }

    /// The same of the socket in a slot.
    pub(super) fn set_local_route(&mut self, slot: u32, on: bool) {
        self.sockets.set_local_route(slot, on);
        if on {
            self.heed_scopes();
        }
    }

    /// Destinations alone decide nothing any more (`SOCK_LOCALROUTE` has been seen).
    pub(super) fn heed_scopes(&mut self) {
        if !self.sockets.scopes_differ {
            self.sockets.scopes_differ = true;
            self.route_cache.forget();
        }
    }

    /// How far the way of a packet made here may lead: that of a datagram as it was told, that of a segment as the
    /// connection has it that is lent out to send it.
    pub(super) fn scope_of(&self, packet: &Packet) -> Scope {
        if !self.sockets.scopes_differ {
            return Scope::UNIVERSE;
        }
        match self.sockets.get(packet.meta.owner) {
            Some(Socket::Udp(socket)) => rt_scope(socket.told_dont_route),
            _ => rt_scope(self.sockets.lent_has_local_route(self.lent_last)),
        }
    }
}
