//! Units: time, rate and size as types, so that a millisecond cannot be added to a byte.
//!
//! Everything is an integer. Time is in nanoseconds, as in the kernel's `ktime_t`.

use core::fmt;
use core::ops::{Add, AddAssign, Mul, Sub, SubAssign};

/// Nanoseconds in a second (`NSEC_PER_SEC`).
pub const NANOS_PER_SEC: u64 = 1_000_000_000;

/// A point in time: nanoseconds since the driver's epoch (virtual zero, or boot when live).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Instant(u64);

/// A span of time in nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Duration(u64);

/// A data rate in bit/s.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct Rate(u64);

/// A size in bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct Bytes(pub u32);

impl Instant {
    /// The driver's epoch.
    pub const ZERO: Self = Self(0);
    /// Later than anything that happens.
    pub const FAR_FUTURE: Self = Self(u64::MAX);

    /// The instant `nanos` ns after the epoch.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Nanoseconds since the epoch.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Whole microseconds since the epoch (`tcp_mstamp`, `ktime_to_us`).
    pub const fn as_micros(self) -> u64 {
        self.0 / 1_000
    }

    /// Whole milliseconds since the epoch.
    pub const fn as_millis(self) -> u64 {
        self.0 / 1_000_000
    }

    /// The span since `earlier`; zero if `earlier` is later.
    pub const fn saturating_since(self, earlier: Self) -> Duration {
        Duration(self.0.saturating_sub(earlier.0))
    }
}

impl Duration {
    /// No time at all.
    pub const ZERO: Self = Self(0);

    /// A span of `nanos` ns.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// A span of `micros` µs.
    pub const fn from_micros(micros: u64) -> Self {
        Self(micros * 1_000)
    }

    /// A span of `millis` ms.
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis * 1_000_000)
    }

    /// A span of `secs` s.
    pub const fn from_secs(secs: u64) -> Self {
        Self(secs * NANOS_PER_SEC)
    }

    /// `None` for no time at all, which stands for "for ever" in timeouts of the socket API.
    pub fn nonzero(self) -> Option<Self> {
        (self.0 > 0).then_some(self)
    }

    /// Nanoseconds.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Whole microseconds.
    pub const fn as_micros(self) -> u64 {
        self.0 / 1_000
    }

    /// Whole milliseconds.
    pub const fn as_millis(self) -> u64 {
        self.0 / 1_000_000
    }
}

impl Rate {
    /// A rate of `bits` bit/s.
    pub const fn from_bits_per_sec(bits: u64) -> Self {
        Self(bits)
    }

    /// A rate of `bytes` byte/s, the unit of the kernel's rate tables.
    pub const fn from_bytes_per_sec(bytes: u64) -> Self {
        Self(bytes * 8)
    }

    /// A rate of `mbit` · 10⁶ bit/s.
    pub const fn from_mbit(mbit: u64) -> Self {
        Self(mbit * 1_000_000)
    }

    /// bit/s.
    pub const fn bits_per_sec(self) -> u64 {
        self.0
    }

    /// Whole byte/s.
    pub const fn bytes_per_sec(self) -> u64 {
        self.0 / 8
    }

    /// The first whole nanosecond at which `size` has left at this rate: never early, exact
    /// integer arithmetic. A rate of zero never finishes.
    ///
    /// ```
    /// use datapath::units::{Bytes, Duration, Rate};
    /// assert_eq!(Rate::from_mbit(12).time_to_send(Bytes(1_500)), Duration::from_millis(1));
    /// ```
    #[inline]
    pub fn time_to_send(self, size: Bytes) -> Duration {
        if self.0 == 0 {
            return Duration(u64::MAX);
        }
        let bits = u64::from(size.0) * 8;
        if let Some(scaled) = bits.checked_mul(NANOS_PER_SEC) {
            return Duration(scaled.div_ceil(self.0));
        }
        let nanos = (u128::from(bits) * u128::from(NANOS_PER_SEC)).div_ceil(self.0.into());
        Duration(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}

impl Add<Duration> for Instant {
    type Output = Self;
    fn add(self, span: Duration) -> Self {
        Self(self.0.saturating_add(span.0))
    }
}

impl AddAssign<Duration> for Instant {
    fn add_assign(&mut self, span: Duration) {
        *self = *self + span;
    }
}

impl Sub<Duration> for Instant {
    type Output = Self;
    fn sub(self, span: Duration) -> Self {
        Self(self.0.checked_sub(span.0).expect("an instant before the epoch"))
    }
}

impl Sub for Instant {
    type Output = Duration;
    fn sub(self, earlier: Self) -> Duration {
        Duration(self.0.checked_sub(earlier.0).expect("time ran backwards"))
    }
}

impl Add for Duration {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Duration {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sub for Duration {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        Self(self.0.checked_sub(other.0).expect("a negative duration"))
    }
}

impl SubAssign for Duration {
    fn sub_assign(&mut self, other: Self) {
        *self = *self - other;
    }
}

impl Mul<u64> for Duration {
    type Output = Self;
    fn mul(self, factor: u64) -> Self {
        Self(self.0 * factor)
    }
}

impl fmt::Debug for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:09}s", self.0 / NANOS_PER_SEC, self.0 % NANOS_PER_SEC)
    }
}

impl fmt::Debug for Duration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:09}s", self.0 / NANOS_PER_SEC, self.0 % NANOS_PER_SEC)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_to_send_is_exact_and_never_early() {
        let rate = Rate::from_mbit(10);
        assert_eq!(rate.time_to_send(Bytes(1514)), Duration::from_nanos(1_211_200));
        assert_eq!(Rate::from_bits_per_sec(3).time_to_send(Bytes(1)).as_nanos(), 2_666_666_667);
        assert_eq!(Rate::from_bits_per_sec(0).time_to_send(Bytes(1)).as_nanos(), u64::MAX);
    }

    #[test]
    fn huge_sizes_do_not_overflow() {
        let day_long = Rate::from_bits_per_sec(1).time_to_send(Bytes(u32::MAX));
        assert_eq!(day_long.as_nanos(), u64::MAX);
    }
}
