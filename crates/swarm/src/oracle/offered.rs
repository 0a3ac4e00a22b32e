//! What a host advertises: the right edge of its window does not move back, and SACK blocks lie ahead of the ACK.

use super::frame::{Segment, flag};
use super::seq::{MAX_SCALE, after};
use crate::case::BrokenLaw;

/// The windows offered by one flow's host, as observed from outside.
#[derive(Clone, Copy, Debug, Default)]
pub struct ObservedWindows {
    /// The host may take back what it has offered (`tcp_shrink_window`).
    pub may_shrink: bool,
    /// The furthest edge offered since the host's SYN.
    edge: Option<u32>,
    /// Scales of the SYNs of host and peer. With two kinds of SYNs, an observer cannot know which one counts.
    host_scale: Option<u8>,
    peer_scales: Option<bool>,
    is_ambiguous: bool,
}

impl ObservedWindows {
    /// A segment of the peer.
    pub fn on_inbound(&mut self, segment: &Segment) {
        if segment.has(flag::SYN) {
            let scales = segment.scale.is_some();
            self.is_ambiguous |= self.peer_scales.is_some_and(|before| before != scales);
            self.peer_scales = Some(scales);
        }
    }

    /// Nobody outside knows the scale: a cookie without time stamps has none, and whoever forbids
    /// scaling while he connects does not hear of it.
    pub fn ambiguous(&mut self) {
        self.is_ambiguous = true;
    }

    /// The host sends a SYN.
    pub fn on_syn(&mut self, syn: &Segment) {
        self.edge = None;
        self.host_scale = syn.scale;
    }

    /// An ACK of the host, to which everything has come in order up to `reached`. The ACK of the
    /// peer's FIN (`of_fin`) leaves from `tcp_fin`, before the blocks that it passes are taken away.
    ///
    /// # Errors
    /// The law that this breaks.
    pub fn sent(&mut self, segment: &Segment, reached: u32, of_fin: bool) -> Result<(), BrokenLaw> {
        if segment.has(flag::SYN) {
            return Ok(());
        }
        if !of_fin {
            check_blocks(segment)?;
        }
        self.check_edge(segment, reached)
    }

    /// Not every segment has been seen.
    pub fn reset(&mut self) {
        self.edge = None;
    }

    /// How far the host's windows are shifted.
    pub fn scale(&self) -> u8 {
        self.host_scale.filter(|_| self.peer_scales == Some(true)).unwrap_or(0)
    }

    /// The window of a segment in bytes, if that can be known.
    pub fn window_of(&self, segment: &Segment) -> Option<u32> {
        let known = !self.may_shrink && !self.is_ambiguous;
        known.then(|| u32::from(segment.window) << self.scale())
    }

    /// So many bytes more may the host have in mind than the field of a window can tell.
    pub fn slack(&self) -> u32 {
        let scale = if self.is_ambiguous { MAX_SCALE } else { self.scale() };
        (1 << scale) - 1
    }

    /// RFC 9293 section 3.8.6: a host does not shrink its window. A closed one says that there is no
    /// memory, which nobody can know before.
    fn check_edge(&mut self, segment: &Segment, reached: u32) -> Result<(), BrokenLaw> {
        if segment.window == 0 || self.may_shrink || self.is_ambiguous {
            self.edge = None;
            return Ok(());
        }
        let window = u32::from(segment.window) << self.scale();
        let edge = segment.ack.wrapping_add(window);
        // An ACK may tell of less than has come: the window counts from there.
        let furthest =
            if after(reached, segment.ack) { reached.wrapping_add(window) } else { edge };
        if let Some(before) = self.edge
            && after(before, furthest)
        {
            let what = format!("its edge moves from {before} back to {edge}");
            return Err(("offered window", what));
        }
        if self.edge.is_none_or(|before| after(edge, before)) {
            self.edge = Some(edge);
        }
        Ok(())
    }
}

/// Only the first block may tell of what came twice (RFC 2883).
fn check_blocks(segment: &Segment) -> Result<(), BrokenLaw> {
    let ahead = |(start, _): &&(u32, u32)| after(*start, segment.ack);
    match segment.sack.iter().skip(1).find(|block| !ahead(block)) {
        None => Ok(()),
        Some(block) => {
            let what = format!("{block:?} is SACKed, though {} is acknowledged", segment.ack);
            Err(("SACK ahead of the ACK", what))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ack(ack: u32, window: u16) -> Segment {
        Segment { ack, window, flags: flag::ACK, ..Segment::default() }
    }

    #[test]
    fn a_window_keeps_its_edge_or_closes() {
        let mut offered = ObservedWindows::default();
        assert_eq!(offered.sent(&ack(100, 1_000), 100, false), Ok(()));
        assert_eq!(offered.sent(&ack(200, 900), 200, false), Ok(()));
        let shrunk = offered.sent(&ack(300, 700), 300, false).map_err(|broken| broken.0);
        assert_eq!(shrunk, Err("offered window"));
        assert_eq!(offered.sent(&ack(300, 0), 300, false), Ok(()));
        assert_eq!(offered.sent(&ack(300, 10), 300, false), Ok(()));
    }

    #[test]
    fn blocks_behind_the_first_lie_ahead() {
        let mut offered = ObservedWindows::default();
        let of = |sack| Segment { sack, ..ack(500, 1_000) };
        assert_eq!(offered.sent(&of(vec![(400, 450), (600, 700)]), 500, false), Ok(()));
        let passed = offered.sent(&of(vec![(600, 700), (400, 450)]), 500, false);
        assert_eq!(passed.map_err(|broken| broken.0), Err("SACK ahead of the ACK"));
        let of_fin = offered.sent(&of(vec![(600, 700), (400, 450)]), 500, true);
        assert_eq!(of_fin, Ok(()));
    }
}
