//! The outputs of a host: packets, drops and events that `poll` is going to return.

use super::inline_queue::InlineQueue;
use super::port::SpareCutting;
use crate::node::{Port, SocketReady};
use crate::packet::Packet;
use crate::reason::Reason;
use crate::trace::Event;
use std::collections::VecDeque;

/// Everything that waits for `poll`. It is empty whenever a host is idle.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    /// Packets that bypass the queue: for the wire of a port, past its empty queue.
    pub direct: Direct,
    /// Ports that have something to send and credit to send it with.
    pub sending: InlineQueue<u16>,
    pub ready: InlineQueue<SocketReady>,
    /// Where queues and layers put what they drop.
    pub dropped: Vec<(Reason, Packet)>,
    /// How many of those `poll` has returned; 0 if there are none.
    reported: usize,
    /// For the next super-packet that is cut.
    pub spare: SpareCutting,
    /// Outputs that few hosts have; made at first use.
    unusual: Option<Box<Unusual>>,
}

/// Outputs of hosts that send to themselves, or whose connections are traced.
#[derive(Debug, Default)]
struct Unusual {
    /// Packets from the host to itself (`loopback_xmit`).
    looped_back: VecDeque<Packet>,
    events: VecDeque<Event>,
}

/// Packets with their ports, first in, first out. The places are used again from the beginning once
/// all are out, so that they stay in the caches.
#[derive(Debug, Default)]
pub(super) struct Direct {
    /// The first that is not out yet.
    next: u32,
    /// Just past the last; 0 if all are out.
    end: u32,
    places: Vec<Packet>,
    /// The port of what lies in the first place.
    first: u16,
    /// Of the places behind it.
    behind: Vec<u16>,
}

impl Direct {
    /// Appends the packet that lies in `place`.
    #[inline]
    pub fn push_from(&mut self, port: Port, place: &mut Packet) {
        let end = self.end as usize;
        if end == self.places.len() {
            self.grow();
        }
        place.move_to(&mut self.places[end]);
        *self.port_mut(end) = port.0;
        self.end += 1;
    }

    #[inline]
    fn port_mut(&mut self, place: usize) -> &mut u16 {
        if place == 0 { &mut self.first } else { &mut self.behind[place - 1] }
    }

    /// Most hosts never have more than one packet here at a time, so they begin with one place.
    #[cold]
    fn grow(&mut self) {
        if self.places.is_empty() {
            self.places.reserve_exact(1);
        } else {
            self.behind.push(0);
        }
        self.places.push(Packet::default());
    }

    /// Moves the oldest packet to `place` and gives its port.
    #[inline]
    pub fn pop_into(&mut self, place: &mut Packet) -> Option<Port> {
        if self.end == 0 {
            return None;
        }
        let next = self.next as usize;
        self.places[next].move_to(place);
        self.next += 1;
        if self.next == self.end {
            (self.next, self.end) = (0, 0);
        }
        Some(Port(*self.port_mut(next)))
    }
}

impl Outbox {
    /// Prefetches where what answers a packet will be put: an ACK, or the next segments.
    #[inline]
    pub fn prefetch(&self, with_data: bool) {
        if !with_data {
            if let Some(cutting) = &self.spare {
                cutting.prefetch();
            }
        } else if let Some(place) = self.direct.places.first() {
            place.prefetch();
        }
    }

    /// True if nothing waits, of the outputs that most hosts have.
    #[inline]
    pub fn is_empty(&self) -> bool {
        !self.may_send()
            && self.dropped.is_empty()
            && self.ready.is_empty()
            && self.unusual.is_none()
    }

    /// True if there may be something to send, or to be received by the host itself.
    #[inline]
    pub fn may_send(&self) -> bool {
        let unusual = self.unusual.as_ref();
        self.direct.end != 0
            || !self.sending.is_empty()
            || unusual.is_some_and(|it| !it.looped_back.is_empty())
    }

    /// True if there is an output other than a packet to send.
    #[inline]
    pub fn may_tell(&self) -> bool {
        let unusual = self.unusual.as_ref();
        !self.dropped.is_empty()
            || !self.ready.is_empty()
            || unusual.is_some_and(|it| !it.events.is_empty())
    }

    /// A packet from the host to itself waits for its turn.
    pub fn loop_back(&mut self, packet: Packet) {
        self.unusual.get_or_insert_default().looped_back.push_back(packet);
    }

    /// The oldest of those.
    #[inline]
    pub fn next_looped_back(&mut self) -> Option<Packet> {
        self.unusual.as_mut()?.looped_back.pop_front()
    }

    /// Events of traced connections.
    pub fn trace(&mut self, events: impl IntoIterator<Item = Event>) {
        self.unusual.get_or_insert_default().events.extend(events);
    }

    /// The oldest of those.
    pub fn next_event(&mut self) -> Option<Event> {
        self.unusual.as_mut()?.events.pop_front()
    }

    /// The oldest drop not yet returned; there is one as long as `dropped` is not empty.
    pub fn next_drop(&mut self) -> (Reason, Packet) {
        let (reason, packet) = &mut self.dropped[self.reported];
        let next = (*reason, packet.take());
        self.reported += 1;
        if self.reported == self.dropped.len() {
            self.dropped.clear();
            self.reported = 0;
        }
        next
    }
}
