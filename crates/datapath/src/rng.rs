//! Randomness: one seeded stream per entity, so that adding a link does not change another's luck.

use rand_core::{Rng as _, SeedableRng as _};
use rand_pcg::Pcg64;

/// A deterministic random stream (PCG XSL RR 128/64), fully determined by `(seed, entity)`.
#[derive(Clone, Debug)]
pub struct Rng(Pcg64);

/// A probability as parts of 2³², as `netem` and RED keep it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Ratio(u64);

impl Ratio {
    /// Never.
    pub const NEVER: Self = Self(0);
    /// Always.
    pub const ALWAYS: Self = Self(1 << 32);

    /// `parts` of 2³²; values above 2³² mean always.
    pub const fn from_parts(parts: u64) -> Self {
        if parts > 1 << 32 { Self::ALWAYS } else { Self(parts) }
    }

    /// `millionths` of one, rounded to the nearest 2⁻³².
    pub const fn from_millionths(millionths: u64) -> Self {
        Self::from_parts(((millionths << 32) + 500_000) / 1_000_000)
    }

    /// Parts of 2³².
    pub const fn parts(self) -> u64 {
        self.0
    }
}

impl Rng {
    /// The stream that belongs to `entity` in a run with `seed`.
    pub fn stream(seed: u64, entity: u64) -> Self {
        let mut state = [0u8; 32];
        state[..8].copy_from_slice(&seed.to_le_bytes());
        state[8..16].copy_from_slice(&seed.rotate_left(32).wrapping_mul(SPREAD).to_le_bytes());
        state[16..24].copy_from_slice(&entity.wrapping_mul(SPREAD).to_le_bytes());
        state[24..].copy_from_slice(&entity.to_le_bytes());
        Self(Pcg64::from_seed(state))
    }

    /// 32 uniform bits.
    pub fn next_u32(&mut self) -> u32 {
        (self.0.next_u64() >> 32) as u32
    }

    /// 64 uniform bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// A uniform value in `0..bound` (multiply-shift; `bound` must not be zero).
    pub fn below(&mut self, bound: u64) -> u64 {
        assert!(bound > 0, "an empty range has no random value");
        ((u128::from(self.0.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// True with probability `ratio`.
    pub fn chance(&mut self, ratio: Ratio) -> bool {
        let drawn = self.0.next_u64();
        // Most chances are none; the generator goes on all the same.
        ratio.0 != 0 && drawn >> 32 < ratio.0
    }
}

/// The multiplications of SplitMix64's finaliser: every higher bit then depends on every bit of `number`.
pub const fn mix(number: u64) -> u64 {
    let mixed = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb)
}

/// A number that looks drawn (SplitMix64). Never 0, which as a hash of packets means none.
pub(crate) const fn drawn(seed: u64) -> u32 {
    let mixed = mix(seed.wrapping_add(SPREAD));
    match (mixed ^ (mixed >> 31)) as u32 {
        0 => 1,
        hash => hash,
    }
}

/// An odd constant that spreads small numbers over 64 bits (2⁶⁴ divided by the golden ratio).
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn golden_values_pin_the_generator() {
        let mut rng = Rng::stream(1, 2);
        let drawn: Vec<u64> = (0..3).map(|_| rng.next_u64()).collect();
        assert_eq!(drawn, GOLDEN, "the random streams changed: every recorded result changes");
    }

    #[test]
    fn streams_of_neighbours_differ() {
        assert_ne!(Rng::stream(1, 1).next_u64(), Rng::stream(1, 2).next_u64());
        assert_ne!(Rng::stream(1, 1).next_u64(), Rng::stream(2, 1).next_u64());
    }

    #[test]
    fn chance_hits_its_ratio() {
        let mut rng = Rng::stream(7, 7);
        let hits = (0..100_000).filter(|_| rng.chance(Ratio::from_millionths(10_000))).count();
        assert!((900..1100).contains(&hits), "{hits} of 100000 at 1 %");
        assert!(rng.chance(Ratio::ALWAYS));
        assert!(!rng.chance(Ratio::NEVER));
    }

    const GOLDEN: [u64; 3] = [11767055877619162789, 10939500551303233707, 10176458776623155089];
}
