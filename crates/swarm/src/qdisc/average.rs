//! red's average, recomputed as in `red_calc_qavg`, and what follows from it.

use datapath::packet::{Ecn, Packet};
use datapath::qdisc::AnyQdisc;
use datapath::qdisc::red::{Red, RedConfig, RedStats};
use datapath::units::Instant;

use super::call::Call;
use crate::case::BrokenLaw;

/// The average of a queue's length.
#[derive(Clone, Debug)]
pub struct Average {
    config: RedConfig,
    /// Bytes, times 2 to the power of the weight.
    scaled: u64,
    idle_since: Option<Instant>,
    /// What the judged one had counted.
    counted: RedStats,
}

impl Average {
    /// After `red_change`, which forgets the average and begins with an empty queue.
    pub fn new(red: &Red, now: Instant) -> Self {
        let config = red.config().clone();
        Self { config, scaled: 0, idle_since: Some(now), counted: *red.own_stats() }
    }

    /// A packet came.
    pub fn entered(&mut self, call: &Call<'_>, red: &Red, came: &Packet) -> Result<(), BrokenLaw> {
        if let Some(since) = self.idle_since.take() {
            self.decay(call.now.saturating_since(since).as_micros());
        } else {
            let faded = self.scaled - (self.scaled >> self.config.wlog);
            self.scaled = faded + u64::from(call.before.bytes);
        }
        let counted = core::mem::replace(&mut self.counted, *red.own_stats());
        let marked = self.counted.marked - counted.marked;
        let dropped = self.counted.early - counted.early;
        // What an inner qdisc drops may look the same.
        let is_plain = matches!(red.child().qdisc(), AnyQdisc::Fifo(_));
        let expected = self.expected(came);
        if !is_plain || expected.contains(&(marked, dropped)) {
            return Ok(());
        }
        let RedConfig { min, max, wlog, ecn, harddrop, nodrop, .. } = &self.config;
        let what = format!(
            "packet {} with {:?}: {marked} marked, {dropped} dropped early; the average is {} of \
             {min} to {max}, ecn {ecn} harddrop {harddrop} nodrop {nodrop}",
            came.body.number(),
            Ecn::from_bits(came.network.tos()),
            self.scaled >> wlog,
        );
        Err(("average", what))
    }

    /// What may become of a packet: marked, dropped (`red_action`, `red_enqueue`).
    fn expected(&self, came: &Packet) -> Vec<(u32, u32)> {
        let RedConfig { min, max, wlog, ecn, harddrop, nodrop, .. } = &self.config;
        let hit = |spares: bool| match came.network.tos() & 3 {
            _ if !spares => (0, 1),
            0 if *nodrop => (0, 0),
            0 => (0, 1),
            _ => (1, 0),
        };
        if self.scaled < u64::from(*min) << wlog {
            vec![(0, 0)]
        } else if self.scaled >= u64::from(*max) << wlog {
            vec![hit(*ecn && !harddrop)]
        } else {
            vec![(0, 0), hit(*ecn)]
        }
    }

    /// The device asked: the queue is idle from when it first had nothing.
    pub fn on_dequeue(&mut self, call: &Call<'_>, packet: Option<&Packet>) {
        if packet.is_none() {
            self.idle_since.get_or_insert(call.now);
        }
    }

    /// `red_calc_qavg_from_idle_time`.
    fn decay(&mut self, micros: u64) {
        let cell = u32::from(self.config.scell_log);
        let micros = micros.min(255 << cell);
        self.scaled = match self.config.idle_decay[(micros >> cell) as usize & 255] {
            0 => self.scaled - ((self.scaled * micros) >> cell).min(self.scaled / 2),
            shift => self.scaled >> shift,
        };
    }
}
