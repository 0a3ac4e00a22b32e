//! A direction of a connection as tcptrace's time/sequence graph: the data that was sent, the line
//! of acknowledgments, the line of the window above it, and what was reported by SACK.
//!
//! Where more packets lie than a screen can show, those of one pixel become one mark; retransmissions,
//! drops and SACK blocks stay on their own as long as there are not too many of them either.

use datapath::packet::{Ecn, TcpFlags};
use serde_json::{Value as Json, json};

use crate::capture::{Capture, Segment};
use crate::fault::Fault;
use crate::series::PIXELS_MAX;

/// What is asked for.
#[derive(Clone, Copy, Debug)]
pub struct GraphQuery {
    /// Which connection.
    pub connection: u32,
    /// From its first end to its second, or back.
    pub forth: bool,
    /// The span of time.
    pub from_ns: i64,
    /// Its end.
    pub to_ns: i64,
    /// Columns of the picture.
    pub pixels: usize,
}

/// Marks of one kind, each with its packet.
#[derive(Debug, Default)]
struct Marks {
    time: Vec<f64>,
    from: Vec<i64>,
    to: Vec<i64>,
    kind: Vec<u8>,
    packet: Vec<usize>,
    /// How many packets it stands for.
    count: Vec<u32>,
}

/// Kinds of data.
const NEW: u8 = 0;
const RETRANSMITTED: u8 = 1;
const DROPPED: u8 = 2;
/// Marks that are kept on their own.
const SINGLE_MAX: usize = 30_000;

impl Marks {
    fn push(&mut self, at_ns: i64, [from, to]: [i64; 2], kind: u8, packet: usize) {
        self.time.push(at_ns as f64 / 1e9);
        self.from.push(from);
        self.to.push(to);
        self.kind.push(kind);
        self.packet.push(packet);
        self.count.push(1);
    }

    /// Puts a mark to the last one.
    fn join(&mut self, [from, to]: [i64; 2]) {
        let last = self.time.len() - 1;
        self.from[last] = self.from[last].min(from);
        self.to[last] = self.to[last].max(to);
        self.count[last] += 1;
    }

    fn to_json(&self) -> Json {
        json!({
            "time": self.time, "from": self.from, "to": self.to, "kind": self.kind,
            "packet": self.packet, "count": self.count,
        })
    }
}

/// The graph of a part of a connection.
///
/// # Errors
/// There is no such connection.
pub fn graph(capture: &Capture, part: &GraphQuery) -> Result<Json, Fault> {
    let known = capture.connections.get(part.connection as usize);
    let connection =
        known.ok_or_else(|| Fault::Missing(format!("no connection {}", part.connection)))?;
    let from_ns = part.from_ns.max(connection.span_ns[0]);
    let to_ns = part.to_ns.min(connection.span_ns[1]).max(from_ns);
    let pixels = part.pixels.clamp(100, PIXELS_MAX);
    let inside: Vec<(usize, &Segment)> = capture
        .packets
        .iter()
        .enumerate()
        .filter(|(_, it)| it.connection == part.connection)
        .filter(|(_, it)| it.at_ns >= from_ns && it.at_ns <= to_ns)
        .collect();
    let joins = inside.len() > 4 * pixels;
    let width = ((to_ns - from_ns) / pixels as i64).max(1);
    let column = |at_ns: i64| (at_ns - from_ns) / width;
    let (mut data, mut acks, mut sacks, mut flags) =
        (Marks::default(), Marks::default(), Marks::default(), Marks::default());
    let (mut data_column, mut ack_column, mut sack_column) = (-1, -1, -1);
    for (index, it) in inside {
        let place = column(it.at_ns);
        if it.forth == part.forth {
            let span = [it.seq, it.seq + i64::from(it.len)];
            if it.len > 0 {
                let kind = match () {
                    () if capture.is_dropped(it) => DROPPED,
                    () if it.retransmitted => RETRANSMITTED,
                    () => NEW,
                };
                let single = kind != NEW && data.time.len() < SINGLE_MAX;
                let same = joins && place == data_column && data.kind.last() == Some(&kind);
                if same && !single {
                    data.join(span);
                } else {
                    data.push(it.at_ns, span, kind, index);
                    data_column = place;
                }
            }
            flag(&mut flags, it, index);
        } else if let Some(ack) = it.ack {
            let span = [ack, ack + i64::from(it.window)];
            if joins && place == ack_column {
                // The last one of a pixel is where the line goes on.
                let last = acks.time.len() - 1;
                (acks.from[last], acks.to[last]) = (span[0], span[1]);
                (acks.packet[last], acks.count[last]) = (index, acks.count[last] + 1);
                acks.time[last] = it.at_ns as f64 / 1e9;
            } else {
                acks.push(it.at_ns, span, 0, index);
                ack_column = place;
            }
            for block in capture.sacks(it) {
                // DSACK: what was there already (RFC 2883 section 4).
                let kind = u8::from(block[1] <= ack);
                let same = joins && place == sack_column && sacks.kind.last() == Some(&kind);
                if same && sacks.time.len() >= SINGLE_MAX / 2 {
                    sacks.join(*block);
                } else {
                    sacks.push(it.at_ns, *block, kind, index);
                    sack_column = place;
                }
            }
            if it.flags.contains(TcpFlags::ECE) && !it.flags.contains(TcpFlags::SYN) {
                flags.push(it.at_ns, [ack, ack], ECE, index);
            }
        }
    }
    Ok(json!({
        "connection": connection.to_json(part.connection as usize),
        "forth": part.forth,
        "begin": connection.span_ns[0] as f64 / 1e9, "end": connection.span_ns[1] as f64 / 1e9,
        "from": from_ns as f64 / 1e9, "to": to_ns as f64 / 1e9,
        "top": connection.directions[usize::from(!part.forth)].end,
        "joined": joins,
        "data": data.to_json(), "acks": acks.to_json(), "sacks": sacks.to_json(),
        "flags": flags.to_json(),
    }))
}

/// Marks of flags.
const SYN: u8 = 0;
const FIN: u8 = 1;
const RST: u8 = 2;
const CE: u8 = 3;
const ECE: u8 = 4;

fn flag(flags: &mut Marks, it: &Segment, index: usize) {
    let at = [it.seq, it.seq];
    let of_header = [(TcpFlags::SYN, SYN), (TcpFlags::FIN, FIN), (TcpFlags::RST, RST)];
    for (_, kind) in of_header.into_iter().filter(|(flag, _)| it.flags.contains(*flag)) {
        flags.push(it.at_ns, at, kind, index);
    }
    if it.ecn == Ecn::Ce && flags.time.len() < SINGLE_MAX {
        flags.push(it.at_ns, at, CE, index);
    }
}
