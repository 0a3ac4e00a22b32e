//! Builds a [`World`] from the data of a case.

use apps::{
    App as SimApp, Cbr, Connect, Exchange, Ping, QueryClient, RequestClient, ResponseServer,
    TcpSend, TcpSink, UdpEcho, UdpSink,
};
use core::net::{IpAddr, Ipv6Addr, SocketAddr};
use core::num::{NonZeroU8, NonZeroU16, NonZeroU32};
use datapath::fib::hash::Policy;
use datapath::fib::{Algorithm as Choice, Fib, NextHop, Prefix, Route, TableId};
use datapath::host::{Host, Offloads, SharedBuffer};
use datapath::node::Port;
use datapath::profile::Profile;
use datapath::qdisc::fifo::{PfifoFast, TX_QUEUE_LEN};
use datapath::qdisc::police::Police;
use datapath::qdisc::{Cx, Handle, Sched};
use datapath::rng::{Ratio, Rng};
use datapath::tcp::cc::Algorithm;
use datapath::tcp::config::{Linger2, PmtuDiscovery, TcpConfig};
use datapath::tcp::md5;
use datapath::units::{Duration, Instant, Rate};
use iproute::tc::{Device, parse_class, parse_filter, parse_police, parse_qdisc};
use iproute::words::Words;
use sim::link::{Chances, LinkConfig, LinkId, NodeId};
use sim::rules::Direction as RuleDirection;
use sim::schedule::Schedule;
use sim::topology::{Topology, default_addresses};
use sim::world::{AppId, World};
use std::sync::Arc;

use super::ledger::Ledger;
use super::plan::{App, Case, Direction, Flow, Node, Offload, Options, Wire};
use super::talk::PeerApp;

/// A world, with handles to what the oracles check.
pub struct BuiltWorld {
    /// The world.
    pub world: World,
    /// The first address of each node of both families.
    pub addresses: Vec<[IpAddr; 2]>,
    /// The applications of each flow: the one that begins, the one that answers.
    pub apps: Vec<(AppId, Option<AppId>)>,
    /// What applications saw.
    pub ledger: Ledger,
}

/// A moment, in µs from the beginning.
pub fn micros(micros: u64) -> Instant {
    Instant::ZERO + Duration::from_micros(micros)
}

/// The port of the server of the first flow.
const SERVER_PORT: u16 = 5001;
/// The port of the client of the first flow that sends datagrams.
const CLIENT_PORT: u16 = 20_001;
/// The table that leads everything to port 0.
pub const DETOURS: u32 = 100;
/// How multipath routes may choose.
pub const ALGORITHMS: [Choice; 6] =
    [Choice::System, Choice::L3, Choice::L4, Choice::PerPacket, Choice::Modulo, Choice::Credit];
/// Random streams of qdiscs, apart from those of links and applications.
const QDISC_STREAMS: u64 = 1 << 45;
/// Ethernet header, bytes.
const ETHERNET: u32 = 14;

/// Builds the world of a case.
pub fn build(case: &Case) -> BuiltWorld {
    let mut topology = Topology::new();
    for (index, node) in case.nodes.iter().enumerate() {
        let name = format!("n{index}");
        if node.router {
            topology.router(&name)
        } else {
            topology.host(&name)
        };
    }
    for (index, wire) in case.wires.iter().enumerate() {
        add_wire(&mut topology, case, index, wire);
    }
    let addresses: Vec<[IpAddr; 2]> =
        (0..case.nodes.len()).map(|node| addresses_of(case, node)).collect();
    add_detours(&mut topology, case);
    add_multipath(&mut topology, case, &addresses);
    let mut world = topology.build(case.seed).expect("a case is a sound topology");
    for (index, node) in case.nodes.iter().enumerate() {
        set_up(&mut world, NodeId(index as u32), node);
    }
    for (index, wire) in case.wires.iter().enumerate() {
        for (end, direction) in [&wire.there, &wire.back].into_iter().enumerate() {
            let Some(words) = &direction.police else { continue };
            let (node, port) = end_of(case, index, 1 - end);
            let Ok(config) = parse_police(&mut Words::new(words)) else { continue };
            world.with_host(node, |_, host| host.add_policer(port, Police::new(config)));
        }
    }
    if case.late_us > 0 {
        for (index, _) in case.nodes.iter().enumerate().filter(|(_, node)| node.slow) {
            world.slow_apps(NodeId(index as u32), Duration::from_micros(case.late_us));
        }
    }
    let ledger = Ledger::default();
    let apps = case
        .flows
        .iter()
        .enumerate()
        .map(|(index, flow)| add_flow(&mut world, case, (index, flow), &addresses, &ledger))
        .collect();
    BuiltWorld { world, addresses, apps, ledger }
}

/// The link that begins at an end of a wire: as the topology numbers them.
pub fn link_of(wire: usize, end: usize) -> LinkId {
    LinkId((2 * wire + end) as u32)
}

/// The node and the port at an end of a wire.
pub fn end_of(case: &Case, wire: usize, end: usize) -> (NodeId, Port) {
    let node = case.wires[wire].ends[end];
    let before = case.wires[..wire].iter().flat_map(|wire| wire.ends).filter(|it| *it == node);
    (NodeId(node as u32), Port(before.count() as u16))
}

fn wire_addresses(wire: usize) -> [[(IpAddr, u8); 2]; 2] {
    let v4 = default_addresses(sim::topology::WireId(wire as u32));
    let v6 =
        |end: u16| (IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, wire as u16, 0, 0, 0, end)), 64);
    [[v4[0], v6(1)], [v4[1], v6(2)]]
}

fn addresses_of(case: &Case, node: usize) -> [IpAddr; 2] {
    let mut wires = case.wires.iter().enumerate();
    let (wire, end) = wires
        .find_map(|(index, wire)| Some((index, wire.ends.iter().position(|it| *it == node)?)))
        .expect("a node has a wire");
    wire_addresses(wire)[end].map(|(address, _)| address)
}

fn add_wire(topology: &mut Topology, case: &Case, index: usize, wire: &Wire) {
    let ends = wire.ends.map(|node| NodeId(node as u32));
    let link = |direction: &Direction, end: usize| LinkConfig {
        segments_super_packets: case.nodes[wire.ends[end]].offload == Offload::Nic,
        veth: wire.veth,
        ..link_config(direction)
    };
    let id = topology.wire_with(ends[0], ends[1], link(&wire.there, 0), link(&wire.back, 1));
    let addresses = wire_addresses(index);
    let built = topology.wire_mut(id);
    let sides = [(&mut built.a, &wire.there), (&mut built.b, &wire.back)];
    for (end, (side, direction)) in sides.into_iter().enumerate() {
        let node = &case.nodes[wire.ends[end]];
        side.interface.mtu = wire.mtu;
        side.interface.addresses = addresses[end].to_vec();
        side.interface.offloads = offloads(node);
        side.interface.rx_usecs = if node.gro { node.rx_usecs } else { 0 };
        side.interface.orphans = wire.veth;
        if !direction.tc.is_empty() {
            side.qdisc = Some(Box::new(tree(case, (index, end), &direction.tc, wire.mtu)));
        }
    }
}

fn offloads(node: &Node) -> Offloads {
    let gso = node.offload != Offload::Off;
    let tso = matches!(node.offload, Offload::Tso | Offload::Nic);
    Offloads { gso, tso, gro: node.gro }
}

fn link_config(direction: &Direction) -> LinkConfig {
    let impairments = &direction.impairments;
    let parts = |thousandths: u64| Ratio::from_millionths(thousandths * 1_000);
    let rules = impairments.rules.iter().map(|rule| rule.parse().expect("words that are drawn"));
    LinkConfig {
        rate: rate(direction.kbit),
        delay: Duration::from_micros(direction.delay_us),
        ring: direction.ring.max(1),
        chances: Chances {
            loss: parts(impairments.loss),
            corruption: parts(impairments.corruption),
            duplication: parts(impairments.duplication),
            reordering: parts(impairments.reordering),
            reorder_by: Duration::from_micros(impairments.reorder_us),
            jitter: Duration::from_micros(impairments.jitter_us),
            jitter_reorders: impairments.jitter_reorders,
            ..Chances::default()
        },
        schedule: schedule(direction),
        rules: rules.collect(),
        direction: RuleDirection::Forward,
        ..LinkConfig::default()
    }
}

/// How a link changes, if it does.
fn schedule(direction: &Direction) -> Option<Arc<Schedule>> {
    if direction.steps.is_empty() {
        return None;
    }
    let at = |step: &[u64; 3]| Duration::from_micros(step[0]);
    let of = |step: &[u64; 3]| (at(step), Rate::from_bits_per_sec(step[1] * 1_000));
    let rates: Vec<(Duration, Rate)> = direction.steps.iter().map(of).collect();
    let delays: Vec<(Duration, Duration)> =
        direction.steps.iter().map(|step| (at(step), Duration::from_micros(step[2]))).collect();
    let period = (direction.period_us > 0).then(|| Duration::from_micros(direction.period_us));
    Some(Arc::new(Schedule::new(&rates, &delays, period)))
}

/// kbit/s as a link's rate; 0 takes no time.
pub fn rate(kbit: u64) -> Option<Rate> {
    (kbit > 0).then(|| Rate::from_bits_per_sec(kbit * 1_000))
}

/// The tree that the commands make of a fresh port. Those that are refused change nothing.
fn tree(case: &Case, place: (usize, usize), commands: &[String], mtu: u32) -> Sched {
    let mut root = Sched::new(Handle::NONE, PfifoFast::new(TX_QUEUE_LEN));
    let mut dropped = Vec::new();
    let mut cx = Cx { now: Instant::ZERO, dropped: &mut dropped };
    for (number, words) in (0..).zip(commands) {
        run_tc(&mut root, words, (mtu, case.seed, place, number), &mut cx);
    }
    root
}

/// Runs one `tc` command on a tree; `number` distinguishes the random streams of commands.
pub fn run_tc(
    root: &mut Sched,
    words: &str,
    (mtu, seed, (wire, end), number): (u32, u64, (usize, usize), u64),
    cx: &mut Cx<'_>,
) {
    if words.starts_with("filter") {
        if let Ok(filter) = parse_filter(words) {
            filter.apply(root);
        }
        return;
    }
    if words.starts_with("class") {
        if let Ok(class) = parse_class(words) {
            drop(class.apply(root, cx));
        }
        return;
    }
    let Ok(command) = parse_qdisc(words) else { return };
    let device = Device { psched_mtu: mtu + ETHERNET, ..Device::default() };
    let entity = QDISC_STREAMS + ((wire as u64) << 24) + ((end as u64) << 20) + number;
    drop(command.apply(root, device, Rng::stream(seed, entity), cx));
}

/// Routers know all shortest ways to every host.
fn add_multipath(topology: &mut Topology, case: &Case, addresses: &[[IpAddr; 2]]) {
    for (target, _) in case.nodes.iter().enumerate().filter(|(_, node)| !node.router) {
        let distance = distances(case, target);
        for (router, _) in case.nodes.iter().enumerate().filter(|(_, node)| node.router) {
            let hops: Vec<NextHop> = (0..case.wires.len())
                .flat_map(|wire| [(wire, 0), (wire, 1)])
                .filter(|&(wire, end)| {
                    let ends = case.wires[wire].ends;
                    ends[end] == router && distance[ends[1 - end]] < distance[router]
                })
                .map(|(wire, end)| NextHop::new(end_of(case, wire, end).1.0, None))
                .collect();
            if hops.len() > 1 {
                let algorithm = ALGORITHMS[usize::from(case.nodes[router].algorithm)];
                for address in addresses[target] {
                    let mut route = Route::new(Prefix::host(address), hops.clone());
                    route.algorithm = algorithm;
                    topology.route(NodeId(router as u32), route);
                }
            }
        }
    }
}

/// A table for each port of a router, which leads everything there.
fn add_detours(topology: &mut Topology, case: &Case) {
    for (router, _) in case.nodes.iter().enumerate().filter(|(_, node)| node.router) {
        let ends = case.wires.iter().flat_map(|wire| wire.ends).filter(|end| *end == router);
        for port in 0..ends.count() as u16 {
            for everything in ["0.0.0.0/0", "::/0"] {
                let everything: Prefix = everything.parse().expect("a prefix");
                let route = Route::on_link(everything, port);
                let table = TableId(DETOURS + u32::from(port));
                topology.route(NodeId(router as u32), route.table(table));
            }
        }
    }
}

/// Hops from every node to `target`; hosts do not forward.
fn distances(case: &Case, target: usize) -> Vec<usize> {
    let mut distance = vec![usize::MAX; case.nodes.len()];
    distance[target] = 0;
    let mut border = vec![target];
    while let Some(node) = (!border.is_empty()).then(|| border.remove(0)) {
        for wire in &case.wires {
            for [one, other] in [wire.ends, [wire.ends[1], wire.ends[0]]] {
                if one == node && distance[other] == usize::MAX {
                    distance[other] = distance[node] + 1;
                    if case.nodes[other].router {
                        border.push(other);
                    }
                }
            }
        }
    }
    distance
}

fn set_up(world: &mut World, id: NodeId, node: &Node) {
    let profile = Profile::by_name(&node.profile).expect("a profile that is drawn");
    world.with_host(id, |_, host| {
        host.set_tcp_defaults(TcpConfig::for_profile(profile));
        for setting in &node.sysctls {
            set_sysctl(host, setting);
        }
        let buffer = node.buffer.map(|[bytes, num, den]| SharedBuffer::new(bytes, (num, den)));
        host.set_shared_buffer(buffer);
        let policy = Policy::from_number(node.policy.into()).expect("a policy that is drawn");
        let mut settings = *host.fib_mut().settings();
        (settings.v4.policy, settings.v6.policy) = (policy, policy);
        host.fib_mut().set_settings(settings);
    });
}

/// Writes a sysctl; what is refused changes nothing.
pub fn set_sysctl(host: &mut Host, words: &str) {
    let (name, value) = words.split_once('=').unwrap_or((words, ""));
    drop(host.set_tcp_sysctl(name, value));
}

/// Lets the routes of a host be changed by a line of `ip`; what is refused changes nothing.
pub fn run_ip(host: &mut Host, now: Instant, words: &str) {
    let fib: Fib = core::mem::take(host.fib_mut());
    let mut ip = iproute::ip::Ip { fib, now, ..iproute::ip::Ip::default() };
    drop(ip.run(words));
    *host.fib_mut() = ip.fib;
}

fn tcp_config(world: &World, node: usize, options: &Options, peer: IpAddr) -> TcpConfig {
    let mut config = world.host(NodeId(node as u32)).tcp_defaults();
    if let Some(name) = &options.congestion {
        config.congestion_control = Algorithm::by_name(name).expect("a name that is drawn");
    }
    config.nodelay = options.nodelay;
    config.send_buffer = NonZeroU32::new(options.sndbuf);
    config.receive_buffer = NonZeroU32::new(options.rcvbuf);
    config.max_pacing_rate = if options.pacing > 0 { options.pacing } else { u64::MAX };
    config.keepalive = options.keepalive_s > 0;
    config.user_timeout_ms = NonZeroU32::new(options.user_timeout_ms);
    config.max_segment = NonZeroU16::new(options.maxseg);
    config.tos = options.tos;
    let socket = &mut config.socket;
    socket.keepalive_time_s = NonZeroU32::new(options.keepalive_s);
    socket.syn_retries = NonZeroU8::new(options.syncnt);
    socket.defer_accept = options.defer_accept;
    socket.window_clamp = NonZeroU32::new(options.window_clamp);
    socket.notsent_lowat = NonZeroU32::new(options.notsent_lowat);
    socket.rcvlowat = options.rcvlowat;
    socket.linger2 = Linger2::from_option(options.linger2_s);
    if let Some(pmtu) = options.pmtu.checked_sub(1) {
        socket.pmtu_discovery = PmtuDiscovery::ALL[usize::from(pmtu) % PmtuDiscovery::ALL.len()];
    }
    if let Some(secret) = &options.md5 {
        let prefix_len = if peer.is_ipv4() { 32 } else { 128 };
        socket.md5 = vec![md5::Key { network: peer, prefix_len, secret: secret.clone().into() }];
    }
    config
}

/// The two ends of flow number `index`; where the host that begins chooses its port, it is 0.
pub fn ends_of(index: usize, flow: &Flow, addresses: &[[IpAddr; 2]]) -> (SocketAddr, SocketAddr) {
    let family = usize::from(flow.ipv6);
    let datagrams = matches!(flow.app, App::Cbr { .. } | App::Ping { .. } | App::Probe { .. });
    let port = if datagrams { CLIENT_PORT + index as u16 } else { 0 };
    let local = SocketAddr::new(addresses[flow.from][family], port);
    (local, SocketAddr::new(addresses[flow.to][family], SERVER_PORT + index as u16))
}

fn add_flow(
    world: &mut World,
    case: &Case,
    (index, flow): (usize, &Flow),
    addresses: &[[IpAddr; 2]],
    ledger: &Ledger,
) -> (AppId, Option<AppId>) {
    let (local, remote) = ends_of(index, flow, addresses);
    let client = tcp_config(world, flow.from, &flow.client, remote.ip());
    let server = tcp_config(world, flow.to, &flow.server, local.ip());
    let mut asked = vec![(local, remote)];
    if let App::Query { more, .. } = &flow.app {
        let family = usize::from(flow.ipv6);
        let others =
            more.iter().map(|node| SocketAddr::new(addresses[*node][family], remote.port()));
        asked.extend(others.map(|remote| (local, remote)));
    }
    let (begins, answers) = applications((index, flow), &asked, client, &server, ledger);
    let listens = match flow.app {
        App::Talk { listen_us, .. } => listen_us,
        _ => 0,
    };
    let heal = micros(case.heal_us);
    let (from, to) = (NodeId(flow.from as u32), NodeId(flow.to as u32));
    // The server first: over a link without delay the first packet comes at once.
    let answers = answers.map(|app| world.add_app(to, app, micros(listens), Some(heal)));
    if let App::Query { request, response, more, .. } = &flow.app {
        let exchange = Exchange { request: *request, response: *response };
        for (node, (_, remote)) in more.iter().zip(&asked[1..]) {
            let app = ResponseServer::new(*remote, server.clone(), exchange);
            world.add_app(NodeId(*node as u32), Box::new(app), micros(listens), Some(heal));
        }
    }
    let stop = if flow.stop_us > 0 { micros(flow.stop_us) } else { heal };
    let begins =
        world.add_app(from, begins, micros(flow.start_us), Some(stop.max(micros(flow.start_us))));
    (begins, answers)
}

/// A boxed application, and its counterpart where it needs one.
type Pair = (Box<dyn SimApp>, Option<Box<dyn SimApp>>);

fn applications(
    (index, flow): (usize, &Flow),
    asked: &[(SocketAddr, SocketAddr)],
    client: TcpConfig,
    server: &TcpConfig,
    ledger: &Ledger,
) -> Pair {
    let (local, remote) = asked[0];
    let server = server.clone();
    let us = Duration::from_micros;
    let (from, to) = (flow.from as u32, flow.to as u32);
    match &flow.app {
        App::Talk { client: asks, server: answers, count, fast_open, backlog, .. } => {
            let early = (*count, *fast_open);
            let asks = PeerApp::client(
                (local, remote),
                client,
                asks.clone(),
                early,
                (from, index, ledger.clone()),
            );
            let room = (*backlog, flow.server.fastopen);
            let answers =
                PeerApp::server(remote, server, answers.clone(), room, (to, index, ledger.clone()));
            (Box::new(asks), Some(Box::new(answers)))
        }
        App::Send { bytes, chunk, gap_us, on_off_us: [on, off], pause: [at, span] } => {
            let mut send =
                TcpSend::bulk(local, remote, client).limit(*bytes).chunks(*chunk, us(*gap_us));
            if *on > 0 {
                send = send.on_off(us(*on), us(*off));
            }
            let mut sink = TcpSink::new(remote, server);
            if *span > 0 {
                sink = sink.pause(*at, us(*span));
            }
            (Box::new(send), Some(Box::new(sink)))
        }
        App::Request { request, response, think_us, count } => {
            let exchange = Exchange { request: *request, response: *response };
            let ask = RequestClient::new(local, remote, client, exchange, us(*think_us), *count);
            (Box::new(ask), Some(Box::new(ResponseServer::new(remote, server, exchange))))
        }
        App::Query { request, response, think_us, count, .. } => {
            let exchange = Exchange { request: *request, response: *response };
            let ask = QueryClient::new(asked.to_vec(), client, exchange, us(*think_us), *count);
            (Box::new(ask), Some(Box::new(ResponseServer::new(remote, server, exchange))))
        }
        App::Connect { every_us, count } => {
            let connect = Connect::new(local, remote, client, us(*every_us), *count);
            (Box::new(connect), Some(Box::new(TcpSink::new(remote, server))))
        }
        App::Cbr { size, every_us } => {
            let cbr = Cbr::new(local, remote, *size, us(*every_us)).tos(flow.client.tos);
            (Box::new(cbr), Some(Box::new(UdpSink::new(remote))))
        }
        App::Ping { size, every_us } => {
            let ping = Ping::icmp(remote.ip(), *size, us(*every_us)).tos(flow.client.tos);
            (Box::new(ping), None)
        }
        App::Probe { size, every_us } => {
            let ping = Ping::udp(local, remote, *size, us(*every_us)).tos(flow.client.tos);
            (Box::new(ping), Some(Box::new(UdpEcho::new(remote).tos(flow.server.tos))))
        }
    }
}
