//! Words in, plain data out.

use super::*;
use datapath::packet::{Body, EtherType, LinkHeader, Meta, Network, Packet, Transport};
use datapath::qdisc::Qdisc;
use datapath::rng::Rng;
use datapath::units::{Duration, Instant};
use proptest::prelude::*;

fn spec(text: &str) -> Result<Spec> {
    parse_spec(&mut Words::new(text))
}

#[test]
fn fifos_default_to_the_device() {
    let device = Device { tx_queue_len: 100, ..Device::default() };
    for (text, kind) in [
        ("pfifo", FifoKind::Packets(100)),
        ("bfifo", FifoKind::Bytes(151_400)),
        ("bfifo limit 64kb", FifoKind::Bytes(65_536)),
        ("pfifo_head_drop limit 7", FifoKind::HeadDrop(7)),
        ("noqueue", FifoKind::NoQueue),
    ] {
        let built = spec(text).expect(text).build(device, Handle::NONE, Rng::stream(0, 0));
        assert!(matches!(built, AnyQdisc::Fifo(fifo) if fifo.kind() == kind), "{text}");
    }
}

proptest! {
    /// No words make the grammar or the qdiscs it builds panic, and every error points into
    /// the text.
    #[test]
    fn any_words_are_survived(
        kind in prop::sample::select(&KINDS[..]),
        words in prop::collection::vec(prop::sample::select(&WORDS[..]), 0..10),
        noise in "\\PC{0,12}",
    ) {
        let text = format!("qdisc add dev x root {kind} {} {noise}", words.join(" "));
        match parse_qdisc(text.trim_end()) {
            Ok(command) => run(&command),
            Err(error) => prop_assert!(error.column <= text.len() && error.word.len() <= text.len()),
        }
        let text = format!("filter add dev x {} police {}", words.join(" "), noise);
        let _ = parse_filter(&text);
        let _ = parse_police(&mut Words::new(&words.join(" ")));
    }
}

/// Words and values that fit each other now and then, extremes included.
const WORDS: [&str; 46] = [
    "limit",
    "rate",
    "burst",
    "latency",
    "mtu",
    "peakrate",
    "delay",
    "loss",
    "state",
    "gemodel",
    "reorder",
    "gap",
    "duplicate",
    "corrupt",
    "slot",
    "packets",
    "ecn",
    "min",
    "max",
    "avpkt",
    "probability",
    "bandwidth",
    "target",
    "interval",
    "quantum",
    "flows",
    "memory_limit",
    "bands",
    "priomap",
    "distribution",
    "normal",
    "adaptive",
    "overhead",
    "linklayer",
    "atm",
    "0",
    "1",
    "3",
    "1500",
    "10ms",
    "1mbit",
    "50%",
    "0.5",
    "4294967295",
    "99999999999999999999",
    "64kb",
];

/// Sends a few packets through what `command` builds.
fn run(command: &QdiscCommand) {
    let mut root: Sched = Fifo::pfifo_default().into();
    let mut dropped = Vec::new();
    let mut now = Instant::ZERO;
    let cx = &mut Cx { now, dropped: &mut dropped };
    command.apply(&mut root, Device::default(), Rng::stream(1, 1), cx).expect("an empty place");
    for _ in 0..20 {
        let cx = &mut Cx { now, dropped: &mut dropped };
        root.enqueue(frame(), cx);
        root.dequeue(cx);
        show_text(&root, None, now);
        now += Duration::from_micros(700);
    }
}

fn frame() -> Packet {
    Packet {
        link: LinkHeader::None,
        network: Network::Other(EtherType::IPV4),
        transport: Transport::None,
        body: Body::of_len(1000),
        meta: Meta::default(),
        ..Packet::default()
    }
    .finish()
}

#[test]
fn mistakes_are_pointed_at() {
    for (text, expected) in [
        ("", "column 0: a qdisc kind is missing"),
        ("tfb rate 1mbit", "column 0: qdisc: unknown parameter \"tfb\" (did you mean \"tbf\"?)"),
        (
            "sfq perturb 10",
            "column 0: qdisc \"sfq\" is not modelled (docs/not-modelled.md); valid are noqueue, \
             pfifo, bfifo, pfifo_head_drop, pfifo_fast, tbf, netem, red, codel, fq, fq_codel, dualpi2, pie, prio, htb, cake",
        ),
        (
            "pfifo limits 5",
            "column 6: pfifo: unknown parameter \"limits\" (did you mean \"limit\"?)",
        ),
        ("pfifo limit", "column 11: \"limit\" needs a value"),
        ("tbf rate 10foo burst 5kb", "column 9: illegal value for \"rate\": \"10foo\""),
        ("tbf rate 10mbit", "column 15: tbf: the \"burst\" parameter is mandatory"),
        ("tbf rate 1mbit burst 5kb", "column 24: tbf: either \"limit\" or \"latency\" is required"),
        ("netem delay", "column 11: \"delay\" needs a value"),
        (
            "netem delay 5ms lsos 1%",
            "column 16: netem: unknown parameter \"lsos\" (did you mean \"loss\"?)",
        ),
        ("netem delay 10ms gap 5", "column 22: gap specified without reorder probability"),
        ("netem delay 274877907", "column 12: illegal value for \"delay\": \"274877907\""),
        ("tbf rate 1e6 mpu -1", "column 17: illegal value for \"mpu\": \"-1\""),
        ("tbf rate 1e6 overhead 0x10", "column 22: illegal value for \"overhead\": \"0x10\""),
        ("prio bands 0x10", "column 11: illegal value for \"bands\": \"0x10\""),
        ("netem reorder 25%", "column 17: reordering not possible without specifying some delay"),
    ] {
        assert_eq!(spec(text).expect_err(text).to_string(), expected);
    }
}

#[test]
fn tbf_reads_as_tc_does() {
    let tbf = |text: &str| match spec(text) {
        Ok(Spec::Tbf(config)) => config,
        other => panic!("{text}: {other:?}"),
    };
    let plain = tbf("tbf rate 10mbit burst 5kb latency 70ms");
    assert_eq!((plain.burst, plain.limit), (5120, 92_620), "what tc 6.1 sends");
    let peaked = tbf("tbf rate 1mbps burst 3100 limit 60kb peakrate 12mbit mtu 1514");
    assert_eq!(peaked.peak.map(|(_, mtu)| mtu), Some(1514));
    assert_eq!(peaked.limit, 61_440);
}

#[test]
fn netem_reads_as_tc_does() {
    let netem = |text: &str| match spec(text) {
        Ok(Spec::Netem(config)) => *config,
        other => panic!("{text}: {other:?}"),
    };
    let config = netem("netem delay 10ms 2ms 25% loss 1% 10% rate 10mbit 10 48 5 limit 400");
    assert_eq!((config.delay, config.jitter, config.limit), (10_000_000, 2_000_000, 400));
    assert_eq!(config.delay_correlation.rho, 0x4000_0000 - 1 + 1);
    let rate = config.rate.expect("a rate");
    assert_eq!((rate.packet_overhead, rate.cell_size, rate.cell_overhead), (10, 48, 5));
    let reorder = netem("netem delay 10ms reorder 25% 50%");
    assert_eq!(reorder.gap, 1);
    let gap = netem("netem delay 10ms gap 010 reorder 5%");
    assert_eq!((gap.gap, gap.reorder.0), (8, 214_748_365));
    let signed = netem("netem rate 1e6 -5 020 -010").rate.expect("a rate");
    let fields = (signed.packet_overhead, signed.cell_size, signed.cell_overhead);
    assert_eq!(fields, (-5, 16, -8), "what tc 6.1 sends");
    assert!(netem("netem delay 1ms 1ms distribution normal").distribution.is_some());
}
