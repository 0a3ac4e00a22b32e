//! Recorded TCP transfers that are rebuilt packet by packet, and altered copies that must be found
//! out.

mod recordings;

use flate2::Compression;
use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;
use lab::vectors::{Report, run};
use serde_json::{Value, json};
use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

/// Transfers whose every packet is the kernel's: direction, flow, flags, seq, length, ack, SACK
/// blocks, ECN, and time within a millisecond. A name is added once it passes and never taken out.
const EXACT: &[&str] = &[
    "ackloss_reno",
    "ackrate_cubic",
    "app_cubic",
    "burst_cubic",
    "cake_cubic",
    "dctcp_cubicsrv",
    "dctcp_gso",
    "dctcp_red",
    "dctcp_red2",
    "dctcp_step",
    "drop1_cubic",
    "drop1_reno",
    "droptail_reno",
    "dup_reno",
    "ecn_cubic",
    "every_reno",
    "fast_cubic",
    "fz_p00",
    "fz_p01",
    "fz_p02",
    "fz_p03",
    "fz_p04",
    "fz_p05",
    "fz_p06",
    "fz_p07",
    "fz_p08",
    "fz_p09",
    "fz_p10",
    "fz_p11",
    "fz_p12",
    "fz_p13",
    "fz_p14",
    "fz_p15",
    "fz_p16",
    "fz_p17",
    "fz_p18",
    "fz_p19",
    "fz_p20",
    "fz_p21",
    "fz_p22",
    "fz_p23",
    "fz_p24",
    "fz_p25",
    "fz_p26",
    "fz_p27",
    "fz_p28",
    "fz_p29",
    "fz_p30",
    "fz_p31",
    "fz_p32",
    "fz_p33",
    "fz_p34",
    "fz_p35",
    "fz_p36",
    "fz_p37",
    "fz_p38",
    "fz_p39",
    "gso_cubic",
    "gso_reno_drop",
    "long_cubic",
    "lostrtx_reno",
    "noloss_cubic",
    "noloss_reno",
    "norack_cubic",
    "nosack_reno",
    "nots_cubic",
    "outage_cubic",
    "police_cubic",
    "reord_cubic",
    "rwnd_reno",
    "spike_cubic",
    "synloss_cubic",
    "tail2_cubic",
    "tbf_cubic",
    "tso_cubic",
    "two_cubic",
    "two_reno_cubic",
    "window_reno",
];

/// The transfer that is altered: short, with retransmissions and SACK blocks.
const ALTERED: &str = "fz_p31";

fn directory() -> Option<PathBuf> {
    recordings::directory().map(|vectors| vectors.join("v4"))
}

#[test]
fn recorded_transfers_are_rebuilt_exactly() {
    let Some(directory) = directory() else { return };
    let mut differing = String::new();
    for name in EXACT {
        let path = directory.join(format!("{name}.json.gz"));
        let report = run(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        assert_eq!(report.kind, "tcp");
        if report.passed() != 1 {
            differing.push_str(&report.to_string());
        }
    }
    assert!(differing.is_empty(), "{differing}");
}

/// Even where packets differ, the transfer comes to the same.
#[test]
fn every_recorded_transfer_comes_to_the_same_figures() {
    let Some(directory) = directory() else { return };
    let mut differing = Vec::new();
    for entry in fs::read_dir(directory).expect("a directory") {
        let path = entry.expect("an entry").path();
        if !path.to_string_lossy().ends_with(".json.gz") {
            continue;
        }
        let report = run(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        for scenario in &report.scenarios {
            if !scenario.figures.is_some_and(|figures| figures.alike()) {
                differing.push((scenario.name.clone(), scenario.figures));
            }
        }
    }
    assert!(differing.is_empty(), "{differing:?}");
}

/// The recordings in `tests/data/tcp`. Those named after a congestion control are of
/// Linux 7.3 (`scripts/tcp_kernel`).
const SHIPPED: &[&str] = &[
    "bbr_app_limited",
    "bbr_beside_cubic",
    "bbr_burst_loss",
    "bbr_held_acks",
    "bbr_idle",
    "bbr_outage",
    "bbr_policer",
    "bbr_probe_rtt",
    "bbr_spurious_timeout",
    "bbr_startup_drain",
    "bbr_stretch_acks",
    "bbr_tail_loss",
    "bic_app",
    "bic_idle",
    "bic_loss",
    "burst_without_rack",
    "cdg_loss",
    "cdg_probe",
    "cubic_loss",
    "cubic_pages",
    "dctcp_cake_memory",
    "highspeed_app",
    "highspeed_idle",
    "highspeed_loss",
    "htcp_app",
    "htcp_idle",
    "htcp_loss",
    "hybla_app",
    "hybla_beside",
    "hybla_idle",
    "hybla_loss",
    "hybla_shallow",
    "illinois_app",
    "illinois_idle",
    "illinois_loss",
    "lp_alone",
    "lp_app",
    "lp_beside",
    "lp_idle",
    "lp_loss",
    "lp_shallow",
    "lp_syn_answer",
    "lp_timestamps",
    "nv_alone",
    "nv_app",
    "nv_idle",
    "nv_loss",
    "overtaken_acks",
    "reno_box_pages",
    "reno_loss",
    "reno_too_much_to_split",
    "scalable_app",
    "scalable_idle",
    "scalable_loss",
    "time_wait_ecn",
    "timer_keeps_its_place",
    "vegas_alone",
    "vegas_app",
    "vegas_idle",
    "vegas_loss",
    "veno_app",
    "veno_idle",
    "veno_loss",
    "westwood_app",
    "westwood_idle",
    "westwood_loss",
    "westwood_plain_duplicates",
    "yeah_app",
    "yeah_idle",
    "yeah_loss",
];

/// Recordings of our own, each of one thing that a real kernel does and that was wrong here.
#[test]
fn shipped_recordings_are_rebuilt_exactly() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/tcp");
    for name in SHIPPED {
        let path = directory.join(format!("{name}.json.gz"));
        let report = run(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        assert_eq!((report.kind, report.passed()), ("tcp", 1), "{report}");
        let figures = report.scenarios[0].figures.expect("of a transfer");
        assert!(figures.alike(), "{figures}");
        assert!(figures.retransmissions.equal() && figures.cwnd_difference == 0, "{figures}");
    }
}

/// One alteration of a recorded packet: the packet it is made to, what it does, and the field that
/// must be reported.
type Alteration = (fn(&Recorded) -> bool, fn(&mut Recorded), &'static str);

const ALTERATIONS: [Alteration; 8] = [
    (Recorded::has_data, |it| it.add_u32(TCP + 4, 1), "seq"),
    (Recorded::has_sack, |it| it.add_u32(TCP + 8, 1), "ack"),
    (Recorded::has_data, |it| it.frame[TCP + 13] ^= 0x08, "flags"),
    (Recorded::has_sack, |it| it.add_u32(it.sack().expect("a SACK option") + 6, 1), "sack"),
    (Recorded::has_data, |it| it.frame[IPV4 + 1] |= 2, "ecn"),
    (Recorded::has_data, Recorded::lengthen, "len"),
    (Recorded::has_data, |it| it.nanos += 2_000_000, "time"),
    (Recorded::has_data, |it| it.nanos -= 2_000_000, "time"),
];

#[test]
fn a_single_altered_field_is_detected() {
    let Some(directory) = directory() else { return };
    let copy = Copy::of(&directory, "packet");
    let unaltered = copy.replay(&copy.case, &copy.capture);
    assert_eq!(unaltered.passed(), 1, "a plain copy passes\n{unaltered}");
    for (chosen, alter, field) in ALTERATIONS {
        let mut capture = copy.capture.clone();
        let index = capture.records.iter().rposition(chosen).expect("such a packet");
        alter(&mut capture.records[index]);
        let report = copy.replay(&copy.case, &capture);
        let found: Vec<_> =
            report.failures().map(|(_, at)| (at.field.as_str(), at.index)).collect();
        assert_eq!(found, [(field, Some(index as u64))], "{report}");
    }
}

/// A packet too few and a packet too many at the end.
#[test]
fn the_number_of_packets_counts() {
    let Some(directory) = directory() else { return };
    let copy = Copy::of(&directory, "number");
    let last = copy.capture.records.len() as u64 - 1;
    let mut fewer = copy.capture.clone();
    fewer.records.pop();
    let mut more = copy.capture.clone();
    more.records.push(more.records[0].clone());
    for (capture, index) in [(fewer, last), (more, last + 1)] {
        let report = copy.replay(&copy.case, &capture);
        let found: Vec<_> =
            report.failures().map(|(_, at)| (at.field.as_str(), at.index)).collect();
        assert_eq!(found, [("packets", Some(index))], "{report}");
    }
}

/// Another path or another sender than the recorded one gives other packets.
#[test]
fn an_altered_case_is_found_out() {
    let Some(directory) = directory() else { return };
    let copy = Copy::of(&directory, "case");
    let start = copy.case["case"]["start"][0].as_f64().expect("a start");
    let bytes = copy.case["case"]["bytes"][0].as_u64().expect("a size");
    for (pointer, value, field) in [
        ("/case/start/0", json!(start + 0.002), "time"),
        ("/case/bytes/0", json!(bytes - 1), "len"),
        ("/case/sysS", json!(["net.ipv4.tcp_sack=0"]), "sack"),
    ] {
        let mut case = copy.case.clone();
        *case.pointer_mut(pointer).unwrap_or_else(|| panic!("no {pointer}")) = value;
        let report = copy.replay(&case, &copy.capture);
        let found: Vec<&str> = report.failures().map(|(_, at)| at.field.as_str()).collect();
        assert_eq!(found, [field], "{pointer}\n{report}");
    }
}

/// Copies of the altered transfer, in a directory of their own.
struct Copy {
    directory: PathBuf,
    case: Value,
    capture: Capture,
}

impl Copy {
    fn of(recordings: &Path, purpose: &str) -> Self {
        let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("tcp-{purpose}"));
        fs::create_dir_all(&directory).expect("a directory for the test");
        let path = recordings.join(format!("{ALTERED}.json.gz"));
        let case = lab::vectors::read_lines(&path).expect("a case").swap_remove(0);
        let capture = Capture::read(&recordings.join(format!("{ALTERED}.s.pcap.gz")));
        Self { directory, case, capture }
    }

    fn replay(&self, case: &Value, capture: &Capture) -> Report {
        let path = self.directory.join("altered.json");
        fs::write(&path, case.to_string()).expect("written");
        capture.write(&self.directory.join("altered.s.pcap.gz"));
        run(&path).expect("a vector file")
    }
}

/// Offsets in a frame without VLAN tag and IP options.
const IPV4: usize = 14;
const TCP: usize = IPV4 + 20;

/// A little-endian pcap of nanoseconds, byte for byte.
#[derive(Clone)]
struct Capture {
    header: Vec<u8>,
    records: Vec<Recorded>,
}

#[derive(Clone)]
struct Recorded {
    nanos: u64,
    wire_length: u32,
    frame: Vec<u8>,
}

impl Capture {
    fn read(path: &Path) -> Self {
        let mut bytes = Vec::new();
        let file = File::open(path).expect("a capture");
        MultiGzDecoder::new(file).read_to_end(&mut bytes).expect("gzip");
        let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four"));
        let mut records = Vec::new();
        let mut at = 24;
        while at < bytes.len() {
            let nanos = u64::from(word(at)) * 1_000_000_000 + u64::from(word(at + 4));
            let end = at + 16 + word(at + 8) as usize;
            let frame = bytes[at + 16..end].to_vec();
            records.push(Recorded { nanos, wire_length: word(at + 12), frame });
            at = end;
        }
        Self { header: bytes[..24].to_vec(), records }
    }

    fn write(&self, path: &Path) {
        let mut bytes = self.header.clone();
        for Recorded { nanos, wire_length, frame } in &self.records {
            let (seconds, rest) = (nanos / 1_000_000_000, nanos % 1_000_000_000);
            for word in [seconds as u32, rest as u32, frame.len() as u32, *wire_length] {
                bytes.extend(word.to_le_bytes());
            }
            bytes.extend(frame);
        }
        let mut gzip = GzEncoder::new(File::create(path).expect("a file"), Compression::fast());
        gzip.write_all(&bytes).expect("written");
        gzip.finish().expect("written");
    }
}

impl Recorded {
    fn has_data(&self) -> bool {
        self.wire_length as usize > TCP + self.tcp_header()
    }

    fn has_sack(&self) -> bool {
        self.sack().is_some()
    }

    fn tcp_header(&self) -> usize {
        usize::from(self.frame[TCP + 12] >> 4) * 4
    }

    /// Where the SACK option starts.
    fn sack(&self) -> Option<usize> {
        let mut at = TCP + 20;
        while at < TCP + self.tcp_header() {
            match self.frame[at] {
                0 => return None,
                1 => at += 1,
                5 => return Some(at),
                _ => at += usize::from(self.frame[at + 1]),
            }
        }
        None
    }

    fn add_u32(&mut self, at: usize, more: u32) {
        let field: &mut [u8; 4] = (&mut self.frame[at..at + 4]).try_into().expect("four bytes");
        *field = u32::from_be_bytes(*field).wrapping_add(more).to_be_bytes();
    }

    /// One byte more of payload.
    fn lengthen(&mut self) {
        self.wire_length += 1;
        let total: &mut [u8; 2] =
            (&mut self.frame[IPV4 + 2..IPV4 + 4]).try_into().expect("two bytes");
        *total = (u16::from_be_bytes(*total) + 1).to_be_bytes();
    }
}
