//! One tin: its share of the rate, its flows and its statistics.

use super::cobalt::Params;
use super::config::{Config, FlowMode};
use super::draws::Draws;
use super::ewma;
use super::flows::{Flows, Set};
use super::pool::{DetachedPacket, Pool};
use super::shaper::{Cost, charge_tin};
use super::tins::Class;
use crate::units::Rate;

/// A tin (`struct cake_tin_data`).
#[derive(Clone, Debug, Default)]
pub struct Tin {
    /// Rate of the tin.
    pub rate: Rate,
    /// Cost of a byte at that rate.
    pub cost: Cost,
    /// What COBALT needs.
    pub params: Params,
    /// Bytes that a flow may send in a round.
    pub flow_quantum: u32,
    /// Bytes that the tin may send in a round, when unlimited.
    pub quantum: u32,
    /// Bytes that may still be sent in this round, when unlimited.
    pub deficit: i32,
    /// When the tin's next packet is due, in ns (`time_next_packet`).
    pub clock: u64,
    /// Bytes that wait.
    pub backlog: u32,
    /// Flows that BLUE deals with.
    pub unresponsive: u16,
    /// What has happened.
    pub counters: Counters,
    /// Delays of packets sent, in ns.
    pub delays: Delays,
    /// Tables, made at first use: an idle tin takes no memory.
    pub flows: Option<Box<Flows>>,
}

/// Counters of one tin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Counters {
    /// Packets that entered.
    pub packets: u32,
    /// Bytes that entered.
    pub bytes: u64,
    /// Flows found beside their home.
    pub way_hits: u32,
    /// New flows.
    pub way_misses: u32,
    /// Flows that had to share a queue.
    pub way_collisions: u32,
    /// Packets dropped, ACKs not included.
    pub dropped: u32,
    /// Packets marked.
    pub marked: u32,
    /// ACKs filtered.
    pub ack_drops: u32,
    /// Largest packet.
    pub max_len: u32,
}

/// Moving averages of the delay in ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Delays {
    /// Average.
    pub average: u64,
    /// Rises quickly, falls slowly.
    pub peak: u64,
    /// Falls quickly, rises slowly.
    pub base: u64,
}

impl Delays {
    /// A packet left after `delay` ns.
    pub fn add(&mut self, delay: u64) {
        self.average = ewma(self.average, delay, 8);
        self.peak = ewma(self.peak, delay, if delay > self.peak { 2 } else { 8 });
        self.base = ewma(self.base, delay, if delay < self.base { 2 } else { 8 });
    }
}

impl Tin {
    /// Sets the tin's share of `rate` and what follows from it (`cake_set_rate`).
    pub fn configure(&mut self, config: &Config, class: &Class, rate: Rate, mtu: u32) {
        self.rate = Rate::from_bytes_per_sec(class.share.of(rate.bytes_per_sec()));
        self.cost = Cost::of(self.rate);
        self.quantum = class.quantum;
        self.flow_quantum = if self.cost.is_free() {
            MAX_QUANTUM as u32
        } else {
            (self.rate.bytes_per_sec() >> 12).clamp(MIN_QUANTUM, MAX_QUANTUM) as u32
        };
        let params = Params::scaled(config.interval, config.target, self.cost.nanos(mtu));
        self.params = Params { roots: config.roots, ..params };
    }

    /// True if some flow has packets or waits for its turn.
    #[inline]
    pub fn has_active_flows(&self) -> bool {
        self.flows.as_ref().is_some_and(|flows| flows.any_active())
    }

    /// How many flows belong to `set`.
    pub fn count(&self, set: Set) -> u16 {
        self.flows.as_ref().map_or(0, |flows| flows.count(set))
    }

    /// The tables; they are there once a packet has come.
    #[inline]
    pub fn flows_mut(&mut self) -> &mut Flows {
        self.flows.as_mut().expect("a tin with packets has tables")
    }

    /// Charges a packet of `adjusted` bytes to the tin's clock.
    #[inline]
    pub fn charge(&mut self, now: u64, adjusted: u32) {
        self.clock = charge_tin(self.clock, now, self.cost.nanos(adjusted));
    }

    /// The quantum of the flow in queue `index` (`cake_get_flow_quantum`), shared with the other
    /// bulk flows of its host. The dither keeps rounding errors from adding up.
    #[inline]
    pub fn quantum_of(&self, index: usize, mode: FlowMode, draws: &mut Draws) -> i32 {
        let flows = self.flows.as_ref().expect("a tin with packets has tables");
        let part = match flows.host_load(index, mode) {
            1 => WHOLE,
            load => WHOLE / u32::from(load),
        };
        ((self.flow_quantum * part + u32::from(draws.dither())) >> 16) as i32
    }

    /// A packet has come into queue `index`: puts the flow where flows with packets belong.
    #[inline]
    pub fn activate(&mut self, index: usize, mode: FlowMode, draws: &mut Draws) {
        match self.flows_mut().set(index) {
            Set::None | Set::Decaying => {
                let quantum = self.quantum_of(index, mode, draws);
                let flows = self.flows_mut();
                flows.enter(index, Set::Sparse, mode);
                flows.get_mut(index).deficit = quantum;
            }
            Set::SparseWait => self.flows_mut().change(index, Set::Bulk, mode),
            Set::Sparse | Set::Bulk => {}
        }
    }

    /// The flow that may send. Flows before it without credit get a new quantum and move to the
    /// end of the old flows. `None` without any flow.
    #[inline]
    pub fn next_flow(
        &mut self,
        mut decaying_first: bool,
        mode: FlowMode,
        draws: &mut Draws,
    ) -> Option<usize> {
        loop {
            let flows = self.flows_mut();
            let index = flows.first(decaying_first)?;
            decaying_first = false;
            if flows.get(index).deficit > 0 {
                return Some(index);
            }
            self.next_round(index, mode, draws);
        }
    }

    /// The flow in queue `index` has used up its share.
    #[inline]
    fn next_round(&mut self, index: usize, mode: FlowMode, draws: &mut Draws) {
        let flows = self.flows_mut();
        let set = match flows.set(index) {
            Set::Sparse if flows.get(index).chain.is_empty() => Set::SparseWait,
            Set::Sparse => Set::Bulk,
            set => set,
        };
        flows.enter(index, set, mode);
        let quantum = self.quantum_of(index, mode, draws);
        self.flows_mut().get_mut(index).deficit += quantum;
    }

    /// The flow in queue `index` was found empty at its turn: it decays, or is forgotten.
    #[inline]
    pub fn retire(&mut self, index: usize, mode: FlowMode, now: u64) {
        let params = self.params;
        let flows = self.flows_mut();
        let flow = flows.get_mut(index);
        let responsive_again = flow.cobalt.queue_empty(&params, now);
        let at_rest = flow.cobalt.at_rest(now);
        flows.enter(index, if at_rest { Set::None } else { Set::Decaying }, mode);
        if responsive_again {
            self.unresponsive -= 1;
        }
    }

    /// Takes the first packet out of queue `index`.
    #[inline]
    pub fn pop(&mut self, index: usize, pool: &mut Pool) -> Option<DetachedPacket> {
        let flow = self.flows_mut().get_mut(index);
        let ticket = pool.pop(&mut flow.chain)?;
        let len = pool.charge(&ticket).len;
        flow.backlog -= len;
        self.backlog -= len;
        Some(ticket)
    }
}

/// A whole quantum, as `quantum_div` has it.
const WHOLE: u32 = 65535;
/// Least quantum of a flow in bytes.
const MIN_QUANTUM: u64 = 300;
/// Most bytes of a quantum: an Ethernet frame.
const MAX_QUANTUM: u64 = 1514;
