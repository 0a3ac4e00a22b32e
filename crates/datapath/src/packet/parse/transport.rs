//! Transport headers, tunnels and what else carries packets.

use super::{DISSECTED, MAX_NESTING, Parser, QUOTED_TRANSPORT};
use crate::packet::Flaws;
use crate::packet::link::EtherType;
use crate::packet::network::{Network, protocol};
use crate::packet::seq::Seq;
use crate::packet::transport::{Icmp, Tcp, TcpFlags, TcpOptions, Transport, Udp};

impl Parser<'_> {
    #[inline]
    pub(super) fn transport(&mut self, protocol: u8) {
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
            && let Some(at) = crate::packet::dissect::ports_at(protocol)
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
        match crate::packet::flow::tunnel_payload(protocol, payload) {
            Some((ether_type, at)) => {
                let inner = Parser::nested(&payload[at..], ether_type, self.depth + 1);
                self.pull(at + inner.body_at);
            }
            None => self.pull(payload.len().min(DISSECTED)),
        }
    }

    /// What lies between Ethernet and another network header is none that we know, but what it
    /// carries is kept within reach of the flow dissector.
    pub(super) fn carrier(&mut self, ether_type: EtherType) {
        let payload = self.payload();
        let carried = crate::packet::dissect::carried(ether_type, payload);
        if let Some((inner_type, at)) = carried.filter(|_| self.depth < MAX_NESTING) {
            let inner = Parser::nested(&payload[at..], inner_type, self.depth + 1);
            self.pull(at + inner.body_at);
        }
    }
}
