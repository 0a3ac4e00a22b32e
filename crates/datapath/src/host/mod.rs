//! A host or a router: ports with queues, routes and sockets, as one node.
//!
//! The path of a packet, by the kernel's names: `receive` is `ip_rcv`; what is not for this host
//! goes through `ip` (`ip_forward`) to [`Host::ip_output`] and into the queue of a port
//! (`__dev_queue_xmit`); what is for this host goes to `icmp`, `udp` or `tcp`.
//!
//! `poll` is O(1) amortised: ports that may send stand in a list, sockets that have become ready
//! and packets that were dropped in queues of their own. An idle host costs less than 2 KiB.

mod bridge;
mod buffer;
mod datagram;
mod drive;
mod fragment;
mod gro;
mod icmp;
mod icmp_limit;
mod inline_queue;
mod ip;
mod listener;
mod martian;
mod neighbour;
mod one_machine;
mod outbox;
mod payloads;
mod port;
mod ports;
mod prefetch;
mod reassembly;
mod room;
mod route_cache;
mod rx_ring;
pub(crate) mod scope;
mod snmp;
mod socket;
mod tcp;
mod timers;
mod udp;
mod unusual;

pub use crate::node::SocketId;
pub use bridge::Bridge;
pub use buffer::SharedBuffer;
pub use datagram::DatagramError;
pub use icmp_limit::IcmpLimits;
pub use listener::{Listener, SOMAXCONN};
pub use one_machine::OneMachine;
pub use port::{HostPort, Offloads, PortConfig, PortStats};
pub use prefetch::PrefetchStep;
pub use snmp::{IpStats, Snmp};
pub use socket::{Datagram, Socket, SocketError, Sockets};
pub use tcp::{TcpRead, TcpSocket, WakeCounts};
pub use timers::LazyTimers;
pub(crate) use udp::UdpSharing;
pub use udp::{IpcmCookie, UDP_RECEIVE_BUFFER, UDP_SEND_BUFFER, UdpSocket};

use crate::fib::source::Own;
use crate::fib::{Decision, Fib, FibError, Prefix, Protocol, Route, RouteType, Scope, TableId};
use crate::metrics::PathMtu;
use crate::node::{Port, SocketReady};
use crate::packet::Packet;
use crate::qdisc::police::Police;
use crate::qdisc::{Cx, Qdisc as _, Sched};
use crate::reason::Reason;
use crate::units::Instant;
use core::net::IpAddr;
use outbox::Outbox;
use route_cache::RouteCache;

/// A host or router.
///
/// ```
/// use datapath::host::{Host, PortConfig};
/// use datapath::node::Poll;
/// use datapath::packet::{LinkHeader, Packet, TcpFlags};
/// use datapath::units::Instant;
///
/// let mut host = Host::new();
/// let addresses = vec![("10.0.0.1".parse()?, 24)];
/// let port = host.add_port(PortConfig { addresses, link: LinkHeader::None, ..PortConfig::default() });
/// let (now, defaults) = (Instant::ZERO, host.tcp_defaults());
/// host.grant(now, port, 1); // the device takes one packet
/// let socket = host.tcp_connect(now, "10.0.0.1:4000".parse()?, "10.0.0.2:80".parse()?, &defaults);
/// assert!(socket.is_ok());
///
/// let mut packet = Packet::default();
/// assert!(matches!(host.poll(now, &mut packet), Poll::Send { .. }));
/// assert_eq!(packet.tcp().map(|tcp| tcp.flags), Some(TcpFlags::SYN));
/// # Ok::<(), core::net::AddrParseError>(())
/// ```
// In the order of use, so that what most packets need lies in few cache lines: `prefetch_host`.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Host {
    /// The latest time that the host was told.
    now: Instant,
    /// When the first of the packets will have left whose sockets get their memory back without
    /// being told; `FAR_FUTURE` if there are none.
    completes_at: Instant,
    /// When routes, fragments or neighbours want upkeep.
    upkeep_at: Instant,
    /// The port by which the rest of a chain is being sent.
    chain: Option<Port>,
    /// The connection that was called last: the next segment is likely for it.
    lent_last: u32,
    /// Counts changes of routes and interfaces.
    routes_version: u32,
    /// What [`Host::routes_version`] was when an interface was last changed.
    ports_version: u32,
    /// Something has come in since it was last polled until idle.
    busy: bool,
    /// `upkeep_at` may have changed since it was computed.
    upkeep_changed: bool,
    /// Whether packets for others are passed on (`net.ipv4.ip_forward`).
    pub forwarding: bool,
    /// The packet sent last gave its owner the memory back at once.
    orphaned: bool,
    /// The queue that took the latest packet keeps departure times (`SK_PACING_FQ`).
    paced: bool,
    /// The identification of the latest packet that was cut here.
    last_ident: u16,
    /// TCP; made at first use, and out of its place while a connection is being called.
    tcp: Option<Box<tcp::TcpStack>>,
    ports: Vec<HostPort>,
    /// Outputs that wait for `poll`.
    out: Outbox,
    /// Neighbours at Ethernet ports; none in the simulated world.
    neighbours: Option<Box<neighbour::NeighbourLayer>>,
    /// What a connection has just learnt about its path: to whom, packet size, when.
    learnt_mtu: Option<Box<(IpAddr, PathMtu, Instant)>>,
    /// What lies in the backlog of the machine, if softirqs are played.
    backlog: Option<Box<one_machine::Backlog>>,
    /// Packet memory that the ports share, if they do.
    buffer: Option<Box<SharedBuffer>>,
    ingress: Box<[(Port, Police)]>,
    /// Network-layer counters.
    pub stats: IpStats,
    /// When queues that delay packets want to be polled again (`qdisc_watchdog`).
    port_timers: LazyTimers,
    /// When sockets want to be called.
    pub socket_timers: LazyTimers,
    route_cache: RouteCache,
    /// What this host has open.
    pub sockets: Sockets,
    fib: Box<Fib>,
    /// Fragments that wait; made at first use.
    reassembly: Option<Box<reassembly::Reassembly>>,
    /// Frames for payloads that are made or joined here; made at first use.
    payloads: Option<Box<payloads::Payloads>>,
    /// Counters of rare events; made at first use.
    snmp: Option<Box<snmp::BothSnmp>>,
    /// Sockets whose timers have fired together last, and when.
    fired: Option<Box<(Instant, Vec<u32>)>>,
    /// Made at first use.
    icmp: Option<Box<icmp::IcmpState>>,
}

impl Host {
    /// A host without ports.
    pub fn new() -> Self {
        let mut host = Self { upkeep_at: Instant::FAR_FUTURE, ..Self::default() };
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
        let index = u16::try_from(self.ports.len()).ok().filter(|index| *index != LOOPBACK);
        let index = index.expect("a host has at most 65,535 ports");
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
        if self.ports.is_empty() {
            // Most hosts have one, and there may be many hosts.
            self.reserve_ports(1);
        }
        self.ports.push(HostPort::new(config));
        // The FIB alone: no route has changed.
        let added = usize::from(index);
        let new = own_addresses(&self.ports[added..]).map(|own| Own { port: index, ..own });
        self.fib.add_addresses(new, own_addresses(&self.ports));
        Port(index)
    }

    /// Makes room for so many more interfaces, and no more.
    pub fn reserve_ports(&mut self, more: usize) {
        self.ports.reserve_exact(more);
    }

    /// Routes and rules.
    pub fn fib(&self) -> &Fib {
        &self.fib
    }

    /// Routes and rules, to change them.
    pub fn fib_mut(&mut self) -> &mut Fib {
        self.routes_version = self.routes_version.wrapping_add(1);
        self.route_cache.forget();
        self.upkeep_changed = true;
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

    /// An interface has these addresses from now on. Routes are the affair of whoever adds or removes them.
    pub fn set_addresses(&mut self, port: Port, addresses: Vec<(IpAddr, u8)>) {
        self.port_config_mut(port).addresses = addresses;
        self.fib.set_addresses(own_addresses(&self.ports));
    }

    /// How many interfaces there are.
    pub fn port_count(&self) -> usize {
        self.ports.len()
    }

    /// Adds a policer behind those that already judge what arrives on `port`.
    pub fn add_policer(&mut self, port: Port, police: Police) {
        let mut policers = core::mem::take(&mut self.ingress).into_vec();
        policers.push((port, police));
        self.ingress = policers.into();
    }

    /// Removes the policers of `port` (`tc filter del dev … ingress`).
    pub fn remove_policers(&mut self, port: Port) {
        let mut policers = core::mem::take(&mut self.ingress).into_vec();
        policers.retain(|(at, _)| *at != port);
        self.ingress = policers.into();
    }

    /// The policers of all ports in the order in which they judge.
    pub fn policers(&self) -> &[(Port, Police)] {
        &self.ingress
    }

    /// Gives an interface a carrier or takes it away; next hops over it go out of service where
    /// `ignore_linkdown` of its [`crate::fib::LinkState`] says so.
    pub fn set_port_up(&mut self, now: Instant, port: Port, up: bool) {
        self.begin(now);
        let mut cx = Cx { now, dropped: &mut self.out.dropped };
        self.ports[usize::from(port.0)].set_up(up, &mut cx);
        let link = self.fib.link(port.0);
        self.fib_mut().set_link(now, port.0, crate::fib::LinkState { carrier: up, ..link });
        self.list_port(port.0);
    }

    /// Puts a queueing discipline at the root of a port. What waits in the old one is dropped, as
    /// the kernel does (`dev_graft_qdisc`, `qdisc_reset`).
    pub fn set_qdisc(&mut self, now: Instant, port: Port, qdisc: Sched) {
        self.begin(now);
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
        self.begin(now);
        let mut cx = Cx { now, dropped: &mut self.out.dropped };
        let result = act(self.ports[usize::from(port.0)].qdisc_mut(), &mut cx);
        self.list_port(port.0);
        result
    }

    /// Where a packet to `dst` would go, as far as the address alone decides.
    pub fn route_to(&self, dst: IpAddr) -> Decision {
        self.fib.lookup(&crate::fib::RouteKey::to(dst))
    }

    /// The number of the interface by which packets to `remote` leave (`ifindex`): 1 is `lo`, then come the ports.
    pub(crate) fn interface_towards(&self, remote: IpAddr) -> u32 {
        match self.route_to(remote) {
            Decision::Forward(hop) => u32::from(hop.port) + 2,
            Decision::Local
            | Decision::Blackhole
            | Decision::Unreachable
            | Decision::Prohibit
            | Decision::NoRoute => 1,
        }
    }

    /// Whether there is an interface of that number.
    pub(crate) fn has_interface(&self, index: u32) -> bool {
        (1..self.ports.len() as u32 + 2).contains(&index)
    }

    /// The source of packets to `remote` from a socket without an address (see
    /// [`Fib::source`]).
    pub fn source_address(&self, remote: IpAddr) -> Option<IpAddr> {
        self.source_within(remote, Scope::UNIVERSE)
    }

    /// Notes that a socket has become ready for something.
    fn notify(&mut self, socket: u32, bits: u8) {
        self.busy = true;
        let socket = self.sockets.id(socket);
        self.out.ready.push_back(SocketReady { socket, bits });
    }

    /// Drops a packet: `poll` hands it out with its reason.
    fn drop_packet(&mut self, reason: Reason, packet: Packet) {
        self.out.dropped.push((reason, packet));
    }
}

/// The addresses of all ports.
fn own_addresses(ports: &[HostPort]) -> impl Iterator<Item = Own> + Clone {
    ports.iter().zip(0..).flat_map(|(device, port)| {
        device.config.addresses.iter().map(move |&(addr, len)| Own { port, addr, len })
    })
}

/// The interface of routes to the host itself, which no port has.
const LOOPBACK: u16 = u16::MAX;

#[cfg(test)]
mod tests;
