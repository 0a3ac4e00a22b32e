//! What may be sent next (`tcp_write_xmit`).
//!
//! | file | what it holds |
//! |---|---|
//! | this one | one run over what is unsent, and the congestion window's share of the answer |
//! | [`tso`] | how large super-packets are, and whether they wait to become larger |
//! | [`pacing`], [`small_queues`] | what holds packets back: time, and those that are below the socket already |
//! | [`window_use`] | what becomes of a window that is not used |

mod pacing;
mod small_queues;
mod tso;
mod window_use;

use super::mtu_probe::Probing;
use super::nagle::Nonagle;
pub(super) use super::recovery::Push;
use super::recovery::Rto;
use super::skb::SkbId;
use super::state::State;
use super::timer::Pending;
use super::{Connection, Cx};
use crate::packet::TcpFlags;
use crate::reason::Enqueue;
use crate::units::Instant;

/// `sk_pacing_shift`: about 1 ms worth of data at the pacing rate.
const PACING_SHIFT: u32 = 10;

/// One run of [`write_xmit`](Connection::write_xmit): how it is to send, and what it came up against.
#[derive(Clone, Copy, Debug)]
struct Run {
    /// Bytes of a segment (`mss_now`).
    mss: u32,
    /// What holds small segments back.
    nonagle: Nonagle,
    /// The caller of the output path, and how much it may send.
    push: Push,
    /// Segments of a super-packet.
    max_segs: u32,
    /// Only the congestion window was in the way of more (`is_cwnd_limited`).
    cwnd_limited: bool,
    /// Only the peer's window was (`is_rwnd_limited`).
    rwnd_limited: bool,
}

impl Connection {
    /// Sends what may go (`__tcp_push_pending_frames`).
    pub(super) fn push_pending_frames(&mut self, nonagle: Nonagle, cx: &mut Cx<'_>) {
        self.push_frames_of(self.current_mss(cx.now), nonagle, cx);
    }

    /// The same, in segments of `mss` bytes: those of a write are of one size, though options come and go.
    pub(super) fn push_frames_of(&mut self, mss: u32, nonagle: Nonagle, cx: &mut Cx<'_>) {
        if self.state == State::Close {
            return;
        }
        if self.write_xmit(mss, nonagle, Push::All, cx) {
            self.check_probe_timer(cx.now);
        }
    }

    /// Sends unsent records as far as window, pacing, Nagle and queues allow. True: nothing is in
    /// flight and something waits, so that only a window probe can help.
    pub(super) fn write_xmit(
        &mut self,
        mut mss: u32,
        nonagle: Nonagle,
        push: Push,
        cx: &mut Cx<'_>,
    ) -> bool {
        if self.is_accurate() && self.beacon_is_due(cx.now) {
            // Its option may have become due since.
            mss = self.current_mss(cx.now);
        }
        let max_segs = if self.queue.unsent_is_empty() { 1 } else { self.tso_segs(mss) };
        self.ack.clock = cx.now;
        let mut sent = 0;
        if push == Push::All && self.rare.is_some() {
            match self.mtu_probe(cx) {
                Probing::Sent => sent = 1,
                Probing::Wait => return false,
                Probing::No => {}
            }
        }
        let mut run =
            Run { mss, nonagle, push, max_segs, cwnd_limited: false, rwnd_limited: false };
        while let Some(id) = self.queue.send_head() {
            // The persist timer ignores pacing and small queues (tcp_write_wakeup).
            if push != Push::Window && self.pacing_blocks(cx.now) {
                break;
            }
            let Some(len) = self.sendable_len(id, &mut run, cx.now) else { break };
            if self.queue.get(id).len() > len {
                self.fragment(id, len);
            }
            if (push != Push::Window && self.small_queue_blocks(id, 0))
                || self.queue.get(id).seq == self.queue.get(id).end_seq
            {
                break;
            }
            if self.transmit_skb(id, cx) == Enqueue::Dropped {
                break;
            }
            let small = self.snd.small;
            sent += self.new_data_sent(id, mss, cx);
            if push == Push::Window {
                // What the persist timer sends is no small segment that others wait for.
                self.snd.small = small;
            }
            if push != Push::All {
                break;
            }
        }
        if push == Push::Window {
            // What the persist timer sends says nothing of the congestion window (`tcp_write_wakeup`).
            return false;
        }
        self.end_run(run, sent, cx);
        sent == 0 && self.rec.packets_out == 0 && !self.queue.unsent_is_empty()
    }

    /// What follows from a run that has sent so many segments: was the window the limit, and what finds out whether
    /// they are lost?
    #[inline]
    fn end_run(&mut self, run: Run, sent: u32, cx: &mut Cx<'_>) {
        self.chrono_rwnd_limited(run.rwnd_limited, cx.now);
        let cwnd_limited = run.cwnd_limited || self.packets_in_flight() >= self.window.snd_cwnd;
        if sent > 0 || cwnd_limited {
            self.cwnd_validate(cwnd_limited, cx);
        }
        if sent > 0 {
            if self.window.in_cwnd_reduction() {
                self.rec.prr_out += sent;
            }
            if !run.push.is_forced() {
                self.schedule_loss_probe(Rto::FromOldest, cx.now);
            }
        }
    }

    /// How many bytes of the send head may go now; `None`: not yet.
    #[inline]
    fn sendable_len(&mut self, id: SkbId, run: &mut Run, now: Instant) -> Option<u32> {
        let Run { mss, push, .. } = *run;
        self.init_segments(id, mss);
        let quota = match self.cwnd_quota(id) {
            0 if push.is_forced() => 1,
            0 => return None,
            quota => quota,
        };
        let most_segs = quota.min(run.max_segs);
        if self.config.profile.grows_unsent_records && push != Push::Window {
            self.grow_send_head(id, most_segs, mss);
        }
        let skb = *self.queue.get(id);
        let first_end = if skb.len() > mss { skb.seq + mss } else { skb.end_seq };
        if first_end.after(self.wnd_end()) {
            run.rwnd_limited = true;
            return None;
        }
        if skb.pcount == 1 {
            let is_tail = self.queue.is_unsent_tail(id);
            let nonagle = if is_tail { run.nonagle } else { Nonagle::PUSH };
            return self.nagle_allows(id, mss, nonagle).then_some(mss);
        }
        if push == Push::All && self.tso_should_defer(id, run, now) {
            return None;
        }
        if self.rare.is_some() && self.is_urgent() {
            // The urgent pointer belongs to each segment.
            return Some(mss);
        }
        Some(self.split_point(id, mss, most_segs, run.nonagle))
    }

    /// The record takes bytes of the next one along, as far as the window lets them go (`tcp_grow_skb`).
    #[inline]
    fn grow_send_head(&mut self, id: SkbId, most_segs: u32, mss: u32) {
        let missing = (most_segs * mss).saturating_sub(self.queue.get(id).len());
        self.snd.wmem_queued -= self.queue.grow_send_head(id, missing);
        self.init_segments(id, mss);
        if self.queue.get(id).pcount == 1 && self.queue.get(id).len() > mss {
            // Segments have become shorter since (`tcp_set_skb_tso_segs`): it is two of them, and stays whole.
            self.queue.get_mut(id).set_segments(mss);
        }
    }

    /// Counts segments of a record that was appended to or never sent (`tcp_init_tso_segs`).
    fn init_segments(&mut self, id: SkbId, mss: u32) {
        let skb = self.queue.get_mut(id);
        if skb.pcount == 0 || (skb.pcount > 1 && u32::from(skb.gso_size) != mss) {
            skb.set_segments(mss);
        }
    }

    /// Segments that the window allows now, at most half of it (`tcp_cwnd_test`).
    fn cwnd_quota(&self, id: SkbId) -> u32 {
        let skb = self.queue.get(id);
        if self.config.profile.fin_exempt_from_cwnd
            && skb.flags.contains(TcpFlags::FIN)
            && skb.pcount == 1
        {
            return 1;
        }
        let in_flight = self.packets_in_flight();
        let cwnd = self.window.snd_cwnd;
        if in_flight >= cwnd {
            return 0;
        }
        (cwnd >> 1).max(1).min(cwnd - in_flight)
    }

    /// Books for a record sent for the first time (`tcp_event_new_data_sent`). Returns its
    /// segments.
    pub(super) fn new_data_sent(&mut self, id: SkbId, mss: u32, cx: &mut Cx<'_>) -> u32 {
        let skb = *self.queue.get(id);
        let prior_packets = self.rec.packets_out;
        self.snd.nxt = skb.end_seq;
        self.queue.send_head_sent();
        self.rec.packets_out += u32::from(skb.pcount);
        if prior_packets == 0 || self.pending == Pending::LossProbe {
            self.rearm_rto(cx.now);
        }
        cx.mib.orig_data_sent += u64::from(skb.pcount);
        if skb.len() < u32::from(skb.pcount) * mss {
            self.snd.small = skb.end_seq;
        }
        self.check_space(cx);
        u32::from(skb.pcount)
    }
}
