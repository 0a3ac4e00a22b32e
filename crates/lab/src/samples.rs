//! Whole numbers, each of which may be absent, in little memory: experiments with many flows hold
//! hundreds of millions of them.

use std::ops::Range;

/// The values of a column of a time series.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Samples(Kept);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Kept {
    /// Less than [`ABSENT`] each, and that where there is none.
    Narrow(Vec<u32>),
    /// There is one that is negative or larger.
    Wide(Vec<Option<i64>>),
}

/// In place of a narrow value that is absent.
const ABSENT: u32 = u32::MAX;

impl Samples {
    /// None, and room for so many.
    pub fn with_capacity(count: usize) -> Self {
        Self(Kept::Narrow(Vec::with_capacity(count)))
    }

    /// Adds a value.
    pub fn push(&mut self, value: Option<i64>) {
        let narrow = value.map_or(Some(ABSENT), |value| {
            u32::try_from(value).ok().filter(|value| *value != ABSENT)
        });
        match (&mut self.0, narrow) {
            (Kept::Narrow(values), Some(narrow)) => values.push(narrow),
            (Kept::Wide(values), _) => values.push(value),
            (Kept::Narrow(values), None) => {
                let mut wide = Vec::with_capacity(values.capacity());
                wide.extend(values.iter().map(|value| widened(*value)));
                wide.push(value);
                self.0 = Kept::Wide(wide);
            }
        }
    }

    /// How many there are, absent ones too.
    pub fn len(&self) -> usize {
        match &self.0 {
            Kept::Narrow(values) => values.len(),
            Kept::Wide(values) => values.len(),
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
            Kept::Narrow(values) => widened(values[place]),
            Kept::Wide(values) => values[place],
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

fn widened(value: u32) -> Option<i64> {
    (value != ABSENT).then_some(value.into())
}

impl Default for Kept {
    fn default() -> Self {
        Self::Narrow(Vec::new())
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
        values.into_iter().for_each(|value| self.push(value));
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
    fn every_value_comes_back_as_it_was() {
        let most = i64::from(u32::MAX);
        let each = [0, 1, most - 1, most, most + 1, -1, i64::MIN, i64::MAX].map(Some);
        for odd in each.into_iter().chain([None]) {
            let given = vec![Some(7), None, odd, Some(0), None];
            let kept = Samples::from(given.clone());
            assert_eq!(kept.iter().collect::<Vec<_>>(), given);
            assert_eq!(kept.range(1..3).collect::<Vec<_>>(), given[1..3]);
            assert_eq!((kept.len(), kept.at(2)), (5, odd));
            let is_narrow = odd.is_none_or(|value| (0..most).contains(&value));
            assert_eq!(matches!(kept.0, Kept::Narrow(_)), is_narrow);
        }
        assert!(Samples::from(Vec::new()).is_empty());
    }
}
