//! Leaves of htb that borrow from the same class take turns of a quantum each.

use core::fmt;
use std::collections::BTreeMap;

use crate::case::BrokenLaw;

/// A leaf that may send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sender {
    /// Its number.
    pub minor: u16,
    /// The level of the class whose tokens it sends with.
    pub level: u8,
    /// Its priority.
    pub prio: u32,
    /// The class above it.
    pub parent: Option<u16>,
    /// Bytes of its turns.
    pub quantum: u32,
    /// Its queue gives a packet whenever it has one.
    pub is_prompt: bool,
}

impl Sender {
    /// Who goes first: who has tokens of its own, then the lower levels, then the lower priority.
    pub fn order(&self) -> (u8, u32) {
        (self.level, self.prio)
    }

    /// With whom it takes turns.
    fn group(&self) -> (Option<u16>, u8, u32) {
        (self.parent, self.level, self.prio)
    }
}

impl fmt::Display for Sender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { minor, level, prio, .. } = self;
        write!(f, "1:{minor:x} at level {level} and priority {prio}")
    }
}

/// The turns of leaves, of which each ends when a quantum is used up (`htb_dequeue_tree`).
#[derive(Clone, Debug, Default)]
pub struct Shares {
    /// What a leaf may still send in its turn, by number and the level at which it sends.
    deficits: BTreeMap<(u16, u8), i64>,
    /// Who has sent last, of those of one parent, level and priority.
    latest: BTreeMap<(Option<u16>, u8, u32), Turn>,
}

#[derive(Clone, Debug)]
struct Turn {
    minor: u16,
    ended: bool,
    /// Who could have sent at any time since.
    ready: Vec<u16>,
}

impl Shares {
    /// Classes have changed: turns are not known, and of those that `stay` leaves what they have sent.
    pub fn changed(&mut self, stay: impl Fn(u16) -> bool) {
        self.latest.clear();
        self.deficits.retain(|(minor, _), _| stay(*minor));
    }

    /// htb was asked, and these might send.
    pub fn asked(&mut self, may: &[Sender]) {
        for (group, turn) in &mut self.latest {
            let is_ready = |minor: &u16| {
                may.iter().any(|it| it.minor == *minor && it.is_prompt && it.group() == *group)
            };
            turn.ready.retain(is_ready);
        }
    }

    /// `sender`, one of those that might, has sent so many bytes.
    ///
    /// # Errors
    /// It was not its turn.
    pub fn sent(&mut self, may: &[Sender], sender: Sender, bytes: u32) -> Result<(), BrokenLaw> {
        if sender.level == 0 {
            return Ok(());
        }
        if let Some(turn) = self.latest.get(&sender.group()) {
            check(turn, sender)?;
        }
        let deficit = self.deficits.entry((sender.minor, sender.level)).or_default();
        *deficit -= i64::from(bytes);
        let ended = *deficit < 0;
        if ended {
            *deficit += i64::from(sender.quantum);
        }
        let beside = may.iter().filter(|it| it.is_prompt && it.group() == sender.group());
        let ready = beside.map(|it| it.minor).collect();
        self.latest.insert(sender.group(), Turn { minor: sender.minor, ended, ready });
        Ok(())
    }
}

fn check(turn: &Turn, sender: Sender) -> Result<(), BrokenLaw> {
    let Turn { minor, ended, ready } = turn;
    let is_taken = !ended && sender.minor != *minor && ready.contains(minor);
    let is_kept = *ended && sender.minor == *minor && ready.iter().any(|it| it != minor);
    if !is_taken && !is_kept {
        return Ok(());
    }
    Err((
        "shares",
        format!("{sender} sends after 1:{minor:x}, whose turn is over: {ended}; ready: {ready:x?}"),
    ))
}
