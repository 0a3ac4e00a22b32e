//! What happens, and the order of what happens at one instant.
//!
//! Events are totally ordered by (time, kind, index), so that what happens never depends on
//! history. At one instant the kinds follow each other as [`Kind`] lists them: first links go up or
//! down, then transmissions end (room before new work), then packets arrive, then nodes wake for
//! their timers (an ACK that arrives at the very moment of a timeout wins), then applications
//! start, stop, wake and, on slow machines, hear of what became ready. Within a kind the lower index
//! comes first: links, nodes and applications are numbered in the order in which they were made.
//! Packets on one link that arrive at the same instant keep the order in which they were sent.

/// What an event is about, in the order of equals.
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
    /// Applications of a slow machine hear what became ready.
    Late,
}

/// The kinds by number.
const KINDS: [Kind; 8] = [
    Kind::Command,
    Kind::Sent,
    Kind::Arrival,
    Kind::Wake,
    Kind::Start,
    Kind::Stop,
    Kind::Timer,
    Kind::Late,
];

/// What events of one instant are ordered by: kind, then index, which says to whom it happens. It
/// numbers a link, a node, an application or a command.
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

/// The index of what is added as number `count` of its kind.
pub(crate) fn new_index(count: usize) -> u32 {
    assert!(
        count >> INDEX_BITS == 0,
        "more than four million links, nodes, applications or commands"
    );
    count as u32
}

impl EventId {
    /// No event of a node, a link or an application has this one: applications that hear what became
    /// ready come before all else.
    pub const NOTIFICATION: Self = Self(0);

    #[inline]
    pub fn new(kind: Kind, index: u32) -> Self {
        Self((kind as u32) << INDEX_BITS | index)
    }

    /// The one of this [`number`](Self::number).
    #[inline]
    pub fn of_number(number: u32) -> Self {
        Self(number)
    }

    /// As a number that sorts like it.
    #[inline]
    pub fn number(self) -> u32 {
        self.0
    }

    /// What the event is about.
    #[inline]
    pub fn kind(self) -> Kind {
        KINDS[(self.0 >> INDEX_BITS & 7) as usize]
    }

    /// To whom it happens.
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
