//! Packets at the sender's interface: recorded ones read from a capture, simulated ones tapped.

use super::super::lines::Error;
use datapath::packet::{Packet, SackBlock, TcpFlags};
use datapath::units::Instant;
use pcap::Reader;
use sim::link::LinkId;
use sim::record::{Interest, Observer};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::File;
use std::io::BufReader;
use std::path::Path;

/// The server's port.
pub const SERVER_PORT: u16 = 5_001;

/// One packet at the sender's interface, normalised as in the recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SentPacket {
    /// When, ns.
    pub time_ns: u64,
    /// Sent by the client.
    pub outgoing: bool,
    /// The client's port: which flow.
    pub port: u16,
    /// TCP flags.
    pub flags: u16,
    /// Sequence number, relative to the SYN.
    pub seq: u32,
    /// Acknowledgment, relative to the peer's SYN.
    pub ack: u32,
    /// Payload bytes.
    pub len: u32,
    /// ECN field of the IP header.
    pub ecn: u8,
    /// SACK blocks, relative.
    pub sack: Vec<(u32, u32)>,
}

/// The packets of a recorded capture, in order.
pub fn read_capture(path: &Path) -> Result<Vec<SentPacket>, Error> {
    let unreadable = |problem: String| Error::Format {
        line: 1,
        problem: format!("{}: {problem}", path.display()),
    };
    let file = BufReader::new(File::open(path).map_err(|error| unreadable(error.to_string()))?);
    let unzipped = flate2::bufread::MultiGzDecoder::new(file);
    let mut reader = Reader::new(unzipped).map_err(|error| unreadable(error.to_string()))?;
    let mut seen = Vec::new();
    while let Some(record) = reader.next_record().map_err(|error| unreadable(error.to_string()))? {
        let interface = &reader.interfaces()[record.interface];
        let packet = record
            .packet(interface)
            .and_then(Result::ok)
            .ok_or_else(|| unreadable(format!("packet {} is not TCP", seen.len())))?;
        let time = record.nanos.unwrap_or_default();
        seen.push(SentPacket::of(time, &packet).ok_or_else(|| unreadable("not TCP".to_owned()))?);
    }
    Ok(seen)
}

impl SentPacket {
    fn of(time_ns: u64, packet: &Packet) -> Option<Self> {
        let tcp = packet.tcp()?;
        let outgoing = tcp.dst_port == SERVER_PORT;
        let sack = tcp.options.sack.as_slice();
        Some(Self {
            time_ns,
            outgoing,
            port: if outgoing { tcp.src_port } else { tcp.dst_port },
            flags: tcp.flags.0,
            seq: tcp.seq.0,
            ack: tcp.ack.0,
            len: packet.body.len,
            ecn: packet.network.tos() & 3,
            sack: sack.iter().map(|SackBlock { start, end }| (start.0, end.0)).collect(),
        })
    }
}

/// Makes sequence numbers relative to the SYN of their direction.
#[derive(Default)]
struct Relative {
    initial: BTreeMap<(u16, bool), u32>,
}

impl Relative {
    fn normalise(&mut self, mut seen: SentPacket) -> SentPacket {
        let syn = seen.flags & 2 != 0;
        if syn {
            self.initial.insert((seen.port, seen.outgoing), seen.seq);
        }
        let own = self.initial.get(&(seen.port, seen.outgoing)).copied().unwrap_or_default();
        let other = self.initial.get(&(seen.port, !seen.outgoing)).copied().unwrap_or_default();
        seen.seq = seen.seq.wrapping_sub(own);
        if seen.flags & 0x10 != 0 {
            seen.ack = seen.ack.wrapping_sub(other);
        }
        for block in &mut seen.sack {
            *block = (block.0.wrapping_sub(other), block.1.wrapping_sub(other));
        }
        seen
    }
}

/// Watches the sender's interface.
pub struct SenderTap {
    out: LinkId,
    back: LinkId,
    relative: Relative,
    seen: Vec<SentPacket>,
}

impl Observer for SenderTap {
    fn interest(&self) -> Interest {
        Interest { sent: true, delivered: true, ..Interest::NOTHING }
    }

    fn wants_link(&self, link: LinkId) -> bool {
        link == self.out || link == self.back
    }

    fn sent(&mut self, now: Instant, link: LinkId, packet: &Packet) {
        if link == self.out {
            self.take(now, packet);
        }
    }

    fn delivered(&mut self, now: Instant, link: LinkId, packet: &Packet) {
        if link == self.back {
            self.take(now, packet);
        }
    }
}

impl SenderTap {
    /// Watches packets that leave on `out` and arrive on `back`.
    pub fn new(out: LinkId, back: LinkId) -> Self {
        Self { out, back, relative: Relative::default(), seen: Vec::new() }
    }

    /// What was seen, in order.
    pub fn into_packets(self) -> Vec<SentPacket> {
        self.seen
    }

    fn take(&mut self, now: Instant, packet: &Packet) {
        if let Some(seen) = SentPacket::of(now.as_nanos(), packet) {
            let seen = self.relative.normalise(seen);
            self.seen.push(seen);
        }
    }
}

impl std::fmt::Display for SentPacket {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let direction = if self.outgoing { '>' } else { '<' };
        let flags = TcpFlags(self.flags);
        let mut sack = String::new();
        for (start, end) in &self.sack {
            write!(sack, " {start}:{end}")?;
        }
        write!(
            f,
            "{} {direction} {} {flags:?} {}:{}({}) ack {}{}{sack}{}",
            self.time_ns,
            self.port,
            self.seq,
            self.seq.wrapping_add(self.len),
            self.len,
            self.ack,
            if self.sack.is_empty() { "" } else { " sack" },
            if self.ecn == 0 { String::new() } else { format!(" ecn {}", self.ecn) },
        )
    }
}
