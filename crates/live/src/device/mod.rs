//! Devices: where frames come from and go to.
//!
//! A device hands in packets that lie in frames of a pool, and takes packets into a short queue of its
//! own, its ring: how much room that has is what the datapath counts as credit.

mod arrival;
mod file;
mod outbox;
mod packet;
mod tun;
mod vnet;
mod xdp;

pub use arrival::Pools;
pub use file::CaptureFile;
pub use outbox::RING;
pub use packet::{MOST_SHARING, PacketSocket};
pub use tun::{MOST_QUEUES, Tun};
pub use xdp::{XdpDevice, XdpOptions};

use core::ops::AddAssign;
use datapath::packet::Packet;
use datapath::units::Instant;
use std::io;
use std::os::fd::BorrowedFd;

/// A device of any kind.
#[derive(Debug)]
pub enum Device {
    /// A network interface, by a packet socket.
    Packet(PacketSocket),
    /// A network interface, by AF_XDP.
    Xdp(Box<XdpDevice>),
    /// A TUN or TAP device of our own.
    Tun(Tun),
    /// Capture files: what is in one comes, what is sent goes to the other.
    File(Box<CaptureFile>),
}

/// What happened to frames that were in a device's ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct FlushResult {
    /// They have left.
    pub sent: u32,
    /// The device took them out and will never send them: of a length or a kind that it refuses.
    pub refused: u32,
    /// Why the rest is still there.
    pub blocked: Option<Blocked>,
}

/// Why a device takes no more for now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blocked {
    /// What it has in hand has to leave first; it becomes writable then.
    Full,
    /// Its own queue is full, and no event will say when there is room.
    Busy,
}

/// Received frames that do not become packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct RejectedFrames {
    /// Too long for any frame, of a kind that the kernel cannot hand over, or without a whole header.
    pub unreadable: u64,
    /// No frame of the pool was free.
    pub no_buffer: u64,
    /// The socket's receive buffer was full: we did not read in time.
    pub missed: u64,
    /// Copied once more, because they did not fit into one small frame.
    pub copied: u64,
}

impl AddAssign for RejectedFrames {
    fn add_assign(&mut self, other: Self) {
        self.unreadable += other.unreadable;
        self.no_buffer += other.no_buffer;
        self.missed += other.missed;
        self.copied += other.copied;
    }
}

macro_rules! each {
    ($any:expr, $device:ident => $call:expr) => {
        match $any {
            Device::Packet($device) => $call,
            Device::Xdp($device) => $call,
            Device::Tun($device) => $call,
            Device::File($device) => $call,
        }
    };
}

impl Device {
    /// What it is called.
    pub fn name(&self) -> &str {
        each!(self, device => device.name())
    }

    /// The index by which the kernel knows the interface that was there when this was opened; `None` of a device of our own.
    pub fn index(&self) -> Option<i32> {
        match self {
            Self::Packet(socket) => Some(socket.index()),
            Self::Xdp(device) => Some(device.index()),
            Self::Tun(device) => Some(device.index()),
            Self::File(_) => None,
        }
    }

    /// Largest network-layer packet in bytes.
    pub fn mtu(&self) -> u32 {
        each!(self, device => device.mtu())
    }

    /// Whether its frames begin with an Ethernet header.
    pub fn is_ethernet(&self) -> bool {
        each!(self, device => device.is_ethernet())
    }

    /// To wait for it; a file needs no waiting.
    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Self::Packet(device) => Some(device.fd()),
            Self::Xdp(device) => Some(device.fd()),
            Self::Tun(device) => Some(device.fd()),
            Self::File(_) => None,
        }
    }

    /// To be told by it, of errors only, when the device is gone; others tell by [`fd`](Self::fd).
    pub fn watch(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Self::Xdp(device) => Some(device.watch()),
            Self::Packet(_) | Self::Tun(_) | Self::File(_) => None,
        }
    }

    /// Appends packets that have come by `now` to `packets`, a ring's worth at most.
    ///
    /// # Errors
    /// The device is gone or down.
    pub fn receive(
        &mut self,
        now: Instant,
        pools: &mut Pools,
        packets: &mut Vec<Packet>,
    ) -> io::Result<()> {
        match self {
            Self::Packet(device) => device.receive(pools, packets),
            Self::Xdp(device) => {
                device.receive(pools, packets);
                Ok(())
            }
            Self::Tun(device) => device.receive(pools, packets),
            Self::File(device) => device.receive(now, pools, packets),
        }
    }

    /// The pending error of the device, to be fetched when the poller reports one. It is fetched
    /// even if nothing is read any more: a pending error is reported again and again, and the loop
    /// would never sleep.
    ///
    /// # Errors
    /// The device is gone or down.
    pub fn error(&self) -> io::Result<()> {
        match self {
            Self::Packet(device) => device.error(),
            Self::Xdp(device) => device.error(),
            Self::Tun(device) => device.error(),
            Self::File(_) => Ok(()),
        }
    }

    /// When a packet will arrive that no event announces; `None` if that is not known.
    pub fn next_arrival(&self) -> Option<Instant> {
        match self {
            Self::File(device) => device.next_arrival(),
            Self::Packet(_) | Self::Xdp(_) | Self::Tun(_) => None,
        }
    }

    /// Whether this file is one that it reads or writes.
    pub fn has_open(&self, file: &std::fs::Metadata) -> bool {
        matches!(self, Self::File(device) if device.is_one_of(file))
    }

    /// Nothing will ever come again.
    pub fn has_ended(&self) -> bool {
        matches!(self, Self::File(device) if device.next_arrival().is_none())
    }

    /// Puts a packet into the device's ring, which has [`RING`] places.
    ///
    /// # Panics
    /// If the ring is full: a packet without credit.
    pub fn push(&mut self, packet: &Packet) {
        each!(self, device => device.push(packet));
    }

    /// Segments that leave together by a device of the kernel's stack are joined from now on, up to so many bytes
    /// with the network header; 0 is not at all. Only TUN and TAP join.
    pub fn join_up_to(&mut self, longest: u32) {
        if let Self::Tun(device) = self {
            device.join_up_to(longest);
        }
    }

    /// How many frames its ring holds.
    pub fn ring_len(&self) -> usize {
        each!(self, device => device.ring_len())
    }

    /// Sends what is in the ring, as much as goes.
    ///
    /// # Errors
    /// The device is gone or down.
    pub fn flush(&mut self) -> io::Result<FlushResult> {
        each!(self, device => device.flush())
    }

    /// Throws away what is in the ring, as an interface that is down does.
    pub fn discard(&mut self) -> FlushResult {
        let refused = self.ring_len();
        each!(self, device => device.discard());
        FlushResult { refused: refused as u32, ..FlushResult::default() }
    }

    /// What came and was lost so far.
    pub fn rejected(&mut self) -> RejectedFrames {
        each!(self, device => device.rejected())
    }
}
