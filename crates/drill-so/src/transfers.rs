//! The functions of the table that move bytes.
//!
//! As in [`crate::calls`], all of them are called with the instance that stands in the table, and with
//! arguments that would do for the system call of their name.

#![allow(unsafe_code)]

use crate::border::{self, buffer, fail};
use crate::calls::{User, instance, length, value};
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
    // SAFETY: packetdrill gives the instance of the table.
    let instance = unsafe { instance(user) };
    let iov = Iov::One(buffer(memory, len));
    value(instance.call(Syscall::Read { fd: instance.fd(fd), iov }))
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
    // SAFETY: arguments of readv(2), and the instance of the table.
    let (instance, iov) = unsafe { (instance(user), border::vector(list, length(count))) };
    value(iov.and_then(|iov| instance.call(Syscall::Read { fd: instance.fd(fd), iov })))
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
    // SAFETY: packetdrill gives the instance of the table.
    let instance = unsafe { instance(user) };
    let iov = Iov::One(buffer(memory, len));
    let done = instance.call(Syscall::Receive { fd: instance.fd(fd), iov, flags });
    if let Ok(Return { data: Data::Message(message), .. }) = &done
        && !address.is_null()
    {
        // SAFETY: arguments of recvfrom(2).
        unsafe { border::write_address(address, address_len, message.from) };
    }
    value(done)
}

/// `recvmsg(2)`.
///
/// # Safety
/// As for the system call, and with the instance of the table.
pub(crate) unsafe extern "C" fn recvmsg(
    user: User,
    fd: c_int,
    header: *mut msghdr,
    flags: c_int,
) -> ssize_t {
    // SAFETY: packetdrill gives the instance of the table.
    let instance = unsafe { instance(user) };
    // SAFETY: arguments of recvmsg(2).
    let Some(header) = (unsafe { header.as_mut() }) else { return fail(Errno::EFAULT) };
    // SAFETY: a `msghdr` says how many pieces there are.
    let iov = match unsafe { border::vector(header.msg_iov, border::length(header.msg_iovlen)) } {
        Ok(iov) => iov,
        Err(errno) => return fail(errno),
    };
    let done = instance.call(Syscall::Receive { fd: instance.fd(fd), iov, flags });
    if let Ok(Return { data: Data::Message(message), .. }) = &done {
        // SAFETY: a `msghdr` says where its parts are, and how long.
        unsafe { write_message(header, message) };
    }
    value(done)
}

/// What `recvmsg` writes besides payload.
///
/// # Safety
/// The pointers of `header` are null or point at as many bytes as it says.
unsafe fn write_message(header: &mut msghdr, message: &Received) {
    let room = if header.msg_control.is_null() { 0 } else { border::length(header.msg_controllen) };
    let (bytes, cut) = encode::controls(&message.control, room);
    // SAFETY: by the contract of this function.
    unsafe {
        border::write(header.msg_control, room, &bytes);
        if !header.msg_name.is_null() {
            border::write_address(
                header.msg_name.cast(),
                &raw mut header.msg_namelen,
                message.from,
            );
        }
    }
    // No more than there was room for.
    header.msg_controllen = border::shorter(bytes.len(), header.msg_controllen);
    header.msg_flags = message.flags | if cut { libc::MSG_CTRUNC } else { 0 };
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
    // SAFETY: packetdrill gives the instance of the table.
    let instance = unsafe { instance(user) };
    let iov = Iov::One(buffer(memory, len));
    value(instance.call(Syscall::Write { fd: instance.fd(fd), iov }))
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
    // SAFETY: arguments of writev(2), and the instance of the table.
    let (instance, iov) = unsafe { (instance(user), border::vector(list, length(count))) };
    value(iov.and_then(|iov| instance.call(Syscall::Write { fd: instance.fd(fd), iov })))
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
    // SAFETY: arguments of sendto(2), and the instance of the table.
    let (instance, address) = unsafe { (instance(user), border::address(address, address_len)) };
    let message = Message { address, iov: Iov::One(buffer(memory, len)), control: Vec::new() };
    value(instance.call(Syscall::Send { fd: instance.fd(fd), message, flags }))
}

/// `sendmsg(2)`.
///
/// # Safety
/// As for the system call, and with the instance of the table.
pub(crate) unsafe extern "C" fn sendmsg(
    user: User,
    fd: c_int,
    header: *const msghdr,
    flags: c_int,
) -> ssize_t {
    // SAFETY: packetdrill gives the instance of the table.
    let instance = unsafe { instance(user) };
    // SAFETY: arguments of sendmsg(2).
    let Some(header) = (unsafe { header.as_ref() }) else { return fail(Errno::EFAULT) };
    // SAFETY: a `msghdr` says where its parts are, and how long.
    let (iov, address, control) = unsafe {
        (
            border::vector(header.msg_iov, border::length(header.msg_iovlen)),
            border::address(header.msg_name.cast(), header.msg_namelen),
            decode::controls(border::bytes(
                header.msg_control,
                border::length(header.msg_controllen),
            )),
        )
    };
    value(iov.and_then(|iov| {
        let message = Message { address, iov, control };
        instance.call(Syscall::Send { fd: instance.fd(fd), message, flags })
    }))
}
