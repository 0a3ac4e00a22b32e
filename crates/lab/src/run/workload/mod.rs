//! Workloads in a world: their applications, and the results of their flows.

mod app;
mod asks;
mod flows;
mod generate;
mod ideal;
mod metrics;
mod records;

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use apps::AppReport;
use datapath::tcp::config::TcpConfig;
use datapath::units::Instant;
use sim::link::NodeId;
use sim::world::{AppId, World};

use super::config;
use crate::plan::Plan;
use crate::plan::workload::matrix::Chooser;
use crate::plan::workload::{Arrivals, RequestPattern, WorkloadPlan};
use app::{Notes, ReceivedFlow, Sender, SentFlow, Sink, Source};
use asks::{Answers, ResponsePart};
pub use flows::records as flow_records;
use generate::Requests;
pub use metrics::{distributions, metrics};
pub use records::{check_limits, records};

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
}
