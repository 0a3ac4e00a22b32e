//! What is drawn, and how likely.

use datapath::socket::number;

use super::bursts;
use super::calls::Call;
use super::icmp::Icmp;
use super::segment::{Acks, Choice, Damage, Fragments, Segment, SeqBase, Timestamps};
use super::traits::{CaseTraits, blocks, draw_traits, honest, skew, syn, wait};
use super::words::{option, sysctl};
use super::{Case, Setup, Step};
use crate::draw::Draw;
use crate::oracle::frame::flag;

/// Any case.
pub(super) fn case(draw: &mut Draw) -> Case {
    let traits = draw_traits(draw);
    let host = setup(draw, &traits);
    let count = match draw.range(0..=9) {
        0..=7 => draw.log_range(4..=120),
        8 => draw.log_range(4..=500),
        _ => draw.log_range(4..=1_500),
    };
    let mut steps = Vec::new();
    draw_opening(draw, &traits, &mut steps);
    while (steps.len() as u64) < count && !draw.is_spent() {
        any(draw, &traits, &mut steps);
    }
    if draw.percent(20) {
        // The application's last words.
        let bytes = draw.log_range(1..=60_000) as u32;
        steps.push(Step::Call(Call::Send(0, bytes, 0)));
        steps.push(Step::Call(Call::Shutdown(0, 1)));
    }
    Case { host, steps }
}

fn setup(draw: &mut Draw, traits: &CaseTraits) -> Setup {
    let profiles = [(4, "linux-7.x"), (3, "linux-6.18"), (3, "linux-6.1"), (3, "linux-2.6.22")];
    let offloads = [("gso", 60), ("tso", 40), ("gro", 25), ("orphans", 50)];
    let offloads = offloads.into_iter().filter(|(_, percent)| draw.percent(*percent));
    let offloads: Vec<String> = offloads.map(|(name, _)| name.to_owned()).collect();
    let mut sysctls = Vec::new();
    let cc = draw.weighted(&[(5, "cubic"), (4, "reno"), (2, "dctcp")]);
    sysctls.push(format!("net.ipv4.tcp_congestion_control={cc}"));
    sysctls.push(format!("net.ipv4.tcp_ecn={}", draw.one_of(&[2, 0, 1, 3, 4, 5])));
    for _ in 0..draw.log_range(0..=6) {
        sysctls.push(sysctl(draw));
    }
    if draw.percent(8) {
        sysctls.push("net.ipv4.tcp_syncookies=2".to_owned());
    }
    if draw.percent(15) {
        sysctls.push(format!("net.ipv4.tcp_fastopen={}", draw.one_of(&[3, 0x603, 0x207, 7])));
    }
    Setup {
        profile: (*draw.weighted(&profiles)).to_owned(),
        ipv6: traits.ipv6,
        mtu: *draw.weighted(&[(8, 1500), (1, 576), (1, 9_000), (1, 1_280), (1, 296)]),
        offloads,
        busy_us: *draw.weighted(&[(6, 0), (2, 10), (2, 1_000), (1, 20_000)]),
        sysctls,
        honest_window: *draw.one_of(&[65_535, 65_535, 20_000, 4_000, 1_000, 500]),
        no_more: draw.percent(20),
        silence: draw.maybe(40, |draw| *draw.one_of(&[0, 0, 1, 500, 65_535])),
    }
}

/// A listener or a connection, and mostly a handshake.
fn draw_opening(draw: &mut Draw, traits: &CaseTraits, steps: &mut Vec<Step>) {
    steps.push(Step::Call(Call::Socket));
    if traits.signed {
        steps.push(Step::Call(Call::Key(0)));
    }
    for _ in 0..draw.log_range(0..=3) {
        steps.push(Step::Call(option(draw)));
    }
    if draw.percent(60) {
        let backlog = *draw.weighted(&[(5, 16), (1, 0), (1, 1)]);
        steps.push(Step::Call(Call::Listen(0, backlog)));
        for _ in 0..draw.log_range(1..=4) {
            passive_open(draw, traits, steps);
        }
    } else {
        active_open(draw, traits, steps);
    }
}

fn passive_open(draw: &mut Draw, traits: &CaseTraits, steps: &mut Vec<Step>) {
    let syn = Segment {
        fresh: true,
        flags: flag::SYN | if draw.percent(30) { traits.ace | 0xc0 } else { 0 },
        seq: draw.range(0..=u64::from(u32::MAX)) as i64,
        window: traits.window,
        ..syn(traits)
    };
    let with_data = draw.percent(5);
    steps.push(Step::Segment(Segment { len: if with_data { 500 } else { 0 }, ..syn }));
    if draw.percent(30) {
        steps.push(Step::Wait(draw.log_range(1..=300_000)));
    }
    if draw.percent(90) {
        steps.push(Step::Segment(honest(draw, traits)));
    }
    if draw.percent(85) {
        steps.push(Step::Call(Call::Accept(0)));
    }
}

fn active_open(draw: &mut Draw, traits: &CaseTraits, steps: &mut Vec<Step>) {
    let connect = if draw.percent(20) {
        Call::ConnectWith(0, draw.log_range(0..=3_000) as u32)
    } else {
        Call::Connect(0)
    };
    steps.push(Step::Call(connect));
    if draw.percent(40) {
        steps.push(Step::Wait(draw.log_range(1..=2_000_000)));
    }
    if draw.percent(85) {
        // An answer to a SYN that asks for ECN: of RFC 3168, of Accurate ECN, or none.
        let ecn = if traits.ace == 0 { 0x40 } else { *draw.one_of(&[0x140, 0x80, 0x100, 0xc0]) };
        let flags = flag::SYN | flag::ACK | if draw.percent(40) { ecn } else { 0 };
        steps.push(Step::Segment(Segment { flags, ..syn(traits) }));
    }
}

/// One more thing, or a few that belong together.
fn any(draw: &mut Draw, traits: &CaseTraits, steps: &mut Vec<Step>) {
    match draw.range(0..=99) {
        0..=49 => steps.push(Step::Segment(peer(draw, traits))),
        50..=72 => steps.push(Step::Call(call(draw))),
        84 if draw.percent(50) => bursts::scattered(draw, traits, steps),
        73..=84 => steps.push(Step::Wait(wait(draw))),
        85..=89 => steps.push(Step::Timer(draw.log_range(1..=20) as u8)),
        90..=94 => steps.push(Step::Icmp(icmp(draw, traits))),
        95 => {
            let protocol = *draw.one_of(&[4, 41, 47, 17, 50]);
            steps.push(Step::Tunnelled(protocol, peer(draw, traits)));
        }
        96 => steps.push(Step::Sysctl(sysctl(draw))),
        97 => {
            let mtu = *draw.one_of(&[1500, 1_280, 576, 9_000, 296]);
            steps.push(if draw.percent(40) { Step::RouteMtu(mtu) } else { Step::Mtu(mtu) });
        }
        98 if draw.percent(15) => bursts::old_cookie(draw, traits, steps),
        98 if draw.percent(50) => bursts::flood(draw, traits, steps),
        98 => passive_open(draw, traits, steps),
        _ => {
            steps.push(Step::Call(Call::Socket));
            active_open(draw, traits, steps);
        }
    }
}

/// A segment of the peer.
fn peer(draw: &mut Draw, traits: &CaseTraits) -> Segment {
    let mut segment = honest(draw, traits);
    if draw.percent(traits.honest) {
        return segment;
    }
    for _ in 0..draw.log_range(1..=4) {
        spoil(draw, traits, &mut segment);
    }
    segment
}

/// Makes one thing about a segment odd.
fn spoil(draw: &mut Draw, traits: &CaseTraits, segment: &mut Segment) {
    match draw.range(0..=21) {
        0 => segment.seq = skew(draw),
        1 => {
            segment.from =
                *draw.one_of(&[SeqBase::Acked, SeqBase::Acked, SeqBase::Edge, SeqBase::Zero]);
            segment.len = if draw.percent(50) { segment.len.max(1) } else { segment.len };
        }
        2 => segment.ack = skew(draw),
        3 => segment.ack_segments = draw.log_range(0..=30) as i64 - 3,
        4 => segment.flags = draw.range(0..=0x1ff) as u16,
        5 => segment.flags |= *draw.one_of(&[0x20, 0x40, 0x80, 0x100, 0x08]),
        6 => segment.flags ^= flag::FIN,
        7 => segment.flags = flag::RST | *draw.one_of(&[0, flag::ACK]),
        8 => segment.flags |= flag::SYN,
        9 => segment.flags &= !flag::ACK,
        10 => segment.window = *draw.one_of(&[0, 1, 500, 1_000, 65_535, 3]),
        11 => segment.window = draw.log_range(0..=65_535) as u16,
        12 => segment.len = draw.log_range(0..=9_000) as u16,
        13 => {
            segment.flags |= 0x20;
            segment.urgent = draw.log_range(0..=65_535) as u16;
        }
        14 => segment.options.push(Choice::Sack(blocks(draw, 50))),
        15 => {
            let value = if draw.percent(50) { skew(draw) } else { 0 };
            segment.stamps = Some(Timestamps { value, echo: skew(draw) });
        }
        16 => segment.stamps = None,
        17 => segment.options.push(option_of_segment(draw)),
        18 => segment.ecn = draw.range(0..=3) as u8,
        19 => segment.damage = Some(damage(draw)),
        20 if draw.percent(50) => {
            segment.signed = if traits.signed { None } else { Some(draw.percent(50)) };
        }
        _ => {
            segment.len = segment.len.max(60);
            segment.pieces = Some(Fragments {
                words: draw.range(1..=40) as u16,
                reversed: draw.percent(30),
                lost: draw.maybe(20, |draw| draw.range(0..=5) as u16),
                twice: draw.maybe(10, |draw| draw.range(0..=5) as u16),
                overlap: draw.percent(5),
                id: draw.range(1..=3) as u16,
            });
        }
    }
}

fn option_of_segment(draw: &mut Draw) -> Choice {
    match draw.range(0..=7) {
        0 => Choice::Mss(draw.log_range(0..=65_535) as u16),
        1 => Choice::Scale(draw.range(0..=16) as u8),
        2 => Choice::SackPermitted,
        3 => {
            let kind = *draw.one_of(&[172, 174]);
            let counters = (0..draw.range(0..=3)).map(|_| draw.log_range(0..=0xff_ffff) as u32);
            Choice::AccEcn(kind, counters.collect())
        }
        4 => Choice::Cookie { other: Vec::new(), experimental: draw.percent(30) },
        5 => {
            let len = draw.range(1..=18);
            let other = (0..len).map(|_| draw.bits() as u8).collect();
            Choice::Cookie { other, experimental: draw.percent(30) }
        }
        6 => Choice::Raw((0..draw.range(1..=12)).map(|_| draw.bits() as u8).collect()),
        _ => Choice::Raw(vec![*draw.one_of(&[0, 1, 5, 8, 19, 29]), draw.range(0..=20) as u8]),
    }
}

fn damage(draw: &mut Draw) -> Damage {
    let place = draw.log_range(0..=80) as u16;
    match draw.range(0..=6) {
        0 | 1 => Damage::TcpChecksum,
        2 => Damage::IpHeader,
        3 => Damage::Cut(draw.log_range(1..=60) as u16),
        4 => Damage::Byte(place, draw.bits() as u8),
        5 => Damage::Flipped(place, draw.bits() as u8),
        _ => Damage::DataOffset(draw.range(0..=15) as u8),
    }
}

fn icmp(draw: &mut Draw, traits: &CaseTraits) -> Icmp {
    let (kind, code) = if traits.ipv6 {
        *draw.one_of(&[(2, 0), (2, 0), (1, 0), (1, 1), (1, 4), (3, 0), (4, 1)])
    } else {
        *draw.one_of(&[(3, 4), (3, 4), (3, 0), (3, 1), (3, 2), (3, 3), (11, 0), (12, 0)])
    };
    let mtu = *draw.one_of(&[1_400, 1_280, 1_000, 576, 552, 296, 68, 0, 20, 65_535]);
    Icmp {
        flow: *draw.weighted(&[(8, 0), (1, 1)]),
        kind,
        code,
        word: if draw.percent(90) { mtu } else { draw.bits() as u32 },
        of: *draw.one_of(&[Acks::Old, Acks::All]),
        seq: if draw.percent(25) { skew(draw) } else { 0 },
        quoted: *draw.weighted(&[(8, 20), (4, 8), (1, 4), (1, 0)]),
        port: u16::from(draw.percent(5)),
        damaged: draw.percent(5),
    }
}

/// Something that an application does.
fn call(draw: &mut Draw) -> Call {
    let slot = *draw.weighted(&[(8, 0), (2, 1), (1, 2)]);
    match draw.range(0..=99) {
        0..=44 => {
            let bytes = if draw.percent(50) {
                1_000 * draw.range(1..=20) as u32
            } else {
                draw.log_range(1..=60_000) as u32
            };
            let flags = *draw.weighted(&[
                (10, 0),
                (1, number::MSG_MORE),
                (1, number::MSG_OOB),
                (1, number::MSG_EOR),
                (1, number::MSG_ZEROCOPY),
            ]);
            Call::Send(slot, bytes, flags)
        }
        45..=69 => {
            let flags = *draw.weighted(&[
                (12, 0),
                (1, number::MSG_PEEK),
                (1, number::MSG_OOB),
                (1, number::MSG_TRUNC),
                (1, number::MSG_WAITALL),
                (1, number::MSG_ERRQUEUE),
            ]);
            Call::Receive(slot, draw.log_range(1..=100_000) as u32, flags)
        }
        70..=76 => Call::Accept(*draw.weighted(&[(1, 0), (1, 1), (1, 2), (1, 3)])),
        77..=79 => Call::Shutdown(slot, draw.range(0..=2) as i32),
        80..=82 => Call::Close(slot),
        83 => Call::Abort(slot),
        84..=86 => Call::Look(slot),
        87 => Call::CongestionControl(
            slot,
            (*draw.one_of(&["reno", "cubic", "dctcp", "vegas"])).to_owned(),
        ),
        88 => Call::Key(slot),
        _ => option(draw),
    }
}
