//! Segments of the hostile peer: plain data relative to the connection's state, turned into bytes when they are sent.

use core::net::IpAddr;

use serde::{Deserialize, Serialize};

use crate::oracle::frame::{flag, pseudo_sum, sum};
use crate::oracle::tcp::ObservedFlow;

/// A segment for the host. Numbers are relative to what is true when it is sent.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Segment {
    /// Which flow, counted from the newest.
    pub flow: u16,
    /// It begins a flow to the port of the listener instead.
    pub fresh: bool,
    /// Flags as in the header, AE included.
    pub flags: u16,
    /// What the sequence number is relative to.
    pub from: SeqBase,
    /// The sequence number less that.
    pub seq: i64,
    /// Payload bytes.
    pub len: u16,
    /// What the acknowledgment number is relative to.
    pub acks: Acks,
    /// The acknowledgment number less that, in full segments of the host.
    pub ack_segments: i64,
    /// And in bytes on top.
    pub ack: i64,
    /// The window field of the header.
    pub window: u16,
    /// Urgent pointer.
    pub urgent: u16,
    /// Time stamps, where the host uses them too (or this is a SYN).
    pub stamps: Option<Timestamps>,
    /// Other options, in this order.
    pub options: Vec<Choice>,
    /// The signature that the host wants, right (true) or wrong.
    pub signed: Option<bool>,
    /// The ECN field of the IP header.
    pub ecn: u8,
    /// What is wrong with its bytes.
    pub damage: Option<Damage>,
    /// It comes in pieces of so many bytes (IPv4 and IPv6 fragments).
    pub pieces: Option<Fragments>,
}

/// What a sequence number is relative to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum SeqBase {
    /// Just past the highest number that the peer has sent.
    #[default]
    Next,
    /// What the host has acknowledged last.
    Acked,
    /// Zero.
    Zero,
    /// The right edge of the window that the host has offered last.
    Edge,
}

/// What an acknowledgment number is relative to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Acks {
    /// Just past the highest number that the host has sent.
    #[default]
    All,
    /// The highest number that the peer has acknowledged so far.
    Old,
}

/// The time stamp option.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Timestamps {
    /// TSval less the time in ms, or what the host has echoed if that is later.
    pub value: i64,
    /// TSecr less the host's latest TSval.
    pub echo: i64,
}

/// An option.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub enum Choice {
    /// Maximum segment size.
    Mss(u16),
    /// Window scale.
    Scale(u8),
    /// SACK permitted.
    SackPermitted,
    /// SACK blocks.
    Sack(Vec<Block>),
    /// Accurate ECN: kind and counters.
    AccEcn(u8, Vec<u32>),
    /// A Fast Open cookie: the one that the host gave last, or none to ask for one.
    Cookie {
        /// Bytes of another one; none: the right one, or a request.
        other: Vec<u8>,
        /// In the experimental form (RFC 6994).
        experimental: bool,
    },
    /// Bytes as they are.
    Raw(Vec<u8>),
}

/// A SACK block, relative to the highest number that the peer has acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Block {
    /// Where it begins, in full segments of the host.
    pub first: i64,
    /// How long it is, in full segments.
    pub segments: i64,
    /// Bytes by which the beginning is off.
    pub off: i64,
    /// Bytes by which the end is off as well.
    pub end_off: i64,
}

/// What is wrong with the bytes of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub enum Damage {
    /// The TCP checksum.
    TcpChecksum,
    /// The checksum of the IPv4 header (over IPv6: the hop limit is zero).
    IpHeader,
    /// So many bytes are missing at the end.
    Cut(u16),
    /// A byte is another one, and the checksums are right again.
    Byte(u16, u8),
    /// The same with wrong checksums.
    Flipped(u16, u8),
    /// The data offset says so many words.
    DataOffset(u8),
}

/// Fragments.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Fragments {
    /// Bytes in each but the last, in units of eight.
    pub words: u16,
    /// The last comes first.
    pub reversed: bool,
    /// One of them, by its place, does not come.
    pub lost: Option<u16>,
    /// One of them comes twice.
    pub twice: Option<u16>,
    /// They overlap by a word.
    pub overlap: bool,
    /// The identification.
    pub id: u16,
}

/// The context for building a segment.
#[derive(Clone, Copy, Debug)]
pub struct SegmentContext<'a> {
    /// The peer's address.
    pub peer: IpAddr,
    /// The host's.
    pub host: IpAddr,
    /// The time, ms.
    pub now_ms: u64,
    /// The key of signatures.
    pub key: &'a [u8],
}

impl Segment {
    /// The bytes of the TCP segment, its checksum right.
    pub fn bytes(&self, flow: &ObservedFlow, ends: &SegmentContext<'_>) -> Vec<u8> {
        let mut options = self.option_bytes(flow, ends.now_ms);
        let signature = self.signed.map(|right| {
            let at = options.len() + 2;
            options.extend_from_slice(&[19, 18]);
            options.extend_from_slice(&[0; 16]);
            (at, right)
        });
        options.truncate(40);
        options.resize(options.len().next_multiple_of(4), 1);
        let header_len = 20 + options.len();
        let mut bytes = Vec::with_capacity(header_len + usize::from(self.len));
        bytes.extend_from_slice(&flow.ports.1.to_be_bytes());
        bytes.extend_from_slice(&flow.ports.0.to_be_bytes());
        bytes.extend_from_slice(&self.number(flow).to_be_bytes());
        bytes.extend_from_slice(&self.acknowledgment(flow).to_be_bytes());
        let offset = ((header_len / 4) as u16) << 12 | self.flags & 0x1ff;
        bytes.extend_from_slice(&offset.to_be_bytes());
        bytes.extend_from_slice(&self.window.to_be_bytes());
        bytes.extend_from_slice(&[0, 0]);
        bytes.extend_from_slice(&self.urgent.to_be_bytes());
        bytes.extend_from_slice(&options);
        bytes.resize(header_len + usize::from(self.len), 0);
        if let Some((at, right)) = signature
            && at + 16 <= options.len()
        {
            let mut digest = signature_of(&bytes, header_len, ends);
            digest[0] ^= u8::from(!right);
            bytes[20 + at..20 + at + 16].copy_from_slice(&digest);
        }
        set_checksum(&mut bytes, ends);
        bytes
    }

    fn number(&self, flow: &ObservedFlow) -> u32 {
        let base = match self.from {
            SeqBase::Next => flow.peer_next,
            SeqBase::Acked => flow.host_ack.unwrap_or(flow.peer_next),
            SeqBase::Zero => 0,
            SeqBase::Edge => flow.edge(),
        };
        base.wrapping_add(self.seq as u32)
    }

    fn acknowledgment(&self, flow: &ObservedFlow) -> u32 {
        if self.flags & flag::ACK == 0 {
            return self.ack as u32;
        }
        let base = flow.present().map_or(0, |out| match self.acks {
            Acks::All => out.end,
            Acks::Old => out.acked,
        });
        base.wrapping_add(in_segments(flow, self.ack_segments)).wrapping_add(self.ack as u32)
    }

    fn option_bytes(&self, flow: &ObservedFlow, now_ms: u64) -> Vec<u8> {
        let mut bytes = Vec::new();
        for option in &self.options {
            option.write(flow, &mut bytes);
        }
        let wanted = self.flags & flag::SYN != 0 || flow.host_stamp.is_some();
        if let Some(stamps) = self.stamps
            && wanted
        {
            let (host, echoed) = flow.host_stamp.unwrap_or_default();
            let clock = now_ms as u32;
            let latest = if (echoed.wrapping_sub(clock) as i32) > 0 { echoed } else { clock };
            bytes.extend_from_slice(&[8, 10]);
            bytes.extend_from_slice(&latest.wrapping_add(stamps.value as u32).to_be_bytes());
            bytes.extend_from_slice(&host.wrapping_add(stamps.echo as u32).to_be_bytes());
        }
        bytes
    }
}

impl Choice {
    fn write(&self, flow: &ObservedFlow, out: &mut Vec<u8>) {
        match self {
            Self::Mss(mss) => out.extend_from_slice(&[2, 4, (mss >> 8) as u8, *mss as u8]),
            Self::Scale(scale) => out.extend_from_slice(&[3, 3, *scale]),
            Self::SackPermitted => out.extend_from_slice(&[4, 2]),
            Self::Sack(blocks) => {
                out.extend_from_slice(&[5, 2 + 8 * blocks.len() as u8]);
                let acked = flow.present().map_or(0, |present| present.acked);
                for block in blocks {
                    let first = in_segments(flow, block.first);
                    let start = acked.wrapping_add(first).wrapping_add(block.off as u32);
                    let len = in_segments(flow, block.segments);
                    let end = start.wrapping_add(len).wrapping_add(block.end_off as u32);
                    out.extend_from_slice(&start.to_be_bytes());
                    out.extend_from_slice(&end.to_be_bytes());
                }
            }
            Self::AccEcn(kind, counters) => {
                out.extend_from_slice(&[*kind, 2 + 3 * counters.len() as u8]);
                for counter in counters {
                    out.extend_from_slice(&counter.to_be_bytes()[1..]);
                }
            }
            Self::Cookie { other, experimental } => {
                let known = flow.cookie.as_deref().unwrap_or_default();
                let cookie = if other.is_empty() { known } else { other };
                let len = cookie.len() as u8;
                match experimental {
                    false => out.extend_from_slice(&[34, 2 + len]),
                    true => out.extend_from_slice(&[254, 4 + len, 0xf9, 0x89]),
                }
                out.extend_from_slice(cookie);
            }
            Self::Raw(bytes) => out.extend_from_slice(bytes),
        }
    }
}

/// So many full segments of the host, in bytes.
fn in_segments(flow: &ObservedFlow, count: i64) -> u32 {
    let full = if flow.longest == 0 { 1_000 } else { flow.longest };
    (count as u32).wrapping_mul(full)
}

/// The digest of RFC 2385 section 2.0 over a segment without its options.
fn signature_of(bytes: &[u8], header_len: usize, ends: &SegmentContext<'_>) -> [u8; 16] {
    let mut context = md5::Context::new();
    let len = bytes.len() as u32;
    context.consume(octets(ends.peer));
    context.consume(octets(ends.host));
    if ends.host.is_ipv4() {
        context.consume([0, 6]);
        context.consume((len as u16).to_be_bytes());
    } else {
        context.consume(len.to_be_bytes());
        context.consume([0, 0, 0, 6]);
    }
    context.consume(&bytes[..20]);
    context.consume(&bytes[header_len..]);
    context.consume(ends.key);
    context.finalize().0
}

/// An address as it lies in a header.
pub fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(v4) => v4.octets().to_vec(),
        IpAddr::V6(v6) => v6.octets().to_vec(),
    }
}

/// Computes the checksum of a TCP segment anew.
pub fn set_checksum(bytes: &mut [u8], ends: &SegmentContext<'_>) {
    if bytes.len() < 18 {
        return;
    }
    bytes[16..18].fill(0);
    let addresses = [octets(ends.peer), octets(ends.host)].concat();
    let total = sum(bytes, pseudo_sum(6, bytes.len(), &addresses));
    bytes[16..18].copy_from_slice(&(!total).to_be_bytes());
}

/// Puts an IP header in front.
pub fn in_ip(payload: &[u8], protocol: u8, ecn: u8, id: u16, ends: &SegmentContext<'_>) -> Vec<u8> {
    in_ip_piece(payload, protocol, ecn, id, None, ends)
}

/// The same for a piece: its offset in units of eight bytes, and whether more follow.
pub fn in_ip_piece(
    payload: &[u8],
    protocol: u8,
    ecn: u8,
    id: u16,
    piece: Option<(u16, bool)>,
    ends: &SegmentContext<'_>,
) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(48 + payload.len());
    let (offset, more) = piece.unwrap_or((0, false));
    if ends.host.is_ipv4() {
        let fragment = if piece.is_some() { u16::from(more) << 13 | offset } else { 0x4000 };
        bytes.extend_from_slice(&[0x45, ecn & 3]);
        bytes.extend_from_slice(&((20 + payload.len()) as u16).to_be_bytes());
        bytes.extend_from_slice(&id.to_be_bytes());
        bytes.extend_from_slice(&fragment.to_be_bytes());
        bytes.extend_from_slice(&[64, protocol, 0, 0]);
        bytes.extend_from_slice(&octets(ends.peer));
        bytes.extend_from_slice(&octets(ends.host));
        let total = !sum(&bytes, 0);
        bytes[10..12].copy_from_slice(&total.to_be_bytes());
    } else {
        let extra = if piece.is_some() { 8 } else { 0 };
        bytes.extend_from_slice(&[0x60, (ecn & 3) << 4, 0, 0]);
        bytes.extend_from_slice(&((extra + payload.len()) as u16).to_be_bytes());
        bytes.extend_from_slice(&[if piece.is_some() { 44 } else { protocol }, 64]);
        bytes.extend_from_slice(&octets(ends.peer));
        bytes.extend_from_slice(&octets(ends.host));
        if piece.is_some() {
            bytes.extend_from_slice(&[protocol, 0]);
            bytes.extend_from_slice(&(offset << 3 | u16::from(more)).to_be_bytes());
            bytes.extend_from_slice(&u32::from(id).to_be_bytes());
        }
    }
    bytes.extend_from_slice(payload);
    bytes
}

/// The packets that a payload comes in: one, or pieces.
pub fn packets(
    payload: &[u8],
    segment: &Segment,
    id: u16,
    ends: &SegmentContext<'_>,
) -> Vec<Vec<u8>> {
    let Some(pieces) = segment.pieces.filter(|it| it.words > 0) else {
        return vec![in_ip(payload, 6, segment.ecn, id, ends)];
    };
    let step = usize::from(pieces.words) * 8;
    let mut list = Vec::new();
    let mut at = 0;
    while at < payload.len() {
        let more = at + step < payload.len();
        let overlap = if pieces.overlap { 8 } else { 0 };
        let end = if more { at + step + overlap } else { payload.len() };
        let part = &payload[at..end.min(payload.len())];
        let place = Some(((at / 8) as u16, more));
        list.push(in_ip_piece(part, 6, segment.ecn, pieces.id, place, ends));
        at += step;
    }
    if let Some(twice) = pieces.twice {
        let copy = list[usize::from(twice) % list.len()].clone();
        list.push(copy);
    }
    if let Some(lost) = pieces.lost {
        list.remove(usize::from(lost) % list.len());
    }
    if pieces.reversed {
        list.reverse();
    }
    list
}

impl Segment {
    /// The same with less to it, each simpler in one way.
    pub fn plainer(&self) -> Vec<Self> {
        let plain = Self::default();
        let mut list = Vec::new();
        let mut offer = |other: Self| {
            if other != *self {
                list.push(other);
            }
        };
        offer(Self { options: Vec::new(), ..self.clone() });
        for place in 0..self.options.len() {
            let mut options = self.options.clone();
            options.remove(place);
            offer(Self { options, ..self.clone() });
        }
        offer(Self { pieces: None, ..self.clone() });
        offer(Self { damage: None, ..self.clone() });
        offer(Self { signed: None, ..self.clone() });
        offer(Self { stamps: self.stamps.map(|_| Timestamps::default()), ..self.clone() });
        offer(Self { urgent: 0, ecn: 0, ..self.clone() });
        offer(Self { len: 0, ..self.clone() });
        offer(Self { seq: 0, ..self.clone() });
        offer(Self { ack: 0, ack_segments: 0, ..self.clone() });
        let basic = self.flags & (flag::SYN | flag::ACK | flag::RST | flag::FIN);
        offer(Self { flags: basic, ..self.clone() });
        offer(Self { flow: plain.flow, ..self.clone() });
        list
    }
}
