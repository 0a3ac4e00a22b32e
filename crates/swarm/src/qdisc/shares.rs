//! Leaves of htb that borrow from the same class take turns of their quantum.

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

    /// Whether it takes turns with another one.
    fn is_beside(&self, other: &Self) -> bool {
        self.level > 0 && self.order() == other.order() && self.parent == other.parent
    }
}

impl fmt::Display for Sender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { minor, level, prio, .. } = self;
        write!(f, "1:{minor:x} at level {level} and priority {prio}")
    }
}

/// What pairs of leaves have sent while both could at any time.
#[derive(Clone, Debug, Default)]
pub struct Shares {
    pairs: BTreeMap<(u16, u16), (Sender, [u64; 2])>,
    /// Leaves that may carry more than a quantum over: they have sent a longer packet, or had another quantum.
    odd: Vec<u16>,
}

impl Shares {
    /// None known of any leaf, and none ever of these.
    pub fn without(odd: impl Iterator<Item = u16>) -> Self {
        Self { pairs: BTreeMap::new(), odd: odd.collect() }
    }

    /// `sender`, one of those that might, has sent so many bytes.
    ///
    /// A leaf sends a quantum a turn on average, and carries less than one over. Turns alternate. So of two leaves
    /// one is never ahead by more than three.
    pub fn sent(&mut self, may: &[Sender], sender: Sender, bytes: u32) -> Result<(), BrokenLaw> {
        if bytes > sender.quantum && !self.odd.contains(&sender.minor) {
            self.odd.push(sender.minor);
        }
        let mut pairs = BTreeMap::new();
        for (nth, one) in may.iter().enumerate() {
            for other in may[nth + 1..].iter().filter(|other| one.is_beside(other)) {
                let is_odd = |it: &Sender| !it.is_prompt || self.odd.contains(&it.minor);
                if is_odd(one) || is_odd(other) {
                    continue;
                }
                let key = (one.minor, other.minor);
                let known = self.pairs.get(&key).filter(|(before, _)| before == one);
                let mut sent = known.map_or([0; 2], |(_, sent)| *sent);
                sent[0] += u64::from(bytes) * u64::from(one.minor == sender.minor);
                sent[1] += u64::from(bytes) * u64::from(other.minor == sender.minor);
                check(one, other, sent)?;
                pairs.insert(key, (*one, sent));
            }
        }
        self.pairs = pairs;
        Ok(())
    }
}

fn check(one: &Sender, other: &Sender, sent: [u64; 2]) -> Result<(), BrokenLaw> {
    let (mine, theirs) = (u64::from(one.quantum), u64::from(other.quantum));
    let apart = (sent[0] * theirs).abs_diff(sent[1] * mine);
    if apart <= 3 * mine * theirs {
        return Ok(());
    }
    let what = format!(
        "{one} and 1:{:x} sent {sent:?} bytes, with quanta of {mine} and {theirs}",
        other.minor
    );
    Err(("shares", what))
}
