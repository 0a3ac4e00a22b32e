//! The table of functions that packetdrill calls in place of system calls.
//!
//! packetdrill hands an empty table to [`packetdrill_interface_init`](crate::packetdrill_interface_init)
//! and calls what it finds there, each time with the first entry as the first argument. All
//! functions return as the system call of their name does, with `errno`.

use libc::{
    c_char, c_int, c_longlong, c_uint, c_ulong, c_void, epoll_event, iovec, loff_t, msghdr, nfds_t,
    pollfd, size_t, sockaddr, socklen_t, ssize_t, timeval, timezone, useconds_t,
};

/// What stands first in every argument list: the instance.
type User = *mut c_void;

/// Declares the table from the functions in it, and the table with nothing in it.
macro_rules! table {
    ($($(#[$doc:meta])* $name:ident($($argument:ty),*) $(-> $result:ty)?;)*) => {
        /// The table. The order of its entries is the interface; packetdrill does not call those that
        /// are null.
        ///
        /// `fcntl` and `ioctl` end in `...` in C. With the calling conventions of Linux on x86-64 and
        /// aarch64 a further argument of a machine word is passed as a named one is.
        #[repr(C)]
        #[derive(Clone, Copy, Debug)]
        pub struct Interface {
            /// The instance.
            pub userdata: User,
            $(
                $(#[$doc])*
                pub $name: Option<unsafe extern "C" fn(User, $($argument),*) $(-> $result)?>,
            )*
        }

        impl Interface {
            /// A table with nothing in it.
            pub const EMPTY: Self = Self { userdata: core::ptr::null_mut(), $($name: None,)* };
        }
    };
}

table! {
    /// Ends the instance.
    free();
    /// `socket(2)`.
    socket(c_int, c_int, c_int) -> c_int;
    /// `bind(2)`.
    bind(c_int, *const sockaddr, socklen_t) -> c_int;
    /// `listen(2)`.
    listen(c_int, c_int) -> c_int;
    /// `accept(2)`.
    accept(c_int, *mut sockaddr, *mut socklen_t) -> c_int;
    /// `connect(2)`.
    connect(c_int, *const sockaddr, socklen_t) -> c_int;
    /// `read(2)`.
    read(c_int, *mut c_void, size_t) -> ssize_t;
    /// `readv(2)`.
    readv(c_int, *const iovec, c_int) -> ssize_t;
    /// `recv(2)`.
    recv(c_int, *mut c_void, size_t, c_int) -> ssize_t;
    /// `recvfrom(2)`.
    recvfrom(c_int, *mut c_void, size_t, c_int, *mut sockaddr, *mut socklen_t) -> ssize_t;
    /// `recvmsg(2)`.
    recvmsg(c_int, *mut msghdr, c_int) -> ssize_t;
    /// `write(2)`.
    write(c_int, *const c_void, size_t) -> ssize_t;
    /// `writev(2)`.
    writev(c_int, *const iovec, c_int) -> ssize_t;
    /// `send(2)`.
    send(c_int, *const c_void, size_t, c_int) -> ssize_t;
    /// `sendto(2)`.
    sendto(c_int, *const c_void, size_t, c_int, *const sockaddr, socklen_t) -> ssize_t;
    /// `sendmsg(2)`.
    sendmsg(c_int, *const msghdr, c_int) -> ssize_t;
    /// `fcntl(2)`.
    fcntl(c_int, c_int, c_ulong) -> c_int;
    /// `ioctl(2)`.
    ioctl(c_int, c_ulong, *mut c_void) -> c_int;
    /// `close(2)`.
    close(c_int) -> c_int;
    /// `shutdown(2)`.
    shutdown(c_int, c_int) -> c_int;
    /// `getsockopt(2)`.
    getsockopt(c_int, c_int, c_int, *mut c_void, *mut socklen_t) -> c_int;
    /// `setsockopt(2)`.
    setsockopt(c_int, c_int, c_int, *const c_void, socklen_t) -> c_int;
    /// `poll(2)`.
    poll(*mut pollfd, nfds_t, c_int) -> c_int;
    /// An IP packet for the host: 0, or -1.
    netdev_send(*const c_void, size_t) -> c_int;
    /// The next IP packet of the host, its length (of the buffer before, of the packet after) and
    /// its time in µs: 0, or -1. No packet: a length of 0.
    netdev_receive(*mut c_void, *mut size_t, *mut c_longlong) -> c_int;
    /// `usleep(3)`: lets time pass.
    usleep(useconds_t) -> c_int;
    /// `gettimeofday(2)`.
    gettimeofday(*mut timeval, *mut timezone) -> c_int;
    /// `epoll_create(2)`.
    epoll_create(c_int) -> c_int;
    /// `epoll_ctl(2)`.
    epoll_ctl(c_int, c_int, c_int, *mut epoll_event) -> c_int;
    /// `epoll_wait(2)`.
    epoll_wait(c_int, *mut epoll_event, c_int, c_int) -> c_int;
    /// `pipe(2)`.
    pipe(*mut c_int) -> c_int;
    /// `splice(2)`.
    splice(c_int, *mut loff_t, c_int, *mut loff_t, size_t, c_uint) -> c_int;
}

/// What the library exports under the name `packetdrill_interface_init`.
pub type Init = unsafe extern "C" fn(flags: *const c_char, table: *mut Interface);
