//! A packet's way from its node onto a link: counted, shown, cut where the device does so, and on its
//! way to arrive, or to be lost.

use crate::due::Due;
use crate::event::{EventId, Kind};
use crate::impairment::Delivery;
use crate::link::{LinkId, NodeId, Transmission};
use crate::partition::{AWAY, Away, Partition};
use crate::pool::PacketId;
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
        if self.pool.get(id).meta.gso_segs > 1
            && self.links[link_id.0 as usize].segments_super_packets
        {
            return self.segment_onto_link(node, port, link_id, id);
        }
        self.note_sent(link_id, id);
        let link = &mut self.links[link_id.0 as usize];
        let host = &mut self.nodes[node.0 as usize].host;
        let credit_at = |at| host.credit_at(self.now, port, at);
        let transmission = link.transmit(self.now, self.pool.get_mut(id), credit_at);
        assert!(link.up, "a port that is down sends nothing");
        self.send_off(node, link_id, id, transmission);
        if transmission.at_once {
            if self.one_machine {
                return self.credit_on_machine(node, port);
            }
            self.nodes[node.0 as usize].host.credit(self.now, port);
        }
    }

    /// A device puts the segments of a super-packet on the wire one by one; its room is free again
    /// when the last has left.
    #[cold]
    fn segment_onto_link(&mut self, node: NodeId, port: Port, link_id: LinkId, id: PacketId) {
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
            let transmission = link.transmit_segment(self.now, self.pool.get_mut(segment));
            self.send_off(node, link_id, segment, transmission);
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
            for watcher in watchers {
                watcher.sent(self.now, packet);
            }
        }
        if self.log.wants_sent(link) {
            self.log.note_sent(self.turn(), link, packet);
        }
    }

    /// What a packet put on a link makes necessary.
    #[inline]
    fn send_off(
        &mut self,
        node: NodeId,
        link_id: LinkId,
        id: PacketId,
        transmission: Transmission,
    ) {
        if let Some(at) = transmission.sent {
            self.push(Due::event(at, EventId::new(Kind::Sent, link_id.0), node));
        }
        let link = &self.links[link_id.0 as usize];
        if link.is_impaired() {
            return self.send_impaired(link_id, id, transmission.leaves);
        }
        let (at, to) = (transmission.leaves + link.delay(), link.far);
        self.push_arrival(at, link_id, to, id, false);
    }

    /// A packet is on its way to this port.
    #[inline]
    fn push_arrival(
        &mut self,
        at: Instant,
        link: LinkId,
        to: (NodeId, Port),
        id: PacketId,
        damaged: bool,
    ) {
        if to.0.0 < AWAY {
            return self.push(Due::arrival(at, link, to, id, damaged));
        }
        let Away { part, link, to } = self.away[(to.0.0 - AWAY) as usize];
        let due = Due::arrival(at, link, to, PacketId(0), damaged);
        self.out_at = self.out_at.min(at);
        self.out[part].push(due, self.pool.get_mut(id));
        self.pool.discard(id);
    }

    #[cold]
    fn send_impaired(&mut self, link_id: LinkId, id: PacketId, leaves: Instant) {
        // On one machine the box of rules is a program.
        self.program_ran = self.now;
        let link = &mut self.links[link_id.0 as usize];
        let to = link.far;
        match link.decide(leaves, self.pool.get_mut(id)) {
            Delivery::Lost => self.on_link_drop(link_id, Reason::LinkLoss, id),
            Delivery::Arrives { at, damaged, copy_at } => {
                // Copied before it goes: it may leave for another partition at once.
                let copy = copy_at.map(|at| (at, self.pool.get(id).clone()));
                self.push_arrival(at, link_id, to, id, damaged);
                if let Some((at, copy)) = copy {
                    let copy = self.pool.insert(copy);
                    self.push_arrival(at, link_id, to, copy, false);
                }
            }
        }
    }
}
