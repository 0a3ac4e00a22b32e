//! Explicit congestion notification (RFC 3168): what the connection remembers.

use super::Connection;
use crate::packet::{Ecn, TcpFlags};

/// ECN state (`ecn_flags`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct EcnState {
    /// Both ends agreed (`TCP_ECN_OK`).
    pub ok: bool,
    /// The next new data carries CWR (`TCP_ECN_QUEUE_CWR`).
    pub queue_cwr: bool,
    /// CE was seen: echo it until CWR (`TCP_ECN_DEMAND_CWR`).
    pub demand_cwr: bool,
    /// A packet with ECT was seen (`TCP_ECN_SEEN`).
    pub seen: bool,
}

impl Connection {
    /// The flags and codepoint of a data segment (`tcp_ecn_send`). `new_data`: this is not a
    /// retransmission; only new data is ECN-capable (RFC 3168 section 6.1.5).
    pub(super) fn ecn_send(&mut self, new_data: bool, flags: &mut TcpFlags) -> Ecn {
        if !self.ecn.ok {
            return Ecn::NotEct;
        }
        if self.ecn.demand_cwr {
            *flags |= TcpFlags::ECE;
        }
        if !new_data {
            return if self.cc_needs_ecn() { Ecn::Ect0 } else { Ecn::NotEct };
        }
        if self.ecn.queue_cwr {
            self.ecn.queue_cwr = false;
            *flags |= TcpFlags::CWR;
        }
        Ecn::Ect0
    }

    /// A data segment arrived with codepoint `ecn` (`__tcp_ecn_check_ce`).
    pub(super) fn ecn_check_ce(&mut self, ecn: Ecn) {
        if !self.ecn.ok {
            return;
        }
        match ecn {
            Ecn::NotEct => {
                // A retransmission, or a path that clears ECN: do not delay ACKs.
                if self.ecn.seen {
                    self.enter_quickack_mode(2);
                }
            }
            Ecn::Ce => {
                if !self.ecn.demand_cwr {
                    // The sender should learn it soon.
                    self.enter_quickack_mode(2);
                    self.ecn.demand_cwr = true;
                }
                self.ecn.seen = true;
            }
            Ecn::Ect0 | Ecn::Ect1 => self.ecn.seen = true,
        }
    }

    /// The peer has reduced its window: stop echoing (`tcp_ecn_accept_cwr`).
    pub(super) fn ecn_accept_cwr(&mut self, flags: TcpFlags, carries_data: bool) {
        if !flags.contains(TcpFlags::CWR) {
            return;
        }
        self.ecn.demand_cwr = false;
        if carries_data {
            // The sender measures by this ACK: send it at once.
            self.ack.now = true;
        }
    }

    /// A reduction begins: tell the peer with the next new data (`tcp_ecn_queue_cwr`).
    pub(super) fn ecn_queue_cwr(&mut self) {
        if self.ecn.ok {
            self.ecn.queue_cwr = true;
        }
    }

    /// The segment's ACK echoes congestion (`tcp_ecn_rcv_ecn_echo`).
    pub(super) fn ecn_is_echo(&self, flags: TcpFlags) -> bool {
        self.ecn.ok && flags.contains(TcpFlags::ECE) && !flags.contains(TcpFlags::SYN)
    }
}
