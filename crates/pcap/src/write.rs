//! Writing pcapng.

use super::{Interface, LinkType, ng};
use datapath::packet::{LinkHeader, MacAddr, Packet};
use datapath::units::Instant;
use std::io::{self, Write};

/// Time stamps count nanoseconds: ten to the minus ninth.
const NANOSECONDS: u8 = 9;

/// An interface of the file being written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InterfaceId(u32);

/// How much of a simulated packet is written. Its original length is always told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Snap {
    /// The headers; checksums are those of a payload of zeroes.
    #[default]
    Headers,
    /// So many bytes at most, the payload as zeroes.
    Bytes(u32),
}

/// Writes a pcapng file. Each packet is one write to `out`, so that a file that breaks off does so
/// between packets; wrap a file in a `BufWriter`, and call [`Writer::finish`].
#[derive(Debug)]
pub struct Writer<W: Write> {
    out: W,
    interfaces: Vec<LinkType>,
    /// Bytes written so far.
    offset: u64,
    /// The block being made.
    block: Vec<u8>,
    /// The frame in it.
    frame: Vec<u8>,
}

impl<W: Write> Writer<W> {
    /// Begins a file.
    ///
    /// # Errors
    /// If `out` cannot be written.
    pub fn new(out: W) -> io::Result<Self> {
        let (block, frame) = (Vec::new(), Vec::new());
        let mut writer = Self { out, interfaces: Vec::new(), offset: 0, block, frame };
        writer.begin(ng::SECTION_HEADER);
        writer.u32(ng::BYTE_ORDER);
        // Version 1.0, and a section of unknown length.
        writer.block.extend_from_slice(&[1, 0, 0, 0]);
        writer.block.extend_from_slice(&u64::MAX.to_le_bytes());
        writer.option(ng::SECTION_APPLICATION, b"ackwright");
        writer.option(ng::OPTION_END, &[]);
        writer.end()?;
        Ok(writer)
    }

    /// Adds an interface. May be done at any time.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn add_interface(&mut self, interface: &Interface) -> io::Result<InterfaceId> {
        self.begin(ng::INTERFACE);
        self.block.extend_from_slice(&interface.link_type.0.to_le_bytes());
        self.block.extend_from_slice(&[0; 2]);
        self.u32(interface.snap_len);
        if let Some(name) = &interface.name {
            self.option(ng::INTERFACE_NAME, name.as_bytes());
        }
        self.option(ng::INTERFACE_RESOLUTION, &[NANOSECONDS]);
        self.option(ng::OPTION_END, &[]);
        self.end()?;
        self.interfaces.push(interface.link_type);
        Ok(InterfaceId(self.interfaces.len() as u32 - 1))
    }

    /// Writes a frame of `original_len` bytes of which `captured` are there.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn write_frame(
        &mut self,
        interface: InterfaceId,
        nanos: u64,
        captured: &[u8],
        original_len: u32,
        comment: Option<&str>,
    ) -> io::Result<()> {
        assert!((interface.0 as usize) < self.interfaces.len(), "an interface of another file");
        self.begin(ng::ENHANCED_PACKET);
        self.u32(interface.0);
        self.u32((nanos >> 32) as u32);
        self.u32(nanos as u32);
        self.u32(captured.len() as u32);
        self.u32(original_len);
        self.block.extend_from_slice(captured);
        self.pad();
        if let Some(comment) = comment {
            self.option(ng::OPTION_COMMENT, comment.as_bytes());
            self.option(ng::OPTION_END, &[]);
        }
        self.end()
    }

    /// Writes a simulated packet, whose body is only a length. Where the interface is Ethernet and
    /// the packet has no link header it gets one of zeroes, and loses its own where the interface
    /// has none.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn write_packet(
        &mut self,
        interface: InterfaceId,
        now: Instant,
        packet: &Packet,
        snap: Snap,
        comment: Option<&str>,
    ) -> io::Result<()> {
        let link = match (self.interfaces[interface.0 as usize], &packet.link) {
            (LinkType::ETHERNET, LinkHeader::None) => {
                Some(LinkHeader::Ethernet { dst: MacAddr::default(), src: MacAddr::default() })
            }
            (LinkType::RAW, LinkHeader::Ethernet { .. }) => Some(LinkHeader::None),
            _ => None,
        };
        let mut frame = core::mem::take(&mut self.frame);
        frame.clear();
        let original_len = if let Some(link) = link {
            let mut other = packet.clone();
            other.set_link(link);
            other.emit_headers(&mut frame);
            other.len()
        } else {
            packet.emit_headers(&mut frame);
            packet.len()
        };
        // A simulated packet whose length was never set still has its headers.
        let original_len = original_len.max(frame.len() as u32);
        if let Snap::Bytes(limit) = snap {
            frame.resize(original_len.min(limit) as usize, 0);
        }
        let written = self.write_frame(interface, now.as_nanos(), &frame, original_len, comment);
        self.frame = frame;
        written
    }

    /// Flushes, and gives back what was written to.
    ///
    /// # Errors
    /// If the last bytes cannot be written.
    pub fn finish(mut self) -> io::Result<W> {
        self.out.flush().map_err(|error| at_offset(self.offset, &error))?;
        Ok(self.out)
    }

    /// Begins a block; its length comes at the end.
    fn begin(&mut self, kind: u32) {
        self.block.clear();
        self.u32(kind);
        self.u32(0);
    }

    fn u32(&mut self, value: u32) {
        self.block.extend_from_slice(&value.to_le_bytes());
    }

    fn option(&mut self, code: u16, value: &[u8]) {
        let value = &value[..value.len().min(usize::from(u16::MAX))];
        self.block.extend_from_slice(&code.to_le_bytes());
        self.block.extend_from_slice(&(value.len() as u16).to_le_bytes());
        self.block.extend_from_slice(value);
        self.pad();
    }

    fn pad(&mut self) {
        self.block.resize(self.block.len().next_multiple_of(4), 0);
    }

    /// Fills in the block's length, in front and behind, and writes it.
    fn end(&mut self) -> io::Result<()> {
        let len = (self.block.len() + 4) as u32;
        self.block[4..8].copy_from_slice(&len.to_le_bytes());
        self.u32(len);
        self.out.write_all(&self.block).map_err(|error| at_offset(self.offset, &error))?;
        self.offset += u64::from(len);
        Ok(())
    }
}

fn at_offset(offset: u64, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("at byte {offset} of the capture: {error}"))
}
