//! Valid frames of many kinds, built by etherparse.

use etherparse::{PacketBuilder, TcpOptionElement};
use proptest::prelude::*;

pub fn any_bytes(max: usize) -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(any::<u8>(), 0..max)
}

fn any_tcp_options() -> impl Strategy<Value = Vec<TcpOptionElement>> {
    let element = prop_oneof![
        Just(TcpOptionElement::Noop),
        any::<u16>().prop_map(TcpOptionElement::MaximumSegmentSize),
        any::<u8>().prop_map(TcpOptionElement::WindowScale),
        Just(TcpOptionElement::SelectiveAcknowledgementPermitted),
        any::<(u32, u32)>()
            .prop_map(|first| TcpOptionElement::SelectiveAcknowledgement(first, [None; 3])),
        any::<(u32, u32)>().prop_map(|(a, b)| TcpOptionElement::Timestamp(a, b)),
    ];
    prop_oneof![
        Just(vec![]),
        any::<(u32, u32)>().prop_map(|(a, b)| vec![
            TcpOptionElement::Noop,
            TcpOptionElement::Noop,
            TcpOptionElement::Timestamp(a, b)
        ]),
        prop::collection::vec(element, 0..6),
    ]
}

#[derive(Clone, Debug)]
pub enum Layer4 {
    Tcp {
        seq: u32,
        ack: Option<u32>,
        window: u16,
        flags: [bool; 5],
        options: Vec<TcpOptionElement>,
    },
    Udp,
    IcmpEcho,
}

fn any_layer4() -> impl Strategy<Value = Layer4> {
    prop_oneof![
        3 => (any::<u32>(), any::<Option<u32>>(), any::<u16>(), any::<[bool; 5]>(), any_tcp_options())
            .prop_map(|(seq, ack, window, flags, options)| Layer4::Tcp {
                seq, ack, window, flags, options
            }),
        1 => Just(Layer4::Udp),
        1 => Just(Layer4::IcmpEcho),
    ]
}

#[derive(Clone, Debug)]
pub struct Shape {
    pub vlan: Option<u16>,
    pub v6: bool,
    pub ports: (u16, u16),
    pub ttl: u8,
    pub layer4: Layer4,
    pub payload: Vec<u8>,
}

pub fn any_shape() -> impl Strategy<Value = Shape> {
    (
        prop::option::weighted(0.2, 0u16..4096),
        any::<bool>(),
        any::<(u16, u16)>(),
        any::<u8>(),
        any_layer4(),
        any_bytes(300),
    )
        .prop_map(|(vlan, v6, ports, ttl, layer4, payload)| Shape {
            vlan,
            v6,
            ports,
            ttl,
            layer4,
            payload,
        })
}

/// The frame as etherparse builds it; `None` if its options do not fit.
pub fn build(shape: &Shape) -> Option<Vec<u8>> {
    macro_rules! transport {
        ($ip:expr) => {{
            let ip = $ip;
            let mut out = Vec::new();
            match &shape.layer4 {
                Layer4::Tcp { seq, ack, window, flags, options } => {
                    let mut tcp = ip.tcp(shape.ports.0, shape.ports.1, *seq, *window);
                    if let Some(ack) = ack {
                        tcp = tcp.ack(*ack);
                    }
                    let [syn, fin, psh, ece, cwr] = *flags;
                    tcp = if syn { tcp.syn() } else { tcp };
                    tcp = if fin { tcp.fin() } else { tcp };
                    tcp = if psh { tcp.psh() } else { tcp };
                    tcp = if ece { tcp.ece() } else { tcp };
                    tcp = if cwr { tcp.cwr() } else { tcp };
                    tcp.options(options).ok()?.write(&mut out, &shape.payload).unwrap();
                }
                Layer4::Udp => {
                    ip.udp(shape.ports.0, shape.ports.1).write(&mut out, &shape.payload).unwrap();
                }
                Layer4::IcmpEcho if shape.v6 => {
                    let echo = ip.icmpv6_echo_request(shape.ports.0, shape.ports.1);
                    echo.write(&mut out, &shape.payload).unwrap();
                }
                Layer4::IcmpEcho => {
                    let echo = ip.icmpv4_echo_request(shape.ports.0, shape.ports.1);
                    echo.write(&mut out, &shape.payload).unwrap();
                }
            }
            Some(out)
        }};
    }
    let ethernet = PacketBuilder::ethernet2([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]);
    let (v4, v6) = (([10, 0, 0, 1], [10, 0, 0, 2]), ([0xfd; 16], [0xfc; 16]));
    match (shape.vlan, shape.v6) {
        (None, false) => transport!(ethernet.ipv4(v4.0, v4.1, shape.ttl)),
        (None, true) => transport!(ethernet.ipv6(v6.0, v6.1, shape.ttl)),
        (Some(id), false) => {
            let tagged = ethernet.single_vlan(id.try_into().unwrap());
            transport!(tagged.ipv4(v4.0, v4.1, shape.ttl))
        }
        (Some(id), true) => {
            let tagged = ethernet.single_vlan(id.try_into().unwrap());
            transport!(tagged.ipv6(v6.0, v6.1, shape.ttl))
        }
    }
}
