//! Values that rules have, and that the lists of rules are asked for.

use crate::ip::names::{self, LOOPBACK, invalid};
use crate::words::{Result, Word};
use core::ops::RangeInclusive;
use datapath::fib::InputPort;

pub(super) fn port_of(iif: InputPort) -> u16 {
    match iif {
        InputPort::Loopback => LOOPBACK,
        InputPort::Port(port) => port,
    }
}

/// `MARK` or `MARK/MASK`; a mark of zero alone is no condition (`fib_nl2rule`).
pub(super) fn read_mark(word: Word<'_>) -> Result<Option<(u32, u32)>> {
    let (mark, mask) = match word.text.split_once('/') {
        Some((mark, mask)) => (mark, names::parse_number(mask)),
        None => (word.text, Some(u32::MAX)),
    };
    let read = names::parse_number(mark).zip(mask);
    let (mark, mask) = read.ok_or_else(|| invalid(word, "fwmark value is invalid", None))?;
    let alone = !word.text.contains('/');
    Ok(Some((mark, mask)).filter(|_| mark != 0 || mask != 0 && !alone))
}

/// `PORT` or `FIRST-LAST`.
pub(super) fn read_ports(word: Word<'_>, what: &str) -> Result<RangeInclusive<u16>> {
    let (first, last) = word.text.split_once('-').unwrap_or((word.text, word.text));
    match (first.parse(), last.parse()) {
        (Ok(first), Ok(last)) if first <= last => Ok(first..=last),
        _ => Err(invalid(word, &format!("invalid \"{what}\""), None)),
    }
}
