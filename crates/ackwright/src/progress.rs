//! The progress bar: only on a terminal, on standard error.

use std::io::IsTerminal as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use lab::run::Progress;

/// A bar that counts runs and shows how fast virtual time goes.
pub struct Bar {
    line: ProgressBar,
    started: Instant,
    virtual_ns: AtomicU64,
}

impl Bar {
    /// A bar for so many runs.
    pub fn new(runs: u64) -> Self {
        let target = if std::io::stderr().is_terminal() {
            ProgressDrawTarget::stderr()
        } else {
            ProgressDrawTarget::hidden()
        };
        let bar = ProgressBar::with_draw_target(Some(runs * PARTS), target);
        let style = ProgressStyle::with_template("{bar:30} {percent:>3} %  ETA {eta}  {msg}");
        bar.set_style(style.expect("the template is well-formed"));
        bar.enable_steady_tick(Duration::from_millis(200));
        Self { line: bar, started: Instant::now(), virtual_ns: AtomicU64::new(0) }
    }

    /// One of the runs is over.
    pub fn step(&self) {
        self.line.inc(PARTS);
    }

    /// Takes the bar away.
    pub fn finish(&self) {
        self.line.finish_and_clear();
    }
}

/// Steps of the bar per run.
const PARTS: u64 = 1000;

impl Progress for Bar {
    fn advanced(&self, virtual_ns: u64, share: f64) {
        let total = self.virtual_ns.fetch_add(virtual_ns, Ordering::Relaxed) + virtual_ns;
        let real = self.started.elapsed().as_secs_f64();
        self.line.inc((share * PARTS as f64) as u64);
        if real > 0.5 {
            let speed = total as f64 / 1e9 / real;
            self.line.set_message(format!("{speed:.2} x real time"));
        }
    }
}
