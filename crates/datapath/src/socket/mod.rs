//! The socket API: system calls with Linux's semantics over a [`Host`], without a thread or a
//! clock.
//!
//! A [`Syscall`] is a plain value. Handed to [`Sockets::call`] as a [`Call`], it is either ready
//! (`Ok(Return)` or `Err(Errno)`), or pending: the descriptor is a blocking one and the call has
//! to wait. A pending call is handed in again, the same one, whenever something has happened at
//! the host, and no later than its [`Call::deadline`].
//!
//! Payload is a length: simulation has no bytes. See docs/sockets.md for an example.
//!
//! | file | what it holds |
//! |---|---|
//! | [`call`], [`argument`], [`answer`] | calls and their progress; what their arguments point at; what they return |
//! | [`option`] | values of options |
//! | [`errno`], [`number`] | error numbers; every other number by its name |
//! | `table`, `file` | descriptors and what they stand for; files, pipes, `sendfile`, `splice` |
//! | `stream`, `bind`, `transfer` | TCP: accept, connect, close; bind, listen; sending and receiving |
//! | `datagram` | UDP |
//! | `options` | `getsockopt`, `setsockopt`, `ioctl` |
//! | `poll`, `epoll` | readiness |

pub mod answer;
pub mod argument;
mod bind;
pub mod call;
mod datagram;
mod epoll;
pub mod errno;
mod family;
mod file;
pub mod number;
pub mod option;
mod options;
mod poll;
mod stream;
mod table;
mod transfer;

pub use answer::{CcInfo, Data, Received, Return};
pub use argument::{Address, Buffer, Control, EpollEvent, ExtendedError, Iov, Message, PollFd};
pub use call::{Call, Fd, Syscall};
pub use errno::Errno;
pub use option::{Md5Signature, OptionValue};
pub use poll::{tcp_poll, udp_poll};

use crate::host::{Host, SocketId};
use crate::units::Instant;
use core::task::Poll;
use file::Pipe;
use options::shortened;
use std::collections::BTreeMap;
use table::File;

/// Bytes that one call moves at most (`MAX_RW_COUNT`).
const MAX_RW_COUNT: u64 = 0x7fff_f000;

/// The descriptors of one process.
#[derive(Debug, Default)]
pub struct Sockets {
    files: Vec<Option<File>>,
    /// By descriptor: which opening it is. No two have the same number.
    openings: Vec<u64>,
    /// How many there have been.
    opened: u64,
    pipes: Vec<Pipe>,
    /// Virtual files by path: their length in bytes.
    disk: BTreeMap<String, u64>,
    /// Which state of the host's sysctls the sockets know.
    sysctls_seen: u32,
}

impl Sockets {
    /// A process with nothing open but 0, 1 and 2, which stand for nothing here.
    pub fn new() -> Self {
        Self {
            files: vec![Some(File::Standard), Some(File::Standard), Some(File::Standard)],
            ..Self::default()
        }
    }

    /// Puts a file of `len` bytes on the virtual disk.
    pub fn write_file(&mut self, path: &str, len: u64) {
        self.disk.insert(path.to_owned(), len);
    }

    /// Takes a file off the virtual disk; true if it was there.
    pub fn remove_file(&mut self, path: &str) -> bool {
        self.disk.remove(path).is_some()
    }

    /// The host's socket behind a descriptor, once there is one.
    pub fn host_socket(&self, fd: Fd) -> Option<SocketId> {
        match self.file(fd).ok()? {
            File::Stream(stream) => stream.host_socket(),
            File::Datagram(socket) => socket.id,
            _ => None,
        }
    }

    /// Carries a call on. `Pending`: it waits; see the module's documentation.
    ///
    /// # Errors
    /// What the system call would set `errno` to.
    pub fn call(
        &mut self,
        now: Instant,
        host: &mut Host,
        call: &mut Call,
    ) -> Poll<Result<Return, Errno>> {
        let Call { syscall, progress } = call;
        if self.sysctls_seen != host.tcp_sysctl_version() {
            self.read_sysctls(host);
        }
        if let Some(opening) = syscall.resumed_descriptor().and_then(|fd| self.opening(fd))
            && *progress.opened.get_or_insert(opening) != opening
        {
            // It was closed under the call, and its number stands for something else now.
            return Poll::Ready(Err(Errno::EBADF));
        }
        if let Some(fd) = syscall.socket()
            && matches!(self.file(fd), Ok(File::Datagram(_)))
            && let Some(done) = self.datagram_call(now, host, fd, syscall, progress)
        {
            return done;
        }
        Poll::Ready(match syscall {
            Syscall::Socket { domain, kind, protocol } => {
                self.open_socket(host, *domain, *kind, *protocol)
            }
            Syscall::Bind { fd, address } => self.bind(host, *fd, *address),
            Syscall::Listen { fd, backlog } => self.listen(now, host, *fd, *backlog),
            Syscall::Shutdown { fd, how } => self.shutdown(now, host, *fd, *how),
            Syscall::Pipe => Ok(self.make_pipe()),
            Syscall::Open { path, flags } => self.open(path, *flags),
            Syscall::Fcntl { fd, command, argument } => self.fcntl(*fd, *command, *argument),
            Syscall::Ioctl { fd, request, argument } => self.ioctl(host, *fd, *request, *argument),
            Syscall::GetOption { fd, level, name, len } => {
                self.socket(*fd)?;
                if *len > i32::MAX as u32 {
                    return Poll::Ready(Err(Errno::EINVAL));
                }
                let value = self.get_option(now, host, *fd, *level, *name);
                value.and_then(|value| shortened(value, *level, *name, *len))
            }
            Syscall::SetOption { fd, level, name, value, len } => {
                self.socket(*fd)?;
                if *len > i32::MAX as u32 {
                    return Poll::Ready(Err(Errno::EINVAL));
                }
                self.set_option(now, host, *fd, *level, *name, value, *len)
            }
            Syscall::LocalName { fd } => self.local_name(host, *fd),
            Syscall::PeerName { fd } => self.peer_name(host, *fd),
            Syscall::EpollCreate { size } => self.epoll_create(*size),
            Syscall::EpollCreate1 { flags } => self.epoll_create1(*flags),
            Syscall::EpollCtl { epfd, op, fd, event } => {
                self.epoll_ctl(host, *epfd, *op, *fd, *event)
            }
            _ => return self.blocking_call(now, host, syscall, progress),
        })
    }

    /// Sockets without a connection read the host's sysctls anew.
    #[cold]
    fn read_sysctls(&mut self, host: &Host) {
        self.sysctls_seen = host.tcp_sysctl_version();
        let sysctl = host.tcp_defaults().sysctl;
        for file in self.files.iter_mut().flatten() {
            if let File::Stream(stream) = file {
                stream.config.read_sysctl(&sysctl);
            }
        }
    }

    /// The calls that may have to wait.
    fn blocking_call(
        &mut self,
        now: Instant,
        host: &mut Host,
        syscall: &Syscall,
        progress: &mut call::Progress,
    ) -> Poll<Result<Return, Errno>> {
        match syscall {
            Syscall::Close { fd } => self.close(now, host, *fd, progress),
            Syscall::Accept { fd, flags } => self.accept(now, host, *fd, *flags, progress),
            Syscall::Connect { fd, address } => self.connect(now, host, *fd, *address, progress),
            Syscall::Read { fd, iov } => {
                match self.move_plain(*fd, iov.len().min(MAX_RW_COUNT), false) {
                    Some(moved) => moved,
                    // Whatever the socket's state (`sock_read_iter`).
                    None if iov.is_empty() && self.stream(*fd).is_ok() => {
                        Poll::Ready(Ok(Return::value(0)))
                    }
                    None => self.receive(now, host, *fd, iov, 0, progress),
                }
            }
            Syscall::Write { fd, iov } => {
                match self.move_plain(*fd, iov.len().min(MAX_RW_COUNT), true) {
                    Some(moved) => moved,
                    None => self.send(now, host, *fd, iov, 0, progress),
                }
            }
            Syscall::Send { fd, message, flags } => {
                self.send_message(now, host, *fd, message, *flags, progress)
            }
            Syscall::Receive { fd, iov, flags } => {
                self.receive(now, host, *fd, iov, *flags, progress)
            }
            Syscall::Sendfile { out_fd, in_fd, offset, count } => {
                self.sendfile(now, host, *out_fd, *in_fd, *offset, *count, progress)
            }
            Syscall::Splice { in_fd, out_fd, len, flags } => {
                self.splice(now, host, *in_fd, *out_fd, *len, *flags, progress)
            }
            Syscall::Poll { fds, timeout_ms } => {
                self.poll_call(now, host, fds, *timeout_ms, progress)
            }
            Syscall::Select { read, write, except, timeout } => {
                self.select(now, host, [read, write, except], *timeout, progress)
            }
            Syscall::EpollWait { epfd, max_events, timeout_ms } => {
                self.epoll_wait(now, host, *epfd, *max_events, *timeout_ms, progress)
            }
            _ => unreachable!("{} never waits", syscall.name()),
        }
    }
}

#[cfg(test)]
mod tests;
