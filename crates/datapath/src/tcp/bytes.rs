//! The bytes of a stream, beside the records that count them.
//!
//! Records of the queues know sequence numbers and lengths, and all that is decided is decided by
//! those. Where a program gives bytes, or a peer sends some, they lie here, by sequence number: so
//! records may be split, joined, shifted, collapsed and thrown away without a byte being moved, and
//! a run is the same with bytes and without. What has no bytes counts as zeroes.
//!
//! Bytes are copied once when they are written and once when they are read. A segment that needs
//! bytes from several places, and records that are squeezed for lack of memory, cost a further copy,
//! which is counted.

mod outgoing;
mod store;

pub use outgoing::Payload;

use super::{Connection, Cx};
use crate::packet::seq::Seq;
use crate::packet::{Body, Frames, Joined};
use outgoing::Outgoing;
use store::Store;

/// What is squeezed is copied into frames of a page.
const SQUEEZED_LEN: u32 = 4_096;
/// So many of them are kept at most.
const MAX_SQUEEZED: usize = 4_096;

/// Bytes of a connection, both ways.
#[derive(Clone, Debug)]
pub(super) struct Bytes {
    /// Written, and not acknowledged yet.
    out: Outgoing,
    /// Received, and not read yet.
    received: Store,
    squeezed: Frames,
    /// The peer's urgent byte (`urg_data`).
    urgent: u8,
    joined: Joined,
}

impl Default for Bytes {
    fn default() -> Self {
        Self {
            out: Outgoing::default(),
            received: Store::default(),
            squeezed: Frames::new(SQUEEZED_LEN, MAX_SQUEEZED),
            urgent: 0,
            joined: Joined::default(),
        }
    }
}

impl Connection {
    /// Keeps what is written next.
    pub(super) fn keep_written(&mut self, bytes: &[u8]) {
        let seq = self.snd.write_seq;
        self.bytes.get_or_insert_default().out.append(seq, bytes);
    }

    /// The body of a segment that begins with the byte `seq`.
    #[inline]
    pub(super) fn body_of(&mut self, seq: Seq, len: u32) -> Body {
        match &mut self.bytes {
            Some(bytes) if len > 0 => bytes.out.window(seq, len, &mut bytes.joined),
            _ => Body::of_len(len),
        }
    }

    /// Bytes before `una` are acknowledged.
    #[inline]
    pub(super) fn forget_sent(&mut self, una: Seq) {
        if let Some(bytes) = &mut self.bytes {
            bytes.out.forget_before(una);
        }
    }

    /// Nothing of what was written will be sent any more.
    pub(super) fn forget_written(&mut self) {
        if let Some(bytes) = &mut self.bytes {
            bytes.out = Outgoing::default();
        }
    }

    /// Keeps the bytes of a segment that was taken, the first of which is `seq`. Where bytes are
    /// there already, those stay.
    #[inline]
    pub(super) fn keep_received(&mut self, seq: Seq, body: &Body) {
        if body.frame.is_some() && body.len > 0 {
            self.keep_bytes(seq, body);
        }
    }

    fn keep_bytes(&mut self, seq: Seq, body: &Body) {
        let read = self.rcv.copied_seq;
        let skipped = if seq.before(read) { read.bytes_since(seq) } else { 0 };
        if skipped < body.len {
            let fresh = body.window(skipped, body.len - skipped);
            self.bytes.get_or_insert_default().received.insert(seq + skipped, &fresh);
        }
    }

    /// Copies received bytes from `seq` on.
    pub(super) fn copy_received(&self, seq: Seq, out: &mut [u8]) {
        match &self.bytes {
            Some(bytes) => bytes.received.copy_to(seq, out),
            None => out.fill(0),
        }
    }

    /// The program has read up to `copied_seq`.
    #[inline]
    pub(super) fn forget_read(&mut self) {
        let read = self.rcv.copied_seq;
        if let Some(bytes) = &mut self.bytes {
            bytes.received.forget_before(read);
        }
    }

    /// Discards bytes that no record covers any more: those beyond all remaining records.
    pub(super) fn forget_pruned(&mut self) {
        if let Some(bytes) = &mut self.bytes {
            let beyond = self.rcv.out_of_order.records().map(|record| record.end_seq);
            let end = beyond.fold(self.rcv.nxt, Seq::max);
            bytes.received.forget_from(end);
            bytes.received.forget_before(self.rcv.copied_seq);
        }
    }

    /// Small records were copied together: so are their bytes, for the sake of the frames that they
    /// lie in.
    pub(super) fn squeeze_bytes(&mut self) {
        let Some(bytes) = &mut self.bytes else { return };
        let Bytes { received, squeezed, joined, .. } = &mut **bytes;
        let records = self.rcv.queue.records().chain(self.rcv.out_of_order.records());
        for record in records.filter(|record| record.len() <= SQUEEZED_LEN) {
            received.squeeze(record.seq, record.len(), squeezed, joined);
        }
        // Of a piece that was read in part, that part may be left alone.
        received.forget_before(self.rcv.copied_seq);
    }

    /// The peer's urgent byte has come with a segment.
    pub(super) fn keep_urgent(&mut self, at: u32, body: &Body) {
        if body.frame.is_some() {
            let byte = body.bytes().get(at as usize).copied();
            self.bytes.get_or_insert_default().urgent = byte.unwrap_or(0);
        }
    }

    /// The peer's urgent byte, as it came last; 0 where only lengths come.
    pub fn urgent_byte(&self) -> u8 {
        self.bytes.as_ref().map_or(0, |bytes| bytes.urgent)
    }

    /// What was copied besides what was written and read.
    pub fn joined(&self) -> Joined {
        self.bytes.as_ref().map_or(Joined::default(), |bytes| bytes.joined)
    }

    /// Bytes that are held in frames: written and not acknowledged, received and not read. For
    /// tests: none is held that no queue has.
    pub fn held_bytes(&self) -> (u64, u64) {
        self.bytes.as_ref().map_or((0, 0), |bytes| (bytes.out.len(), bytes.received.len()))
    }

    /// Bytes lie nowhere but where records are.
    pub(super) fn check_bytes(&self) {
        let Some(bytes) = &self.bytes else { return };
        assert!(
            bytes.out.lies_within(self.snd.una, self.snd.write_seq),
            "bytes are kept that are acknowledged or were never written"
        );
        let beyond = self.rcv.out_of_order.records().map(|record| record.end_seq);
        let end = beyond.fold(self.rcv.nxt, Seq::max);
        assert!(
            bytes.received.lies_within(self.rcv.copied_seq, end),
            "bytes are kept that were read or thrown away: {:?} of {:?}..{end:?}",
            bytes.received,
            self.rcv.copied_seq
        );
    }

    /// Writes `bytes`, as [`write`](Self::write) does with lengths.
    pub fn write_bytes(&mut self, bytes: &[u8], more: bool, cx: &mut Cx<'_>) -> u64 {
        let flags = super::WriteFlags { more, ..super::WriteFlags::default() };
        self.write_with(bytes.into(), flags, cx)
    }
}
