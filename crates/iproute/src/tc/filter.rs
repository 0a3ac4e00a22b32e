//! `tc filter add dev NAME [parent HANDLE|ingress] [protocol P] [prio N] [handle MARK]
//! matchall|u32|fw ...`: packets to classes, and policers at ingress.

use super::command::{INGRESS_HANDLE, class_id};
use super::police::parse_police;
use crate::units::number;
use crate::words::{Result, Word, Words};
use datapath::qdisc::filter::{Filter, Match};
use datapath::qdisc::police::PoliceConfig;
use datapath::qdisc::{AnyQdisc, Handle, Sched};

/// A whole `tc filter add` command.
#[derive(Clone, Debug, PartialEq)]
pub struct FilterCommand {
    /// The interface's name.
    pub device: String,
    /// The qdisc that asks the filter: a handle, [`Handle::ROOT`], or `ffff:` for ingress.
    pub parent: Handle,
    /// Lower ones are asked first.
    pub preference: u32,
    /// All of these must match.
    pub matches: Vec<Match>,
    /// What becomes of what matches.
    pub outcome: FilterAction,
}

/// What becomes of a packet that matches.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum FilterAction {
    /// It goes to this class.
    Class(Handle),
    /// A policer judges it.
    Police(PoliceConfig),
}

const HEAD: [&str; 9] =
    ["dev", "parent", "root", "ingress", "protocol", "prio", "pref", "handle", "preference"];
const KINDS: [&str; 3] = ["matchall", "u32", "fw"];
const SELECTORS: [&str; 8] =
    ["tos", "dsfield", "priority", "protocol", "dport", "sport", "mark", "u32"];

/// Reads `[tc] filter add dev NAME ...`.
///
/// # Errors
/// Anything that tc would not send to the kernel, and classifiers that are not known here.
pub fn parse_filter(text: &str) -> Result<FilterCommand> {
    let mut words = Words::new(text);
    words.accept("tc");
    for expected in ["filter", "add"] {
        if !words.accept(expected) {
            return Err(words.next().map_or_else(
                || words.unexpected_end(&format!("\"{expected}\" is missing")),
                |word| word.unknown("tc", &[expected]),
            ));
        }
    }
    let mut head = Head { device: None, parent: Handle::ROOT, preference: 0, mark: None };
    let kind = loop {
        let word = words.next().ok_or_else(|| words.unexpected_end("a classifier is missing"))?;
        if !head.option(word, &mut words)? {
            break word;
        }
    };
    let matches = match kind.text {
        "matchall" => vec![Match::All],
        "u32" => selectors(&mut words)?,
        "fw" => vec![head.mark.ok_or_else(|| words.missing("fw", "handle"))?],
        _ => return Err(kind.unknown("filter", &[&HEAD[..], &KINDS].concat())),
    };
    Ok(FilterCommand {
        device: head.device.ok_or_else(|| words.missing("filter", "dev"))?,
        parent: head.parent,
        preference: head.preference,
        matches,
        outcome: outcome(&mut words)?,
    })
}

/// The words in front of the classifier.
struct Head {
    device: Option<String>,
    parent: Handle,
    preference: u32,
    /// `handle MARK[/MASK]`, which only `fw` has a use for.
    mark: Option<Match>,
}

impl Head {
    /// Takes `word` if it belongs here.
    fn option(&mut self, word: Word<'_>, words: &mut Words<'_>) -> Result<bool> {
        match word.text {
            "dev" => self.device = Some(words.value(word)?.text.to_owned()),
            "parent" => self.parent = class_id(words.value(word)?)?,
            "root" => self.parent = Handle::ROOT,
            "ingress" => self.parent = INGRESS_HANDLE,
            "protocol" => {
                let protocol = words.value(word)?;
                if !matches!(protocol.text, "ip" | "ipv6" | "all") {
                    return Err(protocol.unknown("protocol", &["ip", "ipv6", "all"]));
                }
            }
            "prio" | "pref" | "preference" => {
                let value = words.value(word)?;
                self.preference = number(value, "prio")?;
                if self.preference > u32::from(u16::MAX) {
                    return Err(value.illegal("prio"));
                }
            }
            "handle" => self.mark = Some(mark(words.value(word)?)?),
            _ => return Ok(false),
        }
        Ok(true)
    }
}

/// `MARK[/MASK]`.
fn mark(word: Word<'_>) -> Result<Match> {
    let (value, mask) = word.text.split_once('/').unwrap_or((word.text, "0xffffffff"));
    let part = |text| number(Word { text, ..word }, "handle").map_err(|_| word.illegal("handle"));
    Ok(Match::Mark { value: part(value)?, mask: part(mask)? })
}

/// `match ip|ip6 FIELD VALUE MASK`, `match mark VALUE MASK` or `match u32 0 0`, one or more.
fn selectors(words: &mut Words<'_>) -> Result<Vec<Match>> {
    let mut matches = Vec::new();
    while words.accept("match") {
        let word =
            words.next().ok_or_else(|| words.unexpected_end("\"match\" needs a selector"))?;
        let field = match word.text {
            "ip" | "ip6" => words.value(word)?,
            "mark" | "u32" => word,
            _ => return Err(word.unknown("match", &["ip", "ip6", "mark", "u32"])),
        };
        if !SELECTORS.contains(&field.text) {
            return Err(field.unknown("match", &SELECTORS));
        }
        let value = number(words.value(field)?, field.text)?;
        let mask = number(words.value(field)?, field.text)?;
        matches.push(selector(field, value, mask)?);
    }
    if matches.is_empty() {
        return Err(words.missing("u32", "match"));
    }
    Ok(matches)
}

fn selector(field: Word<'_>, value: u32, mask: u32) -> Result<Match> {
    let whole = |bits: u32| {
        let given = format!("{mask:#x}");
        let only = format!("\"{}\" under the mask {given} is not known here", field.text);
        if mask == bits { Ok(()) } else { Err(field.error(only, None)) }
    };
    match field.text {
        "tos" | "dsfield" | "priority" => Ok(Match::Tos { value: value as u8, mask: mask as u8 }),
        "mark" => Ok(Match::Mark { value, mask }),
        "protocol" => whole(0xff).map(|()| Match::Protocol(value as u8)),
        "dport" => whole(0xffff).map(|()| Match::DestinationPort(value as u16)),
        "sport" => whole(0xffff).map(|()| Match::SourcePort(value as u16)),
        _ => whole(0).map(|()| Match::All),
    }
}

/// `flowid|classid CLASS` or `[action] police ...`.
fn outcome(words: &mut Words<'_>) -> Result<FilterAction> {
    words.accept("action");
    let word =
        words.next().ok_or_else(|| words.unexpected_end("\"flowid\" or \"police\" is missing"))?;
    match word.text {
        "flowid" | "classid" => {
            let class = class_id(words.value(word)?)?;
            match words.next() {
                None => Ok(FilterAction::Class(class)),
                Some(word) => Err(word.unknown("filter", &[])),
            }
        }
        "police" => parse_police(words).map(FilterAction::Police),
        _ => Err(word.unknown("filter", &["flowid", "classid", "action", "police"])),
    }
}

impl FilterCommand {
    /// Adds a filter that chooses a class to the qdisc, or to the class of htb, that it is for. False, and nothing done, if
    /// that qdisc does not exist or asks no filters, or if this is a policer.
    pub fn apply(&self, root: &mut Sched) -> bool {
        let FilterAction::Class(class) = self.outcome else { return false };
        let target = match self.parent {
            Handle::ROOT => Some(root),
            parent => root.find_mut(Handle::new(parent.major(), 0)),
        };
        let asked_by = if self.parent == Handle::ROOT { Handle::NONE } else { self.parent };
        let filter = Filter { preference: self.preference, matches: self.matches.clone(), class };
        match target.map(Sched::qdisc_mut) {
            // Of the others classes have no filters.
            Some(AnyQdisc::Htb(htb)) => return htb.add_filter(asked_by, filter),
            Some(_) if asked_by.minor() != 0 => return false,
            Some(AnyQdisc::Prio(prio)) => prio.add_filter(filter),
            Some(AnyQdisc::Cake(cake)) => cake.add_filter(filter),
            Some(AnyQdisc::DualPi2(dualpi2)) => dualpi2.add_filter(filter),
            _ => return false,
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use datapath::qdisc::police::Action;
    use datapath::qdisc::prio::{Prio, PrioConfig};

    #[test]
    fn classifiers_read_as_in_tc() {
        for (text, matches, class) in [
            (
                "tc filter add dev r1 parent 1: protocol ip prio 1 u32 match ip tos 0x04 0xfc flowid 1:1",
                vec![Match::Tos { value: 4, mask: 0xfc }],
                Handle::new(1, 1),
            ),
            (
                "filter add dev r1 parent 1:0 handle 7 fw classid 1:2",
                vec![Match::Mark { value: 7, mask: u32::MAX }],
                Handle::new(1, 2),
            ),
            (
                "filter add dev r1 parent 1: u32 match ip protocol 17 0xff match ip dport 53 0xffff \
                 flowid 1:3",
                vec![Match::Protocol(17), Match::DestinationPort(53)],
                Handle::new(1, 3),
            ),
        ] {
            let command = parse_filter(text).expect(text);
            assert_eq!((command.matches, command.outcome), (matches, FilterAction::Class(class)));
        }
    }

    /// The words of a recorded run.
    #[test]
    fn a_policer_at_ingress() {
        let text = "tc filter add dev r0 parent ffff: protocol ip prio 1 matchall action police \
                    rate 5mbit burst 20000 mtu 2000 conform-exceed drop";
        let command = parse_filter(text).expect("good words");
        assert_eq!(command.parent, INGRESS_HANDLE);
        let FilterAction::Police(config) = command.outcome else { panic!("a policer") };
        assert_eq!((config.mtu, config.exceed), (2000, Action::Drop));
    }

    #[test]
    fn filters_go_where_they_are_asked() {
        let mut root =
            Sched::new(Handle::new(1, 0), Prio::new(PrioConfig::default(), Handle::new(1, 0)));
        let add = |text| parse_filter(text).expect(text);
        assert!(add("filter add dev x parent 1: matchall flowid 1:1").apply(&mut root));
        assert!(!add("filter add dev x parent 2: matchall flowid 1:1").apply(&mut root));
    }

    #[test]
    fn mistakes_are_pointed_at() {
        for (text, expected) in [
            (
                "filter add dev x matchal flowid 1:1",
                "column 17: filter: unknown parameter \"matchal\" (did you mean \"matchall\"?)",
            ),
            (
                "filter add dev x fw classid 1:1",
                "column 31: fw: the \"handle\" parameter is mandatory",
            ),
            (
                "filter add dev x u32 match ip tso 1 2 flowid 1:1",
                "column 30: match: unknown parameter \"tso\" (did you mean \"tos\"?)",
            ),
            ("filter add dev x matchall", "column 25: \"flowid\" or \"police\" is missing"),
        ] {
            assert_eq!(parse_filter(text).expect_err(text).to_string(), expected);
        }
    }
}
