//! TCP transfers recorded from a real kernel, rebuilt in the simulator and compared packet by
//! packet at the sender.
//!
//! The recorded path is S - R - D - V: a bottleneck queue on R, a delay emulator D, and a box of
//! loss rules between S and R. Everything but the queues takes no time.

mod capture;
mod figures;
mod path;

use super::lines::Error;
use super::report::{Divergence, Scenario, Verdict};
use capture::{SentPacket, read_capture};
use datapath::profile::Profile;
use datapath::tcp::cc::Algorithm;
use datapath::units::Instant;
use figures::RecordedSamples;
use path::{RebuiltTransfer, simulate};
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;

/// The `case` object of a recording.
#[derive(Deserialize)]
struct Recording {
    name: String,
    cc: Vec<String>,
    start: Vec<f64>,
    bytes: Vec<u64>,
    dur: f64,
    police: String,
    rules: Vec<String>,
    #[serde(rename = "sysS")]
    sysctl_sender: Vec<String>,
    #[serde(rename = "sysV")]
    sysctl_receiver: Vec<String>,
    offl: String,
    srv: String,
    app: String,
    nodelay: u8,
    /// What the congestion control's draws give (`scripts/tcp_kernel`).
    #[serde(default)]
    draw: BTreeMap<String, u32>,
}

/// What kernel a transfer was recorded from, and how.
struct Recorder {
    profile: Profile,
    /// `jiffies` at the recording's time zero.
    jiffies_at_zero: u64,
    /// Its programs took no time at all; ours are notified of readiness a nanosecond later.
    prompt: bool,
    /// Its timers with slack fire at the end of it; else with any interrupt of the machine before that.
    uses_slack: bool,
    /// Its `tcp_rmem[2]`, where that is not the profile's.
    rmem_max: Option<u32>,
}

impl Recorder {
    /// Recordings that say nothing are of Linux 6.1, of the first recorder.
    fn of(record: &Value) -> Result<Self, String> {
        let kernel = record["kernel"].as_str().unwrap_or("6.1");
        let profile = match kernel.split('.').collect::<Vec<_>>()[..] {
            ["6", "1", ..] => Profile::linux_6_1(),
            ["6", "18", ..] => Profile::linux_6_18(),
            ["7", ..] => Profile::linux_7(),
            _ => return Err(format!("there is no profile for Linux {kernel}")),
        };
        let prompt = record["prompt"].as_bool().unwrap_or(false);
        Ok(Self {
            rmem_max: prompt.then_some(PROMPT_RMEM_MAX),
            profile: Profile { max_tcp_header: MAX_TCP_HEADER, ..profile },
            jiffies_at_zero: record["jiffies_t0"].as_u64().unwrap_or(JIFFIES_AT_T0),
            prompt,
            uses_slack: record["slack"] == "used",
        })
    }

    /// How far a packet's time may lie from the recorded one.
    fn tolerance_ns(&self) -> u64 {
        if self.prompt { PROMPT_TOLERANCE_NS } else { TOLERANCE_NS }
    }
}

/// `jiffies` at time zero of the first recorder's transfers.
const JIFFIES_AT_T0: u64 = 4_294_669_296;
/// `MAX_TCP_HEADER` of the recorded kernels, which have no wireless link layers built in.
const MAX_TCP_HEADER: u32 = 256;
/// `tcp_rmem[2]` of the recorder whose programs take no time: 1/128 of a guest's 1,500 MB (`tcp_init`).
/// The scale of its windows is 8 by it.
const PROMPT_RMEM_MAX: u32 = 11_966_464;
/// How far a packet's time may lie from the recorded one, where programs took time.
const TOLERANCE_NS: u64 = 1_000_000;
/// The same, where they took none.
const PROMPT_TOLERANCE_NS: u64 = 1_000;

/// True for a recording of a TCP transfer.
pub fn recognises(first: &Value) -> bool {
    first.get("case").is_some() && first.get("flows").is_some()
}

/// Rebuilds and compares the one transfer of a file.
pub fn replay(path: &Path, lines: &[Value], pcap: Option<&Path>) -> Result<Vec<Scenario>, Error> {
    let format = |problem: String| Error::Format { line: 1, problem };
    let record = lines.first().ok_or(Error::UnknownKind)?;
    let case: Recording =
        Recording::deserialize(&record["case"]).map_err(|error| format(error.to_string()))?;
    let commands: Vec<String> =
        Vec::deserialize(&record["tc"]).map_err(|error| format(error.to_string()))?;
    if let Some(unknown) = case.cc.iter().find(|name| Algorithm::by_name(name).is_none()) {
        let reason = format!("congestion control {unknown} is not available");
        let verdict = Verdict::Skipped(reason);
        return Ok(vec![Scenario { name: case.name, verdict, compared: 0, figures: None }]);
    }
    let expected = read_capture(&capture_path(path))?;
    let recorded = RecordedSamples::read(record).map_err(format)?;
    let last = Instant::from_nanos(expected.last().map_or(0, |packet| packet.time_ns));
    let recorder = Recorder::of(record).map_err(format)?;
    let RebuiltTransfer { seen, counters, samples } =
        simulate(&case, &recorder, &commands, &recorded.moments, last, pcap).map_err(format)?;
    let (verdict, compared) = compare(&expected, &seen, recorder.tolerance_ns());
    let figures = Some(figures::compare(&recorded, &expected, &seen, counters, &samples));
    Ok(vec![Scenario { name: case.name, verdict, compared, figures }])
}

/// `x.json.gz` and `x.s.pcap.gz` lie side by side.
fn capture_path(path: &Path) -> std::path::PathBuf {
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let stem = name.split(".json").next().unwrap_or_default();
    path.with_file_name(format!("{stem}.s.pcap.gz"))
}

fn compare(expected: &[SentPacket], got: &[SentPacket], tolerance_ns: u64) -> (Verdict, u64) {
    let mut compared = 0;
    for (index, want) in expected.iter().enumerate() {
        let Some(have) = got.get(index) else {
            return (differs(index, want, "packets", want, "nothing more"), compared);
        };
        if let Some(field) = first_difference(want, have, tolerance_ns) {
            return (differs(index, want, field, want, &have.to_string()), compared);
        }
        compared += 9;
    }
    if let Some(extra) = got.get(expected.len()) {
        let index = expected.len();
        let divergence = Divergence {
            time: Some(extra.time_ns),
            index: Some(index as u64),
            field: "packets".to_owned(),
            expected: "nothing more".to_owned(),
            got: extra.to_string(),
        };
        return (Verdict::Failed(divergence), compared);
    }
    (Verdict::Passed, compared)
}

fn first_difference(
    want: &SentPacket,
    have: &SentPacket,
    tolerance_ns: u64,
) -> Option<&'static str> {
    let SentPacket { time_ns, outgoing, port, flags, seq, ack, len, ecn, sack } = want;
    [
        ("direction", *outgoing == have.outgoing),
        ("flow", *port == have.port),
        ("flags", *flags == have.flags),
        ("seq", *seq == have.seq),
        ("len", *len == have.len),
        ("ack", *ack == have.ack),
        ("sack", *sack == have.sack),
        ("ecn", *ecn == have.ecn),
        ("time", time_ns.abs_diff(have.time_ns) <= tolerance_ns),
    ]
    .into_iter()
    .find(|(_, equal)| !equal)
    .map(|(field, _)| field)
}

fn differs(index: usize, at: &SentPacket, field: &str, want: &SentPacket, got: &str) -> Verdict {
    Verdict::Failed(Divergence {
        time: Some(at.time_ns),
        index: Some(index as u64),
        field: field.to_owned(),
        expected: want.to_string(),
        got: got.to_owned(),
    })
}
