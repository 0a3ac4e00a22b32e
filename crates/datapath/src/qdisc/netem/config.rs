//! The configuration of netem.

use super::random::{Chance, Correlated, DelayTable, Loss};
use crate::units::{NANOS_PER_SEC, Rate};

/// What a [`Netem`](super::Netem) is configured with (`TCA_NETEM_*`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetemConfig {
    /// Packets that may wait, those still on their way included.
    pub limit: u32,
    /// Mean delay in ns.
    pub delay: i64,
    /// Spread of the delay in ns.
    pub jitter: i64,
    /// Correlation of successive delays.
    pub delay_correlation: Correlated,
    /// Shape of the delay; uniform without.
    pub distribution: Option<DelayTable>,
    /// Which packets get lost.
    pub loss: Loss,
    /// CE instead of loss, for ECN-capable packets.
    pub ecn: bool,
    /// Which packets are sent twice.
    pub duplicate: (Chance, Correlated),
    /// Which packets get a wrong bit, so that the receiver's checksum fails.
    pub corrupt: (Chance, Correlated),
    /// Which packets leave at once, past those that wait. Without a delay it has no effect.
    pub reorder: (Chance, Correlated),
    /// Only every `gap`th packet may be reordered; 0: no reordering at all.
    pub gap: u32,
    /// Serialisation at a rate.
    pub rate: Option<NetemRate>,
    /// Delivery in bursts.
    pub slot: Option<Slot>,
}

/// Serialisation (`struct tc_netem_rate`): the same length on the link for the same cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NetemRate {
    /// The rate.
    pub rate: Rate,
    /// Bytes added to each packet; may be negative.
    pub packet_overhead: i32,
    /// Payload bytes of a cell; 0: no cells.
    pub cell_size: u32,
    /// Bytes added to each cell; may be negative.
    pub cell_overhead: i32,
}

/// Slots (`struct tc_netem_slot`): packets wait for the next slot and leave together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    /// Shortest time between slots in ns.
    pub min_delay: u64,
    /// Longest time between slots in ns.
    pub max_delay: u64,
    /// Packets that leave in one slot; 0: any number.
    pub packets: u32,
    /// Bytes that leave in one slot; 0: any number.
    pub bytes: u32,
}

impl Default for NetemConfig {
    /// What `tc qdisc add ... netem` without words gives: a FIFO of 1000 packets.
    fn default() -> Self {
        Self {
            limit: 1000,
            delay: 0,
            jitter: 0,
            delay_correlation: Correlated::default(),
            distribution: None,
            loss: Loss::None,
            ecn: false,
            duplicate: Default::default(),
            corrupt: Default::default(),
            reorder: Default::default(),
            gap: 0,
            rate: None,
            slot: None,
        }
    }
}

impl NetemConfig {
    /// Applies a change to `old`: limit, delay, jitter, loss, duplication and
    /// gap are always replaced; other settings keep their value if they are not given.
    pub(super) fn over(mut self, old: Self) -> Self {
        if !self.has_correlation() {
            self.delay_correlation = old.delay_correlation;
            self.duplicate.1 = old.duplicate.1;
            if let (Loss::Random(_, new), Loss::Random(_, old)) = (&mut self.loss, old.loss) {
                *new = old;
            }
        }
        if self.corrupt.0 == 0 {
            self.corrupt = old.corrupt;
        }
        if self.reorder.0 == 0 {
            self.reorder = old.reorder;
        }
        self.ecn |= old.ecn;
        self.distribution = self.distribution.or(old.distribution);
        self.rate = self.rate.or(old.rate);
        self.slot = self.slot.or(old.slot);
        self
    }

    /// Whether delay, loss or duplication was given a correlation; tc sends all three together.
    fn has_correlation(&self) -> bool {
        let loss = match &self.loss {
            Loss::Random(_, correlated) => correlated.rho,
            _ => 0,
        };
        self.delay_correlation.rho != 0 || self.duplicate.1.rho != 0 || loss != 0
    }
}

impl NetemRate {
    /// How long a packet of `len` bytes takes, cut to whole ns (`packet_time_ns`).
    pub(super) fn time_of(&self, len: u32) -> i64 {
        let mut len = i64::from(len) + i64::from(self.packet_overhead);
        if self.cell_size > 0 {
            let cell = i64::from(self.cell_size);
            let cells = (len.max(0) as u64).div_ceil(u64::from(self.cell_size)) as i64;
            len = cells * (cell + i64::from(self.cell_overhead));
        }
        let scaled = u128::from(len.max(0) as u64) * u128::from(NANOS_PER_SEC);
        (scaled / u128::from(self.rate.bytes_per_sec().max(1))) as i64
    }
}
