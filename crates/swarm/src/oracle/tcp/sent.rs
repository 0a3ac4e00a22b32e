//! What the host may send, given everything it has received.

use super::ObservedFlow;
use crate::case::BrokenLaw;
use crate::oracle::frame::{Segment, flag};
use crate::oracle::outgoing::Outgoing;
use crate::oracle::seq::after;

impl ObservedFlow {
    /// The host has sent a segment with this codepoint. `classic`: ECN can only be that of RFC 3168.
    ///
    /// # Errors
    /// The law that this breaks.
    pub fn sent(&mut self, segment: &Segment, ecn: u8, classic: bool) -> Result<(), BrokenLaw> {
        self.segments += 1;
        self.signs = segment.md5.is_some();
        if segment.has(flag::RST) {
            self.reset = true;
            return Ok(());
        }
        if segment.has(flag::SYN) {
            self.sent_syn(segment);
            self.own_mss = self.own_mss.max(segment.mss.unwrap_or(0).into());
        }
        let is_old = |at: &usize| !after(segment.end(), self.begun[*at].end);
        let again = !segment.has(flag::SYN) && self.candidates(segment).iter().all(is_old);
        if again && segment.len > 0 {
            self.resent.push(segment.seq);
        }
        self.check_numbers(segment)?;
        if classic {
            self.marks.sent(segment, ecn, again && !self.in_pieces)?;
        }
        if segment.has(flag::SYN) {
            self.taken.reset();
            self.offered.on_syn(segment);
        }
        if segment.has(flag::ACK) {
            self.check_ack(segment)?;
            let of_fin = self.passes_fin(segment.ack);
            if of_fin {
                // Nothing follows a FIN: what seemed to is thrown away.
                self.taken.clear_sacked();
            }
            if self.is_revived || self.may_have_returned {
                // What waited in the device, or came in a batch before a reset, may be of the
                // connection before.
                self.taken.clear_sacked();
            }
            let reached = reach(&self.arrived, segment.ack);
            self.taken.sent(segment, reached, self.offered.window_of(segment))?;
            if self.in_pieces {
                // A closed window may have left in pieces.
                self.offered.reset();
            }
            let fin_is_acked = |out: &Outgoing| out.fin.is_some_and(|fin| after(out.acked, fin));
            if self.offered.scale() == 0 && self.present().is_some_and(fin_is_acked) {
                // Of a window without scale, a TIME-WAIT socket tells the lower 16 bits.
                self.offered.reset();
            }
            self.offered.sent(segment, reached, of_fin)?;
            self.host_ack = Some(segment.ack);
            self.host_sack.clone_from(&segment.sack);
            // Who acknowledges has a connection, though it may have come and gone within one batch, unseen.
            self.had_connection |= segment.flags & (flag::SYN | flag::RST) == 0;
        }
        self.check_stamp(segment)?;
        self.longest = self.longest.max(segment.len);
        if segment.len > 0 {
            let acked = self.present().map_or(segment.seq, |out| out.acked);
            let sent = (segment.seq, segment.len);
            self.flight.retain(|it| *it != sent && after(it.0.wrapping_add(it.1), acked));
            self.flight.push(sent);
        }
        self.host_window = segment.window;
        self.cookie = segment.cookie.clone().filter(|it| !it.is_empty()).or(self.cookie.take());
        Ok(())
    }

    /// The first ACK beyond a FIN of the peer: of its own, or of the record that it was joined to
    /// beyond a hole (`tcp_ooo_try_coalesce` keeps the flag of both).
    fn passes_fin(&self, ack: u32) -> bool {
        let before = |fin: &u32| self.host_ack.is_none_or(|host_ack| after(*fin, host_ack));
        self.fins.iter().any(|fin| !after(*fin, ack) && before(fin))
    }

    fn check_ack(&self, segment: &Segment) -> Result<(), BrokenLaw> {
        let ack = segment.ack;
        let heard = |(begin, end): &(u32, u32)| {
            let whole = end.wrapping_sub(*begin);
            (1..=whole).contains(&ack.wrapping_sub(*begin))
        };
        if !self.heard.iter().any(heard) {
            let what = format!("{ack} is acknowledged, but came: {:?}", self.heard);
            return Err(("ACK of what arrived", what));
        }
        for &(start, end) in &segment.sack {
            let covers = |run: &(u32, u32)| !after(run.0, start) && !after(end, run.1);
            // What lies below the ACK came once more, taken or not.
            if !after(start, ack) && self.refused.iter().any(covers) {
                continue;
            }
            let reached = reach(&self.arrived, start);
            if !after(end, start) || after(end, reached) || reached == start {
                let what = format!("{start}..{end} is SACKed, but came: {:?}", self.arrived);
                return Err(("SACK of what arrived", what));
            }
        }
        Ok(())
    }

    fn check_stamp(&mut self, segment: &Segment) -> Result<(), BrokenLaw> {
        let Some((value, echo)) = segment.stamps else { return Ok(()) };
        self.host_stamp = Some((value, echo));
        if echo == 0 || !segment.has(flag::ACK) || self.stamps.contains(&echo) {
            return Ok(());
        }
        Err(("TSecr of what arrived", format!("{echo} was never sent")))
    }
}

/// How far one gets from `from` on without meeting a hole.
pub(super) fn reach(arrived: &[(u32, u32)], from: u32) -> u32 {
    let mut end = from;
    loop {
        let covers = |run: &&(u32, u32)| {
            let len = run.1.wrapping_sub(run.0);
            end.wrapping_sub(run.0) < len
        };
        match arrived.iter().find(covers) {
            Some(run) => end = run.1,
            None => return end,
        }
    }
}
