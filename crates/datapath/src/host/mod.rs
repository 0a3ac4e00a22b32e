//! A host or a router: ports with queues, routes and sockets, as one [`Node`].
//!
//! The path of a packet, by the kernel's names: `receive` is `ip_rcv`; what is not for this host
//! goes through [`ip`] (`ip_forward`) to [`Host::ip_output`] and into the queue of a port
//! (`__dev_queue_xmit`); what is for this host goes to [`icmp`], [`udp`] or [`tcp`].
//!
//! `poll` is O(1) amortised: ports that may send stand in a list, sockets that have become ready
//! and packets that were dropped in queues of their own. An idle host costs less than 2 KiB.

mod buffer;
mod datagram;
mod foresee;
mod fragment;
mod gro;
mod icmp;
mod ip;
mod listener;
mod outbox;
mod port;
mod ports;
mod reassembly;
mod route_cache;
mod snmp;
mod socket;
mod tcp;
mod timers;
mod udp;
mod unusual;

pub use buffer::SharedBuffer;
pub use datagram::DatagramError;
pub use listener::{Listener, SOMAXCONN};
pub use outbox::{Outbox, Wants};
pub use port::{HostPort, Offloads, PortConfig, PortStats};
pub use snmp::{IpStats, Snmp};
pub use socket::{Datagram, Socket, SocketError, Sockets};
pub use tcp::{TcpRead, TcpSocket, Wakes};
pub use timers::LazyTimers;
pub use udp::{UDP_RECEIVE_BUFFER, UDP_SEND_BUFFER, UdpSocket};

use crate::fib::source::Own;
use crate::fib::{Decision, Fib, FibError, Prefix, Protocol, Route, RouteType, TableId};
use crate::metrics::PathMtu;
use crate::node::{Done, Node, Output, Port, SocketReady};
use crate::packet::{Meta, Packet};
use crate::qdisc::police::Police;
use crate::qdisc::{Cx, Qdisc as _, Sched};
use crate::reason::Reason;
use crate::trace::Event;
use crate::units::Instant;
use core::net::IpAddr;
use route_cache::RouteCache;

/// A host or router.
#[derive(Debug, Default)]
pub struct Host {
    ports: Vec<HostPort>,
    ingress: Vec<(Port, Police)>,
    fib: Box<Fib>,
    route_cache: RouteCache,
    /// Counts changes of routes and interfaces.
    routes_version: u32,
    /// What [`Host::routes_version`] was when an interface was last changed.
    ports_version: u32,
    /// The routes or fragments may have changed since `fib_wake` was asked for.
    fib_touched: bool,
    /// When the routes or fragments want upkeep.
    fib_wake: Option<Instant>,
    /// Fragments that wait; made at first use.
    reassembly: Option<Box<reassembly::Reassembly>>,
    /// Counters of rare events; made at first use.
    snmp: Option<Box<snmp::BothSnmp>>,
    /// The identification of the latest packet that was cut here.
    last_ident: u16,
    /// What this host has open.
    pub sockets: Sockets,
    /// When sockets want to be called.
    pub socket_timers: LazyTimers,
    /// When queues that hold packets back want to be asked again (`qdisc_watchdog`).
    port_timers: LazyTimers,
    /// Whether packets for others are passed on (`net.ipv4.ip_forward`).
    pub forwarding: bool,
    /// Network-layer counters.
    pub stats: IpStats,
    icmp: icmp::Icmpd,
    /// TCP; made at first use, and out of its place while a connection is being called.
    tcp: Option<Box<tcp::TcpStack>>,
    /// The connection that was called last: the next segment is likely for it.
    lent_last: u32,
    /// The packet sent last gave its owner the memory back at once.
    orphaned: bool,
    /// The queue that took the latest packet keeps departure times (`SK_PACING_FQ`).
    paced: bool,
    /// What a connection has just learnt about its path: to whom, packet size, when.
    learnt_mtu: Option<Box<(IpAddr, PathMtu, Instant)>>,
    /// Packet memory that the ports share, if they do.
    buffer: Option<Box<SharedBuffer>>,
    /// When the first of the packets will have left whose sockets get their memory back without
    /// being told; `FAR_FUTURE` if there are none.
    owed_at: Instant,
    /// What `poll` is going to hand out.
    out: Box<Outbox>,
}

impl Host {
    /// A host without ports.
    pub fn new() -> Self {
        let mut host = Self::default();
        let loopback = Prefix::containing(IpAddr::from([127, 0, 0, 0]), 8).expect("a prefix");
        host.install(Route {
            kind: RouteType::Local,
            table: TableId::LOCAL,
            ..Route::on_link(loopback, LOOPBACK)
        });
        host
    }

    /// Adds an interface; its addresses become local, their prefixes on-link
    /// (`inet_insert_ifa`).
    pub fn add_port(&mut self, config: PortConfig) -> Port {
        let index = u16::try_from(self.ports.len()).expect("a host has at most 65536 ports");
        for &(address, prefix_len) in &config.addresses {
            self.install(Route::local(address, index));
            let network = Prefix::containing(address, prefix_len).expect("a length of its family");
            if !network.is_host() {
                self.install(Route {
                    protocol: Protocol::KERNEL,
                    prefsrc: Some(address),
                    ..Route::on_link(network, index)
                });
            }
        }
        self.ports.push(HostPort::new(config));
        Port(index)
    }

    /// Routes and rules.
    pub fn fib(&self) -> &Fib {
        &self.fib
    }

    /// Routes and rules, to change them.
    pub fn fib_mut(&mut self) -> &mut Fib {
        self.routes_version = self.routes_version.wrapping_add(1);
        self.route_cache.forget();
        self.fib_touched = true;
        &mut self.fib
    }

    /// Adds a route that the host needs by itself; one that is there already stays.
    fn install(&mut self, route: Route) {
        match self.fib_mut().append(route) {
            Ok(()) | Err(FibError::Exists) => {}
            Err(error) => panic!("a route of the host's own is wrong: {error:?}"),
        }
    }

    /// An interface.
    pub fn port(&self, port: Port) -> &HostPort {
        &self.ports[usize::from(port.0)]
    }

    /// The settings of an interface, to change them (`ip link set`, `ethtool -K`).
    pub fn port_config_mut(&mut self, port: Port) -> &mut PortConfig {
        self.routes_version = self.routes_version.wrapping_add(1);
        self.ports_version = self.routes_version;
        &mut self.ports[usize::from(port.0)].config
    }

    /// How many interfaces there are.
    pub fn port_count(&self) -> usize {
        self.ports.len()
    }

    /// Promises that `port` has room for one more packet at `at`, which is no earlier than what was
    /// promised before: the same as [`credit`](Node::credit) at that time without anybody having to
    /// come back. False, and
    /// nothing promised, if the node has to be told because something waits already: a packet, or
    /// the socket whose packet will have left.
    #[inline]
    pub fn promise_credit(&mut self, port: Port, at: Instant, done: Done) -> bool {
        let owned = done.owner != Meta::NO_OWNER;
        if owned && !self.is_patient(done.owner) {
            return false;
        }
        let takes = self.ports[usize::from(port.0)].promise(at, done);
        if takes && owned && at < self.owed_at {
            self.owed_at = at;
        }
        takes
    }

    /// Whether a socket does nothing when it gets memory back.
    #[inline]
    fn is_patient(&self, id: u32) -> bool {
        match self.sockets.get(id) {
            Some(Socket::Tcp(TcpSocket::Connection(socket))) => {
                !socket.connection.waits_for_memory()
            }
            _ => false,
        }
    }

    /// Has the credit that was promised for `index`, if its time has come.
    #[inline]
    pub(super) fn settle(&mut self, now: Instant, index: u16) {
        if self.ports[usize::from(index)].promised_at() <= now {
            self.settle_due(now, index);
        }
    }

    fn settle_due(&mut self, now: Instant, index: u16) {
        while let Some(done) = self.ports[usize::from(index)].settle(now) {
            if done.owner != Meta::NO_OWNER {
                self.owed_at = self.next_owed();
                self.give_back(now, done.owner, done.truesize);
            }
        }
    }

    /// Gives sockets the memory back of packets that have left as promised. Whoever looks at a
    /// host from outside may want that first.
    #[inline]
    pub fn settle_owed(&mut self, now: Instant) {
        if self.owed_at <= now {
            self.settle_all_owed(now);
        }
    }

    fn settle_all_owed(&mut self, now: Instant) {
        for index in 0..self.ports.len() as u16 {
            if self.ports[usize::from(index)].owes_at() <= now {
                self.settle(now, index);
            }
        }
        self.owed_at = self.next_owed();
    }

    /// A socket has begun to wait for memory: promises of it become events.
    #[cold]
    pub(super) fn await_owed(&mut self) {
        for (index, port) in (0..).zip(&self.ports) {
            self.port_timers.arm(index, port.owes_at());
        }
    }

    fn next_owed(&self) -> Instant {
        self.ports.iter().map(HostPort::owes_at).min().unwrap_or(Instant::FAR_FUTURE)
    }

    /// Adds a policer behind those that already judge what arrives on `port`.
    pub fn add_policer(&mut self, port: Port, police: Police) {
        self.ingress.push((port, police));
    }

    /// Removes the policers of `port` (`tc filter del dev … ingress`).
    pub fn remove_policers(&mut self, port: Port) {
        self.ingress.retain(|(at, _)| *at != port);
    }

    /// The policers of all ports in the order in which they judge.
    pub fn policers(&self) -> &[(Port, Police)] {
        &self.ingress
    }

    /// Gives an interface a carrier or takes it away; next hops over it go out of service where
    /// `ignore_linkdown` of its [`crate::fib::Link`] says so.
    pub fn set_port_up(&mut self, now: Instant, port: Port, up: bool) {
        let mut cx = Cx { now, dropped: &mut self.out.dropped };
        self.ports[usize::from(port.0)].set_up(up, &mut cx);
        let link = self.fib.link(port.0);
        self.fib_mut().set_link(now, port.0, crate::fib::Link { carrier: up, ..link });
        self.list_port(port.0);
    }

    /// Puts a queueing discipline at the root of a port. What waits in the old one is dropped, as
    /// the kernel does (`dev_graft_qdisc`, `qdisc_reset`).
    pub fn set_qdisc(&mut self, now: Instant, port: Port, qdisc: Sched) {
        let root = self.ports[usize::from(port.0)].qdisc_mut();
        let mut old = core::mem::replace(root, qdisc);
        old.purge(&mut Cx { now, dropped: &mut self.out.dropped });
        self.list_port(port.0);
    }

    /// Lends the queueing discipline of a port out to be changed; what a change drops comes out of
    /// `poll`.
    pub fn change_qdisc<R>(
        &mut self,
        now: Instant,
        port: Port,
        act: impl FnOnce(&mut Sched, &mut Cx<'_>) -> R,
    ) -> R {
        let mut cx = Cx { now, dropped: &mut self.out.dropped };
        let result = act(self.ports[usize::from(port.0)].qdisc_mut(), &mut cx);
        self.list_port(port.0);
        result
    }

    /// Where a packet to `dst` would go, as far as the address alone decides.
    pub fn route_to(&self, dst: IpAddr) -> Decision {
        self.fib.lookup(&crate::fib::RouteKey::to(dst))
    }

    /// The source of what is sent to `remote` from a socket without an address (see
    /// [`Fib::source`]).
    pub fn source_address(&self, remote: IpAddr) -> Option<IpAddr> {
        let own = self.ports.iter().zip(0..).flat_map(|(device, port)| {
            device.config.addresses.iter().map(move |&(addr, len)| Own { port, addr, len })
        });
        self.fib.source(&crate::fib::RouteKey::to(remote), own)
    }

    /// Says that a socket has become ready for something.
    pub fn notify(&mut self, socket: u32, bits: u8) {
        self.out.ready.push_back(SocketReady { socket, bits });
    }

    /// Puts something into the event stream.
    pub fn trace(&mut self, event: Event) {
        self.out.events.push_back(event);
    }

    /// Drops a packet: `poll` hands it out with its reason.
    pub fn drop_packet(&mut self, reason: Reason, packet: Packet) {
        self.out.dropped.push((reason, packet));
    }

    /// Gives the host another place for what it is going to say. Both must be empty, as they are when
    /// a host is quiet.
    #[inline]
    pub fn swap_outbox(&mut self, outbox: &mut Box<Outbox>) {
        debug_assert!(self.out.is_empty() && outbox.is_empty(), "something has not been heard");
        core::mem::swap(&mut self.out, outbox);
    }

    /// Nothing waits to be told or sent.
    #[inline]
    fn is_quiet(&self) -> bool {
        self.out.is_empty()
    }

    /// What a host is to be asked for at `now`.
    #[inline]
    pub fn wants(&self, now: Instant) -> Wants {
        let next = self.next_timer();
        if next <= now || self.fib_touched || self.out.may_send() {
            Wants::Send
        } else if self.is_quiet() {
            Wants::Nothing(next)
        } else {
            Wants::Tell
        }
    }

    #[inline]
    fn list_port(&mut self, index: u16) {
        let port = &mut self.ports[usize::from(index)];
        if port.listed {
            return;
        }
        if port.may_send() {
            port.listed = true;
            self.out.sending.push_back(index);
        } else if let Some(at) = port.awaited_credit() {
            self.port_timers.arm(u32::from(index), at);
        }
    }

    /// The next packet of any port that may send; ports take turns packet by packet.
    #[inline]
    fn next_send(&mut self, now: Instant, place: &mut Packet) -> Option<Port> {
        while let Some(&index) = self.out.sending.front() {
            let port = &mut self.ports[usize::from(index)];
            let mut cx = Cx { now, dropped: &mut self.out.dropped };
            if port.dequeue(&mut cx, &mut self.out.spare, place) {
                if !port.may_send() {
                    port.listed = false;
                    self.out.sending.pop_front();
                    if let Some(at) = port.awaited_credit() {
                        self.port_timers.arm(u32::from(index), at);
                    }
                }
                return Some(Port(index));
            }
            if let Some(at) = port.watchdog() {
                self.port_timers.arm(u32::from(index), at);
            }
            port.listed = false;
            self.out.sending.pop_front();
        }
        None
    }

    /// [`receive`](Node::receive) of a packet out of its place.
    #[inline]
    pub fn receive_from(&mut self, now: Instant, port: Port, place: &mut Packet) {
        self.link_receive(now, port, place);
    }

    /// The first half of [`poll`](Node::poll): does what is due, and writes the next packet to
    /// send to `place`, so that it is copied once. `None`: there is none, and `place` is as it was
    /// or holds nothing of use.
    #[inline]
    pub fn poll_send(&mut self, now: Instant, place: &mut Packet) -> Option<Port> {
        if self.next_timer() <= now {
            self.run_timers(now);
        }
        if self.fib_touched {
            self.fib_touched = false;
            self.ask_for_upkeep();
        }
        if !self.out.looped_back.is_empty() {
            self.receive_looped_back(now);
        }
        if let Some(port) = self.out.direct_ports.pop_front() {
            self.out.direct.pop_front_into(place);
            return Some(port);
        }
        self.next_send(now, place)
    }

    /// Whether the packet that [`poll_send`](Self::poll_send) has just given for `port` is the first
    /// of a chain: of the segments of one super-packet.
    #[inline]
    pub fn has_chain(&self, port: Port) -> bool {
        self.ports[usize::from(port.0)].is_cutting()
    }

    /// Writes the next segment of the chain to `place`, without asking for credit: for a device
    /// that takes a whole chain at once (`dev_hard_start_xmit` with `xmit_more`). Each segment uses up one
    /// credit all the same, so that the port owes some until they have left.
    #[inline]
    pub fn poll_chain(&mut self, port: Port, place: &mut Packet) -> bool {
        self.ports[usize::from(port.0)].dequeue_chained(&mut self.out.spare, place)
    }

    /// The second half of [`poll`](Node::poll), when there is nothing to send.
    #[inline]
    pub fn poll_rest(&mut self, now: Instant) -> Option<Output> {
        if (!self.out.dropped.is_empty() || !self.out.dropped_out.is_empty())
            && let Some((reason, packet)) = self.next_drop()
        {
            self.give_back(now, packet.meta.owner, packet.meta.truesize);
            return Some(Output::Drop(reason, packet));
        }
        if let Some(ready) = self.out.ready.pop_front() {
            return Some(Output::Ready(ready));
        }
        self.out.events.pop_front().map(Output::Event)
    }

    #[cold]
    fn next_drop(&mut self) -> Option<(Reason, Packet)> {
        if !self.out.dropped.is_empty() {
            self.out.dropped_out.extend(self.out.dropped.drain(..));
        }
        self.out.dropped_out.pop_front()
    }

    /// Asks when routes and fragments want upkeep.
    fn ask_for_upkeep(&mut self) {
        let fragments = self.reassembly.as_ref().and_then(|it| it.wake_at());
        self.fib_wake = match (self.fib.wake_at(), fragments) {
            (Some(routes), Some(fragments)) => Some(routes.min(fragments)),
            (routes, fragments) => routes.or(fragments),
        };
    }

    #[inline]
    fn next_timer(&self) -> Instant {
        let queues = self.socket_timers.next_at().min(self.port_timers.next_at());
        queues.min(self.fib_wake.unwrap_or(Instant::FAR_FUTURE))
    }

    fn run_timers(&mut self, now: Instant) {
        while let Some(id) = self.socket_timers.pop_due(now) {
            self.on_socket_timer(now, id);
        }
        while let Some(index) = self.port_timers.pop_due(now) {
            self.settle(now, index as u16);
            self.list_port(index as u16);
            self.serve_interrupt(now, Port(index as u16));
            // A timer remembers its earliest time only: what is still ahead is armed again.
            let port = &self.ports[index as usize];
            self.port_timers.arm(index, port.owes_at().min(port.interrupt_at()));
        }
        if self.fib_touched || self.fib_wake.is_some_and(|at| at <= now) {
            self.fib.upkeep(now);
            self.expire_fragments(now);
            self.fib_touched = true;
        }
    }

    fn on_socket_timer(&mut self, now: Instant, id: u32) {
        if matches!(self.sockets.get(id), Some(Socket::Tcp(_))) {
            self.tcp_timer(now, id);
        }
    }

    /// A packet is gone from this machine, sent or dropped: its owner gets the memory back
    /// (`sock_wfree`, `tcp_wfree`).
    #[inline]
    fn give_back(&mut self, now: Instant, owner: u32, truesize: u32) {
        if owner == Meta::NO_OWNER {
            return;
        }
        match self.sockets.get_mut(owner) {
            Some(Socket::Udp(socket)) => {
                if socket.give_back(truesize) {
                    self.notify(owner, SocketReady::WRITABLE);
                }
            }
            Some(Socket::Tcp(_)) => self.tcp_wfree(now, owner, truesize),
            Some(Socket::Ping(_)) => {}
            None => self.sockets.give_back(owner, truesize),
        }
    }
}

impl Node for Host {
    #[inline]
    fn receive(&mut self, now: Instant, port: Port, mut packet: Packet) {
        self.link_receive(now, port, &mut packet);
    }

    #[inline]
    fn poll(&mut self, now: Instant) -> Option<Output> {
        let mut packet = Packet::default();
        match self.poll_send(now, &mut packet) {
            Some(port) => Some(Output::Send(port, packet)),
            None => self.poll_rest(now),
        }
    }

    #[inline]
    fn credit(&mut self, now: Instant, port: Port, done: Option<Done>) {
        self.settle(now, port.0);
        self.ports[usize::from(port.0)].grant();
        self.list_port(port.0);
        if let Some(done) = done {
            self.give_back(now, done.owner, done.truesize);
        }
    }

    fn wake_at(&self) -> Option<Instant> {
        let at = self.next_timer();
        (at < Instant::FAR_FUTURE).then_some(at)
    }
}

/// The interface of routes to the host itself, which no port has.
const LOOPBACK: u16 = u16::MAX;

#[cfg(test)]
mod tests;
