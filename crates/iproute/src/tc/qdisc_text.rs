//! The output of one qdisc, and what its parts are put together by.

use crate::units::show_time;
use core::fmt;
use datapath::units::Duration;
use serde_json::{Map, Value, json};

/// The output of one qdisc that depends on its kind.
#[derive(Debug, Default)]
pub(super) struct QdiscText {
    /// The options in the first line; with a space at the end where tc prints one.
    pub options: String,
    /// The `options` object.
    pub options_json: Map<String, Value>,
    /// The kind's own statistics: whole lines.
    pub stats: String,
    /// The same in JSON.
    pub stats_json: Map<String, Value>,
}

/// Appends formatted text: a string takes all.
pub(super) trait Push {
    /// Appends `text`.
    fn push_fmt(&mut self, text: fmt::Arguments<'_>);
}

impl Push for String {
    fn push_fmt(&mut self, text: fmt::Arguments<'_>) {
        fmt::Write::write_fmt(self, text).expect("a string takes all");
    }
}

/// A JSON object from pairs.
pub(super) fn map<const N: usize>(pairs: [(&str, Value); N]) -> Map<String, Value> {
    pairs.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
}

/// A time that the kernel gives in µs, as tc prints it.
pub(super) fn show_micros(micros: u32) -> String {
    show_time(Duration::from_micros(u64::from(micros)))
}

/// A number in JSON as C's `%g` prints it.
pub(super) fn six_digits(value: f64) -> Value {
    json!(format!("{value:.5e}").parse::<f64>().expect("a number"))
}
