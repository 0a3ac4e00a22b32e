//! What a call operates on: which descriptors, how many bytes.

use datapath::socket::{Fd, Syscall};

use crate::calls::model::{Kind, Model};

/// The descriptor whose state alone may decide about the call, and whether it must be a socket.
pub(super) fn main_fd(syscall: &Syscall) -> Option<(Fd, bool)> {
    match syscall {
        Syscall::Bind { fd, .. }
        | Syscall::Listen { fd, .. }
        | Syscall::Accept { fd, .. }
        | Syscall::Connect { fd, .. }
        | Syscall::Send { fd, .. }
        | Syscall::Receive { fd, .. }
        | Syscall::Shutdown { fd, .. }
        | Syscall::GetOption { fd, .. }
        | Syscall::SetOption { fd, .. }
        | Syscall::LocalName { fd }
        | Syscall::PeerName { fd } => Some((*fd, true)),
        Syscall::Read { fd, .. }
        | Syscall::Write { fd, .. }
        | Syscall::Close { fd }
        | Syscall::Fcntl { fd, .. }
        | Syscall::Ioctl { fd, .. } => Some((*fd, false)),
        _ => None,
    }
}

pub(super) fn fds_of(syscall: &Syscall) -> Vec<Fd> {
    match syscall {
        Syscall::Sendfile { out_fd, in_fd, .. } | Syscall::Splice { out_fd, in_fd, .. } => {
            vec![*out_fd, *in_fd]
        }
        other => main_fd(other).map(|(fd, _)| fd).into_iter().collect(),
    }
}

/// Whose bytes the call writes.
pub(super) fn written_by(syscall: &Syscall) -> Option<Fd> {
    match syscall {
        Syscall::Write { fd, .. } | Syscall::Send { fd, .. } => Some(*fd),
        Syscall::Sendfile { out_fd, .. } | Syscall::Splice { out_fd, .. } => Some(*out_fd),
        _ => None,
    }
}

pub(super) fn bytes_to_write(syscall: &Syscall) -> u64 {
    match syscall {
        Syscall::Write { iov, .. } => iov.len(),
        Syscall::Send { message, .. } => message.iov.len(),
        Syscall::Sendfile { count, .. } => *count,
        Syscall::Splice { len, .. } => *len,
        _ => 0,
    }
}

/// The TCP socket that the call may connect, write to or read from.
pub(super) fn stream_of(syscall: &Syscall, model: &Model) -> Option<Fd> {
    let fd = match syscall {
        Syscall::Connect { fd, .. } | Syscall::Read { fd, .. } | Syscall::Receive { fd, .. } => *fd,
        Syscall::Splice { in_fd, .. } if matches!(model.kind(*in_fd), Some(Kind::Stream(_))) => {
            *in_fd
        }
        other => written_by(other)?,
    };
    matches!(model.kind(fd), Some(Kind::Stream(stream)) if !stream.listens).then_some(fd)
}
