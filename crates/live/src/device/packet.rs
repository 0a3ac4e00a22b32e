//! A network interface by a packet socket (AF_PACKET).
//!
//! Plain `recvmmsg` lets the kernel write each frame to where the packet will lie. A ring (TPACKET_V3) saves the
//! call and is copied out of, because packets wait in queues for longer than its blocks may be kept; and a block
//! that is not full comes up to a millisecond late. So it is what one asks for (`ring:NAME`), not the default.

use super::arrival::{HEADROOM, LONGEST, Pools, insert_tag, parse};
use super::outbox::{Outbox, RING};
use super::vnet::{VNET_LEN, Vnet, VnetBytes};
use super::{Blocked, FlushResult, RejectedFrames};
use crate::sys::{self, BATCH, Epoll, FrameInfo, InterfaceInfo, ReceiveRing};
use datapath::packet::{FrameMut, Frames, Packet};
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

/// A packet socket and what it needs to receive and send.
#[derive(Debug)]
pub struct PacketSocket {
    name: String,
    facts: InterfaceInfo,
    socket: OwnedFd,
    slots: Vec<Slot>,
    /// Where the ends of super-packets land; a piece for each slot.
    ends: Vec<u8>,
    /// Instead of slots.
    ring: Option<ReceiveRing>,
    landed: Vec<FrameInfo>,
    outbox: Outbox,
    /// How often in a row the first frame of the ring was refused.
    refusals: u32,
    /// Those that share with this one what arrives, and what waits for all.
    fan: Option<Box<Fanout>>,
    lost: RejectedFrames,
}

/// Sockets that only receive.
#[derive(Debug)]
struct Fanout {
    others: Vec<PacketSocket>,
    poller: Epoll,
}

/// More sockets the kernel does not let share an interface (`PACKET_FANOUT_MAX` of Linux before 5.16).
pub const MOST_SHARING: u32 = 256;

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
    /// Opens the interface `name`, of which `facts` are known: all that arrives there.
    ///
    /// # Errors
    /// Without `CAP_NET_RAW`, or if the interface is not there any more.
    pub fn open(name: &str, facts: InterfaceInfo, pools: &mut Pools) -> io::Result<Self> {
        Self::open_for(name, facts, sys::Frames::All, pools)
    }

    /// The same, without what is for others or has been round by a [detour](crate::own).
    ///
    /// # Errors
    /// As for [`open`](Self::open).
    pub fn open_own(name: &str, facts: InterfaceInfo, pools: &mut Pools) -> io::Result<Self> {
        Self::open_for(name, facts, sys::Frames::Own, pools)
    }

    /// The same by so many sockets, each of which gets its share of the flows; all are read in one loop, and
    /// the first sends. Where several processors take frames in, they do not wait for each other.
    ///
    /// # Errors
    /// As for [`open`](Self::open); more sockets than may share.
    pub fn open_sharing(
        name: &str,
        facts: InterfaceInfo,
        sockets: u32,
        pools: &mut Pools,
    ) -> io::Result<Self> {
        let open = |_| Self::open_for(name, facts, sys::Frames::Later, pools);
        let mut all = (0..sockets).map(open).collect::<io::Result<Vec<_>>>()?;
        sys::share_out(&all.iter().map(Self::fd).collect::<Vec<_>>())?;
        let poller = Epoll::new()?;
        for socket in &all {
            poller.add(socket.fd(), 0, Epoll::READ)?;
        }
        let mut first = all.remove(0);
        first.fan = Some(Box::new(Fanout { others: all, poller }));
        Ok(first)
    }

    fn open_for(
        name: &str,
        facts: InterfaceInfo,
        frames: sys::Frames,
        pools: &mut Pools,
    ) -> io::Result<Self> {
        let socket = sys::open_packet_socket()?;
        sys::start_packet_socket(socket.as_fd(), facts.index, frames)?;
        let slots = (0..BATCH).map_while(|_| pools.small.take());
        let slots = slots.map(|frame| Slot { vnet: [0; VNET_LEN], frame }).collect();
        Ok(Self {
            name: name.to_owned(),
            facts,
            socket,
            slots,
            ends: vec![0; BATCH * LONGEST],
            ring: None,
            landed: Vec::with_capacity(BATCH),
            outbox: Outbox::default(),
            refusals: 0,
            fan: None,
            lost: RejectedFrames::default(),
        })
    }

    /// The same, by a receive ring.
    ///
    /// # Errors
    /// As for [`open`](Self::open); the kernel has no memory for the ring.
    pub fn open_ring(name: &str, facts: InterfaceInfo) -> io::Result<Self> {
        let socket = sys::open_packet_socket()?;
        let ring = ReceiveRing::open(socket.as_fd())?;
        sys::start_packet_socket(socket.as_fd(), facts.index, sys::Frames::All)?;
        Ok(Self {
            name: name.to_owned(),
            facts,
            socket,
            slots: Vec::new(),
            ends: Vec::new(),
            ring: Some(ring),
            landed: Vec::new(),
            outbox: Outbox::default(),
            refusals: 0,
            fan: None,
            lost: RejectedFrames::default(),
        })
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

    pub(super) fn is_ethernet(&self) -> bool {
        has_ethernet(self.facts.hardware)
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.fan.as_ref().map_or_else(|| self.socket.as_fd(), |fan| fan.poller.fd())
    }

    pub(super) fn error(&self) -> io::Result<()> {
        sys::socket_error(self.socket.as_fd())
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

    pub(super) fn rejected(&mut self) -> RejectedFrames {
        self.lost.missed += sys::socket_drops(self.socket.as_fd());
        let mut lost = self.lost;
        for other in self.fan.iter_mut().flat_map(|fan| &mut fan.others) {
            lost += other.rejected();
        }
        lost
    }

    pub(super) fn receive(
        &mut self,
        pools: &mut Pools,
        packets: &mut Vec<Packet>,
    ) -> io::Result<()> {
        if self.ring.is_some() {
            return self.receive_from_ring(pools, packets);
        }
        for other in self.fan.iter_mut().flat_map(|fan| &mut fan.others) {
            other.receive(pools, packets)?;
        }
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
            self.receive_slot(index, frame, pools, packets);
        }
        self.landed = landed;
        Ok(())
    }

    fn receive_from_ring(
        &mut self,
        pools: &mut Pools,
        packets: &mut Vec<Packet>,
    ) -> io::Result<()> {
        let Some(ring) = &mut self.ring else { return Ok(()) };
        let (lost, hardware) = (&mut self.lost, self.facts.hardware);
        let came = ring.receive(RING, |header, bytes, landed| {
            if landed.truncated || bytes.is_empty() {
                lost.unreadable += 1;
                return;
            }
            let len = HEADROOM + bytes.len();
            let small = len <= pools.small.frame_len() as usize;
            let pool = if small { &mut pools.small } else { &mut pools.large };
            let Some(mut frame) = pool.take().filter(|_| len <= LONGEST) else {
                lost.no_buffer += 1;
                return;
            };
            frame.memory()[HEADROOM..len].copy_from_slice(bytes);
            match finish(pool, frame, len, landed.vlan, Vnet::read(header), hardware) {
                Some(packet) => packets.push(packet),
                None => lost.unreadable += 1,
            }
        });
        // No call has failed that would have told.
        if came == 0 { sys::socket_error(self.socket.as_fd()) } else { Ok(()) }
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
    fn receive_slot(
        &mut self,
        index: usize,
        landed: FrameInfo,
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
        let Some(frame) = free else {
            self.lost.no_buffer += 1;
            return;
        };
        let vnet = Vnet::read(&slot.vnet);
        match finish(pool, frame, HEADROOM + len, landed.vlan, vnet, self.facts.hardware) {
            Some(packet) => packets.push(packet),
            None => self.lost.unreadable += 1,
        }
    }

    pub(super) fn flush(&mut self) -> io::Result<FlushResult> {
        let mut flushed = FlushResult::default();
        self.outbox.prepare();
        while self.outbox.len() > 0 {
            match sys::send_batch(self.socket.as_fd(), self.outbox.frames().take(RING)) {
                Ok(sent) => {
                    self.refusals = 0;
                    flushed.sent += self.outbox.take(sent) as u32;
                }
                Err(error) => match error.raw_os_error() {
                    Some(libc::EAGAIN) => {
                        // With several sockets no event says which has room again.
                        let blocked =
                            if self.fan.is_some() { Blocked::Busy } else { Blocked::Full };
                        flushed.blocked = Some(blocked);
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

/// Makes a packet of a frame that lies at [`HEADROOM`] and ends at `end`.
fn finish(
    pool: &mut Frames,
    mut frame: FrameMut,
    end: usize,
    vlan: Option<(u16, u16)>,
    mut vnet: Vnet,
    hardware: u16,
) -> Option<Packet> {
    let mut offset = HEADROOM;
    if let Some(tag) = vlan.filter(|_| hardware == libc::ARPHRD_ETHER && end >= HEADROOM + 14) {
        insert_tag(frame.memory(), tag);
        offset = 0;
    }
    if let Some(partial) = &mut vnet.partial {
        partial.start = partial.start.saturating_add((HEADROOM - offset) as u16);
    }
    let frame = pool.share(frame, end);
    parse(&frame, offset, vnet, has_ethernet(hardware)).ok()
}

fn has_ethernet(hardware: u16) -> bool {
    matches!(hardware, libc::ARPHRD_ETHER | libc::ARPHRD_LOOPBACK)
}
