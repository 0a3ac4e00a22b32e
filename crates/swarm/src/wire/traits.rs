//! What the segments of one case have in common, and the honest ones among them.

use super::segment::{Acks, Block, Choice, Segment, SeqBase, Timestamps};
use crate::draw::Draw;
use crate::oracle::frame::flag;

/// The character of a case: some are transfers with a few oddities, others are chaos.
pub(super) struct CaseTraits {
    /// Percentage of the peer's segments that are honest.
    pub honest: u64,
    /// Percentage of honest segments that carry data.
    pub data: u64,
    /// Percentage of ACKs that acknowledge less than everything.
    pub partial: u64,
    /// The peer's usual window.
    pub window: u16,
    /// Its usual segment length.
    pub len: u16,
    /// The handshake: options of the SYN.
    pub syn: Vec<Choice>,
    /// Time stamps are used.
    pub stamps: bool,
    /// A TCP MD5 key is set.
    pub signed: bool,
    /// Accurate ECN: the flags of an honest ACK.
    pub ace: u16,
    /// Percentage of data segments that carry CE, and of those that carry CWR.
    pub marks: u64,
    /// How many ms its timestamp echoes are late.
    pub echo: i64,
    pub ipv6: bool,
}

pub(super) fn draw_traits(draw: &mut Draw) -> CaseTraits {
    let ace_used = draw.percent(20);
    let mut syn = Vec::new();
    if draw.percent(85) {
        syn.push(Choice::Mss(*draw.one_of(&[1_460, 1_000, 536, 1_400, 65_535, 48, 0, 9_000])));
    }
    if draw.percent(70) {
        syn.push(Choice::SackPermitted);
    }
    if draw.percent(60) {
        syn.push(Choice::Scale(*draw.one_of(&[0, 7, 1, 14, 15, 255])));
    }
    CaseTraits {
        honest: *draw.one_of(&[10, 50, 80, 95]),
        data: draw.range(5..=95),
        partial: *draw.one_of(&[10, 40, 80]),
        window: *draw.weighted(&[(6, 65_535), (2, 1_000), (2, 4_000), (1, 500), (1, 20_000)]),
        len: *draw.one_of(&[1_000, 1_000, 100, 1, 1_460]),
        syn,
        stamps: draw.percent(50),
        signed: draw.percent(8),
        ace: if ace_used { 0x140 } else { 0 },
        marks: *draw.weighted(&[(5, 0), (2, 10), (1, 50)]),
        echo: match draw.range(0..=23) {
            0 => -1_000,
            1 | 2 => -(draw.range(400_000..=2_147_000) as i64),
            _ => 0,
        },
        ipv6: draw.percent(30),
    }
}

pub(super) fn syn(traits: &CaseTraits) -> Segment {
    Segment {
        window: traits.window,
        options: traits.syn.clone(),
        stamps: traits.stamps.then(Timestamps::default),
        signed: traits.signed.then_some(true),
        ..Segment::default()
    }
}

pub(super) fn wait(draw: &mut Draw) -> u64 {
    match draw.range(0..=19) {
        0 => draw.log_range(1_000_000..=200_000_000),
        1..=4 => draw.log_range(1..=5_000_000),
        _ => draw.log_range(1..=50_000),
    }
}

/// What a peer would send.
pub(super) fn honest(draw: &mut Draw, traits: &CaseTraits) -> Segment {
    let mut segment = Segment {
        flow: *draw.weighted(&[(8, 0), (2, 1), (1, 2)]),
        flags: flag::ACK | traits.ace,
        window: traits.window,
        stamps: traits.stamps.then_some(Timestamps { value: 0, echo: traits.echo }),
        signed: traits.signed.then_some(true),
        ..Segment::default()
    };
    if draw.percent(traits.data) {
        segment.len = traits.len;
        match draw.range(0..=9) {
            0 => segment.seq = i64::from(traits.len),
            1 => segment.from = SeqBase::Acked,
            _ => {}
        }
    }
    if draw.percent(traits.partial) {
        segment.acks = Acks::Old;
        segment.ack_segments = *draw.weighted(&[(3, 0), (3, 1), (2, 2), (1, 4)]);
        if draw.percent(60) {
            segment.options.push(Choice::Sack(blocks(draw, 0)));
        }
    }
    if draw.percent(3) {
        segment.flags |= flag::FIN;
    }
    mark(draw, traits, &mut segment);
    segment
}

/// The ECN field of a segment, as the case's traits have it.
fn mark(draw: &mut Draw, traits: &CaseTraits, segment: &mut Segment) {
    if traits.marks > 0 && segment.len > 0 {
        segment.ecn = if draw.percent(traits.marks) { 3 } else { 2 };
    }
    if draw.percent(traits.marks) {
        segment.flags |= 0x80;
    }
    if traits.ace != 0 && draw.percent(30) {
        let kind = *draw.one_of(&[172, 174]);
        let counters = (0..draw.range(0..=3)).map(|_| draw.log_range(0..=20_000) as u32);
        segment.options.push(Choice::AccEcn(kind, counters.collect()));
    }
}

pub(super) fn blocks(draw: &mut Draw, spread: u64) -> Vec<Block> {
    let count = draw.range(1..=4);
    let block = |draw: &mut Draw| Block {
        first: draw.log_range(0..=20) as i64 - i64::from(draw.percent(10)),
        segments: draw.log_range(1..=8) as i64,
        off: if draw.percent(spread) { skew(draw) } else { 0 },
        end_off: if draw.percent(spread) { skew(draw) } else { 0 },
    };
    (0..count).map(|_| block(draw)).collect()
}

/// A little, much, or very much too little or too much.
pub(super) fn skew(draw: &mut Draw) -> i64 {
    let amount = match draw.range(0..=5) {
        0..=2 => draw.range(1..=3),
        3 => draw.log_range(1..=2_000),
        4 => draw.log_range(1..=100_000),
        _ => draw.log_range(1..=0xffff_ffff),
    };
    if draw.percent(50) { amount as i64 } else { -(amount as i64) }
}
