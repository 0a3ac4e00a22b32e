//! System calls of the script.

use super::conn::{Conn, Phase, Protocol};
use super::control;
use super::values::{bracketed, int};
use super::{Due, FOREVER, PATIENCE, Run, Step, Stop, call_text};
use crate::ast::{CallSpec, EpollMember, Expr, ExprKind, Micros, MsgHdr};
use crate::fault::Fault;
use crate::show::seconds;
use core::net::SocketAddr;
use core::task::Poll;
use datapath::socket::{
    Address, Buffer, Call, Data, EpollEvent, Errno, Fd, Iov, Message, OptionValue, PollFd, Return,
    Syscall, number,
};
use datapath::units::Instant;

/// A call that waits while the script goes on.
pub(super) struct Pending<'a> {
    call: Call,
    spec: &'a CallSpec,
    due: Due,
    /// When it is to return.
    end: Option<Micros>,
}

impl Pending<'_> {
    pub fn deadline(&self) -> Option<Instant> {
        self.call.deadline()
    }
}

type Outcome = Result<Return, Errno>;

impl<'a> Run<'a> {
    pub(super) fn call(&mut self, spec: &'a CallSpec, due: Due) -> Step<()> {
        self.await_idle(spec)?;
        self.wait_for(due, "system call")?;
        let syscall = self.syscall(spec)?;
        let end = spec.end.map(|end| end + due.offset);
        self.pending = Some(Pending { call: Call::from(syscall), spec, due, end });
        self.carry_on()?;
        if end.is_some() || self.pending.is_none() {
            return Ok(());
        }
        // A call without an end that waits all the same: until a timeout of its own, perhaps.
        if !self.pass(self.now() + FOREVER, |run| run.pending.is_none())? {
            self.pending = None;
            let reason = format!(
                "{} waits, and the script gives no time at which it returns",
                call_text(spec)
            );
            let details = vec![format!("  write `+0...0.100 {}(…)`, or O_NONBLOCK", spec.name)];
            return Err(self.fail(spec.pos, "time", reason, details));
        }
        Ok(())
    }

    /// Lets a call that still waits come to its end, if it does so soon.
    fn await_idle(&mut self, spec: &CallSpec) -> Step<()> {
        if self.pending.is_none()
            || self.pass(self.now() + PATIENCE, |run| run.pending.is_none())?
        {
            return Ok(());
        }
        let waiting = self.pending.as_ref().expect("just seen").spec;
        let reason = format!(
            "{} while {} of line {} still waits",
            call_text(spec),
            call_text(waiting),
            waiting.pos.line
        );
        Err(self.fail(spec.pos, "time", reason, Vec::new()))
    }

    /// At the end of a script no call may wait any more.
    pub(super) fn finish_pending(&mut self) -> Step<()> {
        if self.pending.is_some() {
            self.pass(self.now() + PATIENCE, |run| run.pending.is_none())?;
        }
        match &self.pending {
            None => Ok(()),
            Some(waiting) => {
                let reason = format!("{} has not returned", call_text(waiting.spec));
                Err(self.fail(waiting.spec.pos, "time", reason, Vec::new()))
            }
        }
    }

    /// Hands the waiting call in again; hears what it returns.
    pub(super) fn carry_on(&mut self) -> Step<()> {
        let Some(mut pending) = self.pending.take() else { return Ok(()) };
        match self.kernel.call(&mut pending.call) {
            Poll::Pending => {
                self.pending = Some(pending);
                Ok(())
            }
            Poll::Ready(outcome) => {
                self.log.push(format!(
                    "{} {} returns",
                    seconds(self.now()),
                    call_text(pending.spec)
                ));
                let checked = self.returned(pending.spec, outcome);
                if let Err(Stop::Fail(failure)) = checked {
                    if !self.settings.non_fatal_calls {
                        return Err(Stop::Fail(failure));
                    }
                    self.warnings.push(*failure);
                } else {
                    checked?;
                }
                let Some(end) = pending.end else { return Ok(()) };
                let due = Due { time: end, pos: pending.spec.pos, end: None, ..pending.due };
                let before = Some(pending.due.time);
                let what = format!("{} returned", call_text(pending.spec));
                self.check_time(due, self.now(), before, &what)
            }
        }
    }

    // Arguments.

    fn syscall(&mut self, spec: &CallSpec) -> Step<Syscall> {
        let args = spec.args.as_slice();
        let wrong = |want: usize| -> Stop {
            let what = format!("{} has {} arguments", call_text(spec), args.len());
            Fault::new(spec.pos, what, format!("it takes {want}")).into()
        };
        Ok(match (spec.name.as_str(), args) {
            ("socket", [domain, kind, protocol]) => {
                let own = if self.settings.ip_version.socket_is_ipv6() {
                    number::AF_INET6
                } else {
                    number::AF_INET
                };
                Syscall::Socket {
                    domain: if is_ellipsis(domain) { own } else { i32_of(domain)? },
                    kind: i32_of(kind)?,
                    protocol: i32_of(protocol)?,
                }
            }
            ("bind", [fd, address, _]) => {
                let address = address_of(address, self.settings.bind_address())?;
                Syscall::Bind { fd: self.fd(fd)?, address }
            }
            ("listen", [fd, backlog]) => {
                Syscall::Listen { fd: self.fd(fd)?, backlog: i32_of(backlog)? }
            }
            ("accept", [fd, _, _]) => Syscall::Accept { fd: self.fd(fd)?, flags: 0 },
            ("accept4", [fd, _, _, flags]) => {
                Syscall::Accept { fd: self.fd(fd)?, flags: i32_of(flags)? }
            }
            ("connect", [fd, address, _]) => {
                let live = self.fd(fd)?;
                let address = address_of(address, self.settings.connect_address())?;
                self.connecting(live, address);
                Syscall::Connect { fd: live, address }
            }
            ("read", [fd, memory, len]) => {
                Syscall::Read { fd: self.fd(fd)?, iov: buffer(memory, len)? }
            }
            ("readv", [fd, list, count]) => {
                Syscall::Read { fd: self.fd(fd)?, iov: vector(list, int(count)?)? }
            }
            ("recv", [fd, memory, len, flags]) | ("recvfrom", [fd, memory, len, flags, _, _]) => {
                Syscall::Receive {
                    fd: self.fd(fd)?,
                    iov: buffer(memory, len)?,
                    flags: i32_of(flags)?,
                }
            }
            ("recvmsg", [fd, header, flags]) => {
                let header = message_header(header)?;
                Syscall::Receive {
                    fd: self.fd(fd)?,
                    iov: pieces(&header.iov, header.iov_len, spec.pos)?,
                    flags: i32_of(flags)?,
                }
            }
            ("write", [fd, memory, len]) => {
                Syscall::Write { fd: self.fd(fd)?, iov: buffer(memory, len)? }
            }
            ("writev", [fd, list, count]) => {
                Syscall::Write { fd: self.fd(fd)?, iov: vector(list, int(count)?)? }
            }
            ("send", [fd, memory, len, flags]) => Syscall::Send {
                fd: self.fd(fd)?,
                message: Message { iov: buffer(memory, len)?, ..Message::default() },
                flags: i32_of(flags)?,
            },
            ("sendto", [fd, memory, len, flags, address, _]) => {
                let live = self.fd(fd)?;
                let address = address_of(address, self.settings.connect_address())?;
                self.connecting(live, address);
                let iov = buffer(memory, len)?;
                let message = Message { address, iov, control: Vec::new() };
                Syscall::Send { fd: live, message, flags: i32_of(flags)? }
            }
            ("sendmsg", [fd, header, flags]) => {
                let live = self.fd(fd)?;
                let header = message_header(header)?;
                if int(&header.flags)? != 0 {
                    let fix = "put the flags behind the structure";
                    let what = "sendmsg() does not look at msg_flags";
                    return Err(Fault::new(header.flags.pos, what, fix).into());
                }
                let address = Address::Inet(self.settings.connect_address());
                self.connecting(live, address);
                let control =
                    header.control.iter().map(control::sent).collect::<Result<Vec<_>, Fault>>()?;
                let iov = pieces(&header.iov, header.iov_len, spec.pos)?;
                Syscall::Send {
                    fd: live,
                    message: Message { address, iov, control },
                    flags: i32_of(flags)?,
                }
            }
            ("sendfile", [out, input, offset, count]) => Syscall::Sendfile {
                out_fd: self.fd(out)?,
                in_fd: self.fd(input)?,
                offset: match &offset.kind {
                    ExprKind::List(_) => Some(bracketed(offset)? as u64),
                    _ => None,
                },
                count: len_of(count)?,
            },
            ("splice", [input, _, out, _, len, flags]) => Syscall::Splice {
                in_fd: self.fd(input)?,
                out_fd: self.fd(out)?,
                len: len_of(len)?,
                flags: i32_of(flags)?,
            },
            ("pipe", [_]) => Syscall::Pipe,
            ("open", [path, flags]) => match &path.kind {
                ExprKind::Str(bytes) => {
                    Syscall::Open { path: virtual_path(path, bytes)?, flags: i32_of(flags)? }
                }
                _ => return Err(Fault::new(path.pos, "a path in quotes is missing", "").into()),
            },
            ("poll", [list, count, timeout]) => {
                let fds = self.poll_fds(list)?;
                if int(count)? != fds.len() as i64 {
                    let what = format!("poll() of {} descriptors", fds.len());
                    return Err(Fault::new(count.pos, what, "the count says otherwise").into());
                }
                Syscall::Poll { fds, timeout_ms: i32_of(timeout)? }
            }
            ("select", [_, read, write, except, timeout]) => Syscall::Select {
                read: self.fd_list(read)?,
                write: self.fd_list(write)?,
                except: self.fd_list(except)?,
                timeout: match int(timeout)? {
                    millis @ 0.. => Some(datapath::units::Duration::from_millis(millis as u64)),
                    _ => None,
                },
            },
            ("epoll_create", [size]) => Syscall::EpollCreate { size: i32_of(size)? },
            ("epoll_create1", [flags]) => Syscall::EpollCreate1 { flags: i32_of(flags)? },
            ("epoll_ctl", [epfd, op, fd, event]) => Syscall::EpollCtl {
                epfd: self.fd(epfd)?,
                op: i32_of(op)?,
                fd: self.fd(fd)?,
                event: match &event.kind {
                    ExprKind::EpollEvent(_) => Some(self.epoll_event(event)?),
                    _ => None,
                },
            },
            ("epoll_wait", [epfd, event, count, timeout]) => {
                self.epoll_event(event)?;
                Syscall::EpollWait {
                    epfd: self.fd(epfd)?,
                    max_events: i32_of(count)?,
                    timeout_ms: i32_of(timeout)?,
                }
            }
            ("close", [fd]) => Syscall::Close { fd: self.fd(fd)? },
            ("shutdown", [fd, how]) => Syscall::Shutdown { fd: self.fd(fd)?, how: i32_of(how)? },
            ("fcntl", [fd, command]) => {
                Syscall::Fcntl { fd: self.fd(fd)?, command: i32_of(command)?, argument: 0 }
            }
            ("fcntl", [fd, command, argument]) => Syscall::Fcntl {
                fd: self.fd(fd)?,
                command: i32_of(command)?,
                argument: i32_of(argument)?,
            },
            ("ioctl", [fd, request]) => {
                Syscall::Ioctl { fd: self.fd(fd)?, request: i32_of(request)?, argument: 0 }
            }
            ("ioctl", [fd, request, value]) => Syscall::Ioctl {
                fd: self.fd(fd)?,
                request: i32_of(request)?,
                argument: bracketed(value)? as i32,
            },
            ("getsockopt", [fd, level, name, _, len]) => Syscall::GetOption {
                fd: self.fd(fd)?,
                level: i32_of(level)?,
                name: i32_of(name)?,
                len: bracketed(len)? as u32,
            },
            ("setsockopt", [fd, level, name, value, len]) => {
                let (level, name) = (i32_of(level)?, i32_of(name)?);
                Syscall::SetOption {
                    fd: self.fd(fd)?,
                    level,
                    name,
                    value: option_value(level, name, value)?,
                    len: i32_of(len)? as u32,
                }
            }
            (name, _) => {
                if let Some((_, count)) = KNOWN.iter().find(|(known, _)| *known == name) {
                    return Err(wrong(*count));
                }
                let known = KNOWN.map(|(name, _)| name);
                return Err(Fault::unknown(spec.pos, "system call", name, &known).into());
            }
        })
    }

    /// The host's descriptor for one of the script.
    fn fd(&self, expr: &Expr) -> Result<Fd, Fault> {
        let script = int(expr)?;
        self.fds.get(&script).copied().ok_or_else(|| {
            let open: Vec<String> = self.fds.keys().map(ToString::to_string).collect();
            let what = format!("descriptor {script} is not open");
            Fault::new(expr.pos, what, format!("open are: {}", open.join(", ")))
        })
    }

    fn fd_list(&self, expr: &Expr) -> Result<Vec<Fd>, Fault> {
        match &expr.kind {
            ExprKind::List(list) => list.iter().map(|it| self.fd(it)).collect(),
            _ => Ok(Vec::new()),
        }
    }

    /// A socket is about to be connected: the next SYN of the script is its.
    fn connecting(&mut self, fd: Fd, address: Address) {
        let remote = SocketAddr::new(self.settings.remote, self.settings.connect_port);
        let Some(conn) = self.conns.iter_mut().rev().find(|conn| conn.fd == Some(fd)) else {
            return;
        };
        if address == Address::Unspecified {
            conn.phase = Phase::New;
        } else if conn.phase == Phase::New {
            conn.phase = Phase::Connecting;
            conn.local = None;
            conn.remote = Some(remote);
            if let Address::Inet(given) = address
                && given != self.settings.connect_address()
            {
                conn.remote = Some(SocketAddr::new(given.ip().to_canonical(), given.port()));
            }
        }
    }

    fn poll_fds(&self, expr: &Expr) -> Result<Vec<PollFd>, Fault> {
        let ExprKind::List(list) = &expr.kind else {
            return Err(Fault::new(expr.pos, "a list of `{fd=…, events=…}` is missing", ""));
        };
        list.iter()
            .map(|entry| match &entry.kind {
                ExprKind::PollFd(poll) => {
                    Ok(PollFd { fd: self.fd(&poll.fd)?, events: i32_of(&poll.events)? })
                }
                _ => Err(Fault::new(entry.pos, "expected `{fd=…, events=…}`", "")),
            })
            .collect()
    }

    fn epoll_event(&self, expr: &Expr) -> Result<EpollEvent, Fault> {
        let ExprKind::EpollEvent(event) = &expr.kind else {
            return Err(Fault::new(expr.pos, "expected `{events=…, fd=…}`", ""));
        };
        let data = match event.member {
            EpollMember::Fd => self.fd(&event.data)? as u64,
            EpollMember::Ptr | EpollMember::U64 => int(&event.data)? as u64,
            EpollMember::U32 => u64::from(int(&event.data)? as u32),
        };
        Ok(EpollEvent { events: int(&event.events)? as u32, data })
    }

    // Results.

    fn returned(&mut self, spec: &CallSpec, outcome: Outcome) -> Step<()> {
        self.check_result(spec, &outcome)?;
        if let Ok(done) = outcome {
            self.remember(spec, &done)?;
            self.check_data(spec, &done.data)?;
        } else if spec.name == "epoll_wait" {
            self.check_data(spec, &Data::Events(Vec::new()))?;
        }
        Ok(())
    }

    fn check_result(&self, spec: &CallSpec, outcome: &Outcome) -> Step<()> {
        let expected = int(&spec.result)?;
        let opens = OPENING.contains(&spec.name.as_str());
        let (value, errno) = match outcome {
            Ok(done) => (done.value, None),
            Err(errno) => (-1, Some(*errno)),
        };
        let shown = match errno {
            Some(errno) => format!("-1 {errno}"),
            None => value.to_string(),
        };
        let fits = if opens && expected >= 0 { value >= 0 } else { value == expected };
        if !fits {
            let wanted = match &spec.errno {
                Some((_, name)) => format!("{expected} {name}"),
                None => expected.to_string(),
            };
            let reason = format!("{} returned {shown}, expected {wanted}", call_text(spec));
            return Err(self.fail(spec.pos, "result", reason, Vec::new()));
        }
        let Some((pos, name)) = &spec.errno else { return Ok(()) };
        let wanted = Errno::by_name(name).ok_or_else(|| {
            let known: Vec<&str> = Errno::ALL.iter().map(|(_, name, _)| *name).collect();
            Fault::unknown(*pos, "errno", name, &known)
        })?;
        if errno == Some(wanted) {
            return Ok(());
        }
        let reason = format!("{} gave {shown}, expected errno {wanted}", call_text(spec));
        Err(self.fail(spec.pos, "errno", reason, Vec::new()))
    }

    /// New descriptors and connections, and those that are gone.
    fn remember(&mut self, spec: &CallSpec, done: &Return) -> Step<()> {
        let live = done.value as Fd;
        match spec.name.as_str() {
            "socket" => {
                let script = int(&spec.result)?;
                self.open(spec, script, live)?;
                let protocol = match (i32_of(&spec.args[1])? & 0xf, i32_of(&spec.args[2])?) {
                    (_, number::IPPROTO_ICMP | number::IPPROTO_ICMPV6) => Protocol::Icmp,
                    (number::SOCK_DGRAM, _) => Protocol::Udp,
                    _ => Protocol::Tcp,
                };
                let mut conn = Conn::new(Phase::New, protocol);
                (conn.script_fd, conn.fd) = (Some(script), Some(live));
                self.conns.push(conn);
                self.current = Some(self.conns.len() - 1);
            }
            "listen" => {
                let fd = self.fd(&spec.args[0])?;
                if let Some(conn) = self.conns.iter_mut().rev().find(|it| it.fd == Some(fd)) {
                    conn.phase = Phase::Listening;
                }
            }
            "accept" | "accept4" => self.accepted(spec, done)?,
            "epoll_create" | "epoll_create1" | "open" => {
                self.open(spec, int(&spec.result)?, live)?;
            }
            "pipe" => {
                let (ExprKind::List(list), Data::Pipe(read, write)) =
                    (&spec.args[0].kind, &done.data)
                else {
                    return Err(Fault::new(spec.pos, "expected `[read, write]`", "").into());
                };
                let (read, write) = (*read, *write);
                if let [one, two] = list.as_slice() {
                    self.open(spec, int(one)?, read)?;
                    self.open(spec, int(two)?, write)?;
                }
            }
            "close" => {
                self.fds.remove(&int(&spec.args[0])?);
            }
            _ => {}
        }
        Ok(())
    }

    fn open(&mut self, spec: &CallSpec, script: i64, live: Fd) -> Step<()> {
        if self.fds.contains_key(&script) {
            let what = format!("descriptor {script} is open already");
            return Err(Fault::new(spec.pos, what, "close it first, or take another number").into());
        }
        self.fds.insert(script, live);
        Ok(())
    }

    /// The connection that was accepted is the one whose SYN came from there.
    fn accepted(&mut self, spec: &CallSpec, done: &Return) -> Step<()> {
        let script = int(&spec.result)?;
        let live = done.value as Fd;
        let peer = match &done.data {
            Data::Address(address) => {
                Some(SocketAddr::new(address.ip().to_canonical(), address.port()))
            }
            _ => None,
        };
        let found = self.conns.iter().rposition(|conn| {
            matches!(conn.phase, Phase::SynAckOut | Phase::Accepted)
                && conn.fd.is_none()
                && (peer.is_none() || conn.remote == peer)
        });
        let Some(index) = found else {
            let reason = "accept() gave a connection that the script has not opened";
            return Err(self.fail(spec.pos, "connection", reason, Vec::new()));
        };
        // A number that is in use already stands for the newest connection from here on.
        self.fds.insert(script, live);
        let conn = &mut self.conns[index];
        (conn.script_fd, conn.fd) = (Some(script), Some(live));
        Ok(())
    }

    /// What the call wrote to the application's memory.
    fn check_data(&self, spec: &CallSpec, data: &Data) -> Step<()> {
        let differ = |field: &str, expected: &str, actual: &str| {
            let reason =
                format!("{}: {field} expected {expected}, actual {actual}", call_text(spec));
            Err(self.fail(spec.pos, field, reason, Vec::new()))
        };
        match (spec.name.as_str(), spec.args.as_slice(), data) {
            ("ioctl", [_, _, value], Data::Number(actual)) => {
                let expected = bracketed(value)?;
                if expected != *actual {
                    return differ("value", &expected.to_string(), &actual.to_string());
                }
            }
            ("getsockopt", [_, _, _, value, len], Data::Option(actual)) => {
                if let Some((expected, actual)) = option_differs(value, bracketed(len)?, actual)? {
                    return differ("value", &expected, &actual);
                }
            }
            ("poll", [list, ..], Data::Polled(actual)) => {
                let ExprKind::List(list) = &list.kind else { return Ok(()) };
                for (entry, actual) in list.iter().zip(actual) {
                    let ExprKind::PollFd(poll) = &entry.kind else { continue };
                    let expected = poll.revents.as_ref().map_or(Ok(0), int)? as i32;
                    if expected != *actual {
                        let (expected, actual) =
                            (flag_names(expected, &POLL), flag_names(*actual, &POLL));
                        return differ("revents", &expected, &actual);
                    }
                }
            }
            ("epoll_wait", [_, event, ..], Data::Events(actual)) => {
                let expected = self.epoll_event(event)?;
                let actual = actual.first().copied().unwrap_or_default();
                if expected.events != actual.events {
                    let (expected, actual) = (
                        flag_names(expected.events as i32, &POLL),
                        flag_names(actual.events as i32, &POLL),
                    );
                    return differ("events", &expected, &actual);
                }
                if expected.data != actual.data {
                    let (expected, actual) = (expected.data.to_string(), actual.data.to_string());
                    return differ("data", &expected, &actual);
                }
            }
            ("recvmsg", [_, header, _], Data::Message(actual)) => {
                let header = message_header(header)?;
                let expected = int(&header.flags)? as i32;
                if expected != actual.flags {
                    let (expected, actual) =
                        (format!("{expected:#x}"), format!("{:#x}", actual.flags));
                    return differ("msg_flags", &expected, &actual);
                }
                let clock = control::Clock {
                    start: self.start,
                    tolerance_usecs: self.settings.tolerance_usecs,
                };
                if let Some((field, expected, actual)) =
                    control::differs(&header.control, &actual.control, clock)?
                {
                    return differ(&field, &expected, &actual);
                }
            }
            _ => {}
        }
        Ok(())
    }
}

/// `...` is the address of the settings.
fn address_of(expr: &Expr, own: SocketAddr) -> Result<Address, Fault> {
    match &expr.kind {
        ExprKind::Ellipsis => Ok(Address::Inet(own)),
        ExprKind::SockAddr(address) => Ok(Address::Inet(*address)),
        _ => match int(expr)? as i32 {
            number::AF_UNSPEC => Ok(Address::Unspecified),
            family => Ok(Address::Other { family, len: 16 }),
        },
    }
}

/// Files are virtual ones, made by the script itself.
fn virtual_path(expr: &Expr, bytes: &[u8]) -> Result<String, Fault> {
    let path = String::from_utf8_lossy(bytes).into_owned();
    if path.starts_with("/tmp/") && !path.contains("..") {
        return Ok(path);
    }
    let what = format!("`{path}` is not a file of this script");
    Err(Fault::new(expr.pos, what, "make one below /tmp by `dd` first"))
}

fn is_ellipsis(expr: &Expr) -> bool {
    expr.kind == ExprKind::Ellipsis
}

fn i32_of(expr: &Expr) -> Result<i32, Fault> {
    let value = int(expr)?;
    i32::try_from(value)
        .or_else(|_| u32::try_from(value).map(|it| it as i32))
        .map_err(|_| Fault::new(expr.pos, format!("{value} does not fit in an int"), "32 bits"))
}

/// A length in bytes. `size_t`: a negative one is absurdly large, and the call says so.
fn len_of(expr: &Expr) -> Result<u64, Fault> {
    Ok(int(expr)? as u64)
}

/// `..., n`: a buffer; `NULL, n`: a bad one.
fn buffer(memory: &Expr, len: &Expr) -> Result<Iov, Fault> {
    let len = len_of(len)?;
    match &memory.kind {
        ExprKind::Ellipsis | ExprKind::Str(_) => Ok(Iov::One(Buffer::of(len))),
        _ if int(memory)? == 0 => Ok(Iov::One(Buffer::faulty(len))),
        _ => Err(Fault::new(memory.pos, "memory is `...` or NULL", "")),
    }
}

fn vector(list: &Expr, count: i64) -> Result<Iov, Fault> {
    match &list.kind {
        ExprKind::List(list_inner) => pieces(list_inner, count, list.pos),
        _ => Err(Fault::new(list.pos, "a list of `{..., length}` is missing", "")),
    }
}

fn pieces(list: &[Expr], count: i64, pos: crate::fault::Pos) -> Result<Iov, Fault> {
    if count != list.len() as i64 {
        let what = format!("{count} pieces are said, {} are there", list.len());
        return Err(Fault::new(pos, what, "make the numbers agree"));
    }
    list.iter()
        .map(|piece| match &piece.kind {
            ExprKind::Iovec(len) => Ok(Buffer::of(*len as u64)),
            _ => Err(Fault::new(piece.pos, "expected `{..., length}`", "")),
        })
        .collect::<Result<Vec<_>, _>>()
        .map(Iov::Many)
}

fn message_header(expr: &Expr) -> Result<&MsgHdr, Fault> {
    match &expr.kind {
        ExprKind::MsgHdr(header) => Ok(header),
        _ => Err(Fault::new(expr.pos, "expected `{msg_name(...)=..., msg_iov(1)=[…], …}`", "")),
    }
}

fn option_value(level: i32, name: i32, expr: &Expr) -> Result<OptionValue, Fault> {
    let text_option = matches!(
        (level, name),
        (number::SOL_TCP, number::TCP_CONGESTION | number::TCP_ULP)
            | (number::SOL_SOCKET, number::SO_BINDTODEVICE)
    );
    match &expr.kind {
        ExprKind::List(list) if list.len() <= 1 => Ok(OptionValue::Number(bracketed(expr)?)),
        ExprKind::List(_) => Err(Fault::new(expr.pos, "an option of several numbers", "one")),
        ExprKind::Linger(on, seconds) => {
            Ok(OptionValue::Linger { on: *on != 0, seconds: (*seconds).max(0) as u32 })
        }
        ExprKind::Str(bytes) if text_option => {
            Ok(OptionValue::Text(String::from_utf8_lossy(bytes).into_owned()))
        }
        ExprKind::Str(bytes) => Ok(OptionValue::Bytes(bytes.clone())),
        ExprKind::In6Addr(address) => Ok(OptionValue::Bytes(address.octets().to_vec())),
        ExprKind::Ellipsis => Ok(OptionValue::Fault),
        _ if int(expr)? == 0 => Ok(OptionValue::Fault),
        _ => Err(Fault::new(expr.pos, "a plain number", "put it in brackets: `[1]`")),
    }
}

/// Expected and actual value of an option, if they differ.
fn option_differs(
    expected: &Expr,
    len: i64,
    actual: &OptionValue,
) -> Result<Option<(String, String)>, Fault> {
    let pair = match (&expected.kind, actual) {
        (ExprKind::List(_), OptionValue::Number(actual)) => {
            let expected = bracketed(expected)?;
            // Four bytes are compared.
            (expected as i32 != *actual as i32).then(|| (expected.to_string(), actual.to_string()))
        }
        (ExprKind::Str(bytes), OptionValue::Text(text)) => {
            let expected = String::from_utf8_lossy(bytes).into_owned();
            let shown: String = text.chars().take(usize::try_from(len).unwrap_or(0)).collect();
            (expected.trim_end_matches('\0') != shown).then_some((expected, shown))
        }
        (ExprKind::Str(bytes), OptionValue::Bytes(actual)) => {
            (bytes != actual).then(|| (format!("{bytes:02x?}"), format!("{actual:02x?}")))
        }
        (ExprKind::Linger(on, seconds), OptionValue::Linger { on: actual_on, seconds: actual }) => {
            let same = (*on != 0) == *actual_on && i64::from(*seconds) == i64::from(*actual);
            (!same).then(|| {
                (format!("{{{on}, {seconds}}}"), format!("{{{}, {actual}}}", u8::from(*actual_on)))
            })
        }
        (ExprKind::Ellipsis, _) => None,
        (_, actual) => {
            let what = "this option is not compared with such a value";
            return Err(Fault::new(expected.pos, what, format!("it is {actual:?}")));
        }
    };
    Ok(pair)
}

/// Bits by the names of `poll` (`epoll` has the same bits).
fn flag_names(bits: i32, names: &[(i32, &str)]) -> String {
    let mut left = bits;
    let mut out = Vec::new();
    for (bit, name) in names {
        if left & bit != 0 {
            out.push((*name).to_owned());
            left &= !bit;
        }
    }
    if left != 0 || out.is_empty() {
        out.push(format!("{left:#x}"));
    }
    out.join("|")
}

const POLL: [(i32, &str); 8] = [
    (number::POLLIN, "POLLIN"),
    (number::POLLPRI, "POLLPRI"),
    (number::POLLOUT, "POLLOUT"),
    (number::POLLERR, "POLLERR"),
    (number::POLLHUP, "POLLHUP"),
    (number::POLLRDHUP, "POLLRDHUP"),
    (number::POLLRDNORM, "POLLRDNORM"),
    (number::POLLWRNORM, "POLLWRNORM"),
];

/// Calls whose result is a descriptor: any will do for the one that the script names.
const OPENING: [&str; 6] = ["socket", "accept", "accept4", "open", "epoll_create", "epoll_create1"];

/// Calls and how many arguments they take.
const KNOWN: [(&str, usize); 34] = [
    ("socket", 3),
    ("bind", 3),
    ("listen", 2),
    ("accept", 3),
    ("accept4", 4),
    ("connect", 3),
    ("read", 3),
    ("readv", 3),
    ("recv", 4),
    ("recvfrom", 6),
    ("recvmsg", 3),
    ("write", 3),
    ("writev", 3),
    ("send", 4),
    ("sendto", 6),
    ("sendmsg", 3),
    ("sendfile", 4),
    ("splice", 6),
    ("pipe", 1),
    ("open", 2),
    ("poll", 3),
    ("select", 5),
    ("epoll_create", 1),
    ("epoll_create1", 1),
    ("epoll_ctl", 4),
    ("epoll_wait", 4),
    ("close", 1),
    ("shutdown", 2),
    ("fcntl", 3),
    ("ioctl", 3),
    ("getsockopt", 5),
    ("setsockopt", 5),
    ("psp_rx_assoc", 3),
    ("psp_tx_assoc", 4),
];
