//! A test as a table and as JSON, laid out as iperf3 3.12 does.

use crate::measure::{Interval, Sample, StreamEnds, Test};
use crate::units;
use crate::wire::StreamResult;
use serde_json::{Value, json};
use std::fmt::Write as _;

const RULE: &str = "- - - - - - - - - - - - - - - - - - - - - - - - -";

/// The lines before the first interval.
pub fn head(test: &Test) -> String {
    let mut text = String::new();
    for StreamEnds { socket, local, remote } in &test.streams {
        let _ = writeln!(
            text,
            "[{socket:3}] local {} port {} connected to {} port {}",
            local.ip(),
            local.port(),
            remote.ip(),
            remote.port()
        );
    }
    let columns = if test.sends { "         Retr  Cwnd" } else { "" };
    let _ = writeln!(text, "[ ID] Interval           Transfer     Bitrate{columns}");
    text
}

/// One interval, with the sum of all streams if there are several.
pub fn interval(test: &Test, interval: &Interval) -> String {
    let mut text = String::new();
    let mut line = |name: &str, bytes: u64, sample: Option<&Sample>, retransmits: u64| {
        let numbers = row(interval.start, interval.end, bytes);
        let omitted = if interval.omitted { "  (omitted)" } else { "" };
        let _ = match sample {
            _ if !test.sends => writeln!(text, "[{name}] {numbers}{omitted}"),
            Some(sample) => {
                let cwnd = units::bytes(sample.snd_cwnd as f64);
                writeln!(text, "[{name}] {numbers}  {retransmits:3}   {cwnd}{omitted}")
            }
            None => writeln!(text, "[{name}] {numbers}  {retransmits:3}{omitted}"),
        };
    };
    for (ends, sample) in test.streams.iter().zip(&interval.streams) {
        line(&format!("{:3}", ends.socket), sample.bytes, Some(sample), sample.retransmits);
    }
    if interval.streams.len() > 1 {
        let bytes = interval.streams.iter().map(|it| it.bytes).sum();
        let retransmits = interval.streams.iter().map(|it| it.retransmits).sum();
        line("SUM", bytes, None, retransmits);
        text.push_str(RULE);
        text.push('\n');
    }
    text
}

/// The totals.
pub fn totals(test: &Test) -> String {
    let columns = if has_retransmits(test) { "         Retr" } else { "" };
    let mut text = format!("{RULE}\n[ ID] Interval           Transfer     Bitrate{columns}\n");
    let mut sums = [0; 3];
    let mut line = |name: &str, sent: u64, received: u64, retransmits: Option<u64>| {
        let retransmits = retransmits.map_or(String::new(), |count| format!("  {count:3}"));
        let mut end = |who: &str, bytes: u64, retransmits: &str| {
            let numbers = row(0.0, test.seconds, bytes);
            let _ = writeln!(text, "[{name}] {numbers}{retransmits:<18}{who}");
        };
        end("sender", sent, &retransmits);
        end("receiver", received, "");
    };
    for (index, ends) in test.streams.iter().enumerate() {
        let (sent, received, retransmits) = totals_of(test, index);
        line(&format!("{:3}", ends.socket), sent, received, retransmits);
        for (sum, value) in sums.iter_mut().zip([sent, received, retransmits.unwrap_or(0)]) {
            *sum += value;
        }
    }
    if test.streams.len() > 1 {
        line("SUM", sums[0], sums[1], has_retransmits(test).then_some(sums[2]));
    }
    text
}

/// All of it, as `iperf3 --json` has it. `server`: whom a client has connected to.
pub fn json(test: &Test, server: Option<(&str, u16)>) -> Value {
    let connected = test.streams.iter().map(|StreamEnds { socket, local, remote }| {
        json!({
            "socket": socket,
            "local_host": local.ip().to_string(), "local_port": local.port(),
            "remote_host": remote.ip().to_string(), "remote_port": remote.port(),
        })
    });
    let params = &test.params;
    let mut start = json!({
        "connected": connected.collect::<Vec<_>>(),
        "version": concat!("ackwright ", env!("CARGO_PKG_VERSION")),
        "timestamp": { "timesecs": test.began.as_secs() },
        "cookie": test.cookie,
        "tcp_mss_default": test.mss,
        "test_start": {
            "protocol": "TCP", "num_streams": params.parallel, "blksize": params.len, "omit": params.omit,
            "duration": params.seconds, "bytes": params.bytes, "blocks": 0,
            "reverse": u8::from(params.reverse), "tos": 0,
        },
    });
    if let Some((host, port)) = server {
        start["connecting_to"] = json!({ "host": host, "port": port });
    }
    let intervals: Vec<Value> = test.intervals.iter().map(|it| interval_json(test, it)).collect();
    json!({ "start": start, "intervals": intervals, "end": end_json(test) })
}

fn interval_json(test: &Test, interval: &Interval) -> Value {
    let Interval { start, end, omitted, streams } = interval;
    let timed = |bytes: u64, retransmits: u64| {
        let mut value = span(*start, *end, bytes);
        if test.sends {
            value["retransmits"] = retransmits.into();
        }
        value["omitted"] = (*omitted).into();
        value["sender"] = test.sends.into();
        value
    };
    let each = test.streams.iter().zip(streams).map(|(ends, sample)| {
        let mut value = timed(sample.bytes, sample.retransmits);
        value["socket"] = ends.socket.into();
        if test.sends {
            value["snd_cwnd"] = sample.snd_cwnd.into();
            value["snd_wnd"] = sample.snd_wnd.into();
            value["rtt"] = sample.rtt.into();
            value["rttvar"] = sample.rttvar.into();
            value["pmtu"] = sample.pmtu.into();
        }
        value
    });
    let sum = |of: fn(&Sample) -> u64| streams.iter().map(of).sum::<u64>();
    json!({
        "streams": each.collect::<Vec<_>>(),
        "sum": timed(sum(|it| it.bytes), sum(|it| it.retransmits)),
    })
}

fn end_json(test: &Test) -> Value {
    let mut sums = [0; 3];
    let streams: Vec<Value> = test
        .streams
        .iter()
        .enumerate()
        .map(|(index, ends)| {
            let (sent, received, retransmits) = totals_of(test, index);
            for (sum, value) in sums.iter_mut().zip([sent, received, retransmits.unwrap_or(0)]) {
                *sum += value;
            }
            let mut sender = span(0.0, test.seconds, sent);
            let mut receiver = span(0.0, test.seconds, received);
            for value in [&mut sender, &mut receiver] {
                value["socket"] = ends.socket.into();
                value["sender"] = test.sends.into();
            }
            if let Some(count) = retransmits {
                sender["retransmits"] = count.into();
            }
            if test.sends {
                add_extremes(test, index, &mut sender);
            }
            json!({ "sender": sender, "receiver": receiver })
        })
        .collect();
    let mut sent = span(0.0, test.seconds, sums[0]);
    if has_retransmits(test) {
        sent["retransmits"] = sums[2].into();
    }
    sent["sender"] = test.sends.into();
    let mut received = span(0.0, test.seconds, sums[1]);
    received["sender"] = test.sends.into();
    let (ours, theirs) = (&test.ours, &test.theirs);
    let by_role = if test.sends { (ours, theirs) } else { (theirs, ours) };
    json!({
        "streams": streams, "sum_sent": sent, "sum_received": received,
        "cpu_utilization_percent": {
            "host_total": ours.cpu[0], "host_user": ours.cpu[1], "host_system": ours.cpu[2],
            "remote_total": theirs.cpu[0], "remote_user": theirs.cpu[1], "remote_system": theirs.cpu[2],
        },
        "sender_tcp_congestion": by_role.0.congestion, "receiver_tcp_congestion": by_role.1.congestion,
    })
}

/// Intervals that are not left out.
fn counted(test: &Test) -> impl Iterator<Item = &Interval> {
    test.intervals.iter().filter(|it| !it.omitted)
}

fn add_extremes(test: &Test, index: usize, sender: &mut Value) {
    let samples = || counted(test).filter_map(|it| it.streams.get(index));
    let rtts = || samples().map(|it| it.rtt).filter(|rtt| *rtt > 0);
    let count = rtts().count().max(1) as u64;
    sender["max_snd_cwnd"] = samples().map(|it| it.snd_cwnd).max().unwrap_or(0).into();
    sender["max_rtt"] = rtts().max().unwrap_or(0).into();
    sender["min_rtt"] = rtts().min().unwrap_or(0).into();
    sender["mean_rtt"] = (rtts().map(u64::from).sum::<u64>() / count).into();
}

/// Of a stream: bytes sent, bytes received, and retransmissions where the sender has told them.
fn totals_of(test: &Test, index: usize) -> (u64, u64, Option<u64>) {
    let ours = test.ours.streams.get(index).copied().unwrap_or_default();
    let is_it = |it: &&StreamResult| it.id == ours.id;
    let theirs = test.theirs.streams.iter().find(is_it).copied().unwrap_or_default();
    let (sent, received) = if test.sends { (ours, theirs) } else { (theirs, ours) };
    (sent.bytes, received.bytes, sent.retransmits)
}

fn has_retransmits(test: &Test) -> bool {
    (0..test.streams.len()).any(|index| totals_of(test, index).2.is_some())
}

fn span(start: f64, end: f64, bytes: u64) -> Value {
    let seconds = end - start;
    let rate = if seconds > 0.0 { bytes as f64 * 8.0 / seconds } else { 0.0 };
    json!({ "start": start, "end": end, "seconds": seconds, "bytes": bytes, "bits_per_second": rate })
}

fn row(start: f64, end: f64, bytes: u64) -> String {
    let seconds = end - start;
    let rate = if seconds > 0.0 { bytes as f64 * 8.0 / seconds } else { 0.0 };
    let span = format!("{start:.2}-{end:.2}");
    format!("{span:>11}  sec  {}  {}", units::bytes(bytes as f64), units::rate(rate))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::Test;
    use crate::wire::{Params, Results};
    use core::time::Duration;

    /// Both ends of a stream, one column for their names, and nothing but blanks before it.
    #[test]
    fn totals_name_both_ends_below_each_other() {
        for (retransmits, sender) in [(Some(7), "    7             sender"), (None, "sender")] {
            let result = |retransmits| StreamResult { id: 1, bytes: 1_000_000, retransmits };
            let results =
                |retransmits| Results { streams: vec![result(retransmits)], ..Results::default() };
            let there = "10.0.0.2:5201".parse().expect("an address");
            let test = Test {
                params: Params {
                    seconds: 1,
                    omit: 0,
                    bytes: 0,
                    parallel: 1,
                    len: 128 << 10,
                    reverse: false,
                    congestion: None,
                    nodelay: false,
                    mss: 0,
                    rate: 0,
                },
                sends: true,
                is_client: true,
                cookie: String::new(),
                began: Duration::ZERO,
                mss: 1_448,
                streams: vec![StreamEnds { socket: 5, local: there, remote: there }],
                intervals: Vec::new(),
                ours: results(retransmits),
                theirs: results(None),
                seconds: 1.0,
            };
            let text = totals(&test);
            let lines: Vec<&str> = text.lines().skip(2).collect();
            assert!(lines[0].ends_with(sender), "{text}");
            assert!(lines[1].ends_with("                  receiver"), "{text}");
            assert_eq!(lines[0].find("sender"), lines[1].find("receiver"), "{text}");
        }
    }
}
