//! The receiver of RFC 3168 section 6.1.3: a CE mark is echoed on every ACK until the sender says
//! by CWR that it has reduced.

use super::Connection;
use super::segment::Segment;
use crate::packet::{Ecn, TcpFlags};

/// Quick ACKs granted when the sender must learn something soon.
const QUICK_ACKS: u32 = 2;

impl Connection {
    /// A data segment arrived with codepoint `ecn` (`__tcp_ecn_check_ce`). Where DCTCP's receiver
    /// has set the echo already, nothing is left to do for a mark.
    pub(super) fn rfc3168_receives(&mut self, ecn: Ecn) {
        match ecn {
            Ecn::NotEct => {
                // A retransmission, or a path that clears ECN: do not delay ACKs.
                if self.ecn.seen {
                    self.enter_quickack_mode(QUICK_ACKS);
                }
            }
            Ecn::Ce => {
                if !self.ecn.demand_cwr {
                    // The sender's window may be small: it should learn it soon.
                    self.enter_quickack_mode(QUICK_ACKS);
                    self.ecn.demand_cwr = true;
                }
                self.ecn.seen = true;
            }
            Ecn::Ect0 | Ecn::Ect1 => self.ecn.seen = true,
        }
    }

    /// The peer has reduced its window: stop echoing (`tcp_ecn_accept_cwr`). A pure ACK may say so
    /// too, as some stacks send it.
    pub(super) fn ecn_accept_cwr(&mut self, seg: &Segment<'_>) {
        if !seg.tcp.flags.contains(TcpFlags::CWR) || self.is_accurate() {
            return;
        }
        self.ecn.demand_cwr = false;
        if seg.seq != seg.end_seq && self.config.profile.ack_cwr_at_once {
            // Its window may be one segment: it waits for this ACK.
            self.ack.now = true;
        }
    }
}
