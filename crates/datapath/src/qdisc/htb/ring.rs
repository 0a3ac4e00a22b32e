//! The classes that take turns: of one row, or below one class, at one priority (`struct htb_prio`).

use super::class::Index;

/// Classes in the order of their numbers, and whose turn it is. The kernel's is a red-black tree; a sorted list
/// of some bytes a class finds its place as fast for as many as a shaper has.
#[derive(Clone, Debug, Default)]
pub(super) struct Ring {
    members: Vec<(u16, Index)>,
    /// Whose turn it is (`ptr`).
    turn: Option<u16>,
    /// Whose turn it was when it left (`last_ptr_id`).
    left: Option<u16>,
}

impl Ring {
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    pub fn members(&self) -> impl Iterator<Item = Index> {
        self.members.iter().map(|(_, class)| *class)
    }

    /// `htb_add_to_id_tree()`.
    pub fn insert(&mut self, minor: u16, class: Index) {
        let place = self.from(minor);
        debug_assert!(self.members.get(place).is_none_or(|(other, _)| *other != minor));
        self.members.insert(place, (minor, class));
    }

    /// Takes out one that sends at its own rate; the turn passes to the next (`htb_remove_class_from_row`).
    pub fn remove_from_row(&mut self, minor: u16) {
        if self.turn == Some(minor) {
            self.advance();
        }
        self.remove(minor);
    }

    /// Takes out one that borrows; the turn waits for it to come back (`htb_deactivate_prios`).
    pub fn remove_from_feed(&mut self, minor: u16) {
        if self.turn == Some(minor) {
            (self.left, self.turn) = (Some(minor), None);
        }
        self.remove(minor);
    }

    fn remove(&mut self, minor: u16) {
        let place = self.from(minor);
        let gone = self.members.remove(place);
        debug_assert_eq!(gone.0, minor, "it was a member");
    }

    /// The turn passes to the next; `None` behind the last (`htb_next_rb_node`).
    pub fn advance(&mut self) {
        let next = self.turn.and_then(|minor| {
            let place = self.from(minor);
            self.members.get(place + 1)
        });
        self.turn = next.map(|(minor, _)| *minor);
    }

    /// Whose turn it is: if it has left, its own or that of the next one behind it (`htb_id_find_next_upper`).
    pub fn resume(&mut self) -> Option<Index> {
        let left = self.left.take();
        if self.turn.is_none()
            && let Some(left) = left
        {
            let place = self.from(left);
            self.turn = self.members.get(place).map(|(minor, _)| *minor);
        }
        let place = self.from(self.turn?);
        self.members.get(place).map(|(_, class)| *class)
    }

    /// Begins again with the first.
    pub fn rewind(&mut self) {
        self.turn = self.members.first().map(|(minor, _)| *minor);
    }

    /// Forgets all, as at first.
    pub fn clear(&mut self) {
        self.members.clear();
        (self.turn, self.left) = (None, None);
    }

    /// The place of the first one from `minor` on.
    fn from(&self, minor: u16) -> usize {
        match self.members.as_slice() {
            // Nearly always.
            [(only, _)] => usize::from(*only < minor),
            members => members.partition_point(|(other, _)| *other < minor),
        }
    }
}
