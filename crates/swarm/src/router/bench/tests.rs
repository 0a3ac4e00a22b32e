//! Each law notices the fault that it is for.

use super::*;
use crate::router::{Machine, Wire};

fn case() -> Case {
    let machines = vec![Machine { answers: true, after_us: 100 }];
    let wire = Wire { mtu: 1_500, machines };
    Case { seed: 1, ports: vec![wire.clone(), wire], steps: Vec::new() }
}

fn packet() -> Step {
    Step::Packet {
        from: [0, 0],
        to: [1, 0],
        behind: false,
        ipv6: false,
        size: 100,
        ttl: 64,
        whole: false,
        whose: Target::Ours,
        tags: Vec::new(),
    }
}

/// What the law says of a router that also does `wrong` after a packet has gone through.
fn says(wrong: impl FnOnce(&mut Bench<'_>)) -> Option<&'static str> {
    let case = case();
    let mut bench = Bench::new(&case);
    bench.step(0, &packet()).expect("it waits for its neighbour");
    bench.step(1, &Step::Wait { us: 1_000 }).expect("it goes on");
    assert_eq!(bench.tracks[&1].sent, 108, "{:?}", bench.tracks);
    wrong(&mut bench);
    bench.finish().err().map(|broken| broken.oracle)
}

#[test]
fn each_law_sees_what_it_is_for() {
    let to = address(1, 1, false);
    let mac = [2, 1, 1, 0, 0, 0];
    assert_eq!(says(|_| {}), None);
    assert_eq!(
        says(|bench| bench.on_forwarded(Port(1), mac, 1, (to, 108, 63))),
        Some("conservation")
    );
    let again = |bench: &mut Bench<'_>| bench.tracks.get_mut(&1).expect("it is there").sent = 0;
    assert_eq!(says(again), Some("conservation"), "it is lost");
    let once_more = |port, mac, ttl| {
        says(move |bench| {
            again(bench);
            bench.on_forwarded(Port(port), mac, 1, (to, 108, ttl));
        })
    };
    assert_eq!(once_more(1, mac, 63), None);
    assert_eq!(once_more(0, mac, 63), Some("forwarding"));
    assert_eq!(once_more(1, mac, 64), Some("forwarding"));
    assert_eq!(once_more(1, [2, 1, 1, 0, 0, 1], 63), Some("neighbours"));
    assert_eq!(says(|bench| bench.on_solicitation(Port(1), to)), Some("questions"));
    let stranger = address(1, 3, false);
    assert_eq!(says(|bench| bench.answers_for(Port(1), stranger)), Some("answers"));
    let ours = address(1, 0, false);
    assert_eq!(says(|bench| bench.answers_for(Port(1), ours)), Some("answers"), "nobody asked");
    let twice = |bench: &mut Bench<'_>| (0..2).for_each(|_| bench.on_icmp_error(Port(0), mac, 1));
    assert_eq!(says(twice), Some("errors"));
    let frame = FrameRef::from(vec![1]);
    assert_eq!(says(|bench| bench.watched.push(frame.watch())), Some("frames"));
}
