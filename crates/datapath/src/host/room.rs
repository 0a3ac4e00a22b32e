//! Credit of ports: the room in their devices, and the owners of the packets there.
//!
//! A driver gives credit back at once, or says beforehand when it will ([`Host::credit_at`]). Such a
//! completion is deferred: the credit is valid from its time on, and is found when somebody looks for it,
//! without another call.

use super::{Host, Socket, Sockets, TcpSocket};
use crate::node::{Port, SocketReady};
use crate::packet::{Meta, Packet};
use crate::units::Instant;
use std::collections::VecDeque;

/// The owner of a packet in a device, and how much memory it is charged: it gets that back when the packet has
/// left (`skb_orphan`, `sock_wfree`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Charge {
    pub owner: u32,
    pub truesize: u32,
}

impl Charge {
    /// A socket owns it.
    #[inline]
    pub fn has_owner(self) -> bool {
        self.owner != Meta::NO_OWNER
    }

    /// That of `packet`.
    pub fn of(packet: &Packet) -> Self {
        Self { owner: packet.meta.owner, truesize: packet.meta.truesize }
    }
}

/// What a port may send, and what its device holds.
///
/// Ordered by use: see [`HostPort`](super::HostPort).
#[derive(Debug)]
#[repr(C)]
pub(super) struct TxRing {
    /// When the room of the first packet in the device comes by itself; `FAR_FUTURE` if that has
    /// not been said.
    completes_at: Instant,
    /// Of the first packet in the device.
    first: Charge,
    /// How many packets the device has room for; below zero once a chain has gone beyond.
    pub credits: i32,
    /// How many packets need a call of `credit`, behind those that have a deferred completion.
    refused: u32,
    pub up: bool,
    /// Something may wait in the queue.
    pub waiting: bool,
    /// The device holds a packet.
    holds: bool,
    /// There are packets behind the first.
    more: bool,
    /// The device takes the segments of a super-packet at once.
    pub xmit_more: bool,
    behind: Option<Box<RingTail>>,
}

/// The packets in a device behind the first.
#[derive(Debug, Default)]
struct RingTail {
    /// Each with the time of its deferred completion, if it has one.
    packets: VecDeque<(Charge, Instant)>,
    /// How many have a deferred completion. They are the first ones.
    deferred: usize,
}

impl TxRing {
    /// None; the port is up.
    pub fn none() -> Self {
        Self {
            completes_at: Instant::FAR_FUTURE,
            first: Charge { owner: Meta::NO_OWNER, truesize: 0 },
            credits: 0,
            refused: 0,
            up: true,
            waiting: false,
            holds: false,
            more: false,
            xmit_more: false,
            behind: None,
        }
    }

    /// A packet goes to the device.
    #[inline]
    pub fn take(&mut self, packet: &Packet) {
        self.credits -= 1;
        let charge = Charge::of(packet);
        if self.holds {
            self.more = true;
            self.behind_mut().packets.push_back((charge, Instant::FAR_FUTURE));
        } else {
            self.first = charge;
            self.holds = true;
        }
    }

    /// The room of the first packet in the device comes by itself, and by `now`.
    #[inline]
    pub fn is_due(&self, now: Instant) -> bool {
        self.completes_at <= now
    }

    /// The first packet has left the device.
    #[inline]
    pub fn give(&mut self) -> Charge {
        assert!(self.holds, "room is given back that no packet has taken");
        let left = self.first;
        self.credits += 1;
        if self.completes_at == Instant::FAR_FUTURE {
            self.refused = self.refused.saturating_sub(1);
        }
        if self.more {
            self.next();
        } else {
            (self.holds, self.completes_at) = (false, Instant::FAR_FUTURE);
        }
        left
    }

    /// The same, if there is no other packet and nobody gets memory back; false, and nothing done,
    /// otherwise.
    #[inline]
    fn give_only(&mut self) -> bool {
        let is_only = !self.more && !self.first.has_owner();
        if is_only {
            self.give();
        }
        is_only
    }

    /// The first packet is gone, and the next is the first.
    fn next(&mut self) {
        let behind = self.behind_mut();
        behind.deferred = behind.deferred.saturating_sub(1);
        let next = behind.packets.pop_front();
        self.more = !behind.packets.is_empty();
        self.holds = next.is_some();
        (self.first, self.completes_at) = next.unwrap_or((self.first, Instant::FAR_FUTURE));
    }

    fn behind_mut(&mut self) -> &mut RingTail {
        self.behind.get_or_insert_default()
    }

    /// Whether the next packet needs a call of `credit` because one before it does.
    #[inline]
    fn is_refused(&self) -> bool {
        self.refused > 0
    }

    fn refuse(&mut self) -> bool {
        self.refused += 1;
        false
    }

    /// The room of the next packet comes at `at`.
    #[inline]
    fn defer(&mut self, at: Instant) {
        assert!(self.holds, "room is promised that no packet has taken");
        if self.completes_at == Instant::FAR_FUTURE {
            self.completes_at = at;
        } else {
            self.defer_behind(at);
        }
    }

    fn defer_behind(&mut self, at: Instant) {
        let first = self.completes_at;
        let behind = self.behind_mut();
        let last = behind.deferred.checked_sub(1).map_or(first, |last| behind.packets[last].1);
        assert!(at >= last, "room comes back at {at:?}, before that of an earlier packet");
        let next = behind.packets.get_mut(behind.deferred);
        next.expect("room is promised that no packet has taken").1 = at;
        behind.deferred += 1;
    }

    /// The packet whose room is to be given back next.
    #[inline]
    fn next_charge(&self) -> Charge {
        if self.completes_at == Instant::FAR_FUTURE || !self.more {
            return self.first;
        }
        let behind = self.behind.as_ref().and_then(|it| it.packets.get(it.deferred));
        behind.map_or(self.first, |(charge, _)| *charge)
    }

    /// How many of the packets behind the first have a deferred completion.
    #[inline]
    fn deferred_behind(&self) -> usize {
        if self.more { self.behind.as_ref().map_or(0, |behind| behind.deferred) } else { 0 }
    }

    /// When a packet will have left whose socket is to get its memory back then; `FAR_FUTURE` if
    /// there is none.
    #[inline]
    pub fn frees_memory_at(&self) -> Instant {
        let frees = self.first.has_owner() || self.deferred_behind() > 0;
        if frees { self.completes_at } else { Instant::FAR_FUTURE }
    }

    /// When room will come by itself that something waits for: that which makes up for the
    /// segments sent on credit.
    #[inline]
    pub fn awaited(&self) -> Option<Instant> {
        if !self.waiting || self.credits > 0 || self.completes_at == Instant::FAR_FUTURE {
            return None;
        }
        match self.credits.unsigned_abs() as usize {
            0 => Some(self.completes_at),
            debt if debt <= self.deferred_behind() => {
                self.behind.as_ref().map(|behind| behind.packets[debt - 1].1)
            }
            _ => None,
        }
    }

    /// True if there is room to send something, and perhaps something to send.
    #[inline]
    pub fn may_send(&self) -> bool {
        self.credits > 0 && self.waiting
    }

    /// How many packets the device has room for once all deferred completions have come.
    pub fn in_the_end(&self) -> i64 {
        let first = i64::from(self.completes_at < Instant::FAR_FUTURE);
        i64::from(self.credits) + first + self.deferred_behind() as i64
    }
}

impl Host {
    /// A device begins with room for so many packets.
    pub fn grant(&mut self, now: Instant, port: Port, packets: u32) {
        self.come_to(now);
        self.complete(now, port.0);
        let packets = i32::try_from(packets).expect("a device holds fewer packets than that");
        self.ports[usize::from(port.0)].room.credits += packets;
        self.list_port(port.0);
    }

    /// Whether the device of a port takes the segments of a super-packet that the host cuts at once,
    /// whatever room it has (`netdev_xmit_more`): [`poll`](Self::poll) then gives them one after the
    /// other, and its credits are below zero until enough of them have left.
    pub fn set_xmit_more(&mut self, port: Port, on: bool) {
        self.ports[usize::from(port.0)].room.xmit_more = on;
    }

    /// The first packet in the device of `port` has left it: there is room for one more, and the
    /// socket that the packet belonged to gets its memory back.
    ///
    /// # Panics
    /// The device holds none, or its completion is deferred already: more is given back than was taken.
    #[inline]
    pub fn credit(&mut self, now: Instant, port: Port) {
        let left = self.make_room(now, port);
        self.give_back(now, left);
    }

    /// The same without the memory: who owned the packet.
    #[inline]
    pub(super) fn make_room(&mut self, now: Instant, port: Port) -> Charge {
        self.come_to(now);
        let mut device = &mut self.ports[usize::from(port.0)];
        if device.room.is_due(now) {
            self.complete(now, port.0);
            device = &mut self.ports[usize::from(port.0)];
        }
        let at = device.room.completes_at;
        assert!(
            at == Instant::FAR_FUTURE,
            "{port:?} has room at {now:?} whose completion is deferred to {at:?}"
        );
        let left = device.room.give();
        if !device.listed {
            self.list_port(port.0);
        }
        left
    }

    /// The same beforehand: the next packet in the device without a deferred completion will have
    /// left at `at`. No further call is needed then. False if the driver must call
    /// [`credit`](Self::credit) at that time all the same: a packet or the socket waits for it, or an earlier
    /// packet needs such a call.
    ///
    /// # Panics
    /// The device holds no such packet, or an earlier one leaves later.
    #[inline]
    #[must_use = "where it is false, the room has to be given back at its time"]
    pub fn credit_at(&mut self, now: Instant, port: Port, at: Instant) -> bool {
        self.come_to(now);
        let device = &mut self.ports[usize::from(port.0)];
        let next = device.room.next_charge();
        let owned = next.has_owner();
        let refused =
            device.room.is_refused() || (owned && !needs_no_wakeup(&self.sockets, next.owner));
        if refused || !device.may_defer() {
            return device.room.refuse();
        }
        device.room.defer(at);
        if owned && at < self.completes_at {
            self.completes_at = at;
        }
        true
    }

    /// Takes the room of the deferred completions of port `index` whose time has come.
    #[inline]
    pub(super) fn complete(&mut self, now: Instant, index: u16) {
        let room = &mut self.ports[usize::from(index)].room;
        if room.is_due(now) && !room.give_only() {
            self.complete_due(now, index);
        }
    }

    #[inline(never)]
    fn complete_due(&mut self, now: Instant, index: u16) {
        loop {
            let room = &mut self.ports[usize::from(index)].room;
            if room.completes_at > now {
                return;
            }
            let left = room.give();
            if left.has_owner() {
                self.completes_at = self.next_completion();
                self.give_back(now, left);
            }
        }
    }

    /// Gives sockets the memory back of packets that have left meanwhile; false if there are none.
    #[inline]
    pub(super) fn complete_deferred(&mut self, now: Instant) -> bool {
        let due = self.completes_at <= now;
        if due {
            self.complete_all_deferred(now);
        }
        due
    }

    #[inline(never)]
    fn complete_all_deferred(&mut self, now: Instant) {
        for index in 0..self.ports.len() as u16 {
            if self.ports[usize::from(index)].room.frees_memory_at() <= now {
                self.complete(now, index);
            }
        }
        self.completes_at = self.next_completion();
    }

    /// A socket has begun to wait for memory: it is told when it gets some.
    #[cold]
    pub(super) fn arm_completions(&mut self) {
        for (index, port) in (0..).zip(&self.ports) {
            self.port_timers.arm(index, port.room.frees_memory_at());
        }
    }

    fn next_completion(&self) -> Instant {
        let all = self.ports.iter().map(|port| port.room.frees_memory_at());
        all.min().unwrap_or(Instant::FAR_FUTURE)
    }

    /// Puts a port with room and something to send into the list of those, or notes when it will
    /// have room.
    #[inline]
    pub(super) fn list_port(&mut self, index: u16) {
        let port = &mut self.ports[usize::from(index)];
        if port.listed {
            return;
        }
        if port.room.may_send() {
            port.listed = true;
            self.out.sending.push_back(index);
            self.busy = true;
        } else if let Some(at) = port.room.awaited() {
            self.port_timers.arm(u32::from(index), at);
            self.busy = true;
        }
    }

    /// A packet that was dropped gives its memory back.
    pub(super) fn give_back_of(&mut self, now: Instant, packet: &Packet) {
        self.give_back(now, Charge::of(packet));
    }

    /// A packet is gone from this machine, sent or dropped: its owner gets the memory back
    /// (`sock_wfree`, `tcp_wfree`).
    #[inline]
    pub(super) fn give_back(&mut self, now: Instant, Charge { owner, truesize }: Charge) {
        if owner == Meta::NO_OWNER || truesize == 0 {
            return;
        }
        match self.sockets.get_mut(owner) {
            Some(Socket::Udp(socket)) => {
                if socket.give_back(truesize) {
                    self.notify(owner, SocketReady::WRITABLE);
                }
            }
            Some(Socket::Tcp(_)) => self.tcp_wfree(now, owner, truesize),
            Some(Socket::Ping(_)) => {}
            None => self.sockets.give_back(owner, truesize),
        }
    }
}

/// Whether a socket does nothing when it gets memory back.
#[inline]
fn needs_no_wakeup(sockets: &Sockets, id: u32) -> bool {
    match sockets.get(id) {
        Some(Socket::Tcp(TcpSocket::Connection(socket))) => !socket.connection.waits_for_memory(),
        _ => false,
    }
}
