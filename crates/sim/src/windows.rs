//! Worlds too large for the caches, and some others, are worked off node by node, a window of time at
//! a time.
//!
//! What one node does reaches another after the delay of a link at the earliest. So within a window
//! as long as the shortest delay, nodes do not hear of each other, and each may do all that it has
//! to do there before the next one begins (conservative synchronisation; K. M. Chandy, J. Misra,
//! "Distributed simulation", IEEE TSE 5(5), 1979). A node's events keep their order, and nothing that
//! can be seen depends on the order between nodes: the results are those of one event after the other.
//! What is gained is that a node, and the code that it needs, comes to the caches once a window,
//! and that what comes next is known far ahead.
//!
//! Observers see events in the order of time, so a world that is observed goes event by event.

use crate::calendar::{Calendar, Entry};
use crate::link::{Link, NodeId};
use crate::schedule::{Event, Kind};
use crate::world::{APPS_RUN_AFTER, World};
use datapath::node::SocketReady;
use datapath::units::{Duration, Instant};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// When a world is worked off in windows. The results are the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum WindowUse {
    /// Never.
    Never,
    /// When it is too large for the caches, or packets on links of one kind overtake each other all the
    /// time.
    #[default]
    WhenUseful,
    /// Whenever it can be.
    Always,
}

/// What the work in windows needs.
#[derive(Debug, Default)]
pub(crate) struct Windows {
    when: WindowUse,
    /// The beginning of the window that is being worked off.
    begin: Instant,
    /// Its end; time zero if none is.
    end: Instant,
    /// Until when everything is done.
    done: Instant,
    /// What is to be done in the window, in the order in which it came to be.
    entries: Vec<Entry>,
    /// The same, node by node.
    sorted: Vec<Entry>,
    /// Where the entries of each node begin there, and where the last ones end.
    runs: Vec<u32>,
    /// How many entries there are up to each node, while they are sorted.
    counts: Vec<u32>,
    /// What the node whose turn it is has set out to do in the window itself.
    own: BinaryHeap<Reverse<Event>>,
    /// Readiness that applications hear of in this window.
    heard: Vec<(NodeId, SocketReady)>,
    /// Readiness that they hear of in the next one.
    unheard: Vec<(NodeId, SocketReady)>,
    /// The shortest delay of a link.
    shortest: Option<Duration>,
    /// Whether the caches are asked beforehand for what the window needs.
    looks_ahead: bool,
    /// Which nodes pass packets on.
    pub routers: Vec<bool>,
}

/// Shorter windows than this gain nothing.
const WIDTH_MIN: Duration = Duration::from_micros(20);
/// Longer ones do not either.
const WIDTH_MAX: Duration = Duration::from_millis(100);
/// Lanes serve well as long as fewer packets than this overtake others, and fewer than a quarter of all.
const OVERTAKEN_AT_LEAST: u64 = 1000;
/// A node has this many entries before those of a window are sorted by counting.
const NODES_PER_ENTRY: usize = 8;

impl Windows {
    /// There is a link with this delay.
    pub fn note_delay(&mut self, delay: Duration) {
        self.shortest = Some(self.shortest.map_or(delay, |shortest| shortest.min(delay)));
    }

    /// Whether a window is being worked off.
    #[inline]
    pub fn is_open(&self) -> bool {
        self.end > Instant::ZERO
    }

    /// Whether `at` lies in the window that is being worked off.
    #[inline]
    pub fn holds(&self, at: Instant) -> bool {
        at < self.end
    }

    /// The node whose turn it is will do this in the window.
    #[inline]
    pub fn push(&mut self, event: Event) {
        self.own.push(Reverse(event));
    }

    /// Puts the entries in order by node.
    fn sort_by_node(&mut self, nodes: usize) {
        self.sorted.clear();
        self.runs.clear();
        if self.entries.len() * NODES_PER_ENTRY < nodes {
            self.sorted.append(&mut self.entries);
            self.sorted.sort_by_key(|entry| (entry.node(), entry.key()));
            let begins = |index: &usize| {
                *index == 0 || self.sorted[index - 1].node() != self.sorted[*index].node()
            };
            let starts = (0..self.sorted.len()).filter(begins);
            self.runs.extend(starts.map(|index| index as u32));
        } else {
            self.count_by_node(nodes);
        }
        self.runs.push(self.sorted.len() as u32);
    }

    fn count_by_node(&mut self, nodes: usize) {
        let Self { entries, sorted, counts, runs, .. } = self;
        counts.clear();
        counts.resize(nodes + 1, 0);
        for entry in &*entries {
            counts[entry.node().0 as usize + 1] += 1;
        }
        let mut sum = 0;
        for count in &mut *counts {
            sum += *count;
            *count = sum;
        }
        let Some(&any) = entries.first() else { return };
        sorted.resize(entries.len(), any);
        for entry in entries.drain(..) {
            let place = &mut counts[entry.node().0 as usize];
            sorted[*place as usize] = entry;
            *place += 1;
        }
        // Each count has become the end of its node.
        let mut start = 0;
        for end in &*counts {
            if *end > start {
                runs.push(start);
                start = *end;
            }
        }
    }
}

impl World {
    /// Chooses when the world is worked off in windows.
    pub fn set_window_use(&mut self, when: WindowUse) {
        self.windows.when = when;
    }

    /// Whether the world is worked off in windows, for the time being.
    pub fn is_in_windows(&self) -> bool {
        self.lanes.calendar.is_some()
    }

    /// Whether events may and should be worked off in windows.
    fn wants_windows(&self) -> bool {
        let unseen = self.observers.is_empty() && !self.shows_sent;
        let should = match self.windows.when {
            WindowUse::Never => false,
            WindowUse::WhenUseful => {
                self.is_in_windows()
                    || self.exceeds_caches()
                    || self.lanes.overtaken() > OVERTAKEN_AT_LEAST.max(self.stats.hops / 4)
            }
            WindowUse::Always => true,
        };
        should && unseen && self.late_by == Duration::ZERO
    }

    /// Runs until `end` in windows; false, and nothing done, if that may not be.
    pub(crate) fn run_windows(&mut self, end: Instant) -> bool {
        if !self.wants_windows() || !self.enter_windows() {
            self.leave_windows();
            return false;
        }
        // What has been done since counts as done.
        self.windows.done = self.now;
        while let Some(number) = self.next_window(end) {
            let calendar = self.lanes.calendar.as_ref().expect("entered above");
            let (begin, after) = (calendar.begin(number), calendar.begin(number + 1));
            self.collect(number, begin, after.min(end + Duration::from_nanos(1)));
            if self.windows.end <= begin.max(self.windows.done) {
                self.obey();
            } else {
                self.work_off();
            }
            self.windows.end = Instant::ZERO;
        }
        true
    }

    /// The number of the next window in which something happens, if it begins by `end`.
    fn next_window(&mut self, end: Instant) -> Option<u64> {
        if self.windows.done > end {
            return None;
        }
        let mut at = self.schedule.peek(self.windows.done.min(self.now)).at;
        if !self.ready.is_empty() {
            at = at.min(self.now + APPS_RUN_AFTER);
        }
        let calendar = self.lanes.calendar.as_ref().expect("windows have one");
        let number = calendar.first().unwrap_or(u64::MAX).min(calendar.number(at));
        (at < Instant::FAR_FUTURE || calendar.first().is_some())
            .then_some(number)
            .filter(|number| calendar.begin(*number) <= end)
    }

    /// Opens the window up to `end`, at most, and collects what is to be done there.
    fn collect(&mut self, number: u64, begin: Instant, mut end: Instant) {
        let windows = &mut self.windows;
        let from = begin.max(windows.done);
        windows.begin = begin;
        loop {
            let event = self.schedule.peek(from.min(self.now));
            if event.at >= end || event == Event::NEVER {
                break;
            }
            let index = event.index() as usize;
            let (slot, node) = match event.kind() {
                // Nothing is done on both sides of it at once.
                Kind::Command => {
                    end = event.at;
                    break;
                }
                Kind::Sent => (self.links[index].slots[Link::SENT], self.links[index].from.0),
                Kind::Arrival => (self.links[index].slots[Link::ARRIVAL], self.links[index].to.0),
                Kind::Wake => (Some(self.nodes[index].slot), NodeId(index as u32)),
                Kind::Start | Kind::Stop | Kind::Timer => (None, self.apps[index].node),
                Kind::Late => unreachable!("slow machines go event by event"),
            };
            match slot {
                Some(slot) => self.schedule.vacate(slot),
                None => self.schedule.pop(),
            }
            self.windows.entries.push(Entry::of_event(begin, event, node));
        }
        let windows = &mut self.windows;
        let hear_at = self.now + APPS_RUN_AFTER;
        if hear_at < end {
            for (index, (node, ready)) in (0..).zip(self.ready.drain(..)) {
                windows.entries.push(Entry::of_ready(begin, hear_at, node, index));
                windows.heard.push((node, ready));
            }
        }
        let calendar = self.lanes.calendar.as_mut().expect("windows have one");
        calendar.take(number, end, &mut windows.entries);
        windows.end = end;
    }

    /// A command is due, and nothing before it: everything else of that time comes later.
    fn obey(&mut self) {
        let at = self.windows.end;
        self.windows.end = Instant::ZERO;
        if at > self.now {
            self.now = at;
            self.call_ready_apps();
        }
        let command = self.schedule.peek(at);
        self.step(command);
    }

    /// Lets each node do what it has to do in the window.
    fn work_off(&mut self) {
        let end = self.windows.end;
        // What is heard after the window has waited longer than what becomes ready in it.
        self.windows.unheard.append(&mut self.ready);
        self.windows.looks_ahead = self.exceeds_caches();
        self.windows.sort_by_node(self.nodes.len());
        let mut sorted = core::mem::take(&mut self.windows.sorted);
        let runs = core::mem::take(&mut self.windows.runs);
        for (run, range) in runs.windows(2).enumerate() {
            let range = range[0] as usize..range[1] as usize;
            put_in_order(&mut sorted[range.clone()]);
            if self.windows.looks_ahead {
                self.look_ahead_at_hosts(&sorted, &runs, run);
            }
            self.work_off_node(&sorted, range);
        }
        self.windows.sorted = sorted;
        self.windows.runs = runs;
        self.windows.heard.clear();
        core::mem::swap(&mut self.ready, &mut self.windows.unheard);
        self.now = Instant::from_nanos(end.as_nanos() - 1);
        self.windows.done = end;
    }

    /// Lets one node do the entries of this range and what follows from them.
    fn work_off_node(&mut self, sorted: &[Entry], range: core::ops::Range<usize>) {
        let mut next = range.start;
        let (begin, first) = (self.windows.begin, sorted[next]);
        let router = self.is_router(first.node()).then_some(first.node());
        self.now = first.event(begin).at;
        loop {
            let entry = sorted[..range.end].get(next);
            let entry_event = entry.map_or(Event::NEVER, |entry| entry.event(begin));
            let own = self.windows.own.peek().map_or(Event::NEVER, |Reverse(event)| *event);
            let event = entry_event.min(own);
            if event.at > self.now && !self.ready.is_empty() {
                let at = self.now + APPS_RUN_AFTER;
                if !self.windows.holds(at) {
                    break;
                }
                self.now = at;
                self.call_ready_apps();
                continue;
            }
            if event == Event::NEVER {
                break;
            }
            self.now = event.at;
            if own < entry_event {
                self.windows.own.pop();
                self.happen(own);
            } else if let Some(entry) = entry {
                next += 1;
                if self.windows.looks_ahead {
                    self.look_ahead_in(sorted, next, router);
                }
                self.happen_entry(*entry);
            }
        }
        self.windows.unheard.append(&mut self.ready);
    }

    /// Does what an entry says, which is due now.
    #[inline]
    fn happen_entry(&mut self, entry: Entry) {
        if let Some(number) = entry.ready() {
            let (node, ready) = self.windows.heard[number as usize];
            self.hear(node, ready);
        } else if let Some(packet) = entry.packet() {
            self.stats.events += 1;
            self.arrive(entry.link(), (entry.node(), entry.port()), packet);
        } else {
            self.happen(entry.event(self.windows.begin));
        }
    }

    /// Begins to work in windows, unless that may not be.
    fn enter_windows(&mut self) -> bool {
        if self.is_in_windows() {
            return true;
        }
        let Some(width) = self.windows.shortest.filter(|width| *width >= WIDTH_MIN) else {
            return false;
        };
        let mut calendar = Calendar::new(width.min(WIDTH_MAX).as_nanos());
        for coming in self.lanes.drain() {
            calendar.push(coming, self.links[coming.link.0 as usize].to);
        }
        self.lanes.calendar = Some(calendar);
        self.windows.routers = self.nodes.iter().map(|node| node.host.forwarding).collect();
        true
    }

    /// Goes back to one event after the other.
    pub(crate) fn leave_windows(&mut self) {
        let Some(calendar) = self.lanes.calendar.take() else { return };
        for (coming, to) in calendar.into_sorted() {
            let lane = self.links[coming.link.0 as usize].lane();
            let lane = lane.expect("what is in the calendar would else be on a lane");
            assert!(self.lanes.insert(lane, coming, to), "each is later than the last");
        }
    }
}

/// From so many entries on they are sorted digit by digit.
const MANY: usize = 200;

/// Puts the entries of one node in order. Most lists are in order already; those of a router are made
/// of many that are.
fn put_in_order(entries: &mut [Entry]) {
    if entries.is_sorted_by_key(Entry::key) {
        return;
    }
    if entries.len() < MANY {
        return entries.sort_by_key(Entry::key);
    }
    // Stable, so that only what happens at the same time is left to be put in order.
    radsort::sort_by_key(entries, Entry::after_ns);
    for same in entries.chunk_by_mut(|one, other| one.after_ns() == other.after_ns()) {
        if same.len() > 1 {
            same.sort_by_key(Entry::key);
        }
    }
}
