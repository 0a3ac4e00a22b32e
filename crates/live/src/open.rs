//! Devices by their names, and what can be wrong with them.

use crate::device::{
    CaptureFile, Device, MOST_QUEUES, MOST_SHARING, PacketSocket, Pools, Tun, XdpDevice, XdpOptions,
};
use crate::sys::{self, InterfaceInfo, XDP_LONGEST_MTU, XdpCopy, XdpMode};
use std::fmt;
use std::io;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::Path;

/// Why a run cannot begin or go on.
#[derive(Debug, PartialEq, Eq)]
pub enum Fault {
    /// What was asked for cannot be: names, rights, settings.
    Usage(String),
    /// Something else.
    Other(String),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Usage(message) | Self::Other(message)) = self;
        f.write_str(message)
    }
}

impl std::error::Error for Fault {}

/// An open device, and what keeps others from it.
#[derive(Debug)]
pub struct Opened {
    /// The device.
    pub device: Device,
    /// Held as long as the device is: the name of a socket that goes with the process.
    lock: Option<UnixListener>,
}

impl Opened {
    /// The device and its lock.
    pub fn into_parts(self) -> (Device, Option<UnixListener>) {
        (self.device, self.lock)
    }
}

/// Opens a device: an interface's name, `ring:NAME` for one by a receive ring, `xdp:NAME` for one by AF_XDP, `tap:NAME` or `tun:NAME` for one that is
/// made, or `file:INPUT,OUTPUT` for captures. What is made gets this MTU. After the name of an AF_XDP device
/// stand `native` or `generic`, and `copy` or `zero-copy`, each behind a comma; after that of an interface `fanout=N`, of a
/// TUN or TAP device `queues=N`.
///
/// # Errors
/// With the name and what to do about it.
pub fn open(name: &str, mtu: u32, pools: &mut Pools) -> Result<Opened, Fault> {
    let unlocked = |device| Opened { device, lock: None };
    if let Some(words) = name.strip_prefix("tap:") {
        return open_tun(words, true, mtu);
    }
    if let Some(words) = name.strip_prefix("tun:") {
        return open_tun(words, false, mtu);
    }
    if let Some(files) = name.strip_prefix("file:") {
        let (input, output) = files.split_once(',').ok_or_else(|| {
            Fault::Usage(format!("{name}: two files are needed, file:INPUT,OUTPUT"))
        })?;
        let opened = CaptureFile::open(Path::new(input), Path::new(output), sys::now());
        let opened = opened.map_err(|error| Fault::Usage(format!("{name}: {error}")))?;
        return Ok(unlocked(Device::File(Box::new(opened))));
    }
    if let Some(words) = name.strip_prefix("xdp:") {
        return open_xdp(words);
    }
    if let Some(name) = name.strip_prefix("ring:") {
        let (facts, lock) = claim(name)?;
        let socket = PacketSocket::open_ring(name, facts);
        let socket = socket.map_err(|error| refused(name, "open a receive ring", &error))?;
        return Ok(Opened { device: Device::Packet(socket), lock: Some(lock) });
    }
    let (name, sockets) = numbered(name, "fanout", MOST_SHARING)?;
    let (facts, lock) = claim(name)?;
    let socket = match sockets {
        None | Some(1) => PacketSocket::open(name, facts, pools),
        Some(sockets) => PacketSocket::open_sharing(name, facts, sockets, pools),
    };
    let socket = socket.map_err(|error| refused(name, "open a packet socket", &error))?;
    Ok(Opened { device: Device::Packet(socket), lock: Some(lock) })
}

/// What a device is called in `tc` commands: of `tap:lan0` and of `xdp:lan0,generic` it is `lan0`.
pub fn port_name(device: &str) -> &str {
    if device.starts_with("file:") {
        return device;
    }
    let prefixes = ["tap:", "tun:", "ring:", "xdp:"];
    let name = prefixes.iter().find_map(|prefix| device.strip_prefix(prefix)).unwrap_or(device);
    name.split(',').next().unwrap_or(name)
}

/// `NAME` or `NAME,WORD=NUMBER`.
fn numbered<'a>(words: &'a str, word: &str, most: u32) -> Result<(&'a str, Option<u32>), Fault> {
    let Some((name, rest)) = words.split_once(',') else { return Ok((words, None)) };
    let number = rest.strip_prefix(word).and_then(|rest| rest.strip_prefix('=')?.parse().ok());
    match number.filter(|number| (1..=most).contains(number)) {
        Some(number) => Ok((name, Some(number))),
        None => Err(Fault::Usage(format!(
            "{name}: unknown option {rest:?}: valid is {word}=N, with N from 1 to {most}"
        ))),
    }
}

fn open_tun(words: &str, tap: bool, mtu: u32) -> Result<Opened, Fault> {
    let (name, queues) = numbered(words, "queues", MOST_QUEUES)?;
    // Of a device with several queues the kernel lets others have some: it is locked as interfaces are, before
    // anything comes by a queue of ours if it is there already.
    let lock_it = || match (queues, sys::facts(name)) {
        (Some(_), Ok(facts)) => lock(name, facts.index).map(Some),
        _ => Ok(None),
    };
    let locked = lock_it()?;
    let opened = Tun::open_queues(name, tap, mtu, queues);
    let tun = opened.map_err(|error| match error.raw_os_error() {
        Some(libc::EINVAL) => {
            let kind = if tap { "tap" } else { "tun" };
            let other = if queues.is_some() {
                format!("{kind}:{name}")
            } else {
                format!("{kind}:{name},queues=1")
            };
            Fault::Usage(format!(
                "{name}: cannot create it: {error}; is there an interface of this name and \
                 another type? One with the other setting of multi_queue is {other}"
            ))
        }
        _ => refused(name, "make it", &error),
    })?;
    let lock = if locked.is_some() { locked } else { lock_it()? };
    Ok(Opened { device: Device::Tun(tun), lock })
}

fn open_xdp(words: &str) -> Result<Opened, Fault> {
    let mut words = words.split(',');
    let name = words.next().unwrap_or_default();
    let mut options = XdpOptions { mode: None, copy: XdpCopy::Auto };
    for word in words {
        match word {
            "native" => options.mode = Some(XdpMode::Native),
            "generic" => options.mode = Some(XdpMode::Generic),
            "copy" => options.copy = XdpCopy::Copy,
            "zero-copy" => options.copy = XdpCopy::ZeroCopy,
            _ => {
                return Err(Fault::Usage(format!(
                    "xdp:{name}: unknown option {word:?}; valid are native or generic, copy or \
                     zero-copy"
                )));
            }
        }
    }
    let (facts, lock) = claim(name)?;
    if facts.hardware != libc::ARPHRD_ETHER {
        return Err(Fault::Usage(format!("xdp:{name}: AF_XDP needs an Ethernet interface")));
    }
    if facts.mtu > XDP_LONGEST_MTU {
        return Err(Fault::Usage(format!(
            "xdp:{name}: AF_XDP supports an MTU of at most {XDP_LONGEST_MTU}, and this is {}; ip link set \
             {name} mtu {XDP_LONGEST_MTU}",
            facts.mtu
        )));
    }
    let device = XdpDevice::open(name, facts, options).map_err(|error| {
        let hint = match error.raw_os_error() {
            Some(libc::EPERM | libc::EACCES) => {
                "; this needs root, or CAP_NET_RAW, CAP_NET_ADMIN and CAP_BPF"
            }
            Some(libc::EBUSY | libc::EEXIST) => {
                "; another program has attached an XDP program or socket there"
            }
            Some(libc::EAFNOSUPPORT) => "; this kernel has no AF_XDP",
            Some(libc::EOPNOTSUPP | libc::EINVAL) => {
                "; its driver does not support this; xdp:NAME,generic,copy works with every driver"
            }
            _ => "",
        };
        Fault::Usage(format!("xdp:{name}: cannot open AF_XDP: {error}{hint}"))
    })?;
    Ok(Opened { device: Device::Xdp(Box::new(device)), lock: Some(lock) })
}

/// The largest MTU of those of these devices that exist; 1500 if none does.
pub fn largest_mtu(names: &[String]) -> u32 {
    let known = names.iter().filter_map(|name| sys::facts(port_name(name)).ok());
    known.map(|facts| facts.mtu).max().unwrap_or(1_500)
}

/// Checks that an interface can be used, and locks it against other instances.
pub(crate) fn claim(name: &str) -> Result<(InterfaceInfo, UnixListener), Fault> {
    let facts = sys::facts(name).map_err(|error| match error.raw_os_error() {
        Some(libc::ENODEV) => {
            Fault::Usage(format!("{name}: no such interface in this network namespace"))
        }
        _ => refused(name, "ask about it", &error),
    })?;
    let usage = |message: &str| Err(Fault::Usage(format!("{name}: {message}")));
    if !facts.up {
        return usage(&format!("the interface is down; ip link set {name} up"));
    }
    if !matches!(facts.hardware, libc::ARPHRD_ETHER | libc::ARPHRD_NONE) {
        return usage("neither Ethernet nor plain IP");
    }
    // If this query fails, opening the packet socket reports why.
    if sys::has_master(facts.index).unwrap_or(false) {
        return usage(
            "it belongs to a kernel bridge or bond, which would forward packets past ackwright",
        );
    }
    Ok((facts, lock(name, facts.index)?))
}

/// Keeps other instances from an interface, by the name of a socket that no file belongs to: it is of this network
/// namespace, as the index is.
fn lock(name: &str, index: i32) -> Result<UnixListener, Fault> {
    let address = SocketAddr::from_abstract_name(format!("ackwright/device/{index}"));
    let lock = address.and_then(|address| UnixListener::bind_addr(&address));
    lock.map_err(|error| match error.kind() {
        io::ErrorKind::AddrInUse => {
            Fault::Usage(format!("{name}: another ackwright uses this interface"))
        }
        _ => refused(name, "lock it", &error),
    })
}

/// Whether the interface behind a device is there no longer.
pub fn is_gone(device: &Device) -> bool {
    facts_of(device).is_none()
}

/// What there is to know of the interface behind a device; `None` if it is there no longer.
pub fn facts_of(device: &Device) -> Option<InterfaceInfo> {
    // By its index: it may be called something else by now, and another what it was.
    device.index().map_or_else(|| sys::facts(device.name()), sys::facts_at).ok()
}

pub(crate) fn refused(name: &str, what: &str, error: &io::Error) -> Fault {
    let hint = match error.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => {
            "; this needs root, or CAP_NET_RAW (interfaces) and CAP_NET_ADMIN (tun, tap)"
        }
        Some(libc::EBUSY) => "; it is in use",
        Some(libc::ENOENT) => "; this kernel has no /dev/net/tun",
        Some(libc::EINVAL) => "; is there an interface of this name and another type?",
        _ => "",
    };
    Fault::Usage(format!("{name}: cannot {what}: {error}{hint}"))
}

/// What two devices must have in common to be joined.
///
/// # Errors
/// Ethernet and plain IP, or different MTUs.
pub fn check_pair(one: &Device, other: &Device) -> Result<(), Fault> {
    if one.is_ethernet() != other.is_ethernet() {
        let (ethernet, plain) = if one.is_ethernet() { (one, other) } else { (other, one) };
        return Err(Fault::Usage(format!(
            "{} has Ethernet frames and {} has none: they cannot be joined",
            ethernet.name(),
            plain.name()
        )));
    }
    if one.mtu() != other.mtu() {
        let (small, large) = if one.mtu() < other.mtu() { (one, other) } else { (other, one) };
        return Err(Fault::Usage(format!(
            "{} has an MTU of {} and {} of {}: longer packets would be lost; ip link set {} mtu {}",
            one.name(),
            one.mtu(),
            other.name(),
            other.mtu(),
            large.name(),
            small.mtu()
        )));
    }
    Ok(())
}
