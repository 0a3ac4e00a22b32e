//! What if: how flows spread over next hops, and which of them move when one fails.
//!
//! Pure functions over a [`Fib`] and a list of flows. The questions: how much does each next hop
//! carry, how uneven is that against the weights, which flows are too large to balance, what
//! share moves when a next hop fails against the figure of RFC 2992, and does a second stage that
//! hashes like the first still spread what the first sends it (polarisation)?

use datapath::fib::{Decision, Fib, Hop, Link, RouteKey};
use datapath::units::Instant;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;

/// One flow and what it carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowLoad {
    /// Its fields.
    pub key: RouteKey,
    /// Bytes over the time that is looked at.
    pub bytes: u64,
}

/// What one next hop carries.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HopLoad {
    /// The next hop.
    pub hop: Hop,
    /// Flows.
    pub flows: u64,
    /// Bytes.
    pub bytes: u64,
}

/// How flows spread.
#[derive(Clone, Debug, PartialEq)]
pub struct Load {
    /// By next hop, in order of port and gateway.
    pub hops: Vec<HopLoad>,
    /// Flows that no next hop takes: local, refused, no route.
    pub elsewhere: u64,
    /// Indices of flows that carry more than a tenth of all bytes, largest first.
    pub elephants: Vec<usize>,
}

/// What a failure does.
#[derive(Clone, Debug, PartialEq)]
pub struct Disruption {
    /// The interface that failed.
    pub port: u16,
    /// Flows that had to move because they used it, as a share of all.
    pub own: f64,
    /// Flows that moved although their next hop lives, as a share of all.
    pub collateral: f64,
    /// Bytes of all flows that moved, as a share of all.
    pub bytes: f64,
    /// What hash-threshold makes of evenly spread hashes (RFC 2992): own and collateral together.
    pub theory: Option<f64>,
}

/// One stage of several that packets pass one after the other.
#[derive(Clone, Debug, PartialEq)]
pub struct Stage {
    /// How the flows that reach it spread there.
    pub load: Load,
    /// Its next hops that none of them takes.
    pub unused: usize,
}

/// How the flows spread over the next hops of `fib`.
pub fn load(fib: &Fib, flows: &[FlowLoad]) -> Load {
    let mut hops: BTreeMap<Hop, (u64, u64)> = BTreeMap::new();
    let mut elsewhere = 0;
    for flow in flows {
        for path in fib.candidates(&flow.key) {
            hops.entry(path.hop).or_default();
        }
        match fib.lookup(&flow.key) {
            Decision::Forward(hop) => {
                let (count, bytes) = hops.entry(hop).or_default();
                *count += 1;
                *bytes += flow.bytes;
            }
            _ => elsewhere += 1,
        }
    }
    let hops = hops.into_iter().map(|(hop, (flows, bytes))| HopLoad { hop, flows, bytes });
    Load { hops: hops.collect(), elsewhere, elephants: elephants(flows) }
}

/// Flows that no balancing by flow can spread.
fn elephants(flows: &[FlowLoad]) -> Vec<usize> {
    let total: u64 = flows.iter().map(|flow| flow.bytes).sum();
    let large = |index: &usize| flows[*index].bytes * 10 > total;
    let mut found: Vec<usize> = (0..flows.len()).filter(large).collect();
    found.sort_by_key(|&index| std::cmp::Reverse(flows[index].bytes));
    found
}

/// Takes the interface down, sees which flows go another way, and brings it back.
pub fn fail(fib: &mut Fib, flows: &[FlowLoad], port: u16) -> Disruption {
    let before: Vec<Decision> = flows.iter().map(|flow| fib.lookup(&flow.key)).collect();
    let theory = flows.first().and_then(|flow| theory(fib, &flow.key, port));
    let link = fib.link(port);
    fib.set_link(Instant::ZERO, port, Link { up: false, ..link });
    let (mut own, mut collateral, mut moved) = (0u64, 0u64, 0u64);
    for (flow, before) in flows.iter().zip(before) {
        if fib.lookup(&flow.key) == before {
            continue;
        }
        moved += flow.bytes;
        match before {
            Decision::Forward(hop) if hop.port == port => own += 1,
            _ => collateral += 1,
        }
    }
    fib.set_link(Instant::ZERO, port, link);
    let total: u64 = flows.iter().map(|flow| flow.bytes).sum();
    let share = |part: u64, whole: u64| if whole == 0 { 0.0 } else { part as f64 / whole as f64 };
    let count = flows.len() as u64;
    Disruption {
        port,
        own: share(own, count),
        collateral: share(collateral, count),
        bytes: share(moved, total),
        theory,
    }
}

/// The share of the hash space whose next hop changes when those over `port` fail: regions before
/// and after, by RFC 2992 section 3, for any weights.
fn theory(fib: &Fib, key: &RouteKey, port: u16) -> Option<f64> {
    let weights: Vec<(u16, f64)> = fib
        .candidates(key)
        .iter()
        .filter(|path| path.usable)
        .map(|path| (path.hop.port, f64::from(path.weight)))
        .collect();
    let regions = |gone: Option<u16>| {
        let weight = |&(port, weight): &(u16, f64)| if Some(port) == gone { 0.0 } else { weight };
        let total: f64 = weights.iter().map(weight).sum();
        let mut upper = 0.0;
        let mut regions = Vec::new();
        for one in &weights {
            let lower = upper;
            upper += weight(one) / total;
            regions.push((lower, upper));
        }
        regions
    };
    if weights.len() < 2 || weights.iter().all(|&(there, _)| there == port) {
        return None;
    }
    let same: f64 = regions(None)
        .into_iter()
        .zip(regions(Some(port)))
        .map(|((a, b), (c, d))| (b.min(d) - a.max(c)).max(0.0))
        .sum();
    Some(1.0 - same)
}

/// Sends the flows through the first stage, those that take `follow[0]` on through the second, and
/// so on. Stages with the same hash choose alike: the second then sends everything one way.
pub fn stages(fibs: &[Fib], follow: &[u16], flows: &[FlowLoad]) -> Vec<Stage> {
    let mut flows = flows.to_vec();
    let mut stages = Vec::new();
    for (index, fib) in fibs.iter().enumerate() {
        let load = load(fib, &flows);
        let unused = load.hops.iter().filter(|hop| hop.flows == 0).count();
        stages.push(Stage { load, unused });
        let Some(&port) = follow.get(index) else { break };
        flows.retain(
            |flow| matches!(fib.lookup(&flow.key), Decision::Forward(hop) if hop.port == port),
        );
    }
    stages
}

/// Reads `src,dst,protocol,sport,dport,bytes`, one flow a line; a first line of names and lines
/// that begin with `#` are passed over.
///
/// # Errors
/// The first line (from 1) that is no flow, and what is wrong with it.
pub fn flows_from_csv(text: &str) -> Result<Vec<FlowLoad>, (usize, String)> {
    let mut flows = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') || index == 0 && line.starts_with("src") {
            continue;
        }
        flows.push(flow_from_line(line).map_err(|problem| (index + 1, problem))?);
    }
    Ok(flows)
}

fn flow_from_line(line: &str) -> Result<FlowLoad, String> {
    let fields: Vec<&str> = line.split(',').map(str::trim).collect();
    let [src, dst, protocol, src_port, dst_port, bytes] = fields[..] else {
        return Err(format!(
            "{} fields instead of src,dst,protocol,sport,dport,bytes",
            fields.len()
        ));
    };
    let address = |text: &str| -> Result<IpAddr, String> {
        text.parse().map_err(|_| format!("\"{text}\" is no address"))
    };
    let port = |text: &str| -> Result<u16, String> {
        text.parse().map_err(|_| format!("\"{text}\" is no port"))
    };
    let protocol = match protocol {
        "tcp" => 6,
        "udp" => 17,
        "icmp" => 1,
        number => number.parse().map_err(|_| format!("\"{number}\" is no protocol"))?,
    };
    let (src, dst) = (address(src)?, address(dst)?);
    if src.is_ipv4() != dst.is_ipv4() {
        return Err("source and destination are of different families".to_owned());
    }
    let key = RouteKey {
        src,
        dst,
        // A flow of others: it comes in somewhere.
        iif: Some(u16::MAX - 1),
        oif: None,
        tos: 0,
        mark: 0,
        protocol,
        src_port: port(src_port)?,
        dst_port: port(dst_port)?,
        flow_label: 0,
    };
    let bytes = bytes.parse().map_err(|_| format!("\"{bytes}\" is no number of bytes"))?;
    Ok(FlowLoad { key, bytes })
}

impl Load {
    /// Largest over mean number of flows of a next hop; 1 = perfectly even. `None` without flows.
    pub fn imbalance_flows(&self) -> Option<f64> {
        imbalance(self.hops.iter().map(|hop| hop.flows))
    }

    /// The same in bytes.
    pub fn imbalance_bytes(&self) -> Option<f64> {
        imbalance(self.hops.iter().map(|hop| hop.bytes))
    }

    /// The load as JSON.
    pub fn to_json(&self) -> Value {
        let hops: Vec<Value> = self
            .hops
            .iter()
            .map(|hop| {
                json!({
                    "port": hop.hop.port,
                    "gateway": hop.hop.gateway.map(|gateway| gateway.to_string()),
                    "flows": hop.flows,
                    "bytes": hop.bytes,
                })
            })
            .collect();
        json!({
            "hops": hops,
            "elsewhere": self.elsewhere,
            "elephants": self.elephants,
            "imbalance_flows": self.imbalance_flows(),
            "imbalance_bytes": self.imbalance_bytes(),
        })
    }
}

fn imbalance(parts: impl Iterator<Item = u64> + Clone) -> Option<f64> {
    let total: u64 = parts.clone().sum();
    let count = parts.clone().count();
    let largest = parts.max()?;
    (total > 0).then(|| largest as f64 * count as f64 / total as f64)
}

impl Disruption {
    /// The disruption as JSON.
    pub fn to_json(&self) -> Value {
        json!({
            "port": self.port,
            "own": self.own,
            "collateral": self.collateral,
            "moved": self.own + self.collateral,
            "moved_bytes": self.bytes,
            "theory": self.theory,
        })
    }
}

impl fmt::Display for Load {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:>5}  {:<28}{:>10}{:>16}", "port", "gateway", "flows", "bytes")?;
        for hop in &self.hops {
            let gateway = hop.hop.gateway.map_or("-".to_owned(), |gateway| gateway.to_string());
            writeln!(f, "{:>5}  {gateway:<28}{:>10}{:>16}", hop.hop.port, hop.flows, hop.bytes)?;
        }
        if let (Some(flows), Some(bytes)) = (self.imbalance_flows(), self.imbalance_bytes()) {
            writeln!(f, "imbalance (largest over mean): flows {flows:.3}, bytes {bytes:.3}")?;
        }
        writeln!(f, "elephants: {}, not forwarded: {}", self.elephants.len(), self.elsewhere)
    }
}

impl fmt::Display for Disruption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let moved = self.own + self.collateral;
        write!(
            f,
            "port {} fails: {:.1} % of flows move ({:.1} % own, {:.1} % collateral), {:.1} % of bytes",
            self.port,
            100.0 * moved,
            100.0 * self.own,
            100.0 * self.collateral,
            100.0 * self.bytes
        )?;
        match self.theory {
            Some(theory) => write!(f, "; RFC 2992: {:.1} %", 100.0 * theory),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use datapath::fib::hash::{HashKey, Policy};
    use datapath::fib::nexthop::ObjectConfig;
    use datapath::fib::resilient::{Member, ResilientConfig};
    use datapath::fib::{NextHop, Prefix, Route, Settings};
    use std::fmt::Write as _;

    fn equal(count: u16, seed: u32) -> Fib {
        let mut fib = Fib::new();
        let hops = (1..=count).map(|port| NextHop::new(port, None)).collect();
        fib.add(Route::new(Prefix::DEFAULT_V4, hops)).unwrap();
        set_seed(&mut fib, seed);
        fib
    }

    fn set_seed(fib: &mut Fib, seed: u32) {
        let key = HashKey::from_seed(seed);
        fib.set_settings(Settings { policy: Policy::L4, key, ..*fib.settings() });
    }

    fn flows(count: u32) -> Vec<FlowLoad> {
        let mut text = String::from("src,dst,protocol,sport,dport,bytes\n");
        for index in 0..count {
            let (a, b) = (index % 250, index / 250);
            let port = 1024 + index;
            let _ = writeln!(text, "10.9.{b}.{a}, 198.18.{a}.{b}, tcp, {port}, 443, 1000");
        }
        flows_from_csv(&text).unwrap()
    }

    #[test]
    fn failures_move_what_rfc_2992_says() {
        let flows = flows(8000);
        let mut fib = equal(4, 1);
        let before = load(&fib, &flows);
        for (port, expected) in [(1, 0.5), (2, 1.0 / 3.0), (3, 1.0 / 3.0), (4, 0.5)] {
            let disruption = fail(&mut fib, &flows, port);
            let theory = disruption.theory.unwrap();
            assert!((theory - expected).abs() < 1e-9, "{disruption}");
            let moved = disruption.own + disruption.collateral;
            // Four standard deviations of a share of 8000 flows.
            assert!((moved - expected).abs() < 4.0 * (0.25f64 / 8000.0).sqrt(), "{disruption}");
        }
        assert_eq!(load(&fib, &flows), before, "a question changes nothing");
        assert!(before.imbalance_flows().unwrap() < 1.1, "{before}");
    }

    #[test]
    fn a_resilient_group_moves_its_own_flows_only() {
        let flows = flows(4000);
        let mut fib = Fib::new();
        let now = Instant::ZERO;
        for id in 1..=4u16 {
            let hop = ObjectConfig::Hop(NextHop::new(id, None));
            fib.add_object(now, id.into(), hop).unwrap();
        }
        let members = (1..=4).map(|id| Member { id, weight: 1 }).collect();
        let group = ObjectConfig::Resilient(members, ResilientConfig::default());
        fib.add_object(now, 10, group).unwrap();
        fib.add(Route::object(Prefix::DEFAULT_V4, 10)).unwrap();
        set_seed(&mut fib, 1);
        let disruption = fail(&mut fib, &flows, 2);
        assert!(disruption.collateral.abs() < 1e-9, "{disruption}");
        assert!((disruption.own - 0.25).abs() < 0.05, "{disruption}");
    }

    #[test]
    fn stages_with_one_hash_polarise() {
        let flows = flows(2000);
        let alike = stages(&[equal(2, 7), equal(2, 7)], &[1], &flows);
        assert_eq!((alike[0].unused, alike[1].unused), (0, 1));
        let different = stages(&[equal(2, 7), equal(2, 8)], &[1], &flows);
        assert_eq!((different[0].unused, different[1].unused), (0, 0));
        assert!(different[1].load.imbalance_flows().unwrap() < 1.2);
    }

    #[test]
    fn elephants_and_bad_lines_are_named() {
        let text = "# made by hand\n10.0.0.1,10.0.0.2,udp,1,2,900\n10.0.0.1,10.0.0.3,17,1,2,50";
        let flows = flows_from_csv(text).unwrap();
        let load = load(&equal(2, 1), &flows);
        assert_eq!((load.elephants, load.elsewhere), (vec![0], 0));
        for (bad, line) in [
            ("10.0.0.1,10.0.0.2,udp,1,2", 1),
            ("\n10.0.0.1,fd00::1,udp,1,2,3", 2),
            ("10.0.0.1,10.0.0.2,foo,1,2,3", 1),
            ("10.0.0.1,10.0.0.2,udp,1,99999,3", 1),
        ] {
            assert_eq!(flows_from_csv(bad).unwrap_err().0, line, "{bad}");
        }
    }
}
