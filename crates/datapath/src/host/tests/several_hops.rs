//! Ways to a destination with several next hops, the second time as the first.

use super::*;
use crate::fib::hash::Policy;
use crate::fib::{Algorithm, Decision, LinkState, NextHop, Prefix, RouteKey, Target};

const FLOWS: u16 = 40;

/// A router with two ways to 192.0.2.0/24, over ports 1 and 2.
fn forked(algorithm: Algorithm) -> Host {
    let mut host = router();
    host.add_port(port_with("10.0.3.1"));
    let hops = ["10.0.2.9", "10.0.3.9"].iter().zip(1..);
    let hops = hops.map(|(gateway, port)| NextHop::new(port, Some(ip(gateway)))).collect();
    let prefix: Prefix = "192.0.2.0/24".parse().expect("a prefix");
    let route = Route { algorithm, target: Target::Hops(hops), ..Route::on_link(prefix, 1) };
    host.fib_mut().add(route).expect("a new route");
    let mut settings = *host.fib().settings();
    settings.v4.policy = Policy::L4;
    host.fib_mut().set_settings(settings);
    for port in [1, 2] {
        host.grant(ms(0), Port(port), 10_000);
    }
    host
}

fn of_flow(flow: u16) -> Packet {
    datagram(&format!("10.0.1.2:{}", 1_000 + flow), "192.0.2.2:6", 64, 1)
}

/// The port that a packet of each flow leaves by.
fn ways(host: &mut Host, now: Instant) -> Vec<u16> {
    let way = |flow| {
        let mut packet = of_flow(flow);
        match host.receive(now, Port(0), &mut packet) {
            Rx::Forward(port) => port.0,
            Rx::Queued | Rx::Taken => sent(host, now).first().expect("it has a way").0,
        }
    };
    (0..FLOWS).map(way).collect()
}

#[test]
fn a_flow_keeps_its_path_and_flows_use_both() {
    let mut host = forked(Algorithm::System);
    let first = ways(&mut host, ms(1));
    let ones = first.iter().filter(|&&port| port == 1).count();
    assert!((10..=30).contains(&ones), "{first:?}");
    assert_eq!(ways(&mut host, ms(2)), first);
}

#[test]
fn turns_are_taken_packet_by_packet() {
    let mut host = forked(Algorithm::PerPacket);
    let turns: Vec<u16> = (0..FLOWS).map(|turn| 1 + turn % 2).collect();
    assert_eq!(ways(&mut host, ms(1)), turns);
    assert_eq!(ways(&mut host, ms(2)), turns);
}

#[test]
fn a_hop_out_of_service_is_left_at_once() {
    let mut host = forked(Algorithm::System);
    let before = ways(&mut host, ms(1));
    let ignored = LinkState { carrier: false, ignore_linkdown: true, ..LinkState::default() };
    host.fib_mut().set_link(ms(2), 1, ignored);
    assert_eq!(ways(&mut host, ms(2)), [2; FLOWS as usize]);
    host.fib_mut().set_link(ms(3), 1, LinkState::default());
    assert_eq!(ways(&mut host, ms(3)), before);
}

#[test]
fn a_source_prefers_the_route_over_its_own_interface() {
    let mut host = forked(Algorithm::System);
    let over_one = |host: &Host| {
        let over_one = |flow: u16| {
            let to = RouteKey::to(IpAddr::from([192, 0, 2, flow as u8]));
            let made_here = RouteKey { src: ip("10.0.2.77"), ..to };
            matches!(host.fib().lookup(&made_here), Decision::Forward(hop) if hop.port == 1)
        };
        (0..FLOWS).filter(|flow| over_one(*flow)).count()
    };
    assert!((10..=30).contains(&over_one(&host)), "{}", over_one(&host));
    host.set_addresses(Port(1), vec![(ip("10.0.2.77"), 24)]);
    assert_eq!(over_one(&host), usize::from(FLOWS));
}

/// The label that a datagram is told to have chooses its way out of its own host, by IPv6's policy 0, as Linux 6.18 was
/// seen to do (`ip6_multipath_l3_keys`); one that it has by itself does not.
#[test]
fn a_told_label_chooses_the_way() {
    let mut host = Host::new();
    for address in ["fd01::1", "fd02::1"] {
        let addresses = vec![(ip(address), 64)];
        host.add_port(PortConfig { addresses, ..PortConfig::default() });
    }
    let hops = ["fd01::2", "fd02::2"].iter().zip(0..);
    let hops = hops.map(|(gateway, port)| NextHop::new(port, Some(ip(gateway)))).collect();
    host.fib_mut().add(Route::new("fd77::/64".parse().expect("a prefix"), hops)).expect("new");
    host.grant(ms(0), Port(0), 10_000);
    host.grant(ms(0), Port(1), 10_000);
    assert!(sent(&mut host, ms(0)).is_empty());
    let socket = host.udp_bind(ms(0), at("[fd01::1]:53")).expect("a free port");
    let mut way = |flow_label, remote: &str| {
        let cookie = IpcmCookie { flow_label, ..IpcmCookie::default() };
        let body = Body::of_len(1);
        host.udp_send_with(ms(0), socket, at(remote), body, &cookie).expect("a route");
        sent(&mut host, ms(0)).first().expect("a datagram").0
    };
    let told: Vec<u16> = (1..=40).map(|label| way(label, "[fd77::1]:53")).collect();
    let ones = told.iter().filter(|&&port| port == 1).count();
    assert!((8..=32).contains(&ones), "{told:?}");
    let again: Vec<u16> = (1..=40).map(|label| way(label, "[fd77::1]:53")).collect();
    assert_eq!(again, told);
    let own = way(0, "[fd77::1]:53");
    assert!((1..40).all(|port| way(0, &format!("[fd77::1]:{port}")) == own));
}
