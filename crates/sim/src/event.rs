//! Events, and the order of simultaneous events.
//!
//! Events are totally ordered by (time, kind, index), so that the order never depends on
//! history. At one instant the kinds follow each other as [`Kind`] lists them: first links go up or
//! down, then transmissions end (room before new work), then packets arrive, then nodes wake for
//! their timers (an ACK that arrives at the very moment of a timeout wins), then applications
//! start, stop, wake and, on slow machines, are notified of ready sockets. Within a kind the lower index
//! comes first: links, nodes and applications are numbered in the order in which they were made.
//! Packets on one link that arrive at the same instant keep the order in which they were sent.

/// Index of a link (one direction) in its world.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LinkId(pub u32);

/// Index of a node in its world.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId(pub u32);

/// The kind of an event, in the order of simultaneous events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(crate) enum Kind {
    /// A command of the experiment: a link goes up or down.
    Command,
    /// A link has finished serialising a packet.
    Sent,
    /// A packet reaches the far end of a link.
    Arrival,
    /// A node asked to be polled.
    Wake,
    /// An application starts.
    Start,
    /// An application stops.
    Stop,
    /// An application asked to be called.
    Timer,
    /// Applications of a slow machine are notified of ready sockets.
    Late,
}

/// The kinds by number.
const KINDS: [Kind; 8] = {
    use Kind::{Arrival, Command, Late, Sent, Start, Stop, Timer, Wake};
    [Command, Sent, Arrival, Wake, Start, Stop, Timer, Late]
};

/// The order of simultaneous events: kind, then index. The index is the number of the link, node,
/// application or command concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct EventId(u32);

/// Bits of an index.
pub(crate) const INDEX_BITS: u32 = 22;
const _: () = {
    assert!(KINDS.len() == 8 && INDEX_BITS + 3 <= u32::BITS, "a kind has three bits");
    let mut number = 0;
    while number < KINDS.len() {
        assert!(KINDS[number] as usize == number, "kinds stand in their order");
        number += 1;
    }
};

/// The index of a link, node or application that is added as number `count`.
pub(crate) fn new_index(count: usize) -> u32 {
    assert!(
        count >> INDEX_BITS == 0,
        "more than four million links, nodes, applications or commands"
    );
    count as u32
}

impl EventId {
    /// No event of a node, a link or an application has this one: notifications of ready sockets
    /// come before all other events.
    pub const NOTIFICATION: Self = Self(0);

    #[inline]
    pub fn new(kind: Kind, index: u32) -> Self {
        Self((kind as u32) << INDEX_BITS | index)
    }

    /// The inverse of [`number`](Self::number).
    #[inline]
    pub fn of_number(number: u32) -> Self {
        Self(number)
    }

    /// As a number that sorts like it.
    #[inline]
    pub fn number(self) -> u32 {
        self.0
    }

    /// The kind of the event.
    #[inline]
    pub fn kind(self) -> Kind {
        KINDS[(self.0 >> INDEX_BITS & 7) as usize]
    }

    /// The number of the link, node, application or command.
    #[inline]
    pub fn index(self) -> u32 {
        self.0 & ((1 << INDEX_BITS) - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_index_goes_through_an_event_as_it_is() {
        let last = new_index((1 << INDEX_BITS) - 1);
        let event = EventId::new(Kind::Late, last);
        assert_eq!((event.kind(), event.index()), (Kind::Late, last));
    }

    #[test]
    #[should_panic(expected = "more than four million")]
    fn an_index_that_is_too_large_is_refused() {
        new_index(1 << INDEX_BITS);
    }
}
