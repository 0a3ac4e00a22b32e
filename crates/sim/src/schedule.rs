//! What happens next: a tournament of those who wait.
//!
//! Links and nodes wait for one thing at a time: the end of a transmission, an arrival, a timer.
//! Each of these has a slot of its own, and the slots play a knock-out tournament: every node of a
//! binary tree holds the earlier of its two children, the root the next event. A slot that changes
//! plays its way up again: one comparison a level, without a branch that could be guessed wrong,
//! each with a neighbour whose place is known beforehand. What comes up rarely (starts, stops,
//! timers of applications, commands) waits in an ordinary heap beside the tree.
//!
//! # The order of equals
//!
//! Events are totally ordered by (time, kind, index), so that what happens never depends on
//! history. At one instant the kinds follow each other as [`Kind`] lists them: first links go up or
//! down, then transmissions end (room before new work), then packets arrive, then nodes wake for
//! their timers (an ACK that arrives at the very moment of a timeout wins), then applications
//! start, stop, wake and hear of what became ready. Within a kind the lower index comes first:
//! links, nodes and applications are numbered in the order in which they were made. Packets on one
//! link that arrive at the same instant keep the order in which they were sent.

use datapath::prefetch::prefetch_at;
use datapath::units::Instant;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

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

impl Kind {
    /// Whether such events come up once, from the heap beside the tree.
    #[inline]
    pub fn is_once(self) -> bool {
        !matches!(self, Self::Sent | Self::Arrival | Self::Wake)
    }
}

/// The kinds by number.
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

/// Something that is to happen. Two plain numbers, so that it is compared and handed over in
/// registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Event {
    /// When.
    pub at: Instant,
    /// Kind and index, in this order.
    id: u32,
}

/// The index of what is added as number `count` of its kind: events have 22 bits for it.
pub(crate) fn new_index(count: usize) -> u32 {
    assert!(
        count >> INDEX_BITS == 0,
        "more than four million links, nodes, applications or commands"
    );
    count as u32
}

impl Event {
    /// What never happens.
    pub const NEVER: Self = Self { at: Instant::FAR_FUTURE, id: u32::MAX };

    /// `index` says to whom: it numbers a link, a node, an application or a command.
    #[inline]
    pub fn new(at: Instant, kind: Kind, index: u32) -> Self {
        Self { at, id: id_of(kind, index) }
    }

    /// What it is ordered by among those of one time: kind and index.
    #[inline]
    pub fn id(self) -> u32 {
        self.id
    }

    /// The event of this [`id`](Self::id) at `at`.
    #[inline]
    pub fn with_id(at: Instant, id: u32) -> Self {
        Self { at, id }
    }

    /// What it is about.
    #[inline]
    pub fn kind(self) -> Kind {
        KINDS[(self.id >> INDEX_BITS & 7) as usize]
    }

    /// To whom it happens.
    #[inline]
    pub fn index(self) -> u32 {
        self.id & ((1 << INDEX_BITS) - 1)
    }
}

/// The place of somebody who waits for one thing at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slot {
    leaf: u32,
    /// Kind and index, as in the lower bits of a key.
    id: u32,
}

impl Slot {
    /// The event that is waited for here, at `at`.
    #[inline]
    pub fn event(self, at: Instant) -> Event {
        Event { at, id: self.id }
    }
}

/// Everything that is to happen.
#[derive(Debug)]
pub(crate) struct Schedule {
    /// Keys of events. Node `i` has the children `2i` and `2i + 1`, whose keys lie side by side in
    /// `tree[i]`; the root is 1, the slots begin at `width`.
    tree: Vec<[u64; 2]>,
    /// The key of the root.
    first: u64,
    /// Room for slots: a power of two.
    width: u32,
    /// What each slot waits for, whole.
    waits: Vec<Event>,
    /// The time that keys count from, in ns.
    epoch: u64,
    /// The slot whose event is being handled and has not been given another one yet: its old one
    /// still stands in the tree. Most get another one, and so play once, not twice.
    vacant: Option<Slot>,
    rest: BinaryHeap<Reverse<Event>>,
    /// When the first of the rest is due; `FAR_FUTURE` if there is none.
    rest_at: Instant,
}

/// A key is the time since the epoch in ns, then the kind, then the index: one number that sorts
/// as the documentation says.
const ID_BITS: u32 = 24;
const INDEX_BITS: u32 = 22;
/// Only these have slots, and so keys: a kind and an index have to fit into `ID_BITS`.
const KINDS_WITH_SLOTS: [Kind; 3] = [Kind::Sent, Kind::Arrival, Kind::Wake];
const _: () = {
    let mut place = 0;
    while place < KINDS_WITH_SLOTS.len() {
        assert!(KINDS_WITH_SLOTS[place] as u32 >> (ID_BITS - INDEX_BITS) == 0);
        place += 1;
    }
};
/// What lies further ahead than about 18 minutes has this time in its key. When it comes first,
/// the epoch is moved on.
const HORIZON: u64 = (1 << (64 - ID_BITS)) - 2;
/// The key of nothing.
const NEVER: u64 = u64::MAX;

impl Default for Schedule {
    fn default() -> Self {
        Self {
            tree: vec![[NEVER; 2]; 2],
            first: NEVER,
            width: 2,
            waits: Vec::new(),
            epoch: 0,
            vacant: None,
            rest: BinaryHeap::new(),
            rest_at: Instant::FAR_FUTURE,
        }
    }
}

impl Schedule {
    /// A slot for the events of one `kind` that happen to `index`.
    pub fn add_slot(&mut self, kind: Kind, index: u32) -> Slot {
        assert!(KINDS_WITH_SLOTS.contains(&kind), "{kind:?} has no place in a key");
        assert!(index >> INDEX_BITS == 0, "more than four million links or nodes");
        let leaf = self.waits.len() as u32;
        self.waits.push(Event::new(Instant::FAR_FUTURE, kind, index));
        if leaf == self.width {
            self.width *= 2;
            self.rebuild();
        }
        Slot { leaf, id: id_of(kind, index) }
    }

    /// From now on `slot` waits for `at`, and for nothing else.
    #[inline]
    pub fn set(&mut self, slot: Slot, at: Instant) {
        if let Some(vacant) = self.vacant.take()
            && vacant != slot
        {
            self.play(vacant, Instant::FAR_FUTURE);
        }
        self.play(slot, at);
    }

    /// The caches are asked for what [`set`](Self::set) needs.
    #[inline]
    pub fn foresee(&self, slot: Slot) {
        let place = (self.width + slot.leaf) as usize;
        prefetch_at(&self.waits, slot.leaf as usize);
        for level in 1..5 {
            prefetch_at(&self.tree, place >> level);
        }
    }

    /// The event of `slot` is being handled; unless it gets another one it waits for nothing.
    #[inline]
    pub fn vacate(&mut self, slot: Slot) {
        self.settle();
        self.vacant = Some(slot);
    }

    /// Something that happens once.
    pub fn push(&mut self, event: Event) {
        self.rest_at = self.rest_at.min(event.at);
        self.rest.push(Reverse(event));
    }

    /// The event that [`peek`](Self::peek) gave is done with: it was one of those that happen once.
    pub fn pop(&mut self) {
        let popped = self.rest.pop();
        assert!(popped.is_some(), "only what was peeked is popped");
        self.rest_at = self.rest.peek().map_or(Instant::FAR_FUTURE, |Reverse(event)| event.at);
    }

    /// The next event; [`Event::NEVER`] if there is none. Nothing that is yet to be scheduled lies
    /// before `now`.
    #[inline]
    pub fn peek(&mut self, now: Instant) -> Event {
        self.settle();
        let first = self.first;
        if first >> ID_BITS >= HORIZON {
            return self.peek_far(now);
        }
        let at = Instant::from_nanos(self.epoch + (first >> ID_BITS));
        let event = Event { at, id: first as u32 & ((1 << ID_BITS) - 1) };
        if self.rest_at > at { event } else { event.min(self.first_of_rest()) }
    }

    #[inline(never)]
    fn first_of_rest(&self) -> Event {
        self.rest.peek().map_or(Event::NEVER, |Reverse(event)| *event)
    }

    /// [`peek`](Self::peek), when no slot waits for anything near.
    #[inline(never)]
    fn peek_far(&mut self, now: Instant) -> Event {
        let rest = self.first_of_rest();
        if self.first == NEVER {
            return rest;
        }
        if now.as_nanos() - self.epoch > HORIZON / 2 {
            self.epoch = now.as_nanos();
            self.rebuild();
        }
        let waited = self.waits.iter().min().copied().expect("some slot waits");
        waited.min(rest)
    }

    #[inline]
    fn settle(&mut self) {
        if let Some(vacant) = self.vacant.take() {
            self.play(vacant, Instant::FAR_FUTURE);
        }
    }

    /// Lets `slot` play its way up with `at`.
    #[inline]
    fn play(&mut self, slot: Slot, at: Instant) {
        self.waits[slot.leaf as usize].at = at;
        let mut place = (self.width + slot.leaf) as usize;
        let mut winner = self.key(at, slot.id);
        while place > 1 {
            let (pair, side) = (&mut self.tree[place / 2], place % 2);
            pair[side] = winner;
            winner = winner.min(pair[side ^ 1]);
            place /= 2;
        }
        self.first = winner;
    }

    #[inline]
    fn key(&self, at: Instant, id: u32) -> u64 {
        if at == Instant::FAR_FUTURE {
            return NEVER;
        }
        let ahead = (at.as_nanos() - self.epoch).min(HORIZON);
        ahead << ID_BITS | u64::from(id)
    }

    fn rebuild(&mut self) {
        let width = self.width as usize;
        self.tree = vec![[NEVER; 2]; width];
        for (leaf, event) in self.waits.iter().enumerate() {
            let key = self.key(event.at, event.id);
            let place = width + leaf;
            self.tree[place / 2][place % 2] = key;
        }
        for place in (2..width).rev() {
            let [left, right] = self.tree[place];
            self.tree[place / 2][place % 2] = left.min(right);
        }
        let [left, right] = self.tree[1];
        self.first = left.min(right);
    }
}

#[inline]
fn id_of(kind: Kind, index: u32) -> u32 {
    (kind as u32) << INDEX_BITS | index
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    #[test]
    fn an_index_goes_through_an_event_as_it_is() {
        let last = new_index((1 << INDEX_BITS) - 1);
        let event = Event::new(Instant::ZERO, Kind::Late, last);
        assert_eq!((event.kind(), event.index()), (Kind::Late, last));
    }

    #[test]
    #[should_panic(expected = "more than four million")]
    fn an_index_that_is_too_large_is_refused() {
        new_index(1 << INDEX_BITS);
    }

    proptest! {
        /// Against a map of what each slot waits for and a list of the rest, at times near and far.
        #[test]
        fn the_earliest_is_first(
            steps in prop::collection::vec((0u8..8, 0u64..50, any::<bool>(), 0usize..40), 1..400)
        ) {
            let mut schedule = Schedule::default();
            let mut slots = Vec::new();
            let mut waits: BTreeMap<usize, Event> = BTreeMap::new();
            let mut rest: Vec<Event> = Vec::new();
            let mut now = 0;
            for (number, (step, ahead, far, pick)) in (0..).zip(steps) {
                let at = Instant::from_nanos(now + ahead * if far { 100_000_000_000 } else { 1 });
                let first = waits.values().chain(&rest).min().copied();
                let kind = [Kind::Sent, Kind::Arrival, Kind::Wake][pick % 3];
                match step {
                    0 => slots.push((schedule.add_slot(kind, number), kind, number)),
                    // Who has looked may still schedule something that is earlier.
                    7 => {
                        let peeked = schedule.peek(Instant::from_nanos(now));
                        prop_assert_eq!(peeked, first.unwrap_or(Event::NEVER));
                    }
                    1 => {
                        let kind = if far { Kind::Command } else { Kind::Start };
                        let event = Event::new(at, kind, number);
                        rest.push(event);
                        schedule.push(event);
                    }
                    2 | 3 if let Some(first) = first => {
                        prop_assert_eq!(schedule.peek(Instant::from_nanos(now)), first);
                        now = first.at.as_nanos();
                        let slot = waits.iter().find(|(_, event)| **event == first);
                        if let Some((&place, _)) = slot {
                            schedule.vacate(slots[place].0);
                            waits.remove(&place);
                        } else {
                            schedule.pop();
                            rest.retain(|event| *event != first);
                        }
                    }
                    _ if !slots.is_empty() => {
                        let place = pick % slots.len();
                        let (slot, kind, index) = slots[place];
                        schedule.set(slot, at);
                        waits.insert(place, Event::new(at, kind, index));
                    }
                    _ => {}
                }
            }
            let first = waits.values().chain(&rest).min().copied();
            prop_assert_eq!(schedule.peek(Instant::from_nanos(now)), first.unwrap_or(Event::NEVER));
        }
    }
}
