//! Nodes, the links that leave them and their applications, with the handlers of their events.
//! [`crate::epoch`] decides when these are called.

use crate::calendar::Calendar;
use crate::crossing::Crossings;
use crate::division::GlobalIds;
use crate::due::{Due, Entry};
use crate::event::{EventId, INDEX_BITS, Kind};
use crate::link::{Link, LinkId, NodeId};
use crate::log::{Log, Rank, Stamp};
use crate::pool::{PacketId, Pool, release_frame};
use crate::progress::{Moment, WithoutSending};
use crate::record::DropPlace;
use crate::state::{AppState, Border, NodeState, Ready, WorldStats};
use apps::{App, AppCx, NO_APP};
use datapath::node::{Poll, Port, Rx, SocketReady};
use datapath::packet::Packet;
use datapath::reason::Reason;
use datapath::trace::Event;
use datapath::units::{Duration, Instant};
use machine::Machine;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

mod machine;
mod softirq;

pub(crate) use softirq::Softirqs;

/// How long after the arrivals of a moment applications run.
const APPS_RUN_AFTER: Duration = Duration::from_nanos(1);

/// State and handlers.
#[derive(Default)]
pub(crate) struct Partition {
    pub now: Instant,
    /// The place of the current event among those of this time.
    pub rank: Rank,
    /// The beginning of the current epoch.
    pub begin: Instant,
    /// Its end; time zero outside of epochs.
    pub end: Instant,
    /// The number of this run of the world.
    pub run: u32,
    pub calendar: Calendar,
    /// What the current group has scheduled within the epoch itself: by key, then in the order of scheduling.
    pub own: BinaryHeap<Reverse<(u64, u64, Entry)>>,
    /// How many entries have been scheduled so.
    pub own_count: u64,
    /// Readiness of this moment of which no application has been notified yet.
    pub ready: Vec<Ready>,
    /// Readiness of which applications are being notified.
    called: Vec<Ready>,
    /// Readiness of which applications are notified after the epoch, all at one time.
    pub pending: Vec<Ready>,
    pub pending_at: Instant,
    pub nodes: Vec<NodeState>,
    pub links: Vec<Link>,
    pub pool: Pool,
    /// A place in the pool for the packet that a node sends next.
    pub place: PacketId,
    /// Of partitions that this one was made of, or one that it is a part of.
    pub remains: Vec<Recycled>,
    pub apps: Vec<AppState>,
    /// The border to nodes outside of the simulation, if there are any.
    pub border: Option<Box<Border>>,
    /// The ends of links that lead to another partition.
    pub away: Vec<RemoteEnd>,
    /// Packets for other partitions, by partition, and when the first of them arrives.
    pub out: Vec<Crossings>,
    pub out_at: Instant,
    /// What the numbers here are in the whole world.
    pub names: GlobalIds,
    pub log: Log,
    pub stats: WorldStats,
    /// Arrivals go into the fingerprint; they are shown to observers, or do not go to their node at once.
    hashes_arrivals: bool,
    shows_arrivals: bool,
    /// All nodes are name spaces of one machine ([`World::on_one_machine`](crate::world::World::on_one_machine)).
    pub one_machine: bool,
    /// How long after the arrivals of a moment applications run.
    pub apps_run_after: Duration,
    pub machine: Machine,
    /// When a program of that machine last ran.
    pub program_ran: Instant,
    moment: Moment,
}

/// The port of another partition at which a link ends, in the numbers of that one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RemoteEnd {
    pub part: usize,
    pub link: LinkId,
    pub to: (NodeId, Port),
}

/// From here on the number of a node is an index in [`Partition::away`].
pub(crate) const REMOTE: u32 = 1 << INDEX_BITS;

/// Memory of a partition that is no more: memory new to the process costs more than moving its contents.
pub(crate) type Recycled = (Vec<NodeState>, Vec<Link>, Vec<AppState>, Pool);

impl Partition {
    pub fn new() -> Self {
        let mut pool = Pool::default();
        Self {
            rank: Rank::of_event(0, 0),
            pending_at: Instant::FAR_FUTURE,
            out_at: Instant::FAR_FUTURE,
            place: pool.reserve(),
            pool,
            shows_arrivals: true,
            apps_run_after: APPS_RUN_AFTER,
            ..Self::default()
        }
    }

    /// Schedules an event of a node or a link, in this epoch or later.
    #[inline]
    pub fn push(&mut self, due: Due) {
        if due.at < self.end {
            let entry = due.in_epoch(self.begin);
            self.own_count += 1;
            self.own.push(Reverse((entry.key(), self.own_count, entry)));
        } else {
            self.calendar.push(due);
        }
    }

    /// A packet comes from another partition.
    #[inline]
    pub fn admit(&mut self, arrival: Due, packet: &mut Packet) {
        let id = self.pool.reserve();
        packet.move_to(self.pool.get_mut(id));
        self.calendar.push(arrival.with_packet(id));
    }

    /// Schedules an event of an application.
    pub fn push_app(&mut self, at: Instant, kind: Kind, index: u32) {
        assert!(at >= self.now, "nothing can be scheduled for the past");
        let node = self.apps[index as usize].node;
        self.push(Due::event(at, EventId::new(kind, index), node));
    }

    /// The place of the current event among all events.
    #[inline]
    pub fn stamp(&self) -> Stamp {
        Stamp { at: self.now, rank: self.rank }
    }

    /// Notifies applications of sockets that have become ready.
    pub fn call_ready_apps(&mut self) {
        // What they make ready themselves belongs to the next moment.
        core::mem::swap(&mut self.ready, &mut self.called);
        for index in 0..self.called.len() {
            let ready = self.called[index];
            if self.apps_run_after > Duration::ZERO {
                // Otherwise all events of this time have come before.
                self.rank = ready.rank;
            }
            self.notify_app(ready.node, ready.socket);
        }
        self.called.clear();
    }

    /// Notifies an application of a ready socket, then polls its node.
    pub fn notify_app(&mut self, node: NodeId, ready: SocketReady) {
        self.program_ran = self.now;
        let owner = self.nodes[node.0 as usize].owner_of(ready.socket);
        if self.one_machine {
            self.enter_syscall(node, true);
        }
        if owner != NO_APP {
            self.enter_app(owner, |app, cx| app.ready(cx, ready));
        }
        self.pump_unless_idle(node);
        if self.one_machine {
            self.enter_syscall(node, false);
        }
    }

    /// Handles the event of an entry, which is due now.
    #[inline]
    pub fn handle(&mut self, entry: Entry) {
        let id = entry.id();
        let index = id.index();
        match id.kind() {
            Kind::Arrival => {
                self.count_event();
                self.on_arrival(LinkId(index), entry);
            }
            Kind::Sent => {
                self.count_event();
                self.on_sent(LinkId(index));
            }
            Kind::Wake => self.on_wake(NodeId(index)),
            Kind::Start => {
                self.count_event();
                self.on_app_start(index);
            }
            Kind::Stop => {
                self.count_event();
                self.call_app(index, |app, cx| app.stop(cx));
                let state = &mut self.apps[index as usize];
                (state.timer, state.running) = (Instant::FAR_FUTURE, false);
            }
            Kind::Timer => {
                self.count_event();
                self.on_app_timer(index);
            }
            Kind::Late => {
                self.count_event();
                let late = self.nodes[index as usize].late.as_mut().expect("it has such events");
                let ready = late.ready.pop_front().expect("one for each event");
                self.notify_app(NodeId(index), ready);
            }
            Kind::Command => unreachable!("commands end epochs"),
        }
    }

    /// A transmission has ended: the node gets its credit back.
    fn on_sent(&mut self, id: LinkId) {
        let link = &mut self.links[id.0 as usize];
        let (node, port) = link.near;
        let host = &mut self.nodes[node.0 as usize].host;
        while link.take_sent(self.now) {
            host.credit(self.now, port);
        }
        if let Some(next) = link.next_sent() {
            self.push(Due::event(next, EventId::new(Kind::Sent, id.0), node));
        }
        self.pump(node);
    }

    /// A packet has arrived at a port.
    #[inline]
    fn on_arrival(&mut self, id: LinkId, entry: Entry) {
        if entry.is_damaged() {
            return self.on_link_drop(id, Reason::Checksum, entry.packet());
        }
        if !self.shows_arrivals {
            if self.hashes_arrivals {
                self.hash_arrival(id, entry.packet());
            }
        } else if self.one_machine {
            return self.arrive_on_machine(id, entry);
        } else if self.is_seen_only(id, entry.packet()) {
            return;
        }
        self.take_in(entry);
    }

    /// Determines whether anybody sees arrivals; that holds until the world has run.
    pub fn update_observed(&mut self) {
        self.hashes_arrivals = self.log.interest.digests;
        self.shows_arrivals =
            self.log.interest.delivered || self.one_machine || self.border.is_some();
    }

    #[inline]
    fn hash_arrival(&mut self, id: LinkId, packet: PacketId) {
        let link = self.names.link(id);
        self.log.records.arrivals.note_arrival(self.now, link, self.pool.get(packet));
    }

    /// Shows an arrival to those who want to see it; true if the packet goes no further than that.
    #[inline(never)]
    pub fn is_seen_only(&mut self, id: LinkId, packet: PacketId) -> bool {
        if self.hashes_arrivals {
            self.hash_arrival(id, packet);
        }
        if self.log.interest.delivered {
            self.log.note_delivered(self.stamp(), id, self.pool.get(packet));
        }
        self.is_handed_out(id, packet)
    }

    /// Gives an arrived packet to its node.
    #[inline]
    pub fn take_in(&mut self, entry: Entry) {
        self.receive(entry.node(), entry.port(), entry.packet());
    }

    /// Gives a packet to its node, and polls the node if it may have something to say.
    #[inline]
    pub fn receive(&mut self, node: NodeId, port: Port, packet: PacketId) {
        let host = &mut self.nodes[node.0 as usize].host;
        match host.receive(self.now, port, self.pool.get_mut(packet)) {
            Rx::Forward(out) => self.put_on_link(node, out, packet),
            // On one machine, when a node is called next depends on when it was called last (`lax_wake`).
            Rx::Queued if !self.one_machine => self.pool.give_back(packet),
            Rx::Queued | Rx::Taken => {
                self.pool.give_back(packet);
                self.pump(node);
            }
        }
    }

    /// The link has lost a packet.
    pub fn on_link_drop(&mut self, id: LinkId, reason: Reason, packet: PacketId) {
        let packet = self.pool.take(packet);
        self.stats.link_drops += u64::from(packet.segments());
        self.log.note_drop(self.stamp(), DropPlace::Link(id), reason, &packet);
    }

    fn on_wake(&mut self, node: NodeId) {
        let state = &mut self.nodes[node.0 as usize];
        // The entry of a wake-up that an earlier one has replaced is still there.
        if state.wake == self.now {
            state.wake = Instant::FAR_FUTURE;
            self.count_event();
            if self.one_machine {
                return self.wake_machine(node);
            }
            self.pump_unless_idle(node);
        }
    }

    /// Polls a node until it is idle, which gives the time of its next wake-up: the law of the datapath.
    #[inline(never)]
    pub fn pump(&mut self, node: NodeId) {
        let mut told = WithoutSending::default();
        let until = loop {
            let host = &mut self.nodes[node.0 as usize].host;
            match host.poll(self.now, self.pool.get_mut(self.place)) {
                Poll::Idle(until) => break until,
                Poll::Send { port, .. } => {
                    let packet = core::mem::replace(&mut self.place, self.pool.reserve());
                    self.put_on_link(node, port, packet);
                    told = WithoutSending::default();
                }
                Poll::Drop(reason) => self.on_node_drop(node, reason),
                Poll::Ready(ready) => self.note_ready(node, ready),
                Poll::Event(event) => self.note_event(node, &event),
            }
            if let Some(until) = self.nodes[node.0 as usize].host.idle_until(self.now) {
                break until;
            }
            told.count(self.now, node);
        };
        self.rest_until(node, until);
    }

    /// The same for a node that mostly has nothing to say.
    #[inline]
    pub fn pump_unless_idle(&mut self, node: NodeId) {
        match self.nodes[node.0 as usize].host.idle_until(self.now) {
            Some(until) => self.rest_until(node, until),
            None => self.pump(node),
        }
    }

    /// A node is idle, and wants to be called at `until`.
    #[inline]
    fn rest_until(&mut self, node: NodeId, until: Instant) {
        let until = if self.one_machine { self.lax_wake(node, until) } else { until };
        if until < self.nodes[node.0 as usize].wake {
            self.wake_at(node, until);
        }
    }

    /// When a node of a machine is called that wants to be at `until`: any interrupt may serve it.
    #[cold]
    fn lax_wake(&mut self, node: NodeId, until: Instant) -> Instant {
        if self.machine.slack_is_used { until } else { until.min(self.next_lax_tick(node)) }
    }

    /// A node wants to be called at an earlier time than before. Not in line, as few calls of
    /// [`pump`](Self::pump) end with it.
    #[inline(never)]
    pub fn wake_at(&mut self, node: NodeId, at: Instant) {
        let state = &mut self.nodes[node.0 as usize];
        let before = core::mem::replace(&mut state.wake, at);
        if state.replaced == at {
            state.replaced = before;
            return;
        }
        if before < Instant::FAR_FUTURE {
            state.replaced = before;
        }
        self.push(Due::event(at, EventId::new(Kind::Wake, node.0), node));
    }

    /// The number of the first epoch in which something may be due, here or where packets have gone.
    #[inline]
    pub fn next_epoch(&self) -> Option<u64> {
        let pending = if self.pending.is_empty() { Instant::FAR_FUTURE } else { self.pending_at };
        let other = pending.min(self.out_at);
        let other = (other < Instant::FAR_FUTURE).then(|| self.calendar.number(other));
        self.calendar.first().into_iter().chain(other).min()
    }

    /// Counts an event; panics if virtual time stands still.
    #[inline]
    pub fn count_event(&mut self) {
        self.stats.events += 1;
        if self.moment.count_event(self.now) {
            self.moment.check(self.nodes.len() + self.links.len() + self.apps.len());
        }
    }

    #[inline(never)]
    fn note_event(&mut self, node: NodeId, event: &Event) {
        self.log.note_event(self.stamp(), node, event);
    }

    #[inline(never)]
    fn on_node_drop(&mut self, node: NodeId, reason: Reason) {
        let stamp = self.stamp();
        let place = self.pool.get_mut(self.place);
        self.stats.node_drops += u64::from(place.segments());
        self.log.note_drop(stamp, DropPlace::Node(node), reason, place);
        release_frame(place);
    }

    #[inline]
    fn note_ready(&mut self, node: NodeId, socket: SocketReady) {
        if self.nodes[node.0 as usize].late.is_some() {
            self.note_ready_late(node, socket);
        } else {
            self.ready.push(Ready { node, socket, rank: self.rank.of_notification() });
        }
    }

    #[cold]
    fn note_ready_late(&mut self, node: NodeId, socket: SocketReady) {
        let Some(late) = &mut self.nodes[node.0 as usize].late else { return };
        late.ready.push_back(socket);
        let at = self.now + late.by;
        self.push(Due::event(at, EventId::new(Kind::Late, node.0), node));
    }

    /// Notifications of what has become ready are scheduled for later: no more at this time.
    pub fn notify_later(&mut self) {
        if !self.ready.is_empty() {
            self.pending_at = self.now + APPS_RUN_AFTER;
            self.pending.append(&mut self.ready);
        }
    }

    /// Starts an application, unless it has started: its first timer is for that.
    pub fn on_app_start(&mut self, index: u32) {
        let state = &mut self.apps[index as usize];
        if state.timer == self.now && !state.running {
            (state.timer, state.running) = (Instant::FAR_FUTURE, true);
            self.call_app(index, |app, cx| app.start(cx));
        }
    }

    pub fn on_app_timer(&mut self, index: u32) {
        let state = &mut self.apps[index as usize];
        if state.timer == self.now && state.running {
            state.timer = Instant::FAR_FUTURE;
            self.program_ran = self.now;
            if self.one_machine && !self.machine.slack_is_used {
                self.interrupt();
            }
            self.call_app(index, |app, cx| app.timer(cx));
        }
    }

    pub fn call_app(&mut self, index: u32, call: impl FnOnce(&mut dyn App, &mut AppCx<'_>)) {
        let node = self.apps[index as usize].node;
        if self.one_machine {
            self.enter_syscall(node, true);
        }
        self.enter_app(index, call);
        self.pump(node);
        if self.one_machine {
            self.enter_syscall(node, false);
        }
    }

    fn enter_app(&mut self, index: u32, call: impl FnOnce(&mut dyn App, &mut AppCx<'_>)) {
        let state = &mut self.apps[index as usize];
        let node = &mut self.nodes[state.node.0 as usize];
        let before = state.timer;
        let timer = &mut state.timer;
        let host = &mut node.host;
        let mut cx = AppCx::new(self.now, host, &mut state.rng, timer, &mut node.owners, index)
            .with_bytes(node.streams.as_deref_mut());
        call(&mut *state.app, &mut cx);
        let timer = state.timer;
        if timer != before && timer != Instant::FAR_FUTURE {
            self.push_app(timer, Kind::Timer, index);
        }
    }
}
