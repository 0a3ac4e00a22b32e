//! Laws of the words of tc, for any text.

use datapath::qdisc::fifo::PfifoFast;
use datapath::qdisc::{Cx, Handle, Sched};
use datapath::rng::Rng;
use datapath::units::Instant;
use iproute::tc::{self, Device};

/// Any text is a command or an error that points into it; what a command makes can be shown.
pub fn check_tc(text: &str) {
    for command in [text.to_owned(), format!("qdisc add dev d root {text}")] {
        match tc::parse_qdisc(&command) {
            Err(error) => {
                assert!(command.is_char_boundary(error.column), "{error} in {command:?}");
                assert!(command[error.column..].starts_with(&error.word), "{error} in {command:?}");
                assert!(!error.message.is_empty());
            }
            Ok(parsed) => {
                let mut root = Sched::new(Handle::NONE, PfifoFast::new(1000));
                let mut dropped = Vec::new();
                let mut cx = Cx { now: Instant::ZERO, dropped: &mut dropped };
                if parsed.apply(&mut root, Device::default(), Rng::stream(1, 0), &mut cx).is_ok() {
                    let shown = tc::show_text(&root, Some("d"), Instant::ZERO);
                    assert!(shown.starts_with("qdisc "), "{shown}");
                    assert!(tc::show_json(&root, Some("d"), Instant::ZERO).is_array());
                    tc::show_classes(&root, Instant::ZERO);
                }
            }
        }
    }
}
