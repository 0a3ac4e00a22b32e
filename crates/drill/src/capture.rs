//! Captures: what crossed the interface, as pcapng with nanoseconds.

use crate::run::Outcome;
use crate::settings::IpVersion;
use sim::pcap::{Interface, LinkType, Snap, Writer};
use std::fs::File;
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};

/// Writes the packets of a run into `folder`: one file for each script and variant. Gives its path.
///
/// # Errors
/// If the file cannot be written.
pub fn write(
    folder: &Path,
    name: &str,
    version: IpVersion,
    outcome: &Outcome,
) -> io::Result<PathBuf> {
    let stem = name.strip_suffix(".pkt").unwrap_or(name);
    let plain: String = stem
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.') { c } else { '_' })
        .collect();
    let path = folder.join(format!("{}_{}.pcapng", plain.trim_matches(['_', '.']), version.name()));
    let mut writer = Writer::new(BufWriter::new(File::create(&path)?))?;
    let interface =
        Interface { name: Some("tun0".to_owned()), link_type: LinkType::RAW, snap_len: 0 };
    let id = writer.add_interface(&interface)?;
    for (_, at, packet) in &outcome.packets {
        writer.write_packet(id, *at, packet, Snap::Headers, None)?;
    }
    writer.finish()?;
    Ok(path)
}
