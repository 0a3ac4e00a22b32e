//! The event queue: all future events, by epoch (a calendar queue with levels).
//!
//! Epochs are equally long, and 64 of them are a stretch. Each epoch of this stretch and of the next one has a
//! list; after these, a list holds the entries of a stretch, then of 64 stretches, and so on, as in the
//! kernel's timer wheel. An entry is appended to its list, whatever its time. When time enters
//! the stretch before the span of a list, the list is spread over those of the level below. So an event far ahead
//! costs a few moves and no comparison, however many there are, and simultaneous events keep the
//! order in which they were added. An event within 64 epochs, as for most packets on links, is not moved
//! at all. An epoch's entries are sorted when the epoch begins.

use crate::due::{Due, Entry};
use crate::link::LinkId;
use crate::pool::PacketId;
use datapath::units::{Duration, Instant};

/// Epochs of equal length, and the events of each.
#[derive(Debug)]
pub(crate) struct Calendar {
    /// Length of an epoch, ns.
    width: u64,
    /// The reciprocal of that length as a fraction of 64 bits: a multiplication costs less than a division.
    per_width: u64,
    /// Number of the epoch that is next; those before it are empty.
    next: u64,
    /// The number of the last stretch whose epochs have lists of their own: the one after that of the next epoch.
    horizon: u64,
    /// The lists of single epochs.
    near: Level<Entry>,
    /// Lists of the stretches whose numbers differ from that one's in the last six bits only, then of those whose
    /// numbers differ in the last twelve bits, and so on.
    far: Vec<Level<Due>>,
    /// Entries beyond all these.
    beyond: Vec<Due>,
}

/// Lists, and blocks of lists that were emptied: few lists are in use at a time.
#[derive(Debug)]
struct Level<T> {
    lists: Vec<List<T>>,
    /// Which lists hold something.
    filled: u128,
    spare: Vec<Vec<T>>,
}

/// A list in blocks, so that a list holds no more memory than it needs, however long others have been.
#[derive(Debug)]
struct List<T> {
    /// All but the last.
    full: Vec<Vec<T>>,
    /// Without allocation if it is empty.
    last: Vec<T>,
}

/// A block has room for this many entries.
const ROOM: usize = 256;
/// Blocks made at the beginning: far levels come into use late.
const FIRST_BLOCKS: usize = 2;
/// Bits of an epoch's number that choose a list of one level.
const BITS: u32 = 6;
/// Lists for single epochs: two times as many as one level has.
const NEAR: usize = 2 << BITS;
const _: () = assert!(NEAR == u128::BITS as usize);
/// Levels beyond the first.
const FAR_LEVELS: usize = 5;

impl<T> Level<T> {
    fn new(lists: usize) -> Self {
        let mut spare = Vec::with_capacity(1 + lists);
        spare.extend((0..FIRST_BLOCKS).map(|_| Vec::with_capacity(ROOM)));
        let lists = (0..lists).map(|_| List { full: Vec::new(), last: Vec::new() });
        Self { lists: lists.collect(), filled: 0, spare }
    }

    #[inline]
    fn push(&mut self, place: usize, item: T) {
        let list = &mut self.lists[place];
        if list.last.len() == list.last.capacity() {
            // An empty list has no allocation.
            self.filled |= 1 << place;
            list.add_block(&mut self.spare);
        }
        list.last.push(item);
    }

    /// Hands over the entries of a list, in order, and frees its blocks.
    fn drain(&mut self, place: usize, mut hand_over: impl FnMut(&mut Vec<T>)) {
        let list = &mut self.lists[place];
        let last = core::mem::take(&mut list.last);
        for mut block in list.full.drain(..).chain([last]) {
            hand_over(&mut block);
            if block.capacity() > 0 {
                self.spare.push(block);
            }
        }
        self.filled &= !(1 << place);
    }

    /// The first list from `place` on that holds something.
    #[inline]
    fn first_from(&self, place: usize) -> Option<usize> {
        let filled = self.filled >> place << place;
        (filled != 0).then(|| filled.trailing_zeros() as usize)
    }

    /// Removes the entries that `wanted` selects from a list. A list that is empty then has no allocation.
    fn extract(&mut self, place: usize, wanted: impl FnMut(&T) -> bool, take: impl FnMut(T)) {
        self.lists[place].extract(wanted, take);
        if self.lists[place].iter().next().is_none() {
            self.drain(place, |_| {});
        }
    }
}

impl<T> List<T> {
    #[inline(never)]
    fn add_block(&mut self, spare: &mut Vec<Vec<T>>) {
        let block = spare.pop().unwrap_or_else(|| Vec::with_capacity(ROOM));
        let last = core::mem::replace(&mut self.last, block);
        if !last.is_empty() {
            self.full.push(last);
        }
    }

    fn iter(&self) -> impl Iterator<Item = &T> {
        self.full.iter().flatten().chain(&self.last)
    }

    /// Removes the entries that `wanted` selects.
    fn extract(&mut self, mut wanted: impl FnMut(&T) -> bool, mut take: impl FnMut(T)) {
        for block in self.full.iter_mut().chain([&mut self.last]) {
            block.extract_if(.., |item| wanted(item)).for_each(&mut take);
        }
    }
}

/// The index of an epoch's list among those of single epochs.
#[inline]
fn near_place(number: u64) -> usize {
    number as usize % NEAR
}

/// The stretch that an epoch belongs to.
#[inline]
fn stretch_of(number: u64) -> u64 {
    number >> BITS
}

/// The index of a stretch's list in a far level.
#[inline]
fn far_place(level: usize, stretch: u64) -> usize {
    (stretch >> (BITS * level as u32)) as usize & ((1 << BITS) - 1)
}

impl Default for Calendar {
    fn default() -> Self {
        Self::new(1, Instant::ZERO)
    }
}

impl Calendar {
    /// An empty calendar with epochs of `width` ns, of which the one at `now` is next.
    pub fn new(width: u64, now: Instant) -> Self {
        let mut calendar = Self {
            width,
            per_width: u64::MAX / width,
            next: 0,
            horizon: 0,
            near: Level::new(NEAR),
            far: (0..FAR_LEVELS).map(|_| Level::new(1 << BITS)).collect(),
            beyond: Vec::new(),
        };
        calendar.next = calendar.number(now);
        calendar.horizon = stretch_of(calendar.next) + 1;
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
        // The product may be one too small.
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

    /// Adds an event, in the next epoch or later.
    #[inline]
    pub fn push(&mut self, due: Due) {
        let (number, after_ns) = self.place(due.at);
        debug_assert!(number >= self.next, "the epoch is over");
        if stretch_of(number) <= self.horizon {
            self.near.push(near_place(number), due.entry(after_ns));
        } else {
            self.push_far(stretch_of(number), due);
        }
    }

    #[inline(never)]
    fn push_far(&mut self, stretch: u64, due: Due) {
        let level = ((stretch ^ self.horizon).ilog2() / BITS) as usize;
        match self.far.get_mut(level) {
            Some(far) => far.push(far_place(level, stretch), due),
            None => self.beyond.push(due),
        }
    }

    /// The number of the first epoch in which something may be due; `None` if nothing is.
    pub fn first(&self) -> Option<u64> {
        let near = self.near.filled.rotate_right(near_place(self.next) as u32);
        if near != 0 {
            return Some(self.next + u64::from(near.trailing_zeros()));
        }
        for (level, far) in self.far.iter().enumerate() {
            let below = BITS * level as u32;
            if let Some(place) = far.first_from(far_place(level, self.horizon)) {
                let stretch = (self.horizon >> below >> BITS << BITS | place as u64) << below;
                return Some(stretch << BITS);
            }
        }
        let below = BITS * FAR_LEVELS as u32;
        (!self.beyond.is_empty()).then(|| ((self.horizon >> below) + 1) << below << BITS)
    }

    /// Moves what is due before `end` in epoch `number` to `out`, unsorted, but simultaneous events in
    /// their order. Epochs before that one are over; what is due later in it waits for another call.
    pub fn take(&mut self, number: u64, end: Instant, out: &mut Vec<Entry>) {
        self.advance(number);
        let begin = self.begin(number);
        let place = near_place(number);
        if self.near.filled & 1 << place == 0 {
            return;
        }
        if end >= begin + Duration::from_nanos(self.width) {
            self.near.drain(place, |block| out.append(block));
        } else {
            let before = (end - begin).as_nanos();
            let is_due = |entry: &Entry| u64::from(entry.after_ns()) < before;
            self.near.extract(place, is_due, |entry| out.push(entry));
        }
    }

    /// Epoch `number` is next: what lies in its stretch and in the next one is spread.
    #[inline]
    pub fn advance(&mut self, number: u64) {
        self.next = number;
        let stretch = stretch_of(number);
        if stretch >= self.horizon {
            self.go_to(stretch);
            self.go_to(stretch + 1);
        }
    }

    /// Single epochs have lists up to this stretch. The list that it belongs to is spread; those below that are
    /// empty: they were for stretches that are over.
    #[inline(never)]
    fn go_to(&mut self, stretch: u64) {
        let changed = core::mem::replace(&mut self.horizon, stretch) ^ stretch;
        let Some(level) = changed.checked_ilog2().map(|log| (log / BITS) as usize) else { return };
        let Some(far) = self.far.get_mut(level) else {
            for due in core::mem::take(&mut self.beyond) {
                self.push(due);
            }
            return;
        };
        let place = far_place(level, stretch);
        let list = &mut far.lists[place];
        let (mut full, last) = (core::mem::take(&mut list.full), core::mem::take(&mut list.last));
        far.filled &= !(1 << place);
        for mut block in full.drain(..).chain([last]) {
            block.drain(..).for_each(|due| self.push(due));
            if block.capacity() > 0 {
                self.far[level].spare.push(block);
            }
        }
        // Its memory is for the next time.
        self.far[level].lists[place].full = full;
    }

    /// The epochs from the next one on whose lists may be in use.
    fn near_numbers(&self) -> impl Iterator<Item = u64> + use<> {
        self.next..(self.horizon + 1) << BITS
    }

    /// Removes all arrivals on `link`, in the order of arrival.
    pub fn sever(&mut self, link: LinkId) -> Vec<PacketId> {
        let mut severed: Vec<Due> = Vec::new();
        let mine = |due: &Due| due.link_of_arrival() == Some(link);
        for number in self.near_numbers() {
            let begin = Instant::from_nanos(number.saturating_mul(self.width));
            let is_mine = |entry: &Entry| mine(&entry.due(begin));
            let take = |entry: Entry| severed.push(entry.due(begin));
            self.near.extract(near_place(number), is_mine, take);
        }
        for far in &mut self.far {
            for place in 0..far.lists.len() {
                far.extract(place, mine, |due| severed.push(due));
            }
        }
        severed.extend(self.beyond.extract_if(.., |due| mine(due)));
        severed.sort_by_key(|due| due.at);
        severed.into_iter().map(|due| due.packet()).collect()
    }

    /// How many packets are on the way on `link`.
    pub fn count(&self, link: LinkId) -> usize {
        self.iter().filter(|due| due.link_of_arrival() == Some(link)).count()
    }

    /// All entries, simultaneous ones in the order in which they were added.
    pub fn iter(&self) -> impl Iterator<Item = Due> {
        let near = self.near_numbers().flat_map(|number| {
            let begin = self.begin(number);
            self.near.lists[near_place(number)].iter().map(move |entry| entry.due(begin))
        });
        let far = self.far.iter().flat_map(|far| far.lists.iter().flat_map(List::iter));
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

    #[test]
    fn what_is_a_stretch_ahead_is_not_moved() {
        let mut calendar = Calendar::new(10, Instant::ZERO);
        let mut out = Vec::new();
        for number in 0..1_000 {
            calendar.take(number, calendar.begin(number + 1), &mut out);
            let at = calendar.begin(number + (1 << BITS));
            let to = (NodeId(0), Port(0));
            calendar.push(Due::arrival(at, LinkId(0), to, PacketId(number as u32), false));
            assert!(calendar.far.iter().all(|far| far.filled == 0));
        }
        let packets = out.iter().map(|entry| entry.packet().0);
        assert!(packets.eq(0..1_000 - (1 << BITS)));
    }

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
