//! What an arriving segment means: acceptability, states, FIN and RST
//! (`tcp_rcv_established`, `tcp_rcv_state_process`, RFC 9293 section 3.10.7).

use super::ack_in::AckVerdict;
use super::output::Push;
use super::passive::RequestCheck;
use super::segment::{Path, Segment};
use super::state::State;
use super::{Connection, Cx, SocketError};
use crate::node::SocketReady;
use crate::packet::{Packet, TcpFlags};
use crate::units::Instant;
use core::num::NonZeroU32;

impl Connection {
    /// A segment for this connection arrived.
    pub fn segment_arrives(&mut self, packet: &Packet, cx: &mut Cx<'_>) {
        let Some(seg) = Segment::of(packet, self.config.profile.skb_overhead) else {
            return;
        };
        if !self.md5_allows(packet, cx) {
            return;
        }
        self.ack.clock = cx.now;
        self.totals.segs_in = self.totals.segs_in.wrapping_add(seg.segments);
        if seg.len > 0 {
            self.totals.data_segs_in = self.totals.data_segs_in.wrapping_add(seg.segments);
        }
        cx.mib.in_segs += u64::from(seg.segments);
        // Timestamps that were not negotiated are ignored (`tcp_parse_options`).
        let timestamps = seg.tcp.options.timestamps.filter(|_| self.opt.timestamps);
        self.ack.rcv_tsecr = timestamps.and_then(|ts| NonZeroU32::new(ts.echo));
        match self.state {
            State::Close | State::Listen => {}
            State::SynSent => self.syn_sent(&seg, cx),
            State::TimeWait => self.uncounted(&seg, cx, Self::time_wait_segment),
            State::FinWait2 if self.waits_as_time_wait() => {
                self.uncounted(&seg, cx, Self::fin_wait_segment);
            }
            State::Established
            | State::SynRecv
            | State::FinWait1
            | State::FinWait2
            | State::CloseWait
            | State::LastAck
            | State::Closing => self.synchronized(&seg, cx),
        }
    }

    /// Nothing counts for the connection any more: a TIME-WAIT socket has taken its place (`struct
    /// tcp_timewait_sock`).
    fn uncounted(
        &mut self,
        seg: &Segment<'_>,
        cx: &mut Cx<'_>,
        act: impl FnOnce(&mut Self, &Segment<'_>, &mut Cx<'_>),
    ) {
        let mut totals = self.totals;
        totals.segs_in -= seg.segments;
        totals.data_segs_in -= if seg.len > 0 { seg.segments } else { 0 };
        act(self, seg, cx);
        self.totals = totals;
    }

    /// Every state after the SYNs.
    fn synchronized(&mut self, seg: &Segment<'_>, cx: &mut Cx<'_>) {
        if self.state == State::SynRecv
            && (cx.gate.request || self.is_passive_fast_open())
            && self.check_request(seg, cx) == RequestCheck::Drop
        {
            if !self.is_passive_fast_open() {
                // The listener's: the connection counts from the segment that opens it.
                self.totals.segs_in = 1;
                self.totals.data_segs_in = 0;
            }
            return;
        }
        // A predicted one is valid.
        let path = self.path_of(seg);
        if path == Path::Slow
            && (!seg.has(TcpFlags::ACK | TcpFlags::RST | TcpFlags::SYN) || !self.validate(seg, cx))
        {
            return;
        }
        // Predicted data that acknowledges nothing new is no ACK (`tcp_rcv_established`).
        let is_only_data = path == Path::Fast && seg.len > 0 && seg.tcp.ack == self.snd.una;
        self.ecn_received(seg);
        let was_established = self.state == State::Established;
        let completes_open = self.state == State::SynRecv;
        if completes_open && !self.complete_passive_open(seg, cx) {
            return;
        }
        if !seg.has(TcpFlags::ACK) {
            return;
        }
        let recent = self.opt.ts_recent;
        // A segment that acknowledges what cannot be says nothing of time, either (`tcp_ack`).
        if path == Path::Fast || self.ack_tells_time(seg) {
            self.update_ts_recent(seg.seq, seg.tcp, cx.now);
        }
        self.ecn.acc.timestamp_advanced = self.opt.ts_recent != recent;
        if path == Path::Fast && seg.len > 0 && !is_only_data {
            self.predicted_data(seg, cx);
            return;
        }
        // The ACK that completed the handshake has been digested.
        if is_only_data {
            self.snd.wl1 = seg.seq;
        } else if !completes_open && self.ack_in(seg, path, cx) == AckVerdict::Unacceptable {
            // Half the space away it is too old as well, and has been challenged for that.
            if seg.tcp.ack.after(self.snd.nxt) && !seg.tcp.ack.before(self.snd.una) {
                self.send_challenge_ack(cx);
            }
            return;
        }
        if self.rare.is_some() {
            self.after_rare_ack(seg, cx);
        }
        if !self.process_fin_ack(seg, cx) {
            return;
        }
        if self.rare.is_some() || seg.has(TcpFlags::URG) {
            self.urgent_arrives(seg, cx);
        }
        if was_established {
            self.rcv_rtt_measure_ts(seg, cx.now);
        }
        self.receive_payload(seg, path, cx);
        if !is_only_data {
            self.data_snd_check(cx);
        }
        // A predicted pure ACK asks for no ACK, though it may have changed the codepoint.
        if path == Path::Slow || seg.len > 0 {
            self.ack_snd_check(cx);
        }
    }

    /// Predicted data that acknowledges something: the data comes first, so that what the ACK sends
    /// acknowledges it (`tcp_rcv_established`).
    fn predicted_data(&mut self, seg: &Segment<'_>, cx: &mut Cx<'_>) {
        self.rcv_rtt_measure_ts(seg, cx.now);
        self.data_queue(seg, Path::Fast, cx);
        self.ack_in(seg, Path::Fast, cx);
        if self.rare.is_some() {
            self.after_rare_ack(seg, cx);
        }
        self.data_snd_check(cx);
        self.ack_snd_check(cx);
    }

    /// Whether an ACK that was not foreseen is one whose timestamp counts.
    fn ack_tells_time(&self, seg: &Segment<'_>) -> bool {
        let late =
            if self.config.profile.old_acks_update_ts_recent { self.honest_lateness() } else { 0 };
        !seg.tcp.ack.before(self.snd.una - late) && !seg.tcp.ack.after(self.snd.nxt)
    }

    /// What few connections have to do after an ACK.
    #[cold]
    fn after_rare_ack(&mut self, seg: &Segment<'_>, cx: &mut Cx<'_>) {
        if self.is_passive_fast_open() && !seg.tcp.ack.before(self.snd.iss + 1) {
            // Closed before the handshake was over, which it is now.
            self.fast_open_accomplished(cx);
        }
        self.stamp_acked(cx);
        self.zerocopy_acked(cx);
    }

    /// Payload and FIN in the states that may receive.
    fn receive_payload(&mut self, seg: &Segment<'_>, path: Path, cx: &mut Cx<'_>) {
        match self.state {
            State::CloseWait | State::Closing | State::LastAck if !seg.seq.before(self.rcv.nxt) => {
            }
            State::CloseWait
            | State::Closing
            | State::LastAck
            | State::FinWait1
            | State::FinWait2 => {
                if self.aborts_on(seg, cx) {
                    return;
                }
                self.data_queue(seg, Path::Slow, cx);
            }
            State::Established => self.data_queue(seg, path, cx),
            State::SynSent | State::SynRecv | State::TimeWait | State::Close | State::Listen => {}
        }
    }

    /// RFC 9293 section 3.6: data that nobody will read resets the connection. True: it did.
    fn aborts_on(&mut self, seg: &Segment<'_>, cx: &mut Cx<'_>) -> bool {
        let end = seg.end_seq - u32::from(seg.fin());
        let shut = self.shut_read || self.rcv.fin_received;
        if !shut || seg.end_seq == seg.seq || !end.after(self.rcv.nxt) {
            return false;
        }
        cx.mib.abort_on_data += 1;
        self.reset_stray(seg, cx);
        self.fail(self.error_of_reset(), cx);
        true
    }

    /// Sends what the ACK has made possible (`tcp_data_snd_check`).
    pub(super) fn data_snd_check(&mut self, cx: &mut Cx<'_>) {
        if !self.state.may_transmit() {
            return;
        }
        // With nothing to send the window is not checked, and so not found too small.
        if !self.queue.unsent_is_empty()
            && self.write_xmit(self.current_mss(cx.now), self.snd.nonagle, Push::All, cx)
        {
            self.check_probe_timer(cx.now);
        }
        self.check_space(cx);
    }

    /// RFC 9293 section 3.10.7.4, first to fourth check, with RFC 7323 and RFC 5961
    /// (`tcp_validate_incoming`). False: the segment is dropped.
    fn validate(&mut self, seg: &Segment<'_>, cx: &mut Cx<'_>) -> bool {
        if self.paws_rejects(seg.tcp, seg.len, cx.now) && !seg.has(TcpFlags::RST) {
            if seg.has(TcpFlags::SYN) {
                self.syn_challenge(seg, cx);
                return false;
            }
            let pure_ack = seg.seq == seg.end_seq && seg.has(TcpFlags::ACK);
            if pure_ack && seg.seq.before(self.rcv.nxt) && self.config.profile.strict_receive_window
            {
                // Overtaken on the way: there is nothing to tell its sender.
                cx.mib.paws_old_ack += 1;
                return false;
            }
            cx.mib.paws_estab += 1;
            if !self.is_oow_limited_ack(seg, cx.now, &mut cx.mib.ack_skipped_paws) {
                self.send_dup_ack(seg, cx);
            }
            return false;
        }
        if !self.is_in_sequence(seg) {
            if seg.has(TcpFlags::RST) {
                if self.resets_after_fin(seg) {
                    self.reset_arrives(seg, cx);
                }
                return false;
            }
            if seg.has(TcpFlags::SYN) {
                self.syn_challenge(seg, cx);
                return false;
            }
            cx.mib.beyond_window += u64::from(
                self.config.profile.strict_receive_window
                    && seg.end_seq.after(self.rcv.nxt + self.rcv.window())
                    && !seg.end_seq.before(self.rcv.wup),
            );
            if !self.is_oow_limited_ack(seg, cx.now, &mut cx.mib.ack_skipped) {
                self.send_dup_ack(seg, cx);
            }
            return false;
        }
        if seg.has(TcpFlags::RST) {
            self.reset_arrives(seg, cx);
            return false;
        }
        if seg.has(TcpFlags::SYN) {
            let crosses = self.state == State::SynRecv
                && seg.has(TcpFlags::ACK)
                && seg.seq + 1 == seg.end_seq
                && seg.seq + 1 == self.rcv.nxt
                && seg.tcp.ack == self.snd.nxt;
            // Both ends opened at once: the SYN-ACK is what the handshake waits for.
            if !crosses {
                self.syn_challenge(seg, cx);
            }
            return crosses;
        }
        true
    }

    /// Whether a segment lies in the window (`tcp_sequence`). One that reaches beyond it passes
    /// only while nothing waits to be read, so that a broken sender does not freeze.
    fn is_in_sequence(&self, seg: &Segment<'_>) -> bool {
        if seg.end_seq.before(self.rcv.wup) {
            return false;
        }
        if !self.config.profile.strict_receive_window {
            return !seg.seq.after(self.rcv.nxt + self.rcv.window());
        }
        let end = self.rcv.nxt + self.acceptable_window();
        if seg.end_seq.after(end) {
            // Some stacks put a FIN behind a full window: it is looked at later.
            if seg.fin() && !(seg.end_seq - 1).after(end) {
                return true;
            }
            return !seg.seq.after(end) && self.rcv.queue_is_empty();
        }
        true
    }

    /// Some stacks reset at the number of their FIN (`tcp_reset_check`).
    fn resets_after_fin(&self, seg: &Segment<'_>) -> bool {
        seg.seq + 1 == self.rcv.nxt
            && matches!(self.state, State::CloseWait | State::LastAck | State::Closing)
    }

    /// RFC 5961 section 4: a SYN in a synchronised state.
    fn syn_challenge(&mut self, seg: &Segment<'_>, cx: &mut Cx<'_>) {
        cx.mib.syn_challenge += 1;
        // An error only to `tcp_rcv_established` (`syn_inerr`).
        cx.mib.in_errs += u64::from(self.state == State::Established);
        // Perhaps our ACK of the SYN-ACK was lost: its contents are sent again.
        self.ecn.acc.reflect = Some(seg.ecn);
        self.send_challenge_ack(cx);
        self.ecn.acc.reflect = None;
    }

    /// Pure ACKs and SYNs outside the window are answered at a limited rate (`tcp_oow_rate_limited`).
    pub(super) fn is_oow_limited_ack(
        &mut self,
        seg: &Segment<'_>,
        now: Instant,
        skipped: &mut u64,
    ) -> bool {
        let carries_data = seg.end_seq != seg.seq && !seg.has(TcpFlags::SYN);
        !carries_data && self.oow_rate_limited(now, skipped)
    }

    /// Sends the peer a duplicate ACK, with DSACK if it repeats itself (`tcp_send_dupack`).
    fn send_dup_ack(&mut self, seg: &Segment<'_>, cx: &mut Cx<'_>) {
        if seg.end_seq != seg.seq && seg.seq.before(self.rcv.nxt) {
            cx.mib.delayed_ack_lost += 1;
            self.enter_quickack_mode(super::ack_out::MAX_QUICKACKS);
            self.accurate_spurious_retransmission(seg.seq);
            if self.is_sack() && self.config.sysctl.tcp_dsack != 0 {
                self.rehash_on_duplicate(seg, cx);
                let end = seg.end_seq.min(self.rcv.nxt);
                self.set_dsack(seg.seq, end, cx);
            }
        }
        self.send_ack(cx);
    }

    /// RFC 5961 section 3: only an exactly placed RST resets; others are challenged.
    fn reset_arrives(&mut self, seg: &Segment<'_>, cx: &mut Cx<'_>) {
        let exact = seg.seq == self.rcv.nxt
            || self.rcv.highest_reported() == Some(seg.seq)
            || self.resets_after_fin(seg);
        if exact {
            self.fail(self.error_of_reset(), cx);
        } else {
            self.send_challenge_ack(cx);
        }
    }

    /// What a reset tells the application: who has been told that the peer is done hears that nobody reads
    /// (`tcp_reset`).
    fn error_of_reset(&self) -> SocketError {
        if self.state == State::CloseWait { SocketError::BrokenPipe } else { SocketError::Reset }
    }

    /// States that wait for the ACK of our FIN. False: the connection is over.
    fn process_fin_ack(&mut self, seg: &Segment<'_>, cx: &mut Cx<'_>) -> bool {
        let fin_acked = self.snd.fin_queued && self.snd.una == self.snd.write_seq;
        if !fin_acked {
            return true;
        }
        match self.state {
            State::FinWait1 => {
                self.state = State::FinWait2;
                cx.ready |= SocketReady::WRITABLE;
                if self.orphan {
                    return self.orphan_waits_for_fin(seg, cx);
                }
            }
            State::Closing => {
                self.enter_time_wait(cx);
                return false;
            }
            State::LastAck => {
                self.update_metrics(cx);
                self.done(cx);
                return false;
            }
            State::Established
            | State::SynSent
            | State::SynRecv
            | State::FinWait2
            | State::TimeWait
            | State::Close
            | State::CloseWait
            | State::Listen => {}
        }
        true
    }

    /// Our FIN is acknowledged and nobody will read: waits for the peer's, unless data came instead or nobody wants to
    /// wait (`TCP_LINGER2` below 0): that is answered by a reset. False: the connection is over.
    fn orphan_waits_for_fin(&mut self, seg: &Segment<'_>, cx: &mut Cx<'_>) -> bool {
        let beyond = seg.len > 0 && (seg.seq + seg.len).after(self.rcv.nxt);
        if beyond || !self.start_fin_wait_timer(cx.now) {
            cx.mib.abort_on_data += 1;
            self.reset_stray(seg, cx);
            self.done(cx);
            return false;
        }
        if !seg.fin() {
            self.keep_window_for_time_wait(self.fin_time(), cx);
        }
        true
    }

    /// The peer's FIN, in order (`tcp_fin`).
    pub(super) fn fin(&mut self, cx: &mut Cx<'_>) {
        self.ack.scheduled = true;
        self.rcv.fin_received = true;
        cx.ready |= SocketReady::READABLE | SocketReady::STATE;
        match self.state {
            State::SynRecv | State::Established => {
                self.state = State::CloseWait;
                self.ack.pingpong = 1;
            }
            State::FinWait1 => {
                // Simultaneous close.
                self.send_ack(cx);
                self.state = State::Closing;
            }
            State::FinWait2 => {
                self.send_ack(cx);
                self.enter_time_wait(cx);
            }
            State::SynSent
            | State::TimeWait
            | State::Close
            | State::CloseWait
            | State::LastAck
            | State::Listen
            | State::Closing => {}
        }
        // Nothing follows a FIN: what seems to is thrown away, and its blocks are forgotten.
        self.rcv.rmem_alloc -= self.rcv.out_of_order.purge();
        self.forget_pruned();
        self.rcv.blocks.clear();
        self.rcv.dsack = None;
    }
}
