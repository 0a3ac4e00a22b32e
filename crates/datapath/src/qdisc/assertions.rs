//! What qdiscs assert of themselves when they are checked ([`super::check`]).

use super::Backlog;
use core::cell::RefCell;

/// Asserts that a count of what waits is the sum over what does.
pub(super) fn assert_holds(says: Backlog, holds: Backlog, who: &str) {
    assert_eq!(says, holds, "{who} says and holds");
}

/// Asserts that every flow with packets is in a list, and each in one place of one list at most.
/// `flows` tells of each flow whether it is said to be listed, and whether it has packets.
pub(super) fn assert_lists(
    flows: impl Iterator<Item = (bool, bool)>,
    listed: impl Iterator<Item = u32>,
    who: &str,
) {
    let mut flows_left = flows.enumerate();
    let mut compare = |flow: usize, times: u32| {
        let Some((_, (is_listed, has_packets))) = flows_left.next() else {
            assert!(times == 0, "flow {flow} of {who} is listed, and there is none");
            return false;
        };
        assert_eq!(times, u32::from(is_listed), "times that flow {flow} of {who} is listed");
        assert!(is_listed || !has_packets, "flow {flow} of {who} has packets and is in no list");
        true
    };
    count(listed, |times| {
        let mut at = 0;
        while compare(at, times.get(at).copied().unwrap_or(0)) || at < times.len() {
            at += 1;
        }
    });
}

thread_local! {
    /// Memory for counting, which is kept: checks also run where nothing may be allocated.
    static COUNTS: RefCell<Vec<u32>> = const { RefCell::new(Vec::new()) };
}

/// Counts how often each number comes.
pub(super) fn count(numbers: impl Iterator<Item = u32>, look: impl FnOnce(&[u32])) {
    COUNTS.with_borrow_mut(|counts| {
        counts.clear();
        for number in numbers {
            let number = number as usize;
            if number >= counts.len() {
                counts.resize(number + 1, 0);
            }
            counts[number] += 1;
        }
        look(counts);
    });
}
