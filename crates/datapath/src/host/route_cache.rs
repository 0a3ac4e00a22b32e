//! Answers of the route look-up, remembered by destination.
//!
//! Where nothing but the destination decides about the route (default rules, no TOS routes), it stays
//! the same for an address until the routes change: so does its next hop, or the ones it has to choose from. Routers ask again for the
//! same addresses all the time, and a walk through rules and tables costs more than everything
//! else they do with a packet. The kernel keeps such answers in sockets and next hops
//! (`dst_entry`, `rt_cache`). Where a flow has several next hops and always gets the same one, that one is
//! remembered too: the hash costs as much as the rest of the look-up.

use crate::fib::{Candidates, Choice, Decision, Fib, RouteKey};
use crate::packet::{Network, Packet};
use crate::prefetch::prefetch_at;
use core::net::Ipv4Addr;

/// Where a packet goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RouteResult {
    /// Out of this port.
    Out(u16),
    /// To this host.
    Local,
    /// Nowhere.
    Refused(Decision),
}

/// What is remembered of a destination.
#[derive(Clone, Copy, Debug)]
pub(super) enum Remembered {
    /// All packets to it go there.
    Way(RouteResult),
    /// Each packet chooses from these.
    Among(Candidates),
}

/// A direct-mapped table of answers, made at the first look-up after a change.
#[derive(Debug, Default)]
pub(super) struct RouteCache {
    slots: Vec<Slot>,
    /// How far a digest is shifted for the number of its slot.
    shift: u32,
    /// Answers that have taken the slot of another address since the table has this size.
    conflicts: usize,
    state: State,
    /// Ports by flow; none until a flow is remembered.
    flows: Vec<(Flow, u16)>,
}

/// What chooses among next hops by `fib_multipath_hash_policy` 1, of a packet that passes through.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Flow {
    src: u32,
    dst: u32,
    ports: u32,
    /// 0 of no flow.
    protocol: u8,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    /// The routes have changed since.
    #[default]
    Stale,
    /// Answers may be remembered.
    Usable,
    /// More than the destination decides.
    Useless,
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    dst: u32,
    answer: Answer,
}

#[derive(Clone, Copy, Debug)]
enum Answer {
    Empty,
    Local,
    Out(u16),
    Among(Candidates),
}

/// The most answers that are remembered.
const SLOTS_MAX: usize = 1 << 19;
const SLOTS_MIN: usize = 4;
/// From so many routes on the slots lie further apart.
const MANY: usize = 1024;
/// So many flows are remembered, a power of two.
const FLOWS: usize = 256;

impl Flow {
    /// The flow of a packet, if nothing but its ports, its addresses and its protocol count.
    #[inline]
    pub fn of(packet: &Packet) -> Option<Self> {
        let Network::Ipv4(ip) = &packet.network else { return None };
        let (src_port, dst_port) = packet.transport.ports()?;
        if packet.extra.is_some() || ip.is_fragment() {
            return None;
        }
        let ports = u32::from(src_port) << 16 | u32::from(dst_port);
        let protocol = ip.protocol;
        Some(Self { src: ip.src.to_bits(), dst: ip.dst.to_bits(), ports, protocol })
    }

    #[inline]
    fn place(self) -> usize {
        let ends = u64::from(self.src) << 32 | u64::from(self.dst);
        let mixed = (ends ^ u64::from(self.ports).rotate_left(20)).wrapping_mul(SPREAD_64);
        (mixed >> (u64::BITS - FLOWS.trailing_zeros())) as usize
    }
}

impl RouteCache {
    /// The routes have changed.
    pub fn forget(&mut self) {
        self.state = State::Stale;
        self.flows.fill((Flow::default(), 0));
    }

    /// The port that is remembered of a flow whose destination has several next hops.
    #[inline]
    pub fn recall_flow(&self, flow: Flow) -> Option<u16> {
        let (held, port) = self.flows.get(flow.place())?;
        (*held == flow).then_some(*port)
    }

    /// Remembers the port of a flow, in place of another one.
    pub fn learn_flow(&mut self, flow: Flow, port: u16) {
        if self.flows.is_empty() {
            self.flows.resize(FLOWS, (Flow::default(), 0));
        }
        self.flows[flow.place()] = (flow, port);
    }

    /// What is remembered of `dst`.
    #[inline]
    pub fn recall(&self, dst: Ipv4Addr) -> Option<Remembered> {
        if self.state != State::Usable {
            return None;
        }
        let dst = dst.to_bits();
        let slot = &self.slots[self.place(dst)];
        if slot.dst != dst {
            return None;
        }
        match slot.answer {
            Answer::Out(port) => Some(Remembered::Way(RouteResult::Out(port))),
            Answer::Local => Some(Remembered::Way(RouteResult::Local)),
            Answer::Among(candidates) => Some(Remembered::Among(candidates)),
            Answer::Empty => None,
        }
    }

    /// The caches are asked for the answer for `dst`.
    #[inline]
    pub fn prefetch(&self, dst: Ipv4Addr) {
        if self.state == State::Usable {
            prefetch_at(&self.slots, self.place(dst.to_bits()));
        }
    }

    /// Remembers an answer that `fib` has given to `key`.
    pub fn learn(&mut self, fib: &Fib, dst: Ipv4Addr, key: &RouteKey, way: RouteResult) {
        if self.state == State::Stale {
            self.renew(fib);
        }
        if self.state == State::Usable {
            let answer = match way {
                RouteResult::Out(port) => match fib.choice(key) {
                    Choice::None => Answer::Out(port),
                    Choice::Among(candidates) => Answer::Among(candidates),
                    Choice::Object => return,
                },
                RouteResult::Local => Answer::Local,
                RouteResult::Refused(_) => return,
            };
            let dst = dst.to_bits();
            let held = self.slots[self.place(dst)];
            if !matches!(held.answer, Answer::Empty) && held.dst != dst {
                self.conflicts += 1;
                self.grow_if_crowded();
            }
            let place = self.place(dst);
            self.slots[place] = Slot { dst, answer };
        }
    }

    /// A route may be for more addresses than one: how many are asked for turns out later.
    fn grow_if_crowded(&mut self) {
        let size = self.slots.len();
        if self.conflicts > 2 * size && size < SLOTS_MAX {
            self.resize(2 * size);
        }
    }

    fn resize(&mut self, size: usize) {
        self.shift = 32 - size.trailing_zeros();
        self.conflicts = 0;
        self.slots.clear();
        self.slots.reserve_exact(size);
        self.slots.resize(size, Slot { dst: 0, answer: Answer::Empty });
    }

    fn renew(&mut self, fib: &Fib) {
        self.slots.clear();
        self.state = State::Useless;
        if fib.decides_by_destination() {
            self.state = State::Usable;
            // Where there are many, two that share a slot cost a walk each time.
            let spread = if fib.len() < MANY { 2 } else { 8 };
            let size = (spread * fib.len()).next_power_of_two().clamp(SLOTS_MIN, SLOTS_MAX);
            self.resize(size);
        }
    }

    #[inline]
    fn place(&self, dst: u32) -> usize {
        (dst.wrapping_mul(SPREAD) >> self.shift) as usize
    }
}

impl From<Decision> for RouteResult {
    fn from(decision: Decision) -> Self {
        match decision {
            Decision::Forward(hop) => Self::Out(hop.port),
            Decision::Local => Self::Local,
            refused => Self::Refused(refused),
        }
    }
}

/// An odd constant that spreads neighbouring addresses (2³² divided by the golden ratio).
const SPREAD: u32 = 0x9e37_79b1;
/// The same of 2⁶⁴.
const SPREAD_64: u64 = 0x9e37_79b9_7f4a_7c15;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fib::{Prefix, Route};

    /// More flows than there is room for: each is itself or forgotten, and all are once the routes change.
    #[test]
    fn flows_keep_their_ports_until_the_routes_change() {
        let flow = |number: u16| Flow {
            src: 0x0a00_0001,
            dst: 0x0a00_0100 + u32::from(number % 7),
            ports: u32::from(number) << 16 | 0x50,
            protocol: 6,
        };
        let mut cache = RouteCache::default();
        assert_eq!(cache.recall_flow(flow(0)), None);
        for number in 0..1_000 {
            cache.learn_flow(flow(number), number % 4);
            assert_eq!(cache.recall_flow(flow(number)), Some(number % 4));
        }
        let held = (0..1_000).filter_map(|number| Some((number, cache.recall_flow(flow(number))?)));
        let held: Vec<_> = held.collect();
        assert!((FLOWS / 2..=FLOWS).contains(&held.len()), "{} flows", held.len());
        assert!(held.iter().all(|(number, port)| *port == number % 4));
        cache.forget();
        assert!((0..1_000).all(|number| cache.recall_flow(flow(number)).is_none()));
    }

    /// One route for 200 addresses: they end up with a slot each, or nearly so.
    #[test]
    fn a_crowded_table_grows() {
        let mut fib = Fib::new();
        let prefix: Prefix = "10.0.0.0/24".parse().expect("a prefix");
        fib.add(Route::on_link(prefix, 3)).expect("a new route");
        let mut cache = RouteCache::default();
        let addresses = || (0..200).map(|host| Ipv4Addr::new(10, 0, 0, host));
        let mut missing = 0;
        for _ in 0..20 {
            missing = 0;
            for dst in addresses() {
                if cache.recall(dst).is_none() {
                    missing += 1;
                    let key = RouteKey::to(dst.into());
                    cache.learn(&fib, dst, &key, fib.lookup(&key).into());
                }
                let Some(Remembered::Way(way)) = cache.recall(dst) else {
                    panic!("{dst} is forgotten")
                };
                assert_eq!(way, RouteResult::Out(3));
            }
        }
        assert!(missing <= 100, "{missing} of 200");
        assert!(cache.slots.len() <= 1_024, "{}", cache.slots.len());
    }
}
