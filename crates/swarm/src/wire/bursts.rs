//! Sequences of steps that belong together and would hardly ever be drawn one after the other.

use datapath::socket::number;

use super::Step;
use super::calls::Call;
use super::segment::{Acks, Segment, SeqBase};
use super::traits::{CaseTraits, honest, syn, wait};
use crate::draw::Draw;
use crate::oracle::frame::flag;

/// A SYN is answered after minutes, and another one came in between.
pub(super) fn old_cookie(draw: &mut Draw, traits: &CaseTraits, steps: &mut Vec<Step>) {
    let first = Segment { fresh: true, flags: flag::SYN, ..syn(traits) };
    steps.push(Step::Sysctl("net.ipv4.tcp_syncookies=2".to_owned()));
    steps.push(Step::Segment(first.clone()));
    steps.push(Step::Wait(draw.range(40_000_000..=120_000_000)));
    steps.push(Step::Segment(first));
    steps.push(Step::Wait(draw.range(1_000..=80_000_000)));
    steps.push(Step::Segment(Segment { flow: 1, len: 0, ..honest(draw, traits) }));
}

/// The peer fills the window, and goes on when it is closed, while the application reads little.
pub(super) fn flood(draw: &mut Draw, traits: &CaseTraits, steps: &mut Vec<Step>) {
    if draw.percent(60) {
        let size = *draw.one_of(&[1, 2_000, 4_096, 20_000]);
        steps.push(Step::Call(Call::Set(0, number::SOL_SOCKET, number::SO_RCVBUF, size)));
    }
    let len = *draw.one_of(&[100, 500, 1_000, 1_460, 4_000]);
    let data =
        Segment { len, flow: 0, acks: Acks::All, ack_segments: 0, ..one_of_many(draw, traits) };
    for _ in 0..draw.log_range(3..=80) {
        let from = *draw.weighted(&[(4, SeqBase::Next), (2, SeqBase::Acked)]);
        steps.push(Step::Segment(Segment { from, seq: 0, ..data.clone() }));
        if draw.percent(5) {
            let bytes = draw.log_range(1..=4_000) as u32;
            steps.push(Step::Call(Call::Receive(0, bytes, 0)));
        }
        if draw.percent(10) {
            steps.push(Step::Wait(draw.log_range(1..=300_000)));
        }
    }
}

/// Pieces of what is beyond a hole, which overlap in every way; as a rule the hole is filled in the
/// end.
pub(super) fn scattered(draw: &mut Draw, traits: &CaseTraits, steps: &mut Vec<Step>) {
    let unit = *draw.one_of(&[1, 10, 100, 400]);
    let span = draw.range(2..=16);
    let hole = draw.range(1..=4);
    let flow = *draw.weighted(&[(8, 0), (2, 1)]);
    let plain = Segment { flow, from: SeqBase::Acked, ..one_of_many(draw, traits) };
    for _ in 0..draw.range(2..=12) {
        let first = draw.range(0..=span);
        let seq = ((hole + first) * unit) as i64;
        let len = (draw.range(1..=span) * unit) as u16;
        steps.push(Step::Segment(Segment { seq, len, ..plain.clone() }));
        if draw.percent(10) {
            steps.push(Step::Wait(wait(draw)));
        }
    }
    if draw.percent(70) {
        let len = ((hole + draw.range(0..=span)) * unit) as u16;
        steps.push(Step::Segment(Segment { seq: 0, len, ..plain }));
    }
}

/// What a peer would send, without options or an end.
fn one_of_many(draw: &mut Draw, traits: &CaseTraits) -> Segment {
    let segment = honest(draw, traits);
    Segment { options: Vec::new(), flags: segment.flags & !flag::FIN, ..segment }
}
