//! Places for packets, by number, in memory that never moves once it is large.
//!
//! A vector that doubles copies all it holds, and for that time both copies take memory; of a long queue
//! or of all that is on its way that would be the peak. So the first places grow as in a vector, for most
//! queues are short and little is on its way in most worlds, and further ones come a block at a time.

use super::Packet;

/// So many places grow as in a vector.
const FIRST: usize = 4096;
/// So many numbers belong to a block, so that finding a place is a shift and a mask.
const NUMBERS: usize = 16_384;
/// Places in a block: what with the search for a multiple of 64 bytes just fits in 3 MiB, of which only those
/// used so far take memory. An allocator may round what is larger up by half a megabyte. In smaller blocks, what
/// allocators need for themselves counts.
const BLOCK: usize = NUMBERS - 1;
/// The first places grow by this part of them: before the wire of a host there are one or two packets, or
/// as many as a first window has, and there may be many hosts.
const STEP: usize = 4;

/// Places for packets, numbered from 0, in large numbers with gaps; there are never fewer than there were.
#[derive(Clone, Debug, Default)]
pub struct Places {
    first: Vec<Packet>,
    further: Vec<Vec<Packet>>,
}

impl Places {
    /// How many there are.
    #[inline]
    pub fn len(&self) -> usize {
        match self.further.last() {
            None => self.first.len(),
            Some(last) => FIRST + (self.further.len() - 1) * BLOCK + last.len(),
        }
    }

    /// True if there is none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.first.is_empty()
    }

    /// One more place.
    ///
    /// # Panics
    /// There are as many as numbers.
    pub fn add(&mut self) -> u32 {
        self.block_with_room().push(Packet::default());
        let number = match self.further.last() {
            None => self.first.len() - 1,
            Some(last) => FIRST + (self.further.len() - 1) * NUMBERS + last.len() - 1,
        };
        u32::try_from(number).expect("no more packets than numbers")
    }

    fn block_with_room(&mut self) -> &mut Vec<Packet> {
        let places = self.first.len();
        if places < FIRST && places == self.first.capacity() {
            self.first.reserve_exact((places / STEP).clamp(1, FIRST - places));
        }
        if places < FIRST {
            return &mut self.first;
        }
        if self.further.last().is_none_or(|last| last.len() == BLOCK) {
            self.further.push(Vec::with_capacity(BLOCK));
        }
        self.further.last_mut().expect("one with room")
    }

    /// What lies in a place.
    ///
    /// # Panics
    /// There is no such place.
    #[inline]
    pub fn get(&self, number: u32) -> &Packet {
        let index = number as usize;
        if index < self.first.len() {
            return &self.first[index];
        }
        let index = index - FIRST;
        &self.further[index / NUMBERS][index % NUMBERS]
    }

    /// What lies in a place, to be changed.
    ///
    /// # Panics
    /// There is no such place.
    #[inline]
    pub fn get_mut(&mut self, number: u32) -> &mut Packet {
        let index = number as usize;
        if index < self.first.len() {
            return &mut self.first[index];
        }
        let index = index - FIRST;
        &mut self.further[index / NUMBERS][index % NUMBERS]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stay_with_their_packets_over_many_blocks() {
        let mut places = Places::default();
        assert!(places.is_empty());
        let mut numbers = Vec::new();
        for count in 1..=FIRST + 3 * BLOCK + 5 {
            let number = places.add();
            assert_eq!(places.len(), count);
            places.get_mut(number).meta.len = number;
            numbers.push(number);
        }
        assert!(numbers.is_sorted_by(|before, after| before < after));
        assert!(numbers.iter().all(|&number| places.get(number).meta.len == number));
    }

    #[test]
    fn a_block_fits_in_whole_steps_of_an_allocator() {
        let with_alignment = BLOCK * size_of::<Packet>() + align_of::<Packet>() - 1;
        assert_eq!(with_alignment.next_multiple_of(1 << 18), 3 << 20);
    }
}
