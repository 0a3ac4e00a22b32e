//! A network interface by a packet socket (AF_PACKET).
//!
//! Plain `recvmmsg` lets the kernel write each frame to where the packet will lie: a ring
//! (TPACKET_V3) would have to be copied out of, because packets wait in queues for longer than its
//! blocks may be kept.

use super::arrival::{HEADROOM, LONGEST, Pools, parse, put_tag};
use super::outbox::{Outbox, RING};
use super::vnet::{VNET_LEN, Vnet, VnetBytes};
use super::{Blocked, Flushed, Lost};
use crate::sys::{self, BATCH, Facts, Frames, Landed};
use datapath::packet::{FrameMut, Packet};
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

/// A packet socket and what it needs to receive and send.
#[derive(Debug)]
pub struct PacketSocket {
    name: String,
    facts: Facts,
    socket: OwnedFd,
    slots: Vec<Slot>,
    /// Where the ends of super-packets land; a piece for each slot.
    ends: Vec<u8>,
    landed: Vec<Landed>,
    outbox: Outbox,
    /// How often in a row the first frame of the ring was refused.
    refusals: u32,
    lost: Lost,
}

/// Where one frame lands.
#[derive(Debug)]
struct Slot {
    vnet: VnetBytes,
    frame: FrameMut,
}

/// So many calls in a row find frames that the kernel cannot hand over, before others are served.
const REFUSALS: usize = 16;
/// A frame that was refused so often, at the distances of the loop's tries, will never go: 10 ms.
const PATIENCE: u32 = 100;

impl PacketSocket {
    /// Opens the interface `name`, of which `facts` are known.
    ///
    /// # Errors
    /// Without `CAP_NET_RAW`, or if the interface is not there any more.
    pub fn open(name: &str, facts: Facts, frames: Frames, pools: &mut Pools) -> io::Result<Self> {
        let socket = sys::open_packet_socket(facts.index, frames)?;
        let slots = (0..BATCH).map_while(|_| pools.small.take());
        let slots = slots.map(|frame| Slot { vnet: [0; VNET_LEN], frame }).collect();
        Ok(Self {
            name: name.to_owned(),
            facts,
            socket,
            slots,
            ends: vec![0; BATCH * LONGEST],
            landed: Vec::with_capacity(BATCH),
            outbox: Outbox::default(),
            refusals: 0,
            lost: Lost::default(),
        })
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn mtu(&self) -> u32 {
        self.facts.mtu
    }

    pub(super) fn is_ethernet(&self) -> bool {
        self.facts.hardware == libc::ARPHRD_ETHER || self.facts.hardware == libc::ARPHRD_LOOPBACK
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    pub(super) fn push(&mut self, packet: &Packet) {
        self.outbox.push(packet);
    }

    pub(super) fn ring_len(&self) -> usize {
        self.outbox.len()
    }

    pub(super) fn discard(&mut self) {
        self.outbox.clear();
    }

    pub(super) fn lost(&mut self) -> Lost {
        self.lost.missed += sys::socket_drops(self.socket.as_fd());
        self.lost
    }

    pub(super) fn receive(
        &mut self,
        pools: &mut Pools,
        packets: &mut Vec<Packet>,
    ) -> io::Result<()> {
        for _ in 0..REFUSALS {
            match self.receive_batch() {
                Ok(()) => break,
                Err(error) => match error.raw_os_error() {
                    Some(libc::EAGAIN) => return Ok(()),
                    // One frame is gone that no header can describe (`virtio_net_hdr_from_skb`).
                    Some(libc::EINVAL) => self.lost.unreadable += 1,
                    Some(libc::EINTR | libc::ENOBUFS) => {}
                    _ => return Err(error),
                },
            }
        }
        let mut landed = std::mem::take(&mut self.landed);
        for (index, frame) in landed.drain(..).enumerate() {
            self.take_in(index, frame, pools, packets);
        }
        self.landed = landed;
        Ok(())
    }

    fn receive_batch(&mut self) -> io::Result<()> {
        let ends = self.ends.chunks_exact_mut(LONGEST);
        let places = self
            .slots
            .iter_mut()
            .zip(ends)
            .map(|(slot, end)| [&mut slot.vnet[..], &mut slot.frame.memory()[HEADROOM..], end]);
        sys::receive_batch(self.socket.as_fd(), places, &mut self.landed)
    }

    /// Makes a packet of what has landed in slot `index`, and puts a free frame there.
    fn take_in(
        &mut self,
        index: usize,
        landed: Landed,
        pools: &mut Pools,
        packets: &mut Vec<Packet>,
    ) {
        let len = landed.len.saturating_sub(VNET_LEN);
        if landed.truncated || len == 0 {
            self.lost.unreadable += 1;
            return;
        }
        let slot = &mut self.slots[index];
        let room = slot.frame.memory().len() - HEADROOM;
        let (pool, free) = if len > room {
            let end = &self.ends[index * LONGEST..][..len - room];
            self.lost.copied += 1;
            let joined = pools.join(&slot.frame.memory()[HEADROOM..], end);
            (&mut pools.large, joined)
        } else {
            let free = pools.small.take();
            (&mut pools.small, free.map(|free| std::mem::replace(&mut slot.frame, free)))
        };
        let Some(mut frame) = free else {
            self.lost.no_buffer += 1;
            return;
        };
        let mut offset = HEADROOM;
        let ethernet = self.facts.hardware == libc::ARPHRD_ETHER;
        if let Some(tag) = landed.vlan.filter(|_| ethernet && len >= 14) {
            put_tag(frame.memory(), tag);
            offset = 0;
        }
        let mut vnet = Vnet::read(&slot.vnet);
        if let Some(partial) = &mut vnet.partial {
            partial.start = partial.start.saturating_add((HEADROOM - offset) as u16);
        }
        let frame = pool.share(frame, HEADROOM + len);
        match parse(&frame, offset, vnet, self.is_ethernet()) {
            Ok(packet) => packets.push(packet),
            Err(_) => self.lost.unreadable += 1,
        }
    }

    pub(super) fn flush(&mut self) -> io::Result<Flushed> {
        let mut flushed = Flushed::default();
        self.outbox.prepare();
        while self.outbox.len() > 0 {
            match sys::send_batch(self.socket.as_fd(), self.outbox.frames().take(RING)) {
                Ok(sent) => {
                    self.refusals = 0;
                    flushed.sent += self.outbox.take(sent) as u32;
                }
                Err(error) => match error.raw_os_error() {
                    Some(libc::EAGAIN) => {
                        flushed.blocked = Some(Blocked::Full);
                        break;
                    }
                    // Full, or the far end of a veth does not take this one, which is not told apart.
                    Some(libc::ENOBUFS) if self.refusals < PATIENCE => {
                        self.refusals += 1;
                        flushed.blocked = Some(Blocked::Busy);
                        break;
                    }
                    Some(libc::EINTR) => {}
                    Some(libc::EMSGSIZE | libc::EINVAL | libc::ENOBUFS) => {
                        self.refusals = 0;
                        flushed.refused += self.outbox.take(1) as u32;
                    }
                    _ => return Err(error),
                },
            }
        }
        Ok(flushed)
    }
}
