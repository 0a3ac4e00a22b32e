//! What every kind of case can do.

use core::fmt;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::kind::Kind;

/// A case: plain data, completely drawn before it runs.
pub trait Case: Clone + fmt::Debug + Serialize + DeserializeOwned {
    /// Which kind it is.
    const KIND: Kind;

    /// The greatest numbers of a case file, by key, where some are too large to be carried out.
    const LIMITS: &'static [(&'static str, u64)];

    /// The case that a seed stands for.
    fn draw(seed: u64) -> Self;

    /// Runs it under every oracle. Panics are violations as well: see [`crate::judge`](mod@crate::judge).
    fn run(&self) -> Result<Outcome, Violation>;

    /// Cases that are simpler than this one, those with the most left out first. Each must be smaller by some measure,
    /// so that shrinking ends.
    fn simpler(&self) -> Vec<Self>;
}

/// A case that is checked step by step.
pub trait StepwiseCase {
    /// What one step does.
    type Step;

    /// Carries it out, and checks whether a law is broken.
    fn step(&mut self, number: usize, step: &Self::Step) -> Result<(), Violation>;

    /// After the last step.
    fn finish(&mut self) -> Result<(), Violation>;

    /// A hash of everything that was observed.
    fn digest(&self) -> u64;
}

/// Carries out all steps, and what follows the last one.
pub fn run_steps<B: StepwiseCase>(mut bench: B, steps: &[B::Step]) -> Result<Outcome, Violation> {
    for (number, step) in steps.iter().enumerate() {
        bench.step(number, step)?;
    }
    bench.finish()?;
    Ok(Outcome { digest: bench.digest(), steps: steps.len() as u64 })
}

/// The outcome of a case that broke no law.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Outcome {
    /// A hash of everything that was observed, and when: equal for equal cases.
    pub digest: u64,
    /// Steps, events or calls that were made.
    pub steps: u64,
}

/// The name of a law, and how it was broken.
pub type BrokenLaw = (&'static str, String);

/// A law that was broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The oracle that reported it, by its name in docs/TESTING.md; `panic` for a panic.
    pub oracle: &'static str,
    /// When: virtual time or the number of the step.
    pub at: String,
    /// What was expected and what was observed.
    pub what: String,
}

impl Violation {
    /// A violation at a place (a time, a step).
    pub fn new(oracle: &'static str, at: impl fmt::Display, what: impl fmt::Display) -> Self {
        Self { oracle, at: at.to_string(), what: what.to_string() }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {}: {}", self.oracle, self.at, self.what)
    }
}

/// A running hash of observations (FNV-1a over 64-bit words).
#[derive(Clone, Copy, Debug)]
pub struct Digest(u64);

impl Default for Digest {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Digest {
    /// Adds a number.
    pub fn add(&mut self, value: u64) {
        self.0 = (self.0 ^ value).wrapping_mul(0x0000_0100_0000_01b3).rotate_left(23);
    }

    /// Adds a text.
    pub fn add_text(&mut self, text: &str) {
        for byte in text.bytes() {
            self.add(u64::from(byte));
        }
    }

    /// The hash so far.
    pub const fn value(self) -> u64 {
        self.0
    }
}
