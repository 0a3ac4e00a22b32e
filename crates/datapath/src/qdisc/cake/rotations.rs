//! The rotations that a tin's flow queues wait in (DRR++): three rings through one table of links.

use super::hash::QUEUES;
use super::table;

/// The rotations of a tin, in the order in which they are served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rotation {
    /// Flows that have just become active.
    New,
    /// Flows that have used up a quantum.
    Old,
    /// Empty flows whose AQM state decays.
    Decaying,
}

/// Three rings in one table of links. The head of each ring is a link of its own behind those of the queues. A queue
/// in no rotation is a ring of its own, so that moving needs no case distinction. The table is small enough to stay
/// in the first-level cache; the flows themselves would not.
#[derive(Clone, Debug)]
pub struct Rotations {
    links: Box<[Neighbours; LINKS]>,
}

#[derive(Clone, Copy, Debug)]
struct Neighbours {
    previous: u16,
    next: u16,
}

impl Rotations {
    /// All rotations are empty.
    pub fn new() -> Self {
        Self { links: table((0..LINKS).map(Neighbours::alone)) }
    }

    /// The queue that is served next, if any: new flows before old ones and
    /// those before decaying ones, or a decaying one before all others.
    #[inline]
    pub fn first(&self, decaying_first: bool) -> Option<usize> {
        let head = |rotation: Rotation| usize::from(self.links[ring(rotation)].next);
        let decaying = head(Rotation::Decaying);
        if decaying_first && decaying < QUEUES {
            return Some(decaying);
        }
        let (new, old) = (head(Rotation::New), head(Rotation::Old));
        let active = if new < QUEUES { new } else { old };
        let first = if active < QUEUES { active } else { decaying };
        (first < QUEUES).then_some(first)
    }

    /// The queues that wait in `rotation`, the first first.
    pub fn members(&self, rotation: Rotation) -> impl Iterator<Item = usize> {
        let mut at = ring(rotation);
        core::iter::from_fn(move || {
            at = usize::from(self.links[at].next);
            (at < QUEUES).then_some(at)
        })
    }

    /// Queue `index` goes to the end of `rotation`, from wherever it is.
    #[inline]
    pub fn move_to(&mut self, index: usize, rotation: Rotation) {
        self.unlink(index);
        let ring = ring(rotation);
        let last = self.links[ring].previous;
        self.links[ring].previous = index as u16;
        self.links[usize::from(last)].next = index as u16;
        self.links[index] = Neighbours { previous: last, next: ring as u16 };
    }

    /// Removes queue `index` from its rotation.
    #[inline]
    pub fn leave(&mut self, index: usize) {
        self.unlink(index);
        self.links[index] = Neighbours::alone(index);
    }

    #[inline]
    fn unlink(&mut self, index: usize) {
        let Neighbours { previous, next } = self.links[index];
        self.links[usize::from(previous)].next = next;
        self.links[usize::from(next)].previous = previous;
    }
}

impl Neighbours {
    const fn alone(at: usize) -> Self {
        Self { previous: at as u16, next: at as u16 }
    }
}

/// The link in which a ring begins and ends.
const fn ring(rotation: Rotation) -> usize {
    QUEUES + rotation as usize
}

/// A link for each queue and each ring.
const LINKS: usize = QUEUES + 3;
const _: () = assert!(LINKS <= u16::MAX as usize, "links are numbered with 16 bits");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rotations_are_first_in_first_out_in_their_order() {
        let mut rotations = Rotations::new();
        assert_eq!((rotations.first(false), rotations.first(true)), (None, None));
        rotations.move_to(3, Rotation::Old);
        rotations.move_to(4, Rotation::Decaying);
        rotations.move_to(5, Rotation::New);
        rotations.move_to(6, Rotation::New);
        assert_eq!(rotations.first(false), Some(5));
        rotations.move_to(5, Rotation::Old);
        rotations.leave(6);
        assert_eq!((rotations.first(false), rotations.first(true)), (Some(3), Some(4)));
        rotations.leave(3);
        assert_eq!(rotations.first(false), Some(5));
        rotations.leave(5);
        assert_eq!((rotations.first(false), rotations.first(true)), (Some(4), Some(4)));
        rotations.leave(4);
        assert_eq!(rotations.first(true), None);
    }
}
