//! Groups of nodes whose events are processed together in the order of time, and the length of epochs.
//!
//! What one node does reaches another after the delay of a link at the earliest. Nodes joined by links shorter than an
//! epoch can affect each other within it, so they are one group. Groups cannot affect each other within an epoch, which
//! is as long as the shortest delay between them, their look-ahead.

use crate::balance::Balance;
use crate::link::{Link, NodeId};
use datapath::units::Duration;

/// How nodes are grouped. Results do not depend on it.
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
#[derive(Clone, Debug, Default)]
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
    pub fn new(nodes: usize, links: &[&Link], join: Option<Duration>) -> Self {
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
        let group = |node: NodeId| of_node[node.0 as usize];
        let between = links.iter().filter(|link| group(link.from.0) != group(link.to.0));
        let Some(shortest) = between.map(|link| link.delay()).min() else { return Self::one() };
        Self { of_node, count: count as usize, width: shortest.as_nanos().min(WIDTH_MAX) }
    }

    /// The same groups among these nodes alone.
    pub fn among(&self, nodes: &[u32]) -> Self {
        let mut of_node: Vec<u32> = nodes.iter().map(|node| self.of(*node)).collect();
        let count = number_used(&mut of_node);
        Self { of_node, count, width: self.width }
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

    /// The group of each node, where there are several.
    pub fn by_node(&self) -> impl Iterator<Item = u32> {
        self.of_node.iter().copied()
    }

    /// Whether each node is a group.
    pub fn are_single(&self) -> bool {
        self.count == self.of_node.len()
    }
}

/// Numbers what is used from zero, in order; gives how many there are.
pub(crate) fn number_used(numbers: &mut [u32]) -> usize {
    let mut used = numbers.to_vec();
    used.sort_unstable();
    used.dedup();
    for number in numbers {
        *number = used.partition_point(|it| it < number) as u32;
    }
    used.len()
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

/// Chooses which delays join nodes and whether several threads work, by how much there is to do in an epoch.
#[derive(Debug)]
pub(crate) struct Chooser {
    pub grouping: Grouping,
    /// Threads that may work.
    pub threads: usize,
    /// Whether more than one does.
    parallel: bool,
    /// The different delays of links, shortest first, without zero.
    delays: Vec<Duration>,
    /// Links shorter than the delay at this index join nodes; past the end, all do.
    place: usize,
    /// Epochs with events since the last choice, and the number of these events.
    epochs: u64,
    events: u64,
    /// Events per epoch before that.
    pub usual: u64,
    /// Epochs to look at before the next choice.
    patience: u64,
    pub balance: Balance,
}

/// Epochs with fewer events than this are too short.
const EVENTS_LEAST: u64 = 8;
/// The same for several threads, which meet after each.
const EVENTS_PARALLEL: u64 = 128;
/// Events for which it pays to wake threads.
const EVENTS_OF_START: u64 = 1024;
/// Epochs between two choices, at first.
const EPOCHS: u64 = 256;
/// Mean events per epoch from which on the choice is made earlier.
const EVENTS_PER_EPOCH: u64 = 64;

impl Chooser {
    pub fn new(grouping: Grouping, threads: usize, links: &[Link]) -> Self {
        let delays = links.iter().map(Link::delay).filter(|delay| *delay > Duration::ZERO);
        let mut delays: Vec<Duration> = delays.collect();
        delays.sort_unstable();
        delays.dedup();
        Self {
            grouping,
            threads,
            parallel: grouping == Grouping::Finest,
            delays,
            place: 0,
            epochs: 0,
            events: 0,
            usual: 0,
            patience: EPOCHS,
            balance: Balance::new(grouping == Grouping::Adaptive),
        }
    }

    /// Nodes joined by links with less delay than this are grouped.
    pub fn join(&self) -> Option<Duration> {
        let joins_all = self.grouping == Grouping::One;
        self.delays.get(self.place).copied().filter(|_| !joins_all)
    }

    /// How many threads work.
    pub fn threads(&self) -> usize {
        if self.parallel { self.threads } else { 1 }
    }

    /// Whether it pays to wake them for so long.
    pub fn pays(&self, span: Duration) -> bool {
        let epochs = span.as_nanos() / self.width(self.place);
        self.grouping == Grouping::Finest || self.usual.saturating_mul(epochs) >= EVENTS_OF_START
    }

    /// Counts `events` that these epochs had. True if nodes are to be grouped anew.
    #[inline]
    pub fn count(&mut self, epochs: u64, events: u64) -> bool {
        if events > 0 {
            self.epochs += epochs;
            self.events += events;
        }
        (self.epochs >= self.patience || self.events >= EVENTS_PER_EPOCH * self.patience)
            && self.grouping == Grouping::Adaptive
            && self.choose()
    }

    fn width(&self, place: usize) -> u64 {
        self.delays.get(place).map_or(WIDTH_OF_ONE, |delay| delay.as_nanos().min(WIDTH_MAX))
    }

    /// An estimate of the events per epoch, if the delay at this index joined nodes.
    fn held(&self, place: usize) -> u64 {
        let held = u128::from(self.usual) * u128::from(self.width(place));
        (held / u128::from(self.width(self.place))) as u64
    }

    /// The shortest epochs are chosen that hold enough.
    fn choose(&mut self) -> bool {
        self.usual = self.events / self.epochs;
        (self.epochs, self.events) = (0, 0);
        let best = self.best();
        let changes = best != (self.place, self.parallel);
        self.usual = self.held(best.0);
        (self.place, self.parallel) = best;
        if changes {
            // While the choice is unclear, it is made less and less often.
            self.patience = (self.patience * 2).min(1 << 20);
        }
        changes
    }

    fn best(&self) -> (usize, bool) {
        let (usual, place) = (self.usual, self.place);
        let enough = |place: usize, least: u64| self.held(place) >= 2 * least;
        if self.threads > 1 {
            if self.parallel && usual >= EVENTS_PARALLEL {
                let shorter = place.checked_sub(1).filter(|it| enough(*it, EVENTS_PARALLEL));
                return (shorter.unwrap_or(place), true);
            }
            if let Some(place) = (0..self.delays.len()).find(|it| enough(*it, EVENTS_PARALLEL)) {
                return (place, true);
            }
        }
        if usual < EVENTS_LEAST && place < self.delays.len() {
            return (place + 1, false);
        }
        let shorter = place.checked_sub(1).filter(|it| enough(*it, EVENTS_LEAST));
        (shorter.unwrap_or(place), false)
    }
}
