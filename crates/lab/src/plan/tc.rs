//! The words of `tc` and of congestion controls inside a plan.

use datapath::qdisc::police::PoliceConfig;
use datapath::tcp::cc::Algorithm;
use iproute::tc::{self, Spec};
use iproute::words::{GrammarError, Words};

use super::diagnostic::suggest;
use super::doc::Origin;
use super::read::Faults;

/// The congestion control called `word`.
pub fn congestion_control(word: &str, at: &Origin, faults: &Faults<'_>) -> Option<Algorithm> {
    let found = Algorithm::by_name(word);
    if found.is_none() {
        let help = suggest(word, Algorithm::ALL.map(Algorithm::name));
        faults.add(at, format!("\"{word}\" is not a valid congestion control"), help);
    }
    found
}

/// Reads the text of a qdisc: `KIND OPTIONS`, as after `tc qdisc add dev DEV root`.
///
/// # Errors
/// When `tc` would not understand it.
pub fn qdisc(text: &str) -> Result<Spec, GrammarError> {
    tc::parse_spec(&mut Words::new(text))
}

/// Checks the text of a qdisc.
pub fn check_qdisc(text: &str, at: &Origin, faults: &Faults<'_>) {
    if let Err(error) = qdisc(text) {
        tell(text, error, at, faults);
    }
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
        tell(text, error, at, faults);
    }
}

/// An error of the grammar at its place in the file.
fn tell(text: &str, error: GrammarError, at: &Origin, faults: &Faults<'_>) {
    let before = text.get(..error.column).unwrap_or(text);
    let help = error.nearest.map(|word| format!("did you mean \"{word}\"?"));
    faults.add_in_text(at, before.chars().count(), error.message, help);
}
