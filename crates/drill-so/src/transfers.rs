//! The functions of the table that move bytes.
//!
//! As in [`crate::calls`], all of them are called with the instance that stands in the table, and with
//! arguments that would do for the system call of their name.

#![allow(unsafe_code)]

use crate::border::{self, buffer, fail};
use crate::user::{User, length, value, with};
use crate::{decode, encode};
use core::ptr;
use datapath::socket::{Data, Errno, Iov, Message, Received, Return, Syscall};
use libc::{c_int, c_void, iovec, msghdr, size_t, sockaddr, socklen_t, ssize_t};

// Receiving. Payload is a length: the caller's memory is left as it is.

/// `read(2)`.
///
/// # Safety
/// As for the system call, and with the instance of the table.
pub(crate) unsafe extern "C" fn read(
    user: User,
    fd: c_int,
    memory: *mut c_void,
    len: size_t,
) -> ssize_t {
    with(user, "read", |instance| {
        let iov = Iov::One(buffer(memory, len));
        value(instance.call(Syscall::Read { fd: instance.fd(fd), iov }))
    })
}

/// `readv(2)`.
///
/// # Safety
/// As for the system call, and with the instance of the table.
pub(crate) unsafe extern "C" fn readv(
    user: User,
    fd: c_int,
    list: *const iovec,
    count: c_int,
) -> ssize_t {
    with(user, "readv", |instance| {
        // SAFETY: arguments of readv(2).
        let iov = unsafe { border::vector(list, length(count)) };
        value(iov.and_then(|iov| instance.call(Syscall::Read { fd: instance.fd(fd), iov })))
    })
}

/// `recv(2)`.
///
/// # Safety
/// As for the system call, and with the instance of the table.
pub(crate) unsafe extern "C" fn recv(
    user: User,
    fd: c_int,
    memory: *mut c_void,
    len: size_t,
    flags: c_int,
) -> ssize_t {
    // SAFETY: recv(2) is recvfrom(2) that wants no address.
    unsafe { recvfrom(user, fd, memory, len, flags, ptr::null_mut(), ptr::null_mut()) }
}

/// `recvfrom(2)`.
///
/// # Safety
/// As for the system call, and with the instance of the table.
pub(crate) unsafe extern "C" fn recvfrom(
    user: User,
    fd: c_int,
    memory: *mut c_void,
    len: size_t,
    flags: c_int,
    address: *mut sockaddr,
    address_len: *mut socklen_t,
) -> ssize_t {
    with(user, "recvfrom", |instance| {
        let iov = Iov::One(buffer(memory, len));
        let mut done = instance.call(Syscall::Receive { fd: instance.fd(fd), iov, flags });
        if let Ok(Return { data: Data::Message(message), .. }) = &done
            && !address.is_null()
        {
            // SAFETY: arguments of recvfrom(2).
            let written = unsafe { border::write_address(address, address_len, message.from) };
            done = written.and(done);
        }
        value(done)
    })
}

/// `recvmsg(2)`.
///
/// # Safety
/// As for the system call, and with the instance of the table.
pub(crate) unsafe extern "C" fn recvmsg(
    user: User,
    fd: c_int,
    to: *mut msghdr,
    flags: c_int,
) -> ssize_t {
    with(user, "recvmsg", |instance| {
        if to.is_null() {
            return fail(Errno::EFAULT);
        }
        // SAFETY: arguments of recvmsg(2).
        let mut header = unsafe { to.read_unaligned() };
        // SAFETY: a `msghdr` says where its parts are, and how long.
        let iov = match unsafe { border::vector_of(&header) } {
            Ok(iov) => iov,
            Err(errno) => return fail(errno),
        };
        let mut done = instance.call(Syscall::Receive { fd: instance.fd(fd), iov, flags });
        if let Ok(Return { data: Data::Message(message), .. }) = &done {
            // SAFETY: as above.
            let written = unsafe { write_message(&mut header, message) };
            // SAFETY: as above.
            unsafe { to.write_unaligned(header) };
            done = written.and(done);
        }
        value(done)
    })
}

/// What `recvmsg` writes besides payload.
///
/// # Safety
/// The pointers of `header` are null or point at as many bytes as it says.
unsafe fn write_message(header: &mut msghdr, message: &Received) -> Result<(), Errno> {
    let room = if header.msg_control.is_null() { 0 } else { border::length(header.msg_controllen) };
    let (bytes, cut) = encode::controls(&message.control, room);
    // SAFETY: by the contract of this function.
    let written = unsafe {
        border::write(header.msg_control, room, &bytes);
        if header.msg_name.is_null() {
            Ok(())
        } else {
            let to = header.msg_name.cast();
            border::write_address(to, &raw mut header.msg_namelen, message.from)
        }
    };
    // No more than there was room for.
    header.msg_controllen = border::shorter(bytes.len(), header.msg_controllen);
    header.msg_flags = message.flags | if cut { libc::MSG_CTRUNC } else { 0 };
    written
}

// Sending.

/// `write(2)`.
///
/// # Safety
/// As for the system call, and with the instance of the table.
pub(crate) unsafe extern "C" fn write(
    user: User,
    fd: c_int,
    memory: *const c_void,
    len: size_t,
) -> ssize_t {
    with(user, "write", |instance| {
        let iov = Iov::One(buffer(memory, len));
        value(instance.call(Syscall::Write { fd: instance.fd(fd), iov }))
    })
}

/// `writev(2)`.
///
/// # Safety
/// As for the system call, and with the instance of the table.
pub(crate) unsafe extern "C" fn writev(
    user: User,
    fd: c_int,
    list: *const iovec,
    count: c_int,
) -> ssize_t {
    with(user, "writev", |instance| {
        // SAFETY: arguments of writev(2).
        let iov = unsafe { border::vector(list, length(count)) };
        value(iov.and_then(|iov| instance.call(Syscall::Write { fd: instance.fd(fd), iov })))
    })
}

/// `send(2)`.
///
/// # Safety
/// As for the system call, and with the instance of the table.
pub(crate) unsafe extern "C" fn send(
    user: User,
    fd: c_int,
    memory: *const c_void,
    len: size_t,
    flags: c_int,
) -> ssize_t {
    // SAFETY: send(2) is sendto(2) without an address.
    unsafe { sendto(user, fd, memory, len, flags, ptr::null(), 0) }
}

/// `sendto(2)`.
///
/// # Safety
/// As for the system call, and with the instance of the table.
pub(crate) unsafe extern "C" fn sendto(
    user: User,
    fd: c_int,
    memory: *const c_void,
    len: size_t,
    flags: c_int,
    address: *const sockaddr,
    address_len: socklen_t,
) -> ssize_t {
    with(user, "sendto", |instance| {
        // A null pointer is no address, whatever its length.
        let len_of_address = if address.is_null() { 0 } else { address_len };
        // SAFETY: arguments of sendto(2).
        let address = unsafe { border::address(address, len_of_address) };
        value(address.and_then(|address| {
            let message =
                Message { address, iov: Iov::One(buffer(memory, len)), control: Vec::new() };
            instance.call(Syscall::Send { fd: instance.fd(fd), message, flags })
        }))
    })
}

/// `sendmsg(2)`.
///
/// # Safety
/// As for the system call, and with the instance of the table.
pub(crate) unsafe extern "C" fn sendmsg(
    user: User,
    fd: c_int,
    from: *const msghdr,
    flags: c_int,
) -> ssize_t {
    with(user, "sendmsg", |instance| {
        if from.is_null() {
            return fail(Errno::EFAULT);
        }
        // SAFETY: arguments of sendmsg(2).
        let message = unsafe { message(&from.read_unaligned()) };
        value(message.and_then(|message| {
            instance.call(Syscall::Send { fd: instance.fd(fd), message, flags })
        }))
    })
}

/// What `sendmsg` is given.
///
/// # Safety
/// The pointers of `header` are null or point at as many bytes as it says.
unsafe fn message(header: &msghdr) -> Result<Message, Errno> {
    let control_len = border::length(header.msg_controllen);
    let name_len = match header.msg_namelen {
        len if len > i32::MAX as socklen_t => return Err(Errno::EINVAL),
        _ if header.msg_name.is_null() => 0,
        // Of a longer one the rest is not looked at.
        len => len.min(size_of::<libc::sockaddr_storage>() as socklen_t),
    };
    // SAFETY: by the contract of this function.
    unsafe {
        Ok(Message {
            address: border::address(header.msg_name.cast(), name_len)?,
            iov: border::vector_of(header)?,
            control: decode::controls(border::bytes(
                header.msg_control,
                control_len,
                OPTION_MEMORY,
                Errno::ENOBUFS,
            )?),
        })
    }
}

/// `net.core.optmem_max`: more control messages than that are refused.
const OPTION_MEMORY: usize = 131_072;
