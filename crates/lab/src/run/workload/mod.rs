//! Workloads in a world: their programs, and what became of their flows.

mod app;
mod flows;
mod generate;
mod ideal;
mod metrics;

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use apps::AppReport;
use datapath::fib::{Decision, RouteKey};
use datapath::node::Port;
use datapath::packet::protocol;
use datapath::units::Instant;
use sim::link::NodeId;
use sim::world::{AppId, World};

use super::build::Built;
use super::config;
use crate::plan::Plan;
use crate::plan::workload::{Arrivals, WorkloadPlan};
use crate::results::{FlowRecord, FlowStatus};
use app::{Notes, Received, Sender, Sent, Sink, Source};
pub use flows::records as flow_records;
pub use metrics::{distributions, metrics};

/// A workload in a world.
pub struct Workload {
    /// The port at which all its hosts listen.
    port: u16,
    senders: Vec<AppId>,
    sent: Vec<Notes<Vec<Sent>>>,
    received: Vec<Notes<BTreeMap<SocketAddr, Received>>>,
    /// The address of each of its hosts.
    addresses: Vec<IpAddr>,
    /// True if it comes to an end by itself.
    finite: bool,
}

/// The first port of workloads, below those of flows.
const FIRST_PORT: u16 = 4000;

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
    let listeners: Arc<[SocketAddr]> = own.iter().map(|ip| SocketAddr::new(*ip, port)).collect();
    let chooser = generate::chooser(workload, plan.seed, index);
    let jobs = generate::jobs(workload, &chooser, plan.seed, index)?;
    let mut built = Workload {
        port,
        senders: Vec::new(),
        sent: Vec::new(),
        received: Vec::new(),
        addresses: own,
        finite: !matches!(workload.arrivals, Arrivals::Closed(..)),
    };
    for (host, jobs) in jobs.into_iter().enumerate() {
        let node = &plan.nodes[workload.hosts[host]];
        let id = nodes[workload.hosts[host]];
        let notes = Notes::default();
        let sink = Sink {
            local: listeners[host],
            config: config::tcp(node, &workload.like, workload.like.reply_tos)?,
            notes: Arc::clone(&notes),
            open: BTreeMap::new(),
            listener: None,
            report: AppReport::default(),
        };
        world.add_app(id, Box::new(sink), Instant::ZERO, None);
        built.received.push(notes);
        let notes = Notes::default();
        let begin = Instant::ZERO + workload.start;
        let source = match workload.arrivals {
            Arrivals::Closed(concurrency, think) => Source::Closed {
                chooser: chooser.clone(),
                sizes: workload.sizes.clone(),
                rng: generate::stream(plan.seed, index, host),
                think,
                stop: Instant::ZERO + workload.stop,
                due: (0..concurrency).map(|_| begin).collect(),
            },
            _ => Source::Open(jobs.into()),
        };
        let sender = Sender {
            host,
            source,
            addresses: Arc::clone(&listeners),
            local: built.addresses[host],
            config: config::tcp(node, &workload.like, workload.like.tos)?,
            notes: Arc::clone(&notes),
            writing: BTreeMap::new(),
            report: AppReport::default(),
        };
        built.senders.push(world.add_app(id, Box::new(sender), begin, None));
        built.sent.push(notes);
    }
    Ok(built)
}

impl Workload {
    /// True if all its flows have ended and no more will begin.
    pub fn is_finished(&self, world: &World) -> bool {
        self.finite && self.senders.iter().all(|app| world.report(*app).finished.is_some())
    }

    /// Its flows in the order of their beginning, those of one moment by sender.
    fn records(&self, plan: &Plan, index: usize, built: &Built, route: &Routes) -> Vec<FlowRecord> {
        let workload = &plan.workloads[index];
        let mut ideals = ideal::Ideals::new(plan);
        let mut records = Vec::new();
        for (host, notes) in self.sent.iter().enumerate() {
            for sent in app::open(notes).iter() {
                let far = SocketAddr::new(self.addresses[host], sent.port);
                let received = app::open(&self.received[sent.to]).get(&far).copied();
                records.push(self.record(
                    workload,
                    host,
                    sent,
                    received,
                    &mut ideals,
                    built,
                    route,
                ));
            }
        }
        records.sort_by_key(|record| record.start_ns);
        for (number, record) in (1..).zip(&mut records) {
            record.number = Some(number);
        }
        records
    }

    #[allow(
        clippy::too_many_arguments,
        reason = "what the two ends of a flow know comes together here"
    )]
    fn record(
        &self,
        workload: &WorkloadPlan,
        host: usize,
        sent: &Sent,
        received: Option<Received>,
        ideals: &mut ideal::Ideals<'_>,
        built: &Built,
        route: &Routes,
    ) -> FlowRecord {
        let (from, to) = (workload.hosts[host], workload.hosts[sent.to]);
        let whole = received.filter(|received| received.bytes >= sent.bytes);
        // A connection that is still open is asked itself.
        let info = sent.socket.and_then(|socket| {
            built.world.host(NodeId(from as u32)).tcp_info(built.world.now(), socket)
        });
        let key = RouteKey {
            src: self.addresses[host],
            src_port: sent.port,
            dst_port: self.port,
            protocol: protocol::TCP,
            ..RouteKey::to(self.addresses[sent.to])
        };
        FlowRecord {
            name: workload.name.clone(),
            number: None,
            app: "workload",
            from,
            to,
            bytes: Some(sent.bytes),
            received: received.map_or(0, |received| received.bytes),
            start_ns: sent.started.as_nanos(),
            end_ns: whole.map(|received| received.last.as_nanos()),
            ideal_ns: Some(ideals.of(from, to, sent.bytes)),
            retransmits: Some(info.as_ref().map_or(sent.retransmits, |info| info.total_retrans)),
            rtos: Some(info.as_ref().map_or(sent.rtos, |info| u32::from(info.total_rto))),
            path: route.path(built, from, &key),
            status: match (whole, sent.failed) {
                (Some(_), _) => FlowStatus::Finished,
                (None, true) => FlowStatus::Failed,
                (None, false) => FlowStatus::Unfinished,
            },
        }
    }
}

/// All flows of all workloads.
pub fn records(plan: &Plan, built: &Built) -> Vec<FlowRecord> {
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
    fn new(plan: &Plan, built: &Built) -> Self {
        let mut far = BTreeMap::new();
        for (link, ends) in plan.links.iter().zip(&built.ends) {
            for (end, (node, Port(port))) in ends.iter().enumerate() {
                far.insert((node.0, *port), link.ends[1 - end]);
            }
        }
        Self(far)
    }

    /// The nodes that a packet meets now, as the routes and the hashes of the nodes say.
    fn path(&self, built: &Built, from: usize, key: &RouteKey) -> Vec<u32> {
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
