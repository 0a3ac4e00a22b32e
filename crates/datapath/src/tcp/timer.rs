//! Timers: an enum of them, an array of instants, and the kernel's timer wheel.
//!
//! The wheel never fires early and rounds distant expiries up: by one tick below 63 ticks, to the
//! next multiple of 8 below 504, of 64 below 4032, and so on, on absolute jiffies
//! (`calc_wheel_index`). High-resolution timers (pacing, SACK compression) are exact.

use crate::units::Instant;

/// Ticks in a second. One tick is one millisecond and one unit of TSval.
pub const HZ: u32 = 1_000;

/// `TCP_TIMEOUT_MIN`: ticks that a timeout has at least.
pub(crate) const TIMEOUT_MIN: u32 = 2;

/// The timers of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Timer {
    /// Retransmission, loss probe, reordering or zero-window probe: one at a time, as
    /// `icsk_retransmit_timer`.
    Transmit = 0,
    /// Delayed ACK (`icsk_delack_timer`).
    DelayedAck = 1,
    /// Keepalive, FIN-WAIT-2 and TIME-WAIT (`sk_timer`).
    Keepalive = 2,
    /// SACK compression (`compressed_ack_timer`), high resolution.
    CompressedAck = 3,
    /// Pacing (`pacing_timer`), high resolution.
    Pacing = 4,
}

/// What the transmit timer is set for (`icsk_pending`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Pending {
    /// Nothing.
    #[default]
    None,
    /// `ICSK_TIME_RETRANS`: the retransmission timeout.
    Retransmit,
    /// `ICSK_TIME_PROBE0`: zero-window probe.
    Probe0,
    /// `ICSK_TIME_LOSS_PROBE`: tail loss probe.
    LossProbe,
    /// `ICSK_TIME_REO_TIMEOUT`: RACK's reordering timer.
    Reorder,
}

/// Expiry times; `Instant::FAR_FUTURE` = not set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timers {
    at: [Instant; 5],
    /// When those on the wheel, the first three, came to their places there.
    placed: [Instant; 3],
}

impl Default for Timers {
    fn default() -> Self {
        Self { at: [Instant::FAR_FUTURE; 5], placed: [Instant::ZERO; 3] }
    }
}

impl Timers {
    /// Sets `timer`, one of high resolution, to an exact instant.
    pub fn set(&mut self, timer: Timer, at: Instant) {
        self.at[timer as usize] = at;
    }

    /// Sets `timer` at `now` to an instant from [`wheel_expiry`]. One that is to fire at this very tick already stays in
    /// its place (`mod_timer`).
    pub fn place(&mut self, timer: Timer, now: Instant, at: Instant) {
        if self.at[timer as usize] != at {
            self.at[timer as usize] = at;
            self.placed[timer as usize] = now;
        }
    }

    /// The order of sockets at a tick, the greatest first: the wheel empties its coarsest level first, and fires what
    /// came to it last before what came first (`expire_timers`); those of high resolution come after all.
    pub fn turn(&self, now: Instant) -> (u32, Instant) {
        let wheel = self.at.iter().zip(&self.placed).filter(|(at, _)| **at <= now);
        let turn = |(at, placed): (&Instant, &Instant)| {
            let ticks = at.as_millis().saturating_sub(placed.as_millis() + 1);
            (1 + level_of(ticks), *placed)
        };
        wheel.map(turn).max().unwrap_or_default()
    }

    /// Stops `timer`.
    pub fn stop(&mut self, timer: Timer) {
        self.at[timer as usize] = Instant::FAR_FUTURE;
    }

    /// True while `timer` runs.
    pub fn is_set(&self, timer: Timer) -> bool {
        self.at[timer as usize] != Instant::FAR_FUTURE
    }

    /// When `timer` expires.
    pub fn expiry(&self, timer: Timer) -> Instant {
        self.at[timer as usize]
    }

    /// The earliest expiry.
    pub fn next(&self) -> Option<Instant> {
        let next = self.at.into_iter().min().unwrap_or(Instant::FAR_FUTURE);
        (next != Instant::FAR_FUTURE).then_some(next)
    }

    /// Takes an expired timer out, the earliest first.
    pub fn take_expired(&mut self, now: Instant) -> Option<Timer> {
        const ALL: [Timer; 5] = [
            Timer::Transmit,
            Timer::DelayedAck,
            Timer::Keepalive,
            Timer::CompressedAck,
            Timer::Pacing,
        ];
        let timer = ALL.into_iter().min_by_key(|&timer| self.expiry(timer))?;
        if self.expiry(timer) > now {
            return None;
        }
        self.stop(timer);
        Some(timer)
    }
}

/// `INITIAL_JIFFIES` at HZ = 1000: five minutes before the 32-bit wrap.
pub(super) const INITIAL_JIFFIES: u64 = 4_294_667_296;

/// The clock of one host: jiffies from virtual time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Jiffies {
    /// `jiffies` at the driver's time zero.
    pub at_zero: u64,
}

impl Jiffies {
    /// `jiffies` now.
    pub fn now(self, now: Instant) -> u64 {
        self.at_zero + now.as_millis()
    }

    /// When a wheel timer set now for `delta` ticks ahead fires.
    pub fn wheel_expiry(self, now: Instant, delta: u64) -> Instant {
        let fire = wheel_expiry(self.now(now), delta);
        Instant::from_nanos((fire - self.at_zero) * 1_000_000)
    }
}

/// The level of the wheel for a timer that is set for `delta` ticks ahead.
fn level_of(delta: u64) -> u32 {
    (0..8).find(|level| delta < 63 << (3 * level)).unwrap_or(8)
}

/// The jiffy at which a timer set at `clock` for `delta` ticks ahead fires.
pub fn wheel_expiry(clock: u64, delta: u64) -> u64 {
    let shift = 3 * level_of(delta);
    (((clock + delta) >> shift) + 1) << shift
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wheel_rounds_up_by_level() {
        // (set at, ticks ahead) -> fires at
        for (clock, delta, fires) in [
            (1_000, 1, 1_002),
            (1_000, 40, 1_041),
            (1_000, 62, 1_063),
            (1_000, 63, 1_064),
            (1_000, 200, 1_208),
            (1_001, 200, 1_208),
            (1_000, 503, 1_504),
            (1_000, 504, 1_536),
            (1_000, 1_000, 2_048),
            (1_000, 4_032, 5_120),
        ] {
            assert_eq!(wheel_expiry(clock, delta), fires, "set at {clock} for {delta}");
        }
    }

    /// As recorded from Linux 7.3: two flows that began one after the other probe at one tick, the second first.
    #[test]
    fn at_a_tick_the_last_placed_fires_first_and_coarse_levels_before() {
        let at = |ms: u64| Instant::from_nanos(ms * 1_000_000);
        let placed = |now, fires| {
            let mut timers = Timers::default();
            timers.place(Timer::Transmit, at(now), at(fires));
            timers
        };
        let turn = |timers: &Timers| timers.turn(at(200));
        let (early, late, coarse) = (placed(150, 200), placed(160, 200), placed(100, 200));
        assert!(turn(&late) > turn(&early));
        assert!(turn(&coarse) > turn(&late));
        let mut again = early;
        again.place(Timer::Transmit, at(170), at(200));
        assert_eq!(turn(&again), turn(&early), "it stays in its place");
        let mut exact = Timers::default();
        exact.set(Timer::Pacing, at(199));
        assert!(turn(&exact) < turn(&early));
    }

    #[test]
    fn the_earliest_timer_comes_first() {
        let mut timers = Timers::default();
        timers.set(Timer::Pacing, Instant::from_nanos(5));
        timers.set(Timer::Transmit, Instant::from_nanos(9));
        assert_eq!(timers.next(), Some(Instant::from_nanos(5)));
        assert_eq!(timers.take_expired(Instant::from_nanos(4)), None);
        assert_eq!(timers.take_expired(Instant::from_nanos(9)), Some(Timer::Pacing));
        assert_eq!(timers.take_expired(Instant::from_nanos(9)), Some(Timer::Transmit));
        assert_eq!(timers.take_expired(Instant::from_nanos(9)), None);
    }
}
