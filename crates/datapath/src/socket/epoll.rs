//! `epoll(7)`: interest lists, level- and edge-triggered.

use super::answer::{Data, Return, SyscallResult};
use super::argument::EpollEvent;
use super::call::{Fd, Progress};
use super::errno::Errno;
use super::table::File;
use super::{Sockets, number};
use crate::host::{Host, WakeCounts};
use crate::units::{Duration, Instant};
use core::task::Poll;
use std::collections::VecDeque;

/// One epoll: whom it watches, in the order in which they are asked.
#[derive(Debug, Default)]
pub(super) struct Epoll {
    items: VecDeque<Item>,
}

#[derive(Clone, Copy, Debug)]
struct Item {
    fd: Fd,
    event: EpollEvent,
    /// It is to be asked (`EPOLLET`: since its waiters were woken).
    ready: bool,
    /// What its waiters had been woken for when it was last asked.
    seen: WakeCounts,
    /// `EPOLLONESHOT` has fired.
    disabled: bool,
}

/// Epolls that watch one another in a row, less one (`EP_MAX_NESTS`).
const MAX_NESTS: u32 = 4;
/// Told whether asked for or not.
const ALWAYS: u32 = number::EPOLLERR | number::EPOLLHUP;
/// What a wake-up for data can mean.
const READ: u32 = number::EPOLLIN | number::EPOLLPRI | number::EPOLLRDNORM | number::EPOLLRDBAND;
/// What a wake-up for space can mean.
const WRITE: u32 = number::EPOLLOUT | number::EPOLLWRNORM | number::EPOLLWRBAND;

impl Sockets {
    /// `epoll_create(2)`.
    pub(super) fn epoll_create(&mut self, size: i32) -> SyscallResult {
        if size <= 0 {
            return Err(Errno::EINVAL);
        }
        Ok(Return::value(self.install(File::Epoll(Epoll::default())).into()))
    }

    /// `epoll_create1(2)`.
    pub(super) fn epoll_create1(&mut self, flags: i32) -> SyscallResult {
        if flags & !number::EPOLL_CLOEXEC != 0 {
            return Err(Errno::EINVAL);
        }
        self.epoll_create(1)
    }

    fn epoll_mut(&mut self, epfd: Fd) -> Result<&mut Epoll, Errno> {
        match self.file_mut(epfd)? {
            File::Epoll(epoll) => Ok(epoll),
            _ => Err(Errno::EINVAL),
        }
    }

    /// `epoll_ctl(2)`.
    pub(super) fn epoll_ctl(
        &mut self,
        host: &mut Host,
        epfd: Fd,
        op: i32,
        fd: Fd,
        event: Option<EpollEvent>,
    ) -> SyscallResult {
        match self.file(fd)? {
            File::Disk(_) | File::Standard => return Err(Errno::EPERM),
            File::Epoll(_) if fd == epfd => return Err(Errno::EINVAL),
            _ => {}
        }
        self.epoll_mut(epfd)?;
        let adds_epoll = op == number::EPOLL_CTL_ADD && self.epoll(fd).is_some();
        if adds_epoll && self.nests_too_deep(epfd, fd) {
            return Err(Errno::ELOOP);
        }
        let seen = self.wakes(host, fd);
        let epoll = self.epoll_mut(epfd)?;
        let place = epoll.items.iter().position(|item| item.fd == fd);
        match (op, place) {
            (number::EPOLL_CTL_ADD, Some(_)) => return Err(Errno::EEXIST),
            (number::EPOLL_CTL_ADD, None) => {
                let event = event.ok_or(Errno::EFAULT)?;
                let item = Item { fd, event, ready: true, seen, disabled: false };
                epoll.items.push_back(item);
            }
            (number::EPOLL_CTL_DEL, Some(place)) => {
                epoll.items.remove(place);
            }
            (number::EPOLL_CTL_MOD, Some(place)) => {
                let event = event.ok_or(Errno::EFAULT)?;
                let item = &mut epoll.items[place];
                *item = Item { event, ready: true, disabled: false, ..*item };
            }
            (number::EPOLL_CTL_DEL | number::EPOLL_CTL_MOD, None) => return Err(Errno::ENOENT),
            _ => return Err(Errno::EINVAL),
        }
        Ok(Return::value(0))
    }

    fn epoll(&self, fd: Fd) -> Option<&Epoll> {
        match self.file(fd) {
            Ok(File::Epoll(epoll)) => Some(epoll),
            _ => None,
        }
    }

    /// Whether epolls would watch each other in a circle, or too many one another in a row, if `epfd`
    /// watched `fd` (`ep_loop_check`).
    fn nests_too_deep(&self, epfd: Fd, fd: Fd) -> bool {
        let below = self.epolls_below(epfd, fd, 0);
        below + 1 + self.epolls_above(epfd, 0) > MAX_NESTS
    }

    /// How many epolls `fd` watches in a row; too many if `epfd` is among them.
    fn epolls_below(&self, epfd: Fd, fd: Fd, depth: u32) -> u32 {
        let Some(epoll) = self.epoll(fd) else { return 0 };
        let watched = epoll.items.iter().map(|item| item.fd).filter(|fd| self.epoll(*fd).is_some());
        let rows = watched.map(|watched| {
            if watched == epfd || depth > MAX_NESTS {
                return MAX_NESTS + 1;
            }
            self.epolls_below(epfd, watched, depth + 1) + 1
        });
        rows.max().unwrap_or(0)
    }

    /// How many epolls watch `fd` in a row.
    fn epolls_above(&self, fd: Fd, depth: u32) -> u32 {
        if depth > MAX_NESTS {
            return depth;
        }
        let above = (0..self.files.len() as Fd).filter(|above| {
            self.epoll(*above).is_some_and(|epoll| epoll.items.iter().any(|item| item.fd == fd))
        });
        above.map(|above| self.epolls_above(above, depth + 1) + 1).max().unwrap_or(0)
    }

    /// A descriptor is closed: no epoll watches it any more.
    pub(super) fn remove_from_epolls(&mut self, fd: Fd) {
        for file in self.files.iter_mut().flatten() {
            if let File::Epoll(epoll) = file {
                epoll.items.retain(|item| item.fd != fd);
            }
        }
    }

    /// `epoll_wait(2)`.
    pub(super) fn epoll_wait(
        &mut self,
        now: Instant,
        host: &mut Host,
        epfd: Fd,
        max_events: i32,
        timeout_ms: i32,
        progress: &mut Progress,
    ) -> Poll<SyscallResult> {
        self.epoll_mut(epfd)?;
        let max = usize::try_from(max_events).ok().filter(|&max| max > 0).ok_or(Errno::EINVAL)?;
        let events = self.collect_events(now, host, epfd, max)?;
        if events.is_empty() && !timed_out(now, timeout_ms, progress) {
            return Poll::Pending;
        }
        let value = events.len() as i64;
        Poll::Ready(Ok(Return { value, data: Data::Events(events) }))
    }

    /// Asks every item that may be ready; those that are go to the end of the list.
    fn collect_events(
        &mut self,
        now: Instant,
        host: &mut Host,
        epfd: Fd,
        max: usize,
    ) -> Result<Vec<EpollEvent>, Errno> {
        let mut items = core::mem::take(&mut self.epoll_mut(epfd)?.items);
        let mut events = Vec::new();
        let mut told = VecDeque::new();
        let mut kept = VecDeque::new();
        while let Some(mut item) = items.pop_front() {
            let wakes = self.wakes(host, item.fd);
            item.ready |= wakes_for(item.event.events | ALWAYS, item.seen, wakes);
            item.seen = wakes;
            if events.len() == max || item.disabled || !item.ready {
                kept.push_back(item);
                continue;
            }
            let mask = self.readiness(now, host, item.fd) & (item.event.events | ALWAYS);
            if mask == 0 {
                item.ready = false;
                kept.push_back(item);
                continue;
            }
            events.push(EpollEvent { events: mask, data: item.event.data });
            item.ready = item.event.events & number::EPOLLET == 0;
            item.disabled = item.event.events & number::EPOLLONESHOT != 0;
            told.push_back(item);
        }
        kept.append(&mut told);
        self.epoll_mut(epfd)?.items = kept;
        Ok(events)
    }

    /// How often the waiters of a descriptor have been woken.
    fn wakes(&self, host: &Host, fd: Fd) -> WakeCounts {
        match self.file(fd) {
            Ok(File::Stream(stream)) => stream.wakes(host),
            Ok(File::Datagram(socket)) => socket.wakes(host),
            Ok(&File::Pipe(pipe, _)) => self.pipes[pipe].wakes(),
            _ => WakeCounts::default(),
        }
    }

    /// Something may be ready in an epoll, seen from outside.
    pub(super) fn epoll_is_ready(&mut self, now: Instant, host: &mut Host, epfd: Fd) -> bool {
        let Ok(epoll) = self.epoll_mut(epfd) else { return false };
        let items: Vec<Item> = epoll.items.iter().copied().collect();
        items.iter().any(|item| {
            let wakes = self.wakes(host, item.fd);
            let ready = item.ready || wakes_for(item.event.events | ALWAYS, item.seen, wakes);
            ready
                && !item.disabled
                && self.readiness(now, host, item.fd) & (item.event.events | ALWAYS) != 0
        })
    }
}

/// Whether waiters for `events` were woken between two counts (`ep_poll_callback`).
fn wakes_for(events: u32, before: WakeCounts, after: WakeCounts) -> bool {
    before.state != after.state
        || (before.read != after.read && events & (READ | number::EPOLLRDHUP) != 0)
        || (before.write != after.write && events & WRITE != 0)
}

/// Whether a timeout in ms has passed since the call was begun; negative ones never do.
pub(super) fn timed_out(now: Instant, timeout_ms: i32, progress: &mut Progress) -> bool {
    match u64::try_from(timeout_ms) {
        Ok(0) => true,
        Ok(ms) => {
            let deadline = *progress.deadline.get_or_insert(now + Duration::from_millis(ms));
            deadline <= now
        }
        Err(_) => false,
    }
}
