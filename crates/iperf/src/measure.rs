//! What is known of a test: which streams there were, what each did in each interval, and in all.

use crate::flow::Flow;
use crate::wire::{COOKIE, Control, Params, Results, StreamResult};
use datapath::tcp::info::TcpInfo;
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike as _;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// A test.
#[derive(Clone, Debug)]
pub struct Test {
    /// What was wanted.
    pub params: Params,
    /// This end sends.
    pub sends: bool,
    /// This end has asked for it.
    pub is_client: bool,
    /// The mark of its connections.
    pub cookie: String,
    /// Since 1970.
    pub began: Duration,
    /// MSS of the control connection, bytes.
    pub mss: u32,
    /// Its streams.
    pub streams: Vec<StreamEnds>,
    /// What happened meanwhile.
    pub intervals: Vec<Interval>,
    /// What this end has counted.
    pub ours: Results,
    /// What the other end has.
    pub theirs: Results,
    /// How long it took.
    pub seconds: f64,
}

impl Test {
    /// One of which nothing has been measured yet, as the server has it, with the connections that it runs over.
    pub(crate) fn new(
        params: Params,
        control: &Control,
        cookie: &[u8; COOKIE],
        flows: &[Flow],
    ) -> Self {
        Self {
            sends: params.reverse,
            is_client: false,
            cookie: String::from_utf8_lossy(&cookie[..COOKIE - 1]).into_owned(),
            began: wall(),
            mss: control.stream().info().map_or(0, |info| info.snd_mss),
            streams: ends(flows),
            intervals: Vec::new(),
            ours: Results::default(),
            theirs: Results::default(),
            seconds: 0.0,
            params,
        }
    }
}

/// The two ends of a stream, and the number that tables call it by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamEnds {
    /// 5, 7, 9, …: iperf3 prints descriptors.
    pub socket: u64,
    /// Here.
    pub local: SocketAddr,
    /// There.
    pub remote: SocketAddr,
}

/// From one report to the next.
#[derive(Clone, Debug, PartialEq)]
pub struct Interval {
    /// Seconds since the beginning.
    pub start: f64,
    /// Seconds since the beginning.
    pub end: f64,
    /// It is of the seconds that are left out, which count for themselves.
    pub omitted: bool,
    /// Stream by stream.
    pub streams: Vec<Sample>,
}

/// What a stream has done in an interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Sample {
    /// Payload bytes that were written or read.
    pub bytes: u64,
    /// Segments that were retransmitted.
    pub retransmits: u64,
    /// Congestion window at its end, bytes.
    pub snd_cwnd: u64,
    /// The peer's window at its end, bytes.
    pub snd_wnd: u64,
    /// Smoothed RTT at its end, µs.
    pub rtt: u32,
    /// Its deviation, µs.
    pub rttvar: u32,
    /// MTU of the path.
    pub pmtu: u32,
}

/// Takes samples of flows.
#[derive(Debug)]
pub struct Meter {
    began: Instant,
    last: Instant,
    cpu: [i64; 2],
    /// Bytes and retransmissions of each stream until the last sample.
    seen: Vec<(u64, u64)>,
    /// The same until the beginning.
    before: Vec<(u64, u64)>,
    /// What is left out at first, and is not over yet.
    omitted: Duration,
}

impl Meter {
    /// Begins now, to begin anew after `omit` seconds.
    pub fn new(streams: usize, omit: u64) -> Self {
        let now = Instant::now();
        let none = vec![(0, 0); streams];
        let omitted = Duration::from_secs(omit);
        Self { began: now, last: now, cpu: cpu_micros(), seen: none.clone(), before: none, omitted }
    }

    /// How long it is until it begins anew, where that is to come.
    pub fn omits(&self) -> Option<Duration> {
        (!self.omitted.is_zero()).then(|| self.omitted.saturating_sub(self.elapsed()))
    }

    /// Begins anew after a last sample: what has been is left out.
    pub fn restart(&mut self) {
        (self.began, self.cpu, self.omitted) = (self.last, cpu_micros(), Duration::ZERO);
        self.before.clone_from(&self.seen);
    }

    /// Bytes of all streams since the beginning.
    pub fn bytes(&self, flows: &[Flow]) -> u64 {
        flows.iter().zip(&self.before).map(|(flow, before)| flow.bytes() - before.0).sum()
    }

    /// Since the beginning.
    pub fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    /// What has happened since the last time.
    pub fn sample(&mut self, flows: &[Flow], sends: bool) -> Interval {
        let now = Instant::now();
        let seconds = |at: Instant| (at - self.began).as_secs_f64();
        let (start, end) = (seconds(self.last), seconds(now));
        self.last = now;
        let of = |(flow, seen): (&Flow, &mut (u64, u64))| {
            let bytes = flow.bytes();
            let mut sample = Sample { bytes: bytes - seen.0, ..Sample::default() };
            seen.0 = bytes;
            if let Some(info) = flow.info().filter(|_| sends) {
                sample.read(&info);
                sample.retransmits = u64::from(info.total_retrans) - seen.1;
                seen.1 = info.total_retrans.into();
            }
            sample
        };
        let streams = flows.iter().zip(&mut self.seen).map(of).collect();
        Interval { start, end, omitted: !self.omitted.is_zero(), streams }
    }

    /// What this end has counted in all.
    pub fn results(&self, flows: &[Flow], sends: bool) -> Results {
        let streams =
            flows.iter().zip(&self.seen).zip(&self.before).map(|((flow, seen), before)| {
                let retransmits = flow.info().map_or(seen.1, |info| info.total_retrans.into());
                let retransmits = sends.then_some(retransmits - before.1);
                StreamResult { id: flow.id, bytes: flow.bytes() - before.0, retransmits }
            });
        let micros = self.elapsed().as_micros().max(1) as f64;
        let now = cpu_micros();
        let [user, system] = [0, 1].map(|at| 100.0 * (now[at] - self.cpu[at]) as f64 / micros);
        let congestion = flows.first().and_then(|flow| flow.stream().congestion_control().ok());
        Results {
            cpu: [user + system, user, system],
            congestion: congestion.map(str::to_owned),
            streams: streams.collect(),
        }
    }
}

impl Sample {
    fn read(&mut self, info: &TcpInfo) {
        self.snd_cwnd = u64::from(info.snd_cwnd) * u64::from(info.snd_mss);
        self.snd_wnd = info.snd_wnd.into();
        (self.rtt, self.rttvar, self.pmtu) = (info.rtt, info.rttvar, info.pmtu);
    }
}

/// The ends of flows.
fn ends(flows: &[Flow]) -> Vec<StreamEnds> {
    let of = |(flow, index): (&Flow, u64)| StreamEnds {
        socket: 5 + 2 * index,
        local: flow.stream().local_addr(),
        remote: flow.stream().peer_addr(),
    };
    flows.iter().zip(0..).map(of).collect()
}

/// Since 1970.
fn wall() -> Duration {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default()
}

/// Of this process: user and system time, µs.
fn cpu_micros() -> [i64; 2] {
    let usage = getrusage(UsageWho::RUSAGE_SELF);
    usage.map_or([0; 2], |it| {
        [it.user_time().num_microseconds(), it.system_time().num_microseconds()]
    })
}
