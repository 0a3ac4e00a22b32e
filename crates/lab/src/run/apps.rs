//! From the flows of a plan to applications on hosts.

use std::net::{IpAddr, SocketAddr};

use apps::{
    App as SimApp, AppReport, Cbr, Connect, Exchange, Ping, QueryClient, RequestClient,
    ResponseServer, TcpSend, TcpSink, UdpEcho, UdpSink,
};
use datapath::rng::Rng;
use datapath::units::{Bytes, Duration, Instant, Rate};
use sim::link::NodeId;
use sim::world::{AppId, World};

use super::config;
use super::outside::{ExternalEnd, Placeholder, Report};
use crate::application::FlowPlace;
use crate::plan::{App, FlowPlan, Plan, Stack};

/// The two ends of a flow in the world.
pub struct FlowEnds {
    /// The sending or requesting application.
    pub sender: AppId,
    /// The host it runs on.
    pub sender_node: NodeId,
    /// The receiving or responding applications, and their hosts; ICMP needs none, an anycast service
    /// has several.
    pub receivers: Vec<(NodeId, AppId)>,
    /// When it starts.
    pub start: Instant,
    /// True if it comes to an end by itself.
    pub finite: bool,
}

impl FlowEnds {
    /// The reports of its receivers.
    pub fn received<'a>(&'a self, world: &'a World) -> impl Iterator<Item = AppReport> + 'a {
        self.receivers.iter().map(|(_, app)| world.report(*app))
    }

    /// Payload bytes that have arrived where they are received, read or not.
    pub fn arrived(&self, world: &World) -> u64 {
        let waiting = |(node, report): (NodeId, &AppReport)| {
            let connection = world.host(node).tcp_connection(report.socket?)?;
            Some(connection.waiting_bytes())
        };
        let each = self.receivers.iter().map(|(node, _)| *node).zip(self.received(world));
        each.map(|(node, report)| report.received_bytes + waiting((node, &report)).unwrap_or(0))
            .sum()
    }
}

/// The port of the first server; flow k's server listens at `SERVER_PORT + k`.
const SERVER_PORT: u16 = 5001;
/// The port of the first client.
const CLIENT_PORT: u16 = 40001;
/// Random streams of flow starts, apart from those of links, applications and draws.
const START_STREAMS: u64 = 1 << 44;

/// The port at which the server of flow `number` listens.
pub fn server_port(number: u16) -> u16 {
    SERVER_PORT + number
}

/// The port of the client of flow `number`. Beyond the last port it is that of the flow's own server, which runs on
/// another host: no other flow has that.
pub fn client_port(number: u16) -> u16 {
    CLIENT_PORT.checked_add(number).unwrap_or_else(|| server_port(number))
}

/// Puts flow number `index` of the plan into the world; ends of it that run on a kernel's stack go to
/// `outside`, if there is one.
pub fn add(
    world: &mut World,
    plan: &Plan,
    index: usize,
    (nodes, addresses): (&[NodeId], &[IpAddr]),
    mut outside: Option<&mut Vec<ExternalEnd>>,
) -> Result<FlowEnds, String> {
    let flow = &plan.flows[index];
    let number = u16::try_from(index).ok().filter(|number| *number < CLIENT_PORT - SERVER_PORT);
    let number = number.ok_or("an experiment has at most 35000 flows")?;
    let (sender_node, receiver_node) = (nodes[flow.from], nodes[flow.to]);
    let target = flow.address.unwrap_or(addresses[flow.to]);
    let place = Sockets {
        local: SocketAddr::new(addresses[flow.from], client_port(number)),
        remote: SocketAddr::new(target, server_port(number)),
    };
    let start = start_time(plan, flow, index);
    if let App::Query { servers, .. } = &flow.app {
        let remotes: Vec<SocketAddr> = servers
            .iter()
            .map(|node| SocketAddr::new(addresses[*node], place.remote.port()))
            .collect();
        return add_query(world, plan, flow, nodes, place.local, &remotes, start);
    }
    let stop = flow.stop.map(|stop| Instant::ZERO + stop);
    let mut put_outside = |sends: bool| -> Option<Box<dyn SimApp>> {
        let node = if sends { flow.from } else { flow.to };
        let list = outside.as_mut().filter(|_| plan.nodes[node].stack == Stack::Kernel)?;
        let report = Report::default();
        let from = addresses[flow.from];
        let (remote, stop) = (place.remote, flow.stop);
        let start = if sends { start } else { Instant::ZERO };
        let one = ExternalEnd { flow: index, sends, from, remote, start, stop, report };
        let box_of = Box::new(Placeholder(one.report.clone()));
        list.push(one);
        Some(box_of)
    };
    // The receiving end is made first.
    let outside_receiver = has_receiver(&flow.app).then(|| put_outside(false)).flatten();
    let outside_sender = put_outside(true);
    if let App::Program { .. } = flow.app {
        let (Some(sender), receiver) = (outside_sender, outside_receiver) else {
            return Err(format!(
                "{}: a program needs a live run (--live), between hosts with `stack = \"kernel\"`",
                flow.name
            ));
        };
        let mut add = |app| (receiver_node, world.add_app(receiver_node, app, Instant::ZERO, None));
        let receivers = receiver.map(&mut add).into_iter().collect();
        let sender = world.add_app(sender_node, sender, start, stop);
        return Ok(FlowEnds { sender, sender_node, receivers, start, finite: true });
    }
    let (sender, receiver) = applications(plan, flow, place)?;
    let (sender, receiver) = (outside_sender.unwrap_or(sender), outside_receiver.or(receiver));
    let mut receivers = Vec::new();
    if let Some(server) = receiver {
        let app = world.add_app(receiver_node, server, Instant::ZERO, None);
        receivers.push((receiver_node, app));
    }
    for &other in &flow.anycast_hosts {
        if let (_, Some(server)) = applications(plan, flow, place)? {
            let app = world.add_app(nodes[other], server, Instant::ZERO, None);
            receivers.push((nodes[other], app));
        }
    }
    let sender = world.add_app(sender_node, sender, start, stop);
    Ok(FlowEnds { sender, sender_node, receivers, start, finite: is_finite(&flow.app) })
}

/// Whether an application at the other end receives or responds.
fn has_receiver(app: &App) -> bool {
    match app {
        App::Ping { .. } => false,
        App::Program { server, .. } => !server.is_empty(),
        _ => true,
    }
}

/// A query's client, and a server at each of `remotes`.
fn add_query(
    world: &mut World,
    plan: &Plan,
    flow: &FlowPlan,
    nodes: &[NodeId],
    local: SocketAddr,
    remotes: &[SocketAddr],
    start: Instant,
) -> Result<FlowEnds, String> {
    let App::Query { servers, request, response, think, count } = &flow.app else {
        return Err("not a query".into());
    };
    let share = response.div_ceil(servers.len() as u64).max(1);
    let exchange = Exchange { request: *request, response: share };
    for (node, remote) in servers.iter().zip(remotes) {
        let config = config::tcp(&plan.nodes[*node], flow, remote.ip(), flow.reply_tos)?;
        let server = ResponseServer::new(*remote, config, exchange);
        world.add_app(nodes[*node], Box::new(server), Instant::ZERO, None);
    }
    let ends = remotes.iter().map(|remote| (local, *remote)).collect();
    let client = config::tcp(&plan.nodes[flow.from], flow, local.ip(), flow.tos)?;
    let client = QueryClient::new(ends, client, exchange, *think, count.unwrap_or(u64::MAX));
    let sender_node = nodes[flow.from];
    let stop = flow.stop.map(|stop| Instant::ZERO + stop);
    let sender = world.add_app(sender_node, Box::new(client), start, stop);
    Ok(FlowEnds { sender, sender_node, receivers: Vec::new(), start, finite: is_finite(&flow.app) })
}

/// The addresses of a flow's two ends.
#[derive(Clone, Copy)]
struct Sockets {
    local: SocketAddr,
    remote: SocketAddr,
}

/// A start within `start .. start + spread`, drawn from the run's seed.
fn start_time(plan: &Plan, flow: &FlowPlan, index: usize) -> Instant {
    let mut rng = Rng::stream(plan.seed, START_STREAMS + index as u64);
    let spread = match flow.spread.as_nanos() {
        0 => 0,
        nanos => rng.below(nanos),
    };
    Instant::ZERO + flow.start + Duration::from_nanos(spread)
}

/// True if the application comes to an end by itself.
fn is_finite(app: &App) -> bool {
    match app {
        App::Fixed { .. } | App::Program { .. } => true,
        App::Chunk { bytes, .. } => bytes.is_some(),
        App::Request { count, .. } | App::Query { count, .. } | App::Connect { count, .. } => {
            count.is_some()
        }
        App::Guest(guest) => guest.value().is_finite(),
        App::Bulk | App::OnOff { .. } | App::Cbr { .. } | App::Ping { .. } | App::Probe { .. } => {
            false
        }
    }
}

/// A boxed application, and its counterpart where it needs one.
type Pair = (Box<dyn SimApp>, Option<Box<dyn SimApp>>);

fn applications(plan: &Plan, flow: &FlowPlan, place: Sockets) -> Result<Pair, String> {
    let Sockets { local, remote } = place;
    let client = config::tcp(&plan.nodes[flow.from], flow, local.ip(), flow.tos)?;
    let server = config::tcp(&plan.nodes[flow.to], flow, remote.ip(), flow.reply_tos)?;
    let bulk = || TcpSend::bulk(local, remote, client.clone());
    let sink = |sender: TcpSend| -> Pair {
        (Box::new(sender), Some(Box::new(TcpSink::new(remote, server.clone()))))
    };
    Ok(match &flow.app {
        App::Bulk => sink(bulk()),
        App::Fixed { bytes } => sink(bulk().limit(*bytes)),
        App::Chunk { chunk, gap, bytes } => {
            sink(bulk().chunks(*chunk, *gap).limit(bytes.unwrap_or(u64::MAX)))
        }
        App::OnOff { on, off } => sink(bulk().on_off(*on, *off)),
        App::Request { request, response, think, count } => {
            let exchange = Exchange { request: *request, response: *response };
            let count = count.unwrap_or(u64::MAX);
            let ask = RequestClient::new(local, remote, client, exchange, *think, count);
            (Box::new(ask), Some(Box::new(ResponseServer::new(remote, server, exchange))))
        }
        App::Cbr { rate, size } => {
            let (size, interval) = datagrams(*rate, *size)?;
            let sender = Cbr::new(local, remote, size, interval).tos(flow.tos);
            (Box::new(sender), Some(Box::new(UdpSink::new(remote))))
        }
        App::Ping { interval, size } => {
            let ping = Ping::icmp(remote.ip(), payload(*size)?, probe_interval(*interval)?);
            (Box::new(ping.tos(flow.tos)), None)
        }
        App::Connect { interval, count } => {
            let count = count.unwrap_or(u64::MAX);
            let connect = Connect::new(local, remote, client, probe_interval(*interval)?, count);
            (Box::new(connect), Some(Box::new(TcpSink::new(remote, server))))
        }
        App::Guest(guest) => {
            let (tos, reply_tos) = (flow.tos, flow.reply_tos);
            let place = FlowPlace { local, remote, client, server, tos, reply_tos };
            let (sender, receiver) = guest.value().ends(&place);
            (sender, Some(receiver))
        }
        App::Query { .. } => return Err("a query has several servers".into()),
        App::Program { .. } => return Err("a program is none of our applications".into()),
        App::Probe { interval, size } => {
            let ping = Ping::udp(local, remote, payload(*size)?, probe_interval(*interval)?);
            (Box::new(ping.tos(flow.tos)), Some(Box::new(UdpEcho::new(remote).tos(flow.reply_tos))))
        }
    })
}

/// The size of a datagram and the time between two of them.
fn datagrams(rate: Rate, size: u64) -> Result<(u32, Duration), String> {
    let size = payload(size)?;
    let interval = rate.time_to_send(Bytes(size));
    if interval == Duration::ZERO {
        return Err("a datagram flow needs a size above zero".into());
    }
    Ok((size, interval))
}

fn payload(size: u64) -> Result<u32, String> {
    match u32::try_from(size) {
        Ok(size) if size <= 65_507 => Ok(size),
        _ => Err(format!("{size} bytes do not fit in a datagram")),
    }
}

fn probe_interval(interval: Duration) -> Result<Duration, String> {
    match interval {
        Duration::ZERO => Err("probes need some time between them".into()),
        interval => Ok(interval),
    }
}
