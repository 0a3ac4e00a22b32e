//! A case as a file: `kind = "…"`, what it broke as a comment, and the case itself, in TOML.

use serde::{Deserialize, Serialize};

use crate::case::{Case, Outcome, Violation};
use crate::{Kind, judge, shrink, with_case};

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

/// Which kind of case a file holds.
pub fn kind_of(text: &str) -> Result<Kind, String> {
    #[derive(Deserialize)]
    struct Head {
        kind: String,
    }
    let head: Head = toml::from_str(text).map_err(|error| error.to_string())?;
    head.kind.parse()
}

/// Reads a case of a kind that is known; an error names line and column.
pub fn read<C: Case>(text: &str) -> Result<C, String> {
    let page: Page<C> = toml::from_str(text).map_err(|error| error.to_string())?;
    Ok(page.case)
}

/// Judges the case in a file.
pub fn judge(text: &str) -> Result<Result<Outcome, Violation>, String> {
    fn judge<C: Case>(text: &str) -> Result<Result<Outcome, Violation>, String> {
        Ok(judge::judge(&read::<C>(text)?))
    }
    with_case!(kind_of(text)?, judge(text))
}

/// A seed that failed, made simpler with at most `tries` runs, as a file.
pub fn of_seed(kind: Kind, seed: u64, violation: Violation, tries: u32) -> (String, Violation) {
    fn of_seed<C: Case>(seed: u64, violation: Violation, tries: u32) -> (String, Violation) {
        let (case, violation) = shrink::shrink(C::draw(seed), violation, tries);
        let remarks = format!("{} seed {seed}, made simpler\n{violation}", C::KIND);
        (write(&case, &remarks), violation)
    }
    with_case!(kind, of_seed(seed, violation, tries))
}
