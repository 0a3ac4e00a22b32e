//! A capture that is replayed through a qdisc: the queue, packet by packet.

use std::path::{Path, PathBuf};

use datapath::qdisc::{Backlog, Sched};
use datapath::units::{Duration, Instant};

use super::tracks::Tracks;
use crate::replay::line::PacketOutcome;
use crate::store::{self, Error, Pending};

/// A trace of one queue.
pub struct CaptureTrace {
    tracks: Tracks<Pending>,
    path: PathBuf,
    begin: Instant,
    /// When the queue is looked at next.
    look: Instant,
    last: Instant,
}

/// The only process, and its only queue.
const NODE: u32 = 0;
const QUEUE: usize = 0;
/// The queue is looked at no more often than this.
const STEP: Duration = Duration::from_micros(100);

impl CaptureTrace {
    /// A trace in the file `path`, of a capture that begins at `begin`.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn create(path: &Path, capture: &str, qdisc: &str, begin: Instant) -> Result<Self, Error> {
        let mut tracks = Tracks::new(store::begin(path)?);
        tracks.node(NODE, capture);
        tracks.queue(QUEUE, NODE, qdisc);
        Ok(Self { tracks, path: path.into(), begin, look: begin, last: begin })
    }

    /// A packet has left the queue, or was dropped.
    pub fn on_departure(&mut self, fate: &PacketOutcome<'_>) {
        let at = self.since(fate.at);
        if let Some(reason) = fate.reason {
            return self.tracks.dropped(at, NODE, Some(QUEUE), reason, fate.packet);
        }
        let waited = fate.at.saturating_since(fate.came);
        self.tracks.on_dequeue(at, QUEUE, waited.as_nanos());
        if fate.marked {
            self.tracks.marked(at, QUEUE, fate.packet);
        }
    }

    /// What waits in the queue now.
    pub fn on_backlog(&mut self, now: Instant, backlog: Backlog, root: &Sched) {
        self.last = now;
        if now >= self.look {
            self.look = now + STEP;
            self.tracks.on_backlog(self.since(now), QUEUE, backlog, root);
        }
    }

    /// Ends the file.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn finish(self) -> Result<PathBuf, Error> {
        let end = self.since(self.last);
        let failed = |problem| Error { path: self.path.clone(), problem };
        self.tracks.finish(end).map_err(failed)?.commit()
    }

    fn since(&self, at: Instant) -> Instant {
        Instant::ZERO + at.saturating_since(self.begin)
    }
}
