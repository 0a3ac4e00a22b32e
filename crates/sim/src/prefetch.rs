//! Prefetching: the next events of an epoch are known, and so is the memory that they need.
//!
//! With ten thousand hosts, whatever the next packet needs has long left the caches, and each access
//! would wait for memory. So prefetching goes step by step while earlier packets arrive:
//! first the packet itself, then its node's other memory, then the output port, and what that refers to.

use crate::due::Entry;
use crate::link::NodeId;
use crate::partition::Partition;
use crate::pool::NEARBY;
use datapath::host::PrefetchStep;
use datapath::node::Port;
use datapath::prefetch::{prefetch, prefetch_at};

/// How many entries ahead each step is.
const PACKET: usize = 24;
const ELSEWHERE: usize = 13;
const ROUTE: usize = 8;

/// A host takes as much of the caches as this many packets.
const PACKETS_PER_HOST: usize = 32;

impl Partition {
    /// Whether packets and hosts exceed the caches.
    pub fn exceeds_caches(&self) -> bool {
        self.pool.len() + PACKETS_PER_HOST * self.nodes.len() > NEARBY
    }

    /// Prefetches the packets that come after `next`, and what a router needs for them, step by step.
    #[inline]
    pub fn prefetch_entries(&self, sorted: &[Entry], next: usize, router: Option<NodeId>) {
        if let Some(packet) = sorted.get(next + PACKET).and_then(Entry::arriving) {
            self.pool.get(packet).prefetch();
        }
        if let Some(router) = router {
            self.prefetch_for_router(sorted, next, router);
        }
    }

    #[inline(never)]
    fn prefetch_for_router(&self, sorted: &[Entry], next: usize, router: NodeId) {
        let host = &self.nodes[router.0 as usize].host;
        // Entries of another node, or without a packet, are rare; for them the prefetch is useless.
        let arrival = |ahead: usize| {
            let entry = sorted.get(next + ahead)?;
            Some((entry.port(), self.pool.get(entry.arriving()?)))
        };
        if let Some((port, packet)) = arrival(ELSEWHERE) {
            host.prefetch_arrival(port, packet);
        }
        if let Some(out) = arrival(ROUTE).and_then(|(_, packet)| host.prefetch_departure(packet)) {
            self.prefetch_link_behind(router, out);
        }
    }

    /// Prefetches the hosts that come after run `run`, each of five steps for another one.
    pub fn prefetch_hosts(&self, sorted: &[Entry], runs: &[u32], run: usize) {
        let entry = |ahead: usize| sorted.get(*runs.get(run + ahead)? as usize);
        // This one is not read: it is not in the caches yet.
        if let Some(entry) = entry(5) {
            self.prefetch_node(entry.node().0);
        }
        let host = |ahead: usize| {
            let entry = entry(ahead)?;
            let node = &self.nodes[entry.node().0 as usize];
            (!node.host.forwarding).then_some((entry, node))
        };
        let arrival = |ahead: usize| {
            let (entry, node) = host(ahead)?;
            Some((entry, node, self.pool.get(entry.arriving()?)))
        };
        if let Some((entry, node)) = host(4) {
            node.host.prefetch(PrefetchStep::Port(entry.port()));
            prefetch_at(&node.links, 0);
            prefetch_at(&node.owners, 0);
        }
        if let Some((entry, node, packet)) = arrival(3) {
            node.host.prefetch(PrefetchStep::Connection(packet));
            self.prefetch_link_behind(entry.node(), entry.port());
            prefetch_at(&self.apps, node.likely_app());
        }
        if let Some((_, node, packet)) = arrival(2) {
            node.host.prefetch(PrefetchStep::Rest(packet));
            if let Some(state) = self.apps.get(node.likely_app()) {
                state.app.prefetch();
            }
        }
        if let Some((_, node)) = host(1) {
            node.host.prefetch(PrefetchStep::Records);
            if let Some(state) = self.apps.get(node.likely_app()) {
                state.app.prefetch_rest();
            }
        }
    }

    /// Prefetches the first-used part of a node, if there is one.
    pub fn prefetch_node(&self, index: u32) {
        if let Some(node) = self.nodes.get(index as usize) {
            prefetch(&node.wake);
            node.host.prefetch(PrefetchStep::Host);
        }
    }

    #[inline]
    fn prefetch_link_behind(&self, node: NodeId, port: Port) {
        let link = self.nodes[node.0 as usize].links.get(usize::from(port.0));
        if let Some(link) = link.and_then(|link| self.links.get(link.0 as usize)) {
            link.prefetch();
        }
    }
}
