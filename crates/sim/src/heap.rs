//! The event queue: a 4-ary heap of 16-byte entries.
//!
//! # The order of equals
//!
//! Events are totally ordered by (time, kind, index), so that what happens never depends on the
//! history of the heap. At one instant the kinds follow each other as [`Kind`] lists them: first
//! links go up or down, then transmissions end (room before new work), then packets arrive, then
//! nodes wake for their timers (an ACK that arrives at the very moment of a timeout wins), then
//! applications start, stop, wake and hear of what became ready. Within a kind the lower index comes first: links, nodes and
//! applications are numbered in the order in which they were made. Packets on one link that
//! arrive at the same instant keep the order in which they were sent.

use datapath::units::Instant;

/// What an event is about, in the order of equals.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(crate) enum Kind {
    /// A command of the experiment: a link goes up or down.
    Command,
    /// A link has finished serialising a packet.
    Sent,
    /// A packet reaches the far end of a link.
    Arrival,
    /// A node asked to be polled.
    Wake,
    /// An application starts.
    Start,
    /// An application stops.
    Stop,
    /// An application asked to be called.
    Timer,
    /// Applications of a slow machine hear what became ready.
    Late,
}

const KINDS: [Kind; 8] = [
    Kind::Command,
    Kind::Sent,
    Kind::Arrival,
    Kind::Wake,
    Kind::Start,
    Kind::Stop,
    Kind::Timer,
    Kind::Late,
];

/// A moment, a kind and an index in one number that sorts as the documentation says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Entry(u128);

impl Entry {
    #[inline]
    pub fn new(at: Instant, kind: Kind, index: u32) -> Self {
        Self(u128::from(at.as_nanos()) << 64 | u128::from(kind as u8) << 32 | u128::from(index))
    }

    #[inline]
    pub fn at(self) -> Instant {
        Instant::from_nanos((self.0 >> 64) as u64)
    }

    #[inline]
    pub fn kind(self) -> Kind {
        KINDS[(self.0 >> 32) as usize & 7]
    }

    #[inline]
    pub fn index(self) -> u32 {
        self.0 as u32
    }
}

/// A minimum heap with four children to a node: fewer levels, and the children of a node lie in
/// one cache line.
#[derive(Debug, Default)]
pub(crate) struct Heap {
    entries: Vec<Entry>,
    /// The first entry has been taken out and nothing is in its place yet.
    vacant: bool,
}

impl Heap {
    /// The first entry.
    #[inline]
    pub fn peek(&mut self) -> Option<Entry> {
        if self.vacant {
            self.fill();
        }
        self.entries.first().copied()
    }

    #[inline]
    pub fn push(&mut self, entry: Entry) {
        if self.vacant {
            self.vacant = false;
            return self.sift_down(entry);
        }
        self.entries.push(entry);
        self.sift_up(self.entries.len() - 1, entry);
    }

    /// Takes the first entry out. Its place stays vacant until the next call: most events make
    /// another one, and that goes there.
    #[inline]
    pub fn pop(&mut self) {
        assert!(!self.vacant && !self.entries.is_empty(), "only what was peeked is popped");
        self.vacant = true;
    }

    /// The least of the last, incomplete family of children.
    fn least_of(&self, first: usize, len: usize) -> (usize, Entry) {
        let family = (first..len).map(|place| (place, self.entries[place]));
        family.min_by_key(|&(_, entry)| entry).expect("a family has a first child")
    }

    fn fill(&mut self) {
        self.vacant = false;
        let last = self.entries.pop().expect("a vacant place is there");
        if !self.entries.is_empty() {
            self.sift_down(last);
        }
    }

    /// Puts `entry` where the first one was: cheaper than `pop` and `push`.
    #[inline]
    pub fn replace_first(&mut self, entry: Entry) {
        self.sift_down(entry);
    }

    #[inline]
    fn sift_up(&mut self, mut place: usize, entry: Entry) {
        while place > 0 {
            let parent = (place - 1) / 4;
            if self.entries[parent] <= entry {
                break;
            }
            self.entries[place] = self.entries[parent];
            place = parent;
        }
        self.entries[place] = entry;
    }

    #[inline]
    fn sift_down(&mut self, entry: Entry) {
        let len = self.entries.len();
        let mut place = 0;
        loop {
            let first = 4 * place + 1;
            if first >= len {
                break;
            }
            let (least, value) = match self.entries[first..].first_chunk::<4>() {
                Some(&[a, b, c, d]) => {
                    let (one, left) = if b < a { (first + 1, b) } else { (first, a) };
                    let (two, right) = if d < c { (first + 3, d) } else { (first + 2, c) };
                    if right < left { (two, right) } else { (one, left) }
                }
                None => self.least_of(first, len),
            };
            if entry <= value {
                break;
            }
            self.entries[place] = value;
            place = least;
        }
        self.entries[place] = entry;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    #[test]
    fn an_entry_keeps_its_parts_and_sorts_by_them() {
        let at = Instant::from_nanos(u64::MAX - 1);
        let entry = Entry::new(at, Kind::Timer, u32::MAX);
        assert_eq!((entry.at(), entry.kind(), entry.index()), (at, Kind::Timer, u32::MAX));
        let earlier = Instant::from_nanos(5);
        assert!(Entry::new(earlier, Kind::Timer, 9) < entry);
        assert!(Entry::new(at, Kind::Sent, u32::MAX) < Entry::new(at, Kind::Arrival, 0));
        assert!(Entry::new(at, Kind::Wake, 3) < Entry::new(at, Kind::Wake, 4));
        assert_eq!(size_of::<Entry>(), 16);
    }

    proptest! {
        /// Against a sorted multiset.
        #[test]
        fn it_is_a_priority_queue(steps in prop::collection::vec((0u8..4, 0u64..50, 0u32..4), 1..400)) {
            let mut heap = Heap::default();
            let mut oracle: BTreeMap<Entry, u32> = BTreeMap::new();
            for (step, at, index) in steps {
                let entry = Entry::new(Instant::from_nanos(at), Kind::Sent, index);
                let takes = step < 2 && !oracle.is_empty();
                if takes {
                    let first = *oracle.keys().next().expect("it is not empty");
                    prop_assert_eq!(heap.peek(), Some(first));
                    let count = oracle.get_mut(&first).expect("it is there");
                    *count -= 1;
                    if *count == 0 {
                        oracle.remove(&first);
                    }
                }
                match step {
                    0 if takes => heap.pop(),
                    1 if takes => heap.replace_first(entry),
                    _ => heap.push(entry),
                }
                if step != 0 || !takes {
                    *oracle.entry(entry).or_default() += 1;
                }
            }
            let mut left = Vec::new();
            while let Some(first) = heap.peek() {
                left.push(first);
                heap.pop();
            }
            let expected: Vec<Entry> =
                oracle.into_iter().flat_map(|(entry, count)| vec![entry; count as usize]).collect();
            prop_assert_eq!(left, expected);
        }
    }
}
