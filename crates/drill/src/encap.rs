//! Headers around packets: IP in IP, 6in4, GRE (RFC 2784, RFC 2890), MPLS (RFC 3032, RFC 4023).

use crate::ast::{GreSpec, IpInfo, MplsLabel, Outer, TosSpec};
use crate::compare::Difference;
use crate::show;
use crate::wire::{network, plain};
use core::net::{Ipv4Addr, Ipv6Addr};
use datapath::packet::{Packet, Transport, protocol};

/// A packet with headers around it, the first one outermost, as a host reads it.
pub fn wrapped(inner: &Packet, outer: &[Outer]) -> Packet {
    let bytes = wrapped_bytes(bytes_of(inner), outer);
    Packet::parse_ip(&bytes[..]).map(Packet::finish).unwrap_or_default()
}

fn bytes_of(packet: &Packet) -> Vec<u8> {
    let mut bytes = Vec::new();
    packet.emit(&vec![0; packet.body.len as usize], &mut bytes);
    bytes
}

fn wrapped_bytes(mut bytes: Vec<u8>, outer: &[Outer]) -> Vec<u8> {
    let mut number = ip_protocol(&bytes);
    for header in outer.iter().rev() {
        let mut whole = Vec::new();
        let mut ip = |info, src, dst| {
            let network = network(src, dst, number, info);
            plain(network, Transport::None, bytes.len() as u32).emit(&bytes, &mut whole);
        };
        number = match header {
            Outer::Ipv4(info, src, dst) => {
                ip(*info, (*src).into(), (*dst).into());
                protocol::IPIP
            }
            Outer::Ipv6(info, src, dst) => {
                ip(*info, (*src).into(), (*dst).into());
                protocol::IPV6
            }
            Outer::Gre(gre) => {
                write_gre(*gre, ether_type(number), &mut whole);
                whole.extend_from_slice(&bytes);
                protocol::GRE
            }
            Outer::Mpls(labels) => {
                write_mpls(labels, &mut whole);
                whole.extend_from_slice(&bytes);
                MPLS_IN_IP
            }
        };
        bytes = whole;
    }
    bytes
}

/// The headers around a packet, the first one outermost, and the packet in them.
pub fn unwrapped(packet: &Packet) -> (Vec<Outer>, Packet) {
    if !packet.network.protocol().is_some_and(is_tunnel) {
        return (Vec::new(), packet.clone());
    }
    let bytes = bytes_of(packet);
    let (layers, rest) = unwrapped_bytes(&bytes);
    match Packet::parse_ip(rest) {
        Ok(mut inner) => {
            inner.body.offset = 0;
            (layers, inner.finish())
        }
        Err(_) => (Vec::new(), packet.clone()),
    }
}

fn unwrapped_bytes(bytes: &[u8]) -> (Vec<Outer>, &[u8]) {
    let mut layers = Vec::new();
    let mut rest = bytes;
    while layers.len() < MAX_LAYERS
        && let Some((layer, mut number, behind)) = ip_layer(rest)
        && is_tunnel(number)
    {
        layers.push(layer);
        rest = behind;
        if number == protocol::GRE {
            let Some((gre, ether_type, behind)) = read_gre(rest) else { break };
            layers.push(Outer::Gre(gre));
            rest = behind;
            number = if ether_type == MPLS_ETHER_TYPE { MPLS_IN_IP } else { number };
        }
        if number == MPLS_IN_IP {
            let (labels, behind) = read_mpls(rest);
            layers.push(Outer::Mpls(labels));
            rest = behind;
        }
    }
    (layers, rest)
}

/// Where the headers around a packet are not those that the script says.
pub fn differences(spec: &[Outer], actual: &[Outer]) -> Vec<Difference> {
    let names = |layers: &[Outer]| match layers {
        [] => "none".to_owned(),
        layers => layers.iter().map(name).collect::<Vec<_>>().join(" "),
    };
    if spec.iter().map(name).ne(actual.iter().map(name)) {
        return vec![Difference::new("encapsulation", names(spec), names(actual))];
    }
    let mut out = Vec::new();
    for (spec, actual) in spec.iter().zip(actual) {
        let mut field = |name: &str, expected: String, actual: String| {
            if expected != actual {
                out.push(Difference::new(name, expected, actual));
            }
        };
        match (spec, actual) {
            (Outer::Ipv4(info, src, dst), Outer::Ipv4(seen, seen_src, seen_dst)) => {
                field("outer src", src.to_string(), seen_src.to_string());
                field("outer dst", dst.to_string(), seen_dst.to_string());
                compare_info(*info, *seen, &mut out);
            }
            (Outer::Ipv6(info, src, dst), Outer::Ipv6(seen, seen_src, seen_dst)) => {
                field("outer src", src.to_string(), seen_src.to_string());
                field("outer dst", dst.to_string(), seen_dst.to_string());
                compare_info(*info, *seen, &mut out);
            }
            (Outer::Gre(spec), Outer::Gre(seen)) => {
                let hex = |flags: u16| format!("{flags:#06x}");
                field("gre flags", hex(spec.flags), hex(seen.flags));
                if spec.flags & seen.flags & CHECKSUM != 0 {
                    field("gre sum", spec.sum.to_string(), seen.sum.to_string());
                    field("gre off", spec.offset.to_string(), seen.offset.to_string());
                }
                if spec.flags & seen.flags & KEY != 0 {
                    field("gre key", spec.key.to_string(), seen.key.to_string());
                }
                if spec.flags & seen.flags & SEQUENCE != 0 {
                    field("gre seq", spec.sequence.to_string(), seen.sequence.to_string());
                }
            }
            (Outer::Mpls(spec), Outer::Mpls(seen)) => {
                field("mpls", show::mpls(spec), show::mpls(seen));
            }
            _ => unreachable!("layers of the same names"),
        }
    }
    out
}

fn compare_info(spec: IpInfo, seen: IpInfo, out: &mut Vec<Difference>) {
    let TosSpec::Tos(byte) = seen.tos else { return };
    match spec.tos {
        TosSpec::Ecn(bits) if bits != byte & 3 => {
            out.push(Difference::new("outer ecn", show::ecn_name(bits), show::ecn_name(byte)));
        }
        TosSpec::Ect01 if !matches!(byte & 3, 1 | 2) => {
            out.push(Difference::new("outer ecn", "ect0 or ect1", show::ecn_name(byte)));
        }
        TosSpec::Tos(wanted) if wanted != byte => {
            out.push(Difference::new(
                "outer tos",
                format!("{wanted:#04x}"),
                format!("{byte:#04x}"),
            ));
        }
        _ => {}
    }
    if spec.ttl != 0 && spec.ttl != seen.ttl {
        out.push(Difference::new("outer ttl", spec.ttl.to_string(), seen.ttl.to_string()));
    }
}

/// The word of the language for a layer.
const fn name(layer: &Outer) -> &'static str {
    match layer {
        Outer::Ipv4(..) => "ipv4",
        Outer::Ipv6(..) => "ipv6",
        Outer::Gre(_) => "gre",
        Outer::Mpls(_) => "mpls",
    }
}

// Bytes.

/// An IP header: what it says, the protocol behind it, and what lies there.
fn ip_layer(bytes: &[u8]) -> Option<(Outer, u8, &[u8])> {
    let first = *bytes.first()?;
    if first >> 4 == 4 {
        let (header, _) = bytes.split_first_chunk::<20>()?;
        let address = |at: usize| Ipv4Addr::from([0, 1, 2, 3].map(|n| header[at + n]));
        let info = IpInfo { tos: TosSpec::Tos(header[1]), ttl: header[8], flow_label: 0 };
        let behind = bytes.get(usize::from(first & 15) * 4..)?;
        return Some((Outer::Ipv4(info, address(12), address(16)), header[9], behind));
    }
    let (header, behind) = bytes.split_first_chunk::<40>().filter(|_| first >> 4 == 6)?;
    let word = u32::from_be_bytes([header[0], header[1], header[2], header[3]]);
    let address = |at: usize| {
        let octets: [u8; 16] = header[at..at + 16].try_into().expect("sixteen bytes");
        Ipv6Addr::from(octets)
    };
    let info = IpInfo {
        tos: TosSpec::Tos((word >> 20) as u8),
        ttl: header[7],
        flow_label: word & 0xf_ffff,
    };
    Some((Outer::Ipv6(info, address(8), address(24)), header[6], behind))
}

/// The protocol number of an IP packet in an IP packet.
fn ip_protocol(bytes: &[u8]) -> u8 {
    if bytes.first().is_some_and(|first| first >> 4 == 6) { protocol::IPV6 } else { protocol::IPIP }
}

const fn ether_type(number: u8) -> u16 {
    match number {
        protocol::IPIP => 0x0800,
        protocol::IPV6 => 0x86dd,
        _ => MPLS_ETHER_TYPE,
    }
}

const fn is_tunnel(number: u8) -> bool {
    matches!(number, protocol::IPIP | protocol::IPV6 | protocol::GRE | MPLS_IN_IP)
}

fn write_gre(gre: GreSpec, ether_type: u16, out: &mut Vec<u8>) {
    out.extend_from_slice(&gre.flags.to_be_bytes());
    out.extend_from_slice(&ether_type.to_be_bytes());
    if gre.flags & CHECKSUM != 0 {
        out.extend_from_slice(&gre.sum.to_be_bytes());
        out.extend_from_slice(&gre.offset.to_be_bytes());
    }
    if gre.flags & KEY != 0 {
        out.extend_from_slice(&gre.key.to_be_bytes());
    }
    if gre.flags & SEQUENCE != 0 {
        out.extend_from_slice(&gre.sequence.to_be_bytes());
    }
}

/// A GRE header, the EtherType of what it carries, and that.
fn read_gre(bytes: &[u8]) -> Option<(GreSpec, u16, &[u8])> {
    let (head, mut rest) = bytes.split_first_chunk::<4>()?;
    let flags = u16::from_be_bytes([head[0], head[1]]);
    let mut gre = GreSpec { flags, ..GreSpec::default() };
    let mut word = |present: bool| -> Option<u32> {
        if !present {
            return Some(0);
        }
        let (word, behind) = rest.split_first_chunk::<4>()?;
        rest = behind;
        Some(u32::from_be_bytes(*word))
    };
    let sum = word(flags & CHECKSUM != 0)?;
    (gre.sum, gre.offset) = ((sum >> 16) as u16, sum as u16);
    gre.key = word(flags & KEY != 0)?;
    gre.sequence = word(flags & SEQUENCE != 0)?;
    Some((gre, u16::from_be_bytes([head[2], head[3]]), rest))
}

fn write_mpls(labels: &[MplsLabel], out: &mut Vec<u8>) {
    for label in labels {
        let entry = label.label << 12
            | u32::from(label.class) << 9
            | u32::from(label.bottom) << 8
            | u32::from(label.ttl);
        out.extend_from_slice(&entry.to_be_bytes());
    }
}

/// Labels up to the bottom of the stack, and what lies below.
fn read_mpls(mut bytes: &[u8]) -> (Vec<MplsLabel>, &[u8]) {
    let mut labels = Vec::new();
    while let Some((entry, rest)) = bytes.split_first_chunk::<4>() {
        let entry = u32::from_be_bytes(*entry);
        bytes = rest;
        labels.push(MplsLabel {
            label: entry >> 12,
            class: (entry >> 9 & 7) as u8,
            bottom: entry >> 8 & 1 == 1,
            ttl: entry as u8,
        });
        if entry >> 8 & 1 == 1 || labels.len() > MAX_LABELS {
            break;
        }
    }
    (labels, bytes)
}

/// Bits of the GRE header.
const CHECKSUM: u16 = 0x8000;
const KEY: u16 = 0x2000;
const SEQUENCE: u16 = 0x1000;
/// RFC 3032: MPLS behind an EtherType.
const MPLS_ETHER_TYPE: u16 = 0x8847;
/// RFC 4023: MPLS behind an IP header.
const MPLS_IN_IP: u8 = 137;
const MAX_LAYERS: usize = 8;
const MAX_LABELS: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    fn inner() -> Packet {
        let info = IpInfo { ttl: 64, ..IpInfo::default() };
        let ip = network([10, 0, 0, 1].into(), [10, 0, 0, 2].into(), protocol::UDP, info);
        let udp = datapath::packet::Udp { src_port: 1, dst_port: 2 };
        plain(ip, Transport::Udp(udp), 100)
    }

    fn info(tos: u8, ttl: u8) -> IpInfo {
        IpInfo { tos: TosSpec::Tos(tos), ttl, flow_label: 0 }
    }

    /// What is put around a packet is found around it.
    #[test]
    fn there_and_back() {
        let v4 = Outer::Ipv4(info(0x10, 9), [192, 0, 2, 1].into(), [192, 0, 2, 2].into());
        let v6 = Outer::Ipv6(info(3, 7), Ipv6Addr::LOCALHOST, Ipv6Addr::UNSPECIFIED);
        let gre = |flags| Outer::Gre(GreSpec { flags, sum: 0, offset: 0, key: 0, sequence: 0 });
        let full = Outer::Gre(GreSpec { flags: 0xb000, sum: 1, offset: 2, key: 3, sequence: 4 });
        let mpls = Outer::Mpls(vec![
            MplsLabel { label: 5, class: 1, bottom: false, ttl: 3 },
            MplsLabel { label: 6, class: 2, bottom: true, ttl: 4 },
        ]);
        for layers in [
            vec![v4.clone()],
            vec![v6.clone()],
            vec![v6.clone(), v4.clone()],
            vec![v4.clone(), gre(0)],
            vec![v4.clone(), full],
            vec![v4.clone(), mpls.clone()],
            vec![v6, gre(0), mpls],
        ] {
            let bytes = wrapped_bytes(bytes_of(&inner()), &layers);
            let (found, rest) = unwrapped_bytes(&bytes);
            assert_eq!((&found, rest), (&layers, &bytes_of(&inner())[..]));
            assert_eq!(differences(&layers, &found), []);
            // MPLS lies in what is only a length for the datapath.
            if !layers.iter().any(|layer| matches!(layer, Outer::Mpls(_))) {
                let (found, packet) = unwrapped(&wrapped(&inner(), &layers));
                assert_eq!((found, packet.network), (layers, inner().network));
            }
        }
        assert_eq!(unwrapped(&inner()).0, []);
    }

    #[test]
    fn every_field_that_differs_is_named() {
        let ip = |info, last| Outer::Ipv4(info, [192, 0, 2, 1].into(), [192, 0, 2, last].into());
        let gre = |flags, key| Outer::Gre(GreSpec { flags, key, ..GreSpec::default() });
        for (spec, actual, fields) in [
            (vec![], vec![ip(info(0, 1), 2)], vec!["encapsulation"]),
            (vec![ip(info(0, 1), 2)], vec![ip(info(0, 1), 3)], vec!["outer dst"]),
            (vec![ip(info(8, 1), 2)], vec![ip(info(0, 2), 2)], vec!["outer tos", "outer ttl"]),
            (vec![ip(IpInfo::default(), 2)], vec![ip(info(9, 9), 2)], vec![]),
            (vec![gre(0x2000, 1)], vec![gre(0x2000, 2)], vec!["gre key"]),
            (vec![gre(0, 0)], vec![gre(0x2000, 2)], vec!["gre flags"]),
        ] {
            let found = differences(&spec, &actual);
            let names: Vec<&str> = found.iter().map(|it| it.field.as_str()).collect();
            assert_eq!(names, fields);
        }
    }
}
