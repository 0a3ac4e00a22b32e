//! A fuzzer's input as a case.

use crate::case::Case;
use crate::draw::Draw;
use crate::file;
use crate::judge::{judge, once};

/// Judges the case that a fuzzer's bytes stand for, as `any` draws it. Of eight lengths of input one runs
/// twice.
///
/// # Panics
/// A law was broken: the message says which, and gives the case as a file.
pub fn bytes<C: Case>(bytes: &[u8], any: impl Fn(&mut Draw) -> C) {
    let case = any(&mut Draw::of_bytes(bytes));
    let judged = if bytes.len().is_multiple_of(8) { judge(&case) } else { once(&case) };
    if let Err(violation) = judged {
        panic!("{violation}\n{}", file::write(&case, &violation.to_string()));
    }
}
