//! Random draws.

use crate::rng::Rng;

/// Where random numbers come from.
#[derive(Clone, Debug)]
pub enum Draws {
    /// A seeded stream.
    Seeded(Rng),
    /// Constants, to compare with a kernel whose draws were fixed.
    Fixed {
        /// What each quantum is dithered by.
        dither: u16,
        /// What BLUE draws.
        blue: u32,
    },
}

impl Draws {
    /// 16 bits to dither a quantum.
    pub fn dither(&mut self) -> u16 {
        match self {
            Self::Seeded(rng) => (rng.next_u32() >> 16) as u16,
            Self::Fixed { dither, .. } => *dither,
        }
    }

    /// 32 bits for BLUE.
    pub fn blue(&mut self) -> u32 {
        match self {
            Self::Seeded(rng) => rng.next_u32(),
            Self::Fixed { blue, .. } => *blue,
        }
    }
}
