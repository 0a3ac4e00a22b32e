//! An expected packet beside what came: which fields differ.
//!
//! What a line of the script does not say is not compared: `win` if it is not there, options if
//! they are `<...>`, the IP header but for what stands in brackets.

use crate::actual::{ActualPacket, ActualTcp, ActualTransport};
use crate::ast::{OptionSpec, PacketSpec, TcpSpec, TosSpec, TransportSpec};
use crate::encap;
use crate::icmp_names;
use crate::parse::Family;
use crate::show;
use datapath::packet::Network;

/// A field that differs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// Its name: `win`, `option mss`, `time`, …
    pub field: String,
    /// What the script says.
    pub expected: String,
    /// What came.
    pub actual: String,
}

impl Difference {
    /// A field that differs.
    pub fn new(
        field: impl Into<String>,
        expected: impl Into<String>,
        actual: impl Into<String>,
    ) -> Self {
        Self { field: field.into(), expected: expected.into(), actual: actual.into() }
    }
}

/// How far TCP timestamp values may be off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct TimestampRule {
    /// µs that a tick of the script stands for; 0 = values are not compared.
    pub tick_usecs: i64,
    /// By how many µs a value may be off.
    pub tolerance_usecs: i64,
}

/// Every field in which `actual` is not what `spec` says, in the order of the headers. TS values
/// of `actual` have been mapped to the script's clock.
pub fn differences(
    spec: &PacketSpec,
    actual: &ActualPacket,
    family: Family,
    rule: TimestampRule,
) -> Vec<Difference> {
    let mut out = Vec::new();
    out.extend(encap::differences(&spec.outer, &actual.outer));
    compare_ip(spec, &actual.network, &mut out);
    match (&spec.transport, &actual.transport) {
        (TransportSpec::Tcp(spec), ActualTransport::Tcp(tcp)) => {
            compare_tcp(spec, tcp, actual.len, rule, &mut out);
        }
        (TransportSpec::Udp(_, len), ActualTransport::Udp) => {
            if *len != actual.len {
                out.push(Difference::new("payload", len.to_string(), actual.len.to_string()));
            }
        }
        (TransportSpec::Icmp(spec), ActualTransport::Icmp { kind, code }) => {
            let name = |number| icmp_names::kind_name(family, number);
            if spec.kind != *kind {
                out.push(Difference::new("icmp type", name(spec.kind), name(*kind)));
            } else if spec.code != *code {
                let name = |code| icmp_names::code_name(family, *kind, code);
                out.push(Difference::new("icmp code", name(spec.code), name(*code)));
            }
        }
        (spec, transport) => {
            out.push(Difference::new("protocol", spec_protocol(spec), protocol(transport)));
        }
    }
    out
}

const fn spec_protocol(spec: &TransportSpec) -> &'static str {
    match spec {
        TransportSpec::Tcp(_) => "tcp",
        TransportSpec::Udp(..) => "udp",
        TransportSpec::Icmp(_) => "icmp",
    }
}

fn protocol(transport: &ActualTransport) -> String {
    match transport {
        ActualTransport::Tcp(_) => "tcp".to_owned(),
        ActualTransport::Udp => "udp".to_owned(),
        ActualTransport::Icmp { .. } => "icmp".to_owned(),
        ActualTransport::Other(number) => format!("protocol {number}"),
    }
}

fn compare_ip(spec: &PacketSpec, network: &Network, out: &mut Vec<Difference>) {
    let tos = network.tos();
    match spec.ip.tos {
        TosSpec::Ecn(bits) if bits != tos & 3 => {
            out.push(Difference::new("ecn", show::ecn_name(bits), show::ecn_name(tos)));
        }
        TosSpec::Ect01 if !matches!(tos & 3, 1 | 2) => {
            out.push(Difference::new("ecn", "ect0 or ect1", show::ecn_name(tos)));
        }
        TosSpec::Tos(byte) if byte != tos => {
            out.push(Difference::new("tos", format!("{byte:#04x}"), format!("{tos:#04x}")));
        }
        _ => {}
    }
    let ttl = match network {
        Network::Ipv4(ip) => ip.ttl,
        Network::Ipv6(ip) => ip.hop_limit,
        Network::Other(_) => 0,
    };
    if spec.ip.ttl != 0 && spec.ip.ttl != ttl {
        out.push(Difference::new("ttl", spec.ip.ttl.to_string(), ttl.to_string()));
    }
}

fn compare_tcp(
    spec: &TcpSpec,
    tcp: &ActualTcp,
    len: u32,
    rule: TimestampRule,
    out: &mut Vec<Difference>,
) {
    if spec.ace && show::ace_of(spec.flags) != show::ace_of(tcp.flags) {
        let ace = |bits| show::ace_of(bits).to_string();
        out.push(Difference::new("ace", ace(spec.flags), ace(tcp.flags)));
    }
    let mask = if spec.ace { !ECN_FLAGS } else { !0 };
    if spec.flags & mask != tcp.flags & mask {
        let flags = |bits| show::flags(bits & mask, false);
        out.push(Difference::new("flags", flags(spec.flags), flags(tcp.flags)));
    }
    let mut number = |field: &str, expected: u32, actual: u32| {
        if expected != actual {
            out.push(Difference::new(field, expected.to_string(), actual.to_string()));
        }
    };
    number("seq", spec.seq, tcp.seq);
    number("payload", spec.len, len);
    if spec.flags & ACK != 0 || tcp.flags & ACK == 0 {
        number("ack", spec.ack, tcp.ack);
    }
    if let Some(window) = spec.window {
        number("win", window.into(), tcp.window.into());
    }
    number("urg", spec.urgent.into(), tcp.urgent.into());
    if let Some(options) = &spec.options {
        compare_options(options, &tcp.options, rule, out);
    }
}

const ACK: u16 = 0x010;
const ECN_FLAGS: u16 = 0x1c0;

fn compare_options(
    spec: &[OptionSpec],
    actual: &[OptionSpec],
    rule: TimestampRule,
    out: &mut Vec<Difference>,
) {
    let same_kinds = spec.len() == actual.len()
        && spec.iter().zip(actual).all(|(spec, actual)| name(spec) == name(actual));
    if !same_kinds {
        let shown = |list: &[OptionSpec]| format!("<{}>", show::options(list));
        out.push(Difference::new("options", shown(spec), shown(actual)));
        return;
    }
    for (spec, actual) in spec.iter().zip(actual) {
        if !same_option(spec, actual, rule) {
            let field = format!("option {}", name(spec));
            out.push(Difference::new(field, show::option(spec), show::option(actual)));
        }
    }
}

fn same_option(spec: &OptionSpec, actual: &OptionSpec, rule: TimestampRule) -> bool {
    match (spec, actual) {
        (OptionSpec::Timestamps(spec, _), OptionSpec::Timestamps(actual, _)) => {
            let off = i64::from(actual.wrapping_sub(*spec) as i32).abs();
            rule.tick_usecs == 0 || off * rule.tick_usecs <= rule.tolerance_usecs
        }
        _ => spec == actual,
    }
}

/// The option's word.
const fn name(option: &OptionSpec) -> &'static str {
    match option {
        OptionSpec::Nop => "nop",
        OptionSpec::Eol => "eol",
        OptionSpec::Mss(_) => "mss",
        OptionSpec::WindowScale(_) => "wscale",
        OptionSpec::SackOk => "sackOK",
        OptionSpec::Sack(_) => "sack",
        OptionSpec::Md5(_) => "md5",
        OptionSpec::Timestamps(..) => "TS",
        OptionSpec::FastOpen { experimental: false, .. } => "FO",
        OptionSpec::FastOpen { experimental: true, .. } => "FOEXP",
        OptionSpec::AccEcn { .. } => "ECN",
        OptionSpec::Other(..) => "other",
    }
}

/// Why `next` cannot belong to the same line as `last`, of which so many bytes are missing; `None`
/// if it can. Pieces of one line are of one size but for the last, follow each other, and have the
/// same headers but for FIN, PSH and CWR.
pub fn torn(last: &ActualPacket, next: &ActualPacket, missing: u32) -> Option<Difference> {
    let (Some(one), Some(two)) = (last.tcp(), next.tcp()) else {
        return Some(Difference::new("protocol", "tcp", protocol(&next.transport)));
    };
    let loose = FIN | PSH | CWR;
    if one.flags & !loose != two.flags & !loose {
        let flags = |bits| show::flags(bits, false);
        return Some(Difference::new("flags", flags(one.flags), flags(two.flags)));
    }
    let numbers = [
        ("seq", one.seq.wrapping_add(last.len), two.seq),
        ("ack", one.ack, two.ack),
        ("win", one.window.into(), two.window.into()),
        ("urg", one.urgent.into(), two.urgent.into()),
    ];
    for (field, expected, actual) in numbers {
        if expected != actual {
            return Some(Difference::new(field, expected.to_string(), actual.to_string()));
        }
    }
    if next.len < missing && next.len != last.len {
        return Some(Difference::new("payload", last.len.to_string(), next.len.to_string()));
    }
    None
}

const FIN: u16 = 0x001;
const PSH: u16 = 0x008;
const CWR: u16 = 0x080;

/// Several packets as one: headers of the last, sequence number and CWR of the first.
pub fn joined(packets: &[ActualPacket]) -> ActualPacket {
    let (first, last) = match packets {
        [one] => return one.clone(),
        [first, .., last] => (first, last),
        [] => unreachable!("a line waits for at least one packet"),
    };
    let mut whole = last.clone();
    whole.len = packets.iter().map(|packet| packet.len).sum();
    if let (ActualTransport::Tcp(tcp), Some(first)) = (&mut whole.transport, first.tcp()) {
        tcp.seq = first.seq;
        tcp.flags = tcp.flags & !CWR | first.flags & CWR;
    }
    whole
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ast::Action;
    use crate::lex::Defines;
    use crate::parse::Parser;
    use crate::wire::{Offsets, WireEnds, inbound};

    const V4: Family = Family::V4;

    fn spec(text: &str) -> PacketSpec {
        let parser = Parser::new(&format!("+0 > {text}")).expect("lexes");
        let script = parser.script(Vec::new(), V4, &Defines::new()).expect(text);
        match script.events.into_iter().next().expect("an event").action {
            Action::Packet(packet) => *packet,
            other => panic!("{other:?}"),
        }
    }

    /// A packet as a host would have sent it.
    fn actual(text: &str) -> ActualPacket {
        let ends = WireEnds {
            local: "10.0.0.1:1".parse().expect("address"),
            remote: "10.0.0.2:2".parse().expect("address"),
        };
        ActualPacket::of(&inbound(&spec(text), ends, Offsets::default(), 0), Offsets::default())
    }

    fn fields(script: &str, sent: &str) -> Vec<String> {
        let rule = TimestampRule { tick_usecs: 1_000, tolerance_usecs: 4_000 };
        differences(&spec(script), &actual(sent), V4, rule).into_iter().map(|it| it.field).collect()
    }

    #[test]
    fn what_is_not_said_is_not_compared() {
        for (script, sent) in [
            (". 1:1(0) ack 1", "[ect0] . 1:1(0) ack 1 win 77"),
            ("S 0:0(0) <...>", "S 0:0(0) win 5 <mss 1460,nop,wscale 7>"),
            ("[ect01] P. 1:11(10) ack 1", "[ect1] P. 1:11(10) ack 1"),
            (
                ". 1:1(0) ack 1 <nop,nop,TS val 104 ecr 9>",
                ". 1:1(0) ack 1 <nop,nop,TS val 100 ecr 5>",
            ),
        ] {
            assert_eq!(fields(script, sent), Vec::<String>::new(), "{script}");
        }
    }

    #[test]
    fn every_field_that_differs_is_named() {
        for (script, sent, field) in [
            ("S. 0:0(0) ack 1", ". 0:0(0) ack 1", "flags"),
            ("P. 1:11(10) ack 1", "P. 2:12(10) ack 1", "seq"),
            ("P. 1:11(10) ack 1", "P. 1:12(11) ack 1", "payload"),
            (". 1:1(0) ack 1", ". 1:1(0) ack 2", "ack"),
            (". 1:1(0) ack 1 win 5", ". 1:1(0) ack 1 win 6", "win"),
            ("U. 1:1(0) ack 1 urg 1", "U. 1:1(0) ack 1 urg 2", "urg"),
            ("S 0:0(0) <mss 1460>", "S 0:0(0) <mss 1400>", "option mss"),
            ("S 0:0(0) <mss 1460>", "S 0:0(0) <nop,nop,sackOK>", "options"),
            ("S 0:0(0)", "S 0:0(0) <mss 1460>", "options"),
            (
                ". 1:1(0) ack 1 <nop,nop,TS val 9 ecr 1>",
                ". 1:1(0) ack 1 <nop,nop,TS val 20 ecr 1>",
                "option TS",
            ),
            ("[ce] . 1:1(0) ack 1", "[ect0] . 1:1(0) ack 1", "ecn"),
            ("[tos 0x10] . 1:1(0) ack 1", ". 1:1(0) ack 1", "tos"),
            ("[ttl 3] . 1:1(0) ack 1", "[ttl 4] . 1:1(0) ack 1", "ttl"),
            (".5 1:1(0) ack 1", ".6 1:1(0) ack 1", "ace"),
            ("udp (5)", "udp (6)", "payload"),
            ("udp (5)", ". 1:1(0) ack 1", "protocol"),
        ] {
            assert_eq!(fields(script, sent), [field], "{script} / {sent}");
        }
    }

    #[test]
    fn pieces_of_a_line() {
        let (one, two) = (actual("[ect0] W. 1:101(100) ack 1"), actual("P. 101:151(50) ack 1"));
        assert_eq!(torn(&one, &two, 50), None);
        let whole = joined(&[one.clone(), two.clone()]);
        let tcp = whole.tcp().expect("TCP");
        assert_eq!((tcp.seq, whole.len, tcp.flags), (1, 150, 0x098));
        let field = |next: &str, missing| torn(&one, &actual(next), missing).map(|it| it.field);
        assert_eq!(field("P. 101:151(50) ack 1", 60).as_deref(), Some("payload"));
        assert_eq!(field(". 102:152(50) ack 1", 50).as_deref(), Some("seq"));
        assert_eq!(field(". 101:151(50) ack 2", 50).as_deref(), Some("ack"));
        assert_eq!(field("E. 101:151(50) ack 1", 50).as_deref(), Some("flags"));
    }
}
