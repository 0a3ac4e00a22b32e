//! `tc qdisc add|change|replace|delete dev NAME ...`: what is to be done, and where.

use super::{GuestKind, Spec, parse_spec_with};
use crate::units::parse_hex;
use crate::words::{GrammarError, Result, Word, Words};
use datapath::qdisc::Handle;

/// What to do with the qdisc.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// Attach one where there is none, or none of this kind.
    Add,
    /// Change the settings of the one that is there.
    Change,
    /// Change the one that is there if it can become what is wanted, or attach a new one.
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
    /// Where: [`Handle::ROOT`], [`Handle::INGRESS`], a class, or [`Handle::NONE`] if the handle
    /// says it all.
    pub parent: Handle,
    /// The handle given, or [`Handle::NONE`].
    pub handle: Handle,
    /// The kind and its options; `None` for `ingress` and for `delete`.
    pub spec: Option<Spec>,
}

/// Each may be cut short.
const VERBS: [(&str, Verb); 4] = [
    ("add", Verb::Add),
    ("change", Verb::Change),
    ("replace", Verb::Replace),
    ("delete", Verb::Delete),
];

/// Reads `[tc] qdisc VERB dev NAME [root|parent CLASS|ingress] [handle HANDLE] KIND ...`.
///
/// # Errors
/// Anything that tc would not send to the kernel, and what names neither a parent nor a handle.
///
/// ```
/// let command = iproute::tc::parse_qdisc("tc qdisc add dev eth0 root cake bandwidth 20mbit")?;
/// assert_eq!(command.device, "eth0");
/// assert_eq!(command.spec.map(|spec| spec.kind()), Some("cake"));
///
/// let mistaken = iproute::tc::parse_qdisc("tc qdisc add dev eth0 root cake bandwith 20mbit");
/// assert!(mistaken.is_err_and(|error| error.to_string().contains("bandwidth")));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn parse_qdisc(text: &str) -> Result<QdiscCommand> {
    parse_qdisc_with(text, &[])
}

/// [`parse_qdisc`] that knows a library user's kinds as well.
///
/// # Errors
/// As of [`parse_qdisc`], and what a guest says of its options.
pub fn parse_qdisc_with(text: &str, guests: &[GuestKind]) -> Result<QdiscCommand> {
    let mut words = Words::new(text);
    words.accept("tc");
    if !words.accept("qdisc") {
        return Err(words.next().map_or_else(
            || words.unexpected_end("\"qdisc\" is missing"),
            |word| word.unknown("tc", &["qdisc"]),
        ));
    }
    let verb = parse_verb(&mut words)?;
    let place = Attachment::parse(&mut words)?;
    let spec = match (words.peek(), verb) {
        (None, Verb::Delete) => None,
        (None, _) if place.parent == Some(Handle::INGRESS) => None,
        _ => Some(parse_spec_with(&mut words, guests)?),
    };
    let parent = place.parent.unwrap_or(Handle::NONE);
    if parent == Handle::NONE && place.handle == Handle::NONE {
        return Err(words.missing("qdisc", "root"));
    }
    Ok(QdiscCommand {
        verb,
        device: place.device.ok_or_else(|| words.missing("qdisc", "dev"))?,
        parent,
        handle: place.handle,
        spec,
    })
}

pub(super) fn parse_verb(words: &mut Words<'_>) -> Result<Verb> {
    let Some(word) = words.next() else {
        return Err(words.unexpected_end("a verb is missing: add, change, replace or delete"));
    };
    let names = VERBS.map(|(name, _)| name);
    let whole = word.cut_short(&names).ok_or_else(|| word.unknown("qdisc", &names))?;
    Ok(VERBS.into_iter().find(|(name, _)| *name == whole).expect("one of them").1)
}

/// The words in front of the kind, in any order.
#[derive(Default)]
struct Attachment {
    device: Option<String>,
    parent: Option<Handle>,
    handle: Handle,
}

impl Attachment {
    fn parse(words: &mut Words<'_>) -> Result<Self> {
        let mut place = Self::default();
        while let Some(word) = words.peek() {
            if !matches!(word.text, "dev" | "root" | "parent" | "handle" | "ingress") {
                break;
            }
            words.next();
            match word.text {
                "dev" => {
                    let name = words.value(word)?;
                    if place.device.replace(name.text.to_owned()).is_some() {
                        return Err(second(name, "dev"));
                    }
                }
                "root" => place.set_parent(word, Handle::ROOT)?,
                "ingress" => {
                    place.set_parent(word, Handle::INGRESS)?;
                    place.handle = INGRESS_HANDLE;
                    skip_handles(words)?;
                    break;
                }
                "parent" => {
                    let class = words.value(word)?;
                    place.set_parent(class, class_id(class)?)?;
                }
                _ if place.handle != Handle::NONE => return Err(second(word, "handle")),
                _ => place.handle = qdisc_handle(words.value(word)?)?,
            }
        }
        Ok(place)
    }

    /// `none` is as good as no parent.
    fn set_parent(&mut self, word: Word<'_>, parent: Handle) -> Result<()> {
        match self.parent.replace(parent) {
            None | Some(Handle::NONE) => Ok(()),
            Some(_) => Err(second(word, "parent")),
        }
    }
}

/// The error that `what` was said before `word` says it again.
pub(super) fn second(word: Word<'_>, what: &str) -> GrammarError {
    word.error(format!("duplicate \"{what}\": \"{}\" is the second value", word.text), None)
}

/// Behind `ingress` tc takes a handle and does not look at it: there is only one.
fn skip_handles(words: &mut Words<'_>) -> Result<()> {
    while let Some(word) = words.peek().filter(|word| word.text == "handle") {
        words.next();
        words.value(word)?;
    }
    Ok(())
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

/// Where ingress filters hang (`ffff:`).
pub const INGRESS_HANDLE: Handle = Handle::new(0xffff, 0);

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

#[cfg(test)]
mod tests {
    use super::*;

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

    /// As tc 6.1 takes or refuses them. Behind `ingress` nothing counts.
    #[test]
    fn no_place_is_given_twice() {
        for (place, refused) in [
            ("dev d0 dev d1 root pfifo", Some("duplicate \"dev\": \"d1\" is the second value")),
            ("dev d0 root dev d0 pfifo", Some("duplicate \"dev\": \"d0\" is the second value")),
            (
                "dev d0 handle 1: handle 2: root pfifo",
                Some("duplicate \"handle\": \"handle\" is the second value"),
            ),
            ("dev d0 root root pfifo", Some("duplicate \"parent\": \"root\" is the second value")),
            (
                "dev d0 parent 1: parent 1:1 pfifo",
                Some("duplicate \"parent\": \"1:1\" is the second value"),
            ),
            ("dev d0 root ingress", Some("duplicate \"parent\": \"ingress\" is the second value")),
            ("dev d0 ingress root", Some("qdisc: unknown parameter \"root\"")),
            ("dev d0 handle none handle 2: root pfifo", None),
            ("dev d0 handle 0: handle 2: root pfifo", None),
            ("dev d0 parent none root pfifo", None),
            ("dev d0 handle 1: ingress", None),
            ("dev d0 ingress handle ffff:", None),
            ("dev d0 ingress handle 3: handle 4:", None),
        ] {
            let error = parse_qdisc(&format!("qdisc add {place}")).err();
            assert_eq!(error.map(|error| error.message).as_deref(), refused, "{place}");
        }
    }

    #[test]
    fn verbs_are_cut_short() {
        for (short, verb) in [
            ("a", Verb::Add),
            ("ch", Verb::Change),
            ("re", Verb::Replace),
            ("del", Verb::Delete),
            ("d", Verb::Delete),
        ] {
            let command = parse_qdisc(&format!("qdisc {short} dev x root pfifo"));
            assert_eq!(command.expect(short).verb, verb, "{short}");
        }
    }

    #[test]
    fn mistakes_are_pointed_at() {
        for (text, expected) in [
            ("qdsic add", "column 0: tc: unknown parameter \"qdsic\" (did you mean \"qdisc\"?)"),
            (
                "qdisc dad dev x root pfifo",
                "column 6: qdisc: unknown parameter \"dad\" (did you mean \"add\"?)",
            ),
            ("qdisc change dev x pfifo", "column 24: qdisc: the \"root\" parameter is mandatory"),
            ("qdisc add root pfifo", "column 20: qdisc: the \"dev\" parameter is mandatory"),
            (
                "qdisc add dev x root parent 1:1 pfifo",
                "column 28: duplicate \"parent\": \"1:1\" is the second value",
            ),
            (
                "qdisc add dev x parent 1-1 pfifo",
                "column 23: illegal value for \"class id\": \"1-1\"",
            ),
        ] {
            assert_eq!(parse_qdisc(text).expect_err(text).to_string(), expected);
        }
    }
}
