//! A host whose ports are Ethernet with several others at the far end: where the neighbour layer stands
//! (`ip_finish_output2`, `arp_rcv`, `ndisc_rcv`). Hosts of the simulated world have none: a link has one
//! far end.

use super::Host;
use crate::fib::Hop;
use crate::neighbour::{Action, Link, Neighbours, Resolved, is_discovery};
use crate::node::Port;
use crate::packet::{EtherType, LinkHeader, Network, Packet};
use crate::reason::Reason;
use crate::units::Instant;
use core::net::IpAddr;

/// The neighbour layer of a host, and its state for the current packet.
#[derive(Debug)]
pub(super) struct NeighbourLayer {
    pub table: Neighbours,
    /// The gateway that the latest route look-up has found.
    pub gateway: Option<IpAddr>,
    /// Packets for this host itself are left to another stack (the kernel, whose addresses they are).
    pub local_elsewhere: bool,
}

impl Host {
    /// From now on next hops are resolved to Ethernet addresses. With `local_elsewhere` packets for
    /// this host are ignored, and solicitations for its addresses are not answered: another stack does both.
    pub fn enable_neighbours(&mut self, mut table: Neighbours, local_elsewhere: bool) {
        table.set_answers(!local_elsewhere);
        self.neighbours = Some(Box::new(NeighbourLayer { table, gateway: None, local_elsewhere }));
        self.note_neighbours();
        self.route_cache.forget();
    }

    /// The neighbours, if this host asks for any.
    pub fn neighbours(&self) -> Option<&Neighbours> {
        self.neighbours.as_ref().map(|layer| &layer.table)
    }

    /// Applies `change` to the neighbours; the consequences come out of `poll`.
    pub fn change_neighbours<R>(
        &mut self,
        now: Instant,
        change: impl FnOnce(&mut Neighbours) -> R,
    ) -> Option<R> {
        self.begin(now);
        let result = self.neighbours.as_mut().map(|layer| change(&mut layer.table));
        self.act_for_neighbours(now);
        result
    }

    /// Tells the neighbour layer of a port's own hardware address, none where there is no Ethernet, and of
    /// the addresses in its settings.
    pub fn set_neighbour_link(&mut self, now: Instant, port: Port) {
        let config = &self.ports[usize::from(port.0)].config;
        let link = match config.link {
            LinkHeader::Ethernet { src, .. } => {
                Some(Link { mac: src, addresses: config.addresses.clone() })
            }
            LinkHeader::None => None,
        };
        self.change_neighbours(now, |table| table.set_link(port.0, link));
    }

    /// Completes the link-layer header of a packet that leaves by port `index`; false if it was kept,
    /// because its next hop has to be resolved first.
    #[inline]
    pub(super) fn resolve(&mut self, now: Instant, index: u16, packet: &mut Packet) -> bool {
        if self.neighbours.is_some() {
            return self.resolve_neighbour(now, index, packet);
        }
        packet.set_link(self.ports[usize::from(index)].config.link);
        true
    }

    fn resolve_neighbour(&mut self, now: Instant, index: u16, packet: &mut Packet) -> bool {
        let layer = self.neighbours.as_mut().expect("it was looked for");
        let Some(to) = layer.gateway.or(packet.network.dst()) else { return true };
        let ready = layer.table.resolve(now, index, to, packet) == Resolved::Ready;
        if layer.table.has_action() {
            self.act_for_neighbours(now);
        } else {
            self.note_neighbours();
        }
        ready
    }

    /// Takes in what is not for the network layer, or not by this port; true if it did.
    pub(super) fn deliver_on_link(&mut self, now: Instant, port: Port, place: &mut Packet) -> bool {
        let layer = self.neighbours.as_mut().expect("it was looked for");
        let Some(link) = layer.table.link(port.0) else { return false };
        let own = link.mac;
        let (to_us, to_group) = match place.link {
            LinkHeader::Ethernet { dst, .. } => (dst == own, dst.0[0] & 1 != 0),
            LinkHeader::None => (true, false),
        };
        if !to_us && !to_group {
            // `PACKET_OTHERHOST`: the device hears everything.
            self.drop_packet(Reason::OtherHost, place.take());
            return true;
        }
        if place.extra.is_some() && !without_vlan(place) {
            // There are no VLAN devices.
            self.drop_packet(Reason::OtherHost, place.take());
            return true;
        }
        if let Network::Other(kind) = place.network {
            if kind == EtherType::ARP {
                layer.table.arp_arrives(now, port.0, place);
                drop(place.take());
                self.act_for_neighbours(now);
            } else {
                self.drop_packet(Reason::NoProtocol, place.take());
            }
            return true;
        }
        let martian = self.martian(place);
        if martian.is_none() && is_discovery(place) {
            let layer = self.neighbours.as_mut().expect("it was looked for");
            let read = layer.table.discovery_arrives(now, port.0, place);
            let packet = place.take();
            if !read {
                self.drop_packet(Reason::Malformed, packet);
            }
            self.act_for_neighbours(now);
            return true;
        }
        let stays = || self.stays_on_link(port, place, to_group).then_some(Reason::OtherHost);
        let Some(reason) = martian.or_else(stays) else { return false };
        self.drop_packet(reason, place.take());
        true
    }

    /// Whether a packet is of no use beyond the link by which it came.
    fn stays_on_link(&self, port: Port, packet: &Packet, to_group: bool) -> bool {
        match (packet.network.src(), packet.network.dst()) {
            (_, Some(dst)) if dst.is_multicast() => true,
            // RFC 4291 section 2.5.6: no router passes them on.
            (Some(IpAddr::V6(src)), Some(IpAddr::V6(dst)))
                if src.is_unicast_link_local() || dst.is_unicast_link_local() =>
            {
                let link = self.neighbours().and_then(|table| table.link(port.0));
                !link.is_some_and(|link| link.addresses.iter().any(|(own, _)| *own == dst))
            }
            (_, Some(dst)) => {
                to_group
                    && self.fib.lookup(&crate::fib::RouteKey::to(dst))
                        != crate::fib::Decision::Local
            }
            _ => false,
        }
    }

    /// Whether what is for this host is taken by somebody else.
    #[inline]
    pub(super) fn is_local_elsewhere(&self) -> bool {
        self.neighbours.as_ref().is_some_and(|layer| layer.local_elsewhere)
    }

    /// Calls the neighbour layer, whose time has come.
    pub(super) fn run_neighbours(&mut self, now: Instant) {
        if let Some(layer) = &mut self.neighbours {
            layer.table.run_timers(now);
            self.act_for_neighbours(now);
        }
    }

    /// When the neighbour layer wants to be called.
    pub(super) fn neighbours_wake_at(&self) -> Instant {
        self.neighbours.as_ref().map_or(Instant::FAR_FUTURE, |layer| layer.table.wake_at())
    }

    /// The neighbour layer may want to be called earlier than before.
    fn note_neighbours(&mut self) {
        self.upkeep_changed |= self.neighbours_wake_at() < self.upkeep_at;
    }

    fn act_for_neighbours(&mut self, now: Instant) {
        while let Some(action) =
            self.neighbours.as_mut().and_then(|layer| layer.table.next_action())
        {
            match action {
                Action::Transmit(port, mut packet) => {
                    self.transmit_resolved(now, port, &mut packet);
                }
                Action::Unreachable(packet) => {
                    self.icmp_host_unreachable(now, &packet);
                    self.drop_packet(Reason::NeighbourFailed, packet);
                }
                Action::Drop(reason, packet) => self.drop_packet(reason, packet),
                Action::Answers((port, address), answers) => {
                    self.fib.set_neighbour(Hop { port, gateway: Some(address) }, answers);
                }
            }
        }
        self.note_neighbours();
    }
}

/// Whether a frame is of no VLAN: it has no tag, or some with a priority alone (VLAN 0), which are
/// taken off (`__netif_receive_skb_core`, `check_vlan_id`).
#[cold]
fn without_vlan(place: &mut Packet) -> bool {
    let tags = place.extra.as_ref().map_or(&[][..], |extra| &extra.vlan);
    if tags.iter().any(|(_, tci)| tci & VLAN_VID_MASK != 0) {
        return false;
    }
    if !tags.is_empty() {
        place.set_link(place.link);
    }
    true
}

/// The VLAN in a tag's TCI; before it stand priority and DEI.
const VLAN_VID_MASK: u16 = 0x0fff;
