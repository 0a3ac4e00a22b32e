//! `tc class add|change|replace|delete dev NAME [root|parent CLASS] [classid CLASS] htb ...`: the classes of htb.

use super::attach::{find, owner};
use super::command::{class_id, parse_verb, second};
use super::{Verb, htb};
use crate::words::{Result, Words};
use core::fmt;
use datapath::qdisc::htb::{ClassConfig, ClassError, QuantumSize};
use datapath::qdisc::{AnyQdisc, Cx, Handle, Sched};

/// A whole `tc class` command.
#[derive(Clone, Debug, PartialEq)]
pub struct ClassCommand {
    /// What to do.
    pub verb: Verb,
    /// The interface's name.
    pub device: String,
    /// The class above it, [`Handle::ROOT`], or [`Handle::NONE`] if nothing was said.
    pub parent: Handle,
    /// Its own number.
    pub class: Handle,
    /// What it is to be; `None` for `delete`.
    pub config: Option<ClassConfig>,
}

/// Why a well-formed command does not fit the tree it is applied to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClassRefusal {
    /// No qdisc of this device has the number (`ENOENT`).
    NoSuchQdisc,
    /// Class and parent are of different qdiscs, no number was said, or the qdisc has no classes (`EINVAL`).
    Invalid,
    /// The classes of this qdisc are neither made nor deleted (`EOPNOTSUPP`).
    Unsupported,
    /// htb refuses it.
    Refused(ClassError),
}

impl fmt::Display for ClassRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoSuchQdisc => "No such file or directory",
            Self::Invalid => "Invalid argument",
            Self::Unsupported => "Operation not supported",
            Self::Refused(error) => return error.fmt(f),
        })
    }
}

impl std::error::Error for ClassRefusal {}

const HEAD: [&str; 5] = ["dev", "classid", "parent", "root", "htb"];

/// Reads `[tc] class VERB dev NAME [root|parent CLASS] [classid CLASS] htb ...`.
///
/// # Errors
/// Anything that tc would not send to the kernel, and kinds other than htb.
///
/// ```
/// let command = iproute::tc::parse_class(
///     "tc class add dev eth0 parent 1:1 classid 1:10 htb rate 6mbit ceil 10mbit",
/// )?;
/// assert_eq!(command.class.to_string(), "1:10");
/// # Ok::<(), iproute::words::GrammarError>(())
/// ```
pub fn parse_class(text: &str) -> Result<ClassCommand> {
    let mut words = Words::new(text);
    words.accept("tc");
    if !words.accept("class") {
        return Err(words.next().map_or_else(
            || words.unexpected_end("\"class\" is missing"),
            |word| word.unknown("tc", &["class"]),
        ));
    }
    let verb = parse_verb(&mut words)?;
    let (mut device, mut parent, mut class, mut config) = (None, None, None, None);
    while let Some(word) = words.next() {
        let again = match word.text {
            "dev" => device.replace(words.value(word)?.text.to_owned()).is_some(),
            "classid" => class.replace(class_id(words.value(word)?)?).is_some(),
            "root" => parent.replace(Handle::ROOT).is_some(),
            "parent" => parent.replace(class_id(words.value(word)?)?).is_some(),
            "htb" if verb == Verb::Delete && words.peek().is_none() => false,
            "htb" => config.replace(htb::parse_class(&mut words)?).is_some(),
            _ => return Err(word.unknown("class", &HEAD)),
        };
        if again {
            return Err(second(word, word.text));
        }
    }
    if config.is_none() && verb != Verb::Delete {
        return Err(words.missing("class", "htb"));
    }
    Ok(ClassCommand {
        verb,
        device: device.ok_or_else(|| words.missing("class", "dev"))?,
        parent: parent.unwrap_or(Handle::NONE),
        class: class.unwrap_or(Handle::NONE),
        config,
    })
}

impl ClassCommand {
    /// Carries the command out on the egress tree of a device, and gives tc's warning if there is one. What waited
    /// in a queue that is no more goes to `cx`, as dropped (`tc_ctl_tclass`).
    ///
    /// # Errors
    /// The command does not fit the tree; the tree is unchanged.
    pub fn apply(
        &self,
        root: &mut Sched,
        cx: &mut Cx<'_>,
    ) -> core::result::Result<Option<String>, ClassRefusal> {
        let handle = self.qdisc(root)?;
        let class = match self.class {
            Handle::NONE if self.parent == Handle::ROOT => handle,
            Handle::NONE => Handle::NONE,
            class => Handle::new(handle.major(), class.minor()),
        };
        let of_parent = |parent: Handle| Handle::new(handle.major(), parent.minor());
        let parent =
            if self.parent == Handle::ROOT { Handle::NONE } else { of_parent(self.parent) };
        let place = find(root, handle).ok_or(ClassRefusal::NoSuchQdisc)?;
        match place.qdisc() {
            AnyQdisc::Htb(_) => {}
            AnyQdisc::Tbf(_) | AnyQdisc::Prio(_) | AnyQdisc::Red(_) | AnyQdisc::Netem(_) => {
                return Err(ClassRefusal::Unsupported);
            }
            _ => return Err(ClassRefusal::Invalid),
        }
        let tree = root.tree();
        let above = tree.into_iter().find(|(_, sched)| sched.handle == handle);
        let above = above.map_or(Handle::ROOT, |(parent, _)| parent);
        let known = cx.dropped.len();
        let Some(AnyQdisc::Htb(htb)) = root.find_mut(handle).map(Sched::qdisc_mut) else {
            return Err(ClassRefusal::NoSuchQdisc);
        };
        let exists = htb.state(class).is_some();
        let done = match (self.verb, &self.config) {
            (Verb::Delete, _) => htb.delete_class(class, cx).map(|()| None),
            (Verb::Add, _) if exists => Err(ClassError::Exists),
            (_, Some(config)) if exists => htb.change_class(class, config),
            (Verb::Change, _) | (_, None) => Err(ClassError::NotFound),
            (_, Some(config)) => htb.add_class(class, parent, config, cx),
        };
        let odd = done.map_err(ClassRefusal::Refused)?;
        root.count_discarded(owner(above), (cx.dropped.len() - known) as u64);
        Ok(odd.map(|odd| warning(class, odd)))
    }

    /// Which qdisc the numbers are of: that of both, of one of them, or the outermost one.
    fn qdisc(&self, root: &Sched) -> core::result::Result<Handle, ClassRefusal> {
        let own = self.class.major();
        let above = if self.parent == Handle::ROOT { 0 } else { self.parent.major() };
        match (own, above) {
            (0, 0) => Ok(root.handle),
            (own, above) if own != 0 && above != 0 && own != above => Err(ClassRefusal::Invalid),
            (own, above) => Ok(Handle::new(own.max(above), 0)),
        }
    }
}

/// As Linux 6.18 warns.
fn warning(class: Handle, odd: QuantumSize) -> String {
    let size = match odd {
        QuantumSize::Small => "small",
        QuantumSize::Big => "big",
    };
    format!("sch_htb: quantum of class {:X} is {size}. Consider r2q change.", class.0)
}
