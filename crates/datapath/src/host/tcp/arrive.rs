//! Arriving segments find their socket (`tcp_v4_rcv`, `__inet_lookup`); those of none are reset.

use super::table::ends_of;
use crate::host::Host;
use crate::packet::seq::Seq;
use crate::packet::{
    Body, DEFAULT_TTL, Ipv4, Ipv6, LinkHeader, Meta, Network, Packet, Tcp, TcpFlags, TcpOptions,
    Transport,
};
use crate::reason::Reason;
use crate::tcp::config::reflects;
use crate::tcp::{Connection, Ends};
use crate::units::Instant;

impl Host {
    /// A TCP segment for this host (`tcp_v4_rcv`). It is read where it lies.
    #[inline]
    pub(in crate::host) fn deliver_tcp(&mut self, now: Instant, place: &mut Packet) {
        match self.tcp_stack().connections.of_segment(place) {
            Some(id) => self.segment_for(now, id, place),
            None => self.segment_for_none(now, place),
        }
    }

    #[cold]
    fn segment_for_none(&mut self, now: Instant, place: &mut Packet) {
        let Some(ends) = ends_of(place) else { return };
        self.segment_for_listener(now, ends, None, place.take());
    }

    #[inline]
    fn segment_for(&mut self, now: Instant, id: u32, place: &mut Packet) {
        let opens = place.tcp().is_some_and(|tcp| tcp.flags.contains(TcpFlags::SYN));
        if !(opens && self.reopens(now, id, place)) {
            self.with_connection(now, id, |tcp, cx| tcp.segment_arrives(place, cx));
        }
    }

    /// A new incarnation may take over an old connection's addresses (RFC 6191). True: it did, and its SYN
    /// is with the listener.
    #[cold]
    fn reopens(&mut self, now: Instant, id: u32, place: &mut Packet) -> bool {
        let iss @ Some(_) = self.connection_at(id).and_then(|tcp| tcp.yields_to(place, now)) else {
            return false;
        };
        let Some(ends) = ends_of(place) else { return false };
        let listens = self.listener_for(ends.local).is_some();
        if listens {
            self.unhash(id, ends);
            self.with_connection(now, id, Connection::retire);
            self.segment_for_listener(now, ends, iss, place.take());
        }
        listens
    }

    /// No connection: perhaps a listener (`tcp_v4_rcv`, `tcp_conn_request`). `iss`: the number that
    /// a connection has to begin with that was in TIME-WAIT.
    fn segment_for_listener(&mut self, now: Instant, ends: Ends, iss: Option<Seq>, packet: Packet) {
        let listener = self.listener_for(ends.local);
        let flags = packet.tcp().map_or(TcpFlags::RST, |tcp| tcp.flags);
        self.tcp_stack().mib.in_segs += u64::from(packet.segments());
        if let Some(listener) = listener
            && self.segment_at_listener(now, listener, ends, iss, &packet)
        {
            return;
        }
        if !flags.contains(TcpFlags::RST) {
            let reflects = listener.and_then(|id| self.listener_at(id));
            let reflects = reflects.is_some_and(|state| state.config().socket.reflects_flow_label);
            self.send_reset_for(now, &packet, reflects);
        }
        self.drop_packet(Reason::NoSocket, packet);
    }

    /// RFC 9293 section 3.10.7.1: a segment that belongs nowhere is reset. `reflects`: by a listener that gives flow
    /// labels back.
    fn send_reset_for(&mut self, now: Instant, packet: &Packet, reflects: bool) {
        let Some(tcp) = packet.tcp() else { return };
        let mut network = reply_to(packet.network);
        if let Network::Ipv6(asked) = packet.network {
            let reflected = u32::from(reflects) | self.flow_labels_reflected() & reflects::RESETS;
            let ports = [tcp.dst_port, tcp.src_port];
            self.label_answer(&mut network, ports, asked.flow_label, reflected);
        }
        let control = u32::from(tcp.flags.contains(TcpFlags::SYN))
            + u32::from(tcp.flags.contains(TcpFlags::FIN));
        let (seq, ack, flags) = if tcp.flags.contains(TcpFlags::ACK) {
            (tcp.ack, Seq(0), TcpFlags::RST)
        } else {
            let end = tcp.seq + packet.body.len + control;
            (Seq(0), end, TcpFlags::RST | TcpFlags::ACK)
        };
        let header = Tcp {
            src_port: tcp.dst_port,
            dst_port: tcp.src_port,
            seq,
            ack,
            flags,
            window: 0,
            urgent: 0,
            options: TcpOptions::default(),
        };
        let mib = &mut self.tcp_stack().mib;
        mib.out_segs += 1;
        mib.out_rsts += 1;
        let reset = Packet {
            link: LinkHeader::None,
            network,
            transport: Transport::Tcp(header),
            body: Body::default(),
            meta: Meta { owner: Meta::NO_OWNER, ..Meta::default() },
            ..Packet::default()
        };
        self.ip_output(now, reset.finish());
    }
}

/// The network header of an answer: ends exchanged, a fresh TTL, the same DSCP (`tcp_v4_send_reset`), no ECN.
fn reply_to(network: Network) -> Network {
    match network {
        Network::Ipv4(ip) => Network::Ipv4(Ipv4 {
            src: ip.dst,
            dst: ip.src,
            tos: ip.tos & !3,
            ttl: DEFAULT_TTL,
            id: 0,
            dont_fragment: true,
            ..ip
        }),
        Network::Ipv6(ip) => Network::Ipv6(Ipv6 {
            src: ip.dst,
            dst: ip.src,
            traffic_class: ip.traffic_class & !3,
            hop_limit: DEFAULT_TTL,
            ..ip
        }),
        other @ Network::Other(_) => other,
    }
}
