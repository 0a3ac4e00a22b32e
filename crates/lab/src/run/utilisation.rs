//! How much of a link's rate was used, over all of a run and from sample to sample.

use std::sync::Arc;

use datapath::units::{Duration, Instant};

use super::build::BuiltWorld;
use crate::plan::Plan;
use crate::results::{Column, Metric, Series};

/// What ports have sent, in the order of `plan.measure.utilisation`.
pub struct Utilisation {
    /// What each had sent when the warm-up ended.
    before: Vec<LinkUsage>,
    time_ns: Vec<i64>,
    /// At the last sample.
    last: Vec<LinkUsage>,
    /// From sample to sample: bit/s, and millionths of what the link could have carried.
    samples: Vec<[Vec<Option<i64>>; 2]>,
}

/// Bytes that a link has carried, and its capacity so far.
#[derive(Clone, Copy, Debug, Default)]
struct LinkUsage {
    /// Bytes whose bits had left.
    bytes: u64,
    /// Bytes that could have left; none of a link without a rate.
    could: Option<u64>,
}

impl Utilisation {
    /// Nothing sent yet.
    pub fn new(plan: &Plan) -> Self {
        let none = vec![LinkUsage { bytes: 0, could: Some(0) }; plan.measure.utilisation.len()];
        Self {
            before: none.clone(),
            time_ns: Vec::new(),
            samples: vec![Default::default(); none.len()],
            last: none,
        }
    }

    /// The warm-up is over.
    pub fn end_warmup(&mut self, plan: &Plan, built: &BuiltWorld) {
        self.before = sent(plan, built);
    }

    /// A sample is due.
    pub fn take(&mut self, plan: &Plan, built: &BuiltWorld) {
        if plan.measure.utilisation.is_empty() {
            return;
        }
        let now = built.world.now();
        let before = self.time_ns.last().copied().unwrap_or(0);
        let span = now.saturating_since(Instant::ZERO + Duration::from_nanos(before as u64));
        if span == Duration::ZERO {
            return;
        }
        self.time_ns.push(now.as_nanos() as i64);
        let all = sent(plan, built);
        for ((sent, last), [rate, share]) in all.iter().zip(&self.last).zip(&mut self.samples) {
            let bytes = sent.bytes.saturating_sub(last.bytes);
            let bits = u128::from(bytes) * 8_000_000_000 / u128::from(span.as_nanos());
            rate.push(Some(bits as i64));
            share.push(sent.share(last, 1_000_000.0).map(|share| share as i64));
        }
        self.last = all;
    }

    /// The share of what each link could have carried since the warm-up, in percent.
    pub fn metrics(&self, plan: &Plan, built: &BuiltWorld) -> Vec<Metric> {
        let mut out = Vec::new();
        let bytes = self.before.iter().zip(sent(plan, built));
        for (&(link, end), (before, now)) in plan.measure.utilisation.iter().zip(bytes) {
            if now.could.is_some() {
                let value = now.share(before, 100.0).unwrap_or(0.0);
                let scope = plan.port_name(link, end);
                out.push(Metric { scope, name: "utilisation".into(), unit: "%", value });
            }
        }
        out
    }

    /// The samples as series.
    pub fn into_series(self, plan: &Plan) -> Vec<Series> {
        let names = plan.measure.utilisation.iter().map(|&(link, end)| plan.port_name(link, end));
        let time_ns: Arc<[i64]> = self.time_ns.into();
        let series = |(name, [rate, share]): (String, [Vec<Option<i64>>; 2])| Series {
            name: format!("link-{name}"),
            time_ns: Arc::clone(&time_ns),
            columns: vec![
                Column { name: "sent_bits_per_sec".into(), values: rate.into() },
                Column { name: "utilisation_ppm".into(), values: share.into() },
            ],
        };
        names.zip(self.samples).map(series).collect()
    }
}

impl LinkUsage {
    /// The share of what could have been carried since `before`, of a whole of so many parts.
    fn share(&self, before: &Self, whole: f64) -> Option<f64> {
        let (could, could_before) = self.could.zip(before.could)?;
        let could = could.saturating_sub(could_before) as f64;
        let bytes = self.bytes.saturating_sub(before.bytes) as f64;
        // A link rounds the end of each packet up to a nanosecond.
        (could > 0.0).then(|| (whole * bytes / could).min(whole))
    }
}

fn sent(plan: &Plan, built: &BuiltWorld) -> Vec<LinkUsage> {
    let now = built.world.now();
    let of_port = |&(link, end): &(usize, usize)| {
        let (node, port) = built.ends[link][end];
        let link = built.world.link(built.world.link_of(node, port));
        LinkUsage { bytes: link.bytes_left_by(now), could: link.capacity_by(now) }
    };
    plan.measure.utilisation.iter().map(of_port).collect()
}
