//! What is on the way, by the window of time in which it arrives.
//!
//! For worlds that are worked off in windows ([`crate::windows`]): a packet goes to the end of the
//! list of its window, whatever the order in which packets are put on links.

use crate::lanes::Coming;
use crate::link::{LinkId, NodeId};
use crate::pool::PacketId;
use crate::schedule::{Event, Kind};
use datapath::node::Port;
use datapath::units::{Duration, Instant};

/// Something that a node will do in a window. Windows hold very many of these, so they are small.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    /// When, in ns after the window begins.
    after_ns: u32,
    /// The packet that arrives, the number of what became ready, or [`Entry::EVENT`].
    what: u32,
    /// From the top: which event, in the order of those at one time; the port at which something
    /// arrives (16 bits); the node (22 bits). Whatever an arrival needs is here, so that nobody has
    /// to look at the link.
    whose: u64,
}

const NODE_BITS: u32 = 22;
const PORT_BITS: u32 = 16;

impl Entry {
    /// There is nothing besides the event.
    const EVENT: u32 = u32::MAX;

    /// An event of `node` that is not the arrival of a packet on a lane.
    #[inline]
    pub fn of_event(begin: Instant, event: Event, node: NodeId) -> Self {
        Self::new(after(begin, event.at), event.id(), (node, Port(0)), Self::EVENT)
    }

    /// An application hears that something has become ready: before all else at that time. `number`
    /// is that of what became ready.
    #[inline]
    pub fn of_ready(begin: Instant, at: Instant, node: NodeId, number: u32) -> Self {
        Self::new(after(begin, at), 0, (node, Port(0)), number)
    }

    #[inline]
    fn arrival(after_ns: u32, coming: Coming, to: (NodeId, Port)) -> Self {
        let id = Event::new(coming.at, Kind::Arrival, coming.link.0).id();
        Self::new(after_ns, id, to, coming.packet.0)
    }

    #[inline]
    fn new(after_ns: u32, id: u32, (node, port): (NodeId, Port), what: u32) -> Self {
        debug_assert!(node.0 < 1 << NODE_BITS, "indices have 22 bits");
        let place = u64::from(port.0) << NODE_BITS | u64::from(node.0);
        Self { after_ns, what, whose: u64::from(id) << (NODE_BITS + PORT_BITS) | place }
    }

    /// Which event, in the order of those at one time.
    #[inline]
    fn id(&self) -> u32 {
        (self.whose >> (NODE_BITS + PORT_BITS)) as u32
    }

    /// Whose event it is.
    #[inline]
    pub fn node(&self) -> NodeId {
        NodeId((self.whose & ((1 << NODE_BITS) - 1)) as u32)
    }

    /// Where the packet arrives, if one does.
    #[inline]
    pub fn port(&self) -> Port {
        Port((self.whose >> NODE_BITS) as u16)
    }

    /// The packet that arrives, if it is one on the way on a lane.
    #[inline]
    pub fn packet(&self) -> Option<PacketId> {
        (self.what != Self::EVENT && self.id() != 0).then_some(PacketId(self.what))
    }

    /// The number that [`of_ready`](Self::of_ready) was given.
    #[inline]
    pub fn ready(&self) -> Option<u32> {
        (self.what != Self::EVENT && self.id() == 0).then_some(self.what)
    }

    /// The link, if something arrives.
    #[inline]
    pub fn link(&self) -> LinkId {
        LinkId(Event::with_id(Instant::ZERO, self.id()).index())
    }

    /// The event, in the window that begins at `begin`.
    #[inline]
    pub fn event(&self, begin: Instant) -> Event {
        Event::with_id(begin + Duration::from_nanos(self.after_ns.into()), self.id())
    }

    /// When, in ns after the window begins.
    #[inline]
    pub fn after_ns(&self) -> u32 {
        self.after_ns
    }

    /// What entries of one node are ordered by. Those that are equal in this keep their order.
    #[inline]
    pub fn key(&self) -> u64 {
        u64::from(self.after_ns) << 32 | u64::from(self.id())
    }
}

#[inline]
fn after(begin: Instant, at: Instant) -> u32 {
    let after = at.saturating_since(begin).as_nanos();
    debug_assert!(at >= begin && after < 1 << 32, "it belongs to another window");
    after as u32
}

/// Windows of equal length, the next of which have a list each.
#[derive(Debug)]
pub(crate) struct Calendar {
    /// Length of a window, ns.
    width: u64,
    /// The 64 bits after the point of one through that length: a multiplication costs less than a
    /// division.
    per_width: u64,
    /// Lists of the next windows, by their number modulo [`WINDOWS`].
    windows: Vec<Vec<Entry>>,
    /// Room of lists that were taken, for the next ones: few windows have lists at a time.
    spare: Vec<Vec<Entry>>,
    /// Number of the window that is next; those before it are empty.
    next: u64,
    /// What arrives after all those windows, and where.
    far: Vec<(Coming, (NodeId, Port))>,
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
        let per_width = u64::MAX / width;
        Self { width, per_width, windows, spare, next: 0, far, far_next: u64::MAX, len: 0 }
    }

    /// The number of the window that a time belongs to.
    #[inline]
    pub fn number(&self, at: Instant) -> u64 {
        self.place(at).0
    }

    /// The number of the window that a time belongs to, and how far it is from its beginning, in ns.
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

    /// When the window of this number begins.
    #[inline]
    pub fn begin(&self, number: u64) -> Instant {
        Instant::from_nanos(number.saturating_mul(self.width))
    }

    /// A packet is on its way to a port.
    #[inline]
    pub fn push(&mut self, coming: Coming, to: (NodeId, Port)) {
        self.len += 1;
        self.put(coming, to);
    }

    #[inline]
    fn put(&mut self, coming: Coming, to: (NodeId, Port)) {
        let (number, after_ns) = self.place(coming.at);
        debug_assert!(number >= self.next, "the window is over");
        if number - self.next < WINDOWS {
            let list = &mut self.windows[(number % WINDOWS) as usize];
            if list.capacity() == 0
                && let Some(spare) = self.spare.pop()
            {
                *list = spare;
            }
            list.push(Entry::arrival(after_ns as u32, coming, to));
        } else {
            self.far_next = self.far_next.min(number);
            self.far.push((coming, to));
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

    /// Moves what arrives before `end` in window `number` to `out`, before what is there, in no
    /// particular order but that of each link. Windows before that one are over.
    pub fn take(&mut self, number: u64, end: Instant, out: &mut Vec<Entry>) {
        self.next = number;
        if self.far_next.saturating_sub(number) < WINDOWS {
            self.far_next = u64::MAX;
            for (coming, to) in core::mem::take(&mut self.far) {
                self.put(coming, to);
            }
        }
        let begin = self.begin(number);
        let list = &mut self.windows[(number % WINDOWS) as usize];
        let before = out.len();
        if end >= begin + Duration::from_nanos(self.width) {
            // The longer one stays where it is.
            list.append(out);
            self.spare.push(core::mem::replace(out, core::mem::take(list)));
        } else {
            out.extend(list.extract_if(.., |entry| entry.event(begin).at < end));
            // Of one link and one time, what is here comes before what waits elsewhere.
            out.rotate_left(before);
        }
        self.len -= out.len() - before;
    }

    /// Takes everything off that is on the way on `link`, in the order in which it came.
    pub fn cut(&mut self, link: LinkId) -> Vec<PacketId> {
        let mut cut: Vec<PacketId> = Vec::new();
        for number in self.next..self.next + WINDOWS {
            let list = &mut self.windows[(number % WINDOWS) as usize];
            let own = list.extract_if(.., |entry| entry.link() == link);
            cut.extend(own.filter_map(|entry| entry.packet()));
        }
        let own = self.far.extract_if(.., |(coming, _)| coming.link == link);
        cut.extend(own.map(|(coming, _)| coming.packet));
        self.len -= cut.len();
        let numbers = self.far.iter().map(|(coming, _)| self.number(coming.at));
        self.far_next = numbers.min().unwrap_or(u64::MAX);
        cut
    }

    /// How many packets are on the way on `link`.
    pub fn count(&self, link: LinkId) -> usize {
        let near = self.windows.iter().flatten().filter(|entry| entry.link() == link);
        near.count() + self.far.iter().filter(|(coming, _)| coming.link == link).count()
    }

    /// Everything, and where it arrives, in the order of arrival.
    pub fn into_sorted(mut self) -> Vec<(Coming, (NodeId, Port))> {
        let mut all = core::mem::take(&mut self.far);
        for number in self.next..self.next + WINDOWS {
            let begin = self.begin(number);
            for entry in &self.windows[(number % WINDOWS) as usize] {
                let Some(packet) = entry.packet() else { continue };
                let at = entry.event(begin).at;
                let to = (entry.node(), entry.port());
                all.push((Coming { at, link: entry.link(), packet }, to));
            }
        }
        // Packets of one link keep their order.
        all.sort_by_key(|(coming, _)| (coming.at, coming.link));
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
        #[test]
        fn a_place_is_a_quotient_and_a_remainder(width in 1u64..1 << 33, at_ns: u64) {
            for at_ns in [at_ns, at_ns >> 20, at_ns - at_ns % width, u64::MAX, width, width - 1] {
                let place = Calendar::new(width).place(Instant::from_nanos(at_ns));
                prop_assert_eq!(place, (at_ns / width, at_ns % width));
            }
        }

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
                        // Packets of one link arrive in their order.
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
                            out.iter().filter_map(Entry::packet).collect();
                        expected.sort();
                        taken.sort();
                        prop_assert_eq!(taken, expected);
                    }
                    _ => {
                        let packet = pool.insert(Packet::default());
                        let earlier = oracle.iter().filter(|(_, it, _)| *it == link);
                        let at = earlier.map(|(at, ..)| *at).fold(now + ahead, u64::max);
                        oracle.push((at, link, packet));
                        let at = Instant::from_nanos(at);
                        calendar.push(Coming { at, link: LinkId(link), packet }, (NodeId(0), Port(0)));
                    }
                }
            }
        }
    }
}
