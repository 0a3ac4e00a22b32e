//! The ACK filter: which redundant ACK, if any, is dropped after a packet was queued.
//!
//! An ACK repeats the information of earlier ACKs, so on a slow uplink earlier ones may be dropped
//! while they are queued. The filter scans the queue from its head, and drops an ACK
//! only if the *newest* packet carries at least the same information.
//!
//! Two generations: what Linux has had since 4.19 ([`mainline`]), and version 8 of the patch
//! that proposed it ([`version_8`]), which ignores options and ECN and so can lose SACK
//! information, but filters more.

use super::config::AckFilter;
use super::pool::{Hint, Waiting};
use super::segment::Segment;
use crate::packet::seq::Seq;
use crate::packet::{Packet, TcpFlags};

/// Why an ACK was dropped or kept when another packet was queued behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum AckRule {
    /// Dropped: the first of two ACKs that the newest packet makes redundant.
    FirstOfTwo,
    /// Dropped: the only redundant one, right before the newest packet, with the same ECN echo.
    LastBefore,
    /// Dropped: the first redundant one (version 8, aggressive).
    First,
    /// Dropped as it came: every other one that acknowledges more (naive).
    EveryOther,
    /// Stays: two redundant ACKs are kept.
    KeepsTwo,
    /// Stays: it is of another connection, or the newest packet is no ACK at all.
    OtherFlow,
    /// Stays: it carries payload, or another flag than ACK, ECE and CWR.
    NotPure,
    /// Stays: the newest packet does not acknowledge more, nor cover more by SACK.
    Duplicate,
    /// Stays: it has other options than SACK, MD5 and time stamps, or newer time stamps.
    Options,
    /// Kept: its SACK blocks cover data that those of the newest packet do not.
    Sack,
    /// Stays: the ECN echo changes behind it.
    EcnChange,
    /// Stays: other packets wait between it and the newest one.
    NotLast,
}

impl AckRule {
    /// True if the ACK is dropped.
    pub const fn drops(self) -> bool {
        matches!(self, Self::FirstOfTwo | Self::LastBefore | Self::First | Self::EveryOther)
    }

    /// A machine-readable name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::FirstOfTwo => "first-of-two",
            Self::LastBefore => "last-before",
            Self::First => "first",
            Self::EveryOther => "every-other",
            Self::KeepsTwo => "keeps-two",
            Self::OtherFlow => "other-flow",
            Self::NotPure => "not-pure",
            Self::Duplicate => "duplicate",
            Self::Options => "options",
            Self::Sack => "sack",
            Self::EcnChange => "ecn-change",
            Self::NotLast => "not-last",
        }
    }

    /// A sentence for users.
    pub const fn sentence(self) -> &'static str {
        match self {
            Self::FirstOfTwo => "first of two ACKs that the newest makes redundant",
            Self::LastBefore => "redundant, right before the newest",
            Self::First => "first ACK that the newest makes redundant",
            Self::EveryOther => "every other rising ACK while others wait",
            Self::KeepsTwo => "two redundant ACKs are kept",
            Self::OtherFlow => "of another connection",
            Self::NotPure => "payload, or another flag than ACK, ECE, CWR",
            Self::Duplicate => "the newest acknowledges no more",
            Self::Options => "other options, or newer time stamps",
            Self::Sack => "SACK blocks that the newest does not cover",
            Self::EcnChange => "the ECN echo changes behind it",
            Self::NotLast => "others wait between it and the newest",
        }
    }
}

/// A queued packet, as the filter scans the queue.
pub trait Candidate<'a>: Copy {
    /// The packet.
    fn packet(self) -> &'a Packet;

    /// False if it is known without a look at the packet that it is no ACK whose acknowledgment
    /// number is less than `distance` after `ack`.
    fn may_be_less(self, ack: Seq, distance: i32) -> bool;
}

impl<'a> Candidate<'a> for Waiting<'a> {
    #[inline]
    fn packet(self) -> &'a Packet {
        self.packet()
    }

    #[inline]
    fn may_be_less(self, ack: Seq, distance: i32) -> bool {
        match self.hint() {
            Hint::Other => false,
            Hint::Ack(older) => older - ack < distance,
            Hint::Bytes => true,
        }
    }
}

/// A packet of which everything is to be told.
impl<'a> Candidate<'a> for &'a Packet {
    fn packet(self) -> &'a Packet {
        self
    }

    fn may_be_less(self, _ack: Seq, _distance: i32) -> bool {
        true
    }
}

/// The position in the queue of the packet to drop for `newest`, which is queued behind `queue`.
pub fn victim<'a>(
    filter: AckFilter,
    newest: &Packet,
    queue: impl Iterator<Item = impl Candidate<'a>>,
) -> Option<usize> {
    judge(filter, newest, queue, &mut |_, _| {})
}

/// The same, and reports for each packet examined why it is dropped or kept.
pub fn judge<'a>(
    filter: AckFilter,
    newest: &Packet,
    queue: impl Iterator<Item = impl Candidate<'a>>,
    note: &mut impl FnMut(usize, AckRule),
) -> Option<usize> {
    let newest = trigger(newest)?;
    match filter {
        AckFilter::Off | AckFilter::Naive => None,
        AckFilter::Conservative => mainline(&newest, queue, false, note),
        AckFilter::Aggressive => mainline(&newest, queue, true, note),
        AckFilter::V8Conservative => version_8(&newest, queue, false, note),
        AckFilter::V8Aggressive => version_8(&newest, queue, true, note),
    }
}

/// The acknowledgment number of a packet that is an ACK and nothing else, as mainline sees it.
pub fn pure_ack(packet: &Packet) -> Option<u32> {
    let segment = Segment::of(packet)?;
    is_pure_ack(&segment).then_some(segment.ack.0)
}

/// The newest packet, if it can make others redundant: it carries ACK and not SYN. It may carry
/// data and any options.
fn trigger(packet: &Packet) -> Option<Segment<'_>> {
    let segment = Segment::of(packet)?;
    (segment.has(ACK) && !segment.has(SYN)).then_some(segment)
}

/// An ACK that may be dropped, unless a packet behind it prevents that.
#[derive(Clone, Copy)]
struct Eligible {
    position: usize,
    ecn: u16,
}

/// The filter of Linux (`cake_ack_filter`).
///
/// The first of two eligible ACKs goes. A single one goes only in aggressive mode, and only if it
/// is the packet right before the newest with the same ECN echo.
fn mainline<'a>(
    newest: &Segment<'_>,
    queue: impl Iterator<Item = impl Candidate<'a>>,
    aggressive: bool,
    note: &mut impl FnMut(usize, AckRule),
) -> Option<usize> {
    // With an equal acknowledgment only SACK can make the newest packet say more.
    let distance = i32::from(newest.sack().is_some());
    let mut eligible: Option<Eligible> = None;
    let mut last = None;
    for (position, waiting) in queue.enumerate() {
        last = Some(position);
        if eligible.is_none() && !waiting.may_be_less(newest.ack, distance) {
            continue;
        }
        let Some(older) = Segment::of(waiting.packet()) else {
            note(position, AckRule::OtherFlow);
            continue;
        };
        let acks_less = older.ack - newest.ack < distance;
        let candidate = acks_less && is_pure_ack(&older);
        if !(candidate || eligible.is_some()) || !older.same_flow(newest) {
            note(position, why_no_candidate(&older, newest));
            continue;
        }
        let ecn = older.flags & ECN_ECHO;
        // A change of the ECN echo is information: the ACK before it must be kept.
        if let Some(first) = eligible.filter(|first| first.ecn != ecn) {
            note(first.position, AckRule::EcnChange);
            eligible = None;
        }
        if !candidate {
            note(position, why_no_candidate(&older, newest));
            continue;
        }
        if let Err(rule) = says_no_more_than(&older, newest) {
            note(position, rule);
            continue;
        }
        match eligible {
            Some(first) => {
                note(first.position, AckRule::FirstOfTwo);
                note(position, AckRule::KeepsTwo);
                return Some(first.position);
            }
            None => eligible = Some(Eligible { position, ecn }),
        }
    }
    let only = eligible?;
    let rule = if !aggressive {
        AckRule::KeepsTwo
    } else if last != Some(only.position) {
        AckRule::NotLast
    } else if only.ecn != newest.flags & ECN_ECHO {
        AckRule::EcnChange
    } else {
        AckRule::LastBefore
    };
    note(only.position, rule);
    rule.drops().then_some(only.position)
}

/// Why `older` cannot go whatever its options say.
fn why_no_candidate(older: &Segment<'_>, newest: &Segment<'_>) -> AckRule {
    if !older.same_flow(newest) {
        AckRule::OtherFlow
    } else if !is_pure_ack(older) {
        AckRule::NotPure
    } else {
        AckRule::Duplicate
    }
}

/// An ACK and nothing else: no payload, no other flag but the ECN echo, reserved bits clear.
fn is_pure_ack(segment: &Segment<'_>) -> bool {
    segment.flags & !ECN_ECHO == ACK && segment.payload == 0
}

/// Whether `older`, which does not acknowledge more than `newest`, could be dropped without loss of information;
/// if not, why.
#[inline]
fn says_no_more_than(older: &Segment<'_>, newest: &Segment<'_>) -> Result<(), AckRule> {
    if !older.options_allow_drop(newest) {
        return Err(AckRule::Options);
    }
    match compare_sack(older, newest) {
        Sacked::Unlike => Err(AckRule::Sack),
        Sacked::Same if older.ack == newest.ack => Err(AckRule::Duplicate),
        Sacked::More | Sacked::Same => Ok(()),
    }
}

/// How the SACK information of the newest packet relates to that of an older ACK.
enum Sacked {
    /// The older ACK says something that the newest doesn't.
    Unlike,
    /// Nothing new.
    Same,
    /// The newest covers more.
    More,
}

/// Compares SACK blocks (`cake_tcph_sack_compare`).
fn compare_sack(older: &Segment<'_>, newest: &Segment<'_>) -> Sacked {
    let (old_blocks, new_blocks) = match (older.sack(), newest.sack()) {
        (None, None) => return Sacked::Same,
        (Some(_), None) => return Sacked::Unlike,
        (None, Some(_)) => return Sacked::More,
        (Some(old_blocks), Some(new_blocks)) => (old_blocks, new_blocks),
    };
    let mut old_bytes = 0u32;
    for old in old_blocks.iter() {
        // A block below the cumulative ACK is a D-SACK (RFC 2883): it is told only once.
        let duplicate = old.start.before(older.ack);
        let covers =
            |new: crate::packet::SackBlock| !old.start.before(new.start) && !old.end.after(new.end);
        if duplicate || !new_blocks.iter().any(covers) {
            return Sacked::Unlike;
        }
        old_bytes = old_bytes.wrapping_add(old.end.0.wrapping_sub(old.start.0));
    }
    let new_bytes = new_blocks
        .iter()
        .fold(0u32, |sum, block| sum.wrapping_add(block.end.0.wrapping_sub(block.start.0)));
    if new_bytes > old_bytes { Sacked::More } else { Sacked::Same }
}

/// The filter of version 8 of the patch (4 May 2018): options are ignored, an equal cumulative ACK
/// is enough if the newest packet carries SACK.
///
/// Aggressive drops the first eligible ACK at once, conservative the first when it finds a second.
fn version_8<'a>(
    newest: &Segment<'_>,
    queue: impl Iterator<Item = impl Candidate<'a>>,
    aggressive: bool,
    note: &mut impl FnMut(usize, AckRule),
) -> Option<usize> {
    let distance = i32::from(newest.has_sack_option());
    let mut first = None;
    for (position, waiting) in queue.enumerate() {
        if !waiting.may_be_less(newest.ack, distance) {
            continue;
        }
        let rule = match Segment::of(waiting.packet()) {
            Some(older) if older.same_flow(newest) => {
                let acks_less = older.ack - newest.ack < distance;
                let pure = older.flags & !(ECN_ECHO | AE) == ACK && older.payload == 0;
                match (pure, acks_less) {
                    (true, true) => None,
                    (true, false) => Some(AckRule::Duplicate),
                    (false, _) => Some(AckRule::NotPure),
                }
            }
            _ => Some(AckRule::OtherFlow),
        };
        match (rule, first) {
            (Some(rule), _) => note(position, rule),
            (None, None) if aggressive => {
                note(position, AckRule::First);
                return Some(position);
            }
            (None, None) => first = Some(position),
            (None, Some(first)) => {
                note(first, AckRule::FirstOfTwo);
                note(position, AckRule::KeepsTwo);
                return Some(first);
            }
        }
    }
    note(first?, AckRule::KeepsTwo);
    None
}

/// The state of the naive filter for a flow.
#[derive(Clone, Copy, Debug, Default)]
pub struct LastAck {
    ack: Seq,
    /// The last ACK that said more was dropped.
    dropped: bool,
}

impl LastAck {
    /// The naive filter: whether `packet`, which comes while others of its flow wait, is dropped.
    ///
    /// Of the pure ACKs that acknowledge more than all before, every other one goes; what they
    /// carry besides is not looked at. So it is the *newer* information that is lost, until the
    /// next ACK comes, if one does.
    pub fn drops(&mut self, packet: &Packet) -> bool {
        let Some(segment) = Segment::of(packet) else { return false };
        let pure = segment.flags & !(ECN_ECHO | AE) == ACK && segment.payload == 0;
        if !pure || !segment.ack.after(self.ack) {
            return false;
        }
        *self = Self { ack: segment.ack, dropped: !self.dropped };
        self.dropped
    }
}

const ACK: u16 = TcpFlags::ACK.0;
const SYN: u16 = TcpFlags::SYN.0;
const AE: u16 = TcpFlags::AE.0;
/// What a receiver echoes of congestion marks (RFC 3168).
const ECN_ECHO: u16 = TcpFlags::ECE.0 | TcpFlags::CWR.0;

#[cfg(test)]
mod tests;
