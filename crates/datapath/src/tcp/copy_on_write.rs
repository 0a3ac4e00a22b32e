//! A value that many hold and few change: holders share it until one of them writes.

use core::ops::{Deref, DerefMut};
use std::sync::Arc;

/// Shared by its clones until one of them is written to, which then has its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopyOnWrite<T>(Arc<T>);

impl<T> CopyOnWrite<T> {
    /// Nobody else has it yet.
    pub fn new(value: T) -> Self {
        Self(Arc::new(value))
    }
}

impl<T> Deref for CopyOnWrite<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: Clone> DerefMut for CopyOnWrite<T> {
    fn deref_mut(&mut self) -> &mut T {
        Arc::make_mut(&mut self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_does_not_change_other_owners() {
        let first = CopyOnWrite::new(vec![1]);
        let mut second = first.clone();
        assert!(core::ptr::eq(&raw const *first, &raw const *second));
        second.push(2);
        assert_eq!((&*first, &*second), (&vec![1], &vec![1, 2]));
    }
}
