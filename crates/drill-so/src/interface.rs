//! The table of functions that packetdrill calls in place of system calls.
//!
//! packetdrill hands an empty table to [`packetdrill_interface_init`](crate::packetdrill_interface_init)
//! and calls what it finds there, each time with the first entry as the first argument. All
//! functions return as the system call of their name does, with `errno`.

use libc::{
    c_char, c_int, c_longlong, c_uint, c_ulong, c_void, epoll_event, iovec, loff_t, msghdr, nfds_t,
    pollfd, size_t, sockaddr, socklen_t, ssize_t, timeval, timezone, useconds_t,
};

/// An entry: packetdrill does not call those that are null.
type Entry<F> = Option<F>;

/// What stands first in every argument list: the instance.
type User = *mut c_void;

/// The table. The order of its entries is the interface.
///
/// `fcntl` and `ioctl` end in `...` in C. With the calling conventions of Linux on x86-64 and
/// aarch64 a further argument of a machine word is passed as a named one is.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Interface {
    /// The instance.
    pub userdata: User,
    /// Ends the instance.
    pub free: Entry<unsafe extern "C" fn(User)>,
    /// `socket(2)`.
    pub socket: Entry<unsafe extern "C" fn(User, c_int, c_int, c_int) -> c_int>,
    /// `bind(2)`.
    pub bind: Entry<unsafe extern "C" fn(User, c_int, *const sockaddr, socklen_t) -> c_int>,
    /// `listen(2)`.
    pub listen: Entry<unsafe extern "C" fn(User, c_int, c_int) -> c_int>,
    /// `accept(2)`.
    pub accept: Entry<unsafe extern "C" fn(User, c_int, *mut sockaddr, *mut socklen_t) -> c_int>,
    /// `connect(2)`.
    pub connect: Entry<unsafe extern "C" fn(User, c_int, *const sockaddr, socklen_t) -> c_int>,
    /// `read(2)`.
    pub read: Entry<unsafe extern "C" fn(User, c_int, *mut c_void, size_t) -> ssize_t>,
    /// `readv(2)`.
    pub readv: Entry<unsafe extern "C" fn(User, c_int, *const iovec, c_int) -> ssize_t>,
    /// `recv(2)`.
    pub recv: Entry<unsafe extern "C" fn(User, c_int, *mut c_void, size_t, c_int) -> ssize_t>,
    /// `recvfrom(2)`.
    pub recvfrom: Entry<
        unsafe extern "C" fn(
            User,
            c_int,
            *mut c_void,
            size_t,
            c_int,
            *mut sockaddr,
            *mut socklen_t,
        ) -> ssize_t,
    >,
    /// `recvmsg(2)`.
    pub recvmsg: Entry<unsafe extern "C" fn(User, c_int, *mut msghdr, c_int) -> ssize_t>,
    /// `write(2)`.
    pub write: Entry<unsafe extern "C" fn(User, c_int, *const c_void, size_t) -> ssize_t>,
    /// `writev(2)`.
    pub writev: Entry<unsafe extern "C" fn(User, c_int, *const iovec, c_int) -> ssize_t>,
    /// `send(2)`.
    pub send: Entry<unsafe extern "C" fn(User, c_int, *const c_void, size_t, c_int) -> ssize_t>,
    /// `sendto(2)`.
    pub sendto: Entry<
        unsafe extern "C" fn(
            User,
            c_int,
            *const c_void,
            size_t,
            c_int,
            *const sockaddr,
            socklen_t,
        ) -> ssize_t,
    >,
    /// `sendmsg(2)`.
    pub sendmsg: Entry<unsafe extern "C" fn(User, c_int, *const msghdr, c_int) -> ssize_t>,
    /// `fcntl(2)`.
    pub fcntl: Entry<unsafe extern "C" fn(User, c_int, c_int, c_ulong) -> c_int>,
    /// `ioctl(2)`.
    pub ioctl: Entry<unsafe extern "C" fn(User, c_int, c_ulong, *mut c_void) -> c_int>,
    /// `close(2)`.
    pub close: Entry<unsafe extern "C" fn(User, c_int) -> c_int>,
    /// `shutdown(2)`.
    pub shutdown: Entry<unsafe extern "C" fn(User, c_int, c_int) -> c_int>,
    /// `getsockopt(2)`.
    pub getsockopt: Entry<
        unsafe extern "C" fn(User, c_int, c_int, c_int, *mut c_void, *mut socklen_t) -> c_int,
    >,
    /// `setsockopt(2)`.
    pub setsockopt:
        Entry<unsafe extern "C" fn(User, c_int, c_int, c_int, *const c_void, socklen_t) -> c_int>,
    /// `poll(2)`.
    pub poll: Entry<unsafe extern "C" fn(User, *mut pollfd, nfds_t, c_int) -> c_int>,
    /// An IP packet for the host: 0, or -1.
    pub netdev_send: Entry<unsafe extern "C" fn(User, *const c_void, size_t) -> c_int>,
    /// The next IP packet of the host, its length (of the buffer before, of the packet after) and
    /// its time in µs: 0, or -1. No packet: a length of 0.
    pub netdev_receive:
        Entry<unsafe extern "C" fn(User, *mut c_void, *mut size_t, *mut c_longlong) -> c_int>,
    /// `usleep(3)`: lets time pass.
    pub usleep: Entry<unsafe extern "C" fn(User, useconds_t) -> c_int>,
    /// `gettimeofday(2)`.
    pub gettimeofday: Entry<unsafe extern "C" fn(User, *mut timeval, *mut timezone) -> c_int>,
    /// `epoll_create(2)`.
    pub epoll_create: Entry<unsafe extern "C" fn(User, c_int) -> c_int>,
    /// `epoll_ctl(2)`.
    pub epoll_ctl:
        Entry<unsafe extern "C" fn(User, c_int, c_int, c_int, *mut epoll_event) -> c_int>,
    /// `epoll_wait(2)`.
    pub epoll_wait:
        Entry<unsafe extern "C" fn(User, c_int, *mut epoll_event, c_int, c_int) -> c_int>,
    /// `pipe(2)`.
    pub pipe: Entry<unsafe extern "C" fn(User, *mut c_int) -> c_int>,
    /// `splice(2)`.
    pub splice: Entry<
        unsafe extern "C" fn(User, c_int, *mut loff_t, c_int, *mut loff_t, size_t, c_uint) -> c_int,
    >,
}

/// What the library exports under the name `packetdrill_interface_init`.
pub type Init = unsafe extern "C" fn(flags: *const c_char, table: *mut Interface);

impl Interface {
    /// A table with nothing in it.
    pub const EMPTY: Self = Self {
        userdata: core::ptr::null_mut(),
        free: None,
        socket: None,
        bind: None,
        listen: None,
        accept: None,
        connect: None,
        read: None,
        readv: None,
        recv: None,
        recvfrom: None,
        recvmsg: None,
        write: None,
        writev: None,
        send: None,
        sendto: None,
        sendmsg: None,
        fcntl: None,
        ioctl: None,
        close: None,
        shutdown: None,
        getsockopt: None,
        setsockopt: None,
        poll: None,
        netdev_send: None,
        netdev_receive: None,
        usleep: None,
        gettimeofday: None,
        epoll_create: None,
        epoll_ctl: None,
        epoll_wait: None,
        pipe: None,
        splice: None,
    };
}
