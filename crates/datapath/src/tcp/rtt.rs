//! Round-trip times and the retransmission timeout (RFC 6298 in Linux's variant).

use crate::packet::seq::Seq;
use core::num::NonZeroU32;

/// Smoothed RTT and its variation; the RTT part of `tcp_sock`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Rtt {
    /// Smoothed RTT, µs times 8 (`srtt_us`), once there is a sample.
    pub srtt_us_8: Option<NonZeroU32>,
    /// Mean deviation, µs times 4 (`mdev_us`); before the first sample the first timeout.
    pub mdev_us_4: u32,
    /// Largest mean deviation of this round, µs times 4.
    pub mdev_max_us_4: u32,
    /// What the timeout uses, µs times 4 (`rttvar_us`).
    pub rttvar_us_4: u32,
    /// The round for `mdev_max` ends when this is acknowledged (`rtt_seq`).
    pub rtt_seq: Seq,
    /// Windowed minimum.
    pub min: MinRtt,
}

/// Kathleen Nichols' windowed minimum with three samples (`lib/win_minmax.c` in the kernel).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct MinRtt {
    samples: [MinSample; 3],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
struct MinSample {
    at_jiffies: u32,
    value_us: u32,
}

impl Rtt {
    /// Smoothed RTT, µs; 0 as long as there is no sample.
    #[inline]
    pub fn srtt_us(&self) -> u32 {
        self.srtt_us_8() >> 3
    }

    /// The same times 8.
    #[inline]
    pub fn srtt_us_8(&self) -> u32 {
        self.srtt_us_8.map_or(0, NonZeroU32::get)
    }

    /// Takes one sample of `rtt_us` (`tcp_rtt_estimator`).
    pub fn sample(&mut self, rtt_us: u32, snd_una: Seq, snd_nxt: Seq, rto_min_us: u32) {
        let Some(before) = self.srtt_us_8 else {
            self.first_sample(rtt_us, snd_nxt, rto_min_us);
            return;
        };
        // A round trip may take longer than 31 bits of microseconds tell.
        let error = i64::from(rtt_us) - i64::from(before.get() >> 3);
        self.srtt_us_8 = NonZeroU32::new(before.get().wrapping_add(error as u32).max(1));
        let mut deviation = error.abs() - i64::from(self.mdev_us_4 >> 2);
        if error < 0 && deviation > 0 {
            // A falling RTT must not widen the timeout: Eifel's asymmetric gain.
            deviation >>= 3;
        }
        self.mdev_us_4 = self.mdev_us_4.wrapping_add(deviation as u32);
        if self.mdev_us_4 > self.mdev_max_us_4 {
            self.mdev_max_us_4 = self.mdev_us_4;
            self.rttvar_us_4 = self.rttvar_us_4.max(self.mdev_max_us_4);
        }
        if snd_una.after(self.rtt_seq) {
            if self.mdev_max_us_4 < self.rttvar_us_4 {
                self.rttvar_us_4 -= (self.rttvar_us_4 - self.mdev_max_us_4) >> 2;
            }
            self.rtt_seq = snd_nxt;
            self.mdev_max_us_4 = rto_min_us;
        }
    }

    fn first_sample(&mut self, rtt_us: u32, snd_nxt: Seq, rto_min_us: u32) {
        self.srtt_us_8 = NonZeroU32::new((rtt_us << 3).max(1));
        self.mdev_us_4 = rtt_us << 1;
        self.rttvar_us_4 = self.mdev_us_4.max(rto_min_us);
        self.mdev_max_us_4 = self.rttvar_us_4;
        self.rtt_seq = snd_nxt;
    }

    /// The timeout in µs: srtt + rttvar, where rttvar is never below `tcp_rto_min_us`
    /// (`__tcp_set_rto`).
    pub fn rto_us(&self) -> u32 {
        // Samples of half an hour, from echoes of the distant past, wrap as in the kernel.
        self.srtt_us().wrapping_add(self.rttvar_us_4)
    }
}

impl MinRtt {
    /// The minimum, µs; `u32::MAX` before the first sample (`tcp_min_rtt`).
    pub fn get_us(&self) -> u32 {
        match self.samples[0].value_us {
            0 => u32::MAX,
            value => value,
        }
    }

    /// Takes a sample; `window` in jiffies (`minmax_running_min`).
    pub fn sample(&mut self, window: u32, now_jiffies: u32, value_us: u32) {
        let new = MinSample { at_jiffies: now_jiffies, value_us: value_us.max(1) };
        let [best, .., third] = self.samples;
        let expired = now_jiffies.wrapping_sub(third.at_jiffies) > window;
        if best.value_us == 0 || new.value_us <= best.value_us || expired {
            self.samples = [new; 3];
            return;
        }
        if new.value_us <= self.samples[1].value_us {
            self.samples[1] = new;
            self.samples[2] = new;
        } else if new.value_us <= self.samples[2].value_us {
            self.samples[2] = new;
        }
        self.age(window, new);
    }

    /// Lets old minima make room for newer ones as the window slides (`minmax_subwin_update`).
    fn age(&mut self, window: u32, new: MinSample) {
        let since_best = new.at_jiffies.wrapping_sub(self.samples[0].at_jiffies);
        if since_best > window {
            self.samples = [self.samples[1], self.samples[2], new];
            if new.at_jiffies.wrapping_sub(self.samples[0].at_jiffies) > window {
                self.samples = [self.samples[1], new, new];
            }
        } else if self.samples[1].at_jiffies == self.samples[0].at_jiffies
            && since_best > window / 4
        {
            self.samples[1] = new;
            self.samples[2] = new;
        } else if self.samples[2].at_jiffies == self.samples[1].at_jiffies
            && since_best > window / 2
        {
            self.samples[2] = new;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_sample_sets_everything() {
        let mut rtt = Rtt::default();
        rtt.sample(40_059, Seq(1), Seq(1), 200_000);
        assert_eq!(rtt.srtt_us(), 40_059);
        assert_eq!(rtt.mdev_us_4, 80_118);
        assert_eq!(rtt.rto_us(), 240_059);
    }

    #[test]
    fn a_falling_rtt_moves_the_deviation_slowly() {
        let mut rtt = Rtt::default();
        rtt.sample(100_000, Seq(1), Seq(1), 200_000);
        let before = rtt.mdev_us_4;
        rtt.sample(20_000, Seq(1), Seq(1), 200_000);
        assert_eq!(rtt.srtt_us(), 90_000);
        assert_eq!(rtt.mdev_us_4, before + (80_000 - 50_000) / 8);
    }

    #[test]
    fn the_minimum_forgets_after_its_window() {
        let mut min = MinRtt::default();
        assert_eq!(min.get_us(), u32::MAX);
        min.sample(1_000, 0, 50);
        min.sample(1_000, 600, 80);
        assert_eq!(min.get_us(), 50);
        min.sample(1_000, 1_100, 90);
        assert_eq!(min.get_us(), 80);
        min.sample(1_000, 5_000, 100);
        assert_eq!(min.get_us(), 100);
    }
}
