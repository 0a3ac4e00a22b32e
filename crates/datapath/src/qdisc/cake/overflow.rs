//! The longest queue of all tins, kept in a heap while the memory limit is being hit.

use super::hash::QUEUES;

/// The most tins an instance can have (`CAKE_MAX_TINS`).
pub const MAX_TINS: usize = 8;

/// A max-heap of all queues by backlog, built at the first overflow and kept up to date for as
/// long as another one is likely.
#[derive(Clone, Debug)]
pub struct Longest {
    heap: Box<[Place]>,
    position: Box<[u16]>,
    /// Dequeues until the heap is forgotten; 0 = it is.
    countdown: u16,
}

/// Where a queue is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Tin, internal index.
    pub tin: u8,
    /// Queue in the tin.
    pub queue: u16,
}

impl Place {
    fn index(self) -> usize {
        usize::from(self.tin) * QUEUES + usize::from(self.queue)
    }
}

/// Where the backlogs are looked up.
pub trait Backlogs {
    /// Bytes that wait in the queue at `place`.
    fn backlog(&self, place: Place) -> u32;
}

impl Longest {
    /// All queues, in the order the kernel starts from: it decides between equals.
    pub fn new() -> Self {
        let place = |at: usize| Place { tin: (at % MAX_TINS) as u8, queue: (at / MAX_TINS) as u16 };
        let heap: Box<[Place]> = (0..MAX_TINS * QUEUES).map(place).collect();
        let mut position = vec![0; heap.len()].into_boxed_slice();
        for (at, place) in heap.iter().enumerate() {
            position[place.index()] = at as u16;
        }
        Self { heap, position, countdown: 0 }
    }

    /// The longest queue.
    pub fn longest(&mut self, backlogs: &impl Backlogs) -> Place {
        if self.countdown == 0 {
            for at in (0..=self.heap.len() / 2).rev() {
                self.sift_down(at, backlogs);
            }
        }
        self.countdown = u16::MAX;
        self.heap[0]
    }

    /// The queue at `place` has grown.
    pub fn grown(&mut self, place: Place, backlogs: &impl Backlogs) {
        if self.countdown != 0 {
            self.sift_up(usize::from(self.position[place.index()]), backlogs);
        }
    }

    /// The queue at `place` has shrunk.
    pub fn shrunk(&mut self, place: Place, backlogs: &impl Backlogs) {
        if self.countdown != 0 {
            self.sift_down(usize::from(self.position[place.index()]), backlogs);
        }
    }

    /// A packet was sent: overflows may be over.
    pub fn sent(&mut self) {
        self.countdown = self.countdown.saturating_sub(1);
    }

    fn sift_down(&mut self, mut at: usize, backlogs: &impl Backlogs) {
        let mut largest = backlogs.backlog(self.heap[at]);
        loop {
            let mut best = at;
            for child in [2 * at + 1, 2 * at + 2] {
                if let Some(&place) = self.heap.get(child) {
                    let backlog = backlogs.backlog(place);
                    if backlog > largest {
                        (best, largest) = (child, backlog);
                    }
                }
            }
            if best == at {
                return;
            }
            self.swap(at, best);
            at = best;
            largest = backlogs.backlog(self.heap[at]);
        }
    }

    fn sift_up(&mut self, mut at: usize, backlogs: &impl Backlogs) {
        let backlog = backlogs.backlog(self.heap[at]);
        while at > 0 {
            let parent = (at - 1) / 2;
            if backlog <= backlogs.backlog(self.heap[parent]) {
                return;
            }
            self.swap(at, parent);
            at = parent;
        }
    }

    fn swap(&mut self, a: usize, b: usize) {
        self.heap.swap(a, b);
        self.position[self.heap[a].index()] = a as u16;
        self.position[self.heap[b].index()] = b as u16;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    struct Table(Vec<u32>);

    impl Backlogs for Table {
        fn backlog(&self, place: Place) -> u32 {
            self.0[place.index()]
        }
    }

    proptest! {
        /// Whatever grows and shrinks, the heap's choice is a longest queue.
        #[test]
        fn finds_a_longest_queue(
            changes in prop::collection::vec((0u8..8, 0u16..1024, 0u32..5000), 1..60),
        ) {
            let mut table = Table(vec![0; MAX_TINS * QUEUES]);
            let mut heap = Longest::new();
            for (tin, queue, backlog) in changes {
                let place = Place { tin, queue };
                let old = core::mem::replace(&mut table.0[place.index()], backlog);
                if backlog > old {
                    heap.grown(place, &table);
                } else {
                    heap.shrunk(place, &table);
                }
                let longest = heap.longest(&table);
                prop_assert_eq!(Some(&table.backlog(longest)), table.0.iter().max());
            }
        }
    }
}
