//! Answering a SYN: by a connection, by a Fast Open, by a cookie (`tcp_conn_request`,
//! `cookie_v4_check`, `tcp_check_req`).

use crate::node::SocketReady;
use crate::packet::{Packet, Tcp, TcpFlags, TcpOptions};
use crate::tcp::cc::AnyCongestionControl;
use crate::tcp::endpoints::Endpoints;
use crate::tcp::fastopen::{Admission, Request};
use crate::tcp::nagle::Nonagle;
use crate::tcp::options::TIMESTAMPS_LEN;
use crate::tcp::segment::{Path, Segment};
use crate::tcp::state::State;
use crate::tcp::timer::Pending;
use crate::tcp::{Connection, Cx, TcpConfig};
use std::sync::Arc;

impl Connection {
    /// Answers a SYN that arrived at a listener: sends the SYN-ACK (`tcp_conn_request`,
    /// `tcp_v4_send_synack`). `None` if `syn` is not an acceptable SYN. The connection may be open
    /// already ([`is_passive_fast_open`](Self::is_passive_fast_open)).
    pub fn accept(
        id: u32,
        config: Arc<TcpConfig>,
        ends: Endpoints,
        syn: &Packet,
        admission: Admission,
        cx: &mut Cx<'_>,
    ) -> Option<Self> {
        let seg = Segment::of(syn, config.profile.skb_overhead)?;
        let tcp = seg.tcp;
        if !tcp.flags.contains(TcpFlags::SYN) || tcp.flags.intersects(TcpFlags::ACK | TcpFlags::RST)
        {
            return None;
        }
        let mut conn = Self::new(id, config, ends);
        conn.start_ts_clock(cx.now);
        conn.state = State::SynRecv;
        conn.save_syn(syn);
        conn.take_syn(tcp, cx);
        if conn.md5_key().is_some() && conn.opt.sack_ok {
            // With a signature and timestamps no SACK block has room (`tcp_synack_options`). A cookie
            // keeps its timestamps: they remember the options.
            conn.opt.timestamps = false;
        }
        conn.reflect_tos(syn.network.tos());
        if !ends.reopens {
            // The SYN that reopens a connection is not kept (`tcp_v6_init_req`).
            conn.reflect_flow_label(syn);
        }
        let flags =
            TcpFlags::SYN | TcpFlags::ACK | conn.ecn_answer_syn(tcp.flags, seg.ecn, ends.ecn);
        let (opens, option) = Self::try_fast_open(&conn.config, admission, syn, cx);
        if option.is_some() {
            conn.rare().fast_open.option = option;
        }
        if opens {
            conn.open_at_once(flags, &seg, cx);
        } else {
            conn.rec.retrans_stamp = conn.stamp(cx.now);
            conn.send_handshake(flags, cx);
        }
        if option.is_some() {
            conn.rare().fast_open.option = None;
        }
        Some(conn)
    }

    /// What the SYN says, and what it is answered with.
    fn take_syn(&mut self, tcp: &Tcp, cx: &mut Cx<'_>) {
        self.learn_peer_options(tcp, cx);
        let mss = self.opt.advmss;
        self.choose_initial_window(mss, self.opt.wscale_ok);
        self.rcv.nxt = tcp.seq + 1;
        self.rcv.wup = self.rcv.nxt;
        self.rcv.copied_seq = self.rcv.nxt;
        self.snd.wl1 = tcp.seq;
        self.snd.wnd = tcp.window.into();
        self.snd.max_window = self.snd.wnd;
        self.totals.segs_in = 1;
    }

    /// The listener's `SO_PRIORITY` was for the SYN-ACK; what it opens begins with none (`sk_clone`).
    pub(crate) fn reset_priority(&mut self) {
        if self.config.priority != 0 {
            self.config_mut().priority = 0;
        }
    }

    /// The options of the listener have changed. A request has nothing of them but the mark; what else it will have as a
    /// socket is theirs at the end of the handshake.
    pub(crate) fn listener_changed(&mut self, change: impl Fn(&mut TcpConfig)) {
        if self.is_passive_fast_open() {
            return;
        }
        let before = Arc::clone(&self.config);
        let by_route = self.route_metrics().congctl.is_some();
        let config = self.config_mut();
        change(config);
        config.mark = before.mark;
        if config.sysctl.tcp_reflect_tos != 0 {
            config.tos = before.tos;
            if let Some(before) = before.socket.ipv6 {
                config.change_ipv6(|own| own.traffic_class = before.traffic_class);
            }
        }
        if by_route {
            config.congestion_control = before.congestion_control;
        }
        if config.congestion_control != before.congestion_control {
            self.cc = AnyCongestionControl::new(&self.config);
        }
        self.snd.nonagle = Nonagle::asked(&self.config);
        if self.config.socket.delays_acks != before.socket.delays_acks {
            self.ack.pingpong = if self.config.socket.delays_acks { u8::MAX } else { 0 };
        }
        if self.config.send_buffer != before.send_buffer {
            self.snd.sndbuf = self.config.sndbuf();
        }
        if self.config.receive_buffer != before.receive_buffer {
            self.rcv.rcvbuf = self.config.rcvbuf();
        }
    }

    /// `tcp_reflect_tos`: the peer's class of service is ours.
    fn reflect_tos(&mut self, tos: u8) {
        if self.config.sysctl.tcp_reflect_tos != 0 {
            let config = self.config_mut();
            config.tos = tos & !3;
            if config.socket.ipv6.is_some() {
                config.change_ipv6(|own| own.traffic_class = tos & !3);
            }
        }
    }

    /// A Fast Open: the application may have the connection before the handshake is over
    /// (`tcp_fastopen_create_child`).
    fn open_at_once(&mut self, flags: TcpFlags, seg: &Segment<'_>, cx: &mut Cx<'_>) {
        self.snd.una = self.snd.iss + 1;
        self.snd.nxt = self.snd.una;
        self.snd.write_seq = self.snd.una;
        self.snd.pushed_seq = self.snd.una;
        self.snd.small = self.snd.una;
        // By a window that nobody has looked at yet (`tcp_bound_to_half_wnd`).
        let max_window = core::mem::replace(&mut self.snd.max_window, 0);
        self.sync_mss();
        self.snd.max_window = max_window;
        self.init_mtu_probing(cx.now);
        self.init_metrics(cx);
        self.init_congestion_control(cx);
        self.init_buffer_space(cx.now);
        self.ack.lrcvtime = self.jiffies32(cx.now);
        self.snd.lsndtime = self.jiffies32(cx.now);
        self.initialize_rcv_mss();
        self.rare().fast_open.child = true;
        self.rare().fast_open.request = Some(Request { timeouts: 0, sent_us: cx.now_us() });
        self.rare().syn_ack_flags = flags;
        if seg.len > 0 {
            self.ecn_received(seg);
        }
        self.add_syn_data(seg, cx);
        self.totals.data_segs_in = if seg.len > 0 { seg.segments } else { 0 };
        self.rcv.wup = self.rcv.nxt;
        self.send_syn_ack(cx);
        let timeout = self.config.profile.timeout_init_ms;
        self.reset_xmit_timer(Pending::Retransmit, timeout, cx.now);
        cx.ready |= SocketReady::READABLE;
    }

    /// Sends the SYN-ACK of a connection that is open already (`tcp_v4_send_synack`).
    pub(in crate::tcp) fn send_syn_ack(&mut self, cx: &mut Cx<'_>) {
        let mut flags = self.rare().syn_ack_flags;
        if self.is_accurate() {
            flags = self.accurate_syn_ack(flags);
        }
        let options = self.syn_options(cx, flags);
        let tcp = self.header(self.snd.iss, flags, self.syn_window(), options);
        self.control_out_of_listener(tcp, cx);
        self.rcv.wup = self.rcv.nxt;
    }

    /// A SYN cookie came back: the connection that it remembers (`cookie_v4_check`). `ack` is the
    /// segment that brought it, which has still to be processed.
    pub fn from_cookie(
        id: u32,
        config: Arc<TcpConfig>,
        ends: Endpoints,
        syn: &Tcp,
        ecn: bool,
        cx: &mut Cx<'_>,
    ) -> Self {
        let mut conn = Self::new(id, config, ends);
        conn.start_ts_clock(cx.now);
        conn.state = State::SynRecv;
        conn.take_syn(syn, cx);
        // The size is one of a table, and nothing cuts it any more.
        conn.snd.mss_clamp = syn.options.mss.into();
        conn.sync_mss();
        // The window is chosen anew, by the segment size that the cookie remembers (`cookie_v4_check`).
        conn.choose_initial_window(syn.options.mss.into(), conn.opt.wscale_ok);
        conn.ecn.ok = ecn;
        conn.ecn.by_cookie = ecn;
        conn.queue_handshake(TcpFlags::SYN | TcpFlags::ACK);
        conn.rec.packets_out = 1;
        conn.snd.nxt = conn.snd.write_seq;
        // The SYN-ACK went before anybody counted; nothing is known of its round trip.
        let head = conn.queue.rtx_head().expect("just queued");
        conn.queue.get_mut(head).sacked |= crate::tcp::skb::tag::EVER_RETRANS;
        conn
    }

    /// A SYN-ACK whose number is a cookie, without a connection (`tcp_conn_request` with
    /// `want_cookie`).
    pub fn send_cookie(
        config: Arc<TcpConfig>,
        ends: Endpoints,
        syn: &Packet,
        cx: &mut Cx<'_>,
    ) -> Option<()> {
        let tcp = syn.tcp()?;
        let mut offered = tcp.options;
        if offered.timestamps.is_none() || config.sysctl.tcp_timestamps == 0 {
            // Nowhere to remember them (`tcp_conn_request`).
            offered = TcpOptions { mss: offered.mss, ..TcpOptions::default() };
        }
        // What is switched off is not even parsed, so that the cookie does not remember it
        // (`tcp_parse_options`, `cookie_init_timestamp`): it would be refused when it comes back.
        offered.sack_permitted &= config.sysctl.tcp_sack != 0;
        if config.sysctl.tcp_window_scaling == 0 {
            offered.window_scale_plus_one = 0;
        }
        let plain = Tcp { options: offered, ..*tcp };
        let mut conn = Self::new(u32::MAX, config, ends);
        conn.start_ts_clock(cx.now);
        conn.state = State::SynRecv;
        conn.take_syn(&plain, cx);
        conn.reflect_flow_label(syn);
        let mut flags = TcpFlags::SYN | TcpFlags::ACK;
        let asked = conn.ecn_answer_syn(tcp.flags, syn.network.ecn(), ends.ecn);
        if conn.opt.timestamps {
            flags |= asked;
        } else {
            if conn.is_accurate() {
                // Said, though nobody will remember it.
                flags |= asked;
            }
            conn.ecn.ok = false;
        }
        conn.ecn.acc.syn_acks = 1;
        conn.rcv.nxt = tcp.seq + 1;
        let mut options = conn.syn_options(cx, flags);
        if let Some(ts) = &mut options.timestamps {
            ts.value =
                crate::tcp::syncookies::encode_options(ts.value, &plain.options, conn.ecn.ok);
        }
        let header = conn.header(ends.iss, flags, conn.syn_window(), options);
        cx.mib.syn_cookies_sent += 1;
        conn.control_out(header, cx);
        Some(())
    }

    /// The listener's SYN came again: so does our SYN-ACK.
    pub(in crate::tcp) fn resend_syn_ack(&mut self, cx: &mut Cx<'_>) {
        if let Some(head) = self.queue.rtx_head() {
            self.send_again(head, 1, crate::trace::Cause::Handshake, cx);
        }
    }

    /// SYN-RECEIVED: the ACK of our SYN. False: it was not.
    pub(in crate::tcp) fn complete_passive_open(
        &mut self,
        seg: &Segment<'_>,
        cx: &mut Cx<'_>,
    ) -> bool {
        let tcp = seg.tcp;
        if !tcp.flags.contains(TcpFlags::ACK) {
            return false;
        }
        let fast_open = self.is_passive_fast_open();
        // SYNs that cross: an ACK of nothing new is one (`tcp_ack`), and opens the connection.
        let crossing = self.crosses();
        let lowest = if fast_open || crossing { self.snd.una } else { self.snd.una + 1 };
        if tcp.ack.before(lowest) || tcp.ack.after(self.snd.nxt) {
            self.reset_stray(seg, cx);
            return false;
        }
        if cx.gate.request {
            cx.mib.passive_opens += 1;
            self.reflect_flow_label(seg.packet);
            // What the request was told does not count for the connection.
            self.last_oow_ack = None;
            self.end_series(cx.now);
        }
        let max_window = self.snd.max_window;
        self.snd.wnd = u32::from(tcp.window) << self.opt.snd_wscale;
        self.snd.max_window = self.snd.max_window.max(self.snd.wnd);
        if crossing {
            // The window of a SYN-ACK is not scaled where the largest one is remembered, though it is here.
            let is_syn = tcp.flags.contains(TcpFlags::SYN);
            let scale = if is_syn { 0 } else { self.opt.snd_wscale };
            self.snd.max_window = max_window.max(u32::from(tcp.window) << scale);
        } else if !fast_open {
            self.snd.max_window = self.snd.wnd;
        } else if self.snd.max_window > max_window {
            self.sync_mss();
        }
        if !crossing {
            self.snd.wl1 = seg.seq;
        }
        self.undo_spurious_syn();
        self.ecn_third_ack(seg, fast_open);
        // RTT of SYN-ACK and ACK (`tcp_synack_rtt_meas`); the SYN-ACK leaves the queue, and does not
        // count as a byte of a passive open, for the kernel's connection begins behind it.
        let counted = self.totals.bytes_acked;
        let app_limited = self.window.app_limited;
        let delivered = cx.mib.delivered;
        self.ack_in(seg, Path::Slow, cx);
        self.snd.wl1 = seg.seq;
        if !crossing && cx.mib.delivered > delivered {
            // The SYN-ACK counts for the connection, not for the host (`tcp_rcv_state_process`).
            cx.mib.delivered -= 1;
        }
        if !fast_open && cx.gate.request {
            self.totals.bytes_acked = self.totals.bytes_acked.min(counted);
        }
        if crossing {
            // Counted once more than it came (`tcp_rcv_state_process`).
            self.rate.delivered += 1;
            if self.opt.timestamps {
                self.opt.advmss -= TIMESTAMPS_LEN;
            }
        }
        if !fast_open {
            // Nor is its delivery one that ends the bubble of a connection that has sent nothing.
            self.window.app_limited = app_limited;
        }
        if fast_open {
            self.fast_open_accomplished(cx);
            self.state = State::Established;
            // What was answered until now, the request did.
            self.last_oow_ack = None;
            self.update_pacing_rate();
            self.snd.lsndtime = self.jiffies32(cx.now);
            self.initialize_rcv_mss();
            self.start_keepalive(cx.now);
        } else {
            self.finish_connect(cx);
            self.update_pacing_rate();
        }
        self.predict();
        if self.shut_write {
            self.send_deferred_fin(cx);
        }
        cx.ready |= SocketReady::WRITABLE;
        true
    }

    /// A round trip of the handshake that no queued record has measured.
    pub(in crate::tcp) fn take_handshake_rtt(&mut self, rtt_us: u32, now: crate::units::Instant) {
        self.ack_update_rtt(Some(rtt_us), Some(rtt_us), false, now);
    }
}
