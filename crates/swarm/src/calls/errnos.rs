//! Which errors a call may return, by the manual pages and, beyond them, by what Linux 6.18 returns.

use datapath::socket::{Errno, Syscall};

/// What the network says about a connection or a datagram (`sk_err`, `icmp_err_convert`,
/// `icmpv6_err_convert`).
const NETWORK: &[Errno] = &[
    Errno::ENETUNREACH,
    Errno::EHOSTUNREACH,
    Errno::EHOSTDOWN,
    Errno::ENONET,
    Errno::ENOPROTOOPT,
    Errno::ECONNREFUSED,
    Errno::ECONNRESET,
    Errno::ECONNABORTED,
    Errno::ETIMEDOUT,
    Errno::EMSGSIZE,
    Errno::EOPNOTSUPP,
    Errno::EPROTO,
    Errno::EACCES,
    Errno::EPIPE,
];

/// Whether Linux can give that error for that call.
pub fn allows(syscall: &Syscall, errno: Errno) -> bool {
    let (own, network) = errors_of(syscall);
    own.contains(&errno) || (network && NETWORK.contains(&errno))
}

/// The errors of a call, and whether the network's may come besides.
fn errors_of(syscall: &Syscall) -> (&'static [Errno], bool) {
    use Errno as E;
    match syscall {
        Syscall::Socket { .. } => (
            &[
                E::EAFNOSUPPORT,
                E::EPROTONOSUPPORT,
                E::ESOCKTNOSUPPORT,
                E::EINVAL,
                E::EMFILE,
                E::EACCES,
            ],
            false,
        ),
        Syscall::Bind { .. } => (
            &[
                E::EBADF,
                E::ENOTSOCK,
                E::EFAULT,
                E::EINVAL,
                E::EADDRINUSE,
                E::EADDRNOTAVAIL,
                E::EAFNOSUPPORT,
                E::EACCES,
            ],
            false,
        ),
        Syscall::Listen { .. } => {
            (&[E::EBADF, E::ENOTSOCK, E::EOPNOTSUPP, E::EINVAL, E::EADDRINUSE], false)
        }
        Syscall::Accept { .. } => {
            (&[E::EBADF, E::ENOTSOCK, E::EOPNOTSUPP, E::EINVAL, E::EAGAIN, E::EMFILE], false)
        }
        Syscall::Connect { .. } => (
            &[
                E::EBADF,
                E::ENOTSOCK,
                E::EFAULT,
                E::EINVAL,
                E::EAFNOSUPPORT,
                E::EALREADY,
                E::EINPROGRESS,
                E::EISCONN,
                E::EADDRNOTAVAIL,
                E::EADDRINUSE,
                E::EAGAIN,
            ],
            true,
        ),
        Syscall::Read { .. } | Syscall::Receive { .. } => {
            (&[E::EBADF, E::ENOTSOCK, E::EFAULT, E::EINVAL, E::EAGAIN, E::ENOTCONN], true)
        }
        Syscall::Write { .. } | Syscall::Send { .. } => (
            &[
                E::EBADF,
                E::ENOTSOCK,
                E::EFAULT,
                E::EINVAL,
                E::EAGAIN,
                E::EPIPE,
                E::EMSGSIZE,
                E::EDESTADDRREQ,
                E::ENOTCONN,
                E::EISCONN,
                E::EALREADY,
                E::EINPROGRESS,
                E::EAFNOSUPPORT,
                E::EADDRNOTAVAIL,
                E::ENOBUFS,
                E::EFBIG,
                E::ENODEV,
            ],
            true,
        ),
        Syscall::Sendfile { .. } => (
            &[
                E::EBADF,
                E::EINVAL,
                E::EAGAIN,
                E::EOVERFLOW,
                E::ESPIPE,
                E::ENOTCONN,
                E::EMSGSIZE,
                E::EDESTADDRREQ,
                E::EFBIG,
                E::EADDRNOTAVAIL,
                E::ENOBUFS,
            ],
            true,
        ),
        Syscall::Splice { .. } => (
            &[
                E::EBADF,
                E::EINVAL,
                E::EAGAIN,
                E::ESPIPE,
                E::ENOTCONN,
                E::EMSGSIZE,
                E::EDESTADDRREQ,
                E::EADDRNOTAVAIL,
            ],
            true,
        ),
        Syscall::Pipe => (&[E::EMFILE], false),
        Syscall::Open { .. } => (&[E::ENOENT, E::EEXIST, E::EINVAL, E::EMFILE], false),
        Syscall::Poll { .. } => (&[E::EINVAL], false),
        Syscall::EpollCreate { .. } | Syscall::EpollCreate1 { .. } => {
            (&[E::EINVAL, E::EMFILE], false)
        }
        Syscall::EpollCtl { .. } => {
            (&[E::EBADF, E::EEXIST, E::EINVAL, E::ELOOP, E::ENOENT, E::EPERM, E::EFAULT], false)
        }
        Syscall::Select { .. } | Syscall::EpollWait { .. } => (&[E::EBADF, E::EINVAL], false),
        Syscall::Close { .. } => (&[E::EBADF], false),
        Syscall::Shutdown { .. } => (&[E::EBADF, E::ENOTSOCK, E::EINVAL, E::ENOTCONN], false),
        Syscall::Fcntl { .. } => (&[E::EBADF, E::EINVAL, E::EMFILE], false),
        Syscall::Ioctl { .. } => (&[E::EBADF, E::EINVAL, E::ENOTTY], false),
        Syscall::GetOption { .. } => (
            &[
                E::EBADF,
                E::ENOTSOCK,
                E::EFAULT,
                E::EINVAL,
                E::ENOPROTOOPT,
                E::ENOTCONN,
                E::EOPNOTSUPP,
                E::EPERM,
            ],
            false,
        ),
        Syscall::SetOption { .. } => (
            &[
                E::EBADF,
                E::ENOTSOCK,
                E::EFAULT,
                E::EINVAL,
                E::ENOPROTOOPT,
                E::EDOM,
                E::EPERM,
                E::EISCONN,
                E::ENOTCONN,
                E::ENOENT,
                E::EOPNOTSUPP,
                E::ENODEV,
                E::EBUSY,
            ],
            false,
        ),
        Syscall::LocalName { .. } => (&[E::EBADF, E::ENOTSOCK, E::EFAULT, E::EINVAL], false),
        Syscall::PeerName { .. } => {
            (&[E::EBADF, E::ENOTSOCK, E::EFAULT, E::EINVAL, E::ENOTCONN], false)
        }
    }
}
