//! Frames for payloads that a host makes or joins itself, and a count of what it copied for
//! that.

use super::Host;
use crate::packet::{Body, FrameRef, Frames, GRO_MAX_SIZE, Joined};

/// How many joined super-packets may wait to be read.
const MAX_SUPER_PACKETS: usize = 4_096;

/// Frames of a host, and the copies made because pieces were not adjacent in memory.
#[derive(Debug)]
pub(super) struct Payloads {
    /// For what GRO puts together.
    pub super_packets: Frames,
    /// For datagrams: most are small.
    datagrams: [Frames; 2],
    /// Copies besides those of writers and readers.
    pub joined: Joined,
}

impl Default for Payloads {
    fn default() -> Self {
        Self {
            super_packets: Frames::new(GRO_MAX_SIZE, MAX_SUPER_PACKETS),
            datagrams: [2_048, GRO_MAX_SIZE].map(|len| Frames::new(len, MAX_SUPER_PACKETS)),
            joined: Joined::default(),
        }
    }
}

impl Payloads {
    /// A copy of what is to be sent in one packet.
    pub fn datagram(&mut self, bytes: &[u8]) -> Body {
        let frame = self.datagrams.iter_mut().find_map(|pool| pool.copy(bytes));
        Body::of_frame(frame.unwrap_or_else(|| FrameRef::from(bytes.to_vec())))
    }
}

impl Host {
    /// Frames that the host has for datagrams and for what GRO joins, and how many of them somebody
    /// holds: a packet, or a queue of a socket. Connections have frames of their own.
    pub fn frames(&self) -> (usize, usize) {
        let Some(payloads) = &self.payloads else { return (0, 0) };
        let pools = payloads.datagrams.iter().chain([&payloads.super_packets]);
        pools.fold((0, 0), |(kept, held), pool| (kept + pool.kept(), held + pool.held()))
    }

    /// What was copied because pieces of it did not lie side by side: by GRO, in
    /// reassembly, for segments of open connections, and in their full receive buffers.
    /// Bytes that a program writes or reads are copied once besides.
    pub fn joined(&self) -> Joined {
        let mut all = self.payloads.as_ref().map_or(Joined::default(), |it| it.joined);
        for tcp in self.tcp_connections() {
            all += tcp.joined();
        }
        if let Some(reassembly) = &self.reassembly {
            all += reassembly.joined;
        }
        all
    }
}
