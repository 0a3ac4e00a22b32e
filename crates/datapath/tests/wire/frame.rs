//! Laws of parsing and emission.

use datapath::packet::{Frame, FrameRef, Packet};

/// Where [`check_frame`] says that its frames lie.
const OFFSET: u32 = 1000;

/// Parses `bytes` as an Ethernet frame and as an IP packet, whole and as the captured part of
/// something longer: it comes back byte by byte, and what the packet says of itself adds up.
pub fn check_frame(bytes: &[u8], missing: u32) {
    let buffer = FrameRef::from([&[0xcc; OFFSET as usize], bytes].concat());
    for original_len in [bytes.len() as u32, bytes.len() as u32 + missing] {
        let frame = Frame::lying_in(&buffer, OFFSET as usize).captured_of(original_len);
        for packet in [Packet::parse_ethernet(frame), Packet::parse_ip(frame)].into_iter().flatten()
        {
            check_packet(&packet, bytes, original_len);
        }
    }
}

fn check_packet(packet: &Packet, bytes: &[u8], original_len: u32) {
    let trailer = packet.extra.as_ref().map_or(0, |extra| extra.trailer);
    assert_eq!(packet.len(), original_len);
    assert_eq!(packet.header_len() + packet.body.len + trailer, original_len);
    assert_eq!(packet.body.offset, OFFSET + packet.header_len());

    let mut out = vec![0xee];
    packet.emit(&bytes[packet.header_len() as usize..], &mut out);
    assert_eq!(&out[1..], bytes, "{packet:?}");
    // Its own bytes are those, and what was not captured is zero.
    let mut own = Vec::new();
    packet.emit_whole(&mut own);
    assert_eq!((&own[..bytes.len()], own.len()), (bytes, original_len as usize), "{packet:?}");
    assert!(own[bytes.len()..].iter().all(|byte| *byte == 0));

    if let Some(extra) = &packet.extra
        && !extra.raw.is_empty()
    {
        assert!(extra.network_offset <= extra.transport_offset);
        assert!(usize::from(extra.transport_offset) <= extra.raw.len());
    }
    // None of these may panic, whatever they find.
    let _ = (packet.flow(), packet.inner_flow(), packet.quoted(), packet.arp());
}
