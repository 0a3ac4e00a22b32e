//! htb: rates, borrowing, priorities, turns, and what becomes of packets when classes come and go.

use super::*;
use crate::qdisc::cake::{self, Cake};
use crate::qdisc::codel::{Codel, CodelConfig};
use crate::qdisc::filter::Match;
use crate::qdisc::netem::{Netem, NetemConfig};
use crate::qdisc::rate::RateConfig;
use crate::qdisc::tbf::{Tbf, TbfConfig};
use crate::qdisc::testing::{Bench, frame, super_frame};
use crate::rng::Rng;
use crate::units::{Duration, NANOS_PER_SEC, Rate};
use proptest::prelude::*;

const ROOT: Handle = Handle::new(1, 0);
const MILLI: u64 = 1_000_000;

fn id(minor: u16) -> Handle {
    Handle::new(1, minor)
}

fn empty(default: u32) -> Htb {
    let config = HtbConfig { default, rate2quantum: 10, direct_qlen: 3, tx_queue_len: 1000 };
    Htb::new(config, ROOT)
}

/// Rates in kbit/s; buckets of 1600 bytes.
fn rates(rate: u64, ceil: u64) -> ClassConfig {
    let config = |kbit: u64| RateConfig::new(Rate::from_bits_per_sec(kbit * 1000));
    let (rate, ceil) = (config(rate), config(ceil));
    let (buffer, cbuffer) = (rate.time_of(1600), ceil.time_of(1600));
    ClassConfig { rate, ceil, buffer, cbuffer, prio: 0, quantum: 1500 }
}

fn add(htb: &mut Htb, minor: u16, parent: u16, config: ClassConfig) {
    let cx = &mut Cx { now: Instant::ZERO, dropped: &mut Vec::new() };
    htb.add_class(id(minor), id(parent), &config, cx).expect("a class");
}

/// A home: 1:1 with 1 Mbit/s, below it 1:10, 1:20 and 1:30, which may borrow all of it.
fn home() -> Htb {
    let mut htb = empty(0x30);
    add(&mut htb, 1, 0, rates(1000, 1000));
    for (minor, kbit) in [(0x10, 500), (0x20, 300), (0x30, 200)] {
        add(&mut htb, minor, 1, rates(kbit, 1000));
    }
    htb
}

fn to(minor: u16, len: u32) -> Packet {
    let mut packet = frame(len);
    packet.meta.priority = id(minor).0;
    packet
}

fn state(bench: &Bench<Htb>, minor: u16) -> ClassState {
    bench.qdisc().state(id(minor)).expect("a class")
}

/// Bytes that each class has sent.
fn sent(bench: &Bench<Htb>, minors: &[u16]) -> Vec<u64> {
    minors.iter().map(|minor| state(bench, *minor).stats.bytes).collect()
}

/// Dequeues whatever can go until `until`, as a port that is always ready.
fn serve(bench: &mut Bench<Htb>, from: u64, until: u64) -> Vec<(u64, u16)> {
    let (mut at, mut left) = (from, Vec::new());
    loop {
        while let Some(packet) = bench.dequeue(at) {
            left.push((at, Handle(packet.meta.priority).minor()));
        }
        bench.qdisc().check();
        match bench.qdisc().wake_at() {
            Some(wake) if wake.as_nanos() < until => at = wake.as_nanos(),
            _ => return left,
        }
    }
}

#[test]
fn a_class_keeps_its_rate() {
    let mut htb = empty(0x10);
    add(&mut htb, 0x10, 0, rates(800, 800));
    let mut bench = Bench::new(htb);
    let left = bench.run((0..4).map(|_| (5 * NANOS_PER_SEC, frame(1000))));
    // 1600 B of tokens are 16 ms. What goes at 6 ms leaves 4 ms of debt.
    let at: Vec<u64> = left.iter().map(|(at, _)| (at - 5 * NANOS_PER_SEC) / 1000).collect();
    assert_eq!(at, [0, 0, 4000, 14_000]);
    let class = state(&bench, 0x10);
    assert_eq!((class.stats.lends, class.stats.borrows), (4, 0));
    assert_eq!((class.tokens, class.ctokens), (-10_000_000, -10_000_000));
    assert_eq!((class.stats.overlimits, bench.qdisc().stats().overlimits), (3, 3));
}

/// `htb_classify()`: the class that `skb->priority` names, the filters, the default class, and what goes past them all.
#[test]
fn a_packet_finds_its_class() {
    let mut htb = home();
    let filter = |mark, class| Filter {
        preference: 0,
        matches: vec![Match::Mark { value: mark, mask: u32::MAX }],
        class,
    };
    for (mark, class) in [(1, id(0x20)), (2, ROOT), (3, id(1)), (4, id(0x99)), (5, Handle(0x20))] {
        assert!(htb.add_filter(ROOT, filter(mark, class)));
    }
    assert!(htb.add_filter(id(1), filter(3, id(0x10))));
    assert!(!htb.add_filter(id(0x99), filter(3, id(0x10))));
    for (priority, mark, found) in [
        (id(0x20).0, 0, Some(0x20)),
        (ROOT.0, 1, None),
        (0, 1, Some(0x20)),
        (0, 2, None),
        (0, 3, Some(0x10)),
        (0, 4, Some(0x30)),
        (0, 5, Some(0x30)),
        (0, 9, Some(0x30)),
        (6, 1, Some(0x20)),
        // An inner class asks its own filters.
        (id(1).0, 3, Some(0x10)),
        (id(1).0, 1, Some(0x30)),
        (Handle::new(2, 0x20).0, 0, Some(0x30)),
    ] {
        let mut packet = frame(100);
        (packet.meta.priority, packet.meta.mark) = (priority, mark);
        let class = htb.classify(&packet).map(|class| htb.class(class).minor);
        assert_eq!(class, found, "priority {priority:x}, mark {mark}");
    }
    htb.config.default = 1;
    assert_eq!(htb.classify(&frame(100)), None, "an inner class is no default");
    let loops = filter(7, id(1));
    htb.add_filter(ROOT, loops.clone());
    htb.add_filter(id(1), loops);
    let mut packet = frame(100);
    packet.meta.mark = 7;
    assert_eq!(htb.classify(&packet), None);
}

#[test]
fn what_has_no_class_goes_first() {
    let mut bench = Bench::new(home());
    bench.enqueue(0, to(0x10, 101));
    for len in 102..106 {
        bench.enqueue(0, to(0, len));
    }
    assert_eq!((bench.dropped_lengths(), bench.qdisc().direct_packets()), (vec![105], 3));
    assert_eq!(bench.drain_lengths(0), [102, 103, 104, 101]);
    assert_eq!(bench.qdisc().stats().drops, 1);
}

/// Alone a class has all that the one above it has; with others as much as its rate, and its part of what they leave.
#[test]
fn what_others_leave_is_borrowed() {
    let mut bench = Bench::new(home());
    let second = NANOS_PER_SEC;
    for _ in 0..900 {
        bench.enqueue(second, to(0x20, 1000));
    }
    serve(&mut bench, second, 5 * second);
    let [alone] = sent(&bench, &[0x20])[..] else { unreachable!() };
    assert!((498_000..503_000).contains(&alone), "{alone}");
    for minor in [0x10, 0x30] {
        for _ in 0..600 {
            bench.enqueue(5 * second, to(minor, 1000));
        }
    }
    serve(&mut bench, 5 * second, 9 * second);
    let [first, second, third] = sent(&bench, &[0x10, 0x20, 0x30])[..] else { unreachable!() };
    for (bytes, kbit) in [(first, 500), (second - alone, 300), (third, 200)] {
        let wanted = kbit * 500;
        assert!((wanted - 4000..wanted + 4000).contains(&bytes), "{kbit} kbit/s: {bytes}");
    }
    let above = state(&bench, 1).stats;
    let borrowed: u32 = [0x10, 0x20, 0x30].map(|it| state(&bench, it).stats.borrows).iter().sum();
    assert_eq!((above.bytes, above.lends), (first + second + third, borrowed));
}

/// Those with the lower `prio` borrow first. What is at the same one takes turns by quantum.
#[test]
fn spare_rate_goes_by_priority_then_by_quantum() {
    for (prio, quantum, parts) in [
        // 100 kbit/s are its own of each.
        ([0, 1, 1], [1000, 1000, 1000], [800, 100, 100]),
        ([1, 0, 0], [1000, 1000, 1000], [100, 450, 450]),
        ([0, 0, 0], [1000, 2000, 4000], [200, 300, 500]),
        ([7, 9, 200], [2000, 2000, 3000], [300, 300, 400]),
    ] {
        let mut htb = empty(0);
        add(&mut htb, 1, 0, rates(1000, 1000));
        let minors = [0x10, 0x20, 0x30];
        for ((minor, prio), quantum) in minors.into_iter().zip(prio).zip(quantum) {
            add(&mut htb, minor, 1, ClassConfig { prio, quantum, ..rates(100, 1000) });
        }
        let mut bench = Bench::new(htb);
        for minor in minors {
            for _ in 0..990 {
                bench.enqueue(0, to(minor, 1000));
            }
        }
        serve(&mut bench, 0, 7 * NANOS_PER_SEC);
        let bytes = sent(&bench, &minors);
        let spent: u64 = bytes.iter().sum();
        for (bytes, part) in bytes.iter().zip(parts) {
            let wanted = spent * part / 1000;
            let close = bytes.abs_diff(wanted) < spent / 12;
            assert!(close, "prio {prio:?}, quantum {quantum:?}: {bytes}, {wanted}");
        }
    }
}

/// Who has tokens of its own goes before all who borrow, whatever the priorities.
#[test]
fn own_tokens_go_first() {
    let mut htb = empty(0);
    add(&mut htb, 1, 0, rates(8000, 8000));
    add(&mut htb, 0x10, 1, rates(8, 8000));
    add(&mut htb, 0x20, 1, ClassConfig { prio: 7, ..rates(4000, 8000) });
    let mut bench = Bench::new(htb);
    for minor in [0x10, 0x10, 0x10, 0x20] {
        bench.enqueue(0, to(minor, 1500));
    }
    // The first of 1:10 has spent its bucket, and the second is in debt.
    let left = serve(&mut bench, 0, 100 * MILLI);
    let classes: Vec<u16> = left.iter().map(|(_, minor)| *minor).collect();
    assert_eq!(classes, [0x10, 0x10, 0x20, 0x10]);
}

/// As Linux 6.18 answered to `tc class`.
#[test]
fn classes_come_and_go() {
    let mut htb = home();
    let mut dropped = Vec::new();
    let cx = &mut Cx { now: Instant::ZERO, dropped: &mut dropped };
    let config = rates(100, 100);
    for (number, error) in [
        (id(0x10), ClassError::Exists),
        (Handle::new(2, 1), ClassError::BadNumber),
        (Handle::NONE, ClassError::BadNumber),
    ] {
        assert_eq!(htb.add_class(number, ROOT, &config, cx), Err(error));
    }
    assert_eq!(htb.delete_class(id(1), cx), Err(ClassError::InUse));
    assert_eq!(htb.delete_class(id(2), cx), Err(ClassError::NotFound));
    assert_eq!(htb.change_class(id(2), &config), Err(ClassError::NotFound));
    let filter = Filter { preference: 1, matches: vec![Match::All], class: id(0x20) };
    htb.add_filter(id(1), filter);
    assert_eq!(htb.delete_class(id(0x20), cx), Err(ClassError::InUse));
    // Below a class that does not exist is below none, and 1:0 is a class.
    assert!(htb.add_class(id(0x40), id(0x99), &config, cx).is_ok());
    assert!(htb.add_class(id(0), id(1), &config, cx).is_ok());
    let parent = |htb: &Htb, class| htb.state(class).expect("a class").parent;
    assert_eq!((parent(&htb, id(0x40)), parent(&htb, id(0))), (Handle::ROOT, id(1)));
    htb.enqueue(to(0x10, 1000), cx);
    let minors = [0x10, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16];
    for (nth, below) in minors.windows(2).enumerate() {
        let added = htb.add_class(id(below[1]), id(below[0]), &config, cx);
        assert_eq!(added.err(), [None; 6][nth], "{below:?}");
        assert_eq!(htb.state(id(below[0])).map(|state| state.level), Some(6 - nth as u8));
    }
    assert_eq!(htb.add_class(id(0x17), id(0x16), &config, cx), Err(ClassError::TooDeep));
    assert_eq!(htb.stats().drops, 1, "the queue of what is no leaf any more");
    assert!(htb.leaf(id(0x10)).is_none() && htb.leaf(id(0x16)).is_some());
    for minor in minors.into_iter().rev() {
        assert_eq!(htb.delete_class(id(minor), cx), Ok(()));
        htb.check();
    }
    assert_eq!(dropped.len(), 1);
}

/// In the order in which Linux 6.18 showed them: that of its table.
#[test]
fn classes_are_listed_as_the_kernel_does() {
    let mut htb = empty(0);
    let listed = |htb: &Htb| htb.classes().map(Handle::minor).collect::<Vec<_>>();
    for minor in [1, 0x10, 0x20, 0x30, 0x40, 0x50, 0, 0x11, 0x12] {
        add(&mut htb, minor, 1, rates(1000, 1000));
    }
    let cx = &mut Cx { now: Instant::ZERO, dropped: &mut Vec::new() };
    for minor in [0x11, 0x20] {
        htb.delete_class(id(minor), cx).expect("a class");
    }
    assert_eq!(listed(&htb), [0, 0x10, 1, 0x12, 0x30, 0x40, 0x50]);
}

/// `htb_change_class()`: a class of 1000 kbit/s has 12500 bytes.
#[test]
fn a_quantum_follows_from_the_rate() {
    use QuantumSize::{Big, Small};
    for (kbit, said, quantum, odd) in [
        (1000, 0, 12_500, None),
        (79, 0, 1000, Some(Small)),
        (16_000, 0, 200_000, None),
        (16_001, 0, 200_000, Some(Big)),
        (79, 60, 60, None),
        (16_001, 400_000, 400_000, None),
    ] {
        let mut htb = empty(0);
        let cx = &mut Cx { now: Instant::ZERO, dropped: &mut Vec::new() };
        let config = ClassConfig { quantum: said, ..rates(kbit, kbit) };
        assert_eq!(htb.add_class(id(1), ROOT, &config, cx), Ok(odd));
        assert_eq!(htb.state(id(1)).map(|state| state.config.quantum), Some(quantum));
    }
}

/// Buckets are in debt by a minute at most (`mbuffer`).
#[test]
fn no_debt_is_longer_than_a_minute() {
    let mut htb = empty(0x10);
    add(&mut htb, 0x10, 0, rates(1, 1));
    let mut bench = Bench::new(htb);
    let left = bench.run([(1, super_frame(40, 1448)), (1, frame(100))]);
    let at = left[1].0 / MILLI;
    assert_eq!(at, 60_000, "57974 B take 7 minutes");
}

/// Changed classes keep tokens and packets; a new priority counts from the next time that they have something to send.
#[test]
fn a_change_keeps_tokens_and_packets() {
    let mut bench = Bench::new(home());
    for _ in 0..3 {
        bench.enqueue(0, to(0x10, 1500));
    }
    assert!(bench.dequeue(0).is_some());
    let before = state(&bench, 0x10);
    let config = ClassConfig { prio: 3, ..rates(900, 1000) };
    bench.qdisc_mut().change_class(id(0x10), &config).expect("a class");
    bench.qdisc().check();
    let after = state(&bench, 0x10);
    assert_eq!((after.tokens, after.ctokens), (before.tokens, before.ctokens));
    assert_eq!((after.config.prio, bench.qdisc().backlog().packets), (3, 2));
    assert_eq!(serve(&mut bench, 0, NANOS_PER_SEC).len(), 2);
}

/// A leaf may be anything, also what keeps its packets to itself for a while.
#[test]
fn leaves_are_queues_of_any_kind() {
    let rate = RateConfig::new(Rate::from_mbit(1));
    let tbf = TbfConfig { rate, burst: 1600, peak: None, limit: 9000 };
    let netem = NetemConfig { delay: 30 * MILLI as i64, ..NetemConfig::default() };
    let mut codel = CodelConfig { limit: 4, ..CodelConfig::new(1514) };
    codel.params.ce_threshold = crate::qdisc::codel::CodelTime::of(Duration::from_millis(1));
    let mut htb = home();
    for (minor, queue) in [
        (0x10, Sched::from(Tbf::new(tbf, Sched::from(crate::qdisc::fifo::Fifo::pfifo_default())))),
        (0x20, Netem::new(netem, Rng::stream(1, 1)).into()),
        (0x30, Codel::new(codel).into()),
    ] {
        *htb.leaf_mut(id(minor)).expect("a leaf") = queue;
    }
    let mut bench = Bench::new(htb);
    let arrivals = (0..30).map(|nth| (nth * MILLI, to([0x10, 0x20, 0x30][nth as usize % 3], 500)));
    let left = bench.run(arrivals).len();
    assert_eq!(left + bench.dropped_lengths().len(), 30);
    assert_eq!(bench.qdisc().stats().drops as usize, bench.dropped_lengths().len());
    assert_eq!(bench.qdisc().wake_at(), None);
    let refused = u64::from(state(&bench, 0x30).stats.drops);
    assert_eq!(refused, bench.qdisc().stats().drops, "what the limit of 4 refused");
}

/// What is emptied from outside has nothing to send (`htb_qlen_notify`).
#[test]
fn a_queue_that_was_replaced_is_empty() {
    let mut bench = Bench::new(home());
    bench.enqueue(0, to(0x20, 500));
    let purged = {
        let queue = bench.qdisc_mut().leaf_mut(id(0x10)).expect("a leaf");
        core::mem::replace(queue, crate::qdisc::fifo::Fifo::pfifo_default().into())
    };
    assert_eq!(purged.backlog(), Backlog::default());
    assert_eq!(bench.drain_lengths(0), [500]);
    bench.qdisc().check();
}

/// CAKE with less memory than a packet drops all that it has when one comes.
#[test]
fn a_queue_that_drops_all_has_nothing_to_send() {
    let config = cake::Config { memlimit: 1402, ..cake::Config::default() };
    let mut htb = home();
    let leaf = htb.leaf_mut(id(0x10)).expect("a leaf");
    *leaf = Cake::new(config, 1514, Rng::stream(1, 1)).into();
    let mut bench = Bench::new(htb);
    for truesize in [1000, 4000] {
        let mut packet = to(0x10, 500);
        packet.meta.truesize = truesize;
        bench.enqueue(0, packet);
        bench.qdisc().check();
    }
    assert_eq!(bench.dropped_lengths(), [500, 500]);
    assert_eq!((bench.dequeue(0), bench.qdisc().wake_at()), (None, None));
}

proptest! {
    /// Tokens are conserved: in no window of time sends a class more than its `ceil` and a bucket; all of them send
    /// no more than the one above them; each with something to send gets its rate; and while any may send, something is
    /// sent.
    #[test]
    fn rates_are_kept(
        shares in prop::collection::vec((100u64..400, 0u64..600, 0u32..3, 300u32..3000), 2..6),
        lens in prop::collection::vec(60u32..1514, 1..20),
    ) {
        let total: u64 = shares.iter().map(|(rate, ..)| rate).sum();
        let mut htb = empty(0);
        add(&mut htb, 1, 0, rates(total, total));
        for (minor, (rate, more, prio, quantum)) in (0x10..).zip(&shares) {
            let (prio, quantum) = (*prio, *quantum);
            add(&mut htb, minor, 1, ClassConfig { prio, quantum, ..rates(*rate, rate + more) });
        }
        let mut bench = Bench::new(htb);
        let minors: Vec<u16> = (0x10..).take(shares.len()).collect();
        let mut left: Vec<(u64, u16, u32)> = Vec::new();
        let mut lens = lens.iter().cycle();
        for minor in &minors {
            for _ in 0..200 {
                bench.enqueue(0, to(*minor, *lens.next().expect("a cycle")));
            }
        }
        // Kept full for two seconds.
        let (mut at, until) = (0, 2 * NANOS_PER_SEC);
        while at < until {
            while let Some(packet) = bench.dequeue(at) {
                let minor = Handle(packet.meta.priority).minor();
                left.push((at, minor, packet.len()));
                bench.enqueue(at, to(minor, *lens.next().expect("a cycle")));
            }
            bench.qdisc().check();
            at = bench.qdisc().wake_at().expect("packets wait").as_nanos();
        }
        // A packet goes as long as there are tokens, for some of which it may lack its own.
        let most = |kbit: u64, span: u64| kbit * span / (8 * MILLI) + 1600 + 1514 + 2;
        let ceil = |nth: usize| shares[nth].0 + shares[nth].1;
        for first in (0..left.len()).step_by(7) {
            let mut of_class = vec![0; minors.len()];
            let mut all = 0;
            for (at, minor, len) in &left[first..] {
                let (nth, span) = (usize::from(minor - 0x10), at - left[first].0);
                of_class[nth] += u64::from(*len);
                all += u64::from(*len);
                prop_assert!(of_class[nth] <= most(ceil(nth), span), "1:{minor:x} above its ceil");
                // Leaves with tokens of their own send although the one above them has none; so it goes into debt.
                let room = 1514 * minors.len() as u64 + 1600 * minors.len() as u64;
                prop_assert!(all <= most(total, span) + room, "all above their parent's");
            }
        }
        for (nth, minor) in minors.iter().enumerate() {
            let bytes = sent(&bench, &[*minor])[0];
            let own = shares[nth].0 * until / (8 * MILLI);
            prop_assert!(bytes + 2 * 1514 >= own, "1:{minor:x} has {bytes} of {own}");
        }
        let all: u64 = left.iter().map(|(.., len)| u64::from(*len)).sum();
        prop_assert!(all + 2 * 1514 >= total * until / (8 * MILLI), "the rate is used: {all}");
    }

    /// Whatever is done with classes and packets, the lists agree, nothing is lost, and all that waits comes out.
    #[test]
    fn any_order_of_changes(
        steps in prop::collection::vec((0u8..12, 0u16..6, 0u16..6, 1u64..2000, 0u64..40), 1..120),
    ) {
        let mut htb = empty(3);
        for minor in 1..4 {
            add(&mut htb, minor, minor - 1, rates(500, 900));
        }
        let (mut at, mut dropped) = (1, Vec::new());
        let (mut entered, mut left) = (0, 0);
        for (what, minor, other, kbit, gap) in steps {
            at += gap * MILLI;
            let config = ClassConfig { prio: u32::from(other), ..rates(kbit, kbit + 100) };
            let cx = &mut Cx { now: Instant::from_nanos(at), dropped: &mut dropped };
            match what {
                0 => drop(htb.add_class(id(minor), id(other), &config, cx)),
                1 => drop(htb.delete_class(id(minor), cx)),
                2 => drop(htb.change_class(id(minor), &config)),
                3..7 => {
                    htb.enqueue(to(minor, 60 + kbit as u32 % 1400), cx);
                    entered += 1;
                }
                _ => left += usize::from(htb.dequeue(cx).is_some()),
            }
            htb.check();
            prop_assert_eq!(entered, left + dropped.len() + htb.backlog().packets as usize);
            prop_assert_eq!(htb.stats().drops as usize, dropped.len());
        }
        while htb.backlog().packets > 0 {
            let cx = &mut Cx { now: Instant::from_nanos(at), dropped: &mut dropped };
            while htb.dequeue(cx).is_some() {}
            at = htb.wake_at().map_or(at, Instant::as_nanos);
            htb.check();
        }
    }
}
