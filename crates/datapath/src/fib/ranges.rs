//! The compressed look-up table over an IPv4 trie: two memory accesses an answer.
//!
//! The first 18 address bits choose a slot. A slot holds either the one value of all its addresses
//! or a short sorted list of ranges of the remaining 14 bits, found by binary search (DXR: Zec,
//! Rizzo, Mikuc, "DXR: towards a billion routing lookups per second in software", 2012). A cell is
//! a start (14 bits) and a value (18 bits) in one word, so that the ranges of a slot lie in one or
//! two cache lines. The trie stays the authority: after a change it says what each slot below the
//! changed prefix holds.

/// Address bits that choose the slot.
pub const TOP: u8 = 18;
/// Address bits within a slot.
const REST: u32 = 32 - TOP as u32;
/// Values are below this; it stands for "no prefix".
pub const NO_VALUE: u32 = (1 << 18) - 1;

const VALUE_BITS: u32 = 18;
const LAST_START: u32 = (1 << REST) - 1;
/// A slot's upper bits: 0 for a value, else the list holds 2^class cells.
const CLASS_SHIFT: u32 = 28;
const PLACE: u32 = (1 << CLASS_SHIFT) - 1;
/// Lists begin at multiples of this many cells.
const UNIT: usize = 2;

/// The table; empty until [`Ranges::build`].
#[derive(Clone, Debug, Default)]
pub struct Ranges {
    slots: Vec<u32>,
    cells: Vec<u32>,
    /// By class, places of lists that are not used any more.
    free: Vec<Vec<u32>>,
}

/// One slot's ranges while they are gathered: from each start on, up to the next one, a value.
#[derive(Clone, Debug, Default)]
pub struct Gather {
    cells: Vec<u32>,
}

impl Gather {
    /// Forgets everything.
    pub fn clear(&mut self) {
        self.cells.clear();
    }

    /// From `start` on (the address's last 14 bits) the value is this. Starts ascend; of two equal
    /// ones the later counts.
    pub fn from(&mut self, start: u32, value: u32) {
        while self.cells.last().is_some_and(|last| last >> VALUE_BITS >= start) {
            self.cells.pop();
        }
        if self.cells.last().is_none_or(|last| last & NO_VALUE != value) {
            self.cells.push(start << VALUE_BITS | value);
        }
    }
}

impl Ranges {
    /// Makes the table, all slots without a value.
    pub fn build(&mut self) {
        self.slots = vec![NO_VALUE; 1 << TOP];
    }

    /// Bytes of memory held.
    pub fn memory(&self) -> usize {
        let free: usize = self.free.iter().map(Vec::capacity).sum();
        (self.slots.capacity() + self.cells.capacity() + free) * size_of::<u32>()
    }

    /// The value of the longest prefix around `addr`, or [`NO_VALUE`].
    #[inline]
    pub fn get(&self, addr: u32) -> u32 {
        let slot = self.slots[(addr >> REST) as usize];
        let class = slot >> CLASS_SHIFT;
        if class == 0 {
            return slot;
        }
        let at = (slot & PLACE) as usize * UNIT;
        let cells = &self.cells[at..at + (1 << class)];
        let probe = addr << VALUE_BITS | NO_VALUE;
        let after = cells.partition_point(|&cell| cell <= probe);
        cells[after.saturating_sub(1)] & NO_VALUE
    }

    /// Sets what a slot holds.
    pub fn set(&mut self, slot: usize, gathered: &Gather) {
        let cells = &gathered.cells[..];
        assert!(cells.first().is_some_and(|first| first >> VALUE_BITS == 0), "a slot has a start");
        let old = self.slots[slot];
        let class = if cells.len() == 1 { 0 } else { cells.len().next_power_of_two().ilog2() };
        if old >> CLASS_SHIFT != class && old >> CLASS_SHIFT != 0 {
            self.give_back(old >> CLASS_SHIFT, old & PLACE);
        }
        if class == 0 {
            self.slots[slot] = cells[0] & NO_VALUE;
            return;
        }
        let place = if old >> CLASS_SHIFT == class { old & PLACE } else { self.take(class) };
        let at = place as usize * UNIT;
        let room = &mut self.cells[at..at + (1 << class)];
        let (used, rest) = room.split_at_mut(cells.len());
        used.copy_from_slice(cells);
        // What is left repeats the last range's value from the last start on.
        rest.fill(LAST_START << VALUE_BITS | cells[cells.len() - 1] & NO_VALUE);
        self.slots[slot] = class << CLASS_SHIFT | place;
    }

    fn give_back(&mut self, class: u32, place: u32) {
        let class = class as usize;
        if self.free.len() <= class {
            self.free.resize(class + 1, Vec::new());
        }
        self.free[class].push(place);
    }

    fn take(&mut self, class: u32) -> u32 {
        if let Some(place) = self.free.get_mut(class as usize).and_then(Vec::pop) {
            return place;
        }
        let place = self.cells.len() / UNIT;
        assert!(place <= PLACE as usize, "2^29 cells hold the ranges of every IPv4 address");
        self.cells.resize(self.cells.len() + (1 << class), 0);
        place as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gathered(ranges: &[(u32, u32)]) -> Gather {
        let mut gather = Gather::default();
        for &(start, value) in ranges {
            gather.from(start, value);
        }
        gather
    }

    #[test]
    fn a_slot_answers_by_range() {
        let mut table = Ranges::default();
        table.build();
        let slot = 0x0a00_0000 >> REST;
        table.set(slot as usize, &gathered(&[(0, 7), (256, 8), (512, 7), (LAST_START, 9)]));
        for (low, value) in [(0, 7), (255, 7), (256, 8), (511, 8), (512, 7), (LAST_START, 9)] {
            assert_eq!(table.get(0x0a00_0000 | low), value, "{low}");
        }
        assert_eq!(table.get(0x0a00_0000 - 1), NO_VALUE);
        assert_eq!(table.get(0x0a00_4000), NO_VALUE);
    }

    #[test]
    fn the_last_address_has_the_last_value_whatever_fills_the_list_up() {
        let mut table = Ranges::default();
        table.build();
        table.set(0, &gathered(&[(0, 1), (5, 2), (9, 3)]));
        assert_eq!([4, 8, 9, LAST_START].map(|low| table.get(low)), [1, 2, 3, 3]);
    }

    #[test]
    fn places_are_used_again() {
        let mut table = Ranges::default();
        table.build();
        let (small, large) = (gathered(&[(0, 1), (5, 2)]), gathered(&[(0, 1), (5, 2), (9, 3)]));
        for _ in 0..100 {
            table.set(0, &small);
            table.set(0, &large);
            table.set(0, &gathered(&[(0, 4)]));
        }
        assert!(table.cells.len() <= 6, "{}", table.cells.len());
        assert_eq!(table.get(77), 4);
    }

    #[test]
    fn equal_starts_and_equal_neighbours_are_one_range() {
        let gather = gathered(&[(0, 1), (0, 2), (8, 2), (16, 3), (16, 2)]);
        assert_eq!(gather.cells, [2]);
    }
}
