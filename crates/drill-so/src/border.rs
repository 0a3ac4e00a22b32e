//! Memory of the caller: C pointers in, plain values out, and back.
//!
//! Each function says what its caller has to keep; packetdrill keeps it as any caller of the system
//! call would have to.

#![allow(unsafe_code)]

use crate::{decode, encode};
use datapath::socket::{Address, Buffer, Errno, Iov};
use libc::{c_int, c_void, iovec, size_t, sockaddr, socklen_t};

/// A length in a `msghdr`, which is a `size_t` with glibc and a shorter number with musl.
pub fn length<T: TryInto<usize>>(written: T) -> usize {
    written.try_into().unwrap_or(usize::MAX)
}

/// A length as a `msghdr` takes it, or `most` if it does not fit.
pub fn shorter<T: TryFrom<usize>>(length: usize, most: T) -> T {
    T::try_from(length).unwrap_or(most)
}

/// Sets `errno`, and gives -1.
pub fn fail<T: From<i8>>(errno: Errno) -> T {
    // SAFETY: the C library gives every thread a place for `errno`.
    unsafe { *libc::__errno_location() = errno.number() };
    T::from(-1)
}

/// A buffer of `len` bytes: a null pointer to some is a bad one.
pub fn buffer(memory: *const c_void, len: size_t) -> Buffer {
    if memory.is_null() { Buffer::faulty(len as u64) } else { Buffer::of(len as u64) }
}

/// A vector of buffers; `EINVAL` for an absurd number of them.
///
/// # Safety
/// `list` is null or points at `count` pieces.
pub unsafe fn vector(list: *const iovec, count: size_t) -> Result<Iov, Errno> {
    if count > libc::UIO_MAXIOV as size_t {
        return Err(Errno::EINVAL);
    }
    if list.is_null() {
        return if count == 0 { Ok(Iov::Many(Vec::new())) } else { Err(Errno::EFAULT) };
    }
    // SAFETY: by the contract of this function.
    let pieces = unsafe { core::slice::from_raw_parts(list, count) };
    Ok(Iov::Many(pieces.iter().map(|it| buffer(it.iov_base, it.iov_len)).collect()))
}

/// An address that the caller gives.
///
/// # Safety
/// `address` is null or points at `len` bytes.
pub unsafe fn address(address: *const sockaddr, len: socklen_t) -> Address {
    if address.is_null() {
        return Address::Null;
    }
    let len = (len as usize).min(LONGEST_ADDRESS);
    // SAFETY: by the contract of this function; a `sockaddr` has no padding that is not bytes.
    decode::address(unsafe { core::slice::from_raw_parts(address.cast::<u8>(), len) })
}

/// `struct sockaddr_storage`.
const LONGEST_ADDRESS: usize = 128;

/// Writes an address where the caller wants it, as much of it as fits, and its whole length.
///
/// # Safety
/// `len` is null or points at a length; `to` is null or points at that many bytes.
pub unsafe fn write_address(
    to: *mut sockaddr,
    len: *mut socklen_t,
    address: Option<core::net::SocketAddr>,
) {
    if len.is_null() {
        return;
    }
    let bytes = address.map(encode::address).unwrap_or_default();
    // SAFETY: by the contract of this function.
    unsafe {
        write(to.cast(), *len as usize, &bytes);
        *len = bytes.len() as socklen_t;
    }
}

/// Writes bytes, as many as there is room for; gives how many.
///
/// # Safety
/// `to` is null or points at `room` bytes that may be written.
pub unsafe fn write(to: *mut c_void, room: usize, bytes: &[u8]) -> usize {
    let len = bytes.len().min(room);
    if to.is_null() {
        return 0;
    }
    // SAFETY: by the contract of this function; `bytes` is ours and does not overlap.
    unsafe { core::ptr::copy_nonoverlapping(bytes.as_ptr(), to.cast::<u8>(), len) };
    len
}

/// Bytes that the caller gives; none for a null pointer.
///
/// # Safety
/// `from` is null or points at `len` bytes that stay as they are during `'a`.
pub unsafe fn bytes<'a>(from: *const c_void, len: usize) -> &'a [u8] {
    if from.is_null() {
        return &[];
    }
    // SAFETY: by the contract of this function.
    unsafe { core::slice::from_raw_parts(from.cast::<u8>(), len) }
}

/// `getsockopt`: the value of an option, as much of it as there is room for.
///
/// # Safety
/// `len` is null or points at a length; `value` is null or points at that many bytes.
pub unsafe fn write_option(value: *mut c_void, len: *mut socklen_t, bytes: &[u8]) -> c_int {
    if len.is_null() || value.is_null() {
        return fail(Errno::EFAULT);
    }
    // SAFETY: by the contract of this function.
    unsafe { *len = write(value, *len as usize, bytes) as socklen_t };
    0
}

/// Elements of an array that the caller gives; none for a null pointer.
///
/// # Safety
/// `from` is null or points at `count` elements that only the callee uses during `'a`.
pub unsafe fn elements<'a, T>(from: *mut T, count: usize) -> &'a mut [T] {
    if from.is_null() {
        return &mut [];
    }
    // SAFETY: by the contract of this function.
    unsafe { core::slice::from_raw_parts_mut(from, count) }
}
