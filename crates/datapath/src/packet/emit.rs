//! [`Packet`] to bytes.

use super::checksum::Sum;
use super::link::{EtherType, LinkHeader};
use super::network::{Ipv4, Ipv6, Network, protocol};
use super::transport::{Icmp, Tcp, Transport, Udp};
use super::{Extra, Flaws, Packet};

/// A checksum that is left to a device: the sum from `start` on goes to `start + offset`
/// (`skb->csum_start`, `skb->csum_offset`; `virtio_net_hdr` of the same names). Until then the sum of
/// the pseudo header stands there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Partial {
    /// Where the transport header begins in the frame.
    pub start: u16,
    /// Where its checksum field lies in it.
    pub offset: u16,
}

/// What a transport checksum is to cover.
#[derive(Clone, Copy)]
enum Cover<'a> {
    /// Header and payload.
    Payload(&'a [u8]),
    /// The pseudo header only: a device does the rest.
    Pseudo,
}

impl Packet {
    /// Appends the packet to `out`: headers with right lengths and checksums, then `body`.
    ///
    /// `body` is what lies at [`Packet::body`], followed by the [`Extra::trailer`] if there is
    /// one. It may be shorter than the packet says: bytes that are not there are not written, and
    /// count as zeroes in the checksum.
    ///
    /// What was [damaged](Self::damage) on its way has a wrong checksum.
    pub fn emit(&self, body: &[u8], out: &mut Vec<u8>) {
        let start = out.len();
        let payload = &body[..body.len().min(self.body.len as usize)];
        self.emit_covering(Cover::Payload(payload), out);
        out.extend_from_slice(body);
        if self.extra.is_some() && self.flaws().contains(Flaws::DAMAGED) {
            self.spoil(&mut out[start..]);
        }
    }

    /// Appends the packet with its own bytes, as it goes on the wire: whole, with zeroes for what
    /// does not exist of its body. A super-packet is one large packet.
    pub fn emit_whole(&self, out: &mut Vec<u8>) {
        let start = out.len();
        let trailer = self.extra.as_ref().map_or(0, |extra| extra.trailer);
        self.emit(self.body.bytes_and(trailer), out);
        out.resize(start + self.full_len() as usize, 0);
    }

    /// The same, with the transport checksum left to a device if it can be. `None` if there is
    /// nothing left to do: it is computed, goes out as it came, or there is none.
    pub fn emit_partial(&self, out: &mut Vec<u8>) -> Option<Partial> {
        let start = out.len();
        let Some(partial) = self.checksum_to_leave() else {
            self.emit_whole(out);
            return None;
        };
        self.emit_covering(Cover::Pseudo, out);
        out.extend_from_slice(self.body.bytes());
        out.resize(start + self.full_len() as usize, 0);
        Some(partial)
    }

    /// Appends the headers alone, with the checksums of the whole packet.
    pub(super) fn emit_own_headers(&self, out: &mut Vec<u8>) {
        self.emit_covering(Cover::Payload(self.body.bytes()), out);
    }

    /// The headers of [`emit_partial`](Self::emit_partial) alone, where nothing but the body's bytes follows
    /// them. `None` where something else does, or the checksum is not left to a device: nothing is appended.
    pub fn emit_partial_apart(&self, out: &mut Vec<u8>) -> Option<Partial> {
        let partial = self.checksum_to_leave()?;
        let whole = self.header_len() as usize + self.body.bytes().len();
        if whole != self.full_len() as usize {
            return None;
        }
        self.emit_covering(Cover::Pseudo, out);
        Some(partial)
    }

    /// Where the transport checksum lies, if it is ours to write.
    fn checksum_to_leave(&self) -> Option<Partial> {
        let offset = match self.transport {
            Transport::Tcp(_) => 16,
            Transport::Udp(_) => 6,
            Transport::Icmp(_) | Transport::None => return None,
        };
        let start = match &self.extra {
            Some(extra) if extra.flaws != Flaws::NONE => return None,
            Some(extra) if extra.raw.is_empty() => self.header_len() - self.transport.len(),
            Some(extra) if extra.recompute => extra.transport_offset.into(),
            Some(_) => return None,
            None => self.header_len() - self.transport.len(),
        };
        Some(Partial { start: start as u16, offset })
    }

    /// A bit of the packet has changed on its way (`netem corrupt`): its checksum is wrong from now
    /// on, here and in the bytes that it is sent as.
    pub fn damage(&mut self) {
        self.extra.get_or_insert_default().flaws |= Flaws::TRANSPORT_CHECKSUM | Flaws::DAMAGED;
    }

    /// Changes a bit of the checksum, or of the payload where there is none.
    #[cold]
    fn spoil(&self, bytes: &mut [u8]) {
        let headers = self.header_len() as usize;
        let transport_at = match &self.extra {
            Some(extra) if !extra.raw.is_empty() => extra.transport_offset.into(),
            _ => headers - self.transport.len() as usize,
        };
        let at = match self.transport {
            Transport::Tcp(_) => transport_at + 17,
            Transport::Udp(_) => transport_at + 7,
            Transport::Icmp(_) => transport_at + 3,
            Transport::None => headers + self.body.len.saturating_sub(1) as usize,
        };
        if let Some(byte) = bytes.get_mut(at) {
            *byte ^= 1;
        }
    }

    /// Appends the headers.
    #[inline]
    fn emit_covering(&self, cover: Cover<'_>, out: &mut Vec<u8>) {
        match &self.extra {
            Some(extra) if !extra.raw.is_empty() => {
                let start = out.len();
                out.extend_from_slice(&extra.raw);
                if extra.recompute {
                    self.fill_raw(extra, cover, &mut out[start..]);
                }
            }
            extra => {
                let tags = extra.as_ref().map_or(&[][..], |extra| &extra.vlan);
                self.emit_canonical(tags, cover, out);
            }
        }
    }

    /// Appends the headers as if the body were all zeroes: what a simulated packet, whose body is
    /// only a length, looks like in a capture that was cut after the headers.
    pub fn emit_headers(&self, out: &mut Vec<u8>) {
        self.emit(&[], out);
    }

    /// Appends the canonical headers.
    #[inline]
    fn emit_canonical(&self, tags: &[(u16, u16)], cover: Cover<'_>, out: &mut Vec<u8>) {
        let start = out.len();
        let link_len = self.link.len() as usize + 4 * tags.len();
        let network_len = self.network.len() as usize;
        let transport_len = self.transport.len() as usize;
        out.resize(start + link_len + network_len + transport_len, 0);
        let (link, rest) = out[start..].split_at_mut(link_len);
        let (network, transport) = rest.split_at_mut(network_len);
        write_link(&self.link, tags, self.network.ether_type(), link);
        let len = transport_len as u32 + self.body.len;
        match &self.network {
            Network::Ipv4(ip) => write_ipv4(ip, len, network),
            Network::Ipv6(ip) => write_ipv6(ip, len, network),
            Network::Other(_) => {}
        }
        self.write_transport(len, cover, transport);
    }

    /// Writes the canonical transport header; `len` counts it and the whole body.
    #[inline]
    fn write_transport(&self, len: u32, cover: Cover<'_>, out: &mut [u8]) {
        let (protocol, checksum_at) = match &self.transport {
            Transport::None => return,
            Transport::Tcp(tcp) => {
                write_tcp(tcp, out);
                (protocol::TCP, 16)
            }
            Transport::Udp(udp) => {
                write_udp_fields(*udp, out);
                out[4..6].copy_from_slice(&length_field(len));
                (protocol::UDP, 6)
            }
            Transport::Icmp(icmp) => {
                write_icmp_fields(*icmp, out);
                (self.icmp_protocol(), 2)
            }
        };
        let checksum = self.covering(cover, protocol, len, out).to_be_bytes();
        out[checksum_at..checksum_at + 2].copy_from_slice(&checksum);
    }

    /// ICMP and ICMPv6 are told apart by the network header.
    fn icmp_protocol(&self) -> u8 {
        match self.network {
            Network::Ipv6(_) => protocol::ICMPV6,
            Network::Ipv4(_) | Network::Other(_) => protocol::ICMP,
        }
    }

    /// The sum that a transport checksum begins with.
    #[inline]
    fn pseudo(&self, protocol: u8, len: u32) -> Sum {
        match protocol {
            protocol::ICMP => Sum::default(),
            _ => Sum::default().pseudo(&self.network, protocol, len),
        }
    }

    /// What goes into the checksum field of `header`, which is zero.
    #[inline]
    fn covering(&self, cover: Cover<'_>, protocol: u8, len: u32, header: &[u8]) -> u16 {
        let pseudo = self.pseudo(protocol, len);
        match cover {
            Cover::Payload(payload) => pseudo.bytes(header).bytes(payload).field(protocol),
            Cover::Pseudo => pseudo.fold(),
        }
    }

    /// Writes lengths and checksums into a copy of `extra.raw`.
    fn fill_raw(&self, extra: &Extra, cover: Cover<'_>, raw: &mut [u8]) {
        let network_at = usize::from(extra.network_offset);
        let transport_at = usize::from(extra.transport_offset);
        let raw_len = raw.len();
        let total_len = (raw_len - network_at) as u32 + self.body.len;
        let (network, transport) = raw[network_at..].split_at_mut(transport_at - network_at);
        match self.network {
            Network::Ipv4(_) => {
                network[2..4].copy_from_slice(&length_field(total_len));
                network[10..12].fill(0);
                // A fragment or a tunnel has no transport header: its own header ends by its IHL.
                let header_len = network.len().min(usize::from(network[0] & 0x0f) * 4);
                let checksum = Sum::default().bytes(&network[..header_len]).checksum();
                network[10..12].copy_from_slice(&checksum.to_be_bytes());
            }
            Network::Ipv6(_) => network[4..6].copy_from_slice(&length_field(total_len - 40)),
            Network::Other(_) => {}
        }
        let len = (raw_len - transport_at) as u32 + self.body.len;
        let (protocol, checksum_at) = match self.transport {
            Transport::None => return,
            Transport::Tcp(_) => (protocol::TCP, 16),
            Transport::Udp(_) => {
                transport[4..6].copy_from_slice(&length_field(len));
                (protocol::UDP, 6)
            }
            Transport::Icmp(_) => (self.icmp_protocol(), 2),
        };
        transport[checksum_at..checksum_at + 2].fill(0);
        let checksum = self.covering(cover, protocol, len, transport).to_be_bytes();
        transport[checksum_at..checksum_at + 2].copy_from_slice(&checksum);
    }
}

/// A 16-bit length field: zero where the length does not fit (BIG TCP, `iph_set_totlen`).
#[inline]
fn length_field(len: u32) -> [u8; 2] {
    u16::try_from(len).unwrap_or(0).to_be_bytes()
}

/// Writes a link-layer header, tags included, that fills `out`.
#[inline]
pub(super) fn write_link(
    link: &LinkHeader,
    tags: &[(u16, u16)],
    ether_type: EtherType,
    out: &mut [u8],
) {
    let LinkHeader::Ethernet { dst, src } = link else { return };
    out[0..6].copy_from_slice(&dst.0);
    out[6..12].copy_from_slice(&src.0);
    let mut at = 12;
    for (protocol, control) in tags {
        out[at..at + 2].copy_from_slice(&protocol.to_be_bytes());
        out[at + 2..at + 4].copy_from_slice(&control.to_be_bytes());
        at += 4;
    }
    out[at..at + 2].copy_from_slice(&ether_type.0.to_be_bytes());
}

#[inline]
fn write_ipv4(ip: &Ipv4, payload_len: u32, out: &mut [u8]) {
    let out: &mut [u8; 20] = out.try_into().expect("a canonical IPv4 header has 20 bytes");
    out[0] = 0x45;
    out[2..4].copy_from_slice(&length_field(20 + payload_len));
    write_ipv4_fields(ip, out);
    let checksum = Sum::default().bytes(&out[..]).checksum();
    out[10..12].copy_from_slice(&checksum.to_be_bytes());
}

/// Writes all of an IPv4 header but version, lengths and checksum.
#[inline]
pub(super) fn write_ipv4_fields(ip: &Ipv4, out: &mut [u8]) {
    let out = out.first_chunk_mut::<20>().expect("an IPv4 header has at least 20 bytes");
    let fragment = u16::from(ip.dont_fragment) << 14
        | u16::from(ip.more_fragments) << 13
        | ip.fragment_offset & 0x1fff;
    out[1] = ip.tos;
    out[4..6].copy_from_slice(&ip.id.to_be_bytes());
    out[6..8].copy_from_slice(&fragment.to_be_bytes());
    out[8] = ip.ttl;
    out[9] = ip.protocol;
    out[12..16].copy_from_slice(&ip.src.octets());
    out[16..20].copy_from_slice(&ip.dst.octets());
}

#[inline]
fn write_ipv6(ip: &Ipv6, payload_len: u32, out: &mut [u8]) {
    let out: &mut [u8; 40] = out.try_into().expect("a canonical IPv6 header has 40 bytes");
    out[4..6].copy_from_slice(&length_field(payload_len));
    out[6] = ip.next_header;
    write_ipv6_fields(ip, out);
}

/// Writes all of an IPv6 header but length and next header.
#[inline]
pub(super) fn write_ipv6_fields(ip: &Ipv6, out: &mut [u8]) {
    let out = out.first_chunk_mut::<40>().expect("an IPv6 header has 40 bytes");
    let word = 6 << 28 | u32::from(ip.traffic_class) << 20 | ip.flow_label.get();
    out[0..4].copy_from_slice(&word.to_be_bytes());
    out[7] = ip.hop_limit;
    out[8..24].copy_from_slice(&ip.src.octets());
    out[24..40].copy_from_slice(&ip.dst.octets());
}

/// Writes a canonical TCP header with its checksum field left zero.
#[inline]
fn write_tcp(tcp: &Tcp, out: &mut [u8]) {
    assert!(out.len() <= 60, "more TCP options than a header holds");
    out[12] = ((out.len() / 4) << 4) as u8;
    write_tcp_fields(tcp, out);
    tcp.options.write(&mut out[20..]);
}

/// Writes the fixed part of a TCP header but for data offset and checksum.
#[inline]
pub(super) fn write_tcp_fields(tcp: &Tcp, out: &mut [u8]) {
    let out = out.first_chunk_mut::<20>().expect("a TCP header has at least 20 bytes");
    let [accurate_ecn, flags] = tcp.flags.0.to_be_bytes();
    out[0..2].copy_from_slice(&tcp.src_port.to_be_bytes());
    out[2..4].copy_from_slice(&tcp.dst_port.to_be_bytes());
    out[4..8].copy_from_slice(&tcp.seq.0.to_be_bytes());
    out[8..12].copy_from_slice(&tcp.ack.0.to_be_bytes());
    out[12] = out[12] & !1 | accurate_ecn & 1;
    out[13] = flags;
    out[14..16].copy_from_slice(&tcp.window.to_be_bytes());
    out[18..20].copy_from_slice(&tcp.urgent.to_be_bytes());
}

/// Writes the ports of a UDP header.
#[inline]
pub(super) fn write_udp_fields(udp: Udp, out: &mut [u8]) {
    out[0..2].copy_from_slice(&udp.src_port.to_be_bytes());
    out[2..4].copy_from_slice(&udp.dst_port.to_be_bytes());
}

/// Writes an ICMP or ICMPv6 header but for its checksum.
#[inline]
pub(super) fn write_icmp_fields(icmp: Icmp, out: &mut [u8]) {
    out[0] = icmp.kind;
    out[1] = icmp.code;
    out[4..8].copy_from_slice(&icmp.rest.to_be_bytes());
}
