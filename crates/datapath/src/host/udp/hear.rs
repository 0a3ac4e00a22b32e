//! Which socket hears a datagram (`udp_rcv`, `__udp4_lib_lookup`).

use super::{truesize_in_pages, truesize_with};
use crate::host::Host;
use crate::host::socket::{Datagram, Socket};
use crate::node::{SocketId, SocketReady};
use crate::packet::{Packet, Transport, Udp};
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
        let body = packet.body.clone();
        let gso_size = packet.meta.gso_size;
        let datagram = Datagram { from, sequence: None, to, body, tos, ttl, gso_size, at: now };
        if gso_size != 0 && !socket.gro {
            return self.deliver_segments(id, &datagram, packet);
        }
        let truesize = truesize_with(datagram.body.len, gso_size.into());
        if !self.udp_queue(id, datagram, truesize) {
            self.drop_packet(Reason::SocketReceiveBuffer, packet);
        }
    }

    /// Datagrams that came as one for who has not asked for that: each of them (`udp_queue_rcv_skb`).
    fn deliver_segments(&mut self, id: u32, all: &Datagram, packet: Packet) {
        let (len, size) = (all.body.len, u32::from(all.gso_size));
        let mut heard = false;
        for from in (0..len).step_by(size as usize) {
            let body = all.body.window(from, size.min(len - from));
            let truesize = truesize_in_pages(body.len);
            heard |= self.udp_queue(id, Datagram { body, gso_size: 0, ..*all }, truesize);
        }
        if !heard {
            self.drop_packet(Reason::SocketReceiveBuffer, packet);
        }
    }

    /// Queues a datagram at a socket, and tells; what does not fit is counted.
    fn udp_queue(&mut self, id: u32, datagram: Datagram, truesize: u32) -> bool {
        let ipv6 = datagram.to.is_ipv6();
        let stack = self.tcp.as_deref();
        let is_hard = || stack.is_none_or(|stack| stack.defaults.profile.strict_udp_rcvbuf);
        let Some(Socket::Udp(socket)) = self.sockets.get_mut(id) else { return false };
        let fits = socket.accept(datagram, truesize, is_hard);
        if !fits {
            let count = self.count(ipv6);
            count.udp_rcvbuf_errors += 1;
            count.udp_in_errors += 1;
        } else if socket.received.len() == 1 {
            self.notify(id, SocketReady::READABLE);
        }
        fits
    }

    /// Whether a datagram may join others of its flow: its socket has asked for that (`udp_gro_receive`).
    pub(in crate::host) fn joins_datagrams(&self, packet: &Packet) -> bool {
        let (Transport::Udp(udp), true) = (packet.transport, self.sockets.udp_gro) else {
            return false;
        };
        let (Some(src), Some(dst)) = (packet.network.src(), packet.network.dst()) else {
            return false;
        };
        let (local, remote) =
            (SocketAddr::new(dst, udp.dst_port), SocketAddr::new(src, udp.src_port));
        let hears = self.udp_lookup(local, remote).and_then(|id| self.sockets.get(id));
        matches!(hears, Some(Socket::Udp(socket)) if socket.gro)
    }

    /// `UDP_GRO`.
    pub(crate) fn udp_set_gro(&mut self, id: SocketId, on: bool) {
        if let Ok(socket) = self.udp_socket(id) {
            socket.gro = on;
            self.sockets.udp_gro |= on;
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
