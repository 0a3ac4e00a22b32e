//! What calls change: descriptors are opened and closed, streams connect and end.

use datapath::socket::number::{
    EPOLL_CTL_DEL, F_SETFL, FIONBIO, O_NONBLOCK, SHUT_WR, SO_ERROR, SO_RCVLOWAT, SOCK_DGRAM,
    SOCK_NONBLOCK, SOL_SOCKET,
};
use datapath::socket::{Address, Data, Errno, Fd, Return, Syscall};

use super::about::fds_of;
use super::{CallContext, CallResult, Process, canonical};
use crate::calls::model::{Kind, Stream};

impl Process {
    /// Descriptors are opened, closed and changed.
    pub(super) fn apply(
        &mut self,
        judge: &mut CallContext<'_>,
        syscall: &Syscall,
        outcome: &CallResult,
    ) -> Result<(), String> {
        let Ok(returned) = outcome else { return Ok(()) };
        let value = returned.value;
        match syscall {
            Syscall::Socket { kind, .. } => {
                let file = if kind & 0xf == SOCK_DGRAM {
                    Kind::Datagram
                } else {
                    Kind::Stream(<_>::default())
                };
                self.model.open(value, file, kind & SOCK_NONBLOCK != 0)
            }
            Syscall::Accept { fd: listener, flags } => {
                let tuned = self.model.stream_mut(*listener).is_some_and(|stream| stream.tuned);
                let stream = Stream { tuned, ..Stream::default() };
                self.model.open(value, Kind::Stream(stream), flags & SOCK_NONBLOCK != 0)?;
                let Data::Address(peer) = returned.data else {
                    return Err("no address of the peer".to_owned());
                };
                let fd = value as Fd;
                if let Some(local) = self.local_name(judge, fd) {
                    let way = (local, canonical(peer));
                    self.model.stream_mut(fd).expect("just opened").ends = Some(way);
                    judge.totals.accepted(way);
                }
                Ok(())
            }
            Syscall::Pipe => {
                let Data::Pipe(read, write) = returned.data else {
                    return Err("no descriptors".to_owned());
                };
                self.model.open(read.into(), Kind::Pipe, false)?;
                self.model.open(write.into(), Kind::Pipe, false)
            }
            Syscall::Open { flags, .. } => {
                self.model.open(value, Kind::Disk, flags & O_NONBLOCK != 0)
            }
            Syscall::EpollCreate { .. } | Syscall::EpollCreate1 { .. } => {
                self.model.open(value, Kind::Epoll, false)
            }
            Syscall::Close { fd } => {
                self.model.close(*fd);
                Ok(())
            }
            Syscall::EpollCtl { epfd, op, fd, event } => {
                let events = event.filter(|_| *op != EPOLL_CTL_DEL).map(|event| event.events);
                self.model.watch(*epfd, *fd, events);
                Ok(())
            }
            Syscall::Fcntl { fd, command: F_SETFL, argument } => {
                self.model.set_nonblocking(*fd, argument & O_NONBLOCK != 0);
                Ok(())
            }
            Syscall::Ioctl { fd, request: FIONBIO, argument } => {
                self.model.set_nonblocking(*fd, *argument != 0);
                Ok(())
            }
            _ => {
                self.note_stream(syscall, returned);
                Ok(())
            }
        }
    }

    /// What a call says about the stream behind a socket.
    fn note_stream(&mut self, syscall: &Syscall, returned: &Return) {
        let (Syscall::Listen { fd, .. }
        | Syscall::Shutdown { fd, .. }
        | Syscall::Connect { fd, .. }
        | Syscall::SetOption { fd, .. }
        | Syscall::GetOption { fd, .. }) = syscall
        else {
            return;
        };
        let Some(stream) = self.model.stream_mut(*fd) else { return };
        match syscall {
            Syscall::Listen { backlog, .. } => {
                // A negative one is a very large one, and none is larger than `somaxconn`.
                let backlog = (*backlog as u32).min(4_096);
                let before = if stream.listens { stream.backlog.1 } else { 0 };
                stream.listens = true;
                stream.backlog = (backlog, backlog.max(before));
            }
            Syscall::Shutdown { how, .. } if *how != SHUT_WR => {
                stream.partial = true;
                stream.listens = false;
            }
            Syscall::Connect { address: Address::Unspecified, .. } => {
                (stream.ends, stream.aim, stream.listens) = (None, None, false);
            }
            Syscall::SetOption { level: SOL_SOCKET, name: SO_RCVLOWAT, .. } => stream.tuned = true,
            Syscall::GetOption { level: SOL_SOCKET, name: SO_ERROR, .. }
                if returned.option_number() != Some(0) =>
            {
                stream.partial = true;
            }
            _ => {}
        }
    }

    /// A connection that has failed may have lost bytes; one that was never there is forgotten.
    pub(super) fn note_error(&mut self, syscall: &Syscall, errno: Errno) {
        let harmless = [
            Errno::EAGAIN,
            Errno::EINPROGRESS,
            Errno::EALREADY,
            Errno::EISCONN,
            Errno::EINVAL,
            // An address of another family is not even looked at, whatever the socket is connected to.
            Errno::EAFNOSUPPORT,
        ];
        if harmless.contains(&errno) {
            return;
        }
        for fd in fds_of(syscall) {
            let Some(stream) = self.model.stream_mut(fd) else { continue };
            stream.partial = true;
            if matches!(syscall, Syscall::Connect { .. }) {
                (stream.ends, stream.aim) = (None, None);
            }
        }
    }
}
