//! How much of a link's rate was used.

use datapath::units::Instant;

use super::build::Built;
use crate::plan::Plan;
use crate::results::Metric;

/// What ports had sent when the warm-up ended.
pub struct Utilisation {
    since: Instant,
    /// Bytes, in the order of `plan.measure.utilisation`.
    before: Vec<u64>,
}

impl Utilisation {
    /// Nothing sent yet.
    pub fn new(plan: &Plan) -> Self {
        Self { since: Instant::ZERO, before: vec![0; plan.measure.utilisation.len()] }
    }

    /// The warm-up is over.
    pub fn end_warmup(&mut self, plan: &Plan, built: &Built) {
        *self = Self { since: built.world.now(), before: sent(plan, built) };
    }

    /// The share of what each link could have carried since then, in percent.
    pub fn metrics(&self, plan: &Plan, built: &Built) -> Vec<Metric> {
        let seconds = built.world.now().saturating_since(self.since).as_nanos() as f64 / 1e9;
        let mut out = Vec::new();
        let bytes = self.before.iter().zip(sent(plan, built));
        for (&(link, end), (before, now)) in plan.measure.utilisation.iter().zip(bytes) {
            let Some(rate) = plan.links[link].directions[end].rate else { continue };
            let could = rate.bits_per_sec() as f64 * seconds;
            let value = if could > 0.0 { 800.0 * (now - before) as f64 / could } else { 0.0 };
            // A packet counts as soon as it is put on the link.
            let value = value.min(100.0);
            let scope = plan.port_name(link, end);
            out.push(Metric { scope, name: "utilisation".into(), unit: "%", value });
        }
        out
    }
}

fn sent(plan: &Plan, built: &Built) -> Vec<u64> {
    let bytes = |&(link, end): &(usize, usize)| {
        let (node, port) = built.ends[link][end];
        built.world.link(built.world.link_of(node, port)).stats.bytes
    };
    plan.measure.utilisation.iter().map(bytes).collect()
}
