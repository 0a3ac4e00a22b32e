//! Laws of CAKE for any bytes as packets.

use datapath::packet::Packet;
use datapath::qdisc::cake::{AckFilter, Cake, Config, FlowMode, TinMode, pure_ack};
use datapath::qdisc::{Counted, Cx, Qdisc};
use datapath::reason::Reason;
use datapath::rng::Rng;
use datapath::units::{Instant, Rate};

const FLOWS: [FlowMode; 8] = [
    FlowMode::Flowblind,
    FlowMode::Srchost,
    FlowMode::Dsthost,
    FlowMode::Hosts,
    FlowMode::Flows,
    FlowMode::DualSrchost,
    FlowMode::DualDsthost,
    FlowMode::TripleIsolate,
];
const TINS: [TinMode; 5] = [
    TinMode::Besteffort,
    TinMode::Precedence,
    TinMode::Diffserv8,
    TinMode::Diffserv4,
    TinMode::Diffserv3,
];
const FILTERS: [AckFilter; 6] = [
    AckFilter::Off,
    AckFilter::Conservative,
    AckFilter::Aggressive,
    AckFilter::V8Conservative,
    AckFilter::V8Aggressive,
    AckFilter::Naive,
];

/// Frames of lengths that the bytes say, each behind a byte of length and one of time.
fn frames(bytes: &[u8]) -> impl Iterator<Item = (u64, &[u8])> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let (&[len, gap], behind) = rest.split_first_chunk()?;
        let (frame, behind) = behind.split_at_checked(usize::from(len))?;
        rest = behind;
        Some((u64::from(gap) * 100_000, frame))
    })
}

/// Whatever the frames, whatever the mode: what goes in comes out or is dropped, and the filters
/// drop nothing but ACKs.
pub fn check_cake(bytes: &[u8]) {
    let Some((&[choice, bits], bytes)) = bytes.split_first_chunk() else { return };
    let config = Config {
        bandwidth: Rate::from_bits_per_sec(u64::from(bits) * 20_000),
        flows: FLOWS[usize::from(choice) % FLOWS.len()],
        tins: TINS[usize::from(choice / 8) % TINS.len()],
        ack_filter: FILTERS[usize::from(bits) % FILTERS.len()],
        wash: choice & 64 != 0,
        ingress: choice & 128 != 0,
        memlimit: u32::from(bits % 4) * 5_000,
        ..Config::default()
    };
    let mut cake = Counted::new(Cake::new(config, 1514, Rng::stream(1, 1)));
    let mut dropped = Vec::new();
    let mut now = 1_000_000_000;
    let (mut entered, mut left) = (0, 0);
    for (gap, frame) in frames(bytes) {
        now += gap;
        let Ok(packet) = Packet::parse_ethernet(frame) else { continue };
        let mut cx = Cx { now: Instant::from_nanos(now), dropped: &mut dropped };
        cake.enqueue(packet, &mut cx);
        entered += 1;
        while cake.dequeue(&mut cx).is_some() {
            left += 1;
        }
    }
    while cake.backlog().packets > 0 {
        let wake = cake.wake_at().expect("what waits is waited for");
        now = now.max(wake.as_nanos());
        let mut cx = Cx { now: Instant::from_nanos(now), dropped: &mut dropped };
        while cake.dequeue(&mut cx).is_some() {
            left += 1;
        }
    }
    assert_eq!(entered, left + dropped.len());
    cake.inner().assert_conserved();
    let mainline = matches!(config.ack_filter, AckFilter::Conservative | AckFilter::Aggressive);
    for (reason, packet) in dropped {
        let filtered = reason == Reason::AckFilter;
        assert!(!filtered || config.ack_filter != AckFilter::Off);
        assert!(!(filtered && mainline) || pure_ack(&packet).is_some(), "{packet:?}");
    }
}

/// The same with every frame made to look like a TCP segment of one of two connections.
pub fn check_ack_filter(bytes: &[u8]) {
    let Some((head, bytes)) = bytes.split_first_chunk::<2>() else { return };
    let mut shaped = head.to_vec();
    for (gap, frame) in frames(bytes) {
        let mut segment = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0, 0x45, 0, 0, 0];
        segment.extend([0, 0, 0x40, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2, 1, 2, 3]);
        let mut tcp = frame.to_vec();
        tcp.resize(tcp.len().clamp(18, 100), 0);
        tcp[0] &= 1;
        // Mostly ACKs with a plausible header length.
        if tcp[9] & 3 != 0 {
            tcp[10] = 0x10;
            tcp[9] = 0x50 + (tcp[9] & 0x30);
        }
        segment.extend(tcp);
        let len = (segment.len() - 14) as u16;
        segment[16..18].copy_from_slice(&len.to_be_bytes());
        shaped.extend([segment.len() as u8, (gap / 100_000) as u8]);
        shaped.extend(segment);
    }
    check_cake(&shaped);
}
