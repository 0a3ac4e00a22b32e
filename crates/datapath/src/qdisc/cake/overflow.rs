//! The longest queue of all tins, kept in a heap while the memory limit is being hit.

use super::hash::QUEUES;

/// The most tins an instance can have (`CAKE_MAX_TINS`).
pub const MAX_TINS: usize = 8;

/// A max-heap of all queues by backlog, built at the first overflow and kept up to date for as
/// long as another one is likely.
#[derive(Clone, Debug)]
pub struct Longest {
    heap: Box<[QueueId]>,
    position: Box<[u16]>,
    /// Dequeues until the heap is discarded; 0 = there is none.
    countdown: u16,
}

/// Where a queue is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueId {
    /// Tin, internal index.
    pub tin: u8,
    /// Queue in the tin.
    pub queue: u16,
}

impl QueueId {
    fn index(self) -> usize {
        usize::from(self.tin) * QUEUES + usize::from(self.queue)
    }
}

/// Where the backlogs are looked up.
pub trait Backlogs {
    /// Bytes that wait in the queue at `place`.
    fn backlog(&self, place: QueueId) -> u32;
}

impl Longest {
    /// All queues, in the order the kernel starts from: it decides between equals.
    pub fn new() -> Self {
        let place =
            |at: usize| QueueId { tin: (at % MAX_TINS) as u8, queue: (at / MAX_TINS) as u16 };
        let heap: Box<[QueueId]> = (0..MAX_TINS * QUEUES).map(place).collect();
        let mut position = vec![0; heap.len()].into_boxed_slice();
        for (at, place) in heap.iter().enumerate() {
            position[place.index()] = at as u16;
        }
        Self { heap, position, countdown: 0 }
    }

    /// The longest queue.
    pub fn longest(&mut self, backlogs: &impl Backlogs) -> QueueId {
        if self.countdown == 0 {
            for at in (0..=self.heap.len() / 2).rev() {
                self.sift_down(at, backlogs);
            }
        }
        self.countdown = u16::MAX;
        self.heap[0]
    }

    /// The queue at `place` has grown.
    pub fn grown(&mut self, place: QueueId, backlogs: &impl Backlogs) {
        if self.countdown != 0 {
            self.sift_up(usize::from(self.position[place.index()]), backlogs);
        }
    }

    /// The queue at `place` has shrunk.
    pub fn shrunk(&mut self, place: QueueId, backlogs: &impl Backlogs) {
        if self.countdown != 0 {
            self.sift_down(usize::from(self.position[place.index()]), backlogs);
        }
    }

    /// True unless the queue at `place`, which has become shorter, is still the first, and one right
    /// below it is longer.
    pub fn has_sunk(&self, place: QueueId, backlogs: &impl Backlogs) -> bool {
        let is_longer = |&below: &QueueId| backlogs.backlog(below) > backlogs.backlog(place);
        self.heap[0] != place || !self.heap[1..=2].iter().any(is_longer)
    }

    /// The queue at the root is empty: the heap is rebuilt the next time, from
    /// its present order.
    pub fn distrust(&mut self) {
        self.countdown = 0;
    }

    /// A packet was sent: overflows may be over.
    pub fn sent(&mut self) {
        self.countdown = self.countdown.saturating_sub(1);
    }

    /// Moves the entry at `at` down (`cake_heapify`). The kernel continues to compare with the backlog
    /// that it has moved up, not with the one that moves down. So an entry rarely moves further than
    /// one level, and the root need not be a longest queue.
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

    struct Table(Vec<u32>);

    impl Backlogs for Table {
        fn backlog(&self, place: QueueId) -> u32 {
            self.0[place.index()]
        }
    }

    /// The queue that is `at` in a new heap.
    fn nth(at: usize) -> QueueId {
        QueueId { tin: (at % MAX_TINS) as u8, queue: (at / MAX_TINS) as u16 }
    }

    fn table(backlogs: &[u32]) -> Table {
        let mut table = Table(vec![0; MAX_TINS * QUEUES]);
        for (at, &backlog) in backlogs.iter().enumerate() {
            table.0[nth(at).index()] = backlog;
        }
        table
    }

    #[test]
    fn a_new_heap_finds_the_longest_queue() {
        let table = table(&[10, 90, 20, 80, 100]);
        assert_eq!(Longest::new().longest(&table), nth(4));
    }

    #[test]
    fn a_queue_that_grows_rises_to_the_top() {
        let mut table = table(&[50, 40, 30, 20, 10]);
        let mut heap = Longest::new();
        heap.longest(&table);
        table.0[nth(4).index()] = 60;
        heap.grown(nth(4), &table);
        assert_eq!(heap.longest(&table), nth(4));
    }

    /// The root sinks below its longer child and stops there, though a grandchild is longer: the
    /// next to be chosen is not the longest.
    #[test]
    fn a_queue_that_shrinks_sinks_one_level_only() {
        let mut table = table(&[100, 90, 10, 80]);
        let mut heap = Longest::new();
        assert_eq!(heap.longest(&table), nth(0));
        for (at, next) in [(0, 1), (1, 2)] {
            table.0[nth(at).index()] = 0;
            heap.shrunk(nth(at), &table);
            assert_eq!(heap.longest(&table), nth(next));
        }
        assert_eq!(table.backlog(nth(3)), 80, "which waits below an empty one");
        // What sets it right begins from this order, which decides between equals.
        heap.distrust();
        table.0[nth(2).index()] = 80;
        table.0[nth(3).index()] = 80;
        assert_eq!(heap.longest(&table), nth(2));
    }
}
