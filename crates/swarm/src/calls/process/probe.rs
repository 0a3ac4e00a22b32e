//! What `poll` and `epoll` report, compared with what the calls then return.

use core::task::Poll;

use datapath::host::SocketId;
use datapath::socket::number::{
    EPOLLERR, EPOLLET, EPOLLHUP, EPOLLIN, EPOLLONESHOT, EPOLLOUT, EPOLLRDHUP, MSG_DONTWAIT,
    MSG_PEEK, SIOCATMARK, SOCK_NONBLOCK,
};
use datapath::socket::{Call, Data, Errno, Fd, PollFd, Return, Syscall};

use super::about::stream_of;
use super::{CallContext, Process, at};
use crate::calls::model::Kind;
use crate::calls::step::Descriptor;
use crate::calls::watch::{Readiness, Ready};
use crate::case::Violation;

impl Process {
    /// What `poll` reports is compared with what a call then returns.
    pub fn probe(
        &mut self,
        judge: &mut CallContext<'_>,
        step: usize,
        which: Descriptor,
    ) -> Result<(), Violation> {
        let fd = self.model.choose(which);
        let ready = self.ready_for(judge, fd);
        // What has failed or is over for both sides does not wait, whatever `POLLIN` says.
        let waits = ready & (EPOLLIN | EPOLLERR | EPOLLHUP) == 0;
        let read = Syscall::recv(fd, 1, MSG_DONTWAIT | MSG_PEEK);
        match self.model.kind(fd) {
            Some(Kind::Stream(stream)) if stream.listens => {
                let accept = Syscall::Accept { fd, flags: SOCK_NONBLOCK };
                self.expect(judge, step, accept, ready & EPOLLIN != 0, waits)
            }
            Some(Kind::Stream(stream)) => {
                let tuned = stream.tuned;
                let must_go = ready & EPOLLIN != 0 && !self.is_at_urgent_byte(judge, fd);
                self.expect(judge, step, read, must_go, waits && !tuned)?;
                let send = Syscall::send(fd, 1, MSG_DONTWAIT);
                if ready & EPOLLOUT == 0 {
                    return Ok(());
                }
                self.expect(judge, step, send, true, false)
            }
            Some(Kind::Datagram) => {
                // After the end made by `shutdown`, a non-blocking call finds nothing.
                let shut = self.polled(judge, fd, EPOLLRDHUP) & EPOLLRDHUP != 0;
                // Nor does a peek find what lies before its offset (`SO_PEEK_OFF`).
                let within = self.model.datagrams_mut(fd).is_some_and(|it| it.peeks_within);
                let must_go = ready & EPOLLIN != 0 && !shut && !within;
                self.expect(judge, step, read, must_go, waits)
            }
            Some(Kind::Epoll) => self.probe_epoll(judge, step, fd),
            _ => Ok(()),
        }
    }

    /// The next byte is passed over. While memory is short `poll` counts it though it may be the only one
    /// (`tcp_epollin_ready`).
    fn is_at_urgent_byte(&mut self, judge: &mut CallContext<'_>, fd: Fd) -> bool {
        let mark = Syscall::Ioctl { fd, request: SIOCATMARK, argument: 0 };
        let at_mark = matches!(
            self.quietly(judge, mark),
            Poll::Ready(Ok(Return { data: Data::Number(1), .. }))
        );
        at_mark && !self.has_urgent_in_line(judge, fd)
    }

    /// An epoll tells of each descriptor what `poll` says of it; of those that are told edges, or
    /// only once, at most that.
    fn probe_epoll(
        &mut self,
        judge: &mut CallContext<'_>,
        step: usize,
        epfd: Fd,
    ) -> Result<(), Violation> {
        let wait = Syscall::EpollWait { epfd, max_events: i32::MAX, timeout_ms: 0 };
        let Poll::Ready(Ok(Return { data: Data::Events(told), .. })) = self.quietly(judge, wait)
        else {
            let what = format!("epoll_wait of {epfd} without a timeout gave no events");
            return Err(Violation::new("readiness", at(step), what));
        };
        for (fd, events) in self.model.interests(epfd) {
            if self.model.kind(fd) == Some(Kind::Epoll) {
                continue;
            }
            let of_fd = told.iter().find(|event| event.data == fd as u64);
            let epoll_says = of_fd.map_or(0, |event| event.events);
            let poll_says = self.polled(judge, fd, events);
            let every_time = events & (EPOLLET | EPOLLONESHOT) == 0;
            if epoll_says & !poll_says != 0 || (every_time && epoll_says != poll_says) {
                let what = format!("{fd} in epoll {epfd}: {epoll_says:#x}, by poll {poll_says:#x}");
                return Err(Violation::new("readiness", at(step), what));
            }
        }
        Ok(())
    }

    /// What its sockets are ready for; nothing while calls wait, which change that themselves.
    pub fn readiness(&mut self, judge: &mut CallContext<'_>) -> Readiness {
        if self.waiting() > 0 {
            return Readiness::new();
        }
        let sockets = self.model.open_ones().into_iter();
        let sockets: Vec<(Fd, SocketId)> =
            sockets.filter_map(|fd| Some((fd, self.sockets.host_socket(fd)?))).collect();
        let of_one = |key @ (fd, _): (Fd, SocketId)| {
            let bits = self.ready_for(judge, fd);
            // A connection that has sent by a timer may have room before an ACK tells so
            // (`tcp_check_space`).
            let told = self.model.kind(fd) == Some(Kind::Datagram);
            (key, Ready { read: bits & EPOLLIN != 0, write: told && bits & EPOLLOUT != 0 })
        };
        sockets.into_iter().map(of_one).collect()
    }

    fn ready_for(&mut self, judge: &mut CallContext<'_>, fd: Fd) -> u32 {
        self.polled(judge, fd, EPOLLIN | EPOLLOUT)
    }

    /// What `poll` says of a descriptor.
    fn polled(&mut self, judge: &mut CallContext<'_>, fd: Fd, events: u32) -> u32 {
        let events = (events & !(EPOLLET | EPOLLONESHOT)) as i32;
        let fds = vec![PollFd { fd, events }];
        match self.quietly(judge, Syscall::Poll { fds, timeout_ms: 0 }) {
            Poll::Ready(Ok(Return { data: Data::Polled(events), .. })) => events[0] as u32,
            _ => 0,
        }
    }

    /// A call that was said to be possible must not wait, one that was said not to be has to.
    fn expect(
        &mut self,
        judge: &mut CallContext<'_>,
        step: usize,
        syscall: Syscall,
        must_go: bool,
        must_wait: bool,
    ) -> Result<(), Violation> {
        let mut call = Call::from(syscall);
        if let Some(fd) = stream_of(call.syscall(), &self.model) {
            self.record_connection(judge, fd);
        }
        let outcome = self.sockets.call(judge.now, judge.host, &mut call);
        if let Some(fd) = stream_of(call.syscall(), &self.model) {
            self.record_connection(judge, fd);
        }
        let waits = matches!(outcome, Poll::Pending | Poll::Ready(Err(Errno::EAGAIN)));
        let syscall = call.syscall();
        if (must_go && waits) || (must_wait && !waits) {
            let told = if must_go { "ready" } else { "not ready" };
            let what = format!("poll says {told}, and then {syscall:?} gave {outcome:?}");
            return Err(Violation::new("readiness", at(step), what));
        }
        let Poll::Ready(outcome) = outcome else { return Ok(()) };
        judge.digest.add_text(&format!("{outcome:?}"));
        self.check_result(judge, syscall, (None, None), &outcome).map_err(|(oracle, what)| {
            Violation::new(oracle, at(step), format!("{syscall:?} gave {outcome:?}: {what}"))
        })
    }
}
