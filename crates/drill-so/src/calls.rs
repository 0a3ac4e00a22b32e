//! The functions of the table: each turns its arguments into a system call of the host, and what
//! that returns into a C result.
//!
//! All of them are called by packetdrill with the instance that stands in the table, and with
//! arguments that would do for the system call of their name.

#![allow(unsafe_code)]

use crate::border::{self, fail};
use crate::flags::Flags;
use crate::instance::{Instance, ReservedFd};
use crate::interface::Interface;
use crate::user::{User, no_instance, with};
use crate::{decode, encode, transfers};
use datapath::socket::{Data, EpollEvent, Errno, OptionValue, PollFd, Return, Syscall, number};
use datapath::units::Duration;
use libc::{
    c_char, c_int, c_longlong, c_uint, c_ulong, c_void, epoll_event, loff_t, nfds_t, pollfd,
    size_t, sockaddr, socklen_t, timeval, timezone, useconds_t,
};
use std::ffi::CStr;

/// Fills in the table, and starts a host for one script. `flags` is the text of `--so_flags`.
///
/// Flags that cannot be understood are told, and end the process, as packetdrill's own do: there is no other way
/// to refuse here.
///
/// # Safety
/// `flags` is null or a C string; `table` is null or points at a table that may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn packetdrill_interface_init(flags: *const c_char, table: *mut Interface) {
    if table.is_null() {
        eprintln!("ackwright: packetdrill_interface_init(): the table is a null pointer");
        return;
    }
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
    let filled = Interface {
        // A number, not an address: one that is over, or was made up, is then known as such.
        userdata: core::ptr::without_provenance_mut(Instance::start(&flags)),
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
    unsafe { table.write_unaligned(filled) };
}

/// What any other call returns.
fn int(done: Result<Return, Errno>) -> c_int {
    done.map_or_else(fail, |done| done.value as c_int)
}

unsafe extern "C" fn free(user: User) {
    if !Instance::end(user.addr()) {
        no_instance::<c_int>("free");
    }
}

unsafe extern "C" fn socket(user: User, domain: c_int, kind: c_int, protocol: c_int) -> c_int {
    with(user, "socket", |instance| {
        let opened = instance.open(Syscall::Socket { domain, kind, protocol });
        opened.map_or_else(fail, |(fd, _)| fd)
    })
}

unsafe extern "C" fn bind(
    user: User,
    fd: c_int,
    address: *const sockaddr,
    len: socklen_t,
) -> c_int {
    with(user, "bind", |instance| {
        // SAFETY: arguments of bind(2).
        let address = unsafe { border::address(address, len) };
        int(address
            .and_then(|address| instance.call(Syscall::Bind { fd: instance.fd(fd), address })))
    })
}

unsafe extern "C" fn listen(user: User, fd: c_int, backlog: c_int) -> c_int {
    with(user, "listen", |instance| {
        int(instance.call(Syscall::Listen { fd: instance.fd(fd), backlog }))
    })
}

unsafe extern "C" fn accept(
    user: User,
    fd: c_int,
    address: *mut sockaddr,
    len: *mut socklen_t,
) -> c_int {
    with(user, "accept", |instance| {
        let (fd, done) = match instance.open(Syscall::Accept { fd: instance.fd(fd), flags: 0 }) {
            Ok(accepted) => accepted,
            Err(errno) => return fail(errno),
        };
        if address.is_null() {
            return fd;
        }
        let peer = match done.data {
            Data::Address(peer) => Some(peer),
            _ => None,
        };
        // SAFETY: arguments of accept(2).
        let Err(errno) = (unsafe { border::write_address(address, len, peer) }) else { return fd };
        // Nobody learns of it: the kernel closes it as well.
        let _is_closed = instance.close(fd);
        fail(errno)
    })
}

unsafe extern "C" fn connect(
    user: User,
    fd: c_int,
    address: *const sockaddr,
    len: socklen_t,
) -> c_int {
    with(user, "connect", |instance| {
        // SAFETY: arguments of connect(2).
        let address = unsafe { border::address(address, len) };
        int(address
            .and_then(|address| instance.call(Syscall::Connect { fd: instance.fd(fd), address })))
    })
}

// Descriptors.

unsafe extern "C" fn fcntl(user: User, fd: c_int, command: c_int, argument: c_ulong) -> c_int {
    // Commands without an argument leave chance in its place.
    let argument = match command {
        number::F_SETFL | number::F_SETFD => argument as c_int,
        _ => 0,
    };
    with(user, "fcntl", |instance| {
        int(instance.call(Syscall::Fcntl { fd: instance.fd(fd), command, argument }))
    })
}

unsafe extern "C" fn ioctl(
    user: User,
    fd: c_int,
    request: c_ulong,
    argument: *mut c_void,
) -> c_int {
    let request = request as c_int;
    let given = if request == number::FIONBIO && !argument.is_null() {
        // SAFETY: this request takes a pointer to an int.
        unsafe { argument.cast::<c_int>().read_unaligned() }
    } else {
        0
    };
    with(user, "ioctl", |instance| {
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
    })
}

unsafe extern "C" fn close(user: User, fd: c_int) -> c_int {
    with(user, "close", |instance| int(instance.close(fd)))
}

unsafe extern "C" fn shutdown(user: User, fd: c_int, how: c_int) -> c_int {
    with(user, "shutdown", |instance| {
        int(instance.call(Syscall::Shutdown { fd: instance.fd(fd), how }))
    })
}

unsafe extern "C" fn getsockopt(
    user: User,
    fd: c_int,
    level: c_int,
    name: c_int,
    to: *mut c_void,
    len: *mut socklen_t,
) -> c_int {
    // SAFETY: arguments of getsockopt(2).
    with(user, "getsockopt", |instance| unsafe { get_option(instance, fd, level, name, to, len) })
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
    if len.is_null() {
        return fail(Errno::EFAULT);
    }
    // SAFETY: by the contract of this function.
    let room = unsafe { len.read_unaligned() };
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
    with(user, "setsockopt", |instance| {
        let given = if from.is_null() {
            Ok(OptionValue::Fault)
        } else {
            // Options have a length of their own: what lies behind it is not looked at, however long they are
            // said to be.
            let len = (len as usize).min(decode::LONGEST_OPTION);
            // SAFETY: arguments of setsockopt(2).
            unsafe { border::bytes(from, len, len, Errno::EINVAL) }
                .and_then(|bytes| decode::option(level, name, bytes))
        };
        int(given.and_then(|value| {
            let fd = instance.fd(fd);
            instance.call(Syscall::SetOption { fd, level, name, value, len })
        }))
    })
}

// Readiness.

unsafe extern "C" fn poll(user: User, list: *mut pollfd, count: nfds_t, timeout: c_int) -> c_int {
    with(user, "poll", |instance| {
        // SAFETY: arguments of poll(2).
        let entries = match unsafe { border::elements(list, count as usize) } {
            Ok(entries) => entries,
            Err(errno) => return fail(errno),
        };
        let fds = entries
            .iter()
            .map(|entry| PollFd { fd: instance.fd(entry.fd), events: entry.events.into() })
            .collect();
        let done = instance.call(Syscall::Poll { fds, timeout_ms: timeout });
        if let Ok(Return { data: Data::Polled(ready), .. }) = &done {
            for (at, (entry, ready)) in entries.into_iter().zip(ready).enumerate() {
                // SAFETY: of as many as were read above.
                unsafe { border::write_at(list, at, pollfd { revents: *ready as i16, ..entry }) };
            }
        }
        int(done)
    })
}

unsafe extern "C" fn epoll_create(user: User, size: c_int) -> c_int {
    with(user, "epoll_create", |instance| {
        instance.open(Syscall::EpollCreate { size }).map_or_else(fail, |(fd, _)| fd)
    })
}

unsafe extern "C" fn epoll_ctl(
    user: User,
    epfd: c_int,
    op: c_int,
    fd: c_int,
    event: *mut epoll_event,
) -> c_int {
    with(user, "epoll_ctl", |instance| {
        let event = (!event.is_null()).then(|| {
            // SAFETY: arguments of epoll_ctl(2).
            let it = unsafe { event.read_unaligned() };
            EpollEvent { events: it.events, data: it.u64 }
        });
        int(instance.call(Syscall::EpollCtl {
            epfd: instance.fd(epfd),
            op,
            fd: instance.fd(fd),
            event,
        }))
    })
}

unsafe extern "C" fn epoll_wait(
    user: User,
    epfd: c_int,
    list: *mut epoll_event,
    count: c_int,
    timeout: c_int,
) -> c_int {
    with(user, "epoll_wait", |instance| {
        // EP_MAX_EVENTS: more do not fit into memory.
        if count > c_int::MAX / size_of::<epoll_event>() as c_int {
            return fail(Errno::EINVAL);
        }
        let done = instance.call(Syscall::EpollWait {
            epfd: instance.fd(epfd),
            max_events: count,
            timeout_ms: timeout,
        });
        if let Ok(Return { data: Data::Events(events), .. }) = &done {
            if list.is_null() && !events.is_empty() {
                return fail(Errno::EFAULT);
            }
            for (at, event) in events.iter().enumerate() {
                let event = epoll_event { events: event.events, u64: event.data };
                // SAFETY: arguments of epoll_wait(2), and the host gives no more than were wanted.
                unsafe { border::write_at(list, at, event) };
            }
        }
        int(done)
    })
}

// Pipes.

unsafe extern "C" fn pipe(user: User, to: *mut c_int) -> c_int {
    with(user, "pipe", |instance| {
        if to.is_null() {
            return fail(Errno::EFAULT);
        }
        let places = ReservedFd::new().and_then(|read| Ok((read, ReservedFd::new()?)));
        let made = places.and_then(|places| Ok((places, instance.call(Syscall::Pipe)?)));
        match made {
            Ok(((read, write), Return { data: Data::Pipe(from, into), .. })) => {
                let ends = [instance.keep_number(read, from), instance.keep_number(write, into)];
                // SAFETY: arguments of pipe(2): room for two.
                unsafe { to.cast::<[c_int; 2]>().write_unaligned(ends) };
                0
            }
            Ok(_) => fail(Errno::EFAULT),
            Err(errno) => fail(errno),
        }
    })
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
    with(user, "splice", |instance| {
        int(instance.call(Syscall::Splice {
            in_fd: instance.fd(from),
            out_fd: instance.fd(to),
            len: len as u64,
            flags: flags as c_int,
        }))
    })
}

// Packets and time.

unsafe extern "C" fn netdev_send(user: User, packet: *const c_void, len: size_t) -> c_int {
    with(user, "netdev_send", |instance| {
        // SAFETY: packetdrill gives a packet of that many bytes.
        let bytes = unsafe { border::bytes(packet, len, LONGEST_PACKET, Errno::EINVAL) };
        bytes.and_then(|bytes| instance.packet_in(bytes)).map_or_else(fail, |()| 0)
    })
}

/// The fixed header of IPv6, and the most that its length field says.
const LONGEST_PACKET: usize = 40 + 65_535;

unsafe extern "C" fn netdev_receive(
    user: User,
    to: *mut c_void,
    len: *mut size_t,
    time_usecs: *mut c_longlong,
) -> c_int {
    with(user, "netdev_receive", |instance| {
        if to.is_null() || len.is_null() || time_usecs.is_null() {
            return fail(Errno::EFAULT);
        }
        let Some((at, bytes)) = instance.packet_out() else {
            // packetdrill asks again and again after an error, but gives up after an empty packet.
            // SAFETY: packetdrill gives a place for the length.
            unsafe { len.write_unaligned(0) };
            return 0;
        };
        // SAFETY: packetdrill gives places for all three, and says how large its buffer is.
        unsafe {
            len.write_unaligned(border::write(to, len.read_unaligned(), &bytes));
            time_usecs.write_unaligned(at.as_nanos().div_euclid(1_000) as c_longlong);
        }
        0
    })
}

unsafe extern "C" fn usleep(user: User, micros: useconds_t) -> c_int {
    with(user, "usleep", |instance| {
        instance.sleep(Duration::from_micros(micros.into()));
        0
    })
}

unsafe extern "C" fn gettimeofday(user: User, to: *mut timeval, _zone: *mut timezone) -> c_int {
    with(user, "gettimeofday", |instance| {
        let micros = instance.read_clock().as_nanos() / 1_000;
        let now = timeval {
            tv_sec: (micros / 1_000_000) as libc::time_t,
            tv_usec: (micros % 1_000_000) as libc::suseconds_t,
        };
        if !to.is_null() {
            // SAFETY: arguments of gettimeofday(2).
            unsafe { to.write_unaligned(now) };
        }
        0
    })
}
