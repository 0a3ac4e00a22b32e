//! What is between the hosts: two devices with room for a few packets, and a path that loses, duplicates, delays and
//! damages packets.

use std::collections::{BTreeMap, VecDeque};

use datapath::packet::Packet;
use datapath::rng::Rng;
use datapath::units::{Bytes, Duration, Instant, Rate};

use super::step::Wire;

/// What comes from the wire.
#[derive(Debug)]
pub enum Event {
    /// The device of this host has sent a packet, and can take one more; the host has to be told or
    /// knows already.
    Sent(usize, bool),
    /// A packet arrives at this host.
    Arrives(usize, Box<Packet>),
}

/// Both directions.
#[derive(Debug)]
pub struct Wires {
    config: Wire,
    luck: Rng,
    /// When the device of each host is done with all that it has taken.
    free_at: [Instant; 2],
    sent: [VecDeque<(Instant, bool)>; 2],
    /// By time, and of equal times in the order in which they were sent.
    arrivals: BTreeMap<(Instant, u64), (usize, Box<Packet>)>,
    count: u64,
}

impl Wires {
    /// Nothing is under way.
    pub fn new(config: Wire, luck: u32) -> Self {
        Self {
            config,
            luck: Rng::stream(u64::from(luck), 1),
            free_at: [Instant::ZERO; 2],
            sent: [VecDeque::new(), VecDeque::new()],
            arrivals: BTreeMap::new(),
            count: 0,
        }
    }

    /// From now on nothing is lost, doubled, damaged or overtaken.
    pub fn repair(&mut self) {
        let Wire { rate, delay, ring, gro, promises, .. } = self.config;
        let rate = if rate == 0 { 0 } else { rate.max(1_000) };
        self.config = Wire { rate, delay, ring, gro, promises, ..Wire::default() };
    }

    /// The device of a host takes a packet: gives when it will have sent it.
    pub fn transmit(&mut self, now: Instant, from: usize, packet: Packet) -> Instant {
        let length = u64::from(packet.len());
        let spent = match self.config.rate {
            0 => Duration::from_nanos(length),
            kbit => {
                Rate::from_bits_per_sec(u64::from(kbit) * 1_000).time_to_send(Bytes(packet.len()))
            }
        };
        let left = self.free_at[from].max(now) + spent;
        self.free_at[from] = left;
        if self.happens(self.config.loss) {
            return left;
        }
        let mut packet = packet;
        if self.happens(self.config.corruption) {
            packet.damage();
        }
        if self.happens(self.config.duplication) {
            self.travel(left, from, packet.clone());
        }
        self.travel(left, from, packet);
        left
    }

    /// Whether the host is told when its device has sent a packet, or knows it beforehand.
    pub fn on_sent(&mut self, from: usize, left: Instant, told: bool) {
        self.sent[from].push_back((left, told));
    }

    /// Devices say beforehand when they will have room again.
    pub fn promises(&self) -> bool {
        self.config.promises
    }

    fn travel(&mut self, left: Instant, from: usize, packet: Packet) {
        let jitter = self.luck.below(u64::from(self.config.jitter) + 1);
        let delay = Duration::from_micros(u64::from(self.config.delay) + jitter);
        self.count += 1;
        self.arrivals.insert((left + delay, self.count), (1 - from, Box::new(packet)));
    }

    fn happens(&mut self, thousandths: u16) -> bool {
        thousandths > 0 && self.luck.below(1_000) < u64::from(thousandths)
    }

    /// When something comes next.
    pub fn next_at(&self) -> Option<Instant> {
        let sent = self.sent.iter().filter_map(|queue| queue.front()).map(|(at, _)| *at);
        let arrival = self.arrivals.keys().next().map(|(at, _)| *at);
        sent.chain(arrival).min()
    }

    /// What comes at `now`, one by one.
    pub fn pop(&mut self, now: Instant) -> Option<Event> {
        for (host, queue) in self.sent.iter_mut().enumerate() {
            if queue.front().is_some_and(|(at, _)| *at <= now) {
                let (_, told) = queue.pop_front()?;
                return Some(Event::Sent(host, told));
            }
        }
        let entry = self.arrivals.first_entry().filter(|entry| entry.key().0 <= now)?;
        let (host, packet) = entry.remove();
        Some(Event::Arrives(host, packet))
    }
}
