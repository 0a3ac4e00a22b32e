//! The hardware address of an interface (`SIOCGIFHWADDR`), and giving up rights.

use super::interface::request;
use super::{done, owned};
use std::io;
use std::os::fd::AsRawFd as _;

/// The Ethernet address of the interface `name`.
///
/// # Errors
/// `ENODEV` if there is none of this name.
pub fn hardware_address(name: &str) -> io::Result<[u8; 6]> {
    // SAFETY: the call takes no pointer.
    let socket =
        owned(unsafe { libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) })?;
    let mut request = request(name)?;
    let what = libc::SIOCGIFHWADDR as libc::Ioctl;
    // SAFETY: the request reads a name from an ifreq and writes to its union; one is there.
    done(unsafe { libc::ioctl(socket.as_raw_fd(), what, &raw mut request) })?;
    // SAFETY: the union holds numbers only, and the kernel has written this address.
    let data = unsafe { request.ifr_ifru.ifru_hwaddr.sa_data };
    let mut octets = [0; 6];
    for (octet, byte) in octets.iter_mut().zip(data) {
        *octet = byte as u8;
    }
    Ok(octets)
}

/// `struct __user_cap_header_struct` and two of `struct __user_cap_data_struct` (`capget(2)`).
#[repr(C)]
struct CapabilityHeader {
    version: u32,
    pid: libc::c_int,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct CapabilityData {
    effective: u32,
    permitted: u32,
    inheritable: u32,
}

/// `_LINUX_CAPABILITY_VERSION_3`.
const VERSION: u32 = 0x2008_0522;

/// Gives up all rights for good: groups, user and capabilities of all threads that begin later; no program
/// that is started gets them back (`no_new_privs`). Without `user` the user stays who it is. To be called
/// before other threads are started.
///
/// # Errors
/// Without the right to change its user.
pub fn drop_privileges(user: Option<(u32, u32)>) -> io::Result<()> {
    // SAFETY: this option takes numbers and no pointer.
    done(unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) })?;
    for capability in 0..=63 {
        // What this kernel does not have is refused. Only an administrator may, and has to.
        // SAFETY: this option takes numbers and no pointer.
        unsafe { libc::prctl(libc::PR_CAPBSET_DROP, capability, 0, 0, 0) };
    }
    if let Some((user, group)) = user {
        // SAFETY: no list of groups is read, because it has no members.
        done(unsafe { libc::setgroups(0, std::ptr::null()) })?;
        // SAFETY: the call takes no pointer.
        done(unsafe { libc::setresgid(group, group, group) })?;
        // SAFETY: the call takes no pointer.
        done(unsafe { libc::setresuid(user, user, user) })?;
    }
    let header = CapabilityHeader { version: VERSION, pid: 0 };
    let none = CapabilityData { effective: 0, permitted: 0, inheritable: 0 };
    let data = [none; 2];
    // SAFETY: the kernel reads one header and, in this version, two sets from where they are.
    let set = unsafe { libc::syscall(libc::SYS_capset, &raw const header, data.as_ptr()) };
    done(set as libc::c_int).map(drop)
}
