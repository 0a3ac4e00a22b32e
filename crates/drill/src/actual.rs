//! What a host sent, in the numbers and words of the script.

use crate::ast::{OptionSpec, Outer};
use crate::encap;
use crate::wire::Offsets;
use datapath::packet::option_kind as kind;
use datapath::packet::options::{AccEcnCounters, RawOption, TcpOption};
use datapath::packet::{Network, Packet, TcpFlags, Transport};

/// A packet that a host sent.
#[derive(Clone, Debug, PartialEq)]
pub struct ActualPacket {
    /// Headers around it, outermost first.
    pub outer: Vec<Outer>,
    /// Its network header.
    pub network: Network,
    /// Its transport header.
    pub transport: ActualTransport,
    /// Bytes of payload.
    pub len: u32,
}

/// The transport header of an [`ActualPacket`].
#[derive(Clone, Debug, PartialEq)]
pub enum ActualTransport {
    /// TCP.
    Tcp(ActualTcp),
    /// UDP.
    Udp,
    /// ICMP or ICMPv6.
    Icmp {
        /// Type.
        kind: u8,
        /// Code.
        code: u8,
    },
    /// Another protocol, by its number.
    Other(u8),
}

/// A TCP header that a host sent.
#[derive(Clone, Debug, PartialEq)]
pub struct ActualTcp {
    /// Flags, the AE bit included.
    pub flags: u16,
    /// Sequence number.
    pub seq: u32,
    /// Acknowledgment number.
    pub ack: u32,
    /// Window field.
    pub window: u16,
    /// Urgent pointer.
    pub urgent: u16,
    /// Options in wire order, NOPs included.
    pub options: Vec<OptionSpec>,
}

impl ActualPacket {
    /// Reads a packet; `offsets` are taken off its numbers.
    pub fn of(packet: &Packet, offsets: Offsets) -> Self {
        let (outer, packet) = encap::unwrapped(packet);
        let transport = match &packet.transport {
            Transport::Tcp(tcp) => {
                let mut scratch = [0; 40];
                let bytes = packet.tcp_option_bytes(&mut scratch).unwrap_or_default();
                let acks = tcp.flags.contains(TcpFlags::ACK);
                ActualTransport::Tcp(ActualTcp {
                    flags: tcp.flags.0,
                    seq: tcp.seq.0.wrapping_sub(offsets.local),
                    ack: if acks { tcp.ack.0.wrapping_sub(offsets.remote) } else { tcp.ack.0 },
                    window: tcp.window,
                    urgent: tcp.urgent,
                    options: options(bytes, offsets.remote),
                })
            }
            Transport::Udp(_) => ActualTransport::Udp,
            Transport::Icmp(icmp) => ActualTransport::Icmp { kind: icmp.kind, code: icmp.code },
            Transport::None => ActualTransport::Other(packet.network.protocol().unwrap_or(0)),
        };
        Self { outer, network: packet.network, transport, len: packet.body.len }
    }

    /// The TCP header, if it has one.
    pub const fn tcp(&self) -> Option<&ActualTcp> {
        match &self.transport {
            ActualTransport::Tcp(tcp) => Some(tcp),
            _ => None,
        }
    }
}

/// Options as they lie on the wire; `sack` is taken off the edges of SACK blocks.
pub fn options(mut bytes: &[u8], sack: u32) -> Vec<OptionSpec> {
    let mut list = Vec::new();
    while let [first, rest @ ..] = bytes {
        match (*first, rest) {
            (kind::NOP, rest) => {
                list.push(OptionSpec::Nop);
                bytes = rest;
            }
            (kind::EOL, rest) => {
                list.push(OptionSpec::Eol);
                bytes = rest;
            }
            (number, [len, rest @ ..]) if *len >= 2 && usize::from(*len) <= rest.len() + 2 => {
                let (data, rest) = rest.split_at(usize::from(*len) - 2);
                list.push(option(number, data, sack));
                bytes = rest;
            }
            (number, rest) => {
                list.push(OptionSpec::Other(number, rest.to_vec()));
                return list;
            }
        }
    }
    list
}

fn option(number: u8, data: &[u8], sack: u32) -> OptionSpec {
    match (RawOption { kind: number, data }).decode() {
        TcpOption::Mss(mss) => OptionSpec::Mss(mss),
        TcpOption::WindowScale(shift) => OptionSpec::WindowScale(shift),
        TcpOption::SackPermitted => OptionSpec::SackOk,
        TcpOption::Sack(blocks) => OptionSpec::Sack(
            blocks
                .as_slice()
                .iter()
                .map(|it| (it.start.0.wrapping_sub(sack), it.end.0.wrapping_sub(sack)))
                .collect(),
        ),
        TcpOption::Timestamps(it) => OptionSpec::Timestamps(it.value, it.echo),
        TcpOption::FastOpen { cookie, experimental } => {
            OptionSpec::FastOpen { cookie: cookie.to_vec(), experimental }
        }
        TcpOption::Md5(digest) => OptionSpec::Md5(digest.to_vec()),
        TcpOption::AccEcn(AccEcnCounters { ee0b, eceb, ee1b }) => {
            let e0_first = number == kind::ACC_ECN_0;
            let order = if e0_first { [ee0b, eceb, ee1b] } else { [ee1b, eceb, ee0b] };
            OptionSpec::AccEcn { e0_first, counters: order.into_iter().flatten().collect() }
        }
        TcpOption::Ao { .. } | TcpOption::Mptcp(_) | TcpOption::Unknown(_) => {
            OptionSpec::Other(number, data.to_vec())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::option_bytes;

    #[test]
    fn options_come_back() {
        let list = vec![
            OptionSpec::Mss(1460),
            OptionSpec::SackOk,
            OptionSpec::Timestamps(1, 2),
            OptionSpec::Nop,
            OptionSpec::WindowScale(8),
            OptionSpec::Sack(vec![(1, 2)]),
            OptionSpec::FastOpen { cookie: vec![1, 2, 3, 4], experimental: true },
        ];
        assert_eq!(options(&option_bytes(&list, 10), 10), list);
        let list = vec![
            OptionSpec::AccEcn { e0_first: false, counters: vec![1, 2, 3] },
            OptionSpec::Other(77, vec![5]),
            OptionSpec::Md5(vec![7; 16]),
            OptionSpec::Eol,
        ];
        assert_eq!(options(&option_bytes(&list, 0), 0), list);
    }
}
