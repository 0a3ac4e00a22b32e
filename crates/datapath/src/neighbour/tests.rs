use super::*;
use crate::packet::testing::{ipv4, ipv6, packet, tcp};
use crate::packet::{Arp, ArpOperation, Network, TcpFlags, Transport, protocol};
use core::net::{Ipv4Addr, Ipv6Addr};

const OURS: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
const THEIRS: MacAddr = MacAddr([2, 0, 0, 0, 0, 2]);
const OTHER: MacAddr = MacAddr([2, 0, 0, 0, 0, 3]);
const US: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const THEM: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
const US_V6: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1);
const THEM_V6: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0x1234, 0x5678);

fn at(millis: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(millis)
}

fn table() -> Neighbours {
    let mut table = Neighbours::new(Settings::default(), Rng::stream(1, 1));
    let addresses = vec![(US.into(), 24), (US_V6.into(), 64)];
    table.set_link(0, Some(Link { mac: OURS, addresses }));
    table
}

fn data() -> Packet {
    packet(ipv4(protocol::TCP), tcp(TcpFlags::ACK), 100)
}

fn actions(table: &mut Neighbours) -> Vec<Action> {
    std::iter::from_fn(|| table.next_action()).collect()
}

/// What the table has put out: ARP messages, other packets, and what it reports of neighbours.
fn outputs(table: &mut Neighbours) -> Vec<String> {
    let name = |mac: MacAddr| match mac {
        BROADCAST => "everybody".to_owned(),
        THEIRS => "them".to_owned(),
        OTHER => "other".to_owned(),
        mac => format!("{:02x?}", mac.0),
    };
    let tell = |action| match action {
        Action::Transmit(_, packet) => {
            let LinkHeader::Ethernet { dst, .. } = packet.link else { panic!("no Ethernet") };
            match (packet.arp(), packet.transport) {
                (Some(arp), _) if arp.operation == ArpOperation::REQUEST => {
                    format!("ARP request for {} to {}", arp.target_ip, name(dst))
                }
                (Some(arp), _) => format!("ARP reply for {} to {}", arp.sender_ip, name(dst)),
                (None, Transport::Icmp(icmp)) => format!("icmp {} to {}", icmp.kind, name(dst)),
                _ => format!("data to {}", name(dst)),
            }
        }
        Action::Unreachable(_) => "unreachable".to_owned(),
        Action::Drop(reason, _) => reason.name().to_owned(),
        Action::Answers(_, true) => "neighbour answers".to_owned(),
        Action::Answers(_, false) => "neighbour is silent".to_owned(),
    };
    actions(table).into_iter().map(tell).collect()
}

fn send(table: &mut Neighbours, now: Instant) -> Option<MacAddr> {
    let mut packet = data();
    match table.resolve(now, 0, THEM.into(), &mut packet) {
        Resolved::Queued => None,
        Resolved::Ready => match packet.link {
            LinkHeader::Ethernet { dst, src } => (src == OURS).then_some(dst),
            LinkHeader::None => None,
        },
    }
}

fn arp(operation: ArpOperation, from: MacAddr, to: MacAddr, ips: (Ipv4Addr, Ipv4Addr)) -> Packet {
    let arp =
        Arp { operation, sender_mac: from, sender_ip: ips.0, target_mac: to, target_ip: ips.1 };
    Packet::from_arp(to, from, &arp)
}

fn reply(table: &mut Neighbours, now: Instant, from: MacAddr) {
    assert!(table.arp_arrives(now, 0, &arp(ArpOperation::REPLY, from, OURS, (THEM, US))));
}

fn state(table: &Neighbours) -> State {
    table.entries().next().map_or(State::None, |(_, entry)| entry.state())
}

/// Runs timers until `until`: what the table has put out, with the times in ms.
fn run(table: &mut Neighbours, until: Instant) -> Vec<(u64, String)> {
    let mut seen = Vec::new();
    while table.wake_at() <= until {
        let now = table.wake_at();
        table.run_timers(now);
        seen.extend(outputs(table).into_iter().map(|what| (now.as_millis(), what)));
    }
    seen
}

#[test]
fn a_packet_waits_for_address_resolution() {
    let mut table = table();
    assert_eq!(send(&mut table, at(0)), None);
    assert_eq!(send(&mut table, at(1)), None);
    assert_eq!(outputs(&mut table), ["ARP request for 10.0.0.2 to everybody"]);
    reply(&mut table, at(2), THEIRS);
    assert_eq!(outputs(&mut table), ["neighbour answers", "data to them", "data to them"]);
    assert_eq!((state(&table), send(&mut table, at(3))), (State::Reachable, Some(THEIRS)));
    assert!(actions(&mut table).is_empty());
}

#[test]
fn a_neighbour_silent_three_times_is_unreachable() {
    let mut table = table();
    assert_eq!(send(&mut table, at(0)), None);
    assert_eq!(outputs(&mut table).len(), 1);
    let asked = "ARP request for 10.0.0.2 to everybody".to_owned();
    let seen = run(&mut table, at(10_000));
    let failed = [(3_000, "unreachable".to_owned()), (3_000, "neighbour is silent".to_owned())];
    assert_eq!(seen[..2], [(1_000, asked.clone()), (2_000, asked)]);
    assert_eq!(seen[2..], failed);
    assert_eq!(state(&table), State::Failed);
    assert_eq!(send(&mut table, at(10_001)), None);
    assert_eq!(outputs(&mut table), ["ARP request for 10.0.0.2 to everybody"], "it is asked anew");
}

/// RFC 4861 section 7.3.3, with the kernel's times: 15 to 45 s reachable, 5 s of delay, three questions to
/// the address alone.
#[test]
fn a_silent_neighbour_goes_through_all_states() {
    let mut table = table();
    send(&mut table, at(0));
    reply(&mut table, at(1), THEIRS);
    outputs(&mut table);
    assert!(run(&mut table, at(15_000)).is_empty());
    assert_eq!(state(&table), State::Reachable);
    run(&mut table, at(45_001));
    assert_eq!(state(&table), State::Stale);
    assert_eq!(send(&mut table, at(50_000)), Some(THEIRS), "stale is good enough to send");
    assert_eq!(state(&table), State::Delay);
    let seen = run(&mut table, at(57_999));
    let asks = "ARP request for 10.0.0.2 to them".to_owned();
    assert_eq!(seen, [55_000, 56_000, 57_000].map(|time| (time, asks.clone())));
    assert_eq!((state(&table), send(&mut table, at(57_999))), (State::Probe, Some(THEIRS)));
    run(&mut table, at(58_000));
    assert_eq!(state(&table), State::Failed);
}

#[test]
fn an_answer_to_a_probe_makes_it_reachable_again() {
    let mut table = table();
    send(&mut table, at(0));
    reply(&mut table, at(1), THEIRS);
    run(&mut table, at(45_001));
    send(&mut table, at(50_000));
    run(&mut table, at(55_000));
    assert_eq!(state(&table), State::Probe);
    reply(&mut table, at(55_001), THEIRS);
    assert_eq!(state(&table), State::Reachable);
}

#[test]
fn requests_for_our_address_are_answered_and_teach_the_senders_address() {
    let mut table = table();
    let asks = arp(ArpOperation::REQUEST, THEIRS, BROADCAST, (THEM, US));
    assert!(table.arp_arrives(at(0), 0, &asks));
    assert_eq!(outputs(&mut table), ["neighbour answers", "ARP reply for 10.0.0.1 to them"]);
    assert_eq!(state(&table), State::Stale);
    let for_others =
        arp(ArpOperation::REQUEST, OTHER, BROADCAST, (Ipv4Addr::new(10, 0, 0, 9), THEM));
    assert!(table.arp_arrives(at(1), 0, &for_others));
    assert!(actions(&mut table).is_empty(), "no proxy");
    assert_eq!(table.entries().count(), 1, "who asks others is not learnt");
}

#[test]
fn questions_of_martians_are_neither_answered_nor_learnt() {
    for [a, b, c, d] in [[127, 0, 0, 1], [224, 0, 0, 1], [255; 4], US.octets()] {
        let mut table = table();
        let martian = Ipv4Addr::new(a, b, c, d);
        let asks = arp(ArpOperation::REQUEST, THEIRS, BROADCAST, (martian, US));
        assert!(table.arp_arrives(at(0), 0, &asks), "{martian}");
        assert!(actions(&mut table).is_empty() && table.entries().count() == 0, "{martian}");
    }
}

#[test]
fn what_is_set_by_hand_outlives_the_carrier_and_not_the_port() {
    let mut table = table();
    assert!(table.set(at(0), (0, THEM.into()), Some(THEIRS), ManualState::Permanent));
    let asks = arp(ArpOperation::REQUEST, OTHER, BROADCAST, (Ipv4Addr::new(10, 0, 0, 3), US));
    assert!(table.arp_arrives(at(0), 0, &asks));
    assert_eq!(table.entries().count(), 2);
    table.flush_learnt(0);
    assert_eq!(state(&table), State::Permanent);
    table.flush(0);
    assert_eq!(state(&table), State::None);
}

#[test]
fn what_is_reachable_by_hand_becomes_stale_and_keeps_its_address() {
    let mut table = table();
    let key = (0, THEM.into());
    assert!(!table.set(at(0), key, None, ManualState::Stale), "nobody has said where it is");
    assert_eq!(table.entries().count(), 0);
    assert!(table.set(at(0), key, Some(THEIRS), ManualState::Reachable));
    assert_eq!((state(&table), send(&mut table, at(1))), (State::Reachable, Some(THEIRS)));
    table.run_timers(at(60_000));
    assert_eq!(state(&table), State::Stale);
    assert!(table.set(at(60_001), key, None, ManualState::Permanent), "what was known is kept");
    assert_eq!((state(&table), send(&mut table, at(60_002))), (State::Permanent, Some(THEIRS)));
    assert!(table.set(at(60_003), key, Some(OTHER), ManualState::Stale));
    assert_eq!((send(&mut table, at(60_004)), state(&table)), (Some(OTHER), State::Delay));
}

#[test]
fn gratuitous_arp_moves_a_neighbour_and_others_not_within_locktime() {
    let mut table = table();
    send(&mut table, at(0));
    reply(&mut table, at(1), THEIRS);
    reply(&mut table, at(500), OTHER);
    assert_eq!(send(&mut table, at(501)), Some(THEIRS), "locktime");
    let moves = arp(ArpOperation::REQUEST, OTHER, BROADCAST, (THEM, THEM));
    assert!(table.arp_arrives(at(502), 0, &moves));
    assert_eq!(send(&mut table, at(503)), Some(OTHER));
    reply(&mut table, at(2_000), THEIRS);
    assert_eq!(send(&mut table, at(2_001)), Some(THEIRS));
}

#[test]
fn no_more_waits_than_unres_qlen_bytes() {
    let mut table = table();
    table.settings_mut().v4.unres_qlen_bytes = 3 * 1_101;
    for time in 0..5 {
        send(&mut table, at(time));
    }
    let seen = outputs(&mut table);
    assert_eq!(seen.iter().filter(|what| *what == "NEIGH_QUEUEFULL").count(), 2);
    reply(&mut table, at(6), THEIRS);
    assert_eq!(outputs(&mut table).len(), 1 + 3);
}

#[test]
fn there_are_never_more_than_gc_thresh3() {
    let mut table = table();
    let settings = &mut table.settings_mut().v4;
    (settings.gc_thresh2, settings.gc_thresh3) = (8, 16);
    for last in 2..250 {
        let to = IpAddr::from([10, 0, 0, last]);
        let _taken = table.resolve(at(0), 0, to, &mut data());
        assert!(table.entries().count() <= 16);
    }
    let full = outputs(&mut table).iter().filter(|what| *what == "NEIGH_CREATEFAIL").count();
    assert_eq!(full, 248 - 16);
    run(&mut table, at(5_000));
    let _taken = table.resolve(at(6_000), 0, IpAddr::from([10, 0, 0, 251]), &mut data());
    assert!(table.entries().count() <= 9, "those that have failed make room");
}

#[test]
fn groups_need_no_answer() {
    let mut table = table();
    for (to, dst) in [
        ("224.0.0.5", [1, 0, 0x5e, 0, 0, 5]),
        ("10.0.0.255", [0xff; 6]),
        ("ff02::1:ff00:1", [0x33, 0x33, 0xff, 0, 0, 1]),
    ] {
        let mut packet = data();
        let to = to.parse().expect("an address");
        assert_eq!(table.resolve(at(0), 0, to, &mut packet), Resolved::Ready);
        assert_eq!(packet.link, LinkHeader::Ethernet { dst: MacAddr(dst), src: OURS });
    }
    assert!(actions(&mut table).is_empty());
}

fn discover(table: &mut Neighbours, now: Instant) -> Packet {
    let mut packet = packet(ipv6(protocol::TCP), tcp(TcpFlags::ACK), 100);
    assert_eq!(table.resolve(now, 0, THEM_V6.into(), &mut packet), Resolved::Queued);
    match &actions(table)[..] {
        [Action::Transmit(0, question)] => question.clone(),
        other => panic!("{other:?}"),
    }
}

/// The same message as bytes on a wire and parsed again, as from the far end.
fn over_the_wire(packet: &Packet) -> Packet {
    let mut bytes = Vec::new();
    packet.emit_whole(&mut bytes);
    let parsed = Packet::parse_ethernet(&bytes[..]).expect("a packet");
    let frame = crate::packet::FrameRef::from(bytes);
    let lies = Packet::parse_ethernet(crate::packet::Frame::lying_in(&frame, 0));
    assert_eq!(parsed.flaws(), crate::packet::Flaws::NONE, "its checksum is right");
    lies.expect("a packet")
}

#[test]
fn two_of_us_find_each_other_by_neighbour_discovery() {
    let mut near = table();
    let mut far = Neighbours::new(Settings::default(), Rng::stream(1, 2));
    far.set_link(0, Some(Link { mac: THEIRS, addresses: vec![(THEM_V6.into(), 64)] }));
    let question = over_the_wire(&discover(&mut near, at(0)));
    assert_eq!(question.network.dst(), Some("ff02::1:ff34:5678".parse().expect("an address")));
    assert!(is_discovery(&question) && far.discovery_arrives(at(1), 0, &question));
    let Some(Action::Answers(_, true)) = far.next_action() else { panic!("it learns who asks") };
    let Some(Action::Transmit(0, answer)) = far.next_action() else { panic!("it answers") };
    assert!(near.discovery_arrives(at(2), 0, &over_the_wire(&answer)));
    assert_eq!(outputs(&mut near), ["neighbour answers", "data to them"]);
    let entry = near.entries().next().expect("an entry").1;
    assert_eq!((entry.state(), entry.is_router()), (State::Reachable, true));
    assert_eq!(far.entries().next().expect("an entry").1.state(), State::Stale);
}

#[test]
fn discovery_that_has_passed_a_router_is_thrown_away() {
    let mut table = table();
    let mut question = over_the_wire(&discover(&mut table, at(0)));
    let Network::Ipv6(ip) = &mut question.network else { panic!("IPv6") };
    ip.hop_limit = 254;
    assert!(!table.discovery_arrives(at(1), 0, &question));
}

/// Whatever comes in whatever order: no panic, timers and entries agree, no more waits than may, and each
/// packet that went in comes out once, or waits.
#[test]
fn random_events_lose_no_packet() {
    for seed in 0..200 {
        let mut rng = Rng::stream(seed, 7);
        let mut table = table();
        table.settings_mut().v4.unres_qlen_bytes = 4_000;
        let (mut now, mut sent, mut out) = (Instant::ZERO, 0_u64, 0_u64);
        for _ in 0..400 {
            now += Duration::from_millis(rng.below(3_000));
            let to = Ipv4Addr::new(10, 0, 0, 2 + rng.below(4) as u8);
            let from = if rng.below(4) == 0 { OTHER } else { THEIRS };
            while table.wake_at() <= now {
                let due = table.wake_at();
                table.run_timers(due);
                assert!(table.wake_at() > due, "seed {seed}: time stands still");
            }
            match rng.below(10) {
                0..=3 => {
                    sent += 1;
                    let ready = table.resolve(now, 0, to.into(), &mut data()) == Resolved::Ready;
                    out += u64::from(ready);
                }
                4..=6 => {
                    table.arp_arrives(now, 0, &arp(ArpOperation::REPLY, from, OURS, (to, US)));
                }
                7 => {
                    let ask = arp(ArpOperation::REQUEST, from, BROADCAST, (to, US));
                    table.arp_arrives(now, 0, &ask);
                }
                8 => {
                    table.arp_arrives(
                        now,
                        0,
                        &arp(ArpOperation(rng.below(4) as u16), from, from, (to, to)),
                    );
                }
                _ if rng.below(10) == 0 => table.flush(0),
                _ => {}
            }
            for action in actions(&mut table) {
                out += u64::from(match action {
                    Action::Transmit(_, packet) => packet.tcp().is_some(),
                    Action::Unreachable(_) | Action::Drop(..) => true,
                    Action::Answers(..) => false,
                });
            }
            let waiting: usize = table.entries().map(|(_, entry)| entry.waiting()).sum();
            assert_eq!(sent, out + waiting as u64, "seed {seed}");
            for (key, entry) in table.entries() {
                let timed = table.timers.contains(&(entry.due, *key));
                assert_eq!(timed, entry.due < Instant::FAR_FUTURE, "seed {seed}");
                assert!(entry.state() == State::Incomplete || entry.waiting() == 0);
                assert!(!entry.state().is_valid() || entry.mac().is_some());
            }
        }
    }
}

/// Bytes of any kind behind the headers of neighbour discovery: no panic, and nothing is sent but answers.
#[test]
fn hostile_messages_are_survived() {
    let mut rng = Rng::stream(3, 3);
    let mut table = table();
    let good = over_the_wire(&discover(&mut table, at(0)));
    for case in 0..20_000_u64 {
        let mut bytes = Vec::new();
        good.emit_whole(&mut bytes);
        for _ in 0..rng.below(8) {
            let index = rng.below(bytes.len() as u64) as usize;
            bytes[index] = rng.next_u32() as u8;
        }
        bytes.truncate(bytes.len() - rng.below(40) as usize);
        let frame = crate::packet::FrameRef::from(bytes);
        let Ok(mut packet) = Packet::parse_ethernet(crate::packet::Frame::lying_in(&frame, 0))
        else {
            continue;
        };
        if let Some(extra) = &mut packet.extra {
            extra.flaws = crate::packet::Flaws::NONE;
        }
        table.discovery_arrives(at(case), 0, &packet);
        table.arp_arrives(at(case), 0, &packet);
        table.run_timers(at(case));
        actions(&mut table);
    }
}
