//! Network namespaces without names: each is held by a descriptor and goes with the process, however that
//! ends, with all that is in it.

use crate::device::{Device, PacketSocket, Pools, Tun};
use crate::open::Fault;
use crate::sys::{self, netns};
use std::fs::File;
use std::io;
use std::net::IpAddr;
use std::os::fd::AsFd as _;

/// A network namespace.
#[derive(Debug)]
pub struct Namespace {
    file: File,
}

/// Makes sure that this process may make namespaces: as root it may; else it gets a user namespace of its
/// own. To be called while the process has one thread.
///
/// # Errors
/// With what to do about it.
pub fn acquire() -> Result<(), Fault> {
    if netns::may_make_namespaces() {
        return Ok(());
    }
    let (user, group) = netns::ids();
    let refused = |what: &str, error: io::Error| {
        Fault::Usage(format!(
            "namespaces need root or unprivileged user namespaces: {what}: {error}"
        ))
    };
    netns::unshare_user().map_err(|error| refused("unshare(CLONE_NEWUSER)", error))?;
    let write = |file: &str, text: String| {
        std::fs::write(format!("/proc/self/{file}"), text).map_err(|error| refused(file, error))
    };
    write("setgroups", "deny".into())?;
    write("uid_map", format!("0 {user} 1"))?;
    write("gid_map", format!("0 {group} 1"))
}

impl Namespace {
    /// A new one, with its loopback device up. Everybody may ping, and use any congestion control that the
    /// kernel has.
    ///
    /// # Errors
    /// Without the right to.
    pub fn new() -> io::Result<Self> {
        let made = || -> io::Result<File> {
            netns::unshare_network()?;
            sys::set_up("lo")?;
            let ping = std::fs::write("/proc/sys/net/ipv4/ping_group_range", "0 2147483647");
            // Not every kernel has it, and some allow it in the initial namespace only.
            drop(ping);
            File::open("/proc/thread-self/ns/net")
        };
        let file = on_a_thread(made)??;
        Ok(Self { file })
    }

    /// Does something in the namespace, on a thread of its own. A program that is started there stays in
    /// it.
    ///
    /// # Errors
    /// The namespace cannot be entered.
    pub fn within<T: Send>(&self, act: impl FnOnce() -> T + Send) -> io::Result<T> {
        let file = &self.file;
        on_a_thread(move || netns::enter(file.as_fd()).map(|()| act()))?
    }

    /// The same for what lasts: the thread is not waited for.
    ///
    /// # Errors
    /// No thread can be started.
    pub fn spawn<T: Send + 'static>(
        &self,
        act: impl FnOnce() -> T + Send + 'static,
    ) -> io::Result<std::thread::JoinHandle<io::Result<T>>> {
        let file = self.file.try_clone()?;
        let run = move || netns::enter(file.as_fd()).map(|()| act());
        std::thread::Builder::new().name("ackwright-node".into()).spawn(run)
    }

    /// A TUN device in it, up and with this address: the kernel's end of a link. With `offloads` the kernel
    /// hands over super-packets.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn tun(
        &self,
        name: &str,
        (address, len): (IpAddr, u8),
        mtu: u32,
        offloads: bool,
    ) -> io::Result<Device> {
        self.within(|| {
            let tun = Tun::open(name, false, mtu)?;
            if !offloads {
                tun.refuse_offloads()?;
            }
            if address.is_ipv4() {
                // Else it would look for neighbours and routers where there are none.
                let file = format!("/proc/sys/net/ipv6/conf/{name}/disable_ipv6");
                drop(std::fs::write(file, "1"));
            }
            sys::set_address(name, address, len)?;
            sys::set_up(name)?;
            Ok(Device::Tun(tun))
        })?
    }

    /// A pair of virtual Ethernet devices in it, both up, and a packet socket on each.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn veth(&self, names: [&str; 2], mtu: u32, pools: &mut Pools) -> io::Result<[Device; 2]> {
        self.within(|| {
            netns::make_veth(names, mtu)?;
            for name in names {
                // Its kernel has nothing to say on these.
                drop(std::fs::write(format!("/proc/sys/net/ipv6/conf/{name}/disable_ipv6"), "1"));
                sys::set_up(name)?;
            }
            let mut open =
                |name: &str| PacketSocket::open(name, sys::facts(name)?, pools).map(Device::Packet);
            Ok([open(names[0])?, open(names[1])?])
        })?
    }

    /// A route by an interface.
    ///
    /// # Errors
    /// What the kernel says; `EOPNOTSUPP` for IPv6.
    pub fn route(&self, to: IpAddr, prefix_len: u8, interface: &str) -> io::Result<()> {
        let IpAddr::V4(to) = to else {
            return Err(io::ErrorKind::Unsupported.into());
        };
        self.within(|| netns::add_route(to, prefix_len, interface))?
    }

    /// Sets `net.ipv4.NAME` of its kernel, and reads it back.
    ///
    /// # Errors
    /// The kernel has no such setting, or refuses the value.
    pub fn sysctl(&self, name: &str, value: &str) -> io::Result<String> {
        self.within(|| {
            let file = format!("/proc/sys/net/ipv4/{}", name.replace('.', "/"));
            std::fs::write(&file, value)?;
            Ok(std::fs::read_to_string(&file)?.split_whitespace().collect::<Vec<_>>().join(" "))
        })?
    }
}

fn on_a_thread<T: Send>(act: impl FnOnce() -> T + Send) -> io::Result<T> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().spawn_scoped(scope, act)?;
        thread.join().map_err(|_| io::Error::other("a thread has panicked"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As root only: elsewhere it says so.
    #[test]
    fn what_is_made_in_a_namespace_is_in_no_other() {
        if !netns::may_make_namespaces() {
            eprintln!("SKIPPED: no right to make namespaces");
            return;
        }
        let one = Namespace::new().expect("a namespace");
        let two = Namespace::new().expect("a second");
        let mut pools = Pools::new(1_500);
        let pair = one.veth(["wire0", "host0"], 1_500, &mut pools).expect("a pair of devices");
        assert!(pair.iter().all(|device| device.mtu() == 1_500 && device.is_ethernet()));
        assert!(one.within(|| sys::facts("host0").is_ok()).expect("entered"));
        assert!(!two.within(|| sys::facts("host0").is_ok()).expect("entered"));
        let address = IpAddr::from([10, 0, 0, 1]);
        let _up = two.tun("up0", (address, 30), 1_400, false).expect("a TUN device");
        assert!(two.within(sys::addresses).expect("entered").expect("known").contains(&address));
        assert!(sys::facts("up0").is_err(), "it is not in ours");
    }
}
