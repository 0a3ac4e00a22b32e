//! Memory: what a packet is charged as, and how much is in use.

use crate::packet::{PAGE_SIZE, Packet};

/// Memory in use, by `skb->truesize`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Memory {
    /// Bytes in use.
    pub used: u64,
    /// High-water mark.
    pub max_used: u64,
    /// Most bytes that may be in use.
    pub limit: u64,
}

/// Bytes that `packet` is charged as: its truesize, or if that is not set, what the kernel
/// allocates for such a frame of a packet socket.
pub fn footprint(packet: &Packet) -> u32 {
    match packet.meta.truesize {
        0 if in_one_piece(packet) => buffer(packet.len(), HEADROOM),
        0 => buffer(packet.header_len(), HEADROOM) + packet.body.len.next_multiple_of(PAGE_SIZE),
        truesize => truesize,
    }
}

/// Bytes that segment `segment` of the super-packet `whole` is charged as (`skb_segment`): linear
/// data is copied, pages are shared. The last segment takes over the owner of the super-packet, and is charged
/// all of its memory.
pub fn segment_footprint(whole: &Packet, segment: &Packet, last: bool) -> u32 {
    if last {
        footprint(whole)
    } else if whole.meta.truesize == 0 && in_one_piece(whole) {
        buffer(segment.len(), SEGMENT_HEADROOM)
    } else {
        buffer(segment.header_len(), SEGMENT_HEADROOM) + segment.body.len
    }
}

/// True if a packet socket allocates one buffer for it (`packet_alloc_skb`). Of a super-packet that
/// is too long for a page the headers have a buffer, and the payload lies in pages.
fn in_one_piece(packet: &Packet) -> bool {
    packet.meta.gso_size == 0 || packet.len() + HEADROOM < PAGE_SIZE
}

/// `SKB_TRUESIZE` of a buffer for `len` bytes: a power of two for headroom, data and
/// `skb_shared_info`, and the `sk_buff`.
const fn buffer(len: u32, headroom: u32) -> u32 {
    (len + headroom + SHARED_INFO).next_power_of_two() + SK_BUFF
}

/// `LL_RESERVED_SPACE` of Ethernet.
const HEADROOM: u32 = 16;
/// What is left of it in front of a frame's Ethernet header.
const SEGMENT_HEADROOM: u32 = 2;
/// `sizeof(struct skb_shared_info)`, aligned.
const SHARED_INFO: u32 = 320;
/// `sizeof(struct sk_buff)`, aligned.
const SK_BUFF: u32 = 256;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::qdisc::testing::super_frame;

    /// Super-packets of a packet socket: in one buffer up to a page, which segments are copied
    /// from; longer ones in pages, which segments share. The last segment answers for the whole.
    #[test]
    fn what_super_packets_and_their_segments_are_charged() {
        let charged = |segments: u16| {
            let packet = super_frame(segments, 1000);
            let last = packet.segment().count() - 1;
            let cut = packet.segment().enumerate();
            let cut = cut.map(|(at, one)| segment_footprint(&packet, &one, at == last));
            (footprint(&packet), cut.collect::<Vec<u32>>())
        };
        assert_eq!(charged(3), (4096 + 256, vec![2304, 2304, 4352]), "3054 bytes");
        let pages = 768 + 2 * 4096;
        assert_eq!(charged(5), (pages, vec![1768, 1768, 1768, 1768, pages]), "5054 bytes");
    }

    /// Observed charges of the kernel for frames of a packet socket.
    #[test]
    fn buffers_are_powers_of_two() {
        let cases = [(60, 768), (176, 768), (177, 1280), (688, 1280), (689, 2304), (1712, 2304)];
        for (len, charged) in cases {
            assert_eq!(buffer(len, HEADROOM), charged, "{len} bytes");
        }
    }
}
