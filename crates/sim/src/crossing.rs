//! Packets that cross from one partition to another.

use crate::due::Due;
use datapath::packet::Packet;

/// Packets and their arrivals, in order. Slots are reused: each packet is copied once on its
/// way in and once on its way out.
#[derive(Debug, Default)]
pub(crate) struct Crossings {
    arrivals: Vec<Due>,
    /// At least as many as arrivals; further slots are unused.
    packets: Vec<Packet>,
}

/// Places are prefetched this many packets ahead: another core has used them last.
const AHEAD: usize = 6;

impl Crossings {
    pub fn is_empty(&self) -> bool {
        self.arrivals.is_empty()
    }

    /// Appends a packet, which is moved from its place.
    #[inline]
    pub fn push(&mut self, arrival: Due, packet: &mut Packet) {
        let place = self.arrivals.len();
        if place == self.packets.len() {
            self.packets.push(Packet::default());
        } else if let Some(soon) = self.packets.get(place + AHEAD) {
            soon.prefetch();
        }
        packet.move_to(&mut self.packets[place]);
        self.arrivals.push(arrival);
    }

    /// Hands over everything, and is empty then.
    #[inline]
    pub fn drain(&mut self, mut admit: impl FnMut(Due, &mut Packet)) {
        for (place, arrival) in self.arrivals.drain(..).enumerate() {
            if let Some(soon) = self.packets.get(place + AHEAD) {
                soon.prefetch();
            }
            admit(arrival, &mut self.packets[place]);
        }
    }
}
