//! Route look-ups and multipath decisions.
//!
//! `cargo bench -p ackwright-datapath --bench fib`
//!
//! Every call makes [`BATCH`] look-ups; divide by it, or read the item rate. "independent"
//! look-ups can overlap in the processor, in "dependent" ones the next address follows from the
//! last answer.

#![allow(missing_docs, reason = "divan's generated entry points")]

use core::hint::black_box;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use datapath::fib::hash::{HashFields, HashKey, Policy};
use datapath::fib::trie::Trie;
use datapath::fib::{
    Algorithm, Decision, Fib, HashInput, Hashed, NextHop, Prefix, Route, RouteKey, Scope, Settings,
};
use datapath::rng::Rng;
use datapath::units::Instant;
use divan::Bencher;
use divan::counter::ItemsCount;
use iptrie::{Ipv4Prefix, Ipv4RTrieMap};
use prefix_trie::PrefixMap;

fn main() {
    divan::main();
}

const BATCH: usize = 4096;

/// Prefix lengths of the IPv4 Internet in parts of 1000, roughly as the global table has them.
const LENGTHS: [(u8, u64); 14] = [
    (8, 1),
    (12, 1),
    (14, 2),
    (15, 2),
    (16, 14),
    (17, 8),
    (18, 14),
    (19, 26),
    (20, 45),
    (21, 54),
    (22, 118),
    (23, 105),
    (24, 608),
    (32, 2),
];

fn key(dst: u32) -> RouteKey {
    RouteKey {
        src: IpAddr::V4(Ipv4Addr::new(10, 9, 0, 7)),
        dst: IpAddr::V4(Ipv4Addr::from_bits(dst)),
        iif: Some(1),
        oif: None,
        scope: Scope::UNIVERSE,
        tos: 0,
        mark: 0,
        protocol: 6,
        src_port: dst as u16,
        dst_port: 443,
        flow_label: 0,
    }
}

fn internet(count: usize) -> Vec<(u32, u8)> {
    let mut rng = Rng::stream(6, 1);
    let mut prefixes = Vec::with_capacity(count);
    while prefixes.len() < count {
        let mut draw = rng.below(1000);
        let (len, _) = *LENGTHS
            .iter()
            .find(|(_, share)| {
                let found = draw < *share;
                draw = draw.wrapping_sub(*share);
                found
            })
            .expect("the shares add up to 1000");
        // Unicast addresses, 1.0.0.0 to 223.255.255.255.
        let addr = 0x0100_0000 + rng.below(0xdf00_0000) as u32;
        prefixes.push((addr & (u32::MAX << (32 - len)), len));
    }
    prefixes.sort_unstable();
    prefixes.dedup();
    prefixes
}

/// Addresses inside random prefixes of the table.
fn targets(prefixes: &[(u32, u8)]) -> Vec<u32> {
    let mut rng = Rng::stream(6, 2);
    (0..BATCH * 64)
        .map(|_| {
            let (addr, len) = prefixes[rng.below(prefixes.len() as u64) as usize];
            addr | rng.next_u32().checked_shr(len.into()).unwrap_or(0)
        })
        .collect()
}

fn fib_of(prefixes: &[(u32, u8)]) -> Fib {
    let mut fib = Fib::new();
    for (index, &(addr, len)) in prefixes.iter().enumerate() {
        let prefix = Prefix::containing(Ipv4Addr::from_bits(addr).into(), len).expect("a length");
        let gateway = Ipv4Addr::new(10, 0, (index % 8) as u8, 2);
        fib.append(Route::via(prefix, (index % 8) as u16, gateway.into())).expect("a new route");
    }
    fib
}

fn ten_thousand_hosts() -> Vec<(u32, u8)> {
    (0..10_000).map(|host| (0x0a00_0000 + host, 32)).collect()
}

fn port(decision: Decision) -> u32 {
    match decision {
        Decision::Forward(hop) => u32::from(hop.port),
        _ => 0,
    }
}

fn independent(bencher: Bencher, prefixes: &[(u32, u8)]) {
    let fib = fib_of(prefixes);
    let targets = targets(prefixes);
    println!("{} routes, {} bytes a route", fib.len(), fib.memory() / fib.len());
    let mut batches = targets.chunks(BATCH).cycle();
    bencher.counter(ItemsCount::new(BATCH)).bench_local(|| {
        let batch = batches.next().expect("a cycle");
        batch.iter().map(|&dst| port(fib.lookup(&key(dst)))).fold(0, u32::wrapping_add)
    });
}

#[divan::bench(sample_count = 1000)]
fn hosts_10k_independent(bencher: Bencher) {
    independent(bencher, &ten_thousand_hosts());
}

#[divan::bench(sample_count = 1000)]
fn prefixes_1m_independent(bencher: Bencher) {
    independent(bencher, &internet(1_000_000));
}

#[divan::bench(sample_count = 1000)]
fn prefixes_1m_together(bencher: Bencher) {
    let prefixes = internet(1_000_000);
    let fib = fib_of(&prefixes);
    let keys: Vec<RouteKey> = targets(&prefixes).into_iter().map(key).collect();
    let mut batches = keys.chunks(BATCH).cycle();
    bencher.counter(ItemsCount::new(BATCH)).bench_local(|| {
        let batch = batches.next().expect("a cycle");
        let mut sum = 0u32;
        fib.lookup_many(batch, |_, decision| sum = sum.wrapping_add(port(decision)));
        sum
    });
}

#[divan::bench(sample_count = 1000)]
fn prefixes_1m_dependent(bencher: Bencher) {
    let prefixes = internet(1_000_000);
    let fib = fib_of(&prefixes);
    let targets = targets(&prefixes);
    let mut at = 0;
    bencher.counter(ItemsCount::new(BATCH)).bench_local(|| {
        for _ in 0..BATCH {
            let hop = port(fib.lookup(&key(targets[at])));
            at = (at + 7919 + hop as usize) % targets.len();
        }
        at
    });
}

/// The trie alone, against `prefix-trie`.
#[divan::bench(sample_count = 1000)]
fn trie_1m_independent(bencher: Bencher) {
    let prefixes = internet(1_000_000);
    let mut trie = Trie::<u32>::new();
    for &(addr, len) in &prefixes {
        trie.insert(addr, len, 1);
    }
    let targets = targets(&prefixes);
    let mut batches = targets.chunks(BATCH).cycle();
    bencher.counter(ItemsCount::new(BATCH)).bench_local(|| {
        let batch = batches.next().expect("a cycle");
        batch.iter().map(|&dst| trie.longest(dst).value().unwrap_or(0)).sum::<u32>()
    });
}

/// The value alone, without a way to shorter prefixes.
#[divan::bench(sample_count = 1000)]
fn trie_1m_quick_independent(bencher: Bencher) {
    let prefixes = internet(1_000_000);
    let mut trie = Trie::<u32>::new();
    for (value, &(addr, len)) in (0..).zip(&prefixes) {
        trie.insert(addr, len, value % 8);
    }
    let targets = targets(&prefixes);
    let mut batches = targets.chunks(BATCH).cycle();
    bencher.counter(ItemsCount::new(BATCH)).bench_local(|| {
        let batch = batches.next().expect("a cycle");
        batch.iter().map(|&dst| trie.quick(dst).unwrap_or(0)).sum::<u32>()
    });
}

/// The next address follows from the last answer.
#[divan::bench(sample_count = 1000)]
fn trie_1m_quick_dependent(bencher: Bencher) {
    let prefixes = internet(1_000_000);
    let mut trie = Trie::<u32>::new();
    for (value, &(addr, len)) in (0..).zip(&prefixes) {
        trie.insert(addr, len, value % 8);
    }
    println!("{} bytes a prefix", trie.memory() / trie.len());
    let targets = targets(&prefixes);
    let mut at = 0;
    bencher.counter(ItemsCount::new(BATCH)).bench_local(|| {
        for _ in 0..BATCH {
            at = (at + 7919 + trie.quick(targets[at]).unwrap_or(0) as usize) % targets.len();
        }
        at
    });
}

fn iptrie_of(prefixes: &[(u32, u8)]) -> Ipv4RTrieMap<u32> {
    let prefix = |&(addr, len): &(u32, u8)| {
        let text = format!("{}/{len}", Ipv4Addr::from_bits(addr));
        (text.parse::<Ipv4Prefix>().expect("a prefix"), 1)
    };
    prefixes.iter().map(prefix).collect()
}

/// iptrie's level-compressed trie, which cannot be changed.
#[divan::bench(sample_count = 1000)]
fn iptrie_compressed_1m_independent(bencher: Bencher) {
    let prefixes = internet(1_000_000);
    let map = iptrie_of(&prefixes).compress();
    let targets = targets(&prefixes);
    let mut batches = targets.chunks(BATCH).cycle();
    bencher.counter(ItemsCount::new(BATCH)).bench_local(|| {
        let batch = batches.next().expect("a cycle");
        batch.iter().map(|&dst| *map.lookup(&Ipv4Addr::from_bits(dst)).1).sum::<u32>()
    });
}

/// Its Patricia trie, which can.
#[divan::bench(sample_count = 1000)]
fn iptrie_patricia_1m_independent(bencher: Bencher) {
    let prefixes = internet(1_000_000);
    let map = iptrie_of(&prefixes);
    let targets = targets(&prefixes);
    let mut batches = targets.chunks(BATCH).cycle();
    bencher.counter(ItemsCount::new(BATCH)).bench_local(|| {
        let batch = batches.next().expect("a cycle");
        batch.iter().map(|&dst| *map.lookup(&Ipv4Addr::from_bits(dst)).1).sum::<u32>()
    });
}

#[divan::bench(sample_count = 1000)]
fn prefix_trie_1m_independent(bencher: Bencher) {
    let prefixes = internet(1_000_000);
    let map: PrefixMap<(u32, u8), u32> = prefixes.iter().map(|&prefix| (prefix, 1)).collect();
    let targets = targets(&prefixes);
    let mut batches = targets.chunks(BATCH).cycle();
    bencher.counter(ItemsCount::new(BATCH)).bench_local(|| {
        let batch = batches.next().expect("a cycle");
        batch.iter().map(|&dst| map.get_lpm(&(dst, 32)).map_or(0, |found| *found.1)).sum::<u32>()
    });
}

#[divan::bench(sample_count = 5)]
fn insert_1m(bencher: Bencher) {
    let prefixes = internet(1_000_000);
    bencher.counter(ItemsCount::new(prefixes.len())).bench_local(|| fib_of(&prefixes));
}

/// One decision between two next hops on a route that is found at once: the rows of the table in
/// the 2015 series.
#[divan::bench(args = ["single", "credit", "per-packet", "l3", "l4", "modulo", "policy0", "policy1", "policy2", "policy3", "v6-policy0", "v6-policy1"])]
fn decide(bencher: Bencher, row: &str) {
    let v6 = row.starts_with("v6");
    let gateway = |n: u8| -> IpAddr {
        if v6 {
            Ipv6Addr::new(0xfd00, n.into(), 0, 0, 0, 0, 0, 2).into()
        } else {
            [10, 0, n, 2].into()
        }
    };
    let count = if row == "single" { 1 } else { 2 };
    let hops = (1..=count).map(|n| NextHop::new(n.into(), Some(gateway(n)))).collect();
    let algorithm = match row {
        "credit" => Algorithm::Credit,
        "per-packet" => Algorithm::PerPacket,
        "l3" => Algorithm::L3,
        "l4" => Algorithm::L4,
        "modulo" => Algorithm::Modulo,
        _ => Algorithm::System,
    };
    let policy = match row {
        "policy1" | "v6-policy1" => Policy::L4,
        "policy2" => Policy::Inner,
        "policy3" => Policy::Custom,
        _ => Policy::L3,
    };
    let mut fib = Fib::new();
    let prefix = if v6 { Prefix::DEFAULT_V6 } else { Prefix::DEFAULT_V4 };
    fib.add(Route::new(prefix, hops).algorithm(algorithm)).expect("a new route");
    let (fields, hash_key) = (HashFields::default(), HashKey::from_seed(1));
    fib.set_settings(Settings {
        key: hash_key,
        ..Settings::default().both(Hashed { policy, fields })
    });
    let mut rng = Rng::stream(6, 3);
    let keys: Vec<RouteKey> = (0..BATCH)
        .map(|_| {
            let base = key(rng.next_u32());
            if !v6 {
                return base;
            }
            let dst = Ipv6Addr::from_bits(0xfd80 << 112 | u128::from(rng.next_u64())).into();
            RouteKey { src: Ipv6Addr::new(0xfd09, 0, 0, 0, 0, 0, 0, 7).into(), dst, ..base }
        })
        .collect();
    bencher.counter(ItemsCount::new(BATCH)).bench_local(|| {
        keys.iter()
            .map(|key| port(fib.forward(Instant::ZERO, black_box(key), || HashInput::from(key))))
            .fold(0, u32::wrapping_add)
    });
}
