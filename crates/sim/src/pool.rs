//! Packets on their way: in one place, by number.
//!
//! A packet on a link does not move in memory. Routers that pass it straight on edit it where it
//! lies; only numbers go through the queues of links. Places are used again, the latest first,
//! while they are still in the cache.

use datapath::packet::Packet;

/// The number of a packet in the pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PacketId(u32);

/// Packets by number.
#[derive(Debug, Default)]
pub(crate) struct Pool {
    slots: Vec<Option<Packet>>,
    free: Vec<u32>,
}

impl Pool {
    #[inline]
    pub fn insert(&mut self, packet: Packet) -> PacketId {
        if let Some(index) = self.free.pop() {
            self.slots[index as usize] = Some(packet);
            return PacketId(index);
        }
        self.slots.push(Some(packet));
        PacketId(self.slots.len() as u32 - 1)
    }

    #[inline]
    pub fn take(&mut self, id: PacketId) -> Packet {
        self.free.push(id.0);
        self.slots[id.0 as usize].take().expect("a packet is taken once")
    }

    #[inline]
    pub fn get(&self, id: PacketId) -> &Packet {
        self.slots[id.0 as usize].as_ref().expect("a packet that is still there")
    }

    #[inline]
    pub fn get_mut(&mut self, id: PacketId) -> &mut Packet {
        self.slots[id.0 as usize].as_mut().expect("a packet that is still there")
    }
}
