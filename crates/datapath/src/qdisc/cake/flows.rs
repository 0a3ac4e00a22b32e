//! The flow queues of one tin, and the rotations that they wait in (DRR++).

use super::ack_filter::LastAck;
use super::cobalt::Cobalt;
use super::config::FlowMode;
use super::hash::{QUEUES, SetSlot};
use super::hosts::Hosts;
use super::pool::Chain;

/// Which part of its life a flow is in (`CAKE_SET_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Set {
    /// Unknown: no packets and no memory of any.
    #[default]
    None,
    /// Uses less than its share: served first.
    Sparse,
    /// Counted as sparse, but waits with the bulk flows because it has used up its share.
    SparseWait,
    /// Has a standing queue.
    Bulk,
    /// Empty, but its AQM state has not come to rest.
    Decaying,
}

/// The rotations of a tin, in the order in which they are served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rotation {
    /// Flows that have just become active.
    New,
    /// Flows that have used up a quantum.
    Old,
    /// Empty flows whose AQM state decays.
    Decaying,
}

/// One flow queue (`struct cake_flow`).
#[derive(Clone, Copy, Debug, Default)]
pub struct Flow {
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
    /// What the naive ACK filter remembers.
    pub last_ack: LastAck,
    /// Which part of its life it is in.
    pub set: Set,
    /// Source host, as a slot of [`Flows::sources`].
    source: u16,
    /// Destination host, as a slot of [`Flows::destinations`].
    destination: u16,
    rotation: Option<Rotation>,
    previous: u16,
    next: u16,
}

/// What a look-up in the set-associative table had to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lookup {
    /// The flow has its queue at home, or came back to it.
    Direct,
    /// The flow has its queue elsewhere in its set.
    Indirect,
    /// A new flow found a free queue.
    Miss,
    /// All queues of the set are taken by others.
    Collision,
}

/// The tables of one tin, made when its first packet comes.
#[derive(Clone, Debug)]
pub struct Flows {
    queues: Box<[Flow]>,
    tags: Box<[u32]>,
    /// Source hosts.
    sources: Hosts,
    /// Destination hosts.
    destinations: Hosts,
    rotations: [List; 3],
}

/// A doubly linked list through [`Flow::next`].
#[derive(Clone, Copy, Debug)]
struct List {
    first: u16,
    last: u16,
}

/// No flow.
const NIL: u16 = u16::MAX;

impl Flows {
    /// Empty tables.
    pub fn new() -> Self {
        Self {
            queues: vec![Flow::default(); QUEUES].into_boxed_slice(),
            tags: vec![0; QUEUES].into_boxed_slice(),
            sources: Hosts::new(QUEUES),
            destinations: Hosts::new(QUEUES),
            rotations: [List { first: NIL, last: NIL }; 3],
        }
    }

    /// The flow in queue `index`.
    pub fn get(&self, index: usize) -> &Flow {
        &self.queues[index]
    }

    /// The flow in queue `index`, to change.
    pub fn get_mut(&mut self, index: usize) -> &mut Flow {
        &mut self.queues[index]
    }

    /// The queue for a packet with this hash (`cake_hash`), and how it was found. The hashes of
    /// its source and destination host are only asked for where the queue changes hands.
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
        if fair && (moves_in || self.queues[index].set == Set::None) {
            self.settle_hosts(index, hosts(), mode);
        }
        self.tags[index] = hash;
        (index, lookup)
    }

    fn search(&self, home: SetSlot, tag: u32) -> (usize, Lookup) {
        if self.tags[home.index()] == tag {
            return (home.index(), Lookup::Direct);
        }
        if let Some(index) = home.ways().find(|&index| self.tags[index] == tag) {
            return (index, Lookup::Indirect);
        }
        match home.ways().find(|&index| self.queues[index].set == Set::None) {
            Some(index) => (index, Lookup::Miss),
            None => (home.index(), Lookup::Collision),
        }
    }

    /// Notes which hosts the flow in queue `index` now belongs to. A bulk flow that is taken over
    /// in a collision is counted for its new hosts instead of its old ones.
    fn settle_hosts(&mut self, index: usize, hosts: (u32, u32), mode: FlowMode) {
        let bulk = self.queues[index].set == Set::Bulk;
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

    /// The flow in queue `index` has become bulk.
    pub fn add_bulk(&mut self, index: usize, mode: FlowMode) {
        self.count_bulk(index, mode, Hosts::add_bulk);
    }

    /// The flow in queue `index` is no longer bulk.
    pub fn remove_bulk(&mut self, index: usize, mode: FlowMode) {
        self.count_bulk(index, mode, Hosts::remove_bulk);
    }

    fn count_bulk(&mut self, index: usize, mode: FlowMode, count: fn(&mut Hosts, u16)) {
        let flow = &self.queues[index];
        if mode.fair_sources() {
            count(&mut self.sources, flow.source);
        }
        if mode.fair_destinations() {
            count(&mut self.destinations, flow.destination);
        }
    }

    /// Among how many bulk flows of the same host the flow in queue `index` shares: at least 1.
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

    /// The flow whose turn it is: the first of the first rotation that is not empty. With
    /// `decaying_first` flows that decay are looked at before the others.
    pub fn first(&self, decaying_first: bool) -> Option<usize> {
        let order = if decaying_first {
            [Rotation::Decaying, Rotation::New, Rotation::Old]
        } else {
            [Rotation::New, Rotation::Old, Rotation::Decaying]
        };
        let heads = order.map(|rotation| self.rotations[rotation as usize].first);
        heads.into_iter().find(|&first| first != NIL).map(usize::from)
    }

    /// Moves the flow in queue `index` to the end of `rotation`, from wherever it is.
    pub fn move_to(&mut self, index: usize, rotation: Rotation) {
        self.leave(index);
        let list = &mut self.rotations[rotation as usize];
        let previous = list.last;
        list.last = index as u16;
        match previous {
            NIL => list.first = index as u16,
            previous => self.queues[usize::from(previous)].next = index as u16,
        }
        let flow = &mut self.queues[index];
        flow.previous = previous;
        flow.next = NIL;
        flow.rotation = Some(rotation);
    }

    /// Takes the flow in queue `index` out of its rotation.
    pub fn leave(&mut self, index: usize) {
        let Flow { rotation, previous, next, .. } = self.queues[index];
        let Some(rotation) = rotation else { return };
        let list = &mut self.rotations[rotation as usize];
        match previous {
            NIL => list.first = next,
            previous => self.queues[usize::from(previous)].next = next,
        }
        match next {
            NIL => list.last = previous,
            next => self.queues[usize::from(next)].previous = previous,
        }
        self.queues[index].rotation = None;
    }

    /// The queues that are in some rotation, by index.
    pub fn active(&self) -> impl Iterator<Item = (usize, &Flow)> {
        self.queues.iter().enumerate().filter(|(_, flow)| flow.rotation.is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(flows: &mut Flows, hash: u32) -> (usize, Lookup) {
        let found = flows.find(hash, FlowMode::TripleIsolate, || (hash, 1));
        flows.get_mut(found.0).set = Set::Sparse;
        found
    }

    #[test]
    fn eight_flows_with_one_home_get_eight_queues_and_the_ninth_shares() {
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
    fn rotations_are_first_in_first_out_in_their_order() {
        let mut flows = Flows::new();
        flows.move_to(3, Rotation::Old);
        flows.move_to(4, Rotation::Decaying);
        flows.move_to(5, Rotation::New);
        flows.move_to(6, Rotation::New);
        assert_eq!(flows.first(false), Some(5));
        flows.move_to(5, Rotation::Old);
        flows.leave(6);
        assert_eq!(flows.first(false), Some(3));
        assert_eq!(flows.first(true), Some(4));
        flows.leave(3);
        assert_eq!(flows.first(false), Some(5));
        flows.leave(5);
        assert_eq!(flows.first(false), Some(4));
        let active: Vec<usize> = flows.active().map(|(index, _)| index).collect();
        assert_eq!(active, [4]);
    }

    #[test]
    fn host_load_is_the_busier_side_in_triple_isolation() {
        let mut flows = Flows::new();
        for flow in 0..4 {
            let (index, _) = find(&mut flows, flow);
            flows.get_mut(index).set = Set::Bulk;
            flows.add_bulk(index, FlowMode::TripleIsolate);
        }
        assert_eq!(flows.host_load(0, FlowMode::TripleIsolate), 4, "one destination");
        assert_eq!(flows.host_load(0, FlowMode::DualSrchost), 1, "four sources");
        assert_eq!(flows.host_load(0, FlowMode::Flows), 1);
        flows.remove_bulk(0, FlowMode::TripleIsolate);
        assert_eq!(flows.host_load(1, FlowMode::TripleIsolate), 3);
    }

    /// All queues of a set are bulk and host 1's; one more flow, of host 2, takes one over.
    #[test]
    fn a_bulk_flow_that_changes_hosts_is_counted_for_the_new_ones() {
        let (mut flows, mode) = (Flows::new(), FlowMode::DualSrchost);
        for way in 0..8u32 {
            let (index, _) = flows.find(5 + 1024 * way, mode, || (1, 0));
            flows.get_mut(index).set = Set::Bulk;
            flows.add_bulk(index, mode);
        }
        assert_eq!(flows.host_load(5, mode), 8);
        let taken = flows.find(5 + 1024 * 8, mode, || (2, 0));
        assert_eq!(taken, (5, Lookup::Collision));
        assert_eq!((flows.host_load(5, mode), flows.host_load(6, mode)), (1, 7));
    }
}
