//! Who sends next: rows of those that have tokens, feeds of those that borrow, and those that wait.

use super::class::{Index, Mode};
use super::ring::Ring;
use super::wait::WaitQueue;
use super::{Class, Htb, MAX_DEPTH, MAX_PRIO};
use crate::packet::Packet;
use crate::qdisc::assertions::assert_holds;
use crate::qdisc::{Backlog, Cx, Qdisc};
use crate::units::{Instant, NANOS_PER_SEC};

/// What sends and waits at one level (`struct htb_level`).
#[derive(Clone, Debug, Default)]
pub(super) struct Level {
    /// Classes with tokens and something to send, at each priority.
    rows: [Ring; MAX_PRIO],
    /// Which of them have members (`row_mask`).
    mask: u8,
    /// When the next event is, at the earliest (`near_ev_cache`).
    next_event: i64,
    wait: WaitQueue,
}

/// In a path of rings: the row itself, and no class.
const ROW: Index = Index::MAX;

/// The priorities in a mask, lowest first.
fn bits(mut mask: u8) -> impl Iterator<Item = usize> {
    core::iter::from_fn(move || {
        let prio = (mask != 0).then(|| mask.trailing_zeros() as usize)?;
        mask &= mask - 1;
        Some(prio)
    })
}

impl Htb {
    pub(super) fn class(&self, class: Index) -> &Class {
        &self.classes[class as usize]
    }

    pub(super) fn class_mut_of(&mut self, class: Index) -> &mut Class {
        &mut self.classes[class as usize]
    }

    /// A leaf has something to send (`htb_activate`).
    #[inline]
    pub(super) fn activate(&mut self, leaf: Index) {
        let class = self.class_mut_of(leaf);
        if class.active == 0 {
            class.active = 1 << class.prio;
            self.activate_prios(leaf);
        }
    }

    /// A leaf has nothing more to send (`htb_deactivate`).
    pub(super) fn deactivate(&mut self, leaf: Index) {
        if self.class(leaf).active != 0 {
            self.deactivate_prios(leaf);
            self.class_mut_of(leaf).active = 0;
        }
    }

    /// Goes up from a class that may send or borrow, to the one that lets it send (`htb_activate_prios`).
    fn activate_prios(&mut self, mut index: Index) {
        let mut mask = self.class(index).active;
        while let Class { mode: Mode::MayBorrow, parent: Some(above), minor, .. } =
            *self.class(index)
            && mask != 0
        {
            let parent = self.class_mut_of(above);
            let feeds = parent.feeds.as_deref_mut().expect("what has children has feeds");
            for prio in bits(mask) {
                // One that has others at this priority is known above.
                if !feeds[prio].is_empty() {
                    mask &= !(1 << prio);
                }
                feeds[prio].insert(minor, index);
            }
            parent.active |= mask;
            index = above;
        }
        let &Class { mode, level, minor, .. } = self.class(index);
        if mode == Mode::CanSend {
            let level = &mut self.levels[usize::from(level)];
            level.mask |= mask;
            bits(mask).for_each(|prio| level.rows[prio].insert(minor, index));
        }
    }

    /// The reverse (`htb_deactivate_prios`).
    fn deactivate_prios(&mut self, mut index: Index) {
        let mut mask = self.class(index).active;
        while let Class { mode: Mode::MayBorrow, parent: Some(above), minor, .. } =
            *self.class(index)
            && mask != 0
        {
            let parent = self.class_mut_of(above);
            let feeds = parent.feeds.as_deref_mut().expect("what has children has feeds");
            let mut emptied = 0;
            for prio in bits(mask) {
                feeds[prio].remove_from_feed(minor);
                emptied |= u8::from(feeds[prio].is_empty()) << prio;
            }
            mask = emptied;
            parent.active &= !mask;
            index = above;
        }
        let &Class { mode, level, minor, .. } = self.class(index);
        if mode == Mode::CanSend {
            let level = &mut self.levels[usize::from(level)];
            for prio in bits(mask) {
                level.rows[prio].remove_from_row(minor);
                level.mask &= !(u8::from(level.rows[prio].is_empty()) << prio);
            }
        }
    }

    /// What a class may do now, and where it therefore stands; gives for how long it waits if it cannot
    /// send (`htb_change_class_mode`).
    fn change_mode(&mut self, index: Index, elapsed: i64) -> i64 {
        let class = self.class(index);
        let (old, active) = (class.mode, class.active != 0);
        let (mode, wait) = class.mode_after(elapsed);
        if mode == old {
            return wait;
        }
        if mode == Mode::CannotSend {
            self.class_mut_of(index).stats.overlimits += 1;
            self.stats.overlimits += 1;
        }
        if active && old != Mode::CannotSend {
            self.deactivate_prios(index);
        }
        self.class_mut_of(index).mode = mode;
        if active && mode != Mode::CannotSend {
            self.activate_prios(index);
        }
        wait
    }

    /// `htb_add_to_wait_tree()`.
    fn add_to_wait(&mut self, index: Index, wait: i64) {
        let until = self.now + wait.max(1);
        let level = &mut self.levels[usize::from(self.classes[index as usize].level)];
        level.next_event = level.next_event.min(until);
        level.wait.insert(index, until, &mut self.places);
    }

    pub(super) fn remove_from_wait(&mut self, index: Index) {
        let level = usize::from(self.class(index).level);
        self.levels[level].wait.remove(index, &mut self.places);
    }

    /// Those that have waited long enough at `level`; gives when the next one has. The kernel pauses after two
    /// jiffies of them; here they take no time (`htb_do_events`).
    fn do_events(&mut self, level: usize) -> i64 {
        while let Some((index, until)) = self.levels[level].wait.first() {
            if until > self.now {
                return until;
            }
            self.levels[level].wait.remove(index, &mut self.places);
            let elapsed = self.class(index).elapsed(self.now);
            let wait = self.change_mode(index, elapsed);
            if self.class(index).mode != Mode::CanSend {
                self.add_to_wait(index, wait);
            }
        }
        self.now + NANOS_PER_SEC as i64
    }

    /// The next packet of the classes, or when to ask again (`htb_dequeue`).
    pub(super) fn dequeue_class(&mut self, place: &mut Packet, cx: &mut Cx<'_>) -> bool {
        self.now = cx.now.as_nanos() as i64;
        let mut next_event = self.now + 5 * NANOS_PER_SEC as i64;
        for level in 0..MAX_DEPTH {
            if self.now >= self.levels[level].next_event {
                let event = self.do_events(level);
                self.levels[level].next_event = event;
            }
            next_event = next_event.min(self.levels[level].next_event);
            for prio in bits(self.levels[level].mask) {
                if self.dequeue_tree(level, prio, place, cx) {
                    return true;
                }
            }
        }
        self.watchdog = Some(Instant::from_nanos(next_event as u64));
        false
    }

    /// The next packet of those at one level and priority (`htb_dequeue_tree`).
    fn dequeue_tree(
        &mut self,
        level: usize,
        prio: usize,
        place: &mut Packet,
        cx: &mut Cx<'_>,
    ) -> bool {
        let mut start = None;
        // A queue that keeps its packets to itself is asked once.
        while let Some(index) = self.lookup_leaf(level, prio).filter(|it| start != Some(*it)) {
            let leaf = self.class(index).leaf;
            let (any, change) = self.with_leaf(leaf, cx, |leaf, cx| leaf.dequeue_into(place, cx));
            if change.waiting == 0 && change.drops > 0 {
                // `qdisc_tree_reduce_backlog()` comes before the turn is over.
                self.deactivate(index);
            }
            if any {
                self.sent(index, level, prio, place, change.waiting == 0);
                return true;
            }
            if change.waiting == 0 {
                self.deactivate(index);
                if self.levels[level].mask & 1 << prio == 0 {
                    return false;
                }
                continue;
            }
            self.advance(index, level, prio);
            start = start.or(Some(index));
        }
        false
    }

    /// A leaf has sent a packet at `level`.
    fn sent(&mut self, index: Index, level: usize, prio: usize, packet: &Packet, emptied: bool) {
        let class = self.class_mut_of(index);
        class.stats.bytes += u64::from(packet.wire_len());
        class.stats.packets += u64::from(packet.segments());
        let left = class.deficit[level].wrapping_sub(packet.wire_len() as i32);
        class.deficit[level] = left;
        if left < 0 {
            class.deficit[level] = left.wrapping_add(class.quantum);
            self.advance(index, level, prio);
        }
        if emptied {
            self.deactivate(index);
        }
        self.charge(index, level, packet);
    }

    /// The turn passes from a leaf to the next one.
    fn advance(&mut self, index: Index, level: usize, prio: usize) {
        let holder = if level == 0 { None } else { self.class(index).parent };
        self.ring(holder.unwrap_or(ROW), level, prio).advance();
    }

    /// All from the leaf up pay for a packet: from the one that lets it be sent on with both kinds of tokens, those
    /// below that borrow for it with those of their `ceil` (`htb_charge_class`).
    fn charge(&mut self, leaf: Index, level: usize, packet: &Packet) {
        let (now, len) = (self.now, packet.wire_len());
        let mut next = Some(leaf);
        while let Some(index) = next {
            let class = self.class_mut_of(index);
            let elapsed = class.elapsed(now);
            let own = usize::from(class.level);
            if own >= level {
                class.stats.lends = class.stats.lends.wrapping_add(u32::from(own == level));
                class.charge(len, elapsed);
            } else {
                class.stats.borrows = class.stats.borrows.wrapping_add(1);
                class.tokens += elapsed;
            }
            class.charge_ceil(len, elapsed);
            class.counted_at = now;
            let (old, parent) = (class.mode, class.parent);
            if own > 0 {
                class.stats.bytes += u64::from(len);
                class.stats.packets += u64::from(packet.segments());
            }
            let wait = self.change_mode(index, 0);
            let mode = self.class(index).mode;
            if mode != old {
                if old != Mode::CanSend {
                    self.remove_from_wait(index);
                }
                if mode != Mode::CanSend {
                    self.add_to_wait(index, wait);
                }
            }
            next = parent;
        }
    }

    /// The leaf whose turn it is in a row: down from class to class (`htb_lookup_leaf`).
    fn lookup_leaf(&mut self, level: usize, prio: usize) -> Option<Index> {
        if self.levels[level].mask & 1 << prio == 0 {
            return None;
        }
        let (mut path, mut depth) = ([ROW; MAX_DEPTH], 0);
        loop {
            match self.ring(path[depth], level, prio).resume() {
                Some(index) if self.class(index).level == 0 => return Some(index),
                Some(index) => {
                    depth += 1;
                    path[depth] = index;
                }
                // Behind the last one it begins again, and above it is the turn of the next.
                None => {
                    let ring = self.ring(path[depth], level, prio);
                    debug_assert!(!ring.is_empty(), "what is in a ring has something to send");
                    ring.rewind();
                    if depth > 0 {
                        depth -= 1;
                        self.ring(path[depth], level, prio).advance();
                    }
                }
            }
        }
    }

    fn ring(&mut self, holder: Index, level: usize, prio: usize) -> &mut Ring {
        match holder {
            ROW => &mut self.levels[level].rows[prio],
            class => {
                let feeds = self.classes[class as usize].feeds.as_deref_mut();
                &mut feeds.expect("what is above others has feeds")[prio]
            }
        }
    }

    /// As at first, but for the tokens (`htb_reset`).
    pub(super) fn reset(&mut self) {
        for class in &mut self.classes {
            if let Some(feeds) = class.feeds.as_deref_mut() {
                feeds.iter_mut().for_each(Ring::clear);
            }
            (class.active, class.mode) = (0, Mode::CanSend);
        }
        for level in self.levels.iter_mut() {
            level.rows.iter_mut().for_each(Ring::clear);
            level.wait.clear();
            level.mask = 0;
        }
        (self.backlog, self.watchdog) = (Backlog::default(), None);
    }

    /// Asserts that counts, rings and waiting lists say what the classes do.
    pub(in crate::qdisc) fn check(&self) {
        if self.touched {
            return;
        }
        let waiting = self.leaves.iter().map(Qdisc::backlog).sum();
        assert_holds(self.backlog, waiting, "htb");
        let direct: u32 = self.direct.iter().map(Packet::wire_len).sum();
        assert_eq!(self.direct_bytes, direct, "htb counts the bytes past all classes");
        let mut waits = 0;
        for (minor, index) in self.hash.iter() {
            let class = self.class(index);
            let active = match &class.feeds {
                None => u8::from(self.leaves[class.leaf].backlog().packets > 0) * u8::MAX,
                Some(feeds) => {
                    let used = (0..MAX_PRIO).filter(|prio| !feeds[*prio].is_empty());
                    used.fold(0, |mask, prio| mask | 1 << prio)
                }
            };
            let exact = class.feeds.is_none() || active == class.active;
            assert!(
                exact && (active == 0) == (class.active == 0),
                "class {minor:x} of htb has something to send"
            );
            for prio in bits(class.active) {
                let row = self.levels[usize::from(class.level)].rows[prio].members();
                let feed = class.parent.and_then(|parent| self.class(parent).feeds.as_deref());
                let feed = feed.map(|feeds| feeds[prio].members());
                let in_row = row.filter(|it| *it == index).count();
                let in_feed = feed.map_or(0, |feed| feed.filter(|it| *it == index).count());
                let borrows = class.mode == Mode::MayBorrow && class.parent.is_some();
                let sends = class.mode == Mode::CanSend;
                let right = (usize::from(sends), usize::from(borrows));
                assert_eq!((in_row, in_feed), right, "class {minor:x} of htb in a row, in a feed");
            }
            let in_wait = self.levels[usize::from(class.level)].wait.holds(index, &self.places);
            assert_eq!(
                in_wait,
                class.mode != Mode::CanSend,
                "class {minor:x} of htb waits for tokens"
            );
            waits += usize::from(in_wait);
        }
        let all: usize = self.levels.iter().map(|level| level.wait.len()).sum();
        assert_eq!(all, waits, "all that wait in htb are classes");
    }
}
