//! The running kernel's routes, rules, next hops, links and addresses over rtnetlink: dumped, and told
//! when they change.

use iproute::ip::import::Message;
use netlink_sys::protocols::NETLINK_ROUTE;
use netlink_sys::{Socket, SocketAddr};
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd};

/// The dumps to ask for: request, its fixed header's length, whether it is asked family by family.
const DUMPS: [(u16, usize, bool); 5] = [
    (18, 16, false), // RTM_GETLINK, ifinfomsg
    (22, 8, false),  // RTM_GETADDR, ifaddrmsg
    (106, 8, false), // RTM_GETNEXTHOP, nhmsg
    (34, 12, true),  // RTM_GETRULE, fib_rule_hdr
    (26, 12, true),  // RTM_GETROUTE, rtmsg
];

const AF_INET: u8 = 2;
const AF_INET6: u8 = 10;
const NLM_F_REQUEST_DUMP: u16 = 0x301;
const NLM_F_DUMP_INTR: u16 = 0x10;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const HEADER: usize = 16;
/// A dump that changed while it was read is asked for again, so often.
const ATTEMPTS: usize = 5;

/// `RTNLGRP_LINK`.
const LINK: u32 = 1;
/// Addresses, routes and rules of both families, and next hops (`RTNLGRP_…`).
const ROUTING: [u32; 7] = [5, 7, 8, 9, 11, 19, 32];

/// Everything that a router is made of.
///
/// # Errors
/// The kernel does not answer.
pub fn dump_all() -> io::Result<Vec<Message>> {
    let mut socket = Socket::new(NETLINK_ROUTE)?;
    socket.bind_auto()?;
    socket.connect(&SocketAddr::new(0, 0))?;
    let mut messages = Vec::new();
    let mut sequence = 0;
    for (request, header, by_family) in DUMPS {
        let families: &[u8] = if by_family { &[AF_INET, AF_INET6] } else { &[0] };
        for &family in families {
            let mut attempts = 0;
            let found = loop {
                sequence += 1;
                attempts += 1;
                match dump(&socket, request, header, family, sequence) {
                    Err(error)
                        if error.kind() == io::ErrorKind::Interrupted && attempts < ATTEMPTS => {}
                    other => break other,
                }
            };
            match found {
                Ok(found) => messages.extend(found),
                // Kernels without IPv6 or next-hop objects refuse to list them.
                Err(error) if family == AF_INET6 || request == 106 => drop(error),
                Err(error) => return Err(error),
            }
        }
    }
    Ok(messages)
}

/// Settings that decide between next hops, where the kernel has them: family and name, below
/// `/proc/sys/net`.
const SYSCTLS: [(&str, &str); 6] = [
    ("ipv4", "fib_multipath_hash_policy"),
    ("ipv4", "fib_multipath_hash_fields"),
    ("ipv6", "fib_multipath_hash_policy"),
    ("ipv6", "fib_multipath_hash_fields"),
    ("ipv4", "fib_multipath_hash_seed"),
    ("ipv4", "fib_multipath_use_neigh"),
];

/// Those of the kernel's settings that decide between next hops, name and value, that this kernel has.
pub fn hash_settings() -> impl Iterator<Item = (String, String)> {
    SYSCTLS.into_iter().filter_map(|(family, name)| {
        let value = std::fs::read_to_string(format!("/proc/sys/net/{family}/{name}")).ok()?;
        Some((format!("net.{family}.{name}"), value.trim().to_owned()))
    })
}

/// Whether this is the kernel's hash seed, and random, so that it is unknown to user space.
pub fn is_random_seed(name: &str, value: &str) -> bool {
    name == "net.ipv4.fib_multipath_hash_seed" && value == "0"
}

/// Whether the kernel passes over routes by this interface while it has no carrier, for IPv4 and IPv6
/// (`ignore_routes_with_linkdown`).
pub fn ignores_linkdown(name: &str) -> [bool; 2] {
    ["ipv4", "ipv6"].map(|family| {
        ["all", name].iter().any(|device| {
            let path = format!("/proc/sys/net/{family}/conf/{device}/ignore_routes_with_linkdown");
            std::fs::read_to_string(path).is_ok_and(|value| value.trim() == "1")
        })
    })
}

/// One dump, to its end.
fn dump(
    socket: &Socket,
    request: u16,
    header: usize,
    family: u8,
    sequence: u32,
) -> io::Result<Vec<Message>> {
    let mut message = Vec::with_capacity(HEADER + header);
    message.extend(((HEADER + header) as u32).to_le_bytes());
    message.extend(request.to_le_bytes());
    message.extend(NLM_F_REQUEST_DUMP.to_le_bytes());
    message.extend(sequence.to_le_bytes());
    message.extend([0; 4]);
    message.push(family);
    message.resize(HEADER + header, 0);
    socket.send(&message, 0)?;
    let mut found = Vec::new();
    let mut changed = false;
    loop {
        let (datagram, _) = socket.recv_from_full()?;
        if take_messages(&datagram, Some(sequence), &mut found, &mut changed)? {
            if changed {
                return Err(io::ErrorKind::Interrupted.into());
            }
            return Ok(found);
        }
    }
}

/// Takes the messages of a datagram; true at the end of a dump.
fn take_messages(
    mut bytes: &[u8],
    sequence: Option<u32>,
    found: &mut Vec<Message>,
    changed: &mut bool,
) -> io::Result<bool> {
    let broken = || io::Error::new(io::ErrorKind::InvalidData, "a message ends too early");
    while let Some(head) = bytes.first_chunk::<HEADER>() {
        let len = u32::from_le_bytes([head[0], head[1], head[2], head[3]]) as usize;
        let kind = u16::from_le_bytes([head[4], head[5]]);
        let flags = u16::from_le_bytes([head[6], head[7]]);
        let theirs = u32::from_le_bytes([head[8], head[9], head[10], head[11]]);
        let body = bytes.get(HEADER..len).ok_or_else(broken)?;
        bytes = bytes.get(len.next_multiple_of(4)..).unwrap_or_default();
        if sequence.is_some_and(|sequence| sequence != theirs) {
            continue;
        }
        *changed |= sequence.is_some() && flags & NLM_F_DUMP_INTR != 0;
        match kind {
            NLMSG_DONE => return Ok(true),
            NLMSG_ERROR => {
                let code = body.first_chunk::<4>().ok_or_else(broken)?;
                return Err(io::Error::from_raw_os_error(-i32::from_le_bytes(*code)));
            }
            _ => found.push((kind, body.to_vec())),
        }
    }
    Ok(false)
}

/// What the kernel tells by itself.
pub struct Monitor {
    socket: Socket,
}

/// What a [`Monitor`] has heard.
#[derive(Debug, PartialEq, Eq)]
pub enum MonitorEvent {
    /// These messages, in their order.
    Messages(Vec<Message>),
    /// There were more than the socket holds (`ENOBUFS`): only a new dump tells what is.
    Lost,
}

impl Monitor {
    /// Listens to changes of links, and if `routing` of all that [`dump_all`] dumps. To be made before the
    /// dump, so that nothing is missed.
    ///
    /// # Errors
    /// The kernel has no such socket.
    pub fn new(routing: bool) -> io::Result<Self> {
        let mut socket = Socket::new(NETLINK_ROUTE)?;
        socket.bind_auto()?;
        socket.add_membership(LINK)?;
        for group in ROUTING.into_iter().filter(|_| routing) {
            // Kernels without IPv6 or next-hop objects do not have all.
            let _ = socket.add_membership(group);
        }
        socket.set_non_blocking(true)?;
        Ok(Self { socket })
    }

    /// To wait for it.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// All that has come.
    ///
    /// # Errors
    /// The socket is broken.
    pub fn read(&self) -> io::Result<MonitorEvent> {
        let mut found = Vec::new();
        loop {
            match self.socket.recv_from_full() {
                Ok((datagram, from)) if from.port_number() == 0 => {
                    take_messages(&datagram, None, &mut found, &mut false)?;
                }
                // Only the kernel is believed.
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return Ok(MonitorEvent::Messages(found));
                }
                Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => {
                    return Ok(MonitorEvent::Lost);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

impl std::fmt::Debug for Monitor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Monitor").finish_non_exhaustive()
    }
}
