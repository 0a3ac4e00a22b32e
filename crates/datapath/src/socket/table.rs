//! Descriptors: the lowest free number, and what it stands for.

use super::answer::{Data, SyscallResult};
use super::call::{Fd, Progress};
use super::datagram::DatagramSocket;
use super::epoll::Epoll;
use super::errno::Errno;
use super::file::{DiskFile, Pipe, PipeEnd};
use super::stream::Stream;
use super::{Return, Sockets, number};
use crate::host::Host;
use crate::tcp::state::State;
use crate::units::{Duration, Instant};
use core::task::Poll;

/// What a descriptor stands for.
#[derive(Debug)]
pub(super) enum File {
    /// Standard input, output or error.
    Standard,
    /// A TCP socket.
    Stream(Box<Stream>),
    /// A UDP socket.
    Datagram(Box<DatagramSocket>),
    /// An epoll.
    Epoll(Epoll),
    /// One end of a pipe, by the pipe's number.
    Pipe(usize, PipeEnd),
    /// An open file of the virtual disk.
    Disk(DiskFile),
}

impl Sockets {
    /// Gives `file` the lowest free number.
    pub(super) fn install(&mut self, file: File) -> Fd {
        let index = self.files.iter().position(Option::is_none).unwrap_or_else(|| {
            self.files.push(None);
            self.files.len() - 1
        });
        self.files[index] = Some(file);
        self.opened += 1;
        self.openings.resize(self.files.len(), 0);
        self.openings[index] = self.opened;
        index as Fd
    }

    /// Which opening of `fd` is there.
    pub(super) fn opening(&self, fd: Fd) -> Option<u64> {
        self.openings.get(usize::try_from(fd).ok()?).copied()
    }

    /// What `fd` stands for.
    pub(super) fn file(&self, fd: Fd) -> Result<&File, Errno> {
        let index = usize::try_from(fd).map_err(|_| Errno::EBADF)?;
        self.files.get(index).and_then(Option::as_ref).ok_or(Errno::EBADF)
    }

    /// What `fd` stands for, to change.
    pub(super) fn file_mut(&mut self, fd: Fd) -> Result<&mut File, Errno> {
        let index = usize::try_from(fd).map_err(|_| Errno::EBADF)?;
        self.files.get_mut(index).and_then(Option::as_mut).ok_or(Errno::EBADF)
    }

    /// Whether `fd` is a socket.
    pub(super) fn socket(&self, fd: Fd) -> Result<(), Errno> {
        match self.file(fd)? {
            File::Stream(_) | File::Datagram(_) => Ok(()),
            _ => Err(Errno::ENOTSOCK),
        }
    }

    /// The TCP socket `fd`.
    pub(super) fn stream(&self, fd: Fd) -> Result<&Stream, Errno> {
        match self.file(fd)? {
            File::Stream(stream) => Ok(stream),
            _ => Err(Errno::ENOTSOCK),
        }
    }

    /// The TCP socket `fd`, to change.
    pub(super) fn stream_mut(&mut self, fd: Fd) -> Result<&mut Stream, Errno> {
        match self.file_mut(fd)? {
            File::Stream(stream) => Ok(stream),
            _ => Err(Errno::ENOTSOCK),
        }
    }

    /// `close(2)`. With `SO_LINGER` it waits until the peer has acknowledged everything.
    pub(super) fn close(
        &mut self,
        now: Instant,
        host: &mut Host,
        fd: Fd,
        progress: &mut Progress,
    ) -> Poll<SyscallResult> {
        if let File::Stream(stream) = self.file(fd)?
            && lingers(now, host, stream, progress)
        {
            return Poll::Pending;
        }
        self.remove_from_epolls(fd);
        match self.files[fd as usize].take() {
            Some(File::Stream(stream)) => Self::close_stream(now, host, &stream),
            Some(File::Datagram(socket)) => {
                if let Some(id) = socket.id {
                    host.datagram_close(id)?;
                }
            }
            Some(File::Pipe(pipe, end)) => self.pipes[pipe].close(end),
            _ => {}
        }
        Poll::Ready(Ok(Return::value(0)))
    }

    /// `pipe(2)`.
    pub(super) fn make_pipe(&mut self) -> Return {
        let pipe = self.pipes.iter().position(Pipe::is_gone).unwrap_or(self.pipes.len());
        if pipe == self.pipes.len() {
            self.pipes.push(Pipe::default());
        } else {
            self.pipes[pipe] = Pipe::default();
        }
        let read = self.install(File::Pipe(pipe, PipeEnd::Read));
        let write = self.install(File::Pipe(pipe, PipeEnd::Write));
        Return::zero_with(Data::Pipe(read, write))
    }

    /// `fcntl(2)`: `F_GETFL`, `F_SETFL`, `F_GETFD`, `F_SETFD`.
    pub(super) fn fcntl(&mut self, fd: Fd, command: i32, argument: i32) -> SyscallResult {
        let pipes = &mut self.pipes;
        let index = usize::try_from(fd).map_err(|_| Errno::EBADF)?;
        let file = self.files.get_mut(index).and_then(Option::as_mut).ok_or(Errno::EBADF)?;
        match command {
            number::F_GETFD | number::F_SETFD => Ok(Return::value(0)),
            number::F_GETFL => {
                let flags = match file {
                    File::Stream(stream) => {
                        number::O_RDWR | if stream.nonblocking { number::O_NONBLOCK } else { 0 }
                    }
                    File::Datagram(socket) => {
                        number::O_RDWR | if socket.nonblocking { number::O_NONBLOCK } else { 0 }
                    }
                    &mut File::Pipe(pipe, end) => {
                        let access = match end {
                            PipeEnd::Read => number::O_RDONLY,
                            PipeEnd::Write => number::O_WRONLY,
                        };
                        let waits = !pipes[pipe].is_nonblocking(end);
                        access | if waits { 0 } else { number::O_NONBLOCK }
                    }
                    File::Disk(disk) => disk.flags(),
                    File::Standard | File::Epoll(_) => number::O_RDWR,
                };
                Ok(Return::value(flags.into()))
            }
            number::F_SETFL => {
                let nonblocking = argument & number::O_NONBLOCK != 0;
                match file {
                    File::Stream(stream) => stream.nonblocking = nonblocking,
                    File::Datagram(socket) => socket.nonblocking = nonblocking,
                    &mut File::Pipe(pipe, end) => pipes[pipe].set_nonblocking(end, nonblocking),
                    File::Disk(file) => file.set_nonblocking(nonblocking),
                    File::Standard | File::Epoll(_) => {}
                }
                Ok(Return::value(0))
            }
            _ => Err(Errno::EINVAL),
        }
    }
}

/// Whether `close` has to wait (`sk_stream_wait_close`): the socket lingers, and what was written, or
/// the FIN behind it, is not acknowledged.
fn lingers(now: Instant, host: &mut Host, stream: &Stream, progress: &mut Progress) -> bool {
    let (Some(seconds @ 1..), Some(id)) = (stream.options.linger, stream.connection()) else {
        return false;
    };
    let deadline = now + Duration::from_secs(seconds.into());
    let deadline = *progress.deadline.get_or_insert(deadline);
    let waits = host.with_tcp(now, id, |tcp, cx| {
        if tcp.unread_bytes() > 0 {
            return false;
        }
        tcp.shutdown_write(cx);
        matches!(tcp.state(), State::FinWait1 | State::Closing | State::LastAck)
    });
    waits.unwrap_or(false) && deadline > now
}
