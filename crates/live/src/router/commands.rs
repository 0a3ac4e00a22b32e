//! Commands at run time: the words of `ip`, `tc` and `sysctl`, and what is asked of the program itself.

use super::plan::{is_neigh, of_ip};
use super::sysctl::{is_own_sysctl, set_sysctl};
use super::{Phase, Router};
use crate::commands::CommandError;
use crate::open::Fault;
use crate::sys;
use datapath::units::Instant;
use iproute::ip::neigh::{self, NeighCommand};
use iproute::ip::statistics::{self, LinkStatistics};
use iproute::ip::{Ip, IpError};
use iproute::words::Words;

impl Router {
    /// Answers a client of the control socket.
    pub(super) fn serve(&mut self, token: u64) -> Result<(), Fault> {
        let control = self.control.as_mut();
        let command = control.and_then(|control| control.request(token, &self.epoll));
        let Some(command) = command else { return Ok(()) };
        let (right, text) = match self.command(&command)? {
            Ok(text) => (true, text),
            Err(wrong) => (false, format!("{}\n{}", wrong.column, wrong.message)),
        };
        if let Some(control) = &mut self.control {
            control.reply(token, right, &text, &self.epoll);
        }
        Ok(())
    }

    fn command(&mut self, command: &str) -> Result<Result<String, CommandError>, Fault> {
        let now = sys::now();
        let first = Words::new(command).next().map_or("", |word| word.text);
        Ok(match (command, first) {
            ("stop", _) => {
                self.start_draining()?;
                Ok(String::new())
            }
            ("show", _) => Ok(self.text()),
            ("show -j", _) => Ok(format!("{}\n", self.json())),
            ("reload", _) => self.reload(),
            (_, "tc") => self.tc(now, command),
            (_, "sysctl") => self.sysctl(now, command),
            (_, word) if !is_of_ip(word) => {
                let message = format!(
                    "unknown command \"{word}\"; valid are ip, tc, sysctl, show, show -j, reload and stop"
                );
                Err(CommandError { column: 0, message })
            }
            _ => self.ip(now, command),
        })
    }

    /// Reloads the file. An error is reported as `FILE:LINE:COLUMN`, and the old state stays.
    pub(super) fn reload(&mut self) -> Result<String, CommandError> {
        let plain = |message: String| CommandError { column: 0, message };
        let file = self.settings.file.clone();
        let file = file.ok_or_else(|| plain("the router has no file to reload".to_owned()))?;
        let text = std::fs::read_to_string(&file)
            .map_err(|error| plain(format!("{}: {error}", file.display())))?;
        self.load(&text).map_err(|(line, said, wrong)| {
            let column = wrong.column + 1;
            plain(format!("{}:{line}:{column}: {}\n  {said}", file.display(), wrong.message))
        })?;
        Ok(format!("reloaded {}\n", file.display()))
    }

    fn sysctl(&mut self, now: Instant, command: &str) -> Result<String, CommandError> {
        let mut out = String::new();
        let words = Words::new(command).skip(1).filter(|word| !word.text.starts_with('-'));
        for word in words {
            let wrong = |message: String| CommandError { column: word.column, message };
            let Some((name, value)) = word.text.split_once('=') else {
                out += &self
                    .with_ip(now, |ip| ip.run(&format!("sysctl {}", word.text)))
                    .map_err(|error| CommandError { column: word.column, ..of_ip(&error) })?;
                continue;
            };
            let name = name.replace('/', ".");
            if is_own_sysctl(&name) {
                set_sysctl(&mut self.host, now, &name, value).map_err(wrong)?;
            } else {
                self.with_ip(now, |ip| ip.run(&format!("sysctl {}", word.text)))
                    .map_err(|error| CommandError { column: word.column, ..of_ip(&error) })?;
            }
        }
        self.poll(now);
        Ok(out)
    }

    /// A setting of the kernel's that decides between next hops; one that is unknown here is passed over, and
    /// said.
    pub(super) fn set_hash(&mut self, now: Instant, setting: &str) {
        if let Err(error) = self.with_ip(now, |ip| ip.run(&format!("sysctl {setting}"))) {
            crate::tell!("note: {setting}: {error}");
        }
    }

    /// A setting of a file that was checked.
    pub(super) fn set_sysctl(&mut self, now: Instant, name: &str, value: &str) {
        if is_own_sysctl(name) {
            set_sysctl(&mut self.host, now, name, value).expect("the file was checked");
        } else {
            // In force already where routes are those of the file.
            let _ = self.with_ip(now, |ip| ip.run(&format!("sysctl {name}={value}")));
        }
    }

    fn ip(&mut self, now: Instant, command: &str) -> Result<String, CommandError> {
        let mut words = Words::new(command);
        words.accept("ip");
        let (mut json, mut statistics, mut brief, mut family) = (false, false, false, None);
        while let Some(word) = words.peek().filter(|word| word.text.starts_with('-')) {
            match word.text {
                "-4" => family = Some(false),
                "-6" => family = Some(true),
                "-j" | "-json" => json = true,
                "-s" | "-statistics" => statistics = true,
                "-sj" | "-js" => (json, statistics) = (true, true),
                "-br" | "-brief" => brief = true,
                "-d" | "-details" | "-c" | "-color" => {}
                _ => {
                    let known = ["-4", "-6", "-json", "-statistics", "-brief"];
                    return Err(word.unknown("ip", &known).into());
                }
            }
            words.next();
        }
        let object = words.next();
        let verb = words.peek().map_or("show", |word| word.text);
        let shows = matches!(verb, "show" | "list" | "ls" | "lst" | "get" | "bucket");
        match object.map_or("", |word| word.text) {
            _ if is_neigh(object) => {
                let wrong = |error| of_ip(&error);
                let parsed = neigh::parse(&mut words, &self.names, family).map_err(wrong)?;
                self.change_neighbours(now, &parsed).map_err(wrong)?;
                let table = self.host.neighbours().expect("a router has neighbours");
                let manner = neigh::ShowOptions { json, statistics };
                neigh::show(table, now, &self.names, &parsed, manner).map_err(wrong)
            }
            "link" | "l" if shows => {
                words.next();
                let links = self.links_shown(&mut words, "link")?;
                Ok(if brief && !json {
                    statistics::brief(&links)
                } else {
                    statistics::show(&links, statistics, json)
                })
            }
            "address" | "addr" | "a" if shows => {
                words.next();
                let links = self.links_shown(&mut words, "address")?;
                Ok(if brief && !json {
                    statistics::brief_addresses(&links, &self.names, family)
                } else {
                    statistics::show_addresses(&links, &self.names, family, statistics, json)
                })
            }
            _ if self.settings.follow_kernel && !shows => {
                let message = "routes and addresses are the kernel's here: change them with ip(8)";
                Err(CommandError { column: 0, message: message.to_owned() })
            }
            "link" | "l" if verb == "add" => {
                let message = "devices cannot be added to a running router".to_owned();
                Err(CommandError { column: 0, message })
            }
            _ => {
                let done = self.with_ip(now, |ip| ip.run(command));
                let text = done.map_err(|error| of_ip(&error))?;
                self.sync_addresses(now);
                Ok(text)
            }
        }
    }

    /// The interfaces that `show [[dev] NAME]` means.
    fn links_shown(
        &mut self,
        words: &mut Words<'_>,
        object: &str,
    ) -> Result<Vec<LinkStatistics>, CommandError> {
        let port = iproute::ip::read_shown(words, object, &self.names)?;
        let mut links = self.link_statistics();
        links.retain(|link| port.is_none_or(|port| self.names.port(&link.name) == Some(port)));
        Ok(links)
    }

    /// Lends routes and names out to `ip`.
    fn with_ip<T>(&mut self, now: Instant, act: impl FnOnce(&mut Ip) -> T) -> T {
        let fib = std::mem::take(self.host.fib_mut());
        let devices = std::mem::take(&mut self.names);
        let mut ip = Ip { fib, devices, now, explain: false };
        let result = act(&mut ip);
        *self.host.fib_mut() = ip.fib;
        self.names = ip.devices;
        self.poll(now);
        result
    }

    /// What the kernel would answer where it refuses.
    pub(super) fn change_neighbours(
        &mut self,
        now: Instant,
        command: &NeighCommand,
    ) -> Result<(), IpError> {
        let done = self.host.change_neighbours(now, |table| neigh::change(table, now, command));
        self.poll(now);
        done.expect("a router has neighbours")
    }

    /// From now on nothing is taken in. A second time ends at once.
    pub(super) fn start_draining(&mut self) -> Result<(), Fault> {
        use std::io::Read as _;
        let _nothing = self.stop.read(&mut [0; 64]);
        if self.phase != Phase::Running {
            self.phase = Phase::Over;
            return Ok(());
        }
        self.phase = Phase::Draining(sys::now() + self.settings.drain);
        self.stop_reading()
    }
}

/// Whether a command that begins so is one of `ip`, whose own name may be left out.
fn is_of_ip(word: &str) -> bool {
    const OBJECTS: [&str; 6] = ["route", "rule", "nexthop", "link", "address", "neighbour"];
    let begins = OBJECTS.iter().any(|object| object.starts_with(word));
    word.is_empty()
        || word.starts_with('-')
        || begins
        || matches!(word, "ip" | "nh" | "addr" | "neighbor")
}
