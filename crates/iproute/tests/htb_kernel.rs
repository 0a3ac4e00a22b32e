//! What htb of Linux 6.18 did with the packets of a burst, and what ours does with them.

use datapath::packet::{Body, Ipv4, LinkHeader, MacAddr, Meta, Network, Packet, Transport, Udp};
use datapath::qdisc::fifo::PfifoFast;
use datapath::qdisc::htb::ClassStats;
use datapath::qdisc::{AnyQdisc, Cx, Handle, Qdisc as _, Sched};
use datapath::rng::Rng;
use datapath::units::Instant;
use iproute::tc::{
    Device, ShowFlags, parse_class, parse_qdisc, show_classes_with, show_json_with, show_text_with,
};
use std::collections::BTreeMap;

const RECORDED: &str = include_str!("data/htb_6_18.txt");

/// The rest of all lines that begin with `word`, in words.
fn lines(word: &'static str) -> impl Iterator<Item = Vec<&'static str>> {
    let lines = RECORDED.lines().map(|line| line.split(' ').collect::<Vec<_>>());
    lines.filter(move |words| words[0] == word)
}

fn tree() -> Sched {
    let mut root = Sched::new(Handle::NONE, PfifoFast::new(1000));
    let cx = &mut Cx { now: Instant::ZERO, dropped: &mut Vec::new() };
    for command in RECORDED.lines().filter(|line| line.starts_with("tc ")) {
        if command.starts_with("tc class") {
            let parsed = parse_class(command).expect(command);
            parsed.apply(&mut root, cx).expect(command);
        } else {
            let parsed = parse_qdisc(command).expect(command);
            parsed.apply(&mut root, Device::default(), Rng::stream(1, 1), cx).expect(command);
        }
    }
    root
}

fn packet(number: u16, class: u32, len: u32) -> Packet {
    let mac = |last| MacAddr([2, 0, 0, 0, 0, last]);
    let address = |last| core::net::Ipv4Addr::new(10, 9, 0, last);
    let mut packet = Packet {
        link: LinkHeader::Ethernet { dst: mac(2), src: mac(1) },
        network: Network::Ipv4(Ipv4::new(address(1), address(2), 17)),
        transport: Transport::Udp(Udp { src_port: number, dst_port: 9 }),
        body: Body::of_len(len - 42),
        meta: Meta::default(),
        ..Packet::default()
    };
    packet.meta.priority = if class < 0x1_0000 { 0x1_0000 | class } else { class };
    packet.finish()
}

fn number(text: &str) -> u32 {
    let hex = text.strip_prefix("0x").map(|digits| u32::from_str_radix(digits, 16));
    hex.unwrap_or_else(|| text.parse()).expect("a number")
}

/// Packets that leave until nothing more can, with the time in us.
fn drain(root: &mut Sched, at: Instant, dropped: &mut Vec<u16>, left: &mut Vec<(u16, u64)>) {
    let mut gone = Vec::new();
    let mut cx = Cx { now: at, dropped: &mut gone };
    let port = |packet: &Packet| packet.transport.ports().expect("a datagram").0;
    while let Some(packet) = root.dequeue(&mut cx) {
        left.push((port(&packet), at.as_micros()));
    }
    dropped.extend(gone.iter().map(|(_, packet)| port(packet)));
}

/// All counters agree. The kernel's timer is some 50 us late, so that once two classes that are due at nearly the same
/// time come in the other order.
#[test]
fn a_burst_leaves_as_from_linux() {
    let mut root = tree();
    let (mut left, mut dropped) = (Vec::new(), Vec::new());
    let mut at = 0;
    for (nth, words) in (0..).zip(lines("packet")) {
        at = 1_000_000_000 + u64::from(nth) * 6_000;
        let now = Instant::from_nanos(at);
        let mut gone = Vec::new();
        let arrived = packet(nth, number(words[1]), number(words[2]));
        root.enqueue(arrived, &mut Cx { now, dropped: &mut gone });
        dropped.extend(gone.iter().map(|_| nth));
        drain(&mut root, now, &mut dropped, &mut left);
    }
    while let Some(wake) = root.wake_at().filter(|_| root.backlog().packets > 0) {
        assert!(wake.as_nanos() > at);
        at = wake.as_nanos();
        drain(&mut root, wake, &mut dropped, &mut left);
    }
    let ours: BTreeMap<u16, u64> = left.iter().map(|(nth, at)| (*nth, at - 1_000_000)).collect();
    let theirs: Vec<(u16, u64)> =
        lines("left").map(|words| (number(words[1]) as u16, number(words[2]).into())).collect();
    assert_eq!(ours.len(), theirs.len());
    let one = left.iter().map(|(nth, _)| *nth);
    let same = one.zip(&theirs).take_while(|(one, (other, _))| one == other).count();
    assert!(same >= 45, "{same} in the same order");
    // The first packet left there 203 us after the clock was read.
    for (nth, at) in theirs {
        let late = (at - 203).abs_diff(ours[&nth]);
        assert!(late < 1_000, "packet {nth} left after {at} us, here after {}", ours[&nth]);
    }
    let AnyQdisc::Htb(htb) = root.qdisc() else { unreachable!() };
    for words in lines("class") {
        let id = htb.classes().find(|class| class.to_string() == words[1]).expect(words[1]);
        let ClassStats { bytes, packets, drops, overlimits, lends, borrows } =
            htb.state(id).expect(words[1]).stats;
        let ours = format!(
            "class {id} bytes {bytes} packets {packets} dropped {drops} overlimits {overlimits} \
             lended {lends} borrowed {borrows}"
        );
        assert_eq!(ours, words.join(" "));
    }
    assert_eq!((htb.direct_packets(), root.stats().overlimits), (6, 67));
}

/// As Linux 6.18 and tc 6.1 answered, one after the other on the same device.
#[test]
fn commands_are_answered_as_by_linux() {
    let mut root = Sched::new(Handle::NONE, PfifoFast::new(1000));
    let cx = &mut Cx { now: Instant::ZERO, dropped: &mut Vec::new() };
    for (command, answer) in [
        ("qdisc add dev d0 root handle 1: htb", ""),
        ("qdisc add dev d0 root handle 1: htb default 30", "Exclusivity flag on, cannot modify."),
        ("class add dev d0 parent 1: classid 1:1 htb rate 10mbit ceil 10mbit", ""),
        ("class add dev d0 parent 1:1 classid 1:10 htb rate 5mbit ceil 10mbit prio 1", ""),
        (
            "class add dev d0 parent 1:1 classid 1:20 htb rate 3mbit ceil 10mbit burst 15k prio 9",
            "",
        ),
        ("class add dev d0 parent 1:1 classid 1:30 htb rate 100kbit ceil 10gbit", ""),
        (
            "class add dev d0 parent 1:1 classid 1:40 htb rate 20gbit overhead 14 mpu 64 linklayer atm mtu 3000",
            "sch_htb: quantum of class 10040 is big. Consider r2q change.",
        ),
        ("class add dev d0 parent 1:99 classid 1:50 htb rate 1mbit quantum 1514", ""),
        ("class add dev d0 parent 1:1 classid 1:0 htb rate 1mbit", ""),
        ("class add dev d0 parent 1:1 classid 1: htb rate 1mbit", "File exists"),
        ("class add dev d0 parent 1:1 htb rate 1mbit", "Invalid argument"),
        ("class add dev d0 parent 1:1 classid 2:60 htb rate 1mbit", "Invalid argument"),
        ("class add dev d0 parent 2: classid 2:60 htb rate 1mbit", "No such file or directory"),
        ("class add dev d0 parent 1:1 classid 1:10 htb rate 1mbit", "File exists"),
        ("class change dev d0 parent 1:1 classid 1:77 htb rate 1mbit", "No such file or directory"),
        ("class change dev d0 classid 1:10 htb rate 6mbit ceil 8mbit", ""),
        ("class change dev d0 parent 1:50 classid 1:10 htb rate 6mbit ceil 8mbit", ""),
        ("class replace dev d0 parent 1:1 classid 1:11 htb rate 6mbit ceil 8mbit", ""),
        ("class add dev d0 root classid 1:12 htb rate 6mbit ceil 8mbit", ""),
        ("class del dev d0 classid 1:1", "HTB class in use."),
        ("class del dev d0 classid 1:99", "No such file or directory"),
        ("class del dev d0 classid 1:11", ""),
        ("qdisc add dev d0 parent 1:10 handle 10: pfifo limit 5", ""),
        ("qdisc add dev d0 parent 1:1 handle 11: pfifo limit 5", "Invalid argument"),
        ("qdisc add dev d0 parent 1:55 handle 11: pfifo limit 5", "Specified class not found."),
        ("qdisc del dev d0 parent 1:1", "Cannot find specified qdisc on specified device."),
        ("qdisc del dev d0 parent 1:20", "Cannot delete qdisc with handle of zero."),
        (
            "qdisc change dev d0 root handle 1: htb default 20",
            "Change operation not supported by specified qdisc.",
        ),
        (
            "qdisc replace dev d0 root handle 1: htb default 20",
            "Change operation not supported by specified qdisc.",
        ),
        ("class del dev d0 classid 1:20", ""),
    ] {
        let answered = if command.starts_with("class") {
            let done = parse_class(command).expect(command).apply(&mut root, cx);
            done.map_or_else(|refused| refused.to_string(), Option::unwrap_or_default)
        } else {
            let parsed = parse_qdisc(command).expect(command);
            let done = parsed.apply(&mut root, Device::default(), Rng::stream(1, 1), cx);
            done.map_or_else(|refused| refused.to_string(), |_| String::new())
        };
        assert_eq!(answered, answer, "{command}");
    }
    let all = ShowFlags { statistics: true, details: true };
    let classes = show_classes_with(&root, Instant::ZERO, all);
    assert_eq!(classes, include_str!("data/htb_classes.txt"));
    let qdiscs = show_text_with(&root, None, Instant::ZERO, all);
    let line =
        "r2q 10 default 0 direct_packets_stat 0 ver 3.17 direct_qlen 1000\n Sent 0 bytes 0 pkt";
    assert!(qdiscs.contains(line), "{qdiscs}");
    let json = show_json_with(&root, None, Instant::ZERO, all);
    let options =
        r#"{"r2q":10,"default":"0","direct_packets_stat":0,"ver":"3.17","direct_qlen":1000}"#;
    assert_eq!(json[0]["options"].to_string(), options);
}

#[test]
fn words_are_read_as_by_tc() {
    for (command, error) in [
        ("class add dev d classid 1:1 htb rate 1mbit rate 2mbit", "htb: double \"rate\" spec"),
        ("class add dev d classid 1:1 htb ceil 1mbit", "htb: the \"rate\" parameter is mandatory"),
        ("class add dev d classid 1:1 htb rate 0", "htb: the \"rate\" parameter is mandatory"),
        ("class add dev d classid 1:1 htb rate 1mbit foo", "htb: unknown parameter \"foo\""),
        ("class add dev d classid 1:1 htb rate 1mbit prio x", "illegal value for \"prio\": \"x\""),
        ("class add dev d classid 1:1 prio", "class: unknown parameter \"prio\""),
        ("class add classid 1:1 htb rate 1mbit", "class: the \"dev\" parameter is mandatory"),
        ("class add dev d classid 1:1", "class: the \"htb\" parameter is mandatory"),
        ("class add dev d dev e htb rate 1mbit", "duplicate \"dev\": \"dev\" is the second value"),
        ("qdisc add dev d root htb offload", "htb: there is no hardware for \"offload\""),
        ("qdisc add dev d root htb r2q -1", "illegal value for \"r2q\": \"-1\""),
        ("qdisc add dev d root htb default zz", "illegal value for \"default\": \"zz\""),
    ] {
        let refused = if command.starts_with("class") {
            parse_class(command).map(drop)
        } else {
            parse_qdisc(command).map(drop)
        };
        assert_eq!(refused.expect_err(command).message, error);
    }
    for right in [
        "tc class delete dev d classid 1:1",
        "class del dev d parent 1:1 classid 1:2 htb",
        "class add dev d classid 1:1 htb over 4 link ethernet quan 8 bu 5k cbu 6k rate 1mbit pri 3",
        "class add dev d classid 1:1 htb buffer 5k/8 cmaxburst 6k mpu 64 mtu 1500 rate 1mbit ceil 2mbit",
    ] {
        parse_class(right).expect(right);
    }
    assert!(parse_qdisc("qdisc add dev d root htb def 0x1f r 3 direct 9 debug 3").is_ok());
}
