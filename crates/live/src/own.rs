//! Between this machine and an interface of its own: what its programs send by the interface, and what comes
//! for them, goes round by a TAP device of ours.
//!
//! Nothing is moved: addresses, routes and neighbours stay where they are. Programs of TCX send what leaves by
//! the interface into the TAP device, and hand what comes out of it to the stack as if it had come by the
//! interface. All of it goes with the process, however that ends, and traffic passes unshaped again.

use crate::device::{Device, PacketSocket, Pools, Tun};
use crate::open::{Fault, claim, refused};
use crate::sys::{self, AttachedPrograms};
use std::io;
use std::os::unix::net::UnixListener;

/// The two devices of a detour, and what must be held as long as it is to be.
#[derive(Debug)]
pub struct Detour {
    /// The interface, and the TAP device.
    pub devices: [Device; 2],
    /// What they are called.
    pub names: [String; 2],
    lock: UnixListener,
}

/// Held as long as traffic is to go round.
#[derive(Debug)]
pub struct LoopbackRoute {
    _programs: AttachedPrograms,
    _lock: UnixListener,
}

/// Opens the interface `name` and makes a TAP device for it. Traffic goes its old way until
/// [`start`](ReadyDetour::start).
///
/// # Errors
/// With the name and what to do about it.
pub fn open(name: &str, pools: &mut Pools) -> Result<Detour, Fault> {
    let (facts, lock) = claim(name)?;
    if facts.hardware != libc::ARPHRD_ETHER {
        return Err(Fault::Usage(format!("--dev {name}: not an Ethernet interface")));
    }
    let socket = PacketSocket::open_own(name, facts, pools);
    let socket = socket.map_err(|error| refused(name, "open a packet socket", &error))?;
    let free = (0..1_000).map(|number| format!("ackdev{number}"));
    let tap_name = free.into_iter().find(|name| sys::facts(name).is_err());
    let tap_name =
        tap_name.ok_or_else(|| Fault::Other("a thousand detours are made".to_owned()))?;
    let tap = Tun::open(&tap_name, true, facts.mtu);
    let tap = tap.map_err(|error| refused(&tap_name, "make it", &error))?;
    // Or the kernel would announce itself there, and that would leave by the interface.
    let quiet = format!("/proc/sys/net/ipv6/conf/{tap_name}/disable_ipv6");
    match std::fs::write(quiet, "1") {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Err(refused(&tap_name, "turn IPv6 off there", &error));
        }
        _ => {}
    }
    sys::set_up(&tap_name).map_err(|error| refused(&tap_name, "set it up", &error))?;
    Ok(Detour {
        devices: [Device::Packet(socket), Device::Tun(tap)],
        names: [name.to_owned(), tap_name],
        lock,
    })
}

impl Detour {
    /// The devices, and what begins the detour.
    pub fn into_parts(self) -> ([Device; 2], ReadyDetour) {
        (self.devices, ReadyDetour { names: self.names, lock: self.lock })
    }
}

/// A detour that is set up, but not active.
#[derive(Debug)]
pub struct ReadyDetour {
    names: [String; 2],
    lock: UnixListener,
}

impl ReadyDetour {
    /// From now on traffic goes round.
    ///
    /// # Errors
    /// Without rights, or before Linux 6.6.
    pub fn start(self) -> Result<LoopbackRoute, Fault> {
        let [interface, tap] = &self.names;
        let index = |name: &str| sys::facts(name).map(|facts| facts.index);
        let programs = index(interface)
            .and_then(|interface| index(tap).and_then(|tap| sys::detour(interface, tap)))
            .map_err(|error| {
                Fault::Usage(format!(
                    "--dev {interface}: {error}; it needs CAP_BPF, CAP_NET_ADMIN and Linux 6.6"
                ))
            })?;
        Ok(LoopbackRoute { _programs: programs, _lock: self.lock })
    }
}
