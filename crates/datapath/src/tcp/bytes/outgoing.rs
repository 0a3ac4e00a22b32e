//! What was written and is not acknowledged.

use super::store::{ByteLocation, Store};
use crate::packet::seq::Seq;
use crate::packet::{Body, FrameRef, Frames, Joined};

/// What a program writes.
#[derive(Clone, Copy, Debug)]
pub enum Payload<'a> {
    /// So many bytes, of which only their number exists: the peer reads zeroes.
    Length(u64),
    /// These.
    Bytes(&'a [u8]),
}

impl Payload<'_> {
    /// How many bytes.
    pub const fn len(self) -> u64 {
        match self {
            Self::Length(len) => len,
            Self::Bytes(bytes) => bytes.len() as u64,
        }
    }

    /// None at all.
    pub const fn is_empty(self) -> bool {
        self.len() == 0
    }
}

impl From<u64> for Payload<'_> {
    fn from(len: u64) -> Self {
        Self::Length(len)
    }
}

impl<'a> From<&'a [u8]> for Payload<'a> {
    fn from(bytes: &'a [u8]) -> Self {
        Self::Bytes(bytes)
    }
}

/// Lengths of frames. A small write does not hold much more memory than it needs; who writes much
/// gets long ones, so that few super-packets lie over the border of two.
const FRAME_LENS: [u32; 5] = [1 << 11, 1 << 14, 1 << 16, 1 << 18, 1 << 20];
/// So many of each are kept at most.
const MAX_FRAMES: usize = 1 << 16;

/// Bytes that were written and are not acknowledged, and the frames that they lie in.
#[derive(Clone, Debug)]
pub(super) struct Outgoing {
    store: Store,
    /// The last piece ends its frame, which is not of its pool yet: more may be appended.
    open: bool,
    pools: [Frames; FRAME_LENS.len()],
}

impl Default for Outgoing {
    fn default() -> Self {
        let pools = FRAME_LENS.map(|len| Frames::new(len, MAX_FRAMES));
        Self { store: Store::default(), open: false, pools }
    }
}

impl Outgoing {
    /// Appends what was written next: to the last frame, unless a packet holds it still.
    pub fn append(&mut self, seq: Seq, bytes: &[u8]) {
        let (mut rest, mut at_least) = self.fill_open(seq, bytes);
        while !rest.is_empty() {
            self.close();
            let (frame, taken) = self.frame_with(rest, at_least);
            at_least = 0;
            let seq = seq + (bytes.len() - rest.len()) as u32;
            self.store.push(seq, Body::of_frame(frame));
            self.open = true;
            rest = &rest[taken..];
        }
    }

    /// Appends what the last frame takes; gives the rest, and how long the next frame is to be at
    /// least: longer than one that was filled to its end.
    fn fill_open<'a>(&mut self, seq: Seq, bytes: &'a [u8]) -> (&'a [u8], usize) {
        if self.open
            && let Some(last) = self.store.last_mut()
            && last.end() == seq
            && let Some(frame) = &mut last.body.frame
        {
            let taken = frame.room().min(bytes.len());
            if frame.append(&bytes[..taken], taken as u32) {
                last.body.len += taken as u32;
                return (&bytes[taken..], frame.bytes().len() + 1);
            }
        }
        (bytes, 0)
    }

    /// A frame that begins with these bytes or as many as it takes, not yet of its pool.
    fn frame_with(&mut self, bytes: &[u8], at_least: usize) -> (FrameRef, usize) {
        let wanted = bytes.len().max(at_least);
        let fits = FRAME_LENS.iter().position(|len| wanted <= *len as usize);
        let class = fits.unwrap_or(FRAME_LENS.len() - 1);
        let taken = bytes.len().min(FRAME_LENS[class] as usize);
        let frame = match self.pools[class].take() {
            Some(frame) => frame.open_with(&bytes[..taken]),
            None => FrameRef::from(bytes[..taken].to_vec()),
        };
        (frame, taken)
    }

    /// Nothing more goes into the last frame: its pool may have it when it is free.
    fn close(&mut self) {
        if !core::mem::take(&mut self.open) {
            return;
        }
        if let Some(frame) = self.store.last_mut().and_then(|last| last.body.frame.as_ref()) {
            for pool in &mut self.pools {
                pool.adopt(frame);
            }
        }
    }

    /// The body of a segment.
    pub fn window(&mut self, seq: Seq, len: u32, joined: &mut Joined) -> Body {
        match self.store.find(seq, len) {
            ByteLocation::Whole(body) => body,
            ByteLocation::Absent => Body::of_len(len),
            ByteLocation::Apart => self.joined(seq, len, joined),
        }
    }

    /// Bytes from several places, copied into one.
    #[cold]
    fn joined(&mut self, seq: Seq, len: u32, joined: &mut Joined) -> Body {
        joined.add(len as usize);
        let pool = self.pools.iter_mut().find(|pool| len <= pool.frame_len());
        if let Some((pool, mut frame)) = pool.and_then(|pool| pool.take().map(|it| (pool, it))) {
            self.store.copy_to(seq, &mut frame.memory()[..len as usize]);
            return Body::of_frame(pool.share(frame, len as usize));
        }
        let mut bytes = vec![0; len as usize];
        self.store.copy_to(seq, &mut bytes);
        Body::of_frame(FrameRef::from(bytes))
    }

    /// What ends at or before `una` is acknowledged.
    #[inline]
    pub fn forget_before(&mut self, una: Seq) {
        if self.open && self.store.last_mut().is_some_and(|last| last.end().at_or_before(una)) {
            self.close();
        }
        self.store.forget_before(una);
    }

    /// How many bytes there are.
    pub fn len(&self) -> u64 {
        self.store.len()
    }

    /// All of it was written, and something of each piece is not acknowledged.
    pub fn lies_within(&self, una: Seq, write_seq: Seq) -> bool {
        self.store.lies_within(una, write_seq)
    }
}
