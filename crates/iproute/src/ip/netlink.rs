//! Routes and next-hop objects as rtnetlink messages, both ways.
//!
//! A message here is what follows the `nlmsghdr`: `rtmsg` or `nhmsg` and attributes, little-endian
//! as on the machines that we run on. Attributes are written in the kernel's order, so that what
//! the kernel dumped and we decoded is encoded to the same bytes, as far as a [`Route`] holds it.

mod object;

pub(super) use object::object_id;
pub use object::{decode_object, encode_object};

use super::metrics::congestion_control;
use core::fmt;
use core::net::IpAddr;
use core::num::{NonZeroU8, NonZeroU32};
use datapath::fib::{
    Algorithm, Features, FibError, Hop, NextHop, Prefix, Protocol, Route, RouteType, Scope,
    TableId, Target,
};
use datapath::metrics::{Locks, RouteMetrics};

/// `RTM_NEWROUTE`.
pub const RTM_NEWROUTE: u16 = 24;
/// `RTM_DELROUTE`.
pub const RTM_DELROUTE: u16 = 25;
/// `RTM_NEWNEXTHOP`.
pub const RTM_NEWNEXTHOP: u16 = 104;
/// `RTM_DELNEXTHOP`.
pub const RTM_DELNEXTHOP: u16 = 105;

const AF_INET: u8 = 2;
pub(super) const AF_INET6: u8 = 10;

const RTA_DST: u16 = 1;
const RTA_OIF: u16 = 4;
const RTA_GATEWAY: u16 = 5;
const RTA_PRIORITY: u16 = 6;
const RTA_PREFSRC: u16 = 7;
const RTA_METRICS: u16 = 8;
const RTAX_LOCK: u16 = 1;
const RTAX_MTU: u16 = 2;
const RTAX_WINDOW: u16 = 3;
/// In eighths of a ms.
const RTAX_RTT: u16 = 4;
/// In quarters of a ms.
const RTAX_RTTVAR: u16 = 5;
const RTAX_SSTHRESH: u16 = 6;
const RTAX_CWND: u16 = 7;
const RTAX_ADVMSS: u16 = 8;
const RTAX_REORDERING: u16 = 9;
const RTAX_HOPLIMIT: u16 = 10;
const RTAX_INITCWND: u16 = 11;
const RTAX_FEATURES: u16 = 12;
/// In ms.
const RTAX_RTO_MIN: u16 = 13;
const RTAX_INITRWND: u16 = 14;
const RTAX_QUICKACK: u16 = 15;
/// A name.
const RTAX_CC_ALGO: u16 = 16;
const RTAX_FASTOPEN_NO_COOKIE: u16 = 17;
const RTA_MULTIPATH: u16 = 9;
/// Of the 2015 series (and, under another name, of 2.6.12 to 2.6.22).
const RTA_MP_ALGO: u16 = 14;
const RTA_TABLE: u16 = 15;
const RTA_VIA: u16 = 18;
const RTA_NH_ID: u16 = 30;

/// `NLA_F_NESTED` and `NLA_F_NET_BYTEORDER`, which are no part of the type.
const TYPE_MASK: u16 = 0x3fff;
const NESTED: u16 = 0x8000;
const RTNH_F_ONLINK: u8 = 4;
const RT_TABLE_COMPAT: u8 = 252;

/// Why a message is not a route or object of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NetlinkError {
    /// A header, attribute or value ends too early.
    Truncated,
    /// An attribute's value has a length that its type cannot have.
    BadLength(u16),
    /// Neither IPv4 nor IPv6.
    BadFamily(u8),
    /// A route type without a meaning here.
    BadType(u8),
    /// Something that every message of its kind has is missing.
    Missing(&'static str),
    /// The values are well formed, but no route or object.
    Refused(FibError),
    /// A kernel's object that has no place here, because it would mean something else without what it says.
    Unsupported(&'static str),
}

impl NetlinkError {
    /// True if the message itself is broken; anything else is only not understood.
    pub fn is_malformed(&self) -> bool {
        matches!(self, Self::Truncated | Self::BadLength(_))
    }
}

/// Interface numbers: the kernel's count from 1 with holes, ports do not.
pub trait Interfaces {
    /// The kernel's number of a port.
    fn index(&self, port: u16) -> u32;
    /// The port with the kernel's number.
    fn port(&self, index: u32) -> u16;
}

impl fmt::Display for NetlinkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Truncated => write!(f, "the message ends too early"),
            Self::BadLength(kind) => write!(f, "attribute {kind} has a wrong length"),
            Self::BadFamily(family) => write!(f, "address family {family} is not IP"),
            Self::BadType(kind) => write!(f, "route type {kind} is unknown"),
            Self::Missing(what) => write!(f, "{what} is missing"),
            Self::Refused(error) => write!(f, "{error}"),
            Self::Unsupported(what) => write!(f, "{what} is not supported"),
        }
    }
}

impl std::error::Error for NetlinkError {}

impl From<FibError> for NetlinkError {
    fn from(error: FibError) -> Self {
        Self::Refused(error)
    }
}

type NetlinkResult<T> = Result<T, NetlinkError>;

/// The body of an `RTM_NEWROUTE`. One next hop goes without `RTA_MULTIPATH`, as the kernel dumps it,
/// unless it has a weight: the kernel takes that and keeps it for siblings to come, but never tells it.
pub fn encode_route(route: &Route, interfaces: &impl Interfaces) -> Vec<u8> {
    let v6 = route.prefix.addr().is_ipv6();
    let single = match &route.target {
        Target::Hops(hops) if hops.len() == 1 && hops[0].weight == 1 => Some(hops[0]),
        _ => None,
    };
    let onlink = single.is_some_and(|hop| hop.onlink);
    let mut out = vec![
        if v6 { AF_INET6 } else { AF_INET },
        route.prefix.len(),
        0,
        route.tos,
        u8::try_from(route.table.0).unwrap_or(RT_TABLE_COMPAT),
        route.protocol.0,
        route.scope.0,
        route.kind as u8,
    ];
    out.extend(if onlink { u32::from(RTNH_F_ONLINK) } else { 0 }.to_le_bytes());
    put(&mut out, RTA_TABLE, &route.table.0.to_le_bytes());
    if !route.prefix.is_empty() {
        put_address(&mut out, RTA_DST, route.prefix.addr());
    }
    if route.metric != 0 {
        put(&mut out, RTA_PRIORITY, &route.metric.to_le_bytes());
    }
    if let Some(prefsrc) = route.prefsrc {
        put_address(&mut out, RTA_PREFSRC, prefsrc);
    }
    let metrics = encode_metrics(route);
    if !metrics.is_empty() {
        put(&mut out, RTA_METRICS, &metrics);
    }
    if let Some(algorithm) = route.algorithm.encode() {
        put(&mut out, RTA_MP_ALGO, &algorithm);
    }
    match &route.target {
        Target::Object(id) => put(&mut out, RTA_NH_ID, &id.to_le_bytes()),
        Target::Hops(hops) if single.is_none() && !hops.is_empty() => {
            let hops: Vec<u8> =
                hops.iter().flat_map(|hop| encode_hop(hop, v6, interfaces)).collect();
            put(&mut out, RTA_MULTIPATH, &hops);
        }
        Target::Hops(hops) => {
            for hop in hops {
                put_gateway(&mut out, hop.hop.gateway, v6);
                put(&mut out, RTA_OIF, &interfaces.index(hop.hop.port).to_le_bytes());
            }
        }
    }
    out
}

/// `struct rtnexthop` and its attributes.
fn encode_hop(hop: &NextHop, v6: bool, interfaces: &impl Interfaces) -> Vec<u8> {
    let flags = if hop.onlink { RTNH_F_ONLINK } else { 0 };
    let mut out = vec![0, 0, flags, (hop.weight - 1) as u8];
    out.extend(interfaces.index(hop.hop.port).to_le_bytes());
    put_gateway(&mut out, hop.hop.gateway, v6);
    let len = out.len() as u16;
    out[..2].copy_from_slice(&len.to_le_bytes());
    out
}

/// The route in the body of an `RTM_NEWROUTE`. Attributes that a [`Route`] has no place for are
/// passed over, but for the prefix of sources, without which a route would be of all packets.
///
/// # Errors
/// The message is malformed or says something that no route can be.
pub fn decode_route(message: &[u8], interfaces: &impl Interfaces) -> NetlinkResult<Route> {
    let header = message.first_chunk::<12>().ok_or(NetlinkError::Truncated)?;
    let [family, len, source_len, tos, table, protocol, scope, kind, flags, ..] = *header;
    let v6 = is_v6(family)?;
    if source_len != 0 {
        return Err(NetlinkError::Unsupported("a source prefix"));
    }
    let kind = RouteType::from_number(kind).ok_or(NetlinkError::BadType(kind))?;
    let default = if v6 { Prefix::DEFAULT_V6 } else { Prefix::DEFAULT_V4 };
    let mut dst = default.addr();
    let mut hop = Hop { port: 0, gateway: None };
    let (mut port, mut hops, mut object) = (None, Vec::new(), None);
    let mut route = Route {
        tos,
        kind,
        scope: Scope(scope),
        protocol: Protocol(protocol),
        ..Route::new(default, Vec::new()).table(TableId(table.into()))
    };
    for attribute in attributes(&message[12..]) {
        let (kind, value) = attribute?;
        match kind {
            RTA_DST => dst = address(kind, value)?,
            RTA_OIF => port = Some(interfaces.port(word(kind, value)?)),
            RTA_GATEWAY => hop.gateway = Some(address(kind, value)?),
            RTA_VIA => hop.gateway = Some(via(kind, value)?),
            RTA_PRIORITY => route.metric = word(kind, value)?,
            RTA_PREFSRC => route.prefsrc = Some(address(kind, value)?),
            RTA_MULTIPATH => hops = decode_hops(value, interfaces)?,
            RTA_MP_ALGO => route.algorithm = Algorithm::decode(value)?,
            RTA_TABLE => route.table = TableId(word(kind, value)?),
            RTA_METRICS => decode_metrics(value, &mut route)?,
            RTA_NH_ID => object = Some(word(kind, value)?),
            _ => {}
        }
    }
    if dst.is_ipv6() != v6 {
        return Err(NetlinkError::Refused(FibError::InvalidPrefix));
    }
    route.prefix = Prefix::new(dst, len)?;
    if let (Some(port), true, false) = (port, hops.is_empty(), kind.is_refusal()) {
        let onlink = flags & RTNH_F_ONLINK != 0;
        hops.push(NextHop { hop: Hop { port, ..hop }, weight: 1, onlink });
    }
    // A dump tells the next hops of an object too; the object is what counts.
    route.target = object.map_or(Target::Hops(hops), Target::Object);
    Ok(route)
}

/// What `RTA_METRICS` holds, in the order of the numbers (`rtnetlink_put_metrics`).
fn encode_metrics(route: &Route) -> Vec<u8> {
    let RouteMetrics {
        mtu,
        mtu_locked,
        advmss,
        window,
        rtt_ms_8,
        rttvar_ms_4,
        ssthresh,
        reordering,
        cwnd,
        hoplimit,
        congctl,
        locks,
        initcwnd,
        initrwnd,
        rto_min_us,
        quickack,
        fastopen_no_cookie,
    } = route.metrics;
    let set = |metric: Option<NonZeroU32>| metric.map_or(0, NonZeroU32::get);
    let mut out = Vec::new();
    for (kind, value) in [
        (RTAX_LOCK, u32::from(mtu_locked) << RTAX_MTU | locks.0),
        (RTAX_MTU, set(mtu)),
        (RTAX_WINDOW, set(window)),
        (RTAX_RTT, set(rtt_ms_8)),
        (RTAX_RTTVAR, set(rttvar_ms_4)),
        (RTAX_SSTHRESH, set(ssthresh)),
        (RTAX_CWND, set(cwnd)),
        (RTAX_ADVMSS, set(advmss)),
        (RTAX_REORDERING, set(reordering)),
        (RTAX_HOPLIMIT, hoplimit.map_or(0, |hops| hops.get().into())),
        (RTAX_INITCWND, set(initcwnd)),
        (RTAX_FEATURES, route.features.0),
        (RTAX_RTO_MIN, set(rto_min_us) / 1_000),
        (RTAX_INITRWND, set(initrwnd)),
        (RTAX_QUICKACK, u32::from(quickack)),
        (RTAX_FASTOPEN_NO_COOKIE, u32::from(fastopen_no_cookie)),
    ] {
        if let (RTAX_FASTOPEN_NO_COOKIE, Some(name)) = (kind, congctl) {
            put(&mut out, RTAX_CC_ALGO, &[name.as_bytes(), &[0]].concat());
        }
        if value != 0 {
            put(&mut out, kind, &value.to_le_bytes());
        }
    }
    out
}

/// Those of the metrics that a route here has a place for; a congestion control that is not known here is passed over.
fn decode_metrics(bytes: &[u8], route: &mut Route) -> NetlinkResult<()> {
    let metrics = &mut route.metrics;
    for attribute in attributes(bytes) {
        let (kind, value) = attribute?;
        let number = || word(kind, value);
        match kind {
            RTAX_LOCK => {
                let locks = number()?;
                metrics.mtu_locked = locks >> RTAX_MTU & 1 != 0;
                // The lowest timeout of a route always is.
                metrics.locks = Locks(locks & !(1 << RTAX_MTU | 1 << RTAX_RTO_MIN));
            }
            RTAX_RTT => metrics.rtt_ms_8 = NonZeroU32::new(number()?),
            RTAX_RTTVAR => metrics.rttvar_ms_4 = NonZeroU32::new(number()?),
            RTAX_SSTHRESH => metrics.ssthresh = NonZeroU32::new(number()?),
            RTAX_CWND => metrics.cwnd = NonZeroU32::new(number()?),
            RTAX_REORDERING => metrics.reordering = NonZeroU32::new(number()?),
            RTAX_HOPLIMIT => metrics.hoplimit = NonZeroU8::new(number()?.min(255) as u8),
            RTAX_CC_ALGO => {
                let name = core::str::from_utf8(value).unwrap_or_default();
                metrics.congctl = congestion_control(name.trim_end_matches('\0'));
            }
            RTAX_MTU => metrics.mtu = NonZeroU32::new(number()?),
            RTAX_WINDOW => metrics.window = NonZeroU32::new(number()?),
            RTAX_ADVMSS => metrics.advmss = NonZeroU32::new(number()?),
            RTAX_INITCWND => metrics.initcwnd = NonZeroU32::new(number()?),
            RTAX_FEATURES => route.features = Features(number()?),
            RTAX_RTO_MIN => metrics.rto_min_us = NonZeroU32::new(number()?.saturating_mul(1_000)),
            RTAX_INITRWND => metrics.initrwnd = NonZeroU32::new(number()?),
            RTAX_QUICKACK => metrics.quickack = number()? != 0,
            RTAX_FASTOPEN_NO_COOKIE => metrics.fastopen_no_cookie = number()? != 0,
            _ => {}
        }
    }
    Ok(())
}

fn decode_hops(mut bytes: &[u8], interfaces: &impl Interfaces) -> NetlinkResult<Vec<NextHop>> {
    let mut hops = Vec::new();
    while !bytes.is_empty() {
        let head = bytes.first_chunk::<8>().ok_or(NetlinkError::Truncated)?;
        let len = usize::from(u16::from_le_bytes([head[0], head[1]]));
        let one = bytes.get(8..len).ok_or(NetlinkError::Truncated)?;
        let index = u32::from_le_bytes([head[4], head[5], head[6], head[7]]);
        let mut hop = Hop { port: interfaces.port(index), gateway: None };
        for attribute in attributes(one) {
            match attribute? {
                (RTA_GATEWAY, value) => hop.gateway = Some(address(RTA_GATEWAY, value)?),
                (RTA_VIA, value) => hop.gateway = Some(via(RTA_VIA, value)?),
                _ => {}
            }
        }
        let onlink = head[2] & RTNH_F_ONLINK != 0;
        hops.push(NextHop { hop, weight: u16::from(head[3]) + 1, onlink });
        bytes = bytes.get(len.next_multiple_of(4)..).unwrap_or_default();
    }
    Ok(hops)
}

/// One attribute: length, type, value, padding to four bytes.
fn put(out: &mut Vec<u8>, kind: u16, value: &[u8]) {
    let len = u16::try_from(4 + value.len()).expect("an attribute of less than 64 KiB");
    out.extend(len.to_le_bytes());
    out.extend(kind.to_le_bytes());
    out.extend(value);
    out.resize(out.len().next_multiple_of(4), 0);
}

fn put_address(out: &mut Vec<u8>, kind: u16, addr: IpAddr) {
    match addr {
        IpAddr::V4(addr) => put(out, kind, &addr.octets()),
        IpAddr::V6(addr) => put(out, kind, &addr.octets()),
    }
}

/// `RTA_GATEWAY`, or `RTA_VIA` where the gateway is of the other family.
fn put_gateway(out: &mut Vec<u8>, gateway: Option<IpAddr>, v6: bool) {
    match gateway {
        Some(gateway) if gateway.is_ipv6() == v6 => put_address(out, RTA_GATEWAY, gateway),
        Some(IpAddr::V6(gateway)) => {
            put(out, RTA_VIA, &[&[AF_INET6, 0][..], &gateway.octets()].concat());
        }
        Some(IpAddr::V4(gateway)) => {
            put(out, RTA_VIA, &[&[AF_INET, 0][..], &gateway.octets()].concat());
        }
        None => {}
    }
}

/// The attributes of a message.
pub(super) fn attributes(mut bytes: &[u8]) -> impl Iterator<Item = NetlinkResult<(u16, &[u8])>> {
    core::iter::from_fn(move || {
        if bytes.is_empty() {
            return None;
        }
        let read = || -> Option<(u16, usize, &[u8])> {
            let head = bytes.first_chunk::<4>()?;
            let len = usize::from(u16::from_le_bytes([head[0], head[1]]));
            let kind = u16::from_le_bytes([head[2], head[3]]) & TYPE_MASK;
            Some((kind, len, bytes.get(4..len)?))
        };
        let Some((kind, len, value)) = read() else {
            bytes = &[];
            return Some(Err(NetlinkError::Truncated));
        };
        bytes = bytes.get(len.next_multiple_of(4)..).unwrap_or_default();
        Some(Ok((kind, value)))
    })
}

fn is_v6(family: u8) -> NetlinkResult<bool> {
    match family {
        AF_INET => Ok(false),
        AF_INET6 => Ok(true),
        _ => Err(NetlinkError::BadFamily(family)),
    }
}

pub(super) fn address(kind: u16, value: &[u8]) -> NetlinkResult<IpAddr> {
    if let Ok(octets) = <[u8; 4]>::try_from(value) {
        return Ok(octets.into());
    }
    let octets = <[u8; 16]>::try_from(value).map_err(|_| NetlinkError::BadLength(kind))?;
    Ok(octets.into())
}

/// `struct rtvia`: the family in two bytes, then the address.
fn via(kind: u16, value: &[u8]) -> NetlinkResult<IpAddr> {
    address(kind, value.get(2..).ok_or(NetlinkError::BadLength(kind))?)
}

pub(super) fn word(kind: u16, value: &[u8]) -> NetlinkResult<u32> {
    Ok(u32::from_le_bytes(value.try_into().map_err(|_| NetlinkError::BadLength(kind))?))
}

fn half(kind: u16, value: &[u8]) -> NetlinkResult<u16> {
    Ok(u16::from_le_bytes(value.try_into().map_err(|_| NetlinkError::BadLength(kind))?))
}

#[cfg(test)]
mod tests;
