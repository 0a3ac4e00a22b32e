//! TCP at a host: sockets, demultiplexing, listeners; the seam between a host and its
//! connections (`tcp_v4_rcv`, `inet_csk_accept`, …).

use super::udp::EPHEMERAL;
use super::{Host, Socket};
use crate::fib::Features;
use crate::node::SocketReady;
use crate::packet::{
    Body, Ipv4, Ipv6, Link, Meta, Network, Packet, Tcp, TcpFlags, TcpOptions, Transport,
};
use crate::reason::Reason;
pub use crate::tcp::TcpRead;
use crate::tcp::config::TcpConfig;
use crate::tcp::info::TcpInfo;
use crate::tcp::mib::Mib;
use crate::tcp::seq::Seq;
use crate::tcp::state::State;
use crate::tcp::{Connection, Cx, Egress, Endpoints, Handed, SocketError};
use crate::trace::Event;
use crate::units::Instant;
use core::hash::Hasher as _;
use core::net::{IpAddr, SocketAddr};
use rustc_hash::FxHashMap;
use siphasher::sip::SipHasher24;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// One TCP socket: listener or connection.
pub enum TcpSocket {
    /// Waits for connections.
    Listener(Box<Listener>),
    /// Is one.
    Connection(Box<ConnectionSocket>),
}

/// A listening socket.
#[derive(Debug)]
pub struct Listener {
    local: SocketAddr,
    config: Arc<TcpConfig>,
    /// Established, waiting for accept.
    queue: VecDeque<u32>,
    /// In the handshake.
    half_open: u32,
}

/// A connection and where it came from.
pub struct ConnectionSocket {
    connection: Connection,
    /// The listener that waits for it to be established.
    listener: Option<u32>,
}

/// What all connections of a host share.
#[derive(Debug, Default)]
pub(super) struct TcpStack {
    mib: Mib,
    connections: FxHashMap<(SocketAddr, SocketAddr), u32>,
    listeners: BTreeMap<(u16, IpAddr), u32>,
    /// Looked up last: most segments belong to the same connection as the one before.
    last: Option<((SocketAddr, SocketAddr), u32)>,
    events: Vec<Event>,
    tracing: bool,
}

/// `net.core.somaxconn`.
const BACKLOG: usize = 4_096;

impl core::fmt::Debug for TcpSocket {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Listener(listener) => write!(f, "Listener({})", listener.local),
            Self::Connection(socket) => {
                let connection = &socket.connection;
                write!(f, "Connection({} {})", connection.local(), connection.remote())
            }
        }
    }
}

impl Egress for Host {
    fn transmit(&mut self, now: Instant, packet: Packet) -> Handed {
        self.orphaned = false;
        let verdict = self.ip_output(now, packet);
        Handed { verdict, orphaned: self.orphaned }
    }
}

impl Host {
    /// Listens at `local` (`listen(2)`). An unspecified address listens at all.
    pub fn tcp_listen(&mut self, local: SocketAddr, config: &TcpConfig) -> u32 {
        let listener = Listener {
            local,
            config: Arc::new(config.clone()),
            queue: VecDeque::new(),
            half_open: 0,
        };
        let socket = TcpSocket::Listener(Box::new(listener));
        let id = self.sockets.insert(Socket::Tcp(socket));
        self.tcp_stack().listeners.insert((local.port(), local.ip()), id);
        id
    }

    /// Begins to connect (`connect(2)`, not blocking): `WRITABLE` tells when it is established.
    /// Port 0 means any; an unspecified address means that of the route.
    pub fn tcp_connect(
        &mut self,
        now: Instant,
        local: SocketAddr,
        remote: SocketAddr,
        config: &TcpConfig,
    ) -> u32 {
        let local = self.bind_local(local, remote);
        let ends = self.endpoints(now, local, remote);
        let id = self.reserve_socket();
        let config = Arc::new(config.clone());
        let connection = self.with_cx(now, |cx| Connection::connect(id, config, ends, cx));
        self.install_connection(id, connection, None);
        id
    }

    /// The next established connection of a listener (`accept(2)`).
    pub fn tcp_accept(&mut self, _now: Instant, listener: u32) -> Option<u32> {
        match self.tcp_socket_mut(listener)? {
            TcpSocket::Listener(listener) => listener.queue.pop_front(),
            TcpSocket::Connection(_) => None,
        }
    }

    /// Writes up to `bytes`; gives how many were taken (0: wait for `WRITABLE`).
    pub fn tcp_write(&mut self, now: Instant, id: u32, bytes: u64) -> u64 {
        self.with_connection(now, id, |tcp, cx| tcp.write(bytes, false, cx)).unwrap_or(0)
    }

    /// Reads up to `max` bytes.
    pub fn tcp_read(&mut self, now: Instant, id: u32, max: u64) -> TcpRead {
        if self.tcp_connection(id).is_some_and(Connection::would_block) {
            return TcpRead::WouldBlock;
        }
        self.with_connection(now, id, |tcp, cx| tcp.read(max, cx)).unwrap_or(TcpRead::Reset)
    }

    /// `shutdown(SHUT_WR)`.
    pub fn tcp_shutdown(&mut self, now: Instant, id: u32) {
        self.with_connection(now, id, Connection::shutdown_write);
    }

    /// `close(2)`.
    pub fn tcp_close(&mut self, now: Instant, id: u32) {
        match self.tcp_socket_mut(id) {
            Some(TcpSocket::Connection(_)) => {
                self.with_connection(now, id, Connection::close);
            }
            Some(TcpSocket::Listener(listener)) => {
                let key = (listener.local.port(), listener.local.ip());
                self.tcp_stack().listeners.remove(&key);
                self.sockets.remove(id);
            }
            None => {}
        }
    }

    /// Resets the connection.
    pub fn tcp_abort(&mut self, now: Instant, id: u32) {
        self.with_connection(now, id, Connection::abort);
    }

    /// `getsockopt(TCP_INFO)`; `None` if there is no such connection.
    pub fn tcp_info(&self, now: Instant, id: u32) -> Option<TcpInfo> {
        self.tcp_connection(id).map(|tcp| tcp.info(now))
    }

    /// A connection, to look at.
    pub fn tcp_connection(&self, id: u32) -> Option<&Connection> {
        match self.sockets.get(id)? {
            Socket::Tcp(TcpSocket::Connection(socket)) => Some(&socket.connection),
            _ => None,
        }
    }

    /// `getsockopt(SO_ERROR)`.
    pub fn tcp_take_error(&mut self, id: u32) -> Option<SocketError> {
        match self.tcp_socket_mut(id)? {
            TcpSocket::Connection(socket) => socket.connection.take_error(),
            TcpSocket::Listener(_) => None,
        }
    }

    /// Counters of all connections that this host has had (`nstat`).
    pub fn tcp_mib(&self) -> Mib {
        self.tcp.as_ref().map(|stack| stack.mib.clone()).unwrap_or_default()
    }

    /// Turns the event stream on or off.
    pub fn set_tracing(&mut self, on: bool) {
        self.tcp_stack().tracing = on;
    }

    /// A TCP segment for this host (`tcp_v4_rcv`).
    #[inline]
    pub(super) fn deliver_tcp(&mut self, now: Instant, packet: Packet) {
        let Some((local, remote)) = ends_of(&packet) else { return };
        match self.connection_of((local, remote)) {
            Some(id) => self.segment_for(now, id, packet),
            None => self.segment_for_listener(now, local, remote, packet),
        }
    }

    /// The same for a segment that stays where it lies. False, and nothing done, if it belongs to
    /// no connection or might open one.
    #[inline]
    pub(super) fn take_in_tcp(&mut self, now: Instant, packet: &Packet) -> bool {
        let Some(tcp) = packet.tcp() else { return false };
        if tcp.flags.contains(TcpFlags::SYN) {
            return false;
        }
        let Some(id) = ends_of(packet).and_then(|ends| self.connection_of(ends)) else {
            return false;
        };
        self.with_connection(now, id, |tcp, cx| tcp.segment_arrives(packet, cx));
        true
    }

    /// The connection between our end and the peer's (`__inet_lookup_established`).
    #[inline]
    fn connection_of(&mut self, ends: (SocketAddr, SocketAddr)) -> Option<u32> {
        let stack = self.tcp_stack();
        match stack.last {
            Some((last, id)) if last == ends => Some(id),
            _ => {
                let id = stack.connections.get(&ends).copied();
                stack.last = id.map(|id| (ends, id));
                id
            }
        }
    }

    #[inline]
    fn segment_for(&mut self, now: Instant, id: u32, packet: Packet) {
        let reopens =
            packet.tcp().is_some_and(|tcp| {
                tcp.flags.contains(TcpFlags::SYN) && !tcp.flags.contains(TcpFlags::ACK)
            }) && self.tcp_connection(id).is_some_and(|tcp| tcp.state() == State::TimeWait);
        if reopens && let Some((local, remote)) = ends_of(&packet) {
            // A new incarnation may take over an old connection's addresses (RFC 6191).
            self.forget_connection(id);
            return self.segment_for_listener(now, local, remote, packet);
        }
        self.with_connection(now, id, |tcp, cx| tcp.segment_arrives(&packet, cx));
    }

    /// No connection: perhaps a listener (`tcp_v4_rcv`, `tcp_conn_request`).
    fn segment_for_listener(
        &mut self,
        now: Instant,
        local: SocketAddr,
        remote: SocketAddr,
        packet: Packet,
    ) {
        let unspecified: IpAddr = match local.ip() {
            IpAddr::V4(_) => core::net::Ipv4Addr::UNSPECIFIED.into(),
            IpAddr::V6(_) => core::net::Ipv6Addr::UNSPECIFIED.into(),
        };
        let listeners = &self.tcp_stack().listeners;
        let listener = listeners
            .get(&(local.port(), local.ip()))
            .or_else(|| listeners.get(&(local.port(), unspecified)))
            .copied();
        let flags = packet.tcp().map_or(TcpFlags::RST, |tcp| tcp.flags);
        let is_syn = flags.contains(TcpFlags::SYN) && !flags.intersects(TcpFlags::ACK);
        if let Some(listener) = listener
            && is_syn
            && !flags.contains(TcpFlags::RST)
        {
            self.open_passively(now, listener, local, remote, &packet);
            return;
        }
        self.tcp_stack().mib.in_segs += u64::from(packet.segments());
        if !flags.contains(TcpFlags::RST) {
            self.send_reset_for(now, &packet);
        }
        self.drop_packet(Reason::NoSocket, packet);
    }

    fn open_passively(
        &mut self,
        now: Instant,
        listener: u32,
        local: SocketAddr,
        remote: SocketAddr,
        syn: &Packet,
    ) {
        let Some(TcpSocket::Listener(state)) = self.tcp_socket_mut(listener) else { return };
        if state.queue.len() + state.half_open as usize >= BACKLOG {
            return;
        }
        state.half_open += 1;
        let config = Arc::clone(&state.config);
        let ends = self.endpoints(now, local, remote);
        let id = self.reserve_socket();
        let connection = self.with_cx(now, |cx| {
            cx.mib.in_segs += 1;
            Connection::accept(id, config, ends, syn, cx)
        });
        match connection {
            Some(connection) => self.install_connection(id, connection, Some(listener)),
            None => self.sockets.release(id),
        }
    }

    /// RFC 9293 section 3.10.7.1: a segment that belongs nowhere is reset.
    fn send_reset_for(&mut self, now: Instant, packet: &Packet) {
        let Some(tcp) = packet.tcp() else { return };
        let network = reply_to(packet.network);
        let control = u32::from(tcp.flags.contains(TcpFlags::SYN))
            + u32::from(tcp.flags.contains(TcpFlags::FIN));
        let (seq, ack, flags) = if tcp.flags.contains(TcpFlags::ACK) {
            (tcp.ack, Seq(0), TcpFlags::RST)
        } else {
            let end = tcp.seq + packet.body.len + control;
            (Seq(0), end, TcpFlags::RST | TcpFlags::ACK)
        };
        let header = Tcp {
            src_port: tcp.dst_port,
            dst_port: tcp.src_port,
            seq,
            ack,
            flags,
            window: 0,
            urgent: 0,
            options: TcpOptions::default(),
        };
        self.tcp_stack().mib.out_rsts += 1;
        let reset = Packet {
            link: Link::None,
            network,
            transport: Transport::Tcp(header),
            body: Body::default(),
            meta: Meta { owner: Meta::NO_OWNER, ..Meta::default() },
            extra: None,
        };
        self.ip_output(now, reset.finish());
    }

    pub(super) fn tcp_timer(&mut self, now: Instant, id: u32) {
        self.with_connection(now, id, Connection::timers_fire);
    }

    pub(super) fn tcp_wfree(&mut self, now: Instant, id: u32, truesize: u32) {
        if let Some(TcpSocket::Connection(socket)) = self.tcp_socket_mut(id)
            && socket.connection.transmit_done(truesize)
        {
            self.with_connection(now, id, Connection::resume_output);
        }
    }

    /// Lends a connection out together with all that it needs, then hears what has changed.
    #[inline]
    fn with_connection<R>(
        &mut self,
        now: Instant,
        id: u32,
        act: impl FnOnce(&mut Connection, &mut Cx<'_>) -> R,
    ) -> Option<R> {
        let mut inner = match self.sockets.lend(id)? {
            Socket::Tcp(TcpSocket::Connection(socket)) => socket,
            other => {
                self.sockets.take_back(id, other);
                return None;
            }
        };
        let was_established = inner.connection.state() != State::SynRecv;
        let mut ready = 0;
        let result = self.with_cx(now, |cx| {
            let result = act(&mut inner.connection, cx);
            ready = cx.ready;
            result
        });
        let established = !was_established && inner.connection.state() != State::SynRecv;
        let listener = if established { inner.listener.take() } else { None };
        let failed = inner.connection.state() == State::Close;
        let dead = inner.connection.is_dead() || (failed && inner.listener.is_some());
        let wake_at = inner.connection.wake_at();
        self.sockets.take_back(id, Socket::Tcp(TcpSocket::Connection(inner)));
        if let Some(at) = wake_at {
            self.socket_timers.arm(id, at);
        }
        if ready != 0 {
            self.notify(id, ready);
        }
        if let Some(listener) = listener {
            self.established(id, listener, failed);
        }
        if dead {
            self.forget_connection(id);
        }
        Some(result)
    }

    /// A passive connection has left the handshake.
    fn established(&mut self, id: u32, listener: u32, failed: bool) {
        let Some(TcpSocket::Listener(state)) = self.tcp_socket_mut(listener) else { return };
        state.half_open = state.half_open.saturating_sub(1);
        if failed {
            self.forget_connection(id);
        } else {
            state.queue.push_back(id);
            self.notify(listener, SocketReady::READABLE);
        }
    }

    #[inline]
    fn with_cx<R>(&mut self, now: Instant, act: impl FnOnce(&mut Cx<'_>) -> R) -> R {
        let mut stack = self.tcp.take().unwrap_or_default();
        let events = stack.tracing.then_some(&mut stack.events);
        let mut cx = Cx { now, egress: self, mib: &mut stack.mib, events, ready: 0 };
        let result = act(&mut cx);
        if stack.tracing {
            self.events.extend(stack.events.drain(..));
        }
        self.tcp = Some(stack);
        result
    }

    fn tcp_stack(&mut self) -> &mut TcpStack {
        self.tcp.get_or_insert_default()
    }

    fn tcp_socket_mut(&mut self, id: u32) -> Option<&mut TcpSocket> {
        match self.sockets.get_mut(id)? {
            Socket::Tcp(socket) => Some(socket),
            _ => None,
        }
    }

    /// A number for a connection that is about to be made.
    fn reserve_socket(&mut self) -> u32 {
        let id = self.sockets.reserve();
        self.socket_timers.forget(id);
        id
    }

    fn install_connection(&mut self, id: u32, connection: Connection, listener: Option<u32>) {
        let key = (connection.local(), connection.remote());
        if let Some(at) = connection.wake_at() {
            self.socket_timers.arm(id, at);
        }
        let socket = TcpSocket::Connection(Box::new(ConnectionSocket { connection, listener }));
        self.sockets.take_back(id, Socket::Tcp(socket));
        self.tcp_stack().connections.insert(key, id);
    }

    fn forget_connection(&mut self, id: u32) {
        let Some(connection) = self.tcp_connection(id) else { return };
        let key = (connection.local(), connection.remote());
        let stack = self.tcp_stack();
        stack.connections.remove(&key);
        stack.last = None;
        self.sockets.remove(id);
        self.socket_timers.forget(id);
    }

    fn endpoints(&mut self, now: Instant, local: SocketAddr, remote: SocketAddr) -> Endpoints {
        let mtu = match self.route_to(remote.ip()) {
            crate::fib::Decision::Forward(hop) => self.ports[usize::from(hop.port)].config.mtu,
            _ => LOOPBACK_MTU,
        };
        let route = self.fib().matching(&crate::fib::RouteKey::to(remote.ip()));
        let ecn = route.is_some_and(|route| route.features.contains(Features::ECN));
        Endpoints { local, remote, mtu, iss: initial_sequence_number(now, local, remote), ecn }
    }

    /// Fills in what `local` leaves open.
    fn bind_local(&mut self, local: SocketAddr, remote: SocketAddr) -> SocketAddr {
        let mut local = local;
        if local.ip().is_unspecified()
            && let Some(source) = self.source_address(remote.ip())
        {
            local.set_ip(source);
        }
        if local.port() == 0 {
            local.set_port(self.free_tcp_port(local, remote));
        }
        local
    }

    fn free_tcp_port(&mut self, local: SocketAddr, remote: SocketAddr) -> u16 {
        for _ in EPHEMERAL {
            let last = self.sockets.last_ephemeral;
            let next = if EPHEMERAL.contains(&last) && last < *EPHEMERAL.end() {
                last + 1
            } else {
                *EPHEMERAL.start()
            };
            self.sockets.last_ephemeral = next;
            let key = (SocketAddr::new(local.ip(), next), remote);
            if !self.tcp_stack().connections.contains_key(&key) {
                return next;
            }
        }
        // EADDRNOTAVAIL has no place in the return value: 28232 connections to one remote end.
        panic!("all ephemeral ports towards {remote} are in use")
    }
}

/// Our end and the peer's of an arriving segment.
#[inline]
fn ends_of(packet: &Packet) -> Option<(SocketAddr, SocketAddr)> {
    let tcp = packet.tcp()?;
    let local = SocketAddr::new(packet.network.dst()?, tcp.dst_port);
    let remote = SocketAddr::new(packet.network.src()?, tcp.src_port);
    Some((local, remote))
}

/// The network header of an answer: ends exchanged, a fresh TTL, no ECN.
fn reply_to(network: Network) -> Network {
    match network {
        Network::Ipv4(ip) => Network::Ipv4(Ipv4 {
            src: ip.dst,
            dst: ip.src,
            tos: 0,
            ttl: DEFAULT_TTL,
            id: 0,
            dont_fragment: true,
            ..ip
        }),
        Network::Ipv6(ip) => Network::Ipv6(Ipv6 {
            src: ip.dst,
            dst: ip.src,
            traffic_class: 0,
            hop_limit: DEFAULT_TTL,
            ..ip
        }),
        other @ Network::Other(_) => other,
    }
}

/// RFC 6528: a keyed hash of the ends plus a clock of 64 ns.
fn initial_sequence_number(now: Instant, local: SocketAddr, remote: SocketAddr) -> Seq {
    let mut hasher = SipHasher24::new_with_keys(ISN_KEY.0, ISN_KEY.1);
    for end in [local, remote] {
        match end.ip() {
            IpAddr::V4(ip) => hasher.write(&ip.octets()),
            IpAddr::V6(ip) => hasher.write(&ip.octets()),
        }
        hasher.write_u16(end.port());
    }
    Seq((hasher.finish() as u32).wrapping_add((now.as_nanos() >> 6) as u32))
}

/// `IPDEFTTL`.
const DEFAULT_TTL: u8 = 64;
/// MTU of the loopback interface.
const LOOPBACK_MTU: u32 = 65_536;
/// Key of initial sequence numbers: fixed, because a run must repeat.
const ISN_KEY: (u64, u64) = (0x6163_6b77_7269_6768, 0x7469_6e69_7469_616c);
