//! What is parsed: the captured part of a frame, and what can be wrong with it from the start.

/// A frame to parse: the bytes that were captured, and what they are a part of.
#[derive(Clone, Copy, Debug)]
pub struct Frame<'a> {
    /// The bytes at hand.
    pub bytes: &'a [u8],
    /// How long the frame was on the wire; more than `bytes` if the capture was cut (snaplen).
    pub original_len: u32,
    /// The frame store that the packet's body will refer to.
    pub store: u32,
    /// Where in that store `bytes` begin.
    pub offset: u32,
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
    /// A whole frame, in no store.
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, original_len: bytes.len() as u32, store: 0, offset: 0 }
    }

    /// The same bytes as the beginning of a frame of `original_len` bytes.
    pub const fn captured_of(self, original_len: u32) -> Self {
        Self { original_len, ..self }
    }

    /// The same bytes, lying at `offset` of frame store `store`.
    pub const fn stored(self, store: u32, offset: u32) -> Self {
        Self { store, offset, ..self }
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
