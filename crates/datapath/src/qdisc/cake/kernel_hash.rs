//! The kernel's own hash of flows (`flow_hash_from_keys`): SipHash-2-4 of `struct flow_keys` as it
//! lies in the memory of a 64-bit little-endian machine.
//!
//! [`super::hash`] has a faster one of equal quality. This one reproduces
//! in which queue a kernel with a known key puts a packet, and therefore which flows collide
//! and from which of several equally long queues the kernel drops.

use crate::packet::{FlowAddresses, FlowKeys};
use core::hash::Hasher as _;
use siphasher::sip::SipHasher24;

/// The hash of a flow, which is never 0.
pub fn flow(key: (u64, u64), keys: &FlowKeys) -> u32 {
    let mut bytes = [0; LONGEST];
    let len = lay_out(keys, &mut bytes);
    let mut hasher = SipHasher24::new_with_keys(key.0, key.1);
    hasher.write(&bytes[..len]);
    (hasher.finish() as u32).max(1)
}

/// One of a packet's two addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The source address.
    Source,
    /// The destination address.
    Destination,
}

impl Side {
    /// That one of the two.
    #[inline]
    pub fn of<T>(self, src: T, dst: T) -> T {
        match self {
            Self::Source => src,
            Self::Destination => dst,
        }
    }
}

/// The hash of one of the two addresses (`cake_hash`): that of a flow that has no other and nothing
/// else but EtherType and VLAN tag; 0 for packets without addresses.
pub fn host(key: (u64, u64), keys: &FlowKeys, side: Side) -> u32 {
    let addresses = match (keys.addresses, side) {
        (FlowAddresses::None | FlowAddresses::Tipc(_), _) => return 0,
        (FlowAddresses::V4(_, dst), Side::Destination) => FlowAddresses::V4(0, dst),
        (FlowAddresses::V4(src, _), Side::Source) => FlowAddresses::V4(src, 0),
        (FlowAddresses::V6(_, dst), Side::Destination) => FlowAddresses::V6([0; 2], dst),
        (FlowAddresses::V6(src, _), Side::Source) => FlowAddresses::V6(src, [0; 2]),
    };
    let FlowKeys { ether_type, tag, .. } = *keys;
    flow(key, &FlowKeys { addresses, ether_type, tag, ..FlowKeys::default() })
}

/// Writes the bytes that are hashed and says how many they are. Both directions give the same
/// (`__flow_hash_consistentify`).
fn lay_out(keys: &FlowKeys, bytes: &mut [u8; LONGEST]) -> usize {
    let FlowKeys { addresses, ports, protocol, ether_type, flow_label, gre_key, tag } = *keys;
    let mut put = |at: usize, part: &[u8]| bytes[at..at + part.len()].copy_from_slice(part);
    let [.., e0, e1, t0, t1, n0, n1] = tag.to_be_bytes();
    put(0, &ether_type.to_be_bytes());
    put(2, &[protocol]);
    put(4, &flow_label.to_le_bytes());
    put(8, &[t1, t0, e0, e1, n0, n1]);
    put(24, &gre_key.to_be_bytes());
    // What is compared are numbers in the order of the machine, of addresses and of ports.
    let mut ports = [ports.0, ports.1].map(u16::to_be_bytes);
    if matches!(addresses, FlowAddresses::V4(..) | FlowAddresses::V6(..)) {
        ports.sort_unstable_by_key(|port| u16::from_le_bytes(*port));
    }
    put(28, ports.as_flattened());
    match addresses {
        FlowAddresses::None => {}
        FlowAddresses::Tipc(node) => put(ADDRESSES, &node.to_be_bytes()),
        FlowAddresses::V4(src, dst) => {
            let mut both = [src, dst].map(u32::to_be_bytes);
            both.sort_unstable_by_key(|address| u32::from_le_bytes(*address));
            put(ADDRESSES, both.as_flattened());
        }
        FlowAddresses::V6(src, dst) => {
            let words = [src.min(dst), src.max(dst)];
            for (at, word) in words.as_flattened().iter().enumerate() {
                put(ADDRESSES + 8 * at, &word.to_be_bytes());
            }
        }
    }
    // The structure ends with four bytes of padding.
    let len = match addresses {
        FlowAddresses::None => 0,
        FlowAddresses::Tipc(_) => 4,
        FlowAddresses::V4(..) => 8,
        FlowAddresses::V6(..) => 32,
    };
    ADDRESSES + len + 4
}

/// Where addresses begin: behind protocols, label, two tags, key, ports and ICMP's identifier.
const ADDRESSES: usize = 36;
/// With IPv6 addresses and the padding.
const LONGEST: usize = ADDRESSES + 32 + 4;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::EtherType;

    /// Seen in a kernel with this key, by the number of its class; the host's by another program.
    #[test]
    fn a_flow_has_the_same_hash_as_in_the_kernel() {
        let keys = |src, dst, ports| FlowKeys {
            addresses: FlowAddresses::V4(src, dst),
            ports,
            protocol: 17,
            ether_type: EtherType::IPV4.0,
            ..FlowKeys::default()
        };
        let key = (0x0123_4567_89ab_cdef, 0xfedc_ba98_7654_3210);
        let (here, there) = (0x0a00_0001, 0x0a01_0003);
        let forth = keys(here, there, (1000, 80));
        assert_eq!(flow(key, &forth), 0x1f7c_aab5);
        assert_eq!(flow(key, &keys(there, here, (80, 1000))), 0x1f7c_aab5, "back");
        assert_eq!(host(key, &forth, Side::Source), 0xc788_527b);
        assert_eq!(host(key, &forth, Side::Destination), 0x305b_dc0c);
        assert_eq!(
            host(key, &keys(there, here, (7, 8)), Side::Source),
            0x305b_dc0c,
            "on whichever side"
        );
    }
}
