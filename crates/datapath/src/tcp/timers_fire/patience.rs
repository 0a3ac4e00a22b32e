//! How long a connection waits for an answer before it fails (`tcp_write_timeout`).

use super::RTO_MIN;
use crate::tcp::skb::SkbId;
use crate::tcp::state::State;
use crate::tcp::{Connection, Cx, SocketError};
use crate::units::Instant;
use core::num::NonZeroU32;

impl Connection {
    /// The peer has answered nothing, with its window closed, for too long
    /// (`tcp_rtx_probe0_timed_out`).
    pub(super) fn window_closed_too_long(&self, head: SkbId, cx: &Cx<'_>) -> bool {
        // Since the first retransmission: the head is sent again and again, with a time of its own.
        let unanswered = match self.rec.retrans_stamp {
            None => cx.now.as_millis().saturating_sub(self.queue.get(head).sent_us() / 1_000),
            Some(first) => u64::from(self.ts_now(cx.now).wrapping_sub(first.get())),
        };
        let mut limit_ms = u64::from(self.rto_max_ms()) * 2;
        if let Some(user_ms) = self.config.user_timeout_ms {
            let user_ms = u64::from(user_ms.get());
            // Windows of nothing do not prolong the user's patience.
            if unanswered > user_ms {
                return true;
            }
            limit_ms = limit_ms.min(user_ms);
        }
        let silent = u64::from(self.jiffies32(cx.now).wrapping_sub(self.rcv_tstamp));
        silent > limit_ms && unanswered > limit_ms
    }

    /// The connection timed out: the application is told what the network complained about, if it
    /// did (`tcp_write_err`).
    pub(super) fn write_error(&mut self, cx: &mut Cx<'_>) {
        cx.mib.abort_on_timeout += 1;
        let error = self.soft_error.take().unwrap_or(SocketError::TimedOut);
        self.fail(error, cx);
    }

    /// Too many timeouts: the connection fails (`tcp_write_timeout`).
    pub(super) fn give_up(&mut self, handshake: bool, cx: &mut Cx<'_>) -> bool {
        let sysctl = &self.config.sysctl;
        let own = self.config.socket.syn_retries.map(|retries| retries.get().into());
        let over = if handshake {
            // Of crossing SYNs as well, whose connection is in SYN_RECV.
            let retries = own.unwrap_or(sysctl.tcp_syn_retries);
            let linear = match self.state {
                State::SynSent => sysctl.tcp_syn_linear_timeouts,
                _ => 0,
            };
            u32::from(self.retransmits) >= retries + linear
                || self.retransmitted_too_long(retries, self.config.user_timeout_ms, cx.now)
        } else {
            if self.retransmitted_too_long(sysctl.tcp_retries1, None, cx.now) {
                self.suspect_black_hole_of_size(cx.now);
            }
            self.data_timed_out(cx.now)
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
    fn data_timed_out(&self, now: Instant) -> bool {
        let mut retries = self.config.sysctl.tcp_retries2;
        if self.orphan {
            let alive = self.rto < self.rto_max_ms();
            retries = self.orphan_retries(alive);
            if !alive && self.retransmitted_too_long(retries, None, now) {
                return true;
            }
        }
        self.retransmitted_too_long(retries, self.config.user_timeout_ms, now)
    }

    /// How often an orphan is retransmitted (`tcp_orphan_retries`).
    pub(super) fn orphan_retries(&self, alive: bool) -> u32 {
        let mut retries = self.config.sysctl.tcp_orphan_retries;
        if self.soft_error.is_some() && !alive {
            retries = 0;
        }
        if retries == 0 && alive { 8 } else { retries }
    }

    /// The first retransmission was longer ago than `retries` back-offs would take, or than the
    /// timeout that the user has set (`retransmits_timed_out`).
    fn retransmitted_too_long(
        &self,
        retries: u32,
        user_ms: Option<NonZeroU32>,
        now: Instant,
    ) -> bool {
        let Some(first) = self.rec.retrans_stamp.filter(|_| self.retransmits > 0) else {
            return false;
        };
        let limit_ms = match user_ms {
            Some(user_ms) => user_ms.get().into(),
            None => self.model_timeout_ms(retries),
        };
        u64::from(self.ts_now(now).wrapping_sub(first.get())) >= limit_ms
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
}
