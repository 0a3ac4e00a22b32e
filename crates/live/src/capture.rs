//! What was sent, as pcapng with our own time stamps: the beginning of each frame.

use crate::sys;
use datapath::packet::Packet;
use datapath::units::Instant;
use pcap::{Interface, InterfaceId, LinkType, Writer};
use std::fs::{self, File};
use std::io::{self, BufWriter};
use std::path::Path;

/// Bytes kept of each frame.
const SNAP: usize = 128;

/// The file, with an interface for each port.
#[derive(Debug)]
pub struct Capture {
    writer: Writer<BufWriter<File>>,
    interfaces: [InterfaceId; 2],
    /// Time since 1970 when the clock was at zero.
    epoch_nanos: u64,
    bytes: Vec<u8>,
}

impl Capture {
    /// Begins a file; folders that are missing are made.
    pub fn create(file: &Path, names: [&str; 2], ethernet: bool) -> io::Result<Self> {
        if let Some(folder) = file.parent() {
            fs::create_dir_all(folder)?;
        }
        let mut writer = Writer::new(BufWriter::new(File::create(file)?))?;
        let link_type = if ethernet { LinkType::ETHERNET } else { LinkType::RAW };
        let mut add = |name: &str| {
            let name = Some(name.to_owned());
            writer.add_interface(&Interface { name, link_type, snap_len: SNAP as u32 })
        };
        let interfaces = [add(names[0])?, add(names[1])?];
        let epoch_nanos = sys::wall_nanos().saturating_sub(sys::now().as_nanos());
        Ok(Self { writer, interfaces, epoch_nanos, bytes: Vec::new() })
    }

    /// A packet goes to the device of `port` at `now`.
    pub fn sent(&mut self, port: usize, packet: &Packet, now: Instant) -> io::Result<()> {
        self.bytes.clear();
        packet.emit_whole(&mut self.bytes);
        let len = self.bytes.len();
        let nanos = self.epoch_nanos + now.as_nanos();
        let captured = &self.bytes[..len.min(SNAP)];
        self.writer.write_frame(self.interfaces[port], nanos, captured, len as u32, None)
    }

    /// Writes what is still in memory.
    pub fn finish(self) -> io::Result<()> {
        self.writer.finish().map(drop)
    }
}
