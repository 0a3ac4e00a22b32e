//! How long a packet takes, and tbf's buckets of such times (`sch_tbf.c`): when a packet may leave, and when it must.

use datapath::packet::Packet;
use datapath::qdisc::rate::{LinkLayer, RateConfig};
use datapath::qdisc::tbf::{Tbf, TbfConfig};
use datapath::qdisc::{Cx, Qdisc as _};
use datapath::units::Instant;

use super::call::Call;
use super::law::is_prompt;
use crate::case::BrokenLaw;

/// A number of ns, least and most.
pub type Span = (i64, i64);

/// The time that so many bytes take: the kernel multiplies by a factor of 32 bits and cuts to whole ns.
pub fn time_of(rate: RateConfig, len: u32) -> Span {
    let len = (u64::from(len) + u64::from(rate.overhead())).max(u64::from(rate.mpu()));
    let on_link = match rate.link_layer() {
        LinkLayer::Ethernet => len,
        LinkLayer::Atm => len.div_ceil(48) * 53,
    };
    let bytes_per_sec = u128::from(rate.rate().bytes_per_sec()).max(1);
    let time = (u128::from(on_link) * 1_000_000_000 / bytes_per_sec) as i64;
    (time - (time >> 30) - 2, time)
}

/// tbf's one or two buckets.
#[derive(Clone, Debug)]
pub struct Buckets {
    sustained: Bucket,
    peak: Option<Bucket>,
    /// When tokens were taken last.
    at: Instant,
}

#[derive(Clone, Copy, Debug)]
struct Bucket {
    rate: RateConfig,
    depth: Span,
    tokens: Span,
}

impl Bucket {
    fn full(rate: RateConfig, burst: u32) -> Self {
        let depth = time_of(rate, burst);
        Self { rate, depth, tokens: depth }
    }

    /// What is left after so many ns and bytes.
    fn after(&self, elapsed: Span, len: u32) -> Span {
        let cost = time_of(self.rate, len);
        let filled =
            |tokens: i64, elapsed: i64, depth: i64| tokens.saturating_add(elapsed).min(depth);
        let least = filled(self.tokens.0, elapsed.0, self.depth.0) - cost.1;
        (least, filled(self.tokens.1, elapsed.1, self.depth.1) - cost.0)
    }
}

impl Buckets {
    /// Full ones, as `tbf_change` leaves them.
    pub fn new(config: &TbfConfig, now: Instant) -> Self {
        let sustained = Bucket::full(config.rate, config.burst);
        let peak = config.peak.map(|(rate, burst)| Bucket::full(rate, burst));
        Self { sustained, peak, at: now }
    }

    /// tbf was asked, and gave this packet.
    pub fn on_dequeue(
        &mut self,
        call: &Call<'_>,
        tbf: &Tbf,
        packet: Option<&Packet>,
    ) -> Result<(), BrokenLaw> {
        match packet {
            Some(packet) => self.leave(call.now, packet),
            None => self.held_back(call, tbf),
        }
    }

    fn leave(&mut self, now: Instant, packet: &Packet) -> Result<(), BrokenLaw> {
        let left = self.after(now, packet.wire_len());
        if left.iter().any(|(_, most)| *most < 0) {
            let (number, len) = (packet.body.number(), packet.wire_len());
            let what = format!("packet {number} of {len} bytes left, with {left:?} ns after it");
            return Err(("rate", what));
        }
        let kept = |(least, most): Span| (least.max(0), most);
        self.sustained.tokens = kept(left[0]);
        if let (Some(peak), Some(tokens)) = (&mut self.peak, left.get(1)) {
            peak.tokens = kept(*tokens);
        }
        self.at = now;
        Ok(())
    }

    /// A packet that waits in a plain FIFO lacks tokens, and the watchdog comes when it has them.
    fn held_back(&self, call: &Call<'_>, tbf: &Tbf) -> Result<(), BrokenLaw> {
        if !is_prompt(tbf.child()) {
            return Ok(());
        }
        let mut dropped = Vec::new();
        let first = tbf.child().clone().dequeue(&mut Cx { now: call.now, dropped: &mut dropped });
        let Some(first) = first else { return Ok(()) };
        let left = self.after(call.now, first.wire_len());
        let missing = |of: fn(&Span) -> i64| -left.iter().map(of).min().unwrap_or_default();
        let (least, most) = (missing(|span| span.1), missing(|span| span.0));
        let wait = call.root.wake_at().map(|at| at.saturating_since(call.now).as_nanos() as i64);
        if most > 0 && wait.is_some_and(|wait| (least..=most).contains(&wait)) {
            return Ok(());
        }
        let number = first.body.number();
        let what =
            format!("packet {number} is held back for {wait:?} ns; it lacks {least} to {most}");
        Err(("rate", what))
    }

    /// What is left in each bucket after a packet; no more time counts than the first one holds.
    fn after(&self, now: Instant, len: u32) -> Vec<Span> {
        let elapsed = i64::try_from(now.saturating_since(self.at).as_nanos()).unwrap_or(i64::MAX);
        let elapsed = (elapsed.min(self.sustained.depth.0), elapsed.min(self.sustained.depth.1));
        let all = [Some(self.sustained), self.peak].into_iter().flatten();
        all.map(|bucket| bucket.after(elapsed, len)).collect()
    }
}
