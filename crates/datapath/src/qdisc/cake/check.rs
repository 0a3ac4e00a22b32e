//! CAKE's counters, recomputed from its queues: packets, bytes and memory of flows, tins and the whole;
//! flows of each set and the rotations that they wait in; bulk flows of each host.

use super::Cake;
use super::cobalt::Cobalt;
use super::config::FlowMode;
use super::flows::{CakeFlow, Flows, Set};
use super::hash::QUEUES;
use super::overflow::QueueId;
use super::pool::{Hint, Pool, Slot};
use super::rotations::Rotation;
use super::tin::Tin;
use crate::qdisc::Backlog;

/// What the packets of some queues add up to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Sums {
    waiting: Backlog,
    memory: u64,
}

impl Cake {
    /// Asserts that all accounts agree with the queues.
    pub(in super::super) fn check(&self) {
        self.assert_conserved();
        let mut sums = Sums::default();
        for (number, tin) in self.tins.iter().enumerate() {
            let own = tin.check(&self.pool);
            sums.waiting = sums.waiting + own.waiting;
            sums.memory += own.memory;
            let active = self.active & 1 << number != 0;
            assert_eq!(active, tin.has_active_flows(), "tin {number} is active");
            if let Some(flows) = tin.flows.as_ref().filter(|_| !self.isolation_changed) {
                flows.check_hosts(self.config.flows);
            }
        }
        assert_eq!(self.backlog, sums.waiting, "what CAKE says and holds");
        assert_eq!(self.memory.used, sums.memory, "memory that CAKE says and holds");
        self.pool.check(sums.waiting.packets as usize);
    }

    /// Asserts that the longest queue has sunk in its heap when it became shorter.
    #[inline]
    pub(super) fn check_longest(&self, place: QueueId) {
        if cfg!(debug_assertions)
            && let Some(longest) = &self.longest
        {
            assert!(longest.has_sunk(place, &*self.tins), "a longer queue lies below the longest");
        }
    }
}

impl Tin {
    fn check(&self, pool: &Pool) -> Sums {
        let Some(flows) = &self.flows else { return Sums::default() };
        let mut sums = Sums::default();
        for index in 0..QUEUES {
            let flow = flows.get(index);
            let own = flow.check(pool);
            sums.waiting = sums.waiting + own.waiting;
            sums.memory += own.memory;
            if matches!(flows.set(index), Set::None | Set::Decaying) {
                assert!(flow.chain.is_empty(), "queue {index} has packets and is not served");
                assert!(
                    !flow.cobalt.dropping,
                    "queue {index} is empty, and COBALT goes on signalling"
                );
            }
        }
        assert_eq!(self.backlog, sums.waiting.bytes, "what a tin says and holds");
        let floods = |cobalt: &Cobalt| cobalt.p_drop != 0;
        let flooding = (0..QUEUES).filter(|&index| floods(&flows.get(index).cobalt)).count();
        assert_eq!(usize::from(self.unresponsive), flooding, "flows that BLUE deals with");
        flows.check_rotations();
        sums
    }
}

impl CakeFlow {
    fn check(&self, pool: &Pool) -> Sums {
        let mut sums = Sums::default();
        let mut acks = 0;
        for (slot, packet) in pool.slots_of(&self.chain) {
            let Slot { charge, hint, .. } = *slot;
            assert_eq!(charge.len, packet.wire_len(), "a packet's length has changed");
            assert_eq!(hint, Hint::of(packet), "a packet has become another one");
            acks += u32::from(hint.may_be_ack());
            sums.waiting = sums.waiting + Backlog::of(packet);
            sums.memory += u64::from(charge.memory);
        }
        assert_eq!(self.backlog, sums.waiting.bytes, "what a flow says and holds");
        assert_eq!(self.chain.acks(), acks, "ACKs among the packets of a flow");
        sums
    }
}

impl Flows {
    /// Every flow waits in the rotation of its set, and in no other. Flows that became bulk, or sparse
    /// ones that wait, have kept their place.
    fn check_rotations(&self) {
        let mut waits = [None; QUEUES];
        for rotation in [Rotation::New, Rotation::Old, Rotation::Decaying] {
            for index in self.rotations().members(rotation) {
                assert_eq!(waits[index].replace(rotation), None, "queue {index} waits twice");
            }
        }
        let mut counts = [0u16; 5];
        for (index, rotation) in waits.into_iter().enumerate() {
            let set = self.set(index);
            counts[set as usize] += 1;
            let is_right = match set {
                Set::None => rotation.is_none(),
                Set::Decaying => rotation == Some(Rotation::Decaying),
                Set::Sparse => rotation == Some(Rotation::New),
                Set::SparseWait | Set::Bulk => rotation == Some(Rotation::Old),
            };
            assert!(is_right, "queue {index} is {set:?} and waits in {rotation:?}");
        }
        let sets = [Set::None, Set::Sparse, Set::SparseWait, Set::Bulk, Set::Decaying];
        assert_eq!(counts, sets.map(|set| self.count(set)), "flows of each set");
    }

    /// Every host has as many bulk flows as are counted for it.
    fn check_hosts(&self, mode: FlowMode) {
        let (mut sources, mut destinations) = ([0u16; QUEUES], [0u16; QUEUES]);
        for index in (0..QUEUES).filter(|&index| self.set(index) == Set::Bulk) {
            let (source, destination) = self.get(index).hosts();
            sources[usize::from(source)] += u16::from(mode.fair_sources());
            destinations[usize::from(destination)] += u16::from(mode.fair_destinations());
        }
        let [counted_sources, counted_destinations] = self.bulk_flows_of_hosts();
        assert!(*counted_sources == sources, "bulk flows of sources");
        assert!(*counted_destinations == destinations, "bulk flows of destinations");
    }
}
