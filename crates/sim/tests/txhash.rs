//! The hash that a socket gives its packets: it stays until a timeout (`sk_txhash`,
//! `net.core.txrehash`), goes along within a kernel, and is not on a wire.

mod common;

use datapath::node::Port;
use datapath::packet::{Network, Packet};
use datapath::profile::Profile;
use datapath::tcp::config::TcpConfig;
use datapath::tcp::mib::Mib;
use datapath::units::{Duration, Instant, Rate};
use sim::link::{LinkConfig, LinkId};
use sim::record::Observer;
use sim::topology::Topology;
use std::cell::RefCell;
use std::rc::Rc;

/// The hashes of the packets that each end sent and got, in order, each run of equal ones once.
struct Tap {
    there: LinkId,
    back: LinkId,
    sent: Vec<u32>,
    answered: Vec<u32>,
    delivered: Vec<u32>,
    /// The flow labels that the first end sent, likewise.
    labels: Vec<u32>,
}

impl Observer for Tap {
    fn sent(&mut self, _: Instant, link: LinkId, packet: &Packet) {
        if link == self.there {
            note(&mut self.sent, packet);
            if let Network::Ipv6(ip) = packet.network
                && self.labels.last() != Some(&ip.flow_label.get())
            {
                self.labels.push(ip.flow_label.get());
            }
        } else if link == self.back {
            note(&mut self.answered, packet);
        }
    }

    fn delivered(&mut self, _: Instant, link: LinkId, packet: &Packet) {
        if link == self.there {
            note(&mut self.delivered, packet);
        }
    }
}

fn note(list: &mut Vec<u32>, packet: &Packet) {
    if list.last() != Some(&packet.meta.hash) {
        list.push(packet.meta.hash);
    }
}

/// Addresses of both ends.
const V4: [&str; 2] = ["10.0.0.1", "10.0.0.2"];
const V6: [&str; 2] = ["fd00::1", "fd00::2"];

fn run(profile: Profile, veth: bool, rules: &[&str]) -> (Tap, [Mib; 2]) {
    transfer(TcpConfig { profile, ..TcpConfig::default() }, veth, V4, rules)
}

fn run_with(tcp: TcpConfig, ends: [&str; 2], rules: &[&str]) -> (Tap, [Mib; 2]) {
    transfer(tcp, true, ends, rules)
}

/// Sends 500 kB over a link with these rules: the hashes seen, and the counters of both ends.
fn transfer(tcp: TcpConfig, veth: bool, ends: [&str; 2], rules: &[&str]) -> (Tap, [Mib; 2]) {
    let mut net = Topology::new();
    let (a, b) = (net.host("A"), net.host("B"));
    let way =
        LinkConfig { veth, ..LinkConfig::new(Rate::from_mbit(10), Duration::from_millis(10)) };
    let rules = |letter: char| {
        let own = rules.iter().filter(|rule| rule.starts_with(letter));
        own.map(|rule| rule.parse().expect("a rule")).collect()
    };
    let there = LinkConfig { rules: rules('f'), ..way.clone() };
    let back = LinkConfig { rules: rules('r'), direction: sim::rules::Direction::Reverse, ..way };
    let wire = net.wire_with(a, b, there, back);
    let [left, right] = ends.map(|end| (end.parse().expect("an address"), 30));
    net.addresses(wire, left, right);
    let mut world = common::transfer(&net, [a, b], tcp, 500_000);
    let tap = Rc::new(RefCell::new(Tap {
        there: world.link_of(a, Port(0)),
        back: world.link_of(b, Port(0)),
        sent: Vec::new(),
        answered: Vec::new(),
        delivered: Vec::new(),
        labels: Vec::new(),
    }));
    world.observe(Box::new(Rc::clone(&tap)));
    world.run_until(Instant::ZERO + Duration::from_secs(30));
    let counters = [a, b].map(|node| world.host(node).tcp_mib());
    drop(world);
    (Rc::into_inner(tap).expect("the world is gone").into_inner(), counters)
}

/// Nothing gets through for a while: times in ns.
const CUT: &str = "f time 100000000 900000000 drop";
/// Data arrives, but no ACK comes back.
const DEAF: &str = "r time 100000000 1900000000 drop";

#[test]
fn a_connection_has_one_hash_and_its_peer_another() {
    let (tap, [sender, receiver]) = run(Profile::linux_7(), true, &[]);
    assert_eq!((tap.sent.len(), tap.answered.len()), (1, 1));
    assert!(tap.sent[0] != 0 && tap.answered[0] != 0 && tap.sent != tap.answered);
    assert_eq!(tap.delivered, tap.sent, "what one kernel knows goes along");
    assert_eq!((sender.timeout_rehash, receiver.duplicate_data_rehash), (0, 0));
}

#[test]
fn a_wire_carries_no_hash() {
    let (tap, _) = run(Profile::linux_7(), false, &[]);
    assert_eq!(tap.delivered, [0]);
}

#[test]
fn every_timeout_draws_another() {
    let (tap, [sender, _]) = run(Profile::linux_7(), true, &[CUT]);
    assert!(sender.timeouts >= 2, "{}", sender.timeouts);
    assert_eq!(sender.timeout_rehash, sender.timeouts);
    assert_eq!(tap.sent.len() as u64, 1 + sender.timeouts);
}

/// Until 6.9 the receiver of data that comes again and again tried another way for its ACKs.
#[test]
fn a_receiver_whose_acks_are_lost_rehashes_until_6_9() {
    let (tap, [_, receiver]) = run(Profile::linux_6_1(), true, &[DEAF]);
    assert!(receiver.duplicate_data_rehash > 0);
    assert_eq!(tap.answered.len() as u64, 1 + receiver.duplicate_data_rehash);
    let (tap, [_, receiver]) = run(Profile::linux_7(), true, &[DEAF]);
    assert_eq!((receiver.duplicate_data_rehash, tap.answered.len()), (0, 1));
}

#[test]
fn sockets_of_2007_have_none() {
    let (tap, [sender, _]) = run(Profile::linux_2_6_22(), true, &[CUT]);
    assert_eq!((tap.sent, sender.timeout_rehash), (vec![0], 0));
}

/// Data is sent again with another label, over IPv6: then the receiver draws another as well (seen on 6.18
/// and 7.3). Over IPv4, and where `net.core.txrehash` is off, nobody does.
#[test]
fn a_receiver_whose_acks_are_lost_follows_the_flow_label() {
    let off = |on: u32| {
        let mut config = TcpConfig::default();
        config.sysctl.txrehash = on;
        config
    };
    let (tap, [sender, receiver]) = run_with(off(1), V6, &[DEAF]);
    assert!(receiver.duplicate_data_rehash > 0 && sender.timeout_rehash > 0);
    assert_eq!(tap.answered.len() as u64, 1 + receiver.duplicate_data_rehash);
    let (_, [sender, receiver]) = run_with(off(1), V4, &[DEAF]);
    assert!(sender.timeout_rehash > 0 && receiver.duplicate_data_rehash == 0);
    let (tap, [sender, receiver]) = run_with(off(0), V6, &[DEAF]);
    assert!(sender.timeouts > 0);
    assert_eq!((sender.timeout_rehash, receiver.duplicate_data_rehash), (0, 0));
    assert_eq!((tap.sent.len(), tap.labels.len()), (1, 1), "and the label stays");
}

/// The label is the hash, its upper half last (`ip6_make_flowlabel`); without `auto_flowlabels` there is none,
/// and with `flowlabel_state_ranges` its highest bit is set.
#[test]
fn an_ipv6_packet_is_labelled_by_the_hash() {
    for (auto, ranges) in [(1, 0), (3, 1), (0, 0), (2, 1)] {
        let mut config = TcpConfig::default();
        config.sysctl.auto_flowlabels = auto;
        config.sysctl.flowlabel_state_ranges = ranges;
        let (tap, _) = run_with(config, V6, &[CUT]);
        let of = |hash: &u32| match auto & 1 {
            0 => 0,
            _ => (hash.rotate_left(16) & 0xf_ffff) | ranges << 19,
        };
        let mut expected: Vec<u32> = tap.sent.iter().map(of).collect();
        expected.dedup();
        assert_eq!(tap.labels, expected, "{auto} {ranges}");
        assert!(tap.sent.len() > 2);
    }
}
