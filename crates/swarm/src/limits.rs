//! Numbers of a case file that are larger than any that a seed draws.
//!
//! A case counts in 64 bits, and what carries it out multiplies and adds up: a time of 9·10¹⁸ µs fits into the file, not
//! into an [`Instant`](datapath::units::Instant). That would be a panic, and look like a finding.

use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// The greatest number, with either sign, that may stand at a key, whatever table it is in; in a list each of them.
pub type Limit = (&'static str, u64);

/// A day in µs: no seed draws a time of more than an hour.
pub const DAY_US: u64 = 86_400_000_000;

/// A day in ns.
pub const DAY_NS: u64 = DAY_US * 1_000;

/// More bytes than anything sends: a TiB.
pub const MOST_BYTES: u64 = 1 << 40;

/// The first number of a document that is beyond its limit: where it begins, and what to say of it.
pub fn first_beyond(document: &DeTable<'_>, limits: &[Limit]) -> Option<(usize, String)> {
    let found = document.iter().filter_map(|(key, value)| beyond(key.get_ref(), value, limits));
    found.min_by_key(|(at, _)| *at)
}

fn beyond(key: &str, value: &Spanned<DeValue<'_>>, limits: &[Limit]) -> Option<(usize, String)> {
    match value.get_ref() {
        DeValue::Table(table) => first_beyond(table, limits),
        DeValue::Array(list) => list.iter().find_map(|value| beyond(key, value, limits)),
        DeValue::Integer(number) => {
            let (_, limit) = limits.iter().find(|(name, _)| *name == key)?;
            // What has more than 64 bits is refused when the case is read.
            let number = i128::from_str_radix(number.as_str(), number.radix()).ok()?;
            let what = format!("no seed draws such a case: {key} is at most {limit}");
            (number.unsigned_abs() > (*limit).into()).then(|| (value.span().start, what))
        }
        DeValue::String(_) | DeValue::Float(_) | DeValue::Boolean(_) | DeValue::Datetime(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use crate::case::Case;
    use crate::{Kind, file, with_case};

    fn few_are_read<C: Case>() {
        for seed in 0..30 {
            let text = file::write(&C::draw(seed), "drawn");
            file::read::<C>(&text).unwrap_or_else(|fault| panic!("{} {seed}: {fault}", C::KIND));
        }
    }

    #[test]
    fn what_seeds_draw_is_within_the_limits() {
        for kind in Kind::ALL {
            with_case!(kind, few_are_read());
        }
    }
}
