//! Explicit congestion notification: negotiation and the sending side (RFC 3168 section 6.1).
//!
//! What a CE mark means to the receiver depends on who listens at the other end: RFC 3168
//! ([`super::ecn_rfc3168`]) latches it until the sender has reduced, RFC 8257
//! ([`super::ecn_dctcp`]) echoes the sequence of marks, RFC 9768 ([`super::accecn`]) counts them.

use super::Connection;
use super::accecn::{ACE_FLAGS, AccEcn, ace, reflect, sysctl};
use super::ecn_dctcp::DctcpReceiver;
use super::segment::Segment;
use super::{Cx, State};
use crate::packet::seq::Seq;
use crate::packet::{Ecn, TcpFlags};

/// ECN state (`ecn_flags`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EcnState {
    /// Both ends agreed (`TCP_ECN_OK`); while we wait for the answer to our SYN: we have asked.
    pub ok: bool,
    /// The next new data carries CWR (`TCP_ECN_QUEUE_CWR`).
    pub queue_cwr: bool,
    /// Outgoing segments carry ECE (`TCP_ECN_DEMAND_CWR`).
    pub demand_cwr: bool,
    /// A packet with ECT was seen (`TCP_ECN_SEEN`).
    pub seen: bool,
    /// The receiver of RFC 8257.
    pub dctcp: DctcpReceiver,
    /// What was agreed is Accurate ECN; while we wait for the answer to our SYN: we have asked for
    /// it.
    pub accurate: bool,
    /// It was negotiated by a SYN cookie, and the ACK shows of which kind it is.
    pub by_cookie: bool,
    /// Packets that came with CE (`received_ce`).
    pub received_ce: u32,
    /// Bytes that came as ECT(1), ECT(0) and CE (`received_ecn_bytes`).
    pub received_bytes: [u32; 3],
    /// Accurate ECN.
    pub acc: AccEcn,
}

impl Default for EcnState {
    fn default() -> Self {
        let dctcp = DctcpReceiver { ce: false, prior_rcv_nxt: Seq(0) };
        Self {
            ok: false,
            queue_cwr: false,
            demand_cwr: false,
            seen: false,
            dctcp,
            accurate: false,
            by_cookie: false,
            received_ce: 0,
            received_bytes: [0; 3],
            acc: AccEcn::default(),
        }
    }
}

/// Flags of an ECN-setup SYN.
const SETUP_SYN: TcpFlags = TcpFlags(TcpFlags::ECE.0 | TcpFlags::CWR.0);
/// The same as a number.
const CLASSIC_SYN: u8 = 0b011;

impl Connection {
    /// Asks for ECN if anybody wants it: flags of our SYN (`tcp_ecn_send_syn`). `route`: the
    /// route's feature.
    pub(super) fn ecn_request(&mut self, route: bool) -> TcpFlags {
        let mode = self.config.sysctl.tcp_ecn;
        self.ecn.accurate = mode == sysctl::ACCURATE || self.cc_needs_accecn();
        let by_sysctl =
            matches!(mode, sysctl::REQUEST | sysctl::ACCURATE | sysctl::ACCURATE_REQUEST);
        self.ecn.ok = by_sysctl || self.cc_needs_ecn() || self.cc_needs_accecn() || route;
        match (self.ecn.ok, self.ecn.accurate) {
            (false, _) => TcpFlags(0),
            (true, false) => SETUP_SYN,
            (true, true) => ACE_FLAGS,
        }
    }

    /// The SYN is sent again: it may have been lost for its ECN flags (RFC 3168 section 6.1.1.1,
    /// `tcp_ecn_clear_syn`). One that asks for Accurate ECN gets a second chance (RFC 9768 section
    /// 3.1.4.1). Its codepoint stays, and so does what an ECN-setup answer to the
    /// first one would mean.
    pub(super) fn ecn_fall_back(&mut self, head: super::skb::SkbId) {
        if self.config.sysctl.tcp_ecn_fallback == 0 || self.state != State::SynSent {
            return;
        }
        if self.is_accurate() && self.retransmits < 2 {
            return;
        }
        let skb = self.queue.get_mut(head);
        skb.flags = skb.flags.without(ACE_FLAGS);
    }

    /// Do we agree to the ECN of a SYN? Flags of our SYN-ACK (`tcp_ecn_create_request`). An ECT
    /// SYN is not of RFC 3168: only a congestion control that needs ECN understands it.
    pub(super) fn ecn_answer_syn(
        &mut self,
        syn: TcpFlags,
        codepoint: Ecn,
        route: bool,
    ) -> TcpFlags {
        // Flags of a future version mean the same (RFC 9768 section 3.1.3).
        if self.agrees_to_accurate() && ace(syn) != 0 && ace(syn) != CLASSIC_SYN {
            self.enter_accurate(codepoint, 1);
            return reflect(codepoint);
        }
        let asks = syn.contains(SETUP_SYN);
        let allowed = self.config.sysctl.tcp_ecn != sysctl::OFF || route;
        let plain = codepoint == Ecn::NotEct || syn.contains(TcpFlags::AE);
        self.ecn.ok = asks && ((allowed && plain) || self.cc_needs_ecn());
        if self.ecn.ok { TcpFlags::ECE } else { TcpFlags(0) }
    }

    /// The SYN-ACK for our SYN arrived (`tcp_ecn_rcv_synack`).
    pub(super) fn ecn_syn_answered(&mut self, seg: &Segment<'_>) {
        let asked = core::mem::take(&mut self.ecn.accurate);
        if !self.ecn.ok {
            return;
        }
        // RFC 9768 table 2. Those that know Accurate ECN only may answer so even if it was not
        // asked for.
        match ace(seg.tcp.flags) {
            0b001 => {}
            0b101 if !asked => {}
            // Nothing, or our own flags come back from a broken peer.
            0b000 | 0b111 => self.ecn.ok = false,
            _ => self.accurate_syn_answered(seg, asked),
        }
    }

    /// The peer's SYN crossed ours: flags of our SYN-ACK (`tcp_ecn_rcv_syn`). AE of our SYN stays
    /// where something less was agreed.
    pub(super) fn ecn_crossing_syn(&mut self, seg: &Segment<'_>) -> TcpFlags {
        let asked = core::mem::take(&mut self.ecn.accurate);
        let theirs = ace(seg.tcp.flags);
        let syn = self.queue.rtx_head().map(|head| self.queue.get(head).flags);
        let had_ae = syn.is_some_and(|flags| flags.contains(TcpFlags::AE));
        let left = if had_ae { TcpFlags::AE } else { TcpFlags(0) };
        if self.ecn.ok && asked && theirs != 0 && theirs != CLASSIC_SYN {
            self.enter_accurate(seg.ecn, 2);
            return reflect(seg.ecn);
        }
        self.ecn.ok &= seg.tcp.flags.contains(SETUP_SYN);
        if self.ecn.ok { left | TcpFlags::ECE } else { left }
    }

    /// Codepoint of a SYN or SYN-ACK: ECT if the congestion control needs ECN, so that the
    /// handshake survives the queue that the data will meet (RFC 8257 section 3.6).
    pub(super) fn syn_ecn(&self) -> Ecn {
        let asks = self.state == State::SynSent;
        let ect = self.cc_needs_ecn() && (self.config.dctcp_syn_ect || !asks);
        if ect { Ecn::Ect0 } else { Ecn::NotEct }
    }

    /// Codepoint of a segment without data: Not-ECT by RFC 3168 section 6.1.4, ECT for DCTCP until
    /// TIME-WAIT.
    pub(super) fn ecn_of_control(&self) -> Ecn {
        if self.state == State::TimeWait {
            return Ecn::NotEct;
        }
        if self.is_accurate() && self.state != State::SynRecv {
            return self.accurate_codepoint();
        }
        if self.ecn.ok && self.cc_needs_ecn() { Ecn::Ect0 } else { Ecn::NotEct }
    }

    /// Flags and codepoint of a segment from the send queue (`tcp_ecn_send`). `new_data`: it is
    /// not a retransmission; only new data is ECN-capable (RFC 3168 section 6.1.5).
    pub(super) fn ecn_send(&mut self, new_data: bool, flags: &mut TcpFlags) -> Ecn {
        if !self.ecn.ok {
            return Ecn::NotEct;
        }
        *flags |= self.ecn_echo();
        if self.is_accurate() {
            return self.accurate_codepoint();
        }
        if !new_data {
            return self.ecn_of_control();
        }
        if self.ecn.queue_cwr {
            self.ecn.queue_cwr = false;
            *flags |= TcpFlags::CWR;
        }
        Ecn::Ect0
    }

    /// ECE, if it is to be echoed now; with Accurate ECN, the ACE field.
    pub(super) fn ecn_echo(&self) -> TcpFlags {
        if self.is_accurate() {
            return if self.is_past_accurate() { TcpFlags(0) } else { self.ace_field() };
        }
        if self.ecn.ok && self.ecn.demand_cwr { TcpFlags::ECE } else { TcpFlags(0) }
    }

    /// A data segment arrived with codepoint `ecn` (`tcp_ecn_check_ce`).
    pub(super) fn ecn_check_ce(&mut self, ecn: Ecn, cx: &mut Cx<'_>) {
        if !self.ecn.ok {
            return;
        }
        if self.is_accurate() {
            if ecn == Ecn::NotEct {
                self.rfc3168_receives(ecn);
            }
            return;
        }
        if self.cc_needs_ecn() && ecn != Ecn::NotEct {
            self.dctcp_receives(ecn == Ecn::Ce, cx);
        }
        self.rfc3168_receives(ecn);
    }

    /// A reduction begins: tell the peer with the next new data (`tcp_ecn_queue_cwr`).
    pub(super) fn ecn_queue_cwr(&mut self) {
        if self.ecn.ok && !self.is_accurate() {
            self.ecn.queue_cwr = true;
        }
    }

    /// The segment's ACK echoes congestion (`tcp_ecn_rcv_ecn_echo`).
    pub(super) fn ecn_is_echo(&self, flags: TcpFlags) -> bool {
        self.ecn.ok
            && !self.is_accurate()
            && flags.contains(TcpFlags::ECE)
            && !flags.contains(TcpFlags::SYN)
    }
}
