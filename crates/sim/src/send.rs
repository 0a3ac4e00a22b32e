//! Sending a packet from its node onto a link: showing, counting, segmenting where the device does so, and
//! scheduling its arrival or loss.

use crate::due::Due;
use crate::event::{EventId, Kind};
use crate::impairment::Delivery;
use crate::link::{Link, LinkId, NodeId, Transmission};
use crate::log::{Log, Stamp};
use crate::partition::{Partition, REMOTE, RemoteEnd};
use crate::pool::PacketId;
use datapath::node::Port;
use datapath::packet::{Memory, Packet};
use datapath::reason::Reason;
use datapath::units::Instant;

impl Partition {
    /// Puts a packet that a node sends on the link behind the port. Not inlined, like [`pump`](Self::pump): called from
    /// several places, they should be in the instruction cache once.
    #[inline(never)]
    pub fn put_on_link(&mut self, node: NodeId, port: Port, id: PacketId) {
        let link_id = self.nodes[node.0 as usize].links[usize::from(port.0)];
        let now = self.now;
        let state = &mut self.nodes[node.0 as usize];
        let link = &mut self.links[link_id.0 as usize];
        let packet = self.pool.get_mut(id);
        if packet.meta.gso_segs > 1 && link.segments_super_packets {
            return self.segment_onto_link(node, port, link_id, id);
        }
        show_sent(&mut self.log, Stamp { at: now, rank: self.rank }, link_id, link, packet);
        self.stats.note_sent(packet);
        let transmission = link.transmit(now, packet, |at| state.host.credit_at(now, port, at));
        assert!(link.up, "a port that is down sends nothing");
        self.send_off(node, link_id, id, transmission);
        if transmission.at_once {
            if self.one_machine {
                return self.credit_on_machine(node, port);
            }
            self.nodes[node.0 as usize].host.credit(now, port);
        }
    }

    /// A device puts the segments of a super-packet on the wire one by one; it gives credit back
    /// when the last has left.
    #[inline(never)]
    fn segment_onto_link(&mut self, node: NodeId, port: Port, link_id: LinkId, id: PacketId) {
        let whole = self.pool.take(id);
        let count = whole.segment_count();
        let stamp = self.stamp();
        for index in 0..count {
            let id = self.pool.reserve();
            let segment = self.pool.get_mut(id);
            whole.segment_into(index, count, segment);
            // The far end receives it in a buffer of its own device.
            segment.memory = Memory::Linear;
            if index + 1 == count {
                segment.meta.truesize = whole.meta.truesize;
                return self.put_on_link(node, port, id);
            }
            let link = &mut self.links[link_id.0 as usize];
            show_sent(&mut self.log, stamp, link_id, link, segment);
            self.stats.note_sent(segment);
            let transmission = link.transmit_segment(self.now, segment);
            self.send_off(node, link_id, id, transmission);
        }
    }

    /// Schedules the events of a packet that was put on a link.
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
        let (to, delay, is_impaired) = transmission.way;
        if is_impaired {
            return self.send_impaired(link_id, id, transmission.leaves);
        }
        self.push_arrival(transmission.leaves + delay, link_id, to, id, false);
    }

    /// Schedules the arrival of a packet at this port.
    #[inline]
    fn push_arrival(
        &mut self,
        at: Instant,
        link: LinkId,
        to: (NodeId, Port),
        id: PacketId,
        damaged: bool,
    ) {
        if to.0.0 < REMOTE {
            return self.push(Due::arrival(at, link, to, id, damaged));
        }
        let RemoteEnd { part, link, to } = self.away[(to.0.0 - REMOTE) as usize];
        let due = Due::arrival(at, link, to, PacketId(0), damaged);
        self.out_at = self.out_at.min(at);
        self.out[part].push(due, self.pool.get_mut(id));
        self.pool.discard(id);
    }

    #[cold]
    fn send_impaired(&mut self, link_id: LinkId, id: PacketId, leaves: Instant) {
        // On one machine rules are applied by a program.
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

/// Shows a packet that is put on a link to its observers.
#[inline]
fn show_sent(log: &mut Log, stamp: Stamp, id: LinkId, link: &mut Link, packet: &Packet) {
    if log.interest.sent || link.watchers.is_some() {
        show_sent_to_some(log, stamp, id, link, packet);
    }
}

#[inline(never)]
fn show_sent_to_some(log: &mut Log, stamp: Stamp, id: LinkId, link: &mut Link, packet: &Packet) {
    if let Some(watchers) = &mut link.watchers {
        watchers.0.iter_mut().for_each(|watcher| watcher.sent(stamp.at, packet));
    }
    if log.interest.sent {
        log.note_sent(stamp, id, packet);
    }
}
