//! Sequence numbers: 32 bits that wrap (RFC 9293 section 3.4).

use core::fmt;
use core::ops::{Add, AddAssign, Sub};

/// A TCP sequence number. It has no `Ord`: order is only defined between numbers less than 2³¹
/// apart, by [`before`](Seq::before) and [`after`](Seq::after).
#[derive(Clone, Copy, PartialEq, Eq, Default, Hash)]
pub struct Seq(pub u32);

impl Seq {
    /// `self` lies before `other` (`before()` in the kernel).
    #[inline]
    pub const fn before(self, other: Self) -> bool {
        (self.0.wrapping_sub(other.0) as i32) < 0
    }

    /// `self` lies after `other` (`after()`).
    #[inline]
    pub const fn after(self, other: Self) -> bool {
        other.before(self)
    }

    /// `self` is `other` or before it.
    #[inline]
    pub const fn at_or_before(self, other: Self) -> bool {
        !other.before(self)
    }

    /// `self` is `other` or after it.
    #[inline]
    pub const fn at_or_after(self, other: Self) -> bool {
        !self.before(other)
    }

    /// The later of the two.
    #[inline]
    pub const fn max(self, other: Self) -> Self {
        if self.before(other) { other } else { self }
    }

    /// The earlier of the two.
    #[inline]
    pub const fn min(self, other: Self) -> Self {
        if other.before(self) { other } else { self }
    }

    /// Bytes from `earlier` to `self`, modulo 2³².
    #[inline]
    pub const fn bytes_since(self, earlier: Self) -> u32 {
        self.0.wrapping_sub(earlier.0)
    }
}

impl Add<u32> for Seq {
    type Output = Self;
    #[inline]
    fn add(self, bytes: u32) -> Self {
        Self(self.0.wrapping_add(bytes))
    }
}

impl AddAssign<u32> for Seq {
    #[inline]
    fn add_assign(&mut self, bytes: u32) {
        *self = *self + bytes;
    }
}

impl Sub<u32> for Seq {
    type Output = Self;
    #[inline]
    fn sub(self, bytes: u32) -> Self {
        Self(self.0.wrapping_sub(bytes))
    }
}

impl Sub for Seq {
    type Output = i32;
    #[inline]
    fn sub(self, other: Self) -> i32 {
        self.0.wrapping_sub(other.0) as i32
    }
}

impl fmt::Debug for Seq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn order_wraps() {
        assert!(Seq(0xffff_fff0).before(Seq(5)));
        assert!(Seq(5).after(Seq(0xffff_fff0)));
        assert_eq!(Seq(5) - Seq(0xffff_fff0), 21);
    }

    proptest! {
        #[test]
        fn order_is_antisymmetric_below_half_the_space(a: u32, step in 1u32..1 << 31) {
            let (low, high) = (Seq(a), Seq(a) + step);
            prop_assert!(low.before(high) && high.after(low) && !high.before(low));
            prop_assert_eq!(low.max(high), high);
            prop_assert_eq!(low.min(high), low);
            prop_assert_eq!(high - low, step as i32);
        }

        #[test]
        fn or_equal_forms_agree(a: u32, b: u32) {
            let (a, b) = (Seq(a), Seq(b));
            prop_assert_eq!(a.at_or_before(b), !a.after(b));
            prop_assert_eq!(a.at_or_after(b), !a.before(b));
        }
    }
}
