//! The table in the hands of a caller that makes mistakes: what a system call would answer is answered, and
//! what no system call knows (an instance that is over) is an error, too. Nothing ends the process.
//!
//! The values of `ERRORS` are those of Linux 6.18.44 for the same arguments.

#![allow(unsafe_code)]
#![cfg(target_os = "linux")]

use ackwright_so::interface::Interface;
use ackwright_so::packetdrill_interface_init;
use core::ptr::{null, null_mut, without_provenance, without_provenance_mut};
use libc::{
    c_int, c_void, epoll_event, in_addr, iovec, msghdr, pollfd, sa_family_t, sockaddr, sockaddr_in,
    socklen_t, timeval,
};

macro_rules! call {
    ($table:expr, $name:ident $(, $argument:expr)* $(,)?) => {
        // SAFETY: pointers are null, point at as much as is said, or are refused before they are read.
        unsafe { $table.$name.expect("an entry")($table.userdata $(, $argument)*) }
    };
}

fn init(flags: &core::ffi::CStr) -> Interface {
    let mut table = Interface::EMPTY;
    // SAFETY: a C string and a table.
    unsafe { packetdrill_interface_init(flags.as_ptr(), &raw mut table) };
    table
}

/// What a call has returned: `Ok`, or the error's number.
fn told(returned: impl Into<i64>) -> Result<i64, i32> {
    let returned = returned.into();
    if returned < 0 {
        return Err(std::io::Error::last_os_error().raw_os_error().unwrap_or(0));
    }
    Ok(returned)
}

fn bytes(returned: isize) -> Result<i64, i32> {
    told(returned as i64)
}

fn any_address() -> sockaddr_in {
    sockaddr_in {
        sin_family: libc::AF_INET as sa_family_t,
        sin_port: 8080_u16.to_be(),
        sin_addr: in_addr { s_addr: 0 },
        sin_zero: [0; 8],
    }
}

fn stream(table: &Interface) -> c_int {
    call!(table, socket, libc::AF_INET, libc::SOCK_STREAM, 0)
}

fn header() -> msghdr {
    // SAFETY: all of its fields may be zero.
    unsafe { core::mem::zeroed() }
}

const SOL_TCP: c_int = libc::IPPROTO_TCP;

/// An instance that is over, and one that never was.
#[test]
fn an_instance_that_is_not_there_is_an_error() {
    let table = init(c"");
    let fd = stream(&table);
    call!(table, free);
    let strange = Interface { userdata: null_mut(), ..table };
    let wild = Interface { userdata: without_provenance_mut(0x5555_0000), ..table };
    for table in [table, strange, wild] {
        call!(table, free);
        assert_eq!(told(stream(&table)), Err(libc::EBADF));
        assert_eq!(bytes(call!(table, read, fd, null_mut(), 1)), Err(libc::EBADF));
        assert_eq!(told(call!(table, usleep, 1)), Err(libc::EBADF));
        assert_eq!(told(call!(table, gettimeofday, null_mut(), null_mut())), Err(libc::EBADF));
        let (mut len, mut time) = (0, 0);
        let got = call!(table, netdev_receive, null_mut(), &raw mut len, &raw mut time);
        assert_eq!(told(got), Err(libc::EBADF));
    }
}

/// Each has its own descriptors and its own clock, and one goes on when the other is over.
#[test]
fn two_instances_do_not_know_each_other() {
    let (first, second) = (init(c""), init(c"--ip_version=ipv6"));
    let fd = stream(&first);
    assert_eq!(told(call!(second, listen, fd, 1)), Err(libc::EBADF));
    call!(second, free);
    assert_eq!(told(call!(first, listen, fd, 1)), Ok(0));
    call!(first, free);
}

/// A call that waits in another thread returns when the instance ends.
#[test]
fn the_end_of_an_instance_wakes_its_waiters() {
    let table = init(c"");
    let fd = stream(&table);
    assert_eq!(told(call!(table, listen, fd, 1)), Ok(0));
    let user = table.userdata as usize;
    let waiting = std::thread::spawn(move || {
        let table = Interface { userdata: without_provenance_mut(user), ..table };
        told(call!(table, accept, fd, null_mut(), null_mut()))
    });
    std::thread::sleep(std::time::Duration::from_millis(100));
    call!(table, free);
    assert_eq!(waiting.join().expect("no panic"), Err(libc::EBADF));
}

#[test]
fn no_table_is_no_crash() {
    // SAFETY: null pointers are what it looks for.
    unsafe { packetdrill_interface_init(null(), null_mut()) };
}

#[test]
fn pointers_and_lengths_that_lie() {
    let table = init(c"");
    let fd = stream(&table);
    let address = any_address();
    let at = (&raw const address).cast::<sockaddr>();
    let long = [0_u8; 300];
    let too_long = (&raw const long).cast::<c_void>().cast::<sockaddr>();
    let nowhere = without_provenance::<sockaddr>(8);
    assert_eq!(told(call!(table, bind, fd, too_long, 129)), Err(libc::EINVAL));
    assert_eq!(told(call!(table, bind, fd, nowhere, u32::MAX)), Err(libc::EINVAL));
    assert_eq!(told(call!(table, bind, fd, null(), 16)), Err(libc::EFAULT));
    assert_eq!(told(call!(table, bind, fd, at, 16)), Ok(0));
    assert_eq!(told(call!(table, listen, fd, 1)), Ok(0));
    let to = bytes(call!(table, sendto, fd, long.as_ptr().cast(), 1, 0, nowhere, u32::MAX));
    assert_eq!(to, Err(libc::EINVAL));

    let huge = usize::MAX;
    let piece = |len| iovec { iov_base: long.as_ptr().cast_mut().cast(), iov_len: len };
    let mut pieces = [piece(huge), piece(3)];
    let list = pieces.as_mut_ptr();
    for count in [-1, 1_025] {
        assert_eq!(bytes(call!(table, readv, fd, list, count)), Err(libc::EINVAL));
    }
    assert_eq!(bytes(call!(table, writev, fd, list, 1)), Err(libc::EINVAL));
    assert_eq!(bytes(call!(table, writev, fd, null(), 1)), Err(libc::EFAULT));
    assert_eq!(bytes(call!(table, sendmsg, fd, null(), 0)), Err(libc::EFAULT));
    let mut header = header();
    (header.msg_iov, header.msg_iovlen) = (list, 1_025);
    assert_eq!(bytes(call!(table, sendmsg, fd, &raw const header, 0)), Err(libc::EMSGSIZE));
    assert_eq!(bytes(call!(table, recvmsg, fd, &raw mut header, 0)), Err(libc::EMSGSIZE));
    header.msg_iovlen = 0;
    header.msg_controllen = 64;
    assert_eq!(bytes(call!(table, sendmsg, fd, &raw const header, 0)), Err(libc::EFAULT));
    header.msg_control = long.as_ptr().cast_mut().cast();
    for len in [200_000, huge] {
        header.msg_controllen = len as _;
        assert_eq!(bytes(call!(table, sendmsg, fd, &raw const header, 0)), Err(libc::ENOBUFS));
    }
    header.msg_controllen = 0;
    (header.msg_name, header.msg_namelen) = (long.as_ptr().cast_mut().cast(), u32::MAX);
    assert_eq!(bytes(call!(table, sendmsg, fd, &raw const header, 0)), Err(libc::EINVAL));

    assert_eq!(told(call!(table, poll, null_mut(), 1, 0)), Err(libc::EFAULT));
    let wild = without_provenance_mut::<pollfd>(8);
    assert_eq!(told(call!(table, poll, wild, 1 << 30, 0)), Err(libc::EINVAL));
    let mut nobody = pollfd { fd: -5, events: libc::POLLIN, revents: 77 };
    assert_eq!(told(call!(table, poll, &raw mut nobody, 1, 0)), Ok(0));
    assert_eq!(nobody.revents, 0);

    let epoll = call!(table, epoll_create, 1);
    let mut event = epoll_event { events: libc::EPOLLIN as u32, u64: 7 };
    let at = &raw mut event;
    assert_eq!(told(call!(table, epoll_ctl, epoll, libc::EPOLL_CTL_ADD, fd, at)), Ok(0));
    let modify = call!(table, epoll_ctl, epoll, libc::EPOLL_CTL_MOD, fd, null_mut());
    assert_eq!(told(modify), Err(libc::EFAULT));
    for count in [0, -1, c_int::MAX] {
        assert_eq!(told(call!(table, epoll_wait, epoll, at, count, 0)), Err(libc::EINVAL));
    }
    assert_eq!(told(call!(table, pipe, null_mut())), Err(libc::EFAULT));

    let byte = long.as_ptr().cast::<c_void>();
    let set =
        |name, value, len: socklen_t| told(call!(table, setsockopt, fd, SOL_TCP, name, value, len));
    assert_eq!(set(libc::TCP_NODELAY, byte, u32::MAX), Err(libc::EINVAL));
    assert_eq!(set(libc::TCP_NODELAY, null(), 4), Err(libc::EFAULT));
    assert_eq!(set(libc::TCP_NODELAY, byte, 3), Err(libc::EINVAL));
    assert_eq!(set(libc::TCP_NODELAY, byte, 1 << 30), Ok(0));
    assert_eq!(set(libc::TCP_CONGESTION, c"reno".as_ptr().cast(), 1 << 30), Ok(0));
    assert_eq!(set(libc::TCP_FASTOPEN_KEY, byte, 1 << 30), Err(libc::EINVAL));
    let mut value = 0;
    let to = (&raw mut value).cast::<c_void>();
    let get = |to, len| told(call!(table, getsockopt, fd, SOL_TCP, libc::TCP_NODELAY, to, len));
    let (mut negative, mut four) = (u32::MAX, 4);
    assert_eq!(get(to, &raw mut negative), Err(libc::EINVAL));
    assert_eq!(get(null_mut(), &raw mut four), Err(libc::EFAULT));
    assert_eq!(get(to, null_mut()), Err(libc::EFAULT));
    call!(table, free);
}

/// `SO_RCVTIMEO` as `sock_set_timeout` reads it: what is no time of day is refused, a negative one is none.
#[test]
fn times_that_cannot_be() {
    let table = init(c"");
    let fd = stream(&table);
    let set = |tv_sec, tv_usec| {
        let value = timeval { tv_sec, tv_usec };
        let (at, len) = ((&raw const value).cast(), size_of::<timeval>() as socklen_t);
        told(call!(table, setsockopt, fd, libc::SOL_SOCKET, libc::SO_RCVTIMEO, at, len))
    };
    assert_eq!(set(0, -1), Err(libc::EDOM));
    let short = |name, len| {
        let at = [0_u8; 16].as_ptr().cast();
        told(call!(table, setsockopt, fd, libc::SOL_SOCKET, name, at, len))
    };
    assert_eq!(short(libc::SO_LINGER, 7), Err(libc::EINVAL));
    assert_eq!(short(libc::SO_RCVTIMEO, 15), Err(libc::EINVAL));
    assert_eq!(set(0, 1_000_000), Err(libc::EDOM));
    assert_eq!(set(i64::MAX, 999_999), Ok(0));
    let mut value = timeval { tv_sec: 7, tv_usec: 7 };
    let mut len = size_of::<timeval>() as socklen_t;
    let (to, len) = ((&raw mut value).cast(), &raw mut len);
    assert_eq!(
        told(call!(table, getsockopt, fd, libc::SOL_SOCKET, libc::SO_RCVTIMEO, to, len)),
        Ok(0)
    );
    assert_eq!((value.tv_sec, value.tv_usec), (0, 0));
    // Does not wait at all.
    assert_eq!(set(-1, 0), Ok(0));
    assert_eq!(told(call!(table, listen, fd, 1)), Ok(0));
    assert_eq!(told(call!(table, accept, fd, null_mut(), null_mut())), Err(libc::EAGAIN));
    call!(table, free);
}

#[test]
fn packets_that_are_none() {
    let table = init(c"");
    let long = vec![0x45_u8; 70_000];
    let send = |at, len| told(call!(table, netdev_send, at, len));
    assert_eq!(send(null(), 20), Err(libc::EFAULT));
    for len in [65_576, 70_000, isize::MAX as usize, usize::MAX] {
        assert_eq!(send(long.as_ptr().cast(), len), Err(libc::EINVAL), "{len}");
    }
    // Bytes that are no packet are the host's business, which drops them.
    for len in [0, 1, 19, 20, 65_535] {
        let _host_counts_it = send(long.as_ptr().cast(), len);
    }
    let mut time = 0;
    let (mut none, mut some) = (0, 100);
    for (to, len) in [(null_mut(), &raw mut some), (long.as_ptr().cast_mut().cast(), null_mut())] {
        assert_eq!(told(call!(table, netdev_receive, to, len, &raw mut time)), Err(libc::EFAULT));
    }
    let to = long.as_ptr().cast_mut().cast();
    assert_eq!(
        told(call!(table, netdev_receive, to, &raw mut none, null_mut())),
        Err(libc::EFAULT)
    );
    call!(table, free);
}

/// A connection whose number cannot be given out is closed, not lost: the peer sees its end.
#[test]
fn numbers_that_run_out_lose_no_descriptor() {
    let table = init(c"");
    for _ in 0..2_000 {
        let fd = stream(&table);
        assert_eq!(told(call!(table, close, fd)), Ok(0));
        assert_eq!(told(call!(table, close, fd)), Err(libc::EBADF));
    }
    let mut pair = [0; 2];
    assert_eq!(told(call!(table, pipe, pair.as_mut_ptr())), Ok(0));
    for fd in pair {
        assert_eq!(told(call!(table, close, fd)), Ok(0));
    }
    call!(table, free);
}
