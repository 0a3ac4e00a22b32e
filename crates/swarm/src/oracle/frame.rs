//! A parser of IP packets that shares no code with the datapath: lengths, checksums, options.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// TCP flags as they lie in the header, AE included.
pub mod flag {
    /// `FIN`.
    pub const FIN: u16 = 0x01;
    /// `SYN`.
    pub const SYN: u16 = 0x02;
    /// `RST`.
    pub const RST: u16 = 0x04;
    /// `ACK`.
    pub const ACK: u16 = 0x10;
}

/// A whole IP packet whose lengths and checksums are right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Who sent it.
    pub source: IpAddr,
    /// Whom it is for.
    pub destination: IpAddr,
    /// The lower two bits of TOS or traffic class.
    pub ecn: u8,
    /// What it carries.
    pub content: Content,
}

/// What an IP packet carries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// A TCP segment.
    Tcp(Segment),
    /// An ICMP or ICMPv6 message: type and code.
    Icmp(u8, u8),
    /// A piece of a packet.
    Fragment,
    /// Another protocol.
    Other(u8),
}

/// A TCP segment.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Segment {
    /// Source port.
    pub source: u16,
    /// Destination port.
    pub destination: u16,
    /// Sequence number.
    pub seq: u32,
    /// Acknowledgment number.
    pub ack: u32,
    /// Flags, AE included.
    pub flags: u16,
    /// Window as it stands there.
    pub window: u16,
    /// Bytes of payload.
    pub len: u32,
    /// Bytes of its options, padding included.
    pub options_len: u32,
    /// Maximum segment size.
    pub mss: Option<u16>,
    /// Window scale.
    pub scale: Option<u8>,
    /// SACK permitted.
    pub sack_permitted: bool,
    /// Time stamp and its echo.
    pub stamps: Option<(u32, u32)>,
    /// SACK blocks.
    pub sack: Vec<(u32, u32)>,
    /// The signature of RFC 2385.
    pub md5: Option<[u8; 16]>,
    /// TCP-AO (RFC 5925), for which no host here has a key.
    pub is_authenticated: bool,
    /// The Fast Open cookie (RFC 7413).
    pub cookie: Option<Vec<u8>>,
}

impl Segment {
    /// Whether a flag is set.
    pub const fn has(&self, flag: u16) -> bool {
        self.flags & flag != 0
    }

    /// Just past the last sequence number that it takes.
    pub fn end(&self) -> u32 {
        let control = u32::from(self.has(flag::SYN)) + u32::from(self.has(flag::FIN));
        self.seq.wrapping_add(self.len).wrapping_add(control)
    }
}

/// What is done about options that make no sense.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Options {
    /// A host never sends them.
    Refused,
    /// A hostile peer may.
    Skipped,
}

/// Reads a packet.
///
/// # Errors
/// What is wrong with it.
pub fn read(bytes: &[u8], odd: Options) -> Result<Frame, String> {
    match bytes.first().map(|first| first >> 4) {
        Some(4) => read_ipv4(bytes, odd),
        Some(6) => read_ipv6(bytes, odd),
        other => Err(format!("IP version {other:?}")),
    }
}

fn read_ipv4(bytes: &[u8], odd: Options) -> Result<Frame, String> {
    let header_len = usize::from(bytes[0] & 15) * 4;
    if header_len < 20 || bytes.len() < header_len {
        return Err(format!("an IPv4 header of {header_len} in {} bytes", bytes.len()));
    }
    let total = usize::from(word(bytes, 2));
    if total != bytes.len() {
        return Err(format!("total length {total} of {} bytes", bytes.len()));
    }
    if sum(&bytes[..header_len], 0) != 0xffff {
        return Err("the checksum of the IPv4 header is wrong".to_owned());
    }
    let address = |at: usize| {
        IpAddr::from(Ipv4Addr::new(bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]))
    };
    let fragment = word(bytes, 6) & 0x3fff;
    let payload = &bytes[header_len..];
    let protocol = bytes[9];
    let content = match (fragment, protocol) {
        (1.., _) => Content::Fragment,
        (_, 1) if sum(payload, 0) != 0xffff => return Err("a wrong ICMP checksum".to_owned()),
        (_, 1) => Content::Icmp(payload[0], payload[1]),
        _ => read_transport(protocol, payload, &bytes[12..20], odd)?,
    };
    Ok(Frame { source: address(12), destination: address(16), ecn: bytes[1] & 3, content })
}

fn read_ipv6(bytes: &[u8], odd: Options) -> Result<Frame, String> {
    if bytes.len() < 40 {
        return Err(format!("an IPv6 header in {} bytes", bytes.len()));
    }
    let len = usize::from(word(bytes, 4));
    if len + 40 != bytes.len() {
        return Err(format!("payload length {len} of {} bytes", bytes.len()));
    }
    let address = |at: usize| {
        let octets: [u8; 16] = bytes[at..at + 16].try_into().expect("16 bytes");
        IpAddr::from(Ipv6Addr::from(octets))
    };
    let content = match bytes[6] {
        44 => Content::Fragment,
        protocol => read_transport(protocol, &bytes[40..], &bytes[8..40], odd)?,
    };
    let ecn = (bytes[1] >> 4) & 3;
    Ok(Frame { source: address(8), destination: address(24), ecn, content })
}

/// `addresses`: both of them, for the pseudo header.
fn read_transport(
    protocol: u8,
    payload: &[u8],
    addresses: &[u8],
    odd: Options,
) -> Result<Content, String> {
    let pseudo = pseudo_sum(protocol, payload.len(), addresses);
    match protocol {
        6 => {
            if sum(payload, pseudo) != 0xffff {
                return Err("a wrong TCP checksum".to_owned());
            }
            read_tcp(payload, odd).map(Content::Tcp)
        }
        58 if sum(payload, pseudo) != 0xffff => Err("a wrong ICMPv6 checksum".to_owned()),
        58 => Ok(Content::Icmp(payload[0], payload[1])),
        17 if word(payload, 6) != 0 && sum(payload, pseudo) != 0xffff => {
            Err("a wrong UDP checksum".to_owned())
        }
        other => Ok(Content::Other(other)),
    }
}

/// Reads a TCP segment whose checksum is right.
///
/// # Errors
/// What is wrong with it.
pub fn read_tcp(bytes: &[u8], odd: Options) -> Result<Segment, String> {
    let header_len = bytes.get(12).map_or(0, |offset| usize::from(offset >> 4) * 4);
    if header_len < 20 || bytes.len() < header_len {
        return Err(format!("a TCP header of {header_len} in {} bytes", bytes.len()));
    }
    let mut segment = Segment {
        source: word(bytes, 0),
        destination: word(bytes, 2),
        seq: long(bytes, 4),
        ack: long(bytes, 8),
        flags: word(bytes, 12) & 0x1ff,
        window: word(bytes, 14),
        len: (bytes.len() - header_len) as u32,
        options_len: header_len as u32 - 20,
        ..Segment::default()
    };
    match read_options(&bytes[20..header_len], &mut segment) {
        Err(why) if odd == Options::Refused => Err(why),
        _ => Ok(segment),
    }
}

fn read_options(mut bytes: &[u8], segment: &mut Segment) -> Result<(), String> {
    let mut outcome = Ok(());
    while let [kind, rest @ ..] = bytes {
        match kind {
            0 if rest.iter().all(|byte| *byte == 0) => return outcome,
            0 => return Err("something follows the end of the options".to_owned()),
            1 => {
                bytes = rest;
                continue;
            }
            _ => {}
        }
        let len = rest.first().map_or(0, |len| usize::from(*len));
        if len < 2 || len > bytes.len() {
            return Err(format!("option {kind} of {len} bytes in {}", bytes.len()));
        }
        outcome = read_option(*kind, &bytes[2..len], segment).and(outcome);
        bytes = &bytes[len..];
    }
    outcome
}

fn read_option(kind: u8, data: &[u8], segment: &mut Segment) -> Result<(), String> {
    match (kind, data.len()) {
        (2, 2) => segment.mss = Some(word(data, 0)),
        (3, 1) => segment.scale = Some(data[0]),
        (4, 0) => segment.sack_permitted = true,
        (8, 8) => segment.stamps = Some((long(data, 0), long(data, 4))),
        (5, 8 | 16 | 24 | 32) => {
            segment.sack = data.chunks(8).map(|block| (long(block, 0), long(block, 4))).collect();
        }
        (19, 16) => segment.md5 = data.try_into().ok(),
        (29, 2..) => segment.is_authenticated = true,
        (34, 0 | 4..=16) if data.len().is_multiple_of(2) => segment.cookie = Some(data.to_vec()),
        (254, 2..) if data[..2] == [0xf9, 0x89] => segment.cookie = Some(data[2..].to_vec()),
        // Accurate ECN: none to three counters of 24 bits.
        (172 | 174, 0 | 3 | 6 | 9) => {}
        _ => return Err(format!("option {kind} with {data:?}")),
    }
    Ok(())
}

/// Sixteen bits in network order.
fn word(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

/// Thirty-two bits in network order.
fn long(bytes: &[u8], at: usize) -> u32 {
    u32::from(word(bytes, at)) << 16 | u32::from(word(bytes, at + 2))
}

/// The sum of the pseudo header (RFC 9293 section 3.1).
pub fn pseudo_sum(protocol: u8, len: usize, addresses: &[u8]) -> u16 {
    let len = (len as u32).to_be_bytes();
    let begin = sum(&[len[0], len[1], len[2], len[3], 0, protocol], 0);
    sum(addresses, begin)
}

/// The one's complement sum of 16-bit words (RFC 1071), from `begin` on.
pub fn sum(bytes: &[u8], begin: u16) -> u16 {
    let mut total = u64::from(begin);
    for pair in bytes.chunks(2) {
        let low = pair.get(1).copied().unwrap_or(0);
        total += u64::from(u16::from_be_bytes([pair[0], low]));
    }
    while total > 0xffff {
        total = (total & 0xffff) + (total >> 16);
    }
    total as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    /// From RFC 1071 section 3.
    #[test]
    fn the_sum_is_that_of_the_rfc() {
        assert_eq!(sum(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7], 0), 0xddf2);
    }

    #[test]
    fn wrong_bytes_are_seen() {
        let mut ping = vec![0x45, 0, 0, 28, 0, 0, 0, 0, 64, 1, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
        let header_sum = !sum(&ping, 0);
        ping[10..12].copy_from_slice(&header_sum.to_be_bytes());
        ping.extend_from_slice(&[8, 0, 0xf7, 0xff, 0, 0, 0, 0]);
        assert_eq!(
            read(&ping, Options::Refused).map(|frame| frame.content),
            Ok(Content::Icmp(8, 0))
        );
        for place in [2, 12, 20, 24] {
            let mut damaged = ping.clone();
            damaged[place] ^= 1;
            assert!(read(&damaged, Options::Refused).is_err(), "byte {place}");
        }
    }
}
