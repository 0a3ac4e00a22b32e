//! Time zero is a time like any other: what begins then goes as what begins later.

use apps::{TcpSend, TcpSink};
use core::net::SocketAddr;
use datapath::tcp::config::TcpConfig;
use datapath::tcp::info::TcpInfo;
use datapath::tcp::state::State;
use datapath::units::{Duration, Instant, Rate};
use sim::link::LinkConfig;
use sim::rules::Rule;
use sim::topology::Topology;

/// Later, and a time at which the timer wheel lies as it does at zero.
const LATER: Duration = Duration::from_millis(4_096);

/// What both ends of a transfer of 300 kB that begins at `start` tell of themselves in each
/// millisecond of its first three seconds.
fn transfer(
    start: Duration,
    config: &TcpConfig,
    way: &LinkConfig,
    delay: Duration,
) -> Vec<TcpInfo> {
    let mut net = Topology::new();
    let (a, b) = (net.host("A"), net.host("B"));
    net.wire_with(a, b, way.clone(), LinkConfig::delay(delay));
    let from = SocketAddr::new(net.address(a).expect("wired"), 0);
    let to = SocketAddr::new(net.address(b).expect("wired"), 5001);
    let mut world = net.build(1).expect("possible");
    let begin = Instant::ZERO + start;
    world.add_app(b, Box::new(TcpSink::new(to, config.clone())), Instant::ZERO, None);
    let sender = TcpSend::bulk(from, to, config.clone()).limit(300_000);
    world.add_app(a, Box::new(sender), begin, None);
    let mut told = Vec::new();
    for millis in 0..3_000 {
        let now = begin + Duration::from_millis(millis) + Duration::from_micros(500);
        world.run_until(now);
        for node in [a, b] {
            let infos = world.host(node).tcp_connections().map(|tcp| tcp.info(now));
            told.extend(infos.filter(|info| info.state == State::Established));
        }
    }
    told
}

fn assert_same(what: &str, config: &TcpConfig, rules: &[&str], delay: Duration) {
    let way = LinkConfig {
        rules: rules.iter().map(|rule| rule.parse::<Rule>().expect("a rule")).collect(),
        ..LinkConfig::new(Rate::from_mbit(20), delay)
    };
    let at_zero = transfer(Duration::ZERO, config, &way, delay);
    let later = transfer(LATER, config, &way, delay);
    assert!(at_zero.len() > 20 && later.len() > 20, "{what}: there was a transfer");
    for (zero, later) in at_zero.iter().zip(&later) {
        assert_eq!(zero, later, "{what}");
    }
    assert_eq!(at_zero.len(), later.len(), "{what}");
}

#[test]
fn a_handshake_at_time_zero_is_measured() {
    let delay = Duration::from_millis(20);
    let way = LinkConfig::delay(delay);
    for start in [Duration::ZERO, Duration::from_secs(1)] {
        let first = transfer(start, &TcpConfig::default(), &way, delay)[0];
        assert_eq!((first.rtt, first.min_rtt), (40_000, 40_000), "begun after {start:?}");
        assert_eq!((first.rttvar, first.rto), (20_000, 240_000), "begun after {start:?}");
    }
}

#[test]
fn a_transfer_at_time_zero_runs_like_a_later_one() {
    let plain = TcpConfig::default();
    let mut no_timestamps = TcpConfig::default();
    no_timestamps.sysctl.tcp_timestamps = 0;
    let mut accurate = TcpConfig::default();
    accurate.sysctl.tcp_ecn = 3;
    accurate.sysctl.tcp_ecn_option = 1;
    let rules: [&[&str]; 6] = [
        &[],
        &["f syn 1 drop"],
        &["f syn 1 delay 1500000000"],
        &["f data 1 drop"],
        &["f every 7 20 drop"],
        &["f every 9 30 delay 30000000"],
    ];
    for rules in rules {
        for (name, config) in
            [("plain", &plain), ("no timestamps", &no_timestamps), ("AccECN", &accurate)]
        {
            for delay in [0, 100, 20_000] {
                let what = format!("{name}, {rules:?}, {delay} µs");
                assert_same(&what, config, rules, Duration::from_micros(delay));
            }
        }
    }
}
