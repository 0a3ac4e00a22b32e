//! The border of a world with real hosts or devices: packets that arrive by chosen links are handed out
//! instead of being received, and packets come in from outside. A loop that runs the world in real time
//! carries them over real devices.

use crate::link::{LinkId, NodeId};
use crate::partition::Partition;
use crate::pool::PacketId;
use crate::world::World;
use datapath::node::Port;
use datapath::packet::Packet;
use datapath::units::Instant;

pub use crate::state::HandedOut;

impl World {
    /// From now on, arrivals by this link are handed out. Only one thread works on the world then.
    pub fn hand_out(&mut self, link: LinkId) {
        self.set_threads(1);
        let border = self.whole().border.get_or_insert_default();
        let index = link.0 as usize;
        if border.links.len() <= index {
            border.links.resize(index + 1, false);
        }
        border.links[index] = true;
    }

    /// Takes the packets handed out so far, in the order of arrival.
    pub fn take_handed_out(&mut self, packets: &mut Vec<HandedOut>) {
        if let Some(border) = &mut self.shards[0].part.border {
            packets.append(&mut border.out);
        }
    }

    /// Injects a packet at the far end of this link, where it is received now.
    pub fn hand_in(&mut self, link: LinkId, packet: Packet) {
        let (node, port) = self.link(link).to;
        self.begin_outside();
        let part = self.whole();
        let id = part.pool.insert(packet);
        part.receive(node, port, id);
        self.end_outside();
    }

    /// Sends a packet by a node's port that does not come from its sockets.
    pub fn send_by(&mut self, node: NodeId, port: Port, packet: Packet) {
        self.with_host(node, |now, host| host.send_by(now, port, packet));
    }

    /// When the next event may be; `None` if there is none without a packet from outside.
    pub fn next_at(&self) -> Option<Instant> {
        let command = self.due_commands.peek().map(|next| next.0.0);
        let parts = self.shards.iter().map(|shard| &shard.part);
        let ready = parts.clone().filter(|part| !part.pending.is_empty());
        let scheduled = parts.flat_map(|part| part.calendar.iter().map(|due| due.at));
        scheduled.chain(ready.map(|part| part.pending_at)).chain(command).min()
    }
}

impl Partition {
    /// Hands out an arrival by this link if that is wanted; true if so.
    #[inline]
    pub fn is_handed_out(&mut self, link: LinkId, id: PacketId) -> bool {
        let Some(border) = &mut self.border else { return false };
        if !border.links.get(link.0 as usize).is_some_and(|out| *out) {
            return false;
        }
        let packet = self.pool.take(id);
        border.out.push(HandedOut { at: self.now, link, packet });
        true
    }
}
