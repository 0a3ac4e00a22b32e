//! From the Ethernet type to the transport header: ARP, IPv4, IPv6 and its extension headers.

use super::{MAX_EXTENSION_HEADERS, MAX_TCP_HEADER, Parser};
use crate::packet::Flaws;
use crate::packet::checksum::Sum;
use crate::packet::link::EtherType;
use crate::packet::network::{FlowLabel, Ipv4, Ipv6, Network, protocol};
use core::net::{Ipv4Addr, Ipv6Addr};

/// What follows IPv6 extension headers.
#[derive(Clone, Copy)]
enum FragmentKind {
    /// The whole of the packet.
    Whole,
    /// The first fragment of it.
    First,
    /// A later fragment.
    Later,
}

impl Parser<'_> {
    #[inline]
    pub(super) fn network(&mut self, ether_type: EtherType) {
        self.network = Network::Other(ether_type);
        match ether_type {
            EtherType::IPV4 => self.ipv4(),
            EtherType::IPV6 => self.ipv6(),
            EtherType::ARP => self.arp(),
            EtherType::TIPC => {
                self.pull(self.payload().len().min(crate::packet::dissect::TIPC_LEN));
            }
            _ => self.carrier(ether_type),
        }
    }

    /// ARP for IPv4 over Ethernet is a header without a body.
    fn arp(&mut self) {
        let end = self.body_at + crate::packet::arp::ARP_LEN;
        if end <= self.bytes.len() {
            self.exact = false;
            self.transport_at = end;
            self.body_at = end;
            self.body_end = end;
        }
    }

    #[inline]
    fn ipv4(&mut self) {
        let at = self.body_at;
        let Some(&header) = self.bytes[at..].first_chunk::<20>() else {
            return self.flaw(Flaws::IP_HEADER);
        };
        let [version_ihl, tos, l0, l1, i0, i1, f0, f1, ttl, protocol, c0, c1, ..] = header;
        let [.., s0, s1, s2, s3, d0, d1, d2, d3] = header;
        let header_len = usize::from(version_ihl & 0x0f) * 4;
        let rest = self.original_end - at;
        let total_len = match usize::from(u16::from_be_bytes([l0, l1])) {
            // A packet larger than its length field can say (BIG TCP, `iph_totlen`).
            0 if rest > 0xffff => rest,
            len => len,
        };
        if version_ihl >> 4 != 4 || header_len < 20 || total_len < header_len {
            return self.flaw(Flaws::IP_HEADER);
        }
        let Some(options) = self.bytes.get(at + 20..at + header_len) else {
            return self.flaw(Flaws::IP_HEADER);
        };
        let fragment = u16::from_be_bytes([f0, f1]);
        let ip = Ipv4 {
            src: Ipv4Addr::new(s0, s1, s2, s3),
            dst: Ipv4Addr::new(d0, d1, d2, d3),
            tos,
            ttl,
            protocol,
            id: u16::from_be_bytes([i0, i1]),
            dont_fragment: fragment & 0x4000 != 0,
            more_fragments: fragment & 0x2000 != 0,
            fragment_offset: fragment & 0x1fff,
        };
        let sum = Sum::default().bytes(&header).bytes(options);
        self.check(sum, u16::from_be_bytes([c0, c1]) != 0xffff, Flaws::IP_CHECKSUM);
        // Options and the reserved flag have no place in the canonical header.
        self.exact &= header_len == 20 && fragment & 0x8000 == 0;
        self.end_of_datagram(at + total_len);
        self.network = Network::Ipv4(ip);
        self.enter(at + header_len);
        if !ip.more_fragments && ip.fragment_offset == 0 {
            self.transport(protocol);
        } else if protocol == protocol::TCP || ip.fragment_offset == 0 {
            // CAKE's ACK filter reads a TCP header there, fragment or not; and whoever puts
            // fragments together finds the transport header in the first.
            self.pull(self.payload().len().min(MAX_TCP_HEADER));
        }
    }

    fn ipv6(&mut self) {
        let at = self.body_at;
        let Some(header) = self.bytes[at..].first_chunk::<40>() else {
            return self.flaw(Flaws::IP_HEADER);
        };
        let [w0, w1, w2, w3, l0, l1, next_header, hop_limit, addresses @ ..] = header;
        let word = u32::from_be_bytes([*w0, *w1, *w2, *w3]);
        if word >> 28 != 6 {
            return self.flaw(Flaws::IP_HEADER);
        }
        let rest = self.original_end - at;
        let total_len = match usize::from(u16::from_be_bytes([*l0, *l1])) {
            // A jumbogram or BIG TCP.
            0 if rest > 40 + 0xffff => rest,
            len => 40 + len,
        };
        let (src, dst) = addresses.split_at(16);
        let mut ip = Ipv6 {
            src: ipv6_addr(src),
            dst: ipv6_addr(dst),
            traffic_class: (word >> 20) as u8,
            hop_limit: *hop_limit,
            next_header: *next_header,
            flow_label: FlowLabel::new(word),
        };
        self.end_of_datagram(at + total_len);
        self.enter(at + 40);
        let whole = self.extension_headers(&mut ip.next_header);
        self.network = Network::Ipv6(ip);
        match whole {
            FragmentKind::Whole => self.transport(ip.next_header),
            FragmentKind::First => self.pull(self.payload().len().min(MAX_TCP_HEADER)),
            FragmentKind::Later => {}
        }
    }

    /// Walks over IPv6 extension headers (RFC 8200 section 4) and leaves the transport's protocol
    /// in `next`.
    fn extension_headers(&mut self, next: &mut u8) -> FragmentKind {
        for _ in 0..MAX_EXTENSION_HEADERS {
            let Some(&[following, len, o0, o1]) = self.payload().first_chunk::<4>() else {
                return FragmentKind::Whole;
            };
            let header_len = match *next {
                protocol::HOP_BY_HOP | protocol::ROUTING | protocol::DESTINATION_OPTIONS => {
                    8 * (usize::from(len) + 1)
                }
                protocol::FRAGMENT => 8,
                protocol::AUTHENTICATION => 4 * (usize::from(len) + 2),
                _ => return FragmentKind::Whole,
            };
            if header_len > self.payload().len() {
                return FragmentKind::Whole;
            }
            // The destination of the pseudo header is that of the last hop (RFC 8200 section 8.1).
            if *next == protocol::ROUTING {
                self.verify = false;
            }
            let fragment = match *next {
                protocol::FRAGMENT => u16::from_be_bytes([o0, o1]),
                _ => 0,
            };
            self.exact = false;
            self.enter(self.body_at + header_len);
            *next = following;
            if fragment & 0xfff8 != 0 {
                return FragmentKind::Later;
            } else if fragment & 1 != 0 {
                return FragmentKind::First;
            }
        }
        FragmentKind::Whole
    }
}

fn ipv6_addr(bytes: &[u8]) -> Ipv6Addr {
    let octets: [u8; 16] = bytes.try_into().expect("an IPv6 address has 16 bytes");
    Ipv6Addr::from(octets)
}
