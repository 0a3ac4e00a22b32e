//! How vectors grow of which there may be very many, or which may be most of the memory.

/// Makes room for one more by a quarter of what is there, and by `least` at least: a vector that doubles
/// is a third empty as a rule.
#[inline]
pub(crate) fn reserve_one<T>(items: &mut Vec<T>, least: usize) {
    if items.len() == items.capacity() {
        items.reserve_exact((items.len() / 4).max(least));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quarter_is_the_most_that_is_empty() {
        let mut items = Vec::new();
        let mut capacities = Vec::new();
        for item in 0..20u8 {
            reserve_one(&mut items, 2);
            items.push(item);
            capacities.push(items.capacity());
        }
        capacities.dedup();
        assert_eq!(capacities, [2, 4, 6, 8, 10, 12, 15, 18, 22]);
    }
}
