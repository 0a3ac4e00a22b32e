//! Capture files as a device: the frames of one come at the distances of their time stamps, and what
//! is sent is written to another.

use super::outbox::Outbox;
use super::vnet::VNET_LEN;
use super::{Flushed, Lost, Pools};
use crate::sys;
use datapath::packet::{Frame, Packet};
use datapath::units::{Duration, Instant};
use pcap::{Interface, InterfaceId, LinkType, Reader, Record, Writer};
use std::fs::File;
use std::io::{self, BufReader, BufWriter};
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
    lost: Lost,
}

impl CaptureFile {
    /// Reads Ethernet frames from `input`, the first of which comes at `now`, and writes to `output`.
    ///
    /// # Errors
    /// A file cannot be opened, or is no capture.
    pub fn open(input: &Path, output: &Path, now: Instant) -> io::Result<Self> {
        let reader = Reader::new(BufReader::new(File::open(input)?)).map_err(broken)?;
        let mut writer = Writer::new(BufWriter::new(File::create(output)?))?;
        let name = input.display().to_string();
        let interface =
            Interface { name: Some(name.clone()), link_type: LinkType::ETHERNET, snap_len: 0 };
        let interface = writer.add_interface(&interface)?;
        let mut device = Self {
            name,
            reader,
            writer,
            interface,
            next: None,
            origin: None,
            outbox: Outbox::complete(),
            lost: Lost::default(),
        };
        device.read_next(now)?;
        Ok(device)
    }

    fn read_next(&mut self, now: Instant) -> io::Result<()> {
        let record = self.reader.next_record().map_err(broken)?;
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
        Ok(())
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

    pub(super) fn comes_at(&self) -> Option<Instant> {
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

    pub(super) fn lost(&mut self) -> Lost {
        self.lost
    }

    pub(super) fn receive(
        &mut self,
        now: Instant,
        pools: &mut Pools,
        packets: &mut Vec<Packet>,
    ) -> io::Result<()> {
        while let Some((_, record)) = self.next.take_if(|(at, _)| *at <= now) {
            self.take_in(&record, pools, packets);
            self.read_next(now)?;
        }
        Ok(())
    }

    fn take_in(&mut self, record: &Record, pools: &mut Pools, packets: &mut Vec<Packet>) {
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

    pub(super) fn flush(&mut self) -> io::Result<Flushed> {
        let mut flushed = Flushed::default();
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
