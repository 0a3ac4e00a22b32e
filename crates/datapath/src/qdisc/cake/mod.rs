//! CAKE: Common Applications Kept Enhanced (`sch_cake`), complete and with its ACK filter.
//!
//! A packet passes, from the top: classification into a **tin** (`tins`), hashing to a **flow
//! queue** of that tin (`hash`, `flows`), possibly the **ACK filter** (`ack_filter`). On the
//! way out the **shaper** (`shaper`) says when, the tins' clocks say which tin, **DRR++** with
//! host fairness says which flow, and **COBALT** (`cobalt`) whether to mark or drop. See
//! `docs/cake.md`.

mod ack_filter;
mod autorate;
mod check;
mod classid;
mod cobalt;
mod config;
mod conntrack;
mod dequeue;
mod draws;
mod enqueue;
mod flows;
mod hash;
mod hosts;
mod kernel_hash;
mod memory;
mod overflow;
mod overhead;
mod pool;
mod rotations;
mod segment;
mod shaper;
mod stats;
#[cfg(test)]
mod tests;
mod tin;
mod tins;

pub use ack_filter::{AckRule, pure_ack};
pub use cobalt::Roots;
pub use config::{AckFilter, Config, FlowMode, Framing, Patch, TinMode};
pub use conntrack::Conntrack;
pub use draws::Draws;
pub use overhead::{Sizes, on_link};
pub use stats::{CakeStats, FlowStats, TinStats};

use super::filter::Filter;
use super::{Backlog, Cx, Enqueue, Handle, Qdisc, Stats};
use crate::packet::seq::Seq;
use crate::packet::{FlowTuple, Packet};
use crate::reason::Reason;
use crate::rng::Rng;
use crate::units::{Instant, Rate};
use autorate::Autorate;
use hash::Hasher;
use memory::Memory;
use overflow::{Longest, MAX_TINS};
use pool::{DetachedPacket, Pool};
use shaper::{ChargeKind, Clocks, Cost};
use std::sync::Arc;
use tin::Tin;

/// An instance of CAKE.
#[derive(Clone, Debug)]
pub struct Cake {
    config: Config,
    /// This qdisc, as `skb->priority` may name it.
    handle: Handle,
    /// MTU of the device with its link-layer header (`psched_mtu`).
    mtu: u32,
    /// The rate in force: the configured one, or what autorate has found.
    rate: Rate,
    cost: Cost,
    clocks: Clocks,
    tins: Box<[Tin; MAX_TINS]>,
    /// Which tins have flows with packets or flows that wait for their turn: a bit each.
    active: u8,
    /// The tin chosen last (`cur_tin`), where the round robin continues when unlimited.
    current: usize,
    pool: Pool,
    longest: Option<Box<Longest>>,
    memory: Memory,
    backlog: Backlog,
    stats: Stats,
    /// Packets sent, a super-packet being one.
    sent: u64,
    /// Packets discarded with the tin that they waited in.
    purged: u64,
    sizes: Sizes,
    autorate: Autorate,
    wake_at: Option<Instant>,
    /// The isolation mode was changed while there were flows, which are still counted for their former hosts.
    isolation_changed: bool,
    hasher: Hasher,
    draws: Draws,
    conntrack: Option<Arc<dyn Conntrack>>,
    filters: Vec<Filter>,
    /// A log of the ACK filter's decisions, if enabled.
    ack_log: Option<Vec<AckJudgement>>,
    /// Log only decisions to drop an ACK.
    logs_gone_only: bool,
}

/// One packet that the ACK filter examined, and why it was dropped or kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AckJudgement {
    /// The owner ([`crate::packet::Meta::owner`]) of the packet that was looked at.
    pub owner: u32,
    /// The owner of the packet that had just been queued.
    pub newest: u32,
    /// Why.
    pub rule: AckRule,
    /// When.
    pub at: Instant,
    /// Whose ACK it was and what it acknowledged, if it goes.
    pub gone: Option<FilteredAck>,
}

/// An ACK that the filter drops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FilteredAck {
    /// Its addresses and ports.
    pub flow: FlowTuple,
    /// What it acknowledged.
    pub ack: Seq,
    /// What the packet that had just been queued acknowledges.
    pub newest: Seq,
}

impl Cake {
    /// An instance for a device with this MTU (link-layer header included, 1514 on Ethernet).
    /// `rng` gives the hash key and then the draws of dither and BLUE.
    pub fn new(config: Config, mtu: u32, mut rng: Rng) -> Self {
        let hasher = Hasher::new(&mut rng);
        let mut cake = Self {
            config,
            handle: Handle::NONE,
            mtu,
            rate: config.bandwidth,
            cost: Cost::default(),
            clocks: Clocks::default(),
            tins: Box::default(),
            active: 0,
            current: 0,
            pool: Pool::default(),
            longest: None,
            memory: Memory::default(),
            backlog: Backlog::default(),
            stats: Stats::default(),
            sent: 0,
            purged: 0,
            sizes: Sizes::default(),
            autorate: Autorate::default(),
            wake_at: None,
            isolation_changed: false,
            hasher,
            draws: Draws::Seeded(rng),
            conntrack: None,
            filters: Vec::new(),
            ack_log: None,
            logs_gone_only: false,
        };
        cake.autorate.peak = config.bandwidth.bytes_per_sec();
        cake.reconfigure();
        cake
    }

    /// The same with other random draws.
    pub fn with_draws(self, draws: Draws) -> Self {
        Self { draws, ..self }
    }

    /// Random draws come from elsewhere.
    pub fn set_draws(&mut self, draws: Draws) {
        self.draws = draws;
    }

    /// The same with the kernel's hash of flows and hosts under this key, so that packets lie in the
    /// queues in which they lay there.
    pub fn with_hash_key(self, key: (u64, u64)) -> Self {
        Self { hasher: Hasher::kernel(key), ..self }
    }

    /// The same as the qdisc with this handle: packets whose `skb->priority` has its major number
    /// choose their tin by their minor number.
    pub fn with_handle(self, handle: Handle) -> Self {
        Self { handle, ..self }
    }

    /// The same with a connection tracker for `nat`.
    pub fn with_conntrack(self, conntrack: Arc<dyn Conntrack>) -> Self {
        Self { conntrack: Some(conntrack), ..self }
    }

    /// The same with a log of the ACK filter's judgements, which [`Cake::ack_log`] gives.
    pub fn with_ack_log(self) -> Self {
        Self { ack_log: Some(Vec::new()), ..self }
    }

    /// Begins a log of the ACKs that the filter drops, of [`GONE_MAX`](Self::GONE_MAX) at most, which
    /// [`Cake::filtered_acks`] shows.
    pub fn log_filtered_acks(&mut self) {
        self.ack_log.get_or_insert_default();
        self.logs_gone_only = true;
    }

    /// The judgements that are logged.
    pub fn filtered_acks(&self) -> &[AckJudgement] {
        self.ack_log.as_deref().unwrap_or_default()
    }

    /// Maximum number of logged ACKs.
    pub const GONE_MAX: usize = 1_000_000;

    fn log_ack(&mut self, judgement: AckJudgement) {
        let Some(log) = &mut self.ack_log else { return };
        let wanted = !self.logs_gone_only || judgement.gone.is_some() && log.len() < Self::GONE_MAX;
        if wanted {
            log.push(judgement);
        }
    }

    /// The judgements since the last call, in their order; none without [`Cake::with_ack_log`].
    pub fn ack_log(&mut self) -> impl Iterator<Item = AckJudgement> + '_ {
        self.ack_log.iter_mut().flat_map(|log| log.drain(..))
    }

    /// Adds a filter behind those of the same preference. Its class is a queue (minor number) and
    /// a host (major number), from 1 to 1024.
    pub fn add_filter(&mut self, filter: Filter) {
        filter.add_to(&mut self.filters);
    }

    /// The configuration.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Changes what `patch` names (`cake_change`), with packets in the queues.
    ///
    /// Packets in tins that no longer exist are discarded without being counted as dropped
    /// (`cake_clear_tin`); they are handed over as purged.
    pub fn change(&mut self, patch: &Patch, cx: &mut Cx<'_>) {
        let isolation = self.config.flows;
        self.config = self.config.patched(patch);
        self.isolation_changed |= isolation != self.config.flows;
        if let Some(bandwidth) = patch.bandwidth {
            self.rate = bandwidth;
        }
        if patch.resets_sizes() {
            self.sizes.restart();
        }
        for tin in self.config.tins.classes().len()..MAX_TINS {
            self.clear_tin(tin, cx);
        }
        self.reconfigure();
    }

    /// Derives everything that follows from configuration and rate (`cake_reconfigure`).
    fn reconfigure(&mut self) {
        let classes = self.config.tins.classes();
        for (tin, class) in self.tins.iter_mut().zip(classes) {
            tin.configure(&self.config, class, self.rate, self.mtu);
        }
        self.cost = self.tins[0].cost;
        // The kernel clears the unused tins, which leaves the last of them as `cur_tin`.
        if classes.len() < MAX_TINS {
            self.current = MAX_TINS - 1;
        }
        self.memory.limit = self.memory_limit();
    }

    fn memory_limit(&self) -> u64 {
        let configured = u64::from(self.config.memlimit);
        let limit = match self.config.memlimit {
            0 if self.cost.is_free() => u64::MAX,
            0 => {
                // `cake_reconfigure` multiplies in 64 bits and keeps 32, and an estimated rate may be
                // any.
                let interval = self.config.interval.as_micros();
                let per_interval = self.rate.bytes_per_sec().wrapping_mul(interval);
                u64::from((per_interval / QUARTER_SECOND) as u32).max(LEAST_MEMORY)
            }
            _ => configured,
        };
        limit.min((MOST_PACKETS * u64::from(self.mtu)).max(configured))
    }

    /// Discards everything in a tin.
    fn clear_tin(&mut self, tin: usize, cx: &mut Cx<'_>) {
        let Some(flows) = &self.tins[tin].flows else { return };
        let mut filled: Vec<usize> = flows.active().map(|(index, _)| index).collect();
        filled.retain(|&index| !flows.get(index).chain.is_empty());
        for index in filled {
            while let Some(ticket) = self.take(tin, index) {
                self.purged += 1;
                self.hand_over(Reason::QueuePurge, ticket, cx);
                self.shrunk(tin, index);
            }
        }
    }

    /// Takes the first packet out of a queue, with all accounts.
    #[inline]
    fn take(&mut self, tin: usize, index: usize) -> Option<DetachedPacket> {
        let ticket = self.tins[tin].pop(index, &mut self.pool)?;
        self.account_gone(&ticket);
        Some(ticket)
    }

    /// A packet is no longer queued.
    #[inline]
    fn account_gone(&mut self, ticket: &DetachedPacket) {
        let charge = self.pool.charge(ticket);
        self.backlog.packets -= 1;
        self.backlog.bytes -= charge.len;
        self.memory.used -= u64::from(charge.memory);
    }

    /// Counts and hands over a packet that has left its queue for good.
    fn drop(&mut self, reason: Reason, ticket: DetachedPacket, cx: &mut Cx<'_>) {
        self.stats.drops += 1;
        self.hand_over(reason, ticket, cx);
    }

    fn hand_over(&mut self, reason: Reason, ticket: DetachedPacket, cx: &mut Cx<'_>) {
        let mut packet = Packet::default();
        ticket.redeem(&mut self.pool, &mut packet);
        cx.drop(reason, packet);
    }

    /// Charges a packet to its tin and to the whole (`cake_advance_shaper`).
    #[inline]
    fn charge(&mut self, tin: usize, adjusted: u32, now: u64, fate: ChargeKind) {
        if self.cost.is_free() {
            return;
        }
        self.tins[tin].charge(now, adjusted);
        self.clocks.charge(self.cost.nanos(adjusted), fate);
    }

    /// Asks to be woken when the shaper opens.
    fn wait(&mut self) {
        self.wake_at = Some(Instant::from_nanos(self.clocks.opens()));
    }
}

impl Qdisc for Cake {
    fn enqueue(&mut self, mut packet: Packet, cx: &mut Cx<'_>) -> Enqueue {
        self.enqueue_from(&mut packet, cx)
    }

    fn enqueue_from(&mut self, place: &mut Packet, cx: &mut Cx<'_>) -> Enqueue {
        self.insert(place, cx)
    }

    fn dequeue(&mut self, cx: &mut Cx<'_>) -> Option<Packet> {
        let mut packet = Packet::default();
        self.dequeue_into(&mut packet, cx).then_some(packet)
    }

    fn dequeue_into(&mut self, place: &mut Packet, cx: &mut Cx<'_>) -> bool {
        self.next_packet(place, cx)
    }

    fn purge(&mut self, cx: &mut Cx<'_>) {
        for tin in 0..MAX_TINS {
            self.clear_tin(tin, cx);
        }
        self.wake_at = None;
    }

    fn wake_at(&self) -> Option<Instant> {
        self.wake_at
    }

    fn backlog(&self) -> Backlog {
        self.backlog
    }

    fn stats(&self) -> Stats {
        self.stats
    }
}

/// A table of as many entries as there are.
#[expect(clippy::unnecessary_box_returns, reason = "tables are too large for small stacks")]
fn table<T, const N: usize>(entries: impl Iterator<Item = T>) -> Box<[T; N]> {
    let entries: Box<[T]> = entries.collect();
    entries.try_into().unwrap_or_else(|_| unreachable!("there are {N} entries"))
}

/// An exponentially weighted moving average with weight 2⁻ˢʰⁱᶠᵗ (`cake_ewma`).
const fn ewma(average: u64, sample: u64, shift: u32) -> u64 {
    average - (average >> shift) + (sample >> shift)
}

/// Micro-seconds in a quarter of a second: the default limit is four times rate · interval.
const QUARTER_SECOND: u64 = 250_000;
/// 4 MiB.
const LEAST_MEMORY: u64 = 4 << 20;
/// `sch->limit`, counted in packets of one MTU.
const MOST_PACKETS: u64 = 10_240;
