//! Random words for `ip`, in and out of order.

use crate::draw::Draw;

/// Further options of a route.
pub fn any_more(draw: &mut Draw) -> String {
    let options = [
        "proto static",
        "proto 77",
        "scope link",
        "scope host",
        "scope global",
        "src 10.0.0.1",
        "mtu 1400",
        "mtu lock 1300",
        "advmss 1200",
        "initcwnd 20",
        "initrwnd 30",
        "features ecn",
        "rto_min 100ms",
        "quickack 1",
        "congctl reno",
        "window 100",
        "rtt 10ms",
        "pref medium",
        "metric 4294967296",
        "tos 0xff",
        "garbage",
    ];
    let count = draw.range(1..=3);
    let words: Vec<&str> = (0..count).map(|_| *draw.one_of(&options)).collect();
    words.join(" ")
}

/// Words of all commands, in any order.
pub fn any_words(draw: &mut Draw) -> String {
    let beginnings = [
        "route add",
        "route show",
        "-6 route show",
        "-j route show",
        "route get",
        "route flush",
        "route del",
        "route change",
        "rule add",
        "rule del",
        "rule show",
        "rule flush",
        "nexthop add",
        "nexthop show",
        "nexthop bucket show",
        "nexthop flush",
        "link add",
        "link set",
        "link show",
        "address add",
        "sysctl",
    ];
    let words = [
        "10.0.0.0/8",
        "default",
        "10.0.0.1",
        "10.0.0.1/33",
        "2001:db8::/32",
        "via",
        "dev",
        "a0",
        "a1",
        "lo",
        "table",
        "100",
        "main",
        "all",
        "metric",
        "0",
        "4294967295",
        "4294967296",
        "-1",
        "tos",
        "0x10",
        "nexthop",
        "weight",
        "256",
        "257",
        "onlink",
        "nhid",
        "1",
        "blackhole",
        "from",
        "to",
        "priority",
        "lookup",
        "goto",
        "not",
        "id",
        "group",
        "1,2/2",
        "type",
        "resilient",
        "buckets",
        "65535",
        "idle_timer",
        "1.5",
        "up",
        "down",
        "carrier",
        "off",
        "proto",
        "root",
        "exact",
        "match",
        "scope",
        "link",
        "src",
        "mtu",
        "net.ipv4.fib_multipath_hash_policy=3",
        "net.ipv4.fib_multipath_hash_fields=0x37",
        "mark",
        "iif",
        "oif",
        "ipproto",
        "tcp",
        "sport",
        "80",
        "fibmatch",
        "inet6",
        "fe80::1",
    ];
    let mut out = (*draw.one_of(&beginnings)).to_owned();
    for _ in 0..draw.log_range(0..=10) {
        out.push(' ');
        let word: &&str = draw.one_of(&words);
        out += word;
    }
    out
}
