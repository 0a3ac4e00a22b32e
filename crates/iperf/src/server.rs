//! The server: one test at a time; other clients are denied while it is busy.

use crate::Error;
use crate::acceptor::{Acceptor, GREETING, deny};
use crate::client::{TestObserver, restart};
use crate::flow::{Flow, StreamTask};
use crate::measure::{Meter, Test};
use crate::wire::{COOKIE, Control, PATIENCE, Params, Results, State, stream_id};
use datapath::tcp::cc::Algorithm;
use live::endpoint::TcpListener;
use serde_json::Value;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How long a look at anything may last.
const LOOK: Duration = Duration::from_millis(20);

/// Waits for a client, and runs its test; `None` once `stop` is set.
///
/// # Errors
/// The test has failed, and the next may go well; or the stack's device is gone.
pub fn serve_one(
    listener: &TcpListener,
    interval: Duration,
    stop: &AtomicBool,
    watch: &mut impl TestObserver,
) -> Result<Option<Test>, Error> {
    let mut acceptor = Acceptor::new(listener);
    loop {
        if stop.load(Ordering::Relaxed) {
            return Ok(None);
        }
        let Some((stream, cookie)) = acceptor.next_client(LOOK, watch)? else { continue };
        let control = Control::new(stream);
        match request_parameters(&control) {
            Ok(wanted) => {
                return run(&mut acceptor, &control, cookie, &wanted, interval, stop, watch)
                    .map(Some);
            }
            Err(why) => watch.connection_refused(control.stream().peer_addr(), &why.0),
        }
    }
}

/// What a client says that it wants. Who does not say so is none, whatever it has shown before.
fn request_parameters(control: &Control) -> Result<Value, Error> {
    control.send_state(State::ParamExchange)?;
    control.receive_within(GREETING)
}

fn run(
    acceptor: &mut Acceptor<'_>,
    control: &Control,
    cookie: [u8; COOKIE],
    wanted: &Value,
    interval: Duration,
    stop: &AtomicBool,
    watch: &mut impl TestObserver,
) -> Result<Test, Error> {
    let params = Params::read(wanted).map_err(|(number, error)| {
        control.refuse(number);
        error
    })?;
    control.send_state(State::CreateStreams)?;
    let mut flows = accept_streams(acceptor, &cookie, &params, watch)?;
    control.send_state(State::TestStart)?;
    let mut test = Test::new(params, control, &cookie, &flows);
    watch.connected(&test);
    control.send_state(State::TestRunning)?;
    let work = StreamTask::of(&test.params, test.sends);
    let mut meter = Meter::new(flows.len(), test.params.omit);
    for flow in &mut flows {
        flow.start(work.clone());
    }
    let mut next = interval;
    let mut rest = None;
    let mut silence = SilenceLimit::new(Instant::now(), &test.params, test.sends);
    loop {
        if meter.omits() == Some(Duration::ZERO) {
            restart(&mut meter, &flows, &work, &mut test, watch);
            next = interval;
        }
        if meter.elapsed() >= next {
            let sampled = meter.sample(&flows, test.sends);
            watch.interval(&test, &sampled);
            test.intervals.push(sampled);
            next += interval;
        }
        if stop.load(Ordering::Relaxed) {
            control.send_state(State::ServerTerminate)?;
            return Err(Error("ended by a signal".to_owned()));
        }
        acceptor.refuse_waiting();
        silence.check(Instant::now(), flows.iter().map(Flow::bytes).sum())?;
        if rest.as_mut().is_some_and(|rest: &mut MissingBytes| {
            rest.is_there(meter.bytes(&flows), flows.iter().all(Flow::is_done))
        }) {
            break;
        }
        let look = if rest.is_some() { Duration::from_millis(1) } else { LOOK };
        match control.receive_state_within(look)? {
            None => {}
            // What was sent last may still be on its way: this is another connection.
            Some(State::TestEnd) => {
                let wanted = if test.sends { 0 } else { test.params.bytes };
                rest = Some(MissingBytes { wanted, came: LastArrival::since(Instant::now()) });
            }
            Some(State::ClientTerminate) => {
                return Err(Error("the client has ended the test".to_owned()));
            }
            Some(other) => return Err(Error(format!("the client sent {other:?} during the test"))),
        }
    }
    flows.iter_mut().for_each(Flow::stop_sending);
    test.seconds = meter.elapsed().as_secs_f64();
    let rest = meter.sample(&flows, test.sends);
    if rest.end - rest.start > 0.1 * interval.as_secs_f64() {
        watch.interval(&test, &rest);
        test.intervals.push(rest);
    }
    test.ours = meter.results(&flows, test.sends);
    flows.iter_mut().for_each(Flow::end);
    drop(flows);
    control.send_state(State::ExchangeResults)?;
    test.theirs = Results::read(&control.receive()?);
    control.send(&test.ours.json(test.sends, test.seconds))?;
    control.send_state(State::DisplayResults)?;
    match control.receive_state() {
        // All is said; how the client goes does not matter any more.
        Ok(_) | Err(_) => Ok(test),
    }
}

/// Bytes that a client has sent and that have not arrived when it reports its end.
struct MissingBytes {
    /// Bytes of all streams; 0 if it sends for a time: then what is on its way is not counted, as iperf3 has it.
    wanted: u64,
    came: LastArrival,
}

/// When something came last, and how many bytes there were then.
struct LastArrival {
    bytes: u64,
    last: Instant,
}

impl LastArrival {
    fn since(now: Instant) -> Self {
        Self { bytes: 0, last: now }
    }

    /// There are so many bytes now: for how long nothing has come.
    fn silent_for(&mut self, now: Instant, bytes: u64) -> Duration {
        if bytes > self.bytes {
            (self.bytes, self.last) = (bytes, now);
        }
        now - self.last
    }
}

impl MissingBytes {
    /// Nothing may be lost for longer than this.
    const LONGEST: Duration = Duration::from_secs(10);

    /// Whether all has come, or nothing comes any more.
    fn is_there(&mut self, bytes: u64, all_done: bool) -> bool {
        let silent = self.came.silent_for(Instant::now(), bytes);
        bytes >= self.wanted || all_done || silent >= Self::LONGEST
    }
}

/// A client that has died says nothing any more, and others wait for its test to end.
struct SilenceLimit {
    /// When a test that was to take so many seconds has gone on for too long.
    over: Option<Instant>,
    /// `None` where this end sends.
    came: Option<LastArrival>,
}

impl SilenceLimit {
    /// As long as ten messages need at four seconds each (`create_server_timers`).
    const GRACE: Duration = Duration::from_secs(40);
    /// As long as nothing may come from who sends (`--rcv-timeout`).
    const LONGEST: Duration = Duration::from_mins(2);

    fn new(now: Instant, params: &Params, sends: bool) -> Self {
        let time = Duration::from_secs(params.seconds + params.omit);
        let over = (params.seconds > 0).then(|| now + time + Self::GRACE);
        Self { over, came: (!sends).then(|| LastArrival::since(now)) }
    }

    /// `bytes` have come by now.
    fn check(&mut self, now: Instant, bytes: u64) -> Result<(), Error> {
        if self.over.is_some_and(|over| now >= over) {
            return Err(Error("the client has not ended its test in time".to_owned()));
        }
        let is_silent = |came: &mut LastArrival| came.silent_for(now, bytes) >= Self::LONGEST;
        if self.came.as_mut().is_some_and(is_silent) {
            return Err(Error(format!("nothing received for {:?}", Self::LONGEST)));
        }
        Ok(())
    }
}

/// The data streams of a test: those that show its cookie.
fn accept_streams(
    acceptor: &mut Acceptor<'_>,
    cookie: &[u8; COOKIE],
    params: &Params,
    watch: &mut impl TestObserver,
) -> Result<Vec<Flow>, Error> {
    let mut flows = Vec::new();
    let over = Instant::now() + PATIENCE;
    while flows.len() < params.parallel {
        let left = over.saturating_duration_since(Instant::now());
        let Some((stream, shown)) = acceptor.next_client(left, watch)? else {
            return Err(Error("the client has not opened all of its data streams".to_owned()));
        };
        if shown != *cookie {
            deny(&stream);
            continue;
        }
        stream.set_nodelay(params.nodelay)?;
        if params.rate > 0 {
            stream.set_max_pacing_rate(params.rate.div_ceil(8))?;
        }
        if let Some(algorithm) = params.congestion.as_deref().and_then(Algorithm::by_name) {
            stream.set_congestion_control(algorithm)?;
        }
        flows.push(Flow::new(stream_id(flows.len()), stream));
    }
    Ok(flows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// Seconds after the beginning, bytes that have come, and whether the test goes on.
    fn goes_on(wanted: &Value, sends: bool, steps: &[(u64, u64, bool)]) {
        let params = Params::read(wanted).map_err(|(_, error)| error).expect("right");
        let began = Instant::now();
        let mut silence = SilenceLimit::new(began, &params, sends);
        for &(seconds, bytes, goes_on) in steps {
            let found = silence.check(began + Duration::from_secs(seconds), bytes);
            assert_eq!(found.is_ok(), goes_on, "after {seconds} s: {found:?}");
        }
    }

    #[test]
    fn a_dead_client_does_not_block_others() {
        let timed = json!({ "parallel": 1, "len": 1_000, "time": 10, "omit": 2 });
        goes_on(&timed, true, &[(1, 0, true), (51, 0, true), (52, 0, false)]);
        goes_on(&timed, false, &[(12, 5, true), (51, 9, true), (52, 10, false)]);
        let counted = json!({ "parallel": 1, "len": 1_000, "num": 10_000 });
        goes_on(&counted, true, &[(10_000, 0, true)]);
        goes_on(&counted, false, &[(100, 5, true), (219, 5, true), (220, 5, false)]);
        goes_on(
            &counted,
            false,
            &[(100, 5, true), (219, 6, true), (338, 6, true), (339, 6, false)],
        );
    }
}
