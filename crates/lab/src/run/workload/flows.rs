//! Results of the flows of `[flows]`, as records like those of workloads.

use std::net::IpAddr;

use apps::AppReport;
use datapath::fib::RouteKey;
use datapath::packet::protocol;
use datapath::units::Instant;

use super::ideal::Ideals;
use super::records::Routes;
use crate::plan::{App, FlowPlan, Plan};
use crate::results::{FlowRecord, FlowStatus};
use crate::run::apps::{FlowEnds, client_port, server_port};
use crate::run::build::BuiltWorld;
use crate::run::sample::RunSamples;
use crate::run::transfer;

/// Those that began, in the order of the plan.
pub fn records(plan: &Plan, built: &BuiltWorld, sampled: &RunSamples) -> Vec<FlowRecord> {
    if plan.flows.is_empty() {
        return Vec::new();
    }
    let routes = Routes::new(plan, built);
    let mut ideals = Ideals::new(plan);
    let each = plan.flows.iter().zip(&built.flows).enumerate();
    each.filter_map(|(index, (flow, place))| {
        let sender = built.world.report(place.sender);
        let started = sender.started?;
        let received = match place.receivers.as_slice() {
            [] => sender.clone(),
            _ if exchanges(&flow.app) => sender.clone(),
            _ => together(place.received(&built.world)),
        };
        let bytes = transfer::size(&flow.app);
        let ideal_ns = match flow.app {
            App::Fixed { bytes } => Some(ideals.of(flow.from, flow.to, bytes)),
            _ => None,
        };
        let (status, end) = outcome(plan, flow, place, &sender, &received, bytes);
        let losses = sampled.last_losses(index);
        Some(FlowRecord {
            name: flow.name.clone(),
            number: None,
            request: None,
            app: flow.app.word(),
            from: flow.from,
            to: flow.to,
            bytes,
            received: received.received_bytes,
            start_ns: started.as_nanos(),
            end_ns: end.map(Instant::as_nanos),
            ideal_ns,
            retransmits: losses.map(|(segments, _)| segments),
            rtos: losses.map(|(_, timeouts)| timeouts),
            path: path(flow, index, built, &routes),
            status,
        })
    })
    .collect()
}

/// What counts comes back to the asking side.
fn exchanges(app: &App) -> bool {
    !matches!(
        app,
        App::Bulk
            | App::Fixed { .. }
            | App::Chunk { .. }
            | App::OnOff { .. }
            | App::Cbr { .. }
            | App::Guest(_)
    )
}

/// What several receivers have together.
fn together(reports: impl Iterator<Item = AppReport>) -> AppReport {
    reports.fold(AppReport::default(), |sum, one| AppReport {
        received_bytes: sum.received_bytes + one.received_bytes,
        last_received: sum.last_received.max(one.last_received),
        ..sum
    })
}

/// The result of a flow, and when it had everything if it is finished.
fn outcome(
    plan: &Plan,
    flow: &FlowPlan,
    place: &FlowEnds,
    sender: &AppReport,
    received: &AppReport,
    bytes: Option<u64>,
) -> (FlowStatus, Option<Instant>) {
    let whole = bytes.is_none_or(|bytes| received.received_bytes >= bytes);
    // Attempts to connect carry nothing: they end with the last of them.
    let last = match flow.app {
        App::Connect { .. } => sender.finished,
        _ => received.last_received,
    };
    if place.finite {
        return match (sender.finished, whole && last.is_some()) {
            // All that was sent has arrived, though its end may not have come back yet.
            (finished, true) if bytes.is_some() || finished.is_some() => {
                (FlowStatus::Finished, last)
            }
            (Some(_), _) => (FlowStatus::Failed, None),
            (None, _) => (FlowStatus::Unfinished, None),
        };
    }
    let stopped = flow.stop.is_some_and(|stop| stop < plan.duration);
    match (sender.finished, stopped) {
        (Some(_), true) => (FlowStatus::Finished, last),
        (Some(_), false) => (FlowStatus::Failed, None),
        (None, true) if !flow.app.is_tcp() => (FlowStatus::Finished, last),
        (None, true) => (FlowStatus::Unfinished, None),
        (None, false) => (FlowStatus::Open, None),
    }
}

/// The nodes on its way, by the routes at the end of the run.
fn path(flow: &FlowPlan, index: usize, built: &BuiltWorld, routes: &Routes) -> Vec<u32> {
    let (src, dst): (IpAddr, IpAddr) =
        (built.addresses[flow.from], flow.address.unwrap_or(built.addresses[flow.to]));
    let number = index as u16;
    let ports = |protocol| (client_port(number), server_port(number), protocol);
    let (src_port, dst_port, protocol) = match flow.app {
        App::Ping { .. } if src.is_ipv4() => (0, 0, protocol::ICMP),
        App::Ping { .. } => (0, 0, protocol::ICMPV6),
        App::Cbr { .. } | App::Probe { .. } => ports(protocol::UDP),
        App::Guest(guest) if !guest.value().is_tcp() => ports(protocol::UDP),
        _ => ports(protocol::TCP),
    };
    let key = RouteKey { src, src_port, dst_port, protocol, ..RouteKey::to(dst) };
    routes.path(built, flow.from, &key)
}
