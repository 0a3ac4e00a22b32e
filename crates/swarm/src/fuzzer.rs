//! Turns a fuzzer's input into a case.

use crate::case::Case;
use crate::draw::Draw;
use crate::file;
use crate::judge::{judge, once};

/// Judges the case that `any` draws from a fuzzer's bytes. One of eight input lengths runs twice.
///
/// # Panics
/// If a law is broken: the message names it, and contains the case as a file.
pub fn bytes<C: Case>(bytes: &[u8], any: impl Fn(&mut Draw) -> C) {
    let case = any(&mut Draw::of_bytes(bytes));
    let judged = if bytes.len().is_multiple_of(8) { judge(&case) } else { once(&case) };
    if let Err(violation) = judged {
        panic!("{violation}\n{}", file::write(&case, &violation.to_string()));
    }
}
