//! What tagging a record with a SACK block goes by (`tcp_sacktag_one`).

use super::super::skb::Skb;
use crate::packet::seq::Seq;

/// What a block of the SACK option reports (`dup_sack`).
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum BlockKind {
    /// Data received beyond a hole.
    Sack,
    /// Data received twice (RFC 2883).
    Dsack,
}

impl BlockKind {
    /// The kind of a block that is, or is not, the first one and a DSACK.
    pub(super) fn dsack_if(is_dsack: bool) -> Self {
        if is_dsack { Self::Dsack } else { Self::Sack }
    }
}

/// A record, or the front of one, that is being tagged.
#[derive(Clone, Copy)]
pub(super) struct Tagged {
    pub seq: Seq,
    pub end_seq: Seq,
    pub pcount: u32,
    pub sacked: u8,
    pub sent_us: u64,
}

impl Tagged {
    /// All of a record.
    pub(super) fn whole(skb: &Skb) -> Self {
        Self {
            seq: skb.seq,
            end_seq: skb.end_seq,
            pcount: skb.pcount.into(),
            sacked: skb.sacked,
            sent_us: skb.sent_us(),
        }
    }
}
