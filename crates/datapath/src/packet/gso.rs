//! Generic segmentation: a super-packet cut into what goes on the wire (`skb_gso_segment`).

use super::network::Network;
use super::transport::{TcpFlags, Transport};
use super::{Extra, Flaws, GsoType, Memory, Meta, PAGE_SIZE, Packet};

impl Packet {
    /// Cuts a TCP or UDP super-packet into its segments, as `tcp_gso_segment` and
    /// `__udp_gso_segment` do. What is no super-packet comes out once, as it is.
    ///
    /// Nothing is allocated unless the packet has an [`Extra`]. The segments' `truesize` adds up
    /// to that of the super-packet, and each has its owner.
    pub fn segment(&self) -> Segments<'_> {
        Segments { packet: self, next: 0, count: self.segment_count() }
    }

    /// How many segments [`Packet::segment`] makes of it.
    pub fn segment_count(&self) -> u32 {
        let size = u32::from(self.meta.gso_size);
        if size == 0 { 1 } else { self.body.len.div_ceil(size).max(1) }
    }

    /// Writes segment `index` of [`segment_count`](Self::segment_count) over what lies in `segment`: one of those that
    /// [`Packet::segment`] makes.
    #[inline]
    pub fn segment_into(&self, index: u32, count: u32, segment: &mut Self) {
        if count > 1 {
            return self.cut_into(index, count, segment);
        }
        *segment = self.clone();
        segment.meta.gso_size = 0;
        segment.meta.gso_segs = 1;
    }

    /// Writes segment `index` of `count` over `segment`.
    #[inline]
    pub(crate) fn cut_into(&self, index: u32, count: u32, segment: &mut Self) {
        let size = u32::from(self.meta.gso_size);
        let start = index * size;
        let last = index + 1 == count;
        let share = self.meta.truesize / count;
        segment.link = self.link;
        segment.network = self.network;
        segment.transport = self.transport;
        // A segment has its share of the pages.
        segment.memory = self.memory;
        segment.gso_type = GsoType::NONE;
        segment.body = self.body.window(start, if last { self.body.len - start } else { size });
        if self.memory == Memory::Written {
            segment.memory = share_of_written(self.body.len, start, segment.body.len);
        }
        segment.meta = Meta {
            gso_size: 0,
            gso_segs: 1,
            truesize: if last { self.meta.truesize - share * (count - 1) } else { share },
            ..self.meta
        };
        segment.extra = self
            .extra
            .as_ref()
            .map(|extra| Box::new(Extra { flaws: Flaws::NONE, ..Extra::clone(extra) }));
        if let Some(extra) = &mut segment.extra {
            extra.cut_trailer();
        }
        if let Network::Ipv4(ip) = &mut segment.network
            && !self.gso_type.contains(GsoType::FIXED_ID)
        {
            ip.id = ip.id.wrapping_add(index as u16);
        }
        if let Transport::Tcp(tcp) = &mut segment.transport {
            tcp.seq += start;
            if !last {
                tcp.flags = tcp.flags.without(TcpFlags::PSH | TcpFlags::FIN);
            }
            // With Accurate ECN, CWR is part of a counter and stays on every segment.
            if index != 0 && !self.gso_type.contains(GsoType::ACC_ECN) {
                tcp.flags = tcp.flags.without(TcpFlags::CWR);
            }
        }
        segment.meta.len = self.finished_header_len() + segment.body.len;
        segment.refresh_raw();
    }
}

/// The memory of `len` bytes from `start` on of the `whole` bytes that a program has written: eight pages side by side are
/// a piece, then four, two and one, as many as are needed (`alloc_skb_with_frags`).
#[cold]
fn share_of_written(whole: u32, start: u32, len: u32) -> Memory {
    let mut end = 0;
    while end <= start {
        let pages = (whole - end).div_ceil(PAGE_SIZE).clamp(1, 8);
        end += PAGE_SIZE << pages.ilog2();
    }
    if end < start + len { Memory::TwoPieces } else { Memory::Piece }
}

/// The segments of a super-packet, in order: see [`Packet::segment`].
#[derive(Clone, Debug)]
pub struct Segments<'a> {
    packet: &'a Packet,
    next: u32,
    count: u32,
}

impl Iterator for Segments<'_> {
    type Item = Packet;

    fn next(&mut self) -> Option<Packet> {
        if self.next == self.count {
            return None;
        }
        let mut segment = Packet::default();
        self.packet.segment_into(self.next, self.count, &mut segment);
        self.next += 1;
        Some(segment)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = (self.count - self.next) as usize;
        (left, Some(left))
    }
}

impl ExactSizeIterator for Segments<'_> {}

#[cfg(test)]
mod tests;
