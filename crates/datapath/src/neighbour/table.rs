//! How many neighbours there are: made, set by hand, thrown away (`neigh_alloc`, `neigh_forced_gc`,
//! `neigh_periodic_work`).

use super::entry::Entry;
use super::{Key, Neighbours, State};
use crate::packet::MacAddr;
use crate::units::{Duration, Instant};

/// What has changed within this time is not thrown away for want of room.
const TOO_YOUNG: Duration = Duration::from_secs(5);

/// What somebody may say of a neighbour by hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ManualState {
    /// It is there, and is never asked.
    Permanent,
    /// It is there as if it had just answered.
    Reachable,
    /// It was there once.
    Stale,
}

impl From<ManualState> for State {
    fn from(given: ManualState) -> Self {
        match given {
            ManualState::Permanent => Self::Permanent,
            ManualState::Reachable => Self::Reachable,
            ManualState::Stale => Self::Stale,
        }
    }
}

impl Neighbours {
    /// Makes an entry; false if there are too many.
    pub(super) fn create(&mut self, now: Instant, key: Key) -> bool {
        let family = *self.settings.family(key.1);
        let same = |other: &Key| other.1.is_ipv4() == key.1.is_ipv4();
        let count = self.entries.keys().filter(|other| same(other)).count();
        if count >= family.gc_thresh2 as usize {
            self.force_collect(now, key, count.saturating_sub(family.gc_thresh2 as usize) + 1);
            let count = self.entries.keys().filter(|other| same(other)).count();
            if count >= family.gc_thresh3 as usize {
                return false;
            }
        }
        self.entries.insert(key, Entry::new(now));
        self.start_collecting(now);
        true
    }

    fn start_collecting(&mut self, now: Instant) {
        if self.collect_at == Instant::FAR_FUTURE {
            self.collect_at = now + interval(self.settings.v4.base_reachable_time);
        }
    }

    /// Throws `wanted` entries of a family away that have failed or not changed lately.
    fn force_collect(&mut self, now: Instant, like: Key, wanted: usize) {
        let old = |entry: &Entry| {
            entry.state == State::Failed || now.saturating_since(entry.updated) > TOO_YOUNG
        };
        let may_go = |(key, entry): (&Key, &Entry)| {
            let same = key.1.is_ipv4() == like.1.is_ipv4();
            let idle = entry.held.is_empty() && entry.state != State::Permanent;
            (same && idle && old(entry)).then_some(*key)
        };
        let going: Vec<Key> = self.entries.iter().filter_map(may_go).take(wanted).collect();
        for key in going {
            self.remove(key);
        }
    }

    /// Throws away what was not used for long, if there are many.
    pub(super) fn collect(&mut self, now: Instant) {
        for v4 in [true, false] {
            let family = if v4 { self.settings.v4 } else { self.settings.v6 };
            let count = self.entries.keys().filter(|key| key.1.is_ipv4() == v4).count();
            if count < family.gc_thresh1 as usize {
                continue;
            }
            let may_go = |(key, entry): (&Key, &Entry)| {
                let rests = matches!(entry.state, State::Stale | State::Failed | State::None);
                let unused = now.saturating_since(entry.used) > family.gc_stale_time;
                let goes =
                    key.1.is_ipv4() == v4 && rests && (entry.state == State::Failed || unused);
                goes.then_some(*key)
            };
            let going: Vec<Key> = self.entries.iter().filter_map(may_go).collect();
            for key in going {
                self.remove(key);
            }
        }
        self.collect_at = if self.entries.is_empty() {
            Instant::FAR_FUTURE
        } else {
            now + interval(self.settings.v4.base_reachable_time)
        };
    }

    fn remove(&mut self, key: Key) {
        self.disarm(key);
        if let Some(entry) = self.entries.remove(&key) {
            self.actions.extend(entry.held.into_iter().map(super::Action::Unreachable));
            if entry.state == State::Failed {
                self.actions.push_back(super::Action::Answers(key, true));
            }
        }
    }

    /// Forgets the neighbours of a port, as when it goes down (`neigh_ifdown`); what is set by hand
    /// as well.
    pub fn flush(&mut self, port: u16) {
        self.remove_all(|key, _| key.0 == port);
    }

    /// Forgets what was learnt by a port, as when it has no carrier (`neigh_carrier_down`).
    pub fn flush_learnt(&mut self, port: u16) {
        self.remove_all(|key, state| key.0 == port && state != State::Permanent);
    }

    /// Forgets those that `goes` names (`ip neigh flush`).
    pub fn remove_all(&mut self, goes: impl Fn(&Key, State) -> bool) {
        let all = self.entries.iter().filter(|(key, entry)| goes(key, entry.state));
        let keys: Vec<Key> = all.map(|(key, _)| *key).collect();
        for key in keys {
            self.remove(key);
        }
    }

    /// `ip neigh replace ADDRESS [lladdr MAC] dev PORT nud STATE` (`neigh_add`), whatever was known before. False
    /// where neither `mac` nor anybody else has said which hardware address it is.
    pub fn set(
        &mut self,
        now: Instant,
        key: Key,
        mac: Option<MacAddr>,
        state: ManualState,
    ) -> bool {
        let known = self.entries.get(&key).filter(|entry| entry.state.is_valid());
        let Some(mac) = mac.or_else(|| known?.mac) else { return false };
        self.disarm(key);
        self.start_collecting(now);
        let entry = self.entries.entry(key).or_insert_with(|| Entry::new(now));
        (entry.mac, entry.updated) = (Some(mac), now);
        entry.state = state.into();
        match state {
            ManualState::Permanent => entry.confirmed = Some(now),
            ManualState::Reachable => self.confirm(now, key),
            ManualState::Stale => {}
        }
        self.release(key, mac);
        true
    }

    /// `ip neigh del ADDRESS dev PORT`; false if there is no such neighbour.
    pub fn delete(&mut self, key: Key) -> bool {
        let there = self.entries.contains_key(&key);
        self.remove(key);
        there
    }
}

/// Old entries are looked for twice in this time.
fn interval(base: Duration) -> Duration {
    Duration::from_nanos((base.as_nanos() / 2).max(1_000_000))
}
