//! The experiment that a seed stands for.

use super::words::{self, Key};
use datapath::rng::Rng;

/// A line: where its key lies, and what stands behind the `=`.
#[derive(Clone, Debug)]
pub struct Line {
    pub path: Vec<String>,
    pub value: String,
}

/// The text of a file: a line each, so that a fault names one.
pub fn text(lines: &[Line]) -> String {
    let line = |line: &Line| format!("{} = {}\n", line.path.join("."), line.value);
    lines.iter().map(line).collect()
}

/// Without the lines that are faulty; from some round on without all of their node, link or flow, and at last without
/// their section.
pub fn without(lines: &[Line], faulty: &[usize], round: usize) -> Vec<Line> {
    let depth = match round {
        0..6 => usize::MAX,
        6..12 => 2,
        _ => 1,
    };
    let gone: Vec<&[String]> = faulty
        .iter()
        .map(|at| &lines[*at].path[..])
        .filter(|path| path.len() > 1 || !matches!(&*path[0], "schema" | "name"))
        .map(|path| &path[..path.len().min(depth)])
        .collect();
    let stays = |line: &&Line| !gone.iter().any(|gone| line.path.starts_with(gone));
    lines.iter().filter(stays).cloned().collect()
}

struct Draw {
    rng: Rng,
    lines: Vec<Line>,
}

pub fn experiment(seed: u64) -> Vec<Line> {
    let mut draw = Draw { rng: Rng::stream(seed, 0), lines: Vec::new() };
    draw.line(&["schema"], "1");
    draw.line(&["name"], "any");
    let duration = *draw.one_of(words::DURATIONS);
    draw.line(&["duration"], duration);
    draw.keys(&[], words::TOP, 100);
    draw.keys(&[], words::NODE, 40);
    if draw.percent(40) {
        draw.keys(&["sysctl"], words::SYSCTLS, 100);
    }
    let hosts = if draw.percent(30) { draw.topology() } else { draw.network() };
    if draw.percent(60) {
        draw.ports();
    }
    for number in 0..draw.below(4) {
        draw.flow(&format!("f{number}"), &hosts);
    }
    if draw.percent(30) {
        draw.workload(&hosts);
    }
    if draw.percent(50) {
        draw.keys(&["measure"], words::MEASURE, 100);
    }
    if draw.percent(25) {
        draw.keys(&["draw"], words::DRAWS, 100);
    }
    if draw.percent(25) {
        draw.keys(&["sweep"], words::SWEEPS, 100);
    }
    if draw.percent(30) {
        let plots: Vec<String> = (0..=draw.below(2)).map(|_| draw.plot()).collect();
        draw.line(&["plot"], &format!("[{}]", plots.join(", ")));
    }
    draw.lines
}

impl Draw {
    fn below(&mut self, bound: usize) -> usize {
        self.rng.below(bound as u64) as usize
    }

    fn percent(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    fn one_of<'a, T>(&mut self, choices: &'a [T]) -> &'a T {
        &choices[self.below(choices.len())]
    }

    fn line(&mut self, path: &[&str], value: &str) {
        let path = path.iter().map(|key| words::key(key)).collect();
        self.lines.push(Line { path, value: words::value(value) });
    }

    /// Some of these keys, each as often as it says, in so many cases of a hundred.
    fn keys(&mut self, under: &[&str], keys: &[Key], percent: usize) {
        for (key, often, values) in keys {
            if self.percent(*often * percent / 100) {
                let value = *self.one_of(values);
                let path: Vec<&str> = under.iter().copied().chain(key.split(' ')).collect();
                self.line(&path, value);
            }
        }
    }

    /// A star of hosts around a router, or around two with one or two ways between them; the names of the hosts.
    fn network(&mut self) -> Vec<String> {
        let hosts = 2 + self.below(3);
        let two = self.percent(25);
        for number in 0..hosts {
            let (node, link) = (format!("h{number}"), format!("l{number}"));
            self.line(&["nodes", &node, "role"], "host");
            self.keys(&["nodes", &node], words::NODE, 30);
            self.keys(&["nodes", &node], words::COMMANDS, 30);
            let router = if two && number == 0 { "r1" } else { "r0" };
            let (one, other) = if self.percent(50) { (&*node, router) } else { (router, &*node) };
            self.line(&["links", &link, "ends"], &format!("[\"{one}\", \"{other}\"]"));
            self.keys(&["links", &link], words::LINK, 100);
            self.keys(&["links", &link], words::IMPAIRMENTS, 100);
            for way in ["forward", "backward"] {
                if self.percent(12) {
                    self.keys(&["links", &link, way], words::IMPAIRMENTS, 300);
                }
            }
        }
        let between: &[&str] = if two { &["x", "y"] } else { &[] };
        for link in &between[..between.len().min(1 + self.below(2))] {
            self.line(&["links", link, "ends"], "[\"r0\", \"r1\"]");
            self.keys(&["links", link], words::LINK, 60);
            self.keys(&["routes"], words::ROUTES, 60);
        }
        for router in &["r0", "r1"][..if two { 2 } else { 1 }] {
            self.line(&["nodes", router, "role"], "router");
            self.keys(&["nodes", router], words::NODE, 40);
        }
        (0..hosts).map(|number| format!("h{number}")).collect()
    }

    /// A generated network; patterns of its hosts.
    fn topology(&mut self) -> Vec<String> {
        let (kind, own, hosts) = *self.one_of(words::TOPOLOGIES);
        self.line(&["topology", "kind"], kind);
        let rate = *self.one_of(words::RATES);
        self.line(&["topology", "rate"], rate);
        self.keys(&["topology"], own, 100);
        self.keys(&["topology"], words::TOPOLOGY, 100);
        if self.percent(25) {
            self.keys(&["topology", "nodes", "*"], words::NODE, 50);
        }
        if self.percent(25) {
            self.keys(&["topology", "links", "*"], words::IMPAIRMENTS, 100);
        }
        hosts.iter().map(ToString::to_string).collect()
    }

    fn ports(&mut self) {
        for _ in 0..=self.below(2) {
            let (port, qdisc) = (*self.one_of(words::PORTS), *self.one_of(words::QDISCS));
            self.line(&["qdisc", port], qdisc);
        }
        if self.percent(15) {
            let (port, police) = (*self.one_of(words::PORTS), *self.one_of(words::POLICERS));
            self.line(&["police", port], police);
        }
    }

    fn flow(&mut self, name: &str, hosts: &[String]) {
        let (app, own) = *self.one_of(words::APPS);
        self.line(&["flows", name, "app"], app);
        let from = self.below(hosts.len());
        // Mostly another one.
        let to = if self.percent(95) { (from + 1) % hosts.len() } else { from };
        self.line(&["flows", name, "from"], &hosts[from]);
        self.line(&["flows", name, "to"], &hosts[to]);
        self.keys(&["flows", name], own, 100);
        self.keys(&["flows", name], words::FLOW, 100);
    }

    fn workload(&mut self, hosts: &[String]) {
        let size = *self.one_of(words::SIZES_OF_FLOWS);
        self.line(&["workload", "w", "size"], size);
        let arrivals = *self.one_of(words::ARRIVALS);
        self.line(&["workload", "w", "arrivals"], arrivals.0);
        self.keys(&["workload", "w"], arrivals.1, 100);
        self.keys(&["workload", "w"], words::WORKLOAD, 100);
        if self.percent(10) {
            let host = self.one_of(hosts).clone();
            self.line(&["workload", "w", "clients"], &format!("[\"{host}\"]"));
        }
    }

    fn plot(&mut self) -> String {
        let mut keys = Vec::new();
        for (key, often, values) in words::PLOT {
            if self.percent(*often) {
                keys.push(format!("{key} = {}", words::value(self.one_of::<&str>(values))));
            }
        }
        format!("{{ {} }}", keys.join(", "))
    }
}
