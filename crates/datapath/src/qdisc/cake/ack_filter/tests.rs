//! Queues as lists of segments, and which of them goes. The mainline rules are checked against
//! thousands of recorded cases elsewhere; here each rule has its example, and version 8, of which
//! there are no recordings, has its table.

use super::super::config::AckFilter;
use super::super::pool::{Chain, Charge, Pool};
use super::*;
use crate::packet::seq::Seq;
use crate::packet::{SackBlock, Tcp, Timestamps, Transport};
use crate::qdisc::testing::{frame, super_frame};
use crate::units::Instant;
use proptest::prelude::*;

/// A pure ACK for `ack`.
fn ack(ack: u32) -> Packet {
    let mut packet = super_frame(1, 0);
    let Transport::Tcp(tcp) = &mut packet.transport else { unreachable!("a TCP frame") };
    *tcp = Tcp { ack: Seq(ack), flags: TcpFlags::ACK, ..*tcp };
    packet.finish()
}

fn with(mut packet: Packet, change: impl FnOnce(&mut Tcp)) -> Packet {
    let Transport::Tcp(tcp) = &mut packet.transport else { unreachable!("a TCP frame") };
    change(tcp);
    packet.finish()
}

fn flags(packet: Packet, flags: TcpFlags) -> Packet {
    with(packet, |tcp| tcp.flags |= flags)
}

fn sack(packet: Packet, blocks: &[(u32, u32)]) -> Packet {
    with(packet, |tcp| {
        for &(start, end) in blocks {
            tcp.options.sack.push(SackBlock { start: Seq(start), end: Seq(end) });
        }
    })
}

fn stamped(packet: Packet, value: u32, echo: u32) -> Packet {
    with(packet, |tcp| tcp.options.timestamps = Some(Timestamps { value, echo }))
}

fn data(mut packet: Packet) -> Packet {
    packet.body.len = 100;
    packet.finish()
}

fn port(packet: Packet, port: u16) -> Packet {
    with(packet, |tcp| tcp.src_port = port)
}

/// Queues `packets` one after the other: which are left.
fn left(filter: AckFilter, packets: &[Packet]) -> Vec<usize> {
    let mut queue: Vec<usize> = Vec::new();
    for (index, newest) in packets.iter().enumerate() {
        let waiting = queue.iter().map(|&index| &packets[index]);
        if let Some(position) = victim(filter, newest, waiting) {
            queue.remove(position);
        }
        queue.push(index);
    }
    queue
}

use AckFilter::{Aggressive, Conservative, V8Aggressive, V8Conservative};

#[test]
fn rising_acks_leave_two_or_one() {
    let rising: Vec<Packet> = (1..=6).map(ack).collect();
    assert_eq!(left(Conservative, &rising), [4, 5]);
    assert_eq!(left(Aggressive, &rising), [5]);
    assert_eq!(left(V8Conservative, &rising), [4, 5]);
    assert_eq!(left(V8Aggressive, &rising), [5]);
    assert_eq!(left(AckFilter::Off, &rising), [0, 1, 2, 3, 4, 5]);
}

#[test]
fn duplicate_acks_always_stay() {
    let duplicates: Vec<Packet> = (0..4).map(|_| ack(7)).collect();
    for filter in [Conservative, Aggressive, V8Conservative, V8Aggressive] {
        assert_eq!(left(filter, &duplicates), [0, 1, 2, 3], "{filter:?}");
    }
}

#[test]
fn other_connections_and_data_do_not_count() {
    let mixed = [ack(1), port(ack(2), 9), data(ack(3)), ack(4), port(ack(5), 9), ack(6)];
    assert_eq!(left(Aggressive, &mixed), [1, 2, 3, 4, 5], "alone, only the last may go");
    assert_eq!(left(V8Aggressive, &mixed), [2, 4, 5], "data triggers, and distance is no matter");
}

/// The difference that made version 8 be replaced: what each filter leaves of two ACKs.
#[test]
fn what_version_8_does_not_look_at() {
    let mss = |packet| with(packet, |tcp| tcp.options.mss = 1460);
    let cases: [(&str, Packet, Packet, bool, bool); 9] = [
        ("plain", ack(1), ack(2), true, true),
        ("newer time stamp", stamped(ack(1), 5, 5), stamped(ack(2), 6, 5), true, true),
        ("older time stamp", stamped(ack(1), 7, 5), stamped(ack(2), 6, 5), false, true),
        ("unknown option", mss(ack(1)), ack(2), false, true),
        ("echo differs", ack(1), flags(ack(2), TcpFlags::ECE), false, true),
        ("SACK only in the older", sack(ack(1), &[(9, 11)]), ack(2), false, true),
        ("more SACK, equal ack", sack(ack(1), &[(9, 11)]), sack(ack(1), &[(9, 13)]), true, true),
        ("other SACK, equal ack", sack(ack(1), &[(9, 11)]), sack(ack(1), &[(20, 23)]), false, true),
        ("less ack", ack(2), ack(1), false, false),
    ];
    for (name, older, newer, mainline_drops, version_8_drops) in cases {
        let drops = |filter| left(filter, &[older.clone(), newer.clone()]).len() == 1;
        assert_eq!(drops(Aggressive), mainline_drops, "mainline: {name}");
        assert_eq!(drops(V8Aggressive), version_8_drops, "version 8: {name}");
    }
}

#[test]
fn only_a_pure_ack_goes_and_only_an_ack_makes_it_go() {
    for flag in [TcpFlags::FIN, TcpFlags::RST, TcpFlags::PSH, TcpFlags::URG, TcpFlags::SYN] {
        for filter in [Aggressive, V8Aggressive] {
            let kept = left(filter, &[flags(ack(1), flag), ack(2)]);
            assert_eq!(kept, [0, 1], "{filter:?}: {flag:?} in the older");
        }
    }
    for (trigger, len) in [(TcpFlags::FIN, 1), (TcpFlags::PSH, 1), (TcpFlags::SYN, 2)] {
        for filter in [Aggressive, V8Aggressive] {
            let kept = left(filter, &[ack(1), flags(ack(2), trigger)]);
            assert_eq!(kept.len(), len, "{filter:?}: {trigger:?} in the newest");
        }
    }
    let accurate = [flags(ack(1), TcpFlags::AE), ack(2)];
    assert_eq!(left(Aggressive, &accurate), [0, 1], "the AE bit is protected");
    assert_eq!(left(V8Aggressive, &accurate), [1], "version 8 ignores it");
}

/// ECE 0, 0, 0, 1, 1, 1: the last ACK before the change stays.
#[test]
fn a_change_of_the_ecn_echo_survives() {
    let echo: Vec<Packet> = (1..=6)
        .map(|number| if number > 3 { flags(ack(number), TcpFlags::ECE) } else { ack(number) })
        .collect();
    assert_eq!(left(Conservative, &echo), [2, 4, 5]);
    assert_eq!(left(Aggressive, &echo), [2, 5]);
}

#[test]
fn the_duplicate_sack_of_an_ack_protects_it() {
    let duplicate = sack(ack(100), &[(50, 60)]);
    let newer = sack(ack(200), &[(50, 60), (300, 400)]);
    assert_eq!(left(Aggressive, &[duplicate, newer]), [0, 1]);
}

#[test]
fn acks_compare_modulo_the_wrap() {
    assert_eq!(left(Aggressive, &[ack(u32::MAX), ack(1)]), [1]);
    assert_eq!(left(Aggressive, &[ack(1), ack(u32::MAX)]), [0, 1]);
}

#[test]
fn options_of_another_layout_are_read_from_the_bytes() {
    let mut frame = Vec::new();
    stamped(ack(5), 1, 1).emit_headers(&mut frame);
    // Time stamps first and the padding behind: not as Linux writes them.
    let options = frame.len() - 12;
    frame.copy_within(options + 2.., options);
    let end = frame.len();
    frame[end - 2..].fill(1);
    let odd = Packet::parse_ethernet(&frame[..]).expect("a frame");
    assert!(odd.extra.is_some(), "kept as bytes");
    assert_eq!(left(Aggressive, &[odd.clone(), stamped(ack(6), 2, 1)]), [1]);
    assert_eq!(left(Aggressive, &[odd, stamped(ack(6), 0, 1)]), [0, 1]);
}

#[test]
fn the_naive_filter_drops_every_other_advancing_ack_on_arrival() {
    let mut last = LastAck::default();
    let acks = [ack(1), ack(2), ack(2), ack(3), ack(4), sack(ack(5), &[(9, 10)]), data(ack(6))];
    let dropped: Vec<bool> = acks.iter().map(|packet| last.drops(packet)).collect();
    assert_eq!(dropped, [true, false, false, true, false, true, false]);
    let waiting = [ack(1), ack(2)];
    assert_eq!(victim(AckFilter::Naive, &ack(3), waiting.iter()), None, "nothing that waits goes");
}

/// Every rule, told for the packet it is about.
#[test]
fn every_decision_has_a_reason() {
    use AckFilter::{Aggressive, Conservative, V8Aggressive, V8Conservative};
    let rules = |filter, queue: &[Packet], newest: Packet| {
        let mut told = Vec::new();
        let gone = judge(filter, &newest, queue.iter(), &mut |at, rule| told.push((at, rule)));
        assert_eq!(gone, victim(filter, &newest, queue.iter()));
        let dropped: Vec<usize> =
            told.iter().filter(|(_, rule)| rule.drops()).map(|(at, _)| *at).collect();
        assert_eq!(gone.into_iter().collect::<Vec<_>>(), dropped);
        told.sort();
        told
    };
    let two = [ack(1), ack(2)];
    let first_of_two = vec![(0, AckRule::FirstOfTwo), (1, AckRule::KeepsTwo)];
    for filter in [Conservative, Aggressive, V8Conservative] {
        assert_eq!(rules(filter, &two, ack(3)), first_of_two);
    }
    assert_eq!(rules(V8Aggressive, &two, ack(3)), [(0, AckRule::First)]);
    assert_eq!(rules(Conservative, &two[..1], ack(3)), [(0, AckRule::KeepsTwo)]);
    assert_eq!(rules(Aggressive, &two[..1], ack(3)), [(0, AckRule::LastBefore)]);
    let one = |filter, older: Packet, newest: Packet| rules(filter, &[older], newest)[0].1;
    assert_eq!(one(Aggressive, ack(3), ack(3)), AckRule::Duplicate);
    assert_eq!(one(Aggressive, ack(4), ack(3)), AckRule::Duplicate);
    assert_eq!(one(Aggressive, data(ack(1)), ack(3)), AckRule::NotPure);
    assert_eq!(one(Aggressive, port(ack(1), 9), ack(3)), AckRule::OtherFlow);
    assert_eq!(one(Aggressive, sack(ack(1), &[(5, 6)]), ack(3)), AckRule::Sack);
    assert_eq!(one(Aggressive, stamped(ack(1), 9, 9), ack(3)), AckRule::Options);
    assert_eq!(one(Aggressive, flags(ack(1), TcpFlags::ECE), ack(3)), AckRule::EcnChange);
    let behind = rules(Aggressive, &[ack(1), data(ack(2))], ack(3));
    assert_eq!(behind, [(0, AckRule::NotLast), (1, AckRule::NotPure)]);
    let echo = rules(Conservative, &[ack(1), flags(ack(2), TcpFlags::ECE)], ack(3));
    assert_eq!(echo, [(0, AckRule::EcnChange), (1, AckRule::KeepsTwo)]);
}

/// One of many packets: ACKs near to each other, some with SACK, ECE, data, or their own bytes.
fn any_packet() -> impl Strategy<Value = Packet> {
    let changes = prop::collection::vec(0u8..12, 0..3);
    (0u32..4, changes).prop_map(|(number, changes)| {
        let start = ack(u32::MAX.wrapping_add(number));
        if changes == [11] {
            return frame(42);
        }
        changes.into_iter().fold(start, |packet, change| match change {
            0 => data(packet),
            1 => port(packet, 9),
            2 => flags(packet, TcpFlags::ECE),
            3 => flags(packet, TcpFlags::PSH),
            4 => stamped(packet, number, 1),
            5 => sack(packet, &[(10, 10 + number)]),
            6 => sack(packet, &[(10, 12), (20, 20 + number)]),
            7 => Packet { extra: Some(Box::default()), ..packet },
            _ => packet,
        })
    })
}

proptest! {
    /// What is known of a packet without a look at it changes no decision.
    #[test]
    fn hints_change_nothing(packets in prop::collection::vec(any_packet(), 1..12)) {
        let (mut pool, mut chain) = (Pool::default(), Chain::default());
        for packet in &packets {
            pool.push(&mut chain, &mut packet.clone(), Charge::default(), Instant::ZERO);
        }
        let (newest, queue) = packets.split_last().expect("one at least");
        for filter in [
            Conservative,
            Aggressive,
            V8Conservative,
            V8Aggressive,
        ] {
            let hinted = victim(filter, newest, pool.before_last(&chain));
            prop_assert_eq!(hinted, victim(filter, newest, queue.iter()));
        }
    }
}
