//! One TCP flow as an observer on the wire sees it: what a host may send, given everything it has received.
//!
//! The observer knows every segment that was sent to the host and every one that the host sent. It reads nothing of
//! the host's state.

use std::collections::BTreeSet;

use datapath::tcp::state::State;

use super::beginnings::Batch;
use super::ecn::Marks;
use super::frame::{Segment, flag};
use super::offered::ObservedWindows;
pub use super::outgoing::Outgoing;
use super::seq::{FAR, MAX_SCALE, after};
use super::taken::ObservedReceiver;

mod sent;

use sent::reach;

/// What exists of a flow's connection when a segment arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Liveness {
    /// Nothing, and there never was a connection: a SYN cookie may open it.
    Nothing,
    /// Nothing any more: a SYN cookie may open another one.
    Gone,
    /// It is in TIME-WAIT.
    Past,
    /// It is in FIN-WAIT-2, perhaps as a time-wait socket only.
    Waiting,
    /// A connection in any other state, half-open ones included.
    Living,
}

/// The circumstances of a segment's arrival.
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    /// What exists of its connection.
    pub there: Liveness,
    /// The ECN codepoint of its packet.
    pub ecn: u8,
    /// The time, ms.
    pub now_ms: u64,
    /// Everything that the host has sent has been observed.
    pub quiet: bool,
    /// The connection is established, and there is no known reason to refuse an honest segment.
    pub calm: bool,
}

/// What was observed between one pair of ports.
#[derive(Clone, Debug, Default)]
pub struct ObservedFlow {
    /// The host's port and the peer's.
    pub ports: (u16, u16),
    /// What followed from each initial sequence number of the host (SYN cookies make many), the current one last.
    pub begun: Vec<Outgoing>,
    /// The host opened it actively.
    pub active: bool,
    /// Some of the peer's segments came in fragments, perhaps incompletely.
    pub in_fragments: bool,
    /// The application has shut down reading.
    pub shut: bool,
    /// Bytes that the application has written to the connection.
    pub written: u64,
    /// What was written to earlier connections between the same ports.
    pub past: Vec<u64>,
    /// Bytes that it has read, without urgent ones.
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
    /// Unacknowledged data of the host: first sequence number and length.
    flight: Vec<(u32, u32)>,
    /// The Fast Open cookie that the host has issued.
    pub cookie: Option<Vec<u8>>,
    /// A SYN cookie may have reopened it after its connection was gone.
    pub(super) is_revived: bool,
    /// A reset was sent to the host or by it.
    pub reset: bool,
    /// Segments that have arrived since the host's state was last observed.
    pub unobserved_segments: u32,
    /// What is relevant of these.
    pub(super) batch: Batch,
    /// The current connection has no reader any more: new data ends it.
    pub(super) has_no_reader: bool,
    /// One batch contained something that ends a connection and then a cookie: either of two connections with the same
    /// sequence numbers may exist.
    pub(super) may_have_returned: bool,
    /// A batch that the host had not processed contained a SYN, which may open another connection.
    pub(super) may_begin_anew: bool,
    /// Each SYN that arrived when there was no connection: its sequence number, its end, and the connection.
    pub(super) asked: Vec<(u32, u32, usize)>,
    /// Just past the highest number that the peer has sent.
    pub peer_next: u32,
    /// All ranges of sequence numbers that arrived from the peer and may have been accepted.
    arrived: Vec<(u32, u32)>,
    /// All other ranges that arrived.
    refused: Vec<(u32, u32)>,
    /// The peer's initial sequence numbers, and up to where everything has arrived from there on.
    pub(super) heard: Vec<(u32, u32)>,
    stamps: BTreeSet<u32>,
    /// Those that came beyond a hole since the host's state was last observed.
    held: BTreeSet<u32>,
    /// What the peer has acknowledged and allowed though it was not on the wire yet: it may have waited in the host's
    /// own queue.
    pub(super) claims: Vec<(u32, u32)>,
    pub(super) peer_scale: u8,
    /// The MSS of each SYN of the peer, if it had the option.
    offered_mss: Vec<Option<u32>>,
    /// The largest MSS in a SYN of the host.
    pub(super) own_mss: u32,
    pub(super) syn_window: u32,
    /// A segment of the peer had the urgent flag.
    pub urgent: bool,
    /// The host signs what it sends.
    pub signs: bool,
    /// Just past the peer's latest FIN.
    pub peer_end: Option<u32>,
    /// Just past each FIN of the peer.
    fins: Vec<u32>,
    /// The furthest sequence number in a segment by which the peer closed its window.
    closed_at: Option<u32>,
    /// The host has had a connection.
    pub had_connection: bool,
    /// It has had the current one.
    pub(super) has_lived: bool,
    /// The host has sent fragments, so not every segment was observed.
    pub in_pieces: bool,
    /// Segments that the host has sent.
    pub segments: u64,
    /// The first numbers of data that the host has sent once more since the latest arrival.
    pub resent: Vec<u32>,
    /// When the host last sent a SYN-ACK, ms.
    pub answered_at: Option<u64>,
    /// State of the connection after the latest step.
    pub state: Option<State>,
    /// What it offers.
    pub offered: ObservedWindows,
    /// What it takes.
    pub taken: ObservedReceiver,
    /// How it marks and echoes.
    pub marks: Marks,
}

impl ObservedFlow {
    /// A flow of which nothing has been seen; `peer_next`: where the peer will begin.
    pub fn new(ports: (u16, u16), peer_next: u32) -> Self {
        Self { ports, peer_next, ..Self::default() }
    }

    /// The right edge of the window that the host has offered last.
    pub fn edge(&self) -> u32 {
        let window = u32::from(self.host_window) << self.offered.scale();
        self.host_ack.map_or(self.peer_next, |ack| ack.wrapping_add(window))
    }

    /// The highest number that the peer can have acknowledged, what has not been seen on the wire
    /// then included.
    pub fn acked_at_most(&self, out: &Outgoing) -> u32 {
        let sent = out.reached.wrapping_sub(out.iss);
        let claims = self.claims.iter().map(|(ack, _)| *ack);
        let possible = claims.filter(|ack| ack.wrapping_sub(out.iss) <= sent);
        possible.fold(out.acked, |best, ack| if after(ack, best) { ack } else { best })
    }

    /// A segment without flaws goes to the host.
    pub fn on_inbound(&mut self, segment: &Segment, arrival: &Arrival) {
        let plain = arrival.calm && self.is_plain(segment);
        let taken = self.may_accept(segment, arrival);
        let missing = matches!(arrival.there, Liveness::Nothing | Liveness::Gone | Liveness::Past);
        let first = segment.flags & (flag::SYN | flag::ACK | flag::RST) == flag::SYN;
        // What waits before it in a batch may have ended the connection.
        let is_stale = self.unobserved_segments > 0 && !arrival.quiet && !self.active;
        // And while it waits, the application may.
        let may_wait = !arrival.quiet && !self.active;
        if may_wait {
            self.waits_in_batch(segment);
        }
        self.unobserved_segments += 1;
        if first && missing && !self.active {
            self.on_new_connection();
            self.on_syn(segment);
        }
        self.may_begin_anew |= first && !missing && is_stale;
        if first && self.active {
            // Scaling stays as it was asked for when SYNs cross (tcp_rcv_synsent_state_process).
            self.offered.ambiguous();
        }
        self.urgent |= segment.has(0x20);
        self.offered.on_inbound(segment);
        self.marks.on_inbound(segment, arrival.ecn, plain && arrival.quiet);
        if plain && segment.len > 0 {
            self.taken.expect_ack(arrival.now_ms);
        }
        if let Some((value, _)) = segment.stamps {
            let echoed = self.may_be_echoed(segment, arrival);
            if echoed {
                self.stamps.insert(value)
            } else {
                self.held.insert(value)
            };
        }
        if self.in_fragments {
            // Pieces overtake what GRO holds: it may not lie beyond a hole then.
            self.stamps.append(&mut self.held);
        }
        if segment.has(flag::SYN) {
            self.peer_scale = self.peer_scale.max(segment.scale.unwrap_or(0).min(MAX_SCALE));
            self.syn_window = self.syn_window.max(segment.window.into());
            let mss = segment.mss.filter(|mss| *mss > 0);
            self.offered_mss.push(mss.map(u32::from));
            if !self.heard.iter().any(|(begin, _)| *begin == segment.seq) {
                self.heard.push((segment.seq, segment.seq.wrapping_add(1)));
            }
            self.peer_next = segment.seq.wrapping_add(1);
        }
        let end = segment.end();
        if segment.has(flag::FIN) {
            self.peer_end = Some(end);
            self.fins.push(end);
        }
        if end != segment.seq && taken {
            self.arrived.push((segment.seq, end));
            self.extend_received();
        } else if end != segment.seq {
            self.refused.push((segment.seq, end));
        }
        let distance = end.wrapping_sub(self.peer_next);
        if distance < FAR {
            self.peer_next = end;
        }
        if segment.has(flag::ACK) {
            let unknown = matches!(arrival.there, Liveness::Nothing | Liveness::Gone);
            let returns = (unknown || may_wait) && !segment.has(flag::SYN);
            if returns && arrival.there == Liveness::Gone && !self.active {
                self.on_returned_cookie();
            }
            if returns {
                self.returns(segment, unknown);
            }
            self.on_ack(segment);
        }
    }

    /// Nothing about it gives an established host a reason not to take it as the next one.
    fn is_plain(&self, segment: &Segment) -> bool {
        let Some(out) = self.present() else { return false };
        let Some(host_ack) = self.host_ack else { return false };
        let acked = self.acked_at_most(out);
        let acks = segment.ack.wrapping_sub(acked) <= out.end.wrapping_sub(acked);
        let recent = |value: u32| self.stamps.iter().all(|stamp| !after(*stamp, value));
        let stamped = match (self.host_stamp, segment.stamps) {
            (None, None) => true,
            (Some(_), Some((value, _))) => recent(value),
            _ => false,
        };
        segment.flags & 0x37 == flag::ACK
            && acks
            && stamped
            && segment.seq == reach(&self.arrived, host_ack)
            && !after(segment.end(), self.edge())
            && segment.md5.is_none()
            && !segment.is_authenticated
            && !self.in_fragments
            && !self.signs
            && self.fins.is_empty()
            && self.possible().count() == 1
    }

    /// Its data may be taken: the window let it in, and it acknowledges nothing that was never sent
    /// (RFC 5961 section 5).
    fn may_accept(&self, segment: &Segment, arrival: &Arrival) -> bool {
        if segment.has(flag::RST) {
            return false;
        }
        if !arrival.quiet || arrival.there != Liveness::Living || segment.has(flag::SYN) {
            return true;
        }
        // What an ACK lets the host send opens the window for the data that comes with it.
        let sends = self.present().is_some_and(|out| out.acked != out.end || self.unsent(out) > 0);
        let known = self.host_ack.is_some() && !self.in_pieces;
        let sent = |out: &Outgoing| !after(segment.ack, out.reached);
        let acks = segment.has(flag::ACK) && self.begun.iter().any(sent);
        (acks || !known) && (sends || self.taken.may_accept(segment, self.offered.slack()))
    }

    /// RFC 7323 section 4.3: what is echoed came with a segment that did not lie beyond a hole
    /// (`tcp_replace_ts_recent`).
    fn may_be_echoed(&self, segment: &Segment, arrival: &Arrival) -> bool {
        arrival.there != Liveness::Living
            || segment.has(flag::SYN)
            || self.is_guessed()
            || self.host_ack.is_none_or(|ack| !after(segment.seq, reach(&self.arrived, ack)))
            || self.heard.iter().any(|(_, end)| segment.seq == *end)
    }

    /// Everything up to where there is no hole.
    pub(super) fn extend_received(&mut self) {
        for (_, end) in &mut self.heard {
            *end = reach(&self.arrived, *end);
        }
    }

    pub(super) fn on_ack(&mut self, segment: &Segment) {
        if segment.window == 0 && self.closed_at.is_none_or(|seq| after(segment.seq, seq)) {
            self.closed_at = Some(segment.seq);
        }
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

    /// The longest segment that the peer takes, options included: what a SYN of its told, or `unknown`; where the host
    /// may have asked with Fast Open, what it takes itself, by which the data of its SYN went (`tcp_send_syn_data`).
    pub fn longest_accepted(&self, unknown: u32, fast_open: bool) -> Option<u32> {
        let unknown = if fast_open && self.active { unknown.max(self.own_mss) } else { unknown };
        self.offered_mss.iter().map(|mss| mss.unwrap_or(unknown)).max()
    }

    /// The host has dropped a segment of its own before it reached the wire.
    pub fn on_local_drop(&mut self, segment: &Segment) {
        self.taken.unknown();
        if let Some(out) = self.begun.last_mut() {
            out.on_local_drop(segment);
        }
    }

    /// Bytes of the shortest segment in flight, 0: nothing is.
    pub fn shortest_in_flight(&self) -> u32 {
        let Some(out) = self.present() else { return 0 };
        // What was acknowledged of one is no longer a part of it (tcp_trim_head).
        let left = |(seq, len): &(u32, u32)| {
            let left = seq.wrapping_add(*len).wrapping_sub(out.acked);
            (1..FAR).contains(&left).then(|| left.min(*len))
        };
        self.flight.iter().filter_map(left).min().unwrap_or(0)
    }

    /// Nobody knows which connection it is, or the peer has sent something beyond its FIN, or has closed its window with a number that it
    /// never comes to: the host may believe the window that came there for ever
    /// (`tcp_may_update_window`).
    pub fn is_absurd(&self) -> bool {
        let host_ack = self.host_ack.unwrap_or(self.peer_next);
        self.may_have_returned
            || self.fins.iter().any(|fin| after(self.peer_next, *fin))
            || self.closed_at.is_some_and(|seq| after(seq, host_ack))
    }

    /// Whether a RST of this number may end the connection (RFC 5961 section 3.2): it is the next
    /// number, or ends what lies beyond a hole, as Linux has it (`tcp_reset_check`).
    pub fn may_reset(&self, seq: u32) -> bool {
        let ends = self.arrived.iter().map(|(_, end)| *end);
        let mut ends = ends.chain(self.host_ack).chain(self.heard.iter().map(|(_, end)| *end));
        ends.any(|end| seq == end || seq == end.wrapping_sub(1))
    }

    /// The host's state is looked at: so many segments have come since it was the last time.
    pub fn end_batch(&mut self) -> u32 {
        self.held.clear();
        self.batch = Batch::default();
        core::mem::take(&mut self.unobserved_segments)
    }

    /// How many bytes have come in order from some beginning, at most. Who has accepted a connection
    /// that has died since may read it while another one of the same ports is there, and a SYN cookie
    /// may bring the same bytes to each.
    pub fn in_order(&self) -> u64 {
        let bytes = |(begin, end): &(u32, u32)| u64::from(end.wrapping_sub(*begin) - 1);
        let all = self.heard.iter().map(bytes);
        if self.is_revived || self.may_have_returned {
            return all.sum::<u64>() * (2 + self.past.len() as u64);
        }
        if self.past.is_empty() { all.max().unwrap_or(0) } else { all.sum() }
    }
}

#[cfg(test)]
mod tests;
