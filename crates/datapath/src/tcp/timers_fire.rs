//! Timers: setting them, and what happens when they fire (`tcp_write_timer_handler`); above all the
//! retransmission timeout (`tcp_retransmit_timer`).

mod keepalive;
mod patience;
mod window_probe;

use super::output::Push;
use super::recovery::Resent;
use super::state::State;
use super::timer::{HZ, Pending, Timer};
use super::{Connection, Cx};
use crate::trace::{Cause, EventKind};
use crate::units::Instant;

/// `TCP_TIMEOUT_FALLBACK`, ms.
pub(super) const TIMEOUT_FALLBACK_MS: u32 = 3_000;
/// `TCP_RESOURCE_PROBE_INTERVAL`, jiffies.
const RESOURCE_PROBE_INTERVAL: u32 = HZ / 2;
/// A stream with fewer packets in flight is thin.
const THIN_PACKETS: u32 = 4;
/// `TCP_THIN_LINEAR_RETRIES`.
const THIN_LINEAR_RETRIES: u8 = 6;
/// `TCP_RTO_MIN`, jiffies.
const RTO_MIN: u32 = HZ / 5;

/// `TCP_RTO_MAX`, ticks: the longest that a request waited when nothing else bounded it.
const REQUEST_TIMEOUT_MAX: u32 = 120 * HZ;

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

    /// The order of sockets whose timers fire at one tick, the greatest first.
    pub fn timers_turn(&self, now: Instant) -> (u32, Instant) {
        self.timers.turn(now)
    }

    /// Sets the transmit timer `delta` jiffies ahead (`tcp_reset_xmit_timer`).
    pub(super) fn reset_xmit_timer(&mut self, pending: Pending, delta: u32, now: Instant) {
        self.set_transmit_timer(pending, delta.min(self.rto_max_ms()).into(), now);
    }

    /// The same, however far away it is.
    fn set_transmit_timer(&mut self, pending: Pending, delta: u64, now: Instant) {
        self.pending = pending;
        let timeout = self.jiffies_clock().now(now) + delta;
        // A timer that is set for this very time already stays in its place on the wheel, however
        // coarse that is (mod_timer).
        let unchanged = timeout == self.timeout && self.timers.is_set(Timer::Transmit);
        self.timeout = timeout;
        if !unchanged {
            let expiry = self.jiffies_clock().wheel_expiry(now, delta);
            self.timers.place(Timer::Transmit, now, expiry);
        }
    }

    /// The same for a timer that waits for the answer to what is being sent: pacing may hold that
    /// back for some ticks (`tcp_pacing_delay`).
    pub(super) fn reset_paced_timer(&mut self, pending: Pending, delta: u32, now: Instant) {
        let held_ns = self.snd.wstamp_ns.saturating_sub(now.as_nanos());
        let held = u32::try_from(held_ns / (1_000_000_000 / u64::from(HZ))).unwrap_or(u32::MAX);
        self.reset_xmit_timer(pending, delta.saturating_add(held), now);
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
        self.reset_paced_timer(Pending::Retransmit, rto, now);
    }

    /// `tcp_write_timer_handler`.
    fn transmit_timeout(&mut self, cx: &mut Cx<'_>) {
        if matches!(self.state, State::Close | State::Listen) {
            return;
        }
        self.ack.clock = cx.now;
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
            return self.set_next_timeout(handshake, cx.now);
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
        self.enter_loss(cx);
        self.note_timeout(cx.now);
        let head = self.queue.rtx_head().expect("something is in flight");
        if handshake {
            self.ecn_fall_back(head);
        }
        let cause = if handshake { Cause::Handshake } else { Cause::Timeout };
        if self.retransmit_skb(head, 1, cause, cx) == Resent::Dropped {
            // Local congestion: all senders here ask again soon, and none doubles its timeout.
            self.reset_xmit_timer(Pending::Retransmit, RESOURCE_PROBE_INTERVAL, cx.now);
            return;
        }
        self.set_next_timeout(handshake, cx.now);
    }

    /// When what was sent again times out (`out_reset_timer` of `tcp_retransmit_timer`).
    fn set_next_timeout(&mut self, handshake: bool, now: Instant) {
        if self.backs_off_linearly() {
            self.backoff = 0;
            self.set_rto();
            let rto = self.clamped_rto(now);
            return self.reset_xmit_timer(Pending::Retransmit, rto, now);
        }
        self.back_off(handshake, now);
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
        // `tcp_syn_ack_timeout`.
        cx.mib.timeouts += 1;
        let Some(due) = self.syn_ack_is_due() else {
            return self.done(cx);
        };
        // What the first SYN-ACK waited for counts as well.
        let first_sent =
            self.queue.rtx_head().map(|head| Instant::from_nanos(self.queue.get(head).sent_ns));
        if due {
            self.retransmit_syn_ack(cx);
            self.accurate_syn_ack_timeout();
            self.syn_ack_timeout();
        }
        self.note_timeout(first_sent.unwrap_or(cx.now));
        self.arm_request_timer(cx.now);
    }

    /// The SYN-ACK waits for an answer; the longer, the oftener it has waited (`reqsk_timeout`).
    pub(super) fn arm_request_timer(&mut self, now: Instant) {
        let timeout = u64::from(self.config.profile.timeout_init_ms) << self.retransmits.min(20);
        let bounded = self.config.profile.syn_ack_timeout_limited_to_rto_max;
        let longest = if bounded { self.rto_max_ms() } else { REQUEST_TIMEOUT_MAX };
        self.set_transmit_timer(Pending::Retransmit, timeout.min(longest.into()), now);
    }

    /// The SYN-ACK of a request timed out: no window to reduce, but the loss is remembered.
    fn syn_ack_timeout(&mut self) {
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
            && u32::from(self.retransmits) <= self.config.sysctl.tcp_syn_linear_timeouts;
        if !linear {
            self.backoff = self.backoff.saturating_add(1);
            self.rto = (self.rto << 1).min(self.rto_max_ms());
        }
        let rto = self.clamped_rto(now);
        self.reset_xmit_timer(Pending::Retransmit, rto, now);
    }

    /// Which counter the first timeout of an episode belongs to.
    fn count_failure(&self, cx: &mut Cx<'_>) {
        use crate::trace::CaState;
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

    /// The next timeout may come no later than the end of the user's patience
    /// (`tcp_clamp_rto_to_user_timeout`).
    fn clamped_rto(&self, now: Instant) -> u32 {
        let (Some(user_ms), Some(first)) = (self.config.user_timeout_ms, self.rec.retrans_stamp)
        else {
            return self.rto;
        };
        let elapsed = self.ts_now(now).wrapping_sub(first.get());
        match user_ms.get().checked_sub(elapsed) {
            None | Some(0) => 1,
            Some(left) => self.rto.min(left),
        }
    }

    /// The timeout of the present RTT, doubled as often as before (`inet_csk_rto_backoff`).
    pub(super) fn set_rto_backed_off(&mut self) {
        let base = match self.rtt.srtt_us_8 {
            None => self.config.profile.timeout_init_ms,
            Some(_) => self.rtt.rto_us().div_ceil(1_000),
        };
        let backed_off = u64::from(base) << u32::from(self.backoff).min(20);
        self.rto = backed_off.min(u64::from(self.rto_max_ms())) as u32;
    }
}
