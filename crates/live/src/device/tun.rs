//! A TUN or TAP device of our own: the kernel's end of a wire whose other end is this program. It goes
//! away with us, unless it was there before.
//!
//! With several queues each flow has one, both ways: the kernel sends it by the queue that we last wrote it to
//! (`tun_flow_update`), so its order is kept.

use super::arrival::{HEADROOM, LONGEST, Pools, parse};
use super::outbox::{Outbox, RING};
use super::vnet::{VNET_LEN, Vnet, VnetBytes};
use super::{Blocked, FlushResult, RejectedFrames};
use crate::sys::{self, Epoll};
use datapath::packet::{FrameMut, Packet};
use std::fs::File;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::{self, IoSlice, IoSliceMut, Write as _};
use std::os::fd::{AsFd as _, BorrowedFd};

/// An open device.
#[derive(Debug)]
pub struct Tun {
    name: String,
    index: i32,
    mtu: u32,
    tap: bool,
    queues: Vec<Queue>,
    /// Waits for all queues if there are several.
    poller: Option<Epoll>,
    /// Where the next frame lands.
    slot: Option<FrameMut>,
    /// Where the end of a super-packet lands.
    end: Vec<u8>,
    lost: RejectedFrames,
}

/// A queue of the device.
#[derive(Debug)]
struct Queue {
    file: File,
    outbox: Outbox,
}

/// More queues the kernel does not give (`MAX_TAP_QUEUES`).
pub const MOST_QUEUES: u32 = 256;

/// What the kernel takes for a name (`dev_valid_name`), and is one: of `%d` it would make a number.
fn check_name(name: &str) -> io::Result<()> {
    let wrong = |c: char| c.is_whitespace() || matches!(c, '/' | ':' | '%' | '\0');
    let why = "the name of a device has 1 to 15 bytes, no space, '/', ':', '%' or zero byte, and no '.' in front";
    if name.is_empty() || name.len() > 15 || name.starts_with('.') || name.contains(wrong) {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
    }
    Ok(())
}

impl Tun {
    /// Makes the device `name` with this MTU, with Ethernet frames if `tap`.
    ///
    /// # Errors
    /// Without `CAP_NET_ADMIN`, or if there is one of this name in use.
    pub fn open(name: &str, tap: bool, mtu: u32) -> io::Result<Self> {
        Self::open_queues(name, tap, mtu, None)
    }

    /// The same with so many queues of a device that may have several; without a number it has one.
    ///
    /// # Errors
    /// As for [`open`](Self::open); the device is there and of the other kind, or has too many queues.
    pub fn open_queues(name: &str, tap: bool, mtu: u32, queues: Option<u32>) -> io::Result<Self> {
        check_name(name)?;
        let several = queues.is_some();
        let open = |_| {
            let file = sys::open_tun(name, tap, several)?;
            Ok(Queue { file, outbox: Outbox::default() })
        };
        let queues = (0..queues.unwrap_or(1)).map(open).collect::<io::Result<Vec<_>>>()?;
        sys::set_mtu(name, mtu)?;
        let mut device = Self {
            name: name.to_owned(),
            index: sys::facts(name)?.index,
            mtu,
            tap,
            queues,
            poller: None,
            slot: None,
            end: vec![0; LONGEST],
            lost: RejectedFrames::default(),
        };
        if device.queues.len() > 1 {
            let poller = Epoll::new()?;
            for queue in &device.queues {
                poller.add(queue.file.as_fd(), 0, Epoll::READ)?;
            }
            device.poller = Some(poller);
        }
        Ok(device)
    }

    /// The kernel cuts all to the MTU before it comes here.
    ///
    /// # Errors
    /// The device is gone.
    pub fn refuse_offloads(&self) -> io::Result<()> {
        self.queues.iter().try_for_each(|queue| sys::refuse_offloads(&queue.file))
    }

    pub(super) fn index(&self) -> i32 {
        self.index
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn mtu(&self) -> u32 {
        self.mtu
    }

    pub(super) fn is_ethernet(&self) -> bool {
        self.tap
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.poller.as_ref().map_or_else(|| self.queues[0].file.as_fd(), Epoll::fd)
    }

    /// A descriptor tells of an error where its device is gone (`tun_chr_poll`), and only there.
    pub(super) fn error(&self) -> io::Result<()> {
        sys::facts_at(self.index).map(drop)
    }

    pub(super) fn push(&mut self, packet: &Packet) {
        assert!(self.ring_len() < RING, "a packet was sent to a device that has no room");
        let queue = match self.queues.len() {
            1 => 0,
            several => queue_of(packet, several),
        };
        self.queues[queue].outbox.push(packet);
    }

    pub(super) fn join_up_to(&mut self, longest: u32) {
        self.queues.iter_mut().for_each(|queue| queue.outbox.join_up_to(longest));
    }

    pub(super) fn ring_len(&self) -> usize {
        self.queues.iter().map(|queue| queue.outbox.len()).sum()
    }

    pub(super) fn discard(&mut self) {
        self.queues.iter_mut().for_each(|queue| queue.outbox.clear());
    }

    pub(super) fn rejected(&mut self) -> RejectedFrames {
        self.lost
    }

    pub(super) fn receive(
        &mut self,
        pools: &mut Pools,
        packets: &mut Vec<Packet>,
    ) -> io::Result<()> {
        for queue in 0..self.queues.len() {
            self.receive_by(queue, pools, packets)?;
        }
        Ok(())
    }

    /// A ring's worth of what a queue has.
    fn receive_by(
        &mut self,
        queue: usize,
        pools: &mut Pools,
        packets: &mut Vec<Packet>,
    ) -> io::Result<()> {
        for _ in 0..RING {
            let Some(mut frame) = self.slot.take().or_else(|| pools.small.take()) else {
                // Whatever comes waits in the kernel's queue, which drops what it has no room for.
                self.lost.no_buffer += 1;
                return Ok(());
            };
            let mut vnet: VnetBytes = [0; VNET_LEN];
            let places = &mut [
                IoSliceMut::new(&mut vnet),
                IoSliceMut::new(&mut frame.memory()[HEADROOM..]),
                IoSliceMut::new(&mut self.end),
            ];
            match sys::read_vectored(&self.queues[queue].file, places) {
                Ok(len) => self.receive_frame(frame, vnet, len, pools, packets),
                Err(error) => {
                    self.slot = Some(frame);
                    match error.kind() {
                        io::ErrorKind::WouldBlock => return Ok(()),
                        io::ErrorKind::Interrupted => {}
                        _ => return Err(error),
                    }
                }
            }
        }
        Ok(())
    }

    fn receive_frame(
        &mut self,
        frame: FrameMut,
        vnet: VnetBytes,
        len: usize,
        pools: &mut Pools,
        packets: &mut Vec<Packet>,
    ) {
        let mut frame = frame;
        let len = len.saturating_sub(VNET_LEN);
        let room = frame.memory().len() - HEADROOM;
        let shared = if len > room {
            self.lost.copied += 1;
            let joined = pools.join(&frame.memory()[HEADROOM..], &self.end[..len - room]);
            self.slot = Some(frame);
            joined.map(|joined| pools.large.share(joined, HEADROOM + len))
        } else {
            Some(pools.small.share(frame, HEADROOM + len))
        };
        let Some(shared) = shared else {
            self.lost.no_buffer += 1;
            return;
        };
        match parse(&shared, HEADROOM, Vnet::read(&vnet), self.tap) {
            Ok(packet) => packets.push(packet),
            Err(_) => self.lost.unreadable += 1,
        }
    }

    pub(super) fn flush(&mut self) -> io::Result<FlushResult> {
        let mut flushed = FlushResult::default();
        for queue in &mut self.queues {
            queue.flush(&mut flushed)?;
        }
        if self.poller.is_some() && flushed.blocked == Some(Blocked::Full) {
            // With several queues no event says which has room again.
            flushed.blocked = Some(Blocked::Busy);
        }
        Ok(flushed)
    }
}

/// The queue of a packet's flow, of so many.
fn queue_of(packet: &Packet, queues: usize) -> usize {
    let mut hasher = DefaultHasher::new();
    packet.flow().hash(&mut hasher);
    (hasher.finish() % queues as u64) as usize
}

impl Queue {
    fn flush(&mut self, flushed: &mut FlushResult) -> io::Result<()> {
        self.outbox.prepare();
        while let Some(parts) = self.outbox.first() {
            let written = (&self.file).write_vectored(&parts.map(IoSlice::new));
            match written {
                Ok(_) => flushed.sent += self.outbox.take(1) as u32,
                Err(error) => match error.raw_os_error() {
                    Some(libc::EAGAIN) => {
                        flushed.blocked = Some(Blocked::Full);
                        break;
                    }
                    Some(libc::EINTR) => {}
                    // The last: it is down, the kernel takes nothing, but may again.
                    Some(libc::EINVAL | libc::EMSGSIZE | libc::EIO) => {
                        flushed.refused += self.outbox.take(1) as u32;
                    }
                    _ => return Err(error),
                },
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_that_the_kernel_takes_as_they_are() {
        for name in ["ack0", "a.b", "fifteen-letters"] {
            assert!(check_name(name).is_ok(), "{name}");
        }
        // Of a zero byte the kernel would see the end.
        for name in
            ["", "sixteen-letters-", "a b", "a/b", "a:b", "a%d", ".", ".a", "ack0\0x", "a\n"]
        {
            assert!(check_name(name).is_err(), "{name:?}");
        }
    }
}
