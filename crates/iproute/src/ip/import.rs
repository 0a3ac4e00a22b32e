//! A configuration from what the kernel dumps over rtnetlink. What means more than we know is left out, with a
//! note: taken over without it, it would be of packets that it is not of.

use super::Ip;
use super::names::LOOPBACK;
use super::netlink::{
    self, Interfaces, NetlinkError, RTM_NEWNEXTHOP, RTM_NEWROUTE, address, attributes, word,
};
use super::rule::input_port;
use core::net::IpAddr;
use core::ops::RangeInclusive;
use datapath::fib::nexthop::ObjectConfig;
use datapath::fib::{Action, FibError, LinkState, Prefix, Route, Rule, TableId, Target};

/// `RTM_NEWLINK`.
pub const RTM_NEWLINK: u16 = 16;
/// `RTM_NEWADDR`.
pub const RTM_NEWADDR: u16 = 20;
/// `RTM_NEWRULE`.
pub const RTM_NEWRULE: u16 = 32;

/// What rules of a kernel ask for besides, and ours cannot (`FRA_*`), in the words of `ip rule`.
const UNKNOWN: [(u16, &str); 9] = [
    (12, "tun_id"),
    (19, "l3mdev"),
    (20, "uidrange"),
    (25, "dscp"),
    (26, "flowlabel"),
    (27, "flowlabel"),
    (28, "sport"),
    (29, "dport"),
    (30, "dscp"),
];

/// One message of a dump: its type and what follows the `nlmsghdr`.
pub type Message = (u16, Vec<u8>);

/// What could not be taken over, in words.
pub type Skipped = Vec<String>;

const IFLA_IFNAME: u16 = 3;
const IFLA_GROUP: u16 = 27;
const IFLA_MTU: u16 = 4;
const IFF_UP: u32 = 1;
const IFF_LOOPBACK: u32 = 8;
const IFF_LOWER_UP: u32 = 1 << 16;
const IFA_ADDRESS: u16 = 1;
const IFA_LOCAL: u16 = 2;
/// A cached clone, not a route (`RTM_F_CLONED`).
const RTM_F_CLONED: u32 = 0x200;

/// The kernel's interface numbers.
#[derive(Clone, Debug, Default)]
pub struct Numbers {
    /// (number, port).
    known: Vec<(u32, u16)>,
}

impl Interfaces for Numbers {
    fn index(&self, port: u16) -> u32 {
        self.known.iter().find(|(_, there)| *there == port).map_or(0, |(index, _)| *index)
    }

    fn port(&self, index: u32) -> u16 {
        self.known.iter().find(|(there, _)| *there == index).map_or(LOOPBACK, |(_, port)| *port)
    }
}

/// The configuration that these messages describe. Links must be among them; order does not
/// matter between kinds.
///
/// # Errors
/// A message is malformed. What is only not understood is skipped.
pub fn import(messages: &[Message]) -> Result<(Ip, Skipped), NetlinkError> {
    import_onto(&[], messages).map(|(ip, _, skipped)| (ip, skipped))
}

/// The same, where the first ports are those of the interfaces `known`, whether the kernel still has them
/// or not; and the kernel's numbers of all. An interface whose number is known has its port by that, and keeps its
/// name here whatever the kernel has come to call it; one without is known by its name. Another that has been given
/// a name which is taken here is called `NAME@NUMBER`.
///
/// # Errors
/// A message is malformed. What is only not understood is skipped.
pub fn import_onto(
    known: &[(String, Option<u32>)],
    messages: &[Message],
) -> Result<(Ip, Numbers, Skipped), NetlinkError> {
    let mut ip = Ip::new();
    let mut numbers = Numbers::default();
    let mut skipped = Vec::new();
    for (name, _) in known {
        let port = ip.devices.add(name);
        // Until a message tells of it.
        ip.fib.set_link(ip.now, port, LinkState { up: false, ..LinkState::default() });
    }
    let of = |kind: u16| messages.iter().filter(move |(there, _)| *there == kind).map(|m| &m.1[..]);
    let mut links = Vec::new();
    for body in of(RTM_NEWLINK) {
        let added = add_link(&mut ip, &mut numbers, known, body);
        links.extend(or_skip(added, || "link".to_owned(), &mut skipped)?.flatten());
    }
    for body in of(RTM_NEWADDR) {
        add_address(&mut ip, &numbers, body)?;
    }
    ip.fib.set_addresses(ip.devices.own());
    let mut objects = Vec::new();
    for body in of(RTM_NEWNEXTHOP) {
        let object = netlink::decode_object(body, &numbers);
        // `nh_family`; groups have none.
        let v6 = body.first().is_some_and(|family| *family == netlink::AF_INET6);
        let object = or_skip(object, || object_name(body), &mut skipped)?;
        objects.extend(object.map(|object| (object, v6)));
    }
    // Single next hops first: groups need them.
    objects.sort_by_key(|((_, config), _)| {
        matches!(config, ObjectConfig::Group(_) | ObjectConfig::Resilient(..))
    });
    for ((id, config), v6) in objects {
        if let Err(error) = ip.fib.add_object_of(ip.now, id, config, Some(v6)) {
            skipped.push(format!("nexthop id {id}: {error}"));
        }
    }
    add_rules(&mut ip, of(RTM_NEWRULE), &mut skipped)?;
    for body in of(RTM_NEWROUTE) {
        let route = read_route(body, &numbers);
        let route = or_skip(route, || route_name(body, &numbers), &mut skipped)?;
        if let Some(route) = route.flatten() {
            add_route(&mut ip, route, &mut skipped);
        }
    }
    for (port, link) in links {
        ip.fib.set_link(ip.now, port, link);
    }
    Ok((ip, numbers, skipped))
}

/// What was read, or a note of why it was not understood; a message that is malformed is an error.
fn or_skip<T>(
    read: Result<T, NetlinkError>,
    name: impl FnOnce() -> String,
    skipped: &mut Skipped,
) -> Result<Option<T>, NetlinkError> {
    match read {
        Ok(read) => Ok(Some(read)),
        Err(error) if error.is_malformed() => Err(error),
        Err(error) => {
            skipped.push(format!("{}: {error}", name()));
            Ok(None)
        }
    }
}

fn object_name(body: &[u8]) -> String {
    netlink::object_id(body).map_or("nexthop".to_owned(), |id| format!("nexthop id {id}"))
}

/// By where it leads to, which can be read of a route with a prefix of sources, too.
fn route_name(body: &[u8], numbers: &Numbers) -> String {
    let mut all_sources = body.to_vec();
    if let Some(source_len) = all_sources.get_mut(2) {
        *source_len = 0;
    }
    let route = netlink::decode_route(&all_sources, numbers);
    route.map_or("route".to_owned(), |route| format!("route {}", route.prefix))
}

/// Adds a route that was read.
pub fn add_route(ip: &mut Ip, route: Route, skipped: &mut Skipped) {
    let prefix = route.prefix;
    match ip.fib.append(route) {
        Ok(()) | Err(FibError::Exists) => {}
        Err(error) => skipped.push(format!("route {prefix}: {error}")),
    }
}

/// What `struct ifinfomsg` tells, the number and the flags of an interface, and the attributes behind it.
fn link_header(body: &[u8]) -> Result<(u32, u32, &[u8]), NetlinkError> {
    let (header, rest) = body.split_first_chunk::<16>().ok_or(NetlinkError::Truncated)?;
    let index = u32::from_le_bytes([header[4], header[5], header[6], header[7]]);
    let flags = u32::from_le_bytes([header[8], header[9], header[10], header[11]]);
    Ok((index, flags, rest))
}

/// A device that is down has no carrier either; whether it would have one is unknown.
fn link_state(flags: u32) -> LinkState {
    let (up, carrier) = (flags & IFF_UP != 0, flags & IFF_LOWER_UP != 0);
    LinkState { up, carrier: carrier || !up, ..LinkState::default() }
}

/// The interface of an `RTM_NEWLINK`.
fn add_link(
    ip: &mut Ip,
    numbers: &mut Numbers,
    known: &[(String, Option<u32>)],
    body: &[u8],
) -> Result<Option<(u16, LinkState)>, NetlinkError> {
    let (index, flags, rest) = link_header(body)?;
    let (mut name, mut group) = (None, 0);
    for attribute in attributes(rest) {
        match attribute? {
            (IFLA_IFNAME, value) => name = Some(text(value)),
            (IFLA_GROUP, value) => group = word(IFLA_GROUP, value)?,
            _ => {}
        }
    }
    if flags & IFF_LOOPBACK != 0 {
        numbers.known.push((index, LOOPBACK));
        return Ok(None);
    }
    let name = name.ok_or(NetlinkError::Missing("interface name"))?;
    let own = known.iter().find(|(_, number)| *number == Some(index)).map(|(name, _)| name);
    let is_taken = |(there, number): &(String, Option<u32>)| *there == name && number.is_some();
    let name = match own {
        Some(own) => own.clone(),
        None if known.iter().any(is_taken) => format!("{name}@{index}"),
        None => name,
    };
    let port = ip.devices.port(&name).unwrap_or_else(|| ip.add_device(&name));
    numbers.known.push((index, port));
    Ok(Some((port, LinkState { group, ..link_state(flags) })))
}

/// What an `RTM_NEWLINK` or `RTM_DELLINK` tells: the interface's number and name, and whether it is up and has
/// a carrier.
///
/// # Errors
/// The message is malformed.
pub fn read_link(body: &[u8]) -> Result<(u32, String, LinkState), NetlinkError> {
    let (index, flags, rest) = link_header(body)?;
    let mut name = None;
    for attribute in attributes(rest) {
        if let (IFLA_IFNAME, value) = attribute? {
            name = Some(text(value));
        }
    }
    Ok((index, name.ok_or(NetlinkError::Missing("interface name"))?, link_state(flags)))
}

/// The MTU that an `RTM_NEWLINK` tells, if it does, and of which interface.
pub fn read_mtu(body: &[u8]) -> Option<(u32, u32)> {
    let (index, _, rest) = link_header(body).ok()?;
    let told = attributes(rest).flatten().find(|(kind, _)| *kind == IFLA_MTU)?.1;
    Some((index, u32::from_le_bytes(told.first_chunk().copied()?)))
}

/// The route that an `RTM_NEWROUTE` or `RTM_DELROUTE` tells of; `None` if it is none of ours: a cached
/// one, or of another family.
///
/// # Errors
/// The message is malformed, or not understood.
pub fn read_route(body: &[u8], numbers: &Numbers) -> Result<Option<Route>, NetlinkError> {
    let flags = body.get(8..12).map_or(0, |b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]));
    if !matches!(body.first(), Some(2 | 10)) || flags & RTM_F_CLONED != 0 {
        return Ok(None);
    }
    let route = netlink::decode_route(body, numbers)?;
    Ok(Some(if route.kind.is_refusal() && !matches!(route.target, Target::Object(_)) {
        Route { target: Target::Hops(Vec::new()), ..route }
    } else {
        route
    }))
}

/// `struct ifaddrmsg`.
fn add_address(ip: &mut Ip, numbers: &Numbers, body: &[u8]) -> Result<(), NetlinkError> {
    let header = body.first_chunk::<8>().ok_or(NetlinkError::Truncated)?;
    if !matches!(header[0], 2 | 10) {
        return Ok(());
    }
    let index = u32::from_le_bytes([header[4], header[5], header[6], header[7]]);
    let (mut local, mut peer) = (None, None);
    for attribute in attributes(&body[8..]) {
        match attribute? {
            (IFA_LOCAL, value) => local = Some(address(IFA_LOCAL, value)?),
            (IFA_ADDRESS, value) => peer = Some(address(IFA_ADDRESS, value)?),
            _ => {}
        }
    }
    if let Some(addr) = local.or(peer) {
        ip.devices.add_address(numbers.port(index), addr, header[1]);
    }
    Ok(())
}

/// The rules of each family that has any in the dump; without a dump the default ones stay.
fn add_rules<'a>(
    ip: &mut Ip,
    bodies: impl Iterator<Item = &'a [u8]>,
    skipped: &mut Skipped,
) -> Result<(), NetlinkError> {
    let mut cleared = [false; 2];
    for body in bodies {
        let read = read_rule(ip, body, skipped);
        let read = or_skip(read, || "rule".to_owned(), skipped)?;
        let Some((v6, rule)) = read.flatten() else { continue };
        if !std::mem::replace(&mut cleared[usize::from(v6)], true) {
            while ip.fib.delete_rule(v6, |_| true).is_ok() {}
        }
        let priority = rule.priority;
        if let Err(error) = ip.fib.add_rule(v6, rule) {
            skipped.push(format!("rule {priority}: {error}"));
        }
    }
    Ok(())
}

/// `struct fib_rule_hdr` and its attributes (`FRA_*`).
fn read_rule(
    ip: &mut Ip,
    body: &[u8],
    skipped: &mut Skipped,
) -> Result<Option<(bool, Rule)>, NetlinkError> {
    const TO_TABLE: u8 = 1;
    const GOTO: u8 = 2;
    const NOP: u8 = 3;
    const BLACKHOLE: u8 = 6;
    const UNREACHABLE: u8 = 7;
    const PROHIBIT: u8 = 8;
    const INVERT: u32 = 2;
    let header = body.first_chunk::<12>().ok_or(NetlinkError::Truncated)?;
    let [family, to_len, from_len, tos, table, _, _, action, ..] = *header;
    let flags = u32::from_le_bytes([header[8], header[9], header[10], header[11]]);
    let v6 = match family {
        2 => false,
        10 => true,
        _ => return Ok(None),
    };
    let mut rule = Rule { tos, invert: flags & INVERT != 0, ..Rule::all(0, Action::Nop) };
    let (mut table, mut target) = (u32::from(table), 0);
    let (mut mark, mut mask, mut unknown) = (0, 0, None);
    // Bits beyond the length are compared by no kernel.
    let prefix = |kind: u16, value: &[u8], len: u8| -> Result<Option<Prefix>, NetlinkError> {
        let addr: IpAddr = address(kind, value)?;
        let prefix = Prefix::containing(addr, len);
        Ok(Some(prefix.ok_or(NetlinkError::Refused(FibError::InvalidPrefix))?))
    };
    for attribute in attributes(&body[12..]) {
        let (kind, value) = attribute?;
        match kind {
            1 => rule.to = prefix(kind, value, to_len)?,
            2 => rule.from = prefix(kind, value, from_len)?,
            3 | 17 => {
                let name = text(value);
                let Some(port) = ip.port_for_rule(&name) else {
                    skipped.push(format!("a rule for the absent interface {name}"));
                    return Ok(None);
                };
                match kind {
                    17 => rule.oif = Some(port),
                    _ => rule.iif = Some(input_port(port)),
                }
            }
            4 => target = word(kind, value)?,
            6 => rule.priority = word(kind, value)?,
            10 => mark = word(kind, value)?,
            13 => rule.suppress_group = Some(word(kind, value)?).filter(|group| *group != u32::MAX),
            14 => rule.suppress_prefix_len = u8::try_from(word(kind, value)?).ok(),
            15 => table = word(kind, value)?,
            16 => mask = word(kind, value)?,
            22 => rule.protocol = value.first().copied(),
            23 => rule.src_ports = Some(range(kind, value)?),
            24 => rule.dst_ports = Some(range(kind, value)?),
            // Realms, padding, and who made the rule: they narrow nothing.
            11 | 18 | 21 => {}
            _ => unknown = Some(kind),
        }
    }
    if let Some(kind) = unknown {
        let name = UNKNOWN.iter().find(|(there, _)| *there == kind);
        let name = name.map_or_else(|| format!("attribute {kind}"), |(_, name)| (*name).to_owned());
        skipped.push(format!("rule {}: {name} is not supported", rule.priority));
        return Ok(None);
    }
    rule.mark = Some((mark, mask)).filter(|_| mark | mask != 0);
    rule.action = match action {
        TO_TABLE => Action::Table(TableId(table)),
        GOTO => Action::Goto(target),
        NOP => Action::Nop,
        BLACKHOLE => Action::Blackhole,
        UNREACHABLE => Action::Unreachable,
        PROHIBIT => Action::Prohibit,
        _ => {
            skipped.push(format!("rule {}: action {action} is unknown", rule.priority));
            return Ok(None);
        }
    };
    Ok(Some((v6, rule)))
}

/// `struct fib_rule_port_range`.
fn range(kind: u16, value: &[u8]) -> Result<RangeInclusive<u16>, NetlinkError> {
    let bytes = <[u8; 4]>::try_from(value).map_err(|_| NetlinkError::BadLength(kind))?;
    Ok(u16::from_le_bytes([bytes[0], bytes[1]])..=u16::from_le_bytes([bytes[2], bytes[3]]))
}

/// A string that ends with a zero byte.
fn text(value: &[u8]) -> String {
    String::from_utf8_lossy(value.strip_suffix(&[0]).unwrap_or(value)).into_owned()
}

#[cfg(test)]
mod tests;
