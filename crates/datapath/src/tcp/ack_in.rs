//! What an arriving ACK means (`tcp_ack`), phase by phase.
//!
//! | file | what it holds |
//! |---|---|
//! | this one | the phases, their order, and why it is this one |
//! | [`ack_event`](super::ack_event) | what the phases hand on |
//! | [`window`] | the peer's window, and probes of a closed one |
//! | [`clean`], [`rtt`] | the queue loses what is acknowledged; RTT samples |

mod clean;
mod rtt;
mod window;

use super::ack_event::{AckEvent, AckFlags, Sacked};
use super::cc::{Ack, AckEventFlags, CongestionControl, Hystart};
use super::rate::RateSample;
use super::recovery::{Rexmit, Rto};
use super::segment::{Path, Segment};
use super::{Connection, Cx};
use crate::packet::TcpFlags;
use crate::packet::seq::Seq;
use crate::units::Instant;

/// What an ACK segment turned out to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AckVerdict {
    /// It was processed.
    Fine,
    /// It is older than what is known; its SACKs were used.
    Old,
    /// It acknowledges what was never sent, or is too old (RFC 5961 section 5).
    Unacceptable,
}

impl Connection {
    /// Processes the ACK of a segment (`tcp_ack`). Never inlined, so that the code for data and the code for ACKs lie apart: the
    /// instruction cache misses less.
    #[inline(never)]
    pub(super) fn ack_in(&mut self, seg: &Segment<'_>, path: Path, cx: &mut Cx<'_>) -> AckVerdict {
        let ack = seg.tcp.ack;
        // RFC 9293 section 3.10.7.4: only SND.UNA =< SEG.ACK =< SND.NXT says something of our queue.
        if ack.before(self.snd.una) {
            return self.old_ack(seg, cx);
        }
        if ack.after(self.snd.nxt) {
            return AckVerdict::Unacceptable;
        }
        if let Some(ts) = seg.tcp.options.timestamps.filter(|_| self.opt.timestamps) {
            (self.opt.rcv_tsval, self.opt.rcv_tsecr) = (ts.value, ts.echo);
        }
        let event = &mut self.ack_event(ack);
        if event.flags.snd_una_advanced {
            self.retransmits = 0;
        }
        self.read_ack(seg, path, event, cx);
        // Whatever it says, the peer is alive: probes of a closed window and keepalives begin anew.
        self.ecn_accept_cwr(seg);
        self.probes_out = 0;
        self.soft_error = None;
        self.rcv_tstamp = self.jiffies32(cx.now);
        if event.prior_packets == 0 {
            self.read_accurate(seg, event, cx);
            self.in_ack_event(event, cx);
            self.ack_without_queue(event, cx);
            return AckVerdict::Fine;
        }
        self.settle_queue(seg, event, cx);
        // Congestion control gets the feedback before the state machine acts on it: DCTCP's estimate
        // has to be up to date when a reduction computes its threshold (`tcp_in_ack_event`).
        self.in_ack_event(event, cx);
        let rexmit = self.judge(seg, event, cx);
        self.respond(rexmit, event, cx);
        AckVerdict::Fine
    }

    /// What is known before the ACK is looked at; everything after it is compared with this.
    fn ack_event(&self, ack: Seq) -> AckEvent {
        let flags = AckFlags { snd_una_advanced: ack.after(self.snd.una), ..AckFlags::default() };
        AckEvent {
            ack,
            prior_snd_una: self.snd.una,
            prior_highest: if self.is_sack() { self.highest_sack_seq() } else { self.snd.una },
            prior_packets: self.rec.packets_out,
            prior_delivered: self.rate.delivered,
            prior_lost: self.totals.lost,
            was_reneging: self.rec.is_sack_reneg,
            flags,
            sacked: Sacked::default(),
            sample: RateSample {
                prior_in_flight: self.packets_in_flight(),
                ..RateSample::default()
            },
            view: None,
        }
    }

    /// First phase, what the header says: window, `snd_una`, SACK blocks, ECN echo.
    fn read_ack(&mut self, seg: &Segment<'_>, path: Path, event: &mut AckEvent, cx: &mut Cx<'_>) {
        let sacks = &seg.tcp.options.sack;
        event.flags.plain = sacks.is_empty()
            && seg.len == 0
            && !seg.tcp.flags.intersects(TcpFlags::ECE | TcpFlags::CWR)
            && !self.changes_window(seg.tcp);
        if event.flags.plain && event.flags.snd_una_advanced {
            // Nothing but progress: the rest of this phase would find nothing.
            self.snd.wl1 = seg.seq;
            self.snd_una_update(event.ack);
            event.flags.win_update = true;
            count_ack(seg, path, event.flags, cx);
            return;
        }
        count_ack(seg, path, event.flags, cx);
        event.flags.data = seg.seq != seg.end_seq;
        // `snd_una` moves first: SACK blocks below it are DSACKs or old (RFC 2883 section 4).
        event.flags.win_update |= self.ack_update_window(seg, event.ack, cx);
        // SACK comes before the queue is cleaned: a DSACK may be about a record that this very ACK
        // acknowledges, and cleaning chooses between RTT samples of SACKed and acknowledged data.
        if self.is_sack() && !sacks.is_empty() {
            self.sacktag_write_queue(sacks, event, cx);
        }
        // What was SACKed counts as delivered with CE if the same ACK echoes it, so it is counted
        // only now (`tcp_count_delivered`).
        event.flags.ece = self.ecn_is_echo(seg.tcp.flags);
        if event.sacked.delivered > 0 {
            self.count_delivered(event.sacked.delivered, event.flags.ece, cx);
        }
    }

    /// Second phase, what has left the network: the queue, RTT, RACK's reordering window, and how
    /// much of it was marked. From here on only duplicate ACKs without SACK add to `delivered`.
    fn settle_queue(&mut self, seg: &Segment<'_>, event: &mut AckEvent, cx: &mut Cx<'_>) {
        self.clean_rtx_queue(seg, event, cx);
        // DSACKs of this ACK widen the window once a round trip (RFC 8985 section 6.2, step 4).
        self.rack_update_reo_wnd(event.sample.prior_delivered);
        self.read_accurate(seg, event, cx);
    }

    /// Accurate ECN reports counts, which mean something only beside what was delivered.
    fn read_accurate(&mut self, seg: &Segment<'_>, event: &mut AckEvent, cx: &mut Cx<'_>) {
        if self.is_accurate() && self.state.is_synchronized() {
            let delivered = self.rate.delivered.wrapping_sub(event.prior_delivered);
            event.flags.delivered_bytes += event.ack.bytes_since(event.prior_snd_una);
            let marked = self.accurate_feedback(seg.tcp, event.flags, delivered);
            self.rate.delivered_ce = self.rate.delivered_ce.wrapping_add(marked);
            event.view = None;
            cx.mib.delivered_ce += u64::from(marked);
            event.flags.ece = marked > 0;
            if marked > 0 && self.expected.is_some() {
                // The ACE field of what follows is another one (`tcp_accecn_process`).
                self.predict();
            }
        }
    }

    /// Third phase, what it means for the congestion machine; what is to be sent for it.
    fn judge(&mut self, seg: &Segment<'_>, event: &mut AckEvent, cx: &mut Cx<'_>) -> Rexmit {
        // The end of a probe's episode may reduce the window, and so change the machine's state,
        // which it looks at next (RFC 8985 section 7.4).
        if self.rec.tlp_high_seq.is_some() {
            self.process_tlp_ack(event, cx);
        }
        let mut rexmit = Rexmit::None;
        if self.ack_is_dubious(event.flags) {
            let dup_acks = dup_acks(seg, event.flags);
            rexmit = self.fastretrans_alert(dup_acks, event, cx);
        }
        // Only now: RACK may have armed its own timer instead (`FLAG_SET_XMIT_TIMER`).
        if event.flags.set_xmit_timer {
            self.set_xmit_timer(cx.now);
        }
        rexmit
    }

    /// Fourth phase, the response. Losses are known only now: the sample can be finished, the
    /// window and the pacing rate follow it, and what they let out goes (`tcp_rate_gen`,
    /// `tcp_cong_control`, `tcp_xmit_recovery`).
    fn respond(&mut self, rexmit: Rexmit, event: &mut AckEvent, cx: &mut Cx<'_>) {
        event.sample.acked_sacked = self.newly_delivered(event, cx);
        event.sample.losses = self.totals.lost.wrapping_sub(event.prior_lost);
        self.rate.generate(
            &mut event.sample,
            &mut self.window.app_limited,
            event.was_reneging,
            self.totals.lost,
            cx.now_us(),
            self.rtt.min.get_us(),
        );
        self.cong_control(event, cx);
        self.xmit_recovery(rexmit, cx);
    }

    /// How many segments this ACK has told to be delivered, which are counted (`tcp_newly_delivered`).
    fn newly_delivered(&self, event: &AckEvent, cx: &mut Cx<'_>) -> u32 {
        let delivered = self.rate.delivered.wrapping_sub(event.prior_delivered);
        cx.mib.delivered += u64::from(delivered);
        delivered
    }

    /// An ACK below `snd_una`: only its SACK blocks are of use (`old_ack` of `tcp_ack`).
    fn old_ack(&mut self, seg: &Segment<'_>, cx: &mut Cx<'_>) -> AckVerdict {
        let ack = seg.tcp.ack;
        if ack.before(self.snd.una - self.honest_lateness()) {
            self.send_challenge_ack(cx);
            return AckVerdict::Unacceptable;
        }
        let sacks = &seg.tcp.options.sack;
        if self.is_sack() && !sacks.is_empty() {
            let event = &mut self.ack_event(ack);
            self.sacktag_write_queue(sacks, event, cx);
            if event.sacked.delivered > 0 && self.config.profile.counts_sacks_below_una {
                self.count_delivered(event.sacked.delivered, event.flags.ece, cx);
            }
            let rexmit = self.fastretrans_alert(0, event, cx);
            self.newly_delivered(event, cx);
            self.xmit_recovery(rexmit, cx);
        }
        AckVerdict::Old
    }

    /// RFC 5961 section 5.2: an ACK further below `snd_una` than this, the largest window that was offered, is
    /// no honest straggler.
    pub(super) fn honest_lateness(&self) -> u32 {
        u64::from(self.snd.max_window).min(self.totals.bytes_acked) as u32
    }

    /// Nothing was in flight: perhaps a zero window has opened (`no_queue` of `tcp_ack`).
    fn ack_without_queue(&mut self, event: &mut AckEvent, cx: &mut Cx<'_>) {
        if event.flags.dsacking {
            self.fastretrans_alert(0, event, cx);
            self.newly_delivered(event, cx);
        }
        self.ack_probe(cx.now);
        if self.rec.tlp_high_seq.is_some() {
            self.process_tlp_ack(event, cx);
        }
    }

    /// Calls `in_ack_event` of a module that has one.
    #[inline]
    fn in_ack_event(&mut self, event: &mut AckEvent, cx: &mut Cx<'_>) {
        if self.cc.has_in_ack_event(self.snd.una) {
            self.tell_in_ack_event(event, cx);
        }
    }

    fn tell_in_ack_event(&mut self, event: &mut AckEvent, cx: &mut Cx<'_>) {
        let AckEvent { flags, view, .. } = event;
        let ack = self.latest_view(view, cx.now);
        let fast = flags.plain
            && (flags.snd_una_advanced || self.config.profile.predicted_duplicates_are_fast_path);
        let flags = AckEventFlags { slow_path: !fast, ece: flags.ece };
        self.cc.in_ack_event(&mut self.window, ack, flags);
        if let Some(marked_256) = self.window.marked_round.take() {
            self.plb_round(marked_256.into(), cx);
        }
    }

    /// `tcp_count_delivered`.
    pub(super) fn count_delivered(&mut self, delivered: u32, ece: bool, cx: &mut Cx<'_>) {
        self.rate.delivered = self.rate.delivered.wrapping_add(delivered);
        // Accurate ECN counts by itself.
        if ece && !self.is_accurate() {
            self.rate.delivered_ce = self.rate.delivered_ce.wrapping_add(delivered);
            cx.mib.delivered_ce += u64::from(delivered);
        }
    }

    /// `tcp_set_xmit_timer`.
    fn set_xmit_timer(&mut self, now: Instant) {
        if !self.schedule_loss_probe(Rto::FromNow, now) {
            self.rearm_rto(now);
        }
    }

    /// Window growth or reduction, then the pacing rate, unless all of it is the module's business
    /// (`tcp_cong_control`).
    fn cong_control(&mut self, event: &mut AckEvent, cx: &mut Cx<'_>) {
        let AckEvent { flags, sample, view, .. } = event;
        if self.cc.has_cong_control() {
            let ack = self.latest_view(view, cx.now);
            self.cc.cong_control(&mut self.window, ack, sample);
            return;
        }
        if self.window.in_cwnd_reduction() {
            self.cwnd_reduction(sample.acked_sacked, sample.losses, *flags);
        } else if self.may_raise_cwnd(*flags) {
            let ack = self.latest_view(view, cx.now);
            self.cc.cong_avoid(&mut self.window, ack, sample.acked_sacked);
            self.window.snd_cwnd_stamp = ack.jiffies;
            if core::mem::take(&mut self.window.wants_reduction) {
                self.enter_cwr(cx);
            }
            if self.window.hystart != Hystart::default() {
                self.count_hystart(cx);
            }
        }
        self.update_pacing_rate();
    }

    /// Slow start has been ended; the threshold is the window at which it was.
    #[cold]
    fn count_hystart(&mut self, cx: &mut Cx<'_>) {
        let Hystart { train, delay } = core::mem::take(&mut self.window.hystart);
        let cwnd = u64::from(self.window.snd_ssthresh);
        if train {
            cx.mib.hystart_train_detect += 1;
            cx.mib.hystart_train_cwnd += cwnd;
        }
        if delay {
            cx.mib.hystart_delay_detect += 1;
            cx.mib.hystart_delay_cwnd += cwnd;
        }
    }

    /// What the congestion module may read: `event.view`, which is made anew if it is not true any more. Whoever changes
    /// what it tells forgets it: [`read_accurate`](Self::read_accurate), [`process_tlp_ack`](Self::process_tlp_ack) and
    /// [`fastretrans_alert`](Self::fastretrans_alert).
    fn latest_view<'a>(&self, view: &'a mut Option<Ack>, now: Instant) -> &'a Ack {
        let view = view.get_or_insert_with(|| self.ack_view(now));
        view.delivered_us = self.rate.delivered_us;
        // The module itself may have enabled pacing.
        view.is_paced = self.is_paced();
        debug_assert_eq!(
            *view,
            self.ack_view(now),
            "somebody has changed the connection and not forgotten it"
        );
        view
    }

    /// `tcp_may_raise_cwnd`: under reordering SACKs count as progress, else only cumulative ACKs.
    fn may_raise_cwnd(&self, flags: AckFlags) -> bool {
        if self.rec.reordering > self.config.sysctl.tcp_reordering {
            flags.forward_progress()
        } else {
            flags.data_acked
        }
    }
}

/// Progress that was predicted counts apart, data or not; else a segment counts that takes no number, which those
/// with a SYN or FIN do (`FLAG_SLOWPATH` of `tcp_ack`).
#[inline]
fn count_ack(seg: &Segment<'_>, path: Path, flags: AckFlags, cx: &mut Cx<'_>) {
    if path == Path::Fast && flags.snd_una_advanced {
        cx.mib.hp_acks += 1;
    } else if seg.seq == seg.end_seq {
        cx.mib.pure_acks += 1;
    }
}

/// How many segments, lost or reordered, a duplicate ACK stands for (`num_dupack`).
fn dup_acks(seg: &Segment<'_>, flags: AckFlags) -> u32 {
    if flags.snd_una_advanced || flags.not_dup() || flags.dsacking {
        0
    } else if flags.data {
        1
    } else {
        seg.segments.max(1)
    }
}
