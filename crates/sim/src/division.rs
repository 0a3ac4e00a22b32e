//! A world divided among threads: which partition has which nodes and links, and their numbers there.
//!
//! A partition numbers its nodes, links and applications from zero, in the order that they have in
//! the whole world, so simultaneous events keep their order. A link that ends in another
//! partition has a number there, too, by which its arrivals are ordered. A world that is
//! not divided is one partition, whose numbers are those of the world.

use crate::event::{EventId, Kind};
use crate::link::{LinkId, NodeId};

/// Global numbers of what a partition has, by its own numbers. Empty if they are the same.
#[derive(Debug, Default)]
pub(crate) struct GlobalIds {
    pub nodes: Vec<u32>,
    pub links: Vec<u32>,
    pub apps: Vec<u32>,
}

/// A number in a partition.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slot {
    pub part: usize,
    pub index: u32,
}

/// The partition and number of everything. Empty if the world is not divided.
#[derive(Debug, Default)]
pub(crate) struct Division {
    pub nodes: Vec<Slot>,
    /// Where each link begins, and where it ends.
    pub links: Vec<[Slot; 2]>,
    pub apps: Vec<Slot>,
    /// The least number of epochs that a packet takes from one partition to another.
    pub epochs_ahead: u64,
}

#[inline]
fn name(names: &[u32], index: u32) -> u32 {
    names.get(index as usize).copied().unwrap_or(index)
}

#[inline]
fn place(places: &[Slot], index: u32) -> Slot {
    places.get(index as usize).copied().unwrap_or(Slot { part: 0, index })
}

impl GlobalIds {
    #[inline]
    pub fn node(&self, node: NodeId) -> NodeId {
        NodeId(name(&self.nodes, node.0))
    }

    #[inline]
    pub fn link(&self, link: LinkId) -> LinkId {
        LinkId(name(&self.links, link.0))
    }

    pub fn app(&self, app: u32) -> u32 {
        name(&self.apps, app)
    }

    #[inline]
    pub fn event(&self, id: EventId) -> EventId {
        let names = match id.kind() {
            Kind::Command => return id,
            Kind::Sent | Kind::Arrival => &self.links,
            Kind::Wake | Kind::Late => &self.nodes,
            Kind::Start | Kind::Stop | Kind::Timer => &self.apps,
        };
        EventId::new(id.kind(), name(names, id.index()))
    }
}

impl Division {
    pub fn node(&self, node: NodeId) -> Slot {
        place(&self.nodes, node.0)
    }

    /// Where a link begins.
    pub fn link(&self, link: LinkId) -> Slot {
        self.links.get(link.0 as usize).map_or(Slot { part: 0, index: link.0 }, |ends| ends[0])
    }

    /// Where it ends.
    pub fn far_end(&self, link: LinkId) -> Slot {
        self.links.get(link.0 as usize).map_or(Slot { part: 0, index: link.0 }, |ends| ends[1])
    }

    pub fn app(&self, app: u32) -> Slot {
        place(&self.apps, app)
    }

    /// Whether the world is not divided.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Whether each node is in the part that `parts` says.
    pub fn are(&self, parts: &[u32]) -> bool {
        self.nodes.iter().map(|at| at.part as u32).eq(parts.iter().copied())
    }

    /// The same event in its partition.
    pub fn event(&self, id: EventId) -> EventId {
        let index = id.index();
        let at = match id.kind() {
            Kind::Command => return id,
            Kind::Sent => self.link(LinkId(index)),
            Kind::Arrival => self.far_end(LinkId(index)),
            Kind::Wake | Kind::Late => self.node(NodeId(index)),
            Kind::Start | Kind::Stop | Kind::Timer => self.app(index),
        };
        EventId::new(id.kind(), at.index)
    }
}

#[cfg(test)]
impl Division {
    /// Nodes in these parts, and nothing else.
    pub fn of_nodes(parts: &[usize]) -> Self {
        let nodes = parts.iter().zip(0..).map(|(&part, index)| Slot { part, index }).collect();
        Self { nodes, ..Self::default() }
    }
}
