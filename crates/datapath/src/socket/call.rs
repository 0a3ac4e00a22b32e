//! System calls as plain values: what is asked, how far it got, what came of it.

use super::errno::Errno;
use super::option::OptionValue;
use crate::tcp::cc;
use crate::tcp::info::TcpInfo;
use crate::units::{Duration, Instant};
use core::net::SocketAddr;

/// A file descriptor as the caller gives it; any number may be asked about.
pub type Fd = i32;

/// A `struct sockaddr` argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Address {
    /// A null pointer.
    #[default]
    Null,
    /// `AF_UNSPEC`: `connect` dissolves the connection.
    Unspecified,
    /// `sockaddr_in` or `sockaddr_in6`.
    Inet(SocketAddr),
    /// Another family, or a length that does not fit one.
    Other {
        /// `sa_family`.
        family: i32,
        /// Length given, in bytes.
        len: u32,
    },
}

/// One `struct iovec`. In simulation only the length of the memory counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Buffer {
    len: u64,
    valid: bool,
}

/// The memory of a call: one buffer or a vector of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Iov {
    /// One.
    One(Buffer),
    /// Several (`writev`, `sendmsg`, …).
    Many(Vec<Buffer>),
}

/// What `sendmsg` takes (`struct msghdr`).
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Message {
    /// Where to (`msg_name`).
    pub address: Address,
    /// What (`msg_iov`).
    pub iov: Iov,
    /// Control messages (`msg_control`).
    pub control: Vec<Control>,
}

/// A control message (`cmsg(3)`), sent or received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Control {
    /// `SOL_TCP` `TCP_CM_INQ`: bytes left to read; one more at the end of the stream.
    TcpInq(i32),
    /// `SOL_SOCKET` `SCM_TIMESTAMPING`: the software time stamp (`ts[0]`).
    Timestamping(Instant),
    /// `SOL_SOCKET` `SO_TIMESTAMPING`: which time stamps this one message wants.
    TimestampingFlags(i32),
    /// `SOL_IP` `IP_RECVERR` or `SOL_IPV6` `IPV6_RECVERR`: why this is in the error queue.
    ExtendedError(ExtendedError),
    /// `SOL_IP` `IP_TOS`.
    IpTos(u8),
    /// `SOL_IP` `IP_TTL`.
    IpTtl(i32),
    /// `SOL_IPV6` `IPV6_TCLASS`.
    Ipv6TrafficClass(i32),
    /// Any other: level, type, and its value as a number.
    Other {
        /// `cmsg_level`.
        level: i32,
        /// `cmsg_type`.
        kind: i32,
        /// The first four bytes of its data.
        value: i32,
    },
}

/// `struct sock_extended_err`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct ExtendedError {
    /// `ee_errno`.
    pub errno: i32,
    /// `ee_origin`: `SO_EE_ORIGIN_*`.
    pub origin: u8,
    /// `ee_type`: of the ICMP message.
    pub kind: u8,
    /// `ee_code`: of the ICMP message.
    pub code: u8,
    /// `ee_info`: MTU, or `SCM_TSTAMP_*`.
    pub info: u32,
    /// `ee_data`: number of the byte that a time stamp is about.
    pub data: u32,
    /// It came over IPv6 (`IPV6_RECVERR`).
    pub ipv6: bool,
}

/// One entry of `poll`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PollFd {
    /// Which; negative ones are skipped.
    pub fd: Fd,
    /// What is asked for (`POLL*`).
    pub events: i32,
}

/// One event of `epoll_ctl` and `epoll_wait`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct EpollEvent {
    /// `EPOLL*`.
    pub events: u32,
    /// The caller's own (`epoll_data`).
    pub data: u64,
}

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
    /// `recv(2)`, `recvfrom(2)`, `recvmsg(2)`: gives [`Data::Message`].
    Receive {
        /// Which.
        fd: Fd,
        /// Into what.
        iov: Iov,
        /// `MSG_*`.
        flags: i32,
    },
    /// `sendfile(2)`: gives [`Data::Offset`].
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
    /// `pipe(2)`: gives [`Data::Pipe`].
    Pipe,
    /// `open(2)` of a virtual file.
    Open {
        /// Its path.
        path: String,
        /// `O_*`.
        flags: i32,
    },
    /// `poll(2)`: gives [`Data::Polled`].
    Poll {
        /// Whom to ask.
        fds: Vec<PollFd>,
        /// ms; negative: as long as it takes.
        timeout_ms: i32,
    },
    /// `select(2)`: gives [`Data::Selected`].
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
    /// `epoll_wait(2)`: gives [`Data::Events`].
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
    /// `ioctl(2)`: gives [`Data::Number`].
    Ioctl {
        /// Which.
        fd: Fd,
        /// `SIOC*`, `FIO*`.
        request: i32,
        /// What the argument points at.
        argument: i32,
    },
    /// `getsockopt(2)`: gives [`Data::Option`].
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
    /// `getsockname(2)`: gives [`Data::Address`].
    LocalName {
        /// Which.
        fd: Fd,
    },
    /// `getpeername(2)`: gives [`Data::Address`].
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
    /// When it gives up waiting.
    pub deadline: Option<Instant>,
    /// What the socket had been woken for when this call went to sleep.
    pub wakes: u32,
    /// It sleeps until the socket is woken.
    pub asleep: bool,
}

/// What a call returned.
#[derive(Clone, Debug, PartialEq)]
pub struct Return {
    /// The return value.
    pub value: i64,
    /// What it wrote to the caller's memory.
    pub data: Data,
}

/// What a call writes to the caller's memory, besides payload.
#[derive(Clone, Debug, PartialEq, Default)]
pub enum Data {
    /// Nothing.
    #[default]
    None,
    /// An address: `accept`, `getsockname`, `getpeername`.
    Address(SocketAddr),
    /// `recv`, `recvfrom`, `recvmsg`.
    Message(Received),
    /// `getsockopt`.
    Option(OptionValue),
    /// `poll`: `revents` of each entry.
    Polled(Vec<i32>),
    /// `select`: those that are ready.
    Selected {
        /// Readable.
        read: Vec<Fd>,
        /// Writable.
        write: Vec<Fd>,
        /// With urgent data.
        except: Vec<Fd>,
    },
    /// `epoll_wait`.
    Events(Vec<EpollEvent>),
    /// `pipe`: reading end, writing end.
    Pipe(Fd, Fd),
    /// `ioctl`.
    Number(i64),
    /// `sendfile`: where in the file it stopped.
    Offset(u64),
}

/// What was received besides payload.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Received {
    /// From whom (`msg_name`).
    pub from: Option<SocketAddr>,
    /// `msg_flags`.
    pub flags: i32,
    /// `msg_control`.
    pub control: Vec<Control>,
}

/// `TCP_CC_INFO`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CcInfo {
    /// Of CUBIC and Reno: nothing there.
    None,
    /// `struct tcp_dctcp_info`.
    Dctcp {
        /// `dctcp_enabled`.
        enabled: u16,
        /// `dctcp_ce_state`.
        ce_state: u16,
        /// `dctcp_alpha`.
        alpha: u32,
        /// `dctcp_ab_ecn`.
        ab_ecn: u32,
        /// `dctcp_ab_tot`.
        ab_tot: u32,
    },
}

impl From<cc::CcInfo> for CcInfo {
    fn from(info: cc::CcInfo) -> Self {
        match info {
            cc::CcInfo::Dctcp(info) => Self::Dctcp {
                enabled: info.enabled.into(),
                ce_state: info.ce_state.into(),
                alpha: info.alpha,
                ab_ecn: info.ab_ecn,
                ab_tot: info.ab_tot,
            },
        }
    }
}

impl Buffer {
    /// `len` bytes of valid memory.
    pub const fn of(len: u64) -> Self {
        Self { len, valid: true }
    }

    /// A bad pointer with a length: `EFAULT` if a byte of it is touched.
    pub const fn faulty(len: u64) -> Self {
        Self { len, valid: false }
    }

    /// Bytes.
    pub const fn len(self) -> u64 {
        self.len
    }

    /// No bytes.
    pub const fn is_empty(self) -> bool {
        self.len == 0
    }
}

impl Iov {
    /// Bytes in all.
    pub fn len(&self) -> u64 {
        match self {
            Self::One(buffer) => buffer.len,
            Self::Many(buffers) => {
                buffers.iter().fold(0, |sum, buffer| sum.saturating_add(buffer.len))
            }
        }
    }

    /// No bytes at all.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes before the first that cannot be touched; `None`: all of them can.
    pub(super) fn valid_len(&self) -> Option<u64> {
        let buffers = match self {
            Self::One(buffer) => core::slice::from_ref(buffer),
            Self::Many(buffers) => buffers.as_slice(),
        };
        let bad = buffers.iter().position(|buffer| !buffer.valid && buffer.len > 0)?;
        Some(buffers[..bad].iter().fold(0, |sum, buffer| sum.saturating_add(buffer.len)))
    }
}

impl Default for Iov {
    fn default() -> Self {
        Self::One(Buffer::of(0))
    }
}

impl From<u64> for Iov {
    /// One valid buffer of that many bytes.
    fn from(len: u64) -> Self {
        Self::One(Buffer::of(len))
    }
}

impl From<SocketAddr> for Address {
    fn from(address: SocketAddr) -> Self {
        Self::Inet(address)
    }
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
    pub const fn deadline(&self) -> Option<Instant> {
        self.progress.deadline
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

impl Return {
    /// A value and nothing else.
    pub const fn value(value: i64) -> Self {
        Self { value, data: Data::None }
    }

    /// 0 and what was written.
    pub const fn zero_with(data: Data) -> Self {
        Self { value: 0, data }
    }

    /// The number that `getsockopt` gave, if it gave one.
    pub fn option_number(&self) -> Option<i64> {
        match &self.data {
            Data::Option(OptionValue::Number(number)) => Some(*number),
            _ => None,
        }
    }

    /// The `TCP_INFO` that `getsockopt` gave.
    pub fn tcp_info(&self) -> Option<&TcpInfo> {
        match &self.data {
            Data::Option(OptionValue::TcpInfo(info)) => Some(info),
            _ => None,
        }
    }
}

/// What a call comes to at once, when it does not have to wait.
pub(super) type Outcome = Result<Return, Errno>;
