//! What happened over time, in a bounded number of intervals.

/// One interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bin {
    /// Bytes that came.
    pub in_bytes: u64,
    /// Bytes that were sent.
    pub out_bytes: u64,
    /// Packets that were sent.
    pub sent: u64,
    /// Sum of their delays in ns.
    pub delay_ns: u64,
    /// Packets dropped, ACKs not included.
    pub drops: u64,
    /// Packets marked.
    pub marks: u64,
    /// ACKs filtered.
    pub acks: u64,
}

/// Intervals of equal length. When there would be too many, neighbours are joined and the length
/// doubles: a capture of any length fits.
#[derive(Clone, Debug)]
pub struct Bins {
    /// Length of an interval in ns.
    pub width_ns: u64,
    /// The intervals from the first packet on.
    pub bins: Vec<Bin>,
}

impl Default for Bins {
    fn default() -> Self {
        Self { width_ns: FIRST_WIDTH_NS, bins: Vec::new() }
    }
}

impl Bins {
    /// The interval of a moment, `since_start_ns` after the first packet.
    pub fn at(&mut self, since_start_ns: u64) -> &mut Bin {
        while since_start_ns / self.width_ns >= MOST as u64 {
            self.join();
        }
        let index = (since_start_ns / self.width_ns) as usize;
        if self.bins.len() <= index {
            self.bins.resize(index + 1, Bin::default());
        }
        &mut self.bins[index]
    }

    fn join(&mut self) {
        self.width_ns *= 2;
        self.bins = self
            .bins
            .chunks(2)
            .map(|pair| pair.iter().copied().reduce(Bin::plus).unwrap_or_default())
            .collect();
    }

    /// The middle of interval `index` in seconds.
    pub fn seconds(&self, index: usize) -> f64 {
        (index as f64 + 0.5) * self.width_ns as f64 / 1e9
    }
}

impl Bin {
    fn plus(self, other: Self) -> Self {
        Self {
            in_bytes: self.in_bytes + other.in_bytes,
            out_bytes: self.out_bytes + other.out_bytes,
            sent: self.sent + other.sent,
            delay_ns: self.delay_ns + other.delay_ns,
            drops: self.drops + other.drops,
            marks: self.marks + other.marks,
            acks: self.acks + other.acks,
        }
    }
}

const FIRST_WIDTH_NS: u64 = 10_000_000;
const MOST: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_capture_has_wider_intervals_and_loses_nothing() {
        let mut bins = Bins::default();
        for second in 0..100_000u64 {
            bins.at(second * 1_000_000_000).in_bytes += 1;
        }
        assert!(bins.bins.len() <= MOST);
        assert_eq!(bins.bins.iter().map(|bin| bin.in_bytes).sum::<u64>(), 100_000);
        assert_eq!(bins.width_ns, FIRST_WIDTH_NS << 14);
    }
}
