//! A pool of packets in flight, by number.
//!
//! A packet is not moved from hop to hop. Routers that forward it at once edit it in
//! place; only its number goes from one entry of the calendar to the next. Places are reused, the
//! latest first, while they are still in the caches.

use datapath::packet::{Packet, Places};

/// The number of a packet in the pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PacketId(pub(crate) u32);

/// Bits of that number: so many an entry of the calendar has for it.
pub(crate) const NUMBER_BITS: u32 = 25;
/// Up to this size (packets and hosts of a hundred flows) all stays in the caches: prefetching would only cost.
pub(crate) const NEARBY: usize = 16384;
/// A free place is prefetched this many reservations ahead.
const AHEAD: usize = 4;

/// Packets by number.
#[derive(Debug, Default)]
pub(crate) struct Pool {
    places: Places,
    free: Vec<u32>,
}

impl Pool {
    /// A place for a packet that is about to be written there.
    #[inline]
    pub fn reserve(&mut self) -> PacketId {
        if let Some(index) = self.free.pop() {
            if self.len() > 4 * NEARBY
                && let Some(soon) = self.free.len().checked_sub(AHEAD)
            {
                self.get(PacketId(self.free[soon])).prefetch();
            }
            return PacketId(index);
        }
        self.add()
    }

    #[inline(never)]
    fn add(&mut self) -> PacketId {
        let index = self.places.add();
        assert!(index >> NUMBER_BITS == 0, "more than thirty million packets at a time");
        PacketId(index)
    }

    #[inline]
    pub fn insert(&mut self, packet: Packet) -> PacketId {
        let id = self.reserve();
        *self.get_mut(id) = packet;
        id
    }

    #[inline]
    pub fn take(&mut self, id: PacketId) -> Packet {
        self.free.push(id.0);
        self.get_mut(id).take()
    }

    /// The place of a packet that a node has taken is free again.
    #[inline]
    pub fn give_back(&mut self, id: PacketId) {
        self.free.push(id.0);
    }

    /// The place is free again; the old packet may stay until the place is reused, but holds no frame.
    #[inline]
    pub fn discard(&mut self, id: PacketId) {
        release_frame(self.get_mut(id));
        self.give_back(id);
    }

    /// All places are free, as their packets have been moved; the first are taken first.
    pub fn clear(&mut self) {
        self.free.clear();
        self.free.extend((0..self.len() as u32).rev());
    }

    /// The largest number of packets at a time so far.
    #[inline]
    pub fn len(&self) -> usize {
        self.places.len()
    }

    #[inline]
    pub fn get(&self, id: PacketId) -> &Packet {
        self.places.get(id.0)
    }

    #[inline]
    pub fn get_mut(&mut self, id: PacketId) -> &mut Packet {
        self.places.get_mut(id.0)
    }
}

/// Releases the frame of an old packet in a free place.
#[inline]
pub(crate) fn release_frame(place: &mut Packet) {
    if place.body.frame.is_some() {
        place.body.frame = None;
    }
}
