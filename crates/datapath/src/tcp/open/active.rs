//! Opening actively (`tcp_v4_connect`, `tcp_rcv_synsent_state_process`).

use crate::node::SocketReady;
use crate::packet::{Tcp, TcpFlags};
use crate::tcp::bytes::Payload;
use crate::tcp::endpoints::Endpoints;
use crate::tcp::options::TIMESTAMPS_LEN;
use crate::tcp::segment::{Path, Segment};
use crate::tcp::state::State;
use crate::tcp::timer::{Pending, TIMEOUT_MIN};
use crate::tcp::{Connection, Cx, SocketError, TcpConfig};
use std::sync::Arc;

impl Connection {
    /// Opens actively: sends the SYN (`tcp_v4_connect`, `tcp_connect`). `fast_open`: bytes that
    /// the application has to send, so that the SYN may carry some of them or ask for a cookie;
    /// [`syn_data_taken`](Self::syn_data_taken) tells how many went.
    pub fn connect(
        id: u32,
        config: Arc<TcpConfig>,
        ends: Endpoints,
        fast_open: Option<Payload<'_>>,
        cx: &mut Cx<'_>,
    ) -> Self {
        let mut conn = Self::new(id, config, ends);
        conn.start_ts_clock(cx.now);
        conn.state = State::SynSent;
        conn.opt.timestamps = conn.config.sysctl.tcp_timestamps != 0;
        let mss = conn.opt.advmss;
        // The peer is assumed to take little until it tells more (`tcp_connect_init`).
        conn.snd.mss_clamp = conn.mss_clamp_of_syn();
        conn.sync_mss();
        // By a window that was not chosen yet (`tcp_connect_init`).
        conn.initialize_rcv_mss();
        let may_scale = true; // The SYN-ACK will tell whether the peer does.
        conn.choose_initial_window(mss, may_scale);
        conn.rec.retrans_stamp = conn.stamp(cx.now);
        cx.mib.active_opens += 1;
        let flags = TcpFlags::SYN | conn.ecn_request(ends.ecn);
        match fast_open {
            Some(payload) => {
                conn.send_fast_open_syn(flags, payload, cx);
            }
            None => conn.send_handshake(flags, cx),
        }
        conn
    }

    /// Bytes of data that went with the SYN.
    pub fn syn_data_taken(&self) -> u32 {
        self.rare.as_ref().map_or(0, |rare| rare.fast_open.copied)
    }

    /// SYN-SENT: the answer arrives, or the peer opens at the same time
    /// (`tcp_rcv_synsent_state_process`).
    pub(in crate::tcp) fn syn_sent(&mut self, seg: &Segment<'_>, cx: &mut Cx<'_>) {
        let tcp = seg.tcp;
        let acks = tcp.flags.contains(TcpFlags::ACK);
        if acks && (!tcp.ack.after(self.snd.una) || tcp.ack.after(self.snd.nxt)) {
            // Not an answer to our SYN (RFC 9293 section 3.10.7.3). What we are going to reset may
            // be in our way: ask again soon.
            if self.retransmits == 0 {
                self.reset_xmit_timer(Pending::Retransmit, TIMEOUT_MIN, cx.now);
            }
            if !tcp.flags.contains(TcpFlags::RST) {
                self.reset_stray(seg, cx);
            }
            return;
        }
        if acks && self.echoes_foreign_timestamp(tcp, cx) {
            cx.mib.paws_active += 1;
            if !tcp.flags.contains(TcpFlags::RST) {
                self.reset_stray(seg, cx);
            }
            return;
        }
        if tcp.flags.contains(TcpFlags::RST) {
            if acks {
                self.fail(SocketError::Refused, cx);
            }
            return;
        }
        if !tcp.flags.contains(TcpFlags::SYN) {
            return;
        }
        if !acks && self.is_from_before(tcp, cx.now) {
            return;
        }
        let own_scale = self.opt.rcv_wscale;
        self.learn_peer_options(tcp, cx);
        if acks && !self.opt.wscale_ok {
            self.rcv.window_clamp = self.rcv.window_clamp.min(u16::MAX.into());
        }
        self.rcv.nxt = tcp.seq + 1;
        self.rcv.wup = self.rcv.nxt;
        self.rcv.copied_seq = self.rcv.nxt;
        self.snd.wl1 = tcp.seq;
        self.snd.wnd = tcp.window.into();
        self.snd.max_window = self.snd.wnd;
        if !acks {
            self.rare().crossing_scale = Some(own_scale);
            if self.opt.timestamps {
                // It is whole until the connection is established (`tcp_rcv_state_process`).
                self.opt.advmss += TIMESTAMPS_LEN;
            }
            self.opt.rcv_wscale = own_scale;
            self.simultaneous_open(seg, cx);
            return;
        }
        self.ecn_syn_answered(seg);
        self.undo_spurious_syn();
        self.snd.mss = self.mss_of_answer();
        self.ack_in(seg, Path::Slow, cx);
        if self.rare.is_some() {
            self.zerocopy_acked(cx);
        }
        self.finish_connect(cx);
        self.expected = None;
        if self.opt.snd_wscale == 0 {
            self.predict();
        }
        let resent = self.fast_open_answered(seg.packet, cx);
        // Data of a SYN-ACK is taken where Fast Open was asked for (`tcp_rcv_fastopen_synack`).
        if self.rare.as_ref().is_some_and(|rare| rare.fast_open.asked || rare.fast_open.syn_data) {
            self.add_syn_data(seg, cx);
            if seg.len > 0 {
                // It is counted once more, after nothing (`tcp_fastopen_add_skb`).
                self.totals.segs_in = seg.segments;
                self.totals.data_segs_in = self.totals.data_segs_in.wrapping_add(seg.segments);
            }
        }
        cx.ready |= SocketReady::WRITABLE;
        if resent {
            return;
        }
        if self.rare.as_ref().is_some_and(|rare| rare.write_pending)
            || self.config.socket.defer_accept > 0
            || self.in_pingpong()
        {
            // Data is about to go and will carry the ACK.
            self.ack.scheduled = true;
            self.enter_quickack_mode(crate::tcp::ack_out::MAX_QUICKACKS);
            self.delay_handshake_ack(cx.now);
            return;
        }
        self.send_reflecting_ack(seg.ecn, cx);
    }

    /// The ACK of the handshake waits for data to carry it, 200 ms at most.
    fn delay_handshake_ack(&mut self, now: crate::units::Instant) {
        const DELACK_MAX: u64 = 200;
        self.ack.timer = true;
        self.ack.timeout = self.jiffies_clock().now(now) + DELACK_MAX;
        let expiry = self.jiffies_clock().wheel_expiry(now, DELACK_MAX);
        self.timers.place(crate::tcp::timer::Timer::DelayedAck, now, expiry);
    }

    /// The echoed timestamp is from before our SYN, or from the future: another connection's.
    fn echoes_foreign_timestamp(&self, tcp: &Tcp, cx: &Cx<'_>) -> bool {
        let Some(ts) = tcp.options.timestamps.filter(|ts| ts.echo != 0) else { return false };
        let Some(first) = self.rec.retrans_stamp.filter(|_| self.opt.timestamps) else {
            return false;
        };
        let behind = ts.echo.wrapping_sub(first.get()) as i32;
        let ahead = ts.echo.wrapping_sub(self.ts_now(cx.now).max(1)) as i32;
        behind < 0 || ahead > 0
    }

    /// A SYN that is older than what the connection in TIME-WAIT has heard which this one has taken over
    /// (`tcp_paws_reject` in `tcp_rcv_synsent_state_process`).
    fn is_from_before(&self, tcp: &Tcp, now: crate::units::Instant) -> bool {
        let told = tcp.options.timestamps.filter(|_| self.opt.ts_recent_stamp != 0);
        told.is_some_and(|ts| self.is_older(ts.value, 0, now))
    }

    /// The answer echoes the first SYN: sending it again was needless
    /// (`tcp_try_undo_spurious_syn`).
    pub(super) fn undo_spurious_syn(&mut self) {
        if self.rec.undo_marker.is_some()
            && self.rec.retrans_stamp.is_some()
            && self.ack.rcv_tsecr == self.rec.retrans_stamp
        {
            self.rec.undo_marker = None;
        }
    }

    /// Both ends sent a SYN: answer with a SYN-ACK (RFC 9293 figure 8).
    fn simultaneous_open(&mut self, seg: &Segment<'_>, cx: &mut Cx<'_>) {
        self.state = State::SynRecv;
        self.sync_mss();
        self.initialize_rcv_mss();
        if let Some(head) = self.queue.rtx_head() {
            let flags = TcpFlags::SYN | TcpFlags::ACK | self.ecn_crossing_syn(seg);
            self.queue.get_mut(head).flags = flags;
            // It is a SYN-ACK for the first time, not a SYN once more (`tcp_send_synack`).
            // Its number has been sent already.
            self.transmit_again(head, cx);
        }
    }

    /// The segment size while the SYN-ACK is digested, by which the first pacing rate is chosen: our own options
    /// still count, and without a window it is not looked at (`tcp_ack_update_window`).
    fn mss_of_answer(&self) -> u32 {
        let timestamps = self.config.sysctl.tcp_timestamps != 0 && self.md5_key().is_none();
        let options = if timestamps { TIMESTAMPS_LEN } else { 0 };
        let told = self.snd.max_window > 0;
        let clamp = if told { self.snd.mss_clamp } else { self.mss_clamp_of_syn() };
        self.bound_to_half_window(self.mss_within(self.snd.pmtu, clamp, options))
    }

    /// SYNs have crossed (RFC 9293 figure 8).
    pub(in crate::tcp) fn crosses(&self) -> bool {
        self.rare.as_ref().is_some_and(|rare| rare.crossing_scale.is_some())
    }

    /// The handshake is done (`tcp_finish_connect`, `tcp_init_transfer`).
    pub(super) fn finish_connect(&mut self, cx: &mut Cx<'_>) {
        self.state = State::Established;
        self.sync_mss();
        self.initialize_rcv_mss();
        self.init_mtu_probing(cx.now);
        if !self.crosses() {
            // Where SYNs cross nobody takes the time (`tcp_rcv_state_process`).
            self.ack.lrcvtime = self.jiffies32(cx.now);
        }
        self.init_metrics(cx);
        self.init_congestion_control(cx);
        self.init_buffer_space(cx.now);
        self.snd.lsndtime = self.jiffies32(cx.now);
        if !self.crosses() {
            // Nor does anybody start that timer (`tcp_finish_connect` does otherwise).
            self.start_keepalive(cx.now);
        }
    }
}
