//! ICMP and ICMPv6 errors: what they quote.

use super::flow::Flow;
use super::link::EtherType;
use super::network::{Network, protocol};
use super::parse::{Parser, ip_ether_type};
use super::transport::{Icmp, Transport};
use super::{Extra, Packet};
use crate::packet::seq::Seq;

/// Types of ICMP messages (RFC 792), as far as the datapath sends or acts on them.
pub mod kind {
    /// Echo reply.
    pub const ECHO_REPLY: u8 = 0;
    /// Destination unreachable.
    pub const UNREACHABLE: u8 = 3;
    /// Source quench (obsolete).
    pub const SOURCE_QUENCH: u8 = 4;
    /// Redirect.
    pub const REDIRECT: u8 = 5;
    /// Echo request.
    pub const ECHO_REQUEST: u8 = 8;
    /// Time exceeded.
    pub const TIME_EXCEEDED: u8 = 11;
    /// Parameter problem.
    pub const PARAMETER_PROBLEM: u8 = 12;
}

/// Types of ICMPv6 messages (RFC 4443).
pub mod kind_v6 {
    /// Destination unreachable.
    pub const UNREACHABLE: u8 = 1;
    /// Packet too big.
    pub const PACKET_TOO_BIG: u8 = 2;
    /// Time exceeded.
    pub const TIME_EXCEEDED: u8 = 3;
    /// Parameter problem.
    pub const PARAMETER_PROBLEM: u8 = 4;
    /// Echo request.
    pub const ECHO_REQUEST: u8 = 128;
    /// Echo reply.
    pub const ECHO_REPLY: u8 = 129;
}

/// The packet that an ICMP error complains about, as far as it is quoted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quoted {
    /// Its network header.
    pub network: Network,
    /// Its flow; ports come from the first eight bytes of the transport header, which is all that
    /// RFC 792 asks for.
    pub flow: Flow,
    /// Its TCP sequence number, by which a TCP believes the error (`tcp_v4_err`).
    pub seq: Option<Seq>,
    /// Type, code and rest of a quoted ICMP message: whose echo request this was about.
    pub icmp: Option<Icmp>,
}

impl Icmp {
    /// The EtherType of the packet that this message quotes, if it is an error of `protocol`.
    pub(super) fn quotes(self, protocol: u8) -> Option<EtherType> {
        match (protocol, self.kind) {
            (
                protocol::ICMP,
                kind::UNREACHABLE
                | kind::SOURCE_QUENCH
                | kind::REDIRECT
                | kind::TIME_EXCEEDED
                | kind::PARAMETER_PROBLEM,
            ) => Some(EtherType::IPV4),
            (protocol::ICMPV6, kind_v6::UNREACHABLE..=kind_v6::PARAMETER_PROBLEM) => {
                Some(EtherType::IPV6)
            }
            _ => None,
        }
    }
}

impl Packet {
    /// An ICMP error about a packet, quoting at most `max_quote` bytes of it from its network
    /// header on (`icmp_send`, `icmp6_send`). Link-layer header: none yet.
    ///
    /// The error's own body is a piece of that of `about`. Whether there may be an error at all (RFC 1122 section 3.2.2) is for the
    /// caller to know.
    pub fn icmp_error(network: Network, icmp: Icmp, about: &Self, max_quote: u32) -> Self {
        let mut quote = Vec::new();
        about.emit_own_headers(&mut quote);
        let network_at = match &about.extra {
            Some(extra) if !extra.raw.is_empty() => usize::from(extra.network_offset),
            Some(extra) => about.link.len() as usize + 4 * extra.vlan.len(),
            None => about.link.len() as usize,
        };
        let header_end = about.header_len() as usize;
        let quoted_headers = &quote[network_at..header_end.min(network_at + max_quote as usize)];
        let room = max_quote - quoted_headers.len() as u32;
        let transport_offset = network.len() as u16;
        let head = Self { network, transport: Transport::Icmp(icmp), ..Self::default() };
        let mut raw = Vec::with_capacity(head.header_len() as usize + quoted_headers.len());
        head.emit_headers(&mut raw);
        raw.extend_from_slice(quoted_headers);
        let extra = Extra { raw, transport_offset, recompute: true, ..Extra::default() };
        Self {
            body: about.body.window(0, about.body.len.min(room)),
            extra: Some(Box::new(extra)),
            ..head
        }
        .finish()
    }

    /// The packet quoted in an ICMP error. `None` if this is not one, or quotes no IP header.
    pub fn quoted(&self) -> Option<Quoted> {
        let Transport::Icmp(icmp) = self.transport else { return None };
        let ether_type = icmp.quotes(self.network.protocol()?)?;
        let extra = self.extra.as_ref()?;
        let quote = extra.raw.get(usize::from(extra.transport_offset) + 8..)?;
        if ip_ether_type(quote.first().copied()) != Some(ether_type) {
            return None;
        }
        let inner = Parser::nested(quote, ether_type, u8::MAX);
        let mut quoted = Quoted {
            network: inner.network,
            flow: Flow::of(&inner.network, &inner.transport)?,
            seq: None,
            icmp: None,
        };
        let begins_here = !matches!(inner.network, Network::Ipv4(ip) if ip.fragment_offset != 0);
        let transport = quote[inner.transport_at..].first_chunk();
        if begins_here && let Some(&[s0, s1, d0, d1, q0, q1, q2, q3]) = transport {
            let ports = (u16::from_be_bytes([s0, s1]), u16::from_be_bytes([d0, d1]));
            match quoted.flow.protocol {
                protocol::TCP => {
                    (quoted.flow.src_port, quoted.flow.dst_port) = ports;
                    quoted.seq = Some(Seq(u32::from_be_bytes([q0, q1, q2, q3])));
                }
                protocol::UDP => (quoted.flow.src_port, quoted.flow.dst_port) = ports,
                protocol::ICMP | protocol::ICMPV6 => {
                    let rest = u32::from_be_bytes([q0, q1, q2, q3]);
                    quoted.icmp = Some(Icmp { kind: s0, code: s1, rest });
                }
                _ => {}
            }
        }
        Some(quoted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::testing::{bytes, ipv4, ipv6, packet, payload, tcp};
    use crate::packet::{Flaws, TcpFlags};

    /// An error built from a packet, sent and parsed again, tells of that packet.
    #[test]
    fn errors_quote() {
        let cases = [
            (ipv4(protocol::TCP), ipv4(protocol::ICMP), kind::TIME_EXCEEDED, 548, 576),
            (ipv6(protocol::TCP), ipv6(protocol::ICMPV6), kind_v6::PACKET_TOO_BIG, 1232, 1280),
            // No more than RFC 792 asks for.
            (ipv4(protocol::TCP), ipv4(protocol::ICMP), kind::UNREACHABLE, 28, 56),
        ];
        for (inner, outer, kind, max_quote, len) in cases {
            let about = packet(inner, tcp(TcpFlags::ACK), 1400);
            let store = payload(1400);
            let icmp = Icmp { kind, code: 0, rest: 1300 };
            let error = Packet::icmp_error(outer, icmp, &about, max_quote);
            assert_eq!(error.len(), len);
            let sent = bytes(&error, &store);
            // The quote is the packet as it would have gone on, checksums and all.
            let quoted = &sent[sent.len() - max_quote as usize..];
            assert_eq!(quoted, &bytes(&about, &store)[14..14 + max_quote as usize]);
            let parsed = Packet::parse_ip(&sent[..]).expect("parses");
            assert_eq!((parsed.flaws(), parsed.transport), (Flaws::NONE, Transport::Icmp(icmp)));
            for one in [error, parsed] {
                let quoted = one.quoted().expect("quotes");
                assert_eq!(Some(quoted.flow), about.flow());
                assert_eq!((quoted.network, quoted.icmp), (inner, None));
                assert_eq!(quoted.seq, about.tcp().map(|tcp| tcp.seq));
            }
        }
    }

    #[test]
    fn an_echo_quotes_nothing() {
        let echo = Transport::Icmp(Icmp { kind: kind::ECHO_REQUEST, code: 0, rest: 0x0001_0002 });
        assert_eq!(packet(ipv4(protocol::ICMP), echo, 56).quoted(), None);
    }
}
