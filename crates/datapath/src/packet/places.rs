//! Places for packets, by number, in one piece of memory.
//!
//! Packets are looked at several times a hop, so finding one must cost a multiplication and no more. A vector that
//! doubles would do, but it copies all it holds, and for that time both copies take memory; of a long queue or
//! of all that is on its way that would be the peak. So what has become large asks for many times as
//! much: operating systems give memory when it is first written to, and what is not used costs nothing.

use super::Packet;

/// So many places are few: they grow by a part of them.
const FEW: usize = 4096;
/// Few places grow by this part of them: before the wire of a host there are one or two packets, or
/// as many as a first window has, and there may be many hosts.
const STEP: usize = 4;
/// Where there are more, room for so many times as many is asked for.
const FACTOR: usize = 16;

/// Places for packets, numbered from 0; there are never fewer than there were.
#[derive(Clone, Debug, Default)]
pub struct Places {
    packets: Vec<Packet>,
}

impl Places {
    /// How many there are.
    #[inline]
    pub fn len(&self) -> usize {
        self.packets.len()
    }

    /// True if there is none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    /// One more place.
    ///
    /// # Panics
    /// There are as many as numbers.
    pub fn add(&mut self) -> u32 {
        if self.packets.len() == self.packets.capacity() {
            self.grow();
        }
        self.packets.push(Packet::default());
        u32::try_from(self.packets.len() - 1).expect("no more packets than numbers")
    }

    fn grow(&mut self) {
        let places = self.packets.len();
        if places < FEW {
            self.packets.reserve_exact((places / STEP).clamp(1, FEW - places));
        } else if self.packets.try_reserve_exact((FACTOR - 1) * places).is_err() {
            // Some systems promise no more than they have.
            self.packets.reserve(1);
        }
    }

    /// What lies in a place.
    ///
    /// # Panics
    /// There is no such place.
    #[inline]
    pub fn get(&self, number: u32) -> &Packet {
        &self.packets[number as usize]
    }

    /// What lies in a place, to be changed.
    ///
    /// # Panics
    /// There is no such place.
    #[inline]
    pub fn get_mut(&mut self, number: u32) -> &mut Packet {
        &mut self.packets[number as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_stay_in_their_places_while_there_come_to_be_many() {
        let mut places = Places::default();
        assert!(places.is_empty());
        let many = (FEW * FACTOR + 5) as u32;
        for number in 0..many {
            assert_eq!(places.add(), number);
            places.get_mut(number).meta.len = number;
        }
        assert_eq!(places.len(), many as usize);
        assert!((0..many).all(|number| places.get(number).meta.len == number));
    }

    #[test]
    fn few_places_take_little_more_than_they_need_and_many_are_seldom_copied() {
        let mut places = Places::default();
        let mut copies = 0;
        for count in 1..=FEW * FACTOR {
            let before = places.packets.capacity();
            places.add();
            let room = places.packets.capacity();
            assert!(count > FEW || room <= count + count / STEP + 1, "{room} for {count}");
            copies += usize::from(count > FEW && room != before);
        }
        assert_eq!(copies, 1);
    }
}
