//! The running kernel's routes, rules, next hops, links and addresses, asked over rtnetlink.

use std::fs;
use std::io;

use crate::cmd::ip::Note;
use iproute::ip::Ip;
use iproute::ip::import::{self, Message};
use netlink_sys::protocols::NETLINK_ROUTE;
use netlink_sys::{Socket, SocketAddr};

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
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const HEADER: usize = 16;

/// Settings that decide between next hops, where the kernel has them: what lies in `/proc/sys/net`.
const SYSCTLS: [(&str, &str); 6] = [
    ("ipv4", "fib_multipath_hash_policy"),
    ("ipv4", "fib_multipath_hash_fields"),
    ("ipv6", "fib_multipath_hash_policy"),
    ("ipv6", "fib_multipath_hash_fields"),
    ("ipv4", "fib_multipath_hash_seed"),
    ("ipv4", "fib_multipath_use_neigh"),
];

/// Reads everything; with it go notes about what could not be taken over.
pub fn import() -> Result<(Ip, Vec<Note>), String> {
    let messages =
        dump_all().map_err(|error| format!("cannot ask the kernel over rtnetlink: {error}"))?;
    let (mut ip, skipped) = import::import(&messages)
        .map_err(|error| format!("the kernel sent what was not understood: {error}"))?;
    let mut notes: Vec<Note> =
        skipped.into_iter().map(|what| note(format!("not taken over: {what}"))).collect();
    for (family, name) in SYSCTLS {
        let Ok(value) = fs::read_to_string(format!("/proc/sys/net/{family}/{name}")) else {
            continue;
        };
        let value = value.trim();
        if name == "fib_multipath_hash_seed" && value == "0" {
            let text = "the kernel's hash seed is random (fib_multipath_hash_seed = 0): where \
                        several next hops are left, it may choose another one";
            notes.push(Note { text: text.into(), always: false });
            continue;
        }
        if let Err(error) = ip.run(&format!("sysctl net.{family}.{name}={value}")) {
            notes.push(note(format!("net.{family}.{name} = {value}: {error}")));
        }
    }
    read_linkdown(&mut ip);
    Ok((ip, notes))
}

fn note(text: String) -> Note {
    Note { text, always: true }
}

/// `ignore_routes_with_linkdown` of each interface.
fn read_linkdown(ip: &mut Ip) {
    let names: Vec<String> =
        ip.devices.ports().map(|port| ip.devices.name(port).to_owned()).collect();
    for family in ["ipv4", "ipv6"] {
        let on = |name: &str| {
            let path = format!("/proc/sys/net/{family}/conf/{name}/ignore_routes_with_linkdown");
            fs::read_to_string(path).is_ok_and(|value| value.trim() == "1")
        };
        for name in names.iter().filter(|name| on("all") || on(name)) {
            let words = format!("sysctl net.{family}.conf.{name}.ignore_routes_with_linkdown=1");
            ip.run(&words).expect("a device that was just listed");
        }
    }
}

fn dump_all() -> io::Result<Vec<Message>> {
    let mut socket = Socket::new(NETLINK_ROUTE)?;
    socket.bind_auto()?;
    socket.connect(&SocketAddr::new(0, 0))?;
    let mut messages = Vec::new();
    let mut sequence = 0;
    for (request, header, by_family) in DUMPS {
        let families: &[u8] = if by_family { &[AF_INET, AF_INET6] } else { &[0] };
        for &family in families {
            sequence += 1;
            match dump(&socket, request, header, family, sequence) {
                Ok(found) => messages.extend(found),
                // Kernels without IPv6 or next-hop objects refuse to list them.
                Err(error) if family == AF_INET6 || request == 106 => drop(error),
                Err(error) => return Err(error),
            }
        }
    }
    Ok(messages)
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
    loop {
        let (datagram, _) = socket.recv_from_full()?;
        if take_messages(&datagram, sequence, &mut found)? {
            return Ok(found);
        }
    }
}

/// Takes the messages of a datagram; true at the end of the dump.
fn take_messages(mut bytes: &[u8], sequence: u32, found: &mut Vec<Message>) -> io::Result<bool> {
    let broken = || io::Error::new(io::ErrorKind::InvalidData, "a message ends too early");
    while let Some(head) = bytes.first_chunk::<HEADER>() {
        let len = u32::from_le_bytes([head[0], head[1], head[2], head[3]]) as usize;
        let kind = u16::from_le_bytes([head[4], head[5]]);
        let theirs = u32::from_le_bytes([head[8], head[9], head[10], head[11]]);
        let body = bytes.get(HEADER..len).ok_or_else(broken)?;
        bytes = bytes.get(len.next_multiple_of(4)..).unwrap_or_default();
        if theirs != sequence {
            continue;
        }
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
