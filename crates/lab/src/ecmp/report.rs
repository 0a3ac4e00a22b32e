//! Loads, failures and stages as tables, JSON and a picture.

use super::{Disruption, HopLoad, Load, Stage};
use crate::plot::{BarChart, Group};
use crate::report::Table;
use datapath::fib::Hop;
use serde_json::{Value, json};

/// What ports are called.
pub trait Names {
    /// The name of a port.
    fn port(&self, port: u16) -> String;

    /// A next hop in a few words.
    fn hop(&self, hop: &Hop) -> String {
        match hop.gateway {
            Some(gateway) => format!("{} {gateway}", self.port(hop.port)),
            None => self.port(hop.port),
        }
    }

    /// Several ports.
    fn ports(&self, ports: &[u16]) -> String {
        ports.iter().map(|&port| self.port(port)).collect::<Vec<_>>().join(" + ")
    }
}

fn percent(share: f64) -> String {
    format!("{:.1}", 100.0 * share)
}

fn ratio(actual: u64, expected: f64) -> String {
    if expected > 0.0 { format!("{:.3}", actual as f64 / expected) } else { "-".into() }
}

fn table(head: &[&str], rows: Vec<Vec<String>>) -> Table {
    let numeric = (0..head.len()).map(|column| column > 0).collect();
    Table { head: head.iter().map(ToString::to_string).collect(), rows, numeric }
}

/// Flows and bytes of each next hop, and their ratio to what its weight would give it.
pub fn load_table(load: &Load, names: &impl Names) -> Table {
    let head = [
        "next hop",
        "flows",
        "flows [%]",
        "flows/expected",
        "bytes",
        "bytes [%]",
        "bytes/expected",
    ];
    let flows: u64 = load.hops.iter().map(|hop| hop.flows).sum();
    let bytes: u64 = load.hops.iter().map(|hop| hop.bytes).sum();
    let share = |part: u64, whole: u64| percent(part as f64 / whole.max(1) as f64);
    let row = |hop: &HopLoad| {
        vec![
            names.hop(&hop.hop),
            hop.flows.to_string(),
            share(hop.flows, flows),
            ratio(hop.flows, hop.expected_flows),
            hop.bytes.to_string(),
            share(hop.bytes, bytes),
            ratio(hop.bytes, hop.expected_bytes),
        ]
    };
    table(&head, load.hops.iter().map(row).collect())
}

/// What share of the flows each failure moves, in theory and here, and what it leaves without a next hop.
pub fn failure_table(failures: &[Disruption], names: &impl Names) -> Table {
    let head = [
        "failed",
        "flows moved [%]",
        "RFC 2992 [%]",
        "had to move [%]",
        "collateral [%]",
        "flows lost [%]",
        "bytes moved [%]",
        "bytes lost [%]",
    ];
    let rows = failures
        .iter()
        .map(|one| {
            vec![
                names.ports(&one.ports),
                percent(one.own + one.collateral),
                one.theory.map_or("-".into(), percent),
                percent(one.own),
                percent(one.collateral),
                percent(one.lost),
                percent(one.moved_bytes),
                percent(one.lost_bytes),
            ]
        })
        .collect();
    table(&head, rows)
}

/// How evenly each stage still distributes flows.
pub fn stage_table(stages: &[Stage], names: &impl Names) -> Table {
    let head = ["stage", "flows", "next hops used", "imbalance", "next stage by"];
    let rows = stages
        .iter()
        .enumerate()
        .map(|(index, stage)| {
            let hops = stage.load.hops.len();
            vec![
                (index + 1).to_string(),
                stage.load.hops.iter().map(|hop| hop.flows).sum::<u64>().to_string(),
                format!("{} of {hops}", hops - stage.unused),
                stage.load.imbalance_flows().map_or("-".into(), |ratio| format!("{ratio:.3}")),
                stage.followed.map_or("-".into(), |port| names.port(port)),
            ]
        })
        .collect();
    table(&head, rows)
}

/// With more failures than this, only the largest load of each next hop is drawn.
const MOST_FAILURES: usize = 5;

/// A bar chart: each next hop's share of flows and bytes, by weight, and after each failure.
pub fn chart(load: &Load, failures: &[Disruption], names: &impl Names) -> BarChart {
    let mut series = ["flows", "bytes", "by weight"].map(String::from).to_vec();
    let mut subtitle = String::new();
    let each = failures.len() <= MOST_FAILURES;
    if each {
        let after = |one: &Disruption| format!("flows after {} fails", names.ports(&one.ports));
        series.extend(failures.iter().map(after));
    } else {
        series.push("flows after the failure that gives it most".into());
        subtitle = format!("{} failures, each alone", failures.len());
    }
    let group = |hop: &HopLoad| {
        let mut shares = vec![
            Some(share(hop, |hop| hop.flows as f64, load)),
            Some(share(hop, |hop| hop.bytes as f64, load)),
            Some(share(hop, |hop| hop.expected_flows, load)),
        ];
        let after = failures.iter().map(|failure| {
            let there = failure.after.hops.iter().find(|other| other.hop == hop.hop);
            there.map(|hop| share(hop, |hop| hop.flows as f64, &failure.after))
        });
        if each {
            shares.extend(after);
        } else {
            shares.push(after.flatten().max_by(f64::total_cmp));
        }
        let values = shares.into_iter().map(|share| share.map(|share| (share, None)));
        Group { label: names.hop(&hop.hop), values: values.collect() }
    };
    let groups: Vec<Group> = load.hops.iter().map(group).collect();
    // Each bar is to be wide enough to be seen.
    let width = (96 + groups.len() * 6 * (series.len() + 1)) as f32;
    let size = if width > 760.0 { [width.min(4000.0), 400.0] } else { [0.0; 2] };
    BarChart {
        title: "Load of each next hop".into(),
        subtitle,
        y_label: "share [%]".into(),
        series,
        groups,
        size,
        ..BarChart::default()
    }
}

/// A hop's part of the sum over all hops, in percent.
fn share(hop: &HopLoad, part: fn(&HopLoad) -> f64, load: &Load) -> f64 {
    let total = load.hops.iter().map(part).sum::<f64>();
    if total > 0.0 { 100.0 * part(hop) / total } else { 0.0 }
}

impl Load {
    /// The load as JSON.
    pub fn to_json(&self, names: &impl Names) -> Value {
        let hops: Vec<Value> = self
            .hops
            .iter()
            .map(|hop| {
                json!({
                    "dev": names.port(hop.hop.port),
                    "gateway": hop.hop.gateway.map(|gateway| gateway.to_string()),
                    "flows": hop.flows,
                    "bytes": hop.bytes,
                    "expected_flows": hop.expected_flows,
                    "expected_bytes": hop.expected_bytes,
                })
            })
            .collect();
        let elephants: Vec<Value> = self
            .elephants
            .iter()
            .map(|(index, hop)| json!({ "flow": index, "hop": hop.map(|hop| names.hop(&hop)) }))
            .collect();
        json!({
            "hops": hops,
            "elsewhere": self.elsewhere,
            "elephants": elephants,
            "imbalance_flows": self.imbalance_flows(),
            "imbalance_bytes": self.imbalance_bytes(),
        })
    }
}

impl Disruption {
    /// The disruption as JSON.
    pub fn to_json(&self, names: &impl Names) -> Value {
        json!({
            "fails": self.ports.iter().map(|&port| names.port(port)).collect::<Vec<_>>(),
            "moved": self.own + self.collateral,
            "own": self.own,
            "collateral": self.collateral,
            "lost": self.lost,
            "moved_bytes": self.moved_bytes,
            "lost_bytes": self.lost_bytes,
            "theory": self.theory,
            "after": self.after.to_json(names),
        })
    }
}

impl Stage {
    /// The stage as JSON.
    pub fn to_json(&self, names: &impl Names) -> Value {
        json!({
            "load": self.load.to_json(names),
            "unused": self.unused,
            "followed": self.followed.map(|port| names.port(port)),
        })
    }
}
