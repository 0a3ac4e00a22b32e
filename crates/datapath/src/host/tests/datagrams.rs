//! Datagrams that a port with receive offload takes in together.

use super::*;
use crate::host::Offloads;
use crate::packet::{Ipv4, Network, protocol};

fn host(gro: bool) -> (Host, SocketId) {
    let mut host = Host::new();
    let addresses = vec![([10, 0, 1, 1].into(), 24)];
    let offloads = Offloads { gro: true, ..Offloads::default() };
    host.add_port(PortConfig { addresses, offloads, ..PortConfig::default() });
    host.grant(ms(0), Port(0), 100);
    let id = host.udp_bind(ms(0), at("0.0.0.0:5000")).expect("free");
    host.udp_set_gro(id, gro);
    assert!(outputs(&mut host, ms(0)).is_empty());
    (host, id)
}

fn datagram(src_port: u16, len: u32) -> Packet {
    let network = Ipv4::new([10, 0, 1, 2].into(), [10, 0, 1, 1].into(), protocol::UDP);
    Packet {
        network: Network::Ipv4(network),
        transport: Transport::Udp(Udp { src_port, dst_port: 5000 }),
        body: Body::of_len(len),
        ..Packet::default()
    }
    .finish()
}

/// What comes between two interrupts, by sender and length, and what is read of it: sender, bytes, and of each datagram.
/// As Linux 6.18 was seen to do behind a `veth` that merges; of what has a shorter last one no more is joined
/// (`udp_gro_receive_segment`).
#[test]
fn datagrams_between_two_interrupts_are_read_together() {
    let many = [(1, 10); 100];
    for (gro, came, read) in [
        (
            false,
            &[(1, 1_000), (1, 1_000), (1, 500)][..],
            &[(1, 1_000, 0), (1, 1_000, 0), (1, 500, 0)][..],
        ),
        (true, &[(1, 1_000), (1, 1_000), (1, 500)], &[(1, 2_500, 1_000)]),
        (true, &[(1, 1_000), (1, 1_000)], &[(1, 2_000, 1_000)]),
        (true, &[(1, 1_000)], &[(1, 1_000, 0)]),
        (true, &many, &[(1, 640, 10), (1, 360, 10)]),
        (true, &[(1, 10), (2, 10), (1, 10)], &[(1, 20, 10), (2, 10, 0)]),
        (true, &[(1, 10), (1, 5), (1, 10)], &[(1, 15, 10), (1, 10, 0)]),
        (true, &[(1, 10), (1, 20)], &[(1, 10, 0), (1, 20, 0)]),
        (true, &[(1, 0), (1, 0)], &[(1, 0, 0), (1, 0, 0)]),
    ] {
        let (mut host, id) = host(gro);
        for (src_port, len) in came {
            receive(&mut host, ms(1), datagram(*src_port, *len));
        }
        assert!(outputs(&mut host, ms(1)).is_empty());
        let due = host.wake_at().expect("an interrupt");
        outputs(&mut host, due);
        let mut told = Vec::new();
        while let Some(one) = host.datagram_read(id).expect("open") {
            told.push((one.from.port(), one.body.len, one.gso_size));
        }
        assert_eq!(told, read, "{gro} {came:?}");
        assert_eq!(host.snmp(false).udp_in_datagrams, read.len() as u64);
    }
}
