//! What the recorder's own commands did to a recording.
//!
//! On the recorder's machine work takes no time, with one exception: Linux's User-Mode port lets a
//! system call that fails take 1 µs of virtual time, with interrupts off (`handle_syscall`). `tc`
//! makes such calls when it begins: it looks for plugins that are not there. A watchdog of CAKE's that
//! is due meanwhile is served when the call has ended. `scripts/cake_kernel` builds its kernel without
//! that microsecond, and its recordings say so (`"prompt": true`): in them nothing is ever late.

use super::super::report::Divergence;
use serde_json::Value;

/// A time at which a timer was due, and when the recorded machine served it.
pub(super) type LateTimer = (u64, u64);

/// Whether a departure was later than ours by no more than a failed call of a command or a dump that
/// was being carried out just then, in a recording in which that may happen.
pub(super) fn late_by_failed_call(
    line: &Value,
    variant: &Value,
    divergence: &Divergence,
) -> Option<LateTimer> {
    if is_prompt(line) || divergence.field != "out.time" {
        return None;
    }
    let (due, served) = (divergence.got.parse().ok()?, divergence.expected.parse().ok()?);
    let in_one_call = due < served && served - due <= FAILED_CALL;
    let commands = variant["cmds"].as_array().into_iter().flatten().map(|command| &command[0]);
    let dumps = variant["snaps"].as_array().into_iter().flatten().map(|dump| &dump["t"]);
    let mut begins = commands.chain(dumps).filter_map(Value::as_u64);
    let busy = |begin: u64| begin <= due && served <= begin + BUSY;
    (in_one_call && begins.any(busy)).then_some((due, served))
}

/// How many ns after a snapshot began its classes may have been dumped: they are asked for after the
/// qdisc.
pub(super) fn dumps_of_classes(line: &Value) -> impl Iterator<Item = u64> {
    let last = if is_prompt(line) { PROMPT } else { BUSY };
    (0..=last).step_by(DUMP_STEP)
}

fn is_prompt(line: &Value) -> bool {
    line["prompt"] == true
}

/// What a system call that fails takes, in ns.
const FAILED_CALL: u64 = 1_000;
/// How long a command or a dump may keep a machine busy on which failed calls take time, in ns: two
/// of them, and some readings of the clock.
const BUSY: u64 = 2_100;
/// How long a dump may last where only readings of the clock take time, 1 ns each.
const PROMPT: u64 = 200;
const DUMP_STEP: usize = 100;

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn late(line: &Value, due: u64, served: u64) -> bool {
        let variant = json!({ "cmds": [[50_000, "tc qdisc change"]], "snaps": [{ "t": 90_000 }] });
        let divergence = Divergence {
            time: Some(served),
            index: Some(0),
            field: "out.time".to_owned(),
            expected: served.to_string(),
            got: due.to_string(),
        };
        late_by_failed_call(line, &variant, &divergence).is_some()
    }

    #[test]
    fn a_departure_waits_for_at_most_one_failed_call_of_a_command() {
        let old = json!({});
        assert!(late(&old, 50_700, 51_002) && late(&old, 91_100, 92_003), "a command, a dump");
        assert!(!late(&old, 50_001, 51_002), "longer than a call");
        assert!(!late(&old, 49_900, 50_300), "due before the command");
        assert!(!late(&old, 51_900, 52_200), "when the command is done");
        assert!(!late(&old, 51_002, 50_700), "earlier than ours");
    }

    #[test]
    fn nothing_is_late_in_a_prompt_recording() {
        assert!(!late(&json!({ "prompt": true }), 50_700, 51_002));
    }
}
