//! Captures: what crossed the interface, as pcapng with nanoseconds.

use crate::run::RunReport;
use pcap::{Interface, LinkType, Snap, Writer};
use std::io::{self, Write};

/// Writes the packets of a run, and gives back what they were written to.
///
/// # Errors
/// If they cannot be written.
pub fn write<W: Write>(to: W, outcome: &RunReport) -> io::Result<W> {
    let mut writer = Writer::new(to)?;
    let interface =
        Interface { name: Some("tun0".to_owned()), link_type: LinkType::RAW, snap_len: 0 };
    let id = writer.add_interface(&interface)?;
    for (_, at, packet) in &outcome.packets {
        writer.write_packet(id, *at, packet, Snap::Headers, None)?;
    }
    writer.finish()
}
