//! ARP and neighbour discovery from a hostile wire: frames of any kind, in any order, at any time. No panic, and no
//! packet that waits is lost.

#![no_main]

use core::net::IpAddr;
use datapath::neighbour::{Action, Link, Neighbours, Settings};
use datapath::packet::{Frame, FrameRef, MacAddr, Packet};
use datapath::rng::Rng;
use datapath::units::{Duration, Instant};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let mut table = Neighbours::new(Settings::default(), Rng::stream(1, 1));
    let addresses =
        vec![(IpAddr::from([10, 0, 0, 1]), 24), ("fe80::1".parse().expect("an address"), 64)];
    table.set_link(0, Some(Link { mac: MacAddr([2, 0, 0, 0, 0, 1]), addresses }));
    let (mut now, mut rest, mut sent, mut out) = (Instant::ZERO, bytes, 0_u64, 0_u64);
    // A length, a time to wait, then a frame.
    while let [len, wait, more @ ..] = rest {
        let (frame, behind) = more.split_at(usize::from(*len).min(more.len()));
        rest = behind;
        now += Duration::from_millis(u64::from(*wait) * 40);
        table.run_timers(now);
        let frame = FrameRef::from(frame.to_vec());
        if let Ok(mut packet) = Packet::parse_ethernet(Frame::lying_in(&frame, 0)) {
            table.arp_arrives(now, 0, &packet);
            table.discovery_arrives(now, 0, &packet);
            let to = packet.network.src().unwrap_or(IpAddr::from([10, 0, 0, *wait]));
            sent += 1;
            let ready = table.resolve(now, 0, to, &mut packet);
            out += u64::from(ready == datapath::neighbour::Resolved::Ready);
        }
        while let Some(action) = table.next_action() {
            out += u64::from(matches!(action, Action::Unreachable(_) | Action::Drop(..)));
        }
    }
    assert!(out <= sent, "{out} of {sent}");
});
