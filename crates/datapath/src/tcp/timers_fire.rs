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
/// `TCP_TIMEOUT_MIN`, jiffies.
const TIMEOUT_MIN: u32 = 2;
/// A stream with fewer packets in flight is thin.
const THIN_PACKETS: u32 = 4;
/// `TCP_THIN_LINEAR_RETRIES`.
const THIN_LINEAR_RETRIES: u8 = 6;
/// `TCP_RTO_MIN`, jiffies.
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
                        self.write_xmit(self.current_mss(cx.now), self.snd.nonagle, Push::All, cx);
                    }
                }
            }
        }
    }

    /// Sets the transmit timer `delta` jiffies ahead (`tcp_reset_xmit_timer`).
    pub(super) fn reset_xmit_timer(&mut self, pending: Pending, delta: u32, now: Instant) {
        let delta = u64::from(delta.min(self.rto_max_ms()));
        self.pending = pending;
        let timeout = self.jiffies_clock().now(now) + delta;
        // A timer that is set for this very time already stays in its place on the wheel, however
        // coarse that is (mod_timer).
        let unchanged = timeout == self.timeout && self.timers.is_set(Timer::Transmit);
        self.timeout = timeout;
        if !unchanged {
            let expiry = self.jiffies_clock().wheel_expiry(now, delta);
            self.timers.set(Timer::Transmit, expiry);
        }
    }

    /// Restarts the retransmission timer, or stops it when nothing is in flight
    /// (`tcp_rearm_rto`).
    pub(super) fn rearm_rto(&mut self, now: Instant) {
        if self.is_passive_fast_open() {
            // The timer is the SYN-ACK's.
            return;
        }
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
    pub(super) fn retransmit_timeout(&mut self, cx: &mut Cx<'_>) {
        if self.is_passive_fast_open() {
            return self.fast_open_syn_ack_timeout(cx);
        }
        if self.state == State::SynRecv && cx.gate.request {
            return self.request_timeout(cx);
        }
        let Some(head) = self.queue.rtx_head() else { return };
        if self.rec.packets_out == 0 {
            return;
        }
        let handshake = matches!(self.state, State::SynSent | State::SynRecv);
        if self.snd.wnd == 0 && !self.orphan && !handshake {
            // The peer shrank its window: retransmissions serve as probes.
            if self.window_closed_too_long(head, cx) {
                return self.write_error(cx);
            }
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
        self.note_timeout(cx.now);
        let head = self.queue.rtx_head().expect("something is in flight");
        if handshake {
            self.ecn_fall_back(head);
        }
        let cause = if handshake { Cause::Handshake } else { Cause::Timeout };
        if !self.retransmit_skb(head, 1, cause, cx) {
            self.reset_xmit_timer(Pending::Retransmit, RESOURCE_PROBE_INTERVAL, cx.now);
            return;
        }
        if self.backs_off_linearly() {
            self.backoff = 0;
            self.set_rto();
            let rto = self.clamped_rto(cx.now);
            return self.reset_xmit_timer(Pending::Retransmit, rto, cx.now);
        }
        self.backoff = self.backoff.saturating_add(1);
        self.back_off(handshake, cx.now);
    }

    /// A thin stream has too little in flight for fast retransmissions; it may ask for timeouts at
    /// constant distance, a few times (`tcp_stream_is_thin`).
    fn backs_off_linearly(&self) -> bool {
        let wanted =
            self.config.socket.thin_linear || self.config.sysctl.tcp_thin_linear_timeouts != 0;
        wanted
            && self.state == State::Established
            && self.rec.packets_out < THIN_PACKETS
            && self.window.snd_ssthresh < super::cc::INFINITE_SSTHRESH
            && self.retransmits <= THIN_LINEAR_RETRIES
    }

    /// The SYN-ACK of a half-open connection timed out (`reqsk_timer_handler`).
    fn request_timeout(&mut self, cx: &mut Cx<'_>) {
        let Some(due) = self.syn_ack_is_due() else {
            cx.mib.timeouts += 1;
            return self.done(cx);
        };
        // What the first SYN-ACK waited for counts as well.
        let first_sent =
            self.queue.rtx_head().map(|head| Instant::from_nanos(self.queue.get(head).sent_ns));
        if due {
            self.retransmit_syn_ack(cx);
            self.accurate_syn_ack_timeout();
            self.handshake_timeout();
        }
        self.note_timeout(first_sent.unwrap_or(cx.now));
        self.arm_request_timer(cx.now);
    }

    /// The SYN-ACK waits for an answer; the longer, the oftener it has waited (`reqsk_timeout`).
    pub(super) fn arm_request_timer(&mut self, now: Instant) {
        let timeout = u64::from(self.config.profile.timeout_init_ms) << self.retransmits.min(20);
        let timeout = timeout.min(self.rto_max_ms().into()) as u32;
        self.reset_xmit_timer(Pending::Retransmit, timeout, now);
    }

    /// The peer has answered nothing, with its window closed, for too long
    /// (`tcp_rtx_probe0_timed_out`).
    fn window_closed_too_long(&self, head: super::skb::SkbId, cx: &Cx<'_>) -> bool {
        let user_timeout = self.config.user_timeout_ms;
        let limit_ms = match user_timeout {
            0 => u64::from(self.rto_max_ms()) * 2,
            user => u64::from(user),
        };
        let silent = u64::from(self.jiffies32(cx.now).wrapping_sub(self.rcv_tstamp));
        if silent <= limit_ms {
            return false;
        }
        let sent_ms = self.queue.get(head).sent_us() / 1_000;
        cx.now.as_millis().saturating_sub(sent_ms) > limit_ms
    }

    /// The connection timed out: the application is told what the network complained about, if it
    /// did (`tcp_write_err`).
    fn write_error(&mut self, cx: &mut Cx<'_>) {
        cx.mib.abort_on_timeout += 1;
        let error = self.soft_error.take().unwrap_or(SocketError::TimedOut);
        self.fail(error, cx);
    }

    /// A SYN or SYN-ACK timed out: no window to reduce, but the loss is remembered.
    fn handshake_timeout(&mut self) {
        self.rec.undo_marker = Some(self.snd.una);
        self.rec.undo_retrans = self.rec.undo_retrans.max(0);
        if self.state == State::SynSent {
            self.ecn_queue_cwr();
        }
        self.rec.retrans_out = 0;
        if let Some(head) = self.queue.rtx_head() {
            self.queue.get_mut(head).sacked &= !super::skb::tag::RETRANS;
        }
    }

    /// Doubles the timeout and sets the timer again.
    fn back_off(&mut self, handshake: bool, now: Instant) {
        let linear = handshake
            && self.state == State::SynSent
            && u32::from(self.retransmits) <= self.config.sysctl.tcp_syn_linear_timeouts;
        if !linear {
            self.rto = (self.rto << 1).min(self.rto_max_ms());
        }
        let rto = self.clamped_rto(now);
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
        let own = u32::from(self.config.socket.syn_retries);
        let over = if handshake {
            let limit = match (self.state, own) {
                (State::SynSent, 0) => sysctl.tcp_syn_retries + sysctl.tcp_syn_linear_timeouts,
                (State::SynSent, own) => own + sysctl.tcp_syn_linear_timeouts,
                (_, 0) => sysctl.tcp_synack_retries,
                (_, own) => own,
            };
            let retries = if own > 0 { own } else { sysctl.tcp_syn_retries };
            u32::from(self.retransmits) >= limit
                || (self.state == State::SynSent
                    && self.retransmitted_too_long(retries, self.config.user_timeout_ms, cx.now))
        } else {
            if self.retransmitted_too_long(sysctl.tcp_retries1, 0, cx.now) {
                self.suspect_black_hole_of_size(cx.now);
            }
            self.gives_up_data(cx.now)
        };
        self.detect_black_hole(over, cx);
        if over {
            self.write_error(cx);
        } else if self.rethink_txhash() {
            cx.mib.timeout_rehash += 1;
            self.totals.rto.rehashed = self.totals.rto.rehashed.saturating_add(1);
        }
        over
    }

    /// Data was retransmitted for long enough.
    fn gives_up_data(&self, now: Instant) -> bool {
        let mut retries = self.config.sysctl.tcp_retries2;
        if self.orphan {
            let alive = self.rto < self.rto_max_ms();
            retries = self.orphan_retries(alive);
            if !alive && self.retransmitted_too_long(retries, 0, now) {
                return true;
            }
        }
        self.retransmitted_too_long(retries, self.config.user_timeout_ms, now)
    }

    /// How often an orphan is retransmitted (`tcp_orphan_retries`).
    fn orphan_retries(&self, alive: bool) -> u32 {
        let mut retries = self.config.sysctl.tcp_orphan_retries;
        if self.soft_error.is_some() && !alive {
            retries = 0;
        }
        if retries == 0 && alive { 8 } else { retries }
    }

    /// The first retransmission was longer ago than `retries` back-offs would take, or than the
    /// timeout that the user has set (`retransmits_timed_out`).
    fn retransmitted_too_long(&self, retries: u32, user_ms: u32, now: Instant) -> bool {
        if self.retransmits == 0 {
            return false;
        }
        let limit_ms =
            if user_ms > 0 { u64::from(user_ms) } else { self.model_timeout_ms(retries) };
        let since = self.ts_now(now).wrapping_sub(self.rec.retrans_stamp);
        self.rec.retrans_stamp != 0 && u64::from(since) >= limit_ms
    }

    /// Sum of `retries` exponential back-offs from the smallest timeout
    /// (`tcp_model_timeout`).
    fn model_timeout_ms(&self, retries: u32) -> u64 {
        let max = u64::from(self.rto_max_ms());
        let mut timeout = match self.state {
            State::SynSent | State::SynRecv => u64::from(self.config.profile.timeout_init_ms),
            _ => u64::from(RTO_MIN),
        };
        let mut total = 0;
        for _ in 0..=retries {
            total += timeout.min(max);
            timeout = timeout.saturating_mul(2);
        }
        total
    }

    /// The next timeout may come no later than the end of the user's patience
    /// (`tcp_clamp_rto_to_user_timeout`).
    fn clamped_rto(&self, now: Instant) -> u32 {
        let user_ms = self.config.user_timeout_ms;
        if user_ms == 0 || self.rec.retrans_stamp == 0 {
            return self.rto;
        }
        let elapsed = self.ts_now(now).wrapping_sub(self.rec.retrans_stamp);
        match user_ms.checked_sub(elapsed) {
            None | Some(0) => 1,
            Some(left) => self.rto.min(left),
        }
    }

    /// The timeout of the present RTT, doubled as often as before (`inet_csk_rto_backoff`).
    pub(super) fn set_rto_backed_off(&mut self) {
        let base = match self.rtt.srtt_us_8 {
            0 => self.config.profile.timeout_init_ms,
            _ => self.rtt.rto_us().div_ceil(1_000),
        };
        let backed_off = u64::from(base) << u32::from(self.backoff).min(20);
        self.rto = backed_off.min(u64::from(self.rto_max_ms())) as u32;
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
        when.min(u64::from(self.rto_max_ms())) as u32
    }

    /// Time to ask whether the window is still closed (`tcp_probe_timer`, `tcp_send_probe0`).
    fn probe_timeout(&mut self, cx: &mut Cx<'_>) {
        if self.rec.packets_out > 0 || self.queue.unsent_is_empty() {
            self.probes_out = 0;
            return;
        }
        let now = self.jiffies32(cx.now);
        let user_ms = self.config.user_timeout_ms;
        let since = *self.probes_since.get_or_insert(now);
        let mut over = user_ms > 0 && now.wrapping_sub(since) >= user_ms;
        let mut limit = self.config.sysctl.tcp_retries2;
        if self.orphan {
            let backed_off = u64::from(self.rto) << u32::from(self.backoff).min(20);
            let alive = backed_off < u64::from(self.rto_max_ms());
            limit = self.orphan_retries(alive);
            over |= !alive && u32::from(self.backoff) >= limit;
        }
        if over || u32::from(self.probes_out) >= limit {
            return self.write_error(cx);
        }
        let congested = !self.write_wakeup(cx);
        if self.rec.packets_out > 0 || self.queue.unsent_is_empty() {
            self.probes_out = 0;
            self.backoff = 0;
            self.probes_since = None;
            return;
        }
        self.probes_out = self.probes_out.saturating_add(1);
        let mut when = RESOURCE_PROBE_INTERVAL;
        if !congested {
            if u32::from(self.backoff) < self.config.sysctl.tcp_retries2 {
                self.backoff += 1;
            }
            when = self.probe0_when();
        }
        let when = self.clamped_probe(when, cx.now);
        self.reset_xmit_timer(Pending::Probe0, when, cx.now);
    }

    /// The next probe comes no later than the end of the user's patience
    /// (`tcp_clamp_probe0_to_user_timeout`).
    fn clamped_probe(&self, when: u32, now: Instant) -> u32 {
        let (user_ms, Some(since)) = (self.config.user_timeout_ms, self.probes_since) else {
            return when;
        };
        if user_ms == 0 {
            return when;
        }
        let elapsed = self.jiffies32(now).wrapping_sub(since);
        when.min(user_ms.saturating_sub(elapsed).max(TIMEOUT_MIN))
    }

    /// Sends data if a little fits, else an empty probe (`tcp_write_wakeup`). False: the queue
    /// below has dropped it.
    fn write_wakeup(&mut self, cx: &mut Cx<'_>) -> bool {
        if let Some(head) = self.queue.send_head()
            && self.queue.get(head).seq.before(self.wnd_end())
        {
            let room = self.wnd_end().bytes_since(self.queue.get(head).seq);
            let mss = self.current_mss(cx.now).min(room);
            if mss < self.queue.get(head).len() {
                self.queue.get_mut(head).pcount = 0;
                self.fragment(head, mss);
            }
            self.queue.get_mut(head).flags |= crate::packet::TcpFlags::PSH;
            self.write_xmit(mss, super::write::nagle::PUSH, Push::Window, cx);
            return self.rec.packets_out > 0 || self.queue.unsent_is_empty();
        }
        cx.mib.win_probe += 1;
        self.send_probe_ack(cx);
        true
    }

    /// `SO_KEEPALIVE` starts with the connection.
    pub(super) fn start_keepalive(&mut self, now: Instant) {
        if self.config.keepalive {
            self.set_keepalive(self.keepalive_time(), now);
        }
    }

    /// `SO_KEEPALIVE` or one of its times was set (`tcp_set_keepalive`).
    pub fn keepalive_changed(&mut self, now: Instant) {
        if matches!(self.state, State::Close | State::Listen | State::TimeWait) || self.orphan {
            return;
        }
        if !self.config.keepalive {
            self.timers.stop(Timer::Keepalive);
            return;
        }
        let left = self.keepalive_time().saturating_sub(self.idle_ticks(now));
        self.set_keepalive(left, now);
    }

    fn set_keepalive(&mut self, ticks: u64, now: Instant) {
        let expiry = self.jiffies_clock().wheel_expiry(now, ticks);
        self.timers.set(Timer::Keepalive, expiry);
    }

    /// Idle time before the first probe, ticks.
    fn keepalive_time(&self) -> u64 {
        let seconds = match self.config.socket.keepalive_time_s {
            0 => self.config.sysctl.tcp_keepalive_time,
            own => own,
        };
        u64::from(seconds) * u64::from(HZ)
    }

    /// Distance of probes, ticks.
    fn keepalive_interval(&self) -> u64 {
        let seconds = match self.config.socket.keepalive_intvl_s {
            0 => self.config.sysctl.tcp_keepalive_intvl,
            own => own,
        };
        u64::from(seconds) * u64::from(HZ)
    }

    /// Ticks since anything arrived.
    fn idle_ticks(&self, now: Instant) -> u64 {
        let jiffies = self.jiffies32(now);
        let since_ack = jiffies.wrapping_sub(self.rcv_tstamp);
        let since_data = jiffies.wrapping_sub(self.ack.lrcvtime);
        since_ack.min(since_data).into()
    }

    /// How long an orphan waits for the peer's FIN, ticks (`tcp_fin_time`).
    fn fin_time(&self) -> u64 {
        let seconds = match self.config.socket.linger2_s {
            0 => self.config.sysctl.tcp_fin_timeout,
            own => own.max(0) as u32,
        };
        let rto = u64::from(self.rto);
        (u64::from(seconds) * u64::from(HZ)).max((rto << 2) - (rto >> 1))
    }

    /// An orphan begins to wait for the peer's FIN; false: it does not wait at all
    /// (`TCP_LINGER2` below zero).
    pub(super) fn start_fin_wait_timer(&mut self, now: Instant) -> bool {
        if self.config.socket.linger2_s < 0 {
            return false;
        }
        self.set_keepalive(self.fin_time(), now);
        true
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
        let idle_limit = self.keepalive_time();
        let busy = self.rec.packets_out > 0 || !self.queue.unsent_is_empty();
        let idle = self.idle_ticks(cx.now);
        if busy || idle < idle_limit {
            let wait = if busy { idle_limit } else { idle_limit - idle };
            self.set_keepalive(wait, cx.now);
            return;
        }
        let user_ms = u64::from(self.config.user_timeout_ms);
        let probes = u32::from(self.probes_out);
        let limit = match self.config.socket.keepalive_probes {
            0 => self.config.sysctl.tcp_keepalive_probes,
            own => own.into(),
        };
        let over = if user_ms > 0 { idle >= user_ms && probes > 0 } else { probes >= limit };
        if over {
            self.send_reset(cx);
            return self.write_error(cx);
        }
        cx.mib.keep_alive += 1;
        self.probes_out = self.probes_out.saturating_add(1);
        self.send_probe_ack(cx);
        self.set_keepalive(self.keepalive_interval(), cx.now);
    }
}
