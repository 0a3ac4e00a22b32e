//! Nodes, links and applications in virtual time: what a world is made of, and how it runs.
//!
//! Links have events (a transmission ends, a packet arrives), and so have nodes (a timer) and applications. Their
//! handlers are in `crate::partition`, their order is in `crate::event`, and [`crate::epoch`] advances time.

use crate::divide::{Shard, join};
use crate::division::Division;
use crate::epoch::Epoch;
use crate::event::{Kind, new_index};
use crate::groups::{Chooser, Grouping};
use crate::link::{Link, LinkConfig, LinkId, NodeId};
use crate::log::{OUTSIDE, Rank, Records};
use crate::partition::{Partition, Softirqs};
use crate::record::{Interest, Observer, Watcher};
use crate::state::{AppState, DelayedReady, NO_LINK, NodeState};
use crate::threads::ThreadPool;
use apps::{App, AppReport, Streams};
use datapath::host::Host;
use datapath::node::Port;
use datapath::rng::Rng;
use datapath::units::{Duration, Instant};
use std::any::Any;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

pub use crate::state::{HOP_BYTES, WorldStats};

/// Index of an application in its world.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AppId(pub u32);

/// Nodes, links, applications, and scheduled events.
pub struct World {
    /// One for each thread.
    pub(crate) shards: Vec<Shard>,
    /// Which node, link and application is in which of them.
    pub(crate) division: Division,
    pub(crate) chooser: Chooser,
    pub(crate) thread_pool: ThreadPool,
    /// Links or nodes have been added since the world last ran.
    pub(crate) grown: bool,
    /// Observers have been added, or links that they may want to see.
    pub(crate) unasked: bool,
    /// Links that go up or down.
    pub(crate) commands: Vec<(LinkId, bool)>,
    /// When, and which.
    pub(crate) due_commands: BinaryHeap<Reverse<(Instant, u32)>>,
    pub(crate) observers: Vec<(Interest, Box<dyn Observer>)>,
    seed: u64,
}

impl World {
    /// An empty world at time zero.
    pub fn new(seed: u64) -> Self {
        Self {
            shards: vec![Shard { part: Partition::new(), epoch: Epoch::default() }],
            division: Division::default(),
            chooser: Chooser::new(Grouping::default(), 1, &[]),
            thread_pool: ThreadPool::default(),
            grown: true,
            unasked: false,
            commands: Vec::new(),
            due_commands: BinaryHeap::new(),
            observers: Vec::new(),
            seed,
        }
    }

    /// The current virtual time.
    pub fn now(&self) -> Instant {
        self.shards[0].part.now
    }

    /// Counters.
    pub fn stats(&self) -> WorldStats {
        let mut all = WorldStats::default();
        self.shards.iter().for_each(|shard| all.add(&shard.part.stats));
        all
    }

    /// Chooses how nodes are grouped. The results are the same.
    pub fn set_grouping(&mut self, grouping: Grouping) {
        self.chooser.grouping = grouping;
        self.grown = true;
    }

    /// Lets up to `threads` threads work while the world runs, where that pays; at least one does. The
    /// results are the same.
    pub fn set_threads(&mut self, threads: usize) {
        self.chooser.threads = threads.max(1);
        self.grown = true;
    }

    /// How many threads share the world now: one until it has run for a while, and as long as it has little to do.
    pub fn partitions(&self) -> usize {
        self.shards.len()
    }

    /// Merges all partitions into one, so that something can be added.
    pub(crate) fn whole(&mut self) -> &mut Partition {
        if self.shards.len() > 1 {
            let width = self.shards[0].epoch.groups.width;
            let division = core::mem::take(&mut self.division);
            self.shards = vec![join(core::mem::take(&mut self.shards), &division, width)];
            self.grown = true;
            self.unasked = true;
        }
        &mut self.shards[0].part
    }

    /// Makes room for exactly these numbers of nodes and links.
    pub fn reserve(&mut self, nodes: usize, links: usize) {
        let part = self.whole();
        part.nodes.reserve_exact(nodes);
        part.links.reserve_exact(links);
    }

    /// Adds a node.
    pub fn add_node(&mut self, host: Host) -> NodeId {
        self.grown = true;
        let part = self.whole();
        let id = NodeId(new_index(part.nodes.len()));
        part.nodes.push(NodeState::new(host));
        id
    }

    fn node(&self, node: NodeId) -> &NodeState {
        let at = self.division.node(node);
        &self.shards[at.part].part.nodes[at.index as usize]
    }

    /// Applications on `node` are notified of ready sockets only after `delay`, as on a busy machine;
    /// elsewhere after a nanosecond.
    pub fn slow_apps(&mut self, node: NodeId, delay: Duration) {
        let node = &mut self.whole().nodes[node.0 as usize];
        let waits = node.late.as_ref().is_some_and(|late| !late.ready.is_empty());
        assert!(!waits, "set before the world runs");
        let late = || Box::new(DelayedReady { by: delay, ready: VecDeque::new() });
        node.late = (delay > Duration::ZERO).then(late);
    }

    /// Makes all nodes name spaces of one machine, which has one order of softirqs. A timer that may be late is so if
    /// `slack_is_used`; else an interrupt for a timer of one name space fires those of others that need not be. For
    /// recordings; one thread works on such a world.
    pub fn on_one_machine(&mut self, slack_is_used: bool) {
        let part = self.whole();
        part.one_machine = true;
        part.machine.slack_is_used = slack_is_used;
    }

    /// Applications take no time at all: they run when their socket becomes ready, after all other events of that time.
    pub fn prompt_apps(&mut self) {
        self.whole().apps_run_after = Duration::ZERO;
    }

    /// What this node sends in a softirq, and not from an application, belongs to its socket until the far end has it
    /// in the same softirq: TCP Small Queues stop it meanwhile. Rules of its links are a program's.
    pub fn play_softirqs(&mut self, node: NodeId) {
        let part = self.whole();
        let behind_box = part.links.iter().any(|link| link.far.0 == node && link.is_impaired());
        part.machine.softirqs = Some(Box::new(Softirqs::new(node, behind_box)));
        part.nodes[node.0 as usize].host.on_one_machine().enter_softirq(true);
    }

    /// True if applications have been notified of everything that became ready so far.
    pub fn all_notified(&self) -> bool {
        self.shards.iter().all(|Shard { part, .. }| {
            let mut late = part.nodes.iter().flat_map(|node| &node.late);
            part.pending.is_empty() && late.all(|late| late.ready.is_empty())
        })
    }

    /// A node's host.
    pub fn host(&self, node: NodeId) -> &Host {
        &self.node(node).host
    }

    /// Changes a node from outside, then polls it at once.
    pub fn with_host<R>(&mut self, node: NodeId, act: impl FnOnce(Instant, &mut Host) -> R) -> R {
        self.begin_outside();
        let at = self.division.node(node);
        let part = &mut self.shards[at.part].part;
        let result = act(part.now, &mut part.nodes[at.index as usize].host);
        part.pump(NodeId(at.index));
        self.end_outside();
        result
    }

    /// What follows is caused from outside: it is ordered after all events of this time.
    pub(crate) fn begin_outside(&mut self) {
        self.ask_observers();
        for shard in &mut self.shards {
            shard.part.rank = Rank::of_event(shard.part.run, OUTSIDE);
        }
    }

    pub(crate) fn end_outside(&mut self) {
        self.shards.iter_mut().for_each(|shard| shard.part.notify_later());
        self.settle();
    }

    /// Delivers packets that cross between partitions, and shows observers what has happened.
    pub(crate) fn settle(&mut self) {
        if let [only] = self.shards.as_mut_slice() {
            return only.part.log.records.show(&mut self.observers);
        }
        for from in 0..self.shards.len() {
            for to in 0..self.shards.len() {
                let mut out = core::mem::take(&mut self.shards[from].part.out[to]);
                out.drain(|arrival, packet| self.shards[to].part.admit(arrival, packet));
                self.shards[from].part.out[to] = out;
            }
            self.shards[from].part.out_at = Instant::FAR_FUTURE;
        }
        for Shard { part, .. } in &mut self.shards {
            part.log.records.close(&part.names);
        }
        let all = self.shards.iter_mut().map(|shard| &mut shard.part.log.records);
        Records::show_all(&mut all.collect::<Vec<_>>(), &mut self.observers);
    }

    /// Adds one direction of a wire and grants its port the first credits.
    pub fn add_link(
        &mut self,
        config: &LinkConfig,
        from: (NodeId, Port),
        to: (NodeId, Port),
    ) -> LinkId {
        let seed = self.seed;
        let part = self.whole();
        let id = LinkId(new_index(part.links.len()));
        part.links.push(Link::new(config, from, to, seed, id));
        let node = &mut part.nodes[from.0.0 as usize];
        let ports = node.host.port_count();
        assert!(usize::from(from.1.0) < ports, "a link from a port that does not exist");
        node.links.resize(ports, NO_LINK);
        let slot = &mut node.links[usize::from(from.1.0)];
        assert!(*slot == NO_LINK, "a port has one link");
        *slot = id;
        self.grown = true;
        self.unasked |= !self.observers.is_empty();
        self.with_host(from.0, |now, host| {
            host.set_xmit_more(from.1, true);
            host.grant(now, from.1, config.ring);
        });
        id
    }

    /// A link.
    pub fn link(&self, link: LinkId) -> &Link {
        let at = self.division.link(link);
        &self.shards[at.part].part.links[at.index as usize]
    }

    /// Packets that are on a link, being serialised or on the way; a super-packet is one. Counted when asked for.
    pub fn in_flight(&self, link: LinkId) -> usize {
        let at = self.division.far_end(link);
        self.shards[at.part].part.calendar.count(LinkId(at.index))
    }

    /// All links, in the order in which they were made.
    pub fn links(&self) -> impl Iterator<Item = (LinkId, &Link)> {
        let count = self.division.links.len().max(self.shards[0].part.links.len());
        (0..count as u32).map(|link| (LinkId(link), self.link(LinkId(link))))
    }

    /// A link, to change it.
    pub fn link_mut(&mut self, link: LinkId) -> &mut Link {
        let at = self.division.link(link);
        &mut self.shards[at.part].part.links[at.index as usize]
    }

    /// How many nodes there are.
    pub fn node_count(&self) -> usize {
        self.shards.iter().map(|shard| shard.part.nodes.len()).sum()
    }

    /// The link behind a port.
    pub fn link_of(&self, node: NodeId, port: Port) -> LinkId {
        let names = &self.shards[self.division.node(node).part].part.names;
        names.link(self.node(node).links[usize::from(port.0)])
    }

    /// Adds an observer of the world.
    pub fn observe(&mut self, observer: Box<dyn Observer>) {
        self.observers.push((observer.interest(), observer));
        self.unasked = true;
    }

    /// Adds an observer of packets put on one link only: there may be many at no cost to the other links.
    pub fn watch(&mut self, link: LinkId, watcher: Box<dyn Watcher>) {
        self.link_mut(link).watchers.get_or_insert_default().0.push(watcher);
    }

    /// The first of this type that [watches](Self::watch) a link.
    pub fn watcher<T: Watcher>(&self, link: LinkId) -> Option<&T> {
        let mut all = self.link(link).watchers.as_ref()?.0.iter();
        all.find_map(|watcher| (&**watcher as &dyn Any).downcast_ref())
    }

    /// Puts an application on a node, to run from `start` to `stop`.
    pub fn add_app(
        &mut self,
        node: NodeId,
        app: Box<dyn App>,
        start: Instant,
        stop: Option<Instant>,
    ) -> AppId {
        let seed = self.seed;
        let part = self.whole();
        let index = new_index(part.apps.len());
        part.apps.push(AppState {
            app,
            node,
            timer: start,
            running: false,
            rng: Rng::stream(seed, APP_STREAMS + u64::from(index)),
        });
        part.push_app(start, Kind::Start, index);
        if let Some(stop) = stop {
            part.push_app(stop, Kind::Stop, index);
        }
        AppId(index)
    }

    /// The report of an application.
    pub fn report(&self, app: AppId) -> AppReport {
        self.app(app).report()
    }

    /// An application, to read it.
    pub fn app(&self, app: AppId) -> &dyn App {
        let at = self.division.app(app.0);
        &*self.shards[at.part].part.apps[at.index as usize].app
    }

    /// From now on the applications of all existing nodes write and read bytes where they know only
    /// lengths. The events stay the same.
    pub fn carry_bytes(&mut self) {
        for Shard { part, .. } in &mut self.shards {
            part.nodes.iter_mut().for_each(|node| node.streams = Some(Box::default()));
        }
    }

    /// What the connections of each node carry, where that is [bytes](Self::carry_bytes).
    pub fn streams(&self) -> impl Iterator<Item = (NodeId, &Streams)> + Clone {
        let nodes = (0..self.node_count() as u32).map(NodeId);
        nodes.filter_map(|node| Some((node, self.node(node).streams.as_deref()?)))
    }

    /// Takes both ends of a link up or down at `at`: packets on it and in the queue before it are lost.
    pub fn set_link_up_at(&mut self, at: Instant, link: LinkId, up: bool) {
        assert!(at >= self.now(), "nothing can be scheduled for the past");
        let index = new_index(self.commands.len());
        self.commands.push((link, up));
        self.due_commands.push(Reverse((at, index)));
    }
}

/// Random streams of applications are numbered from here, away from those of links.
const APP_STREAMS: u64 = 1 << 40;
