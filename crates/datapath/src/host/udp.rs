//! UDP sockets: datagrams in, datagrams out, buffers counted in `truesize`.

use super::Host;
use super::datagram::DatagramError;
use super::socket::{Datagram, Socket, SocketError};
use super::tcp::Wakes;
use crate::fib::{Decision, Hop};
use crate::node::SocketId;
use crate::node::SocketReady;
use crate::packet::{
    Body, DEFAULT_TTL, FlowLabel, Ipv4, Ipv6, LinkHeader, Meta, Network, Packet, Transport, Udp,
    tos_to_priority,
};
use crate::reason::{Enqueue, Reason};
use crate::rng::mix;
use crate::tcp::config::{Ipv6Options, PmtuDiscovery};
use crate::tcp::{PathMtu, SocketError as NetworkError};
use crate::units::Instant;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::collections::VecDeque;

/// `net.core.rmem_default`.
pub const UDP_RECEIVE_BUFFER: u32 = 212_992;
/// `net.core.wmem_default`.
pub const UDP_SEND_BUFFER: u32 = 212_992;

/// `struct sk_buff` and the shared info that every packet in memory is charged for.
pub(super) const SKB_OVERHEAD: u32 = 768;
/// Largest packet of a host to itself (`lo`).
pub(super) const LOOPBACK_MTU: u32 = 65_536;

/// What control messages say of one datagram (`struct ipcm_cookie`, `struct ipcm6_cookie`).
#[derive(Clone, Copy, Debug, Default)]
pub struct IpcmCookie {
    /// Its source (`IP_PKTINFO`, `IPV6_PKTINFO`).
    pub source: Option<IpAddr>,
    /// Its traffic class, from which its priority follows over IPv4 (`IP_TOS`, `IPV6_TCLASS`).
    pub tos: Option<u8>,
    /// Its TTL or hop limit (`IP_TTL`, `IPV6_HOPLIMIT`).
    pub ttl: Option<u8>,
    /// It is to be cut into datagrams of so many bytes (`UDP_SEGMENT`); 0: not.
    pub gso_size: u16,
    /// It must not be fragmented (`IPV6_DONTFRAG`).
    pub dont_fragment: bool,
    /// It goes to neighbours only (`MSG_DONTROUTE`, `SO_DONTROUTE`).
    pub dont_route: bool,
}

/// With whom a socket may share its address.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct UdpSharing {
    /// `IPV6_V6ONLY`: the address of all of IPv6 is none of IPv4.
    pub v6_only: bool,
    /// `SO_REUSEADDR`.
    pub address: bool,
    /// `SO_REUSEPORT`.
    pub port: bool,
}

/// How a datagram goes: from where, in packets of which size.
pub(crate) struct Way {
    src: IpAddr,
    path: PathMtu,
    /// It is cut into fragments.
    large: bool,
}

/// `UDP_MAX_SEGMENTS`: datagrams of one call.
const MAX_SEGMENTS: u32 = 128;

/// One UDP socket.
#[derive(Debug)]
pub struct UdpSocket {
    /// Where it is bound.
    pub local: SocketAddr,
    /// Receive buffer in bytes of truesize (`SO_RCVBUF`).
    pub receive_buffer: u32,
    /// Send buffer in bytes of truesize (`SO_SNDBUF`).
    pub send_buffer: u32,
    /// Traffic class of what it sends (`IP_TOS`).
    pub tos: u8,
    /// Time to live of what it sends over IPv4 (`IP_TTL`).
    pub ttl: u8,
    /// Hop limit of what it sends over IPv6 (`IPV6_UNICAST_HOPS`).
    pub hop_limit: u8,
    /// `skb->priority` of what it sends (`SO_PRIORITY`).
    pub priority: u32,
    /// What to do with datagrams larger than the path takes (`IP_MTU_DISCOVER`).
    pub pmtu_discovery: PmtuDiscovery,
    /// Errors are told at once, and kept with what they are about (`IP_RECVERR`).
    pub recverr: bool,
    /// What an `AF_INET6` socket keeps for what goes over IPv6; without it that goes by the options of IPv4.
    pub ipv6: Option<Ipv6Options>,
    /// The largest packet over IPv6 that it makes (`IPV6_MTU`), bytes.
    pub frag_size: Option<u32>,
    /// `skb->mark` of what it sends (`SO_MARK`).
    pub mark: u32,
    /// An IPv6 socket without IPv4 (`IPV6_V6ONLY`).
    pub v6_only: bool,
    /// Its address may be shared with others that say so as well (`SO_REUSEADDR`): the youngest hears what comes.
    pub reuse_address: bool,
    /// The same, and those who share it divide what comes by who sends it (`SO_REUSEPORT`).
    pub reuse_port: bool,
    /// Datagrams that did not fit in the receive buffer (`RcvbufErrors`).
    pub receive_drops: u64,
    /// The only one that it talks to, if it is connected.
    pub(super) peer: Option<SocketAddr>,
    /// What the network has complained about (`sk_err`).
    pub(super) error: Option<NetworkError>,
    /// ICMP errors with `recverr`.
    pub(super) errors: VecDeque<DatagramError>,
    /// How often its waiters were woken.
    pub(super) wakes: Wakes,
    received: VecDeque<Datagram>,
    received_truesize: u32,
    /// `sk_wmem_alloc`: truesize of what is queued below and not yet sent.
    unsent_truesize: u32,
    wants_room: bool,
}

impl UdpSocket {
    fn new(local: SocketAddr) -> Self {
        Self {
            local,
            receive_buffer: UDP_RECEIVE_BUFFER,
            send_buffer: UDP_SEND_BUFFER,
            tos: 0,
            ttl: DEFAULT_TTL,
            hop_limit: DEFAULT_TTL,
            priority: 0,
            pmtu_discovery: PmtuDiscovery::default(),
            recverr: false,
            ipv6: None,
            frag_size: None,
            mark: 0,
            v6_only: false,
            reuse_address: false,
            reuse_port: false,
            receive_drops: 0,
            peer: None,
            error: None,
            errors: VecDeque::new(),
            wakes: Wakes::default(),
            received: VecDeque::new(),
            received_truesize: 0,
            unsent_truesize: 0,
            wants_room: false,
        }
    }

    /// `IP_MTU_DISCOVER`, or IPv6's where that is spoken.
    pub(super) fn discovery(&self, ipv6: bool) -> PmtuDiscovery {
        self.ipv6.filter(|_| ipv6).map_or(self.pmtu_discovery, |own| own.pmtu_discovery)
    }

    /// `IP_RECVERR`, or IPv6's where that is spoken.
    pub fn wants_errors(&self, ipv6: bool) -> bool {
        self.ipv6.filter(|_| ipv6).map_or(self.recverr, |own| own.recverr)
    }

    /// A packet of this socket has left or was dropped. True if there is now room and somebody may wait
    /// for it: a writer, or who polls (`sock_def_write_space`: half of the buffer free).
    pub(super) fn give_back(&mut self, truesize: u32) -> bool {
        let had_room = self.is_writable();
        self.unsent_truesize =
            self.unsent_truesize.checked_sub(truesize).expect("more given back than was taken");
        let woken = (self.wants_room || !had_room) && self.is_writable();
        self.wants_room &= !woken;
        self.wakes.write += u32::from(woken);
        woken
    }

    /// Half of the send buffer is free (`sock_writeable`).
    pub fn is_writable(&self) -> bool {
        self.unsent_truesize * 2 <= self.send_buffer
    }

    /// The datagram that will be read next.
    pub fn first(&self) -> Option<&Datagram> {
        self.received.front()
    }

    /// What is queued to be sent, and not yet gone, in bytes of truesize (`SIOCOUTQ`).
    pub fn unsent(&self) -> u32 {
        self.unsent_truesize
    }

    /// Queues what arrived; false if the receive buffer is full (`__udp_enqueue_schedule_skb`).
    fn accept(&mut self, datagram: Datagram) -> bool {
        self.check();
        if self.received_truesize > self.receive_buffer {
            self.receive_drops += 1;
            return false;
        }
        self.received_truesize += truesize_of(datagram.body.len);
        self.received.push_back(datagram);
        self.wakes.read = self.wakes.read.wrapping_add(1);
        true
    }

    fn read(&mut self) -> Option<Datagram> {
        let datagram = self.received.pop_front()?;
        self.received_truesize -= truesize_of(datagram.body.len);
        self.check();
        Some(datagram)
    }

    /// What the receive buffer is charged is what waits in it (`sk_rmem_alloc`).
    fn check(&self) {
        let waits = || self.received.iter().map(|one| u64::from(truesize_of(one.body.len))).sum();
        debug_assert_eq!(u64::from(self.received_truesize), waits(), "the receive buffer's charge");
    }
}

/// What a packet with `payload` bytes is charged as: its buffer rounded up to a power of two as
/// the slab allocator does, and the packet's own record.
pub(super) fn truesize_of(payload: u32) -> u32 {
    (payload + 64).next_power_of_two().max(512) + SKB_OVERHEAD
}

impl Host {
    /// Opens a UDP socket at `local`; port 0 means any free port, an unspecified address means
    /// all addresses.
    ///
    /// # Errors
    /// The address is in use, or no port is free.
    pub fn udp_bind(&mut self, now: Instant, local: SocketAddr) -> Result<SocketId, SocketError> {
        // An address of IPv4 and that of all IPv6 are two, for those who do not say otherwise.
        self.udp_bind_with(now, local, UdpSharing { v6_only: true, ..UdpSharing::default() })
    }

    /// The same for a socket that may share its address with others.
    ///
    /// # Errors
    /// As above.
    pub(crate) fn udp_bind_with(
        &mut self,
        now: Instant,
        local: SocketAddr,
        sharing: UdpSharing,
    ) -> Result<SocketId, SocketError> {
        self.begin_syscall(now);
        let local = self.udp_free_address(local, sharing)?;
        let id = self.sockets.insert(Socket::Udp(Box::new(UdpSocket::new(local))));
        self.sockets.hash_udp(local, id);
        Ok(self.sockets.id(id))
    }

    /// An address that a socket may be bound to, with a port if none is asked for.
    pub(super) fn udp_free_address(
        &mut self,
        local: SocketAddr,
        sharing: UdpSharing,
    ) -> Result<SocketAddr, SocketError> {
        let port = match local.port() {
            0 => self.free_udp_port(local.ip(), sharing)?,
            _ if self.udp_port_is_taken(local, sharing) => return Err(SocketError::AddressInUse),
            port => port,
        };
        Ok(SocketAddr::new(local.ip(), port))
    }

    fn free_udp_port(&mut self, ip: IpAddr, sharing: UdpSharing) -> Result<u16, SocketError> {
        let alone = UdpSharing { v6_only: sharing.v6_only, ..UdpSharing::default() };
        for _ in 0..self.sockets.ephemeral.count() {
            let port = self.sockets.ephemeral.next();
            if !self.udp_port_is_taken(SocketAddr::new(ip, port), alone) {
                return Ok(port);
            }
        }
        Err(SocketError::AddressNotAvailable)
    }

    /// A UDP socket, to set its options.
    ///
    /// # Errors
    /// It is not an open UDP socket.
    pub fn udp_socket(&mut self, id: SocketId) -> Result<&mut UdpSocket, SocketError> {
        let slot = self.sockets.slot(id)?;
        match self.sockets.get_mut(slot) {
            Some(Socket::Udp(socket)) => Ok(socket),
            _ => Err(SocketError::WrongKind),
        }
    }

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
        if segment == 0 || body.len <= segment {
            return self.udp_transmit(now, id, remote, body, cookie, &way);
        }
        // What a device would cut (`UDP_SEGMENT`) is cut here. Who gives a datagram of many has room for all.
        let mut verdict = Enqueue::Queued;
        for from in (0..body.len).step_by(segment as usize) {
            let part = body.window(from, segment.min(body.len - from));
            verdict = self.udp_transmit(now, id, remote, part, cookie, &way)?;
        }
        Ok(verdict)
    }

    /// Whether `len` bytes may go to `remote`, and how (`ip_route_output_flow`, `__ip_append_data`). What is too long is told
    /// to who has asked for errors as well.
    ///
    /// # Errors
    /// `Unreachable`, `MessageSize`, `InvalidArgument`.
    pub(crate) fn udp_way(
        &mut self,
        now: Instant,
        id: SocketId,
        remote: SocketAddr,
        len: u32,
        cookie: &IpcmCookie,
    ) -> Result<Way, SocketError> {
        let ipv6 = remote.is_ipv6();
        let way = self.route_to(remote.ip());
        let gateway = matches!(way, Decision::Forward(Hop { gateway: Some(_), .. }));
        if way == Decision::NoRoute || gateway && cookie.dont_route && !ipv6 {
            return Err(SocketError::Unreachable);
        }
        let src = match cookie.source.unwrap_or(self.open_udp(id)?.local.ip()) {
            ip if ip.is_unspecified() => {
                self.source_address(remote.ip()).ok_or(SocketError::Unreachable)?
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
        if len > most || large && (whole || cookie.dont_fragment || segment != 0) {
            if segment == 0 {
                socket.local_error(remote, path.bytes);
            }
            return Err(SocketError::MessageSize);
        }
        if segment != 0 && len > segment * MAX_SEGMENTS {
            return Err(SocketError::InvalidArgument);
        }
        // What fits into the device's packets is not cut, whatever `IPV6_MTU` says.
        let fits = whole_len <= device;
        Ok(Way {
            src,
            path: if fits { PathMtu { bytes: device, ..path } } else { path },
            large: !fits,
        })
    }

    /// One packet, for which there is room.
    fn udp_transmit(
        &mut self,
        now: Instant,
        id: SocketId,
        remote: SocketAddr,
        body: Body,
        cookie: &IpcmCookie,
        way: &Way,
    ) -> Result<Enqueue, SocketError> {
        let owner = self.sockets.slot(id)?;
        let socket = self.udp_socket(id)?;
        let ipv6 = remote.is_ipv6();
        let (tos, ttl) = match socket.ipv6 {
            Some(own) if ipv6 => (own.traffic_class, socket.hop_limit),
            _ if ipv6 => (socket.tos, socket.hop_limit),
            _ => (socket.tos, socket.ttl),
        };
        let (tos, ttl) = (cookie.tos.unwrap_or(tos), cookie.ttl.unwrap_or(ttl));
        let mut network = network_header(way.src, remote.ip(), tos, ttl, PROTO_UDP)
            .ok_or(SocketError::AddressNotAvailable)?;
        if let Network::Ipv4(ip) = &mut network {
            let discovery = socket.discovery(false);
            let locked = way.path.locked && discovery == PmtuDiscovery::Want;
            ip.dont_fragment = !way.large && !locked && discovery.sets_df();
        }
        let truesize = truesize_of(body.len);
        socket.unsent_truesize += truesize;
        let ports = Udp { src_port: socket.local.port(), dst_port: remote.port() };
        let priority = match cookie.tos {
            Some(tos) if !ipv6 => tos_to_priority(tos),
            _ => socket.priority,
        };
        let mark = socket.mark;
        let meta = Meta { priority, mark, truesize, owner, ..Meta::default() };
        let packet = Packet {
            link: LinkHeader::None,
            network,
            transport: Transport::Udp(ports),
            body,
            meta,
            ..Packet::default()
        };
        self.count(ipv6).udp_out_datagrams += 1;
        Ok(self.ip_output_within(now, way.path.bytes, &mut packet.finish()))
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
    pub(super) fn mtu_towards(
        &mut self,
        now: Instant,
        remote: IpAddr,
        discovery: PmtuDiscovery,
    ) -> u32 {
        self.path_towards(now, remote, discovery).bytes
    }

    /// The same, and whether it is smaller than is believed.
    pub(super) fn path_towards(
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
        let believes =
            matches!(discovery, PmtuDiscovery::Want | PmtuDiscovery::Do | PmtuDiscovery::Dont);
        let told = if believes { self.path_mtu(now, remote) } else { None };
        match told {
            Some(path) => PathMtu { bytes: path.bytes.min(mtu), ..path },
            None => PathMtu { bytes: mtu, locked: false },
        }
    }

    /// The next datagram that arrived on a UDP or ping socket; `None` if there is none.
    ///
    /// # Errors
    /// It is not an open UDP or ping socket.
    pub fn datagram_read(&mut self, id: SocketId) -> Result<Option<Datagram>, SocketError> {
        let slot = self.sockets.slot(id)?;
        match self.sockets.get_mut(slot) {
            Some(Socket::Udp(socket)) => {
                let datagram = socket.read();
                if let Some(datagram) = &datagram {
                    self.count(datagram.from.is_ipv6()).udp_in_datagrams += 1;
                }
                Ok(datagram)
            }
            Some(Socket::Ping(replies)) => Ok(replies.pop_front()),
            _ => Err(SocketError::WrongKind),
        }
    }

    /// Closes a UDP or ping socket.
    ///
    /// # Errors
    /// It is not an open UDP or ping socket.
    pub fn datagram_close(&mut self, id: SocketId) -> Result<(), SocketError> {
        let slot = self.sockets.slot(id)?;
        match self.sockets.get(slot) {
            Some(Socket::Udp(socket)) => {
                let local = socket.local;
                self.sockets.unhash_udp(local, slot);
            }
            Some(Socket::Ping(_)) => self.forget_ping(slot),
            _ => return Err(SocketError::WrongKind),
        }
        self.sockets.remove(slot);
        Ok(())
    }

    /// A datagram for this host (`udp_rcv`).
    pub(super) fn deliver_udp(&mut self, now: Instant, udp: Udp, packet: Packet) {
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
        let datagram = Datagram { from, to, body: packet.body.clone(), tos, ttl, at: now };
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
    pub(super) fn udp_lookup(&self, local: SocketAddr, remote: SocketAddr) -> Option<u32> {
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

pub(super) const PROTO_ICMP: u8 = 1;
pub(super) const PROTO_UDP: u8 = 17;
pub(super) const PROTO_ICMPV6: u8 = 58;

/// The header of a packet made here; `None` if the families of the addresses differ.
pub(super) fn network_header(
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
