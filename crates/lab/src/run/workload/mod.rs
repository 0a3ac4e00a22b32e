//! Workloads in a world: their applications, and the results of their flows.

mod app;
mod asks;
mod flows;
mod generate;
mod ideal;
mod metrics;

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use apps::AppReport;
use datapath::fib::{Decision, RouteKey};
use datapath::node::Port;
use datapath::packet::protocol;
use datapath::tcp::config::TcpConfig;
use datapath::units::Instant;
use sim::link::NodeId;
use sim::world::{AppId, World};

use super::build::BuiltWorld;
use super::config;
use crate::plan::Plan;
use crate::plan::limits::HOST_FLOWS_MAX;
use crate::plan::workload::matrix::Chooser;
use crate::plan::workload::{Arrivals, RequestPattern, WorkloadPlan};
use crate::results::{FlowRecord, FlowStatus};
use app::{Notes, ReceivedFlow, Sender, SentFlow, Sink, Source};
use asks::{Answers, ResponsePart};
pub use flows::records as flow_records;
use generate::{RequestId, Requests};
pub use metrics::{distributions, metrics};

/// A workload in a world.
pub struct Workload {
    /// The port at which all its hosts listen.
    port: u16,
    senders: Vec<AppId>,
    seen: AppNotes,
    /// The address of each of its hosts.
    addresses: Vec<IpAddr>,
    /// True if it comes to an end by itself.
    finite: bool,
    /// A host would have begun more flows than are possible.
    full: Arc<AtomicBool>,
}

/// The notes of its applications.
enum AppNotes {
    /// Flows that open a connection each: what senders and receivers saw, host by host.
    Flows(Vec<SenderNotes>, Vec<ReceiverNotes>),
    /// Parts of answers: what each client saw, and each server.
    Parts(Vec<(usize, ClientNotes)>, Vec<ServerNotes>),
}

type SenderNotes = Notes<Vec<SentFlow>>;
type ReceiverNotes = Notes<BTreeMap<SocketAddr, ReceivedFlow>>;
type ClientNotes = Notes<Vec<ResponsePart>>;
type ServerNotes = Notes<BTreeMap<(u32, u32), Answers>>;

/// The first port of workloads, below those of flows.
const FIRST_PORT: u16 = 4000;

/// Builds the applications of a workload.
struct WorkloadBuilder<'a> {
    plan: &'a Plan,
    workload: &'a WorkloadPlan,
    /// Which of the plan's workloads it is.
    index: usize,
    /// All nodes of the plan.
    nodes: &'a [NodeId],
    chooser: Chooser,
    /// Where its hosts listen.
    listeners: Arc<[SocketAddr]>,
    full: Arc<AtomicBool>,
}

/// Puts workload number `index` of the plan into the world.
///
/// # Errors
/// A host would send more flows than it has ports for, or a sysctl is refused.
pub fn add(
    world: &mut World,
    plan: &Plan,
    index: usize,
    nodes: &[NodeId],
    addresses: &[IpAddr],
) -> Result<Workload, String> {
    let workload = &plan.workloads[index];
    let port = FIRST_PORT + index as u16;
    let own: Vec<IpAddr> = workload.hosts.iter().map(|host| addresses[*host]).collect();
    let building = WorkloadBuilder {
        plan,
        workload,
        index,
        nodes,
        chooser: generate::chooser(workload, plan.seed, index),
        listeners: own.iter().map(|ip| SocketAddr::new(*ip, port)).collect(),
        full: Arc::default(),
    };
    let (senders, seen) = match workload.arrivals {
        Arrivals::Requests(asking) => building.add_clients(world, asking)?,
        _ => building.sending(world)?,
    };
    let finite = match workload.arrivals {
        Arrivals::Closed(..) => workload.stop < plan.duration,
        Arrivals::Requests(asking) => asking.count.is_some() || workload.stop < plan.duration,
        _ => true,
    };
    Ok(Workload { port, senders, seen, addresses: own, finite, full: building.full })
}

impl WorkloadBuilder<'_> {
    fn node(&self, host: usize) -> NodeId {
        self.nodes[self.workload.hosts[host]]
    }

    /// How the connections of a host are configured that send with `tos`.
    fn config(&self, host: usize, tos: u8) -> Result<TcpConfig, String> {
        let node = &self.plan.nodes[self.workload.hosts[host]];
        config::tcp(node, &self.workload.template, self.listeners[host].ip(), tos)
    }

    /// On each host a program that sends and one that receives.
    fn sending(&self, world: &mut World) -> Result<(Vec<AppId>, AppNotes), String> {
        let (workload, seed) = (self.workload, self.plan.seed);
        let jobs = generate::jobs(workload, &self.chooser, seed, self.index)?;
        let (mut senders, mut sent, mut received) = (Vec::new(), Vec::new(), Vec::new());
        for (host, jobs) in jobs.into_iter().enumerate() {
            let id = self.node(host);
            let notes = Notes::default();
            let sink = Sink {
                local: self.listeners[host],
                config: self.config(host, workload.template.reply_tos)?,
                notes: Arc::clone(&notes),
                open: BTreeMap::new(),
                listener: None,
                report: AppReport::default(),
            };
            world.add_app(id, Box::new(sink), Instant::ZERO, None);
            received.push(notes);
            let notes = Notes::default();
            let begin = Instant::ZERO + workload.start;
            let source = match workload.arrivals {
                Arrivals::Closed(concurrency, think) => Source::Closed {
                    chooser: self.chooser.clone(),
                    sizes: workload.sizes.clone(),
                    rng: generate::stream(seed, self.index, host),
                    think,
                    stop: Instant::ZERO + workload.stop,
                    due: (0..concurrency).map(|_| begin).collect(),
                },
                _ => Source::Open(jobs.into()),
            };
            let sender = Sender {
                host,
                source,
                addresses: Arc::clone(&self.listeners),
                local: self.listeners[host].ip(),
                config: self.config(host, workload.template.tos)?,
                full: Arc::clone(&self.full),
                notes: Arc::clone(&notes),
                writing: BTreeMap::new(),
                report: AppReport::default(),
            };
            senders.push(world.add_app(id, Box::new(sender), begin, None));
            sent.push(notes);
        }
        Ok((senders, AppNotes::Flows(sent, received)))
    }

    /// On each host a program that answers, and on those of clients one that asks.
    fn add_clients(
        &self,
        world: &mut World,
        asking: RequestPattern,
    ) -> Result<(Vec<AppId>, AppNotes), String> {
        let workload = self.workload;
        let drawn_by = (self.plan.seed, self.index);
        let hosts = self.listeners.iter().map(SocketAddr::ip).zip(0..);
        let known = Arc::new(asks::Clients {
            plan: workload.clone(),
            chooser: self.chooser.clone(),
            drawn_by,
            of: hosts.collect(),
        });
        let mut answers = Vec::new();
        for host in 0..workload.hosts.len() {
            let id = self.node(host);
            let notes = Notes::default();
            let server = asks::Server {
                host,
                local: self.listeners[host],
                config: self.config(host, workload.template.tos)?,
                request_bytes: asking.bytes,
                clients: Arc::clone(&known),
                dialogues: BTreeMap::new(),
                notes: Arc::clone(&notes),
                listener: None,
                report: AppReport::default(),
            };
            world.add_app(id, Box::new(server), Instant::ZERO, None);
            answers.push(notes);
        }
        let begin = Instant::ZERO + workload.start;
        let (mut clients, mut parts) = (Vec::new(), Vec::new());
        for &host in &workload.clients {
            let id = self.node(host);
            let notes = Notes::default();
            let place = |place| {
                let requests = Requests::new(workload, &self.chooser, drawn_by, host, place)?;
                Some(asks::ClientPlace::new((host, place), requests, asking.count, begin))
            };
            let client = asks::Client {
                places: (0..asking.concurrency as usize).filter_map(place).collect(),
                local: self.listeners[host].ip(),
                addresses: Arc::clone(&self.listeners),
                config: self.config(host, workload.template.reply_tos)?,
                request_bytes: asking.bytes,
                think: asking.think,
                stop: Instant::ZERO + workload.stop,
                notes: Arc::clone(&notes),
                full: Arc::clone(&self.full),
                sockets: BTreeMap::new(),
                report: AppReport::default(),
            };
            clients.push(world.add_app(id, Box::new(client), begin, None));
            parts.push((host, notes));
        }
        Ok((clients, AppNotes::Parts(parts, answers)))
    }
}

impl Workload {
    /// True if all its flows have ended and no more will begin.
    pub fn is_finished(&self, world: &World) -> bool {
        self.finite && self.senders.iter().all(|app| world.report(*app).finished.is_some())
    }

    /// Its flows in the order of their beginning, those of one moment by sender (of answers, by client).
    fn records(
        &self,
        plan: &Plan,
        index: usize,
        built: &BuiltWorld,
        route: &Routes,
    ) -> Vec<FlowRecord> {
        let workload = &plan.workloads[index];
        let mut ideals = ideal::Ideals::new(plan);
        let mut records = match &self.seen {
            AppNotes::Flows(sent, received) => {
                self.flows(workload, (sent, received), &mut ideals, built, route)
            }
            AppNotes::Parts(parts, answers) => {
                self.parts(workload, (parts, answers), &mut ideals, built, route)
            }
        };
        records.sort_by_key(|(_, record)| record.start_ns);
        let mut requests = BTreeMap::new();
        for (number, (request, record)) in (1..).zip(&mut records) {
            record.number = Some(number);
            if let Some(request) = request {
                let next = requests.len() as u64 + 1;
                record.request = Some(*requests.entry(*request).or_insert(next));
            }
        }
        records.into_iter().map(|(_, record)| record).collect()
    }

    /// Flows that opened a connection each.
    fn flows(
        &self,
        workload: &WorkloadPlan,
        (sent, received): (&[SenderNotes], &[ReceiverNotes]),
        ideals: &mut ideal::Ideals<'_>,
        built: &BuiltWorld,
        route: &Routes,
    ) -> Vec<RequestedFlow> {
        let mut records = Vec::new();
        for (host, notes) in sent.iter().enumerate() {
            for sent in app::open(notes).iter() {
                let far = SocketAddr::new(self.addresses[host], sent.port);
                let received = app::open(&received[sent.to]).get(&far).copied();
                let (from, to) = (workload.hosts[host], workload.hosts[sent.to]);
                let whole = received.filter(|received| received.bytes >= sent.bytes);
                // The state of a connection that is still open is read from it.
                let info = sent.socket.and_then(|socket| {
                    built.world.host(NodeId(from as u32)).tcp_info(built.world.now(), socket)
                });
                let losses = info.map_or((sent.retransmits, sent.rtos), |info| {
                    (info.total_retrans, u32::from(info.total_rto))
                });
                let record = FlowRecord {
                    bytes: Some(sent.bytes),
                    received: received.map_or(0, |received| received.bytes),
                    start_ns: sent.started.as_nanos(),
                    end_ns: whole.map(|received| received.last.as_nanos()),
                    ideal_ns: Some(ideals.of(from, to, sent.bytes)),
                    path: route.path(
                        built,
                        from,
                        &self.key((host, sent.port), (sent.to, self.port)),
                    ),
                    status: status(whole.is_some(), sent.failed),
                    ..blank(workload, (from, to), losses)
                };
                records.push((sent.request, record));
            }
        }
        records
    }

    /// Parts of answers, over connections that stood.
    fn parts(
        &self,
        workload: &WorkloadPlan,
        (parts, answers): (&[(usize, ClientNotes)], &[ServerNotes]),
        ideals: &mut ideal::Ideals<'_>,
        built: &BuiltWorld,
        route: &Routes,
    ) -> Vec<RequestedFlow> {
        let Arrivals::Requests(asking) = workload.arrivals else { return Vec::new() };
        let losses = losses(workload, answers, built);
        let mut records = Vec::new();
        for (host, notes) in parts {
            for part in app::open(notes).iter() {
                let (from, to) = (workload.hosts[part.server], workload.hosts[*host]);
                let whole = part.received >= part.bytes;
                let far = (*host, asks::client_port(part.request.place));
                let lost = losses.get(&(part.server, part.request)).copied().unwrap_or_default();
                let record = FlowRecord {
                    bytes: Some(part.bytes),
                    received: part.received,
                    start_ns: part.started.as_nanos(),
                    end_ns: whole.then(|| part.last.as_nanos()),
                    ideal_ns: Some(ideals.of_answer(to, from, asking.bytes, part.bytes)),
                    path: route.path(built, from, &self.key((part.server, self.port), far)),
                    status: status(whole, part.failed),
                    ..blank(workload, (from, to), lost)
                };
                records.push((Some(part.request), record));
            }
        }
        records
    }

    /// What a packet is routed by, from a host's port to another's.
    fn key(&self, from: (usize, u16), to: (usize, u16)) -> RouteKey {
        RouteKey {
            src: self.addresses[from.0],
            src_port: from.1,
            dst_port: to.1,
            protocol: protocol::TCP,
            ..RouteKey::to(self.addresses[to.0])
        }
    }
}

/// A flow, and the request of which it is a part of the answer.
type RequestedFlow = (Option<RequestId>, FlowRecord);

/// A flow of a workload, without its result.
fn blank(workload: &WorkloadPlan, ends: (usize, usize), losses: (u32, u32)) -> FlowRecord {
    FlowRecord {
        name: workload.name.clone(),
        number: None,
        request: None,
        app: "workload",
        from: ends.0,
        to: ends.1,
        bytes: None,
        received: 0,
        start_ns: 0,
        end_ns: None,
        ideal_ns: None,
        retransmits: Some(losses.0),
        rtos: Some(losses.1),
        path: Vec::new(),
        status: FlowStatus::Unfinished,
    }
}

fn status(whole: bool, failed: bool) -> FlowStatus {
    match (whole, failed) {
        (true, _) => FlowStatus::Finished,
        (false, true) => FlowStatus::Failed,
        (false, false) => FlowStatus::Unfinished,
    }
}

/// Segments retransmitted and timers expired during each part, by its server: what came until the next request.
fn losses(
    workload: &WorkloadPlan,
    answers: &[ServerNotes],
    built: &BuiltWorld,
) -> BTreeMap<(usize, RequestId), (u32, u32)> {
    let mut losses = BTreeMap::new();
    for (server, notes) in answers.iter().enumerate() {
        let host = built.world.host(NodeId(workload.hosts[server] as u32));
        for (&(client, place), of) in app::open(notes).iter() {
            let info = of.socket.and_then(|socket| host.tcp_info(built.world.now(), socket));
            let mut end =
                info.map_or(of.end, |info| (info.total_retrans, u32::from(info.total_rto)));
            for &(number, segments, timers) in of.begun.iter().rev() {
                let during = (end.0.saturating_sub(segments), end.1.saturating_sub(timers));
                losses.insert((server, RequestId { client, place, number }), during);
                end = (segments, timers);
            }
        }
    }
    losses
}

/// Whether all flows that were to begin could.
///
/// # Errors
/// A host of a closed workload has begun as many as are possible: what it does from then on would not be what is
/// asked for.
pub fn check_limits(plan: &Plan, built: &BuiltWorld) -> Result<(), String> {
    let mut each = plan.workloads.iter().zip(&built.workloads);
    match each.find(|(_, workload)| workload.full.load(Ordering::Relaxed)) {
        None => Ok(()),
        Some((workload, _)) => Err(format!(
            "the workload \"{}\" would have more than {HOST_FLOWS_MAX} flows of one host by {} s; \
             give it an earlier \"stop\", a longer \"think\", or larger flows",
            workload.name,
            built.world.now().as_nanos() as f64 / 1e9
        )),
    }
}

/// All flows of all workloads.
pub fn records(plan: &Plan, built: &BuiltWorld) -> Vec<FlowRecord> {
    if built.workloads.is_empty() {
        return Vec::new();
    }
    let routes = Routes::new(plan, built);
    let each = built.workloads.iter().enumerate();
    each.flat_map(|(index, workload)| workload.records(plan, index, built, &routes)).collect()
}

/// Which node lies behind each port.
struct Routes(BTreeMap<(u32, u16), usize>);

impl Routes {
    fn new(plan: &Plan, built: &BuiltWorld) -> Self {
        let mut far = BTreeMap::new();
        for (link, ends) in plan.links.iter().zip(&built.ends) {
            for (end, (node, Port(port))) in ends.iter().enumerate() {
                far.insert((node.0, *port), link.ends[1 - end]);
            }
        }
        Self(far)
    }

    /// The nodes that a packet meets now, as the routes and the hashes of the nodes say.
    fn path(&self, built: &BuiltWorld, from: usize, key: &RouteKey) -> Vec<u32> {
        const LONGEST: usize = 64;
        let mut path = vec![from as u32];
        while let Some(&node) = path.last()
            && path.len() < LONGEST
        {
            let Decision::Forward(hop) = built.world.host(NodeId(node)).fib().lookup(key) else {
                break;
            };
            let Some(next) = self.0.get(&(node, hop.port)) else { break };
            path.push(*next as u32);
        }
        path
    }
}
