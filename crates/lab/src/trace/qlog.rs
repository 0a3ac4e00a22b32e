//! qlog as qvis reads it: `draft-02`, a trace for each end of a TCP connection. Packets have
//! numbers as QUIC's have: each that is sent gets the next one, retransmissions too, and ACKs are
//! translated to ranges of these.

use std::collections::BTreeMap;
use std::io::{self, Write};

use datapath::packet::{Packet, TcpFlags};
use datapath::tcp::cc::INFINITE_SSTHRESH;
use datapath::trace::{CaState, EventKind, Probe};
use datapath::units::Instant;
use serde_json::{Value as Json, json};

use super::TraceItem;
use super::conns::Conn;
use super::explain::{state, why};

/// The events of one end of a connection.
#[derive(Debug, Default)]
pub struct Trace {
    events: Vec<u8>,
    count: u64,
    /// The number of the packet sent last.
    sent: u64,
    received: u64,
    /// What is in flight: first byte, just past the last one, and the number it was sent with last.
    flight: BTreeMap<i64, (i64, u64)>,
    /// Of segments that the peer has sent: by what number their packet came.
    arrived: BTreeMap<i64, u64>,
    stands: Option<Probe>,
    shift: u8,
}

/// TCP is what qvis calls 1-RTT.
const PACKET_TYPE: &str = "1RTT";

impl Trace {
    /// Something happened to the connection.
    pub fn on_item(&mut self, at: Instant, conn: &Conn, seen: TraceItem<'_>) {
        match seen {
            TraceItem::Sent(packet) => self.packet_sent(at, conn, packet),
            TraceItem::Received(packet) => self.packet_received(at, conn, packet),
            TraceItem::Event(event) => self.event(at, conn, &event.kind),
        }
    }

    /// Whether there is anything in it.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    fn push(&mut self, at: Instant, name: &str, data: &Json) {
        let comma = if self.count == 0 { "" } else { ",\n" };
        let event = json!({ "time": at.as_nanos() as f64 / 1e6, "name": name, "data": data });
        // A vector takes anything.
        let _ = write!(self.events, "{comma}{event}");
        self.count += 1;
    }

    fn packet_sent(&mut self, at: Instant, conn: &Conn, packet: &Packet) {
        let Some(segment) = conn.segment(packet, true) else { return };
        self.sent += 1;
        let mut frames = Vec::new();
        if segment.len > 0 {
            self.flight.insert(segment.seq, (segment.end(), self.sent));
            frames.push(stream(segment.seq, segment.len));
        }
        if let Some(ack) = segment.ack {
            frames.push(json!({ "frame_type": "ack", "acked_ranges": self.acked_numbers(ack) }));
        }
        self.push(at, "transport:packet_sent", &packet_data(self.sent, packet, &frames));
    }

    fn packet_received(&mut self, at: Instant, conn: &Conn, packet: &Packet) {
        let (Some(segment), Some(tcp)) = (conn.segment(packet, false), packet.tcp()) else {
            return;
        };
        self.received += 1;
        let mut frames = Vec::new();
        if segment.len > 0 {
            self.arrived.insert(segment.end(), self.received);
            frames.push(stream(segment.seq, segment.len));
        }
        if segment.flags.contains(TcpFlags::SYN) {
            self.shift = tcp.options.window_scale().unwrap_or(0);
        }
        if let Some(ack) = segment.ack {
            let blocks = tcp.options.sack.as_slice().iter();
            let blocks: Vec<(i64, i64)> =
                blocks.map(|it| (conn.sent(it.start), conn.sent(it.end))).collect();
            frames.push(json!({ "frame_type": "ack", "acked_ranges": self.acked(ack, &blocks) }));
            let shift = if segment.flags.contains(TcpFlags::SYN) { 0 } else { self.shift };
            let maximum = ack + (i64::from(tcp.window) << shift);
            frames.push(json!({ "frame_type": "max_data", "maximum": maximum }));
        }
        self.push(at, "transport:packet_received", &packet_data(self.received, packet, &frames));
    }

    /// The numbers of packets that an ACK newly acknowledges, as ranges; they are in flight no more.
    fn acked(&mut self, ack: i64, blocks: &[(i64, i64)]) -> Vec<[u64; 2]> {
        let mut numbers = Vec::new();
        while let Some(first) = self.flight.first_entry()
            && first.get().0 <= ack
        {
            numbers.push(first.remove().1);
        }
        for &(start, end) in blocks {
            let covered = |flight: &BTreeMap<i64, (i64, u64)>| {
                let (seq, _) = flight.range(start..end).find(|(_, (last, _))| *last <= end)?;
                Some(*seq)
            };
            while let Some(seq) = covered(&self.flight) {
                numbers.extend(self.flight.remove(&seq).map(|(_, number)| number));
            }
        }
        ranges(numbers)
    }

    /// The numbers of the packets that have come and that an ACK of ours covers.
    fn acked_numbers(&mut self, ack: i64) -> Vec<[u64; 2]> {
        let mut numbers = Vec::new();
        while let Some(first) = self.arrived.first_entry()
            && *first.key() <= ack
        {
            numbers.push(first.remove());
        }
        ranges(numbers)
    }

    fn event(&mut self, at: Instant, conn: &Conn, kind: &EventKind) {
        match *kind {
            EventKind::Probe(probe) => self.metrics(at, probe),
            EventKind::CaState { from, to, .. } => {
                let data = json!({ "old": self.phase(from), "new": self.phase(to) });
                self.push(at, "recovery:congestion_state_updated", &data);
            }
            EventKind::MarkLost { seq, end_seq, cause } => {
                let (seq, end) = (conn.sent(seq), conn.sent(end_seq));
                let lost: Vec<u64> =
                    self.flight.range(seq..end).map(|(_, (_, number))| *number).collect();
                for number in lost {
                    let header = json!({ "packet_type": PACKET_TYPE, "packet_number": number });
                    let data = json!({ "header": header, "trigger": why(cause) });
                    self.push(at, "recovery:packet_lost", &data);
                }
            }
            EventKind::Timeout { rto_ms, .. } => {
                let data = json!({ "timer_type": "pto", "event_type": "expired", "delta": rto_ms });
                self.push(at, "recovery:loss_timer_updated", &data);
            }
            EventKind::Retransmit { .. }
            | EventKind::Reduce { .. }
            | EventKind::Undo { .. }
            | EventKind::LossProbe { .. } => {}
        }
    }

    fn phase(&self, to: CaState) -> &'static str {
        let slow = self.stands.is_none_or(|it| it.snd_cwnd < it.snd_ssthresh);
        match to {
            CaState::Open if slow => "slow_start",
            CaState::Open => "congestion_avoidance",
            other => state(other),
        }
    }

    /// What has changed since the last time.
    fn metrics(&mut self, at: Instant, probe: Probe) {
        let (new, old) = (numbers(&probe), self.stands.map(|it| numbers(&it)));
        let mut data = serde_json::Map::new();
        for (index, (name, value)) in new.iter().enumerate() {
            let known = old.as_ref().is_some_and(|old| old[index].1 == *value);
            if let (false, Some(value)) = (known, value) {
                data.insert((*name).to_owned(), value.clone());
            }
        }
        self.stands = Some(probe);
        if !data.is_empty() {
            self.push(at, "recovery:metrics_updated", &Json::Object(data));
        }
    }
}

/// The metrics of qlog: bytes, ms, bit/s.
fn numbers(probe: &Probe) -> [(&'static str, Option<Json>); 6] {
    let bytes = |segments: u32| u64::from(segments) * u64::from(probe.mss);
    let millis = |micros: u32| json!(f64::from(micros) / 1e3);
    let ssthresh = Some(probe.snd_ssthresh).filter(|value| *value < INFINITE_SSTHRESH);
    let min_rtt = Some(probe.min_rtt_us).filter(|value| *value < u32::MAX);
    let rate = Some(probe.pacing_rate).filter(|rate| *rate < u64::MAX && *rate > 0);
    [
        ("congestion_window", Some(json!(bytes(probe.snd_cwnd)))),
        ("bytes_in_flight", Some(json!(bytes(probe.in_flight)))),
        ("ssthresh", ssthresh.map(|segments| json!(bytes(segments)))),
        ("smoothed_rtt", (probe.srtt_us > 0).then(|| millis(probe.srtt_us))),
        ("min_rtt", min_rtt.map(millis)),
        ("pacing_rate", rate.map(|rate| json!(rate.saturating_mul(8)))),
    ]
}

fn stream(offset: i64, length: u32) -> Json {
    json!({ "frame_type": "stream", "stream_id": 0, "offset": offset, "length": length })
}

fn packet_data(number: u64, packet: &Packet, frames: &[Json]) -> Json {
    json!({
        "header": { "packet_type": PACKET_TYPE, "packet_number": number },
        "raw": { "length": packet.len(), "payload_length": packet.body.len },
        "frames": frames,
    })
}

/// Numbers as ranges whose ends are included.
fn ranges(mut numbers: Vec<u64>) -> Vec<[u64; 2]> {
    numbers.sort_unstable();
    let mut out: Vec<[u64; 2]> = Vec::new();
    for number in numbers {
        match out.last_mut() {
            Some([_, last]) if *last + 1 >= number => *last = number,
            _ => out.push([number, number]),
        }
    }
    out
}

/// Writes the traces of a flow's connections as one file.
///
/// # Errors
/// When it cannot be written.
pub fn write<W: Write>(out: &mut W, title: &str, traces: &[(&Conn, &Trace)]) -> io::Result<()> {
    let head = json!({ "qlog_version": "draft-02", "qlog_format": "JSON", "title": title });
    let head = head.to_string();
    write!(out, "{},\"traces\":[", head.trim_end_matches('}'))?;
    for (index, (conn, trace)) in traces.iter().enumerate() {
        let end = if conn.opened { "client" } else { "server" };
        let about = json!({
            "vantage_point": { "name": conn.local.to_string(), "type": end },
            "title": format!("{title}: {} > {}", conn.local, conn.remote),
            "configuration": { "time_units": "ms" },
            "common_fields": {
                "protocol_type": "TCP",
                "time_format": "relative",
                "reference_time": "0",
            },
        });
        let about = about.to_string();
        let comma = if index == 0 { "" } else { "," };
        let inner = about.strip_suffix('}').unwrap_or(&about);
        write!(out, "{comma}\n{inner},\"events\":[\n")?;
        out.write_all(&trace.events)?;
        write!(out, "\n]}}")?;
    }
    writeln!(out, "\n]}}")
}
