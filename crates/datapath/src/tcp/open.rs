//! Opening a connection: the handshake from both sides (RFC 9293 section 3.5; `tcp_connect`,
//! `tcp_rcv_synsent_state_process`, `tcp_conn_request`).

use super::ack_out::AckState;
use super::cc::{AnyCongestionControl, CongestionControl, Window};
use super::ecn::EcnState;
use super::info::Chrono;
use super::input::Segment;
use super::options::{MAX_WSCALE, Negotiated, TCP_HEADER_LEN, TIMESTAMPS_LEN};
use super::rate::RateState;
use super::receive::Receive;
use super::recovery::{Rack, Recovery};
use super::rtt::Rtt;
use super::seq::Seq;
use super::skb::{SendQueue, Skb};
use super::state::State;
use super::timer::{Pending, Timers};
use super::{Connection, Cx, Send, SocketError, TcpConfig, Totals};
use crate::node::SocketReady;
use crate::packet::{Packet, Tcp, TcpFlags, TcpOptions, Timestamps};
use core::net::SocketAddr;
use std::sync::Arc;

/// Where a connection stands in the world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Endpoints {
    /// Our address and port.
    pub local: SocketAddr,
    /// The peer's.
    pub remote: SocketAddr,
    /// MTU of the route, bytes.
    pub mtu: u32,
    /// Initial sequence number.
    pub iss: Seq,
    /// The route has the feature `ecn` (`RTAX_FEATURE_ECN`).
    pub ecn: bool,
}

/// MSS assumed until the peer tells (`TCP_MSS_DEFAULT`).
const MSS_DEFAULT: u32 = 536;
/// IPv6's assumption (`IPV6_MIN_MTU` less headers).
const MSS_DEFAULT_V6: u32 = 1_220;

impl Connection {
    /// A connection that does not do anything yet.
    fn new(id: u32, config: Arc<TcpConfig>, ends: Endpoints) -> Self {
        let ip_header = if ends.local.is_ipv4() { 20 } else { 40 };
        let mut advmss = ends.mtu.saturating_sub(ip_header + TCP_HEADER_LEN).max(48);
        if config.max_segment != 0 {
            advmss = advmss.min(config.max_segment.into());
        }
        let wmem = config.sysctl.tcp_wmem;
        let rmem = config.sysctl.tcp_rmem;
        let sndbuf = doubled(config.send_buffer, wmem[1]);
        let rcvbuf = doubled(config.receive_buffer, rmem[1]);
        let profile = &config.profile;
        let init_cwnd = profile.init_cwnd;
        let rto = profile.timeout_init_ms;
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
            rcv_tstamp: 0,
            pacing_rate: u64::MAX,
            chrono: Chrono::default(),
            totals: Totals::default(),
            orphan: false,
            shut_read: false,
            shut_write: false,
            error: None,
            last_oow_ack: 0,
            config,
        }
    }

    /// Opens actively: sends the SYN (`tcp_v4_connect`, `tcp_connect`).
    pub fn connect(id: u32, config: Arc<TcpConfig>, ends: Endpoints, cx: &mut Cx<'_>) -> Self {
        let mut conn = Self::new(id, config, ends);
        conn.state = State::SynSent;
        conn.opt.timestamps = conn.config.sysctl.tcp_timestamps != 0;
        let mss = conn.opt.advmss;
        conn.choose_initial_window(mss);
        cx.mib.active_opens += 1;
        let flags = TcpFlags::SYN | conn.ecn_request(ends.ecn);
        conn.send_handshake(flags, cx);
        conn
    }

    /// Answers a SYN that arrived at a listener: sends the SYN-ACK (`tcp_conn_request`,
    /// `tcp_v4_send_synack`). `None` if `syn` is not an acceptable SYN.
    pub fn accept(
        id: u32,
        config: Arc<TcpConfig>,
        ends: Endpoints,
        syn: &Packet,
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
        conn.learn_peer_options(tcp, cx);
        let mss = conn.opt.advmss;
        conn.choose_initial_window(mss);
        if !conn.opt.wscale_ok {
            conn.opt.rcv_wscale = 0;
        }
        conn.rcv.nxt = tcp.seq + 1;
        conn.rcv.wup = conn.rcv.nxt;
        conn.rcv.copied_seq = conn.rcv.nxt;
        conn.snd.wl1 = tcp.seq;
        conn.snd.wnd = tcp.window.into();
        conn.snd.max_window = conn.snd.wnd;
        conn.totals.segs_in = 1;
        let flags =
            TcpFlags::SYN | TcpFlags::ACK | conn.ecn_answer_syn(tcp.flags, seg.ecn, ends.ecn);
        conn.send_handshake(flags, cx);
        Some(conn)
    }

    fn send_handshake(&mut self, flags: TcpFlags, cx: &mut Cx<'_>) {
        let seq = self.snd.iss;
        let overhead = self.config.profile.skb_overhead;
        let mut skb = Skb::new(seq, seq + 1, flags, overhead);
        skb.pcount = 1;
        self.snd.wmem_queued += overhead;
        let id = self.queue.push_sent(skb);
        self.snd.write_seq = seq + 1;
        self.snd.pushed_seq = self.snd.write_seq;
        self.transmit_skb(id, cx);
        self.rec.packets_out = 1;
        self.snd.nxt = self.snd.write_seq;
        let rto = self.rto;
        self.reset_xmit_timer(Pending::Retransmit, rto, cx.now);
    }

    /// The listener's SYN came again: so does our SYN-ACK.
    pub(super) fn resend_syn_ack(&mut self, cx: &mut Cx<'_>) {
        if let Some(head) = self.queue.rtx_head() {
            self.send_again(head, 1, crate::trace::Cause::Handshake, cx);
        }
    }

    /// Window and scale to offer in the handshake (`tcp_select_initial_window`).
    fn choose_initial_window(&mut self, mss: u32) {
        let sysctl = &self.config.sysctl;
        let buffer = self.full_space();
        // A buffer that the application has fixed bounds the scale as well.
        let fixed = if self.config.receive_buffer == 0 { u32::MAX } else { buffer };
        let space = if buffer > mss { buffer / mss * mss } else { buffer };
        self.rcv.wnd = space.min(u16::MAX.into());
        self.opt.rcv_wscale = 0;
        if sysctl.tcp_window_scaling != 0 {
            let largest = space.max(sysctl.tcp_rmem[2]).max(RMEM_MAX).min(fixed);
            self.opt.rcv_wscale = largest.ilog2().saturating_sub(15).min(MAX_WSCALE.into()) as u8;
        }
        let clamp = (u32::from(u16::MAX) << self.opt.rcv_wscale).min(fixed);
        self.rcv.window_clamp = clamp;
        self.rcv.ssthresh = self.rcv.wnd;
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
        TcpOptions {
            mss: mss as u16,
            window_scale_plus_one: if scale { self.opt.rcv_wscale + 1 } else { 0 },
            sack_permitted: sack,
            timestamps: timestamps.then(|| Timestamps {
                value: self.ts_now(cx.now),
                echo: if is_answer { self.opt.ts_recent } else { 0 },
            }),
            ..TcpOptions::default()
        }
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
        self.snd.mss_clamp = offered.min(advmss);
        self.sync_mss();
    }

    /// Payload of a full segment, from peer's MSS and path MTU (`tcp_sync_mss`).
    fn sync_mss(&mut self) {
        let ip_header = if self.local.is_ipv4() { 20 } else { 40 };
        let by_path = self.snd.pmtu.saturating_sub(ip_header + TCP_HEADER_LEN);
        let options = self.header_len() - TCP_HEADER_LEN;
        self.snd.mss = by_path.min(self.snd.mss_clamp).saturating_sub(options).max(48);
    }

    /// SYN-SENT: the answer arrives, or the peer opens at the same time
    /// (`tcp_rcv_synsent_state_process`).
    pub(super) fn syn_sent(&mut self, seg: &Segment<'_>, cx: &mut Cx<'_>) {
        let tcp = seg.tcp;
        let acks = tcp.flags.contains(TcpFlags::ACK);
        if acks && (!tcp.ack.after(self.snd.una) || tcp.ack.after(self.snd.nxt)) {
            // Not an answer to our SYN: the host resets the sender (RFC 9293 section 3.10.7.3).
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
            self.simultaneous_open(tcp.flags, cx);
            return;
        }
        self.ecn_syn_answered(tcp.flags);
        self.ack_in(seg, cx);
        self.finish_connect(cx);
        self.send_ack(cx);
        cx.ready |= SocketReady::WRITABLE;
    }

    /// Both ends sent a SYN: answer with a SYN-ACK (RFC 9293 figure 8).
    fn simultaneous_open(&mut self, theirs: TcpFlags, cx: &mut Cx<'_>) {
        self.state = State::SynRecv;
        if let Some(head) = self.queue.rtx_head() {
            let flags = TcpFlags::SYN | TcpFlags::ACK | self.ecn_crossing_syn(theirs);
            self.queue.get_mut(head).flags = flags;
            self.send_again(head, 1, crate::trace::Cause::Handshake, cx);
        }
    }

    /// The handshake is done (`tcp_finish_connect`, `tcp_init_transfer`).
    fn finish_connect(&mut self, cx: &mut Cx<'_>) {
        self.state = State::Established;
        self.sync_mss();
        self.initialize_rcv_mss();
        self.init_metrics();
        if !self.ecn.ok {
            self.cc.fall_back();
        }
        self.ecn.dctcp.prior_rcv_nxt = self.rcv.nxt;
        let ack = self.ack_view(cx.now);
        self.cc.init(&mut self.window, &ack);
        self.init_buffer_space(cx.now);
        self.snd.lsndtime = self.jiffies32(cx.now);
        self.start_keepalive(cx.now);
        self.update_pacing_rate();
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
        self.window.snd_cwnd = if handshake_lossy { 1 } else { self.config.profile.init_cwnd };
    }

    /// SYN-RECEIVED: the ACK of our SYN. False: it was not.
    pub(super) fn complete_passive_open(&mut self, seg: &Segment<'_>, cx: &mut Cx<'_>) -> bool {
        let tcp = seg.tcp;
        if !tcp.flags.contains(TcpFlags::ACK) {
            return false;
        }
        if !tcp.ack.after(self.snd.una) || tcp.ack.after(self.snd.nxt) {
            self.reset_stray(tcp, cx);
            return false;
        }
        cx.mib.passive_opens += 1;
        self.snd.wnd = u32::from(tcp.window) << self.opt.snd_wscale;
        self.snd.max_window = self.snd.wnd;
        self.snd.wl1 = seg.seq;
        // RTT of SYN-ACK and ACK (`tcp_synack_rtt_meas`); the SYN-ACK leaves the queue.
        self.ack_in(seg, cx);
        self.finish_connect(cx);
        cx.ready |= SocketReady::WRITABLE;
        true
    }

    /// Resets the sender of a segment that does not belong here, at its own numbers.
    fn reset_stray(&mut self, tcp: &Tcp, cx: &mut Cx<'_>) {
        cx.mib.out_rsts += 1;
        let header =
            Tcp { ack: Seq(0), ..self.header(tcp.ack, TcpFlags::RST, 0, TcpOptions::default()) };
        self.control_out(header, cx);
    }
}

/// `SO_SNDBUF` and `SO_RCVBUF` are doubled; zero means the default.
fn doubled(option: u32, default: u32) -> u32 {
    if option == 0 { default } else { option.saturating_mul(2).max(MIN_BUFFER) }
}

/// `SOCK_MIN_SNDBUF`, about the smallest buffer that works.
const MIN_BUFFER: u32 = 4_608;
/// `net.core.rmem_max`.
const RMEM_MAX: u32 = 212_992;
