//! The words of `tc` and of congestion controls inside a plan.

use super::diagnostic::suggest;
use super::doc::Origin;
use super::read::Faults;

/// The congestion controls that a flow can choose.
pub const CONGESTION_CONTROLS: [&str; 2] = ["cubic", "reno"];

/// The qdiscs that a port can have.
const QDISCS: [&str; 10] =
    ["bfifo", "cake", "codel", "fq_codel", "netem", "pfifo", "pfifo_fast", "prio", "red", "tbf"];

/// Checks the text of a qdisc.
pub fn check_qdisc(text: &str, at: &Origin, faults: &Faults<'_>) {
    let kind = text.split_whitespace().next().unwrap_or("");
    if !QDISCS.contains(&kind) {
        let message = format!("\"{kind}\" is not a valid qdisc");
        faults.add_in_text(at, 0, message, suggest(kind, QDISCS));
    }
}

/// Checks the text of a policer.
pub fn check_police(text: &str, at: &Origin, faults: &Faults<'_>) {
    if !text.split_whitespace().any(|word| word == "rate") {
        faults.add_in_text(at, 0, "a policer needs a rate".into(), None);
    }
}
