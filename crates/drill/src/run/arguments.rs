//! Arguments of system calls: from what the script wrote to what the host is asked.

use super::conn::Phase;
use super::control;
use super::memory::{buffer, message_header, pieces, vector};
use super::option_values::option_value;
use super::values::{bracketed, i32_of, int, len_of};
use super::{Run, Step, call_text};
use crate::ast::{CallSpec, EpollMember, Expr, ExprKind};
use crate::fault::Fault;
use core::net::SocketAddr;
use datapath::socket::{Address, EpollEvent, Fd, Message, PollFd, Syscall, number};

impl Run<'_> {
    /// The call that a line of the script makes.
    pub(super) fn syscall(&mut self, spec: &CallSpec) -> Step<Syscall> {
        let kinds = [
            Self::of_life,
            Self::of_reading,
            Self::of_writing,
            Self::of_files,
            Self::of_waiting,
            Self::of_options,
        ];
        for kind in kinds {
            if let Some(call) = kind(self, spec)? {
                return Ok(call);
            }
        }
        let name = spec.name.as_str();
        if let Some((_, count)) = KNOWN.iter().find(|(known, _)| *known == name) {
            let what = format!("{} has {} arguments", call_text(spec), spec.args.len());
            return Err(Fault::new(spec.pos, what, format!("it takes {count}")).into());
        }
        Err(Fault::unknown(spec.pos, "system call", name, &KNOWN.map(|(name, _)| name)).into())
    }

    /// Sockets come to be, are joined and end.
    fn of_life(&mut self, spec: &CallSpec) -> Step<Option<Syscall>> {
        Ok(Some(match (spec.name.as_str(), spec.args.as_slice()) {
            ("socket", [domain, kind, protocol]) => {
                let own = if self.settings.ip_version.socket_is_ipv6() {
                    number::AF_INET6
                } else {
                    number::AF_INET
                };
                Syscall::Socket {
                    domain: if domain.kind == ExprKind::Ellipsis { own } else { i32_of(domain)? },
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
            ("close", [fd]) => Syscall::Close { fd: self.fd(fd)? },
            ("shutdown", [fd, how]) => Syscall::Shutdown { fd: self.fd(fd)?, how: i32_of(how)? },
            _ => return Ok(None),
        }))
    }

    /// Bytes are read.
    fn of_reading(&mut self, spec: &CallSpec) -> Step<Option<Syscall>> {
        Ok(Some(match (spec.name.as_str(), spec.args.as_slice()) {
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
            _ => return Ok(None),
        }))
    }

    /// Bytes are written.
    fn of_writing(&mut self, spec: &CallSpec) -> Step<Option<Syscall>> {
        Ok(Some(match (spec.name.as_str(), spec.args.as_slice()) {
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
                    let what = "sendmsg() ignores msg_flags";
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
            _ => return Ok(None),
        }))
    }

    /// Files and pipes, and what goes from one descriptor to another.
    fn of_files(&mut self, spec: &CallSpec) -> Step<Option<Syscall>> {
        Ok(Some(match (spec.name.as_str(), spec.args.as_slice()) {
            ("open", [path, flags]) => match &path.kind {
                ExprKind::Str(bytes) => {
                    Syscall::Open { path: virtual_path(path, bytes)?, flags: i32_of(flags)? }
                }
                _ => return Err(Fault::new(path.pos, "a path in quotes is missing", "").into()),
            },
            ("pipe", [_]) => Syscall::Pipe,
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
            _ => return Ok(None),
        }))
    }

    /// Something is waited for.
    fn of_waiting(&mut self, spec: &CallSpec) -> Step<Option<Syscall>> {
        Ok(Some(match (spec.name.as_str(), spec.args.as_slice()) {
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
            _ => return Ok(None),
        }))
    }

    /// Options and other settings.
    fn of_options(&mut self, spec: &CallSpec) -> Step<Option<Syscall>> {
        Ok(Some(match (spec.name.as_str(), spec.args.as_slice()) {
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
            _ => return Ok(None),
        }))
    }

    /// The host's descriptor for one of the script.
    pub(super) fn fd(&self, expr: &Expr) -> Result<Fd, Fault> {
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

    pub(super) fn epoll_event(&self, expr: &Expr) -> Result<EpollEvent, Fault> {
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
