//! Runs many seeds on many threads.

use core::ops::Range;
use std::num::NonZeroUsize;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::case::{Outcome, Violation};
use crate::kind::Kind;
use crate::{judge, with_case};

/// Which seeds of which kind run, on how many threads.
#[derive(Clone, Debug)]
pub struct Campaign {
    /// The kind of cases.
    pub kind: Kind,
    /// The seeds, the last one not included.
    pub seeds: Range<u64>,
    /// How many run at a time; no more threads are started than there are seeds.
    pub jobs: NonZeroUsize,
}

impl Campaign {
    fn threads(&self) -> u64 {
        let seeds = self.seeds.end.saturating_sub(self.seeds.start);
        (self.jobs.get() as u64).min(seeds)
    }
}

/// Follows a campaign while it runs. Called from several threads.
pub trait Watcher: Sync {
    /// A seed has been judged.
    fn finished(&self, seed: u64, verdict: &Result<Outcome, Violation>);

    /// A seed exceeds the limits of time or memory. A running case cannot be interrupted from outside, so nothing else
    /// ends it.
    fn exceeds(&self, seed: u64, what: &str);

    /// True if no more seeds are to be started.
    fn stop(&self) -> bool;
}

/// The result of a campaign.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    /// Seeds judged.
    pub seeds: u64,
    /// Their steps, added up.
    pub steps: u64,
    /// The seeds that failed, in their order.
    pub failed: Vec<(u64, Violation)>,
}

/// The time limit of a seed.
const SLOW: Duration = Duration::from_mins(10);

/// The memory limit of a seed, in bytes.
const MEMORY: u64 = 512 << 20;

/// The seed of an idle worker.
const IDLE: u64 = u64::MAX;

/// Judges all seeds, unless the watcher stops it earlier.
pub fn run(campaign: &Campaign, watcher: &impl Watcher) -> Summary {
    let next = AtomicU64::new(campaign.seeds.start);
    let summary = Mutex::new(Summary::default());
    let workers: Vec<Mutex<(u64, Instant)>> =
        (0..campaign.threads()).map(|_| Mutex::new((IDLE, Instant::now()))).collect();
    let finished = AtomicU64::new(0);
    thread::scope(|scope| {
        for worker in &workers {
            scope.spawn(|| {
                work(campaign, watcher, &next, worker, &summary);
                finished.fetch_add(1, Ordering::Relaxed);
            });
        }
        while finished.load(Ordering::Relaxed) < workers.len() as u64 {
            thread::sleep(Duration::from_millis(20));
            report_excess(&workers, watcher);
        }
    });
    let mut summary = summary.into_inner().expect("no worker panics");
    summary.failed.sort_by_key(|(seed, _)| *seed);
    summary
}

fn work(
    campaign: &Campaign,
    watcher: &impl Watcher,
    next: &AtomicU64,
    place: &Mutex<(u64, Instant)>,
    summary: &Mutex<Summary>,
) {
    while !watcher.stop() {
        // Not past the end: several workers get there, and the numbers would wrap to 0.
        let after = |seed| (seed < campaign.seeds.end).then(|| seed + 1);
        let Ok(seed) = next.fetch_update(Ordering::Relaxed, Ordering::Relaxed, after) else {
            break;
        };
        *place.lock().expect("no worker panics") = (seed, Instant::now());
        let verdict = with_case!(campaign.kind, judge::seed(seed));
        watcher.finished(seed, &verdict);
        let mut summary = summary.lock().expect("no worker panics");
        summary.seeds += 1;
        match verdict {
            Ok(outcome) => summary.steps += outcome.steps,
            Err(violation) => summary.failed.push((seed, violation)),
        }
    }
    place.lock().expect("no worker panics").0 = IDLE;
}

fn report_excess(workers: &[Mutex<(u64, Instant)>], watcher: &impl Watcher) {
    let held = resident_bytes().unwrap_or(0);
    let large = held > MEMORY * workers.len() as u64;
    for worker in workers {
        let (seed, since) = *worker.lock().expect("no worker panics");
        if seed != IDLE && since.elapsed() > SLOW {
            watcher.exceeds(seed, &format!("does not end: {} s so far", since.elapsed().as_secs()));
        }
        if seed != IDLE && large {
            watcher.exceeds(seed, &format!("and those beside it hold {} MB", held >> 20));
        }
    }
}

/// Resident memory of this process in bytes; `None` where the system does not report it.
fn resident_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A watcher that ignores everything.
    struct Nobody(Instant);

    impl Watcher for Nobody {
        fn finished(&self, _: u64, _: &Result<Outcome, Violation>) {}
        fn exceeds(&self, seed: u64, what: &str) {
            panic!("{seed} {what}");
        }
        fn stop(&self) -> bool {
            self.0.elapsed() > Duration::from_mins(1)
        }
    }

    #[test]
    fn the_largest_seeds_are_followed_by_none() {
        let jobs = NonZeroUsize::new(4).expect("one or more");
        let campaign = Campaign { kind: Kind::Wire, seeds: u64::MAX - 5..u64::MAX, jobs };
        assert_eq!(run(&campaign, &Nobody(Instant::now())).seeds, 5);
    }

    #[test]
    fn no_more_threads_are_started_than_there_are_seeds() {
        let threads = |jobs, seeds| {
            let jobs = NonZeroUsize::new(jobs).expect("one or more");
            Campaign { kind: Kind::ALL[0], seeds, jobs }.threads()
        };
        assert_eq!(threads(1_000_000, 4..7), 3);
        assert_eq!(threads(2, 4..7), 2);
        assert_eq!(threads(2, 0..u64::MAX), 2);
    }
}
