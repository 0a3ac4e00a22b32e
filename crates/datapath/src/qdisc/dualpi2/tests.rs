use super::super::filter::Match;
use super::super::testing::{Bench, flow_frame, super_frame};
use super::*;

const ECT1: u8 = 1;
const ECT0: u8 = 2;
const MS: u64 = 1_000_000;

fn bench(config: DualPi2Config) -> Bench<DualPi2> {
    Bench::new(DualPi2::new(config, Handle::new(1, 0), Rng::stream(1, 1)))
}

fn default() -> DualPi2Config {
    DualPi2Config::new(1514)
}

fn sized(len: u32, ecn: u8) -> Packet {
    let mut packet = flow_frame(1, len, ecn);
    packet.meta.truesize = 2304;
    packet
}

/// What comes out at `nanos`, by its length and its ECN field.
fn drain(bench: &mut Bench<DualPi2>, nanos: u64) -> Vec<(u32, u8)> {
    let packets = core::iter::from_fn(|| bench.dequeue(nanos));
    packets.map(|packet| (packet.len(), packet.network.ecn() as u8)).collect()
}

/// Sets the base probability, as a share of one.
fn with_probability(config: DualPi2Config, share: f64) -> Bench<DualPi2> {
    let mut bench = bench(config);
    bench.enqueue(0, sized(100, 0));
    bench.dequeue(0);
    bench.qdisc_mut().pi2.probability = (f64::from(u32::MAX) * share) as u32;
    bench
}

#[test]
fn the_ecn_field_chooses_the_queue_then_priority_then_filters() {
    let prioritised = |priority| {
        let mut packet = sized(100, 0);
        packet.meta.priority = priority;
        packet
    };
    for (packet, mask, low) in [
        (sized(100, 0), 1, false),
        (sized(100, ECT1), 1, true),
        (sized(100, ECT0), 1, false),
        (sized(100, 3), 1, true),
        (sized(100, ECT0), 3, true),
        (prioritised(0x1_0000), 1, false),
        (prioritised(0x1_0001), 1, true),
        (prioritised(0x1_0002), 1, true),
        // No class of its own, and another qdisc's.
        (prioritised(0x1_0003), 1, false),
        (prioritised(0x2_0001), 1, false),
        (prioritised(1), 1, false),
    ] {
        let mut bench = bench(DualPi2Config { ecn_mask: mask, ..default() });
        let what = format!("{:?} {:#x}", packet.network.ecn(), packet.meta.priority);
        bench.enqueue(0, packet);
        let own = bench.qdisc().own_stats();
        assert_eq!(
            (own.packets_in_c, own.packets_in_l),
            (u32::from(!low), u32::from(low)),
            "{what}"
        );
    }
    for (minor, low) in [(1, true), (2, true), (3, false), (0, false)] {
        let mut bench = bench(default());
        let class = Handle::new(1, minor);
        bench.qdisc_mut().add_filter(Filter { preference: 1, matches: vec![Match::All], class });
        bench.enqueue(0, sized(100, 0));
        assert_eq!(bench.qdisc().own_stats().packets_in_l, u32::from(low), "{minor}");
    }
}

/// Of equal packets one in ten comes from the C-queue while both wait.
#[test]
fn queues_are_served_by_weight() {
    let mut bench =
        bench(DualPi2Config { step_threshold: StepThreshold::Packets(1000), ..default() });
    for _ in 0..200 {
        bench.enqueue(0, sized(1000, ECT0));
        bench.enqueue(0, sized(1001, ECT1));
    }
    let first: Vec<u32> = (0..100).map(|_| bench.dequeue(0).expect("a packet").len()).collect();
    let classic = first.iter().filter(|len| **len == 1000).count();
    assert_eq!(classic, 9, "the credit starts at -80 % of a frame: the L-queue goes first");
    // A queue alone does not wait for its turn, and gains no credit by it.
    let credit = bench.qdisc().credit();
    bench.purge(0);
    bench.enqueue(0, sized(1000, ECT0));
    assert_eq!(bench.drain_lengths(0), [1000]);
    assert_ne!(bench.qdisc().credit(), credit);
    assert_eq!(bench.qdisc().credit(), 1514 * (10 - 90), "an empty queue starts anew");
}

#[test]
fn the_step_marks_what_has_waited_in_the_low_latency_queue() {
    let mut bench = bench(default());
    for _ in 0..2 {
        bench.enqueue(0, sized(1500, ECT1));
        bench.enqueue(0, sized(1400, ECT0));
    }
    assert_eq!(bench.dequeue(MS).map(|packet| packet.network.ecn()), Some(Ecn::Ect1));
    let rest = drain(&mut bench, MS + 1);
    assert_eq!(rest, [(1500, 3), (1400, ECT0), (1400, ECT0)]);
    let own = bench.qdisc().own_stats();
    assert_eq!((own.ecn_mark, own.step_marks), (1, 1));
}

#[test]
fn a_step_in_packets_looks_behind_and_min_qlen_exempts() {
    let marked = |step, min_qlen_step| {
        let step_threshold = StepThreshold::Packets(step);
        let mut bench = bench(DualPi2Config { step_threshold, min_qlen_step, ..default() });
        for _ in 0..6 {
            bench.enqueue(0, sized(200, ECT1));
        }
        drain(&mut bench, 0).iter().map(|(_, ecn)| *ecn == 3).collect::<Vec<_>>()
    };
    assert_eq!(marked(3, 0), [true, true, false, false, false, false], "5, 4, then 3 behind");
    assert_eq!(
        marked(1, 2),
        [false, false, true, true, false, false],
        "the first two came to fewer"
    );
}

/// By a filter packets without ECN can come into the L-queue: what cannot be marked is dropped.
#[test]
fn what_the_step_cannot_mark_it_drops() {
    for (minor, dropped) in [(1, 1), (2, 0)] {
        let mut bench = bench(default());
        let class = Handle::new(1, minor);
        bench.qdisc_mut().add_filter(Filter { preference: 1, matches: vec![Match::All], class });
        bench.enqueue(0, sized(200, 0));
        bench.enqueue(0, sized(300, ECT1));
        assert_eq!(drain(&mut bench, 2 * MS).len(), 2 - dropped);
        assert_eq!(bench.reasons(), vec![Reason::DualPi2StepDrop; dropped]);
        assert_eq!(bench.qdisc().stats().drops, dropped as u64);
    }
}

/// RFC 9332, section 2.1: L4S packets are marked with twice the base probability, classic ones marked or dropped with
/// its square. 4,000 packets of each kind at 0.3: 60 % and 9 %.
#[test]
fn the_controller_marks_in_proportion_and_by_the_square() {
    for drop_early in [false, true] {
        let config = DualPi2Config { limit: 20_000, drop_early, ..default() };
        let mut bench = with_probability(config, 0.3);
        // Ahead of all there must be a queue, behind all as well.
        for ecn in core::iter::repeat_n([ECT1, ECT0, 0], 4000).flatten() {
            bench.enqueue(0, sized(1000 + u32::from(ecn), ecn));
        }
        let out = drain(&mut bench, 0);
        let share = |len: u32| {
            let of = out.iter().filter(|(other, _)| *other == len);
            let marked = of.clone().filter(|(_, ecn)| *ecn == 3).count();
            (marked as f64 / 4000.0, of.count() as f64 / 4000.0)
        };
        let near =
            |value: f64, wanted: f64| assert!((value - wanted).abs() < 0.03, "{value} {wanted}");
        let ((l4s, all), (classic, also_all), (_, left)) = (share(1001), share(1002), share(1000));
        near(l4s, 0.6);
        near(classic, 0.09);
        near(left, 0.91);
        assert_eq!((all, also_all), (1.0, 1.0));
        assert!(bench.reasons().iter().all(|reason| *reason == Reason::QdiscCongested));
    }
}

/// Where L4S packets would be marked with certainty, all are marked, and all kinds dropped alike, or none.
#[test]
fn an_overload_drops_unless_it_may_overflow() {
    for (drop_overload, dropped) in [(true, 0.49), (false, 0.0)] {
        let config = DualPi2Config { limit: 20_000, drop_overload, ..default() };
        let mut bench = with_probability(config, 0.7);
        for _ in 0..4000 {
            bench.enqueue(0, sized(1000, ECT1));
        }
        let out = drain(&mut bench, 0);
        let share = 1.0 - out.len() as f64 / 4000.0;
        assert!((share - dropped).abs() < 0.03, "{share}");
        let unmarked = out.iter().filter(|(_, ecn)| *ecn != 3).count();
        assert!(unmarked <= 4, "the last ones, when less than two frames were left: {unmarked}");
    }
}

#[test]
fn two_frames_are_no_queue() {
    let mut bench = with_probability(default(), 1.0);
    for _ in 0..3 {
        bench.enqueue(0, sized(1514, 0));
    }
    // The first leaves two full frames behind.
    assert_eq!(drain(&mut bench, 0).len(), 2);
    assert_eq!(bench.qdisc().stats().drops, 1);
}

#[test]
fn limits_are_in_packets_and_in_memory() {
    let mut few = bench(DualPi2Config { limit: 2, ..default() });
    let verdicts: Vec<Enqueue> =
        [0, ECT1, ECT0].into_iter().map(|ecn| few.enqueue(0, sized(100, ecn))).collect();
    assert_eq!(verdicts, [Enqueue::Queued, Enqueue::Queued, Enqueue::Dropped]);
    assert_eq!((few.qdisc().stats().overlimits, few.qdisc().own_stats().maxq), (1, 1));
    let mut little = bench(DualPi2Config { memory_limit: 2 * 2304, ..default() });
    let queued = (0..3).filter(|_| little.enqueue(0, sized(100, 0)) == Enqueue::Queued).count();
    assert_eq!(queued, 2);
    let own = *little.qdisc().own_stats();
    assert_eq!((own.memory_used, own.max_memory_used), (4608, 4608));
}

#[test]
fn a_super_packet_is_split_unless_told() {
    for (split_gso, packets) in [(true, 4), (false, 1)] {
        let mut bench = bench(DualPi2Config { split_gso, ..default() });
        bench.enqueue(0, super_frame(4, 1000));
        assert_eq!(bench.qdisc().backlog().packets, packets);
        assert_eq!(bench.drain_lengths(0).len(), packets as usize);
        assert_eq!(bench.qdisc().stats().packets, 4);
    }
}

/// `dualpi2_change`: first from the C-queue, then from the L-queue, the oldest first.
#[test]
fn what_exceeds_a_new_limit_is_dropped() {
    let mut counted = bench(default());
    for len in [100, 101, 102] {
        counted.enqueue(0, sized(len, 0));
        counted.enqueue(0, sized(len + 100, ECT1));
    }
    let mut dropped = Vec::new();
    let mut cx = Cx { now: Instant::ZERO, dropped: &mut dropped };
    let mut alone = counted.qdisc().clone();
    alone.change(DualPi2Config { limit: 2, ..default() }, &mut cx);
    let lengths: Vec<u32> = dropped.iter().map(|(_, packet)| packet.len()).collect();
    assert_eq!(lengths, [100, 101, 102, 200]);
    assert_eq!((alone.stats().drops, alone.backlog().packets), (4, 2));
    alone.check();
}

#[test]
fn a_purge_forgets_all_but_the_settings() {
    let mut bench = with_probability(default(), 0.5);
    for _ in 0..5 {
        bench.enqueue(0, sized(1000, ECT1));
    }
    bench.purge(0);
    let qdisc = bench.qdisc();
    assert_eq!(qdisc.own_stats(), &DualPi2Stats::default());
    assert_eq!((qdisc.controller().probability, qdisc.backlog()), (0, Backlog::default()));
    assert_eq!(bench.reasons(), [Reason::QueuePurge; 5]);
}
