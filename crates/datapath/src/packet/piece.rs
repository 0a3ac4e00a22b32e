//! Fragments as pieces of a packet, and the packet put together again (`ip_frag_reasm`,
//! `ip6_frag_reasm`).

use super::frames::{FrameRef, Joined};
use super::network::{Ecn, Network, protocol};
use super::{Flaws, Packet};

/// Which piece of a packet a fragment is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Identification: 16 bits in IPv4, 32 in IPv6.
    pub id: u32,
    /// Protocol number of what is fragmented.
    pub protocol: u8,
    /// Bytes of the fragmented packet before this piece.
    pub offset: u32,
    /// Bytes of this piece.
    pub len: u32,
    /// More pieces follow.
    pub more: bool,
    /// Where the piece begins in `Extra::raw`; what `raw` has not, lies in the body.
    payload_at: usize,
    /// Where the IPv6 fragment header lies in `Extra::raw`.
    pub(crate) fragment_header: usize,
}

impl Piece {
    /// Just past the last byte of this piece.
    pub const fn end(&self) -> u32 {
        self.offset + self.len
    }

    /// A fragment that is all there is (an atomic fragment of IPv6, RFC 6946).
    pub const fn is_whole(&self) -> bool {
        self.offset == 0 && !self.more
    }
}

impl Packet {
    /// Which piece of a packet this is; `None` if it is not a fragment.
    pub fn piece(&self) -> Option<Piece> {
        let raw = self.extra.as_ref().map_or(&[][..], |extra| &extra.raw);
        let network_at = self.extra.as_ref().map_or(0, |extra| usize::from(extra.network_offset));
        match self.network {
            Network::Ipv4(ip) => {
                if !ip.more_fragments && ip.fragment_offset == 0 {
                    return None;
                }
                let payload_at =
                    raw.get(network_at).map_or(0, |first| network_at + usize::from(first & 15) * 4);
                Some(Piece {
                    id: u32::from(ip.id),
                    protocol: ip.protocol,
                    offset: 8 * u32::from(ip.fragment_offset),
                    len: (raw.len() - payload_at) as u32 + self.body.len,
                    more: ip.more_fragments,
                    payload_at,
                    fragment_header: 0,
                })
            }
            Network::Ipv6(_) => {
                let at = fragment_header(raw.get(network_at..)?)? + network_at;
                let &[next, _, o0, o1, i0, i1, i2, i3] = raw.get(at..)?.first_chunk()?;
                let field = u16::from_be_bytes([o0, o1]);
                let payload_at = at + 8;
                Some(Piece {
                    id: u32::from_be_bytes([i0, i1, i2, i3]),
                    protocol: next,
                    offset: u32::from(field & !7),
                    len: (raw.len() - payload_at) as u32 + self.body.len,
                    more: field & 1 != 0,
                    payload_at,
                    fragment_header: at,
                })
            }
            Network::Other(_) => None,
        }
    }

    /// Where the field lies that names the protocol of an IPv6 packet, from its header on: behind the last of its
    /// extension headers (`IP6CB(skb)->nhoff`).
    #[cold]
    pub(crate) fn next_header_at(&self) -> u32 {
        let raw = self.extra.as_ref().filter(|extra| !extra.raw.is_empty());
        let (Some(extra), Network::Ipv6(_)) = (raw, self.network) else {
            return NEXT_HEADER_AT as u32;
        };
        let network_at = usize::from(extra.network_offset);
        let end = usize::from(extra.transport_offset).saturating_sub(network_at);
        next_header_field(&extra.raw[network_at..], end) as u32
    }

    /// Cuts `len` bytes off the end of a fragment (`pskb_trim`).
    pub(crate) fn trim_tail(&mut self, len: u32) {
        let from_body = len.min(self.body.len);
        self.body.len -= from_body;
        self.meta.len -= len;
        let from_raw = (len - from_body) as usize;
        if from_raw > 0
            && let Some(extra) = &mut self.extra
        {
            extra.raw.truncate(extra.raw.len() - from_raw);
            extra.transport_offset = extra.raw.len() as u16;
        }
    }

    /// The packet that `fragments` make, in their order, without gaps, with this ECN
    /// codepoint and IPv4's don't-fragment bit.
    ///
    /// Bytes are copied into a frame of their own, which is counted in `joined`, and the transport
    /// checksum of the whole is looked at. `None` if one is not a fragment, or there are none.
    pub fn join(
        fragments: &[Self],
        ecn: Ecn,
        dont_fragment: bool,
        joined: &mut Joined,
    ) -> Option<Self> {
        let first = fragments.first()?;
        let pieces: Vec<Piece> = fragments.iter().map(Self::piece).collect::<Option<_>>()?;
        let mut bytes = first.headers_of_whole(&pieces[0], dont_fragment);
        let headers_len = bytes.len();
        let total = headers_len + pieces.iter().map(|piece| piece.len as usize).sum::<usize>();
        for (fragment, piece) in fragments.iter().zip(&pieces) {
            let pulled = fragment.extra.as_ref().map_or(&[][..], |extra| &extra.raw);
            bytes.extend_from_slice(pulled.get(piece.payload_at..).unwrap_or(&[]));
            let end = bytes.len() + fragment.body.len as usize;
            bytes.extend_from_slice(fragment.body.bytes());
            // A body that is only a length is all zeroes.
            bytes.resize(end, 0);
        }
        write_lengths(&mut bytes[..headers_len], total);
        let mut whole = if fragments.iter().any(|one| one.body.frame.is_some()) {
            joined.add(total - headers_len);
            Self::parse_ip(&FrameRef::from(bytes)).ok()?
        } else {
            let mut whole = Self::parse_ip(&bytes[..]).ok()?;
            // The offset is a label, which comes with the first data.
            let first = fragments.iter().map(|one| &one.body).find(|body| body.len > 0);
            whole.body.offset = first.map_or(0, |body| body.offset);
            whole
        };
        let damage = fragments.iter().any(|one| one.flaws().contains(Flaws::TRANSPORT_CHECKSUM));
        if damage {
            whole.damage();
        }
        whole.set_ecn(ecn);
        whole.set_link(first.link);
        Some(whole)
    }

    /// The network headers of the packet that this fragment is the first piece of, from the IP
    /// header on, without its lengths.
    fn headers_of_whole(&self, piece: &Piece, dont_fragment: bool) -> Vec<u8> {
        let mut bytes = Vec::new();
        let network_at = match &self.extra {
            Some(extra) if !extra.raw.is_empty() => {
                bytes.extend_from_slice(&extra.raw[..piece.payload_at]);
                usize::from(extra.network_offset)
            }
            _ => {
                self.emit_headers(&mut bytes);
                bytes.len() - self.network.len() as usize
            }
        };
        let mut bytes = bytes.split_off(network_at);
        if let Network::Ipv4(ip) = self.network {
            let flags: u16 = if dont_fragment { 0x4000 } else { 0 };
            bytes[6..8].copy_from_slice(&flags.to_be_bytes());
            bytes[1] = ip.tos;
        } else {
            let at = piece.fragment_header - network_at;
            let before = next_header_field(&bytes, at);
            bytes[before] = piece.protocol;
            bytes.truncate(at);
        }
        bytes
    }
}

/// Writes the length field and, for IPv4, the header checksum.
fn write_lengths(header: &mut [u8], total: usize) {
    if header[0] >> 4 == 4 {
        header[2..4].copy_from_slice(&u16::try_from(total).unwrap_or(0).to_be_bytes());
        header[10..12].fill(0);
        let checksum = super::checksum::Sum::default().bytes(header).checksum();
        header[10..12].copy_from_slice(&checksum.to_be_bytes());
    } else {
        header[4..6].copy_from_slice(&u16::try_from(total - 40).unwrap_or(0).to_be_bytes());
    }
}

/// Offset of the next-header field in an IPv6 header.
const NEXT_HEADER_AT: usize = 6;

/// Where the fragment header lies in these IPv6 headers.
fn fragment_header(headers: &[u8]) -> Option<usize> {
    let (mut next, mut at) = (*headers.get(NEXT_HEADER_AT)?, 40);
    loop {
        let &[following, len] = headers.get(at..)?.first_chunk()?;
        match next {
            protocol::FRAGMENT => return Some(at),
            protocol::HOP_BY_HOP | protocol::ROUTING | protocol::DESTINATION_OPTIONS => {
                at += 8 * (usize::from(len) + 1);
            }
            protocol::AUTHENTICATION => at += 4 * (usize::from(len) + 2),
            _ => return None,
        }
        next = following;
    }
}

/// The field that says what the header at `end` is.
fn next_header_field(headers: &[u8], end: usize) -> usize {
    let (mut field, mut at) = (NEXT_HEADER_AT, 40);
    while at < end {
        let len = usize::from(headers[at + 1]);
        let step = match headers[field] {
            protocol::AUTHENTICATION => 4 * (len + 2),
            protocol::FRAGMENT => 8,
            _ => 8 * (len + 1),
        };
        field = at;
        at += step;
    }
    field
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::testing::{bytes, ipv4, ipv6, packet, payload, tcp};
    use crate::packet::{TcpFlags, Transport, Udp};
    use proptest::prelude::*;

    const UDP: Transport = Transport::Udp(Udp { src_port: 1, dst_port: 2 });

    fn may_fragment(mut network: Network) -> Network {
        if let Network::Ipv4(ip) = &mut network {
            ip.dont_fragment = false;
        }
        network
    }

    fn simulated(network: Network, transport: Transport, len: u32) -> Packet {
        let mut whole = packet(may_fragment(network), transport, len);
        whole.body.frame = None;
        whole.meta = crate::packet::Meta { len: whole.meta.len, ..Default::default() };
        whole
    }

    fn join(cut: &[Packet]) -> Option<Packet> {
        Packet::join(cut, cut[0].network.ecn(), false, &mut Joined::default())
    }

    fn fragments(whole: &Packet, mtu: u32) -> Vec<Packet> {
        let cut = match whole.network {
            Network::Ipv4(_) => whole.fragment(mtu),
            _ => whole.fragment_ipv6(mtu, 77),
        };
        cut.expect("may be fragmented").collect()
    }

    #[test]
    fn a_datagram_of_three_ipv6_fragments() {
        let whole = simulated(ipv6(protocol::UDP), UDP, 4_000);
        let cut = fragments(&whole, 1500);
        let lens: Vec<_> = cut.iter().map(|one| one.len() - 14).collect();
        // As observed: 1448 bytes each of 4008 behind headers of 48.
        assert_eq!(lens, [1496, 1496, 1160]);
        let pieces: Vec<_> = cut.iter().map(|one| one.piece().expect("a fragment")).collect();
        assert_eq!(pieces.iter().map(|one| one.offset).collect::<Vec<_>>(), [0, 1448, 2896]);
        assert!(pieces.iter().all(|one| (one.id, one.protocol) == (77, protocol::UDP)));
        assert_eq!(pieces.iter().map(|one| one.more).collect::<Vec<_>>(), [true, true, false]);
    }

    #[test]
    fn fragments_on_the_wire_are_the_same_pieces() {
        for network in [ipv4(protocol::UDP), ipv6(protocol::UDP)] {
            let whole = simulated(network, UDP, 3_000);
            for one in fragments(&whole, 1280) {
                let sent = bytes(&one, &[0; 3_000]);
                let parsed = Packet::parse_ethernet(&sent[..]).expect("parses");
                let (ours, theirs) = (one.piece().unwrap(), parsed.piece().unwrap());
                assert_eq!(parsed.flaws(), Flaws::NONE);
                assert_eq!((ours.id, ours.protocol), (theirs.id, theirs.protocol));
                assert_eq!(
                    (ours.offset, ours.len, ours.more),
                    (theirs.offset, theirs.len, theirs.more)
                );
            }
        }
    }

    #[test]
    fn every_fragment_has_the_hop_by_hop_header() {
        let plain = packet(ipv6(protocol::UDP), UDP, 300);
        let mut frame = bytes(&plain, &payload(300));
        frame[14 + 6] = protocol::HOP_BY_HOP;
        frame.splice(54..54, [protocol::UDP, 0, 5, 2, 0, 0, 1, 0]);
        let len = (frame.len() - 54) as u16;
        frame[18..20].copy_from_slice(&len.to_be_bytes());
        let whole = Packet::parse_ethernet(&FrameRef::from(frame)).expect("parses");
        assert_eq!(whole.flaws(), Flaws::NONE);
        for one in whole.fragment_ipv6(200, 5).expect("may be cut") {
            let raw = &one.extra.as_ref().expect("has headers").raw;
            assert_eq!((raw[20], raw[54], raw[62]), (protocol::HOP_BY_HOP, 44, protocol::UDP));
            assert!(one.len() - 14 <= 200);
        }
    }

    #[test]
    fn damage_of_a_piece_is_damage_of_the_whole() {
        let whole = simulated(ipv4(protocol::UDP), UDP, 3_000);
        let mut cut = fragments(&whole, 1500);
        cut[2].extra.get_or_insert_default().flaws |= Flaws::TRANSPORT_CHECKSUM;
        let joined = join(&cut).expect("is simulated");
        assert_eq!(joined.flaws(), Flaws::TRANSPORT_CHECKSUM | Flaws::DAMAGED);
    }

    #[test]
    fn a_header_in_pieces_without_data_has_no_label() {
        let whole = simulated(ipv6(protocol::TCP), tcp(TcpFlags::ACK), 0);
        let cut = fragments(&whole, 56);
        assert!(cut.len() > 1);
        assert_eq!(join(&cut), Some(whole));
    }

    proptest! {
        /// What is cut and joined is what it was, whatever the MTU does to its transport header.
        #[test]
        fn joining_reverses_cutting(len in 0u32..9000, mtu in 56u32..1600, v6: bool, is_tcp: bool) {
            let (protocol, transport) =
                if is_tcp { (protocol::TCP, tcp(TcpFlags::ACK)) } else { (protocol::UDP, UDP) };
            let network = if v6 { ipv6(protocol) } else { ipv4(protocol) };
            let whole = simulated(network, transport, len);
            let cut = fragments(&whole, mtu);
            prop_assert!(cut.iter().all(|one| one.len() - 14 <= mtu));
            if cut.len() > 1 {
                let joined = join(&cut).expect("is simulated");
                prop_assert_eq!(joined, whole);
            }
        }
    }
}
