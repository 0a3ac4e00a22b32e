use super::*;
use prefix_trie::PrefixMap;
use proptest::prelude::*;

/// One step of the model test.
#[derive(Clone, Debug)]
enum Step {
    Insert(u32, u8, u32),
    Remove(u32, u8),
    Look(u32),
}

/// Addresses from a small set of clusters, so that prefixes nest and collide.
fn address() -> impl Strategy<Value = u32> {
    prop_oneof![
        any::<u32>(),
        (0u32..4, 0u32..16).prop_map(|(high, low)| high << 30 | low),
        (0u32..8, 0u32..256).prop_map(|(high, low)| 0x0a00_0000 | high << 8 | low),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (address(), 0u8..=32, 0u32..1000).prop_map(|(a, l, v)| Step::Insert(a, l, v)),
        2 => (address(), Just(32u8), 0u32..1000).prop_map(|(a, l, v)| Step::Insert(a, l, v)),
        3 => (address(), 0u8..=32).prop_map(|(a, l)| Step::Remove(a, l)),
        4 => address().prop_map(Step::Look),
    ]
}

/// All prefixes of the trie that cover `key`, longest first.
fn covering<K: Bits>(trie: &Trie<K>, key: K) -> Vec<(u8, u32)> {
    let mut found = Vec::new();
    let mut at = trie.longest(key);
    while let (Some(len), Some(value)) = (at.prefix_len(), at.value()) {
        found.push((len, value));
        at = at.shorter();
    }
    found
}

fn oracle_covering(oracle: &PrefixMap<(u32, u8), u32>, key: u32) -> Vec<(u8, u32)> {
    let mut found: Vec<_> = oracle.cover(&(key, 32)).map(|(p, &v)| (p.1, v)).collect();
    found.reverse();
    found
}

fn has_spans(trie: &Trie<u32>) -> bool {
    trie.large.as_ref().is_some_and(|large| large.spans.is_some())
}

fn check_quick(trie: &Trie<u32>, key: u32, expected: &[(u8, u32)]) {
    if let Some(quick) = trie.quick(key) {
        assert_eq!(quick, expected.first().map_or(NONE, |found| found.1), "{key:#x}");
    }
}

fn check(steps: &[Step], preload: u32) {
    let mut trie = Trie::<u32>::new();
    let mut oracle = PrefixMap::<(u32, u8), u32>::new();
    // A preload brings the accelerators into play.
    for index in 0..preload {
        let (key, len) = (index.wrapping_mul(0x9e37_79b9), 12 + (index % 21) as u8);
        trie.insert(key, len, index);
        oracle.insert((key.masked(len), len), index);
    }
    assert_eq!(has_spans(&trie), preload >= 40_000);
    for step in steps {
        match *step {
            Step::Insert(key, len, value) => {
                let before = oracle.insert((key.masked(len), len), value);
                assert_eq!(trie.insert(key, len, value), before);
            }
            Step::Remove(key, len) => {
                let before = oracle.remove(&(key.masked(len), len));
                assert_eq!(trie.remove(key, len), before);
            }
            Step::Look(key) => {
                let expected = oracle_covering(&oracle, key);
                assert_eq!(covering(&trie, key), expected, "{key:#x}");
                check_quick(&trie, key, &expected);
            }
        }
    }
    if preload > 0 {
        // What lies at the borders of prefixes, and at those of slots.
        for (prefix, _) in oracle.iter().step_by(7) {
            let last = prefix.0 | !u32::MAX.masked(prefix.1);
            for key in [prefix.0, prefix.0.wrapping_sub(1), last, last.wrapping_add(1)] {
                check_quick(&trie, key, &oracle_covering(&oracle, key));
            }
        }
    }
    assert_eq!(trie.len(), oracle.len());
    let mut all: Vec<_> = trie.prefixes().collect();
    let expected: Vec<_> = oracle.iter().map(|(p, &v)| (p.0, p.1, v)).collect();
    assert_eq!(all, expected, "iteration is in the order of the prefixes");
    for (key, len, value) in all.drain(..) {
        assert_eq!(trie.remove(key, len), Some(value));
    }
    assert_eq!(
        trie.nodes.len() - trie.large.as_ref().map_or(0, |large| large.free.len()),
        1,
        "an empty trie is only its root"
    );
}

proptest! {
    #[test]
    fn agrees_with_prefix_trie(steps in prop::collection::vec(step(), 0..300)) {
        check(&steps, 0);
    }

    #[test]
    fn agrees_with_prefix_trie_when_accelerated(steps in prop::collection::vec(step(), 0..300)) {
        check(&steps, 600);
    }

}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8))]

    #[test]
    fn agrees_with_prefix_trie_when_there_are_spans(
        steps in prop::collection::vec(step(), 0..600),
    ) {
        check(&steps, 40_000);
    }
}

proptest! {
    #[test]
    fn ipv6_finds_the_longest(
        prefixes in prop::collection::vec((any::<u128>(), 0u8..=128), 1..400),
        pick in any::<prop::sample::Index>(),
        noise in any::<u128>(),
    ) {
        let mut trie = Trie::<u128>::new();
        for (value, &(key, len)) in prefixes.iter().enumerate() {
            trie.insert(key, len, value as u32);
        }
        let (key, len) = prefixes[pick.index(prefixes.len())];
        let asked = key.masked(len) | (noise & !u128::MAX.masked(len));
        let best = prefixes.iter().filter(|(k, l)| asked.masked(*l) == k.masked(*l)).map(|p| p.1).max();
        prop_assert_eq!(trie.longest(asked).prefix_len(), best);
    }
}

#[test]
fn ten_thousand_hosts_and_a_default() {
    let mut trie = Trie::<u32>::new();
    trie.insert(0, 0, 1);
    for host in 0..10_000 {
        trie.insert(0x0a00_0000 + host, 32, 100 + host);
    }
    for host in 0..10_000 {
        assert_eq!(trie.longest(0x0a00_0000 + host).value(), Some(100 + host));
        assert_eq!(covering(&trie, 0x0a00_0000 + host), [(32, 100 + host), (0, 1)]);
    }
    assert_eq!(trie.longest(0x0b00_0000).value(), Some(1));
    for host in 0..10_000 {
        assert_eq!(trie.remove(0x0a00_0000 + host, 32), Some(100 + host));
        assert_eq!(trie.longest(0x0a00_0000 + host).value(), Some(1));
    }
}

#[test]
fn hosts_need_no_spans() {
    let mut trie = Trie::<u32>::new();
    for host in 0..40_000 {
        trie.insert(0x0a00_0000 + host, 32, host);
    }
    assert!(!has_spans(&trie));
    for index in 0..40_000 {
        trie.insert(index << 12, 24, index);
    }
    assert!(has_spans(&trie), "networks do");
    for index in 0..40_000 {
        trie.remove(index << 12, 24);
        trie.remove(0x0a00_0000 + index, 32);
    }
    assert_eq!(trie.short, 0);
}

#[test]
fn spans_come_with_size_and_send_longer_prefixes_to_the_trie() {
    let mut trie = Trie::<u32>::new();
    assert_eq!(trie.quick(1 << 24), None, "a small trie has none");
    for index in 0..40_000 {
        trie.insert(index << 12, 24, index);
    }
    assert_eq!(trie.quick(5 << 12 | 255), Some(5));
    assert_eq!(trie.quick(5 << 12 | 256), Some(NONE));
    trie.insert(0, 0, 77);
    assert_eq!(trie.quick(5 << 12 | 256), Some(77));
    trie.insert(5 << 12 | 9, 32, 78);
    assert_eq!(trie.quick(5 << 12), None);
    assert_eq!(trie.longest(5 << 12 | 9).value(), Some(78));
    trie.remove(5 << 12 | 9, 32);
    assert_eq!(trie.quick(5 << 12), Some(5));
}
