//! htb's classes by plain arithmetic (`sch_htb.c`): the tokens of each class, who may send with whose, who goes first,
//! and when the next one may; and which class a packet belongs to.

use std::collections::BTreeMap;

use datapath::packet::Packet;
use datapath::qdisc::htb::{ClassConfig, ClassStats, Htb};
use datapath::qdisc::rate::RateConfig;
use datapath::qdisc::{Backlog, Handle, Qdisc as _, Sched};
use datapath::units::{Duration, Instant};

use super::call::Call;
use super::filters::Filters;
use super::law::is_prompt;
use super::shares::{Sender, Shares};
use super::tokens::time_of;
use crate::case::BrokenLaw;

/// All classes, by minor, and what waits in front of them.
#[derive(Clone, Debug)]
pub struct Classes {
    major: u16,
    all: BTreeMap<u16, Class>,
    /// Packets of no class.
    direct: u32,
    shares: Shares,
    filters: Filters,
}

#[derive(Clone, Debug)]
struct Class {
    parent: Option<u16>,
    /// 0 of a leaf, 7 of an outermost class with others below it.
    level: u8,
    config: ClassConfig,
    /// Time of transmission in the two buckets at `counted_at`, in ns.
    tokens: i64,
    ctokens: i64,
    counted_at: i64,
    /// It has become a parent, and may send whatever its tokens say, until it is charged (`htb_change_class`).
    is_pardoned: bool,
    stats: ClassStats,
    /// What is in its queue, and how many packets have left it.
    waiting: Backlog,
    left: u64,
    /// At which priority it has had something to send since it has.
    prio: Option<u32>,
    /// Its queue gives a packet whenever it has one.
    is_prompt: bool,
}

/// `enum htb_cmode`, the worst first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Mode {
    Cannot,
    Borrows,
    Can,
}

/// No bucket is credited, or in debt, by more (`mbuffer`).
const MINUTE: i64 = 60_000_000_000;

impl Classes {
    /// The classes of an htb through which nothing has gone yet.
    pub fn new(htb: &Htb, handle: Handle, now: Instant) -> Self {
        let mut new = Self {
            major: handle.major(),
            all: BTreeMap::new(),
            direct: 0,
            shares: Shares::default(),
            filters: Filters::default(),
        };
        new.changed(htb, now);
        new
    }

    /// Classes have come, gone or been changed, or the queues of some.
    pub fn changed(&mut self, htb: &Htb, now: Instant) {
        let old = core::mem::take(&mut self.all);
        let minors = htb.classes().map(Handle::minor);
        self.all =
            minors.map(|minor| (minor, self.read(htb, minor, old.get(&minor), now))).collect();
        let classes = &self.all;
        self.filters.keep(|minor| classes.contains_key(&minor));
        let stays = |minor| {
            let is_leaf =
                |all: &BTreeMap<u16, Class>| all.get(&minor).is_some_and(|it| it.level == 0);
            is_leaf(&old) && is_leaf(classes)
        };
        self.shares.changed(stays);
    }

    fn read(&self, htb: &Htb, minor: u16, old: Option<&Class>, now: Instant) -> Class {
        let handle = Handle::new(self.major, minor);
        let state = htb.state(handle).expect("a class that is listed");
        let leaf = htb.leaf(handle);
        let old = old.filter(|old| old.level == 0 || state.level > 0);
        let waiting = leaf.map(Sched::backlog).unwrap_or_default();
        Class {
            parent: (state.parent != Handle::ROOT).then(|| state.parent.minor()),
            level: state.level,
            config: state.config,
            tokens: state.tokens,
            ctokens: state.ctokens,
            counted_at: old.map_or(now.as_nanos() as i64, |old| old.counted_at),
            is_pardoned: old.is_some_and(|old| old.is_pardoned || old.level < state.level),
            stats: state.stats,
            waiting,
            left: leaf.map_or(0, |leaf| leaf.stats().packets),
            prio: (waiting.packets > 0)
                .then(|| old.and_then(|old| old.prio).unwrap_or(state.config.prio)),
            is_prompt: leaf.is_some_and(is_prompt),
        }
    }

    /// A filter was added, somewhere.
    pub fn filter(&mut self, words: &str) {
        self.filters.add(self.major, words);
    }

    /// A packet came.
    pub fn entered(&mut self, call: &Call<'_>, htb: &Htb, came: &Packet) -> Result<(), BrokenLaw> {
        let class = self.class_of(htb, came);
        let grown = self.look(htb);
        let is_direct = grown.is_none() && call.root.backlog() != call.before;
        self.direct += u32::from(is_direct);
        if grown.is_none_or(|grown| Some(grown) == class) && (!is_direct || class.is_none()) {
            return Ok(());
        }
        let number = came.body.number();
        Err(("class", format!("packet {number} went to {grown:x?} instead of {class:x?}")))
    }

    /// The leaf of a packet; `None`: it goes past all classes (`htb_classify`).
    fn class_of(&self, htb: &Htb, packet: &Packet) -> Option<u16> {
        let is_leaf = |minor: u16| self.all.get(&minor).is_some_and(|class| class.level == 0);
        let priority = packet.meta.priority;
        let is_own = priority >> 16 == u32::from(self.major);
        let named = is_own.then_some(priority as u16);
        // A class of the number 1:0 cannot be named.
        if named == Some(0) {
            return None;
        }
        let mut class = named.filter(|minor| self.all.contains_key(minor));
        for _ in 0..9 {
            if class.is_some_and(is_leaf) {
                return class;
            }
            // The filters of 1:0, a class here, are those of the qdisc.
            if class == Some(0) {
                break;
            }
            let chosen = self.filters.choice(class.unwrap_or(0), packet);
            class = chosen.filter(|minor| self.all.contains_key(minor));
            match chosen {
                Some(0) if class.is_none() => return None,
                _ if class.is_none() => break,
                _ => {}
            }
        }
        let default = htb.config().default as u16;
        is_leaf(default).then_some(default)
    }

    /// Looks at the queues again; gives one that holds something else than before.
    fn look(&mut self, htb: &Htb) -> Option<u16> {
        let major = self.major;
        let mut other = None;
        for (minor, class) in &mut self.all {
            let Some(leaf) = htb.leaf(Handle::new(major, *minor)) else { continue };
            let waiting = leaf.backlog();
            if waiting != class.waiting {
                other = Some(*minor);
            }
            class.prio = (waiting.packets > 0).then(|| class.prio.unwrap_or(class.config.prio));
            (class.waiting, class.left) = (waiting, leaf.stats().packets);
        }
        other
    }

    /// htb was asked, and gave this packet.
    pub fn on_dequeue(
        &mut self,
        call: &Call<'_>,
        htb: &Htb,
        packet: Option<&Packet>,
    ) -> Result<(), BrokenLaw> {
        let now = call.now.as_nanos() as i64;
        let may: Vec<Sender> =
            self.all.keys().filter_map(|minor| self.sender(*minor, now)).collect();
        self.shares.asked(&may);
        let prompt = may.iter().filter(|it| self.all[&it.minor].is_prompt).copied();
        let first = prompt.min_by_key(Sender::order);
        let Some(packet) = packet else {
            if let Some(first) = first {
                return Err(("classes", format!("nothing left, and {first} may send")));
            }
            self.look(htb);
            return self.check_wake(call, now);
        };
        let sender = self.all.iter().find(|(minor, class)| {
            let leaf = htb.leaf(Handle::new(self.major, **minor));
            leaf.is_some_and(|leaf| leaf.stats().packets != class.left)
        });
        let Some(minor) = sender.map(|(minor, _)| *minor) else { return self.direct_left(packet) };
        if self.direct > 0 {
            return Err((
                "classes",
                format!("1:{minor:x} overtakes what waits in front of all classes"),
            ));
        }
        let number = packet.body.number();
        let Some(sender) = may.iter().find(|it| it.minor == minor).copied() else {
            let lacks = self.all[&minor].modes(now);
            return Err((
                "classes",
                format!("packet {number} left, and 1:{minor:x} may not send: {lacks}"),
            ));
        };
        if let Some(first) = first.filter(|first| first.order() < sender.order()) {
            return Err((
                "classes",
                format!("packet {number} left by {sender}, and {first} goes first"),
            ));
        }
        self.charge(htb, sender, packet, now)?;
        self.shares.sent(&may, sender, packet.wire_len())?;
        self.look(htb);
        Ok(())
    }

    fn direct_left(&mut self, packet: &Packet) -> Result<(), BrokenLaw> {
        if self.direct == 0 {
            let number = packet.body.number();
            return Err(("classes", format!("packet {number} left, and is of no class")));
        }
        self.direct -= 1;
        Ok(())
    }

    /// At which level a leaf sends: that of the first class from itself upwards that can, if all below that may borrow.
    fn sender(&self, minor: u16, now: i64) -> Option<Sender> {
        let leaf = &self.all[&minor];
        let prio = leaf.prio?;
        let by = self.line(minor).find(|class| class.mode(now) != Mode::Borrows)?;
        let Class { parent, config, is_prompt, .. } = leaf;
        (by.mode(now) == Mode::Can).then_some(Sender {
            minor,
            level: by.level,
            prio,
            parent: *parent,
            quantum: config.quantum,
            is_prompt: *is_prompt,
        })
    }

    /// A class and those above it.
    fn line(&self, minor: u16) -> impl Iterator<Item = &Class> {
        core::iter::successors(self.all.get(&minor), |class| {
            class.parent.and_then(|parent| self.all.get(&parent))
        })
    }

    /// A leaf and all above it pay: those at the level at which it sends and above with both kinds of tokens,
    /// those below with those of their ceil (`htb_charge_class`).
    fn charge(
        &mut self,
        htb: &Htb,
        sender: Sender,
        packet: &Packet,
        now: i64,
    ) -> Result<(), BrokenLaw> {
        let mut next = Some(sender.minor);
        while let Some(minor) = next {
            let state = htb.state(Handle::new(self.major, minor)).expect("a class");
            let class = self.all.get_mut(&minor).expect("a class");
            let (before, borrows) = (class.mode(now), class.level < sender.level);
            let elapsed = (now - class.counted_at).min(MINUTE);
            let tokens = class.tokens + elapsed;
            let expected = if borrows {
                (tokens, tokens)
            } else {
                paid(tokens, class.config.buffer, class.config.rate, packet)
            };
            let ceil =
                paid(class.ctokens + elapsed, class.config.cbuffer, class.config.ceil, packet);
            let has = (state.tokens, state.ctokens);
            if !(expected.0..=expected.1).contains(&has.0) || !(ceil.0..=ceil.1).contains(&has.1) {
                let what = format!(
                    "1:{minor:x} has {has:?} ns after packet {} of {sender}, and should have {expected:?} and {ceil:?}",
                    packet.body.number()
                );
                return Err(("tokens", what));
            }
            (class.tokens, class.ctokens) = has;
            (class.counted_at, class.is_pardoned) = (now, false);
            // A class above whose level is not looked at any more still stands where it stood
            // before (`htb_do_events`), and need not run into its ceil again.
            let counted = state.stats.overlimits != class.stats.overlimits;
            let over = class.mode(now) == Mode::Cannot && before != Mode::Cannot;
            let over = over && (class.level <= sender.level || counted);
            let stats = &mut class.stats;
            stats.lends = stats.lends.wrapping_add(u32::from(class.level == sender.level));
            stats.borrows = stats.borrows.wrapping_add(u32::from(borrows));
            stats.bytes += u64::from(packet.wire_len());
            stats.packets += u64::from(packet.segments());
            stats.overlimits += u32::from(over);
            // Drops are those of its queue.
            class.stats.drops = state.stats.drops;
            if class.stats != state.stats {
                let what =
                    format!("1:{minor:x} counts {:?} instead of {:?}", state.stats, class.stats);
                return Err(("tokens", what));
            }
            next = class.parent;
        }
        Ok(())
    }

    /// htb asks to be called when the first class may send, or before.
    fn check_wake(&self, call: &Call<'_>, now: i64) -> Result<(), BrokenLaw> {
        let prompt =
            self.all.iter().filter(|(_, class)| class.is_prompt && class.waiting.packets > 0);
        let Some((at, minor)) =
            prompt.filter_map(|(minor, _)| Some((self.may_send_at(*minor)?, minor))).min()
        else {
            return Ok(());
        };
        let wake = call.root.wake_at().map(Instant::as_nanos);
        if wake.is_some_and(|wake| wake as i64 <= at.max(now + 1)) {
            return Ok(());
        }
        Err(("wake", format!("1:{minor:x} may send at {at} ns, and htb asks for {wake:?}")))
    }

    /// When a leaf may send if nobody else does before.
    fn may_send_at(&self, minor: u16) -> Option<i64> {
        let mut below = i64::MIN;
        let times = self.line(minor).map(|class| {
            let own = (class.counted_at - class.tokens, class.counted_at - class.ctokens);
            let at = if class.is_pardoned { below } else { below.max(own.0).max(own.1) };
            below = below.max(own.1);
            at
        });
        times.min()
    }
}

impl Class {
    /// What it may do (`htb_class_mode`, without `HTB_HYSTERESIS`).
    fn mode(&self, now: i64) -> Mode {
        let elapsed = (now - self.counted_at).min(MINUTE);
        match self {
            _ if self.is_pardoned => Mode::Can,
            _ if self.ctokens + elapsed < 0 => Mode::Cannot,
            _ if self.tokens + elapsed < 0 => Mode::Borrows,
            _ => Mode::Can,
        }
    }

    fn modes(&self, now: i64) -> String {
        let Self { tokens, ctokens, counted_at, prio, .. } = self;
        format!(
            "{tokens} and {ctokens} ns of {} ns ago, something to send {prio:?}",
            now - counted_at
        )
    }
}

/// Tokens after a packet, least and most.
fn paid(tokens: i64, depth: Duration, rate: RateConfig, packet: &Packet) -> (i64, i64) {
    let time = time_of(rate, packet.wire_len());
    let full = tokens.min(i64::try_from(depth.as_nanos()).unwrap_or(i64::MAX));
    let bounded = |tokens: i64| if tokens <= -MINUTE { 1 - MINUTE } else { tokens };
    (bounded(full - time.1), bounded(full - time.0))
}
