//! The deficit-mode shaper: virtual clocks instead of tokens.
//!
//! A clock says when the next packet may leave; each packet sent moves it on by the time that
//! the packet takes at the configured rate. Nothing is saved up while idle, so there is no burst.
//! The *failsafe* clock runs at two thirds of the rate and is not moved by drops: in ingress mode
//! drops push the main clock ahead, and the failsafe keeps a flood of drops from stopping the
//! queue altogether.

use crate::units::Rate;

/// Nanoseconds per byte as a fixed-point number (`tin_rate_ns`, `tin_rate_shft`): the truncation
/// is the kernel's and shows in departure times.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Cost {
    factor: u64,
    shift: u32,
}

/// The two clocks of an instance, in ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Clocks {
    /// `time_next_packet`.
    next: u64,
    /// `failsafe_next_packet`.
    failsafe: u64,
}

impl Cost {
    /// The cost of a byte at `rate` (`cake_set_rate`); free when unlimited. At least 64 byte/s.
    pub fn of(rate: Rate) -> Self {
        if rate.bytes_per_sec() == 0 {
            return Self::default();
        }
        let bytes_per_sec = rate.bytes_per_sec().max(MIN_BYTES_PER_SEC);
        let mut factor = (NANOS << FRACTION) / bytes_per_sec;
        let mut shift = FRACTION;
        while factor >> FRACTION != 0 {
            factor >>= 1;
            shift -= 1;
        }
        Self { factor, shift }
    }

    /// True when unlimited.
    pub const fn is_free(self) -> bool {
        self.factor == 0
    }

    /// How long `len` bytes take, in ns.
    pub const fn nanos(self, len: u32) -> u64 {
        (len as u64).wrapping_mul(self.factor) >> self.shift
    }
}

impl Clocks {
    /// When a packet may leave: the earlier clock.
    pub fn opens(&self) -> u64 {
        self.next.min(self.failsafe)
    }

    /// True if no packet may leave before a later time than `now`.
    pub fn closed(&self, now: u64) -> bool {
        self.opens() > now
    }

    /// True if the main clock is ahead of `now`.
    pub fn ahead(&self, now: u64) -> bool {
        self.next > now
    }

    /// The first packet after idleness: unused time is lost.
    pub fn restart(&mut self, now: u64) {
        if self.next < now {
            *self = Self { next: now, failsafe: now };
        }
    }

    /// Charges a packet that takes `duration` (`cake_advance_shaper`).
    pub fn charge(&mut self, duration: u64, fate: ChargeKind) {
        self.next = self.next.saturating_add(duration);
        match fate {
            ChargeKind::Sent => {
                self.failsafe = self.failsafe.saturating_add(duration + (duration >> 1));
            }
            ChargeKind::Dropped => {}
        }
    }
}

/// What became of a packet that is charged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChargeKind {
    /// It takes time on the link.
    Sent,
    /// It is charged its transmission time, but only to the main clock.
    Dropped,
}

/// The clock of a tin after a packet that takes `duration` at the tin's rate: a small debt is
/// kept, so that a tin that was late for a moment gets its share.
pub fn charge_tin(next: u64, now: u64, duration: u64) -> u64 {
    if next < now { next.saturating_add(duration) } else { next.max(now.saturating_add(duration)) }
}

/// Bits of the fraction in [`Cost`].
const FRACTION: u32 = 34;
/// Nanoseconds in a second.
const NANOS: u64 = 1_000_000_000;
/// `MIN_RATE`.
const MIN_BYTES_PER_SEC: u64 = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costs_are_truncated_as_the_kernel_does() {
        let nanos = |kbit: u64, len| Cost::of(Rate::from_bits_per_sec(kbit * 1000)).nanos(len);
        assert_eq!(nanos(1000, 1000), 8_000_000);
        assert_eq!(nanos(3000, 1200), 3_199_999);
        assert_eq!(nanos(200_000, 1514), 60_560);
        assert_eq!(nanos(0, 1514), 0);
        assert!(Cost::of(Rate::default()).is_free());
    }

    #[test]
    fn the_slowest_rate_is_64_bytes_a_second() {
        assert_eq!(Cost::of(Rate::from_bytes_per_sec(1)).nanos(64), NANOS);
    }

    #[test]
    fn idleness_earns_nothing() {
        let mut clocks = Clocks::default();
        clocks.restart(1_000);
        clocks.charge(500, ChargeKind::Sent);
        assert_eq!(clocks.opens(), 1_500);
        clocks.restart(9_000);
        assert_eq!((clocks.opens(), clocks.closed(9_000)), (9_000, false));
    }

    #[test]
    fn drops_cannot_close_the_shaper_for_longer_than_the_failsafe() {
        let mut clocks = Clocks::default();
        clocks.restart(1_000);
        clocks.charge(100, ChargeKind::Sent);
        for _ in 0..100 {
            clocks.charge(100, ChargeKind::Dropped);
        }
        assert_eq!(clocks.opens(), 1_150);
    }

    #[test]
    fn a_tin_keeps_debt_but_saves_no_credit() {
        assert_eq!(charge_tin(90, 100, 30), 120, "late: the debt of 10 is kept");
        assert_eq!(charge_tin(110, 100, 30), 130, "early: from now on");
        assert_eq!(charge_tin(200, 100, 30), 200, "far ahead: stays");
    }
}
