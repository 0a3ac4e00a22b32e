//! Packets as bytes, together with the flow they were built from: nested tunnels, extension headers, fragments, ICMP
//! errors with the packets they quote.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use datapath::fib::{Fields, HashInput};

use super::values::any_address;
use crate::draw::Draw;

/// A packet that begins with its IP header, and its flow.
#[derive(Clone, Debug)]
pub struct BuiltPacket {
    /// All of it.
    pub bytes: Vec<u8>,
    /// What a hash may read of it.
    pub flow: HashInput,
}

/// One header chain: what it says, and what it carries.
struct Chain {
    bytes: Vec<u8>,
    fields: Fields,
    /// The next-header field of the IP header itself.
    first: u8,
    fragment: bool,
    dont_fragment: bool,
    /// The innermost packet of the tunnels behind it.
    inner: Option<Fields>,
    /// What an ICMP error behind it quotes.
    quoted: Option<Fields>,
}

/// What lies behind an IP header.
struct Payload {
    protocol: u8,
    bytes: Vec<u8>,
    ports: (u16, u16),
    carried: Option<Chain>,
    /// A tunnel that carries no IP.
    opaque: bool,
    quoted: Option<Chain>,
}

/// A packet with up to three tunnels around it.
pub fn any_packet(src: IpAddr, dst: IpAddr, draw: &mut Draw) -> BuiltPacket {
    let chain = chain(src, dst, 3, draw);
    let Chain { fields, first, fragment, dont_fragment, .. } = chain;
    // A flow label of zero is none: that of a header further out stays.
    let flow = HashInput {
        outer: fields,
        l3_protocol: first,
        inner: chain.inner,
        quoted: chain.quoted,
        dont_fragment: dont_fragment && !fragment,
        from_packet: true,
    };
    BuiltPacket { bytes: chain.bytes, flow }
}

fn chain(src: IpAddr, dst: IpAddr, depth: u32, draw: &mut Draw) -> Chain {
    let payload = payload(src.is_ipv6(), depth, draw);
    match (src, dst) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => ipv4(src, dst, payload, draw),
        (IpAddr::V6(src), IpAddr::V6(dst)) => ipv6(src, dst, payload, draw),
        _ => unreachable!("both are of one family"),
    }
}

fn any_chain(v6: bool, depth: u32, draw: &mut Draw) -> Chain {
    let (src, dst) = (any_address(v6, draw), any_address(v6, draw));
    chain(src, dst, depth, draw)
}

fn payload(v6: bool, depth: u32, draw: &mut Draw) -> Payload {
    let ports = (draw.range(1..=60_000) as u16, draw.range(1..=200) as u16);
    let two_ports = |rest: usize| {
        let mut bytes = [ports.0.to_be_bytes(), ports.1.to_be_bytes()].concat();
        bytes.resize(4 + rest, 0);
        bytes
    };
    let plain = |protocol, bytes, ports| Payload {
        protocol,
        bytes,
        ports,
        carried: None,
        opaque: false,
        quoted: None,
    };
    let kind = if depth == 0 { draw.range(0..=5) } else { draw.range(0..=14) };
    match kind {
        0 => {
            let mut bytes = two_ports(16);
            bytes[12] = 0x50;
            plain(6, bytes, ports)
        }
        1 => plain(17, two_ports(4), ports),
        2 => plain(132, two_ports(8), ports),
        3 => plain(50, two_ports(8), ports),
        4 => {
            // AH: the SPI lies behind a word of its own.
            let bytes = [&[59, 1, 0, 0][..], &two_ports(8)].concat();
            plain(51, bytes, ports)
        }
        5 => {
            let echo = if v6 { 128 } else { 8 };
            plain(if v6 { 58 } else { 1 }, vec![echo, 0, 0, 0, 0, 0, 0, 0], (0, 0))
        }
        6..=8 => {
            let kinds: &[u8] = if v6 { &[1, 2, 3, 4] } else { &[3, 4, 5, 11, 12] };
            let inner = any_chain(v6, 0, draw);
            let mut bytes = vec![*draw.one_of(kinds), 0, 0, 0, 0, 0, 0, 0];
            bytes.extend(&inner.bytes);
            let quoted = Some(inner);
            Payload { quoted, ..plain(if v6 { 58 } else { 1 }, bytes, (0, 0)) }
        }
        9..=11 => {
            let inner_v6 = draw.percent(50);
            let inner = any_chain(inner_v6, depth - 1, draw);
            let protocol = if inner_v6 { 41 } else { 4 };
            let bytes = inner.bytes.clone();
            Payload { carried: Some(inner), ..plain(protocol, bytes, (0, 0)) }
        }
        _ => gre(depth, draw, plain),
    }
}

/// GRE with any of its options around IP, Ethernet, tags or what is not known.
fn gre(depth: u32, draw: &mut Draw, plain: impl Fn(u8, Vec<u8>, (u16, u16)) -> Payload) -> Payload {
    let inner_v6 = draw.percent(50);
    let inner = any_chain(inner_v6, depth - 1, draw);
    let ether_type: u16 = if inner_v6 { 0x86dd } else { 0x0800 };
    let shape = draw.range(0..=5);
    if shape == 5 {
        // PPTP: version 1 with a key, perhaps numbers, and PPP.
        let numbers = *draw.one_of(&[0x0000, 0x1000, 0x1080u16]);
        let ppp: u16 = if inner_v6 { 0x0057 } else { 0x0021 };
        let mut bytes = (0x2001u16 | numbers).to_be_bytes().to_vec();
        bytes.extend(0x880b_u16.to_be_bytes());
        bytes.resize(8 + 4 * numbers.count_ones() as usize, 7);
        bytes.extend([0xff, 3]);
        bytes.extend(ppp.to_be_bytes());
        bytes.extend(&inner.bytes);
        return Payload { carried: Some(inner), ..plain(47, bytes, (0, 0)) };
    }
    let options = draw.range(0..=7) as u16;
    let mut flags = 0;
    for (bit, flag) in [(1, 0x8000), (2, 0x2000), (4, 0x1000)] {
        flags |= if options & bit != 0 { flag } else { 0 };
    }
    let (outer_type, between): (u16, Vec<u8>) = match shape {
        0 => (0x6558, [&[2; 12][..], &ether_type.to_be_bytes()].concat()),
        1 => (0x8100, [&[0, 5][..], &ether_type.to_be_bytes()].concat()),
        2 => (0x88cc, Vec::new()),
        _ => (ether_type, Vec::new()),
    };
    let mut bytes: Vec<u8> = u16::to_be_bytes(flags).to_vec();
    bytes.extend(outer_type.to_be_bytes());
    bytes.resize(4 + 4 * options.count_ones() as usize, 9);
    bytes.extend(between);
    bytes.extend(&inner.bytes);
    let opaque = shape == 2;
    Payload { carried: (!opaque).then_some(inner), opaque, ..plain(47, bytes, (0, 0)) }
}

fn ipv4(src: Ipv4Addr, dst: Ipv4Addr, payload: Payload, draw: &mut Draw) -> Chain {
    let options = draw.percent(10);
    let (flags, fragment, later_fragment) = *draw.weighted(&[
        (6, (0x4000u16, false, false)),
        (3, (0, false, false)),
        (1, (0x2000, true, false)),
        (1, (0x00b9, true, true)),
    ]);
    let len = if options { 24 } else { 20 };
    let total = (len + payload.bytes.len()) as u16;
    let mut bytes = vec![0x40 | (len / 4) as u8, 0];
    bytes.extend(total.to_be_bytes());
    bytes.extend([0, 1]);
    bytes.extend(flags.to_be_bytes());
    bytes.extend([64, payload.protocol, 0, 0]);
    bytes.extend(src.octets());
    bytes.extend(dst.octets());
    bytes.resize(len, 1);
    bytes.extend(&payload.bytes);
    let ports = if fragment { (0, 0) } else { payload.ports };
    let fields = Fields {
        src: src.into(),
        dst: dst.into(),
        protocol: payload.protocol,
        src_port: ports.0,
        dst_port: ports.1,
        flow_label: 0,
    };
    let dont_fragment = flags & 0x4000 != 0;
    around(bytes, fields, payload.protocol, (fragment, later_fragment, dont_fragment), payload)
}

fn ipv6(src: Ipv6Addr, dst: Ipv6Addr, payload: Payload, draw: &mut Draw) -> Chain {
    let label = *draw.one_of(&[0, 0, 1, 0x12345, 0xf_ffff]);
    let mut extensions: Vec<u8> = Vec::new();
    let mut first = payload.protocol;
    let mut protocol = payload.protocol;
    let (mut fragment, mut later_fragment) = (false, false);
    // From the last to the first.
    for _ in 0..*draw.weighted(&[(6, 0), (2, 1), (1, 2)]) {
        let kind = *draw.one_of(&[0u8, 60, 43, 44]);
        let mut header = vec![first, 0, 0, 0, 0, 0, 0, 0];
        if kind == 44 {
            if fragment {
                continue;
            }
            fragment = true;
            // Nobody looks beyond a fragment header.
            protocol = first;
            later_fragment = draw.percent(50);
            header[2] = u8::from(later_fragment);
        }
        extensions.splice(0..0, header);
        first = kind;
    }
    let mut bytes = (0x6000_0000u32 | label).to_be_bytes().to_vec();
    bytes.extend(((extensions.len() + payload.bytes.len()) as u16).to_be_bytes());
    bytes.extend([first, 64]);
    bytes.extend(src.octets());
    bytes.extend(dst.octets());
    bytes.extend(&extensions);
    bytes.extend(&payload.bytes);
    let ports = if fragment { (0, 0) } else { payload.ports };
    let fields = Fields {
        src: src.into(),
        dst: dst.into(),
        protocol,
        src_port: ports.0,
        dst_port: ports.1,
        flow_label: label,
    };
    around(bytes, fields, first, (fragment, later_fragment, true), payload)
}

/// The chain of a header and what it carries: a fragment is no tunnel, and a later one quotes nothing.
fn around(
    bytes: Vec<u8>,
    fields: Fields,
    first: u8,
    (fragment, later_fragment, dont_fragment): (bool, bool, bool),
    payload: Payload,
) -> Chain {
    let label = fields.flow_label;
    let inner = match payload.carried {
        _ if fragment => None,
        None => payload.opaque.then_some(fields),
        Some(carried) => Some(innermost(&carried, label)),
    };
    // Behind extension headers IPv6 does not look for what an error quotes.
    let looks = !later_fragment && (fields.src.is_ipv4() || first == 58);
    let quoted = payload.quoted.filter(|_| looks).map(|quoted| {
        let protocol = if fields.src.is_ipv4() { quoted.fields.protocol } else { quoted.first };
        Fields { protocol, ..quoted.fields }
    });
    Chain { bytes, fields, first, fragment, dont_fragment, inner, quoted }
}

/// The last header of a chain of tunnels; a flow label of zero is none, and leaves that of a header
/// further out.
fn innermost(carried: &Chain, label: u32) -> Fields {
    let Chain { fields, inner, .. } = *carried;
    let label_of = |fields: Fields| match fields.flow_label {
        _ if fields.src.is_ipv4() => 0,
        0 => label,
        own => own,
    };
    let own = Fields { flow_label: label_of(fields), ..fields };
    match inner {
        None => own,
        Some(inner) => Fields { flow_label: label_of(inner), ..inner },
    }
}
