//! A qdisc with the line behind it, driven by arrivals.

use std::borrow::Cow;

use datapath::packet::{Ecn, FrameRef, Packet};
use datapath::qdisc::{AnyQdisc, Backlog, Counted, Cx, Qdisc as _, Sched};
use datapath::reason::Reason;
use datapath::units::{Bytes, Instant, Rate};
use iproute::tc;

/// A frame as it was captured, for as long as its packet waits.
#[derive(Clone, Debug, Default)]
pub struct Frame {
    /// The bytes captured.
    pub bytes: Vec<u8>,
    /// How long the frame was on the wire.
    pub original_len: u32,
    /// Index of its interface in the capture.
    pub interface: usize,
    /// Which record of the capture it is, from 1.
    pub number: u64,
}

/// What happened to a packet.
pub struct PacketOutcome<'a> {
    /// When.
    pub at: Instant,
    /// When it had come.
    pub came: Instant,
    /// The packet as it left.
    pub packet: &'a Packet,
    /// The frame as it came.
    pub frame: &'a Frame,
    /// Why it was dropped; `None` if it was sent.
    pub reason: Option<Reason>,
    /// It left with CE and had come without.
    pub marked: bool,
}

impl PacketOutcome<'_> {
    /// The frame with what the qdisc has changed (ECN, DSCP) in its headers.
    pub fn bytes(&self) -> Cow<'_, [u8]> {
        let body = self.packet.body.offset as usize;
        let header = self.packet.header_len() as usize;
        let captured = &self.frame.bytes;
        // A pseudo header of the capture stands before what is emitted.
        let (Some(before), Some(rest)) = (body.checked_sub(header), captured.get(body..)) else {
            return Cow::Borrowed(captured);
        };
        let mut bytes = captured[..before].to_vec();
        self.packet.emit(rest, &mut bytes);
        Cow::Owned(bytes)
    }
}

/// A queued packet: its frame, and what is needed when it leaves.
#[derive(Clone, Debug)]
struct QueuedPacket {
    frame: Frame,
    came: Instant,
    ce: bool,
    /// How many packets stand for it: netem duplicates.
    copies: u32,
}

/// A qdisc, the line behind it, and the frames of the packets that wait.
pub struct Line {
    qdisc: Counted<Sched>,
    rate: Option<Rate>,
    now: Instant,
    /// When the line has sent what it is sending.
    free_at: Instant,
    waiting: Vec<Option<QueuedPacket>>,
    /// What the body of a packet in each place is known by: duplicates share it.
    names: Vec<FrameRef>,
    vacant: Vec<u32>,
    dropped: Vec<(Reason, Packet)>,
}

impl Line {
    /// An idle line of this rate behind `qdisc`.
    pub fn new(qdisc: Sched, rate: Option<Rate>) -> Self {
        Self {
            qdisc: Counted::with_copies(qdisc, copies),
            rate,
            now: Instant::ZERO,
            free_at: Instant::ZERO,
            waiting: Vec::new(),
            names: Vec::new(),
            vacant: Vec::new(),
            dropped: Vec::new(),
        }
    }

    /// A packet comes, after everything before `now` has been done by [`Line::run_until`].
    pub fn arrive(
        &mut self,
        now: Instant,
        mut packet: Packet,
        frame: Frame,
        on_packet: &mut dyn FnMut(PacketOutcome<'_>),
    ) {
        assert!(now >= self.now, "time never goes back");
        self.now = now;
        let ce = packet.network.ecn() == Ecn::Ce;
        let slot = self.vacant.pop().unwrap_or_else(|| {
            self.waiting.push(None);
            let named = self.waiting.len() as u32;
            self.names.push(FrameRef::numbered(named));
            named - 1
        });
        // Duplicates of netem have no owner, but share the bytes.
        packet.meta.owner = slot;
        packet.body.frame = Some(self.names[slot as usize].clone());
        self.waiting[slot as usize] = Some(QueuedPacket { frame, came: now, ce, copies: 1 });
        let made_before = copies(self.qdisc.inner()).0;
        let mut dropped = std::mem::take(&mut self.dropped);
        self.qdisc.enqueue(packet, &mut Cx { now, dropped: &mut dropped });
        let made = copies(self.qdisc.inner()).0 - made_before;
        if let Some(waiting) = &mut self.waiting[slot as usize] {
            waiting.copies += made as u32;
        }
        self.report_drops(now, dropped, on_packet);
        self.pump(on_packet);
    }

    /// Does everything that happens before `until`, or at that moment without the packet that
    /// comes then.
    pub fn run_until(&mut self, until: Instant, on_packet: &mut dyn FnMut(PacketOutcome<'_>)) {
        while let Some(next) = self.next_event().filter(|next| *next <= until) {
            self.now = next;
            self.pump(on_packet);
        }
    }

    /// Lets everything out that will ever come.
    pub fn drain(&mut self, on_packet: &mut dyn FnMut(PacketOutcome<'_>)) {
        while self.qdisc.backlog().packets > 0 {
            let Some(next) = self.next_event() else { return };
            self.now = next;
            self.pump(on_packet);
        }
    }

    /// When there is something to do next.
    fn next_event(&self) -> Option<Instant> {
        let busy = self.free_at > self.now;
        if busy && self.qdisc.backlog().packets > 0 {
            return Some(self.free_at);
        }
        self.qdisc.wake_at().map(|wake| wake.max(self.free_at)).filter(|wake| *wake > self.now)
    }

    /// Sends what may be sent now.
    fn pump(&mut self, on_packet: &mut dyn FnMut(PacketOutcome<'_>)) {
        let now = self.now;
        while self.free_at <= now {
            let mut dropped = std::mem::take(&mut self.dropped);
            let packet = self.qdisc.dequeue(&mut Cx { now, dropped: &mut dropped });
            self.report_drops(now, dropped, on_packet);
            let Some(packet) = packet else { return };
            if let Some(rate) = self.rate {
                self.free_at = now + rate.time_to_send(Bytes(packet.wire_len()));
            }
            self.report(now, &packet, None, on_packet);
        }
    }

    fn report_drops(
        &mut self,
        now: Instant,
        mut dropped: Vec<(Reason, Packet)>,
        on_packet: &mut dyn FnMut(PacketOutcome<'_>),
    ) {
        for (reason, packet) in dropped.drain(..) {
            self.report(now, &packet, Some(reason), on_packet);
        }
        self.dropped = dropped;
    }

    fn report(
        &mut self,
        at: Instant,
        packet: &Packet,
        reason: Option<Reason>,
        on_packet: &mut dyn FnMut(PacketOutcome<'_>),
    ) {
        let slot = packet.body.number() - 1;
        let place = &mut self.waiting[slot as usize];
        let waiting = place.as_mut().expect("a packet that waits has its frame");
        let marked = reason.is_none() && !waiting.ce && packet.network.ecn() == Ecn::Ce;
        let (came, frame) = (waiting.came, &waiting.frame);
        on_packet(PacketOutcome { at, came, packet, frame, reason, marked });
        waiting.copies -= 1;
        if waiting.copies == 0 {
            *place = None;
            self.vacant.push(slot);
        }
    }

    /// What waits.
    pub fn waiting(&self) -> Backlog {
        self.qdisc.backlog()
    }

    /// The root, to look at.
    pub fn root(&self) -> &Sched {
        self.qdisc.inner()
    }

    /// The root, to take its log.
    pub fn root_mut(&mut self) -> &mut Sched {
        self.qdisc.inner_mut()
    }

    /// `tc -s qdisc show`.
    pub fn tc_text(&self) -> String {
        tc::show_text(self.root(), Some("replay"), self.now)
    }

    /// `tc -s -j qdisc show`.
    pub fn tc_json(&self) -> serde_json::Value {
        tc::show_json(self.root(), Some("replay"), self.now)
    }
}

/// Packets and bytes that netem has made.
fn copies(root: &Sched) -> (u64, u64) {
    let made = |(packets, bytes), sched: &Sched| match sched.qdisc() {
        AnyQdisc::Netem(netem) => {
            let (more, more_bytes) = netem.copies();
            (packets + more, bytes + more_bytes)
        }
        _ => (packets, bytes),
    };
    match root.qdisc() {
        AnyQdisc::Netem(_) | AnyQdisc::Tbf(_) | AnyQdisc::Red(_) | AnyQdisc::Prio(_) => {
            root.tree().into_iter().map(|(_, sched)| sched).fold((0, 0), made)
        }
        _ => (0, 0),
    }
}
