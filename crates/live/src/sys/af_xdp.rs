//! AF_XDP: a socket for one queue of an interface, with memory and rings that it shares with the kernel
//! (crate `xdp`), and the program that gives it the frames.

use super::bpf::{self, Instruction};
use super::owned;
use super::socket::{become_promiscuous, bind_to};
use std::fmt;
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};
use xdp::nic::NicIndex;
use xdp::slab::{HeapSlab, Slab as _};
use xdp::socket::{SocketError, XdpSocket, XdpSocketBuilder};
use xdp::umem::{FrameSize, Umem, UmemCfgBuilder};
use xdp::{RingConfigBuilder, Rings};

/// Where the program runs (`XDP_FLAGS_DRV_MODE`, `XDP_FLAGS_SKB_MODE`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum XdpMode {
    /// In the driver, before there is an skb.
    Native,
    /// In the kernel's stack, which every driver can.
    Generic,
}

/// Whether frames are copied between the device and our memory (`XDP_COPY`, `XDP_ZEROCOPY`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum XdpCopy {
    /// Not if the driver can do without.
    Auto,
    /// They are.
    Copy,
    /// They are not, or the socket is refused.
    ZeroCopy,
}

/// Frames that the kernel may fill, and places in the ring in which it hands them over.
const RECEIVE_FRAMES: u32 = 2_048;
/// Places in the rings of frames to be sent, and those that were.
const SEND_FRAMES: u32 = 256;
/// A frame of 4 KiB without the kernel's headroom and the room for two tags.
pub const XDP_LONGEST_MTU: u32 = 4_096 - XDP_HEADROOM - 14 - 8;
const XDP_HEADROOM: u32 = 256;
/// `sendto` takes 32 frames at a time (`TX_BATCH_SIZE`), and says `EAGAIN` if there are more.
const KICKS: usize = 16;

/// The socket of one queue.
///
/// Fields are dropped in their order: the socket and the rings before the memory that they point to.
pub struct XdpQueue {
    socket: XdpSocket,
    rings: Rings,
    /// Frames that have come and are being read; empty between calls.
    arrived: HeapSlab,
    /// Frames that are filled and wait for [`flush`](Self::flush).
    ready: HeapSlab,
    umem: Umem,
    /// Frames that the kernel has to send and has not given back.
    in_flight: usize,
    /// Frames that the kernel is to get to fill, once it has published that there is room.
    owed: usize,
}

// SAFETY: raw pointers are only those of `ready` and `arrived` into `umem`, which moves with them and whose
// memory stays where it is; nobody else has any.
unsafe impl Send for XdpQueue {}

impl fmt::Debug for XdpQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AF_XDP socket {}, {} frames in flight", self.socket.raw_fd(), self.in_flight)
    }
}

impl XdpQueue {
    /// Binds a socket to a queue of the interface with this index, whose frames have `longest` bytes at most.
    ///
    /// # Errors
    /// `EINVAL` if there is no such queue; `EBUSY` if another socket has it; `EPERM` without `CAP_NET_RAW`;
    /// `EOPNOTSUPP` if the driver cannot do without copies.
    pub fn open(index: i32, queue: u32, longest: u32, copy: XdpCopy) -> io::Result<Self> {
        let small = longest + XDP_HEADROOM <= 2_048;
        let umem = UmemCfgBuilder {
            frame_size: if small { FrameSize::TwoK } else { FrameSize::FourK },
            frame_count: RECEIVE_FRAMES + 2 * SEND_FRAMES,
            ..UmemCfgBuilder::default()
        };
        let umem = umem.build().map_err(|error| io::Error::other(error.to_string()))?;
        let umem = Umem::map(umem)?;
        let mut builder = XdpSocketBuilder::new().map_err(inner)?;
        let places = RingConfigBuilder {
            rx_count: RECEIVE_FRAMES,
            fill_count: RECEIVE_FRAMES,
            tx_count: SEND_FRAMES,
            completion_count: SEND_FRAMES,
        };
        let places = places.build().map_err(|error| io::Error::other(error.to_string()))?;
        let (rings, mut flags) = builder.build_rings(&umem, places).map_err(inner)?;
        match copy {
            XdpCopy::Auto => {}
            XdpCopy::Copy => flags.force_copy(),
            XdpCopy::ZeroCopy => flags.force_zerocopy(),
        }
        let socket = builder.bind(NicIndex::new(index as u32), queue, flags).map_err(inner)?;
        let mut queue = Self {
            socket,
            rings,
            arrived: HeapSlab::with_capacity(super::BATCH),
            ready: HeapSlab::with_capacity(super::BATCH),
            umem,
            in_flight: 0,
            owed: 0,
        };
        queue.fill(RECEIVE_FRAMES as usize);
        Ok(queue)
    }

    /// To wait for it.
    pub fn fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the socket lives as long as `self` is borrowed.
        unsafe { BorrowedFd::borrow_raw(self.socket.raw_fd()) }
    }

    /// Whether frames go without copies (`XDP_OPTIONS`).
    pub fn is_zero_copy(&self) -> bool {
        const XDP_OPTIONS: libc::c_int = 8;
        const XDP_OPTIONS_ZEROCOPY: u32 = 1;
        let mut options = 0_u32;
        let mut len = size_of::<u32>() as libc::socklen_t;
        let to = (&raw mut options).cast::<libc::c_void>();
        // SAFETY: the kernel writes at most `len` bytes to a number of that size.
        let got = unsafe {
            libc::getsockopt(self.socket.raw_fd(), libc::SOL_XDP, XDP_OPTIONS, to, &raw mut len)
        };
        got == 0 && options & XDP_OPTIONS_ZEROCOPY != 0
    }

    /// Hands over what has come, a batch at most: each frame as (bytes, whether it is whole). How many.
    pub fn receive(&mut self, mut take: impl FnMut(&[u8], bool)) -> usize {
        let Some(ring) = &mut self.rings.rx_ring else { return 0 };
        // SAFETY: the frames go back to the memory below, which outlives them.
        let count = unsafe { ring.recv(&self.umem, &mut self.arrived) };
        while let Some(frame) = self.arrived.pop_back() {
            take(&frame, !frame.is_continued());
            self.umem.free_packet(frame);
        }
        self.fill(count);
        count
    }

    /// Gives the kernel so many frames to fill; those for sending are kept.
    fn fill(&mut self, count: usize) {
        self.owed += count;
        // SAFETY: the memory outlives the socket, which is dropped before it.
        self.owed -= unsafe { self.rings.fill_ring.enqueue(&mut self.umem, self.owed) };
    }

    /// Makes a frame ready to be sent; false if it is too long, or there is no room.
    pub fn push(&mut self, bytes: &[u8]) -> bool {
        if self.ready.available() == 0 {
            return false;
        }
        // SAFETY: the frame goes to `ready`, or back, and so is not used after the memory is gone.
        let Some(mut frame) = (unsafe { self.umem.alloc() }) else { return false };
        if frame.append(bytes).is_err() {
            self.umem.free_packet(frame);
            return false;
        }
        self.ready.push_front(frame).is_none()
    }

    /// Hands what is ready to the kernel and has it sent; how many frames have left since the last time.
    ///
    /// # Errors
    /// The interface is down or gone.
    pub fn flush(&mut self) -> io::Result<usize> {
        if let Some(ring) = &mut self.rings.tx_ring {
            // SAFETY: the memory outlives the socket.
            self.in_flight += unsafe { ring.send(&mut self.ready) };
        }
        let mut left = self.completed();
        for _ in 0..KICKS {
            if self.in_flight == 0 || !self.kick()? {
                break;
            }
            left += self.completed();
        }
        Ok(left + self.completed())
    }

    /// Asks the kernel to send what is in the ring; true if it wants to be asked again.
    fn kick(&self) -> io::Result<bool> {
        let fd = self.socket.raw_fd();
        let none = std::ptr::null();
        // SAFETY: nothing is read: the length is 0.
        let sent = unsafe { libc::sendto(fd, none, 0, libc::MSG_DONTWAIT, std::ptr::null(), 0) };
        match if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) } {
            Ok(()) => Ok(false),
            Err(error) => match error.raw_os_error() {
                Some(libc::EAGAIN) => Ok(true),
                // Its queue is full, or there is no memory: tried again later.
                Some(libc::EBUSY | libc::ENOBUFS | libc::EINTR) => Ok(false),
                _ => Err(error),
            },
        }
    }

    fn completed(&mut self) -> usize {
        let back = self.rings.completion_ring.dequeue(&mut self.umem, self.in_flight);
        self.in_flight -= back;
        back
    }

    /// Throws away what is ready and not yet the kernel's; how many frames.
    pub fn discard(&mut self) -> usize {
        let count = self.ready.len();
        while let Some(frame) = self.ready.pop_back() {
            self.umem.free_packet(frame);
        }
        count
    }

    /// Frames that are ready.
    pub fn ready(&self) -> usize {
        self.ready.len()
    }

    /// Frames that the kernel has to send.
    pub fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// Frames that came and found no frame to lie in, or no place in the ring (`XDP_STATISTICS`).
    pub fn missed_frames(&self) -> u64 {
        self.socket.statistics().map_or(0, |them| them.rx_dropped + them.rx_ring_full)
    }
}

fn inner(error: SocketError) -> io::Error {
    match error {
        SocketError::SocketCreation(error) | SocketError::Bind(error) => error,
        SocketError::SetSockOpt { inner, .. }
        | SocketError::GetSockOpt { inner, .. }
        | SocketError::RingMap { inner, .. } => inner,
    }
}

/// The program that gives the frames of an interface's queues to sockets. It goes with the process.
#[derive(Debug)]
pub struct XdpProgram {
    _link: OwnedFd,
    _map: OwnedFd,
}

/// Attaches the program to the interface with this index: what comes by queue `n` goes to `queues[n]`.
///
/// # Errors
/// `EPERM` without `CAP_BPF` and `CAP_NET_ADMIN`; `EBUSY` if the interface has a program; `EOPNOTSUPP` or `EINVAL`
/// if the driver has no XDP of this mode.
pub fn attach_xdp(index: i32, mode: XdpMode, queues: &[XdpQueue]) -> io::Result<XdpProgram> {
    const XDP_FLAGS_SKB_MODE: u32 = 1 << 1;
    const XDP_FLAGS_DRV_MODE: u32 = 1 << 2;
    const XDP_PASS: i32 = 2;
    const BPF_FUNC_REDIRECT_MAP: i32 = 51;
    const BPF_PSEUDO_MAP_FD: u8 = 1 << 4;
    let map = bpf::make_xsk_map(queues.len() as u32)?;
    for (queue, socket) in (0..).zip(queues) {
        bpf::set_element(&map, queue, socket.fd().as_raw_fd() as u32)?;
    }
    // return bpf_redirect_map(&map, ctx->rx_queue_index, XDP_PASS);
    let program = [
        Instruction(0x61, 0x12, 16, 0),
        Instruction(0x18, BPF_PSEUDO_MAP_FD | 1, 0, map.as_raw_fd()),
        Instruction(0, 0, 0, 0),
        Instruction(0xb7, 3, 0, XDP_PASS),
        Instruction(0x85, 0, 0, BPF_FUNC_REDIRECT_MAP),
        Instruction(0x95, 0, 0, 0),
    ];
    let flags = match mode {
        XdpMode::Native => XDP_FLAGS_DRV_MODE,
        XdpMode::Generic => XDP_FLAGS_SKB_MODE,
    };
    Ok(XdpProgram { _link: bpf::attach_xdp(&program, index, flags)?, _map: map })
}

/// Has the interface with this index take in frames for others too, for as long as the socket is held; the
/// socket tells of an error when the interface goes down or away, which one of AF_XDP does not (`xsk_poll`).
///
/// # Errors
/// `EPERM` without `CAP_NET_RAW`.
pub fn watch_promiscuously(index: i32) -> io::Result<OwnedFd> {
    // Of an unused protocol (IEEE 802, local experimental 2), so that nothing is received.
    const NOBODYS: u16 = 0x88b6;
    let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: the call takes no pointer. Protocol 0: nothing is received before it is bound.
    let socket = owned(unsafe { libc::socket(libc::AF_PACKET, kind, 0) })?;
    become_promiscuous(socket.as_fd(), index)?;
    bind_to(socket.as_fd(), index, NOBODYS)?;
    Ok(socket)
}
