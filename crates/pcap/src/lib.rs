//! Capture files: pcap and pcapng in, pcapng with nanosecond time stamps out.
//!
//! Our own code rather than a crate, for what a crate would have to give and none that we looked
//! at gives whole: time stamps by each interface's `if_tsresol` and `if_tsoffset`, errors that
//! name the offset in the file, and one `write` per block, so that a run cut short by Ctrl-C or a
//! full disk leaves a file that ends between two packets. The format (draft-ietf-opsawg-pcapng)
//! needs little code for that.
//!
//! ```
//! use pcap::{Interface, LinkType, Reader, Writer};
//!
//! let mut file = Writer::new(Vec::new())?;
//! let eth0 = Interface { name: Some("eth0".into()), link_type: LinkType::RAW, snap_len: 0 };
//! let id = file.add_interface(&eth0)?;
//! file.write_frame(id, 1_000_000_007, &[0x45, 0, 0, 20], 20, Some("cut short"))?;
//! let bytes = file.finish()?;
//!
//! let mut capture = Reader::new(bytes.as_slice())?;
//! let record = capture.next_record()?.expect("a frame");
//! assert_eq!((record.nanos, record.original_len), (Some(1_000_000_007), 20));
//! assert_eq!(capture.interfaces(), [eth0]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod read;
mod write;

pub use read::{ReadError, Reader, Record};
pub use write::{InterfaceId, Snap, Writer};

use datapath::packet::{Frame, Malformed, Packet};

/// What a frame begins with (IANA/tcpdump `LINKTYPE_` numbers).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkType(pub u16);

/// An interface of a capture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// Its name, if the file tells.
    pub name: Option<String>,
    /// What its frames begin with.
    pub link_type: LinkType,
    /// Bytes captured of each frame at most; 0 for no limit.
    pub snap_len: u32,
}

impl LinkType {
    /// Ethernet.
    pub const ETHERNET: Self = Self(1);
    /// IPv4 or IPv6 without link header.
    pub const RAW: Self = Self(101);
    /// Linux cooked capture: what `tcpdump -i any` once wrote.
    pub const LINUX_SLL: Self = Self(113);
    /// IPv4 without link header.
    pub const IPV4: Self = Self(228);
    /// IPv6 without link header.
    pub const IPV6: Self = Self(229);
    /// Linux cooked capture, version 2: what `tcpdump -i any` writes.
    pub const LINUX_SLL2: Self = Self(276);

    /// Parses a frame of this type. Of cooked captures only the packet behind the pseudo header is
    /// kept. `None` for a link type that we do not know.
    pub fn parse(self, frame: Frame<'_>) -> Option<Result<Packet, Malformed>> {
        let skipped = match self {
            Self::ETHERNET => return Some(Packet::parse_ethernet(frame)),
            Self::RAW | Self::IPV4 | Self::IPV6 => 0,
            Self::LINUX_SLL => 16,
            Self::LINUX_SLL2 => 20,
            _ => return None,
        };
        Some(Packet::parse_ip(frame.without_first(skipped)))
    }
}

/// Block types and option codes that both reading and writing know.
mod ng {
    pub const SECTION_HEADER: u32 = 0x0a0d_0d0a;
    pub const BYTE_ORDER: u32 = 0x1a2b_3c4d;
    pub const INTERFACE: u32 = 1;
    pub const OBSOLETE_PACKET: u32 = 2;
    pub const SIMPLE_PACKET: u32 = 3;
    pub const ENHANCED_PACKET: u32 = 6;

    pub const OPTION_END: u16 = 0;
    pub const OPTION_COMMENT: u16 = 1;
    pub const SECTION_APPLICATION: u16 = 4;
    pub const INTERFACE_NAME: u16 = 2;
    pub const INTERFACE_RESOLUTION: u16 = 9;
    pub const INTERFACE_OFFSET: u16 = 14;
}

#[cfg(test)]
mod tests;
