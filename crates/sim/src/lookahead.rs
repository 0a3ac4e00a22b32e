//! What arrives next is known: the caches are asked for what it will need.
//!
//! With ten thousand hosts, whatever the next packet needs has long left the caches, and each look
//! at it would wait for memory. So a packet is prepared step by step while those before it arrive:
//! first its place in the lane, then itself and its link, then the host, what the host keeps
//! elsewhere, the way out, and what lies behind that.

use crate::calendar::Entry;
use crate::lanes::Coming;
use crate::link::NodeId;
use crate::world::{NodeState, World};
use datapath::host::Ahead;
use datapath::node::Port;
use datapath::prefetch::{prefetch, prefetch_at};

/// How many arrivals ahead each step is.
const PLACE: usize = 40;
const PACKET: usize = 16;
const HOST: usize = 12;
const ELSEWHERE: usize = 8;
const WAY: usize = 5;
const REST: usize = 2;

/// The same in a window, where what comes next is known further ahead and hosts are another matter.
const IN_WINDOW_PACKET: usize = 24;
const IN_WINDOW_ELSEWHERE: usize = 13;
const IN_WINDOW_WAY: usize = 8;
const IN_WINDOW_REST: usize = 4;

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
            self.links[next.link.0 as usize].foresee_arrival();
        }
        if let Some(next) = lanes.upcoming(HOST) {
            let (node, _) = self.receiver(next);
            prefetch(&node.wake);
            if !node.host.forwarding {
                node.host.prefetch(Ahead::Host);
            }
        }
        if let Some(next) = lanes.upcoming(ELSEWHERE) {
            let (node, port) = self.receiver(next);
            node.host.prefetch(Ahead::Packet(port, self.pool.get(next.packet)));
            prefetch_at(&node.links, 0);
            prefetch_at(&node.owners, 0);
            self.schedule.foresee(node.slot);
        }
        if let Some(next) = lanes.upcoming(WAY) {
            let (node, _) = self.links[next.link.0 as usize].to;
            let host = &self.nodes[node.0 as usize].host;
            let out = host.prefetch(Ahead::Way(self.pool.get(next.packet)));
            self.foresee_link_behind(node, out);
        }
        if let Some(next) = lanes.upcoming(REST) {
            let (node, _) = self.receiver(next);
            node.host.prefetch(Ahead::Rest(self.pool.get(next.packet)));
        }
    }

    /// Asks the caches for the packets that come after `next`, and for what a router needs for them,
    /// step by step as [`look_ahead`](Self::look_ahead) does.
    #[inline]
    pub(crate) fn look_ahead_in(&self, sorted: &[Entry], next: usize, router: Option<NodeId>) {
        if let Some(entry) = sorted.get(next + IN_WINDOW_PACKET)
            && let Some(packet) = entry.packet()
        {
            self.pool.get(packet).foresee();
        }
        if let Some(router) = router {
            self.look_ahead_of_router(sorted, next, router);
        }
    }

    #[inline(never)]
    fn look_ahead_of_router(&self, sorted: &[Entry], next: usize, router: NodeId) {
        let node = &self.nodes[router.0 as usize];
        let arrival = |ahead: usize| {
            let entry = sorted.get(next + ahead).filter(|entry| entry.node() == router)?;
            Some((entry, self.pool.get(entry.packet()?)))
        };
        if let Some((entry, packet)) = arrival(IN_WINDOW_ELSEWHERE) {
            node.host.prefetch(Ahead::Packet(entry.port(), packet));
        }
        if let Some((_, packet)) = arrival(IN_WINDOW_WAY) {
            self.foresee_link_behind(router, node.host.prefetch(Ahead::Way(packet)));
        }
        if let Some((_, packet)) = arrival(IN_WINDOW_REST) {
            node.host.prefetch(Ahead::Rest(packet));
        }
    }

    /// Asks the caches for the hosts whose turn comes after run `run`, each of four steps for another
    /// one.
    pub(crate) fn look_ahead_at_hosts(&self, sorted: &[Entry], runs: &[u32], run: usize) {
        let host = |ahead: usize| {
            let entry = sorted.get(*runs.get(run + ahead)? as usize)?;
            (!self.is_router(entry.node())).then_some(entry)
        };
        if let Some(entry) = host(4) {
            let node = &self.nodes[entry.node().0 as usize];
            prefetch(&node.wake);
            node.host.prefetch(Ahead::Host);
        }
        if let Some(entry) = host(3)
            && let Some(packet) = entry.packet()
        {
            let node = &self.nodes[entry.node().0 as usize];
            node.host.prefetch(Ahead::Packet(entry.port(), self.pool.get(packet)));
            prefetch_at(&node.links, 0);
            prefetch_at(&node.owners, 0);
        }
        if let Some(entry) = host(2)
            && let Some(packet) = entry.packet()
        {
            let node = &self.nodes[entry.node().0 as usize];
            let out = node.host.prefetch(Ahead::Way(self.pool.get(packet)));
            self.foresee_link_behind(entry.node(), out);
            prefetch_at(&self.apps, node.likely_app());
        }
        if let Some(entry) = host(1)
            && let Some(packet) = entry.packet()
        {
            let node = &self.nodes[entry.node().0 as usize];
            node.host.prefetch(Ahead::Rest(self.pool.get(packet)));
            if let Some(app) = self.apps.get(node.likely_app()) {
                app.foresee();
            }
        }
    }

    #[inline]
    fn foresee_link_behind(&self, node: NodeId, port: Port) {
        let link = self.nodes[node.0 as usize].links.get(usize::from(port.0));
        if let Some(link) = link.and_then(|link| self.links.get(link.0 as usize)) {
            link.foresee();
        }
    }

    /// Whether a node passes packets on. Only for looking ahead: a node that is made one later counts
    /// as a host.
    #[inline]
    pub(crate) fn is_router(&self, node: NodeId) -> bool {
        self.windows.routers.get(node.0 as usize) == Some(&true)
    }

    #[inline]
    fn receiver(&self, coming: Coming) -> (&NodeState, Port) {
        let (node, port) = self.links[coming.link.0 as usize].to;
        (&self.nodes[node.0 as usize], port)
    }
}
