//! The window to offer and the buffer behind it: autotuning on the receiving side
//! (`__tcp_select_window`, `tcp_grow_window`, `tcp_rcv_space_adjust`).

use super::reassembly::pages_for;
use super::segment::Segment;
use super::{Connection, Cx};
use crate::packet::Memory;
use crate::profile::WindowFromSpace;
use crate::units::Instant;

/// `TCP_INIT_CWND`.
const INIT_CWND: u32 = 10;

/// What of a segment's memory is held against the growth of the window (`adjust` of `tcp_grow_window`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Truesize {
    /// All of it.
    Whole,
    /// Not the head of a record whose payload lies in pages, for pages can be joined.
    WithoutHead,
}

/// How the receiver's RTT was measured (`win_dep` of `tcp_rcv_rtt_update`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MeasuredBy {
    /// By the echo of a timestamp.
    Timestamps,
    /// By the time that a window's worth of data took.
    Window,
}

impl Connection {
    /// Payload that fits in `space` bytes of memory (`tcp_win_from_space`).
    pub(super) fn win_from_space(&self, space: u32) -> u32 {
        match self.config.profile.window_from_space {
            WindowFromSpace::AdvWinScale => {
                let shift = self.config.sysctl.tcp_adv_win_scale as i32;
                if shift <= 0 { space >> -shift } else { space - (space >> shift) }
            }
            WindowFromSpace::ScalingRatio => {
                ((u64::from(space) * u64::from(self.rcv.scaling_ratio)) >> 8) as u32
            }
        }
    }

    /// Memory that `window` bytes of payload take (`tcp_space_from_win`).
    pub(super) fn space_from_win(&self, window: u64) -> u64 {
        (window << 8) / u64::from(self.rcv.scaling_ratio)
    }

    /// Window that the whole buffer would give (`tcp_full_space`).
    pub(super) fn full_space(&self) -> u32 {
        self.win_from_space(self.rcv.rcvbuf)
    }

    /// Window that the free buffer gives (`tcp_space`).
    fn free_space(&self) -> u32 {
        self.win_from_space(self.rcv.rcvbuf.saturating_sub(self.rcv.rmem_alloc))
    }

    /// Learns how much of its memory a segment's payload is (`tcp_measure_rcv_mss`, since 6.6).
    pub(super) fn measure_scaling_ratio(&mut self, seg: &Segment<'_>) {
        if self.config.profile.window_from_space != WindowFromSpace::ScalingRatio {
            return;
        }
        let ratio = ((seg.len << 8) / seg.truesize()).max(1);
        if ratio != self.rcv.scaling_ratio {
            self.rcv.scaling_ratio = ratio;
            let before = self.rcv.ssthresh;
            self.set_window_clamp(self.full_space());
            if self.config.profile.clamp_follows_rcvbuf {
                self.rcv.ssthresh = before;
            }
            // What a read is compared with must be within reach.
            self.rcv.space = self.rcv.space.min(self.rcv.window_clamp);
        }
    }

    /// The window may become smaller than what was offered (`tcp_shrink_window`).
    fn may_shrink(&self) -> bool {
        self.config.sysctl.tcp_shrink_window != 0 && self.opt.rcv_wscale > 0
    }

    /// The window to offer now, bytes (`__tcp_select_window`).
    pub(super) fn window_to_offer(&mut self) -> u32 {
        let mut mss = self.ack.rcv_mss;
        let allowed = self.full_space();
        let full = self.rcv.window_clamp.min(allowed);
        let mut free = self.free_space();
        mss = mss.min(full);
        if mss == 0 {
            return 0;
        }
        let scale = self.opt.rcv_wscale;
        // With plenty of room, whole units of it, it makes no difference.
        let unit = 1 << scale;
        let scarce = free < (full >> 1) + unit || free <= self.rcv.ssthresh + unit;
        if scarce && self.may_shrink() {
            return self.window_that_may_shrink(free, full, allowed, mss);
        }
        if free < full >> 1 {
            self.ack.quick = 0;
            free = free >> scale << scale;
            if free < allowed >> 4 || free < mss {
                return 0;
            }
        }
        free = free.min(self.rcv.ssthresh);
        if scale > 0 {
            return free.next_multiple_of(1 << scale);
        }
        let window = self.rcv.wnd;
        if i64::from(window) <= i64::from(free) - i64::from(mss) || window > free {
            free / mss * mss
        } else if mss == full && free > window + (full >> 1) {
            free
        } else {
            window
        }
    }

    /// The window is the free memory, whatever was offered before, in whole units of the scale.
    fn window_that_may_shrink(&mut self, free: u32, full: u32, allowed: u32, mss: u32) -> u32 {
        let unit = 1 << self.opt.rcv_wscale;
        let free = free / unit * unit;
        if free < full >> 1 {
            self.ack.quick = 0;
            if free < allowed >> 4 || free < mss || free < unit {
                return 0;
            }
        }
        // Not a limit of memory: it may be exceeded by part of a unit.
        if free > self.rcv.ssthresh { self.rcv.ssthresh.next_multiple_of(unit) } else { free }
    }

    /// The window field of a segment sent now; remembers what was offered (`tcp_select_window`).
    pub(super) fn select_window(&mut self, cx: &mut Cx<'_>) -> u16 {
        if self.waits_as_time_wait() {
            return (self.rcv.tw_window >> self.opt.rcv_wscale) as u16;
        }
        let old = self.rcv.wnd;
        self.rcv.keep_right_edge();
        if core::mem::take(&mut self.ack.no_memory) {
            self.rcv.wnd = 0;
            self.rcv.wup = self.rcv.nxt;
            self.expected = None;
            cx.mib.to_zero_window += u64::from(old > 0);
            return 0;
        }
        let current = self.rcv.window();
        let mut new = self.window_to_offer();
        let scale = self.opt.rcv_wscale;
        if new < current && !self.may_shrink() {
            // Never shrink the window that was offered.
            if new == 0 {
                cx.mib.want_zero_window += 1;
            }
            new = current.next_multiple_of(1 << scale);
        }
        self.rcv.wnd = new;
        self.rcv.wup = self.rcv.nxt;
        let ceiling = if scale == 0 { 65_535 } else { 65_535 << scale };
        let field = (new.min(ceiling) >> scale) as u16;
        if field == 0 {
            self.expected = None;
            if old > 0 {
                cx.mib.to_zero_window += 1;
            }
        } else if old == 0 {
            cx.mib.from_zero_window += 1;
        }
        field
    }

    /// Lets the window grow when data comes in full segments (`tcp_grow_window`).
    pub(super) fn grow_window(&mut self, seg: &Segment<'_>, counted: Truesize) {
        let limit = self.rcv.window_clamp.min(self.free_space());
        let Some(room) = limit.checked_sub(self.rcv.ssthresh).filter(|&room| room > 0) else {
            return;
        };
        let truesize = match (counted, seg.memory) {
            (Truesize::WithoutHead, memory) if memory.is_paged() => seg.len,
            (Truesize::WithoutHead, Memory::Written) => pages_for(seg.len),
            // A FIN alone has no bytes in its head, either (`truesize_adjust`).
            (Truesize::WithoutHead, _) if seg.len == 0 => 0,
            (Truesize::Whole | Truesize::WithoutHead, _) => seg.truesize(),
        };
        let increment = if self.win_from_space(truesize) <= seg.len {
            2 * self.opt.advmss
        } else {
            self.slow_window_growth(truesize, seg.len)
        };
        if increment > 0 {
            self.rcv.ssthresh += room.min(increment.max(2 * seg.len));
            self.ack.quick |= 1;
        }
    }

    /// Segments that waste memory let the window grow only while it is small
    /// (`__tcp_grow_window`).
    fn slow_window_growth(&self, truesize: u32, len: u32) -> u32 {
        let mut truesize = self.win_from_space(truesize) >> 1;
        let mut window = self.win_from_space(self.config.sysctl.tcp_rmem[2]) >> 1;
        while self.rcv.ssthresh <= window {
            if truesize <= len {
                return 2 * self.ack.rcv_mss;
            }
            truesize >>= 1;
            window >>= 1;
        }
        0
    }

    /// Measures the RTT on the receiving side by timestamps (`tcp_rcv_rtt_measure_ts`).
    pub(super) fn rcv_rtt_measure_ts(&mut self, seg: &Segment<'_>, now: Instant) {
        let Some(ts) = seg.tcp.options.timestamps.filter(|_| self.opt.timestamps) else {
            return;
        };
        if ts.echo == self.rcv.last_tsecr {
            return;
        }
        self.rcv.last_tsecr = ts.echo;
        if seg.end_seq.bytes_since(seg.seq) < self.ack.rcv_mss {
            return;
        }
        let delta_ms = self.ts_now(now).wrapping_sub(ts.echo);
        let least = u32::from(!self.config.profile.rcvbuf_ignores_unread);
        if delta_ms < i32::MAX as u32 / 1_000 && delta_ms.max(least) > 0 {
            self.rcv_rtt_update(delta_ms.max(least) * 1_000, MeasuredBy::Timestamps);
        }
    }

    /// Measures it by windows when there are no timestamps (`tcp_rcv_rtt_measure`).
    pub(super) fn rcv_rtt_measure(&mut self, now: Instant) {
        if let Some(since_us) = self.rcv.rtt_time_us {
            if self.rcv.nxt.before(self.rcv.rtt_seq) {
                return;
            }
            let delta = now.as_micros().saturating_sub(since_us).max(1);
            self.rcv_rtt_update(delta as u32, MeasuredBy::Window);
        }
        self.rcv.rtt_seq = self.rcv.nxt + self.rcv.wnd;
        self.rcv.rtt_time_us = Some(now.as_micros());
    }

    /// `tcp_rcv_rtt_update`: smaller samples count at once, larger ones of timestamps are smoothed in.
    fn rcv_rtt_update(&mut self, sample_us: u32, by: MeasuredBy) {
        let old = self.rcv.rtt_us_8;
        let sample_8 = sample_us << 3;
        let waits =
            self.config.profile.rcvbuf_ignores_unread && self.rcv.nxt != self.rcv.copied_seq;
        if old == 0 || sample_8 < old {
            self.rcv.rtt_us_8 = sample_8;
        } else if by == MeasuredBy::Timestamps && !waits {
            // An echo of the distant past is a sample of many minutes: 32 bits wrap, as Linux's do.
            self.rcv.rtt_us_8 = (old - (old >> 3)).wrapping_add(sample_us);
        }
    }

    /// Dynamic right-sizing: grows the buffer when the application keeps up
    /// (`tcp_rcv_space_adjust`).
    pub(super) fn rcv_space_adjust(&mut self, now: Instant) {
        let now_us = now.as_micros();
        let elapsed = now_us.saturating_sub(self.rcv.space_time_us);
        if self.rcv.rtt_us_8 == 0 || elapsed < u64::from(self.rcv.rtt_us_8 >> 3) {
            return;
        }
        let mut copied = self.rcv.copied_seq.bytes_since(self.rcv.space_seq);
        if self.config.profile.rcvbuf_ignores_unread {
            copied = copied.saturating_sub(self.rcv.nxt.bytes_since(self.rcv.copied_seq));
        }
        if copied > self.rcv.space && self.config.profile.rcvbuf_grows_out_of_order {
            self.right_size(copied);
        } else if copied > self.rcv.space {
            if self.config.sysctl.tcp_moderate_rcvbuf != 0 && !self.config.rcvbuf_is_locked() {
                self.grow_rcvbuf(copied);
            }
            self.rcv.space = copied;
        }
        self.rcv.space_seq = self.rcv.copied_seq;
        self.rcv.space_time_us = now_us;
    }

    /// `space` bytes were read in one RTT: the buffer holds twice that, more while it grows, and
    /// what lies beyond a hole (`tcp_rcvbuf_grow`).
    pub(super) fn right_size(&mut self, space: u32) {
        let old = core::mem::replace(&mut self.rcv.space, space).max(1);
        let sysctl = &self.config.sysctl;
        if sysctl.tcp_moderate_rcvbuf == 0 || self.config.rcvbuf_is_locked() {
            return;
        }
        let mut window = u64::from(space) << 1;
        let rtt_us = u64::from(self.rcv.rtt_us_8 >> 3);
        let low_us = u64::from(sysctl.tcp_rcvbuf_low_rtt);
        window += if rtt_us < low_us {
            window * rtt_us / low_us
        } else {
            (window << 1) * u64::from(space.saturating_sub(old)) / u64::from(old)
        };
        if let Some(end) = self.rcv.last_beyond_hole() {
            window += u64::from(end.bytes_since(self.rcv.nxt));
        }
        let wanted = self.space_from_win(window);
        let rcvbuf = wanted.min(u64::from(sysctl.tcp_rmem[2])) as u32;
        if rcvbuf > self.rcv.rcvbuf {
            self.rcv.rcvbuf = rcvbuf;
            self.rcv.window_clamp = self.win_from_space(rcvbuf);
        }
    }

    /// Twice what one RTT brought, and more while that grows.
    fn grow_rcvbuf(&mut self, copied: u32) {
        let advmss = u64::from(self.opt.advmss);
        let mut window = (u64::from(copied) << 1) + 16 * advmss;
        let space = u64::from(self.rcv.space.max(1));
        let growth = window * u64::from(copied - self.rcv.space) / space;
        window += growth << 1;
        let wanted = match self.config.profile.window_from_space {
            WindowFromSpace::ScalingRatio => self.space_from_win(window),
            WindowFromSpace::AdvWinScale => {
                let profile = &self.config.profile;
                let mut per_segment = self.opt.advmss
                    + profile.max_tcp_header
                    + profile.shared_info_len
                    + profile.sk_buff_len;
                // With a scale of -31 no memory is enough, and the kernel would come to no end.
                while self.win_from_space(per_segment) < self.opt.advmss && per_segment < 1 << 30 {
                    per_segment += 128;
                }
                window / advmss * u64::from(per_segment)
            }
        };
        let rcvbuf = wanted.min(u64::from(self.config.sysctl.tcp_rmem[2])) as u32;
        if rcvbuf > self.rcv.rcvbuf {
            self.rcv.rcvbuf = rcvbuf;
            self.rcv.window_clamp = self.win_from_space(rcvbuf);
        }
    }

    /// The connection is established: sets the measurements going (`tcp_init_buffer_space`).
    pub(super) fn init_buffer_space(&mut self, now: Instant) {
        if !self.config.sndbuf_is_locked() {
            self.sndbuf_expand();
        }
        let advmss = self.opt.advmss;
        self.rcv.space = self.rcv.wnd.min(INIT_CWND * advmss);
        self.rcv.space_time_us = now.as_micros();
        self.rcv.space_seq = self.rcv.copied_seq;
        let max = self.full_space();
        let app_win = self.config.sysctl.tcp_app_win;
        if self.rcv.window_clamp >= max {
            self.rcv.window_clamp = max;
            if app_win > 0 && max > 4 * advmss {
                let share = max.checked_shr(app_win).unwrap_or(0);
                self.rcv.window_clamp = (max - share).max(4 * advmss);
            }
        }
        // Keep one segment in reserve.
        if app_win > 0 && self.rcv.window_clamp > 2 * advmss && self.rcv.window_clamp + advmss > max
        {
            self.rcv.window_clamp = (2 * advmss).max(max - advmss);
        }
        self.rcv.ssthresh = self.rcv.ssthresh.min(self.rcv.window_clamp);
        if self.config.profile.rcvbuf_grows_out_of_order {
            self.rcv.space = self.rcv.space.min(self.rcv.ssthresh);
        }
        self.rcv.edge = self.rcv.wup + self.rcv.wnd;
        self.window.snd_cwnd_stamp = self.jiffies32(now);
    }

    /// Bytes that are let in from the next one on: of a window that was taken back all that was offered once, or what was
    /// offered last.
    pub(super) fn acceptable_window(&self) -> u32 {
        if self.config.profile.accepts_retracted_window {
            self.rcv.max_window()
        } else {
            self.rcv.window()
        }
    }
}
