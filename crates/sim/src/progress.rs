//! Virtual time goes on: a world in which it stands still fails loudly instead of running for ever.

use crate::link::NodeId;
use datapath::host::Host;
use datapath::node::Node as _;
use datapath::units::Instant;

/// So often in a row a node may want to be called at once and then have nothing to send.
const EMPTY_POLLS: u32 = 10_000;
/// So many packets in a row it may drop, and tell of other things, without sending any.
const TOLD_MOST: u32 = 1_000_000;
/// So many events one moment may have, and as many again for each node, link and application.
const EVENTS_PER_MOMENT: u64 = 100_000;

/// Calls of a node that came to nothing, and what it told, since it last sent something.
#[derive(Debug, Default)]
pub(crate) struct Polls {
    empty: u32,
    told: u32,
}

impl Polls {
    /// The node wanted to be called, and had nothing to send.
    #[inline]
    pub fn count_empty(&mut self, now: Instant, node: NodeId, host: &Host) {
        self.empty += 1;
        assert!(
            self.empty < EMPTY_POLLS,
            "time stands still at {now:?}: {node:?} wants to be called at {:?}",
            host.wake_at()
        );
    }

    /// The node told something else.
    #[inline]
    pub fn count_told(&mut self, now: Instant, node: NodeId) {
        self.told += 1;
        assert!(self.told < TOLD_MOST, "time stands still at {now:?}: {node:?} drops for ever");
    }
}

/// The moment that is being worked off.
#[derive(Debug, Default)]
pub(crate) struct Moment {
    at: Instant,
    /// How many events there had been when it began.
    before: u64,
}

impl Moment {
    /// One more event, of which there have been `events` now.
    #[inline]
    pub fn count_event(&mut self, now: Instant, events: u64, participants: usize) {
        if now != self.at {
            (self.at, self.before) = (now, events);
            return;
        }
        let here = events.saturating_sub(self.before);
        let most = EVENTS_PER_MOMENT * (1 + participants as u64);
        assert!(here < most, "time stands still at {now:?}: {here} events so far");
    }
}
