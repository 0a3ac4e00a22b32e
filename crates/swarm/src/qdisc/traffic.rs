//! Flows and their packets: TCP with options, pure ACKs, UDP, ICMP, ARP, fragments, tunnels, IPv4 and
//! IPv6, VLAN tags, super-packets, with everything that qdiscs look at.

use core::net::{Ipv4Addr, Ipv6Addr};

use datapath::packet::seq::Seq;
use datapath::packet::{
    Body, EtherType, Extra, FlowLabel, FrameRef, Icmp, Ipv4, Ipv6, LinkHeader, MacAddr, Meta,
    Network, Packet, SackBlock, SackList, Tcp, TcpFlags, TcpOptions, Timestamps, Transport, Udp,
    protocol,
};
use serde::{Deserialize, Serialize};

use crate::draw::Draw;

/// What the packets of a flow have in common.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Flow {
    /// What it carries.
    pub shape: Shape,
    /// IPv6 instead of IPv4.
    pub v6: bool,
    /// Last byte of the source address.
    pub from: u8,
    /// Last byte of the destination address.
    pub to: u8,
    /// Source port.
    pub port: u16,
    /// DSCP and ECN.
    pub tos: u8,
    /// VLAN tag (TCI).
    pub vlan: Option<u16>,
    /// `skb->priority`.
    pub priority: u32,
    /// `skb->mark`.
    pub mark: u32,
    /// The socket it belongs to.
    pub owner: Option<u32>,
    /// `skb->hash`, if the socket drew one.
    pub hash: u32,
    /// So many connections of several hosts instead of one, packets of one after the other. Their
    /// hashes, if there are any, lie in one set of CAKE's table.
    #[serde(default)]
    pub crowd: u8,
    /// So many ACKs say the same.
    #[serde(default)]
    pub stretch: u8,
}

/// What a flow carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Shape {
    /// TCP, with timestamps or without.
    Tcp {
        /// Whether each segment has a timestamp.
        timestamps: bool,
    },
    /// UDP.
    Udp,
    /// ICMP or ICMPv6 echo.
    Icmp,
    /// IPv4 or IPv6 in IPv4 (6in4, IPIP).
    Tunnel,
    /// Later fragments of IPv4 packets.
    Fragment,
    /// ARP, or whatever else is not IP.
    Other,
    /// TCP over IPv6 in an IPv4 tunnel.
    SixInFour,
    /// TCP over IPv4 with IP options.
    IpOptions,
}

/// One packet of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Arrival {
    /// The flow's number, modulo how many there are.
    pub flow: u8,
    /// Payload bytes, of each segment if there are several.
    pub bytes: u16,
    /// Segments of a super-packet (TCP and UDP only); 1: none.
    pub segments: u16,
    /// A pure ACK with so many SACK blocks (TCP only).
    pub ack: Option<u8>,
    /// How long the sender wants it kept (`skb->tstamp`), in µs.
    pub departs_in_micros: u32,
    /// How many of them, one after the other.
    pub times: u16,
    /// TCP flags besides ACK and PSH; only on packets of their own.
    #[serde(default)]
    pub flags: u8,
}

impl Flow {
    /// Any flow; its priority and mark now and then name a class.
    pub fn draw(draw: &mut Draw) -> Self {
        Self {
            shape: *draw.weighted(&[
                (4, Shape::Tcp { timestamps: false }),
                (4, Shape::Tcp { timestamps: true }),
                (5, Shape::Udp),
                (1, Shape::Icmp),
                (1, Shape::Tunnel),
                (1, Shape::Fragment),
                (1, Shape::Other),
                (1, Shape::SixInFour),
                (1, Shape::IpOptions),
            ]),
            v6: draw.percent(30),
            from: draw.range(1..=6) as u8,
            to: draw.range(1..=6) as u8,
            port: draw.range(1..=20) as u16,
            tos: any_tos(draw),
            vlan: draw.maybe(15, |draw| draw.bits() as u16),
            priority: any_priority(draw),
            mark: *draw.weighted(&[(5, 0), (2, 1), (2, 2), (1, u32::MAX)]),
            owner: draw.maybe(40, |draw| draw.range(0..=4) as u32),
            hash: match draw.range(0..=9) {
                0..=1 => draw.bits() as u32,
                2 => draw.range(1..=3) as u32,
                _ => 0,
            },
            crowd: draw.maybe(15, |draw| draw.range(2..=40)).unwrap_or(0) as u8,
            stretch: *draw.weighted(&[(3, 0), (1, 2), (1, 7)]),
        }
    }

    /// Which of its connections a packet is of.
    pub fn one_of(&self, number: u32) -> u8 {
        (number % u32::from(self.crowd.max(1))) as u8
    }

    /// The simplest of its shape.
    pub fn plain(&self) -> Self {
        Self {
            v6: false,
            from: 1,
            to: 2,
            tos: 0,
            vlan: None,
            priority: 0,
            mark: 0,
            owner: None,
            hash: 0,
            crowd: 0,
            stretch: 0,
            ..self.clone()
        }
    }

    fn network(&self, number: u32) -> Network {
        let protocol = match self.shape {
            Shape::Tcp { .. } | Shape::IpOptions | Shape::SixInFour => protocol::TCP,
            Shape::Udp | Shape::Fragment => protocol::UDP,
            Shape::Icmp if self.v6 => protocol::ICMPV6,
            Shape::Icmp => protocol::ICMP,
            Shape::Tunnel => protocol::IPV6,
            Shape::Other => return Network::Other(EtherType::ARP),
        };
        let other_host = self.one_of(number) % HOSTS;
        let is_v4 = matches!(self.shape, Shape::Fragment | Shape::IpOptions);
        if self.v6 && !is_v4 || self.shape == Shape::SixInFour {
            let address = |last: u8| Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, last.into());
            return Network::Ipv6(Ipv6 {
                src: address(self.from + other_host),
                dst: address(self.to),
                traffic_class: self.tos,
                hop_limit: 64,
                next_header: protocol,
                flow_label: FlowLabel::new(u32::from(self.port)),
            });
        }
        let is_fragment = self.shape == Shape::Fragment;
        Network::Ipv4(Ipv4 {
            src: Ipv4Addr::new(10, 0, 0, self.from + other_host),
            dst: Ipv4Addr::new(10, 0, 1, self.to),
            tos: self.tos,
            ttl: 64,
            protocol,
            id: number as u16,
            dont_fragment: !is_fragment,
            more_fragments: is_fragment,
            fragment_offset: if is_fragment { 185 } else { 0 },
        })
    }

    /// The transport header; `number` counts packets, so that sequence and ACK numbers grow.
    fn transport(&self, arrival: Arrival, number: u32) -> Transport {
        let pure_ack = arrival.ack.is_some();
        let port = self.port + u16::from(self.one_of(number));
        let more = if arrival.segments > 1 { 0 } else { arrival.flags };
        let said = number / u32::from(self.stretch.max(1));
        match self.shape {
            Shape::Tcp { timestamps: true } | Shape::SixInFour | Shape::IpOptions => {
                let mut packet = Self { shape: Shape::Tcp { timestamps: false }, ..self.clone() }
                    .transport(arrival, number);
                if let Transport::Tcp(tcp) = &mut packet {
                    tcp.options.timestamps =
                        Some(Timestamps { value: number / 4, echo: number / 8 });
                }
                packet
            }
            Shape::Tcp { .. } => Transport::Tcp(Tcp {
                src_port: port,
                dst_port: 80,
                seq: Seq(if pure_ack { 1 } else { number << 16 }),
                ack: Seq(said.wrapping_mul(1448)),
                flags: more_flags(more)
                    | if pure_ack { TcpFlags::ACK } else { TcpFlags::ACK | TcpFlags::PSH },
                window: 500,
                urgent: 0,
                options: TcpOptions {
                    mss: if more & 2 != 0 { 1_460 } else { 0 },
                    sack: sack_list(if more & 2 != 0 { 0 } else { arrival.ack.unwrap_or(0) }, said),
                    ..TcpOptions::default()
                },
            }),
            Shape::Udp => Transport::Udp(Udp { src_port: port, dst_port: 53 }),
            Shape::Icmp if self.v6 => Transport::Icmp(Icmp { kind: 128, code: 0, rest: number }),
            Shape::Icmp => Transport::Icmp(Icmp { kind: 8, code: 0, rest: number }),
            Shape::Tunnel | Shape::Fragment | Shape::Other => Transport::None,
        }
    }

    /// Packet `number` of the case. Its body names it: qdiscs never look into one.
    pub fn packet(&self, arrival: Arrival, number: u32) -> Packet {
        let mac = |last| MacAddr([2, 0, 0, 0, 0, last]);
        let may_be_super = matches!(self.shape, Shape::Tcp { .. } | Shape::Udp);
        let (bytes, segments) = match (self.shape, arrival.ack) {
            (Shape::Tcp { .. } | Shape::SixInFour | Shape::IpOptions, Some(_)) => (0, 1),
            _ if may_be_super && arrival.bytes > 0 => {
                (u32::from(arrival.bytes), u32::from(arrival.segments).clamp(1, 45))
            }
            _ => (u32::from(arrival.bytes), 1),
        };
        // The last segment of a super-packet is a short one.
        let len = if segments > 1 { bytes * segments - bytes / 2 } else { bytes };
        let extra = |tci| Extra { vlan: vec![(0x8100, tci)], ..Extra::default() };
        let packet = Packet {
            link: LinkHeader::Ethernet { dst: mac(2), src: mac(1) },
            network: self.network(number),
            transport: self.transport(arrival, number),
            body: Body { frame: Some(FrameRef::numbered(number + 1)), offset: 0, len },
            meta: Meta {
                gso_size: if segments > 1 { bytes as u16 } else { 0 },
                gso_segs: segments as u16,
                departs_in_ns: arrival.departs_in_micros.saturating_mul(1_000),
                priority: self.priority,
                mark: self.mark,
                truesize: 768 + len + 256 * (segments - 1),
                owner: self.owner.unwrap_or(Meta::NO_OWNER),
                hash: match self.hash {
                    0 => 0,
                    hash => hash.wrapping_add(1_024 * u32::from(self.one_of(number))),
                },
                ..Meta::default()
            },
            extra: self.vlan.map(|tci| Box::new(extra(tci))),
            ..Packet::default()
        };
        let packet = packet.finish();
        match self.shape {
            Shape::SixInFour | Shape::IpOptions => self.wrapped(&packet),
            _ => packet,
        }
    }

    /// The packet in a tunnel, or with options in its header: as it is read from its bytes.
    fn wrapped(&self, plain: &Packet) -> Packet {
        let mut bytes = Vec::new();
        plain.emit(&vec![0; plain.body.len as usize], &mut bytes);
        let at = plain.link.len() as usize + if self.vlan.is_some() { 4 } else { 0 };
        let rest = bytes.split_off(at);
        let (header_len, next, rest) = match self.shape {
            Shape::SixInFour => (20, protocol::IPV6, &rest[..]),
            _ => (24, protocol::TCP, &rest[20..]),
        };
        let total = (header_len + rest.len()) as u16;
        let mut header = vec![0x40 | (header_len / 4) as u8, self.tos];
        header.extend(total.to_be_bytes());
        let from = self.from + self.one_of(plain.body.number() - 1) % HOSTS;
        header.extend([0, 0, 0x40, 0, 64, next, 0, 0, 10, 0, 0, from, 10, 0, 1, self.to]);
        // Three no-operations and the end of the list.
        header.extend(if header_len > 20 { &[1, 1, 1, 0][..] } else { &[] });
        let words = header.chunks(2).map(|word| u32::from(word[0]) << 8 | u32::from(word[1]));
        let sum: u32 = words.sum();
        header[10..12].copy_from_slice(&(!(sum + (sum >> 16)) as u16).to_be_bytes());
        // The EtherType, in front of the header with or without a tag.
        bytes.truncate(at - 2);
        bytes.extend([8, 0]);
        bytes.extend(header);
        bytes.extend(rest);
        let read = Packet::parse_ethernet(&bytes[..]).expect("a frame");
        let Meta { len, truesize, .. } = read.meta;
        let truesize = truesize.max(plain.meta.truesize);
        Packet {
            body: Body { frame: plain.body.frame.clone(), offset: 0, ..read.body },
            meta: Meta { len, truesize, ..plain.meta },
            ..read
        }
    }
}

impl Arrival {
    /// Any packet, or several.
    pub fn draw(draw: &mut Draw) -> Self {
        Self {
            flow: draw.range(0..=15) as u8,
            bytes: match draw.range(0..=8) {
                0..=4 => 1_448,
                5 => *draw.one_of(&[0, 1, 1_460, 8_960]),
                _ => draw.range(1..=1_448) as u16,
            },
            segments: *draw.weighted(&[(8, 1), (1, 2), (1, 10), (1, 45)]),
            ack: draw.maybe(25, |draw| draw.range(0..=3) as u8),
            departs_in_micros: draw.maybe(10, |draw| draw.log_range(1..=5_000_000)).unwrap_or(0)
                as u32,
            times: *draw.weighted(&[(6, 1), (2, 5), (1, 40)]),
            flags: *draw.weighted(&[(20, 0), (1, 1), (1, 2), (1, 4), (1, 0x40), (1, 0x80)]),
        }
    }

    /// The one of a later round: of the next flow.
    pub fn later(&self, round: u16) -> Self {
        Self { flow: self.flow.wrapping_add(round as u8), ..*self }
    }

    /// Fewer of them, and simpler ones.
    pub fn simpler(&self) -> Vec<Self> {
        [
            Self { times: self.times / 2, ..*self },
            Self { times: self.times.saturating_sub(1).max(1), ..*self },
            Self { segments: 1, ..*self },
            Self { segments: self.segments.min(2), ..*self },
            Self { ack: None, ..*self },
            Self { departs_in_micros: 0, ..*self },
            Self { flags: 0, ..*self },
            Self { flow: 0, ..*self },
            Self { bytes: self.bytes.min(100), ..*self },
        ]
        .into_iter()
        .filter(|other| other != self && other.times > 0)
        .collect()
    }
}

/// A crowd is of so many hosts.
const HOSTS: u8 = 6;

/// The flags with these bits.
fn more_flags(bits: u8) -> TcpFlags {
    let known = [
        (1, TcpFlags::FIN),
        (2, TcpFlags::SYN),
        (4, TcpFlags::RST),
        (0x40, TcpFlags::ECE),
        (0x80, TcpFlags::CWR),
    ];
    let said = known.into_iter().filter(|(bit, _)| bits & bit != 0);
    said.fold(TcpFlags::default(), |flags, (_, flag)| flags | flag)
}

fn sack_list(blocks: u8, number: u32) -> SackList {
    let mut list = SackList::EMPTY;
    for nth in 0..u32::from(blocks.min(3)) {
        let start = (number + 2 * nth + 2).wrapping_mul(1448);
        list.push(SackBlock { start: Seq(start), end: Seq(start.wrapping_add(1448)) });
    }
    list
}

fn any_tos(draw: &mut Draw) -> u8 {
    let dscp = *draw.weighted(&[(5, 0), (1, 8), (1, 1), (1, 34), (2, 46), (1, 48), (1, 63)]);
    let ecn = draw.weighted(&[(4, 0), (2, 2), (1, 1), (1, 3)]);
    dscp << 2 | ecn
}

fn any_priority(draw: &mut Draw) -> u32 {
    match draw.range(0..=9) {
        0..=3 => 0,
        4..=6 => draw.range(0..=15) as u32,
        7..=8 => (draw.range(1..=4) << 16 | draw.range(0..=4)) as u32,
        _ => draw.bits() as u32,
    }
}
