//! `ip rule add|del|show`.

mod select;
mod values;

use super::check::refuse_ecn_bits;
use super::json::{Object, list};
use super::names::{self, LOOPBACK, invalid};
use super::route::read_tos;
use super::{Ip, IpError, IpResult, Options, link, verb};
use crate::words::{Result, Word, Words};
use core::fmt::Write as _;
use core::ops::RangeInclusive;
use datapath::fib::{Action, InputPort, Prefix, Rule, TableId};
use select::Selector;
use values::{port_of, read_mark, read_ports};

const WORDS: [&str; 25] = [
    "protocol",
    "from",
    "to",
    "fwmark",
    "iif",
    "oif",
    "ipproto",
    "sport",
    "dport",
    "tos",
    "table",
    "lookup",
    "priority",
    "preference",
    "goto",
    "nop",
    "blackhole",
    "unreachable",
    "prohibit",
    "not",
    "suppress_prefixlength",
    "suppress_ifgroup",
    "order",
    "dev",
    "type",
];

/// A rule as its words describe it.
struct RuleWords {
    rule: Rule,
    /// Is it IPv6? `-4`, `-6` or the first prefix says so.
    family: Option<bool>,
    priority: Option<u32>,
    action: Option<Action>,
}

impl Ip {
    pub(super) fn rule(&mut self, words: &mut Words<'_>, options: Options) -> IpResult<String> {
        match verb(words, "rule", &["add", "del", "show", "flush"])? {
            "show" => return Ok(self.rule_show(words, options)?),
            "flush" => while self.fib.delete_rule(options.v6, |rule| rule.priority != 0).is_ok() {},
            "add" => {
                if words.peek().is_none() {
                    return Err(IpError::Answer("\"ip rule add\" requires arguments."));
                }
                let said = self.read_rule(words, options, true)?;
                said.check()?;
                let priority = said.priority.unwrap_or_else(|| self.free_priority(said.is_v6()));
                let action = said.action.unwrap_or(Action::Table(TableId::MAIN));
                if matches!(action, Action::Goto(target) if target <= priority) {
                    return Err(IpError::Answer("Error: Backward goto not supported."));
                }
                self.fib.add_rule(said.is_v6(), Rule { priority, action, ..said.rule })?;
            }
            _ => {
                let said = self.read_rule(words, options, false)?;
                self.fib.delete_rule(said.is_v6(), |rule| said.matches(rule))?;
            }
        }
        Ok(String::new())
    }

    /// One before the second rule (`fib_default_rule_pref`).
    fn free_priority(&self, v6: bool) -> u32 {
        let second = self.fib.rules(v6).get(1);
        second.map_or(0, |rule| rule.priority.saturating_sub(1))
    }

    /// Where what is said is of a new rule (`adds`), an interface that is not there is waited for.
    fn read_rule(
        &mut self,
        words: &mut Words<'_>,
        options: Options,
        adds: bool,
    ) -> Result<RuleWords> {
        let mut said = RuleWords {
            rule: Rule::all(0, Action::Nop),
            family: options.family(),
            priority: None,
            action: None,
        };
        while let Some(word) = words.next() {
            match word.text {
                "not" => said.rule.invert = true,
                "from" => said.rule.from = read_prefix(words.value(word)?, &mut said.family)?,
                "to" => said.rule.to = read_prefix(words.value(word)?, &mut said.family)?,
                "fwmark" => said.rule.mark = read_mark(words.value(word)?)?,
                "iif" | "dev" => {
                    let port = self.rule_device(words.value(word)?, "\"iif\"/\"dev\"", adds)?;
                    said.rule.iif = Some(input_port(port));
                }
                "oif" => {
                    said.rule.oif = Some(self.rule_device(words.value(word)?, "\"oif\"", adds)?);
                }
                "ipproto" => said.rule.protocol = Some(names::ip_protocol(words.value(word)?)?),
                "sport" => said.rule.src_ports = Some(read_ports(words.value(word)?, "sport")?),
                "dport" => said.rule.dst_ports = Some(read_ports(words.value(word)?, "dport")?),
                "tos" | "dsfield" => said.rule.tos = read_tos(words.value(word)?)?,
                "priority" | "preference" | "pref" | "order" => {
                    let what = "preference value is invalid";
                    said.priority = Some(names::number(words.value(word)?, what)?);
                }
                "table" | "lookup" => {
                    said.action = Some(Action::Table(names::table(words.value(word)?)?));
                }
                "goto" => {
                    let what = "goto target is invalid";
                    said.action = Some(Action::Goto(names::number(words.value(word)?, what)?));
                }
                "suppress_prefixlength" | "sup_pl" => {
                    let value = words.value(word)?;
                    let len = names::number(value, "suppress_prefixlength value is invalid")?;
                    said.rule.suppress_prefix_len = Some(len.min(255) as u8);
                }
                "suppress_ifgroup" | "sup_group" => {
                    let group = names::group(words.value(word)?, "suppress_ifgroup")?;
                    said.rule.suppress_group = Some(group);
                }
                "proto" | "protocol" => drop(names::protocol(words.value(word)?)?),
                "nop" => said.action = Some(Action::Nop),
                "type" => said.action = Some(read_type(words.value(word)?)?),
                _ => said.action = Some(read_type(word)?),
            }
        }
        Ok(said)
    }

    /// The number by which rules name an interface.
    fn rule_device(&mut self, name: Word<'_>, what: &str, adds: bool) -> Result<u16> {
        if !link::is_name(name.text) {
            return Err(invalid(name, &format!("{what} not a valid ifname"), None));
        }
        if adds {
            return self.port_for_rule(name.text).map_or_else(|| self.devices.read(name), Ok);
        }
        Ok(self.devices.rule_port(name.text).unwrap_or(UNKNOWN_PORT))
    }

    /// The number by which a new rule names an interface, which it may wait for.
    pub(super) fn port_for_rule(&mut self, name: &str) -> Option<u16> {
        let rules = [self.fib.rules(false), self.fib.rules(true)];
        let in_use =
            |port| rules.iter().any(|rules| rules.iter().any(|rule| names_port(rule, port)));
        self.devices.rule_port(name).or_else(|| self.devices.wait_for(name, in_use))
    }

    /// Adds an interface; the rules that have waited for it are for its packets from now on
    /// (`fib_rules_event`).
    pub fn add_device(&mut self, name: &str) -> u16 {
        let awaited = self.devices.rule_port(name).filter(|port| self.devices.is_awaited(*port));
        let port = self.devices.add(name);
        if let Some(awaited) = awaited {
            for v6 in [false, true] {
                self.attach_rules(v6, awaited, port);
            }
        }
        port
    }

    /// Puts all rules of a family in anew, those that had `awaited` with `port` instead: their order stays.
    fn attach_rules(&mut self, v6: bool, awaited: u16, port: u16) {
        let mut rules = self.fib.rules(v6).to_vec();
        if !rules.iter().any(|rule| names_port(rule, awaited)) {
            return;
        }
        for rule in &mut rules {
            if rule.iif == Some(InputPort::Port(awaited)) {
                rule.iif = Some(InputPort::Port(port));
            }
            if rule.oif == Some(awaited) {
                rule.oif = Some(port);
            }
        }
        while self.fib.delete_rule(v6, |_| true).is_ok() {}
        for rule in rules {
            self.fib.add_rule(v6, rule).expect("they differ as they did before");
        }
    }

    fn rule_show(&self, words: &mut Words<'_>, options: Options) -> Result<String> {
        let selector = Selector::read(words, &self.devices, options.v6)?;
        let rules = self.fib.rules(options.v6);
        let shown = rules.iter().filter(|rule| selector.matches(rule));
        if options.json {
            let shown: Vec<String> = shown.map(|rule| self.rule_json(rule, rules)).collect();
            return Ok(list(&shown));
        }
        Ok(shown.map(|rule| self.rule_text(rule, rules)).collect())
    }

    pub(super) fn rule_text(&self, rule: &Rule, rules: &[Rule]) -> String {
        let Rule {
            priority,
            invert,
            from,
            to,
            tos,
            mark,
            iif,
            oif,
            protocol,
            src_ports,
            dst_ports,
            suppress_prefix_len,
            suppress_group,
            action,
        } = rule;
        let mut out = format!("{priority}:\t");
        if *invert {
            out += "not ";
        }
        let from = from.as_ref().map_or("all".to_owned(), Prefix::to_string);
        let _ = write!(out, "from {from}");
        if let Some(to) = to {
            let _ = write!(out, " to {to}");
        }
        if *tos != 0 {
            let _ = write!(out, " tos {tos:#04x}");
        }
        match mark {
            Some((mark, u32::MAX)) => {
                let _ = write!(out, " fwmark {}", hex(*mark));
            }
            Some((mark, mask)) => {
                let _ = write!(out, " fwmark {}/{}", hex(*mark), hex(*mask));
            }
            None => {}
        }
        if let Some(iif) = iif {
            let _ = write!(out, " iif {}{}", self.input_name(*iif), self.detached(port_of(*iif)));
        }
        if let Some(oif) = oif {
            let _ = write!(out, " oif {}{}", self.devices.name(*oif), self.detached(*oif));
        }
        if let Some(protocol) = protocol {
            let _ = write!(out, " ipproto {}", names::ip_protocol_name(*protocol));
        }
        for (word, ports) in [("sport", src_ports), ("dport", dst_ports)] {
            match ports {
                Some(ports) if ports.start() == ports.end() => {
                    let _ = write!(out, " {word} {}", ports.start());
                }
                Some(ports) => {
                    let _ = write!(out, " {word} {}-{}", ports.start(), ports.end());
                }
                None => {}
            }
        }
        let _ = match action {
            Action::Table(table) => write!(out, " lookup {}", names::table_name(*table)),
            Action::Goto(target) => write!(out, " goto {target}"),
            Action::Nop => write!(out, " nop"),
            Action::Blackhole => write!(out, " blackhole"),
            Action::Unreachable => write!(out, " unreachable"),
            Action::Prohibit => write!(out, " prohibit"),
        };
        if let Some(len) = suppress_prefix_len {
            let _ = write!(out, " suppress_prefixlength {len}");
        }
        if let Some(group) = suppress_group {
            let _ = write!(out, " suppress_ifgroup {}", names::group_name(*group));
        }
        if is_unresolved(rule, rules) {
            out += " [unresolved]";
        }
        out + "\n"
    }

    fn rule_json(&self, rule: &Rule, rules: &[Rule]) -> String {
        let mut object = Object::default().number("priority", rule.priority);
        if rule.invert {
            object = object.flag("not");
        }
        object = match rule.from {
            None => object.text("src", "all"),
            Some(prefix) => prefix_json(object, "src", prefix),
        };
        if let Some(prefix) = rule.to {
            object = prefix_json(object, "dst", prefix);
        }
        if rule.tos != 0 {
            object = object.text("tos", &format!("{:#04x}", rule.tos));
        }
        if let Some((mark, mask)) = rule.mark {
            object = object.text("fwmark", &hex(mark));
            if mask != u32::MAX {
                object = object.text("fwmask", &hex(mask));
            }
        }
        if let Some(iif) = rule.iif {
            object = object.text("iif", self.input_name(iif));
            if self.devices.is_awaited(port_of(iif)) {
                object = object.flag("iif_detached");
            }
        }
        if let Some(oif) = rule.oif {
            object = object.text("oif", self.devices.name(oif));
            if self.devices.is_awaited(oif) {
                object = object.flag("oif_detached");
            }
        }
        if let Some(protocol) = rule.protocol {
            object = object.text("ipproto", &names::ip_protocol_name(protocol));
        }
        for (word, ports) in [("sport", &rule.src_ports), ("dport", &rule.dst_ports)] {
            match ports {
                Some(ports) if ports.start() == ports.end() => {
                    object = object.number(word, *ports.start());
                }
                Some(ports) => {
                    object = object.number(&format!("{word}_start"), *ports.start());
                    object = object.number(&format!("{word}_end"), *ports.end());
                }
                None => {}
            }
        }
        object = match rule.action {
            Action::Table(table) => object.text("table", &names::table_name(table)),
            Action::Goto(target) => object.number("goto", target),
            Action::Nop => object.flag("nop"),
            Action::Blackhole => object.text("action", "blackhole"),
            Action::Unreachable => object.text("action", "unreachable"),
            Action::Prohibit => object.text("action", "prohibit"),
        };
        if let Some(len) = rule.suppress_prefix_len {
            object = object.number("suppress_prefixlen", len);
        }
        if let Some(group) = rule.suppress_group {
            object = object.text("suppress_ifgroup", &names::group_name(group));
        }
        if is_unresolved(rule, rules) {
            object = object.flag("unresolved");
        }
        object.finish()
    }

    fn input_name(&self, iif: InputPort) -> &str {
        self.devices.name(port_of(iif))
    }

    /// What is shown behind an interface that is not there.
    fn detached(&self, port: u16) -> &'static str {
        if self.devices.is_awaited(port) { " [detached]" } else { "" }
    }
}

impl RuleWords {
    fn is_v6(&self) -> bool {
        self.family == Some(true)
    }

    /// What the kernel refuses of a new rule (`fib4_rule_configure`, `fib_rule_port_range_valid`).
    fn check(&self) -> IpResult<()> {
        let rule = &self.rule;
        refuse_ecn_bits(rule.tos)?;
        let wrong = |ports: &Option<RangeInclusive<u16>>| {
            ports.as_ref().is_some_and(|ports| *ports.start() == 0 || *ports.end() == u16::MAX)
        };
        if wrong(&rule.src_ports) {
            return Err(IpError::Answer("Error: Invalid sport range."));
        }
        if wrong(&rule.dst_ports) {
            return Err(IpError::Answer("Error: Invalid dport range."));
        }
        Ok(())
    }

    /// True if the rule has everything that was said.
    fn matches(&self, rule: &Rule) -> bool {
        let said = &self.rule;
        self.priority.is_none_or(|priority| priority == rule.priority)
            && self.action.is_none_or(|action| same_action(action, rule.action))
            && said.invert == rule.invert
            && (said.from.is_none() || said.from == rule.from)
            && (said.to.is_none() || said.to == rule.to)
            && (said.tos == 0 || said.tos == rule.tos)
            && (said.mark.is_none() || said.mark == rule.mark)
            && (said.iif.is_none() || said.iif == rule.iif)
            && (said.oif.is_none() || said.oif == rule.oif)
            && (said.protocol.is_none() || said.protocol == rule.protocol)
            && (said.src_ports.is_none() || said.src_ports == rule.src_ports)
            && (said.dst_ports.is_none() || said.dst_ports == rule.dst_ports)
            && (said.suppress_prefix_len.is_none()
                || said.suppress_prefix_len == rule.suppress_prefix_len)
            && (said.suppress_group.is_none() || said.suppress_group == rule.suppress_group)
    }
}

/// A number of no interface, whether it is there or waited for.
const UNKNOWN_PORT: u16 = LOOPBACK / 2;

/// What a rule has for the interface with this number.
pub(super) fn input_port(port: u16) -> InputPort {
    if port == LOOPBACK { InputPort::Loopback } else { InputPort::Port(port) }
}

fn names_port(rule: &Rule, port: u16) -> bool {
    rule.iif == Some(InputPort::Port(port)) || rule.oif == Some(port)
}

/// The kernel deletes any `goto`, whatever target is named.
fn same_action(said: Action, there: Action) -> bool {
    said == there || matches!((said, there), (Action::Goto(_), Action::Goto(_)))
}

fn is_unresolved(rule: &Rule, rules: &[Rule]) -> bool {
    matches!(rule.action, Action::Goto(target) if !rules.iter().any(|r| r.priority == target))
}

fn prefix_json(object: Object, key: &str, prefix: Prefix) -> Object {
    let object = object.text(key, &prefix.addr().to_string());
    if prefix.is_host() { object } else { object.number(&format!("{key}len"), prefix.len()) }
}

/// `all` is no condition; a prefix also tells the family.
fn read_prefix(word: Word<'_>, family: &mut Option<bool>) -> Result<Option<Prefix>> {
    let (addr, len) = names::loose_prefix(word, *family)?;
    if len == 0 {
        return Ok(None);
    }
    *family = Some(addr.is_ipv6());
    // What the length does not cover decides nothing.
    Ok(Prefix::containing(addr, len))
}

/// What a rule does that leads nowhere, with or without `type` before it.
fn read_type(word: Word<'_>) -> Result<Action> {
    match word.text {
        "blackhole" => Ok(Action::Blackhole),
        "unreachable" => Ok(Action::Unreachable),
        "prohibit" => Ok(Action::Prohibit),
        _ => {
            let nearest = word.unknown("rule", &WORDS).nearest;
            Err(invalid(word, "Failed to parse rule type", nearest))
        }
    }
}

/// As C prints `%#x`: zero has no base.
fn hex(number: u32) -> String {
    if number == 0 { "0".to_owned() } else { format!("{number:#x}") }
}
