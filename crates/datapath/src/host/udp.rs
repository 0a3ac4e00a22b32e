//! UDP sockets: datagrams in, datagrams out, buffers counted in `truesize`.

mod hear;
mod label;
mod send;

pub(super) use send::network_header;

use super::Host;
use super::datagram::DatagramError;
use super::socket::{Datagram, Socket, SocketError};
use super::tcp::WakeCounts;
use crate::node::SocketId;
use crate::packet::DEFAULT_TTL;
use crate::tcp::SocketError as NetworkError;
use crate::tcp::config::{Ipv6Options, PmtuDiscovery};
use crate::units::Instant;
use core::net::{IpAddr, SocketAddr};
use std::collections::VecDeque;

/// `net.core.rmem_default`.
pub const UDP_RECEIVE_BUFFER: u32 = 212_992;
/// `net.core.wmem_default`.
pub const UDP_SEND_BUFFER: u32 = 212_992;

/// Largest packet of a host to itself (`lo`).
pub(super) const LOOPBACK_MTU: u32 = 65_536;

/// What control messages say of one datagram (`struct ipcm_cookie`, `struct ipcm6_cookie`).
#[derive(Clone, Copy, Debug, Default)]
pub struct IpcmCookie {
    /// Its source (`IP_PKTINFO`, `IPV6_PKTINFO`).
    pub source: Option<IpAddr>,
    /// Its traffic class (`IP_TOS`, `IPV6_TCLASS`).
    pub tos: Option<u8>,
    /// `skb->priority` (`SO_PRIORITY`, or what follows from `IP_TOS`).
    pub priority: Option<u32>,
    /// `skb->mark` (`SO_MARK`).
    pub mark: Option<u32>,
    /// Its flow label, 20 bits (`sin6_flowinfo`); 0: none.
    pub flow_label: u32,
    /// Its TTL or hop limit (`IP_TTL`, `IPV6_HOPLIMIT`).
    pub ttl: Option<u8>,
    /// It is to be cut into datagrams of so many bytes (`UDP_SEGMENT`); 0: not.
    pub gso_size: u16,
    /// It must not be fragmented (`IPV6_DONTFRAG`).
    pub dont_fragment: bool,
    /// It goes to neighbours only (`MSG_DONTROUTE`, `SO_DONTROUTE`).
    pub dont_route: bool,
}

/// How a socket may share its address.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct UdpSharing {
    /// `IPV6_V6ONLY`: the address of all of IPv6 is none of IPv4.
    pub v6_only: bool,
    /// `SO_REUSEADDR`.
    pub address: bool,
    /// `SO_REUSEPORT`.
    pub port: bool,
}

/// One UDP socket.
#[derive(Debug)]
pub struct UdpSocket {
    /// Where it is bound.
    pub local: SocketAddr,
    /// Receive buffer in bytes of truesize (`SO_RCVBUF`).
    pub receive_buffer: u32,
    /// Send buffer in bytes of truesize (`SO_SNDBUF`).
    pub send_buffer: u32,
    /// Traffic class of what it sends (`IP_TOS`).
    pub tos: u8,
    /// Time to live of what it sends over IPv4 (`IP_TTL`).
    pub ttl: u8,
    /// Hop limit of what it sends over IPv6 (`IPV6_UNICAST_HOPS`).
    pub hop_limit: u8,
    /// `skb->priority` of what it sends (`SO_PRIORITY`).
    pub priority: u32,
    /// What to do with datagrams larger than the path takes (`IP_MTU_DISCOVER`).
    pub pmtu_discovery: PmtuDiscovery,
    /// Errors are told at once, and kept with what they are about (`IP_RECVERR`).
    pub recverr: bool,
    /// What an `AF_INET6` socket keeps for what goes over IPv6; without it that goes by the options of IPv4.
    pub ipv6: Option<Ipv6Options>,
    /// The largest packet over IPv6 that it makes (`IPV6_MTU`), bytes.
    pub frag_size: Option<u32>,
    /// `skb->mark` of what it sends (`SO_MARK`).
    pub mark: u32,
    /// So fast its packets leave fq at most, in byte/s (`sk_pacing_rate`): the least that `SO_MAX_PACING_RATE` has
    /// said; `u64::MAX` if it has said nothing.
    pub pacing_rate: u64,
    /// An IPv6 socket without IPv4 (`IPV6_V6ONLY`).
    pub v6_only: bool,
    /// Its address may be shared with others that also set this (`SO_REUSEADDR`): the youngest receives datagrams.
    pub reuse_address: bool,
    /// The same, and datagrams are distributed among the sharing sockets by their senders (`SO_REUSEPORT`).
    pub reuse_port: bool,
    /// Datagrams of one sender that come together are read together (`UDP_GRO`).
    pub(super) gro: bool,
    /// Datagrams that did not fit in the receive buffer (`RcvbufErrors`).
    pub receive_drops: u64,
    /// The peer, if it is connected.
    pub(super) peer: Option<SocketAddr>,
    /// The hash of its packets (`sk_txhash`); 0 until it is connected.
    hash: u32,
    /// The flow label that the latest datagram was told to have; 0: none (`IPV6_FLOWINFO_SEND`).
    pub(super) told_label: u32,
    /// The latest datagram was to go to neighbours alone (`MSG_DONTROUTE`, `SO_DONTROUTE`).
    pub(super) told_dont_route: bool,
    /// The pending error (`sk_err`).
    pub(super) error: Option<NetworkError>,
    /// ICMP errors with `recverr`.
    pub(super) errors: VecDeque<DatagramError>,
    /// How often its waiters were woken.
    pub(super) wakes: WakeCounts,
    /// What waits to be read.
    received: VecDeque<Waiting>,
    /// Truesize of what waits, and of what has been read and not yet given back (`sk_rmem_alloc`).
    received_truesize: u32,
    /// How many of those that wait lie in the reader's own queue (`reader_queue`): what comes after it took all
    /// there was lies in another.
    reader_queue: usize,
    /// Truesize of what has been read and not yet given back.
    forward_deficit: u32,
    /// What is set aside for datagrams to come, in whole pages with what is used (`sk_forward_alloc`).
    forward_alloc: u32,
    /// `sk_wmem_alloc`: truesize of what is queued below and not yet sent.
    unsent_truesize: u32,
    wants_room: bool,
}

/// A datagram that waits to be read.
#[derive(Debug)]
struct Waiting {
    datagram: Datagram,
    truesize: u32,
    /// It has no bytes, and a peek has seen it (`skb->peeked`).
    peeked: bool,
}

impl UdpSocket {
    fn new(local: SocketAddr) -> Self {
        Self {
            local,
            receive_buffer: UDP_RECEIVE_BUFFER,
            send_buffer: UDP_SEND_BUFFER,
            tos: 0,
            ttl: DEFAULT_TTL,
            hop_limit: DEFAULT_TTL,
            priority: 0,
            pmtu_discovery: PmtuDiscovery::default(),
            recverr: false,
            ipv6: None,
            frag_size: None,
            mark: 0,
            pacing_rate: u64::MAX,
            v6_only: false,
            reuse_address: false,
            reuse_port: false,
            gro: false,
            receive_drops: 0,
            peer: None,
            hash: 0,
            told_label: 0,
            told_dont_route: false,
            error: None,
            errors: VecDeque::new(),
            wakes: WakeCounts::default(),
            received: VecDeque::new(),
            received_truesize: 0,
            reader_queue: 0,
            forward_deficit: 0,
            forward_alloc: 0,
            unsent_truesize: 0,
            wants_room: false,
        }
    }

    /// `IP_MTU_DISCOVER`, or IPv6's where that is spoken.
    pub(super) fn discovery(&self, ipv6: bool) -> PmtuDiscovery {
        self.ipv6.filter(|_| ipv6).map_or(self.pmtu_discovery, |own| own.pmtu_discovery)
    }

    /// `IP_TOS`, or IPv6's traffic class where that is spoken.
    fn tos(&self, ipv6: bool) -> u8 {
        self.ipv6.filter(|_| ipv6).map_or(self.tos, |own| own.traffic_class)
    }

    /// `IP_RECVERR`, or IPv6's where that is spoken.
    pub fn wants_errors(&self, ipv6: bool) -> bool {
        self.ipv6.filter(|_| ipv6).map_or(self.recverr, |own| own.recverr)
    }

    /// A packet of this socket has left or was dropped. True if there is now room and somebody may wait
    /// for it: a writer, or who polls (`sock_def_write_space`: half of the buffer free).
    pub(super) fn give_back(&mut self, truesize: u32) -> bool {
        let had_room = self.is_writable();
        self.unsent_truesize =
            self.unsent_truesize.checked_sub(truesize).expect("more given back than was taken");
        let woken = (self.wants_room || !had_room) && self.is_writable();
        self.wants_room &= !woken;
        self.wakes.write += u32::from(woken);
        woken
    }

    /// Half of the send buffer is free (`sock_writeable`).
    pub fn is_writable(&self) -> bool {
        self.unsent_truesize * 2 <= self.send_buffer
    }

    /// Whether there is an error to be told.
    pub(crate) fn has_error(&self) -> bool {
        self.error.is_some() || !self.errors.is_empty()
    }

    /// The datagram that will be read next.
    pub fn first(&self) -> Option<&Datagram> {
        self.received.front().map(|waiting| &waiting.datagram)
    }

    /// What is queued to be sent, and not yet gone, in bytes of truesize (`SIOCOUTQ`).
    pub fn unsent(&self) -> u32 {
        self.unsent_truesize
    }

    /// Truesize of what waits to be read, and of what was read and not yet given back; what is set aside besides
    /// (`SK_MEMINFO_RMEM_ALLOC`, `SK_MEMINFO_FWD_ALLOC`).
    pub(crate) fn receive_memory(&self) -> (u32, u32) {
        (self.received_truesize, self.forward_alloc)
    }

    /// Queues what arrived; false if the receive buffer is full (`__udp_enqueue_schedule_skb`): `is_hard` says that it is not
    /// exceeded, but by a single datagram.
    fn accept(
        &mut self,
        datagram: Datagram,
        truesize: u32,
        is_hard: impl FnOnce() -> bool,
    ) -> bool {
        let there = self.received_truesize;
        let is_full = there > self.receive_buffer
            || there > 0 && there + truesize > self.receive_buffer && is_hard();
        if is_full {
            self.receive_drops += 1;
            return false;
        }
        self.received_truesize += truesize;
        let lacking = truesize.saturating_sub(self.forward_alloc);
        self.forward_alloc = self.forward_alloc + lacking.next_multiple_of(PAGE) - truesize;
        self.received.push_back(Waiting { datagram, truesize, peeked: false });
        self.check();
        self.wakes.read = self.wakes.read.wrapping_add(1);
        true
    }

    /// The reader looks: what has come is in its own queue from now on (`__skb_recv_udp`).
    fn move_to_reader_queue(&mut self) {
        if self.reader_queue == 0 {
            self.reader_queue = self.received.len();
        }
    }

    /// The datagram that a peek finds, and how many of its bytes come before `offset`, if there is one (`SO_PEEK_OFF`,
    /// `__skb_try_recv_from_queue`).
    pub(crate) fn peek(&mut self, offset: Option<u32>) -> Option<(Datagram, u32)> {
        self.move_to_reader_queue();
        let mut left = offset.unwrap_or(0);
        for waiting in &mut self.received {
            let len = waiting.datagram.body.len;
            if offset.is_some() && left >= len && (left > 0 || waiting.peeked) {
                left -= len;
                continue;
            }
            waiting.peeked |= len == 0;
            return Some((waiting.datagram.clone(), left));
        }
        None
    }

    fn read(&mut self) -> Option<Datagram> {
        self.move_to_reader_queue();
        let Waiting { datagram, truesize, .. } = self.received.pop_front()?;
        self.reader_queue -= 1;
        self.forward_deficit += truesize;
        // Memory goes back by quarters of the buffer, or with the last of the reader's queue (`udp_rmem_release`).
        if self.forward_deficit >= self.receive_buffer >> 2 || self.reader_queue == 0 {
            let size = core::mem::take(&mut self.forward_deficit);
            self.received_truesize -= size;
            self.forward_alloc += size;
            self.forward_alloc -= (self.forward_alloc - 1) / PAGE * PAGE;
        }
        self.check();
        Some(datagram)
    }

    /// What the receive buffer is charged is what waits in it, and what was not given back.
    fn check(&self) {
        let waits = || self.received.iter().map(|waiting| waiting.truesize).sum::<u32>();
        debug_assert_eq!(self.received_truesize, waits() + self.forward_deficit, "the charge");
    }
}

/// What a packet with `payload` bytes in one buffer is charged as: the buffer that `__ip_append_data` asks for, as the slab
/// allocator rounds it up, and the packet's own record. What is longer than the largest buffer lies in pages.
pub(super) fn truesize_of(payload: u32) -> u32 {
    let asked = payload + HEADROOM;
    let head = asked.next_multiple_of(CACHE_LINE) + SHARED_INFO;
    match head {
        ..=SMALL_HEAD => SK_BUFF + SMALL_HEAD,
        _ if asked >= SKB_MAX_ALLOC => truesize_in_pages(payload),
        _ => SK_BUFF + head.next_power_of_two(),
    }
}

/// The same with the payload in pages, as that of a datagram that will be cut (`UDP_SEGMENT`).
pub(super) fn truesize_in_pages(payload: u32) -> u32 {
    SK_BUFF + SMALL_HEAD + payload
}

/// What a datagram is charged as when it is sent or waits to be read.
fn truesize_with(len: u32, gso_size: u32) -> u32 {
    if gso_size == 0 { truesize_of(len) } else { truesize_in_pages(len) }
}

/// Bytes before the payload: those of the link, of IPv4 and of UDP.
const HEADROOM: u32 = 16 + 15 + 20 + 8;
/// `PAGE_SIZE`.
const PAGE: u32 = 4_096;
/// `SMP_CACHE_BYTES`.
const CACHE_LINE: u32 = 64;
/// `struct skb_shared_info`.
const SHARED_INFO: u32 = 320;
/// `struct sk_buff`.
const SK_BUFF: u32 = 256;
/// `SKB_SMALL_HEAD_CACHE_SIZE` with its shared info.
const SMALL_HEAD: u32 = 576;
/// `SKB_MAX_ALLOC`: the largest buffer in one piece.
const SKB_MAX_ALLOC: u32 = 4 * 4_096 - SHARED_INFO;

impl Host {
    /// Opens a UDP socket at `local`; port 0 means any free port, an unspecified address means
    /// all addresses.
    ///
    /// # Errors
    /// The address is in use, or no port is free.
    pub fn udp_bind(&mut self, now: Instant, local: SocketAddr) -> Result<SocketId, SocketError> {
        // An address of IPv4 and that of all IPv6 are two, for those who do not say otherwise.
        self.udp_bind_with(now, local, UdpSharing { v6_only: true, ..UdpSharing::default() })
    }

    /// The same for a socket that may share its address with others.
    ///
    /// # Errors
    /// As above.
    pub(crate) fn udp_bind_with(
        &mut self,
        now: Instant,
        local: SocketAddr,
        sharing: UdpSharing,
    ) -> Result<SocketId, SocketError> {
        self.begin_syscall(now);
        let local = self.udp_free_address(local, sharing)?;
        let mut socket = UdpSocket::new(local);
        if local.is_ipv4() {
            socket.pmtu_discovery = self.new_discovery();
        }
        let id = self.sockets.insert(Socket::Udp(Box::new(socket)));
        self.sockets.hash_udp(local, id);
        Ok(self.sockets.id(id))
    }

    /// An address that a socket may be bound to, with a port if none is asked for.
    pub(super) fn udp_free_address(
        &mut self,
        local: SocketAddr,
        sharing: UdpSharing,
    ) -> Result<SocketAddr, SocketError> {
        let port = match local.port() {
            0 => self.free_udp_port(local.ip(), sharing)?,
            _ if self.udp_port_is_taken(local, sharing) => return Err(SocketError::AddressInUse),
            port => port,
        };
        Ok(SocketAddr::new(local.ip(), port))
    }

    fn free_udp_port(&mut self, ip: IpAddr, sharing: UdpSharing) -> Result<u16, SocketError> {
        let alone = UdpSharing { v6_only: sharing.v6_only, ..UdpSharing::default() };
        for _ in 0..self.sockets.ephemeral.count() {
            let port = self.sockets.ephemeral.next();
            if !self.udp_port_is_taken(SocketAddr::new(ip, port), alone) {
                return Ok(port);
            }
        }
        Err(SocketError::AddressNotAvailable)
    }

    /// A UDP socket, to set its options.
    ///
    /// # Errors
    /// It is not an open UDP socket.
    pub fn udp_socket(&mut self, id: SocketId) -> Result<&mut UdpSocket, SocketError> {
        let slot = self.sockets.slot(id)?;
        match self.sockets.get_mut(slot) {
            Some(Socket::Udp(socket)) => Ok(socket),
            _ => Err(SocketError::WrongKind),
        }
    }

    /// The next datagram that arrived on a UDP or ping socket; `None` if there is none.
    ///
    /// # Errors
    /// It is not an open UDP or ping socket.
    pub fn datagram_read(&mut self, id: SocketId) -> Result<Option<Datagram>, SocketError> {
        let slot = self.sockets.slot(id)?;
        match self.sockets.get_mut(slot) {
            Some(Socket::Udp(socket)) => {
                let datagram = socket.read();
                if let Some(datagram) = &datagram {
                    self.count(datagram.from.is_ipv6()).udp_in_datagrams += 1;
                }
                Ok(datagram)
            }
            Some(Socket::Ping(replies)) => Ok(replies.pop_front()),
            _ => Err(SocketError::WrongKind),
        }
    }

    /// Closes a UDP or ping socket.
    ///
    /// # Errors
    /// It is not an open UDP or ping socket.
    pub fn datagram_close(&mut self, id: SocketId) -> Result<(), SocketError> {
        let slot = self.sockets.slot(id)?;
        match self.sockets.get(slot) {
            Some(Socket::Udp(socket)) => {
                let (local, limited) = (socket.local, socket.pacing_rate != u64::MAX);
                self.sockets.unhash_udp(local, slot);
                if limited {
                    self.limit_sender(slot, u64::MAX);
                }
            }
            Some(Socket::Ping(_)) => self.release_ping(slot),
            _ => return Err(SocketError::WrongKind),
        }
        self.sockets.remove(slot);
        Ok(())
    }
}
