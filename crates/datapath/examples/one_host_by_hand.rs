//! One host, turned by hand: the driver is the wire, the peer and the clock. A client's SYN is handed
//! in, the host's answer comes out, and the connection is accepted.

use core::net::{Ipv4Addr, SocketAddr};
use datapath::host::{Host, PortConfig};
use datapath::node::{Poll, Port, Rx, SocketReady};
use datapath::packet::seq::Seq;
use datapath::packet::{
    Ipv4, LinkHeader, Meta, Network, Packet, Tcp, TcpFlags, TcpOptions, Transport,
};
use datapath::units::{Duration, Instant};

const SERVER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const CLIENT: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);

fn main() {
    let mut host = Host::new();
    let port = host.add_port(PortConfig {
        addresses: vec![(SERVER.into(), 24)],
        link: LinkHeader::None,
        ..PortConfig::default()
    });

    // Time is what the driver says it is. The device has room for one packet.
    let mut now = Instant::ZERO;
    host.grant(now, port, 1);
    let defaults = host.tcp_defaults();
    let listener = host.tcp_listen(now, SocketAddr::from((SERVER, 80)), &defaults);
    turn(&mut host, now);

    now += Duration::from_millis(10);
    let syn = segment(TcpFlags::SYN, Seq(1_000), Seq(0));
    let (sent, _) = hand_in(&mut host, now, port, syn);
    let answer = *sent[0].tcp().expect("a SYN-ACK");

    now += Duration::from_millis(10);
    let ack = segment(TcpFlags::ACK, Seq(1_001), answer.seq + 1);
    let (_, ready) = hand_in(&mut host, now, port, ack);
    assert!(ready.contains(&SocketReady { socket: listener, bits: SocketReady::READABLE }));

    let connection = host.tcp_accept(listener).expect("a listener");
    let connection = connection.expect("the handshake is complete");
    println!("{now:?} accepted as {connection:?}");
    turn(&mut host, now);
}

/// What a host has sent, and which sockets have become ready.
type Said = (Vec<Packet>, Vec<SocketReady>);

/// A packet arrives: what the host says then.
fn hand_in(host: &mut Host, now: Instant, port: Port, mut packet: Packet) -> Said {
    println!("{now:?} < {}", describe(&packet));
    match host.receive(now, port, &mut packet) {
        Rx::Taken => turn(host, now),
        Rx::Queued | Rx::Forward(_) => unreachable!("only routers pass packets on"),
    }
}

/// Polls until there is nothing more to say, and notes when to come back.
fn turn(host: &mut Host, now: Instant) -> Said {
    let (mut sent, mut ready) = (Vec::new(), Vec::new());
    let mut place = Packet::default();
    loop {
        match host.poll(now, &mut place) {
            Poll::Send { port, .. } => {
                println!("{now:?} > {}", describe(&place));
                sent.push(place.take());
                // The packet has left at once: there is room for the next one.
                host.credit(now, port);
            }
            Poll::Drop(reason) => println!("{now:?} dropped: {}", reason.name()),
            Poll::Ready(one) => ready.push(one),
            Poll::Event(event) => println!("{now:?} {event:?}"),
            Poll::Idle(at) if at < Instant::FAR_FUTURE => {
                println!("{now:?} idle until {at:?}");
                return (sent, ready);
            }
            Poll::Idle(_) => return (sent, ready),
        }
    }
}

fn segment(flags: TcpFlags, seq: Seq, ack: Seq) -> Packet {
    let (src_port, dst_port, window, urgent, options) =
        (4_000, 80, 65_535, 0, TcpOptions::default());
    let tcp = Tcp { src_port, dst_port, seq, ack, flags, window, urgent, options };
    let network = Network::Ipv4(Ipv4::new(CLIENT, SERVER, 6));
    let meta = Meta { owner: Meta::NO_OWNER, ..Meta::default() };
    let transport = Transport::Tcp(tcp);
    Packet { network, transport, meta, ..Packet::default() }.finish()
}

fn describe(packet: &Packet) -> String {
    let tcp = packet.tcp().expect("TCP");
    let (seq, ack, flags) = (tcp.seq.0, tcp.ack.0, tcp.flags);
    format!("{} > {}: {flags:?} seq {seq} ack {ack}", tcp.src_port, tcp.dst_port)
}
