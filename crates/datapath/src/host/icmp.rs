//! ICMP and ICMPv6: echo, and the errors a network layer reports.

use super::Host;
use super::icmp_limit::{IcmpLimits, Limiter};
use super::socket::{Datagram, Socket, SocketError};
use super::udp::{network_header, truesize_of};
use crate::fib::{Decision, RouteKey};
use crate::node::SocketId;
use crate::node::SocketReady;
use crate::packet::icmp::Quoted;
use crate::packet::{
    Body, DEFAULT_TTL, FlowLabel, Icmp, LinkHeader, Meta, Network, Packet, Transport, broadcast,
    protocol, tos_to_priority,
};
use crate::reason::{Enqueue, Reason};
use crate::rng::Rng;
use crate::tcp::config::PmtuDiscovery;
use crate::tcp::config::reflects;
use crate::tcp::{Ends, IcmpError};
use crate::units::{Duration, Instant};
use core::net::{IpAddr, SocketAddr};
use std::collections::VecDeque;

/// The host's ICMP state: who listens for echo replies, and how many errors may still be sent.
#[derive(Debug, Default)]
pub(super) struct IcmpState {
    /// Ping sockets by echo identifier.
    pings: Vec<(u16, u32)>,
    next_ident: u16,
    /// Errors sent in the second that began at `second`.
    sent: u32,
    second: Instant,
    /// The kernel's limits, where they are on.
    limiter: Option<Box<Limiter>>,
}

/// `net.ipv4.icmp_msgs_per_sec`: errors a host sends per second at most.
const ERRORS_PER_SECOND: u32 = 1000;
/// Bytes that an ICMP error may have in all (RFC 1812 section 4.3.2.3).
const ERROR_MAX_V4: u32 = 576;
/// The same for ICMPv6: the minimum MTU (RFC 4443 section 2.4).
const ERROR_MAX_V6: u32 = 1280;

/// An error to report, with its type and code in ICMP and ICMPv6.
#[derive(Clone, Copy)]
struct Report {
    v4: (u8, u8),
    v6: (u8, u8),
    rest: u32,
}

impl IcmpState {
    /// Whether one more error may be sent now.
    fn allow(&mut self, now: Instant, kind: (u8, u8), to: IpAddr) -> bool {
        if let Some(limiter) = &mut self.limiter {
            return limiter.allow(now, kind, to);
        }
        if now.saturating_since(self.second) >= Duration::from_secs(1) {
            self.second = now;
            self.sent = 0;
        }
        self.sent += 1;
        self.sent <= ERRORS_PER_SECOND
    }
}

impl Host {
    /// Opens a ping socket, with an identifier that no other has (`ping_get_port`): echo requests out, replies in.
    ///
    /// # Panics
    /// With 65,535 of them.
    pub fn ping_open(&mut self, now: Instant) -> SocketId {
        self.begin_syscall(now);
        let id = self.sockets.insert(Socket::Ping(Box::default()));
        let icmp = self.icmp.get_or_insert_default();
        let is_free = |ident: &u16| icmp.pings.iter().all(|(taken, _)| taken != ident);
        let mut next = (1..=u16::MAX).map(|ahead| icmp.next_ident.wrapping_add(ahead));
        icmp.next_ident = next.find(is_free).expect("a host has fewer than 65,535 ping sockets");
        icmp.pings.push((icmp.next_ident, id));
        self.sockets.id(id)
    }

    /// Its identifier is free again.
    pub(super) fn release_ping(&mut self, id: u32) {
        self.icmp.get_or_insert_default().pings.retain(|(_, other)| *other != id);
    }

    /// Sends an echo request with `len` bytes of payload and this TOS byte.
    ///
    /// # Errors
    /// No such ping socket, or no way to send to `remote`.
    pub fn ping_send(
        &mut self,
        now: Instant,
        id: SocketId,
        remote: IpAddr,
        seq: u16,
        len: u32,
        tos: u8,
    ) -> Result<Enqueue, SocketError> {
        self.begin(now);
        let slot = self.sockets.slot(id)?;
        let mut pings = self.icmp.iter().flat_map(|icmp| &icmp.pings);
        let ident = pings.find(|(_, socket)| *socket == slot).ok_or(SocketError::WrongKind)?.0;
        let headers = if remote.is_ipv4() { 20 + 8 } else { 8 };
        if len > u32::from(u16::MAX) - headers {
            return Err(SocketError::MessageSize);
        }
        let src = self.source_address(remote).ok_or(SocketError::Unreachable)?;
        let kind = if remote.is_ipv4() { ECHO_REQUEST_V4 } else { ECHO_REQUEST_V6 };
        let icmp = Icmp { kind, code: 0, rest: u32::from(ident) << 16 | u32::from(seq) };
        let body = Body::of_len(len);
        let given = (tos, FlowLabel::NONE);
        self.icmp_send(now, src, remote, given, icmp, body).ok_or(SocketError::AddressNotAvailable)
    }

    /// ICMPv6 has labels by itself as datagrams have: by addresses alone.
    fn label_icmp(&self, network: &mut Network, reflected: FlowLabel) {
        self.label_answer(network, [0; 2], reflected, reflects::ECHO_REPLIES);
    }

    /// Sends a message, over IPv6 with the flow label `reflected` if it is one.
    fn icmp_send(
        &mut self,
        now: Instant,
        src: IpAddr,
        dst: IpAddr,
        (tos, reflected): (u8, FlowLabel),
        icmp: Icmp,
        body: Body,
    ) -> Option<Enqueue> {
        let protocol = if dst.is_ipv4() { protocol::ICMP } else { protocol::ICMPV6 };
        let mut network = network_header(src, dst, tos, DEFAULT_TTL, protocol)?;
        self.label_icmp(&mut network, reflected);
        let path = self.path_towards(now, dst, PmtuDiscovery::Want);
        if let Network::Ipv4(ip) = &mut network {
            // The kernel's own socket does not discover paths (`icmp_sk_init`).
            let asks = icmp.kind == ECHO_REQUEST_V4;
            let fits = 20 + 8 + body.len <= path.bytes;
            ip.dont_fragment = asks && fits && !path.locked;
            if !ip.dont_fragment {
                ip.id = self.next_ident();
            }
        }
        let truesize = truesize_of(body.len);
        // A ping socket has the priority of its TOS, the kernel's own has none.
        let priority = if icmp.kind == ECHO_REQUEST_V4 { tos_to_priority(tos) } else { 0 };
        let packet = Packet {
            link: LinkHeader::None,
            network,
            transport: Transport::Icmp(icmp),
            body,
            meta: Meta { priority, truesize, ..Meta::default() },
            ..Packet::default()
        };
        Some(self.ip_output_within(now, path.bytes, &mut packet.finish()))
    }

    /// An ICMP message for this host (`icmp_rcv`).
    pub(super) fn deliver_icmp(&mut self, now: Instant, icmp: Icmp, packet: Packet) {
        let (Some(src), Some(dst)) = (packet.network.src(), packet.network.dst()) else {
            return self.drop_packet(Reason::Malformed, packet);
        };
        let (request, reply) = match packet.network {
            Network::Ipv4(_) => (ECHO_REQUEST_V4, ECHO_REPLY_V4),
            _ => (ECHO_REQUEST_V6, ECHO_REPLY_V6),
        };
        let tos = packet.network.tos();
        // `icmp_echo_ignore_broadcasts`, on by default.
        if icmp.kind == request && !self.is_for_all(dst) {
            let answer = Icmp { kind: reply, ..icmp };
            let label = match packet.network {
                Network::Ipv6(ip) if self.flow_labels_reflected() & reflects::ECHO_REPLIES != 0 => {
                    ip.flow_label
                }
                _ => FlowLabel::NONE,
            };
            self.icmp_send(now, dst, src, (tos, label), answer, packet.body);
        } else if icmp.kind == reply {
            let datagram = Datagram {
                from: SocketAddr::new(src, 0),
                sequence: Some(icmp.rest as u16),
                to: dst,
                ttl: packet.network.ttl(),
                body: packet.body,
                tos,
                gso_size: 0,
                at: now,
            };
            self.deliver_echo_reply((icmp.rest >> 16) as u16, datagram);
        } else if let Some(quoted) = packet.quoted() {
            self.deliver_icmp_error(now, icmp, src, quoted, &packet);
        }
    }

    /// An error about a packet that this host has sent: tells the connection (`tcp_v4_err`).
    fn deliver_icmp_error(
        &mut self,
        now: Instant,
        icmp: Icmp,
        from: IpAddr,
        quoted: Quoted,
        packet: &Packet,
    ) {
        let (Some(src), Some(dst)) = (quoted.network.src(), quoted.network.dst()) else { return };
        let ends = Ends {
            local: SocketAddr::new(src, quoted.flow.src_port),
            remote: SocketAddr::new(dst, quoted.flow.dst_port),
        };
        let ipv6 = from.is_ipv6();
        let mtu = if ipv6 { icmp.rest } else { icmp.rest & 0xffff };
        let seq = quoted.seq.unwrap_or_default();
        let error = IcmpError { ipv6, kind: icmp.kind, code: icmp.code, mtu, seq };
        let Some(error) = self.believed(error, quoted.flow.protocol) else { return };
        if quoted.flow.protocol == protocol::UDP {
            let headers = packet.link.len() + 2 * quoted.network.len() + 8 + 8;
            let len = packet.len().saturating_sub(headers);
            let payload =
                if len == packet.body.len { packet.body.clone() } else { Body::of_len(len) };
            return self.udp_error(now, ends, error, from, payload);
        }
        if matches!(quoted.flow.protocol, protocol::ICMP | protocol::ICMPV6) {
            if error.is_too_big() {
                self.update_datagram_pmtu(now, dst, error.mtu);
            }
            return;
        }
        let connection = self.tcp_stack().connection_between(&ends);
        let Some(id) = connection.filter(|_| quoted.seq.is_some()) else { return };
        self.with_connection(now, id, |tcp, cx| tcp.icmp_arrives(error, cx));
    }

    /// What is believed of an error about a packet of `protocol` by `ip_no_pmtu_disc` (`icmp_unreach`). Only TCP can tell by what
    /// is quoted that the packet was its own (`icmp_tag_validation`).
    fn believed(&mut self, error: IcmpError, protocol: u8) -> Option<IcmpError> {
        if error.ipv6 || !error.is_too_big() {
            return Some(error);
        }
        match self.tcp_stack().defaults.sysctl.ip_no_pmtu_disc {
            0 => Some(error),
            2 => None,
            3 => (protocol == protocol::TCP).then_some(error),
            _ => Some(IcmpError { mtu: 0, ..error }),
        }
    }

    fn deliver_echo_reply(&mut self, ident: u16, datagram: Datagram) {
        let mut pings = self.icmp.iter().flat_map(|icmp| &icmp.pings);
        let Some(&(_, id)) = pings.find(|(known, _)| *known == ident) else { return };
        if let Some(Socket::Ping(replies)) = self.sockets.get_mut(id) {
            let replies: &mut VecDeque<Datagram> = replies;
            replies.push_back(datagram);
            self.notify(id, SocketReady::READABLE);
        }
    }

    pub(super) fn icmp_time_exceeded(&mut self, now: Instant, about: &Packet) {
        self.icmp_report(now, Report { v4: (11, 0), v6: (3, 0), rest: 0 }, about);
    }

    /// A packet was not whole in time.
    pub(super) fn icmp_reassembly_time_exceeded(&mut self, now: Instant, about: &Packet) {
        self.icmp_report(now, Report { v4: (11, 1), v6: (3, 1), rest: 0 }, about);
    }

    /// Its protocol is not supported; IPv6 reports the position of that field (RFC 4443 section 3.4).
    pub(super) fn icmp_protocol_unreachable(&mut self, now: Instant, at: u32, about: &Packet) {
        let rest = if matches!(about.network, Network::Ipv6(_)) { at } else { 0 };
        self.icmp_report(now, Report { v4: (3, 2), v6: (4, 1), rest }, about);
    }

    /// Something in the headers of an IPv6 packet is wrong, at this offset.
    pub(super) fn icmp_parameter_problem(
        &mut self,
        now: Instant,
        code: u8,
        pointer: u32,
        about: &Packet,
    ) {
        self.icmp_report(now, Report { v4: (12, 0), v6: (4, code), rest: pointer }, about);
    }

    pub(super) fn icmp_port_unreachable(&mut self, now: Instant, about: &Packet) {
        self.icmp_report(now, Report { v4: (3, 3), v6: (1, 4), rest: 0 }, about);
    }

    pub(super) fn icmp_net_unreachable(&mut self, now: Instant, about: &Packet) {
        self.icmp_report(now, Report { v4: (3, 0), v6: (1, 0), rest: 0 }, about);
    }

    /// A route says `unreachable` (`EHOSTUNREACH` in `ip_error`); IPv6 has one code for all packets without a
    /// route (`ip6_pkt_drop`).
    pub(super) fn icmp_route_unreachable(&mut self, now: Instant, about: &Packet) {
        self.icmp_report(now, Report { v4: (3, 1), v6: (1, 0), rest: 0 }, about);
    }

    /// The next hop does not answer (`arp_error_report`, `ndisc_error_report`).
    pub(super) fn icmp_host_unreachable(&mut self, now: Instant, about: &Packet) {
        self.icmp_report(now, Report { v4: (3, 1), v6: (1, 3), rest: 0 }, about);
    }

    /// Limits errors as the kernel does, in all and by address; without this there are no more than 1,000
    /// in a second.
    pub fn set_icmp_limits(&mut self, limits: IcmpLimits, rng: Rng) {
        self.icmp.get_or_insert_default().limiter = Some(Box::new(Limiter::new(limits, rng)));
    }

    /// The limits that are on, to change them.
    pub fn icmp_limits_mut(&mut self) -> Option<&mut IcmpLimits> {
        self.icmp.as_mut()?.limiter.as_mut().map(|limiter| &mut limiter.limits)
    }

    pub(super) fn icmp_prohibited(&mut self, now: Instant, about: &Packet) {
        self.icmp_report(now, Report { v4: (3, 13), v6: (1, 1), rest: 0 }, about);
    }

    pub(super) fn icmp_too_big(&mut self, now: Instant, mtu: u32, about: &Packet) {
        self.icmp_report(now, Report { v4: (3, 4), v6: (2, 0), rest: mtu }, about);
    }

    /// Whether an IPv4 address is the broadcast address of a network in which this host has an address.
    pub(super) fn is_for_all(&self, address: IpAddr) -> bool {
        let IpAddr::V4(address) = address else { return false };
        let mut own = self.ports.iter().flat_map(|port| &port.config.addresses);
        address.is_broadcast()
            || address.is_multicast()
            || own.any(|(own, len)| match own {
                IpAddr::V4(own) => broadcast(*own, *len) == Some(address),
                IpAddr::V6(_) => false,
            })
    }

    /// Sends an error about a packet to its sender, unless RFC 1122 section 3.2.2 forbids
    /// it: never about an error, a fragment other than the first, or a broadcast. Its source
    /// is the packet's destination, if that is ours (`__icmp_send`, `icmp6_send`).
    fn icmp_report(&mut self, now: Instant, report: Report, about: &Packet) {
        let Some(remote) = about.network.src() else { return };
        let kind = if remote.is_ipv4() { report.v4 } else { report.v6 };
        let Some(dst) = about.network.dst().filter(|_| may_report(about)) else { return };
        if self.is_for_all(dst) || !self.icmp.get_or_insert_default().allow(now, kind, remote) {
            return;
        }
        let is_ours = self.fib.lookup(&RouteKey::to(dst)) == Decision::Local;
        let src = if is_ours { Some(dst) } else { self.source_address(remote) };
        let Some(src) = src else { return };
        let ((kind, code), protocol, max) = match about.network {
            Network::Ipv4(_) => (report.v4, protocol::ICMP, ERROR_MAX_V4 - 28),
            _ => (report.v6, protocol::ICMPV6, ERROR_MAX_V6 - 48),
        };
        let tos = match about.network {
            Network::Ipv4(ip) => PRECEDENCE_INTERNETCONTROL | ip.tos & TOS_MASK,
            _ => 0,
        };
        let network = network_header(src, remote, tos, DEFAULT_TTL, protocol);
        let Some(mut network) = network else { return };
        self.label_icmp(&mut network, FlowLabel::NONE);
        if let Network::Ipv4(ip) = &mut network {
            (ip.dont_fragment, ip.id) = (false, self.next_ident());
        }
        self.stats.icmp_errors += 1;
        let icmp = Icmp { kind, code, rest: report.rest };
        let mut packet = Packet::icmp_error(network, icmp, about, max);
        packet.meta.truesize = truesize_of(packet.body.len);
        self.ip_output(now, packet);
    }
}

fn may_report(about: &Packet) -> bool {
    let first = match about.network {
        Network::Ipv4(ip) => ip.fragment_offset == 0,
        Network::Ipv6(_) => true,
        Network::Other(_) => false,
    };
    let error = match (&about.network, &about.transport) {
        (Network::Ipv4(_), Transport::Icmp(icmp)) => !matches!(icmp.kind, 0 | 8 | 13 | 14),
        (_, Transport::Icmp(icmp)) => icmp.kind < 128,
        _ => false,
    };
    let sender =
        about.network.src().is_some_and(|src| !src.is_unspecified() && !src.is_multicast());
    // `PACKET_HOST`
    let to_one = !matches!(about.link, LinkHeader::Ethernet { dst, .. } if dst.0[0] & 1 == 1);
    first
        && !error
        && sender
        && to_one
        && about.network.dst().is_some_and(|dst| !dst.is_multicast())
}

/// TOS of the errors that Linux makes for IPv4 (`IPTOS_PREC_INTERNETCONTROL`), with what the packet had besides its
/// precedence (`IPTOS_TOS_MASK`).
const PRECEDENCE_INTERNETCONTROL: u8 = 0xc0;
const TOS_MASK: u8 = 0x1e;
const ECHO_REQUEST_V4: u8 = 8;
const ECHO_REPLY_V4: u8 = 0;
const ECHO_REQUEST_V6: u8 = 128;
const ECHO_REPLY_V6: u8 = 129;
