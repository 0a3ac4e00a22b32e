//! Transport headers in canonical form: TCP with the options that the fast path reads, UDP, ICMP.

use super::option_kind as kind;
use crate::packet::seq::Seq;
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

/// TCP header fields (RFC 9293 section 3.1), the later of two numbers before the earlier: so both lie in memory as
/// one number of the wire, from its low end, and a fingerprint takes them in one load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tcp {
    /// Destination port.
    pub dst_port: u16,
    /// Source port.
    pub src_port: u16,
    /// Acknowledgment number; meaningful with [`TcpFlags::ACK`].
    pub ack: Seq,
    /// Sequence number of the first payload byte (or of SYN).
    pub seq: Seq,
    /// Window field as on the wire, not scaled.
    pub window: u16,
    /// Flags.
    pub flags: TcpFlags,
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

/// The Accurate ECN option (RFC 9768 section 3.2.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct AccEcnOption {
    /// 172, 174; 0 = absent.
    kind: u8,
    /// How many counters it has, 0 to 3.
    fields: u8,
    /// The counters, 24 bits each; those that it does not have are 0.
    counters: [u32; 3],
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
///
/// The Accurate ECN option of the same header lies here as well, so that headers stay small: its
/// first counter in what would be padding, the others in the fourth block, which a header with more
/// than one counter has no room for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct SackList {
    blocks: [SackBlock; 4],
    /// Bits 0 to 2: blocks. Bits 3 and 4: the option's order plus one. Bits 5 and 6: its counters.
    len: u8,
    first_counter: [u8; 3],
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
    pub const EMPTY: Self = Self {
        blocks: [SackBlock { start: Seq(0), end: Seq(0) }; 4],
        len: 0,
        first_counter: [0; 3],
    };

    /// Appends a block; the list holds four at most.
    pub fn push(&mut self, block: SackBlock) {
        assert!(self.len() < 4, "a fifth SACK block does not fit in a TCP header");
        self.blocks[self.len()] = block;
        self.len += 1;
    }

    /// How many blocks there are.
    #[inline]
    pub fn len(&self) -> usize {
        usize::from(self.len & 7)
    }

    /// True without blocks.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The blocks in wire order.
    #[inline]
    pub fn as_slice(&self) -> &[SackBlock] {
        &self.blocks[..self.len()]
    }

    /// An Accurate ECN option lies here.
    #[inline]
    fn has_acc_ecn(&self) -> bool {
        self.len > 7
    }
}

impl AccEcnOption {
    /// No option.
    pub const NONE: Self = Self { kind: 0, fields: 0, counters: [0; 3] };

    /// An option of order 0 (`kind` 172: ECT(0), CE, ECT(1)) or 1 (174: ECT(1), CE, ECT(0)) with
    /// up to three counters, taken modulo 2²⁴.
    pub fn new(kind: u8, counters: &[u32]) -> Self {
        let mut option = Self { kind, fields: counters.len() as u8, counters: [0; 3] };
        for (to, counter) in option.counters.iter_mut().zip(counters) {
            *to = counter & 0xff_ffff;
        }
        option
    }

    /// There is one.
    pub const fn is_present(&self) -> bool {
        self.kind != 0
    }

    /// 172, 174, or 0 if absent.
    pub const fn kind(&self) -> u8 {
        self.kind
    }

    /// Its counters in wire order.
    pub fn counters(&self) -> &[u32] {
        &self.counters[..usize::from(self.fields)]
    }

    /// Its bytes on the wire, without padding, and how many these are.
    pub(super) fn wire(&self) -> ([u8; 11], usize) {
        let mut wire = [0; 11];
        let len = 2 + 3 * usize::from(self.fields);
        wire[0] = self.kind;
        wire[1] = len as u8;
        for (to, counter) in wire[2..].chunks_exact_mut(3).zip(self.counters) {
            to.copy_from_slice(&counter.to_be_bytes()[1..]);
        }
        (wire, len)
    }

    /// Bytes that an option with `fields` counters takes in front of the SACK option of `sacks`
    /// blocks, which it is padded together with: 2 or 5 bytes lie in the place of NOPs.
    pub const fn padded_len(fields: u32, sacks: usize) -> u32 {
        let len = 2 + 3 * fields;
        if sacks == 0 { len.next_multiple_of(4) } else { (len + 2).next_multiple_of(4) - 4 }
    }
}

impl TcpOptions {
    /// The Accurate ECN option.
    pub fn acc_ecn(&self) -> AccEcnOption {
        let SackList { blocks, len, first_counter: [high, middle, low] } = self.sack;
        if !self.sack.has_acc_ecn() {
            return AccEcnOption::NONE;
        }
        let kind = if len >> 3 & 3 == 1 { kind::ACC_ECN_0 } else { kind::ACC_ECN_1 };
        let mut counters = [u32::from_be_bytes([0, high, middle, low]), 0, 0];
        if len >> 5 > 1 {
            counters[1] = blocks[3].start.0;
            counters[2] = blocks[3].end.0;
        }
        AccEcnOption { kind, fields: len >> 5, counters }
    }

    /// Sets the Accurate ECN option, after the SACK blocks: there are three at most if it has more
    /// than one counter.
    pub fn set_acc_ecn(&mut self, option: AccEcnOption) {
        let AccEcnOption { kind, fields, counters: [first, second, third] } = option;
        self.sack.len &= 7;
        if !option.is_present() {
            return;
        }
        let order = if kind == kind::ACC_ECN_0 { 1 } else { 2 };
        self.sack.len |= order << 3 | fields << 5;
        let [_, first @ ..] = first.to_be_bytes();
        self.sack.first_counter = first;
        if fields > 1 {
            assert!(self.sack.len() < 4, "two counters and four SACK blocks are 42 bytes");
            self.sack.blocks[3] = SackBlock { start: Seq(second), end: Seq(third) };
        }
    }

    /// The window scale shift, if the option is present.
    pub fn window_scale(&self) -> Option<u8> {
        self.window_scale_plus_one.checked_sub(1)
    }

    /// Bytes of the options as Linux lays them out (`tcp_options_write`), a multiple of four:
    /// MSS, then timestamps (SACK-permitted shares their padding), Accurate ECN, window scale, SACK.
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
        if self.sack.has_acc_ecn() {
            len += AccEcnOption::padded_len(u32::from(self.sack.len >> 5), self.sack.len());
        }
        len
    }

    /// True without options.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// True with no option but timestamps, and with these exactly if `timestamps`: what nearly all segments
    /// of a connection carry (`tcp_parse_aligned_timestamp`).
    #[inline]
    pub fn are_usual(&self, timestamps: bool) -> bool {
        self.timestamps.is_some() == timestamps
            && !self.sack_permitted
            && self.mss == 0
            && self.window_scale_plus_one == 0
            && self.sack.len == 0
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
