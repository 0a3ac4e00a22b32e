//! A connection's story, line by line: what happened and why, with the window at that moment, and
//! on request every packet in between.

use std::fmt::Write as _;

use datapath::packet::TcpFlags;
use datapath::packet::seq::Seq;
use datapath::tcp::cc::INFINITE_SSTHRESH;
use datapath::tcp::info::TcpInfo;
use datapath::trace::{CaState, Cause, EventKind, Probe};
use datapath::units::Instant;

use super::TraceItem;
use super::conns::Conn;
use super::shares::Shares;

/// What one end of a connection did, as text.
#[derive(Debug, Default)]
pub struct Story {
    lines: String,
    /// What was sent at this time, held back so that it is printed after the event that caused it.
    held: (Instant, Vec<String>),
    packets: bool,
    stands: Option<Probe>,
    /// Whether the latest packet that came echoed a mark.
    echoed: bool,
    /// SYNs that it has sent (of who answers one, none).
    requests: u32,
    /// Anything has come.
    heard: bool,
    shares: Shares,
}

/// The columns of a story.
pub const HEAD: &str = "        time    cwnd  ssthresh  flight  srtt/ms\n";

impl Story {
    /// An empty one, with packets or without.
    pub fn new(packets: bool) -> Self {
        Self { packets, ..Self::default() }
    }

    /// Whether the connection has sent payload.
    pub fn has_sent(&self) -> bool {
        self.shares.bytes() > 0
    }

    /// The text for a connection that was attempted but sent no payload; `None` if it was not
    /// attempted here.
    pub fn in_vain(&self, name: &str) -> Option<String> {
        let times = match self.requests {
            0 => return None,
            1 => "once".to_owned(),
            count => format!("{count} times"),
        };
        let then = if self.heard { "it has sent no data" } else { "it got no answer" };
        Some(format!("{name} tried to connect {times}; {then}.\n"))
    }

    /// Something happened to `conn`.
    pub fn on_event(&mut self, at: Instant, conn: &Conn, seen: TraceItem<'_>) {
        if at > self.held.0 || matches!(seen, TraceItem::Received(_)) {
            self.release();
        }
        match seen {
            TraceItem::Sent(packet) => {
                self.shares.sent(packet.body.len);
                let flags = packet.tcp().map_or(TcpFlags(0), |tcp| tcp.flags);
                let asks = flags.contains(TcpFlags::SYN) && !flags.contains(TcpFlags::ACK);
                self.requests += u32::from(asks);
                self.packet(at, conn, packet, true);
            }
            TraceItem::Received(packet) => {
                self.heard = true;
                self.echoed = packet.tcp().is_some_and(|tcp| tcp.flags.0 & ACE != 0);
                self.packet(at, conn, packet, false);
            }
            TraceItem::Event(event) => {
                self.shares.event(at, &event.kind);
                match event.kind {
                    EventKind::Probe(probe) => self.probe(at, probe),
                    kind => {
                        let mut text = sentence(&kind, &|seq| conn.sent(seq));
                        if let EventKind::CaState { to: CaState::Cwr, .. } = kind {
                            text.push_str(self.why_cwr());
                        }
                        self.line(at, &text);
                    }
                }
            }
        }
    }

    /// The lines.
    pub fn lines(&mut self) -> &str {
        self.release();
        &self.lines
    }

    fn release(&mut self) {
        let (at, texts) = std::mem::take(&mut self.held);
        for text in &texts {
            self.line(at, text);
        }
    }

    /// Why it was not faster.
    pub fn paragraph(&self, name: &str, end: Instant, info: Option<&TcpInfo>) -> String {
        self.shares.clone().paragraph(name, end, info)
    }

    /// CWR has two causes.
    fn why_cwr(&self) -> &'static str {
        if self.echoed { ": a mark was echoed (ECN)" } else { ": a queue of its own host was full" }
    }

    /// The end of slow start is no event of TCP's, but of interest.
    fn probe(&mut self, at: Instant, probe: Probe) {
        let slow = |probe: &Probe| probe.snd_cwnd < probe.snd_ssthresh;
        let ends = self.stands.is_some_and(|before| slow(&before) && !slow(&probe));
        self.stands = Some(probe);
        if ends && probe.ca_state == CaState::Open {
            self.line(at, "slow start  ends: cwnd has reached ssthresh");
        }
    }

    fn packet(&mut self, at: Instant, conn: &Conn, packet: &datapath::packet::Packet, sent: bool) {
        let (true, Some(segment), Some(tcp)) =
            (self.packets, conn.segment(packet, sent), packet.tcp())
        else {
            return;
        };
        let mut text = String::from(if sent { ">" } else { "<" });
        for (flag, name) in FLAGS {
            if segment.flags.contains(flag) {
                let _ = write!(text, " {name}");
            }
        }
        if segment.len > 0 {
            let _ = write!(text, " {}..{}", segment.seq, segment.end());
        }
        if let Some(ack) = segment.ack {
            let _ = write!(text, " ack {ack}");
        }
        let blocks = tcp.options.sack.as_slice().iter();
        let number = |seq: Seq| if sent { conn.received(seq) } else { conn.sent(seq) };
        let blocks: Vec<String> =
            blocks.map(|it| format!("{}..{}", number(it.start), number(it.end))).collect();
        if !blocks.is_empty() {
            let _ = write!(text, " sack {}", blocks.join(" "));
        }
        let _ = write!(text, " win {}", tcp.window);
        if packet.network.ecn() == datapath::packet::Ecn::Ce {
            text.push_str(" CE");
        }
        if sent {
            self.held.0 = at;
            self.held.1.push(text);
        } else {
            self.line(at, &text);
        }
    }

    fn line(&mut self, at: Instant, text: &str) {
        let nanos = at.as_nanos();
        let out = &mut self.lines;
        let _ = write!(out, "{:>4}.{:06} s", nanos / 1_000_000_000, nanos / 1_000 % 1_000_000);
        match &self.stands {
            None => {
                let _ = write!(out, " {:>6} {:>9} {:>7} {:>8}", "-", "-", "-", "-");
            }
            Some(it) => {
                let srtt = format!("{}.{:03}", it.srtt_us / 1_000, it.srtt_us % 1_000);
                let ssthresh = match it.snd_ssthresh {
                    INFINITE_SSTHRESH.. => "-".to_owned(),
                    value => value.to_string(),
                };
                let _ =
                    write!(out, " {:>6} {ssthresh:>9} {:>7} {srtt:>8}", it.snd_cwnd, it.in_flight);
            }
        }
        let _ = writeln!(out, "  {text}");
    }
}

/// ECE, CWR and AE: with Accurate ECN a counter of marks, else ECE alone echoes one.
const ACE: u16 = TcpFlags::ECE.0 * 7;

/// Flags that are printed; ACK is implied by the acknowledgement number.
const FLAGS: [(TcpFlags, &str); 5] = [
    (TcpFlags::SYN, "SYN"),
    (TcpFlags::FIN, "FIN"),
    (TcpFlags::RST, "RST"),
    (TcpFlags::CWR, "CWR"),
    (TcpFlags::ECE, "ECE"),
];

/// An event in words; `number` gives sequence numbers from the connection's first byte on.
pub fn sentence(kind: &EventKind, number: &dyn Fn(Seq) -> i64) -> String {
    match *kind {
        EventKind::Retransmit { seq, end_seq, cause } => {
            format!("retransmit  {}..{}: {}", number(seq), number(end_seq), why(cause))
        }
        EventKind::MarkLost { seq, end_seq, cause } => {
            format!("lost        {}..{}: {}", number(seq), number(end_seq), why(cause))
        }
        EventKind::CaState { from, to, snd_cwnd, snd_ssthresh } => {
            let ssthresh = threshold(snd_ssthresh);
            let (from, to) = (state(from), state(to));
            format!("state       {from} -> {to}, cwnd {snd_cwnd}, ssthresh {ssthresh}")
        }
        EventKind::Reduce { prior_cwnd, snd_ssthresh } => {
            format!("reduce      cwnd {prior_cwnd} to ssthresh {snd_ssthresh}")
        }
        EventKind::Undo { snd_cwnd, snd_ssthresh } => {
            let ssthresh = threshold(snd_ssthresh);
            format!("undo        cwnd {snd_cwnd}, ssthresh {ssthresh}: nothing had been lost")
        }
        EventKind::Timeout { retransmits, rto_ms } => {
            format!("timeout     after {rto_ms} ms, number {retransmits} in a row")
        }
        EventKind::LossProbe { tlp_high_seq } => {
            format!("loss probe  up to {}", number(tlp_high_seq))
        }
        EventKind::Probe(probe) => format!("stands      limited by {}", probe.limit.name()),
    }
}

/// A rule in words.
pub fn why(cause: Cause) -> &'static str {
    match cause {
        Cause::Rack => "something sent later was delivered (RACK)",
        Cause::DupAcks => "enough segments above it were SACKed",
        Cause::Forward => "it may be lost, and there is nothing else to send",
        Cause::LostRetransmit => "its retransmission was overtaken",
        Cause::Timeout => "the retransmission timer expired",
        Cause::TailLossProbe => "tail loss probe",
        Cause::ZeroWindowProbe => "zero-window probe",
        Cause::Handshake => "the handshake was not answered",
        Cause::PathMtu => "the path takes only smaller packets",
    }
}

/// A state in the kernel's words.
pub fn state(state: CaState) -> &'static str {
    match state {
        CaState::Open => "Open",
        CaState::Disorder => "Disorder",
        CaState::Cwr => "CWR",
        CaState::Recovery => "Recovery",
        CaState::Loss => "Loss",
    }
}

fn threshold(ssthresh: u32) -> String {
    if ssthresh >= INFINITE_SSTHRESH { "infinite".into() } else { ssthresh.to_string() }
}
