//! Records for observers: logged where they originate, shown at the end of an epoch in the
//! order in which sequential processing of all events would have made them.

use crate::division::GlobalIds;
use crate::event::EventId;
use crate::link::{LinkId, NodeId};
use crate::record::{DropPlace, Fingerprint, Interest, Observer};
use crate::sorter::Sorter;
use core::ops::DerefMut;
use datapath::packet::Packet;
use datapath::reason::Reason;
use datapath::trace::Event;
use datapath::units::Instant;

/// The place of an event among all events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Stamp {
    pub at: Instant,
    pub rank: Rank,
}

/// The place of an event among those of its time.
///
/// Of the pending events, the first by kind and index is processed. An event that another one causes
/// at the same time, in the same group, may precede that one by its kind, but is processed after it: it
/// gets the same rank, and a group's records stay in the order in which they were made.
///
/// Notifications of applications come first. Among them, the order is that in which sockets became
/// ready a nanosecond before, because of an event or of an application that had itself
/// been notified. So the end of the longer chain of notifications comes first, and of equal
/// chains the one that began with the earlier event. A chain goes through one node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Rank {
    /// How much shorter than the longest possible the chain is; events themselves have none.
    shorter: u32,
    /// Which run of the world, and which event in it.
    id: u64,
}

/// In place of an event's number: changes from outside, after all events of their time.
pub(crate) const OUTSIDE: u32 = u32::MAX;

impl Rank {
    /// The first of all.
    pub const FIRST: Self = Self { shorter: 0, id: 0 };

    /// That of event number `id` in run number `run`.
    #[inline]
    pub fn of_event(run: u32, id: u32) -> Self {
        Self { shorter: u32::MAX, id: u64::from(run) << 32 | u64::from(id) }
    }

    /// Event number `id` in run number `run` follows, unless a later one has been.
    #[inline]
    pub fn comes_to_event(&mut self, run: u32, id: u32) {
        let event = Self::of_event(run, id);
        if self.shorter < event.shorter || self.id < event.id {
            *self = event;
        }
    }

    /// The rank of notifications of what became ready at this rank.
    #[inline]
    pub fn of_notification(self) -> Self {
        Self { shorter: self.shorter.saturating_sub(1), id: self.id }
    }

    /// The same with its event renumbered. Changes from outside are no events.
    pub fn renumbered(self, number: impl FnOnce(EventId) -> EventId) -> Self {
        let id = self.id as u32;
        if id == OUTSIDE {
            return self;
        }
        let id = number(EventId::of_number(id)).number();
        Self { shorter: self.shorter, id: self.id >> 32 << 32 | u64::from(id) }
    }
}

/// Observers, each with its interest.
pub(crate) type Observers = [(Interest, Box<dyn Observer>)];

/// What any observer wants to see, and the records of the epoch.
#[derive(Debug, Default)]
pub(crate) struct Log {
    /// What any observer wants to see.
    pub interest: Interest,
    /// By link: whether any observer wants to see its packets.
    links: Vec<bool>,
    pub records: Records,
}

/// The records of an epoch.
#[derive(Debug, Default)]
pub(crate) struct Records {
    seen: Vec<Entry>,
    packets: Vec<Packet>,
    events: Vec<Event>,
    /// The fingerprint of arrivals, if any observer wants it.
    pub arrivals: Fingerprint,
    /// Time and place in `seen`, in the order in which it is shown.
    order: Vec<u64>,
    sorter: Sorter<u64>,
    /// How many of these have been shown.
    shown: usize,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    stamp: Stamp,
    what: EntryKind,
}

/// Numbers are places in the lists of the log.
#[derive(Clone, Copy, Debug)]
enum EntryKind {
    Sent(LinkId, u32),
    Delivered(LinkId, u32),
    Dropped(DropPlace, Reason, u32),
    Event(NodeId, u32),
}

impl Log {
    /// Notes what observers want to see of these `links`; `names` has their global numbers.
    pub fn note_interest(&mut self, observers: &Observers, links: usize, names: &GlobalIds) {
        let all = observers.iter().map(|(interest, _)| *interest);
        self.interest = all.fold(Interest::NOTHING, Interest::or);
        let wants = |link| {
            let mut packets =
                observers.iter().filter(|(interest, _)| interest.sent | interest.delivered);
            packets.any(|(_, observer)| observer.wants_link(names.link(LinkId(link))))
        };
        self.links = (0..links as u32).map(wants).collect();
    }

    pub fn note_sent(&mut self, stamp: Stamp, link: LinkId, packet: &Packet) {
        if self.links[link.0 as usize] {
            self.records.keep(stamp, packet, |packet| EntryKind::Sent(link, packet));
        }
    }

    pub fn note_delivered(&mut self, stamp: Stamp, link: LinkId, packet: &Packet) {
        if self.links[link.0 as usize] {
            self.records.keep(stamp, packet, |packet| EntryKind::Delivered(link, packet));
        }
    }

    pub fn note_drop(&mut self, stamp: Stamp, place: DropPlace, reason: Reason, packet: &Packet) {
        if self.interest.dropped {
            self.records.keep(stamp, packet, |packet| EntryKind::Dropped(place, reason, packet));
        }
    }

    pub fn note_event(&mut self, stamp: Stamp, node: NodeId, event: &Event) {
        if self.interest.events {
            let what = EntryKind::Event(node, self.records.events.len() as u32);
            self.records.events.push(*event);
            self.records.seen.push(Entry { stamp, what });
        }
    }
}

impl Records {
    pub fn is_empty(&self) -> bool {
        self.seen.is_empty() && self.arrivals.arrivals == 0
    }

    #[inline(never)]
    fn keep(&mut self, stamp: Stamp, packet: &Packet, what: impl FnOnce(u32) -> EntryKind) {
        let what = what(self.packets.len() as u32);
        self.packets.push(packet.clone());
        self.seen.push(Entry { stamp, what });
    }

    /// Shows all records in their order, and removes them.
    pub fn show(&mut self, observers: &mut Observers) {
        self.show_arrivals(observers);
        if self.seen.is_sorted_by_key(|seen| seen.stamp) {
            (0..self.seen.len()).for_each(|place| self.show_one(place, observers));
        } else {
            self.put_in_order();
            self.order.iter().for_each(|key| self.show_one(*key as u32 as usize, observers));
        }
        self.clear();
    }

    fn clear(&mut self) {
        self.seen.clear();
        self.packets.clear();
        self.events.clear();
        self.order.clear();
        self.shown = 0;
    }

    #[inline]
    fn show_arrivals(&mut self, observers: &mut Observers) {
        let arrivals = core::mem::take(&mut self.arrivals);
        if arrivals.arrivals > 0 {
            for (_, observer) in observers.iter_mut().filter(|(interest, _)| interest.digests) {
                observer.digested(arrivals);
            }
        }
    }

    /// Sorts the records, and gives everything its global number.
    pub fn close(&mut self, names: &GlobalIds) {
        self.put_in_order();
        for Entry { stamp, what } in &mut self.seen {
            stamp.rank = stamp.rank.renumbered(|id| names.event(id));
            match what {
                EntryKind::Sent(link, _)
                | EntryKind::Delivered(link, _)
                | EntryKind::Dropped(DropPlace::Link(link), ..) => *link = names.link(*link),
                EntryKind::Dropped(DropPlace::Node(node), ..) | EntryKind::Event(node, _) => {
                    *node = names.node(*node);
                }
            }
        }
    }

    /// The next that is to be shown of what is [closed](Self::close).
    fn next(&self) -> Option<(usize, Stamp)> {
        let place = *self.order.get(self.shown)? as u32 as usize;
        Some((place, self.seen[place].stamp))
    }

    /// Shows the records of several partitions merged in one order, and removes them.
    pub fn show_all(all: &mut [impl DerefMut<Target = Self>], observers: &mut Observers) {
        for one in &mut *all {
            one.show_arrivals(observers);
        }
        loop {
            let turns = (0..).zip(&*all).filter_map(|(part, one)| Some((one.next()?.1, part)));
            let (mut first, mut second) = (None, None);
            for stamp in turns {
                if first.is_none_or(|first| stamp < first) {
                    second = first.replace(stamp);
                } else if second.is_none_or(|second| stamp < second) {
                    second = Some(stamp);
                }
            }
            let Some((_, part)) = first else { break };
            let one: &mut Self = &mut all[part];
            while let Some((place, stamp)) = one.next()
                && second.is_none_or(|second| (stamp, part) < second)
            {
                one.show_one(place, observers);
                one.shown += 1;
            }
        }
        for one in all.iter_mut() {
            one.clear();
        }
    }

    /// Each node has logged in order. Records of one time are sorted separately.
    fn put_in_order(&mut self) {
        let Self { seen, order, sorter, .. } = self;
        let Some(first) = seen.iter().map(|seen| seen.stamp.at).min() else { return };
        let after = |seen: &Entry| (seen.stamp.at - first).as_nanos() << 32;
        order.clear();
        order.extend((0..).zip(&*seen).map(|(place, seen): (u64, _)| after(seen) | place));
        sorter.sort(order, |key| *key);
        let stamp = |key: &u64| seen[*key as u32 as usize].stamp;
        for same in order.chunk_by_mut(|one, other| one >> 32 == other >> 32) {
            if same.len() > 1 {
                same.sort_by_key(stamp);
            }
        }
    }

    #[inline]
    fn show_one(&self, place: usize, observers: &mut Observers) {
        let Entry { stamp: Stamp { at, .. }, what } = self.seen[place];
        for (interest, observer) in observers {
            match what {
                EntryKind::Sent(link, packet) if interest.sent => {
                    observer.sent(at, link, &self.packets[packet as usize]);
                }
                EntryKind::Delivered(link, packet) if interest.delivered => {
                    observer.delivered(at, link, &self.packets[packet as usize]);
                }
                EntryKind::Dropped(place, reason, packet) if interest.dropped => {
                    observer.dropped(at, place, reason, &self.packets[packet as usize]);
                }
                EntryKind::Event(node, event) if interest.events => {
                    observer.event(at, node, &self.events[event as usize]);
                }
                _ => {}
            }
        }
    }
}
