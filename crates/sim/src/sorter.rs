//! A bucket sort for keys that are about evenly distributed.

/// Working memory of the sort.
#[derive(Debug, Default)]
pub(crate) struct Sorter<T> {
    /// The unsorted items.
    before: Vec<T>,
    /// How many items there are up to each bucket.
    counts: Vec<u32>,
}

/// Fewer items are sorted by comparing.
const FEW: usize = 32;

impl<T: Copy> Sorter<T> {
    /// Sorts by key, stably. Each item goes to one of about as many buckets as there are items, by its
    /// key, and the items of one bucket are compared.
    #[inline]
    pub fn sort(&mut self, items: &mut [T], key: impl Fn(&T) -> u64) {
        if items.len() < FEW {
            return items.sort_by_key(key);
        }
        let keys = items.iter().map(&key);
        let (least, most) =
            keys.fold((u64::MAX, 0), |(least, most), key| (least.min(key), most.max(key)));
        let bits = (most - least).checked_ilog2().map_or(1, |log| log + 1);
        let shift = bits.saturating_sub(items.len().ilog2());
        let part = |item: &T| ((key(item) - least) >> shift) as usize;
        let Self { before, counts } = self;
        counts.clear();
        counts.resize(((most - least) >> shift) as usize + 2, 0);
        for item in &*items {
            counts[part(item) + 1] += 1;
        }
        let mut sum = 0;
        for count in &mut *counts {
            sum += *count;
            *count = sum;
        }
        before.clear();
        before.extend_from_slice(items);
        for item in &*before {
            let place = &mut counts[part(item)];
            items[*place as usize] = *item;
            *place += 1;
        }
        // Each count has become the end of its bucket.
        let mut begin = 0;
        for end in &*counts {
            let end = *end as usize;
            if end - begin > 1 {
                items[begin..end].sort_by_key(&key);
            }
            begin = end;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn items_are_sorted_and_equal_ones_keep_their_order(
            keys in prop::collection::vec(any::<u64>(), 0..300), shift in 0u32..64
        ) {
            let mut items: Vec<(u64, u32)> = keys.iter().map(|key| key >> shift).zip(0..).collect();
            let mut expected = items.clone();
            expected.sort_by_key(|item| item.0);
            Sorter::default().sort(&mut items, |item| item.0);
            prop_assert_eq!(items, expected);
        }
    }
}
