//! Rates as the packet scheduler keeps them: a multiplier and a shift instead of a division.

use crate::units::{Duration, NANOS_PER_SEC, Rate};

/// A rate ready for use (`struct psched_ratecfg`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateConfig {
    bytes_per_sec: u64,
    mult: u32,
    shift: u8,
    overhead: u16,
    mpu: u16,
    link_layer: LinkLayer,
}

/// How a length grows on the link (`enum tc_link_layer`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum LinkLayer {
    /// As it is.
    #[default]
    Ethernet,
    /// Cells of 53 bytes that carry 48.
    Atm,
}

impl RateConfig {
    /// `rate` with no overhead on Ethernet.
    pub fn new(rate: Rate) -> Self {
        Self::with_link(rate, 0, 0, LinkLayer::Ethernet)
    }

    /// `rate` for packets that are `overhead` bytes longer and at least `mpu` bytes long on a
    /// link of kind `link_layer` (`psched_ratecfg_precompute`).
    ///
    /// The multiplier is the number of ns a byte takes, scaled by 2^shift with the largest shift
    /// for which it still fits 32 bits, so rates that do not divide 10⁹ lose less than 2⁻³¹.
    pub fn with_link(rate: Rate, overhead: u16, mpu: u16, link_layer: LinkLayer) -> Self {
        let bytes_per_sec = rate.bytes_per_sec();
        let (mut mult, mut shift) = (1, 0);
        while let Some(scaled) = (NANOS_PER_SEC << shift).checked_div(bytes_per_sec) {
            mult = scaled as u32;
            if mult >> 31 != 0 || NANOS_PER_SEC << shift >> 63 != 0 {
                break;
            }
            shift += 1;
        }
        Self { bytes_per_sec, mult, shift, overhead, mpu, link_layer }
    }

    /// The rate.
    pub fn rate(&self) -> Rate {
        Rate::from_bytes_per_sec(self.bytes_per_sec)
    }

    /// How many bytes longer than they are packets count.
    pub fn overhead(&self) -> u16 {
        self.overhead
    }

    /// As how many bytes a shorter packet counts.
    pub fn mpu(&self) -> u16 {
        self.mpu
    }

    /// How a length grows on the link.
    pub fn link_layer(&self) -> LinkLayer {
        self.link_layer
    }

    /// How long `len` bytes take, cut to whole ns (`psched_l2t_ns`).
    pub fn time_of(&self, len: u32) -> Duration {
        let len = u64::from(len.saturating_add(u32::from(self.overhead)));
        let len = len.max(u64::from(self.mpu));
        let on_link = match self.link_layer {
            LinkLayer::Ethernet => len,
            LinkLayer::Atm => len.div_ceil(48) * 53,
        };
        Duration::from_nanos(on_link.wrapping_mul(u64::from(self.mult)) >> self.shift)
    }

    /// The largest packet that a bucket of `depth` can ever let through (`psched_ns_t2l`).
    pub fn size_in(&self, depth: Duration) -> u32 {
        let bytes = u128::from(depth.as_nanos()) * u128::from(self.bytes_per_sec)
            / u128::from(NANOS_PER_SEC);
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        let payload = match self.link_layer {
            LinkLayer::Ethernet => bytes,
            LinkLayer::Atm => bytes / 53 * 48,
        };
        payload.saturating_sub(u32::from(self.overhead))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_is_cut_to_whole_nanoseconds() {
        for (bits, len, nanos) in [
            (10_000_000, 1514, 1_211_200),
            (10_000_000_000, 1514, 1_211),
            (3_000_000, 1601, 4_269_333),
            (5_000_000, 20_000, 32_000_000),
            // 1500 B at 7 Mbit/s are 1714285.71 ns.
            (7_000_000, 1500, 1_714_285),
            (64_000, 1500, 187_500_000),
        ] {
            let rate = RateConfig::new(Rate::from_bits_per_sec(bits));
            assert_eq!(rate.time_of(len).as_nanos(), nanos, "{len} B at {bits} bit/s");
        }
    }

    #[test]
    fn the_multiplier_fills_32_bits() {
        let rate = RateConfig::new(Rate::from_mbit(10));
        assert_eq!((rate.mult, rate.shift), (800 << 22, 22));
    }

    #[test]
    fn cells_and_overhead_lengthen() {
        let atm = RateConfig::with_link(Rate::from_mbit(8), 10, 0, LinkLayer::Atm);
        assert_eq!(atm.time_of(38).as_nanos(), 53_000);
        assert_eq!(atm.time_of(39).as_nanos(), 106_000);
        let mpu = RateConfig::with_link(Rate::from_mbit(8), 0, 64, LinkLayer::Ethernet);
        assert_eq!(mpu.time_of(20).as_nanos(), 64_000);
    }

    #[test]
    fn size_in_is_the_inverse() {
        let rate = RateConfig::new(Rate::from_mbit(10));
        assert_eq!(rate.size_in(Duration::from_nanos(2_480_000)), 3100);
    }
}
