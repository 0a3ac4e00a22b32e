//! The sockets of one host, by number.

use super::Host;
use super::ports::Ephemeral;
use super::tcp::TcpSocket;
use super::udp::UdpSocket;
use crate::grow::reserve_one;
use crate::node::SocketId;
use crate::packet::Body;
use crate::prefetch::prefetch_at;
use crate::units::Instant;
use core::cmp::Reverse;
use core::net::{IpAddr, SocketAddr};
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

/// Why a socket call failed (`errno` names).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SocketError {
    /// `EADDRINUSE`.
    AddressInUse,
    /// `EADDRNOTAVAIL`: no local port is free, or no such local address.
    AddressNotAvailable,
    /// `EBADF`: the host has never given out that number, or the socket is closed.
    BadSocket,
    /// `EOPNOTSUPP`: the socket is of another kind than the call.
    WrongKind,
    /// `EAGAIN`: the send buffer is full; wait for `WRITABLE`.
    WouldBlock,
    /// `EMSGSIZE`: does not fit in a datagram.
    MessageSize,
    /// `ENETUNREACH`: no route.
    Unreachable,
    /// `EINVAL`.
    InvalidArgument,
}

/// One datagram, or one echo reply, as read from a socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Datagram {
    /// Who sent it; an echo reply has no port.
    pub from: SocketAddr,
    /// The sequence number of an echo reply, which is that of its request.
    pub sequence: Option<u16>,
    /// The address that it was sent to (`IP_PKTINFO`).
    pub to: IpAddr,
    /// Its payload.
    pub body: Body,
    /// The DSCP and ECN byte that it arrived with (`IP_RECVTOS`).
    pub tos: u8,
    /// The TTL or hop limit that it arrived with (`IP_RECVTTL`).
    pub ttl: u8,
    /// Bytes of each of the datagrams that came together, of the last perhaps fewer (`UDP_GRO`); 0 if it came alone.
    pub gso_size: u16,
    /// When it arrived (`SO_TIMESTAMPNS`).
    pub at: Instant,
}

/// A socket of any kind.
#[derive(Debug)]
pub enum Socket {
    /// UDP.
    Udp(Box<UdpSocket>),
    /// ICMP echo (`SOCK_DGRAM`, `IPPROTO_ICMP`).
    Ping(Box<VecDeque<Datagram>>),
    /// TCP: listener or connection.
    Tcp(TcpSocket),
}

impl Socket {
    /// Truesize of the packets below it that have not left (`sk_wmem_alloc`).
    fn unsent(&self) -> u32 {
        match self {
            Self::Udp(socket) => socket.unsent(),
            Self::Tcp(TcpSocket::Connection(socket)) => socket.connection.wmem_alloc(),
            Self::Ping(_) | Self::Tcp(TcpSocket::Listener(_)) => 0,
        }
    }
}

/// What a host has open. The number of a closed socket is used again once no packet has it as its
/// owner any more (`sk_free` waits for `sk_wmem_alloc`), the lowest first: which one that is does not
/// depend on when somebody looked whether packets were gone.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Sockets {
    // What every packet needs comes first: see `prefetch_host`.
    slots: Vec<Slot>,
    free: BinaryHeap<Reverse<u32>>,
    /// Closed sockets that packets belong to, and how many bytes of truesize those are.
    leaving: BTreeMap<u32, u32>,
    /// UDP sockets by local port and address; several have both only where they share it, the oldest first.
    pub(super) udp: BTreeMap<(u16, IpAddr), Vec<u32>>,
    /// Ports for those who ask for none.
    pub(super) ephemeral: Ephemeral,
    /// Some socket has asked for datagrams that come together (`udp_encap_needed_key`).
    pub(super) udp_gro: bool,
    /// Some socket has sent to neighbours alone, or wants to (`SO_DONTROUTE`).
    pub(super) scopes_differ: bool,
}

/// A place for a socket.
#[derive(Debug, Default)]
struct Slot {
    /// `None` while it is lent out, too.
    socket: Option<Socket>,
    /// How many sockets have been closed here.
    generation: u32,
    /// What its TCP socket sends goes to neighbours alone (`SOCK_LOCALROUTE`). Here, as the look-up asks for it while the socket
    /// is lent out.
    local_route: bool,
}

impl Host {
    /// Whether another socket has the [index](SocketId::index) of this one, which is closed: what was
    /// to be told of this one concerns nobody any more.
    #[inline]
    pub fn is_succeeded(&self, id: SocketId) -> bool {
        self.sockets.is_succeeded(id)
    }
}

impl Sockets {
    /// How many bytes from the beginning every packet needs.
    pub(super) const OFTEN_USED: usize = size_of::<Vec<Slot>>();

    /// The name of the socket in `slot`.
    #[inline]
    pub(super) fn id(&self, slot: u32) -> SocketId {
        SocketId { slot, generation: self.slots[slot as usize].generation }
    }

    /// Where a socket is.
    ///
    /// # Errors
    /// It is not open.
    #[inline]
    pub(super) fn slot(&self, id: SocketId) -> Result<u32, SocketError> {
        match self.slots.get(id.index()) {
            Some(slot) if slot.generation == id.generation && slot.socket.is_some() => Ok(id.slot),
            _ => Err(SocketError::BadSocket),
        }
    }

    /// Whether another socket has the number of this one, which is closed.
    #[inline]
    fn is_succeeded(&self, id: SocketId) -> bool {
        self.slots
            .get(id.index())
            .is_some_and(|slot| slot.generation != id.generation && slot.socket.is_some())
    }

    /// Prefetches a socket.
    #[inline]
    pub(super) fn prefetch(&self, id: u32) {
        prefetch_at(&self.slots, id as usize);
    }

    /// Opens a socket and gives its number.
    pub(super) fn insert(&mut self, socket: Socket) -> u32 {
        if let Some(Reverse(id)) = self.free.pop() {
            self.slots[id as usize].socket = Some(socket);
            return id;
        }
        // Most hosts have one or two, and there may be many hosts.
        reserve_one(&mut self.slots, 1);
        self.slots.push(Slot { socket: Some(socket), ..Slot::default() });
        self.slots.len() as u32 - 1
    }

    /// The socket with that number.
    #[inline]
    pub(super) fn get(&self, id: u32) -> Option<&Socket> {
        self.slots.get(id as usize)?.socket.as_ref()
    }

    /// The socket with that number, to change.
    #[inline]
    pub(super) fn get_mut(&mut self, id: u32) -> Option<&mut Socket> {
        self.slots.get_mut(id as usize)?.socket.as_mut()
    }

    /// A number for a socket that comes by [`take_back`](Self::take_back).
    pub(super) fn reserve(&mut self) -> u32 {
        if let Some(Reverse(id)) = self.free.pop() {
            return id;
        }
        self.slots.push(Slot::default());
        self.slots.len() as u32 - 1
    }

    /// Gives a reserved number back that was not needed.
    pub(super) fn release(&mut self, id: u32) {
        let slot = &mut self.slots[id as usize];
        assert!(slot.socket.is_none(), "socket {id} is in use");
        slot.local_route = false;
        self.free.push(Reverse(id));
    }

    /// A UDP socket hears what comes to `local`.
    pub(super) fn hash_udp(&mut self, local: SocketAddr, id: u32) {
        let there = self.udp.entry((local.port(), local.ip())).or_default();
        // Hardly ever is it shared.
        reserve_one(there, 1);
        there.push(id);
    }

    /// And no more.
    pub(super) fn unhash_udp(&mut self, local: SocketAddr, id: u32) {
        let key = (local.port(), local.ip());
        if let Some(there) = self.udp.get_mut(&key) {
            there.retain(|one| *one != id);
            if there.is_empty() {
                self.udp.remove(&key);
            }
        }
    }

    /// A TCP socket sends to neighbours alone from now on, or no longer.
    pub(super) fn set_local_route(&mut self, id: u32, on: bool) {
        self.slots[id as usize].local_route = on;
    }

    /// Whether the socket with that number is lent out at present, or about to be made, and sends to neighbours alone.
    pub(super) fn lent_has_local_route(&self, id: u32) -> bool {
        self.slots.get(id as usize).is_some_and(|slot| slot.socket.is_none() && slot.local_route)
    }

    /// Lends a socket out; its number stays taken.
    #[inline]
    pub(super) fn lend(&mut self, id: u32) -> Option<Socket> {
        self.slots.get_mut(id as usize)?.socket.take()
    }

    /// Puts a socket in its place.
    #[inline]
    pub(super) fn take_back(&mut self, id: u32, socket: Socket) {
        let slot = &mut self.slots[id as usize].socket;
        assert!(slot.is_none(), "socket {id} was replaced while it was lent out");
        *slot = Some(socket);
    }

    /// Takes a socket out; its number is free once its packets are gone.
    pub(super) fn remove(&mut self, id: u32) -> Option<Socket> {
        let slot = self.slots.get_mut(id as usize)?;
        let socket = slot.socket.take()?;
        slot.generation = slot.generation.wrapping_add(1);
        slot.local_route = false;
        match socket.unsent() {
            0 => self.free.push(Reverse(id)),
            left => drop(self.leaving.insert(id, left)),
        }
        Some(socket)
    }

    /// A packet of a closed socket is gone.
    #[cold]
    pub(super) fn give_back(&mut self, id: u32, truesize: u32) {
        let left = self.leaving.get_mut(&id).expect("a packet's owner is open or leaving");
        *left = left.checked_sub(truesize).expect("more given back than was taken");
        if *left == 0 {
            self.leaving.remove(&id);
            self.free.push(Reverse(id));
        }
    }

    /// Closed sockets whose packets are not gone yet.
    pub fn leaving(&self) -> usize {
        self.leaving.len()
    }

    /// All of them, by number.
    pub fn iter(&self) -> impl Iterator<Item = &Socket> {
        self.slots.iter().filter_map(|slot| slot.socket.as_ref())
    }

    /// All of them, by number, to change.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut Socket> {
        self.slots.iter_mut().filter_map(|slot| slot.socket.as_mut())
    }

    /// The connections that a listener has in the handshake.
    pub(super) fn half_open_of(&self, listener: u32) -> Vec<u32> {
        let numbered = self.slots.iter().zip(0..);
        let waits = |socket: &Socket| match socket {
            Socket::Tcp(TcpSocket::Connection(socket)) => {
                socket.listener() == Some(listener) && !socket.accepted
            }
            _ => false,
        };
        numbered
            .filter(|(slot, _)| slot.socket.as_ref().is_some_and(waits))
            .map(|(_, id)| id)
            .collect()
    }

    /// One more than the highest number that was ever given.
    pub(super) fn numbers(&self) -> u32 {
        self.slots.len() as u32
    }

    /// How many are open.
    pub fn len(&self) -> usize {
        self.slots.len() - self.free.len() - self.leaving.len()
    }

    /// True if none is open.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
