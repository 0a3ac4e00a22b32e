//! netem's slots: two of them are at least the minimum distance apart, and no more leaves in one than it allows.

use std::collections::VecDeque;

use datapath::packet::Packet;
use datapath::qdisc::netem::{Netem, Slot};
use datapath::units::{Duration, Instant};

use super::call::Call;
use crate::case::BrokenLaw;

/// Packets and bytes that left in the last slot.
#[derive(Clone, Debug)]
pub struct SlotUsage {
    slot: Slot,
    recent: VecDeque<(Instant, u32)>,
}

impl SlotUsage {
    /// Only where all packets leave by slots.
    pub fn of(netem: &Netem) -> Option<Self> {
        let config = netem.config();
        let plain = config.reorder.0 == 0 && netem.child().is_none();
        config.slot.filter(|_| plain).map(|slot| Self { slot, recent: VecDeque::new() })
    }

    /// The device asked. Whatever left within the least distance of slots left in one slot.
    pub fn on_dequeue(
        &mut self,
        call: &Call<'_>,
        packet: Option<&Packet>,
    ) -> Result<(), BrokenLaw> {
        let Some(packet) = packet else { return Ok(()) };
        let distance = Duration::from_nanos(self.slot.min_delay);
        while self.recent.front().is_some_and(|(at, _)| *at + distance <= call.now) {
            self.recent.pop_front();
        }
        let (packets, bytes) = (self.recent.len(), self.recent.iter().map(|(_, len)| len).sum());
        let Slot { packets: most, bytes: most_bytes, .. } = self.slot;
        let room: u32 = bytes;
        if most > 0 && packets >= most as usize || most_bytes > 0 && room >= most_bytes {
            let what =
                format!("after {packets} packets of {bytes} bytes another one: {:?}", self.slot);
            return Err(("slots", what));
        }
        self.recent.push_back((call.now, packet.wire_len()));
        Ok(())
    }
}
