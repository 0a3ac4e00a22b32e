//! `pfifo`, `bfifo`, `pfifo_head_drop`: `[ limit NUMBER ]`.

use crate::units::size;
use crate::words::{Result, Words};

/// Reads the limit: packets or bytes, which tc reads alike (`64k` packets are 65536).
pub(super) fn parse(words: &mut Words<'_>, kind: &str) -> Result<Option<u32>> {
    let mut limit = None;
    while let Some(word) = words.next() {
        match word.text {
            "limit" => limit = Some(size(words.value(word)?, "limit")?),
            _ => return Err(word.unknown(kind, &["limit"])),
        }
    }
    Ok(limit)
}
