//! What `tc -s qdisc` and `tc -s class` show (`cake_dump_stats`, `cake_dump_class_stats`), in the
//! kernel's units.

use super::Cake;
use super::Sizes;
use super::flows::Set;
use super::hash::QUEUES;
use super::tin::{Counters, Tin};
use crate::units::Instant;

/// Statistics of an instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CakeStats {
    /// Rate in force, in byte/s (autorate changes it); 0 = unlimited.
    pub rate: u64,
    /// Most memory ever in use, in bytes.
    pub memory_used: u64,
    /// Memory limit in bytes.
    pub memory_limit: u64,
    /// Estimated bandwidth in byte/s.
    pub capacity_estimate: u64,
    /// Packet sizes.
    pub sizes: Sizes,
    /// The tins in the order in which they are shown.
    pub tins: Vec<TinStats>,
}

/// Statistics of a tin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TinStats {
    /// Name of the tin.
    pub name: &'static str,
    /// Rate of the tin in byte/s.
    pub threshold_rate: u64,
    /// Bytes that entered.
    pub sent_bytes: u64,
    /// Bytes that wait.
    pub backlog_bytes: u32,
    /// COBALT's target in µs.
    pub target_us: u64,
    /// COBALT's interval in µs.
    pub interval_us: u64,
    /// Delay in µs, following rises.
    pub peak_delay_us: u64,
    /// Average delay in µs.
    pub average_delay_us: u64,
    /// Delay in µs, following falls.
    pub base_delay_us: u64,
    /// Packets that entered.
    pub sent_packets: u32,
    /// Flows found beside their home.
    pub way_indirect_hits: u32,
    /// New flows.
    pub way_misses: u32,
    /// Flows that had to share a queue.
    pub way_collisions: u32,
    /// Packets dropped.
    pub drops: u32,
    /// Packets marked.
    pub ecn_mark: u32,
    /// ACKs filtered.
    pub ack_drops: u32,
    /// Sparse and decaying flows.
    pub sparse_flows: u16,
    /// Bulk flows.
    pub bulk_flows: u16,
    /// Flows that BLUE deals with.
    pub unresponsive_flows: u16,
    /// Largest packet.
    pub max_pkt_len: u32,
    /// Quantum of a flow in bytes.
    pub flow_quantum: u32,
}

/// Statistics of one flow queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowStats {
    /// Minor number of its class: position of the tin · 1024 + queue + 1.
    pub minor: u32,
    /// Packets dropped.
    pub dropped: u32,
    /// Bytes that wait.
    pub backlog: u32,
    /// Packets that wait.
    pub qlen: u32,
    /// Bytes that may still be sent in this round.
    pub deficit: i32,
    /// COBALT's count.
    pub count: u32,
    /// In COBALT's state of signalling: µs since the next signal was due, negative if it is yet to
    /// come.
    pub drop_next_us: Option<i32>,
    /// BLUE's drop probability in units of 2⁻³².
    pub blue_prob: u32,
    /// µs since BLUE's probability last changed, while it is not zero; negative never.
    pub blue_timer_us: Option<i32>,
}

impl Cake {
    /// The statistics of the instance.
    pub fn cake_stats(&self) -> CakeStats {
        let classes = self.config.tins.classes();
        let order = self.config.tins.display_order();
        let tins = order.iter().map(|&tin| tin_stats(classes[tin].name, &self.tins[tin]));
        CakeStats {
            rate: self.rate.bytes_per_sec(),
            memory_used: self.memory.max_used,
            memory_limit: self.memory.limit,
            capacity_estimate: self.autorate.peak,
            sizes: self.sizes,
            tins: tins.collect(),
        }
    }

    /// Asserts that every packet that entered was sent, was dropped, went with its tin, or waits.
    pub fn assert_conserved(&self) {
        let entered =
            self.tins.iter().fold(0u32, |sum, tin| sum.wrapping_add(tin.counters.packets));
        let waiting = u64::from(self.backlog.packets);
        let accounted = self.sent + self.stats.drops + self.purged + waiting;
        assert_eq!(entered, accounted as u32, "in = out + dropped + purged + backlog");
        let waiting: u32 = self.tins.iter().map(|tin| tin.backlog).sum();
        assert_eq!(waiting, self.backlog.bytes, "the tins hold what the instance holds");
    }

    /// The statistics of every queue that is not at rest, by class number.
    pub fn flow_stats(&self, now: Instant) -> Vec<FlowStats> {
        let mut stats = Vec::new();
        for (position, &tin) in self.config.tins.display_order().iter().enumerate() {
            let Some(flows) = &self.tins[tin].flows else { continue };
            for (index, flow) in flows.active() {
                // `ktime_to_us` rounds towards zero, what lies ahead as well.
                let since = |then: u64| ((now.as_nanos() as i64 - then as i64) / 1000) as i32;
                let cobalt = &flow.cobalt;
                stats.push(FlowStats {
                    minor: (position * QUEUES + index + 1) as u32,
                    dropped: flow.dropped,
                    backlog: flow.backlog,
                    qlen: self.pool.count(&flow.chain) as u32,
                    deficit: flow.deficit,
                    count: cobalt.count,
                    drop_next_us: cobalt.dropping.then(|| since(cobalt.drop_next)),
                    blue_prob: cobalt.p_drop,
                    blue_timer_us: (cobalt.p_drop != 0).then(|| since(cobalt.blue_timer)),
                });
            }
        }
        stats
    }
}

fn tin_stats(name: &'static str, tin: &Tin) -> TinStats {
    let Counters {
        packets,
        bytes,
        way_hits,
        way_misses,
        way_collisions,
        dropped,
        marked,
        ack_drops,
        max_len,
    } = tin.counters;
    TinStats {
        name,
        threshold_rate: tin.rate.bytes_per_sec(),
        sent_bytes: bytes,
        backlog_bytes: tin.backlog,
        target_us: tin.params.target / 1000,
        interval_us: tin.params.interval / 1000,
        peak_delay_us: tin.delays.peak / 1000,
        average_delay_us: tin.delays.average / 1000,
        base_delay_us: tin.delays.base / 1000,
        sent_packets: packets,
        way_indirect_hits: way_hits,
        way_misses,
        way_collisions,
        drops: dropped,
        ecn_mark: marked,
        ack_drops,
        sparse_flows: [Set::Sparse, Set::SparseWait, Set::Decaying]
            .map(|set| tin.count(set))
            .iter()
            .sum(),
        bulk_flows: tin.count(Set::Bulk),
        unresponsive_flows: tin.unresponsive,
        max_pkt_len: max_len,
        flow_quantum: tin.flow_quantum,
    }
}
