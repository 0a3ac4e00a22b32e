//! Links that change: `schedule` (in the file, as CSV or as JSON) and `trace` (Mahimahi's files), and
//! losses that come in bursts.

use std::path::Path;
use std::sync::Arc;

use datapath::qdisc::netem::{Chance, Correlated, Gemodel, Loss};
use datapath::units::{Duration, Rate};
use sim::loss::GuestLoss;
use sim::schedule::{OPPORTUNITY, Schedule};

use super::doc::{Kind, Node};
use super::limits::{SCHEDULE_MAX, TIME_MAX};
use super::network::Direction;
use super::quantity;
use super::read::{Faults, Reader};
use crate::input;
use crate::registry::Registry;

/// A moment from which on a link has another rate or delay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Step {
    at: Duration,
    rate: Option<Rate>,
    delay: Option<Duration>,
}

/// How the link changes, over what `direction` says of its rate and delay; its rate is then the one of
/// the beginning, or a trace's mean.
pub fn read(table: &mut Reader<'_, '_>, direction: &mut Direction) {
    let period = table.time("schedule_repeat");
    let steps = table.node("schedule").map(|node| steps(node, table));
    let trace = table.text_at("trace");
    if steps.is_none() && trace.is_none() {
        if period.is_some() {
            let place = table.origin_of("schedule_repeat");
            table.faults.add(place, "\"schedule_repeat\" needs a \"schedule\"", None);
        }
        return;
    }
    let fault = |key, message: &str| table.faults.add(table.origin_of(key), message, None);
    let Some(steps) = steps.unwrap_or_else(|| Some(Vec::new())) else { return };
    let delays = delays(&steps, direction.delay);
    if let Some((file, at)) = trace {
        if steps.iter().any(|step| step.rate.is_some()) || period.is_some() {
            return fault("schedule", "a \"trace\" already gives the rate of the link at any time");
        }
        match opportunities(&table.path_beside(file)) {
            Ok((times, mean)) => {
                direction.rate = Some(mean);
                let schedule = Schedule::opportunities(&times).with_delays(&delays);
                direction.schedule = Some(Arc::new(schedule));
            }
            Err(why) => table.faults.add(at, why, None),
        }
        return;
    }
    let mut rates: Vec<(Duration, Rate)> =
        steps.iter().filter_map(|step| Some((step.at, step.rate?))).collect();
    if rates.first().is_some_and(|(at, _)| *at > Duration::ZERO) {
        let Some(rate) = direction.rate else {
            return fault("schedule", "until its first step the link needs a \"rate\"");
        };
        rates.insert(0, (Duration::ZERO, rate));
    }
    if let Some((_, rate)) = rates.first() {
        direction.rate = Some(*rate);
    }
    if let (Some(period), Some(last)) = (period, steps.last())
        && last.at >= period
    {
        return fault("schedule_repeat", "the schedule repeats before its last step");
    }
    direction.schedule = Some(Arc::new(Schedule::new(&rates, &delays, period)));
}

/// The delays of the steps, from time zero on.
fn delays(steps: &[Step], first: Duration) -> Vec<(Duration, Duration)> {
    let mut delays: Vec<(Duration, Duration)> =
        steps.iter().filter_map(|step| Some((step.at, step.delay?))).collect();
    if delays.first().is_some_and(|(at, _)| *at > Duration::ZERO) {
        delays.insert(0, (Duration::ZERO, first));
    }
    delays
}

/// The steps of a list, or of the file that is named. Nothing, and a fault, if they are wrong.
fn steps(node: &Node, table: &Reader<'_, '_>) -> Option<Vec<Step>> {
    let faults = table.faults;
    let steps = match &node.kind {
        Kind::Text(file) => match from_file(&table.path_beside(file)) {
            Ok(steps) => steps,
            Err(why) => {
                faults.add(&node.at, why, None);
                return None;
            }
        },
        Kind::List(items) => items.iter().map(|item| step(item, faults)).collect::<Option<_>>()?,
        _ => {
            let message = "a schedule is a list of { at, rate, delay }, or the name of a file";
            faults.add(&node.at, message, None);
            return None;
        }
    };
    match check(&steps) {
        Ok(()) => Some(steps),
        Err((_, why)) => {
            faults.add(&node.at, why, None);
            None
        }
    }
}

fn step(node: &Node, faults: &Faults<'_>) -> Option<Step> {
    let mut table = Reader::new(node, faults)?;
    table.demand("at");
    let step = Step {
        at: table.time("at").unwrap_or_default(),
        rate: table.rate("rate"),
        delay: table.time("delay"),
    };
    table.finish();
    Some(step)
}

/// What is wrong with the order of steps, and with which one.
fn check(steps: &[Step]) -> Result<(), (usize, String)> {
    if steps.is_empty() {
        return Err((0, "the schedule has no steps".into()));
    }
    if steps.len() > SCHEDULE_MAX {
        return Err((SCHEDULE_MAX, format!("a schedule has at most {SCHEDULE_MAX} steps")));
    }
    for (place, step) in steps.iter().enumerate() {
        if step.rate.is_none() && step.delay.is_none() {
            return Err((place, format!("step {} has neither rate nor delay", place + 1)));
        }
        if place > 0 && steps[place - 1].at >= step.at {
            return Err((place, format!("step {} is not later than the one before", place + 1)));
        }
    }
    Ok(())
}

/// The steps of a file: JSON, a list of objects, or CSV with a head line; `at`, `rate` and `delay` in
/// words, or as numbers of seconds and bit/s.
fn from_file(path: &Path) -> Result<Vec<Step>, String> {
    let name = path.display();
    let text = input::read_text(path).map_err(|error| format!("{name}: {error}"))?;
    let is_json = path.extension().is_some_and(|end| end.eq_ignore_ascii_case("json"));
    let (steps, lines) = if is_json { from_json(&text, &name) } else { from_csv(&text, &name) }?;
    match check(&steps) {
        Ok(()) => Ok(steps),
        Err((place, why)) => match lines.get(place) {
            Some(line) => Err(format!("{name}:{line}: {why}")),
            None => Err(format!("{name}: {why}")),
        },
    }
}

/// Steps, and the line of each where that is known.
type Steps = (Vec<Step>, Vec<u64>);

fn from_json(text: &str, name: &impl std::fmt::Display) -> Result<Steps, String> {
    let value: serde_json::Value =
        serde_json::from_str(text).map_err(|error| format!("{name}: {error}"))?;
    let list = value.as_array().ok_or(format!("{name}: this is not a list of steps"))?;
    let mut steps = Vec::new();
    for (place, item) in list.iter().enumerate() {
        let fault = |why: String| format!("{name}: step {}: {why}", place + 1);
        let entries = item.as_object().ok_or_else(|| fault("this is not an object".into()))?;
        let mut step = Step::default();
        for (key, value) in entries {
            let word = value.as_str().map_or_else(|| value.to_string(), String::from);
            set(&mut step, key, &word).map_err(fault)?;
        }
        if !entries.contains_key("at") {
            return Err(fault("\"at\" is missing".into()));
        }
        steps.push(step);
    }
    Ok((steps, Vec::new()))
}

fn from_csv(text: &str, name: &impl std::fmt::Display) -> Result<Steps, String> {
    let mut reader = input::csv().from_reader(text.as_bytes());
    let head = reader.headers().map_err(|error| format!("{name}: {error}"))?.clone();
    if !head.iter().any(|column| column == "at") {
        return Err(format!("{name}:1: there is no column \"at\" (at, rate, delay)"));
    }
    let (mut steps, mut lines) = (Vec::new(), Vec::new());
    for record in reader.records() {
        let record = record.map_err(|error| format!("{name}: {error}"))?;
        let line = record.position().map_or(0, csv::Position::line);
        let mut step = Step::default();
        for (place, (column, field)) in head.iter().zip(&record).enumerate() {
            if field.is_empty() && column != "at" {
                continue;
            }
            set(&mut step, column, field)
                .map_err(|why| format!("{name}:{line}:{}: {why}", place + 1))?;
        }
        steps.push(step);
        lines.push(line);
    }
    Ok((steps, lines))
}

/// Reads one value of a step from a file.
fn set(step: &mut Step, key: &str, word: &str) -> Result<(), String> {
    let seconds = || {
        let number = word.parse::<f64>().ok();
        let longest = TIME_MAX.as_nanos() as f64 / 1e9;
        match number {
            Some(number) if (0.0..=longest).contains(&number) => {
                Ok(Duration::from_nanos((number * 1e9).round() as u64))
            }
            Some(_) => Err(format!("\"{word}\" is not a time")),
            None => quantity::time(word),
        }
    };
    match key {
        "at" => step.at = seconds()?,
        "delay" => step.delay = Some(seconds()?),
        "rate" => {
            step.rate = Some(match word.parse::<f64>() {
                Ok(number) if (1.0..=1e15).contains(&number) => {
                    Rate::from_bits_per_sec(number.round() as u64)
                }
                Ok(_) => return Err(format!("\"{word}\" is not a rate above 0")),
                Err(_) => quantity::rate(word)?,
            });
        }
        _ => return Err(format!("\"{key}\" is neither \"at\" nor \"rate\" nor \"delay\"")),
    }
    Ok(())
}

/// The times of a Mahimahi trace (a line for each packet of 1500 bytes that may leave: the ms), and the
/// mean rate.
fn opportunities(path: &Path) -> Result<(Vec<Duration>, Rate), String> {
    let name = path.display();
    let text = input::read_text(path).map_err(|error| format!("{name}: {error}"))?;
    let mut times: Vec<Duration> = Vec::new();
    for (line, word) in (1..).zip(text.lines()) {
        let word = word.trim();
        if word.is_empty() {
            continue;
        }
        let millis = word.parse::<u64>().ok().filter(|millis| *millis <= 1_000_000_000);
        let Some(millis) = millis else {
            return Err(format!("{name}:{line}: \"{word}\" is not a number of milliseconds"));
        };
        let at = Duration::from_millis(millis);
        if times.last().is_some_and(|last| *last > at) {
            return Err(format!("{name}:{line}: {millis} is earlier than the line above"));
        }
        if times.len() == SCHEDULE_MAX {
            return Err(format!("{name}:{line}: a trace has at most {SCHEDULE_MAX} lines"));
        }
        times.push(at);
    }
    let Some(period) = times.last().copied().filter(|last| *last > Duration::ZERO) else {
        return Err(format!("{name}: a trace must last for some time"));
    };
    let bits = times.len() as u128 * u128::from(OPPORTUNITY) * 8_000_000_000;
    let mean = (bits / u128::from(period.as_nanos())).max(1) as u64;
    Ok((times, Rate::from_bits_per_sec(mean)))
}

/// `loss`: a share, independent for each packet; `SHARE burst PACKETS`, bursts of that mean length; or
/// netem's `gemodel P [R [1-H [1-K]]]`; or the name of a library user's model and its words.
///
/// # Errors
/// What is wrong.
pub fn loss(text: &str, registry: &Registry) -> Result<LossSetting, String> {
    let words: Vec<&str> = text.split_whitespace().collect();
    if let [name, words @ ..] = words.as_slice()
        && let Some(kind) = registry.loss_model_called(name)
    {
        let guest = kind.read(words).map_err(|why| format!("{name}: {why}"))?;
        return Ok(LossSetting { share: 0, model: Loss::None, guest: Some(guest) });
    }
    let (share, model) = product_loss(text, &words)?;
    Ok(LossSetting { share, model, guest: None })
}

/// The value of `loss`.
#[derive(Clone, Copy, Debug)]
pub struct LossSetting {
    /// Of each packet, millionths.
    pub share: u64,
    /// By a model of netem's.
    pub model: Loss,
    /// By a model of a library user.
    pub guest: Option<GuestLoss>,
}

fn product_loss(text: &str, words: &[&str]) -> Result<(u64, Loss), String> {
    match words {
        ["gemodel", chances @ ..] if (1..=4).contains(&chances.len()) => {
            let chances: Vec<Chance> = chances
                .iter()
                .map(|word| quantity::share(word).map(chance))
                .collect::<Result<_, _>>()?;
            let p = chances[0];
            let r = chances.get(1).copied().unwrap_or(u32::MAX - p);
            let h = chances.get(2).map_or(0, |lost| u32::MAX - lost);
            let k1 = chances.get(3).copied().unwrap_or(0);
            Ok((0, Loss::Gemodel(Gemodel::new(p, r, h, k1))))
        }
        ["gemodel", ..] => Err("\"gemodel\" has one to four shares: P, R, 1-H, 1-K".into()),
        ["random", share] => Ok((quantity::share(share)?, Loss::None)),
        ["random", share, correlation] => {
            let correlated = Correlated::new(chance(quantity::share(correlation)?));
            Ok((0, Loss::Random(chance(quantity::share(share)?), correlated)))
        }
        [share, "burst", length] => bursts(quantity::share(share)?, length),
        _ => Ok((quantity::share(text)?, Loss::None)),
    }
}

/// Simple Gilbert: everything is lost in the bad state, which lasts for `length` packets in the mean.
fn bursts(share: u64, length: &str) -> Result<(u64, Loss), String> {
    let wrong =
        || format!("\"{length}\" is not a mean burst length: 1 to 1000000 packets are allowed");
    let length = length.parse::<f64>().ok().filter(|it| (1.0..=1e6).contains(it));
    let length = length.ok_or_else(wrong)?;
    let lost = share as f64 / 1e6;
    let enter = lost / (1.0 - lost) / length;
    if enter.is_nan() || enter > 1.0 {
        // Between two bursts there is a packet that is not lost.
        let (percent, most) = (lost * 100.0, 100.0 * length / (length + 1.0));
        return Err(format!(
            "bursts of {length} packets lose {most:.4} % at most, not {percent} %"
        ));
    }
    let of = |chance: f64| (chance * f64::from(u32::MAX)).round() as Chance;
    Ok((0, Loss::Gemodel(Gemodel::new(of(enter), of(1.0 / length), 0, 0))))
}

/// `jitter`: a time, and behind it how much that of the packet before goes into it.
///
/// # Errors
/// What is wrong.
pub fn jitter(text: &str) -> Result<(Duration, Chance), String> {
    let words: Vec<&str> = text.split_whitespace().collect();
    match words.as_slice() {
        [time, correlation] => Ok((quantity::time(time)?, chance(quantity::share(correlation)?))),
        _ => Ok((quantity::time(text)?, 0)),
    }
}

/// A share in millionths as netem keeps it.
fn chance(millionths: u64) -> Chance {
    ((millionths * u64::from(u32::MAX) + 500_000) / 1_000_000) as Chance
}
