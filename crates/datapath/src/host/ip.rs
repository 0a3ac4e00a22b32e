//! The network layer of a host: receive, deliver, forward, send.

use super::route_cache::{CachedRoute, Flow, RouteResult};
use super::{Host, Socket, TcpSocket};
use crate::fib::dissect::packet_flow;
use crate::fib::{Candidates, Choice, Decision, HashInput, RouteKey, Scope};
use crate::node::{Port, Rx};
use crate::packet::{Meta, Network, Packet, Transport};
use crate::qdisc::Cx;
use crate::qdisc::police::Action;
use crate::reason::{Enqueue, Reason};
use crate::units::Instant;
use core::net::{IpAddr, Ipv4Addr};

impl Host {
    /// A packet has arrived on a port (`netif_receive_skb`).
    #[inline]
    pub(super) fn link_receive(&mut self, now: Instant, port: Port, place: &mut Packet) -> Rx {
        let device = &mut self.ports[usize::from(port.0)];
        device.count_received(place);
        if device.config.offloads.gro {
            self.gro_receive(now, port, place);
            return Rx::Taken;
        }
        self.ip_receive(now, port, place)
    }

    /// A packet goes up from a port (`ip_rcv`).
    #[inline]
    pub(super) fn ip_receive(&mut self, now: Instant, port: Port, place: &mut Packet) -> Rx {
        self.stats.in_receives += 1;
        let Meta { owner, priority, mark, departs_in_ns, .. } = place.meta;
        // Mostly they are so, and nothing is written: a packet that is copied soon after small parts
        // of it were written is copied late. A departure time is the sender's (`skb_scrub_packet`,
        // `ip_forward`: `skb_clear_tstamp`).
        if (owner, priority, mark, departs_in_ns) != (Meta::NO_OWNER, 0, 0, 0) {
            place.meta = Meta {
                owner: Meta::NO_OWNER,
                priority: 0,
                mark: 0,
                departs_in_ns: 0,
                ..place.meta
            };
        }
        if !self.ingress.is_empty() && !self.admit(now, port, place) {
            return self.discard(Reason::Police, place);
        }
        if place.extra.is_some()
            && let Some(reason) = self.header_fault(place)
        {
            return self.discard(reason, place);
        }
        if self.neighbours.is_some() && self.deliver_on_link(now, port, place) {
            return Rx::Taken;
        }
        match self.route_lookup(now, place, Some(port.0)) {
            Some(RouteResult::Out(index)) if self.forwarding => {
                return self.forward(now, index, place);
            }
            Some(RouteResult::Local) if self.is_local_elsewhere() => drop(place.take()),
            Some(RouteResult::Local) => self.deliver(now, place),
            Some(_) if !self.forwarding => return self.discard(Reason::OtherHost, place),
            Some(RouteResult::Refused(decision)) => self.refuse(now, decision, place.take()),
            _ => return self.discard(Reason::Malformed, place),
        }
        Rx::Taken
    }

    #[cold]
    fn discard(&mut self, reason: Reason, place: &mut Packet) -> Rx {
        self.drop_packet(reason, place.take());
        Rx::Taken
    }

    /// Where a packet goes (`ip_route_input_noref`, `ip_route_output_flow`); `None` if it is not
    /// IP.
    #[inline]
    fn route_lookup(
        &mut self,
        now: Instant,
        packet: &Packet,
        iif: Option<u16>,
    ) -> Option<RouteResult> {
        if let Network::Ipv4(ip) = &packet.network
            && let Some(way) = self.recall(now, packet, ip.dst, iif)
        {
            return Some(way);
        }
        self.look_up(now, packet, iif)
    }

    /// The cached route for `dst`, or the choice among its cached next hops: the same that a look-up
    /// would give for `packet`.
    #[inline]
    fn recall(
        &mut self,
        now: Instant,
        packet: &Packet,
        dst: Ipv4Addr,
        iif: Option<u16>,
    ) -> Option<RouteResult> {
        match self.route_cache.recall(dst)? {
            CachedRoute::Route(way) => {
                let asked = || key_of(packet, iif).map(|key| self.fib.lookup(&key).into());
                debug_assert_eq!(Some(way), asked(), "what is remembered of {dst}");
                Some(way)
            }
            CachedRoute::Among(candidates) => self.choose(now, packet, iif, candidates),
        }
    }

    /// One of a destination's next hops: the one that the packet's flow had before, if it is that of a flow.
    #[inline(never)]
    fn choose(
        &mut self,
        now: Instant,
        packet: &Packet,
        iif: Option<u16>,
        among: Candidates,
    ) -> Option<RouteResult> {
        let flow = iif.and_then(|_| Flow::of(packet));
        if let Some(port) = flow.and_then(|flow| self.route_cache.recall_flow(flow)) {
            let way = RouteResult::Out(port);
            debug_assert_eq!(Some(way), self.choose_among(now, packet, iif, among), "{flow:?}");
            return Some(way);
        }
        let way = self.choose_among(now, packet, iif, among)?;
        if let (Some(flow), RouteResult::Out(port)) = (flow, way)
            && self.fib.chooses_by_ports(among)
        {
            self.route_cache.learn_flow(flow, port);
        }
        Some(way)
    }

    #[inline]
    fn choose_among(
        &self,
        now: Instant,
        packet: &Packet,
        iif: Option<u16>,
        among: Candidates,
    ) -> Option<RouteResult> {
        let key = key_of(packet, iif)?;
        debug_assert_eq!(Choice::Among(among), self.fib.choice(&key), "next hops for {}", key.dst);
        let flow = || flow_of(packet, &key);
        Some(self.fib.forward_among(now, among, &key, flow).into())
    }

    #[inline(never)]
    fn look_up(&mut self, now: Instant, packet: &Packet, iif: Option<u16>) -> Option<RouteResult> {
        let mut key = key_of(packet, iif)?;
        if iif.is_none() && key.dst.is_ipv6() {
            key.flow_label = self.label_of_socket(packet);
        }
        self.upkeep_changed = true;
        if iif.is_none() {
            key.scope = self.scope_of(packet);
        }
        let decision = self.fib.forward(now, &key, || flow_of(packet, &key));
        let way = decision.into();
        if let Some(layer) = &mut self.neighbours {
            // Cached answers do not include the gateway.
            layer.gateway = match decision {
                Decision::Forward(hop) => hop.gateway,
                Decision::Local
                | Decision::Blackhole
                | Decision::Unreachable
                | Decision::Prohibit
                | Decision::NoRoute => None,
            };
        } else if let Network::Ipv4(ip) = &packet.network
            && !self.sockets.scopes_differ
        {
            self.route_cache.learn(&self.fib, ip.dst, &key, way);
        }
        Some(way)
    }

    /// The flow label for the route look-up of a socket's packet, which IPv6's policy 0 hashes: of a datagram the one
    /// that it was told to have, not one that it has by itself; of a connection, since 7.x, the socket's hash.
    fn label_of_socket(&self, packet: &Packet) -> u32 {
        let socket = match self.sockets.get(packet.meta.owner) {
            Some(Socket::Tcp(TcpSocket::Connection(socket))) => socket,
            Some(Socket::Udp(socket)) => return socket.told_label,
            _ => return 0,
        };
        let chooses = socket.connection.config().profile.socket_hash_chooses_hop;
        if chooses { packet.meta.hash } else { 0 }
    }

    /// Runs the policers of a port one after the other, until one of them decides
    /// (`tc filter … ingress … action police`).
    fn admit(&mut self, now: Instant, port: Port, packet: &Packet) -> bool {
        for (at, police) in &mut self.ingress {
            if *at == port {
                match police.judge(now, packet) {
                    Action::Pipe => {}
                    Action::Ok => return true,
                    Action::Drop => return false,
                }
            }
        }
        true
    }

    /// For this host (`ip_local_deliver`).
    #[inline]
    fn deliver(&mut self, now: Instant, place: &mut Packet) {
        if place.extra.is_some() || place.transport == Transport::None {
            return self.deliver_unusual(now, place.take());
        }
        self.deliver_sound(now, place);
    }

    /// A whole packet with a right checksum (`ip_protocol_deliver_rcu`).
    #[inline]
    pub(super) fn deliver_sound(&mut self, now: Instant, place: &mut Packet) {
        self.stats.in_delivers += 1;
        match place.transport {
            Transport::Tcp(_) => self.deliver_tcp(now, place),
            Transport::Udp(udp) => self.deliver_udp(now, udp, place.take()),
            Transport::Icmp(icmp) => self.deliver_icmp(now, icmp, place.take()),
            Transport::None => self.drop_packet(Reason::NoSocket, place.take()),
        }
    }

    /// For someone else (`ip_forward`, `ip6_forward`).
    #[inline]
    fn forward(&mut self, now: Instant, index: u16, place: &mut Packet) -> Rx {
        let mtu = self.ports[usize::from(index)].config.mtu;
        let large = too_big(place, mtu);
        if large && may_not_pass(place) && place.network.ttl() > 1 {
            self.refuse_large(now, mtu, place.take());
            return Rx::Taken;
        }
        if !place.dec_ttl() {
            self.refuse_expired(now, place.take());
            return Rx::Taken;
        }
        self.stats.forwarded += 1;
        let priority = place.network.forwarding_priority();
        if priority != 0 {
            place.meta.priority = priority;
        }
        if large {
            self.send_in_fragments(now, index, mtu, &place.take());
            return Rx::Taken;
        }
        if !self.resolve(now, index, place) {
            return Rx::Taken;
        }
        if !self.goes_past_queue(now, index, place) {
            self.enqueue(now, index, place);
            let follows = self.busy || self.upkeep_changed || self.out.may_tell();
            return if follows { Rx::Taken } else { Rx::Queued };
        }
        // Outputs that are already waiting, or may follow, come first.
        if self.busy || self.upkeep_changed {
            self.out.direct.push_from(Port(index), place);
            return Rx::Taken;
        }
        Rx::Forward(Port(index))
    }

    /// Its time to live is over.
    #[cold]
    fn refuse_expired(&mut self, now: Instant, packet: Packet) {
        self.count(matches!(packet.network, Network::Ipv6(_))).in_hdr_errors += 1;
        self.icmp_time_exceeded(now, &packet);
        self.drop_packet(Reason::TtlExpired, packet);
    }

    /// It does not fit and must not be cut.
    #[cold]
    fn refuse_large(&mut self, now: Instant, mtu: u32, packet: Packet) {
        let ipv6 = matches!(packet.network, Network::Ipv6(_));
        let count = self.count(ipv6);
        count.frag_fails += 1;
        count.in_too_big += u64::from(ipv6);
        self.stats.forwarded += u64::from(!ipv6);
        self.icmp_too_big(now, mtu, &packet);
        self.drop_packet(Reason::PacketTooBig, packet);
    }

    /// No route: sends an error where the route demands it, and drops the packet.
    fn refuse(&mut self, now: Instant, decision: Decision, packet: Packet) {
        match decision {
            Decision::Blackhole => {}
            Decision::Prohibit => self.icmp_prohibited(now, &packet),
            Decision::Unreachable => self.icmp_route_unreachable(now, &packet),
            Decision::Forward(_) | Decision::Local | Decision::NoRoute => {
                self.icmp_net_unreachable(now, &packet);
            }
        }
        let denied =
            matches!(decision, Decision::Blackhole | Decision::Prohibit | Decision::Unreachable);
        let reason = if denied { Reason::RouteDenied } else { Reason::NoRoute };
        self.drop_packet(reason, packet);
    }

    /// Sends a finished packet made here: looks up the route, fills in the link header and queues it
    /// (`ip_queue_xmit`, `ip_send_skb`). What is dropped comes out of `poll`.
    #[inline]
    pub fn ip_output(&mut self, now: Instant, mut packet: Packet) -> Enqueue {
        self.ip_output_within(now, u32::MAX, &mut packet)
    }

    /// The same, in fragments of at most `max` bytes where that is allowed.
    pub(super) fn ip_output_within(
        &mut self,
        now: Instant,
        max: u32,
        packet: &mut Packet,
    ) -> Enqueue {
        match self.route_lookup(now, packet, None) {
            Some(RouteResult::Out(index)) => {
                self.stats.out_requests += 1;
                let mtu = self.ports[usize::from(index)].config.mtu.min(max);
                if too_big(packet, mtu) {
                    return self.send_large(now, index, mtu, packet.take());
                }
                self.transmit(now, index, packet)
            }
            Some(RouteResult::Local) => {
                self.stats.out_requests += 1;
                self.loop_back(packet.take());
                Enqueue::Queued
            }
            _ => {
                self.stats.out_no_routes += 1;
                self.drop_packet(Reason::NoRoute, packet.take());
                Enqueue::Dropped
            }
        }
    }

    /// To the next hop by a port (`ip_finish_output2`).
    #[inline]
    pub(super) fn transmit(&mut self, now: Instant, index: u16, packet: &mut Packet) -> Enqueue {
        if !self.resolve(now, index, packet) {
            return Enqueue::Queued;
        }
        self.transmit_resolved(now, index, packet)
    }

    /// Into the queue of a port, or past it (`__dev_queue_xmit`).
    #[inline]
    pub(super) fn transmit_resolved(
        &mut self,
        now: Instant,
        index: u16,
        packet: &mut Packet,
    ) -> Enqueue {
        self.paced = self.ports[usize::from(index)].qdisc().paces();
        if self.goes_past_queue(now, index, packet) {
            self.out.direct.push_from(Port(index), packet);
            return Enqueue::Queued;
        }
        self.enqueue(now, index, packet)
    }

    /// Makes a packet one of this port; true if it goes straight to the device, which is counted.
    #[inline]
    fn goes_past_queue(&mut self, now: Instant, index: u16, packet: &mut Packet) -> bool {
        packet.meta.enqueued_at = now;
        let port = &mut self.ports[usize::from(index)];
        if !port.config.orphans && !port.room.is_due(now) {
            return port.bypass(packet);
        }
        if port.config.orphans {
            self.orphan_at_once(now, index, packet);
        }
        self.complete(now, index);
        self.ports[usize::from(index)].bypass(packet)
    }

    /// Where nothing holds a packet back, its owner has its memory back before this returns.
    #[cold]
    fn orphan_at_once(&mut self, now: Instant, index: u16, packet: &mut Packet) {
        let port = &self.ports[usize::from(index)];
        if port.orphans_at_once(packet, now) && !self.is_in_softirq() {
            packet.meta.owner = Meta::NO_OWNER;
            self.orphaned = true;
        }
    }

    /// Into the queue of a port, or to be cut before it.
    fn enqueue(&mut self, now: Instant, index: u16, packet: &mut Packet) -> Enqueue {
        if self.is_in_softirq() && self.ports[usize::from(index)].cuts_at_once(packet, now) {
            let linear = !self.ports[usize::from(index)].config.offloads.gso;
            self.charge_segments(linear, packet);
        }
        let mut port = &mut self.ports[usize::from(index)];
        if port.bypass_to_be_cut(&mut self.out.spare, packet) {
            self.list_port(index);
            return Enqueue::Queued;
        }
        if self.buffer.is_some() {
            if !self.admit_to_buffer(index, packet.meta.len) {
                self.out.dropped.push((Reason::NoBuffer, packet.take()));
                return Enqueue::Dropped;
            }
            port = &mut self.ports[usize::from(index)];
        }
        let mut cx = Cx { now, dropped: &mut self.out.dropped };
        let verdict = port.enqueue(packet, &mut cx);
        if !port.listed {
            self.list_port(index);
        }
        verdict
    }

    /// Queues a packet from this host to itself (`loopback_xmit`, `netif_rx`): the sending socket
    /// is still in its call.
    fn loop_back(&mut self, packet: Packet) {
        self.out.loop_back(packet);
    }

    /// Takes in what this host has sent to itself (`process_backlog`).
    #[inline]
    pub(super) fn receive_looped_back(&mut self, now: Instant) {
        while let Some(mut packet) = self.out.next_looped_back() {
            self.give_back_of(now, &packet);
            packet.meta.owner = Meta::NO_OWNER;
            self.deliver(now, &mut packet);
        }
    }
}

/// The key of the route look-up for a packet (`ip_route_input_noref`,
/// `ip_route_output_flow`); `None` if it is not IP.
#[inline]
fn key_of(packet: &Packet, iif: Option<u16>) -> Option<RouteKey> {
    let (src, dst, flow_label) = match packet.network {
        Network::Ipv4(ip) => (IpAddr::V4(ip.src), IpAddr::V4(ip.dst), 0),
        Network::Ipv6(ip) => (IpAddr::V6(ip.src), IpAddr::V6(ip.dst), ip.flow_label.get()),
        Network::Other(_) => return None,
    };
    let (src_port, dst_port) = match packet.transport {
        Transport::Icmp(icmp) => (u16::from(icmp.kind) << 8 | u16::from(icmp.code), 0),
        transport => transport.ports().unwrap_or((0, 0)),
    };
    Some(RouteKey {
        src,
        dst,
        iif,
        oif: None,
        scope: Scope::UNIVERSE,
        tos: packet.network.tos(),
        mark: packet.meta.mark,
        protocol: packet.network.protocol()?,
        src_port,
        dst_port,
        flow_label,
    })
}

/// The fields that a multipath hash may read, of a forwarded packet or of the sending socket.
fn flow_of(packet: &Packet, key: &RouteKey) -> HashInput {
    match key.iif {
        Some(_) => packet_flow(packet).unwrap_or_else(|| HashInput::from(key)),
        None => HashInput::of_socket(key),
    }
}

/// Whether the network-layer packet, or each segment of a super-packet, is larger than `mtu`
/// (`ip_exceeds_mtu`, `skb_gso_validate_network_len`).
#[inline]
fn too_big(packet: &Packet, mtu: u32) -> bool {
    if packet.meta.gso_size == 0 {
        return packet.meta.len - packet.link.len() > mtu;
    }
    packet.finished_header_len() - packet.link.len() + u32::from(packet.meta.gso_size) > mtu
}

/// Whether a packet that is too big for a link and still has hops to go must stay behind: IPv4
/// with don't-fragment, and IPv6 anyway.
fn may_not_pass(packet: &Packet) -> bool {
    match packet.network {
        Network::Ipv4(ip) => ip.dont_fragment && ip.ttl > 1,
        Network::Ipv6(ip) => ip.hop_limit > 1,
        Network::Other(_) => true,
    }
}
