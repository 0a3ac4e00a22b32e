use super::*;
use crate::packet::{Body, FlowTuple, FrameRef, Network};
use crate::qdisc::testing::{Bench, flow_frame, frame, super_frame};
use crate::rng::Rng;
use core::net::Ipv4Addr;
use proptest::prelude::*;

const MS: u64 = 1_000_000;
const START: u64 = 1_000 * MS;

fn cake(config: Config) -> Cake {
    Cake::new(config, 1514, Rng::stream(1, 1))
}

fn shaped(mbit: u64) -> Config {
    Config { bandwidth: Rate::from_mbit(mbit), ..Config::default() }
}

fn besteffort(mbit: u64) -> Config {
    Config { tins: TinMode::Besteffort, flows: FlowMode::Flows, ..shaped(mbit) }
}

fn tos(packet: Packet, dscp: u8) -> Packet {
    let mut packet = packet;
    packet.set_dscp(dscp);
    packet
}

fn from_host(host: u8, port: u16) -> Packet {
    let mut packet = flow_frame(port, 1000, 0);
    if let Network::Ipv4(ip) = &mut packet.network {
        ip.src = Ipv4Addr::new(10, 0, 1, host);
        ip.dst = Ipv4Addr::new(10, 0, 2, host);
    }
    packet
}

#[test]
fn packets_leave_back_to_back_at_the_rate() {
    let mut bench = Bench::new(cake(besteffort(1)));
    let sent = bench.run((0..4).map(|_| (START, frame(1000))));
    let times: Vec<u64> = sent.iter().map(|(at, _)| (at - START) / MS).collect();
    assert_eq!(times, [0, 8, 16, 24]);
}

#[test]
fn without_a_rate_everything_leaves_at_once() {
    let mut bench = Bench::new(cake(Config::default()));
    let packets = (0..64).map(|dscp| (START, tos(flow_frame(u16::from(dscp), 1000, 0), dscp)));
    let sent = bench.run(packets);
    assert!(sent.len() == 64 && sent.iter().all(|(at, _)| *at == START));
}

/// Every tin of diffserv4 offered more than it may have: what each gets, in percent.
#[test]
fn saturated_tins_get_their_shares() {
    let config = Config { tins: TinMode::Diffserv4, ..shaped(2) };
    let mut bench = Bench::new(cake(config));
    let dscps = [8, 0, 34, 46];
    let packets = (0..8_000).flat_map(|step| {
        let at = START + step * MS / 2;
        dscps.map(|dscp| (at, tos(flow_frame(u16::from(dscp), 500, 2), dscp)))
    });
    let sent = bench.run(packets.filter(|(at, _)| *at < START + 4_000 * MS));
    let shared: Vec<&Packet> =
        sent.iter().filter(|(at, _)| *at < START + 4_000 * MS).map(|(_, packet)| packet).collect();
    let share = dscps.map(|dscp| {
        let own = shared.iter().filter(|packet| packet.network.tos() >> 2 == dscp).count();
        (own * 1000 / shared.len() + 5) / 10
    });
    assert_eq!(share, [6, 19, 50, 25], "Bulk, Best Effort, Video, Voice");
}

/// Host A has eight flows, host B one, all of them greedy: B's share in percent.
#[test]
fn host_fairness() {
    let share_of_b = |flows| {
        let config = Config { flows, ..besteffort(8) };
        let mut bench = Bench::new(cake(config));
        let packets = (0..2_000).flat_map(|step| {
            let at = START + step * MS;
            (0..9).map(move |flow| (at, from_host(u8::from(flow == 8), 1000 + flow)))
        });
        let sent = bench.run(packets);
        let busy: Vec<&Packet> =
            sent.iter().filter(|(at, _)| *at < START + 2_000 * MS).map(|(_, one)| one).collect();
        let b: core::net::IpAddr = Ipv4Addr::new(10, 0, 1, 1).into();
        busy.iter().filter(|packet| packet.network.src() == Some(b)).count() * 100 / busy.len()
    };
    assert!((10..=12).contains(&share_of_b(FlowMode::Flows)), "one of nine flows");
    for mode in [FlowMode::Hosts, FlowMode::DualSrchost, FlowMode::DualDsthost] {
        assert!((48..=52).contains(&share_of_b(mode)), "{mode:?}: {}", share_of_b(mode));
    }
    assert!((48..=52).contains(&share_of_b(FlowMode::TripleIsolate)));
}

#[test]
fn a_new_flow_passes_those_that_wait() {
    let mut bench = Bench::new(cake(besteffort(8)));
    let bulk = (0..200).map(|step| (START + step * MS / 4, flow_frame(1, 1000, 0)));
    let sparse = core::iter::once((START + 60 * MS, flow_frame(2, 100, 0)));
    let sent = bench.run(bulk.chain(sparse));
    let (at, _) = sent.iter().find(|(_, packet)| packet.len() == 100).expect("sent");
    assert!(at - (START + 60 * MS) < 2 * MS, "waits for one packet at most");
}

#[test]
fn tins_that_vanish_lose_their_packets_uncounted() {
    let mut cake = cake(Config { tins: TinMode::Diffserv4, ..shaped(1) });
    let mut dropped = Vec::new();
    let mut cx = Cx { now: Instant::from_nanos(START), dropped: &mut dropped };
    for dscp in [0, 8, 46, 46, 34] {
        cake.enqueue(tos(frame(500), dscp), &mut cx);
    }
    let patch = Patch { tins: Some(TinMode::Besteffort), ..Patch::default() };
    cake.change(&patch, &mut cx);
    assert_eq!(cake.backlog(), Backlog { packets: 1, bytes: 500 });
    assert_eq!((cake.stats().drops, cx.dropped.len()), (0, 4));
    assert!(cx.dropped.iter().all(|(reason, _)| *reason == Reason::QueuePurge));
    cake.assert_conserved();
    assert!(cake.dequeue(&mut cx).is_some(), "what remains is served");
    cake.assert_conserved();
}

/// Without a rate tins take turns: Voice has not used up its own. A change, whatever of, lets the
/// first tin begin anew.
#[test]
fn a_change_begins_the_turns_anew() {
    let third = |change: bool| {
        let mut cake = cake(Config { tins: TinMode::Diffserv4, ..Config::default() });
        let mut dropped = Vec::new();
        let mut cx = Cx { now: Instant::from_nanos(START), dropped: &mut dropped };
        for _ in 0..3 {
            cake.enqueue(tos(flow_frame(1, 100, 0), 46), &mut cx);
        }
        for _ in 0..2 {
            cake.dequeue(&mut cx).expect("nothing holds it");
        }
        cake.enqueue(flow_frame(2, 100, 0), &mut cx);
        if change {
            cake.change(&Patch::default(), &mut cx);
        }
        cake.dequeue(&mut cx).expect("nothing holds it").network.tos() >> 2
    };
    assert_eq!((third(false), third(true)), (46, 0));
}

#[test]
fn overflow_drops_from_the_head_of_the_longest_queue() {
    let config = Config { memlimit: 20_000, ..besteffort(1) };
    let mut bench = Bench::new(cake(config));
    let small = bench.enqueue(START, flow_frame(2, 1000, 0));
    assert_eq!(small, Enqueue::Queued);
    let verdicts: Vec<Enqueue> =
        (0..9).map(|number| bench.enqueue(START, flow_frame(1, 1000 + number, 0))).collect();
    assert_eq!(verdicts[6..], [Enqueue::Queued, Enqueue::Congested, Enqueue::Congested]);
    assert_eq!(bench.dropped_lengths(), [1000, 1001]);
    assert_eq!(bench.reasons(), [Reason::QdiscOverlimit; 2]);
    assert_eq!(bench.qdisc().cake_stats().tins[0].unresponsive_flows, 1, "BLUE has begun");
}

#[test]
fn super_packets_are_cut_by_default() {
    let lengths = |split_gso| {
        let mut bench = Bench::new(cake(Config { split_gso, ..besteffort(8) }));
        let sent = bench.run([(START, super_frame(3, 1000))]);
        sent.iter().map(|(at, packet)| ((at - START) / 1000, packet.len())).collect::<Vec<_>>()
    };
    assert_eq!(lengths(true), [(0, 1054), (1_054, 1054), (2_108, 1054)]);
    assert_eq!(lengths(false), [(0, 3054)]);
}

/// The place where a packet was taken from is used again only when another one needs it, and the frame is a sender's.
#[test]
fn a_super_packet_that_is_cut_leaves_no_frame_behind() {
    let frame = FrameRef::from(vec![0; 3_000]);
    for split_gso in [true, false] {
        let mut cake = cake(Config { split_gso, ..besteffort(8) });
        let mut place = super_frame(3, 1000);
        place.body = Body::of_frame(frame.clone());
        let mut dropped = Vec::new();
        let mut cx = Cx { now: Instant::from_nanos(START), dropped: &mut dropped };
        assert_eq!(cake.enqueue_from(&mut place, &mut cx), Enqueue::Queued);
        assert!(place.body.frame.is_none());
        drop((place, cake));
        assert_eq!(frame.holders(), 1, "this test");
    }
}

#[test]
fn marks_and_priorities_choose_the_tin_before_the_dscp() {
    let config = Config { tins: TinMode::Diffserv4, fwmark_mask: 0xf0, ..shaped(10) };
    let handle = Handle::new(1, 0);
    let tin_of = |mark, priority| {
        let mut packet = tos(frame(100), 46);
        packet.meta.mark = mark;
        packet.meta.priority = priority;
        let mut bench = Bench::new(cake(config).with_handle(handle));
        bench.enqueue(START, packet);
        let tins = bench.qdisc().cake_stats().tins;
        tins.iter().position(|tin| tin.sent_packets == 1).expect("in a tin")
    };
    assert_eq!(tin_of(0, 0), 3, "by DSCP: Voice");
    assert_eq!(tin_of(0x10, 0), 0, "by mark: the first shown");
    assert_eq!(tin_of(0x50, 0), 3, "there is no fifth tin");
    assert_eq!(tin_of(0, 0x1_0002), 1, "by priority");
    assert_eq!(tin_of(0, 0x2_0002), 3, "of another qdisc");
    assert_eq!(tin_of(0x30, 0x1_0001), 2, "the mark wins");
}

/// The classes that are left are those of queues, by number: filters choose queue and host.
#[test]
fn filters_choose_the_queue() {
    use crate::qdisc::filter::Match;
    let mut cake = cake(besteffort(1));
    for (port, minor) in [(1000, 5), (1001, 5), (1002, 0)] {
        let matches = vec![Match::SourcePort(port)];
        cake.add_filter(Filter { preference: 1, matches, class: Handle::new(0, minor) });
    }
    let mut bench = Bench::new(cake);
    for port in [1000, 1000, 1001] {
        bench.enqueue(START, flow_frame(port, 100, 0));
    }
    let flows = bench.qdisc().flow_stats(Instant::from_nanos(START));
    assert_eq!((flows.len(), flows[0].minor, flows[0].qlen), (1, 5, 3));
    bench.enqueue(START, flow_frame(1002, 100, 0));
    assert_eq!(bench.qdisc().flow_stats(Instant::from_nanos(START)).len(), 2, "left to the hash");
}

/// A router that has given hosts 10.0.9.x to ports 1000 + x.
#[derive(Debug)]
struct Masquerade;

impl Conntrack for Masquerade {
    fn original(&self, flow: &FlowTuple) -> Option<FlowTuple> {
        let host = (flow.src_port / 10) as u8;
        Some(FlowTuple { src: Ipv4Addr::new(10, 0, 9, host).into(), ..*flow })
    }
}

/// Behind a translating router one inner host has nine connections and another has one.
#[test]
fn nat_tells_inner_hosts_apart() {
    let share = |nat| {
        let config = Config { nat, flows: FlowMode::DualSrchost, ..besteffort(8) };
        let mut bench = Bench::new(cake(config).with_conntrack(Arc::new(Masquerade)));
        let packets = (0..1_000).flat_map(|step| {
            let port = |flow: u16| if flow == 9 { 1010 } else { 1000 + flow };
            (0..10u16).map(move |flow| (START + step * MS, flow_frame(port(flow), 1000, 0)))
        });
        let sent = bench.run(packets);
        let busy: Vec<&Packet> =
            sent.iter().filter(|(at, _)| *at < START + 1_000 * MS).map(|(_, one)| one).collect();
        let lone = |packet: &&&Packet| packet.transport.ports() == Some((1010, 2000));
        busy.iter().filter(lone).count() * 100 / busy.len()
    };
    assert!((9..=11).contains(&share(false)), "one of ten flows");
    assert!((48..=52).contains(&share(true)), "one of two hosts");
}

#[test]
fn ingress_mode_charges_drops() {
    let sent = |ingress| {
        let mut bench = Bench::new(cake(Config { ingress, memlimit: 40_000, ..besteffort(2) }));
        let packets = (0..4_000).map(|step| (START + step * MS, flow_frame(1, 1000, 0)));
        let sent = bench.run(packets);
        sent.iter().filter(|(at, _)| *at < START + 4_000 * MS).count()
    };
    assert_eq!(sent(false), 1_000);
    assert!(sent(true) < 900, "{}", sent(true));
}

#[test]
fn an_idle_instance_is_small() {
    let tables = size_of::<flows::CakeFlow>() * hash::QUEUES;
    assert!(size_of::<Cake>() < 1024);
    assert!(size_of::<Tin>() * MAX_TINS < 4096);
    assert!(tables <= 96 << 10, "{tables} bytes of queues for each tin in use");
}

/// Any configuration.
fn any_config() -> impl Strategy<Value = Config> {
    let tins = prop::sample::select(vec![
        TinMode::Besteffort,
        TinMode::Precedence,
        TinMode::Diffserv8,
        TinMode::Diffserv4,
        TinMode::Diffserv3,
    ]);
    let flows = prop::sample::select(vec![
        FlowMode::Flowblind,
        FlowMode::Srchost,
        FlowMode::Hosts,
        FlowMode::Flows,
        FlowMode::DualDsthost,
        FlowMode::TripleIsolate,
    ]);
    let filter = prop::sample::select(vec![
        AckFilter::Off,
        AckFilter::Conservative,
        AckFilter::Aggressive,
        AckFilter::V8Conservative,
        AckFilter::V8Aggressive,
        AckFilter::Naive,
    ]);
    let switches = any::<[bool; 5]>();
    (tins, flows, filter, switches, 0u64..20_000_000, 0u32..60_000, -64i32..256).prop_map(
        |(tins, flows, ack_filter, switches, bits, memlimit, overhead)| {
            let [autorate_ingress, wash, ingress, split_gso, compensate] = switches;
            Config {
                bandwidth: Rate::from_bits_per_sec(bits),
                tins,
                flows,
                ack_filter,
                autorate_ingress,
                wash,
                ingress,
                split_gso,
                compensate,
                memlimit,
                overhead,
                ..Config::default()
            }
        },
    )
}

/// A frame of any bytes, or one that looks like IP.
fn any_packet() -> impl Strategy<Value = Packet> {
    let noise = prop::collection::vec(any::<u8>(), 14..200).prop_map(|mut bytes| {
        if bytes[0] % 4 != 0 && bytes.len() > 34 {
            bytes[12..14].copy_from_slice(&[8, 0]);
            bytes[14] = 0x45;
            bytes[23] = if bytes[1] % 2 == 0 { 6 } else { 41 };
        }
        Packet::parse_ethernet(&bytes[..]).expect("long enough")
    });
    let plain =
        (0u16..6, 60u32..1514, any::<u8>()).prop_map(|(port, len, tos)| flow_frame(port, len, tos));
    prop_oneof![noise, plain, (1u16..9, 1u16..1448).prop_map(|(n, mss)| super_frame(n, mss))]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Whatever the configuration and the bytes: nothing is lost, and everything comes out.
    #[test]
    fn packets_and_bytes_are_conserved(
        config in any_config(),
        packets in prop::collection::vec((0u64..20 * MS, any_packet()), 1..120),
    ) {
        let mut bench = Bench::new(cake(config));
        let mut at = START;
        let entered: u64 = packets.iter().map(|(_, packet)| u64::from(packet.segments())).sum();
        let sent = bench.run(packets.into_iter().map(|(gap, packet)| {
            at += gap;
            (at, packet)
        }));
        let left: u64 = sent.iter().map(|(_, packet)| u64::from(packet.segments())).sum();
        let dropped = bench.reasons().len() as u64;
        prop_assert!(left + dropped <= entered && left + dropped > 0);
        prop_assert_eq!(bench.qdisc().backlog(), Backlog::default());
    }

    /// Changes in mid-flow: the accounts of packets still add up.
    #[test]
    fn changes_keep_the_accounts(
        configs in prop::collection::vec(any_config(), 1..5),
        packets in prop::collection::vec(any_packet(), 1..60),
    ) {
        let mut cake = cake(configs[0]);
        let mut dropped = Vec::new();
        let (mut now, mut sent) = (START, 0);
        let mut made = 0u64;
        for (step, packet) in packets.into_iter().enumerate() {
            now += MS;
            let mut cx = Cx { now: Instant::from_nanos(now), dropped: &mut dropped };
            let config = configs[step % configs.len()];
            let patch = Patch {
                tins: Some(config.tins),
                flows: Some(config.flows),
                bandwidth: Some(config.bandwidth),
                memlimit: Some(config.memlimit),
                ..Patch::default()
            };
            cake.change(&patch, &mut cx);
            made += if cake.config().split_gso { u64::from(packet.segments()) } else { 1 };
            cake.enqueue(packet, &mut cx);
            sent += u64::from(cake.dequeue(&mut cx).is_some());
        }
        prop_assert_eq!(made, sent + dropped.len() as u64 + u64::from(cake.backlog().packets));
        let counted = dropped.iter().filter(|(reason, _)| *reason != Reason::QueuePurge).count();
        prop_assert_eq!(cake.stats().drops, counted as u64);
        cake.assert_conserved();
    }
}
