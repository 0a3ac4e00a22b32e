//! A run under observation: every packet and event of its connections, and its queues from time to
//! time, go where they are wanted. What is observed does the same as what is not.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::net::IpAddr;
use std::path::PathBuf;
use std::rc::Rc;

use datapath::node::Port;
use datapath::packet::{Ecn, Packet};
use datapath::reason::Reason;
use datapath::tcp::info::TcpInfo;
use datapath::trace::Event;
use datapath::units::{Duration, Instant};
use sim::link::{LinkId, NodeId};
use sim::record::{DropPlace, Interest, Observer};

use super::conns::{Conn, Conns};
use super::explain::{HEAD, Story};
use super::marks::Marks;
use super::qlog;
use super::tracks::Tracks;
use super::{TraceItem, TraceOutputs};
use crate::plan::{Diagnostic, Diagnostics, Plan, Role, names, suggest};
use crate::results::FlowExplanation;
use crate::run::build::BuiltWorld;
use crate::run::{Error, apps};
use crate::stems;
use crate::store::{self, Error as StoreError, Pending, Store};

/// Looks at a run.
pub struct RunTracer {
    inner: Rc<RefCell<TracerState>>,
    every: Option<Duration>,
    next: Instant,
    perfetto: Option<PathBuf>,
    qlog: Option<Store>,
}

/// What the world shows, and where it goes.
struct TracerState {
    interest: Interest,
    conns: Conns,
    /// The flow of each connection.
    flows: Vec<Option<usize>>,
    known: Flows,
    addresses: HashSet<(u32, IpAddr)>,
    links: HashMap<LinkId, LinkDirection>,
    /// The only watched queue of a node.
    queues: HashMap<u32, Option<usize>>,
    tracks: Option<Tracks<Pending>>,
    qlog: Option<BTreeMap<usize, qlog::Trace>>,
    /// Which flows are explained, and the stories of their connections.
    explain: Vec<bool>,
    stories: BTreeMap<usize, Story>,
    packets: bool,
    /// Packets with CE that have come to a node which is to send them on.
    marked: Marks,
}

/// A direction of a link.
struct LinkDirection {
    near: u32,
    far: u32,
    queue: Option<usize>,
}

/// The flows of the plan: names, and the nodes that send.
struct Flows {
    names: Vec<String>,
    senders: Vec<u32>,
    tcp: Vec<bool>,
}

impl Flows {
    /// The flow of a connection: its server listens at a port of its own.
    fn of(&self, conn: &Conn) -> Option<usize> {
        let number = |port: u16| usize::from(port.checked_sub(apps::server_port(0))?).into();
        let there = |index: &usize| self.tcp.get(*index).copied().unwrap_or(false);
        let asks: Option<usize> = number(conn.remote.port());
        let asks = asks.filter(there).filter(|index| self.senders[*index] == conn.node);
        asks.or_else(|| number(conn.local.port()).filter(there))
    }
}

impl RunTracer {
    /// Opens files, and begins to observe.
    ///
    /// # Errors
    /// When there is no such flow, or a file cannot be made.
    pub fn open(wanted: &TraceOutputs, plan: &Plan, built: &mut BuiltWorld) -> Result<Self, Error> {
        let explain = chosen(&wanted.explain, plan)?;
        let begin = |path: &PathBuf| store::begin(path).map(Tracks::new);
        let mut tracks = wanted.perfetto.as_ref().map(begin).transpose()?;
        let qlog = wanted.qlog.as_ref().map(|path| Store::create(path)).transpose()?;
        let mut links = link_directions(plan, built);
        let mut queues = HashMap::new();
        for (index, node) in plan.nodes.iter().enumerate() {
            if let Some(tracks) = &mut tracks {
                tracks.node(index as u32, &node.name);
            }
        }
        for (queue, (place, (link, end))) in
            built.ports.iter().zip(&plan.measure.queues).enumerate()
        {
            let only = queues.insert(place.node.0, Some(queue)).is_none();
            if !only {
                queues.insert(place.node.0, None);
            }
            if let Some(way) = links.get_mut(&built.world.link_of(place.node, place.port)) {
                way.queue = Some(queue);
            }
            if let Some(tracks) = &mut tracks {
                tracks.queue(queue, place.node.0, &plan.port_name(*link, *end));
            }
        }
        let all = tracks.is_some() || qlog.is_some();
        let interest = Interest {
            sent: true,
            // What arrives says why a window is cut without a loss.
            delivered: all || !wanted.explain.is_empty(),
            dropped: tracks.is_some(),
            events: true,
            digests: false,
        };
        let inner = TracerState {
            interest,
            conns: Conns::default(),
            flows: Vec::new(),
            known: Flows {
                names: plan.flows.iter().map(|flow| flow.name.clone()).collect(),
                senders: built.flows.iter().map(|flow| flow.sender_node.0).collect(),
                tcp: plan.flows.iter().map(|flow| flow.app.is_tcp()).collect(),
            },
            addresses: addresses(plan, built),
            links,
            queues,
            tracks,
            qlog: qlog.is_some().then(BTreeMap::new),
            explain,
            stories: BTreeMap::new(),
            packets: wanted.packets,
            marked: Marks::default(),
        };
        let inner = Rc::new(RefCell::new(inner));
        built.world.observe(Box::new(Rc::clone(&inner)));
        for (index, node) in plan.nodes.iter().enumerate() {
            if node.role == Role::Host {
                built.world.with_host(NodeId(index as u32), |_, host| host.set_tracing(true));
            }
        }
        let every = wanted.perfetto.as_ref().map(|_| step(plan.duration));
        let next = every.map_or(Instant::FAR_FUTURE, |every| Instant::ZERO + every);
        Ok(Self { inner, every, next, perfetto: wanted.perfetto.clone(), qlog })
    }

    /// When it wants to look at the queues.
    pub fn next(&self) -> Instant {
        self.next
    }

    /// Looks at the queues, if it is time.
    pub fn sample_queues(&mut self, built: &BuiltWorld) {
        let now = built.world.now();
        let Some(every) = self.every.filter(|_| now >= self.next) else { return };
        self.next = now + every;
        let mut inner = self.inner.borrow_mut();
        let Some(tracks) = &mut inner.tracks else { return };
        for (queue, place) in built.ports.iter().enumerate() {
            let port = built.world.host(place.node).port(place.port);
            tracks.on_backlog(now, queue, port.backlog(), port.qdisc());
        }
    }

    /// Ends the files, and tells the stories of the flows that are explained.
    ///
    /// # Errors
    /// When a file cannot be written.
    pub fn finish(self, plan: &Plan, built: &BuiltWorld) -> Result<Vec<FlowExplanation>, Error> {
        let now = built.world.now();
        let mut inner = self.inner.borrow_mut();
        if let (Some(tracks), Some(path)) = (inner.tracks.take(), self.perfetto) {
            let failed = |problem| StoreError { path: path.clone(), problem };
            tracks.finish(now).map_err(failed)?.commit()?;
        }
        if let (Some(traces), Some(store)) = (inner.qlog.take(), self.qlog) {
            inner.write_qlog(&traces, &store)?;
        }
        Ok(inner.explained(plan, built))
    }
}

impl Observer for TracerState {
    fn interest(&self) -> Interest {
        self.interest
    }

    fn sent(&mut self, now: Instant, link: LinkId, packet: &Packet) {
        let Some(&LinkDirection { near, queue, .. }) = self.links.get(&link) else { return };
        if self.tracks.is_some() {
            self.on_departure(now, near, queue, packet);
        }
        if packet.network.src().is_some_and(|src| self.addresses.contains(&(near, src))) {
            self.on_item(now, near, TraceItem::Sent(packet));
        }
    }

    fn delivered(&mut self, now: Instant, link: LinkId, packet: &Packet) {
        let Some(&LinkDirection { far, .. }) = self.links.get(&link) else { return };
        if packet.network.dst().is_some_and(|dst| self.addresses.contains(&(far, dst))) {
            self.on_item(now, far, TraceItem::Received(packet));
        } else {
            self.marked.on_arrival(far, packet);
        }
    }

    fn dropped(&mut self, now: Instant, place: DropPlace, reason: Reason, packet: &Packet) {
        let Some(tracks) = &mut self.tracks else { return };
        let (node, queue) = match place {
            DropPlace::Node(node) if of_queue(reason) => {
                (node.0, self.queues.get(&node.0).copied().flatten())
            }
            DropPlace::Node(node) => (node.0, None),
            DropPlace::Link(link) => match self.links.get(&link) {
                Some(way) => (way.near, None),
                None => return,
            },
        };
        if let DropPlace::Node(node) = place {
            self.marked.on_departure(node.0, packet);
        }
        tracks.dropped(now, node, queue, reason, packet);
    }

    fn event(&mut self, now: Instant, node: NodeId, event: &Event) {
        self.on_item(now, node.0, TraceItem::Event(event));
    }
}

impl TracerState {
    fn on_item(&mut self, now: Instant, node: u32, seen: TraceItem<'_>) {
        let Some(index) = self.conns.of(node, seen) else { return };
        let conn = self.conns.get(index);
        if self.flows.len() <= index {
            self.flows.push(self.known.of(conn));
        }
        let flow = self.flows[index];
        if let Some(tracks) = &mut self.tracks {
            let name = flow.map_or("tcp", |flow| &self.known.names[flow]);
            tracks.on_item(now, index, conn, name, seen);
        }
        let Some(flow) = flow else { return };
        if let Some(traces) = &mut self.qlog {
            traces.entry(index).or_default().on_item(now, conn, seen);
        }
        if self.explain.get(flow).copied().unwrap_or(false) {
            let packets = self.packets;
            let story = self.stories.entry(index).or_insert_with(|| Story::new(packets));
            story.on_event(now, conn, seen);
        }
    }

    /// A packet has left a node: by which queue, after how long, and whether it was marked there.
    fn on_departure(&mut self, now: Instant, node: u32, queue: Option<usize>, packet: &Packet) {
        let came_marked = self.marked.on_departure(node, packet);
        let (Some(queue), Some(tracks)) = (queue, &mut self.tracks) else { return };
        let waited = now.saturating_since(packet.meta.enqueued_at);
        tracks.on_dequeue(now, queue, waited.as_nanos());
        if packet.network.ecn() == Ecn::Ce && !came_marked {
            tracks.marked(now, queue, packet);
        }
    }

    fn write_qlog(
        &self,
        traces: &BTreeMap<usize, qlog::Trace>,
        store: &Store,
    ) -> Result<(), StoreError> {
        let stems = stems::distinct_stems(self.known.names.iter().map(String::as_str));
        for (flow, stem) in stems.iter().enumerate() {
            let own: Vec<(&Conn, &qlog::Trace)> = traces
                .iter()
                .filter(|(index, trace)| self.flows[**index] == Some(flow) && !trace.is_empty())
                .map(|(index, trace)| (self.conns.get(*index), trace))
                .collect();
            if own.is_empty() {
                continue;
            }
            let file = format!("{stem}.qlog");
            let mut pending = store.begin(&file)?;
            let failed = |problem| StoreError { path: store.root().join(&file), problem };
            qlog::write(&mut pending, &self.known.names[flow], &own).map_err(failed)?;
            pending.commit()?;
        }
        Ok(())
    }

    fn explained(&mut self, plan: &Plan, built: &BuiltWorld) -> Vec<FlowExplanation> {
        let Self { explain, stories, flows, conns, .. } = self;
        let mut out = Vec::new();
        for (flow, _) in explain.iter().enumerate().filter(|(_, wanted)| **wanted) {
            let name = &plan.flows[flow].name;
            let of_flow = stories.iter_mut().filter(|(index, _)| flows[**index] == Some(flow));
            let (mut own, others): (Vec<_>, Vec<_>) = of_flow
                .map(|(index, story)| (conns.get(*index), story))
                .partition(|(_, story)| story.has_sent());
            let several = own.len() > 1;
            let mut one =
                FlowExplanation { flow: name.clone(), story: String::new(), why: String::new() };
            if own.is_empty() {
                let asked =
                    others.into_iter().find_map(|(_, story)| Some((story.in_vain(name)?, story)));
                match asked {
                    Some((why, story)) => {
                        one.why = why;
                        one.story.extend([HEAD, story.lines()]);
                    }
                    None => one.why = format!("{name} has sent nothing.\n"),
                }
            }
            for (conn, story) in &mut own {
                let at = &plan.nodes[conn.node as usize].name;
                let title = format!("{name} ({at}, {} > {})", conn.local, conn.remote);
                if several {
                    one.story.extend([title.as_str(), ":\n"]);
                }
                one.story += HEAD;
                one.story += story.lines();
                let info = info_of(built, conn);
                one.why += &story.paragraph(&title, built.world.now(), info.as_ref());
            }
            out.push(one);
        }
        out
    }
}

/// What `TCP_INFO` tells of a connection that is still open.
fn info_of(built: &BuiltWorld, conn: &Conn) -> Option<TcpInfo> {
    let host = built.world.host(NodeId(conn.node));
    let plain = |ip: IpAddr| ip.to_canonical();
    let mut open = host.tcp_connections();
    let tcp = open.find(|tcp| {
        let (local, remote) = (tcp.local(), tcp.remote());
        (plain(local.ip()), local.port()) == (conn.local.ip(), conn.local.port())
            && (plain(remote.ip()), remote.port()) == (conn.remote.ip(), conn.remote.port())
    })?;
    Some(tcp.info(built.world.now()))
}

/// The flows that these patterns name.
fn chosen(patterns: &[String], plan: &Plan) -> Result<Vec<bool>, Error> {
    let mut chosen = vec![false; plan.flows.len()];
    for pattern in patterns {
        let mut any = false;
        for (flow, chosen) in plan.flows.iter().zip(&mut chosen) {
            let fits = flow.app.is_tcp() && names::matches(pattern, &flow.name);
            *chosen |= fits;
            any |= fits;
        }
        if !any {
            let tcp = plan.flows.iter().filter(|flow| flow.app.is_tcp());
            let help = suggest(pattern, tcp.map(|flow| flow.name.as_str()));
            let message = format!("no TCP flow is called \"{pattern}\"");
            return Err(unknown(format!("--explain {pattern}"), message, help));
        }
    }
    Ok(chosen)
}

fn unknown(source: String, message: String, help: Option<String>) -> Error {
    let fault = Diagnostic { source, position: None, message, help, line_text: None };
    Error::Invalid(Diagnostics(vec![fault]))
}

/// Checks the names of flows that are to be explained, and of ports that are to be captured.
///
/// # Errors
/// There is no such TCP flow, or no such port.
pub fn check(wanted: &TraceOutputs, plan: &Plan) -> Result<(), Error> {
    chosen(&wanted.explain, plan)?;
    let Some(pattern) = wanted.pcap.iter().find(|it| plan.ports_called(it).is_empty()) else {
        return Ok(());
    };
    let ends = (0..plan.links.len()).flat_map(|link| [(link, 0), (link, 1)]);
    let names: Vec<String> = ends.map(|(link, end)| plan.port_name(link, end)).collect();
    let help = suggest(pattern, names.iter().map(String::as_str));
    let message = format!("no port is called \"{pattern}\" (ports are \"NODE.LINK\")");
    Err(unknown(format!("--pcap {pattern}"), message, help))
}

/// Both directions of every link.
fn link_directions(plan: &Plan, built: &BuiltWorld) -> HashMap<LinkId, LinkDirection> {
    let mut ways = HashMap::new();
    for (_, &[a, b]) in plan.links.iter().zip(&built.ends) {
        for ((node, port), (far, _)) in [(a, b), (b, a)] {
            let way = LinkDirection { near: node.0, far: far.0, queue: None };
            ways.insert(built.world.link_of(node, port), way);
        }
    }
    ways
}

/// The addresses of every node, anycast ones too.
fn addresses(plan: &Plan, built: &BuiltWorld) -> HashSet<(u32, IpAddr)> {
    let mut all = HashSet::new();
    for index in 0..plan.nodes.len() as u32 {
        let host = built.world.host(NodeId(index));
        for port in 0..host.port_count() as u16 {
            let config = &host.port(Port(port)).config;
            all.extend(config.addresses.iter().map(|(address, _)| (index, *address)));
        }
    }
    for flow in &plan.flows {
        let nodes = flow.anycast_hosts.iter().chain([&flow.to]);
        all.extend(nodes.filter_map(|node| Some((*node as u32, flow.address?))));
    }
    all
}

/// How often queues are looked at: ten thousand times, but every millisecond at least and every ten
/// microseconds at most.
fn step(duration: Duration) -> Duration {
    Duration::from_nanos((duration.as_nanos() / 10_000).clamp(10_000, 1_000_000))
}

/// Drops that a queue makes, and not the network layer.
fn of_queue(reason: Reason) -> bool {
    matches!(
        reason,
        Reason::QdiscDrop
            | Reason::QdiscOverlimit
            | Reason::QdiscCongested
            | Reason::DualPi2StepDrop
            | Reason::CakeFlood
            | Reason::AckFilter
            | Reason::NoBuffer
            | Reason::QueuePurge
    )
}
