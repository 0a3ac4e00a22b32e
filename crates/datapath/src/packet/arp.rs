//! ARP for IPv4 over Ethernet (RFC 826).

use super::link::{EtherType, Link, MacAddr};
use super::network::Network;
use super::transport::Transport;
use super::{Body, Extra, Meta, Packet};
use core::net::Ipv4Addr;

/// Bytes of an ARP message for IPv4 over Ethernet.
pub(super) const ARP_LEN: usize = 28;

/// Hardware type Ethernet, protocol type IPv4, and their address lengths.
const ETHERNET_IPV4: [u8; 6] = [0, 1, 0x08, 0, 6, 4];

/// What an ARP message wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArpOperation(pub u16);

impl ArpOperation {
    /// Who has `target_ip`?
    pub const REQUEST: Self = Self(1);
    /// `sender_ip` is at `sender_mac`.
    pub const REPLY: Self = Self(2);
}

/// An ARP message for IPv4 over Ethernet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arp {
    /// Request or reply.
    pub operation: ArpOperation,
    /// Hardware address of the sender.
    pub sender_mac: MacAddr,
    /// Protocol address of the sender.
    pub sender_ip: Ipv4Addr,
    /// Hardware address of the target; ignored in a request.
    pub target_mac: MacAddr,
    /// Protocol address of the target.
    pub target_ip: Ipv4Addr,
}

impl Arp {
    /// Reads an ARP message; `None` if it is not one for IPv4 over Ethernet.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let message = bytes.first_chunk::<ARP_LEN>()?;
        let [header @ .., _, _, _, _, _, _, _, _, _, _, _, _, _, _, _, _, _, _, _, _] = *message;
        let [fixed @ .., o0, o1] = header;
        if fixed != ETHERNET_IPV4 {
            return None;
        }
        Some(Self {
            operation: ArpOperation(u16::from_be_bytes([o0, o1])),
            sender_mac: mac(&message[8..14]),
            sender_ip: ipv4(&message[14..18]),
            target_mac: mac(&message[18..24]),
            target_ip: ipv4(&message[24..28]),
        })
    }

    /// The message as bytes.
    pub fn to_bytes(&self) -> [u8; ARP_LEN] {
        let Self { operation, sender_mac, sender_ip, target_mac, target_ip } = self;
        let mut out = [0; ARP_LEN];
        out[0..6].copy_from_slice(&ETHERNET_IPV4);
        out[6..8].copy_from_slice(&operation.0.to_be_bytes());
        out[8..14].copy_from_slice(&sender_mac.0);
        out[14..18].copy_from_slice(&sender_ip.octets());
        out[18..24].copy_from_slice(&target_mac.0);
        out[24..28].copy_from_slice(&target_ip.octets());
        out
    }
}

impl Packet {
    /// An ARP message in an Ethernet frame.
    pub fn from_arp(dst: MacAddr, src: MacAddr, arp: &Arp) -> Self {
        let mut raw = Vec::with_capacity(14 + ARP_LEN);
        raw.extend_from_slice(&dst.0);
        raw.extend_from_slice(&src.0);
        raw.extend_from_slice(&EtherType::ARP.0.to_be_bytes());
        raw.extend_from_slice(&arp.to_bytes());
        let transport_offset = raw.len() as u16;
        let extra = Extra { raw, network_offset: 14, transport_offset, ..Extra::default() };
        Self {
            link: Link::Ethernet { dst, src },
            network: Network::Other(EtherType::ARP),
            transport: Transport::None,
            body: Body::default(),
            meta: Meta::default(),
            extra: Some(Box::new(extra)),
            ..Self::default()
        }
        .finish()
    }

    /// The ARP message, if this is one for IPv4 over Ethernet.
    pub fn arp(&self) -> Option<Arp> {
        let extra = self.extra.as_ref()?;
        match self.network {
            Network::Other(EtherType::ARP) => {
                Arp::parse(extra.raw.get(usize::from(extra.network_offset)..)?)
            }
            _ => None,
        }
    }
}

fn mac(bytes: &[u8]) -> MacAddr {
    MacAddr(bytes.try_into().expect("an Ethernet address has six bytes"))
}

fn ipv4(bytes: &[u8]) -> Ipv4Addr {
    let octets: [u8; 4] = bytes.try_into().expect("an IPv4 address has four bytes");
    Ipv4Addr::from(octets)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request() -> Arp {
        Arp {
            operation: ArpOperation::REQUEST,
            sender_mac: MacAddr([2, 0, 0, 0, 0, 1]),
            sender_ip: Ipv4Addr::new(10, 0, 0, 1),
            target_mac: MacAddr([0; 6]),
            target_ip: Ipv4Addr::new(10, 0, 0, 2),
        }
    }

    #[test]
    fn a_request_comes_back() {
        let packet = Packet::from_arp(MacAddr([0xff; 6]), request().sender_mac, &request());
        assert_eq!(packet.arp(), Some(request()));
        assert_eq!(packet.len(), 42);
        let mut bytes = Vec::new();
        packet.emit(&[], &mut bytes);
        bytes.resize(60, 0);
        let parsed = Packet::parse_ethernet(&bytes[..]).unwrap();
        assert_eq!(parsed.arp(), Some(request()));
        assert_eq!((parsed.body.len, parsed.len()), (0, 60));
    }

    #[test]
    fn other_hardware_is_not_understood() {
        let mut bytes = request().to_bytes();
        bytes[1] = 6;
        assert_eq!(Arp::parse(&bytes), None);
        assert_eq!(Arp::parse(&request().to_bytes()[..27]), None);
    }
}
