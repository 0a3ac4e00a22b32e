//! Several threads, each with a partition of its own (all code of the simulator about threads).
//!
//! A packet from one partition to another takes at least an epoch, over long links several. For so long partitions
//! cannot affect each other. Then each thread publishes its packets for others, its records for observers, and the time
//! of its next epoch; all meet at one barrier, and each computes alone which epochs are next. There are two sets of
//! exchange buffers, used alternately: a late thread still reads one while others fill the other. The calling thread
//! also shows records to observers, while the others are already in the next epochs.

use crate::crossing::Crossings;
use crate::divide::Shard;
use crate::groups::Chooser;
use crate::log::{Observers, Records};
use datapath::units::Instant;
use std::hint::spin_loop;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, LazyLock, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time;

/// The threads of a world besides the calling one. They live as long as the world, and sleep between its runs.
#[derive(Default)]
pub(crate) struct ThreadPool {
    members: Vec<PoolThread>,
    /// That of the latest run, to reuse its memory.
    exchange: Option<Arc<Exchange>>,
}

struct PoolThread {
    jobs: Sender<Job>,
    done: Receiver<Shard>,
    thread: JoinHandle<()>,
}

/// A partition, lent to a thread for one run.
struct Job {
    shard: Shard,
    exchange: Arc<Exchange>,
    epochs: u64,
    at: RunProgress,
    /// Until when.
    limit: Instant,
}

/// How far a run has come.
#[derive(Clone, Copy)]
struct RunProgress {
    turn: usize,
    /// The time before which all events have been processed.
    done: Instant,
    goes_on: bool,
}

/// The maximum number of epochs between two barriers.
pub(crate) const EPOCHS_MOST: u64 = 4;
/// The maximum number of events between two barriers: published packets should still be in the caches when read.
const EVENTS_APART: u64 = 1 << 16;

/// The number of epochs between two barriers if each has so many events.
fn epochs_apart(events_per_epoch: u64) -> u64 {
    EVENTS_APART.div_ceil(events_per_epoch.max(1)).min(EPOCHS_MOST)
}

impl ThreadPool {
    /// The first `count` of them.
    fn first(&mut self, count: usize) -> &[PoolThread] {
        for me in self.members.len() + 1..=count {
            self.members.push(PoolThread::begin(me));
        }
        &self.members[..count]
    }

    /// The exchange for a run of these partitions.
    fn exchange(&mut self, shards: &[Shard]) -> Arc<Exchange> {
        let fits = |exchange: &Arc<Exchange>| exchange.barrier.threads == shards.len();
        let kept = self.exchange.take().filter(fits);
        let exchange = kept.unwrap_or_else(|| Arc::new(Exchange::new(shards.len())));
        exchange.begin(shards);
        self.exchange = Some(Arc::clone(&exchange));
        exchange
    }

    /// A thread has panicked: passes its panic on to the caller.
    fn resume_panic(&mut self) -> ! {
        for member in self.members.drain(..) {
            let PoolThread { jobs, done, thread } = member;
            drop((jobs, done));
            thread.join().unwrap_or_else(|panic| resume_unwind(panic));
        }
        unreachable!("a partition that is not given back was lost in a panic")
    }
}

impl PoolThread {
    fn begin(me: usize) -> Self {
        let (jobs, to_do) = channel::<Job>();
        let (finished, done) = channel();
        let work = move || {
            for Job { mut shard, exchange, epochs, at, limit } in to_do {
                let shards = core::slice::from_mut(&mut shard);
                let worker = Worker { me, shards, exchange: &exchange, epochs };
                worker.run(at, limit, u64::MAX, None);
                if finished.send(shard).is_err() {
                    break;
                }
            }
        };
        let builder = thread::Builder::new().name(format!("world-{me}"));
        let thread = builder.spawn(work).expect("the system has room for a thread");
        Self { jobs, done, thread }
    }
}

/// Processes epochs from `done` on, which it advances, up to `limit` or until there are no events;
/// crossing packets take at least `epochs_ahead` epochs. True if nodes are to be grouped anew.
pub(crate) fn run(
    thread_pool: &mut ThreadPool,
    (shards, epochs_ahead): (&mut Vec<Shard>, u64),
    (done, limit): (&mut Instant, Instant),
    chooser: &mut Chooser,
    observers: &mut Observers,
) -> bool {
    let exchange = thread_pool.exchange(shards);
    // Others are woken only if there is more to do.
    let alone = if chooser.usual < EVENTS_ALONE { EVENTS_ALONE } else { 0 };
    let mut caller = Caller { chooser, observers, regroup: false };
    let mut at = RunProgress { turn: 0, done: *done, goes_on: true };
    let worker = Worker { me: 0, shards: &mut *shards, exchange: &exchange, epochs: 1 };
    at = worker.run(at, limit, alone, Some(&mut caller)).unwrap_or(at);
    if at.goes_on {
        let epochs = epochs_ahead.min(epochs_apart(caller.chooser.usual));
        let members = thread_pool.first(shards.len() - 1);
        for (member, shard) in members.iter().zip(shards.drain(1..)) {
            // A thread that is gone is noticed when its partition is to be returned.
            let exchange = Arc::clone(&exchange);
            let _ = member.jobs.send(Job { shard, exchange, epochs, at, limit });
        }
        let worker = Worker { me: 0, shards: &mut *shards, exchange: &exchange, epochs };
        at = worker.run(at, limit, u64::MAX, Some(&mut caller)).unwrap_or(at);
        shards.extend(members.iter().map_while(|member| member.done.recv().ok()));
        if shards.len() <= members.len() {
            thread_pool.resume_panic();
        }
    }
    // Unless nodes are to be grouped anew, nothing is left to do before `limit`.
    *done = if caller.regroup { at.done } else { limit };
    caller.regroup
}

/// Events that take about as long as waking a few threads.
const EVENTS_ALONE: u64 = 500;

/// Data that threads exchange at barriers.
struct Exchange {
    barrier: Barrier,
    sides: [ExchangeSide; 2],
}

/// One of the two sets of exchange buffers.
struct ExchangeSide {
    reports: Vec<Report>,
    /// Packets from each thread to each.
    crossings: Vec<Mutex<Crossings>>,
    records: Vec<Mutex<Records>>,
    /// All are to stop.
    stop: AtomicBool,
}

/// A thread's report to all others.
#[derive(Default)]
#[repr(align(128))]
struct Report {
    /// The number of its next epoch.
    next: AtomicU64,
    /// The number of its epochs since the last barrier, of their events, and how long they took, ns.
    epochs: AtomicU64,
    events: AtomicU64,
    busy_nanos: AtomicU64,
}

/// No epoch is next.
const NEVER: u64 = u64::MAX;

/// Locks data that one thread uses at a time; panics are noticed elsewhere.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn all<T: Default>(count: usize) -> Vec<T> {
    (0..count).map(|_| T::default()).collect()
}

impl Exchange {
    fn new(threads: usize) -> Self {
        let side = || ExchangeSide {
            reports: all(threads),
            crossings: all(threads * threads),
            records: all(threads),
            stop: AtomicBool::new(false),
        };
        Self { barrier: Barrier::new(threads), sides: [side(), side()] }
    }

    /// A run begins: reports have only the next epochs.
    fn begin(&self, shards: &[Shard]) {
        for side in &self.sides {
            side.stop.store(false, Ordering::Relaxed);
            for (report, shard) in side.reports.iter().zip(shards) {
                report.next.store(shard.part.next_epoch().unwrap_or(NEVER), Ordering::Relaxed);
                for number in [&report.epochs, &report.events, &report.busy_nanos] {
                    number.store(0, Ordering::Relaxed);
                }
            }
        }
    }
}

impl ExchangeSide {
    /// The begin and the end of a span of `epochs` epochs: from the next one in which any thread has events, after
    /// `done` and before `limit`.
    fn next_span(
        &self,
        shard: &Shard,
        epochs: u64,
        (done, limit): (Instant, Instant),
    ) -> Option<(Instant, Instant)> {
        let number = self.reported(|report| &report.next).min().unwrap_or(NEVER);
        let calendar = &shard.part.calendar;
        let begin = calendar.begin(number).max(done);
        let none = number == NEVER || begin >= limit || self.stop.load(Ordering::Relaxed);
        (!none).then(|| (begin, calendar.begin(number + epochs).min(limit)))
    }

    /// Processes a span and publishes the results. Returns the number of events.
    fn run_span(&self, me: usize, shard: &mut Shard, span: (Instant, Instant)) -> u64 {
        let before = shard.part.stats.events;
        let began = time::Instant::now();
        let epochs = shard.epoch.run_span(&mut shard.part, span);
        let events = shard.part.stats.events - before;
        self.report(me, shard);
        let busy_nanos = began.elapsed().as_nanos() as u64;
        let report = &self.reports[me];
        report.epochs.store(epochs, Ordering::Relaxed);
        report.events.store(events, Ordering::Relaxed);
        report.busy_nanos.store(busy_nanos, Ordering::Relaxed);
        events
    }

    /// A value of each thread's report.
    fn reported(&self, what: impl Fn(&Report) -> &AtomicU64) -> impl Iterator<Item = u64> {
        self.reports.iter().map(move |report| what(report).load(Ordering::Relaxed))
    }

    /// Publishes the report, packets and records of a thread.
    fn report(&self, me: usize, shard: &mut Shard) {
        let part = &mut shard.part;
        self.reports[me].next.store(part.next_epoch().unwrap_or(NEVER), Ordering::Relaxed);
        let crossings = &self.crossings[me * part.out.len()..];
        for (out, there) in part.out.iter_mut().zip(crossings).filter(|(out, _)| !out.is_empty()) {
            core::mem::swap(out, &mut *lock(there));
        }
        part.out_at = Instant::FAR_FUTURE;
        if !part.log.records.is_empty() {
            part.log.records.close(&part.names);
            core::mem::swap(&mut part.log.records, &mut *lock(&self.records[me]));
        }
    }

    /// Takes in what others have sent.
    fn receive(&self, me: usize, shard: &mut Shard) {
        for crossings in self.crossings[me..].iter().step_by(self.reports.len()) {
            lock(crossings).drain(|arrival, packet| shard.part.admit(arrival, packet));
        }
    }
}

/// The tasks of the calling thread.
struct Caller<'a> {
    chooser: &'a mut Chooser,
    observers: &'a mut Observers,
    regroup: bool,
}

impl Caller<'_> {
    /// All have met at the barrier: true if they are to stop at the next one.
    fn after(&mut self, side: &ExchangeSide) -> bool {
        if !self.observers.is_empty() {
            let mut records: Vec<_> = side.records.iter().map(lock).collect();
            Records::show_all(&mut records, self.observers);
        }
        let epochs = side.reported(|report| &report.epochs).max().unwrap_or(0);
        self.regroup |= self.chooser.count(epochs, side.reported(|report| &report.events).sum());
        self.regroup |= self.chooser.balance.count(side.reported(|report| &report.busy_nanos));
        self.regroup
    }
}

/// The work of a thread, with one partition or with all.
struct Worker<'a> {
    /// The number of the first.
    me: usize,
    shards: &'a mut [Shard],
    exchange: &'a Exchange,
    /// Epochs between two barriers.
    epochs: u64,
}

impl Worker<'_> {
    /// Processes at least `events` events, or all before `limit`; `None` if another thread has panicked.
    fn run(
        self,
        RunProgress { turn: first, mut done, .. }: RunProgress,
        limit: Instant,
        events: u64,
        mut caller: Option<&mut Caller<'_>>,
    ) -> Option<RunProgress> {
        let _leaves = PoisonOnPanic(&self.exchange.barrier);
        let mut so_far = 0;
        for turn in first.. {
            if so_far >= events {
                return Some(RunProgress { turn, done, goes_on: true });
            }
            let side = &self.exchange.sides[turn % 2];
            for (me, shard) in (self.me..).zip(&mut *self.shards) {
                side.receive(me, shard);
            }
            let stop = caller.as_mut().is_some_and(|caller| caller.after(side));
            let Some(span) = side.next_span(&self.shards[0], self.epochs, (done, limit)) else {
                return Some(RunProgress { turn, done, goes_on: false });
            };
            done = span.1;
            let other = &self.exchange.sides[(turn + 1) % 2];
            for (me, shard) in (self.me..).zip(&mut *self.shards) {
                so_far += other.run_span(me, shard, span);
            }
            if self.me == 0 {
                other.stop.store(stop, Ordering::Relaxed);
            }
            if self.shards.len() < self.exchange.barrier.threads {
                self.exchange.barrier.wait()?;
            }
        }
        None
    }
}

/// A thread that panics releases those that wait for it.
struct PoisonOnPanic<'a>(&'a Barrier);

impl Drop for PoisonOnPanic<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.poison();
        }
    }
}

/// A reusable barrier for all threads.
struct Barrier {
    threads: usize,
    /// How often a thread that waits spins before it sleeps.
    spins: u32,
    arrived: AtomicUsize,
    /// How often all threads have met.
    round: AtomicU32,
    sleepers: AtomicUsize,
    poisoned: AtomicBool,
    asleep: Mutex<()>,
    woken: Condvar,
}

/// About as long as it takes to wake a thread. Longer would be in vain, and giving the processor up
/// in between may cost a whole turn of everything else that runs on the machine.
const SPINS: u32 = 2_000;

impl Barrier {
    fn new(threads: usize) -> Self {
        // The system is asked once: it reads files to answer.
        static CORES: LazyLock<usize> =
            LazyLock::new(|| thread::available_parallelism().map_or(1, usize::from));
        let cores = *CORES;
        Self {
            threads,
            spins: if threads > cores { 0 } else { SPINS },
            arrived: AtomicUsize::new(0),
            round: AtomicU32::new(0),
            sleepers: AtomicUsize::new(0),
            poisoned: AtomicBool::new(false),
            asleep: Mutex::new(()),
            woken: Condvar::new(),
        }
    }

    /// Waits for all others; what each wrote before is then visible to all. `None` if one has panicked.
    fn wait(&self) -> Option<()> {
        let round = self.round.load(Ordering::Acquire);
        if self.arrived.fetch_add(1, Ordering::AcqRel) + 1 == self.threads {
            self.arrived.store(0, Ordering::Relaxed);
            self.round.store(round.wrapping_add(1), Ordering::SeqCst);
            self.wake();
        } else {
            self.wait_for(round);
        }
        (!self.poisoned.load(Ordering::SeqCst)).then_some(())
    }

    fn is_over(&self, round: u32) -> bool {
        self.round.load(Ordering::SeqCst) != round || self.poisoned.load(Ordering::SeqCst)
    }

    fn wait_for(&self, round: u32) {
        for _ in 0..self.spins {
            if self.is_over(round) {
                return;
            }
            spin_loop();
        }
        let mut asleep = lock(&self.asleep);
        self.sleepers.fetch_add(1, Ordering::SeqCst);
        while !self.is_over(round) {
            asleep = self.woken.wait(asleep).unwrap_or_else(PoisonError::into_inner);
        }
        self.sleepers.fetch_sub(1, Ordering::SeqCst);
    }

    fn wake(&self) {
        if self.sleepers.load(Ordering::SeqCst) > 0 {
            // A thread that is about to sleep holds this.
            drop(lock(&self.asleep));
            self.woken.notify_all();
        }
    }

    fn poison(&self) {
        self.poisoned.store(true, Ordering::SeqCst);
        self.wake();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_meet_the_sooner_the_more_an_epoch_holds() {
        let table =
            [(0, 4), (1_000, 4), (20_000, 4), (30_000, 3), (55_000, 2), (65_536, 1), (u64::MAX, 1)];
        for (events, epochs) in table {
            assert_eq!(epochs_apart(events), epochs, "{events} events");
        }
    }
}
