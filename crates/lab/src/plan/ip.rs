//! The words of `ip` inside a plan: what a node is told before it starts and while it runs, and
//! when wires are cut.

use datapath::fib::Algorithm;
use datapath::units::Duration;
use iproute::ip::{Ip, IpError};
use sim::topology::{WireId, default_addresses};

use super::doc::{Key, Node, Origin};
use super::model::{LinkPlan, NodePlan};
use super::quantity;
use super::read::{Faults, Reader, as_texts};

/// What chooses among the links of a `[routes]` entry.
pub const ALGORITHMS: [(&str, Algorithm); 6] = [
    ("linux", Algorithm::System),
    ("l3", Algorithm::L3),
    ("l4", Algorithm::L4),
    ("per-packet", Algorithm::PerPacket),
    ("modulo", Algorithm::Modulo),
    ("credit", Algorithm::Credit),
];

/// `ip = ["route add …"]`.
pub fn lines(table: &mut Reader<'_, '_>) -> Vec<String> {
    table.texts("ip").iter().map(|(text, _)| (*text).to_owned()).collect()
}

/// `ip_at = ["2s link set left down"]`, put into the order of time.
pub fn timed_lines(table: &mut Reader<'_, '_>) -> Vec<(Duration, String)> {
    let texts = table.texts("ip_at");
    let mut lines: Vec<(Duration, String)> = texts
        .iter()
        .filter_map(|(text, at)| {
            let (time, words) = split_time(text, at, table.faults)?;
            Some((time, words.to_owned()))
        })
        .collect();
    lines.sort_by_key(|(time, _)| *time);
    lines
}

/// `events = ["2s down", "3s up"]`, put into the order of time.
pub fn events(table: &mut Reader<'_, '_>) -> Vec<(Duration, bool)> {
    let texts = table.texts("events");
    let mut events: Vec<(Duration, bool)> = texts
        .iter()
        .filter_map(|(text, at)| {
            let (time, word) = split_time(text, at, table.faults)?;
            match word {
                "down" => Some((time, false)),
                "up" => Some((time, true)),
                _ => {
                    let message = format!("\"{word}\" is neither \"up\" nor \"down\"");
                    table.faults.add(at, message, None);
                    None
                }
            }
        })
        .collect();
    events.sort_by_key(|(time, _)| *time);
    events
}

fn split_time<'a>(text: &'a str, at: &Origin, faults: &Faults<'_>) -> Option<(Duration, &'a str)> {
    let (time, rest) = text.trim().split_once(char::is_whitespace).unwrap_or((text, ""));
    match quantity::time(time) {
        Ok(time) => Some((time, rest.trim())),
        Err(message) => {
            let help = Some("a time comes first, e.g. \"2s link set left down\"".into());
            faults.add(at, message, help);
            None
        }
    }
}

/// The words of `ip` that give a node its devices, named like its links, and their addresses.
pub fn interfaces(node: usize, links: &[LinkPlan]) -> Ip {
    let mut ip = Ip::new();
    for (index, link) in links.iter().enumerate() {
        let Some(end) = link.ends.iter().position(|end| *end == node) else { continue };
        ip.devices.add(&link.name);
        let addresses = link.addresses.unwrap_or_else(|| default_addresses(WireId(index as u32)));
        let (address, len) = addresses[end];
        let line = format!("address add {address}/{len} dev {}", link.name);
        // Two links with one address are a fault that is told elsewhere.
        let _ = ip.run(&line);
    }
    ip
}

/// Runs every line where it would be run, and tells what is wrong with it.
pub fn check(entries: &[(Key, Node)], nodes: &[NodePlan], links: &[LinkPlan], faults: &Faults<'_>) {
    for (index, (plan, (_, node))) in nodes.iter().zip(entries).enumerate() {
        if plan.ip.is_empty() && plan.at.is_empty() {
            continue;
        }
        let mut ip = interfaces(index, links);
        let own = node.get("ip").map_or(Vec::new(), |own| as_texts(own, faults));
        let shared = plan.ip.len().saturating_sub(own.len());
        for line in &plan.ip[..shared] {
            if let Err(error) = ip.run(line) {
                faults.add(&node.at, format!("{line}: {error}"), None);
            }
        }
        for (text, at) in own {
            tell(ip.run(text), text, 0, at, faults);
        }
        let timed = node.get("ip_at").map_or(Vec::new(), |own| as_texts(own, faults));
        let mut timed: Vec<(Duration, &str, &Origin)> = timed
            .into_iter()
            .filter_map(|(text, at)| {
                let (time, _) = text.trim().split_once(char::is_whitespace)?;
                Some((quantity::time(time).ok()?, text, at))
            })
            .collect();
        timed.sort_by_key(|(time, ..)| *time);
        for (_, text, at) in timed {
            let words = text.trim_start().split_once(char::is_whitespace).map_or("", |two| two.1);
            tell(ip.run(words), text, text.len() - words.len(), at, faults);
        }
    }
}

/// An error of `ip` at its place in the file.
fn tell(
    result: Result<String, IpError>,
    text: &str,
    offset: usize,
    at: &Origin,
    faults: &Faults<'_>,
) {
    match result {
        Ok(_) => {}
        Err(IpError::Grammar(error)) => {
            let before = text.get(..offset + error.column).unwrap_or(text);
            let help = error.nearest.map(|word| format!("did you mean \"{word}\"?"));
            faults.add_in_text(at, before.chars().count(), error.message, help);
        }
        Err(error) => faults.add(at, error.to_string(), None),
    }
}
