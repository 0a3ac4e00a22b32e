//! Fast Open at the side that connects.

use super::{Cookie, TryExperimental, option_of, switch};
use crate::packet::{Packet, TcpFlags};
use crate::tcp::bytes::Payload;
use crate::tcp::skb::Skb;
use crate::tcp::{Connection, Cx};
use crate::trace::Cause;

impl Connection {
    /// Sends the SYN of a Fast Open with as much of `payload` as fits, or with a request for a
    /// cookie (`tcp_send_syn_data`). Gives how many bytes went.
    pub(in crate::tcp) fn send_fast_open_syn(
        &mut self,
        flags: TcpFlags,
        payload: Payload<'_>,
        cx: &mut Cx<'_>,
    ) -> u32 {
        let cookie = self.cookie_to_send(cx);
        let may_carry = match cookie {
            CookieCheck::Known(cookie) => {
                self.rare().fast_open.option = Some(cookie);
                true
            }
            CookieCheck::NotNeeded => true,
            CookieCheck::Ask(request) => {
                self.rare().fast_open.option = Some(request);
                false
            }
            CookieCheck::Forbidden => false,
        };
        if let Some(option) = self.rare().fast_open.option {
            let state = &mut self.rare().fast_open;
            state.asked = true;
            state.asked_experimental = option.experimental;
        }
        let mut copied = 0;
        // What fits goes by what the peer told before, or what we take ourselves (`tcp_send_syn_data`).
        self.snd.mss_clamp = self.opt.advmss;
        if may_carry {
            let cached = u32::from(cx.shared.metrics_of(self).mss);
            if cached > 0 {
                self.snd.mss_clamp = self.snd.mss_clamp.min(cached);
            }
            self.sync_mss();
            let by_path = self.snd.pmtu.saturating_sub(self.network_header_len() + 20);
            let room = by_path.min(self.snd.mss_clamp).saturating_sub(40);
            copied = payload.len().min(room.into()) as u32;
        }
        self.send_syn_with(flags, payload, copied, cx);
        let state = &mut self.rare().fast_open;
        state.option = None;
        state.syn_data = copied > 0;
        state.copied = copied;
        copied
    }

    /// Which cookie goes with the SYN (`tcp_fastopen_cookie_check`).
    fn cookie_to_send(&mut self, cx: &mut Cx<'_>) -> CookieCheck {
        let metrics = cx.shared.metrics_of(self);
        let rest_s = self.config.sysctl.tcp_fastopen_blackhole_timeout_sec;
        if cx.shared.black_hole.is_paused(cx.now_s(), rest_s) {
            return CookieCheck::Forbidden;
        }
        if cx.shared.black_hole.suspected() {
            self.rare().fast_open.probes_black_hole = true;
        }
        if self.config.sysctl.tcp_fastopen & switch::CLIENT_NO_COOKIE != 0
            || self.config.socket.fastopen_no_cookie
            || self.route_metrics().fastopen_no_cookie
        {
            return CookieCheck::NotNeeded;
        }
        let experimental = metrics.try_experimental == TryExperimental::Yes;
        match metrics.cookie {
            Some(cookie) => CookieCheck::Known(cookie),
            None => CookieCheck::Ask(Cookie::request(experimental)),
        }
    }

    /// Sends SYN and `len` bytes of data as one packet, but keeps them as two records: the SYN is
    /// retransmitted without the data.
    fn send_syn_with(&mut self, flags: TcpFlags, payload: Payload<'_>, len: u32, cx: &mut Cx<'_>) {
        self.queue_handshake(flags);
        let syn = self.queue.rtx_head().expect("the SYN was just queued");
        if len == 0 {
            self.transmit_skb(syn, cx);
        } else {
            let overhead = self.config.profile.skb_overhead;
            if let Payload::Bytes(bytes) = payload {
                self.keep_written(&bytes[..len as usize]);
            }
            let seq = self.snd.write_seq;
            let mut skb = Skb::new(seq, seq + len, TcpFlags::ACK | TcpFlags::PSH, overhead + len);
            skb.pcount = 1;
            self.snd.wmem_queued += skb.truesize;
            self.snd.write_seq += len;
            self.snd.pushed_seq = self.snd.write_seq;
            let data = self.queue.push_sent(skb);
            self.transmit_syn_data(syn, data, cx);
            self.rec.packets_out += 1;
            cx.mib.orig_data_sent += 1;
        }
        self.rec.packets_out += 1;
        self.snd.nxt = self.snd.write_seq;
        self.arm_handshake_timer(cx.now);
    }

    /// The SYN-ACK is here: learns the cookie, and finds out what became of the data
    /// (`tcp_rcv_fastopen_synack`). True: the data has to be sent again, and was.
    pub(in crate::tcp) fn fast_open_answered(&mut self, packet: &Packet, cx: &mut Cx<'_>) -> bool {
        let Some(rare) = &self.rare else { return false };
        let state = rare.fast_open;
        if !state.asked && !state.syn_data {
            return false;
        }
        let data_left = state.syn_data && self.queue.rtx_head().is_some();
        let mut cookie = option_of(packet).filter(|cookie| !cookie.is_request());
        let mut syn_lost = false;
        let mut try_next = TryExperimental::Unknown;
        if !state.asked {
            cookie = None;
        } else if self.totals.total_retrans > 0 {
            syn_lost = cookie.is_none() && data_left;
        } else if cookie.is_none() && !state.syn_data {
            try_next =
                if state.asked_experimental { TryExperimental::No } else { TryExperimental::Yes };
        }
        let offered = packet.tcp().map_or(0, |tcp| tcp.options.mss);
        let mss = if offered == 0 { self.snd.mss_clamp as u16 } else { offered };
        cx.shared.metrics_of_mut(self, cx.now).store(mss, cookie, syn_lost, try_next);
        if data_left {
            cx.mib.fast_open_active_fail += 1;
            self.resend_syn_data(cx);
            return true;
        }
        if state.syn_data {
            self.rare().fast_open.syn_data_acked = true;
            cx.mib.fast_open_active += 1;
            // SYN and data are counted as two packets.
            if self.rate.delivered > 1 {
                self.rate.delivered -= 1;
            }
        }
        false
    }

    /// The data of the SYN was not taken: it goes again as ordinary data.
    fn resend_syn_data(&mut self, cx: &mut Cx<'_>) {
        for index in 0..self.queue.rtx_len() {
            if let Some(id) = self.queue.rtx_at(index) {
                self.mark_skb_lost(id, Cause::Handshake, cx);
            }
        }
        self.retransmit_without_congestion(Cause::Handshake, cx);
    }

    /// A timeout of a Fast Open connection: three in a row, or giving up, mean a black hole
    /// (`tcp_fastopen_active_detect_blackhole`).
    pub(in crate::tcp) fn detect_black_hole(&mut self, gives_up: bool, cx: &mut Cx<'_>) {
        let Some(rare) = &self.rare else { return };
        let state = rare.fast_open;
        let active = state.asked || state.syn_data || state.syn_data_acked;
        let timeouts = self.retransmits;
        if active && state.request.is_none() && (timeouts == 2 || (timeouts < 2 && gives_up)) {
            cx.mib.fast_open_active_fail += 1;
            self.pause_active_fast_open(cx);
        }
    }

    /// Active Fast Open rests, unless it never does (`tcp_fastopen_active_disable`).
    fn pause_active_fast_open(&self, cx: &mut Cx<'_>) {
        if self.config.sysctl.tcp_fastopen_blackhole_timeout_sec != 0 {
            cx.shared.black_hole.on_blackhole(cx.now_s());
            cx.mib.fast_open_black_hole += 1;
        }
    }

    /// The end of a Fast Open connection: one FIN out of order and nothing else looks like a
    /// middle box that cut the connection short (`tcp_fastopen_active_disable_ofo_check`).
    pub(in crate::tcp) fn fast_open_ends(&mut self, cx: &mut Cx<'_>) {
        let Some(rare) = &self.rare else { return };
        let state = rare.fast_open;
        if !state.asked {
            return;
        }
        if self.totals.data_segs_in == 0 {
            if self.rcv.holds_one_fin_out_of_order() {
                self.pause_active_fast_open(cx);
            }
        } else if state.probes_black_hole {
            cx.shared.black_hole.on_success();
        }
    }
}

/// What goes with the SYN.
enum CookieCheck {
    /// This cookie, and data.
    Known(Cookie),
    /// Data alone.
    NotNeeded,
    /// A request for a cookie, no data.
    Ask(Cookie),
    /// Nothing.
    Forbidden,
}
