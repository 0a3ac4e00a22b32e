//! What is on the way on links that take equally long.
//!
//! Links of the same rate and delay let packets arrive nearly in the order in which they were put
//! on them, whichever of these links it was. So one queue, a lane, serves all of them: a packet goes
//! in at the end or a few places before it, and the next arrival is at the front, however many
//! links there are. What would have to go in further ahead (a link has much to serialise) waits in
//! a queue of its link instead, as do all packets on links with chances or rules of trouble, and on
//! links of a kind that came after the first few.

use crate::calendar::Calendar;
use crate::link::{LinkId, NodeId};
use crate::pool::PacketId;
use crate::schedule::{Event, Kind};
use datapath::node::Port;
use datapath::prefetch::prefetch;
use datapath::units::{Duration, Instant, Rate};
use std::collections::VecDeque;

/// Lanes of a world.
#[derive(Debug)]
pub(crate) struct Lanes {
    all: Vec<Lane>,
    /// The next arrival of each; [`Event::NEVER`] if there is none.
    heads: Vec<Event>,
    /// The next arrival of all lanes, and its lane; [`Event::NEVER`] if there is none.
    first: Event,
    first_lane: LaneId,
    /// That of the packet that was taken last.
    last_lane: LaneId,
    /// How many packets have overtaken others.
    overtaken: u64,
    /// Where everything is instead, while the world is worked off in windows.
    pub calendar: Option<Calendar>,
}

/// Index of a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LaneId(u8);

/// A packet on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Coming {
    /// When it arrives.
    pub at: Instant,
    /// On which link.
    pub link: LinkId,
    /// Which packet.
    pub packet: PacketId,
}

#[derive(Debug)]
struct Lane {
    rate: Option<Rate>,
    delay: Duration,
    /// Ordered by time and link, then as they came.
    coming: VecDeque<Coming>,
}

/// More kinds of links than this have no lanes.
const LANES_MAX: usize = 8;
/// At most this many may be overtaken on a lane.
const OVERTAKEN_MAX: usize = 64;

impl Coming {
    #[inline]
    fn event(&self) -> Event {
        Event::new(self.at, Kind::Arrival, self.link.0)
    }
}

impl Default for Lanes {
    fn default() -> Self {
        Self {
            all: Vec::new(),
            heads: Vec::new(),
            first: Event::NEVER,
            first_lane: LaneId(0),
            last_lane: LaneId(0),
            overtaken: 0,
            calendar: None,
        }
    }
}

impl Lanes {
    /// The lane for links of this kind; `None` if there are too many kinds.
    pub fn lane_for(&mut self, rate: Option<Rate>, delay: Duration) -> Option<LaneId> {
        let index = match self.all.iter().position(|it| it.rate == rate && it.delay == delay) {
            Some(index) => index,
            None if self.all.len() == LANES_MAX => return None,
            None => {
                self.all.push(Lane { rate, delay, coming: VecDeque::new() });
                self.heads.push(Event::NEVER);
                self.all.len() - 1
            }
        };
        Some(LaneId(index as u8))
    }

    /// Puts a packet on its way to a port on a lane. False, and nothing done, if it would overtake too
    /// many.
    #[inline]
    #[must_use]
    pub fn insert(&mut self, id: LaneId, coming: Coming, to: (NodeId, Port)) -> bool {
        if let Some(calendar) = &mut self.calendar {
            calendar.push(coming, to);
            return true;
        }
        let event = coming.event();
        let queue = &mut self.all[usize::from(id.0)].coming;
        if queue.back().is_none_or(|last| last.event() <= event) {
            queue.push_back(coming);
        } else {
            self.overtaken += 1;
            if !insert_inside(queue, coming) {
                return false;
            }
        }
        let head = &mut self.heads[usize::from(id.0)];
        if event < *head {
            *head = event;
            if event < self.first {
                (self.first, self.first_lane) = (event, id);
            }
        }
        true
    }

    /// The next arrival of all lanes; [`Event::NEVER`] if there is none.
    #[inline]
    pub fn first(&self) -> Event {
        self.first
    }

    /// Takes the packet off its lane whose arrival is `event`; `None` if there is none.
    #[inline]
    pub fn take(&mut self, event: Event) -> Option<PacketId> {
        if self.first != event {
            return None;
        }
        self.last_lane = self.first_lane;
        let queue = &mut self.all[usize::from(self.first_lane.0)].coming;
        let coming = queue.pop_front();
        let head = queue.front().map_or(Event::NEVER, Coming::event);
        self.heads[usize::from(self.first_lane.0)] = head;
        self.find_first();
        coming.map(|coming| coming.packet)
    }

    /// What will arrive `ahead` places after the packet that was taken last, on the same lane.
    #[inline]
    pub fn upcoming(&self, ahead: usize) -> Option<Coming> {
        self.all[usize::from(self.last_lane.0)].coming.get(ahead).copied()
    }

    /// The caches are asked for that place of the queue.
    #[inline]
    pub fn prefetch_place(&self, ahead: usize) {
        if let Some(coming) = self.all[usize::from(self.last_lane.0)].coming.get(ahead) {
            prefetch(coming);
        }
    }

    /// How many packets have overtaken others so far, or would have too many.
    pub fn overtaken(&self) -> u64 {
        self.overtaken
    }

    /// How many packets are on the way on `link`.
    pub fn count(&self, id: LaneId, link: LinkId) -> usize {
        if let Some(calendar) = &self.calendar {
            return calendar.count(link);
        }
        let queue = &self.all[usize::from(id.0)].coming;
        queue.iter().filter(|coming| coming.link == link).count()
    }

    /// Takes everything off that is on the way on `link`.
    pub fn cut(&mut self, id: LaneId, link: LinkId) -> Vec<PacketId> {
        if let Some(calendar) = &mut self.calendar {
            return calendar.cut(link);
        }
        let queue = &mut self.all[usize::from(id.0)].coming;
        let cut = queue.iter().filter(|coming| coming.link == link);
        let cut = cut.map(|coming| coming.packet).collect();
        queue.retain(|coming| coming.link != link);
        self.heads[usize::from(id.0)] = queue.front().map_or(Event::NEVER, Coming::event);
        self.find_first();
        cut
    }

    /// Takes everything off all lanes, in no particular order but that of each link.
    pub fn drain(&mut self) -> impl Iterator<Item = Coming> {
        self.heads.fill(Event::NEVER);
        self.first = Event::NEVER;
        self.all.iter_mut().flat_map(|lane| lane.coming.drain(..))
    }

    #[inline]
    fn find_first(&mut self) {
        self.first = Event::NEVER;
        for (index, head) in (0..).zip(&self.heads) {
            if *head < self.first {
                (self.first, self.first_lane) = (*head, LaneId(index));
            }
        }
    }
}

/// Puts a packet before those that arrive later: they are few, so it passes them one by one. False,
/// and nothing done, if they are too many.
#[inline]
fn insert_inside(queue: &mut VecDeque<Coming>, coming: Coming) -> bool {
    let event = coming.event();
    let mut place = queue.len();
    if place > OVERTAKEN_MAX && queue[place - OVERTAKEN_MAX - 1].event() > event {
        return false;
    }
    queue.push_back(coming);
    let (begin, end) = queue.as_mut_slices();
    // Mostly the last of them lie in one piece.
    let piece = if end.is_empty() { begin } else { end };
    if piece.len() > OVERTAKEN_MAX {
        pass(piece, coming);
        return true;
    }
    while place > 0 && queue[place - 1].event() > event {
        queue[place] = queue[place - 1];
        place -= 1;
    }
    queue[place] = coming;
    true
}

/// Moves what stands last before those that are later.
#[inline]
fn pass(piece: &mut [Coming], coming: Coming) {
    let mut place = piece.len() - 1;
    while place > 0 && piece[place - 1].event() > coming.event() {
        piece[place] = piece[place - 1];
        place -= 1;
    }
    piece[place] = coming;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pool::Pool;
    use datapath::packet::Packet;
    use proptest::prelude::*;

    const TO: (NodeId, Port) = (NodeId(0), Port(0));

    proptest! {
        /// Against a stable sort by time and link, over more kinds of links than have lanes.
        #[test]
        fn arrivals_come_by_time_and_link(
            steps in prop::collection::vec((0u8..100, 0u64..100, 0u32..20), 1..4000)
        ) {
            let mut pool = Pool::default();
            let mut lanes = Lanes::default();
            let mut oracle: Vec<Coming> = Vec::new();
            for (step, at, link) in steps {
                let at = Instant::from_nanos(at);
                let packet = pool.insert(Packet::default());
                let coming = Coming { at, link: LinkId(link), packet };
                let lane = lanes.lane_for(None, Duration::from_nanos(u64::from(link % 10)));
                match (step, lane) {
                    (0, Some(lane)) => {
                        let cut = lanes.cut(lane, coming.link);
                        let before = oracle.len();
                        oracle.retain(|it| !cut.contains(&it.packet));
                        prop_assert_eq!(before - oracle.len(), cut.len());
                    }
                    (1..25, _) => {
                        let first = oracle.first().copied();
                        prop_assert_eq!(lanes.first(), first.map_or(Event::NEVER, |it| it.event()));
                        let taken = lanes.take(lanes.first());
                        prop_assert_eq!(taken, first.map(|it| it.packet));
                        oracle.drain(..usize::from(first.is_some()));
                    }
                    (_, Some(lane)) if lanes.insert(lane, coming, TO) => {
                        let place = oracle.partition_point(|it| it.event() <= coming.event());
                        oracle.insert(place, coming);
                    }
                    _ => {}
                }
            }
        }
    }

    #[test]
    fn only_so_many_are_overtaken() {
        let mut pool = Pool::default();
        let mut coming = |at| {
            let packet = pool.insert(Packet::default());
            Coming { at: Instant::from_nanos(at), link: LinkId(0), packet }
        };
        let mut lanes = Lanes::default();
        let lane = lanes.lane_for(None, Duration::ZERO).expect("the first kind has a lane");
        for at in 0..100 {
            assert!(lanes.insert(lane, coming(at), TO));
        }
        let at = 100 - OVERTAKEN_MAX as u64;
        assert!(!lanes.insert(lane, coming(at - 2), TO));
        assert!(lanes.insert(lane, coming(at - 1), TO));
    }
}
