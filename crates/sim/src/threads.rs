//! Several threads, each with a partition of its own: all that the simulator has of them.
//!
//! In an epoch partitions do not hear of each other. At its end each thread puts down what goes to
//! others, what observers are to see, and when it has something to do again; then they meet once,
//! and each finds out alone which epoch is next. There are two sets of places to put things down,
//! used in turns: who is late still reads one while others fill the other one. The thread that called
//! also shows observers what they are to see, while others are at the next epoch already.

use crate::divide::Share;
use crate::groups::Chooser;
use crate::log::Records;
use crate::partition::Crossing;
use crate::record::{Observer, Sees};
use datapath::units::Instant;
use std::hint::spin_loop;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

/// Works off epochs from `done` on, which it moves, up to `limit` or as long as something is to be
/// done. True if nodes are to be grouped anew.
pub(crate) fn run(
    shares: &mut [Share],
    (done, limit): (&mut Instant, Instant),
    chooser: &mut Chooser,
    observers: &mut [(Sees, Box<dyn Observer>)],
) -> bool {
    let board = Board::new(shares);
    let (begin, mut regroup) = (*done, false);
    let Some((first, others)) = shares.split_first_mut() else { return false };
    thread::scope(|scope| {
        let board = &board;
        let threads: Vec<_> = (1..)
            .zip(others)
            .map(|(me, share)| {
                let work = move || Worker { me, share, board }.run((begin, limit), &mut Nothing);
                let builder = thread::Builder::new().name(format!("world-{me}"));
                builder.spawn_scoped(scope, work).expect("the system has room for a thread")
            })
            .collect();
        let mut caller = Caller { chooser, observers, regroup: false };
        let reached = Worker { me: 0, share: first, board }.run((begin, limit), &mut caller);
        regroup = caller.regroup;
        for thread in threads {
            // Its panic is the world's.
            thread.join().unwrap_or_else(|panic| resume_unwind(panic));
        }
        *done = reached.unwrap_or(*done);
    });
    regroup
}

/// What threads tell each other.
struct Board {
    meeting: Meeting,
    sides: [Side; 2],
}

/// What they tell at the end of one epoch.
struct Side {
    told: Vec<Told>,
    /// From each to each.
    crossings: Vec<Mutex<Vec<Crossing>>>,
    records: Vec<Mutex<Records>>,
    /// All are to stop.
    stop: AtomicBool,
}

/// What a thread tells all others.
#[derive(Default)]
#[repr(align(128))]
struct Told {
    /// The number of its next epoch.
    next: AtomicU64,
    /// Events of this one.
    events: AtomicU64,
    /// To whom packets cross, a bit each.
    crosses: AtomicU64,
}

/// Nothing is to be done.
const NEVER: u64 = u64::MAX;

/// Locks what one thread uses at a time; who has panicked is noticed elsewhere.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn all<T: Default>(count: usize) -> Vec<T> {
    (0..count).map(|_| T::default()).collect()
}

impl Board {
    fn new(shares: &[Share]) -> Self {
        let threads = shares.len();
        let side = || Side {
            told: all(threads),
            crossings: all(threads * threads),
            records: all(threads),
            stop: AtomicBool::new(false),
        };
        let board = Self { meeting: Meeting::new(threads), sides: [side(), side()] };
        for (told, share) in board.sides[0].told.iter().zip(shares) {
            told.next.store(share.part.next_epoch().unwrap_or(NEVER), Ordering::Relaxed);
        }
        board
    }
}

impl Side {
    fn next(&self) -> u64 {
        let all = self.told.iter().map(|told| told.next.load(Ordering::Relaxed));
        all.min().unwrap_or(NEVER)
    }

    fn events(&self) -> u64 {
        self.told.iter().map(|told| told.events.load(Ordering::Relaxed)).sum()
    }

    /// Puts down what a thread has to tell.
    fn tell(&self, me: usize, share: &mut Share, events: u64) {
        let part = &mut share.part;
        let told = &self.told[me];
        told.next.store(part.next_epoch().unwrap_or(NEVER), Ordering::Relaxed);
        told.events.store(events, Ordering::Relaxed);
        let mut crosses = 0;
        let count = self.told.len();
        for (to, out) in part.out.iter_mut().enumerate().filter(|(_, out)| !out.is_empty()) {
            core::mem::swap(out, &mut *lock(&self.crossings[me * count + to]));
            crosses |= 1 << (to % 64);
        }
        told.crosses.store(crosses, Ordering::Relaxed);
        part.out_at = Instant::FAR_FUTURE;
        if !part.log.records.is_empty() {
            part.log.records.close(&part.names);
            core::mem::swap(&mut part.log.records, &mut *lock(&self.records[me]));
        }
    }

    /// Takes in what others have sent.
    fn receive(&self, me: usize, share: &mut Share) {
        for (from, told) in self.told.iter().enumerate() {
            if told.crosses.load(Ordering::Relaxed) & 1 << (me % 64) != 0 {
                let mut crossings = lock(&self.crossings[from * self.told.len() + me]);
                crossings.drain(..).for_each(|crossing| share.part.admit(crossing));
            }
        }
    }
}

/// What only the thread that called does.
trait Between {
    /// A meeting has ended: true if all are to stop at the next one.
    fn after(&mut self, side: &Side) -> bool;
}

struct Nothing;

impl Between for Nothing {
    fn after(&mut self, _side: &Side) -> bool {
        false
    }
}

struct Caller<'a> {
    chooser: &'a mut Chooser,
    observers: &'a mut [(Sees, Box<dyn Observer>)],
    regroup: bool,
}

impl Between for Caller<'_> {
    fn after(&mut self, side: &Side) -> bool {
        if !self.observers.is_empty() {
            let mut records: Vec<_> = side.records.iter().map(lock).collect();
            Records::show_all(&mut records, self.observers);
        }
        self.regroup |= self.chooser.count(side.events());
        self.regroup
    }
}

/// A thread.
struct Worker<'a> {
    me: usize,
    share: &'a mut Share,
    board: &'a Board,
}

impl Worker<'_> {
    /// Gives the time before which everything is done; `None` if another thread has panicked.
    fn run(
        self,
        (mut done, limit): (Instant, Instant),
        between: &mut impl Between,
    ) -> Option<Instant> {
        let _leaves = Leaves(&self.board.meeting);
        for turn in 0.. {
            let side = &self.board.sides[turn % 2];
            side.receive(self.me, self.share);
            let stop = between.after(side);
            let number = side.next();
            let begin = self.share.part.calendar.begin(number).max(done);
            if number == NEVER || begin >= limit || side.stop.load(Ordering::Relaxed) {
                return Some(done);
            }
            done = self.share.part.calendar.begin(number + 1).min(limit);
            let before = self.share.part.stats.events;
            self.share.epoch.run(&mut self.share.part, number, done);
            let events = self.share.part.stats.events - before;
            let other = &self.board.sides[(turn + 1) % 2];
            other.tell(self.me, self.share, events);
            if self.me == 0 {
                other.stop.store(stop, Ordering::Relaxed);
            }
            self.board.meeting.attend()?;
        }
        None
    }
}

/// Whoever leaves in a panic tells those who would wait.
struct Leaves<'a>(&'a Meeting);

impl Drop for Leaves<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.break_up();
        }
    }
}

/// Where all threads meet again and again.
struct Meeting {
    threads: usize,
    /// How often a thread that waits looks before it sleeps.
    looks: u32,
    arrived: AtomicUsize,
    /// How often all have met.
    round: AtomicU32,
    sleepers: AtomicUsize,
    broken: AtomicBool,
    asleep: Mutex<()>,
    woken: Condvar,
}

/// About 50 µs: as long as it takes to sleep and be woken.
const LOOKS: u32 = 2_000;

impl Meeting {
    fn new(threads: usize) -> Self {
        let cores = thread::available_parallelism().map_or(1, usize::from);
        Self {
            threads,
            looks: if threads > cores { 0 } else { LOOKS },
            arrived: AtomicUsize::new(0),
            round: AtomicU32::new(0),
            sleepers: AtomicUsize::new(0),
            broken: AtomicBool::new(false),
            asleep: Mutex::new(()),
            woken: Condvar::new(),
        }
    }

    /// Waits for all others; what each did before is then known to all. `None` if one has panicked.
    fn attend(&self) -> Option<()> {
        let round = self.round.load(Ordering::Acquire);
        if self.arrived.fetch_add(1, Ordering::AcqRel) + 1 == self.threads {
            self.arrived.store(0, Ordering::Relaxed);
            self.round.store(round.wrapping_add(1), Ordering::SeqCst);
            self.wake();
        } else {
            self.wait(round);
        }
        (!self.broken.load(Ordering::SeqCst)).then_some(())
    }

    fn is_over(&self, round: u32) -> bool {
        self.round.load(Ordering::SeqCst) != round || self.broken.load(Ordering::SeqCst)
    }

    fn wait(&self, round: u32) {
        for _ in 0..self.looks {
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
            // Who is about to sleep holds this.
            drop(lock(&self.asleep));
            self.woken.notify_all();
        }
    }

    fn break_up(&self) {
        self.broken.store(true, Ordering::SeqCst);
        self.wake();
    }
}
