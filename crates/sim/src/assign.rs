//! Assigns groups of nodes to threads.
//!
//! Each thread gets about the same work, estimated from the packets on links so far and the time that
//! threads took ([`crate::balance`]); few packets cross from one to another; and those
//! that do go over long links, so that threads need not wait for each other in each epoch ([`crate::threads`]).

use crate::balance::{Balance, COST};
use crate::groups::{Chooser, Groups, number_used};
use crate::link::Link;
use crate::threads::EPOCHS_MOST;
use datapath::units::Duration;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// The cost of a crossing packet to either side, relative to `COST` at a host: it comes from another core's caches.
const CROSSING: u64 = COST / 8;
/// How much longer than the mean the slowest thread takes, in percent, if all meet after each epoch.
const WAIT_PERCENT: u64 = 16;
/// Packet counts of links below this say little: at first only senders are busy.
const PACKETS_AT_FIRST: u64 = 16;

/// By node: its partition, of `count` at most. `None` if there would be only one.
///
/// Tries even cuts of two orders of the groups, then of larger groups joined by longer links.
pub(crate) fn assign(groups: &Groups, links: &[&Link], chooser: &Chooser) -> Option<Vec<u32>> {
    let count = chooser.threads();
    if groups.count() == 1 || count < 2 {
        return None;
    }
    let nodes = groups.by_node().count();
    let mut all = Vec::new();
    let mut these = groups.clone();
    while these.count() > 1 {
        let epochs_ahead = (these.width / groups.width).min(EPOCHS_MOST);
        let net = Net::new(&these, links, &chooser.balance);
        let by_number = (0..these.count() as u32).collect();
        for order in [net.in_neighbourhood(), by_number] {
            let parts = net.cut_evenly(&order, count);
            let by_node: Vec<u32> = these.by_node().map(|group| parts[group as usize]).collect();
            all.push((net.cost(&parts, count, epochs_ahead), by_node));
        }
        let larger = Groups::new(nodes, links, Some(Duration::from_nanos(2 * these.width)));
        if epochs_ahead == EPOCHS_MOST || larger.width <= these.width {
            break;
        }
        these = larger;
    }
    let (_, mut parts) = all.into_iter().min_by_key(|(cost, _)| *cost)?;
    // Empty parts are left out.
    (number_used(&mut parts) > 1).then_some(parts)
}

/// Groups and the traffic between them.
struct Net {
    /// By group: packets in and out, times their cost.
    weights: Vec<u64>,
    /// By group: its neighbours, and the packets that go there.
    neighbours: Vec<Vec<(u32, u64)>>,
}

impl Net {
    fn new(groups: &Groups, links: &[&Link], balance: &Balance) -> Self {
        let mut net =
            Self { weights: vec![0; groups.count()], neighbours: vec![Vec::new(); groups.count()] };
        for link in links {
            let weight = PACKETS_AT_FIRST + link.stats.packets;
            let [from, to] = balance.costs(link).map(|(node, cost)| (groups.of(node.0), cost));
            for ((one, cost), (other, _)) in [(from, to), (to, from)] {
                net.weights[one as usize] += weight * cost;
                if one != other {
                    net.neighbours[one as usize].push((other, weight));
                }
            }
        }
        net
    }

    /// All groups, each followed by the one that has most of its traffic with those before it.
    fn in_neighbourhood(&self) -> Vec<u32> {
        let sum = |list: &Vec<(u32, u64)>| list.iter().map(|(_, weight)| weight).sum();
        let all: Vec<u64> = self.neighbours.iter().map(sum).collect();
        let mut inner = vec![0; all.len()];
        let mut order = Vec::new();
        let mut is_in = vec![false; self.weights.len()];
        let mut next = BinaryHeap::new();
        for first in 0..self.weights.len() as u32 {
            next.push((0, Reverse(first)));
            while let Some((_, Reverse(group))) = next.pop() {
                if core::mem::replace(&mut is_in[group as usize], true) {
                    continue;
                }
                order.push(group);
                for &(other, weight) in &self.neighbours[group as usize] {
                    inner[other as usize] += weight;
                    if !is_in[other as usize] {
                        let share = inner[other as usize] * 1_000 / all[other as usize].max(1);
                        next.push((share, Reverse(other)));
                    }
                }
            }
        }
        order
    }

    /// By group: its part, if the order is cut into `count` parts.
    fn cut_evenly(&self, order: &[u32], count: usize) -> Vec<u32> {
        let total: u64 = self.weights.iter().sum();
        let mut before = 0;
        let mut parts = vec![0; order.len()];
        for &group in order {
            let weight = self.weights[group as usize];
            let middle = u128::from(2 * before + weight) * count as u128;
            let part = middle / u128::from(2 * total.max(1));
            parts[group as usize] = part.min(count as u128 - 1) as u32;
            before += weight;
        }
        parts
    }

    /// The estimated time with this division, if threads meet after every `epochs_ahead` epochs.
    fn cost(&self, parts: &[u32], count: usize, epochs_ahead: u64) -> u64 {
        let mut busy = vec![0; count];
        let mut crossing = 0;
        for (one, list) in self.neighbours.iter().enumerate() {
            busy[parts[one] as usize] += self.weights[one];
            let away = list.iter().filter(|(other, _)| parts[*other as usize] != parts[one]);
            crossing += away.map(|(_, weight)| weight).sum::<u64>();
        }
        let busiest = busy.into_iter().max().unwrap_or(0);
        busiest + busiest * WAIT_PERCENT / epochs_ahead / 100 + crossing * CROSSING / count as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::epoch::Grouping;
    use crate::link::{LinkConfig, LinkId, NodeId};
    use datapath::node::Port;

    /// Two stars of hosts, whose middles, 0 and 1, are joined by links with a delay in ms; all others have 1 ms.
    fn dumbbell(hosts: [u32; 2], middle_ms: u64) -> (usize, Vec<Link>) {
        let mut ends = vec![(0, 1, middle_ms)];
        let mut nodes = 2;
        for (middle, count) in (0..).zip(hosts) {
            ends.extend((nodes..nodes + count).map(|host| (middle, host, 1)));
            nodes += count;
        }
        let link = |(index, (from, to, delay_ms)): (u32, (u32, u32, u64))| {
            let config = LinkConfig::delay(Duration::from_millis(delay_ms));
            let end = |node: u32| (NodeId(node), Port(0));
            Link::new(&config, end(from), end(to), 0, LinkId(index))
        };
        let both_ways = ends.into_iter().flat_map(|(a, b, ms)| [(a, b, ms), (b, a, ms)]);
        (nodes as usize, (0..).zip(both_ways).map(link).collect())
    }

    /// What is cut between two threads: the delays of links that lead away from node 0, ms.
    fn cut_ms((nodes, links): (usize, Vec<Link>)) -> Vec<u64> {
        let chooser = Chooser::new(Grouping::Finest, 2, &links);
        let all: Vec<&Link> = links.iter().collect();
        let groups = Groups::new(nodes, &all, chooser.join());
        let parts = assign(&groups, &all, &chooser).expect("two parts");
        assert_eq!(parts.len(), nodes);
        let part = |node: NodeId| parts[node.0 as usize];
        let away = links.iter().filter(|link| link.from.0 < link.to.0);
        let cut = away.filter(|link| part(link.from.0) != part(link.to.0));
        cut.map(|link| link.delay().as_millis()).collect()
    }

    #[test]
    fn long_links_are_cut_if_the_work_is_shared_about_evenly_then() {
        assert_eq!(cut_ms(dumbbell([20, 20], 8)), [8]);
        assert_eq!(cut_ms(dumbbell([20, 21], 2)), [2]);
        let uneven = cut_ms(dumbbell([30, 10], 8));
        assert!(uneven.len() > 1 && uneven.contains(&1), "{uneven:?}");
    }

    #[test]
    fn epochs_are_no_longer_than_the_longest_possible() {
        assert_eq!(cut_ms(dumbbell([0, 1], 1_000)).len(), 1, "it comes to an end");
        let (nodes, links) = dumbbell([0, 0], 1_000);
        assert_eq!(cut_ms((nodes, links)), [1_000]);
    }
}
