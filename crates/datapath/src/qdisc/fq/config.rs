//! How fq is configured, and what it counts.

use crate::units::Duration;

/// What an [`Fq`](super::Fq) is configured with (`TCA_FQ_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FqConfig {
    /// Packets that may wait in all flows.
    pub limit: u32,
    /// Packets that may wait in one flow.
    pub flow_limit: u32,
    /// Size of the flow table, a power of two: how many idle flows are remembered.
    pub buckets: u32,
    /// Number of flows, less one, that packets without a socket share.
    pub orphan_mask: u32,
    /// Bytes that a flow may send per round.
    pub quantum: u32,
    /// Bytes that a new flow may send before its first round.
    pub initial_quantum: u32,
    /// Highest rate of a flow in byte/s; `u64::MAX` = no limit.
    pub maxrate: u64,
    /// Flows slower than this, in byte/s, are paced packet by packet.
    pub low_rate_threshold: u64,
    /// Rates are enforced.
    pub pacing: bool,
    /// A flow that was idle for so long gets a whole quantum.
    pub refill_delay: Duration,
    /// How late the timer may fire.
    pub timer_slack: Duration,
    /// Packets that leave later than this after their time are CE-marked.
    pub ce_threshold: Option<Duration>,
    /// How far ahead a packet's time may lie.
    pub horizon: Duration,
    /// Packets beyond the horizon are dropped; otherwise they leave at it.
    pub horizon_drop: bool,
}

impl FqConfig {
    /// The defaults for a device whose largest frame is `mtu` bytes.
    pub fn new(mtu: u32) -> Self {
        Self {
            limit: 10_000,
            flow_limit: 100,
            buckets: 1_024,
            orphan_mask: 1_023,
            quantum: 2 * mtu,
            initial_quantum: 10 * mtu,
            maxrate: u64::MAX,
            low_rate_threshold: 550_000 / 8,
            pacing: true,
            refill_delay: Duration::from_millis(40),
            timer_slack: Duration::from_micros(10),
            ce_threshold: None,
            horizon: Duration::from_secs(10),
            horizon_drop: true,
        }
    }
}

/// What fq counts besides the common counters (`struct tc_fq_qd_stats`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct FqStats {
    /// Idle flows forgotten.
    pub gc_flows: u64,
    /// Packets of control priority, which pass all others.
    pub highprio_packets: u64,
    /// Times that a flow had to wait for its packet's time.
    pub throttled: u64,
    /// Packets dropped because their flow was full.
    pub flows_plimit: u64,
    /// Packets too long for their rate.
    pub pkts_too_long: u64,
    /// Packets that were to be CE-marked, whether they are capable of it or not.
    pub ce_mark: u64,
    /// Packets dropped because their time lay beyond the horizon.
    pub horizon_drops: u64,
    /// Packets whose time was brought back to the horizon.
    pub horizon_caps: u64,
}

/// How many flows there are, and in which state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct FqFlows {
    /// All.
    pub flows: u32,
    /// Without packets.
    pub inactive: u32,
    /// Waiting for a packet's time.
    pub throttled: u32,
}
