//! Checks that virtual time advances: a world in which it stands still panics instead of running for ever.

use crate::link::NodeId;
use datapath::units::Instant;

/// How many packets in a row a node may drop, or other outputs it may give, without sending any.
const TOLD_MOST: u32 = 1_000_000;
/// Events that one moment may have; and as many again for each node, link and application.
const EVENTS_PER_MOMENT: u64 = 100_000;

/// How often a node was polled again since it last sent something.
#[derive(Debug, Default)]
pub(crate) struct WithoutSending(u32);

impl WithoutSending {
    /// It is polled once more.
    #[inline]
    pub fn count(&mut self, now: Instant, node: NodeId) {
        self.0 += 1;
        assert!(self.0 < TOLD_MOST, "time stands still at {now:?}: {node:?} drops for ever");
    }
}

/// The current instant.
#[derive(Debug, Default)]
pub(crate) struct Moment {
    at: Instant,
    /// How many events it has had since its first.
    events: u64,
}

impl Moment {
    /// One more event. True: there have been so many that time may stand still.
    #[inline]
    pub fn count_event(&mut self, now: Instant) -> bool {
        if now != self.at {
            (self.at, self.events) = (now, 0);
            return false;
        }
        self.events += 1;
        self.events >= EVENTS_PER_MOMENT
    }

    /// # Panics
    /// There have been more events than so many participants can have in one instant.
    #[cold]
    pub fn check(&self, participants: usize) {
        let (at, events) = (self.at, self.events);
        let most = EVENTS_PER_MOMENT * (1 + participants as u64);
        assert!(events < most, "time stands still at {at:?}: {events} events so far");
    }
}
