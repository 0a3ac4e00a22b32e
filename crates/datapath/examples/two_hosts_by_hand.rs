//! Two hosts, turned by hand: one sends a sentence, the other reads it. Between them lie bytes, as on
//! a wire: packets are emitted into frames of a pool, and parsed where they lie.
//!
//! ```text
//! cargo run -p ackwright-datapath --example two_hosts_by_hand
//! ```

use core::net::{Ipv4Addr, SocketAddr};
use datapath::host::{Host, PortConfig, TcpRead};
use datapath::node::{Poll, Port, Rx};
use datapath::packet::{Frames, LinkHeader, Packet};
use datapath::units::{Duration, Instant};

const SENTENCE: &[u8] = b"Sequence and acknowledgment, hand in hand.";

fn main() {
    let mut hosts = [host(1), host(2)];
    // Frames of the devices: a packet's payload stays where the device has put it.
    let mut frames = Frames::new(2_048, 64);
    let now = Instant::ZERO;
    let server = SocketAddr::from((Ipv4Addr::new(10, 0, 0, 2), 80));
    let client = SocketAddr::from((Ipv4Addr::new(10, 0, 0, 1), 4_000));
    let defaults = hosts[0].tcp_defaults();
    let listener = hosts[1].tcp_listen(now, server, &defaults);
    let socket = hosts[0].tcp_connect(now, client, server, &defaults).expect("a free port");
    settle(&mut hosts, now, &mut frames);

    let accepted = hosts[1].tcp_accept(listener).expect("a listener").expect("a connection");
    let now = now + Duration::from_millis(1);
    assert_eq!(hosts[0].tcp_send(now, socket, SENTENCE), Ok(SENTENCE.len() as u64));
    settle(&mut hosts, now, &mut frames);

    // The sentence waits in a device's frame until it is read; then the frame is free.
    assert_eq!(frames.held(), 1);
    let mut memory = [0; 100];
    let Ok(TcpRead::Data(len)) = hosts[1].tcp_receive(now, accepted, &mut memory) else {
        panic!("the sentence has come")
    };
    settle(&mut hosts, now, &mut frames);
    assert_eq!(&memory[..len as usize], SENTENCE);
    assert_eq!(frames.held(), 0);
    println!("{}", String::from_utf8_lossy(&memory[..len as usize]));
}

fn host(last: u8) -> Host {
    let mut host = Host::new();
    let addresses = vec![(Ipv4Addr::new(10, 0, 0, last).into(), 24)];
    let port =
        host.add_port(PortConfig { addresses, link: LinkHeader::None, ..PortConfig::default() });
    host.grant(Instant::ZERO, port, 8);
    let idle = host.poll(Instant::ZERO, &mut Packet::default());
    assert!(matches!(idle, Poll::Idle(_)));
    host
}

/// Carries packets over until nobody has anything to say.
fn settle(hosts: &mut [Host; 2], now: Instant, frames: &mut Frames) {
    let (mut place, mut bytes) = (Packet::default(), Vec::new());
    let mut quiet = 0;
    while quiet < 2 {
        for from in 0..2 {
            quiet += 1;
            while let said @ (Poll::Send { .. } | Poll::Ready(_)) =
                hosts[from].poll(now, &mut place)
            {
                quiet = 0;
                let Poll::Send { port, .. } = said else { continue };
                bytes.clear();
                place.emit_whole(&mut bytes);
                println!("{now:?} {} bytes from host {}", bytes.len(), from + 1);
                drop(place.take());
                hosts[from].credit(now, port);
                let frame = frames.copy(&bytes).expect("a free frame");
                let mut packet = Packet::parse_ip(&frame).expect("an IP packet");
                drop(frame);
                let rx = hosts[1 - from].receive(now, Port(0), &mut packet);
                assert_eq!(rx, Rx::Taken);
            }
        }
    }
}
