//! Each kind of rule as a list of packets and what becomes of them.

use datapath::packet::seq::Seq;
use datapath::packet::{
    Body, Ecn, Ipv4, LinkHeader, Meta, Network, Packet, Tcp, TcpFlags, TcpOptions, Transport,
};
use datapath::units::{Duration, Instant};
use sim::rules::{Direction, Rule, RuleVerdict, Rules};

fn rules(texts: &[&str]) -> Rules {
    let parsed: Vec<Rule> = texts.iter().map(|text| text.parse().expect("a rule")).collect();
    Rules::new(&parsed, Direction::Forward)
}

/// A segment of flow 40001 -> 5001 whose SYN had sequence number 1000.
fn segment(relative: u32, len: u32, flags: TcpFlags) -> Packet {
    Packet {
        link: LinkHeader::None,
        network: Network::Ipv4(Ipv4 {
            tos: 2,
            ..Ipv4::new([10, 0, 1, 2].into(), [10, 0, 3, 2].into(), 6)
        }),
        transport: Transport::Tcp(Tcp {
            src_port: 40001,
            dst_port: 5001,
            seq: Seq(1000) + relative,
            ack: Seq(0),
            flags,
            window: 0,
            urgent: 0,
            options: TcpOptions::default(),
        }),
        body: Body::of_len(len),
        meta: Meta::default(),
        ..Packet::default()
    }
    .finish()
}

fn syn() -> Packet {
    segment(0, 0, TcpFlags::SYN)
}

fn data(first: u32) -> Packet {
    segment(1 + first, 100, TcpFlags::ACK)
}

fn ack() -> Packet {
    segment(1, 0, TcpFlags::ACK)
}

/// The numbers (from 0) of the packets that the rules drop.
fn dropped(texts: &[&str], packets: Vec<Packet>) -> Vec<usize> {
    let mut rules = rules(texts);
    let verdicts = packets.into_iter().enumerate().filter_map(|(index, mut packet)| {
        let at = Instant::from_nanos(10 * index as u64);
        (rules.judge(at, &mut packet) == RuleVerdict::Drop).then_some(index)
    });
    verdicts.collect()
}

#[test]
fn each_kind_of_rule_picks_its_packets() {
    let flow = || vec![syn(), ack(), data(0), data(100), ack(), data(0), data(200), syn(), data(0)];
    let cases: [(&str, &[usize]); 8] = [
        ("f data 2 drop", &[3]),
        ("f every 2 2 drop", &[3, 6]),
        ("f off 0 2 drop", &[5]),
        ("f off 150 1 drop", &[3]),
        ("f ack 2 drop", &[4]),
        ("f ackevery 1 1 drop", &[1, 4]),
        ("f syn 2 drop", &[7]),
        ("f time 20 40 drop", &[2, 3]),
    ];
    for (rule, expected) in cases {
        assert_eq!(dropped(&[rule], flow()), expected, "{rule}");
    }
    assert!(dropped(&["r data 1 drop"], flow()).is_empty(), "a rule for the other direction");
}

#[test]
fn every_rule_counts_but_the_first_that_matches_decides() {
    let mut rules = rules(&["f data 1 delay 7", "f data 1 drop", "f off 0 2 drop"]);
    let at = Instant::ZERO;
    rules.judge(at, &mut syn());
    assert_eq!(rules.judge(at, &mut data(0)), RuleVerdict::Delay(Duration::from_nanos(7)));
    assert_eq!(rules.judge(at, &mut data(0)), RuleVerdict::Drop);
    assert_eq!(rules.hits().map(|(_, hits)| hits).collect::<Vec<_>>(), [1, 0, 1]);
}

#[test]
fn held_packets_come_at_the_end_of_the_time() {
    let mut rules = rules(&["f time 100 300 hold"]);
    let verdict = rules.judge(Instant::from_nanos(120), &mut data(0));
    assert_eq!(verdict, RuleVerdict::Delay(Duration::from_nanos(180)));
    assert_eq!(rules.judge(Instant::from_nanos(300), &mut data(0)), RuleVerdict::Pass);
}

#[test]
fn ce_marks_only_what_is_capable() {
    let mut rules = rules(&["f every 1 1 ce"]);
    let mut packet = data(0);
    assert_eq!(rules.judge(Instant::ZERO, &mut packet), RuleVerdict::Pass);
    assert_eq!(packet.network.ecn(), Ecn::Ce);
}

#[test]
fn wrong_rules_say_what_is_wrong() {
    for (text, what) in [
        ("x data 1 drop", "a rule begins with f or r"),
        ("f data drop", "\"drop\" is not a whole number from 0 to 18446744073709551615"),
        ("f off 5", "a number is missing"),
        ("f often 1 drop", "expected data, every, off, ack, ackevery, syn or time"),
        ("f data 1 hold", "only a time can be held"),
        ("f data 1 dup", "a number is missing"),
        ("f data 1 lose", "expected drop, delay NS, dup NS, ce or hold"),
        ("f every 0 1 drop", "\"0\" is not valid here: counting starts at 1"),
        ("f data 0 drop", "\"0\" is not valid here: counting starts at 1"),
        ("f off 100 0 drop", "\"0\" is not valid here: counting starts at 1"),
        ("f data x drop", "\"x\" is not a whole number from 0 to 18446744073709551615"),
        ("f ack -1 drop", "\"-1\" is not a whole number from 0 to 18446744073709551615"),
        ("f off 5000000000 1 drop", "\"5000000000\" is not a whole number from 0 to 4294967295"),
        ("f data 1 delay 5ms", "\"5ms\" is not a whole number from 0 to 18446744073709551615"),
        ("f data 1 delay 5 5", "\"5\" follows the action"),
        ("f time 10 5 drop", "a time from 10 to 5 ends before it begins"),
        ("f time 10 10 hold", "a time from 10 to 10 ends before it begins"),
    ] {
        let error = text.parse::<Rule>().expect_err(text);
        assert_eq!(error.what, what, "{text}");
    }
}
