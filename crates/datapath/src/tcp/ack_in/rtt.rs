//! RTT samples that an ACK gives, and the timeout that follows from them (RFC 6298).

use super::AckEvent;
use super::clean::Cleaned;
use crate::tcp::segment::Segment;
use crate::tcp::timer::HZ;
use crate::tcp::{Connection, Cx};
use crate::units::Instant;

impl Connection {
    /// RTT samples of this ACK, µs: for the estimator, and for congestion control.
    pub(super) fn ack_rtt(
        &self,
        seg: &Segment<'_>,
        cleaned: &Cleaned,
        event: &AckEvent,
        cx: &Cx<'_>,
    ) -> (Option<u32>, Option<u32>) {
        let since = |us: u64| cx.now_us().saturating_sub(us) as u32;
        let mut rtt_us = None;
        let mut ca_rtt_us = None;
        if let (Some(first_us), false) = (cleaned.first_us, event.flags.retrans_data_acked) {
            rtt_us = Some(since(first_us));
            ca_rtt_us = Some(since(cleaned.last_us));
        }
        if let Some((first_us, last_us)) = event.sacked.sent_us {
            rtt_us.get_or_insert(since(first_us));
            ca_rtt_us = Some(since(last_us));
        }
        if rtt_us.is_none()
            && event.flags.acked()
            && self.opt.timestamps
            && let Some(ts) = seg.tcp.options.timestamps.filter(|ts| ts.echo != 0)
        {
            // Karn's ambiguity does not exist with timestamps.
            let delta_ms = self.ts_now(cx.now).wrapping_sub(ts.echo);
            if delta_ms < i32::MAX as u32 / 1_000 {
                let sample_us = delta_ms.max(1) * 1_000;
                return (Some(sample_us), Some(sample_us));
            }
        }
        (rtt_us, ca_rtt_us)
    }

    /// `tcp_ack_update_rtt`. True: a sample was taken.
    pub(in crate::tcp) fn ack_update_rtt(
        &mut self,
        rtt_us: Option<u32>,
        ca_rtt_us: Option<u32>,
        maybe_delayed: bool,
        now: Instant,
    ) -> bool {
        let Some(rtt_us) = rtt_us else { return false };
        // The ACK of a lone small segment may have been delayed: no good for the minimum.
        let minimum = self.rtt.min.get_us();
        if let Some(ca_rtt_us) = ca_rtt_us.filter(|&us| !maybe_delayed || us <= minimum) {
            let window = self.config.sysctl.tcp_min_rtt_wlen * HZ;
            let jiffies = self.jiffies32(now);
            // No time at all counts as a jiffy (`tcp_update_rtt_min`).
            let least_us = if ca_rtt_us == 0 { 1_000_000 / HZ } else { ca_rtt_us };
            self.rtt.min.sample(window, jiffies, least_us);
        }
        let rto_min_us = self.rto_min_us();
        self.rtt.sample(rtt_us, self.snd.una, self.snd.nxt, rto_min_us);
        self.set_rto();
        self.backoff = 0;
        true
    }

    /// `tcp_set_rto`: whole jiffies, rounded up.
    pub(in crate::tcp) fn set_rto(&mut self) {
        let rto = self.rtt.rto_us().div_ceil(1_000);
        self.rto = rto.min(self.rto_max_ms());
    }
}
