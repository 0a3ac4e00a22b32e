//! An observer that several tests use.

use datapath::packet::Packet;
use datapath::reason::Reason;
use datapath::units::Instant;
use sim::record::{DropPlace, Interest, Observer};

/// Every drop with its time, place and reason.
#[derive(Debug, Default)]
pub struct DropLog {
    /// The drops in order of time.
    pub drops: Vec<(Instant, DropPlace, Reason)>,
}

impl Observer for DropLog {
    fn interest(&self) -> Interest {
        Interest { dropped: true, ..Interest::NOTHING }
    }

    fn dropped(&mut self, now: Instant, place: DropPlace, reason: Reason, _packet: &Packet) {
        self.drops.push((now, place, reason));
    }
}
