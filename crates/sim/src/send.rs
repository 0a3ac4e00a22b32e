//! A packet's way from its node onto a link: counted, shown, cut where the device does so, and on its
//! way to arrive, or to be lost.

use crate::due::Due;
use crate::event::{EventId, Kind};
use crate::link::{LinkId, NodeId, Put};
use crate::partition::Partition;
use crate::pool::PacketId;
use crate::trouble::Fate;
use crate::world::HOP_BYTES;
use datapath::node::Port;
use datapath::packet::Memory;
use datapath::reason::Reason;
use datapath::units::Instant;

impl Partition {
    /// Puts a packet that a node sends on the link behind the port. Not in line, like
    /// [`pump`](Self::pump): called from several places, these should lie in the instruction cache
    /// once.
    #[inline(never)]
    pub fn put_on_link(&mut self, node: NodeId, port: Port, id: PacketId) {
        let link_id = self.nodes[node.0 as usize].links[usize::from(port.0)];
        if self.pool.get(id).meta.gso_segs > 1 && self.links[link_id.0 as usize].cuts {
            return self.cut_onto_link(node, port, link_id, id);
        }
        self.note_sent(link_id, id);
        let link = &mut self.links[link_id.0 as usize];
        let host = &mut self.nodes[node.0 as usize].host;
        let credit_at = |at| host.credit_at(self.now, port, at);
        let put = link.put(self.now, self.pool.get_mut(id), credit_at);
        assert!(link.up, "a port that is down sends nothing");
        self.send_off(node, link_id, id, put);
        if put.at_once {
            self.nodes[node.0 as usize].host.credit(self.now, port);
        }
    }

    /// A device puts the segments of a super-packet on the wire one by one; its room is free again
    /// when the last has left.
    #[cold]
    fn cut_onto_link(&mut self, node: NodeId, port: Port, link_id: LinkId, id: PacketId) {
        let whole = self.pool.take(id);
        let last = whole.segment_count() - 1;
        for (index, mut segment) in (0..).zip(whole.segment()) {
            // What the far end receives lies in a buffer of its own device.
            segment.memory = Memory::Linear;
            if index == last {
                segment.meta.truesize = whole.meta.truesize;
                let segment = self.pool.insert(segment);
                return self.put_on_link(node, port, segment);
            }
            let segment = self.pool.insert(segment);
            self.note_sent(link_id, segment);
            let link = &mut self.links[link_id.0 as usize];
            let put = link.put_segment(self.now, self.pool.get_mut(segment));
            self.send_off(node, link_id, segment, put);
        }
    }

    /// Counts and shows a packet that is put on a link.
    #[inline]
    fn note_sent(&mut self, link: LinkId, id: PacketId) {
        let packet = self.pool.get(id);
        let segments = u64::from(packet.segments());
        self.stats.hops += segments;
        if packet.len() >= HOP_BYTES {
            self.stats.full_hops += segments;
        }
        if let Some(watchers) = self.watchers.get_mut(link.0 as usize) {
            for observer in watchers {
                observer.sent(self.now, link, packet);
            }
        }
        if self.log.sees_sent(link) {
            self.log.note_sent(self.turn(), link, packet);
        }
    }

    /// What a packet put on a link makes necessary.
    #[inline]
    fn send_off(&mut self, node: NodeId, link_id: LinkId, id: PacketId, put: Put) {
        if let Some(at) = put.sent {
            self.push(Due::event(at, EventId::new(Kind::Sent, link_id.0), node));
        }
        let link = &self.links[link_id.0 as usize];
        if link.has_trouble() {
            return self.send_into_trouble(link_id, id, put.leaves);
        }
        let (at, to) = (put.leaves + link.delay(), link.to);
        self.push(Due::arrival(at, link_id, to, id, false));
    }

    #[cold]
    fn send_into_trouble(&mut self, link_id: LinkId, id: PacketId, leaves: Instant) {
        let link = &mut self.links[link_id.0 as usize];
        let to = link.to;
        match link.decide(leaves, self.pool.get_mut(id)) {
            Fate::Lost => self.on_link_drop(link_id, Reason::LinkLoss, id),
            Fate::Arrives { at, damaged, copy_at } => {
                self.push(Due::arrival(at, link_id, to, id, damaged));
                if let Some(at) = copy_at {
                    let copy = self.pool.get(id).clone();
                    let copy = self.pool.insert(copy);
                    self.push(Due::arrival(at, link_id, to, copy, false));
                }
            }
        }
    }
}
