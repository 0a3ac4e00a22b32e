//! Edits in place: ECN, DSCP, TTL and the link header, on packets and on raw bytes.
//!
//! On raw bytes the IPv4 header checksum is updated incrementally (RFC 1624), so that a wrong one
//! stays wrong. A packet in canonical form needs no update: its checksum is computed at emission.

use super::checksum;
use super::emit;
use super::link::{EtherType, LinkHeader};
use super::network::{Ecn, Network};
use super::transport::Transport;
use super::{Extra, Packet};

impl Packet {
    /// Marks congestion experienced (`INET_ECN_set_ce`); false, and nothing done, if the packet is
    /// not ECN-capable.
    pub fn mark_ce(&mut self) -> bool {
        let capable = self.network.ecn() != Ecn::NotEct;
        if capable {
            self.set_ecn(Ecn::Ce);
        }
        capable
    }

    /// Sets the ECN codepoint and leaves the DSCP. Does nothing to what is not IP.
    pub fn set_ecn(&mut self, ecn: Ecn) {
        self.set_tos(self.network.tos() & !3 | ecn as u8);
    }

    /// Sets the DSCP (its lower six bits) and leaves the ECN codepoint (`ipv4_change_dsfield`).
    pub fn set_dscp(&mut self, dscp: u8) {
        self.set_tos(self.network.tos() & 3 | dscp << 2);
    }

    /// Sets the whole DSCP and ECN byte.
    pub fn set_tos(&mut self, tos: u8) {
        match &mut self.network {
            Network::Ipv4(ip) => ip.tos = tos,
            Network::Ipv6(ip) => ip.traffic_class = tos,
            Network::Other(_) => return,
        }
        if let Some(header) = self.raw_network() {
            set_tos(header, tos);
        }
    }

    /// Takes one off the TTL or hop limit (`ip_decrease_ttl`). False, and nothing done, if none
    /// would be left: such a packet must not be forwarded.
    #[inline]
    pub fn dec_ttl(&mut self) -> bool {
        let ttl = match &mut self.network {
            Network::Ipv4(ip) => &mut ip.ttl,
            Network::Ipv6(ip) => &mut ip.hop_limit,
            Network::Other(_) => return false,
        };
        if *ttl <= 1 {
            return false;
        }
        *ttl -= 1;
        if let Some(header) = self.raw_network() {
            dec_ttl(header);
        }
        true
    }

    /// Gives the packet another link-layer header, as on its way out of an interface. VLAN tags
    /// and padding belonged to the old one and go with it.
    #[inline]
    pub fn set_link(&mut self, link: LinkHeader) {
        if self.link.len() != link.len() {
            self.meta.len = self.meta.len - self.link.len() + link.len();
        }
        self.link = link;
        if self.extra.is_some() {
            self.set_raw_link(link);
        }
    }

    fn set_raw_link(&mut self, link: LinkHeader) {
        if let Some(extra) = &mut self.extra {
            extra.vlan.clear();
            extra.cut_trailer();
            if !extra.raw.is_empty() {
                let old_len = usize::from(extra.network_offset);
                let mut header = [0; 14];
                let header = &mut header[..link.len() as usize];
                emit::write_link(&link, &[], self.network.ether_type(), header);
                extra.raw.splice(..old_len, header.iter().copied());
                extra.transport_offset -= extra.network_offset;
                extra.network_offset = header.len() as u16;
                extra.transport_offset += extra.network_offset;
            }
        }
        self.meta.len = self.header_len() + self.body.len;
    }

    /// Puts changed fields of the hot headers into `Extra::raw` and has lengths and checksums
    /// computed at emission. To be called after changing fields of a packet that may have raw
    /// headers by any other way than the methods here; options stay as they are in `raw`.
    pub fn refresh_raw(&mut self) {
        let Self { network, transport, extra: Some(extra), .. } = self else { return };
        if extra.raw.is_empty() {
            return;
        }
        extra.recompute = true;
        extra.cut_trailer();
        let Extra { raw, network_offset, transport_offset, .. } = &mut **extra;
        let (before, header) = raw.split_at_mut(usize::from(*transport_offset));
        let ip = &mut before[usize::from(*network_offset)..];
        match network {
            Network::Ipv4(fields) => emit::write_ipv4_fields(fields, ip),
            // The protocol after extension headers is not ours to change.
            Network::Ipv6(fields) => emit::write_ipv6_fields(fields, ip),
            Network::Other(_) => {}
        }
        match transport {
            Transport::Tcp(tcp) => emit::write_tcp_fields(tcp, header),
            Transport::Udp(udp) => emit::write_udp_fields(*udp, header),
            Transport::Icmp(icmp) => emit::write_icmp_fields(*icmp, header),
            Transport::None => {}
        }
    }

    /// The network header in `Extra::raw`, if the packet has raw headers and they are IP.
    fn raw_network(&mut self) -> Option<&mut [u8]> {
        let extra = self.extra.as_mut()?;
        extra.raw.get_mut(usize::from(extra.network_offset)..).filter(|header| !header.is_empty())
    }
}

/// The network header of an Ethernet frame, behind any VLAN tags; `None` if it is not IP.
pub fn network_header(frame: &mut [u8]) -> Option<&mut [u8]> {
    let mut at = 12;
    loop {
        let ether_type = EtherType(u16::from_be_bytes(*frame.get(at..)?.first_chunk()?));
        match ether_type {
            EtherType::VLAN | EtherType::QINQ => at += 4,
            EtherType::IPV4 | EtherType::IPV6 => return frame.get_mut(at + 2..),
            _ => return None,
        }
    }
}

/// The DSCP and ECN byte of the IP header that `header` begins with; `None` if it is not one.
pub fn tos(header: &[u8]) -> Option<u8> {
    match header {
        [first, tos, ..] if is_ipv4(*first, header) => Some(*tos),
        [first, second, ..] if is_ipv6(*first, header) => Some(first << 4 | second >> 4),
        _ => None,
    }
}

/// Sets the DSCP and ECN byte in an IP header on the wire; false if it is not an IP header.
pub fn set_tos(header: &mut [u8], tos: u8) -> bool {
    let Some(&[first, second]) = header.first_chunk() else { return false };
    if is_ipv4(first, header) {
        replace_word(header, 0, [first, tos]);
    } else if is_ipv6(first, header) {
        header[0] = 0x60 | tos >> 4;
        header[1] = tos << 4 | second & 0x0f;
    } else {
        return false;
    }
    true
}

/// Marks congestion experienced in an IP header on the wire (`INET_ECN_set_ce`); false, and
/// nothing done, if the packet is not ECN-capable.
pub fn mark_ce(header: &mut [u8]) -> bool {
    match tos(header) {
        Some(tos) if Ecn::from_bits(tos) != Ecn::NotEct => set_tos(header, tos | 3),
        _ => false,
    }
}

/// Takes one off the TTL or hop limit of an IP header on the wire; false, and nothing done, if
/// none would be left.
pub fn dec_ttl(header: &mut [u8]) -> bool {
    let Some(&first) = header.first() else { return false };
    if is_ipv4(first, header) && header[8] > 1 {
        replace_word(header, 8, [header[8] - 1, header[9]]);
    } else if is_ipv6(first, header) && header[7] > 1 {
        header[7] -= 1;
    } else {
        return false;
    }
    true
}

fn is_ipv4(first: u8, header: &[u8]) -> bool {
    first >> 4 == 4 && header.len() >= 20
}

fn is_ipv6(first: u8, header: &[u8]) -> bool {
    first >> 4 == 6 && header.len() >= 40
}

/// Replaces a word of an IPv4 header, and updates the header checksum.
fn replace_word(header: &mut [u8], at: usize, new: [u8; 2]) {
    let word = |at: usize| u16::from_be_bytes([header[at], header[at + 1]]);
    let checksum = checksum::update(word(10), word(at), u16::from_be_bytes(new));
    header[at..at + 2].copy_from_slice(&new);
    header[10..12].copy_from_slice(&checksum.to_be_bytes());
}
