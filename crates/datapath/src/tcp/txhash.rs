//! The hash that a socket gives its packets, by which queues and paths are chosen (`sk_txhash`). A new
//! one is drawn when the path seems to have failed, so that what is sent from then on may take
//! another (`sk_rethink_txhash`; `net.core.txrehash` in the kernel's documentation).

use super::config::{Ipv6Options, Sysctl};
use super::endpoints::Endpoints;
use super::segment::Segment;
use super::{Connection, Cx};
use crate::packet::{FlowLabel, Network, Packet};
use crate::profile::Profile;
use crate::rng::drawn;

/// The first hash of a connection; 0 if this kernel's sockets have none.
pub(super) fn first(profile: &Profile, ends: &Endpoints) -> u32 {
    if !profile.socket_hash {
        return 0;
    }
    let ports = u64::from(ends.local.port()) << 48 | u64::from(ends.remote.port()) << 32;
    drawn(ports | u64::from(ends.iss.0))
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
        let moved = profile.rehash_on_new_label && seg.flow_label() != self.ack.peers_label;
        if (again || moved) && self.rethink_txhash() {
            cx.mib.duplicate_data_rehash += 1;
        }
        self.ack.peers_label = seg.flow_label();
    }

    /// The label of our IPv6 packets.
    pub(super) fn flow_label(&self) -> FlowLabel {
        let sysctl = &self.config.sysctl;
        match &self.config.socket.ipv6 {
            None => sysctl.flow_label(self.snd.txhash, None),
            Some(own) if own.flow_label != 0 => FlowLabel::new(own.flow_label),
            Some(own) => sysctl.flow_label(self.snd.txhash, own.auto_flow_label),
        }
    }

    /// A packet of the peer in the handshake: its flow label is ours from now on, if the listener wants that
    /// (`np->repflow` in `tcp_v6_send_synack`, `tcp_v6_syn_recv_sock`).
    pub(super) fn reflect_flow_label(&mut self, packet: &Packet) {
        if !self.config.socket.reflects_flow_label {
            return;
        }
        let Network::Ipv6(ip) = packet.network else { return };
        let config = self.config_mut();
        let as_ipv4 = Ipv6Options {
            traffic_class: config.tos,
            pmtu_discovery: config.socket.pmtu_discovery,
            recverr: config.socket.recverr,
            ..Ipv6Options::default()
        };
        config.socket.ipv6.get_or_insert(as_ipv4).flow_label = ip.flow_label.get();
    }
}

impl Sysctl {
    /// The label of IPv6 packets that have been given none: their hash, its upper half last; none if the hash is 0
    /// (`ip6_make_flowlabel`). `asked` is what the socket says (`IPV6_AUTOFLOWLABEL`), if it says something.
    pub(crate) fn flow_label(&self, hash: u32, asked: Option<bool>) -> FlowLabel {
        // 0: nobody has labels; 3: everybody; in between sockets may choose.
        let labels = match self.auto_flowlabels {
            0 => false,
            1 | 2 => asked.unwrap_or(self.labels_unasked()),
            _ => true,
        };
        if hash == 0 || !labels {
            return FlowLabel::NONE;
        }
        let stateless = if self.flowlabel_state_ranges == 0 { 0 } else { STATELESS };
        FlowLabel::new(hash.rotate_left(16) | stateless)
    }

    /// What `IPV6_AUTOFLOWLABEL` reads as where no socket has set it (`ip6_default_np_autolabel`).
    pub(crate) fn labels_unasked(&self) -> bool {
        self.auto_flowlabels & 1 != 0
    }
}

/// `IPV6_FLOWLABEL_STATELESS_FLAG`: the upper half of the labels cannot be leased.
const STATELESS: u32 = 0x8_0000;
