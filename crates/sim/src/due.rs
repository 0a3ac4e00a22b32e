//! Scheduled events of a node, a link or an application, in few bytes.

use crate::event::{EventId, INDEX_BITS, Kind};
use crate::link::{LinkId, NodeId};
use crate::pool::{NUMBER_BITS, PacketId};
use datapath::node::Port;
use datapath::units::{Duration, Instant};

/// A scheduled event.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Due {
    /// When.
    pub at: Instant,
    what: EventData,
}

/// The same in its epoch. Epochs hold very many of these, so they are small.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Entry {
    /// From the top: when, in ns after the epoch begins (32 bits); which event, in the order of those
    /// at one time ([`EventData::first`]).
    key: u64,
    /// [`EventData::second`].
    second: u64,
}

/// The event and its node. Everything needed for an arrival is here, so that the link need not be read.
#[derive(Clone, Copy, Debug)]
struct EventData {
    /// Which event.
    first: EventId,
    /// From the top: the node (22 bits); the port of the arrival (16 bits); whether the packet has been
    /// damaged (1 bit); the number of the arriving packet, or of the notification.
    second: u64,
}

const PORT_BITS: u32 = 16;
const _: () = assert!(INDEX_BITS + PORT_BITS + 1 + NUMBER_BITS == u64::BITS);
/// The arriving packet has been damaged on the link.
const DAMAGED: u64 = 1 << NUMBER_BITS;
const NUMBER: u64 = DAMAGED - 1;

impl EventData {
    #[inline]
    fn new(first: EventId, (node, port): (NodeId, Port), number: u32) -> Self {
        let place = u64::from(node.0) << PORT_BITS | u64::from(port.0);
        Self { first, second: place << (NUMBER_BITS + 1) | u64::from(number) }
    }

    #[inline]
    fn node(self) -> NodeId {
        NodeId((self.second >> (PORT_BITS + NUMBER_BITS + 1)) as u32)
    }

    #[inline]
    fn port(self) -> Port {
        Port((self.second >> (NUMBER_BITS + 1)) as u16)
    }

    #[inline]
    fn number(self) -> u32 {
        (self.second & NUMBER) as u32
    }

    #[inline]
    fn is_damaged(self) -> bool {
        self.second & DAMAGED != 0
    }
}

impl Due {
    /// An event of `node` other than an arrival.
    #[inline]
    pub fn event(at: Instant, id: EventId, node: NodeId) -> Self {
        Self { at, what: EventData::new(id, (node, Port(0)), 0) }
    }

    /// A packet arrives.
    #[inline]
    pub fn arrival(
        at: Instant,
        link: LinkId,
        to: (NodeId, Port),
        packet: PacketId,
        damaged: bool,
    ) -> Self {
        let mut what = EventData::new(EventId::new(Kind::Arrival, link.0), to, packet.0);
        what.second |= if damaged { DAMAGED } else { 0 };
        Self { at, what }
    }

    /// The same in its epoch, `after_ns` after that begins.
    #[inline]
    pub fn entry(self, after_ns: u64) -> Entry {
        Entry {
            key: after_ns << 32 | u64::from(self.what.first.number()),
            second: self.what.second,
        }
    }

    /// The same in the epoch that begins at `begin`.
    #[inline]
    pub fn in_epoch(self, begin: Instant) -> Entry {
        self.entry((self.at - begin).as_nanos())
    }

    /// Which event.
    pub fn id(&self) -> EventId {
        self.what.first
    }

    /// Whose event it is.
    pub fn node(&self) -> NodeId {
        self.what.node()
    }

    /// The same with everything numbered anew.
    pub fn renumbered(self, id: EventId, node: NodeId) -> Self {
        let mut what = EventData::new(id, (node, self.what.port()), self.what.number());
        what.second |= self.what.second & DAMAGED;
        Self { what, ..self }
    }

    /// The same with the arriving packet in this place.
    #[inline]
    pub fn with_packet(self, packet: PacketId) -> Self {
        let second = self.what.second & !NUMBER | u64::from(packet.0);
        Self { what: EventData { second, ..self.what }, ..self }
    }

    /// On which link a packet arrives, if one does.
    pub fn link_of_arrival(&self) -> Option<LinkId> {
        let id = self.id();
        (id.kind() == Kind::Arrival).then(|| LinkId(id.index()))
    }

    /// The packet that arrives.
    pub fn packet(&self) -> PacketId {
        PacketId(self.what.number())
    }
}

impl Entry {
    /// The notification of a ready socket, before all other events of that time. `number`
    /// is that of the notification.
    #[inline]
    pub fn notification(after_ns: u32, node: NodeId, number: u32) -> Self {
        let what = EventData::new(EventId::NOTIFICATION, (node, Port(0)), number);
        Due { at: Instant::ZERO, what }.entry(after_ns.into())
    }

    #[inline]
    fn what(&self) -> EventData {
        EventData { first: self.id(), second: self.second }
    }

    /// Which event, in the order of those at one time.
    #[inline]
    pub fn id(&self) -> EventId {
        EventId::of_number(self.key as u32)
    }

    /// Whose event it is.
    #[inline]
    pub fn node(&self) -> NodeId {
        self.what().node()
    }

    /// Where a packet arrives, if one does.
    #[inline]
    pub fn port(&self) -> Port {
        self.what().port()
    }

    /// The packet that arrives.
    #[inline]
    pub fn packet(&self) -> PacketId {
        PacketId(self.number())
    }

    /// The same, if one does.
    #[inline]
    pub fn arriving(&self) -> Option<PacketId> {
        (self.id().kind() == Kind::Arrival).then(|| self.packet())
    }

    /// Whether the packet that arrives is damaged.
    #[inline]
    pub fn is_damaged(&self) -> bool {
        self.what().is_damaged()
    }

    /// The number that [`notification`](Self::notification) was given.
    #[inline]
    pub fn number(&self) -> u32 {
        self.what().number()
    }

    /// When, in ns after the epoch begins.
    #[inline]
    pub fn after_ns(&self) -> u32 {
        (self.key >> 32) as u32
    }

    /// The sort key: the time from bit 32 on, then the event. Entries with equal keys
    /// keep their order.
    #[inline]
    pub fn key(&self) -> u64 {
        self.key
    }

    /// As it was before it came to the epoch that begins at `begin`.
    pub fn due(self, begin: Instant) -> Due {
        Due { at: begin + Duration::from_nanos(self.after_ns().into()), what: self.what() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_an_entry_was_made_of_comes_out_of_it(
            (link, node, port) in (0u32..1 << INDEX_BITS, 0u32..1 << INDEX_BITS, any::<u16>()),
            (packet, other) in (0u32..1 << NUMBER_BITS, 0u32..1 << NUMBER_BITS),
            after_ns: u32,
            damaged in any::<bool>(),
        ) {
            let begin = Instant::from_nanos(7);
            let at = begin + Duration::from_nanos(after_ns.into());
            let due = Due::arrival(at, LinkId(link), (NodeId(node), Port(port)), PacketId(other), damaged);
            let due = due.with_packet(PacketId(packet));
            let entry = due.in_epoch(begin);
            let id = EventId::new(Kind::Arrival, link);
            prop_assert_eq!((entry.id(), entry.node(), entry.port()), (id, NodeId(node), Port(port)));
            prop_assert_eq!((entry.packet(), entry.is_damaged()), (PacketId(packet), damaged));
            prop_assert_eq!((entry.after_ns(), entry.due(begin).at), (after_ns, at));
            prop_assert_eq!(due.link_of_arrival(), Some(LinkId(link)));
            // Neither the packet nor its fate says anything about the order.
            let like = Due::arrival(at, LinkId(link), (NodeId(node), Port(port)), PacketId(other), !damaged);
            prop_assert_eq!(like.in_epoch(begin).key(), entry.key());
        }

        #[test]
        fn entries_are_ordered_by_time_and_event(
            one in (0u32..9, 0u32..9), other in (0u32..9, 0u32..9),
        ) {
            let key = |(after_ns, index)| {
                let at = Instant::from_nanos(u64::from(after_ns));
                Due::event(at, EventId::new(Kind::Wake, index), NodeId(0)).in_epoch(Instant::ZERO).key()
            };
            prop_assert_eq!(key(one).cmp(&key(other)), one.cmp(&other));
        }
    }
}
