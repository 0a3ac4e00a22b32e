//! System calls, each behind a small safe function: all `unsafe` of the project but for that of the
//! C interface lies in this folder.
//!
//! What is said of each block rests on this: a pointer that is passed to the kernel comes from a
//! reference that lives longer than the call, with the length of what it points to; structures of C
//! are plain numbers, for which any bits are a value.

#![allow(unsafe_code)]

mod address;
mod af_xdp;
mod batch;
mod bpf;
mod hardware;
mod interface;
pub mod netns;
pub mod process;
mod ring;
mod socket;

pub use address::{addresses, set_address, set_up};
pub use af_xdp::{
    XDP_LONGEST_MTU, XdpCopy, XdpMode, XdpProgram, XdpQueue, attach_xdp, watch_promiscuously,
};
pub use batch::{BATCH, FrameInfo, receive_batch, send_batch};
pub use bpf::{AttachedPrograms, detour, draw_curtain};
pub use hardware::{drop_privileges, hardware_address};
pub use interface::{InterfaceInfo, facts, facts_at, has_master, interface_name, set_mtu};
pub use ring::ReceiveRing;
pub use socket::{
    Frames, disconnect, keep_alive, open_packet_socket, open_tun, read_vectored, refuse_offloads,
    share_out, socket_drops, start_packet_socket,
};

use datapath::units::Instant;
use libc::{c_int, c_void};
use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::{AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd, RawFd};

/// The result of a system call.
pub(super) fn done(result: c_int) -> io::Result<c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// A new descriptor.
pub(super) fn owned(result: c_int) -> io::Result<OwnedFd> {
    let fd: RawFd = done(result)?;
    // SAFETY: the kernel has just given this descriptor to us, and nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Now, by the clock that never jumps (`CLOCK_MONOTONIC`).
pub fn now() -> Instant {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel writes one timespec to where one is.
    let result = unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    assert_eq!(result, 0, "there is a monotonic clock");
    Instant::from_nanos(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

/// Since 1970, in ns: for time stamps of captures.
pub fn wall_nanos() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| since.as_nanos() as u64)
}

/// Unpredictable random numbers: `getrandom(2)`.
pub fn random() -> io::Result<[u64; 2]> {
    let mut bytes = [0_u8; 16];
    let (to, len) = (bytes.as_mut_ptr().cast::<c_void>(), bytes.len());
    // SAFETY: the kernel writes at most `len` bytes to where there are as many.
    let got = unsafe { libc::getrandom(to, len, 0) };
    if got != len as isize {
        return Err(io::Error::last_os_error());
    }
    let number = u128::from_ne_bytes(bytes);
    Ok([number as u64, (number >> 64) as u64])
}

/// Sets a socket option to a plain C value.
pub(super) fn set_option<T: Copy>(
    socket: BorrowedFd<'_>,
    level: c_int,
    name: c_int,
    value: &T,
) -> io::Result<()> {
    let len = size_of::<T>() as libc::socklen_t;
    let from = std::ptr::from_ref(value).cast::<c_void>();
    // SAFETY: the kernel reads `len` bytes from a value of that size.
    done(unsafe { libc::setsockopt(socket.as_raw_fd(), level, name, from, len) }).map(drop)
}

/// What a socket has to say of itself that no call has told (`SO_ERROR`).
///
/// # Errors
/// That.
pub fn socket_error(socket: BorrowedFd<'_>) -> io::Result<()> {
    let mut error: c_int = 0;
    let mut len = size_of::<c_int>() as libc::socklen_t;
    let to = (&raw mut error).cast::<c_void>();
    let (level, name) = (libc::SOL_SOCKET, libc::SO_ERROR);
    // SAFETY: the kernel writes at most `len` bytes to a number of that size.
    done(unsafe { libc::getsockopt(socket.as_raw_fd(), level, name, to, &raw mut len) })?;
    if error == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(error)) }
}

/// What one waits for with: `epoll(7)`.
#[derive(Debug)]
pub struct Epoll {
    fd: OwnedFd,
    events: [libc::epoll_event; 16],
}

impl Epoll {
    /// Something came to read.
    pub const READ: u32 = libc::EPOLLIN as u32;
    /// There is room to write.
    pub const WRITE: u32 = libc::EPOLLOUT as u32;
    /// Something is wrong; told without being asked for.
    pub const ERROR: u32 = libc::EPOLLERR as u32;

    /// Waits for nothing yet.
    pub fn new() -> io::Result<Self> {
        // SAFETY: the call takes no pointer.
        let fd = owned(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) })?;
        Ok(Self { fd, events: [libc::epoll_event { events: 0, u64: 0 }; 16] })
    }

    /// To wait for it as a part of others: readable when something that it waits for is.
    pub fn fd(&self) -> BorrowedFd<'_> {
        std::os::fd::AsFd::as_fd(&self.fd)
    }

    /// Waits for `events` of `fd` as well, which go by `token`.
    pub fn add(&self, fd: BorrowedFd<'_>, token: u64, events: u32) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_ADD, fd, token, events)
    }

    /// Waits for other events of `fd`.
    pub fn change(&self, fd: BorrowedFd<'_>, token: u64, events: u32) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_MOD, fd, token, events)
    }

    /// Waits for nothing of `fd` any more.
    pub fn remove(&self, fd: BorrowedFd<'_>) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_DEL, fd, 0, 0)
    }

    fn control(&self, op: c_int, fd: BorrowedFd<'_>, token: u64, events: u32) -> io::Result<()> {
        let mut event = libc::epoll_event { events, u64: token };
        let (epoll, fd) = (self.fd.as_raw_fd(), fd.as_raw_fd());
        // SAFETY: the kernel reads one event from where one is.
        done(unsafe { libc::epoll_ctl(epoll, op, fd, &raw mut event) }).map(drop)
    }

    /// What has happened, as (token, events); waits for it unless `poll` says only to look.
    pub fn wait(&mut self, poll: bool) -> io::Result<impl Iterator<Item = (u64, u32)>> {
        let timeout = if poll { 0 } else { -1 };
        let (room, len) = (self.events.as_mut_ptr(), self.events.len() as c_int);
        // SAFETY: the kernel writes at most `len` events to where there is room for as many.
        let found = unsafe { libc::epoll_wait(self.fd.as_raw_fd(), room, len, timeout) };
        let found = match done(found) {
            Ok(found) => found as usize,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => 0,
            Err(error) => return Err(error),
        };
        Ok(self.events[..found].iter().map(|event| (event.u64, event.events)))
    }
}

/// A clock that wakes: `timerfd(2)`.
#[derive(Debug)]
pub struct Timer {
    file: File,
    set_to: Instant,
}

impl Timer {
    /// Not set.
    pub fn new() -> io::Result<Self> {
        let flags = libc::TFD_NONBLOCK | libc::TFD_CLOEXEC;
        // SAFETY: the call takes no pointer.
        let fd = owned(unsafe { libc::timerfd_create(libc::CLOCK_MONOTONIC, flags) })?;
        Ok(Self { file: fd.into(), set_to: Instant::FAR_FUTURE })
    }

    /// To wait for it.
    pub fn fd(&self) -> BorrowedFd<'_> {
        std::os::fd::AsFd::as_fd(&self.file)
    }

    /// Wakes at this time, once, and at no other; never at `FAR_FUTURE`.
    pub fn set(&mut self, at: Instant) -> io::Result<()> {
        if at == self.set_to {
            return Ok(());
        }
        let nanos = if at == Instant::FAR_FUTURE { 0 } else { at.as_nanos().max(1) };
        let none = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        let value = libc::timespec {
            tv_sec: (nanos / 1_000_000_000) as _,
            tv_nsec: (nanos % 1_000_000_000) as libc::c_long,
        };
        let wanted = libc::itimerspec { it_interval: none, it_value: value };
        let (fd, flags) = (self.file.as_raw_fd(), libc::TFD_TIMER_ABSTIME);
        // SAFETY: the kernel reads one itimerspec from where one is, and writes no old one.
        done(unsafe { libc::timerfd_settime(fd, flags, &raw const wanted, std::ptr::null_mut()) })?;
        self.set_to = at;
        Ok(())
    }

    /// It has woken.
    pub fn clear(&mut self) {
        self.set_to = Instant::ZERO;
        let _nothing_to_read = self.file.read(&mut [0; 8]);
    }
}

/// Waits of this thread end on time, not up to 50 µs later (`PR_SET_TIMERSLACK`).
pub fn wake_on_time() {
    // SAFETY: this option takes a number and no pointer. Without it waits end later, no more.
    let _ = unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1) };
}
