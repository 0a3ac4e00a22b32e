//! The input of multipath hashes: the fields of a packet, of the packet inside it, and of the
//! packet that an ICMP error quotes.

use super::RouteKey;
use core::net::IpAddr;

/// The fields of one header chain (`struct flow_keys`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Fields {
    /// Source address.
    pub src: IpAddr,
    /// Destination address.
    pub dst: IpAddr,
    /// Protocol number.
    pub protocol: u8,
    /// Source port; 0 for what has none and for fragments.
    pub src_port: u16,
    /// Destination port; 0 likewise.
    pub dst_port: u16,
    /// IPv6 flow label.
    pub flow_label: u32,
}

/// Everything about a packet that some hash policy reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct HashInput {
    /// The packet itself.
    pub outer: Fields,
    /// The protocol that IPv6's policy 0 hashes: the next-header field of the first header, which
    /// differs from `outer.protocol` behind extension headers.
    pub l3_protocol: u8,
    /// The packet inside an IPIP, GRE or 6in4 tunnel.
    pub inner: Option<Fields>,
    /// The packet that an ICMP error quotes.
    pub quoted: Option<Fields>,
    /// Don't-fragment is set and the packet is no fragment: its flow always has ports.
    pub dont_fragment: bool,
    /// Read from a packet. Otherwise the fields are those of a socket, which policies 2 and 3 hash
    /// a little differently.
    pub from_packet: bool,
}

impl From<&RouteKey> for HashInput {
    /// The flow of an `ip route get` query. For IPv4 the kernel fabricates a packet,
    /// for IPv6 it does not.
    fn from(key: &RouteKey) -> Self {
        let has_ports = !matches!(key.protocol, ICMP | ICMPV6);
        let outer = Fields {
            src: key.src,
            dst: key.dst,
            protocol: key.protocol,
            src_port: if has_ports { key.src_port } else { 0 },
            dst_port: if has_ports { key.dst_port } else { 0 },
            flow_label: key.flow_label,
        };
        Self {
            outer,
            l3_protocol: key.protocol,
            inner: None,
            quoted: None,
            dont_fragment: true,
            from_packet: key.dst.is_ipv4(),
        }
    }
}

impl HashInput {
    /// The flow of a packet that a socket here is about to send.
    pub fn of_socket(key: &RouteKey) -> Self {
        Self { from_packet: false, ..Self::from(key) }
    }

    /// The outer fields as policy 0 reads them.
    pub fn l3_fields(&self) -> Fields {
        Fields { protocol: self.l3_protocol, ..self.outer }
    }
}

impl Fields {
    /// The flow in the other direction.
    pub const fn reversed(self) -> Self {
        Self {
            src: self.dst,
            dst: self.src,
            src_port: self.dst_port,
            dst_port: self.src_port,
            ..self
        }
    }
}

const ICMP: u8 = 1;
const ICMPV6: u8 = 58;
