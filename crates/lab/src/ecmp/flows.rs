//! Flows from captures (pcap, pcapng) and from CSV.

use super::FlowLoad;
use crate::input;
use datapath::fib::dissect::packet_flow;
use datapath::fib::{HashInput, RouteKey, Scope};
use pcap::Reader;
use std::collections::HashMap;
use std::fmt;
use std::io::{self, Read};
use std::net::IpAddr;
use std::path::Path;

/// Flows, and what of the input was none.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Input {
    /// The flows in order of their first packet or line.
    pub flows: Vec<FlowLoad>,
    /// Packets that are not IP, or broken.
    pub skipped: u64,
}

/// What is wrong with a file, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InputError {
    /// Line from 1; 0 if lines mean nothing.
    pub line: usize,
    /// Column from 1; 0 likewise.
    pub column: usize,
    /// What is wrong, and what would be right.
    pub message: String,
}

/// Columns of a CSV and the names that they may have.
const COLUMNS: [(&str, &[&str]); 6] = [
    ("src", &["src", "source", "src_ip", "saddr", "srcip"]),
    ("dst", &["dst", "destination", "dst_ip", "daddr", "dstip"]),
    ("protocol", &["protocol", "proto", "ipproto"]),
    ("sport", &["sport", "src_port", "srcport"]),
    ("dport", &["dport", "dst_port", "dstport"]),
    ("bytes", &["bytes", "octets", "size"]),
];

const PROTOCOLS: [(&str, u8); 5] =
    [("tcp", 6), ("udp", 17), ("icmp", 1), ("sctp", 132), ("ipv6-icmp", 58)];

/// The interface that flows of others come in by, which no route leads to.
const ELSEWHERE: u16 = u16::MAX - 1;

/// What captures begin with: pcap of microseconds and nanoseconds in both byte orders, pcapng.
const CAPTURES: [[u8; 4]; 5] = [
    [0xa1, 0xb2, 0xc3, 0xd4],
    [0xd4, 0xc3, 0xb2, 0xa1],
    [0xa1, 0xb2, 0x3c, 0x4d],
    [0x4d, 0x3c, 0xb2, 0xa1],
    [0x0a, 0x0d, 0x0d, 0x0a],
];

/// Bytes of a CSV, which is read whole.
const CSV_MAX: u64 = 2 << 30;

/// Reads a capture or a CSV, by what the file begins with; either may be compressed with gzip.
///
/// # Errors
/// The file cannot be read, or the first place where it is wrong.
pub fn read(path: &Path) -> Result<Input, InputError> {
    let failed = |error: io::Error| {
        let message = match error.kind() {
            io::ErrorKind::InvalidData => {
                format!("neither a capture (pcap, pcapng) nor text with one flow a line: {error}")
            }
            _ => error.to_string(),
        };
        InputError { line: 0, column: 0, message }
    };
    let (magic, rest) =
        input::open_unpacked(path).and_then(|file| input::split_head(file, 4)).map_err(failed)?;
    let is_capture = CAPTURES.iter().any(|known| magic == *known);
    let whole = io::Cursor::new(magic).chain(rest);
    if is_capture {
        return flows_from_capture(whole);
    }
    let text = input::text(whole, CSV_MAX).map_err(failed)?;
    Ok(Input { flows: flows_from_csv(&text)?, skipped: 0 })
}

/// The flows of a capture: packets with the same fields are one flow.
///
/// # Errors
/// The capture is damaged; the place is said in bytes.
pub fn flows_from_capture(capture: impl Read) -> Result<Input, InputError> {
    let wrong = |error: pcap::ReadError| InputError {
        line: 0,
        column: 0,
        message: format!("at byte {}: {}", error.offset, error.what),
    };
    let mut reader = Reader::new(capture).map_err(wrong)?;
    let mut input = Input::default();
    let mut known: HashMap<(RouteKey, HashInput), usize> = HashMap::new();
    while let Some(record) = reader.next_record().map_err(wrong)? {
        let interface = &reader.interfaces()[record.interface];
        let Some(Ok(packet)) = record.packet(interface) else {
            input.skipped += 1;
            continue;
        };
        let Some(flow) = packet_flow(&packet) else {
            input.skipped += 1;
            continue;
        };
        let key = RouteKey {
            src: flow.outer.src,
            dst: flow.outer.dst,
            iif: Some(ELSEWHERE),
            oif: None,
            scope: Scope::UNIVERSE,
            tos: packet.network.tos(),
            mark: 0,
            protocol: flow.outer.protocol,
            src_port: flow.outer.src_port,
            dst_port: flow.outer.dst_port,
            flow_label: flow.outer.flow_label,
        };
        let bytes = u64::from(record.original_len);
        let index = *known.entry((key, flow)).or_insert_with(|| {
            input.flows.push(FlowLoad { key, flow: Some(flow), bytes: 0 });
            input.flows.len() - 1
        });
        input.flows[index].bytes += bytes;
    }
    Ok(input)
}

/// Reads one flow a line: `src,dst,protocol,sport,dport,bytes`, or in the order and with the
/// further columns that a first line of names gives. Lines that begin with `#` are passed over.
///
/// # Errors
/// The first line that is no flow, and what is wrong with it.
pub fn flows_from_csv(text: &str) -> Result<Vec<FlowLoad>, InputError> {
    let mut flows = Vec::new();
    let mut total = 0_u64;
    let mut order = [0, 1, 2, 3, 4, 5];
    let mut named = false;
    for (index, line) in text.lines().enumerate() {
        if line.trim().is_empty() || line.trim_start().starts_with('#') {
            continue;
        }
        if !std::mem::replace(&mut named, true) && is_head(line) {
            order = columns(line).map_err(|message| at(index, 1, message))?;
            continue;
        }
        let flow = flow_from_line(line, &order).map_err(|(column, why)| at(index, column, why))?;
        total = total.checked_add(flow.bytes).ok_or_else(|| {
            let why =
                "the total of bytes overflows 64 bits at this flow; use a larger unit".to_owned();
            at(index, 1, why)
        })?;
        flows.push(flow);
    }
    Ok(flows)
}

fn at(index: usize, column: usize, message: String) -> InputError {
    InputError { line: index + 1, column, message }
}

/// A line of names has no address in it.
fn is_head(line: &str) -> bool {
    line.split(',').all(|field| field.trim().parse::<IpAddr>().is_err())
        && line.split(',').any(|field| COLUMNS[0].1.contains(&name(field).as_str()))
}

fn name(field: &str) -> String {
    field.trim().trim_matches('"').to_ascii_lowercase()
}

fn columns(line: &str) -> Result<[usize; 6], String> {
    let names: Vec<String> = line.split(',').map(name).collect();
    let mut order = [0; 6];
    for (place, (column, aliases)) in order.iter_mut().zip(COLUMNS) {
        let found = names.iter().position(|name| aliases.contains(&name.as_str()));
        *place = found.ok_or_else(|| {
            format!("no column is called \"{column}\" (needed: src,dst,protocol,sport,dport,bytes)")
        })?;
    }
    Ok(order)
}

/// A field and the column where it begins.
type Field<'a> = (&'a str, usize);

fn flow_from_line(line: &str, order: &[usize; 6]) -> Result<FlowLoad, (usize, String)> {
    let mut fields: Vec<Field<'_>> = Vec::new();
    let mut start = 0;
    for field in line.split(',') {
        let blank = field.len() - field.trim_start().len();
        fields.push((field.trim().trim_matches('"'), start + blank + 1));
        start += field.len() + 1;
    }
    let field = |which: usize| -> Result<Field<'_>, (usize, String)> {
        fields.get(order[which]).copied().ok_or_else(|| {
            let message =
                format!("{} fields: src,dst,protocol,sport,dport,bytes are needed", fields.len());
            (line.len() + 1, message)
        })
    };
    if order[5] == 5 && fields.len() > 6 && order.is_sorted() {
        let message =
            format!("{} fields instead of src,dst,protocol,sport,dport,bytes", fields.len());
        return Err((fields[6].1, message));
    }
    let (src, dst) = (address(field(0)?)?, address(field(1)?)?);
    if src.is_ipv4() != dst.is_ipv4() {
        return Err((
            field(1)?.1,
            "source and destination are of different address families".to_owned(),
        ));
    }
    let key = RouteKey {
        src,
        dst,
        iif: Some(ELSEWHERE),
        oif: None,
        scope: Scope::UNIVERSE,
        tos: 0,
        mark: 0,
        protocol: protocol(field(2)?)?,
        src_port: number(field(3)?, "port (0 to 65535)")?,
        dst_port: number(field(4)?, "port (0 to 65535)")?,
        flow_label: 0,
    };
    Ok(FlowLoad { key, flow: None, bytes: number(field(5)?, "number of bytes")? })
}

fn address((text, column): Field<'_>) -> Result<IpAddr, (usize, String)> {
    text.parse().map_err(|_| (column, format!("\"{text}\" is not an address")))
}

fn number<T: std::str::FromStr>(
    (text, column): Field<'_>,
    what: &str,
) -> Result<T, (usize, String)> {
    text.parse().map_err(|_| (column, format!("\"{text}\" is not a {what}")))
}

fn protocol((text, column): Field<'_>) -> Result<u8, (usize, String)> {
    let lower = text.to_ascii_lowercase();
    if let Some((_, number)) = PROTOCOLS.iter().find(|(name, _)| *name == lower) {
        return Ok(*number);
    }
    text.parse().map_err(|_| {
        (column, format!("\"{text}\" is not a protocol: use tcp, udp, icmp, sctp or a number"))
    })
}

impl fmt::Display for InputError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}", self.message),
            line => write!(f, "{line}:{}: {}", self.column, self.message),
        }
    }
}

impl std::error::Error for InputError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_may_be_named_in_any_order() {
        let plain = flows_from_csv("10.0.0.1,10.0.0.2,udp,1,2,900").unwrap();
        let named =
            "# by hand\nbytes,proto,dst,src,packets,dport,sport\n900,17,10.0.0.2,10.0.0.1,9,2,1\n";
        assert_eq!(flows_from_csv(named).unwrap(), plain);
        let quoted = "\"src\",\"dst\",\"protocol\",\"sport\",\"dport\",\"bytes\"\n\"10.0.0.1\", 10.0.0.2 ,UDP,1,2,900";
        assert_eq!(flows_from_csv(quoted).unwrap(), plain);
    }

    #[test]
    fn bad_lines_are_named_with_their_column() {
        for (bad, line, column) in [
            ("10.0.0.1,10.0.0.2,udp,1,2", 1, 26),
            ("10.0.0.1,10.0.0.2,udp,1,2,3,4", 1, 29),
            ("\n10.0.0.1,fd00::1,udp,1,2,3", 2, 10),
            ("10.0.0.1,10.0.0.2,foo,1,2,3", 1, 19),
            ("10.0.0.1,10.0.0.2,udp,1,99999,3", 1, 25),
            ("10.0.0.1,10.0.0.2,udp,1,2,-3", 1, 27),
            ("src,dst,sport,dport,bytes\n", 1, 1),
            ("10.0.0.1,10.0.0.2,udp,1,2,18446744073709551615\n10.0.0.1,10.0.0.2,udp,1,3,1", 2, 1),
        ] {
            let error = flows_from_csv(bad).unwrap_err();
            assert_eq!((error.line, error.column), (line, column), "{bad}: {error}");
        }
    }

    #[test]
    fn damaged_captures_are_errors() {
        let error = flows_from_capture(&[0xd4, 0xc3, 0xb2, 0xa1, 2, 0][..]).unwrap_err();
        assert!(error.to_string().contains("at byte"), "{error}");
    }
}
