//! System calls as plain values: what is asked, and how far it got.

use super::argument::{Address, EpollEvent, Iov, Message, PollFd};
use super::option::OptionValue;
use crate::units::{Duration, Instant};

/// A file descriptor as the caller gives it; any number may be asked about.
pub type Fd = i32;

/// A system call with its arguments.
#[derive(Clone, Debug, PartialEq)]
pub enum Syscall {
    /// `socket(2)`.
    Socket {
        /// `AF_*`.
        domain: i32,
        /// `SOCK_*`, with `SOCK_NONBLOCK` and `SOCK_CLOEXEC`.
        kind: i32,
        /// `IPPROTO_*`.
        protocol: i32,
    },
    /// `bind(2)`.
    Bind {
        /// Which.
        fd: Fd,
        /// To what.
        address: Address,
    },
    /// `listen(2)`.
    Listen {
        /// Which.
        fd: Fd,
        /// Connections that may wait for `accept`.
        backlog: i32,
    },
    /// `accept4(2)`; `accept(2)` has no flags.
    Accept {
        /// The listener.
        fd: Fd,
        /// `SOCK_NONBLOCK`, `SOCK_CLOEXEC`.
        flags: i32,
    },
    /// `connect(2)`.
    Connect {
        /// Which.
        fd: Fd,
        /// Where to.
        address: Address,
    },
    /// `read(2)`, `readv(2)`.
    Read {
        /// Which.
        fd: Fd,
        /// Into what.
        iov: Iov,
    },
    /// `write(2)`, `writev(2)`.
    Write {
        /// Which.
        fd: Fd,
        /// What.
        iov: Iov,
    },
    /// `send(2)`, `sendto(2)`, `sendmsg(2)`.
    Send {
        /// Which.
        fd: Fd,
        /// What, and where to.
        message: Message,
        /// `MSG_*`.
        flags: i32,
    },
    /// `recv(2)`, `recvfrom(2)`, `recvmsg(2)`: gives [`Data::Message`](super::Data::Message).
    Receive {
        /// Which.
        fd: Fd,
        /// Into what.
        iov: Iov,
        /// `MSG_*`.
        flags: i32,
    },
    /// `sendfile(2)`: gives [`Data::Offset`](super::Data::Offset).
    Sendfile {
        /// Where to: a socket.
        out_fd: Fd,
        /// From where: a file.
        in_fd: Fd,
        /// From what place in the file; `None`: from its own position.
        offset: Option<u64>,
        /// How many bytes.
        count: u64,
    },
    /// `splice(2)`.
    Splice {
        /// From.
        in_fd: Fd,
        /// To.
        out_fd: Fd,
        /// How many bytes.
        len: u64,
        /// `SPLICE_F_*`.
        flags: i32,
    },
    /// `pipe(2)`: gives [`Data::Pipe`](super::Data::Pipe).
    Pipe,
    /// `open(2)` of a virtual file.
    Open {
        /// Its path.
        path: String,
        /// `O_*`.
        flags: i32,
    },
    /// `poll(2)`: gives [`Data::Polled`](super::Data::Polled).
    Poll {
        /// Whom to ask.
        fds: Vec<PollFd>,
        /// ms; negative: as long as it takes.
        timeout_ms: i32,
    },
    /// `select(2)`: gives [`Data::Selected`](super::Data::Selected).
    Select {
        /// Who shall be readable.
        read: Vec<Fd>,
        /// Who shall be writable.
        write: Vec<Fd>,
        /// Who shall have urgent data.
        except: Vec<Fd>,
        /// How long to wait; `None`: as long as it takes.
        timeout: Option<Duration>,
    },
    /// `epoll_create(2)`.
    EpollCreate {
        /// Must be positive; means nothing.
        size: i32,
    },
    /// `epoll_create1(2)`.
    EpollCreate1 {
        /// `EPOLL_CLOEXEC`.
        flags: i32,
    },
    /// `epoll_ctl(2)`.
    EpollCtl {
        /// The epoll.
        epfd: Fd,
        /// `EPOLL_CTL_*`.
        op: i32,
        /// About whom.
        fd: Fd,
        /// What is asked for; `None`: a null pointer.
        event: Option<EpollEvent>,
    },
    /// `epoll_wait(2)`: gives [`Data::Events`](super::Data::Events).
    EpollWait {
        /// The epoll.
        epfd: Fd,
        /// How many events fit.
        max_events: i32,
        /// ms; negative: as long as it takes.
        timeout_ms: i32,
    },
    /// `close(2)`.
    Close {
        /// Which.
        fd: Fd,
    },
    /// `shutdown(2)`.
    Shutdown {
        /// Which.
        fd: Fd,
        /// `SHUT_*`.
        how: i32,
    },
    /// `fcntl(2)`.
    Fcntl {
        /// Which.
        fd: Fd,
        /// `F_*`.
        command: i32,
        /// Its argument.
        argument: i32,
    },
    /// `ioctl(2)`: gives [`Data::Number`](super::Data::Number).
    Ioctl {
        /// Which.
        fd: Fd,
        /// `SIOC*`, `FIO*`.
        request: i32,
        /// What the argument points at.
        argument: i32,
    },
    /// `getsockopt(2)`: gives [`Data::Option`](super::Data::Option).
    GetOption {
        /// Which.
        fd: Fd,
        /// `SOL_*`.
        level: i32,
        /// `SO_*`, `TCP_*`, `IP_*`, `IPV6_*`.
        name: i32,
        /// Room for the value, bytes.
        len: u32,
    },
    /// `setsockopt(2)`.
    SetOption {
        /// Which.
        fd: Fd,
        /// `SOL_*`.
        level: i32,
        /// `SO_*`, `TCP_*`, `IP_*`, `IPV6_*`.
        name: i32,
        /// To what.
        value: OptionValue,
        /// Length given, bytes.
        len: u32,
    },
    /// `getsockname(2)`: gives [`Data::Address`](super::Data::Address).
    LocalName {
        /// Which.
        fd: Fd,
    },
    /// `getpeername(2)`: gives [`Data::Address`](super::Data::Address).
    PeerName {
        /// Which.
        fd: Fd,
    },
}

/// A system call on its way: made once, handed to
/// [`Sockets::call`](super::Sockets::call) until it is ready.
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    pub(super) syscall: Syscall,
    pub(super) progress: Progress,
}

/// How far a call got before it had to wait.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub(super) struct Progress {
    /// Bytes moved so far; of `connect`: 1 if this call has sent the SYN.
    pub bytes: u64,
    /// A write that has been handed in before.
    pub moving: bool,
    /// A write that has sent the SYN, and waits for the answer.
    pub opening: bool,
    /// The connection knows that a write waits for the handshake.
    pub pending_write: bool,
    /// When it gives up waiting, once it has had to wait; `FAR_FUTURE` if never.
    pub deadline: Option<Instant>,
    /// What the socket had been woken for when this call went to sleep.
    pub wakes: u32,
    /// It sleeps until the socket is woken.
    pub asleep: bool,
    /// What was read so far, if the caller wants to see it.
    pub fetched: Vec<u8>,
    /// Which opening of its descriptor it is about, once it has been handed in.
    pub opened: Option<u64>,
    /// How often that socket had been disconnected then.
    pub disconnects: Option<u32>,
}

impl From<Syscall> for Call {
    fn from(syscall: Syscall) -> Self {
        Self { syscall, progress: Progress::default() }
    }
}

impl Call {
    /// What is asked.
    pub const fn syscall(&self) -> &Syscall {
        &self.syscall
    }

    /// When to hand it in again even if nothing has happened: the end of a timeout.
    pub fn deadline(&self) -> Option<Instant> {
        self.progress.deadline.filter(|at| *at < Instant::FAR_FUTURE)
    }
}

impl Syscall {
    /// The name of the call, as its manual page has it.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Socket { .. } => "socket",
            Self::Bind { .. } => "bind",
            Self::Listen { .. } => "listen",
            Self::Accept { .. } => "accept",
            Self::Connect { .. } => "connect",
            Self::Read { .. } => "read",
            Self::Write { .. } => "write",
            Self::Send { .. } => "sendmsg",
            Self::Receive { .. } => "recvmsg",
            Self::Sendfile { .. } => "sendfile",
            Self::Splice { .. } => "splice",
            Self::Pipe => "pipe",
            Self::Open { .. } => "open",
            Self::Poll { .. } => "poll",
            Self::Select { .. } => "select",
            Self::EpollCreate { .. } => "epoll_create",
            Self::EpollCreate1 { .. } => "epoll_create1",
            Self::EpollCtl { .. } => "epoll_ctl",
            Self::EpollWait { .. } => "epoll_wait",
            Self::Close { .. } => "close",
            Self::Shutdown { .. } => "shutdown",
            Self::Fcntl { .. } => "fcntl",
            Self::Ioctl { .. } => "ioctl",
            Self::GetOption { .. } => "getsockopt",
            Self::SetOption { .. } => "setsockopt",
            Self::LocalName { .. } => "getsockname",
            Self::PeerName { .. } => "getpeername",
        }
    }

    /// The descriptor that the call is about, if it is about one that may be a socket.
    pub(super) const fn socket(&self) -> Option<Fd> {
        match self {
            Self::Bind { fd, .. }
            | Self::Listen { fd, .. }
            | Self::Accept { fd, .. }
            | Self::Connect { fd, .. }
            | Self::Read { fd, .. }
            | Self::Write { fd, .. }
            | Self::Send { fd, .. }
            | Self::Receive { fd, .. }
            | Self::Shutdown { fd, .. }
            | Self::Ioctl { fd, .. }
            | Self::GetOption { fd, .. }
            | Self::SetOption { fd, .. }
            | Self::LocalName { fd }
            | Self::PeerName { fd } => Some(*fd),
            _ => None,
        }
    }

    /// The descriptor that the call goes on with when it is handed in again.
    pub(super) const fn resumed_descriptor(&self) -> Option<Fd> {
        match self {
            Self::Sendfile { out_fd, .. } | Self::Splice { out_fd, .. } => Some(*out_fd),
            Self::Close { fd } => Some(*fd),
            _ => self.socket(),
        }
    }

    /// `read(fd, …, len)`.
    pub fn read(fd: Fd, len: u64) -> Self {
        Self::Read { fd, iov: len.into() }
    }

    /// `write(fd, …, len)`.
    pub fn write(fd: Fd, len: u64) -> Self {
        Self::Write { fd, iov: len.into() }
    }

    /// `send(fd, …, len, flags)`.
    pub fn send(fd: Fd, len: u64, flags: i32) -> Self {
        let message = Message { iov: len.into(), ..Message::default() };
        Self::Send { fd, message, flags }
    }

    /// `recv(fd, …, len, flags)`.
    pub fn recv(fd: Fd, len: u64, flags: i32) -> Self {
        Self::Receive { fd, iov: len.into(), flags }
    }

    /// `setsockopt` of a plain number.
    pub fn set(fd: Fd, level: i32, name: i32, value: i32) -> Self {
        Self::SetOption { fd, level, name, value: OptionValue::Number(value.into()), len: 4 }
    }

    /// `getsockopt` with room enough for any value.
    pub fn get(fd: Fd, level: i32, name: i32) -> Self {
        Self::GetOption { fd, level, name, len: 1024 }
    }
}
