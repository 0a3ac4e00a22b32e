//! The ACK filter: which redundant ACK, if any, makes way for a packet that has just been queued.
//!
//! An ACK repeats everything that earlier ACKs said, so on a slow uplink the earlier ones may go
//! while they still wait. The filter looks at the queue itself, from its head, and drops an ACK
//! only if the *newest* packet says at least as much.
//!
//! Two generations: what Linux has had since 4.19 ([`mainline`]), and version 8 of the patch
//! that proposed it ([`version_8`]), which looks at neither options nor ECN and so can lose SACK
//! information, but filters more.

use super::config::AckFilter;
use super::segment::Segment;
use crate::packet::{Packet, TcpFlags};
use crate::tcp::seq::Seq;

/// The position in the queue of the packet to drop for `newest`, which is queued behind `queue`.
pub fn victim<'a>(
    filter: AckFilter,
    newest: &Packet,
    queue: impl Iterator<Item = &'a Packet>,
) -> Option<usize> {
    let newest = trigger(newest)?;
    match filter {
        AckFilter::Off | AckFilter::Naive => None,
        AckFilter::Conservative => mainline(&newest, queue, false),
        AckFilter::Aggressive => mainline(&newest, queue, true),
        AckFilter::V8Conservative => version_8(&newest, queue, false),
        AckFilter::V8Aggressive => version_8(&newest, queue, true),
    }
}

/// The newest packet, if it can make others redundant: it carries ACK and not SYN. It may carry
/// data and any options.
fn trigger(packet: &Packet) -> Option<Segment<'_>> {
    let segment = Segment::of(packet)?;
    (segment.has(ACK) && !segment.has(SYN)).then_some(segment)
}

/// An ACK that may be dropped if nothing on the way to the tail speaks against it.
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
    queue: impl Iterator<Item = &'a Packet>,
    aggressive: bool,
) -> Option<usize> {
    let carries_sack = newest.sack().is_some();
    let mut eligible: Option<Eligible> = None;
    let mut last = None;
    for (position, packet) in queue.enumerate() {
        last = Some(position);
        let Some(older) = Segment::of(packet) else { continue };
        // With an equal acknowledgment only SACK can make the newest packet say more.
        let acks_less = older.ack - newest.ack < i32::from(carries_sack);
        let candidate = acks_less && is_pure_ack(&older);
        if !(candidate || eligible.is_some()) || !older.same_flow(newest) {
            continue;
        }
        let ecn = older.flags & ECN_ECHO;
        // A change of the echo is information: the ACK before it must stay.
        eligible = eligible.filter(|first| first.ecn == ecn);
        if !candidate || !says_no_more_than(&older, newest) {
            continue;
        }
        match eligible {
            Some(first) => return Some(first.position),
            None => eligible = Some(Eligible { position, ecn }),
        }
    }
    let only = eligible.filter(|_| aggressive)?;
    let consecutive = last == Some(only.position);
    (consecutive && only.ecn == newest.flags & ECN_ECHO).then_some(only.position)
}

/// An ACK and nothing else: no payload, no other flag but the ECN echo, reserved bits clear.
fn is_pure_ack(segment: &Segment<'_>) -> bool {
    segment.flags & !ECN_ECHO == ACK && segment.payload == 0
}

/// True if `older`, which does not acknowledge more, could be dropped without loss of information,
/// seen that `newest` is there.
fn says_no_more_than(older: &Segment<'_>, newest: &Segment<'_>) -> bool {
    if !older.options_allow_drop(newest) {
        return false;
    }
    match compare_sack(older, newest) {
        Sacked::Unlike => false,
        Sacked::More => true,
        Sacked::Same => older.ack != newest.ack,
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
    queue: impl Iterator<Item = &'a Packet>,
    aggressive: bool,
) -> Option<usize> {
    let carries_sack = newest.has_sack_option();
    let mut eligible = queue.enumerate().filter_map(|(position, packet)| {
        let older = Segment::of(packet)?;
        let acks_less = older.ack - newest.ack < i32::from(carries_sack);
        let pure = older.flags & !(ECN_ECHO | AE) == ACK && older.payload == 0;
        (pure && acks_less && older.same_flow(newest)).then_some(position)
    });
    let first = eligible.next()?;
    (aggressive || eligible.next().is_some()).then_some(first)
}

/// What the naive filter remembers of a flow.
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
