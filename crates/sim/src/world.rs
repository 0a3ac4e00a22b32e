//! Nodes, links and applications in virtual time: what a world is made of, and how it runs.
//!
//! Links have events (a transmission ends, a packet arrives), and so have nodes (a timer) and
//! applications. What they do stands in [`crate::partition`], in which order in [`crate::event`], how
//! time goes on in [`crate::epoch`].

use crate::app::{App, AppReport};
use crate::epoch::Epoch;
use crate::event::{EventId, Kind, new_index};
use crate::groups::{Chooser, Grouping, Groups};
use crate::link::{Link, LinkConfig, LinkId, NodeId};
use crate::log::Rank;
use crate::partition::{AppState, NO_LINK, NodeState, Partition};
use crate::record::{Observer, Sees};
use datapath::host::Host;
use datapath::node::Port;
use datapath::reason::Reason;
use datapath::rng::Rng;
use datapath::units::{Duration, Instant};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Index of an application in its world.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AppId(pub u32);

/// What happened in a world so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct WorldStats {
    /// Events that happened.
    pub events: u64,
    /// Packets put on links: the packet-hops. Each segment of a super-packet counts.
    pub hops: u64,
    /// Those of [`HOP_BYTES`] or more: the hops that speed is measured in.
    pub full_hops: u64,
    /// Packets that nodes dropped.
    pub node_drops: u64,
    /// Packets that links lost.
    pub link_drops: u64,
}

/// From this wire length on a packet counts as MTU-sized.
pub const HOP_BYTES: u32 = 1400;

/// Nodes, links, applications, and what is to happen.
pub struct World {
    part: Partition,
    epoch: Epoch,
    chooser: Chooser,
    grouping: Grouping,
    /// Links or nodes have come since the world last ran.
    grown: bool,
    /// Observers have come, or links that they may want to see.
    unasked: bool,
    /// Links that go up or down.
    commands: Vec<(LinkId, bool)>,
    /// When, and which.
    due_commands: BinaryHeap<Reverse<(Instant, u32)>>,
    observers: Vec<(Sees, Box<dyn Observer>)>,
    seed: u64,
}

impl World {
    /// An empty world at time zero.
    pub fn new(seed: u64) -> Self {
        Self {
            part: Partition::new(),
            epoch: Epoch::default(),
            chooser: Chooser::new(Grouping::default(), &[]),
            grouping: Grouping::default(),
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
        self.part.now
    }

    /// Counters.
    pub fn stats(&self) -> &WorldStats {
        &self.part.stats
    }

    /// Chooses how nodes are grouped. The results are the same.
    pub fn set_grouping(&mut self, grouping: Grouping) {
        self.grouping = grouping;
        self.grown = true;
    }

    /// Adds a node.
    pub fn add_node(&mut self, host: Host) -> NodeId {
        let id = NodeId(new_index(self.part.nodes.len()));
        self.part.nodes.push(NodeState::new(host));
        self.grown = true;
        id
    }

    /// Applications on `node` hear what became ready only after `delay`, as on a busy machine;
    /// elsewhere it takes a nanosecond.
    pub fn slow_apps(&mut self, node: NodeId, delay: Duration) {
        let node = &mut self.part.nodes[node.0 as usize];
        assert!(node.late.is_empty(), "set before the world runs");
        node.late_by = delay;
    }

    /// True if applications have heard of everything that became ready so far.
    pub fn all_notified(&self) -> bool {
        self.part.pending.is_empty() && self.part.nodes.iter().all(|node| node.late.is_empty())
    }

    /// A node's host.
    pub fn host(&self, node: NodeId) -> &Host {
        &self.part.nodes[node.0 as usize].host
    }

    /// Changes a node from outside; what it then has to say is heard at once.
    pub fn with_host<R>(&mut self, node: NodeId, act: impl FnOnce(Instant, &mut Host) -> R) -> R {
        self.begin_outside();
        let result = act(self.part.now, &mut self.part.nodes[node.0 as usize].host);
        self.part.pump(node);
        self.end_outside();
        result
    }

    /// What happens now comes from outside: after all events of this time.
    fn begin_outside(&mut self) {
        self.ask_observers();
        self.part.rank = Rank::of_event(self.part.run, u32::MAX);
    }

    fn end_outside(&mut self) {
        self.part.notify_later();
        self.part.log.show(&mut self.observers);
    }

    /// Adds one direction of a wire and grants its port the first credits.
    pub fn add_link(
        &mut self,
        config: &LinkConfig,
        from: (NodeId, Port),
        to: (NodeId, Port),
    ) -> LinkId {
        let id = LinkId(new_index(self.part.links.len()));
        let ring = config.ring;
        self.part.links.push(Link::new(config, from, to, self.seed, id));
        self.grown = true;
        self.unasked |= !self.observers.is_empty();
        let node = &mut self.part.nodes[from.0.0 as usize];
        let ports = node.host.port_count();
        assert!(usize::from(from.1.0) < ports, "a link from a port that does not exist");
        node.links.resize(ports, NO_LINK);
        let slot = &mut node.links[usize::from(from.1.0)];
        assert!(*slot == NO_LINK, "a port has one link");
        *slot = id;
        self.with_host(from.0, |now, host| {
            host.set_xmit_more(from.1, true);
            host.grant(now, from.1, ring);
        });
        id
    }

    /// A link.
    pub fn link(&self, link: LinkId) -> &Link {
        &self.part.links[link.0 as usize]
    }

    /// Packets that are on a link, being serialised or on the way; a super-packet is one. Counted when
    /// asked for.
    pub fn in_flight(&self, link: LinkId) -> usize {
        self.part.calendar.count(link)
    }

    /// All links, in the order in which they were made.
    pub fn links(&self) -> impl Iterator<Item = (LinkId, &Link)> {
        self.part.links.iter().enumerate().map(|(index, link)| (LinkId(index as u32), link))
    }

    /// A link, to change it.
    pub fn link_mut(&mut self, link: LinkId) -> &mut Link {
        &mut self.part.links[link.0 as usize]
    }

    /// How many nodes there are.
    pub fn node_count(&self) -> usize {
        self.part.nodes.len()
    }

    /// The link behind a port.
    pub fn link_of(&self, node: NodeId, port: Port) -> LinkId {
        self.part.nodes[node.0 as usize].links[usize::from(port.0)]
    }

    /// Lets somebody see what happens.
    pub fn observe(&mut self, observer: Box<dyn Observer>) {
        self.observers.push((observer.sees(), observer));
        self.unasked = true;
    }

    /// Lets somebody see what is put on one link, and nothing else: many may do so at no cost to the
    /// other links.
    pub fn watch(&mut self, link: LinkId, observer: Box<dyn Observer>) {
        let index = link.0 as usize;
        let watchers = &mut self.part.watchers;
        if index >= watchers.len() {
            watchers.resize_with(index + 1, Vec::new);
        }
        watchers[index].push(observer);
    }

    /// Puts an application on a node, to run from `start` to `stop`.
    pub fn add_app(
        &mut self,
        node: NodeId,
        app: Box<dyn App>,
        start: Instant,
        stop: Option<Instant>,
    ) -> AppId {
        let index = new_index(self.part.apps.len());
        self.part.apps.push(AppState {
            app: Some(app),
            node,
            timer: Instant::FAR_FUTURE,
            running: false,
            rng: Rng::stream(self.seed, APP_STREAMS + u64::from(index)),
        });
        self.part.push_app(start, Kind::Start, index);
        if let Some(stop) = stop {
            self.part.push_app(stop, Kind::Stop, index);
        }
        AppId(index)
    }

    /// What an application has to show.
    pub fn report(&self, app: AppId) -> AppReport {
        let app = self.part.apps[app.0 as usize].app.as_ref();
        app.expect("nobody asks in the middle of a call").report()
    }

    /// Takes both ends' view of a link up or down at `at`: what is on it and in the queue before
    /// it is lost.
    pub fn set_link_up_at(&mut self, at: Instant, link: LinkId, up: bool) {
        assert!(at >= self.part.now, "nothing can be scheduled for the past");
        let index = new_index(self.commands.len());
        self.commands.push((link, up));
        self.due_commands.push(Reverse((at, index)));
    }

    /// Runs until `end`, events at `end` included. The time is then `end`.
    pub fn run_until(&mut self, end: Instant) {
        self.begin_run();
        let mut done = self.part.now;
        while self.run_epoch(&mut done, end) {}
        self.part.now = self.part.now.max(end);
        self.begin_outside();
        // Who looks at a node from outside sees it at this time.
        for index in 0..self.part.nodes.len() {
            self.part.pump(NodeId(index as u32));
        }
        self.end_outside();
    }

    /// Runs until `end` and shows the world to `look` at every multiple of `interval` from now
    /// on, after all events of that moment.
    pub fn run_sampled(
        &mut self,
        end: Instant,
        interval: Duration,
        mut look: impl FnMut(Instant, &World),
    ) {
        assert!(interval > Duration::ZERO, "samples need some time between them");
        let mut next = self.part.now;
        while next <= end {
            self.run_until(next);
            look(next, self);
            next += interval;
        }
        self.run_until(end);
    }

    /// Runs until nothing is left to happen, or `end`.
    pub fn run_to_quiet(&mut self, end: Instant) {
        self.begin_run();
        let mut done = self.part.now;
        while self.is_anything_left() && self.run_epoch(&mut done, end) {}
        self.part.now = if self.is_anything_left() { end } else { self.part.latest };
    }

    fn is_anything_left(&self) -> bool {
        !self.part.pending.is_empty()
            || !self.due_commands.is_empty()
            || self.part.is_anything_due()
    }

    fn begin_run(&mut self) {
        self.part.run += 1;
        self.part.latest = self.part.now;
        self.ask_observers();
        if core::mem::take(&mut self.grown) {
            self.chooser = Chooser::new(self.grouping, &self.part.links);
            self.regroup();
        }
    }

    /// Observers are asked what they want to see.
    fn ask_observers(&mut self) {
        if core::mem::take(&mut self.unasked) {
            self.part.log.ask(&self.observers, &self.part.links);
        }
    }

    fn regroup(&mut self) {
        let Partition { nodes, links, calendar, now, .. } = &mut self.part;
        self.epoch.groups = Groups::new(nodes.len(), links, self.chooser.join());
        *calendar = calendar.with_width(self.epoch.groups.width, *now);
    }

    /// Works off the next epoch in which something happens, up to `end`, from `done` on, before which
    /// everything is done; false if there is none. Links go up or down between epochs.
    fn run_epoch(&mut self, done: &mut Instant, end: Instant) -> bool {
        let calendar = &self.part.calendar;
        let command = self.due_commands.peek().map(|Reverse((at, _))| *at);
        let pending = (!self.part.pending.is_empty()).then_some(self.part.pending_at);
        let others = [command, pending].into_iter().flatten().map(|at| calendar.number(at));
        let Some(number) = calendar.first().into_iter().chain(others).min() else { return false };
        let begin = calendar.begin(number).max(*done);
        if begin > end {
            return false;
        }
        if command.is_some_and(|at| at <= begin) {
            self.run_command();
            return true;
        }
        let after = calendar.begin(number + 1).min(end + Duration::from_nanos(1));
        let after = command.map_or(after, |at| at.min(after));
        let before = self.part.stats.events;
        self.epoch.run(&mut self.part, number, after);
        self.part.log.show(&mut self.observers);
        *done = after;
        if self.chooser.count(self.part.stats.events - before) {
            self.regroup();
        }
        true
    }

    /// A command is due, and nothing before it but what applications are to hear at that time.
    fn run_command(&mut self) {
        let Some(Reverse((at, index))) = self.due_commands.pop() else { return };
        self.part.now = at;
        if self.part.pending_at == at {
            core::mem::swap(&mut self.part.ready, &mut self.part.pending);
            self.part.ready.sort_by_key(|ready| ready.rank);
            self.part.call_ready_apps();
        }
        let number = EventId::new(Kind::Command, index).number();
        self.part.rank = Rank::of_event(self.part.run, number);
        self.part.count_event();
        let (link, up) = self.commands[index as usize];
        self.set_link_up(link, up);
        self.end_outside();
    }

    fn set_link_up(&mut self, id: LinkId, up: bool) {
        let link = &mut self.part.links[id.0 as usize];
        link.up = up;
        let (node, port) = link.from;
        if !up {
            for packet in self.part.calendar.sever(id) {
                self.part.on_link_drop(id, Reason::LinkDown, packet);
            }
        }
        self.part.nodes[node.0 as usize].host.set_port_up(self.part.now, port, up);
        self.part.pump(node);
    }
}

/// Random streams of applications are numbered from here, away from those of links.
const APP_STREAMS: u64 = 1 << 40;
