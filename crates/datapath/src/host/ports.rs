//! Local addresses and ports of TCP sockets.

use super::Host;
use crate::fib::{Decision, Scope};
use crate::tcp::config::SysctlError;
use crate::tcp::config::TcpConfig;
use crate::tcp::fastopen::switch;
use crate::tcp::sysctl::number_within;
use crate::tcp::{Ends, SocketError};
use crate::units::Instant;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Ports for those who ask for none (`net.ipv4.ip_local_port_range`), one after the other.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ephemeral {
    first: u16,
    last: u16,
    /// The port given out last.
    given: u16,
}

impl Default for Ephemeral {
    fn default() -> Self {
        Self { first: 32_768, last: 60_999, given: 0 }
    }
}

impl Ephemeral {
    /// How many there are.
    pub fn count(self) -> u32 {
        u32::from(self.last) - u32::from(self.first) + 1
    }

    /// How many of them a TCP socket tries: one of an odd number is left out
    /// (`inet_csk_find_open_port`, `__inet_hash_connect`).
    pub fn attempts(self) -> u32 {
        match self.count() {
            1 => 1,
            count => count & !1,
        }
    }

    /// The one after that given out last.
    pub fn next(&mut self) -> u16 {
        let within = (self.first..self.last).contains(&self.given);
        self.given = if within { self.given + 1 } else { self.first };
        self.given
    }

    /// Begins somewhere else.
    pub fn start_at(&mut self, number: u64) {
        self.given = self.first + (number % u64::from(self.count())) as u16;
    }

    /// As `ipv4_local_port_range` takes it: what is left out stays, what is too much is not looked at.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), SysctlError> {
        const PORTS: core::ops::RangeInclusive<i64> = 1..=u16::MAX as i64;
        const PRIVILEGED: u16 = 1_024;
        let mut words = value.split_whitespace();
        let first = match words.next() {
            Some(word) => number_within(name, word, PORTS)? as u16,
            None => return Err(SysctlError::Value(format!("{name} wants two ports"))),
        };
        let last = words.next().map(|word| number_within(name, word, PORTS)).transpose()?;
        let last = last.map_or(self.last, |last| last as u16);
        if last < first || first < PRIVILEGED {
            let rule =
                format!("{name}: the first port is {PRIVILEGED} at least, the last no smaller");
            return Err(SysctlError::Value(rule));
        }
        (self.first, self.last) = (first, last);
        Ok(())
    }
}

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
        for _ in 0..self.sockets.ephemeral.attempts() {
            let port = self.sockets.ephemeral.next();
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
    /// No route, or one to everybody (`tcp_v4_connect`, `tcp_v6_connect`); or no free port, or there is such a
    /// connection already, and not in TIME-WAIT, or there without timestamps.
    pub fn tcp_local_for(
        &mut self,
        now: Instant,
        local: SocketAddr,
        remote: SocketAddr,
    ) -> Result<SocketAddr, SocketError> {
        self.tcp_local_within(now, local, remote, Scope::UNIVERSE)
    }

    /// The same by routes that lead no further than `scope`.
    pub(crate) fn tcp_local_within(
        &mut self,
        now: Instant,
        local: SocketAddr,
        remote: SocketAddr,
        scope: Scope,
    ) -> Result<SocketAddr, SocketError> {
        if remote.ip().is_multicast() || self.is_for_all(remote.ip()) {
            return Err(SocketError::NetUnreachable);
        }
        let mut local = local;
        if local.ip().is_unspecified() {
            let source = self.source_within(remote.ip(), scope);
            local.set_ip(source.ok_or(SocketError::NetUnreachable)?);
        }
        if local.port() == 0 {
            let free = self.free_tcp_port(now, local.ip(), remote);
            local.set_port(free.ok_or(SocketError::AddressNotAvailable)?);
        } else if !self.may_connect(Ends { local, remote }) {
            return Err(SocketError::AddressNotAvailable);
        }
        Ok(local)
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
