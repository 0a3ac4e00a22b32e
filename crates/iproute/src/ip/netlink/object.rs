//! Next-hop objects: `nhmsg` and its attributes.

use super::{
    AF_INET, AF_INET6, Interfaces, NESTED, NetlinkError, NetlinkResult, RTNH_F_ONLINK, address,
    attributes, half, put, put_address, word,
};
use datapath::fib::nexthop::ObjectConfig;
use datapath::fib::resilient::{Member, ResilientConfig};
use datapath::fib::{FibError, Hop, NextHop};
use datapath::units::{Duration, NANOS_PER_SEC};

const NHA_ID: u16 = 1;
const NHA_GROUP: u16 = 2;
const NHA_GROUP_TYPE: u16 = 3;
const NHA_BLACKHOLE: u16 = 4;
const NHA_OIF: u16 = 5;
const NHA_GATEWAY: u16 = 6;
/// It forwards frames of a bridge or a VXLAN, not packets.
const NHA_FDB: u16 = 11;
const NHA_RES_GROUP: u16 = 12;
const RES_BUCKETS: u16 = 1;
const RES_IDLE_TIMER: u16 = 2;
const RES_UNBALANCED_TIMER: u16 = 3;
const RES_GROUP_TYPE: u16 = 1;

/// The body of an `RTM_NEWNEXTHOP`.
pub fn encode_object(id: u32, config: &ObjectConfig, interfaces: &impl Interfaces) -> Vec<u8> {
    let (family, flags) = match config {
        ObjectConfig::Hop(hop) => {
            let v6 = hop.hop.gateway.is_some_and(|gateway| gateway.is_ipv6());
            (if v6 { AF_INET6 } else { AF_INET }, if hop.onlink { RTNH_F_ONLINK } else { 0 })
        }
        ObjectConfig::Blackhole => (AF_INET, 0),
        ObjectConfig::Group(_) | ObjectConfig::Resilient(..) => (0, 0),
    };
    let mut out = vec![family, 0, 0, 0, flags, 0, 0, 0];
    put(&mut out, NHA_ID, &id.to_le_bytes());
    match config {
        ObjectConfig::Blackhole => put(&mut out, NHA_BLACKHOLE, &[]),
        ObjectConfig::Hop(hop) => {
            put(&mut out, NHA_OIF, &interfaces.index(hop.hop.port).to_le_bytes());
            if let Some(gateway) = hop.hop.gateway {
                put_address(&mut out, NHA_GATEWAY, gateway);
            }
        }
        ObjectConfig::Group(members) => {
            put(&mut out, NHA_GROUP_TYPE, &0u16.to_le_bytes());
            put(&mut out, NHA_GROUP, &encode_members(members));
        }
        ObjectConfig::Resilient(members, config) => {
            put(&mut out, NHA_GROUP_TYPE, &RES_GROUP_TYPE.to_le_bytes());
            put(&mut out, NHA_GROUP, &encode_members(members));
            let mut nested = Vec::new();
            put(&mut nested, RES_BUCKETS, &config.buckets.to_le_bytes());
            put(&mut nested, RES_IDLE_TIMER, &ticks(config.idle_timer).to_le_bytes());
            put(&mut nested, RES_UNBALANCED_TIMER, &ticks(config.unbalanced_timer).to_le_bytes());
            put(&mut out, NESTED | NHA_RES_GROUP, &nested);
        }
    }
    out
}

/// `struct nexthop_grp`: the weight less one, its upper byte apart.
fn encode_members(members: &[Member]) -> Vec<u8> {
    let mut out = Vec::new();
    for member in members {
        let [low, high] = (member.weight - 1).to_le_bytes();
        out.extend(member.id.to_le_bytes());
        out.extend([low, high, 0, 0]);
    }
    out
}

/// The number and configuration in the body of an `RTM_NEWNEXTHOP`.
///
/// # Errors
/// The message is malformed or says something that no object can be.
pub fn decode_object(
    message: &[u8],
    interfaces: &impl Interfaces,
) -> NetlinkResult<(u32, ObjectConfig)> {
    let header = message.first_chunk::<8>().ok_or(NetlinkError::Truncated)?;
    let (mut id, mut port, mut gateway, mut blackhole) = (None, None, None, false);
    let (mut members, mut group_type) = (None, 0);
    let mut resilient = ResilientConfig::default();
    for attribute in attributes(&message[8..]) {
        let (kind, value) = attribute?;
        match kind {
            NHA_ID => id = Some(word(kind, value)?),
            NHA_OIF => port = Some(interfaces.port(word(kind, value)?)),
            NHA_GATEWAY => gateway = Some(address(kind, value)?),
            NHA_BLACKHOLE => blackhole = true,
            NHA_GROUP => members = Some(decode_members(value)?),
            NHA_GROUP_TYPE => group_type = half(kind, value)?,
            NHA_RES_GROUP => decode_resilient(value, &mut resilient)?,
            NHA_FDB => return Err(NetlinkError::Unsupported("fdb")),
            _ => {}
        }
    }
    let id = id.ok_or(NetlinkError::Missing("id"))?;
    let config = match (members, port) {
        (Some(members), _) if group_type == RES_GROUP_TYPE => {
            ObjectConfig::Resilient(members, resilient)
        }
        (Some(members), _) => ObjectConfig::Group(members),
        (None, _) if blackhole => ObjectConfig::Blackhole,
        (None, Some(port)) => {
            let onlink = header[4] & RTNH_F_ONLINK != 0;
            ObjectConfig::Hop(NextHop { hop: Hop { port, gateway }, weight: 1, onlink })
        }
        (None, None) => return Err(NetlinkError::Missing("device")),
    };
    Ok((id, config))
}

/// The number of an object, whatever else it is.
pub(in crate::ip) fn object_id(message: &[u8]) -> Option<u32> {
    let mut all = attributes(message.get(8..)?).flatten();
    all.find(|(kind, _)| *kind == NHA_ID).and_then(|(kind, value)| word(kind, value).ok())
}

fn decode_members(value: &[u8]) -> NetlinkResult<Vec<Member>> {
    let (members, rest) = value.as_chunks::<8>();
    if !rest.is_empty() {
        return Err(NetlinkError::BadLength(NHA_GROUP));
    }
    let member = |bytes: &[u8; 8]| {
        let weight = u16::from_le_bytes([bytes[4], bytes[5]]).checked_add(1);
        let weight = weight.ok_or(NetlinkError::Refused(FibError::InvalidWeight))?;
        Ok(Member { id: u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]), weight })
    };
    members.iter().map(member).collect()
}

fn decode_resilient(value: &[u8], config: &mut ResilientConfig) -> NetlinkResult<()> {
    for attribute in attributes(value) {
        let (kind, value) = attribute?;
        match kind {
            RES_BUCKETS => config.buckets = half(kind, value)?,
            RES_IDLE_TIMER => config.idle_timer = from_ticks(word(kind, value)?),
            RES_UNBALANCED_TIMER => config.unbalanced_timer = from_ticks(word(kind, value)?),
            _ => {}
        }
    }
    Ok(())
}

/// `clock_t`: hundredths of a second.
fn ticks(span: Duration) -> u32 {
    u32::try_from(span.as_nanos() / (NANOS_PER_SEC / 100)).unwrap_or(u32::MAX)
}

fn from_ticks(ticks: u32) -> Duration {
    Duration::from_millis(10) * u64::from(ticks)
}
