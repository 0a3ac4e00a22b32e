//! Captures through qdiscs: made by our simulator, and by hand with everything that can be wrong.

use std::fs;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use datapath::qdisc::cake::{AckFilter, AckRule};
use lab::plan::Experiment;
use lab::replay::acks::{self, End, FILTERS, ReplayedAck};
use lab::replay::{self, Error, Files, Options, PacketSelection, Report};
use lab::run::{self, NoProgress};
use lab::store::Store;
use pcap::{Interface, LinkType, Reader, Record, Writer};
use proptest::prelude::*;

const DOWNLOAD: &str = r#"
schema = 1
name = "download"
duration = "4s"
[nodes]
C = {}
R = { role = "router" }
S = {}
[links.lan]
ends = ["C", "R"]
[links.wan]
ends = ["R", "S"]
rtt = "50ms"
[qdisc]
"R.wan" = "root handle 1: cake bandwidth 200kbit ack-filter"
"R.lan" = "root handle 1: cake bandwidth 30mbit"
[flows.down]
app = "bulk"
from = "S"
to = "C"
[measure]
pcap = ["R.lan", "R.wan"]
"#;

fn scratch(name: &str) -> PathBuf {
    let directory = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("replay").join(name);
    let _ = fs::remove_dir_all(&directory);
    fs::create_dir_all(&directory).expect("a directory for the test");
    directory
}

fn options(qdisc: &str) -> Options {
    Options {
        qdiscs: vec![qdisc.into()],
        rate: None,
        select: PacketSelection::default(),
        seed: 1,
        partial: false,
    }
}

fn replayed(capture: &Path, options: &Options, out: Option<&Path>) -> Result<Report, Error> {
    let files = Files { out, trace: None };
    replay::replay(capture, options, files, &NoProgress, &AtomicBool::new(false))
}

fn records(path: &Path) -> Vec<Record> {
    let file = BufReader::new(fs::File::open(path).expect("the capture is there"));
    Reader::new(file).expect("a capture").collect::<Result<_, _>>().expect("whole")
}

/// A capture of frames with their time stamps in ms.
fn capture(directory: &Path, link_type: LinkType, frames: &[(u64, Vec<u8>)]) -> PathBuf {
    let path = directory.join("in.pcapng");
    let mut writer = Writer::new(fs::File::create(&path).unwrap()).unwrap();
    let interface = Interface { name: Some("eth0".into()), link_type, snap_len: 0 };
    let interface = writer.add_interface(&interface).unwrap();
    for (millis, frame) in frames {
        let len = frame.len() as u32;
        writer
            .write_frame(interface, 1_000_000_000 + millis * 1_000_000, frame, len, None)
            .unwrap();
    }
    writer.finish().unwrap();
    path
}

/// A TCP segment over Ethernet and IPv4, with options in multiples of four bytes.
fn tcp(ack: u32, flags: u8, options: &[u8], payload: usize) -> Vec<u8> {
    let header = 20 + options.len();
    let total = 20 + header + payload;
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0];
    frame.extend([0x45, 0, (total >> 8) as u8, total as u8, 0, 0, 0x40, 0, 64, 6, 0, 0]);
    frame.extend([10, 0, 0, 1, 10, 0, 0, 2]);
    frame.extend([0x9c, 0x40, 0x14, 0x51, 0, 0, 0, 1]);
    frame.extend(ack.to_be_bytes());
    frame.extend([(header / 4 * 16) as u8, flags, 1, 0, 0, 0, 0, 0]);
    frame.extend(options);
    frame.resize(frame.len() + payload, 0x5a);
    frame
}

const ACK: u8 = 0x10;

/// What came is what left, was dropped, or waits.
fn check_conservation(report: &Report) {
    let all = &report.tally.all;
    let out = all.sent.0 + all.drops + all.acks + u64::from(report.waiting.packets);
    assert_eq!(all.came.0, out, "{}", report.to_json());
    assert_eq!(all.came.0, report.counts.taken);
    let by_flow: u64 = report.tally.flows.iter().map(|(_, account)| account.came.0).sum();
    assert_eq!(by_flow, all.came.0);
    let by_time: u64 = report.tally.bins.bins.iter().map(|bin| bin.out_bytes).sum();
    assert_eq!(by_time, all.sent.1);
}

/// The capture of what came to a router goes through the same CAKE again: the same ACKs are
/// filtered, and what leaves leaves at the same nanosecond as in the simulated world.
#[test]
fn a_simulated_uplink_is_decided_again_in_the_same_way() {
    let directory = scratch("simulated");
    let experiment = Experiment::parse("download.toml", DOWNLOAD, &[]).expect("valid");
    let store = Store::create(&directory).expect("a directory");
    let stop = AtomicBool::new(false);
    let options_of_run = run::Options { store: Some(&store), ..run::Options::silent(&stop) };
    let points = run::run(&experiment, &options_of_run, &|_, _, _| Ok(())).expect("it runs");
    let simulated = points[0].values("R.wan", "ack_drops")[0] as u64;
    assert!(simulated > 100, "the filter had something to do: {simulated}");

    let out = directory.join("out.pcapng");
    let mut wanted = options("root handle 1: cake bandwidth 200kbit ack-filter");
    wanted.select.interface = Some("R.lan in".into());
    let capture = directory.join("pcap/seed-1-R.lan.pcapng");
    let report = replayed(&capture, &wanted, Some(&out)).expect("it replays");
    check_conservation(&report);
    let simulated_left: Vec<u64> = {
        let file = fs::File::open(directory.join("pcap/seed-1-R.wan.pcapng")).unwrap();
        let mut reader = Reader::new(BufReader::new(file)).unwrap();
        let mut times = Vec::new();
        while let Some(record) = reader.next_record().unwrap() {
            if reader.interfaces()[record.interface].name.as_deref() == Some("R.wan out") {
                times.push(record.nanos.unwrap());
            }
        }
        times
    };
    let left: Vec<u64> = records(&out)
        .into_iter()
        .filter(|record| record.comments.is_empty())
        .map(|record| record.nanos.unwrap())
        .collect();
    assert!(left.len() >= simulated_left.len(), "the rest drains after the end");
    assert_eq!(left[..simulated_left.len()], simulated_left[..]);
    assert!(report.tally.all.acks >= simulated);
    let tins = report.tc_json[0]["tins"].as_array().expect("tins");
    let shown: u64 = tins.iter().map(|tin| tin["ack_drops"].as_u64().unwrap()).sum();
    assert_eq!(shown, report.tally.all.acks);
    let commented = records(&out).iter().filter(|record| !record.comments.is_empty()).count();
    assert_eq!(commented as u64, report.tally.all.acks + report.tally.all.drops);
}

#[test]
fn a_queue_without_a_line_changes_neither_bytes_nor_times() {
    let directory = scratch("identity");
    let frames: Vec<(u64, Vec<u8>)> = (0..200)
        .map(|n| (n, tcp(n as u32, ACK, &[1, 1, 1, 0], n as usize * 7)))
        .chain([(200, vec![0xff; 60]), (201, tcp(1, ACK, &[2, 99, 0, 0], 3))])
        .collect();
    let path = capture(&directory, LinkType::ETHERNET, &frames);
    let out = directory.join("out.pcapng");
    for qdisc in ["pfifo", "fq_codel", "cake unlimited", "netem delay 10ms"] {
        let report = replayed(&path, &options(qdisc), Some(&out)).expect("it replays");
        check_conservation(&report);
        let shift = if qdisc.starts_with("netem") { 9_999_872 + 128 } else { 0 };
        let (before, after) = (records(&path), records(&out));
        assert_eq!(before.len(), after.len(), "{qdisc}");
        for (before, after) in before.iter().zip(&after) {
            assert_eq!(before.bytes, after.bytes, "{qdisc}");
            let late = after.nanos.unwrap() - before.nanos.unwrap();
            assert!(late.abs_diff(shift) < 1_000, "{qdisc}: {late}");
        }
    }
}

#[test]
fn a_slow_line_behind_a_fifo_delays_and_drops() {
    let directory = scratch("line");
    // 1,000-byte frames, all at once: 8 ms each at 1 Mbit/s.
    let frames: Vec<(u64, Vec<u8>)> = (0..10).map(|_| (0, tcp(1, ACK, &[], 946))).collect();
    let path = capture(&directory, LinkType::ETHERNET, &frames);
    let mut wanted = options("pfifo limit 4");
    wanted.rate = Some(datapath::units::Rate::from_mbit(1));
    let out = directory.join("out.pcapng");
    let report = replayed(&path, &wanted, Some(&out)).expect("it replays");
    check_conservation(&report);
    assert_eq!((report.tally.all.sent.0, report.tally.all.drops), (5, 5));
    let after = records(&out);
    let sent: Vec<u64> = after
        .iter()
        .filter(|record| record.comments.is_empty())
        .map(|record| (record.nanos.unwrap() - 1_000_000_000) / 1_000_000)
        .collect();
    assert_eq!(sent, [0, 8, 16, 24, 32]);
    let comments: Vec<&str> = after.iter().flat_map(|r| &r.comments).map(String::as_str).collect();
    assert_eq!(comments, ["dropped: QDISC_OVERLIMIT"; 5]);
    assert_eq!(report.tally.all.quantile_ms(1.0).map(f64::round), Some(32.0));
}

#[test]
fn marks_and_washed_classes_are_in_the_output() {
    let directory = scratch("edited");
    let frames: Vec<(u64, Vec<u8>)> = (0..400)
        .map(|n| {
            let mut frame = tcp(1, ACK, &[], 946);
            frame[15] = 0xb8 | 2;
            (n * 4, frame)
        })
        .collect();
    let path = capture(&directory, LinkType::ETHERNET, &frames);
    let out = directory.join("out.pcapng");
    let words = "cake bandwidth 1mbit besteffort wash";
    let report = replayed(&path, &options(words), Some(&out)).expect("it replays");
    check_conservation(&report);
    let after = records(&out);
    let marked = after.iter().filter(|record| record.bytes[15] == 3).count() as u64;
    assert!(marked > 0 && marked == report.tally.all.marks, "{marked}");
    assert!(after.iter().all(|record| record.bytes[15] & 0xfc == 0), "every class is washed");
}

#[test]
fn duplicates_of_netem_are_counted_and_written() {
    let directory = scratch("netem");
    let frames: Vec<(u64, Vec<u8>)> = (0..50).map(|n| (n, tcp(1, ACK, &[], 100))).collect();
    let path = capture(&directory, LinkType::ETHERNET, &frames);
    let out = directory.join("out.pcapng");
    let report = replayed(&path, &options("netem duplicate 100%"), Some(&out)).expect("it replays");
    assert_eq!((report.tally.all.came.0, report.tally.all.sent.0), (50, 100));
    assert!(records(&out).iter().all(|record| record.bytes == frames[0].1));
}

#[test]
fn errors_say_what_and_where_and_leave_nothing() {
    let directory = scratch("errors");
    let out = directory.join("out.pcapng");
    let good = capture(&directory, LinkType::ETHERNET, &vec![(0, tcp(1, ACK, &[], 0)); 3]);
    let bytes = fs::read(&good).unwrap();
    let said = |path: &Path, words: &str| {
        let error = replayed(path, &options(words), Some(&out)).map(|_| ()).expect_err("refused");
        assert_eq!(
            fs::read_dir(&directory)
                .unwrap()
                .flatten()
                .filter(|file| { file.file_name().to_string_lossy().contains("out.pcapng") })
                .count(),
            0,
            "nothing is left behind"
        );
        error.to_string()
    };
    let missing = said(&directory.join("missing"), "pfifo");
    assert!(missing.contains("missing: No such file"), "{missing}");
    assert!(said(&directory, "pfifo").contains("is a directory"));
    let cut = directory.join("cut.pcapng");
    fs::write(&cut, &bytes[..bytes.len() - 7]).unwrap();
    let broken_off = said(&cut, "pfifo");
    assert!(broken_off.contains("the file ends within") && broken_off.contains("--partial"));
    let mut partial = options("pfifo");
    partial.partial = true;
    let report = replayed(&cut, &partial, None).expect("what is whole is replayed");
    assert_eq!((report.counts.taken, report.counts.broken_off), (2, true));
    let text = directory.join("text");
    fs::write(&text, "not a capture at all").unwrap();
    assert!(said(&text, "pfifo").contains("neither pcap nor pcapng"));
    let words = said(&good, "cake bandwith 1mbit");
    assert!(words.contains(":1:6:") && words.contains("bandwidth"), "{words}");
    let wireless = capture(&directory, LinkType(127), &[(0, vec![0; 40])]);
    assert!(said(&wireless, "pfifo").contains("link type 127"));
}

#[test]
fn time_never_goes_back_and_unreadable_frames_are_counted() {
    let directory = scratch("order");
    let frames = [
        (5, tcp(1, ACK, &[], 0)),
        (3, tcp(2, ACK, &[], 0)),
        (6, vec![1, 2, 3]),
        (9, tcp(3, ACK, &[], 0)),
    ];
    let path = capture(&directory, LinkType::ETHERNET, &frames);
    let out = directory.join("out.pcapng");
    let report = replayed(&path, &options("pfifo"), Some(&out)).expect("it replays");
    assert_eq!(
        (report.counts.out_of_order, report.counts.unreadable, report.counts.taken),
        (1, 1, 3)
    );
    assert_eq!(report.remarks().len(), 2);
    let times: Vec<u64> = records(&out).iter().map(|record| record.nanos.unwrap()).collect();
    assert!(times.is_sorted());
}

/// Fields that a damaged file makes up: a frame of 4 GB, and one that comes after 300 years.
#[test]
fn what_cannot_be_in_a_capture_is_left_out_or_refused() {
    let directory = scratch("impossible");
    let path = directory.join("in.pcapng");
    let written = |frames: &[(u64, u32)]| {
        let mut writer = Writer::new(fs::File::create(&path).unwrap()).unwrap();
        let interface = Interface { name: None, link_type: LinkType::ETHERNET, snap_len: 0 };
        let interface = writer.add_interface(&interface).unwrap();
        for (nanos, original_len) in frames {
            let frame = tcp(1, ACK, &[], 0);
            writer.write_frame(interface, *nanos, &frame, *original_len, None).unwrap();
        }
        writer.finish().unwrap();
    };
    written(&[(0, 60), (1, u32::MAX - 1), (2, 1 << 20)]);
    let report = replayed(&path, &options("cake bandwidth 1mbit"), None).expect("it replays");
    assert_eq!((report.counts.unreadable, report.counts.taken), (1, 2));
    written(&[(0, 60), (u64::MAX, 60)]);
    let refused = replayed(&path, &options("fq"), None).expect_err("time has an end");
    assert!(matches!(refused, Error::Capture(what) if what.contains("packet 2 arrives more than")));
}

/// A large packet blocks a line of 64 kbit/s, then six ACKs come.
fn acks_behind_a_blocker(directory: &Path, acks: &[Vec<u8>]) -> PathBuf {
    let mut blocker = tcp(1, ACK, &[], 1400);
    blocker[23] = 17;
    let mut frames = vec![(0, blocker.clone()), (0, blocker)];
    frames.extend(acks.iter().enumerate().map(|(n, ack)| (1 + n as u64, ack.clone())));
    capture(directory, LinkType::ETHERNET, &frames)
}

fn explained(path: &Path, filter: AckFilter) -> Vec<(u64, End, Option<AckRule>)> {
    let mut fates: Vec<ReplayedAck> = Vec::new();
    let words = options("cake bandwidth 64kbit besteffort");
    let stop = AtomicBool::new(false);
    let report = acks::explain(
        path,
        &words,
        &[filter],
        &mut |fate| fates.push(fate.clone()),
        &NoProgress,
        &stop,
    )
    .expect("it is explained");
    assert_eq!(report.sums[0].1.acks, fates.len() as u64);
    fates.sort_by_key(|fate| fate.record);
    fates.into_iter().map(|f| (f.record, f.end, f.decided.map(|(rule, _)| rule))).collect()
}

#[test]
fn every_ack_is_reported_with_its_rule() {
    let directory = scratch("acks");
    let rising: Vec<Vec<u8>> = (0..4).map(|n| tcp(1000 + n, ACK, &[], 0)).collect();
    let path = acks_behind_a_blocker(&directory, &rising);
    let (filtered, sent) = (End::Filtered, End::Sent);
    assert_eq!(
        explained(&path, AckFilter::Conservative),
        [
            (3, filtered, Some(AckRule::FirstOfTwo)),
            (4, filtered, Some(AckRule::FirstOfTwo)),
            (5, sent, Some(AckRule::KeepsTwo)),
            (6, sent, None),
        ]
    );
    assert_eq!(
        explained(&path, AckFilter::Aggressive),
        [
            (3, filtered, Some(AckRule::LastBefore)),
            (4, filtered, Some(AckRule::LastBefore)),
            (5, filtered, Some(AckRule::LastBefore)),
            (6, sent, None),
        ]
    );
}

/// An old ACK with a SACK block that the newer one does not repeat: version 8 loses it.
#[test]
fn version_8_drops_what_mainline_keeps() {
    let directory = scratch("v8");
    let sack = |start: u32| {
        let mut option = vec![1, 1, 5, 10];
        option.extend(start.to_be_bytes());
        option.extend((start + 100).to_be_bytes());
        option
    };
    let acks =
        [tcp(1000, ACK, &sack(5000), 0), tcp(1000, ACK, &sack(9000), 0), tcp(1001, ACK, &[], 0)];
    let path = acks_behind_a_blocker(&directory, &acks);
    let rule = |filter| explained(&path, filter)[0];
    assert_eq!(rule(AckFilter::Aggressive), (3, End::Sent, Some(AckRule::Sack)));
    assert_eq!(rule(AckFilter::V8Aggressive), (3, End::Filtered, Some(AckRule::First)));
}

#[test]
fn only_cake_has_an_ack_filter() {
    let directory = scratch("only-cake");
    let path = acks_behind_a_blocker(&directory, &[]);
    let stop = AtomicBool::new(false);
    let error =
        acks::explain(&path, &options("fq_codel"), &FILTERS, &mut |_| {}, &NoProgress, &stop);
    assert!(error.expect_err("refused").to_string().contains("only cake"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Any bytes at any times, cut or not, through any qdisc: nothing panics, nothing is lost, and
    /// the filters agree on how many ACKs there were.
    #[test]
    fn garbage_is_conserved(
        frames in prop::collection::vec((0u64..50, prop::collection::vec(any::<u8>(), 0..120), any::<bool>(), 0u32..2000), 1..80),
        words in prop::sample::select(vec![
            "cake bandwidth 100kbit ack-filter", "cake bandwidth 1mbit diffserv8 ack-filter-aggressive memlimit 5000",
            "cake bandwidth 100kbit ack-filter-v8", "cake bandwidth 100kbit ack-filter-naive ingress",
            "fq_codel limit 5", "pfifo limit 3", "codel", "tbf rate 100kbit burst 3kb limit 9kb", "prio",
            "netem delay 5ms loss 10% duplicate 10%",
        ]),
        case in any::<u32>(),
    ) {
        let directory = scratch(&format!("garbage-{case}"));
        let path = directory.join("in.pcapng");
        let mut writer = Writer::new(fs::File::create(&path).unwrap()).unwrap();
        let interface = Interface { name: None, link_type: LinkType::ETHERNET, snap_len: 0 };
        let interface = writer.add_interface(&interface).unwrap();
        for (millis, mut bytes, ip, cut) in frames {
            if ip && bytes.len() > 54 {
                bytes.splice(12..15, [8, 0, 0x45]);
                bytes[23] = 6;
                bytes[46] = 0x50;
                bytes[47] = ACK;
            }
            let len = bytes.len() as u32 + cut;
            writer.write_frame(interface, millis * 1_000_000, &bytes, len, None).unwrap();
        }
        writer.finish().unwrap();
        let out = directory.join("out.pcapng");
        let report = replayed(&path, &options(words), Some(&out)).expect("it replays");
        if !words.starts_with("netem") {
            check_conservation(&report);
        }
        prop_assert_eq!(
            records(&out).len() as u64,
            report.tally.all.sent.0 + report.tally.all.drops + report.tally.all.acks
        );
        let stop = AtomicBool::new(false);
        let sums = acks::explain(
            &path, &options("cake bandwidth 50kbit"), &FILTERS, &mut |_| {}, &NoProgress, &stop,
        ).expect("it is explained").sums;
        prop_assert!(sums.iter().all(|(_, sum)| sum.acks == sums[0].1.acks));
        fs::remove_dir_all(&directory).unwrap();
    }
}
