//! Classes that wait for their tokens, in the order in which they have them (`wait_pq`).

use super::class::Index;

/// What waits at one level: a heap in which each class knows its place, so that it can be taken out.
#[derive(Clone, Debug, Default)]
pub(super) struct WaitQueue {
    heap: Vec<Waiting>,
    /// How many have come, so that equals leave in the order in which they came.
    came: u64,
}

/// One of them, ordered by time, then by when it came.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Waiting {
    until: i64,
    came: u64,
    class: Index,
}

/// The place of each class in its heap; that of one that does not wait means nothing.
pub(super) type Places = Vec<u32>;

impl WaitQueue {
    /// The first one, and until when it waits.
    pub fn first(&self) -> Option<(Index, i64)> {
        self.heap.first().map(|first| (first.class, first.until))
    }

    pub fn insert(&mut self, class: Index, until: i64, places: &mut Places) {
        self.came += 1;
        self.heap.push(Waiting { until, came: self.came, class });
        self.rise(self.heap.len() - 1, places);
    }

    /// Takes out `class`, which waits here.
    pub fn remove(&mut self, class: Index, places: &mut Places) {
        let place = places[class as usize] as usize;
        debug_assert_eq!(self.heap[place].class, class, "it waits here");
        self.heap.swap_remove(place);
        if place < self.heap.len() {
            self.rise(place, places);
            self.sink(place, places);
        }
    }

    pub fn clear(&mut self) {
        self.heap.clear();
    }

    /// True if `class` waits here.
    pub fn holds(&self, class: Index, places: &Places) -> bool {
        let place = places[class as usize] as usize;
        self.heap.get(place).is_some_and(|waiting| waiting.class == class)
    }

    pub fn len(&self) -> usize {
        self.heap.len()
    }

    fn rise(&mut self, mut place: usize, places: &mut Places) {
        while place > 0 && self.heap[place] < self.heap[(place - 1) / 2] {
            let above = (place - 1) / 2;
            self.heap.swap(place, above);
            self.note(place, places);
            place = above;
        }
        self.note(place, places);
    }

    fn sink(&mut self, mut place: usize, places: &mut Places) {
        loop {
            let below = 2 * place + 1;
            let least = (below..self.heap.len().min(below + 2)).min_by_key(|at| self.heap[*at]);
            let Some(least) = least.filter(|least| self.heap[*least] < self.heap[place]) else {
                break;
            };
            self.heap.swap(place, least);
            self.note(place, places);
            place = least;
        }
        self.note(place, places);
    }

    fn note(&self, place: usize, places: &mut Places) {
        places[self.heap[place].class as usize] = place as u32;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Whatever comes and is taken out, the first is the one with the least time, of equals the one that came first.
        #[test]
        fn the_first_is_the_least(
            steps in prop::collection::vec((0u32..20, 0i64..8), 1..200),
        ) {
            let (mut queue, mut places) = (WaitQueue::default(), vec![0; 20]);
            let mut model: Vec<(i64, usize, Index)> = Vec::new();
            for (nth, (class, until)) in steps.into_iter().enumerate() {
                let known = model.iter().position(|(.., it)| *it == class);
                prop_assert_eq!(queue.holds(class, &places), known.is_some());
                if let Some(known) = known {
                    model.remove(known);
                    queue.remove(class, &mut places);
                } else {
                    model.push((until, nth, class));
                    queue.insert(class, until, &mut places);
                }
                let first = model.iter().min().map(|(until, _, class)| (*class, *until));
                prop_assert_eq!(queue.first(), first);
                prop_assert_eq!(queue.len(), model.len());
            }
        }
    }
}
