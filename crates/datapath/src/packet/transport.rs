//! Transport headers in canonical form: TCP with the options that the fast path reads, UDP, ICMP.

use crate::tcp::seq::Seq;
use core::ops::{BitOr, BitOrAssign};

/// The transport header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// No transport header was parsed (fragments, unknown protocols).
    None,
    /// TCP.
    Tcp(Tcp),
    /// UDP.
    Udp(Udp),
    /// ICMP or ICMPv6 (by the network header): type, code and the four bytes that follow.
    Icmp(Icmp),
}

/// TCP header fields (RFC 9293 section 3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tcp {
    /// Source port.
    pub src_port: u16,
    /// Destination port.
    pub dst_port: u16,
    /// Sequence number of the first payload byte (or of SYN).
    pub seq: Seq,
    /// Acknowledgment number; meaningful with [`TcpFlags::ACK`].
    pub ack: Seq,
    /// Flags.
    pub flags: TcpFlags,
    /// Window field as on the wire, not scaled.
    pub window: u16,
    /// Urgent pointer.
    pub urgent: u16,
    /// Options.
    pub options: TcpOptions,
}

/// TCP flags, the AE bit (RFC 9768) included.
#[derive(Clone, Copy, PartialEq, Eq, Default, Hash)]
pub struct TcpFlags(pub u16);

/// The options that the fast path understands, in Linux's order of emission. Anything else (or
/// another order) is kept in `Extra::raw`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct TcpOptions {
    /// Maximum segment size (kind 2); 0 = absent.
    pub mss: u16,
    /// Window scale (kind 3) plus one; 0 = absent.
    pub window_scale_plus_one: u8,
    /// SACK permitted (kind 4).
    pub sack_permitted: bool,
    /// Timestamps (kind 8, RFC 7323).
    pub timestamps: Option<Timestamps>,
    /// SACK blocks (kind 5, RFC 2018).
    pub sack: SackList,
}

/// TCP timestamps (RFC 7323 section 3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Timestamps {
    /// TSval.
    pub value: u32,
    /// TSecr.
    pub echo: u32,
}

/// One SACK block: `[start, end)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct SackBlock {
    /// First sequence number of the block.
    pub start: Seq,
    /// The sequence number just past the block.
    pub end: Seq,
}

/// Up to four SACK blocks, in wire order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct SackList {
    blocks: [SackBlock; 4],
    len: u8,
}

/// UDP ports (RFC 768). The length follows from the packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Udp {
    /// Source port.
    pub src_port: u16,
    /// Destination port.
    pub dst_port: u16,
}

/// The first eight bytes of an ICMP or ICMPv6 message, less its checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Icmp {
    /// Type.
    pub kind: u8,
    /// Code.
    pub code: u8,
    /// The four bytes after the checksum: identifier and sequence, MTU, pointer, …
    pub rest: u32,
}

impl TcpFlags {
    /// No more data from sender.
    pub const FIN: Self = Self(0x001);
    /// Synchronise sequence numbers.
    pub const SYN: Self = Self(0x002);
    /// Reset.
    pub const RST: Self = Self(0x004);
    /// Push.
    pub const PSH: Self = Self(0x008);
    /// The acknowledgment field counts.
    pub const ACK: Self = Self(0x010);
    /// The urgent pointer counts.
    pub const URG: Self = Self(0x020);
    /// ECN echo.
    pub const ECE: Self = Self(0x040);
    /// Congestion window reduced.
    pub const CWR: Self = Self(0x080);
    /// Accurate ECN (RFC 9768), formerly NS.
    pub const AE: Self = Self(0x100);

    /// True if every flag of `other` is set.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// True if any flag of `other` is set.
    pub const fn intersects(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// These flags without those of `other`.
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }
}

impl BitOr for TcpFlags {
    type Output = Self;
    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl BitOrAssign for TcpFlags {
    fn bitor_assign(&mut self, other: Self) {
        self.0 |= other.0;
    }
}

impl core::fmt::Debug for TcpFlags {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        for (bit, letter) in [(1, 'F'), (2, 'S'), (4, 'R'), (8, 'P'), (16, '.'), (32, 'U')] {
            if self.0 & bit != 0 {
                write!(f, "{letter}")?;
            }
        }
        for (bit, letter) in [(64, 'E'), (128, 'W'), (256, 'A')] {
            if self.0 & bit != 0 {
                write!(f, "{letter}")?;
            }
        }
        Ok(())
    }
}

impl SackList {
    /// No blocks.
    pub const EMPTY: Self = Self { blocks: [SackBlock { start: Seq(0), end: Seq(0) }; 4], len: 0 };

    /// Appends a block; the list holds four at most.
    pub fn push(&mut self, block: SackBlock) {
        assert!(self.len < 4, "a fifth SACK block does not fit in a TCP header");
        self.blocks[usize::from(self.len)] = block;
        self.len += 1;
    }

    /// How many blocks there are.
    pub fn len(&self) -> usize {
        usize::from(self.len)
    }

    /// True without blocks.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The blocks in wire order.
    pub fn as_slice(&self) -> &[SackBlock] {
        &self.blocks[..usize::from(self.len)]
    }
}

impl TcpOptions {
    /// The window scale shift, if the option is present.
    pub fn window_scale(&self) -> Option<u8> {
        self.window_scale_plus_one.checked_sub(1)
    }

    /// Bytes of the options as Linux lays them out (`tcp_options_write`), a multiple of four:
    /// MSS, then timestamps (SACK-permitted shares their padding), window scale, SACK.
    pub fn len(&self) -> u32 {
        let mut len = 0;
        if self.mss != 0 {
            len += 4;
        }
        if self.timestamps.is_some() {
            len += 12;
        } else if self.sack_permitted {
            len += 4;
        }
        if self.window_scale_plus_one != 0 {
            len += 4;
        }
        if !self.sack.is_empty() {
            len += 4 + 8 * self.sack.len() as u32;
        }
        len
    }

    /// True without options.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Transport {
    /// Bytes of the canonical header.
    pub fn len(&self) -> u32 {
        match self {
            Self::None => 0,
            Self::Tcp(tcp) => 20 + tcp.options.len(),
            Self::Udp(_) | Self::Icmp(_) => 8,
        }
    }

    /// True where no header was parsed.
    pub const fn is_empty(&self) -> bool {
        matches!(self, Self::None)
    }

    /// Source and destination port, where the protocol has them.
    pub const fn ports(&self) -> Option<(u16, u16)> {
        match self {
            Self::Tcp(tcp) => Some((tcp.src_port, tcp.dst_port)),
            Self::Udp(udp) => Some((udp.src_port, udp.dst_port)),
            Self::None | Self::Icmp(_) => None,
        }
    }
}
