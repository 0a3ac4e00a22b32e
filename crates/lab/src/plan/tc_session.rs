//! Several `tc qdisc` commands, one after the other, on devices that no packet passes.

use std::fmt;

use datapath::qdisc::fifo::PfifoFast;
use datapath::qdisc::{Cx, Handle, Sched};
use datapath::rng::Rng;
use datapath::units::Instant;
use iproute::tc::{self, Device};
use serde_json::Value;

/// The devices that commands have named, in the order of their first.
#[derive(Clone, Debug, Default)]
pub struct Session {
    devices: Vec<(String, Sched)>,
}

/// What is wrong with a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Which character of the command, from 1.
    pub column: usize,
    /// What is wrong.
    pub message: String,
    /// The command.
    pub command: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { column, message, command } = self;
        let caret = " ".repeat(column - 1);
        write!(f, "{column}: {message}\n  {command}\n  {caret}^")
    }
}

impl std::error::Error for Problem {}

impl Session {
    /// Carries out one command.
    ///
    /// # Errors
    /// When `tc` or the kernel would refuse it; nothing is changed then.
    pub fn command(&mut self, command: &str) -> Result<(), Problem> {
        let problem = |column: usize, message: String| {
            let before = command.get(..column).unwrap_or(command).chars().count();
            Problem { column: before + 1, message, command: command.into() }
        };
        let parsed = tc::parse_qdisc(command).map_err(|error| {
            let help = error.nearest.as_ref();
            let help = help.map_or(String::new(), |word| format!("; did you mean \"{word}\"?"));
            problem(error.column, format!("{}{help}", error.message))
        })?;
        let known = self.devices.iter().position(|(name, _)| *name == parsed.device);
        let mut root = match known {
            Some(place) => self.devices[place].1.clone(),
            None => Sched::new(Handle::NONE, PfifoFast::new(Device::default().tx_queue_len)),
        };
        let mut dropped = Vec::new();
        let mut cx = Cx { now: Instant::ZERO, dropped: &mut dropped };
        parsed
            .apply(&mut root, Device::default(), Rng::stream(1, 0), &mut cx)
            .map_err(|refused| problem(0, refused.to_string()))?;
        match known {
            Some(place) => self.devices[place].1 = root,
            None => self.devices.push((parsed.device, root)),
        }
        Ok(())
    }

    /// `tc -s qdisc show`.
    pub fn text(&self) -> String {
        let shown = |(name, root): &(String, Sched)| tc::show_text(root, Some(name), Instant::ZERO);
        self.devices.iter().map(shown).collect()
    }

    /// `tc -s -j qdisc show`.
    pub fn json(&self) -> Value {
        let mut all = Vec::new();
        for (name, root) in &self.devices {
            if let Value::Array(qdiscs) = tc::show_json(root, Some(name), Instant::ZERO) {
                all.extend(qdiscs);
            }
        }
        Value::Array(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn change_keeps_what_it_does_not_name_and_a_fault_changes_nothing() {
        let mut session = Session::default();
        session.command("tc qdisc add dev e root cake bandwidth 20mbit nat").unwrap();
        session.command("qdisc change dev e root cake ack-filter").unwrap();
        let before = session.text();
        assert!(before.starts_with("qdisc cake 8001: dev e root refcnt 2 bandwidth 20Mbit"));
        assert!(before.contains(" nat ") && before.contains(" ack-filter "), "{before}");
        assert_eq!(session.json()[0]["options"]["ack-filter"], "enabled");
        let fault = session.command("qdisc change dev e root cake ack-filtr").unwrap_err();
        assert_eq!(fault.column, 30);
        assert!(fault.message.contains("ack-filter"), "{fault}");
        let exists = session.command("qdisc add dev e root fq_codel").unwrap_err();
        assert!(!exists.message.is_empty());
        assert_eq!(session.text(), before);
    }
}
