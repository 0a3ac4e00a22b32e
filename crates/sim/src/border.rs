//! The border of a world some of whose nodes are elsewhere: what arrives by chosen links is handed out in
//! place of being received, and packets come in from outside. A loop that turns a world by the clock
//! carries them over real devices meanwhile.

use crate::link::{LinkId, NodeId};
use crate::partition::Partition;
use crate::pool::PacketId;
use crate::world::World;
use datapath::node::Port;
use datapath::packet::Packet;
use datapath::units::Instant;

/// A packet that has arrived at the far end of a link, which is elsewhere.
#[derive(Clone, Debug)]
pub struct HandedOut {
    /// When.
    pub at: Instant,
    /// By which link.
    pub link: LinkId,
    /// What.
    pub packet: Packet,
}

/// What a partition knows of its border.
#[derive(Default)]
pub(crate) struct Border {
    /// By link: what arrives by it is handed out.
    links: Vec<bool>,
    out: Vec<HandedOut>,
}

impl World {
    /// From now on, what arrives by this link is handed out. The world is turned by one thread then.
    pub fn hand_out(&mut self, link: LinkId) {
        self.set_threads(1);
        let border = self.whole().border.get_or_insert_default();
        let index = link.0 as usize;
        if border.links.len() <= index {
            border.links.resize(index + 1, false);
        }
        border.links[index] = true;
    }

    /// Takes what has been handed out so far, in the order of arrival.
    pub fn take_handed_out(&mut self, packets: &mut Vec<HandedOut>) {
        if let Some(border) = &mut self.shares[0].part.border {
            packets.append(&mut border.out);
        }
    }

    /// A packet has come to the far end of this link, by whatever way. It is received there now.
    pub fn hand_in(&mut self, link: LinkId, packet: Packet) {
        let (node, port) = self.link(link).to;
        self.begin_outside();
        self.whole().receive_from_outside(node, port, packet);
        self.end_outside();
    }

    /// A packet is sent by a node's port that something else than its sockets has made.
    pub fn send_by(&mut self, node: NodeId, port: Port, packet: Packet) {
        self.with_host(node, |now, host| host.send_by(now, port, packet));
    }

    /// When something may happen next; `None` if nothing ever will without a packet from outside.
    pub fn next_at(&self) -> Option<Instant> {
        let command = self.due_commands.peek().map(|next| next.0.0);
        let parts = self.shares.iter().filter_map(|share| share.part.next_at());
        parts.chain(command).min()
    }
}

impl Partition {
    /// Whether what arrives by this link is handed out; if so, it has been.
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

    fn receive_from_outside(&mut self, node: NodeId, port: Port, packet: Packet) {
        let id = self.pool.insert(packet);
        self.receive(node, port, id);
    }

    fn next_at(&self) -> Option<Instant> {
        let pending = (!self.pending.is_empty()).then_some(self.pending_at);
        let live = self.calendar.iter().map(|due| due.at);
        live.chain(pending).min()
    }
}
