//! Step lists for one host, without a world around it.

mod border;
mod congestion;
mod datagrams;
mod fragments;
mod icmp;
mod ports;
mod refusals;
mod several_hops;

use super::*;
use crate::node::{Poll, Rx};
use crate::packet::seq::Seq;
use crate::packet::{Body, Icmp, LinkHeader, Meta, Tcp, TcpFlags, TcpOptions, Transport, Udp};
use crate::qdisc::fifo::{Fifo, FifoKind};
use crate::tcp::state::State;
use crate::units::Duration;
use core::net::SocketAddr;

fn ip(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

fn at(text: &str) -> SocketAddr {
    text.parse().expect("an address with a port")
}

fn ms(millis: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(millis)
}

fn port_with(address: &str) -> PortConfig {
    PortConfig { addresses: vec![(ip(address), 24)], ..PortConfig::default() }
}

fn router() -> Host {
    let mut host = Host::new();
    host.forwarding = true;
    host.add_port(port_with("10.0.1.1"));
    host.add_port(port_with("10.0.2.1"));
    host
}

fn datagram(src: &str, dst: &str, ttl: u8, len: u32) -> Packet {
    let (src, dst) = (at(src), at(dst));
    Packet {
        link: LinkHeader::None,
        network: udp::network_header(src.ip(), dst.ip(), 0, ttl, 17).expect("one family"),
        transport: Transport::Udp(Udp { src_port: src.port(), dst_port: dst.port() }),
        body: Body::of_len(len),
        meta: Meta { owner: Meta::NO_OWNER, ..Meta::default() },
        ..Packet::default()
    }
    .finish()
}

/// Hands a packet in that does not go straight on.
fn receive(host: &mut Host, now: Instant, mut packet: Packet) {
    assert_eq!(host.receive(now, Port(0), &mut packet), Rx::Taken);
}

fn sent(host: &mut Host, now: Instant) -> Vec<(u16, Packet)> {
    outputs(host, now)
        .into_iter()
        .filter_map(|output| match output {
            (Poll::Send { port, .. }, packet) => Some((port.0, packet)),
            _ => None,
        })
        .collect()
}

/// All that a host has to say, with the packet where there is one.
fn outputs(host: &mut Host, now: Instant) -> Vec<(Poll, Packet)> {
    let mut outputs = Vec::new();
    loop {
        let mut place = Packet::default();
        match host.poll(now, &mut place) {
            Poll::Idle(_) => return outputs,
            said => outputs.push((said, place)),
        }
    }
}

fn readiness(outputs: &[(Poll, Packet)]) -> Vec<SocketReady> {
    outputs
        .iter()
        .filter_map(|output| match output {
            (Poll::Ready(ready), _) => Some(*ready),
            _ => None,
        })
        .collect()
}

fn drops(outputs: &[(Poll, Packet)]) -> Vec<Reason> {
    outputs
        .iter()
        .filter_map(|output| match output {
            (Poll::Drop(reason), _) => Some(*reason),
            _ => None,
        })
        .collect()
}

#[test]
fn an_idle_host_is_small() {
    let mut host = Host::new();
    host.add_port(port_with("10.0.1.1"));
    let heap = size_of::<HostPort>() + size_of::<Sched>() + host.fib().memory();
    assert!(size_of::<Host>() + heap <= 2048, "{} and {heap} bytes", size_of::<Host>());
}

/// Allocators have these sizes, and above them next those of a sixth or a fifth more.
#[test]
fn what_a_host_with_a_connection_has_wastes_no_memory() {
    let connection = size_of::<tcp::ConnectionSocket>();
    assert!(connection <= 1_280, "{connection}");
    assert!(size_of::<tcp::TcpStack>() <= 896, "{}", size_of::<tcp::TcpStack>());
    assert!(size_of::<Fib>() <= 256, "{}", size_of::<Fib>());
}

#[test]
fn a_router_decrements_the_ttl_and_sends_only_with_credit() {
    let mut host = router();
    receive(&mut host, ms(0), datagram("10.0.1.2:5", "10.0.2.2:6", 64, 100));
    assert!(outputs(&mut host, ms(0)).is_empty(), "no credit, no packet");
    host.grant(ms(1), Port(1), 1);
    let sent = sent(&mut host, ms(1));
    assert_eq!(sent.len(), 1);
    assert_eq!(sent[0].0, 1);
    assert!(matches!(sent[0].1.network, crate::packet::Network::Ipv4(ip) if ip.ttl == 63));
    assert_eq!(sent[0].1.len(), 14 + 20 + 8 + 100);
}

#[test]
fn credits_are_used_up_one_by_one() {
    let mut host = router();
    host.grant(ms(0), Port(1), 1);
    for _ in 0..3 {
        receive(&mut host, ms(0), datagram("10.0.1.2:5", "10.0.2.2:6", 64, 100));
    }
    assert_eq!(sent(&mut host, ms(0)).len(), 1);
    assert_eq!(host.port(Port(1)).backlog().packets, 2);
    host.grant(ms(0), Port(1), 2);
    assert_eq!(sent(&mut host, ms(0)).len(), 2);
}

/// What a router answers, and why it drops.
#[test]
fn errors_are_reported_to_the_sender() {
    struct Case {
        what: &'static str,
        packet: Packet,
        icmp: Option<(u8, u8, u32)>,
        reason: Reason,
    }
    let cases = [
        Case {
            what: "the last hop",
            packet: datagram("10.0.1.2:5", "10.0.2.2:6", 1, 100),
            icmp: Some((11, 0, 0)),
            reason: Reason::TtlExpired,
        },
        Case {
            what: "larger than the next link takes",
            packet: datagram("10.0.1.2:5", "10.0.2.2:6", 9, 1480),
            icmp: Some((3, 4, 1500)),
            reason: Reason::PacketTooBig,
        },
        Case {
            what: "larger than the next link takes, at the last hop",
            packet: datagram("10.0.1.2:5", "10.0.2.2:6", 1, 1480),
            icmp: Some((11, 0, 0)),
            reason: Reason::TtlExpired,
        },
        Case {
            what: "no route",
            packet: datagram("10.0.1.2:5", "10.9.9.9:6", 9, 100),
            icmp: Some((3, 0, 0)),
            reason: Reason::NoRoute,
        },
        Case {
            what: "nobody listens",
            packet: datagram("10.0.1.2:5", "10.0.1.1:6", 9, 100),
            icmp: Some((3, 3, 0)),
            reason: Reason::NoSocket,
        },
        Case {
            what: "an error about an error",
            packet: Packet {
                transport: Transport::Icmp(Icmp { kind: 3, code: 1, rest: 0 }),
                ..datagram("10.0.1.2:5", "10.0.2.2:6", 1, 100)
            },
            icmp: None,
            reason: Reason::TtlExpired,
        },
    ];
    for Case { what, packet, icmp, reason } in cases {
        let mut host = router();
        host.grant(ms(0), Port(0), 1);
        receive(&mut host, ms(0), packet);
        let outputs = outputs(&mut host, ms(0));
        assert_eq!(drops(&outputs), [reason], "{what}");
        let answers: Vec<_> = outputs
            .iter()
            .filter_map(|output| match output {
                (Poll::Send { port: Port(0), .. }, packet) => Some(packet.transport),
                _ => None,
            })
            .collect();
        let expected: Vec<_> = icmp
            .map(|(kind, code, rest)| Transport::Icmp(Icmp { kind, code, rest }))
            .into_iter()
            .collect();
        assert_eq!(answers, expected, "{what}");
    }
}

#[test]
fn an_echo_request_is_answered_and_the_reply_read() {
    let mut a = Host::new();
    a.add_port(port_with("10.0.1.2"));
    let mut b = Host::new();
    b.add_port(port_with("10.0.1.3"));
    a.grant(ms(0), Port(0), 1);
    b.grant(ms(0), Port(0), 1);
    assert!(outputs(&mut b, ms(0)).is_empty());
    let ping = a.ping_open(ms(0));
    a.ping_send(ms(0), ping, ip("10.0.1.3"), 7, 56, 0).expect("a route");
    let (_, request) = sent(&mut a, ms(0)).remove(0);
    receive(&mut b, ms(5), request);
    let (_, reply) = sent(&mut b, ms(5)).remove(0);
    receive(&mut a, ms(10), reply);
    let expected = SocketReady { socket: ping, bits: SocketReady::READABLE };
    assert_eq!(readiness(&outputs(&mut a, ms(10))), [expected]);
    let reply = a.datagram_read(ping).expect("open").expect("a reply");
    assert_eq!((reply.sequence, reply.body.len, reply.at), (Some(7), 56, ms(10)));
}

/// Identifiers come again after 65,536 of them, but not one that is in use (`ping_get_port`).
#[test]
fn a_ping_socket_that_stays_open_keeps_its_identifier() {
    let mut host = Host::new();
    host.add_port(port_with("10.0.1.2"));
    host.grant(ms(0), Port(0), 2);
    let identifier = |host: &mut Host, ping| {
        host.ping_send(ms(0), ping, ip("10.0.1.3"), 7, 56, 0).expect("a route");
        let Transport::Icmp(icmp) = sent(host, ms(0)).remove(0).1.transport else {
            panic!("an echo request")
        };
        icmp.rest >> 16
    };
    let first = host.ping_open(ms(0));
    let taken = identifier(&mut host, first);
    for _ in 0..65_535 {
        let ping = host.ping_open(ms(0));
        host.datagram_close(ping).expect("open");
    }
    let latest = host.ping_open(ms(0));
    assert_ne!(identifier(&mut host, latest), taken);
}

#[test]
fn udp_goes_to_the_socket_bound_there_and_overflow_is_counted() {
    let mut host = router();
    let id = host.udp_bind(ms(0), at("0.0.0.0:6")).expect("free");
    assert_eq!(host.udp_bind(ms(0), at("0.0.0.0:6")), Err(SocketError::AddressInUse));
    host.udp_socket(id).expect("open").receive_buffer = 2000;
    for _ in 0..4 {
        receive(&mut host, ms(0), datagram("10.0.1.2:5", "10.0.1.1:6", 9, 100));
    }
    let outputs = outputs(&mut host, ms(0));
    assert_eq!(drops(&outputs), [Reason::SocketReceiveBuffer; 2]);
    assert_eq!(host.datagram_read(id).expect("open").expect("one").from, at("10.0.1.2:5"));
    assert!(host.datagram_read(id).expect("open").is_some() && host.datagram_read(id) == Ok(None));
    assert_eq!(host.udp_socket(id).expect("open").receive_drops, 2);
}

#[test]
fn a_full_send_buffer_blocks_until_half_has_left() {
    let mut host = router();
    let id = host.udp_bind(ms(0), at("0.0.0.0:6")).expect("free");
    host.udp_socket(id).expect("open").send_buffer = 3 * 832;
    let send = |host: &mut Host| host.udp_send(ms(0), id, at("10.0.2.2:9"), Body::of_len(100));
    for _ in 0..3 {
        assert!(send(&mut host).is_ok());
    }
    assert_eq!(send(&mut host), Err(SocketError::WouldBlock));
    assert!(outputs(&mut host, ms(0)).is_empty());
    host.grant(ms(1), Port(1), 2);
    assert_eq!(sent(&mut host, ms(1)).len(), 2);
    host.credit(ms(2), Port(1));
    assert_eq!(sent(&mut host, ms(2)).len(), 1);
    host.credit(ms(2), Port(1));
    let ready = SocketReady { socket: id, bits: SocketReady::WRITABLE };
    assert_eq!(readiness(&outputs(&mut host, ms(2))), [ready]);
}

fn tcp_header(flags: TcpFlags) -> Tcp {
    Tcp {
        src_port: 5,
        dst_port: 6,
        seq: Seq(0),
        ack: Seq(0),
        flags,
        window: 0,
        urgent: 0,
        options: TcpOptions::default(),
    }
}

/// A super-packet of five segments.
fn super_packet() -> Packet {
    let mut packet = datagram("10.0.1.2:5", "10.0.2.2:6", 64, 4500);
    packet.meta.gso_size = 1000;
    packet.meta.gso_segs = 5;
    packet.meta.truesize = 9000;
    packet
}

/// `ip_forward`: whatever the sender's was.
#[test]
fn a_router_sets_the_priority_from_the_tos() {
    let mut host = router();
    host.grant(ms(0), Port(1), 9);
    for (tos, priority) in [(0, 0), (3, 0), (0x08, 2), (0x10, 6), (0x1b, 4), (0xb8, 4), (0xe0, 0)] {
        let mut packet = datagram("10.0.1.2:5", "10.0.2.2:6", 64, 100);
        packet.meta.priority = 7;
        packet.set_tos(tos);
        // It goes straight on, unless something else has to be said first.
        let passed = match host.receive(ms(0), Port(0), &mut packet) {
            Rx::Forward(_) => packet,
            _ => sent(&mut host, ms(0)).remove(0).1,
        };
        assert_eq!(passed.meta.priority, priority, "TOS {tos:#x}");
    }
}

/// `tcp_v4_send_reset`, `ip_send_unicast_reply`.
#[test]
fn a_reset_without_a_socket_has_the_dscp_of_the_segment_it_answers() {
    let mut host = router();
    host.grant(ms(0), Port(0), 1);
    let header = tcp_header(TcpFlags::SYN);
    let mut syn = datagram("10.0.1.2:5", "10.0.1.1:6", 64, 0);
    syn.transport = Transport::Tcp(header);
    syn = syn.finish();
    syn.set_tos(0x2b);
    receive(&mut host, ms(0), syn);
    let sent = sent(&mut host, ms(0));
    assert_eq!(sent.iter().map(|(_, reset)| reset.network.tos()).collect::<Vec<_>>(), [0x28]);
}

#[test]
fn a_packet_of_a_host_to_itself_loops_back() {
    let mut host = router();
    let id = host.udp_bind(ms(0), at("0.0.0.0:6")).expect("free");
    let body = Body::of_len(10);
    host.udp_send(ms(0), id, at("10.0.1.1:6"), body).expect("local");
    assert_eq!(outputs(&mut host, ms(0)).len(), 1, "the socket has become readable");
    assert_eq!(host.datagram_read(id).expect("open").expect("looped").from, at("10.0.1.1:6"));
}

/// What waits in a queue belongs to the socket that has sent it, and to no other.
#[test]
fn a_socket_number_is_used_again_when_no_packet_has_it() {
    let mut host = Host::new();
    host.add_port(port_with("10.0.1.1"));
    let first = host.udp_bind(ms(0), at("10.0.1.1:5")).expect("a free port");
    let body = Body::of_len(100);
    host.udp_send(ms(0), first, at("10.0.1.2:6"), body).expect("room");
    host.datagram_close(first).expect("open");
    assert_eq!((host.sockets.len(), host.sockets.leaving()), (0, 1));
    let second = host.udp_bind(ms(0), at("10.0.1.1:5")).expect("the port is free at once");
    assert_ne!(first.index(), second.index(), "a datagram of the first one waits");
    assert!(outputs(&mut host, ms(0)).is_empty());
    host.grant(ms(1), Port(0), 1);
    assert_eq!(sent(&mut host, ms(1)).len(), 1);
    host.credit(ms(2), Port(0));
    assert_eq!(host.sockets.leaving(), 0);
    let third = host.udp_bind(ms(2), at("10.0.1.1:7")).expect("a free port");
    assert_eq!(third.index(), first.index());
    assert_ne!(third, first, "it is another socket all the same");
}

/// A socket that is closed, or was never given out, or is of another kind: an error of its own in every call, and
/// nobody else's socket is touched, though it has the same slot.
#[test]
fn a_wrong_socket_is_an_error() {
    let mut host = Host::new();
    host.add_port(port_with("10.0.1.1"));
    let config = host.tcp_defaults();
    let closed = host.udp_bind(ms(0), at("10.0.1.1:5")).expect("a free port");
    host.datagram_close(closed).expect("open");
    let listener = host.tcp_listen(ms(0), at("10.0.1.1:80"), &config);
    assert_eq!(listener.index(), closed.index(), "the slot is used again");
    let tcp = host.tcp_connect(ms(0), at("0.0.0.0:0"), at("10.0.1.2:80"), &config).expect("a port");
    let udp = host.udp_bind(ms(0), at("10.0.1.1:6")).expect("a free port");
    let mut other = Host::new();
    let never = (0..9).map(|port| other.udp_bind(ms(0), SocketAddr::new(ip("0.0.0.0"), 9 + port)));
    let never = never.last().expect("some").expect("a free port");

    let body = Body::default();
    let (bad, kind) = (SocketError::BadSocket, SocketError::WrongKind);
    for (id, error) in [(closed, bad), (never, bad), (listener, kind), (udp, kind)] {
        assert_eq!(host.tcp_write(ms(0), id, 1), Err(error));
        assert_eq!(host.tcp_read(ms(0), id, 1), Err(error));
        assert_eq!(host.tcp_shutdown(ms(0), id), Err(error));
        assert_eq!(host.tcp_abort(ms(0), id), Err(error));
        assert_eq!(host.with_tcp(ms(0), id, |_, _| ()), Err(error));
        assert!(host.tcp_connection(id).is_none() && host.tcp_info(ms(0), id).is_none());
    }
    for (id, error) in [(closed, bad), (never, bad), (udp, kind)] {
        assert_eq!(host.tcp_close(ms(0), id), Err(error));
        assert_eq!(host.tcp_wakes(id), Err(error));
        assert_eq!(host.tcp_take_error(id), Err(error));
        assert_eq!(host.tcp_take_any_error(id), Err(error));
    }
    for (id, error) in [(closed, bad), (never, bad), (udp, kind), (tcp, kind)] {
        assert_eq!(host.tcp_accept(id), Err(error));
        assert_eq!(host.tcp_set_backlog(id, 1), Err(error));
        assert_eq!(host.tcp_set_fast_open(id, 1), Err(error));
        assert!(
            host.tcp_listener(id).is_none() && host.tcp_configure_listener(id, |_| ()).is_err()
        );
    }
    for (id, error) in [(closed, bad), (never, bad), (listener, kind), (tcp, kind)] {
        assert_eq!(host.udp_send(ms(0), id, at("10.0.1.1:6"), body.clone()), Err(error));
        assert_eq!(host.udp_connect(id, at("10.0.1.1:6")), Err(error));
        assert_eq!(host.udp_disconnect(id, at("10.0.1.1:6")), Err(error));
        assert_eq!(host.udp_take_error(id), Err(error));
        assert_eq!(host.udp_take_icmp(id), Err(error));
        assert_eq!(host.udp_has_error(id), Err(error));
        assert_eq!(host.udp_wakes(id), Err(error));
        assert_eq!(host.udp_peer(id), Err(error));
        assert_eq!(host.udp_path_mtu(ms(0), id), Err(error));
        assert_eq!(host.datagram_read(id), Err(error));
        assert_eq!(host.datagram_close(id), Err(error));
        assert_eq!(host.ping_send(ms(0), id, ip("10.0.1.1"), 1, 1, 0), Err(error));
        assert!(host.udp(id).is_none());
    }
    assert!(host.tcp_listener(listener).is_some() && host.tcp_connection(tcp).is_some());
    assert!(host.udp(udp).is_some());
}

/// `EADDRNOTAVAIL`: as many connections to one end as there are ephemeral ports.
#[test]
fn a_connection_needs_a_free_port() {
    let mut host = Host::new();
    host.add_port(port_with("10.0.1.1"));
    let config = host.tcp_defaults();
    let connect =
        |host: &mut Host| host.tcp_connect(ms(0), at("0.0.0.0:0"), at("10.0.1.2:80"), &config);
    let opened: Vec<SocketId> = (0..28_232).map(|_| connect(&mut host).expect("a port")).collect();
    assert_eq!(connect(&mut host), Err(SocketError::AddressNotAvailable));
    assert_eq!(connect(&mut host), Err(SocketError::AddressNotAvailable));
    let elsewhere = host.tcp_connect(ms(0), at("0.0.0.0:0"), at("10.0.1.2:81"), &config);
    assert!(elsewhere.is_ok(), "another end has ports of its own");
    host.tcp_abort(ms(0), opened[7]).expect("open");
    assert!(connect(&mut host).is_ok(), "one is free again");
}

/// A SYN that has not left its host is not sent again, and the timeout doubles all the same
/// (`tcp_retransmit_timer`, `-EBUSY` of `skb_still_in_host_queue`).
#[test]
fn a_handshake_waits_as_long_where_its_syn_is_stuck_in_a_queue() {
    let mut host = Host::new();
    host.add_port(port_with("10.0.1.1"));
    let config = host.tcp_defaults();
    let id = host.tcp_connect(ms(0), at("0.0.0.0:0"), at("10.0.1.2:80"), &config);
    let id = id.expect("a port is free");
    assert!(outputs(&mut host, ms(0)).is_empty(), "the device has no room");
    let mut seconds = Vec::new();
    let failed =
        |host: &Host| host.tcp_connection(id).is_none_or(|tcp| tcp.state() == State::Close);
    while !failed(&host) {
        let at = host.wake_at().expect("a timer");
        seconds.push(at.as_millis() / 1_000);
        drop(outputs(&mut host, at));
    }
    // Four at constant distance (tcp_syn_linear_timeouts), then six that double; the timer wheel
    // rounds the longest up.
    assert_eq!(seconds, [1, 2, 3, 4, 5, 7, 11, 19, 35, 68, 136]);
}
