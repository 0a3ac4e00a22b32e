//! A script at work: events in order against a host in virtual time.
//!
//! Time passes only where the script lets it: up to the time of an event, or until an expected
//! packet has come. At every instant the host is turned until it has nothing more to say, and
//! what it sends is kept with the time at which it was sent.

mod arguments;
mod calls;
mod conn;
mod control;
mod facts;
mod memory;
mod option_values;
mod packets;
mod results;
mod values;

use crate::ast::{Action, CallSpec, Code, Command, Direction, Event, Micros, Script, Time};
use crate::code::Env;
use crate::fault::{Fault, Pos};
use crate::harness::{Harness, START};
use crate::settings::Settings;
use crate::show::seconds;
use calls::Pending;
use conn::Conn;
use datapath::packet::Packet;
use datapath::socket::Fd;
use datapath::trace::Event as TcpEvent;
use datapath::units::{Duration, Instant};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// How a run ended.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// All as the script says.
    Pass,
    /// Not so.
    Fail(Box<Failure>),
    /// The script asks for what has no meaning without a kernel.
    Skip {
        /// Where.
        pos: Pos,
        /// Why.
        because: String,
    },
}

/// Where a run and its script part.
#[derive(Clone, Debug, PartialEq)]
pub struct Failure {
    /// Where in the script.
    pub pos: Pos,
    /// The field of the packet, or the part of the call, that differs: `win`, `time`, `result`.
    pub field: String,
    /// In one line.
    pub reason: String,
    /// Everything there is to see, in lines.
    pub details: Vec<String>,
}

/// What a run leaves behind.
#[derive(Debug)]
pub struct RunReport {
    /// How it ended.
    pub verdict: Verdict,
    /// Every packet that crossed the interface, with its time since the start of the script.
    pub packets: Vec<(Direction, Instant, Packet)>,
    /// What the host's TCP told: when, after how many of the packets, and what.
    pub events: Vec<(Instant, usize, TcpEvent)>,
    /// What happened, line by line (for `-v`).
    pub log: Vec<String>,
    /// Differences that did not end the run (`--non_fatal`).
    pub warnings: Vec<Failure>,
}

/// Where a script lies.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScriptFolder {
    /// Its folder.
    pub folder: PathBuf,
    /// The folder of the whole run: a suite's own files at and below it may be read.
    pub root: PathBuf,
}

/// Runs a script.
pub fn run(script: &Script, settings: &Settings, place: &ScriptFolder) -> RunReport {
    if let Some(fault) = values::needs_a_kernel(script) {
        return RunReport {
            verdict: Verdict::Skip { pos: fault.pos, because: fault.what },
            packets: Vec::new(),
            events: Vec::new(),
            log: Vec::new(),
            warnings: Vec::new(),
        };
    }
    let mut run = Run::new(settings, place);
    run.harness.kernel.host.set_tracing(true);
    let verdict = match run.script(script) {
        Ok(()) => Verdict::Pass,
        Err(Stop::Fail(failure)) => Verdict::Fail(failure),
        Err(Stop::Skip(pos, because)) => Verdict::Skip { pos, because },
    };
    let kernel = run.harness.kernel;
    let (packets, events) = (kernel.seen, kernel.events);
    RunReport { verdict, packets, events, log: run.log, warnings: run.warnings }
}

/// Why a run does not go on.
enum Stop {
    Fail(Box<Failure>),
    Skip(Pos, String),
}

impl From<Fault> for Stop {
    fn from(fault: Fault) -> Self {
        if fault.no_meaning {
            return Self::Skip(fault.pos, fault.what);
        }
        Self::Fail(Box::new(Failure {
            pos: fault.pos,
            field: "script".to_owned(),
            reason: fault.to_string(),
            details: Vec::new(),
        }))
    }
}

type Step<T> = Result<T, Stop>;

/// The last event, as far as the next one depends on it.
#[derive(Clone, Copy)]
struct LastEvent {
    /// When it was due, µs.
    time: Micros,
    inbound: bool,
    absolute: bool,
}

/// When the event at hand is due, on the script's clock.
#[derive(Clone, Copy, Debug)]
struct Due {
    pos: Pos,
    kind: Time,
    /// µs since the start.
    time: Micros,
    /// The end of a range.
    end: Option<Micros>,
    /// What was added to relative times.
    offset: Micros,
}

struct Run<'a> {
    settings: &'a Settings,
    harness: Harness,
    start: Instant,
    conns: Vec<Conn>,
    /// The connection that packets of the script belong to.
    current: Option<usize>,
    /// Descriptors of the script.
    fds: BTreeMap<i64, Fd>,
    last: Option<LastEvent>,
    /// A call with a time at which it is to return, while the script goes on.
    pending: Option<Pending<'a>>,
    /// One without, for which the script itself waits.
    own: Option<Pending<'a>>,
    env: Env,
    next_port: u16,
    events: u32,
    log: Vec<String>,
    warnings: Vec<Failure>,
}

/// The first remote port of inbound connections; the next connection has the next one.
const FIRST_PORT: u16 = 40_000;
/// What every event takes: in no machine do two things happen at one instant.
const EVENT: Duration = Duration::from_micros(1);
/// A call that may block when the next one comes is given this long, µs.
const PATIENCE: Micros = 1_000_000;
/// No script waits longer than this for anything, µs.
const FOREVER: Micros = 3_600_000_000;
/// A packet may be late by this much before the run gives up on it, µs.
const LATE: Micros = 2_000_000;

impl<'a> Run<'a> {
    fn new(settings: &'a Settings, place: &ScriptFolder) -> Self {
        Self {
            settings,
            harness: Harness::new(settings, START, place.folder.clone(), place.root.clone()),
            start: START,
            conns: Vec::new(),
            current: None,
            fds: BTreeMap::new(),
            last: None,
            pending: None,
            own: None,
            env: Env::default(),
            next_port: FIRST_PORT,
            events: 0,
            log: Vec::new(),
            warnings: Vec::new(),
        }
    }

    fn script(&mut self, script: &'a Script) -> Step<()> {
        for (pos, path) in &self.settings.init_scripts {
            let status = self.harness.run_script(path, *pos)?;
            if !status.ok() {
                let reason = format!("`{path}` ended with status {}", status.0);
                return Err(self.fail(*pos, "command", reason, Vec::new()));
            }
        }
        if let Some(init) = &script.init {
            self.shell_command(init)?;
        }
        for event in &script.events {
            self.event(event)?;
            self.events += 1;
        }
        self.finish_pending()?;
        if let Some(cleanup) = &script.cleanup {
            self.shell_command(cleanup)?;
        }
        Ok(())
    }

    fn event(&mut self, event: &'a Event) -> Step<()> {
        let due = self.due(event)?;
        let inbound =
            matches!(&event.action, Action::Packet(it) if it.direction == Direction::Inbound);
        match &event.action {
            Action::Packet(packet) => match packet.direction {
                Direction::Inbound => self.inbound(packet, due)?,
                Direction::Outbound => self.outbound(packet, due)?,
            },
            Action::Call(call) => self.call(call, due)?,
            Action::Command(command) => {
                self.wait_for(due, "command")?;
                self.shell_command(command)?;
            }
            Action::Code(code) => self.code(code, due)?,
        }
        let absolute = matches!(event.at, Time::Absolute(_) | Time::AbsoluteRange(..));
        self.last = Some(LastEvent { time: due.time, inbound, absolute });
        self.harness.kernel.advance(self.harness.now() + EVENT);
        Ok(())
    }

    /// When an event is due. Inbound packets in a row are due after one another; everything else
    /// that has a relative time is due after now.
    fn due(&self, event: &Event) -> Step<Due> {
        let inbound =
            matches!(&event.action, Action::Packet(it) if it.direction == Direction::Inbound);
        let offset = match (event.at, self.last) {
            (Time::Absolute(_) | Time::AbsoluteRange(..), _) => 0,
            (_, Some(last)) if last.inbound && inbound => last.time,
            _ => self.now(),
        };
        let (time, end) = match event.at {
            Time::Absolute(time) => (time, None),
            Time::Relative(time) => (time + offset, None),
            Time::Any => (offset, None),
            Time::AbsoluteRange(begin, end) => (begin, Some(end)),
            Time::RelativeRange(begin, end) => (begin + offset, Some(end + offset)),
        };
        if self.events == 0 && time != 0 {
            let fix = "begin with `0 …` or `+0 …`";
            return Err(Fault::new(event.pos, "the first event is not at time 0", fix).into());
        }
        let absolute = matches!(event.at, Time::Absolute(_) | Time::AbsoluteRange(..));
        if let Some(last) = self.last
            && last.absolute
            && absolute
            && time < last.time
        {
            let what = format!("time goes back from {} to {}", seconds(last.time), seconds(time));
            return Err(Fault::new(event.pos, what, "absolute times must not fall").into());
        }
        Ok(Due { pos: event.pos, kind: event.at, time, end, offset })
    }

    // Time.

    /// µs since the start of the script.
    fn now(&self) -> Micros {
        self.micros(self.harness.now())
    }

    fn micros(&self, at: Instant) -> Micros {
        at.saturating_since(self.start).as_micros() as Micros
    }

    fn instant(&self, micros: Micros) -> Instant {
        self.start + Duration::from_micros(micros.max(0) as u64)
    }

    /// Lets time pass up to `until`, or until `stop` holds after something has happened; true if
    /// it holds.
    fn pass(&mut self, until: Micros, stop: impl Fn(&Self) -> bool) -> Step<bool> {
        let until = self.instant(until);
        loop {
            self.carry_on()?;
            if stop(self) {
                return Ok(true);
            }
            if !self.harness.step(until) {
                self.carry_on()?;
                return Ok(stop(self));
            }
        }
    }

    /// Lets time pass up to an event, and checks that it is not too late for it.
    fn wait_for(&mut self, due: Due, what: &str) -> Step<()> {
        if due.time > self.now() {
            self.pass(due.time, |_| false)?;
        }
        if self.events > 0 {
            self.check_time(due, self.now(), self.last.map(|last| last.time), what)?;
        }
        Ok(())
    }

    /// Whether something happened at the time that the script gives.
    fn time_difference(
        &self,
        due: Due,
        actual: Micros,
        before: Option<Micros>,
    ) -> Option<(String, String)> {
        let tolerance = match before {
            Some(before) => self.settings.tolerance(due.time - before),
            None => self.settings.tolerance_usecs,
        };
        let (begin, end) = match due.kind {
            Time::Any => return None,
            _ => (due.time, due.end.unwrap_or(due.time)),
        };
        if (begin - tolerance..=end + tolerance).contains(&actual) {
            return None;
        }
        let relative = |micros: Micros| match due.kind {
            Time::Relative(_) | Time::RelativeRange(..) => {
                format!("{} (+{})", seconds(micros), seconds(micros - due.offset))
            }
            _ => seconds(micros),
        };
        let expected = match due.end {
            Some(end) => format!("{}~{}", relative(begin), relative(end)),
            None => relative(begin),
        };
        Some((format!("{expected} ± {}", seconds(tolerance)), relative(actual)))
    }

    fn check_time(&self, due: Due, actual: Micros, before: Option<Micros>, what: &str) -> Step<()> {
        match self.time_difference(due, actual, before) {
            None => Ok(()),
            Some((expected, actual)) => {
                let reason = format!("{what} at {actual} s, expected at {expected} s");
                Err(self.fail(due.pos, "time", reason, Vec::new()))
            }
        }
    }

    // Parts that are short.

    fn shell_command(&mut self, command: &Command) -> Step<()> {
        let status = self.harness.command(command)?;
        if status.ok() {
            return Ok(());
        }
        let first = command.text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
        let reason = format!("`{}` ended with status {}", first.trim(), status.0);
        let details = self.harness.printed().lines().rev().take(5).map(str::to_owned).collect();
        Err(self.fail(command.pos, "command", reason, details))
    }

    fn code(&mut self, code: &Code, due: Due) -> Step<()> {
        self.wait_for(due, "code block")?;
        let fd = self.current.and_then(|index| self.conns[index].fd);
        let Some(fd) = fd else {
            let reason = "a code block without a socket to look at".to_owned();
            return Err(self.fail(code.pos, "code", reason, Vec::new()));
        };
        if !facts::collect(&mut self.harness.kernel, fd, &mut self.env.facts) {
            let reason = "TCP_INFO of this socket is not available (any more)".to_owned();
            return Err(self.fail(code.pos, "code", reason, Vec::new()));
        }
        let printed = self.env.printed.len();
        let result = self.env.run(&code.block);
        for line in &self.env.printed[printed..] {
            self.log.push(format!("  printed: {line}"));
        }
        result.map_err(|failure| {
            let names: Vec<String> =
                failure.values.iter().map(|(name, value)| format!("{name} = {value}")).collect();
            let mut details = vec![format!("    {}", failure.statement)];
            if !names.is_empty() {
                details.push(format!("    where {}", names.join(", ")));
            }
            let field = failure.values.first().map_or("code", |(name, _)| name.as_str());
            let values =
                if names.is_empty() { String::new() } else { format!(" ({})", names.join(", ")) };
            let reason = format!("{}: {}{values}", failure.what, failure.statement);
            self.fail(failure.pos, field, reason, details)
        })
    }

    fn fail(
        &self,
        pos: Pos,
        field: impl Into<String>,
        reason: impl Into<String>,
        mut details: Vec<String>,
    ) -> Stop {
        let around = self.around();
        if !around.is_empty() {
            details.push("  packets before:".to_owned());
            details.extend(around);
        }
        Stop::Fail(Box::new(Failure { pos, field: field.into(), reason: reason.into(), details }))
    }
}

/// The first statement of a call, for messages.
fn call_text(spec: &CallSpec) -> String {
    format!("{}()", spec.name)
}
