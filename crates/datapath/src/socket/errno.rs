//! Error numbers as `errno(3)` names them, with Linux's values (asm-generic).

use crate::host;
use crate::tcp::SocketError;
use core::fmt;

/// An error number of a system call.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Errno(u16);

macro_rules! errnos {
    ($($name:ident = $number:literal, $text:literal;)*) => {
        impl Errno {
            $(
                #[doc = $text]
                pub const $name: Self = Self($number);
            )*

            /// Every one that a call may give, with name and text (`strerror`), by number.
            pub const ALL: &'static [(Self, &'static str, &'static str)] =
                &[$((Self($number), stringify!($name), $text)),*];
        }
    };
}

errnos! {
    EPERM = 1, "Operation not permitted";
    ENOENT = 2, "No such file or directory";
    EINTR = 4, "Interrupted system call";
    EIO = 5, "Input/output error";
    EBADF = 9, "Bad file descriptor";
    EAGAIN = 11, "Resource temporarily unavailable";
    ENOMEM = 12, "Cannot allocate memory";
    EACCES = 13, "Permission denied";
    EFAULT = 14, "Bad address";
    EBUSY = 16, "Device or resource busy";
    EEXIST = 17, "File exists";
    ENODEV = 19, "No such device";
    EINVAL = 22, "Invalid argument";
    ENFILE = 23, "Too many open files in system";
    EMFILE = 24, "Too many open files";
    ENOTTY = 25, "Inappropriate ioctl for device";
    EFBIG = 27, "File too large";
    ESPIPE = 29, "Illegal seek";
    EPIPE = 32, "Broken pipe";
    EDOM = 33, "Numerical argument out of domain";
    ERANGE = 34, "Numerical result out of range";
    ELOOP = 40, "Too many levels of symbolic links";
    ENOMSG = 42, "No message of desired type";
    ENODATA = 61, "No data available";
    ENONET = 64, "Machine is not on the network";
    EPROTO = 71, "Protocol error";
    EOVERFLOW = 75, "Value too large for defined data type";
    ENOTSOCK = 88, "Socket operation on non-socket";
    EDESTADDRREQ = 89, "Destination address required";
    EMSGSIZE = 90, "Message too long";
    EPROTOTYPE = 91, "Protocol wrong type for socket";
    ENOPROTOOPT = 92, "Protocol not available";
    EPROTONOSUPPORT = 93, "Protocol not supported";
    ESOCKTNOSUPPORT = 94, "Socket type not supported";
    EOPNOTSUPP = 95, "Operation not supported";
    EPFNOSUPPORT = 96, "Protocol family not supported";
    EAFNOSUPPORT = 97, "Address family not supported by protocol";
    EADDRINUSE = 98, "Address already in use";
    EADDRNOTAVAIL = 99, "Cannot assign requested address";
    ENETDOWN = 100, "Network is down";
    ENETUNREACH = 101, "Network is unreachable";
    ENETRESET = 102, "Network dropped connection on reset";
    ECONNABORTED = 103, "Software caused connection abort";
    ECONNRESET = 104, "Connection reset by peer";
    ENOBUFS = 105, "No buffer space available";
    EISCONN = 106, "Transport endpoint is already connected";
    ENOTCONN = 107, "Transport endpoint is not connected";
    ETIMEDOUT = 110, "Connection timed out";
    ECONNREFUSED = 111, "Connection refused";
    EHOSTDOWN = 112, "Host is down";
    EHOSTUNREACH = 113, "No route to host";
    EALREADY = 114, "Operation already in progress";
    EINPROGRESS = 115, "Operation now in progress";
    EREMOTEIO = 121, "Remote I/O error";
    EDQUOT = 122, "Disk quota exceeded";
    ECANCELED = 125, "Operation canceled";
    EKEYREJECTED = 129, "Key was rejected by service";
}

impl Errno {
    /// Another name of [`Errno::EAGAIN`].
    pub const EWOULDBLOCK: Self = Self::EAGAIN;

    /// The number.
    pub const fn number(self) -> i32 {
        self.0 as i32
    }

    /// The name: `EAGAIN`.
    pub fn name(self) -> &'static str {
        self.entry().1
    }

    /// The text of `strerror(3)`.
    pub fn text(self) -> &'static str {
        self.entry().2
    }

    /// The one of that name.
    pub fn by_name(name: &str) -> Option<Self> {
        if name == "EWOULDBLOCK" {
            return Some(Self::EWOULDBLOCK);
        }
        Self::ALL.iter().find(|(_, known, _)| *known == name).map(|(errno, ..)| *errno)
    }

    fn entry(self) -> &'static (Self, &'static str, &'static str) {
        Self::ALL.iter().find(|(errno, ..)| *errno == self).expect("only known numbers are made")
    }
}

impl From<SocketError> for Errno {
    fn from(error: SocketError) -> Self {
        match error {
            SocketError::Reset => Self::ECONNRESET,
            SocketError::Refused => Self::ECONNREFUSED,
            SocketError::TimedOut => Self::ETIMEDOUT,
            SocketError::BrokenPipe => Self::EPIPE,
            SocketError::NetUnreachable => Self::ENETUNREACH,
            SocketError::HostUnreachable => Self::EHOSTUNREACH,
            SocketError::HostDown => Self::EHOSTDOWN,
            SocketError::HostIsolated => Self::ENONET,
            SocketError::ProtocolUnreachable => Self::ENOPROTOOPT,
            SocketError::MessageSize => Self::EMSGSIZE,
            SocketError::SourceRoute => Self::EOPNOTSUPP,
            SocketError::Parameter => Self::EPROTO,
            SocketError::Forbidden => Self::EACCES,
            SocketError::Aborted => Self::ECONNABORTED,
            SocketError::AddressNotAvailable => Self::EADDRNOTAVAIL,
        }
    }
}

impl From<host::SocketError> for Errno {
    fn from(error: host::SocketError) -> Self {
        match error {
            host::SocketError::AddressInUse => Self::EADDRINUSE,
            host::SocketError::AddressNotAvailable => Self::EADDRNOTAVAIL,
            host::SocketError::BadSocket => Self::EBADF,
            host::SocketError::WrongKind => Self::EOPNOTSUPP,
            host::SocketError::WouldBlock => Self::EAGAIN,
            host::SocketError::MessageSize => Self::EMSGSIZE,
            host::SocketError::Unreachable => Self::ENETUNREACH,
            host::SocketError::InvalidArgument => Self::EINVAL,
        }
    }
}

impl fmt::Debug for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.name(), self.text())
    }
}

impl core::error::Error for Errno {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_numbers_and_texts_belong_together() {
        assert_eq!(Errno::by_name("EINPROGRESS"), Some(Errno::EINPROGRESS));
        assert_eq!(Errno::by_name("EWOULDBLOCK"), Some(Errno::EAGAIN));
        assert_eq!(Errno::by_name("ENOSUCH"), None);
        assert_eq!((Errno::EPIPE.number(), Errno::EPIPE.name()), (32, "EPIPE"));
        assert_eq!(Errno::ENOTCONN.to_string(), "ENOTCONN (Transport endpoint is not connected)");
    }

    #[test]
    fn every_number_stands_once() {
        assert!(Errno::ALL.is_sorted_by(|a, b| a.0 < b.0));
    }
}
