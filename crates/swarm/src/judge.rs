//! Runs a case twice under all oracles, and catches panics.

use std::any::Any;
use std::cell::RefCell;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Once;

use crate::case::{Case, Outcome, Violation};

/// Draws the case of a seed and judges it.
pub fn seed<C: Case>(seed: u64) -> Result<Outcome, Violation> {
    match caught(|| C::draw(seed)) {
        Ok(case) => judge(&case),
        Err(violation) => Err(violation),
    }
}

/// Runs a case twice: no oracle may report a violation, and both runs must be equal.
pub fn judge<C: Case>(case: &C) -> Result<Outcome, Violation> {
    let first = once(case)?;
    let second = once(case)?;
    if first == second {
        return Ok(first);
    }
    let what = format!("one run gave {first:x?}, the next one {second:x?}");
    Err(Violation::new("twice the same", "the end", what))
}

/// Runs a case once; a panic is a violation.
pub fn once<C: Case>(case: &C) -> Result<Outcome, Violation> {
    caught(|| case.run()).and_then(|outcome| outcome)
}

fn caught<R>(act: impl FnOnce() -> R) -> Result<R, Violation> {
    static HOOK: Once = Once::new();
    HOOK.call_once(keep_panics_of_cases);
    PANIC.set(Some(String::new()));
    let result = panic::catch_unwind(AssertUnwindSafe(act));
    let message = PANIC.take().unwrap_or_default();
    result.map_err(|payload| match message.split_once('\t') {
        Some((place, what)) => Violation::new("panic", place, what),
        // It came from a thread of the world, which has reported the location itself.
        None => Violation::new("panic", "a thread of the world", text(&*payload)),
    })
}

/// What a panic said.
fn text(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().map(ToString::to_string);
    text.or_else(|| payload.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "no message".to_owned())
}

thread_local! {
    /// Whether a case runs on this thread, and what its panic said: place, tab, message.
    static PANIC: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// The panic of a case is kept for its report; all others are printed as usual.
fn keep_panics_of_cases() {
    let before = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        let is_of_case = PANIC.with_borrow_mut(|kept| {
            let Some(kept) = kept else { return false };
            let place = info.location().map(ToString::to_string).unwrap_or_default();
            *kept = format!("{place}\t{}", info.payload_as_str().unwrap_or("no message"));
            true
        });
        if !is_of_case {
            before(info);
        }
    }));
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::resume_unwind;
    use std::thread;

    #[test]
    fn a_panic_of_a_thread_keeps_its_words() {
        let work = || thread::spawn(|| panic!("sent {} twice", 7)).join();
        let Err(violation) = caught(|| work().unwrap_or_else(|panic| resume_unwind(panic)));
        assert_eq!((violation.oracle, violation.what.as_str()), ("panic", "sent 7 twice"));
    }
}
