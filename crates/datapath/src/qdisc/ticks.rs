//! The timer of a controller that nobody calls between packets: its ticks are made up for at the next one.

use crate::units::{Duration, Instant};

/// When it fires next; it starts with the first packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Ticks(Option<Instant>);

impl Ticks {
    /// Fires next at `due`.
    pub fn from(due: Instant) -> Self {
        Self(Some(due))
    }

    /// When it fires next, if it has started.
    #[cfg(test)]
    pub fn next(self) -> Option<Instant> {
        self.0
    }

    /// Makes up for the ticks up to `now`: the first comes `first` after the first call, the others every `period`. `tick`
    /// gets the time of each, and tells whether it and all further ones change nothing: then the rest of a long silence is
    /// skipped.
    pub fn catch_up(
        &mut self,
        now: Instant,
        first: Duration,
        period: Duration,
        mut tick: impl FnMut(Instant) -> bool,
    ) {
        let mut due = self.0.unwrap_or(now + first);
        while due <= now {
            let is_settled = tick(due);
            let silence = if is_settled { now - due } else { Duration::ZERO };
            let passed_over = silence.as_nanos() / period.as_nanos();
            due += period * (passed_over + 1);
        }
        self.0 = Some(due);
    }
}
