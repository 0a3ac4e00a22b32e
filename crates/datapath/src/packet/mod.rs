//! Packets: parsed headers plus an opaque body.
//!
//! A [`Packet`] is what the kernel calls an `sk_buff`: headers that the datapath reads and edits,
//! a [`Body`] that it can cut but not look into, and the few words of metadata (`skb->priority`,
//! `gso_size`, …) that the layers pass to each other. In simulation a body is mostly only a length;
//! live it is a window on a [frame](FrameRef).
//!
//! The hot headers fit in 128 bytes. Whatever does not fit (VLAN tags, long or unknown options,
//! IPv6 extension headers, tunnels, fragments, and the raw bytes of any chain that our canonical
//! form would not reproduce) lies in [`Extra`], so that bytes → packet → bytes is exact for any
//! input.

mod arp;
mod body;
pub mod checksum;
mod dissect;
pub mod edit;
mod emit;
mod flow;
mod fragment;
mod frame;
mod frames;
mod gro;
mod gso;
pub mod icmp;
mod link;
mod network;
pub mod option_kind;
pub mod options;
mod parse;
mod piece;
mod places;
pub mod seq;
#[cfg(test)]
pub(crate) mod testing;
mod transport;

pub use arp::{Arp, ArpOperation};
pub use body::Body;
pub use dissect::{FlowAddresses, FlowKeys};
pub use emit::Partial;
pub use flow::FlowTuple;
pub use fragment::Fragments;
pub use frame::{Frame, Malformed};
pub use frames::{FrameMut, FrameRef, FrameWatch, Frames, Joined};
pub use gro::{GRO_MAX_SIZE, gro_ends, gro_merge};
pub use gso::Segments;
pub use icmp::Quoted;
pub use link::{EtherType, LinkHeader, MacAddr};
pub use network::{
    DEFAULT_TTL, Ecn, FlowLabel, Ipv4, Ipv6, Network, broadcast, protocol, tos_to_priority,
};
pub use piece::Piece;
pub use places::Places;
pub use transport::{
    AccEcnOption, Icmp, SackBlock, SackList, Tcp, TcpFlags, TcpOptions, Timestamps, Transport, Udp,
};

use crate::prefetch_whole;
use crate::units::Instant;

/// One packet: possibly a super-packet (`meta.gso_segs > 1`) that the device will cut.
///
/// It lies in three cache lines of its own. Ordered by use: a router needs the first two.
///
/// ```
/// use core::net::Ipv4Addr;
/// use datapath::packet::seq::Seq;
/// use datapath::packet::{Frames, Ipv4, Network, Packet, Tcp, TcpFlags, TcpOptions, Transport};
///
/// let (src, dst) = (Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2));
/// let tcp = Tcp {
///     src_port: 4_000,
///     dst_port: 80,
///     seq: Seq(7),
///     ack: Seq(0),
///     flags: TcpFlags::SYN,
///     window: 65_535,
///     urgent: 0,
///     options: TcpOptions::default(),
/// };
/// let network = Network::Ipv4(Ipv4::new(src, dst, 6));
/// let sent = Packet { network, transport: Transport::Tcp(tcp), ..Packet::default() }.finish();
///
/// let mut bytes = Vec::new();
/// sent.emit_whole(&mut bytes);
/// let frame = Frames::new(2_048, 1).copy(&bytes).expect("a free frame");
/// let read = Packet::parse_ip(&frame).expect("an IP packet");
/// assert_eq!(read.tcp(), Some(&tcp));
/// ```
#[derive(Clone, Debug, PartialEq)]
#[repr(C, align(64))]
pub struct Packet {
    /// Link-layer header, without VLAN tags (those lie in [`Extra`]).
    pub link: LinkHeader,
    /// Where the payload lies. Not in [`Meta`], where it would cost eight bytes.
    pub memory: Memory,
    /// `gso_type`: what is special about cutting this super-packet.
    pub gso_type: GsoType,
    /// What the layers tell each other about the packet; never on the wire.
    pub meta: Meta,
    /// What the hot headers cannot hold; `None` for every ordinary packet.
    pub extra: Option<Box<Extra>>,
    /// Network-layer header.
    pub network: Network,
    /// What follows the parsed headers.
    pub body: Body,
    /// Transport header.
    pub transport: Transport,
}

/// Metadata that travels with a packet inside one machine (`struct sk_buff`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Meta {
    /// `skb->len`: bytes from the link-layer header on, without FCS. For a super-packet this is
    /// the length of the one big packet, not of its segments on the wire.
    pub len: u32,
    /// `gso_size`: payload bytes of each segment of a super-packet; 0 when not one.
    pub gso_size: u16,
    /// `gso_segs`: how many wire packets this stands for, at least 1.
    pub gso_segs: u16,
    /// How long from now on the packet is to wait before it leaves, in ns: the earliest departure
    /// time that its sender has set for fq (`skb->tstamp` on the way out). Saturates at 4.29 s.
    pub departs_in_ns: u32,
    /// `skb->priority` (class selection by qdiscs).
    pub priority: u32,
    /// `skb->mark` (fwmark).
    pub mark: u32,
    /// `skb->truesize`: bytes of memory this packet is charged as.
    pub truesize: u32,
    /// The socket that is told when the packet has left (`skb->sk`); [`Meta::NO_OWNER`] if none.
    pub owner: u32,
    /// `skb->hash` as the sending socket drew it (`sk_txhash`, with `l4_hash`); 0 if none did. Qdiscs
    /// take it in place of a hash of addresses and ports.
    pub hash: u32,
    /// `skb->tstamp`: when the packet entered the queue it is in (qdiscs measure sojourn by it).
    pub enqueued_at: Instant,
}

/// Everything unusual about a packet. See the module documentation.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Extra {
    /// 802.1Q/802.1ad tags, outermost first: (TPID, TCI).
    pub vlan: Vec<(u16, u16)>,
    /// A packet socket has sent the frame: its outermost tag lies in it, and not beside it (`skb->vlan_tci`) as
    /// that of a frame that a device has taken in. The flow dissector reads such a tag wrong.
    pub tag_sent: bool,
    /// The exact header bytes (everything before the body) of a chain whose canonical form would
    /// differ: long options, extension headers, tunnels, fragments, anything malformed.
    /// Edits (ECN, DSCP, TTL) are applied here as well.
    pub raw: Vec<u8>,
    /// Offset in `raw` of the network header that `Packet::network` describes.
    pub network_offset: u16,
    /// Offset in `raw` of the transport header; equal to `raw.len()` if there is none.
    pub transport_offset: u16,
    /// Bytes of the frame after the body, which lie behind it in its store: Ethernet padding,
    /// or whatever the network header's length leaves out.
    pub trailer: u32,
    /// The first bytes behind the headers where a datagram ends before its transport header does,
    /// though the frame goes on: the flow dissector looks at no length. Empty otherwise.
    pub beyond: Vec<u8>,
    /// What was found wrong with the frame when it was parsed.
    pub flaws: Flaws,
    /// Lengths and checksums in `raw` are computed at emission, because the headers were built
    /// or changed here. Otherwise they go out as they came, right or wrong.
    pub recompute: bool,
}

impl Extra {
    /// The frame ends with its datagram from now on.
    fn cut_trailer(&mut self) {
        self.trailer = 0;
        self.beyond.clear();
    }
}

/// What is special about a super-packet (`SKB_GSO_…`): a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct GsoType(u8);

/// What is wrong with a parsed frame: a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Flaws(u8);

/// Where a packet's payload lies in memory, which decides what a receiver is charged and what it
/// can join without more memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Memory {
    /// In one buffer with the headers, made for this packet by a device.
    #[default]
    Linear,
    /// In one buffer with the headers, made when a super-packet was cut (`skb_segment`).
    Cut,
    /// In one buffer with the headers, though charged as if it were still in pages
    /// (`__skb_linearize`).
    Linearised,
    /// In pages (`skb_shinfo(skb)->frags`).
    Paged,
    /// In pages of its own, as a program wrote it to a packet socket because it is longer than one page
    /// (`alloc_skb_with_frags`).
    Written,
    /// A segment of what was so [written](Self::Written): its share of one piece of those pages.
    Piece,
    /// The same where one piece ends: its share of two.
    TwoPieces,
    /// As a program wrote it to a tun device: in one buffer with the headers up to a page, beyond
    /// that in pages (`tun_alloc_skb`).
    Tun,
}

/// What memory comes in, in bytes (`PAGE_SIZE`).
pub(crate) const PAGE_SIZE: u32 = 4_096;

impl Memory {
    /// Its payload lies in pages that segments can have shares of.
    #[inline]
    pub const fn is_paged(self) -> bool {
        matches!(self, Self::Paged | Self::Piece | Self::TwoPieces)
    }
}

impl GsoType {
    /// Nothing special.
    pub const NONE: Self = Self(0);
    /// All segments have the same IPv4 id (`SKB_GSO_TCP_FIXEDID`); otherwise it counts up.
    pub const FIXED_ID: Self = Self(1);
    /// CWR stays on every segment (`SKB_GSO_TCP_ACCECN`); otherwise only on the first.
    pub const ACC_ECN: Self = Self(2);

    /// True if every property of `other` is there.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

impl core::ops::BitOr for GsoType {
    type Output = Self;
    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl Flaws {
    /// Nothing is wrong.
    pub const NONE: Self = Self(0);
    /// The IP header makes no sense: its version, its length, or it is cut short.
    pub const IP_HEADER: Self = Self(1);
    /// The IPv4 header checksum is wrong.
    pub const IP_CHECKSUM: Self = Self(2);
    /// The checksum of TCP, UDP, ICMP or ICMPv6 is wrong.
    pub const TRANSPORT_CHECKSUM: Self = Self(4);
    /// The IP header claims more bytes than the frame has.
    pub const LENGTH: Self = Self(8);
    /// Not all of the frame was captured, so that its transport checksum is not known.
    pub const TRUNCATED: Self = Self(16);
    /// The transport header contradicts itself or the packet: UDP's length is beyond its end or
    /// below eight, TCP's data offset is below five words.
    pub const TRANSPORT_HEADER: Self = Self(32);

    /// It was [damaged](Packet::damage) here, after it was parsed or made, and is to have a wrong
    /// checksum when it is sent on.
    pub const DAMAGED: Self = Self(64);

    /// True if every flaw of `other` is there.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// True if any flaw of `other` is there.
    pub const fn intersects(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }
}

impl core::ops::BitOr for Flaws {
    type Output = Self;
    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl core::ops::BitOrAssign for Flaws {
    fn bitor_assign(&mut self, other: Self) {
        self.0 |= other.0;
    }
}

impl Default for Meta {
    /// No owner, nothing set.
    fn default() -> Self {
        Self {
            len: 0,
            gso_size: 0,
            gso_segs: 1,
            departs_in_ns: 0,
            priority: 0,
            mark: 0,
            truesize: 0,
            owner: Self::NO_OWNER,
            hash: 0,
            enqueued_at: Instant::ZERO,
        }
    }
}

impl Meta {
    /// `owner` of a packet that no socket waits for.
    pub const NO_OWNER: u32 = u32::MAX;
}

/// A packet without any bytes: a place for another one.
impl Default for Packet {
    fn default() -> Self {
        Self {
            link: LinkHeader::None,
            memory: Memory::Linear,
            gso_type: GsoType::NONE,
            network: Network::Other(EtherType(0)),
            transport: Transport::None,
            body: Body::default(),
            meta: Meta::default(),
            extra: None,
        }
    }
}

impl Packet {
    /// Prefetches all of it.
    #[inline]
    pub fn prefetch(&self) {
        prefetch_whole!(self, Self, gso_type);
    }

    /// Takes the packet out of its place; what stays there is of no use.
    #[inline]
    pub fn take(&mut self) -> Self {
        let (extra, body) = (self.extra.take(), self.body.take());
        Self { extra, body, ..*self }
    }

    /// Moves the packet from its place to another one; what stays is of no use. Field by field, so
    /// that it is copied once: a whole packet would first be put together beside.
    #[inline]
    pub fn move_to(&mut self, place: &mut Self) {
        let Self { link, memory, gso_type, network, transport, body, meta, extra } = self;
        // Mostly there is none in either place, and nothing is written.
        if extra.is_some() || place.extra.is_some() {
            place.extra = extra.take();
        }
        place.link = *link;
        place.network = *network;
        place.transport = *transport;
        body.move_to(&mut place.body);
        place.memory = *memory;
        place.gso_type = *gso_type;
        place.meta = *meta;
    }

    /// How many wire packets this one stands for: at least 1.
    #[inline]
    pub fn segments(&self) -> u32 {
        debug_assert!(self.meta.gso_segs > 0, "a packet stands for one on the wire at least");
        u32::from(self.meta.gso_segs)
    }

    /// Bytes before the body: link, network and transport headers as they go on the wire.
    pub fn header_len(&self) -> u32 {
        match &self.extra {
            Some(extra) if !extra.raw.is_empty() => extra.raw.len() as u32,
            extra => {
                let tags = extra.as_ref().map_or(0, |extra| 4 * extra.vlan.len() as u32);
                self.link.len() + tags + self.network.len() + self.transport.len()
            }
        }
    }

    /// [`header_len`](Self::header_len) of a finished packet, whose `meta.len` is right: most need not
    /// add it up again.
    #[inline]
    pub fn finished_header_len(&self) -> u32 {
        if self.extra.is_some() {
            return self.header_len();
        }
        debug_assert_eq!(self.meta.len, self.full_len(), "the packet is finished");
        self.meta.len - self.body.len
    }

    /// Sets `meta.len` from the headers and the body, as `skb->len` when the packet is built.
    pub fn finish(mut self) -> Self {
        self.meta.len = self.full_len();
        self
    }

    /// Headers, body and padding.
    #[inline]
    pub(in crate::packet) fn full_len(&self) -> u32 {
        let trailer = self.extra.as_ref().map_or(0, |extra| extra.trailer);
        self.header_len() + self.body.len + trailer
    }

    /// `skb->len` at a device with link-layer headers: what qdiscs count.
    #[inline]
    pub fn len(&self) -> u32 {
        self.meta.len
    }

    /// True for a packet of no bytes at all, which no driver hands in.
    pub fn is_empty(&self) -> bool {
        self.meta.len == 0
    }

    /// Bytes that cross the wire: each segment of a super-packet carries its own headers
    /// (`qdisc_pkt_len_init`).
    #[inline]
    pub fn wire_len(&self) -> u32 {
        if self.meta.gso_segs <= 1 {
            return self.meta.len;
        }
        self.meta.len + (self.segments() - 1) * self.header_len()
    }

    /// What was found wrong with the packet when it was parsed.
    pub fn flaws(&self) -> Flaws {
        self.extra.as_ref().map_or(Flaws::NONE, |extra| extra.flaws)
    }

    /// The TCP header, if this is TCP.
    #[inline]
    pub fn tcp(&self) -> Option<&Tcp> {
        match &self.transport {
            Transport::Tcp(tcp) => Some(tcp),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hot_headers_fit_in_two_cache_lines_and_a_packet_in_three() {
        assert!(size_of::<LinkHeader>() + size_of::<Network>() + size_of::<Transport>() <= 128);
        assert!(size_of::<Packet>() <= 192, "{}", size_of::<Packet>());
        assert_eq!(align_of::<Packet>(), 64);
    }
}
