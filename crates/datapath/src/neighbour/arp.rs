//! ARP (RFC 826): questions, answers, and what is learnt from both (`arp_process`, `arp_solicit`).

use super::entry::Flags;
use super::{Action, BROADCAST, Neighbours, State};
use crate::packet::{Arp, ArpOperation, LinkHeader, MacAddr, Packet};
use crate::units::Instant;
use core::net::{IpAddr, Ipv4Addr};

impl Neighbours {
    /// An ARP message has come by `port` in the packet `from`; true if it was for us to read.
    pub fn arp_arrives(&mut self, now: Instant, port: u16, from: &Packet) -> bool {
        let (Some(arp), Some(link)) = (from.arp(), self.link(port)) else { return false };
        let Arp { operation, sender_mac, sender_ip, target_mac, target_ip } = arp;
        let request = match operation {
            ArpOperation::REQUEST => true,
            ArpOperation::REPLY => false,
            _ => return false,
        };
        if target_ip.is_multicast() || target_ip.is_loopback() {
            return false;
        }
        let ours = self.owner(target_ip.into());
        let own = link.mac;
        let key = (port, IpAddr::V4(sender_ip));
        // Nobody has such an address (`ip_route_input` of the question).
        let is_martian = sender_ip.is_multicast()
            || sender_ip.is_broadcast()
            || sender_ip.is_loopback()
            || self.owner(sender_ip.into());
        if request && ours && !is_martian {
            // Somebody asks whether the address is free (RFC 5227) and is answered as well.
            if !sender_ip.is_unspecified() {
                if !self.entries.contains_key(&key) && !self.create(now, key) {
                    return true;
                }
                let flags = Flags { overrides: true, ..Flags::default() };
                self.update(now, key, Some(sender_mac), State::Stale, flags);
            }
            if self.answers {
                let answer = Arp {
                    operation: ArpOperation::REPLY,
                    sender_mac: own,
                    sender_ip: target_ip,
                    target_mac: sender_mac,
                    target_ip: sender_ip,
                };
                let packet = Packet::from_arp(sender_mac, own, &answer);
                self.actions.push_back(Action::Transmit(port, packet));
            }
            return true;
        }
        // Who is not known is not learnt from others' questions (`arp_accept` = 0).
        let Some(entry) = self.entries.get(&key) else { return true };
        let gratuitous = target_ip == sender_ip || (!request && target_mac == sender_mac);
        let locked = now <= entry.updated + self.settings.v4.locktime;
        let to_us = matches!(from.link, LinkHeader::Ethernet { dst, .. } if dst == own);
        let state = if request || !to_us { State::Stale } else { State::Reachable };
        let flags = Flags { overrides: gratuitous || !locked, ..Flags::default() };
        self.update(now, key, Some(sender_mac), state, flags);
        true
    }

    /// Who has `target`? `None` without an address to ask from.
    pub(super) fn arp_request(
        &self,
        port: u16,
        target: Ipv4Addr,
        to: Option<MacAddr>,
        of_packet: Option<IpAddr>,
    ) -> Option<Packet> {
        let link = self.link(port)?;
        // `arp_announce` = 0: as the packet that waits, if it is ours, else as who is on that network.
        let own = of_packet.filter(|address| address.is_ipv4() && self.owner(*address));
        let near = || super::discovery::source_for(link, target.into());
        let elsewhere = || {
            let all = self.links.iter().flatten().flat_map(|link| &link.addresses);
            all.map(|(address, _)| *address).find(IpAddr::is_ipv4)
        };
        let IpAddr::V4(sender_ip) = own.or_else(near).or_else(elsewhere)? else { return None };
        let arp = Arp {
            operation: ArpOperation::REQUEST,
            sender_mac: link.mac,
            sender_ip,
            target_mac: to.unwrap_or_default(),
            target_ip: target,
        };
        Some(Packet::from_arp(to.unwrap_or(BROADCAST), link.mac, &arp))
    }

    /// Whether an address belongs to any of our ports.
    pub(super) fn owner(&self, address: IpAddr) -> bool {
        self.links.iter().flatten().any(|link| link.has(address))
    }
}
