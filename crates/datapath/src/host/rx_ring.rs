//! Packets that wait for the interrupt of a port.

use crate::packet::Packet;
use crate::units::{Duration, Instant};

/// How long after the arrivals of a moment an interrupt is served at the earliest.
const INTERRUPT_AFTER: Duration = Duration::from_nanos(1);

/// Packets that wait for the next interrupt of a port.
#[derive(Debug)]
pub(super) struct RxRing {
    /// The first of these hold waiting packets; the others are unused.
    pub places: Vec<Packet>,
    pub waiting: usize,
    /// When it comes; `FAR_FUTURE` if nothing waits.
    pub due: Instant,
    /// Segments that others may join, kept for their memory.
    pub held: Vec<Packet>,
}

impl Default for RxRing {
    fn default() -> Self {
        let due = Instant::FAR_FUTURE;
        Self { places: Vec::new(), waiting: 0, due, held: Vec::new() }
    }
}

impl RxRing {
    /// Puts the packet in `place` into the ring; gives the time of the interrupt, `rx_usecs` from now, if this
    /// is the first.
    pub fn push(&mut self, now: Instant, rx_usecs: u32, place: &mut Packet) -> Option<Instant> {
        if self.waiting == self.places.len() {
            self.places.push(Packet::default());
        }
        place.move_to(&mut self.places[self.waiting]);
        self.waiting += 1;
        let delay = Duration::from_micros(u64::from(rx_usecs)).max(INTERRUPT_AFTER);
        (self.due == Instant::FAR_FUTURE).then(|| {
            self.due = now + delay;
            self.due
        })
    }
}
