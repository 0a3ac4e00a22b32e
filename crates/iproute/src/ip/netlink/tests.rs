use super::*;
use crate::ip::Ip;
use datapath::fib::nexthop::ObjectConfig;
use datapath::fib::resilient::{Member, ResilientConfig};
use datapath::units::Duration;

/// Ports 1 to 4 are the kernel's interfaces 3, 5, 7, 9; `lo` is 1.
struct Recorded;

impl Interfaces for Recorded {
    fn index(&self, port: u16) -> u32 {
        u32::from(port) * 2 + 1
    }

    fn port(&self, index: u32) -> u16 {
        ((index - 1) / 2) as u16
    }
}

fn bytes(hex: &str) -> Vec<u8> {
    let digit = |c: char| c.to_digit(16).expect("a hexadecimal digit") as u8;
    let digits: Vec<u8> = hex.chars().map(digit).collect();
    digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}

/// What Linux 6.18 dumped, and the `ip` command that had made it. Port 0 has no name.
const ROUTES: [(&str, &str); 9] = [
    (
        "route add 1.0.0.0/8 via 77.0.0.1 dev a1 onlink",
        "02080000fe0300010400000008000f00fe0000000800010001000000080005004d0000010800040003000000",
    ),
    ("route add blackhole 5.0.0.0/8", "02080000fe0300060000000008000f00fe0000000800010005000000"),
    (
        "route add unreachable 6.0.0.0/8 metric 5",
        "02080000fe0300070000000008000f00fe00000008000100060000000800060005000000",
    ),
    (
        "route add 10.0.1.0/24 dev a1 proto kernel scope link src 10.0.1.1",
        "02180000fe02fd010000000008000f00fe000000080001000a000100080007000a0001010800040003000000",
    ),
    (
        "route add 55.0.0.0/8 via 10.0.1.2 dev a1 tos 0x10 onlink",
        "02080010fe0300010400000008000f00fe0000000800010037000000080005000a0001020800040003000000",
    ),
    (
        "route add 56.0.0.0/8 nexthop via 10.0.1.2 dev a1 weight 3 onlink \
         nexthop via 10.0.2.2 dev a2 onlink",
        "02080000fe0300010000000008000f00fe0000000800010038000000240009001000040203000000080005000a\
         0001021000040005000000080005000a000202",
    ),
    (
        "route add 60.0.0.0/8 via inet6 fd00:1::2 dev a1 onlink",
        "02080000fe0300010400000008000f00fe000000080001003c000000160012000a00fd000001000000000000000\
         0000000020000 0800040003000000",
    ),
    (
        "route add 61.0.0.0/8 dev a1 proto 77 metric 9",
        "02080000fe4dfd010000000008000f00fe000000080001003d00000008000600090000000800040003000000",
    ),
    (
        "-6 route add fd45::/64 metric 1024 nexthop via fd00:1::2 dev a1 onlink \
         nexthop via fd00:2::2 dev a2 weight 5 onlink",
        "0a400000fe0300010000000008000f00fe00000014000100fd45000000000000000000000000000008000600000\
         400003c0009001c0004000300000014000500fd0000010000000000000000000000021c0004040500000014000500\
         fd000002000000000000000000000002",
    ),
];

#[test]
fn routes_of_the_kernel_read_and_write_byte_for_byte() {
    for (command, hex) in ROUTES {
        let mut ip = Ip::new();
        ip.run_all("link add lo0\nlink add a1\nlink add a2\nlink add a3").unwrap();
        // Those of `src`, without the routes that they would bring along.
        for (port, addr) in (1..).zip(["10.0.1.1", "10.0.2.1", "10.0.3.1"]) {
            ip.devices.add_address(port, addr.parse().unwrap(), 24);
        }
        ip.run(command).expect(command);
        let said = ip.fib.routes().remove(0);
        let message = bytes(&hex.replace(' ', ""));
        assert_eq!(decode_route(&message, &Recorded), Ok(said.clone()), "{command}");
        assert_eq!(encode_route(&said, &Recorded), message, "{command}");
    }
}

#[test]
fn a_dump_with_more_than_we_keep_is_read() {
    // 59.0.0.0/8 prohibit with RTA_METRICS; an IPv6 default with RTA_CACHEINFO and RTA_PREF.
    let prohibit =
        "02080000fe0300080000000008000f00fe000000080001003b0000000c0008000800020078050000";
    let route = decode_route(&bytes(prohibit), &Recorded).unwrap();
    assert_eq!((route.kind, route.target), (RouteType::Prohibit, Target::Hops(vec![])));
    let default = "0a000000fe0300010000000008000f00fe000000080006000500000014000500fd000003000000000000\
                   000000000002080004000700000024000c00000000000000000000000000000000000000000000000000\
                   00000000000000000500140000000000";
    let route = decode_route(&bytes(&default.replace(' ', "")), &Recorded).unwrap();
    assert_eq!((route.prefix, route.metric), (Prefix::DEFAULT_V6, 5));
    let by_object = "020f0000fe0300010000000008000f00fe00000008000100c612000008001e000a000000340009001000\
                     040003000000080005000a0001031000000105000000080005000a0002021000000007000000080005000\
                     a000302";
    let route = decode_route(&bytes(by_object), &Recorded).unwrap();
    assert_eq!(route.target, Target::Object(10));
}

#[test]
fn objects_of_the_kernel_are_read() {
    let hop = |port, gateway: [u8; 4], onlink| {
        ObjectConfig::Hop(NextHop {
            hop: Hop { port, gateway: Some(gateway.into()) },
            weight: 1,
            onlink,
        })
    };
    let member = |id, weight| Member { id, weight };
    let timers = ResilientConfig {
        buckets: 4,
        idle_timer: Duration::from_secs(100),
        unbalanced_timer: Duration::ZERO,
    };
    for (hex, id, config) in [
        (
            "02fd00000400000008000100010000000800050003000000080006000a000103",
            1,
            hop(1, [10, 0, 1, 3], true),
        ),
        (
            "0000000000000000080001000a00000006000300000000001c00020001000000000000000200000001000000\
             030000000000000008000e0000000080",
            10,
            ObjectConfig::Group(vec![member(1, 1), member(2, 2), member(3, 1)]),
        ),
        (
            "000000000000000008000100320000000600030001000000140002000100000002000000020000000000000028\
             000c800600010004000000080002001027000008000300000000000c000400000000000000000008000e0000000080",
            50,
            ObjectConfig::Resilient(vec![member(1, 3), member(2, 1)], timers),
        ),
    ] {
        let decoded = decode_object(&bytes(hex), &Recorded);
        assert_eq!(decoded, Ok((id, config.clone())));
        let again = encode_object(id, &config, &Recorded);
        assert_eq!(decode_object(&again, &Recorded), decoded);
    }
}

/// Linux 6.18 takes the weight of a single `RTA_MULTIPATH` hop, and an IPv6 sibling that joins shows it
/// (`tests/kernel.rs`); its own dumps leave it out.
#[test]
fn the_weight_of_a_single_next_hop_travels() {
    for command in [
        "route add 3.0.0.0/8 nexthop via 10.0.1.2 dev a1 onlink weight 65",
        "-6 route add fd50::/64 nexthop via fd00:1::2 dev a1 onlink weight 256",
    ] {
        let mut ip = Ip::new();
        ip.run_all("link add lo0\nlink add a1\nlink add a2\nlink add a3").unwrap();
        // Those of `src`, without the routes that they would bring along.
        for (port, addr) in (1..).zip(["10.0.1.1", "10.0.2.1", "10.0.3.1"]) {
            ip.devices.add_address(port, addr.parse().unwrap(), 24);
        }
        ip.run(command).expect(command);
        let route = ip.fib.routes().remove(0);
        let message = encode_route(&route, &Recorded);
        assert_eq!(decode_route(&message, &Recorded), Ok(route), "{command}");
        let saved = ip.save();
        let mut again = Ip::new();
        again.run_all(&saved).unwrap_or_else(|(line, error)| panic!("{line}: {error}"));
        assert_eq!(again.fib.routes(), ip.fib.routes(), "{saved}");
    }
}

#[test]
fn mp_algo_travels_and_reserved_ones_are_refused() {
    let mut ip = Ip::new();
    ip.run_all("link add lo0\nlink add a1").unwrap();
    ip.run("route add 3.0.0.0/8 via 10.0.1.2 dev a1 onlink mp_algo l4").unwrap();
    let route = ip.fib.routes().remove(0);
    let mut message = encode_route(&route, &Recorded);
    assert_eq!(decode_route(&message, &Recorded), Ok(route));
    let at = message.windows(4).position(|w| w == [8, 0, 14, 0]).expect("the attribute");
    message[at + 4] = 3;
    let refused = NetlinkError::Refused(FibError::ReservedAlgorithm("random"));
    assert_eq!(decode_route(&message, &Recorded), Err(refused));
}

#[test]
fn no_prefix_of_a_message_panics() {
    for (_, hex) in ROUTES {
        let message = bytes(&hex.replace(' ', ""));
        for end in 0..message.len() {
            let _ = decode_route(&message[..end], &Recorded);
            let _ = decode_object(&message[..end], &Recorded);
            let mut bent = message.clone();
            bent[end] ^= 0x55;
            let _ = decode_route(&bent, &Loose);
            let _ = decode_object(&bent, &Loose);
        }
    }
}

/// Takes any interface number.
struct Loose;

impl Interfaces for Loose {
    fn index(&self, port: u16) -> u32 {
        port.into()
    }

    fn port(&self, index: u32) -> u16 {
        index as u16
    }
}

/// `rtnetlink_put_metrics()`: in the order of their numbers, and all of them.
#[test]
fn metrics_come_back() {
    let mut ip = Ip::new();
    ip.run_all(
        "link add a0\nroute add 9.0.0.0/8 dev a0 mtu lock 1400 window 9 advmss 1200 initcwnd 20 \
         features ecn rto_min 100ms initrwnd 30 quickack 1 fastopen_no_cookie 1",
    )
    .unwrap();
    let route = ip.fib.routes().remove(0);
    let message = encode_route(&route, &Recorded);
    assert_eq!(decode_route(&message, &Recorded), Ok(route));
    let numbers: Vec<u8> = [1, 2, 3, 8, 11, 12, 13, 14, 15, 17].to_vec();
    let (_, metrics) = attributes(&message[12..])
        .map(|attribute| attribute.unwrap())
        .find(|(kind, _)| *kind == RTA_METRICS)
        .expect("metrics");
    let kinds: Vec<u8> = attributes(metrics).map(|attribute| attribute.unwrap().0 as u8).collect();
    assert_eq!(kinds, numbers);
}
