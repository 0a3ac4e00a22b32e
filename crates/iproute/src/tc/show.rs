//! `tc [-s] [-j] qdisc show`: a tree of qdiscs as text and as JSON, as iproute2 6.1 prints them.

use super::qdisc_text::{Push, QdiscText, map};
use super::{cake, codel, dualpi2, fifo, fq, htb, netem, pie, prio, red, tbf};
use datapath::qdisc::cake::Cake;
use datapath::qdisc::{AnyQdisc, Backlog, Guest, Handle, Qdisc, Sched, Stats};
use datapath::units::Instant;
use serde_json::{Map, Value, json};

/// How much is shown besides kinds and options: the flags of `tc`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShowFlags {
    /// `-s`: what was counted.
    pub statistics: bool,
    /// `-d`: what tc leaves out otherwise, which tbf has.
    pub details: bool,
}

impl ShowFlags {
    /// As with `-s`.
    pub const STATISTICS: Self = Self { statistics: true, details: false };
}

/// The qdiscs of a device as `tc -s qdisc show` prints them at `now`; with `device` named, as
/// without `dev` on its command line. Qdiscs that were never attached by a command are not shown
/// unless they are the root.
pub fn show_text(root: &Sched, device: Option<&str>, now: Instant) -> String {
    show_text_with(root, device, now, ShowFlags::STATISTICS)
}

/// [`show_text`] with other flags than `-s`.
pub fn show_text_with(
    root: &Sched,
    device: Option<&str>,
    now: Instant,
    extent: ShowFlags,
) -> String {
    let mut text = String::new();
    for (parent, sched) in visible(root) {
        let shown = shown(sched, now, extent.details);
        text.push_fmt(format_args!(
            "qdisc {} {} ",
            sched.qdisc().kind(),
            shown_handle(sched.handle)
        ));
        if let Some(device) = device {
            text.push_fmt(format_args!("dev {device} "));
        }
        match parent {
            Handle::ROOT => text.push_str("root refcnt 2 "),
            class => text.push_fmt(format_args!("parent {class} ")),
        }
        text.push_fmt(format_args!("{}\n", shown.options));
        if extent.statistics {
            push_counters(&mut text, sched);
            text.push_str(&shown.stats);
        }
    }
    text
}

/// The qdiscs of a device as `tc -s -j qdisc show` gives them: an array of objects.
pub fn show_json(root: &Sched, device: Option<&str>, now: Instant) -> Value {
    show_json_with(root, device, now, ShowFlags::STATISTICS)
}

/// [`show_json`] with other flags than `-s`.
pub fn show_json_with(
    root: &Sched,
    device: Option<&str>,
    now: Instant,
    extent: ShowFlags,
) -> Value {
    let shown = |place| Value::Object(object(place, device, now, extent));
    visible(root).into_iter().map(shown).collect()
}

/// The classes of a device as `tc -s class show` prints them: CAKE's active queues, and those of htb.
pub fn show_classes(root: &Sched, now: Instant) -> String {
    show_classes_with(root, now, ShowFlags::STATISTICS)
}

/// [`show_classes`] with other flags than `-s`: without it a line for each.
pub fn show_classes_with(root: &Sched, now: Instant, extent: ShowFlags) -> String {
    let mut text = String::new();
    for (_, sched) in visible(root) {
        match sched.qdisc() {
            AnyQdisc::Cake(cake) => {
                text.push_str(&cake::classes_text(sched.handle.major(), &cake.flow_stats(now)));
            }
            AnyQdisc::Htb(htb) => text.push_str(&htb::classes_text(htb, extent.details)),
            _ => {}
        }
    }
    let wanted = |line: &&str| extent.statistics || line.starts_with("class ");
    text.split_inclusive('\n').filter(wanted).collect()
}

fn visible(root: &Sched) -> Vec<(Handle, &Sched)> {
    let mut all = root.tree();
    all.retain(|(parent, sched)| *parent == Handle::ROOT || sched.handle != Handle::NONE);
    all
}

fn push_counters(text: &mut String, sched: &Sched) {
    push_stats(text, sched.stats(), sched.backlog());
}

/// What is counted of anything that sends.
pub(super) fn push_stats(text: &mut String, stats: Stats, backlog: Backlog) {
    text.push_fmt(format_args!(
        " Sent {} bytes {} pkt (dropped {}, overlimits {} requeues {}) \n",
        stats.bytes, stats.packets, stats.drops, stats.overlimits, stats.requeues
    ));
    text.push_fmt(format_args!(
        " backlog {} {}p requeues {}\n",
        crate::units::show_size(backlog.bytes),
        backlog.packets,
        stats.requeues
    ));
}

fn object(
    (parent, sched): (Handle, &Sched),
    device: Option<&str>,
    now: Instant,
    extent: ShowFlags,
) -> Map<String, Value> {
    let shown = shown(sched, now, extent.details);
    let (stats, backlog) = (sched.stats(), sched.backlog());
    let mut object = Map::new();
    let mut put = |key: &str, value: Value| object.insert(key.to_owned(), value);
    put("kind", json!(sched.qdisc().kind()));
    put("handle", json!(shown_handle(sched.handle)));
    if let Some(device) = device {
        put("dev", json!(device));
    }
    if parent == Handle::ROOT {
        put("root", json!(true));
        put("refcnt", json!(2));
    } else {
        put("parent", json!(parent.to_string()));
    }
    put("options", Value::Object(shown.options_json));
    if !extent.statistics {
        return object;
    }
    put("bytes", json!(stats.bytes));
    put("packets", json!(stats.packets));
    put("drops", json!(stats.drops));
    put("overlimits", json!(stats.overlimits));
    put("requeues", json!(stats.requeues));
    put("backlog", json!(backlog.bytes));
    put("qlen", json!(backlog.packets));
    object.extend(shown.stats_json);
    object
}

fn shown_handle(handle: Handle) -> String {
    format!("{:x}:", handle.major())
}

fn shown(sched: &Sched, now: Instant, details: bool) -> QdiscText {
    match sched.qdisc() {
        AnyQdisc::Fifo(qdisc) => fifo::shown(qdisc),
        AnyQdisc::PfifoFast(_) => prio::shown_pfifo_fast(),
        AnyQdisc::Tbf(qdisc) => tbf::shown(qdisc, details),
        AnyQdisc::Netem(qdisc) => netem::shown(qdisc.config()),
        AnyQdisc::Red(qdisc) => red::shown(qdisc),
        AnyQdisc::Codel(qdisc) => codel::shown(qdisc, now),
        AnyQdisc::Fq(qdisc) => fq::shown(qdisc),
        AnyQdisc::FqCodel(qdisc) => codel::shown_fq(qdisc),
        AnyQdisc::DualPi2(qdisc) => dualpi2::shown(qdisc, now),
        AnyQdisc::Pie(qdisc) => pie::shown(qdisc),
        AnyQdisc::Prio(qdisc) => prio::shown(qdisc.config()),
        AnyQdisc::Htb(qdisc) => htb::shown(qdisc, details),
        AnyQdisc::Cake(qdisc) => shown_cake(qdisc),
        AnyQdisc::Guest(qdisc) => shown_guest(qdisc),
    }
}

/// A guest's options, as they were written.
fn shown_guest(guest: &Guest) -> QdiscText {
    let text = guest.options();
    let mut shown = QdiscText { options: format!("{text} "), ..QdiscText::default() };
    if text.is_empty() {
        shown.options.clear();
    } else {
        shown.options_json.insert("words".to_owned(), json!(text));
    }
    shown
}

fn shown_cake(cake: &Cake) -> QdiscText {
    let stats = cake.cake_stats();
    QdiscText {
        options: format!("{} ", cake::options_text(cake)),
        options_json: match cake::options_json(cake) {
            Value::Object(options) => options,
            other => map([("options", other)]),
        },
        stats: cake::stats_text(&stats),
        stats_json: cake::stats_json(&stats),
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Device, parse_qdisc};
    use super::*;
    use datapath::qdisc::Cx;
    use datapath::qdisc::fifo::Fifo;
    use datapath::rng::Rng;

    fn tree(commands: &[&str]) -> Sched {
        let mut root: Sched = Fifo::pfifo_default().into();
        let cx = &mut Cx { now: Instant::ZERO, dropped: &mut Vec::new() };
        for (nth, command) in (0..).zip(commands) {
            let parsed = parse_qdisc(command).expect(command);
            parsed.apply(&mut root, Device::default(), Rng::stream(1, nth), cx).expect(command);
        }
        root
    }

    const TREES: [&[&str]; 9] = [
        &[
            "qdisc add dev r1 root handle 1: tbf rate 10mbit burst 3100 limit 400000",
            "qdisc add dev r1 parent 1:1 handle 10: red limit 400000 min 30000 max 30001 avpkt 1500 \
           burst 21 bandwidth 10mbit probability 1 ecn",
        ],
        &[
            "qdisc add dev r1 root handle 1: tbf rate 3mbit burst 1601 latency 50ms peakrate 4mbit \
           mtu 1540",
            "qdisc add dev r1 parent 1:1 handle 10: bfifo limit 30kb",
        ],
        &["qdisc add dev r1 root codel limit 400 target 10s interval 20s ce_threshold 3ms ecn"],
        &["qdisc add dev r1 root fq_codel"],
        &["qdisc add dev r1 root netem limit 400 delay 20ms 2ms 25% loss 1% 10% duplicate 0.3% \
           corrupt 0.1% reorder 25% 50% rate 10mbit 10 48 5"],
        &["qdisc add dev r1 root netem loss gemodel 1% 10% 70% 0.1% ecn"],
        &[
            "qdisc add dev r1 root handle 1: prio",
            "qdisc add dev r1 parent 1:2 handle 20: pfifo limit 7",
            "qdisc add dev r1 parent 1:3 handle 30: fq_codel limit 100 noecn",
        ],
        &["qdisc add dev r1 root pfifo_fast"],
        &["qdisc add dev r1 root handle 1: cake bandwidth 10mbit besteffort"],
    ];

    #[test]
    fn text_is_tcs() {
        let shown = TREES.map(|commands| show_text(&tree(commands), None, Instant::ZERO));
        insta::assert_snapshot!(shown.join("\n"));
    }

    #[test]
    fn json_is_tcs() {
        let lines = TREES[..8].iter().flat_map(|commands| {
            let shown = show_json(&tree(commands), Some("r1"), Instant::ZERO);
            shown.as_array().expect("an array").iter().map(Value::to_string).collect::<Vec<_>>()
        });
        insta::assert_snapshot!(lines.collect::<Vec<_>>().join("\n"));
    }

    /// As tc 6.1 showed them without a flag.
    #[test]
    fn what_was_counted_is_shown_when_asked_for() {
        let root = tree(&["qdisc add dev r1 root handle 1: pfifo limit 1000"]);
        let text = |extent| show_text_with(&root, None, Instant::ZERO, extent);
        assert_eq!(text(ShowFlags::default()), "qdisc pfifo 1: root refcnt 2 limit 1000p\n");
        assert_eq!(text(ShowFlags::STATISTICS), show_text(&root, None, Instant::ZERO));
        let json = show_json_with(&root, None, Instant::ZERO, ShowFlags::default());
        assert_eq!(
            json.to_string(),
            r#"[{"kind":"pfifo","handle":"1:","root":true,"refcnt":2,"options":{"limit":1000}}]"#
        );
    }

    /// Options as recorded from Linux 6.1 with tc 6.1, order included.
    #[test]
    fn recorded_options_agree() {
        for (command, recorded) in [
            (
                "tbf rate 10mbit burst 3100 limit 400000",
                r#"{"rate":1250000,"burst":3100,"lat":317520}"#,
            ),
            (
                "tbf rate 10mbit burst 3100 limit 60000",
                r#"{"rate":1250000,"burst":3100,"lat":45520}"#,
            ),
            (
                "red limit 400000 min 30000 max 30001 avpkt 1500 burst 21 probability 1 ecn",
                r#"{"limit":400000,"min":30000,"max":30001,"ecn":true,"harddrop":false,"adaptive":false,"nodrop":false}"#,
            ),
            (
                "codel limit 400 target 5ms interval 100ms ecn",
                r#"{"limit":400,"target":4999,"interval":99999,"ecn":true}"#,
            ),
            (
                "codel limit 400 target 10s interval 20s ce_threshold 3ms ecn",
                r#"{"limit":400,"target":10000000,"ce_threshold":2999,"interval":20000000,"ecn":true}"#,
            ),
            (
                "netem delay 20ms limit 100000",
                r#"{"limit":100000,"delay":{"delay":0.02,"jitter":0,"correlation":0},"ecn":false,"gap":0}"#,
            ),
            (
                "netem rate 50mbit limit 400",
                r#"{"limit":400,"rate":{"rate":6250000,"packetoverhead":0,"cellsize":0,"celloverhead":0},"ecn":false,"gap":0}"#,
            ),
        ] {
            let root = tree(&[&format!("qdisc add dev r1 root {command}")]);
            let shown = show_json(&root, None, Instant::ZERO);
            assert_eq!(shown[0]["options"].to_string(), recorded, "{command}");
        }
    }
}
