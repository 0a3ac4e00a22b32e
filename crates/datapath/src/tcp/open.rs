//! Opening a connection: the handshake from both sides (RFC 9293 section 3.5; `tcp_connect`,
//! `tcp_rcv_synsent_state_process`, `tcp_conn_request`).

use super::ack_out::AckState;
use super::cc::{AnyCongestionControl, CongestionControl, Window};
use super::ecn::EcnState;
use super::fastopen::{Admission, Request};
use super::info::Chrono;
use super::input::Segment;
use super::options::{MAX_WSCALE, Negotiated, TCP_HEADER_LEN, TIMESTAMPS_LEN};
use super::rare::Rare;
use super::rate::RateState;
use super::receive::Receive;
use super::recovery::{Rack, Recovery};
use super::rtt::Rtt;
use super::seq::Seq;
use super::skb::{SendQueue, Skb};
use super::state::State;
use super::timer::{Pending, Timers};
use super::{Connection, Cx, Send, SocketError, TcpConfig, Totals};
use crate::metrics::RouteMetrics;
use crate::node::SocketReady;
use crate::packet::{Ecn, Packet, Tcp, TcpFlags, TcpOptions, Timestamps};
use core::net::SocketAddr;
use std::sync::Arc;

/// Where a connection stands in the world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Endpoints {
    /// Our address and port.
    pub local: SocketAddr,
    /// The peer's.
    pub remote: SocketAddr,
    /// MTU of the path, bytes.
    pub mtu: u32,
    /// MTU of the route, by which our MSS is advertised, bytes.
    pub advertised_mtu: u32,
    /// Initial sequence number.
    pub iss: Seq,
    /// The route has the feature `ecn` (`RTAX_FEATURE_ECN`).
    pub ecn: bool,
    /// What else the route says.
    pub route: RouteMetrics,
}

/// MSS assumed until the peer tells (`TCP_MSS_DEFAULT`).
const MSS_DEFAULT: u32 = 536;
/// IPv6's assumption (`IPV6_MIN_MTU` less headers).
const MSS_DEFAULT_V6: u32 = 1_220;

impl Connection {
    /// A connection that does not do anything yet.
    pub(super) fn new(id: u32, config: Arc<TcpConfig>, ends: Endpoints) -> Self {
        let ip_header = if ends.local.is_ipv4() { 20 } else { 40 };
        let mut advmss = ends.advertised_mtu.saturating_sub(ip_header + TCP_HEADER_LEN).max(48);
        if ends.route.advmss != 0 {
            advmss = ends.route.advmss;
        }
        if config.max_segment != 0 {
            advmss = advmss.min(config.max_segment.into());
        }
        let wmem = config.sysctl.tcp_wmem;
        let rmem = config.sysctl.tcp_rmem;
        let sndbuf = doubled(config.send_buffer, wmem[1]);
        let rcvbuf = doubled(config.receive_buffer, rmem[1]);
        let profile = &config.profile;
        let init_cwnd =
            if ends.route.initcwnd > 0 { ends.route.initcwnd } else { profile.init_cwnd };
        let rto = profile.timeout_init_ms;
        let mut rare = None;
        if ends.route != RouteMetrics::default() {
            rare = Some(Box::new(Rare { route: ends.route, ..Rare::default() }));
        }
        let nonagle = if config.nodelay { super::write::nagle::OFF } else { 0 };
        let mut window = Window::new(init_cwnd);
        window.snd_cwnd_stamp = 0;
        Self {
            id,
            state: State::Close,
            local: ends.local,
            remote: ends.remote,
            snd: Send {
                iss: ends.iss,
                una: ends.iss,
                nxt: ends.iss,
                write_seq: ends.iss,
                pushed_seq: ends.iss,
                small: ends.iss,
                wnd: 0,
                wl1: Seq(0),
                max_window: 0,
                mss: advmss,
                mss_clamp: advmss,
                gso_segs: 1,
                wmem_queued: 0,
                wmem_alloc: 0,
                handed_down: 0,
                sndbuf,
                nonagle,
                no_space: false,
                write_unfinished: false,
                throttled: false,
                fin_queued: false,
                lsndtime: 0,
                wstamp_ns: 0,
                paced_by_fq: false,
                pmtu: ends.mtu,
            },
            rcv: Receive::new(rcvbuf),
            ack: AckState { ip_id: ends.iss.0 as u16, ..AckState::default() },
            opt: Negotiated { advmss, ..Negotiated::default() },
            ecn: EcnState::default(),
            queue: SendQueue::default(),
            cc: AnyCongestionControl::new(&config),
            window,
            rec: Recovery {
                reordering: config.sysctl.tcp_reordering,
                rack: Rack::new(),
                ..Recovery::default()
            },
            rtt: Rtt::default(),
            rate: RateState::default(),
            timers: Timers::default(),
            pending: Pending::None,
            timeout: 0,
            rto,
            backoff: 0,
            retransmits: 0,
            probes_out: 0,
            probes_since: None,
            rcv_tstamp: 0,
            pacing_rate: u64::MAX,
            chrono: Chrono::default(),
            totals: Totals::default(),
            orphan: false,
            shut_read: false,
            shut_write: false,
            error: None,
            soft_error: None,
            last_oow_ack: 0,
            handshake_acked: false,
            rare,
            config,
        }
    }

    /// Opens actively: sends the SYN (`tcp_v4_connect`, `tcp_connect`). `fast_open`: bytes that
    /// the application has to send, so that the SYN may carry some of them or ask for a cookie;
    /// [`syn_data_taken`](Self::syn_data_taken) tells how many went.
    pub fn connect(
        id: u32,
        config: Arc<TcpConfig>,
        ends: Endpoints,
        fast_open: Option<u64>,
        cx: &mut Cx<'_>,
    ) -> Self {
        let mut conn = Self::new(id, config, ends);
        conn.state = State::SynSent;
        conn.opt.timestamps = conn.config.sysctl.tcp_timestamps != 0;
        let mss = conn.opt.advmss;
        conn.sync_mss();
        conn.choose_initial_window(mss);
        conn.rec.retrans_stamp = conn.ts_now(cx.now).max(1);
        cx.mib.active_opens += 1;
        let flags = TcpFlags::SYN | conn.ecn_request(ends.ecn);
        match fast_open {
            Some(bytes) => {
                conn.send_fast_open_syn(flags, bytes, cx);
            }
            None => conn.send_handshake(flags, cx),
        }
        conn
    }

    /// Bytes of data that went with the SYN.
    pub fn syn_data_taken(&self) -> u32 {
        self.rare.as_ref().map_or(0, |rare| rare.fast_open.copied)
    }

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
        let seg = Segment::of(syn)?;
        let tcp = seg.tcp;
        if !tcp.flags.contains(TcpFlags::SYN) || tcp.flags.intersects(TcpFlags::ACK | TcpFlags::RST)
        {
            return None;
        }
        let mut conn = Self::new(id, config, ends);
        conn.state = State::SynRecv;
        conn.save_syn(syn);
        conn.take_syn(tcp, cx);
        conn.reflect_tos(syn.network.tos());
        let flags =
            TcpFlags::SYN | TcpFlags::ACK | conn.ecn_answer_syn(tcp.flags, seg.ecn, ends.ecn);
        let (opens, option) = Self::judge_fast_open(&conn.config, admission, syn, cx);
        if option.is_some() {
            conn.rare().fast_open.option = option;
        }
        if opens {
            conn.open_at_once(flags, &seg, cx);
        } else {
            conn.rec.retrans_stamp = conn.ts_now(cx.now).max(1);
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
        self.choose_initial_window(mss);
        if !self.opt.wscale_ok {
            self.opt.rcv_wscale = 0;
        }
        if self.md5_key().is_some() && self.opt.sack_ok {
            // A SYN-ACK has no room for signature, timestamps and SACK together.
            self.opt.timestamps = false;
        }
        self.rcv.nxt = tcp.seq + 1;
        self.rcv.wup = self.rcv.nxt;
        self.rcv.copied_seq = self.rcv.nxt;
        self.snd.wl1 = tcp.seq;
        self.snd.wnd = tcp.window.into();
        self.snd.max_window = self.snd.wnd;
        self.totals.segs_in = 1;
    }

    /// `tcp_reflect_tos`: the peer's class of service is ours.
    fn reflect_tos(&mut self, tos: u8) {
        if self.config.sysctl.tcp_reflect_tos != 0 {
            self.config_mut().tos = tos & !3;
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
        self.sync_mss();
        self.init_mtu_probing(cx.now);
        self.init_metrics();
        self.init_congestion_control(cx);
        self.init_buffer_space(cx.now);
        self.ack.lrcvtime = self.jiffies32(cx.now);
        self.snd.lsndtime = self.jiffies32(cx.now);
        self.initialize_rcv_mss();
        self.rare().fast_open.request = Some(Request { timeouts: 0, sent_us: cx.now_us() });
        self.rare().syn_ack_flags = flags;
        if seg.len > 0 {
            self.ecn_received(seg);
        }
        self.take_syn_data(seg, cx);
        self.rcv.wup = self.rcv.nxt;
        self.send_syn_ack(cx);
        let timeout = self.config.profile.timeout_init_ms;
        self.reset_xmit_timer(Pending::Retransmit, timeout, cx.now);
        cx.ready |= SocketReady::READABLE;
    }

    /// Sends the SYN-ACK of a connection that is open already (`tcp_v4_send_synack`).
    pub(super) fn send_syn_ack(&mut self, cx: &mut Cx<'_>) {
        let mut flags = self.rare().syn_ack_flags;
        if self.is_accurate() {
            flags = self.accurate_syn_ack(flags);
        }
        let options = self.syn_options(cx, flags);
        let tcp = self.header(self.snd.iss, flags, self.syn_window(), options);
        self.control_out(tcp, cx);
        self.rcv.wup = self.rcv.nxt;
    }

    /// Puts SYN or SYN-ACK into the queue, sent.
    pub(super) fn queue_handshake(&mut self, flags: TcpFlags) {
        let seq = self.snd.iss;
        let overhead = self.config.profile.skb_overhead;
        let mut skb = Skb::new(seq, seq + 1, flags, overhead);
        skb.pcount = 1;
        self.snd.wmem_queued += overhead;
        self.queue.push_sent(skb);
        self.snd.write_seq = seq + 1;
        self.snd.pushed_seq = self.snd.write_seq;
    }

    fn send_handshake(&mut self, flags: TcpFlags, cx: &mut Cx<'_>) {
        self.queue_handshake(flags);
        let id = self.queue.rtx_head().expect("the SYN was just queued");
        self.transmit_skb(id, cx);
        self.rec.packets_out = 1;
        self.snd.nxt = self.snd.write_seq;
        self.arm_handshake_timer(cx.now);
    }

    /// Starts the timer of the handshake.
    pub(super) fn arm_handshake_timer(&mut self, now: crate::units::Instant) {
        let rto = self.rto;
        self.reset_xmit_timer(Pending::Retransmit, rto, now);
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
        conn.state = State::SynRecv;
        conn.take_syn(syn, cx);
        conn.ecn.ok = ecn;
        conn.ecn.by_cookie = ecn;
        conn.queue_handshake(TcpFlags::SYN | TcpFlags::ACK);
        conn.rec.packets_out = 1;
        conn.snd.nxt = conn.snd.write_seq;
        // The SYN-ACK went before anybody counted; nothing is known of its round trip.
        let head = conn.queue.rtx_head().expect("just queued");
        conn.queue.get_mut(head).sacked |= super::skb::tag::EVER_RETRANS;
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
        if offered.timestamps.is_none() {
            // Nowhere to remember them.
            offered = TcpOptions { mss: offered.mss, ..TcpOptions::default() };
        }
        let plain = Tcp { options: offered, ..*tcp };
        let mut conn = Self::new(u32::MAX, config, ends);
        conn.state = State::SynRecv;
        conn.take_syn(&plain, cx);
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
            ts.value = super::syncookies::encode_options(ts.value, &plain.options, conn.ecn.ok);
        }
        let header = conn.header(ends.iss, flags, conn.syn_window(), options);
        cx.mib.syn_cookies_sent += 1;
        conn.control_out(header, cx);
        Some(())
    }

    /// The listener's SYN came again: so does our SYN-ACK.
    pub(super) fn resend_syn_ack(&mut self, cx: &mut Cx<'_>) {
        if let Some(head) = self.queue.rtx_head() {
            self.send_again(head, 1, crate::trace::Cause::Handshake, cx);
        }
    }

    /// Window and scale to offer in the handshake (`tcp_select_initial_window`).
    fn choose_initial_window(&mut self, mss: u32) {
        let route = self.route_metrics();
        let sysctl = &self.config.sysctl;
        let mut clamp = self.config.socket.window_clamp;
        if clamp == 0 {
            clamp = route.window;
        }
        let full = self.full_space();
        if self.config.receive_buffer != 0 && (clamp > full || clamp == 0) {
            clamp = full;
        }
        if clamp == 0 {
            clamp = u32::from(u16::MAX) << MAX_WSCALE;
        }
        let mut space = full.min(clamp);
        if space > mss {
            space = space / mss * mss;
        }
        self.rcv.wnd = space;
        if self.config.profile.initial_window_64k {
            self.rcv.wnd = space.min(u16::MAX.into());
        }
        if route.initrwnd > 0 {
            self.rcv.wnd = self.rcv.wnd.min(route.initrwnd.saturating_mul(mss));
        }
        self.opt.rcv_wscale = 0;
        if sysctl.tcp_window_scaling != 0 {
            let largest = space.max(sysctl.tcp_rmem[2]).max(RMEM_MAX).min(clamp);
            let scale = largest.max(1).ilog2().saturating_sub(15);
            self.opt.rcv_wscale = scale.min(MAX_WSCALE.into()) as u8;
        }
        let representable = u32::from(u16::MAX) << self.opt.rcv_wscale;
        self.rcv.window_clamp = clamp.min(representable);
        self.rcv.ssthresh = self.rcv.wnd;
    }

    /// The routes have changed: another packet size, another metric.
    pub fn route_changed(&mut self, ends: &Endpoints) {
        if self.rare.is_some() || ends.route != RouteMetrics::default() {
            self.rare().route = ends.route;
        }
        if self.snd.pmtu != ends.mtu && self.state.may_transmit() {
            self.snd.pmtu = ends.mtu;
            self.sync_mss();
        }
    }

    /// What the route said when the connection was opened.
    pub(super) fn route_metrics(&self) -> RouteMetrics {
        self.rare.as_ref().map(|rare| rare.route).unwrap_or_default()
    }

    /// The window field of a SYN or SYN-ACK is never scaled (RFC 7323 section 2.2).
    pub(super) fn syn_window(&self) -> u16 {
        self.rcv.wnd.min(u16::MAX.into()) as u16
    }

    /// Options of a SYN or SYN-ACK (`tcp_syn_options`, `tcp_synack_options`).
    pub(super) fn syn_options(&self, cx: &Cx<'_>, flags: TcpFlags) -> TcpOptions {
        let sysctl = &self.config.sysctl;
        let is_answer = flags.contains(TcpFlags::ACK);
        let (timestamps, sack, scale) = if is_answer {
            (self.opt.timestamps, self.opt.sack_ok, self.opt.wscale_ok)
        } else {
            (sysctl.tcp_timestamps != 0, sysctl.tcp_sack != 0, sysctl.tcp_window_scaling != 0)
        };
        // The MSS option speaks of segments without options (RFC 6691).
        let mss = self.opt.advmss + if is_answer && timestamps { TIMESTAMPS_LEN } else { 0 };
        let mut options = TcpOptions {
            mss: mss as u16,
            window_scale_plus_one: if scale { self.opt.rcv_wscale + 1 } else { 0 },
            sack_permitted: sack,
            timestamps: timestamps.then(|| Timestamps {
                value: self.ts_now(cx.now),
                echo: if is_answer { self.opt.ts_recent } else { 0 },
            }),
            ..TcpOptions::default()
        };
        if is_answer && self.is_accurate() {
            self.add_syn_ack_option(&mut options);
        }
        options
    }

    /// Takes over what the peer's SYN offers.
    fn learn_peer_options(&mut self, tcp: &Tcp, cx: &Cx<'_>) {
        let advmss = self.opt.advmss;
        let offset = self.opt.ts_offset;
        let options = &tcp.options;
        self.opt = Negotiated::agree(&self.config, options, self.opt.rcv_wscale, advmss);
        self.opt.ts_offset = offset;
        if let Some(ts) = options.timestamps.filter(|_| self.opt.timestamps) {
            self.store_ts_recent(ts.value, cx.now);
        }
        let unknown = if self.local.is_ipv4() { MSS_DEFAULT } else { MSS_DEFAULT_V6 };
        let offered = if options.mss == 0 { unknown } else { u32::from(options.mss).max(48) };
        self.snd.mss_clamp = match self.config.max_segment {
            0 => offered,
            own => offered.min(own.into()),
        };
        self.sync_mss();
    }

    /// Payload of a full segment, from peer's MSS and path MTU (`tcp_sync_mss`).
    pub(super) fn sync_mss(&mut self) {
        let by_path = self.snd.pmtu.saturating_sub(self.network_header_len() + TCP_HEADER_LEN);
        let options = self.header_len() - TCP_HEADER_LEN;
        let lowest = self.config.sysctl.tcp_min_snd_mss;
        let mss = by_path.min(self.snd.mss_clamp).saturating_sub(options).max(lowest);
        let mss = self.bound_to_half_window(mss);
        self.snd.mss = mss.min(self.probed_mss());
    }

    /// A segment is at most half of the largest window that the peer ever offered
    /// (`tcp_bound_to_half_wnd`).
    fn bound_to_half_window(&self, mss: u32) -> u32 {
        let window = self.snd.max_window;
        let cutoff = if window > MSS_DEFAULT { window >> 1 } else { window };
        if cutoff > 0 && mss > cutoff { cutoff.max(68 - self.header_len().min(68)) } else { mss }
    }

    /// SYN-SENT: the answer arrives, or the peer opens at the same time
    /// (`tcp_rcv_synsent_state_process`).
    pub(super) fn syn_sent(&mut self, seg: &Segment<'_>, cx: &mut Cx<'_>) {
        let tcp = seg.tcp;
        let acks = tcp.flags.contains(TcpFlags::ACK);
        if acks && (!tcp.ack.after(self.snd.una) || tcp.ack.after(self.snd.nxt)) {
            // Not an answer to our SYN (RFC 9293 section 3.10.7.3). What we are going to reset may
            // be in our way: ask again soon.
            if self.retransmits == 0 {
                self.reset_xmit_timer(Pending::Retransmit, TIMEOUT_MIN, cx.now);
            }
            if !tcp.flags.contains(TcpFlags::RST) {
                self.reset_stray(tcp, cx);
            }
            return;
        }
        if acks && self.echoes_foreign_timestamp(tcp, cx) {
            cx.mib.paws_active += 1;
            if !tcp.flags.contains(TcpFlags::RST) {
                self.reset_stray(tcp, cx);
            }
            return;
        }
        if tcp.flags.contains(TcpFlags::RST) {
            if acks {
                cx.mib.attempt_fails += 1;
                self.fail(SocketError::Refused, cx);
            }
            return;
        }
        if !tcp.flags.contains(TcpFlags::SYN) {
            return;
        }
        self.learn_peer_options(tcp, cx);
        self.rcv.nxt = tcp.seq + 1;
        self.rcv.wup = self.rcv.nxt;
        self.rcv.copied_seq = self.rcv.nxt;
        self.snd.wl1 = tcp.seq;
        self.snd.wnd = tcp.window.into();
        self.snd.max_window = self.snd.wnd;
        if !acks {
            self.simultaneous_open(seg, cx);
            return;
        }
        self.ecn_syn_answered(seg);
        self.undo_spurious_syn();
        self.ack_in(seg, cx);
        self.finish_connect(cx);
        let resent = self.fast_open_answered(seg.packet, cx);
        self.take_syn_data(seg, cx);
        cx.ready |= SocketReady::WRITABLE;
        if resent {
            return;
        }
        if self.rare.as_ref().is_some_and(|rare| rare.write_pending) || self.in_pingpong() {
            // Data is about to go and will carry the ACK.
            self.ack.scheduled = true;
            self.enter_quickack_mode(super::ack_out::MAX_QUICKACKS);
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
        self.timers.set(super::timer::Timer::DelayedAck, expiry);
    }

    /// The echoed timestamp is from before our SYN, or from the future: another connection's.
    fn echoes_foreign_timestamp(&self, tcp: &Tcp, cx: &Cx<'_>) -> bool {
        let Some(ts) = tcp.options.timestamps.filter(|ts| ts.echo != 0) else { return false };
        if !self.opt.timestamps || self.rec.retrans_stamp == 0 {
            return false;
        }
        let behind = ts.echo.wrapping_sub(self.rec.retrans_stamp) as i32;
        let ahead = ts.echo.wrapping_sub(self.ts_now(cx.now).max(1)) as i32;
        behind < 0 || ahead > 0
    }

    /// The answer echoes the first SYN: sending it again was needless
    /// (`tcp_try_undo_spurious_syn`).
    fn undo_spurious_syn(&mut self) {
        if self.rec.undo_marker.is_some()
            && self.rec.retrans_stamp != 0
            && self.ack.rcv_tsecr == self.rec.retrans_stamp
        {
            self.rec.undo_marker = None;
        }
    }

    /// Both ends sent a SYN: answer with a SYN-ACK (RFC 9293 figure 8).
    fn simultaneous_open(&mut self, seg: &Segment<'_>, cx: &mut Cx<'_>) {
        self.state = State::SynRecv;
        if let Some(head) = self.queue.rtx_head() {
            let flags = TcpFlags::SYN | TcpFlags::ACK | self.ecn_crossing_syn(seg);
            self.queue.get_mut(head).flags = flags;
            self.send_again(head, 1, crate::trace::Cause::Handshake, cx);
        }
    }

    /// The handshake is done (`tcp_finish_connect`, `tcp_init_transfer`).
    fn finish_connect(&mut self, cx: &mut Cx<'_>) {
        self.state = State::Established;
        self.sync_mss();
        self.initialize_rcv_mss();
        self.init_mtu_probing(cx.now);
        self.ack.lrcvtime = self.jiffies32(cx.now);
        self.init_metrics();
        self.init_congestion_control(cx);
        self.init_buffer_space(cx.now);
        self.snd.lsndtime = self.jiffies32(cx.now);
        self.start_keepalive(cx.now);
        self.update_pacing_rate();
    }

    /// The congestion module begins (`tcp_init_congestion_control`).
    fn init_congestion_control(&mut self, cx: &mut Cx<'_>) {
        if !self.ecn.ok {
            self.cc.fall_back();
        }
        self.ecn.dctcp.prior_rcv_nxt = self.rcv.nxt;
        let ack = self.ack_view(cx.now);
        self.cc.init(&mut self.window, &ack);
    }

    /// Initial window; one segment if the handshake was lossy (`tcp_init_transfer`, RFC 6298
    /// section 5.7).
    fn init_metrics(&mut self) {
        if self.rtt.srtt_us_8 == 0 {
            // No sample: the SYN was retransmitted and there are no timestamps.
            let fallback = super::timers_fire::TIMEOUT_FALLBACK_MS;
            self.rtt.mdev_us_4 = fallback * 1_000;
            self.rtt.mdev_max_us_4 = fallback * 1_000;
            self.rtt.rttvar_us_4 = fallback * 1_000;
            self.rto = fallback;
        }
        let handshake_lossy = self.totals.total_retrans > 1 && self.rec.undo_marker.is_some();
        let initial = match self.route_metrics().initcwnd {
            0 => self.config.profile.init_cwnd,
            by_route => by_route,
        };
        self.window.snd_cwnd = if handshake_lossy { 1 } else { initial };
    }

    /// SYN-RECEIVED: the ACK of our SYN. False: it was not.
    pub(super) fn complete_passive_open(&mut self, seg: &Segment<'_>, cx: &mut Cx<'_>) -> bool {
        let tcp = seg.tcp;
        if !tcp.flags.contains(TcpFlags::ACK) {
            return false;
        }
        let fast_open = self.is_passive_fast_open();
        let lowest = if fast_open { self.snd.una } else { self.snd.una + 1 };
        if tcp.ack.before(lowest) || tcp.ack.after(self.snd.nxt) {
            self.reset_stray(tcp, cx);
            return false;
        }
        if cx.gate.request {
            cx.mib.passive_opens += 1;
        }
        self.snd.wnd = u32::from(tcp.window) << self.opt.snd_wscale;
        self.snd.max_window = self.snd.max_window.max(self.snd.wnd);
        if !fast_open {
            self.snd.max_window = self.snd.wnd;
        }
        self.snd.wl1 = seg.seq;
        self.undo_spurious_syn();
        self.ecn_third_ack(seg, fast_open);
        // RTT of SYN-ACK and ACK (`tcp_synack_rtt_meas`); the SYN-ACK leaves the queue, and does not
        // count as a byte of a passive open, for the kernel's connection begins behind it.
        let counted = self.totals.bytes_acked;
        self.ack_in(seg, cx);
        if !fast_open && cx.gate.request {
            self.totals.bytes_acked = self.totals.bytes_acked.min(counted);
        }
        if fast_open {
            self.fast_open_accomplished(cx);
            self.state = State::Established;
            self.update_pacing_rate();
            self.snd.lsndtime = self.jiffies32(cx.now);
            self.initialize_rcv_mss();
            self.start_keepalive(cx.now);
        } else {
            self.finish_connect(cx);
        }
        if self.shut_write {
            self.send_deferred_fin(cx);
        }
        cx.ready |= SocketReady::WRITABLE;
        true
    }

    /// A round trip of the handshake that no queued record has measured.
    pub(super) fn take_handshake_rtt(&mut self, rtt_us: u32, now: crate::units::Instant) {
        self.ack_update_rtt(Some(rtt_us), Some(rtt_us), false, now);
    }

    /// Resets the sender of a segment for a half-open connection, by the rules for closed ones
    /// (RFC 9293 section 3.10.7.1).
    pub(super) fn reset_stray_for(&mut self, seg: &Segment<'_>, cx: &mut Cx<'_>) {
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
    }

    /// Resets the sender of a segment that does not belong here, at its own numbers.
    pub(super) fn reset_stray(&mut self, tcp: &Tcp, cx: &mut Cx<'_>) {
        cx.mib.out_rsts += 1;
        let header =
            Tcp { ack: Seq(0), ..self.header(tcp.ack, TcpFlags::RST, 0, TcpOptions::default()) };
        self.reset_out(header, cx);
    }
}

/// `TCP_TIMEOUT_MIN`, jiffies.
const TIMEOUT_MIN: u32 = 2;

/// `SO_SNDBUF` and `SO_RCVBUF` are doubled; zero means the default.
fn doubled(option: u32, default: u32) -> u32 {
    if option == 0 { default } else { option.saturating_mul(2).max(MIN_BUFFER) }
}

/// `SOCK_MIN_SNDBUF`, about the smallest buffer that works.
const MIN_BUFFER: u32 = 4_608;
/// `net.core.rmem_max`.
const RMEM_MAX: u32 = 212_992;
