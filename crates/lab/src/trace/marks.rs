//! Which packets came to a place with CE: those that leave with it and did not were marked there.

use std::collections::HashMap;
use std::hash::{Hash as _, Hasher as _};

use datapath::packet::{Ecn, Packet};

/// Marked packets that are at places and have not left them.
#[derive(Clone, Debug, Default)]
pub struct Marks {
    came: HashMap<(u32, u64), u32>,
}

impl Marks {
    /// A packet came to a place.
    pub fn on_arrival(&mut self, place: u32, packet: &Packet) {
        if packet.network.ecn() == Ecn::Ce {
            *self.came.entry((place, name(packet))).or_default() += 1;
        }
    }

    /// A packet has left a place, or was dropped there: whether it had come with CE.
    pub fn on_departure(&mut self, place: u32, packet: &Packet) -> bool {
        if packet.network.ecn() != Ecn::Ce {
            return false;
        }
        let key = (place, name(packet));
        let Some(count) = self.came.get_mut(&key) else { return false };
        *count -= 1;
        if *count == 0 {
            self.came.remove(&key);
        }
        true
    }
}

/// A number for a packet on its way.
fn name(packet: &Packet) -> u64 {
    let mut hasher = rustc_hash::FxHasher::default();
    let ends = (packet.network.src(), packet.network.dst(), packet.body.len);
    let tcp = packet.tcp().map(|tcp| (tcp.src_port, tcp.dst_port, tcp.seq.0, tcp.ack.0));
    (ends, tcp).hash(&mut hasher);
    hasher.finish()
}
