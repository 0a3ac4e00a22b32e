//! A plan as the runner sees it: every name resolved, every quantity checked.

use std::collections::BTreeMap;

use datapath::fib::{Features, Prefix};
use datapath::units::Duration;

use super::app::FlowPlan;
use super::measure::Measure;
use super::network::{LinkPlan, NodePlan, ports_called};
use super::plots::PlotPlan;
use super::routes::ShortestPaths;
use super::workload::WorkloadPlan;

/// One experiment at one point of its sweep and with one set of drawn values.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// Short name, used for files.
    pub name: String,
    /// Title of plots and tables.
    pub title: String,
    /// Seed of the first repetition; repetition k uses `seed + k`.
    pub seed: u64,
    /// How often each point is run.
    pub repetitions: u32,
    /// Latest end of a repetition in virtual time.
    pub duration: Duration,
    /// Measurements before this time are left out of means.
    pub warmup: Duration,
    /// Packets carry bytes, and what is read is held against what was written.
    pub bytes: bool,
    /// Hosts and routers.
    pub nodes: Vec<NodePlan>,
    /// Links, each with two directions.
    pub links: Vec<LinkPlan>,
    /// What the hosts do.
    pub flows: Vec<FlowPlan>,
    /// What they do by rule.
    pub workloads: Vec<WorkloadPlan>,
    /// What is recorded.
    pub measure: Measure,
    /// What is drawn; a choice of ours if empty.
    pub plots: Vec<PlotPlan>,
    /// The links that lead from each node to each other one.
    pub paths: ShortestPaths,
    /// What `[topology]` says of its routes.
    pub fabric: Option<Fabric>,
    /// Features of written routes by node and destination.
    pub route_features: BTreeMap<(usize, usize), Features>,
    /// Versions of a library user's own code, by name.
    pub versions: BTreeMap<String, String>,
}

/// How the switches of a `[topology]` find routes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fabric {
    /// By switch, where the addresses of its hosts lie.
    pub blocks: BTreeMap<usize, Prefix>,
    /// How much each of several ways gets.
    pub weights: Weights,
    /// How long after a link fails or comes back all switches have new routes. Without it only its
    /// own ends know.
    pub converge: Option<Duration>,
}

/// How much each of several ways gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weights {
    /// All the same.
    Equal,
    /// By the rate of the first link.
    Rate,
}

impl Plan {
    /// `node.link`, as a plan names a port.
    pub fn port_name(&self, link: usize, end: usize) -> String {
        let link = &self.links[link];
        format!("{}.{}", self.nodes[link.ends[end]].name, link.name)
    }

    /// The ports that a name, or a pattern with `*` in either part, stands for: link, and which of its ends.
    pub(crate) fn ports_called(&self, pattern: &str) -> Vec<(usize, usize)> {
        ports_called(pattern, &self.links, &self.nodes)
    }
}
