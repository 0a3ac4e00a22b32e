//! What descriptors may stand for besides sockets: files of a virtual disk, and pipes; and what
//! moves bytes between them and sockets: `sendfile`, `splice`.

use super::answer::{Data, Return, SyscallResult};
use super::call::{Fd, Progress};
use super::errno::Errno;
use super::table::File;
use super::{MAX_RW_COUNT, Sockets, number};
use crate::host::{Host, WakeCounts};
use crate::units::Instant;
use core::task::Poll;
use std::collections::BTreeMap;

/// An open file of the virtual disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DiskFile {
    path: String,
    position: u64,
    flags: i32,
}

/// Which end of a pipe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PipeEnd {
    /// To read from.
    Read,
    /// To write to.
    Write,
}

/// A pipe: how many bytes lie in it, and which ends are open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pipe {
    /// Bytes in it.
    bytes: u64,
    /// How often who waits at its ends has been woken.
    wakes: WakeCounts,
    reader: bool,
    writer: bool,
    /// `O_NONBLOCK` of the reading end, and of the writing end.
    nonblocking: (bool, bool),
}

/// `MAX_LFS_FILESIZE`: where a file ends at the latest.
const LARGEST_FILE: u64 = i64::MAX as u64;

/// Bytes that a pipe holds (`pipe(7)`).
const PIPE_SIZE: u64 = 65_536;

impl Default for Pipe {
    fn default() -> Self {
        Self {
            bytes: 0,
            wakes: WakeCounts::default(),
            reader: true,
            writer: true,
            nonblocking: (false, false),
        }
    }
}

impl Pipe {
    /// Bytes in it.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// How often who waits at its ends has been woken: readers by each write, since a poll asks for
    /// that (`poll_usage`), writers by each read, both when an end is closed.
    pub fn wakes(&self) -> WakeCounts {
        self.wakes
    }

    fn put(&mut self, bytes: u64) {
        self.bytes += bytes;
        self.wakes.read = self.wakes.read.wrapping_add(u32::from(bytes > 0));
    }

    fn take(&mut self, bytes: u64) {
        self.bytes -= bytes;
        self.wakes.write = self.wakes.write.wrapping_add(u32::from(bytes > 0));
    }

    /// One end is closed.
    pub fn close(&mut self, end: PipeEnd) {
        self.wakes.state = self.wakes.state.wrapping_add(1);
        match end {
            PipeEnd::Read => self.reader = false,
            PipeEnd::Write => self.writer = false,
        }
    }

    /// Both ends are closed.
    pub fn is_gone(&self) -> bool {
        !self.reader && !self.writer
    }

    /// `O_NONBLOCK` of one end.
    pub fn is_nonblocking(&self, end: PipeEnd) -> bool {
        match end {
            PipeEnd::Read => self.nonblocking.0,
            PipeEnd::Write => self.nonblocking.1,
        }
    }

    /// Sets `O_NONBLOCK` of one end.
    pub fn set_nonblocking(&mut self, end: PipeEnd, on: bool) {
        match end {
            PipeEnd::Read => self.nonblocking.0 = on,
            PipeEnd::Write => self.nonblocking.1 = on,
        }
    }

    /// What a call gives that has to wait at one end.
    fn wait(&self, end: PipeEnd) -> Poll<SyscallResult> {
        if self.is_nonblocking(end) { Poll::Ready(Err(Errno::EAGAIN)) } else { Poll::Pending }
    }

    /// Bytes that still fit.
    pub fn room(&self) -> u64 {
        PIPE_SIZE - self.bytes
    }

    /// Nobody will read what is written.
    pub fn is_broken(&self) -> bool {
        !self.reader
    }

    /// Nobody will write any more.
    pub fn is_ended(&self) -> bool {
        !self.writer
    }
}

impl DiskFile {
    /// What it was opened with.
    pub fn flags(&self) -> i32 {
        self.flags & !(number::O_CREAT | number::O_TRUNC)
    }

    /// Sets `O_NONBLOCK`, which means nothing else.
    pub fn set_nonblocking(&mut self, on: bool) {
        self.flags = self.flags & !number::O_NONBLOCK | if on { number::O_NONBLOCK } else { 0 };
    }

    /// What lies ahead: below zero beyond the end (`FIONREAD`).
    pub fn unread(&self, disk: &BTreeMap<String, u64>) -> i64 {
        let size = disk.get(&self.path).copied().unwrap_or(0);
        (size as i64).wrapping_sub(self.position as i64)
    }
}

impl Sockets {
    /// `open(2)`.
    pub(super) fn open(&mut self, path: &str, flags: i32) -> SyscallResult {
        let writes = flags & (number::O_WRONLY | number::O_RDWR) != 0;
        if !self.disk.contains_key(path) {
            if flags & number::O_CREAT == 0 {
                return Err(Errno::ENOENT);
            }
            self.disk.insert(path.to_owned(), 0);
        }
        if writes && flags & number::O_TRUNC != 0 {
            self.disk.insert(path.to_owned(), 0);
        }
        let file = DiskFile { path: path.to_owned(), position: 0, flags };
        Ok(Return::value(self.install(File::Disk(file)).into()))
    }

    /// Reads up to `len` bytes of a file; gives how many there were.
    pub(super) fn read_disk(&mut self, fd: Fd, len: u64) -> Result<u64, Errno> {
        let File::Disk(file) = self.file(fd)? else { return Err(Errno::EBADF) };
        if file.flags & number::O_WRONLY != 0 {
            return Err(Errno::EBADF);
        }
        let size = self.disk.get(&file.path).copied().unwrap_or(0);
        let taken = size.saturating_sub(file.position).min(len);
        if let File::Disk(file) = self.file_mut(fd)? {
            file.position += taken;
        }
        Ok(taken)
    }

    /// Writes `len` bytes to a file.
    pub(super) fn write_disk(&mut self, fd: Fd, len: u64) -> Result<u64, Errno> {
        let File::Disk(file) = self.file_mut(fd)? else { return Err(Errno::EBADF) };
        if file.flags & (number::O_WRONLY | number::O_RDWR) == 0 {
            return Err(Errno::EBADF);
        }
        let written = len.min(LARGEST_FILE - file.position);
        if written == 0 && len > 0 {
            return Err(Errno::EFBIG);
        }
        file.position += written;
        let (path, end) = (file.path.clone(), file.position);
        let size = self.disk.entry(path).or_default();
        *size = (*size).max(end);
        Ok(written)
    }

    /// `sendfile(2)`: what the file holds goes out as if written, the last piece pushed.
    #[expect(clippy::too_many_arguments, reason = "the call has that many")]
    pub(super) fn sendfile(
        &mut self,
        now: Instant,
        host: &mut Host,
        out_fd: Fd,
        in_fd: Fd,
        offset: Option<u64>,
        count: u64,
        progress: &mut Progress,
    ) -> Poll<SyscallResult> {
        let File::Disk(file) = self.file(in_fd)? else { return Poll::Ready(Err(Errno::EINVAL)) };
        if file.flags & number::O_WRONLY != 0 {
            return Poll::Ready(Err(Errno::EBADF));
        }
        let size = self.disk.get(&file.path).copied().unwrap_or(0);
        let start = offset.unwrap_or(file.position);
        // Offset and count are signed (`rw_verify_area`).
        if start > LARGEST_FILE || count > i64::MAX as u64 {
            return Poll::Ready(Err(Errno::EINVAL));
        }
        // What has been sent has been sent, though somebody has cut the file since.
        let wanted = size.saturating_sub(start).min(count).min(MAX_RW_COUNT).max(progress.bytes);
        let moved = match self.file(out_fd)? {
            File::Epoll(_) => return Poll::Ready(Err(Errno::EINVAL)),
            _ if wanted == 0 => Poll::Ready(Ok(Return::value(0))),
            _ => match self.move_plain(out_fd, wanted, true) {
                Some(moved) => moved,
                None => self.send(now, host, out_fd, &wanted.into(), 0, progress),
            },
        };
        let value = match moved {
            Poll::Ready(Ok(returned)) => returned.value,
            other => return other,
        };
        let end = start + value as u64;
        if offset.is_none()
            && let File::Disk(file) = self.file_mut(in_fd)?
        {
            file.position = end;
        }
        Poll::Ready(Ok(Return { value, data: Data::Offset(end) }))
    }

    /// `splice(2)`: between a pipe and a socket or a file. Stops at urgent data.
    #[expect(clippy::too_many_arguments, reason = "the call has that many")]
    pub(super) fn splice(
        &mut self,
        now: Instant,
        host: &mut Host,
        in_fd: Fd,
        out_fd: Fd,
        len: u64,
        flags: i32,
        progress: &mut Progress,
    ) -> Poll<SyscallResult> {
        let nonblocking = flags & number::SPLICE_F_NONBLOCK != 0;
        match (self.file(in_fd)?, self.file(out_fd)?) {
            (_, File::Pipe(pipe, PipeEnd::Write)) => {
                let pipe = *pipe;
                let nonblocking = nonblocking || self.pipes[pipe].is_nonblocking(PipeEnd::Write);
                self.splice_into(now, host, in_fd, pipe, len, nonblocking, progress)
            }
            (File::Pipe(pipe, PipeEnd::Read), _) => {
                let pipe = *pipe;
                self.splice_out(now, host, pipe, out_fd, len, flags, progress)
            }
            _ => Poll::Ready(Err(Errno::EINVAL)),
        }
    }

    #[expect(clippy::too_many_arguments, reason = "the call has that many")]
    fn splice_into(
        &mut self,
        now: Instant,
        host: &mut Host,
        in_fd: Fd,
        pipe: usize,
        len: u64,
        nonblocking: bool,
        progress: &mut Progress,
    ) -> Poll<SyscallResult> {
        if self.pipes[pipe].is_broken() {
            return Poll::Ready(Err(Errno::EPIPE));
        }
        let wanted = len.min(self.pipes[pipe].room());
        if wanted == 0 && len > 0 {
            return if nonblocking { Poll::Ready(Err(Errno::EAGAIN)) } else { Poll::Pending };
        }
        let moved = match self.file(in_fd)? {
            File::Stream(_) | File::Datagram(_) => {
                match self.read_for_splice(now, host, in_fd, wanted, nonblocking, progress) {
                    Poll::Ready(moved) => moved?,
                    Poll::Pending => return Poll::Pending,
                }
            }
            File::Disk(_) => self.read_disk(in_fd, wanted)?,
            &File::Pipe(source, PipeEnd::Read) if source != pipe => {
                let source = &mut self.pipes[source];
                if source.bytes == 0 && !source.is_ended() && wanted > 0 {
                    let waits = nonblocking || source.is_nonblocking(PipeEnd::Read);
                    return if waits { Poll::Ready(Err(Errno::EAGAIN)) } else { Poll::Pending };
                }
                let moved = source.bytes.min(wanted);
                source.take(moved);
                moved
            }
            _ => return Poll::Ready(Err(Errno::EINVAL)),
        };
        self.pipes[pipe].put(moved);
        Poll::Ready(Ok(Return::value(moved as i64)))
    }

    #[expect(clippy::too_many_arguments, reason = "the call has that many")]
    fn splice_out(
        &mut self,
        now: Instant,
        host: &mut Host,
        pipe: usize,
        out_fd: Fd,
        len: u64,
        flags: i32,
        progress: &mut Progress,
    ) -> Poll<SyscallResult> {
        let held = self.pipes[pipe].bytes;
        if held == 0 && !self.pipes[pipe].is_ended() {
            let nonblocking = flags & number::SPLICE_F_NONBLOCK != 0
                || self.pipes[pipe].is_nonblocking(PipeEnd::Read);
            return if nonblocking { Poll::Ready(Err(Errno::EAGAIN)) } else { Poll::Pending };
        }
        let wanted = len.min(held);
        if wanted == 0 {
            return Poll::Ready(Ok(Return::value(0)));
        }
        let more = if flags & number::SPLICE_F_MORE != 0 { number::MSG_MORE } else { 0 };
        let moved = match self.file(out_fd)? {
            File::Stream(_) | File::Datagram(_) => {
                match self.send(now, host, out_fd, &wanted.into(), more, progress) {
                    Poll::Ready(returned) => returned?.value as u64,
                    Poll::Pending => return Poll::Pending,
                }
            }
            File::Disk(_) => self.write_disk(out_fd, wanted)?,
            _ => return Poll::Ready(Err(Errno::EINVAL)),
        };
        self.pipes[pipe].take(moved);
        Poll::Ready(Ok(Return::value(moved as i64)))
    }

    /// `read` and `write` of what is not a socket; `None`: it is one.
    pub(super) fn move_plain(
        &mut self,
        fd: Fd,
        len: u64,
        write: bool,
    ) -> Option<Poll<SyscallResult>> {
        let moved = match self.file(fd).ok()? {
            File::Stream(_) | File::Datagram(_) => return None,
            File::Disk(_) if write => self.write_disk(fd, len),
            File::Disk(_) => self.read_disk(fd, len),
            File::Standard if write => Ok(len),
            File::Standard => Ok(0),
            File::Epoll(_) => Err(Errno::EINVAL),
            &File::Pipe(pipe, end) => match (end, write) {
                (PipeEnd::Read, false) => {
                    let pipe = &mut self.pipes[pipe];
                    if pipe.bytes == 0 && !pipe.is_ended() && len > 0 {
                        return Some(pipe.wait(end));
                    }
                    let taken = pipe.bytes.min(len);
                    pipe.take(taken);
                    Ok(taken)
                }
                (PipeEnd::Write, true) => {
                    let pipe = &mut self.pipes[pipe];
                    if pipe.is_broken() {
                        Err(Errno::EPIPE)
                    } else if pipe.room() == 0 && len > 0 {
                        return Some(pipe.wait(end));
                    } else {
                        let taken = pipe.room().min(len);
                        pipe.put(taken);
                        Ok(taken)
                    }
                }
                _ => Err(Errno::EBADF),
            },
        };
        Some(Poll::Ready(moved.map(|bytes| Return::value(bytes as i64))))
    }
}
