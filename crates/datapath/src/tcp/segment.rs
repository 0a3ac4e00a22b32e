//! A segment as TCP reads it, and the way that it takes through the receiver.

use super::reassembly::truesize_of;
use crate::packet::seq::Seq;
use crate::packet::{Ecn, FlowLabel, Memory, Network, Packet, Tcp, TcpFlags};

/// A segment as TCP reads it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Segment<'a> {
    pub packet: &'a Packet,
    pub tcp: &'a Tcp,
    /// First sequence number.
    pub seq: Seq,
    /// Just past the last one; SYN and FIN count.
    pub end_seq: Seq,
    /// Payload bytes.
    pub len: u32,
    /// Wire segments that GRO or TSO made into this one.
    pub segments: u32,
    /// Payload of each of those; 0 if it is one.
    pub gso_size: u32,
    /// What a record of a send queue is charged as without data (`Profile::skb_overhead`).
    pub overhead: u32,
    /// Where its bytes lie.
    pub memory: Memory,
    /// ECN codepoint of the packet.
    pub ecn: Ecn,
}

impl<'a> Segment<'a> {
    /// Reads `packet`; `None` if it is not TCP. `overhead`: see [`overhead`](Self::overhead).
    pub fn of(packet: &'a Packet, overhead: u32) -> Option<Self> {
        let tcp = packet.tcp()?;
        let control = u32::from(tcp.flags.contains(TcpFlags::SYN))
            + u32::from(tcp.flags.contains(TcpFlags::FIN));
        Some(Self {
            packet,
            tcp,
            seq: tcp.seq,
            end_seq: tcp.seq + packet.body.len + control,
            len: packet.body.len,
            segments: packet.segments(),
            gso_size: packet.meta.gso_size.into(),
            overhead,
            memory: packet.memory,
            ecn: packet.network.ecn(),
        })
    }

    /// Memory that it is charged as.
    #[inline]
    pub fn truesize(&self) -> u32 {
        let headers = self.packet.finished_header_len();
        truesize_of(self.memory, headers, self.len, self.overhead)
    }

    /// It carries FIN.
    pub fn fin(&self) -> bool {
        self.tcp.flags.contains(TcpFlags::FIN)
    }

    /// Its flow label; none over IPv4.
    pub fn flow_label(&self) -> FlowLabel {
        match self.packet.network {
            Network::Ipv6(ip) => ip.flow_label,
            _ => FlowLabel::NONE,
        }
    }

    /// It carries one of these flags.
    pub fn has(&self, flags: TcpFlags) -> bool {
        self.tcp.flags.intersects(flags)
    }
}

/// Which way a segment takes through the receiver (the two of `tcp_rcv_established`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Path {
    /// It was predicted: it needs no second look.
    Fast,
    /// All that it says is looked at.
    Slow,
}
