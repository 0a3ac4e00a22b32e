//! The flow queues of one tin, by the hash of their packets.

use super::ack_filter::LastAck;
use super::cobalt::Cobalt;
use super::config::FlowMode;
use super::hash::{QUEUES, SetSlot};
use super::hosts::Hosts;
use super::pool::Chain;
use super::rotations::{Rotation, Rotations};
use super::table;

/// The state of a flow (`CAKE_SET_*`), which determines its rotation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Set {
    /// Unknown: no packets and no state.
    #[default]
    None,
    /// Uses less than its share: served first.
    Sparse,
    /// Counted as sparse, but waits with the bulk flows because it has used up its share.
    SparseWait,
    /// Has a standing queue.
    Bulk,
    /// Empty, but its AQM state has not decayed yet.
    Decaying,
}

/// One flow queue (`struct cake_flow`), in one cache line.
#[derive(Clone, Copy, Debug, Default)]
#[repr(align(64))]
pub struct CakeFlow {
    /// AQM state.
    pub cobalt: Cobalt,
    /// The packets.
    pub chain: Chain,
    /// Bytes that may still be sent in this round.
    pub deficit: i32,
    /// Bytes that wait.
    pub backlog: u32,
    /// Packets dropped.
    pub dropped: u32,
    /// Source host, as a slot of [`Flows::sources`].
    source: u16,
    /// Destination host, as a slot of [`Flows::destinations`].
    destination: u16,
}

/// The result of a look-up in the set-associative table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lookup {
    /// The flow has its home queue, or got it back.
    Direct,
    /// The flow has its queue elsewhere in its set.
    Indirect,
    /// A new flow found a free queue.
    Miss,
    /// All queues of the set are taken by others.
    Collision,
}

/// The tables of one tin, made when its first packet comes. Data that is searched lies close
/// together.
#[derive(Clone, Debug)]
pub struct Flows {
    queues: Box<[CakeFlow; QUEUES]>,
    tags: Box<[u32; QUEUES]>,
    sets: Box<[Set; QUEUES]>,
    /// How many flows belong to each set.
    counts: [u16; 5],
    rotations: Rotations,
    /// Source hosts.
    sources: Hosts,
    /// Destination hosts.
    destinations: Hosts,
    /// What the naive ACK filter remembers of each queue, once it has been asked.
    last_acks: Box<[LastAck]>,
}

impl CakeFlow {
    /// The slots of its source and its destination.
    pub const fn hosts(&self) -> (u16, u16) {
        (self.source, self.destination)
    }
}

impl Flows {
    /// Empty tables.
    pub fn new() -> Self {
        Self {
            queues: table(core::iter::repeat_n(CakeFlow::default(), QUEUES)),
            tags: table(core::iter::repeat_n(0, QUEUES)),
            sets: table(core::iter::repeat_n(Set::None, QUEUES)),
            counts: [QUEUES as u16, 0, 0, 0, 0],
            rotations: Rotations::new(),
            sources: Hosts::new(),
            destinations: Hosts::new(),
            last_acks: Box::default(),
        }
    }

    /// The flow in queue `index`.
    #[inline]
    pub fn get(&self, index: usize) -> &CakeFlow {
        &self.queues[index]
    }

    /// The flow in queue `index`, to change.
    #[inline]
    pub fn get_mut(&mut self, index: usize) -> &mut CakeFlow {
        &mut self.queues[index]
    }

    /// The set of the flow in queue `index`.
    #[inline]
    pub fn set(&self, index: usize) -> Set {
        self.sets[index]
    }

    /// What the naive ACK filter remembers of queue `index`.
    pub fn last_ack(&mut self, index: usize) -> &mut LastAck {
        if self.last_acks.is_empty() {
            self.last_acks = vec![LastAck::default(); QUEUES].into_boxed_slice();
        }
        &mut self.last_acks[index]
    }

    /// The queue for a packet with this hash (`cake_hash`), and how it was found. The hashes of
    /// its source and destination host are computed only if the queue gets another flow.
    #[inline]
    pub fn find(
        &mut self,
        hash: u32,
        mode: FlowMode,
        hosts: impl FnOnce() -> (u32, u32),
    ) -> (usize, Lookup) {
        let home = SetSlot::home(hash);
        let (index, lookup) = self.search(home, hash);
        let moves_in = lookup == Lookup::Miss || lookup == Lookup::Collision;
        let fair = mode.fair_sources() || mode.fair_destinations();
        if fair && (moves_in || self.sets[index] == Set::None) {
            self.settle_hosts(index, hosts(), mode);
        }
        self.tags[index] = hash;
        (index, lookup)
    }

    #[inline]
    fn search(&self, home: SetSlot, tag: u32) -> (usize, Lookup) {
        if self.tags[home.index()] == tag {
            (home.index(), Lookup::Direct)
        } else if let Some(index) = home.find(&self.tags, |other| other == tag) {
            (index, Lookup::Indirect)
        } else if let Some(index) = home.find(&self.sets, |set| set == Set::None) {
            (index, Lookup::Miss)
        } else {
            (home.index(), Lookup::Collision)
        }
    }

    /// Notes which hosts the flow in queue `index` now belongs to. A bulk flow that is taken over
    /// in a collision is counted for its new hosts instead of its old ones.
    fn settle_hosts(&mut self, index: usize, hosts: (u32, u32), mode: FlowMode) {
        let bulk = self.sets[index] == Set::Bulk;
        if bulk {
            self.count_bulk(index, mode, Hosts::remove_bulk);
        }
        if mode.fair_sources() {
            self.queues[index].source = self.sources.slot(hosts.0);
        }
        if mode.fair_destinations() {
            self.queues[index].destination = self.destinations.slot(hosts.1);
        }
        if bulk {
            self.count_bulk(index, mode, Hosts::add_bulk);
        }
    }

    /// How many flows belong to `set`.
    #[inline]
    pub fn count(&self, set: Set) -> u16 {
        self.counts[set as usize]
    }

    /// True if some flow has packets or waits for its turn.
    #[inline]
    pub fn any_active(&self) -> bool {
        self.count(Set::None) + self.count(Set::Decaying) < QUEUES as u16
    }

    /// The flow in queue `index` now belongs to `set` and waits where it waited.
    #[inline]
    pub fn change(&mut self, index: usize, set: Set, mode: FlowMode) {
        let was = core::mem::replace(&mut self.sets[index], set);
        if was == set {
            return;
        }
        self.counts[was as usize] -= 1;
        self.counts[set as usize] += 1;
        if set == Set::Bulk {
            self.count_bulk(index, mode, Hosts::add_bulk);
        } else if was == Set::Bulk {
            self.count_bulk(index, mode, Hosts::remove_bulk);
        }
    }

    /// The flow in queue `index` now belongs to `set` and waits at the end of its rotation, if
    /// such flows wait.
    #[inline]
    pub fn enter(&mut self, index: usize, set: Set, mode: FlowMode) {
        match set {
            Set::None => self.rotations.leave(index),
            set => self.rotations.move_to(index, ROTATIONS[set as usize]),
        }
        self.change(index, set, mode);
    }

    /// The queue whose turn it is. With `decaying_first` flows that decay come before the others.
    #[inline]
    pub fn first(&self, decaying_first: bool) -> Option<usize> {
        self.rotations.first(decaying_first)
    }

    #[inline]
    fn count_bulk(&mut self, index: usize, mode: FlowMode, count: fn(&mut Hosts, u16)) {
        let flow = &self.queues[index];
        if mode.fair_sources() {
            count(&mut self.sources, flow.source);
        }
        if mode.fair_destinations() {
            count(&mut self.destinations, flow.destination);
        }
    }

    /// The rotations that the flows wait in.
    pub fn rotations(&self) -> &Rotations {
        &self.rotations
    }

    /// How many bulk flows are counted for each source and each destination, by slot.
    pub fn bulk_flows_of_hosts(&self) -> [&[u16; QUEUES]; 2] {
        [self.sources.all_bulk_flows(), self.destinations.all_bulk_flows()]
    }

    /// Among how many bulk flows of the same host the flow in queue `index` shares: at least 1.
    #[inline]
    pub fn host_load(&self, index: usize, mode: FlowMode) -> u16 {
        let flow = &self.queues[index];
        let mut load = 1;
        if mode.fair_sources() {
            load = load.max(self.sources.bulk_flows(flow.source));
        }
        if mode.fair_destinations() {
            load = load.max(self.destinations.bulk_flows(flow.destination));
        }
        load
    }

    /// The queues of flows with state, by index.
    pub fn active(&self) -> impl Iterator<Item = (usize, &CakeFlow)> {
        let known = |&(index, _): &(usize, &CakeFlow)| self.sets[index] != Set::None;
        self.queues.iter().enumerate().filter(known)
    }
}

/// Where flows of each set wait; those of none don't.
const ROTATIONS: [Rotation; 5] =
    [Rotation::New, Rotation::New, Rotation::Old, Rotation::Old, Rotation::Decaying];

#[cfg(test)]
mod tests {
    use super::*;

    fn find(flows: &mut Flows, hash: u32) -> (usize, Lookup) {
        let found = flows.find(hash, FlowMode::TripleIsolate, || (hash, 1));
        flows.enter(found.0, Set::Sparse, FlowMode::TripleIsolate);
        found
    }

    #[test]
    fn eight_flows_of_one_set_get_eight_queues_and_the_ninth_shares() {
        let mut flows = Flows::new();
        for way in 0..8u32 {
            let (index, lookup) = find(&mut flows, 5 + 1024 * way);
            assert_eq!((index, lookup), (((5 + way) % 8) as usize, Lookup::Miss));
        }
        assert_eq!(find(&mut flows, 5), (5, Lookup::Direct));
        assert_eq!(find(&mut flows, 5 + 1024), (6, Lookup::Indirect));
        assert_eq!(find(&mut flows, 5 + 1024 * 8), (5, Lookup::Collision));
    }

    #[test]
    fn a_flow_waits_where_its_set_does() {
        let (mut flows, mode) = (Flows::new(), FlowMode::Flows);
        flows.enter(3, Set::Sparse, mode);
        flows.enter(4, Set::Bulk, mode);
        flows.enter(5, Set::Decaying, mode);
        assert_eq!((flows.first(false), flows.first(true)), (Some(3), Some(5)));
        flows.enter(3, Set::SparseWait, mode);
        assert_eq!(flows.first(false), Some(4));
        flows.change(3, Set::Bulk, mode);
        let counts = [Set::Sparse, Set::SparseWait, Set::Bulk, Set::Decaying];
        assert_eq!(counts.map(|set| flows.count(set)), [0, 0, 2, 1]);
        flows.enter(4, Set::None, mode);
        assert_eq!(flows.first(false), Some(3), "it has kept its place");
        let active: Vec<usize> = flows.active().map(|(index, _)| index).collect();
        assert_eq!((active, flows.any_active()), (vec![3, 5], true));
        flows.enter(3, Set::Decaying, mode);
        assert!(!flows.any_active());
    }

    #[test]
    fn a_flow_fills_one_cache_line() {
        assert_eq!((size_of::<CakeFlow>(), align_of::<CakeFlow>()), (64, 64));
    }

    #[test]
    fn host_load_is_the_busier_side_in_triple_isolation() {
        let mut flows = Flows::new();
        for flow in 0..4 {
            let (index, _) = find(&mut flows, flow);
            flows.enter(index, Set::Bulk, FlowMode::TripleIsolate);
        }
        assert_eq!(flows.host_load(0, FlowMode::TripleIsolate), 4, "one destination");
        assert_eq!(flows.host_load(0, FlowMode::DualSrchost), 1, "four sources");
        assert_eq!(flows.host_load(0, FlowMode::Flows), 1);
        flows.enter(0, Set::Sparse, FlowMode::TripleIsolate);
        assert_eq!(flows.host_load(1, FlowMode::TripleIsolate), 3);
    }

    /// All queues of a set are bulk and host 1's; one more flow, of host 2, takes one over.
    #[test]
    fn a_bulk_flow_that_changes_hosts_is_counted_for_the_new_ones() {
        let (mut flows, mode) = (Flows::new(), FlowMode::DualSrchost);
        for way in 0..8u32 {
            let (index, _) = flows.find(5 + 1024 * way, mode, || (1, 0));
            flows.enter(index, Set::Bulk, mode);
        }
        assert_eq!(flows.host_load(5, mode), 8);
        let taken = flows.find(5 + 1024 * 8, mode, || (2, 0));
        assert_eq!(taken, (5, Lookup::Collision));
        assert_eq!((flows.host_load(5, mode), flows.host_load(6, mode)), (1, 7));
    }
}
