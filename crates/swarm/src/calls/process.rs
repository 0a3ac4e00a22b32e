//! The calls of one process, each judged by what it returns.
//!
//! | file | what it holds |
//! |---|---|
//! | `about` | what a call is about: descriptors, bytes |
//! | `effects` | what calls change: descriptors, streams |
//! | `account` | bytes and datagrams, written and read |
//! | `probe` | what `poll` and `epoll` say, held against calls |
//! | `end` | everything is closed |

mod about;
mod account;
mod effects;
mod end;
mod probe;

use core::net::{IpAddr, SocketAddr};
use core::task::Poll;

use datapath::host::Host;
use datapath::socket::number::{MSG_DONTWAIT, MSG_FASTOPEN, MSG_TRUNC};
use datapath::socket::{Call, Data, Errno, Fd, Return, Sockets, Syscall};
use datapath::units::Instant;

use super::errnos;
use super::model::{Kind, Model};
use super::totals::{Direction, Totals};
use super::watch::AcceptQueue;
use crate::case::{Digest, Violation};
use about::{bytes_to_write, main_fd, stream_of, written_by};

/// The state that a call is checked against.
pub struct CallContext<'a> {
    pub now: Instant,
    pub host: &'a mut Host,
    pub totals: &'a mut Totals,
    pub digest: &'a mut Digest,
    /// Bytes in writes of both processes that have not returned yet.
    pub under_way: u64,
}

/// A process: its descriptors, and its threads that wait in calls.
pub struct Process {
    sockets: Sockets,
    pub model: Model,
    waiting: Vec<BlockedThread>,
    /// How many calls it has made.
    pub calls: u64,
}

/// A thread that is blocked in a call.
struct BlockedThread {
    call: Call,
    step: usize,
    /// Which opening of its descriptor it is about.
    opening: Option<u64>,
    /// Where what it writes goes, as far as that is known.
    way: Option<Direction>,
    /// It was handed in before.
    has_waited: bool,
}

/// So many threads wait at most.
const THREADS: usize = 12;

type CallResult = Result<Return, Errno>;

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

    /// The accept queues of its listeners.
    pub fn accept_queues(&self, host: &Host) -> Vec<AcceptQueue> {
        let queue = |(fd, (backlog, largest))| {
            let listener = host.tcp_listener(self.sockets.host_socket(fd)?)?;
            Some(AcceptQueue { waiting: listener.backlog().0, backlog, largest })
        };
        self.model.backlogs().filter_map(queue).collect()
    }

    /// Bytes in writes that have not returned yet.
    pub fn bytes_in_flight(&self) -> u64 {
        let writes = self.waiting.iter().map(|waiting| bytes_to_write(waiting.call.syscall()));
        writes.fold(0, u64::saturating_add)
    }

    /// Makes a call. It is left out if too many threads wait already.
    pub fn begin(
        &mut self,
        judge: &mut CallContext<'_>,
        step: usize,
        syscall: Syscall,
    ) -> Result<(), Violation> {
        if self.waiting.len() == THREADS {
            return Ok(());
        }
        self.calls += 1;
        let opening = main_fd(&syscall).and_then(|(fd, _)| self.model.opening(fd));
        let waiting =
            BlockedThread { call: syscall.into(), step, opening, way: None, has_waited: false };
        if let Some(waiting) = self.go_on(judge, waiting)? {
            self.must_be_allowed_to_wait(&waiting)?;
            self.waiting.push(waiting);
        }
        Ok(())
    }

    /// Hands the calls that wait in again.
    pub fn retry(&mut self, judge: &mut CallContext<'_>) -> Result<(), Violation> {
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
        judge: &mut CallContext<'_>,
        mut waiting: BlockedThread,
    ) -> Result<Option<BlockedThread>, Violation> {
        if let Some(fd) = stream_of(waiting.call.syscall(), &self.model) {
            self.record_connection(judge, fd);
        }
        let outcome = self.sockets.call(judge.now, judge.host, &mut waiting.call);
        let syscall = waiting.call.syscall();
        let under_way = match &outcome {
            Poll::Ready(Err(errno)) => *errno == Errno::EINPROGRESS,
            Poll::Ready(Ok(_)) | Poll::Pending => true,
        };
        let aim = match syscall {
            Syscall::Connect { fd, address } => Some((*fd, *address)),
            Syscall::Send { fd, message, flags } if flags & MSG_FASTOPEN != 0 => {
                Some((*fd, message.address))
            }
            _ => None,
        };
        if let Some((fd, address)) = aim.filter(|_| under_way) {
            let begins = matches!(outcome, Poll::Ready(Err(Errno::EINPROGRESS)));
            self.note_aim(judge, fd, address, begins);
        }
        if let Some(fd) = stream_of(syscall, &self.model) {
            self.record_connection(judge, fd);
        }
        // A socket that was disconnected since has no ends any more, or others.
        let present = written_by(syscall).and_then(|fd| self.direction_of(fd));
        let way = waiting.way.or(present);
        let Poll::Ready(outcome) = outcome else {
            return Ok(Some(BlockedThread { way, has_waited: true, ..waiting }));
        };
        if let Some(present) = present.filter(|present| Some(*present) != way) {
            // It was connected anew under the write: what was not written before went there.
            judge.totals.cut_off(present, bytes_to_write(syscall));
        }
        // One of its descriptors was closed: how far it got is not reported.
        if waiting.has_waited
            && outcome == Err(Errno::EBADF)
            && let Some(way) = way
        {
            judge.totals.cut_off(way, bytes_to_write(syscall));
        }
        judge.digest.add_text(&format!("{outcome:?}"));
        let broken = |(oracle, what): (&'static str, String)| {
            let told = format!("{syscall:?} gave {outcome:?}: {what}");
            Violation::new(oracle, at(waiting.step), told)
        };
        self.check_result(judge, syscall, (waiting.opening, way), &outcome).map_err(broken)?;
        Ok(None)
    }

    /// A call that must not wait returns at once.
    fn must_be_allowed_to_wait(&self, waiting: &BlockedThread) -> Result<(), Violation> {
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

    fn check_result(
        &mut self,
        judge: &mut CallContext<'_>,
        syscall: &Syscall,
        (opening, way): (Option<u64>, Option<Direction>),
        outcome: &CallResult,
    ) -> Result<(), (&'static str, String)> {
        if let Err(errno) = outcome
            && !errnos::allows(syscall, *errno)
        {
            return Err(("error numbers", format!("{} cannot fail so", syscall.name())));
        }
        if let Some((fd, socket_call)) = main_fd(syscall) {
            let closed_since = opening.is_some() && opening != self.model.opening(fd);
            let told = outcome.as_ref().map(|returned| returned.value).map_err(|errno| *errno);
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
        self.apply(judge, syscall, outcome).map_err(|what| ("descriptors", what))?;
        self.check_amount(syscall, outcome).map_err(|what| ("amounts", what))?;
        self.keep_books(judge, syscall, way, outcome).map_err(|what| ("bytes", what))
    }

    /// What calls return is no more than they were asked for.
    fn check_amount(&self, syscall: &Syscall, outcome: &CallResult) -> Result<(), String> {
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

    fn local_name(&mut self, judge: &mut CallContext<'_>, fd: Fd) -> Option<SocketAddr> {
        match self.quietly(judge, Syscall::LocalName { fd }) {
            Poll::Ready(Ok(Return { data: Data::Address(local), .. })) => Some(canonical(local)),
            _ => None,
        }
    }

    /// A call for the tester's own sake.
    fn quietly(&mut self, judge: &mut CallContext<'_>, syscall: Syscall) -> Poll<CallResult> {
        self.sockets.call(judge.now, judge.host, &mut syscall.into())
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
