//! The event loop: virtual time, and who is called when.
//!
//! Three things have events: links (a transmission ends, a packet arrives), nodes (a timer), and
//! applications. Packets on their way wait in queues, of a link or of all links that take equally
//! long ([`crate::lanes`]), and only the head is an event. A node's
//! wake-up is only ever moved to an earlier time. See [`crate::schedule`] for the order of events
//! at one instant.

use crate::app::{App, AppCx, AppReport};
use crate::lanes::Lanes;
use crate::link::{Flight, Link, LinkConfig, LinkId, NodeId, Put};
use crate::pool::{PacketId, Pool};
use crate::progress::{Moment, Told};
use crate::record::{Observer, Place};
use crate::schedule::{Event, Kind, Schedule, Slot, new_index};
use crate::windows::Windows;
use datapath::host::Host;
use datapath::node::{Poll, Port, Rx, SocketReady};
use datapath::packet::Memory;
use datapath::reason::Reason;
use datapath::rng::Rng;
use datapath::units::{Duration, Instant};
use std::collections::VecDeque;

/// Index of an application in its world.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AppId(pub u32);

/// What happened in a world so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct WorldStats {
    /// Events taken from the queue.
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

/// So many events are worked off before it is asked again whether windows would be better.
const STEPS: usize = 4096;

/// How long after the arrivals of a moment applications run.
pub(crate) const APPS_RUN_AFTER: Duration = Duration::from_nanos(1);

/// Nodes, links, applications, and what is to happen.
pub struct World {
    pub(crate) now: Instant,
    pub(crate) windows: Windows,
    pub(crate) schedule: Schedule,
    /// Readiness of this moment that no application has heard of yet.
    pub(crate) ready: Vec<(NodeId, SocketReady)>,
    /// Readiness that applications are hearing of.
    called: Vec<(NodeId, SocketReady)>,
    /// Readiness that waits for applications of slow machines.
    late: VecDeque<(NodeId, SocketReady)>,
    /// How late those applications run.
    pub(crate) late_by: Duration,
    pub(crate) nodes: Vec<NodeState>,
    pub(crate) links: Vec<Link>,
    pub(crate) pool: Pool,
    /// A place in the pool for what a node is about to send.
    place: PacketId,
    pub(crate) lanes: Lanes,
    pub(crate) apps: Vec<AppState>,
    commands: Vec<(LinkId, bool)>,
    /// With each, whether it sees what is put on links.
    pub(crate) observers: Vec<(bool, Box<dyn Observer>)>,
    /// Some observer or watcher sees what is put on links.
    pub(crate) shows_sent: bool,
    /// By link: those who see what is put on it.
    watchers: Vec<Vec<Box<dyn Observer>>>,
    seed: u64,
    pub(crate) stats: WorldStats,
    moment: Moment,
}

/// A node in its world.
pub(crate) struct NodeState {
    pub host: Host,
    /// The wake-up that is waited for; `FAR_FUTURE` if none.
    pub wake: Instant,
    pub slot: Slot,
    /// The link behind each port.
    pub links: Vec<LinkId>,
    /// The application that each socket belongs to.
    pub owners: Vec<u32>,
    /// Its applications run late.
    slow: bool,
}

pub(crate) struct AppState {
    /// Out of its place only while it is being called.
    app: Option<Box<dyn App>>,
    pub node: NodeId,
    timer: Instant,
    running: bool,
    rng: Rng,
}

impl NodeState {
    /// The application that will hear of the next packet, as a rule; beyond all if none does.
    #[inline]
    pub fn likely_app(&self) -> usize {
        let owner = self.owners.get(self.host.likely_socket() as usize);
        owner.map_or(usize::MAX, |owner| *owner as usize)
    }
}

impl AppState {
    /// The caches are asked for the application itself.
    #[inline]
    pub fn foresee(&self) {
        if let Some(app) = &self.app {
            app.foresee();
        }
    }
}

/// The link behind a port that has none yet.
const NO_LINK: LinkId = LinkId(u32::MAX);
/// The owner of a socket that no application has claimed.
const NO_APP: u32 = u32::MAX;

impl World {
    /// An empty world at time zero.
    pub fn new(seed: u64) -> Self {
        let mut pool = Pool::default();
        Self {
            now: Instant::ZERO,
            windows: Windows::default(),
            schedule: Schedule::default(),
            nodes: Vec::new(),
            links: Vec::new(),
            place: pool.reserve(),
            pool,
            lanes: Lanes::default(),
            apps: Vec::new(),
            commands: Vec::new(),
            ready: Vec::new(),
            called: Vec::new(),
            late: VecDeque::new(),
            late_by: Duration::ZERO,
            observers: Vec::new(),
            shows_sent: false,
            watchers: Vec::new(),
            seed,
            stats: WorldStats::default(),
            moment: Moment::default(),
        }
    }

    /// The current virtual time.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// Counters.
    pub fn stats(&self) -> &WorldStats {
        &self.stats
    }

    /// Adds a node.
    pub fn add_node(&mut self, host: Host) -> NodeId {
        let id = NodeId(new_index(self.nodes.len()));
        let links = vec![NO_LINK; host.port_count()];
        self.nodes.push(NodeState {
            host,
            wake: Instant::FAR_FUTURE,
            slot: self.schedule.add_slot(Kind::Wake, id.0),
            links,
            owners: Vec::new(),
            slow: false,
        });
        id
    }

    /// Applications on `node` hear what became ready only after `delay`, as on a busy machine;
    /// elsewhere it takes a nanosecond. The delay is the same for all such nodes.
    pub fn slow_apps(&mut self, node: NodeId, delay: Duration) {
        assert!(self.late.is_empty(), "set before the world runs");
        self.nodes[node.0 as usize].slow = delay > Duration::ZERO;
        self.late_by = delay;
    }

    /// True if applications have heard of everything that became ready so far.
    pub fn all_heard(&self) -> bool {
        self.ready.is_empty() && self.late.is_empty()
    }

    /// A node's host.
    pub fn host(&self, node: NodeId) -> &Host {
        &self.nodes[node.0 as usize].host
    }

    /// Changes a node from outside; what it then has to say is heard at once.
    pub fn with_host<R>(&mut self, node: NodeId, act: impl FnOnce(Instant, &mut Host) -> R) -> R {
        let result = act(self.now, &mut self.nodes[node.0 as usize].host);
        self.pump(node);
        result
    }

    /// Adds one direction of a wire and grants its port the first credits.
    pub fn add_link(
        &mut self,
        config: &LinkConfig,
        from: (NodeId, Port),
        to: (NodeId, Port),
    ) -> LinkId {
        self.leave_windows();
        self.windows.note_delay(config.delay);
        let id = LinkId(new_index(self.links.len()));
        let ring = config.ring;
        self.links.push(Link::new(config, from, to, self.seed, id, &mut self.lanes));
        let node = &mut self.nodes[from.0.0 as usize];
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
        &self.links[link.0 as usize]
    }

    /// Packets that are on a link, being serialised or on the way; a super-packet is one. Counted when
    /// asked for.
    pub fn in_flight(&self, link: LinkId) -> usize {
        self.link(link).in_flight(&self.lanes)
    }

    /// All links, in the order in which they were made.
    pub fn links(&self) -> impl Iterator<Item = (LinkId, &Link)> {
        self.links.iter().enumerate().map(|(index, link)| (LinkId(index as u32), link))
    }

    /// A link, to change it.
    pub fn link_mut(&mut self, link: LinkId) -> &mut Link {
        &mut self.links[link.0 as usize]
    }

    /// How many nodes there are.
    pub fn node_count(&self) -> usize {
        self.nodes.len()
    }

    /// The link behind a port.
    pub fn link_of(&self, node: NodeId, port: Port) -> LinkId {
        self.nodes[node.0 as usize].links[usize::from(port.0)]
    }

    /// Lets somebody see what happens.
    pub fn observe(&mut self, observer: Box<dyn Observer>) {
        let sees_sent = observer.sees_sent();
        self.shows_sent |= sees_sent;
        self.observers.push((sees_sent, observer));
    }

    /// Lets somebody see what is put on one link, and nothing else: many may do so at no cost to the
    /// other links.
    pub fn watch(&mut self, link: LinkId, observer: Box<dyn Observer>) {
        let index = link.0 as usize;
        if index >= self.watchers.len() {
            self.watchers.resize_with(index + 1, Vec::new);
        }
        self.shows_sent = true;
        self.watchers[index].push(observer);
    }

    /// Puts an application on a node, to run from `start` to `stop`.
    pub fn add_app(
        &mut self,
        node: NodeId,
        app: Box<dyn App>,
        start: Instant,
        stop: Option<Instant>,
    ) -> AppId {
        let index = new_index(self.apps.len());
        self.apps.push(AppState {
            app: Some(app),
            node,
            timer: Instant::FAR_FUTURE,
            running: false,
            rng: Rng::stream(self.seed, APP_STREAMS + u64::from(index)),
        });
        self.schedule(start, Kind::Start, index);
        if let Some(stop) = stop {
            self.schedule(stop, Kind::Stop, index);
        }
        AppId(index)
    }

    /// What an application has to show.
    pub fn report(&self, app: AppId) -> AppReport {
        let app = self.apps[app.0 as usize].app.as_ref();
        app.expect("nobody asks in the middle of a call").report()
    }

    /// Takes both ends' view of a link up or down at `at`: what is on it and in the queue before
    /// it is lost.
    pub fn set_link_up_at(&mut self, at: Instant, link: LinkId, up: bool) {
        let index = new_index(self.commands.len());
        self.commands.push((link, up));
        self.schedule(at, Kind::Command, index);
    }

    fn schedule(&mut self, at: Instant, kind: Kind, index: u32) {
        assert!(at >= self.now, "nothing can be scheduled for the past");
        let event = Event::new(at, kind, index);
        if self.windows.holds(at) {
            self.windows.push(event);
        } else {
            self.schedule.push(event);
        }
    }

    /// Somebody waits for `at`.
    #[inline]
    fn arm(&mut self, slot: Slot, at: Instant) {
        if self.windows.holds(at) {
            self.windows.push(slot.event(at));
        } else {
            self.schedule.set(slot, at);
        }
    }

    /// What was waited for has come.
    #[inline]
    fn disarm(&mut self, slot: Slot) {
        if !self.windows.is_open() {
            self.schedule.vacate(slot);
        }
    }

    /// Runs until `end`, events at `end` included. The time is then `end`.
    pub fn run_until(&mut self, end: Instant) {
        while !self.run_windows(end) && self.step_on(end) {}
        self.now = self.now.max(end);
        // Who looks at a node from outside sees it at this time.
        for index in 0..self.nodes.len() {
            self.pump(NodeId(index as u32));
        }
    }

    /// Works off some of the events up to `end`, all or none of a moment; false if those were all.
    fn step_on(&mut self, end: Instant) -> bool {
        let mut left = STEPS;
        while let Some(event) = self.next_event(end) {
            if left == 0 && event.at > self.now {
                return true;
            }
            left = left.saturating_sub(1);
            self.step(event);
        }
        false
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
        let mut next = self.now;
        while next <= end {
            self.run_until(next);
            look(next, self);
            next += interval;
        }
        self.run_until(end);
    }

    /// Runs until nothing is left to happen, or `end`.
    pub fn run_to_quiet(&mut self, end: Instant) {
        self.leave_windows();
        while let Some(event) = self.next_event(end) {
            self.step(event);
        }
        if self.peek() != Event::NEVER || !self.ready.is_empty() {
            self.now = end;
        }
    }

    /// The next event up to `end`. Before time goes on, applications hear what this moment has
    /// brought: as on a machine, they run when the interrupts of the moment have been served,
    /// which is a nanosecond later.
    #[inline]
    fn next_event(&mut self, end: Instant) -> Option<Event> {
        loop {
            let next = self.peek();
            if next.at > self.now && !self.ready.is_empty() {
                let at = self.now + APPS_RUN_AFTER;
                if at > end {
                    return None;
                }
                self.now = at;
                self.call_ready_apps();
                continue;
            }
            return (next.at <= end && next != Event::NEVER).then_some(next);
        }
    }

    /// The next event, of the schedule or of a lane; [`Event::NEVER`] if there is none.
    #[inline]
    fn peek(&mut self) -> Event {
        self.schedule.peek(self.now).min(self.lanes.first())
    }

    pub(crate) fn call_ready_apps(&mut self) {
        // What they bring about themselves is the next moment's.
        core::mem::swap(&mut self.ready, &mut self.called);
        for index in 0..self.called.len() {
            let (node, ready) = self.called[index];
            self.hear(node, ready);
        }
        self.called.clear();
    }

    #[inline]
    pub(crate) fn step(&mut self, event: Event) {
        assert!(event.at >= self.now, "time ran backwards");
        self.now = event.at;
        if event.kind().is_once() {
            self.schedule.pop();
        }
        self.happen(event);
    }

    /// Does what an event says, which is due now.
    #[inline]
    pub(crate) fn happen(&mut self, event: Event) {
        self.count_event();
        let index = event.index();
        match event.kind() {
            Kind::Sent => self.on_sent(LinkId(index)),
            Kind::Arrival => self.on_arrival(LinkId(index)),
            Kind::Wake => self.on_wake(NodeId(index)),
            Kind::Command => {
                let (link, up) = self.commands[index as usize];
                self.set_link_up(link, up);
            }
            Kind::Start => {
                self.apps[index as usize].running = true;
                self.call_app(index, |app, cx| app.start(cx));
            }
            Kind::Stop => {
                self.call_app(index, |app, cx| app.stop(cx));
                self.apps[index as usize].running = false;
            }
            Kind::Timer => self.on_app_timer(index),
            Kind::Late => {
                let (node, ready) = self.late.pop_front().expect("one for each event");
                self.hear(node, ready);
            }
        }
    }

    /// An application hears that something has become ready, and what its node then has to say is
    /// heard.
    pub(crate) fn hear(&mut self, node: NodeId, ready: SocketReady) {
        self.on_ready(node, ready);
        self.pump(node);
    }

    /// A transmission has ended: the node gets its credit back.
    fn on_sent(&mut self, id: LinkId) {
        let (node, port) = self.links[id.0 as usize].from;
        let link = &mut self.links[id.0 as usize];
        let host = &mut self.nodes[node.0 as usize].host;
        while link.take_sent(self.now) {
            host.credit(self.now, port);
        }
        let slot = link.slots[Link::SENT].expect("an event has a slot");
        match link.next_sent() {
            Some(next) => self.arm(slot, next),
            None => self.disarm(slot),
        }
        self.pump(node);
    }

    /// A packet has arrived.
    fn on_arrival(&mut self, id: LinkId) {
        if let Some(packet) = self.lanes.take(Event::new(self.now, Kind::Arrival, id.0)) {
            if self.exceeds_caches() {
                self.look_ahead();
            }
            return self.arrive(id, self.links[id.0 as usize].to, packet);
        }
        let link = &mut self.links[id.0 as usize];
        let arrived = link.take_arrival(self.now);
        let slot = link.slots[Link::ARRIVAL].expect("an event has a slot");
        match link.rearm() {
            Some(next) => self.arm(slot, next),
            None => self.disarm(slot),
        }
        let Some(packet) = arrived else { return };
        let link = &mut self.links[id.0 as usize];
        if link.was_damaged(packet) {
            return self.on_link_drop(id, Reason::Checksum, packet);
        }
        let to = link.to;
        self.arrive(id, to, packet);
    }

    /// A sound packet has arrived at a port.
    #[inline]
    pub(crate) fn arrive(&mut self, id: LinkId, (node, port): (NodeId, Port), packet: PacketId) {
        if !self.observers.is_empty() {
            for (_, observer) in &mut self.observers {
                observer.delivered(self.now, id, self.pool.get(packet));
            }
        }
        let host = &mut self.nodes[node.0 as usize].host;
        match host.receive(self.now, port, self.pool.get_mut(packet)) {
            Rx::Forward(out) => self.put_on_link(node, out, packet),
            Rx::Taken => {
                self.pool.discard(packet);
                self.pump(node);
            }
        }
    }

    /// The link has lost a packet.
    fn on_link_drop(&mut self, id: LinkId, reason: Reason, packet: PacketId) {
        let packet = self.pool.take(packet);
        self.stats.link_drops += u64::from(packet.segments());
        for (_, observer) in &mut self.observers {
            observer.dropped(self.now, Place::Link(id), reason, &packet);
        }
    }

    fn on_wake(&mut self, node: NodeId) {
        let state = &mut self.nodes[node.0 as usize];
        let slot = state.slot;
        // After a window, a time that something earlier has replaced may still stand in the slot.
        let is_waited_for = state.wake == self.now;
        if is_waited_for {
            state.wake = Instant::FAR_FUTURE;
        }
        self.disarm(slot);
        if !is_waited_for {
            self.stats.events -= 1;
            return;
        }
        self.pump(node);
    }

    fn on_app_timer(&mut self, index: u32) {
        let state = &mut self.apps[index as usize];
        if state.timer == self.now && state.running {
            state.timer = Instant::FAR_FUTURE;
            self.call_app(index, |app, cx| app.timer(cx));
        }
    }

    /// Hears everything that a node has to say, then knows when it wants to be called: the law of the
    /// datapath.
    #[inline(never)]
    fn pump(&mut self, node: NodeId) {
        let mut told = Told::default();
        let until = loop {
            let host = &mut self.nodes[node.0 as usize].host;
            match host.poll(self.now, self.pool.get_mut(self.place)) {
                Poll::Idle(until) => break until,
                Poll::Send { port, .. } => {
                    let packet = core::mem::replace(&mut self.place, self.pool.reserve());
                    self.put_on_link(node, port, packet);
                    told = Told::default();
                    continue;
                }
                Poll::Drop(reason) => self.on_node_drop(node, reason, self.place),
                Poll::Ready(ready) => self.note_ready(node, ready),
                Poll::Event(event) => {
                    for (_, observer) in &mut self.observers {
                        observer.event(self.now, node, &event);
                    }
                }
            }
            told.count(self.now, node);
        };
        let state = &mut self.nodes[node.0 as usize];
        if until < state.wake {
            state.wake = until;
            let slot = state.slot;
            self.arm(slot, until);
        }
    }

    /// Counts an event; time has to go on in the end.
    #[inline]
    fn count_event(&mut self) {
        self.stats.events += 1;
        let participants = self.nodes.len() + self.links.len() + self.apps.len();
        self.moment.count_event(self.now, self.stats.events, participants);
    }

    /// Puts a packet that a node sends on the link behind the port. Not in line, like
    /// [`pump`](Self::pump): called from several places, these should lie in the instruction cache
    /// once.
    #[inline(never)]
    fn put_on_link(&mut self, node: NodeId, port: Port, id: PacketId) {
        let link_id = self.nodes[node.0 as usize].links[usize::from(port.0)];
        if self.pool.get(id).meta.gso_segs > 1 && self.links[link_id.0 as usize].cuts {
            return self.cut_onto_link(node, port, link_id, id);
        }
        self.note_sent(link_id, id);
        let link = &mut self.links[link_id.0 as usize];
        let host = &mut self.nodes[node.0 as usize].host;
        let credit_at = |at| host.credit_at(self.now, port, at);
        let put = link.put(self.now, (&mut self.pool, &mut self.lanes), id, credit_at);
        assert!(link.up, "a port that is down sends nothing");
        self.schedule_put(link_id, id, put);
        if put.left {
            self.nodes[node.0 as usize].host.credit(self.now, port);
        }
    }

    /// A device puts the segments of a super-packet on the wire one by one; its room is free again
    /// when the last has left.
    #[cold]
    fn cut_onto_link(&mut self, node: NodeId, port: Port, link_id: LinkId, id: PacketId) {
        let whole = self.pool.take(id);
        let last = whole.segment_count() - 1;
        for (index, mut segment) in (0..).zip(whole.segment()) {
            // What the far end receives lies in a buffer of its own device.
            segment.meta.memory = Memory::Linear;
            if index == last {
                segment.meta.truesize = whole.meta.truesize;
                let segment = self.pool.insert(segment);
                return self.put_on_link(node, port, segment);
            }
            let segment = self.pool.insert(segment);
            self.note_sent(link_id, segment);
            let link = &mut self.links[link_id.0 as usize];
            let put = link.put_segment(self.now, (&mut self.pool, &mut self.lanes), segment);
            self.schedule_put(link_id, segment, put);
        }
    }

    /// Counts and shows a packet that is put on a link.
    #[inline]
    fn note_sent(&mut self, link_id: LinkId, id: PacketId) {
        let packet = self.pool.get(id);
        let segments = u64::from(packet.segments());
        self.stats.hops += segments;
        if packet.len() >= HOP_BYTES {
            self.stats.full_hops += segments;
        }
        if self.shows_sent {
            let watchers = self.watchers.get_mut(link_id.0 as usize);
            for observer in watchers.into_iter().flatten() {
                observer.sent(self.now, link_id, packet);
            }
            for (sees_sent, observer) in &mut self.observers {
                if *sees_sent {
                    observer.sent(self.now, link_id, packet);
                }
            }
        }
    }

    /// The events that a packet put on a link makes necessary.
    #[inline]
    fn schedule_put(&mut self, link_id: LinkId, id: PacketId, put: Put) {
        if let Some(at) = put.sent {
            self.arm_link(link_id, Link::SENT, Kind::Sent, at);
        }
        match put.flight {
            Flight::Waits => {}
            Flight::Arrives(at) => self.arm_link(link_id, Link::ARRIVAL, Kind::Arrival, at),
            Flight::Lost => self.on_link_drop(link_id, Reason::LinkLoss, id),
        }
    }

    #[inline]
    fn arm_link(&mut self, link: LinkId, which: usize, kind: Kind, at: Instant) {
        let slot = &mut self.links[link.0 as usize].slots[which];
        let slot = *slot.get_or_insert_with(|| self.schedule.add_slot(kind, link.0));
        self.arm(slot, at);
    }

    fn on_node_drop(&mut self, node: NodeId, reason: Reason, id: PacketId) {
        let packet = self.pool.get(id);
        self.stats.node_drops += u64::from(packet.segments());
        for (_, observer) in &mut self.observers {
            observer.dropped(self.now, Place::Node(node), reason, packet);
        }
    }

    fn set_link_up(&mut self, id: LinkId, up: bool) {
        let link = &mut self.links[id.0 as usize];
        link.up = up;
        let (node, port) = link.from;
        if !up {
            for packet in link.cut(&mut self.lanes) {
                self.on_link_drop(id, Reason::LinkDown, packet);
            }
        }
        self.with_host(node, |now, host| host.set_port_up(now, port, up));
    }

    #[inline]
    fn note_ready(&mut self, node: NodeId, ready: SocketReady) {
        if self.nodes[node.0 as usize].slow {
            self.late.push_back((node, ready));
            self.schedule(self.now + self.late_by, Kind::Late, 0);
        } else {
            self.ready.push((node, ready));
        }
    }

    /// A socket has become ready: its application is called. What the node then has to say is
    /// heard by the caller.
    #[inline]
    fn on_ready(&mut self, node: NodeId, ready: SocketReady) {
        let owners = &self.nodes[node.0 as usize].owners;
        let owner = owners.get(ready.socket as usize).copied().unwrap_or(NO_APP);
        if owner != NO_APP {
            self.enter_app(owner, |app, cx| app.ready(cx, ready));
        }
    }

    fn call_app(&mut self, index: u32, call: impl FnOnce(&mut dyn App, &mut AppCx<'_>)) {
        self.enter_app(index, call);
        self.pump(self.apps[index as usize].node);
    }

    fn enter_app(&mut self, index: u32, call: impl FnOnce(&mut dyn App, &mut AppCx<'_>)) {
        let state = &mut self.apps[index as usize];
        let mut app = state.app.take().expect("an application does not call itself");
        let node = &mut self.nodes[state.node.0 as usize];
        let before = state.timer;
        let mut cx = AppCx {
            now: self.now,
            host: &mut node.host,
            rng: &mut state.rng,
            timer: &mut state.timer,
            owners: &mut node.owners,
            index,
        };
        call(&mut *app, &mut cx);
        state.app = Some(app);
        let timer = state.timer;
        if timer != before && timer != Instant::FAR_FUTURE {
            self.schedule(timer, Kind::Timer, index);
        }
    }
}

/// Random streams of applications are numbered from here, away from those of links.
const APP_STREAMS: u64 = 1 << 40;
