//! One direction of a wire: serialisation at a rate, then propagation.
//!
//! A packet is put on the link when its node sends it. It occupies the link until its last bit
//! has left; then the node gets its credit back. It reaches the far end one propagation delay
//! later. What a link without a rate takes leaves at once.

use crate::lanes::{Coming, LaneId, Lanes};
use crate::pool::{PacketId, Pool, Queue};
use crate::rules::{Direction, Rule, Rules};
use crate::schedule::Slot;
use crate::trouble::{Fate, Trouble};
use datapath::node::Port;
use datapath::packet::Meta;
use datapath::prefetch::prefetch;
use datapath::units::{Bytes, Duration, Instant, Rate};
use std::collections::VecDeque;

pub use crate::trouble::Chances;

/// Index of a link (one direction) in its world.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LinkId(pub u32);

/// Index of a node in its world.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId(pub u32);

/// What one direction of a wire is made with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkConfig {
    /// Serialisation rate; `None` takes no time.
    pub rate: Option<Rate>,
    /// Propagation delay.
    pub delay: Duration,
    /// Packets that the device at the sending end holds besides its queue (TX ring with byte
    /// queue limits): the credit of the port. At least one.
    pub ring: u32,
    /// Chances of trouble on the way.
    pub chances: Chances,
    /// Rules of trouble on the way, asked before the chances, at the time when the last bit of a
    /// packet has left.
    pub rules: Vec<Rule>,
    /// The direction of this link in the words of the rules.
    pub direction: Direction,
    /// The device cuts super-packets and puts their segments on the wire one by one, as a network
    /// card does; otherwise they cross whole, as between two veth.
    pub cuts: bool,
    /// Both ends are in one kernel (veth): the hash that a packet's sender has drawn goes along. A
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
    /// The receiving end.
    pub to: (NodeId, Port),
    trouble: Option<Box<Trouble>>,
    id: LinkId,
    /// Where packets are on their way, if there is no trouble and they are not too late for it.
    lane: Option<LaneId>,
    veth: bool,
    pub(crate) up: bool,
    /// Super-packets are cut here.
    pub(crate) cuts: bool,
    /// Something is in the queue of this link.
    queued: bool,
    /// What is on the way but not on a lane, in order of arrival.
    flight: Queue,
    /// The arrival that is waited for; `FAR_FUTURE` if none.
    armed: Instant,
    /// The sending end.
    pub from: (NodeId, Port),
    /// When what waits in the ring to be serialised will have left.
    ring: VecDeque<Instant>,
    /// Where the two kinds of its events stand, once there have been some: [`Link::SENT`],
    /// [`Link::ARRIVAL`].
    pub(crate) slots: [Option<Slot>; 2],
}

/// What a packet put on a link makes necessary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Put {
    /// An event for the end of the transmission.
    pub sent: Option<Instant>,
    /// The packet left in no time: credit is due now.
    pub left: bool,
    /// What becomes of it on the way.
    pub flight: Flight,
}

/// What a packet on its way makes necessary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flight {
    /// Nothing: it arrives with others, or after them.
    Waits,
    /// An event for the arrival.
    Arrives(Instant),
    /// The packet is lost.
    Lost,
}

impl Default for LinkConfig {
    fn default() -> Self {
        Self {
            rate: None,
            delay: Duration::ZERO,
            ring: 1,
            chances: Chances::default(),
            rules: Vec::new(),
            direction: Direction::Forward,
            cuts: false,
            veth: false,
        }
    }
}

impl LinkConfig {
    /// A link with this rate and delay.
    pub fn new(rate: Rate, delay: Duration) -> Self {
        Self { rate: Some(rate), delay, ..Self::default() }
    }

    /// A link that only takes time.
    pub fn delay(delay: Duration) -> Self {
        Self { delay, ..Self::default() }
    }
}

impl Link {
    /// Which of the slots is for the end of a transmission.
    pub(crate) const SENT: usize = 0;
    /// Which of the slots is for an arrival.
    pub(crate) const ARRIVAL: usize = 1;

    pub(crate) fn new(
        config: &LinkConfig,
        from: (NodeId, Port),
        to: (NodeId, Port),
        seed: u64,
        id: LinkId,
        lanes: &mut Lanes,
    ) -> Self {
        assert!(config.ring > 0, "a device that holds no packet never sends one");
        let rules = Rules::new(&config.rules, config.direction);
        let trouble = !rules.is_empty() || !config.chances.is_none();
        Self {
            busy_until: Instant::ZERO,
            rate: config.rate,
            latest: (0, Duration::ZERO),
            delay: config.delay,
            veth: config.veth,
            leaving_at: Instant::FAR_FUTURE,
            queued: false,
            ring: VecDeque::new(),
            id,
            lane: if trouble { None } else { lanes.lane_for(config.rate, config.delay) },
            flight: Queue::default(),
            armed: Instant::FAR_FUTURE,
            from,
            to,
            stats: LinkStats::default(),
            trouble: trouble.then(|| Box::new(Trouble::new(rules, config.chances, seed, id.0))),
            slots: [None; 2],
            up: true,
            cuts: config.cuts,
        }
    }

    /// Takes a segment of a super-packet that is not the last: nobody is told when it has left.
    pub(crate) fn put_segment(
        &mut self,
        now: Instant,
        (pool, lanes): (&mut Pool, &mut Lanes),
        id: PacketId,
    ) -> Put {
        let packet = pool.get_mut(id);
        let size = packet.wire_len();
        self.stats.packets += u64::from(packet.segments());
        self.stats.bytes += u64::from(size);
        packet.meta.owner = Meta::NO_OWNER;
        let left = self.leaves_at(now, size);
        let flight = self.put_in_flight(left, (pool, lanes), id);
        Put { sent: None, left: false, flight }
    }

    /// The caches are asked for what a packet needs that is put on this link.
    #[inline]
    pub(crate) fn foresee(&self) {
        prefetch(&self.busy_until);
        prefetch(&self.rate);
    }

    /// The caches are asked for what a packet needs that arrives.
    #[inline]
    pub(crate) fn foresee_arrival(&self) {
        prefetch(&self.to);
    }

    /// When the last bit of the next `size` bytes will have left: behind all that went before, also
    /// where the link had a rate until now.
    #[inline]
    fn leaves_at(&mut self, now: Instant, size: u32) -> Instant {
        let Some(rate) = self.rate else { return now.max(self.busy_until) };
        if self.latest.0 != size {
            self.latest = (size, rate.time_to_send(Bytes(size)));
        }
        self.busy_until = self.busy_until.max(now) + self.latest.1;
        self.busy_until
    }

    #[inline]
    fn put_in_flight(
        &mut self,
        left: Instant,
        (pool, lanes): (&mut Pool, &mut Lanes),
        packet: PacketId,
    ) -> Flight {
        if self.trouble.is_some() {
            return self.put_in_trouble(left, pool, packet);
        }
        let at = left + self.delay;
        let (link, to) = (self.id, self.to);
        // What has gone into the queue of this link stays ahead of what follows it.
        match self.lane {
            Some(lane) if !self.queued && lanes.insert(lane, Coming { at, link, packet }, to) => {
                Flight::Waits
            }
            _ => self.insert(at, packet),
        }
    }

    /// Takes a packet from the node at the sending end. `credit_at` is asked whether it is enough
    /// to tell the node now when the packet will have left; else there is an event at that time.
    #[inline]
    pub(crate) fn put(
        &mut self,
        now: Instant,
        (pool, lanes): (&mut Pool, &mut Lanes),
        id: PacketId,
        credit_at: impl FnOnce(Instant) -> bool,
    ) -> Put {
        let packet = pool.get_mut(id);
        let size = packet.wire_len();
        self.stats.packets += u64::from(packet.segments());
        self.stats.bytes += u64::from(size);
        packet.meta.owner = Meta::NO_OWNER;
        if !self.veth {
            packet.hash = 0;
        }
        let left = self.leaves_at(now, size);
        let mut sent = None;
        // Without a rate it leaves at once, unless what came before with one is still leaving.
        let at_once = self.rate.is_none() && left <= now;
        if !at_once {
            if self.leaving_at < Instant::FAR_FUTURE {
                self.ring.push_back(left);
            } else if !credit_at(left) {
                self.leaving_at = left;
                sent = Some(left);
            }
        }
        let flight = self.put_in_flight(left, (pool, lanes), id);
        Put { sent, left: at_once, flight }
    }

    fn put_in_trouble(&mut self, left: Instant, pool: &mut Pool, id: PacketId) -> Flight {
        let trouble = self.trouble.as_mut().expect("asked for trouble");
        let packet = pool.get_mut(id);
        let segments = u64::from(packet.segments());
        match trouble.decide(left, self.delay, packet) {
            Fate::Lost => {
                self.stats.lost += segments;
                Flight::Lost
            }
            Fate::Arrives { at, damaged, copy_at } => {
                if damaged {
                    trouble.damaged.insert(id);
                }
                let flight = self.insert(at, id);
                let Some(at) = copy_at else { return flight };
                self.stats.duplicated += segments;
                let copy = pool.get(id).clone();
                let copy = pool.insert(copy);
                // The earlier one is what is waited for.
                match self.insert(at, copy) {
                    Flight::Waits => flight,
                    earlier => earlier,
                }
            }
        }
    }

    #[inline]
    fn insert(&mut self, at: Instant, id: PacketId) -> Flight {
        self.flight.insert(id, at);
        self.queued = true;
        if at < self.armed {
            self.armed = at;
            return Flight::Arrives(at);
        }
        Flight::Waits
    }

    /// Whether a packet has left by `now`, one at a time.
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

    /// Where its packets are on their way, as a rule.
    pub(crate) fn lane(&self) -> Option<LaneId> {
        self.lane
    }

    /// The packet that arrives now from the queue of this link; none if the link has been cut
    /// meanwhile.
    #[inline]
    pub(crate) fn take_arrival(&mut self, now: Instant) -> Option<PacketId> {
        if self.flight.first_at() > now {
            return None;
        }
        self.flight.pop()
    }

    /// Whether the packet that has just arrived is damaged.
    #[inline]
    pub(crate) fn was_damaged(&mut self, id: PacketId) -> bool {
        self.trouble
            .as_mut()
            .is_some_and(|trouble| !trouble.damaged.is_empty() && trouble.damaged.remove(&id))
    }

    /// When the next packet arrives, which is waited for from now on.
    #[inline]
    pub(crate) fn rearm(&mut self) -> Option<Instant> {
        self.armed = self.flight.first_at();
        self.queued = !self.flight.is_empty();
        (self.armed < Instant::FAR_FUTURE).then_some(self.armed)
    }

    /// Cuts off what is on the way.
    pub(crate) fn cut(&mut self, lanes: &mut Lanes) -> Vec<PacketId> {
        let mut cut = self.lane.map_or(Vec::new(), |lane| lanes.cut(lane, self.id));
        cut.extend(std::iter::from_fn(|| self.flight.pop()));
        self.queued = false;
        // Their numbers will be those of other packets.
        if let Some(trouble) = &mut self.trouble {
            trouble.damaged.clear();
        }
        cut
    }

    /// Packets that are on the link, being serialised or on the way; a super-packet is one.
    pub(crate) fn in_flight(&self, lanes: &Lanes) -> usize {
        self.lane.map_or(0, |lane| lanes.count(lane, self.id)) + self.flight.len()
    }

    /// The serialisation rate.
    pub fn rate(&self) -> Option<Rate> {
        self.rate
    }

    /// Changes the serialisation rate for packets to come.
    pub fn set_rate(&mut self, rate: Option<Rate>) {
        self.rate = rate;
        self.latest = (0, Duration::ZERO);
    }

    /// Ends what goes wrong on the link: packets to come meet neither rules nor chances.
    pub fn end_trouble(&mut self) {
        if let Some(trouble) = &mut self.trouble {
            trouble.end();
        }
    }

    /// The rules with the number of times that each has decided.
    pub fn rule_hits(&self) -> Vec<(Rule, u64)> {
        self.trouble.as_ref().map_or(Vec::new(), |trouble| trouble.rules.hits().collect())
    }
}
