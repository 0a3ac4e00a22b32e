//! What the ACK filter sees of a packet: the TCP header behind IPv4, IPv6, or IPv6 in IPv4.

use crate::packet::option_kind as kind;
use crate::packet::options::RawOptions;
use crate::packet::seq::Seq;
use crate::packet::{Network, Packet, SackBlock, TcpOptions, Transport};
use core::net::IpAddr;

/// A TCP segment as the filter compares it.
#[derive(Clone, Copy, Debug)]
pub struct Segment<'a> {
    /// Source and destination port.
    ports: (u16, u16),
    /// Where the addresses are, of the inner header in a tunnel.
    addresses: Addresses<'a>,
    /// Acknowledgment number.
    pub ack: Seq,
    /// The twelve bits after the data offset: three reserved ones, AE, and the eight flags.
    pub flags: u16,
    /// Payload bytes by the IP header's length; negative if that is wrong.
    pub payload: i32,
    /// The options.
    options: Options<'a>,
}

/// Addresses, parsed or as bytes of the IP header.
#[derive(Clone, Copy, Debug)]
enum Addresses<'a> {
    Parsed(&'a Network),
    V4(&'a [u8; 20]),
    V6(&'a [u8; 40]),
}

/// TCP options, parsed or as bytes.
#[derive(Clone, Copy, Debug)]
enum Options<'a> {
    Parsed(&'a TcpOptions),
    Raw(&'a [u8]),
}

impl<'a> Segment<'a> {
    /// The segment in `packet`, if it is TCP.
    pub fn of(packet: &'a Packet) -> Option<Self> {
        match &packet.extra {
            Some(extra) if !extra.raw.is_empty() => {
                let bytes = extra.raw.get(usize::from(extra.network_offset)..)?;
                Self::from_bytes(bytes)
            }
            _ => Self::from_fields(packet),
        }
    }

    fn from_fields(packet: &'a Packet) -> Option<Self> {
        let Transport::Tcp(tcp) = &packet.transport else { return None };
        Some(Self {
            ports: (tcp.src_port, tcp.dst_port),
            addresses: Addresses::Parsed(&packet.network),
            ack: tcp.ack,
            flags: tcp.flags.0,
            payload: packet.body.len as i32,
            options: Options::Parsed(&tcp.options),
        })
    }

    /// From the network header on. Neither fragments nor checksums are looked at.
    fn from_bytes(bytes: &'a [u8]) -> Option<Self> {
        match bytes.first()? >> 4 {
            4 => {
                let ip = bytes.first_chunk::<20>()?;
                let header_len = usize::from(ip[0] & 0x0f) * 4;
                let rest = bytes.get(header_len..)?;
                match ip[9] {
                    IPPROTO_IPV6 => Self::from_ipv6(rest),
                    IPPROTO_TCP => {
                        let total = i32::from(u16::from_be_bytes([ip[2], ip[3]]));
                        Self::from_tcp(rest, Addresses::V4(ip), total - header_len as i32)
                    }
                    _ => None,
                }
            }
            6 => Self::from_ipv6(bytes),
            _ => None,
        }
    }

    /// TCP must follow the IPv6 header at once.
    fn from_ipv6(bytes: &'a [u8]) -> Option<Self> {
        let (ip, rest) = bytes.split_first_chunk::<40>()?;
        if ip[0] >> 4 != 6 || ip[6] != IPPROTO_TCP {
            return None;
        }
        let len = i32::from(u16::from_be_bytes([ip[4], ip[5]]));
        Self::from_tcp(rest, Addresses::V6(ip), len)
    }

    fn from_tcp(bytes: &'a [u8], addresses: Addresses<'a>, len: i32) -> Option<Self> {
        let tcp = bytes.first_chunk::<20>()?;
        let header_len = usize::from(tcp[12] >> 4) * 4;
        let options = bytes.get(20..header_len)?;
        let port = |at: usize| u16::from_be_bytes([tcp[at], tcp[at + 1]]);
        Some(Self {
            ports: (port(0), port(2)),
            addresses,
            ack: Seq(u32::from_be_bytes([tcp[8], tcp[9], tcp[10], tcp[11]])),
            flags: port(12) & 0x0fff,
            payload: len - header_len as i32,
            options: Options::Raw(options),
        })
    }

    /// True if both are of the same connection and direction.
    pub fn same_flow(&self, other: &Segment<'_>) -> bool {
        self.ports == other.ports && self.addresses.both() == other.addresses.both()
    }

    /// True if every bit of `flags` is set.
    pub const fn has(&self, flags: u16) -> bool {
        self.flags & flags == flags
    }

    /// True if there is any SACK option, whatever its length.
    pub fn has_sack_option(&self) -> bool {
        match self.options {
            Options::Parsed(options) => !options.sack.is_empty(),
            Options::Raw(bytes) => RawOptions::new(bytes).any(|option| option.kind == kind::SACK),
        }
    }

    /// The blocks of the first SACK option; `None` without one, or if its length is no number of
    /// blocks.
    pub fn sack(&self) -> Option<Blocks<'a>> {
        match self.options {
            Options::Parsed(options) if options.sack.is_empty() => None,
            Options::Parsed(options) => Some(Blocks::Parsed(options.sack.as_slice())),
            Options::Raw(bytes) => {
                let option = RawOptions::new(bytes).find(|option| option.kind == kind::SACK)?;
                (option.data.len() % 8 == 0).then_some(Blocks::Raw(option.data))
            }
        }
    }

    /// TSval and TSecr of the first time stamp option; zero without one.
    pub fn timestamps(&self) -> (u32, u32) {
        let found = match self.options {
            Options::Parsed(options) => options.timestamps.map(|ts| (ts.value, ts.echo)),
            Options::Raw(bytes) => RawOptions::new(bytes)
                .find(|option| option.kind == kind::TIMESTAMPS)
                .and_then(|option| two_words(option.data)),
        };
        found.unwrap_or((0, 0))
    }

    /// True if an ACK with these options may be dropped in favour of `newer`: it has none but
    /// SACK, MD5 and time stamps, and the time stamps are not after those of `newer`.
    pub fn options_allow_drop(&self, newer: &Segment<'_>) -> bool {
        match self.options {
            Options::Parsed(options) => {
                options.mss == 0
                    && options.window_scale_plus_one == 0
                    && !options.sack_permitted
                    && options.timestamps.is_none_or(|ts| newer.not_before((ts.value, ts.echo)))
            }
            Options::Raw(bytes) => {
                let mut walk = RawOptions::new(bytes);
                let known = walk.by_ref().all(|option| match option.kind {
                    kind::MD5 => true,
                    kind::SACK => option.data.len() % 8 == 0,
                    kind::TIMESTAMPS => {
                        two_words(option.data).is_some_and(|older| newer.not_before(older))
                    }
                    _ => false,
                });
                known && !walk.is_broken()
            }
        }
    }

    /// True if neither of these time stamps is after ours.
    fn not_before(&self, older: (u32, u32)) -> bool {
        let newer = self.timestamps();
        !Seq(older.0).after(Seq(newer.0)) && !Seq(older.1).after(Seq(newer.1))
    }
}

impl Addresses<'_> {
    /// Source and destination.
    fn both(&self) -> Option<(IpAddr, IpAddr)> {
        match self {
            Self::Parsed(network) => Some((network.src()?, network.dst()?)),
            Self::V4([.., s0, s1, s2, s3, d0, d1, d2, d3]) => {
                Some(([*s0, *s1, *s2, *s3].into(), [*d0, *d1, *d2, *d3].into()))
            }
            Self::V6(header) => {
                let [_, _, _, _, _, _, _, _, addresses @ ..] = header;
                let (src, dst) = addresses.split_first_chunk::<16>()?;
                Some(((*src).into(), (*dst.first_chunk::<16>()?).into()))
            }
        }
    }
}

/// The blocks of a SACK option.
#[derive(Clone, Copy, Debug)]
pub enum Blocks<'a> {
    /// Parsed.
    Parsed(&'a [SackBlock]),
    /// Eight bytes each.
    Raw(&'a [u8]),
}

impl<'a> Blocks<'a> {
    /// The blocks in wire order.
    pub fn iter(self) -> impl Iterator<Item = SackBlock> + use<'a> {
        let (parsed, raw): (&[SackBlock], &[u8]) = match self {
            Self::Parsed(blocks) => (blocks, &[]),
            Self::Raw(bytes) => (&[], bytes),
        };
        let raw = raw.chunks_exact(8).filter_map(two_words);
        let raw = raw.map(|(start, end)| SackBlock { start: Seq(start), end: Seq(end) });
        parsed.iter().copied().chain(raw)
    }
}

/// Exactly eight bytes as two numbers.
fn two_words(bytes: &[u8]) -> Option<(u32, u32)> {
    let &[a0, a1, a2, a3, b0, b1, b2, b3] = bytes else { return None };
    Some((u32::from_be_bytes([a0, a1, a2, a3]), u32::from_be_bytes([b0, b1, b2, b3])))
}

/// Whether any network header at all could hold TCP: a quick no for everything else.
pub fn may_be_tcp(network: &Network) -> bool {
    matches!(network.protocol(), Some(IPPROTO_TCP | IPPROTO_IPV6))
}

/// Protocol number of TCP.
const IPPROTO_TCP: u8 = 6;
/// Protocol number of IPv6 in IPv4 (RFC 4213).
const IPPROTO_IPV6: u8 = 41;
