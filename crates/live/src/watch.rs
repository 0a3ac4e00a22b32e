//! Who wants to be told what becomes of each packet in the queues of a run.

use datapath::node::Port;
use datapath::packet::Packet;
use datapath::qdisc::{Backlog, Sched};
use datapath::reason::Reason;
use datapath::units::Instant;
use std::fmt::Debug;
use std::io;

/// Hears of the queue of each port. `meta.enqueued_at` of a packet is when it was taken in, or later, as its
/// qdisc notes it.
pub trait Watch: Debug {
    /// A packet was taken in that will leave by `port`.
    fn on_arrival(&mut self, now: Instant, port: Port, packet: &Packet);

    /// It leaves.
    fn on_departure(&mut self, now: Instant, port: Port, packet: &Packet);

    /// It was dropped.
    fn on_drop(&mut self, now: Instant, port: Port, reason: Reason, packet: &Packet);

    /// How the queue of `port` stands, told whenever something may have changed.
    fn on_backlog(&mut self, now: Instant, port: Port, backlog: Backlog, root: &Sched);

    /// The run is over.
    ///
    /// # Errors
    /// What it had to write could not be written.
    fn finish(self: Box<Self>, now: Instant) -> io::Result<()>;
}
