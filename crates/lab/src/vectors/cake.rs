//! Replaying what the kernel's CAKE was seen to do (`v1_*.jsonl.gz`).
//!
//! A scenario gives packets with their times of arrival; the model gets the same packets at the
//! same nanosecond, and what leaves it, when, how marked and how long, must be what the kernel
//! sent. Then the statistics of every snapshot must agree, field by field.

mod busy;
mod compare;

use super::lines::Error;
use super::report::{Divergence, Scenario, Verdict};
use busy::{LateTimer, dumps_of_classes, late_by_failed_call};
use compare::{KnownRandomness, compare};
use datapath::packet::{Frame, Packet};
use datapath::qdisc::cake::{Cake, Config, Draws, FlowStats, Roots};
use datapath::qdisc::filter::Filter;
use datapath::qdisc::{Cx, Handle, Qdisc};
use datapath::reason::Reason;
use datapath::rng::Rng;
use datapath::units::Instant;
use iproute::tc::cake::{flow_text, parse, qdisc_json};
use iproute::tc::{FilterAction, FilterCommand, parse_filter};
use iproute::words::Words;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;

/// Replays all scenarios; packets that a file refers to are looked for beside it.
///
/// # Errors
/// When a line is not of this format, or the file with the packets cannot be read.
pub fn replay(path: &Path, lines: &[Value]) -> Result<Vec<Scenario>, Error> {
    let mut referred: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    let mut scenarios = Vec::new();
    for (number, line) in lines.iter().enumerate() {
        let at_line = |problem: String| Error::Format { line: number + 1, problem };
        let packets = match line["packets_ref"].as_str() {
            None => &line["packets"],
            Some(name) => {
                if !referred.contains_key(name) {
                    let beside = path.with_file_name(format!("{name}.jsonl.gz"));
                    referred.insert(name.to_owned(), super::lines::read_lines(&beside)?);
                }
                let same_name = |other: &&Value| other["name"] == line["name"];
                let found = referred[name].iter().find(same_name);
                &found.ok_or_else(|| at_line(format!("{} is not in {name}", line["name"])))?["packets"]
            }
        };
        scenarios.push(replay_scenario(line, packets).unwrap_or_else(|p| unreadable(line, p)));
    }
    Ok(scenarios)
}

/// A scenario that could not be replayed is one that failed; the others of the file go on.
pub(super) fn unreadable(line: &Value, problem: String) -> Scenario {
    let divergence = Divergence {
        time: None,
        index: None,
        field: "scenario".to_owned(),
        expected: "one that can be replayed".to_owned(),
        got: problem,
    };
    let name = line["name"].as_str().unwrap_or("without a name").to_owned();
    Scenario { name, verdict: Verdict::Failed(divergence), compared: 0, figures: None }
}

/// One input.
struct Input {
    time: u64,
    packet: Packet,
}

/// Something that is done at a time.
enum Action<'a> {
    Enqueue(usize),
    Change(&'a str),
    Snapshot,
    Classes,
}

/// What the model did.
#[derive(Default)]
struct Run {
    out: Vec<Departure>,
    snapshots: Vec<Snapshot>,
    /// The memory limit was hit.
    overflowed: bool,
}

/// What the model would have shown.
struct Snapshot {
    time: u64,
    qdisc: Value,
    /// The classes, which are dumped after the qdisc, at several times when that may have been.
    classes: Vec<Value>,
}

/// A packet that left.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Departure {
    time: u64,
    index: u64,
    tos: u8,
    len: u64,
}

fn replay_scenario(line: &Value, packets: &Value) -> Result<Scenario, String> {
    let name = text(line, "name")?.to_owned();
    let fixed = !line["packets_ref"].is_null() || line["draws"] == "fixed";
    let inputs = inputs(packets, &line["enq"])?;
    let stable = line["stable"].as_bool().unwrap_or(false);
    let variants = line["variants"].as_array().ok_or("no variants")?;
    let keyed = hash_key(line)?.is_some();
    let mut attempts = match (keyed && fixed, stable) {
        (true, _) => 1,
        (_, true) => ATTEMPTS_STABLE,
        (_, false) => ATTEMPTS_UNSTABLE,
    };
    let mut best: Option<(u64, Divergence)> = None;
    let mut seed = 0;
    while seed < attempts {
        for variant in variants {
            let mut compared = 0;
            let (found, overflowed) = attempt(line, &inputs, variant, seed, fixed, &mut compared)?;
            if overflowed && fixed && !keyed {
                attempts = ATTEMPTS_OVERFLOWED;
            }
            match found {
                None => {
                    return Ok(Scenario {
                        name,
                        verdict: Verdict::Passed,
                        compared,
                        figures: None,
                    });
                }
                Some(divergence) => {
                    if best.as_ref().is_none_or(|(reached, _)| compared > *reached) {
                        best = Some((compared, divergence));
                    }
                }
            }
        }
        seed += 1;
    }
    let (compared, divergence) = best.ok_or("no variants")?;
    let verdict = if stable || fixed {
        Verdict::Failed(divergence)
    } else {
        let seen = variants.len();
        Verdict::Skipped(format!(
            "random draws decide: {seen} outcomes were seen, and none of {attempts} draws gave one"
        ))
    };
    Ok(Scenario { name, verdict, compared, figures: None })
}

/// Replays once: the first difference, and whether the memory limit was hit. Timers that the recorded machine served late are served as
/// late again.
fn attempt(
    line: &Value,
    inputs: &[Input],
    variant: &Value,
    seed: u64,
    fixed: bool,
    compared: &mut u64,
) -> Result<(Option<Divergence>, bool), String> {
    let mut late = Vec::new();
    loop {
        let run = run(line, inputs, variant, (seed, fixed), &late)?;
        *compared = 0;
        let known = KnownRandomness { fixed, keyed: hash_key(line)?.is_some() };
        let found = compare(inputs, &run, variant, known, compared)?;
        match found.as_ref().and_then(|divergence| late_by_failed_call(line, variant, divergence)) {
            Some(one) if !late.contains(&one) => late.push(one),
            _ => return Ok((found, run.overflowed)),
        }
    }
}

/// The packets with the times at which the kernel queued them.
fn inputs(packets: &Value, delays: &Value) -> Result<Vec<Input>, String> {
    let packets = packets.as_array().ok_or("no packets")?;
    let input = |(index, fields): (usize, &Value)| {
        let number = |at: usize| fields[at].as_u64().unwrap_or(0);
        let delay = delays.get(index).and_then(Value::as_u64).unwrap_or(0);
        let hex = fields[1].as_str().ok_or("a packet without bytes")?;
        let mut packet = frame(hex, number(2) as usize)?;
        packet.meta.owner = index as u32;
        packet.meta.priority = number(3) as u32;
        packet.meta.mark = number(4) as u32;
        if number(5) != 0 {
            packet.meta.gso_size = number(5) as u16;
            packet.meta.gso_segs = packet.body.len.div_ceil(number(5) as u32).max(1) as u16;
        }
        Ok(Input { time: number(0) + delay, packet })
    };
    packets.iter().enumerate().map(input).collect()
}

/// The frame of `len` bytes that begins with `hex` and goes on with zeroes.
pub(super) fn frame(hex: &str, len: usize) -> Result<Packet, String> {
    let mut bytes = vec![0; len.max(hex.len() / 2)];
    for (byte, digits) in bytes.iter_mut().zip(hex.as_bytes().chunks(2)) {
        let digits = std::str::from_utf8(digits).map_err(|error| error.to_string())?;
        *byte = u8::from_str_radix(digits, 16).map_err(|error| error.to_string())?;
    }
    let mut packet =
        Packet::parse_ethernet(Frame::new(&bytes)).map_err(|error| error.to_string())?;
    if let Some(extra) = &mut packet.extra {
        // A packet socket sent what was recorded.
        extra.tag_sent = true;
    }
    Ok(packet)
}

/// The key of the recorded kernel's flow hash, if the file tells it: two hexadecimal numbers.
fn hash_key(line: &Value) -> Result<Option<(u64, u64)>, String> {
    let Some(words) = line["hash_key"].as_array() else { return Ok(None) };
    let word = |at: usize| {
        let digits = words.get(at).and_then(Value::as_str).and_then(|text| text.strip_prefix("0x"));
        let number = digits.and_then(|digits| u64::from_str_radix(digits, 16).ok());
        number.ok_or("a hash key is two hexadecimal numbers")
    };
    Ok(Some((word(0)?, word(1)?)))
}

/// An instance as the scenario describes it.
pub(super) fn instance(
    words: &str,
    handle: &str,
    mtu: u32,
    seed: u64,
    fixed: bool,
) -> Result<Cake, String> {
    let patch = parse(&mut Words::new(words)).map_err(|problem| problem.to_string())?;
    // All of these recordings are Linux 6.1's.
    let kernel = Config { roots: Roots::Newton, autorate_every_250_ms: false, ..Config::default() };
    let config = kernel.patched(&patch);
    let cake = Cake::new(config, mtu, Rng::stream(seed, 0));
    let major = handle.trim_start_matches("handle").trim().trim_end_matches(':');
    let major = if major.is_empty() { 0x8001 } else { hex_number(major)? };
    let cake = cake.with_handle(Handle::new(major, 0));
    Ok(if fixed {
        cake.with_draws(Draws::Fixed { dither: 0x8000, blue: 0x0180_0000 })
    } else {
        cake
    })
}

/// `psched_mtu` of the recorded device, which had an MTU of 1500 unless its description says so.
fn mtu(line: &Value) -> u32 {
    let mut words = line["dev"].as_str().unwrap_or("").split_whitespace();
    words.find(|word| *word == "mtu");
    words.next().and_then(|mtu| mtu.parse::<u32>().ok()).map_or(MTU, |mtu| mtu + 14)
}

fn hex_number(text: &str) -> Result<u16, String> {
    u16::from_str_radix(text, 16).map_err(|error| format!("handle {text}: {error}"))
}

/// Drives an instance through the scenario.
fn run(
    line: &Value,
    inputs: &[Input],
    variant: &Value,
    (seed, fixed): (u64, bool),
    late: &[LateTimer],
) -> Result<Run, String> {
    let handle = line["handle"].as_str().unwrap_or("");
    let mut cake = instance(text(line, "cake")?, handle, mtu(line), seed, fixed)?;
    if let Some(key) = hash_key(line)? {
        cake = cake.with_hash_key(key);
    }
    let mut player = Player::new(cake, inputs, variant["t0"].as_u64().unwrap_or(EPOCH));
    player.late = late;
    for (time, action) in actions(line, inputs, variant)? {
        player.run_timers(time);
        player.act(time, &action)?;
    }
    Ok(player.run)
}

/// What is done, in the order of time.
fn actions<'a>(
    line: &Value,
    inputs: &[Input],
    variant: &'a Value,
) -> Result<Vec<(u64, Action<'a>)>, String> {
    let mut actions = Vec::new();
    for (index, input) in inputs.iter().enumerate() {
        actions.push((input.time, Action::Enqueue(index)));
    }
    for command in variant["cmds"].as_array().into_iter().flatten() {
        let time = command[0].as_u64().ok_or("a command without time")?;
        actions.push((time, Action::Change(command[1].as_str().ok_or("an empty command")?)));
    }
    for snapshot in variant["snaps"].as_array().into_iter().flatten() {
        let time = snapshot["t"].as_u64().ok_or("a snapshot without time")?;
        actions.push((time, Action::Snapshot));
        let classes = dumps_of_classes(line).map(|late| (time + late, Action::Classes));
        actions.extend(classes);
    }
    actions.sort_by_key(|(time, _)| *time);
    Ok(actions)
}

/// Carries out `tc qdisc change` or `tc filter add`.
fn carry_out(command: &str, cake: &mut Cake, cx: &mut Cx<'_>) -> Result<(), String> {
    if command.split_whitespace().any(|word| word == "filter") {
        let filter = parse_filter(command).map_err(|problem| problem.to_string())?;
        let FilterAction::Class(class) = filter.outcome else {
            return Err(format!("{command}: chooses no class"));
        };
        let FilterCommand { preference, matches, .. } = filter;
        cake.add_filter(Filter { preference, matches, class });
        return Ok(());
    }
    let (_, words) = command.split_once(" cake").ok_or("not a cake command")?;
    let patch = parse(&mut Words::new(words)).map_err(|problem| problem.to_string())?;
    cake.change(&patch, cx);
    Ok(())
}

/// An instance on its way through a scenario.
struct Player<'a> {
    cake: Cake,
    inputs: &'a [Input],
    /// How long the machine had been up at the scenario's zero, in ns.
    epoch: u64,
    run: Run,
    /// Timers that are served later than they are due.
    late: &'a [LateTimer],
    /// Segments of super-packets sent.
    super_packets: u64,
}

impl<'a> Player<'a> {
    fn new(cake: Cake, inputs: &'a [Input], epoch: u64) -> Self {
        Self { cake, inputs, epoch, run: Run::default(), late: &[], super_packets: 0 }
    }

    fn instant(&self, time: u64) -> Instant {
        Instant::from_nanos(self.epoch + time)
    }

    fn act(&mut self, time: u64, action: &Action<'_>) -> Result<(), String> {
        let mut dropped = Vec::new();
        let mut cx = Cx { now: self.instant(time), dropped: &mut dropped };
        match action {
            Action::Enqueue(index) => {
                self.cake.enqueue(self.inputs[*index].packet.clone(), &mut cx);
                let pruned = |(reason, _): &(Reason, Packet)| *reason == Reason::QdiscOverlimit;
                self.run.overflowed |= dropped.iter().any(pruned);
                self.drain(time);
            }
            Action::Change(command) => carry_out(command, &mut self.cake, &mut cx)?,
            Action::Snapshot => {
                let qdisc = qdisc(&self.cake, self.super_packets);
                self.run.snapshots.push(Snapshot { time, qdisc, classes: Vec::new() });
            }
            Action::Classes => {
                let classes = classes(&self.cake, self.instant(time));
                let of = self.run.snapshots.last_mut().expect("classes follow their qdisc");
                of.classes.push(classes);
            }
        }
        Ok(())
    }

    /// Lets the watchdog fire as often as it is due before `until` or then.
    fn run_timers(&mut self, until: u64) {
        while let Some(wake) = self.cake.wake_at() {
            let due = wake.as_nanos().saturating_sub(self.epoch);
            let late = self.late.iter().find(|(at, _)| *at == due);
            let time = late.map_or(due, |(_, served)| *served);
            if time > until {
                return;
            }
            self.drain(time);
        }
    }

    /// Takes out all that may leave now.
    fn drain(&mut self, time: u64) {
        let mut dropped = Vec::new();
        let mut cx = Cx { now: self.instant(time), dropped: &mut dropped };
        while let Some(packet) = self.cake.dequeue(&mut cx) {
            if packet.meta.gso_size != 0 {
                self.super_packets += u64::from(packet.segments());
            }
            let index = packet.meta.owner;
            let came = &self.inputs[index as usize].packet;
            let tagged = came.extra.as_ref().is_some_and(|extra| !extra.vlan.is_empty());
            self.run.out.push(Departure {
                time,
                index: u64::from(index),
                tos: packet.network.tos(),
                // The receiving end of the veth pair takes the outermost tag off.
                len: u64::from(packet.len()) - if tagged { 4 } else { 0 },
            });
        }
    }
}

/// The state as `tc -s -j qdisc show` would tell it. The recorded super-packets came from a raw
/// socket, whose segment count the kernel does not trust: it counts 0 packets for each.
fn qdisc(cake: &Cake, super_packets: u64) -> Value {
    let mut qdisc = qdisc_json(cake, Handle::NONE);
    qdisc["packets"] = (cake.stats().packets - super_packets).into();
    qdisc
}

/// The classes as `tc -s class show` would tell of them `now`.
fn classes(cake: &Cake, now: Instant) -> Value {
    let flows = cake.flow_stats(now);
    let class = |flow: &FlowStats| {
        json!({
            "minor": flow.minor,
            "tin": (flow.minor - 1) / 1024,
            "dropped": flow.dropped,
            "backlog": iproute::units::show_size(flow.backlog),
            "qlen": flow.qlen,
            "cobalt": flow_text(flow),
        })
    };
    Value::Array(flows.iter().map(class).collect())
}

fn text<'a>(value: &'a Value, key: &str) -> Result<&'a str, String> {
    value[key].as_str().ok_or_else(|| format!("no {key}"))
}

/// `psched_mtu` of an Ethernet device.
pub(super) const MTU: u32 = 1514;
/// What the zero of recordings that don't tell is on the model's clock: long after everything that
/// has never happened, which the kernel keeps as time zero.
pub(super) const EPOCH: u64 = 1_000_000_000_000;
/// Hash keys to try where the outcome hardly depends on them: a collision is possible.
const ATTEMPTS_STABLE: u64 = 8;
/// Hash keys to try where the memory limit was hit: from which queue is dropped depends on where the
/// queues lie in a heap that the kernel lets fall into disorder.
const ATTEMPTS_OVERFLOWED: u64 = 20_000;
/// Hash keys to try where it was seen to depend on them.
const ATTEMPTS_UNSTABLE: u64 = 32;
