//! The simulator's state of nodes and applications.

use crate::link::{LinkId, NodeId};
use crate::partition::Partition;
use apps::{App, NO_APP, Streams};
use datapath::host::{Host, SocketId};
use datapath::node::SocketReady;
use datapath::rng::Rng;
use datapath::units::{Duration, Instant};
use std::collections::VecDeque;

/// A node in its world.
pub(crate) struct NodeState {
    pub host: Host,
    /// The pending wake-up; `FAR_FUTURE` if none.
    pub wake: Instant,
    /// A later wake-up that an earlier one has replaced: its entry is still in the calendar.
    pub replaced: Instant,
    /// The link behind each port.
    pub links: Vec<LinkId>,
    /// The application that each socket belongs to.
    pub owners: Vec<u32>,
    /// The bytes that its connections carry, if they carry bytes.
    pub streams: Option<Box<Streams>>,
    /// Delayed notifications of its applications, if they are slow.
    pub late: Option<Box<DelayedReady>>,
}

/// Notifications that applications get later.
pub(crate) struct DelayedReady {
    /// Their delay.
    pub by: Duration,
    pub ready: VecDeque<SocketReady>,
}

/// An application on its node.
pub(crate) struct AppState {
    pub app: Box<dyn App>,
    pub node: NodeId,
    /// When it wants to be called; before it runs, when it starts.
    pub timer: Instant,
    pub running: bool,
    pub rng: Rng,
}

/// The link behind a port that has none yet.
pub(crate) const NO_LINK: LinkId = LinkId(u32::MAX);

impl NodeState {
    pub fn new(host: Host) -> Self {
        Self {
            wake: Instant::FAR_FUTURE,
            replaced: Instant::FAR_FUTURE,
            links: vec![NO_LINK; host.port_count()],
            owners: Vec::new(),
            streams: None,
            late: None,
            host,
        }
    }

    /// The application that is notified of a socket; [`NO_APP`] if none is. Between readiness and notification
    /// the socket may have been closed, and its number have gone to another one.
    #[inline]
    pub fn owner_of(&self, socket: SocketId) -> u32 {
        match self.owners.get(socket.index()) {
            Some(owner) if !self.host.is_succeeded(socket) => *owner,
            _ => NO_APP,
        }
    }

    /// The application that will probably be notified of the next packet; past the end if none is.
    #[inline]
    pub fn likely_app(&self) -> usize {
        let owner = self.owners.get(self.host.likely_socket());
        owner.map_or(usize::MAX, |owner| *owner as usize)
    }
}

impl Partition {
    /// Starts an application, unless it has started: its first timer is for that.
    pub fn on_app_start(&mut self, index: u32) {
        let state = &mut self.apps[index as usize];
        if state.timer == self.now && !state.running {
            (state.timer, state.running) = (Instant::FAR_FUTURE, true);
            self.call_app(index, |app, cx| app.start(cx));
        }
    }

    pub fn on_app_timer(&mut self, index: u32) {
        let state = &mut self.apps[index as usize];
        if state.timer == self.now && state.running {
            state.timer = Instant::FAR_FUTURE;
            self.program_ran = self.now;
            if self.one_machine && !self.machine.slack_is_used {
                self.interrupt();
            }
            self.call_app(index, |app, cx| app.timer(cx));
        }
    }
}
