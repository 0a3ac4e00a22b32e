//! Addresses of an interface of the kernel's, and whether it is up (`netdevice(7)`).

use super::interface::{facts, request};
use super::{done, owned};
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::{AsRawFd as _, OwnedFd};

/// All addresses of the interfaces of this network namespace (`getifaddrs(3)`).
///
/// Trying to bind one instead does not tell: in a namespace that never had an address, every bind succeeds
/// (`inet_addr_type_table`).
///
/// # Errors
/// What `getifaddrs` says.
pub fn addresses() -> io::Result<Vec<IpAddr>> {
    let all = nix::ifaddrs::getifaddrs()?.filter_map(|interface| interface.address);
    let ip = |address: nix::sys::socket::SockaddrStorage| {
        let v4 = address.as_sockaddr_in().map(|it| it.ip().into());
        v4.or_else(|| address.as_sockaddr_in6().map(|it| it.ip().into()))
    };
    Ok(all.filter_map(ip).collect())
}

/// `struct in6_ifreq` (`linux/ipv6.h`).
#[repr(C)]
struct Ipv6Request {
    address: [u8; 16],
    prefix_len: u32,
    index: libc::c_int,
}

/// Gives the interface `name` of the kernel's an address with the length of its prefix.
///
/// # Errors
/// `EPERM` without `CAP_NET_ADMIN`; `EEXIST` if an IPv6 address is there already.
pub fn set_address(name: &str, address: IpAddr, prefix_len: u8) -> io::Result<()> {
    match address {
        IpAddr::V4(address) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(prefix_len)).unwrap_or(0);
            set_ipv4(name, libc::SIOCSIFADDR as libc::Ioctl, address)?;
            set_ipv4(name, libc::SIOCSIFNETMASK as libc::Ioctl, Ipv4Addr::from_bits(mask))
        }
        IpAddr::V6(address) => {
            let request = Ipv6Request {
                address: address.octets(),
                prefix_len: prefix_len.into(),
                index: facts(name)?.index,
            };
            let socket = socket(libc::AF_INET6)?;
            let what = libc::SIOCSIFADDR as libc::Ioctl;
            // SAFETY: the request reads an in6_ifreq; one is there, laid out as in C.
            done(unsafe { libc::ioctl(socket.as_raw_fd(), what, &raw const request) }).map(drop)
        }
    }
}

fn set_ipv4(name: &str, what: libc::Ioctl, address: Ipv4Addr) -> io::Result<()> {
    let socket = socket(libc::AF_INET)?;
    let mut request = request(name)?;
    let address = libc::sockaddr_in {
        sin_family: libc::AF_INET as libc::sa_family_t,
        sin_port: 0,
        sin_addr: libc::in_addr { s_addr: u32::from_ne_bytes(address.octets()) },
        sin_zero: [0; 8],
    };
    // SAFETY: both structures have 16 bytes of numbers, and the field of the union is as large.
    unsafe {
        request.ifr_ifru.ifru_addr =
            std::mem::transmute::<libc::sockaddr_in, libc::sockaddr>(address);
    }
    // SAFETY: the request reads a name and an address from an ifreq; one is there.
    done(unsafe { libc::ioctl(socket.as_raw_fd(), what, &raw mut request) }).map(drop)
}

/// `ip link set NAME up`.
///
/// # Errors
/// `EPERM` without `CAP_NET_ADMIN`.
pub fn set_up(name: &str) -> io::Result<()> {
    let socket = socket(libc::AF_INET)?;
    let mut request = request(name)?;
    let (get, set) = (libc::SIOCGIFFLAGS as libc::Ioctl, libc::SIOCSIFFLAGS as libc::Ioctl);
    // SAFETY: the request reads a name from an ifreq and writes flags to it; one is there.
    done(unsafe { libc::ioctl(socket.as_raw_fd(), get, &raw mut request) })?;
    // SAFETY: the kernel has just written the flags; then it reads name and flags.
    done(unsafe {
        request.ifr_ifru.ifru_flags |= libc::IFF_UP as libc::c_short;
        libc::ioctl(socket.as_raw_fd(), set, &raw mut request)
    })
    .map(drop)
}

fn socket(family: libc::c_int) -> io::Result<OwnedFd> {
    // SAFETY: the call takes no pointer.
    owned(unsafe { libc::socket(family, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) })
}
