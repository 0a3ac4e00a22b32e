//! What became of the flows of workloads.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::Ordering;

use datapath::fib::{Decision, RouteKey};
use datapath::node::Port;
use datapath::packet::protocol;
use sim::link::NodeId;

use super::generate::RequestId;
use super::{
    AppNotes, ClientNotes, ReceiverNotes, SenderNotes, ServerNotes, Workload, app, asks, ideal,
};
use crate::plan::Plan;
use crate::plan::limits::HOST_FLOWS_MAX;
use crate::plan::workload::{Arrivals, WorkloadPlan};
use crate::results::{FlowRecord, FlowStatus};
use crate::run::build::BuiltWorld;

impl Workload {
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
pub(super) struct Routes(BTreeMap<(u32, u16), usize>);

impl Routes {
    pub(super) fn new(plan: &Plan, built: &BuiltWorld) -> Self {
        let mut far = BTreeMap::new();
        for (link, ends) in plan.links.iter().zip(&built.ends) {
            for (end, (node, Port(port))) in ends.iter().enumerate() {
                far.insert((node.0, *port), link.ends[1 - end]);
            }
        }
        Self(far)
    }

    /// The nodes that a packet meets now, as the routes and the hashes of the nodes say.
    pub(super) fn path(&self, built: &BuiltWorld, from: usize, key: &RouteKey) -> Vec<u32> {
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
