//! Opening a connection: the handshake from both sides (RFC 9293 section 3.5; `tcp_connect`,
//! `tcp_rcv_synsent_state_process`, `tcp_conn_request`).

mod active;
mod agree;
mod answer;
mod stray;

use super::ack_out::AckState;
use super::cc::{Algorithm, AnyCongestionControl, CongestionControl, INFINITE_SSTHRESH, Window};
use super::ecn::EcnState;
use super::endpoints::Endpoints;
use super::info::Chrono;
use super::nagle::Nonagle;
use super::options::{Negotiated, TCP_HEADER_LEN};
use super::rare::Rare;
use super::rate::RateState;
use super::receive::ReceiveState;
use super::recovery::{Rack, Recovery};
use super::rtt::Rtt;
use super::skb::{SendQueue, Skb};
use super::state::State;
use super::timer::{Pending, Timers};
use super::{Connection, Cx, SendState, TcpConfig, Totals};
use crate::metrics::{Locks, RouteMetrics};
use crate::packet::TcpFlags;
use crate::packet::seq::Seq;
use core::num::{NonZeroU8, NonZeroU32};
use std::sync::Arc;

impl Connection {
    /// A connection that does not do anything yet.
    pub(super) fn new(id: u32, config: Arc<TcpConfig>, ends: Endpoints) -> Self {
        let config = as_the_route_wants(config, &ends.route);
        let ip_header = if ends.local.is_ipv4() { 20 } else { 40 };
        let mut advmss = ends.mtu.saturating_sub(ip_header + TCP_HEADER_LEN).max(48);
        if let Some(by_route) = ends.route.advmss {
            advmss = by_route.get();
        }
        if let Some(own) = config.max_segment {
            advmss = advmss.min(own.get().into());
        }
        let (sndbuf, rcvbuf) = (config.sndbuf(), config.rcvbuf());
        let profile = &config.profile;
        let init_cwnd = ends.route.initcwnd.map_or(profile.init_cwnd, NonZeroU32::get);
        let rto = profile.timeout_init_ms;
        let mut rare = None;
        if ends.route != RouteMetrics::default() {
            rare = Some(Box::new(Rare { route: ends.route, ..Rare::default() }));
        }
        let nonagle = Nonagle::asked(&config);
        let (shut_read, shut_write) = (config.socket.shut_read, config.socket.shut_write);
        let pingpong = if config.socket.delays_acks { u8::MAX } else { 0 };
        let (ts_recent, ts_recent_stamp) = ends.ts_recent;
        let mut window = Window::new(init_cwnd);
        window.snd_cwnd_stamp = 0;
        window.snd_ssthresh = initial_ssthresh(&config);
        Self {
            id,
            state: State::Close,
            local: ends.local.into(),
            remote: ends.remote.into(),
            snd: SendState {
                iss: ends.iss,
                txhash: super::txhash::first(&config.profile, &ends),
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
                goes_on_later: false,
                fin_queued: false,
                lsndtime: 0,
                wstamp_ns: 0,
                paced_by_fq: false,
                pmtu: ends.mtu,
            },
            rcv: ReceiveState::new(rcvbuf),
            expected: None,
            ack: AckState { ip_id: ends.iss.0 as u16, pingpong, ..AckState::default() },
            opt: Negotiated { ts_recent, ts_recent_stamp, advmss, ..Negotiated::default() },
            ecn: EcnState::default(),
            queue: SendQueue::default(),
            plb: super::plb::Plb::default(),
            cc: AnyCongestionControl::new(&config),
            window,
            rec: Recovery {
                reordering: config.sysctl.tcp_reordering,
                rack: Rack::new(),
                ..Recovery::default()
            },
            rtt: Rtt { mdev_us_4: rto * 1_000, ..Rtt::default() },
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
            chrono: Chrono::default(),
            totals: Totals::default(),
            orphan: false,
            shut_read,
            shut_write,
            error: None,
            soft_error: None,
            last_oow_ack: None,
            handshake_acked: false,
            bytes: None,
            rare,
            config,
        }
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

    /// The routes have changed: another packet size, another metric. The kernel asks before it
    /// sends, in every state (`tcp_current_mss`).
    pub fn route_changed(&mut self, ends: &Endpoints) {
        if self.rare.is_some() || ends.route != RouteMetrics::default() {
            let before = core::mem::replace(&mut self.rare().route, ends.route);
            if before.hoplimit != ends.route.hoplimit {
                self.follow_hoplimit(before.hoplimit, ends.route.hoplimit);
            }
        }
        if self.snd.pmtu != ends.mtu {
            self.snd.pmtu = ends.mtu;
            self.sync_mss();
        }
    }

    /// Where the socket has no TTL of its own, the route's counts.
    pub(crate) fn take_hoplimit_of_route(&mut self) {
        self.follow_hoplimit(None, self.route_metrics().hoplimit);
    }

    /// The TTL of the route, which the socket does not know of (`inet->uc_ttl`).
    pub(crate) fn has_ttl_of_route(&self) -> bool {
        let by_route = self.route_metrics().hoplimit;
        by_route.is_some() && self.config.socket.ttl == by_route
    }

    /// Another TTL of the route, where the socket has none of its own.
    #[cold]
    fn follow_hoplimit(&mut self, before: Option<NonZeroU8>, now: Option<NonZeroU8>) {
        let socket = &mut self.config_mut().socket;
        if socket.ttl == before {
            socket.ttl = now;
        }
        if socket.hop_limit == before.map(NonZeroU8::get) {
            socket.hop_limit = now.map(NonZeroU8::get);
        }
    }

    /// The route has decided which congestion control it is, and nobody else does (`tcp_ca_dst_locked`).
    pub fn congestion_control_is_locked(&self) -> bool {
        let route = self.route_metrics();
        route.congctl.is_some() && route.locks.contains(Locks::CONGCTL)
    }

    /// What the route said when the connection was opened.
    pub(super) fn route_metrics(&self) -> RouteMetrics {
        self.rare.as_ref().map(|rare| rare.route).unwrap_or_default()
    }

    /// The window that a connection begins with, and begins with again after it was idle (`tcp_init_cwnd`).
    pub(super) fn init_cwnd(&self) -> u32 {
        let by_route = self.route_metrics().initcwnd;
        let segments = by_route.map_or(self.config.profile.init_cwnd, NonZeroU32::get);
        segments.min(self.window.snd_cwnd_clamp)
    }

    /// The congestion module begins (`tcp_init_congestion_control`).
    fn init_congestion_control(&mut self, cx: &mut Cx<'_>) {
        self.cc.fall_back(self.ecn.ok, self.ecn.accurate);
        self.ecn.dctcp.prior_rcv_nxt = self.rcv.nxt;
        let ack = self.ack_view(cx.now);
        self.cc.init(&mut self.window, &ack);
    }

    /// Initial window; one segment if the handshake was lossy (`tcp_init_transfer`, RFC 6298
    /// section 5.7).
    fn init_metrics(&mut self, cx: &Cx<'_>) {
        // A timeout in the handshake tells nothing (`tcp_init_metrics`).
        self.window.snd_ssthresh = initial_ssthresh(&self.config);
        if !self.apply_peer_metrics(cx) && self.rtt.srtt_us_8.is_none() {
            // No sample: the SYN was retransmitted and there are no timestamps.
            let fallback = super::timers_fire::TIMEOUT_FALLBACK_MS;
            self.rtt.mdev_us_4 = fallback * 1_000;
            self.rtt.mdev_max_us_4 = fallback * 1_000;
            self.rtt.rttvar_us_4 = fallback * 1_000;
            self.rto = fallback;
        }
        let handshake_lossy = self.totals.total_retrans > 1 && self.rec.undo_marker.is_some();
        self.window.snd_cwnd = if handshake_lossy { 1 } else { self.init_cwnd() };
    }
}

/// What a route decides in place of the socket (`tcp_ca_dst_init`), or where that decides nothing (`ip_select_ttl`).
fn as_the_route_wants(config: Arc<TcpConfig>, route: &RouteMetrics) -> Arc<TcpConfig> {
    let RouteMetrics { congctl, hoplimit, .. } = *route;
    if congctl.is_none() && hoplimit.is_none() {
        return config;
    }
    let mut config = TcpConfig::clone(&config);
    if let Some(algorithm) = congctl.and_then(Algorithm::by_name) {
        config.congestion_control = algorithm;
    }
    let socket = &mut config.socket;
    socket.ttl = socket.ttl.or(hoplimit);
    socket.hop_limit = socket.hop_limit.or(hoplimit.map(NonZeroU8::get));
    config.shared()
}

fn initial_ssthresh(config: &TcpConfig) -> u32 {
    config.initial_ssthresh.map_or(INFINITE_SSTHRESH, NonZeroU32::get)
}
