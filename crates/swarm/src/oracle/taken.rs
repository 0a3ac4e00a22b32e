//! What a host must not accept, and what it must keep: it accepts nothing beyond the window it offered, acknowledges
//! what it accepts, and never discards what it has SACKed.

use super::frame::{Segment, flag};
use super::seq::after;
use crate::case::BrokenLaw;

/// `TCP_DELACK_MAX`, ms, the place on the timer wheel, and a millisecond.
const ANSWER_WITHIN: u64 = 200 + 8 + 2;
/// So many SACKed ranges are remembered.
const MOST: usize = 64;

/// The receiver of one flow, as observed from outside.
#[derive(Clone, Debug, Default)]
pub struct ObservedReceiver {
    /// Just past the furthest byte that it has ever let in, and the latest that it has closed at.
    furthest: Option<u32>,
    closed: Option<u32>,
    /// What it accepts cannot be known: its window was never advertised, or not exactly.
    is_unknown: bool,
    /// Ranges that it has SACKed, and not acknowledged since.
    sacked: Vec<(u32, u32)>,
    /// When data came that nothing was said about since, ms.
    owes: Option<u64>,
}

impl ObservedReceiver {
    /// From here on the window that the host uses is unknown.
    pub fn unknown(&mut self) {
        self.is_unknown = true;
    }

    /// Another connection begins.
    pub fn reset(&mut self) {
        (self.furthest, self.closed, self.owes) = (None, None, None);
        self.sacked.clear();
    }

    /// Whether what begins here may be taken: the window that was told last and those before let it
    /// in. `slack`: what scaling hides of a window, but a closed one is closed (`__tcp_select_window`
    /// rounds up).
    pub fn may_accept(&self, segment: &Segment, slack: u32) -> bool {
        if self.is_unknown || segment.len == 0 || segment.has(flag::SYN) {
            return true;
        }
        let within = |edge: u32| after(edge, segment.seq);
        self.furthest.is_none_or(|edge| within(edge.wrapping_add(slack)))
            && self.closed.is_none_or(within)
    }

    /// Data as a peer should send it has come, at this time in ms: an ACK is due.
    pub fn expect_ack(&mut self, now_ms: u64) {
        self.owes.get_or_insert(now_ms);
    }

    /// Nothing is due any more.
    pub fn released(&mut self) {
        self.owes = None;
    }

    /// RFC 9293 section 3.8.6.3: an ACK is put off no longer than `TCP_DELACK_MAX`.
    ///
    /// # Errors
    /// The law that this breaks.
    pub fn check_due(&self, now_ms: u64) -> Result<(), BrokenLaw> {
        match self.owes {
            Some(since) if now_ms > since + ANSWER_WITHIN => {
                let what =
                    format!("data came at {since} ms, and at {now_ms} ms no ACK has followed");
                Err(("delayed ACK", what))
            }
            _ => Ok(()),
        }
    }

    /// The host says how far it has come (`reached`, or less in its ACK), and offers `window` bytes
    /// from there, if that is known.
    ///
    /// # Errors
    /// The law that this breaks.
    pub fn sent(
        &mut self,
        segment: &Segment,
        reached: u32,
        window: Option<u32>,
    ) -> Result<(), BrokenLaw> {
        if segment.has(flag::SYN) {
            return Ok(());
        }
        self.owes = None;
        self.note_window(segment, reached, window);
        self.check_kept(segment)
    }

    fn note_window(&mut self, segment: &Segment, reached: u32, window: Option<u32>) {
        // The field cannot tell of more, and a host may have more in mind.
        let Some(window) = window.filter(|_| segment.window != u16::MAX) else {
            return self.unknown();
        };
        let from = if after(reached, segment.ack) { reached } else { segment.ack };
        let edge = from.wrapping_add(window);
        if self.furthest.is_none_or(|before| after(edge, before)) {
            self.furthest = Some(edge);
        }
        self.closed = (window == 0).then_some(from);
    }

    /// RFC 2018 section 8 allows to throw SACKed data away; Linux does so only where memory is short.
    fn check_kept(&mut self, segment: &Segment) -> Result<(), BrokenLaw> {
        let ack = segment.ack;
        let within = |&&(start, end): &&(u32, u32)| !after(start, ack) && after(end, ack);
        if let Some((start, end)) = self.sacked.iter().find(within) {
            let what = format!("{start}..{end} was SACKed, and now {ack} is missing");
            return Err(("SACKed is kept", what));
        }
        self.sacked.retain(|(_, end)| after(*end, ack));
        for &(start, end) in segment.sack.iter().filter(|(start, _)| after(*start, ack)) {
            if !self.sacked.contains(&(start, end)) {
                self.sacked.push((start, end));
            }
        }
        let more = self.sacked.len().saturating_sub(MOST);
        self.sacked.drain(..more);
        Ok(())
    }

    /// The window advertised last is closed.
    pub fn is_closed(&self) -> bool {
        self.closed.is_some() && !self.is_unknown
    }

    /// What was SACKed may have been thrown away.
    pub fn clear_sacked(&mut self) {
        self.sacked.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_closed_window_is_closed_whatever_its_scale_hides() {
        let mut taken = ObservedReceiver::default();
        let ack = |ack, window| Segment { ack, window, flags: flag::ACK, ..Segment::default() };
        let data = |seq| Segment { seq, len: 10, ..Segment::default() };
        assert_eq!(taken.sent(&ack(100, 2), 100, Some(256)), Ok(()));
        assert!(taken.may_accept(&data(400), 127));
        assert_eq!(taken.sent(&ack(356, 0), 356, Some(0)), Ok(()));
        assert!(!taken.may_accept(&data(356), 127));
    }
}
