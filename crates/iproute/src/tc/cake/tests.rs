use super::*;
use proptest::strategy::Strategy as _;

fn read(line: &str) -> Result<Patch> {
    parse(&mut Words::new(line))
}

/// What each command sets, as the attributes that iproute2 6.1 was seen to send.
#[test]
fn links_and_their_order() {
    type Case = (&'static str, Option<i32>, Option<u32>, Option<Framing>, bool);
    let cases: [Case; 16] = [
        ("overhead 10 pppoe-ptm", Some(40), None, PTM, false),
        ("pppoe-ptm overhead 10", Some(10), None, PTM, false),
        ("pppoe-vcmux ether-vlan ether-vlan", Some(40), None, ATM, false),
        ("ethernet docsis", Some(56), Some(64), Some(Framing::None), false),
        ("docsis ethernet", Some(56), Some(84), Some(Framing::None), false),
        ("ethernet mpu 10", Some(38), Some(10), None, false),
        ("conservative", Some(48), None, ATM, false),
        ("conservative ethernet", Some(86), Some(84), ATM, false),
        ("conservative raw", Some(0), None, Some(Framing::None), true),
        ("raw conservative", Some(48), None, ATM, true),
        ("overhead 44 raw atm", Some(0), None, ATM, true),
        ("raw overhead 44", Some(44), None, Some(Framing::None), true),
        ("via-ethernet overhead 10", Some(10), None, None, false),
        ("overhead 256", Some(256), None, None, false),
        ("atm", None, None, ATM, false),
        ("", None, None, None, false),
    ];
    for (line, overhead, mpu, framing, raw) in cases {
        let patch = read(line).unwrap();
        let got = (patch.overhead, patch.mpu, patch.framing, patch.raw);
        assert_eq!(got, (overhead, mpu, framing, raw), "{line}");
    }
}

#[test]
fn round_trip_times_set_interval_and_target() {
    let cases = [
        ("rtt 10us", Some(10), 1),
        ("rtt 1.5ms", Some(1_500), 75),
        ("rtt 100", Some(100), 5),
        ("rtt 0", None, 1),
        ("datacentre", Some(100), 5),
        ("satellite", Some(1_000_000), 50_000),
        ("interplanetary", Some(1_000_000_000), 50_000_000),
    ];
    for (line, interval, target) in cases {
        let patch = read(line).unwrap();
        let micros = |time: Option<Duration>| time.map(Duration::as_micros);
        assert_eq!((micros(patch.interval), micros(patch.target)), (interval, Some(target)));
    }
}

#[test]
fn rates_switch_autorate_off_unless_it_comes_later() {
    let set = |line| {
        let patch = read(line).unwrap();
        (patch.bandwidth.map(Rate::bytes_per_sec), patch.autorate_ingress)
    };
    assert_eq!(set("bandwidth 1.5mbit"), (Some(187_500), Some(false)));
    assert_eq!(set("bandwidth 10mbit autorate-ingress"), (Some(1_250_000), Some(true)));
    assert_eq!(set("autorate-ingress bandwidth 10mbit"), (Some(1_250_000), Some(false)));
    assert_eq!(set("unlimited"), (Some(0), Some(false)));
    assert_eq!(set("bandwidth 0"), (None, Some(false)));
}

#[test]
fn zero_memlimit_and_fwmark_are_not_sent() {
    let patch = read("memlimit 0 fwmark 0").unwrap();
    assert_eq!((patch.memlimit, patch.fwmark_mask), (None, None));
    let patch = read("memlimit 32k fwmark 0xf0").unwrap();
    assert_eq!((patch.memlimit, patch.fwmark_mask), (Some(32_768), Some(0xf0)));
}

#[test]
fn problems_name_column_and_nearest_word() {
    for (line, column, nearest) in [
        ("bandwidth 10mbit difserv4", 17, Some("diffserv4")),
        ("ack-filter-agressive", 0, Some("ack-filter-aggressive")),
        ("bandwidth 10mbits", 10, None),
        ("overhead -65", 9, None),
        ("overhead 0x10", 9, None),
        ("mpu 300", 4, None),
        ("besteffort bandwidth", 20, None),
        ("fwmark x", 7, None),
    ] {
        let problem = read(line).unwrap_err();
        assert_eq!((problem.column, problem.nearest.as_deref()), (column, nearest), "{problem}");
    }
}

/// What is printed can be read again.
#[test]
fn options_read_back() {
    use datapath::qdisc::cake::{Cake, Config};
    use datapath::rng::Rng;
    for line in [
        "bandwidth 10Mbit diffserv4 dual-srchost nat wash ingress ack-filter no-split-gso rtt 50ms \
         overhead 44 atm mpu 68 memlimit 1Mb fwmark 0xff",
        "unlimited",
        "bandwidth 7900Kbit autorate-ingress besteffort flowblind ack-filter-v8 ptm",
    ] {
        let config = Config::default().patched(&read(line).unwrap());
        let cake = Cake::new(config, 1514, Rng::stream(1, 1));
        let text = options_text(&cake).replace("bandwidth unlimited", "unlimited");
        let again = Config::default().patched(&read(&text).unwrap());
        assert_eq!(again, config, "{line} became {text}");
    }
}

/// Departure 6 of docs/cake.md.
#[test]
fn filters_that_linux_does_not_have() {
    use datapath::qdisc::cake::{Cake, Config};
    use datapath::rng::Rng;
    for (word, json) in [
        ("ack-filter-v8", "v8"),
        ("ack-filter-v8-aggressive", "v8-aggressive"),
        ("ack-filter-naive", "naive"),
    ] {
        let cake =
            Cake::new(Config::default().patched(&read(word).unwrap()), 1514, Rng::stream(1, 1));
        let text = options_text(&cake);
        assert!(text.split(' ').any(|shown| shown == word), "{text}");
        assert_eq!(options_json(&cake)["ack-filter"], json);
    }
}

/// What `tc -s qdisc show` prints, character by character: the formats are iproute2's.
#[test]
fn statistics_as_text() {
    use crate::tc::show_text;
    use datapath::qdisc::cake::{Cake, Config};
    use datapath::qdisc::{Handle, Sched};
    use datapath::rng::Rng;
    use datapath::units::Instant;
    let show = |words: &str| {
        let config = Config::default().patched(&read(words).unwrap());
        let cake = Cake::new(config, 1514, Rng::stream(1, 1));
        show_text(&Sched::new(Handle::new(0x8001, 0), cake), Some("eth0"), Instant::ZERO)
    };
    let text = show("bandwidth 100mbit ethernet");
    let head = "\
qdisc cake 8001: dev eth0 root refcnt 2 bandwidth 100Mbit diffserv3 triple-isolate nonat nowash \
no-ack-filter split-gso rtt 100ms noatm overhead 38 mpu 84 \n \
Sent 0 bytes 0 pkt (dropped 0, overlimits 0 requeues 0) \n \
backlog 0b 0p requeues 0
 memory used: 0b of 5000000b
 capacity estimate: 100Mbit
 min/max network layer size:        65535 /       0
 min/max overhead-adjusted size:    65535 /       0
 average network hdr offset:            0

                   Bulk  Best Effort        Voice
  thresh       6250Kbit      100Mbit       25Mbit
  target            5ms          5ms          5ms
  interval        100ms        100ms        100ms
  pk_delay          0us          0us          0us
";
    assert_eq!(&text[..head.len()], head);
    let tail = "\
  un_flows            0            0            0
  max_len             0            0            0
  quantum           300         1514          762
";
    let from = text.find("un_flows").expect("the row");
    assert_eq!(text[from..].trim_end(), tail.trim_end());
    let text = show("besteffort");
    assert!(text.contains("\n                  Tin 0\n  thresh           0bit\n"), "{text}");
}

proptest::proptest! {
    /// Any line is read or refused, and a refusal points into the line.
    #[test]
    fn any_words_are_read_or_refused(
        words in proptest::collection::vec(
            proptest::prop_oneof![
                (0..KEYWORDS.len()).prop_map(|at| KEYWORDS[at].0.to_owned()),
                "[0-9]{1,12}[a-z.%]{0,5}",
                "\\PC{0,8}",
            ],
            0..12,
        ),
    ) {
        let line = words.join(" ");
        if let Err(problem) = read(&line) {
            assert!(problem.column <= line.len(), "{problem}");
        }
    }
}
