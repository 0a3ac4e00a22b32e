//! What a host has to say: the packets, drops and news that `poll` is going to hand out.

use super::port::SpareCutting;
use crate::node::{Port, SocketReady};
use crate::packet::Packet;
use crate::qdisc::queue::PacketQueue;
use crate::reason::Reason;
use crate::trace::Event;
use crate::units::Instant;
use std::collections::VecDeque;

/// Everything that waits for `poll`.
///
/// It is empty whenever a host is quiet, so many hosts that are never heard at the same time can use
/// one after the other ([`Host::swap_outbox`](super::Host::swap_outbox)): its memory then stays
/// in the caches.
#[derive(Debug, Default)]
pub struct Outbox {
    /// Packets that need not wait: for the wire of a port, past its empty queue.
    pub(super) direct: PacketQueue,
    /// The port of each.
    pub(super) direct_ports: VecDeque<Port>,
    /// Packets from the host to itself (`loopback_xmit`).
    pub(super) looped_back: VecDeque<Packet>,
    /// Ports that have something to send and credit to send it with.
    pub(super) sending: VecDeque<u16>,
    /// Where queues and layers put what they drop.
    pub(super) dropped: Vec<(Reason, Packet)>,
    pub(super) dropped_out: VecDeque<(Reason, Packet)>,
    pub(super) ready: VecDeque<SocketReady>,
    pub(super) events: VecDeque<Event>,
    /// For the next super-packet that is cut.
    pub(super) spare: SpareCutting,
}

/// What a host is to be asked for next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wants {
    /// Something is due or may be to be sent: [`poll_send`](super::Host::poll_send).
    Send,
    /// There is only something to be told: [`poll_rest`](super::Host::poll_rest).
    Tell,
    /// Nothing until then (`FAR_FUTURE`: until something arrives).
    Nothing(Instant),
}

impl Outbox {
    /// Something may be to be sent, or to be taken in by the host itself.
    #[inline]
    pub(super) fn may_send(&self) -> bool {
        !(self.direct_ports.is_empty() && self.sending.is_empty() && self.looped_back.is_empty())
    }

    /// Whether there is nothing to say.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        let told = self.direct_ports.len() | self.ready.len() | self.events.len();
        let dropped = self.dropped.len() | self.dropped_out.len();
        told | dropped | self.sending.len() | self.looped_back.len() == 0
    }
}
