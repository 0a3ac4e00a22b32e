//! Bytes by sequence number.

use crate::packet::seq::Seq;
use crate::packet::{Body, Frames, Joined};
use std::collections::VecDeque;

/// Windows on frames, in order, none over another. Between them are holes.
#[derive(Clone, Debug, Default)]
pub(super) struct Store {
    pieces: VecDeque<Piece>,
}

#[derive(Clone, Debug)]
pub(super) struct Piece {
    pub seq: Seq,
    pub body: Body,
}

/// Where the bytes of a segment lie.
pub(super) enum ByteLocation {
    /// In one place.
    Whole(Body),
    /// In several, or not all are there.
    Apart,
    /// Nowhere.
    Absent,
}

impl Piece {
    pub fn end(&self) -> Seq {
        self.seq + self.body.len
    }
}

impl Store {
    /// The first piece that ends after `seq`.
    fn index_of(&self, seq: Seq) -> usize {
        // Mostly it is asked for what has come last, or for the oldest.
        match self.pieces.back() {
            None => 0,
            Some(last) if last.end().at_or_before(seq) => self.pieces.len(),
            _ => self.pieces.partition_point(|piece| piece.end().at_or_before(seq)),
        }
    }

    pub fn last_mut(&mut self) -> Option<&mut Piece> {
        self.pieces.back_mut()
    }

    /// Appends what follows all that is there.
    pub fn push(&mut self, seq: Seq, body: Body) {
        self.pieces.push_back(Piece { seq, body });
    }

    /// Fills the holes that `body` covers, which begins at `seq`; what is there stays.
    pub fn insert(&mut self, seq: Seq, body: &Body) {
        let end = seq + body.len;
        let (mut from, mut at) = (seq, self.index_of(seq));
        while from.before(end) {
            let next = self.pieces.get(at).map(|piece| (piece.seq, piece.end()));
            let to = match next {
                Some((start, stop)) if !start.after(from) => {
                    (from, at) = (stop, at + 1);
                    continue;
                }
                Some((start, _)) if start.before(end) => start,
                _ => end,
            };
            let window = body.window(from.bytes_since(seq), to.bytes_since(from));
            match at.checked_sub(1).map(|before| &mut self.pieces[before]) {
                Some(before) if before.end() == from && before.body.lies_before(&window) => {
                    before.body.len += window.len;
                }
                _ => {
                    self.pieces.insert(at, Piece { seq: from, body: window });
                    at += 1;
                }
            }
            from = to;
        }
    }

    /// The `len` bytes from `seq` on.
    pub fn find(&self, seq: Seq, len: u32) -> ByteLocation {
        let end = seq + len;
        match self.pieces.get(self.index_of(seq)) {
            Some(piece) if !piece.seq.before(end) => ByteLocation::Absent,
            None => ByteLocation::Absent,
            Some(piece) if piece.seq.after(seq) || piece.end().before(end) => ByteLocation::Apart,
            Some(piece) => ByteLocation::Whole(piece.body.window(seq.bytes_since(piece.seq), len)),
        }
    }

    /// Copies the bytes from `seq` on, zeroes where there are none.
    pub fn copy_to(&self, seq: Seq, out: &mut [u8]) {
        let end = seq + out.len() as u32;
        let mut filled = seq;
        for piece in self.pieces.range(self.index_of(seq)..) {
            if !piece.seq.before(end) {
                break;
            }
            let from = if piece.seq.after(filled) { piece.seq } else { filled };
            let to = if piece.end().before(end) { piece.end() } else { end };
            out[filled.bytes_since(seq) as usize..from.bytes_since(seq) as usize].fill(0);
            let place = &mut out[from.bytes_since(seq) as usize..to.bytes_since(seq) as usize];
            let window = piece.body.window(from.bytes_since(piece.seq), to.bytes_since(from));
            let bytes = window.bytes();
            place[..bytes.len()].copy_from_slice(bytes);
            place[bytes.len()..].fill(0);
            filled = to;
        }
        out[filled.bytes_since(seq) as usize..].fill(0);
    }

    /// Copies the bytes from `seq` on into one frame, if they lie in several.
    pub fn squeeze(&mut self, seq: Seq, len: u32, pool: &mut Frames, joined: &mut Joined) {
        let (first, end) = (self.index_of(seq), seq + len);
        let pieces = self.pieces.range(first..).take_while(|piece| piece.seq.before(end)).count();
        if pieces < 2 {
            return;
        }
        let Some(mut frame) = pool.take() else { return };
        let Some(place) = frame.memory().get_mut(..len as usize) else { return };
        self.copy_to(seq, place);
        joined.add(place.len());
        let body = Body::of_frame(pool.share(frame, len as usize));
        self.remove(seq, end);
        self.insert(seq, &body);
    }

    /// Takes out what lies from `seq` up to `end`.
    fn remove(&mut self, seq: Seq, end: Seq) {
        let at = self.index_of(seq);
        while let Some(piece) = self.pieces.get_mut(at)
            && piece.seq.before(end)
        {
            if piece.seq.before(seq) {
                let (all, kept) = (piece.end(), seq.bytes_since(piece.seq));
                let rest = all.after(end).then(|| {
                    let from = end.bytes_since(piece.seq);
                    Piece { seq: end, body: piece.body.window(from, all.bytes_since(end)) }
                });
                piece.body.len = kept;
                if let Some(rest) = rest {
                    self.pieces.insert(at + 1, rest);
                }
                return self.remove(seq, end);
            }
            if piece.end().after(end) {
                let taken = end.bytes_since(piece.seq);
                *piece = Piece { seq: end, body: piece.body.window(taken, piece.body.len - taken) };
                return;
            }
            self.pieces.remove(at);
        }
    }

    /// Drops the pieces that end at or before `seq`.
    #[inline]
    pub fn forget_before(&mut self, seq: Seq) {
        while self.pieces.front().is_some_and(|piece| piece.end().at_or_before(seq)) {
            self.pieces.pop_front();
        }
    }

    /// Drops all bytes from `seq` on.
    pub fn forget_from(&mut self, seq: Seq) {
        while let Some(last) = self.pieces.back_mut()
            && last.end().after(seq)
        {
            if last.seq.before(seq) {
                last.body.len = seq.bytes_since(last.seq);
                return;
            }
            self.pieces.pop_back();
        }
    }

    /// How many bytes there are.
    pub fn len(&self) -> u64 {
        self.pieces.iter().map(|piece| u64::from(piece.body.len)).sum()
    }

    /// Every piece has a byte of `from..to`, and none beyond; all are in order.
    pub fn lies_within(&self, from: Seq, to: Seq) -> bool {
        let in_order = self.pieces.iter().zip(self.pieces.iter().skip(1));
        let mut in_order = in_order.map(|(one, next)| one.end().at_or_before(next.seq));
        let within = |piece: &Piece| piece.end().after(from) && !piece.end().after(to);
        in_order.all(|fine| fine) && self.pieces.iter().all(within)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::FrameRef;
    use proptest::prelude::*;

    fn body(bytes: &[u8]) -> Body {
        Body::of_frame(FrameRef::from(bytes.to_vec()))
    }

    /// What one may do with a store.
    #[derive(Clone, Debug)]
    enum Step {
        Insert(u32, Vec<u8>),
        Squeeze(u32, u32),
        ForgetFrom(u32),
        ForgetBefore(u32),
    }

    fn step() -> impl Strategy<Value = Step> {
        let bytes = prop::collection::vec(1u8.., 1..60);
        prop_oneof![
            6 => (0u32..200, bytes).prop_map(|(at, bytes)| Step::Insert(at, bytes)),
            2 => (0u32..200, 1u32..100).prop_map(|(at, len)| Step::Squeeze(at, len)),
            1 => (0u32..260).prop_map(Step::ForgetFrom),
            1 => (0u32..30).prop_map(Step::ForgetBefore),
        ]
    }

    proptest! {
        /// A store is what an array of bytes would be, the first to come in each place.
        #[test]
        fn a_store_is_an_array(start: u32, steps in prop::collection::vec(step(), 1..40)) {
            let (mut store, mut array, mut read) = (Store::default(), [0u8; 300], 0);
            let base = Seq(start);
            let mut pool = Frames::new(100, 1_000);
            for step in steps {
                match step {
                    Step::Insert(at, bytes) => {
                        let skipped = read.max(at) - at;
                        let Some(rest) = bytes.get(skipped as usize..) else { continue };
                        if rest.is_empty() { continue }
                        let at = at + skipped;
                        store.insert(base + at, &body(rest));
                        for (place, byte) in array[at as usize..].iter_mut().zip(rest) {
                            if *place == 0 { *place = *byte }
                        }
                    }
                    Step::Squeeze(at, len) => {
                        // As records do, what is squeezed has no holes.
                        let all = array[at as usize..(at + len) as usize].iter().all(|b| *b != 0);
                        if at >= read && all {
                            store.squeeze(base + at, len, &mut pool, &mut Joined::default());
                            store.forget_before(base + read);
                        }
                    }
                    Step::ForgetFrom(at) => {
                        let at = at.max(read);
                        store.forget_from(base + at);
                        store.forget_before(base + read);
                        array[at as usize..].fill(0);
                    }
                    Step::ForgetBefore(at) => {
                        read = read.max(at);
                        store.forget_before(base + read);
                    }
                }
                let mut seen = [0xee; 300];
                store.copy_to(base + read, &mut seen[read as usize..]);
                prop_assert_eq!(&seen[read as usize..], &array[read as usize..]);
                prop_assert!(store.lies_within(base + read, base + 300));
                for (at, len) in [(read, 10), (read + 50, 1), (read + 7, 100)] {
                    let there = &array[at as usize..(at + len) as usize];
                    match store.find(base + at, len) {
                        ByteLocation::Whole(body) => prop_assert_eq!(body.bytes(), there),
                        ByteLocation::Absent => prop_assert!(there.iter().all(|byte| *byte == 0)),
                        ByteLocation::Apart => prop_assert!(there.iter().any(|byte| *byte != 0)),
                    }
                }
            }
        }
    }
}
