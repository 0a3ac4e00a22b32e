//! Descriptors: the lowest free number, and what it stands for.

use super::call::Fd;
use super::errno::Errno;
use super::stream::Stream;
use super::{Return, Sockets, number};

/// What a descriptor stands for.
#[derive(Debug)]
pub(super) enum File {
    /// Standard input, output or error.
    Standard,
    /// A TCP socket.
    Stream(Box<Stream>),
}

impl Sockets {
    /// Gives `file` the lowest free number.
    pub(super) fn install(&mut self, file: File) -> Fd {
        let index = self.files.iter().position(Option::is_none).unwrap_or_else(|| {
            self.files.push(None);
            self.files.len() - 1
        });
        self.files[index] = Some(file);
        index as Fd
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

    /// The TCP socket `fd`.
    pub(super) fn stream(&self, fd: Fd) -> Result<&Stream, Errno> {
        match self.file(fd)? {
            File::Stream(stream) => Ok(stream),
            File::Standard => Err(Errno::ENOTSOCK),
        }
    }

    /// The TCP socket `fd`, to change.
    pub(super) fn stream_mut(&mut self, fd: Fd) -> Result<&mut Stream, Errno> {
        match self.file_mut(fd)? {
            File::Stream(stream) => Ok(stream),
            File::Standard => Err(Errno::ENOTSOCK),
        }
    }

    /// `fcntl(2)`: `F_GETFL`, `F_SETFL`, `F_GETFD`, `F_SETFD`.
    pub(super) fn fcntl(&mut self, fd: Fd, command: i32, argument: i32) -> Result<Return, Errno> {
        let stream = self.stream_mut(fd)?;
        match command {
            number::F_GETFL => Ok(Return::value(i64::from(
                number::O_RDWR | if stream.nonblocking { number::O_NONBLOCK } else { 0 },
            ))),
            number::F_SETFL => {
                stream.nonblocking = argument & number::O_NONBLOCK != 0;
                Ok(Return::value(0))
            }
            number::F_GETFD | number::F_SETFD => Ok(Return::value(0)),
            _ => Err(Errno::EINVAL),
        }
    }
}
