//! Which nodes are worked off together, in the order of time, and how long epochs are.
//!
//! What one node does reaches another after the delay of a link at the earliest. Nodes joined by
//! links shorter than an epoch hear of each other within it, so they are one group. Groups do not
//! hear of each other within an epoch, which is as long as the shortest delay between them, their
//! look-ahead.

use crate::link::Link;
use datapath::units::Duration;

/// How nodes are grouped. The results are the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Grouping {
    /// All nodes are one group: one event after the other.
    One,
    /// As many groups as there can be while epochs hold enough to do.
    #[default]
    Adaptive,
    /// As many groups as there can be: only links without delay join nodes.
    Finest,
}

/// Groups of nodes.
#[derive(Debug, Default)]
pub(crate) struct Groups {
    /// By node: its group. Empty if all nodes are one.
    of_node: Vec<u32>,
    count: usize,
    /// Length of an epoch, ns.
    pub width: u64,
}

/// Epochs are no longer than this.
const WIDTH_MAX: u64 = 100_000_000;
/// How long they are with one group, where nothing limits them.
const WIDTH_OF_ONE: u64 = 64_000;

impl Groups {
    /// Nodes joined by links with less delay than `join` are one group; without a limit, all are.
    pub fn new(nodes: usize, links: &[Link], join: Option<Duration>) -> Self {
        let Some(join) = join else { return Self::one() };
        let mut roots: Vec<u32> = (0..nodes as u32).collect();
        for link in links.iter().filter(|link| link.delay() < join) {
            let (from, to) = (link.from.0.0, link.to.0.0);
            let (from, to) = (root(&mut roots, from), root(&mut roots, to));
            roots[from.max(to) as usize] = from.min(to);
        }
        // The first node of a group is its root: groups are numbered in the order of these.
        let mut of_node = vec![0; nodes];
        let mut count = 0;
        for node in 0..nodes as u32 {
            let root = root(&mut roots, node);
            of_node[node as usize] = if root == node { count } else { of_node[root as usize] };
            count += u32::from(root == node);
        }
        let between =
            |link: &&Link| of_node[link.from.0.0 as usize] != of_node[link.to.0.0 as usize];
        let shortest = links.iter().filter(between).map(|link| link.delay().as_nanos()).min();
        match shortest {
            Some(shortest) => {
                Self { of_node, count: count as usize, width: shortest.min(WIDTH_MAX) }
            }
            None => Self::one(),
        }
    }

    fn one() -> Self {
        Self { of_node: Vec::new(), count: 1, width: WIDTH_OF_ONE }
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.count
    }

    /// The group of a node.
    #[inline]
    pub fn of(&self, node: u32) -> u32 {
        self.of_node[node as usize]
    }

    /// Whether each node is a group.
    pub fn are_single(&self) -> bool {
        self.count == self.of_node.len()
    }
}

/// The first node of its group so far.
fn root(roots: &mut [u32], mut node: u32) -> u32 {
    while roots[node as usize] != node {
        let above = roots[node as usize];
        roots[node as usize] = roots[above as usize];
        node = above;
    }
    node
}

/// Chooses which delays join nodes, by how much there is to do in an epoch.
#[derive(Debug)]
pub(crate) struct Chooser {
    grouping: Grouping,
    /// The different delays of links, shortest first, without zero.
    delays: Vec<Duration>,
    /// Links shorter than that of this place join nodes; behind the last, all do.
    place: usize,
    /// Epochs in which something happened since the last choice, and how much did.
    epochs: u64,
    events: u64,
    /// So many epochs are looked at before the next choice.
    patience: u64,
}

/// Epochs that hold fewer events than this are too short.
const EVENTS_LEAST: u64 = 8;
/// After so many epochs it is asked whether they are.
const EPOCHS: u64 = 256;

impl Chooser {
    pub fn new(grouping: Grouping, links: &[Link]) -> Self {
        let delays = links.iter().map(Link::delay).filter(|delay| *delay > Duration::ZERO);
        let mut delays: Vec<Duration> = delays.collect();
        delays.sort_unstable();
        delays.dedup();
        Self { grouping, delays, place: 0, epochs: 0, events: 0, patience: EPOCHS }
    }

    /// Which delays join nodes: shorter ones than this.
    pub fn join(&self) -> Option<Duration> {
        match self.grouping {
            Grouping::One => None,
            Grouping::Adaptive | Grouping::Finest => self.delays.get(self.place).copied(),
        }
    }

    /// An epoch had so many events. True if nodes are to be grouped anew.
    #[inline]
    pub fn count(&mut self, events: u64) -> bool {
        if events > 0 {
            self.epochs += 1;
            self.events += events;
        }
        self.epochs >= self.patience && self.grouping == Grouping::Adaptive && self.choose()
    }

    /// The shortest epochs are chosen that hold enough, as far as one can tell.
    fn choose(&mut self) -> bool {
        let events = self.events / self.epochs;
        (self.epochs, self.events) = (0, 0);
        let before = self.place;
        if events < EVENTS_LEAST && self.place < self.delays.len() {
            self.place += 1;
        } else if let Some(shorter) = self.place.checked_sub(1) {
            let now = self.delays.get(self.place).map_or(WIDTH_OF_ONE, |delay| delay.as_nanos());
            let held = u128::from(events) * u128::from(self.delays[shorter].as_nanos());
            if held / u128::from(now) >= 2 * u128::from(EVENTS_LEAST) {
                self.place = shorter;
            }
        }
        let changes = self.place != before;
        if changes {
            // Who cannot decide is asked less and less often.
            self.patience = (self.patience * 2).min(1 << 20);
        }
        changes
    }
}
