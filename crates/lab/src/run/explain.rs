//! The event stream of one flow as text: when and why the window was cut, what was sent again and
//! why.

use std::cell::RefCell;
use std::fmt::Write as _;
use std::rc::Rc;
use std::sync::atomic::Ordering;

use datapath::packet::seq::Seq;
use datapath::packet::{Packet, TcpFlags};
use datapath::trace::{CaState, Cause, Event, EventKind};
use datapath::units::Instant;
use sim::link::{LinkId, NodeId};
use sim::record::{Observer, Sees};

use super::{Error, Options, build};
use crate::plan::{Diagnostic, Diagnostics, Plan, suggest};

/// Every event of one node, with its time.
struct Log {
    node: NodeId,
    /// Where the flow's connections go.
    port: u16,
    /// The first byte of the flow.
    first: Option<Seq>,
    events: Vec<(Instant, Event)>,
}

impl Observer for Log {
    fn sees(&self) -> Sees {
        Sees { sent: true, events: true, ..Sees::NOTHING }
    }

    fn sent(&mut self, _now: Instant, _link: LinkId, packet: &Packet) {
        if self.first.is_none()
            && let Some(tcp) = packet.tcp()
            && tcp.dst_port == self.port
            && tcp.flags.contains(TcpFlags::SYN)
        {
            self.first = Some(tcp.seq + 1);
        }
    }

    fn event(&mut self, now: Instant, node: NodeId, event: &Event) {
        if node == self.node {
            self.events.push((now, *event));
        }
    }
}

/// Runs a plan and tells what happened to `flow`, one line per event.
///
/// # Errors
/// When there is no such TCP flow, the run was stopped, or the world could not be built.
pub fn explain(plan: &Plan, flow: &str, options: &Options<'_>) -> Result<String, Error> {
    let tcp = || plan.flows.iter().filter(|one| one.app.is_tcp());
    let Some(index) = plan.flows.iter().position(|one| one.name == flow && one.app.is_tcp()) else {
        let fault = Diagnostic {
            source: format!("--explain {flow}"),
            position: None,
            message: format!("no TCP flow is called \"{flow}\""),
            help: suggest(flow, tcp().map(|one| one.name.as_str())),
            line_text: None,
        };
        return Err(Error::Invalid(Diagnostics(vec![fault])));
    };
    let mut built = build::build(plan).map_err(Error::World)?;
    let (node, sender) = (built.flows[index].sender_node, built.flows[index].sender);
    let port = super::apps::server_port(u16::try_from(index).unwrap_or_default());
    let log = Rc::new(RefCell::new(Log { node, port, first: None, events: Vec::new() }));
    built.world.observe(Box::new(Rc::clone(&log)));
    built.world.with_host(node, |_, host| host.set_tracing(true));
    let end = Instant::ZERO + plan.duration;
    while built.world.now() < end && !built.all_finished() {
        if options.stop.load(Ordering::Relaxed) {
            return Err(Error::Stopped);
        }
        let next = (built.world.now() + plan.measure.sample).min(end);
        built.world.run_until(next);
    }
    let socket = built.world.report(sender).socket.map(datapath::host::SocketId::index);
    let log = log.borrow();
    let own = log.events.iter().filter(|(_, event)| Some(event.socket as usize) == socket);
    Ok(describe(own, log.first))
}

/// One line per event; sequence numbers count from `first`, or the first that was seen.
fn describe<'a>(
    events: impl Iterator<Item = &'a (Instant, Event)>,
    mut first: Option<Seq>,
) -> String {
    let mut out = String::new();
    for (at, event) in events {
        let nanos = at.as_nanos();
        let _ = write!(out, "{:>4}.{:06} s  ", nanos / 1_000_000_000, nanos / 1_000 % 1_000_000);
        let _ = writeln!(out, "{}", sentence(&event.kind, &mut first));
    }
    out
}

fn sentence(kind: &EventKind, first: &mut Option<Seq>) -> String {
    let mut relative = |seq: Seq| seq.0.wrapping_sub(first.get_or_insert(seq).0) as i32;
    match *kind {
        EventKind::Retransmit { seq, end_seq, cause } => {
            let (from, to) = (relative(seq), relative(end_seq));
            format!("retransmit  {from}..{to}: {}", why(cause))
        }
        EventKind::MarkLost { seq, end_seq, cause } => {
            let (from, to) = (relative(seq), relative(end_seq));
            format!("lost        {from}..{to}: {}", why(cause))
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
            format!("undo        cwnd {snd_cwnd}, ssthresh {ssthresh}: the loss was not one")
        }
        EventKind::Timeout { retransmits, rto_ms } => {
            format!("timeout     after {rto_ms} ms, number {retransmits} in a row")
        }
        EventKind::LossProbe { tlp_high_seq } => {
            format!("loss probe  up to {}", relative(tlp_high_seq))
        }
    }
}

fn why(cause: Cause) -> &'static str {
    match cause {
        Cause::Rack => "something sent later was delivered (RACK)",
        Cause::DupAcks => "enough segments above it were SACKed",
        Cause::LostRetransmit => "its retransmission was overtaken",
        Cause::Timeout => "the retransmission timer expired",
        Cause::TailLossProbe => "tail loss probe",
        Cause::ZeroWindowProbe => "zero-window probe",
        Cause::Handshake => "the handshake was not answered",
        Cause::PathMtu => "the path takes only smaller packets",
    }
}

fn state(state: CaState) -> &'static str {
    match state {
        CaState::Open => "Open",
        CaState::Disorder => "Disorder",
        CaState::Cwr => "CWR",
        CaState::Recovery => "Recovery",
        CaState::Loss => "Loss",
    }
}

fn threshold(ssthresh: u32) -> String {
    if ssthresh >= super::sample::INFINITE_SSTHRESH {
        "infinite".into()
    } else {
        ssthresh.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_become_sentences_with_relative_numbers() {
        let event = |kind| (Instant::from_nanos(1_234_567_890), Event { socket: 1, kind });
        let lost = |seq, cause| EventKind::MarkLost {
            seq: Seq(seq),
            end_seq: Seq(seq.wrapping_add(100)),
            cause,
        };
        let events = [
            event(lost(u32::MAX - 49, Cause::DupAcks)),
            event(lost(150, Cause::LostRetransmit)),
            event(EventKind::Reduce { prior_cwnd: 20, snd_ssthresh: 14 }),
        ];
        assert_eq!(
            describe(events.iter(), None),
            "   1.234567 s  lost        0..100: enough segments above it were SACKed\n   \
             1.234567 s  lost        200..300: its retransmission was overtaken\n   \
             1.234567 s  reduce      cwnd 20 to ssthresh 14\n"
        );
    }
}
