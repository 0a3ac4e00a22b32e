//! Draws: values that every repetition draws for itself.

use datapath::rng::Rng;

use super::Value;
use crate::plan::doc::{Document, Key, Kind, Node, Origin};
use crate::plan::read::Faults;
use crate::plan::{Diagnostics, quantity};

/// A value that every repetition draws for itself.
#[derive(Clone, Debug, PartialEq)]
pub struct Draw {
    path: String,
    range: Range,
    stream: u64,
    /// Where it is written: what is wrong with a drawn value is told there.
    at: Origin,
}

/// What a draw chooses from.
#[derive(Clone, Debug, PartialEq)]
enum Range {
    /// Times, both ends included, in ns.
    Time(u64, u64),
    /// Whole numbers, both ends included.
    Whole(i64, i64),
    /// One of these.
    Choice(Vec<Node>),
    /// Of a distribution, with the bounds between which what is drawn stays.
    Spread { shape: Shape, least: u64, most: u64, time: bool },
}

/// Distributions; parameters in ns, or plain numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Shape {
    /// With this mean.
    Exponential(f64),
    /// From this smallest value on, with this shape.
    Pareto(f64, f64),
    /// With this mean and standard deviation.
    Normal(f64, f64),
}

/// Reads `[draw]`: `key = { uniform = [low, high] }` or `key = { choice = [values] }`.
pub(crate) fn read_draws(document: &Document) -> Result<Vec<Draw>, Diagnostics> {
    let faults = Faults::new(document);
    let mut draws = Vec::new();
    if let Some(table) = document.root.get("draw") {
        match &table.kind {
            Kind::Table(entries) => {
                for (index, (key, node)) in entries.iter().enumerate() {
                    draws.extend(draw(index, key, node, &faults));
                }
            }
            _ => faults.add(&table.at, "[draw] must be a table", None),
        }
    }
    let list = faults.into_sorted();
    if list.is_empty() { Ok(draws) } else { Err(Diagnostics(list)) }
}

fn draw(index: usize, key: &Key, node: &Node, faults: &Faults<'_>) -> Option<Draw> {
    let list = |name: &str| match node.get(name).map(|node| &node.kind) {
        Some(Kind::List(items)) if !items.is_empty() => Some(items.as_slice()),
        _ => None,
    };
    let range = match (list("uniform"), list("choice")) {
        (Some([low, high]), None) => uniform(low, high),
        (None, Some(items)) => Some(Range::Choice(items.to_vec())),
        (None, None) => spread(node),
        _ => None,
    };
    if range.is_none() {
        let message = "a draw is { uniform = [low, high] }, { exponential = mean }, \
                       { pareto = [least, shape] } or { normal = [mean, deviation] } of times or \
                       whole numbers, or { choice = [values] }";
        let help = "beside a distribution, \"least\" and \"most\" are bounds";
        faults.add(&node.at, message, Some(help.into()));
    }
    let stream = STREAM_BASE + index as u64;
    Some(Draw { path: key.name.clone(), range: range?, stream, at: node.at.clone() })
}

fn uniform(low: &Node, high: &Node) -> Option<Range> {
    match (&low.kind, &high.kind) {
        (Kind::Int(low), Kind::Int(high)) if low <= high => Some(Range::Whole(*low, *high)),
        (Kind::Text(low), Kind::Text(high)) => {
            let (low, high) = (quantity::time(low).ok()?, quantity::time(high).ok()?);
            (low <= high).then(|| Range::Time(low.as_nanos(), high.as_nanos()))
        }
        _ => None,
    }
}

/// A time in ns, or a number; and which.
fn amount(node: &Node) -> Option<(f64, bool)> {
    match &node.kind {
        Kind::Int(number) if *number >= 0 => Some((*number as f64, false)),
        Kind::Text(text) => Some((quantity::time(text).ok()?.as_nanos() as f64, true)),
        _ => None,
    }
}

/// `{ exponential = mean }`, `{ pareto = [least, shape] }` or `{ normal = [mean, deviation] }`.
fn spread(node: &Node) -> Option<Range> {
    let Kind::Table(entries) = &node.kind else { return None };
    let known = |(key, _): &(Key, Node)| ["least", "most"].contains(&key.name.as_str());
    let mut distributions = entries.iter().filter(|entry| !known(entry));
    let (Some((key, of)), None) = (distributions.next(), distributions.next()) else { return None };
    let items = match &of.kind {
        Kind::List(items) => items.as_slice(),
        _ => std::slice::from_ref(of),
    };
    let plain = |node: &Node| match &node.kind {
        Kind::Int(number) => Some(*number as f64),
        Kind::Float(number) => Some(*number),
        _ => None,
    };
    // Without bounds of its own a distribution ends where what lies beyond is one in a million or less.
    let (shape, least, most, time) = match (key.name.as_str(), items) {
        ("exponential", [mean]) => {
            let (mean, time) = amount(mean).filter(|(mean, _)| *mean > 0.0)?;
            (Shape::Exponential(mean), 0.0, 14.0 * mean, time)
        }
        ("pareto", [least, shape]) => {
            let (least, time) = amount(least).filter(|(least, _)| *least > 0.0)?;
            let shape = plain(shape).filter(|shape| (0.1..=1e3).contains(shape))?;
            (Shape::Pareto(least, shape), least, least * libm::pow(1e6, 1.0 / shape), time)
        }
        ("normal", [mean, deviation]) => {
            let (mean, time) = amount(mean)?;
            let (deviation, other) = amount(deviation)?;
            if time != other {
                return None;
            }
            let (low, high) = (mean - 5.0 * deviation, mean + 5.0 * deviation);
            (Shape::Normal(mean, deviation), low.max(0.0), high, time)
        }
        _ => return None,
    };
    let bound = |name: &str, otherwise: f64| match node.get(name) {
        None => Some(otherwise),
        Some(node) => amount(node).filter(|(_, kind)| *kind == time).map(|(value, _)| value),
    };
    let (least, most) = (bound("least", least)?, bound("most", most)?);
    // Whole numbers that floating point holds exactly.
    let whole = |value: f64| (value <= 9e15).then_some(value.round() as u64);
    let (least, most) = (whole(least)?, whole(most.min(9e15))?);
    (least <= most).then_some(Range::Spread { shape, least, most, time })
}

impl Shape {
    /// A value; `libm` is written out, so that it is the same on every machine.
    fn draw(self, rng: &mut Rng) -> f64 {
        // Above 0, at most 1.
        let mut unit = || ((rng.next_u64() >> 11) + 1) as f64 / (1u64 << 53) as f64;
        match self {
            Self::Exponential(mean) => -mean * libm::log(unit()),
            Self::Pareto(least, shape) => least * libm::pow(unit(), -1.0 / shape),
            // Box and Muller, 1958.
            Self::Normal(mean, deviation) => {
                let radius = libm::sqrt(-2.0 * libm::log(unit()));
                mean + deviation * radius * libm::cos(core::f64::consts::TAU * unit())
            }
        }
    }
}

/// The random streams of draws, apart from those of links and hosts.
const STREAM_BASE: u64 = 1 << 48;

impl Draw {
    /// The smallest value that can be drawn.
    pub(crate) fn lowest(&self) -> Value {
        match &self.range {
            Range::Time(low, _) => self.time(*low),
            Range::Whole(low, _) => self.whole(*low),
            Range::Choice(items) => self.item(&items[0]),
            Range::Spread { least, time, .. } => self.amount(*least, *time),
        }
    }

    /// The largest value that can be drawn.
    pub(crate) fn highest(&self) -> Value {
        match &self.range {
            Range::Time(_, high) => self.time(*high),
            Range::Whole(_, high) => self.whole(*high),
            Range::Choice(items) => self.item(&items[items.len() - 1]),
            Range::Spread { most, time, .. } => self.amount(*most, *time),
        }
    }

    /// The value that belongs to a run with `seed`.
    pub(crate) fn value(&self, seed: u64) -> Value {
        let mut rng = Rng::stream(seed, self.stream);
        match &self.range {
            Range::Time(low, high) => self.time(low + rng.below((high - low).saturating_add(1))),
            Range::Whole(low, high) => {
                let width = high.abs_diff(*low).saturating_add(1);
                self.whole(low.wrapping_add_unsigned(rng.below(width)))
            }
            Range::Choice(items) => self.item(&items[rng.below(items.len() as u64) as usize]),
            Range::Spread { shape, least, most, time } => {
                let value = shape.draw(&mut rng).round().clamp(*least as f64, *most as f64);
                self.amount(value as u64, *time)
            }
        }
    }

    fn amount(&self, value: u64, time: bool) -> Value {
        if time { self.time(value) } else { self.whole(value as i64) }
    }

    fn time(&self, nanos: u64) -> Value {
        self.make(Kind::Text(format!("{nanos}ns")))
    }

    fn whole(&self, number: i64) -> Value {
        self.make(Kind::Int(number))
    }

    fn item(&self, node: &Node) -> Value {
        Value { path: self.path.clone(), node: node.clone() }
    }

    fn make(&self, kind: Kind) -> Value {
        Value { path: self.path.clone(), node: Node { kind, at: self.at.clone() } }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(words: &str) -> Option<Vec<f64>> {
        let text = format!("[draw]\nx = {words}\n");
        let draw = read_draws(&Document::parse("d.toml", &text).unwrap()).ok()?.remove(0);
        let number = |value: Value| match value.node.kind {
            Kind::Int(number) => number as f64,
            Kind::Text(text) => quantity::time(&text).unwrap().as_nanos() as f64,
            _ => unreachable!("times and whole numbers"),
        };
        let (low, high) = (number(draw.lowest()), number(draw.highest()));
        let values: Vec<f64> = (0..20_000).map(|seed| number(draw.value(seed))).collect();
        assert!(values.iter().all(|value| (low..=high).contains(value)), "{words}");
        Some(values)
    }

    #[test]
    fn distributions_have_their_moments() {
        for (words, mean, deviation) in [
            ("{ exponential = \"20ms\" }", 20e6, 20e6),
            ("{ exponential = 1000 }", 1_000.0, 1_000.0),
            ("{ normal = [\"20ms\", \"2ms\"] }", 20e6, 2e6),
            // Mean shape / (shape - 1), deviation mean / sqrt(shape (shape - 2)).
            ("{ pareto = [1000, 5] }", 1_250.0, 322.7),
            ("{ uniform = [0, 1000] }", 500.0, 288.7),
        ] {
            let values = drawn(words).unwrap();
            let found = values.iter().sum::<f64>() / values.len() as f64;
            assert!((found / mean - 1.0).abs() < 0.03, "{words}: {found}");
            let squares: f64 = values.iter().map(|value| (value - found).powi(2)).sum();
            let found = (squares / values.len() as f64).sqrt();
            assert!((found / deviation - 1.0).abs() < 0.06, "{words}: {found}");
        }
        let bounded = drawn("{ exponential = 1000, least = 500, most = 800 }").unwrap();
        assert!(bounded.contains(&500.0) && bounded.contains(&800.0));
    }

    #[test]
    fn odd_draws_are_refused() {
        for words in [
            "{ exponential = 0 }",
            "{ normal = [\"1ms\", 5] }",
            "{ pareto = [1000] }",
            "{ pareto = [1000, 0] }",
            "{ exponential = 5, normal = [1, 1] }",
            "{ exponential = \"1ms\", most = 7 }",
            "{ exponential = 5, least = 8, most = 7 }",
            "{ gamma = 5 }",
            "7",
        ] {
            assert_eq!(drawn(words), None, "{words}");
        }
    }
}
