//! A device's ring: packets that are ready to be sent, in their order.

use super::arrival::LONGEST;
use super::vnet;
use datapath::packet::{Frames, GRO_MAX_SIZE, Joined, Packet, gro_merge};
use std::collections::VecDeque;

/// Places in each device's ring: as many as one system call takes.
pub const RING: usize = crate::sys::BATCH;

/// A frame in its parts, one behind the other: header and headers, and the payload where it lies.
pub type FrameParts<'a> = [&'a [u8]; 2];

/// Packets as they go to the device.
#[derive(Debug)]
pub struct Outbox {
    ready: VecDeque<Ready>,
    /// Places that are taken: a joined packet has those of its parts.
    taken: usize,
    spare: Vec<Vec<u8>>,
    /// Checksums are all computed here.
    complete: bool,
    /// Segments that leave together are joined up to so many bytes, network header included; 0 if not at all.
    longest: u32,
    /// Where they are joined whose payloads do not lie side by side.
    joining: Frames,
    joined: Joined,
}

/// What goes to the device as one.
#[derive(Debug)]
struct Ready {
    packet: Packet,
    places: usize,
    /// The header and the headers, and the body too unless it is `apart`. Empty until it is to be sent.
    head: Vec<u8>,
    apart: bool,
}

impl Ready {
    fn parts(&self) -> FrameParts<'_> {
        [&self.head, if self.apart { self.packet.body.bytes() } else { &[] }]
    }
}

impl Default for Outbox {
    fn default() -> Self {
        Self {
            ready: VecDeque::with_capacity(RING),
            taken: 0,
            spare: Vec::new(),
            complete: false,
            longest: 0,
            joining: Frames::new(LONGEST as u32, RING),
            joined: Joined::default(),
        }
    }
}

impl Outbox {
    /// For a device that computes no checksums.
    pub fn complete() -> Self {
        Self { complete: true, ..Self::default() }
    }

    /// From now on neighbouring segments of a connection that leave together are joined, as generic receive
    /// offload does, up to `longest` bytes.
    pub fn join_up_to(&mut self, longest: u32) {
        self.longest = longest;
    }

    /// Puts a packet behind the others, or into the last of its connection.
    ///
    /// # Panics
    /// If all places are taken.
    pub fn push(&mut self, packet: &Packet) {
        assert!(self.taken < RING, "a packet was sent to a device that has no room");
        self.taken += 1;
        if self.longest > 0 && packet.tcp().is_some() && self.join(packet) {
            return;
        }
        let mut head = self.spare.pop().unwrap_or_default();
        head.clear();
        self.ready.push_back(Ready { packet: packet.clone(), places: 1, head, apart: false });
    }

    fn join(&mut self, packet: &Packet) -> bool {
        let last = self.ready.iter_mut().rev().find(|ready| same_connection(&ready.packet, packet));
        let Some(last) = last.filter(|last| last.head.is_empty()) else { return false };
        let limit = GRO_MAX_SIZE.min(self.longest + 1);
        let done = gro_merge(&mut last.packet, packet, limit, &mut self.joining, &mut self.joined);
        last.places += usize::from(done);
        done
    }

    /// Writes the headers of all that is ready. They are not joined any more.
    pub fn prepare(&mut self) {
        for ready in self.ready.iter_mut().filter(|ready| ready.head.is_empty()) {
            ready.apart = vnet::write(&ready.packet, self.complete, &mut ready.head);
        }
    }

    /// The frames that are prepared, each behind its header.
    pub fn frames(&self) -> impl Iterator<Item = FrameParts<'_>> {
        self.ready.iter().filter(|ready| !ready.head.is_empty()).map(Ready::parts)
    }

    /// The first of them.
    pub fn first(&self) -> Option<FrameParts<'_>> {
        self.ready.front().map(Ready::parts)
    }

    /// The first of them are gone; how many places that were.
    pub fn take(&mut self, count: usize) -> usize {
        let mut places = 0;
        for ready in self.ready.drain(..count) {
            places += ready.places;
            self.spare.push(ready.head);
            // What is joined here is held by its packet alone, and a device's frame by its pool as well.
            if let Some(frame) = ready.packet.body.frame.filter(|frame| frame.holders() == 1) {
                self.joining.adopt(&frame);
            }
        }
        self.taken -= places;
        places
    }

    /// All are gone.
    pub fn clear(&mut self) {
        self.take(self.ready.len());
    }

    /// How many places are taken.
    pub fn len(&self) -> usize {
        self.taken
    }
}

fn same_connection(one: &Packet, other: &Packet) -> bool {
    one.transport.ports() == other.transport.ports()
        && one.network.src() == other.network.src()
        && one.network.dst() == other.network.dst()
}

#[cfg(test)]
mod tests {
    use super::super::vnet::{VNET_LEN, Vnet, VnetBytes};
    use super::*;
    use datapath::packet::{FrameRef, Partial};

    fn super_packet(payload: usize) -> Packet {
        let frame = FrameRef::from(super::super::arrival::tests::tcp_frame(payload));
        let partial = Some(Partial { start: 34, offset: 16 });
        let vnet = Vnet { partial, verified: false, gso_size: 1_448 };
        super::super::arrival::parse(&frame, 0, vnet, true).expect("a packet")
    }

    fn lengths(outbox: &mut Outbox) -> Vec<usize> {
        outbox.prepare();
        outbox.frames().map(|[head, body]| head.len() - VNET_LEN + body.len()).collect()
    }

    /// What was cut is joined again, up to the limit and no further; places are those of the segments.
    #[test]
    fn segments_are_joined_up_to_the_limit() {
        let whole = super_packet(10 * 1_448);
        for (longest, wanted) in [
            (0, vec![54 + 1_448; 10]),
            (1_500, vec![54 + 1_448; 10]),
            (40 + 3 * 1_448, [vec![54 + 3 * 1_448; 3], vec![54 + 1_448]].concat()),
            (65_535, vec![54 + 10 * 1_448]),
        ] {
            let mut outbox = Outbox::default();
            outbox.join_up_to(longest);
            whole.segment().for_each(|segment| outbox.push(&segment));
            assert_eq!(outbox.len(), 10);
            assert_eq!(lengths(&mut outbox), wanted, "up to {longest}");
            let bytes: Vec<u8> = outbox
                .frames()
                .flat_map(|[head, body]| [&head[VNET_LEN..], body].concat()[54..].to_vec())
                .collect();
            assert_eq!(bytes, whole.body.bytes(), "payload as it was");
            assert_eq!(outbox.take(wanted.len()), 10);
            assert_eq!(outbox.len(), 0);
        }
    }

    /// Payloads that lie apart are copied together, into frames that are used again.
    #[test]
    fn segments_that_lie_apart_are_copied() {
        let mut outbox = Outbox::default();
        outbox.join_up_to(65_535);
        for _ in 0..3 {
            for segment in super_packet(5 * 1_448).segment() {
                let mut bytes = Vec::new();
                segment.emit_whole(&mut bytes);
                let frame = FrameRef::from(bytes);
                let apart = super::super::arrival::parse(&frame, 0, Vnet::default(), true);
                outbox.push(&apart.expect("a packet"));
            }
            assert_eq!(lengths(&mut outbox), [54 + 5 * 1_448]);
            let head: VnetBytes =
                *outbox.frames().next().expect("one")[0].first_chunk().expect("a header");
            assert_eq!(Vnet::read(&head).gso_size, 1_448);
            outbox.clear();
        }
        assert_eq!(outbox.joining.made(), 1, "one frame is enough");
    }

    /// What has been prepared may be on its way to the kernel: nothing is joined to it, nor past it.
    #[test]
    fn nothing_is_merged_into_a_prepared_frame() {
        let mut outbox = Outbox::default();
        outbox.join_up_to(65_535);
        let whole = super_packet(2 * 1_448);
        for segment in whole.segment() {
            outbox.push(&segment);
            outbox.prepare();
        }
        assert_eq!(outbox.frames().count(), 2);
    }
}
