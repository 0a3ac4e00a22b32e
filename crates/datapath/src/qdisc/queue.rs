//! A plain queue of packets that knows its length in packets and bytes (`struct qdisc_skb_head`).

use super::Backlog;
use crate::packet::Packet;
use std::collections::VecDeque;

/// Packets in order of arrival.
#[derive(Clone, Debug, Default)]
pub struct PacketQueue {
    packets: VecDeque<Packet>,
    bytes: u32,
}

impl PacketQueue {
    /// Appends `packet`.
    #[inline]
    pub fn push_back(&mut self, packet: Packet) {
        self.bytes += packet.wire_len();
        self.packets.push_back(packet);
    }

    /// Appends the packet that lies in `place`.
    #[inline]
    pub fn push_back_from(&mut self, place: &mut Packet) {
        self.bytes += place.wire_len();
        self.packets.push_back(place.take());
    }

    /// Puts `packet` before all others.
    pub fn push_front(&mut self, packet: Packet) {
        self.bytes += packet.wire_len();
        self.packets.push_front(packet);
    }

    /// Takes the oldest packet.
    #[inline]
    pub fn pop_front(&mut self) -> Option<Packet> {
        let packet = self.packets.pop_front()?;
        self.bytes -= packet.wire_len();
        Some(packet)
    }

    /// Moves the oldest packet to `place`; false if there is none.
    #[inline]
    pub fn pop_front_into(&mut self, place: &mut Packet) -> bool {
        let Some(oldest) = self.packets.front_mut() else { return false };
        oldest.move_to(place);
        self.packets.pop_front();
        self.bytes -= place.wire_len();
        true
    }

    /// The oldest packet.
    pub fn front(&self) -> Option<&Packet> {
        self.packets.front()
    }

    /// True if nothing waits.
    pub fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    /// Packets and bytes that wait.
    #[inline]
    pub fn backlog(&self) -> Backlog {
        Backlog { packets: self.packets.len() as u32, bytes: self.bytes }
    }
}
