//! What is looked at while a world runs: queues packet by packet, flows and ports at intervals.

use datapath::packet::{Ecn, Packet};
use datapath::qdisc::Qdisc as _;
use datapath::tcp::info::TcpInfo;
use datapath::units::{Duration, Instant};
use hdrhistogram::Histogram;
use sim::record::Watcher;

use super::apps::FlowEnds;
use super::build::Built;
use crate::plan::Plan;
use crate::results::{Column, Series};

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
    flows: Vec<FlowSamples>,
    ports: Vec<PortSamples>,
    warmup_end: Instant,
    early: Option<Duration>,
}

struct FlowSamples {
    name: String,
    tcp: bool,
    received: u64,
    /// Bytes that had arrived at the end of the warm-up, read or not.
    at_warmup: u64,
    /// Bytes received until the end of the flow's early part.
    early: Option<u64>,
    /// Segments sent again and expiries of the timer, when the socket was last seen.
    last: Option<(u32, u32)>,
    throughput: Vec<Option<i64>>,
    cwnd: Vec<Option<i64>>,
    ssthresh: Vec<Option<i64>>,
    srtt_us: Vec<Option<i64>>,
    unacked: Vec<Option<i64>>,
    retransmits: Vec<Option<i64>>,
}

#[derive(Default)]
struct PortSamples {
    name: String,
    drops: u64,
    marks: u64,
    waited: (u64, u64),
    queue_bytes: Vec<Option<i64>>,
    queue_packets: Vec<Option<i64>>,
    queue_delay_us: Vec<Option<i64>>,
    drops_in: Vec<Option<i64>>,
    marks_in: Vec<Option<i64>>,
}

/// `ssthresh` before the first loss (`TCP_INFINITE_SSTHRESH`).
pub const INFINITE_SSTHRESH: u32 = 0x7fff_ffff;

/// What the sender's socket tells; nothing before the connection and after its end.
fn tcp_info(built: &Built, flow: &FlowEnds) -> Option<TcpInfo> {
    let socket = built.world.report(flow.sender).socket?;
    built.world.host(flow.sender_node).tcp_info(built.world.now(), socket)
}

impl FlowSamples {
    fn look(&mut self, info: Option<&TcpInfo>) {
        if let Some(info) = info {
            self.last = Some((info.total_retrans, u32::from(info.total_rto)));
        }
        let field = |read: fn(&TcpInfo) -> u32| info.map(|info| i64::from(read(info)));
        self.cwnd.push(field(|info| info.snd_cwnd));
        let infinite = i64::from(INFINITE_SSTHRESH);
        self.ssthresh.push(field(|info| info.snd_ssthresh).filter(|value| *value < infinite));
        self.srtt_us.push(field(|info| info.rtt).filter(|value| *value > 0));
        self.unacked.push(field(|info| info.unacked));
        self.retransmits.push(field(|info| info.total_retrans));
    }
}

impl Sampler {
    /// Nothing seen yet.
    pub fn new(plan: &Plan) -> Self {
        let flow = |flow: &crate::plan::FlowPlan| FlowSamples {
            name: flow.name.clone(),
            tcp: flow.app.is_stream(),
            received: 0,
            at_warmup: 0,
            early: None,
            last: None,
            throughput: Vec::new(),
            cwnd: Vec::new(),
            ssthresh: Vec::new(),
            srtt_us: Vec::new(),
            unacked: Vec::new(),
            retransmits: Vec::new(),
        };
        let port = |&(link, end): &(usize, usize)| PortSamples {
            name: plan.port_name(link, end),
            ..PortSamples::default()
        };
        Self {
            time_ns: Vec::new(),
            flows: plan.flows.iter().map(flow).collect(),
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
        self.time_ns.push(now.as_nanos() as i64);
        for (flow, place) in self.flows.iter_mut().zip(&built.flows) {
            if flow.tcp {
                flow.look(tcp_info(built, place).as_ref());
            }
            if place.receivers.is_empty() {
                continue;
            }
            let reports = place.received(&built.world);
            let received = reports.map(|report| report.received_bytes).sum();
            let bits = i128::from(received - flow.received) * 8 * 1_000_000_000;
            flow.throughput.push(Some((bits / i128::from(span)) as i64));
            flow.received = received;
            if self.early.is_some_and(|early| now <= place.start + early) {
                flow.early = Some(received);
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

    /// Mean smoothed round-trip time of flow number `index` after the warm-up, in ms.
    pub fn mean_srtt(&self, index: usize) -> Option<f64> {
        let warmup_end = self.warmup_end.as_nanos() as i64;
        let samples = self.time_ns.iter().zip(&self.flows[index].srtt_us);
        let known: Vec<f64> = samples
            .filter(|(time, _)| **time >= warmup_end)
            .filter_map(|(_, micros)| micros.map(|micros| micros as f64 / 1e3))
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
        for (&time, throughput) in self.time_ns.iter().zip(&self.flows[index].throughput) {
            let place = (before / step_ns) as usize;
            if place == bits.len() {
                bits.push(0.0);
            }
            bits[place] += throughput.unwrap_or(0) as f64 * (time - before) as f64 / 1e9;
            before = time;
        }
        let per_second = 1e9 / step_ns as f64;
        bits.into_iter().map(|bits| bits * per_second / 1e6).collect()
    }

    /// Packets in queue number `index` at every sample after the warm-up.
    pub fn queue_lengths(&self, index: usize) -> Vec<f64> {
        let warmup_end = self.warmup_end.as_nanos() as i64;
        let samples = self.time_ns.iter().zip(&self.ports[index].queue_packets);
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
        let time_ns = self.time_ns;
        let series = |name: String, columns: Vec<(&str, Vec<Option<i64>>)>| Series {
            name,
            time_ns: time_ns.clone(),
            columns: columns
                .into_iter()
                .map(|(name, values)| Column { name: name.into(), values })
                .collect(),
        };
        let flows = self.flows.into_iter().filter(|flow| flow.tcp).map(|flow| {
            series(
                format!("flow-{}", flow.name),
                vec![
                    ("throughput_bits_per_sec", flow.throughput),
                    ("cwnd_segments", flow.cwnd),
                    ("ssthresh_segments", flow.ssthresh),
                    ("srtt_us", flow.srtt_us),
                    ("unacked_segments", flow.unacked),
                    ("retransmits_segments", flow.retransmits),
                ],
            )
        });
        let mut all: Vec<Series> = flows.collect();
        all.extend(self.ports.into_iter().map(|port| {
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
        }));
        all
    }
}
