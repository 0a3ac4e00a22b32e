//! A capture file as arrivals in the order of time.

use std::io::BufReader;
use std::net::IpAddr;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use datapath::fib::Prefix;
use datapath::packet::Packet;
use pcap::{Interface, ReadError, Reader};
use serde_json::{Value, json};

use super::input::Input;
use super::line::Frame;
use super::{Error, Options};
use crate::run::Progress;

/// Which packets of a capture are taken.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PacketSelection {
    /// Those of a source address in this prefix.
    pub from: Option<Prefix>,
    /// Those of a destination address in this prefix.
    pub to: Option<Prefix>,
    /// Those of the interfaces of this name.
    pub interface: Option<String>,
}

/// No frame was longer on any wire: twice what Linux makes of super-packets (`GSO_MAX_SIZE`).
const LONGEST: u32 = 1 << 20;

/// No capture goes on for longer: 100 years, in ns.
const MOST_NANOS: u64 = 100 * 365 * 24 * 3_600 * 1_000_000_000;

/// A packet that comes.
pub struct Arrival {
    /// Since the first one, in ns. Time never goes back.
    pub since_start_ns: u64,
    /// The packet.
    pub packet: Packet,
    /// Its frame.
    pub frame: Frame,
}

/// What was read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Records in the capture.
    pub records: u64,
    /// Packets taken.
    pub taken: u64,
    /// Records of other packets than those asked for.
    pub others: u64,
    /// Frames that are too short to be any, or longer than a frame can be, or no IP where nothing but
    /// IP may come.
    pub unreadable: u64,
    /// Packets with an earlier time stamp than the one before; they come at that one's time.
    pub out_of_order: u64,
    /// Frames of which the capture kept only a part.
    pub cut: u64,
    /// The capture breaks off within a record.
    pub broken_off: bool,
}

/// A capture being read.
pub struct Source<'a> {
    name: String,
    reader: Reader<BufReader<Input<'a>>>,
    select: PacketSelection,
    partial: bool,
    progress: &'a dyn Progress,
    stop: &'a AtomicBool,
    size: u64,
    reported: u64,
    /// The time stamp of the first packet.
    epoch_ns: Option<u64>,
    /// The latest time stamp so far.
    latest_ns: u64,
    counts: Counts,
}

impl<'a> Source<'a> {
    /// Opens a capture.
    ///
    /// # Errors
    /// When it cannot be read or is no capture.
    pub fn open(
        path: &Path,
        options: &Options,
        progress: &'a dyn Progress,
        stop: &'a AtomicBool,
    ) -> Result<Self, Error> {
        let name = path.display().to_string();
        let unreadable = |problem| Error::Capture(format!("{name}: {problem}"));
        let (input, metadata) = Input::open(path, stop).map_err(unreadable)?;
        if metadata.is_dir() {
            return Err(Error::Capture(format!("{name} is a directory, not a capture file")));
        }
        let reader = Reader::new(BufReader::with_capacity(1 << 16, input)).map_err(|error| {
            if stop.load(Ordering::Relaxed) { Error::Stopped } else { wrong(&name, &error) }
        })?;
        Ok(Self {
            name,
            reader,
            select: options.select.clone(),
            partial: options.partial,
            progress,
            stop,
            size: metadata.len(),
            reported: 0,
            epoch_ns: None,
            latest_ns: 0,
            counts: Counts::default(),
        })
    }

    /// The next packet that was asked for; `None` at the end.
    ///
    /// # Errors
    /// When the capture is damaged, has packets without time stamps or of an unknown link type.
    pub fn next_arrival(&mut self) -> Result<Option<Arrival>, Error> {
        loop {
            let record = match self.reader.next_record() {
                Ok(Some(record)) => record,
                Ok(None) => return Ok(self.end()),
                Err(_) if self.stop.load(Ordering::Relaxed) => return Err(Error::Stopped),
                Err(_) if self.partial => {
                    self.counts.broken_off = true;
                    return Ok(self.end());
                }
                Err(error) => return Err(wrong(&self.name, &error)),
            };
            self.counts.records += 1;
            self.report_progress()?;
            let number = self.counts.records;
            let interface = &self.reader.interfaces()[record.interface];
            if self.select.interface.is_some() && self.select.interface != interface.name {
                self.counts.others += 1;
                continue;
            }
            let Some(parsed) = record.packet(interface) else {
                return Err(Error::Capture(format!(
                    "{}: packet {number} has link type {}, which is not supported; supported \
                     are Ethernet (1), raw IP (101, 228, 229) and Linux cooked captures (113, 276)",
                    self.name, interface.link_type.0
                )));
            };
            let (Ok(packet), ..=LONGEST) = (parsed, record.original_len) else {
                self.counts.unreadable += 1;
                continue;
            };
            if !self.select.matches(&packet) {
                self.counts.others += 1;
                continue;
            }
            let Some(nanos) = record.nanos else {
                return Err(Error::Capture(format!(
                    "{}: packet {number} has no timestamp (a simple packet block); capture with \
                     timestamps",
                    self.name
                )));
            };
            self.counts.taken += 1;
            self.counts.cut += u64::from((record.bytes.len() as u32) < record.original_len);
            let epoch = *self.epoch_ns.get_or_insert(nanos);
            if nanos.saturating_sub(epoch) > MOST_NANOS {
                return Err(Error::Capture(format!(
                    "{}: packet {number} arrives more than 100 years after the first one",
                    self.name
                )));
            }
            self.counts.out_of_order += u64::from(nanos < self.latest_ns);
            self.latest_ns = self.latest_ns.max(nanos);
            return Ok(Some(Arrival {
                since_start_ns: self.latest_ns - epoch,
                packet,
                frame: Frame {
                    bytes: record.bytes,
                    original_len: record.original_len,
                    interface: record.interface,
                    number,
                },
            }));
        }
    }

    /// The interfaces seen so far.
    pub fn interfaces(&self) -> &[Interface] {
        self.reader.interfaces()
    }

    /// The time stamp of the first packet, in ns since 1970.
    pub fn epoch_ns(&self) -> u64 {
        self.epoch_ns.unwrap_or(0)
    }

    /// What was read.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    fn end(&mut self) -> Option<Arrival> {
        let rest = self.size.saturating_sub(self.reported);
        self.progress.advanced(0, share(rest, self.size));
        self.reported = self.size;
        None
    }

    /// Says how far it is, now and then, and listens whether to stop.
    fn report_progress(&mut self) -> Result<(), Error> {
        if !self.counts.records.is_multiple_of(1024) {
            return Ok(());
        }
        if self.stop.load(Ordering::Relaxed) {
            return Err(Error::Stopped);
        }
        let at = self.reader.offset();
        self.progress.advanced(0, share(at.saturating_sub(self.reported), self.size));
        self.reported = at;
        Ok(())
    }
}

fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

fn wrong(name: &str, error: &ReadError) -> Error {
    let help = if error.what.contains("the file ends") {
        "; --partial replays everything before"
    } else {
        ""
    };
    Error::Capture(format!("{name}: {error}{help}"))
}

impl PacketSelection {
    fn matches(&self, packet: &Packet) -> bool {
        let within = |prefix: &Option<Prefix>, address: Option<IpAddr>| match prefix {
            Some(prefix) => address.is_some_and(|address| prefix.contains(address)),
            None => true,
        };
        within(&self.from, packet.network.src()) && within(&self.to, packet.network.dst())
    }
}

impl Counts {
    /// As JSON.
    pub fn to_json(self) -> Value {
        let Self { records, taken, others, unreadable, out_of_order, cut, broken_off } = self;
        json!({
            "records": records, "taken": taken, "others": others, "unreadable": unreadable,
            "out_of_order": out_of_order, "cut": cut, "broken_off": broken_off,
        })
    }

    /// What a person should know beyond the numbers.
    pub fn remarks(self) -> Vec<String> {
        let counted = [
            (self.unreadable, "frames are too short, too long or not IP, and were left out"),
            (
                self.out_of_order,
                "packets have an earlier timestamp than their predecessor, and arrive at its \
                 time instead",
            ),
            (self.others, "packets were not selected"),
        ];
        let mut remarks: Vec<String> = counted
            .iter()
            .filter(|(count, _)| *count > 0)
            .map(|(count, what)| format!("{count} {what}"))
            .collect();
        if self.broken_off {
            remarks.push(format!(
                "the capture is truncated after {} records; everything before was replayed",
                self.records
            ));
        }
        remarks
    }
}
