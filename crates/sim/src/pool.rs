//! Packets on their way: in one place, by number.
//!
//! A packet on a link does not move in memory. Routers that pass it straight on edit it where it
//! lies; only its number goes from one entry of the calendar to the next. Places are used again, the
//! latest first, while they are still in the caches. Queues, of which there are many with a few packets each, keep
//! theirs in [`Places`](datapath::packet::Places), which grow one by one at first; here every place is found alike.

use crate::due::NUMBER_BITS;
use crate::prefetch::NEARBY;
use datapath::packet::Packet;

/// The number of a packet in the pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PacketId(pub(crate) u32);

/// So many places beforehand the caches are asked for a free one.
const AHEAD: usize = 4;

/// So many numbers belong to a block of places, so that finding one is a shift and a mask.
const NUMBERS: usize = 1024;
/// So many places come at a time, and never move. With the search for a multiple of 64 bytes they just fit in 192 KiB.
const BLOCK: usize = NUMBERS - 1;

/// Packets by number.
#[derive(Debug, Default)]
pub(crate) struct Pool {
    blocks: Vec<Box<[Packet; BLOCK]>>,
    /// How many places there are.
    len: usize,
    free: Vec<u32>,
}

impl Pool {
    /// A place for a packet that is about to be written there.
    #[inline]
    pub fn reserve(&mut self) -> PacketId {
        if let Some(index) = self.free.pop() {
            if self.len > 4 * NEARBY
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
        let index = self.len / BLOCK * NUMBERS + self.len % BLOCK;
        assert!(index >> NUMBER_BITS == 0, "more than thirty million packets at a time");
        if self.len.is_multiple_of(BLOCK) {
            let block: Box<[Packet]> = (0..BLOCK).map(|_| Packet::default()).collect();
            self.blocks.push(block.try_into().expect("that many"));
        }
        self.len += 1;
        PacketId(index as u32)
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

    /// The place is free again; what lay there may stay until somebody needs it, but holds no frame.
    #[inline]
    pub fn discard(&mut self, id: PacketId) {
        release_frame(self.get_mut(id));
        self.give_back(id);
    }

    /// How many packets there have been at a time.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    #[inline]
    pub fn get(&self, id: PacketId) -> &Packet {
        &self.blocks[id.0 as usize / NUMBERS][id.0 as usize % NUMBERS]
    }

    #[inline]
    pub fn get_mut(&mut self, id: PacketId) -> &mut Packet {
        &mut self.blocks[id.0 as usize / NUMBERS][id.0 as usize % NUMBERS]
    }
}

/// The frame of what lies in a place that is of no use any more is held no longer.
#[inline]
pub(crate) fn release_frame(place: &mut Packet) {
    if place.body.frame.is_some() {
        place.body.frame = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stay_with_their_packets_over_many_blocks() {
        let mut pool = Pool::default();
        let ids: Vec<PacketId> = (0..3 * NUMBERS).map(|_| pool.reserve()).collect();
        assert_eq!(pool.len(), ids.len());
        (0..).zip(&ids).for_each(|(len, id)| pool.get_mut(*id).meta.len = len);
        assert!((0..).zip(&ids).all(|(len, id)| pool.get(*id).meta.len == len));
    }

    #[test]
    fn a_block_fits_in_whole_steps_of_an_allocator() {
        let with_alignment = BLOCK * size_of::<Packet>() + align_of::<Packet>() - 1;
        assert_eq!(with_alignment.next_multiple_of(1 << 14), 192 << 10);
    }
}
