//! Speed: cases of fixed parameters, measured in hops per CPU second.
//!
//! A hop is one MTU-sized packet put on one link. There is no TSO; routers route. The parameters
//! of `a`, `b` and `d-N` are those that other simulators were measured with; `c-N` grows the
//! number of hosts with the number of flows.

use std::net::SocketAddr;

use datapath::qdisc::fifo::{Fifo, FifoKind};
use datapath::qdisc::{Handle, Sched};
use datapath::tcp::config::TcpConfig;
use datapath::units::{Duration, Instant, Rate};
use serde_json::{Value as Json, json};
use sim::app::{TcpSend, TcpSink};
use sim::link::LinkConfig;
use sim::topology::Topology;
use sim::world::{AppId, World};

/// One case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Case {
    /// Its name.
    pub name: &'static str,
    /// What it is, in a few words.
    pub about: &'static str,
    shape: Shape,
    flows: u32,
    bottleneck_mbit: u64,
    rtt_us: u64,
    /// Queue of the bottleneck in packets.
    queue: u32,
    until: Until,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    /// Pairs of hosts on both sides of two routers.
    Dumbbell,
    /// Many hosts, one router, one receiver.
    Incast,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Until {
    /// So much virtual time.
    Millis(u64),
    /// So many hops.
    Hops(u64),
}

/// The cases in the order in which they run.
pub const CASES: [Case; 7] = [
    Case::dumbbell("a", "10 flows, 1 Gbit/s, 20 ms, 10 s", 10, 1_000, Until::Millis(10_000)),
    Case {
        name: "b",
        about: "19 senders, one receiver, 10 Gbit/s, 0.1 ms, 0.5 s",
        shape: Shape::Incast,
        flows: 19,
        bottleneck_mbit: 10_000,
        rtt_us: 100,
        queue: 250,
        until: Until::Millis(500),
    },
    Case::dumbbell("d-10", "10 flows, 1 Gbit/s, 20 ms, 2 s", 10, 1_000, Until::Millis(2_000)),
    Case::dumbbell(
        "d-1000",
        "1000 flows, 1 Gbit/s, 20 ms, 2 s",
        1_000,
        1_000,
        Until::Millis(2_000),
    ),
    Case::dumbbell("c-100", "100 flows, 1 Gbit/s, 20 ms", 100, 1_000, Until::Hops(20_000_000)),
    Case::dumbbell(
        "c-1000",
        "1000 flows, 10 Gbit/s, 20 ms",
        1_000,
        10_000,
        Until::Hops(20_000_000),
    ),
    Case::dumbbell(
        "c-10000",
        "10000 flows, 100 Gbit/s, 20 ms",
        10_000,
        100_000,
        Until::Hops(20_000_000),
    ),
];

/// What the process has used so far.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Usage {
    /// User and system time.
    pub cpu_seconds: f64,
    /// Largest resident set.
    pub peak_rss_bytes: u64,
}

/// What a case gave.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// The case's name.
    pub name: &'static str,
    /// TCP flows.
    pub flows: u32,
    /// MTU-sized packets put on links.
    pub hops: u64,
    /// CPU time of the run, without setting up.
    pub cpu_seconds: f64,
    /// Data segments sent.
    pub segments: u64,
    /// Payload received in the second half of the run.
    pub goodput_mbps: f64,
    /// The bottleneck's rate.
    pub bottleneck_mbps: f64,
    /// Largest resident set of the process.
    pub peak_rss_bytes: u64,
}

impl Case {
    const fn dumbbell(
        name: &'static str,
        about: &'static str,
        flows: u32,
        bottleneck_mbit: u64,
        until: Until,
    ) -> Self {
        let rtt_us = 20_000;
        // One bandwidth-delay product of 1500 bytes, at least a hundred.
        let product = bottleneck_mbit * rtt_us / 8 / 1500;
        let queue = if product < 100 { 100 } else { product as u32 };
        Self { name, about, shape: Shape::Dumbbell, flows, bottleneck_mbit, rtt_us, queue, until }
    }

    /// Runs the case; `usage` tells what the process has used so far.
    ///
    /// # Errors
    /// When the world cannot be built, or the goodput is under 90 % of the bottleneck's rate.
    pub fn run(&self, usage: impl Fn() -> Usage) -> Result<Outcome, String> {
        let (mut world, sinks) = self.build().map_err(|error| error.to_string())?;
        let before = usage();
        let half = self.half(&mut world);
        let middle = world.now();
        let at_half = received(&world, &sinks);
        self.rest(&mut world, half);
        let after = usage();
        let span = world.now().saturating_since(middle).as_nanos() as f64 / 1e9;
        let payload = received(&world, &sinks) - at_half;
        let nodes = 0..world.node_count() as u32;
        let sent = nodes.map(|node| world.host(sim::link::NodeId(node)).tcp_mib().orig_data_sent);
        let outcome = Outcome {
            name: self.name,
            flows: self.flows,
            hops: world.stats().full_hops,
            cpu_seconds: after.cpu_seconds - before.cpu_seconds,
            segments: sent.sum(),
            goodput_mbps: payload as f64 * 8.0 / span / 1e6,
            bottleneck_mbps: self.bottleneck_mbit as f64,
            peak_rss_bytes: after.peak_rss_bytes,
        };
        if outcome.goodput_mbps < 0.9 * outcome.bottleneck_mbps {
            return Err(format!(
                "{}: goodput {:.1} Mbit/s is under 90 % of the bottleneck's {:.0}",
                self.name, outcome.goodput_mbps, outcome.bottleneck_mbps
            ));
        }
        Ok(outcome)
    }

    /// Runs the first half; returns its hops.
    fn half(&self, world: &mut World) -> u64 {
        match self.until {
            Until::Millis(millis) => world.run_until(at_millis(millis / 2)),
            Until::Hops(hops) => run_to_hops(world, hops / 2),
        }
        world.stats().full_hops
    }

    fn rest(&self, world: &mut World, half: u64) {
        match self.until {
            Until::Millis(millis) => world.run_until(at_millis(millis)),
            Until::Hops(hops) => run_to_hops(world, hops.max(half + hops / 2)),
        }
    }

    fn build(&self) -> Result<(World, Vec<AppId>), sim::topology::TopologyError> {
        let mut net = Topology::new();
        let micros = Duration::from_micros;
        let (access_delay, middle_delay) = match self.shape {
            Shape::Dumbbell => (micros(self.rtt_us / 20), micros(self.rtt_us * 2 / 5)),
            Shape::Incast => (micros(self.rtt_us / 4), micros(self.rtt_us / 4)),
        };
        let access = LinkConfig::new(Rate::from_mbit(10_000), access_delay);
        let bottleneck = LinkConfig::new(Rate::from_mbit(self.bottleneck_mbit), middle_delay);
        let near = net.router("near");
        let far = match self.shape {
            Shape::Dumbbell => net.router("far"),
            Shape::Incast => net.host("receiver"),
        };
        let middle = net.wire(near, far, bottleneck);
        let wire = net.wire_mut(middle);
        let queue = Fifo::new(FifoKind::Packets(self.queue));
        wire.a.qdisc = Some(Sched::new(Handle::new(1, 0), queue));
        let mut pairs = Vec::new();
        for flow in 0..self.flows {
            let sender = net.host(&format!("s{flow}"));
            net.wire(sender, near, access.clone());
            let receiver = match self.shape {
                Shape::Incast => far,
                Shape::Dumbbell => {
                    let receiver = net.host(&format!("r{flow}"));
                    net.wire(far, receiver, access.clone());
                    receiver
                }
            };
            pairs.push((sender, receiver));
        }
        let mut world = net.build(1)?;
        let tcp = TcpConfig::default();
        let mut sinks = Vec::new();
        for (flow, (sender, receiver)) in (0u16..).zip(pairs) {
            let to = SocketAddr::new(net.address(receiver)?, 5_001 + flow);
            let from = SocketAddr::new(net.address(sender)?, 40_001);
            let sink = TcpSink::new(to, tcp.clone());
            sinks.push(world.add_app(receiver, Box::new(sink), Instant::ZERO, None));
            let start = Instant::from_nanos(u64::from(flow) * self.stagger_nanos());
            world.add_app(sender, Box::new(TcpSend::bulk(from, to, tcp.clone())), start, None);
        }
        Ok((world, sinks))
    }

    /// Time between the starts of two flows: 0.1 ms, 10 µs in the incast; within two round trips
    /// for very many.
    fn stagger_nanos(&self) -> u64 {
        let usual = if self.shape == Shape::Incast { 10_000 } else { 100_000 };
        (2_000 * self.rtt_us / u64::from(self.flows)).min(usual)
    }
}

fn at_millis(millis: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(millis)
}

/// Runs on in steps of 10 ms until there were that many hops, for at most ten virtual minutes.
fn run_to_hops(world: &mut World, hops: u64) {
    let end = Instant::ZERO + Duration::from_secs(600);
    while world.stats().full_hops < hops && world.now() < end {
        let next = world.now() + Duration::from_millis(10);
        world.run_until(next);
    }
}

fn received(world: &World, sinks: &[AppId]) -> u64 {
    sinks.iter().map(|sink| world.report(*sink).received_bytes).sum()
}

impl Outcome {
    /// Hops per CPU second.
    pub fn hops_per_cpu_second(&self) -> f64 {
        self.hops as f64 / self.cpu_seconds.max(1e-9)
    }

    /// The outcome as JSON.
    pub fn to_json(&self) -> Json {
        json!({
            "name": self.name, "flows": self.flows, "hops": self.hops,
            "cpu_seconds": self.cpu_seconds,
            "hops_per_cpu_second": self.hops_per_cpu_second(),
            "segments_per_cpu_second": self.segments as f64 / self.cpu_seconds.max(1e-9),
            "goodput_mbps": self.goodput_mbps, "peak_rss_bytes": self.peak_rss_bytes,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_case_fills_its_bottleneck() {
        let case = Case::dumbbell("t", "", 2, 50, Until::Millis(4_000));
        let usage = || Usage { cpu_seconds: 1.0, peak_rss_bytes: 1 };
        let outcome = case.run(usage).unwrap_or_else(|problem| panic!("{problem}"));
        assert!(outcome.hops > 3 * 10_000, "{} hops", outcome.hops);
        assert!(outcome.segments * 3 >= outcome.hops);
    }
}
