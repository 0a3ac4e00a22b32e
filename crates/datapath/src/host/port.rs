//! A network interface of a host: its queue, its credit and its settings (`struct net_device`).

use super::room::{Charge, TxRing};
use super::rx_ring::RxRing;
use crate::packet::{LinkHeader, MacAddr, Memory, Meta, Packet};
use crate::prefetch::prefetch;
use crate::qdisc::fifo::{Fifo, FifoKind, TX_QUEUE_LEN};
use crate::qdisc::{Backlog, Cx, Qdisc as _, Sched};
use crate::reason::{Enqueue, Reason};
use crate::tcp::truesize_of_segments;
use crate::units::Instant;
use core::net::IpAddr;

/// The configuration of a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortConfig {
    /// Largest network-layer packet in bytes (`dev->mtu`).
    pub mtu: u32,
    /// Its addresses with their prefix lengths.
    pub addresses: Vec<(IpAddr, u8)>,
    /// The link-layer header of every frame that leaves here: to the far end; a simulated link
    /// has only one.
    pub link: LinkHeader,
    /// Longest queue in packets of the `pfifo` that a port begins with (`txqueuelen`).
    pub queue_limit: u32,
    /// What the device and the stack cut and merge.
    pub offloads: Offloads,
    /// How long an interrupt waits for more packets, in µs (`ethtool -C rx-usecs`). Used
    /// with `gro` only.
    pub rx_usecs: u32,
    /// The device gives sockets their memory back at once, as veth does (`skb_orphan`).
    pub orphans: bool,
}

/// Segmentation offloads, as `ethtool -k` names them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Offloads {
    /// `generic-segmentation-offload`: super-packets are cut right above the device without copying
    /// (the stack builds them either way). Without it, segments lie in linear buffers.
    pub gso: bool,
    /// `tcp-segmentation-offload`: the device takes super-packets whole.
    pub tso: bool,
    /// `generic-receive-offload`: arriving segments are merged.
    pub gro: bool,
}

/// Counters of one interface (`ip -s link`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct PortStats {
    /// Packets received.
    pub rx_packets: u64,
    /// Bytes received.
    pub rx_bytes: u64,
    /// Packets handed to the device.
    pub tx_packets: u64,
    /// Bytes handed to the device.
    pub tx_bytes: u64,
    /// Packets sent while the interface was down (`noop_enqueue`). Drops by a queue are counted by the qdisc alone.
    pub tx_dropped: u64,
}

/// One interface of a host.
///
/// Ordered by use: what a forwarded packet needs is in the first two cache lines.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct HostPort {
    /// What the driver set.
    pub config: PortConfig,
    /// Counters.
    pub stats: PortStats,
    pub(super) room: TxRing,
    /// In the host's list of ports with something to send.
    pub(super) listed: bool,
    /// The super-packet that is being cut, if there is one.
    cutting: Option<Box<Cutting>>,
    /// What waits for an interrupt, once there has been something.
    pub(super) rx: Option<Box<RxRing>>,
    /// The memory of the packet that the queue has just given to a device which does not keep its owner.
    pub(super) freed: Option<Charge>,
    /// Packets that never reached the queue: the memory that all ports share had no room.
    pub(super) refused: u64,
    /// Stored inline: its address is known without loading a pointer.
    qdisc: Sched,
}

/// A super-packet on its way to a device that wants segments. Segments for which the device has no room
/// yet wait here, in front of the queue (`validate_xmit_skb_list`, `gso_skb`).
#[derive(Debug, Default)]
pub(super) struct Cutting {
    packet: Packet,
    next: u32,
    count: u32,
}

/// The place of a super-packet that has been cut, for the next one.
pub(super) type SpareCutting = Option<Box<Cutting>>;

impl Default for PortConfig {
    fn default() -> Self {
        Self {
            mtu: 1500,
            addresses: Vec::new(),
            link: LinkHeader::Ethernet { dst: MacAddr::default(), src: MacAddr::default() },
            queue_limit: TX_QUEUE_LEN,
            offloads: Offloads::default(),
            rx_usecs: 0,
            orphans: false,
        }
    }
}

impl Cutting {
    /// Prefetches where a super-packet will lie.
    pub fn prefetch(&self) {
        self.packet.prefetch();
    }

    /// What is left, as one packet.
    fn backlog(&self) -> Backlog {
        let headers = self.packet.header_len() * (self.count - self.next);
        let payload = self.packet.body.len - self.next * u32::from(self.packet.meta.gso_size);
        Backlog { packets: 1, bytes: headers + payload }
    }
}

impl HostPort {
    /// When the next interrupt comes; `FAR_FUTURE` if nothing waits.
    pub(super) fn interrupt_at(&self) -> Instant {
        self.rx.as_ref().map_or(Instant::FAR_FUTURE, |ring| ring.due)
    }

    /// Packets that wait for an interrupt.
    pub fn rx_waiting(&self) -> usize {
        self.rx.as_ref().map_or(0, |ring| ring.waiting)
    }

    pub(super) fn new(config: PortConfig) -> Self {
        let qdisc = Fifo::new(FifoKind::Packets(config.queue_limit)).into();
        Self {
            config,
            rx: None,
            cutting: None,
            stats: PortStats::default(),
            room: TxRing::none(),
            listed: false,
            freed: None,
            refused: 0,
            qdisc,
        }
    }

    /// Packets that never reached the queue, because the memory that all ports share had no room for them.
    pub fn refused(&self) -> u64 {
        self.refused
    }

    /// Queues the packet in `place`, which is to leave here (`__dev_queue_xmit`).
    #[inline]
    pub(super) fn enqueue(&mut self, place: &mut Packet, cx: &mut Cx<'_>) -> Enqueue {
        if !self.room.up {
            // `noop_enqueue`: the sender is told of congestion, and takes the packet for sent.
            self.stats.tx_dropped += 1;
            cx.drop(Reason::LinkDown, place.take());
            return Enqueue::Congested;
        }
        self.room.waiting = true;
        self.qdisc.enqueue_from(place, cx)
    }

    /// Writes the next packet for the wire to `place`, if the port has credit and the queue lets
    /// one go.
    #[inline]
    pub(super) fn dequeue(
        &mut self,
        cx: &mut Cx<'_>,
        spare: &mut SpareCutting,
        place: &mut Packet,
    ) -> bool {
        if self.room.credits <= 0 || !self.room.up {
            return false;
        }
        if !self.next_segment(spare, place) && !self.dequeue_whole(cx, spare, place) {
            return false;
        }
        self.count_sent(place);
        true
    }

    /// The next packet of the queue: the first segment of it, if the device wants segments.
    #[inline]
    fn dequeue_whole(
        &mut self,
        cx: &mut Cx<'_>,
        spare: &mut SpareCutting,
        place: &mut Packet,
    ) -> bool {
        if !self.qdisc.dequeue_into(place, cx) {
            self.room.waiting = self.qdisc.backlog().packets > 0;
            return false;
        }
        let orphan = place.meta.owner == Meta::NO_OWNER;
        if self.config.orphans && !orphan {
            self.freed = Some(Charge::of(place));
            place.meta.owner = Meta::NO_OWNER;
        }
        if self.takes_whole(place) {
            return true;
        }
        if orphan && self.config.orphans {
            self.charge_orphan(place);
        }
        self.begin_cutting(spare, place);
        self.next_segment(spare, place)
    }

    fn begin_cutting(&mut self, spare: &mut SpareCutting, place: &mut Packet) {
        let mut cutting = spare.take().unwrap_or_default();
        cutting.next = 0;
        cutting.count = place.segment_count();
        place.move_to(&mut cutting.packet);
        self.cutting = Some(cutting);
    }

    /// The segments of a super-packet that nobody owned when it came are charged what they take (`skb_segment`). The
    /// device keeps no owner.
    #[cold]
    fn charge_orphan(&self, packet: &mut Packet) {
        let Meta { owner, truesize, gso_size, .. } = packet.meta;
        let len = packet.body.len;
        let of_tcp = packet.memory == Memory::Paged && gso_size > 0;
        if owner == Meta::NO_OWNER && of_tcp {
            let overhead = truesize.saturating_sub(len);
            let linear = !self.config.offloads.gso;
            packet.meta.truesize = truesize_of_segments(linear, len, gso_size.into(), overhead);
        }
    }

    #[inline]
    fn next_segment(&mut self, spare: &mut SpareCutting, place: &mut Packet) -> bool {
        let Some(cutting) = self.cutting.as_mut() else { return false };
        cutting.packet.cut_into(cutting.next, cutting.count, place);
        if !self.config.offloads.gso {
            place.memory = Memory::Cut;
        }
        cutting.next += 1;
        if cutting.next == cutting.count {
            // What is kept for the next one holds no frame.
            drop(cutting.packet.body.take());
            *spare = self.cutting.take();
        }
        true
    }

    /// Whether the device takes this packet as it is (`netif_needs_gso`).
    #[inline]
    fn takes_whole(&self, packet: &Packet) -> bool {
        packet.meta.gso_segs <= 1 || self.config.offloads.tso && packet.tcp().is_some()
    }

    /// Whether `packet` may go straight to the device, and counts it if so.
    #[inline]
    pub(super) fn bypass(&mut self, packet: &mut Packet) -> bool {
        let may = self.may_pass(packet);
        if may {
            self.qdisc.count_bypass(packet);
            self.count_sent(packet);
        }
        may
    }

    /// Whether `packet`, which the device wants in segments, may go past the queue, and makes it
    /// the next to be cut if so.
    #[inline]
    pub(super) fn bypass_to_be_cut(
        &mut self,
        spare: &mut SpareCutting,
        packet: &mut Packet,
    ) -> bool {
        let may = self.would_cut(packet);
        if may {
            self.qdisc.count_bypass(packet);
            if self.config.orphans {
                self.charge_orphan(packet);
            }
            self.begin_cutting(spare, packet);
            self.room.waiting = true;
        }
        may
    }

    /// Whether `packet` may go past the queue and is to be cut.
    #[inline]
    fn would_cut(&self, packet: &Packet) -> bool {
        self.may_bypass() && !self.takes_whole(packet)
    }

    /// Whether `packet` may go straight to the device.
    #[inline]
    pub(super) fn may_pass(&self, packet: &Packet) -> bool {
        self.may_bypass() && self.takes_whole(packet)
    }

    /// The owner of a packet has its memory back before it has left here: nothing holds it back, and the device keeps
    /// no owner (`veth_xmit`).
    pub(super) fn orphans_at_once(&self, packet: &Packet, now: Instant) -> bool {
        self.config.orphans && self.qdisc.passes(packet, now)
    }

    /// Whether `packet` is cut before the call that sends it returns.
    pub(super) fn cuts_at_once(&self, packet: &Packet, now: Instant) -> bool {
        !self.takes_whole(packet) && self.orphans_at_once(packet, now)
    }

    #[inline]
    fn may_bypass(&self) -> bool {
        let room = &self.room;
        !room.waiting && room.credits > 0 && room.up && self.qdisc.may_bypass()
    }

    #[inline]
    pub(super) fn count_received(&mut self, packet: &Packet) {
        self.stats.rx_packets += u64::from(packet.segments());
        self.stats.rx_bytes += u64::from(packet.wire_len());
    }

    #[inline]
    fn count_sent(&mut self, packet: &mut Packet) {
        if !self.config.offloads.gso && packet.memory.is_paged() {
            packet.memory = Memory::Linearised;
        }
        self.room.take(packet);
        self.stats.tx_packets += u64::from(packet.segments());
        self.stats.tx_bytes += u64::from(packet.wire_len());
    }

    /// When a port with credit whose queue gave nothing should be asked again.
    pub(super) fn watchdog(&self) -> Option<Instant> {
        if self.room.credits > 0 && self.room.up { self.qdisc.wake_at() } else { None }
    }

    /// When the timer of its queue fires at the latest, if it may fire from `now` on.
    pub(super) fn lax_timer(&self, now: Instant) -> Option<Instant> {
        let runs = self.room.credits > 0 && self.room.up;
        let (earliest, latest) = self.qdisc.fq().filter(|_| runs)?.timer_range()?;
        (earliest <= now).then_some(latest)
    }

    /// Whether a completion may be deferred: nothing waits for it, or what follows needs none because it is of
    /// a chain.
    #[inline]
    pub(super) fn may_defer(&mut self) -> bool {
        if self.is_cutting() {
            return self.room.xmit_more;
        }
        if self.room.waiting && self.qdisc.rests() {
            self.room.waiting = false;
        }
        !self.room.waiting
    }

    /// The number of segments of the super-packet that has begun to leave.
    #[inline]
    pub(super) fn segments(&self) -> u32 {
        self.cutting.as_ref().map_or(1, |cutting| cutting.count)
    }

    /// Whether segments of a super-packet that has begun to leave are still here.
    #[inline]
    fn is_cutting(&self) -> bool {
        self.cutting.is_some()
    }

    /// Whether the device takes what follows at once: the rest of a chain.
    #[inline]
    pub(super) fn has_chain(&self) -> bool {
        self.is_cutting() && self.room.xmit_more
    }

    /// Writes the next segment of the chain to `place`, whether there is credit or not.
    #[inline]
    pub(super) fn dequeue_chained(&mut self, spare: &mut SpareCutting, place: &mut Packet) -> bool {
        let is = self.next_segment(spare, place);
        if is {
            self.count_sent(place);
        }
        is
    }

    /// Takes the interface up or down. What waits when it goes down is discarded, whenever its time, and
    /// the qdisc counts it neither as sent nor as dropped (`dev_deactivate`, `qdisc_reset`).
    pub(super) fn set_up(&mut self, up: bool, cx: &mut Cx<'_>) {
        self.room.up = up;
        let mut segment = Packet::default();
        while !up && self.next_segment(&mut None, &mut segment) {
            self.stats.tx_dropped += 1;
            cx.drop(Reason::LinkDown, core::mem::take(&mut segment));
        }
        if !up {
            self.qdisc.purge(cx);
        }
    }

    /// Prefetches what every packet needs that arrives or leaves here.
    #[inline]
    pub(super) fn prefetch(&self) {
        prefetch(&self.config);
        prefetch(&self.room);
    }

    /// The same for what those need besides that leave here.
    #[inline]
    pub(super) fn prefetch_queue(&self) {
        prefetch(&self.cutting);
        self.qdisc.prefetch();
    }

    /// The queueing discipline at the root.
    pub fn qdisc(&self) -> &Sched {
        &self.qdisc
    }

    /// The queueing discipline at the root, to change it or what hangs below.
    pub fn qdisc_mut(&mut self) -> &mut Sched {
        self.room.waiting = true;
        &mut self.qdisc
    }

    /// How many packets the device has room for once all deferred completions have come; below zero while a
    /// chain has gone beyond.
    pub fn room(&self) -> i64 {
        self.room.in_the_end()
    }

    /// Whether the interface is up.
    pub fn is_up(&self) -> bool {
        self.room.up
    }

    /// What waits to be sent.
    pub fn backlog(&self) -> Backlog {
        self.qdisc.backlog() + self.cutting.as_ref().map_or(Backlog::default(), |it| it.backlog())
    }
}
