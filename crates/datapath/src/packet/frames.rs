//! Frames: buffers that payloads lie in, and the pool that they come from.
//!
//! A [`FrameRef`] is counted. Whoever holds one may read, nobody writes; a buffer is free when nobody
//! but its pool holds it. So a frame can be neither leaked nor given back twice, and a packet may be
//! cloned, cut and dropped like any other value.

use core::fmt;
use std::collections::VecDeque;
use std::sync::{Arc, Weak};

/// So many frames that are still in use are passed over before a pool takes more memory.
const PASSED_OVER: usize = 32;

/// Bytes that are read by whoever holds a reference, and written by nobody any more. A clone is
/// another reference.
#[derive(Clone)]
pub struct FrameRef(Arc<Buffer>);

/// Sees who holds a frame without holding it: for tests that no frame is held too long.
#[derive(Clone, Debug)]
pub struct FrameWatch(Weak<Buffer>);

impl FrameWatch {
    /// How many hold the frame, its pool included; 0 if it is gone.
    pub fn holders(&self) -> usize {
        self.0.strong_count()
    }

    /// The same for two that watch the same frame, as long as one of them does.
    pub fn key(&self) -> usize {
        self.0.as_ptr() as usize
    }
}

/// A buffer that is still to be filled; it has no other owner.
#[derive(Debug)]
pub struct FrameMut(Arc<Buffer>);

struct Buffer {
    /// What the frame is called by who made it.
    number: u32,
    /// How many of `memory` were filled.
    len: u32,
    memory: Box<[u8]>,
}

/// A pool of buffers of one size: a ring, whose oldest is mostly free again when it is wanted.
///
/// It takes memory when it has no free frame, up to a limit, and keeps it. A pool that was never
/// asked has none.
#[derive(Clone, Debug)]
pub struct Frames {
    ring: VecDeque<FrameRef>,
    frame_len: u32,
    limit: usize,
    made: u32,
}

/// How much was copied because it did not lie side by side: a reader's and a writer's copy are not
/// counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Joined {
    /// How often.
    pub times: u64,
    /// Bytes that were copied.
    pub bytes: u64,
}

impl Joined {
    /// One copy more.
    pub fn add(&mut self, bytes: usize) {
        self.times += 1;
        self.bytes += bytes as u64;
    }
}

impl core::ops::AddAssign for Joined {
    fn add_assign(&mut self, other: Self) {
        self.times += other.times;
        self.bytes += other.bytes;
    }
}

impl FrameRef {
    /// A frame without bytes, by which its maker knows a body again: bodies of simulated packets
    /// that are to be told apart.
    pub fn numbered(number: u32) -> Self {
        Self(Arc::new(Buffer { number, len: 0, memory: Box::default() }))
    }

    /// The number that its maker gave it; in a pool each frame has one of its own, from 1.
    pub fn number(&self) -> u32 {
        self.0.number
    }

    /// What it was filled with.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        &self.0.memory[..self.0.len as usize]
    }

    /// How many hold it, its pool included.
    pub fn holders(&self) -> usize {
        Arc::strong_count(&self.0)
    }

    /// Watches it from outside.
    pub fn watch(&self) -> FrameWatch {
        FrameWatch(Arc::downgrade(&self.0))
    }

    /// Bytes that could be appended, if nobody else held it.
    pub(crate) fn room(&self) -> usize {
        self.0.memory.len() - self.0.len as usize
    }

    /// Appends `bytes`, followed by zeroes up to `len`, if nobody else holds the frame and it has
    /// room; false otherwise, and nothing is done.
    pub(crate) fn append(&mut self, bytes: &[u8], len: u32) -> bool {
        let Some(buffer) = Arc::get_mut(&mut self.0) else { return false };
        let from = buffer.len as usize;
        let Some(room) = buffer.memory.get_mut(from..from + len as usize) else { return false };
        let (filled, missing) = room.split_at_mut(bytes.len());
        filled.copy_from_slice(bytes);
        missing.fill(0);
        buffer.len += len;
        true
    }
}

/// Outside of any pool.
impl From<Vec<u8>> for FrameRef {
    fn from(bytes: Vec<u8>) -> Self {
        let memory = bytes.into_boxed_slice();
        Self(Arc::new(Buffer { number: 0, len: memory.len() as u32, memory }))
    }
}

/// The same frame, not one with the same bytes.
impl PartialEq for FrameRef {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for FrameRef {}

impl fmt::Debug for FrameRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "frame {} of {} bytes", self.0.number, self.0.len)
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "buffer {} for {} bytes", self.number, self.memory.len())
    }
}

impl FrameMut {
    /// All of the buffer; what it holds is of no use.
    ///
    /// # Panics
    /// Never: a `FrameMut` is the only one to hold its buffer.
    #[inline]
    pub fn memory(&mut self) -> &mut [u8] {
        &mut self.alone().memory
    }

    /// Filled with `len` bytes, and not of its pool as long as more may be
    /// [appended](FrameRef::append).
    pub(in crate::packet) fn unshared(mut self, len: usize) -> FrameRef {
        self.alone().len = len as u32;
        FrameRef(self.0)
    }

    /// Filled with a copy of `bytes`, with which it begins, and not of its pool yet.
    pub(crate) fn open_with(mut self, bytes: &[u8]) -> FrameRef {
        self.memory()[..bytes.len()].copy_from_slice(bytes);
        self.unshared(bytes.len())
    }

    fn alone(&mut self) -> &mut Buffer {
        Arc::get_mut(&mut self.0).expect("a frame to fill has one owner")
    }
}

impl Frames {
    /// A pool of at most `limit` frames of `frame_len` bytes each. It takes no memory yet.
    pub const fn new(frame_len: u32, limit: usize) -> Self {
        Self { ring: VecDeque::new(), frame_len, limit, made: 0 }
    }

    /// A free frame, to be filled and then [shared](Self::share); `None` if all are in use and there
    /// may be no more. One that is dropped instead of shared is no longer of this pool.
    pub fn take(&mut self) -> Option<FrameMut> {
        for _ in 0..self.ring.len().min(PASSED_OVER) {
            let mut oldest = self.ring.pop_front()?;
            if Arc::get_mut(&mut oldest.0).is_some() {
                return Some(FrameMut(oldest.0));
            }
            self.ring.push_back(oldest);
        }
        if self.ring.len() < self.limit {
            return Some(self.make());
        }
        // The whole ring is looked at only when nothing else is left.
        let at = self.ring.iter().position(|frame| frame.holders() == 1)?;
        let mut free = self.ring.remove(at)?;
        // A holder in another thread may have let go only after it was looked at.
        Arc::get_mut(&mut free.0)?;
        Some(FrameMut(free.0))
    }

    #[cold]
    fn make(&mut self) -> FrameMut {
        self.made += 1;
        let memory = vec![0; self.frame_len as usize].into_boxed_slice();
        FrameMut(Arc::new(Buffer { number: self.made, len: 0, memory }))
    }

    /// The first `len` bytes of `frame` are what it was to be filled with: from now on it is read by
    /// whoever holds it.
    ///
    /// # Panics
    /// If the frame has not so many bytes.
    #[inline]
    pub fn share(&mut self, frame: FrameMut, len: usize) -> FrameRef {
        let mut frame = frame;
        let buffer = frame.alone();
        assert!(
            len <= buffer.memory.len(),
            "a frame of {} bytes has not {len}",
            buffer.memory.len()
        );
        buffer.len = len as u32;
        let shared = FrameRef(frame.0);
        self.ring.push_back(shared.clone());
        shared
    }

    /// Takes a frame into the pool that came from it to be appended to, once that is over. It must be
    /// of no pool; one of another length is left alone.
    pub fn adopt(&mut self, frame: &FrameRef) {
        if frame.0.memory.len() == self.frame_len as usize && self.ring.len() < self.limit {
            self.ring.push_back(frame.clone());
        }
    }

    /// A frame with a copy of `bytes`; `None` if there is no frame, or they do not fit in one.
    pub fn copy(&mut self, bytes: &[u8]) -> Option<FrameRef> {
        if bytes.len() > self.frame_len as usize {
            return None;
        }
        let mut frame = self.take()?;
        frame.memory()[..bytes.len()].copy_from_slice(bytes);
        Some(self.share(frame, bytes.len()))
    }

    /// Bytes of each frame.
    pub const fn frame_len(&self) -> u32 {
        self.frame_len
    }

    /// How many frames were made: the memory that the pool has taken, in frames.
    pub const fn made(&self) -> u32 {
        self.made
    }

    /// How many frames the pool holds, those that it has [adopted](Self::adopt) among them.
    pub fn kept(&self) -> usize {
        self.ring.len()
    }

    /// How many frames somebody holds besides the pool. Looks at each.
    pub fn held(&self) -> usize {
        self.ring.iter().filter(|frame| frame.holders() > 1).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_free_once_nothing_refers_to_it() {
        let mut pool = Frames::new(100, 2);
        let first = pool.copy(b"first").expect("there is one");
        let second = pool.copy(b"second").expect("there is another");
        assert!(pool.take().is_none(), "two are all");
        let again = second.clone();
        drop(second);
        assert!(pool.take().is_none(), "it is still held");
        assert_eq!((first.bytes(), again.bytes()), (&b"first"[..], &b"second"[..]));
        drop(first);
        let mut free = pool.take().expect("the first is free");
        assert_eq!(free.memory().len(), 100);
        assert_eq!(pool.share(free, 0).number(), 1);
        assert_eq!((pool.made(), pool.held()), (2, 1));
    }

    #[test]
    fn what_was_in_it_before_cannot_be_read() {
        let mut pool = Frames::new(100, 1);
        drop(pool.copy(b"a secret"));
        let frame = pool.take().expect("it is free");
        assert_eq!(pool.share(frame, 0).bytes(), b"");
    }

    #[test]
    fn a_long_held_frame_does_not_stand_in_the_way() {
        let mut pool = Frames::new(10, 1_000);
        let held: Vec<_> = (0..20_u8).map(|n| pool.copy(&[n]).expect("there is room")).collect();
        for n in 0..1_000_u32 {
            drop(pool.copy(&n.to_ne_bytes()).expect("there is room"));
        }
        assert!(pool.made() < 60, "{}", pool.made());
        assert_eq!(pool.held(), 20);
        assert!(held.iter().enumerate().all(|(n, frame)| frame.bytes() == [n as u8]));
    }

    #[test]
    fn more_than_a_frame_holds_is_not_copied() {
        let mut pool = Frames::new(10, 1);
        assert!(pool.copy(&[0; 11]).is_none());
        assert_eq!(pool.made(), 0);
    }
}
