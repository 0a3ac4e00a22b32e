//! Sending datagrams: the way there, segments, fragments (`udp_sendmsg`).

use super::{IpcmCookie, LOOPBACK_MTU, truesize_with};
use crate::fib::Decision;
use crate::host::Host;
use crate::host::scope::rt_scope;
use crate::host::socket::SocketError;
use crate::node::SocketId;
use crate::packet::{
    Body, FlowLabel, Ipv4, Ipv6, LinkHeader, Meta, Network, Packet, Transport, Udp, protocol,
};
use crate::reason::Enqueue;
use crate::tcp::PathMtu;
use crate::tcp::config::PmtuDiscovery;
use crate::units::Instant;
use core::net::{IpAddr, SocketAddr};

/// How a datagram goes: between whom, in packets of which size, with which header.
pub(crate) struct DatagramRoute {
    src: IpAddr,
    remote: SocketAddr,
    path: PathMtu,
    /// It is cut into fragments.
    large: bool,
    tos: u8,
    ttl: u8,
    priority: u32,
    mark: u32,
    /// Of this many bytes each datagram is (`UDP_SEGMENT`); 0: all bytes are one.
    gso_size: u16,
    /// Over IPv6.
    flow_label: u32,
    /// To neighbours alone.
    dont_route: bool,
}

/// `UDP_MAX_SEGMENTS`: datagrams of one call.
const MAX_SEGMENTS: u32 = 128;

impl Host {
    /// Sends one datagram (`udp_sendmsg`). The verdict is that of the queue of the port.
    ///
    /// # Errors
    /// What `sendmsg(2)` would give; `WouldBlock` is followed by a `WRITABLE`.
    pub fn udp_send(
        &mut self,
        now: Instant,
        id: SocketId,
        remote: SocketAddr,
        body: Body,
    ) -> Result<Enqueue, SocketError> {
        self.udp_send_with(now, id, remote, body, &IpcmCookie::default())
    }

    /// The same by what control messages say of this datagram.
    ///
    /// # Errors
    /// As above; `InvalidArgument`: more segments than one call may have.
    pub fn udp_send_with(
        &mut self,
        now: Instant,
        id: SocketId,
        remote: SocketAddr,
        body: Body,
        cookie: &IpcmCookie,
    ) -> Result<Enqueue, SocketError> {
        self.begin(now);
        let way = self.udp_way(now, id, remote, body.len, cookie)?;
        let socket = self.udp_socket(id)?;
        if socket.unsent_truesize >= socket.send_buffer {
            socket.wants_room = true;
            return Err(SocketError::WouldBlock);
        }
        let segment = u32::from(cookie.gso_size);
        if segment == 0 {
            return self.udp_transmit(now, id, &way, body);
        }
        // Only what is gathered whole is held against the packets of the device (`udp_send_skb`).
        if way.large {
            return Err(SocketError::MessageSize);
        }
        if body.len > segment * MAX_SEGMENTS {
            return Err(SocketError::InvalidArgument);
        }
        self.udp_transmit(now, id, &way, body)
    }

    /// Whether `len` bytes may go to `remote`, and how (`ip_route_output_flow`, `__ip_append_data`). What is too long is told
    /// to who has asked for errors as well.
    ///
    /// # Errors
    /// `Unreachable`, `MessageSize`.
    pub(crate) fn udp_way(
        &mut self,
        now: Instant,
        id: SocketId,
        remote: SocketAddr,
        len: u32,
        cookie: &IpcmCookie,
    ) -> Result<DatagramRoute, SocketError> {
        let ipv6 = remote.is_ipv6();
        let scope = rt_scope(cookie.dont_route);
        let way = self.route_within(remote.ip(), scope);
        if way == Decision::NoRoute {
            return Err(SocketError::Unreachable);
        }
        let src = match cookie.source.unwrap_or(self.open_udp(id)?.local.ip()) {
            ip if ip.is_unspecified() => {
                self.source_within(remote.ip(), scope).ok_or(SocketError::Unreachable)?
            }
            ip => ip,
        };
        let discovery = self.open_udp(id)?.discovery(ipv6);
        let mut path = self.path_by(now, remote.ip(), way, discovery);
        let device = path.bytes;
        let socket = self.udp_socket(id)?;
        if let (true, Some(own)) = (ipv6, socket.frag_size) {
            path.bytes = path.bytes.min(own);
        }
        let (header, most) =
            if ipv6 { (40, u32::from(u16::MAX) - 8) } else { (20, u32::from(u16::MAX) - 28) };
        let segment = u32::from(cookie.gso_size);
        let one = if segment == 0 { len } else { len.min(segment) };
        // Any length may be asked about.
        let whole_len = one.saturating_add(header + 8);
        let large = whole_len > path.bytes;
        let whole = matches!(
            discovery,
            PmtuDiscovery::Do | PmtuDiscovery::Probe | PmtuDiscovery::Interface
        );
        if len > most || segment == 0 && large && (whole || cookie.dont_fragment) {
            // What will be cut may be as long as any packet (`IP_MAX_MTU`, `IP6_MAX_MTU`).
            let longest = u32::from(u16::MAX) + if ipv6 { header } else { 0 };
            socket.local_error(remote, if segment == 0 { path.bytes } else { longest });
            return Err(SocketError::MessageSize);
        }
        // What fits into the device's packets is not cut, whatever `IPV6_MTU` says.
        let fits = whole_len <= device;
        Ok(DatagramRoute {
            src,
            remote,
            path: if fits { PathMtu { bytes: device, ..path } } else { path },
            large: if segment == 0 { !fits } else { large },
            tos: cookie.tos.unwrap_or_else(|| socket.tos(ipv6)),
            ttl: cookie.ttl.unwrap_or(if ipv6 { socket.hop_limit } else { socket.ttl }),
            priority: cookie.priority.unwrap_or(socket.priority),
            mark: cookie.mark.unwrap_or(socket.mark),
            gso_size: cookie.gso_size,
            flow_label: cookie.flow_label,
            dont_route: cookie.dont_route,
        })
    }

    /// One packet, for which there is room: with `UDP_SEGMENT` one that is cut where it leaves (`udp_send_skb`).
    fn udp_transmit(
        &mut self,
        now: Instant,
        id: SocketId,
        way: &DatagramRoute,
        body: Body,
    ) -> Result<Enqueue, SocketError> {
        let owner = self.sockets.slot(id)?;
        let DatagramRoute { src, remote, path, tos, ttl, priority, mark, .. } = *way;
        let label = if remote.is_ipv6() { self.label(id, way)? } else { FlowLabel::NONE };
        let socket = self.udp_socket(id)?;
        let mut network = network_header(src, remote.ip(), tos, ttl, protocol::UDP)
            .ok_or(SocketError::AddressNotAvailable)?;
        if let Network::Ipv6(ip) = &mut network {
            ip.flow_label = label;
        }
        if let Network::Ipv4(ip) = &mut network {
            let discovery = socket.pmtu_discovery;
            let locked = path.locked && discovery == PmtuDiscovery::Want;
            ip.dont_fragment = !way.large && !locked && discovery.sets_df();
        }
        let limit = socket.pacing_rate;
        let truesize = truesize_with(body.len, way.gso_size.into());
        let gso_size = if body.len > way.gso_size.into() { way.gso_size } else { 0 };
        let gso_segs = if gso_size == 0 { 1 } else { body.len.div_ceil(gso_size.into()) as u16 };
        socket.unsent_truesize += truesize;
        socket.told_label = way.flow_label;
        socket.told_dont_route = way.dont_route;
        let ports = Udp { src_port: socket.local.port(), dst_port: remote.port() };
        let meta = Meta { gso_size, gso_segs, priority, mark, truesize, owner, ..Meta::default() };
        let packet = Packet {
            link: LinkHeader::None,
            network,
            transport: Transport::Udp(ports),
            body,
            meta,
            ..Packet::default()
        };
        if limit != u64::MAX {
            self.limit_sender(owner, limit);
        }
        if way.dont_route {
            self.heed_scopes();
        }
        self.count(remote.is_ipv6()).udp_out_datagrams += 1;
        Ok(self.ip_output_within(now, path.bytes, &mut packet.finish()))
    }

    /// Tells every fq how fast a socket that is no connection may send, wherever its packets will leave.
    #[cold]
    pub(super) fn limit_sender(&mut self, owner: u32, rate: u64) {
        for port in &mut self.ports {
            port.qdisc_mut().limit_sender(owner, rate);
        }
    }

    /// The flow label that it was told to have, or that it has by itself.
    fn label(&mut self, id: SocketId, way: &DatagramRoute) -> Result<FlowLabel, SocketError> {
        if way.flow_label != 0 {
            return Ok(FlowLabel::new(way.flow_label));
        }
        let socket = self.udp_socket(id)?;
        let asked = socket.ipv6.and_then(|own| own.auto_flow_label);
        let (src, hash) = (SocketAddr::new(way.src, socket.local.port()), socket.hash);
        Ok(self.auto_label(src, way.remote, protocol::UDP, asked, hash))
    }

    /// The same with bytes, which are copied once.
    ///
    /// # Errors
    /// As above.
    pub fn udp_send_bytes(
        &mut self,
        now: Instant,
        id: SocketId,
        remote: SocketAddr,
        bytes: &[u8],
    ) -> Result<Enqueue, SocketError> {
        let body = self.udp_payload(bytes);
        self.udp_send(now, id, remote, body)
    }

    /// Bytes as a datagram of this host has them.
    pub(crate) fn udp_payload(&mut self, bytes: &[u8]) -> Body {
        self.payloads.get_or_insert_default().datagram(bytes)
    }

    /// The largest packet that goes to `remote` in one piece: what the interface takes, and what
    /// ICMP has told of the path, where that is believed (`ip_sk_use_pmtu`).
    pub(in crate::host) fn mtu_towards(
        &mut self,
        now: Instant,
        remote: IpAddr,
        discovery: PmtuDiscovery,
    ) -> u32 {
        self.path_towards(now, remote, discovery).bytes
    }

    /// The same, and whether it is smaller than is believed.
    pub(in crate::host) fn path_towards(
        &mut self,
        now: Instant,
        remote: IpAddr,
        discovery: PmtuDiscovery,
    ) -> PathMtu {
        self.path_by(now, remote, self.route_to(remote), discovery)
    }

    fn path_by(
        &mut self,
        now: Instant,
        remote: IpAddr,
        way: Decision,
        discovery: PmtuDiscovery,
    ) -> PathMtu {
        let Decision::Forward(hop) = way else {
            return PathMtu { bytes: LOOPBACK_MTU, locked: false };
        };
        let mtu = self.ports[usize::from(hop.port)].config.mtu;
        let told = if discovery.uses_path_mtu() { self.path_mtu(now, remote) } else { None };
        match told {
            Some(path) => PathMtu { bytes: path.bytes.min(mtu), ..path },
            None => PathMtu { bytes: mtu, locked: false },
        }
    }
}

/// The header of a packet made here; `None` if the families of the addresses differ.
pub(in crate::host) fn network_header(
    src: IpAddr,
    dst: IpAddr,
    tos: u8,
    ttl: u8,
    protocol: u8,
) -> Option<Network> {
    match (src, dst) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => {
            Some(Network::Ipv4(Ipv4 { ttl, tos, ..Ipv4::new(src, dst, protocol) }))
        }
        (IpAddr::V6(src), IpAddr::V6(dst)) => Some(Network::Ipv6(Ipv6 {
            src,
            dst,
            traffic_class: tos,
            hop_limit: ttl,
            next_header: protocol,
            flow_label: FlowLabel::NONE,
        })),
        _ => None,
    }
}
