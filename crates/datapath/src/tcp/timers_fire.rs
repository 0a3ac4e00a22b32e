//! Timers: setting them, and what happens when they fire (`tcp_write_timer_handler`,
//! `tcp_retransmit_timer`, `tcp_probe_timer`, `tcp_keepalive_timer`).

use super::output::Push;
use super::state::State;
use super::timer::{HZ, Pending, Timer};
use super::{Connection, Cx, SocketError};
use crate::trace::{Cause, EventKind};
use crate::units::Instant;

/// `TCP_TIMEOUT_FALLBACK`, ms.
pub(super) const TIMEOUT_FALLBACK_MS: u32 = 3_000;
/// `TCP_TIMEWAIT_LEN`, s.
const TIME_WAIT_SECS: u32 = 60;
/// `TCP_RESOURCE_PROBE_INTERVAL`, jiffies.
const RESOURCE_PROBE_INTERVAL: u32 = HZ / 2;
/// Longest time that one pending timer is set ahead for.
const RTO_MIN: u32 = HZ / 5;

impl Connection {
    /// Timers that have expired are worked off.
    pub fn timers_fire(&mut self, cx: &mut Cx<'_>) {
        while let Some(timer) = self.timers.take_expired(cx.now) {
            match timer {
                Timer::Transmit => self.transmit_timeout(cx),
                Timer::DelayedAck => self.delayed_ack_timeout(cx),
                Timer::Keepalive => self.keepalive_timeout(cx),
                Timer::CompressedAck => self.compressed_ack_timeout(cx),
                Timer::Pacing => {
                    if self.state.may_transmit() {
                        if self.rec.lost_out > self.rec.retrans_out {
                            self.xmit_retransmit_queue(Cause::Rack, cx);
                        }
                        self.write_xmit(self.snd.mss, self.snd.nonagle, Push::All, cx);
                    }
                }
            }
        }
    }

    /// Sets the transmit timer `delta` jiffies ahead (`tcp_reset_xmit_timer`).
    pub(super) fn reset_xmit_timer(&mut self, pending: Pending, delta: u32, now: Instant) {
        let delta = u64::from(delta.min(self.config.sysctl.tcp_rto_max_ms));
        self.pending = pending;
        self.timeout = self.jiffies_clock().now(now) + delta;
        let expiry = self.jiffies_clock().wheel_expiry(now, delta);
        self.timers.set(Timer::Transmit, expiry);
    }

    /// Restarts the retransmission timer, or stops it when nothing is in flight
    /// (`tcp_rearm_rto`).
    pub(super) fn rearm_rto(&mut self, now: Instant) {
        if self.rec.packets_out == 0 {
            self.pending = Pending::None;
            self.timers.stop(Timer::Transmit);
            return;
        }
        let mut rto = self.rto;
        if matches!(self.pending, Pending::Reorder | Pending::LossProbe) {
            // Time that has passed since the timeout was due to start counts.
            rto = (self.rto_delta_us(now).max(1) as u64).div_ceil(1_000) as u32;
        }
        self.reset_xmit_timer(Pending::Retransmit, rto, now);
    }

    /// `tcp_write_timer_handler`.
    fn transmit_timeout(&mut self, cx: &mut Cx<'_>) {
        if matches!(self.state, State::Close | State::Listen) {
            return;
        }
        match self.pending {
            Pending::None => {}
            Pending::Reorder => self.rack_reo_timeout(cx),
            Pending::LossProbe => self.send_loss_probe(cx),
            Pending::Retransmit => {
                self.pending = Pending::None;
                self.retransmit_timeout(cx);
            }
            Pending::Probe0 => {
                self.pending = Pending::None;
                self.probe_timeout(cx);
            }
        }
    }

    /// The retransmission timeout (`tcp_retransmit_timer`).
    fn retransmit_timeout(&mut self, cx: &mut Cx<'_>) {
        let Some(head) = self.queue.rtx_head() else { return };
        if self.rec.packets_out == 0 {
            return;
        }
        let handshake = matches!(self.state, State::SynSent | State::SynRecv);
        if self.snd.wnd == 0 && !self.orphan && !handshake {
            // The peer shrank its window: retransmissions serve as probes.
            self.enter_loss(cx);
            self.retransmit_skb(head, 1, Cause::ZeroWindowProbe, cx);
            self.back_off(handshake, cx.now);
            return;
        }
        cx.mib.timeouts += 1;
        cx.event(
            self.id,
            EventKind::Timeout { retransmits: u32::from(self.retransmits) + 1, rto_ms: self.rto },
        );
        if self.give_up(handshake, cx) {
            return;
        }
        if self.retransmits == 0 {
            self.count_failure(cx);
        }
        if handshake {
            self.handshake_timeout();
        } else {
            self.enter_loss(cx);
        }
        self.retransmits = self.retransmits.saturating_add(1);
        let head = self.queue.rtx_head().expect("something is in flight");
        if handshake {
            self.ecn_fall_back(head);
        }
        let cause = if handshake { Cause::Handshake } else { Cause::Timeout };
        if !self.retransmit_skb(head, 1, cause, cx) {
            self.reset_xmit_timer(Pending::Retransmit, RESOURCE_PROBE_INTERVAL, cx.now);
            return;
        }
        self.backoff = self.backoff.saturating_add(1);
        self.back_off(handshake, cx.now);
    }

    /// A SYN or SYN-ACK timed out: no window to reduce, but the loss is remembered.
    fn handshake_timeout(&mut self) {
        self.rec.undo_marker = Some(self.snd.una);
        self.rec.undo_retrans = self.rec.undo_retrans.max(0);
        self.rec.retrans_out = 0;
        if let Some(head) = self.queue.rtx_head() {
            self.queue.get_mut(head).sacked &= !super::skb::tag::RETRANS;
        }
    }

    /// Doubles the timeout and sets the timer again.
    fn back_off(&mut self, handshake: bool, now: Instant) {
        let linear = handshake
            && self.state == State::SynSent
            && u32::from(self.backoff) <= self.config.profile.syn_linear_timeouts;
        if !linear {
            self.rto = (self.rto << 1).min(self.config.sysctl.tcp_rto_max_ms);
        }
        let rto = self.rto;
        self.reset_xmit_timer(Pending::Retransmit, rto, now);
    }

    /// Which counter the first timeout of an episode belongs to.
    fn count_failure(&self, cx: &mut Cx<'_>) {
        use super::cc::CaState;
        let sack = self.is_sack();
        match self.window.ca_state {
            CaState::Recovery if sack => cx.mib.sack_recovery_fail += 1,
            CaState::Recovery => cx.mib.reno_recovery_fail += 1,
            CaState::Loss => cx.mib.loss_failures += 1,
            CaState::Disorder | CaState::Open | CaState::Cwr => {
                if self.window.ca_state == CaState::Disorder || self.rec.sacked_out > 0 {
                    if sack {
                        cx.mib.sack_failures += 1;
                    } else {
                        cx.mib.reno_failures += 1;
                    }
                }
            }
        }
    }

    /// Too many timeouts: the connection fails (`tcp_write_timeout`).
    fn give_up(&mut self, handshake: bool, cx: &mut Cx<'_>) -> bool {
        let sysctl = &self.config.sysctl;
        let limit = match self.state {
            State::SynSent => sysctl.tcp_syn_retries + self.config.profile.syn_linear_timeouts,
            State::SynRecv => sysctl.tcp_synack_retries,
            _ => sysctl.tcp_retries2,
        };
        let over = if handshake {
            u32::from(self.retransmits) >= limit
        } else {
            self.retransmitted_too_long(limit, cx.now)
        };
        if over {
            cx.mib.abort_on_timeout += 1;
            self.fail(SocketError::TimedOut, cx);
        }
        over
    }

    /// The first retransmission was longer ago than `retries` back-offs would take, or than the
    /// user timeout (`retransmits_timed_out`).
    fn retransmitted_too_long(&self, retries: u32, now: Instant) -> bool {
        if self.retransmits == 0 {
            return false;
        }
        let limit_ms = if self.config.user_timeout_ms > 0 {
            u64::from(self.config.user_timeout_ms)
        } else {
            self.model_timeout_ms(retries)
        };
        let since = self.ts_now(now).wrapping_sub(self.rec.retrans_stamp);
        self.rec.retrans_stamp != 0 && u64::from(since) >= limit_ms
    }

    /// Sum of `retries` exponential back-offs from the smallest timeout
    /// (`tcp_model_timeout`).
    fn model_timeout_ms(&self, retries: u32) -> u64 {
        let max = u64::from(self.config.sysctl.tcp_rto_max_ms);
        let mut timeout = u64::from(RTO_MIN);
        let mut total = 0;
        for _ in 0..=retries {
            total += timeout.min(max);
            timeout = timeout.saturating_mul(2);
        }
        total
    }

    /// A window probe will be needed (`tcp_check_probe_timer`).
    pub(super) fn check_probe_timer(&mut self, now: Instant) {
        if self.rec.packets_out == 0 && self.pending == Pending::None {
            let when = self.probe0_base();
            self.reset_xmit_timer(Pending::Probe0, when, now);
        }
    }

    /// `tcp_probe0_base`.
    fn probe0_base(&self) -> u32 {
        self.rto.max(RTO_MIN)
    }

    /// `tcp_probe0_when`: exponential back-off.
    pub(super) fn probe0_when(&self) -> u32 {
        let shift = u32::from(self.backoff).min(20);
        let when = u64::from(self.probe0_base()) << shift;
        when.min(u64::from(self.config.sysctl.tcp_rto_max_ms)) as u32
    }

    /// Time to ask whether the window is still closed (`tcp_probe_timer`, `tcp_send_probe0`).
    fn probe_timeout(&mut self, cx: &mut Cx<'_>) {
        if self.rec.packets_out > 0 || self.queue.unsent_is_empty() {
            self.probes_out = 0;
            return;
        }
        if u32::from(self.probes_out) >= self.config.sysctl.tcp_retries2 && self.orphan {
            self.fail(SocketError::TimedOut, cx);
            return;
        }
        self.write_wakeup(cx);
        if self.rec.packets_out > 0 {
            self.probes_out = 0;
            self.backoff = 0;
            return;
        }
        self.probes_out = self.probes_out.saturating_add(1);
        if u32::from(self.backoff) < self.config.sysctl.tcp_retries2 {
            self.backoff += 1;
        }
        let when = self.probe0_when();
        self.reset_xmit_timer(Pending::Probe0, when, cx.now);
    }

    /// Sends data if a little fits, else an empty probe (`tcp_write_wakeup`).
    fn write_wakeup(&mut self, cx: &mut Cx<'_>) {
        if let Some(head) = self.queue.send_head()
            && self.queue.get(head).seq.before(self.wnd_end())
        {
            let room = self.wnd_end().bytes_since(self.queue.get(head).seq);
            let mss = self.snd.mss.min(room);
            if mss < self.queue.get(head).len() {
                self.queue.get_mut(head).pcount = 0;
                self.fragment(head, mss);
            }
            self.write_xmit(mss, super::write::nagle::PUSH, Push::Probe, cx);
            return;
        }
        cx.mib.win_probe += 1;
        self.send_probe_ack(cx);
    }

    /// `SO_KEEPALIVE` starts with the connection.
    pub(super) fn start_keepalive(&mut self, now: Instant) {
        if self.config.keepalive {
            let ticks = u64::from(self.config.sysctl.tcp_keepalive_time) * u64::from(HZ);
            self.set_keepalive(ticks, now);
        }
    }

    fn set_keepalive(&mut self, ticks: u64, now: Instant) {
        let expiry = self.jiffies_clock().wheel_expiry(now, ticks);
        self.timers.set(Timer::Keepalive, expiry);
    }

    /// How long an orphan waits for the peer's FIN (`tcp_fin_timeout`).
    pub(super) fn start_fin_wait_timer(&mut self, now: Instant) {
        self.set_keepalive(u64::from(self.config.sysctl.tcp_fin_timeout) * u64::from(HZ), now);
    }

    /// 2 MSL.
    pub(super) fn start_time_wait_timer(&mut self, now: Instant) {
        self.set_keepalive(u64::from(TIME_WAIT_SECS) * u64::from(HZ), now);
    }

    /// Keepalive, FIN-WAIT-2 or TIME-WAIT (`tcp_keepalive_timer`).
    fn keepalive_timeout(&mut self, cx: &mut Cx<'_>) {
        match self.state {
            State::TimeWait => self.done(cx),
            State::FinWait2 if self.orphan => self.done(cx),
            State::Close | State::Listen | State::SynSent => {}
            _ if self.config.keepalive => self.keepalive_probe(cx),
            _ => {}
        }
    }

    fn keepalive_probe(&mut self, cx: &mut Cx<'_>) {
        let sysctl = &self.config.sysctl;
        let idle_ticks = u64::from(sysctl.tcp_keepalive_time) * u64::from(HZ);
        let interval = u64::from(sysctl.tcp_keepalive_intvl) * u64::from(HZ);
        let busy = self.rec.packets_out > 0 || !self.queue.unsent_is_empty();
        let idle = u64::from(self.jiffies32(cx.now).wrapping_sub(self.rcv_tstamp));
        if busy || idle < idle_ticks {
            let wait = if busy { idle_ticks } else { idle_ticks - idle };
            self.set_keepalive(wait, cx.now);
            return;
        }
        if u32::from(self.probes_out) >= sysctl.tcp_keepalive_probes {
            self.send_reset(cx);
            self.fail(SocketError::TimedOut, cx);
            return;
        }
        cx.mib.keep_alive += 1;
        self.probes_out += 1;
        self.send_probe_ack(cx);
        self.set_keepalive(interval, cx.now);
    }
}
