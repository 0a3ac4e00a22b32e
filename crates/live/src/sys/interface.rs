//! What the kernel says of a network interface (`netdevice(7)`).

use super::{done, owned};
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsRawFd as _, OwnedFd};

/// What the kernel says about an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InterfaceInfo {
    /// Its index.
    pub index: i32,
    /// Its MTU in bytes.
    pub mtu: u32,
    /// `IFF_UP`.
    pub up: bool,
    /// What its frames begin with (`ARPHRD_…`): 1 is Ethernet.
    pub hardware: u16,
}

/// What there is to know of the interface `name`.
///
/// # Errors
/// `ENODEV` if there is none of this name in this network namespace.
pub fn facts(name: &str) -> io::Result<InterfaceInfo> {
    facts_named(request(name)?)
}

/// What there is to know of the interface that the request names.
fn facts_named(named: libc::ifreq) -> io::Result<InterfaceInfo> {
    let socket = any_socket()?;
    let ask = |what: libc::Ioctl| -> io::Result<libc::ifreq> {
        let mut request = named;
        // SAFETY: these requests read a name from an ifreq and write to its union; one is there.
        done(unsafe { libc::ioctl(socket.as_raw_fd(), what, &raw mut request) })?;
        Ok(request)
    };
    let index = ask(libc::SIOCGIFINDEX as libc::Ioctl)?;
    let mtu = ask(libc::SIOCGIFMTU as libc::Ioctl)?;
    let flags = ask(libc::SIOCGIFFLAGS as libc::Ioctl)?;
    let hardware = ask(libc::SIOCGIFHWADDR as libc::Ioctl)?;
    // SAFETY: the union holds numbers only, and the kernel has written those that are read.
    unsafe {
        Ok(InterfaceInfo {
            index: index.ifr_ifru.ifru_ifindex,
            mtu: mtu.ifr_ifru.ifru_mtu as u32,
            up: i32::from(flags.ifr_ifru.ifru_flags) & libc::IFF_UP != 0,
            hardware: hardware.ifr_ifru.ifru_hwaddr.sa_family,
        })
    }
}

/// What there is to know of the interface with this index, whatever it is called by now.
///
/// # Errors
/// `ENODEV` if there is none in this network namespace.
pub fn facts_at(index: i32) -> io::Result<InterfaceInfo> {
    loop {
        let named = named_at(index)?;
        let facts = facts_named(named);
        // Meanwhile it may have been renamed, and another called as it was: only its index says whether it is there.
        if named_at(index)?.ifr_name != named.ifr_name {
            continue;
        }
        match facts {
            Ok(facts) if facts.index == index => return Ok(facts),
            // It was renamed and named back.
            Ok(_) => {}
            Err(error) if error.raw_os_error() == Some(libc::ENODEV) => {}
            Err(error) => return Err(error),
        }
    }
}

/// What the interface with this index is called.
///
/// # Errors
/// `ENODEV` if there is none in this network namespace.
pub fn interface_name(index: i32) -> io::Result<String> {
    let named = named_at(index)?;
    let name = named.ifr_name.iter().map(|byte| *byte as u8).take_while(|byte| *byte != 0);
    Ok(String::from_utf8_lossy(&name.collect::<Vec<_>>()).into_owned())
}

/// A request about the interface with this index, by the name that it has now.
fn named_at(index: i32) -> io::Result<libc::ifreq> {
    let socket = any_socket()?;
    let mut named = no_request();
    named.ifr_ifru.ifru_ifindex = index;
    let what = libc::SIOCGIFNAME as libc::Ioctl;
    // SAFETY: the request reads an index from an ifreq and writes a name to it; one is there.
    done(unsafe { libc::ioctl(socket.as_raw_fd(), what, &raw mut named) })?;
    Ok(named)
}

/// A socket to ask by: any will do.
fn any_socket() -> io::Result<OwnedFd> {
    // SAFETY: the call takes no pointer.
    owned(unsafe { libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) })
}

/// Whether the interface with this index belongs to another: a bridge or a bond (`IFLA_MASTER`).
///
/// # Errors
/// What rtnetlink says.
pub fn has_master(index: i32) -> io::Result<bool> {
    const IFLA_MASTER: u16 = 10;
    const NLM_F_REQUEST: u16 = 1;
    /// Of `nlmsghdr`, and of `ifinfomsg` behind it.
    const HEADERS: usize = 16 + 16;
    let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC;
    // SAFETY: the call takes no pointer.
    let socket = owned(unsafe { libc::socket(libc::AF_NETLINK, kind, libc::NETLINK_ROUTE) })?;
    let mut request = [0_u8; HEADERS];
    request[0..4].copy_from_slice(&(HEADERS as u32).to_ne_bytes());
    request[4..6].copy_from_slice(&libc::RTM_GETLINK.to_ne_bytes());
    request[6..8].copy_from_slice(&NLM_F_REQUEST.to_ne_bytes());
    request[20..24].copy_from_slice(&index.to_ne_bytes());
    let mut file = File::from(socket);
    file.write_all(&request)?;
    let mut answer = [0_u8; 16 << 10];
    let len = file.read(&mut answer)?;
    let mut rest = answer[..len].get(HEADERS..).unwrap_or_default();
    while let Some(&[l0, l1, k0, k1]) = rest.first_chunk() {
        let len = usize::from(u16::from_ne_bytes([l0, l1]));
        if u16::from_ne_bytes([k0, k1]) == IFLA_MASTER {
            return Ok(true);
        }
        rest = rest.get(len.next_multiple_of(4).max(4)..).unwrap_or_default();
    }
    Ok(false)
}

/// Gives the interface `name` another MTU.
///
/// # Errors
/// `EPERM` without `CAP_NET_ADMIN`; `EINVAL` if the device cannot have it.
pub fn set_mtu(name: &str, mtu: u32) -> io::Result<()> {
    let socket = any_socket()?;
    let mut request = request(name)?;
    request.ifr_ifru.ifru_mtu = mtu as libc::c_int;
    let what = libc::SIOCSIFMTU as libc::Ioctl;
    // SAFETY: the request reads a name and a number from an ifreq; one is there.
    done(unsafe { libc::ioctl(socket.as_raw_fd(), what, &raw mut request) }).map(drop)
}

/// An empty request about the interface `name`.
pub(super) fn request(name: &str) -> io::Result<libc::ifreq> {
    let mut request = no_request();
    if name.len() >= request.ifr_name.len() || name.is_empty() {
        return Err(io::Error::from_raw_os_error(libc::ENODEV));
    }
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    Ok(request)
}

/// A request about nothing.
fn no_request() -> libc::ifreq {
    // SAFETY: an ifreq is numbers and bytes, for which zero is a value.
    unsafe { std::mem::zeroed() }
}
