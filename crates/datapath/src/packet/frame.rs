//! What is parsed: the captured part of a frame, and what can be wrong with it from the start.

use super::frames::FrameRef;

/// A frame to parse: the bytes that were captured, and what they are a part of.
#[derive(Clone, Copy, Debug)]
pub struct Frame<'a> {
    /// The bytes at hand.
    pub bytes: &'a [u8],
    /// How long the frame was on the wire; more than `bytes` if the capture was cut (snaplen).
    pub original_len: u32,
    /// The buffer that `bytes` lie in and the packet's body will refer to; `None` if the packet is to
    /// have only its length.
    pub buffer: Option<&'a FrameRef>,
    /// Where in that buffer `bytes` begin.
    pub offset: u32,
    /// The transport checksum is not looked at: the device has done so, or leaves it to whoever
    /// sends the packet on (a partial checksum). It counts as right.
    pub trusted: bool,
}

/// Why no packet can be made of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Malformed {
    /// Fewer bytes than the link-layer header has.
    LinkHeader {
        /// How many there are.
        len: usize,
    },
    /// Neither IPv4 nor IPv6, where nothing but IP may come (TUN without protocol information).
    IpVersion {
        /// The first byte, if there is one.
        first: Option<u8>,
    },
    /// The capture claims fewer bytes on the wire than were captured.
    OriginalLen {
        /// Bytes captured.
        captured: usize,
        /// Bytes claimed to have been on the wire.
        original: u32,
    },
}

impl<'a> Frame<'a> {
    /// A whole frame, of whose payload only the length is kept.
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, original_len: bytes.len() as u32, buffer: None, offset: 0, trusted: false }
    }

    /// The same bytes as the beginning of a frame of `original_len` bytes.
    pub const fn captured_of(self, original_len: u32) -> Self {
        Self { original_len, ..self }
    }

    /// What lies in a buffer from `offset` on, without a copy: the packet's body will refer to it. In
    /// front there may be what a device puts before a frame.
    ///
    /// # Panics
    /// If the buffer is shorter.
    pub fn lying_in(buffer: &'a FrameRef, offset: usize) -> Self {
        let offset_in_buffer = offset as u32;
        Self {
            buffer: Some(buffer),
            offset: offset_in_buffer,
            ..Self::new(&buffer.bytes()[offset..])
        }
    }

    /// The same, of whose transport checksum somebody else takes care.
    pub const fn trusted(self) -> Self {
        Self { trusted: true, ..self }
    }

    /// The same without its first `len` bytes, or nothing if it has fewer: a pseudo header.
    pub fn without_first(self, len: usize) -> Self {
        Self {
            bytes: self.bytes.get(len..).unwrap_or_default(),
            original_len: self.original_len.saturating_sub(len as u32),
            offset: self.offset + len as u32,
            ..self
        }
    }

    /// This frame, if it is not shorter than its capture.
    pub(super) fn checked(self) -> Result<Self, Malformed> {
        let (captured, original) = (self.bytes.len(), self.original_len);
        if (original as usize) < captured {
            return Err(Malformed::OriginalLen { captured, original });
        }
        Ok(self)
    }
}

impl<'a> From<&'a [u8]> for Frame<'a> {
    fn from(bytes: &'a [u8]) -> Self {
        Self::new(bytes)
    }
}

impl<'a> From<&'a FrameRef> for Frame<'a> {
    fn from(buffer: &'a FrameRef) -> Self {
        Self::lying_in(buffer, 0)
    }
}

impl core::fmt::Display for Malformed {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::LinkHeader { len } => {
                write!(f, "{len} bytes are too few for an Ethernet header of 14")
            }
            Self::IpVersion { first: Some(first) } => {
                write!(f, "IP version {} is neither 4 nor 6", first >> 4)
            }
            Self::IpVersion { first: None } => write!(f, "an empty IP packet"),
            Self::OriginalLen { captured, original } => {
                write!(f, "{captured} bytes captured of a frame said to have had {original}")
            }
        }
    }
}

impl core::error::Error for Malformed {}
