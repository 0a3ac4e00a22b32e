//! What stands on which track of a trace: a process a node; below it a track each connection and
//! each queue, with counters, slices of states, instants, and arrows from data to its ACK.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::io::{self, Write};

use datapath::packet::{Ecn, Packet, TcpFlags};
use datapath::qdisc::cake::Cake;
use datapath::qdisc::{AnyQdisc, Backlog, Sched};
use datapath::reason::Reason;
use datapath::tcp::cc::INFINITE_SSTHRESH;
use datapath::trace::{CaState, EventKind, Probe};
use datapath::units::Instant;

use super::TraceItem;
use super::conns::{Conn, Segment};
use super::explain::{state, why};
use super::perfetto::{Annotations, Track, Writer};

/// Writes what is seen to the tracks of a trace.
#[derive(Debug)]
pub struct Tracks<W: Write> {
    writer: Writer<W>,
    nodes: HashMap<u32, Track>,
    drops: HashMap<u32, Track>,
    // These end one after the other: in order.
    conns: BTreeMap<usize, ConnTracks>,
    queues: BTreeMap<usize, QueueTracks>,
}

/// The tracks of one end of a connection.
#[derive(Debug)]
struct ConnTracks {
    events: Track,
    phase: Slices,
    limit: Slices,
    counters: [Counter; COUNTERS.len()],
    /// The ends of what was sent and is not acknowledged, in order.
    outstanding: VecDeque<i64>,
    /// Just past the highest byte sent.
    highest: i64,
}

/// Counters of a connection: names and units.
const COUNTERS: [(&str, &str); 6] = [
    ("cwnd", "segments"),
    ("ssthresh", "segments"),
    ("in flight", "segments"),
    ("srtt", "µs"),
    ("pacing rate", "byte/s"),
    ("peer's window", "bytes"),
];

/// The tracks of one queue.
#[derive(Debug)]
struct QueueTracks {
    events: Track,
    packets: Counter,
    bytes: Counter,
    delay: Counter,
    tins: Vec<TinTracks>,
}

#[derive(Debug)]
struct TinTracks {
    bytes: Counter,
    delay: Counter,
    dropping: Slices,
}

/// A counter that is written when it changes.
#[derive(Debug)]
struct Counter {
    track: Track,
    last: Option<i64>,
}

/// A track of slices of which at most one is open.
#[derive(Debug)]
struct Slices {
    track: Track,
    open: Option<&'static str>,
}

impl Counter {
    fn set<W: Write>(&mut self, writer: &mut Writer<W>, at: Instant, value: i64) {
        if self.last.replace(value) != Some(value) {
            writer.set(at, self.track, value);
        }
    }
}

impl Slices {
    fn set<W: Write>(&mut self, writer: &mut Writer<W>, at: Instant, name: Option<&'static str>) {
        if self.open == name {
            return;
        }
        if self.open.is_some() {
            writer.end(at, self.track);
        }
        if let Some(name) = name {
            writer.begin(at, self.track, name);
        }
        self.open = name;
    }
}

impl<W: Write> Tracks<W> {
    /// No tracks yet.
    pub fn new(out: W) -> Self {
        Self {
            writer: Writer::new(out),
            nodes: HashMap::new(),
            drops: HashMap::new(),
            conns: BTreeMap::new(),
            queues: BTreeMap::new(),
        }
    }

    /// A node, which is a process.
    pub fn node(&mut self, node: u32, name: &str) {
        let track = self.writer.process(name);
        self.nodes.insert(node, track);
    }

    /// A queue of a node.
    pub fn queue(&mut self, queue: usize, node: u32, name: &str) {
        let writer = &mut self.writer;
        let events = writer.track(self.nodes[&node], name, -1);
        let tracks = QueueTracks {
            events,
            packets: counter(writer, events, "backlog", "packets", 1),
            bytes: counter(writer, events, "backlog in bytes", "bytes", 2),
            delay: counter(writer, events, "delay", "µs", 3),
            tins: Vec::new(),
        };
        self.queues.insert(queue, tracks);
    }

    /// A packet or an event of a connection, which is called `name`.
    pub fn on_item(
        &mut self,
        at: Instant,
        index: usize,
        conn: &Conn,
        name: &str,
        seen: TraceItem<'_>,
    ) {
        let writer = &mut self.writer;
        let parent = self.nodes[&conn.node];
        let tracks =
            self.conns.entry(index).or_insert_with(|| ConnTracks::new(writer, parent, conn, name));
        match seen {
            TraceItem::Sent(packet) => tracks.sent(writer, at, conn, packet),
            TraceItem::Received(packet) => tracks.received(writer, at, conn, packet),
            TraceItem::Event(event) => match &event.kind {
                EventKind::Probe(probe) => tracks.probe(writer, at, probe),
                kind => tracks.event(writer, at, conn, kind),
            },
        }
    }

    /// A packet was dropped at a node, or on the way from it, or in this queue of its.
    pub fn dropped(
        &mut self,
        at: Instant,
        node: u32,
        queue: Option<usize>,
        reason: Reason,
        packet: &Packet,
    ) {
        let track = if let Some(queue) = queue {
            self.queues[&queue].events
        } else {
            let (writer, parent) = (&mut self.writer, self.nodes[&node]);
            *self.drops.entry(node).or_insert_with(|| writer.track(parent, "drops", -2))
        };
        self.packet_instant(at, track, &format!("drop {}", reason.name()), packet);
    }

    /// A packet was marked with CE in a queue.
    pub fn marked(&mut self, at: Instant, queue: usize, packet: &Packet) {
        let track = self.queues[&queue].events;
        self.packet_instant(at, track, "mark CE", packet);
    }

    /// A packet left a queue after this time in it.
    pub fn on_dequeue(&mut self, at: Instant, queue: usize, waited_ns: u64) {
        if let Some(tracks) = self.queues.get_mut(&queue) {
            tracks.delay.set(&mut self.writer, at, (waited_ns / 1_000) as i64);
        }
    }

    /// How long a queue is, and what its CAKE does.
    pub fn on_backlog(&mut self, at: Instant, queue: usize, backlog: Backlog, root: &Sched) {
        let writer = &mut self.writer;
        let Some(tracks) = self.queues.get_mut(&queue) else { return };
        tracks.packets.set(writer, at, i64::from(backlog.packets));
        tracks.bytes.set(writer, at, i64::from(backlog.bytes));
        let cakes = root.tree().into_iter().filter_map(|(_, sched)| match sched.qdisc() {
            AnyQdisc::Cake(cake) => Some(cake),
            _ => None,
        });
        let mut first = 0;
        for cake in cakes {
            first += tracks.on_cake(writer, at, first, cake);
        }
    }

    /// Ends the trace.
    ///
    /// # Errors
    /// The first error in writing it.
    pub fn finish(mut self, at: Instant) -> io::Result<W> {
        for tracks in self.conns.values_mut() {
            tracks.phase.set(&mut self.writer, at, None);
            tracks.limit.set(&mut self.writer, at, None);
        }
        for tin in self.queues.values_mut().flat_map(|queue| &mut queue.tins) {
            tin.dropping.set(&mut self.writer, at, None);
        }
        self.writer.finish()
    }

    fn packet_instant(&mut self, at: Instant, track: Track, name: &str, packet: &Packet) {
        let ports = packet.tcp().map(|tcp| [tcp.src_port, tcp.dst_port]);
        let [src, dst] = ports.unwrap_or_default().map(i64::from);
        let all = [("bytes", i64::from(packet.len())), ("src port", src), ("dst port", dst)];
        let numbers = if ports.is_some() { &all[..] } else { &all[..1] };
        self.writer.instant(at, track, name, Annotations { numbers, ..Annotations::default() });
    }
}

fn counter<W: Write>(
    writer: &mut Writer<W>,
    parent: Track,
    name: &str,
    unit: &str,
    rank: i32,
) -> Counter {
    Counter { track: writer.counter(parent, name, unit, rank), last: None }
}

fn slices<W: Write>(writer: &mut Writer<W>, parent: Track, name: &str, rank: i32) -> Slices {
    Slices { track: writer.track(parent, name, rank), open: None }
}

impl QueueTracks {
    /// The tins of one CAKE, from number `first` on; how many they are.
    fn on_cake<W: Write>(
        &mut self,
        writer: &mut Writer<W>,
        at: Instant,
        first: usize,
        cake: &Cake,
    ) -> usize {
        let stats = cake.cake_stats();
        // Class numbers begin anew with each tin.
        let mut dropping = vec![false; stats.tins.len()];
        for flow in cake.flow_stats(at).iter().filter(|flow| flow.drop_next_us.is_some()) {
            let tin = (flow.minor as usize).saturating_sub(1) / QUEUES_A_TIN;
            dropping.iter_mut().skip(tin).take(1).for_each(|it| *it = true);
        }
        for (index, (tin, dropping)) in stats.tins.iter().zip(dropping).enumerate() {
            if self.tins.len() == first + index {
                let rank = 10 + 3 * (first + index) as i32;
                let name = if tin.name.is_empty() { "tin" } else { tin.name };
                self.tins.push(TinTracks {
                    bytes: counter(writer, self.events, &format!("{name}: backlog"), "bytes", rank),
                    delay: counter(
                        writer,
                        self.events,
                        &format!("{name}: average delay"),
                        "µs",
                        rank + 1,
                    ),
                    dropping: slices(writer, self.events, &format!("{name}: COBALT"), rank + 2),
                });
            }
            let tracks = &mut self.tins[first + index];
            tracks.bytes.set(writer, at, i64::from(tin.backlog_bytes));
            tracks.delay.set(writer, at, tin.average_delay_us as i64);
            tracks.dropping.set(writer, at, dropping.then_some("dropping"));
        }
        stats.tins.len()
    }
}

/// Flow queues of a tin of CAKE.
const QUEUES_A_TIN: usize = 1024;

impl ConnTracks {
    fn new<W: Write>(writer: &mut Writer<W>, parent: Track, conn: &Conn, name: &str) -> Self {
        let name = format!("{name}: {} > {}", conn.local, conn.remote);
        let events = writer.track(parent, &name, 0);
        let phase = slices(writer, events, "phase", 1);
        let limit = slices(writer, events, "limited by", 2);
        let mut rank = 2;
        let counters = COUNTERS.map(|(name, unit)| {
            rank += 1;
            counter(writer, events, name, unit, rank)
        });
        Self { events, phase, limit, counters, outstanding: VecDeque::new(), highest: i64::MIN }
    }

    fn probe<W: Write>(&mut self, writer: &mut Writer<W>, at: Instant, probe: &Probe) {
        let infinite = |ssthresh: u32| if ssthresh >= INFINITE_SSTHRESH { 0 } else { ssthresh };
        let pacing = if probe.pacing_rate == u64::MAX { 0 } else { probe.pacing_rate };
        let values = [
            i64::from(probe.snd_cwnd),
            i64::from(infinite(probe.snd_ssthresh)),
            i64::from(probe.in_flight),
            i64::from(probe.srtt_us),
            pacing as i64,
            i64::from(probe.snd_wnd),
        ];
        for (counter, value) in self.counters.iter_mut().zip(values) {
            counter.set(writer, at, value);
        }
        let phase = match probe.ca_state {
            CaState::Open if probe.snd_cwnd < probe.snd_ssthresh => "slow start",
            CaState::Open => "congestion avoidance",
            other => state(other),
        };
        self.phase.set(writer, at, Some(phase));
        self.limit.set(writer, at, Some(probe.limit.name()));
    }

    fn event<W: Write>(&self, writer: &mut Writer<W>, at: Instant, conn: &Conn, kind: &EventKind) {
        let range = |seq, end_seq| [("seq", conn.sent(seq)), ("end", conn.sent(end_seq))];
        let (name, numbers, text) = match *kind {
            EventKind::Retransmit { seq, end_seq, cause } => {
                ("retransmit", range(seq, end_seq), Some(("why", why(cause).to_owned())))
            }
            EventKind::MarkLost { seq, end_seq, cause } => {
                ("lost", range(seq, end_seq), Some(("why", why(cause).to_owned())))
            }
            EventKind::CaState { from, to, snd_cwnd, snd_ssthresh } => {
                let text = format!("{} -> {}", state(from), state(to));
                let numbers =
                    [("cwnd", i64::from(snd_cwnd)), ("ssthresh", i64::from(snd_ssthresh))];
                ("state", numbers, Some(("change", text)))
            }
            EventKind::Reduce { prior_cwnd, snd_ssthresh } => {
                let numbers =
                    [("cwnd before", i64::from(prior_cwnd)), ("ssthresh", i64::from(snd_ssthresh))];
                ("reduce", numbers, None)
            }
            EventKind::Undo { snd_cwnd, snd_ssthresh } => {
                let numbers =
                    [("cwnd", i64::from(snd_cwnd)), ("ssthresh", i64::from(snd_ssthresh))];
                ("undo", numbers, None)
            }
            EventKind::Timeout { retransmits, rto_ms } => {
                let numbers =
                    [("in a row", i64::from(retransmits)), ("rto in ms", i64::from(rto_ms))];
                ("RTO", numbers, None)
            }
            EventKind::LossProbe { tlp_high_seq } => {
                let high = conn.sent(tlp_high_seq);
                ("tail loss probe", [("up to", high), ("end", high)], None)
            }
            EventKind::Probe(_) => return,
        };
        writer.instant(
            at,
            self.events,
            name,
            Annotations { numbers: &numbers, text, ..Annotations::default() },
        );
    }

    fn sent<W: Write>(
        &mut self,
        writer: &mut Writer<W>,
        at: Instant,
        conn: &Conn,
        packet: &Packet,
    ) {
        let Some(segment) = conn.segment(packet, true) else { return };
        let ends = ends(&segment, packet);
        let again = segment.len > 0 && segment.end() <= self.highest;
        if segment.len > 0 && !again {
            self.outstanding.extend(ends.iter().filter(|end| **end > self.highest));
            self.highest = segment.end();
        }
        let flows = ends.iter().map(|end| arrow(conn, *end, true)).collect();
        let name = name_of(&segment, if again { "data again" } else { "data" });
        self.packet(writer, at, name, &segment, packet, (flows, Vec::new()));
    }

    fn received<W: Write>(
        &mut self,
        writer: &mut Writer<W>,
        at: Instant,
        conn: &Conn,
        packet: &Packet,
    ) {
        let Some(segment) = conn.segment(packet, false) else { return };
        let flows = ends(&segment, packet).iter().map(|end| arrow(conn, *end, false)).collect();
        let mut acked = Vec::new();
        while let (Some(&end), Some(ack)) = (self.outstanding.front(), segment.ack)
            && end <= ack
        {
            self.outstanding.pop_front();
            acked.push(arrow(conn, end, true));
        }
        let name = name_of(&segment, "data arrives");
        self.packet(writer, at, name, &segment, packet, (flows, acked));
    }

    fn packet<W: Write>(
        &self,
        writer: &mut Writer<W>,
        at: Instant,
        name: &str,
        segment: &Segment,
        packet: &Packet,
        (flows, ends): (Vec<u64>, Vec<u64>),
    ) {
        let mut numbers = [("len", i64::from(segment.len)), ("seq", segment.seq), ("ack", 0)];
        let mut count = 2;
        if let Some(ack) = segment.ack {
            numbers[2].1 = ack;
            count = 3;
        }
        let text = (packet.network.ecn() == Ecn::Ce).then(|| ("ecn", "CE".to_owned()));
        let notes = Annotations { numbers: &numbers[..count], text, flows, ends };
        writer.instant(at, self.events, name, notes);
    }
}

/// What a segment is called.
fn name_of(segment: &Segment, data: &'static str) -> &'static str {
    let has = |flag| segment.flags.contains(flag);
    match segment.len {
        _ if has(TcpFlags::RST) => "RST",
        _ if has(TcpFlags::SYN) => "SYN",
        0 if has(TcpFlags::FIN) => "FIN",
        0 => "ACK",
        _ => data,
    }
}

/// Where the packets end that a super-packet is on the wire.
fn ends(segment: &Segment, packet: &Packet) -> Vec<i64> {
    let size = match packet.meta.gso_size {
        0 => segment.len,
        size => u32::from(size),
    };
    let pieces = segment.len.div_ceil(size.max(1));
    let end_of = |piece: u32| segment.end().min(segment.seq + i64::from(piece * size));
    (1..=pieces).map(end_of).collect()
}

/// The number of the arrow that begins with the data that ends here: the same at both ends of the
/// connection.
fn arrow(conn: &Conn, end: i64, sent: bool) -> u64 {
    let (from, to) = if sent { (conn.local, conn.remote) } else { (conn.remote, conn.local) };
    let mut hasher = rustc_hash::FxHasher::default();
    std::hash::Hash::hash(&(from, to, end), &mut hasher);
    std::hash::Hasher::finish(&hasher).max(1)
}
