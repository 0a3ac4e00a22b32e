//! Accurate ECN, receiving side: what arrives is counted, and told in every segment (RFC 9768
//! section 3.2).
//!
//! | what | when |
//! |---|---|
//! | the ACE field: CE packets plus 5, modulo 8 | in every segment |
//! | an ACK at once | the codepoint of a packet differs from that of the packet before |
//! | the option, `tcp_ecn_option` 2 and 3 | in every segment with room for it |
//! | the option, `tcp_ecn_option` 1 | twice after a change of codepoint and after CE; once per 2²² bytes; `tcp_ecn_option_beacon` times in a round trip |
//!
//! The option has order 1: ECT(1), CE, ECT(0), and as many of them as there is room for. If a
//! counter that has changed finds no room, SACK blocks give way, down to two; if it finds none even
//! then, the option is left out (section 3.2.3.3).

use super::accecn::{CE_PACKETS_INIT, ECT_BYTES_INIT, ace_flags, fail, option_sysctl, seen};
use super::segment::Segment;
use super::{Connection, State};
use crate::packet::option_kind as kind;
use crate::packet::seq::Seq;
use crate::packet::{AccEcnOption, Ecn, TcpFlags};
use crate::units::Instant;

/// A counter is reported before it grows by so much (RFC 9768 section 3.2.3.3), bytes.
const OVERFLOW_STEP: u32 = 1 << 22;
/// SACK blocks that the option never takes the place of.
const SACKS_KEPT: usize = 2;

/// Which of the counters in the order of the option a codepoint has: ECT(1), CE, ECT(0).
fn field(ecn: Ecn) -> usize {
    match ecn {
        Ecn::NotEct | Ecn::Ect1 => 0,
        Ecn::Ce => 1,
        Ecn::Ect0 => 2,
    }
}

/// Index of a codepoint's byte counter.
pub(super) fn counter(ecn: Ecn) -> usize {
    match ecn {
        Ecn::NotEct | Ecn::Ect1 => 0,
        Ecn::Ect0 => 1,
        Ecn::Ce => 2,
    }
}

impl Connection {
    /// An acceptable segment arrived: counts its codepoint (`tcp_ecn_received_counters`), as long as both
    /// directions are open.
    #[inline]
    pub(super) fn ecn_received(&mut self, seg: &Segment<'_>) {
        if !matches!(self.state, State::Established | State::SynRecv) {
            return;
        }
        // Without AccECN the ACK of a handshake is not counted.
        let counts = self.is_accurate() || self.state != State::SynRecv || seg.len > 0;
        if seg.ecn != Ecn::NotEct && counts {
            self.count_received(seg);
        }
        if self.is_accurate() {
            self.codepoint_changes(seg.ecn);
        }
    }

    fn count_received(&mut self, seg: &Segment<'_>) {
        // With RFC 3168 it is data taken that shows something (`tcp_data_ecn_check`).
        self.ecn.seen |= !self.ecn.ok || self.is_accurate();
        if seg.ecn == Ecn::Ce {
            self.ecn.received_ce = self.ecn.received_ce.wrapping_add(seg.segments.max(1));
        }
        if seg.len == 0 {
            return;
        }
        let bytes = &mut self.ecn.received_bytes[counter(seg.ecn)];
        let before = *bytes;
        *bytes = before.wrapping_add(seg.len);
        let overflows = (*bytes ^ before) & !(OVERFLOW_STEP - 1) != 0;
        let acc = &mut self.ecn.acc;
        acc.opt_fields = acc.opt_fields.max(field(seg.ecn) as u8 + 1);
        if overflows {
            acc.opt_demand = acc.opt_demand.max(1);
        }
    }

    /// RFC 9768 sections 3.2.2.5.1 and 3.2.3.3: a change is told at once, and the option goes twice,
    /// so that the second one tells which counter grows now.
    fn codepoint_changes(&mut self, ecn: Ecn) {
        let changed = self.ecn.acc.previous != ecn;
        if changed {
            self.ack.now = true;
        }
        if changed || ecn == Ecn::Ce {
            self.ecn.acc.previous = ecn;
            self.ecn.acc.opt_demand = 2;
        }
    }

    /// The ACE field of a segment that leaves now. The ACK of a SYN-ACK, and of a SYN that
    /// came out of place, tells that one's codepoint instead.
    pub(super) fn ace_field(&self) -> TcpFlags {
        match self.ecn.acc.reflect {
            Some(ecn) => super::accecn::reflect(ecn),
            None => ace_flags(self.ecn.received_ce.wrapping_add(CE_PACKETS_INIT)),
        }
    }

    /// The TIME-WAIT state does not support AccECN (`inet_timewait_sock`).
    pub(super) fn is_past_accurate(&self) -> bool {
        match self.state {
            State::TimeWait => true,
            State::FinWait2 => self.orphan,
            State::Established
            | State::SynSent
            | State::SynRecv
            | State::FinWait1
            | State::Close
            | State::CloseWait
            | State::LastAck
            | State::Listen
            | State::Closing => false,
        }
    }

    /// The option may go with a segment at `now` (`tcp_accecn_option_beacon_check` and others).
    pub(super) fn wants_option(&self, now: Instant) -> bool {
        let acc = &self.ecn.acc;
        if !self.is_accurate() || acc.opt_seen == seen::NOTHING || self.is_past_accurate() {
            return false;
        }
        let mode = self.config.sysctl.tcp_ecn_option;
        if mode == option_sysctl::NEVER {
            return false;
        }
        if acc.fail & fail::OPT_SEND != 0 && mode != option_sysctl::PERSIST {
            return false;
        }
        mode != option_sysctl::MINIMUM || acc.opt_demand > 0 || self.beacon_is_due(now)
    }

    /// Enough time has passed since the option went out last.
    pub(super) fn beacon_is_due(&self, now: Instant) -> bool {
        let beacons = u64::from(self.config.sysctl.tcp_ecn_option_beacon);
        let due = |sent_us| {
            let since_us = now.as_micros().saturating_sub(sent_us);
            since_us * beacons >= u64::from(self.rtt.srtt_us())
        };
        beacons != 0 && self.ecn.acc.opt_sent_us.is_none_or(due)
    }

    /// How many counters the option has beside `sacks` SACK blocks where `room` bytes are left by
    /// all but these two, and how many SACK blocks remain. `None`: it does not fit.
    pub(super) fn fit_option(&self, room: u32, sacks: usize) -> Option<(u32, usize)> {
        let needed = u32::from(self.ecn.acc.opt_fields);
        let mut kept = sacks;
        loop {
            let sack_len = if kept == 0 { 0 } else { 4 + 8 * kept as u32 };
            let left = room.saturating_sub(sack_len);
            let fits = |fields: u32| AccEcnOption::padded_len(fields, kept) <= left;
            if let Some(fields) = (needed..=3).rev().find(|&fields| fits(fields)) {
                return Some((fields, kept));
            }
            if kept <= SACKS_KEPT {
                return None;
            }
            kept -= 1;
        }
    }

    /// The option with `fields` counters.
    pub(super) fn acc_ecn_option(&self, fields: u32) -> AccEcnOption {
        let [e1, e0, ce] = self.ecn.received_bytes;
        let counters = [e1.wrapping_add(ECT_BYTES_INIT), ce, e0.wrapping_add(ECT_BYTES_INIT)];
        AccEcnOption::new(kind::ACC_ECN_1, &counters[..fields as usize])
    }

    /// The option leaves, with a DSACK or without.
    pub(super) fn option_sent(&mut self, dsack: bool, now: Instant) {
        let acc = &mut self.ecn.acc;
        acc.opt_demand = acc.opt_demand.saturating_sub(1);
        acc.opt_fields = 0;
        acc.opt_sent_us = Some(now.as_micros());
        acc.opt_with_dsack = dsack;
    }

    /// Data from `seq` on came again. If that is what the latest DSACK has told to be here, and the option went with
    /// it, ACKs with the option may be lost for it (RFC 9768 section 3.2.3.2.2).
    pub(super) fn accurate_spurious_retransmission(&mut self, seq: Seq) {
        let told = self.ecn.acc.opt_with_dsack && self.rcv.latest_duplicate == seq;
        if self.is_accurate() && told {
            self.ecn.acc.fail |= fail::OPT_SEND;
        }
    }
}
