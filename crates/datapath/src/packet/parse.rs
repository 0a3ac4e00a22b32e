//! Bytes to [`Packet`].
//!
//! Parsing is total: whatever cannot be understood stays in the body or in [`Extra::raw`], so that
//! [`Packet::emit`](super::Packet::emit) gives the same bytes back. A packet whose canonical form
//! already does so, which is every ordinary one, is parsed without allocation.

use super::checksum::Sum;
use super::frame::{Frame, Malformed};
use super::link::{EtherType, Link, MacAddr};
use super::network::{FlowLabel, Ipv4, Ipv6, Network, protocol};
use super::transport::{Icmp, Tcp, TcpFlags, TcpOptions, Transport, Udp};
use super::{Body, Extra, Flaws, GsoType, Memory, Meta, Packet};
use crate::packet::seq::Seq;
use core::net::{Ipv4Addr, Ipv6Addr};

/// VLAN tags deeper than this stay in the body.
const MAX_VLAN_TAGS: usize = 8;
/// IPv6 extension headers after this many stay in the body.
const MAX_EXTENSION_HEADERS: usize = 8;
/// Tunnels in tunnels are followed so deep, as far as the multipath hash looks.
const MAX_NESTING: u8 = 15;
/// The longest TCP header.
const MAX_TCP_HEADER: usize = 60;
/// How much the flow dissector may look at of what is no packet that we know: PPTP's headers, those
/// of IPv6 with options in it, and ports are 64 bytes and more.
const DISSECTED: usize = 128;
/// Bytes of its transport header that an ICMP error quotes at least (RFC 792).
const QUOTED_TRANSPORT: usize = 8;

impl Packet {
    /// Parses an Ethernet II frame without FCS.
    ///
    /// # Errors
    /// Only without a whole Ethernet header; everything behind it is somehow a packet.
    pub fn parse_ethernet<'a>(frame: impl Into<Frame<'a>>) -> Result<Self, Malformed> {
        let frame = frame.into().checked()?;
        let Some((header, _)) = frame.bytes.split_first_chunk::<14>() else {
            return Err(Malformed::LinkHeader { len: frame.bytes.len() });
        };
        let [d0, d1, d2, d3, d4, d5, s0, s1, s2, s3, s4, s5, t0, t1] = *header;
        let link = Link::Ethernet {
            dst: MacAddr([d0, d1, d2, d3, d4, d5]),
            src: MacAddr([s0, s1, s2, s3, s4, s5]),
        };
        let mut ether_type = EtherType(u16::from_be_bytes([t0, t1]));
        let mut at = header.len();
        let mut vlan = Vec::new();
        while matches!(ether_type, EtherType::VLAN | EtherType::QINQ)
            && vlan.len() < MAX_VLAN_TAGS
            && let Some(&[c0, c1, n0, n1]) = frame.bytes.get(at..at + 4)
        {
            vlan.push((ether_type.0, u16::from_be_bytes([c0, c1])));
            ether_type = EtherType(u16::from_be_bytes([n0, n1]));
            at += 4;
        }
        let mut parser = Parser::new(frame.bytes, frame.original_len as usize, at);
        parser.trusted = frame.trusted;
        parser.network(ether_type);
        if !vlan.is_empty() && parser.body_at == at {
            // The flow dissector looks at what follows a tag.
            parser.pull(parser.payload().len().min(DISSECTED));
        }
        Ok(parser.finish(link, vlan, at, &frame))
    }

    /// Parses an IPv4 or IPv6 packet without link-layer header (`ARPHRD_NONE`).
    ///
    /// # Errors
    /// Only if the first four bits are no IP version.
    pub fn parse_ip<'a>(frame: impl Into<Frame<'a>>) -> Result<Self, Malformed> {
        let frame = frame.into().checked()?;
        let first = frame.bytes.first().copied();
        let ether_type = ip_ether_type(first).ok_or(Malformed::IpVersion { first })?;
        let mut parser = Parser::new(frame.bytes, frame.original_len as usize, 0);
        parser.trusted = frame.trusted;
        parser.network(ether_type);
        Ok(parser.finish(Link::None, Vec::new(), 0, &frame))
    }
}

/// The EtherType of the IP packet that begins with this byte.
pub(super) fn ip_ether_type(first: Option<u8>) -> Option<EtherType> {
    match first? >> 4 {
        4 => Some(EtherType::IPV4),
        6 => Some(EtherType::IPV6),
        _ => None,
    }
}

/// What is known of a frame while it is walked through.
pub(super) struct Parser<'a> {
    /// The captured bytes.
    bytes: &'a [u8],
    /// The end of the frame on the wire; the bytes may end before.
    original_end: usize,
    /// The network header.
    pub(super) network: Network,
    /// The transport header.
    pub(super) transport: Transport,
    /// Where the transport header begins, or would begin.
    pub(super) transport_at: usize,
    /// Where the body begins.
    pub(super) body_at: usize,
    /// Where the body ends on the wire; what follows is padding.
    body_end: usize,
    /// Whether the canonical form reproduces the headers.
    exact: bool,
    /// What is wrong with the frame.
    flaws: Flaws,
    /// Whether checksums are looked at.
    verify: bool,
    /// Transport checksums count as right.
    trusted: bool,
    /// How many headers of tunnels or ICMP errors lie around this one.
    depth: u8,
}

/// What follows IPv6 extension headers.
#[derive(Clone, Copy)]
enum Follows {
    /// The whole of the packet.
    Whole,
    /// The first fragment of it.
    First,
    /// A later fragment.
    Later,
}

impl<'a> Parser<'a> {
    /// A parser that stands before the network header at `at`.
    #[inline]
    fn new(bytes: &'a [u8], original_end: usize, at: usize) -> Self {
        let truncated = bytes.len() < original_end;
        Self {
            bytes,
            original_end,
            network: Network::Other(EtherType(0)),
            transport: Transport::None,
            transport_at: at,
            body_at: at,
            body_end: original_end,
            exact: true,
            flaws: if truncated { Flaws::TRUNCATED } else { Flaws::NONE },
            verify: true,
            trusted: false,
            depth: 0,
        }
    }

    /// Walks through a packet inside another one, without looking at its checksums.
    pub(super) fn nested(bytes: &'a [u8], ether_type: EtherType, depth: u8) -> Self {
        let mut parser = Self::new(bytes, bytes.len(), 0);
        parser.verify = false;
        parser.depth = depth;
        parser.network(ether_type);
        parser
    }

    #[inline]
    fn network(&mut self, ether_type: EtherType) {
        self.network = Network::Other(ether_type);
        match ether_type {
            EtherType::IPV4 => self.ipv4(),
            EtherType::IPV6 => self.ipv6(),
            EtherType::ARP => self.arp(),
            EtherType::TIPC => self.pull(self.payload().len().min(super::dissect::TIPC_LEN)),
            _ => self.carrier(ether_type),
        }
    }

    /// ARP for IPv4 over Ethernet is a header without a body.
    fn arp(&mut self) {
        let end = self.body_at + super::arp::ARP_LEN;
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
            Follows::Whole => self.transport(ip.next_header),
            Follows::First => self.pull(self.payload().len().min(MAX_TCP_HEADER)),
            Follows::Later => {}
        }
    }

    /// Walks over IPv6 extension headers (RFC 8200 section 4) and leaves the transport's protocol
    /// in `next`.
    fn extension_headers(&mut self, next: &mut u8) -> Follows {
        for _ in 0..MAX_EXTENSION_HEADERS {
            let Some(&[following, len, o0, o1]) = self.payload().first_chunk::<4>() else {
                return Follows::Whole;
            };
            let header_len = match *next {
                protocol::HOP_BY_HOP | protocol::ROUTING | protocol::DESTINATION_OPTIONS => {
                    8 * (usize::from(len) + 1)
                }
                protocol::FRAGMENT => 8,
                protocol::AUTHENTICATION => 4 * (usize::from(len) + 2),
                _ => return Follows::Whole,
            };
            if header_len > self.payload().len() {
                return Follows::Whole;
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
                return Follows::Later;
            } else if fragment & 1 != 0 {
                return Follows::First;
            }
        }
        Follows::Whole
    }

    #[inline]
    fn transport(&mut self, protocol: u8) {
        match (protocol, self.network) {
            (protocol::TCP, _) => self.tcp(),
            (protocol::UDP, _) => self.udp(),
            (protocol::ICMP, Network::Ipv4(_)) | (protocol::ICMPV6, Network::Ipv6(_)) => {
                self.icmp(protocol);
            }
            (protocol::IPIP | protocol::IPV6 | protocol::GRE | protocol::MPLS, _) => {
                self.tunnel(protocol);
            }
            // The flow dissector still reads what follows an extension header that is cut off.
            (
                protocol::HOP_BY_HOP | protocol::ROUTING | protocol::DESTINATION_OPTIONS,
                Network::Ipv6(_),
            ) => self.pull(self.payload().len().min(DISSECTED)),
            _ => {}
        }
        // What stands where ports do is kept within reach of the flow dissector.
        if let Transport::None = self.transport
            && let Some(at) = super::dissect::ports_at(protocol)
        {
            self.pull(self.payload().len().min(at + 4));
        }
    }

    #[inline]
    fn tcp(&mut self) {
        let segment = self.payload();
        let Some((header, rest)) = segment.split_first_chunk::<20>() else { return };
        let [s0, s1, d0, d1, q0, q1, q2, q3, a0, a1, a2, a3, o0, o1, w0, w1, _, _, u0, u1] =
            *header;
        let header_len = usize::from(o0 >> 4) * 4;
        if header_len < 20 {
            return self.flaw(Flaws::TRANSPORT_HEADER);
        }
        let Some(options) = header_len.checked_sub(20).and_then(|len| rest.get(..len)) else {
            return;
        };
        let (options, canonical) = TcpOptions::parse(options);
        // Three bits between data offset and AE are reserved (RFC 9768 section 2).
        self.exact &= canonical && o0 & 0x0e == 0;
        self.check_payload(protocol::TCP, 16);
        self.transport = Transport::Tcp(Tcp {
            src_port: u16::from_be_bytes([s0, s1]),
            dst_port: u16::from_be_bytes([d0, d1]),
            seq: Seq(u32::from_be_bytes([q0, q1, q2, q3])),
            ack: Seq(u32::from_be_bytes([a0, a1, a2, a3])),
            flags: TcpFlags(u16::from_be_bytes([o0 & 1, o1])),
            window: u16::from_be_bytes([w0, w1]),
            urgent: u16::from_be_bytes([u0, u1]),
            options,
        });
        self.body_at += header_len;
    }

    fn udp(&mut self) {
        let Some(&[s0, s1, d0, d1, l0, l1, c0, c1]) = self.payload().first_chunk::<8>() else {
            return;
        };
        let payload_len = self.body_end - self.body_at;
        let len = match usize::from(u16::from_be_bytes([l0, l1])) {
            0 if payload_len > 0xffff => payload_len,
            len => len,
        };
        // Of a packet inside another one only the headers may be at hand.
        if len < 8 || (len > payload_len && self.depth == 0) {
            return self.flaw(Flaws::TRANSPORT_HEADER);
        }
        self.exact &= len == payload_len;
        self.body_end = self.body_at + len.min(payload_len);
        match u16::from_be_bytes([c0, c1]) {
            // The sender computed none (RFC 768); not for IPv6 without tunnels (RFC 8200).
            0 => self.exact = false,
            _ => self.check_payload(protocol::UDP, 6),
        }
        self.transport = Transport::Udp(Udp {
            src_port: u16::from_be_bytes([s0, s1]),
            dst_port: u16::from_be_bytes([d0, d1]),
        });
        self.body_at += 8;
    }

    fn icmp(&mut self, protocol: u8) {
        let Some(&[kind, code, _, _, r0, r1, r2, r3]) = self.payload().first_chunk::<8>() else {
            return;
        };
        self.check_payload(protocol, 2);
        let icmp = Icmp { kind, code, rest: u32::from_be_bytes([r0, r1, r2, r3]) };
        self.transport = Transport::Icmp(icmp);
        self.body_at += 8;
        if let Some(ether_type) = icmp.quotes(protocol)
            && self.depth < MAX_NESTING
        {
            let quote = self.payload();
            let inner = Parser::nested(quote, ether_type, self.depth + 1);
            let rest = quote.len() - inner.body_at;
            // A transport header that was cut is not parsed, but its ports are wanted.
            let cut = matches!(inner.transport, Transport::None);
            self.pull(inner.body_at + if cut { rest.min(QUOTED_TRANSPORT) } else { 0 });
        }
    }

    /// 6in4, IPIP and GRE: the inner headers are kept within reach. Whatever else a tunnel carries,
    /// the flow dissector looks at its first bytes.
    fn tunnel(&mut self, protocol: u8) {
        if self.depth >= MAX_NESTING {
            return;
        }
        let payload = self.payload();
        match super::flow::tunnel_payload(protocol, payload) {
            Some((ether_type, at)) => {
                let inner = Parser::nested(&payload[at..], ether_type, self.depth + 1);
                self.pull(at + inner.body_at);
            }
            None => self.pull(payload.len().min(DISSECTED)),
        }
    }

    /// What lies between Ethernet and another network header is none that we know, but what it
    /// carries is kept within reach of the flow dissector.
    fn carrier(&mut self, ether_type: EtherType) {
        let payload = self.payload();
        let carried = super::dissect::carried(ether_type, payload);
        if let Some((inner_type, at)) = carried.filter(|_| self.depth < MAX_NESTING) {
            let inner = Parser::nested(&payload[at..], inner_type, self.depth + 1);
            self.pull(at + inner.body_at);
        }
    }

    /// Moves `len` bytes of the body into the raw headers, if offsets can still say where they end.
    fn pull(&mut self, len: usize) {
        if len != 0 && u16::try_from(self.body_at + len).is_ok() {
            self.exact = false;
            self.body_at += len;
        }
    }

    /// The captured part of what follows the headers walked so far.
    fn payload(&self) -> &'a [u8] {
        &self.bytes[self.body_at..self.body_end.min(self.bytes.len()).max(self.body_at)]
    }

    /// Goes past a header that ends at `at`.
    fn enter(&mut self, at: usize) {
        self.transport_at = at;
        self.body_at = at;
    }

    /// The datagram says that it ends at `end`.
    fn end_of_datagram(&mut self, end: usize) {
        if end > self.original_end {
            self.exact = false;
            if self.depth == 0 {
                self.flaws |= Flaws::LENGTH;
            }
        } else {
            self.body_end = end;
        }
    }

    /// Checks the checksum field that lies `at` bytes into the payload, `protocol`'s header being
    /// the payload's first part.
    #[inline]
    fn check_payload(&mut self, protocol: u8, at: usize) {
        if self.trusted {
            return;
        }
        let payload = self.payload();
        let len = self.body_end - self.body_at;
        if !self.verify || payload.len() != len {
            self.exact = false;
            return;
        }
        let pseudo = match protocol {
            protocol::ICMP => Sum::default(),
            _ => Sum::default().pseudo(&self.network, protocol, len as u32),
        };
        let field = [payload[at], payload[at + 1]];
        // We never send the other zero, but UDP sends no other (RFC 768).
        let canonical = field != [0xff; 2] || protocol == protocol::UDP;
        self.check(pseudo.bytes(payload), canonical, Flaws::TRANSPORT_CHECKSUM);
    }

    /// Takes note of the sum over all that a checksum covers, itself included. With a `canonical`
    /// field a good one is also the one that we would write: the sum of the rest is not zero.
    fn check(&mut self, sum: Sum, canonical: bool, flaw: Flaws) {
        let good = sum.fold() == 0xffff;
        self.exact &= good && canonical;
        if !good {
            self.flaws |= flaw;
        }
    }

    fn flaw(&mut self, flaw: Flaws) {
        self.flaws |= flaw;
    }

    /// What the flow dissector reads beyond the end that a length tells, where the transport header
    /// is not within.
    fn beyond(&self, trailer: u32) -> Vec<u8> {
        let ip = !matches!(self.network, Network::Other(_));
        if trailer == 0 || !ip || !matches!(self.transport, Transport::None) {
            return Vec::new();
        }
        let rest = &self.bytes[self.body_at.min(self.bytes.len())..];
        rest[..rest.len().min(DISSECTED)].to_vec()
    }

    /// The packet, with whatever its hot headers cannot hold.
    #[inline]
    fn finish(self, link: Link, vlan: Vec<(u16, u16)>, at: usize, frame: &Frame<'_>) -> Packet {
        let trailer = (self.original_end - self.body_end) as u32;
        let ordinary = self.exact && vlan.is_empty() && trailer == 0 && self.flaws == Flaws::NONE;
        let extra = (!ordinary).then(|| {
            let (raw, network_offset, transport_offset) = if self.exact {
                (Vec::new(), 0, 0)
            } else {
                let raw = self.bytes[..self.body_at].to_vec();
                let transport = match self.transport {
                    Transport::None => raw.len(),
                    _ => self.transport_at,
                };
                (raw, at as u16, transport as u16)
            };
            Box::new(Extra {
                vlan,
                raw,
                network_offset,
                transport_offset,
                trailer,
                beyond: self.beyond(trailer),
                flaws: self.flaws,
                recompute: false,
            })
        });
        Packet {
            link,
            network: self.network,
            transport: self.transport,
            body: Body {
                frame: frame.buffer.cloned(),
                offset: frame.offset + self.body_at as u32,
                len: (self.body_end - self.body_at) as u32,
            },
            meta: Meta { len: frame.original_len, ..Meta::default() },
            memory: Memory::Linear,
            gso_type: GsoType::NONE,
            extra,
        }
    }
}

fn ipv6_addr(bytes: &[u8]) -> Ipv6Addr {
    let octets: [u8; 16] = bytes.try_into().expect("an IPv6 address has 16 bytes");
    Ipv6Addr::from(octets)
}

#[cfg(test)]
mod tests;
