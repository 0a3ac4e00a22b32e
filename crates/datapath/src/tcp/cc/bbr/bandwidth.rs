//! Round trips, and the highest delivery rate of the last ten of them.

use super::{BW_UNIT, Bbr};
use crate::tcp::cc::{Ack, RateSample};

/// Round trips that the highest rate is remembered for: a cycle of PROBE_BW and two more
/// (`bbr_bw_rtts`).
const WINDOW: u32 = 10;

/// Kathleen Nichols' windowed maximum with three samples (`minmax_running_max`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct WindowedMax {
    samples: [Sample; 3],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
struct Sample {
    at: u32,
    value: u32,
}

impl WindowedMax {
    /// The maximum.
    pub fn get(&self) -> u32 {
        self.samples[0].value
    }

    /// Takes a sample; `window` and `at` in the same unit of time.
    pub fn sample(&mut self, window: u32, at: u32, value: u32) {
        let new = Sample { at, value };
        if value >= self.samples[0].value || at.wrapping_sub(self.samples[2].at) > window {
            self.samples = [new; 3];
            return;
        }
        if value >= self.samples[1].value {
            self.samples[1] = new;
            self.samples[2] = new;
        } else if value >= self.samples[2].value {
            self.samples[2] = new;
        }
        self.age(window, new);
    }

    /// Old maxima make room for newer ones as the window slides (`minmax_subwin_update`).
    fn age(&mut self, window: u32, new: Sample) {
        let [first, second, third] = self.samples;
        let since_best = new.at.wrapping_sub(first.at);
        if since_best > window {
            self.samples = [second, third, new];
            if new.at.wrapping_sub(second.at) > window {
                self.samples = [third, new, new];
            }
        } else if second.at == first.at && since_best > window / 4 {
            self.samples = [first, new, new];
        } else if third.at == second.at && since_best > window / 2 {
            self.samples[2] = new;
        }
    }
}

impl Bbr {
    /// Counts round trips by what was delivered when the acknowledged packet was sent, and takes
    /// the sample of the rate (`bbr_update_bw`).
    pub(super) fn update_bw(&mut self, ack: &Ack, sample: &RateSample) {
        self.round_start = false;
        let Some(delivered) = sample.delivered.filter(|_| sample.interval_us > 0) else { return };
        if sample.prior_delivered.wrapping_sub(self.next_rtt_delivered) as i32 >= 0 {
            self.next_rtt_delivered = ack.delivered;
            self.rtt_cnt = self.rtt_cnt.wrapping_add(1);
            self.round_start = true;
            self.packet_conservation = false;
        }
        self.sample_long_term(ack, sample);
        let bw = u64::from(delivered) * BW_UNIT / sample.interval_us;
        // An application's pauses say nothing of the path; what beats the maximum is real anyway.
        if !sample.is_app_limited || bw >= u64::from(self.max_bw.get()) {
            self.max_bw.sample(WINDOW, self.rtt_cnt, bw as u32);
        }
    }
}
