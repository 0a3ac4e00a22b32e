//! A queue that usually holds one item.

use std::collections::VecDeque;

/// First in, first out. The first item is stored inline, so that it is cached with the struct around the queue; only
/// further ones are allocated.
#[derive(Debug)]
pub(super) struct InlineQueue<T> {
    first: Option<T>,
    /// Empty unless there is a first one.
    behind: VecDeque<T>,
}

impl<T> Default for InlineQueue<T> {
    fn default() -> Self {
        Self { first: None, behind: VecDeque::new() }
    }
}

impl<T> InlineQueue<T> {
    /// True if it is empty.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.first.is_none()
    }

    /// The oldest.
    #[inline]
    pub fn front(&self) -> Option<&T> {
        self.first.as_ref()
    }

    /// Appends.
    #[inline]
    pub fn push_back(&mut self, item: T) {
        if self.first.is_none() {
            self.first = Some(item);
        } else {
            self.behind.push_back(item);
        }
    }

    /// Takes the oldest.
    #[inline]
    pub fn pop_front(&mut self) -> Option<T> {
        let first = self.first.take();
        if !self.behind.is_empty() {
            self.first = self.behind.pop_front();
        }
        first
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_a_queue() {
        let (mut few, mut queue) = (InlineQueue::default(), VecDeque::new());
        for step in 0..1_000_u32 {
            if step.wrapping_mul(0x9e37_79b9) >> 30 != 0 {
                few.push_back(step);
                queue.push_back(step);
            }
            assert_eq!((few.front(), few.is_empty()), (queue.front(), queue.is_empty()));
            if step.wrapping_mul(0x85eb_ca6b) >> 30 != 1 {
                assert_eq!(few.pop_front(), queue.pop_front());
            }
        }
        while let Some(item) = queue.pop_front() {
            assert_eq!(few.pop_front(), Some(item));
        }
        assert!(few.pop_front().is_none() && few.is_empty());
    }
}
