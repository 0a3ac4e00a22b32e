//! Frames for the payloads that a host makes or puts together itself, and how much it copied for
//! that.

use super::Host;
use crate::packet::{Frames, GRO_MAX_SIZE, Joined};

/// So many super-packets may be put together and not yet be read.
const MAX_SUPER_PACKETS: usize = 4_096;

/// Frames of a host, and the copies that were made because pieces did not lie side by side.
#[derive(Debug)]
pub(super) struct Payloads {
    /// For what GRO puts together.
    pub super_packets: Frames,
    /// Copies besides those of writers and readers.
    pub joined: Joined,
}

impl Default for Payloads {
    fn default() -> Self {
        Self {
            super_packets: Frames::new(GRO_MAX_SIZE, MAX_SUPER_PACKETS),
            joined: Joined::default(),
        }
    }
}

impl Host {
    /// What was copied because pieces of it did not lie side by side: by GRO and in reassembly.
    /// Bytes that a program writes or reads are copied once besides.
    pub fn joined(&self) -> Joined {
        let mut all = self.payloads.as_ref().map_or(Joined::default(), |it| it.joined);
        if let Some(reassembly) = &self.reassembly {
            all += reassembly.joined;
        }
        all
    }
}
