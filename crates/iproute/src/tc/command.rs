//! `tc qdisc add|change|replace|delete dev NAME ...`: where a qdisc goes, and putting it there.

use super::{Device, Spec, parse_spec};
use crate::units::parse_hex;
use crate::words::{Result, Word, Words};
use core::fmt;
use datapath::qdisc::fifo::PfifoFast;
use datapath::qdisc::{Cx, Handle, Sched};
use datapath::rng::Rng;

/// What to do with the qdisc.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// Attach a new one where there is none yet.
    Add,
    /// Change the settings of the one that is there; it must be of the same kind.
    Change,
    /// Attach a new one, whatever is there.
    Replace,
    /// Detach it.
    Delete,
}

/// A whole `tc qdisc` command.
#[derive(Clone, Debug, PartialEq)]
pub struct QdiscCommand {
    /// What to do.
    pub verb: Verb,
    /// The interface's name.
    pub device: String,
    /// Where: [`Handle::ROOT`], [`Handle::INGRESS`] or a class.
    pub parent: Handle,
    /// The handle given, or [`Handle::NONE`].
    pub handle: Handle,
    /// The kind and its options; `None` for `ingress` and for `delete`.
    pub spec: Option<Spec>,
}

/// Why a well-formed command does not fit the tree it is applied to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// There is one already (`EEXIST`).
    Exists,
    /// No such class, or its owner takes no inner qdisc (`ENOENT`).
    NoSuchParent,
    /// What is there is of another kind (`EINVAL`).
    OtherKind,
    /// The command is about ingress, which has no queue to change (`EOPNOTSUPP`).
    Ingress,
}

const VERBS: [(&str, Verb); 5] = [
    ("add", Verb::Add),
    ("change", Verb::Change),
    ("replace", Verb::Replace),
    ("delete", Verb::Delete),
    ("del", Verb::Delete),
];

/// Reads `[tc] qdisc VERB dev NAME root|parent CLASS|ingress [handle HANDLE] KIND ...`.
///
/// # Errors
/// Anything that tc would not send to the kernel.
pub fn parse_qdisc(text: &str) -> Result<QdiscCommand> {
    let mut words = Words::new(text);
    words.accept("tc");
    if !words.accept("qdisc") {
        return Err(words.next().map_or_else(
            || words.ended("\"qdisc\" is missing"),
            |word| word.unknown("tc", &["qdisc"]),
        ));
    }
    let verb = parse_verb(&mut words)?;
    let place = Place::parse(&mut words)?;
    let spec = match (words.peek(), verb) {
        (None, Verb::Delete) => None,
        (None, _) if place.parent == Some(Handle::INGRESS) => None,
        _ => Some(parse_spec(&mut words)?),
    };
    Ok(QdiscCommand {
        verb,
        device: place.device.ok_or_else(|| words.missing("qdisc", "dev"))?,
        parent: place.parent.ok_or_else(|| words.missing("qdisc", "root"))?,
        handle: place.handle,
        spec,
    })
}

fn parse_verb(words: &mut Words<'_>) -> Result<Verb> {
    let Some(word) = words.next() else {
        return Err(words.ended("a verb is missing: add, change, replace or delete"));
    };
    let known = VERBS.iter().find(|(name, _)| *name == word.text);
    known.map(|(_, verb)| *verb).ok_or_else(|| word.unknown("qdisc", &VERBS.map(|(name, _)| name)))
}

/// The words in front of the kind, in any order.
#[derive(Default)]
struct Place {
    device: Option<String>,
    parent: Option<Handle>,
    handle: Handle,
}

impl Place {
    fn parse(words: &mut Words<'_>) -> Result<Self> {
        let mut place = Self::default();
        while let Some(word) = words.peek() {
            if !matches!(word.text, "dev" | "root" | "parent" | "handle" | "ingress") {
                break;
            }
            words.next();
            match word.text {
                "dev" => place.device = Some(words.value(word)?.text.to_owned()),
                "root" => place.set_parent(word, Handle::ROOT)?,
                "ingress" => {
                    place.set_parent(word, Handle::INGRESS)?;
                    place.handle = Handle::new(0xffff, 0);
                }
                "parent" => {
                    let class = words.value(word)?;
                    place.set_parent(class, class_id(class)?)?;
                }
                _ => place.handle = qdisc_handle(words.value(word)?)?,
            }
        }
        Ok(place)
    }

    fn set_parent(&mut self, word: Word<'_>, parent: Handle) -> Result<()> {
        match self.parent.replace(parent) {
            None => Ok(()),
            Some(_) => Err(word.error("the parent was given before".to_owned(), None)),
        }
    }
}

/// A handle: `MAJOR:` or `MAJOR`, hexadecimal, whatever follows the colon; or `none`
/// (`get_qdisc_handle`).
///
/// # Errors
/// Anything else.
pub(crate) fn qdisc_handle(word: Word<'_>) -> Result<Handle> {
    if word.text == "none" {
        return Ok(Handle::NONE);
    }
    let major = word.text.split(':').next().and_then(half);
    major.map(|major| Handle::new(major, 0)).ok_or_else(|| word.illegal("handle"))
}

/// A class: `MAJOR:MINOR`, where no digits are 0, or both in one number, hexadecimal; or `root` or
/// `none` (`get_tc_classid`).
///
/// # Errors
/// Anything else.
pub(crate) fn class_id(word: Word<'_>) -> Result<Handle> {
    let part = |text: &str| if text.is_empty() { Some(0) } else { half(text) };
    match word.text {
        "root" => return Ok(Handle::ROOT),
        "none" => return Ok(Handle::NONE),
        _ => {}
    }
    let id = match word.text.split_once(':') {
        Some((major, minor)) => part(major).zip(part(minor)).map(|(a, b)| Handle::new(a, b)),
        None => parse_hex(word.text).map(Handle),
    };
    id.ok_or_else(|| word.illegal("class id"))
}

/// One half of a handle.
fn half(text: &str) -> Option<u16> {
    parse_hex(text)?.try_into().ok()
}

impl QdiscCommand {
    /// Carries the command out on the egress tree of `device`, and gives back what was replaced. What
    /// waited in it goes to `cx`, as dropped.
    ///
    /// A tree whose root has no handle is the device's default queue, which `add` may replace.
    /// Where no handle is given the first free one from 8001: on is taken. Packets that a change
    /// leaves no room for go to `cx`.
    ///
    /// # Errors
    /// The command does not fit the tree; the tree is unchanged.
    pub fn apply(
        &self,
        root: &mut Sched,
        device: Device,
        rng: Rng,
        cx: &mut Cx<'_>,
    ) -> core::result::Result<Option<Box<Sched>>, Refused> {
        if self.parent == Handle::INGRESS {
            return Err(Refused::Ingress);
        }
        let handle = if self.handle == Handle::NONE { free_handle(root) } else { self.handle };
        let there = if self.parent == Handle::ROOT {
            &mut *root
        } else {
            root.class_mut(self.parent).ok_or(Refused::NoSuchParent)?
        };
        let Some(spec) = &self.spec else {
            let default = Sched::new(Handle::NONE, PfifoFast::new(device.tx_queue_len));
            return Ok(Some(replaced(there, default, cx)));
        };
        match self.verb {
            Verb::Add if there.handle != Handle::NONE => return Err(Refused::Exists),
            Verb::Change => {
                let fits = spec.change(there, cx);
                return if fits { Ok(None) } else { Err(Refused::OtherKind) };
            }
            Verb::Add | Verb::Replace | Verb::Delete => {}
        }
        let fresh = Sched::new(handle, spec.build(device, handle, rng));
        Ok(Some(replaced(there, fresh, cx)))
    }
}

/// What was `there` before `new`, emptied.
fn replaced(there: &mut Sched, new: Sched, cx: &mut Cx<'_>) -> Box<Sched> {
    let mut old = Box::new(core::mem::replace(there, new));
    old.purge(cx);
    old
}

/// The first unused handle from 8001: on (`qdisc_alloc_handle`).
fn free_handle(root: &Sched) -> Handle {
    let used: Vec<u16> = root.tree().iter().map(|(_, sched)| sched.handle.major()).collect();
    let major =
        (0x8001..=0xfffe).find(|major| !used.contains(major)).expect("fewer than 32768 qdiscs");
    Handle::new(major, 0)
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Exists => "Exclusivity flag on, cannot modify.",
            Self::NoSuchParent => "Parent Qdisc doesn't exists.",
            Self::OtherKind => "Invalid qdisc name: must match existing qdisc.",
            Self::Ingress => "An ingress qdisc has no queue.",
        })
    }
}

impl std::error::Error for Refused {}

#[cfg(test)]
mod tests {
    use super::*;
    use datapath::qdisc::fifo::Fifo;
    use datapath::units::Instant;

    fn apply(root: &mut Sched, text: &str) -> core::result::Result<Option<Box<Sched>>, Refused> {
        let command = parse_qdisc(text).expect(text);
        let cx = &mut Cx { now: Instant::ZERO, dropped: &mut Vec::new() };
        command.apply(root, Device::default(), Rng::stream(1, 1), cx)
    }

    fn handles(root: &Sched) -> Vec<(String, String)> {
        let show =
            |(parent, sched): (Handle, &Sched)| (parent.to_string(), sched.handle.to_string());
        root.tree().into_iter().map(show).collect()
    }

    #[test]
    fn a_tree_grows_command_by_command() {
        let mut root: Sched = Fifo::pfifo_default().into();
        let refused = |result: core::result::Result<_, Refused>| result.map(|_| ()).err();
        for (text, expected) in [
            ("tc qdisc add dev r1 root handle 1: tbf rate 10mbit burst 3100 limit 400000", None),
            ("tc qdisc add dev r1 parent 1:1 handle 10: bfifo limit 3000", None),
            ("tc qdisc add dev r1 parent 2:1 pfifo", Some(Refused::NoSuchParent)),
            ("tc qdisc add dev r1 root pfifo", Some(Refused::Exists)),
            ("tc qdisc change dev r1 root pfifo limit 3", Some(Refused::OtherKind)),
            ("tc qdisc change dev r1 parent 1:1 bfifo limit 5000", None),
            ("tc qdisc change dev r1 root tbf rate 5mbit burst 3100 limit 9000", None),
        ] {
            assert_eq!(refused(apply(&mut root, text)), expected, "{text}");
        }
        let shown = handles(&root);
        assert_eq!(shown, [("root", "1:"), ("1:1", "10:")].map(|(p, h)| (p.into(), h.into())));
    }

    #[test]
    fn free_handles_count_from_8001() {
        let mut root: Sched = Fifo::pfifo_default().into();
        let tbf = "qdisc add dev x root tbf rate 1mbit burst 3100 limit 9000";
        assert!(apply(&mut root, tbf).is_ok());
        assert!(apply(&mut root, "qdisc replace dev x parent 8001:1 pfifo").is_ok());
        assert_eq!(handles(&root)[1], ("8001:1".to_owned(), "8002:".to_owned()));
    }

    /// As tc 6.1 sent or refused them.
    #[test]
    fn handles_and_classes_are_hexadecimal() {
        let word = |text| Word { text, column: 0 };
        for (text, handle) in [
            ("1", Some(0x1_0000)),
            ("1:", Some(0x1_0000)),
            ("0x1f", Some(0x1f_0000)),
            ("+5:", Some(0x5_0000)),
            ("5:x", Some(0x5_0000)),
            ("ffff:", Some(0xffff_0000)),
            ("none", Some(0)),
            ("5x", None),
            (":", None),
            ("root", None),
            ("10000:", None),
            ("-1:", None),
        ] {
            assert_eq!(qdisc_handle(word(text)).ok().map(|handle| handle.0), handle, "{text}");
        }
        for (text, class) in [
            ("1:1", Some(0x1_0001)),
            ("0x1:0x1", Some(0x1_0001)),
            ("+1:1", Some(0x1_0001)),
            ("1:", Some(0x1_0000)),
            (":1", Some(1)),
            ("1", Some(1)),
            ("10001", Some(0x1_0001)),
            (":", Some(0)),
            ("none", Some(0)),
            ("root", Some(u32::MAX)),
            ("1:1:1", None),
            ("1:x", None),
            ("10000:1", None),
            ("1:10000", None),
        ] {
            assert_eq!(class_id(word(text)).ok().map(|class| class.0), class, "{text}");
        }
    }

    #[test]
    fn mistakes_are_pointed_at() {
        for (text, expected) in [
            ("qdsic add", "column 0: tc: unknown parameter \"qdsic\" (did you mean \"qdisc\"?)"),
            (
                "qdisc ad dev x root pfifo",
                "column 6: qdisc: unknown parameter \"ad\" (did you mean \"add\"?)",
            ),
            ("qdisc add root pfifo", "column 20: qdisc: the \"dev\" parameter is mandatory"),
            ("qdisc add dev x root parent 1:1 pfifo", "column 28: the parent was given before"),
            (
                "qdisc add dev x parent 1-1 pfifo",
                "column 23: illegal value for \"class id\": \"1-1\"",
            ),
        ] {
            assert_eq!(parse_qdisc(text).expect_err(text).to_string(), expected);
        }
    }
}
