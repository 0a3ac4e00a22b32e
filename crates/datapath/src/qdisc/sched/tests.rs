//! Trees of qdiscs: peeking, taking out, and conservation through every level.

use super::*;
use crate::qdisc::cake;
use crate::qdisc::codel::{Codel, CodelConfig, CodelTime};
use crate::qdisc::dualpi2::{DualPi2, DualPi2Config, Gain};
use crate::qdisc::fifo::PfifoFast;
use crate::qdisc::fq::FqConfig;
use crate::qdisc::fq_codel::{FqCodel, FqCodelConfig};
use crate::qdisc::htb::{ClassConfig, Htb, HtbConfig};
use crate::qdisc::netem::{Netem, NetemConfig};
use crate::qdisc::pie::{Pie, PieConfig, PschedTime};
use crate::qdisc::prio::{Prio, PrioConfig};
use crate::qdisc::rate::RateConfig;
use crate::qdisc::red::{Red, RedConfig};
use crate::qdisc::tbf::{Tbf, TbfConfig};
use crate::qdisc::testing::{Bench, flow_frame, frame};
use crate::rng::Rng;
use crate::units::{Duration, Rate};
use proptest::prelude::*;

const ROOT: Handle = Handle::new(1, 0);

fn tbf_around(child: impl Into<AnyQdisc>) -> Sched {
    let rate = RateConfig::new(Rate::from_mbit(10));
    let config = TbfConfig { rate, burst: 3100, peak: None, limit: 0 };
    Sched::new(ROOT, Tbf::new(config, Sched::new(Handle::new(0x10, 0), child)))
}

fn red() -> Red {
    let config = RedConfig {
        limit: 20_000,
        min: 3000,
        max: 9000,
        wlog: 2,
        plog: 1,
        max_probability: 1 << 30,
        scell_log: 10,
        idle_decay: Box::new([1; 256]),
        ecn: true,
        harddrop: false,
        adaptive: true,
        nodrop: false,
    };
    Red::new(config, Fifo::new(FifoKind::Bytes(20_000)).into(), Rng::stream(1, 2))
}

fn nervous_codel() -> CodelConfig {
    let mut config = CodelConfig { limit: 8, ..CodelConfig::new(60) };
    config.params.target = CodelTime::of(Duration::from_micros(100));
    config.params.interval = CodelTime::of(Duration::from_millis(2));
    config
}

fn nervous_dualpi2() -> DualPi2Config {
    DualPi2Config {
        limit: 8,
        target: Duration::from_micros(100),
        tupdate: Duration::from_micros(500),
        alpha: Gain::from_256th_hz(100_000),
        mtu: 60,
        ..DualPi2Config::new(1514)
    }
}

/// A packet's priority says its class: 1 to 3, of which the third has a codel; all others go past them.
fn htb() -> Htb {
    let config = HtbConfig { default: 2, rate2quantum: 10, direct_qlen: 4, tx_queue_len: 3 };
    let mut htb = Htb::new(config, Handle::new(0x10, 0));
    let cx = &mut Cx { now: Instant::ZERO, dropped: &mut Vec::new() };
    let rate = |mbit| RateConfig::new(Rate::from_mbit(mbit));
    for minor in [9, 1, 2, 3] {
        let (rate, ceil) = (rate(2), rate(6));
        let (buffer, cbuffer) = (rate.time_of(1600), ceil.time_of(1600));
        let prio = u32::from(minor);
        let class = ClassConfig { rate, ceil, buffer, cbuffer, prio, quantum: 1500 };
        let added = htb.add_class(Handle::new(0x10, minor), Handle::new(0x10, 9), &class, cx);
        assert_eq!(added, Ok(None));
    }
    *htb.leaf_mut(Handle::new(0x10, 3)).expect("a leaf") = Codel::new(nervous_codel()).into();
    htb
}

fn nervous_pie() -> PieConfig {
    let mut config = PieConfig { limit: 8, ecn: true, ..PieConfig::new(60) };
    config.tupdate = Duration::from_millis(1);
    config.params.target = PschedTime::of(Duration::from_micros(100));
    (config.params.alpha, config.params.beta) = (32, 32);
    config
}

fn children() -> Vec<AnyQdisc> {
    let rng = || Rng::stream(1, 1);
    let params = nervous_codel().params;
    let fq_codel = FqCodelConfig { limit: 8, params, ..FqCodelConfig::new(1514) };
    let dualpi2 = nervous_dualpi2();
    let netem = NetemConfig { delay: 300_000, jitter: 200_000, limit: 8, ..NetemConfig::default() };
    let mut prio = Prio::new(PrioConfig::default(), Handle::new(0x10, 0));
    prio.bands_mut()[1] = Codel::new(nervous_codel()).into();
    vec![
        Fifo::new(FifoKind::Bytes(9000)).into(),
        Fifo::new(FifoKind::HeadDrop(5)).into(),
        PfifoFast::new(5).into(),
        red().into(),
        Codel::new(nervous_codel()).into(),
        FqCodel::new(fq_codel, Handle::new(0x10, 0), rng()).into(),
        DualPi2::new(dualpi2, Handle::new(0x10, 0), rng()).into(),
        Pie::new(nervous_pie(), rng()).into(),
        Netem::new(netem, rng()).into(),
        prio.into(),
        htb().into(),
    ]
}

/// A decision at dequeue falls when the parent looks, not when it has tokens: the packet that
/// is looked at then no longer counts as waiting longer.
#[test]
fn peeking_takes_the_decision() {
    let mut config = CodelConfig::new(1514);
    config.params.ce_threshold = CodelTime::of(Duration::from_millis(1));
    let mut bench = Bench::new(tbf_around(Codel::new(config)));
    for _ in 0..4 {
        bench.enqueue(0, flow_frame(1, 1514, 2));
    }
    // Two fit the burst; the third is looked at now and leaves late, but unmarked.
    let tos = |packet: Option<Packet>| packet.expect("a packet").network.tos();
    assert_eq!([0, 0].map(|at| tos(bench.dequeue(at))), [2, 2]);
    assert_eq!(bench.dequeue(0), None);
    assert_eq!(bench.qdisc().backlog().packets, 2, "what is held still counts");
    assert_eq!([5_000_000, 5_000_000].map(|at| tos(bench.dequeue(at))), [2, 3]);
}

/// As Linux 6.1 does it; what pings showed after `tc qdisc del dev DEV parent CLASS`.
#[test]
fn a_class_whose_qdisc_was_deleted_gets_what_linux_gives_it() {
    let child = || Sched::new(Handle::new(0x20, 0), Fifo::pfifo_default());
    let around = |mut qdisc: AnyQdisc| {
        match &mut qdisc {
            AnyQdisc::Tbf(tbf) => *tbf.child_mut() = child(),
            AnyQdisc::Red(red) => *red.child_mut() = child(),
            AnyQdisc::Netem(netem) => *netem.child_to_replace() = child(),
            AnyQdisc::Prio(prio) => prio.bands_mut()[0] = child(),
            other => panic!("{} has no class", other.kind()),
        }
        Sched::new(ROOT, qdisc)
    };
    for (parent, passes) in [
        (tbf_around(Fifo::pfifo_default()).qdisc, false),
        (red().into(), false),
        (Netem::new(NetemConfig::default(), Rng::stream(1, 1)).into(), true),
        (
            Prio::new(PrioConfig { priomap: [0; 16], ..PrioConfig::default() }, Handle::new(1, 0))
                .into(),
            true,
        ),
    ] {
        let mut root = around(parent);
        let kind = root.qdisc().kind();
        assert!(root.detach(Handle::new(9, 1)).is_none(), "{kind}: no such class");
        let taken = root.detach(Handle::new(1, 1)).expect(kind);
        assert_eq!(taken.handle, Handle::new(0x20, 0), "{kind}");
        assert!(root.find_mut(taken.handle).is_none(), "{kind}");
        let mut bench = Bench::new(root);
        bench.enqueue(0, frame(100));
        assert_eq!(bench.dequeue(0).is_some(), passes, "{kind}");
    }
}

#[test]
fn a_changed_red_has_a_new_child() {
    let mut red = red();
    *red.child_mut() = Sched::new(Handle::new(0x20, 0), Fifo::pfifo_default());
    let mut dropped = Vec::new();
    let mut cx = Cx { now: Instant::ZERO, dropped: &mut dropped };
    red.enqueue(frame(100), &mut cx);
    red.change(red.config().clone(), &mut cx);
    assert_eq!(red.child().handle, Handle::NONE);
    assert_eq!((red.child().qdisc().kind(), red.stats().drops), ("bfifo", 1));
    assert_eq!(dropped.len(), 1);
}

#[test]
fn a_parent_counts_the_drops_of_its_children() {
    let mut bench = Bench::new(tbf_around(Fifo::new(FifoKind::Packets(1))));
    bench.enqueue(0, frame(100));
    bench.enqueue(0, frame(100));
    assert_eq!(bench.qdisc().stats().drops, 1);
}

proptest! {
    /// Whatever is inside the bucket, packets are conserved (by the bench), all of them come out
    /// in the end, and parent and child agree on what they dropped.
    #[test]
    fn trees_conserve_packets(
        which in 0..children().len(),
        arrivals in prop::collection::vec(
            (0u64..2_000_000, 60u32..1514, 0u16..4, 0u8..4, 0u32..8),
            1..80,
        ),
    ) {
        let mut bench = Bench::new(tbf_around(children().swap_remove(which)));
        let mut at = 0;
        let mut packets = Vec::new();
        for (gap, len, port, ecn, priority) in arrivals {
            at += gap;
            let mut packet = flow_frame(port, len, ecn);
            packet.meta.priority = if priority > 4 { 0x10_0000 + priority % 4 } else { priority };
            packet.meta.truesize = 2304;
            packets.push((at, packet));
        }
        let arrived = packets.len();
        let left = bench.run(packets).len();
        let dropped = bench.dropped_lengths().len();
        prop_assert_eq!(left + dropped, arrived);
        prop_assert_eq!(bench.qdisc().backlog(), Backlog::default());
        prop_assert_eq!(bench.qdisc().stats().drops as usize, dropped);
    }
}

/// Whatever waits in whichever qdisc comes out of a purge, once and for that reason; what was
/// dropped before keeps its own.
#[test]
fn a_purge_leaves_nothing_and_reports_everything() {
    for child in children() {
        let mut dropped = Vec::new();
        let mut queue = tbf_around(child);
        let mut cx = Cx { now: Instant::ZERO, dropped: &mut dropped };
        for flow in 0..12 {
            queue.enqueue(flow_frame(flow, 1000, 0), &mut cx);
        }
        let sent = u32::from(queue.dequeue(&mut cx).is_some());
        let (waiting, before) = (queue.backlog().packets, cx.dropped.len());
        queue.purge(&mut cx);
        assert_eq!(queue.backlog(), Backlog::default());
        let purged = &dropped[before..];
        assert!(purged.iter().all(|(reason, _)| *reason == Reason::QueuePurge));
        assert_eq!(purged.len() as u32, waiting);
        assert_eq!(sent + waiting + before as u32, 12);
    }
}

/// After a purge a qdisc goes on as it began (`qdisc_reset`): all that comes then leaves, at a time that
/// its watchdog names, and nothing of before is left in its lists.
#[test]
fn a_purged_qdisc_goes_on() {
    let fq = Fq::new(FqConfig { maxrate: 100_000, ..FqConfig::new(1500) }, Rng::stream(1, 1));
    let cake =
        cake::Config { bandwidth: Rate::from_bits_per_sec(800_000), ..cake::Config::default() };
    let more: [AnyQdisc; 2] = [fq.into(), cake::Cake::new(cake, 1500, Rng::stream(1, 1)).into()];
    for child in children().into_iter().map(tbf_around).chain(more.map(Sched::from)) {
        let kind = match child.qdisc() {
            AnyQdisc::Tbf(tbf) => tbf.child().qdisc().kind(),
            other => other.kind(),
        };
        let mut bench = Bench::new(child);
        (0..12).for_each(|flow| {
            bench.enqueue(0, flow_frame(flow % 3, 1000, 0));
        });
        let left_before = bench.drain_lengths(20_000_000).len();
        bench.purge(21_000_000);
        assert_eq!(bench.qdisc().backlog(), Backlog::default(), "{kind}");
        let before = bench.dropped_lengths().len();
        assert_eq!(left_before + before, 12, "{kind}");
        let later = [30, 31, 32].map(|millis| (millis * 1_000_000, flow_frame(1, 500, 0)));
        assert_eq!(bench.run(later).len(), 3, "{kind}");
        assert_eq!(bench.dropped_lengths().len(), before, "{kind}");
        assert_eq!(bench.qdisc().wake_at(), None, "{kind}");
    }
}

/// A token bucket that was made smaller than a packet that waits for it never lets it go.
#[test]
fn packets_that_can_never_leave_are_purged() {
    let mut dropped = Vec::new();
    let mut cx = Cx { now: Instant::ZERO, dropped: &mut dropped };
    let mut queue = tbf_around(Fifo::pfifo_default());
    for _ in 0..4 {
        queue.enqueue(frame(1500), &mut cx);
    }
    let AnyQdisc::Tbf(tbf) = queue.qdisc_mut() else { unreachable!() };
    tbf.change(TbfConfig { burst: 100, ..*tbf.config() });
    assert!(queue.dequeue(&mut cx).is_none());
    queue.purge(&mut cx);
    assert_eq!((dropped.len(), queue.backlog()), (4, Backlog::default()));
}

/// The inner watchdog fires while a packet waits for tokens outside: nothing more can be had from
/// inside before that packet has left.
#[test]
fn an_inner_watchdog_that_has_fired_does_not_fire_again() {
    let netem = NetemConfig { delay: 1_000_000, ..NetemConfig::default() };
    let prio = Prio::new(PrioConfig::default(), Handle::new(0x10, 0));
    let mut queue = tbf_around(prio);
    let band = queue.class_mut(Handle::new(0x10, 3)).expect("a band");
    *band = Netem::new(netem, Rng::stream(1, 1)).into();
    let mut dropped = Vec::new();
    let mut cx = Cx { now: Instant::from_nanos(1), dropped: &mut dropped };
    let of_priority = |priority| {
        let mut packet = frame(1500);
        packet.meta.priority = priority;
        packet
    };
    queue.enqueue(of_priority(1), &mut cx);
    assert!(queue.dequeue(&mut cx).is_none(), "netem holds the only packet back");
    for _ in 0..4 {
        queue.enqueue(of_priority(6), &mut cx);
    }
    while queue.dequeue(&mut cx).is_some() {}
    let inner = Instant::from_nanos(1_000_001);
    assert_eq!(queue.wake_at(), Some(inner), "netem's watchdog comes before the tokens");
    let mut cx = Cx { now: inner, ..cx };
    assert!(queue.dequeue(&mut cx).is_none(), "the tokens are still missing");
    assert!(queue.wake_at() > Some(inner), "{:?}", queue.wake_at());
}

#[test]
fn bands_that_vanish_give_up_what_netem_holds_back() {
    let netem = NetemConfig { delay: 10_000_000, ..NetemConfig::default() };
    let mut prio = Prio::new(PrioConfig { bands: 3, priomap: [2; 16] }, ROOT);
    prio.bands_mut()[2] = Netem::new(netem, Rng::stream(1, 1)).into();
    let mut dropped = Vec::new();
    let mut cx = Cx { now: Instant::ZERO, dropped: &mut dropped };
    for _ in 0..5 {
        prio.enqueue(frame(1000), &mut cx);
    }
    prio.change(PrioConfig { bands: 2, priomap: [0; 16] }, &mut cx);
    assert!(dropped.iter().all(|(reason, _)| *reason == Reason::QueuePurge));
    assert_eq!((dropped.len(), prio.stats().drops, prio.backlog()), (5, 5, Backlog::default()));
}

/// `qdisc_tree_reduce_backlog()` reaches red as well when its parent looks at the next packet.
#[test]
fn red_counts_what_its_child_drops_to_be_looked_at() {
    let mut red = red();
    *red.child_mut() = Codel::new(nervous_codel()).into();
    let mut queue = Sched::from(red);
    let mut dropped = Vec::new();
    let mut cx = Cx { now: Instant::ZERO, dropped: &mut dropped };
    for _ in 0..6 {
        queue.enqueue(frame(60), &mut cx);
    }
    for millis in 1..8 {
        let mut cx = Cx { now: Instant::from_nanos(millis * 1_000_000), dropped: &mut dropped };
        if queue.peek(&mut cx).is_some() && millis % 2 == 0 {
            queue.dequeue(&mut cx);
        }
    }
    assert!(!dropped.is_empty());
    assert_eq!(queue.stats().drops, dropped.len() as u64);
}
