//! What a link may do with packets: how large they may be, how long they take at least, in which order they arrive,
//! and that a repaired link loses none. It knows the plan and the changes, and computes times itself.

use core::net::IpAddr;
use datapath::packet::{Body, Network, Packet, Transport};
use datapath::reason::Reason;
use datapath::units::{Duration, Instant, NANOS_PER_SEC};
use std::collections::VecDeque;

use super::plan::{Direction, Impairments};

/// One direction of a wire.
#[derive(Debug, Default)]
pub struct LinkModel {
    /// bit/s; 0 takes no time.
    rate: u64,
    delay: Duration,
    /// What it has in place of both from certain times on (µs, kbit/s, µs), and when that begins again.
    steps: Vec<[u64; 3]>,
    period_us: u64,
    /// Bits that it has carried, and the largest packet among them.
    carried: u128,
    largest: u128,
    /// The largest MTU that its port has ever had: what waited in a queue is not measured again.
    mtu: u32,
    /// Nothing goes wrong on it: arrivals are known to the nanosecond.
    sound: bool,
    /// Whoever is put on it first comes first.
    ordered: bool,
    /// It makes copies, which cannot be distinguished from the originals, so arrival times are unknown.
    copies: bool,
    healed: bool,
    /// When the last bit of the latest packet leaves.
    busy_until: Instant,
    on_the_way: VecDeque<InFlight>,
}

/// A packet on a link.
#[derive(Debug)]
struct InFlight {
    look: PacketIdentity,
    /// When it comes at the earliest.
    due: Instant,
    /// It was put on a link on which nothing may go wrong any more.
    safe: bool,
}

/// What identifies a packet, apart from marks set on the way.
#[derive(Clone, Debug, PartialEq, Eq)]
struct PacketIdentity {
    ends: Option<(IpAddr, IpAddr)>,
    /// Identification and fragment offset of IPv4; those of IPv6 lie in a header of its own.
    piece: (u16, u16),
    /// Headers as they came, where there is something unusual in them.
    unusual: Vec<u8>,
    transport: Transport,
    body: Body,
}

impl PacketIdentity {
    fn of(packet: &Packet) -> Self {
        let (ends, piece) = match packet.network {
            Network::Ipv4(ip) => {
                (Some((ip.src.into(), ip.dst.into())), (ip.id, ip.fragment_offset))
            }
            Network::Ipv6(ip) => (Some((ip.src.into(), ip.dst.into())), (0, 0)),
            Network::Other(_) => (None, (0, 0)),
        };
        let unusual = packet.extra.as_ref().map_or_else(Vec::new, |extra| extra.raw.clone());
        Self { ends, piece, unusual, transport: packet.transport, body: packet.body.clone() }
    }
}

/// Bytes of the network layer of the largest packet that this one stands for, and of all of them
/// on the wire.
fn sizes(packet: &Packet) -> (u32, u64) {
    let link = packet.link.len();
    let segments = packet.segments();
    if segments <= 1 {
        return (packet.len() - link, u64::from(packet.len()));
    }
    let headers = packet.len() - packet.body.len;
    let wire = u64::from(headers) * u64::from(segments) + u64::from(packet.body.len);
    (headers - link + u32::from(packet.meta.gso_size), wire)
}

/// Whether impairments keeps the order in which packets are put on a link.
fn keeps_order(impairments: &Impairments) -> bool {
    let moves = |rule: &String| ["dup", "delay", "hold"].iter().any(|word| rule.contains(word));
    impairments.reordering == 0
        && !(impairments.jitter_us > 0 && impairments.jitter_reorders)
        && !impairments.rules.iter().any(moves)
}

/// Whether what is sent later never has a shorter way.
fn delays_grow(plan: &Direction) -> bool {
    let grow = plan.steps.windows(2).all(|pair| pair[0][2] <= pair[1][2]);
    grow && (plan.period_us == 0 || plan.steps.iter().all(|step| step[2] == plan.steps[0][2]))
}

/// Changes that are counted; what carries on for longer is not looked at any more.
const CHANGES_MAX: u128 = 1_000;

impl LinkModel {
    /// A link as it is planned, behind a port with this MTU.
    pub fn new(plan: &Direction, mtu: u32) -> Self {
        Self {
            rate: plan.kbit * 1_000,
            delay: Duration::from_micros(plan.delay_us),
            mtu,
            steps: plan.steps.clone(),
            period_us: plan.period_us,
            sound: plan.impairments == Impairments::default(),
            ordered: keeps_order(&plan.impairments) && delays_grow(plan),
            copies: plan.impairments.copies(),
            ..Self::default()
        }
    }

    /// It has another rate, in bit/s, from now on, unless it changes by steps.
    pub fn set_rate(&mut self, rate: u64) {
        if self.steps.is_empty() {
            self.rate = rate;
        }
    }

    /// The step of a time. Looked for in a plain way: one after the other.
    fn step_at(&self, at: Instant) -> [u64; 3] {
        let mut nanos = (at - Instant::ZERO).as_nanos();
        if self.period_us > 0 {
            nanos %= self.period_us * 1_000;
        }
        let begun = self.steps.iter().rev().find(|step| step[0] * 1_000 <= nanos);
        *begun.expect("the first begins at time zero")
    }

    /// What a link that changes has carried is no more than its rates allow: each change lets one
    /// packet keep the rate that it began with.
    fn carries_no_more(&self) -> Result<(), String> {
        let until = (self.busy_until - Instant::ZERO).as_nanos();
        let (mut could, mut begin, mut changes) = (0u128, 0u64, 1u128);
        while begin < until && changes < CHANGES_MAX {
            for (place, step) in self.steps.iter().enumerate() {
                let next = self.steps.get(place + 1).map(|next| next[0]);
                let next = next.or((self.period_us > 0).then_some(self.period_us));
                let end = next.map_or(until, |next| until.min(begin + next * 1_000));
                let from = begin + step[0] * 1_000;
                could += u128::from(end.saturating_sub(from)) * u128::from(step[1]) * 1_000;
                changes += 1;
            }
            begin = if self.period_us > 0 { begin + self.period_us * 1_000 } else { until };
        }
        let most = could.div_ceil(u128::from(NANOS_PER_SEC)) + changes * self.largest;
        if begin >= until && self.carried > most {
            return Err(format!("{} bits where {most} are possible", self.carried));
        }
        Ok(())
    }

    /// Its port has another MTU.
    pub fn set_mtu(&mut self, mtu: u32) {
        self.mtu = self.mtu.max(mtu);
    }

    /// Nothing goes wrong any more.
    pub fn repair(&mut self) {
        self.healed = true;
    }

    /// A packet is put on it.
    pub fn sent(&mut self, now: Instant, packet: &Packet) -> Result<(), String> {
        let (largest, wire) = sizes(packet);
        self.busy_until = self.busy_until.max(now);
        if !self.steps.is_empty() {
            let [_, kbit, _] = self.step_at(self.busy_until);
            self.rate = kbit * 1_000;
            self.carried += u128::from(wire) * 8;
            self.largest = self.largest.max(u128::from(wire) * 8);
        }
        if self.rate > 0 {
            let bits = u128::from(wire) * 8 * u128::from(NANOS_PER_SEC);
            let nanos = bits.div_ceil(u128::from(self.rate));
            self.busy_until += Duration::from_nanos(nanos as u64);
        }
        if !self.steps.is_empty() {
            let [_, _, delay_us] = self.step_at(self.busy_until);
            self.delay = Duration::from_micros(delay_us);
            self.carries_no_more()?;
        }
        if !self.copies {
            let due = self.busy_until + self.delay;
            self.on_the_way.push_back(InFlight {
                look: PacketIdentity::of(packet),
                due,
                safe: self.healed,
            });
        }
        if largest > self.mtu {
            let Self { mtu, .. } = self;
            return Err(format!(
                "{largest} bytes where the MTU is {mtu}: {:?}",
                PacketIdentity::of(packet)
            ));
        }
        Ok(())
    }

    /// One has come to its far end.
    pub fn delivered(&mut self, now: Instant, packet: &Packet) -> Result<(), String> {
        let look = PacketIdentity::of(packet);
        let mut places = self.on_the_way.iter().enumerate().filter(|(_, it)| it.look == look);
        let first = places.next().map(|(place, _)| place);
        // Of those that look the same, a later one may come first where the way has become shorter.
        let due = |(place, it): (usize, &InFlight)| (it.due == now).then_some(place);
        let early = first.filter(|first| !self.ordered && self.on_the_way[*first].due > now);
        let Some(place) = early.and_then(|_| places.find_map(due)).or(first) else {
            return Ok(());
        };
        let InFlight { due, .. } = self.on_the_way.remove(place).expect("just found");
        if self.ordered && place > 0 {
            return Err(format!("{look:?} has overtaken {:?}", self.on_the_way[0].look));
        }
        if now < due || (self.sound && now != due) {
            return Err(format!("due at {due:?}, it came at {now:?}: {look:?}"));
        }
        Ok(())
    }

    /// One is gone.
    pub fn dropped(&mut self, reason: Reason, packet: &Packet) -> Result<(), String> {
        let look = PacketIdentity::of(packet);
        let is_it = |it: &InFlight| it.look == look;
        // Chance decides when a packet is put on a link.
        let place = match reason {
            Reason::LinkLoss => self.on_the_way.iter().rposition(is_it),
            _ => self.on_the_way.iter().position(is_it),
        };
        let gone = place.and_then(|place| self.on_the_way.remove(place));
        if gone.is_some_and(|gone| gone.safe) {
            return Err(format!("{reason:?} on a healed link: {look:?}"));
        }
        Ok(())
    }
}
