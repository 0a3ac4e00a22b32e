//! The queues of a running `ackwright shape`, packet by packet.

use std::io;
use std::path::Path;

use ::live::watch::Watch;
use datapath::node::Port;
use datapath::packet::{Ecn, Packet};
use datapath::qdisc::{Backlog, Sched};
use datapath::reason::Reason;
use datapath::units::{Duration, Instant};

use super::marks::Marks;
use super::tracks::Tracks;
use crate::store::{self, Pending};

/// A trace of the queues of two devices.
#[derive(Debug)]
pub struct BridgeTrace {
    tracks: Tracks<Pending>,
    begin: Instant,
    /// When the queue of each port is looked at next.
    look: [Instant; 2],
    marks: Marks,
}

/// A queue with something in it is looked at no more often than this.
const STEP: Duration = Duration::from_micros(100);

impl BridgeTrace {
    /// A trace in the file `path` that begins at `begin`. What leaves by the device `devices[n]` goes through
    /// the queue of port `n`.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn create(path: &Path, devices: [&str; 2], begin: Instant) -> Result<Self, store::Error> {
        let mut tracks = Tracks::new(store::begin(path)?);
        for (node, device) in (0..).zip(devices) {
            tracks.node(node, device);
            tracks.queue(node as usize, node, &format!("queue to {device}"));
        }
        Ok(Self { tracks, begin, look: [begin; 2], marks: Marks::default() })
    }

    fn since(&self, at: Instant) -> Instant {
        Instant::ZERO + at.saturating_since(self.begin)
    }
}

impl Watch for BridgeTrace {
    fn on_arrival(&mut self, _: Instant, port: Port, packet: &Packet) {
        self.marks.on_arrival(port.0.into(), packet);
    }

    fn on_departure(&mut self, now: Instant, port: Port, packet: &Packet) {
        let (at, queue) = (self.since(now), usize::from(port.0));
        let waited = now.saturating_since(packet.meta.enqueued_at);
        self.tracks.on_dequeue(at, queue, waited.as_nanos());
        let came_marked = self.marks.on_departure(port.0.into(), packet);
        if packet.network.ecn() == Ecn::Ce && !came_marked {
            self.tracks.marked(at, queue, packet);
        }
    }

    fn on_drop(&mut self, now: Instant, port: Port, reason: Reason, packet: &Packet) {
        self.marks.on_departure(port.0.into(), packet);
        let (at, queue) = (self.since(now), usize::from(port.0));
        self.tracks.dropped(at, port.0.into(), Some(queue), reason, packet);
    }

    fn on_backlog(&mut self, now: Instant, port: Port, backlog: Backlog, root: &Sched) {
        let queue = usize::from(port.0);
        // An empty queue is recorded at once: the next packet may be far off.
        if now >= self.look[queue] || backlog.packets == 0 {
            self.look[queue] = now + STEP;
            self.tracks.on_backlog(self.since(now), queue, backlog, root);
        }
    }

    fn finish(self: Box<Self>, now: Instant) -> io::Result<()> {
        let end = self.since(now);
        self.tracks.finish(end)?.commit().map(drop).map_err(|error| error.problem)
    }
}
