//! Local addresses and ports of TCP sockets.

use super::Host;
use super::udp::EPHEMERAL;
use crate::fib::Decision;
use crate::tcp::SocketError;
use crate::tcp::config::TcpConfig;
use crate::tcp::fastopen::switch;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

impl Host {
    /// Whether packets to `ip` are for this host, or `ip` stands for all of its addresses.
    pub fn is_local_address(&self, ip: IpAddr) -> bool {
        ip.is_unspecified() || self.route_to(ip) == Decision::Local
    }

    /// The loopback address of the family of `ip`.
    pub fn loopback_like(&self, ip: IpAddr) -> IpAddr {
        match ip {
            IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
            IpAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
        }
    }

    /// A port that no TCP socket is bound to at `ip`.
    pub fn tcp_free_port(&mut self, ip: IpAddr) -> Option<u16> {
        for _ in EPHEMERAL {
            let port = self.next_ephemeral();
            let taken = self.tcp_sockets().any(|(local, ..)| {
                local.port() == port
                    && (local.ip() == ip || local.ip().is_unspecified() || ip.is_unspecified())
            });
            if !taken {
                return Some(port);
            }
        }
        None
    }

    /// The local end of a connection to `remote`: what `local` leaves open is filled in.
    ///
    /// # Errors
    /// No route, or no free port, or there is such a connection already.
    pub fn tcp_local_for(
        &mut self,
        local: SocketAddr,
        remote: SocketAddr,
    ) -> Result<SocketAddr, SocketError> {
        let mut local = local;
        if local.ip().is_unspecified() {
            let source = self.source_address(remote.ip());
            local.set_ip(source.ok_or(SocketError::NetUnreachable)?);
        }
        if local.port() == 0 {
            let free = self.free_tcp_port(local.ip(), remote);
            local.set_port(free.ok_or(SocketError::AddressNotAvailable)?);
        } else if self.is_connected(local, remote) {
            return Err(SocketError::AddressNotAvailable);
        }
        Ok(local)
    }

    pub(super) fn next_ephemeral(&mut self) -> u16 {
        let last = self.sockets.last_ephemeral;
        let next = if EPHEMERAL.contains(&last) && last < *EPHEMERAL.end() {
            last + 1
        } else {
            *EPHEMERAL.start()
        };
        self.sockets.last_ephemeral = next;
        next
    }

    /// Whether data may go with a SYN to `remote`: Fast Open is on, and a cookie is known or none
    /// is needed (`tcp_fastopen_defer_connect`).
    pub fn tcp_may_send_syn_data(&mut self, remote: SocketAddr, config: &TcpConfig) -> bool {
        if config.sysctl.tcp_fastopen & switch::CLIENT == 0 {
            return false;
        }
        let free = config.sysctl.tcp_fastopen & switch::CLIENT_NO_COOKIE != 0
            || config.socket.fastopen_no_cookie;
        let Some(local) = self.source_address(remote.ip()) else { return false };
        let metrics = self.tcp_stack().shared.metrics.get(&(local, remote.ip()));
        free || metrics.is_some_and(|metrics| metrics.cookie.is_some())
    }
}
