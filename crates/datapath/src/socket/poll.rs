//! Readiness: `poll(2)`, `select(2)` (`tcp_poll`, `inet_csk_listen_poll`).

use super::answer::{Data, Return, SyscallResult};
use super::argument::PollFd;
use super::call::{Fd, Progress};
use super::epoll::timed_out;
use super::errno::Errno;
use super::file::PipeEnd;
use super::stream::{Phase, Stream};
use super::table::File;
use super::{Sockets, number};
use crate::host::{Host, Listener, UdpSocket};
use crate::tcp::Connection;
use crate::tcp::state::State;
use crate::units::{Duration, Instant};
use core::task::Poll;

const READABLE: u32 = number::EPOLLIN | number::EPOLLRDNORM;
pub(super) const WRITABLE: u32 = number::EPOLLOUT | number::EPOLLWRNORM;

impl Sockets {
    /// `poll(2)`.
    pub(super) fn poll_call(
        &mut self,
        now: Instant,
        host: &mut Host,
        fds: &[PollFd],
        timeout_ms: i32,
        progress: &mut Progress,
    ) -> Poll<SyscallResult> {
        let told: Vec<i32> = fds.iter().map(|one| self.poll_one(now, host, *one)).collect();
        let count = told.iter().filter(|&&events| events != 0).count();
        if count == 0 && !timed_out(now, timeout_ms, progress) {
            return Poll::Pending;
        }
        Poll::Ready(Ok(Return { value: count as i64, data: Data::Polled(told) }))
    }

    fn poll_one(&mut self, now: Instant, host: &mut Host, one: PollFd) -> i32 {
        if one.fd < 0 {
            return 0;
        }
        if self.file(one.fd).is_err() {
            return number::POLLNVAL;
        }
        let wanted = one.events | number::POLLERR | number::POLLHUP;
        self.readiness(now, host, one.fd) as i32 & wanted
    }

    /// `select(2)`.
    pub(super) fn select(
        &mut self,
        now: Instant,
        host: &mut Host,
        sets: [&[Fd]; 3],
        timeout: Option<Duration>,
        progress: &mut Progress,
    ) -> Poll<SyscallResult> {
        const IN_SET: u32 = READABLE | number::EPOLLRDBAND | number::EPOLLHUP | number::EPOLLERR;
        const OUT_SET: u32 = WRITABLE | number::EPOLLWRBAND | number::EPOLLERR;
        let masks = [IN_SET, OUT_SET, number::EPOLLPRI];
        let mut ready: [Vec<Fd>; 3] = Default::default();
        for ((set, mask), ready) in sets.into_iter().zip(masks).zip(&mut ready) {
            for &fd in set {
                if self.file(fd).is_err() {
                    return Poll::Ready(Err(Errno::EBADF));
                }
                if self.readiness(now, host, fd) & mask != 0 {
                    ready.push(fd);
                }
            }
        }
        let count: usize = ready.iter().map(Vec::len).sum();
        let over =
            timeout.is_some_and(|timeout| *progress.deadline.get_or_insert(now + timeout) <= now);
        if count == 0 && !over {
            return Poll::Pending;
        }
        let [read, write, except] = ready;
        let data = Data::Selected { read, write, except };
        Poll::Ready(Ok(Return { value: count as i64, data }))
    }

    /// What a descriptor is ready for, as `EPOLL*` bits.
    pub(super) fn readiness(&mut self, now: Instant, host: &mut Host, fd: Fd) -> u32 {
        match self.file(fd) {
            Ok(File::Stream(stream)) => stream_readiness(now, host, stream),
            Ok(File::Datagram(socket)) => socket.readiness(host),
            Ok(File::Disk(_) | File::Standard) => READABLE | WRITABLE,
            Ok(&File::Pipe(pipe, PipeEnd::Read)) => {
                let pipe = &self.pipes[pipe];
                let hangup = if pipe.is_ended() { number::EPOLLHUP } else { 0 };
                hangup | if pipe.bytes() > 0 { READABLE } else { 0 }
            }
            Ok(&File::Pipe(pipe, PipeEnd::Write)) => {
                let pipe = &self.pipes[pipe];
                let broken = if pipe.is_broken() { number::EPOLLERR } else { 0 };
                broken | if pipe.room() > 0 { WRITABLE } else { 0 }
            }
            Ok(File::Epoll(_)) => {
                if self.epoll_is_ready(now, host, fd) {
                    READABLE
                } else {
                    0
                }
            }
            Err(_) => 0,
        }
    }
}

fn stream_readiness(now: Instant, host: &mut Host, stream: &Stream) -> u32 {
    let told = if stream.error_queue.is_empty() { 0 } else { number::EPOLLERR };
    match stream.phase {
        Phase::Fresh => {
            let failed = if stream.leftover.is_some() { number::EPOLLERR } else { 0 };
            told | failed | shut_before(stream) | number::EPOLLHUP | WRITABLE
        }
        // The first write will connect.
        Phase::Deferred(_) => told | shut_before(stream) | WRITABLE,
        Phase::Listener(id) => {
            let ready = host.tcp_listener(id).is_some_and(Listener::is_ready);
            if ready { READABLE } else { 0 }
        }
        Phase::Connection(id) => {
            let events = host.with_tcp(now, id, |tcp, _| tcp_poll(tcp));
            told | events.unwrap_or(number::EPOLLHUP | number::EPOLLERR)
        }
    }
}

/// What `shutdown` tells that came before there was a connection.
fn shut_before(stream: &Stream) -> u32 {
    let own = &stream.config.socket;
    let ended = if own.shut_read { READABLE | number::EPOLLRDHUP } else { 0 };
    ended | if own.shut_read && own.shut_write { number::EPOLLHUP } else { 0 }
}

/// What a UDP socket is ready for, as `EPOLL*` bits (`udp_poll`); what has been shut down is not its business.
pub fn udp_poll(socket: &UdpSocket) -> u32 {
    let mut events = 0;
    if socket.first().is_some() {
        events |= READABLE;
    }
    if socket.is_writable() {
        events |= WRITABLE;
    }
    if socket.has_error() {
        events |= number::EPOLLERR;
    }
    events
}

/// What a connection is ready for, as `EPOLL*` bits (`tcp_poll`). Room to write is asked for with it: as in the kernel, a
/// connection that has none wakes its writers once there is.
pub fn tcp_poll(tcp: &mut Connection) -> u32 {
    let mut events = 0;
    let (shut_read, shut_write) = tcp.is_shut();
    let state = tcp.state();
    if (shut_read && shut_write) || state == State::Close {
        events |= number::EPOLLHUP;
    }
    if shut_read {
        events |= READABLE | number::EPOLLRDHUP;
    }
    let waits_for_handshake =
        state == State::SynSent || (state == State::SynRecv && !tcp.is_passive_fast_open());
    if !waits_for_handshake {
        if tcp.is_readable() {
            events |= READABLE;
        }
        if shut_write || tcp.poll_writable() {
            events |= WRITABLE;
        }
        if tcp.has_urgent() {
            events |= number::EPOLLPRI;
        }
    }
    if tcp.has_error() || tcp.has_notice() {
        events |= number::EPOLLERR;
    }
    events
}
