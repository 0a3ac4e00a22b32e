use super::*;
use crate::qdisc::testing::{Bench, flow_frame, super_frame};

fn bench(config: FqConfig) -> Bench<Fq> {
    Bench::new(Fq::new(config, Rng::stream(1, 1)))
}

/// Fills the fast path, so that what follows joins flows.
fn fill_fast_path(bench: &mut Bench<Fq>) {
    for _ in 0..FAST_PATH_LEN {
        bench.enqueue(0, of_socket(9, 60, 0));
    }
}

fn of_socket(owner: u32, len: u32, departs_in_ns: u32) -> Packet {
    let mut packet = flow_frame(1, len, 0);
    packet.transport = super_frame(1, 1).transport;
    packet.meta.owner = owner;
    packet.meta.departs_in_ns = departs_in_ns;
    packet
}

fn datagram_of(owner: u32, len: u32, port: u16) -> Packet {
    let mut packet = flow_frame(port, len, 0);
    packet.meta.owner = owner;
    packet
}

#[test]
fn a_packet_leaves_at_the_time_that_its_sender_set() {
    let mut bench = bench(FqConfig::new(1514));
    bench.enqueue(0, of_socket(1, 1000, 5_000));
    bench.enqueue(0, of_socket(1, 1000, 2_000_000));
    bench.enqueue(0, of_socket(2, 900, 0));
    assert_eq!(bench.dequeue(0).map(|packet| packet.wire_len()), Some(900));
    assert!(bench.dequeue(0).is_none());
    assert!(bench.dequeue(4_999).is_none());
    let slack = 10_000;
    assert_eq!(bench.qdisc().wake_at(), Some(Instant::from_nanos(5_000 + slack)));
    assert!(bench.dequeue(5_000).is_some());
    assert!(bench.dequeue(1_999_999).is_none());
    assert!(bench.dequeue(2_000_000).is_some());
    let counts = bench.qdisc().flow_counts();
    assert_eq!((counts.flows, counts.throttled), (2, 0));
    assert_eq!(bench.qdisc().own_stats().throttled, 2);
}

#[test]
fn sockets_take_turns_by_bytes() {
    let usual = FqConfig { quantum: 2_000, initial_quantum: 2_000, ..FqConfig::new(1514) };
    // A rate that nobody keeps takes no credit, either.
    let unpaced = FqConfig { pacing: false, maxrate: 50_000, ..usual };
    for config in [usual, unpaced] {
        let mut bench = bench(config);
        fill_fast_path(&mut bench);
        for _ in 0..20 {
            bench.enqueue(0, of_socket(1, 1000, 0));
            bench.enqueue(0, of_socket(2, 500, 0));
        }
        for _ in 0..FAST_PATH_LEN {
            assert_eq!(bench.dequeue(0).map(|packet| packet.wire_len()), Some(60));
        }
        let mut bytes = [0; 2];
        for _ in 0..12 {
            let packet = bench.dequeue(0).expect("both have packets");
            bytes[packet.meta.owner as usize - 1] += packet.wire_len();
        }
        assert_eq!(bytes, [4_000, 4_000]);
    }
}

/// Without a packet there is nothing to look for (`fq_dequeue`), so a flow whose last one has left stays where it is,
/// with the credit that it has, and is not a new one when it comes back.
#[test]
fn a_flow_is_not_idle_before_the_queue_is_looked_through_again() {
    let mut bench =
        bench(FqConfig { quantum: 1_000, initial_quantum: 1_000, ..FqConfig::new(1514) });
    bench.enqueue(0, of_socket(1, 3_000, 5_000));
    bench.enqueue(0, of_socket(2, 500, 5_000));
    assert!(bench.dequeue(0).is_none());
    assert!(bench.dequeue(5_000).is_some());
    assert!(bench.dequeue(5_000).is_some());
    assert!(bench.dequeue(5_000).is_none());
    let later = 60_000_000;
    for _ in 0..FAST_PATH_LEN {
        bench.enqueue(later, of_socket(9, 60, 0));
    }
    bench.enqueue(later, of_socket(1, 1_000, 0));
    bench.enqueue(later, of_socket(2, 500, 0));
    for _ in 0..FAST_PATH_LEN {
        assert_eq!(bench.dequeue(later).map(|packet| packet.wire_len()), Some(60));
    }
    let owners = [bench.dequeue(later), bench.dequeue(later)].map(|it| it.map(|it| it.meta.owner));
    assert_eq!(owners, [Some(2), Some(1)]);
}

/// A flow is put into a list before it hears of its band (`fq_enqueue`), so the first time it waits for those of the band
/// that is being served.
#[test]
fn a_flow_that_was_never_listed_goes_behind_old_ones() {
    let mut bench = bench(FqConfig::new(1514));
    bench.enqueue(0, of_socket(1, 1_000, 5_000));
    bench.enqueue(0, of_socket(1, 1_000, 9_000));
    assert!(bench.dequeue(0).is_none());
    assert!(bench.dequeue(5_000).is_some());
    assert!(bench.dequeue(5_000).is_none());
    bench.enqueue(9_000, of_socket(2, 1_000, 0));
    let owners = [bench.dequeue(9_000), bench.dequeue(9_000)].map(|it| it.map(|it| it.meta.owner));
    assert_eq!(owners, [Some(1), Some(2)]);
}

#[test]
fn maxrate_paces_what_has_no_time_of_its_own() {
    let config = FqConfig {
        maxrate: 1_000_000,
        quantum: 1_000,
        initial_quantum: 1_000,
        ..FqConfig::new(1514)
    };
    let mut bench = bench(config);
    for _ in 0..4 {
        bench.enqueue(0, datagram_of(1, 1000, 53));
    }
    // A thousand bytes take a millisecond.
    let mut left = Vec::new();
    let mut now = 0;
    while left.len() < 4 {
        match bench.dequeue(now) {
            Some(_) => left.push(now),
            None => now += 100_000,
        }
    }
    assert_eq!(left, [0, 1_000_000, 2_000_000, 3_000_000]);
}

/// As on Linux 7.3: who finds nobody waiting, or only those whose time has not come, joins no flow.
#[test]
fn a_packet_passes_those_whose_time_has_not_come() {
    let mut bench = bench(FqConfig::new(1514));
    bench.enqueue(0, of_socket(1, 1000, 0));
    assert!(bench.dequeue(0).is_some());
    assert_eq!(bench.qdisc().flow_counts().flows, 0);
    bench.enqueue(0, of_socket(1, 1000, 50_000));
    assert!(bench.dequeue(0).is_none());
    for _ in 0..9 {
        bench.enqueue(10_000, of_socket(2, 500, 0));
    }
    // Eight pass, the ninth has a flow of its own.
    let counts = bench.qdisc().flow_counts();
    assert_eq!((counts.flows, counts.inactive, counts.throttled), (2, 0, 1));
    assert_eq!(bench.drain_lengths(10_000).len(), 9);
    // The time of the first has come, and nobody has looked.
    bench.enqueue(50_000, of_socket(3, 500, 0));
    assert_eq!(bench.qdisc().flow_counts().flows, 3);
}

#[test]
fn the_timer_stays_for_a_time_shortly_before_its_own() {
    let slack = 10_000;
    let mut bench = bench(FqConfig::new(1514));
    let wake = |bench: &mut Bench<Fq>, owner, at: u32| {
        bench.enqueue(0, of_socket(owner, 1000, at));
        assert!(bench.dequeue(0).is_none());
        bench.qdisc().wake_at().map(Instant::as_nanos)
    };
    assert_eq!(wake(&mut bench, 1, 100_000), Some(100_000 + slack));
    assert_eq!(wake(&mut bench, 2, 90_000), Some(100_000 + slack));
    assert_eq!(wake(&mut bench, 3, 89_999), Some(89_999 + slack));
    // Others may find packets whose time has come before the timer does; then it is set again.
    assert!(bench.dequeue(89_999).is_some());
    assert!(bench.dequeue(89_999).is_none());
    assert_eq!(bench.qdisc().wake_at(), Some(Instant::from_nanos(90_000 + slack)));
}

#[test]
fn limits_are_of_flow_and_of_all() {
    let mut bench = bench(FqConfig { limit: 5, flow_limit: 3, ..FqConfig::new(1514) });
    // Of its own time each, so that no one is fast.
    for owner in [1, 1, 1, 1, 2, 2, 2] {
        bench.enqueue(0, of_socket(owner, 100, 1_000));
    }
    assert_eq!(bench.qdisc().own_stats().flows_plimit, 1);
    assert_eq!(bench.qdisc().stats().drops, 2);
    assert_eq!(bench.qdisc().backlog().packets, 5);
}

#[test]
fn packets_beyond_the_horizon_are_dropped_or_capped() {
    let near = Duration::from_millis(1);
    for (drop, kept) in [(true, 0), (false, 1)] {
        let config = FqConfig { horizon: near, horizon_drop: drop, ..FqConfig::new(1514) };
        let mut bench = bench(config);
        bench.enqueue(0, of_socket(1, 100, 2_000_000));
        assert_eq!(bench.qdisc().backlog().packets, kept);
        assert!(bench.dequeue(999_999).is_none());
        assert_eq!(bench.dequeue(1_000_000).is_some(), kept == 1);
    }
}

/// A datagram socket has a flow for each peer (`fq_classify` of a socket that is not connected).
#[test]
fn datagrams_of_one_socket_go_by_their_peers() {
    let mut bench = bench(FqConfig { flow_limit: 1, ..FqConfig::new(1514) });
    let datagram = |port: u16| {
        let mut packet = datagram_of(1, 500, port);
        packet.meta.departs_in_ns = 1_000;
        packet
    };
    let taken = |bench: &mut Bench<Fq>, packet| bench.enqueue(0, packet) == Enqueue::Queued;
    assert!(taken(&mut bench, datagram(1_000)) && taken(&mut bench, datagram(2_000)));
    assert!(!taken(&mut bench, datagram(2_000)), "the flow of a peer is full");
    assert!(taken(&mut bench, of_socket(1, 500, 1_000)), "and a connection has one of its own");
    assert_eq!((bench.qdisc().flow_counts().flows, bench.qdisc().own_stats().flows_plimit), (3, 1));
}

/// Packets of a connection have a time, if only that of now: each is spaced by its own length from the first on,
/// with no quantum to begin with.
#[test]
fn maxrate_spaces_each_packet_of_a_connection() {
    let mut bench = bench(FqConfig { maxrate: 1_000_000, ..FqConfig::new(1514) });
    for _ in 0..4 {
        bench.enqueue(0, of_socket(1, 1_000, 0));
    }
    let mut left = Vec::new();
    for now in (0..4_000_000).step_by(250_000) {
        left.extend(core::iter::from_fn(|| bench.dequeue(now)).map(|_| now));
    }
    assert_eq!(left, [0, 1_000_000, 2_000_000, 3_000_000]);
}

/// Flows that are idle are forgotten only where they are more than half of all, and eight at a time.
#[test]
fn idle_flows_are_forgotten_a_few_at_a_time() {
    let mut bench = bench(FqConfig { buckets: 8, ..FqConfig::new(1514) });
    for socket in 1..=16 {
        bench.enqueue(0, of_socket(socket, 100, 1_000));
    }
    // Lists are looked through as long as something waits.
    bench.enqueue(0, of_socket(17, 100, 4_000_000_000));
    while bench.dequeue(1_000).is_some() {}
    bench.enqueue(3_500_000_000, of_socket(18, 100, 1_000));
    assert_eq!((bench.qdisc().flow_counts().flows, bench.qdisc().own_stats().gc_flows), (10, 8));
}

/// `SO_MAX_PACING_RATE` of a datagram socket: its packets pass nobody (`fq_fastpath_check`), and each is a time of the
/// rate behind the one before; those of others go as ever.
#[test]
fn a_datagram_socket_with_a_rate_is_paced() {
    let slow = 100_000;
    let mut bench = bench(FqConfig { low_rate_threshold: slow, ..FqConfig::new(1514) });
    bench.qdisc_mut().limit_sender(7, slow);
    assert!(!bench.qdisc().passes(&datagram_of(7, 1_000, 1), Instant::ZERO));
    assert!(bench.qdisc().passes(&datagram_of(8, 1_000, 1), Instant::ZERO));
    for _ in 0..3 {
        assert_eq!(bench.enqueue(0, datagram_of(7, 1_000, 1)), Enqueue::Queued);
    }
    assert!(bench.dequeue(0).is_some());
    assert!(bench.dequeue(9_999_999).is_none());
    assert!(bench.dequeue(10_000_000).is_some());
    bench.enqueue(10_000_000, datagram_of(8, 500, 2));
    assert_eq!(bench.dequeue(10_000_000).map(|packet| packet.wire_len()), Some(500));
    // What waits goes by what holds when it leaves.
    assert!(bench.dequeue(19_999_999).is_none());
    assert!(bench.dequeue(20_000_000).is_some());
    bench.qdisc_mut().limit_sender(7, u64::MAX);
    assert!(bench.qdisc().passes(&datagram_of(7, 1_000, 1), Instant::from_nanos(30_000_000)));
}

/// Above the threshold a quantum goes at once, and its time is paid together; `maxrate` holds besides.
#[test]
fn a_datagram_socket_with_a_high_rate_pays_by_quanta() {
    let config = FqConfig { quantum: 3_000, initial_quantum: 3_000, ..FqConfig::new(1514) };
    let mut bench = bench(FqConfig { maxrate: 1_000_000, ..config });
    bench.qdisc_mut().limit_sender(7, 2_000_000);
    for _ in 0..6 {
        bench.enqueue(0, datagram_of(7, 1_000, 1));
    }
    for _ in 0..3 {
        assert!(bench.dequeue(0).is_some());
    }
    assert!(bench.dequeue(2_999_999).is_none(), "3,000 bytes at the lower of two rates");
    assert!(bench.dequeue(3_000_000).is_some());
    bench.qdisc_mut().limit_sender(7, 500_000);
    bench.dequeue(3_000_000);
    bench.dequeue(3_000_000);
    bench.enqueue(3_000_000, datagram_of(7, 1_000, 1));
    assert!(bench.dequeue(8_999_999).is_none(), "3,000 bytes at the socket's");
    assert!(bench.dequeue(9_000_000).is_some());
}
