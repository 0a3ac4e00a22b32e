//! Bytes to [`Packet`].
//!
//! Parsing is total: whatever cannot be understood stays in the body or in [`Extra::raw`], so that
//! [`Packet::emit`](super::Packet::emit) gives the same bytes back. A packet whose canonical form
//! already does so, which is every ordinary one, is parsed without allocation.

use super::checksum::Sum;
use super::frame::{Frame, Malformed};
use super::link::{EtherType, LinkHeader, MacAddr};
use super::network::{Network, protocol};
use super::transport::Transport;
use super::{Body, Extra, Flaws, GsoType, Memory, Meta, Packet};

mod network;
mod transport;

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
        let link = LinkHeader::Ethernet {
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
        Ok(parser.finish(LinkHeader::None, Vec::new(), 0, &frame))
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
    fn finish(
        self,
        link: LinkHeader,
        vlan: Vec<(u16, u16)>,
        at: usize,
        frame: &Frame<'_>,
    ) -> Packet {
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
                tag_sent: false,
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

#[cfg(test)]
mod tests;
