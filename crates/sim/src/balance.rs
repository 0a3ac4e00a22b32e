//! Load balance of threads, by the wall clock.
//!
//! Packets are counted, but some cost more than others: one that waits in a long queue has left the
//! caches, and a sender does more than a receiver. So each thread's time is measured. If one
//! takes a larger share than expected, its nodes weigh more when the world is divided
//! again, by half of the difference: the start of flows says little about how they go on.
//! The events of the world do not depend on the division, so they do not depend on the clock.

use crate::division::Division;
use crate::link::{Link, NodeId};
use crate::state::NodeState;
use std::time;

/// The assumed cost of a packet at a host, going in or out.
pub(crate) const COST: u64 = 1_000;
/// The assumed cost at a router, where it goes in and out.
const COST_FORWARDED: u64 = COST / 4;
/// The cost of sending and of receiving in quarters of that: receiving costs less, for data as well as ACKs.
const SENT_AND_RECEIVED: [u64; 2] = [7, 1];

/// Costs of nodes found so far, and the measurement in progress.
#[derive(Debug, Default)]
pub(crate) struct Balance {
    /// By node, the cost of a packet there. Empty before they are [guessed](Self::guess).
    costs: Vec<u64>,
    /// By partition, how long it took so far, ns.
    busy_nanos: Vec<u64>,
    /// How long threads are measured, ns, before the balance is checked; `None` if it never is.
    span_nanos: Option<u64>,
    /// How long dividing the world took, ns: the imbalance must have cost as much before it is divided again.
    divided_nanos: u64,
}

/// The first time for which threads are measured; it doubles each time.
const MEASURED_NANOS: u64 = 500_000_000;
/// Dividing again pays if the busiest thread takes this much longer than the mean, in percent.
const WORTH_PERCENT: u64 = 10;

impl Balance {
    /// Without measurements so far; if not `adaptive`, for ever.
    pub fn new(adaptive: bool) -> Self {
        Self { span_nanos: adaptive.then_some(MEASURED_NANOS), ..Self::default() }
    }

    /// Sets the assumed costs for these nodes.
    pub fn guess(&mut self, nodes: &[NodeState]) {
        let guess = |it: &NodeState| if it.host.forwarding { COST_FORWARDED } else { COST };
        self.costs = nodes.iter().map(guess).collect();
    }

    /// The cost of a packet where a link begins, and where it ends.
    pub fn costs(&self, link: &Link) -> [(NodeId, u64); 2] {
        let cost = |node: NodeId| self.costs.get(node.0 as usize).copied().unwrap_or(COST);
        let [sent, received] = SENT_AND_RECEIVED;
        [(link.from.0, sent), (link.to.0, received)].map(|(at, part)| (at, cost(at) * part / 4))
    }

    /// The world has been divided; that began at this time.
    pub fn divided(&mut self, begun: time::Instant) {
        self.divided_nanos = begun.elapsed().as_nanos() as u64;
    }

    /// Adds the time of an epoch, by thread. True if the world is to be divided again.
    pub fn count(&mut self, busy_nanos: impl Iterator<Item = u64>) -> bool {
        let Some(span_nanos) = self.span_nanos else { return false };
        for (part, nanos) in busy_nanos.enumerate() {
            self.busy_nanos.resize(self.busy_nanos.len().max(part + 1), 0);
            self.busy_nanos[part] += nanos;
        }
        let total: u64 = self.busy_nanos.iter().sum();
        if total < span_nanos {
            return false;
        }
        let most = self.busy_nanos.iter().copied().max().unwrap_or(0);
        let lost = most - total / self.busy_nanos.len() as u64;
        let uneven = lost * 100 > (most - lost) * WORTH_PERCENT;
        if uneven && lost < self.divided_nanos {
            return false;
        }
        self.span_nanos = span_nanos.checked_mul(2);
        if !uneven {
            self.busy_nanos.clear();
        }
        uneven
    }

    /// Updates costs by the measurements, before the world is divided again; `division` is the present
    /// one, `expected` the work of each partition by the costs so far.
    pub fn settle(&mut self, division: &Division, expected: &[u64]) {
        let total: u64 = self.busy_nanos.iter().sum();
        if total >= MEASURED_NANOS && !division.is_empty() {
            let share = |one: u64, all: u64| one as f64 / all as f64;
            let expected = expected.iter().map(|work| share(*work, expected.iter().sum()));
            let busy = self.busy_nanos.iter().map(|nanos| share(*nanos, total));
            let ratios: Vec<f64> = busy.zip(expected).map(|(it, of)| it / of.max(0.01)).collect();
            for (node, cost) in (0..).zip(&mut self.costs) {
                let measured =
                    (*cost as f64 * ratios[division.node(NodeId(node)).part].min(2.0)) as u64;
                *cost = (*cost + measured).div_ceil(2).clamp(COST / 32, COST * 8);
            }
        }
        self.busy_nanos.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::{LinkConfig, LinkId};
    use datapath::host::Host;
    use datapath::node::Port;

    #[test]
    fn even_work_is_left_alone_and_uneven_work_is_not() {
        for (busy, uneven) in [([50, 52], false), ([60, 44], true), ([0, 104], true)] {
            let mut balance = Balance::new(true);
            assert!(!balance.count([1, 1].into_iter()), "nothing is known after 2 ns");
            let nanos = |percent: u64| percent * (MEASURED_NANOS / 100);
            let seen = balance.count(busy.map(nanos).into_iter());
            assert_eq!(seen, uneven, "{busy:?}");
        }
    }

    #[test]
    fn it_is_tried_after_twice_as_long_each_time() {
        let mut balance = Balance::new(true);
        let mut tries = Vec::new();
        for tenths in 1..=40 {
            if balance.count([0, MEASURED_NANOS].into_iter()) {
                tries.push(tenths);
                balance.settle(&Division::default(), &[]);
            }
        }
        assert_eq!(tries, [1, 3, 7, 15, 31]);
        assert!(!Balance::new(false).count([0, 1 << 40].into_iter()));
    }

    #[test]
    fn what_took_longer_than_expected_costs_more_and_the_rest_less() {
        let division = Division::of_nodes(&[0, 0, 1, 1]);
        let mut balance = Balance { costs: vec![COST; 4], ..Balance::new(true) };
        let measured = [6, 4].map(|share| share * MEASURED_NANOS / 10);
        for (expected, costs) in [([6, 4], [1_000, 1_000]), ([5, 5], [1_100, 900])] {
            balance.busy_nanos = measured.to_vec();
            balance.settle(&division, &expected);
            let now = [0, 2].map(|node| balance.costs[node]);
            assert_eq!(now, costs, "expected {expected:?}");
        }
    }

    #[test]
    fn a_packet_costs_less_at_a_router_where_it_is_counted_twice() {
        let mut nodes: Vec<NodeState> = (0..2).map(|_| NodeState::new(Host::new())).collect();
        nodes[0].host.forwarding = true;
        let mut balance = Balance::new(true);
        balance.guess(&nodes);
        assert!(4 * balance.costs[0] == balance.costs[1]);
    }

    #[test]
    fn uneven_work_is_left_alone_until_it_has_lost_what_dividing_costs() {
        let mut balance = Balance { divided_nanos: MEASURED_NANOS, ..Balance::new(true) };
        let tries = (0..4).map(|_| balance.count([MEASURED_NANOS / 2, 0].into_iter()));
        assert_eq!(tries.collect::<Vec<_>>(), [false, false, false, true]);
    }

    #[test]
    fn a_sender_weighs_more_than_a_receiver() {
        let ends = [1, 0].map(|node| (NodeId(node), Port(0)));
        let link = Link::new(&LinkConfig::default(), ends[0], ends[1], 0, LinkId(0));
        let [(from, sent), (to, received)] = Balance::new(true).costs(&link);
        assert_eq!([from, to], [NodeId(1), NodeId(0)]);
        assert!(sent > received && sent + received == 2 * COST);
    }
}
