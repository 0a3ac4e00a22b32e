//! Fast Open at the side that listens.

use super::{Admission, Cookie, Request, option_of, switch};
use crate::packet::Packet;
use crate::tcp::segment::Segment;
use crate::tcp::timer::Pending;
use crate::tcp::{Connection, Cx, SocketError, TcpConfig};
use crate::trace::CaState;

impl Connection {
    /// What the listener makes of a SYN (`tcp_try_fastopen`): whether the connection opens at
    /// once, and the option of the SYN-ACK.
    pub(in crate::tcp) fn try_fast_open(
        config: &TcpConfig,
        admission: Admission,
        syn: &Packet,
        cx: &mut Cx<'_>,
    ) -> (bool, Option<Cookie>) {
        let option = option_of(syn);
        let carries_data = syn.body.len > 0;
        if option.is_some_and(|cookie| cookie.is_request()) {
            cx.mib.fast_open_cookie_reqd += 1;
        }
        let Admission::Yes(keys) = admission else { return (false, None) };
        if config.sysctl.tcp_fastopen & switch::SERVER == 0 || (!carries_data && option.is_none()) {
            return (false, None);
        }
        let (Some(client), Some(server)) = (syn.network.src(), syn.network.dst()) else {
            return (false, None);
        };
        if config.sysctl.tcp_fastopen & switch::SERVER_NO_COOKIE != 0
            || config.socket.fastopen_no_cookie
        {
            cx.mib.fast_open_passive += 1;
            cx.mib.passive_opens += 1;
            return (true, None);
        }
        let Some(offered) = option else { return (false, None) };
        let fresh = keys.fresh(client, server).in_form_of(offered);
        if offered.is_request() {
            return (false, Some(fresh));
        }
        let Some(by_old_key) = keys.check(offered, client, server) else {
            cx.mib.fast_open_passive_fail += 1;
            return (false, Some(fresh));
        };
        cx.mib.fast_open_passive += 1;
        cx.mib.passive_opens += 1;
        cx.mib.fast_open_passive_alt_key += u64::from(by_old_key);
        (true, by_old_key.then_some(fresh))
    }

    /// Takes the data of a SYN or SYN-ACK, which is in order by itself (`tcp_fastopen_add_skb`).
    pub(in crate::tcp) fn add_syn_data(&mut self, seg: &Segment<'_>, cx: &mut Cx<'_>) {
        if seg.len == 0 && !seg.fin() {
            return;
        }
        self.rare().fast_open.syn_data_acked = true;
        self.take_handshake_data(seg, cx);
    }

    /// The SYN-ACK of a passive Fast Open was not answered (`tcp_fastopen_synack_timer`).
    pub(in crate::tcp) fn fast_open_syn_ack_timeout(&mut self, cx: &mut Cx<'_>) {
        let Some(request) = self.rare().fast_open.request else { return };
        // `tcp_syn_ack_timeout`.
        cx.mib.timeouts += 1;
        let own = self.config.socket.syn_retries.map(|retries| retries.get().into());
        // One more than without Fast Open.
        let limit = own.unwrap_or(self.config.sysctl.tcp_synack_retries + 1);
        if u32::from(request.timeouts) >= limit {
            cx.mib.abort_on_timeout += 1;
            let error = self.soft_error.take().unwrap_or(SocketError::TimedOut);
            return self.fail(error, cx);
        }
        if self.retransmits == 1 {
            self.enter_loss(cx);
        }
        cx.mib.retrans_segs += 1;
        cx.mib.syn_retrans += 1;
        self.totals.total_retrans += 1;
        self.send_syn_ack(cx);
        self.note_timeout(cx.now);
        self.rec.retrans_stamp = self.rec.retrans_stamp.or(self.stamp(cx.now));
        let timeouts = request.timeouts + 1;
        self.rare().fast_open.request = Some(Request { timeouts, ..request });
        let timeout = u64::from(self.config.profile.timeout_init_ms) << timeouts.min(20);
        let timeout = timeout.min(self.rto_max_ms().into()) as u32;
        self.reset_xmit_timer(Pending::Retransmit, timeout, cx.now);
    }

    /// The ACK of the SYN-ACK is here: nothing is special any more
    /// (`tcp_rcv_synrecv_state_fastopen`).
    pub(in crate::tcp) fn fast_open_accomplished(&mut self, cx: &mut Cx<'_>) {
        let Some(request) = self.rare().fast_open.request.take() else { return };
        self.rate.delivered += 1;
        if request.timeouts == 0 && self.rtt.srtt_us_8.is_none() {
            let rtt_us = cx.now_us().saturating_sub(request.sent_us) as u32;
            self.take_handshake_rtt(rtt_us, cx.now);
        }
        if self.window.ca_state == CaState::Loss && self.rec.packets_out == 0 {
            self.try_undo_handshake_loss(cx);
        }
        self.rec.retrans_stamp = None;
        self.end_series(cx.now);
        self.retransmits = 0;
        self.rearm_rto(cx.now);
    }
}
