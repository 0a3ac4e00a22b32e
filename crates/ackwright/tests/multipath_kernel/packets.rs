//! Packets of many kinds as bytes: plain ones, fragments, ICMP errors, tunnels.
//!
//! Each ends with its number, four bytes that whoever catches it can read.

use datapath::rng::Rng;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

const ICMP: u8 = 1;
const IPIP: u8 = 4;
const TCP: u8 = 6;
const UDP: u8 = 17;
const IPV6: u8 = 41;
const FRAGMENT: u8 = 44;
const GRE: u8 = 47;
const ICMPV6: u8 = 58;
const DESTINATION_OPTIONS: u8 = 60;

/// A packet from `src` to `dst` that ends with `number`. Every second one is a tunnel's.
pub fn any(rng: &mut Rng, src: IpAddr, dst: IpAddr, number: u32) -> Vec<u8> {
    let v6 = dst.is_ipv6();
    let end = number.to_be_bytes();
    if rng.below(2) == 0 {
        let (kind, payload) = tunnelled(rng, &end);
        return network(rng, src, dst, kind, &payload);
    }
    match rng.below(6) {
        0 => fragment(rng, src, dst, &end),
        1 => error(rng, src, dst, &end),
        2 if v6 => {
            let (kind, mut payload) = transport(rng, &end);
            payload.splice(0..0, [kind, 0, 1, 4, 0, 0, 0, 0]);
            network(rng, src, dst, DESTINATION_OPTIONS, &payload)
        }
        2 => echo(rng, src, dst, &end),
        _ => {
            let (kind, payload) = transport(rng, &end);
            network(rng, src, dst, kind, &payload)
        }
    }
}

fn below(rng: &mut Rng, bound: u64) -> u16 {
    rng.below(bound) as u16
}

/// A segment or datagram that ends with `end`.
fn transport(rng: &mut Rng, end: &[u8]) -> (u8, Vec<u8>) {
    let ports = rng.next_u32().to_be_bytes();
    let mut bytes = ports.to_vec();
    if rng.below(2) == 0 {
        // Sequence and acknowledgement numbers, five words, ACK, a window.
        bytes.extend([0, 0, 0, 1, 0, 0, 0, 1, 0x50, 0x10, 0x10, 0, 0, 0, 0, 0]);
        bytes.extend(end);
        return (TCP, bytes);
    }
    bytes.extend((8 + end.len() as u16).to_be_bytes());
    bytes.extend([0, 0]);
    bytes.extend(end);
    (UDP, bytes)
}

/// An address of a family, any at all.
fn address(rng: &mut Rng, v6: bool) -> IpAddr {
    if v6 {
        let host = u128::from(rng.next_u64());
        return Ipv6Addr::from_bits(0xfd77 << 112 | host).into();
    }
    Ipv4Addr::from_bits(0x0b00_0000 | rng.next_u32() >> 8).into()
}

/// A packet inside: IPv4 or IPv6, sometimes with a tunnel of its own.
fn inner(rng: &mut Rng, v6: bool, end: &[u8]) -> Vec<u8> {
    let (src, dst) = (address(rng, v6), address(rng, v6));
    let (kind, payload) = match rng.below(6) {
        0 => tunnelled(rng, end),
        _ => transport(rng, end),
    };
    network(rng, src, dst, kind, &payload)
}

/// A protocol that carries packets, and what it carries.
fn tunnelled(rng: &mut Rng, end: &[u8]) -> (u8, Vec<u8>) {
    let v6 = rng.below(2) == 0;
    let packet = inner(rng, v6, end);
    if rng.below(2) == 0 {
        return (if v6 { IPV6 } else { IPIP }, packet);
    }
    // A key and a sequence number, or neither.
    let with_key = rng.below(2) == 0;
    let mut bytes = vec![if with_key { 0x30 } else { 0 }, 0];
    bytes.extend(if v6 { [0x86, 0xdd] } else { [0x08, 0x00] });
    if with_key {
        bytes.extend(rng.next_u64().to_be_bytes());
    }
    bytes.extend(packet);
    (GRE, bytes)
}

/// A fragment: the first one or a later one.
fn fragment(rng: &mut Rng, src: IpAddr, dst: IpAddr, end: &[u8]) -> Vec<u8> {
    let later = rng.below(2) == 0;
    // Offsets count units of eight bytes.
    let offset = if later { 64 + below(rng, 64) } else { 0 };
    let (kind, mut payload) = transport(rng, end);
    if dst.is_ipv6() {
        // The offset stands in the upper thirteen bits, "more follow" in the lowest one.
        let place = (offset << 3 | u16::from(!later)).to_be_bytes();
        let mut header = vec![kind, 0, place[0], place[1]];
        header.extend(rng.next_u32().to_be_bytes());
        payload.splice(0..0, header);
        return network(rng, src, dst, FRAGMENT, &payload);
    }
    let mut packet = network(rng, src, dst, kind, &payload);
    let more = if later { 0 } else { 0x2000 };
    packet[6..8].copy_from_slice(&(offset | more).to_be_bytes());
    with_checksum(packet)
}

/// An ICMP error that quotes a packet of the other direction.
fn error(rng: &mut Rng, src: IpAddr, dst: IpAddr, end: &[u8]) -> Vec<u8> {
    let v6 = dst.is_ipv6();
    let kinds: [u8; 4] = if v6 { [1, 2, 3, 4] } else { [3, 5, 11, 12] };
    let kind = kinds[rng.below(4) as usize];
    let quoted = {
        let (from, to) = (dst, address(rng, v6));
        let (protocol, payload) = transport(rng, end);
        network(rng, from, to, protocol, &payload)
    };
    let mut payload = vec![kind, 0, 0, 0, 0, 0, 0, 0];
    payload.extend(quoted);
    network(rng, src, dst, if v6 { ICMPV6 } else { ICMP }, &payload)
}

/// An echo request.
fn echo(rng: &mut Rng, src: IpAddr, dst: IpAddr, end: &[u8]) -> Vec<u8> {
    let mut payload = vec![8, 0, 0, 0];
    payload.extend(rng.next_u32().to_be_bytes());
    payload.extend(end);
    network(rng, src, dst, ICMP, &payload)
}

/// The header of either family before a payload.
fn network(rng: &mut Rng, src: IpAddr, dst: IpAddr, protocol: u8, payload: &[u8]) -> Vec<u8> {
    let mut packet = Vec::new();
    match (src, dst) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => {
            packet.extend([0x45, 0]);
            packet.extend((20 + payload.len() as u16).to_be_bytes());
            packet.extend(below(rng, 65536).to_be_bytes());
            // Don't-fragment on every second one.
            packet.extend([if rng.below(2) == 0 { 0x40 } else { 0 }, 0, 64, protocol, 0, 0]);
            packet.extend(src.octets());
            packet.extend(dst.octets());
            packet.extend(payload);
            with_checksum(packet)
        }
        (IpAddr::V6(src), IpAddr::V6(dst)) => {
            // A flow label on every second one.
            let label = if rng.below(2) == 0 { rng.next_u32() & 0xf_ffff } else { 0 };
            packet.extend((0x6000_0000 | label).to_be_bytes());
            packet.extend((payload.len() as u16).to_be_bytes());
            packet.extend([protocol, 64]);
            packet.extend(src.octets());
            packet.extend(dst.octets());
            packet.extend(payload);
            packet
        }
        _ => panic!("a packet between address families: {src} {dst}"),
    }
}

/// An IPv4 packet with the checksum of its header (RFC 1071) set anew.
fn with_checksum(mut packet: Vec<u8>) -> Vec<u8> {
    packet[10..12].fill(0);
    let words = packet[..20].chunks(2).map(|two| u32::from(two[0]) << 8 | u32::from(two[1]));
    let sum: u32 = words.sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    let folded = (folded & 0xffff) + (folded >> 16);
    packet[10..12].copy_from_slice(&(!(folded as u16)).to_be_bytes());
    packet
}
