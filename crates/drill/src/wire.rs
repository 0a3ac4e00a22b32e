//! Packets of the script into packets of the datapath.

use crate::ast::{
    IcmpSpec, IpInfo, OptionSpec, PacketSpec, Quoted, TcpSpec, TosSpec, TransportSpec,
};
use crate::encap;
use core::net::{IpAddr, SocketAddr};
use datapath::packet::option_kind as kind;
use datapath::packet::options::FAST_OPEN_MAGIC;
use datapath::packet::seq::Seq;
use datapath::packet::{
    Body, Extra, FlowLabel, Icmp, Ipv4, Ipv6, LinkHeader, Memory, Network, Packet, Tcp, TcpFlags,
    TcpOptions, Transport, Udp, protocol,
};

/// Who talks to whom on the wire: the script's end and the host's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WireEnds {
    /// The host under test.
    pub local: SocketAddr,
    /// The script.
    pub remote: SocketAddr,
}

/// How far the numbers of the script are from those on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Offsets {
    /// Added to sequence numbers of the script's end.
    pub remote: u32,
    /// Added to sequence numbers of the host's end.
    pub local: u32,
}

/// An inbound packet as it arrives at the host. TCP timestamps echoed must be mapped already.
pub fn inbound(spec: &PacketSpec, ends: WireEnds, offsets: Offsets, mss: u32) -> Packet {
    let mut packet = match &spec.transport {
        TransportSpec::Tcp(tcp) => tcp_segment(tcp, spec.ip, ends, offsets, mss),
        TransportSpec::Udp(ports, len) => {
            let udp = Udp {
                src_port: or(ports.src, ends.remote.port()),
                dst_port: or(ports.dst, ends.local.port()),
            };
            plain(
                network(ends.remote.ip(), ends.local.ip(), protocol::UDP, spec.ip),
                Transport::Udp(udp),
                *len,
            )
        }
        TransportSpec::Icmp(icmp) => icmp_message(icmp, spec.ip, ends, offsets),
    };
    if !spec.outer.is_empty() {
        packet = encap::wrapped(&packet, &spec.outer);
    }
    packet
}

fn or(port: u16, other: u16) -> u16 {
    if port == 0 { other } else { port }
}

/// The TTL of inbound packets: the largest, so that no hop limit refuses them.
const TTL: u8 = 255;

/// An IP header with what a line of the script says of it.
pub(crate) fn network(src: IpAddr, dst: IpAddr, protocol: u8, info: IpInfo) -> Network {
    let tos = match info.tos {
        TosSpec::Any | TosSpec::Ect01 => 0,
        TosSpec::Ecn(bits) | TosSpec::Tos(bits) => bits,
    };
    let ttl = if info.ttl == 0 { TTL } else { info.ttl };
    match (src, dst) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => {
            Network::Ipv4(Ipv4 { tos, ttl, dont_fragment: false, ..Ipv4::new(src, dst, protocol) })
        }
        (IpAddr::V6(src), IpAddr::V6(dst)) => Network::Ipv6(Ipv6 {
            src,
            dst,
            traffic_class: tos,
            hop_limit: ttl,
            next_header: protocol,
            flow_label: FlowLabel::new(info.flow_label),
        }),
        _ => unreachable!("settings keep both ends in one family"),
    }
}

/// A packet without options.
pub(crate) fn plain(network: Network, transport: Transport, len: u32) -> Packet {
    Packet {
        link: LinkHeader::None,
        network,
        transport,
        body: Body::of_len(len),
        memory: Memory::Tun,
        ..Packet::default()
    }
    .finish()
}

fn tcp_segment(spec: &TcpSpec, ip: IpInfo, ends: WireEnds, offsets: Offsets, mss: u32) -> Packet {
    let flags = TcpFlags(spec.flags);
    let ack = flags.contains(TcpFlags::ACK);
    let bytes = option_bytes(spec.options.as_deref().unwrap_or_default(), offsets.local);
    let (options, canonical) = TcpOptions::parse(&bytes);
    let header = Tcp {
        src_port: or(spec.ports.src, ends.remote.port()),
        dst_port: or(spec.ports.dst, ends.local.port()),
        seq: Seq(spec.seq.wrapping_add(offsets.remote)),
        ack: Seq(if ack { spec.ack.wrapping_add(offsets.local) } else { spec.ack }),
        flags,
        window: spec.window.unwrap_or(0),
        urgent: spec.urgent,
        options: if canonical { options } else { TcpOptions::default() },
    };
    let network = network(ends.remote.ip(), ends.local.ip(), protocol::TCP, ip);
    let mut packet = plain(network, Transport::Tcp(header), spec.len);
    if !canonical {
        packet = with_raw_options(&packet, header, options, &bytes);
    }
    cut_by(&mut packet, bytes.len() as u32, mss);
    packet
}

/// Makes what is longer than `mss` a super-packet of segments of that size, if it is not 0. The kernel leaves the number
/// of segments to be found out, and counts one (`virtio_net_hdr_to_skb`); TCP options count towards the size.
pub fn cut_by(packet: &mut Packet, options: u32, mss: u32) {
    if mss > 0 && packet.body.len + options > mss {
        packet.meta.gso_size = mss as u16;
        packet.meta.gso_segs = 1;
    }
}

/// A packet whose options are not in the layout that the datapath writes itself.
fn with_raw_options(packet: &Packet, header: Tcp, options: TcpOptions, bytes: &[u8]) -> Packet {
    let mut raw = Vec::new();
    packet.emit_headers(&mut raw);
    let transport_offset = packet.network.len() as u16;
    raw.extend_from_slice(bytes);
    let words = ((20 + bytes.len()) / 4) as u8;
    let data_offset = &mut raw[usize::from(transport_offset) + 12];
    *data_offset = words << 4 | *data_offset & 0x0f;
    let extra = Extra { raw, transport_offset, recompute: true, ..Extra::default() };
    Packet {
        transport: Transport::Tcp(Tcp { options, ..header }),
        extra: Some(Box::new(extra)),
        ..packet.clone()
    }
    .finish()
}

/// Options as they lie on the wire; `sack` is added to the edges of SACK blocks.
pub fn option_bytes(options: &[OptionSpec], sack: u32) -> Vec<u8> {
    let mut out = Vec::new();
    for option in options {
        match option {
            OptionSpec::Nop => out.push(kind::NOP),
            OptionSpec::Eol => out.push(kind::EOL),
            OptionSpec::Mss(mss) => {
                out.extend_from_slice(&[kind::MSS, 4]);
                out.extend_from_slice(&mss.to_be_bytes());
            }
            OptionSpec::WindowScale(shift) => {
                out.extend_from_slice(&[kind::WINDOW_SCALE, 3, *shift]);
            }
            OptionSpec::SackOk => out.extend_from_slice(&[kind::SACK_PERMITTED, 2]),
            OptionSpec::Sack(blocks) => {
                out.extend_from_slice(&[kind::SACK, (2 + 8 * blocks.len()) as u8]);
                for (left, right) in blocks {
                    out.extend_from_slice(&left.wrapping_add(sack).to_be_bytes());
                    out.extend_from_slice(&right.wrapping_add(sack).to_be_bytes());
                }
            }
            OptionSpec::Md5(digest) => {
                out.extend_from_slice(&[kind::MD5, 2 + digest.len() as u8]);
                out.extend_from_slice(digest);
            }
            OptionSpec::Timestamps(value, echo) => {
                out.extend_from_slice(&[kind::TIMESTAMPS, 10]);
                out.extend_from_slice(&value.to_be_bytes());
                out.extend_from_slice(&echo.to_be_bytes());
            }
            OptionSpec::FastOpen { cookie, experimental: false } => {
                out.extend_from_slice(&[kind::FAST_OPEN, 2 + cookie.len() as u8]);
                out.extend_from_slice(cookie);
            }
            OptionSpec::FastOpen { cookie, experimental: true } => {
                out.extend_from_slice(&[kind::EXPERIMENTAL, 4 + cookie.len() as u8]);
                out.extend_from_slice(&FAST_OPEN_MAGIC.to_be_bytes());
                out.extend_from_slice(cookie);
            }
            OptionSpec::AccEcn { e0_first, counters } => {
                let kind = if *e0_first { kind::ACC_ECN_0 } else { kind::ACC_ECN_1 };
                out.extend_from_slice(&[kind, 2 + 3 * counters.len() as u8]);
                for counter in counters {
                    out.extend_from_slice(&counter.to_be_bytes()[1..]);
                }
            }
            OptionSpec::Other(kind, data) => {
                out.extend_from_slice(&[*kind, 2 + data.len() as u8]);
                out.extend_from_slice(data);
            }
        }
    }
    out
}

fn icmp_message(spec: &IcmpSpec, ip: IpInfo, ends: WireEnds, offsets: Offsets) -> Packet {
    let v4 = ends.local.is_ipv4();
    let number = if v4 { protocol::ICMP } else { protocol::ICMPV6 };
    let outer = network(ends.remote.ip(), ends.local.ip(), number, ip);
    let rest = match (spec.mtu, spec.echo_id) {
        (Some(mtu), _) => mtu,
        (None, id) => u32::from(id) << 16,
    };
    let icmp = Icmp { kind: spec.kind, code: spec.code, rest };
    if !quotes(v4, spec.kind) {
        return plain(outer, Transport::Icmp(icmp), 0);
    }
    let quoted = |protocol| {
        network(ends.local.ip(), ends.remote.ip(), protocol, IpInfo { ttl: 64, ..ip_plain() })
    };
    let about = match spec.quoted {
        Quoted::Tcp { seq, len } => {
            let header = Tcp {
                src_port: ends.local.port(),
                dst_port: ends.remote.port(),
                seq: Seq(seq.wrapping_add(offsets.local)),
                ack: Seq(0),
                flags: TcpFlags(0),
                window: 0,
                urgent: 0,
                options: TcpOptions::default(),
            };
            plain(quoted(protocol::TCP), Transport::Tcp(header), len)
        }
        Quoted::Udp(len) => {
            let udp = Udp { src_port: ends.local.port(), dst_port: ends.remote.port() };
            plain(quoted(protocol::UDP), Transport::Udp(udp), len)
        }
        Quoted::Raw(len) => plain(quoted(RAW), Transport::None, len),
    };
    // RFC 792: the network header and eight bytes are quoted.
    let max_quote = about.network.len() + 8;
    Packet::icmp_error(outer, icmp, &about, max_quote)
}

const fn ip_plain() -> IpInfo {
    IpInfo { tos: TosSpec::Any, flow_label: 0, ttl: 0 }
}

/// Errors quote the packet that they are about; other messages do not.
const fn quotes(v4: bool, kind: u8) -> bool {
    if v4 { matches!(kind, 3 | 4 | 5 | 11 | 12) } else { kind < 128 }
}

/// `IPPROTO_RAW`.
const RAW: u8 = 255;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ast::{Action, Direction};
    use crate::lex::Defines;
    use crate::parse::{Family, Parser};
    use datapath::packet::Flaws;

    fn spec(text: &str) -> PacketSpec {
        let parser = Parser::new(text).expect("lexes");
        let script = parser.script(Vec::new(), Family::V4, &Defines::new()).expect(text);
        match script.events.into_iter().next().expect("an event").action {
            Action::Packet(packet) => *packet,
            other => panic!("{other:?}"),
        }
    }

    const ENDS: WireEnds = WireEnds {
        local: SocketAddr::new(IpAddr::V4(core::net::Ipv4Addr::new(192, 168, 0, 1)), 8080),
        remote: SocketAddr::new(IpAddr::V4(core::net::Ipv4Addr::new(192, 0, 2, 1)), 40_000),
    };

    /// Any inbound packet, put on the wire and read again, is the same and has no flaw.
    #[test]
    fn packets_are_well_formed() {
        let offsets = Offsets { remote: 100, local: 1_000 };
        for text in [
            "+0 < S 0:0(0) win 65535 <mss 1460,nop,nop,sackOK,nop,wscale 7>",
            "+0 < S 0:0(0) win 65535 <mss 1460,sackOK,TS val 1 ecr 0,nop,wscale 7>",
            "+0 < [ce] P. 1:1001(1000) ack 1 win 257 <nop,nop,TS val 5 ecr 7>",
            "+0 < . 1:1(0) ack 1 win 257 <sack 2001:3001,nop,nop>",
            "+0 < S 0:0(0) win 1 <FO 0011223344556677,nop,nop>",
            "+0 < S 0:0(0) win 1 <FOEXP,nop,nop,nop,nop>",
            "+0 < .5 1:1(0) ack 1 win 1 <ECN e1b 1 ceb 0 e0b 2,nop>",
            "+0 < udp (700)",
        ] {
            let packet = inbound(&spec(text), ENDS, offsets, 0);
            let mut bytes = Vec::new();
            packet.emit(&vec![0; packet.body.len as usize], &mut bytes);
            let read = Packet::parse_ip(&bytes[..]).expect(text);
            assert_eq!(read.flaws(), Flaws::NONE, "{text}");
            assert_eq!(
                (read.network, read.transport),
                (packet.network, packet.transport),
                "{text}"
            );
            assert_eq!(read.body.len, packet.body.len, "{text}");
        }
    }

    #[test]
    fn numbers_are_moved() {
        let offsets = Offsets { remote: 100, local: 1_000 };
        let text = "+0 < . 1:1(0) ack 5 win 257 <nop,nop,sack 7:9>";
        let packet = inbound(&spec(text), ENDS, offsets, 0);
        let tcp = packet.tcp().expect("TCP");
        assert_eq!((tcp.seq, tcp.ack), (Seq(101), Seq(1_005)));
        let block = tcp.options.sack.as_slice()[0];
        assert_eq!((block.start, block.end), (Seq(1_007), Seq(1_009)));
    }

    #[test]
    fn icmp_quotes_what_the_host_sent() {
        let text = "+0 < icmp unreachable frag_needed mtu 1200 [11:1011(1000)]";
        let packet = inbound(&spec(text), ENDS, Offsets { remote: 0, local: 1_000 }, 0);
        let quoted = packet.quoted().expect("quotes");
        assert_eq!(quoted.seq, Some(Seq(1_011)));
        assert_eq!((quoted.flow.src_port, quoted.flow.dst_port), (8080, 40_000));
        assert!(matches!(packet.transport, Transport::Icmp(icmp) if icmp.rest == 1200));
    }

    #[test]
    fn large_inbound_packets_are_super_packets_if_the_segment_size_is_given() {
        let packet =
            inbound(&spec("+0 < P. 1:3501(3500) ack 1 win 9"), ENDS, Offsets::default(), 1000);
        assert_eq!((packet.meta.gso_size, packet.meta.gso_segs), (1000, 1));
    }

    #[test]
    fn encapsulation_nests() {
        let text = "+0 < ipv4 10.0.0.2 > 10.0.0.1: gre: . 1:1(0) ack 1 win 9";
        let spec = spec(text);
        assert_eq!(spec.direction, Direction::Inbound);
        let packet = inbound(&spec, ENDS, Offsets::default(), 0);
        assert_eq!(packet.network.protocol(), Some(protocol::GRE));
        assert_eq!(packet.len(), 20 + 4 + 40);
    }
}
