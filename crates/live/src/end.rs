//! A device in a loop, and what is waited for there: what the loops of a bridge and of a router have in common.

use crate::device::{Blocked, Device, FlushResult};
use crate::open::Fault;
use crate::sys::{Epoll, Timer, now};
use datapath::units::{Duration, Instant};
use std::io;

/// A device that was busy is tried again after this.
const RETRY: Duration = Duration::from_micros(100);
/// So many batches are taken in from a device before anything else is done.
pub(crate) const BATCHES: usize = 16;

/// A device, and the events that are polled there.
#[derive(Debug)]
pub(crate) struct PolledDevice {
    pub device: Device,
    /// Its registration with the loop's poller.
    token: u64,
    /// The poller reports when there is room again.
    awaits_room: bool,
    /// The poller no longer watches it.
    left: bool,
    /// When to try again, because no event announces room.
    retry_at: Instant,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Running,
    /// Nothing more is taken in; over at that time at the latest.
    Draining(Instant),
    Over,
}

impl PolledDevice {
    pub fn new(device: Device, token: u64) -> Self {
        Self { device, token, awaits_room: false, left: false, retry_at: Instant::FAR_FUTURE }
    }

    /// Has the loop told of what arrives.
    pub fn register(&self, epoll: &Epoll) -> io::Result<()> {
        let added = self.device.fd().map(|fd| epoll.add(fd, self.token, Epoll::READ));
        added.unwrap_or(Ok(()))
    }

    /// Whether something is in the ring, and not to wait until it is tried again.
    pub fn is_to_flush(&self, now: Instant) -> bool {
        self.device.ring_len() > 0 && (self.retry_at <= now || self.retry_at == Instant::FAR_FUTURE)
    }

    /// Sends what is in the ring. Afterwards [`watch_writable`](Self::watch_writable) is due.
    pub fn flush(&mut self, now: Instant) -> io::Result<FlushResult> {
        self.retry_at = Instant::FAR_FUTURE;
        let flushed = self.device.flush()?;
        if flushed.blocked == Some(Blocked::Busy) {
            self.retry_at = now + RETRY;
        }
        Ok(flushed)
    }

    /// Has the loop told, or no longer told, when the device has room.
    pub fn watch_writable(
        &mut self,
        flushed: &FlushResult,
        phase: Phase,
        epoll: &Epoll,
    ) -> Result<(), Fault> {
        let awaits = flushed.blocked == Some(Blocked::Full);
        if self.awaits_room == awaits {
            return Ok(());
        }
        self.awaits_room = awaits;
        self.listen(phase == Phase::Running, epoll)
    }

    /// Nothing more is taken in.
    pub fn stop_reading(&self, epoll: &Epoll) -> Result<(), Fault> {
        self.listen(false, epoll)
    }

    /// The device is gone: the poller no longer watches it.
    pub fn leave(&mut self, epoll: &Epoll) -> Result<(), Fault> {
        self.left = true;
        let left = self.device.fd().map(|fd| epoll.remove(fd));
        left.unwrap_or(Ok(())).map_err(kernel)
    }

    fn listen(&self, reads: bool, epoll: &Epoll) -> Result<(), Fault> {
        if self.left {
            return Ok(());
        }
        let read = if reads { Epoll::READ } else { 0 };
        let write = if self.awaits_room { Epoll::WRITE } else { 0 };
        let changed = self.device.fd().map(|fd| epoll.change(fd, self.token, read | write));
        changed.unwrap_or(Ok(())).map_err(kernel)
    }
}

/// Waits until something has happened at one of `ends` or elsewhere, or until `wanted`; what it was.
pub(crate) fn wait<'a>(
    ends: impl Iterator<Item = &'a PolledDevice> + Clone,
    wanted: Instant,
    phase: Phase,
    busy_poll: Duration,
    (epoll, timer): (&mut Epoll, &mut Timer),
) -> Result<Vec<(u64, u32)>, Fault> {
    let retries = ends.clone().map(|end| end.retry_at).min();
    let comes = ends.filter_map(|end| end.device.next_arrival()).min();
    let comes = comes.filter(|_| phase == Phase::Running);
    let over = match phase {
        Phase::Draining(until) => until,
        _ => Instant::FAR_FUTURE,
    };
    let until = [retries, comes, Some(over)].into_iter().flatten().fold(wanted, Instant::min);
    let soon = until <= now() + busy_poll;
    if !soon {
        timer.set(until).map_err(kernel)?;
    }
    Ok(epoll.wait(soon).map_err(kernel)?.collect())
}

/// Where a loop is at `now`, whose queues and rings are `empty` or not.
pub(crate) fn next_phase(phase: Phase, empty: bool, ended: bool, now: Instant) -> Phase {
    match phase {
        Phase::Running if empty && ended => Phase::Over,
        Phase::Draining(until) if empty || now >= until => Phase::Over,
        same => same,
    }
}

/// Whether an interface is down, or gone.
pub(crate) fn is_down(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENETDOWN | libc::ENXIO | libc::ENODEV))
        || is_cut_off(error)
}

/// Whether what was opened has no interface any more, even if there is another of its name: a TUN device
/// that somebody has deleted.
pub(crate) fn is_cut_off(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::EBADFD)
}

#[expect(clippy::needless_pass_by_value, reason = "the shape that map_err wants")]
pub(crate) fn kernel(error: io::Error) -> Fault {
    Fault::Other(format!("cannot poll the devices: {error}"))
}
