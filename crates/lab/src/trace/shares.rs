//! What kept a connection from being faster: the time that it spent under each limit, and what
//! happened to its window, in a paragraph.

use std::fmt::Write as _;

use datapath::tcp::info::TcpInfo;
use datapath::trace::{Cause, EventKind, Limit, Probe};
use datapath::units::Instant;

/// The sums of one connection.
#[derive(Clone, Debug, Default)]
pub struct Shares {
    /// When it was first seen, and where it has stood since when.
    begun: Option<Instant>,
    stands: Option<(Instant, Probe)>,
    /// When there was nothing left to send, nor anything in flight; none while there is.
    done: Option<Instant>,
    /// When the application had closed it: all that it would ever send was written and on its way.
    closed: Option<Instant>,
    /// ns under each limit, in the order of [`Limit::ALL`].
    under: [u64; Limit::ALL.len()],
    slow_start_ns: u64,
    sent: u64,
    resent_segments: u64,
    lost_segments: u64,
    reductions: u32,
    undone: u32,
    timeouts: u32,
    waited_ms: u64,
    probes: u32,
    rules: Vec<(Cause, u64)>,
    srtt_us: Option<(u32, u32)>,
    cwnd: Option<(u32, u32)>,
}

impl Shares {
    /// The connection sent payload bytes.
    pub fn sent(&mut self, bytes: u32) {
        self.sent += u64::from(bytes);
    }

    /// Payload bytes that it has sent, those of retransmissions too.
    pub fn bytes(&self) -> u64 {
        self.sent
    }

    /// Its TCP told something.
    pub fn event(&mut self, at: Instant, event: &EventKind) {
        let mss = self.stands.map_or(1, |(_, probe)| probe.mss.max(1));
        match *event {
            EventKind::Probe(probe) => self.on_probe(at, probe),
            EventKind::Retransmit { seq, end_seq, .. } => {
                self.resent_segments += u64::from(end_seq.bytes_since(seq).div_ceil(mss));
            }
            EventKind::MarkLost { seq, end_seq, cause } => {
                let segments = u64::from(end_seq.bytes_since(seq).div_ceil(mss));
                self.lost_segments += segments;
                match self.rules.iter_mut().find(|(known, _)| *known == cause) {
                    Some((_, count)) => *count += segments,
                    None => self.rules.push((cause, segments)),
                }
            }
            EventKind::Reduce { .. } => self.reductions += 1,
            EventKind::Undo { .. } => self.undone += 1,
            EventKind::Timeout { rto_ms, .. } => {
                self.timeouts += 1;
                self.waited_ms += u64::from(rto_ms);
            }
            EventKind::LossProbe { .. } => self.probes += 1,
            EventKind::CaState { .. } => {}
        }
    }

    fn on_probe(&mut self, at: Instant, probe: Probe) {
        self.begun.get_or_insert(at);
        self.count_until(at);
        self.stands = Some((at, probe));
        let widen = |range: &mut Option<(u32, u32)>, value: u32| {
            let (low, high) = range.unwrap_or((value, value));
            *range = Some((low.min(value), high.max(value)));
        };
        if probe.srtt_us > 0 {
            widen(&mut self.srtt_us, probe.srtt_us);
        }
        widen(&mut self.cwnd, probe.snd_cwnd);
        let closed = matches!(probe.limit, Limit::Closed);
        keep_first(&mut self.closed, closed.then_some(at));
        keep_first(&mut self.done, (closed && probe.in_flight == 0).then_some(at));
    }

    fn count_until(&mut self, at: Instant) {
        let Some((since, probe)) = &mut self.stands else { return };
        let span = at.saturating_since(*since).as_nanos();
        self.under[probe.limit as usize] += span;
        let sends = !matches!(probe.limit, Limit::Handshake | Limit::Closed);
        if sends && probe.snd_cwnd < probe.snd_ssthresh {
            self.slow_start_ns += span;
        }
        *since = at;
    }

    /// The limits with their shares of the time from the handshake's end to the close, the largest
    /// first; and that time in ns.
    pub fn limits(&self) -> (Vec<(Limit, f64)>, u64) {
        let counts = |limit: &Limit| !matches!(limit, Limit::Handshake | Limit::Closed);
        let of = |limit: Limit| self.under[limit as usize];
        let total: u64 = Limit::ALL.into_iter().filter(counts).map(of).sum();
        let share = |limit: Limit| (limit, of(limit) as f64 / total.max(1) as f64);
        let mut shares: Vec<(Limit, f64)> =
            Limit::ALL.into_iter().filter(counts).map(share).filter(|(_, it)| *it > 0.0).collect();
        shares.sort_by(|a, b| b.1.total_cmp(&a.1));
        (shares, total)
    }

    /// Why the connection was not faster, until `end`; `info` if it is still open then.
    pub fn paragraph(mut self, name: &str, end: Instant, info: Option<&TcpInfo>) -> String {
        self.count_until(end);
        let Some(begun) = self.begun else {
            return format!("{name} was not seen to send anything.\n");
        };
        let (shares, total) = self.limits();
        let until = self.done.unwrap_or(end);
        let span = until.saturating_since(begun).as_nanos().max(1);
        let mut out = format!(
            "{name} sent {} from {} s to {} s ({}).",
            bytes(self.sent),
            seconds(begun.as_nanos()),
            seconds(until.as_nanos()),
            rate(self.sent, span)
        );
        let told: Vec<String> = shares
            .iter()
            .filter(|(_, share)| *share >= 0.001)
            .map(|(limit, share)| format!("{} {:.1} %", limit.name(), share * 100.0))
            .collect();
        if !told.is_empty() {
            let slow_start = self.slow_start_ns as f64 / total.max(1) as f64 * 100.0;
            let span = match self.closed {
                Some(closed) => {
                    format!(" until it had sent all, at {} s", seconds(closed.as_nanos()))
                }
                None => String::new(),
            };
            let _ = write!(
                out,
                " What limited it, by time{span}: {}; in slow start {slow_start:.1} %.",
                told.join(", ")
            );
        }
        out.push_str(&self.losses());
        out.push_str(&self.path());
        if let Some((limit, share)) = shares.first()
            && *share >= 0.5
        {
            let _ = write!(out, " {}", self.advice(*limit));
        }
        if let Some(info) = info {
            let _ = write!(
                out,
                " TCP_INFO: busy {} s, rwnd_limited {} s, sndbuf_limited {} s.",
                seconds(info.busy_time * 1_000),
                seconds(info.rwnd_limited * 1_000),
                seconds(info.sndbuf_limited * 1_000)
            );
        }
        out.push('\n');
        wrapped(&out)
    }

    fn losses(&self) -> String {
        if self.lost_segments == 0 && self.reductions == 0 && self.timeouts == 0 {
            return " Nothing was lost, and its window was never cut.".into();
        }
        let mut out = format!(" The window was cut {}", times(self.reductions));
        if self.undone > 0 {
            let _ = write!(out, " and restored {}", times(self.undone));
        }
        let _ = write!(
            out,
            "; {} marked lost, {} retransmitted",
            segments(self.lost_segments),
            self.resent_segments
        );
        let mut rules: Vec<String> =
            self.rules.iter().map(|(cause, count)| format!("{} {count}", rule(*cause))).collect();
        rules.sort();
        if !rules.is_empty() {
            let _ = write!(out, " (found by {})", rules.join(", "));
        }
        out.push('.');
        if self.timeouts > 0 {
            let _ = write!(
                out,
                " Its retransmission timer expired {}, after {} s of waiting.",
                times(self.timeouts),
                seconds(self.waited_ms * 1_000_000)
            );
        }
        if self.probes > 0 {
            let _ = write!(out, " Tail loss probes: {}.", self.probes);
        }
        out
    }

    fn path(&self) -> String {
        let (Some((low, high)), Some((_, probe))) = (self.srtt_us, &self.stands) else {
            return String::new();
        };
        let least = if probe.min_rtt_us == u32::MAX { low } else { probe.min_rtt_us.min(low) };
        let window = self.cwnd.map_or(String::new(), |(low, high)| {
            format!(", its window between {low} and {high} segments of {} bytes", probe.mss)
        });
        format!(
            " Its smoothed round trip was {} to {} ms (least seen: {} ms){window}.",
            millis(low),
            millis(high),
            millis(least)
        )
    }

    /// What the largest share means.
    fn advice(&self, limit: Limit) -> &'static str {
        let queues = match (self.srtt_us, &self.stands) {
            (Some((_, high)), Some((_, probe))) => {
                probe.min_rtt_us != u32::MAX && high > probe.min_rtt_us.saturating_mul(2)
            }
            _ => false,
        };
        match limit {
            Limit::Cwnd if queues => {
                "It filled its window and a queue on the path with it: the path was the limit."
            }
            Limit::Cwnd => {
                "It filled its window without filling a queue: a larger window would be faster."
            }
            Limit::Application => "The application gave it no more to send.",
            Limit::SendBuffer => {
                "Its send buffer (tcp_wmem, SO_SNDBUF) was too small for the path."
            }
            Limit::ReceiveWindow => {
                "The receiver offered too small a window (tcp_rmem, SO_RCVBUF, or a slow reader)."
            }
            Limit::Pacing => "Its congestion control sends at a rate, and that was the limit.",
            Limit::SmallQueue => "The queue of its own host was the limit.",
            Limit::Recovery => "Most of its time went into repairing losses.",
            Limit::Batching => "It mostly waited to send more at once.",
            Limit::Handshake | Limit::Closed => "",
        }
    }
}

/// What is so since `now` stays so since it began; what is not so any more is forgotten.
fn keep_first(since: &mut Option<Instant>, now: Option<Instant>) {
    *since = now.map(|now| since.unwrap_or(now));
}

fn rule(cause: Cause) -> &'static str {
    match cause {
        Cause::Rack => "RACK",
        Cause::DupAcks => "duplicate ACKs",
        Cause::Forward => "nothing else to send",
        Cause::LostRetransmit => "an overtaken retransmission",
        Cause::Timeout => "timeout",
        Cause::TailLossProbe => "tail loss probe",
        Cause::ZeroWindowProbe => "zero-window probe",
        Cause::Handshake => "handshake",
        Cause::PathMtu => "path MTU",
    }
}

fn segments(count: u64) -> String {
    if count == 1 { "1 segment was".into() } else { format!("{count} segments were") }
}

fn times(count: u32) -> String {
    match count {
        0 => "never".into(),
        1 => "once".into(),
        2 => "twice".into(),
        _ => format!("{count} times"),
    }
}

/// Nanoseconds as seconds with three places.
fn seconds(nanos: u64) -> String {
    format!("{}.{:03}", nanos / 1_000_000_000, nanos / 1_000_000 % 1_000)
}

fn millis(micros: u32) -> String {
    format!("{}.{}", micros / 1_000, micros / 100 % 10)
}

fn bytes(count: u64) -> String {
    match count {
        0..10_000 => format!("{count} bytes"),
        10_000..10_000_000 => format!("{:.1} kB", count as f64 / 1e3),
        _ => format!("{:.1} MB", count as f64 / 1e6),
    }
}

fn rate(count: u64, nanos: u64) -> String {
    let bits = count as f64 * 8e9 / nanos as f64;
    if bits < 1e6 {
        format!("{:.1} kbit/s", bits / 1e3)
    } else {
        format!("{:.2} Mbit/s", bits / 1e6)
    }
}

/// Lines of at most 100 characters.
fn wrapped(text: &str) -> String {
    let mut out = String::new();
    let mut length = 0;
    for word in text.split_whitespace() {
        if length > 0 && length + 1 + word.chars().count() > 100 {
            out.push('\n');
            length = 0;
        }
        if length > 0 {
            out.push(' ');
            length += 1;
        }
        out.push_str(word);
        length += word.chars().count();
    }
    out.push('\n');
    out
}
