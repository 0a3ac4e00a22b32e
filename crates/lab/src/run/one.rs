//! One run: a plan in a world of its own, from its first packet to its results.

use std::sync::atomic::Ordering;
use std::time;

use apps::Streams;
use datapath::units::{Duration, Instant};

use super::build::{self, BuiltWorld};
use super::capture::{self, OpenCapture};
use super::clock::Clock;
use super::sample::{RunSamples, Sampler};
use super::shown::{self, ViewRecorder};
use super::sockets::{self, SsAt};
use super::utilisation::Utilisation;
use super::{Error, Options, measure, workload};
use crate::flent;
use crate::output::{record, tables};
use crate::plan::{Plan, Role, Stack};
use crate::results::{FlowExplanation, FlowRecord, Metric, RunResult, Series, SocketDump};
use crate::stems;
use crate::store::Store;
use crate::trace::TraceOutputs;
use crate::trace::tracer::RunTracer;

/// How often progress is reported and the stop flag is read, in virtual time.
const TELL_EVERY: Duration = Duration::from_millis(100);
/// The flag is read at least about so often in real time, however many events there are.
const PATIENCE: time::Duration = time::Duration::from_millis(200);
/// The first step, before it is known how long that takes, and the shortest one.
const FIRST_STEP: Duration = Duration::from_micros(100);
const LEAST_STEP: Duration = Duration::from_micros(1);

/// Runs one plan in one world.
///
/// # Errors
/// When it was stopped or the world could not be built.
pub fn run_plan(plan: &Plan, name: &str, options: &Options<'_>) -> Result<RunResult, Error> {
    let on_stack = options.live.and_then(|live| live.stack).map(|stack| on_stack(plan, stack));
    let plan = on_stack.as_ref().unwrap_or(plan);
    let wanted = options.wanted.filter(|_| options.store.is_some());
    let view = wanted.is_some_and(|wanted| wanted.view);
    let mut widened = view.then(|| shown::widened(plan));
    if let Some(wanted) = wanted.filter(|wanted| !wanted.pcap.is_empty()) {
        capture::add(widened.get_or_insert_with(|| plan.clone()), &wanted.pcap);
    }
    let mut run = Run::begin(plan, widened.as_ref().unwrap_or(plan), view, name, options)?;
    while run.now() < run.end {
        run.run_to_sample()?;
        run.take_samples()?;
        if run.built.all_finished() {
            break;
        }
    }
    run.finish()
}

/// The length of the next step if `step` took so long: a quarter of the allowed time, or eight times the step
/// if that took hardly any time.
fn step_after(step: Duration, took: time::Duration) -> Duration {
    let fits = PATIENCE.as_nanos() / 4 * u128::from(step.as_nanos()) / took.as_nanos().max(1);
    let fits = u64::try_from(fits).unwrap_or(u64::MAX).min(step.as_nanos().saturating_mul(8));
    Duration::from_nanos(fits).clamp(LEAST_STEP, TELL_EVERY)
}

/// The plan with all its hosts on this stack.
fn on_stack(plan: &Plan, stack: Stack) -> Plan {
    let mut plan = plan.clone();
    for node in plan.nodes.iter_mut().filter(|node| node.role == Role::Host) {
        node.stack = stack;
    }
    plan
}

/// A run that goes on.
struct Run<'a> {
    plan: &'a Plan,
    /// What is measured: more than the plan says if the viewer is to show it, or the command line asks for captures.
    seen: &'a Plan,
    name: &'a str,
    options: &'a Options<'a>,
    built: BuiltWorld,
    clock: Clock,
    end: Instant,
    /// When the next sample is due.
    next: Instant,
    /// Until when progress has been reported.
    reported_until: Instant,
    /// The length of a step without reading the stop flag.
    step: Duration,
    /// When sockets are to be dumped, the first time last.
    dumps_at: Vec<Instant>,
    dumps: Vec<SocketDump>,
    captures: Vec<OpenCapture>,
    tracer: Option<RunTracer>,
    shown: Option<ViewRecorder>,
    sampler: Sampler,
    utilisation: Utilisation,
}

impl<'a> Run<'a> {
    fn begin(
        plan: &'a Plan,
        seen: &'a Plan,
        view: bool,
        name: &'a str,
        options: &'a Options<'a>,
    ) -> Result<Self, Error> {
        let mut built = build::build(plan, options.live.is_some()).map_err(Error::World)?;
        built.world.set_threads(options.threads);
        built.world.set_grouping(options.grouping);
        let captures = match options.store {
            Some(store) => capture::begin(&mut built, seen, store, name)?,
            None => Vec::new(),
        };
        let wanted = options.wanted.map(|wanted| {
            if view { shown::with_explained_flows(wanted, plan) } else { wanted.clone() }
        });
        let tracer = wanted.filter(TraceOutputs::needs_events);
        let tracer = tracer.map(|wanted| RunTracer::open(&wanted, plan, &mut built)).transpose()?;
        let clock = Clock::begin(plan, &mut built, options.live)?;
        let shown = view.then(|| ViewRecorder::new(plan, &mut built));
        Ok(Self {
            plan,
            seen,
            name,
            options,
            built,
            clock,
            end: Instant::ZERO + plan.duration,
            next: Instant::ZERO,
            reported_until: Instant::ZERO,
            step: FIRST_STEP,
            dumps_at: dump_times(options.ss_at),
            dumps: Vec::new(),
            captures,
            tracer,
            shown,
            sampler: Sampler::new(plan),
            utilisation: Utilisation::new(seen),
        })
    }

    fn now(&self) -> Instant {
        self.built.world.now()
    }

    /// Runs until the next sample is due, interrupted wherever a change or a dump is due before.
    fn run_to_sample(&mut self) -> Result<(), Error> {
        self.next = (self.now() + self.plan.measure.sample).min(self.end);
        loop {
            self.check_stop()?;
            let warmup_end = Instant::ZERO + self.plan.warmup;
            let warmup_end = Some(warmup_end).filter(|end| *end > self.now());
            let at = self.next_stop(warmup_end);
            self.run_until(at)?;
            self.change()?;
            self.update_observers(at);
            if warmup_end == Some(at) {
                self.sampler.end_warmup(&self.built);
                self.utilisation.end_warmup(self.seen, &self.built);
            }
            if at == self.next && self.dumps_at.last().is_none_or(|dump| *dump > at) {
                return Ok(());
            }
        }
    }

    fn check_stop(&self) -> Result<(), Error> {
        if self.options.stop.load(Ordering::Relaxed) { Err(Error::Stopped) } else { Ok(()) }
    }

    /// Runs until `at`. If that takes long, it reads the stop flag now and then; results do
    /// not depend on where a world is interrupted in between.
    fn run_until(&mut self, at: Instant) -> Result<(), Error> {
        while matches!(self.clock, Clock::Virtual) && at.saturating_since(self.now()) > self.step {
            let (begun, next) = (time::Instant::now(), self.now() + self.step);
            self.clock.run_until(&mut self.built, next)?;
            self.step = step_after(self.step, begun.elapsed());
            self.check_stop()?;
        }
        self.clock.run_until(&mut self.built, at)
    }

    fn next_stop(&self, warmup_end: Option<Instant>) -> Instant {
        let stops = [
            self.built.changes.next_at(),
            self.dumps_at.last().copied(),
            warmup_end,
            Some(self.now() + TELL_EVERY),
            self.tracer.as_ref().map(RunTracer::next),
        ];
        stops.into_iter().flatten().fold(self.next, Instant::min)
    }

    /// Does what the plan says for this time.
    fn change(&mut self) -> Result<(), Error> {
        if let Some(shown) = &mut self.shown {
            shown.before(self.plan, &self.built);
        }
        self.built.changes.apply_due(&mut self.built.world).map_err(Error::World)?;
        if let Some(shown) = &mut self.shown {
            shown.after(self.plan, &self.built);
        }
        Ok(())
    }

    /// Updates the trace, and dumps sockets if that is due.
    fn update_observers(&mut self, at: Instant) {
        if let Some(tracer) = &mut self.tracer {
            tracer.sample_queues(&self.built);
        }
        if self.dumps_at.pop_if(|dump| *dump <= at).is_some() {
            self.dumps.extend(sockets::list_sockets(self.plan, &self.built));
        }
    }

    fn take_samples(&mut self) -> Result<(), Error> {
        self.sampler.take(&self.built);
        self.utilisation.take(self.seen, &self.built);
        if let Some(shown) = &mut self.shown {
            shown.take(&self.built);
        }
        if self.next.saturating_since(self.reported_until) >= TELL_EVERY {
            self.report_progress(self.next);
        }
        workload::check_limits(self.plan, &self.built).map_err(Error::World)
    }

    fn report_progress(&mut self, until: Instant) {
        let span = until.saturating_since(self.reported_until);
        let share = span.as_nanos() as f64 / self.plan.duration.as_nanos() as f64;
        self.options.progress.advanced(span.as_nanos(), share);
        self.reported_until = until;
    }

    /// The run is over: returns its results.
    fn finish(mut self) -> Result<RunResult, Error> {
        if self.options.ss_at.contains(&SsAt::End) {
            self.dumps.extend(sockets::list_sockets(self.plan, &self.built));
        }
        self.report_progress(self.end);
        let Self { plan, seen, name, options, built, .. } = self;
        let mut explained =
            self.tracer.map_or(Ok(Vec::new()), |tracer| tracer.finish(plan, &built))?;
        measure::assert_conserved(plan, &built);
        let sampled = self.sampler.finish();
        let (flows, mut metrics) = measured(plan, &built, &sampled, &self.utilisation)?;
        let mut distributions = workload::distributions(plan, &flows);
        distributions.extend(measure::distributions(plan, &built, &sampled));
        let mut series = sampled.into_series();
        let mut links = self.utilisation.into_series(seen);
        series.extend(links.drain(..plan.measure.utilisation.len()));
        series.extend(measure::latency_series(plan, &built));
        let mut files = match options.store {
            Some(_) => capture::files(seen, name),
            None => Vec::new(),
        };
        self.clock.finish(plan, name, options.store, &mut files, &mut metrics)?;
        let view = self.shown.is_some();
        let (more, rings) =
            self.shown.map_or((Vec::new(), None), |shown| shown.finish(plan, &built));
        if let Some(store) = options.store {
            let mut writing = RunFiles { store, plan, name, files: &mut files };
            if options.network {
                writing.view("world.json", &shown::world(plan, seen, view).to_string())?;
            }
            if let Some(rings) = rings {
                writing.view("rings.json", &rings.to_string())?;
            }
            writing.series(links.into_iter().chain(more), options)?;
            writing.explained(&explained)?;
        }
        if let Some(wanted) = options.wanted {
            explained.retain(|one| shown::is_explained(wanted, &one.flow));
        }
        let recorded = options.wanted.cloned().unwrap_or_default();
        let test = plan.measure.flent.filter(|_| options.store.is_some());
        let nodes = plan.nodes.iter().filter(|_| !flows.is_empty());
        let result = RunResult {
            name: name.into(),
            seed: plan.seed,
            identity: options.store.map_or(String::new(), |_| record::identity(plan, &recorded)),
            files,
            flent: test.map(|test| flent::data_file(test, plan, name, &series)),
            metrics,
            series,
            distributions,
            nodes: nodes.map(|node| node.name.clone()).collect(),
            flows,
            tc: measure::tc_states(plan, &built),
            fingerprint: built.fingerprint.borrow().hash,
            virtual_ns: built.world.now().as_nanos(),
            drawn: Vec::new(),
            sockets: self.dumps,
            explained,
        };
        drop(built);
        capture::finish(self.captures)?;
        Ok(result)
    }
}

/// When sockets are to be dumped but for the end, the first time last.
fn dump_times(ss_at: &[SsAt]) -> Vec<Instant> {
    let times = ss_at.iter().filter_map(|at| match at {
        SsAt::Time(at) => Some(Instant::ZERO + *at),
        SsAt::End => None,
    });
    let mut times: Vec<Instant> = times.collect();
    times.sort_unstable_by(|a, b| b.cmp(a));
    times
}

/// All flows, those of `[flows]` first, and the numbers of one repetition.
fn measured(
    plan: &Plan,
    built: &BuiltWorld,
    sampled: &RunSamples,
    utilisation: &Utilisation,
) -> Result<(Vec<FlowRecord>, Vec<Metric>), Error> {
    let of_workloads = workload::records(plan, built);
    let mut metrics = measure::metrics(plan, built, sampled, &of_workloads);
    let flows = workload::flow_records(plan, built, sampled).into_iter();
    let flows: Vec<_> = flows.chain(of_workloads).collect();
    metrics.extend(workload::metrics(plan, &flows));
    metrics.extend(utilisation.metrics(plan, built));
    if plan.bytes {
        let streams = built.world.streams().map(|(_, streams)| streams);
        metrics.extend(measure::bytes(&Streams::compare(streams).map_err(Error::World)?));
    }
    Ok((flows, metrics))
}

/// Files of one run besides its results.
struct RunFiles<'a> {
    store: &'a Store,
    plan: &'a Plan,
    name: &'a str,
    files: &'a mut Vec<String>,
}

impl RunFiles<'_> {
    fn write(&mut self, file: String, text: &str) -> Result<(), Error> {
        self.store.write(&file, text.as_bytes())?;
        self.files.push(file);
        Ok(())
    }

    /// What `ackwright view` shows.
    fn view(&mut self, file: &str, text: &str) -> Result<(), Error> {
        self.write(shown::file(self.name, file), text)
    }

    fn series(
        &mut self,
        series: impl Iterator<Item = Series>,
        options: &Options<'_>,
    ) -> Result<(), Error> {
        for one in series {
            let file = shown::file(self.name, &format!("{}.parquet", one.name));
            let labels = tables::labels(options.labels, self.plan.seed, &one);
            self.store.write_series(&file, &one, &labels)?;
            self.files.push(file);
        }
        Ok(())
    }

    fn explained(&mut self, explained: &[FlowExplanation]) -> Result<(), Error> {
        for one in explained {
            let file = format!("explain/{}-{}.txt", self.name, stems::file_stem(&one.flow));
            self.write(file, &format!("{}\n{}", one.why, one.story))?;
        }
        Ok(())
    }
}
