//! TCP_INFO: the state of a connection for programs (`struct tcp_info`, `tcp_get_info`).

use super::cc::{CcInfo, CongestionControl as _};
use super::state::State;
use super::{Connection, Totals};
use crate::trace::CaState;
use crate::units::Instant;

/// What limits sending, for `tcpi_busy_time` and friends (`tcp_chrono`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
enum Limit {
    /// Nothing to send.
    #[default]
    Idle,
    /// Sending.
    Busy,
    /// The peer's window is full.
    RwndLimited,
    /// The send buffer is too small.
    SndbufLimited,
}

/// Time spent under each limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(super) struct Chrono {
    current: Limit,
    /// Jiffies, as all here.
    since: u32,
    busy: u32,
    rwnd_limited: u32,
    sndbuf_limited: u32,
}

/// `struct tcp_info`: names and units of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TcpInfo {
    /// Connection state.
    pub state: State,
    /// Congestion state.
    pub ca_state: CaState,
    /// Timeouts without progress.
    pub retransmits: u8,
    /// Unanswered probes.
    pub probes: u8,
    /// Exponent of the timeout.
    pub backoff: u8,
    /// `TCPI_OPT_*`: 1 timestamps, 2 SACK, 4 window scale, 8 ECN, 16 ECN seen.
    pub options: u8,
    /// Shift of the peer's windows.
    pub snd_wscale: u8,
    /// Shift of our windows.
    pub rcv_wscale: u8,
    /// The delivery rate sample was limited by the application.
    pub delivery_rate_app_limited: bool,
    /// Retransmission timeout, µs.
    pub rto: u32,
    /// Delayed-ACK timeout, µs.
    pub ato: u32,
    /// Payload of a full segment sent, bytes.
    pub snd_mss: u32,
    /// Estimate of the peer's, bytes.
    pub rcv_mss: u32,
    /// Segments not acknowledged.
    pub unacked: u32,
    /// Of those, SACKed.
    pub sacked: u32,
    /// Of those, lost.
    pub lost: u32,
    /// Retransmissions in flight.
    pub retrans: u32,
    /// ms since data was last sent.
    pub last_data_sent: u32,
    /// ms since data last arrived.
    pub last_data_recv: u32,
    /// ms since an ACK last arrived.
    pub last_ack_recv: u32,
    /// Path MTU, bytes.
    pub pmtu: u32,
    /// Limit of the offered window, bytes.
    pub rcv_ssthresh: u32,
    /// Smoothed RTT, µs.
    pub rtt: u32,
    /// Its deviation, µs.
    pub rttvar: u32,
    /// Slow start threshold, segments.
    pub snd_ssthresh: u32,
    /// Congestion window, segments.
    pub snd_cwnd: u32,
    /// MSS that we advertise, bytes.
    pub advmss: u32,
    /// Reordering degree, segments.
    pub reordering: u32,
    /// RTT as the receiver sees it, µs.
    pub rcv_rtt: u32,
    /// Bytes that the application reads per RTT.
    pub rcv_space: u32,
    /// Retransmissions in all, segments.
    pub total_retrans: u32,
    /// Pacing rate, byte/s.
    pub pacing_rate: u64,
    /// Bytes acknowledged.
    pub bytes_acked: u64,
    /// Bytes received.
    pub bytes_received: u64,
    /// Segments sent.
    pub segs_out: u32,
    /// Segments received.
    pub segs_in: u32,
    /// Bytes written and not sent.
    pub notsent_bytes: u32,
    /// Lowest RTT, µs.
    pub min_rtt: u32,
    /// Segments with data received.
    pub data_segs_in: u32,
    /// Segments with data sent.
    pub data_segs_out: u32,
    /// Latest delivery rate, byte/s.
    pub delivery_rate: u64,
    /// Time with something to send, µs.
    pub busy_time: u64,
    /// Of that, limited by the peer's window, µs.
    pub rwnd_limited: u64,
    /// Of that, limited by the send buffer, µs.
    pub sndbuf_limited: u64,
    /// Segments delivered.
    pub delivered: u32,
    /// Of those, with CE.
    pub delivered_ce: u32,
    /// Payload bytes sent, retransmissions included.
    pub bytes_sent: u64,
    /// Payload bytes retransmitted.
    pub bytes_retrans: u64,
    /// DSACKed segments.
    pub dsack_dups: u32,
    /// Times reordering was seen.
    pub reord_seen: u32,
    /// Segments received out of order.
    pub rcv_ooopack: u32,
    /// The peer's window, bytes.
    pub snd_wnd: u32,
    /// Our window as last offered, bytes.
    pub rcv_wnd: u32,
    /// Limit of the pacing rate, byte/s; all bits: none.
    pub max_pacing_rate: u64,
    /// Timeouts after which another path was tried.
    pub rehash: u32,
    /// Timeouts, those of the handshake included.
    pub total_rto: u16,
    /// Series of timeouts without progress in between.
    pub total_rto_recoveries: u16,
    /// Time from the first timeout of each series to its end or now, ms.
    pub total_rto_time: u32,
    /// Packets that came with CE.
    pub received_ce: u32,
    /// Bytes of ours that arrived as ECT(1), by the peer's AccECN options.
    pub delivered_e1_bytes: u32,
    /// … as ECT(0).
    pub delivered_e0_bytes: u32,
    /// … as CE.
    pub delivered_ce_bytes: u32,
    /// Bytes that came as ECT(1).
    pub received_e1_bytes: u32,
    /// Bytes that came as ECT(0).
    pub received_e0_bytes: u32,
    /// Bytes that came as CE.
    pub received_ce_bytes: u32,
    /// 0 no ECN, 1 RFC 3168, 2 AccECN, 3 AccECN asked for.
    pub ecn_mode: u8,
    /// AccECN options of the peer: 0 none, 1 without counters, 2 with, 3 zeroed.
    pub accecn_opt_seen: u8,
    /// What AccECN found broken: 1 our SYN-ACKs, 2 the peer's ACE field, 4 our options, 8 the peer's.
    pub accecn_fail_mode: u8,
}

/// What of [`TcpInfo`] is looked at often.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BriefInfo {
    /// Segments in flight.
    pub unacked: u32,
    /// Smoothed round-trip time, µs.
    pub rtt: u32,
    /// Slow-start threshold, segments.
    pub snd_ssthresh: u32,
    /// Congestion window, segments.
    pub snd_cwnd: u32,
    /// Segments retransmitted.
    pub total_retrans: u32,
    /// Expiries of the retransmission timer.
    pub total_rto: u16,
}

impl Connection {
    /// Everything about the connection now.
    pub fn info(&self, now: Instant) -> TcpInfo {
        let brief = self.brief_info();
        let jiffies = self.jiffies32(now);
        let ms_since = |then: u32| jiffies.wrapping_sub(then);
        let chrono = self.chrono.until(jiffies);
        let [received_e1_bytes, received_e0_bytes, received_ce_bytes] = self.ecn.received_bytes;
        let [delivered_e1_bytes, delivered_e0_bytes, delivered_ce_bytes] = self.ecn.acc.delivered;
        let Totals { bytes_sent, bytes_retrans, bytes_acked, bytes_received, .. } = self.totals;
        TcpInfo {
            state: self.state,
            ca_state: self.window.ca_state,
            retransmits: self.retransmits,
            probes: self.probes_out,
            backoff: self.backoff,
            options: self.info_options(),
            snd_wscale: self.opt.snd_wscale,
            rcv_wscale: if self.opt.wscale_ok { self.opt.rcv_wscale } else { 0 },
            delivery_rate_app_limited: self.rate.rate_app_limited || self.rate.rate_delivered == 0,
            rto: self.rto * 1_000,
            ato: self.ack.ato * 1_000,
            snd_mss: self.snd.mss,
            rcv_mss: self.ack.rcv_mss,
            unacked: brief.unacked,
            sacked: self.rec.sacked_out,
            lost: self.rec.lost_out,
            retrans: self.rec.retrans_out,
            last_data_sent: ms_since(self.snd.lsndtime),
            last_data_recv: ms_since(self.ack.lrcvtime),
            last_ack_recv: ms_since(self.rcv_tstamp),
            pmtu: self.snd.pmtu,
            rcv_ssthresh: self.rcv.ssthresh,
            rtt: brief.rtt,
            rttvar: self.rtt.mdev_us_4 >> 2,
            snd_ssthresh: brief.snd_ssthresh,
            snd_cwnd: brief.snd_cwnd,
            advmss: self.opt.advmss,
            reordering: self.rec.reordering,
            rcv_rtt: self.rcv.rtt_us_8 >> 3,
            rcv_space: self.rcv.space,
            total_retrans: brief.total_retrans,
            pacing_rate: self.window.pacing_rate,
            bytes_acked,
            bytes_received,
            segs_out: self.totals.segs_out,
            segs_in: self.totals.segs_in,
            notsent_bytes: self.notsent_bytes() as u32,
            min_rtt: self.rtt.min.get_us(),
            data_segs_in: self.totals.data_segs_in,
            data_segs_out: self.totals.data_segs_out,
            delivery_rate: self.rate.delivery_rate(self.snd.mss),
            busy_time: micros(chrono.busy + chrono.rwnd_limited + chrono.sndbuf_limited),
            rwnd_limited: micros(chrono.rwnd_limited),
            sndbuf_limited: micros(chrono.sndbuf_limited),
            delivered: self.rate.delivered,
            delivered_ce: self.rate.delivered_ce,
            bytes_sent,
            bytes_retrans,
            dsack_dups: self.totals.dsack_dups,
            reord_seen: self.totals.reord_seen,
            rcv_ooopack: self.totals.rcv_ooopack,
            snd_wnd: self.snd.wnd,
            rcv_wnd: self.rcv.wnd,
            max_pacing_rate: self.config.max_pacing_rate,
            rehash: u32::from(self.totals.rto.rehashed) + u32::from(self.totals.plb_rehash),
            total_rto: brief.total_rto,
            total_rto_recoveries: self.totals.rto.series,
            total_rto_time: self.totals.rto.time_ms(now),
            received_ce: self.ecn.received_ce,
            delivered_e1_bytes,
            delivered_e0_bytes,
            delivered_ce_bytes,
            received_e1_bytes,
            received_e0_bytes,
            received_ce_bytes,
            ecn_mode: self.ecn_mode(),
            accecn_opt_seen: self.ecn.acc.opt_seen,
            accecn_fail_mode: self.ecn.acc.fail,
        }
    }

    /// The parts of [`info`](Self::info) that are read often. They are in few cache lines, so that this is fast.
    pub fn brief_info(&self) -> BriefInfo {
        BriefInfo {
            unacked: self.rec.packets_out,
            rtt: self.rtt.srtt_us(),
            snd_ssthresh: self.window.snd_ssthresh,
            snd_cwnd: self.window.snd_cwnd,
            total_retrans: self.totals.total_retrans,
            total_rto: self.totals.rto.timeouts,
        }
    }

    /// The state that the congestion module reports (`TCP_CC_INFO`); `None` if it reports nothing.
    pub fn cc_info(&self, now: Instant) -> Option<CcInfo> {
        self.cc.get_info(&self.ack_view(now))
    }

    /// The name of the congestion module at work (`TCP_CONGESTION`).
    pub fn cc_name(&self) -> &'static str {
        self.cc.name()
    }

    fn ecn_mode(&self) -> u8 {
        match (self.ecn.ok, self.ecn.accurate) {
            (false, _) => 0,
            (true, false) => 1,
            (true, true) if self.state == State::SynSent => 3,
            (true, true) => 2,
        }
    }

    fn info_options(&self) -> u8 {
        let child = self.rare.as_ref().is_some_and(|rare| rare.fast_open.child);
        u8::from(self.opt.timestamps && !self.is_unanswered())
            | u8::from(child) << 7
            | u8::from(self.opt.sack_ok) << 1
            | u8::from(self.opt.wscale_ok) << 2
            | u8::from(self.ecn.ok) << 3
            | u8::from(self.ecn.seen) << 4
            | u8::from(self.rare.as_ref().is_some_and(|rare| rare.fast_open.syn_data_acked)) << 5
    }

    /// No SYN of the peer has come, or only a refusal: nothing was agreed on.
    fn is_unanswered(&self) -> bool {
        let refused = self.state == State::Close && self.snd.una == self.snd.iss;
        self.state == State::SynSent || refused
    }

    /// Output stopped at the peer's window, or did not.
    pub(super) fn chrono_rwnd_limited(&mut self, limited: bool, now: Instant) {
        let idle = self.rec.packets_out == 0 && self.queue.unsent_is_empty();
        let limit = match (idle, limited) {
            (true, _) => Limit::Idle,
            (false, true) => Limit::RwndLimited,
            (false, false) => Limit::Busy,
        };
        self.chrono.switch(limit, self.jiffies32(now));
    }

    /// The send buffer is the limit.
    pub(super) fn chrono_sndbuf_limited(&mut self, now: Instant) {
        self.chrono.switch(Limit::SndbufLimited, self.jiffies32(now));
    }

    /// Everything in flight is acknowledged.
    pub(super) fn chrono_idle(&mut self, now: Instant) {
        if self.queue.unsent_is_empty() {
            self.chrono.switch(Limit::Idle, self.jiffies32(now));
        }
    }
}

/// Jiffies are milliseconds.
fn micros(jiffies: u32) -> u64 {
    u64::from(jiffies) * 1_000
}

impl Chrono {
    fn switch(&mut self, limit: Limit, now: u32) {
        if self.current != limit {
            *self = Self { current: limit, since: now, ..self.until(now) };
        }
    }

    fn until(mut self, now: u32) -> Self {
        let span = now.wrapping_sub(self.since);
        match self.current {
            Limit::Idle => {}
            Limit::Busy => self.busy += span,
            Limit::RwndLimited => self.rwnd_limited += span,
            Limit::SndbufLimited => self.sndbuf_limited += span,
        }
        self
    }
}
