//! Bodies at the border: a simulated datagram has a label and a length, a real one has bytes. The label goes
//! in the first four of them.

use datapath::packet::{Body, FrameRef, Packet, Transport};

const LABEL: usize = 4;

/// Gives a datagram of which only the length exists its label as bytes.
pub fn write_label(packet: &mut Packet) {
    let is_bare = packet.body.frame.is_none() && packet.body.offset != 0;
    let len = packet.body.len as usize;
    if !is_bare || len < LABEL || !matches!(packet.transport, Transport::Udp(_)) {
        return;
    }
    let mut bytes = vec![0; len];
    bytes[..LABEL].copy_from_slice(&packet.body.offset.to_be_bytes());
    let frame = FrameRef::from(bytes);
    packet.body = Body { frame: Some(frame), offset: 0, len: packet.body.len };
}

/// What a stack whose applications know lengths only keeps of a body: its length, and its label.
pub fn read_label(packet: &mut Packet) {
    let mut body = Body::of_len(packet.body.len);
    if matches!(packet.transport, Transport::Udp(_))
        && let Some(label) = packet.body.bytes().first_chunk()
    {
        body.offset = u32::from_be_bytes(*label);
    }
    packet.body = body;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_survives_the_wire() {
        let udp = datapath::packet::Udp { src_port: 1, dst_port: 2 };
        let body = Body { offset: 77_000, ..Body::of_len(64) };
        let mut packet = Packet { transport: Transport::Udp(udp), body, ..Packet::default() };
        write_label(&mut packet);
        assert_eq!(packet.body.bytes()[..4], 77_000_u32.to_be_bytes());
        read_label(&mut packet);
        assert_eq!(packet.body, Body { offset: 77_000, ..Body::of_len(64) });
    }
}
