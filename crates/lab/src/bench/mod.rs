//! Speed: cases of fixed parameters, measured in hops per CPU second.
//!
//! A hop is one MTU-sized packet put on one link. There is no TSO; routers route. The parameters
//! of `a`, `b` and `d-N` are those that other simulators were measured with; `c-N` grows the
//! number of hosts with the number of flows.

mod blueprint;
mod shapes;

use datapath::units::{Duration, Instant};
use serde_json::{Value as Json, json};
use sim::world::{AppId, HOP_BYTES, World};

use crate::plan::limits::FILE_MAX;

use blueprint::Blueprint;
use shapes::Bottleneck;

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
    /// Three levels of switches with so many ports.
    FatTree(u32),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Until {
    /// So much virtual time.
    Millis(u64),
    /// So many hops.
    Hops(u64),
}

/// The cases in the order in which they run.
pub const CASES: [Case; 11] = [
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
    Case::dumbbell(
        "c-100000",
        "100000 flows, 1 Tbit/s, 20 ms",
        100_000,
        1_000_000,
        Until::Hops(60_000_000),
    ),
    Case::fat_tree("ft-4", "fat tree of 16 hosts, 10 Gbit/s, 1 µs a link", 4),
    Case::fat_tree("ft-8", "fat tree of 128 hosts, 10 Gbit/s, 1 µs a link", 8),
    Case::fat_tree("ft-16", "fat tree of 1024 hosts, 10 Gbit/s, 1 µs a link", 16),
];

/// Links that a packet crosses at most; in a dumbbell it is half of them, or five where there are switches, which leaves
/// room for what is lost at the bottleneck.
const LINKS_MOST: u64 = 6;

/// What the process has used so far.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Usage {
    /// User and system time.
    pub cpu_seconds: f64,
    /// Time on the wall, from any moment on.
    pub wall_seconds: f64,
    /// Largest resident set.
    pub peak_rss_bytes: u64,
}

/// What a case gave.
#[derive(Clone, Debug, PartialEq)]
pub struct BenchResult {
    /// The case's name.
    pub name: &'static str,
    /// TCP flows.
    pub flows: u32,
    /// MTU-sized packets put on links.
    pub hops: u64,
    /// Threads that were allowed to run it.
    pub threads: u32,
    /// CPU time of the run, without setting up.
    pub cpu_seconds: f64,
    /// Time on the wall of the same.
    pub wall_seconds: f64,
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

    /// Every host sends to another one. Hashes leave some links idle and others shared, so nothing
    /// says how much of the hosts' rate can be used.
    const fn fat_tree(name: &'static str, about: &'static str, ports: u32) -> Self {
        let flows = ports * ports * ports / 4;
        let bottleneck_mbit = 10_000 * flows as u64;
        let hops = if ports < 8 { 2_000_000 } else { 20_000_000 };
        let (shape, until) = (Shape::FatTree(ports), Until::Hops(hops));
        Self { name, about, shape, flows, bottleneck_mbit, rtt_us: 20, queue: 0, until }
    }

    /// The least share of the bottleneck's rate that the flows must have used, percent.
    const fn least_percent(&self) -> u32 {
        match self.shape {
            Shape::Dumbbell | Shape::Incast => 90,
            Shape::FatTree(_) => 30,
        }
    }

    /// The case as an experiment file.
    ///
    /// # Errors
    /// Where such a file would be larger than one may be.
    pub fn toml(&self) -> Result<String, String> {
        let duration = match (self.until, self.shape) {
            (Until::Millis(millis), _) => format!("{millis}ms"),
            (Until::Hops(_), Shape::FatTree(_)) => "100ms".to_string(),
            (Until::Hops(_), _) => "20s".to_string(),
        };
        let text = self.blueprint().toml(self.name, self.about, &duration);
        if text.len() as u64 <= FILE_MAX {
            return Ok(text);
        }
        let (size, most) = (text.len() >> 20, FILE_MAX >> 20);
        let name = self.name;
        Err(format!(
            "{name} makes {size} MB of text; a file has at most {most}: run it with \"ackwright bench {name}\""
        ))
    }

    /// Runs the case with up to so many threads; `usage` tells what the process has used so far.
    ///
    /// # Errors
    /// When the world cannot be built, or the goodput is under 90 % of the bottleneck's rate (in a fat
    /// tree, under 30 % of what all hosts may send).
    pub fn run(&self, threads: u32, usage: impl Fn() -> Usage) -> Result<BenchResult, String> {
        let (mut world, sinks) = self.blueprint().world().map_err(|error| error.to_string())?;
        world.set_threads(threads as usize);
        let before = usage();
        let half = self.half(&mut world);
        let middle = world.now();
        let at_half = received(&world, &sinks);
        self.run_second_half(&mut world, half);
        let after = usage();
        let span = world.now().saturating_since(middle).as_nanos() as f64 / 1e9;
        let payload = received(&world, &sinks) - at_half;
        let nodes = 0..world.node_count() as u32;
        let sent = nodes.map(|node| world.host(sim::link::NodeId(node)).tcp_mib().orig_data_sent);
        let outcome = BenchResult {
            name: self.name,
            flows: self.flows,
            hops: world.stats().full_hops,
            threads,
            cpu_seconds: after.cpu_seconds - before.cpu_seconds,
            wall_seconds: after.wall_seconds - before.wall_seconds,
            segments: sent.sum(),
            goodput_mbps: payload as f64 * 8.0 / span / 1e6,
            bottleneck_mbps: self.bottleneck_mbit as f64,
            peak_rss_bytes: after.peak_rss_bytes,
        };
        let least = self.least_percent();
        if outcome.goodput_mbps * 100.0 < f64::from(least) * outcome.bottleneck_mbps {
            return Err(format!(
                "{}: goodput {:.1} Mbit/s is under {least} % of {:.0}",
                self.name, outcome.goodput_mbps, outcome.bottleneck_mbps
            ));
        }
        Ok(outcome)
    }

    /// Runs the first half; returns its hops.
    fn half(&self, world: &mut World) -> u64 {
        match self.until {
            Until::Millis(millis) => world.run_until(at_millis(millis / 2)),
            Until::Hops(hops) => self.run_to_hops(world, hops / 2),
        }
        world.stats().full_hops
    }

    fn run_second_half(&self, world: &mut World, half: u64) {
        match self.until {
            Until::Millis(millis) => world.run_until(at_millis(millis)),
            Until::Hops(hops) => self.run_to_hops(world, hops.max(half + hops / 2)),
        }
    }

    fn blueprint(&self) -> Blueprint {
        let stagger = Duration::from_nanos(self.stagger_nanos());
        let (flows, mbit) = (self.flows, self.bottleneck_mbit);
        let bottleneck =
            Bottleneck { flows, mbit, rtt_us: self.rtt_us, queue: self.queue, stagger };
        match self.shape {
            Shape::Dumbbell => shapes::dumbbell(&bottleneck),
            Shape::Incast => shapes::incast(&bottleneck),
            Shape::FatTree(ports) => shapes::fat_tree(ports, stagger),
        }
    }

    /// Runs on in steps of half a round trip until there were that many hops, for at most ten
    /// virtual minutes. Steps in which there are not so many, as the flows get the bottleneck's rate at most, are taken
    /// at once: threads start with each run of the world.
    fn run_to_hops(&self, world: &mut World, hops: u64) {
        let end = Instant::ZERO + Duration::from_secs(600);
        let step = Duration::from_micros(self.rtt_us / 2);
        let in_step = self.bottleneck_mbit * (self.rtt_us / 2) / u64::from(8 * HOP_BYTES);
        let most = (LINKS_MOST * in_step).max(1);
        while world.stats().full_hops < hops && world.now() < end {
            let missing = hops - world.stats().full_hops;
            let steps = (missing / most).max(1);
            world.run_until((world.now() + step * steps).min(end.max(world.now() + step)));
        }
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

fn received(world: &World, sinks: &[AppId]) -> u64 {
    sinks.iter().map(|sink| world.report(*sink).received_bytes).sum()
}

impl BenchResult {
    /// Hops per CPU second.
    pub fn hops_per_cpu_second(&self) -> f64 {
        self.hops as f64 / self.cpu_seconds.max(1e-9)
    }

    /// Hops per second on the wall.
    pub fn hops_per_wall_second(&self) -> f64 {
        self.hops as f64 / self.wall_seconds.max(1e-9)
    }

    /// The outcome as JSON.
    pub fn to_json(&self) -> Json {
        json!({
            "name": self.name, "flows": self.flows, "hops": self.hops,
            "threads": self.threads, "cpu_seconds": self.cpu_seconds,
            "wall_seconds": self.wall_seconds,
            "hops_per_cpu_second": self.hops_per_cpu_second(),
            "hops_per_wall_second": self.hops_per_wall_second(),
            "segments_per_cpu_second": self.segments as f64 / self.cpu_seconds.max(1e-9),
            "goodput_mbps": self.goodput_mbps, "peak_rss_bytes": self.peak_rss_bytes,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Experiment;

    const NOTHING: Usage = Usage { cpu_seconds: 1.0, wall_seconds: 1.0, peak_rss_bytes: 1 };

    #[test]
    fn a_small_case_fills_its_bottleneck() {
        let case = Case::dumbbell("t", "", 2, 50, Until::Millis(4_000));
        let outcome = case.run(1, || NOTHING).unwrap_or_else(|problem| panic!("{problem}"));
        assert!(outcome.hops > 3 * 10_000, "{} hops", outcome.hops);
        assert!(outcome.segments * 3 >= outcome.hops);
    }

    #[test]
    fn a_fat_tree_carries_what_hashes_let_it() {
        let case = Case { until: Until::Hops(60_000), ..Case::fat_tree("t", "", 4) };
        let outcome = case.run(1, || NOTHING).unwrap_or_else(|problem| panic!("{problem}"));
        assert!(outcome.hops >= 60_000, "{} hops", outcome.hops);
    }

    #[test]
    fn every_case_fits_into_a_file_or_says_so() {
        for case in CASES {
            match case.toml() {
                Ok(text) => {
                    let file = Experiment::parse("t.toml", &text, &[]);
                    assert!(file.is_ok(), "{}: {:?}", case.name, file.err());
                }
                Err(problem) => assert!(problem.starts_with("c-100000 makes 25 MB"), "{problem}"),
            }
        }
    }

    /// The file says what the case is: a few of each shape are read, checked and built.
    #[test]
    fn a_case_is_an_experiment_too() {
        let dumbbell = Case::dumbbell("t", "two flows", 2, 50, Until::Millis(200));
        let tree = Case::fat_tree("t", "sixteen hosts", 4);
        for case in [dumbbell, tree, CASES[1]] {
            let text = case.toml().unwrap_or_else(|problem| panic!("{problem}"));
            let file = Experiment::parse("t.toml", &text, &[]);
            let file = file.unwrap_or_else(|problems| panic!("{problems}"));
            assert_eq!(file.base.flows.len(), case.flows as usize);
        }
    }
}
