//! TCP Fast Open (RFC 7413): cookies, data on SYN from both sides, and what to do when the path or
//! the peer will have none of it (`tcp_fastopen.c`).

use super::cc::CaState;
use super::input::Segment;
use super::skb::Skb;
use super::timer::Pending;
use super::{Connection, Cx, SocketError, TcpConfig};
use crate::packet::options::{FAST_OPEN_MAGIC, RawOptions, TcpOption, kind};
use crate::packet::{Packet, TcpFlags};
use crate::trace::Cause;
use core::hash::Hasher as _;
use core::net::IpAddr;
use siphasher::sip::SipHasher24;

/// Bits of `net.ipv4.tcp_fastopen`.
pub mod switch {
    /// `TFO_CLIENT_ENABLE`.
    pub const CLIENT: u32 = 1;
    /// `TFO_SERVER_ENABLE`.
    pub const SERVER: u32 = 2;
    /// `TFO_CLIENT_NO_COOKIE`: data goes without a cookie.
    pub const CLIENT_NO_COOKIE: u32 = 4;
    /// `TFO_SERVER_COOKIE_NOT_REQD`: data is taken without a cookie.
    pub const SERVER_NO_COOKIE: u32 = 0x200;
    /// `TFO_SERVER_WO_SOCKOPT1`: every listener takes part.
    pub const EVERY_LISTENER: u32 = 0x400;
}

/// A cookie, or with length 0 the request for one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Cookie {
    bytes: [u8; 16],
    len: u8,
    /// In the experimental option 254 rather than 34.
    pub experimental: bool,
}

/// Which form of the option to try when there is no cookie (`try_exp`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum TryExperimental {
    /// Not found out yet.
    #[default]
    Unknown,
    /// Option 34 was not answered: try 254.
    Yes,
    /// Neither was 254: back to 34.
    No,
}

/// The keys of cookies: the one in use, and an older one that is still honoured
/// (`tcp_fastopen_context`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keys {
    /// In use.
    pub primary: [u8; 16],
    /// Still honoured.
    pub backup: Option<[u8; 16]>,
}

/// What a listener says to a SYN that asks for Fast Open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// It does not take part, or too many are waiting.
    No,
    /// It does.
    Yes(Keys),
}

/// Fast Open of one connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(super) struct FastOpen {
    /// The option to send with the next SYN or SYN-ACK.
    pub option: Option<Cookie>,
    /// Our SYN carried the option (`syn_fastopen`).
    pub asked: bool,
    /// It was the experimental one (`syn_fastopen_exp`).
    pub asked_experimental: bool,
    /// Our SYN carried data (`syn_data`).
    pub syn_data: bool,
    /// The data of the SYN was acknowledged, ours or theirs (`syn_data_acked`).
    pub syn_data_acked: bool,
    /// A success would show that a black hole is gone (`syn_fastopen_ch`).
    pub probes_black_hole: bool,
    /// The SYN of the peer opened the connection at once (`syn_fastopen_child`).
    pub child: bool,
    /// Bytes of data that went with the SYN.
    pub copied: u32,
    /// Passive: the SYN-ACK that is not acknowledged yet (`fastopen_rsk`).
    pub request: Option<Request>,
}

/// A SYN-ACK that waits for its acknowledgment while the connection is open already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Request {
    /// Timeouts so far (`num_timeout`).
    pub timeouts: u8,
    /// When it was sent first, µs.
    pub sent_us: u64,
}

impl Cookie {
    /// A cookie of these bytes; `None` if a cookie cannot be so long.
    pub fn new(bytes: &[u8], experimental: bool) -> Option<Self> {
        let mut cookie = Self { len: bytes.len() as u8, experimental, ..Self::default() };
        cookie.bytes.get_mut(..bytes.len())?.copy_from_slice(bytes);
        Some(cookie)
    }

    /// Its bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }

    /// It asks for a cookie.
    pub const fn is_request(&self) -> bool {
        self.len == 0
    }

    /// The same in the other or the same form.
    fn in_form_of(self, other: Self) -> Self {
        Self { experimental: other.experimental, ..self }
    }

    /// The option as it goes on the wire, padded to whole words: length first, then bytes.
    pub(super) fn write(&self, out: &mut [u8; 20]) -> usize {
        let mut at = 0;
        let mut put = |bytes: &[u8]| {
            out[at..at + bytes.len()].copy_from_slice(bytes);
            at += bytes.len();
        };
        if self.experimental {
            let [high, low] = FAST_OPEN_MAGIC.to_be_bytes();
            put(&[kind::EXPERIMENTAL, 4 + self.len, high, low]);
        } else {
            put(&[kind::FAST_OPEN, 2 + self.len]);
        }
        put(self.bytes());
        let padded = at.next_multiple_of(4);
        out[at..padded].fill(kind::NOP);
        padded
    }
}

impl Keys {
    /// Reads the text of `net.ipv4.tcp_fastopen_key`: `xxxxxxxx-xxxxxxxx-xxxxxxxx-xxxxxxxx`, and
    /// perhaps a comma and a second one. `None` if it is anything else.
    pub fn parse(text: &str) -> Option<Self> {
        let mut keys = text.trim().split(',').map(parse_key);
        let primary = keys.next()??;
        let backup = match keys.next() {
            Some(key) => Some(key?),
            None => None,
        };
        keys.next().is_none().then_some(Self { primary, backup })
    }

    /// Reads the 16 or 32 bytes of `TCP_FASTOPEN_KEY`.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (keys, rest) = bytes.as_chunks::<16>();
        match (keys, rest) {
            (&[primary], []) => Some(Self { primary, backup: None }),
            (&[primary, backup], []) => Some(Self { primary, backup: Some(backup) }),
            _ => None,
        }
    }

    /// The bytes that `TCP_FASTOPEN_KEY` gives back.
    pub fn to_bytes(self) -> Vec<u8> {
        let mut bytes = self.primary.to_vec();
        bytes.extend(self.backup.iter().flatten());
        bytes
    }

    /// The cookie of a client (`__tcp_fastopen_cookie_gen_cipher`).
    fn cookie(key: [u8; 16], client: IpAddr, server: IpAddr) -> Cookie {
        let mut hasher = SipHasher24::new_with_key(&key);
        for ip in [client, server] {
            match ip {
                IpAddr::V4(ip) => hasher.write(&ip.octets()),
                IpAddr::V6(ip) => hasher.write(&ip.octets()),
            }
        }
        Cookie::new(&hasher.finish().to_le_bytes(), false).expect("eight bytes")
    }

    /// The cookie to hand out.
    pub fn fresh(&self, client: IpAddr, server: IpAddr) -> Cookie {
        Self::cookie(self.primary, client, server)
    }

    /// Whether `cookie` is right: `Some(true)` if by the older key.
    fn check(&self, cookie: Cookie, client: IpAddr, server: IpAddr) -> Option<bool> {
        if Self::cookie(self.primary, client, server).bytes() == cookie.bytes() {
            return Some(false);
        }
        let backup = self.backup?;
        (Self::cookie(backup, client, server).bytes() == cookie.bytes()).then_some(true)
    }
}

impl Default for Keys {
    /// A key of our own: fixed, because a run must repeat.
    fn default() -> Self {
        Self { primary: *b"ackwright's key!", backup: None }
    }
}

fn parse_key(text: &str) -> Option<[u8; 16]> {
    let mut words = text.trim().split('-');
    let mut key = [0; 16];
    for place in key.as_chunks_mut::<4>().0 {
        let word = words.next().filter(|word| !word.is_empty() && word.len() <= 8)?;
        *place = u32::from_str_radix(word, 16).ok()?.to_le_bytes();
    }
    words.next().is_none().then_some(key)
}

/// The Fast Open option of a segment.
pub(super) fn option_of(packet: &Packet) -> Option<Cookie> {
    // Only a header that our own form cannot hold carries one.
    packet.extra.as_ref()?;
    let mut scratch = [0; crate::packet::options::MAX_OPTION_SPACE];
    let options = packet.tcp_option_bytes(&mut scratch)?;
    RawOptions::new(options).find_map(|option| match option.decode() {
        TcpOption::FastOpen { cookie, experimental } => Cookie::new(cookie, experimental),
        _ => None,
    })
}

/// The client's side.
impl Connection {
    /// Sends the SYN of a Fast Open with up to `bytes` bytes of data, or with a request for a
    /// cookie (`tcp_send_syn_data`). Gives how many bytes went.
    pub(super) fn send_fast_open_syn(
        &mut self,
        flags: TcpFlags,
        bytes: u64,
        cx: &mut Cx<'_>,
    ) -> u32 {
        let cookie = self.cookie_to_send(cx);
        let may_carry = match cookie {
            CookieCheck::Has(cookie) => {
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
        if may_carry {
            let cached = u32::from(cx.shared.metrics_of(self).mss);
            if cached > 0 {
                self.snd.mss_clamp = self.snd.mss_clamp.min(cached);
            }
            let by_path = self.snd.pmtu.saturating_sub(self.network_header_len() + 20);
            let room = by_path.min(self.snd.mss_clamp).saturating_sub(40);
            copied = bytes.min(room.into()) as u32;
        }
        self.send_syn_with(flags, copied, cx);
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
        if cx.shared.black_hole.must_rest(cx.now_s(), rest_s) {
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
        match metrics.cookie {
            Some(cookie) => CookieCheck::Has(cookie),
            None => CookieCheck::Ask(Cookie {
                experimental: metrics.try_experimental == TryExperimental::Yes,
                ..Cookie::default()
            }),
        }
    }

    /// Sends SYN and `len` bytes of data as one packet, but keeps them as two records: the SYN is
    /// retransmitted without the data.
    fn send_syn_with(&mut self, flags: TcpFlags, len: u32, cx: &mut Cx<'_>) {
        self.queue_handshake(flags);
        let syn = self.queue.rtx_head().expect("the SYN was just queued");
        if len == 0 {
            self.transmit_skb(syn, cx);
        } else {
            let overhead = self.config.profile.skb_overhead;
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
    pub(super) fn fast_open_answered(&mut self, packet: &Packet, cx: &mut Cx<'_>) -> bool {
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
        cx.shared.metrics_of_mut(self).learn(mss, cookie, syn_lost, try_next);
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
        self.retransmit_without_congestion(cx);
    }

    /// Retransmits what is marked lost, though the network is not to blame
    /// (`tcp_non_congestion_loss_retransmit`).
    pub(super) fn retransmit_without_congestion(&mut self, cx: &mut Cx<'_>) {
        if self.window.ca_state != CaState::Loss {
            self.rec.high_seq = self.snd.nxt;
            self.window.snd_ssthresh = self.current_ssthresh();
            self.rec.prior_ssthresh = 0;
            self.rec.undo_marker = None;
            self.set_ca_state(CaState::Loss, cx);
        }
        self.xmit_retransmit_queue(Cause::Handshake, cx);
    }

    /// A timeout of a Fast Open connection: three in a row, or giving up, mean a black hole
    /// (`tcp_fastopen_active_detect_blackhole`).
    pub(super) fn detect_black_hole(&mut self, gives_up: bool, cx: &mut Cx<'_>) {
        let Some(rare) = &self.rare else { return };
        let state = rare.fast_open;
        let active = state.asked || state.syn_data || state.syn_data_acked;
        let timeouts = self.retransmits;
        if active && state.request.is_none() && (timeouts == 2 || (timeouts < 2 && gives_up)) {
            cx.shared.black_hole.seen(cx.now_s());
            cx.mib.fast_open_black_hole += 1;
        }
    }

    /// The end of a Fast Open connection: one FIN out of order and nothing else looks like a
    /// middle box that cut the connection short (`tcp_fastopen_active_disable_ofo_check`).
    pub(super) fn fast_open_ends(&mut self, cx: &mut Cx<'_>) {
        let Some(rare) = &self.rare else { return };
        let state = rare.fast_open;
        if !state.asked {
            return;
        }
        if self.totals.data_segs_in == 0 {
            if self.rcv.holds_one_fin_out_of_order() {
                cx.shared.black_hole.seen(cx.now_s());
                cx.mib.fast_open_black_hole += 1;
            }
        } else if state.probes_black_hole {
            cx.shared.black_hole.healed();
        }
    }
}

/// What goes with the SYN.
enum CookieCheck {
    /// This cookie, and data.
    Has(Cookie),
    /// Data alone.
    NotNeeded,
    /// A request for a cookie, no data.
    Ask(Cookie),
    /// Nothing.
    Forbidden,
}

impl super::shared::Metrics {
    /// `tcp_fastopen_cache_set`.
    fn learn(
        &mut self,
        mss: u16,
        cookie: Option<Cookie>,
        syn_lost: bool,
        try_next: TryExperimental,
    ) {
        if mss > 0 {
            self.mss = mss;
        }
        if cookie.is_some() {
            self.cookie = cookie;
        } else if try_next > self.try_experimental && self.cookie.is_none() {
            self.try_experimental = try_next;
        }
        self.syn_losses = if syn_lost { self.syn_losses.saturating_add(1) } else { 0 };
    }
}

/// The server's side.
impl Connection {
    /// What the listener makes of a SYN (`tcp_try_fastopen`): whether the connection opens at
    /// once, and the option of the SYN-ACK.
    pub(super) fn judge_fast_open(
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
        cx.mib.fast_open_passive_alt_key += u64::from(by_old_key);
        (true, by_old_key.then_some(fresh))
    }

    /// Takes the data of a SYN or SYN-ACK, which is in order by itself (`tcp_fastopen_add_skb`).
    pub(super) fn take_syn_data(&mut self, seg: &Segment<'_>, cx: &mut Cx<'_>) {
        if seg.len == 0 && !seg.fin() {
            return;
        }
        self.rare().fast_open.syn_data_acked = true;
        self.take_handshake_data(seg, cx);
    }

    /// A passive Fast Open connection is waiting for the ACK of its SYN-ACK
    /// (`tcp_passive_fastopen`).
    #[inline]
    pub fn is_passive_fast_open(&self) -> bool {
        self.rare.as_ref().is_some_and(|rare| rare.fast_open.request.is_some())
    }

    /// The SYN-ACK of a passive Fast Open was not answered (`tcp_fastopen_synack_timer`).
    pub(super) fn fast_open_syn_ack_timeout(&mut self, cx: &mut Cx<'_>) {
        let Some(request) = self.rare().fast_open.request else { return };
        let own = u32::from(self.config.socket.syn_retries);
        // One more than without Fast Open.
        let limit = if own > 0 { own } else { self.config.sysctl.tcp_synack_retries + 1 };
        if u32::from(request.timeouts) >= limit {
            cx.mib.abort_on_timeout += 1;
            let error = self.soft_error.take().unwrap_or(SocketError::TimedOut);
            return self.fail(error, cx);
        }
        if self.retransmits == 1 {
            self.enter_loss(cx);
        }
        cx.mib.retrans_segs += 1;
        self.totals.total_retrans += 1;
        self.send_syn_ack(cx);
        self.note_timeout(cx.now);
        if self.rec.retrans_stamp == 0 {
            self.rec.retrans_stamp = self.ts_now(cx.now).max(1);
        }
        let timeouts = request.timeouts + 1;
        self.rare().fast_open.request = Some(Request { timeouts, ..request });
        let timeout = u64::from(self.config.profile.timeout_init_ms) << timeouts.min(20);
        let timeout = timeout.min(self.rto_max_ms().into()) as u32;
        self.reset_xmit_timer(Pending::Retransmit, timeout, cx.now);
    }

    /// The ACK of the SYN-ACK is here: nothing is special any more
    /// (`tcp_rcv_synrecv_state_fastopen`).
    pub(super) fn fast_open_accomplished(&mut self, cx: &mut Cx<'_>) {
        let Some(request) = self.rare().fast_open.request.take() else { return };
        self.rate.delivered += 1;
        if request.timeouts == 0 && self.rtt.srtt_us_8 == 0 {
            let rtt_us = cx.now_us().saturating_sub(request.sent_us) as u32;
            self.take_handshake_rtt(rtt_us, cx.now);
        }
        if self.window.ca_state == CaState::Loss && self.rec.packets_out == 0 {
            self.try_undo_handshake_loss(cx);
        }
        self.rec.retrans_stamp = 0;
        self.end_timeouts(cx.now);
        self.rearm_rto(cx.now);
    }

    /// Writes the option of a SYN or SYN-ACK, if it is to have one; gives its length.
    pub(super) fn fast_open_option(&self, out: &mut [u8; 20]) -> usize {
        let option = self.rare.as_ref().and_then(|rare| rare.fast_open.option);
        option.map_or(0, |cookie| cookie.write(out))
    }
}
