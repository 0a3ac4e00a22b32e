//! Draws: values that every repetition draws for itself.

use datapath::rng::Rng;

use super::{Value, is_setting};
use crate::plan::doc::{Document, Key, Kind, Node, Origin, unquoted};
use crate::plan::read::Faults;
use crate::plan::{Diagnostics, quantity};

/// A value that every repetition draws for itself.
#[derive(Clone, Debug, PartialEq)]
pub struct Draw {
    path: String,
    range: Range,
    stream: u64,
    /// Where it is written: errors of a drawn value are reported there.
    at: Origin,
}

/// What a draw chooses from.
#[derive(Clone, Debug, PartialEq)]
enum Range {
    /// Numbers, both ends included.
    Uniform(u64, u64, Unit),
    /// Whole numbers that may be below 0, both ends included.
    Whole(i64, i64),
    /// One of these.
    Choice(Vec<Node>),
    /// Of a distribution, with the bounds between which what is drawn stays.
    Distribution { shape: Shape, least: u64, most: u64, unit: Unit },
}

/// What is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unit {
    /// Nanoseconds.
    Time,
    /// Bit/s.
    Rate,
    /// Plain numbers.
    Whole,
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
                    let draw = draw(index, key, node, &faults);
                    draws.extend(draw.filter(|draw| fits_samples(draw, document, &faults)));
                }
            }
            _ => faults.add(&table.at, "[draw] must be a table", None),
        }
    }
    let list = faults.into_sorted();
    if list.is_empty() { Ok(draws) } else { Err(Diagnostics(list)) }
}

fn draw(index: usize, key: &Key, node: &Node, faults: &Faults<'_>) -> Option<Draw> {
    if !is_setting(key, "repetitions", faults) {
        return None;
    }
    let range = match range(node) {
        Ok(range) => range,
        Err((at, message)) => {
            faults.add(at, message, Some(FORMS.into()));
            return None;
        }
    };
    let stream = STREAM_BASE + index as u64;
    Some(Draw { path: unquoted(&key.name), range, stream, at: node.at.clone() })
}

/// "steps" is a multiple of "sample", so beside the other one each is chosen from a list, of which every value is
/// checked.
fn fits_samples(draw: &Draw, document: &Document, faults: &Faults<'_>) -> bool {
    let other = match draw.path.as_str() {
        "measure.sample" => "steps",
        "measure.steps" => "sample",
        _ => return true,
    };
    let is_given = document.root.get("measure").is_some_and(|measure| measure.get(other).is_some());
    let fits = !is_given || matches!(draw.range, Range::Choice(_));
    if !fits {
        let message = "\"steps\" must be a multiple of \"sample\", which not every drawn value is";
        faults.add(&draw.at, message, Some("choose from a list: { choice = [values] }".into()));
    }
    fits
}

/// What a draw may be.
const FORMS: &str = "a draw is { uniform = [low, high] }, { exponential = mean }, { pareto = [least, shape] } or \
                     { normal = [mean, deviation] } of times, rates or whole numbers, with \"least\" and \"most\" as \
                     bounds beside the last three, or { choice = [values] }";

/// A fault of a draw: its position, and what is wrong.
type DrawFault<'a> = (&'a Origin, String);

fn range(node: &Node) -> Result<Range, DrawFault<'_>> {
    let Kind::Table(entries) = &node.kind else {
        return Err((&node.at, format!("expected a draw, found {}", node.type_name())));
    };
    let is_bound = |(key, _): &&(Key, Node)| ["least", "most"].contains(&key.name.as_str());
    let mut named = entries.iter().filter(|entry| !is_bound(entry));
    let (Some((key, of)), None) = (named.next(), named.next()) else {
        return Err((&node.at, "a draw has exactly one distribution".into()));
    };
    let items = match &of.kind {
        Kind::List(items) => items.as_slice(),
        _ => std::slice::from_ref(of),
    };
    let bound = entries.iter().find(is_bound);
    match (key.name.as_str(), bound) {
        ("uniform" | "choice", Some((key, _))) => {
            Err((&key.at, format!("\"{}\" bounds distributions without ends", key.name)))
        }
        ("choice", None) if items.is_empty() => Err((&of.at, "there is nothing to choose".into())),
        ("choice", None) => Ok(Range::Choice(items.to_vec())),
        ("uniform", None) => match items {
            [low, high] => uniform(low, high),
            _ => Err((&of.at, "\"uniform\" is a list of the lowest and the highest value".into())),
        },
        (name, _) => spread(node, name, of, items),
    }
}

fn uniform<'a>(low: &'a Node, high: &'a Node) -> Result<Range, DrawFault<'a>> {
    if let (Kind::Int(low), Kind::Int(most)) = (&low.kind, &high.kind) {
        if low > most {
            return Err((&high.at, format!("{most} is below {low}")));
        }
        return Ok(Range::Whole(*low, *most));
    }
    let ((least, unit), (most, other)) = (amount(low)?, amount(high)?);
    if unit != other {
        return Err((
            &high.at,
            "both ends are of one kind: both times, both rates, or both whole numbers".into(),
        ));
    }
    if least > most {
        return Err((&high.at, format!("{} is below {}", high.plain(), low.plain())));
    }
    Ok(Range::Uniform(least, most, unit))
}

/// A time in ns, a rate in bit/s, or a number from 0 on; and which.
fn amount(node: &Node) -> Result<(u64, Unit), DrawFault<'_>> {
    match &node.kind {
        Kind::Int(number) if *number >= 0 => Ok((number.unsigned_abs(), Unit::Whole)),
        Kind::Text(text) => match (quantity::time(text), quantity::rate(text)) {
            (Ok(time), _) => Ok((time.as_nanos(), Unit::Time)),
            (_, Ok(rate)) => Ok((rate.bits_per_sec(), Unit::Rate)),
            _ => Err((&node.at, format!("\"{text}\" is neither a time nor a rate"))),
        },
        _ => Err((
            &node.at,
            "this is neither a time, nor a rate, nor a whole number from 0 on".into(),
        )),
    }
}

/// `{ exponential = mean }`, `{ pareto = [least, shape] }` or `{ normal = [mean, deviation] }`.
fn spread<'a>(
    node: &'a Node,
    name: &str,
    of: &'a Node,
    items: &'a [Node],
) -> Result<Range, DrawFault<'a>> {
    let above_zero = |node: &'a Node| match amount(node)? {
        (0, _) => Err((&node.at, "this must be above 0".to_owned())),
        (value, unit) => Ok((value as f64, unit)),
    };
    // Without bounds of its own a distribution ends where what lies beyond is one in a million or less.
    let (shape, least, most, unit) = match (name, items) {
        ("exponential", [mean]) => {
            let (mean, unit) = above_zero(mean)?;
            (Shape::Exponential(mean), 0.0, 14.0 * mean, unit)
        }
        ("pareto", [least, shape]) => {
            let (least, unit) = above_zero(least)?;
            let shape = pareto_shape(shape)?;
            (Shape::Pareto(least, shape), least, least * libm::pow(1e6, 1.0 / shape), unit)
        }
        ("normal", [mean, deviation]) => {
            let ((mean, unit), (width, other)) = (amount(mean)?, amount(deviation)?);
            if unit != other {
                let message = "a deviation is of the same kind as its mean";
                return Err((&deviation.at, message.into()));
            }
            let (mean, width) = (mean as f64, width as f64);
            let (low, high) = (mean - 5.0 * width, mean + 5.0 * width);
            (Shape::Normal(mean, width), low.max(0.0), high, unit)
        }
        ("exponential", _) => {
            return Err((&of.at, "\"exponential\" has one value, the mean".into()));
        }
        ("pareto", _) => {
            return Err((&of.at, "\"pareto\" is a list of the least value and the shape".into()));
        }
        ("normal", _) => {
            return Err((&of.at, "\"normal\" is a list of the mean and the deviation".into()));
        }
        _ => return Err((&node.at, format!("no distribution is called \"{name}\""))),
    };
    let bound = |name: &str, otherwise: f64| match node.get(name) {
        None => Ok(otherwise),
        Some(node) => match amount(node)? {
            (value, kind) if kind == unit => Ok(value as f64),
            _ => Err((&node.at, format!("\"{name}\" is of another kind than what is drawn"))),
        },
    };
    // A rate of 0 sends nothing.
    let least = bound("least", least.max(f64::from(u8::from(unit == Unit::Rate))))?;
    let most = bound("most", most)?;
    // Whole numbers that floating point holds exactly.
    if least > 9e15 {
        return Err((&node.at, "these numbers are too large".into()));
    }
    if least > most {
        return Err((&node.at, "\"least\" is above the most that can be drawn".into()));
    }
    let (least, most) = (least.round() as u64, most.min(9e15).round() as u64);
    Ok(Range::Distribution { shape, least, most, unit })
}

fn pareto_shape(node: &Node) -> Result<f64, DrawFault<'_>> {
    let shape = match &node.kind {
        Kind::Int(number) => *number as f64,
        Kind::Float(number) => *number,
        _ => f64::NAN,
    };
    if !(0.1..=1e3).contains(&shape) {
        return Err((&node.at, "the shape of a Pareto distribution must be 0.1 to 1000".into()));
    }
    Ok(shape)
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
    /// How many values there are between which all others lie: both ends, or all there is to choose from.
    pub(crate) fn corners(&self) -> usize {
        if let Range::Choice(items) = &self.range { items.len() } else { 2 }
    }

    /// One of them, from the smallest on; the last where there are fewer.
    pub(crate) fn corner(&self, index: usize) -> Value {
        match &self.range {
            Range::Choice(items) => self.item(&items[index.min(items.len() - 1)]),
            Range::Whole(low, high) => self.whole(if index == 0 { *low } else { *high }),
            Range::Uniform(low, high, unit)
            | Range::Distribution { least: low, most: high, unit, .. } => {
                self.amount(if index == 0 { *low } else { *high }, *unit)
            }
        }
    }

    /// The value that belongs to a run with `seed`.
    pub(crate) fn value(&self, seed: u64) -> Value {
        let mut rng = Rng::stream(seed, self.stream);
        match &self.range {
            Range::Uniform(low, high, unit) => {
                self.amount(low + rng.below((high - low).saturating_add(1)), *unit)
            }
            Range::Whole(low, high) => {
                let width = high.abs_diff(*low).saturating_add(1);
                self.whole(low.wrapping_add_unsigned(rng.below(width)))
            }
            Range::Choice(items) => self.item(&items[rng.below(items.len() as u64) as usize]),
            Range::Distribution { shape, least, most, unit } => {
                let value = shape.draw(&mut rng).round().clamp(*least as f64, *most as f64);
                self.amount(value as u64, *unit)
            }
        }
    }

    fn amount(&self, value: u64, unit: Unit) -> Value {
        self.make(match unit {
            Unit::Time => Kind::Text(format!("{value}ns")),
            Unit::Rate => Kind::Text(format!("{value}bit")),
            Unit::Whole => Kind::Int(value as i64),
        })
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

    fn read(words: &str) -> Result<Draw, String> {
        let text = format!("[draw]\nx = {words}\n");
        let draws = read_draws(&Document::parse("d.toml", &text).unwrap());
        draws.map(|mut draws| draws.remove(0)).map_err(|faults| faults.to_string())
    }

    fn drawn(words: &str) -> Vec<f64> {
        let draw = read(words).unwrap();
        let number = |value: Value| match value.node.kind {
            Kind::Int(number) => number as f64,
            Kind::Text(text) => quantity::time(&text).map_or_else(
                |_| quantity::rate(&text).unwrap().bits_per_sec() as f64,
                |time| time.as_nanos() as f64,
            ),
            _ => unreachable!("times, rates and whole numbers"),
        };
        let (low, high) = (number(draw.corner(0)), number(draw.corner(1)));
        let values: Vec<f64> = (0..20_000).map(|seed| number(draw.value(seed))).collect();
        assert!(values.iter().all(|value| (low..=high).contains(value)), "{words}");
        values
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
            ("{ uniform = [\"10mbit\", \"20mbit\"] }", 15e6, 2.887e6),
            ("{ normal = [\"1gbit\", \"50mbit\"] }", 1e9, 50e6),
        ] {
            let values = drawn(words);
            let found = values.iter().sum::<f64>() / values.len() as f64;
            assert!((found / mean - 1.0).abs() < 0.03, "{words}: {found}");
            let squares: f64 = values.iter().map(|value| (value - found).powi(2)).sum();
            let found = (squares / values.len() as f64).sqrt();
            assert!((found / deviation - 1.0).abs() < 0.06, "{words}: {found}");
        }
        let bounded = drawn("{ exponential = 1000, least = 500, most = 800 }");
        assert!(bounded.contains(&500.0) && bounded.contains(&800.0));
    }

    #[test]
    fn odd_draws_are_refused_at_their_place() {
        for (words, what) in [
            ("{ exponential = 0 }", "d.toml:2:21: this must be above 0; a draw is"),
            ("{ exponential = [1, 2] }", "has one value, the mean"),
            (
                "{ normal = [\"1ms\", 5] }",
                "d.toml:2:24: a deviation is of the same kind as its mean",
            ),
            ("{ normal = [5, -1] }", "d.toml:2:20: this is neither a time"),
            ("{ pareto = [1000] }", "the least value and the shape"),
            ("{ pareto = [1000, 0] }", "d.toml:2:23: the shape of a Pareto distribution"),
            ("{ exponential = 5, normal = [1, 1] }", "one distribution"),
            ("{ exponential = \"1ms\", most = 7 }", "\"most\" is of another kind"),
            ("{ exponential = 5, least = 8, most = 7 }", "above the most"),
            ("{ uniform = [\"30ms\", \"20ms\"] }", "d.toml:2:26: 20ms is below 30ms"),
            ("{ uniform = [\"30ms\", \"20mbit\"] }", "both times"),
            ("{ uniform = [7, 5] }", "5 is below 7"),
            ("{ uniform = [7] }", "the lowest and the highest"),
            ("{ uniform = [7, 8], most = 9 }", "\"most\" bounds distributions without ends"),
            ("{ choice = [] }", "nothing to choose"),
            ("{ gamma = 5 }", "no distribution is called \"gamma\""),
            ("7", "d.toml:2:5: expected a draw, found a whole number"),
        ] {
            let told = read(words).unwrap_err();
            assert!(told.contains(what), "{words}: {told}");
        }
    }

    #[test]
    fn samples_and_steps_stay_multiples() {
        for (text, fits) in [
            ("draw.\"measure.sample\" = { uniform = [\"1ms\", \"20ms\"] }", true),
            (
                "measure.steps = \"10s\"\ndraw.\"measure.sample\" = { uniform = [\"1ms\", \"20ms\"] }",
                false,
            ),
            ("measure.sample = \"3ms\"\ndraw.\"measure.steps\" = { exponential = \"1s\" }", false),
            (
                "measure.steps = \"10s\"\ndraw.\"measure.sample\" = { choice = [\"1ms\", \"20ms\"] }",
                true,
            ),
        ] {
            let document = Document::parse("d.toml", text).expect("valid TOML");
            let told = read_draws(&document).map_err(|faults| faults.to_string());
            let place = "\"steps\" must be a multiple of \"sample\", which not";
            assert!(
                told.as_ref().map_or_else(
                    |it| it.starts_with("d.toml:2:2") && it.contains(place) && !fits,
                    |_| fits
                ),
                "{text}: {told:?}"
            );
        }
    }
}
