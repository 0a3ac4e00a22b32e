//! The hash that a socket gives its packets, by which queues and paths are chosen (`sk_txhash`). A new
//! one is drawn when the path seems to have failed, so that what is sent from then on may take
//! another (`sk_rethink_txhash`; `net.core.txrehash` in the kernel's documentation).

use super::open::Endpoints;
use super::{Connection, Cx};
use crate::packet::seq::Seq;
use crate::profile::Profile;

/// The first hash of a connection; 0 if this kernel's sockets have none.
pub(super) fn first(profile: &Profile, ends: &Endpoints) -> u32 {
    if !profile.socket_hash {
        return 0;
    }
    let ports = u64::from(ends.local.port()) << 48 | u64::from(ends.remote.port()) << 32;
    drawn(ports | u64::from(ends.iss.0))
}

/// A number that looks drawn: the finaliser of SplitMix64. Never 0, which means none.
const fn drawn(seed: u64) -> u32 {
    let mut mixed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    match (mixed ^ (mixed >> 31)) as u32 {
        0 => 1,
        hash => hash,
    }
}

impl Connection {
    /// Draws another hash. False if this kernel's sockets have none (`sk_rethink_txhash`).
    pub(super) fn rethink_txhash(&mut self) -> bool {
        if self.snd.txhash == 0 {
            return false;
        }
        self.snd.txhash = drawn(u64::from(self.snd.txhash) << 32 | u64::from(self.snd.iss.0));
        true
    }

    /// The peer repeats data from `start` on that was here before. If it did so the last time as
    /// well, our ACKs seem not to reach it: they try another way (`tcp_rcv_spurious_retrans`).
    pub(super) fn rehash_on_duplicate(&mut self, start: Seq, cx: &mut Cx<'_>) {
        if self.config.profile.rehash_on_duplicates
            && start == self.rcv.latest_duplicate
            && self.rethink_txhash()
        {
            cx.mib.duplicate_data_rehash += 1;
        }
    }
}
