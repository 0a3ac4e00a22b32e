//! Capture files as a device: the frames of one come at the distances of their time stamps, and what
//! is sent is written to another.

use super::outbox::Outbox;
use super::vnet::VNET_LEN;
use super::{FlushResult, Pools, RejectedFrames};
use crate::sys;
use datapath::packet::{Frame, Packet};
use datapath::units::{Duration, Instant};
use pcap::{Interface, InterfaceId, LinkType, Reader, Record, Writer};
use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, BufReader, BufWriter};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// Two files: one to read, one to write.
#[derive(Debug)]
pub struct CaptureFile {
    name: String,
    reader: Reader<BufReader<File>>,
    writer: Writer<BufWriter<File>>,
    interface: InterfaceId,
    /// The next frame, and when it comes.
    next: Option<(Instant, Record)>,
    /// The time stamp of the first frame, and when that came.
    origin: Option<(u64, Instant)>,
    outbox: Outbox,
    lost: RejectedFrames,
    files: [FileId; 2],
}

/// By which two files are known to be the same, whatever they are called: file system and number.
type FileId = (u64, u64);

fn id(file: &Metadata) -> FileId {
    (file.dev(), file.ino())
}

/// What is written to a file that is there stands in place of what was in it, unless that is `input`.
fn output_replacing(input: FileId, path: &Path) -> io::Result<File> {
    let output = OpenOptions::new().write(true).create(true).truncate(false).open(path)?;
    let metadata = output.metadata()?;
    if id(&metadata) == input {
        let why = "this is the file that is read; what is sent needs another one";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
    }
    if metadata.is_file() {
        output.set_len(0)?;
    }
    Ok(output)
}

impl CaptureFile {
    /// Reads Ethernet frames from `input`, the first of which comes at `now`, and writes to `output`.
    ///
    /// # Errors
    /// A file cannot be opened, both are the same, or the first is no capture; then nothing is written.
    pub fn open(input: &Path, output: &Path, now: Instant) -> io::Result<Self> {
        let file = File::open(input)?;
        let input_id = id(&file.metadata()?);
        let mut reader = Reader::new(BufReader::new(file)).map_err(broken)?;
        let first = reader.next_record().map_err(broken)?;
        let file = output_replacing(input_id, output)?;
        let files = [input_id, id(&file.metadata()?)];
        let mut writer = Writer::new(BufWriter::new(file))?;
        let name = input.display().to_string();
        let interface =
            Interface { name: Some(name.clone()), link_type: LinkType::ETHERNET, snap_len: 0 };
        let interface = writer.add_interface(&interface)?;
        let mut device = Self {
            files,
            name,
            reader,
            writer,
            interface,
            next: None,
            origin: None,
            outbox: Outbox::complete(),
            lost: RejectedFrames::default(),
        };
        device.load_next(first, now);
        Ok(device)
    }

    /// Whether this is one of the two files.
    pub(super) fn is_one_of(&self, file: &Metadata) -> bool {
        self.files.contains(&id(file))
    }

    fn read_next(&mut self, now: Instant) -> io::Result<()> {
        let record = self.reader.next_record().map_err(broken)?;
        self.load_next(record, now);
        Ok(())
    }

    fn load_next(&mut self, record: Option<Record>, now: Instant) {
        self.next = record.map(|record| {
            let (_, last) = self.origin.unwrap_or((0, now));
            let at = match record.nanos {
                None => last,
                Some(nanos) => {
                    let (first, began) = *self.origin.get_or_insert((nanos, now));
                    began + Duration::from_nanos(nanos.saturating_sub(first))
                }
            };
            (at, record)
        });
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    #[expect(clippy::unused_self, reason = "each device has one")]
    pub(super) fn mtu(&self) -> u32 {
        1_500
    }

    #[expect(clippy::unused_self, reason = "each device says")]
    pub(super) fn is_ethernet(&self) -> bool {
        true
    }

    pub(super) fn next_arrival(&self) -> Option<Instant> {
        self.next.as_ref().map(|(at, _)| *at)
    }

    pub(super) fn push(&mut self, packet: &Packet) {
        self.outbox.push(packet);
    }

    pub(super) fn ring_len(&self) -> usize {
        self.outbox.len()
    }

    pub(super) fn discard(&mut self) {
        self.outbox.clear();
    }

    pub(super) fn rejected(&mut self) -> RejectedFrames {
        self.lost
    }

    pub(super) fn receive(
        &mut self,
        now: Instant,
        pools: &mut Pools,
        packets: &mut Vec<Packet>,
    ) -> io::Result<()> {
        while let Some((_, record)) = self.next.take_if(|(at, _)| *at <= now) {
            self.receive_frame(&record, pools, packets);
            self.read_next(now)?;
        }
        Ok(())
    }

    fn receive_frame(&mut self, record: &Record, pools: &mut Pools, packets: &mut Vec<Packet>) {
        let ethernet = self.reader.interfaces()[record.interface].link_type == LinkType::ETHERNET;
        let whole = record.bytes.len() as u64 == u64::from(record.original_len);
        if !ethernet || !whole {
            self.lost.unreadable += 1;
            return;
        }
        let small = pools.small.copy(&record.bytes);
        let Some(frame) = small.or_else(|| pools.large.copy(&record.bytes)) else {
            self.lost.no_buffer += 1;
            return;
        };
        match Packet::parse_ethernet(Frame::from(&frame)) {
            Ok(packet) => packets.push(packet),
            Err(_) => self.lost.unreadable += 1,
        }
    }

    pub(super) fn flush(&mut self) -> io::Result<FlushResult> {
        let mut flushed = FlushResult::default();
        self.outbox.prepare();
        for [frame, _] in self.outbox.frames() {
            let frame = &frame[VNET_LEN..];
            let len = frame.len() as u32;
            self.writer.write_frame(self.interface, sys::wall_nanos(), frame, len, None)?;
            flushed.sent += 1;
        }
        self.outbox.clear();
        Ok(flushed)
    }
}

fn broken(error: impl std::fmt::Display) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error.to_string())
}
