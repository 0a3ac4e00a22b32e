//! Building segments: headers, options, window; ACKs, resets, probes (`__tcp_transmit_skb`).

use super::config::PmtuDiscovery;
use super::options::MAX_OPTION_SPACE;
use super::rate::Flight;
use super::skb::{Skb, SkbId};
use super::state::State;
use super::{Connection, Cx, XmitResult};
use crate::packet::seq::Seq;
use crate::packet::{
    AccEcnOption, Body, DEFAULT_TTL, Ecn, GsoType, Ipv4, Ipv6, LinkHeader, Memory, Meta, Network,
    Packet, SackList, Tcp, TcpFlags, TcpOptions, Transport,
};
use crate::reason::Enqueue;
use crate::units::Instant;
use core::net::IpAddr;
use core::num::NonZeroU8;

/// Protocol number of TCP.
const IPPROTO_TCP: u8 = 6;

/// Whether a record has been sent before.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sending {
    First,
    Again,
}

impl Connection {
    /// Sends the record `id` for the first time (`tcp_transmit_skb` with a clone).
    pub(super) fn transmit_skb(&mut self, id: SkbId, cx: &mut Cx<'_>) -> Enqueue {
        self.transmit_record(id, Sending::First, cx)
    }

    /// Sends it again. Its numbers have been sent before, so it is none of the segments that the host counts as sent
    /// (`__tcp_transmit_skb`).
    #[inline(never)]
    pub(super) fn transmit_again(&mut self, id: SkbId, cx: &mut Cx<'_>) -> Enqueue {
        self.transmit_record(id, Sending::Again, cx)
    }

    #[expect(
        clippy::inline_always,
        reason = "of one text two functions: what is sent for the first time asks nothing about it"
    )]
    #[inline(always)]
    fn transmit_record(&mut self, id: SkbId, sending: Sending, cx: &mut Cx<'_>) -> Enqueue {
        // The clock is not read for an ICMP error: what is sent for it seems to be sent at the latest event.
        let now = if self.ack.unclocked { self.ack.clock } else { cx.now };
        let prior_wstamp_ns = self.snd.wstamp_ns;
        let skb = self.stamp_record(id, now);
        let mut flags = self.flags_to_send(&skb);
        let is_syn = flags.contains(TcpFlags::SYN);
        // Of what the listener answers the connection knows nothing.
        let of_listener = is_syn
            && flags.contains(TcpFlags::ACK)
            && self.state == State::SynRecv
            && !self.crosses();
        let new_data = !skb.is_empty() && !skb.seq.before(self.snd.nxt);
        let ecn = if is_syn { self.syn_ecn() } else { self.ecn_send(new_data, &mut flags) };
        let options = if is_syn {
            self.advertise_mss();
            self.syn_options(cx, flags)
        } else {
            // Stamped with the time at which it is to leave (`tcp_established_options`).
            self.options(Instant::from_nanos(skb.sent_ns))
        };
        let segs = segments_of(&skb);
        if !skb.is_empty() {
            self.count_data_sent(segs, skb.len(), cx);
        }
        if flags.contains(TcpFlags::ACK) {
            self.ack_was_sent(cx);
        }
        self.count_segs_out(if of_listener { 0 } else { segs });
        // A listener counts all of its answers (`tcp_make_synack`).
        if sending == Sending::First || of_listener {
            cx.mib.out_segs += u64::from(segs);
        }
        let window = if is_syn { self.syn_window() } else { self.select_window(cx) };
        let tcp = self.header(skb.seq, flags, window, options);
        let meta = self.meta_of(&skb, now);
        let body = self.body_of(skb.seq, skb.len());
        // Here, and not where a function would return it: a packet is too wide to be moved.
        let mut packet = self.packet(tcp, body, ecn, meta);
        if segs > 1 && self.is_accurate() {
            // The ACE field is the same on every segment.
            packet.gso_type = GsoType::ACC_ECN;
        }
        packet.memory = if skb.is_empty() { Memory::Linear } else { Memory::Paged };
        let result = cx.egress.transmit(cx.now, &mut packet);
        self.handed_down(id, &skb, result, cx);
        if result.verdict != Enqueue::Dropped && !of_listener {
            self.pace_after(skb.len(), prior_wstamp_ns);
            self.note_rate_sent(id);
        }
        result.verdict
    }

    /// Notes when a record leaves; gives it as it is sent.
    #[inline]
    fn stamp_record(&mut self, id: SkbId, now: Instant) -> Skb {
        self.snd.wstamp_ns = self.snd.wstamp_ns.max(now.as_nanos());
        let skb = self.queue.get_mut(id);
        skb.sent_ns = self.snd.wstamp_ns;
        *skb
    }

    /// The flags of a record, and what goes along with them.
    #[inline]
    fn flags_to_send(&mut self, skb: &Skb) -> TcpFlags {
        let mut flags = skb.flags;
        if skb.pcount > 1 && self.config.profile.push_on_super_packets {
            flags |= TcpFlags::PSH;
        }
        if flags.contains(TcpFlags::SYN | TcpFlags::ACK) && self.is_accurate() {
            flags = self.accurate_syn_ack(flags);
        }
        flags
    }

    /// What goes with the packet of a record that is sent at `now`.
    #[inline]
    fn meta_of(&self, skb: &Skb, now: Instant) -> Meta {
        let delay_ns = skb.sent_ns - now.as_nanos() + self.tx_delay_ns();
        Meta {
            gso_size: if skb.pcount > 1 { skb.gso_size } else { 0 },
            gso_segs: segments_of(skb) as u16,
            departs_in_ns: u32::try_from(delay_ns).unwrap_or(u32::MAX),
            truesize: skb.truesize,
            owner: self.id,
            ..self.meta()
        }
    }

    /// What follows from how the queue below took a record.
    #[inline]
    fn handed_down(&mut self, id: SkbId, skb: &Skb, result: XmitResult, cx: &mut Cx<'_>) {
        let XmitResult { verdict, orphaned, cut_extra, no_route, paced } = result;
        self.snd.paced_by_fq |= paced;
        if !orphaned {
            self.charge_below(skb.truesize + cut_extra);
        }
        self.queue.get_mut(id).handed_down = self.snd.handed_down;
        if self.wants_stamps() {
            self.stamp_sent(skb.end_seq, cx);
        }
        if verdict != Enqueue::Queued && !no_route {
            self.enter_cwr(cx);
        }
    }

    /// So much memory lies below the socket besides, until the device is done with it.
    #[inline]
    fn charge_below(&mut self, truesize: u32) {
        self.snd.wmem_alloc += truesize;
        self.snd.handed_down = self.snd.handed_down.wrapping_add(truesize);
    }

    /// Counts data that is sent now, in so many segments (`tcp_event_data_sent`).
    #[inline]
    fn count_data_sent(&mut self, segs: u32, len: u32, cx: &mut Cx<'_>) {
        self.data_sent(cx);
        self.totals.data_segs_out = self.totals.data_segs_out.wrapping_add(segs);
        self.totals.bytes_sent += u64::from(len);
    }

    /// Counts segments of the connection.
    #[inline]
    fn count_segs_out(&mut self, segs: u32) {
        self.totals.segs_out = self.totals.segs_out.wrapping_add(segs);
    }

    /// What the delivery rate is to be computed from (`tcp_rate_skb_sent`).
    #[inline]
    fn note_rate_sent(&mut self, id: SkbId) {
        let flight = self.flight_before();
        let app_limited = self.window.app_limited.is_some();
        let skb = self.queue.get_mut(id);
        self.rate.skb_sent(skb, skb.sent_us(), flight, app_limited);
    }

    /// What is in the network before a record joins it.
    fn flight_before(&self) -> Flight {
        let before = (self.rec.packets_out > 0).then(|| self.packets_in_flight());
        Flight { before, lost: self.totals.lost }
    }

    /// Sends a SYN with the data of another record (`tcp_send_syn_data`).
    pub(super) fn transmit_syn_data(&mut self, syn: SkbId, data: SkbId, cx: &mut Cx<'_>) {
        let now_ns = cx.now.as_nanos();
        self.snd.wstamp_ns = self.snd.wstamp_ns.max(now_ns);
        let flags = self.queue.get(syn).flags;
        let len = self.queue.get(data).len();
        let options = self.syn_options(cx, flags);
        self.count_data_sent(1, len, cx);
        self.count_segs_out(1);
        cx.mib.out_segs += 1;
        let ecn = self.syn_ecn();
        let tcp = self.header(self.snd.iss, flags, self.syn_window(), options);
        let truesize = self.queue.get(data).truesize;
        let meta = Meta { gso_segs: 1, truesize, owner: self.id, ..self.meta() };
        let from = self.queue.get(data).seq;
        let body = self.body_of(from, len);
        let mut packet = self.packet(tcp, body, ecn, meta);
        let XmitResult { orphaned, .. } = cx.egress.transmit(cx.now, &mut packet);
        if !orphaned {
            self.charge_below(truesize);
        }
        for id in [syn, data] {
            let flight = Flight { before: (id != syn).then_some(1), lost: self.totals.lost };
            let skb = self.queue.get_mut(id);
            skb.sent_ns = self.snd.wstamp_ns;
            skb.handed_down = self.snd.handed_down;
            self.rate.skb_sent(skb, skb.sent_us(), flight, self.window.app_limited.is_some());
        }
        if self.wants_stamps() {
            let end = self.queue.get(data).end_seq;
            self.stamp_sent(end, cx);
        }
    }

    /// Sends an ACK without data (`tcp_send_ack`).
    pub(super) fn send_ack(&mut self, cx: &mut Cx<'_>) {
        if self.state == State::Close {
            return;
        }
        self.send_control(TcpFlags::ACK, cx.now, cx);
    }

    /// Sends the ACK of a handshake, which reports to an AccECN peer the codepoint of its SYN-ACK.
    pub(super) fn send_reflecting_ack(&mut self, ecn: Ecn, cx: &mut Cx<'_>) {
        self.ecn.acc.reflect = Some(ecn);
        self.send_ack(cx);
        self.ecn.acc.reflect = None;
    }

    /// The same with the time of the latest event in its timestamp, for a timer that does not look at the
    /// clock (`tcp_compressed_ack_kick`).
    pub(super) fn send_unclocked_ack(&mut self, cx: &mut Cx<'_>) {
        self.send_control(TcpFlags::ACK, self.ack.clock, cx);
    }

    /// Sends a reset for an established connection (`tcp_send_active_reset`).
    pub(super) fn send_reset(&mut self, cx: &mut Cx<'_>) {
        cx.mib.out_rsts += 1;
        self.send_control(TcpFlags::ACK | TcpFlags::RST, cx.now, cx);
    }

    /// A probe: one byte below the window, so that the peer must answer, or at the window, where the urgent pointer goes
    /// along (`tcp_xmit_probe_skb`).
    pub(super) fn send_probe_ack(&mut self, seq: Seq, cx: &mut Cx<'_>) {
        let options = self.control_options(cx.now);
        let window = self.select_window(cx);
        let flags = TcpFlags::ACK | self.ecn_echo();
        let tcp = self.header(seq, flags, window, options);
        self.control_out(tcp, cx);
    }

    /// Sends an ACK for what had arrived before `ack` and nothing newer (`__tcp_send_ack` by
    /// DCTCP). What is owed for the newer data stays owed; only the window goes along.
    pub(super) fn send_ack_up_to(&mut self, ack: Seq, cx: &mut Cx<'_>) {
        let flags = TcpFlags::ACK | self.ecn_echo();
        let options = self.control_options(cx.now);
        self.compressed_acks_sent(cx);
        let window = self.select_window(cx);
        let tcp = Tcp { ack, ..self.header(self.acceptable_seq(), flags, window, options) };
        self.control_out(tcp, cx);
    }

    /// Options of what is sent now without data, stamped with the time at which it may leave: not before that of
    /// the data before it (`tcp_wstamp_ns`).
    fn control_options(&mut self, now: Instant) -> TcpOptions {
        self.snd.wstamp_ns = self.snd.wstamp_ns.max(now.as_nanos());
        self.options(Instant::from_nanos(self.snd.wstamp_ns))
    }

    #[inline(never)]
    fn send_control(&mut self, flags: TcpFlags, stamp: Instant, cx: &mut Cx<'_>) {
        let flags = flags | self.ecn_echo();
        let options = self.control_options(stamp);
        self.ack_was_sent(cx);
        let window = self.select_window(cx);
        let seq = self.acceptable_seq();
        let tcp = self.header(seq, flags, window, options);
        self.control_out(tcp, cx);
    }

    /// Sends a header without payload and without an owner.
    pub(super) fn control_out(&mut self, tcp: Tcp, cx: &mut Cx<'_>) {
        self.totals.segs_out = self.totals.segs_out.wrapping_add(1);
        self.control_out_of_listener(tcp, cx);
    }

    /// The same of a segment that is the listener's, and not the connection's.
    pub(super) fn control_out_of_listener(&mut self, tcp: Tcp, cx: &mut Cx<'_>) {
        let ecn = self.ecn_of_control();
        let mut packet = self.control_packet(tcp, ecn, cx);
        let XmitResult { paced, .. } = cx.egress.transmit(cx.now, &mut packet);
        self.snd.paced_by_fq |= paced;
    }

    /// A packet without data, counted as sent by the host.
    pub(super) fn control_packet(&mut self, tcp: Tcp, ecn: Ecn, cx: &mut Cx<'_>) -> Packet {
        cx.mib.out_segs += 1;
        let ahead_ns = self.snd.wstamp_ns.saturating_sub(cx.now.as_nanos()) + self.tx_delay_ns();
        let departs_in_ns = u32::try_from(ahead_ns).unwrap_or(u32::MAX);
        // In fq it waits with the data of its socket, which it takes no memory of; elsewhere nobody asks.
        let in_fq = self.snd.paced_by_fq || departs_in_ns > 0;
        let owner = if in_fq { self.id } else { Meta::NO_OWNER };
        let meta = Meta { owner, gso_segs: 1, departs_in_ns, ..self.meta() };
        self.packet(tcp, Body::default(), ecn, meta)
    }

    /// `tcp_acceptable_seq`: `snd_nxt`, unless the window was shrunk below it.
    fn acceptable_seq(&self) -> Seq {
        let end = self.wnd_end();
        let slack = 1u32 << self.opt.rcv_wscale;
        let barely_outside = self.opt.wscale_ok && self.snd.nxt.bytes_since(end) < slack;
        if !end.before(self.snd.nxt) || barely_outside { self.snd.nxt } else { end }
    }

    /// Options of a segment of an established connection (`tcp_established_options`), stamped with
    /// the time `stamp`.
    pub(super) fn options(&mut self, stamp: Instant) -> TcpOptions {
        let timestamps = self.ts_option(stamp);
        let mut used = if timestamps.is_some() { super::options::TIMESTAMPS_LEN } else { 0 };
        if self.md5_key().is_some() {
            used += super::md5::OPTION_LEN;
        }
        let mut sacks = self.sacks_that_fit(used);
        let mut acc_ecn = AccEcnOption::NONE;
        if self.is_accurate()
            && self.wants_option(stamp)
            && let Some((fields, kept)) = self.fit_option(MAX_OPTION_SPACE - used, sacks)
        {
            sacks = kept;
            acc_ecn = self.acc_ecn_option(fields);
            self.option_sent(self.rcv.dsack.is_some() && sacks > 0, stamp);
        }
        let sack = if sacks > 0 { self.rcv.sack_list(sacks) } else { SackList::EMPTY };
        let mut options = TcpOptions { timestamps, sack, ..TcpOptions::default() };
        if acc_ecn.is_present() {
            options.set_acc_ecn(acc_ecn);
        }
        options
    }

    /// SACK blocks to send beside `used` bytes of other options.
    fn sacks_that_fit(&self, used: u32) -> usize {
        if !self.rcv.has_sack_blocks() || used + 12 > MAX_OPTION_SPACE {
            return 0;
        }
        self.rcv.sack_count().min(((MAX_OPTION_SPACE - used - 4) / 8) as usize)
    }

    /// Payload of a full segment sent now: SACK blocks and Accurate ECN take their share
    /// (`tcp_current_mss`).
    #[inline]
    pub(super) fn current_mss(&self, now: Instant) -> u32 {
        if !self.is_accurate() && !self.rcv.has_sack_blocks() {
            return self.snd.mss;
        }
        self.mss_beside_options(now)
    }

    fn mss_beside_options(&self, now: Instant) -> u32 {
        let used = self.header_len() - super::options::TCP_HEADER_LEN;
        let mut sacks = self.sacks_that_fit(used);
        let mut extra = 0;
        if self.is_accurate()
            && self.wants_option(now)
            && let Some((fields, kept)) = self.fit_option(MAX_OPTION_SPACE - used, sacks)
        {
            sacks = kept;
            extra = AccEcnOption::padded_len(fields, kept);
        }
        if sacks > 0 {
            extra += 4 + 8 * sacks as u32;
        }
        self.snd.mss.saturating_sub(extra).max(1)
    }

    pub(super) fn header(
        &self,
        seq: Seq,
        flags: TcpFlags,
        window: u16,
        options: TcpOptions,
    ) -> Tcp {
        let pointer = self.urgent_pointer(seq, flags);
        let flags = if pointer.is_some() { flags | TcpFlags::URG } else { flags };
        Tcp {
            src_port: self.local.port,
            dst_port: self.remote.port,
            seq,
            ack: if flags.contains(TcpFlags::ACK) { self.rcv.nxt } else { Seq(0) },
            flags,
            window,
            urgent: pointer.unwrap_or(0),
            options,
        }
    }

    fn meta(&self) -> Meta {
        Meta {
            priority: self.config.priority,
            mark: self.config.mark,
            departs_in_ns: u32::try_from(self.tx_delay_ns()).unwrap_or(u32::MAX),
            ..Meta::default()
        }
    }

    /// How long `fq` holds every packet back besides its turn (`TCP_TX_DELAY`), ns. It counts as part
    /// of the round trip.
    fn tx_delay_ns(&self) -> u64 {
        let opening = matches!(self.state, State::SynSent | State::SynRecv);
        if !self.snd.paced_by_fq && !opening {
            return 0;
        }
        u64::from(self.config.socket.tx_delay_us) * 1_000
    }

    /// The packet of a header. Not in line, for the sake of the instruction cache.
    #[inline(never)]
    fn packet(&mut self, tcp: Tcp, body: Body, ecn: Ecn, meta: Meta) -> Packet {
        let segs = u32::from(meta.gso_segs);
        let network = self.network(ecn, segs as u16);
        let len = network.len() + 20 + tcp.options.len() + body.len;
        let hash = self.snd.txhash;
        let build = || Packet {
            link: LinkHeader::None,
            network,
            transport: Transport::Tcp(tcp),
            body,
            memory: Memory::Linear,
            gso_type: GsoType::NONE,
            meta: Meta { len, hash, ..meta },
            extra: None,
        };
        if self.rare.is_some() || !self.config.socket.md5.is_empty() {
            let mut packet = build();
            self.add_rare_options(&mut packet);
            return packet;
        }
        // Built where the caller wants it: a packet is too wide to be moved for nothing.
        build()
    }

    /// DF is set as long as the path MTU is to be discovered (`ip_dont_fragment`).
    fn dont_fragment(&self) -> bool {
        match self.config.socket.pmtu_discovery {
            PmtuDiscovery::Want => self.rare.as_ref().is_none_or(|rare| !rare.route.mtu_locked),
            PmtuDiscovery::Do | PmtuDiscovery::Probe => true,
            PmtuDiscovery::Dont | PmtuDiscovery::Interface | PmtuDiscovery::Omit => false,
        }
    }

    /// The network header towards the peer.
    fn network(&mut self, ecn: Ecn, segs: u16) -> Network {
        let id = self.ack.ip_id;
        self.ack.ip_id = id.wrapping_add(segs);
        match (self.local.ip, self.remote.ip) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => Network::Ipv4(Ipv4 {
                src,
                dst,
                tos: (self.config.tos & !3) | ecn as u8,
                ttl: self.config.socket.ttl.map_or(DEFAULT_TTL, NonZeroU8::get),
                protocol: IPPROTO_TCP,
                id,
                dont_fragment: self.dont_fragment(),
                more_fragments: false,
                fragment_offset: 0,
            }),
            (IpAddr::V6(src), IpAddr::V6(dst)) => Network::Ipv6(Ipv6 {
                src,
                dst,
                traffic_class: (self.config.traffic_class() & !3) | ecn as u8,
                hop_limit: self.config.socket.hop_limit.unwrap_or(DEFAULT_TTL),
                next_header: IPPROTO_TCP,
                flow_label: self.flow_label(),
            }),
            _ => unreachable!("both ends of a connection are of one address family"),
        }
    }
}

/// Segments of a record on the wire: a SYN or FIN alone is one, too.
#[inline]
fn segments_of(skb: &Skb) -> u32 {
    u32::from(skb.pcount.max(1))
}
