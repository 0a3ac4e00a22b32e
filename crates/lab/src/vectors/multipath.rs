//! The multipath comparer: what `ip route get`, forwarding and the bucket tables of a real kernel
//! said, against [`Fib`].
//!
//! Every scenario gets a FIB of its own, set up as the recording says, and is asked the same
//! questions. Choices are strings of hexadecimal digits, one a packet: the number of the chosen
//! interface, 0 for none.

use super::lines::Error;
use super::report::{Divergence, Scenario, Verdict};
use datapath::fib::hash::{HashFields, HashKey, Policy};
use datapath::fib::nexthop::ObjectConfig;
use datapath::fib::resilient::{Member, ResilientConfig};
use datapath::fib::source::Own;
use datapath::fib::{
    Decision, Fib, Hashed, Hop, LinkState, NextHop, Prefix, Route, RouteKey, Scope, Settings,
    dissect,
};
use datapath::units::{Duration, Instant};
use serde_json::Value;
use std::collections::BTreeMap;
use std::net::IpAddr;

/// The interface that packets come in by.
const INPUT_PORT: u16 = 1000;

/// Where the tests' routes lead: everything of the family.
const GROUP_ID: u32 = 1 << 16;

/// True if the file's first line is that of a multipath recording.
pub fn recognises(first: &Value) -> bool {
    first["type"] == "header" && first["kernel"].is_string()
}

/// Replays every record after the header and the tuple sets.
///
/// # Errors
/// When a record lacks what its type needs.
pub fn replay(lines: &[Value]) -> Result<Vec<Scenario>, Error> {
    let mut sets = BTreeMap::new();
    let mut links = LinkHistory::default();
    let mut scenarios = Vec::new();
    for (index, record) in lines.iter().enumerate() {
        let bad = |problem: String| Error::Format { line: index + 1, problem };
        match text(record, "type").map_err(bad)? {
            "header" => {}
            "tuple_sets" => sets = tuple_sets(record).map_err(bad)?,
            kind => {
                let mut check = Check { record, sets: &sets, compared: 0 };
                let verdict = match check.run(kind, &mut links).map_err(bad)? {
                    None => Verdict::Passed,
                    Some(divergence) => Verdict::Failed(divergence),
                };
                let name = format!("{}:{kind}", index + 1);
                scenarios.push(Scenario { name, verdict, compared: check.compared, figures: None });
            }
        }
    }
    Ok(scenarios)
}

/// The questions of one tuple set.
type Tuples = Vec<RouteKey>;

fn tuple_sets(record: &Value) -> Result<BTreeMap<String, Tuples>, String> {
    let sets = record["sets"].as_object().ok_or("no sets")?;
    let mut parsed = BTreeMap::new();
    for (name, tuples) in sets {
        let tuples = tuples.as_array().ok_or("a set is not a list")?;
        let keys: Result<Tuples, String> = tuples.iter().map(tuple).collect();
        parsed.insert(name.clone(), keys?);
    }
    Ok(parsed)
}

/// `[src, dst, ipproto, sport, dport]`.
fn tuple(value: &Value) -> Result<RouteKey, String> {
    let address = |at: usize| -> Result<IpAddr, String> {
        let text = value[at].as_str().ok_or("an address is missing")?;
        text.parse().map_err(|_| format!("{text} is not an address"))
    };
    let number = |at: usize| value[at].as_u64().ok_or(format!("field {at} is not a number"));
    Ok(RouteKey {
        src: address(0)?,
        dst: address(1)?,
        iif: None,
        oif: None,
        scope: Scope::UNIVERSE,
        tos: 0,
        mark: 0,
        protocol: number(2)? as u8,
        src_port: number(3)? as u16,
        dst_port: number(4)? as u16,
        flow_label: 0,
    })
}

/// Interface states after the commands so far; the steps of `link_state` build on each other.
#[derive(Default)]
struct LinkHistory {
    links: BTreeMap<u16, LinkState>,
}

impl LinkHistory {
    /// Applies `ip link set aN|bN up|down` and `sysctl …ignore_routes_with_linkdown`, separated by
    /// semicolons. `bN` is the other end of `aN`: its state is the carrier of `aN`.
    fn apply(&mut self, commands: &str) -> Result<(), String> {
        for command in commands.split(';').map(str::trim).filter(|command| !command.is_empty()) {
            let words: Vec<&str> = command.split_whitespace().collect();
            match words[..] {
                ["ip", "link", "set", device, state @ ("up" | "down")] => {
                    let (end, port) = device_port(device)?;
                    let link = self.links.entry(port).or_default();
                    if end == 'a' {
                        link.up = state == "up";
                    } else {
                        link.carrier = state == "up";
                    }
                }
                ["sysctl", .., setting] => self.apply_sysctl(setting)?,
                _ => return Err(format!("unknown command {command:?}")),
            }
        }
        Ok(())
    }

    fn apply_sysctl(&mut self, setting: &str) -> Result<(), String> {
        let unknown = || format!("unknown setting {setting:?}");
        let (name, value) = setting.split_once('=').ok_or_else(unknown)?;
        let path = name.strip_suffix(".ignore_routes_with_linkdown").ok_or_else(unknown)?;
        let (v6, device) = match path.split_once(".conf.") {
            Some(("net.ipv4", device)) => (false, device),
            Some(("net.ipv6", device)) => (true, device),
            _ => return Err(unknown()),
        };
        let (_, port) = device_port(device)?;
        let link = self.links.entry(port).or_default();
        let flag = if v6 { &mut link.ignore_linkdown_v6 } else { &mut link.ignore_linkdown };
        *flag = value != "0";
        Ok(())
    }
}

/// `a3` is (`'a'`, 3).
fn device_port(device: &str) -> Result<(char, u16), String> {
    let end = device.chars().next().unwrap_or_default();
    let port = device.get(1..).and_then(|digits| digits.parse().ok());
    port.map(|port| (end, port)).ok_or_else(|| format!("unknown device {device:?}"))
}

/// One record being replayed.
struct Check<'a> {
    record: &'a Value,
    sets: &'a BTreeMap<String, Tuples>,
    compared: u64,
}

type StepResult = Result<Option<Divergence>, String>;

impl Check<'_> {
    fn run(&mut self, kind: &str, links: &mut LinkHistory) -> StepResult {
        match kind {
            "route_get" | "route_get6" => {
                let fib = self.legacy_fib()?;
                self.choices(&fib, "hop")
            }
            "link_state" => self.link_state(links),
            "nhgroup" => {
                let fib = self.group_fib(ObjectConfig::Group(self.members("group")?))?;
                self.choices(&fib, "hop")
            }
            "resilient" => self.resilient(),
            "resilient_idle" => self.resilient_idle(),
            "use_neigh" => self.use_neigh(),
            "forward" => self.forward(),
            other => Err(format!("unknown type {other:?}")),
        }
    }

    fn link_state(&mut self, links: &mut LinkHistory) -> StepResult {
        if self.record["step"] == 0 {
            *links = LinkHistory::default();
        }
        links.apply(text(self.record, "cmd")?)?;
        let mut fib = self.legacy_fib()?;
        for (&port, &link) in &links.links {
            fib.set_link(Instant::ZERO, port, link);
        }
        self.choices(&fib, "hop")
    }

    fn use_neigh(&mut self) -> StepResult {
        let mut fib = self.legacy_fib()?;
        let settings = *fib.settings();
        fib.set_settings(Settings { use_neigh: self.record["use_neigh"] == 1, ..settings });
        let port = number(self.record, "hop_index")? as u16;
        let reachable = text(self.record, "neigh")? != "failed";
        for hop in self.hops()?.iter().filter(|hop| hop.hop.port == port) {
            fib.set_neighbour(hop.hop, reachable);
        }
        self.choices(&fib, "hop")
    }

    /// Layout and choices at first, after a member went, and after it came back.
    fn resilient(&mut self) -> StepResult {
        let config = self.resilient_config()?;
        let members = self.members("group")?;
        let mut fib = self.group_fib(ObjectConfig::Resilient(members, config))?;
        let steps = [
            ("group", "layout", "hop"),
            ("after_replace", "layout2", "hop2"),
            ("after_readd", "layout3", "hop3"),
        ];
        for (secs, (group, layout, hop)) in steps.into_iter().enumerate() {
            let now = Instant::ZERO + Duration::from_secs(secs as u64);
            let change = ObjectConfig::Resilient(self.members(group)?, config);
            fib.replace_object(now, GROUP_ID, change).map_err(|error| error.to_string())?;
            if let Some(divergence) = self.layout(&fib, now, &self.record[layout], layout)? {
                return Ok(Some(divergence));
            }
            if let Some(divergence) = self.choices(&fib, hop)? {
                return Ok(Some(divergence));
            }
        }
        Ok(None)
    }

    /// Layouts over time after the group grew from `initial` to `group`.
    fn resilient_idle(&mut self) -> StepResult {
        let config = self.resilient_config()?;
        let initial = self.members("initial")?;
        let mut fib = self.group_fib(ObjectConfig::Resilient(initial, config))?;
        let layouts = self.record["layouts"].as_array().ok_or("no layouts")?;
        let mut replaced = false;
        for (index, entry) in layouts.iter().enumerate() {
            let now = match entry[0].as_f64() {
                Some(secs) => Instant::ZERO + Duration::from_millis((secs * 1000.0) as u64),
                None => Instant::ZERO,
            };
            if !replaced && entry[0].is_number() {
                let change = ObjectConfig::Resilient(self.members("group")?, config);
                let replaced_at = Instant::ZERO;
                fib.replace_object(replaced_at, GROUP_ID, change).map_err(|e| e.to_string())?;
                replaced = true;
            }
            while let Some(at) = fib.wake_at().filter(|&at| at <= now) {
                fib.upkeep(at);
            }
            let field = format!("layouts[{index}]");
            if let Some(divergence) = self.layout(&fib, now, &entry[1], &field)? {
                return Ok(Some(Divergence { time: Some(now.as_nanos()), ..divergence }));
            }
        }
        Ok(None)
    }

    /// Raw packets through the policy's dissection.
    fn forward(&mut self) -> StepResult {
        let fib = self.legacy_fib()?;
        let packets = self.record["packets"].as_array().ok_or("no packets")?;
        let mut got = String::new();
        for packet in packets {
            let bytes = unhex(packet.as_str().ok_or("a packet is not a string")?)?;
            let flow = dissect::flow(&bytes).ok_or("a packet is not IP")?;
            let key = RouteKey {
                src: flow.outer.src,
                dst: flow.outer.dst,
                iif: Some(INPUT_PORT),
                oif: None,
                scope: Scope::UNIVERSE,
                tos: 0,
                mark: 0,
                protocol: flow.outer.protocol,
                src_port: flow.outer.src_port,
                dst_port: flow.outer.dst_port,
                flow_label: flow.outer.flow_label,
            };
            got.push(digit(fib.forward(Instant::ZERO, &key, || flow)));
        }
        Ok(self.compare(text(self.record, "hop")?, &got, "hop"))
    }

    /// Every tuple's choice against the recorded string.
    fn choices(&mut self, fib: &Fib, field: &str) -> StepResult {
        let name = text(self.record, "tuples")?;
        let tuples = self.sets.get(name).ok_or_else(|| format!("no tuple set {name:?}"))?;
        let iif = (self.record["path"] != "local").then_some(INPUT_PORT);
        let ask = |key: &RouteKey| digit(fib.lookup(&RouteKey { iif, ..*key }));
        let got: String = tuples.iter().map(ask).collect();
        Ok(self.compare(text(self.record, field)?, &got, field))
    }

    fn layout(&mut self, fib: &Fib, now: Instant, recorded: &Value, field: &str) -> StepResult {
        let recorded = recorded.as_array().ok_or_else(|| format!("no {field}"))?;
        let buckets = fib.buckets(now, GROUP_ID).ok_or("the group is not resilient")?;
        let got: Vec<u32> = buckets.map(|bucket| bucket.id).collect();
        self.compared += recorded.len() as u64;
        let differs = |at: &usize| {
            recorded.get(*at).and_then(Value::as_u64) != got.get(*at).map(|&id| u64::from(id))
        };
        Ok((0..recorded.len().max(got.len())).find(differs).map(|at| Divergence {
            time: None,
            index: Some(at as u64),
            field: field.to_owned(),
            expected: recorded.get(at).map_or("nothing".to_owned(), Value::to_string),
            got: got.get(at).map_or("nothing".to_owned(), u32::to_string),
        }))
    }

    fn compare(&mut self, expected: &str, got: &str, field: &str) -> Option<Divergence> {
        self.compared += expected.len() as u64;
        if expected == got {
            return None;
        }
        let (mut expected, mut got) = (expected.chars(), got.chars());
        for index in 0.. {
            let (expected, got) = (expected.next(), got.next());
            if expected != got {
                let show = |digit: Option<char>| digit.map_or("nothing".into(), String::from);
                return Some(Divergence {
                    time: None,
                    index: Some(index),
                    field: field.to_owned(),
                    expected: show(expected),
                    got: show(got),
                });
            }
        }
        None
    }

    /// A route of several next hops, as `ip route add P nexthop … nexthop …` makes it.
    fn legacy_fib(&self) -> Result<Fib, String> {
        let mut fib = self.bare_fib()?;
        let hops = self.hops()?;
        let v6 = hops.iter().any(|hop| hop.hop.gateway.is_some_and(|gw| gw.is_ipv6()));
        let prefix = if v6 { Prefix::DEFAULT_V6 } else { Prefix::DEFAULT_V4 };
        fib.add(Route::new(prefix, hops)).map_err(|error| error.to_string())?;
        Ok(fib)
    }

    /// A route to a group whose members are next hops over the interfaces of their numbers.
    fn group_fib(&self, group: ObjectConfig) -> Result<Fib, String> {
        let mut fib = self.bare_fib()?;
        let mut add = |id: u32, config: ObjectConfig| {
            fib.add_object(Instant::ZERO, id, config).map_err(|error| error.to_string())
        };
        for id in 1..=15 {
            add(id, ObjectConfig::Hop(NextHop::new(id as u16, None)))?;
        }
        add(GROUP_ID, group)?;
        fib.add(Route::object(Prefix::DEFAULT_V4, GROUP_ID)).map_err(|error| error.to_string())?;
        Ok(fib)
    }

    fn bare_fib(&self) -> Result<Fib, String> {
        let mut fib = Fib::new();
        let optional = |field: &str| self.record[field].as_u64().map(|number| number as u32);
        let policy = Policy::from_number(optional("policy").unwrap_or(0)).ok_or("bad policy")?;
        let fields = match optional("fields") {
            Some(fields) => HashFields::from_number(fields).map_err(|error| error.to_string())?,
            None => HashFields::default(),
        };
        let key = HashKey::from_seed(optional("seed").unwrap_or(1));
        fib.set_settings(Settings { key, ..Settings::default().both(Hashed { policy, fields }) });
        for port in 1..=15u8 {
            let own = IpAddr::from([10, 0, port, 1]);
            fib.add(Route::local(own, port.into())).map_err(|error| error.to_string())?;
        }
        let own = |port: u8| Own { port: port.into(), addr: [10, 0, port, 1].into(), len: 24 };
        fib.set_addresses((1..=15).map(own));
        Ok(fib)
    }

    fn hops(&self) -> Result<Vec<NextHop>, String> {
        let hops = self.record["hops"].as_array().ok_or("no hops")?;
        hops.iter()
            .map(|hop| {
                let gateway = text(hop, "via")?;
                let gateway =
                    gateway.parse().map_err(|_| format!("{gateway} is not an address"))?;
                let (port, weight) = (number(hop, "index")? as u16, number(hop, "weight")? as u16);
                let hop = Hop { port, gateway: Some(gateway) };
                Ok(NextHop { hop, weight, onlink: false })
            })
            .collect()
    }

    /// `1,3/2` is member 1 with weight 3 and member 2 with weight 1.
    fn members(&self, field: &str) -> Result<Vec<Member>, String> {
        let group = text(self.record, field)?;
        let member = |part: &str| {
            let (id, weight) = part.split_once(',').unwrap_or((part, "1"));
            Some(Member { id: id.parse().ok()?, weight: weight.parse().ok()? })
        };
        let members: Option<Vec<Member>> = group.split('/').map(member).collect();
        members.ok_or_else(|| format!("bad group {group:?}"))
    }

    fn resilient_config(&self) -> Result<ResilientConfig, String> {
        let secs = |field: &str| Duration::from_secs(self.record[field].as_u64().unwrap_or(0));
        Ok(ResilientConfig {
            buckets: number(self.record, "buckets")? as u16,
            idle_timer: secs("idle_timer"),
            unbalanced_timer: secs("unbalanced_timer"),
        })
    }
}

/// The recorded digit of a decision.
fn digit(decision: Decision) -> char {
    let Decision::Forward(hop) = decision else { return '0' };
    char::from_digit(u32::from(hop.port), 16).unwrap_or('?')
}

fn text<'a>(value: &'a Value, field: &str) -> Result<&'a str, String> {
    value[field].as_str().ok_or_else(|| format!("{field} is missing"))
}

fn number(value: &Value, field: &str) -> Result<u64, String> {
    value[field].as_u64().ok_or_else(|| format!("{field} is missing"))
}

fn unhex(text: &str) -> Result<Vec<u8>, String> {
    let digits: Option<Vec<u32>> = text.chars().map(|digit| digit.to_digit(16)).collect();
    let digits = digits.filter(|digits| digits.len() % 2 == 0);
    let digits = digits.ok_or_else(|| "a packet is not hexadecimal".to_owned())?;
    Ok(digits.chunks(2).map(|pair| (pair[0] << 4 | pair[1]) as u8).collect())
}

#[cfg(test)]
mod tests;
