//! Packets too large for their port: cut into fragments where that is allowed (`ip_fragment`,
//! `ip6_fragment`).

use super::Host;
use crate::packet::{Fragments, Meta, Network, Packet, protocol};
use crate::reason::{Enqueue, Reason};
use crate::units::Instant;

impl Host {
    /// Sends a packet of this host's own that is larger than `mtu`.
    #[cold]
    pub(super) fn send_large(
        &mut self,
        now: Instant,
        index: u16,
        mtu: u32,
        packet: Packet,
    ) -> Enqueue {
        let may = match packet.network {
            Network::Ipv4(ip) => !ip.dont_fragment,
            // TCP learns of the path and sends smaller segments.
            Network::Ipv6(ip) => ip.next_header != protocol::TCP,
            Network::Other(_) => false,
        };
        if may {
            return self.send_in_fragments(now, index, mtu, &packet);
        }
        self.count(matches!(packet.network, Network::Ipv6(_))).frag_fails += 1;
        self.drop_packet(Reason::PacketTooBig, packet);
        Enqueue::Dropped
    }

    /// Cuts a packet, or each segment of a super-packet, into fragments and sends those
    /// (`ip_do_fragment`). After a fragment that the queue has dropped, no further one is sent.
    #[cold]
    pub(super) fn send_in_fragments(
        &mut self,
        now: Instant,
        index: u16,
        mtu: u32,
        packet: &Packet,
    ) -> Enqueue {
        let mut verdict = Enqueue::Queued;
        for segment in packet.segment() {
            let Some(mut fragments) = self.fragments_of(&segment, mtu) else {
                self.count(matches!(segment.network, Network::Ipv6(_))).frag_fails += 1;
                self.drop_rest(Reason::PacketTooBig, segment, index);
                return Enqueue::Dropped;
            };
            let ipv6 = matches!(segment.network, Network::Ipv6(_));
            for mut fragment in fragments.by_ref() {
                verdict = self.transmit(now, index, &mut fragment);
                if verdict == Enqueue::Dropped {
                    break;
                }
                self.count(ipv6).frag_creates += 1;
            }
            if verdict == Enqueue::Dropped {
                self.count(ipv6).frag_fails += 1;
                for fragment in fragments {
                    self.drop_rest(Reason::QdiscDrop, fragment, index);
                }
            } else {
                self.count(ipv6).frag_oks += 1;
            }
        }
        verdict
    }

    /// What is not sent any more of a packet whose beginning was handed to a port: one that takes
    /// packets from their owners has taken all of it.
    fn drop_rest(&mut self, reason: Reason, mut packet: Packet, index: u16) {
        if self.ports[usize::from(index)].orphans_at_once(&packet, self.now) {
            packet.meta.owner = Meta::NO_OWNER;
            self.orphaned = true;
        }
        self.drop_packet(reason, packet);
    }

    /// The fragments of a packet; one made here gets an identification of its own.
    fn fragments_of(&mut self, packet: &Packet, mtu: u32) -> Option<Fragments> {
        match packet.network {
            Network::Ipv4(ip) if ip.id == 0 => {
                let mut packet = packet.clone();
                packet.network = Network::Ipv4(crate::packet::Ipv4 { id: self.next_ident(), ..ip });
                packet.refresh_raw();
                packet.fragment(mtu)
            }
            Network::Ipv4(_) => packet.fragment(mtu),
            _ => {
                let id = u32::from(self.next_ident());
                packet.fragment_ipv6(mtu, id)
            }
        }
    }

    /// Identifications count up (`__ip_select_ident`, `ipv6_select_ident`); 0 is none.
    pub(super) fn next_ident(&mut self) -> u16 {
        self.last_ident = self.last_ident.checked_add(1).unwrap_or(1);
        self.last_ident
    }
}
