//! What a host sends from one initial sequence number on: no byte that was not written, none beyond the peer's
//! window, none after the FIN.

use core::ops::RangeInclusive;

use super::frame::{Segment, flag};
use super::seq::{FAR, after};
use crate::case::BrokenLaw;

/// What the host has sent from one initial number on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outgoing {
    /// The number of the SYN.
    pub iss: u32,
    /// Just past the highest number sent.
    pub end: u32,
    /// The same, with what the host has dropped before it reached the wire.
    pub reached: u32,
    /// The number of the FIN.
    pub fin: Option<u32>,
    /// Just past the highest number that the peer has ever allowed.
    pub edge: u32,
    /// The highest number that the peer has acknowledged.
    pub acked: u32,
    /// It answers a SYN of the peer, and a cookie may lie in it.
    pub answers: bool,
    /// Perhaps there is none: only a cookie may have come back with such numbers.
    pub guessed: bool,
    /// Which connection of these ports it belongs to.
    pub connection: usize,
}

/// What bounds it.
pub struct Limits<'a> {
    /// Bytes that the application has written, at least and at most.
    pub written: RangeInclusive<u64>,
    /// What the peer has acknowledged and allowed before it was seen on the wire.
    pub claims: &'a [(u32, u32)],
    /// Fragments have been sent: not every segment has been seen.
    pub in_pieces: bool,
}

/// A cookie's lowest bits: one of four segment sizes.
pub const COOKIE_MSS: u32 = 3;

impl Outgoing {
    /// The SYN goes out, to a peer whose own allows so much.
    pub fn new(iss: u32, window: u32, answers: bool, connection: usize) -> Self {
        let first = iss.wrapping_add(1);
        let edge = first.wrapping_add(window);
        let (end, reached) = (first, first);
        let (fin, acked, guessed) = (None, iss, false);
        Self { iss, end, reached, fin, edge, acked, answers, guessed, connection }
    }

    /// A segment that was dropped in the host itself.
    pub fn on_local_drop(&mut self, segment: &Segment) {
        let end = segment.end();
        if after(end, self.reached) && end.wrapping_sub(self.reached) < FAR {
            self.reached = end;
        }
    }

    /// A segment goes out.
    ///
    /// # Errors
    /// The law that this breaks.
    pub fn sent(&mut self, segment: &Segment, limits: &Limits<'_>) -> Result<(), BrokenLaw> {
        let sent = segment.end().wrapping_sub(self.iss);
        let claims = limits.claims.iter().filter(|(ack, _)| ack.wrapping_sub(self.iss) <= sent);
        let claimed = claims.map(|(_, edge)| *edge);
        self.edge =
            claimed.fold(self.edge, |best, edge| if after(edge, best) { edge } else { best });
        let syn = segment.has(flag::SYN);
        let first = segment.seq.wrapping_add(u32::from(syn));
        let data_end = first.wrapping_add(segment.len);
        let stream_end = |written: u64| self.iss.wrapping_add(1).wrapping_add(written as u32);
        let (least_end, stream_end) =
            (stream_end(*limits.written.start()), stream_end(*limits.written.end()));
        if segment.len > 0 && after(data_end, stream_end) {
            let what = format!("data up to {data_end}, written up to {stream_end}");
            return Err(("exact bytes", what));
        }
        if syn && after(data_end, self.edge) {
            // What a SYN carries waits for no window, and may go again (`tcp_rcv_fastopen_synack`).
            self.edge = data_end;
        }
        if segment.len > 0 && after(data_end, self.edge) {
            let what = format!("data up to {data_end}, allowed up to {}", self.edge);
            return Err(("window", what));
        }
        // Two connections may share numbers that a cookie has brought back: a FIN may be of either.
        if let Some(fin) = self.fin.filter(|_| !self.guessed)
            && (segment.len > 0 && after(data_end, fin)
                || segment.has(flag::FIN) && data_end != fin)
        {
            return Err(("nothing after the FIN", format!("FIN at {fin}, then {segment:?}")));
        }
        if segment.has(flag::FIN) {
            let is_end = !after(least_end, data_end) && !after(data_end, stream_end);
            if !is_end && !self.guessed {
                let what = format!("FIN at {data_end}, written up to {stream_end}");
                return Err(("exact bytes", what));
            }
            self.fin = Some(data_end);
        }
        if after(segment.seq, self.reached) && !limits.in_pieces {
            let what = format!("{} follows, though all ended at {}", segment.seq, self.end);
            return Err(("exact bytes", what));
        }
        if after(segment.end(), self.end) {
            self.end = segment.end();
        }
        if after(segment.end(), self.reached) {
            self.reached = segment.end();
        }
        Ok(())
    }
}
