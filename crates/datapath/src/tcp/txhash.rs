//! The hash that a socket gives its packets, by which queues and paths are chosen (`sk_txhash`). A new
//! one is drawn when the path seems to have failed, so that what is sent from then on may take
//! another (`sk_rethink_txhash`; `net.core.txrehash` in the kernel's documentation).

use super::input::Segment;
use super::open::Endpoints;
use super::{Connection, Cx};
use crate::packet::{FlowLabel, Network};
use crate::profile::Profile;
use crate::rng::mix;

/// The first hash of a connection; 0 if this kernel's sockets have none.
pub(super) fn first(profile: &Profile, ends: &Endpoints) -> u32 {
    if !profile.socket_hash {
        return 0;
    }
    let ports = u64::from(ends.local.port()) << 48 | u64::from(ends.remote.port()) << 32;
    drawn(ports | u64::from(ends.iss.0))
}

/// A number that looks drawn (SplitMix64). Never 0, which means none.
const fn drawn(seed: u64) -> u32 {
    let mixed = mix(seed.wrapping_add(0x9e37_79b9_7f4a_7c15));
    match (mixed ^ (mixed >> 31)) as u32 {
        0 => 1,
        hash => hash,
    }
}

impl Connection {
    /// Draws another hash. False if this kernel's sockets have none, or `net.core.txrehash` is off
    /// (`sk_rethink_txhash`).
    pub(super) fn rethink_txhash(&mut self) -> bool {
        if self.snd.txhash == 0 || !self.config.rehashes() {
            return false;
        }
        self.snd.txhash = drawn(u64::from(self.snd.txhash) << 32 | u64::from(self.snd.iss.0));
        true
    }

    /// The peer repeats data that was here before. If it did so the last time as well, or labels its
    /// packets otherwise than before, our ACKs seem not to reach it: they try another way
    /// (`tcp_rcv_spurious_retrans`).
    pub(super) fn rehash_on_duplicate(&mut self, seg: &Segment<'_>, cx: &mut Cx<'_>) {
        let profile = &self.config.profile;
        let again = profile.rehash_on_duplicates && seg.seq == self.rcv.latest_duplicate;
        let moved = profile.rehash_on_new_label && flow_label_of(seg) != self.ack.peers_label;
        if (again || moved) && self.rethink_txhash() {
            cx.mib.duplicate_data_rehash += 1;
        }
        self.ack.peers_label = flow_label_of(seg);
    }

    /// The label of our IPv6 packets: the hash, its upper half last (`ip6_make_flowlabel`).
    pub(super) fn flow_label(&self) -> FlowLabel {
        let sysctl = &self.config.sysctl;
        // 0: nobody has labels; 3: everybody; in between sockets may choose (`ip6_make_flowlabel`).
        let labels = match sysctl.auto_flowlabels {
            0 => false,
            1 | 2 => self.config.auto_flow_label(),
            _ => true,
        };
        if self.snd.txhash == 0 || !labels {
            return FlowLabel::NONE;
        }
        let stateless = if sysctl.flowlabel_state_ranges == 0 { 0 } else { STATELESS };
        FlowLabel::new(self.snd.txhash.rotate_left(16) | stateless)
    }
}

/// The label of a packet; none over IPv4.
pub(super) fn flow_label_of(seg: &Segment<'_>) -> FlowLabel {
    match seg.packet.network {
        Network::Ipv6(ip) => ip.flow_label,
        _ => FlowLabel::NONE,
    }
}

/// `IPV6_FLOWLABEL_STATELESS_FLAG`: the upper half of the labels cannot be leased.
const STATELESS: u32 = 0x8_0000;
