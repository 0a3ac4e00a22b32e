//! Errors of calls, as the kernel numbers them.

use datapath::host::SocketError;
use datapath::tcp::SocketError as Failure;
use std::io;

/// An error as the kernel numbers it.
pub(super) fn errno(number: i32) -> io::Error {
    io::Error::from_raw_os_error(number)
}

/// A call that the host refuses.
pub(super) fn call_failed(error: SocketError) -> io::Error {
    errno(match error {
        SocketError::AddressInUse => libc::EADDRINUSE,
        SocketError::AddressNotAvailable => libc::EADDRNOTAVAIL,
        SocketError::BadSocket => libc::ECONNRESET,
        SocketError::WrongKind => libc::EOPNOTSUPP,
        SocketError::WouldBlock => libc::EAGAIN,
        SocketError::MessageSize => libc::EMSGSIZE,
        SocketError::Unreachable => libc::ENETUNREACH,
        SocketError::InvalidArgument => libc::EINVAL,
    })
}

/// That there is no such connection is an error as well.
pub(super) fn io_error(taken: Result<Option<Failure>, SocketError>) -> Option<io::Error> {
    match taken {
        Ok(error) => error.map(failed),
        Err(error) => Some(call_failed(error)),
    }
}

pub(super) fn failed(error: Failure) -> io::Error {
    errno(match error {
        Failure::Reset => libc::ECONNRESET,
        Failure::Refused => libc::ECONNREFUSED,
        Failure::TimedOut => libc::ETIMEDOUT,
        Failure::BrokenPipe => libc::EPIPE,
        Failure::NetUnreachable => libc::ENETUNREACH,
        Failure::HostUnreachable => libc::EHOSTUNREACH,
        Failure::HostDown => libc::EHOSTDOWN,
        Failure::HostIsolated => libc::ENONET,
        Failure::ProtocolUnreachable => libc::ENOPROTOOPT,
        Failure::MessageSize => libc::EMSGSIZE,
        Failure::SourceRoute => libc::EOPNOTSUPP,
        Failure::Parameter => libc::EPROTO,
        Failure::Forbidden => libc::EACCES,
        Failure::Aborted => libc::ECONNABORTED,
        Failure::AddressNotAvailable => libc::EADDRNOTAVAIL,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_that_is_gone_is_an_error_and_no_silence() {
        let kind = |taken| io_error(taken).map(|error| error.kind());
        assert_eq!(kind(Ok(None)), None);
        assert_eq!(kind(Ok(Some(Failure::TimedOut))), Some(io::ErrorKind::TimedOut));
        assert_eq!(kind(Err(SocketError::BadSocket)), Some(io::ErrorKind::ConnectionReset));
    }
}
