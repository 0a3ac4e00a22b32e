//! `sysctl NAME=VALUE`: the settings that decide between next hops.

use super::names::{LOOPBACK, invalid, parse_number};
use super::{Ip, IpResult};
use crate::words::{Word, Words};
use core::fmt::Write as _;
use datapath::fib::hash::{HashFields, HashKey, Policy};
use datapath::fib::{LinkState, Settings};

const NAMES: [&str; 8] = [
    "net.ipv4.fib_multipath_hash_policy",
    "net.ipv4.fib_multipath_hash_fields",
    "net.ipv6.fib_multipath_hash_policy",
    "net.ipv6.fib_multipath_hash_fields",
    "net.ipv4.fib_multipath_hash_seed",
    "net.ipv4.fib_multipath_use_neigh",
    "net.ipv4.conf.all.ignore_routes_with_linkdown",
    "net.ipv6.conf.all.ignore_routes_with_linkdown",
];

impl Ip {
    /// `sysctl [-w] NAME[=VALUE] …`. As in the kernel IPv4 and IPv6 have policies and masks of their
    /// own, and both the seed of `net.ipv4`.
    pub(super) fn sysctl(&mut self, words: &mut Words<'_>) -> IpResult<String> {
        let mut out = String::new();
        for word in words.by_ref() {
            if matches!(word.text, "-w" | "-q" | "-qw") {
                continue;
            }
            match word.text.split_once('=') {
                Some((name, value)) => self.set_sysctl(word, &name.replace('/', "."), value)?,
                None => out += &self.show_sysctl(word)?,
            }
        }
        Ok(out)
    }

    /// `NAME = VALUE`, as `sysctl NAME` prints it.
    fn show_sysctl(&self, word: Word<'_>) -> IpResult<String> {
        let name = word.text.replace('/', ".");
        let settings = self.fib.settings();
        let hashed = settings.hashed(name.starts_with("net.ipv6."));
        let value = match name.rsplit('.').next() {
            _ if !NAMES.contains(&name.as_str()) => {
                let nearest = word.unknown("sysctl", &NAMES).nearest;
                let what = format!("\"{name}\" cannot be shown here; to set it: NAME=VALUE");
                return Err(word.error(what, nearest).into());
            }
            Some("fib_multipath_hash_policy") => hashed.policy as u32,
            Some("fib_multipath_hash_fields") => hashed.fields.number(),
            // A seed that was drawn is shown as 0, as by the kernel.
            Some("fib_multipath_hash_seed") => settings.key.seed().unwrap_or(0),
            Some("fib_multipath_use_neigh") => u32::from(settings.use_neigh),
            _ => {
                let v6 = name.starts_with("net.ipv6.");
                let ignores = |port: u16| {
                    let link = self.fib.link(port);
                    if v6 { link.ignore_linkdown_v6 } else { link.ignore_linkdown }
                };
                let mut ports = self.devices.ports().filter(|port| *port != LOOPBACK).peekable();
                u32::from(ports.peek().is_some() && ports.all(ignores))
            }
        };
        Ok(format!("{name} = {value}\n"))
    }

    fn set_sysctl(&mut self, word: Word<'_>, name: &str, value: &str) -> IpResult<()> {
        let wrong = |what: &str| invalid(word, what, None);
        let number = || parse_number(value).ok_or_else(|| wrong("a number is expected"));
        let mut settings = *self.fib.settings();
        let v6 = name.starts_with("net.ipv6.");
        match name {
            "net.ipv4.fib_multipath_hash_policy" | "net.ipv6.fib_multipath_hash_policy" => {
                let policy = Policy::from_number(number()?);
                let policy = policy.ok_or_else(|| wrong("the policy must be 0, 1, 2 or 3"))?;
                settings.hashed_mut(v6).policy = policy;
            }
            "net.ipv4.fib_multipath_hash_fields" | "net.ipv6.fib_multipath_hash_fields" => {
                let what = "only bits 0 to 11 are defined, and at least one must be set";
                let fields = HashFields::from_number(number()?).map_err(|_| wrong(what))?;
                settings.hashed_mut(v6).fields = fields;
            }
            "net.ipv4.fib_multipath_hash_seed" => settings.key = HashKey::from_seed(number()?),
            "net.ipv4.fib_multipath_use_neigh" => match number()? {
                value @ 0..=1 => settings.use_neigh = value != 0,
                _ => return Err(wrong("must be 0 or 1").into()),
            },
            _ => {
                let on = number()? != 0;
                return self.set_ignore_linkdown(word, name, on);
            }
        }
        self.fib.set_settings(settings);
        Ok(())
    }

    /// `net.ipv4.conf.DEV.ignore_routes_with_linkdown`, `DEV` being a device or `all`.
    fn set_ignore_linkdown(&mut self, word: Word<'_>, name: &str, on: bool) -> IpResult<()> {
        let (v6, rest) =
            match (name.strip_prefix("net.ipv4.conf."), name.strip_prefix("net.ipv6.conf.")) {
                (Some(rest), _) => (false, Some(rest)),
                (_, rest) => (true, rest),
            };
        let device = rest.and_then(|rest| rest.strip_suffix(".ignore_routes_with_linkdown"));
        let Some(device) = device else {
            let nearest = word.unknown("sysctl", &NAMES).nearest;
            return Err(word.error(format!("cannot stat \"{name}\""), nearest).into());
        };
        let ports: Vec<u16> = if device == "all" {
            self.devices.ports().collect()
        } else {
            vec![self.devices.read(Word { text: device, column: word.column })?]
        };
        for port in ports {
            let mut link: LinkState = self.fib.link(port);
            *(if v6 { &mut link.ignore_linkdown_v6 } else { &mut link.ignore_linkdown }) = on;
            if port != LOOPBACK && link != self.fib.link(port) {
                self.fib.set_link(self.now, port, link);
            }
        }
        Ok(())
    }

    /// The settings that are not the default, as words that [`Ip::run`] reads.
    pub(super) fn save_sysctls(&self, out: &mut String) {
        let (now, usual) = (*self.fib.settings(), Settings::default());
        let mut put = |name: &str, value: u32| {
            let _ = writeln!(out, "sysctl {name}={value}");
        };
        for (v6, family) in [(false, "ipv4"), (true, "ipv6")] {
            let (now, usual) = (now.hashed(v6), usual.hashed(v6));
            if now.policy != usual.policy {
                put(&format!("net.{family}.fib_multipath_hash_policy"), now.policy as u32);
            }
            if now.fields != usual.fields {
                put(&format!("net.{family}.fib_multipath_hash_fields"), now.fields.number());
            }
        }
        if now.key != usual.key
            && let Some(seed) = now.key.seed()
        {
            put("net.ipv4.fib_multipath_hash_seed", seed);
        }
        if now.use_neigh {
            put("net.ipv4.fib_multipath_use_neigh", 1);
        }
    }
}
