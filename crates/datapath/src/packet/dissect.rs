//! The kernel's flow dissector (`__skb_flow_dissect` with the keys of `flow_keys_dissector`): what
//! a hash of flows reads of a packet, whatever its protocols.
//!
//! It walks over the bytes as the kernel does, tunnel after tunnel, and trusts nobody: no checksum,
//! version or total length is looked at. What it doesn't know ends the walk, and what was found so
//! far is the flow.

use super::network::protocol;
use super::{EtherType, Network, Packet};

/// What tells flows apart (`struct flow_keys`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct FlowKeys {
    /// Addresses of the innermost IP header.
    pub addresses: FlowAddresses,
    /// Source and destination port, or what stands in their place (the SPI of ESP and AH, in two
    /// halves); 0 in fragments, and where a flow label stands for them.
    pub ports: (u16, u16),
    /// Protocol of the innermost IP header.
    pub protocol: u8,
    /// What the dissector last read as an EtherType (`n_proto`).
    pub ether_type: u16,
    /// IPv6 flow label.
    pub flow_label: u32,
    /// Key of a GRE tunnel.
    pub gre_key: u32,
    /// The outer VLAN tag as the dissector read it: TPID, TCI without the DEI bit, and the EtherType
    /// that follows, 16 bits each; 0 without. Inner tags are none of `flow_keys_dissector_keys`.
    pub tag: u64,
}

/// Source and destination address of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum FlowAddresses {
    /// Neither IP nor TIPC.
    #[default]
    None,
    /// IPv4.
    V4(u32, u32),
    /// IPv6, two words each.
    V6([u64; 2], [u64; 2]),
    /// The node that a TIPC message comes from.
    Tipc(u32),
}

impl Packet {
    /// The keys of the packet's flow. The walk ends at the first IPv6 flow label
    /// (`FLOW_DISSECTOR_F_STOP_AT_FLOW_LABEL`), which then stands for the ports.
    #[inline]
    pub fn flow_keys(&self) -> FlowKeys {
        if self.extra.is_some() {
            return self.dissected();
        }
        let mut keys = FlowKeys { ether_type: self.network.ether_type().0, ..FlowKeys::default() };
        match &self.network {
            Network::Ipv4(ip) => {
                keys.addresses = FlowAddresses::V4(ip.src.to_bits(), ip.dst.to_bits());
                keys.protocol = ip.protocol;
            }
            Network::Ipv6(ip) => {
                let (src, dst) = (ip.src.to_bits(), ip.dst.to_bits());
                keys.addresses = FlowAddresses::V6(halves(src), halves(dst));
                keys.protocol = ip.next_header;
                keys.flow_label = ip.flow_label.get();
            }
            Network::Other(_) => {}
        }
        if keys.flow_label == 0 {
            keys.ports = self.transport.ports().unwrap_or((0, 0));
        }
        keys
    }

    /// The same for what the hot headers cannot hold.
    #[cold]
    fn dissected(&self) -> FlowKeys {
        let Some(extra) = &self.extra else { return FlowKeys::default() };
        let ether_type = extra.vlan.first().map_or(self.network.ether_type().0, |tag| tag.0);
        // A tag is read where it lies. Of a frame that a packet socket has sent, the network header is what
        // follows all tags, and read for the first one: see `Dissector::vlan`.
        let tags = if extra.tag_sent { 0 } else { 4 * extra.vlan.len() };
        if !extra.raw.is_empty() && extra.beyond.is_empty() {
            let network_offset = usize::from(extra.network_offset);
            return Dissector::walk(&extra.raw, network_offset - tags, ether_type);
        }
        let mut headers = Vec::new();
        self.emit_headers(&mut headers);
        headers.extend(&extra.beyond);
        let network_offset = self.link.len() as usize + 4 * extra.vlan.len();
        Dissector::walk(&headers, network_offset - tags, ether_type)
    }
}

/// The dissector on its way through a packet's headers.
struct Dissector<'a> {
    bytes: &'a [u8],
    /// Where the next header begins (`nhoff`).
    at: usize,
    keys: FlowKeys,
    /// A VLAN tag was seen.
    tagged: bool,
}

/// What follows a header (`enum flow_dissect_ret`).
enum Next {
    /// A header of the EtherType in the keys.
    Network,
    /// A header of the IP protocol in the keys.
    Transport,
    /// Nothing that is looked at.
    End,
}

impl<'a> Dissector<'a> {
    /// The keys of what begins at `at` with a header of `ether_type`.
    fn walk(bytes: &'a [u8], at: usize, ether_type: u16) -> FlowKeys {
        let keys = FlowKeys { ether_type, ..FlowKeys::default() };
        let mut dissector = Self { bytes, at, keys, tagged: false };
        let mut next = Next::Network;
        for _ in 0..=MAX_HEADERS {
            let following = match next {
                Next::Network => dissector.network(),
                Next::Transport => dissector.transport(),
                Next::End => break,
            };
            // A header that is cut off ends the walk.
            next = following.unwrap_or(Next::End);
        }
        dissector.keys
    }

    /// The next `N` bytes.
    fn header<const N: usize>(&self) -> Option<&'a [u8; N]> {
        self.header_at(0)
    }

    /// `N` bytes, `offset` after where the next header begins.
    fn header_at<const N: usize>(&self, offset: usize) -> Option<&'a [u8; N]> {
        self.bytes.get(self.at + offset..)?.first_chunk()
    }

    fn network(&mut self) -> Option<Next> {
        match EtherType(self.keys.ether_type) {
            EtherType::IPV4 => self.ipv4(),
            EtherType::IPV6 => self.ipv6(),
            EtherType::VLAN | EtherType::QINQ => self.vlan(),
            EtherType::TIPC => self.tipc(),
            ether_type => self.carrier(ether_type),
        }
    }

    fn ipv4(&mut self) -> Option<Next> {
        let header = self.header::<20>()?;
        let header_len = usize::from(header[0] & 0x0f) * 4;
        if header_len < header.len() {
            return None;
        }
        let word = |at: usize| {
            u32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]])
        };
        self.keys.addresses = FlowAddresses::V4(word(12), word(16));
        self.keys.protocol = header[9];
        self.at += header_len;
        let fragment = u16::from_be_bytes([header[6], header[7]]);
        // Of no fragment the ports are read, of the first one neither.
        let whole = fragment & (IP_MORE_FRAGMENTS | IP_OFFSET) == 0;
        Some(if whole { Next::Transport } else { Next::End })
    }

    fn ipv6(&mut self) -> Option<Next> {
        let header = self.header::<40>()?;
        let address = |at: usize| {
            let bytes: [u8; 16] = header[at..at + 16].try_into().expect("16 bytes");
            halves(u128::from_be_bytes(bytes))
        };
        self.keys.addresses = FlowAddresses::V6(address(8), address(24));
        self.keys.protocol = header[6];
        self.at += header.len();
        let label = u32::from_be_bytes([0, header[1] & 0x0f, header[2], header[3]]);
        if label == 0 {
            return Some(Next::Transport);
        }
        self.keys.flow_label = label;
        Some(Next::End)
    }

    /// A tag: TCI, and the EtherType that follows. Where the packet's protocol is that of a tag, and none lies
    /// beside the frame, the kernel reads the four bytes at the network header as the rest of that tag: of an
    /// IPv4 packet that a packet socket has sent they are version and TOS for the TCI, and the total length for
    /// the EtherType, which ends the walk there.
    fn vlan(&mut self) -> Option<Next> {
        let &[c0, c1, t0, t1] = self.header()?;
        let tpid = self.keys.ether_type;
        let tci = u16::from_be_bytes([c0, c1]) & !DEI;
        self.keys.ether_type = u16::from_be_bytes([t0, t1]);
        self.at += 4;
        if !self.tagged {
            self.keys.tag =
                u64::from(tpid) << 32 | u64::from(tci) << 16 | u64::from(self.keys.ether_type);
        }
        self.tagged = true;
        Some(Next::Network)
    }

    /// TIPC's flows are told apart by the node that they come from (`tipc_hdr_rps_key`); the kernel
    /// spreads keepalives at random, while here they stay together.
    fn tipc(&mut self) -> Option<Next> {
        let &[w0, w1, w2, w3, .., n0, n1, n2, n3] = self.header::<TIPC_LEN>()?;
        let keepalive = u32::from_be_bytes([w0, w1, w2, w3]) & TIPC_KEEPALIVE == TIPC_KEEPALIVE;
        let node = u32::from_be_bytes([n0, n1, n2, n3]);
        self.keys.addresses = FlowAddresses::Tipc(if keepalive { 0 } else { node });
        Some(Next::End)
    }

    fn carrier(&mut self, ether_type: EtherType) -> Option<Next> {
        let (carried, at) = carried(ether_type, self.bytes.get(self.at..)?)?;
        self.keys.ether_type = carried.0;
        self.at += at;
        Some(Next::Network)
    }

    fn transport(&mut self) -> Option<Next> {
        let ipv6 = self.keys.ether_type == EtherType::IPV6.0;
        let next = match self.keys.protocol {
            protocol::GRE => self.gre()?,
            protocol::IPIP => self.tunnel(EtherType::IPV4),
            protocol::IPV6 => self.tunnel(EtherType::IPV6),
            protocol::MPLS => self.tunnel(MPLS),
            protocol::HOP_BY_HOP | protocol::ROUTING | protocol::DESTINATION_OPTIONS if ipv6 => {
                let &[following, len] = self.header()?;
                self.keys.protocol = following;
                self.at += 8 * (usize::from(len) + 1);
                Next::Transport
            }
            // Neither the first fragment's ports nor anybody else's.
            protocol::FRAGMENT if ipv6 => {
                self.keys.protocol = self.header::<8>()?[0];
                Next::End
            }
            _ => {
                self.keys.ports = self.ports().unwrap_or((0, 0));
                Next::End
            }
        };
        Some(next)
    }

    fn tunnel(&mut self, carried: EtherType) -> Next {
        self.keys.ether_type = carried.0;
        Next::Network
    }

    /// GRE (RFC 2784, RFC 2890), and PPTP's version of it (RFC 2637).
    fn gre(&mut self) -> Option<Next> {
        let &[flags, version, t0, t1] = self.header()?;
        let version = version & 7;
        if flags & GRE_ROUTING != 0 || version > 1 {
            return Some(Next::End);
        }
        self.keys.ether_type = u16::from_be_bytes([t0, t1]);
        let pptp = version == 1;
        if pptp && (self.keys.ether_type != GRE_PPP || flags & GRE_KEY == 0) {
            return Some(Next::End);
        }
        let mut len = 4 + if flags & GRE_CHECKSUM != 0 { 4 } else { 0 };
        if flags & GRE_KEY != 0 {
            let key = u32::from_be_bytes(*self.header_at(len)?);
            self.keys.gre_key = if pptp { key & PPTP_CALL } else { key };
            len += 4;
        }
        len += if flags & GRE_SEQUENCE != 0 { 4 } else { 0 };
        if pptp { self.pptp(len) } else { self.bridged(len) }
    }

    /// What GRE carries, `len` bytes after its header begins: with transparent Ethernet bridging
    /// there is an Ethernet header first.
    fn bridged(&mut self, mut len: usize) -> Option<Next> {
        if self.keys.ether_type == TRANSPARENT_ETHERNET {
            let [.., t0, t1] = *self.header_at::<14>(len)?;
            self.keys.ether_type = u16::from_be_bytes([t0, t1]);
            len += 14;
        }
        self.at += len;
        Some(Next::Network)
    }

    /// What PPTP carries: an acknowledgment number perhaps, and a PPP header.
    fn pptp(&mut self, mut len: usize) -> Option<Next> {
        let [_, version, ..] = *self.header::<4>()?;
        len += if version & PPTP_ACK != 0 { 4 } else { 0 };
        let &[_, _, p0, p1] = self.header_at(len)?;
        self.at += len + 4;
        // Anything else stays what GRE calls it, which nobody dissects.
        if let Some(carried @ (EtherType::IPV4 | EtherType::IPV6)) = of_ppp([p0, p1]) {
            self.keys.ether_type = carried.0;
        }
        Some(Next::Network)
    }

    /// The four bytes that stand where ports do (`__skb_flow_get_ports`).
    fn ports(&self) -> Option<(u16, u16)> {
        let &[s0, s1, d0, d1] = self.header_at(ports_at(self.keys.protocol)?)?;
        Some((u16::from_be_bytes([s0, s1]), u16::from_be_bytes([d0, d1])))
    }
}

/// Where in a header of `protocol` the four bytes lie that are hashed as ports
/// (`proto_ports_offset`): ports, or an SPI.
pub(super) const fn ports_at(protocol: u8) -> Option<usize> {
    match protocol {
        protocol::TCP | protocol::UDP | protocol::ESP | DCCP | SCTP | UDP_LITE => Some(0),
        protocol::AUTHENTICATION => Some(4),
        _ => None,
    }
}

/// What a frame of this type carries within another frame or session, and where that begins.
pub(super) fn carried(ether_type: EtherType, header: &[u8]) -> Option<(EtherType, usize)> {
    match ether_type {
        EtherType::PPPOE => pppoe_payload(header),
        EtherType::HSR | EtherType::PRP => {
            let &[.., t0, t1] = header.first_chunk::<HSR_LEN>()?;
            Some((EtherType(u16::from_be_bytes([t0, t1])), HSR_LEN))
        }
        EtherType::BATMAN => {
            let &[kind, version, .., t0, t1] = header.first_chunk::<BATMAN_LEN>()?;
            let unicast = (kind, version) == BATMAN_UNICAST;
            unicast.then_some((EtherType(u16::from_be_bytes([t0, t1])), BATMAN_LEN))
        }
        _ => None,
    }
}

/// What a PPPoE session (RFC 2516) carries, and where that begins. A PPP protocol that was
/// compressed to one byte is not looked at.
fn pppoe_payload(header: &[u8]) -> Option<(EtherType, usize)> {
    let &[version, code, _, _, _, _, p0, p1] = header.first_chunk()?;
    let valid = (version, code) == (0x11, 0);
    Some((of_ppp([p0, p1]).filter(|_| valid)?, 8))
}

/// The EtherType of what PPP calls by this number.
const fn of_ppp(protocol: [u8; 2]) -> Option<EtherType> {
    match u16::from_be_bytes(protocol) {
        0x0021 => Some(EtherType::IPV4),
        0x0057 => Some(EtherType::IPV6),
        0x0281 => Some(MPLS),
        0x0283 => Some(MPLS_MULTICAST),
        _ => None,
    }
}

/// An IPv6 address in two words.
const fn halves(address: u128) -> [u64; 2] {
    [(address >> 64) as u64, address as u64]
}

/// `MAX_FLOW_DISSECT_HDRS`.
const MAX_HEADERS: usize = 15;
const IP_MORE_FRAGMENTS: u16 = 0x2000;
const IP_OFFSET: u16 = 0x1fff;
/// Drop eligible indicator of a VLAN tag.
const DEI: u16 = 0x1000;
const MPLS: EtherType = EtherType(0x8847);
const MPLS_MULTICAST: EtherType = EtherType(0x8848);
/// An HSR tag with the EtherType that follows.
const HSR_LEN: usize = 6;
/// B.A.T.M.A.N.'s header of a unicast packet and the Ethernet header within.
const BATMAN_LEN: usize = 24;
/// Type and version (`BATADV_COMPAT_VERSION`).
const BATMAN_UNICAST: (u8, u8) = (0x40, 15);
/// What the dissector reads of TIPC (`struct tipc_basic_hdr`).
pub(super) const TIPC_LEN: usize = 16;
/// `KEEPALIVE_MSG_MASK`.
const TIPC_KEEPALIVE: u32 = 0x0e08_0000;
const TRANSPARENT_ETHERNET: u16 = 0x6558;
/// The protocol of PPTP's GRE.
const GRE_PPP: u16 = 0x880b;
const GRE_CHECKSUM: u8 = 0x80;
const GRE_ROUTING: u8 = 0x40;
const GRE_KEY: u8 = 0x20;
const GRE_SEQUENCE: u8 = 0x10;
const PPTP_ACK: u8 = 0x80;
/// The call of a PPTP key; the rest is the payload's length.
const PPTP_CALL: u32 = 0xffff;
const DCCP: u8 = 33;
const SCTP: u8 = 132;
const UDP_LITE: u8 = 136;

#[cfg(test)]
mod tests;
