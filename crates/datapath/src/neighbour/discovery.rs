//! Neighbour discovery (RFC 4861): solicitations and advertisements (`ndisc_recv_ns`, `ndisc_recv_na`,
//! `ndisc_send_na`). Router advertisements are neither sent nor heeded; redirects are not heeded, as on
//! any router.

use super::entry::Flags;
use super::{Action, Link, Neighbours, State};
use crate::packet::{
    Body, Flaws, FrameRef, Icmp, Ipv6, LinkHeader, MacAddr, Network, Packet, Transport, protocol,
};
use crate::units::Instant;
use core::net::{IpAddr, Ipv6Addr};

/// Types of ICMPv6 (RFC 4861 section 4).
const ROUTER_SOLICITATION: u8 = 133;
const SOLICITATION: u8 = 135;
const ADVERTISEMENT: u8 = 136;
const REDIRECT: u8 = 137;
/// Options: whose link-layer address it is.
const SOURCE_LINK_ADDRESS: u8 = 1;
const TARGET_LINK_ADDRESS: u8 = 2;
/// Flags of an advertisement.
const ROUTER: u32 = 1 << 31;
const SOLICITED: u32 = 1 << 30;
const OVERRIDE: u32 = 1 << 29;
/// Nothing of these has passed a router.
const HOP_LIMIT: u8 = 255;
const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);

/// Whether a packet is of neighbour discovery, which is for whoever hears it.
pub fn is_discovery(packet: &Packet) -> bool {
    matches!(packet.network, Network::Ipv6(_))
        && matches!(packet.transport, Transport::Icmp(icmp)
            if (ROUTER_SOLICITATION..=REDIRECT).contains(&icmp.kind))
}

impl Neighbours {
    /// A message of neighbour discovery has come by `port`. False if it is to be thrown away unread
    /// (RFC 4861 sections 6.1.1, 7.1).
    pub fn discovery_arrives(&mut self, now: Instant, port: u16, packet: &Packet) -> bool {
        let (Network::Ipv6(ip), Transport::Icmp(icmp)) = (packet.network, packet.transport) else {
            return false;
        };
        if ip.hop_limit != HOP_LIMIT || icmp.code != 0 || packet.flaws() != Flaws::NONE {
            return false;
        }
        let body = packet.body.bytes();
        match icmp.kind {
            SOLICITATION => self.solicitation_arrives(now, port, ip, body).is_some(),
            ADVERTISEMENT => self.advertisement_arrives(now, port, ip, icmp, body).is_some(),
            ROUTER_SOLICITATION => self.router_solicitation_arrives(now, port, ip, body).is_some(),
            _ => false,
        }
    }

    fn solicitation_arrives(
        &mut self,
        now: Instant,
        port: u16,
        ip: Ipv6,
        body: &[u8],
    ) -> Option<()> {
        let (target, options) = target_of(body)?;
        let mac = link_address(options, SOURCE_LINK_ADDRESS).ok()?;
        let asks_whether_free = ip.src.is_unspecified();
        if asks_whether_free && (mac.is_some() || !is_solicited_node(ip.dst, target)) {
            return None;
        }
        let own = self.link(port).filter(|link| link.has(target.into()))?.mac;
        let to_group = ip.dst.is_multicast();
        if !asks_whether_free {
            let key = (port, IpAddr::V6(ip.src));
            let known = self.entries.contains_key(&key);
            if !known && (to_group && mac.is_none() || !self.create(now, key)) {
                return Some(());
            }
            let flags = Flags { overrides: true, weak: true, router: None };
            self.update(now, key, mac, State::Stale, flags);
        }
        if !self.answers {
            return Some(());
        }
        let router = if self.router { ROUTER } else { 0 };
        let (dst, solicited, to) = if asks_whether_free {
            (ALL_NODES, 0, MacAddr([0x33, 0x33, 0, 0, 0, 1]))
        } else {
            let known = self.entries.get(&(port, ip.src.into())).and_then(|entry| entry.mac);
            (ip.src, SOLICITED, mac.or(known)?)
        };
        let overrides = if to_group { OVERRIDE } else { 0 };
        let icmp = Icmp { kind: ADVERTISEMENT, code: 0, rest: router | solicited | overrides };
        let option = to_group.then_some((TARGET_LINK_ADDRESS, own));
        let packet = message(own, to, target, dst, icmp, target, option);
        self.actions.push_back(Action::Transmit(port, packet));
        Some(())
    }

    fn advertisement_arrives(
        &mut self,
        now: Instant,
        port: u16,
        ip: Ipv6,
        icmp: Icmp,
        body: &[u8],
    ) -> Option<()> {
        let (target, options) = target_of(body)?;
        let mac = link_address(options, TARGET_LINK_ADDRESS).ok()?;
        let solicited = icmp.rest & SOLICITED != 0;
        if ip.dst.is_multicast() && solicited {
            return None;
        }
        let key = (port, IpAddr::V6(target));
        // Who has not asked does not learn (`accept_untracked_na` = 0).
        let Some(entry) = self.entries.get(&key) else { return Some(()) };
        if entry.state == State::Failed {
            return Some(());
        }
        let state = if solicited { State::Reachable } else { State::Stale };
        let flags = Flags {
            overrides: icmp.rest & OVERRIDE != 0,
            weak: true,
            router: Some(icmp.rest & ROUTER != 0),
        };
        self.update(now, key, mac, state, flags);
        Some(())
    }

    fn router_solicitation_arrives(
        &mut self,
        now: Instant,
        port: u16,
        ip: Ipv6,
        options: &[u8],
    ) -> Option<()> {
        let mac = link_address(options, SOURCE_LINK_ADDRESS).ok()?;
        if ip.src.is_unspecified() {
            return mac.is_none().then_some(());
        }
        let key = (port, IpAddr::V6(ip.src));
        if mac.is_some() && self.link(port).is_some() {
            if !self.entries.contains_key(&key) && !self.create(now, key) {
                return Some(());
            }
            let flags = Flags { overrides: true, weak: true, router: Some(false) };
            self.update(now, key, mac, State::Stale, flags);
        }
        Some(())
    }

    /// Who is `target`? `None` without an address to ask from.
    pub(super) fn solicitation(
        &self,
        port: u16,
        target: Ipv6Addr,
        to: Option<MacAddr>,
        of_packet: Option<IpAddr>,
    ) -> Option<Packet> {
        let link = self.link(port)?;
        let own = of_packet.filter(|address| link.has(*address));
        let IpAddr::V6(src) = own.or_else(|| source_for(link, target.into()))? else { return None };
        let group = solicited_node(target);
        let dst = if to.is_some() { target } else { group };
        let to = to.unwrap_or_else(|| {
            let [.., c, d, e, f] = group.octets();
            MacAddr([0x33, 0x33, c, d, e, f])
        });
        let icmp = Icmp { kind: SOLICITATION, code: 0, rest: 0 };
        let option = Some((SOURCE_LINK_ADDRESS, link.mac));
        Some(message(link.mac, to, src, dst, icmp, target, option))
    }
}

/// The address of a port to ask from: on the same network as `target`, else of the link (IPv6), else
/// any of the family (`inet_select_addr`, `ndisc_send_ns`).
pub(super) fn source_for(link: &Link, target: IpAddr) -> Option<IpAddr> {
    let of_family = || link.addresses.iter().filter(|it| it.0.is_ipv4() == target.is_ipv4());
    let near = |(address, len): &&(IpAddr, u8)| match (address, target) {
        (IpAddr::V4(a), IpAddr::V4(b)) => {
            (a.to_bits() ^ b.to_bits()).leading_zeros() >= u32::from(*len)
        }
        (IpAddr::V6(a), IpAddr::V6(b)) => {
            (a.to_bits() ^ b.to_bits()).leading_zeros() >= u32::from(*len)
        }
        _ => false,
    };
    let of_link =
        |it: &&(IpAddr, u8)| matches!(it.0, IpAddr::V6(address) if address.is_unicast_link_local());
    let found = of_family().find(near).or_else(|| of_family().find(of_link));
    found.or_else(|| of_family().next()).map(|(address, _)| *address)
}

/// The group that an address is asked for in (RFC 4291 section 2.7.1).
fn solicited_node(address: Ipv6Addr) -> Ipv6Addr {
    let [.., d, e, f] = address.octets();
    Ipv6Addr::new(0xff02, 0, 0, 0, 0, 1, 0xff00 | u16::from(d), u16::from(e) << 8 | u16::from(f))
}

fn is_solicited_node(group: Ipv6Addr, address: Ipv6Addr) -> bool {
    group == solicited_node(address)
}

/// The target of a message and the options behind it.
fn target_of(body: &[u8]) -> Option<(Ipv6Addr, &[u8])> {
    let (target, options) = body.split_first_chunk::<16>()?;
    let target = Ipv6Addr::from(*target);
    (!target.is_multicast()).then_some((target, options))
}

/// Options that make no sense.
struct MalformedOption;

/// The link-layer address in the options, if there is one (`ndisc_parse_options`).
fn link_address(mut options: &[u8], wanted: u8) -> Result<Option<MacAddr>, MalformedOption> {
    let mut found = None;
    while let [kind, length, ..] = *options {
        let len = usize::from(length) * 8;
        if len == 0 {
            return Err(MalformedOption);
        }
        let option = options.get(..len).ok_or(MalformedOption)?;
        if kind == wanted && found.is_none() {
            // An address of six bytes is an option of eight (`ndisc_opt_addr_data`).
            let octets = option.get(2..).and_then(|octets| octets.try_into().ok());
            found = Some(MacAddr(octets.ok_or(MalformedOption)?));
        }
        options = &options[len..];
    }
    if options.is_empty() { Ok(found) } else { Err(MalformedOption) }
}

/// A message with a target and perhaps an option.
fn message(
    own: MacAddr,
    to: MacAddr,
    src: Ipv6Addr,
    dst: Ipv6Addr,
    icmp: Icmp,
    target: Ipv6Addr,
    option: Option<(u8, MacAddr)>,
) -> Packet {
    let mut bytes = target.octets().to_vec();
    if let Some((kind, mac)) = option {
        bytes.extend([kind, 1]);
        bytes.extend(mac.0);
    }
    let ip = Ipv6 {
        src,
        dst,
        traffic_class: 0,
        hop_limit: HOP_LIMIT,
        next_header: protocol::ICMPV6,
        flow_label: crate::packet::FlowLabel::NONE,
    };
    Packet {
        link: LinkHeader::Ethernet { dst: to, src: own },
        network: Network::Ipv6(ip),
        transport: Transport::Icmp(icmp),
        body: Body::of_frame(FrameRef::from(bytes)),
        ..Packet::default()
    }
    .finish()
}
