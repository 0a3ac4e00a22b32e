//! `tc` on the queues of a bridge, at run time and before.

use datapath::host::Bridge;
use datapath::node::Port;
use datapath::qdisc::{Handle, Sched};
use datapath::rng::Rng;
use datapath::units::Instant;
use iproute::tc::{self, Device, FilterAction, ShowFlags, Spec};
use iproute::words::{GrammarError, Word, Words};
use serde_json::Value;

/// The names of the ports, and what the kernel takes from a device where a command says nothing.
#[derive(Clone, Debug)]
pub struct Names {
    /// Of ports 0 and 1.
    pub names: [String; 2],
    /// Of both devices, whose MTUs agree.
    pub device: Device,
    /// Seed of the qdiscs' random numbers.
    pub seed: u64,
}

/// What is wrong with a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandError {
    /// Bytes before the place in the command.
    pub column: usize,
    /// What is wrong, and the nearest valid word.
    pub message: String,
}

impl From<GrammarError> for CommandError {
    fn from(error: GrammarError) -> Self {
        let help = error.nearest.as_ref();
        let help = help.map_or(String::new(), |word| format!("; did you mean \"{word}\"?"));
        Self { column: error.column, message: format!("{}{help}", error.message) }
    }
}

fn wrong(message: impl Into<String>) -> CommandError {
    CommandError { column: 0, message: message.into() }
}

/// Whether a command that begins so is none of `tc`, whose own name may be left out.
fn is_none_of_tc(word: &Word<'_>) -> bool {
    !matches!(word.text, "tc" | "qdisc" | "class" | "filter") && !word.text.starts_with('-')
}

/// A parsed command line of `tc`.
pub(crate) enum TcRequest<'a> {
    /// `tc [-s] [-d] [-j] [-p] qdisc|class show [dev NAME]`.
    Show { manner: ShowOptions, device: Option<&'a str> },
    /// To change a qdisc.
    Qdisc,
    /// To change a class.
    Class,
    /// To change a filter.
    Filter,
}

/// What is shown, and how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ShowOptions {
    /// Classes rather than qdiscs: text, whatever the format.
    classes: bool,
    json: bool,
    /// Lines that are indented, of JSON.
    pretty: bool,
    extent: ShowFlags,
}

/// The verbs of `tc qdisc`, in the order in which tc looks whether one begins with what was said.
const VERBS: [&str; 8] = ["add", "change", "replace", "link", "delete", "list", "show", "lst"];

impl<'a> TcRequest<'a> {
    pub fn read(command: &'a str) -> Result<Self, CommandError> {
        let mut words = Words::new(command);
        words.accept("tc");
        let (mut manner, mut object) = (ShowOptions::default(), words.next());
        while let Some(option) = object.filter(|word| word.text.starts_with('-')) {
            manner.option(option)?;
            object = words.next();
        }
        let Some(object) = object else { return Err(wrong("qdisc, class or filter is missing")) };
        manner.classes = object.text == "class";
        let verb = words.next().map_or(Some("show"), |word| word.cut_short(&VERBS));
        match (object.text, verb) {
            ("qdisc" | "class", Some("show" | "list" | "lst")) => {
                let mut device = None;
                while let Some(word) = words.next() {
                    if word.text != "dev" {
                        return Err(word.unknown("tc", &["dev"]).into());
                    }
                    device = Some(words.value(word)?.text);
                }
                Ok(Self::Show { manner, device })
            }
            ("qdisc", _) => Ok(Self::Qdisc),
            ("class", _) => Ok(Self::Class),
            ("filter", Some("show" | "list" | "lst")) => {
                let message = "filters are not shown; `class show` shows what they lead to";
                Err(CommandError { column: object.column, message: message.to_owned() })
            }
            ("filter", _) => Ok(Self::Filter),
            _ => Err(object.unknown("tc", &["qdisc", "class", "filter"]).into()),
        }
    }
}

impl ShowOptions {
    /// Takes an option of `tc`, which may be cut short.
    fn option(&mut self, word: Word<'_>) -> Result<(), CommandError> {
        match word.cut_short(&["-statistics", "-stats", "-details", "-pretty", "-json"]) {
            Some("-statistics" | "-stats") => self.extent.statistics = true,
            Some("-details") => self.extent.details = true,
            Some("-pretty") => self.pretty = true,
            Some(_) => self.json = true,
            None => return Err(word.unknown("tc", &["-s", "-d", "-j", "-p"]).into()),
        }
        Ok(())
    }

    /// Shows queues by the names of the devices that send by them.
    pub fn show<'a>(
        self,
        now: Instant,
        queues: impl Iterator<Item = (&'a str, &'a Sched)>,
    ) -> String {
        if self.classes {
            return queues.map(|(_, root)| self.show_classes(now, root)).collect();
        }
        if !self.json {
            let text = |(name, root)| tc::show_text_with(root, Some(name), now, self.extent);
            return queues.map(text).collect();
        }
        let shown =
            queues.map(|(name, root)| tc::show_json_with(root, Some(name), now, self.extent));
        let all = shown.flat_map(|shown| match shown {
            Value::Array(qdiscs) => qdiscs,
            other => vec![other],
        });
        let all = all.collect::<Value>();
        if self.pretty { format!("{all:#}\n") } else { format!("{all}\n") }
    }

    /// The classes of one queue: without `-s` a line for each.
    fn show_classes(self, now: Instant, root: &Sched) -> String {
        tc::show_classes_with(root, now, self.extent)
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
    ) -> Result<(), CommandError> {
        let mut rest = Words::new(words);
        let spec: Spec = tc::parse_spec(&mut rest)?;
        let handle = Handle::new(0x8001, 0);
        let rng = Rng::stream(self.seed, port.0.into());
        let root = Sched::new(handle, spec.build(self.device, handle, rng));
        bridge.change(now, port, |place, _| *place = root);
        Ok(())
    }

    /// What comes by the control socket and is none of the program's own commands.
    ///
    /// # Errors
    /// As for [`run`](Self::run); it is none of `tc` at all.
    pub fn handle(
        &self,
        bridge: &mut Bridge,
        now: Instant,
        command: &str,
    ) -> Result<String, CommandError> {
        if let Some(word) = Words::new(command).next().filter(is_none_of_tc) {
            let mut unknown = word.unknown("ctl", &["tc", "show", "stop"]);
            unknown.message +=
                "; valid commands between two devices are tc, show, show -j and stop";
            return Err(unknown.into());
        }
        self.run(bridge, now, command)
    }

    /// One command: `tc [-s] [-d] [-j] [-p] qdisc|class show [dev NAME]`, or one that changes
    /// something. Gives what is to be printed.
    ///
    /// # Errors
    /// `tc` or the kernel would refuse it; nothing is changed then.
    pub fn run(
        &self,
        bridge: &mut Bridge,
        now: Instant,
        command: &str,
    ) -> Result<String, CommandError> {
        match TcRequest::read(command)? {
            TcRequest::Show { manner, device } => {
                let device = device.map(|name| self.port(name)).transpose()?;
                Ok(self.show(bridge, now, manner, device))
            }
            TcRequest::Qdisc => self.change(bridge, now, command),
            TcRequest::Class => self.class(bridge, now, command),
            TcRequest::Filter => self.filter(bridge, now, command),
        }
    }

    /// The port of this name.
    fn port(&self, name: &str) -> Result<Port, CommandError> {
        let known = self.names.iter().position(|known| known == name);
        known.map(|index| Port(index as u16)).ok_or_else(|| {
            let [one, other] = &self.names;
            wrong(format!("no device \"{name}\": devices are {one} and {other}"))
        })
    }

    fn show(
        &self,
        bridge: &Bridge,
        now: Instant,
        manner: ShowOptions,
        only: Option<Port>,
    ) -> String {
        let ports = [Port(0), Port(1)].into_iter().filter(|port| only.is_none_or(|it| it == *port));
        let of = |port: Port| (self.names[usize::from(port.0)].as_str(), bridge.port(port).qdisc());
        manner.show(now, ports.map(of))
    }

    fn change(
        &self,
        bridge: &mut Bridge,
        now: Instant,
        command: &str,
    ) -> Result<String, CommandError> {
        let parsed = tc::parse_qdisc(command)?;
        let port = self.port(&parsed.device)?;
        let rng = Rng::stream(self.seed, now.as_nanos());
        let done =
            bridge.change(now, port, |root, cx| parsed.apply(root, self.device, rng, cx).map(drop));
        done.map_err(|refused| wrong(refused.to_string()))?;
        Ok(String::new())
    }

    /// Gives tc's warning about the quantum, if there is one.
    fn class(
        &self,
        bridge: &mut Bridge,
        now: Instant,
        command: &str,
    ) -> Result<String, CommandError> {
        let parsed = tc::parse_class(command)?;
        let port = self.port(&parsed.device)?;
        let done = bridge.change(now, port, |root, cx| parsed.apply(root, cx));
        let warning = done.map_err(|refused| wrong(refused.to_string()))?;
        Ok(warning.map_or(String::new(), |warning| format!("Warning: {warning}\n")))
    }

    fn filter(
        &self,
        bridge: &mut Bridge,
        now: Instant,
        command: &str,
    ) -> Result<String, CommandError> {
        let parsed = tc::parse_filter(command)?;
        let port = self.port(&parsed.device)?;
        if matches!(parsed.outcome, FilterAction::Police(_)) {
            return Err(wrong("policers are not supported between two devices"));
        }
        if bridge.change(now, port, |root, _| parsed.apply(root)) {
            Ok(String::new())
        } else {
            Err(wrong("the filter's parent is not a qdisc that uses filters"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(command: &str) -> String {
        let spec = tc::parse_spec(&mut Words::new("tbf rate 1mbit burst 10k limit 20k"));
        let spec = spec.expect("right words");
        let handle = Handle::new(1, 0);
        let root = Sched::new(handle, spec.build(Device::default(), handle, Rng::stream(0, 0)));
        match TcRequest::read(command).expect(command) {
            TcRequest::Show { manner, .. } => {
                manner.show(Instant::ZERO, [("a", &root)].into_iter())
            }
            _ => panic!("{command} shows nothing"),
        }
    }

    /// As tc 6.1 understands its flags.
    #[test]
    fn flags_say_how_much_is_shown() {
        let line = "qdisc tbf 1: dev a root refcnt 2 rate 1Mbit burst 10Kb lat 81.9ms \n";
        for plain in ["tc qdisc show", "qdisc", "tc qdisc ls", "tc -p qdisc sh"] {
            assert_eq!(shown(plain), line, "{plain}");
        }
        for counted in ["tc -s qdisc show", "tc -stat qdisc", "tc -statistics qdisc list"] {
            let shown = shown(counted);
            assert!(shown.starts_with(line) && shown.contains("\n Sent 0 bytes "), "{counted}");
        }
        assert!(shown("tc -d qdisc show").contains("burst 10Kb/1 mpu 0b lat 81.9ms linklayer"));
        let json = r#"[{"kind":"tbf","handle":"1:","dev":"a","root":true,"refcnt":2,"options":{"rate":125000,"burst":10240,"lat":81920}}]"#;
        assert_eq!(shown("tc -j qdisc show"), format!("{json}\n"));
        assert!(shown("tc -s -js qdisc show").contains(r#","bytes":0,"packets":0,"#));
        let pretty = shown("tc -j -p qdisc show");
        assert!(pretty.lines().count() > 10, "{pretty}");
        let read = |text: &str| serde_json::from_str::<Value>(text).expect("it is JSON");
        assert_eq!(read(&pretty), read(json));
    }

    /// Of a router there is more.
    #[test]
    fn commands_that_do_not_apply_between_two_devices_are_reported() {
        let names = ["a".to_owned(), "b".to_owned()];
        let names = Names { names, device: Device::default(), seed: 1 };
        let port = || datapath::host::PortConfig::default();
        let mut bridge = Bridge::new([port(), port()]);
        let mut ask = |command: &str| names.handle(&mut bridge, Instant::ZERO, command);
        for wrong in ["ip addr", "reload", "show -x", "stop now"] {
            let refused = ask(wrong).expect_err(wrong).message;
            assert!(refused.contains("are tc, show, show -j and stop"), "{refused}");
        }
        for right in ["tc qdisc show", "qdisc show", "-s qdisc"] {
            ask(right).expect(right);
        }
    }

    #[test]
    fn classes_of_htb_come_and_go() {
        let names = ["a".to_owned(), "b".to_owned()];
        let names = Names { names, device: Device::default(), seed: 1 };
        let port = || datapath::host::PortConfig::default();
        let mut bridge = Bridge::new([port(), port()]);
        let mut ask = |command: &str| names.handle(&mut bridge, Instant::ZERO, command);
        for (command, answer) in [
            ("tc qdisc add dev a root handle 1: htb default 10", Ok("")),
            ("tc class add dev a parent 1: classid 1:1 htb rate 10mbit", Ok("")),
            ("tc class add dev a parent 1:1 classid 1:10 htb rate 4mbit ceil 10mbit", Ok("")),
            ("tc class change dev a classid 1:10 htb rate 5mbit ceil 10mbit", Ok("")),
            (
                "tc class show dev a",
                Ok(
                    "class htb 1:10 parent 1:1 prio 0 rate 5Mbit ceil 10Mbit burst 1600b cburst 1600b \n\
                    class htb 1:1 root rate 10Mbit ceil 10Mbit burst 1600b cburst 1600b \n",
                ),
            ),
            ("tc class del dev a classid 1:10", Ok("")),
            ("tc class del dev a classid 1:10", Err("No such file or directory")),
            ("tc class add dev b parent 1: classid 1:1 htb rate 1mbit", Err("")),
            ("tc class add dev c parent 1: classid 1:1 htb rate 1mbit", Err("")),
        ] {
            match (ask(command), answer) {
                (Ok(shown), Ok(expected)) => assert_eq!(shown, expected, "{command}"),
                (Err(refused), Err(message)) => {
                    assert!(refused.message.contains(message), "{command}: {}", refused.message);
                }
                (Ok(shown), Err(_)) => panic!("{command} was taken: {shown}"),
                (Err(refused), Ok(_)) => panic!("{command} was refused: {}", refused.message),
            }
        }
    }

    #[test]
    fn what_tc_does_not_know_is_refused_at_its_place() {
        for (command, column) in [
            ("tc -sj qdisc show", 3),
            ("tc -x qdisc show", 3),
            ("tc qdisc show dev", 17),
            ("tc qdisc show dev a rubbish", 20),
            ("tc class show rubbish", 14),
            ("tc filter show dev a", 3),
        ] {
            let error = TcRequest::read(command).err().expect(command);
            assert_eq!(error.column, column, "{command}: {}", error.message);
        }
    }
}
