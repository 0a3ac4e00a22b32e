//! What is on the way, by the window of time in which it arrives.
//!
//! For worlds that are worked off in windows ([`crate::windows`]): a packet goes to the end of the
//! list of its window, whatever the order in which packets are put on links.

use crate::link::{LinkId, NodeId};
use crate::pool::PacketId;
use crate::schedule::{Event, Kind};
use datapath::units::Instant;

/// Something that a node will do.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    pub at: Instant,
    /// Which event, in the order of those at one time.
    id: u32,
    pub node: NodeId,
    what: What,
    /// The order of equals.
    pub order: u32,
}

/// What an [`Entry`] comes with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct What(u32);

impl What {
    /// Nothing: the event says it all.
    const EVENT: Self = Self(u32::MAX);

    #[inline]
    fn packet(self) -> Option<PacketId> {
        (self != Self::EVENT).then_some(PacketId(self.0))
    }
}

impl Entry {
    /// An event of `node` that is not the arrival of a packet on a lane.
    #[inline]
    pub fn of_event(event: Event, node: NodeId) -> Self {
        Self { at: event.at, id: event.id(), node, what: What::EVENT, order: 0 }
    }

    /// An application hears that something has become ready: before all else at that time. `number`
    /// is that of what became ready.
    #[inline]
    pub fn of_ready(at: Instant, node: NodeId, number: u32) -> Self {
        Self { at, id: 0, node, what: What(number), order: 0 }
    }

    #[inline]
    pub fn arrival(at: Instant, link: LinkId, to: NodeId, packet: PacketId) -> Self {
        let id = Event::new(at, Kind::Arrival, link.0).id();
        Self { at, id, node: to, what: What(packet.0), order: 0 }
    }

    /// The packet that arrives, if it is one on the way on a lane.
    #[inline]
    pub fn packet(&self) -> Option<PacketId> {
        self.what.packet().filter(|_| self.id != 0)
    }

    /// The number that [`of_ready`](Self::of_ready) was given.
    #[inline]
    pub fn ready(&self) -> Option<u32> {
        (self.id == 0 && self.what != What::EVENT).then_some(self.what.0)
    }

    #[inline]
    pub fn event(&self) -> Event {
        Event::with_id(self.at, self.id)
    }

    /// What entries of one node are ordered by.
    #[inline]
    pub fn key(&self) -> (Instant, u32, u32) {
        (self.at, self.id, self.order)
    }
}

/// Windows of equal length, the next of which have a list each.
#[derive(Debug)]
pub(crate) struct Calendar {
    /// Length of a window, ns.
    width: u64,
    /// Lists of the next windows, by their number modulo [`WINDOWS`].
    windows: Vec<Vec<Entry>>,
    /// Room of lists that were taken, for the next ones: few windows have lists at a time.
    spare: Vec<Vec<Entry>>,
    /// Number of the window that is next; those before it are empty.
    next: u64,
    /// What arrives after all those windows.
    far: Vec<Entry>,
    /// The first window that one of those belongs to.
    far_next: u64,
    len: usize,
}

/// So many windows have lists.
const WINDOWS: u64 = 64;

impl Calendar {
    /// An empty calendar with windows of `width` ns.
    pub fn new(width: u64) -> Self {
        let windows = (0..WINDOWS).map(|_| Vec::new()).collect();
        let (spare, far) = (Vec::new(), Vec::new());
        Self { width, windows, spare, next: 0, far, far_next: u64::MAX, len: 0 }
    }

    /// The number of the window that a time belongs to.
    #[inline]
    pub fn number(&self, at: Instant) -> u64 {
        at.as_nanos() / self.width
    }

    /// When the window of this number begins.
    #[inline]
    pub fn begin(&self, number: u64) -> Instant {
        Instant::from_nanos(number.saturating_mul(self.width))
    }

    #[inline]
    pub fn push(&mut self, entry: Entry) {
        self.len += 1;
        self.put(entry);
    }

    #[inline]
    fn put(&mut self, entry: Entry) {
        let number = self.number(entry.at);
        debug_assert!(number >= self.next, "the window is over");
        if number - self.next < WINDOWS {
            let list = &mut self.windows[(number % WINDOWS) as usize];
            if list.capacity() == 0
                && let Some(spare) = self.spare.pop()
            {
                *list = spare;
            }
            list.push(entry);
        } else {
            self.far_next = self.far_next.min(number);
            self.far.push(entry);
        }
    }

    /// The number of the first window with an arrival; `None` if nothing is on the way.
    pub fn first(&self) -> Option<u64> {
        if self.len == 0 {
            return None;
        }
        let filled = |number: &u64| !self.windows[(number % WINDOWS) as usize].is_empty();
        (self.next..self.next + WINDOWS).find(filled).or(Some(self.far_next))
    }

    /// Moves what arrives before `end` in window `number` to `out`, in no particular order but that
    /// of each link. Windows before that one are over.
    pub fn take(&mut self, number: u64, end: Instant, out: &mut Vec<Entry>) {
        self.next = number;
        if self.far_next.saturating_sub(number) < WINDOWS {
            self.far_next = u64::MAX;
            for entry in core::mem::take(&mut self.far) {
                self.put(entry);
            }
        }
        let list = &mut self.windows[(number % WINDOWS) as usize];
        let before = out.len();
        if end >= Instant::from_nanos((number + 1).saturating_mul(self.width)) {
            // The longer one stays where it is.
            list.append(out);
            self.spare.push(core::mem::replace(out, core::mem::take(list)));
        } else {
            out.extend(list.extract_if(.., |entry| entry.at < end));
        }
        self.len -= out.len() - before;
    }

    /// Takes everything off that is on the way on `link`, in the order in which it came.
    pub fn cut(&mut self, link: LinkId) -> Vec<PacketId> {
        let mut cut: Vec<Entry> = Vec::new();
        for list in self.windows.iter_mut().chain([&mut self.far]) {
            cut.extend(list.extract_if(.., |entry| entry.event().index() == link.0));
        }
        self.len -= cut.len();
        let numbers = self.far.iter().map(|entry| self.number(entry.at));
        self.far_next = numbers.min().unwrap_or(u64::MAX);
        cut.sort_by_key(|entry| entry.at);
        cut.into_iter().filter_map(|entry| entry.packet()).collect()
    }

    /// Everything, in the order of arrival.
    pub fn into_sorted(self) -> Vec<Entry> {
        let mut all: Vec<Entry> = self.windows.into_iter().flatten().chain(self.far).collect();
        // Packets of one link keep their order.
        all.sort_by_key(|entry| (entry.at, entry.id));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pool::Pool;
    use datapath::packet::Packet;
    use proptest::prelude::*;

    proptest! {
        /// Against a list that is searched.
        #[test]
        fn what_arrives_in_a_window_is_found_there(
            steps in prop::collection::vec((0u8..8, 0u64..2_000, 0u32..5, 1u64..10), 1..300)
        ) {
            let mut pool = Pool::default();
            let mut calendar = Calendar::new(10);
            let mut oracle: Vec<(u64, u32, PacketId)> = Vec::new();
            let mut now = 0;
            for (step, ahead, link, part) in steps {
                match step {
                    0 => {
                        let cut = calendar.cut(LinkId(link));
                        oracle.sort_by_key(|(at, ..)| *at);
                        let expected = oracle.extract_if(.., |(_, it, _)| *it == link);
                        let expected: Vec<PacketId> = expected.map(|(.., packet)| packet).collect();
                        prop_assert_eq!(cut, expected);
                    }
                    1 | 2 => {
                        let first = oracle.iter().map(|(at, ..)| at / 10).min();
                        prop_assert_eq!(calendar.first(), first);
                        let Some(number) = first else { continue };
                        let end = (number * 10 + part + u64::from(step == 1)).max(now);
                        let mut out = Vec::new();
                        calendar.take(number, Instant::from_nanos(end), &mut out);
                        now = end;
                        let expected = oracle.extract_if(.., |(at, ..)| *at < end);
                        let mut expected: Vec<PacketId> = expected.map(|it| it.2).collect();
                        let mut taken: Vec<PacketId> =
                            out.iter().filter_map(|entry| entry.packet()).collect();
                        expected.sort();
                        taken.sort();
                        prop_assert_eq!(taken, expected);
                    }
                    _ => {
                        let packet = pool.insert(Packet::default());
                        let at = now + ahead;
                        oracle.push((at, link, packet));
                        let at = Instant::from_nanos(at);
                        calendar.push(Entry::arrival(at, LinkId(link), NodeId(0), packet));
                    }
                }
            }
        }
    }
}
