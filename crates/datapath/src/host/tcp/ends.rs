//! The two ends of a connection: address, port, what the route between them says, and the first
//! sequence number.

use crate::fib::{Decision, Features, RouteKey};
use crate::host::scope::rt_scope;
use crate::host::udp::LOOPBACK_MTU;
use crate::host::{Host, SocketError};
use crate::packet::seq::Seq;
use crate::tcp::config::{Sysctl, SysctlError, TcpConfig};
use crate::tcp::{Endpoints, Ends, PathMtu};
use crate::units::{Duration, Instant};
use core::hash::Hasher as _;
use core::net::{IpAddr, SocketAddr};
use siphasher::sip::SipHasher24;

impl Host {
    /// Initial sequence numbers, SYN cookies and the first local port become such as nobody can guess:
    /// for hosts between real ones. Without it they are the same in each run.
    pub fn set_secret(&mut self, secret: [u64; 2]) {
        self.tcp_stack().secret = secret;
        self.sockets.ephemeral.start_at(secret[0] ^ secret[1]);
    }

    /// The ends of a connection with what the route says.
    pub(in crate::host) fn endpoints(
        &mut self,
        now: Instant,
        ends: Ends,
        config: &TcpConfig,
    ) -> Endpoints {
        let Ends { local, remote } = ends;
        let scope = rt_scope(config.socket.dont_route);
        let mut mtu = match self.route_within(remote.ip(), scope) {
            Decision::Forward(hop) => self.ports[usize::from(hop.port)].config.mtu,
            Decision::Local
            | Decision::Blackhole
            | Decision::Unreachable
            | Decision::Prohibit
            | Decision::NoRoute => LOOPBACK_MTU,
        };
        let matching = self.fib().matching(&RouteKey { scope, ..RouteKey::to(remote.ip()) });
        let ecn = matching.as_ref().is_some_and(|route| route.features.contains(Features::ECN));
        let mut route = matching.map(|route| route.metrics).unwrap_or_default();
        if let Some(by_route) = route.mtu {
            mtu = mtu.min(by_route.get());
        }
        if !route.mtu_locked
            && let Some(path) = self.path_mtu(now, remote.ip())
        {
            mtu = mtu.min(path.bytes);
            route.mtu_locked = path.locked;
        }
        let iss = initial_sequence_number(self.tcp_stack().secret, now, ends);
        Endpoints { local, remote, mtu, iss, ecn, route, reopens: false, ts_recent: (0, 0) }
    }

    /// What ICMP has told about the path to `remote`.
    pub(crate) fn path_mtu(&mut self, now: Instant, remote: IpAddr) -> Option<PathMtu> {
        let paths = &mut self.tcp_stack().learnt.as_mut()?.path_mtus;
        let &(path, until) = paths.get(&remote)?;
        if until <= now {
            paths.remove(&remote);
            return None;
        }
        Some(path)
    }

    /// Keeps what a socket has learnt about its path (`update_or_create_fnhe`). What is known already is kept
    /// for as long again only once half of its time has passed (`__ip_rt_update_pmtu`).
    #[cold]
    pub(in crate::host) fn keep_path_mtu(&mut self) {
        let Some(learnt) = self.learnt_mtu.take() else { return };
        let (remote, path, now) = *learnt;
        let stack = self.tcp_stack();
        let expires = Sysctl::seconds(stack.defaults.sysctl.mtu_expires);
        let lifetime = Duration::from_secs(expires.into());
        let (until, half) = (now + lifetime, Duration::from_nanos(lifetime.as_nanos() / 2));
        let paths = &mut stack.learnt.get_or_insert_default().path_mtus;
        let is_known = paths.get(&remote).is_some_and(|(known, until)| {
            remote.is_ipv4() && !path.locked && known.bytes == path.bytes && now + half < *until
        });
        if !is_known {
            paths.insert(remote, (path, until));
        }
    }

    /// Fills in what `local` leaves open.
    pub(super) fn bind_local(
        &mut self,
        now: Instant,
        local: SocketAddr,
        remote: SocketAddr,
    ) -> Result<SocketAddr, SocketError> {
        let mut local = local;
        if local.ip().is_unspecified()
            && let Some(source) = self.source_address(remote.ip())
        {
            local.set_ip(source);
        }
        if local.port() == 0 {
            let free = self.free_tcp_port(now, local.ip(), remote);
            local.set_port(free.ok_or(SocketError::AddressNotAvailable)?);
        }
        Ok(local)
    }

    /// `net.ipv4.ip_local_port_range`: two ports.
    pub(in crate::host) fn set_port_range(
        &mut self,
        name: &str,
        value: &str,
    ) -> Result<(), SysctlError> {
        self.sockets.ephemeral.set(name, value)?;
        if let Some(learnt) = &mut self.tcp_stack().learnt {
            learnt.ports_used_up = None;
        }
        Ok(())
    }
}

/// RFC 6528: a keyed hash of the ends plus a clock of 64 ns.
fn initial_sequence_number(secret: [u64; 2], now: Instant, ends: Ends) -> Seq {
    let mut hasher = SipHasher24::new_with_keys(ISN_KEY.0 ^ secret[0], ISN_KEY.1 ^ secret[1]);
    for end in [ends.local, ends.remote] {
        match end.ip() {
            IpAddr::V4(ip) => hasher.write(&ip.octets()),
            IpAddr::V6(ip) => hasher.write(&ip.octets()),
        }
        hasher.write_u16(end.port());
    }
    Seq((hasher.finish() as u32).wrapping_add((now.as_nanos() >> 6) as u32))
}

/// Key of initial sequence numbers: fixed, because a run must repeat; mixed with the host's secret where
/// it must not.
const ISN_KEY: (u64, u64) = (0x6163_6b77_7269_6768, 0x7469_6e69_7469_616c);

#[cfg(test)]
mod tests {
    use super::*;

    /// `__ip_rt_update_pmtu()`, the tests of `rt_pmtu`, `lock` and `dst->expires` at its head.
    #[test]
    fn a_repeated_path_mtu_is_extended_only_in_its_second_half() {
        let at = |secs| Instant::ZERO + Duration::from_secs(secs);
        let known = |remote: &str, told: [(u64, u32, bool); 2], then| {
            let (mut host, remote) = (Host::new(), remote.parse().expect("an address"));
            for (secs, bytes, locked) in told {
                host.learnt_mtu = Some(Box::new((remote, PathMtu { bytes, locked }, at(secs))));
                host.keep_path_mtu();
            }
            host.path_mtu(at(then), remote).is_some()
        };
        for (remote, told, expected) in [
            ("10.0.0.1", [(0, 1_400, false), (300, 1_400, false)], true),
            ("10.0.0.1", [(0, 1_400, false), (299, 1_400, false)], false),
            ("10.0.0.1", [(0, 1_400, false), (299, 1_300, false)], true),
            ("10.0.0.1", [(0, 552, true), (299, 552, true)], true),
            ("fd00::1", [(0, 1_400, false), (299, 1_400, false)], true),
        ] {
            assert!(known(remote, told, 599));
            assert_eq!(known(remote, told, 650), expected, "{remote} {told:?}");
        }
    }
}
