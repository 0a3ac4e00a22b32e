//! Flows on the stack of a kernel: our own senders and receivers on its sockets, or real programs.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use apps::AppReport;
use datapath::units::{Bytes, Duration, Instant};
use live::kernel::{self, Job, RunSpan};
use live::netns::Namespace;
use live::program::{self, Program, ProgramExit};
use serde_json::Value as Json;

use crate::plan::{App, FlowPlan, Plan, Stack};
use crate::run::outside::{ExternalEnd, Report};

/// One end of a running flow.
pub struct RunningFlowEnd {
    /// Which flow.
    pub flow: usize,
    /// Which end.
    pub sends: bool,
    /// Where its report goes.
    pub report: Report,
    work: FlowTask,
    ended: Option<ProgramExit>,
}

enum FlowTask {
    Sockets(kernel::Running),
    Program(Program),
}

/// Whether all that hosts on a kernel's stack are to do can be done there.
pub fn check(plan: &Plan) -> Result<(), String> {
    let on_kernel = |node: usize| plan.nodes[node].stack == Stack::Kernel;
    for flow in &plan.flows {
        if let App::Query { servers, .. } = &flow.app
            && servers.iter().copied().chain([flow.from]).any(on_kernel)
        {
            return Err(format!(
                "{}: queries run on our stack only (`stack = \"ours\"`)",
                flow.name
            ));
        }
    }
    let any = (0..plan.nodes.len()).any(on_kernel);
    if any && plan.bytes {
        let rule = "`bytes = true` compares what our own applications write and read";
        return Err(format!("{rule}, so all hosts must run on our stack (`stack = \"ours\"`)"));
    }
    if any && !plan.workloads.is_empty() {
        return Err("workloads run on our stack only (`stack = \"ours\"`)".into());
    }
    Ok(())
}

/// Has one end begin in its namespace.
pub fn begin(
    plan: &Plan,
    outside: &ExternalEnd,
    namespaces: &BTreeMap<usize, Namespace>,
    zero: Instant,
    over: &Arc<AtomicBool>,
) -> Result<RunningFlowEnd, String> {
    let flow = &plan.flows[outside.flow];
    let index = if outside.sends { flow.from } else { flow.to };
    let node = &plan.nodes[index];
    let fails = |error: std::io::Error| format!("{}: {}: {error}", flow.name, node.name);
    let namespace = namespaces.get(&index).ok_or_else(|| format!("{}: no namespace", node.name))?;
    let stop = outside.stop.unwrap_or(plan.duration);
    let span = RunSpan {
        zero,
        start: zero + (outside.start - Instant::ZERO),
        stop: zero + stop,
        tos: if outside.sends { flow.tos } else { flow.reply_tos },
        over: Arc::clone(over),
    };
    let work = if let App::Program { program, server } = &flow.app {
        let words = if outside.sends { program } else { server };
        let words = words.iter().map(|word| filled(word, plan, flow, outside)).collect();
        // A server is there before it is asked.
        let span = if outside.sends { span } else { RunSpan { start: zero, ..span } };
        FlowTask::Program(program::run(namespace, words, span).map_err(fails)?)
    } else {
        FlowTask::Sockets(kernel::run(namespace, job(plan, flow, outside)?, span).map_err(fails)?)
    };
    let report = Arc::clone(&outside.report);
    Ok(RunningFlowEnd { flow: outside.flow, sends: outside.sends, report, work, ended: None })
}

/// What `{to}`, `{from}` and `{port}` stand for.
fn filled(word: &str, plan: &Plan, flow: &FlowPlan, outside: &ExternalEnd) -> String {
    let (to, port) = (outside.remote.ip().to_string(), outside.remote.port().to_string());
    let from = outside.from.to_string();
    let seconds = plan.duration.as_nanos().saturating_sub(flow.start.as_nanos()) / 1_000_000_000;
    word.replace("{to}", &to)
        .replace("{from}", &from)
        .replace("{port}", &port)
        .replace("{seconds}", &seconds.to_string())
}

/// What an end does on the sockets of a kernel.
fn job(plan: &Plan, flow: &FlowPlan, outside: &ExternalEnd) -> Result<Job, String> {
    let (at, to) = (outside.remote, outside.remote);
    let stream = |bytes: Option<u64>| {
        if !outside.sends {
            return Job::Sink { at };
        }
        let own = plan.nodes[flow.from].congestion_control;
        let algorithm = flow.congestion_control.or(own).unwrap_or_default();
        Job::Send { to, congestion_control: Some(algorithm.name().into()), bytes }
    };
    let datagrams = |size: u64, interval: Duration, probes: bool| {
        if outside.sends {
            Job::Datagrams { to, size: size as usize, interval, probes }
        } else {
            Job::DatagramSink { at, echo: probes }
        }
    };
    Ok(match &flow.app {
        App::Bulk => stream(None),
        App::Fixed { bytes } => stream(Some(*bytes)),
        App::Cbr { rate, size } => datagrams(*size, rate.time_to_send(Bytes(*size as u32)), false),
        App::Probe { interval, size } => datagrams(*size, *interval, true),
        App::Ping { interval, size } => {
            Job::Ping { to: to.ip(), size: *size as usize, interval: *interval }
        }
        other => {
            return Err(format!(
                "{}: \"{}\" does not run on a kernel's stack: use bulk, fixed, cbr, probe, ping or \
                 program, or `stack = \"ours\"`",
                flow.name,
                other.word()
            ));
        }
    })
}

impl RunningFlowEnd {
    /// What it has to show now.
    pub fn report_now(&self) -> AppReport {
        match &self.work {
            FlowTask::Sockets(sockets) => report_of(sockets.report()),
            FlowTask::Program(program) => of_program(program),
        }
    }

    /// Waits until it has ended.
    ///
    /// # Errors
    /// It could not do its work.
    pub fn end(&mut self) -> Result<(), String> {
        match &mut self.work {
            FlowTask::Sockets(sockets) => sockets.report().failed.map_or(Ok(()), Err),
            FlowTask::Program(program) => {
                let ended = program.wait().map_err(|error| error.to_string())?;
                let failed = ended.failed.clone();
                self.ended = Some(ended);
                // A server is ended by us.
                failed.filter(|_| self.sends).map_or(Ok(()), Err)
            }
        }
    }

    /// What a program has printed.
    pub fn output(&self) -> Option<&str> {
        self.ended.as_ref().map(|ended| ended.output.as_str())
    }
}

fn report_of(done: kernel::Report) -> AppReport {
    AppReport {
        socket: None,
        sent_bytes: done.sent_bytes,
        received_bytes: done.received_bytes,
        sent: done.sent,
        received: done.received,
        started: done.started,
        first_received: None,
        last_received: done.last_received,
        finished: done.finished,
        round_trips: done.round_trips,
    }
}

/// When a program began and ended; if it printed iperf3's JSON, how much was received.
fn of_program(program: &Program) -> AppReport {
    let state = program.state();
    let mut report =
        AppReport { started: state.started, finished: state.finished, ..AppReport::default() };
    if state.finished.is_some()
        && let Ok(printed) = serde_json::from_str::<Json>(&state.output)
    {
        let received = &printed["end"]["sum_received"]["bytes"];
        report.received_bytes = received.as_u64().unwrap_or(0);
        report.last_received = state.finished;
    }
    report
}
