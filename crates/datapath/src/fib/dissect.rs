//! From a packet's bytes to the fields that hashes read (`skb_flow_dissect_flow_keys`).
//!
//! Anything malformed or truncated merely ends the walk: what was read so far counts. Nothing
//! here panics on any input (property test).

use super::flow::{Fields, HashInput};
use crate::packet::{Network, Packet, Transport};
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Deepest nesting of tunnels that is followed (`MAX_FLOW_DISSECT_HDRS`).
const MAX_HEADERS: usize = 15;

const HOP_BY_HOP: u8 = 0;
const ICMP: u8 = 1;
const IPIP: u8 = 4;
const TCP: u8 = 6;
const UDP: u8 = 17;
const DCCP: u8 = 33;
const IPV6: u8 = 41;
const ROUTING: u8 = 43;
const FRAGMENT: u8 = 44;
const GRE: u8 = 47;
const ESP: u8 = 50;
const AH: u8 = 51;
const ICMPV6: u8 = 58;
const DEST_OPTIONS: u8 = 60;
const SCTP: u8 = 132;
const UDPLITE: u8 = 136;

/// EtherTypes that may follow a GRE header.
const ETH_IPV4: u16 = 0x0800;
const ETH_IPV6: u16 = 0x86dd;
const ETH_BRIDGE: u16 = 0x6558;
const ETH_VLAN: u16 = 0x8100;
const ETH_QINQ: u16 = 0x88a8;
const ETH_PPP: u16 = 0x880b;

/// PPP protocols that may follow a GRE header of version 1.
const PPP_IPV4: u16 = 0x0021;
const PPP_IPV6: u16 = 0x0057;

/// One network header read, and what follows it.
#[derive(Clone, Copy, Debug)]
struct Header<'a> {
    fields: Fields,
    /// Protocol field of the first header (IPv6: the one that `ip6_multipath_l3_keys` takes).
    l3_protocol: u8,
    /// Any fragment, the first included.
    fragment: bool,
    /// Not the first fragment.
    later_fragment: bool,
    dont_fragment: bool,
    payload: &'a [u8],
}

/// The flow of an IPv4 or IPv6 packet that begins with its network header.
pub fn flow(bytes: &[u8]) -> Option<HashInput> {
    let outer = network(bytes)?;
    Some(HashInput {
        outer: outer.fields,
        l3_protocol: outer.l3_protocol,
        inner: innermost(&outer),
        quoted: quoted(&outer),
        dont_fragment: outer.dont_fragment && !outer.fragment,
        from_packet: true,
    })
}

/// The flow of a packet: from its canonical headers, or from its raw bytes where it has them.
pub fn packet_flow(packet: &Packet) -> Option<HashInput> {
    if let Some(extra) = packet.extra.as_ref().filter(|extra| !extra.raw.is_empty()) {
        return flow(extra.raw.get(usize::from(extra.network_offset)..)?);
    }
    let (src_port, dst_port) = packet.transport.ports().unwrap_or((0, 0));
    let (fields, dont_fragment, fragment) = match &packet.network {
        Network::Ipv4(ip) => (
            Fields {
                src: ip.src.into(),
                dst: ip.dst.into(),
                protocol: ip.protocol,
                src_port,
                dst_port,
                flow_label: 0,
            },
            ip.dont_fragment,
            ip.is_fragment(),
        ),
        Network::Ipv6(ip) => (
            Fields {
                src: ip.src.into(),
                dst: ip.dst.into(),
                protocol: ip.next_header,
                src_port,
                dst_port,
                flow_label: ip.flow_label.get(),
            },
            true,
            false,
        ),
        Network::Other(_) => return None,
    };
    let outer = if fragment || matches!(packet.transport, Transport::Icmp(_)) {
        Fields { src_port: 0, dst_port: 0, ..fields }
    } else {
        fields
    };
    Some(HashInput {
        outer,
        l3_protocol: outer.protocol,
        inner: None,
        quoted: None,
        dont_fragment: dont_fragment && !fragment,
        from_packet: true,
    })
}

fn network(bytes: &[u8]) -> Option<Header<'_>> {
    match bytes.first()? >> 4 {
        4 => ipv4(bytes),
        6 => ipv6(bytes),
        _ => None,
    }
}

fn ipv4(bytes: &[u8]) -> Option<Header<'_>> {
    let header = bytes.first_chunk::<20>()?;
    let len = usize::from(header[0] & 15) * 4;
    if len < 20 {
        return None;
    }
    let offset = u16::from_be_bytes([header[6], header[7]]);
    let fragment = offset & 0x3fff != 0;
    let payload = bytes.get(len..).unwrap_or_default();
    let protocol = header[9];
    let (src_port, dst_port) = ports(protocol, fragment, payload);
    Some(Header {
        fields: Fields {
            src: IpAddr::V4(Ipv4Addr::new(header[12], header[13], header[14], header[15])),
            dst: IpAddr::V4(Ipv4Addr::new(header[16], header[17], header[18], header[19])),
            protocol,
            src_port,
            dst_port,
            flow_label: 0,
        },
        l3_protocol: protocol,
        fragment,
        later_fragment: offset & 0x1fff != 0,
        dont_fragment: offset & 0x4000 != 0,
        payload,
    })
}

fn ipv6(bytes: &[u8]) -> Option<Header<'_>> {
    let header = bytes.first_chunk::<40>()?;
    let next_header = header[6];
    let (mut protocol, mut fragment, mut later_fragment) = (next_header, false, false);
    let mut payload = &bytes[40..];
    for _ in 0..MAX_HEADERS {
        let len = match protocol {
            HOP_BY_HOP | ROUTING | DEST_OPTIONS if payload.len() >= 8 => {
                8 + usize::from(payload[1]) * 8
            }
            FRAGMENT if payload.len() >= 8 => {
                fragment = true;
                later_fragment = u16::from_be_bytes([payload[2], payload[3]]) & 0xfff8 != 0;
                8
            }
            _ => break,
        };
        protocol = payload[0];
        payload = payload.get(len..).unwrap_or_default();
        if fragment {
            // The walk ends with the protocol that the fragment header names, the first fragment's too
            // (`__skb_flow_dissect` without `FLOW_DISSECTOR_F_PARSE_1ST_FRAG`).
            break;
        }
    }
    let (src_port, dst_port) = ports(protocol, fragment, payload);
    let address = |at: usize| {
        let octets: [u8; 16] = header[at..at + 16].try_into().expect("16 of 40 bytes");
        IpAddr::V6(Ipv6Addr::from(octets))
    };
    Some(Header {
        fields: Fields {
            src: address(8),
            dst: address(24),
            protocol,
            src_port,
            dst_port,
            flow_label: u32::from_be_bytes([0, header[1] & 15, header[2], header[3]]),
        },
        l3_protocol: next_header,
        fragment,
        later_fragment,
        dont_fragment: true,
        payload,
    })
}

/// The ports of protocols that have them (`skb_flow_get_ports`); none of any fragment.
fn ports(protocol: u8, fragment: bool, payload: &[u8]) -> (u16, u16) {
    let at = match protocol {
        TCP | UDP | DCCP | ESP | SCTP | UDPLITE => 0,
        AH => 4,
        _ => return (0, 0),
    };
    match payload.get(at..at + 4) {
        Some(bytes) if !fragment => {
            (u16::from_be_bytes([bytes[0], bytes[1]]), u16::from_be_bytes([bytes[2], bytes[3]]))
        }
        _ => (0, 0),
    }
}

/// What a tunnel header is followed by.
enum InnerHeader<'a> {
    /// Another IP header.
    Ip(Header<'a>),
    /// Something that the walk does not follow, but a tunnel all the same.
    Opaque,
}

/// The last network header of a chain of tunnels, if the packet is one. Of a tunnel whose payload
/// is not IP it is the tunnel's own header. A flow label of zero is none: that of a header further
/// out stays (`__skb_flow_dissect` writes the label over only if there is one).
fn innermost(outer: &Header<'_>) -> Option<Fields> {
    let mut found = None;
    let mut at = *outer;
    let mut label = at.fields.flow_label;
    for _ in 0..MAX_HEADERS {
        match encapsulated(&at) {
            None => break,
            Some(InnerHeader::Opaque) => return Some(at.fields),
            Some(InnerHeader::Ip(mut next)) => {
                if next.fields.src.is_ipv6() {
                    label =
                        if next.fields.flow_label == 0 { label } else { next.fields.flow_label };
                    next.fields.flow_label = label;
                }
                found = Some(next.fields);
                at = next;
            }
        }
    }
    found
}

fn encapsulated<'a>(header: &Header<'a>) -> Option<InnerHeader<'a>> {
    if header.fragment {
        return None;
    }
    match header.fields.protocol {
        IPIP => Some(inside(ETH_IPV4, header.payload)),
        IPV6 => Some(inside(ETH_IPV6, header.payload)),
        GRE => gre(header.payload),
        _ => None,
    }
}

/// A payload of this EtherType; VLAN tags are passed over.
fn inside(mut ether_type: u16, mut bytes: &[u8]) -> InnerHeader<'_> {
    while matches!(ether_type, ETH_VLAN | ETH_QINQ) && bytes.len() >= 4 {
        ether_type = u16::from_be_bytes([bytes[2], bytes[3]]);
        bytes = &bytes[4..];
    }
    let header = match ether_type {
        ETH_IPV4 => ipv4(bytes),
        ETH_IPV6 => ipv6(bytes),
        _ => None,
    };
    header.map_or(InnerHeader::Opaque, InnerHeader::Ip)
}

/// What follows a GRE header of version 0 (RFC 2784, RFC 2890) or 1 (PPTP, RFC 2637).
fn gre(bytes: &[u8]) -> Option<InnerHeader<'_>> {
    const CHECKSUM: u16 = 0x8000;
    const ROUTED: u16 = 0x4000;
    const KEY: u16 = 0x2000;
    const SEQUENCE: u16 = 0x1000;
    const ACKNOWLEDGMENT: u16 = 0x0080;
    let start = bytes.first_chunk::<4>()?;
    let (flags, ether_type) =
        (u16::from_be_bytes([start[0], start[1]]), u16::from_be_bytes([start[2], start[3]]));
    let after = |bits: &[u16]| {
        bytes.get(4 + 4 * bits.iter().filter(|&&bit| flags & bit != 0).count()..).unwrap_or(&[])
    };
    match flags & 7 {
        _ if flags & ROUTED != 0 => None,
        0 => {
            let payload = after(&[CHECKSUM, KEY, SEQUENCE]);
            if ether_type != ETH_BRIDGE {
                return Some(inside(ether_type, payload));
            }
            let Some(header) = payload.first_chunk::<14>() else {
                return Some(InnerHeader::Opaque);
            };
            Some(inside(u16::from_be_bytes([header[12], header[13]]), &payload[14..]))
        }
        1 if ether_type == ETH_PPP && flags & KEY != 0 => {
            let ppp = after(&[KEY, SEQUENCE, ACKNOWLEDGMENT]);
            let Some(header) = ppp.first_chunk::<4>() else { return Some(InnerHeader::Opaque) };
            Some(match u16::from_be_bytes([header[2], header[3]]) {
                PPP_IPV4 => inside(ETH_IPV4, &ppp[4..]),
                PPP_IPV6 => inside(ETH_IPV6, &ppp[4..]),
                _ => InnerHeader::Opaque,
            })
        }
        _ => None,
    }
}

/// The packet that an ICMP error quotes (`ip_multipath_l3_keys`, `ip6_multipath_l3_keys`): the
/// error must not be a later fragment, and the quoted network header must be whole. Source quench
/// counts (`icmp_is_err`), as 6.18 was seen to do.
fn quoted(outer: &Header<'_>) -> Option<Fields> {
    const UNREACHABLE: u8 = 3;
    const SOURCE_QUENCH: u8 = 4;
    const REDIRECT: u8 = 5;
    const TIME_EXCEEDED: u8 = 11;
    const PARAMETER_PROBLEM: u8 = 12;
    if outer.later_fragment {
        return None;
    }
    let kind = *outer.payload.first()?;
    let inner = outer.payload.get(8..)?;
    match outer.fields.protocol {
        ICMP if outer.fields.src.is_ipv4() => {
            let is_error = matches!(
                kind,
                UNREACHABLE | SOURCE_QUENCH | REDIRECT | TIME_EXCEEDED | PARAMETER_PROBLEM
            );
            is_error.then(|| ipv4(inner)).flatten().map(|header| header.fields)
        }
        // Extension headers hide it, and types that RFC 4443 does not name are no errors.
        ICMPV6 if outer.l3_protocol == ICMPV6 && (1..=4).contains(&kind) => {
            let header = ipv6(inner)?;
            Some(Fields { protocol: header.l3_protocol, ..header.fields })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn no_input_panics(bytes in prop::collection::vec(any::<u8>(), 0..200), first in any::<u8>()) {
            let mut bytes = bytes;
            if let Some(byte) = bytes.first_mut() {
                *byte = if first & 1 == 0 { 0x45 } else { 0x60 };
            }
            for end in 0..bytes.len() {
                flow(&bytes[..end]);
            }
        }
    }

    #[test]
    fn a_tunnel_in_a_tunnel_ends_at_the_innermost() {
        let mut bytes = Vec::new();
        for (protocol, last) in [(4u8, 1u8), (4, 2), (17, 3)] {
            let header =
                [0x45, 0, 0, 0, 0, 0, 0, 0, 64, protocol, 0, 0, 10, 0, 0, last, 10, 0, 1, last];
            bytes.extend(header);
        }
        bytes.extend([0x12, 0x34, 0x56, 0x78, 0, 8, 0, 0]);
        let flow = flow(&bytes).unwrap();
        let inner = flow.inner.unwrap();
        assert_eq!(flow.outer.dst, "10.0.1.1".parse::<IpAddr>().unwrap());
        assert_eq!(inner.dst, "10.0.1.3".parse::<IpAddr>().unwrap());
        assert_eq!((inner.src_port, inner.dst_port, inner.protocol), (0x1234, 0x5678, 17));
    }

    /// Linux 6.18: a label of zero does not take the place of one read before.
    #[test]
    fn an_inner_header_without_a_flow_label_keeps_that_of_the_outer() {
        let header = |label: u32, next_header: u8, len: u16| {
            let mut bytes = (0x6000_0000 | label).to_be_bytes().to_vec();
            bytes.extend(len.to_be_bytes());
            bytes.extend([next_header, 64]);
            bytes.extend([0xfd; 32]);
            bytes
        };
        let inner = |outer_label: u32, inner_label: u32| {
            let packet = [header(outer_label, IPV6, 40), header(inner_label, 59, 0)].concat();
            flow(&packet).and_then(|flow| flow.inner).expect("a tunnel").flow_label
        };
        assert_eq!([inner(5, 0), inner(5, 6), inner(0, 6), inner(0, 0)], [5, 6, 6, 0]);
    }
}
