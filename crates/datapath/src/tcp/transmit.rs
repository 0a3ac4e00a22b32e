//! Building segments: headers, options, window; ACKs, resets, probes (`__tcp_transmit_skb`).

use super::skb::SkbId;
use super::{Connection, Cx, Handed};
use crate::packet::{
    Body, Ecn, Ipv4, Ipv6, Link, Memory, Meta, Network, Packet, SackList, Tcp, TcpFlags,
    TcpOptions, Transport,
};
use crate::qdisc::Enqueue;
use crate::units::Instant;
use core::net::SocketAddr;

/// `IPDEFTTL`.
const DEFAULT_TTL: u8 = 64;
/// Protocol number of TCP.
const IPPROTO_TCP: u8 = 6;
/// `MAX_TCP_OPTION_SPACE`.
const MAX_OPTION_SPACE: u32 = 40;

impl Connection {
    /// Sends the record `id`, first or again (`tcp_transmit_skb` with a clone).
    pub(super) fn transmit_skb(&mut self, id: SkbId, cx: &mut Cx<'_>) -> Enqueue {
        let now_ns = cx.now.as_nanos();
        let prior_wstamp_ns = self.snd.wstamp_ns;
        self.snd.wstamp_ns = prior_wstamp_ns.max(now_ns);
        let skb = self.queue.get_mut(id);
        skb.sent_ns = self.snd.wstamp_ns;
        let skb = *skb;
        let len = skb.len();
        let segs = u32::from(skb.pcount.max(1));
        let mut flags = skb.flags;
        if segs > 1 && self.config.profile.push_on_super_packets {
            flags |= TcpFlags::PSH;
        }
        let is_syn = flags.contains(TcpFlags::SYN);
        let new_data = len > 0 && !skb.seq.before(self.snd.nxt);
        let ecn = if is_syn { self.syn_ecn() } else { self.ecn_send(new_data, &mut flags) };
        let options = if is_syn { self.syn_options(cx, flags) } else { self.options(cx.now) };
        if len > 0 {
            self.data_sent(cx);
            self.totals.data_segs_out += segs;
            self.totals.bytes_sent += u64::from(len);
        }
        if flags.contains(TcpFlags::ACK) {
            self.ack_was_sent(segs, cx);
        }
        self.totals.segs_out += segs;
        cx.mib.out_segs += u64::from(segs);
        let window = if is_syn { self.syn_window() } else { self.select_window(cx) };
        let tcp = self.header(skb.seq, flags, window, options);
        let meta = Meta {
            gso_size: if segs > 1 { skb.gso_size } else { 0 },
            gso_segs: segs as u16,
            memory: if len > 0 { Memory::Paged } else { Memory::Linear },
            truesize: skb.truesize,
            owner: self.id,
            ..self.meta()
        };
        let packet_len = len + 40 + tcp.options.len();
        let packet = self.packet(tcp, len, ecn, meta);
        let Handed { verdict, orphaned } = cx.egress.transmit(cx.now, packet);
        if !orphaned {
            self.snd.wmem_alloc += skb.truesize;
            self.snd.handed_down = self.snd.handed_down.wrapping_add(skb.truesize);
        }
        self.queue.get_mut(id).handed_down = self.snd.handed_down;
        if verdict != Enqueue::Queued {
            self.enter_cwr(cx);
        }
        if verdict != Enqueue::Dropped {
            self.pace_after(packet_len, prior_wstamp_ns);
            let nothing_in_flight = self.rec.packets_out == 0;
            let skb = self.queue.get_mut(id);
            self.rate.skb_sent(skb, skb.sent_ns / 1_000, nothing_in_flight);
        }
        verdict
    }

    /// Sends an ACK without data (`tcp_send_ack`).
    pub(super) fn send_ack(&mut self, cx: &mut Cx<'_>) {
        if self.state == super::state::State::Close {
            return;
        }
        self.send_control(TcpFlags::ACK, cx.now, cx);
    }

    /// The same from the compression timer, which does not look at the clock: the timestamp is that
    /// of the latest event (`tcp_compressed_ack_kick`).
    pub(super) fn send_unclocked_ack(&mut self, cx: &mut Cx<'_>) {
        self.send_control(TcpFlags::ACK, self.ack.clock, cx);
    }

    /// Sends a reset for an established connection (`tcp_send_active_reset`).
    pub(super) fn send_reset(&mut self, cx: &mut Cx<'_>) {
        cx.mib.out_rsts += 1;
        self.send_control(TcpFlags::ACK | TcpFlags::RST, cx.now, cx);
    }

    /// A probe: one byte below the window, so that the peer must answer (`tcp_xmit_probe_skb`).
    pub(super) fn send_probe_ack(&mut self, cx: &mut Cx<'_>) {
        let options = self.options(cx.now);
        let window = self.select_window(cx);
        let tcp = self.header(self.snd.una - 1, TcpFlags::ACK, window, options);
        self.control_out(tcp, cx);
    }

    /// Sends an ACK for what had arrived before `ack` and nothing newer (`__tcp_send_ack` by
    /// DCTCP). What is owed for the newer data stays owed; only the window goes along.
    pub(super) fn send_ack_up_to(&mut self, ack: super::seq::Seq, cx: &mut Cx<'_>) {
        let flags = TcpFlags::ACK | self.ecn_echo();
        let options = self.options(cx.now);
        self.compressed_acks_sent(cx);
        let window = self.select_window(cx);
        let tcp = Tcp { ack, ..self.header(self.acceptable_seq(), flags, window, options) };
        self.control_out(tcp, cx);
    }

    fn send_control(&mut self, flags: TcpFlags, stamp: Instant, cx: &mut Cx<'_>) {
        let flags = flags | self.ecn_echo();
        let options = self.options(stamp);
        self.ack_was_sent(1, cx);
        let window = self.select_window(cx);
        let seq = self.acceptable_seq();
        let tcp = self.header(seq, flags, window, options);
        self.control_out(tcp, cx);
    }

    /// Sends a header without payload and without an owner.
    pub(super) fn control_out(&mut self, tcp: Tcp, cx: &mut Cx<'_>) {
        self.totals.segs_out += 1;
        cx.mib.out_segs += 1;
        let ecn = self.ecn_of_control();
        let meta = Meta { owner: Meta::NO_OWNER, gso_segs: 1, ..self.meta() };
        cx.egress.transmit(cx.now, self.packet(tcp, 0, ecn, meta));
    }

    /// `tcp_acceptable_seq`: `snd_nxt`, unless the window was shrunk below it.
    fn acceptable_seq(&self) -> super::seq::Seq {
        let end = self.wnd_end();
        let slack = 1u32 << self.opt.rcv_wscale;
        let barely_outside = self.opt.wscale_ok && self.snd.nxt.bytes_since(end) < slack;
        if !end.before(self.snd.nxt) || barely_outside { self.snd.nxt } else { end }
    }

    /// Options of a segment of an established connection (`tcp_established_options`), stamped with
    /// the time `stamp`.
    fn options(&mut self, stamp: Instant) -> TcpOptions {
        let timestamps = self.ts_option(stamp);
        let used = if timestamps.is_some() { super::options::TIMESTAMPS_LEN } else { 0 };
        let sack = if self.rcv.has_sack_blocks() {
            let room = (MAX_OPTION_SPACE - used - 4) / 8;
            self.rcv.sack_list(room as usize)
        } else {
            SackList::EMPTY
        };
        TcpOptions { timestamps, sack, ..TcpOptions::default() }
    }

    pub(super) fn header(
        &self,
        seq: super::seq::Seq,
        flags: TcpFlags,
        window: u16,
        options: TcpOptions,
    ) -> Tcp {
        Tcp {
            src_port: self.local.port(),
            dst_port: self.remote.port(),
            seq,
            ack: if flags.contains(TcpFlags::ACK) { self.rcv.nxt } else { super::seq::Seq(0) },
            flags,
            window,
            urgent: 0,
            options,
        }
    }

    fn meta(&self) -> Meta {
        Meta { priority: self.config.priority, mark: self.config.mark, ..Meta::default() }
    }

    fn packet(&mut self, tcp: Tcp, payload: u32, ecn: Ecn, meta: Meta) -> Packet {
        let segs = u32::from(meta.gso_segs.max(1));
        let network = self.network(ecn, segs as u16);
        let len = network.len() + 20 + tcp.options.len() + payload;
        Packet {
            link: Link::None,
            network,
            transport: Transport::Tcp(tcp),
            body: Body { store: 0, offset: 0, len: payload },
            meta: Meta { len, ..meta },
            extra: None,
        }
    }

    /// The network header towards the peer. DF is set: path MTU discovery is on.
    fn network(&mut self, ecn: Ecn, segs: u16) -> Network {
        let tos = (self.config.tos & !3) | ecn as u8;
        let id = self.ack.ip_id;
        self.ack.ip_id = id.wrapping_add(segs);
        match (self.local, self.remote) {
            (SocketAddr::V4(local), SocketAddr::V4(remote)) => Network::Ipv4(Ipv4 {
                src: *local.ip(),
                dst: *remote.ip(),
                tos,
                ttl: DEFAULT_TTL,
                protocol: IPPROTO_TCP,
                id,
                dont_fragment: true,
                more_fragments: false,
                fragment_offset: 0,
            }),
            (SocketAddr::V6(local), SocketAddr::V6(remote)) => Network::Ipv6(Ipv6 {
                src: *local.ip(),
                dst: *remote.ip(),
                traffic_class: tos,
                hop_limit: DEFAULT_TTL,
                next_header: IPPROTO_TCP,
                flow_label: self.ack.flow_label,
            }),
            _ => unreachable!("both ends of a connection are of one address family"),
        }
    }
}
