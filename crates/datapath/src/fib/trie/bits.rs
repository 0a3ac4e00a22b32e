//! Addresses as strings of bits.

use core::fmt::Debug;

/// An address as a string of bits, most significant first.
pub trait Bits: Copy + Eq + Ord + Debug {
    /// How many bits there are: 32 or 128.
    const WIDTH: u8;
    /// Longest jump table, in address bits.
    const MAX_JUMP: u8;
    /// All bits zero.
    const ZERO: Self;
    /// Bit `index`, 0 being the most significant; `index < WIDTH`.
    fn bit(self, index: u8) -> usize;
    /// The first `len` bits, the rest zero.
    fn masked(self, len: u8) -> Self;
    /// How many leading bits `self` and `other` have in common.
    fn common(self, other: Self) -> u8;
    /// The first `len` bits as a number, `1 <= len <= MAX_JUMP`.
    fn top(self, len: u8) -> usize;
    /// A well-mixed 64-bit digest for the host index.
    fn digest(self) -> u64;
    /// The 32 bits of an IPv4 address; `None` for an IPv6 one.
    fn as_v4(self) -> Option<u32>;
    /// The address whose first `len` bits are `top`, the rest zero.
    fn from_top(top: usize, len: u8) -> Self;
}

impl Bits for u32 {
    const WIDTH: u8 = 32;
    const MAX_JUMP: u8 = 20;
    const ZERO: Self = 0;

    fn bit(self, index: u8) -> usize {
        (self >> (31 - index) & 1) as usize
    }

    fn masked(self, len: u8) -> Self {
        if len == 0 { 0 } else { self & (u32::MAX << (32 - len)) }
    }

    fn common(self, other: Self) -> u8 {
        (self ^ other).leading_zeros() as u8
    }

    fn top(self, len: u8) -> usize {
        (self >> (32 - len)) as usize
    }

    fn digest(self) -> u64 {
        u64::from(self).wrapping_mul(SPREAD)
    }

    #[inline]
    fn as_v4(self) -> Option<u32> {
        Some(self)
    }

    fn from_top(top: usize, len: u8) -> Self {
        (top as u32) << (32 - len)
    }
}

impl Bits for u128 {
    const WIDTH: u8 = 128;
    const MAX_JUMP: u8 = 20;
    const ZERO: Self = 0;

    fn bit(self, index: u8) -> usize {
        (self >> (127 - index) & 1) as usize
    }

    fn masked(self, len: u8) -> Self {
        if len == 0 { 0 } else { self & (u128::MAX << (128 - len)) }
    }

    fn common(self, other: Self) -> u8 {
        (self ^ other).leading_zeros() as u8
    }

    fn top(self, len: u8) -> usize {
        (self >> (128 - len)) as usize
    }

    fn digest(self) -> u64 {
        let high = ((self >> 64) as u64).wrapping_mul(SPREAD).rotate_left(29);
        (self as u64 ^ high).wrapping_mul(SPREAD)
    }

    #[inline]
    fn as_v4(self) -> Option<u32> {
        None
    }

    fn from_top(top: usize, len: u8) -> Self {
        (top as u128) << (128 - len)
    }
}

/// An odd constant that spreads small numbers over 64 bits (2⁶⁴ divided by the golden ratio).
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;
