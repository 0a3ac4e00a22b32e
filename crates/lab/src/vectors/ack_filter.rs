//! Replaying what the kernel's ACK filter was seen to do (`v2_ackfilter.jsonl.gz`).
//!
//! Two large packets block a slow link while the packets of a case are queued one nanosecond
//! apart; which of them leave, in which order, and the counters right after the last was queued
//! and at the end, must be the kernel's.

use super::cake::{EPOCH, MTU, frame, instance, unreadable};
use super::json::{Field, first_difference};
use super::lines::Error;
use super::report::{Divergence, Scenario, Verdict};
use datapath::packet::Packet;
use datapath::qdisc::cake::Cake;
use datapath::qdisc::{Cx, Qdisc};
use datapath::units::Instant;
use serde_json::{Value, json};

/// Replays all cases, each in each mode.
///
/// # Errors
/// When a line is not of this format.
pub fn replay(lines: &[Value]) -> Result<Vec<Scenario>, Error> {
    let mut scenarios = Vec::new();
    for (number, line) in lines.iter().enumerate() {
        let at_line = |problem: String| Error::Format { line: number + 1, problem };
        let modes = line["modes"].as_object().ok_or_else(|| at_line("no modes".to_owned()))?;
        for (mode, expected) in modes {
            let case = replay_case(line, mode, expected);
            scenarios.push(case.unwrap_or_else(|problem| unreadable(line, problem)));
        }
    }
    Ok(scenarios)
}

fn replay_case(line: &Value, mode: &str, expected: &Value) -> Result<Scenario, String> {
    let name = format!("{} {mode}", line["name"].as_str().ok_or("no name")?);
    let options = line["opt"].as_str().unwrap_or("");
    let frames = line["frames"].as_array().ok_or("no frames")?;
    let packets: Vec<Packet> = frames
        .iter()
        .map(|fields| {
            let hex = fields[0].as_str().ok_or("a frame without bytes")?;
            frame(hex, fields[1].as_u64().ok_or("a frame without length")? as usize)
        })
        .collect::<Result<_, String>>()?;
    let mut best: Option<(u64, Divergence)> = None;
    for seed in 0..ATTEMPTS {
        let words = format!("bandwidth 64kbit {options} {mode}");
        let got = run(instance(&words, "", MTU, seed, true)?, &packets)?;
        let mut compared = 0;
        match first_difference("", expected, &got, &|_| false, &mut compared) {
            None => {
                return Ok(Scenario { name, verdict: Verdict::Passed, compared, figures: None });
            }
            Some(Field { path, expected, got }) => {
                let field = path.trim_start_matches('.').to_owned();
                let divergence = Divergence { time: None, index: None, field, expected, got };
                best.get_or_insert((compared, divergence));
            }
        }
    }
    let (compared, divergence) = best.ok_or("no attempt")?;
    Ok(Scenario { name, verdict: Verdict::Failed(divergence), compared, figures: None })
}

/// Drives one case as it was recorded.
fn run(mut cake: Cake, packets: &[Packet]) -> Result<Value, String> {
    let mut kept = Vec::new();
    let blocker = frame(BLOCKER, BLOCKER_LEN)?;
    for _ in 0..2 {
        enqueue(&mut cake, 0, &blocker, packets.len(), &mut kept);
    }
    for (index, packet) in packets.iter().enumerate() {
        enqueue(&mut cake, MILLISECOND + index as u64, packet, index, &mut kept);
    }
    let (backlog, tin, stats) = (cake.backlog(), cake.cake_stats().tins, cake.stats());
    let sum =
        |field: fn(&datapath::qdisc::cake::TinStats) -> u64| tin.iter().map(field).sum::<u64>();
    let queued = json!({
        "qlen": backlog.packets,
        "backlog": backlog.bytes,
        "ack_drops": sum(|tin| tin.ack_drops.into()),
        "dropped": stats.drops,
        "tin_packets": sum(|tin| tin.sent_packets.into()),
        "tin_bytes": sum(|tin| tin.sent_bytes),
    });
    while let Some(wake) = cake.wake_at().filter(|_| cake.backlog().packets > 0) {
        drain(&mut cake, wake.as_nanos() - EPOCH, &mut kept);
    }
    kept.retain(|&index| index != packets.len());
    let (tin, stats) = (cake.cake_stats().tins, cake.stats());
    let sum =
        |field: fn(&datapath::qdisc::cake::TinStats) -> u64| tin.iter().map(field).sum::<u64>();
    let end = json!({
        "ack_drops": sum(|tin| tin.ack_drops.into()),
        "tin_drops": sum(|tin| tin.drops.into()),
        "dropped": stats.drops,
        "tin_packets": sum(|tin| tin.sent_packets.into()),
        "tin_bytes": sum(|tin| tin.sent_bytes),
        "sent_packets": stats.packets,
        "sent_bytes": stats.bytes,
    });
    Ok(json!({ "kept": kept, "queued": queued, "end": end }))
}

fn enqueue(cake: &mut Cake, time: u64, packet: &Packet, index: usize, kept: &mut Vec<usize>) {
    let mut dropped = Vec::new();
    let mut cx = Cx { now: Instant::from_nanos(EPOCH + time), dropped: &mut dropped };
    let mut packet = packet.clone();
    packet.meta.owner = index as u32;
    cake.enqueue(packet, &mut cx);
    drain(cake, time, kept);
}

fn drain(cake: &mut Cake, time: u64, kept: &mut Vec<usize>) {
    let mut dropped = Vec::new();
    let mut cx = Cx { now: Instant::from_nanos(EPOCH + time), dropped: &mut dropped };
    while let Some(packet) = cake.dequeue(&mut cx) {
        kept.push(packet.meta.owner as usize);
    }
}

/// A UDP datagram from 10.9.9.9, of the length with which the recordings blocked the link.
const BLOCKER: &str = "020000000002020000000001080045000594000000004011\
                       00000a0909090a0000020009000905800000";
const BLOCKER_LEN: usize = 1442;
const MILLISECOND: u64 = 1_000_000;
/// Hash keys to try: two connections of a case may collide with one of them.
const ATTEMPTS: u64 = 3;
