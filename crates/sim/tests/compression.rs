//! ACKs of out-of-order data: some at once, then held back (`tcp_comp_sack_*`).

mod common;

use datapath::node::Port;
use datapath::packet::Packet;
use datapath::profile::Profile;
use datapath::tcp::config::TcpConfig;
use datapath::units::{Duration, Instant, Rate};
use sim::link::{LinkConfig, LinkId};
use sim::record::Observer;
use sim::topology::Topology;
use std::cell::RefCell;
use std::rc::Rc;

/// When segments above a gap came to the receiver, and when it sent ACKs with SACK blocks, with which timestamps.
struct Tap {
    there: LinkId,
    back: LinkId,
    data: Vec<(Instant, u32)>,
    acks: Vec<(Instant, u32, u32)>,
}

impl Observer for Tap {
    fn sent(&mut self, now: Instant, link: LinkId, packet: &Packet) {
        let Some(tcp) = packet.tcp() else { return };
        if link == self.back && !tcp.options.sack.as_slice().is_empty() {
            let stamp = tcp.options.timestamps.map_or(0, |stamps| stamps.value);
            self.acks.push((now, tcp.ack.0, stamp));
        }
    }

    fn delivered(&mut self, now: Instant, link: LinkId, packet: &Packet) {
        let Some(tcp) = packet.tcp() else { return };
        if link == self.there && packet.body.len > 0 {
            self.data.push((now, tcp.seq.0));
        }
    }
}

/// The first ACK that was held back.
struct Held {
    /// When its segment came.
    came: Instant,
    /// When it was sent.
    sent: Instant,
    /// The millisecond in its timestamp.
    stamp: u64,
    /// When the latest segment before it had come.
    latest: Instant,
}

/// Sends 300 kB at `mbit` with a round trip of 40 ms, without the `lost`-th packet.
fn first_held_ack(mbit: u64, lost: u32, profile: Profile) -> Held {
    let mut net = Topology::new();
    let (a, b) = (net.host("A"), net.host("B"));
    let way = LinkConfig::new(Rate::from_mbit(mbit), Duration::from_millis(20));
    let rule = format!("f data {lost} drop").parse().expect("a rule");
    let there = LinkConfig { rules: vec![rule], ..way.clone() };
    net.wire_with(a, b, there, way);
    let mut world = common::transfer(&net, [a, b], TcpConfig::for_profile(profile), 300_000);
    let tap = Rc::new(RefCell::new(Tap {
        there: world.link_of(a, Port(0)),
        back: world.link_of(b, Port(0)),
        data: Vec::new(),
        acks: Vec::new(),
    }));
    world.observe(Box::new(Rc::clone(&tap)));
    world.run_until(Instant::ZERO + Duration::from_secs(5));

    let tap = tap.borrow();
    let missing = tap.acks[0].1;
    let above: Vec<Instant> =
        tap.data.iter().filter(|(_, seq)| *seq > missing).map(|(at, _)| *at).collect();
    let acks: Vec<Instant> = tap.acks.iter().map(|(at, ..)| *at).collect();
    let held = acks.iter().zip(&above).position(|(ack, at)| ack != at).expect("one is held back");
    assert!(held >= 3, "the first three are sent at once, in quick-ACK mode more: {held}");
    // The first was sent at once.
    let stamp = |ack: usize| u64::from(tap.acks[ack].2);
    let latest = above.iter().rfind(|at| **at < acks[held]);
    Held {
        came: above[held],
        sent: acks[held],
        stamp: stamp(held) - stamp(0) + acks[0].as_millis(),
        latest: *latest.expect("its own, at least"),
    }
}

/// Departure 8 of docs/LINUX.md: the timer fires at delay + slack, 1 ms + 0.01 ms by default when the
/// round trip is longer than 20 ms.
#[test]
fn a_held_duplicate_ack_waits_for_delay_and_slack() {
    let Held { came, sent, .. } = first_held_ack(100, 50, Profile::linux_7());
    assert_eq!(sent, came + Duration::from_micros(1_010));
}

/// A delayed-ACK timer that was still running finds the held ACK and sends it, at its jiffy.
#[test]
fn a_running_delayed_ack_timer_sends_it_earlier() {
    let Held { came, sent, .. } = first_held_ack(1_000, 29, Profile::linux_7());
    assert!(sent < came + Duration::from_micros(1_010), "{came:?} {sent:?}");
    assert_eq!(sent.as_nanos() % 1_000_000, 0);
}

/// As recorded from Linux 7.3 and 6.1: since 7.x the timer looks at the clock before it sends.
#[test]
fn a_held_ack_has_the_time_of_its_timer_in_its_timestamp() {
    let held = first_held_ack(100, 50, Profile::linux_7());
    assert_eq!(held.stamp, held.sent.as_millis());
    let held = first_held_ack(10, 50, Profile::linux_6_18());
    assert_eq!(held.stamp, held.latest.as_millis());
    assert!(held.stamp < held.sent.as_millis());
}
