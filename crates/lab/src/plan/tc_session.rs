//! Several `tc qdisc`, `tc class` and `tc filter` commands, one after the other, on devices that no packet passes.

use std::collections::BTreeMap;
use std::fmt;

use datapath::qdisc::fifo::PfifoFast;
use datapath::qdisc::{Cx, Handle, Sched};
use datapath::rng::Rng;
use datapath::units::Instant;
use iproute::tc::{self, Device};
use iproute::words::GrammarError;
use serde_json::Value;

use super::excerpt;

/// The devices that commands have named, in the order of their first.
#[derive(Clone, Debug, Default)]
pub struct Session {
    devices: Vec<(String, Sched)>,
    /// Where each of them lies.
    places: BTreeMap<String, usize>,
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
        let (command, place) = excerpt(command, *column);
        let caret = " ".repeat(place - 1);
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
        let object = command.split_whitespace().find(|word| *word != "tc");
        match object {
            Some("filter") => self.filter(command),
            Some("class") => self.class(command),
            _ => self.qdisc(command),
        }
    }

    fn class(&mut self, command: &str) -> Result<(), Problem> {
        let parsed = tc::parse_class(command).map_err(|error| misspelt(command, &error))?;
        let known = self.places.get(&parsed.device).copied();
        let Some((_, root)) = known.map(|place| &mut self.devices[place]) else {
            let refused = tc::ClassRefusal::NoSuchQdisc;
            return Err(problem(command, 0, refused.to_string()));
        };
        let mut dropped = Vec::new();
        let mut cx = Cx { now: Instant::ZERO, dropped: &mut dropped };
        let refused = parsed.apply(root, &mut cx).err();
        refused.map_or(Ok(()), |refused| Err(problem(command, 0, refused.to_string())))
    }

    fn qdisc(&mut self, command: &str) -> Result<(), Problem> {
        let parsed = tc::parse_qdisc(command).map_err(|error| misspelt(command, &error))?;
        let known = self.places.get(&parsed.device).copied();
        let mut root = match known {
            Some(place) => self.devices[place].1.clone(),
            None => Sched::new(Handle::NONE, PfifoFast::new(Device::default().tx_queue_len)),
        };
        let mut dropped = Vec::new();
        let mut cx = Cx { now: Instant::ZERO, dropped: &mut dropped };
        parsed
            .apply(&mut root, Device::default(), Rng::stream(1, 0), &mut cx)
            .map_err(|refused| problem(command, 0, refused.to_string()))?;
        if let Some(place) = known {
            self.devices[place].1 = root;
        } else {
            self.places.insert(parsed.device.clone(), self.devices.len());
            self.devices.push((parsed.device, root));
        }
        Ok(())
    }

    fn filter(&mut self, command: &str) -> Result<(), Problem> {
        let parsed = tc::parse_filter(command).map_err(|error| misspelt(command, &error))?;
        if matches!(parsed.outcome, tc::FilterAction::Police(_)) {
            let message = "policers are checked as part of an experiment file".to_owned();
            return Err(problem(command, 0, message));
        }
        let known = self.places.get(&parsed.device);
        if known.is_some_and(|&place| parsed.apply(&mut self.devices[place].1)) {
            return Ok(());
        }
        let message = "the filter's parent is not a qdisc that uses filters".to_owned();
        Err(problem(command, 0, message))
    }

    /// `tc -s qdisc show`, and for each device `tc -s class show` if it has classes.
    pub fn text(&self) -> String {
        let shown = |(name, root): &(String, Sched)| {
            tc::show_text(root, Some(name), Instant::ZERO) + &tc::show_classes(root, Instant::ZERO)
        };
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

fn misspelt(command: &str, error: &GrammarError) -> Problem {
    let help = error.nearest.as_ref();
    let help = help.map_or(String::new(), |word| format!("; did you mean \"{word}\"?"));
    problem(command, error.column, format!("{}{help}", error.message))
}

/// `column`: bytes before the place.
fn problem(command: &str, column: usize, message: String) -> Problem {
    let before = command.get(..column).unwrap_or(command).chars().count();
    Problem { column: before + 1, message, command: command.into() }
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
        let exists = session.command("qdisc add dev e root cake").unwrap_err();
        assert_eq!(exists.message, "Exclusivity flag on, cannot modify.");
        assert_eq!(session.text(), before);
    }

    #[test]
    fn classes_are_made_below_a_qdisc_that_has_some() {
        let mut session = Session::default();
        let class = "tc class add dev e parent 1: classid 1:1 htb rate 10mbit";
        session.command(class).unwrap_err();
        session.command("qdisc add dev e root handle 1: htb default 1").unwrap();
        session.command(class).unwrap();
        let shown = session.text();
        assert!(shown.contains("class htb 1:1 root prio 0 rate 10Mbit ceil 10Mbit "), "{shown}");
        let fault = session.command(&class.replace("10mbit", "10furlongs")).unwrap_err();
        assert_eq!(fault.column, class.find("10mbit").unwrap() + 1);
        session.command("class add dev f parent 1: classid 1:1 htb rate 10mbit").unwrap_err();
        session.command("class del dev e classid 1:1").unwrap();
        assert!(!session.text().contains("class htb"));
    }

    /// Two queues by DSCP, as in the switch of DCTCP's first measurements.
    #[test]
    fn filters_need_a_qdisc_that_asks_them() {
        let mut session = Session::default();
        let filter = "tc filter add dev e parent 1: protocol ip prio 1 u32 match ip dsfield 0x04 0xfc \
                      flowid 1:1";
        let early = session.command(filter).unwrap_err();
        assert_eq!(early.message, "the filter's parent is not a qdisc that uses filters");
        session.command("qdisc add dev e root handle 1: prio bands 2 priomap 1 1 1 1").unwrap_err();
        session
            .command("qdisc add dev e root handle 1: prio bands 2 priomap 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1")
            .unwrap();
        session.command(filter).unwrap();
        let fault = session.command(&filter.replace("dsfield", "dsfeld")).unwrap_err();
        assert!(fault.message.contains("did you mean \"dsfield\"?"), "{fault}");
        let other = session.command(&filter.replace("dev e", "dev f")).unwrap_err();
        assert_eq!(other.message, early.message);
    }
}
