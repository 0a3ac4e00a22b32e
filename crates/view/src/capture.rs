//! The TCP connections of a capture: what each end sent, with sequence numbers that count from the
//! connection's first byte.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::Path;

use datapath::packet::seq::Seq;
use datapath::packet::{Ecn, Packet, Tcp, TcpFlags};
use pcap::{Interface, Reader, Record};
use serde_json::{Value as Json, json};

use crate::fault::Fault;

/// A capture that has been read.
#[derive(Debug, Default)]
pub struct Capture {
    /// Where packets passed.
    pub interfaces: Vec<Interface>,
    /// All TCP packets, in the order of the file.
    pub packets: Vec<Segment>,
    /// Between whom.
    pub connections: Vec<Connection>,
    /// Records in the file, others than TCP too.
    pub records: u64,
    /// Records that no packet could be made of, and those without a time.
    pub unreadable: u64,
    /// The file has more packets than are read, or ends within one: how, if so.
    pub cut_short: Option<String>,
    /// SACK blocks of all packets.
    sacks: Vec<[i64; 2]>,
    /// The captured bytes of all packets.
    frames: Vec<u8>,
    comments: Vec<String>,
}

/// A TCP packet.
#[derive(Clone, Copy, Debug)]
pub struct Segment {
    /// When: ns of virtual time; of a capture from elsewhere, ns since its first packet.
    pub at_ns: i64,
    /// Of which connection.
    pub connection: u32,
    /// From its first end to its second.
    pub forth: bool,
    /// Some or all of it was sent before.
    pub retransmitted: bool,
    /// Its first byte, and its acknowledgment, counted from the first of their directions.
    pub seq: i64,
    /// What it acknowledges.
    pub ack: Option<i64>,
    /// Bytes of payload.
    pub len: u32,
    /// The window that it offers, in bytes.
    pub window: u32,
    /// Its flags.
    pub flags: TcpFlags,
    /// Its ECN field.
    pub ecn: Ecn,
    interface: u16,
    sacks: (u32, u8),
    frame: (u64, u32),
    original_len: u32,
    comment: u32,
}

/// Who talks.
#[derive(Clone, Debug)]
pub struct Connection {
    /// The end that was first seen to send, and the other one.
    pub ends: [SocketAddr; 2],
    /// Of both directions.
    pub directions: [FlowDirection; 2],
    /// When it was first and last seen.
    pub span_ns: [i64; 2],
    /// Its packets.
    pub packets: u64,
}

/// One direction.
#[derive(Clone, Copy, Debug, Default)]
pub struct FlowDirection {
    /// The number of the first byte, and where the last one was: numbers wrap.
    first: Option<Seq>,
    last: Option<(Seq, i64)>,
    /// How the window is meant: the shift, and whether one was said at all.
    scale: Option<u8>,
    /// Behind the last byte that was ever sent.
    pub end: i64,
    /// Packets with payload.
    pub segments: u64,
    /// Of these, retransmissions.
    pub retransmitted: u64,
    /// Bytes of payload, retransmitted ones included.
    pub bytes: u64,
}

/// So many packets are read and no more: they take some 200 bytes each.
const PACKETS_MAX: usize = 8_000_000;
/// Bytes kept of each: all headers that there are.
const KEPT: usize = 192;
/// Who counts from 1970 has been captured elsewhere: no run is eleven days long by default.
const CLOCK_TIME_NS: u64 = 1_000_000_000_000_000;

impl FlowDirection {
    /// The number of this byte, from the connection's first on. What is seen out of order lies within 2³¹ of
    /// what was seen before.
    fn number(&mut self, seq: Seq) -> i64 {
        let first = *self.first.get_or_insert(seq);
        let (last, at) = self.last.unwrap_or((first, 0));
        let number = at + i64::from(seq - last);
        if number >= at {
            self.last = Some((seq, number));
        }
        number
    }
}

impl Connection {
    /// The direction in which more was sent: true from the first end to the second.
    pub fn main_direction(&self) -> bool {
        self.directions[0].bytes >= self.directions[1].bytes
    }

    /// In a few words.
    pub fn to_json(&self, id: usize) -> Json {
        let way = |way: &FlowDirection| json!({"segments": way.segments, "retransmitted": way.retransmitted, "bytes": way.bytes});
        json!({
            "id": id,
            "from": self.ends[0].to_string(), "to": self.ends[1].to_string(),
            "ports": [self.ends[0].port(), self.ends[1].port()],
            "packets": self.packets,
            "begin": self.span_ns[0] as f64 / 1e9, "end": self.span_ns[1] as f64 / 1e9,
            "forth": way(&self.directions[0]), "back": way(&self.directions[1]),
            "main": if self.main_direction() { "forth" } else { "back" },
        })
    }
}

impl Capture {
    /// Reads a file, gzip or not.
    ///
    /// # Errors
    /// It is not there, or no capture.
    pub fn read(path: &Path) -> Result<Self, Fault> {
        let failed = |what: &str| Fault::Broken(format!("{}: {what}", path.display()));
        let input = lab::input::open_unpacked(path)
            .map_err(|error| Fault::Missing(format!("{}: {error}", path.display())))?;
        let mut reader = Reader::new(input)
            .map_err(|error| failed(&format!("{} (byte {})", error.what, error.offset)))?;
        let mut capture = Self::default();
        let mut known = HashMap::new();
        let mut zero = None;
        loop {
            match reader.next_record() {
                Ok(Some(_)) if capture.packets.len() >= PACKETS_MAX => {
                    capture.cut_short =
                        Some(format!("only the first {PACKETS_MAX} packets are shown"));
                    break;
                }
                Ok(Some(record)) => {
                    let interface = &reader.interfaces()[record.interface];
                    capture.add(&record, interface, &mut known, &mut zero);
                }
                Ok(None) => break,
                Err(error) => {
                    let why =
                        format!("the file ends early: {} (byte {})", error.what, error.offset);
                    capture.cut_short = Some(why);
                    break;
                }
            }
        }
        capture.interfaces = reader.interfaces().to_vec();
        Ok(capture)
    }

    fn add(
        &mut self,
        record: &Record,
        interface: &Interface,
        known: &mut HashMap<[SocketAddr; 2], u32>,
        zero: &mut Option<i64>,
    ) {
        self.records += 1;
        let (Some(nanos), Some(Ok(packet))) = (record.nanos, record.packet(interface)) else {
            self.unreadable += 1;
            return;
        };
        let zero = *zero.get_or_insert(if nanos >= CLOCK_TIME_NS { nanos as i64 } else { 0 });
        let (Some(tcp), Some(src), Some(dst)) =
            (packet.tcp(), packet.network.src(), packet.network.dst())
        else {
            return;
        };
        let ends = [SocketAddr::new(src, tcp.src_port), SocketAddr::new(dst, tcp.dst_port)];
        let at_ns = nanos as i64 - zero;
        let (connection, forth) = self.connection(ends, tcp, at_ns, known);
        let comment = record.comments.first().map_or(0, |text| self.number_of(text));
        let mut segment = Segment {
            at_ns,
            connection,
            forth,
            retransmitted: false,
            seq: 0,
            ack: None,
            len: packet.body.len,
            window: 0,
            flags: tcp.flags,
            ecn: packet.network.ecn(),
            interface: record.interface as u16,
            sacks: (self.sacks.len() as u32, 0),
            frame: (self.frames.len() as u64, record.bytes.len().min(KEPT) as u32),
            original_len: record.original_len,
            comment,
        };
        self.frames.extend_from_slice(&record.bytes[..record.bytes.len().min(KEPT)]);
        self.count(&mut segment, tcp);
        self.packets.push(segment);
    }

    /// The number of a comment, from 1 on.
    fn number_of(&mut self, comment: &str) -> u32 {
        let known = self.comments.iter().position(|known| known == comment);
        let place = known.unwrap_or_else(|| {
            self.comments.push(comment.to_owned());
            self.comments.len() - 1
        });
        place as u32 + 1
    }

    /// The connection of a packet, and whether its first end has sent it.
    fn connection(
        &mut self,
        ends: [SocketAddr; 2],
        tcp: &Tcp,
        at_ns: i64,
        known: &mut HashMap<[SocketAddr; 2], u32>,
    ) -> (u32, bool) {
        let back = [ends[1], ends[0]];
        let opens = tcp.flags.contains(TcpFlags::SYN) && !tcp.flags.contains(TcpFlags::ACK);
        let found = known.get(&ends).map(|it| (*it, true));
        let found = found.or_else(|| known.get(&back).map(|it| (*it, false)));
        let found = found.filter(|(index, forth)| {
            // A SYN with another number begins another connection.
            let way = &self.connections[*index as usize].directions[usize::from(!forth)];
            !opens || way.first.is_none_or(|first| first == tcp.seq + 1)
        });
        let (index, forth) = found.unwrap_or_else(|| {
            let index = self.connections.len() as u32;
            known.remove(&back);
            known.insert(ends, index);
            let directions = [FlowDirection::default(); 2];
            self.connections.push(Connection { ends, directions, span_ns: [at_ns; 2], packets: 0 });
            (index, true)
        });
        let connection = &mut self.connections[index as usize];
        connection.span_ns[1] = connection.span_ns[1].max(at_ns);
        connection.packets += 1;
        (index, forth)
    }

    /// Numbers of a packet, and the sums of its direction.
    fn count(&mut self, segment: &mut Segment, tcp: &Tcp) {
        let [one, other] = &mut self.connections[segment.connection as usize].directions;
        let (way, peer) = if segment.forth { (one, other) } else { (other, one) };
        let opens = tcp.flags.contains(TcpFlags::SYN);
        let first = if opens { tcp.seq + 1 } else { tcp.seq };
        segment.seq = way.number(first);
        if opens {
            way.scale = tcp.options.window_scale();
        }
        // Both must have said a shift (RFC 7323 section 2.2); of an unknown beginning none is known.
        let shift = if opens || peer.scale.is_none() { 0 } else { way.scale.unwrap_or(0) };
        segment.window = u32::from(tcp.window) << shift.min(14);
        if tcp.flags.contains(TcpFlags::ACK) {
            segment.ack = Some(peer.number(tcp.ack));
            for block in tcp.options.sack.as_slice() {
                let numbers = [peer.number(block.start), peer.number(block.end)];
                self.sacks.push(numbers);
                segment.sacks.1 += 1;
            }
        }
        if segment.len > 0 {
            segment.retransmitted = segment.seq < way.end;
            way.segments += 1;
            way.retransmitted += u64::from(segment.retransmitted);
            way.bytes += u64::from(segment.len);
            way.end = way.end.max(segment.seq + i64::from(segment.len));
        }
    }

    /// The SACK blocks of a packet.
    pub fn sacks(&self, segment: &Segment) -> &[[i64; 2]] {
        let (begin, count) = (segment.sacks.0 as usize, usize::from(segment.sacks.1));
        &self.sacks[begin..begin + count]
    }

    /// Where it was seen.
    pub fn seen_at(&self, segment: &Segment) -> &str {
        let known = self.interfaces.get(usize::from(segment.interface));
        known.and_then(|it| it.name.as_deref()).unwrap_or("")
    }

    /// What the capture says of it: why it was dropped.
    pub fn comment(&self, segment: &Segment) -> Option<&str> {
        self.comments.get(segment.comment.checked_sub(1)? as usize).map(String::as_str)
    }

    /// It was dropped where it was captured.
    pub fn is_dropped(&self, segment: &Segment) -> bool {
        self.comment(segment).is_some_and(|text| text.starts_with("dropped"))
    }

    /// Its bytes, as far as they were captured, and how many there were.
    pub fn frame(&self, segment: &Segment) -> (&[u8], u32) {
        let begin = segment.frame.0 as usize;
        (&self.frames[begin..begin + segment.frame.1 as usize], segment.original_len)
    }

    /// The packet itself.
    pub fn packet(&self, segment: &Segment) -> Option<Packet> {
        let (bytes, original_len) = self.frame(segment);
        let interface = self.interfaces.get(usize::from(segment.interface))?;
        let record = Record {
            interface: 0,
            nanos: None,
            bytes: bytes.to_vec(),
            original_len,
            comments: Vec::new(),
        };
        record.packet(interface)?.ok()
    }

    /// Bytes of memory that it takes.
    pub fn bytes(&self) -> usize {
        let packets = self.packets.len() * size_of::<Segment>();
        packets + self.frames.len() + self.sacks.len() * size_of::<[i64; 2]>()
    }

    /// All connections.
    pub fn to_json(&self) -> Json {
        let all = self.connections.iter().enumerate();
        json!({
            "records": self.records, "tcp": self.packets.len(), "unreadable": self.unreadable,
            "cut_short": self.cut_short,
            "connections": all.map(|(id, one)| one.to_json(id)).collect::<Vec<_>>(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_go_on_where_sequence_numbers_wrap() {
        let mut way = FlowDirection::default();
        assert_eq!(way.number(Seq(u32::MAX - 9)), 0);
        assert_eq!(way.number(Seq(5)), 15);
        // What comes late lies before.
        assert_eq!(way.number(Seq(u32::MAX)), 9);
        for step in 1..=8u32 {
            let number = way.number(Seq(5u32.wrapping_add(step.wrapping_mul(1 << 30))));
            assert_eq!(number, 15 + i64::from(step) * (1 << 30));
        }
    }
}
