//! What is due: something that a node, a link or an application will do, in few bytes.

use crate::event::{EventId, ID_BITS, INDEX_BITS, Kind};
use crate::link::{LinkId, NodeId};
use crate::pool::PacketId;
use datapath::node::Port;
use datapath::units::{Duration, Instant};

/// Something that a node will do.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Due {
    /// When.
    pub at: Instant,
    what: What,
}

/// The same in its epoch. Epochs hold very many of these, so they are small.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    /// From the top: when, in ns after the epoch begins (32 bits); [`What::first`].
    first: u64,
    /// [`What::second`].
    second: u64,
}

/// What happens, and to whom. Whatever an arrival needs is here, so that nobody has to look at the link.
#[derive(Clone, Copy, Debug)]
struct What {
    /// From the top: which event, in the order of those at one time (25 bits); damaged (1 bit); the first
    /// bits of the number.
    first: u32,
    /// From the top: the node (22 bits); the port at which something arrives (16 bits); the other bits
    /// of the number: that of the packet that arrives, or of what became ready.
    second: u64,
}

const PORT_BITS: u32 = 16;
const NUMBER_BITS: u32 = u64::BITS - INDEX_BITS - PORT_BITS;
const ID_SHIFT: u32 = u32::BITS - ID_BITS;
/// What arrives has been damaged on the way.
const DAMAGED: u32 = 1 << (ID_SHIFT - 1);
/// The first bits of a number.
const HIGH_NUMBER: u32 = DAMAGED - 1;
const _: () = assert!(ID_SHIFT - 1 + NUMBER_BITS == u32::BITS);

impl What {
    #[inline]
    fn new(id: EventId, (node, port): (NodeId, Port), number: u32) -> Self {
        let place = u64::from(node.0) << PORT_BITS | u64::from(port.0);
        Self { first: id.number() << ID_SHIFT, second: place << NUMBER_BITS }.with_number(number)
    }

    /// The same with another number.
    #[inline]
    fn with_number(self, number: u32) -> Self {
        let low = (1 << NUMBER_BITS) - 1;
        Self {
            first: self.first & !HIGH_NUMBER | number >> NUMBER_BITS,
            second: self.second & !low | u64::from(number) & low,
        }
    }

    #[inline]
    fn id(self) -> EventId {
        EventId::of_number(self.first >> ID_SHIFT)
    }

    #[inline]
    fn node(self) -> NodeId {
        NodeId((self.second >> (PORT_BITS + NUMBER_BITS)) as u32)
    }

    #[inline]
    fn port(self) -> Port {
        Port((self.second >> NUMBER_BITS) as u16)
    }

    #[inline]
    fn number(self) -> u32 {
        (self.first & HIGH_NUMBER) << NUMBER_BITS | self.second as u32 & ((1 << NUMBER_BITS) - 1)
    }
}

impl Due {
    /// An event of `node` in which nothing arrives.
    #[inline]
    pub fn event(at: Instant, id: EventId, node: NodeId) -> Self {
        Self { at, what: What::new(id, (node, Port(0)), 0) }
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
        let mut what = What::new(EventId::new(Kind::Arrival, link.0), to, packet.0);
        what.first |= if damaged { DAMAGED } else { 0 };
        Self { at, what }
    }

    /// The same in its epoch, so many ns after that begins.
    #[inline]
    pub fn entry(self, after_ns: u64) -> Entry {
        Entry { first: after_ns << 32 | u64::from(self.what.first), second: self.what.second }
    }

    /// The same in the epoch that begins at `begin`.
    #[inline]
    pub fn in_epoch(self, begin: Instant) -> Entry {
        self.entry((self.at - begin).as_nanos())
    }

    /// Which event.
    pub fn id(&self) -> EventId {
        self.what.id()
    }

    /// Whose event it is.
    pub fn node(&self) -> NodeId {
        self.what.node()
    }

    /// The same with everything numbered anew.
    pub fn renumbered(self, id: EventId, node: NodeId) -> Self {
        let mut what = What::new(id, (node, self.what.port()), self.what.number());
        what.first |= self.what.first & DAMAGED;
        Self { what, ..self }
    }

    /// The same with the arriving packet in this place.
    #[inline]
    pub fn with_packet(self, packet: PacketId) -> Self {
        Self { what: self.what.with_number(packet.0), ..self }
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
    /// An application hears that something has become ready: before all else at that time. `number`
    /// is that of what became ready.
    #[inline]
    pub fn notification(after_ns: u32, node: NodeId, number: u32) -> Self {
        let due = Due {
            at: Instant::ZERO,
            what: What::new(EventId::NOTIFICATION, (node, Port(0)), number),
        };
        due.entry(after_ns.into())
    }

    #[inline]
    fn what(&self) -> What {
        What { first: self.first as u32, second: self.second }
    }

    /// Which event, in the order of those at one time.
    #[inline]
    pub fn id(&self) -> EventId {
        self.what().id()
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
        self.first as u32 & DAMAGED != 0
    }

    /// The number that [`notification`](Self::notification) was given.
    #[inline]
    pub fn number(&self) -> u32 {
        self.what().number()
    }

    /// When, in ns after the epoch begins.
    #[inline]
    pub fn after_ns(&self) -> u32 {
        (self.first >> 32) as u32
    }

    /// What entries are ordered by: when, from bit 32 on, then which event. Those that are equal in this
    /// keep their order.
    #[inline]
    pub fn key(&self) -> u64 {
        self.first & !u64::from(DAMAGED | HIGH_NUMBER)
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
            (packet, other, after_ns) in (any::<u32>(), any::<u32>(), any::<u32>()),
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
