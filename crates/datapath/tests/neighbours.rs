//! Hosts and a router that find each other by ARP and neighbour discovery: every packet crosses the wires as bytes.

use core::net::{IpAddr, Ipv6Addr};
use datapath::fib::{Prefix, Route};
use datapath::host::{Host, IcmpLimits, PortConfig};
use datapath::neighbour::{Neighbours, Settings, State};
use datapath::node::{Poll, Port, Rx};
use datapath::packet::checksum::Sum;
use datapath::packet::{Frame, FrameRef, LinkHeader, MacAddr, Packet};
use datapath::reason::Reason;
use datapath::rng::Rng;
use datapath::units::{Duration, Instant};
use std::collections::BTreeMap;

/// Nodes, and which ports share a wire.
struct World {
    nodes: Vec<Host>,
    wires: Vec<[(usize, u16); 2]>,
    now: Instant,
    dropped: BTreeMap<Reason, u32>,
}

fn address(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

fn node(number: u8, ports: &[&[&str]]) -> Host {
    let mut host = Host::new();
    host.set_icmp_limits(IcmpLimits::default(), Rng::stream(1, number.into()));
    host.enable_neighbours(
        Neighbours::new(Settings::default(), Rng::stream(2, number.into())),
        false,
    );
    for (index, addresses) in (0_u8..).zip(ports) {
        let addresses = addresses.iter().map(|text| {
            let (text, len) = text.split_once('/').expect("a length");
            (address(text), len.parse().expect("a number"))
        });
        let src = MacAddr([2, 0, 0, 0, number, index]);
        let link = LinkHeader::Ethernet { dst: MacAddr::default(), src };
        let port = host.add_port(PortConfig {
            addresses: addresses.collect(),
            link,
            ..PortConfig::default()
        });
        host.grant(Instant::ZERO, port, 1_000);
        host.set_neighbour_link(Instant::ZERO, port);
    }
    host
}

/// left -- router -- right
fn world() -> World {
    let left = node(1, &[&["10.1.0.2/24", "fd01::2/64"]]);
    let mut router = node(2, &[&["10.1.0.1/24", "fd01::1/64"], &["10.2.0.1/24", "fd02::1/64"]]);
    let right = node(3, &[&["10.2.0.2/24", "fd02::2/64"]]);
    router.forwarding = true;
    let mut nodes = vec![left, router, right];
    for (index, v4, v6) in [(0, "10.1.0.1", "fd01::1"), (2, "10.2.0.1", "fd02::1")] {
        for (prefix, gateway) in [(Prefix::DEFAULT_V4, v4), (Prefix::DEFAULT_V6, v6)] {
            let route = Route::via(prefix, 0, address(gateway));
            nodes[index].fib_mut().add(route).expect("a default route");
        }
    }
    let wires = vec![[(0, 0), (1, 0)], [(1, 1), (2, 0)]];
    World { nodes, wires, now: Instant::ZERO, dropped: BTreeMap::new() }
}

impl World {
    /// Lets a packet arrive at the other end of the wire, as bytes.
    fn carry(&mut self, from: (usize, Port), packet: &Packet) {
        let at = (from.0, from.1.0);
        let wire = self.wires.iter().find(|wire| wire.contains(&at)).expect("a wire");
        let (node, port) = wire[usize::from(wire[0] == at)];
        let mut bytes = Vec::new();
        packet.emit_whole(&mut bytes);
        let frame = FrameRef::from(bytes);
        let mut packet = Packet::parse_ethernet(Frame::lying_in(&frame, 0)).expect("a frame");
        self.nodes[from.0].credit(self.now, from.1);
        if let Rx::Forward(port) = self.nodes[node].receive(self.now, Port(port), &mut packet) {
            self.carry((node, port), &packet);
        }
    }

    /// Until nothing happens any more at this time; when something wants to happen next.
    fn settle(&mut self) -> Instant {
        let mut place = Packet::default();
        loop {
            let (mut moved, mut next) = (false, Instant::FAR_FUTURE);
            for index in 0..self.nodes.len() {
                match self.nodes[index].poll(self.now, &mut place) {
                    Poll::Send { port, .. } => {
                        let packet = place.take();
                        self.carry((index, port), &packet);
                        moved = true;
                    }
                    Poll::Drop(reason) => {
                        *self.dropped.entry(reason).or_default() += 1;
                        moved = true;
                    }
                    Poll::Idle(at) => next = next.min(at),
                    Poll::Ready(_) | Poll::Event(_) => moved = true,
                }
            }
            if !moved {
                return next;
            }
        }
    }

    fn run_until(&mut self, millis: u64) {
        let end = Instant::ZERO + Duration::from_millis(millis);
        loop {
            let next = self.settle();
            if next > end {
                break;
            }
            assert!(next > self.now, "time stands still");
            self.now = next;
        }
        self.now = end;
    }

    /// Sends `count` echo requests from the left host; how many were answered by the time given.
    fn ping(&mut self, to: &str, count: u16, millis: u64) -> usize {
        let now = self.now;
        let id = self.nodes[0].ping_open(now);
        for seq in 0..count {
            self.nodes[0].ping_send(now, id, address(to), seq, 56, 0).expect("a way");
        }
        self.run_until(millis);
        let mut answers = 0;
        while self.nodes[0].datagram_read(id).is_ok_and(|reply| reply.is_some()) {
            answers += 1;
        }
        answers
    }

    fn state(&self, node: usize, of: &str) -> Option<State> {
        let mut entries = self.nodes[node].neighbours().expect("neighbours").entries();
        entries.find(|(key, _)| key.1 == address(of)).map(|(_, entry)| entry.state())
    }
}

#[test]
fn packets_wait_for_their_neighbours_and_none_is_lost() {
    for (to, gateway, from) in
        [("10.2.0.2", "10.1.0.1", "10.1.0.2"), ("fd02::2", "fd01::1", "fd01::2")]
    {
        let mut world = world();
        assert_eq!(world.ping(to, 20, 10), 20, "{to}: {:?}", world.dropped);
        assert!(world.dropped.is_empty(), "{:?}", world.dropped);
        assert_eq!(world.state(0, gateway), Some(State::Reachable));
        assert_eq!(world.state(1, to), Some(State::Reachable));
        assert!(world.state(1, from).is_some_and(State::is_valid));
    }
}

#[test]
fn senders_hear_of_hosts_that_do_not_answer() {
    for to in ["10.2.0.77", "fd02::77"] {
        let mut world = world();
        assert_eq!(world.ping(to, 5, 10_000), 0);
        assert_eq!(world.dropped.get(&Reason::NeighbourFailed), Some(&5), "{:?}", world.dropped);
        assert_eq!(world.nodes[1].stats.icmp_errors, 5, "one each, within the limit of six");
        assert_eq!(world.state(1, to), Some(State::Failed));
    }
}

#[test]
fn frames_for_others_and_from_vlans_are_ignored() {
    let mut world = world();
    assert_eq!(world.ping("10.2.0.2", 1, 10), 1);
    let mut bytes = vec![2, 0, 0, 0, 9, 9, 2, 0, 0, 0, 1, 0, 8, 0];
    bytes.extend([0x45, 0, 0, 20, 0, 0, 0, 0, 64, 17, 0, 0, 10, 1, 0, 2, 10, 2, 0, 2]);
    let mut tagged = vec![2, 0, 0, 0, 2, 0, 2, 0, 0, 0, 1, 0, 0x81, 0, 0, 7];
    tagged.extend(&bytes[12..]);
    let before = world.nodes[1].stats.forwarded;
    for frame in [bytes, tagged] {
        let frame = FrameRef::from(frame);
        let mut packet = Packet::parse_ethernet(Frame::lying_in(&frame, 0)).expect("a frame");
        assert_eq!(world.nodes[1].receive(world.now, Port(0), &mut packet), Rx::Taken);
        world.settle();
    }
    assert_eq!(world.nodes[1].stats.forwarded, before);
}

/// `__netif_receive_skb_core` takes tags without a VLAN off (IEEE 802.1Q: priority tags); asked of
/// a kernel (Linux 6.18) with one frame each.
#[test]
fn priority_tags_are_taken_off() {
    let cases: [(&[[u8; 4]], bool); 8] = [
        (&[[0x81, 0, 0, 0]], true),
        (&[[0x81, 0, 0xb0, 0]], true),
        (&[[0x81, 0, 0, 0], [0x81, 0, 0, 0]], true),
        (&[[0x88, 0xa8, 0, 0], [0x81, 0, 0xa0, 0]], true),
        (&[[0x81, 0, 0, 7]], false),
        (&[[0x81, 0, 0, 0], [0x81, 0, 0, 7]], false),
        (&[[0x81, 0, 0, 7], [0x81, 0, 0, 0]], false),
        (&[[0x91, 0, 0, 0]], false),
    ];
    for (tags, taken) in cases {
        let mut world = world();
        assert_eq!(world.ping("10.2.0.2", 1, 10), 1);
        let ordinary = datagram([10, 2, 0, 2]);
        let mut bytes = ordinary.bytes()[..12].to_vec();
        bytes.extend(tags.iter().flatten());
        bytes.extend(&ordinary.bytes()[12..]);
        let (forwarded, _) = world.router_gets(&FrameRef::from(bytes));
        // The datagram, and the answer that nobody listens there: no tag has gone on.
        let expected = if taken { 2 } else { 0 };
        assert_eq!(forwarded, expected, "{tags:x?}: {:?}", world.dropped);
    }
    // Those who ask for an address may have such a tag, too.
    let mut world = world();
    let mut asked = vec![255, 255, 255, 255, 255, 255, 2, 0, 0, 0, 1, 0, 0x81, 0, 0xe0, 0, 8, 6];
    asked.extend([0, 1, 8, 0, 6, 4, 0, 1, 2, 0, 0, 0, 1, 0, 10, 1, 0, 77]);
    asked.extend([0, 0, 0, 0, 0, 0, 10, 1, 0, 1]);
    let frame = FrameRef::from(asked);
    let mut packet = Packet::parse_ethernet(Frame::lying_in(&frame, 0)).expect("a frame");
    assert_eq!(world.nodes[1].receive(world.now, Port(0), &mut packet), Rx::Taken);
    world.settle();
    assert!(world.dropped.is_empty(), "{:?}", world.dropped);
    assert_eq!(world.state(1, "10.1.0.77"), Some(State::Stale), "who asks is known");
}

/// Departure 30 of docs/LINUX.md.
#[test]
fn acknowledgments_confirm_no_neighbour() {
    let mut world = world();
    let config = world.nodes[0].tcp_defaults();
    let server = (address("10.1.0.1"), 80).into();
    let listener = world.nodes[1].tcp_listen(world.now, server, &config);
    let client = (address("10.1.0.2"), 4_000).into();
    let client = world.nodes[0].tcp_connect(world.now, client, server, &config).expect("a port");
    world.run_until(50_000);
    assert!(world.nodes[1].tcp_accept(listener).expect("it listens").is_some());
    assert_eq!(world.state(0, "10.1.0.1"), Some(State::Stale));
    world.nodes[0].tcp_write(world.now, client, 1_000).expect("it is connected");
    world.run_until(50_100);
    let acked = world.nodes[0].tcp_connection(client).expect("it is open").unacked_bytes();
    assert_eq!((acked, world.state(0, "10.1.0.1")), (0, Some(State::Delay)));
    world.run_until(55_100);
    assert_eq!(world.state(0, "10.1.0.1"), Some(State::Reachable), "it was asked");
}

/// A frame for the router with an IPv4 datagram from the left host.
fn datagram(dst: [u8; 4]) -> FrameRef {
    datagram_from([10, 1, 0, 2], dst)
}

/// A frame for the router, from the left, with an IPv4 datagram.
fn datagram_from(src: [u8; 4], dst: [u8; 4]) -> FrameRef {
    let mut bytes = vec![2, 0, 0, 0, 2, 0, 2, 0, 0, 0, 1, 0, 8, 0];
    bytes.extend([0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0]);
    bytes.extend(src);
    bytes.extend(dst);
    let sum: u32 =
        bytes[14..].chunks(2).map(|two| u32::from(two[0]) << 8 | u32::from(two[1])).sum();
    let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
    bytes[24..26].copy_from_slice(&sum.to_be_bytes());
    bytes.extend([0, 9, 0, 9, 0, 8, 0, 0]);
    FrameRef::from(bytes)
}

impl World {
    /// The router gets a frame from the left; what it has forwarded and complained of since.
    fn router_gets(&mut self, frame: &FrameRef) -> (u64, u64) {
        let before = self.nodes[1].stats;
        let mut packet = Packet::parse_ethernet(Frame::lying_in(frame, 0)).expect("a frame");
        if let Rx::Forward(port) = self.nodes[1].receive(self.now, Port(0), &mut packet) {
            self.carry((1, port), &packet);
        }
        self.settle();
        let after = self.nodes[1].stats;
        (after.forwarded - before.forwarded, after.icmp_errors - before.icmp_errors)
    }
}

/// Departure 32 of docs/LINUX.md: the left host could have sent it itself.
#[test]
fn no_redirect_is_sent() {
    let mut world = world();
    for dst in [[10, 1, 0, 2], [10, 2, 0, 2]] {
        let (forwarded, told) = world.router_gets(&datagram(dst));
        assert!(forwarded > 0 && told == 0, "{dst:?}: {forwarded} forwarded, {told} errors");
    }
}

/// Departure 32 of docs/LINUX.md.
#[test]
fn what_is_for_a_group_is_not_routed() {
    let mut world = world();
    assert_eq!(world.router_gets(&datagram([239, 1, 2, 3])), (0, 0));
    assert_eq!(world.dropped.get(&Reason::OtherHost), Some(&1));
}

/// The same with IPv6 and without a transport layer (next header 59).
fn packet_of_ipv6(src: Ipv6Addr, dst: Ipv6Addr) -> FrameRef {
    let mut bytes = vec![2, 0, 0, 0, 2, 0, 2, 0, 0, 0, 1, 0, 0x86, 0xdd];
    bytes.extend([0x60, 0, 0, 0, 0, 0, 59, 64]);
    bytes.extend(src.octets());
    bytes.extend(dst.octets());
    FrameRef::from(bytes)
}

/// Who has `target`, with the hardware address 02:00:00:00:01:01 for the answer (RFC 4861 section 4.3).
fn solicitation(src: Ipv6Addr, target: Ipv6Addr) -> FrameRef {
    let mut message = vec![135, 0, 0, 0, 0, 0, 0, 0];
    message.extend(target.octets());
    message.extend([1, 1, 2, 0, 0, 0, 1, 1]);
    let ends = [src, target].map(|address| address.octets()).concat();
    let pseudo = Sum::default().bytes(&ends).double(message.len() as u32).word(58);
    let checksum = pseudo.bytes(&message).checksum();
    message[2..4].copy_from_slice(&checksum.to_be_bytes());
    let mut bytes = vec![2, 0, 0, 0, 2, 0, 2, 0, 0, 0, 1, 1, 0x86, 0xdd];
    bytes.extend([0x60, 0, 0, 0, 0, message.len() as u8, 58, 255]);
    bytes.extend(ends);
    bytes.extend(message);
    FrameRef::from(bytes)
}

/// `ip6_rcv_core` comes before neighbour discovery.
#[test]
fn questions_of_martians_are_not_answered() {
    for (src, is_heard) in [("fd01::9", true), ("::1", false), ("ff02::9", false)] {
        let mut world = world();
        let IpAddr::V6(from) = address(src) else { panic!("{src}") };
        let IpAddr::V6(router) = address("fd01::1") else { panic!("ours") };
        world.router_gets(&solicitation(from, router));
        let table = world.nodes[1].neighbours().expect("it has neighbours");
        let learnt = table.entries().any(|(key, _)| key.1 == address(src));
        let errors = world.nodes[1].snmp(true).in_hdr_errors;
        assert_eq!((learnt, errors), (is_heard, u64::from(!is_heard)), "{src}");
    }
}

/// As Linux 6.18 does with packets of these addresses (`rp_filter` 0): why they go no further, or `None` if they do.
#[test]
fn martians_go_no_further() {
    let (source, destination) = (Some(Reason::InvalidSource), Some(Reason::InvalidDestination));
    let (header, addresses) = (Some(Reason::Malformed), Some(Reason::AddressErrors));
    let table = [
        ("10.1.0.2", "10.2.0.2", None),
        ("127.0.0.1", "10.2.0.2", source),
        ("127.0.0.1", "10.1.0.1", source),
        ("10.1.0.1", "10.2.0.2", source),
        ("10.2.0.1", "10.2.0.2", source),
        ("10.2.0.1", "10.1.0.1", source),
        ("224.0.0.5", "10.2.0.2", source),
        ("224.0.0.5", "10.1.0.1", source),
        ("255.255.255.255", "10.2.0.2", source),
        ("0.0.0.0", "10.2.0.2", source),
        ("0.0.0.0", "10.1.0.1", source),
        ("0.1.2.3", "10.2.0.2", None),
        ("240.0.0.1", "10.2.0.2", None),
        ("10.1.0.255", "10.2.0.2", None),
        ("10.1.0.2", "127.0.0.1", destination),
        ("10.1.0.2", "0.0.0.0", destination),
        ("fd01::2", "fd02::2", None),
        ("fd01::1", "fd02::2", None),
        ("::1", "fd02::2", header),
        ("::1", "fd01::1", header),
        ("ff02::1", "fd02::2", header),
        ("ff02::1", "fd01::1", header),
        ("fd01::2", "::1", header),
        ("fd01::2", "ff01::1", header),
        ("fd01::2", "ff00::1", header),
        ("::", "fd02::2", addresses),
        ("fd01::2", "::", addresses),
    ];
    for (src, dst, reason) in table {
        let mut world = world();
        let frame = match (address(src), address(dst)) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => datagram_from(src.octets(), dst.octets()),
            (IpAddr::V6(src), IpAddr::V6(dst)) => packet_of_ipv6(src, dst),
            _ => unreachable!("one family"),
        };
        let (forwarded, told) = world.router_gets(&frame);
        assert_eq!((forwarded > 0, told), (reason.is_none(), 0), "{src} to {dst}");
        let mut dropped = world.dropped.keys().copied();
        let why =
            dropped.find(|why| [source, destination, header, addresses].contains(&Some(*why)));
        assert_eq!(why, reason, "{src} to {dst}");
        let counters = world.nodes[1].snmp(true);
        let counted = (counters.in_hdr_errors, counters.in_addr_errors);
        let expected = (u64::from(reason == header), u64::from(reason == addresses));
        assert_eq!(counted, expected, "{src} to {dst}");
    }
}

/// Departure 38 of docs/LINUX.md.
#[test]
fn a_host_of_the_simulated_world_does_not_look_for_martians() {
    let mut router = Host::new();
    for addresses in ["10.1.0.1", "10.2.0.1"] {
        let addresses = vec![(address(addresses), 24)];
        let port = router.add_port(PortConfig { addresses, ..PortConfig::default() });
        router.grant(Instant::ZERO, port, 1);
    }
    router.forwarding = true;
    let frame = datagram_from([127, 0, 0, 1], [10, 2, 0, 2]);
    let mut packet = Packet::parse_ethernet(Frame::lying_in(&frame, 0)).expect("a frame");
    let rx = router.receive(Instant::ZERO, Port(0), &mut packet);
    assert_eq!(router.stats.forwarded, 1, "{rx:?}");
}
