//! Samples of flows and ports at intervals while a world runs.

use datapath::qdisc::Qdisc as _;
use datapath::tcp::cc::INFINITE_SSTHRESH;
use datapath::tcp::info::BriefInfo;
use datapath::units::{Duration, Instant};
use sim::world::World;
use std::sync::Arc;

use super::apps::FlowEnds;
use super::build::BuiltWorld;
use crate::plan::Plan;
use crate::results::{Column, Samples, Series};
use crate::samples::ABSENT;

/// Takes the samples of all flows and ports.
pub struct Sampler {
    sampled: RunSamples,
    /// By flow, the samples that are not in its columns yet.
    latest: Vec<[FlowSample; BLOCK]>,
    early: Option<Duration>,
}

/// How many samples of a flow go to its columns at a time: writing to each of the very many columns at each
/// interval would miss the caches.
const BLOCK: usize = 16;

/// The samples of all flows and ports.
pub struct RunSamples {
    time_ns: Vec<i64>,
    flows: Vec<FlowState>,
    ports: Vec<PortSamples>,
    warmup_end: Instant,
}

/// The state of a flow's samples.
struct FlowState {
    name: String,
    tcp: bool,
    /// As in [`COLUMNS`]: all of them if it is TCP, and otherwise the first.
    columns: Vec<Samples>,
    /// Whether it has a throughput.
    is_received: bool,
    received: u64,
    /// Bytes that had arrived at the end of the warm-up, read or not.
    at_warmup: u64,
    /// Bytes received until the end of the flow's early part.
    early: Option<u64>,
    /// Segments retransmitted and expiries of the timer, when the socket was last seen.
    last: Option<(u32, u32)>,
}

/// A flow at one time: a value for each of [`COLUMNS`], or [`ABSENT`].
type FlowSample = [i64; COLUMNS.len()];

#[derive(Default)]
struct PortSamples {
    name: String,
    drops: u64,
    marks: u64,
    waited: (u64, u64),
    queue_bytes: Samples,
    queue_packets: Samples,
    queue_delay_us: Samples,
    drops_in: Samples,
    marks_in: Samples,
}

/// What is read of a flow at one time.
#[derive(Clone, Copy, Default)]
struct FlowSnapshot {
    /// The state of the sender's socket; none before the connection and after its end.
    info: Option<BriefInfo>,
    /// Bytes received so far, if it has a receiver.
    received: Option<u64>,
}

impl FlowSnapshot {
    fn at(world: &World, flow: &FlowEnds, tcp: bool) -> Self {
        let info = || {
            let socket = world.app(flow.sender).socket()?;
            Some(world.host(flow.sender_node).tcp_connection(socket)?.brief_info())
        };
        let received = || flow.receivers.iter().map(|(_, app)| world.app(*app).received_bytes());
        Self {
            info: if tcp { info() } else { None },
            received: (!flow.receivers.is_empty()).then(|| received().sum()),
        }
    }
}

/// How many flows are read before samples are made of them: each read has four cache misses in
/// sequence, and reads of several flows overlap.
const SIDE_BY_SIDE: usize = 8;

/// The columns of a flow's series: bytes received since the previous sample, and the state of the sender's socket, if
/// there is one, as in TCP_INFO.
const COLUMNS: [&str; 6] = [
    "throughput_bits_per_sec",
    "cwnd_segments",
    "ssthresh_segments",
    "srtt_us",
    "unacked_segments",
    "retransmits_segments",
];
/// Their indexes.
const THROUGHPUT: usize = 0;
const CWND: usize = 1;
const SSTHRESH: usize = 2;
const SRTT: usize = 3;
const UNACKED: usize = 4;
const RETRANSMITS: usize = 5;

/// The initial capacity of columns, if there are to be so many samples: then they need not be moved.
const ROOM_MOST: u64 = 4_096;

impl FlowState {
    /// Makes a sample of what was read, at the end of an interval of so many ns.
    fn sample(&mut self, FlowSnapshot { info, received }: &FlowSnapshot, span: i64) -> FlowSample {
        let mut sample = [ABSENT; COLUMNS.len()];
        if let Some(info) = info {
            self.last = Some((info.total_retrans, u32::from(info.total_rto)));
            sample[CWND] = info.snd_cwnd.into();
            if info.snd_ssthresh < INFINITE_SSTHRESH {
                sample[SSTHRESH] = info.snd_ssthresh.into();
            }
            if info.rtt > 0 {
                sample[SRTT] = info.rtt.into();
            }
            sample[UNACKED] = info.unacked.into();
            sample[RETRANSMITS] = info.total_retrans.into();
        }
        self.is_received = received.is_some();
        sample[THROUGHPUT] = 0;
        if let Some(received) = *received {
            let bits = i128::from(received - self.received) * 8 * 1_000_000_000;
            sample[THROUGHPUT] = (bits / i128::from(span)) as i64;
            self.received = received;
        }
        sample
    }

    /// Puts samples into columns.
    fn keep(&mut self, samples: &[FlowSample]) {
        let mut values = [ABSENT; BLOCK];
        for (place, column) in self.columns.iter_mut().enumerate() {
            for (value, sample) in values.iter_mut().zip(samples) {
                *value = sample[place];
            }
            column.extend_present(&values[..samples.len()]);
        }
    }
}

impl Sampler {
    /// Nothing seen yet.
    pub fn new(plan: &Plan) -> Self {
        let times = plan.duration.as_nanos().div_ceil(plan.measure.sample.as_nanos().max(1));
        let column = |_| Samples::with_capacity(times.min(ROOM_MOST) as usize);
        let flow = |flow: &crate::plan::FlowPlan| {
            let tcp = flow.app.is_stream();
            FlowState {
                name: flow.name.clone(),
                tcp,
                columns: (0..if tcp { COLUMNS.len() } else { 1 }).map(column).collect(),
                is_received: false,
                received: 0,
                at_warmup: 0,
                early: None,
                last: None,
            }
        };
        let port = |&(link, end): &(usize, usize)| PortSamples {
            name: plan.port_name(link, end),
            ..PortSamples::default()
        };
        let sampled = RunSamples {
            time_ns: Vec::new(),
            flows: plan.flows.iter().map(flow).collect(),
            ports: plan.measure.queues.iter().map(port).collect(),
            warmup_end: Instant::ZERO + plan.warmup,
        };
        let latest = vec![[[ABSENT; COLUMNS.len()]; BLOCK]; plan.flows.len()];
        Self { sampled, latest, early: plan.measure.early }
    }

    /// Notes what has arrived at the end of the warm-up: data beyond a hole will be read at
    /// once when the hole is filled, though the link carried it before.
    pub fn end_warmup(&mut self, built: &BuiltWorld) {
        for (flow, place) in self.sampled.flows.iter_mut().zip(&built.flows) {
            flow.at_warmup = place.arrived(&built.world);
        }
    }

    /// Takes one sample of everything.
    pub fn take(&mut self, built: &BuiltWorld) {
        let now = built.world.now();
        let RunSamples { time_ns, flows, ports, .. } = &mut self.sampled;
        let before = time_ns.last().copied().unwrap_or(0);
        let span = now.as_nanos() as i64 - before;
        if span <= 0 {
            return;
        }
        let number = time_ns.len() % BLOCK;
        time_ns.push(now.as_nanos() as i64);
        let flows = flows.chunks_mut(SIDE_BY_SIDE).zip(built.flows.chunks(SIDE_BY_SIDE));
        for ((flows, places), latest) in flows.zip(self.latest.chunks_mut(SIDE_BY_SIDE)) {
            let mut looked = [FlowSnapshot::default(); SIDE_BY_SIDE];
            for ((looked, flow), place) in looked.iter_mut().zip(&*flows).zip(places) {
                *looked = FlowSnapshot::at(&built.world, place, flow.tcp);
            }
            for (((flow, place), looked), latest) in
                flows.iter_mut().zip(places).zip(&looked).zip(latest)
            {
                latest[number] = flow.sample(looked, span);
                if flow.is_received && self.early.is_some_and(|early| now <= place.start + early) {
                    flow.early = Some(flow.received);
                }
                if number + 1 == BLOCK {
                    flow.keep(latest);
                }
            }
        }
        for (port, place) in ports.iter_mut().zip(&built.ports) {
            let queue = built.world.host(place.node).port(place.port);
            let watch = place.watch(&built.world);
            let backlog = queue.backlog();
            let drops = queue.qdisc().stats().drops + queue.refused();
            port.queue_bytes.push(Some(i64::from(backlog.bytes)));
            port.queue_packets.push(Some(i64::from(backlog.packets)));
            port.queue_delay_us.push(watch.mean_since(port.waited));
            port.drops_in.push(Some((drops - port.drops) as i64));
            port.marks_in.push(Some((watch.marks - port.marks) as i64));
            (port.drops, port.marks, port.waited) = (drops, watch.marks, watch.waited);
        }
    }

    /// The run has ended.
    pub fn finish(mut self) -> RunSamples {
        let rest = self.sampled.time_ns.len() % BLOCK;
        for (flow, latest) in self.sampled.flows.iter_mut().zip(&self.latest) {
            flow.keep(&latest[..rest]);
        }
        self.sampled
    }
}

impl RunSamples {
    /// Mean smoothed round-trip time of flow number `index` after the warm-up, in ms. If it is over, its socket, which
    /// may be there for long and learns nothing, no longer counts.
    pub fn mean_srtt(&self, index: usize, is_over: bool) -> Option<f64> {
        let warmup_end = self.warmup_end.as_nanos() as i64;
        let column = self.flows[index].columns.get(SRTT)?;
        let lived = if is_over { self.lived(index) } else { self.time_ns.len() };
        let known: Vec<f64> = (self.time_ns.iter().zip(column.iter()).take(lived))
            .filter(|(time, _)| **time >= warmup_end)
            .filter_map(|(_, micros)| Some(micros? as f64 / 1e3))
            .collect();
        (!known.is_empty()).then(|| known.iter().sum::<f64>() / known.len() as f64)
    }

    /// So many samples there are until flow number `index` was seen for the last time to receive or to wait for ACKs, as in
    /// [`Series::life`].
    fn lived(&self, index: usize) -> usize {
        let columns = &self.flows[index].columns;
        let busy = [THROUGHPUT, UNACKED].into_iter().filter_map(|place| columns.get(place));
        let is_busy = |value: Option<i64>| value.is_some_and(|value| value > 0);
        let last = busy.filter_map(|column| column.iter().rposition(is_busy)).max();
        last.map_or(0, |last| last + 1)
    }

    /// Segments retransmitted by flow number `index`, and expiries of its timer, when its socket was last
    /// seen.
    pub fn last_losses(&self, index: usize) -> Option<(u32, u32)> {
        self.flows[index].last
    }

    /// Bytes of flow number `index` that had arrived when the warm-up ended; some of them may never be read.
    pub fn arrived_at_warmup(&self, index: usize) -> u64 {
        self.flows[index].at_warmup
    }

    /// Mean throughput of flow number `index` in steps of this length, Mbit/s. The last one may be shorter.
    pub fn throughput_in_steps(&self, index: usize, step: Duration) -> Vec<f64> {
        let step_ns = step.as_nanos() as i64;
        let mut bits = Vec::new();
        let mut before = 0;
        let FlowState { is_received, columns, .. } = &self.flows[index];
        let known = if *is_received { &*self.time_ns } else { &[] };
        for (&time, throughput) in known.iter().zip(columns[THROUGHPUT].iter()) {
            let place = (before / step_ns) as usize;
            if place == bits.len() {
                bits.push(0.0);
            }
            bits[place] += throughput.unwrap_or(0) as f64 * (time - before) as f64 / 1e9;
            before = time;
        }
        let spans = (0..).step_by(step_ns as usize).map(|begin| step_ns.min(before - begin));
        bits.into_iter().zip(spans).map(|(bits, span)| bits * 1e9 / span as f64 / 1e6).collect()
    }

    /// Packets in queue number `index` at every sample after the warm-up.
    pub fn queue_lengths(&self, index: usize) -> Vec<f64> {
        let warmup_end = self.warmup_end.as_nanos() as i64;
        let samples = self.time_ns.iter().zip(self.ports[index].queue_packets.iter());
        samples
            .filter(|(time, _)| **time >= warmup_end)
            .filter_map(|(_, packets)| packets.map(|packets| packets as f64))
            .collect()
    }

    /// Bytes that flow number `index` received in its early part, to the last sample in it.
    pub fn received_early(&self, index: usize) -> Option<u64> {
        self.flows[index].early
    }

    /// The samples as series.
    pub fn into_series(self) -> Vec<Series> {
        let time_ns: Arc<[i64]> = self.time_ns.into();
        let series = |name: String, columns: Vec<(&str, Samples)>| Series {
            name,
            time_ns: Arc::clone(&time_ns),
            columns: columns
                .into_iter()
                .map(|(name, values)| Column { name: name.into(), values })
                .collect(),
        };
        let flows = self.flows.into_iter().filter(|flow| flow.tcp).map(|mut flow| {
            if !flow.is_received {
                flow.columns[THROUGHPUT] = Samples::default();
            }
            series(format!("flow-{}", flow.name), COLUMNS.into_iter().zip(flow.columns).collect())
        });
        let ports = self.ports.into_iter().map(|port| {
            series(
                format!("port-{}", port.name),
                vec![
                    ("queue_bytes", port.queue_bytes),
                    ("queue_packets", port.queue_packets),
                    ("queue_delay_us", port.queue_delay_us),
                    ("drops", port.drops_in),
                    ("marks", port.marks_in),
                ],
            )
        });
        flows.chain(ports).collect()
    }
}
