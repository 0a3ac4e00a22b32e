//! What was put on links and what arrived: the observer that most oracles rely on. It knows sequence numbers,
//! acknowledgments and windows only from the wire.

use core::net::{IpAddr, SocketAddr};
use datapath::packet::{Flaws, FrameWatch, Network, Packet, Tcp, TcpFlags, Transport};
use datapath::reason::Reason;
use datapath::units::Instant;
use sim::link::{LinkId, NodeId};
use sim::record::{DropPlace, Observer};
use std::collections::{BTreeMap, BTreeSet};

use super::links::LinkModel;
use crate::case::Violation;

/// Segments that passed one point of the network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PassedSegments {
    /// Put on a link, or arrived at a node.
    pub entered: u64,
    /// Arrived at the far end of a link, or put on a link by a node.
    pub left: u64,
    /// Dropped, with a reason.
    pub dropped: u64,
}

/// One direction of a connection, from its sender to its receiver.
#[derive(Debug, Default)]
struct Stream {
    /// One for each first sequence number that the sender has used: old ones come back, and SYN
    /// cookies make several before one becomes a connection.
    lives: Vec<Incarnation>,
    /// TSvals that reached the receiver.
    timestamps: BTreeSet<u32>,
    /// Resets that reached the receiver.
    resets: u64,
    /// Segments that were dropped on their way.
    dropped: u64,
    /// When the sender's host tried to send the latest one.
    tried_at: Instant,
    /// When one reached the receiver last.
    heard_at: Instant,
    /// The sender counts on from before what the receiver has acknowledged, as though it had not sent it.
    has_forgotten: bool,
    /// When the latest one was dropped, but for those that were too large for the very first link.
    dropped_at: Instant,
    /// The window of the sender's latest SYN, which is never scaled, and its shift.
    syn_window: u64,
    shift: u32,
}

/// What was sent from one first sequence number on; positions count from it.
#[derive(Debug)]
struct Incarnation {
    isn: u32,
    /// What arrived, as ranges that do not touch.
    arrived: BTreeMap<u64, u64>,
    /// Where FIN was sent.
    fin: Option<u64>,
    /// The right edge of the window that the sender knows of.
    edge: u64,
    /// Up to where it has received acknowledgments.
    acked: u64,
    /// Where the receiver may have begun once more by a SYN cookie.
    begins: BTreeSet<u64>,
}

/// The owner of addresses that belong to no node.
const NOBODY: NodeId = NodeId(u32::MAX);
/// Positions beyond this belong to another life.
const FAR: u32 = 1 << 30;

impl Incarnation {
    fn new(isn: u32) -> Self {
        let (arrived, begins) = (BTreeMap::new(), BTreeSet::new());
        Self { isn, arrived, fin: None, edge: 0, acked: 0, begins }
    }

    fn offset_of(&self, seq: u32) -> Option<u64> {
        let place = seq.wrapping_sub(self.isn);
        (place < FAR).then_some(u64::from(place))
    }

    /// Adds a range of what arrived.
    fn arrive(&mut self, mut from: u64, mut to: u64) {
        let overlaps: Vec<u64> = self
            .arrived
            .range(..=to)
            .rev()
            .take_while(|(_, end)| **end >= from)
            .map(|(begin, _)| *begin)
            .collect();
        for begin in overlaps {
            let end = self.arrived.remove(&begin).expect("just seen");
            (from, to) = (from.min(begin), to.max(end));
        }
        self.arrived.insert(from, to);
    }

    /// Whether all of a range has arrived.
    fn has(&self, from: u64, to: u64) -> bool {
        let before = self.arrived.range(..=from).next_back();
        from >= to || before.is_some_and(|(_, end)| *end >= to)
    }
}

/// Sees everything, and objects.
#[derive(Debug, Default)]
pub struct WireChecker {
    owners: BTreeMap<IpAddr, NodeId>,
    /// The nodes at both ends of each link.
    ends: Vec<(NodeId, NodeId)>,
    /// Each link's books.
    pub links: Vec<PassedSegments>,
    /// Each node's books.
    pub nodes: Vec<PassedSegments>,
    streams: BTreeMap<(SocketAddr, SocketAddr), Stream>,
    /// Between these, fragments were on the way: not every header was seen.
    cut: BTreeSet<(IpAddr, IpAddr)>,
    /// What links do.
    pub link_models: Vec<LinkModel>,
    /// Streams of which some bytes never came, though they were acknowledged: SYN cookies of Linux
    /// let that happen, and nothing else may.
    pub skipped: BTreeSet<(SocketAddr, SocketAddr)>,
    /// Streams to which that may have happened, if a cookie was taken back at all: a segment that may
    /// have brought one has overtaken others, which came before anybody acknowledged them.
    pub overtaken: BTreeSet<(SocketAddr, SocketAddr)>,
    /// ICMP and ICMPv6 errors that reached each node.
    pub errors: Vec<u64>,
    /// Datagrams dropped, by their ends.
    pub datagrams_dropped: BTreeMap<(SocketAddr, SocketAddr), u64>,
    /// Frames that packets have lain in.
    pub frames: BTreeMap<usize, FrameWatch>,
    /// The first law that was seen broken.
    pub broken: Option<Violation>,
}

impl WireChecker {
    /// Knows whose addresses are whose, and which nodes the links join.
    pub fn new(
        owners: BTreeMap<IpAddr, NodeId>,
        nodes: usize,
        (ends, link_models): (Vec<(NodeId, NodeId)>, Vec<LinkModel>),
    ) -> Self {
        Self {
            owners,
            link_models,
            links: vec![PassedSegments::default(); ends.len()],
            ends,
            nodes: vec![PassedSegments::default(); nodes],
            errors: vec![0; nodes],
            ..Self::default()
        }
    }

    /// Resets that reached `to` from `from`.
    pub fn resets(&self, from: SocketAddr, to: SocketAddr) -> u64 {
        self.streams.get(&(from, to)).map_or(0, |stream| stream.resets)
    }

    /// Segments between two ends that were dropped, in both directions.
    pub fn dropped(&self, one: SocketAddr, other: SocketAddr) -> u64 {
        let of = |key| self.streams.get(&key).map_or(0, |stream| stream.dropped);
        of((one, other)) + of((other, one))
    }

    /// Whether what `from` sent last may have been lost, or the answer to it.
    pub fn may_be_unanswered(&self, from: SocketAddr, to: SocketAddr) -> bool {
        let forth = self.streams.get(&(from, to));
        let back = self.streams.get(&(to, from));
        let tried_at = forth.map_or(Instant::ZERO, |stream| stream.tried_at);
        [forth, back].into_iter().flatten().any(|stream| stream.dropped_at >= tried_at)
    }

    /// Whether one of two ends counts on from before what the other has acknowledged.
    pub fn restarts_behind(&self, one: SocketAddr, other: SocketAddr) -> bool {
        let of = |key| self.streams.get(&key).is_some_and(|stream| stream.has_forgotten);
        of((one, other)) || of((other, one))
    }

    /// Since when nothing has reached `to` from `from`.
    pub fn last_arrival(&self, from: SocketAddr, to: SocketAddr) -> Instant {
        self.streams.get(&(from, to)).map_or(Instant::ZERO, |stream| stream.heard_at)
    }

    /// What was seen breaks a law; the first one counts.
    fn object(&mut self, oracle: &'static str, now: Instant, what: String) {
        let at = format!("{} ns", now.as_nanos());
        self.broken.get_or_insert_with(|| Violation::new(oracle, at, what));
    }

    fn check_link(&mut self, now: Instant, link: LinkId, verdict: Result<(), String>) {
        if let Err(what) = verdict {
            self.object("links", now, format!("{link:?}: {what}"));
        }
    }

    /// A segment leaves the host that has made it.
    fn departs(
        &mut self,
        now: Instant,
        packet: &Packet,
        tcp: &Tcp,
        ends: (SocketAddr, SocketAddr),
    ) {
        let (from, to) = ends;
        let len = u64::from(packet.body.len);
        let back = self.streams.entry((to, from)).or_default();
        let cut = self.cut.contains(&(to.ip(), from.ip()));
        let mut wrong = None;
        if tcp.flags.contains(TcpFlags::ACK) && !tcp.flags.contains(TcpFlags::RST) && !cut {
            let acks = |life: &Incarnation| {
                let upto = life.offset_of(tcp.ack.0);
                upto.is_some_and(|upto| upto > 0 && life.has(0, upto)) && sacks(life, tcp)
            };
            if !back.lives.iter().any(acks) {
                if back.lives.iter().any(|life| is_after_cookie(life, tcp)) {
                    self.skipped.insert((to, from));
                } else {
                    wrong = Some(format!("{from} acknowledges to {to} what has not come: {tcp:?}"));
                }
            }
            if let Some(stamps) = tcp.options.timestamps
                && stamps.echo != 0
                && !back.timestamps.contains(&stamps.echo)
            {
                wrong =
                    Some(format!("{from} echoes a time stamp to {to} that has not come: {tcp:?}"));
            }
        }
        let syn_window = back.syn_window;
        let stream = self.streams.entry((from, to)).or_default();
        stream.tried_at = now;
        if tcp.flags.contains(TcpFlags::SYN) {
            stream.syn_window = u64::from(tcp.window);
            stream.shift = u32::from(tcp.options.window_scale_plus_one).saturating_sub(1);
            if !stream.lives.iter().any(|life| life.isn == tcp.seq.0) {
                stream.lives.push(Incarnation::new(tcp.seq.0));
            }
        } else if !tcp.flags.contains(TcpFlags::RST)
            && let [life] = &mut stream.lives[..]
            && let Some(begin) = life.offset_of(tcp.seq.0)
        {
            let fin = tcp.flags.contains(TcpFlags::FIN);
            let end = begin + len + u64::from(fin);
            // A keepalive repeats one number (`tcp_xmit_probe_skb`).
            stream.has_forgotten |= end + 1 < life.acked;
            let edge = life.edge.max(1 + syn_window);
            // Behind a super-packet that fills the window Linux sends FIN all the same
            // (`tcp_mss_split_point` does not count it).
            let counted = if len > 0 { end - u64::from(fin) } else { end };
            if counted > edge && end > begin && !cut {
                wrong = Some(format!(
                    "{from} sends to {to} up to {end}, the window ends at {edge}: {tcp:?}"
                ));
            }
            if life.fin.is_some_and(|fin| end > fin + 1) {
                wrong = Some(format!("{from} sends to {to} beyond its FIN: {tcp:?}"));
            }
            if fin {
                life.fin = Some(end - 1);
            }
        }
        if let Some(what) = wrong {
            self.object("wire", now, what);
        }
    }

    /// A segment reaches the host that it is for.
    fn on_arrival(
        &mut self,
        now: Instant,
        packet: &Packet,
        tcp: &Tcp,
        (from, to): (SocketAddr, SocketAddr),
    ) {
        let flag = |flag| u64::from(tcp.flags.contains(flag));
        let len = u64::from(packet.body.len) + flag(TcpFlags::SYN) + flag(TcpFlags::FIN);
        let acked = self.acked_positions(tcp, (to, from));
        let stream = self.streams.entry((from, to)).or_default();
        stream.heard_at = now;
        stream.resets += flag(TcpFlags::RST);
        if let Some(stamps) = tcp.options.timestamps {
            stream.timestamps.insert(stamps.value);
        }
        let mut may_begin_again = false;
        for life in &mut stream.lives {
            if let Some(begin) = life.offset_of(tcp.seq.0).filter(|_| len > 0) {
                life.arrive(begin, begin + len);
            }
            if let Some(begin) = life.offset_of(tcp.seq.0)
                && acked.iter().any(|ack| ack.abs_diff(begin) <= COOKIE_SLACK)
            {
                life.begins.insert(begin);
                may_begin_again = true;
                if !life.has(0, begin) {
                    self.overtaken.insert((from, to));
                }
            }
        }
        if tcp.flags.contains(TcpFlags::ACK) {
            let shift = if tcp.flags.contains(TcpFlags::SYN) { 0 } else { stream.shift };
            let window = u64::from(tcp.window) << shift;
            let forth = self.streams.entry((to, from)).or_default();
            for life in &mut forth.lives {
                if let Some(ack) = life.offset_of(tcp.ack.0) {
                    life.edge = life.edge.max(ack + window);
                    life.acked = life.acked.max(ack);
                    // A connection that begins again is not bound by the FIN of the first.
                    life.fin = life.fin.filter(|_| !may_begin_again);
                }
            }
        }
    }

    /// How far a segment acknowledges what was sent from `from` to `to`, in each life; nothing if it
    /// cannot bring a SYN cookie back.
    fn acked_positions(&self, tcp: &Tcp, (from, to): (SocketAddr, SocketAddr)) -> Vec<u64> {
        let brings = tcp.flags.contains(TcpFlags::ACK)
            && !tcp.flags.contains(TcpFlags::SYN)
            && !tcp.flags.contains(TcpFlags::RST);
        let forth = self.streams.get(&(from, to)).filter(|_| brings);
        let lives = forth.into_iter().flat_map(|stream| &stream.lives);
        lives.filter_map(|life| life.offset_of(tcp.ack.0)).collect()
    }
}

/// A SYN cookie is the sum of a hash, of the peer's sequence number and of the number of a segment
/// size, 0 to 3 (`secure_tcp_syn_cookie`). So it comes back with any segment whose two numbers have
/// moved by as much as each other (`__cookie_v4_check`), give or take this: it need not be the first,
/// and what was sent before it does not count.
const COOKIE_SLACK: u64 = 3;

/// Whether an acknowledgment is right but for what came before a segment that may have brought a SYN
/// cookie back.
fn is_after_cookie(life: &Incarnation, tcp: &Tcp) -> bool {
    let Some(upto) = life.offset_of(tcp.ack.0) else { return false };
    life.begins.range(..=upto).any(|begin| life.has(*begin, upto)) && sacks(life, tcp)
}

/// Whether every SACK block has arrived.
fn sacks(life: &Incarnation, tcp: &Tcp) -> bool {
    tcp.options.sack.as_slice().iter().all(|block| {
        let place = life.offset_of(block.start.0).zip(life.offset_of(block.end.0));
        place.is_some_and(|(from, to)| from < to && life.has(from, to))
    })
}

/// The ends of a segment or datagram, ports 0 if they are not known.
fn ends(packet: &Packet) -> Option<(SocketAddr, SocketAddr)> {
    let (src, dst): (IpAddr, IpAddr) = match packet.network {
        Network::Ipv4(ip) => (ip.src.into(), ip.dst.into()),
        Network::Ipv6(ip) => (ip.src.into(), ip.dst.into()),
        Network::Other(_) => return None,
    };
    let (from, to) = match packet.transport {
        Transport::Tcp(tcp) => (tcp.src_port, tcp.dst_port),
        Transport::Udp(udp) => (udp.src_port, udp.dst_port),
        _ => (0, 0),
    };
    Some((SocketAddr::new(src, from), SocketAddr::new(dst, to)))
}

/// The packet is a piece of one.
fn is_piece(packet: &Packet) -> bool {
    match packet.network {
        Network::Ipv4(ip) => ip.more_fragments || ip.fragment_offset > 0,
        Network::Ipv6(_) => packet.extra.is_some() && packet.transport == Transport::None,
        Network::Other(_) => true,
    }
}

/// netem has damaged it: its headers cannot be relied on, and nobody takes it in.
fn is_damaged(packet: &Packet) -> bool {
    packet.flaws() != Flaws::default()
}

impl Observer for WireChecker {
    fn sent(&mut self, now: Instant, link: LinkId, packet: &Packet) {
        let node = self.ends[link.0 as usize].0;
        let segments = u64::from(packet.segments());
        self.links[link.0 as usize].entered += segments;
        self.nodes[node.0 as usize].left += segments;
        if let Some(frame) = &packet.body.frame {
            let watch = frame.watch();
            self.frames.insert(watch.key(), watch);
        }
        let verdict = self.link_models[link.0 as usize].sent(now, packet);
        self.check_link(now, link, verdict);
        let Some(ends) = ends(packet).filter(|_| !is_damaged(packet)) else { return };
        if is_piece(packet) {
            self.cut.insert((ends.0.ip(), ends.1.ip()));
        } else if let Transport::Tcp(tcp) = packet.transport
            && self.owners.get(&ends.0.ip()) == Some(&node)
        {
            self.departs(now, packet, &tcp, ends);
        }
    }

    fn delivered(&mut self, now: Instant, link: LinkId, packet: &Packet) {
        let node = self.ends[link.0 as usize].1;
        let segments = u64::from(packet.segments());
        self.links[link.0 as usize].left += segments;
        self.nodes[node.0 as usize].entered += segments;
        let verdict = self.link_models[link.0 as usize].delivered(now, packet);
        self.check_link(now, link, verdict);
        let sound = !is_piece(packet) && !is_damaged(packet);
        let Some(ends) = ends(packet).filter(|_| sound) else { return };
        if self.owners.get(&ends.1.ip()) != Some(&node) {
            return;
        }
        match packet.transport {
            Transport::Tcp(tcp) => self.on_arrival(now, packet, &tcp, ends),
            Transport::Icmp(_) => self.errors[node.0 as usize] += 1,
            _ => {}
        }
    }

    fn dropped(&mut self, now: Instant, place: DropPlace, reason: Reason, packet: &Packet) {
        let segments = u64::from(packet.segments());
        match place {
            DropPlace::Node(node) => self.nodes[node.0 as usize].dropped += segments,
            DropPlace::Link(link) => {
                self.links[link.0 as usize].dropped += segments;
                let verdict = self.link_models[link.0 as usize].dropped(reason, packet);
                self.check_link(now, link, verdict);
            }
        }
        let Some(ends) = ends(packet) else { return };
        match packet.transport {
            Transport::Tcp(_) => {
                let at_home =
                    place == DropPlace::Node(*self.owners.get(&ends.0.ip()).unwrap_or(&NOBODY));
                let stream = self.streams.entry(ends).or_default();
                stream.dropped += segments;
                if at_home {
                    stream.tried_at = now;
                }
                if !(at_home && reason == Reason::PacketTooBig) {
                    stream.dropped_at = now;
                }
            }
            Transport::Udp(_) => *self.datagrams_dropped.entry(ends).or_default() += segments,
            _ => {}
        }
    }
}
