//! Everything that is to happen, by the epoch in which it does.
//!
//! Epochs are equally long. The next 64 have a list each; behind these, a list holds what lies in 64
//! of them, then in 64 times 64, and so on, as in the kernel's timer wheel. An entry goes to the end of
//! its list, whatever the order in which entries come. When time enters what a list covers, it is
//! spread over the lists below it. So what is far ahead costs a few moves and no comparison, however
//! much there is of it, and what happens at one time keeps the order in which it came. An epoch's
//! entries are sorted when its turn comes.

use crate::due::{Due, Entry};
use crate::link::LinkId;
use crate::pool::PacketId;
use datapath::units::{Duration, Instant};

/// Epochs of equal length, and what is due in each.
#[derive(Debug)]
pub(crate) struct Calendar {
    /// Length of an epoch, ns.
    width: u64,
    /// The 64 bits after the point of one through that length: a multiplication costs less than a
    /// division.
    per_width: u64,
    /// Number of the epoch that is next; those before it are empty.
    next: u64,
    /// Lists of the epochs whose numbers differ from the next one's in the last six bits only.
    near: Level<Entry>,
    /// Of those whose numbers differ in the last twelve bits, and so on.
    far: Vec<Level<Due>>,
    /// What lies behind all these.
    beyond: Vec<Due>,
}

/// 64 lists, and room of lists that were emptied: few lists are in use at a time.
#[derive(Debug)]
struct Level<T> {
    lists: Vec<Vec<T>>,
    /// Which lists hold something.
    filled: u64,
    spare: Vec<Vec<T>>,
}

/// New lists have room for this many entries.
const ROOM: usize = 256;
/// So many lists there are from the beginning: far levels come into use late.
const FIRST_LISTS: usize = 2;
/// So many bits of an epoch's number choose a list.
const BITS: u32 = 6;
/// So many levels there are behind the nearest.
const FAR_LEVELS: usize = 5;

impl<T> Level<T> {
    fn new() -> Self {
        let mut spare = Vec::with_capacity(1 + (1 << BITS));
        spare.extend((0..FIRST_LISTS).map(|_| Vec::with_capacity(ROOM)));
        Self { lists: (0..1 << BITS).map(|_| Vec::new()).collect(), filled: 0, spare }
    }

    #[inline]
    fn push(&mut self, place: usize, item: T) {
        let list = &mut self.lists[place];
        if list.capacity() == 0 {
            *list = self.spare.pop().unwrap_or_else(|| Vec::with_capacity(ROOM));
        }
        list.push(item);
        self.filled |= 1 << place;
    }

    /// The first list from `place` on that holds something.
    #[inline]
    fn first_from(&self, place: usize) -> Option<usize> {
        let filled = self.filled >> place << place;
        (filled != 0).then(|| filled.trailing_zeros() as usize)
    }

    fn note_emptied(&mut self) {
        for (place, list) in self.lists.iter().enumerate() {
            if list.is_empty() {
                self.filled &= !(1 << place);
            }
        }
    }
}

/// Which list of a level an epoch belongs to.
#[inline]
fn place_at(level: usize, number: u64) -> usize {
    (number >> (BITS * level as u32)) as usize & ((1 << BITS) - 1)
}

impl Calendar {
    /// An empty calendar with epochs of `width` ns, of which the one at `now` is next.
    pub fn new(width: u64, now: Instant) -> Self {
        let mut calendar = Self {
            width,
            per_width: u64::MAX / width,
            next: 0,
            near: Level::new(),
            far: (0..FAR_LEVELS).map(|_| Level::new()).collect(),
            beyond: Vec::new(),
        };
        calendar.next = calendar.number(now);
        calendar
    }

    /// The number of the epoch that a time belongs to.
    #[inline]
    pub fn number(&self, at: Instant) -> u64 {
        self.place(at).0
    }

    /// The number of the epoch that a time belongs to, and how far it is from its beginning, in ns.
    #[inline]
    fn place(&self, at: Instant) -> (u64, u64) {
        let at_ns = at.as_nanos();
        // One too small at times.
        let mut number = ((u128::from(at_ns) * u128::from(self.per_width)) >> 64) as u64;
        let mut after_ns = at_ns - number * self.width;
        while after_ns >= self.width {
            number += 1;
            after_ns -= self.width;
        }
        (number, after_ns)
    }

    /// When the epoch of this number begins.
    #[inline]
    pub fn begin(&self, number: u64) -> Instant {
        Instant::from_nanos(number.saturating_mul(self.width))
    }

    /// Something is due, in the next epoch or later.
    #[inline]
    pub fn push(&mut self, due: Due) {
        let (number, after_ns) = self.place(due.at);
        debug_assert!(number >= self.next, "the epoch is over");
        if (number ^ self.next) >> BITS == 0 {
            self.near.push(place_at(0, number), due.entry(after_ns));
        } else {
            self.push_far(number, due);
        }
    }

    #[inline(never)]
    fn push_far(&mut self, number: u64, due: Due) {
        let level = (number ^ self.next).ilog2() / BITS;
        match self.far.get_mut(level as usize - 1) {
            Some(far) => far.push(place_at(level as usize, number), due),
            None => self.beyond.push(due),
        }
    }

    /// The number of the first epoch in which something may be due; `None` if nothing is.
    pub fn first(&self) -> Option<u64> {
        let near = self.near.first_from(place_at(0, self.next));
        if let Some(place) = near {
            return Some(self.next >> BITS << BITS | place as u64);
        }
        for (level, far) in (1..).zip(&self.far) {
            let below = BITS * level as u32;
            if let Some(place) = far.first_from(place_at(level, self.next)) {
                return Some((self.next >> below >> BITS << BITS | place as u64) << below);
            }
        }
        let below = BITS * (1 + FAR_LEVELS as u32);
        (!self.beyond.is_empty()).then(|| ((self.next >> below) + 1) << below)
    }

    /// Moves what is due before `end` in epoch `number` to `out`, in no particular order but that of
    /// equals. Epochs before that one are over; what is due later in it waits for another call.
    pub fn take(&mut self, number: u64, end: Instant, out: &mut Vec<Entry>) {
        self.advance(number);
        let begin = self.begin(number);
        let place = place_at(0, number);
        let list = &mut self.near.lists[place];
        if list.is_empty() {
            return;
        }
        if end >= begin + Duration::from_nanos(self.width) {
            debug_assert!(out.is_empty(), "it is replaced");
            self.near.spare.push(core::mem::replace(out, core::mem::take(list)));
        } else {
            let before = (end - begin).as_nanos();
            out.extend(list.extract_if(.., |entry| u64::from(entry.after_ns()) < before));
        }
        if self.near.lists[place].is_empty() {
            self.near.filled &= !(1 << place);
        }
    }

    /// Epoch `number` is next: what lay in a list with it is spread.
    #[inline]
    fn advance(&mut self, number: u64) {
        let changed = number ^ self.next;
        self.next = number;
        if changed >> BITS != 0 {
            self.spread(number, changed.ilog2() / BITS);
        }
    }

    /// Spreads the list of `level` that `number` belongs to. Those below it are empty: they were for
    /// epochs that are over.
    #[inline(never)]
    fn spread(&mut self, number: u64, level: u32) {
        let Some(far) = self.far.get_mut(level as usize - 1) else {
            for due in core::mem::take(&mut self.beyond) {
                self.push(due);
            }
            return;
        };
        let place = place_at(level as usize, number);
        let mut list = core::mem::take(&mut far.lists[place]);
        far.filled &= !(1 << place);
        for due in list.drain(..) {
            self.push(due);
        }
        self.far[level as usize - 1].spare.push(list);
    }

    /// Takes out whatever arrives on `link`, in the order of arrival.
    pub fn sever(&mut self, link: LinkId) -> Vec<PacketId> {
        let mut severed: Vec<Due> = Vec::new();
        let mine = |due: &Due| due.link_of_arrival() == Some(link);
        let base = self.next >> BITS << BITS;
        for (number, list) in (base..).zip(&mut self.near.lists) {
            let begin = Instant::from_nanos(number * self.width);
            let own = list.extract_if(.., |entry| mine(&entry.due(begin)));
            severed.extend(own.map(|entry| entry.due(begin)));
        }
        self.near.note_emptied();
        for far in &mut self.far {
            for list in &mut far.lists {
                severed.extend(list.extract_if(.., |due| mine(due)));
            }
            far.note_emptied();
        }
        severed.extend(self.beyond.extract_if(.., |due| mine(due)));
        severed.sort_by_key(|due| due.at);
        severed.into_iter().map(|due| due.packet()).collect()
    }

    /// How many packets are on the way on `link`.
    pub fn count(&self, link: LinkId) -> usize {
        self.iter().filter(|due| due.link_of_arrival() == Some(link)).count()
    }

    /// Everything, that of one time in the order in which it came.
    pub fn iter(&self) -> impl Iterator<Item = Due> {
        let base = self.next >> BITS << BITS;
        let near = (base..).zip(&self.near.lists).flat_map(|(number, list)| {
            let begin = self.begin(number);
            list.iter().map(move |entry| entry.due(begin))
        });
        let far = self.far.iter().flat_map(|far| far.lists.iter().flatten());
        near.chain(far.copied()).chain(self.beyond.iter().copied())
    }

    /// The same entries with epochs of another width, of which the one at `now` is next.
    pub fn with_width(&self, width: u64, now: Instant) -> Self {
        let mut other = Self::new(width, now);
        self.iter().for_each(|due| other.push(due));
        other
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::NodeId;
    use datapath::node::Port;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_place_is_a_quotient_and_a_remainder(width in 1u64..1 << 33, at_ns: u64) {
            for at_ns in [at_ns, at_ns >> 20, at_ns - at_ns % width, u64::MAX, width, width - 1] {
                let place = Calendar::new(width, Instant::ZERO).place(Instant::from_nanos(at_ns));
                prop_assert_eq!(place, (at_ns / width, at_ns % width));
            }
        }

        /// Against a list that is searched, with times near and far.
        #[test]
        fn what_is_due_in_an_epoch_is_found_there(
            steps in prop::collection::vec((0u8..9, 0u64..2_000, 0u32..44, 0u32..5, 1u64..10), 1..300)
        ) {
            let mut calendar = Calendar::new(10, Instant::ZERO);
            // When, on which link, which packet: in the order in which they came.
            let mut oracle: Vec<(u64, u32, u32)> = Vec::new();
            let mut now = 0;
            for (packet, (step, ahead, far, link, part)) in (0..).zip(steps) {
                match step {
                    0 => {
                        let severed = calendar.sever(LinkId(link));
                        let mine = oracle.extract_if(.., |(_, it, _)| *it == link);
                        let mut mine: Vec<_> = mine.collect();
                        mine.sort_by_key(|(at, ..)| *at);
                        let mine: Vec<_> = mine.iter().map(|it| PacketId(it.2)).collect();
                        prop_assert_eq!(severed, mine);
                    }
                    1..4 => {
                        let earliest = oracle.iter().map(|(at, ..)| at / 10).min();
                        let first = calendar.first();
                        prop_assert_eq!(first.is_some(), earliest.is_some());
                        let (Some(number), Some(earliest)) = (first, earliest) else { continue };
                        prop_assert!(number <= earliest);
                        let end = (number * 10 + part + u64::from(step == 1)).max(now);
                        let mut out = Vec::new();
                        calendar.take(number, Instant::from_nanos(end), &mut out);
                        now = end;
                        let mut expected: Vec<_> =
                            oracle.extract_if(.., |(at, ..)| *at < end).collect();
                        expected.sort_by_key(|(at, link, _)| (*at, *link));
                        out.sort_by_key(Entry::key);
                        let begin = calendar.begin(number);
                        let found = out.iter().map(|entry| {
                            let packet = entry.arriving().expect("an arrival");
                            (entry.due(begin).at.as_nanos(), entry.id().index(), packet.0)
                        });
                        prop_assert_eq!(found.collect::<Vec<_>>(), expected);
                    }
                    4 => calendar = calendar.with_width(10, Instant::from_nanos(now)),
                    _ => {
                        let at = now + (ahead << if step == 5 { far } else { 0 });
                        oracle.push((at, link, packet));
                        let to = (NodeId(0), Port(0));
                        let (link, packet) = (LinkId(link), PacketId(packet));
                        calendar.push(Due::arrival(Instant::from_nanos(at), link, to, packet, false));
                    }
                }
                for link in 0..5 {
                    let count = oracle.iter().filter(|(_, it, _)| *it == link).count();
                    prop_assert_eq!(calendar.count(LinkId(link)), count);
                }
            }
        }
    }
}
