//! Which flow a packet belongs to, tunnels included: what hashing and classification read.

use super::network::{Network, protocol};
use super::parse::{Parser, ip_ether_type};
use super::transport::Transport;
use super::{EtherType, Packet};
use core::net::IpAddr;

/// The keys by which packets are told to be of one flow (`struct flow_keys`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FlowTuple {
    /// Source address.
    pub src: IpAddr,
    /// Destination address.
    pub dst: IpAddr,
    /// Transport protocol.
    pub protocol: u8,
    /// Source port; 0 where there are no ports, as in fragments.
    pub src_port: u16,
    /// Destination port; 0 where there are no ports.
    pub dst_port: u16,
    /// IPv6 flow label; 0 for IPv4.
    pub flow_label: u32,
}

impl FlowTuple {
    /// The flow that these headers tell of.
    pub(super) fn of(network: &Network, transport: &Transport) -> Option<Self> {
        let (src_port, dst_port) = transport.ports().unwrap_or((0, 0));
        Some(Self {
            src: network.src()?,
            dst: network.dst()?,
            protocol: network.protocol()?,
            src_port,
            dst_port,
            flow_label: match network {
                Network::Ipv6(ip) => ip.flow_label.get(),
                Network::Ipv4(_) | Network::Other(_) => 0,
            },
        })
    }
}

impl Packet {
    /// The flow by the outer headers. `None` for what is not IP.
    pub fn flow(&self) -> Option<FlowTuple> {
        FlowTuple::of(&self.network, &self.transport)
    }

    /// The flow inside the innermost tunnel that we see through (6in4, IPIP, GRE): `None` where
    /// there is no tunnel. `packet.inner_flow().or(packet.flow())` is the flow that the kernel's
    /// flow dissector finds.
    pub fn inner_flow(&self) -> Option<FlowTuple> {
        let extra = self.extra.as_ref()?;
        let outer = extra.raw.get(usize::from(extra.network_offset)..)?;
        let outer_type = ip_ether_type(outer.first().copied())?;
        let mut walked = Parser::nested(outer, outer_type, u8::MAX);
        let mut payload = outer;
        let mut inner = None;
        while let Transport::None = walked.transport
            && let Some(protocol) = walked.network.protocol()
            && let Some((ether_type, at)) =
                tunnel_payload(protocol, &payload[walked.transport_at..])
        {
            payload = &payload[walked.transport_at + at..];
            walked = Parser::nested(payload, ether_type, u8::MAX);
            inner = FlowTuple::of(&walked.network, &walked.transport).or(inner);
        }
        inner
    }
}

/// What a tunnel of `protocol` carries, and how far into its payload that begins.
pub(super) fn tunnel_payload(protocol: u8, payload: &[u8]) -> Option<(EtherType, usize)> {
    let version = ip_ether_type(payload.first().copied());
    match protocol {
        protocol::IPIP => (version? == EtherType::IPV4).then_some((EtherType::IPV4, 0)),
        protocol::IPV6 => (version? == EtherType::IPV6).then_some((EtherType::IPV6, 0)),
        protocol::GRE => gre_payload(payload),
        _ => None,
    }
}

/// GRE (RFC 2784, RFC 2890): flags for checksum, key and sequence number, four bytes each. With
/// transparent Ethernet bridging an Ethernet header follows.
fn gre_payload(payload: &[u8]) -> Option<(EtherType, usize)> {
    const CHECKSUM: u8 = 0x80;
    const ROUTING: u8 = 0x40;
    const KEY: u8 = 0x20;
    const SEQUENCE: u8 = 0x10;
    const TRANSPARENT_ETHERNET: EtherType = EtherType(0x6558);

    let &[flags, version, t0, t1] = payload.first_chunk::<4>()?;
    if version & 7 != 0 || flags & ROUTING != 0 {
        return None;
    }
    let optional = (flags & (CHECKSUM | KEY | SEQUENCE)).count_ones() as usize;
    let mut at = 4 + 4 * optional;
    let mut ether_type = EtherType(u16::from_be_bytes([t0, t1]));
    if ether_type == TRANSPARENT_ETHERNET {
        let &[t0, t1] = payload.get(at + 12..at + 14)?.first_chunk()?;
        ether_type = EtherType(u16::from_be_bytes([t0, t1]));
        at += 14;
    }
    let is_ip = matches!(ether_type, EtherType::IPV4 | EtherType::IPV6);
    (is_ip && at < payload.len()).then_some((ether_type, at))
}
