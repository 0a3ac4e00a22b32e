//! Shrinks a failing case: the simplest one found that still fails in the same way.

use crate::case::{Case, Violation};
use crate::judge::judge;

/// Tries simpler cases as long as one of them fails with the same oracle, at most `tries` runs. Returns the simplest
/// one and its violation.
pub fn shrink<C: Case>(case: C, violation: Violation, mut tries: u32) -> (C, Violation) {
    let (mut best, mut broken) = (case, violation);
    'simpler: loop {
        for candidate in best.simpler() {
            if tries == 0 {
                return (best, broken);
            }
            tries -= 1;
            if let Err(found) = judge(&candidate)
                && is_same(&found, &broken)
            {
                (best, broken) = (candidate, found);
                continue 'simpler;
            }
        }
        return (best, broken);
    }
}

/// Two violations count as the same fault if the same oracle reported them; panics, if they have the same location.
fn is_same(one: &Violation, other: &Violation) -> bool {
    one.oracle == other.oracle && (one.oracle != "panic" || one.at == other.at)
}

/// The list without a half, a quarter, … a single element, the shortest lists first.
pub fn without_parts<T: Clone>(list: &[T]) -> Vec<Vec<T>> {
    let mut shorter = Vec::new();
    let mut size = list.len().div_ceil(2);
    while size > 0 {
        // The end is left out first: what happens after a failure is never needed.
        let mut end = list.len();
        while end > 0 {
            let begin = end.saturating_sub(size);
            let rest = list[..begin].iter().chain(&list[end..]).cloned().collect();
            shorter.push(rest);
            end = begin;
        }
        size /= 2;
    }
    shorter
}

/// The list with one element replaced by a plainer one, in the order of the elements.
pub fn with_plainer<T: Clone>(list: &[T], plainer: impl Fn(&T) -> Vec<T>) -> Vec<Vec<T>> {
    let mut all = Vec::new();
    for (place, element) in list.iter().enumerate() {
        for plainer in plainer(element) {
            let mut list = list.to_vec();
            list[place] = plainer;
            all.push(list);
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_element_after_the_other_becomes_plainer() {
        let halves = |number: &i32| if *number > 1 { vec![number / 2, 1] } else { Vec::new() };
        let plainer = with_plainer(&[4, 1, 6], halves);
        assert_eq!(plainer, [[2, 1, 6], [1, 1, 6], [4, 1, 3], [4, 1, 1]]);
    }

    #[test]
    fn parts_are_left_out_from_the_end_and_become_smaller() {
        let shorter = without_parts(&[1, 2, 3, 4]);
        let wanted: Vec<Vec<i32>> = vec![
            vec![1, 2],
            vec![3, 4],
            vec![1, 2, 3],
            vec![1, 2, 4],
            vec![1, 3, 4],
            vec![2, 3, 4],
        ];
        assert_eq!(shorter, wanted);
        assert!(without_parts::<i32>(&[]).is_empty());
    }
}
