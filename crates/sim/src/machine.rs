//! Nodes that are name spaces of one machine: its interrupts and ticks are those of all of them.

use crate::due::Entry;
use crate::event::Kind;
use crate::link::{LinkId, NodeId};
use crate::partition::{Own, Partition};
use crate::state::NodeState;
use datapath::node::Port;
use datapath::units::{Duration, Instant};
use std::cmp::Reverse;

/// The time between two ticks.
const TICK: Duration = Duration::from_millis(1);

/// What is known of the machine.
#[derive(Debug, Default)]
pub(crate) struct Machine {
    /// Its timers use the slack that they have.
    pub slack_is_used: bool,
    /// The node whose softirqs are played: what it does there lies in the machine's backlog until it is received.
    pub softirqs_of: Option<NodeId>,
    /// What it sends goes to a box of rules, a program, and what it receives comes from there.
    pub behind_box: bool,
    /// When that program last sent something.
    box_ran: Option<Instant>,
    /// The local port of its socket that a program holds, and what has arrived for it meanwhile.
    held_port: Option<u16>,
    held_back: Vec<Entry>,
}

impl Partition {
    /// The timers of a moment, in the order of the softirqs of a machine: the wheels of all name spaces, then queues, then
    /// timers of high resolution of sockets. What queues have let go arrives later: a program that one of the timers
    /// has woken goes before (`handle_softirqs` does not begin anew with `need_resched`).
    #[cold]
    pub fn wake_machine(&mut self, node: NodeId) {
        if !self.machine.slack_is_used && self.is_interrupt(node) {
            self.interrupt();
        }
        let now = self.now;
        let mut due: Vec<usize> =
            (0..self.nodes.len()).filter(|&at| self.nodes[at].wake <= now).collect();
        due.push(node.0 as usize);
        due.sort_unstable();
        for &at in &due {
            self.nodes[at].host.fire_wheel_timers(now);
        }
        let (exact, queues): (Vec<_>, Vec<_>) =
            due.into_iter().partition(|&at| self.nodes[at].host.fires_exact_timers_only(now));
        for at in queues.into_iter().chain(exact) {
            self.wake_node(at);
        }
        if self.machine.slack_is_used {
            for app in 0..self.apps.len() {
                self.run_woken_program(app);
            }
        }
        self.receive_backlog();
    }

    /// A program whose timer fires acts before what has just left queues arrives. Where softirqs are played it arrives
    /// while the program holds its socket, and what is for that one waits until it has let go of it (`sk_add_backlog`).
    fn run_woken_program(&mut self, index: usize) {
        let state = &self.apps[index];
        let comes_later = self.machine.box_ran == Some(self.now);
        if state.timer != self.now || !state.running || comes_later {
            return;
        }
        let node = state.node;
        let socket = state.app.as_ref().and_then(|app| app.report().socket);
        if self.machine.softirqs_of == Some(node)
            && !self.machine.behind_box
            && let Some(socket) = socket
        {
            let host = &mut self.nodes[node.0 as usize].host;
            self.machine.held_port =
                host.with_tcp(self.now, socket, |tcp, _| tcp.local().port()).ok();
            self.receive_at_once();
            self.machine.held_port = None;
        }
        self.on_app_timer(index as u32);
        self.enter_syscall(node, true);
        for entry in core::mem::take(&mut self.machine.held_back) {
            self.take_in(entry);
        }
        self.enter_syscall(node, false);
    }

    /// A packet arrives. Who sends by a box of rules, a program, has each packet for itself: what that brings about ends
    /// before the next one.
    #[cold]
    pub fn arrive_on_machine(&mut self, id: LinkId, entry: Entry) {
        if self.is_held(entry) {
            return;
        }
        let of_box = self.machine.behind_box && self.links[id.0 as usize].is_impaired();
        self.take_in(entry);
        if of_box {
            self.machine.box_ran = Some(self.now);
            while self.small_queues_go_on() {}
        }
    }

    /// What lies in a backlog has been received, and who waited for it goes on; false if there is nothing.
    fn small_queues_go_on(&mut self) -> bool {
        let index = self.nodes.iter().position(|node| node.host.has_backlog());
        if let Some(index) = index {
            self.nodes[index].host.backlog_received(self.now, None);
            self.pump(NodeId(index as u32));
        }
        index.is_some()
    }

    /// Whether a program holds the socket for which a packet arrives.
    fn is_held(&mut self, entry: Entry) -> bool {
        let Some(port) = self.machine.held_port else { return false };
        let tcp = self.pool.get(entry.packet()).tcp();
        let held = self.machine.softirqs_of == Some(entry.node())
            && tcp.is_some_and(|tcp| tcp.dst_port == port);
        if held {
            self.machine.held_back.push(entry);
        }
        held
    }

    fn wake_node(&mut self, index: usize) {
        self.nodes[index].wake = Instant::FAR_FUTURE;
        self.pump(NodeId(index as u32));
    }

    /// A virtual device has taken a packet; where softirqs are played its owner hears of it when the far end has it.
    #[cold]
    pub fn credit_on_machine(&mut self, node: NodeId, port: Port) {
        let state = &mut self.nodes[node.0 as usize];
        if state.host.credit_backlog(self.now, port) && state.wake > self.now {
            self.wake_at(node, self.now);
        }
    }

    /// Whether an application is about to act by system calls, or what its node does is done in softirqs again.
    #[cold]
    pub fn enter_syscall(&mut self, node: NodeId, enter: bool) {
        if self.machine.softirqs_of == Some(node) {
            self.nodes[node.0 as usize].host.enter_softirq(!enter);
        }
    }

    /// What lies in backlogs is received, and then who waited for it goes on (`TASKLET_SOFTIRQ`), until nothing is left.
    fn receive_backlog(&mut self) {
        loop {
            self.receive_at_once();
            if self.machine.softirqs_of.is_some()
                && !self.machine.behind_box
                && !self.ready.is_empty()
            {
                self.call_ready_programs();
            } else if !self.small_queues_go_on() {
                return;
            }
        }
    }

    /// Programs that a softirq has woken run before it begins anew, and so before those go on whom TCP Small Queues have
    /// stopped; whose socket a program holds goes on after it (`tcp_release_cb`).
    fn call_ready_programs(&mut self) {
        let Some(sender) = self.machine.softirqs_of else { return };
        for ready in core::mem::take(&mut self.ready) {
            let held = (ready.node == sender).then_some(ready.socket.socket);
            self.nodes[sender.0 as usize].host.backlog_received(self.now, held);
            self.pump(sender);
            self.notify_app(ready.node, ready.socket);
            if let Some(socket) = held {
                self.enter_syscall(sender, true);
                self.nodes[sender.0 as usize].host.let_go_on(self.now, socket);
                self.pump(sender);
                self.enter_syscall(sender, false);
            }
        }
    }

    /// What arrives now does so.
    fn receive_at_once(&mut self) {
        let after_ns = (self.now - self.begin).as_nanos();
        let arrives = |own: &Own| {
            u64::from(own.2.after_ns()) == after_ns && own.2.id().kind() == Kind::Arrival
        };
        while self.own.peek().is_some_and(|Reverse(own)| arrives(own))
            && let Some(Reverse(own)) = self.own.pop()
        {
            self.do_entry(own.2);
        }
    }

    /// Whether a node wakes for a timer of its own, or for a tick of the machine. The tick stops when one has found the
    /// machine idle, and goes on when a program runs (`idle_call_stop_or_retain_tick`, 7.x).
    #[cold]
    pub fn is_interrupt(&self, node: NodeId) -> bool {
        let own = self.nodes[node.0 as usize].host.wake_at();
        own.is_some_and(|at| at <= self.now) || self.now <= self.program_ran + TICK
    }

    /// The next tick that may fire a timer of this node, if it may fire by then and need not.
    #[cold]
    pub fn next_lax_tick(&self, node: NodeId) -> Instant {
        let host = &self.nodes[node.0 as usize].host;
        let Some(latest) = host.lax_timer(Instant::FAR_FUTURE) else { return Instant::FAR_FUTURE };
        let tick = Instant::ZERO + Duration::from_millis(latest.as_millis());
        let may_fire = self.now < tick && tick < latest && host.lax_timer(tick) == Some(latest);
        if may_fire { tick } else { Instant::FAR_FUTURE }
    }

    /// A timer of the machine fires, and timers that have some slack and may fire do so, too, unless another one comes
    /// between now and their latest time (`__hrtimer_run_queues` goes by the latest).
    #[cold]
    pub fn interrupt(&mut self) {
        let now = self.now;
        for index in 0..self.nodes.len() {
            let Some(latest) = self.nodes[index].host.lax_timer(now) else { continue };
            let before = |other: &NodeState| other.wake > now && other.wake < latest;
            if latest > now && !self.nodes.iter().any(before) {
                self.nodes[index].host.fire_lax_timers(now);
                // Queues are served before what they have let go arrives (`NET_TX_SOFTIRQ`).
                self.pump(NodeId(index as u32));
            }
        }
    }
}
