//! A cache of route look-ups, by destination.
//!
//! Where nothing but the destination decides about the route (default rules, no TOS routes), it stays
//! the same for an address until the routes change, and so does its next hop, or the set it has to choose from.
//! Routers look up the same addresses again and again, and a walk through rules and tables costs more than everything
//! else they do with a packet. The kernel keeps such answers in sockets and next hops
//! (`dst_entry`, `rt_cache`). If a flow has several next hops and always gets the same one, that one is
//! cached, too: the hash costs as much as the rest of the look-up.

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

/// The cached answer for a destination.
#[derive(Clone, Copy, Debug)]
pub(super) enum CachedRoute {
    /// All packets to it go there.
    Route(RouteResult),
    /// Each packet chooses from these.
    Among(Candidates),
}

/// A table of answers, made at the first look-up after a change. An address may use either place of a
/// pair (two-way associative), so that there are few conflicts in a table not much larger than its contents.
#[derive(Debug, Default)]
pub(super) struct RouteCache {
    pairs: Vec<[Slot; 2]>,
    /// How far a digest is shifted for the number of its pair.
    shift: u32,
    /// Answers that have taken the place of another address since the table has this size.
    conflicts: usize,
    state: State,
    /// Ports by flow; none until a flow is remembered.
    flows: Vec<(Flow, u16)>,
}

/// The hashed fields of a forwarded packet by `fib_multipath_hash_policy` 1.
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
    Uncacheable,
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    dst: u32,
    answer: Answer,
}

/// A cached answer in one word: a router may have very many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Answer(u32);

impl Slot {
    const EMPTY: Self = Self { dst: 0, answer: Answer::NONE };
}

impl Answer {
    const NONE: Self = Self(u32::MAX);
    const LOCAL: Self = Self(u32::MAX - 1);
    /// Below are ports; from here on the numbers of candidates.
    const AMONG: u32 = 1 << u16::BITS;

    /// None where the number of the candidates is out of bounds.
    fn among(candidates: Candidates) -> Option<Self> {
        let answer = Self(candidates.number().checked_add(Self::AMONG)?);
        (answer.0 < Self::LOCAL.0).then_some(answer)
    }

    #[inline]
    fn read(self) -> Option<CachedRoute> {
        match self {
            Self::NONE => None,
            Self::LOCAL => Some(CachedRoute::Route(RouteResult::Local)),
            Self(port) if port < Self::AMONG => {
                Some(CachedRoute::Route(RouteResult::Out(port as u16)))
            }
            Self(number) => Some(CachedRoute::Among(Candidates::from_number(number - Self::AMONG))),
        }
    }
}

/// The most pairs there are.
const PAIRS_MAX: usize = 1 << 18;
const PAIRS_MIN: usize = 2;
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
    pub fn recall(&self, dst: Ipv4Addr) -> Option<CachedRoute> {
        if self.state != State::Usable {
            return None;
        }
        let dst = dst.to_bits();
        let pair = &self.pairs[self.place(dst)];
        // Which of the two it is cannot be predicted, so there is no branch.
        let found = &pair[usize::from(pair[1].dst == dst)];
        if found.dst == dst { found.answer.read() } else { None }
    }

    /// Prefetches the answer for `dst`.
    #[inline]
    pub fn prefetch(&self, dst: Ipv4Addr) {
        if self.state == State::Usable {
            prefetch_at(&self.pairs, self.place(dst.to_bits()));
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
                    Choice::None => Some(Answer(port.into())),
                    Choice::Among(candidates) => Answer::among(candidates),
                    Choice::Object => None,
                },
                RouteResult::Local => Some(Answer::LOCAL),
                RouteResult::Refused(_) => None,
            };
            if let Some(answer) = answer {
                self.put(Slot { dst: dst.to_bits(), answer });
            }
        }
    }

    /// Puts an answer in its place, or in that of the older one of two others.
    fn put(&mut self, slot: Slot) {
        let place = self.place(slot.dst);
        let pair = &mut self.pairs[place];
        if let Some(same) = pair.iter_mut().find(|there| there.dst == slot.dst) {
            *same = slot;
            return;
        }
        if pair[1].answer != Answer::NONE {
            self.conflicts += 1;
            self.grow_if_crowded();
        }
        let place = self.place(slot.dst);
        let [first, second] = &mut self.pairs[place];
        *second = core::mem::replace(first, slot);
    }

    /// A route may cover many addresses: how many of them are looked up turns out later.
    fn grow_if_crowded(&mut self) {
        let size = self.pairs.len();
        if self.conflicts > 4 * size && size < PAIRS_MAX {
            self.resize(2 * size);
        }
    }

    fn resize(&mut self, size: usize) {
        self.shift = 32 - size.trailing_zeros();
        self.conflicts = 0;
        self.pairs.clear();
        self.pairs.reserve_exact(size);
        self.pairs.resize(size, [Slot::EMPTY; 2]);
    }

    fn renew(&mut self, fib: &Fib) {
        self.pairs.clear();
        self.state = State::Uncacheable;
        if fib.decides_by_destination() {
            self.state = State::Usable;
            self.resize(fib.len().next_power_of_two().clamp(PAIRS_MIN, PAIRS_MAX));
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
            refused @ (Decision::Blackhole
            | Decision::Unreachable
            | Decision::Prohibit
            | Decision::NoRoute) => Self::Refused(refused),
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

    /// Two addresses of one pair are both remembered, a third one takes the place of the older.
    #[test]
    fn two_addresses_of_one_pair_are_both_remembered() {
        let mut fib = Fib::new();
        fib.add(Route::on_link(Prefix::DEFAULT_V4, 3)).expect("a new route");
        let mut cache = RouteCache::default();
        cache.renew(&fib);
        let of_one_pair = (1..).filter(|dst| cache.place(*dst) == 0);
        let three: Vec<_> = of_one_pair.map(Ipv4Addr::from_bits).take(3).collect();
        for dst in &three {
            let key = RouteKey::to((*dst).into());
            cache.learn(&fib, *dst, &key, RouteResult::Out(3));
        }
        let held = three.iter().map(|dst| cache.recall(*dst).is_some()).collect::<Vec<_>>();
        assert_eq!(held, [false, true, true]);
    }

    /// A port, candidates and the host itself are read as they were remembered.
    #[test]
    fn answers_in_a_word_are_what_they_were() {
        for number in [0, 1, u32::from(u16::MAX), 1 << 20, u32::MAX - (1 << 16) - 2] {
            let candidates = Candidates::from_number(number);
            let read = Answer::among(candidates).and_then(Answer::read);
            let fits = number < u32::MAX - (1 << 16) - 1;
            let is_same = matches!(read, Some(CachedRoute::Among(same)) if same == candidates);
            assert_eq!((is_same, read.is_none()), (fits, !fits), "{number}");
        }
        for port in [0, 1, u16::MAX] {
            let read = Answer(port.into()).read();
            let Some(CachedRoute::Route(way)) = read else { panic!("{read:?}") };
            assert_eq!(way, RouteResult::Out(port));
        }
        assert!(Answer::among(Candidates::from_number(u32::MAX)).is_none());
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
                let Some(CachedRoute::Route(way)) = cache.recall(dst) else {
                    panic!("{dst} is forgotten")
                };
                assert_eq!(way, RouteResult::Out(3));
            }
        }
        assert!(missing <= 100, "{missing} of 200");
        assert!(cache.pairs.len() <= 512, "{}", cache.pairs.len());
    }
}
