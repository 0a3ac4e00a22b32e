//! A network interface by AF_XDP: one socket for each of its queues, all of one loop.
//!
//! What arrives does not come to the kernel's own stack. Frames are copied out of the memory that is shared with
//! the kernel, because they wait in queues for longer than it has frames, and into it when they leave.

use super::arrival::{HEADROOM, Pools, parse};
use super::outbox::RING;
use super::vnet::{self, VNET_LEN, Vnet};
use super::{Blocked, FlushResult, RejectedFrames};
use crate::sys::{self, Epoll, InterfaceInfo, XdpCopy, XdpMode, XdpProgram, XdpQueue};
use datapath::packet::Packet;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

/// So long a queue may be busy with what is left of an earlier socket.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(1);

/// How an interface is to be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct XdpOptions {
    /// Where the program runs; `None` is native, or generic where the driver has no XDP.
    pub mode: Option<XdpMode>,
    /// Whether frames are copied.
    pub copy: XdpCopy,
}

/// The sockets of an interface, and the program that feeds them.
#[derive(Debug)]
pub struct XdpDevice {
    name: String,
    facts: InterfaceInfo,
    /// First, so that it goes before the sockets do.
    _program: XdpProgram,
    /// Tells when the interface goes.
    watch: OwnedFd,
    queues: Vec<XdpQueue>,
    /// Waits for all queues if there are several.
    poller: Option<Epoll>,
    mode: XdpMode,
    bytes: Vec<u8>,
    /// Frames of the ring that are lost already and may still be given back.
    written_off: usize,
    /// Places of the ring that are taken by frames too long for the shared memory.
    refused: usize,
    lost: RejectedFrames,
}

impl XdpDevice {
    /// Opens the interface `name`, of which `facts` are known.
    ///
    /// # Errors
    /// What `bind(2)` of a socket or `bpf(2)` says.
    pub fn open(name: &str, facts: InterfaceInfo, options: XdpOptions) -> io::Result<Self> {
        let longest = facts.mtu + 14 + 8;
        let mut queues = Vec::new();
        let began = std::time::Instant::now();
        loop {
            match XdpQueue::open(facts.index, queues.len() as u32, longest, options.copy) {
                Ok(queue) => queues.push(queue),
                // A socket that was closed gives its queue back a little later (`xp_release_deferred`).
                Err(error)
                    if error.raw_os_error() == Some(libc::EBUSY) && began.elapsed() < PATIENCE =>
                {
                    std::thread::sleep(PATIENCE / 50);
                }
                // There is no such queue: all are open.
                Err(error) if error.raw_os_error() == Some(libc::EINVAL) && !queues.is_empty() => {
                    break;
                }
                Err(error) => return Err(error),
            }
        }
        let modes: &[XdpMode] = match options.mode {
            Some(XdpMode::Native) => &[XdpMode::Native],
            Some(XdpMode::Generic) => &[XdpMode::Generic],
            None => &[XdpMode::Native, XdpMode::Generic],
        };
        let mut attached = Err(io::Error::from_raw_os_error(libc::EOPNOTSUPP));
        for mode in modes {
            attached = sys::attach_xdp(facts.index, *mode, &queues).map(|program| (program, *mode));
            let refused = attached.as_ref().err().and_then(io::Error::raw_os_error);
            if !matches!(refused, Some(libc::EOPNOTSUPP | libc::EINVAL | libc::ERANGE)) {
                break;
            }
        }
        let (program, mode) = attached?;
        let mut device = Self {
            name: name.to_owned(),
            facts,
            _program: program,
            watch: sys::watch_promiscuously(facts.index)?,
            queues,
            poller: None,
            mode,
            bytes: Vec::new(),
            written_off: 0,
            refused: 0,
            lost: RejectedFrames::default(),
        };
        if device.queues.len() > 1 {
            let poller = Epoll::new()?;
            for (token, queue) in (0..).zip(&device.queues) {
                poller.add(queue.fd(), token, Epoll::READ)?;
            }
            device.poller = Some(poller);
        }
        Ok(device)
    }

    /// What it is in one line: mode, copies, queues.
    pub fn describe(&self) -> String {
        let mode = match self.mode {
            XdpMode::Native => "native",
            XdpMode::Generic => "generic",
        };
        let copy = if self.queues[0].is_zero_copy() { "zero-copy" } else { "copy" };
        let queues = self.queues.len();
        format!(
            "{}: AF_XDP {mode}, {copy}, {queues} queue{}",
            self.name,
            if queues == 1 { "" } else { "s" }
        )
    }

    pub(super) fn index(&self) -> i32 {
        self.facts.index
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn mtu(&self) -> u32 {
        self.facts.mtu
    }

    #[expect(clippy::unused_self, reason = "each device says; others are refused")]
    pub(super) fn is_ethernet(&self) -> bool {
        true
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.poller.as_ref().map_or_else(|| self.queues[0].fd(), Epoll::fd)
    }

    pub(super) fn push(&mut self, packet: &Packet) {
        assert!(self.ring_len() < RING, "a packet was sent to a device that has no room");
        self.bytes.clear();
        vnet::write(packet, true, &mut self.bytes);
        if !self.queues[0].push(&self.bytes[VNET_LEN..]) {
            // Longer than a frame of the shared memory: told when the ring is emptied.
            self.refused += 1;
        }
    }

    pub(super) fn ring_len(&self) -> usize {
        let queue = &self.queues[0];
        let held = queue.ready() + queue.in_flight() + self.refused;
        held.saturating_sub(self.written_off)
    }

    pub(super) fn discard(&mut self) {
        self.queues[0].discard();
        self.refused = 0;
        self.written_off = self.queues[0].in_flight();
    }

    pub(super) fn rejected(&mut self) -> RejectedFrames {
        self.lost.missed = self.queues.iter().map(XdpQueue::missed_frames).sum();
        self.lost
    }

    pub(super) fn receive(&mut self, pools: &mut Pools, packets: &mut Vec<Packet>) {
        let lost = &mut self.lost;
        let mut take = |bytes: &[u8], whole: bool| {
            if !whole {
                lost.unreadable += 1;
                return;
            }
            let Some(mut frame) = pools
                .small
                .take()
                .filter(|_| bytes.len() + HEADROOM <= pools.small.frame_len() as usize)
            else {
                lost.no_buffer += 1;
                return;
            };
            frame.memory()[HEADROOM..][..bytes.len()].copy_from_slice(bytes);
            let frame = pools.small.share(frame, HEADROOM + bytes.len());
            match parse(&frame, HEADROOM, Vnet::default(), true) {
                Ok(packet) => packets.push(packet),
                Err(_) => lost.unreadable += 1,
            }
        };
        for queue in &mut self.queues {
            queue.receive(&mut take);
        }
    }

    pub(super) fn watch(&self) -> BorrowedFd<'_> {
        self.watch.as_fd()
    }

    pub(super) fn error(&self) -> io::Result<()> {
        sys::socket_error(self.watch.as_fd())
    }

    pub(super) fn flush(&mut self) -> io::Result<FlushResult> {
        let refused = std::mem::take(&mut self.refused) as u32;
        let left = self.queues[0].flush()?;
        let late = left.min(self.written_off);
        self.written_off -= late;
        let blocked = (self.ring_len() > 0).then_some(Blocked::Busy);
        Ok(FlushResult { sent: (left - late) as u32, refused, blocked })
    }
}
