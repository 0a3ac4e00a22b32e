//! Many frames by one system call: `recvmmsg(2)`, `sendmmsg(2)`.

use super::done;
use libc::{c_void, iovec, mmsghdr};
use std::io;
use std::mem::zeroed;
use std::os::fd::{AsRawFd as _, BorrowedFd};

/// So many frames go by one call at most.
pub const BATCH: usize = 64;

/// Room for one control message, aligned as one must be: `tpacket_auxdata` takes 40 bytes.
type Control = [u64; 8];

/// Of a frame that has landed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FrameInfo {
    /// Bytes of it, the header before it included.
    pub len: usize,
    /// It was longer than its places.
    pub truncated: bool,
    /// The VLAN tag that the kernel or the device has taken out: TPID and TCI.
    pub vlan: Option<(u16, u16)>,
}

/// Receives as many frames as have arrived, at most as many as there are `places`: each is filled
/// from the first part to the last. What is known of them is appended to `landed`.
///
/// # Errors
/// `EAGAIN` if there is none.
pub fn receive_batch<'a>(
    socket: BorrowedFd<'_>,
    places: impl Iterator<Item = [&'a mut [u8]; 3]>,
    landed: &mut Vec<FrameInfo>,
) -> io::Result<()> {
    // SAFETY: messages and vectors are numbers and pointers, for which zero is a value.
    let (mut vectors, mut messages): ([[iovec; 3]; BATCH], [mmsghdr; BATCH]) =
        unsafe { (zeroed(), zeroed()) };
    let mut controls: [Control; BATCH] = [[0; 8]; BATCH];
    let mut count = 0;
    for (place, (vector, (message, control))) in
        places.zip(vectors.iter_mut().zip(messages.iter_mut().zip(&mut controls)))
    {
        *vector = place.map(|part| iovec {
            iov_base: part.as_mut_ptr().cast::<c_void>(),
            iov_len: part.len(),
        });
        message.msg_hdr.msg_iov = vector.as_mut_ptr();
        message.msg_hdr.msg_iovlen = vector.len() as _;
        message.msg_hdr.msg_control = control.as_mut_ptr().cast::<c_void>();
        message.msg_hdr.msg_controllen = size_of::<Control>() as _;
        count += 1;
    }
    // SAFETY: the kernel fills at most `count` messages. Their vectors, and the places of those, which
    // are borrowed for `'a`, and the room for control messages live until after the call; all have
    // the lengths that are told.
    let got = unsafe {
        // Signed or not, as the C library has it.
        let (flags, none) = (libc::MSG_DONTWAIT as _, std::ptr::null_mut());
        libc::recvmmsg(socket.as_raw_fd(), messages.as_mut_ptr(), count, flags, none)
    };
    let got = done(got)? as usize;
    landed.extend(messages[..got].iter().map(|message| FrameInfo {
        len: message.msg_len as usize,
        truncated: message.msg_hdr.msg_flags & libc::MSG_TRUNC != 0,
        vlan: vlan_of(&message.msg_hdr),
    }));
    Ok(())
}

/// The tag in the auxiliary data of a message that was received.
fn vlan_of(message: &libc::msghdr) -> Option<(u16, u16)> {
    // SAFETY: the kernel has written control messages to `msg_control` and their length beside, and
    // that room still lives. A message of this type holds a tpacket_auxdata, aligned or not.
    let aux = unsafe {
        let first = libc::CMSG_FIRSTHDR(message);
        let header = first.as_ref()?;
        if (header.cmsg_level, header.cmsg_type) != (libc::SOL_PACKET, libc::PACKET_AUXDATA) {
            return None;
        }
        libc::CMSG_DATA(first).cast::<libc::tpacket_auxdata>().read_unaligned()
    };
    let valid = |bit| aux.tp_status & bit != 0;
    let tpid = if valid(libc::TP_STATUS_VLAN_TPID_VALID) { aux.tp_vlan_tpid } else { 0x8100 };
    valid(libc::TP_STATUS_VLAN_VALID).then_some((tpid, aux.tp_vlan_tci))
}

/// Sends frames, each in two parts, as many of the first as the device takes.
///
/// # Errors
/// What is wrong with the first of them.
pub fn send_batch<'a>(
    socket: BorrowedFd<'_>,
    frames: impl Iterator<Item = [&'a [u8]; 2]>,
) -> io::Result<usize> {
    // SAFETY: messages and vectors are numbers and pointers, for which zero is a value.
    let (mut vectors, mut messages): ([[iovec; 2]; BATCH], [mmsghdr; BATCH]) =
        unsafe { (zeroed(), zeroed()) };
    let mut count = 0;
    for (frame, (vector, message)) in frames.zip(vectors.iter_mut().zip(&mut messages)) {
        *vector = frame
            .map(|part| iovec { iov_base: part.as_ptr().cast_mut().cast(), iov_len: part.len() });
        message.msg_hdr.msg_iov = vector.as_mut_ptr();
        message.msg_hdr.msg_iovlen = vector.len() as _;
        count += 1;
    }
    // SAFETY: the kernel reads `count` messages and writes their `msg_len`; it only reads what the
    // vectors point to, which is borrowed for `'a` and has the lengths that are told.
    let sent = unsafe {
        libc::sendmmsg(socket.as_raw_fd(), messages.as_mut_ptr(), count, libc::MSG_DONTWAIT as _)
    };
    Ok(done(sent)? as usize)
}
