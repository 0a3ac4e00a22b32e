//! The header that the kernel puts before a frame, and reads there (`struct virtio_net_hdr`, VIRTIO
//! 1.2 section 5.1.6): lengths of segments, and checksums that are still to be computed.

use datapath::packet::{Packet, Partial};

/// Bytes of it.
pub const VNET_LEN: usize = 10;

/// As it lies before a frame.
pub type VnetBytes = [u8; VNET_LEN];

/// What it says of a frame that has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Vnet {
    /// The transport checksum is still to be computed: it starts there, and goes there.
    pub partial: Option<Partial>,
    /// Somebody has found the transport checksum right.
    pub verified: bool,
    /// Payload of each segment in bytes; 0 where the frame is not to be cut.
    pub gso_size: u16,
}

const NEEDS_CSUM: u8 = 1;
const DATA_VALID: u8 = 2;
/// `VIRTIO_NET_HDR_GSO_TCPV4`, `VIRTIO_NET_HDR_GSO_TCPV6`.
const TCP_V4: u8 = 1;
const TCP_V6: u8 = 4;

impl Vnet {
    /// Reads it: in this machine's byte order, as for all devices older than version 1.
    pub fn read(bytes: &VnetBytes) -> Self {
        let [flags, kind, _, _, g0, g1, s0, s1, o0, o1] = *bytes;
        let partial =
            Partial { start: u16::from_ne_bytes([s0, s1]), offset: u16::from_ne_bytes([o0, o1]) };
        Self {
            partial: (flags & NEEDS_CSUM != 0).then_some(partial),
            verified: flags & DATA_VALID != 0,
            gso_size: if kind == 0 { 0 } else { u16::from_ne_bytes([g0, g1]) },
        }
    }
}

/// Appends a packet as it goes to a device: this header, then the frame. The transport checksum is left to the
/// device where it can be, unless the frame is to be `complete`. True if the body is left apart: it follows.
pub fn write(packet: &Packet, complete: bool, out: &mut Vec<u8>) -> bool {
    let at = out.len();
    out.extend_from_slice(&[0; VNET_LEN]);
    if complete {
        packet.emit_whole(out);
        return false;
    }
    let (partial, apart) = match packet.emit_partial_apart(out) {
        Some(partial) => (Some(partial), true),
        None => (packet.emit_partial(out), false),
    };
    if let Some(Partial { start, offset }) = partial {
        out[at] = NEEDS_CSUM;
        if packet.segments() > 1 {
            describe_segments(packet, &mut out[at..at + VNET_LEN]);
        }
        out[at + 6..at + 8].copy_from_slice(&start.to_ne_bytes());
        out[at + 8..at + 10].copy_from_slice(&offset.to_ne_bytes());
    }
    apart
}

/// A super-packet of TCP goes to the device whole: what its segments are to be.
fn describe_segments(packet: &Packet, header: &mut [u8]) {
    header[1] = if packet.network.src().is_some_and(|it| it.is_ipv6()) { TCP_V6 } else { TCP_V4 };
    header[2..4].copy_from_slice(&(packet.header_len() as u16).to_ne_bytes());
    header[4..6].copy_from_slice(&packet.meta.gso_size.to_ne_bytes());
}
