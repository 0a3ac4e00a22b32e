//! Nodes that are name spaces of one machine: its interrupts and ticks are those of all of them.

use crate::link::NodeId;
use crate::partition::{NodeState, Partition};
use datapath::units::{Duration, Instant};

/// The time between two ticks.
const TICK: Duration = Duration::from_millis(1);

impl Partition {
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
