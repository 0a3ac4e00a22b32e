//! What if: how flows spread over next hops, and which flows move when a next hop fails.
//!
//! Pure functions over a [`Fib`] and a list of flows. The questions: how much does each next hop
//! carry, how uneven is that against the weights, which flows are too large to balance, what
//! share moves when a next hop fails against the figure of RFC 2992, and does a second stage that
//! hashes like the first still spread what the first sends it (polarisation)?

pub mod ask;
mod flows;
mod regions;
mod report;

pub use flows::{Input, InputError, flows_from_capture, flows_from_csv, read};
pub use regions::Regions;
pub use report::{Names, chart, failure_table, load_table, stage_table};

use datapath::fib::multipath::Path;
use datapath::fib::{Algorithm, Decision, Fib, HashInput, Hop, LinkState, RouteKey};
use datapath::units::Instant;
use std::collections::BTreeMap;

/// One flow and what it carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowLoad {
    /// What routes are asked.
    pub key: RouteKey,
    /// What hashes read, if it was a packet: fragments, tunnels and ICMP errors have more to say
    /// than their key.
    pub flow: Option<HashInput>,
    /// Bytes over the time that is looked at.
    pub bytes: u64,
}

/// What one next hop carries.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HopLoad {
    /// The next hop.
    pub hop: Hop,
    /// Flows.
    pub flows: u64,
    /// Bytes.
    pub bytes: u64,
    /// Flows that its weight gives it.
    pub expected_flows: f64,
    /// Bytes that its weight gives it.
    pub expected_bytes: f64,
}

/// How flows spread.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Load {
    /// By next hop, in order of port and gateway.
    pub hops: Vec<HopLoad>,
    /// Flows that no next hop takes: local, refused, no route.
    pub elsewhere: u64,
    /// Flows that carry more than a tenth of all bytes, largest first: index and next hop.
    pub elephants: Vec<(usize, Option<Hop>)>,
}

/// What a failure does.
#[derive(Clone, Debug, PartialEq)]
pub struct Disruption {
    /// The interfaces that failed.
    pub ports: Vec<u16>,
    /// Flows that had to move because they used them, as a share of all.
    pub own: f64,
    /// Flows that moved although their next hop lives, as a share of all.
    pub collateral: f64,
    /// Flows that have no next hop any more, as a share of all; they did not move anywhere.
    pub lost: f64,
    /// Bytes of all flows that moved, as a share of all.
    pub moved_bytes: f64,
    /// Bytes of the lost flows, likewise.
    pub lost_bytes: f64,
    /// What evenly spread hashes would move of the flows that are not lost, own and collateral
    /// together, as a share of all: hash-threshold by RFC 2992, a resilient group its own share.
    /// `None` where no hash decides.
    pub theory: Option<f64>,
    /// The load afterwards.
    pub after: Load,
}

/// One stage of several that packets pass one after the other.
#[derive(Clone, Debug, PartialEq)]
pub struct Stage {
    /// How the flows that reach it spread there.
    pub load: Load,
    /// Its next hops that none of them takes.
    pub unused: usize,
    /// The port whose flows go on to the next stage.
    pub followed: Option<u16>,
}

/// Where a flow goes.
pub fn decide(fib: &Fib, flow: &FlowLoad) -> Decision {
    match flow.flow {
        Some(packet) => fib.forward(Instant::ZERO, &flow.key, || packet),
        None => fib.lookup(&flow.key),
    }
}

/// How the flows spread over the next hops of `fib`.
pub fn load(fib: &Fib, flows: &[FlowLoad]) -> Load {
    let mut hops: BTreeMap<Hop, HopLoad> = BTreeMap::new();
    let empty = |hop| HopLoad { hop, flows: 0, bytes: 0, expected_flows: 0.0, expected_bytes: 0.0 };
    let mut load = Load::default();
    let large = elephants(flows);
    let mut homes = BTreeMap::new();
    for (index, flow) in flows.iter().enumerate() {
        let candidates = fib.candidates(&flow.key);
        let total: f64 = candidates.iter().map(weight).sum();
        for path in candidates {
            let share = if total > 0.0 { weight(path) / total } else { 0.0 };
            let hop = hops.entry(path.hop).or_insert_with(|| empty(path.hop));
            hop.expected_flows += share;
            hop.expected_bytes += share * flow.bytes as f64;
        }
        if let Decision::Forward(hop) = decide(fib, flow) {
            let load = hops.entry(hop).or_insert_with(|| empty(hop));
            load.flows += 1;
            load.bytes += flow.bytes;
            if large.contains(&index) {
                homes.insert(index, hop);
            }
        } else {
            load.elsewhere += 1;
        }
    }
    load.hops = hops.into_values().collect();
    load.elephants = large.into_iter().map(|index| (index, homes.get(&index).copied())).collect();
    load
}

/// A path's share; out of service it has none.
fn weight(path: &Path) -> f64 {
    if path.usable { f64::from(path.weight) } else { 0.0 }
}

/// Flows that no balancing by flow can spread.
fn elephants(flows: &[FlowLoad]) -> Vec<usize> {
    let total: u64 = flows.iter().map(|flow| flow.bytes).sum();
    let large = |index: &usize| u128::from(flows[*index].bytes) * 10 > u128::from(total);
    let mut found: Vec<usize> = (0..flows.len()).filter(large).collect();
    found.sort_by_key(|&index| std::cmp::Reverse(flows[index].bytes));
    found
}

/// What happens when these interfaces go down. It happens to a copy: buckets of resilient groups that
/// move do so for this question alone.
pub fn fail(fib: &Fib, flows: &[FlowLoad], ports: &[u16]) -> Disruption {
    let mut failed = fib.clone();
    for &port in ports {
        let link = failed.link(port);
        failed.set_link(Instant::ZERO, port, LinkState { up: false, ..link });
    }
    let fib = fib.clone();
    let moves: Vec<Move> = flows.iter().map(|flow| moved(&fib, &failed, flow, ports)).collect();
    let share = |moved: Move| {
        let count = moves.iter().filter(|one| **one == moved).count();
        ratio(count as u64, flows.len() as u64)
    };
    let total: u64 = flows.iter().map(|flow| flow.bytes).sum();
    let bytes = |wanted: &[Move]| {
        let those = flows.iter().zip(&moves).filter(|(_, moved)| wanted.contains(moved));
        ratio(those.map(|(flow, _)| flow.bytes).sum(), total)
    };
    Disruption {
        ports: ports.to_vec(),
        own: share(Move::Moved),
        collateral: share(Move::Collateral),
        lost: share(Move::Lost),
        moved_bytes: bytes(&[Move::Moved, Move::Collateral]),
        lost_bytes: bytes(&[Move::Lost]),
        theory: theory(&fib, flows, &moves, ports),
        after: load(&failed, flows),
    }
}

/// What a failure does to a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Move {
    /// Nothing.
    Stays,
    /// Its next hop failed, and another one takes it.
    Moved,
    /// Another next hop takes it although its own lives.
    Collateral,
    /// No next hop takes it any more.
    Lost,
}

fn moved(before: &Fib, after: &Fib, flow: &FlowLoad, ports: &[u16]) -> Move {
    match (decide(before, flow), decide(after, flow)) {
        (before, after) if before == after => Move::Stays,
        (Decision::Forward(hop), Decision::Forward(_)) if ports.contains(&hop.port) => Move::Moved,
        (_, Decision::Forward(_)) => Move::Collateral,
        _ => Move::Lost,
    }
}

fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

/// What evenly spread hashes would move, each route counted by the flows that use it and are not lost.
fn theory(fib: &Fib, flows: &[FlowLoad], moves: &[Move], ports: &[u16]) -> Option<f64> {
    /// A route's next hops in order: port and weight; and whether buckets hold them.
    type Shape = (Vec<(u16, u16)>, bool);
    let mut shapes: BTreeMap<Shape, u64> = BTreeMap::new();
    for (flow, moved) in flows.iter().zip(moves) {
        let why = fib.explain(&flow.key)?;
        let by_hash =
            matches!(why.route.algorithm, Algorithm::System | Algorithm::L3 | Algorithm::L4);
        if why.candidates.len() > 1 && !by_hash {
            return None;
        }
        let usable = why.candidates.iter().filter(|path| path.usable);
        let shape = usable.map(|path| (path.hop.port, path.weight)).collect();
        *shapes.entry((shape, why.bucket.is_some())).or_default() +=
            u64::from(*moved != Move::Lost);
    }
    let moved = |((shape, buckets), count): (&Shape, &u64)| {
        *count as f64 * if *buckets { own_share(shape, ports) } else { moved_regions(shape, ports) }
    };
    (!flows.is_empty()).then(|| shapes.iter().map(moved).sum::<f64>() / flows.len() as f64)
}

/// The share of those next hops that fail.
fn own_share(hops: &[(u16, u16)], ports: &[u16]) -> f64 {
    let sum = |gone: bool| -> f64 {
        let counts = |hop: &&(u16, u16)| !gone || ports.contains(&hop.0);
        hops.iter().filter(counts).map(|&(_, weight)| f64::from(weight)).sum()
    };
    if hops.is_empty() { 0.0 } else { sum(true) / sum(false) }
}

/// The share of the hash space whose next hop changes when those over `ports` fail: regions before
/// and after, by RFC 2992 section 3, for any weights.
fn moved_regions(hops: &[(u16, u16)], ports: &[u16]) -> f64 {
    let regions = |alive: &dyn Fn(u16) -> bool| -> Vec<(f64, f64)> {
        let weight =
            |&(port, weight): &(u16, u16)| if alive(port) { f64::from(weight) } else { 0.0 };
        let total: f64 = hops.iter().map(weight).sum();
        let mut upper = 0.0;
        let next = |hop| {
            let lower = upper;
            upper += if total > 0.0 { weight(hop) / total } else { 0.0 };
            (lower, upper)
        };
        hops.iter().map(next).collect()
    };
    let before = regions(&|_| true);
    let after = regions(&|port| !ports.contains(&port));
    let same: f64 =
        before.iter().zip(after).map(|(&(a, b), (c, d))| (b.min(d) - a.max(c)).max(0.0)).sum();
    1.0 - same
}

/// Sends the flows through the first stage, those that take one of its ports on through the
/// second, and so on. `follow` names the ports; where it ends, the one with the most flows is
/// followed. Stages with the same hash choose alike: the second then sends everything one way.
pub fn stages(fibs: &[&Fib], follow: &[u16], flows: &[FlowLoad]) -> Vec<Stage> {
    let mut flows = flows.to_vec();
    let mut stages = Vec::new();
    for (index, fib) in fibs.iter().enumerate() {
        let load = load(fib, &flows);
        let unused = load.hops.iter().filter(|hop| hop.flows == 0).count();
        let busiest = || load.hops.iter().rev().max_by_key(|hop| hop.flows).map(|hop| hop.hop.port);
        let followed = follow.get(index).copied().or_else(busiest);
        flows.retain(
            |flow| matches!(decide(fib, flow), Decision::Forward(hop) if Some(hop.port) == followed),
        );
        stages.push(Stage { load, unused, followed });
    }
    stages
}

impl Load {
    /// Largest ratio of flows to what the weights say; 1 = exactly by weight. `None` without flows.
    pub fn imbalance_flows(&self) -> Option<f64> {
        imbalance(self.hops.iter().map(|hop| (hop.flows, hop.expected_flows)))
    }

    /// The same in bytes.
    pub fn imbalance_bytes(&self) -> Option<f64> {
        imbalance(self.hops.iter().map(|hop| (hop.bytes, hop.expected_bytes)))
    }
}

fn imbalance(parts: impl Iterator<Item = (u64, f64)>) -> Option<f64> {
    let ratios = parts.filter(|(_, expected)| *expected > 0.0).map(|(n, e)| n as f64 / e);
    ratios.reduce(f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;
    use datapath::fib::hash::{HashKey, Policy};
    use datapath::fib::nexthop::ObjectConfig;
    use datapath::fib::resilient::{Member, ResilientConfig};
    use datapath::fib::{Hashed, NextHop, Prefix, Route, Settings};
    use std::fmt::Write as _;

    fn equal(count: u16, seed: u32) -> Fib {
        let mut fib = Fib::new();
        let hops = (1..=count).map(|port| NextHop::new(port, None)).collect();
        fib.add(Route::new(Prefix::DEFAULT_V4, hops)).unwrap();
        set_seed(&mut fib, seed);
        fib
    }

    fn set_seed(fib: &mut Fib, seed: u32) {
        let key = HashKey::from_seed(seed);
        fib.set_settings(Settings { key, ..fib.settings().both(Hashed::by(Policy::L4)) });
    }

    fn flows(count: u32) -> Vec<FlowLoad> {
        let mut text = String::from("src,dst,protocol,sport,dport,bytes\n");
        for index in 0..count {
            let (a, b) = (index % 250, index / 250);
            let port = 1024 + index;
            let _ = writeln!(text, "10.9.{b}.{a}, 198.18.{a}.{b}, tcp, {port}, 443, 1000");
        }
        flows_from_csv(&text).unwrap()
    }

    #[test]
    fn failures_move_what_rfc_2992_says() {
        let flows = flows(8000);
        let fib = equal(4, 1);
        let before = load(&fib, &flows);
        for (port, expected) in [(1, 0.5), (2, 1.0 / 3.0), (3, 1.0 / 3.0), (4, 0.5)] {
            let disruption = fail(&fib, &flows, &[port]);
            let theory = disruption.theory.unwrap();
            assert!((theory - expected).abs() < 1e-9, "{disruption:?}");
            let moved = disruption.own + disruption.collateral;
            // Four standard deviations of a share of 8000 flows.
            assert!((moved - expected).abs() < 4.0 * (0.25f64 / 8000.0).sqrt(), "{disruption:?}");
        }
        assert_eq!(load(&fib, &flows), before, "a question changes nothing");
        assert!(before.imbalance_flows().unwrap() < 1.1, "{before:?}");
    }

    #[test]
    fn a_resilient_group_moves_its_own_flows_only() {
        let (flows, fib) = (flows(4000), resilient());
        let disruption = fail(&fib, &flows, &[2]);
        assert!(disruption.collateral.abs() < 1e-9, "{disruption:?}");
        assert!((disruption.own - 0.25).abs() < 0.05, "{disruption:?}");
    }

    /// What one failure moves must not lie elsewhere when the next question is asked.
    #[test]
    fn failures_one_after_the_other_are_independent() {
        let flows = flows(4000);
        let groups = resilient();
        let mut turns = Fib::new();
        let hops = (1..=4).map(|port| NextHop::new(port, None)).collect();
        let by_turn = Route::new(Prefix::DEFAULT_V4, hops).algorithm(Algorithm::PerPacket);
        turns.add(by_turn).unwrap();
        for fib in [groups, equal(4, 1), turns] {
            let alone: Vec<Disruption> =
                (1..=4).map(|port| fail(&fib.clone(), &flows, &[port])).collect();
            let in_turn: Vec<Disruption> =
                (1..=4).map(|port| fail(&fib, &flows, &[port])).collect();
            assert_eq!(in_turn, alone);
            let backwards: Vec<Disruption> =
                (1..=4).rev().map(|port| fail(&fib, &flows, &[port])).collect();
            assert!(backwards.iter().rev().eq(&alone));
        }
    }

    /// A group of four whose buckets hold its members.
    fn resilient() -> Fib {
        let mut fib = Fib::new();
        let now = Instant::ZERO;
        for id in 1..=4u16 {
            let hop = ObjectConfig::Hop(NextHop::new(id, None));
            fib.add_object(now, id.into(), hop).unwrap();
        }
        let members = (1..=4).map(|id| Member { id, weight: 1 }).collect();
        let group = ObjectConfig::Resilient(members, ResilientConfig::default());
        fib.add_object(now, 10, group).unwrap();
        fib.add(Route::object(Prefix::DEFAULT_V4, 10)).unwrap();
        set_seed(&mut fib, 1);
        fib
    }

    #[test]
    fn stages_with_one_hash_polarise() {
        let flows = flows(2000);
        let (seven, eight) = (equal(2, 7), equal(2, 8));
        let alike = stages(&[&seven, &seven], &[1], &flows);
        assert_eq!((alike[0].unused, alike[1].unused), (0, 1));
        let different = stages(&[&seven, &eight], &[1], &flows);
        assert_eq!((different[0].unused, different[1].unused), (0, 0));
        assert!(different[1].load.imbalance_flows().unwrap() < 1.2);
    }

    #[test]
    fn imbalance_is_against_the_weights() {
        let mut fib = Fib::new();
        let hops = vec![NextHop::new(1, None), NextHop::new(2, None).weight(3)];
        fib.add(Route::new(Prefix::DEFAULT_V4, hops)).unwrap();
        set_seed(&mut fib, 1);
        let load = load(&fib, &flows(8000));
        assert!((load.hops[1].expected_flows - 6000.0).abs() < 1e-6);
        assert!(load.imbalance_flows().unwrap() < 1.05, "{load:?}");
        assert_eq!(load.hops.iter().map(|hop| hop.flows).sum::<u64>(), 8000);
    }

    #[test]
    fn elephants_are_named_with_their_hop() {
        let text = "10.0.0.1,10.0.0.2,udp,1,2,900\n10.0.0.1,10.0.0.3,17,1,2,50";
        let flows = flows_from_csv(text).unwrap();
        let fib = equal(2, 1);
        let load = load(&fib, &flows);
        let Decision::Forward(hop) = fib.lookup(&flows[0].key) else { panic!("a default route") };
        assert_eq!((load.elephants, load.elsewhere), (vec![(0, Some(hop))], 0));
    }

    #[test]
    fn two_failures_at_once_and_the_last_one() {
        let flows = flows(4000);
        let fib = equal(4, 1);
        let two = fail(&fib, &flows, &[1, 2]);
        assert!((two.theory.unwrap() - 0.75).abs() < 1e-9, "{:?}", two.theory);
        assert!((two.own + two.collateral - 0.75).abs() < 0.03, "{two:?}");
        let all = fail(&fib, &flows, &[1, 2, 3, 4]);
        let nearly = |share: f64, expected: f64| (share - expected).abs() < 1e-9;
        assert!(nearly(all.lost, 1.0) && nearly(all.lost_bytes, 1.0), "{all:?}");
        assert!(nearly(all.own + all.collateral + all.moved_bytes, 0.0), "{all:?}");
        assert!(nearly(all.theory.unwrap(), 0.0), "what is lost goes nowhere: {all:?}");
    }

    /// Flows whose only route fails are lost; those that a shorter prefix takes moved.
    #[test]
    fn lost_flows_did_not_move() {
        let flows = flows(1000);
        let mut fib = Fib::new();
        let half: Prefix = "198.18.0.0/17".parse().unwrap();
        fib.add(Route::new(half, vec![NextHop::new(1, None)])).unwrap();
        let only = fail(&fib, &flows, &[1]);
        fib.add(Route::new(Prefix::DEFAULT_V4, vec![NextHop::new(2, None)])).unwrap();
        let with_default = fail(&fib, &flows, &[1]);
        assert!(only.lost > 0.4 && only.own == 0.0 && only.moved_bytes == 0.0, "{only:?}");
        let taken_over = with_default.own.total_cmp(&only.lost).is_eq();
        assert!(with_default.lost == 0.0 && taken_over, "{with_default:?}");
        assert_eq!(with_default.theory, Some(with_default.own));
    }
}
