//! Protective load balancing: a flow whose path marks its packets round trip after round trip draws
//! another hash, so that its packets may take another path (`tcp_plb.c`; M. Qureshi et al., "PLB:
//! Congestion Signals are Simple and Effective for Network Load Balancing", SIGCOMM 2022).

use super::{Connection, Cx};
use crate::tcp::timer::HZ;

/// Congestion of a connection's path (`struct tcp_plb_state`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(super) struct Plb {
    /// Congested round trips in a row (`consec_cong_rounds`).
    pub rounds: u8,
    /// Until then the path is kept, jiffies (`pause_until`).
    pub pause_until: Option<u32>,
}

impl Connection {
    /// The congestion module has told which share of a round trip's packets was marked, in 1/256
    /// (`tcp_plb_update_state`).
    pub(super) fn plb_round(&mut self, marked_256: u32, cx: &mut Cx<'_>) {
        let sysctl = &self.config.sysctl;
        if sysctl.tcp_plb_enabled == 0 {
            return;
        }
        if marked_256 < sysctl.tcp_plb_cong_thresh {
            self.plb.rounds = 0;
        } else if u32::from(self.plb.rounds) < sysctl.tcp_plb_rehash_rounds {
            self.plb.rounds += 1;
        }
        self.plb_check(cx);
    }

    /// Leaves the path if it was congested for long enough; sooner where nothing is in flight, since
    /// nothing can be reordered then (`tcp_plb_check_rehash`).
    pub(super) fn plb_check(&mut self, cx: &mut Cx<'_>) {
        let sysctl = &self.config.sysctl;
        if sysctl.tcp_plb_enabled == 0 {
            return;
        }
        let rounds = u32::from(self.plb.rounds);
        let idle_rounds = sysctl.tcp_plb_idle_rehash_rounds;
        let forced = rounds >= sysctl.tcp_plb_rehash_rounds;
        let idle = idle_rounds > 0 && self.rec.packets_out == 0 && rounds >= idle_rounds;
        if !forced && !idle {
            return;
        }
        let now = self.jiffies32(cx.now);
        let longest = (2 * sysctl.tcp_plb_suspend_rto_sec).saturating_mul(HZ);
        if let Some(until) = self.plb.pause_until {
            // A time further ahead than any pause is long past: the clock has wrapped.
            let left = until.wrapping_sub(now);
            if left as i32 > 0 && left <= longest {
                return;
            }
            self.plb.pause_until = None;
        }
        // Counted where the socket keeps its hash (`SO_TXREHASH`), too.
        self.rethink_txhash();
        self.plb.rounds = 0;
        self.totals.plb_rehash = self.totals.plb_rehash.saturating_add(1);
        cx.mib.plb_rehash += 1;
    }

    /// A timeout has drawn another hash already: what is known of the path holds no more, and for a
    /// while nothing else draws (`tcp_plb_update_state_upon_rto`).
    pub(super) fn plb_timeout(&mut self, cx: &Cx<'_>) {
        let sysctl = &self.config.sysctl;
        if sysctl.tcp_plb_enabled == 0 {
            return;
        }
        let pause = sysctl.tcp_plb_suspend_rto_sec * HZ;
        let more = (u64::from(self.snd.txhash) * u64::from(pause)) >> 32;
        let now = self.jiffies32(cx.now);
        self.plb.pause_until = Some(now.wrapping_add(pause + more as u32));
        self.plb.rounds = 0;
    }
}
