//! A model of softirqs and programs of a machine with one CPU: it orders simultaneous events as these do.
//!
//! Packets taken by a virtual device lie in the machine's backlog, one queue for all name spaces. A pass of the
//! softirqs receives part of it (`process_backlog`). Woken programs run before softirqs start again; pending softirqs
//! run when the first of these programs releases a lock (`__local_bh_enable_ip`).

use super::Partition;
use crate::due::Entry;
use crate::link::{LinkId, NodeId};
use crate::state::Ready;
use datapath::host::SocketId;
use datapath::node::Port;
use datapath::tcp::Connection;
use datapath::units::Instant;
use std::collections::VecDeque;

/// Packets that one pass receives (`dev_rx_weight`).
const WEIGHT: usize = 64;
/// How often softirqs start again before the rest is left to `ksoftirqd` (`MAX_SOFTIRQ_RESTART`).
const PASSES: usize = 10;

/// Their state.
#[derive(Debug, Default)]
pub(crate) struct Softirqs {
    /// The node whose TCP Small Queues are modelled.
    of: NodeId,
    /// Its packets go to and come from a program that applies rules, the box.
    behind_box: bool,
    /// Softirqs are running.
    playing: bool,
    /// Packets to be received, each with its turn.
    backlog: VecDeque<(u32, Arrival)>,
    /// Packets that the two programs of the box have to forward, from the sender and to it.
    boxes: [VecDeque<Entry>; 2],
    /// When they last ran, and so set their timers.
    boxes_ran: [Instant; 2],
    /// By application: its timer, and when that was set; the starting timer is set first of all.
    timers: Vec<(Instant, Instant)>,
    /// Runnable programs, in the order in which they were woken.
    woken: VecDeque<Program>,
    /// The socket that a program has locked, and packets that have arrived for it meanwhile.
    held: Option<HeldSocket>,
    held_back: Vec<Entry>,
}

/// On whose behalf softirqs run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Context {
    /// An interrupt's.
    Interrupt,
    /// A program's, in a system call.
    Program,
    /// Their own, when no program runs.
    Ksoftirqd,
}

/// A packet in the backlog.
#[derive(Clone, Copy, Debug)]
enum Arrival {
    /// A device of the machine has sent it.
    Sent(Entry),
    /// The box has forwarded it, or it has been on a link until now.
    Forwarded(Entry),
}

/// A program of the machine: it runs until it has nothing to do.
#[derive(Clone, Copy, Debug)]
enum Program {
    /// One of the two of the box, and how many packets it has held until now.
    Box(usize, usize),
    /// An application whose timer has fired.
    Timer(u32),
    /// An application that waits for a socket.
    Ready(Ready),
}

#[derive(Clone, Copy, Debug)]
struct HeldSocket {
    node: NodeId,
    socket: SocketId,
    /// Its port, and that of its peer.
    ports: (u16, u16),
}

impl Softirqs {
    /// Those of a machine whose node `of` has a small queue.
    pub fn new(of: NodeId, behind_box: bool) -> Self {
        Self { of, behind_box, ..Self::default() }
    }
}

impl Partition {
    /// The turn of the event scheduled last within the epoch itself.
    fn last_turn(&self) -> u32 {
        self.own_count as u32
    }

    fn softirqs(&mut self) -> &mut Softirqs {
        self.machine.softirqs.as_mut().expect("they are played")
    }

    /// Runs what is pending at this time until nothing is left. `interrupt`: timers have just been served.
    #[cold]
    pub fn play_softirqs(&mut self, interrupt: bool) {
        self.softirqs().playing = true;
        if interrupt {
            self.wake_programs();
        }
        loop {
            if self.woken().is_empty() {
                self.do_softirqs(Context::Interrupt);
            }
            if let Some(program) = self.woken().pop_front() {
                self.run_program(program);
            } else if self.is_softirq_pending() {
                self.do_softirqs(Context::Ksoftirqd);
            } else {
                break;
            }
        }
        self.softirqs().playing = false;
    }

    /// Programs whose timers have fired, in the order in which these were set (`timerqueue_add`).
    fn wake_programs(&mut self) {
        self.note_timers();
        let now = self.now;
        let softirqs = self.softirqs();
        let mut woken = Vec::new();
        for (way, held) in softirqs.boxes.iter().map(VecDeque::len).enumerate() {
            if held > 0 {
                woken.push((softirqs.boxes_ran[way], Program::Box(way, held)));
            }
        }
        for (index, (timer, set_at)) in (0..).zip(&softirqs.timers) {
            if *timer == now {
                woken.push((*set_at, Program::Timer(index)));
            }
        }
        woken.sort_by_key(|(set_at, _)| *set_at);
        softirqs.woken.extend(woken.into_iter().map(|(_, program)| program));
    }

    /// Notes when timers of applications have been set: now, if it is not known.
    fn note_timers(&mut self) {
        let Some(softirqs) = self.machine.softirqs.as_mut() else { return };
        softirqs.timers.resize(self.apps.len(), (Instant::FAR_FUTURE, Instant::ZERO));
        for (noted, app) in softirqs.timers.iter_mut().zip(&self.apps) {
            if noted.0 != app.timer {
                *noted = (app.timer, if app.running { self.now } else { Instant::ZERO });
            }
        }
    }

    /// Runnable programs; last those of sockets that have become ready since the last call.
    fn woken(&mut self) -> &mut VecDeque<Program> {
        let softirqs = self.machine.softirqs.as_mut().expect("they are played");
        softirqs.woken.extend(self.ready.drain(..).map(Program::Ready));
        &mut softirqs.woken
    }

    /// Whether softirqs are pending.
    fn is_softirq_pending(&mut self) -> bool {
        self.take_arrivals();
        let of = self.softirqs().of;
        let host = self.nodes[of.0 as usize].host.on_one_machine();
        let is_memory_due = host.has_backlog() || host.has_stopped();
        is_memory_due || !self.softirqs().backlog.is_empty()
    }

    /// Pass by pass, until nothing is pending, programs have been woken or it has been often enough (`handle_softirqs`).
    fn do_softirqs(&mut self, context: Context) {
        let of = self.softirqs().of;
        for _ in 0..PASSES {
            // What this pass causes is for the next one.
            let goes_on = self.nodes[of.0 as usize].host.on_one_machine().has_stopped();
            let received = self.receive_backlog(context);
            if goes_on {
                let held = self.softirqs().held.filter(|held| held.node == of);
                let held = held.map(|held| held.socket);
                self.nodes[of.0 as usize].host.on_one_machine().stopped_go_on(self.now, held);
                self.pump(of);
            }
            // Another program of the same priority waits until the running one has finished.
            let resched = context != Context::Program && !self.woken().is_empty();
            if !(received || goes_on) || resched {
                break;
            }
        }
    }

    /// Runs pending softirqs once for each packet that a system call, which began at turn `since`, has sent
    /// (`__local_bh_enable_ip`). The rest is left to `ksoftirqd`, or to the next that runs them.
    fn enable_softirqs_since(&mut self, since: u32) {
        for _ in since..self.last_turn() {
            if !self.is_softirq_pending() {
                return;
            }
            self.do_softirqs(Context::Program);
        }
    }

    /// One pass over the backlog (`process_backlog`); false if there was nothing.
    fn receive_backlog(&mut self, context: Context) -> bool {
        for received in 0..WEIGHT {
            if self.softirqs().backlog.is_empty() {
                self.take_arrivals();
            }
            let Some((turn, arrival)) = self.softirqs().backlog.pop_front() else {
                return self.give_memory_back(u32::MAX, context) || received > 0;
            };
            self.give_memory_back(turn, context);
            match arrival {
                Arrival::Sent(entry) => self.do_entry(entry),
                Arrival::Forwarded(entry) => self.deliver(LinkId(entry.id().index()), entry),
            }
        }
        true
    }

    /// Packets in the backlog up to this turn have been received.
    fn give_memory_back(&mut self, turn: u32, context: Context) -> bool {
        let of = self.softirqs().of;
        let mut host = self.nodes[of.0 as usize].host.on_one_machine();
        let has_backlog = host.has_backlog();
        if has_backlog {
            host.backlog_received(self.now, turn, context == Context::Ksoftirqd);
            self.pump(of);
        }
        has_backlog
    }

    /// Puts packets that arrive at this time into the backlog, in the order in which they were sent.
    fn take_arrivals(&mut self) {
        let next = || self.pop_arrival().map(|own| (own.1 as u32, Arrival::Sent(own.2)));
        let mut arrivals: Vec<_> = core::iter::from_fn(next).collect();
        arrivals.sort_by_key(|(turn, _)| *turn);
        self.softirqs().backlog.extend(arrivals);
    }

    /// A packet has arrived at the box or at its node. One that has been on a link until now is received when
    /// the timers of this time have been served.
    #[cold]
    pub fn arrive_on_machine(&mut self, id: LinkId, entry: Entry) {
        let (is_impaired, turn) = (self.links[id.0 as usize].is_impaired(), self.last_turn());
        let Some(softirqs) = self.machine.softirqs.as_mut() else { return self.deliver(id, entry) };
        let (of, playing) = (softirqs.of, softirqs.playing);
        let way = usize::from(entry.node() == of);
        if softirqs.behind_box && is_impaired {
            let is_idle = softirqs.boxes[way].is_empty();
            softirqs.boxes[way].push_back(entry);
            if playing && is_idle {
                self.woken().push_back(Program::Box(way, 0));
            }
        } else if playing {
            return self.deliver(id, entry);
        } else {
            softirqs.backlog.push_back((turn, Arrival::Forwarded(entry)));
        }
        if !playing && self.nodes[of.0 as usize].wake > self.now {
            self.wake_at(of, self.now);
        }
    }

    /// A node receives a packet, unless it is for a socket that a program has locked (`sk_add_backlog`).
    fn deliver(&mut self, id: LinkId, entry: Entry) {
        if self.is_seen_only(id, entry.packet()) {
            return;
        }
        let held = self.machine.softirqs.as_mut().filter(|it| it.held.is_some());
        let Some(softirqs) = held else { return self.take_in(entry) };
        let tcp = self.pool.get(entry.packet()).tcp();
        let ends = tcp.map(|tcp| (entry.node(), (tcp.dst_port, tcp.src_port)));
        if softirqs.held.map(|held| (held.node, held.ports)) == ends {
            softirqs.held_back.push(entry);
        } else {
            self.take_in(entry);
        }
    }

    /// A program runs until it has nothing to do.
    fn run_program(&mut self, program: Program) {
        let (node, socket) = match program {
            Program::Box(way, held) => return self.run_box(way, held),
            Program::Timer(index) => {
                let state = &self.apps[index as usize];
                (state.node, state.app.report().socket)
            }
            Program::Ready(ready) => (ready.node, Some(ready.socket.socket)),
        };
        self.hold(node, socket);
        let since = self.last_turn();
        match program {
            Program::Timer(index) if self.apps[index as usize].running => self.on_app_timer(index),
            Program::Timer(index) => self.on_app_start(index),
            Program::Ready(ready) => self.notify_app(ready.node, ready.socket),
            Program::Box(..) => {}
        }
        self.note_timers();
        self.enable_softirqs_since(since);
        self.release(node, socket);
    }

    /// The box forwards held packets, then arrived ones one by one, until there are none. Softirqs run
    /// whenever it polls for packets (twice in `packet_poll`), makes one (`__alloc_skb`) and sends it.
    fn run_box(&mut self, way: usize, held: usize) {
        self.poll_by_program();
        for forwarded in 0.. {
            let Some(&entry) = self.softirqs().boxes[way].front() else { break };
            self.do_softirqs(Context::Program);
            self.take_arrivals();
            let turn = self.last_turn();
            self.softirqs().backlog.push_back((turn, Arrival::Forwarded(entry)));
            self.do_softirqs(Context::Program);
            if forwarded >= held {
                self.poll_by_program();
            }
            self.softirqs().boxes[way].pop_front();
        }
        self.softirqs().boxes_ran[way] = self.now;
    }

    fn poll_by_program(&mut self) {
        self.do_softirqs(Context::Program);
        self.do_softirqs(Context::Program);
    }

    /// A program locks its socket: pending softirqs run then (`lock_sock`).
    fn hold(&mut self, node: NodeId, socket: Option<SocketId>) {
        let host = &mut self.nodes[node.0 as usize].host;
        let held = socket.and_then(|socket| {
            let ports = |tcp: &mut Connection| (tcp.local().port(), tcp.remote().port());
            let ports = host.with_tcp(self.now, socket, |tcp, _| ports(tcp)).ok()?;
            Some(HeldSocket { node, socket, ports })
        });
        self.pump(node);
        self.softirqs().held = held;
        self.do_softirqs(Context::Program);
    }

    /// It unlocks it: packets that have arrived meanwhile are processed, and throttled output goes on (`release_sock`).
    fn release(&mut self, node: NodeId, socket: Option<SocketId>) {
        let since = self.last_turn();
        self.enter_syscall(node, true);
        for entry in core::mem::take(&mut self.softirqs().held_back) {
            self.take_in(entry);
        }
        self.enter_syscall(node, false);
        self.enable_softirqs_since(since);
        self.softirqs().held = None;
        if let Some(socket) = socket.filter(|_| node == self.softirqs().of) {
            self.nodes[node.0 as usize].host.on_one_machine().release_socket(self.now, socket);
            self.pump(node);
        }
        self.do_softirqs(Context::Program);
    }

    /// A virtual device has taken a packet; with modelled softirqs the far end's receipt notifies its owner.
    #[cold]
    pub fn credit_on_machine(&mut self, node: NodeId, port: Port) {
        let turn = self.last_turn();
        self.nodes[node.0 as usize].host.on_one_machine().credit_backlog(self.now, port, turn);
    }

    /// Marks whether the node's work is done in system calls of an application, or in softirqs.
    #[cold]
    pub fn enter_syscall(&mut self, node: NodeId, enter: bool) {
        let Some(softirqs) = self.machine.softirqs.as_ref() else { return };
        let (of, playing) = (softirqs.of, softirqs.playing);
        if of == node {
            self.nodes[node.0 as usize].host.on_one_machine().enter_softirq(!enter);
        }
        if !enter && !playing {
            self.play_softirqs(false);
        }
    }
}
