//! The calls of one process, each judged by what it returns.

use core::net::{IpAddr, SocketAddr};
use core::task::Poll;

use datapath::host::Host;
use datapath::socket::number::{
    EPOLL_CTL_DEL, EPOLLERR, EPOLLET, EPOLLHUP, EPOLLIN, EPOLLONESHOT, EPOLLOUT, F_SETFL, FIONBIO,
    MSG_DONTWAIT, MSG_ERRQUEUE, MSG_OOB, MSG_PEEK, MSG_TRUNC, O_NONBLOCK, SHUT_WR, SO_ERROR,
    SO_LINGER, SO_RCVLOWAT, SOCK_DGRAM, SOCK_NONBLOCK, SOL_SOCKET,
};
use datapath::socket::{
    Address, Call, Data, Errno, Fd, OptionValue, PollFd, Return, Sockets, Syscall,
};
use datapath::units::Instant;

use super::books::{Books, Way};
use super::errnos;
use super::model::{Kind, Model, Stream};
use super::step::Which;
use crate::case::{Digest, Violation};

/// What a call is judged with.
pub struct Judge<'a> {
    pub now: Instant,
    pub host: &'a mut Host,
    pub books: &'a mut Books,
    pub digest: &'a mut Digest,
    /// Bytes in writes of both processes that have not returned yet.
    pub under_way: u64,
}

/// A process: its descriptors, and its threads that wait in calls.
pub struct Process {
    sockets: Sockets,
    pub model: Model,
    waiting: Vec<Waiting>,
    /// How many calls it has made.
    pub calls: u64,
}

/// A thread that waits in a call.
struct Waiting {
    call: Call,
    step: usize,
    /// Which opening of its descriptor it is about.
    opening: Option<u64>,
    /// Where what it writes goes, as far as that is known.
    way: Option<Way>,
}

/// So many threads wait at most.
const THREADS: usize = 12;

type Outcome = Result<Return, Errno>;

impl Process {
    /// A process with nothing open but the standard descriptors, and two files on its disk.
    pub fn new() -> Self {
        let mut sockets = Sockets::new();
        sockets.write_file("/small", 3_000);
        sockets.write_file("/large", 400_000);
        Self { sockets, model: Model::new(), waiting: Vec::new(), calls: 0 }
    }

    /// When a call that waits gives up.
    pub fn next_deadline(&self) -> Option<Instant> {
        self.waiting.iter().filter_map(|waiting| waiting.call.deadline()).min()
    }

    /// How many calls wait.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Bytes in writes that have not returned yet.
    pub fn bytes_under_way(&self) -> u64 {
        let writes = self.waiting.iter().map(|waiting| bytes_to_write(waiting.call.syscall()));
        writes.fold(0, u64::saturating_add)
    }

    /// Makes a call. It is left out if too many threads wait already.
    pub fn begin(
        &mut self,
        judge: &mut Judge<'_>,
        step: usize,
        syscall: Syscall,
    ) -> Result<(), Violation> {
        if self.waiting.len() == THREADS {
            return Ok(());
        }
        self.calls += 1;
        let opening = main_fd(&syscall).and_then(|(fd, _)| self.model.opening(fd));
        let waiting = Waiting { call: syscall.into(), step, opening, way: None };
        if let Some(waiting) = self.go_on(judge, waiting)? {
            self.must_be_allowed_to_wait(&waiting)?;
            self.waiting.push(waiting);
        }
        Ok(())
    }

    /// Hands the calls that wait in again.
    pub fn retry(&mut self, judge: &mut Judge<'_>) -> Result<(), Violation> {
        for waiting in core::mem::take(&mut self.waiting) {
            let Some(waiting) = self.go_on(judge, waiting)? else { continue };
            if waiting.call.deadline().is_some_and(|at| at <= judge.now) {
                let what = format!("{:?} waits longer than it should", waiting.call.syscall());
                return Err(Violation::new("time limits of calls", at(waiting.step), what));
            }
            self.waiting.push(waiting);
        }
        Ok(())
    }

    /// Hands a call in; gives it back if it has to wait.
    fn go_on(
        &mut self,
        judge: &mut Judge<'_>,
        mut waiting: Waiting,
    ) -> Result<Option<Waiting>, Violation> {
        if let Some(fd) = stream_of(waiting.call.syscall(), &self.model) {
            self.learn_ends(judge, fd);
        }
        let outcome = self.sockets.call(judge.now, judge.host, &mut waiting.call);
        let syscall = waiting.call.syscall();
        let under_way = match &outcome {
            Poll::Ready(Err(errno)) => *errno == Errno::EINPROGRESS,
            Poll::Ready(Ok(_)) | Poll::Pending => true,
        };
        if let Syscall::Connect { fd, address } = syscall
            && under_way
        {
            self.note_aim(judge, *fd, *address);
        }
        if let Some(fd) = stream_of(syscall, &self.model) {
            self.learn_ends(judge, fd);
        }
        let way = written_by(syscall).and_then(|fd| self.way_of(fd)).or(waiting.way);
        let Poll::Ready(outcome) = outcome else {
            return Ok(Some(Waiting { way, ..waiting }));
        };
        judge.digest.add_text(&format!("{outcome:?}"));
        let broken = |(oracle, what): (&'static str, String)| {
            let told = format!("{syscall:?} gave {outcome:?}: {what}");
            Violation::new(oracle, at(waiting.step), told)
        };
        self.judge(judge, syscall, (waiting.opening, way), &outcome).map_err(broken)?;
        Ok(None)
    }

    /// A call that must not wait returns at once.
    fn must_be_allowed_to_wait(&self, waiting: &Waiting) -> Result<(), Violation> {
        let syscall = waiting.call.syscall();
        let never = match syscall {
            Syscall::Send { flags, .. } | Syscall::Receive { flags, .. }
                if flags & MSG_DONTWAIT != 0 =>
            {
                true
            }
            Syscall::Accept { fd, .. }
            | Syscall::Connect { fd, .. }
            | Syscall::Read { fd, .. }
            | Syscall::Write { fd, .. }
            | Syscall::Send { fd, .. }
            | Syscall::Receive { fd, .. } => self.model.is_nonblocking(*fd),
            Syscall::Close { fd } => !matches!(self.model.kind(*fd), Some(Kind::Stream(_))),
            Syscall::Poll { timeout_ms, .. } | Syscall::EpollWait { timeout_ms, .. } => {
                *timeout_ms == 0
            }
            Syscall::Select { timeout, .. } => timeout.is_some_and(|it| it.as_nanos() == 0),
            Syscall::Sendfile { .. } | Syscall::Splice { .. } => false,
            _ => true,
        };
        if never {
            let what = format!("{syscall:?} waits, and must not");
            return Err(Violation::new("time limits of calls", at(waiting.step), what));
        }
        Ok(())
    }

    fn judge(
        &mut self,
        judge: &mut Judge<'_>,
        syscall: &Syscall,
        (opening, way): (Option<u64>, Option<Way>),
        outcome: &Outcome,
    ) -> Result<(), (&'static str, String)> {
        if let Err(errno) = outcome
            && !errnos::allows(syscall, *errno)
        {
            return Err(("error numbers", format!("{} cannot fail so", syscall.name())));
        }
        let mut closed_since = false;
        if let Some((fd, socket_call)) = main_fd(syscall) {
            let told = outcome.as_ref().map(|returned| returned.value).map_err(|errno| *errno);
            closed_since = opening.is_some() && opening != self.model.opening(fd);
            // Flags are looked at before the kind of the descriptor.
            let checked_first = told == Err(Errno::EINVAL)
                && matches!(syscall, Syscall::Accept { .. })
                && self.model.kind(fd).is_some();
            if closed_since && told != Err(Errno::EBADF) {
                return Err(("descriptors", "it was closed under the call".to_owned()));
            }
            if !closed_since && !checked_first {
                self.model.check(fd, socket_call, told).map_err(|what| ("descriptors", what))?;
            }
        }
        if let Err(errno) = outcome {
            self.note_error(syscall, *errno);
        }
        self.take_effect(judge, syscall, outcome).map_err(|what| ("descriptors", what))?;
        self.check_amount(syscall, outcome).map_err(|what| ("amounts", what))?;
        self.keep_books(judge, syscall, way.filter(|_| closed_since), outcome)
            .map_err(|what| ("bytes", what))
    }

    /// What calls return is no more than they were asked for.
    fn check_amount(&self, syscall: &Syscall, outcome: &Outcome) -> Result<(), String> {
        let Ok(returned) = outcome else { return Ok(()) };
        let most = match syscall {
            Syscall::Write { iov, .. } | Syscall::Read { iov, .. } => iov.len(),
            Syscall::Receive { fd, iov, flags } => match self.model.kind(*fd) {
                Some(Kind::Datagram) if flags & MSG_TRUNC != 0 => u64::from(u16::MAX),
                _ => iov.len(),
            },
            Syscall::Send { message, .. } => message.iov.len(),
            Syscall::Sendfile { count, .. } => *count,
            Syscall::Splice { len, .. } => *len,
            Syscall::Poll { fds, .. } => fds.len() as u64,
            Syscall::EpollWait { max_events, .. } => *max_events as u64,
            _ => return Ok(()),
        };
        let most = most.min(MAX_RW_COUNT);
        if u64::try_from(returned.value).is_ok_and(|value| value <= most) {
            return Ok(());
        }
        Err(format!("at most {most}"))
    }

    /// Descriptors are opened, closed and changed.
    fn take_effect(
        &mut self,
        judge: &mut Judge<'_>,
        syscall: &Syscall,
        outcome: &Outcome,
    ) -> Result<(), String> {
        let Ok(returned) = outcome else { return Ok(()) };
        let value = returned.value;
        match syscall {
            Syscall::Socket { kind, .. } => {
                let file = if kind & 0xf == SOCK_DGRAM {
                    Kind::Datagram
                } else {
                    Kind::Stream(<_>::default())
                };
                self.model.open(value, file, kind & SOCK_NONBLOCK != 0)
            }
            Syscall::Accept { fd: listener, flags } => {
                let tuned = self.model.stream_mut(*listener).is_some_and(|stream| stream.tuned);
                let stream = Stream { tuned, ..Stream::default() };
                self.model.open(value, Kind::Stream(stream), flags & SOCK_NONBLOCK != 0)?;
                let Data::Address(peer) = returned.data else {
                    return Err("no address of the peer".to_owned());
                };
                let fd = value as Fd;
                if let Some(local) = self.local_name(judge, fd) {
                    let way = (local, canonical(peer));
                    self.model.stream_mut(fd).expect("just opened").ends = Some(way);
                    judge.books.accepted(way);
                }
                Ok(())
            }
            Syscall::Pipe => {
                let Data::Pipe(read, write) = returned.data else {
                    return Err("no descriptors".to_owned());
                };
                self.model.open(read.into(), Kind::Pipe, false)?;
                self.model.open(write.into(), Kind::Pipe, false)
            }
            Syscall::Open { flags, .. } => {
                self.model.open(value, Kind::Disk, flags & O_NONBLOCK != 0)
            }
            Syscall::EpollCreate { .. } | Syscall::EpollCreate1 { .. } => {
                self.model.open(value, Kind::Epoll, false)
            }
            Syscall::Close { fd } => {
                self.model.close(*fd);
                Ok(())
            }
            Syscall::EpollCtl { epfd, op, fd, event } => {
                let events = event.filter(|_| *op != EPOLL_CTL_DEL).map(|event| event.events);
                self.model.watch(*epfd, *fd, events);
                Ok(())
            }
            Syscall::Fcntl { fd, command: F_SETFL, argument } => {
                self.model.set_nonblocking(*fd, argument & O_NONBLOCK != 0);
                Ok(())
            }
            Syscall::Ioctl { fd, request: FIONBIO, argument } => {
                self.model.set_nonblocking(*fd, *argument != 0);
                Ok(())
            }
            _ => {
                self.note_stream(syscall, returned);
                Ok(())
            }
        }
    }

    /// What a call says about the stream behind a socket.
    fn note_stream(&mut self, syscall: &Syscall, returned: &Return) {
        let (Syscall::Listen { fd, .. }
        | Syscall::Shutdown { fd, .. }
        | Syscall::Connect { fd, .. }
        | Syscall::SetOption { fd, .. }
        | Syscall::GetOption { fd, .. }) = syscall
        else {
            return;
        };
        let Some(stream) = self.model.stream_mut(*fd) else { return };
        match syscall {
            Syscall::Listen { .. } => stream.listens = true,
            Syscall::Shutdown { how, .. } if *how != SHUT_WR => {
                stream.partial = true;
                stream.listens = false;
            }
            Syscall::Connect { address: Address::Unspecified, .. } => {
                (stream.ends, stream.aim, stream.listens) = (None, None, false);
            }
            Syscall::SetOption { level: SOL_SOCKET, name: SO_RCVLOWAT, .. } => stream.tuned = true,
            Syscall::GetOption { level: SOL_SOCKET, name: SO_ERROR, .. }
                if returned.option_number() != Some(0) =>
            {
                stream.partial = true;
            }
            _ => {}
        }
    }

    /// A connection that has failed may have lost bytes; one that was never there is forgotten.
    fn note_error(&mut self, syscall: &Syscall, errno: Errno) {
        let harmless =
            [Errno::EAGAIN, Errno::EINPROGRESS, Errno::EALREADY, Errno::EISCONN, Errno::EINVAL];
        if harmless.contains(&errno) {
            return;
        }
        for fd in fds_of(syscall) {
            let Some(stream) = self.model.stream_mut(fd) else { continue };
            stream.partial = true;
            if matches!(syscall, Syscall::Connect { .. }) {
                (stream.ends, stream.aim) = (None, None);
            }
        }
    }

    /// Bytes and datagrams, written and read.
    fn keep_books(
        &mut self,
        judge: &mut Judge<'_>,
        syscall: &Syscall,
        lost: Option<Way>,
        outcome: &Outcome,
    ) -> Result<(), String> {
        let Ok(returned) = outcome else {
            // How far a write got whose descriptor was closed under it, nobody is told.
            if let Some(way) = lost {
                judge.books.wrote(way, bytes_to_write(syscall));
            }
            return Ok(());
        };
        let moved = returned.value as u64;
        match syscall {
            Syscall::Send { fd, flags, .. } if flags & MSG_OOB != 0 => {
                if let Some(way) = self.way_of(*fd) {
                    judge.books.urgent(way);
                    judge.books.wrote(way, moved);
                }
            }
            Syscall::Write { fd, .. }
            | Syscall::Send { fd, .. }
            | Syscall::Sendfile { out_fd: fd, .. } => {
                self.wrote(judge, *fd, moved);
            }
            Syscall::Read { fd, iov } => self.read(judge, *fd, iov.len(), 0, returned)?,
            Syscall::Receive { fd, iov, flags } => {
                self.read(judge, *fd, iov.len(), *flags, returned)?;
            }
            Syscall::Splice { in_fd, out_fd, .. } => {
                self.wrote(judge, *out_fd, moved);
                if let Some(way) = self.way_of(*in_fd) {
                    judge.books.read((way.1, way.0), moved, judge.under_way)?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn wrote(&mut self, judge: &mut Judge<'_>, fd: Fd, bytes: u64) {
        match self.model.kind(fd) {
            Some(Kind::Datagram) => {
                if let Some(local) = self.local_name(judge, fd) {
                    judge.books.sent(local.port(), bytes);
                }
            }
            _ => {
                if let Some(way) = self.way_of(fd) {
                    judge.books.wrote(way, bytes);
                }
            }
        }
    }

    fn read(
        &mut self,
        judge: &mut Judge<'_>,
        fd: Fd,
        room: u64,
        flags: i32,
        returned: &Return,
    ) -> Result<(), String> {
        let moved = returned.value as u64;
        match self.model.kind(fd) {
            Some(Kind::Datagram) if flags & MSG_ERRQUEUE == 0 => {
                let Data::Message(message) = &returned.data else { return Ok(()) };
                let Some(from) = message.from else { return Ok(()) };
                let cut = message.flags & MSG_TRUNC != 0;
                if cut && flags & MSG_TRUNC == 0 {
                    return Ok(());
                }
                judge.books.received(from.port(), moved)
            }
            Some(Kind::Stream(stream)) if flags & (MSG_PEEK | MSG_ERRQUEUE) == 0 => {
                let Some((local, peer)) = stream.ends else { return Ok(()) };
                let way = (peer, local);
                judge.books.read(way, moved, judge.under_way)?;
                let ended = moved == 0 && room > 0 && flags & MSG_OOB == 0 && !stream.partial;
                if ended { judge.books.ended(way, judge.under_way) } else { Ok(()) }
            }
            _ => Ok(()),
        }
    }

    fn way_of(&self, fd: Fd) -> Option<Way> {
        match self.model.kind(fd)? {
            Kind::Stream(stream) => stream.ends,
            _ => None,
        }
    }

    /// Where a connection is to go, as long as it is not there.
    fn note_aim(&mut self, judge: &Judge<'_>, fd: Fd, address: Address) {
        let Address::Inet(mut aim) = address else { return };
        aim = canonical(aim);
        if aim.ip().is_unspecified() {
            aim.set_ip(judge.host.loopback_like(aim.ip()));
        }
        if let Some(stream) = self.model.stream_mut(fd) {
            stream.aim = Some(aim);
        }
    }

    /// A connection may have come into being.
    fn learn_ends(&mut self, judge: &mut Judge<'_>, fd: Fd) {
        let Some(local) = self.local_name(judge, fd).filter(|local| local.port() != 0) else {
            return;
        };
        let peer = self.quietly(judge, Syscall::PeerName { fd });
        let Some(stream) = self.model.stream_mut(fd) else { return };
        let aim = match peer {
            Poll::Ready(Ok(Return { data: Data::Address(peer), .. })) => Some(canonical(peer)),
            _ => stream.aim.filter(|_| stream.ends.is_none() && !local.ip().is_unspecified()),
        };
        if let Some(aim) = aim
            && stream.ends != Some((local, aim))
        {
            stream.ends = Some((local, aim));
            judge.books.begins((local, aim));
        }
    }

    fn local_name(&mut self, judge: &mut Judge<'_>, fd: Fd) -> Option<SocketAddr> {
        match self.quietly(judge, Syscall::LocalName { fd }) {
            Poll::Ready(Ok(Return { data: Data::Address(local), .. })) => Some(canonical(local)),
            _ => None,
        }
    }

    /// A call for the tester's own sake.
    fn quietly(&mut self, judge: &mut Judge<'_>, syscall: Syscall) -> Poll<Outcome> {
        self.sockets.call(judge.now, judge.host, &mut syscall.into())
    }

    /// What `poll` says is held against what a call then gives.
    pub fn probe(
        &mut self,
        judge: &mut Judge<'_>,
        step: usize,
        which: Which,
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
                self.expect(judge, step, read, ready & EPOLLIN != 0, waits && !stream.tuned)?;
                let send = Syscall::send(fd, 1, MSG_DONTWAIT);
                if ready & EPOLLOUT == 0 {
                    return Ok(());
                }
                self.expect(judge, step, send, true, false)
            }
            Some(Kind::Datagram) => self.expect(judge, step, read, ready & EPOLLIN != 0, waits),
            Some(Kind::Epoll) => self.probe_epoll(judge, step, fd),
            _ => Ok(()),
        }
    }

    /// An epoll tells of each descriptor what `poll` says of it; of those that are told edges, or
    /// only once, at most that.
    fn probe_epoll(
        &mut self,
        judge: &mut Judge<'_>,
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

    fn ready_for(&mut self, judge: &mut Judge<'_>, fd: Fd) -> u32 {
        self.polled(judge, fd, EPOLLIN | EPOLLOUT)
    }

    /// What `poll` says of a descriptor.
    fn polled(&mut self, judge: &mut Judge<'_>, fd: Fd, events: u32) -> u32 {
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
        judge: &mut Judge<'_>,
        step: usize,
        syscall: Syscall,
        must_go: bool,
        must_wait: bool,
    ) -> Result<(), Violation> {
        let mut call = Call::from(syscall);
        if let Some(fd) = stream_of(call.syscall(), &self.model) {
            self.learn_ends(judge, fd);
        }
        let outcome = self.sockets.call(judge.now, judge.host, &mut call);
        if let Some(fd) = stream_of(call.syscall(), &self.model) {
            self.learn_ends(judge, fd);
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
        self.judge(judge, syscall, (None, None), &outcome).map_err(|(oracle, what)| {
            Violation::new(oracle, at(step), format!("{syscall:?} gave {outcome:?}: {what}"))
        })
    }

    /// Threads end, and all descriptors but listeners are closed, without lingering.
    pub fn close_all_but_listeners(&mut self, judge: &mut Judge<'_>) -> Result<(), Violation> {
        self.waiting.clear();
        let listeners = self.model.listeners();
        let others: Vec<Fd> =
            self.model.open_ones().into_iter().filter(|fd| !listeners.contains(fd)).collect();
        others.into_iter().try_for_each(|fd| self.close_at_once(judge, fd))?;
        self.dismiss_all(judge)
    }

    /// Who has connected is accepted and closed.
    pub fn dismiss_all(&mut self, judge: &mut Judge<'_>) -> Result<(), Violation> {
        for listener in self.model.listeners() {
            let plain = Syscall::Fcntl { fd: listener, command: F_SETFL, argument: O_NONBLOCK };
            drop(self.quietly(judge, plain));
            while let Poll::Ready(Ok(accepted)) =
                self.quietly(judge, Syscall::Accept { fd: listener, flags: 0 })
            {
                self.close_at_once(judge, accepted.value as Fd)?;
            }
        }
        Ok(())
    }

    /// The process ends.
    pub fn close_all(&mut self, judge: &mut Judge<'_>) -> Result<(), Violation> {
        self.model.open_ones().into_iter().try_for_each(|fd| self.close_at_once(judge, fd))
    }

    fn close_at_once(&mut self, judge: &mut Judge<'_>, fd: Fd) -> Result<(), Violation> {
        let value = OptionValue::Linger { on: false, seconds: 0 };
        let (level, name) = (SOL_SOCKET, SO_LINGER);
        drop(self.quietly(judge, Syscall::SetOption { fd, level, name, value, len: 8 }));
        let closed = self.quietly(judge, Syscall::Close { fd });
        if !matches!(closed, Poll::Ready(Ok(_))) {
            let what = format!("close of {fd} at the end gave {closed:?}");
            return Err(Violation::new("descriptors", "the end", what));
        }
        self.model.close(fd);
        Ok(())
    }
}

/// The kernel moves no more at once (`MAX_RW_COUNT`).
const MAX_RW_COUNT: u64 = 0x7fff_f000;

fn at(step: usize) -> String {
    format!("step {step}")
}

/// IPv4-mapped addresses as IPv4.
fn canonical(address: SocketAddr) -> SocketAddr {
    let ip: IpAddr = address.ip().to_canonical();
    SocketAddr::new(ip, address.port())
}

/// The descriptor whose state alone may decide about the call, and whether it must be a socket.
fn main_fd(syscall: &Syscall) -> Option<(Fd, bool)> {
    match syscall {
        Syscall::Bind { fd, .. }
        | Syscall::Listen { fd, .. }
        | Syscall::Accept { fd, .. }
        | Syscall::Connect { fd, .. }
        | Syscall::Send { fd, .. }
        | Syscall::Receive { fd, .. }
        | Syscall::Shutdown { fd, .. }
        | Syscall::GetOption { fd, .. }
        | Syscall::SetOption { fd, .. }
        | Syscall::LocalName { fd }
        | Syscall::PeerName { fd } => Some((*fd, true)),
        Syscall::Read { fd, .. }
        | Syscall::Write { fd, .. }
        | Syscall::Close { fd }
        | Syscall::Fcntl { fd, .. }
        | Syscall::Ioctl { fd, .. } => Some((*fd, false)),
        _ => None,
    }
}

fn fds_of(syscall: &Syscall) -> Vec<Fd> {
    match syscall {
        Syscall::Sendfile { out_fd, in_fd, .. } | Syscall::Splice { out_fd, in_fd, .. } => {
            vec![*out_fd, *in_fd]
        }
        other => main_fd(other).map(|(fd, _)| fd).into_iter().collect(),
    }
}

/// Whose bytes the call writes.
fn written_by(syscall: &Syscall) -> Option<Fd> {
    match syscall {
        Syscall::Write { fd, .. } | Syscall::Send { fd, .. } => Some(*fd),
        Syscall::Sendfile { out_fd, .. } | Syscall::Splice { out_fd, .. } => Some(*out_fd),
        _ => None,
    }
}

fn bytes_to_write(syscall: &Syscall) -> u64 {
    match syscall {
        Syscall::Write { iov, .. } => iov.len(),
        Syscall::Send { message, .. } => message.iov.len(),
        Syscall::Sendfile { count, .. } => *count,
        Syscall::Splice { len, .. } => *len,
        _ => 0,
    }
}

/// The TCP socket that the call may connect, write to or read from.
fn stream_of(syscall: &Syscall, model: &Model) -> Option<Fd> {
    let fd = match syscall {
        Syscall::Connect { fd, .. } | Syscall::Read { fd, .. } | Syscall::Receive { fd, .. } => *fd,
        Syscall::Splice { in_fd, .. } if matches!(model.kind(*in_fd), Some(Kind::Stream(_))) => {
            *in_fd
        }
        other => written_by(other)?,
    };
    matches!(model.kind(fd), Some(Kind::Stream(stream)) if !stream.listens).then_some(fd)
}
