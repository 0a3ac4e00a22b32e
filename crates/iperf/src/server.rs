//! The server: one test at a time; others are told that it is busy.

use crate::Error;
use crate::client::Watch;
use crate::door::{Door, GREETING, deny};
use crate::flow::{Flow, Work};
use crate::measure::{self, Meter, Test};
use crate::wire::{COOKIE, Control, PATIENCE, Params, Results, State, stream_id};
use datapath::tcp::cc::Algorithm;
use live::endpoint::TcpListener;
use serde_json::Value;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
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
    watch: &mut impl Watch,
) -> Result<Option<Test>, Error> {
    let mut door = Door::new(listener);
    loop {
        if stop.load(Ordering::Relaxed) {
            return Ok(None);
        }
        let Some((stream, cookie)) = door.next_client(LOOK, watch)? else { continue };
        let control = Control::new(stream);
        match wanted(&control) {
            Ok(wanted) => {
                return run(&mut door, &control, cookie, &wanted, interval, stop, watch).map(Some);
            }
            Err(why) => watch.turned_away(control.stream().peer_addr(), &why.0),
        }
    }
}

/// What a client says that it wants. Who does not say so is none, whatever it has shown before.
fn wanted(control: &Control) -> Result<Value, Error> {
    control.tell(State::ParamExchange)?;
    control.receive_within(GREETING)
}

fn run(
    door: &mut Door<'_>,
    control: &Control,
    cookie: [u8; COOKIE],
    wanted: &Value,
    interval: Duration,
    stop: &AtomicBool,
    watch: &mut impl Watch,
) -> Result<Test, Error> {
    let params = Params::read(wanted).map_err(|(number, error)| {
        control.refuse(number);
        error
    })?;
    control.tell(State::CreateStreams)?;
    let mut flows = accept_streams(door, &cookie, &params, watch)?;
    control.tell(State::TestStart)?;
    let mut test = Test {
        sends: params.reverse,
        is_client: false,
        cookie: String::from_utf8_lossy(&cookie[..COOKIE - 1]).into_owned(),
        began: measure::wall(),
        mss: control.stream().info().map_or(0, |info| info.snd_mss),
        streams: measure::ends(&flows),
        intervals: Vec::new(),
        ours: Results::default(),
        theirs: Results::default(),
        seconds: 0.0,
        params,
    };
    watch.connected(&test);
    control.tell(State::TestRunning)?;
    let left =
        (test.sends && test.params.bytes > 0).then(|| Arc::new(AtomicU64::new(test.params.bytes)));
    let work = Work { sends: test.sends, len: test.params.len, left };
    let mut meter = Meter::new(flows.len());
    for flow in &mut flows {
        flow.start(work.clone());
    }
    let mut next = interval;
    let mut rest = None;
    loop {
        if meter.elapsed() >= next {
            let sampled = meter.sample(&flows, test.sends);
            watch.interval(&test, &sampled);
            test.intervals.push(sampled);
            next += interval;
        }
        if stop.load(Ordering::Relaxed) {
            control.tell(State::ServerTerminate)?;
            return Err(Error("ended by a signal".to_owned()));
        }
        door.refuse_others();
        if rest.as_mut().is_some_and(|rest: &mut Rest| rest.is_there(&flows)) {
            break;
        }
        let look = if rest.is_some() { Duration::from_millis(1) } else { LOOK };
        match control.hear_for(look)? {
            None => {}
            // What was sent last may still be on its way: this is another connection.
            Some(State::TestEnd) => {
                let wanted = if test.sends { 0 } else { test.params.bytes };
                rest = Some(Rest { wanted, seen: 0, since: Instant::now() });
            }
            Some(State::ClientTerminate) => {
                return Err(Error("the client has ended the test".to_owned()));
            }
            Some(other) => return Err(Error(format!("the client says {other:?} in mid-test"))),
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
    control.tell(State::ExchangeResults)?;
    test.theirs = Results::read(&control.receive()?);
    control.send(&test.ours.json(test.sends, test.seconds))?;
    control.tell(State::DisplayResults)?;
    match control.hear() {
        // All is said; how the client goes does not matter any more.
        Ok(_) | Err(_) => Ok(test),
    }
}

/// What a client that sends so many bytes has sent, and has not come yet when it says that it is through.
struct Rest {
    /// Bytes of all streams; 0 if it sends for a time: then what is on its way is not counted, as iperf3 has it.
    wanted: u64,
    /// Bytes when something came last, and when that was.
    seen: u64,
    since: Instant,
}

impl Rest {
    /// Nothing may be lost for longer than this.
    const LONGEST: Duration = Duration::from_secs(10);

    /// Whether all has come, or nothing comes any more.
    fn is_there(&mut self, flows: &[Flow]) -> bool {
        let bytes = flows.iter().map(Flow::bytes).sum();
        if bytes > self.seen {
            (self.seen, self.since) = (bytes, Instant::now());
        }
        bytes >= self.wanted
            || flows.iter().all(Flow::is_done)
            || self.since.elapsed() >= Self::LONGEST
    }
}

/// The data streams of a test: those that show its cookie.
fn accept_streams(
    door: &mut Door<'_>,
    cookie: &[u8; COOKIE],
    params: &Params,
    watch: &mut impl Watch,
) -> Result<Vec<Flow>, Error> {
    let mut flows = Vec::new();
    let over = Instant::now() + PATIENCE;
    while flows.len() < params.parallel {
        let left = over.saturating_duration_since(Instant::now());
        let Some((stream, shown)) = door.next_client(left, watch)? else {
            return Err(Error("the client has not made all of its data streams".to_owned()));
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
