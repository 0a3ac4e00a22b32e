//! Packets that leave a queue, one by one: how long each has waited, and whether it was marked.

use crate::stats::{DIGIT_BITS, bits_beyond_digits};
use datapath::packet::{Ecn, Packet};
use datapath::units::{Duration, Instant};
use hdrhistogram::Histogram;
use sim::record::Watcher;

/// Sees every packet that leaves one queue.
pub struct QueueWatch {
    warmup_end: Instant,
    delays: WaitHistogram,
    /// Packets that left with CE.
    pub marks: u64,
    /// Those of them after the warm-up.
    pub marks_counted: u64,
    /// Packets, and the sum of their waiting times in ns.
    pub waited: (u64, u64),
}

impl QueueWatch {
    /// Watches the queue before a link.
    pub fn new(warmup: Duration) -> Self {
        let warmup_end = Instant::ZERO + warmup;
        Self {
            warmup_end,
            delays: WaitHistogram::default(),
            marks: 0,
            marks_counted: 0,
            waited: (0, 0),
        }
    }

    /// Waiting times after the warm-up, in ns.
    pub fn delays(&self) -> Histogram<u64> {
        self.delays.histogram()
    }

    /// Mean waiting time of the packets since there were `before`, in µs.
    pub fn mean_since(&self, before: (u64, u64)) -> Option<i64> {
        let (packets, total) = (self.waited.0 - before.0, self.waited.1 - before.1);
        (packets > 0).then(|| (total / packets / 1_000) as i64)
    }
}

impl Watcher for QueueWatch {
    fn sent(&mut self, now: Instant, packet: &Packet) {
        let waited = now.saturating_since(packet.meta.enqueued_at).as_nanos();
        self.waited.0 += 1;
        self.waited.1 += waited;
        if packet.network.ecn() == Ecn::Ce {
            self.marks += 1;
            self.marks_counted += u64::from(now >= self.warmup_end);
        }
        if now >= self.warmup_end {
            self.delays.record(waited);
        }
    }
}

/// Waiting times in ns, counted in the buckets of the histogram that they become: to record each of them there takes four
/// times as many instructions.
#[derive(Default)]
struct WaitHistogram(Vec<u64>);

/// Significant decimal digits of a waiting time.
const DIGITS: u8 = 3;
/// The bits of a number that determine its bucket.
const BITS: u32 = DIGIT_BITS;

impl WaitHistogram {
    #[inline]
    fn record(&mut self, ns: u64) {
        let bucket = bucket_of(ns);
        match self.0.get_mut(bucket) {
            Some(count) => *count += 1,
            None => self.record_beyond(bucket),
        }
    }

    #[cold]
    fn record_beyond(&mut self, bucket: usize) {
        self.0.resize((bucket + 1).next_multiple_of(1 << (BITS - 1)), 0);
        self.0[bucket] += 1;
    }

    fn histogram(&self) -> Histogram<u64> {
        let mut all = Histogram::new(DIGITS).expect("so many digits are possible");
        for (bucket, &count) in self.0.iter().enumerate().filter(|(_, count)| **count > 0) {
            all.record_n(least_of(bucket), count).expect("the histogram grows as needed");
        }
        all
    }
}

/// The bucket of a number.
#[inline]
fn bucket_of(ns: u64) -> usize {
    let dropped = bits_beyond_digits(ns);
    ((u64::from(dropped) << (BITS - 1)) + (ns >> dropped)) as usize
}

/// The least number of a bucket.
fn least_of(bucket: usize) -> u64 {
    let dropped = (bucket >> (BITS - 1)).saturating_sub(1);
    ((bucket - (dropped << (BITS - 1))) as u64) << dropped
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_counted_first_is_what_the_histogram_would_have(
            waits in prop::collection::vec((0u32..62, any::<u64>()), 0..200)
        ) {
            let mut waits: Vec<u64> = waits.into_iter().map(|(bits, any)| any >> (2 + bits)).collect();
            let edges = (0..61).flat_map(|bits| [(1 << bits) - 1, 1 << bits]);
            waits.extend(edges);
            let mut counted = WaitHistogram::default();
            let mut recorded = Histogram::<u64>::new(DIGITS).expect("possible");
            for &ns in &waits {
                counted.record(ns);
                recorded.record(ns).expect("it grows");
                prop_assert!(recorded.equivalent(ns, least_of(bucket_of(ns))));
            }
            let counted = counted.histogram();
            prop_assert_eq!(&counted, &recorded);
            prop_assert_eq!(counted.mean().to_bits(), recorded.mean().to_bits());
            for quantile in [0.0, 0.1, 0.5, 0.99, 1.0] {
                prop_assert_eq!(counted.value_at_quantile(quantile), recorded.value_at_quantile(quantile));
            }
        }
    }
}
