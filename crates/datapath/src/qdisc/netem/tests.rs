//! netem against recorded times and against its own rules.

use super::*;
use crate::packet::Flaws;
use crate::qdisc::testing::{Bench, flow_frame, frame, super_frame};
use crate::rng::Rng;
use crate::units::Rate;
use proptest::prelude::*;

fn netem(config: NetemConfig) -> Bench<Netem> {
    Bench::with_copies(Netem::new(config, Rng::stream(1, 1)), Netem::copies)
}

fn at_rate(bits: u64) -> NetemConfig {
    let rate = NetemRate {
        rate: Rate::from_bits_per_sec(bits),
        packet_overhead: 0,
        cell_size: 0,
        cell_overhead: 0,
    };
    NetemConfig { rate: Some(rate), ..NetemConfig::default() }
}

const MILLI: i64 = 1_000_000;

/// Recorded from Linux 6.1 (`netem rate 10mbit limit 400`): a SYN, an ACK, ten frames at once,
/// and the first two of the next round.
#[test]
fn a_rate_spaces_packets_exactly() {
    let mut bench = netem(NetemConfig { limit: 400, ..at_rate(10_000_000) });
    let mut arrivals = vec![(100_300_004, 74), (140_359_204, 66)];
    arrivals.extend([(140_359_210, 1514); 2]);
    arrivals.extend([(140_359_211, 1514); 8]);
    arrivals.extend([(181_623_204, 1514); 2]);
    let left = bench.run(arrivals.into_iter().map(|(at, len)| (at, frame(len))));
    let times: Vec<u64> = left.iter().map(|(at, _)| *at).collect();
    let mut expected = vec![100_359_204, 140_412_004];
    expected.extend((1..=10).map(|nth| 140_412_004 + nth * 1_211_200));
    expected.extend([182_834_404, 184_045_604]);
    assert_eq!(times, expected);
}

/// Recorded from Linux 6.1: `netem delay 20ms limit 100000`.
#[test]
fn a_delay_is_exact() {
    let mut bench = netem(NetemConfig { delay: 20 * MILLI, ..NetemConfig::default() });
    let left = bench.run([100_359_204, 140_412_004, 140_412_004].map(|at| (at, frame(100))));
    let times: Vec<u64> = left.iter().map(|(at, _)| *at).collect();
    assert_eq!(times, [120_359_204, 160_412_004, 160_412_004]);
}

/// With a rate the delay counts from the end of the last packet, less the wait for it.
#[test]
fn delay_and_rate_chain() {
    let mut bench = netem(NetemConfig { delay: 5 * MILLI, ..at_rate(8_000_000) });
    let left = bench.run([(0, frame(1000)), (0, frame(1000)), (50 * 1_000_000, frame(1000))]);
    let times: Vec<u64> = left.iter().map(|(at, _)| *at).collect();
    assert_eq!(times, [6_000_000, 7_000_000, 56_000_000]);
}

#[test]
fn cells_and_overhead_take_time() {
    for (overhead, cell, cell_overhead, len, nanos) in [
        (0, 0, 0, 100, 100_000),
        (20, 0, 0, 100, 120_000),
        (-14, 0, 0, 114, 100_000),
        (0, 48, 5, 96, 106_000),
        (0, 48, 5, 97, 159_000),
    ] {
        let mut config = at_rate(8_000_000);
        let rate = config.rate.as_mut().expect("a rate");
        (rate.packet_overhead, rate.cell_size, rate.cell_overhead) =
            (overhead, cell, cell_overhead);
        assert_eq!(netem(config).run([(0, frame(len))])[0].0, nanos, "{len} B");
    }
}

#[test]
fn packets_leave_in_the_order_of_their_times() {
    let jittery = NetemConfig { delay: 10 * MILLI, jitter: 9 * MILLI, ..NetemConfig::default() };
    let mut bench = netem(jittery);
    let left = bench.run((0..200).map(|nth| (nth * 100_000, flow_frame(nth as u16, 100, 0))));
    assert_eq!(left.len(), 200);
    assert!(left.is_sorted_by_key(|(at, _)| *at));
    let ports: Vec<u16> =
        left.iter().map(|(_, packet)| packet.transport.ports().expect("UDP").0).collect();
    assert!(!ports.is_sorted(), "jitter reorders");
    for (at, packet) in left {
        let sent = u64::from(packet.transport.ports().expect("UDP").0) * 100_000;
        assert!((1_000_000..19_000_000).contains(&(at - sent)));
    }
}

#[test]
fn the_limit_counts_packets_on_their_way() {
    let mut bench = netem(NetemConfig { limit: 2, delay: MILLI, ..NetemConfig::default() });
    let verdicts = [0, 0, 0].map(|at| bench.enqueue(at, frame(100)));
    assert_eq!(verdicts, [Enqueue::Queued, Enqueue::Queued, Enqueue::Dropped]);
    assert_eq!(bench.dequeue(999_999), None);
    assert_eq!(bench.qdisc().wake_at(), Some(Instant::from_nanos(1_000_000)));
    assert_eq!(bench.drain_lengths(1_000_000), [100, 100]);
}

#[test]
fn the_sender_is_not_notified_of_a_loss() {
    let always = Loss::Random(u32::MAX, Correlated::default());
    let mut bench = netem(NetemConfig { loss: always, ..NetemConfig::default() });
    assert_eq!(bench.enqueue(0, frame(100)), Enqueue::Queued);
    assert_eq!(bench.reasons(), [Reason::LinkLoss]);
    let mut marking = netem(NetemConfig { loss: always, ecn: true, ..NetemConfig::default() });
    marking.enqueue(0, flow_frame(1, 100, 2));
    marking.enqueue(0, flow_frame(1, 101, 0));
    assert_eq!(marking.dropped_lengths(), [101], "only what cannot be marked is lost");
    assert_eq!(marking.dequeue(0).expect("the marked one").network.tos(), 3);
    assert_eq!(marking.qdisc().stats().drops, 2, "a mark counts as a drop");
}

#[test]
fn duplicates_come_first_and_may_be_lost_themselves() {
    let always = (u32::MAX, Correlated::default());
    let mut bench = netem(NetemConfig { duplicate: always, ..NetemConfig::default() });
    bench.enqueue(0, frame(100));
    bench.enqueue(0, super_frame(3, 1000));
    assert_eq!(bench.drain_lengths(0), [100, 100, 3054, 3054]);
    let loss = Loss::Random(u32::MAX, Correlated::default());
    let mut lossy = netem(NetemConfig { duplicate: always, loss, ..NetemConfig::default() });
    lossy.enqueue(0, frame(100));
    assert_eq!(lossy.drain_lengths(0), [100], "doubled and lost is one");
}

/// Whoever finds room has it for its double as well.
#[test]
fn a_double_takes_no_room_of_its_packet() {
    let always = (u32::MAX, Correlated::default());
    let mut bench = netem(NetemConfig { duplicate: always, limit: 1, ..NetemConfig::default() });
    bench.enqueue(0, frame(100));
    assert_eq!(bench.enqueue(0, frame(200)), Enqueue::Dropped);
    assert_eq!(bench.qdisc().stats().drops, 1, "the double of what finds none is not counted");
    assert_eq!(bench.drain_lengths(0), [100, 100]);
}

/// A super-packet is cut for it: the other segments come in again, one by one, and may be lost and damaged
/// themselves.
#[test]
fn corruption_cuts_and_the_other_segments_try_their_luck() {
    let flawed_of = |corrupt, packet| {
        let corrupt = (corrupt, Correlated::default());
        let mut bench = netem(NetemConfig { corrupt, ..NetemConfig::default() });
        bench.enqueue(0, packet);
        let left = core::iter::from_fn(|| bench.dequeue(0));
        left.map(|packet| (packet.len(), packet.flaws() != Flaws::NONE)).collect::<Vec<_>>()
    };
    assert_eq!(flawed_of(u32::MAX, frame(100)), [(100, true)]);
    assert_eq!(flawed_of(u32::MAX, super_frame(3, 1000)), [(1054, true); 3]);
    let most = flawed_of(u32::MAX / 10 * 9, super_frame(40, 1000));
    assert!(most.len() == 40 && most[0].1, "{most:?}");
    assert!(most.iter().any(|(_, flawed)| !flawed), "others may be spared: {most:?}");
}

/// `delay 10ms reorder 100% gap 3`: every third packet goes at once.
#[test]
fn every_gap_th_packet_overtakes() {
    let config = NetemConfig {
        delay: 10 * MILLI,
        reorder: (u32::MAX, Correlated::default()),
        gap: 3,
        ..NetemConfig::default()
    };
    let mut bench = netem(config);
    let left = bench.run((0..6).map(|nth| (nth * 1000, frame(100 + nth as u32))));
    let order: Vec<u32> = left.iter().map(|(_, packet)| packet.len()).collect();
    assert_eq!(order, [102, 105, 100, 101, 103, 104]);
    assert_eq!(left[0].0, 2000);
    assert_eq!(bench.qdisc().stats().requeues, 2);
}

#[test]
fn slots_release_bursts() {
    let slot = Slot { min_delay: 1_000_000, max_delay: 1_000_000, packets: 2, bytes: 0 };
    let mut bench = netem(NetemConfig { slot: Some(slot), ..NetemConfig::default() });
    let left = bench.run((0..6).map(|nth| (5_000_000 + nth, frame(100))));
    let times: Vec<u64> = left.iter().map(|(at, _)| *at).collect();
    let spread: Vec<u64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert_eq!(spread[1], 1_000_000, "{times:?}");
    assert!(spread.iter().filter(|gap| **gap == 0).count() >= 2, "{times:?}");
}

/// `change ... netem delay 5ms` keeps the rate but not the loss.
#[test]
fn a_change_keeps_some_of_what_it_does_not_name() {
    let always = Loss::Random(u32::MAX, Correlated::default());
    let mut netem =
        Netem::new(NetemConfig { loss: always, ..at_rate(8_000_000) }, Rng::stream(1, 1));
    netem.change(NetemConfig { delay: 5 * MILLI, ..NetemConfig::default() }, Instant::ZERO);
    assert_eq!(Bench::new(netem).run([(0, frame(1000))])[0].0, 6_000_000);
}

#[test]
fn an_inner_qdisc_gets_what_is_due() {
    let mut netem =
        Netem::new(NetemConfig { delay: MILLI, ..NetemConfig::default() }, Rng::stream(1, 1));
    *netem.child_to_replace() = Fifo::new(FifoKind::Packets(1)).into();
    let mut bench = Bench::new(netem);
    bench.enqueue(0, frame(100));
    bench.enqueue(0, frame(101));
    assert_eq!(bench.dequeue(0), None);
    assert_eq!(bench.drain_lengths(1_000_000), [100], "the inner queue holds one");
    assert_eq!(bench.dropped_lengths(), [101]);
}

proptest! {
    /// Conservation whatever is configured, and never a packet before its time.
    #[test]
    fn conserves_packets(
        delay in 0i64..5_000_000,
        jitter in 0i64..5_000_000,
        loss: u32,
        duplicate: u32,
        reorder: u32,
        gap in 0u32..4,
        limit in 0u32..30,
        rate in prop::option::of(1_000_000u64..1_000_000_000),
        arrivals in prop::collection::vec((0u64..1_000_000, 60u32..1514), 1..60),
    ) {
        let plain = rate.map_or(NetemConfig::default(), at_rate);
        let independent = Correlated::default();
        let mut bench = netem(NetemConfig {
            limit,
            delay,
            jitter,
            loss: Loss::Random(loss / 2, independent),
            duplicate: (duplicate / 2, independent),
            reorder: (reorder, independent),
            gap,
            ..plain
        });
        let mut at = 0;
        let packets: Vec<_> = arrivals.into_iter().map(|(gap, len)| {
            at += gap;
            (at, frame(len))
        }).collect();
        let left = bench.run(packets);
        prop_assert!(left.is_sorted_by_key(|(at, _)| *at));
        prop_assert_eq!(bench.qdisc().backlog(), Backlog::default());
    }
}
