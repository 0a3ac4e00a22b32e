//! A transfer in a few figures, recorded beside rebuilt: for transfers whose packets differ they
//! tell how much it matters.

use super::super::report::{Figures, Pair};
use super::capture::SentPacket;
use datapath::tcp::mib::Mib;
use datapath::units::Instant;
use serde_json::Value;
use std::collections::BTreeMap;

/// What a sender counts that is compared (`nstat`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Counters {
    /// `TcpRetransSegs`.
    retransmissions: u64,
    /// `TcpExtTCPTimeouts`.
    timeouts: u64,
    /// `TcpExtTCPFastRetrans`.
    fast_retransmits: u64,
}

impl Counters {
    /// Those of a simulated host.
    pub fn of(mib: &Mib) -> Self {
        Self {
            retransmissions: mib.retrans_segs,
            timeouts: mib.timeouts,
            fast_retransmits: mib.fast_retrans,
        }
    }

    /// Those of a recording: `nstat` leaves out what is zero.
    fn recorded(nstat: &Value) -> Self {
        let count = |name: &str| nstat[name].as_u64().unwrap_or(0);
        Self {
            retransmissions: count("TcpRetransSegs"),
            timeouts: count("TcpExtTCPTimeouts"),
            fast_retransmits: count("TcpExtTCPFastRetrans"),
        }
    }
}

/// Two fields of TCP_INFO at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// `tcpi_snd_cwnd`, segments.
    pub cwnd: u32,
    /// `tcpi_rtt`, µs.
    pub srtt_us: u32,
}

/// The recorded samples of all flows.
pub struct RecordedSamples {
    counters: Counters,
    /// When and of which flow, in order of time.
    pub moments: Vec<(Instant, usize)>,
    samples: Vec<Sample>,
}

impl RecordedSamples {
    /// Reads `nstat` and `flows` of a recording.
    pub fn read(record: &Value) -> Result<Self, String> {
        let mut rows = BTreeMap::new();
        for (index, flow) in record["flows"].as_array().into_iter().flatten().enumerate() {
            for (at, sample) in samples(flow)? {
                rows.insert((at, index), sample);
            }
        }
        Ok(Self {
            counters: Counters::recorded(&record["nstat"]["S"]),
            moments: rows.keys().map(|(at, flow)| (Instant::from_nanos(*at), *flow)).collect(),
            samples: rows.into_values().collect(),
        })
    }
}

/// The samples of one flow, each with its time in ns. A column that never changes stands in
/// `const` instead.
fn samples(flow: &Value) -> Result<Vec<(u64, Sample)>, String> {
    let columns: Vec<&str> =
        flow["cols"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let place = |name: &str| columns.iter().position(|column| *column == name);
    let (at, cwnd, srtt) = (place("t"), place("snd_cwnd"), place("rtt"));
    let read = |row: &Value, column: Option<usize>, name: &str| {
        let value = column.map_or(&flow["const"][name], |column| &row[column]);
        value.as_u64().ok_or_else(|| format!("a sample of TCP_INFO without {name}"))
    };
    flow["rows"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|row| {
            let cwnd = read(row, cwnd, "snd_cwnd")? as u32;
            let srtt_us = read(row, srtt, "rtt")? as u32;
            Ok((read(row, at, "t")?, Sample { cwnd, srtt_us }))
        })
        .collect()
}

/// Sets both sides beside each other.
pub fn compare(
    recorded: &RecordedSamples,
    expected: &[SentPacket],
    got: &[SentPacket],
    counters: Counters,
    samples: &[Option<Sample>],
) -> Figures {
    let pair = |read: fn(&Counters) -> u64| Pair {
        recorded: read(&recorded.counters),
        ours: read(&counters),
    };
    let both = recorded.samples.iter().zip(samples);
    let both = both.filter_map(|(theirs, ours)| ours.map(|ours| (*theirs, ours)));
    let largest = |read: fn(&Sample) -> u32| {
        both.clone().map(|(a, b)| read(&a).abs_diff(read(&b))).max().unwrap_or(0)
    };
    Figures {
        goodput_bps: Pair { recorded: goodput_bps(expected), ours: goodput_bps(got) },
        retransmissions: pair(|counters| counters.retransmissions),
        timeouts: pair(|counters| counters.timeouts),
        fast_retransmits: pair(|counters| counters.fast_retransmits),
        cwnd_difference: largest(|sample| sample.cwnd),
        srtt_difference_us: largest(|sample| sample.srtt_us),
    }
}

/// Bytes acknowledged to all flows, over the time from the first packet to the ACK of the last of
/// them, bit/s.
fn goodput_bps(seen: &[SentPacket]) -> u64 {
    let mut acked: BTreeMap<u16, u32> = BTreeMap::new();
    let mut last_ns = 0;
    for packet in seen.iter().filter(|packet| !packet.outgoing) {
        let highest = acked.entry(packet.port).or_default();
        if packet.ack > *highest {
            *highest = packet.ack;
            last_ns = packet.time_ns;
        }
    }
    // The SYN is acknowledged too, but is no byte.
    let bytes: u64 = acked.values().map(|acked| u64::from(acked.saturating_sub(1))).sum();
    let span_ns = last_ns.saturating_sub(seen.first().map_or(0, |first| first.time_ns));
    let bits = u128::from(bytes) * 8 * 1_000_000_000;
    bits.checked_div(u128::from(span_ns)).unwrap_or(0) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn acked(time_ns: u64, ack: u32) -> SentPacket {
        let (outgoing, port, flags) = (false, 40_001, 0x10);
        SentPacket { time_ns, outgoing, port, flags, seq: 1, ack, len: 0, ecn: 0, sack: Vec::new() }
    }

    #[test]
    fn goodput_ends_with_the_last_new_ack() {
        let syn = SentPacket { outgoing: true, ..acked(1_000_000_000, 0) };
        let seen = [syn, acked(1_500_000_000, 501), acked(2_000_000_000, 1_001)];
        assert_eq!(goodput_bps(&seen), 8_000);
        let mut later = seen.to_vec();
        later.push(acked(9_000_000_000, 1_001));
        assert_eq!(goodput_bps(&later), 8_000, "a duplicate ACK brings nothing");
        assert_eq!(goodput_bps(&[]), 0);
    }

    #[test]
    fn recorded_samples_come_from_rows_or_constants() {
        let record = json!({
            "nstat": {"S": {"TcpRetransSegs": 3}},
            "flows": [
                {"cols": ["t", "snd_cwnd"], "const": {"rtt": 40_000}, "rows": [[5, 10], [15, 12]]},
                {"cols": ["rtt", "t"], "const": {"snd_cwnd": 7}, "rows": [[41_000, 10]]},
            ],
        });
        let recorded = RecordedSamples::read(&record).expect("readable");
        let moments: Vec<(u64, usize)> =
            recorded.moments.iter().map(|(at, flow)| (at.as_nanos(), *flow)).collect();
        assert_eq!(moments, [(5, 0), (10, 1), (15, 0)]);
        let ours = Counters { retransmissions: 2, timeouts: 1, fast_retransmits: 0 };
        let samples = [(14, 40_000), (7, 44_000), (12, 40_000)]
            .map(|(cwnd, srtt_us)| Some(Sample { cwnd, srtt_us }));
        let figures = compare(&recorded, &[], &[], ours, &samples);
        assert_eq!(figures.retransmissions, Pair { recorded: 3, ours: 2 });
        assert_eq!(figures.timeouts, Pair { recorded: 0, ours: 1 });
        assert_eq!((figures.cwnd_difference, figures.srtt_difference_us), (4, 3_000));
    }
}
