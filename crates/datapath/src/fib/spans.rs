//! The compressed look-up table over an IPv4 trie: two memory accesses an answer, and no branch
//! that depends on what they bring.
//!
//! The first 18 address bits choose a slot, the next 6 one of its 64 networks of 24 bits. A slot
//! stores a value once for each run of equal neighbours: a bitmap says where runs begin, and
//! counting its bits gives the place of the value (the idea of Lulea and Poptrie tables: Degermark
//! et al. 1997, Asai and Ohara 2015). A processor can have many look-ups in the air, because none
//! has to guess. Networks with longer prefixes inside are marked [`DEEP`]: there the trie is asked.
//!
//! The trie stays the authority: after a change it says what each slot below the changed prefix
//! holds.

/// Address bits that choose the slot.
pub const TOP: u8 = 18;
/// Longest prefix that a slot tells apart.
pub const BOTTOM: u8 = 24;
/// Networks in a slot.
pub const NETS: usize = 1 << (BOTTOM - TOP);
/// "Ask the trie"; values are below this.
pub const DEEP: u32 = u32::MAX - 1;

/// What a slot holds while it is gathered: the value of each of its networks.
pub type Nets = [u32; NETS];

/// The table; [`Spans::new`] takes four megabytes.
#[derive(Clone, Debug)]
pub struct Spans {
    slots: Vec<Slot>,
    values: Vec<u32>,
    /// By class, places of 2^class values that are not used any more.
    free: [Vec<u32>; CLASSES],
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    /// A one where a run of equal values begins; the first bit always is one.
    starts: u64,
    /// Where the values of its runs lie.
    place: u32,
}

/// Room is given out in powers of two, from 1 to 64 values.
const CLASSES: usize = 7;

impl Spans {
    /// A table where `value` holds for every address.
    pub fn new(value: u32) -> Self {
        let slots = vec![Slot { starts: 1, place: 0 }; 1 << TOP];
        // All slots begin with one and the same place, which is never given back.
        Self { slots, values: vec![value], free: [const { Vec::new() }; CLASSES] }
    }

    /// Bytes of memory held.
    pub fn memory(&self) -> usize {
        let free: usize = self.free.iter().map(Vec::capacity).sum();
        self.slots.capacity() * size_of::<Slot>()
            + (self.values.capacity() + free) * size_of::<u32>()
    }

    /// The value of the longest prefix around `addr`, or [`DEEP`].
    #[inline]
    pub fn get(&self, addr: u32) -> u32 {
        let slot = &self.slots[(addr >> (32 - TOP)) as usize];
        let net = addr >> (32 - BOTTOM) & (NETS as u32 - 1);
        let run = (slot.starts << (NETS as u32 - 1 - net)).count_ones();
        self.values[(slot.place + run - 1) as usize]
    }

    /// Sets what a slot holds.
    pub fn set(&mut self, slot: usize, nets: &Nets) {
        let mut runs = [0; NETS];
        let (mut starts, mut count) = (0u64, 0);
        for (index, &value) in nets.iter().enumerate() {
            if index == 0 || nets[index - 1] != value {
                starts |= 1 << index;
                runs[count] = value;
                count += 1;
            }
        }
        let old = self.slots[slot];
        let (had, wants) = (class(old.starts.count_ones() as usize), class(count));
        let place = if old.place != 0 && had == wants {
            old.place
        } else {
            if old.place != 0 {
                self.free[had].push(old.place);
            }
            self.take(wants)
        };
        self.values[place as usize..][..count].copy_from_slice(&runs[..count]);
        self.slots[slot] = Slot { starts, place };
    }

    fn take(&mut self, class: usize) -> u32 {
        if let Some(place) = self.free[class].pop() {
            return place;
        }
        let place = self.values.len() as u32;
        self.values.resize(self.values.len() + (1 << class), DEEP);
        place
    }
}

fn class(count: usize) -> usize {
    count.next_power_of_two().ilog2() as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_answers_by_network() {
        let mut table = Spans::new(9);
        let mut nets = [9; NETS];
        nets[3..7].fill(4);
        nets[63] = 5;
        table.set(0x0a00_0000 >> (32 - TOP), &nets);
        for (net, value) in [(0, 9), (2, 9), (3, 4), (6, 4), (7, 9), (62, 9), (63, 5)] {
            for low in [0, 255] {
                assert_eq!(table.get(0x0a00_0000 | net << 8 | low), value, "{net}");
            }
        }
        assert_eq!(table.get(0x0a00_4000), 9, "the next slot");
    }

    #[test]
    fn places_are_used_again() {
        let mut table = Spans::new(0);
        for round in 0..1000 {
            let mut nets = [7; NETS];
            nets[round % NETS] = 8;
            table.set(round % 3, &nets);
            table.set(round % 3, &[7; NETS]);
        }
        assert!(table.values.len() <= 1 + 3 * 4 + 3, "{}", table.values.len());
    }
}
