//! The random choices that one seed makes.

use core::ops::RangeInclusive;
use datapath::rng::Rng;

/// Draws a case: every choice comes from one seeded stream, or from a fuzzer's bytes.
#[derive(Clone, Debug)]
pub struct Draw(Source);

#[derive(Clone, Debug)]
enum Source {
    Seed(Rng),
    /// The remaining bytes; zeros follow.
    Bytes(std::vec::IntoIter<u8>),
}

impl Draw {
    /// The choices of a seed; `stream` distinguishes parts of a case, so that an additional choice in one part
    /// does not change the others.
    pub fn new(seed: u64, stream: u64) -> Self {
        Self(Source::Seed(Rng::stream(seed, stream)))
    }

    /// The choices that these bytes encode, small ones in a single byte; at their end, the first alternative of each
    /// choice.
    pub fn of_bytes(bytes: &[u8]) -> Self {
        Self(Source::Bytes(Vec::from(bytes).into_iter()))
    }

    /// A number below `bound`, which is not zero.
    fn below(&mut self, bound: u64) -> u64 {
        match &mut self.0 {
            Source::Seed(rng) => rng.below(bound),
            Source::Bytes(bytes) => {
                let bits = u64::BITS - (bound - 1).leading_zeros();
                next_number(bytes, bits.div_ceil(8)) % bound
            }
        }
    }

    /// True with a probability in percent.
    pub fn percent(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// A number from the range, all equally likely.
    pub fn range(&mut self, range: RangeInclusive<u64>) -> u64 {
        let (from, to) = range.into_inner();
        match (to - from).checked_add(1) {
            Some(count) => from + self.below(count),
            None => self.bits(),
        }
    }

    /// A number from the range, uniform in the number of bits, so that small ones are as likely as large ones.
    pub fn log_range(&mut self, range: RangeInclusive<u64>) -> u64 {
        let (from, to) = range.into_inner();
        let bits = self.range(0..=u64::from(64 - (to - from).leading_zeros()));
        let span = if bits == 64 { u64::MAX } else { (1 << bits) - 1 };
        from + self.range(0..=span.min(to - from))
    }

    /// One of these.
    pub fn one_of<'a, T>(&mut self, choices: &'a [T]) -> &'a T {
        &choices[self.below(choices.len() as u64) as usize]
    }

    /// One of these, each as likely as its weight says.
    pub fn weighted<'a, T>(&mut self, choices: &'a [(u32, T)]) -> &'a T {
        let total: u64 = choices.iter().map(|(weight, _)| u64::from(*weight)).sum();
        let mut left = self.below(total);
        for (weight, choice) in choices {
            match left.checked_sub(u64::from(*weight)) {
                Some(rest) => left = rest,
                None => return choice,
            }
        }
        unreachable!("less than the sum of the weights was drawn")
    }

    /// Something in so many cases of a hundred.
    pub fn maybe<T>(&mut self, percent: u64, make: impl FnOnce(&mut Self) -> T) -> Option<T> {
        self.percent(percent).then(|| make(self))
    }

    /// So many things; fewer when a fuzzer's bytes are used up.
    pub fn many<T>(&mut self, count: u64, mut one: impl FnMut(&mut Self) -> T) -> Vec<T> {
        (0..count).map_while(|_| (!self.is_spent()).then(|| one(self))).collect()
    }

    /// Whether a fuzzer's bytes are used up, so that only the first of each choice would follow.
    pub fn is_spent(&self) -> bool {
        matches!(&self.0, Source::Bytes(bytes) if bytes.as_slice().is_empty())
    }

    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        match &mut self.0 {
            Source::Seed(rng) => rng.next_u64(),
            Source::Bytes(bytes) => next_number(bytes, 8),
        }
    }
}

/// The next so many bytes as a number.
fn next_number(bytes: &mut std::vec::IntoIter<u8>, count: u32) -> u64 {
    (0..count).fold(0, |number, _| number << 8 | u64::from(bytes.next().unwrap_or(0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_reach_both_ends() {
        let mut draw = Draw::new(1, 0);
        let seen: Vec<u64> = (0..200).map(|_| draw.range(3..=5)).collect();
        assert!([3, 4, 5].iter().all(|value| seen.contains(value)), "{seen:?}");
        assert!(seen.iter().all(|value| (3..=5).contains(value)));
        let spread: Vec<u64> = (0..2_000).map(|_| draw.log_range(10..=1_000_000)).collect();
        assert!(spread.iter().all(|value| (10..=1_000_000).contains(value)));
        assert!(spread.contains(&10) && spread.iter().any(|value| *value > 500_000));
        assert_eq!(draw.log_range(9..=9), 9);
    }

    #[test]
    fn bytes_stand_for_choices_and_end_in_zeros() {
        let mut draw = Draw::of_bytes(&[7, 1, 0, 9]);
        assert_eq!((draw.range(0..=99), draw.range(10..=999), draw.range(5..=14)), (7, 266, 14));
        assert_eq!((draw.range(3..=5), draw.bits(), draw.percent(1)), (3, 0, true));
        assert_eq!(draw.range(0..=0), 0, "no choice takes no byte");
    }

    #[test]
    fn no_more_is_drawn_than_the_bytes_provide() {
        let mut draw = Draw::of_bytes(&[3, 1, 4]);
        assert_eq!(draw.many(600, |draw| draw.range(0..=9)), [3, 1, 4]);
        assert!(draw.is_spent());
        assert_eq!(Draw::new(1, 0).many(600, |draw| draw.range(0..=9)).len(), 600);
    }

    #[test]
    fn weights_count() {
        let mut draw = Draw::new(2, 0);
        let choices = [(0, 'a'), (1, 'b'), (9, 'c')];
        let drawn: Vec<char> = (0..1_000).map(|_| *draw.weighted(&choices)).collect();
        let count = |wanted| drawn.iter().filter(|one| **one == wanted).count();
        assert_eq!(count('a'), 0);
        assert!((50..200).contains(&count('b')), "{}", count('b'));
    }
}
