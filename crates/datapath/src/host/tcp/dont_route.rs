//! Connections whose segments go to neighbours alone (`SO_DONTROUTE`).

use super::table::ends_of;
use crate::fib::Decision;
use crate::host::{Host, SocketError, SocketId};
use crate::packet::Packet;
use crate::tcp::state::State;
use crate::tcp::{Connection, Ends};

impl Host {
    /// `SO_DONTROUTE`: from now on the segments of a connection go to neighbours alone, over IPv4, or by gateways as well
    /// (`ip_sock_rt_scope`).
    ///
    /// # Errors
    /// It is not an open connection.
    pub fn tcp_set_dont_route(&mut self, id: SocketId, on: bool) -> Result<(), SocketError> {
        let connection = self.tcp_connection(id).ok_or(SocketError::WrongKind)?;
        let ends = connection.ends();
        self.keep_to_neighbours(ends, on);
        Ok(())
    }

    /// The same of a listener, for the SYN-ACKs of connections that are still in the handshake: in the kernel these are
    /// its own (`inet_csk_route_req`).
    pub(crate) fn listener_set_dont_route(&mut self, id: SocketId, on: bool) {
        let Ok(listener) = self.sockets.slot(id) else { return };
        for one in self.sockets.half_open_of(listener) {
            let request = self.connection_at(one).filter(|tcp| tcp.state() == State::SynRecv);
            if let Some(ends) = request.map(Connection::ends) {
                self.keep_to_neighbours(ends, on);
            }
        }
    }

    pub(in crate::host) fn keep_to_neighbours(&mut self, ends: Ends, on: bool) {
        self.sockets.set_dont_route(ends, on);
        // As long as somebody is in that list, destinations alone decide nothing.
        self.route_cache.forget();
    }
}

/// The way of a packet made here, where the connections of `neighbours_only` take none by a gateway.
#[cold]
pub(in crate::host) fn without_gateway(
    neighbours_only: &[Ends],
    packet: &Packet,
    decision: Decision,
) -> Decision {
    // What comes in is seen by its receiver; what goes out has its ends the other way round.
    let ours = ends_of(packet).map(|ends| Ends { local: ends.remote, remote: ends.local });
    match decision {
        Decision::Forward(hop)
            if hop.gateway.is_some()
                && ours.is_some_and(|ends| neighbours_only.contains(&ends)) =>
        {
            Decision::NoRoute
        }
        other => other,
    }
}
