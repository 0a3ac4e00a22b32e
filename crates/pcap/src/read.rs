//! Reading pcap (microseconds or nanoseconds, either byte order) and pcapng.

use super::{Interface, LinkType, ng};
use core::fmt;
use datapath::packet::{Frame, Malformed, Packet};
use std::io::{self, Read};

/// A block or record larger than this is taken for damage.
const MAX_BLOCK: u32 = 64 << 20;

/// The magic numbers of pcap, in the byte order of the file.
const PCAP_MICROS: u32 = 0xa1b2_c3d4;
const PCAP_NANOS: u32 = 0xa1b2_3c4d;

const NANOS_PER_SEC: u128 = 1_000_000_000;

/// One captured frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Index of the interface within [`Reader::interfaces`].
    pub interface: usize,
    /// Nanoseconds since 1970; `None` in a simple packet block.
    pub nanos: Option<u64>,
    /// The bytes captured.
    pub bytes: Vec<u8>,
    /// How long the frame was on the wire: at least as many.
    pub original_len: u32,
    /// Comments on this packet.
    pub comments: Vec<String>,
}

/// What is wrong with a capture file, and where.
#[derive(Debug)]
pub struct ReadError {
    /// Bytes from the beginning of the file to the record or block that is wrong.
    pub offset: u64,
    /// What is wrong.
    pub what: String,
}

/// Reads the records of a capture one by one.
#[derive(Debug)]
pub struct Reader<R> {
    input: Counted<R>,
    format: Format,
    big_endian: bool,
    interfaces: Vec<Interface>,
    /// How the time stamps of each interface are meant.
    clocks: Vec<Clock>,
    /// Where the interfaces of the current section begin: a packet counts from here.
    section: usize,
    /// After an error nothing more is read.
    failed: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Pcap,
    PcapNg,
}

/// Ticks to nanoseconds since 1970 (`if_tsresol`, `if_tsoffset`).
#[derive(Clone, Copy, Debug)]
struct Clock {
    ticks_per_sec: u128,
    offset_secs: i64,
}

impl Record {
    /// The packet in this record. Its body is a length, and says where in `bytes` it begins. `None`
    /// if frames of this link type are not known.
    pub fn packet(&self, interface: &Interface) -> Option<Result<Packet, Malformed>> {
        interface.link_type.parse(Frame::new(&self.bytes).captured_of(self.original_len))
    }
}

impl<R: Read> Reader<R> {
    /// Begins to read a capture, whichever format it has. `input` is read in small pieces: wrap a
    /// file in a `BufReader`.
    ///
    /// # Errors
    /// If it does not begin like a capture.
    pub fn new(input: R) -> Result<Self, ReadError> {
        let mut reader = Self {
            input: Counted { input, offset: 0 },
            format: Format::PcapNg,
            big_endian: false,
            interfaces: Vec::new(),
            clocks: Vec::new(),
            section: 0,
            failed: false,
        };
        let magic: [u8; 4] = reader.input.array(0, "the magic number")?;
        let known = [
            (ng::SECTION_HEADER.to_le_bytes(), Format::PcapNg, false, 0),
            (PCAP_MICROS.to_le_bytes(), Format::Pcap, false, 1_000_000),
            (PCAP_MICROS.to_be_bytes(), Format::Pcap, true, 1_000_000),
            (PCAP_NANOS.to_le_bytes(), Format::Pcap, false, NANOS_PER_SEC),
            (PCAP_NANOS.to_be_bytes(), Format::Pcap, true, NANOS_PER_SEC),
        ];
        let Some((_, format, big_endian, ticks)) = known.into_iter().find(|it| it.0 == magic)
        else {
            return Err(ReadError { offset: 0, what: not_a_capture(magic) });
        };
        reader.format = format;
        reader.big_endian = big_endian;
        match format {
            Format::Pcap => reader.pcap_header(ticks)?,
            Format::PcapNg => reader.section_header(0)?,
        }
        Ok(reader)
    }

    /// The interfaces seen so far, of all sections. A pcap file has one.
    pub fn interfaces(&self) -> &[Interface] {
        &self.interfaces
    }

    /// Bytes of the file read so far.
    pub fn offset(&self) -> u64 {
        self.input.offset
    }

    /// The next record; `None` at the end of the file.
    ///
    /// # Errors
    /// If the file is damaged or ends within a record. What came before was whole.
    pub fn next_record(&mut self) -> Result<Option<Record>, ReadError> {
        if self.failed {
            return Ok(None);
        }
        let record = match self.format {
            Format::Pcap => self.pcap_record(),
            Format::PcapNg => self.block_with_packet(),
        };
        self.failed = record.is_err();
        record
    }

    fn u16(&self, bytes: &[u8], at: usize) -> u16 {
        let bytes = [bytes[at], bytes[at + 1]];
        if self.big_endian { u16::from_be_bytes(bytes) } else { u16::from_le_bytes(bytes) }
    }

    fn u32(&self, bytes: &[u8], at: usize) -> u32 {
        let bytes = [bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]];
        if self.big_endian { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) }
    }

    fn pcap_header(&mut self, ticks_per_sec: u128) -> Result<(), ReadError> {
        let header: [u8; 20] = self.input.array(0, "the pcap header")?;
        let major = self.u16(&header, 0);
        if major != 2 {
            return Err(ReadError {
                offset: 4,
                what: format!("pcap version {major} is not supported, only 2"),
            });
        }
        self.interfaces.push(Interface {
            name: None,
            // The upper bits tell of a frame check sequence.
            link_type: LinkType(self.u32(&header, 16) as u16),
            snap_len: self.u32(&header, 12),
        });
        self.clocks.push(Clock { ticks_per_sec, offset_secs: 0 });
        Ok(())
    }

    fn pcap_record(&mut self) -> Result<Option<Record>, ReadError> {
        let at = self.input.offset;
        let Some(header) = self.input.array_or_end::<16>(at, "a record header")? else {
            return Ok(None);
        };
        let [secs, fraction, captured, original] =
            [0, 4, 8, 12].map(|field| self.u32(&header, field));
        if captured > MAX_BLOCK {
            let what = format!("a record claims {captured} captured bytes: the file is damaged");
            return Err(ReadError { offset: at, what });
        }
        let bytes = self.input.bytes(captured, at, "a record")?;
        let ticks_per_sec = self.clocks[0].ticks_per_sec;
        let nanos = u128::from(secs) * NANOS_PER_SEC
            + u128::from(fraction) * (NANOS_PER_SEC / ticks_per_sec);
        Ok(Some(Record {
            interface: 0,
            nanos: Some(nanos as u64),
            original_len: original.max(captured),
            bytes,
            comments: Vec::new(),
        }))
    }

    /// Reads the rest of a section header block whose type was read at `at`.
    fn section_header(&mut self, at: u64) -> Result<(), ReadError> {
        let head: [u8; 8] = self.input.array(at, "the section header")?;
        let magic = [head[4], head[5], head[6], head[7]];
        self.big_endian = match magic {
            _ if magic == ng::BYTE_ORDER.to_le_bytes() => false,
            _ if magic == ng::BYTE_ORDER.to_be_bytes() => true,
            _ => {
                let what = format!("{magic:02x?} is not a pcapng byte-order magic");
                return Err(ReadError { offset: at, what });
            }
        };
        let len = self.u32(&head, 0);
        let body = self.block_body(at, len, 12)?;
        if body.len() < 12 {
            let what = "the section header block is too short".to_owned();
            return Err(ReadError { offset: at, what });
        }
        let major = self.u16(&body, 0);
        if major != 1 {
            return Err(ReadError {
                offset: at,
                what: format!("pcapng version {major} is not supported, only 1"),
            });
        }
        self.section = self.interfaces.len();
        Ok(())
    }

    /// The rest of a block of `len` bytes of which `read` are read, without its last length field.
    fn block_body(&mut self, at: u64, len: u32, read: u32) -> Result<Vec<u8>, ReadError> {
        if !len.is_multiple_of(4) || len < read + 4 || len > MAX_BLOCK {
            let what = format!("a block claims to have {len} bytes: the file is damaged");
            return Err(ReadError { offset: at, what });
        }
        let mut body = self.input.bytes(len - read, at, "a block")?;
        let end = body.len() - 4;
        let again = self.u32(&body, end);
        if again != len {
            let what = format!("a block begins with length {len} and ends with {again}");
            return Err(ReadError { offset: at, what });
        }
        body.truncate(end);
        Ok(body)
    }

    /// Reads blocks until one holds a packet.
    fn block_with_packet(&mut self) -> Result<Option<Record>, ReadError> {
        loop {
            let at = self.input.offset;
            let Some(kind) = self.input.array_or_end::<4>(at, "a block type")? else {
                return Ok(None);
            };
            // A new section may have another byte order; its type reads the same in both.
            let kind = self.u32(&kind, 0);
            if kind == ng::SECTION_HEADER {
                self.section_header(at)?;
                continue;
            }
            let len: [u8; 4] = self.input.array(at, "a block length")?;
            let len = self.u32(&len, 0);
            let body = self.block_body(at, len, 8)?;
            let record = match kind {
                ng::INTERFACE => self.interface_block(&body).map(|()| None),
                ng::ENHANCED_PACKET => self.packet_block(&body, false).map(Some),
                ng::OBSOLETE_PACKET => self.packet_block(&body, true).map(Some),
                ng::SIMPLE_PACKET => self.simple_block(&body).map(Some),
                _ => Ok(None),
            };
            match record {
                Ok(None) => {}
                Ok(record) => return Ok(record),
                Err(what) => return Err(ReadError { offset: at, what }),
            }
        }
    }

    fn interface_block(&mut self, body: &[u8]) -> Result<(), String> {
        if body.len() < 8 {
            return Err("the interface description block is too short".to_owned());
        }
        let mut interface = Interface {
            name: None,
            link_type: LinkType(self.u16(body, 0)),
            snap_len: self.u32(body, 4),
        };
        let mut clock = Clock { ticks_per_sec: 1_000_000, offset_secs: 0 };
        for (code, value) in self.options(&body[8..])? {
            match (code, value) {
                (ng::INTERFACE_NAME, name) => interface.name = Some(text(name)),
                (ng::INTERFACE_RESOLUTION, &[resolution]) => {
                    clock.ticks_per_sec = ticks_per_sec(resolution)?;
                }
                (ng::INTERFACE_OFFSET, value) if value.len() == 8 => {
                    let words = [self.u32(value, 0), self.u32(value, 4)];
                    let [high, low] = if self.big_endian { words } else { [words[1], words[0]] };
                    clock.offset_secs = (u64::from(high) << 32 | u64::from(low)) as i64;
                }
                _ => {}
            }
        }
        self.interfaces.push(interface);
        self.clocks.push(clock);
        Ok(())
    }

    /// An enhanced packet block, or the obsolete packet block, which has a drop counter in the
    /// upper half of its interface field.
    fn packet_block(&self, body: &[u8], obsolete: bool) -> Result<Record, String> {
        if body.len() < 20 {
            return Err("a packet block is too short".to_owned());
        }
        let number = if obsolete { u32::from(self.u16(body, 0)) } else { self.u32(body, 0) };
        let interface = self.interface(number)?;
        let [high, low, captured, original] = [4, 8, 12, 16].map(|field| self.u32(body, field));
        let data = &body[20..];
        let padded = (captured as usize).next_multiple_of(4);
        let (Some(bytes), Some(options)) = (data.get(..captured as usize), data.get(padded..))
        else {
            let room = data.len();
            return Err(format!("a packet of {captured} bytes in a block with room for {room}"));
        };
        let ticks = u64::from(high) << 32 | u64::from(low);
        let comments = self
            .options(options)?
            .into_iter()
            .filter(|(code, _)| *code == ng::OPTION_COMMENT)
            .map(|(_, value)| text(value))
            .collect();
        Ok(Record {
            interface,
            nanos: Some(self.clocks[interface].nanos(ticks)?),
            bytes: bytes.to_vec(),
            original_len: original.max(captured),
            comments,
        })
    }

    /// A simple packet block: interface 0, no time stamp, and as many bytes as the snap length
    /// leaves.
    fn simple_block(&self, body: &[u8]) -> Result<Record, String> {
        if body.len() < 4 {
            return Err("a simple packet block is too short".to_owned());
        }
        let interface = self.interface(0)?;
        let original_len = self.u32(body, 0);
        let limit = match self.interfaces[interface].snap_len {
            0 => u32::MAX,
            limit => limit,
        };
        let captured = original_len.min(limit) as usize;
        let Some(bytes) = body[4..].get(..captured) else {
            let room = body.len() - 4;
            return Err(format!("a packet of {captured} bytes in a block with room for {room}"));
        };
        Ok(Record { interface, nanos: None, bytes: bytes.to_vec(), original_len, comments: vec![] })
    }

    /// The index in all interfaces of number `number` in this section.
    fn interface(&self, number: u32) -> Result<usize, String> {
        let index = self.section + number as usize;
        if index < self.interfaces.len() {
            Ok(index)
        } else {
            Err(format!("a packet of interface {number}, which was not described before"))
        }
    }

    /// The options at the end of a block.
    fn options<'a>(&self, mut rest: &'a [u8]) -> Result<Vec<(u16, &'a [u8])>, String> {
        let mut options = Vec::new();
        while rest.len() >= 4 {
            let (code, len) = (self.u16(rest, 0), usize::from(self.u16(rest, 2)));
            if code == ng::OPTION_END {
                break;
            }
            let end = 4 + len;
            let Some(value) = rest.get(4..end) else {
                let left = rest.len() - 4;
                return Err(format!(
                    "option {code} claims {len} bytes of the {left} that are left"
                ));
            };
            options.push((code, value));
            rest = rest.get(end.next_multiple_of(4)..).unwrap_or_default();
        }
        Ok(options)
    }
}

impl<R: Read> Iterator for Reader<R> {
    type Item = Result<Record, ReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_record().transpose()
    }
}

impl Clock {
    /// Nanoseconds since 1970, rounded down.
    fn nanos(self, ticks: u64) -> Result<u64, String> {
        let since_offset = i128::try_from(u128::from(ticks) * NANOS_PER_SEC / self.ticks_per_sec);
        let offset = i128::from(self.offset_secs) * NANOS_PER_SEC as i128;
        since_offset
            .ok()
            .and_then(|nanos| u64::try_from(nanos + offset).ok())
            .ok_or_else(|| format!("timestamp {ticks} is not within 584 years after 1970"))
    }
}

/// `if_tsresol`: a negative power of ten, or of two if the upper bit is set.
fn ticks_per_sec(resolution: u8) -> Result<u128, String> {
    let exponent = u32::from(resolution & 0x7f);
    let base: u128 = if resolution & 0x80 == 0 { 10 } else { 2 };
    base.checked_pow(exponent)
        .ok_or_else(|| format!("a time resolution of {base}^-{exponent} seconds is not supported"))
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).trim_end_matches('\0').to_owned()
}

/// What a file seems to be that is no capture.
fn not_a_capture(magic: [u8; 4]) -> String {
    let guess = match magic {
        [0x1f, 0x8b, ..] => ": it is compressed with gzip",
        [0x28, 0xb5, 0x2f, 0xfd] => ": it is compressed with zstd",
        _ => "",
    };
    format!("the file begins with {magic:02x?} and is neither pcap nor pcapng{guess}")
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at byte {} of the capture: {}", self.offset, self.what)
    }
}

impl std::error::Error for ReadError {}

/// An input that knows how far it has been read.
#[derive(Debug)]
struct Counted<R> {
    input: R,
    offset: u64,
}

impl<R: Read> Counted<R> {
    /// The next `N` bytes of what begins at `at`.
    fn array<const N: usize>(&mut self, at: u64, what: &str) -> Result<[u8; N], ReadError> {
        self.array_or_end(at, what)?.ok_or_else(|| cut(at, what, N, 0))
    }

    /// The same, or `None` if the file ends just here.
    fn array_or_end<const N: usize>(
        &mut self,
        at: u64,
        what: &str,
    ) -> Result<Option<[u8; N]>, ReadError> {
        let mut bytes = [0; N];
        match self.fill(&mut bytes, at)? {
            0 => Ok(None),
            got if got == N => Ok(Some(bytes)),
            got => Err(cut(at, what, N, got)),
        }
    }

    fn bytes(&mut self, len: u32, at: u64, what: &str) -> Result<Vec<u8>, ReadError> {
        let mut bytes = vec![0; len as usize];
        match self.fill(&mut bytes, at)? {
            got if got == bytes.len() => Ok(bytes),
            got => Err(cut(at, what, bytes.len(), got)),
        }
    }

    /// Reads until `bytes` are full or the file ends.
    fn fill(&mut self, bytes: &mut [u8], at: u64) -> Result<usize, ReadError> {
        let mut got = 0;
        while got < bytes.len() {
            match self.input.read(&mut bytes[got..]) {
                Ok(0) => break,
                Ok(more) => got += more,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    return Err(ReadError { offset: at, what: format!("cannot read: {error}") });
                }
            }
        }
        self.offset += got as u64;
        Ok(got)
    }
}

fn cut(at: u64, what: &str, wanted: usize, got: usize) -> ReadError {
    let what = format!("the file ends within {what}: {got} of {wanted} bytes are there");
    ReadError { offset: at, what }
}
