//! Departures recorded from Linux 6.1 in virtual time, to the nanosecond: each trace in
//! `recorded/` is what a bottleneck router's queue took in and gave out.
//!
//! A trace's head gives the tc commands; each line is a frame: ns since the frame before it,
//! length, TOS byte, and what became of it: ns since the departure before it and, if it changed,
//! its TOS byte; or `-` if it was dropped, or still waited when the recording ended at `until`.

use datapath::packet::{Body, Ipv4, Link, MacAddr, Meta, Network, Packet, Transport, Udp};
use datapath::qdisc::police::{Police, PoliceStats};
use datapath::qdisc::{Counted, Cx, Qdisc, Sched};
use datapath::rng::Rng;
use datapath::units::Instant;
use iproute::tc::{Device, parse_police, parse_qdisc, show_json};
use iproute::words::Words;
use std::net::Ipv4Addr;

/// One recorded frame.
struct Frame {
    arrives: u64,
    len: u32,
    tos: u8,
    /// When it left and its TOS byte then.
    left: Option<(u64, u8)>,
}

struct Trace {
    commands: Vec<String>,
    /// When the recording ended.
    until: u64,
    frames: Vec<Frame>,
}

/// The recordings' clock at their time zero.
const START: u64 = 2_000_000_000;

fn read(text: &str) -> Trace {
    let mut trace = Trace { commands: Vec::new(), until: 0, frames: Vec::new() };
    let (mut now, mut departure) = (START, START);
    for line in text.lines() {
        if line.starts_with("tc ") {
            trace.commands.push(line.to_owned());
            continue;
        }
        let words: Vec<&str> = line.split(' ').collect();
        let number = |nth: usize| words[nth].parse::<u64>().expect(line);
        if words[0] == "until" {
            trace.until = START + number(1);
            continue;
        }
        now += number(0);
        let tos = number(2) as u8;
        let left = (words[3] != "-").then(|| {
            departure += number(3);
            (departure, if words.len() > 4 { number(4) as u8 } else { tos })
        });
        trace.frames.push(Frame { arrives: now, len: number(1) as u32, tos, left });
    }
    trace
}

fn packet(frame: &Frame, index: u32) -> Packet {
    let mac = |last| MacAddr([2, 0, 0, 0, 0, last]);
    let mut packet = Packet {
        link: Link::Ethernet { dst: mac(2), src: mac(1) },
        network: Network::Ipv4(Ipv4 {
            tos: frame.tos,
            ttl: 63,
            ..Ipv4::new(Ipv4Addr::new(10, 0, 1, 2), Ipv4Addr::new(10, 0, 3, 2), 17)
        }),
        transport: Transport::Udp(Udp { src_port: 40001, dst_port: 5001 }),
        body: Body::of_len(frame.len - 42),
        meta: Meta::default(),
        ..Packet::default()
    };
    // The mark tells which frame it is when it comes out.
    packet.meta.mark = index;
    packet.finish()
}

fn build(commands: &[String]) -> Counted<Sched> {
    let mut root: Sched = datapath::qdisc::fifo::Fifo::pfifo_default().into();
    for (nth, command) in (0..).zip(commands) {
        let command = parse_qdisc(command).expect("a good command");
        let cx = &mut Cx { now: Instant::ZERO, dropped: &mut Vec::new() };
        command.apply(&mut root, Device::default(), Rng::stream(1, nth), cx).expect("it fits");
    }
    Counted::new(root)
}

/// Replays `trace` through the queue that its commands build: every frame must leave when it
/// left, marked as it was.
fn replay(name: &str, text: &str) -> Counted<Sched> {
    let trace = read(text);
    let mut queue = build(&trace.commands);
    let mut left: Vec<Option<(u64, u8)>> = vec![None; trace.frames.len()];
    let mut dropped = Vec::new();
    let mut drain = |queue: &mut Counted<Sched>, now: u64| {
        let mut cx = Cx { now: Instant::from_nanos(now), dropped: &mut dropped };
        while let Some(packet) = queue.dequeue(&mut cx) {
            left[packet.meta.mark as usize] = Some((now, packet.network.tos()));
        }
    };
    let recorded = trace.frames.iter().enumerate();
    let mut arrivals = recorded.take_while(|(_, frame)| frame.arrives < trace.until).peekable();
    loop {
        let arrival = arrivals.peek().map_or(trace.until, |(_, frame)| frame.arrives);
        match queue.wake_at().map(Instant::as_nanos) {
            Some(wake) if wake < arrival => drain(&mut queue, wake),
            _ => {
                let Some((index, frame)) = arrivals.next() else { break };
                let mut lost = Vec::new();
                let mut cx = Cx { now: Instant::from_nanos(arrival), dropped: &mut lost };
                queue.enqueue(packet(frame, index as u32), &mut cx);
                drain(&mut queue, arrival);
            }
        }
    }
    let mut late = 0;
    for (index, (frame, ours)) in trace.frames.iter().zip(&left).enumerate() {
        late += u32::from(is_late(*ours, frame.left));
        let same = *ours == frame.left || is_late(*ours, frame.left);
        assert!(same, "{name}: frame {index} left at {ours:?}, not {:?}", frame.left);
    }
    assert!(late as usize * 200 < trace.frames.len(), "{name}: {late} frames seen late");
    queue
}

/// The capture saw about one frame in 500 one or two µs late, though nothing behind it moved.
fn is_late(ours: Option<(u64, u8)>, recorded: Option<(u64, u8)>) -> bool {
    let (Some((ours, tos)), Some((recorded, recorded_tos))) = (ours, recorded) else {
        return false;
    };
    tos == recorded_tos && matches!(recorded.wrapping_sub(ours), 1000 | 2000)
}

/// A rate by netem: every frame follows the last by its own time.
#[test]
fn netem_rate() {
    let queue = replay("netem_rate", include_str!("recorded/netem_rate.txt"));
    assert_eq!(queue.stats().overlimits, 0);
}

/// The same with room for 40 packets: the same ones are dropped.
#[test]
fn netem_limit() {
    let queue = replay("netem_limit", include_str!("recorded/netem_limit.txt"));
    assert!(queue.stats().drops > 0);
}

/// tbf around red with a step at 30 kB: the same frames are marked.
#[test]
fn tbf_red() {
    let queue = replay("tbf_red", include_str!("recorded/tbf_red.txt"));
    assert_eq!(queue.stats().drops, 0);
}

/// tbf around codel with ECN.
#[test]
fn tbf_codel() {
    let queue = replay("tbf_codel", include_str!("recorded/tbf_codel.txt"));
    assert_eq!(queue.stats().drops, 0);
}

/// A policer at ingress (`rate 5mbit burst 20000 mtu 2000 conform-exceed drop`): as many packets,
/// bytes and drops as the kernel counted for these arrivals.
#[test]
fn police() {
    let mut words = Words::new("rate 5mbit burst 20000 mtu 2000 conform-exceed drop");
    let mut police = Police::new(parse_police(&mut words).expect("good words"));
    let mut now = START;
    for line in include_str!("recorded/police.txt").lines() {
        let (gap, len) = line.split_once(' ').expect("two numbers");
        now += gap.parse::<u64>().expect("a number");
        let frame = Frame { arrives: now, len: len.parse().expect("a number"), tos: 0, left: None };
        police.admit(Instant::from_nanos(now), &packet(&frame, 0));
    }
    let counted = PoliceStats { bytes: 3_415_612, packets: 2279, drops: 45, overlimits: 45 };
    assert_eq!(police.stats(), counted);
}

/// tbf around codel with `ce_threshold 3ms`: what `tc -s -j qdisc show` printed at the end, every
/// counter included.
#[test]
fn statistics_are_the_kernels() {
    let trace = read(include_str!("recorded/tbf_codel_step.txt"));
    let mut queue = build(&trace.commands);
    let mut arrivals = trace.frames.iter().zip(0..).peekable();
    let mut dropped = Vec::new();
    while queue.stats().packets < 3924 {
        let arrival = arrivals.peek().map_or(u64::MAX, |(frame, _)| frame.arrives);
        let now = queue.wake_at().map_or(arrival, |wake| wake.as_nanos().min(arrival));
        let mut cx = Cx { now: Instant::from_nanos(now), dropped: &mut dropped };
        if now == arrival {
            let (frame, index) = arrivals.next().expect("a frame");
            queue.enqueue(packet(frame, index), &mut cx);
        }
        while queue.dequeue(&mut cx).is_some() {}
    }
    let shown = show_json(queue.inner(), None, Instant::ZERO);
    let recorded = [
        r#"{"kind":"tbf","handle":"1:","root":true,"refcnt":2,"options":{"rate":1250000,"burst":3100,"lat":797520},"bytes":5938048,"packets":3924,"drops":0,"overlimits":6460,"requeues":0,"backlog":4542,"qlen":3}"#,
        r#"{"kind":"codel","handle":"10:","parent":"1:1","options":{"limit":400,"target":10000000,"ce_threshold":2999,"interval":20000000,"ecn":true},"bytes":5939562,"packets":3925,"drops":0,"overlimits":0,"requeues":0,"backlog":4542,"qlen":3,"count":0,"lastcount":0,"ldelay":3012,"drop_next":0,"maxpacket":1514,"ecn_mark":0,"drop_overlimit":0,"ce_mark":732}"#,
    ];
    assert_eq!([shown[0].to_string(), shown[1].to_string()], recorded);
}
