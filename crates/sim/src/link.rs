//! One direction of a wire: serialisation at a rate, then propagation.
//!
//! A packet is put on the link when its node sends it. It occupies the link until its last bit
//! has left; then the node gets its credit back. It reaches the far end one propagation delay
//! later; until then it waits in the calendar. On a link without a rate packets leave at once.

use crate::impairment::{Delivery, Impairments};
use crate::record::Watchers;
use crate::rules::{Direction, Rule, Rules};
use crate::schedule::{Schedule, ScheduleCursor};
use datapath::node::Port;
use datapath::packet::{Meta, Packet};
use datapath::prefetch::prefetch;
use datapath::units::{Bytes, Duration, Instant, NANOS_PER_SEC, Rate};
use std::collections::VecDeque;
use std::sync::Arc;

pub use crate::event::{LinkId, NodeId};
pub use crate::impairment::Chances;

/// The configuration of one direction of a wire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkConfig {
    /// Serialisation rate; `None` takes no time.
    pub rate: Option<Rate>,
    /// Propagation delay.
    pub delay: Duration,
    /// How rate and delay change, in place of those.
    pub schedule: Option<Arc<Schedule>>,
    /// Packets that the device at the sending end holds besides its queue (TX ring with byte
    /// queue limits): the credit of the port. At least one.
    pub ring: u32,
    /// Chances of impairments on the way.
    pub chances: Chances,
    /// Rules of impairments, applied before the chances, at the time when the last bit of a packet has left.
    pub rules: Vec<Rule>,
    /// The direction of this link in the sense of the rules.
    pub direction: Direction,
    /// The device segments super-packets and puts their segments on the wire one by one, as a network
    /// card does; otherwise they cross whole, as between two veth.
    pub segments_super_packets: bool,
    /// Both ends are in one kernel (veth): the hash that a packet's socket has drawn goes along. A
    /// wire carries bytes only.
    pub veth: bool,
}

/// Counters of one direction of a wire. Segments of super-packets are counted one by one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct LinkStats {
    /// Packets put on the link.
    pub packets: u64,
    /// Bytes put on the link.
    pub bytes: u64,
    /// Packets lost, damaged or cut off on the way.
    pub lost: u64,
    /// Copies that the link made.
    pub duplicated: u64,
}

/// One direction of a wire.
///
/// Ordered by use: most packets find what they need in the first two cache lines.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Link {
    busy_until: Instant,
    /// How long the latest size took at this rate: most packets on a link are of one size, and
    /// comparing costs less than dividing.
    latest: (u32, Duration),
    delay: Duration,
    /// Counters.
    pub stats: LinkStats,
    rate: Option<Rate>,
    /// What is being serialised, if anything is: when its last bit leaves.
    leaving_at: Instant,
    /// The receiving end, in the numbers of the partition; an index in its `away` if it is in another one.
    pub(crate) far: (NodeId, Port),
    impairments: Option<Box<Impairments>>,
    /// Its schedule, if it changes. Then its rate is none, or its delay the least in the schedule.
    place: Option<Box<ScheduleCursor>>,
    /// Watchers of packets put on it.
    pub(crate) watchers: Option<Box<Watchers>>,
    veth: bool,
    pub(crate) up: bool,
    /// Super-packets are cut here.
    pub(crate) segments_super_packets: bool,
    /// The sending end, in the numbers of the partition.
    pub(crate) near: (NodeId, Port),
    /// When the packets that wait in the ring will have left.
    ring: VecDeque<Instant>,
    /// The sending end.
    pub from: (NodeId, Port),
    /// The receiving end.
    pub to: (NodeId, Port),
}

/// The result of putting a packet on a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Transmission {
    /// An event for the end of the transmission.
    pub sent: Option<Instant>,
    /// The packet left in no time: credit is due now.
    pub at_once: bool,
    /// When its last bit leaves.
    pub leaves: Instant,
    /// Where it arrives, how long that takes from then on, and whether impairments are possible.
    pub way: ((NodeId, Port), Duration, bool),
}

impl Default for LinkConfig {
    fn default() -> Self {
        Self {
            rate: None,
            delay: Duration::ZERO,
            schedule: None,
            ring: 1,
            chances: Chances::default(),
            rules: Vec::new(),
            direction: Direction::Forward,
            segments_super_packets: false,
            veth: false,
        }
    }
}

impl LinkConfig {
    /// A link with this rate and delay.
    pub fn new(rate: Rate, delay: Duration) -> Self {
        Self { rate: Some(rate), delay, ..Self::default() }
    }

    /// A link with a delay only.
    pub fn delay(delay: Duration) -> Self {
        Self { delay, ..Self::default() }
    }
}

impl Link {
    pub(crate) fn new(
        config: &LinkConfig,
        from: (NodeId, Port),
        to: (NodeId, Port),
        seed: u64,
        id: LinkId,
    ) -> Self {
        assert!(config.ring > 0, "a device that holds no packet never sends one");
        let rules = Rules::new(&config.rules, config.direction);
        let schedule = config.schedule.as_ref();
        let delays = schedule.is_some_and(|schedule| schedule.delays());
        let paced = schedule.is_some_and(|schedule| schedule.paces());
        let impairments = !rules.is_empty() || !config.chances.is_none() || delays;
        Self {
            busy_until: Instant::ZERO,
            rate: if paced { None } else { config.rate },
            latest: (0, Duration::ZERO),
            // Epochs are as long as the shortest delay in the schedule.
            delay: schedule.and_then(|schedule| schedule.least_delay()).unwrap_or(config.delay),
            place: schedule.map(|schedule| Box::new(ScheduleCursor::new(Arc::clone(schedule)))),
            watchers: None,
            veth: config.veth,
            leaving_at: Instant::FAR_FUTURE,
            ring: VecDeque::new(),
            near: from,
            far: to,
            from,
            to,
            stats: LinkStats::default(),
            impairments: impairments
                .then(|| Box::new(Impairments::new(rules, config.chances, seed, id.0))),
            up: true,
            segments_super_packets: config.segments_super_packets,
        }
    }

    /// Takes a segment of a super-packet that is not the last: its departure is not reported.
    pub(crate) fn transmit_segment(&mut self, now: Instant, packet: &mut Packet) -> Transmission {
        let size = self.count(packet);
        let leaves = self.leaves_at(now, size);
        let way = (self.far, self.delay, self.is_impaired());
        Transmission { sent: None, at_once: false, leaves, way }
    }

    /// Counts a packet that is put on this link; gives its size.
    #[inline]
    fn count(&mut self, packet: &mut Packet) -> u32 {
        let size = packet.wire_len();
        self.stats.packets += u64::from(packet.segments());
        self.stats.bytes += u64::from(size);
        packet.meta.owner = Meta::NO_OWNER;
        size
    }

    /// Prefetches what a packet needs that is put on this link.
    #[inline]
    pub(crate) fn prefetch(&self) {
        prefetch(&self.busy_until);
        prefetch(&self.rate);
    }

    /// When the last bit of the next `size` bytes will have left: behind all that went before, also
    /// where the link had a rate until now.
    #[inline]
    fn leaves_at(&mut self, now: Instant, size: u32) -> Instant {
        let Some(rate) = self.rate else { return self.leaves_unpaced_at(now, size) };
        if self.latest.0 != size {
            self.latest = (size, rate.time_to_send(Bytes(size)));
        }
        self.busy_until = self.busy_until.max(now) + self.latest.1;
        self.busy_until
    }

    /// The same of a link without a rate, or whose rate changes.
    fn leaves_unpaced_at(&mut self, now: Instant, size: u32) -> Instant {
        let start = now.max(self.busy_until);
        let Some(place) = self.place.as_mut().filter(|place| place.schedule.paces()) else {
            return start;
        };
        self.busy_until = match place.schedule.rate_at(start) {
            Some(rate) => start + rate.time_to_send(Bytes(size)),
            None => place.leave(start, size),
        };
        self.busy_until
    }

    /// Takes a packet from the node at the sending end. `credit_at` tells the node now when the packet
    /// will have left; if it returns false, there is an event at that time.
    #[inline]
    pub(crate) fn transmit(
        &mut self,
        now: Instant,
        packet: &mut Packet,
        credit_at: impl FnOnce(Instant) -> bool,
    ) -> Transmission {
        let size = self.count(packet);
        if !self.veth {
            packet.meta.hash = 0;
        }
        let leaves = self.leaves_at(now, size);
        let mut sent = None;
        // Without a rate it leaves at once, unless what came before with one is still leaving.
        let at_once = self.rate.is_none() && leaves <= now;
        if !at_once {
            if self.leaving_at < Instant::FAR_FUTURE {
                self.ring.push_back(leaves);
            } else if !credit_at(leaves) {
                self.leaving_at = leaves;
                sent = Some(leaves);
            }
        }
        Transmission { sent, at_once, leaves, way: (self.far, self.delay, self.is_impaired()) }
    }

    /// Whether impairments are possible.
    #[inline]
    pub(crate) fn is_impaired(&self) -> bool {
        self.impairments.is_some()
    }

    /// What happens to a packet whose last bit leaves at `leaves`.
    pub(crate) fn decide(&mut self, leaves: Instant, packet: &mut Packet) -> Delivery {
        let impairments = self.impairments.as_mut().expect("asked before");
        let schedule = self.place.as_ref().map(|place| &place.schedule);
        let delay = match schedule {
            Some(schedule) if schedule.delays() => schedule.delay_at(leaves),
            _ => self.delay,
        };
        let fate = impairments.decide(leaves, delay, packet);
        let segments = u64::from(packet.segments());
        match fate {
            Delivery::Lost => self.stats.lost += segments,
            Delivery::Arrives { copy_at: Some(_), .. } => self.stats.duplicated += segments,
            Delivery::Arrives { .. } => {}
        }
        fate
    }

    /// Whether another packet has left by `now`; counts it.
    #[inline]
    pub(crate) fn take_sent(&mut self, now: Instant) -> bool {
        if self.leaving_at > now {
            return false;
        }
        self.leaving_at = self.ring.pop_front().unwrap_or(Instant::FAR_FUTURE);
        true
    }

    /// When the next packet will have left.
    #[inline]
    pub(crate) fn next_sent(&self) -> Option<Instant> {
        (self.leaving_at < Instant::FAR_FUTURE).then_some(self.leaving_at)
    }

    /// The propagation delay; with a schedule the shortest in it.
    #[inline]
    pub fn delay(&self) -> Duration {
        self.delay
    }

    /// How many bytes the link could have carried by `now`, if it has a rate.
    pub fn capacity_by(&self, now: Instant) -> Option<u64> {
        let Some(rate) = self.rate else {
            return self.place.as_ref().and_then(|place| place.schedule.capacity_by(now));
        };
        let nanos = u128::from((now - Instant::ZERO).as_nanos());
        let bytes = nanos * u128::from(rate.bits_per_sec()) / (8 * u128::from(NANOS_PER_SEC));
        Some(bytes as u64)
    }

    /// How many bytes have left by `now`, including the sent part of the packet being serialised.
    pub fn bytes_left_by(&self, now: Instant) -> u64 {
        let unsent = self.capacity_by(self.busy_until).zip(self.capacity_by(now));
        let unsent = unsent.map_or(0, |(later, now)| later.saturating_sub(now));
        self.stats.bytes.saturating_sub(unsent)
    }

    /// The serialisation rate, where it does not change by a schedule.
    pub fn rate(&self) -> Option<Rate> {
        self.rate
    }

    /// Changes the serialisation rate for later packets; a link with a schedule stays as it is.
    pub fn set_rate(&mut self, rate: Option<Rate>) {
        if self.place.as_ref().is_some_and(|place| place.schedule.paces()) {
            return;
        }
        self.rate = rate;
        self.latest = (0, Duration::ZERO);
    }

    /// Ends impairments: later packets meet neither rules nor chances.
    pub fn end_impairments(&mut self) {
        if let Some(impairments) = &mut self.impairments {
            impairments.end();
        }
    }

    /// The rules with the number of times that each has decided.
    pub fn rule_hits(&self) -> Vec<(Rule, u64)> {
        self.impairments
            .as_ref()
            .map_or(Vec::new(), |impairments| impairments.rules.hits().collect())
    }
}
