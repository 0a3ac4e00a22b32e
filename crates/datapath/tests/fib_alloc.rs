//! A look-up allocates nothing, however the next hop is chosen.

use core::net::{IpAddr, Ipv4Addr};
use datapath::fib::{Algorithm, Decision, Fib, NextHop, Prefix, Route, RouteKey, Scope};

fn key(dst: u32) -> RouteKey {
    RouteKey {
        src: IpAddr::V4(Ipv4Addr::new(10, 9, 0, 7)),
        dst: IpAddr::V4(Ipv4Addr::from_bits(dst)),
        iif: None,
        oif: None,
        scope: Scope::UNIVERSE,
        tos: 0,
        mark: 0,
        protocol: 6,
        src_port: dst as u16,
        dst_port: 443,
        flow_label: 0,
    }
}

#[test]
fn look_ups_do_not_allocate() {
    let mut fib = Fib::new();
    for host in 0..10_000 {
        let addr = Ipv4Addr::from_bits(0x0a00_0000 + host);
        fib.add(Route::on_link(Prefix::host(addr.into()), 1)).expect("a new route");
    }
    let algorithms = [
        Algorithm::System,
        Algorithm::L3,
        Algorithm::L4,
        Algorithm::PerPacket,
        Algorithm::Modulo,
        Algorithm::Credit,
    ];
    for (net, algorithm) in (20u8..).zip(algorithms) {
        let prefix = Prefix::containing(IpAddr::from([net, 0, 0, 0]), 8).expect("a length");
        let hops = vec![NextHop::new(1, None), NextHop::new(2, None)];
        fib.add(Route::new(prefix, hops).algorithm(algorithm)).expect("a new route");
    }
    let mut forwarded = 0;
    let info = allocation_counter::measure(|| {
        for index in 0..10_000u32 {
            for dst in [0x0a00_0000 + index, (20 + index % 6) << 24 | index] {
                forwarded += u32::from(matches!(fib.lookup(&key(dst)), Decision::Forward(_)));
            }
        }
    });
    assert_eq!((info.count_total, forwarded), (0, 20_000));
}
