//! A case as a TOML file: `kind = "…"`, which law it broke as a comment, and the case itself.

use serde::{Deserialize, Serialize};
use toml::Spanned;
use toml::de::DeTable;

use crate::case::{Case, Outcome, Violation};
use crate::kind::Kind;
use crate::{judge, limits, shrink, with_case};

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Page<C> {
    kind: String,
    case: C,
}

/// Writes a case down; `remarks` become comments at the top.
pub fn write<C: Case>(case: &C, remarks: &str) -> String {
    let comments = remarks.lines().flat_map(|line| ["# ", line, "\n"]);
    let mut text: String = comments.collect();
    let page = Page { kind: C::KIND.name().to_owned(), case };
    text.push_str(&toml::to_string(&page).expect("a case is plain data"));
    text
}

/// Which kind of case a file holds; an error begins with `LINE:COLUMN: `.
pub fn kind_of(text: &str) -> Result<Kind, String> {
    #[derive(Deserialize)]
    struct Head {
        kind: Spanned<String>,
    }
    let head: Head = toml::from_str(text).map_err(|error| fault(text, &error))?;
    let (line, column) = position(text, head.kind.span().start);
    let kind = head.kind.get_ref().parse();
    kind.map_err(|message: String| format!("{line}:{column}: {message}"))
}

/// Reads a case of a kind that is known; an error begins with `LINE:COLUMN: ` where a place is known.
pub fn read<C: Case>(text: &str) -> Result<C, String> {
    let page: Page<C> = toml::from_str(text).map_err(|error| fault(text, &error))?;
    let document = DeTable::parse(text).map_err(|error| fault(text, &error))?;
    match limits::first_beyond(document.get_ref(), C::LIMITS) {
        Some((at, what)) => {
            let (line, column) = position(text, at);
            Err(format!("{line}:{column}: {what}"))
        }
        None => Ok(page.case),
    }
}

fn fault(text: &str, error: &toml::de::Error) -> String {
    let message = error.message().trim_end();
    match error.span() {
        Some(span) => {
            let (line, column) = position(text, span.start);
            format!("{line}:{column}: {message}")
        }
        None => message.to_owned(),
    }
}

/// Line and column of a byte, both from 1.
fn position(text: &str, at: usize) -> (usize, usize) {
    let before = text.get(..at).unwrap_or(text);
    let line = before.rsplit('\n').next().unwrap_or_default();
    (before.matches('\n').count() + 1, line.chars().count() + 1)
}

/// Judges the case in a file. A file may have been edited to what no seed draws: a node that is not there, a time in
/// another century. Then the tester panics, not the code under test, and no law was broken.
pub fn judge(text: &str) -> Result<Result<Outcome, Violation>, String> {
    fn judge<C: Case>(text: &str) -> Result<Result<Outcome, Violation>, String> {
        match judge::judge(&read::<C>(text)?) {
            Err(Violation { oracle: "panic", at, what }) if at.starts_with(OWN_SOURCES) => {
                Err(format!("no seed draws such a case: {what} ({at})"))
            }
            judged => Ok(judged),
        }
    }
    with_case!(kind_of(text)?, judge(text))
}

/// Where a panic is one of the tester itself.
const OWN_SOURCES: &str = "crates/swarm/src/";

/// A seed that failed, shrunk with at most `tries` runs, as a file.
pub fn of_seed(kind: Kind, seed: u64, violation: Violation, tries: u32) -> (String, Violation) {
    fn of_seed<C: Case>(seed: u64, violation: Violation, tries: u32) -> (String, Violation) {
        let (case, violation) = shrink::shrink(C::draw(seed), violation, tries);
        let remarks = format!("{} seed {seed}, shrunk\n{violation}", C::KIND);
        (write(&case, &remarks), violation)
    }
    with_case!(kind, of_seed(seed, violation, tries))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::world;

    #[test]
    fn a_faulty_case_file_is_reported_with_its_position() {
        let faults = [
            ("kind = \"world\"\n[case]\nseed = \"x\"\n", "3:8: invalid type: string"),
            ("# é\nkind = \"wrld\"\n", "2:8: no kind of case is called \"wrld\"; there are "),
            ("kind = \"world\"\n[case\n", "2:6: unclosed table"),
            ("kind = \"world\"\n[case]\nsede = 1\n", "3:1: unknown field `sede`"),
        ];
        for (text, told) in faults {
            let fault = judge(text).unwrap_err();
            assert!(fault.starts_with(told), "{fault}");
        }
    }

    /// Times and sizes that nothing could be added to, in files that somebody has edited.
    #[test]
    fn numbers_that_no_seed_draws_are_told_with_their_place() {
        const HUGE: &str = "9000000000000000000";
        for (kind, from, key) in [
            (Kind::World, "heal_us = ", "heal_us"),
            (Kind::World, "delay_us = ", "delay_us"),
            (Kind::Qdisc, "Wait = ", "Wait"),
            (Kind::Calls, "Wait = ", "Wait"),
            (Kind::Router, "after_us = ", "after_us"),
            (Kind::Wire, "Wait = ", "Wait"),
        ] {
            let drawn = |seed| with_case!(kind, text_of_seed(seed));
            let text =
                (0..1_000).map(drawn).find(|text| text.contains(from)).expect("some have it");
            let at = text.find(from).expect("it was just found") + from.len();
            let rest = text[at..].find(|c: char| !c.is_ascii_digit()).expect("a number ends");
            let text = format!("{}{HUGE}{}", &text[..at], &text[at + rest..]);
            let (line, column) = position(&text, at);
            let told = format!("{line}:{column}: no seed draws such a case: {key} is at most ");
            let fault = judge(&text).unwrap_err();
            assert!(fault.starts_with(&told), "{kind}: {fault}");
        }
    }

    fn text_of_seed<C: Case>(seed: u64) -> String {
        write(&C::draw(seed), "drawn")
    }

    /// As in an edited file: a wire to a node that does not exist.
    #[test]
    fn what_no_seed_draws_breaks_no_law() {
        let mut case = world::Case::draw(1);
        assert!(matches!(judge(&write(&case, "as drawn")), Ok(Ok(_))));
        case.wires[0].ends[0] = 4_000;
        let fault = judge(&write(&case, "edited")).unwrap_err();
        assert!(fault.starts_with("no seed draws such a case: index out of bounds"), "{fault}");
    }
}
