//! What one ACK is found to be, gathered by the phases of [`ack_in`](super::ack_in) (the local variables of
//! `tcp_ack`).

use super::cc::Ack;
use super::rate::RateSample;
use crate::packet::seq::Seq;

/// One ACK on its way through the phases: what was known before it, and what they found out.
#[derive(Clone, Copy, Debug)]
pub(super) struct AckEvent {
    /// What it acknowledges (`ack`).
    pub ack: Seq,
    /// `snd_una` before it.
    pub prior_snd_una: Seq,
    /// The highest SACKed sequence number before it; without SACK, `snd_una` (`prior_fack`).
    pub prior_highest: Seq,
    /// `packets_out` before it.
    pub prior_packets: u32,
    /// Segments delivered before it.
    pub prior_delivered: u32,
    /// Segments marked lost before it.
    pub prior_lost: u32,
    /// The receiver had discarded what it had SACKed, and recovery from that was not over
    /// (`is_sack_reneg` of `tcp_ack`): what is measured now means nothing.
    pub was_reneging: bool,
    /// What it did.
    pub flags: AckFlags,
    /// What its SACK blocks brought.
    pub sacked: Sacked,
    /// The delivery rate it tells.
    pub sample: RateSample,
    /// What the congestion module has read of the connection, as long as that is true: `latest_view`.
    pub view: Option<Ack>,
}

/// What the SACK blocks of one ACK brought (`struct tcp_sacktag_state`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(super) struct Sacked {
    /// Send times of the first and last newly SACKed, never retransmitted segment, µs.
    pub sent_us: Option<(u64, u64)>,
    /// Segments newly known to be delivered, DSACKed ones included.
    pub delivered: u32,
    /// Lowest hole that was filled by an original: reordering.
    pub reord: Seq,
}

/// What an ACK did, as far as the machine wants to know (`FLAG_*` of `tcp_ack`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(super) struct AckFlags {
    /// It carried data.
    pub data: bool,
    /// It told nothing but how far everything has come (not `FLAG_SLOWPATH`).
    pub plain: bool,
    /// It updated the window.
    pub win_update: bool,
    /// It acknowledged new data.
    pub data_acked: bool,
    /// It acknowledged a retransmission.
    pub retrans_data_acked: bool,
    /// It acknowledged our SYN.
    pub syn_acked: bool,
    /// It SACKed new data.
    pub data_sacked: bool,
    /// It echoed congestion.
    pub ece: bool,
    /// A retransmission was found lost.
    pub lost_retrans: bool,
    /// Never-retransmitted data was acknowledged or SACKed.
    pub orig_sack_acked: bool,
    /// `snd_una` moved.
    pub snd_una_advanced: bool,
    /// It brought a DSACK.
    pub dsacking: bool,
    /// It brought a DSACK for the tail loss probe.
    pub dsack_tlp: bool,
    /// SACK blocks of reneged data.
    pub sack_reneging: bool,
    /// The transmit timer is to be set again.
    pub set_xmit_timer: bool,
    /// Bytes that it acknowledged or SACKed, as the kernel adds them up: SACKed ones count again
    /// when acknowledged, and of a record that joins another only what is left of it.
    pub delivered_bytes: u32,
}

impl AckFlags {
    /// `FLAG_ACKED`.
    pub fn acked(self) -> bool {
        self.data_acked || self.syn_acked
    }

    /// `FLAG_NOT_DUP`.
    pub fn not_dup(self) -> bool {
        self.data || self.win_update || self.acked()
    }

    /// `FLAG_CA_ALERT`.
    pub fn ca_alert(self) -> bool {
        self.data_sacked || self.ece || self.dsacking
    }

    /// `FLAG_FORWARD_PROGRESS`.
    pub fn forward_progress(self) -> bool {
        self.acked() || self.data_sacked
    }
}
