//! From the bytes that a device has delivered to a packet.

use super::vnet::Vnet;
use datapath::packet::{Frame, FrameMut, FrameRef, Frames, Malformed, Packet, checksum::Sum};

/// The frames that arriving packets lie in: small ones for all that is no longer than an MTU, large
/// ones for super-packets.
#[derive(Debug)]
pub struct Pools {
    /// For frames of an MTU.
    pub small: Frames,
    /// For super-packets.
    pub large: Frames,
}

/// Bytes kept free before a frame, for a VLAN tag that is put back.
pub const HEADROOM: usize = 4;
/// The longest frame: a super-packet of IP with headers and tags.
pub const LONGEST: usize = 65_536 + 64;
/// `SKB_TRUESIZE`: what an `sk_buff` takes beside its buffer.
const OVERHEAD: u32 = 256;
/// Memory that packets may take: 128 MiB in small frames, 64 MiB in large ones.
const SMALL_MEMORY: usize = 128 << 20;
const LARGE_MEMORY: usize = 64 << 20;

impl Pools {
    /// For devices whose MTU is `mtu` at most.
    pub fn new(mtu: u32) -> Self {
        let frame = HEADROOM + 14 + 2 * 4 + mtu as usize;
        let small = frame.next_multiple_of(256).clamp(2_048, 16_384);
        let large = HEADROOM + LONGEST;
        Self {
            small: Frames::new(small as u32, SMALL_MEMORY / small),
            large: Frames::new(large as u32, LARGE_MEMORY / large),
        }
    }

    /// A large frame that holds both parts of a frame that has come in two; `None` if none is free.
    pub fn join(&mut self, first: &[u8], rest: &[u8]) -> Option<FrameMut> {
        let mut frame = self.large.take()?;
        let (to_first, to_rest) = frame.memory()[HEADROOM..].split_at_mut(first.len());
        to_first.copy_from_slice(first);
        to_rest[..rest.len()].copy_from_slice(rest);
        Some(frame)
    }
}

/// Puts a tag (TPID, TCI) back into the Ethernet frame at [`HEADROOM`] of `memory`. The frame begins
/// at 0 then.
pub fn insert_tag(memory: &mut [u8], (tpid, tci): (u16, u16)) {
    const ADDRESSES: usize = 12;
    memory.copy_within(HEADROOM..HEADROOM + ADDRESSES, 0);
    memory[ADDRESSES..ADDRESSES + 2].copy_from_slice(&tpid.to_be_bytes());
    memory[ADDRESSES + 2..ADDRESSES + 4].copy_from_slice(&tci.to_be_bytes());
}

/// The packet that lies at `offset` of a frame, as `vnet` tells.
///
/// # Errors
/// No packet can be made of it.
pub fn parse(
    frame: &FrameRef,
    offset: usize,
    vnet: Vnet,
    ethernet: bool,
) -> Result<Packet, Malformed> {
    let trusted = vnet.partial.is_some() || vnet.verified;
    let bytes = Frame::lying_in(frame, offset);
    let bytes = if trusted { bytes.trusted() } else { bytes };
    let parsed = if ethernet { Packet::parse_ethernet(bytes) } else { Packet::parse_ip(bytes) };
    let mut packet = parsed?;
    packet.meta.truesize = frame.bytes().len() as u32 + OVERHEAD;
    let segments = match u32::from(vnet.gso_size) {
        0 => 1,
        size => packet.body.len.div_ceil(size),
    };
    if segments > 1 {
        packet.meta.gso_size = vnet.gso_size;
        packet.meta.gso_segs = segments.min(u32::from(u16::MAX)) as u16;
    } else if vnet.partial.is_some() && packet.extra.as_ref().is_some_and(|it| !it.raw.is_empty()) {
        return parse_completed(frame, offset, vnet, ethernet);
    }
    Ok(packet)
}

/// A packet with unusual headers goes out with the checksums that it came with: what was left to a
/// device is computed first.
#[cold]
fn parse_completed(
    frame: &FrameRef,
    offset: usize,
    vnet: Vnet,
    ethernet: bool,
) -> Result<Packet, Malformed> {
    let mut bytes = frame.bytes()[offset..].to_vec();
    if let Some(partial) = vnet.partial {
        let (start, offset) = (usize::from(partial.start), usize::from(partial.offset));
        if start + offset + 2 <= bytes.len() {
            let sum = Sum::default().bytes(&bytes[start..]).checksum();
            let at = start + offset;
            bytes[at..at + 2].copy_from_slice(&sum.to_be_bytes());
        }
    }
    let completed = FrameRef::from(bytes);
    parse(&completed, 0, Vnet { partial: None, verified: true, ..vnet }, ethernet)
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::vnet::{self, VNET_LEN, VnetBytes};
    use super::*;
    use datapath::rng::Rng;

    /// Ethernet, IPv4, TCP and `payload` bytes; checksums are zero.
    pub fn tcp_frame(payload: usize) -> Vec<u8> {
        let mut frame = vec![2; 12];
        frame.extend([8, 0, 0x45, 0]);
        frame.extend(((40 + payload) as u16).to_be_bytes());
        frame.extend([0, 1, 0x40, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
        let header_sum = Sum::default().bytes(&frame[14..34]).checksum();
        frame[24..26].copy_from_slice(&header_sum.to_be_bytes());
        frame
            .extend([0x9c, 0x40, 0x14, 0x51, 0, 0, 0, 1, 0, 0, 0, 1, 0x50, 0x10, 2, 0, 0, 0, 0, 0]);
        frame.extend((0..payload).map(|at| at as u8));
        frame
    }

    #[test]
    fn a_tag_is_put_back() {
        let frame = tcp_frame(10);
        let mut memory = vec![0; HEADROOM];
        memory.extend(&frame);
        insert_tag(&mut memory, (0x8100, 7));
        assert_eq!(memory[..12], frame[..12]);
        assert_eq!(memory[12..16], [0x81, 0, 0, 7]);
        assert_eq!(memory[16..], frame[12..]);
    }

    #[test]
    fn a_super_packet_is_cut_and_its_checksums_are_left_to_the_device() {
        let frame = FrameRef::from(tcp_frame(3_000));
        let partial = Some(datapath::packet::Partial { start: 34, offset: 16 });
        let vnet = Vnet { partial, verified: false, gso_size: 1_448 };
        let packet = parse(&frame, 0, vnet, true).expect("a packet");
        assert_eq!((packet.meta.gso_segs, packet.flaws()), (3, datapath::packet::Flaws::NONE));
        let mut sent = Vec::new();
        for segment in packet.segment() {
            let mut bytes = Vec::new();
            if vnet::write(&segment, false, &mut bytes) {
                bytes.extend_from_slice(segment.body.bytes());
            }
            let head: &VnetBytes = bytes.first_chunk().expect("a header");
            assert_eq!(Vnet::read(head).partial, partial);
            let mut whole = Vec::new();
            vnet::write(&segment, true, &mut whole);
            let again = Packet::parse_ethernet(&whole[VNET_LEN..]).expect("a packet");
            assert_eq!(again.flaws(), datapath::packet::Flaws::NONE, "its checksum is right");
            sent.extend_from_slice(&whole[VNET_LEN + 54..]);
        }
        assert_eq!(sent, frame.bytes()[54..]);
    }

    /// Whatever comes, and whatever its header says: no panic, and what goes out is as long as it was.
    #[test]
    fn hostile_frames_are_survived() {
        let mut rng = Rng::stream(1, 1);
        for case in 0..30_000 {
            let mut bytes = tcp_frame(rng.below(300) as usize);
            for _ in 0..rng.below(6) {
                let at = rng.below(bytes.len() as u64) as usize;
                bytes[at] = rng.next_u32() as u8;
            }
            bytes.truncate(bytes.len() - rng.below(50) as usize * usize::from(case % 3 == 0));
            let mut head: VnetBytes = [0; VNET_LEN];
            head.fill_with(|| rng.next_u32() as u8);
            let len = bytes.len();
            let frame = FrameRef::from(bytes);
            let Ok(packet) = parse(&frame, 0, Vnet::read(&head), case % 5 != 0) else { continue };
            let mut out = Vec::new();
            for segment in packet.segment() {
                out.clear();
                if vnet::write(&segment, case % 2 == 0, &mut out) {
                    out.extend_from_slice(segment.body.bytes());
                }
            }
            if packet.segment_count() == 1 {
                assert_eq!(out.len(), VNET_LEN + len, "case {case}");
            }
        }
    }
}
