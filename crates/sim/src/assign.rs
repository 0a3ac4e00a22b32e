//! Which groups of nodes a thread works off.
//!
//! Each thread gets as much to do as the others, as far as can be told from what went over the
//! links so far and how long threads took ([`crate::balance`]), and few packets cross from one to another. Of two orders of the groups that one
//! is taken whose even cuts cross fewer packets.

use crate::balance::{Balance, COST};
use crate::groups::{Chooser, Groups, number_used};
use crate::link::Link;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// By node: its partition, of `count` at most. `None` if there would be only one.
pub(crate) fn assign(groups: &Groups, links: &[Link], chooser: &Chooser) -> Option<Vec<u32>> {
    let count = chooser.threads();
    if groups.count() == 1 || count < 2 {
        return None;
    }
    let net = Net::new(groups, links, &chooser.balance);
    let by_number: Vec<u32> = (0..groups.count() as u32).collect();
    let all = [net.in_neighbourhood(), by_number].map(|order| net.cut_evenly(&order, count));
    let mut parts = all.into_iter().min_by_key(|parts| net.crossing(parts))?;
    // Parts that have nothing are left out.
    (number_used(&mut parts) > 1)
        .then(|| groups.by_node().map(|group| parts[group as usize]).collect())
}

/// Groups and what goes between them.
struct Net {
    /// By group: how much goes in and out, times what it costs.
    weights: Vec<u64>,
    /// By group: its neighbours, and how much goes there.
    neighbours: Vec<Vec<(u32, u64)>>,
}

impl Net {
    fn new(groups: &Groups, links: &[Link], balance: &Balance) -> Self {
        let mut net =
            Self { weights: vec![0; groups.count()], neighbours: vec![Vec::new(); groups.count()] };
        for link in links {
            let nodes = [link.from, link.to].map(|(node, _)| node);
            let weight = 1 + link.stats.packets;
            for (one, other) in [(nodes[0], nodes[1]), (nodes[1], nodes[0])] {
                let cost = weight * balance.cost(one);
                let (one, other) = (groups.of(one.0), groups.of(other.0));
                net.weights[one as usize] += cost;
                if one != other {
                    net.neighbours[one as usize].push((other, weight));
                }
            }
        }
        net
    }

    /// All groups, each followed by the one that has most of its traffic with those before it.
    fn in_neighbourhood(&self) -> Vec<u32> {
        let mut inner = vec![0; self.weights.len()];
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
                        let all = self.weights[other as usize].max(1);
                        let share = inner[other as usize] * 1_000 * COST / all;
                        next.push((share, Reverse(other)));
                    }
                }
            }
        }
        order
    }

    /// By group: its part, where the order is cut into `count` parts.
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

    /// How much goes from one part to another.
    fn crossing(&self, parts: &[u32]) -> u64 {
        let all = (0..).zip(&self.neighbours).flat_map(|(one, list): (usize, _)| {
            list.iter().filter(move |(other, _)| parts[*other as usize] != parts[one])
        });
        all.map(|(_, weight)| weight).sum()
    }
}
