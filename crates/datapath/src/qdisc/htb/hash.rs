//! The classes by their numbers (`struct Qdisc_class_hash`).

use super::class::Index;
use crate::qdisc::Handle;

/// A table that grows as the kernel's does: a dump of classes goes through it.
#[derive(Clone, Debug)]
pub(super) struct ClassHash {
    /// The head of each list is its last entry.
    lists: Vec<Vec<(u16, Index)>>,
    major: u16,
    len: usize,
}

impl ClassHash {
    pub fn new(handle: Handle) -> Self {
        Self { lists: vec![Vec::new(); 4], major: handle.major(), len: 0 }
    }

    /// The class of this number (`htb_find`).
    #[inline]
    pub fn find(&self, class: Handle) -> Option<Index> {
        if class.major() != self.major {
            return None;
        }
        let list = &self.lists[self.list_of(class.minor())];
        list.iter().rev().find(|(minor, _)| *minor == class.minor()).map(|(_, index)| *index)
    }

    /// Puts one in at the head of its list, and grows if three quarters are full (`qdisc_class_hash_grow`).
    pub fn insert(&mut self, minor: u16, class: Index) {
        self.len += 1;
        let list = self.list_of(minor);
        self.lists[list].push((minor, class));
        if self.len * 4 > self.lists.len() * 3 {
            let larger = vec![Vec::new(); self.lists.len() * 2];
            let smaller = core::mem::replace(&mut self.lists, larger);
            for (minor, class) in smaller.into_iter().flat_map(|list| list.into_iter().rev()) {
                let list = self.list_of(minor);
                self.lists[list].push((minor, class));
            }
        }
    }

    pub fn remove(&mut self, minor: u16) {
        self.len -= 1;
        let list = self.list_of(minor);
        self.lists[list].retain(|(other, _)| *other != minor);
    }

    /// All of them in the kernel's order.
    pub fn iter(&self) -> impl Iterator<Item = (u16, Index)> {
        self.lists.iter().flat_map(|list| list.iter().rev().copied())
    }

    /// `qdisc_class_hash()`.
    fn list_of(&self, minor: u16) -> usize {
        let id = Handle::new(self.major, minor).0;
        let id = id ^ id >> 8;
        (id ^ id >> 4) as usize & (self.lists.len() - 1)
    }
}
