//! A packet's fields, header by header.

use datapath::packet::options::{MAX_OPTION_SPACE, RawOptions, TcpOption};
use datapath::packet::{Ecn, Flaws, LinkHeader, Network, Packet, Tcp, TcpFlags, Transport};
use serde_json::{Value as Json, json};

use crate::capture::{Capture, Segment};
use crate::fault::Fault;

/// A header: its name and its fields.
struct Header {
    name: &'static str,
    fields: Vec<(&'static str, String)>,
}

/// Everything that a packet says.
///
/// # Errors
/// There is no such packet.
pub fn decoded(capture: &Capture, index: usize) -> Result<Json, Fault> {
    let known = capture.packets.get(index);
    let it = known.ok_or_else(|| Fault::Missing(format!("no packet {index}")))?;
    let packet = capture
        .packet(it)
        .ok_or_else(|| Fault::Broken(format!("packet {index} cannot be read again")))?;
    let connection = &capture.connections[it.connection as usize];
    let [one, other] = connection.ends;
    let (from, to) = if it.forth { (one, other) } else { (other, one) };
    let mut headers: Vec<Header> = link(&packet).into_iter().collect();
    headers.extend(network(&packet.network));
    if let Transport::Tcp(tcp) = &packet.transport {
        headers.push(transport(tcp, it));
        headers.extend(options(&packet, capture, it));
    }
    let (bytes, original_len) = capture.frame(it);
    let flaws = flaws(&packet);
    Ok(json!({
        "packet": index, "time": it.at_ns as f64 / 1e9, "place": capture.seen_at(it),
        "comment": capture.comment(it), "summary": summary(capture, it),
        "from": from.to_string(), "to": to.to_string(), "flaws": flaws,
        "length": original_len,
        "headers": headers.iter().map(|header| json!({
            "name": header.name,
            "fields": header.fields.iter().map(|(name, value)| json!([name, value])).collect::<Vec<_>>(),
        })).collect::<Vec<_>>(),
        "bytes": hex(bytes),
    }))
}

/// Two digits a byte.
pub fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// In one line, in tcpdump's words.
pub fn summary(capture: &Capture, it: &Segment) -> String {
    let mut words = vec![format!("Flags [{:?}]", it.flags)];
    if it.len > 0 {
        words.push(format!("seq {}:{}", it.seq, it.seq + i64::from(it.len)));
    }
    if let Some(ack) = it.ack {
        words.push(format!("ack {ack}"));
    }
    words.push(format!("win {}", it.window));
    let blocks: Vec<String> =
        capture.sacks(it).iter().map(|[from, to]| format!("{{{from}:{to}}}")).collect();
    if !blocks.is_empty() {
        words.push(format!("sack {}", blocks.concat()));
    }
    words.push(format!("length {}", it.len));
    if it.retransmitted {
        words.push("retransmitted".to_owned());
    }
    words.join(", ")
}

fn link(packet: &Packet) -> Option<Header> {
    let LinkHeader::Ethernet { src, dst, .. } = packet.link else { return None };
    let address =
        |mac: [u8; 6]| mac.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(":");
    Some(Header {
        name: "Ethernet",
        fields: vec![("source", address(src.0)), ("destination", address(dst.0))],
    })
}

fn network(network: &Network) -> Option<Header> {
    let of = |tos: u8| {
        let ecn = match network.ecn() {
            Ecn::NotEct => "not ECT",
            Ecn::Ect0 => "ECT(0)",
            Ecn::Ect1 => "ECT(1)",
            Ecn::Ce => "CE",
        };
        [("DSCP", format!("{}", tos >> 2)), ("ECN", ecn.to_owned())]
    };
    match network {
        Network::Ipv4(ip) => {
            let mut fields =
                vec![("source", ip.src.to_string()), ("destination", ip.dst.to_string())];
            fields.extend(of(ip.tos));
            fields.extend([
                ("TTL", ip.ttl.to_string()),
                ("identification", format!("0x{:04x}", ip.id)),
                ("don't fragment", ip.dont_fragment.to_string()),
            ]);
            if ip.more_fragments || ip.fragment_offset > 0 {
                fields.push(("fragment at", (u32::from(ip.fragment_offset) * 8).to_string()));
            }
            Some(Header { name: "IPv4", fields })
        }
        Network::Ipv6(ip) => {
            let mut fields =
                vec![("source", ip.src.to_string()), ("destination", ip.dst.to_string())];
            fields.extend(of(ip.traffic_class));
            fields.push(("hop limit", ip.hop_limit.to_string()));
            Some(Header { name: "IPv6", fields })
        }
        Network::Other(_) => None,
    }
}

/// Flags by their names.
const FLAGS: [(TcpFlags, &str); 9] = [
    (TcpFlags::SYN, "SYN"),
    (TcpFlags::FIN, "FIN"),
    (TcpFlags::RST, "RST"),
    (TcpFlags::PSH, "PSH"),
    (TcpFlags::ACK, "ACK"),
    (TcpFlags::URG, "URG"),
    (TcpFlags::ECE, "ECE"),
    (TcpFlags::CWR, "CWR"),
    (TcpFlags::AE, "AE"),
];

fn transport(tcp: &Tcp, it: &Segment) -> Header {
    let flags: Vec<&str> =
        FLAGS.iter().filter(|(flag, _)| tcp.flags.contains(*flag)).map(|(_, name)| *name).collect();
    let mut fields = vec![
        ("source port", tcp.src_port.to_string()),
        ("destination port", tcp.dst_port.to_string()),
        ("sequence", format!("{} ({})", it.seq, tcp.seq.0)),
    ];
    if let Some(ack) = it.ack {
        fields.push(("acknowledgment", format!("{ack} ({})", tcp.ack.0)));
    }
    fields.extend([
        ("flags", flags.join(" ")),
        ("window", format!("{} ({})", it.window, tcp.window)),
        ("payload", format!("{} bytes", it.len)),
    ]);
    if tcp.flags.contains(TcpFlags::URG) {
        fields.push(("urgent pointer", tcp.urgent.to_string()));
    }
    Header { name: "TCP", fields }
}

fn options(packet: &Packet, capture: &Capture, it: &Segment) -> Option<Header> {
    let mut scratch = [0; MAX_OPTION_SPACE];
    let mut options = RawOptions::new(packet.tcp_option_bytes(&mut scratch)?);
    let mut fields = Vec::new();
    for option in options.by_ref() {
        fields.push(match option.decode() {
            TcpOption::Mss(mss) => ("maximum segment size", mss.to_string()),
            TcpOption::WindowScale(shift) => ("window scale", shift.to_string()),
            TcpOption::SackPermitted => ("SACK permitted", String::new()),
            TcpOption::Sack(_) => {
                let blocks = capture.sacks(it).iter();
                let blocks: Vec<String> =
                    blocks.map(|[from, to]| format!("{from}..{to}")).collect();
                ("SACK", blocks.join(", "))
            }
            TcpOption::Timestamps(stamps) => {
                ("timestamps", format!("value {}, echo {}", stamps.value, stamps.echo))
            }
            TcpOption::FastOpen { cookie, .. } => {
                ("Fast Open", format!("cookie of {} bytes", cookie.len()))
            }
            TcpOption::Md5(_) => ("MD5 signature", String::new()),
            TcpOption::Ao { key_id, .. } => ("TCP-AO", format!("key {key_id}")),
            TcpOption::AccEcn(counters) => {
                let shown = |it: Option<u32>| it.map_or("-".into(), |it| it.to_string());
                let [e0, ce, e1] = [counters.ee0b, counters.eceb, counters.ee1b].map(shown);
                ("AccECN", format!("ECT(0) {e0}, CE {ce}, ECT(1) {e1} bytes"))
            }
            TcpOption::Mptcp(data) => ("MPTCP", format!("{} bytes", data.len())),
            TcpOption::Unknown(raw) => {
                ("unknown", format!("kind {}, {} bytes", raw.kind, raw.data.len()))
            }
        });
    }
    if options.is_broken() {
        fields.push(("broken", "an option is cut short or has no length".into()));
    }
    (!fields.is_empty()).then_some(Header { name: "TCP options", fields })
}

fn flaws(packet: &Packet) -> Vec<&'static str> {
    let known = [
        (Flaws::IP_HEADER, "the IP header is malformed"),
        (Flaws::IP_CHECKSUM, "the checksum of the IPv4 header is wrong"),
        (Flaws::TRANSPORT_CHECKSUM, "the TCP checksum is wrong"),
        (Flaws::LENGTH, "the IP header claims more bytes than there are"),
        (Flaws::TRANSPORT_HEADER, "the TCP header is inconsistent"),
    ];
    let found = known.into_iter().filter(|(flaw, _)| packet.flaws().contains(*flaw));
    found.map(|(_, text)| text).collect()
}
