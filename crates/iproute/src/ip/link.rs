//! `ip link`: just enough to give a configuration its interfaces.

use super::names::{self, Devices, LOOPBACK, invalid};
use super::{Ip, IpResult, Options, json, verb};
use crate::words::{Result, Word, Words};
use datapath::fib::FibError;

impl Ip {
    /// `ip link add [dev|name] NAME …`, `ip link set [dev] NAME up|down|carrier on|off|group GROUP`,
    /// `ip link show [[dev] NAME]`.
    pub(super) fn link(&mut self, words: &mut Words<'_>, options: Options) -> IpResult<String> {
        match verb(words, "link", &["add", "set", "show"])? {
            "show" => return self.link_show(words, options),
            "add" => {
                if !words.accept("dev") {
                    words.accept("name");
                }
                let name = words.next().ok_or_else(|| words.unexpected_end("a name is missing"))?;
                check_name(name)?;
                if self.devices.port(name.text).is_some() {
                    return Err(FibError::Exists.into());
                }
                self.add_device(name.text);
            }
            _ => self.link_set(words)?,
        }
        Ok(String::new())
    }

    /// Names and states. What a device is besides, this program does not know.
    fn link_show(&self, words: &mut Words<'_>, options: Options) -> IpResult<String> {
        let ports: Vec<u16> = match read_shown(words, "link", &self.devices)? {
            Some(port) => vec![port],
            None => self.devices.ports().collect(),
        };
        if options.json {
            let items: Vec<String> =
                ports.iter().map(|&port| self.link_object(port).finish()).collect();
            return Ok(json::list(&items));
        }
        if options.brief {
            let line = |&port: &u16| {
                let flags = self.link_state(port).0.join(",");
                format!("{}<{flags}> \n", self.brief_head(port))
            };
            return Ok(ports.iter().map(line).collect());
        }
        Ok(ports.iter().map(|&port| self.link_line(port)).collect())
    }

    /// What a line of `ip -br` begins with: name and state, in columns.
    pub(super) fn brief_head(&self, port: u16) -> String {
        format!("{:<16} {:<14} ", self.devices.name(port), self.link_state(port).1)
    }

    /// The line that an interface begins with.
    pub(super) fn link_line(&self, port: u16) -> String {
        let (flags, state) = self.link_state(port);
        let (index, name) = (index(port), self.devices.name(port));
        let group = match self.fib.link(port).group {
            0 => String::new(),
            group => format!(" group {group}"),
        };
        format!("{index}: {name}: <{}> state {state}{group}\n", flags.join(","))
    }

    pub(super) fn link_object(&self, port: u16) -> json::Object {
        let (flags, state) = self.link_state(port);
        let object = json::Object::default()
            .number("ifindex", index(port))
            .text("ifname", self.devices.name(port))
            .words("flags", &flags)
            .text("operstate", state);
        match self.fib.link(port).group {
            0 => object,
            group => object.text("group", &group.to_string()),
        }
    }

    fn link_state(&self, port: u16) -> (Vec<&'static str>, &'static str) {
        let link = self.fib.link(port);
        let lower = if link.carrier { "LOWER_UP" } else { "NO-CARRIER" };
        let flags = if link.up { vec!["UP", lower] } else { vec![] };
        (flags, operstate(link.up, link.carrier))
    }

    fn link_set(&mut self, words: &mut Words<'_>) -> IpResult<()> {
        words.accept("dev");
        let name = words.next().ok_or_else(|| words.unexpected_end("a device is missing"))?;
        let port = self.devices.read(name)?;
        let mut link = self.fib.link(port);
        while let Some(word) = words.next() {
            match word.text {
                "up" => link.up = true,
                "down" => link.up = false,
                "carrier" => {
                    let value = words.value(word)?;
                    link.carrier = match value.text {
                        "on" => true,
                        "off" => false,
                        _ => return Err(invalid(value, "must be \"on\" or \"off\"", None).into()),
                    };
                }
                "group" => link.group = names::group(words.value(word)?, "group")?,
                _ => {
                    let known = ["up", "down", "carrier", "group"];
                    return Err(word.unknown("link set", &known).into());
                }
            }
        }
        let was = self.fib.link(port);
        if was != link {
            self.fib.set_link(self.now, port, link);
        }
        Ok(())
    }
}

/// Numbers of interfaces: `lo` has the first one.
fn index(port: u16) -> u32 {
    if port == LOOPBACK { 1 } else { u32::from(port) + 2 }
}

/// What follows the verb in `ip link show [[dev] NAME]` and in that of `address`: the interface, or `None`
/// for all of them.
///
/// # Errors
/// There is none of this name, or more words follow.
pub fn read_shown(words: &mut Words<'_>, object: &str, devices: &Devices) -> Result<Option<u16>> {
    let dev = words.peek().filter(|word| word.text == "dev");
    if let Some(dev) = dev {
        words.next();
        if words.peek().is_none() {
            return Err(words.value(dev).expect_err("nothing follows"));
        }
    }
    let Some(name) = words.next() else { return Ok(None) };
    let port = devices.read(name)?;
    match words.next() {
        None => Ok(Some(port)),
        Some(word) => Err(word.unknown(&format!("{object} show"), &["dev"])),
    }
}

/// Names of interfaces that ip(8) takes in rules (`check_ifname`), but for `#`, which begins a comment where lines
/// are kept.
pub(super) fn is_name(text: &str) -> bool {
    (1..=LONGEST_NAME).contains(&text.len()) && !text.contains(['/', '#'])
}

/// Names that the kernel gives to an interface (`dev_valid_name`), but for `#` as well.
fn check_name(name: Word<'_>) -> Result<()> {
    let text = name.text;
    if text.len() > LONGEST_NAME || text.contains(['/', ':', '#']) || [".", ".."].contains(&text) {
        return Err(invalid(name, "\"dev\" not a valid ifname", None));
    }
    Ok(())
}

/// `IFNAMSIZ` without the zero at the end, bytes.
const LONGEST_NAME: usize = 15;

/// `operstate` of an interface.
pub(super) fn operstate(up: bool, carrier: bool) -> &'static str {
    if up && carrier { "UP" } else { "DOWN" }
}
