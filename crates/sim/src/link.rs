//! One direction of a wire: serialisation at a rate, then propagation.
//!
//! A packet is put on the link when its node sends it. It occupies the link until its last bit
//! has left; then the node gets its credit back. It reaches the far end one propagation delay
//! later. What a link without a rate takes leaves at once.

use datapath::node::{Done, Port};
use datapath::packet::{Meta, Packet};
use datapath::units::{Bytes, Duration, Instant, Rate};
use std::collections::VecDeque;

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
}

/// Counters of one direction of a wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct LinkStats {
    /// Packets put on the link, each segment of a super-packet counted.
    pub packets: u64,
    /// Bytes put on the link.
    pub bytes: u64,
    /// Packets that reached the far end.
    pub delivered: u64,
    /// Packets lost, damaged or cut off on the way.
    pub lost: u64,
    /// Copies that the link made.
    pub duplicated: u64,
}

/// One direction of a wire.
#[derive(Debug)]
pub struct Link {
    /// Rate, delay, ring.
    pub config: LinkConfig,
    /// The sending end.
    pub from: (NodeId, Port),
    /// The receiving end.
    pub to: (NodeId, Port),
    /// Counters.
    pub stats: LinkStats,
    pub(crate) up: bool,
    busy_until: Instant,
    /// What is being serialised or waits for it: when its last bit leaves.
    sending: VecDeque<(Instant, Done)>,
    /// What is on the way, in order of arrival, and when each arrives.
    flight: VecDeque<Packet>,
    arrivals: VecDeque<Instant>,
}

/// Which events a packet makes necessary: those of a queue that was empty before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) struct Arm {
    pub sent: Option<Instant>,
    pub arrival: Option<Instant>,
    /// The packet left in no time: credit is due now.
    pub done: Option<Done>,
}

impl Default for LinkConfig {
    fn default() -> Self {
        Self { rate: None, delay: Duration::ZERO, ring: 1 }
    }
}

impl LinkConfig {
    /// A link with this rate and delay.
    pub fn new(rate: Rate, delay: Duration) -> Self {
        Self { rate: Some(rate), delay, ..Self::default() }
    }
}

impl Link {
    pub(crate) fn new(config: LinkConfig, from: (NodeId, Port), to: (NodeId, Port)) -> Self {
        assert!(config.ring > 0, "a device that holds no packet never sends one");
        Self {
            config,
            from,
            to,
            stats: LinkStats::default(),
            up: true,
            busy_until: Instant::ZERO,
            sending: VecDeque::new(),
            flight: VecDeque::new(),
            arrivals: VecDeque::new(),
        }
    }

    /// Takes a packet from the node at the sending end.
    #[inline]
    pub(crate) fn put(&mut self, now: Instant, mut packet: Packet) -> Arm {
        let size = packet.wire_len();
        self.stats.packets += u64::from(packet.segments());
        self.stats.bytes += u64::from(size);
        let done = Done { owner: packet.meta.owner, truesize: packet.meta.truesize };
        packet.meta.owner = Meta::NO_OWNER;
        let mut arm = Arm::default();
        let left = match self.config.rate {
            None => {
                arm.done = Some(done);
                now
            }
            Some(rate) => {
                let left = self.busy_until.max(now) + rate.time_to_send(Bytes(size));
                self.busy_until = left;
                if self.sending.is_empty() {
                    arm.sent = Some(left);
                }
                self.sending.push_back((left, done));
                left
            }
        };
        let at = left + self.config.delay;
        if self.flight.is_empty() {
            arm.arrival = Some(at);
        }
        self.arrivals.push_back(at);
        self.flight.push_back(packet);
        arm
    }

    /// What has left by `now`, one at a time.
    #[inline]
    pub(crate) fn take_sent(&mut self, now: Instant) -> Option<Done> {
        let &(at, done) = self.sending.front()?;
        if at > now {
            return None;
        }
        self.sending.pop_front();
        Some(done)
    }

    /// When the next packet will have left.
    #[inline]
    pub(crate) fn next_sent(&self) -> Option<Instant> {
        self.sending.front().map(|(at, _)| *at)
    }

    /// The packet that arrives now.
    #[inline]
    pub(crate) fn take_arrival(&mut self, now: Instant) -> Option<Packet> {
        if *self.arrivals.front()? > now {
            return None;
        }
        self.arrivals.pop_front();
        let packet = self.flight.pop_front()?;
        self.stats.delivered += u64::from(packet.segments());
        Some(packet)
    }

    /// When the next packet arrives.
    #[inline]
    pub(crate) fn next_arrival(&self) -> Option<Instant> {
        self.arrivals.front().copied()
    }

    /// Packets that are on the link: being serialised or on the way.
    pub fn in_flight(&self) -> u64 {
        self.flight.iter().map(|packet| u64::from(packet.segments())).sum()
    }
}
