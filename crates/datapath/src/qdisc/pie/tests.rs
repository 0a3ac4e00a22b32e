use super::super::laws;
use super::super::testing::{Bench, flow_frame};
use super::*;

const MS: u64 = 1_000_000;
const ECT0: u8 = 2;

fn bench(config: PieConfig) -> Bench<Pie> {
    Bench::new(Pie::new(config, Rng::stream(1, 1)))
}

fn default() -> PieConfig {
    PieConfig::new(1514)
}

fn ticks(millis: u64) -> PschedTime {
    PschedTime::of(Duration::from_millis(millis))
}

/// `share` of one as a probability.
fn probability(share: f64) -> u64 {
    (MAX_PROBABILITY as f64 * share) as u64
}

/// With a probability and without the burst allowance, while ten packets wait for longer than the target.
fn with_probability(config: PieConfig, share: f64) -> Bench<Pie> {
    let mut bench = bench(config);
    for _ in 0..10 {
        bench.enqueue(0, flow_frame(1, 1514, 0));
    }
    bench.qdisc_mut().vars.exhaust_burst_allowance(probability(share), ticks(20));
    bench
}

#[test]
fn nothing_is_dropped_while_there_is_no_congestion() {
    let drops = |bench: &mut Bench<Pie>| {
        for _ in 0..40 {
            bench.enqueue(0, flow_frame(1, 1514, 0));
        }
        bench.qdisc().own_stats().dropped
    };
    assert!(drops(&mut with_probability(default(), 0.5)) > 0);
    // In the burst allowance.
    let mut burst = with_probability(default(), 0.5);
    burst.qdisc_mut().vars.restart();
    assert_eq!(drops(&mut burst), 0);
    // Half the target, and less than a fifth.
    for (share, delay, dropped) in [(0.19, 7, false), (0.21, 7, true), (0.19, 8, true)] {
        let mut bench = with_probability(default(), share);
        bench.qdisc_mut().vars.qdelay = ticks(delay);
        assert_eq!(drops(&mut bench) > 0, dropped, "{share} {delay}");
    }
    // Less than two full frames wait.
    let mut short = with_probability(default(), 0.5);
    for _ in 0..10 {
        short.dequeue(0);
    }
    short.qdisc_mut().vars.exhaust_burst_allowance(probability(0.5), ticks(20));
    for _ in 0..40 {
        short.enqueue(0, flow_frame(1, 1514, 0));
        short.dequeue(0);
        short.qdisc_mut().vars.qdelay = ticks(20);
    }
    assert_eq!(short.qdisc().own_stats().dropped, 0);
}

/// RFC 8033, section 5.4: after a drop there is none until probabilities add up to 0.85, and one at 8.5.
#[test]
fn drops_are_spread() {
    let mut bench = with_probability(default(), 0.25);
    let mut gaps = Vec::new();
    let mut gap = 0;
    for _ in 0..4000 {
        gap += 1;
        if bench.enqueue(0, flow_frame(1, 1514, 0)) == Enqueue::Dropped {
            gaps.push(gap);
            gap = 0;
        } else {
            bench.dequeue(0);
            bench.qdisc_mut().vars.qdelay = ticks(20);
        }
    }
    assert!(gaps.iter().all(|gap| (4..=34).contains(gap)), "{gaps:?}");
    // Three that pass, and four until one with a chance of a quarter strikes.
    let mean = gaps.iter().sum::<u32>() as f64 / gaps.len() as f64;
    assert!((6.5..7.5).contains(&mean), "{mean}");
}

#[test]
fn small_packets_are_spared_in_bytemode() {
    let params = PieParams { bytemode: true, ..default().params };
    for (bytemode, len, dropped) in
        [(false, 151, 200..350), (true, 151, 15..35), (true, 1514, 200..350)]
    {
        let config = PieConfig { params: PieParams { bytemode, ..params }, ..default() };
        let mut bench = with_probability(PieConfig { limit: 5000, ..config }, 0.2);
        for _ in 0..2000 {
            bench.enqueue(0, flow_frame(1, len, 0));
        }
        let drops = bench.qdisc().own_stats().dropped;
        assert!(dropped.contains(&drops), "{bytemode} {len}: {drops}");
    }
}

#[test]
fn ecn_marks_up_to_a_tenth() {
    for (share, ecn, tos, marks) in [
        (0.09, true, ECT0, true),
        (0.11, true, ECT0, false),
        (0.09, false, ECT0, false),
        (0.09, true, 0, false),
    ] {
        let mut bench = with_probability(PieConfig { ecn, ..default() }, share);
        for _ in 0..500 {
            bench.enqueue(0, flow_frame(1, 1514, tos));
        }
        let own = *bench.qdisc().own_stats();
        assert_eq!((own.ecn_mark > 0, own.dropped > 0), (marks, !marks), "{share} {ecn} {tos}");
        assert_eq!(own.packets_in + own.dropped, 510);
        assert!(bench.reasons().iter().all(|&reason| reason == Reason::QdiscCongested));
    }
}

#[test]
fn a_full_queue_drops_and_a_lower_limit_drops_from_the_head() {
    let mut bench = bench(PieConfig { limit: 3, ..default() });
    for len in [100, 200, 300, 400] {
        bench.enqueue(0, flow_frame(1, len, 0));
    }
    let own = *bench.qdisc().own_stats();
    assert_eq!((own.overlimit, own.dropped, own.maxq, own.packets_in), (1, 1, 2, 3));
    assert_eq!(bench.reasons(), [Reason::QdiscOverlimit]);
    let mut dropped = Vec::new();
    let mut pie = bench.qdisc().clone();
    let cx = &mut Cx { now: Instant::ZERO, dropped: &mut dropped };
    pie.change(PieConfig { limit: 1, ..default() }, cx);
    assert_eq!(dropped.iter().map(|(_, packet)| packet.len()).collect::<Vec<_>>(), [100, 200]);
    assert_eq!((pie.stats().drops, pie.backlog().packets), (3, 1));
}

/// 10 Mbit/s, measured over 16 KB at a time while as much waits.
#[test]
fn the_drain_rate_is_measured() {
    let params = PieParams { dq_rate_estimator: true, ..default().params };
    let mut bench = bench(PieConfig { params, ..default() });
    for _ in 0..100 {
        bench.enqueue(0, flow_frame(1, 1250, 0));
    }
    for nth in 1..=100 {
        bench.dequeue(nth * MS);
    }
    let rate = bench.qdisc().vars().avg_dq_rate();
    assert!(rate.abs_diff(1_250_000) < 100_000, "{rate}");
    // Of it follows the delay: 50 packets take 50 ms.
    let mut vars = *bench.qdisc().vars();
    vars.update(&params, 50 * 1250);
    let micros = vars.qdelay.shown_micros();
    assert!(micros.abs_diff(50_000) < 4_000, "{micros}");
}

/// Updates missed while nothing came or went are made up for, and hours of silence take a few steps.
#[test]
fn ticks_that_nobody_saw_count() {
    let at = |ms| Instant::from_nanos(ms * MS);
    let mut seldom = with_probability(default(), 0.3);
    let mut often = seldom.qdisc().clone();
    seldom.qdisc_mut().catch_up(at(5000));
    (0..=5000).for_each(|ms| often.catch_up(at(ms)));
    assert_eq!((seldom.qdisc().vars, seldom.qdisc().updates), (often.vars, often.updates));
    assert!(often.vars.probability > probability(0.3));
    for _ in 0..10 {
        seldom.dequeue(5001 * MS);
    }
    seldom.qdisc_mut().catch_up(at(1 << 40));
    assert_eq!(seldom.qdisc().vars, PieVars::default());
}

#[test]
fn the_laws_hold() {
    let nervous = |ecn, dq_rate_estimator| {
        let params = PieParams {
            target: PschedTime::of(Duration::from_micros(100)),
            alpha: 32,
            beta: 32,
            mtu: 60,
            dq_rate_estimator,
            ..default().params
        };
        PieConfig { limit: 30, tupdate: JIFFY, ecn, params }
    };
    for config in [default(), nervous(false, false), nervous(true, false), nervous(true, true)] {
        laws::check(|rng| Pie::new(config, rng)).expect("a lawful qdisc");
    }
}
