//! What the two ends agree on: options, window and its scale, segment size (`tcp_syn_options`,
//! `tcp_select_initial_window`, `tcp_sync_mss`).

use crate::packet::{Tcp, TcpFlags, TcpOptions, Timestamps};
use crate::tcp::options::{MAX_WSCALE, MSS_DEFAULT, Negotiated, TCP_HEADER_LEN, TIMESTAMPS_LEN};
use crate::tcp::state::State;
use crate::tcp::{Connection, Cx};
use core::num::NonZeroU32;

impl Connection {
    /// Window and scale to offer in the handshake; `may_scale`: the peer has not said that it cannot (`tcp_select_initial_window`).
    pub(super) fn choose_initial_window(&mut self, mss: u32, may_scale: bool) {
        let route = self.route_metrics();
        let sysctl = &self.config.sysctl;
        let full = self.full_space();
        let own = self.config.socket.window_clamp.or(route.window).map(NonZeroU32::get);
        let clamp = match (own, self.config.rcvbuf_is_locked()) {
            (Some(own), false) => own,
            (Some(own), true) => own.min(full),
            (None, true) => full,
            (None, false) => u32::from(u16::MAX) << MAX_WSCALE,
        };
        let mut space = full.min(clamp);
        if space > mss {
            space = space / mss * mss;
        }
        self.rcv.wnd = space;
        if self.config.profile.initial_window_64k {
            self.rcv.wnd = space.min(u16::MAX.into());
        }
        if let Some(segments) = route.initrwnd {
            self.rcv.wnd = self.rcv.wnd.min(segments.get().saturating_mul(mss));
        }
        self.opt.rcv_wscale = 0;
        if sysctl.tcp_window_scaling != 0 && may_scale {
            let largest =
                space.max(sysctl.tcp_rmem[2]).max(self.config.profile.rmem_max).min(clamp);
            let scale = largest.max(1).ilog2().saturating_sub(15);
            self.opt.rcv_wscale = scale.min(MAX_WSCALE.into()) as u8;
        }
        let representable = u32::from(u16::MAX) << self.opt.rcv_wscale;
        self.rcv.window_clamp = clamp.min(representable);
        self.rcv.ssthresh = self.rcv.wnd;
    }

    /// The window field of a SYN or SYN-ACK is never scaled (RFC 7323 section 2.2).
    pub(in crate::tcp) fn syn_window(&self) -> u16 {
        self.rcv.wnd.min(u16::MAX.into()) as u16
    }

    /// Options of a SYN or SYN-ACK (`tcp_syn_options`, `tcp_synack_options`).
    pub(in crate::tcp) fn syn_options(&self, cx: &Cx<'_>, flags: TcpFlags) -> TcpOptions {
        let sysctl = &self.config.sysctl;
        // SYNs that cross: the SYN-ACK repeats what the SYN offered.
        let crossing = self.rare.as_ref().and_then(|rare| rare.crossing_scale);
        let is_answer = flags.contains(TcpFlags::ACK) && crossing.is_none();
        let (timestamps, sack, scale) = if is_answer {
            (self.opt.timestamps, self.opt.sack_ok, self.opt.wscale_ok)
        } else {
            // Nobody who signs offers timestamps (`tcp_syn_options`).
            let timestamps = sysctl.tcp_timestamps != 0 && self.md5_key().is_none();
            (timestamps, sysctl.tcp_sack != 0, sysctl.tcp_window_scaling != 0)
        };
        // The MSS option speaks of segments without options (RFC 6691).
        let counted = is_answer && self.opt.timestamps;
        let mss = self.opt.advmss + if counted { TIMESTAMPS_LEN } else { 0 };
        let own_scale = crossing.unwrap_or(self.opt.rcv_wscale);
        let mut options = TcpOptions {
            mss: mss as u16,
            window_scale_plus_one: if scale { own_scale + 1 } else { 0 },
            sack_permitted: sack,
            timestamps: timestamps.then(|| Timestamps {
                value: self.ts_now(cx.now),
                // Of a SYN it is what a connection in TIME-WAIT has left, if it takes over one.
                echo: self.opt.ts_recent,
            }),
            ..TcpOptions::default()
        };
        if flags.contains(TcpFlags::ACK) && self.is_accurate() {
            self.add_syn_ack_option(&mut options);
        }
        options
    }

    /// Takes over what the peer's SYN offers.
    pub(super) fn learn_peer_options(&mut self, tcp: &Tcp, cx: &Cx<'_>) {
        let advmss = self.opt.advmss;
        let offset = self.opt.ts_offset;
        let options = &tcp.options;
        self.opt = Negotiated::agree(&self.config, options, self.opt.rcv_wscale, advmss);
        self.opt.ts_offset = offset;
        if let Some(ts) = options.timestamps.filter(|_| self.opt.timestamps) {
            self.store_ts_recent(ts.value, cx.now);
        }
        // Our own limit cuts what the peer says, not what is assumed where it says nothing (`tcp_parse_options`).
        let own = self.config.max_segment.map_or(u32::MAX, |own| own.get().into());
        self.snd.mss_clamp = match (options.mss, self.state) {
            // Who began with Fast Open keeps the size that its data went by (`tcp_send_syn_data`).
            (0, State::SynSent) => self.snd.mss_clamp,
            (0, _) => self.unknown_mss(),
            (mss, _) => u32::from(mss).max(48).min(own),
        };
        self.sync_mss();
    }

    /// Segment size of a peer that tells none.
    fn unknown_mss(&self) -> u32 {
        if self.local.ip.is_ipv4() { MSS_DEFAULT } else { MSS_DEFAULT_V6 }
    }

    /// The same before it has answered: whoever connects begins with its own (`tcp_connect_init`).
    pub(super) fn mss_clamp_of_syn(&self) -> u32 {
        self.config.max_segment.map_or_else(|| self.unknown_mss(), |own| own.get().into())
    }

    /// A SYN tells of no larger segments than the path takes by now (`tcp_advertise_mss`).
    pub(in crate::tcp) fn advertise_mss(&mut self) {
        if self.state == State::SynSent {
            let headers = self.network_header_len() + TCP_HEADER_LEN;
            let largest = self.snd.pmtu.saturating_sub(headers).max(ADVMSS_MIN);
            self.opt.advmss = self.opt.advmss.min(largest);
        }
    }

    /// Payload of a full segment, from peer's MSS and path MTU (`tcp_sync_mss`).
    pub(in crate::tcp) fn sync_mss(&mut self) {
        let mss = self.bound_to_half_window(self.mss_of_mtu(self.snd.pmtu));
        self.snd.mss = mss.min(self.probed_mss());
    }

    /// Segment size that fits in packets of `mtu` bytes (`tcp_mtu_to_mss`).
    pub(in crate::tcp) fn mss_of_mtu(&self, mtu: u32) -> u32 {
        self.mss_within(mtu, self.snd.mss_clamp, self.header_len() - TCP_HEADER_LEN)
    }

    /// The same where the peer takes up to `clamp`, and so many bytes of options go with each.
    pub(super) fn mss_within(&self, mtu: u32, clamp: u32, options: u32) -> u32 {
        let by_path = mtu.saturating_sub(self.network_header_len() + TCP_HEADER_LEN);
        let lowest = self.config.sysctl.tcp_min_snd_mss;
        // The lowest size counts before the options (`__tcp_mtu_to_mss`): a path of that size and
        // the headers takes the segment.
        by_path.min(clamp).max(lowest).saturating_sub(options).max(1)
    }

    /// A segment is at most half of the largest window that the peer ever offered
    /// (`tcp_bound_to_half_wnd`).
    pub(super) fn bound_to_half_window(&self, mss: u32) -> u32 {
        let window = self.snd.max_window;
        let cutoff = if window > MSS_DEFAULT { window >> 1 } else { window };
        if cutoff > 0 && mss > cutoff { cutoff.max(68 - self.header_len().min(68)) } else { mss }
    }
}

/// Lowest MSS that is advertised for a narrow path (`ip_rt_min_advmss`).
const ADVMSS_MIN: u32 = 256;

/// IPv6's assumption (`IPV6_MIN_MTU` less headers).
const MSS_DEFAULT_V6: u32 = 1_220;
