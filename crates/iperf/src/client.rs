//! The client: connects, tells what it wants, sends or receives, and exchanges results.

use crate::Error;
use crate::flow::{Flow, StreamTask};
use crate::measure::{Interval, Meter, Test};
use crate::wire::{COOKIE, Control, PATIENCE, Params, Results, State, stream_id};
use datapath::tcp::cc::Algorithm;
use live::endpoint::{Stack, TcpStream};
use serde_json::Value;
use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Called while a test runs.
pub trait TestObserver {
    /// The streams are there.
    fn connected(&mut self, test: &Test);
    /// An interval is over.
    fn interval(&mut self, test: &Test, interval: &Interval);
    /// A server has closed a connection that was no client's.
    fn connection_refused(&mut self, peer: SocketAddr, why: &str);
}

/// How long a look at the control connection may last.
const LOOK: Duration = Duration::from_millis(20);

/// Runs one test against `server`. With `stop` set it ends before its time, with what there is.
///
/// # Errors
/// Nobody is there, or the server refuses or goes away.
pub fn run(
    stack: &Stack,
    server: SocketAddr,
    params: &Params,
    interval: Duration,
    stop: &AtomicBool,
    watch: &mut impl TestObserver,
) -> Result<Test, Error> {
    let begun = TcpStream::start_connect(stack, server, |_| {});
    let control = connected(begun, stop)
        .map_err(|why| Error(format!("cannot connect to {server}: {why}")))?;
    let control = Control::new(control);
    let cookie = make_cookie();
    control.stream().write(&cookie)?;
    expect(&control, State::ParamExchange, Some(stop))?;
    control.send(&params.json())?;
    expect(&control, State::CreateStreams, Some(stop))?;
    let mut flows = Vec::new();
    for index in 0..params.parallel {
        flows.push(Flow::new(stream_id(index), data_stream(stack, server, params, &cookie, stop)?));
    }
    expect(&control, State::TestStart, Some(stop))?;
    expect(&control, State::TestRunning, Some(stop))?;
    let mut test = Test {
        sends: !params.reverse,
        is_client: true,
        ..Test::new(params.clone(), &control, &cookie, &flows)
    };
    watch.connected(&test);
    let mut meter = Meter::new(flows.len(), params.omit);
    transfer(&control, &mut flows, &mut test, &mut meter, (interval, stop, watch))?;
    test.seconds = meter.elapsed().as_secs_f64();
    test.ours = meter.results(&flows, test.sends);
    control.send_state(State::TestEnd)?;
    expect(&control, State::ExchangeResults, None)?;
    control.send(&test.ours.json(test.sends, test.seconds))?;
    test.theirs = Results::read(&control.receive()?);
    expect(&control, State::DisplayResults, None)?;
    control.send_state(State::IperfDone)?;
    Ok(test)
}

fn transfer(
    control: &Control,
    flows: &mut [Flow],
    test: &mut Test,
    meter: &mut Meter,
    (interval, stop, watch): (Duration, &AtomicBool, &mut impl TestObserver),
) -> Result<(), Error> {
    let params = test.params.clone();
    let work = StreamTask::of(&params, test.sends);
    let left = work.left.clone();
    for flow in flows.iter_mut() {
        flow.start(work.clone());
    }
    let end = if params.bytes > 0 { Duration::MAX } else { Duration::from_secs(params.seconds) };
    let mut next = interval;
    loop {
        if meter.omits() == Some(Duration::ZERO) {
            restart(meter, flows, &work, test, watch);
            next = interval;
        }
        // The last block is sent when its stream is through, not when it is taken; a server that hears of the end
        // before it has read all leaves the rest uncounted, so all has to have arrived.
        let all = left.as_ref().is_some_and(|left| {
            if test.sends {
                flows.iter().all(|flow| flow.is_done() && flow.stream().unacknowledged() == 0)
            } else {
                left.load(Ordering::Relaxed) == 0
            }
        });
        // Until its end, or until it begins anew.
        let omits = meter.omits();
        let rest = omits.unwrap_or_else(|| end.saturating_sub(meter.elapsed()));
        let over = omits.is_none() && rest.is_zero() || all || stop.load(Ordering::Relaxed);
        if over {
            flows.iter_mut().for_each(Flow::stop_sending);
        }
        if over || meter.elapsed() >= next {
            let sampled = meter.sample(flows, test.sends);
            // The rest of a test is told by its totals, if it is next to nothing.
            if !over || sampled.end - sampled.start > 0.1 * interval.as_secs_f64() {
                watch.interval(test, &sampled);
                test.intervals.push(sampled);
            }
            next += interval;
        }
        if over {
            return Ok(());
        }
        let soon = next.saturating_sub(meter.elapsed()).min(rest);
        match control.receive_state_within(soon.min(LOOK).max(Duration::from_millis(1)))? {
            None => {}
            Some(State::ServerTerminate) => {
                return Err(Error("the server has ended the test".to_owned()));
            }
            Some(State::ServerError) => return Err(control.receive_refusal()),
            Some(other) => return Err(Error(format!("the server sent {other:?} during the test"))),
        }
    }
}

/// What has been so far is left out: a test begins anew, with all of its bytes still to come.
pub fn restart(
    meter: &mut Meter,
    flows: &[Flow],
    work: &StreamTask,
    test: &mut Test,
    watch: &mut impl TestObserver,
) {
    let sampled = meter.sample(flows, test.sends);
    watch.interval(test, &sampled);
    test.intervals.push(sampled);
    meter.restart();
    if let Some(left) = &work.left {
        left.store(test.params.bytes, Ordering::Relaxed);
    }
}

fn data_stream(
    stack: &Stack,
    server: SocketAddr,
    params: &Params,
    cookie: &[u8],
    stop: &AtomicBool,
) -> Result<TcpStream, Error> {
    let algorithm = params.congestion.as_deref().and_then(Algorithm::by_name);
    let begun = TcpStream::start_connect(stack, server, |config| {
        config.nodelay = params.nodelay;
        config.max_segment = std::num::NonZeroU16::new(params.mss);
        config.congestion_control = algorithm.unwrap_or(config.congestion_control);
        if params.rate > 0 {
            config.max_pacing_rate = params.rate.div_ceil(8);
        }
    });
    let stream =
        connected(begun, stop).map_err(|why| Error(format!("a data stream to {server}: {why}")))?;
    { &stream }.write_all(cookie)?;
    Ok(stream)
}

/// Waits until the connection is established, or until `stop` is set.
fn connected(begun: io::Result<TcpStream>, stop: &AtomicBool) -> Result<TcpStream, Error> {
    let told = |error: io::Error| Error(error.to_string());
    let stream = begun.map_err(told)?;
    let over = Instant::now() + PATIENCE;
    while !stream.connected_within(LOOK).map_err(told)? {
        if stop.load(Ordering::Relaxed) {
            return Err(stopped());
        }
        if Instant::now() >= over {
            return Err(Error(format!("no answer within {PATIENCE:?}")));
        }
    }
    Ok(stream)
}

fn stopped() -> Error {
    Error("interrupted before the test began".to_owned())
}

/// The server says that it goes on as is `wanted`; with `stop` it is waited for no longer than until somebody wants
/// the end.
fn expect(control: &Control, wanted: State, stop: Option<&AtomicBool>) -> Result<(), Error> {
    let over = Instant::now() + PATIENCE;
    let heard = loop {
        if let Some(state) = control.receive_state_within(LOOK)? {
            break state;
        }
        if stop.is_some_and(|stop| stop.load(Ordering::Relaxed)) {
            return Err(stopped());
        }
        if Instant::now() >= over {
            return Err(Error(format!("nothing received from the peer for {PATIENCE:?}")));
        }
    };
    match heard {
        state if state == wanted => Ok(()),
        State::AccessDenied => {
            Err(Error("the server is busy running a test; try again later".to_owned()))
        }
        State::ServerError => Err(control.receive_refusal()),
        state => Err(Error(format!("the server sent {state:?}, expected {wanted:?}"))),
    }
}

/// 36 letters and digits, and a zero.
fn make_cookie() -> [u8; COOKIE] {
    const LETTERS: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
    let mut cookie = [0; COOKIE];
    let mut state = std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), 0_u64);
    for letter in &mut cookie[..COOKIE - 1] {
        *letter = LETTERS[(state >> 59) as usize];
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    }
    cookie
}

/// Reports nothing.
impl TestObserver for () {
    fn connected(&mut self, _: &Test) {}
    fn interval(&mut self, _: &Test, _: &Interval) {}
    fn connection_refused(&mut self, _: SocketAddr, _: &str) {}
}

/// The JSON of a failed test, as iperf3 writes it.
pub fn failed(error: &Error) -> Value {
    serde_json::json!({ "start": {}, "intervals": [], "end": {}, "error": error.0 })
}
