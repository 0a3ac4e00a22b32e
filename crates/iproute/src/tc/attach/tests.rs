//! What a command means on a tree, and what it leaves there.

use super::*;
use crate::tc::parse_qdisc;
use datapath::packet::Packet;
use datapath::qdisc::fifo::FifoKind;
use datapath::units::Instant;

fn apply(root: &mut Sched, text: &str) -> Result<Option<Box<Sched>>, AttachError> {
    let command = parse_qdisc(text).expect(text);
    let cx = &mut Cx { now: Instant::ZERO, dropped: &mut Vec::new() };
    command.apply(root, Device::default(), Rng::stream(1, 1), cx)
}

/// A fresh device after `commands`.
fn after(commands: &[&str]) -> Sched {
    let mut root = Sched::new(Handle::NONE, PfifoFast::new(1000));
    for command in commands {
        apply(&mut root, command).unwrap_or_else(|refused| panic!("{command}: {refused}"));
    }
    root
}

/// What is attached: `PARENT HANDLE KIND` each, without what the kernel put there itself.
fn shown(root: &Sched) -> String {
    let all = root.tree().into_iter().filter(|(_, sched)| sched.handle != Handle::NONE);
    let each = all.map(|(at, it)| format!("{at} {} {}", it.handle, it.qdisc().kind()));
    each.collect::<Vec<_>>().join(", ")
}

const PRIO: [&str; 3] = [
    "qdisc add dev v0 root handle 1: prio",
    "qdisc add dev v0 parent 1:2 handle 20: pfifo limit 7",
    "qdisc add dev v0 parent 1:3 handle 30: bfifo limit 3000",
];

/// As a Linux 6.1 answered to the same commands, each on the same tree.
#[test]
fn what_a_command_means_depends_on_what_is_there() {
    const SAME: &str = "root 1: prio, 1:2 20: pfifo, 1:3 30: bfifo";
    use AttachError as R;
    for (command, expected) in [
        ("change handle 20: pfifo limit 9", Ok(SAME)),
        ("change handle 20: bfifo limit 9", Err(R::OtherKind)),
        ("change handle 99: pfifo limit 9", Err(R::NoSuchQdisc)),
        ("change handle 1: prio bands 4", Ok(SAME)),
        ("change handle 1: pfifo limit 4", Err(R::OtherKind)),
        ("replace handle 20: pfifo limit 9", Ok(SAME)),
        ("replace handle 20: bfifo limit 9", Err(R::OtherKind)),
        ("replace handle 1: prio bands 4", Ok(SAME)),
        ("replace handle 1: pfifo limit 4", Err(R::OtherKind)),
        ("replace handle 99: pfifo limit 4", Err(R::NoSuchQdisc)),
        ("replace root prio bands 4", Ok(SAME)),
        ("replace root handle 1: prio bands 4", Ok(SAME)),
        ("replace root handle 2: prio bands 4", Ok("root 2: prio")),
        ("replace root pfifo limit 4", Ok("root 8001: pfifo")),
        ("replace root handle 1: pfifo limit 4", Err(R::OtherKind)),
        ("replace root handle 20: pfifo limit 4", Err(R::Elsewhere)),
        ("replace parent 1:2 pfifo limit 4", Ok(SAME)),
        ("replace parent 1:2 handle 20: pfifo limit 4", Ok(SAME)),
        ("replace parent 1:2 handle 20: bfifo limit 4000", Err(R::OtherKind)),
        (
            "replace parent 1:2 handle 21: pfifo limit 4",
            Ok("root 1: prio, 1:2 21: pfifo, 1:3 30: bfifo"),
        ),
        ("replace parent 1:2 handle 30: bfifo limit 4000", Err(R::Elsewhere)),
        ("replace parent 1:2 bfifo", Ok("root 1: prio, 1:2 8001: bfifo, 1:3 30: bfifo")),
        (
            "replace parent 1:1 pfifo",
            Ok("root 1: prio, 1:1 8001: pfifo, 1:2 20: pfifo, 1:3 30: bfifo"),
        ),
        ("replace parent 1:1 handle 1: prio", Err(R::Elsewhere)),
        ("replace parent 20:1 pfifo limit 4", Err(R::NotClassful)),
        ("replace parent 1:9 pfifo limit 4", Err(R::NoSuchClass)),
        ("replace parent 9:1 handle 20: pfifo limit 4", Err(R::NoSuchParent)),
        ("add parent :1 pfifo", Err(R::NoSuchParent)),
        ("change root prio bands 4", Ok(SAME)),
        ("change root handle 2: prio bands 4", Err(R::NeedsReplace)),
        ("change root handle 20: pfifo limit 4", Err(R::NeedsReplace)),
        ("change root pfifo limit 4", Ok("root 8001: pfifo")),
        ("change parent 1:2 handle 20: pfifo limit 4", Ok(SAME)),
        ("change parent 1:2 handle 21: pfifo limit 4", Err(R::NeedsReplace)),
        ("change parent 1:1 pfifo limit 4", Err(R::NothingToChange)),
        ("change parent 1:1 handle 20: pfifo limit 4", Err(R::Elsewhere)),
        ("change parent 1:9 pfifo limit 4", Err(R::NoSuchClass)),
        ("add handle 20: pfifo limit 4", Err(R::Exists)),
        ("add handle 40: pfifo limit 4", Err(R::NoSuchQdisc)),
        ("add parent 1:1 handle 20: pfifo limit 4", Err(R::Elsewhere)),
        ("add parent 1:2 handle 21: pfifo limit 4", Err(R::NeedsReplace)),
        ("add parent 1:2 pfifo limit 4", Err(R::Exists)),
        ("add parent 1:2 bfifo", Ok("root 1: prio, 1:2 8001: bfifo, 1:3 30: bfifo")),
        ("add root handle 1: pfifo limit 4", Err(R::Exists)),
        ("add root prio bands 5", Err(R::Exists)),
        ("add root pfifo limit 4", Ok("root 8001: pfifo")),
        ("del handle 20:", Err(R::NoClass)),
        ("del handle 99:", Err(R::NoSuchQdisc)),
        ("del root", Ok("")),
        ("del root handle 1:", Ok("")),
        ("del root handle 2:", Err(R::WrongHandle)),
        ("del root prio", Ok("")),
        ("del root pfifo", Err(R::OtherKind)),
        ("del parent 1:2", Ok("root 1: prio, 1:3 30: bfifo")),
        ("del parent 1:2 handle 20:", Ok("root 1: prio, 1:3 30: bfifo")),
        ("del parent 1:2 handle 21:", Err(R::WrongHandle)),
        ("del parent 1:1", Err(R::NothingToDelete)),
        ("del parent 1:9", Err(R::NoSuchClass)),
    ] {
        let mut root = after(&PRIO);
        let (verb, rest) = command.split_once(' ').expect("a verb");
        let done = apply(&mut root, &format!("qdisc {verb} dev v0 {rest}"));
        let outcome = done.map(|_| shown(&root));
        assert_eq!(outcome.as_deref(), expected.as_ref().copied(), "{command}");
        if expected.is_err() {
            assert_eq!(shown(&root), SAME, "{command}");
        }
    }
}

#[test]
fn a_change_keeps_options_not_given_and_queued_packets() {
    let mut root = after(&PRIO);
    assert!(apply(&mut root, "qdisc replace dev v0 handle 20: pfifo").is_ok());
    assert!(apply(&mut root, "qdisc change dev v0 handle 1: prio bands 4").is_ok());
    assert!(apply(&mut root, "qdisc add dev v0 parent 1:4 handle 40: pfifo").is_ok());
    let text = crate::tc::show_text(&root, None, Instant::ZERO);
    assert!(text.contains("qdisc pfifo 20: parent 1:2 limit 7p"), "{text}");
    assert_eq!(shown(&root), "root 1: prio, 1:2 20: pfifo, 1:3 30: bfifo, 1:4 40: pfifo");
}

#[test]
fn the_default_queue_is_nothing_to_change_or_delete() {
    for (command, expected) in [
        ("del dev v0 root", AttachError::NothingToDelete),
        ("change dev v0 root pfifo limit 4", AttachError::NothingToChange),
        ("replace dev v0 handle 5: pfifo limit 4", AttachError::NoSuchQdisc),
        ("add dev v0 handle 5: pfifo limit 4", AttachError::NoSuchQdisc),
        ("change dev v0 ingress", AttachError::Ingress),
    ] {
        let done = apply(&mut after(&[]), &format!("qdisc {command}"));
        assert_eq!(done.map(|_| ()), Err(expected), "{command}");
    }
}

#[test]
fn every_kind_is_changed_by_its_own_words() {
    for words in [
        "pfifo",
        "bfifo",
        "pfifo_head_drop",
        "pfifo_fast",
        "noqueue",
        "tbf rate 1mbit burst 5k limit 10k",
        "red limit 60kb avpkt 1000 bandwidth 10mbit",
        "codel",
        "fq",
        "fq_codel",
        "dualpi2",
        "pie",
        "prio",
        "cake",
        "netem",
    ] {
        let mut root = after(&[&format!("qdisc add dev v0 root handle 5: {words}")]);
        for place in ["root", "handle 5:", "root handle 5:"] {
            for verb in ["change", "replace"] {
                let done = apply(&mut root, &format!("qdisc {verb} dev v0 {place} {words}"));
                assert_eq!(done.map(|old| old.is_some()), Ok(false), "{verb} {place} {words}");
            }
        }
    }
}

/// Observed on Linux 6.18 at the root of a veth whose MTU changed between two commands: the limit by the MTU stays,
/// and whether the queue can be bypassed is decided when it is given a limit.
#[test]
fn a_bfifo_looks_at_its_device_when_it_is_given_a_limit() {
    let mut root = after(&["qdisc add dev v0 root bfifo limit 5000"]);
    let jumbo = Device { psched_mtu: 9_014, ..Device::default() };
    for (words, device, passes, limit) in [
        ("change dev v0 root bfifo", jumbo, true, 5_000),
        ("change dev v0 root bfifo limit 5000", jumbo, false, 5_000),
        ("change dev v0 root bfifo", Device::default(), false, 5_000),
        ("change dev v0 root bfifo limit 5000", Device::default(), true, 5_000),
        ("replace dev v0 root bfifo limit 9014", jumbo, true, 9_014),
        ("replace dev v0 root bfifo", Device { tx_queue_len: 7, ..jumbo }, true, 9_014),
    ] {
        let command = parse_qdisc(&format!("qdisc {words}")).expect(words);
        let cx = &mut Cx { now: Instant::ZERO, dropped: &mut Vec::new() };
        assert!(command.apply(&mut root, device, Rng::stream(1, 1), cx).is_ok(), "{words}");
        let AnyQdisc::Fifo(fifo) = root.qdisc() else { panic!("a bfifo") };
        assert_eq!((fifo.may_bypass(), fifo.kind()), (passes, FifoKind::Bytes(limit)), "{words}");
    }
}

/// `qdisc_tree_reduce_backlog()`: all above count as dropped what is discarded below them.
#[test]
fn what_is_discarded_below_counts_as_dropped_above() {
    let counted = |command: &str| {
        let mut root = after(&[
            "qdisc add dev x root handle 1: tbf rate 1mbit burst 3100 limit 90000",
            "qdisc add dev x parent 1:1 handle 2: prio priomap 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2",
            "qdisc add dev x parent 2:3 handle 3: codel",
        ]);
        let mut dropped = Vec::new();
        let mut cx = Cx { now: Instant::ZERO, dropped: &mut dropped };
        for _ in 0..5 {
            root.enqueue(Packet::default(), &mut cx);
        }
        assert!(apply(&mut root, command).is_ok(), "{command}");
        let all = root.tree().into_iter().filter(|(_, it)| it.handle != Handle::NONE);
        all.map(|(_, sched)| sched.stats().drops).collect::<Vec<_>>()
    };
    for (command, drops) in [
        ("qdisc del dev x parent 2:3", &[5, 5][..]),
        ("qdisc replace dev x parent 2:3 handle 4: pfifo", &[5, 5, 0]),
        ("qdisc change dev x handle 3: codel limit 2", &[3, 3, 3]),
        (
            "qdisc change dev x handle 2: prio bands 2 priomap 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0",
            &[5, 5],
        ),
        ("qdisc replace dev x parent 1:1 handle 5: pfifo", &[5, 0]),
    ] {
        assert_eq!(counted(command), drops, "{command}");
    }
}

#[test]
fn free_handles_count_from_8001() {
    let mut root = after(&["qdisc add dev x root tbf rate 1mbit burst 3100 limit 9000"]);
    assert!(apply(&mut root, "qdisc replace dev x parent 8001:1 pfifo").is_ok());
    assert_eq!(shown(&root), "root 8001: tbf, 8001:1 8002: pfifo");
}

#[test]
fn qdiscs_nest_so_deep_and_no_deeper() {
    let mut root = after(&["qdisc add dev x root handle 1: prio"]);
    let below =
        |parent| format!("qdisc add dev x parent {parent:x}:1 handle {:x}: prio", parent + 1);
    for parent in 1..64 {
        assert!(apply(&mut root, &below(parent)).is_ok(), "{parent}");
    }
    assert_eq!(apply(&mut root, &below(64)).unwrap_err(), AttachError::TooDeep);
    assert!(apply(&mut root, "qdisc replace dev x parent 40:1 pfifo").is_err());
    assert!(apply(&mut root, "qdisc replace dev x parent 3f:1 pfifo").is_ok());
}

#[test]
fn handles_end() {
    assert_eq!(first_free(vec![0x8002, 1]), Some(Handle::new(0x8001, 0)));
    assert_eq!(first_free(vec![0x8003, 0x8001]), Some(Handle::new(0x8002, 0)));
    assert_eq!(first_free((0x8001..0xfffe).collect()), Some(Handle::new(0xfffe, 0)));
    assert_eq!(first_free((0x8001..=0xfffe).collect()), None);
}
