//! Frames of the machines around a router, built and parsed byte by byte without code of the datapath.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A hardware address.
pub type Mac = [u8; 6];

/// Everybody's.
pub const EVERYBODY: Mac = [0xff; 6];

/// The address of a machine of an interface; the router's own has number 0.
pub fn address(port: u8, number: u8, ipv6: bool) -> IpAddr {
    if ipv6 {
        Ipv6Addr::new(0xfd00, port.into(), 0, 0, 0, 0, 0, 1 + u16::from(number)).into()
    } else {
        Ipv4Addr::new(10, port, 0, 1 + number).into()
    }
}

/// An address behind the first machine of an interface.
pub fn address_behind(port: u8, ipv6: bool) -> IpAddr {
    if ipv6 {
        Ipv6Addr::new(0xfd01, port.into(), 0, 0, 0, 0, 0, 9).into()
    } else {
        Ipv4Addr::new(10, 100 + port, 0, 9).into()
    }
}

fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}

/// The Internet checksum of bytes in several places.
fn checksum(parts: &[&[u8]]) -> [u8; 2] {
    let mut sum = 0_u64;
    for (place, byte) in parts.concat().iter().enumerate() {
        sum += u64::from(*byte) << if place % 2 == 0 { 8 } else { 0 };
    }
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    (!(sum as u16)).to_be_bytes()
}

/// Ethernet.
fn frame(dst: Mac, src: Mac, kind: u16, payload: &[u8]) -> Vec<u8> {
    [&dst[..], &src, &kind.to_be_bytes(), payload].concat()
}

/// A packet of either family.
pub struct Datagram {
    /// Where from.
    pub src: IpAddr,
    /// Where to.
    pub dst: IpAddr,
    /// Time to live.
    pub ttl: u8,
    /// By which it is known again: IPv4's identification, and the source port.
    pub number: u16,
    /// Payload, bytes.
    pub size: u16,
    /// It must not be cut.
    pub whole: bool,
}

impl Datagram {
    /// As a frame.
    pub fn frame(&self, dst: Mac, src: Mac) -> Vec<u8> {
        let len = 8 + self.size;
        let mut udp = [self.number, 9, len, 0].map(u16::to_be_bytes).concat();
        udp.resize(len.into(), 0x5a);
        let ends = [octets(self.src), octets(self.dst)].concat();
        let pseudo = [&ends[..], &[0, 17], &len.to_be_bytes()].concat();
        let sum = checksum(&[&pseudo, &udp]);
        udp[6..8].copy_from_slice(if sum == [0, 0] { &[0xff, 0xff] } else { &sum });
        if self.dst.is_ipv6() {
            let mut ip = vec![0x60, 0, 0, 0];
            ip.extend(len.to_be_bytes());
            ip.extend([17, self.ttl]);
            ip.extend(ends);
            return frame(dst, src, 0x86dd, &[ip, udp].concat());
        }
        let mut ip = vec![0x45, 0];
        ip.extend((20 + len).to_be_bytes());
        ip.extend(self.number.to_be_bytes());
        ip.extend([if self.whole { 0x40 } else { 0 }, 0, self.ttl, 17, 0, 0]);
        ip.extend(ends);
        let sum = checksum(&[&ip]);
        ip[10..12].copy_from_slice(&sum);
        frame(dst, src, 0x0800, &[ip, udp].concat())
    }
}

/// ARP: a question or an answer.
pub fn arp(
    answer: bool,
    dst: Mac,
    (mac, ip): (Mac, IpAddr),
    (to_mac, to_ip): (Mac, IpAddr),
) -> Vec<u8> {
    let mut bytes = vec![0, 1, 8, 0, 6, 4, 0, if answer { 2 } else { 1 }];
    for (mac, ip) in [(mac, ip), (to_mac, to_ip)] {
        bytes.extend(mac);
        bytes.extend(octets(ip));
    }
    frame(dst, mac, 0x0806, &bytes)
}

/// Neighbour discovery (RFC 4861): a solicitation for `target`, or an advertisement of it.
pub fn discovery(
    (kind, flags): (u8, u8),
    (dst_mac, dst): (Mac, IpAddr),
    (mac, src): (Mac, IpAddr),
    target: IpAddr,
) -> Vec<u8> {
    let option = if kind == 135 { 1 } else { 2 };
    let mut icmp = vec![kind, 0, 0, 0, flags, 0, 0, 0];
    icmp.extend(octets(target));
    icmp.extend([option, 1]);
    icmp.extend(mac);
    let len = icmp.len() as u16;
    let ends = [octets(src), octets(dst)].concat();
    let pseudo = [&ends[..], &[0, 58], &len.to_be_bytes()].concat();
    let sum = checksum(&[&pseudo, &icmp]);
    icmp[2..4].copy_from_slice(&sum);
    let mut ip = vec![0x60, 0, 0, 0];
    ip.extend(len.to_be_bytes());
    ip.extend([58, 255]);
    ip.extend(ends);
    frame(dst_mac, mac, 0x86dd, &[ip, icmp].concat())
}

/// Where questions for an address go (RFC 4291 section 2.7.1).
pub fn solicited_node(target: Ipv6Addr) -> (Mac, IpAddr) {
    let [.., a, b, c] = target.octets();
    let group =
        Ipv6Addr::new(0xff02, 0, 0, 0, 0, 1, 0xff00 | u16::from(a), u16::from_be_bytes([b, c]));
    ([0x33, 0x33, 0xff, a, b, c], group.into())
}

/// What a frame of the router's says.
#[derive(Debug, PartialEq, Eq)]
pub enum FrameContent {
    /// It asks for the hardware address of an address.
    Asks(IpAddr),
    /// It answers for an address.
    Answers(IpAddr),
    /// A packet, or a piece of one, of this number: bytes behind the network header, and the time to live.
    Data {
        /// Where to.
        dst: IpAddr,
        /// Its number, if this fragment contains it.
        number: Option<u16>,
        /// Bytes behind the network header.
        len: u32,
        /// Time to live.
        ttl: u8,
    },
    /// An ICMP error about the packet of this number.
    Error(u16),
    /// Something else.
    Other,
}

/// Parses a frame: destination, source, content.
pub fn read(frame: &[u8]) -> (Mac, Mac, FrameContent) {
    // What is too short for what it says to be is read as if zeroes followed.
    let frame = &[frame, &[0; 128]].concat();
    let mac = |at: usize| <Mac>::try_from(&frame[at..at + 6]).expect("six bytes");
    let (kind, rest) = (u16::from_be_bytes([frame[12], frame[13]]), &frame[14..]);
    let said = match kind {
        0x0806 if rest.len() >= 28 => {
            let ip = |at: usize| {
                IpAddr::from(<[u8; 4]>::try_from(&rest[at..at + 4]).expect("four bytes"))
            };
            if rest[7] == 1 { FrameContent::Asks(ip(24)) } else { FrameContent::Answers(ip(14)) }
        }
        0x0800 => read_v4(rest),
        0x86dd => read_v6(rest),
        _ => FrameContent::Other,
    };
    (mac(0), mac(6), said)
}

fn word(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

fn read_v4(ip: &[u8]) -> FrameContent {
    let len = u32::from(word(ip, 2)).saturating_sub(20);
    let dst = IpAddr::from(<[u8; 4]>::try_from(&ip[16..20]).expect("four bytes"));
    match ip[9] {
        17 => FrameContent::Data { dst, number: Some(word(ip, 4)), len, ttl: ip[8] },
        // Unreachable and time exceeded, behind which the header that they are about stands.
        1 if matches!(ip[20], 3 | 11) => FrameContent::Error(word(ip, 20 + 8 + 4)),
        _ => FrameContent::Other,
    }
}

fn read_v6(ip: &[u8]) -> FrameContent {
    let len = word(ip, 4).into();
    let address =
        |at: usize| IpAddr::from(<[u8; 16]>::try_from(&ip[at..at + 16]).expect("sixteen bytes"));
    match (ip[6], ip.get(40)) {
        (17, _) => {
            FrameContent::Data { dst: address(24), number: Some(word(ip, 40)), len, ttl: ip[7] }
        }
        (58, Some(135)) => FrameContent::Asks(address(48)),
        (58, Some(136)) => FrameContent::Answers(address(48)),
        (58, Some(1..=3)) => FrameContent::Error(word(ip, 40 + 8 + 40)),
        _ => FrameContent::Other,
    }
}
