//! The event loop: epoch by epoch, and in an epoch group by group.
//!
//! An epoch is as long as the shortest delay between groups of nodes (`crate::groups`). So groups cannot affect each
//! other within it, and each may process all its events before the next one begins (conservative
//! synchronisation; K. M. Chandy, J. Misra, "Distributed simulation", IEEE TSE 5(5), 1979). The events of a group keep
//! their order, and no result depends on the order between groups: results are those of processing event by
//! event. The gain is that a node, and the code that it needs, are brought into the caches once an epoch, and
//! that the next events are known far ahead.

use crate::due::Entry;
use crate::event::EventId;
use crate::groups::Groups;
use crate::link::NodeId;
use crate::log::Rank;
use crate::partition::Partition;
use crate::pool::NUMBER_BITS;
use crate::sorter::Sorter;
use crate::state::Ready;
use datapath::units::{Duration, Instant};
use std::cmp::Reverse;

pub use crate::groups::Grouping;

/// Working memory for the events of an epoch.
#[derive(Debug, Default)]
pub(crate) struct Epoch {
    pub groups: Groups,
    /// The entries of the epoch, as the calendar gives them.
    entries: Vec<Entry>,
    /// The same, group by group.
    sorted: Vec<Entry>,
    /// Where the entries of each group begin there, and where the last group ends.
    runs: Vec<u32>,
    /// How many entries there are up to each group, while they are sorted.
    counts: Vec<u32>,
    /// Readiness of which applications are notified in this epoch.
    notified: Vec<Ready>,
    sorter: Sorter<Entry>,
}

/// Entries are sorted by counting, unless there are more than this many groups for each entry.
const GROUPS_PER_ENTRY: usize = 8;

impl Epoch {
    pub fn new(groups: Groups) -> Self {
        Self { groups, ..Self::default() }
    }

    /// Processes what is due from `done` on and before `end`; returns the number of epochs.
    pub fn run_span(&mut self, part: &mut Partition, (mut done, end): (Instant, Instant)) -> u64 {
        let mut epochs = 0;
        while let Some(number) = part.next_epoch()
            && part.calendar.begin(number).max(done) < end
        {
            done = part.calendar.begin(number + 1).min(end);
            self.run(part, number, done);
            epochs += 1;
        }
        // Nodes without events have the time of the others, too.
        part.calendar.advance(part.calendar.number(end));
        part.now = Instant::from_nanos(end.as_nanos() - 1);
        epochs
    }

    /// Processes what is due in epoch `number` before `end`.
    fn run(&mut self, part: &mut Partition, number: u64, end: Instant) {
        part.begin = part.calendar.begin(number);
        part.end = end;
        part.calendar.take(number, end, &mut self.entries);
        self.take_pending(part, end);
        if !self.entries.is_empty() {
            self.sort_by_group();
            self.run_groups(part);
        }
        part.end = Instant::ZERO;
    }

    /// Adds entries for the notifications of this epoch.
    fn take_pending(&mut self, part: &mut Partition, end: Instant) {
        self.notified.clear();
        if part.pending.is_empty() || part.pending_at >= end {
            return;
        }
        part.pending.sort_by_key(|ready| ready.rank);
        core::mem::swap(&mut self.notified, &mut part.pending);
        let after_ns = (part.pending_at - part.begin).as_nanos() as u32;
        assert!(self.notified.len() >> NUMBER_BITS == 0, "thirty million are ready at a time");
        for (number, ready) in (0..).zip(&self.notified) {
            self.entries.push(Entry::notification(after_ns, ready.node, number));
        }
    }

    /// Puts the entries in order by group.
    fn sort_by_group(&mut self) {
        self.runs.clear();
        if self.groups.count() == 1 {
            core::mem::swap(&mut self.sorted, &mut self.entries);
            self.entries.clear();
            self.runs.push(0);
        } else if self.groups.are_single() {
            self.sort_by(|_, entry| entry.node().0);
        } else {
            self.sort_by(|groups, entry| groups.of(entry.node().0));
        }
        self.runs.push(self.sorted.len() as u32);
    }

    #[inline]
    fn sort_by(&mut self, group: impl Fn(&Groups, &Entry) -> u32) {
        let Self { groups, entries, sorted, counts, runs, .. } = self;
        if entries.len() * GROUPS_PER_ENTRY < groups.count() {
            sorted.clear();
            sorted.append(entries);
            sorted.sort_by_key(|entry| group(groups, entry));
            let begins = |index: &usize| {
                *index == 0 || group(groups, &sorted[index - 1]) != group(groups, &sorted[*index])
            };
            runs.extend((0..sorted.len()).filter(begins).map(|index| index as u32));
            return;
        }
        counts.clear();
        counts.resize(groups.count() + 1, 0);
        for entry in &*entries {
            counts[group(groups, entry) as usize + 1] += 1;
        }
        let mut sum = 0;
        for count in &mut *counts {
            sum += *count;
            *count = sum;
        }
        // The old contents are overwritten.
        sorted.resize(entries.len(), entries[0]);
        for entry in entries.drain(..) {
            let place = &mut counts[group(groups, &entry) as usize];
            sorted[*place as usize] = entry;
            *place += 1;
        }
        // Each count has become the end of its group.
        let mut start = 0;
        for end in &*counts {
            if *end > start {
                runs.push(start);
                start = *end;
            }
        }
    }

    /// Processes the entries of each group.
    fn run_groups(&mut self, part: &mut Partition) {
        let asks = part.exceeds_caches() && self.groups.are_single();
        for (run, range) in self.runs.windows(2).enumerate() {
            let range = range[0] as usize..range[1] as usize;
            let entries = &mut self.sorted[range.clone()];
            // Most lists are in order already; that of a router consists of many ordered ones.
            if !entries.is_sorted_by_key(Entry::key) {
                self.sorter.sort(entries, Entry::key);
            }
            if asks {
                part.prefetch_hosts(&self.sorted, &self.runs, run);
            }
            let router = asks.then(|| self.sorted[range.start].node());
            let router = router.filter(|node| part.nodes[node.0 as usize].host.forwarding);
            part.run_group(&self.sorted, range, &self.notified, (asks, router));
        }
    }
}

impl Partition {
    /// Processes one group: the entries of this range and what they cause within the epoch.
    fn run_group(
        &mut self,
        sorted: &[Entry],
        range: core::ops::Range<usize>,
        notified: &[Ready],
        (asks, router): (bool, Option<NodeId>),
    ) {
        let mut next = range.start;
        self.now = self.begin;
        self.rank = Rank::FIRST;
        loop {
            let entry = sorted[..range.end].get(next);
            let key = entry.map_or(NEVER, Entry::key);
            let own = self.own.peek().map_or(NEVER, |Reverse(own)| own.2.key());
            let first = key.min(own);
            let at = self.begin + Duration::from_nanos(first >> 32);
            if !self.ready.is_empty() && (at > self.now || first == NEVER) {
                let at = self.now + self.apps_run_after;
                if at >= self.end {
                    break;
                }
                self.now = at;
                self.call_ready_apps();
                continue;
            }
            if first == NEVER {
                break;
            }
            if at > self.now {
                self.now = at;
                self.rank = Rank::FIRST;
            }
            if own < key {
                let Some(Reverse(own)) = self.own.pop() else { break };
                self.do_entry(own.2);
            } else if let Some(entry) = entry {
                next += 1;
                if asks {
                    self.prefetch_entries(sorted, next, router);
                }
                if entry.id() == EventId::NOTIFICATION {
                    let ready = notified[entry.number() as usize];
                    self.rank = ready.rank;
                    self.notify_app(ready.node, ready.socket);
                } else {
                    self.do_entry(*entry);
                }
            }
        }
        self.notify_later();
    }

    #[inline]
    pub fn do_entry(&mut self, entry: Entry) {
        self.rank.comes_to_event(self.run, entry.id().number());
        self.handle(entry);
    }
}

/// The key of no entry: behind all others.
const NEVER: u64 = u64::MAX;
