//! The words of `tc` and of congestion controls inside a plan.

use datapath::qdisc::fifo::PfifoFast;
use datapath::qdisc::police::PoliceConfig;
use datapath::qdisc::{Cx, Handle, Sched};
use datapath::rng::Rng;
use datapath::tcp::cc::Algorithm;
use datapath::units::Instant;
use iproute::tc::{self, ClassCommand, Device, FilterCommand, GuestKind, QdiscCommand};
use iproute::words::{GrammarError, Words};

use super::doc::Origin;
use super::habits::{CONGESTION_CONTROL, suggest_value};
use super::read::Faults;

/// The congestion control called `word`.
pub fn congestion_control(word: &str, at: &Origin, faults: &Faults<'_>) -> Option<Algorithm> {
    let registry = &faults.document.registry;
    let found = registry.find_congestion_control(word);
    if found.is_none() {
        let help = suggest_value(CONGESTION_CONTROL, word, registry.congestion_control_names());
        faults.add(at, format!("\"{word}\" is not a valid {CONGESTION_CONTROL}"), help);
    }
    found
}

/// A text of a port's tree: a qdisc, a class of one, or a filter that chooses one of its classes.
enum Part {
    Qdisc(QdiscCommand),
    Class(ClassCommand),
    Filter(FilterCommand),
}

/// Reads a text of a port's tree: `filter …` is what follows `filter add dev DEV`, `class …` what follows
/// `class add dev DEV`.
fn part(text: &str, guests: &[GuestKind]) -> Result<Part, GrammarError> {
    if let Some(rest) = text.strip_prefix("filter ") {
        return added("filter ", rest, tc::parse_filter).map(Part::Filter);
    }
    if let Some(rest) = text.strip_prefix("class ") {
        return added("class ", rest, tc::parse_class).map(Part::Class);
    }
    qdisc(text, guests).map(Part::Qdisc)
}

/// Reads `rest` as what follows `OBJECT add dev DEV`, with errors at their place in `OBJECT rest`.
fn added<T>(
    object: &str,
    rest: &str,
    parse: impl Fn(&str) -> Result<T, GrammarError>,
) -> Result<T, GrammarError> {
    let before = format!("{object}add dev port ");
    parse(&format!("{before}{rest}")).map_err(|error| GrammarError {
        column: (error.column + object.len()).saturating_sub(before.len()),
        ..error
    })
}

/// Reads the text of a qdisc: `KIND OPTIONS`, as after `tc qdisc add dev DEV root`, or what
/// follows `dev DEV` if it begins with `root` or `parent`.
pub fn qdisc(text: &str, guests: &[GuestKind]) -> Result<QdiscCommand, GrammarError> {
    let placed = ["root", "parent"].contains(&text.split_whitespace().next().unwrap_or(""));
    let before = if placed { "qdisc add dev port " } else { "qdisc add dev port root " };
    tc::parse_qdisc_with(&format!("{before}{text}"), guests).map_err(|error| GrammarError {
        column: error.column.saturating_sub(before.len()),
        ..error
    })
}

/// Builds the tree of a port from the texts of its qdiscs, outermost first.
///
/// # Errors
/// When one does not fit: its index, and why.
pub fn qdisc_tree(
    texts: &[String],
    guests: &[GuestKind],
    device: Device,
    rng: &Rng,
) -> Result<Sched, (usize, String)> {
    let mut root = Sched::new(Handle::NONE, PfifoFast::new(device.tx_queue_len));
    let mut dropped = Vec::new();
    for (index, text) in texts.iter().enumerate() {
        let mut cx = Cx { now: Instant::ZERO, dropped: &mut dropped };
        match part(text, guests).map_err(|error| (index, error.to_string()))? {
            Part::Qdisc(command) => {
                let applied = command.apply(&mut root, device, rng.clone(), &mut cx);
                applied.map_err(|refused| (index, refused.to_string()))?;
            }
            Part::Class(class) => {
                let applied = class.apply(&mut root, &mut cx);
                applied.map_err(|refused| (index, refused.to_string()))?;
            }
            Part::Filter(filter) if filter.apply(&mut root) => {}
            Part::Filter(_) => {
                return Err((
                    index,
                    "the filter's parent is not a qdisc that uses filters".to_owned(),
                ));
            }
        }
    }
    Ok(root)
}

/// Checks the texts of a port's qdiscs; true if they are good.
pub fn check_qdiscs(texts: &[(&str, &Origin)], faults: &Faults<'_>) -> bool {
    let mut good = true;
    let guests = faults.document.registry.qdiscs();
    for (text, at) in texts {
        if let Err(error) = part(text, guests) {
            add_grammar_error(text, error, at, faults);
            good = false;
        }
    }
    let owned: Vec<String> = texts.iter().map(|(text, _)| (*text).to_string()).collect();
    let tree = || qdisc_tree(&owned, guests, Device::default(), &Rng::stream(0, 0));
    if good && let Err((index, why)) = tree() {
        faults.add(texts[index].1, why, None);
        good = false;
    }
    good
}

/// Reads the text of a policer: what follows the word `police`.
///
/// # Errors
/// When `tc` would not understand it.
pub fn police(text: &str) -> Result<PoliceConfig, GrammarError> {
    tc::parse_police(&mut Words::new(text))
}

/// Checks the text of a policer.
pub fn check_police(text: &str, at: &Origin, faults: &Faults<'_>) {
    if let Err(error) = police(text) {
        add_grammar_error(text, error, at, faults);
    }
}

/// An error of the grammar at its place in the file.
fn add_grammar_error(text: &str, error: GrammarError, at: &Origin, faults: &Faults<'_>) {
    let before = text.get(..error.column).unwrap_or(text);
    let help = error.nearest.map(|word| format!("did you mean \"{word}\"?"));
    faults.add_in_text(at, before.chars().count(), error.message, help);
}
