//! Packets for tests.

use super::*;
use crate::packet::seq::Seq;
use core::net::{Ipv4Addr, Ipv6Addr};
use std::sync::LazyLock;

/// IPv4 without link header, don't-fragment set, id 100.
pub fn ipv4(protocol: u8) -> Network {
    Network::Ipv4(Ipv4 {
        tos: 0x02,
        id: 100,
        ..Ipv4::new(Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2), protocol)
    })
}

/// IPv6 with a flow label.
pub fn ipv6(protocol: u8) -> Network {
    Network::Ipv6(Ipv6 {
        src: Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1),
        dst: Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 2),
        traffic_class: 0x02,
        hop_limit: 64,
        next_header: protocol,
        flow_label: FlowLabel::new(0x12345),
    })
}

/// A TCP header with timestamps.
pub fn tcp(flags: TcpFlags) -> Transport {
    Transport::Tcp(Tcp {
        src_port: 40000,
        dst_port: 5201,
        seq: Seq(0xffff_f000),
        ack: Seq(2000),
        flags,
        window: 512,
        urgent: 0,
        options: TcpOptions {
            timestamps: Some(Timestamps { value: 7, echo: 8 }),
            ..TcpOptions::default()
        },
    })
}

/// The frame that payloads of tests lie in.
static STORE: LazyLock<FrameRef> = LazyLock::new(|| FrameRef::from(payload(1 << 20)));

/// A packet with the first `len` bytes of payload of the tests' frame.
pub fn packet(network: Network, transport: Transport, len: u32) -> Packet {
    Packet {
        link: Link::Ethernet { dst: MacAddr([2; 6]), src: MacAddr([4; 6]) },
        network,
        transport,
        body: Body { frame: Some(STORE.clone()), offset: 0, len },
        meta: Meta { truesize: 1001 + len, ..Meta::default() },
        ..Packet::default()
    }
    .finish()
}

/// `len` bytes that do not sum to zero.
pub fn payload(len: u32) -> Vec<u8> {
    (0..len).map(|at| (at % 251) as u8).collect()
}

/// The packet as bytes, its body taken from `store`.
pub fn bytes(packet: &Packet, store: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let from = packet.body.offset as usize;
    packet.emit(&store[from..from + packet.body.len as usize], &mut out);
    out
}

/// The same packet with an option that only `Extra::raw` can hold.
pub fn with_raw_option(packet: &Packet) -> Packet {
    let mut raw = Vec::new();
    packet.emit_headers(&mut raw);
    raw.extend([77, 4, 1, 2]);
    let network_offset = packet.link.len() as u16;
    let transport_offset = network_offset + packet.network.len() as u16;
    raw[usize::from(transport_offset) + 12] += 0x10;
    let extra =
        Extra { raw, network_offset, transport_offset, recompute: true, ..Extra::default() };
    Packet { extra: Some(Box::new(extra)), ..packet.clone() }.finish()
}
