//! The end of every case: peers become honest and answer, applications read and close, and then nobody answers any
//! more. Everything that was written must arrive, and nothing may remain for ever.

use datapath::socket::{Syscall, number};
use datapath::tcp::Connection;
use datapath::tcp::state::State;
use datapath::units::Duration;

use super::Setup;
use super::bench::Bench;
use super::calls::Call;
use super::segment::{Acks, Segment, SeqBase, Timestamps};
use crate::case::BrokenLaw;
use crate::oracle::frame::flag;
use crate::oracle::seq::after;
use crate::oracle::tcp::ObservedFlow;

/// Something must make progress within this time, which is longer than the longest timeout (twice `TCP_RTO_MAX`).
const PATIENCE: Duration = Duration::from_secs(250);
/// How many turns honest peers get at most: a transfer that is slow because of its window need not finish.
const MAX_TURNS: u32 = 600;
/// Bytes that are written while nobody answers.
const WRITTEN_INTO_SILENCE: u32 = 5_000;
/// A sequence number further behind than this was never meant to be the next one.
const MAX_MISSING: u32 = 60_000;
/// How many missing bytes are sent at once.
const MAX_FILL: u32 = 4_000;
/// When the last of all sockets must be gone: `tcp_retries2` timeouts of two minutes each, then
/// TIME-WAIT.
const SILENCE: Duration = Duration::from_secs(2 * 3_600);

/// Brings everything to its end.
pub(super) fn finish(bench: &mut Bench, setup: &Setup) -> Result<(), BrokenLaw> {
    let mut alive = alive(bench);
    if be_honest(bench, setup, &mut alive)? {
        alive.iter().try_for_each(|alive| check_delivered(bench, alive))?;
    }
    if let Some(window) = setup.silence {
        fall_silent(bench, window)?;
    }
    close_all(bench)?;
    be_honest(bench, setup, &mut [])?;
    bench.pass(SILENCE)?;
    let left: Vec<_> = bench.host.tcp_sockets().collect();
    if left.is_empty() {
        return Ok(());
    }
    Err(("everything ends", format!("hours after the last close there is {left:?}")))
}

/// A flow whose connection can still deliver what was written.
struct LiveFlow {
    at: usize,
    /// Segments it has sent so far.
    segments: u64,
    /// Its timeout was the longest one, as it has doubled, or the first answer after minutes was to something
    /// that was sent once: if its application has closed it, it gives up when it would next ask for a window
    /// (`tcp_probe_timer`, `tcp_orphan_retries`). Or it does so by a time of its own.
    is_backed_off: bool,
}

fn alive(bench: &Bench) -> Vec<LiveFlow> {
    let can_send = |at: &usize| {
        let state = bench.state_of(*at);
        state.is_some_and(|it| it.is_synchronized() && it != State::TimeWait)
    };
    let flows = (0..bench.flows.len()).filter(can_send);
    let alive = |at| {
        let is_backed_off = is_backed_off(bench, at)?;
        Some(LiveFlow { at, segments: bench.flows[at].segments, is_backed_off })
    };
    flows.filter_map(alive).collect()
}

/// Whether a connection is about to give up; `None` where there is no connection.
fn is_backed_off(bench: &Bench, at: usize) -> Option<bool> {
    let tcp = bench.connection(at)?;
    let info = tcp.info(bench.now);
    let longest_ms = u64::from(bench.host.tcp_defaults().sysctl.tcp_rto_max_ms);
    let timeout_us = u64::from(info.rto) << info.backoff.min(20);
    // `TCP_USER_TIMEOUT` counts from the first probe of a closed window until one takes the first
    // segment whole (`tcp_probe_timer`, `tcp_ack_probe`), which honest peers need not open.
    let is_in_a_hurry = info.probes > 0 && tcp.config().user_timeout_ms.is_some();
    Some(timeout_us >= 1_000 * longest_ms || is_in_a_hurry)
}

/// Peers answer everything after a millisecond, and applications read. True if this went on until nothing more
/// happened.
fn be_honest(bench: &mut Bench, setup: &Setup, alive: &mut [LiveFlow]) -> Result<bool, BrokenLaw> {
    let mut idle = Duration::ZERO;
    let mut so_far = progress(bench);
    for _ in 0..MAX_TURNS {
        let mut answered = core::mem::take(&mut bench.to_answer);
        answered.sort_unstable();
        answered.dedup();
        if !answered.is_empty() {
            bench.pass(Duration::from_millis(1))?;
        }
        for at in answered {
            answer(bench, at, setup)?;
        }
        for alive in &mut *alive {
            alive.is_backed_off |= is_backed_off(bench, alive.at) == Some(true);
        }
        read_all(bench)?;
        if core::mem::replace(&mut so_far, progress(bench)) != so_far {
            idle = Duration::ZERO;
        }
        if !bench.to_answer.is_empty() {
            idle = Duration::ZERO;
            continue;
        }
        let Some(next) = bench.next_event() else { return Ok(true) };
        let wait = next.saturating_since(bench.now);
        idle += wait;
        if idle > PATIENCE {
            return Ok(true);
        }
        bench.advance(next)?;
    }
    Ok(false)
}

/// How far every flow has come.
fn progress(bench: &Bench) -> Vec<(Option<u32>, Option<u32>)> {
    let reached = |flow: &ObservedFlow| (flow.present().map(|out| out.acked), flow.host_ack);
    bench.flows.iter().map(reached).collect()
}

/// The peer sends what is missing, acknowledges everything it has received, and uses the next sequence number.
fn answer(bench: &mut Bench, at: usize, setup: &Setup) -> Result<(), BrokenLaw> {
    let flow = &bench.flows[at];
    if flow.reset || flow.begun.is_empty() {
        return Ok(());
    }
    let window = match flow.present().filter(|_| setup.no_more) {
        Some(out) => flow.unsent(out).clamp(1, setup.honest_window.into()) as u16,
        None => setup.honest_window,
    };
    let mut answer = ack(bench, at, window);
    let Some(host_ack) = flow.host_ack else {
        answer.flags |= flag::SYN;
        answer.from = SeqBase::Next;
        return bench.segment(&answer);
    };
    let missing = flow.peer_next.wrapping_sub(host_ack);
    if missing == 0 || missing > MAX_MISSING || flow.peer_end == Some(host_ack) {
        return bench.segment(&answer);
    }
    answer.len = missing.min(MAX_FILL).min(flow.host_window.into()) as u16;
    bench.segment(&answer)?;
    bench.segment(&Segment { len: 0, from: SeqBase::Next, ..answer })
}

/// An ACK of everything received, signed if the host wants that by now, whatever it has sent so far.
fn ack(bench: &Bench, at: usize, window: u16) -> Segment {
    let has_key = |tcp: &Connection| !tcp.config().socket.md5.is_empty();
    let signed = bench.connection(at).map_or(bench.flows[at].signs, has_key);
    Segment {
        flow: (bench.flows.len() - 1 - at) as u16,
        flags: flag::ACK,
        from: SeqBase::Acked,
        acks: Acks::All,
        window,
        stamps: Some(Timestamps::default()),
        signed: signed.then_some(true),
        ..Segment::default()
    }
}

/// Peers acknowledge, advertise this window and become silent, while applications write. A connection that waits for
/// an answer gives up by itself: after `tcp_retries2` probes of a closed window (`tcp_probe_timer`), or as many
/// timeouts (`tcp_write_timeout`).
fn fall_silent(bench: &mut Bench, window: u16) -> Result<(), BrokenLaw> {
    let open = |at: &usize| {
        matches!(bench.state_of(*at), Some(State::Established | State::CloseWait))
            && bench.flows[*at].host_ack.is_some()
    };
    for at in (0..bench.flows.len()).filter(open).collect::<Vec<_>>() {
        bench.segment(&ack(bench, at, window))?;
    }
    for slot in 0..bench.open.len() {
        bench.call(&Call::Send(slot as u16, WRITTEN_INTO_SILENCE, 0))?;
    }
    bench.pass(SILENCE)?;
    bench.to_answer.clear();
    for at in 0..bench.flows.len() {
        let Some(info) = bench.connection(at).map(|tcp| tcp.info(bench.now)) else { continue };
        if info.unacked > 0 || info.notsent_bytes > 0 {
            let what = format!("after hours without an answer it still waits: {info:?}");
            return Err(("silence ends", what));
        }
    }
    Ok(())
}

fn read_all(bench: &mut Bench) -> Result<(), BrokenLaw> {
    for slot in 0..bench.open.len() {
        let fd = bench.open[slot].0;
        for _ in 0..64 {
            let syscall = Syscall::Receive { fd, iov: (1 << 20).into(), flags: 0 };
            let outcome = bench.syscall(&syscall);
            bench.note(slot, &syscall, &outcome);
            bench.drain_output()?;
            if outcome.map_or(true, |done| done.value == 0) {
                break;
            }
        }
    }
    Ok(())
}

fn close_all(bench: &mut Bench) -> Result<(), BrokenLaw> {
    for (fd, _) in core::mem::take(&mut bench.open) {
        let linger = datapath::socket::OptionValue::Linger { on: false, seconds: 0 };
        let (level, name) = (number::SOL_SOCKET, number::SO_LINGER);
        let _ = bench.syscall(&Syscall::SetOption { fd, level, name, value: linger, len: 8 });
        let _ = bench.syscall(&Syscall::Close { fd });
        bench.drain_output()?;
    }
    Ok(())
}

/// Everything that was written has arrived, or the peer has received a reset.
fn check_delivered(bench: &Bench, before: &LiveFlow) -> Result<(), BrokenLaw> {
    let at = before.at;
    let flow = &bench.flows[at];
    let Some(out) = flow.present().filter(|_| !flow.reset) else { return Ok(()) };
    let lost = flow.host_ack.is_some_and(|ack| flow.peer_next.wrapping_sub(ack) > MAX_MISSING);
    if flow.in_pieces || lost || flow.is_absurd() {
        // Nobody knows what the peer would say next.
        return Ok(());
    }
    // Where a cookie may have come back in several ways, one of them is the truth.
    let mut possible = flow.possible();
    if possible.any(|out| !after(flow.stream_end(out), out.acked)) {
        return Ok(());
    }
    let state = bench.state_of(at);
    let gave_up = flow.segments == before.segments || before.is_backed_off;
    if state.is_none_or(|it| it == State::Close) && gave_up {
        // Its patience was at an end when the peers began to answer.
        return Ok(());
    }
    let missing = flow.stream_end(out).wrapping_sub(out.acked);
    let what = format!("{missing} of {} bytes never arrived; {state:?}, {flow:?}", flow.written);
    Err(("what was written arrives", what))
}
