//! Which socket hears a datagram (`udp_rcv`, `__udp4_lib_lookup`).

use crate::host::Host;
use crate::host::socket::{Datagram, Socket};
use crate::node::SocketReady;
use crate::packet::{Packet, Udp};
use crate::reason::Reason;
use crate::rng::mix;
use crate::units::Instant;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

impl Host {
    /// A datagram for this host (`udp_rcv`).
    pub(in crate::host) fn deliver_udp(&mut self, now: Instant, udp: Udp, packet: Packet) {
        let (Some(src), Some(dst)) = (packet.network.src(), packet.network.dst()) else {
            return self.drop_packet(Reason::Malformed, packet);
        };
        let remote = SocketAddr::new(src, udp.src_port);
        let Some(id) = self.udp_lookup(SocketAddr::new(dst, udp.dst_port), remote) else {
            self.count(dst.is_ipv6()).udp_no_ports += 1;
            self.icmp_port_unreachable(now, &packet);
            return self.drop_packet(Reason::NoSocket, packet);
        };
        let (from, to) = (remote, dst);
        let (tos, ttl) = (packet.network.tos(), packet.network.ttl());
        let Some(Socket::Udp(socket)) = self.sockets.get_mut(id) else {
            return self.drop_packet(Reason::NoSocket, packet);
        };
        let datagram =
            Datagram { from, sequence: None, to, body: packet.body.clone(), tos, ttl, at: now };
        if !socket.accept(datagram) {
            let count = self.count(dst.is_ipv6());
            count.udp_rcvbuf_errors += 1;
            count.udp_in_errors += 1;
            self.drop_packet(Reason::SocketReceiveBuffer, packet);
        } else if socket.received.len() == 1 {
            self.notify(id, SocketReady::READABLE);
        }
    }

    /// The socket for what `remote` sends to `local` (`__udp4_lib_lookup`, `compute_score`): one of the address before
    /// those of all addresses, IPv6's of all addresses for both families.
    pub(in crate::host) fn udp_lookup(&self, local: SocketAddr, remote: SocketAddr) -> Option<u32> {
        let any = match local.ip() {
            IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        };
        let both = IpAddr::V6(Ipv6Addr::UNSPECIFIED);
        let heard = |ip| self.udp_hearer(self.sockets.udp.get(&(local.port(), ip))?, local, remote);
        heard(local.ip()).or_else(|| heard(any)).or_else(|| heard(both))
    }

    /// Who of those at one address hears it: who is connected to `remote`, else the youngest that is connected to nobody.
    fn udp_hearer(&self, there: &[u32], local: SocketAddr, remote: SocketAddr) -> Option<u32> {
        let (first, rest) = there.split_first()?;
        if rest.is_empty() {
            return self.udp_hears(*first, local, remote).map(|_| *first);
        }
        let hears = |id: &&u32| self.udp_hears(**id, local, remote);
        if let Some(peer) = there.iter().rev().find(|id| hears(id) == Some(true)) {
            return Some(*peer);
        }
        let youngest = there.iter().rev().find(|id| hears(id).is_some())?;
        let shares =
            |id: &&u32| matches!(self.sockets.get(**id), Some(Socket::Udp(it)) if it.reuse_port);
        let is_free = |id: &&u32| matches!(self.sockets.get(**id), Some(Socket::Udp(it)) if it.peer.is_none());
        // A group with a connected socket in it is not divided (`reuseport_has_conns`).
        if !shares(&youngest) || !there.iter().filter(shares).all(|id| is_free(&id)) {
            return Some(*youngest);
        }
        let group = || there.iter().filter(shares).filter(|id| hears(id).is_some());
        let share = u64::from(hash_of(local, remote)) * group().count() as u64;
        group().nth((share >> 32) as usize).copied()
    }

    /// Whether a socket hears what `remote` sends to `local`, and if so, whether it is connected to it.
    fn udp_hears(&self, id: u32, local: SocketAddr, remote: SocketAddr) -> Option<bool> {
        let Some(Socket::Udp(socket)) = self.sockets.get(id) else { return None };
        let family = local.is_ipv6() || socket.local.is_ipv4() || !socket.v6_only;
        let connected = socket.peer.is_some();
        (family && socket.peer.is_none_or(|peer| peer == remote)).then_some(connected)
    }
}

/// Which of the sockets that share a port hears a sender (`udp_ehashfn`).
fn hash_of(local: SocketAddr, remote: SocketAddr) -> u32 {
    let ends = [local, remote].into_iter().fold(0, |hash, end| {
        let ip = match end.ip() {
            IpAddr::V4(ip) => u128::from(ip.to_bits()),
            IpAddr::V6(ip) => ip.to_bits(),
        };
        mix(hash ^ (ip >> 64) as u64 ^ mix(ip as u64 ^ u64::from(end.port()) << 32))
    });
    (mix(ends) >> 32) as u32
}
