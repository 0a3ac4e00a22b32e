//! The numbers of each flow: how fast what it sends arrives, or how long answers take.

use apps::AppReport;
use datapath::units::Instant;

use super::super::apps::FlowEnds;
use super::super::build::BuiltWorld;
use super::super::exchanges;
use super::super::latency::{latency_metrics, round_trips};
use super::super::metric::{push, seconds};
use super::super::sample::RunSamples;
use super::super::transfer::{self, Transfer, Transfers};
use crate::plan::{App, FlowPlan, Plan};
use crate::results::Metric;

/// The numbers of all flows, in their order; what each of them has transferred.
pub fn each(
    out: &mut Vec<Metric>,
    plan: &Plan,
    built: &BuiltWorld,
    sampled: &RunSamples,
) -> Transfers {
    let mut transfers = Transfers::new(plan.flows.len());
    for (index, (flow, place)) in plan.flows.iter().zip(&built.flows).enumerate() {
        let sender = &built.world.report(place.sender);
        match &flow.app {
            App::Ping { .. } | App::Probe { .. } | App::Request { .. } => {
                latencies(out, plan, flow, sender);
                continue;
            }
            App::Query { .. } => {
                exchanges::query(out, plan, flow, sender);
                latencies(out, plan, flow, sender);
                continue;
            }
            App::Connect { .. } => {
                latencies(out, plan, flow, sender);
                let share = sender.received as f64 / sender.sent.max(1) as f64;
                push(out, &flow.name, "connection probability", "", share);
                continue;
            }
            App::Guest(_) => {
                latency_metrics(out, &flow.name, &mut round_trips(plan, sender));
            }
            App::Bulk
            | App::Fixed { .. }
            | App::Chunk { .. }
            | App::OnOff { .. }
            | App::Cbr { .. }
            | App::Program { .. } => {}
        }
        if let Some(receiver) = &received(built, place) {
            let end = built.world.now();
            let stream = Stream { plan, flow, place, sender, receiver, sampled, index, end };
            transfers.all[index] = stream.goodput(out);
            transfers.early[index] = stream.early_goodput(out);
            stream.throughput_in_steps(out);
            stream.srtt_or_losses(out);
            stream.transfer_time(out);
        }
    }
    transfers
}

/// A flow whose data goes one way, at the end of the run.
struct Stream<'a> {
    plan: &'a Plan,
    flow: &'a FlowPlan,
    place: &'a FlowEnds,
    sender: &'a AppReport,
    receiver: &'a AppReport,
    sampled: &'a RunSamples,
    /// Which flow of the plan it is.
    index: usize,
    /// When the run was over.
    end: Instant,
}

impl Stream<'_> {
    fn push(&self, out: &mut Vec<Metric>, name: &str, unit: &'static str, value: f64) {
        push(out, &self.flow.name, name, unit, value);
    }

    /// What it has transferred after the warm-up.
    fn goodput(&self, out: &mut Vec<Metric>) -> Option<Transfer> {
        let base = self.sampled.arrived_at_warmup(self.index);
        let reports = (self.sender, self.receiver);
        let transfer =
            transfer::after_warmup(self.plan, self.flow, self.place, reports, base, self.end)?;
        self.push(out, "goodput", "Mbit/s", transfer.rate());
        Some(transfer)
    }

    /// When it was over, if it was.
    fn over(&self) -> Option<Instant> {
        transfer::end_of(self.flow, self.place, (self.sender, self.receiver), self.end)
    }

    /// What it has transferred in its early part.
    fn early_goodput(&self, out: &mut Vec<Metric>) -> Option<Transfer> {
        let start = self.place.start;
        let until = (start + self.plan.measure.early?).min(self.end);
        let whole = self.over().map(|over| (over, self.receiver.received_bytes));
        let early = transfer::early(start, until, whole, self.sampled.received_early(self.index))?;
        self.push(out, "early goodput", "Mbit/s", early.rate());
        Some(early)
    }

    fn throughput_in_steps(&self, out: &mut Vec<Metric>) {
        let Some(step) = self.plan.measure.steps else { return };
        let rates = self.sampled.throughput_in_steps(self.index, step);
        for (number, rate) in rates.into_iter().enumerate() {
            let name = format!("throughput at {} s", number as f64 * seconds(step));
            self.push(out, &name, "Mbit/s", rate);
        }
    }

    /// Of TCP its smoothed RTT, of all other what was lost.
    fn srtt_or_losses(&self, out: &mut Vec<Metric>) {
        if !self.flow.app.is_tcp() {
            let lost = self.sender.sent.saturating_sub(self.receiver.received);
            return self.push(out, "lost", "", lost as f64);
        }
        if let Some(srtt) = self.sampled.mean_srtt(self.index, self.over().is_some()) {
            self.push(out, "srtt mean", "ms", srtt);
        }
    }

    /// How long all of a finite flow took, up to the last byte that arrived.
    fn transfer_time(&self, out: &mut Vec<Metric>) {
        if let (true, Some(started), Some(last)) =
            (self.place.finite, self.sender.started, self.receiver.last_received)
        {
            let time = seconds(last.saturating_since(started));
            self.push(out, "transfer time", "s", time);
        }
    }
}

/// What the receivers of a flow have together: of an anycast service the last counts where counts
/// make no sum.
fn received(built: &BuiltWorld, place: &FlowEnds) -> Option<AppReport> {
    place.received(&built.world).reduce(|sum, one| AppReport {
        received: sum.received + one.received,
        received_bytes: sum.received_bytes + one.received_bytes,
        last_received: sum.last_received.max(one.last_received),
        ..sum
    })
}

/// Round trips or response times after the warm-up.
fn latencies(out: &mut Vec<Metric>, plan: &Plan, flow: &FlowPlan, sender: &AppReport) {
    latency_metrics(out, &flow.name, &mut round_trips(plan, sender));
    let lost = sender.sent.saturating_sub(sender.received);
    push(out, &flow.name, "unanswered", "", lost as f64);
    if matches!(flow.app, App::Request { .. }) {
        push(out, &flow.name, "answered", "", sender.received as f64);
    }
}
