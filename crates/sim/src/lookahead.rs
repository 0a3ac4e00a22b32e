//! What arrives next is known: the caches are asked for what it will need.
//!
//! With ten thousand hosts, whatever the next packet needs has long left the caches, and each look
//! at it would wait for memory. So a packet is prepared step by step while those before it arrive:
//! first its place in the lane, then itself and its link, then the host, what the host keeps
//! elsewhere, the way out, and what lies behind that.

use crate::lanes::Coming;
use crate::world::{NodeState, World};
use datapath::node::Port;
use datapath::prefetch::{prefetch, prefetch_at};

/// How many arrivals ahead each step is.
const PLACE: usize = 40;
const PACKET: usize = 16;
const HOST: usize = 12;
const ELSEWHERE: usize = 8;
const WAY: usize = 5;
const REST: usize = 2;

/// A host counts as so many packets.
const PACKETS_PER_HOST: usize = 32;
/// So many packets and hosts stay in the caches nearby, those of a hundred flows: looking ahead would
/// only cost.
const NEARBY: usize = 16384;

impl World {
    /// Whether what takes turns here is more than the caches nearby hold.
    #[inline]
    pub(crate) fn exceeds_caches(&self) -> bool {
        self.pool.len() + PACKETS_PER_HOST * self.nodes.len() > NEARBY
    }

    /// Asks the caches for what the next packets of the lane will need that was taken from last.
    #[inline(never)]
    pub(crate) fn look_ahead(&self) {
        let lanes = &self.lanes;
        lanes.prefetch_place(PLACE);
        if let Some(next) = lanes.upcoming(PACKET) {
            self.pool.get(next.packet).foresee();
            self.links[next.link.0 as usize].foresee();
        }
        if let Some(next) = lanes.upcoming(HOST) {
            let (node, _) = self.receiver(next);
            prefetch(&node.wake);
            if !node.host.forwarding {
                node.host.foresee();
            }
        }
        if let Some(next) = lanes.upcoming(ELSEWHERE) {
            let (node, port) = self.receiver(next);
            node.host.foresee_packet(port, self.pool.get(next.packet));
            prefetch_at(&node.links, 0);
            prefetch_at(&node.owners, 0);
            self.schedule.foresee(node.slot);
        }
        if let Some(next) = lanes.upcoming(WAY) {
            let (node, _) = self.receiver(next);
            let out = node.host.foresee_way(self.pool.get(next.packet));
            let link = node.links.get(usize::from(out.0));
            if let Some(link) = link.and_then(|link| self.links.get(link.0 as usize)) {
                link.foresee();
            }
        }
        if let Some(next) = lanes.upcoming(REST) {
            let (node, _) = self.receiver(next);
            node.host.foresee_rest(self.pool.get(next.packet));
        }
    }

    #[inline]
    fn receiver(&self, coming: Coming) -> (&NodeState, Port) {
        let (node, port) = self.links[coming.link.0 as usize].to;
        (&self.nodes[node.0 as usize], port)
    }
}
