//! Memory: what a packet is charged as, and how much is in use.

use crate::packet::Packet;

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

/// Bytes that `packet` is charged as: its truesize, or where nobody has set that, what the kernel
/// allocates for such a frame; a super-packet's payload lies in pages.
pub fn footprint(packet: &Packet) -> u32 {
    match packet.meta.truesize {
        0 if packet.meta.gso_size == 0 => buffer(packet.len()),
        0 => buffer(packet.header_len()) + packet.body.len.next_multiple_of(PAGE),
        truesize => truesize,
    }
}

/// Bytes that segment `segment` of a super-packet with this footprint is charged as: it has its
/// own headers and a share of the payload, but the last one answers for the super-packet, whose
/// owner it has taken over (`skb_segment`).
pub fn segment_footprint(segment: &Packet, last: bool, whole: u32) -> u32 {
    if last { whole } else { buffer(segment.header_len()) + segment.body.len }
}

/// `SKB_TRUESIZE` of a buffer for `len` bytes: a power of two for headroom, data and
/// `skb_shared_info`, and the `sk_buff`.
const fn buffer(len: u32) -> u32 {
    (len + HEADROOM + SHARED_INFO).next_power_of_two() + SK_BUFF
}

const PAGE: u32 = 4096;
/// `LL_RESERVED_SPACE` of Ethernet.
const HEADROOM: u32 = 16;
/// `sizeof(struct skb_shared_info)`, aligned.
const SHARED_INFO: u32 = 320;
/// `sizeof(struct sk_buff)`, aligned.
const SK_BUFF: u32 = 256;

#[cfg(test)]
mod tests {
    use super::*;

    /// What the kernel was seen to charge for frames of a packet socket.
    #[test]
    fn buffers_are_powers_of_two() {
        let cases = [(60, 768), (176, 768), (177, 1280), (688, 1280), (689, 2304), (1712, 2304)];
        for (len, charged) in cases {
            assert_eq!(buffer(len), charged, "{len} bytes");
        }
    }
}
