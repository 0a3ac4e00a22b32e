//! Resets for segments that do not belong to the connection (RFC 9293 section 3.10.7).

use crate::packet::seq::Seq;
use crate::packet::{DEFAULT_TTL, Ecn, Network, Packet, Tcp, TcpFlags, TcpOptions};
use crate::tcp::segment::Segment;
use crate::tcp::{Connection, Cx};

impl Connection {
    /// Resets the sender of a segment for a half-open connection, by the rules for closed ones
    /// (RFC 9293 section 3.10.7.1).
    pub(in crate::tcp) fn reset_stray_for(&mut self, seg: &Segment<'_>, cx: &mut Cx<'_>) {
        if seg.tcp.flags.contains(TcpFlags::ACK) {
            return self.reset_stray(seg, cx);
        }
        cx.mib.out_rsts += 1;
        let flags = TcpFlags::RST | TcpFlags::ACK;
        let header =
            Tcp { ack: seg.end_seq, ..self.header(Seq(0), flags, 0, TcpOptions::default()) };
        self.reset_out(header, seg, cx);
    }

    /// Sends a reset that belongs to no connection (`tcp_v4_send_reset`).
    fn reset_out(&mut self, header: Tcp, seg: &Segment<'_>, cx: &mut Cx<'_>) {
        let reset = self.control_packet(header, Ecn::NotEct, cx);
        Self::answer_out(reset, seg, cx);
    }

    /// Sends what answers a segment without a socket of its own: the DSCP is that of the segment, the TTL that of nobody
    /// (`ip_send_unicast_reply`, `tcp_v6_send_response`).
    pub(in crate::tcp) fn answer_out(mut answer: Packet, seg: &Segment<'_>, cx: &mut Cx<'_>) {
        let dscp = seg.packet.network.tos() & !3;
        match &mut answer.network {
            Network::Ipv4(ip) => (ip.tos, ip.ttl) = (dscp | ip.tos & 3, DEFAULT_TTL),
            Network::Ipv6(ip) => {
                (ip.traffic_class, ip.hop_limit) = (dscp | ip.traffic_class & 3, DEFAULT_TTL);
            }
            Network::Other(_) => {}
        }
        cx.egress.transmit(cx.now, &mut answer);
    }

    /// Resets the sender of a segment that does not belong here, at its own numbers.
    pub(in crate::tcp) fn reset_stray(&mut self, seg: &Segment<'_>, cx: &mut Cx<'_>) {
        cx.mib.out_rsts += 1;
        let header = self.header(seg.tcp.ack, TcpFlags::RST, 0, TcpOptions::default());
        self.reset_out(Tcp { ack: Seq(0), ..header }, seg, cx);
    }
}
