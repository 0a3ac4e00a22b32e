use super::*;
use proptest::prelude::*;

const TIMESTAMPS: Timestamps = Timestamps { value: 0x0102_0304, echo: 0x0506_0708 };

fn block(start: u32) -> SackBlock {
    SackBlock { start: Seq(start), end: Seq(start + 1) }
}

fn sacks(starts: &[u32]) -> SackList {
    let mut list = SackList::EMPTY;
    for &start in starts {
        list.push(block(start));
    }
    list
}

fn written(options: &TcpOptions) -> Vec<u8> {
    let mut out = vec![0xaa; options.len() as usize];
    options.write(&mut out);
    out
}

/// The layouts a Linux sender is seen to use on the wire.
#[test]
fn linux_layouts() {
    let syn = TcpOptions {
        mss: 1460,
        window_scale_plus_one: 8,
        sack_permitted: true,
        timestamps: Some(TIMESTAMPS),
        sack: SackList::EMPTY,
    };
    let table: [(TcpOptions, &[u8]); 5] = [
        (syn, &[2, 4, 0x05, 0xb4, 4, 2, 8, 10, 1, 2, 3, 4, 5, 6, 7, 8, 1, 3, 3, 7]),
        (TcpOptions { timestamps: None, ..syn }, &[2, 4, 0x05, 0xb4, 1, 1, 4, 2, 1, 3, 3, 7]),
        (
            TcpOptions { timestamps: Some(TIMESTAMPS), ..TcpOptions::default() },
            &[1, 1, 8, 10, 1, 2, 3, 4, 5, 6, 7, 8],
        ),
        (
            TcpOptions {
                timestamps: Some(TIMESTAMPS),
                sack: sacks(&[256]),
                ..TcpOptions::default()
            },
            &[1, 1, 8, 10, 1, 2, 3, 4, 5, 6, 7, 8, 1, 1, 5, 10, 0, 0, 1, 0, 0, 0, 1, 1],
        ),
        (TcpOptions::default(), &[]),
    ];
    for (options, bytes) in table {
        assert_eq!(written(&options), bytes);
        assert_eq!(TcpOptions::parse(bytes), (options, true));
    }
}

#[test]
fn every_kind_the_kernel_knows() {
    let digest = [7; 16];
    let mut md5 = vec![kind::MD5, 18];
    md5.extend(digest);
    let mut sack = vec![kind::SACK, 34];
    for n in 0u32..8 {
        sack.extend((n / 2 * 10 + n % 2).to_be_bytes());
    }
    let table: &[(&[u8], TcpOption<'_>)] = &[
        (&[2, 4, 5, 0xb4], TcpOption::Mss(1460)),
        (&[3, 3, 14], TcpOption::WindowScale(14)),
        (&[4, 2], TcpOption::SackPermitted),
        (&sack, TcpOption::Sack(sacks(&[0, 10, 20, 30]))),
        (&[8, 10, 1, 2, 3, 4, 5, 6, 7, 8], TcpOption::Timestamps(TIMESTAMPS)),
        (&[34, 2], TcpOption::FastOpen { cookie: &[], experimental: false }),
        (&[34, 6, 1, 2, 3, 4], TcpOption::FastOpen { cookie: &[1, 2, 3, 4], experimental: false }),
        (
            &[254, 8, 0xf9, 0x89, 1, 2, 3, 4],
            TcpOption::FastOpen { cookie: &[1, 2, 3, 4], experimental: true },
        ),
        (&md5, TcpOption::Md5(&digest)),
        (&[29, 6, 100, 101, 9, 9], TcpOption::Ao { key_id: 100, next_key_id: 101, mac: &[9, 9] }),
        (
            &[172, 11, 0, 0, 1, 0, 0, 2, 0, 0, 3],
            TcpOption::AccEcn(AccEcnCounters { ee0b: Some(1), eceb: Some(2), ee1b: Some(3) }),
        ),
        (
            &[174, 8, 0, 0, 1, 0, 0, 2],
            TcpOption::AccEcn(AccEcnCounters { ee0b: None, eceb: Some(2), ee1b: Some(1) }),
        ),
        (&[30, 3, 0x20], TcpOption::Mptcp(&[0x20])),
        // Known kinds in a form that they cannot have, and a kind of nobody's.
        (&[2, 3, 5], TcpOption::Unknown(RawOption { kind: 2, data: &[5] })),
        (&[5, 2], TcpOption::Unknown(RawOption { kind: 5, data: &[] })),
        (&[34, 5, 1, 2, 3], TcpOption::Unknown(RawOption { kind: 34, data: &[1, 2, 3] })),
        (&[77, 4, 1, 2], TcpOption::Unknown(RawOption { kind: 77, data: &[1, 2] })),
    ];
    for (bytes, meaning) in table {
        let mut list = RawOptions::new(bytes);
        assert_eq!(list.next().map(RawOption::decode), Some(*meaning), "{bytes:?}");
        assert_eq!(list.next(), None);
        assert!(!list.is_broken());
    }
}

#[test]
fn the_walk_stops_where_lengths_make_no_sense() {
    for bytes in [&[1u8, 1, 8][..], &[1, 8, 10, 1], &[2, 0, 0, 0], &[2, 1]] {
        let mut list = RawOptions::new(bytes);
        assert_eq!(list.next(), None);
        assert!(list.is_broken(), "{bytes:?}");
    }
    let mut ended = RawOptions::new(&[1, 0, 8, 10]);
    assert_eq!(ended.next(), None);
    assert!(!ended.is_broken());
}

#[test]
fn an_option_is_pushed_behind_the_others() {
    use crate::packet::testing::{bytes, ipv6, packet, payload, tcp};
    use crate::packet::{Flaws, TcpFlags, protocol};

    let plain = packet(ipv6(protocol::TCP), tcp(TcpFlags::SYN), 100);
    let mut pushed = plain.clone();
    assert!(pushed.push_tcp_option(kind::FAST_OPEN, &[1, 2, 3, 4]));
    assert!(pushed.push_tcp_option(kind::ACC_ECN_0, &[0, 0, 1]));
    assert_eq!(pushed.len(), plain.len() + 16);
    assert_eq!(pushed.header_len() + 100, pushed.len());

    let sent = bytes(&pushed, &payload(100));
    let parsed = Packet::parse_ethernet(&sent[..]).expect("parses");
    assert_eq!((parsed.flaws(), parsed.body.len), (Flaws::NONE, 100));
    let known = parsed.tcp().expect("TCP").options;
    assert_eq!(known.acc_ecn(), AccEcnOption::new(kind::ACC_ECN_0, &[1]));
    assert_eq!(known.timestamps, plain.tcp().expect("TCP").options.timestamps);
    let mut scratch = [0; MAX_OPTION_SPACE];
    let list = parsed.tcp_option_bytes(&mut scratch).expect("TCP");
    let decoded: Vec<_> = RawOptions::new(list).map(RawOption::decode).collect();
    let one = AccEcnCounters { ee0b: Some(1), ..AccEcnCounters::default() };
    assert_eq!(
        decoded[1..],
        [
            TcpOption::FastOpen { cookie: &[1, 2, 3, 4], experimental: false },
            TcpOption::AccEcn(one)
        ]
    );

    let full = pushed.clone();
    assert!(!pushed.push_tcp_option(kind::MD5, &[0; 16]));
    assert_eq!(pushed, full);
    let mut scratch = [0; MAX_OPTION_SPACE];
    assert_eq!(plain.tcp_option_bytes(&mut scratch).map(<[u8]>::len), Some(12));
}

/// RFC 9768 section 3.2.3: the option in Linux's place, and how it shares padding with SACK.
#[test]
fn accurate_ecn_layouts() {
    let option = |fields: usize| AccEcnOption::new(kind::ACC_ECN_1, &[1, 0, 0x01_02_03][..fields]);
    let mut plain = TcpOptions::default();
    plain.set_acc_ecn(option(3));
    assert_eq!(written(&plain), [174, 11, 0, 0, 1, 0, 0, 0, 1, 2, 3, 1]);
    let mut sack = SackList::EMPTY;
    sack.push(SackBlock { start: Seq(1), end: Seq(2) });
    let block = [5, 10, 0, 0, 0, 1, 0, 0, 0, 2];
    let table: [(usize, &[u8]); 4] = [
        (0, &[174, 2]),
        (1, &[174, 5, 0, 0, 1, 1]),
        (2, &[174, 8, 0, 0, 1, 0, 0, 0, 1, 1]),
        (3, &[174, 11, 0, 0, 1, 0, 0, 0, 1, 2, 3, 1, 1, 1]),
    ];
    for (fields, front) in table {
        let mut options = TcpOptions { sack, ..TcpOptions::default() };
        options.set_acc_ecn(option(fields));
        assert_eq!(written(&options), [front, &block].concat(), "{fields}");
    }
    let syn_ack = TcpOptions { mss: 1000, sack_permitted: true, ..plain };
    assert_eq!(written(&syn_ack)[16..], [1, 1, 4, 2]);
}

/// RFC 9768 section 3.2.3: what is longer or no multiple of three is padding.
#[test]
fn odd_lengths_of_accurate_ecn() {
    let counters =
        |bytes: &[u8]| -> Vec<u32> { TcpOptions::parse(bytes).0.acc_ecn().counters().to_vec() };
    assert_eq!(counters(&[172, 4, 7, 7]), []);
    assert_eq!(counters(&[172, 7, 0, 0, 9, 7, 7, 1]), [9]);
    assert_eq!(counters(&[174, 12, 0, 0, 9, 0, 0, 8, 0, 0, 7, 7]), [9, 8, 7]);
    assert_eq!(counters(&[174, 14, 0, 0, 9, 0, 0, 8, 0, 0, 7, 0, 0, 6, 1, 1]), [9, 8, 7]);
    assert!(!TcpOptions::parse(&[172, 4, 7, 7]).1, "its padding is not ours");
}

fn any_acc_ecn() -> impl Strategy<Value = AccEcnOption> {
    let counters = prop::collection::vec(0u32..1 << 24, 0..=3);
    let some = (prop::bool::ANY, counters).prop_map(|(first, counters)| {
        AccEcnOption::new(if first { kind::ACC_ECN_0 } else { kind::ACC_ECN_1 }, &counters)
    });
    prop_oneof![Just(AccEcnOption::NONE), some]
}

pub fn any_options() -> impl Strategy<Value = TcpOptions> {
    let timestamps = prop::option::of(any::<(u32, u32)>());
    let blocks = prop::collection::vec(any::<(u32, u32)>(), 0..=4);
    (any::<u16>(), 0u8..16, any::<bool>(), timestamps, blocks, any_acc_ecn())
        .prop_map(|(mss, window_scale_plus_one, sack_permitted, timestamps, blocks, acc_ecn)| {
            let mut sack = SackList::EMPTY;
            for (start, end) in blocks {
                sack.push(SackBlock { start: Seq(start), end: Seq(end) });
            }
            let timestamps = timestamps.map(|(value, echo)| Timestamps { value, echo });
            let mut options =
                TcpOptions { mss, window_scale_plus_one, sack_permitted, timestamps, sack };
            if sack.len() < 4 || acc_ecn.counters().len() < 2 {
                options.set_acc_ecn(acc_ecn);
            }
            options
        })
        .prop_filter("more than a header holds", |options| {
            options.len() as usize <= MAX_OPTION_SPACE
        })
}

proptest! {
    #[test]
    fn what_is_written_is_read(options in any_options()) {
        prop_assert_eq!(TcpOptions::parse(&written(&options)), (options, true));
    }

    #[test]
    fn canonical_means_that_writing_gives_the_same_bytes(
        bytes in prop::collection::vec(prop_oneof![0u8..11, any::<u8>()], 0..=40),
    ) {
        let (options, canonical) = TcpOptions::parse(&bytes);
        let same = options.len() as usize == bytes.len() && written(&options) == bytes;
        prop_assert_eq!(canonical, same);
    }

    #[test]
    fn the_walk_never_leaves_the_bytes(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
        let covered: usize = RawOptions::new(&bytes).map(|option| 2 + option.data.len()).sum();
        prop_assert!(covered <= bytes.len());
        for option in RawOptions::new(&bytes) {
            let _ = option.decode();
        }
    }
}
