//! Laws of the words of tc, for any text.

use datapath::qdisc::fifo::PfifoFast;
use datapath::qdisc::{Cx, Handle, Sched};
use datapath::rng::Rng;
use datapath::units::Instant;
use iproute::tc::{self, Device};

/// Any text is a command or an error that points into it; what a command makes can be changed by
/// the same words, and shown.
pub fn check_tc(text: &str) {
    let mut root = Sched::new(Handle::NONE, PfifoFast::new(1000));
    let verbs = ["add", "replace", "change", "delete"];
    let placed = verbs.map(|verb| format!("qdisc {verb} dev d root {text}"));
    for command in [text.to_owned()].into_iter().chain(placed) {
        match tc::parse_qdisc(&command) {
            Err(error) => {
                assert!(command.is_char_boundary(error.column), "{error} in {command:?}");
                assert!(command[error.column..].starts_with(&error.word), "{error} in {command:?}");
                assert!(!error.message.is_empty());
            }
            Ok(parsed) => {
                let mut dropped = Vec::new();
                let mut cx = Cx { now: Instant::ZERO, dropped: &mut dropped };
                let was = tc::show_text(&root, Some("d"), Instant::ZERO);
                let done = parsed.apply(&mut root, Device::default(), Rng::stream(1, 0), &mut cx);
                let shown = tc::show_text(&root, Some("d"), Instant::ZERO);
                assert!(shown.starts_with("qdisc "), "{shown}");
                assert!(done.is_ok() || shown == was, "{command:?} was refused, but not in vain");
                assert!(tc::show_json(&root, Some("d"), Instant::ZERO).is_array());
                tc::show_classes(&root, Instant::ZERO);
            }
        }
    }
}
