//! Memory of the caller: C pointers in, plain values out, and back.
//!
//! Each function says what its caller has to keep; packetdrill keeps it as any caller of the system
//! call would have to.

#![allow(unsafe_code)]

use crate::{decode, encode};
use datapath::socket::{Address, Buffer, Errno, Iov};
use libc::{c_int, c_void, iovec, msghdr, size_t, sockaddr, socklen_t};
use std::panic::{AssertUnwindSafe, catch_unwind};

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

/// A vector of buffers; `EINVAL` for an absurd number of them, and for a length that is negative to the kernel.
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
    let piece = |at| {
        // SAFETY: by the contract of this function.
        let it = unsafe { list.add(at).read_unaligned() };
        if isize::try_from(it.iov_len).is_err() {
            return Err(Errno::EINVAL);
        }
        Ok(buffer(it.iov_base, it.iov_len))
    };
    (0..count).map(piece).collect::<Result<_, _>>().map(Iov::Many)
}

/// The vector of a message, of which `sendmsg` and `recvmsg` say otherwise that it is too long.
///
/// # Safety
/// As of [`vector`].
pub unsafe fn vector_of(header: &msghdr) -> Result<Iov, Errno> {
    let count = length(header.msg_iovlen);
    if count > libc::UIO_MAXIOV as size_t {
        return Err(Errno::EMSGSIZE);
    }
    // SAFETY: a `msghdr` says how many pieces there are.
    unsafe { vector(header.msg_iov, count) }
}

/// An address that the caller gives; `EINVAL` for one that no `sockaddr_storage` holds
/// (`move_addr_to_kernel`).
///
/// # Safety
/// `address` is null or points at `len` bytes.
pub unsafe fn address(address: *const sockaddr, len: socklen_t) -> Result<Address, Errno> {
    if len as usize > LONGEST_ADDRESS {
        return Err(Errno::EINVAL);
    }
    if address.is_null() {
        return Ok(Address::Null);
    }
    // SAFETY: by the contract of this function; a `sockaddr` has no padding that is not bytes.
    Ok(decode::address(unsafe { core::slice::from_raw_parts(address.cast::<u8>(), len as usize) }))
}

/// `struct sockaddr_storage`.
const LONGEST_ADDRESS: usize = 128;

/// Writes an address where the caller wants it, as much of it as fits, and its whole length
/// (`move_addr_to_user`).
///
/// # Safety
/// `len` is null or points at a length; `to` is null or points at that many bytes.
pub unsafe fn write_address(
    to: *mut sockaddr,
    len: *mut socklen_t,
    address: Option<core::net::SocketAddr>,
) -> Result<(), Errno> {
    if len.is_null() {
        return Err(Errno::EFAULT);
    }
    let bytes = address.map(encode::address).unwrap_or_default();
    // SAFETY: by the contract of this function.
    unsafe {
        let room = len.read_unaligned();
        if room > i32::MAX as socklen_t {
            return Err(Errno::EINVAL);
        }
        write(to.cast(), room as usize, &bytes);
        len.write_unaligned(bytes.len() as socklen_t);
    }
    Ok(())
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

/// Bytes that the caller gives: `EFAULT` for a null pointer to some, `otherwise` for more than `most`.
///
/// # Safety
/// `from` is null or points at `len` bytes that stay as they are during `'a`.
pub unsafe fn bytes<'a>(
    from: *const c_void,
    len: usize,
    most: usize,
    otherwise: Errno,
) -> Result<&'a [u8], Errno> {
    if len > most {
        return Err(otherwise);
    }
    match (from.is_null(), len) {
        (_, 0) => Ok(&[]),
        (true, _) => Err(Errno::EFAULT),
        // SAFETY: by the contract of this function.
        _ => Ok(unsafe { core::slice::from_raw_parts(from.cast::<u8>(), len) }),
    }
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
    unsafe {
        let room = len.read_unaligned() as usize;
        len.write_unaligned(write(value, room, bytes) as socklen_t);
    }
    0
}

/// Elements of an array that the caller gives: `EFAULT` for a null pointer to some, `EINVAL` for more than a
/// process may have descriptors.
///
/// # Safety
/// `from` is null or points at `count` elements.
pub unsafe fn elements<T: Copy>(from: *const T, count: usize) -> Result<Vec<T>, Errno> {
    if count > MOST_DESCRIPTORS {
        return Err(Errno::EINVAL);
    }
    if from.is_null() && count > 0 {
        return Err(Errno::EFAULT);
    }
    // SAFETY: by the contract of this function.
    Ok((0..count).map(|at| unsafe { from.add(at).read_unaligned() }).collect())
}

/// `fs.nr_open` as it is by default.
const MOST_DESCRIPTORS: usize = 1 << 20;

/// Writes one element.
///
/// # Safety
/// `to` points at an array that has one at `at`.
pub unsafe fn write_at<T>(to: *mut T, at: usize, element: T) {
    // SAFETY: by the contract of this function.
    unsafe { to.add(at).write_unaligned(element) };
}

/// Does `act`, whose panic is a mistake of ours: it is told, and is an error. It must not unwind into C, which
/// would end the process.
pub fn guarded<T: From<i8>>(name: &str, act: impl FnOnce() -> T) -> T {
    catch_unwind(AssertUnwindSafe(act)).unwrap_or_else(|_| {
        eprintln!(
            "ackwright: {name}(): a mistake in ackwright, told above; what follows may be wrong"
        );
        fail(Errno::EIO)
    })
}
