//! The receiver of DCTCP (RFC 8257 section 3.2): ECE reports, byte for byte, which data came with CE.
//!
//! | arriving data | what is done |
//! |---|---|
//! | same mark as before | as without DCTCP; every ACK carries the mark as ECE |
//! | other mark, an ACK is held back | an ACK for the older data with the old mark, then as below |
//! | other mark | the new data is acknowledged at once, with the new mark |
//!
//! The ACK for the older data is special: it leaves the delayed-ACK timer, quick ACKs and
//! interactive mode as they are (27cde44a25, d2ccd7bc8a), for the newer data is still owed one.

use super::{Connection, Cx};
use crate::packet::seq::Seq;
use crate::profile::DctcpAck;

/// What the receiver remembers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DctcpReceiver {
    /// The latest data came with CE (`ce_state`).
    pub ce: bool,
    /// `rcv_nxt` after the latest data with ECN (`prior_rcv_nxt`).
    pub prior_rcv_nxt: Seq,
}

impl Connection {
    /// Data arrived, with CE or without (`dctcp_ece_ack_update`). `rcv_nxt` covers it already.
    pub(super) fn dctcp_receives(&mut self, ce: bool, cx: &mut Cx<'_>) {
        let DctcpReceiver { ce: before, prior_rcv_nxt } = self.ecn.dctcp;
        if before != ce {
            let today = self.config.profile.dctcp_ack == DctcpAck::Immediate;
            // b0c05d0e99: only the timer says whether a delayed ACK is pending.
            if self.ack.timer {
                self.ecn.demand_cwr = before;
                self.send_ack_up_to(prior_rcv_nxt, cx);
                if !today {
                    // It passed for an ACK of everything.
                    self.ack_was_sent(cx);
                }
            }
            self.ack.now |= today;
        }
        self.ecn.dctcp = DctcpReceiver { ce, prior_rcv_nxt: self.rcv.nxt };
        self.ecn.demand_cwr = ce;
    }
}
