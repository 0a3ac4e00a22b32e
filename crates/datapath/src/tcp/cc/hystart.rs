//! HyStart: leaving slow start before the queue overflows (Ha and Rhee 2008, `hystart_update`).

use super::{Ack, Hystart, Window};
use crate::packet::seq::Seq;

/// HyStart's state (its part of `struct bictcp`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct HyStart {
    /// An exit was found; HyStart is finished for this slow start.
    found: bool,
    /// RTT samples in this round.
    sample_cnt: u8,
    /// Start of the round, µs.
    round_start_us: u32,
    /// Latest ACK of the train, µs.
    last_ack_us: u32,
    /// The round ends when this is acknowledged.
    end_seq: Seq,
    /// Lowest RTT of the round, µs.
    curr_rtt_us: u32,
}

/// `hystart_low_window`: HyStart does not act on smaller windows, segments.
const LOW_WINDOW: u32 = 16;
/// `hystart_ack_delta_us`: ACKs further apart do not belong to one train.
const ACK_DELTA_US: i32 = 2_000;
/// `HYSTART_MIN_SAMPLES`.
const MIN_SAMPLES: u8 = 8;
/// `HYSTART_DELAY_MIN`, µs.
const DELAY_MIN_US: u32 = 4_000;
/// `HYSTART_DELAY_MAX`, µs.
const DELAY_MAX_US: u32 = 16_000;

impl HyStart {
    /// Starts a new round (`bictcp_hystart_reset`). `found` stays set: only a new module resets it.
    pub fn reset(&mut self, ack: &Ack) {
        self.round_start_us = ack.now_us as u32;
        self.last_ack_us = self.round_start_us;
        self.end_seq = ack.snd_nxt;
        self.curr_rtt_us = u32::MAX;
        self.sample_cnt = 0;
    }

    /// Processes one RTT sample in slow start.
    pub fn update(&mut self, window: &mut Window, ack: &Ack, delay_us: u32, delay_min_us: u32) {
        if self.found {
            return;
        }
        if ack.snd_una.after(self.end_seq) {
            self.reset(ack);
        }
        if window.snd_cwnd < LOW_WINDOW {
            return;
        }
        let train = self.train_is_long(window, ack, delay_min_us);
        let late = self.delay_has_grown(delay_us, delay_min_us);
        if train || late {
            self.found = true;
            window.snd_ssthresh = window.snd_cwnd;
            window.hystart = Hystart { train, delay: late };
        }
    }

    /// If a train of ACKs is longer than half the RTT, the pipe is full.
    fn train_is_long(&mut self, window: &Window, ack: &Ack, delay_min_us: u32) -> bool {
        let now = ack.now_us as u32;
        if now.wrapping_sub(self.last_ack_us) as i32 > ACK_DELTA_US {
            return false;
        }
        self.last_ack_us = now;
        let mut threshold = delay_min_us.saturating_add(ack_delay_us(window, ack));
        if !ack.is_paced {
            threshold >>= 1;
        }
        now.wrapping_sub(self.round_start_us) as i32 > threshold as i32
    }

    /// The lowest of a round's first RTTs lies clearly above the lowest of all: a queue builds.
    fn delay_has_grown(&mut self, delay_us: u32, delay_min_us: u32) -> bool {
        self.curr_rtt_us = self.curr_rtt_us.min(delay_us);
        if self.sample_cnt < MIN_SAMPLES {
            self.sample_cnt += 1;
            return false;
        }
        let slack = (delay_min_us >> 3).clamp(DELAY_MIN_US, DELAY_MAX_US);
        self.curr_rtt_us > delay_min_us + slack
    }
}

/// How long aggregation in the network may delay ACKs: four super-packets at the pacing rate, 1 ms at
/// most (`hystart_ack_delay`).
fn ack_delay_us(window: &Window, ack: &Ack) -> u32 {
    if window.pacing_rate == 0 {
        return 0;
    }
    let burst_us = u64::from(ack.gso_max_size) * 4 * 1_000_000 / window.pacing_rate;
    burst_us.min(1_000) as u32
}
