//! What must hold, whatever the case. Nothing here shares code with what it judges.

pub mod beginnings;
pub mod ecn;
pub mod frame;
pub mod insight;
pub mod offered;
pub mod outgoing;
pub mod seq;
pub mod taken;
pub mod tcp;

use crate::case::Violation;

/// Packets of a queue: none is made, none vanishes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Conservation {
    /// Packets that went in.
    pub entered: u64,
    /// Packets that came out.
    pub left: u64,
    /// Packets that were dropped.
    pub dropped: u64,
}

impl Conservation {
    /// Whether what is missing waits.
    pub fn check(&self, at: impl core::fmt::Display, waiting: u64) -> Result<(), Violation> {
        if self.entered == self.left + self.dropped + waiting {
            return Ok(());
        }
        let what = format!("{self:?}, but {waiting} wait");
        Err(Violation::new("conservation", at, what))
    }
}
