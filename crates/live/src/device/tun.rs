//! A TUN or TAP device of our own: the kernel's end of a wire whose other end is this program. It goes
//! away with us.

use super::arrival::{HEADROOM, LONGEST, Pools, parse};
use super::outbox::{Outbox, RING};
use super::vnet::{VNET_LEN, Vnet, VnetBytes};
use super::{Blocked, Flushed, Lost};
use crate::sys;
use datapath::packet::{FrameMut, Packet};
use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut, Write as _};
use std::os::fd::{AsFd as _, BorrowedFd};

/// An open device.
#[derive(Debug)]
pub struct Tun {
    name: String,
    mtu: u32,
    tap: bool,
    file: File,
    /// Where the next frame lands.
    slot: Option<FrameMut>,
    /// Where the end of a super-packet lands.
    end: Vec<u8>,
    outbox: Outbox,
    lost: Lost,
}

impl Tun {
    /// Makes the device `name` with this MTU, with Ethernet frames if `tap`.
    ///
    /// # Errors
    /// Without `CAP_NET_ADMIN`, or if there is one of this name in use.
    pub fn open(name: &str, tap: bool, mtu: u32) -> io::Result<Self> {
        let file = sys::open_tun(name, tap)?;
        sys::set_mtu(name, mtu)?;
        Ok(Self {
            name: name.to_owned(),
            mtu,
            tap,
            file,
            slot: None,
            end: vec![0; LONGEST],
            outbox: Outbox::default(),
            lost: Lost::default(),
        })
    }

    /// The kernel cuts all to the MTU before it comes here.
    ///
    /// # Errors
    /// The device is gone.
    pub fn refuse_offloads(&self) -> io::Result<()> {
        sys::refuse_offloads(&self.file)
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
        self.file.as_fd()
    }

    pub(super) fn push(&mut self, packet: &Packet) {
        self.outbox.push(packet);
    }

    pub(super) fn join_up_to(&mut self, longest: u32) {
        self.outbox.join_up_to(longest);
    }

    pub(super) fn ring_len(&self) -> usize {
        self.outbox.len()
    }

    pub(super) fn discard(&mut self) {
        self.outbox.clear();
    }

    pub(super) fn lost(&mut self) -> Lost {
        self.lost
    }

    pub(super) fn receive(
        &mut self,
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
            match sys::read_vectored(&self.file, places) {
                Ok(len) => self.take_in(frame, vnet, len, pools, packets),
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

    fn take_in(
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

    pub(super) fn flush(&mut self) -> io::Result<Flushed> {
        let mut flushed = Flushed::default();
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
        Ok(flushed)
    }
}
