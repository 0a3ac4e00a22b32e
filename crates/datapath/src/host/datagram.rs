//! Connected UDP sockets, and ICMP errors
//! (`__ip4_datagram_connect`, `__udp4_lib_err`).

use super::Host;
use super::socket::{Socket, SocketError};
use super::tcp::WakeCounts;
use super::udp::{UdpSharing, UdpSocket};
use crate::node::SocketId;
use crate::node::SocketReady;
use crate::packet::Body;
use crate::tcp::config::PmtuDiscovery;
use crate::tcp::{Ends, IcmpError, MTU_MIN_V6, PathMtu, SocketError as NetworkError};
use crate::units::Instant;
use core::net::{IpAddr, Ipv4Addr, SocketAddr};

/// An error, as reported to a socket with `IP_RECVERR` (`struct sock_extended_err`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DatagramError {
    /// What it means.
    pub error: NetworkError,
    /// The ICMP message; `None` for an error of this host itself (`SO_EE_ORIGIN_LOCAL`).
    pub icmp: Option<IcmpError>,
    /// For `MessageSize`: the path MTU, bytes; else 0 (`ee_info`).
    pub info: u32,
    /// Who sent it (`SO_EE_OFFENDER`).
    pub offender: IpAddr,
    /// Where the datagram was to go.
    pub remote: SocketAddr,
    /// What the error quotes of its payload.
    pub payload: Body,
}

/// The maximum number of errors that wait for their reader.
const MAX_ERRORS: usize = 128;

impl UdpSocket {
    /// A datagram that was longer than `mtu` lets be (`ip_local_error`, `ipv6_local_error`). Over IPv4 the port is that of
    /// the peer, if there is one, not of who was named.
    pub(super) fn local_error(&mut self, remote: SocketAddr, mtu: u32) {
        let mut remote = remote;
        if remote.is_ipv4() {
            remote.set_port(self.peer.map_or(0, |peer| peer.port()));
        }
        if !self.wants_errors(remote.is_ipv6()) {
            return;
        }
        let (error, offender) = (NetworkError::MessageSize, remote.ip());
        let payload = Body::default();
        let told = DatagramError { error, icmp: None, info: mtu, offender, remote, payload };
        if self.queue_error(told) {
            self.wakes.state = self.wakes.state.wrapping_add(1);
        }
    }

    /// Keeps an error for its reader; false: too many wait already (`sock_queue_err_skb`).
    fn queue_error(&mut self, told: DatagramError) -> bool {
        let has_room = self.errors.len() < MAX_ERRORS;
        if has_room {
            self.errors.push_back(told);
        }
        has_room
    }

    /// Takes the first of the waiting errors. The socket error is then that of the next ICMP message, or
    /// none after the last (`sock_dequeue_err_skb`).
    fn take_queued_error(&mut self) -> Option<DatagramError> {
        let told = self.errors.pop_front()?;
        let next = self.errors.front().filter(|next| next.icmp.is_some());
        match next {
            Some(next) => self.error = Some(next.error),
            None if told.icmp.is_some() => self.error = None,
            None => {}
        }
        Some(told)
    }
}

impl Host {
    /// Whether a UDP socket that shares it with nobody, or not with such a one, has this port at this address, or at all
    /// addresses (`udp_lib_lport_inuse`, `inet_rcv_saddr_equal`).
    pub(super) fn udp_port_is_taken(&self, local: SocketAddr, sharing: UdpSharing) -> bool {
        let port = local.port();
        let bound = self.sockets.udp.range((port, LOWEST)..).take_while(|((it, _), _)| *it == port);
        bound.into_iter().any(|(&(_, ip), there)| {
            there.iter().any(|id| match self.sockets.get(*id) {
                Some(Socket::Udp(socket)) => {
                    let shared = socket.reuse_address && sharing.address
                        || socket.reuse_port && sharing.port;
                    !shared && overlap((ip, socket.v6_only), (local.ip(), sharing.v6_only))
                }
                _ => false,
            })
        })
    }

    /// Connects a UDP socket: it receives only from `remote` from now on, and gets the source address of the
    /// route.
    ///
    /// # Errors
    /// It is not a UDP socket, or there is no route.
    pub fn udp_connect(&mut self, id: SocketId, remote: SocketAddr) -> Result<(), SocketError> {
        let source = self.source_address(remote.ip()).ok_or(SocketError::Unreachable)?;
        let local = self.udp_socket(id)?.local;
        if local.ip().is_unspecified() {
            self.udp_rebind(id, SocketAddr::new(source, local.port()))?;
        }
        let socket = self.udp_socket(id)?;
        socket.peer = Some(remote);
        socket.draw_hash(remote);
        Ok(())
    }

    /// Undoes `connect`; the socket is at `local` again.
    ///
    /// # Errors
    /// It is not an open UDP socket.
    pub fn udp_disconnect(&mut self, id: SocketId, local: SocketAddr) -> Result<(), SocketError> {
        let socket = self.udp_socket(id)?;
        socket.peer = None;
        self.udp_rebind(id, local)
    }

    /// Undoes `connect` of a socket that was not bound explicitly: it has no port any more, and receives nothing.
    /// Datagrams not yet read stay.
    ///
    /// # Errors
    /// It is not an open UDP socket.
    pub(crate) fn udp_unbind(&mut self, id: SocketId, any: SocketAddr) -> Result<(), SocketError> {
        let socket = self.udp_socket(id)?;
        socket.peer = None;
        let old = core::mem::replace(&mut socket.local, any);
        let slot = self.sockets.slot(id)?;
        self.sockets.unhash_udp(old, slot);
        Ok(())
    }

    /// A socket that has given its port back gets one again.
    ///
    /// # Errors
    /// The address is in use, or no port is free.
    pub(crate) fn udp_bind_again(
        &mut self,
        id: SocketId,
        local: SocketAddr,
        sharing: UdpSharing,
    ) -> Result<(), SocketError> {
        let local = self.udp_free_address(local, sharing)?;
        let slot = self.sockets.slot(id)?;
        self.sockets.hash_udp(local, slot);
        self.udp_socket(id)?.local = local;
        Ok(())
    }

    /// Moves a socket to another address, whoever is there.
    fn udp_rebind(&mut self, id: SocketId, local: SocketAddr) -> Result<(), SocketError> {
        let slot = self.sockets.slot(id)?;
        let old = self.open_udp(id)?.local;
        self.sockets.unhash_udp(old, slot);
        self.sockets.hash_udp(local, slot);
        self.udp_socket(id)?.local = local;
        Ok(())
    }

    /// Whom a UDP socket is connected to.
    ///
    /// # Errors
    /// It is not an open UDP socket.
    pub fn udp_peer(&self, id: SocketId) -> Result<Option<SocketAddr>, SocketError> {
        Ok(self.open_udp(id)?.peer)
    }

    /// The largest packet to the peer of a connected socket (`IP_MTU`), bytes.
    ///
    /// # Errors
    /// It is not an open UDP socket.
    pub fn udp_path_mtu(&mut self, now: Instant, id: SocketId) -> Result<Option<u32>, SocketError> {
        let socket = self.open_udp(id)?;
        let Some(peer) = socket.peer else { return Ok(None) };
        let discovery = socket.discovery(peer.is_ipv6());
        Ok(Some(self.mtu_towards(now, peer.ip(), discovery)))
    }

    /// A UDP socket, to look at; `None` if it is not an open one.
    pub fn udp(&self, id: SocketId) -> Option<&UdpSocket> {
        self.open_udp(id).ok()
    }

    pub(super) fn open_udp(&self, id: SocketId) -> Result<&UdpSocket, SocketError> {
        match self.sockets.get(self.sockets.slot(id)?) {
            Some(Socket::Udp(socket)) => Ok(socket),
            _ => Err(SocketError::WrongKind),
        }
    }

    /// The pending error (`sock_error`).
    ///
    /// # Errors
    /// It is not an open UDP socket.
    pub fn udp_take_error(&mut self, id: SocketId) -> Result<Option<NetworkError>, SocketError> {
        Ok(self.udp_socket(id)?.error.take())
    }

    /// The next error of a socket with `IP_RECVERR`.
    ///
    /// # Errors
    /// It is not an open UDP socket.
    pub fn udp_take_icmp(&mut self, id: SocketId) -> Result<Option<DatagramError>, SocketError> {
        Ok(self.udp_socket(id)?.take_queued_error())
    }

    /// Forgets the errors that wait, as switching `IP_RECVERR` off does (`skb_errqueue_purge`).
    pub(crate) fn udp_purge_errors(&mut self, id: SocketId) {
        if let Ok(socket) = self.udp_socket(id) {
            socket.errors.clear();
        }
    }

    /// Whether there is a pending error, or ICMP errors wait.
    ///
    /// # Errors
    /// It is not an open UDP socket.
    pub fn udp_has_error(&self, id: SocketId) -> Result<bool, SocketError> {
        Ok(self.open_udp(id)?.has_error())
    }

    /// How often the waiters of a UDP socket have been woken.
    ///
    /// # Errors
    /// It is not an open UDP socket.
    pub fn udp_wakes(&self, id: SocketId) -> Result<WakeCounts, SocketError> {
        Ok(self.open_udp(id)?.wakes)
    }

    /// An ICMP error about a datagram of this host.
    pub(super) fn udp_error(
        &mut self,
        now: Instant,
        Ends { local, remote }: Ends,
        icmp: IcmpError,
        offender: IpAddr,
        payload: Body,
    ) {
        let Some(id) = self.udp_lookup(local, remote) else { return };
        let Some((error, hard)) = icmp.for_datagrams() else { return };
        let Some(Socket::Udp(socket)) = self.sockets.get_mut(id) else { return };
        let mut hard = hard;
        if error == NetworkError::MessageSize {
            let discovery = socket.discovery(icmp.ipv6);
            hard = discovery != PmtuDiscovery::Dont;
            if discovery.uses_path_mtu() && (icmp.mtu > 0 || !icmp.ipv6) {
                self.update_datagram_pmtu(now, remote.ip(), icmp.mtu);
            }
        }
        let Some(Socket::Udp(socket)) = self.sockets.get_mut(id) else { return };
        if socket.wants_errors(icmp.ipv6) {
            let info = if error == NetworkError::MessageSize { icmp.mtu } else { 0 };
            let icmp = Some(icmp);
            // The socket's error is reported even if the queue is full.
            socket.queue_error(DatagramError { error, icmp, info, offender, remote, payload });
        } else if !hard || socket.peer.is_none() {
            return;
        }
        socket.error = Some(error);
        socket.wakes.state = socket.wakes.state.wrapping_add(1);
        self.notify(id, SocketReady::ERROR);
    }

    /// Packets to `remote` are too large from this size on (`ipv4_sk_update_pmtu`).
    pub(super) fn update_datagram_pmtu(&mut self, now: Instant, remote: IpAddr, mtu: u32) {
        let old = self.path_towards(now, remote, PmtuDiscovery::Want);
        if old.locked || old.bytes < mtu {
            return;
        }
        let path = if remote.is_ipv4() {
            PathMtu::from_report(mtu, old.bytes, self.tcp_stack().defaults.sysctl.min_pmtu)
        } else if mtu < MTU_MIN_V6 {
            // Not to be believed (`__ip6_rt_update_pmtu`).
            return;
        } else {
            PathMtu { bytes: mtu, locked: false }
        };
        self.learnt_mtu = Some(Box::new((remote, path, now)));
        self.keep_path_mtu();
    }
}

/// Whether two addresses have packets in common; with each whether it is of IPv6 alone. That of all of IPv6 is one of IPv4 as
/// well.
fn overlap((one, one_v6_only): (IpAddr, bool), (two, two_v6_only): (IpAddr, bool)) -> bool {
    let all = |any: IpAddr, v6_only: bool, other: IpAddr| {
        any.is_unspecified() && (any.is_ipv4() == other.is_ipv4() || any.is_ipv6() && !v6_only)
    };
    one == two || all(one, one_v6_only, two) || all(two, two_v6_only, one)
}

/// The address that all others come after.
const LOWEST: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
