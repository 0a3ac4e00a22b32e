//! One TCP flow as a listener on the wire sees it: what a host may say, given all that it has heard.
//!
//! The listener knows every segment that went to the host and every one that it sent, and reads
//! nothing of its state.

use std::collections::BTreeSet;

use super::frame::{Segment, flag};
use super::offered::Offered;

/// A law, and how it was broken.
pub type Broken = (&'static str, String);

/// What was seen of one pair of ports.
#[derive(Clone, Debug, Default)]
pub struct Flow {
    /// The host's port and the peer's.
    pub ports: (u16, u16),
    /// Every number that the host has begun with (SYN cookies make many), the present one last.
    pub begun: Vec<Outgoing>,
    /// Bytes that the application has written to the connection.
    pub written: u64,
    /// Bytes that it has read, urgent ones left out.
    pub read: u64,
    /// What the host acknowledged last.
    pub host_ack: Option<u32>,
    /// Window of the host's latest segment.
    pub host_window: u16,
    /// The host's latest SACK blocks.
    pub host_sack: Vec<(u32, u32)>,
    /// Time stamp of the host's latest segment that had one, and what it echoed.
    pub host_stamp: Option<(u32, u32)>,
    /// Window scale of the host's SYN.
    pub host_scale: Option<u8>,
    /// The longest payload that the host has sent.
    pub longest: u32,
    /// Cookie that the host has given.
    pub cookie: Option<Vec<u8>>,
    /// The host has been reset, or has reset.
    pub reset: bool,
    /// Just past the highest number that the peer has sent.
    pub peer_next: u32,
    /// Every run of numbers that has come from the peer.
    arrived: Vec<(u32, u32)>,
    /// Where the peer has begun, and how far everything has come from there on.
    heard: Vec<(u32, u32)>,
    stamps: BTreeSet<u32>,
    /// What the peer has acknowledged and allowed that was not on the wire then: it may have waited
    /// in the host's own queue.
    claims: Vec<(u32, u32)>,
    peer_scale: u8,
    syn_window: u32,
    /// A segment of the peer had the urgent flag.
    pub urgent: bool,
    /// The host signs what it sends.
    pub signs: bool,
    /// Just past the peer's latest FIN.
    pub peer_end: Option<u32>,
    /// The host has had a connection.
    pub had_connection: bool,
    /// The host has sent fragments: not every segment has been seen.
    pub in_pieces: bool,
    /// Segments that the host has sent.
    pub segments: u64,
    /// What it offers.
    pub offered: Offered,
}

/// What the host has sent from one initial number on.
#[derive(Clone, Copy, Debug)]
pub struct Outgoing {
    /// The number of the SYN.
    pub iss: u32,
    /// Just past the highest number sent.
    pub end: u32,
    /// The same, with what the host has dropped before it reached the wire.
    reached: u32,
    /// The number of the FIN.
    pub fin: Option<u32>,
    /// Just past the highest number that the peer has ever allowed.
    edge: u32,
    /// The highest number that the peer has acknowledged.
    pub acked: u32,
}

/// Whether `a` lies behind `b` (RFC 9293 section 3.4).
pub const fn after(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) > 0
}

impl Flow {
    /// A flow of which nothing has been seen; `peer_next`: where the peer will begin.
    pub fn new(ports: (u16, u16), peer_next: u32) -> Self {
        Self { ports, peer_next, ..Self::default() }
    }

    /// The present numbers of the host.
    pub fn present(&self) -> Option<&Outgoing> {
        self.begun.last()
    }

    /// A segment without flaws goes to the host, which has no socket for the flow (`stateless`) or
    /// has one.
    pub fn heard(&mut self, segment: &Segment, stateless: bool) {
        self.urgent |= segment.has(0x20);
        self.offered.heard(segment);
        if let Some((value, _)) = segment.stamps {
            self.stamps.insert(value);
        }
        if segment.has(flag::SYN) {
            self.peer_scale = self.peer_scale.max(segment.scale.unwrap_or(0).min(MAX_SCALE));
            self.syn_window = self.syn_window.max(segment.window.into());
            if !self.heard.iter().any(|(begin, _)| *begin == segment.seq) {
                self.heard.push((segment.seq, segment.seq.wrapping_add(1)));
            }
            self.peer_next = segment.seq.wrapping_add(1);
        }
        let end = segment.end();
        if segment.has(flag::FIN) {
            self.peer_end = Some(end);
        }
        if end != segment.seq {
            self.arrived.push((segment.seq, end));
            self.extend_heard();
        }
        let distance = end.wrapping_sub(self.peer_next);
        if distance < FAR {
            self.peer_next = end;
        }
        if segment.has(flag::ACK) {
            if stateless && !segment.has(flag::SYN) {
                self.heard_cookie(segment);
                // The window scale lies in the time stamp that comes back, or seems to.
                self.peer_scale = MAX_SCALE;
            }
            self.heard_ack(segment);
        }
    }

    /// A cookie is the difference of both numbers, but for the MSS in its lowest bits: other pairs
    /// than the SYN's and the SYN-ACK's may return it (`check_tcp_syn_cookie`).
    fn heard_cookie(&mut self, segment: &Segment) {
        let (begin, iss) = (segment.seq.wrapping_sub(1), segment.ack.wrapping_sub(1));
        let returns = |out: &Outgoing| {
            self.heard.iter().any(|(heard, _)| {
                let shift = begin.wrapping_sub(*heard);
                let off = iss.wrapping_sub(out.iss).wrapping_sub(shift);
                (shift, off) != (0, 0) && off.wrapping_add(COOKIE_MSS) <= 2 * COOKIE_MSS
            })
        };
        let mut silent = self.begun.iter().filter(|out| out.end == out.iss.wrapping_add(1));
        if !silent.any(returns) {
            return;
        }
        if !self.heard.iter().any(|(heard, _)| *heard == begin) {
            self.heard.push((begin, segment.seq));
            self.extend_heard();
        }
        let end = segment.ack;
        let out = Outgoing { iss, end, reached: end, fin: None, edge: end, acked: iss };
        self.begun = vec![out];
    }

    /// Everything up to where there is no hole.
    fn extend_heard(&mut self) {
        for (_, end) in &mut self.heard {
            *end = reach(&self.arrived, *end);
        }
    }

    fn heard_ack(&mut self, segment: &Segment) {
        let scale = if segment.has(flag::SYN) { 0 } else { self.peer_scale };
        let window = u32::from(segment.window) << scale;
        for out in &mut self.begun {
            let sent = out.end.wrapping_sub(out.iss);
            let acked = segment.ack.wrapping_sub(out.iss);
            let edge = segment.ack.wrapping_add(window);
            if acked > sent {
                self.claims.push((segment.ack, edge));
                continue;
            }
            if after(edge, out.edge) {
                out.edge = edge;
            }
            if after(segment.ack, out.acked) {
                out.acked = segment.ack;
            }
        }
    }

    /// The host has sent a segment.
    ///
    /// # Errors
    /// The law that this breaks.
    pub fn sent(&mut self, segment: &Segment) -> Result<(), Broken> {
        self.segments += 1;
        self.signs = segment.md5.is_some();
        if segment.has(flag::RST) {
            self.reset = true;
            return Ok(());
        }
        if segment.has(flag::SYN) {
            self.sent_syn(segment);
        }
        self.check_numbers(segment)?;
        if segment.has(flag::ACK) {
            self.check_ack(segment)?;
            let of_fin = self.peer_end == Some(segment.ack);
            self.offered.sent(segment, reach(&self.arrived, segment.ack), of_fin)?;
            self.host_ack = Some(segment.ack);
            self.host_sack.clone_from(&segment.sack);
        }
        self.check_stamp(segment)?;
        self.longest = self.longest.max(segment.len);
        self.host_window = segment.window;
        self.cookie = segment.cookie.clone().filter(|it| !it.is_empty()).or(self.cookie.take());
        Ok(())
    }

    /// The host has dropped a segment of its own before it reached the wire.
    pub fn lost(&mut self, segment: &Segment) {
        if let Some(out) = self.begun.last_mut()
            && after(segment.end(), out.reached)
            && segment.end().wrapping_sub(out.reached) < FAR
        {
            out.reached = segment.end();
        }
    }

    fn sent_syn(&mut self, segment: &Segment) {
        self.reset = false;
        self.host_scale = segment.scale;
        let known = self.begun.iter().position(|out| out.iss == segment.seq);
        let out = if let Some(place) = known {
            self.begun.remove(place)
        } else {
            let first = segment.seq.wrapping_add(1);
            let edge = first.wrapping_add(self.syn_window);
            if segment.has(flag::ACK) {
                // Another connection of the same ports.
                (self.written, self.read) = (0, 0);
            }
            Outgoing {
                iss: segment.seq,
                end: first,
                reached: first,
                fin: None,
                edge,
                acked: segment.seq,
            }
        };
        self.begun.push(out);
    }

    /// Where the segment's numbers belong to becomes the present.
    fn find_present(&mut self, seq: u32) -> bool {
        let distance = |out: &Outgoing| seq.wrapping_sub(out.iss);
        let nearest = (0..self.begun.len()).min_by_key(|at| distance(&self.begun[*at]));
        let Some(nearest) = nearest else { return false };
        let out = self.begun.remove(nearest);
        self.begun.push(out);
        true
    }

    fn check_numbers(&mut self, segment: &Segment) -> Result<(), Broken> {
        if !self.find_present(segment.seq) {
            return Err(("window", format!("a segment without a SYN before: {segment:?}")));
        }
        let (written, longest) = (self.written, self.begun.len() - 1);
        let out = &mut self.begun[longest];
        let sent = segment.end().wrapping_sub(out.iss);
        let claims = self.claims.iter().filter(|(ack, _)| ack.wrapping_sub(out.iss) <= sent);
        let claimed = claims.clone().map(|(_, edge)| *edge);
        let edge = claimed.fold(out.edge, |best, edge| if after(edge, best) { edge } else { best });
        out.edge = edge;
        let syn = segment.has(flag::SYN);
        let first = segment.seq.wrapping_add(u32::from(syn));
        let data_end = first.wrapping_add(segment.len);
        let stream_end = out.iss.wrapping_add(1).wrapping_add(written as u32);
        if segment.len > 0 && after(data_end, stream_end) {
            let what = format!("data up to {data_end}, written up to {stream_end}");
            return Err(("exact bytes", what));
        }
        if segment.len > 0 && !syn && after(data_end, out.edge) {
            let what = format!("data up to {data_end}, allowed up to {}", out.edge);
            return Err(("window", what));
        }
        if let Some(fin) = out.fin
            && (segment.len > 0 && after(data_end, fin)
                || segment.has(flag::FIN) && data_end != fin)
        {
            return Err(("nothing after the FIN", format!("FIN at {fin}, then {segment:?}")));
        }
        if segment.has(flag::FIN) {
            if data_end != stream_end {
                let what = format!("FIN at {data_end}, written up to {stream_end}");
                return Err(("exact bytes", what));
            }
            out.fin = Some(data_end);
        }
        if after(segment.seq, out.reached) && !self.in_pieces {
            let what = format!("{} follows, though all ended at {}", segment.seq, out.end);
            return Err(("exact bytes", what));
        }
        if after(segment.end(), out.end) {
            out.end = segment.end();
        }
        if after(segment.end(), out.reached) {
            out.reached = segment.end();
        }
        Ok(())
    }

    fn check_ack(&self, segment: &Segment) -> Result<(), Broken> {
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
            let reached = reach(&self.arrived, start);
            if !after(end, start) || after(end, reached) || reached == start {
                let what = format!("{start}..{end} is SACKed, but came: {:?}", self.arrived);
                return Err(("SACK of what arrived", what));
            }
        }
        Ok(())
    }

    fn check_stamp(&mut self, segment: &Segment) -> Result<(), Broken> {
        let Some((value, echo)) = segment.stamps else { return Ok(()) };
        self.host_stamp = Some((value, echo));
        if echo == 0 || !segment.has(flag::ACK) || self.stamps.contains(&echo) {
            return Ok(());
        }
        Err(("TSecr of what arrived", format!("{echo} was never sent")))
    }

    /// Whether a RST of this number may end the connection (RFC 5961 section 3.2): it is the next
    /// number, or ends what lies beyond a hole, as Linux has it (`tcp_reset_check`).
    pub fn may_reset(&self, seq: u32) -> bool {
        let ends = self.arrived.iter().map(|(_, end)| *end);
        let mut ends = ends.chain(self.host_ack).chain(self.heard.iter().map(|(_, end)| *end));
        ends.any(|end| seq == end || seq == end.wrapping_sub(1))
    }

    /// How many bytes have come in order from some beginning, at most.
    pub fn in_order(&self) -> u64 {
        let bytes = |(begin, end): &(u32, u32)| end.wrapping_sub(*begin).wrapping_sub(1);
        self.heard.iter().map(bytes).max().unwrap_or(0).into()
    }
}

/// How far one gets from `from` on without meeting a hole.
fn reach(arrived: &[(u32, u32)], from: u32) -> u32 {
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

/// `TCP_MAX_WSCALE`.
const MAX_SCALE: u8 = 14;
/// A cookie's lowest bits: one of four segment sizes.
const COOKIE_MSS: u32 = 3;

/// The peer's numbers do not jump further.
const FAR: u32 = 1 << 24;

#[cfg(test)]
mod tests {
    use super::*;

    fn syn(seq: u32, flags: u16, ack: u32) -> Segment {
        Segment { seq, ack, flags, window: 1_000, ..Segment::default() }
    }

    fn established() -> Flow {
        let mut flow = Flow::default();
        flow.heard(&syn(99, flag::SYN, 0), false);
        flow.sent(&syn(499, flag::SYN | flag::ACK, 100)).expect("lawful");
        flow.heard(&syn(100, flag::ACK, 500), false);
        flow.written = 5_000;
        flow
    }

    fn data(seq: u32, len: u32, ack: u32) -> Segment {
        Segment { seq, ack, len, flags: flag::ACK, ..Segment::default() }
    }

    #[test]
    fn what_did_not_come_must_not_be_acknowledged() {
        let mut flow = established();
        flow.heard(&data(100, 10, 500), false);
        flow.heard(&data(120, 10, 500), false);
        assert_eq!(flow.sent(&data(500, 0, 110)), Ok(()));
        let sack = Segment { sack: vec![(120, 130)], ..data(500, 0, 110) };
        assert_eq!(flow.sent(&sack), Ok(()));
        assert_eq!(flow.sent(&data(500, 0, 111)).map_err(|it| it.0), Err("ACK of what arrived"));
        let sack = Segment { sack: vec![(120, 131)], ..data(500, 0, 110) };
        assert_eq!(flow.sent(&sack).map_err(|it| it.0), Err("SACK of what arrived"));
    }

    #[test]
    fn nothing_goes_beyond_the_window_or_the_stream() {
        let mut flow = established();
        assert_eq!(flow.sent(&data(500, 1_000, 100)), Ok(()));
        assert_eq!(flow.sent(&data(1_500, 1, 100)).map_err(|it| it.0), Err("window"));
        flow.written = 900;
        assert_eq!(flow.sent(&data(500, 1_000, 100)).map_err(|it| it.0), Err("exact bytes"));
        let fin = Segment { flags: flag::ACK | flag::FIN, ..data(1_500, 0, 100) };
        flow.written = 1_000;
        assert_eq!(flow.sent(&fin), Ok(()));
        flow.written = 1_001;
        flow.heard(&Segment { window: 1_000, ..data(100, 0, 1_500) }, false);
        let beyond = flow.sent(&data(1_500, 1, 100)).map_err(|it| it.0);
        assert_eq!(beyond, Err("nothing after the FIN"));
    }
}
