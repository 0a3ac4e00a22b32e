//! Nodes that are name spaces of one machine: its interrupts and ticks are those of all of them.

use super::{Partition, Softirqs};
use crate::due::Entry;
use crate::event::Kind;
use crate::link::NodeId;
use crate::state::NodeState;
use datapath::units::{Duration, Instant};
use std::cmp::Reverse;

/// The time between two ticks.
const TICK: Duration = Duration::from_millis(1);

/// The state of the machine.
#[derive(Debug, Default)]
pub(crate) struct Machine {
    /// Its timers use their slack.
    pub slack_is_used: bool,
    /// Its softirqs and programs, if they are played.
    pub softirqs: Option<Box<Softirqs>>,
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
        let is_due = |at: &usize| *at == node.0 as usize || self.nodes[*at].wake <= now;
        let due: Vec<usize> = (0..self.nodes.len()).filter(is_due).collect();
        for &at in &due {
            self.nodes[at].host.on_one_machine().fire_wheel_timers(now);
        }
        let (exact, queues): (Vec<_>, Vec<_>) = due
            .into_iter()
            .partition(|&at| self.nodes[at].host.on_one_machine().fires_exact_timers_only(now));
        for at in queues.into_iter().chain(exact) {
            self.nodes[at].wake = Instant::FAR_FUTURE;
            self.pump(NodeId(at as u32));
        }
        if self.machine.softirqs.is_some() {
            return self.play_softirqs(true);
        }
        while let Some(own) = self.pop_arrival() {
            self.do_entry(own.2);
        }
    }

    /// The next packet that arrives at this time, if one does.
    pub fn pop_arrival(&mut self) -> Option<(u64, u64, Entry)> {
        let after_ns = (self.now - self.begin).as_nanos();
        let entry = self.own.peek()?.0.2;
        let is_due = entry.id().kind() == Kind::Arrival && u64::from(entry.after_ns()) == after_ns;
        if is_due { self.own.pop().map(|Reverse(own)| own) } else { None }
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
    pub fn next_lax_tick(&mut self, node: NodeId) -> Instant {
        let host = self.nodes[node.0 as usize].host.on_one_machine();
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
            let Some(latest) = self.nodes[index].host.on_one_machine().lax_timer(now) else {
                continue;
            };
            let before = |other: &NodeState| other.wake > now && other.wake < latest;
            if latest > now && !self.nodes.iter().any(before) {
                self.nodes[index].host.on_one_machine().fire_lax_timers(now);
                // Queues are served before what they have let go arrives (`NET_TX_SOFTIRQ`).
                self.pump(NodeId(index as u32));
            }
        }
    }
}
