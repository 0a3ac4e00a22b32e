//! Which connection a packet or an event is of, and its numbers counted from its first byte.

use std::collections::HashMap;
use std::net::SocketAddr;

use datapath::packet::seq::Seq;
use datapath::packet::{Packet, Tcp, TcpFlags};
use datapath::trace::{Event, EventKind};

use super::TraceItem;

/// One end of a connection.
#[derive(Clone, Debug)]
pub struct Conn {
    /// The node that it is at.
    pub node: u32,
    /// Its own address and port.
    pub local: SocketAddr,
    /// The other end's.
    pub remote: SocketAddr,
    /// It sent the first SYN.
    pub opened: bool,
    /// The first byte that it sends.
    first_sent: Option<Seq>,
    /// The first byte that it receives.
    first_received: Option<Seq>,
}

/// The connections that have been seen. One that comes later between the same ends is another.
#[derive(Debug, Default)]
pub struct Conns {
    all: Vec<Conn>,
    by_ends: HashMap<(u32, SocketAddr, SocketAddr), usize>,
    by_socket: HashMap<(u32, u32), usize>,
}

/// A segment with numbers that count from the first bytes of its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// First payload byte.
    pub seq: i64,
    /// Bytes of payload.
    pub len: u32,
    /// Acknowledged up to here, if it has an ACK.
    pub ack: Option<i64>,
    /// Flags.
    pub flags: TcpFlags,
}

impl Segment {
    /// Just past its last payload byte.
    pub fn end(&self) -> i64 {
        self.seq + i64::from(self.len)
    }
}

impl Conn {
    /// A number of what this end sends, counted from its first byte.
    pub fn sent(&self, seq: Seq) -> i64 {
        relative(seq, self.first_sent)
    }

    /// A number of what this end receives.
    pub fn received(&self, seq: Seq) -> i64 {
        relative(seq, self.first_received)
    }

    /// A packet that this end sent, or that came to it.
    pub fn segment(&self, packet: &Packet, sent: bool) -> Option<Segment> {
        let tcp = packet.tcp()?;
        let (seq, ack) = if sent {
            (self.sent(tcp.seq), self.received(tcp.ack))
        } else {
            (self.received(tcp.seq), self.sent(tcp.ack))
        };
        // A SYN takes the number before the first byte.
        let seq = seq + i64::from(tcp.flags.contains(TcpFlags::SYN));
        let ack = tcp.flags.contains(TcpFlags::ACK).then_some(ack);
        Some(Segment { seq, len: packet.body.len, ack, flags: tcp.flags })
    }

    fn note_first_numbers(&mut self, tcp: &Tcp, sent: bool) {
        let first = if tcp.flags.contains(TcpFlags::SYN) { tcp.seq + 1 } else { tcp.seq };
        let place = if sent { &mut self.first_sent } else { &mut self.first_received };
        place.get_or_insert(first);
        if tcp.flags.contains(TcpFlags::ACK) {
            let place = if sent { &mut self.first_received } else { &mut self.first_sent };
            place.get_or_insert(tcp.ack);
        }
    }
}

/// Streams of more than 2³¹ bytes begin anew with negative numbers.
fn relative(seq: Seq, first: Option<Seq>) -> i64 {
    i64::from(seq.0.wrapping_sub(first.unwrap_or(seq).0) as i32)
}

impl Conns {
    /// The connection that this is of, if it is of one.
    pub fn of(&mut self, node: u32, seen: TraceItem<'_>) -> Option<usize> {
        match seen {
            TraceItem::Sent(packet) => self.of_packet(node, packet, true),
            TraceItem::Received(packet) => self.of_packet(node, packet, false),
            TraceItem::Event(event) => self.of_event(node, event),
        }
    }

    /// All of them, in the order in which they were first seen.
    pub fn all(&self) -> &[Conn] {
        &self.all
    }

    /// One of them.
    pub fn get(&self, index: usize) -> &Conn {
        &self.all[index]
    }

    /// The connection between these ends at another node.
    pub fn between(&self, node: u32, local: SocketAddr, remote: SocketAddr) -> Option<usize> {
        self.by_ends.get(&(node, local, remote)).copied()
    }

    fn of_packet(&mut self, node: u32, packet: &Packet, sent: bool) -> Option<usize> {
        let tcp = packet.tcp()?;
        let src = SocketAddr::new(packet.network.src()?, tcp.src_port);
        let dst = SocketAddr::new(packet.network.dst()?, tcp.dst_port);
        let (local, remote) = if sent { (src, dst) } else { (dst, src) };
        let opens = tcp.flags.contains(TcpFlags::SYN) && !tcp.flags.contains(TcpFlags::ACK);
        let known = self.between(node, local, remote).filter(|&index| {
            // A SYN with another number begins another connection.
            let conn = &self.all[index];
            let first = if sent { conn.first_sent } else { conn.first_received };
            !opens || first.is_none_or(|first| first == tcp.seq + 1)
        });
        let index = known.unwrap_or_else(|| self.add(node, local, remote));
        let conn = &mut self.all[index];
        conn.opened |= opens && sent;
        conn.note_first_numbers(tcp, sent);
        Some(index)
    }

    fn of_event(&mut self, node: u32, event: &Event) -> Option<usize> {
        let EventKind::Probe(probe) = &event.kind else {
            return self.by_socket.get(&(node, event.socket)).copied();
        };
        let plain = |end: SocketAddr| SocketAddr::new(end.ip().to_canonical(), end.port());
        let (local, remote) = (plain(probe.local), plain(probe.remote));
        let known = self.between(node, local, remote);
        let index = known.unwrap_or_else(|| self.add(node, local, remote));
        self.by_socket.insert((node, event.socket), index);
        Some(index)
    }

    fn add(&mut self, node: u32, local: SocketAddr, remote: SocketAddr) -> usize {
        let index = self.all.len();
        let (first_sent, first_received) = (None, None);
        self.all.push(Conn { node, local, remote, opened: false, first_sent, first_received });
        self.by_ends.insert((node, local, remote), index);
        index
    }
}
