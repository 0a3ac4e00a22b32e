//! Loads, failures and stages as tables, JSON and a picture.

use super::{Disruption, HopLoad, Load, Stage};
use crate::plot::{Anchor, BarChart, Colour, Group, Scene, Shape, TextStyle};
use crate::report::Table;
use datapath::fib::Hop;
use datapath::fib::multipath::Path;
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

/// Flows and bytes of each next hop, and how they compare with its weight.
pub fn load_table(load: &Load, names: &impl Names) -> Table {
    let head = ["next hop", "flows", "share [%]", "of weight", "bytes", "share [%]", "of weight"];
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

/// What each failure moves, against theory, and what it leaves without a next hop.
pub fn failure_table(failures: &[Disruption], names: &impl Names) -> Table {
    let head = [
        "fails",
        "flows moved [%]",
        "RFC 2992 [%]",
        "own [%]",
        "others [%]",
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

/// How much each stage still spreads.
pub fn stage_table(stages: &[Stage], names: &impl Names) -> Table {
    let head = ["stage", "flows", "next hops used", "largest of weight", "followed"];
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

/// A bar chart: each next hop's share of flows and bytes, by weight, and after each failure.
pub fn chart(load: &Load, failures: &[Disruption], names: &impl Names) -> BarChart {
    let mut series = ["flows", "bytes", "by weight"].map(String::from).to_vec();
    series.extend(
        failures.iter().map(|one| format!("flows after {} fails", names.ports(&one.ports))),
    );
    let sum = |part: fn(&HopLoad) -> f64, load: &Load| load.hops.iter().map(part).sum::<f64>();
    let share = |hop: &HopLoad, part: fn(&HopLoad) -> f64, load: &Load| {
        let total = sum(part, load);
        Some((if total > 0.0 { 100.0 * part(hop) / total } else { 0.0 }, None))
    };
    let groups = load
        .hops
        .iter()
        .map(|hop| {
            let mut values = vec![
                share(hop, |hop| hop.flows as f64, load),
                share(hop, |hop| hop.bytes as f64, load),
                share(hop, |hop| hop.expected_flows, load),
            ];
            for failure in failures {
                let there = failure.after.hops.iter().find(|other| other.hop == hop.hop);
                values
                    .push(there.and_then(|hop| share(hop, |hop| hop.flows as f64, &failure.after)));
            }
            Group { label: names.hop(&hop.hop), values }
        })
        .collect();
    BarChart {
        title: "Load of each next hop".into(),
        subtitle: String::new(),
        y_label: "share [%]".into(),
        stacked: false,
        series,
        groups,
        size: [0.0; 2],
    }
}

/// A picture of the hash space: the region of each next hop before and after the failure of
/// `ports`, and between them what changes hands.
pub fn regions(before: &[Path], after: &[Path], title: &str, names: &impl Names) -> Scene {
    const LEFT: f32 = 96.0;
    const WIDTH: f32 = 640.0;
    const BAR: f32 = 44.0;
    let style =
        |size, colour, anchor| TextStyle { size, medium: false, colour, anchor, upright: false };
    let x = |hash: f64| LEFT + WIDTH * (hash / 2f64.powi(31)) as f32;
    let mut scene = Scene::new(LEFT + WIDTH + 24.0, 284.0, title);
    let heading = TextStyle { medium: true, ..style(17.0, Colour::INK, Anchor::Start) };
    scene.text([24.0, 30.0], title, heading);
    let (before, after) = (parts(before), parts(after));
    for (row, label, parts) in [(0, "before", &before), (2, "after", &after)] {
        let top = 56.0 + 58.0 * row as f32;
        scene.text([LEFT - 12.0, top + 27.0], label, style(13.0, Colour::INK, Anchor::End));
        for (index, part) in parts.iter().enumerate() {
            let Some((from, to)) = part.range else { continue };
            let frame = [x(from), top, x(to) - x(from), BAR];
            scene.shapes.push(Shape::Rect { frame, fill: Colour::data(index) });
            let middle = [x(f64::midpoint(from, to)), top + 27.0];
            let name = names.hop(&part.hop);
            // A name that is longer than its region stands in the table alone.
            if crate::plot::text_width(&name, 12.0) < x(to) - x(from) - 4.0 {
                scene.text(middle, &name, style(12.0, Colour::WHITE, Anchor::Middle));
            }
        }
    }
    let top = 56.0 + 58.0;
    scene.text([LEFT - 12.0, top + 27.0], "moves to", style(13.0, Colour::INK, Anchor::End));
    let mut moved = 0.0;
    for (old, one) in before.iter().enumerate() {
        for (new, other) in after.iter().enumerate().filter(|(new, _)| *new != old) {
            let (Some((a, b)), Some((c, d))) = (one.range, other.range) else { continue };
            let (from, to) = (a.max(c), b.min(d));
            if from < to {
                let frame = [x(from), top + 6.0, x(to) - x(from), BAR - 12.0];
                scene.shapes.push(Shape::Rect { frame, fill: Colour::data(new) });
                moved += to - from;
            }
        }
    }
    let bottom = 56.0 + 3.0 * 58.0;
    for quarter in 0..=4u8 {
        let at = x(2f64.powi(29) * f64::from(quarter));
        scene.line([at, bottom - 10.0], [at, bottom - 4.0], Colour::AXIS, 1.0);
        let label = ["0", "1/4", "1/2", "3/4", "1"][usize::from(quarter)];
        scene.text([at, bottom + 12.0], label, style(12.0, Colour::GREY, Anchor::Middle));
    }
    let share = format!(
        "{:.1} % of the 31-bit hash space changes its next hop",
        100.0 * moved / 2f64.powi(31)
    );
    scene.text([LEFT, bottom + 36.0], &share, style(13.0, Colour::INK, Anchor::Start));
    scene
}

/// A next hop's part of the hash space, from its first hash up to the next one's.
struct Part {
    hop: Hop,
    range: Option<(f64, f64)>,
}

fn parts(paths: &[Path]) -> Vec<Part> {
    let mut from = 0.0;
    let part = |path: &Path| {
        let range = (path.bound >= 0).then(|| {
            let to = f64::from(path.bound) + 1.0;
            (std::mem::replace(&mut from, to), to)
        });
        Part { hop: path.hop, range }
    };
    paths.iter().map(part).collect()
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
