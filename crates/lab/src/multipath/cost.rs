//! What one routing decision costs, in cycles of the processor's time stamp counter.
//!
//! The rows are those of the 2015 series (two next hops): the schedulers before it and its own,
//! then today's policies. A whole decision is measured, from the key of a packet to its next hop;
//! the series measured the choice among the next hops of a route that was found already, which is
//! a row apart.

use std::hint::black_box;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Barrier;

use datapath::fib::hash::{self, HashKey, Policy};
use datapath::fib::multipath::PathSet;
use datapath::fib::{
    Algorithm, Decision, Fib, HashInput, Hashed, NextHop, Prefix, Route, RouteKey,
};
use datapath::rng::Rng;
use datapath::units::Instant;
use quanta::Clock;

use super::Case;
use crate::shared_fib::SharedFib;

/// Decisions between two looks at the clock.
const BATCH: usize = 4096;
/// Batches of a row; its figure is their median.
const BATCHES: usize = if cfg!(test) { 10 } else { 600 };

/// A row: its name, the algorithm, the policy.
const ROWS: [(&str, Algorithm, Policy); 9] = [
    ("per-packet", Algorithm::PerPacket, Policy::L3),
    ("L3", Algorithm::L3, Policy::L3),
    ("L4", Algorithm::L4, Policy::L3),
    ("modulo-N", Algorithm::Modulo, Policy::L3),
    ("spin lock", Algorithm::Credit, Policy::L3),
    ("policy 0", Algorithm::System, Policy::L3),
    ("policy 1", Algorithm::System, Policy::L4),
    ("policy 2", Algorithm::System, Policy::Inner),
    ("policy 3", Algorithm::System, Policy::Custom),
];

/// The first rows, which the series has or compares with.
const OF_THE_SERIES: usize = 5;

/// Every row on one thread, those of the series on two.
pub fn cases() -> Vec<Case> {
    let keys = keys();
    let clock = Clock::new();
    let one = alone(&clock, &fib(Algorithm::System, Policy::L3, 1), &keys);
    let mut cases: Vec<Case> = vec![("one hop".into(), vec![("cycles", "", one)])];
    let choices = choices(&clock, &keys);
    for (index, (name, algorithm, policy)) in ROWS.into_iter().enumerate() {
        let fib = fib(algorithm, policy, 2);
        let mut figures = vec![("cycles", "", alone(&clock, &fib, &keys))];
        if index < OF_THE_SERIES {
            figures.push(("cycles of two threads", "", together(&clock, &fib, &keys)));
        }
        if let Some(&cycles) = choices.get(index) {
            figures.push(("cycles of the choice", "", cycles));
        }
        if algorithm == Algorithm::L3 {
            figures.push(("cycles while routes change", "", while_changing(&clock, &keys)));
        }
        cases.push((name.into(), figures));
    }
    cases
}

fn keys() -> Vec<RouteKey> {
    let mut rng = Rng::stream(6, 3);
    let key = |_| RouteKey {
        src: IpAddr::V4(Ipv4Addr::new(10, 9, 0, 7)),
        iif: Some(9),
        protocol: 6,
        src_port: rng.next_u32() as u16,
        dst_port: 443,
        ..RouteKey::to(IpAddr::V4(Ipv4Addr::from_bits(rng.next_u32())))
    };
    (0..BATCH).map(key).collect()
}

fn hops(count: u16) -> Vec<NextHop> {
    (1..=count).map(|n| NextHop::new(n, Some(IpAddr::from([10, 0, n as u8, 2])))).collect()
}

fn fib(algorithm: Algorithm, policy: Policy, count: u16) -> Fib {
    let mut fib = Fib::new();
    let route = Route::new(Prefix::DEFAULT_V4, hops(count)).algorithm(algorithm);
    fib.add(route).expect("the first route");
    fib.set_settings(fib.settings().both(Hashed::by(policy)));
    fib
}

fn decide_all(fib: &Fib, keys: &[RouteKey]) -> u32 {
    let port = |key: &RouteKey| match fib
        .forward(Instant::ZERO, black_box(key), || HashInput::from(key))
    {
        Decision::Forward(hop) => u32::from(hop.port),
        _ => 0,
    };
    keys.iter().map(port).fold(0, u32::wrapping_add)
}

/// Cycles per item: the median over the batches.
fn measure(clock: &Clock, mut batch: impl FnMut() -> u32) -> f64 {
    for _ in 0..BATCHES / 10 {
        black_box(batch());
    }
    let mut cycles: Vec<u64> = (0..BATCHES)
        .map(|_| {
            let before = clock.raw();
            black_box(batch());
            clock.raw() - before
        })
        .collect();
    cycles.sort_unstable();
    cycles[cycles.len() / 2] as f64 / BATCH as f64
}

fn alone(clock: &Clock, fib: &Fib, keys: &[RouteKey]) -> f64 {
    measure(clock, || decide_all(fib, keys))
}

/// Two threads at the same route at the same time; the mean of what each decision took each.
fn together(clock: &Clock, fib: &Fib, keys: &[RouteKey]) -> f64 {
    let start = Barrier::new(2);
    let one = || {
        start.wait();
        alone(clock, fib, keys)
    };
    std::thread::scope(|scope| {
        let other = scope.spawn(one);
        let own = one();
        f64::midpoint(own, other.join().expect("the other thread measures too"))
    })
}

/// The choice alone, as the series measured it: per packet, L3, L4.
fn choices(clock: &Clock, keys: &[RouteKey]) -> [f64; 3] {
    let paths = PathSet::new(&hops(2));
    let seed = HashKey::from_seed(1);
    let port = |path: Option<&datapath::fib::multipath::Path>| {
        path.map_or(0, |path| u32::from(path.hop.port))
    };
    let run = |choose: &dyn Fn(&RouteKey) -> u32| {
        measure(clock, || keys.iter().map(|key| choose(black_box(key))).fold(0, u32::wrapping_add))
    };
    [
        run(&|_| port(paths.by_turn())),
        run(&|key| port(paths.by_hash(hash::seed_l3(seed, &HashInput::from(key))))),
        run(&|key| port(paths.by_hash(hash::seed_l4(seed, &HashInput::from(key))))),
    ]
}

/// L3 decisions of a reader while another thread replaces the route all the time.
fn while_changing(clock: &Clock, keys: &[RouteKey]) -> f64 {
    let shared = SharedFib::new(|| fib(Algorithm::L3, Policy::L3, 2));
    let stop = std::sync::atomic::AtomicBool::new(false);
    let relaxed = std::sync::atomic::Ordering::Relaxed;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut metric = 0;
            while !stop.load(relaxed) {
                metric = (metric + 1) % 100;
                let route = Route::new(Prefix::host(IpAddr::from([192, 0, 2, 1])), hops(2));
                let changed = shared.change(|fib| fib.replace(route.clone().metric(metric)));
                changed.expect("a replacement is never refused");
            }
        });
        let cycles = measure(clock, || decide_all(&shared.read(), keys));
        stop.store(true, relaxed);
        cycles
    })
}
