//! Addresses as a socket of one family takes and shows them (`AF_INET`, `AF_INET6`).

use super::argument::Address;
use super::errno::Errno;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// The family's `INADDR_ANY`.
pub(super) fn any(ipv6: bool) -> SocketAddr {
    let ip: IpAddr = if ipv6 { Ipv6Addr::UNSPECIFIED.into() } else { Ipv4Addr::UNSPECIFIED.into() };
    SocketAddr::new(ip, 0)
}

/// The address in an argument; IPv4-mapped ones as IPv4.
pub(super) fn of_argument(
    address: Address,
    ipv6: bool,
    v6_only: bool,
) -> Result<SocketAddr, Errno> {
    match address {
        Address::Null => Err(Errno::EFAULT),
        Address::Other { len, .. } if len < 16 => Err(Errno::EINVAL),
        Address::Unspecified | Address::Other { .. } => Err(Errno::EAFNOSUPPORT),
        Address::Inet(SocketAddr::V6(_)) if !ipv6 => Err(Errno::EAFNOSUPPORT),
        Address::Inet(address) => {
            let ip = address.ip().to_canonical();
            if ip.is_ipv4() && ipv6 && v6_only {
                return Err(Errno::ENETUNREACH);
            }
            Ok(SocketAddr::new(ip, address.port()))
        }
    }
}

/// The address in an argument of `bind`: one of the other family is wrong, not out of reach.
pub(super) fn to_bind(told: Result<SocketAddr, Errno>) -> Result<SocketAddr, Errno> {
    told.map_err(|errno| if errno == Errno::ENETUNREACH { Errno::EINVAL } else { errno })
}

/// An address as the caller sees it: IPv4 as mapped, if the socket is IPv6.
pub(super) fn shown(address: SocketAddr, ipv6: bool) -> SocketAddr {
    match address {
        SocketAddr::V4(v4) if ipv6 => SocketAddr::new(v4.ip().to_ipv6_mapped().into(), v4.port()),
        other => other,
    }
}
