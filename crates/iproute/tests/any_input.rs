//! Nothing that is typed or received makes a panic, and what is understood comes back.

mod laws;

use iproute::ip::Ip;
use proptest::prelude::*;

/// A router with three interfaces.
const SETUP: &str = "link add a1\nlink add a2\nlink add in0\n\
    address add 10.0.1.1/24 dev a1\naddress add fd00:1::1/64 dev a1\n\
    address add 10.0.2.1/24 dev a2\naddress add fd00:2::1/64 dev a2\naddress add 10.9.0.1/24 dev in0\n";

/// Words that commands are made of, right and wrong.
const WORDS: [&str; 72] = [
    "route",
    "rule",
    "nexthop",
    "link",
    "address",
    "sysctl",
    "add",
    "append",
    "prepend",
    "replace",
    "change",
    "del",
    "show",
    "get",
    "flush",
    "set",
    "up",
    "down",
    "carrier",
    "on",
    "off",
    "-6",
    "-j",
    "-d",
    "via",
    "dev",
    "a1",
    "a2",
    "in0",
    "lo",
    "table",
    "100",
    "main",
    "local",
    "metric",
    "5",
    "7",
    "tos",
    "0x10",
    "proto",
    "static",
    "scope",
    "link",
    "host",
    "src",
    "10.0.1.1",
    "10.0.1.2",
    "10.0.2.2",
    "fd00:1::2",
    "198.18.0.0/15",
    "default",
    "fd45::/64",
    "5.0.0.0/8",
    "blackhole",
    "unreachable",
    "throw",
    "nhid",
    "id",
    "1",
    "2",
    "10",
    "group",
    "1/2",
    "1,3/2",
    "type",
    "resilient",
    "buckets",
    "weight",
    "onlink",
    "mp_algo",
    "l4",
    "features",
];

/// Commands that mean something, to be mixed with those that do not.
const COMMANDS: [&str; 16] = [
    "route add 198.18.0.0/15 nexthop via 10.0.1.2 nexthop via 10.0.2.2 weight 3",
    "route append 198.18.0.0/15 via 10.0.2.2 metric 7",
    "route append 198.18.0.0/15 via 10.0.1.2 metric 7",
    "route prepend 198.18.0.0/15 dev a2 metric 7",
    "route add default via 10.0.1.2",
    "-6 route add fd45::/64 nexthop via fd00:1::2 nexthop via fd00:2::2 weight 5",
    "-6 route append fd45::/64 via fd00:2::2",
    "route add 9.0.0.0/8 dev a1 scope link",
    "route add 8.0.0.0/8 via 9.0.0.1",
    "nexthop add id 1 via 10.0.1.2 dev a1",
    "nexthop add id 2 via 10.0.2.2 dev a2",
    "nexthop add id 10 group 1,3/2 type resilient buckets 16",
    "route add 30.0.0.0/8 nhid 10",
    "rule add not from 10.8.0.0/16 fwmark 3/7 table 100 suppress_prefixlength 4",
    "link set a1 down",
    "route del 10.0.2.0/24 dev a2",
];

fn line() -> impl Strategy<Value = String> {
    prop_oneof![
        prop::sample::select(&COMMANDS[..]).prop_map(str::to_owned),
        prop::collection::vec(prop::sample::select(&WORDS[..]), 1..12)
            .prop_map(|words| words.join(" ")),
    ]
}

/// Found by fuzzing, or near to what was.
#[test]
fn interfaces_with_odd_names_are_saved_or_refused() {
    for text in [
        "link add #lo0\nlink add a1",
        "link add a#b\nlink set a#b down",
        "link add dev dev\nlink set dev dev down\naddress add 10.0.0.1/24 dev dev",
        "link add name name type dummy\nlink set name down",
        "link add dev type\nlink set type carrier off",
        "link add p{device}",
    ] {
        laws::check_lines(text);
    }
}

/// As `ip` and the kernel answer, but for `#`, which no file of lines can hold.
#[test]
fn names_of_interfaces_are_checked() {
    for (name, valid) in [
        ("abcdefghijklmno", true),
        ("a%d", true),
        ("é", true),
        ("abcdefghijklmnop", false),
        ("éééééééé", false),
        ("a/b", false),
        ("a:b", false),
        (".", false),
        ("..", false),
        ("a#b", false),
    ] {
        let done = Ip::new().run(&format!("link add dev {name} type dummy"));
        assert_eq!(done.is_ok(), valid, "{name}");
    }
}

proptest! {
    #[test]
    fn any_lines_are_saved_as_what_they_configure(
        lines in prop::collection::vec(line(), 0..20),
    ) {
        laws::check_lines(&format!("{SETUP}{}", lines.join("\n")));
    }

    #[test]
    fn any_text_is_an_answer_or_an_error(text in "\\PC{0,200}") {
        laws::check_lines(&text);
    }

    #[test]
    fn any_bytes_are_a_message_or_an_error(
        bytes in prop::collection::vec(any::<u8>(), 0..120),
        family in prop::sample::select(&[0u8, 2, 10][..]),
    ) {
        let mut bytes = bytes;
        if let Some(first) = bytes.first_mut() {
            *first = family;
        }
        laws::check_netlink(&bytes);
    }

    /// Attributes of sensible kinds and lengths reach further in than noise does.
    #[test]
    fn any_attributes_are_a_message_or_an_error(
        header in prop::collection::vec(0u8..34, 12),
        family in prop::sample::select(&[2u8, 10][..]),
        attributes in prop::collection::vec((0u16..32, prop::collection::vec(any::<u8>(), 0..20)), 0..8),
    ) {
        let mut bytes = header;
        bytes[0] = family;
        for (kind, value) in attributes {
            bytes.extend((4 + value.len() as u16).to_le_bytes());
            bytes.extend(kind.to_le_bytes());
            bytes.extend(&value);
            bytes.resize(bytes.len().next_multiple_of(4), 0);
        }
        laws::check_netlink(&bytes);
        laws::check_netlink(&bytes[..bytes.len().min(8)]);
    }
}
