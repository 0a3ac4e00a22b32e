//! Which queue a flow belongs to: a keyed hash that both directions share (`skb_get_hash`).

use crate::packet::{Network, Packet};
use crate::rng::Rng;
use core::hash::{Hash, Hasher};
use siphasher::sip::SipHasher13;

/// A secret that makes the hash unpredictable (`hashrnd`).
#[derive(Clone, Copy, Debug)]
pub struct FlowKey(u64, u64);

impl FlowKey {
    /// A fresh key.
    pub fn new(rng: &mut Rng) -> Self {
        Self(rng.next_u64(), rng.next_u64())
    }

    /// 32 bits from addresses, protocol and ports, tunnels seen through, the same in both
    /// directions (`__flow_hash_consistentify`). An IPv6 flow label replaces the ports; packets other than
    /// IP are one flow per EtherType. A hash chosen by the packet's socket has priority (`skb_get_hash`).
    pub fn hash(self, packet: &Packet) -> u32 {
        if packet.meta.hash != 0 {
            return packet.meta.hash;
        }
        let mut hasher = SipHasher13::new_with_keys(self.0, self.1);
        match packet.inner_flow().or_else(|| packet.flow()) {
            Some(flow) => {
                let labelled = flow.flow_label != 0;
                let port = |port| if labelled { 0 } else { port };
                let ends = [(flow.src, port(flow.src_port)), (flow.dst, port(flow.dst_port))];
                ends[0].min(ends[1]).hash(&mut hasher);
                ends[0].max(ends[1]).hash(&mut hasher);
                (flow.protocol, flow.flow_label).hash(&mut hasher);
            }
            None => {
                if let Network::Other(ether_type) = packet.network {
                    ether_type.0.hash(&mut hasher);
                }
            }
        }
        let hash = hasher.finish();
        (hash >> 32) as u32 ^ hash as u32
    }
}

/// `hash` spread evenly over `0..count` (`reciprocal_scale`).
pub fn scale(hash: u32, count: u32) -> u32 {
    ((u64::from(hash) * u64::from(count)) >> 32) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::Transport;
    use crate::qdisc::testing::flow_frame;

    #[test]
    fn what_a_socket_drew_goes_before() {
        let key = FlowKey::new(&mut Rng::stream(1, 1));
        let mut packet = flow_frame(1000, 100, 0);
        packet.meta.hash = 77;
        assert_eq!(key.hash(&packet), 77);
    }

    #[test]
    fn both_directions_share_a_hash() {
        let key = FlowKey::new(&mut Rng::stream(1, 1));
        let there = flow_frame(1000, 100, 0);
        let mut back = there.clone();
        if let (Network::Ipv4(ip), Transport::Udp(udp)) = (&mut back.network, &mut back.transport) {
            core::mem::swap(&mut ip.src, &mut ip.dst);
            core::mem::swap(&mut udp.src_port, &mut udp.dst_port);
        }
        assert_eq!(key.hash(&there), key.hash(&back));
        assert_ne!(key.hash(&there), key.hash(&flow_frame(1001, 100, 0)));
    }

    #[test]
    fn scaling_covers_the_range() {
        assert_eq!([0, 1 << 31, u32::MAX].map(|hash| scale(hash, 1024)), [0, 512, 1023]);
    }
}
