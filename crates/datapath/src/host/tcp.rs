//! TCP at a host: sockets, demultiplexing, listeners; the seam between a host and its
//! connections (`tcp_v4_rcv`, `inet_csk_accept`, …).

use super::listener::Listener;
use super::udp::EPHEMERAL;
use super::{Host, Socket};
use crate::fib::Features;
use crate::node::SocketReady;
use crate::packet::{
    Body, Ipv4, Ipv6, Link, Meta, Network, Packet, Tcp, TcpFlags, TcpOptions, Transport,
};
use crate::profile::DctcpAck;
use crate::reason::Reason;
pub use crate::tcp::TcpRead;
use crate::tcp::cc::{Algorithm, dctcp};
use crate::tcp::config::{SysctlError, TcpConfig};
use crate::tcp::info::TcpInfo;
use crate::tcp::mib::Mib;
use crate::tcp::seq::Seq;
use crate::tcp::shared::Shared;
use crate::tcp::state::State;
use crate::tcp::{Connection, Cx, Egress, Endpoints, Gate, Handed, SocketError};
use crate::trace::Event;
use crate::units::{Duration, Instant};
use core::hash::Hasher as _;
use core::net::{IpAddr, SocketAddr};
use rustc_hash::FxHashMap;
use siphasher::sip::SipHasher24;
use std::collections::BTreeMap;
use std::sync::Arc;

/// One TCP socket: listener or connection.
pub enum TcpSocket {
    /// Waits for connections.
    Listener(Box<Listener>),
    /// Is one.
    Connection(Box<ConnectionSocket>),
}

/// A connection and where it came from.
pub struct ConnectionSocket {
    pub(super) connection: Connection,
    /// The listener that waits for it to be established.
    pub(super) listener: Option<u32>,
    /// It stands in the accept queue although the handshake is not over (Fast Open).
    pub(super) queued: bool,
    /// The application has it.
    pub(super) accepted: bool,
    /// Segments find it (`inet_hash`).
    hashed: bool,
    /// Which state of the routes it knows.
    routes_seen: u32,
    /// How often its waiters were woken.
    pub(super) wakes: Wakes,
}

/// How often the waiters of a socket have been woken, by what for (`sk_data_ready`,
/// `sk_write_space`). Edge-triggered readiness is a change of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Wakes {
    /// For data, connections, ends.
    pub read: u32,
    /// For space.
    pub write: u32,
    /// For errors and changes of state.
    pub state: u32,
}

impl Wakes {
    pub(super) fn count(&mut self, ready: u8) {
        self.read += u32::from(ready & SocketReady::READABLE != 0);
        self.write += u32::from(ready & SocketReady::WRITABLE != 0);
        self.state += u32::from(ready & (SocketReady::ERROR | SocketReady::HANGUP) != 0);
    }

    /// All of them.
    pub const fn total(self) -> u32 {
        self.read.wrapping_add(self.write).wrapping_add(self.state)
    }
}

/// What all connections of a host share.
#[derive(Debug, Default)]
pub(super) struct TcpStack {
    pub(super) mib: Mib,
    pub(super) shared: Shared,
    /// What new sockets begin with.
    pub(super) defaults: TcpConfig,
    /// Counts changes of the defaults.
    sysctl_version: u32,
    connections: FxHashMap<(SocketAddr, SocketAddr), u32>,
    pub(super) listeners: BTreeMap<(u16, IpAddr), u32>,
    /// Path MTUs that ICMP has told, by destination, and when they are to be forgotten.
    pub(super) path_mtus: BTreeMap<IpAddr, (u32, Instant)>,
    /// Looked up last: most segments belong to the same connection as the one before.
    last: Option<((SocketAddr, SocketAddr), u32)>,
    events: Vec<Event>,
    tracing: bool,
}

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
        self.paced = false;
        let verdict = self.ip_output(now, packet);
        Handed { verdict, orphaned: self.orphaned, paced: self.paced }
    }

    fn learn_path_mtu(&mut self, now: Instant, remote: IpAddr, mtu: u32) {
        self.learnt_mtu = Some((remote, mtu, now));
    }
}

impl Host {
    /// Begins to connect (`connect(2)`, not blocking): `WRITABLE` tells when it is established.
    /// Port 0 means any; an unspecified address means that of the route.
    pub fn tcp_connect(
        &mut self,
        now: Instant,
        local: SocketAddr,
        remote: SocketAddr,
        config: &TcpConfig,
    ) -> u32 {
        self.tcp_connect_with(now, local, remote, config, None)
    }

    /// The same, with data to send: as much of it goes with the SYN as Fast Open allows.
    pub fn tcp_connect_with(
        &mut self,
        now: Instant,
        local: SocketAddr,
        remote: SocketAddr,
        config: &TcpConfig,
        fast_open: Option<u64>,
    ) -> u32 {
        let local = self.bind_local(local, remote);
        let ends = self.endpoints(now, local, remote, config);
        let id = self.reserve_socket();
        let config = Arc::new(config.clone());
        let gate = Gate::default();
        let connection =
            self.with_cx(now, gate, |cx| Connection::connect(id, config, ends, fast_open, cx));
        self.install_connection(id, connection, None);
        id
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
            Some(TcpSocket::Listener(_)) => self.close_listener(now, id),
            None => {}
        }
    }

    /// Lends a connection out for one call.
    pub fn with_tcp<R>(
        &mut self,
        now: Instant,
        id: u32,
        act: impl FnOnce(&mut Connection, &mut Cx<'_>) -> R,
    ) -> Option<R> {
        self.with_connection(now, id, act)
    }

    /// How often the waiters of a TCP socket have been woken.
    pub fn tcp_wakes(&self, id: u32) -> Wakes {
        match self.sockets.get(id) {
            Some(Socket::Tcp(TcpSocket::Connection(socket))) => socket.wakes,
            Some(Socket::Tcp(TcpSocket::Listener(listener))) => listener.wakes,
            _ => Wakes::default(),
        }
    }

    /// Every TCP socket: its ends and its state (`/proc/net/tcp`). The remote end of a listener is
    /// unspecified.
    pub fn tcp_sockets(&self) -> impl Iterator<Item = (SocketAddr, SocketAddr, State)> {
        self.sockets.iter().filter_map(|socket| match socket {
            Socket::Tcp(TcpSocket::Connection(socket)) => {
                let tcp = &socket.connection;
                Some((tcp.local(), tcp.remote(), tcp.state()))
            }
            Socket::Tcp(TcpSocket::Listener(listener)) => {
                let any = SocketAddr::new(unspecified_like(listener.local.ip()), 0);
                Some((listener.local, any, State::Listen))
            }
            _ => None,
        })
    }

    /// What new sockets begin with: the host's sysctls and its kernel.
    pub fn tcp_defaults(&self) -> TcpConfig {
        self.tcp.as_ref().map(|stack| stack.defaults.clone()).unwrap_or_default()
    }

    /// Sets what new sockets begin with. Sockets that exist keep what they have.
    pub fn set_tcp_defaults(&mut self, defaults: TcpConfig) {
        let stack = self.tcp_stack();
        stack.defaults = defaults;
        stack.sysctl_version += 1;
    }

    /// Counts changes of the sysctls.
    #[inline]
    pub fn tcp_sysctl_version(&self) -> u32 {
        self.tcp.as_ref().map_or(0, |stack| stack.sysctl_version)
    }

    /// Writes one of the `net.ipv4.*` sysctls, as text. All sockets read it from now on; buffer
    /// sizes and the congestion control hold for new ones.
    ///
    /// # Errors
    /// There is no such sysctl, or it cannot have that value.
    pub fn set_tcp_sysctl(&mut self, name: &str, value: &str) -> Result<(), SysctlError> {
        let stack = self.tcp_stack();
        stack.sysctl_version += 1;
        let defaults = &mut stack.defaults;
        if matches!(name, "tcp_congestion_control" | "net.ipv4.tcp_congestion_control") {
            let algorithm = Algorithm::by_name(value.trim())
                .ok_or_else(|| SysctlError::Value(format!("no congestion control {value}")))?;
            defaults.congestion_control = algorithm;
            return Ok(());
        }
        defaults.sysctl.set(name, value)?;
        let sysctl = defaults.sysctl.clone();
        for socket in self.sockets.iter_mut() {
            match socket {
                Socket::Tcp(TcpSocket::Connection(socket)) => {
                    socket.connection.config_mut().sysctl = sysctl.clone();
                }
                Socket::Tcp(TcpSocket::Listener(listener)) => {
                    Arc::make_mut(&mut listener.config).sysctl = sysctl.clone();
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Writes a parameter of the DCTCP module (`/sys/module/tcp_dctcp/parameters`), and ours beside
    /// them, `dctcp_ack`. It is for sockets to come.
    ///
    /// # Errors
    /// There is no such parameter, or it cannot have that value.
    pub fn set_dctcp_parameter(&mut self, name: &str, value: &str) -> Result<(), SysctlError> {
        let defaults = &mut self.tcp_stack().defaults;
        let number = |most: u32| {
            let number = value.trim().parse().ok().filter(|number| *number <= most);
            number.ok_or_else(|| SysctlError::Value(format!("{name} takes 0 to {most}")))
        };
        match name {
            "dctcp_shift_g" => defaults.dctcp.shift_g = number(10)? as u8,
            "dctcp_alpha_on_init" => defaults.dctcp.alpha_on_init = number(dctcp::MAX_ALPHA)?,
            "dctcp_ack" => {
                let rule = DctcpAck::by_name(value.trim()).ok_or_else(|| {
                    let names = DctcpAck::ALL.map(DctcpAck::name).join(" or ");
                    SysctlError::Value(format!("{name} takes {names}"))
                })?;
                defaults.profile = defaults.profile.clone().with_dctcp_ack(rule);
            }
            _ => return Err(SysctlError::Unknown),
        }
        Ok(())
    }

    /// Forgets what was learnt about peers (`ip tcp_metrics flush`).
    pub fn flush_tcp_metrics(&mut self) {
        self.tcp_stack().shared.metrics.clear();
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

    /// Every connection, in the order of their numbers.
    pub fn tcp_connections(&self) -> impl Iterator<Item = &Connection> {
        (0..self.sockets.numbers()).filter_map(|id| self.tcp_connection(id))
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
    pub(super) fn connection_of(&mut self, ends: (SocketAddr, SocketAddr)) -> Option<u32> {
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
        let reopens = self.tcp_connection(id).is_some_and(|tcp| tcp.yields_to(&packet));
        if reopens && let Some((local, remote)) = ends_of(&packet) {
            // A new incarnation may take over an old connection's addresses (RFC 6191).
            self.unhash(id, (local, remote));
            self.with_connection(now, id, Connection::retire);
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
        let listener = self.listener_for(local);
        let flags = packet.tcp().map_or(TcpFlags::RST, |tcp| tcp.flags);
        if let Some(listener) = listener
            && self.segment_at_listener(now, listener, local, remote, &packet)
        {
            return;
        }
        self.tcp_stack().mib.in_segs += u64::from(packet.segments());
        if !flags.contains(TcpFlags::RST) {
            self.send_reset_for(now, &packet);
        }
        self.drop_packet(Reason::NoSocket, packet);
    }

    /// RFC 9293 section 3.10.7.1: a segment that belongs nowhere is reset.
    pub(super) fn send_reset_for(&mut self, now: Instant, packet: &Packet) {
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
    pub(super) fn with_connection<R>(
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
        let gate = match inner.listener {
            Some(listener) => self.gate_of(listener, &inner),
            None => Gate::default(),
        };
        let mut ready = 0;
        let result = self.with_cx(now, gate, |cx| {
            let result = act(&mut inner.connection, cx);
            ready = cx.ready;
            result
        });
        if inner.routes_seen != self.routes_version {
            inner.routes_seen = self.routes_version;
            self.route_again(now, &mut inner.connection);
        }
        let state = inner.connection.state();
        let established = !was_established && state != State::SynRecv;
        let listener = if established { inner.listener.take() } else { None };
        let failed = state == State::Close;
        let queued = inner.queued;
        let dead = inner.connection.is_dead() || (failed && !queued && inner.listener.is_some());
        let unhash = failed && core::mem::take(&mut inner.hashed);
        let wake_at = inner.connection.wake_at();
        inner.wakes.count(ready);
        let ends = (inner.connection.local(), inner.connection.remote());
        self.sockets.take_back(id, Socket::Tcp(TcpSocket::Connection(inner)));
        if let Some(at) = wake_at {
            self.socket_timers.arm(id, at);
        }
        if ready != 0 {
            self.notify(id, ready);
        }
        if unhash {
            self.unhash(id, ends);
        }
        if let Some(listener) = listener {
            self.left_handshake(now, id, listener, failed, queued);
        }
        if dead {
            self.forget_connection(id);
        }
        Some(result)
    }

    /// The routes have changed: what they say about a connection's path (`__sk_dst_check`). The
    /// packets of the call that has just been made went by the old ones.
    #[cold]
    fn route_again(&mut self, now: Instant, connection: &mut Connection) {
        let (local, remote) = (connection.local(), connection.remote());
        let ends = self.endpoints(now, local, remote, connection.config());
        connection.route_changed(&ends);
    }

    /// Segments do not find a closed connection any more (`inet_unhash`).
    #[cold]
    fn unhash(&mut self, id: u32, ends: (SocketAddr, SocketAddr)) {
        let stack = self.tcp_stack();
        if stack.connections.get(&ends) == Some(&id) {
            stack.connections.remove(&ends);
        }
        stack.last = None;
    }

    #[inline]
    pub(super) fn with_cx<R>(
        &mut self,
        now: Instant,
        gate: Gate,
        act: impl FnOnce(&mut Cx<'_>) -> R,
    ) -> R {
        let mut stack = self.tcp.take().unwrap_or_default();
        let events = stack.tracing.then_some(&mut stack.events);
        let mut cx = Cx {
            now,
            egress: self,
            mib: &mut stack.mib,
            events,
            ready: 0,
            shared: &mut stack.shared,
            gate,
        };
        let result = act(&mut cx);
        if stack.tracing {
            self.events.extend(stack.events.drain(..));
        }
        self.tcp = Some(stack);
        if self.learnt_mtu.is_some() {
            self.keep_path_mtu();
        }
        result
    }

    pub(super) fn tcp_stack(&mut self) -> &mut TcpStack {
        self.tcp.get_or_insert_default()
    }

    pub(super) fn tcp_socket_mut(&mut self, id: u32) -> Option<&mut TcpSocket> {
        match self.sockets.get_mut(id)? {
            Socket::Tcp(socket) => Some(socket),
            _ => None,
        }
    }

    /// A number for a connection that is about to be made.
    pub(super) fn reserve_socket(&mut self) -> u32 {
        let id = self.sockets.reserve();
        self.socket_timers.forget(id);
        id
    }

    pub(super) fn install_connection(
        &mut self,
        id: u32,
        connection: Connection,
        listener: Option<u32>,
    ) {
        let key = (connection.local(), connection.remote());
        if let Some(at) = connection.wake_at() {
            self.socket_timers.arm(id, at);
        }
        let queued = connection.is_passive_fast_open();
        let hashed = connection.state() != State::Close;
        let socket = TcpSocket::Connection(Box::new(ConnectionSocket {
            connection,
            listener,
            queued,
            accepted: false,
            hashed,
            routes_seen: self.routes_version,
            wakes: Wakes::default(),
        }));
        self.sockets.take_back(id, Socket::Tcp(socket));
        if hashed {
            self.tcp_stack().connections.insert(key, id);
        }
    }

    pub(super) fn forget_connection(&mut self, id: u32) {
        let Some(connection) = self.tcp_connection(id) else { return };
        let ends = (connection.local(), connection.remote());
        self.unhash(id, ends);
        self.sockets.remove(id);
        self.socket_timers.forget(id);
    }

    /// The ends of a connection with what the route says.
    pub(super) fn endpoints(
        &mut self,
        now: Instant,
        local: SocketAddr,
        remote: SocketAddr,
        config: &TcpConfig,
    ) -> Endpoints {
        let mut mtu = match self.route_to(remote.ip()) {
            crate::fib::Decision::Forward(hop) => self.ports[usize::from(hop.port)].config.mtu,
            _ => LOOPBACK_MTU,
        };
        let matching = self.fib().matching(&crate::fib::RouteKey::to(remote.ip()));
        let ecn = matching.as_ref().is_some_and(|route| route.features.contains(Features::ECN));
        let route = matching.map(|route| route.metrics).unwrap_or_default();
        if route.mtu > 0 {
            mtu = mtu.min(route.mtu);
        }
        // MSS follows the route; what ICMP has told narrows the path only.
        let advertised = mtu;
        if !route.mtu_locked && config.sysctl.ip_no_pmtu_disc == 0 {
            mtu = mtu.min(self.path_mtu(now, remote.ip()).unwrap_or(mtu));
        }
        let iss = initial_sequence_number(now, local, remote);
        Endpoints { local, remote, mtu, advertised_mtu: advertised, iss, ecn, route }
    }

    /// What ICMP has told about the path to `remote`.
    fn path_mtu(&mut self, now: Instant, remote: IpAddr) -> Option<u32> {
        let paths = &mut self.tcp_stack().path_mtus;
        let &(mtu, until) = paths.get(&remote)?;
        if until <= now {
            paths.remove(&remote);
            return None;
        }
        Some(mtu)
    }

    /// Keeps what a connection has learnt about its path (`update_or_create_fnhe`).
    #[cold]
    fn keep_path_mtu(&mut self) {
        let Some((remote, mtu, now)) = self.learnt_mtu.take() else { return };
        let stack = self.tcp_stack();
        let expires = u64::from(stack.defaults.sysctl.mtu_expires);
        let until = now + Duration::from_secs(expires);
        stack.path_mtus.insert(remote, (mtu, until));
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

    /// Whether there is a connection between these ends.
    pub(super) fn is_connected(&mut self, local: SocketAddr, remote: SocketAddr) -> bool {
        self.tcp_stack().connections.contains_key(&(local, remote))
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

/// The address that stands for all of the family of `ip`.
pub(super) fn unspecified_like(ip: IpAddr) -> IpAddr {
    match ip {
        IpAddr::V4(_) => core::net::Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => core::net::Ipv6Addr::UNSPECIFIED.into(),
    }
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
