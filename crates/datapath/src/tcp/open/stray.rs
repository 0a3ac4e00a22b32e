//! Resets for segments that do not belong to the connection (RFC 9293 section 3.10.7).

use crate::packet::seq::Seq;
use crate::packet::{Ecn, Tcp, TcpFlags, TcpOptions};
use crate::tcp::input::Segment;
use crate::tcp::{Connection, Cx};

impl Connection {
    /// Resets the sender of a segment for a half-open connection, by the rules for closed ones
    /// (RFC 9293 section 3.10.7.1).
    pub(in crate::tcp) fn reset_stray_for(&mut self, seg: &Segment<'_>, cx: &mut Cx<'_>) {
        if seg.tcp.flags.contains(TcpFlags::ACK) {
            return self.reset_stray(seg.tcp, cx);
        }
        cx.mib.out_rsts += 1;
        let flags = TcpFlags::RST | TcpFlags::ACK;
        let header =
            Tcp { ack: seg.end_seq, ..self.header(Seq(0), flags, 0, TcpOptions::default()) };
        self.reset_out(header, cx);
    }

    /// Sends a reset that belongs to no connection.
    fn reset_out(&mut self, header: Tcp, cx: &mut Cx<'_>) {
        let ecn = if self.is_accurate() { Ecn::NotEct } else { self.ecn_of_control() };
        self.control_out_as(header, ecn, cx);
        // No socket has sent it (`tcp_v4_send_reset`).
        self.totals.segs_out -= 1;
    }

    /// Resets the sender of a segment that does not belong here, at its own numbers.
    pub(in crate::tcp) fn reset_stray(&mut self, tcp: &Tcp, cx: &mut Cx<'_>) {
        cx.mib.out_rsts += 1;
        let header =
            Tcp { ack: Seq(0), ..self.header(tcp.ack, TcpFlags::RST, 0, TcpOptions::default()) };
        self.reset_out(header, cx);
    }
}
