//! Network namespaces: made, entered, and what has to be in one (`network_namespaces(7)`, `rtnetlink(7)`).

use super::{done, owned};
use std::ffi::CString;
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::{AsRawFd as _, BorrowedFd};

/// This thread gets a network namespace of its own, in which nothing is but a loopback device that is down.
///
/// # Errors
/// `EPERM` without `CAP_SYS_ADMIN`.
pub fn unshare_network() -> io::Result<()> {
    // SAFETY: the call takes no pointer.
    done(unsafe { libc::unshare(libc::CLONE_NEWNET) }).map(drop)
}

/// This process gets a user namespace of its own, in which it may do everything. It must have no other
/// thread yet.
///
/// # Errors
/// `EPERM` where the machine allows none, `EINVAL` with several threads.
pub fn unshare_user() -> io::Result<()> {
    // SAFETY: the call takes no pointer.
    done(unsafe { libc::unshare(libc::CLONE_NEWUSER) }).map(drop)
}

/// Whether this process may make namespaces: `CAP_SYS_ADMIN` and `CAP_NET_ADMIN` are effective.
pub fn may_make_namespaces() -> bool {
    const NEEDED: u64 = 1 << 12 | 1 << 21;
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let effective = effective.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok());
    effective.is_some_and(|bits| bits & NEEDED == NEEDED)
}

/// User and group that this process runs as.
pub fn ids() -> (u32, u32) {
    // SAFETY: these calls take nothing and cannot fail.
    unsafe { (libc::geteuid(), libc::getegid()) }
}

/// This thread goes into a network namespace.
///
/// # Errors
/// `EPERM` without `CAP_SYS_ADMIN`.
pub fn enter(namespace: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: the call takes no pointer.
    done(unsafe { libc::setns(namespace.as_raw_fd(), libc::CLONE_NEWNET) }).map(drop)
}

/// A route to a prefix by an interface, without a gateway (`SIOCADDRT`). IPv4 only.
///
/// # Errors
/// What the kernel says.
pub fn add_route(to: Ipv4Addr, prefix_len: u8, interface: &str) -> io::Result<()> {
    // SAFETY: the call takes no pointer.
    let socket =
        owned(unsafe { libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) })?;
    let mut name = CString::new(interface)?.into_bytes_with_nul();
    let mask = u32::MAX.checked_shl(32 - u32::from(prefix_len)).unwrap_or(0);
    // SAFETY: an rtentry is numbers and one pointer, for which zero is a value.
    let mut route: libc::rtentry = unsafe { std::mem::zeroed() };
    route.rt_dst = internet(to);
    route.rt_genmask = internet(Ipv4Addr::from_bits(mask));
    route.rt_flags = libc::RTF_UP;
    route.rt_dev = name.as_mut_ptr().cast();
    let what = libc::SIOCADDRT as libc::Ioctl;
    // SAFETY: the request reads an rtentry and the name that it points to, which ends in a zero byte; both
    // live until after the call.
    done(unsafe { libc::ioctl(socket.as_raw_fd(), what, &raw mut route) }).map(drop)
}

fn internet(address: Ipv4Addr) -> libc::sockaddr {
    let address = libc::sockaddr_in {
        sin_family: libc::AF_INET as libc::sa_family_t,
        sin_port: 0,
        sin_addr: libc::in_addr { s_addr: u32::from_ne_bytes(address.octets()) },
        sin_zero: [0; 8],
    };
    // SAFETY: both structures have 16 bytes of numbers.
    unsafe { std::mem::transmute::<libc::sockaddr_in, libc::sockaddr>(address) }
}

/// A pair of virtual Ethernet devices (`ip link add A mtu MTU type veth peer name B mtu MTU`).
///
/// # Errors
/// `EPERM` without `CAP_NET_ADMIN`, `EEXIST` if there is one of these names, `EOPNOTSUPP` where the kernel
/// has no veth.
pub fn make_veth([a, b]: [&str; 2], mtu: u32) -> io::Result<()> {
    const IFLA_IFNAME: u16 = 3;
    const IFLA_MTU: u16 = 4;
    const IFLA_LINKINFO: u16 = 18;
    const IFLA_INFO_KIND: u16 = 1;
    const IFLA_INFO_DATA: u16 = 2;
    const VETH_INFO_PEER: u16 = 1;
    let named = |name: &str| {
        let mut out = attribute(IFLA_IFNAME, &[name.as_bytes(), &[0]].concat());
        out.extend(attribute(IFLA_MTU, &mtu.to_ne_bytes()));
        out
    };
    let peer = attribute(VETH_INFO_PEER, &[vec![0; 16], named(b)].concat());
    let info = [attribute(IFLA_INFO_KIND, b"veth\0"), attribute(IFLA_INFO_DATA, &peer)].concat();
    let body = [vec![0; 16], named(a), attribute(IFLA_LINKINFO, &info)].concat();
    rtnetlink_request(libc::RTM_NEWLINK, (libc::NLM_F_CREATE | libc::NLM_F_EXCL) as u16, &body)
}

/// An attribute of netlink: length, kind, bytes, and what fills it up to a multiple of four.
fn attribute(kind: u16, bytes: &[u8]) -> Vec<u8> {
    let len = 4 + bytes.len();
    let mut out = Vec::with_capacity(len.next_multiple_of(4));
    out.extend((len as u16).to_ne_bytes());
    out.extend(kind.to_ne_bytes());
    out.extend(bytes);
    out.resize(len.next_multiple_of(4), 0);
    out
}

/// A request that is answered by an error number alone.
fn rtnetlink_request(kind: u16, flags: u16, body: &[u8]) -> io::Result<()> {
    let flavour = libc::SOCK_RAW | libc::SOCK_CLOEXEC;
    // SAFETY: the call takes no pointer.
    let socket = owned(unsafe { libc::socket(libc::AF_NETLINK, flavour, libc::NETLINK_ROUTE) })?;
    let mut request = ((16 + body.len()) as u32).to_ne_bytes().to_vec();
    request.extend(kind.to_ne_bytes());
    request.extend((flags | (libc::NLM_F_REQUEST | libc::NLM_F_ACK) as u16).to_ne_bytes());
    request.extend([0; 8]);
    request.extend(body);
    let mut file = File::from(socket);
    file.write_all(&request)?;
    let mut answer = [0_u8; 4096];
    let len = file.read(&mut answer)?;
    let error = answer[..len].get(16..20).and_then(|bytes| bytes.try_into().ok());
    match error.map(i32::from_ne_bytes) {
        Some(0) => Ok(()),
        Some(number) => Err(io::Error::from_raw_os_error(-number)),
        None => Err(io::ErrorKind::InvalidData.into()),
    }
}

/// The congestion control that a kernel socket has.
///
/// # Errors
/// It is no TCP socket.
pub fn congestion_control(socket: BorrowedFd<'_>) -> io::Result<String> {
    let mut name = [0_u8; 16];
    let mut len = name.len() as libc::socklen_t;
    let to = name.as_mut_ptr().cast::<libc::c_void>();
    let (level, option) = (libc::IPPROTO_TCP, libc::TCP_CONGESTION);
    // SAFETY: the kernel writes at most `len` bytes to where there are as many.
    done(unsafe { libc::getsockopt(socket.as_raw_fd(), level, option, to, &raw mut len) })?;
    let end = name.iter().position(|byte| *byte == 0).unwrap_or(name.len());
    Ok(String::from_utf8_lossy(&name[..end]).into_owned())
}

/// DSCP and ECN byte of what a socket sends (`IP_TOS`).
///
/// # Errors
/// What the kernel says.
pub fn set_tos(socket: BorrowedFd<'_>, tos: u8) -> io::Result<()> {
    super::set_option(socket, libc::IPPROTO_IP, libc::IP_TOS, &libc::c_int::from(tos))
}

/// A socket for ICMP echo requests (`ping_group_range` allows it).
///
/// # Errors
/// `EACCES` where it does not.
pub fn echo_socket(peer: IpAddr) -> io::Result<std::net::UdpSocket> {
    let (family, protocol) = match peer {
        IpAddr::V4(_) => (libc::AF_INET, libc::IPPROTO_ICMP),
        IpAddr::V6(_) => (libc::AF_INET6, libc::IPPROTO_ICMPV6),
    };
    let kind = libc::SOCK_DGRAM | libc::SOCK_CLOEXEC;
    // SAFETY: the call takes no pointer.
    Ok(owned(unsafe { libc::socket(family, kind, protocol) })?.into())
}
