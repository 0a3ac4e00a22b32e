//! What is looked at while a world runs: queues packet by packet, flows and ports at intervals.

use apps::App;
use datapath::packet::{Ecn, Packet};
use datapath::qdisc::Qdisc as _;
use datapath::tcp::info::BriefInfo;
use datapath::units::{Duration, Instant};
use hdrhistogram::Histogram;
use sim::record::Watcher;
use sim::world::World;

use super::apps::FlowEnds;
use super::build::Built;
use crate::plan::Plan;
use crate::results::{Column, Samples, Series};

/// Sees every packet that leaves one queue.
pub struct QueueWatch {
    warmup_end: Instant,
    /// Waiting times after the warm-up, in ns.
    pub delays: Histogram<u64>,
    /// Packets that left with CE.
    pub marks: u64,
    /// Packets, and the sum of their waiting times in ns.
    waited: (u64, u64),
}

impl QueueWatch {
    /// Watches the queue before a link.
    pub fn new(warmup: Duration) -> Self {
        let delays = Histogram::new(3).expect("three digits are possible");
        let warmup_end = Instant::ZERO + warmup;
        Self { warmup_end, delays, marks: 0, waited: (0, 0) }
    }

    /// Mean waiting time of the packets since there were `before`, in µs.
    fn mean_since(&self, before: (u64, u64)) -> Option<i64> {
        let (packets, total) = (self.waited.0 - before.0, self.waited.1 - before.1);
        (packets > 0).then(|| (total / packets / 1_000) as i64)
    }
}

impl Watcher for QueueWatch {
    fn sent(&mut self, now: Instant, packet: &Packet) {
        let waited = now.saturating_since(packet.meta.enqueued_at).as_nanos();
        self.waited.0 += 1;
        self.waited.1 += waited;
        if packet.network.ecn() == Ecn::Ce {
            self.marks += 1;
        }
        if now >= self.warmup_end {
            self.delays.record(waited).expect("the histogram grows as needed");
        }
    }
}

/// The samples of all flows and ports.
pub struct Sampler {
    time_ns: Vec<i64>,
    flows: Vec<FlowState>,
    /// By block of times and by flow.
    samples: Vec<Vec<[FlowSample; BLOCK]>>,
    ports: Vec<PortSamples>,
    warmup_end: Instant,
    early: Option<Duration>,
}

/// So many samples of a flow lie together: all flows are written to in turn, and later read one by one.
const BLOCK: usize = 8;

/// What is known of a flow besides its samples.
struct FlowState {
    name: String,
    tcp: bool,
    /// Its throughput is known.
    is_received: bool,
    received: u64,
    /// Bytes that had arrived at the end of the warm-up, read or not.
    at_warmup: u64,
    /// Bytes received until the end of the flow's early part.
    early: Option<u64>,
    /// Segments sent again and expiries of the timer, when the socket was last seen.
    last: Option<(u32, u32)>,
}

/// A flow at one time. There are very many of these.
#[derive(Clone, Copy, Default)]
struct FlowSample {
    /// Received since the sample before, bit/s.
    throughput: i64,
    /// What the sender's socket told, while there was one.
    socket: Option<SocketSample>,
}

/// As in TCP_INFO.
#[derive(Clone, Copy)]
struct SocketSample {
    cwnd: u32,
    ssthresh: u32,
    rtt: u32,
    unacked: u32,
    retransmits: u32,
}

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

/// `ssthresh` before the first loss (`TCP_INFINITE_SSTHRESH`).
pub const INFINITE_SSTHRESH: u32 = 0x7fff_ffff;

/// What the sender's socket tells; nothing before the connection and after its end.
fn brief_info(world: &World, flow: &FlowEnds) -> Option<BriefInfo> {
    let socket = world.app(flow.sender).socket()?;
    Some(world.host(flow.sender_node).tcp_connection(socket)?.brief_info())
}

/// What a column has of a sample.
type Reading = fn(&SocketSample) -> Option<i64>;

impl SocketSample {
    /// The columns of a series.
    const COLUMNS: [(&str, Reading); 5] = [
        ("cwnd_segments", |socket| Some(socket.cwnd.into())),
        ("ssthresh_segments", |socket| {
            (socket.ssthresh < INFINITE_SSTHRESH).then_some(socket.ssthresh.into())
        }),
        ("srtt_us", Self::srtt_us),
        ("unacked_segments", |socket| Some(socket.unacked.into())),
        ("retransmits_segments", |socket| Some(socket.retransmits.into())),
    ];

    fn srtt_us(&self) -> Option<i64> {
        (self.rtt > 0).then_some(self.rtt.into())
    }
}

impl FlowState {
    /// Takes one sample, which ends a time of so many ns.
    fn look(&mut self, world: &World, place: &FlowEnds, span: i64) -> FlowSample {
        let mut sample = FlowSample::default();
        if self.tcp
            && let Some(info) = brief_info(world, place)
        {
            self.last = Some((info.total_retrans, u32::from(info.total_rto)));
            sample.socket = Some(SocketSample {
                cwnd: info.snd_cwnd,
                ssthresh: info.snd_ssthresh,
                rtt: info.rtt,
                unacked: info.unacked,
                retransmits: info.total_retrans,
            });
        }
        self.is_received = !place.receivers.is_empty();
        if self.is_received {
            let apps = place.receivers.iter().map(|(_, app)| world.app(*app));
            let received = apps.map(App::received_bytes).sum();
            let bits = i128::from(received - self.received) * 8 * 1_000_000_000;
            sample.throughput = (bits / i128::from(span)) as i64;
            self.received = received;
        }
        sample
    }
}

impl Sampler {
    /// Nothing seen yet.
    pub fn new(plan: &Plan) -> Self {
        let flow = |flow: &crate::plan::FlowPlan| FlowState {
            name: flow.name.clone(),
            tcp: flow.app.is_stream(),
            is_received: false,
            received: 0,
            at_warmup: 0,
            early: None,
            last: None,
        };
        let port = |&(link, end): &(usize, usize)| PortSamples {
            name: plan.port_name(link, end),
            ..PortSamples::default()
        };
        Self {
            time_ns: Vec::new(),
            flows: plan.flows.iter().map(flow).collect(),
            samples: Vec::new(),
            ports: plan.measure.queues.iter().map(port).collect(),
            warmup_end: Instant::ZERO + plan.warmup,
            early: plan.measure.early,
        }
    }

    /// Notes what has arrived now that the warm-up ends: what lies beyond a hole then will be read in one
    /// go when that is filled, though the link carried it before.
    pub fn end_warmup(&mut self, built: &Built) {
        for (flow, place) in self.flows.iter_mut().zip(&built.flows) {
            flow.at_warmup = place.arrived(&built.world);
        }
    }

    /// Takes one sample of everything.
    pub fn take(&mut self, built: &Built) {
        let now = built.world.now();
        let before = self.time_ns.last().copied().unwrap_or(0);
        let span = now.as_nanos() as i64 - before;
        if span <= 0 {
            return;
        }
        let number = self.time_ns.len() % BLOCK;
        if number == 0 {
            self.samples.push(vec![[FlowSample::default(); BLOCK]; self.flows.len()]);
        }
        self.time_ns.push(now.as_nanos() as i64);
        let samples = self.samples.last_mut().into_iter().flatten();
        for ((flow, place), samples) in self.flows.iter_mut().zip(&built.flows).zip(samples) {
            samples[number] = flow.look(&built.world, place, span);
            if flow.is_received && self.early.is_some_and(|early| now <= place.start + early) {
                flow.early = Some(flow.received);
            }
        }
        for (port, place) in self.ports.iter_mut().zip(&built.ports) {
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

    /// The samples of flow number `index`.
    fn samples(&self, index: usize) -> impl Iterator<Item = &FlowSample> {
        let blocks = self.samples.iter().flat_map(move |flows| &flows[index]);
        blocks.take(self.time_ns.len())
    }

    /// Mean smoothed round-trip time of flow number `index` after the warm-up, in ms.
    pub fn mean_srtt(&self, index: usize) -> Option<f64> {
        let warmup_end = self.warmup_end.as_nanos() as i64;
        let samples = self.time_ns.iter().zip(self.samples(index));
        let known: Vec<f64> = samples
            .filter(|(time, _)| **time >= warmup_end)
            .filter_map(|(_, sample)| sample.socket?.srtt_us())
            .map(|micros| micros as f64 / 1e3)
            .collect();
        (!known.is_empty()).then(|| known.iter().sum::<f64>() / known.len() as f64)
    }

    /// Segments sent again by flow number `index`, and expiries of its timer, when its socket was last
    /// seen.
    pub fn last_losses(&self, index: usize) -> Option<(u32, u32)> {
        self.flows[index].last
    }

    /// Bytes of flow number `index` that had arrived when the warm-up ended; some of them may never be read.
    pub fn arrived_at_warmup(&self, index: usize) -> u64 {
        self.flows[index].at_warmup
    }

    /// Mean throughput of flow number `index` in steps of this length, Mbit/s.
    pub fn throughput_in_steps(&self, index: usize, step: Duration) -> Vec<f64> {
        let step_ns = step.as_nanos() as i64;
        let mut bits = Vec::new();
        let mut before = 0;
        let known = if self.flows[index].is_received { &*self.time_ns } else { &[] };
        for (&time, sample) in known.iter().zip(self.samples(index)) {
            let place = (before / step_ns) as usize;
            if place == bits.len() {
                bits.push(0.0);
            }
            bits[place] += sample.throughput as f64 * (time - before) as f64 / 1e9;
            before = time;
        }
        let per_second = 1e9 / step_ns as f64;
        bits.into_iter().map(|bits| bits * per_second / 1e6).collect()
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
    pub fn into_series(mut self) -> Vec<Series> {
        let ports = core::mem::take(&mut self.ports);
        let series = |name: String, columns: Vec<(&str, Samples)>| Series {
            name,
            time_ns: self.time_ns.clone(),
            columns: columns
                .into_iter()
                .map(|(name, values)| Column { name: name.into(), values })
                .collect(),
        };
        let streams = self.flows.iter().enumerate().filter(|(_, flow)| flow.tcp);
        let column = |index, times, read: &dyn Fn(&FlowSample) -> Option<i64>| {
            let mut values = Samples::with_capacity(times);
            self.samples(index).take(times).for_each(|sample| values.push(read(sample)));
            values
        };
        let flows = streams.map(|(index, flow)| {
            let all = self.time_ns.len();
            let received = if flow.is_received { all } else { 0 };
            let throughput = column(index, received, &|sample| Some(sample.throughput));
            let mut columns = vec![("throughput_bits_per_sec", throughput)];
            columns.extend(SocketSample::COLUMNS.map(|(name, read)| {
                (name, column(index, all, &|sample| read(sample.socket.as_ref()?)))
            }));
            series(format!("flow-{}", flow.name), columns)
        });
        let ports = ports.into_iter().map(|port| {
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
