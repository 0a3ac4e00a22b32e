//! Socket options that act on a living connection, and what a reader may ask of it
//! (`do_tcp_setsockopt`, `tcp_ioctl`).

use super::ack_out::MSS_MIN;
use super::cc::{Algorithm, AnyCongestionControl, CongestionControl};
use super::config::MIN_RCVBUF;
use super::info::TcpInfo;
use super::options::MSS_DEFAULT;
use super::rtt::MinRtt;
use super::state::State;
use super::{Connection, Cx, Endpoints, RouteMetrics, TcpConfig};
use crate::node::SocketReady;
use crate::packet::seq::Seq;
use crate::units::Instant;
use core::net::{Ipv4Addr, SocketAddr};
use core::num::NonZeroU32;
use std::sync::Arc;

impl Connection {
    /// Bytes that a reader finds before urgent data (`SIOCINQ`, `tcp_inq`).
    pub fn inq(&self) -> u32 {
        if matches!(self.state, State::SynSent | State::SynRecv) && !self.is_passive_fast_open() {
            return 0;
        }
        match self.bytes_before_urgent() {
            Some(ahead) if !self.config.socket.oob_inline => ahead,
            _ => self.rcv.unread_bytes(),
        }
    }

    /// Bytes left to read, and one that is not there at the end of the stream
    /// (`tcp_inq_hint`).
    pub fn inq_hint(&self) -> u32 {
        match self.rcv.unread_bytes() {
            0 => u32::from(self.rcv.fin_received),
            unread => unread + u32::from(self.rcv.fin_received),
        }
    }

    /// Enough to read (`tcp_epollin_ready`): `SO_RCVLOWAT` bytes, or as many as the buffer takes.
    pub fn is_readable(&self) -> bool {
        let available = self.rcv.nxt.bytes_since(self.rcv.copied_seq);
        let mut target = self.config.socket.rcvlowat.max(1);
        if self.at_urgent_mark() && !self.config.socket.oob_inline {
            target += 1;
        }
        available > 0 && (available >= target || self.rcv.window() <= self.ack.rcv_mss)
    }

    /// More may come to read.
    pub fn is_open_for_reading(&self) -> bool {
        self.error.is_none()
            && !self.rcv.fin_received
            && !self.shut_read
            && self.state != State::Close
    }

    /// Bytes written and not sent yet (`SIOCOUTQNSD`).
    pub fn unsent_bytes(&self) -> u64 {
        self.notsent_bytes()
    }

    /// Payload of a full segment (`TCP_MAXSEG`).
    pub fn mss(&self) -> u32 {
        self.snd.mss
    }

    /// Segments sent so far (`tcpi_segs_out`).
    pub fn segs_out(&self) -> u32 {
        self.totals.segs_out
    }

    /// Packet size of the path (`IP_MTU`).
    pub fn path_mtu(&self) -> u32 {
        self.snd.pmtu
    }

    /// `TCP_QUICKACK`: ACKs are not delayed for the moment.
    pub fn is_quick(&self) -> bool {
        !self.in_pingpong()
    }

    /// Sets `TCP_QUICKACK` (`__tcp_sock_set_quickack`).
    pub fn set_quickack(&mut self, value: i64, cx: &mut Cx<'_>) {
        if value == 0 {
            self.ack.pingpong = u8::MAX;
            return;
        }
        self.ack.pingpong = 0;
        if matches!(self.state, State::Established | State::CloseWait) && self.ack.scheduled {
            self.ack.pushed = true;
            self.cleanup_rbuf(1, cx);
            if value & 1 == 0 {
                self.ack.pingpong = u8::MAX;
            }
        }
    }

    /// Sets `TCP_WINDOW_CLAMP` (`tcp_set_window_clamp`). Zero, none, is for those that are closed.
    pub fn set_window_clamp(&mut self, bytes: u32) {
        if bytes == 0 {
            self.rcv.window_clamp = 0;
            return;
        }
        let clamp = bytes.max(MIN_RCVBUF / 2);
        let old = core::mem::replace(&mut self.rcv.window_clamp, clamp);
        if clamp < old {
            self.rcv.ssthresh = self.rcv.ssthresh.min(clamp);
        } else if clamp > old {
            self.rcv.ssthresh = self.rcv.ssthresh.max(self.rcv.wnd.min(clamp));
        }
    }

    /// The largest window that will be offered, bytes.
    pub fn window_clamp(&self) -> u32 {
        self.rcv.window_clamp
    }

    /// `SO_RCVBUF` was set: bytes as the kernel doubles them. Since 7.x the window follows at once.
    pub fn set_rcvbuf(&mut self, bytes: u32) {
        self.rcv.rcvbuf = bytes;
        if self.config.profile.clamp_follows_rcvbuf {
            self.set_window_clamp(self.full_space());
        }
    }

    /// `SO_RCVLOWAT` was set: perhaps there is enough to read now; and unless that is locked, it says how much has to
    /// fit into the receive buffer (`tcp_set_rcvlowat`).
    pub fn rcvlowat_changed(&mut self, cx: &mut Cx<'_>) {
        if self.is_readable() || self.rcv.fin_received {
            cx.ready |= SocketReady::READABLE;
        }
        let lowat = self.config.socket.rcvlowat;
        if self.config.rcvbuf_is_locked() {
            return;
        }
        let space = self.space_from_win(lowat.into());
        if space > self.rcv.rcvbuf.into() {
            self.rcv.rcvbuf = space.min(u32::MAX.into()) as u32;
            self.set_window_clamp(lowat);
        }
    }

    /// `sk_rcvbuf`, bytes.
    pub fn rcvbuf(&self) -> u32 {
        self.rcv.rcvbuf
    }

    /// `sk_rmem_alloc`, bytes.
    pub fn rmem_alloc(&self) -> u32 {
        self.rcv.rmem_alloc
    }

    /// Another congestion control from here on; the same one again changes nothing (`tcp_set_congestion_control`).
    pub fn set_congestion_control(&mut self, algorithm: Algorithm, now: Instant) {
        if self.cc.algorithm() == algorithm {
            return;
        }
        self.config_mut().congestion_control = algorithm;
        self.cc = AnyCongestionControl::new(&self.config);
        self.cc.fall_back(self.ecn.ok, self.ecn.accurate);
        // What is undone from now on is not the window of another module (`tcp_init_congestion_control`).
        self.rec.prior_ssthresh = None;
        let ack = self.ack_view(now);
        self.cc.init(&mut self.window, &ack);
    }

    /// `TCP_NOTSENT_LOWAT` was set: perhaps there is room now.
    pub fn lowat_changed(&mut self, cx: &mut Cx<'_>) {
        if self.poll_writable() {
            cx.ready |= SocketReady::WRITABLE;
        }
    }

    /// Sets `TCP_TX_DELAY`, µs: round trips are as much longer from here on, and so is what goes by them
    /// (`tcp_set_tx_delay`).
    pub fn set_tx_delay(&mut self, us: u32) {
        let before = core::mem::replace(&mut self.config_mut().socket.tx_delay_us, us);
        let change = (i64::from(us) - i64::from(before)) << 3;
        let Some(srtt) = self.rtt.srtt_us_8.filter(|_| change != 0) else { return };
        let srtt = (i64::from(srtt.get()) + change).clamp(1, u32::MAX.into());
        self.rtt.srtt_us_8 = NonZeroU32::new(srtt as u32);
        self.rtt.min = MinRtt::default();
        self.set_rto();
        self.update_pacing_rate();
    }

    /// `SO_MAX_PACING_RATE` was set.
    pub fn pacing_changed(&mut self) {
        self.update_pacing_rate();
        self.window.pacing_rate = self.window.pacing_rate.min(self.config.max_pacing_rate);
    }

    /// What TCP_INFO tells once this connection was given up, for `tcp_disconnect` leaves more than a new socket has; and
    /// the largest window.
    pub(crate) fn info_of_remains(&self, now: Instant) -> (TcpInfo, u32) {
        let info = self.info(now);
        let left = TcpInfo {
            retransmits: info.retransmits,
            snd_mss: info.snd_mss,
            rcv_mss: MSS_MIN,
            pmtu: info.pmtu,
            rcv_ssthresh: info.rcv_ssthresh,
            advmss: info.advmss,
            reordering: info.reordering,
            rcv_space: info.rcv_space,
            pacing_rate: info.pacing_rate,
            notsent_bytes: info.notsent_bytes,
            min_rtt: info.min_rtt,
            delivery_rate: info.delivery_rate,
            snd_wnd: info.snd_wnd,
            rcv_wnd: info.rcv_wnd,
            ..TcpInfo::of_closed(&self.config, now)
        };
        (left, self.snd.max_window)
    }

    /// The socket had another connection before, whose window is what the first guess at the size of the peer's segments
    /// goes by (`tcp_initialize_rcv_mss` before `tcp_select_initial_window`).
    pub(crate) fn follows_another(&mut self) {
        if self.state == State::SynSent {
            self.initialize_rcv_mss();
        }
    }

    /// `TCP_TIMESTAMP`: our timestamp clock.
    pub fn timestamp(&self, now: Instant) -> u32 {
        self.ts_now(now)
    }
}

impl TcpInfo {
    /// What a socket without a connection says of itself.
    pub fn of_closed(config: &TcpConfig, now: Instant) -> Self {
        let nowhere = SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), 0);
        let ends = Endpoints {
            local: nowhere,
            remote: nowhere,
            mtu: 0,
            reopens: false,
            ts_recent: (0, 0),
            iss: Seq(0),
            ecn: false,
            route: RouteMetrics::default(),
        };
        let info = Connection::new(u32::MAX, Arc::new(config.clone()), ends).info(now);
        Self { snd_mss: MSS_DEFAULT, advmss: 0, ..info }
    }

    /// What a listener says of itself, of which not everything is asked: how many connections wait, and may
    /// (`tcp_get_info`).
    pub(crate) fn of_listener(
        config: &TcpConfig,
        now: Instant,
        (waiting, backlog): (u32, u32),
    ) -> Self {
        Self {
            state: State::Listen,
            unacked: waiting,
            sacked: backlog,
            delivery_rate_app_limited: false,
            rto: 0,
            snd_mss: 0,
            last_data_sent: 0,
            last_data_recv: 0,
            last_ack_recv: 0,
            rttvar: 0,
            snd_ssthresh: 0,
            min_rtt: 0,
            ..Self::of_closed(config, now)
        }
    }
}
