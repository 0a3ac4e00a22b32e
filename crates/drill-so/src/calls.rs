//! The functions of the table: each turns its arguments into a system call of the host, and what
//! that returns into a C result.
//!
//! All of them are called by packetdrill with the instance that stands in the table, and with
//! arguments that would do for the system call of their name.

#![allow(unsafe_code)]

use crate::border::{self, fail};
use crate::flags::Flags;
use crate::instance::Instance;
use crate::interface::Interface;
use crate::{decode, encode, transfers};
use datapath::socket::{Data, EpollEvent, Errno, OptionValue, PollFd, Return, Syscall, number};
use datapath::units::Duration;
use libc::{
    c_char, c_int, c_longlong, c_uint, c_ulong, c_void, epoll_event, loff_t, nfds_t, pollfd,
    size_t, sockaddr, socklen_t, ssize_t, timeval, timezone, useconds_t,
};
use std::ffi::CStr;
use std::sync::Arc;

/// Fills in the table, and starts a host for one script. `flags` is the text of `--so_flags`.
///
/// # Safety
/// `flags` is null or a C string; `table` points at a table that may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn packetdrill_interface_init(flags: *const c_char, table: *mut Interface) {
    let text = if flags.is_null() {
        String::new()
    } else {
        // SAFETY: by the contract of this function.
        unsafe { CStr::from_ptr(flags) }.to_string_lossy().into_owned()
    };
    let flags = Flags::read(&text).unwrap_or_else(|what| {
        eprintln!("ackwright: --so_flags: {what}");
        std::process::exit(2);
    });
    let instance = Arc::into_raw(Instance::start(&flags));
    let filled = Interface {
        userdata: instance.cast_mut().cast(),
        free: Some(free),
        socket: Some(socket),
        bind: Some(bind),
        listen: Some(listen),
        accept: Some(accept),
        connect: Some(connect),
        read: Some(transfers::read),
        readv: Some(transfers::readv),
        recv: Some(transfers::recv),
        recvfrom: Some(transfers::recvfrom),
        recvmsg: Some(transfers::recvmsg),
        write: Some(transfers::write),
        writev: Some(transfers::writev),
        send: Some(transfers::send),
        sendto: Some(transfers::sendto),
        sendmsg: Some(transfers::sendmsg),
        fcntl: Some(fcntl),
        ioctl: Some(ioctl),
        close: Some(close),
        shutdown: Some(shutdown),
        getsockopt: Some(getsockopt),
        setsockopt: Some(setsockopt),
        poll: Some(poll),
        netdev_send: Some(netdev_send),
        netdev_receive: Some(netdev_receive),
        usleep: Some(usleep),
        gettimeofday: Some(gettimeofday),
        epoll_create: Some(epoll_create),
        epoll_ctl: Some(epoll_ctl),
        epoll_wait: Some(epoll_wait),
        pipe: Some(pipe),
        splice: Some(splice),
    };
    // SAFETY: by the contract of this function.
    unsafe { table.write(filled) };
}

pub(crate) type User = *mut c_void;

/// The instance behind the first argument.
///
/// # Safety
/// `user` is what [`packetdrill_interface_init`] put into the table, and [`free`] was not called.
pub(crate) unsafe fn instance<'a>(user: User) -> &'a Instance {
    // SAFETY: it came from `Arc::into_raw` and is kept until `free`.
    unsafe { &*user.cast::<Instance>() }
}

/// What a call that moves bytes returns.
pub(crate) fn value(done: Result<Return, Errno>) -> ssize_t {
    done.map_or_else(fail, |done| done.value as ssize_t)
}

/// What any other call returns.
fn int(done: Result<Return, Errno>) -> c_int {
    done.map_or_else(fail, |done| done.value as c_int)
}

unsafe extern "C" fn free(user: User) {
    // SAFETY: packetdrill hands back what `packetdrill_interface_init` gave it, once.
    let instance = unsafe { Arc::from_raw(user.cast::<Instance>().cast_const()) };
    instance.end();
}

unsafe extern "C" fn socket(user: User, domain: c_int, kind: c_int, protocol: c_int) -> c_int {
    // SAFETY: packetdrill gives the instance of the table.
    let instance = unsafe { instance(user) };
    let opened = instance.open(Syscall::Socket { domain, kind, protocol });
    opened.map_or_else(fail, |(fd, _)| fd)
}

unsafe extern "C" fn bind(
    user: User,
    fd: c_int,
    address: *const sockaddr,
    len: socklen_t,
) -> c_int {
    // SAFETY: arguments of bind(2), and the instance of the table.
    let (instance, address) = unsafe { (instance(user), border::address(address, len)) };
    int(instance.call(Syscall::Bind { fd: instance.fd(fd), address }))
}

unsafe extern "C" fn listen(user: User, fd: c_int, backlog: c_int) -> c_int {
    // SAFETY: packetdrill gives the instance of the table.
    let instance = unsafe { instance(user) };
    int(instance.call(Syscall::Listen { fd: instance.fd(fd), backlog }))
}

unsafe extern "C" fn accept(
    user: User,
    fd: c_int,
    address: *mut sockaddr,
    len: *mut socklen_t,
) -> c_int {
    // SAFETY: packetdrill gives the instance of the table.
    let instance = unsafe { instance(user) };
    match instance.open(Syscall::Accept { fd: instance.fd(fd), flags: 0 }) {
        Ok((fd, done)) => {
            let peer = match done.data {
                Data::Address(peer) => Some(peer),
                _ => None,
            };
            // SAFETY: arguments of accept(2).
            unsafe { border::write_address(address, len, peer) };
            fd
        }
        Err(errno) => fail(errno),
    }
}

unsafe extern "C" fn connect(
    user: User,
    fd: c_int,
    address: *const sockaddr,
    len: socklen_t,
) -> c_int {
    // SAFETY: arguments of connect(2), and the instance of the table.
    let (instance, address) = unsafe { (instance(user), border::address(address, len)) };
    int(instance.call(Syscall::Connect { fd: instance.fd(fd), address }))
}

// Descriptors.

unsafe extern "C" fn fcntl(user: User, fd: c_int, command: c_int, argument: c_ulong) -> c_int {
    // SAFETY: packetdrill gives the instance of the table.
    let instance = unsafe { instance(user) };
    // Commands without an argument leave chance in its place.
    let argument = match command {
        number::F_SETFL | number::F_SETFD => argument as c_int,
        _ => 0,
    };
    int(instance.call(Syscall::Fcntl { fd: instance.fd(fd), command, argument }))
}

unsafe extern "C" fn ioctl(
    user: User,
    fd: c_int,
    request: c_ulong,
    argument: *mut c_void,
) -> c_int {
    // SAFETY: packetdrill gives the instance of the table.
    let instance = unsafe { instance(user) };
    let request = request as c_int;
    let given = if request == number::FIONBIO && !argument.is_null() {
        // SAFETY: this request takes a pointer to an int.
        unsafe { argument.cast::<c_int>().read_unaligned() }
    } else {
        0
    };
    let done = instance.call(Syscall::Ioctl { fd: instance.fd(fd), request, argument: given });
    match done {
        Ok(Return { data: Data::Number(_), .. }) if argument.is_null() => fail(Errno::EFAULT),
        Ok(Return { value, data: Data::Number(number) }) => {
            // SAFETY: requests that give a number take a pointer to an int.
            unsafe { argument.cast::<c_int>().write_unaligned(number as c_int) };
            value as c_int
        }
        done => int(done),
    }
}

unsafe extern "C" fn close(user: User, fd: c_int) -> c_int {
    // SAFETY: packetdrill gives the instance of the table.
    let instance = unsafe { instance(user) };
    let done = instance.call(Syscall::Close { fd: instance.fd(fd) });
    if instance.drop_number(fd) {
        // SAFETY: the number is one that the instance has opened, and nobody else's.
        unsafe { libc::close(fd) };
    }
    int(done)
}

unsafe extern "C" fn shutdown(user: User, fd: c_int, how: c_int) -> c_int {
    // SAFETY: packetdrill gives the instance of the table.
    let instance = unsafe { instance(user) };
    int(instance.call(Syscall::Shutdown { fd: instance.fd(fd), how }))
}

unsafe extern "C" fn getsockopt(
    user: User,
    fd: c_int,
    level: c_int,
    name: c_int,
    to: *mut c_void,
    len: *mut socklen_t,
) -> c_int {
    // SAFETY: arguments of getsockopt(2), and the instance of the table.
    unsafe { get_option(instance(user), fd, level, name, to, len) }
}

/// `getsockopt(2)`.
///
/// # Safety
/// `len` is null or points at a length; `to` is null or points at that many bytes.
pub(crate) unsafe fn get_option(
    instance: &Instance,
    fd: c_int,
    level: c_int,
    name: c_int,
    to: *mut c_void,
    len: *mut socklen_t,
) -> c_int {
    // SAFETY: by the contract of this function.
    let Some(room) = (unsafe { len.as_ref() }).copied() else { return fail(Errno::EFAULT) };
    match instance.call(Syscall::GetOption { fd: instance.fd(fd), level, name, len: room }) {
        Ok(Return { data: Data::Option(value), .. }) => {
            let bytes = encode::option(level, name, &value);
            // SAFETY: by the contract of this function.
            unsafe { border::write_option(to, len, &bytes) }
        }
        done => int(done),
    }
}

unsafe extern "C" fn setsockopt(
    user: User,
    fd: c_int,
    level: c_int,
    name: c_int,
    from: *const c_void,
    len: socklen_t,
) -> c_int {
    // SAFETY: packetdrill gives the instance of the table.
    let instance = unsafe { instance(user) };
    let value = if from.is_null() {
        OptionValue::Fault
    } else {
        // SAFETY: arguments of setsockopt(2).
        decode::option(level, name, unsafe { border::bytes(from, len as usize) })
    };
    int(instance.call(Syscall::SetOption { fd: instance.fd(fd), level, name, value, len }))
}

// Readiness.

unsafe extern "C" fn poll(user: User, list: *mut pollfd, count: nfds_t, timeout: c_int) -> c_int {
    // SAFETY: arguments of poll(2), and the instance of the table.
    let (instance, list) = unsafe { (instance(user), border::elements(list, count as usize)) };
    let fds = list
        .iter()
        .map(|entry| PollFd { fd: instance.fd(entry.fd), events: entry.events.into() })
        .collect();
    let done = instance.call(Syscall::Poll { fds, timeout_ms: timeout });
    if let Ok(Return { data: Data::Polled(ready), .. }) = &done {
        for (entry, ready) in list.iter_mut().zip(ready) {
            entry.revents = *ready as i16;
        }
    }
    int(done)
}

unsafe extern "C" fn epoll_create(user: User, size: c_int) -> c_int {
    // SAFETY: packetdrill gives the instance of the table.
    let instance = unsafe { instance(user) };
    instance.open(Syscall::EpollCreate { size }).map_or_else(fail, |(fd, _)| fd)
}

unsafe extern "C" fn epoll_ctl(
    user: User,
    epfd: c_int,
    op: c_int,
    fd: c_int,
    event: *mut epoll_event,
) -> c_int {
    // SAFETY: arguments of epoll_ctl(2), and the instance of the table.
    let (instance, event) = unsafe { (instance(user), event.as_ref()) };
    let event = event.map(|it| EpollEvent { events: it.events, data: it.u64 });
    int(instance.call(Syscall::EpollCtl {
        epfd: instance.fd(epfd),
        op,
        fd: instance.fd(fd),
        event,
    }))
}

unsafe extern "C" fn epoll_wait(
    user: User,
    epfd: c_int,
    list: *mut epoll_event,
    count: c_int,
    timeout: c_int,
) -> c_int {
    // SAFETY: packetdrill gives the instance of the table.
    let instance = unsafe { instance(user) };
    let done = instance.call(Syscall::EpollWait {
        epfd: instance.fd(epfd),
        max_events: count,
        timeout_ms: timeout,
    });
    if let Ok(Return { data: Data::Events(events), .. }) = &done {
        // SAFETY: arguments of epoll_wait(2).
        let list = unsafe { border::elements(list, length(count)) };
        for (entry, event) in list.iter_mut().zip(events) {
            *entry = epoll_event { events: event.events, u64: event.data };
        }
    }
    int(done)
}

// Pipes.

unsafe extern "C" fn pipe(user: User, to: *mut c_int) -> c_int {
    // SAFETY: arguments of pipe(2): room for two, and the instance of the table.
    let (instance, to) = unsafe { (instance(user), border::elements(to, 2)) };
    let ([read, write], Ok(Return { data: Data::Pipe(from, into), .. })) =
        (to, instance.call(Syscall::Pipe))
    else {
        return fail(Errno::EFAULT);
    };
    match (instance.keep_number(from), instance.keep_number(into)) {
        (Ok(from), Ok(into)) => {
            (*read, *write) = (from, into);
            0
        }
        (Err(errno), _) | (_, Err(errno)) => fail(errno),
    }
}

unsafe extern "C" fn splice(
    user: User,
    from: c_int,
    _from_at: *mut loff_t,
    to: c_int,
    _to_at: *mut loff_t,
    len: size_t,
    flags: c_uint,
) -> c_int {
    // SAFETY: packetdrill gives the instance of the table.
    let instance = unsafe { instance(user) };
    int(instance.call(Syscall::Splice {
        in_fd: instance.fd(from),
        out_fd: instance.fd(to),
        len: len as u64,
        flags: flags as c_int,
    }))
}

// Packets and time.

unsafe extern "C" fn netdev_send(user: User, packet: *const c_void, len: size_t) -> c_int {
    // SAFETY: packetdrill gives a packet of that many bytes, and the instance of the table.
    let (instance, bytes) = unsafe { (instance(user), border::bytes(packet, len)) };
    instance.packet_in(bytes).map_or_else(fail, |()| 0)
}

unsafe extern "C" fn netdev_receive(
    user: User,
    to: *mut c_void,
    len: *mut size_t,
    time_usecs: *mut c_longlong,
) -> c_int {
    // SAFETY: packetdrill gives places for both, and the instance of the table.
    let (instance, Some(len), Some(time)) =
        (unsafe { (instance(user), len.as_mut(), time_usecs.as_mut()) })
    else {
        return fail(Errno::EFAULT);
    };
    let Some((at, bytes)) = instance.packet_out() else {
        // packetdrill asks again and again after an error, but gives up after an empty packet.
        *len = 0;
        return 0;
    };
    // SAFETY: packetdrill says how large its buffer is.
    *len = unsafe { border::write(to, *len, &bytes) };
    *time = at.as_nanos().div_euclid(1_000) as c_longlong;
    0
}

unsafe extern "C" fn usleep(user: User, micros: useconds_t) -> c_int {
    // SAFETY: packetdrill gives the instance of the table.
    unsafe { instance(user) }.sleep(Duration::from_micros(micros.into()));
    0
}

unsafe extern "C" fn gettimeofday(user: User, to: *mut timeval, _zone: *mut timezone) -> c_int {
    // SAFETY: arguments of gettimeofday(2), and the instance of the table.
    let (instance, to) = unsafe { (instance(user), to.as_mut()) };
    let micros = instance.look_at_clock().as_nanos() / 1_000;
    if let Some(to) = to {
        to.tv_sec = (micros / 1_000_000) as libc::time_t;
        to.tv_usec = (micros % 1_000_000) as libc::suseconds_t;
    }
    0
}

/// A count of elements; a negative one is absurd, and refused as such.
pub(crate) fn length(count: c_int) -> size_t {
    usize::try_from(count).unwrap_or(size_t::MAX)
}
