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
//! | [`call`], [`option`] | calls, their progress and results; values of options |
//! | [`errno`], [`number`] | error numbers; every other number by its name |
//! | [`table`] | descriptors and what they stand for |
//! | [`stream`] | TCP: bind, listen, accept, connect, send, receive, shutdown, close |

pub mod call;
pub mod errno;
pub mod number;
pub mod option;
mod stream;
mod table;

pub use call::{
    Address, Buffer, Call, CcInfo, Control, Data, EpollEvent, ExtendedError, Fd, Iov, Message,
    PollFd, Received, Return, Syscall,
};
pub use errno::Errno;
pub use option::{Md5Signature, OptionValue};

use crate::host::Host;
use crate::units::Instant;
use core::task::Poll;
use std::collections::BTreeMap;
use table::File;

/// The descriptors of one process.
#[derive(Debug, Default)]
pub struct Sockets {
    files: Vec<Option<File>>,
    /// Virtual files by path: their length in bytes.
    disk: BTreeMap<String, u64>,
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

    /// The number of the host's socket behind a descriptor, once there is one.
    pub fn host_socket(&self, fd: Fd) -> Option<u32> {
        self.stream(fd).ok()?.host_socket()
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
        let first = !core::mem::replace(&mut progress.begun, true);
        let outcome = match syscall {
            Syscall::Socket { domain, kind, protocol } => {
                self.open_socket(host, *domain, *kind, *protocol)
            }
            Syscall::Bind { fd, address } => self.bind(host, *fd, *address),
            Syscall::Listen { fd, backlog } => self.listen(host, *fd, *backlog),
            Syscall::Accept { fd, flags } => return self.accept(now, host, *fd, *flags, progress),
            Syscall::Connect { fd, address } => {
                return self.connect(now, host, *fd, *address, first);
            }
            Syscall::Read { fd, iov } => return self.receive(now, host, *fd, iov, 0),
            Syscall::Write { fd, iov } => return self.send(now, host, *fd, iov, 0, progress),
            Syscall::Send { fd, message, flags } => {
                return self.send(now, host, *fd, &message.iov, *flags, progress);
            }
            Syscall::Receive { fd, iov, flags } => {
                return self.receive(now, host, *fd, iov, *flags);
            }
            Syscall::Close { fd } => self.close(now, host, *fd),
            Syscall::Fcntl { fd, command, argument } => self.fcntl(*fd, *command, *argument),
            Syscall::GetOption { fd, level, name, .. } => {
                self.get_option(now, host, *fd, *level, *name)
            }
            Syscall::SetOption { fd, level, name, value, .. } => {
                self.set_option(*fd, *level, *name, value)
            }
            _ => Err(Errno::EOPNOTSUPP),
        };
        Poll::Ready(outcome)
    }
}

#[cfg(test)]
mod tests;
