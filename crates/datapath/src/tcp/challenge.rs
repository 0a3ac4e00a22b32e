//! Answers to what may be an attack, at a limited rate (RFC 5961).

use super::{Connection, Cx};
use crate::units::Instant;
use core::num::NonZeroU32;

impl Connection {
    /// RFC 5961: answer what may be an attack with an ACK, at a limited rate
    /// (`tcp_send_challenge_ack`).
    pub(super) fn send_challenge_ack(&mut self, cx: &mut Cx<'_>) {
        if self.oow_rate_limited(cx.now, &mut cx.mib.ack_skipped_challenge) {
            return;
        }
        let limit = self.config.sysctl.tcp_challenge_ack_limit;
        if !cx.shared.challenges.allow(cx.now_s(), limit) {
            return;
        }
        cx.mib.challenge_ack += 1;
        self.send_ack(cx);
    }

    /// Out-of-window segments are answered only so often (`__tcp_oow_rate_limited`); what is not answered
    /// counts as `skipped`.
    pub(super) fn oow_rate_limited(&mut self, now: Instant, skipped: &mut u64) -> bool {
        let now = self.jiffies32(now);
        let limit = 0..self.config.sysctl.tcp_invalid_ratelimit as i32;
        let is_soon = |last: NonZeroU32| limit.contains(&(now.wrapping_sub(last.get()) as i32));
        if self.last_oow_ack.is_some_and(is_soon) {
            *skipped += 1;
            return true;
        }
        self.last_oow_ack = NonZeroU32::new(now);
        false
    }
}
