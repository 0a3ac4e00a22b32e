//! What is asked in words: which policy, which next hops fail.

use datapath::fib::hash::Policy;
use iproute::ip::Ip;

use super::{Disruption, FlowLoad, Load, fail};
use crate::plan::suggest;

/// The hash policy that a word stands for: `l3`, `l4`, `inner`, `custom`, or the kernel's number.
pub fn policy(word: &str) -> Option<Policy> {
    let words = [
        ("l3", Policy::L3),
        ("l4", Policy::L4),
        ("inner", Policy::Inner),
        ("custom", Policy::Custom),
    ];
    let named = words.iter().find(|(name, _)| *name == word).map(|(_, policy)| *policy);
    named.or_else(|| word.parse().ok().and_then(Policy::from_number))
}

/// What the failure of each of these devices or gateways does, and then of all together; without any,
/// of each next hop in turn.
///
/// # Errors
/// When no next hop is called so, with what was meant.
pub fn failures(
    failing: &[String],
    ip: &Ip,
    flows: &[FlowLoad],
    load: &Load,
) -> Result<Vec<Disruption>, String> {
    let mut sets: Vec<Vec<u16>> = Vec::new();
    if failing.is_empty() {
        let mut ports: Vec<u16> = load.hops.iter().map(|hop| hop.hop.port).collect();
        ports.dedup();
        if ports.len() > 1 {
            sets.extend(ports.into_iter().map(|port| vec![port]));
        }
    } else {
        for hop in failing {
            sets.push(vec![port_of(hop, ip, load)?]);
        }
        if sets.len() > 1 {
            sets.push(sets.concat());
        }
    }
    Ok(sets.iter().map(|ports| fail(&ip.fib, flows, ports)).collect())
}

/// The port that a device or a gateway stands for.
fn port_of(hop: &str, ip: &Ip, load: &Load) -> Result<u16, String> {
    if let Some(port) = ip.devices.port(hop) {
        return Ok(port);
    }
    let named: Vec<String> = load
        .hops
        .iter()
        .flat_map(|one| {
            let gateway = one.hop.gateway.map(|gateway| gateway.to_string());
            [Some(ip.devices.name(one.hop.port).to_owned()), gateway].into_iter().flatten()
        })
        .collect();
    let of = load.hops.iter().find(|one| one.hop.gateway.is_some_and(|gw| gw.to_string() == hop));
    let Some(found) = of else {
        let help = suggest(hop, named.iter().map(String::as_str)).unwrap_or_default();
        return Err(format!("{hop}: no such next hop; {help}"));
    };
    let port = found.hop.port;
    if load.hops.iter().any(|one| one.hop.port == port && one.hop != found.hop) {
        let name = ip.devices.name(port);
        return Err(format!(
            "{hop}: {name} leads to other next hops as well, and fails as a whole; name {name}"
        ));
    }
    Ok(port)
}
