//! What a host reports about a connection (`TCP_INFO` and the like) must be consistent with what was observed, and
//! how one input changes it must follow the rules of sending.

use datapath::tcp::info::TcpInfo;
use datapath::tcp::state::State;
use datapath::trace::CaState;

use super::outgoing::Outgoing;
use super::seq::after;
use super::tcp::ObservedFlow;
use crate::case::BrokenLaw;

/// What is known of a connection at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionView {
    /// `TCP_INFO`.
    pub info: TcpInfo,
    /// `sk_sndbuf`.
    pub sndbuf: u32,
    /// `sk_wmem_queued`.
    pub wmem_queued: u32,
}

/// What else is known of the host.
#[derive(Clone, Copy, Debug)]
pub struct HostView {
    /// Nothing waits in the host.
    pub quiet: bool,
    /// No sysctl has changed how losses are found, nor asks for probes of the path.
    pub by_default: bool,
    /// The kernel has proportional rate reduction and RACK.
    pub modern: bool,
}

fn broken(law: &'static str, look: &ConnectionView, why: &str) -> BrokenLaw {
    (law, format!("{why}: {look:?}"))
}

impl ConnectionView {
    /// Segments in the network (`tcp_packets_in_flight`).
    fn in_flight(&self) -> i64 {
        let info = &self.info;
        let out = i64::from(info.unacked) - i64::from(info.sacked) - i64::from(info.lost);
        out + i64::from(info.retrans)
    }

    /// New segments with data since then.
    fn new_data_since(&self, before: &Self) -> i64 {
        let sent = i64::from(self.info.data_segs_out) - i64::from(before.info.data_segs_out);
        sent - (i64::from(self.info.total_retrans) - i64::from(before.info.total_retrans))
    }

    /// What the connection has counted fits what was on the wire.
    ///
    /// # Errors
    /// The law that this breaks.
    pub fn check(&self, flow: &ObservedFlow) -> Result<(), BrokenLaw> {
        let info = &self.info;
        let most = |out: &Outgoing| u64::from(flow.acked_at_most(out).wrapping_sub(out.iss));
        if flow.possible().all(|out| info.bytes_acked > most(out)) {
            return Err(broken("TCP_INFO", self, "more is acknowledged than the peer has"));
        }
        if info.bytes_received > flow.in_order() {
            let why = format!("more bytes received than {}, which came in order", flow.in_order());
            return Err(broken("TCP_INFO", self, &why));
        }
        Ok(())
    }

    /// What a segment or a call has brought about.
    ///
    /// # Errors
    /// The law that this breaks.
    pub fn follows(&self, before: &Self, around: HostView) -> Result<(), BrokenLaw> {
        if before.info.state != State::Established || self.info.state != State::Established {
            return Ok(());
        }
        self.keeps_cwnd(before)?;
        self.recovers(before, around)?;
        // What has no effect gives no occasion to send: a key may have made segments shorter before,
        // and what is not signed is dropped.
        if self == before { Ok(()) } else { self.check_progress(around) }
    }

    /// RFC 5681 section 3.1: no more new data in flight than the congestion window.
    fn keeps_cwnd(&self, before: &Self) -> Result<(), BrokenLaw> {
        if self.new_data_since(before) > 0 && self.in_flight() > i64::from(self.info.snd_cwnd) {
            let why = format!("{} segments in flight", self.in_flight());
            return Err(broken("congestion window", self, &why));
        }
        Ok(())
    }

    /// `DupThresh` segments SACKed beyond the first hole: it is lost (RFC 6675, RFC 8985 section 6.2),
    /// and the first retransmission waits for nothing (RFC 9937).
    fn recovers(&self, before: &Self, around: HostView) -> Result<(), BrokenLaw> {
        let info = &self.info;
        let first = info.total_retrans == 0 && info.reord_seen == 0 && info.unacked > info.sacked;
        let recovering = info.ca_state >= CaState::Recovery;
        // What it acknowledges as well may have been sent before, and RACK waits by its round trip.
        let news = info.sacked > before.info.sacked && info.bytes_acked == before.info.bytes_acked;
        let enough = news && info.sacked >= info.reordering;
        if around.by_default && first && enough && !recovering {
            return Err(broken("recovery", self, "as many SACKed as DupThresh, no loss"));
        }
        // What is lost may have been sent again before, by a timeout that was undone.
        // Within a reduction that goes on, proportional rate reduction may give nothing.
        let begins = before.info.ca_state < CaState::Cwr && info.ca_state == CaState::Recovery;
        // What lies beyond a window that the peer has taken back waits, unless it is the first
        // (`__tcp_retransmit_skb`): either all of it is within, or the first is among the lost.
        let flight = u64::from(info.unacked) * u64::from(info.snd_mss);
        let first_is_lost = info.lost + info.sacked == info.unacked;
        let within = first_is_lost || u64::from(info.snd_wnd) >= flight;
        let resent = info.total_retrans != before.info.total_retrans;
        // An old one shows what is lost, but the window does not change (`tcp_ack`, `old_ack`).
        let is_recent = info.last_ack_recv == 0;
        if around.quiet
            && around.modern
            && begins
            && is_recent
            && !resent
            && !self.is_paced()
            && info.lost > info.retrans
            && info.snd_wnd > 0
            && within
        {
            return Err(broken("recovery", self, "it begins, and nothing is sent again"));
        }
        Ok(())
    }

    /// Data, both windows and an idle device: what may go has gone.
    fn check_progress(&self, around: HostView) -> Result<(), BrokenLaw> {
        let info = &self.info;
        let mss = i64::from(info.snd_mss);
        let cwnd_room = (i64::from(info.snd_cwnd) - self.in_flight()) * mss;
        // Segments were longer before a larger window halved them (`tcp_bound_to_half_wnd`).
        let sent_bytes = info.bytes_sent.saturating_sub(info.bytes_retrans + info.bytes_acked);
        let flight = (i64::from(info.unacked) * mss).max(sent_bytes as i64);
        let room = cwnd_room.min(i64::from(info.snd_wnd) - flight);
        // A third of the window is never put off (tcp_tso_win_divisor).
        let whole = i64::from(info.snd_wnd).min(i64::from(info.snd_cwnd) * mss);
        let waits = i64::from(info.notsent_bytes) >= mss;
        let may =
            around.quiet && around.by_default && !self.is_paced() && info.ca_state == CaState::Open;
        if may && waits && room >= mss && room * 2 >= whole {
            let why = format!("{} bytes wait, though {room} may go", info.notsent_bytes);
            return Err(broken("work goes on", self, &why));
        }
        Ok(())
    }

    fn is_paced(&self) -> bool {
        self.info.max_pacing_rate != u64::MAX
    }

    /// RFC 9293 section 3.8.6: what lies beyond a window that the peer has taken back is not sent again, but for the
    /// first byte in flight, which probes the window (`__tcp_retransmit_skb`).
    ///
    /// # Errors
    /// The law that this breaks.
    pub fn resends_within(&self, flow: &ObservedFlow) -> Result<(), BrokenLaw> {
        let Some(out) = flow.present().filter(|out| !out.guessed) else { return Ok(()) };
        // Whether the SYN was counted does not matter: either number may be the first one in flight.
        let counted = out.iss.wrapping_add(self.info.bytes_acked as u32);
        let first = [out.acked, counted, counted.wrapping_add(1)];
        let edge = counted.wrapping_add(1).wrapping_add(self.info.snd_wnd);
        let beyond = |seq: &&u32| !after(edge, **seq) && !first.contains(seq);
        match flow.resent.iter().find(beyond) {
            None => Ok(()),
            Some(seq) => {
                Err(broken("shrunk window", self, &format!("{seq} is sent again, beyond {edge}")))
            }
        }
    }

    /// A writer that waits is woken once a third of its memory is free (`sk_stream_write_space`).
    /// It was so even before `joined` bytes came back that wake nobody.
    pub fn has_space(&self, joined: u32) -> bool {
        let queued = self.wmem_queued + joined;
        let free = i64::from(self.sndbuf) - i64::from(queued);
        free > 0 && free >= i64::from(queued >> 1)
    }
}

/// States may follow each other like this, whatever happened between (RFC 9293 figure 5).
#[must_use]
pub fn may_follow(before: State, now: State) -> bool {
    use State as S;
    let after: &[State] = match before {
        S::CloseWait => &[S::LastAck],
        S::FinWait1 => &[S::FinWait2, S::Closing, S::TimeWait],
        S::FinWait2 | S::Closing => &[S::TimeWait],
        S::LastAck => &[],
        // A new connection may take its place.
        _ => return true,
    };
    now == before || now == S::Close || after.contains(&now)
}

/// What quotes numbers that are not in flight changes nothing (RFC 5927 section 4.1).
///
/// # Errors
/// The law that this breaks.
pub fn changes_nothing(
    before: &ConnectionView,
    now: &ConnectionView,
    quoted: u32,
    flow: &ObservedFlow,
) -> Result<(), BrokenLaw> {
    let foreign = flow.possible().all(|out| after(quoted, out.reached) || after(out.iss, quoted));
    if !foreign || before == now {
        return Ok(());
    }
    Err(broken("RFC 5927", now, &format!("a message that quotes {quoted} changed {before:?}")))
}

/// The path has become narrow: what does not fit any more goes again at once, without waiting for a
/// timeout (`tcp_simple_retransmit`).
///
/// # Errors
/// The law that this breaks.
pub fn narrows(
    before: &ConnectionView,
    now: &ConnectionView,
    flow: &ObservedFlow,
) -> Result<(), BrokenLaw> {
    let narrower = now.info.snd_mss < before.info.snd_mss && now.info.pmtu < before.info.pmtu;
    let whole = before.info.unacked > 0 && before.info.sacked == 0 && before.info.lost == 0;
    let calm = before.info.ca_state == CaState::Open && before.info.state == State::Established;
    let longest = flow.shortest_in_flight();
    if narrower && whole && calm && longest > now.info.snd_mss && now.info.lost == 0 {
        return Err(broken("path MTU", now, "segments do not fit any more, none is lost"));
    }
    Ok(())
}
