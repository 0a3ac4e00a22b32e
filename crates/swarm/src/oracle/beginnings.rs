//! Which of several successive connections between the same ports a segment of the host belongs to: by the initial
//! sequence numbers that the host chose, and by those that a returned SYN cookie may have brought back.

use core::ops::RangeInclusive;
use std::collections::BTreeSet;

use super::frame::{Segment, flag};
use super::outgoing::{COOKIE_MSS, Limits, Outgoing};
use super::seq::{FAR, MAX_SCALE, after};
use super::tcp::ObservedFlow;
use crate::case::BrokenLaw;

/// What has come and the host has not looked at yet.
#[derive(Clone, Debug, Default)]
pub(super) struct Batch {
    /// A reset.
    has_reset: bool,
    /// New data, and behind it what may bring a cookie back.
    has_data: bool,
    has_cookie_behind_data: bool,
    /// What may bring a cookie back.
    cookies: Vec<Segment>,
}

impl ObservedFlow {
    /// The present numbers of the host.
    pub fn present(&self) -> Option<&Outgoing> {
        self.begun.last()
    }

    /// The present numbers, and others where a cookie may have come back in several ways.
    pub fn possible(&self) -> impl Iterator<Item = &Outgoing> {
        let others = self.is_guessed();
        let present = self.begun.len().saturating_sub(1);
        let mut places = (0..self.begun.len())
            .filter(move |at| others || *at == present || self.are_twins(*at, present));
        core::iter::from_fn(move || places.next().map(|at| &self.begun[at]))
    }

    /// Whether a segment acknowledges nothing that was never sent.
    pub fn acks_sent_data(&self, segment: &Segment) -> bool {
        self.possible().any(|out| !after(segment.ack, out.reached))
    }

    /// Whether a segment acknowledges less than another one before. It may be too old to be looked at
    /// (RFC 5961 section 5.2).
    pub fn acks_less(&self, segment: &Segment) -> bool {
        self.possible().any(|out| after(out.acked, segment.ack))
    }

    /// The host has answered two SYNs of one connection with different numbers. Either may be a
    /// cookie that has come back: which one, its numbers will tell.
    fn are_twins(&self, one: usize, other: usize) -> bool {
        let (one, other) = (&self.begun[one], &self.begun[other]);
        one.answers && other.answers && one.connection == other.connection
    }

    pub(super) fn is_guessed(&self) -> bool {
        self.begun.iter().any(|out| out.guessed)
    }

    /// Where the bytes end that were written to a connection, at most.
    pub fn stream_end(&self, out: &Outgoing) -> u32 {
        out.iss.wrapping_add(1).wrapping_add(*self.written_to(out).end() as u32)
    }

    /// Bytes of it that were written and have not been sent.
    pub fn unsent(&self, out: &Outgoing) -> u32 {
        let end = self.stream_end(out);
        if after(end, out.end) { end.wrapping_sub(out.end) } else { 0 }
    }

    /// Bytes that were written to the connection whose numbers these are, at least and at most.
    pub(super) fn written_to(&self, out: &Outgoing) -> RangeInclusive<u64> {
        if self.may_have_returned {
            return 0..=self.past.iter().sum::<u64>() + self.written;
        }
        let present = self.past.len();
        let Some(&past) = self.past.get(out.connection) else { return self.written..=self.written };
        // While the next connection has no numbers, there may be none.
        let is_latest = self.begun.iter().all(|out| out.connection != present);
        past..=past + if is_latest { self.written } else { 0 }
    }

    /// The host has no connection of these ports and gets a SYN: what applications write and read
    /// from here on belongs to another one.
    pub(super) fn on_new_connection(&mut self) {
        if core::mem::take(&mut self.has_lived) || (self.written, self.read) != (0, 0) {
            self.past.push(self.written);
            (self.written, self.read, self.has_no_reader) = (0, 0, false);
        }
    }

    /// There is a connection.
    pub fn lives(&mut self) {
        (self.had_connection, self.has_lived) = (true, true);
    }

    /// The connection is gone, and a cookie of its SYN-ACK may begin another one of the same numbers.
    pub(super) fn on_returned_cookie(&mut self) {
        self.is_revived = true;
        self.on_new_connection();
        self.taken.reset();
        let answers = self.begun.iter().filter(|out| out.answers).map(|out| out.iss);
        let answers: BTreeSet<u32> = answers.collect();
        for iss in answers {
            self.guess(iss, self.syn_window);
        }
    }

    /// The present connection may have begun with this number.
    pub(super) fn guess(&mut self, iss: u32, window: u32) {
        let connection = self.past.len();
        if !self.begun.iter().any(|out| (out.iss, out.connection) == (iss, connection)) {
            let out = Outgoing::new(iss, window, true, connection);
            self.begun.push(Outgoing { guessed: true, ..out });
        }
    }

    /// A cookie is the difference of both numbers, but for the MSS in its lowest bits: other pairs
    /// than the SYN's and the SYN-ACK's may return it (`check_tcp_syn_cookie`). Whether the host
    /// has taken it, only its numbers will tell.
    pub(super) fn is_returned_cookie(&mut self, segment: &Segment) -> bool {
        let (begin, iss) = (segment.seq.wrapping_sub(1), segment.ack.wrapping_sub(1));
        if !self.returns_cookie(segment, |moved| moved != (0, 0)) {
            return false;
        }
        if !self.heard.iter().any(|(heard, _)| *heard == begin) {
            self.heard.push((begin, segment.seq));
            self.extend_received();
        }
        self.guess(iss, 0);
        true
    }

    /// Whether a segment may bring back a cookie of a SYN-ACK, its numbers moved by so much: both by
    /// the first, that of the SYN-ACK by the second besides.
    fn returns_cookie(&self, segment: &Segment, moved: impl Fn((u32, u32)) -> bool) -> bool {
        let (begin, iss) = (segment.seq.wrapping_sub(1), segment.ack.wrapping_sub(1));
        self.begun.iter().filter(|out| out.answers).any(|out| {
            self.heard.iter().any(|(heard, _)| {
                let shift = begin.wrapping_sub(*heard);
                let off = iss.wrapping_sub(out.iss).wrapping_sub(shift);
                moved((shift, off)) && off.wrapping_add(COOKIE_MSS) <= 2 * COOKIE_MSS
            })
        })
    }

    /// A segment goes into a batch that the host has not looked at. Where a reset waits before what
    /// brings a cookie back, a connection of the same numbers may follow the one that was, and what
    /// is written meanwhile belongs to either. So does new data where nobody reads any more: it ends
    /// the connection (`tcp_rcv_state_process`, `TCPAbortOnData`).
    pub(super) fn waits_in_batch(&mut self, segment: &Segment) {
        let acks = segment.flags & (flag::SYN | flag::ACK | flag::RST) == flag::ACK;
        let returns = acks && self.returns_cookie(segment, |_| true);
        self.may_have_returned |=
            returns && (self.batch.has_reset || self.batch.has_data && self.has_no_reader);
        if returns {
            self.batch.has_cookie_behind_data |= self.batch.has_data;
            self.batch.cookies.push(segment.clone());
        }
        self.batch.has_reset |= segment.has(flag::RST);
        let data_end = segment.seq.wrapping_add(segment.len);
        let is_new = self.host_ack.is_none_or(|ack| after(data_end, ack));
        self.batch.has_data |= segment.len > 0 && is_new;
    }

    /// The application closes a connection that goes on, or shuts down its reading.
    pub fn reads_no_more(&mut self) {
        self.has_no_reader = true;
        self.may_have_returned |= self.batch.has_cookie_behind_data;
    }

    /// Something that may bring a cookie back waits in a batch.
    pub fn cookie_waits(&self) -> bool {
        !self.batch.cookies.is_empty()
    }

    /// A call has ended the connection, as `close` does with a reset where bytes are unread
    /// (`tcp_close`). What waits in a batch finds none, as if it came only now: a cookie in it may
    /// begin another one of the same numbers (`cookie_v4_check`).
    pub fn on_ended_by_call(&mut self) {
        let waiting = core::mem::take(&mut self.batch.cookies);
        self.on_returned_cookie();
        for segment in &waiting {
            self.returns(segment, true);
            self.on_ack(segment);
        }
    }

    /// A segment may bring a cookie back. `unknown`: to its listener, as there is no connection.
    pub(super) fn returns(&mut self, segment: &Segment, unknown: bool) {
        if self.is_returned_cookie(segment) || unknown {
            self.marks.uncertain();
            self.offered.ambiguous();
            // The window scale lies in the time stamp that comes back, or seems to.
            self.peer_scale = MAX_SCALE;
        }
    }

    pub(super) fn sent_syn(&mut self, segment: &Segment) {
        self.reset = false;
        self.host_scale = segment.scale;
        let present = self.past.len();
        let same = |out: &Outgoing| out.iss == segment.seq && !out.guessed;
        let known = self.begun.iter().position(|out| same(out) && out.connection == present);
        if known.is_none() && core::mem::take(&mut self.may_begin_anew) {
            self.on_new_connection();
            self.asked.clear();
        }
        let out = if let Some(place) = known {
            self.begun.remove(place)
        } else {
            let answers = segment.has(flag::ACK);
            let connection =
                self.connection_of_syn(segment).unwrap_or_else(|| self.without_numbers());
            // It may answer a SYN of the connection before once more.
            let guessed = self.begun.iter().any(same);
            let out = Outgoing::new(segment.seq, self.syn_window, answers, connection);
            Outgoing { guessed, ..out }
        };
        self.begun.push(out);
    }

    /// A SYN comes, and no connection is there: it asks for the present one.
    pub(super) fn on_syn(&mut self, segment: &Segment) {
        self.asked.push((segment.seq, segment.end(), self.past.len()));
    }

    /// The connection that the SYN asked for which a SYN-ACK answers, data taken or not, if there is
    /// only one: the answer may have waited in the device (Fast Open lets an application write and a
    /// reset come meanwhile) until a cookie of an earlier answer seemed to begin the next connection.
    fn connection_of_syn(&self, answer: &Segment) -> Option<usize> {
        let answered = |&&(begin, end, _): &&(u32, u32, usize)| {
            (1..=end.wrapping_sub(begin)).contains(&answer.ack.wrapping_sub(begin))
        };
        let mut connections = self.asked.iter().filter(answered).map(|it| it.2);
        let first = connections.next().filter(|_| answer.has(flag::ACK))?;
        connections.all(|other| other == first).then_some(first)
    }

    /// The first connection whose SYN has not left yet, where there was one before the present one:
    /// it may have waited in the device while the connection came and went.
    pub(super) fn without_numbers(&self) -> usize {
        let known = |connection: &usize| self.begun.iter().any(|out| out.connection == *connection);
        let present = self.past.len();
        (0..present).find(|connection| !known(connection)).unwrap_or(present)
    }

    /// Which of the numbers that the host has begun with a segment may belong to, likely ones last:
    /// the nearest one, and those that a cookie's return may have made of it.
    pub(super) fn candidates(&self, segment: &Segment) -> Vec<usize> {
        // Data and FIN follow the SYN; a keepalive may repeat its number.
        let follows = u32::from(segment.end() != segment.seq && !segment.has(flag::SYN));
        let from = segment.seq.wrapping_sub(follows);
        let distance = |at: &usize| from.wrapping_sub(self.begun[*at].iss);
        let Some(nearest) = (0..self.begun.len()).min_by_key(distance) else { return Vec::new() };
        let guessed = self.is_guessed();
        let other = |at: &usize| {
            let possible = guessed || self.are_twins(*at, nearest);
            possible && !segment.has(flag::SYN) && *at != nearest && distance(at) < FAR
        };
        let mut list: Vec<usize> = (0..self.begun.len()).filter(other).collect();
        list.push(nearest);
        list
    }

    /// Judges the numbers of a segment. Where several beginnings of a connection are possible, those
    /// that do not fit were none. One that a cookie has brought back may follow before everything of
    /// the connection before has left.
    pub(super) fn check_numbers(&mut self, segment: &Segment) -> Result<(), BrokenLaw> {
        let candidates = self.candidates(segment);
        let (mut fitting, mut others, mut outcome) = (Vec::new(), Vec::new(), None);
        for &at in &candidates {
            let mut out = self.begun[at];
            let written = self.written_to(&out);
            let limits = Limits { written, claims: &self.claims, in_pieces: self.in_pieces };
            match out.sent(segment, &limits) {
                Ok(()) => fitting.push(out),
                Err(broken) => {
                    others.push(self.begun[at]);
                    outcome = Some(broken);
                }
            }
        }
        if fitting.is_empty() {
            let silent = || ("window", format!("a segment without a SYN before: {segment:?}"));
            return Err(outcome.unwrap_or_else(silent));
        }
        let mut at = 0;
        self.begun.retain(|_| {
            at += 1;
            !candidates.contains(&(at - 1))
        });
        others.retain(|other| fitting.iter().all(|out| out.connection != other.connection));
        self.begun.append(&mut others);
        self.begun.append(&mut fitting);
        Ok(())
    }
}
