//! Packets in the script's own words, for messages.

use crate::actual::{ActualPacket, ActualTransport};
use crate::ast::{
    Direction, MplsLabel, OptionSpec, Outer, PacketSpec, Quoted, TcpSpec, TosSpec, TransportSpec,
};
use crate::icmp_names;
use crate::parse::Family;
use datapath::packet::Network;
use std::fmt::Write as _;

/// A time in µs as seconds.
pub fn seconds(micros: i64) -> String {
    let sign = if micros < 0 { "-" } else { "" };
    let micros = micros.unsigned_abs();
    format!("{sign}{}.{:06}", micros / 1_000_000, micros % 1_000_000)
}

fn layers(list: &[Outer], out: &mut String) {
    for outer in list {
        match outer {
            Outer::Ipv4(_, src, dst) => write!(out, " ipv4 {src} > {dst}:"),
            Outer::Ipv6(_, src, dst) => write!(out, " ipv6 {src} > {dst}:"),
            Outer::Gre(_) => write!(out, " gre:"),
            Outer::Mpls(labels) => write!(out, " mpls {}:", mpls(labels)),
        }
        .expect("a string takes anything");
    }
}

/// A stack of MPLS labels.
pub fn mpls(labels: &[MplsLabel]) -> String {
    let label = |it: &MplsLabel| {
        let bottom = if it.bottom { " [S]," } else { "" };
        format!("(label {}, tc {},{bottom} ttl {})", it.label, it.class, it.ttl)
    };
    labels.iter().map(label).collect::<Vec<_>>().join(" ")
}

/// A packet of the script.
pub fn spec(packet: &PacketSpec, family: Family) -> String {
    let mut out = packet.direction.sign().to_string();
    layers(&packet.outer, &mut out);
    match packet.ip.tos {
        TosSpec::Any => {}
        TosSpec::Ecn(bits) => {
            let _ = write!(out, " [{}]", ecn_name(bits));
        }
        TosSpec::Ect01 => out.push_str(" [ect01]"),
        TosSpec::Tos(byte) => {
            let _ = write!(out, " [tos {byte:#x}]");
        }
    }
    match &packet.transport {
        TransportSpec::Tcp(tcp) => out.push_str(&tcp_spec(tcp)),
        TransportSpec::Udp(_, len) => {
            let _ = write!(out, " udp ({len})");
        }
        TransportSpec::Icmp(icmp) => {
            let kind = icmp_names::kind_name(family, icmp.kind);
            let code = icmp_names::code_name(family, icmp.kind, icmp.code);
            let _ = write!(out, " icmp {kind} {code}");
            if let Some(mtu) = icmp.mtu {
                let _ = write!(out, " mtu {mtu}");
            }
            match icmp.quoted {
                Quoted::Tcp { seq, len } => {
                    let _ = write!(out, " [{}]", range(seq, len));
                }
                Quoted::Udp(len) => {
                    let _ = write!(out, " [udp ({len})]");
                }
                Quoted::Raw(len) => {
                    let _ = write!(out, " [raw ({len})]");
                }
            }
        }
    }
    out
}

fn tcp_spec(tcp: &TcpSpec) -> String {
    let mut out = format!(" {} {}", flags(tcp.flags, tcp.ace), range(tcp.seq, tcp.len));
    if tcp.flags & ACK != 0 {
        let _ = write!(out, " ack {}", tcp.ack);
    }
    if let Some(window) = tcp.window {
        let _ = write!(out, " win {window}");
    }
    if tcp.urgent != 0 {
        let _ = write!(out, " urg {}", tcp.urgent);
    }
    match &tcp.options {
        None => out.push_str(" <...>"),
        Some(list) if list.is_empty() => {}
        Some(list) => {
            let _ = write!(out, " <{}>", options(list));
        }
    }
    out
}

/// A packet that the host sent.
pub fn actual(packet: &ActualPacket, direction: Direction) -> String {
    let mut out = direction.sign().to_string();
    layers(&packet.outer, &mut out);
    let tos = packet.network.tos();
    if tos >> 2 != 0 {
        let _ = write!(out, " [tos {tos:#x}]");
    } else if tos != 0 {
        let _ = write!(out, " [{}]", ecn_name(tos));
    }
    match &packet.transport {
        ActualTransport::Tcp(tcp) => {
            let _ = write!(out, " {} {}", flags(tcp.flags, false), range(tcp.seq, packet.len));
            if tcp.flags & ACK != 0 {
                let _ = write!(out, " ack {}", tcp.ack);
            }
            let _ = write!(out, " win {}", tcp.window);
            if tcp.urgent != 0 {
                let _ = write!(out, " urg {}", tcp.urgent);
            }
            if !tcp.options.is_empty() {
                let _ = write!(out, " <{}>", options(&tcp.options));
            }
        }
        ActualTransport::Udp => {
            let _ = write!(out, " udp ({})", packet.len);
        }
        ActualTransport::Icmp { kind, code } => {
            let family = family_of(&packet.network);
            let name = icmp_names::kind_name(family, *kind);
            let code = icmp_names::code_name(family, *kind, *code);
            let _ = write!(out, " icmp {name} {code}");
        }
        ActualTransport::Other(protocol) => {
            let _ = write!(out, " protocol {protocol} ({})", packet.len);
        }
    }
    out
}

const fn family_of(network: &Network) -> Family {
    match network {
        Network::Ipv6(_) => Family::V6,
        Network::Ipv4(_) | Network::Other(_) => Family::V4,
    }
}

const ACK: u16 = 0x010;

/// Flags as scripts write them; `ace`: AE, CWR and ECE as one digit.
pub fn flags(bits: u16, ace: bool) -> String {
    let mut out = String::new();
    for (bit, letter) in [(0x001, 'F'), (0x002, 'S'), (0x004, 'R'), (0x008, 'P'), (0x020, 'U')] {
        if bits & bit != 0 {
            out.push(letter);
        }
    }
    if !ace {
        for (bit, letter) in [(0x040, 'E'), (0x080, 'W'), (0x100, 'A')] {
            if bits & bit != 0 {
                out.push(letter);
            }
        }
    }
    if bits & ACK != 0 {
        out.push('.');
    }
    if ace {
        out.push_str(&ace_of(bits).to_string());
    }
    if out.is_empty() {
        out.push('-');
    }
    out
}

/// The ACE counter in AE, CWR and ECE (RFC 9768).
pub const fn ace_of(bits: u16) -> u16 {
    bits >> 6 & 7
}

/// `1:1001(1000)`.
pub fn range(seq: u32, len: u32) -> String {
    format!("{seq}:{}({len})", seq.wrapping_add(len))
}

/// The word for two ECN bits.
pub const fn ecn_name(bits: u8) -> &'static str {
    match bits & 3 {
        0 => "noecn",
        1 => "ect1",
        2 => "ect0",
        _ => "ce",
    }
}

/// Options as scripts write them.
pub fn options(list: &[OptionSpec]) -> String {
    list.iter().map(option).collect::<Vec<_>>().join(",")
}

/// One option.
pub fn option(option: &OptionSpec) -> String {
    match option {
        OptionSpec::Nop => "nop".to_owned(),
        OptionSpec::Eol => "eol".to_owned(),
        OptionSpec::Mss(mss) => format!("mss {mss}"),
        OptionSpec::WindowScale(shift) => format!("wscale {shift}"),
        OptionSpec::SackOk => "sackOK".to_owned(),
        OptionSpec::Sack(blocks) => {
            let blocks: Vec<String> =
                blocks.iter().map(|(left, right)| format!("{left}:{right}")).collect();
            format!("sack {}", blocks.join(" "))
        }
        OptionSpec::Md5(digest) => format!("md5 {}", hex(digest)),
        OptionSpec::Timestamps(value, echo) => format!("TS val {value} ecr {echo}"),
        OptionSpec::FastOpen { cookie, experimental } => {
            let name = if *experimental { "FOEXP" } else { "FO" };
            if cookie.is_empty() { name.to_owned() } else { format!("{name} {}", hex(cookie)) }
        }
        OptionSpec::AccEcn { e0_first, counters } => {
            let names = if *e0_first { ["e0b", "ceb", "e1b"] } else { ["e1b", "ceb", "e0b"] };
            let parts: Vec<String> =
                names.iter().zip(counters).map(|(name, it)| format!("{name} {it}")).collect();
            format!("ECN {}", parts.join(" "))
        }
        OptionSpec::Other(kind, data) => format!("kind {kind} {}", hex(data)),
    }
}

fn hex(bytes: &[u8]) -> String {
    let mut out = String::new();
    for byte in bytes {
        let _ = write!(out, "{byte:02x}");
    }
    out
}
