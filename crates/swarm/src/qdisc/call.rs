//! What the laws of qdiscs are applied to.

use datapath::packet::Packet;
use datapath::qdisc::{Backlog, Sched};
use datapath::reason::Reason;
use datapath::units::Instant;

/// One call of the root, as its device sees it.
#[derive(Clone, Copy, Debug)]
pub struct Call<'a> {
    /// The root after it.
    pub root: &'a Sched,
    /// When.
    pub now: Instant,
    /// What waited before it.
    pub before: Backlog,
    /// What was dropped in it.
    pub dropped: &'a [(Reason, Packet)],
}
