//! Orders that are drawn.

use datapath::rng::Rng;

/// The numbers below `count` in an order that is drawn (Fisher and Yates).
pub fn shuffled(count: usize, rng: &mut Rng) -> Vec<usize> {
    let mut order: Vec<usize> = (0..count).collect();
    for last in (1..count).rev() {
        order.swap(last, rng.below(last as u64 + 1) as usize);
    }
    order
}

/// One circle through all numbers below `count`, in an order that is drawn: which one follows each.
pub fn circle(count: usize, rng: &mut Rng) -> Vec<usize> {
    let order = shuffled(count, rng);
    let mut next = vec![0; count];
    for (place, &from) in order.iter().enumerate() {
        next[from] = order[(place + 1) % count];
    }
    next
}
