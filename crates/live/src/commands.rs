//! `tc` on the queues of a bridge, at run time and before.

use datapath::host::Bridge;
use datapath::node::Port;
use datapath::qdisc::{Handle, Sched};
use datapath::rng::Rng;
use datapath::units::Instant;
use iproute::tc::{self, Device, FilterAction, Spec};
use iproute::words::{GrammarError, Words};
use serde_json::Value;

/// The names of the ports, and what the kernel takes from a device where a command says nothing.
#[derive(Clone, Debug)]
pub struct Names {
    /// Of ports 0 and 1.
    pub names: [String; 2],
    /// Of both devices, whose MTUs agree.
    pub device: Device,
    /// What random draws of qdiscs begin with.
    pub seed: u64,
}

/// What is wrong with a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wrong {
    /// Bytes before the place in the command.
    pub column: usize,
    /// What is wrong, and the nearest valid word.
    pub message: String,
}

impl From<GrammarError> for Wrong {
    fn from(error: GrammarError) -> Self {
        let help = error.nearest.as_ref();
        let help = help.map_or(String::new(), |word| format!("; did you mean \"{word}\"?"));
        Self { column: error.column, message: format!("{}{help}", error.message) }
    }
}

fn wrong(message: impl Into<String>) -> Wrong {
    Wrong { column: 0, message: message.into() }
}

/// What a command line of `tc` asks for.
pub(crate) enum Asked<'a> {
    /// `tc [-s] [-j] qdisc|class show [dev NAME]`.
    Show { classes: bool, json: bool, device: Option<&'a str> },
    /// To change a qdisc.
    Qdisc,
    /// To change a filter.
    Filter,
}

impl<'a> Asked<'a> {
    pub fn read(command: &'a str) -> Result<Self, Wrong> {
        let mut words = Words::new(command).filter(|word| word.text != "tc");
        let (mut json, mut object) = (false, words.next());
        while let Some(option) = object.filter(|word| word.text.starts_with('-')) {
            match option.text {
                "-s" | "-statistics" => {}
                "-j" | "-json" | "-sj" | "-js" => json = true,
                _ => return Err(option.unknown("tc", &["-s", "-j"]).into()),
            }
            object = words.next();
        }
        let Some(object) = object else { return Err(wrong("qdisc, class or filter is missing")) };
        let verb = words.next().map_or("show", |word| word.text);
        match (object.text, verb) {
            ("qdisc" | "class", "show" | "list" | "ls") => {
                let device = match words.next() {
                    None => None,
                    Some(word) if word.text == "dev" => words.next().map(|word| word.text),
                    Some(word) => return Err(word.unknown("tc", &["dev"]).into()),
                };
                Ok(Self::Show { classes: object.text == "class", json, device })
            }
            ("qdisc", _) => Ok(Self::Qdisc),
            ("filter", _) => Ok(Self::Filter),
            _ => Err(object.unknown("tc", &["qdisc", "class", "filter"]).into()),
        }
    }
}

impl Names {
    /// A kind and its options become the root of the queue by which `port` sends.
    ///
    /// # Errors
    /// Where the words are no qdisc.
    pub fn set_root(
        &self,
        bridge: &mut Bridge,
        now: Instant,
        port: Port,
        words: &str,
    ) -> Result<(), Wrong> {
        let mut rest = Words::new(words);
        let spec: Spec = tc::parse_spec(&mut rest)?;
        let handle = Handle::new(0x8001, 0);
        let rng = Rng::stream(self.seed, port.0.into());
        let root = Sched::new(handle, spec.build(self.device, handle, rng));
        bridge.change(now, port, |place, _| *place = root);
        Ok(())
    }

    /// One command: `tc [-s] [-j] qdisc|class show [dev NAME]`, or one that changes something. Gives what
    /// is to be printed.
    ///
    /// # Errors
    /// `tc` or the kernel would refuse it; nothing is changed then.
    pub fn run(&self, bridge: &mut Bridge, now: Instant, command: &str) -> Result<String, Wrong> {
        match Asked::read(command)? {
            Asked::Show { classes, json, device } => {
                let device = device.map(|name| self.port(name)).transpose()?;
                Ok(self.show(bridge, now, classes, json, device))
            }
            Asked::Qdisc => self.change(bridge, now, command),
            Asked::Filter => self.filter(bridge, now, command),
        }
    }

    /// The port of this name.
    fn port(&self, name: &str) -> Result<Port, Wrong> {
        let known = self.names.iter().position(|known| known == name);
        known.map(|index| Port(index as u16)).ok_or_else(|| {
            let [one, other] = &self.names;
            wrong(format!("no device \"{name}\": there are {one} and {other}"))
        })
    }

    fn show(
        &self,
        bridge: &Bridge,
        now: Instant,
        classes: bool,
        json: bool,
        only: Option<Port>,
    ) -> String {
        let ports = [Port(0), Port(1)].into_iter().filter(|port| only.is_none_or(|it| it == *port));
        let of = |port: Port| (self.names[usize::from(port.0)].as_str(), bridge.port(port).qdisc());
        if classes {
            return ports.map(|port| tc::show_classes(of(port).1, now)).collect();
        }
        if !json {
            let shown = ports.map(of).map(|(name, root)| tc::show_text(root, Some(name), now));
            return shown.collect();
        }
        let shown = ports.map(of).map(|(name, root)| tc::show_json(root, Some(name), now));
        let all = shown.flat_map(|shown| match shown {
            Value::Array(qdiscs) => qdiscs,
            other => vec![other],
        });
        format!("{}\n", all.collect::<Value>())
    }

    fn change(&self, bridge: &mut Bridge, now: Instant, command: &str) -> Result<String, Wrong> {
        let parsed = tc::parse_qdisc(command)?;
        let port = self.port(&parsed.device)?;
        let rng = Rng::stream(self.seed, now.as_nanos());
        let done =
            bridge.change(now, port, |root, cx| parsed.apply(root, self.device, rng, cx).map(drop));
        done.map_err(|refused| wrong(refused.to_string()))?;
        Ok(String::new())
    }

    fn filter(&self, bridge: &mut Bridge, now: Instant, command: &str) -> Result<String, Wrong> {
        let parsed = tc::parse_filter(command)?;
        let port = self.port(&parsed.device)?;
        if matches!(parsed.outcome, FilterAction::Police(_)) {
            return Err(wrong("policers have no place between two devices"));
        }
        if bridge.change(now, port, |root, _| parsed.apply(root)) {
            Ok(String::new())
        } else {
            Err(wrong("no qdisc above asks this filter for a class"))
        }
    }
}
