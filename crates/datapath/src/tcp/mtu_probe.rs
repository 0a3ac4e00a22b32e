//! Path MTU probing at the packetisation layer (RFC 4821): a larger segment now and then, and a
//! smaller one where the path swallows them in silence (`tcp_mtu_probe`, `tcp_mtup_init`,
//! `tcp_mtu_probing`).

use super::options::TCP_HEADER_LEN;
use super::skb::Skb;
use super::{Connection, Cx};
use crate::packet::TcpFlags;
use crate::packet::seq::Seq;
use crate::reason::Enqueue;
use crate::trace::CaState;
use crate::units::Instant;

/// State of the search (`icsk_mtup`, `mtu_probe`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(super) struct MtuProbe {
    /// The search goes on.
    enabled: bool,
    /// Packets of this size, in bytes, pass.
    low: u32,
    /// Larger ones than this do not.
    high: u32,
    /// The probe in flight: its packet size, first and last sequence number.
    probe: Option<(u32, Seq, Seq)>,
    /// When the range was last opened, s.
    since_s: u64,
}

/// What probing says to output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Probing {
    /// A probe went out.
    Sent,
    /// Wait: there is about to be room for one.
    Wait,
    /// Go on as usual.
    No,
}

impl Connection {
    /// The connection begins to search, if it is to (`tcp_mtup_init`).
    pub(super) fn init_mtu_probing(&mut self, now: Instant) {
        if self.config.sysctl.tcp_mtu_probing == 0 {
            return;
        }
        let headers = self.network_header_len() + TCP_HEADER_LEN;
        let high = self.snd.mss_clamp + headers;
        let low = self.mtu_of_mss((self.config.sysctl.tcp_base_mss as i32).max(0) as u32);
        let enabled = self.config.sysctl.tcp_mtu_probing > 1;
        let since_s = now.as_millis() / 1_000;
        self.rare().probe = MtuProbe { enabled, low, high, probe: None, since_s };
    }

    /// Packet size that segments of `mss` bytes make (`tcp_mss_to_mtu`).
    fn mtu_of_mss(&self, mss: u32) -> u32 {
        mss + self.header_len() + self.network_header_len()
    }

    /// The limit that the search sets to segments, bytes; also notes a smaller path MTU.
    pub(super) fn probed_mss(&mut self) -> u32 {
        let pmtu = self.snd.pmtu;
        let Some(rare) = &mut self.rare else { return u32::MAX };
        rare.probe.high = rare.probe.high.min(pmtu);
        if !rare.probe.enabled {
            return u32::MAX;
        }
        let low = rare.probe.low;
        self.mss_of_mtu(low)
    }

    /// Sends a probe if one is due and possible (`tcp_mtu_probe`).
    pub(super) fn mtu_probe(&mut self, cx: &mut Cx<'_>) -> Probing {
        let Some(rare) = &self.rare else { return Probing::No };
        let state = rare.probe;
        if !state.enabled
            || state.probe.is_some()
            || self.window.ca_state != CaState::Open
            || self.window.snd_cwnd < 11
            || self.rcv.has_sack_blocks()
        {
            return Probing::No;
        }
        let size = self.mss_of_mtu(u32::midpoint(state.high, state.low));
        let spare = self.rec.reordering.wrapping_add(1).wrapping_mul(self.snd.mss);
        let needed = size.wrapping_add(spare);
        let range = state.high.saturating_sub(state.low);
        if size > self.mss_of_mtu(state.high)
            || i64::from(range) < i64::from(self.config.sysctl.tcp_probe_threshold as i32)
        {
            self.check_reprobe(cx.now);
            return Probing::No;
        }
        if self.notsent_bytes() < u64::from(needed) || self.snd.wnd < needed {
            return Probing::No;
        }
        if (self.snd.nxt + needed).after(self.wnd_end()) {
            return Probing::Wait;
        }
        if self.packets_in_flight() + 2 > self.window.snd_cwnd {
            return if self.packets_in_flight() == 0 { Probing::No } else { Probing::Wait };
        }
        self.send_mtu_probe(size, cx)
    }

    /// After a while the path may have become wider (`tcp_mtu_check_reprobe`).
    fn check_reprobe(&mut self, now: Instant) {
        let now_s = now.as_millis() / 1_000;
        let interval = u64::from(self.config.sysctl.tcp_probe_interval);
        let high = self.snd.mss_clamp + self.network_header_len() + TCP_HEADER_LEN;
        let low = self.mtu_of_mss(self.snd.mss);
        let probe = &mut self.rare().probe;
        if now_s >= probe.since_s + interval {
            *probe = MtuProbe { high, low, probe: None, since_s: now_s, ..*probe };
        }
    }

    fn send_mtu_probe(&mut self, size: u32, cx: &mut Cx<'_>) -> Probing {
        let Some(head) = self.queue.send_head() else { return Probing::No };
        let seq = self.queue.get(head).seq;
        let mut skb = Skb::new(seq, seq + size, TcpFlags::ACK, self.config.profile.skb_overhead);
        skb.truesize += size;
        skb.pcount = 1;
        let Some(freed) = self.queue.merge_unsent_head(skb) else { return Probing::No };
        self.snd.wmem_queued = (self.snd.wmem_queued + skb.truesize).saturating_sub(freed);
        let id = self.queue.send_head().expect("the probe was just put there");
        if self.transmit_skb(id, cx) == Enqueue::Dropped {
            return Probing::No;
        }
        self.window.snd_cwnd -= 1;
        self.new_data_sent(id, self.snd.mss, cx);
        let packet = self.mtu_of_mss(size);
        self.rare().probe.probe = Some((packet, seq, seq + size));
        Probing::Sent
    }

    /// Has the probe arrived? (`tcp_mtup_probe_success`.)
    #[cold]
    pub(super) fn mtu_probe_acked(&mut self, cx: &mut Cx<'_>) {
        let Some((size, _, end)) = self.rare.as_ref().and_then(|rare| rare.probe.probe) else {
            return;
        };
        if end.after(self.snd.una) {
            return;
        }
        self.rec.prior_ssthresh = Some(self.current_ssthresh());
        let before = u64::from(self.window.snd_cwnd) * u64::from(self.mtu_of_mss(self.snd.mss));
        self.window.snd_cwnd = (before / u64::from(size)).max(1) as u32;
        self.window.snd_cwnd_cnt = 0;
        self.window.snd_cwnd_stamp = self.jiffies32(cx.now);
        self.window.snd_ssthresh = self.current_ssthresh();
        let probe = &mut self.rare().probe;
        probe.low = size;
        probe.probe = None;
        cx.mib.mtup_success += 1;
        self.sync_mss();
    }

    /// Is the loss that recovery would begin with that of the probe? Then the path is narrower,
    /// not congested (`tcp_mtup_probe_failed`). True: it was.
    pub(super) fn mtu_probe_lost(&mut self, cx: &mut Cx<'_>) -> bool {
        let Some((size, start, _)) = self.rare.as_ref().and_then(|rare| rare.probe.probe) else {
            return false;
        };
        if self.window.ca_state >= CaState::Cwr || self.snd.una != start {
            return false;
        }
        let probe = &mut self.rare().probe;
        probe.high = size - 1;
        probe.probe = None;
        cx.mib.mtup_fail += 1;
        self.window.snd_cwnd += 1;
        self.simple_retransmit(cx);
        true
    }

    /// A larger segment is on its way, to see whether it passes.
    pub(super) fn probes_mtu(&self) -> bool {
        self.rare.as_ref().is_some_and(|rare| rare.probe.probe.is_some())
    }

    /// Something is sent again: the probe proves nothing any more.
    #[inline]
    pub(super) fn cancel_mtu_probe(&mut self) {
        if let Some(rare) = &mut self.rare {
            rare.probe.probe = None;
        }
    }

    /// Timeouts without an ICMP message: perhaps the path swallows large packets
    /// (`tcp_mtu_probing`).
    pub(super) fn suspect_black_hole_of_size(&mut self, now: Instant) {
        let sysctl = &self.config.sysctl;
        if sysctl.tcp_mtu_probing == 0 {
            return;
        }
        let (base, floor) = (
            (sysctl.tcp_base_mss as i32).max(0) as u32,
            sysctl.tcp_mtu_probe_floor.max(sysctl.tcp_min_snd_mss),
        );
        let low = self.rare().probe.low;
        let half = self.mss_of_mtu(low) >> 1;
        let smaller = self.mtu_of_mss(half.min(base).max(floor));
        let probe = &mut self.rare().probe;
        if probe.enabled {
            probe.low = smaller;
        } else {
            probe.enabled = true;
            probe.since_s = now.as_millis() / 1_000;
        }
        self.sync_mss();
    }
}
