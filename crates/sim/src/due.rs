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
    /// The packet that arrives, or the number of what became ready.
    what: u32,
    whose: Whose,
}

/// The same in its epoch. Epochs hold very many of these, so they are small.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    /// When, in ns after the epoch begins.
    after_ns: u32,
    what: u32,
    whose: Whose,
}

/// From the top: which event, in the order of those at one time; the port at which something
/// arrives (16 bits); the node (22 bits). Whatever an arrival needs is here, so that nobody has
/// to look at the link.
#[derive(Clone, Copy, Debug)]
struct Whose(u64);

const PORT_BITS: u32 = 16;
const _: () = assert!(ID_BITS + PORT_BITS + INDEX_BITS <= u64::BITS);
/// What arrives has been damaged on the way.
const DAMAGED: u32 = 1 << 31;

impl Whose {
    #[inline]
    fn new(id: EventId, node: NodeId, port: Port) -> Self {
        let place = u64::from(port.0) << INDEX_BITS | u64::from(node.0);
        Self(u64::from(id.number()) << (INDEX_BITS + PORT_BITS) | place)
    }

    #[inline]
    fn id(self) -> EventId {
        EventId::of_number((self.0 >> (INDEX_BITS + PORT_BITS)) as u32)
    }

    #[inline]
    fn node(self) -> NodeId {
        NodeId((self.0 & ((1 << INDEX_BITS) - 1)) as u32)
    }

    #[inline]
    fn port(self) -> Port {
        Port((self.0 >> INDEX_BITS) as u16)
    }
}

impl Due {
    /// An event of `node` in which nothing arrives.
    #[inline]
    pub fn event(at: Instant, id: EventId, node: NodeId) -> Self {
        Self { at, what: 0, whose: Whose::new(id, node, Port(0)) }
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
        debug_assert!(packet.0 < DAMAGED, "two thousand million packets");
        let what = packet.0 | if damaged { DAMAGED } else { 0 };
        let id = EventId::new(Kind::Arrival, link.0);
        Self { at, what, whose: Whose::new(id, to.0, to.1) }
    }

    /// The same in its epoch, so many ns after that begins.
    #[inline]
    pub fn entry(self, after_ns: u64) -> Entry {
        Entry { after_ns: after_ns as u32, what: self.what, whose: self.whose }
    }

    /// The same in the epoch that begins at `begin`.
    #[inline]
    pub fn in_epoch(self, begin: Instant) -> Entry {
        self.entry((self.at - begin).as_nanos())
    }

    /// Which event.
    pub fn id(&self) -> EventId {
        self.whose.id()
    }

    /// On which link a packet arrives, if one does.
    pub fn link_of_arrival(&self) -> Option<LinkId> {
        let id = self.id();
        (id.kind() == Kind::Arrival).then(|| LinkId(id.index()))
    }

    /// The packet that arrives.
    pub fn packet(&self) -> PacketId {
        PacketId(self.what & !DAMAGED)
    }
}

impl Entry {
    /// An application hears that something has become ready: before all else at that time. `number`
    /// is that of what became ready.
    #[inline]
    pub fn notification(after_ns: u32, node: NodeId, number: u32) -> Self {
        Self { after_ns, what: number, whose: Whose::new(EventId::NOTIFICATION, node, Port(0)) }
    }

    /// Which event, in the order of those at one time.
    #[inline]
    pub fn id(&self) -> EventId {
        self.whose.id()
    }

    /// Whose event it is.
    #[inline]
    pub fn node(&self) -> NodeId {
        self.whose.node()
    }

    /// Where a packet arrives, if one does.
    #[inline]
    pub fn port(&self) -> Port {
        self.whose.port()
    }

    /// The packet that arrives.
    #[inline]
    pub fn packet(&self) -> PacketId {
        PacketId(self.what & !DAMAGED)
    }

    /// The same, if one does.
    #[inline]
    pub fn arriving(&self) -> Option<PacketId> {
        (self.id().kind() == Kind::Arrival).then_some(self.packet())
    }

    /// Whether the packet that arrives is damaged.
    #[inline]
    pub fn is_damaged(&self) -> bool {
        self.what & DAMAGED != 0
    }

    /// The number that [`notification`](Self::notification) was given.
    #[inline]
    pub fn number(&self) -> u32 {
        self.what
    }

    /// When, in ns after the epoch begins.
    #[inline]
    pub fn after_ns(&self) -> u32 {
        self.after_ns
    }

    /// What entries are ordered by. Those that are equal in this keep their order.
    #[inline]
    pub fn key(&self) -> u64 {
        u64::from(self.after_ns) << 32 | u64::from(self.id().number())
    }

    /// As it was before it came to the epoch that begins at `begin`.
    pub fn due(self, begin: Instant) -> Due {
        let at = begin + Duration::from_nanos(self.after_ns.into());
        Due { at, what: self.what, whose: self.whose }
    }
}
