//! Whole numbers, each of which may be absent, in little memory: experiments with many flows hold
//! hundreds of millions of them.

use std::ops::Range;

/// The values of a column of a time series.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Samples(Storage);

/// By the smallest kind of number that all of them fit in.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Storage {
    Short(Vec<u16>),
    Narrow(Vec<u32>),
    Wide(Vec<Option<i64>>),
}

/// In place of a value that is not known, where values are handed over as numbers.
pub const ABSENT: i64 = i64::MIN;

/// A kind of number, of which the largest stands where there is none.
trait SampleInteger: Copy + Eq + TryFrom<i64> + Into<i64> {
    const ABSENT: Self;

    /// The low bits of a value.
    fn low_bits(value: i64) -> Self;

    /// The value, if it fits.
    #[inline]
    fn of(value: Option<i64>) -> Option<Self> {
        let Some(value) = value else { return Some(Self::ABSENT) };
        Self::try_from(value).ok().filter(|small| *small != Self::ABSENT)
    }

    #[inline]
    fn value(self) -> Option<i64> {
        (self != Self::ABSENT).then_some(self.into())
    }
}

impl SampleInteger for u16 {
    const ABSENT: Self = Self::MAX;

    #[inline]
    fn low_bits(value: i64) -> Self {
        value as Self
    }
}

impl SampleInteger for u32 {
    const ABSENT: Self = Self::MAX;

    #[inline]
    fn low_bits(value: i64) -> Self {
        value as Self
    }
}

/// Adds a value if it fits.
#[inline]
fn push<T: SampleInteger>(values: &mut Vec<T>, value: Option<i64>) -> bool {
    T::of(value).map(|small| values.push(small)).is_some()
}

/// Adds all values if all are known and fit, else none. That is so if the bits of all together are fewer than those of the
/// number for an absent one, which is one comparison instead of two for each.
#[inline]
fn extend_small<T: SampleInteger>(kept: &mut Vec<T>, values: &[i64]) -> bool {
    let bits = values.iter().fold(0, |bits, value| bits | value);
    let all_fit = (0..T::ABSENT.into()).contains(&bits);
    if all_fit {
        kept.extend(values.iter().map(|value| T::low_bits(*value)));
    }
    all_fit
}

/// Known values as they are, and in `levels` for each whether it is there, as Parquet wants it.
fn split_small<T: SampleInteger>(kept: &[T], known: &mut Vec<i64>, levels: &mut Vec<i16>) {
    if kept.contains(&T::ABSENT) {
        known.extend(kept.iter().filter_map(|small| small.value()));
        levels.extend(kept.iter().map(|small| i16::from(*small != T::ABSENT)));
    } else {
        known.extend(kept.iter().map(|small| (*small).into()));
        levels.resize(levels.len() + kept.len(), 1);
    }
}

impl Storage {
    /// Adds values up to the first that does not fit, which it gives back.
    #[inline]
    fn extend(&mut self, mut values: impl Iterator<Item = Option<i64>>) -> Result<(), Option<i64>> {
        let large = match self {
            Self::Short(kept) => values.find(|value| !push(kept, *value)),
            Self::Narrow(kept) => values.find(|value| !push(kept, *value)),
            Self::Wide(kept) => {
                kept.extend(values);
                None
            }
        };
        large.map_or(Ok(()), Err)
    }

    /// The same values, where larger ones fit, and as much room.
    #[cold]
    fn widened(&self) -> Self {
        match self {
            Self::Short(values) => {
                let mut narrow = Vec::with_capacity(values.capacity());
                let widened = |short: &u16| short.value().map_or(u32::ABSENT, |value| value as u32);
                narrow.extend(values.iter().map(widened));
                Self::Narrow(narrow)
            }
            Self::Narrow(values) => {
                let mut wide = Vec::with_capacity(values.capacity());
                wide.extend(values.iter().map(|narrow| narrow.value()));
                Self::Wide(wide)
            }
            Self::Wide(_) => unreachable!("all values fit there"),
        }
    }
}

impl Samples {
    /// None, and room for so many.
    pub fn with_capacity(count: usize) -> Self {
        Self(Storage::Short(Vec::with_capacity(count)))
    }

    /// Adds a value.
    pub fn push(&mut self, value: Option<i64>) {
        self.extend([value]);
    }

    /// Adds values, of which those that are `i64::MIN` (`ABSENT`) are not known.
    pub fn extend_present(&mut self, values: &[i64]) {
        let all_fit = match &mut self.0 {
            Storage::Short(kept) => extend_small(kept, values),
            Storage::Narrow(kept) => extend_small(kept, values),
            Storage::Wide(_) => false,
        };
        if !all_fit {
            self.extend(values.iter().map(|value| (*value != ABSENT).then_some(*value)));
        }
    }

    /// Adds those that are known to `known`, and to `levels` for each whether it is: 1, or 0.
    pub fn split(&self, known: &mut Vec<i64>, levels: &mut Vec<i16>) {
        match &self.0 {
            Storage::Short(kept) => split_small(kept, known, levels),
            Storage::Narrow(kept) => split_small(kept, known, levels),
            Storage::Wide(kept) => {
                known.extend(kept.iter().flatten());
                levels.extend(kept.iter().map(|value| i16::from(value.is_some())));
            }
        }
    }

    /// How many there are, absent ones too.
    pub fn len(&self) -> usize {
        match &self.0 {
            Storage::Short(values) => values.len(),
            Storage::Narrow(values) => values.len(),
            Storage::Wide(values) => values.len(),
        }
    }

    /// There are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The value at a place.
    ///
    /// # Panics
    /// Behind the last one.
    pub fn at(&self, place: usize) -> Option<i64> {
        match &self.0 {
            Storage::Short(values) => values[place].value(),
            Storage::Narrow(values) => values[place].value(),
            Storage::Wide(values) => values[place],
        }
    }

    /// All of them.
    pub fn iter(
        &self,
    ) -> impl ExactSizeIterator<Item = Option<i64>> + DoubleEndedIterator + Clone + '_ {
        self.range(0..self.len())
    }

    /// Those at these places.
    pub fn range(
        &self,
        places: Range<usize>,
    ) -> impl ExactSizeIterator<Item = Option<i64>> + DoubleEndedIterator + Clone + '_ {
        places.map(|place| self.at(place))
    }
}

impl Default for Storage {
    fn default() -> Self {
        Self::Short(Vec::new())
    }
}

impl FromIterator<Option<i64>> for Samples {
    fn from_iter<I: IntoIterator<Item = Option<i64>>>(values: I) -> Self {
        let values = values.into_iter();
        let mut all = Self::with_capacity(values.size_hint().0);
        all.extend(values);
        all
    }
}

impl Extend<Option<i64>> for Samples {
    fn extend<I: IntoIterator<Item = Option<i64>>>(&mut self, values: I) {
        let mut values = values.into_iter();
        while let Err(large) = self.0.extend(&mut values) {
            self.0 = self.0.widened();
            self.push(large);
        }
    }
}

impl From<Vec<Option<i64>>> for Samples {
    fn from(values: Vec<Option<i64>>) -> Self {
        values.into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_survives_a_round_trip() {
        let [short, narrow] = [i64::from(u16::MAX), i64::from(u32::MAX)];
        let edges = [0, 1, short - 1, short, short + 1, narrow - 1, narrow, narrow + 1];
        let each = edges.into_iter().chain([-1, i64::MIN, i64::MAX]).map(Some).chain([None]);
        for odd in each {
            // The kind changes twice at most, and what was there before stays.
            for first in [None, Some(70_000), Some(-7)] {
                let given = vec![first, Some(7), None, odd, Some(0), None];
                let kept = Samples::from(given.clone());
                assert_eq!(kept.iter().collect::<Vec<_>>(), given);
                assert_eq!(kept.range(1..4).collect::<Vec<_>>(), given[1..4]);
                assert_eq!((kept.len(), kept.at(3)), (6, odd));
                let numbers = given.iter().map(|value| value.unwrap_or(ABSENT));
                let mut at_once = Samples::default();
                at_once.extend_present(&numbers.clone().collect::<Vec<_>>());
                let known = numbers.map(|number| (number != ABSENT).then_some(number));
                assert!(at_once.iter().eq(known));
                let (mut there, mut levels) = (vec![9], vec![9]);
                kept.split(&mut there, &mut levels);
                assert!(there[1..].iter().eq(given.iter().flatten()));
                assert!(
                    levels[1..]
                        .iter()
                        .eq(given.iter().map(|it| &[0, 1][usize::from(it.is_some())]))
                );
                let all_below =
                    |most| given.iter().flatten().all(|value| (0..most).contains(value));
                assert_eq!(matches!(kept.0, Storage::Short(_)), all_below(short));
                assert_eq!(matches!(kept.0, Storage::Wide(_)), !all_below(narrow));
            }
        }
        assert!(Samples::from(Vec::new()).is_empty());
    }
}
