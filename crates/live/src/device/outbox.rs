//! A device's ring: frames that are ready to be sent, in their order.

use super::vnet;
use datapath::packet::Packet;
use std::collections::VecDeque;

/// Places in each device's ring: as many as one system call takes.
pub const RING: usize = crate::sys::BATCH;

/// Frames as they go to the device, each behind its header.
#[derive(Debug, Default)]
pub struct Outbox {
    ready: VecDeque<Vec<u8>>,
    spare: Vec<Vec<u8>>,
    /// Checksums are all computed here.
    complete: bool,
}

impl Outbox {
    /// For a device that computes no checksums.
    pub fn complete() -> Self {
        Self { complete: true, ..Self::default() }
    }

    /// Makes a frame of a packet and puts it behind the others.
    ///
    /// # Panics
    /// If all places are taken.
    pub fn push(&mut self, packet: &Packet) {
        assert!(self.ready.len() < RING, "a packet was sent to a device that has no room");
        let mut bytes = self.spare.pop().unwrap_or_default();
        bytes.clear();
        vnet::write(packet, self.complete, &mut bytes);
        self.ready.push_back(bytes);
    }

    /// The frames, each behind its header.
    pub fn frames(&self) -> impl Iterator<Item = &[u8]> {
        self.ready.iter().map(Vec::as_slice)
    }

    /// The first frame behind its header.
    pub fn first(&self) -> Option<&[u8]> {
        self.ready.front().map(Vec::as_slice)
    }

    /// The first of them are gone.
    pub fn take(&mut self, count: usize) {
        self.spare.extend(self.ready.drain(..count));
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.ready.len()
    }
}
