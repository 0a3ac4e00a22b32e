//! What follows a packet's headers: a window on a frame, or only a length.

use super::frames::{FrameRef, Frames, Joined};

/// A payload: `len` bytes from `offset` of `frame` on. What the frame does not have of them (there
/// is none in simulation; a capture was cut) counts as zeroes.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Body {
    /// The frame that the bytes lie in; `None` where only the length exists.
    pub frame: Option<FrameRef>,
    /// Where they begin in it, in bytes. Without a frame it is a label, for whoever likes to tell
    /// simulated bodies apart.
    pub offset: u32,
    /// How many there are.
    pub len: u32,
}

impl Body {
    /// So many bytes, of which only their number exists.
    pub const fn of_len(len: u32) -> Self {
        Self { frame: None, offset: 0, len }
    }

    /// The whole of a frame.
    pub fn of_frame(frame: FrameRef) -> Self {
        let len = frame.bytes().len() as u32;
        Self { frame: Some(frame), offset: 0, len }
    }

    /// The number of its frame ([`FrameRef::number`]); 0 without one.
    pub fn number(&self) -> u32 {
        self.frame.as_ref().map_or(0, FrameRef::number)
    }

    /// The bytes, as far as they exist.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        self.bytes_and(0)
    }

    /// The bytes and `trailer` more that lie behind them, as far as they exist.
    #[inline]
    pub(super) fn bytes_and(&self, trailer: u32) -> &[u8] {
        let Some(frame) = &self.frame else { return &[] };
        let bytes = frame.bytes();
        let from = (self.offset as usize).min(bytes.len());
        let to = (self.offset as usize + (self.len + trailer) as usize).min(bytes.len());
        &bytes[from..to]
    }

    /// `len` of its bytes, without the first `from`.
    ///
    /// # Panics
    /// If it has fewer.
    #[inline]
    pub fn window(&self, from: u32, len: u32) -> Self {
        assert!(from + len <= self.len, "{len} bytes from {from} on of {}", self.len);
        Self { frame: self.frame.clone(), offset: self.offset.wrapping_add(from), len }
    }

    /// The body, in whose place only the length stays.
    #[inline]
    pub fn take(&mut self) -> Self {
        Self { frame: self.frame.take(), ..*self }
    }

    /// Moves the body over another one. Mostly neither has a frame, and nothing of them is touched.
    #[inline]
    pub(super) fn move_to(&mut self, place: &mut Self) {
        if self.frame.is_some() || place.frame.is_some() {
            place.frame = self.frame.take();
        }
        place.offset = self.offset;
        place.len = self.len;
    }

    /// Whether `next` lies right behind this body.
    pub fn lies_before(&self, next: &Self) -> bool {
        self.frame == next.frame && (self.frame.is_none() || self.offset + self.len == next.offset)
    }

    /// Appends `next`: without a copy if it lies right behind, or else into a frame of `pool` that
    /// holds both. False, and nothing done, if there is none. The copy is counted in `joined`.
    pub fn append(&mut self, next: &Self, pool: &mut Frames, joined: &mut Joined) -> bool {
        if !self.lies_before(next) && !self.append_copied(next, pool, joined) {
            return false;
        }
        self.len += next.len;
        true
    }

    #[cold]
    fn append_copied(&mut self, next: &Self, pool: &mut Frames, joined: &mut Joined) -> bool {
        let (bytes, len) = (next.bytes(), next.len);
        if let Some(frame) = &mut self.frame
            && self.offset as usize + self.len as usize == frame.bytes().len()
            && frame.append(bytes, len)
        {
            joined.add(bytes.len());
            return true;
        }
        let whole = self.len as usize + len as usize;
        let Some(mut frame) = pool.take() else { return false };
        let Some(memory) = frame.memory().get_mut(..whole) else {
            drop(pool.share(frame, 0));
            return false;
        };
        let (ours, theirs) = memory.split_at_mut(self.len as usize);
        for (to, from) in [(ours, self.bytes()), (theirs, bytes)] {
            let (filled, missing) = to.split_at_mut(from.len());
            filled.copy_from_slice(from);
            missing.fill(0);
        }
        joined.add(self.bytes().len() + bytes.len());
        // It is of the pool only when it takes no more: `Frames::adopt`.
        self.frame = Some(frame.unshared(whole));
        self.offset = 0;
        true
    }
}
