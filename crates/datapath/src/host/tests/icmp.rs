//! Errors as a 6.18 kernel was seen to send them, frame by frame.

use super::*;
use crate::fib::{Prefix, RouteType};
use crate::packet::{MacAddr, Network, protocol};

const FOR_ALL: [&str; 3] = ["10.0.1.255", "10.0.2.255", "255.255.255.255"];

/// What a router with 10.0.1.1/24 and 10.0.2.1/24 answers to a packet that comes by its first port.
fn answer(packet: Packet) -> Option<Packet> {
    let mut host = router();
    for all in FOR_ALL {
        let route =
            Route { kind: RouteType::Broadcast, ..Route::on_link(Prefix::host(ip(all)), 0) };
        host.fib_mut().add(route).expect("a new route");
    }
    host.grant(ms(0), Port(0), 1);
    receive(&mut host, ms(0), packet);
    sent(&mut host, ms(0)).pop().map(|(_, packet)| packet)
}

fn to(dst: &str) -> Packet {
    datagram("10.0.1.2:5", &format!("{dst}:6"), 9, 100)
}

fn ping(dst: &str) -> Packet {
    let transport = Transport::Icmp(Icmp { kind: 8, code: 0, rest: 7 });
    let mut packet = Packet { transport, ..to(dst) };
    if let Network::Ipv4(ip) = &mut packet.network {
        ip.protocol = protocol::ICMP;
    }
    packet.finish()
}

#[test]
fn broadcasts_and_multicasts_get_no_answer() {
    for all in FOR_ALL {
        assert_eq!(answer(to(all)), None, "a datagram to {all}");
        assert_eq!(answer(ping(all)), None, "a ping to {all}");
    }
    assert!(answer(ping("10.0.1.1")).is_some() && answer(to("10.0.1.1")).is_some());
    for (first, told) in [(0x02, true), (0x01, false), (0xff, false)] {
        let (dst, src) = (MacAddr([first; 6]), MacAddr([2; 6]));
        let frame = Packet { link: LinkHeader::Ethernet { dst, src }, ..to("10.0.1.1") };
        assert_eq!(answer(frame.finish()).is_some(), told, "a frame to {dst:?}");
    }
}

#[test]
fn an_error_comes_from_the_address_that_was_asked_and_may_be_fragmented() {
    for (dst, ttl, src) in
        [("10.0.1.1", 9, "10.0.1.1"), ("10.0.2.1", 9, "10.0.2.1"), ("10.0.2.2", 1, "10.0.1.1")]
    {
        let error = answer(datagram("10.0.1.2:5", &format!("{dst}:6"), ttl, 100)).unwrap();
        assert_eq!(error.network.src(), Some(ip(src)), "about a packet to {dst}");
        let Network::Ipv4(header) = error.network else { panic!("no IPv4") };
        assert!(!header.dont_fragment, "about a packet to {dst}");
    }
}

#[test]
fn an_error_has_the_tos_of_the_packet_with_the_precedence_of_internetwork_control() {
    for (tos, of_error) in [(0x00, 0xc0), (0x08, 0xc8), (0xb8, 0xd8), (0x01, 0xc0), (0x02, 0xc2)] {
        let mut packet = datagram("10.0.1.2:5", "10.0.2.2:6", 1, 100);
        if let Network::Ipv4(ip) = &mut packet.network {
            ip.tos = tos;
        }
        assert_eq!(answer(packet).unwrap().network.tos(), of_error, "of {tos:#04x}");
    }
}

#[test]
fn nothing_is_said_of_an_ipv6_packet_that_has_no_next_header() {
    for (next, told) in [(protocol::NO_NEXT, false), (99, true)] {
        let [us, them] = ["fd00::1", "fd00::2"].map(ip);
        let mut host = Host::new();
        host.add_port(PortConfig { addresses: vec![(us, 64)], ..PortConfig::default() });
        host.grant(ms(0), Port(0), 1);
        let network = udp::network_header(them, us, 0, 9, next).expect("one family");
        let packet = Packet { network, body: Body::of_len(8), ..Packet::default() };
        receive(&mut host, ms(0), packet.finish());
        let errors = sent(&mut host, ms(0));
        assert_eq!(errors.len(), usize::from(told), "next header {next}");
        assert!(errors.iter().all(|(_, error)| error.network.tos() == 0));
    }
}
