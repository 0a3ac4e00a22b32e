//! Qdiscs from outside: a library user's own, behind one type.
//!
//! Built-in qdiscs are variants of a closed enum, so that a port's calls are direct. A user's qdisc cannot
//! be one: a single variant holds it in a box, and only ports with one pay for the dynamic
//! dispatch.

use super::{Backlog, Cx, Enqueue, Qdisc, Stats};
use crate::packet::Packet;
use crate::units::Instant;
use core::fmt;

/// What a qdisc needs to be a guest. Implemented for every [`Qdisc`] that can be cloned and sent to other
/// threads.
pub trait GuestQdisc: Qdisc + Send + Sync {
    /// A copy with all queued packets.
    fn boxed_clone(&self) -> Box<dyn GuestQdisc>;
}

impl<Q: Qdisc + Clone + Send + Sync + 'static> GuestQdisc for Q {
    fn boxed_clone(&self) -> Box<dyn GuestQdisc> {
        Box::new(self.clone())
    }
}

/// A user's qdisc, with the name and the options that it was made by.
pub struct Guest {
    kind: &'static str,
    options: String,
    qdisc: Box<dyn GuestQdisc>,
}

impl Guest {
    /// A qdisc of that kind (`Qdisc_ops.id`); `options` are the words that `tc qdisc show` prints.
    pub fn new(
        kind: &'static str,
        options: impl Into<String>,
        qdisc: impl Into<Box<dyn GuestQdisc>>,
    ) -> Self {
        Self { kind, options: options.into(), qdisc: qdisc.into() }
    }

    /// What it is called.
    pub fn kind(&self) -> &'static str {
        self.kind
    }

    /// The words that it was made by.
    pub fn options(&self) -> &str {
        &self.options
    }
}

impl Clone for Guest {
    fn clone(&self) -> Self {
        Self { qdisc: self.qdisc.boxed_clone(), options: self.options.clone(), ..*self }
    }
}

impl fmt::Debug for Guest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Guest({} {})", self.kind, self.options)
    }
}

impl Qdisc for Guest {
    fn enqueue(&mut self, packet: Packet, cx: &mut Cx<'_>) -> Enqueue {
        self.qdisc.enqueue(packet, cx)
    }

    fn dequeue(&mut self, cx: &mut Cx<'_>) -> Option<Packet> {
        self.qdisc.dequeue(cx)
    }

    fn enqueue_from(&mut self, place: &mut Packet, cx: &mut Cx<'_>) -> Enqueue {
        self.qdisc.enqueue_from(place, cx)
    }

    fn dequeue_into(&mut self, place: &mut Packet, cx: &mut Cx<'_>) -> bool {
        self.qdisc.dequeue_into(place, cx)
    }

    fn purge(&mut self, cx: &mut Cx<'_>) {
        self.qdisc.purge(cx);
    }

    fn wake_at(&self) -> Option<Instant> {
        self.qdisc.wake_at()
    }

    fn backlog(&self) -> Backlog {
        self.qdisc.backlog()
    }

    fn stats(&self) -> Stats {
        self.qdisc.stats()
    }
}
